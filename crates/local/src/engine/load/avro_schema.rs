//! What BigQuery makes of an Avro schema (section 5.4 of the service reference).

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::convert::{FileField, Leaf, Logical, Shape};
use super::decimal::DecimalTargets;
use super::parquet_schema::{array_of, map_of, record_of};
use super::{FormatOptions, reading};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode};

/// Records, arrays and unions inside each other at most.
const MAX_DEPTH: usize = 32;

/// How Avro's types are taken.
#[derive(Debug)]
pub(super) struct Rules {
    logical_types: bool,
    decimals: DecimalTargets,
}

impl Rules {
    pub(super) fn read(options: &FormatOptions) -> Result<Self> {
        Ok(Self {
            logical_types: options.use_avro_logical_types == Some(true),
            decimals: DecimalTargets::read(options)?,
        })
    }

    /// The columns of a file whose schema is `schema`.
    pub(super) fn columns(&self, schema: &Value) -> Result<Vec<FileField>> {
        let mut reader = Reader {
            rules: self,
            named: HashMap::new(),
        };
        let root = reader.field("root", schema, "", 0)?;
        match root.shape {
            Shape::Record(children) => Ok(children),
            _ => Err(unsupported("The root of an Avro schema must be a record")),
        }
    }
}

fn unsupported(what: impl std::fmt::Display) -> ServiceError {
    reading(format_args!("The Avro schema cannot be loaded: {what}"))
}

struct Reader<'a> {
    rules: &'a Rules,
    /// Definitions of named types by full name.
    named: HashMap<String, Value>,
}

impl Reader<'_> {
    fn field(
        &mut self,
        name: &str,
        schema: &Value,
        space: &str,
        depth: usize,
    ) -> Result<FileField> {
        if depth > MAX_DEPTH {
            return Err(unsupported(format_args!(
                "types are nested deeper than {MAX_DEPTH} levels or recursive (field {name})"
            )));
        }
        match schema {
            Value::String(type_name) => self.by_name(name, type_name, space, depth),
            Value::Array(members) => self.union(name, members, space, depth),
            Value::Object(definition) => self.defined(name, definition, space, depth),
            other => Err(unsupported(format_args!("{other} is no type"))),
        }
    }

    fn by_name(
        &mut self,
        name: &str,
        type_name: &str,
        space: &str,
        depth: usize,
    ) -> Result<FileField> {
        if let Some(field_type) = primitive(type_name) {
            return Ok(value(name, field_type, Leaf::Plain, type_name));
        }
        let full = full_name(type_name, space);
        let definition = self
            .named
            .get(&full)
            .or_else(|| self.named.get(type_name))
            .cloned()
            .ok_or_else(|| unsupported(format_args!("unknown type {type_name}")))?;
        self.field(name, &definition, space, depth + 1)
    }

    fn defined(
        &mut self,
        name: &str,
        definition: &Map<String, Value>,
        space: &str,
        depth: usize,
    ) -> Result<FileField> {
        let kind = definition
            .get("type")
            .ok_or_else(|| unsupported("a type without \"type\""))?;
        let Value::String(kind) = kind else {
            // {"type": {"type": …}} and {"type": […]} are the inner type.
            return self.field(name, kind, space, depth + 1);
        };
        let own_space = self.remember(definition, space);
        match kind.as_str() {
            "record" | "error" => {
                let members = definition.get("fields").and_then(Value::as_array);
                let mut children = Vec::new();
                for member in members.into_iter().flatten() {
                    let (Some(member_name), Some(member_type)) = (
                        member.get("name").and_then(Value::as_str),
                        member.get("type"),
                    ) else {
                        return Err(unsupported("a field without name or type"));
                    };
                    let member_type = with_attributes(member_type, member);
                    let child = self.field(member_name, &member_type, &own_space, depth + 1)?;
                    children.push(child);
                }
                if children.is_empty() {
                    return Err(unsupported(format_args!("record {name} has no fields")));
                }
                let mut record = record_of(name, children);
                record.field.mode = Some(Mode::Required);
                record.type_name = "record".to_string();
                Ok(record)
            }
            "enum" => Ok(value(name, FieldType::String, Leaf::Plain, "enum")),
            "array" => {
                let items = definition
                    .get("items")
                    .ok_or_else(|| unsupported(format_args!("array {name} without items")))?;
                let element = self.field(name, items, &own_space, depth + 1)?;
                if element.field.mode() == Mode::Repeated {
                    return Err(unsupported(format_args!("{name} is an array of arrays")));
                }
                let mut array = array_of(name, element);
                array.type_name = "array".to_string();
                Ok(array)
            }
            "map" => {
                let values = definition
                    .get("values")
                    .ok_or_else(|| unsupported(format_args!("map {name} without values")))?;
                let key = value("key", FieldType::String, Leaf::Plain, "string");
                let value = self.field("value", values, &own_space, depth + 1)?;
                let mut map = map_of(name, key, value);
                map.type_name = "map".to_string();
                Ok(map)
            }
            _ => self.scalar(name, kind, definition, space, depth),
        }
    }

    /// Keeps a named type for later references; answers the namespace inside it.
    fn remember(&mut self, definition: &Map<String, Value>, space: &str) -> String {
        let named = matches!(
            definition.get("type").and_then(Value::as_str),
            Some("record" | "error" | "enum" | "fixed")
        );
        let Some(name) = definition.get("name").and_then(Value::as_str) else {
            return space.to_string();
        };
        if !named {
            return space.to_string();
        }
        let own = definition
            .get("namespace")
            .and_then(Value::as_str)
            .unwrap_or(space);
        let full = full_name(name, own);
        self.named
            .insert(full.clone(), Value::Object(definition.clone()));
        full.rsplit_once('.')
            .map_or_else(String::new, |(space, _)| space.to_string())
    }

    fn scalar(
        &mut self,
        name: &str,
        kind: &str,
        definition: &Map<String, Value>,
        space: &str,
        depth: usize,
    ) -> Result<FileField> {
        let logical = definition.get("logicalType").and_then(Value::as_str);
        if let (Some("decimal"), "bytes" | "fixed") = (logical, kind) {
            return self.decimal(name, kind, definition);
        }
        if kind == "fixed" {
            return Ok(value(name, FieldType::Bytes, Leaf::Plain, "fixed"));
        }
        if kind == "string" && definition.get("sqlType").and_then(Value::as_str) == Some("JSON") {
            return Ok(value(name, FieldType::Json, Leaf::Plain, "string"));
        }
        let meaning = logical.filter(|_| self.rules.logical_types);
        let (field_type, logical) = match (kind, meaning) {
            ("int", Some("date")) => (FieldType::Date, Logical::Date),
            ("int", Some("time-millis")) => (FieldType::Time, Logical::TimeMillis),
            ("long", Some("time-micros")) => (FieldType::Time, Logical::TimeMicros),
            ("long", Some("timestamp-millis")) => (FieldType::Timestamp, Logical::TimestampMillis),
            ("long", Some("timestamp-micros")) => (FieldType::Timestamp, Logical::TimestampMicros),
            ("long", Some("timestamp-nanos")) => (FieldType::Timestamp, Logical::TimestampNanos),
            ("long", Some("local-timestamp-millis")) => (FieldType::Datetime, Logical::LocalMillis),
            ("long", Some("local-timestamp-micros")) => (FieldType::Datetime, Logical::LocalMicros),
            ("long", Some("local-timestamp-nanos")) => (FieldType::Datetime, Logical::LocalNanos),
            _ => return self.by_name(name, kind, space, depth),
        };
        Ok(value(name, field_type, Leaf::Logical(logical), kind))
    }

    fn decimal(
        &self,
        name: &str,
        kind: &str,
        definition: &Map<String, Value>,
    ) -> Result<FileField> {
        let number = |key| {
            definition
                .get(key)
                .and_then(Value::as_u64)
                .and_then(|n| usize::try_from(n).ok())
        };
        let precision = number("precision")
            .ok_or_else(|| unsupported(format_args!("decimal {name} without precision")))?;
        let scale = number("scale").unwrap_or(0);
        let leaf = Leaf::DecimalBytes {
            scale: u8::try_from(scale)
                .ok()
                .filter(|s| *s <= 76)
                .ok_or_else(|| unsupported(format_args!("decimal {name} of scale {scale}")))?,
        };
        Ok(value(
            name,
            self.rules.decimals.pick(precision, scale),
            leaf,
            kind,
        ))
    }

    fn union(
        &mut self,
        name: &str,
        members: &[Value],
        space: &str,
        depth: usize,
    ) -> Result<FileField> {
        let is_null = |m: &&Value| m.as_str() == Some("null");
        let nullable = members.iter().any(|m| is_null(&m));
        let others: Vec<&Value> = members.iter().filter(|m| !is_null(m)).collect();
        match others.as_slice() {
            [] => Err(unsupported(format_args!(
                "{name} is never anything but null"
            ))),
            [one] => {
                let mut field = self.field(name, one, space, depth + 1)?;
                if nullable && field.field.mode() == Mode::Required {
                    field.field.mode = Some(Mode::Nullable);
                }
                Ok(field)
            }
            several => {
                let mut fields = Vec::new();
                for member in several {
                    let label = format!("{}_value", label(member));
                    let mut field = self.field(&label, member, space, depth + 1)?;
                    if field.field.mode() == Mode::Required {
                        field.field.mode = Some(Mode::Nullable);
                    }
                    fields.push(field);
                }
                let columns = fields.iter().map(|f| f.field.clone()).collect();
                Ok(FileField {
                    name: name.to_string(),
                    field: Field::new(name, FieldType::Struct(columns)).with_mode(Mode::Nullable),
                    type_name: "union".to_string(),
                    shape: Shape::Union(fields),
                })
            }
        }
    }
}

/// The name of a union's member.
fn label(schema: &Value) -> String {
    let text = match schema {
        Value::String(name) => name.as_str(),
        Value::Object(definition) => definition
            .get("name")
            .or_else(|| definition.get("type"))
            .and_then(Value::as_str)
            .unwrap_or("member"),
        _ => "member",
    };
    text.rsplit('.').next().unwrap_or(text).to_string()
}

/// Attributes that some writers put on the field instead of its type.
fn with_attributes(schema: &Value, field: &Value) -> Value {
    let (Value::String(kind), Some(sql_type)) = (schema, field.get("sqlType")) else {
        return schema.clone();
    };
    json!({"type": kind, "sqlType": sql_type})
}

fn full_name(name: &str, space: &str) -> String {
    if name.contains('.') || space.is_empty() {
        name.to_string()
    } else {
        format!("{space}.{name}")
    }
}

fn primitive(name: &str) -> Option<FieldType> {
    Some(match name {
        "boolean" => FieldType::Bool,
        "int" | "long" => FieldType::Int64,
        "float" | "double" => FieldType::Float64,
        "bytes" => FieldType::Bytes,
        "string" => FieldType::String,
        _ => return None,
    })
}

fn value(name: &str, field_type: FieldType, leaf: Leaf, type_name: &str) -> FileField {
    FileField {
        name: name.to_string(),
        field: Field::new(name, field_type).with_mode(Mode::Required),
        shape: Shape::Value(leaf),
        type_name: type_name.to_string(),
    }
}

/// The schema without logical types: the reader then gives plain numbers and bytes,
/// whose meaning [`FileField`] knows.
pub(super) fn without_logical_types(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| {
                !matches!(
                    key.as_str(),
                    "logicalType" | "precision" | "scale" | "sqlType"
                )
            })
            .map(|(key, value)| {
                // Names, documentation and defaults are not types.
                let stripped = match key.as_str() {
                    "type" | "items" | "values" | "fields" => without_logical_types(value),
                    _ => value.clone(),
                };
                (key.clone(), stripped)
            })
            .collect::<Map<String, Value>>()
            .into(),
        Value::Array(items) => items.iter().map(without_logical_types).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(fields: Value, options: Value) -> Result<Vec<String>> {
        let options: FormatOptions = serde_json::from_value(options).unwrap();
        let schema = json!({"type": "record", "name": "ns.r", "fields": fields});
        let columns = Rules::read(&options)?.columns(&schema)?;
        Ok(columns
            .iter()
            .map(|c| {
                format!(
                    "{} {} {:?}",
                    c.field.name,
                    c.field.sql_type(),
                    c.field.mode()
                )
            })
            .collect())
    }

    #[test]
    fn types_and_modes() {
        let fields = json!([
            {"name": "a", "type": "long"},
            {"name": "b", "type": ["null", "string"]},
            {"name": "l", "type": ["null", {"type": "array", "items": "int"}]},
            {"name": "m", "type": {"type": "map", "values": ["null", "double"]}},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X"]}},
            {"name": "again", "type": "E"},
            {"name": "f", "type": {"type": "fixed", "name": "F", "size": 4}},
            {"name": "s", "type": ["null", {"type": "record", "name": "S", "fields": [
                {"name": "x", "type": "E"}]}]},
            {"name": "u", "type": ["null", "int", "string"]},
            {"name": "j", "type": {"type": "string", "sqlType": "JSON"}}
        ]);
        assert_eq!(
            columns(fields, json!({})).unwrap(),
            [
                "a INT64 Required",
                "b STRING Nullable",
                "l ARRAY<INT64> Repeated",
                "m ARRAY<STRUCT<key STRING, value FLOAT64>> Repeated",
                "e STRING Required",
                "again STRING Required",
                "f BYTES Required",
                "s STRUCT<x STRING> Nullable",
                "u STRUCT<int_value INT64, string_value STRING> Nullable",
                "j JSON Required",
            ]
        );
    }

    #[test]
    fn logical_types_need_the_option_but_decimals_do_not() {
        let fields = json!([
            {"name": "d", "type": {"type": "int", "logicalType": "date"}},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "l", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}}
        ]);
        assert_eq!(
            columns(fields.clone(), json!({})).unwrap(),
            [
                "d INT64 Required",
                "t INT64 Required",
                "l INT64 Required",
                "n NUMERIC Required"
            ]
        );
        assert_eq!(
            columns(fields, json!({"useAvroLogicalTypes": true})).unwrap(),
            [
                "d DATE Required",
                "t TIMESTAMP Required",
                "l DATETIME Required",
                "n NUMERIC Required"
            ]
        );
    }

    #[test]
    fn impossible_schemas_are_refused() {
        for bad in [
            json!([{"name": "a", "type": {"type": "array", "items": {"type": "array", "items": "int"}}}]),
            json!([{"name": "a", "type": "ns.r"}]),
            json!([{"name": "a", "type": "nothing"}]),
            json!([{"name": "a", "type": ["null"]}]),
            json!([{"type": "int"}]),
            json!([]),
        ] {
            assert!(columns(bad.clone(), json!({})).is_err(), "{bad}");
        }
        let rules = Rules::read(&FormatOptions::default()).unwrap();
        assert!(rules.columns(&json!("int")).is_err());
    }

    #[test]
    fn logical_types_are_removed_everywhere() {
        let schema = json!({"type": "record", "name": "r", "fields": [
            {"name": "logicalType", "default": {"scale": 1}, "type": ["null",
                {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 38}]}]});
        assert_eq!(
            without_logical_types(&schema),
            json!({"type": "record", "name": "r", "fields": [
                {"name": "logicalType", "default": {"scale": 1}, "type": ["null", {"type": "bytes"}]}]})
        );
    }
}
