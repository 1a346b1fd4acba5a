//! The Avro schema of a projection.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, RangeElement, TableSchema};

/// Namespace of the records that stand for BigQuery types.
const NAMESPACE: &str = "google.sqlType";

/// What becomes of column names that are no Avro names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::grpc::read) enum DisplayNames {
    /// The session fails.
    Off,
    /// A placeholder takes their place, and every field says its column's name in
    /// `displayName`.
    On,
}

/// The schema's JSON text.
pub(in crate::grpc::read) fn schema(table: &TableSchema, names: DisplayNames) -> Result<String> {
    named(table, "__root__", names)
}

/// The schema of a record called `name`.
pub(in crate::grpc::read) fn named(
    table: &TableSchema,
    name: &str,
    names: DisplayNames,
) -> Result<String> {
    let mut writer = Writer {
        names,
        records: 0,
        placeholders: 0,
        defined: HashSet::new(),
    };
    let fields = writer.fields(&table.fields, "")?;
    Ok(json!({"type": "record", "name": name, "fields": fields}).to_string())
}

struct Writer {
    names: DisplayNames,
    records: usize,
    placeholders: usize,
    /// Named types that were written; they are referred to from then on.
    defined: HashSet<String>,
}

fn is_avro_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl Writer {
    fn fields(&mut self, fields: &[Field], path: &str) -> Result<Vec<Value>> {
        let taken: HashSet<&str> = fields.iter().map(|f| f.name.as_str()).collect();
        fields
            .iter()
            .map(|field| {
                let path = if path.is_empty() {
                    field.name.clone()
                } else {
                    format!("{path}.{}", field.name)
                };
                let mut out = Map::new();
                out.insert("name".into(), self.name(field, &path, &taken)?.into());
                if self.names == DisplayNames::On {
                    out.insert("displayName".into(), field.name.clone().into());
                }
                out.insert("type".into(), self.field_type(field, &path)?);
                Ok(out.into())
            })
            .collect()
    }

    fn name(&mut self, field: &Field, path: &str, taken: &HashSet<&str>) -> Result<String> {
        if is_avro_name(&field.name) {
            return Ok(field.name.clone());
        }
        if self.names == DisplayNames::Off {
            return Err(ServiceError::invalid(format!(
                "request failed: column name {path:?} is not a valid Avro field name; set enable_display_name_attribute or read in the ARROW format"
            )));
        }
        loop {
            let name = format!("_column_{}", self.placeholders);
            self.placeholders += 1;
            if !taken.contains(name.as_str()) {
                return Ok(name);
            }
        }
    }

    fn field_type(&mut self, field: &Field, path: &str) -> Result<Value> {
        let value = self.value_type(field, path)?;
        Ok(match field.mode() {
            Mode::Required => value,
            Mode::Nullable => json!(["null", value]),
            Mode::Repeated => json!({"type": "array", "items": value}),
        })
    }

    fn value_type(&mut self, field: &Field, path: &str) -> Result<Value> {
        let decimal = |precision: i64, scale: i64| {
            let (p, s) = match (field.precision, field.scale) {
                (Some(p), s) => (p, s.unwrap_or(0)),
                (None, _) => (precision, scale),
            };
            json!({"type": "bytes", "logicalType": "decimal", "precision": p, "scale": s})
        };
        Ok(match &field.field_type {
            FieldType::Int64 => json!("long"),
            FieldType::Float64 => json!("double"),
            FieldType::Bool => json!("boolean"),
            FieldType::String => json!("string"),
            FieldType::Bytes => json!("bytes"),
            FieldType::Numeric => decimal(38, 9),
            FieldType::Bignumeric => decimal(77, 38),
            FieldType::Date => json!({"type": "int", "logicalType": "date"}),
            FieldType::Time => json!({"type": "long", "logicalType": "time-micros"}),
            FieldType::Datetime => json!({"type": "string", "logicalType": "datetime"}),
            FieldType::Timestamp => json!({"type": "long", "logicalType": "timestamp-micros"}),
            FieldType::Geography => json!({"type": "string", "sqlType": "GEOGRAPHY"}),
            FieldType::Json => json!({"type": "string", "sqlType": "JSON"}),
            FieldType::Interval => self.defined("INTERVAL", |_| {
                json!([
                    {"name": "months", "type": "int"},
                    {"name": "days", "type": "int"},
                    {"name": "microseconds", "type": "long"},
                ])
            }),
            FieldType::Range(element) => self.range(*element),
            FieldType::Struct(fields) => {
                let name = format!("__s_{}", self.records);
                self.records += 1;
                let fields = self.fields(fields, path)?;
                json!({"type": "record", "name": name, "fields": fields})
            }
        })
    }

    /// A record of the type namespace, or its name when it was written before.
    fn defined(&mut self, name: &str, fields: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.defined.insert(name.to_string()) {
            return format!("{NAMESPACE}.{name}").into();
        }
        let fields = fields(self);
        json!({"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields})
    }

    fn range(&mut self, element: RangeElement) -> Value {
        let bound = match element {
            RangeElement::Date => json!({"type": "int", "logicalType": "date"}),
            RangeElement::Datetime => json!({"type": "string", "logicalType": "datetime"}),
            RangeElement::Timestamp => json!({"type": "long", "logicalType": "timestamp-micros"}),
        };
        let name = format!("RANGE_{}", element.field_type().sql_name());
        let mut record = self.defined(&name, |_| {
            json!([
                {"name": "start", "type": ["null", bound]},
                {"name": "end", "type": ["null", bound]},
            ])
        });
        if let Some(record) = record.as_object_mut() {
            record.insert("sqlType".into(), "RANGE".into());
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(fields: Value) -> TableSchema {
        serde_json::from_value(json!({ "fields": fields })).unwrap()
    }

    #[test]
    fn names_are_defined_once() {
        let table = table(json!([
            {"name": "a", "type": "INTERVAL"},
            {"name": "b", "type": "INTERVAL", "mode": "REPEATED"},
            {"name": "r", "type": "RANGE", "rangeElementType": {"type": "DATETIME"}},
            {"name": "q", "type": "RANGE", "rangeElementType": {"type": "DATETIME"}, "mode": "REQUIRED"},
            {"name": "s", "type": "RECORD", "fields": [
                {"name": "t", "type": "RECORD", "mode": "REPEATED", "fields": [{"name": "x", "type": "FLOAT"}]}]},
            {"name": "n", "type": "NUMERIC", "precision": "10", "scale": "2"},
        ]));
        let text = schema(&table, DisplayNames::Off).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let field = |i: usize| value["fields"][i]["type"].clone();
        assert_eq!(value["name"], "__root__");
        assert_eq!(field(0)[1]["name"], "INTERVAL");
        assert_eq!(field(1)["items"], "google.sqlType.INTERVAL");
        assert_eq!(field(2)[1]["sqlType"], "RANGE");
        assert_eq!(field(3), "google.sqlType.RANGE_DATETIME");
        assert_eq!(field(4)[1]["name"], "__s_0");
        assert_eq!(field(4)[1]["fields"][0]["type"]["items"]["name"], "__s_1");
        assert_eq!(field(5)[1]["precision"], 10);
    }

    #[test]
    fn names_that_avro_does_not_have() {
        let table = table(json!([
            {"name": "größe", "type": "STRING"},
            {"name": "_column_0", "type": "STRING"},
            {"name": "s", "type": "RECORD", "fields": [{"name": "a b", "type": "STRING"}]},
        ]));
        let error = schema(&table, DisplayNames::Off).unwrap_err();
        assert!(error.message.contains("größe"), "{error}");
        let value: Value =
            serde_json::from_str(&schema(&table, DisplayNames::On).unwrap()).unwrap();
        let names: Vec<_> = value["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| {
                (
                    f["name"].as_str().unwrap(),
                    f["displayName"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            names,
            [
                ("_column_1", "größe"),
                ("_column_0", "_column_0"),
                ("s", "s")
            ]
        );
    }
}
