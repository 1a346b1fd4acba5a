//! Creating tables, and changing the columns of those that are there.

use chrono::{DateTime, Utc};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::Transport;
use super::model::Table;
use super::paths;
use super::transport::Request;
use crate::client::Client;
use crate::client::retry::{Backoff, RetryPolicy};
use crate::error::{Error, ErrorKind, Result, RetryAdvice};
use crate::options::{NewPartitioning, TableCreateOptions};
use crate::types::evolve::{self, SchemaChange};
use crate::types::{TableRef, TableSchema, json_write};

/// What a new table is like.
#[derive(Debug, Clone, Copy)]
pub struct NewTable<'a> {
    /// Its columns.
    pub columns: &'a TableSchema,
    /// The columns of its primary key; none where it has no key.
    pub primary_key: &'a [String],
    /// What else was asked for.
    pub terms: &'a TableCreateOptions,
}

/// What came of creating a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Created {
    /// It was created.
    Now(Box<Table>),
    /// There was one already, which may have other columns.
    Before,
}

impl Client {
    /// Creates a table. Many may do so at the same time: one creates it, and the
    /// others find it there.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when its dataset does not exist;
    /// [`ErrorKind::InvalidArgument`] when the service does not take the columns.
    pub async fn create_table(&self, table: &TableRef, new: NewTable<'_>) -> Result<Created> {
        self.0.rest.create_table(table, new).await
    }

    /// Looks at a table and makes the changes that `decide` wants of it; none if it
    /// wants none. Another change in between is no harm: then it decides anew, as
    /// `conflicts` says.
    ///
    /// # Errors
    /// Those of `decide`; [`ErrorKind::NotFound`] when the table does not exist;
    /// [`ErrorKind::PermissionDenied`] when it may not be changed.
    pub async fn change_columns<F>(
        &self,
        table: &TableRef,
        conflicts: RetryPolicy,
        decide: F,
    ) -> Result<(Table, Vec<SchemaChange>)>
    where
        F: Fn(&Table) -> Result<Vec<SchemaChange>> + Send + Sync,
    {
        self.0.rest.change_columns(table, conflicts, decide).await
    }

    /// Looks at a table and changes the labels that `decide` gives: None takes one
    /// away. Nothing is sent if it gives none. Another change in between is no harm:
    /// then it decides anew.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the table does not exist;
    /// [`ErrorKind::PermissionDenied`] when it may not be changed.
    pub async fn change_labels<F>(&self, table: &TableRef, decide: F) -> Result<Table>
    where
        F: Fn(&Table) -> Vec<(String, Option<String>)> + Send + Sync,
    {
        self.0.rest.change_labels(table, decide).await
    }
}

impl Transport {
    async fn create_table(&self, table: &TableRef, new: NewTable<'_>) -> Result<Created> {
        let path = paths::tables_beside(table);
        let body = resource(table, new, Utc::now());
        let request = Request::new(Method::POST, &path).with_body(&body);
        match self.send(request).await {
            Ok(answer) => Ok(Created::Now(Box::new(Table::from_json(&answer)?))),
            // By someone else, or by an attempt whose answer was lost.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Created::Before),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "table {table} cannot be created ({}): create dataset {} first",
                    error.message(),
                    table.dataset_ref()
                ),
            )),
            Err(error) => Err(error.with_context(format!("creating table {table}"))),
        }
    }

    async fn change_columns<F>(
        &self,
        table: &TableRef,
        conflicts: RetryPolicy,
        decide: F,
    ) -> Result<(Table, Vec<SchemaChange>)>
    where
        F: Fn(&Table) -> Result<Vec<SchemaChange>> + Send + Sync,
    {
        self.change_table(table, conflicts, |resource, found| {
            let changes = decide(found)?;
            if changes.is_empty() {
                return Ok(Decided::Nothing(changes));
            }
            let mut fields = resource["schema"]["fields"].clone();
            evolve::apply(&mut fields, &changes)?;
            let paths: Vec<_> = changes.iter().map(SchemaChange::path).collect();
            Ok(Decided::Change {
                body: json!({"schema": {"fields": fields}}),
                what: format!("columns '{}'", paths.join("', '")),
                decided: changes,
            })
        })
        .await
    }

    async fn change_labels<F>(&self, table: &TableRef, decide: F) -> Result<Table>
    where
        F: Fn(&Table) -> Vec<(String, Option<String>)> + Send + Sync,
    {
        let changed = self.change_table(table, RetryPolicy::CHANGE, |_, found| {
            let changes = decide(found);
            if changes.is_empty() {
                return Ok(Decided::Nothing(()));
            }
            let names: Vec<_> = changes.iter().map(|(name, _)| name.clone()).collect();
            let labels: Map<String, Value> = changes
                .into_iter()
                .map(|(name, value)| (name, value.map_or(Value::Null, Value::String)))
                .collect();
            Ok(Decided::Change {
                body: json!({"labels": labels}),
                what: format!("labels '{}'", names.join("', '")),
                decided: (),
            })
        });
        changed.await.map(|(table, ())| table)
    }

    /// Looks at a table and patches it as `decide` says of its resource, again and
    /// again until no other change came in between.
    async fn change_table<T, F>(
        &self,
        table: &TableRef,
        conflicts: RetryPolicy,
        decide: F,
    ) -> Result<(Table, T)>
    where
        F: Fn(&Value, &Table) -> Result<Decided<T>> + Send + Sync,
    {
        let path = paths::table(table);
        let mut conflicts = Backoff::new(conflicts, self.clock().clone());
        loop {
            let resource = self.get(&path, &[]).await?;
            let found = Table::from_json(&resource)?;
            let (body, what, decided) = match decide(&resource, &found)? {
                Decided::Nothing(decided) => return Ok((found, decided)),
                Decided::Change {
                    body,
                    what,
                    decided,
                } => (body, what, decided),
            };
            let request = Request::new(Method::PATCH, &path)
                .with_body(&body)
                .if_match(found.etag.as_deref());
            match self.send(request).await {
                Ok(answer) => return Ok((Table::from_json(&answer)?, decided)),
                // The table has changed since it was looked at.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    conflicts
                        .after(error.with_retry(RetryAdvice::Backoff))
                        .await?;
                }
                Err(error) => {
                    return Err(error.with_context(format!("changing {what} of table {table}")));
                }
            }
        }
    }
}

/// What is to become of a table that was looked at.
enum Decided<T> {
    Nothing(T),
    Change {
        /// What is patched.
        body: Value,
        /// The same in words.
        what: String,
        decided: T,
    },
}

/// The resource of a new table.
fn resource(table: &TableRef, new: NewTable<'_>, now: DateTime<Utc>) -> Value {
    let NewTable {
        columns,
        primary_key,
        terms,
    } = new;
    let mut body = Map::new();
    let mut put = |member: &str, value: Value| body.insert(member.to_string(), value);
    put(
        "tableReference",
        json!({
            "projectId": table.project,
            "datasetId": table.dataset,
            "tableId": table.table,
        }),
    );
    put(
        "schema",
        json!({"fields": json_write::fields(&columns.fields)}),
    );
    if !primary_key.is_empty() {
        let key: Vec<_> = primary_key
            .iter()
            .map(|column| own_spelling(columns, column))
            .collect();
        put("tableConstraints", json!({"primaryKey": {"columns": key}}));
    }
    match &terms.partitioning {
        None => {}
        Some(NewPartitioning::Time {
            unit,
            field,
            expiration,
        }) => {
            let mut partitioning = json!({"type": unit.name()});
            if let Some(field) = field {
                partitioning["field"] = json!(own_spelling(columns, field));
            }
            if let Some(expiration) = expiration {
                partitioning["expirationMs"] = json!(expiration.as_millis().to_string());
            }
            put("timePartitioning", partitioning);
        }
        Some(NewPartitioning::Range {
            field,
            start,
            end,
            interval,
        }) => {
            let range = json!({
                "start": start.to_string(),
                "end": end.to_string(),
                "interval": interval.to_string(),
            });
            let field = own_spelling(columns, field);
            put("rangePartitioning", json!({"field": field, "range": range}));
        }
    }
    if !terms.clustered_fields.is_empty() {
        let fields: Vec<_> = terms
            .clustered_fields
            .iter()
            .map(|field| own_spelling(columns, field))
            .collect();
        put("clustering", json!({"fields": fields}));
    }
    if !terms.labels.is_empty() {
        let labels: Map<String, Value> = terms
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        put("labels", Value::Object(labels));
    }
    if let Some(description) = &terms.description {
        put("description", json!(description));
    }
    if let Some(expiration) = terms.expiration {
        let end = i64::try_from(expiration.as_millis())
            .unwrap_or(i64::MAX)
            .saturating_add(now.timestamp_millis());
        put("expirationTime", json!(end.to_string()));
    }
    Value::Object(body)
}

/// The name as the table spells it.
fn own_spelling<'a>(columns: &'a TableSchema, name: &'a str) -> &'a str {
    columns.field(name).map_or(name, |field| &field.name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::PartitionUnit;
    use crate::types::{Field, FieldType, Mode};

    #[test]
    fn a_resource_says_everything_that_was_asked_for() {
        let table = TableRef::new("p", "d", "t").unwrap();
        let columns = TableSchema {
            fields: vec![
                Field::new("Day", FieldType::Date, Mode::Required),
                Field::new("n", FieldType::Int64, Mode::Nullable),
            ],
        };
        let mut terms = TableCreateOptions {
            partitioning: Some(NewPartitioning::Time {
                unit: PartitionUnit::Month,
                field: Some("day".into()),
                expiration: Some(Duration::from_secs(86_400)),
            }),
            clustered_fields: vec!["N".into()],
            labels: vec![("team".into(), "data".into())],
            description: Some("what".into()),
            expiration: Some(Duration::from_secs(60)),
        };
        let now = DateTime::from_timestamp_millis(1_000).unwrap();
        let key = ["day".to_string()];
        let new = NewTable {
            columns: &columns,
            primary_key: &key,
            terms: &terms,
        };
        let body = resource(&table, new, now);
        assert_eq!(
            body,
            json!({
                "tableReference": {"projectId": "p", "datasetId": "d", "tableId": "t"},
                "schema": {"fields": [
                    {"name": "Day", "type": "DATE", "mode": "REQUIRED"},
                    {"name": "n", "type": "INT64", "mode": "NULLABLE"},
                ]},
                "tableConstraints": {"primaryKey": {"columns": ["Day"]}},
                "timePartitioning": {"type": "MONTH", "field": "Day", "expirationMs": "86400000"},
                "clustering": {"fields": ["n"]},
                "labels": {"team": "data"},
                "description": "what",
                "expirationTime": "61000",
            })
        );
        terms = TableCreateOptions {
            partitioning: Some(NewPartitioning::Range {
                field: "n".into(),
                start: -10,
                end: 10,
                interval: 5,
            }),
            ..TableCreateOptions::default()
        };
        let new = NewTable {
            columns: &columns,
            primary_key: &[],
            terms: &terms,
        };
        let body = resource(&table, new, now);
        assert_eq!(body.get("tableConstraints"), None);
        assert_eq!(
            body["rangePartitioning"],
            json!({"field": "n", "range": {"start": "-10", "end": "10", "interval": "5"}})
        );
        assert_eq!(body.get("labels"), None);
        assert_eq!(body.get("expirationTime"), None);
    }
}
