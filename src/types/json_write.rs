//! The REST form of columns, for requests that create tables or change them.

use serde_json::{Map, Value, json};

use super::field::{DecimalParameters, Field, FieldType, Mode, TimestampDigits};

/// The member `fields` of a schema.
pub fn fields(fields: &[Field]) -> Value {
    Value::Array(fields.iter().map(field).collect())
}

/// A column, or a field of a struct.
pub fn field(field: &Field) -> Value {
    let mut out = Map::new();
    let mut put = |member: &str, value: Value| out.insert(member.to_string(), value);
    put("name", json!(field.name));
    put("type", json!(type_name(&field.field_type)));
    put(
        "mode",
        json!(match field.mode {
            Mode::Nullable => "NULLABLE",
            Mode::Required => "REQUIRED",
            Mode::Repeated => "REPEATED",
        }),
    );
    match &field.field_type {
        FieldType::Struct(children) => {
            put("fields", fields(children));
        }
        FieldType::Numeric(Some(parameters)) | FieldType::BigNumeric(Some(parameters)) => {
            let DecimalParameters { precision, scale } = parameters;
            put("precision", json!(precision.to_string()));
            put("scale", json!(scale.to_string()));
        }
        FieldType::Timestamp(TimestampDigits::Twelve) => {
            put("timestampPrecision", json!("12"));
        }
        FieldType::Range(element) => {
            put(
                "rangeElementType",
                json!({"type": type_name(&element.field_type())}),
            );
        }
        FieldType::Int64
        | FieldType::Float64
        | FieldType::Bool
        | FieldType::String
        | FieldType::Bytes
        | FieldType::Numeric(None)
        | FieldType::BigNumeric(None)
        | FieldType::Date
        | FieldType::Time
        | FieldType::DateTime
        | FieldType::Timestamp(TimestampDigits::Six)
        | FieldType::Geography
        | FieldType::Json
        | FieldType::Interval
        | FieldType::Unsupported(_) => {}
    }
    for (member, value) in [
        ("description", &field.description),
        ("collation", &field.collation),
        ("defaultValueExpression", &field.default_value_expression),
    ] {
        if let Some(value) = value {
            put(member, json!(value));
        }
    }
    if let Some(length) = field.max_length {
        put("maxLength", json!(length.to_string()));
    }
    Value::Object(out)
}

/// The name of a type without its parameters.
fn type_name(field_type: &FieldType) -> &str {
    match field_type {
        FieldType::Int64 => "INT64",
        FieldType::Float64 => "FLOAT64",
        FieldType::Bool => "BOOL",
        FieldType::String => "STRING",
        FieldType::Bytes => "BYTES",
        FieldType::Numeric(_) => "NUMERIC",
        FieldType::BigNumeric(_) => "BIGNUMERIC",
        FieldType::Date => "DATE",
        FieldType::Time => "TIME",
        FieldType::DateTime => "DATETIME",
        FieldType::Timestamp(_) => "TIMESTAMP",
        FieldType::Geography => "GEOGRAPHY",
        FieldType::Json => "JSON",
        FieldType::Interval => "INTERVAL",
        FieldType::Range(_) => "RANGE",
        FieldType::Struct(_) => "STRUCT",
        FieldType::Unsupported(name) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::json::table_schema;
    use crate::types::{RangeElement, TableSchema};

    #[test]
    fn what_is_written_is_read_back() {
        let parameters = DecimalParameters {
            precision: 10,
            scale: 2,
        };
        let mut text = Field::new("text", FieldType::String, Mode::Required);
        text.description = Some("what".into());
        text.collation = Some("und:ci".into());
        text.default_value_expression = Some("'x'".into());
        text.max_length = Some(9);
        let mut columns = vec![text];
        for (at, field_type) in [
            FieldType::Int64,
            FieldType::Float64,
            FieldType::Bool,
            FieldType::Bytes,
            FieldType::Numeric(None),
            FieldType::Numeric(Some(parameters)),
            FieldType::BigNumeric(Some(parameters)),
            FieldType::Date,
            FieldType::Time,
            FieldType::DateTime,
            FieldType::Timestamp(TimestampDigits::Six),
            FieldType::Timestamp(TimestampDigits::Twelve),
            FieldType::Geography,
            FieldType::Json,
            FieldType::Interval,
            FieldType::Range(RangeElement::DateTime),
            FieldType::Struct(vec![Field::new("x", FieldType::Date, Mode::Repeated)]),
        ]
        .into_iter()
        .enumerate()
        {
            columns.push(Field::new(format!("c{at}"), field_type, Mode::Nullable));
        }
        let written = json!({"fields": fields(&columns)});
        let read = table_schema(Some(&written)).unwrap();
        assert_eq!(read, TableSchema { fields: columns });
    }
}
