//! The resources of the REST interface, as far as reading needs them.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::job_model::DryRun;
use crate::error::{Error, Result};
use crate::types::{DatasetRef, TableRef, TableSchema, json};

/// What a table is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Rows of its own.
    Table,
    /// A query.
    View,
    /// A query whose result is kept.
    MaterializedView,
    /// Data that lives elsewhere.
    External,
    /// A table as it was at some time.
    Snapshot,
    /// All tables whose names begin alike.
    Wildcard,
    /// Something of another name.
    Other(String),
}

impl TableKind {
    fn parse(name: &str) -> Self {
        match name {
            "" | "TABLE" => TableKind::Table,
            "VIEW" => TableKind::View,
            "MATERIALIZED_VIEW" => TableKind::MaterializedView,
            "EXTERNAL" => TableKind::External,
            "SNAPSHOT" => TableKind::Snapshot,
            other => TableKind::Other(other.to_string()),
        }
    }
}

/// The name in sentences, as `a materialized view`.
impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableKind::Table => f.write_str("a table"),
            TableKind::View => f.write_str("a view"),
            TableKind::MaterializedView => f.write_str("a materialized view"),
            TableKind::External => f.write_str("an external table"),
            TableKind::Snapshot => f.write_str("a table snapshot"),
            TableKind::Wildcard => f.write_str("a wildcard table"),
            TableKind::Other(name) => write!(f, "of kind {name}"),
        }
    }
}

/// By what a table is divided into partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partitioning {
    /// By a column of time, or by the time of ingestion where there is none.
    Time {
        /// How long a partition is: `HOUR`, `DAY`, `MONTH` or `YEAR`.
        unit: String,
        /// The column; absent for ingestion time.
        column: Option<String>,
    },
    /// By ranges of an INT64 column.
    Range {
        /// The column.
        column: String,
    },
}

/// What `tables.get` says of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The table's name, in the case in which it exists.
    pub reference: TableRef,
    /// What it is.
    pub kind: TableKind,
    /// Its columns.
    pub schema: TableSchema,
    /// Changes with every change of the metadata.
    pub etag: Option<String>,
    /// The region of the data, such as `US` or `europe-west3`.
    pub location: Option<String>,
    /// What the table is for.
    pub description: Option<String>,
    /// Rows, without those still in the streaming buffer: an estimate.
    pub num_rows: Option<u64>,
    /// Bytes, without those still in the streaming buffer: an estimate.
    pub num_bytes: Option<u64>,
    /// Whether rows are in the streaming buffer, which the numbers leave out.
    pub has_streaming_buffer: bool,
    /// By what it is divided.
    pub partitioning: Option<Partitioning>,
    /// Whether every read has to filter on the partition column.
    pub require_partition_filter: bool,
    /// The columns by which rows are kept together.
    pub clustering: Vec<String>,
    /// The columns of the primary key, which the service does not enforce.
    pub primary_key: Vec<String>,
    /// What people and programs have marked it with.
    pub labels: BTreeMap<String, String>,
    /// The collation of STRING columns that declare none.
    pub default_collation: Option<String>,
    /// The query of a view.
    pub view_query: Option<String>,
    /// When it was created, by the service's clock.
    pub created: Option<DateTime<Utc>>,
}

/// What `tables.list` says of each table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableListItem {
    /// The table's name.
    pub reference: TableRef,
    /// What it is.
    pub kind: TableKind,
}

/// What `datasets.list` says of each dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetListItem {
    /// The dataset's name.
    pub reference: DatasetRef,
    /// The region of its data.
    pub location: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableAnswer {
    table_reference: TableReferenceAnswer,
    r#type: Option<String>,
    schema: Option<Value>,
    etag: Option<String>,
    location: Option<String>,
    description: Option<String>,
    num_rows: Option<Value>,
    num_bytes: Option<Value>,
    streaming_buffer: Option<Value>,
    time_partitioning: Option<TimePartitioningAnswer>,
    range_partitioning: Option<RangePartitioningAnswer>,
    require_partition_filter: Option<bool>,
    clustering: Option<ClusteringAnswer>,
    table_constraints: Option<ConstraintsAnswer>,
    labels: Option<BTreeMap<String, String>>,
    default_collation: Option<String>,
    view: Option<ViewAnswer>,
    materialized_view: Option<ViewAnswer>,
    creation_time: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableReferenceAnswer {
    project_id: String,
    dataset_id: String,
    table_id: String,
}

impl TableReferenceAnswer {
    /// The service's own names are taken as they are: it is the one to know
    /// what a name may contain.
    fn into_reference(self) -> TableRef {
        TableRef {
            project: self.project_id,
            dataset: self.dataset_id,
            table: self.table_id,
        }
    }
}

#[derive(Deserialize)]
struct TimePartitioningAnswer {
    #[serde(default)]
    r#type: String,
    field: Option<String>,
    #[serde(rename = "requirePartitionFilter")]
    require_partition_filter: Option<bool>,
}

#[derive(Deserialize)]
struct RangePartitioningAnswer {
    field: String,
}

#[derive(Deserialize)]
struct ClusteringAnswer {
    #[serde(default)]
    fields: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConstraintsAnswer {
    primary_key: Option<PrimaryKeyAnswer>,
}

#[derive(Deserialize)]
struct PrimaryKeyAnswer {
    #[serde(default)]
    columns: Vec<String>,
}

#[derive(Deserialize)]
struct ViewAnswer {
    query: Option<String>,
}

impl Table {
    /// Takes STRING columns that declare no collation to have the table's.
    pub(crate) fn collate(&mut self) {
        if let Some(collation) = self.default_collation.take() {
            self.schema.collate(&collation);
        }
    }

    /// The tables that `reference` means with its `*`, which have no resource: a
    /// query over them tells their columns.
    pub(crate) fn of_wildcard(reference: TableRef, described: DryRun) -> Self {
        Table {
            reference,
            kind: TableKind::Wildcard,
            schema: described.schema,
            etag: None,
            location: described.location,
            description: None,
            num_rows: None,
            num_bytes: described.bytes_processed,
            has_streaming_buffer: false,
            partitioning: None,
            require_partition_filter: false,
            clustering: Vec::new(),
            primary_key: Vec::new(),
            labels: BTreeMap::new(),
            default_collation: None,
            view_query: None,
            created: None,
        }
    }

    /// A table that is to be created with these columns.
    pub(crate) fn planned(reference: TableRef, schema: TableSchema) -> Self {
        Table {
            reference,
            kind: TableKind::Table,
            schema,
            etag: None,
            location: None,
            description: None,
            num_rows: None,
            num_bytes: None,
            has_streaming_buffer: false,
            partitioning: None,
            require_partition_filter: false,
            clustering: Vec::new(),
            primary_key: Vec::new(),
            labels: BTreeMap::new(),
            default_collation: None,
            view_query: None,
            created: None,
        }
    }

    /// Reads a table resource.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Data`] when the value is not one.
    pub fn from_json(value: &Value) -> Result<Self> {
        let answer = TableAnswer::deserialize(value).map_err(|error| {
            Error::data(format!(
                "the service's answer is not a table resource ({error})"
            ))
        })?;
        let time_filter = answer
            .time_partitioning
            .as_ref()
            .and_then(|time| time.require_partition_filter);
        let partitioning = match (answer.time_partitioning, answer.range_partitioning) {
            (Some(time), _) => Some(Partitioning::Time {
                unit: time.r#type,
                column: time.field,
            }),
            (None, Some(range)) => Some(Partitioning::Range {
                column: range.field,
            }),
            (None, None) => None,
        };
        Ok(Table {
            reference: answer.table_reference.into_reference(),
            kind: TableKind::parse(answer.r#type.as_deref().unwrap_or_default()),
            schema: json::table_schema(answer.schema.as_ref())?,
            etag: answer.etag,
            location: answer.location,
            description: answer.description,
            num_rows: number(answer.num_rows.as_ref()),
            num_bytes: number(answer.num_bytes.as_ref()),
            has_streaming_buffer: answer
                .streaming_buffer
                .is_some_and(|buffer| !buffer.is_null()),
            partitioning,
            require_partition_filter: answer
                .require_partition_filter
                .or(time_filter)
                .unwrap_or(false),
            clustering: answer.clustering.map(|c| c.fields).unwrap_or_default(),
            primary_key: answer
                .table_constraints
                .and_then(|constraints| constraints.primary_key)
                .map(|key| key.columns)
                .unwrap_or_default(),
            labels: answer.labels.unwrap_or_default(),
            default_collation: answer.default_collation.filter(|text| !text.is_empty()),
            view_query: answer
                .view
                .or(answer.materialized_view)
                .and_then(|view| view.query),
            created: millis(answer.creation_time.as_ref()),
        })
    }
}

/// A count that the service prints as a string. Estimates are optional, so
/// one that cannot be read is as good as absent.
pub(super) fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A time that the service prints as milliseconds.
pub(super) fn millis(value: Option<&Value>) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(i64::try_from(number(value)?).ok()?)
}

/// One page of a list, and the token by which to ask for the next.
#[derive(Debug, PartialEq)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<String>,
}

/// One page of `datasets.list`.
pub(super) fn dataset_page(value: &Value) -> Result<Page<DatasetListItem>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        #[serde(default)]
        datasets: Vec<Item>,
        next_page_token: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Item {
        dataset_reference: Reference,
        location: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Reference {
        project_id: String,
        dataset_id: String,
    }
    let answer = Answer::deserialize(value).map_err(|error| not_a_list("datasets", &error))?;
    let items = answer.datasets.into_iter().map(|item| DatasetListItem {
        reference: DatasetRef {
            project: item.dataset_reference.project_id,
            dataset: item.dataset_reference.dataset_id,
        },
        location: item.location,
    });
    Ok(Page {
        items: items.collect(),
        next: answer.next_page_token,
    })
}

/// One page of `tables.list`.
pub(super) fn table_page(value: &Value) -> Result<Page<TableListItem>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        #[serde(default)]
        tables: Vec<Item>,
        next_page_token: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Item {
        table_reference: TableReferenceAnswer,
        r#type: Option<String>,
    }
    let answer = Answer::deserialize(value).map_err(|error| not_a_list("tables", &error))?;
    let items = answer.tables.into_iter().map(|item| TableListItem {
        reference: item.table_reference.into_reference(),
        kind: TableKind::parse(item.r#type.as_deref().unwrap_or_default()),
    });
    Ok(Page {
        items: items.collect(),
        next: answer.next_page_token,
    })
}

fn not_a_list(what: &str, error: &serde_json::Error) -> Error {
    Error::data(format!(
        "the service's answer is not a list of {what} ({error})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::types::{FieldType, Mode};
    use serde_json::json;

    #[test]
    fn reads_a_whole_table() {
        let table = Table::from_json(&json!({
            "kind": "bigquery#table",
            "etag": "e1",
            "tableReference": {"projectId": "p", "datasetId": "d", "tableId": "t"},
            "type": "TABLE",
            "location": "US",
            "description": "text",
            "creationTime": "1700000000123",
            "numRows": "336776",
            "numBytes": "29000000",
            "streamingBuffer": {"estimatedRows": "1"},
            "timePartitioning": {"type": "DAY", "field": "day"},
            "requirePartitionFilter": true,
            "clustering": {"fields": ["a", "b"]},
            "tableConstraints": {"primaryKey": {"columns": ["id"]}},
            "labels": {"team": "data"},
            "defaultCollation": "und:ci",
            "schema": {"fields": [{"name": "id", "type": "INTEGER", "mode": "REQUIRED"}]},
        }))
        .unwrap();
        assert_eq!(table.reference.to_string(), "p.d.t");
        assert_eq!(table.kind, TableKind::Table);
        assert_eq!(
            table.created.map(|time| time.to_rfc3339()).as_deref(),
            Some("2023-11-14T22:13:20.123+00:00")
        );
        assert_eq!(table.num_rows, Some(336_776));
        assert_eq!(table.num_bytes, Some(29_000_000));
        assert!(table.has_streaming_buffer);
        assert_eq!(
            table.partitioning,
            Some(Partitioning::Time {
                unit: "DAY".into(),
                column: Some("day".into())
            })
        );
        assert!(table.require_partition_filter);
        assert_eq!(table.clustering, ["a", "b"]);
        assert_eq!(table.primary_key, ["id"]);
        assert_eq!(table.labels["team"], "data");
        assert_eq!(table.default_collation.as_deref(), Some("und:ci"));
        let id = &table.schema.fields[0];
        assert_eq!(
            (&id.field_type, id.mode),
            (&FieldType::Int64, Mode::Required)
        );
    }

    #[test]
    fn a_bare_table_is_enough() {
        let table = Table::from_json(&json!({
            "tableReference": {"projectId": "p", "datasetId": "d", "tableId": "v"},
            "type": "VIEW",
            "view": {"query": "SELECT 1"},
            "defaultCollation": "",
        }))
        .unwrap();
        assert_eq!(table.kind, TableKind::View);
        assert_eq!(table.view_query.as_deref(), Some("SELECT 1"));
        assert_eq!(table.num_rows, None);
        assert_eq!(table.default_collation, None);
        assert!(!table.require_partition_filter && !table.has_streaming_buffer);
    }

    #[test]
    fn what_is_not_a_table_is_an_error() {
        for value in [
            json!(null),
            json!([]),
            json!({}),
            json!({"tableReference": {}}),
        ] {
            let error = Table::from_json(&value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{value}");
        }
    }

    #[test]
    fn reads_pages() {
        let tables = table_page(&json!({
            "tables": [{
                "tableReference": {"projectId": "p", "datasetId": "d", "tableId": "t"},
                "type": "EXTERNAL",
            }],
            "nextPageToken": "n",
        }))
        .unwrap();
        assert_eq!(tables.items[0].kind, TableKind::External);
        assert_eq!(tables.next.as_deref(), Some("n"));
        let datasets = dataset_page(&json!({
            "datasets": [{"datasetReference": {"projectId": "p", "datasetId": "d"}, "location": "EU"}],
        }))
        .unwrap();
        assert_eq!(datasets.items[0].reference.to_string(), "p.d");
        assert_eq!(datasets.next, None);
        assert!(table_page(&json!({})).unwrap().items.is_empty());
        assert!(dataset_page(&json!({"datasets": 1})).is_err());
    }
}
