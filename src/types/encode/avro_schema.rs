//! The schema that stands in an Avro file, and which columns a file can hold.
//!
//! What the service makes of it:
//! <https://cloud.google.com/bigquery/docs/loading-data-cloud-storage-avro>.

use serde_json::{Value as Json, json};

use super::plan::{Column, Value};
use crate::error::{Error, ErrorKind, Result};

/// The schema of the rows, a record.
pub(super) fn schema(columns: &[Column]) -> Json {
    record(columns, &mut 0)
}

/// Records have names that differ; what they are says nothing to the service.
fn record(columns: &[Column], records: &mut usize) -> Json {
    *records += 1;
    let name = format!("record_{records}");
    let fields: Vec<Json> = columns
        .iter()
        .map(|column| json!({"name": column.name, "type": field_type(column, records)}))
        .collect();
    json!({"type": "record", "name": name, "fields": fields})
}

fn field_type(column: &Column, records: &mut usize) -> Json {
    let value = value_type(&column.value, records);
    match (column.repeated, column.required) {
        (true, _) => json!({"type": "array", "items": value}),
        (false, true) => value,
        (false, false) => json!(["null", value]),
    }
}

fn value_type(value: &Value, records: &mut usize) -> Json {
    let logical = |kind: &str, logical: &str| json!({"type": kind, "logicalType": logical});
    match value {
        Value::Int64 => json!("long"),
        Value::Float64 => json!("double"),
        Value::Bool => json!("boolean"),
        // The load job's own schema says which text is JSON or a geography.
        Value::Text | Value::JsonText | Value::JsonDocument => json!("string"),
        Value::Bytes => json!("bytes"),
        Value::Decimal(decimal) => {
            // 38 and 9 are NUMERIC, 77 and 38 are BIGNUMERIC
            // (`configuration.load.decimalTargetTypes` of the REST interface).
            let (precision, scale) = if decimal.wide { (77, 38) } else { (38, 9) };
            json!({"type": "bytes", "logicalType": "decimal", "precision": precision,
                   "scale": scale})
        }
        Value::Date => logical("int", "date"),
        Value::Time => logical("long", "time-micros"),
        Value::DateTime => logical("long", "local-timestamp-micros"),
        Value::Timestamp => logical("long", "timestamp-micros"),
        Value::Struct(columns) => record(columns, records),
        // Refused when the encoder was planned.
        Value::Interval | Value::Range(_) => json!("null"),
    }
}

/// Refuses columns that no load job takes from a file: types that files do not
/// have, and names that Avro does not allow (<https://avro.apache.org/docs/1.11.1/specification/#names>),
/// which Parquet files shall not have either, so that the format is no trap.
pub(super) fn check(columns: &[Column]) -> Result<()> {
    let mut problems = Vec::new();
    visit(columns, &mut problems);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "{}: write such columns by another sink.write_method",
            problems.join("; ")
        ),
    ))
}

fn visit(columns: &[Column], problems: &mut Vec<String>) {
    for column in columns {
        let path = &column.path;
        if !is_plain_name(&column.name) {
            problems.push(format!(
                "column '{path}': load jobs take names of ASCII letters, digits and underscores \
                 from files, that do not begin with a digit"
            ));
        }
        match &column.value {
            Value::Interval | Value::Range(_) => {
                let name = match &column.value {
                    Value::Interval => "INTERVAL",
                    _ => "RANGE",
                };
                problems.push(format!(
                    "column '{path}': load jobs do not take {name} values from files"
                ));
            }
            Value::Struct(columns) if columns.is_empty() => problems.push(format!(
                "column '{path}': a struct of which nothing is written has no form in files"
            )),
            Value::Struct(columns) => visit(columns, problems),
            Value::Int64
            | Value::Float64
            | Value::Bool
            | Value::Text
            | Value::Bytes
            | Value::Decimal(_)
            | Value::Date
            | Value::Time
            | Value::DateTime
            | Value::Timestamp
            | Value::JsonText
            | Value::JsonDocument => {}
        }
    }
}

fn is_plain_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
