//! Tables that serve one commit and expire by themselves.

use chrono::{DateTime, Utc};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Transport;
use super::model::number;
use super::paths;
use super::transport::Request;
use crate::error::{Error, ErrorKind, Result};
use crate::types::TableRef;

/// What a copy job that replaces a table takes over from the tables that it
/// copies, so that they have to have it
/// (<https://cloud.google.com/bigquery/docs/managing-tables#copy-table>).
const TAKEN_OVER: [&str; 6] = [
    "requirePartitionFilter",
    "timePartitioning",
    "rangePartitioning",
    "clustering",
    "tableConstraints",
    "defaultCollation",
];

/// A table's own description of itself, with what this library does not read.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDefinition(Value);

impl TableDefinition {
    /// `schema` of the REST interface.
    pub fn schema(&self) -> Value {
        self.0
            .get("schema")
            .cloned()
            .unwrap_or_else(|| Map::new().into())
    }

    /// Whether every query has to filter on the partition column.
    pub fn requires_partition_filter(&self) -> bool {
        [
            "/requirePartitionFilter",
            "/timePartitioning/requirePartitionFilter",
        ]
        .iter()
        .any(|path| self.0.pointer(path) == Some(&Value::Bool(true)))
    }

    /// Whether a column, or a field of one, is REQUIRED.
    pub fn has_required_columns(&self) -> bool {
        fn any(fields: Option<&Value>) -> bool {
            let fields = fields.and_then(Value::as_array);
            fields.into_iter().flatten().any(|field| {
                let mode = field.get("mode").and_then(Value::as_str);
                mode == Some("REQUIRED") || any(field.get("fields"))
            })
        }
        any(self.0.pointer("/schema/fields"))
    }

    /// The same table, but every query of it may leave out the filter.
    #[must_use]
    pub fn without_partition_filter(mut self) -> Self {
        if let Some(table) = self.0.as_object_mut() {
            table.remove("requirePartitionFilter");
            let partitioning = table.get_mut("timePartitioning");
            if let Some(partitioning) = partitioning.and_then(Value::as_object_mut) {
                partitioning.remove("requirePartitionFilter");
            }
        }
        self
    }

    /// The region of the data.
    pub fn location(&self) -> Option<&str> {
        self.0.get("location").and_then(Value::as_str)
    }
}

/// How many rows a table is known to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownRows {
    /// So many, and none besides.
    All(u64),
    /// Some are in the streaming buffer, which copy jobs leave out.
    SomeStreamed,
    /// There is no such table.
    NoTable,
}

impl Transport {
    /// A table's definition.
    pub(crate) async fn table_definition(&self, table: &TableRef) -> Result<TableDefinition> {
        self.table_answer(table).await.map(TableDefinition)
    }

    /// Makes an empty table with the columns, partitioning, clustering and
    /// constraints of another, which the service deletes at `expires`; one that
    /// exists stays as it is.
    pub(crate) async fn create_temporary(
        &self,
        table: &TableRef,
        like: &TableDefinition,
        expires: DateTime<Utc>,
    ) -> Result<()> {
        let mut body = Map::new();
        body.insert("tableReference".into(), paths::reference(table));
        body.insert("schema".into(), like.schema());
        let expires = expires.timestamp_millis().to_string();
        body.insert("expirationTime".into(), expires.into());
        for member in TAKEN_OVER {
            if let Some(value) = like.0.get(member) {
                body.insert(member.into(), value.clone());
            }
        }
        let path = paths::tables_beside(table);
        let body = Value::Object(body);
        let request = Request::new(Method::POST, &path).with_body(&body);
        match self.send(request).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error.with_context(format!(
                "creating temporary table {table} (option 'sink.file_loads.temp_dataset' names \
                 another dataset for it)"
            ))),
        }
    }

    /// How many rows a table has.
    pub(crate) async fn known_rows(&self, table: &TableRef) -> Result<KnownRows> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            num_rows: Option<Value>,
            streaming_buffer: Option<Value>,
        }
        let answer = match self.table_answer(table).await {
            Ok(answer) => answer,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(KnownRows::NoTable),
            Err(error) => return Err(error),
        };
        let answer = Answer::deserialize(&answer).map_err(|error| {
            Error::data(format!(
                "the service's answer is not a table resource ({error})"
            ))
        })?;
        match (number(answer.num_rows.as_ref()), answer.streaming_buffer) {
            (Some(rows), None) => Ok(KnownRows::All(rows)),
            _ => Ok(KnownRows::SomeStreamed),
        }
    }

    /// Deletes a table; one that is not there is deleted already.
    pub(crate) async fn delete_table(&self, table: &TableRef) -> Result<()> {
        let path = paths::table(table);
        match self.send(Request::new(Method::DELETE, &path)).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.with_context(format!("deleting table {table}"))),
        }
    }

    async fn table_answer(&self, table: &TableRef) -> Result<Value> {
        let path = paths::table(table);
        self.get(&path, &[])
            .await
            .map_err(|error| error.with_context(format!("table {table}")))
    }
}
