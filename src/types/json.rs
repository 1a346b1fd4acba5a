//! The REST form of a table's columns (`schema.fields` of `tables.get`).
//!
//! Answers print the legacy type names (`INTEGER`, `RECORD`); the GoogleSQL
//! names mean the same and are read too. Numbers that the REST interface
//! prints as strings are accepted in both forms.

use serde::Deserialize;
use serde_json::Value;

use super::field::{
    DecimalParameters, Field, FieldType, Mode, RangeElement, TableSchema, TimestampDigits,
};
use crate::error::{Error, Result};

/// A struct may be nested this deep, the top level included
/// (<https://cloud.google.com/bigquery/quotas#standard_tables>).
const MAX_DEPTH: usize = 15;

/// Reads the `schema` member of a table resource; an absent one is a schema
/// without columns.
///
/// # Errors
/// [`crate::error::ErrorKind::Data`] when the value is not a schema. A type of
/// an unknown name is no error but [`FieldType::Unsupported`].
pub fn table_schema(schema: Option<&Value>) -> Result<TableSchema> {
    let fields = match schema {
        None | Some(Value::Null) => return Ok(TableSchema::default()),
        Some(Value::Object(schema)) => match schema.get("fields") {
            None | Some(Value::Null) => return Ok(TableSchema::default()),
            Some(fields) => fields,
        },
        Some(_) => return Err(Error::data("the table's schema is not a JSON object")),
    };
    Ok(TableSchema {
        fields: read_fields(fields, &mut Vec::new())?,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RestField {
    name: String,
    r#type: String,
    mode: Option<String>,
    fields: Option<Value>,
    description: Option<String>,
    collation: Option<String>,
    default_value_expression: Option<String>,
    max_length: Option<Value>,
    precision: Option<Value>,
    scale: Option<Value>,
    timestamp_precision: Option<Value>,
    range_element_type: Option<RestRangeElement>,
}

#[derive(Deserialize)]
struct RestRangeElement {
    r#type: String,
}

fn read_fields(fields: &Value, path: &mut Vec<String>) -> Result<Vec<Field>> {
    let Value::Array(fields) = fields else {
        return Err(wrong(path, "its fields are not a JSON array"));
    };
    if path.len() >= MAX_DEPTH {
        return Err(wrong(path, "it is nested deeper than BigQuery allows"));
    }
    fields.iter().map(|field| read_field(field, path)).collect()
}

fn read_field(field: &Value, path: &mut Vec<String>) -> Result<Field> {
    let rest = RestField::deserialize(field)
        .map_err(|error| wrong(path, &format!("a field of it cannot be read ({error})")))?;
    path.push(rest.name.clone());
    let read = Field {
        field_type: field_type(&rest, path)?,
        mode: match rest.mode.as_deref() {
            None | Some("" | "NULLABLE") => Mode::Nullable,
            Some("REQUIRED") => Mode::Required,
            Some("REPEATED") => Mode::Repeated,
            Some(other) => return Err(wrong(path, &format!("its mode '{other}' is unknown"))),
        },
        max_length: integer(rest.max_length.as_ref(), "maxLength", path)?,
        name: rest.name,
        description: rest.description,
        collation: rest.collation.filter(|collation| !collation.is_empty()),
        default_value_expression: rest.default_value_expression,
    };
    path.pop();
    Ok(read)
}

fn field_type(rest: &RestField, path: &mut Vec<String>) -> Result<FieldType> {
    let name = rest.r#type.to_ascii_uppercase();
    Ok(match name.as_str() {
        "INTEGER" | "INT64" => FieldType::Int64,
        "FLOAT" | "FLOAT64" => FieldType::Float64,
        "BOOLEAN" | "BOOL" => FieldType::Bool,
        "STRING" => FieldType::String,
        "BYTES" => FieldType::Bytes,
        "NUMERIC" => FieldType::Numeric(decimal_parameters(rest, 38, path)?),
        "BIGNUMERIC" => FieldType::BigNumeric(decimal_parameters(rest, 76, path)?),
        "DATE" => FieldType::Date,
        "TIME" => FieldType::Time,
        "DATETIME" => FieldType::DateTime,
        "TIMESTAMP" => {
            let digits = integer(
                rest.timestamp_precision.as_ref(),
                "timestampPrecision",
                path,
            )?;
            match digits {
                None | Some(6) => FieldType::Timestamp(TimestampDigits::Six),
                Some(12) => FieldType::Timestamp(TimestampDigits::Twelve),
                Some(other) => FieldType::Unsupported(format!("TIMESTAMP({other})")),
            }
        }
        "GEOGRAPHY" => FieldType::Geography,
        "JSON" => FieldType::Json,
        "INTERVAL" => FieldType::Interval,
        "RANGE" => {
            let element = rest.range_element_type.as_ref().map(|e| e.r#type.as_str());
            match element.map(str::to_ascii_uppercase).as_deref() {
                Some("DATE") => FieldType::Range(RangeElement::Date),
                Some("DATETIME") => FieldType::Range(RangeElement::DateTime),
                Some("TIMESTAMP") => FieldType::Range(RangeElement::Timestamp),
                Some(other) => FieldType::Unsupported(format!("RANGE<{other}>")),
                None => return Err(wrong(path, "it is a RANGE without an element type")),
            }
        }
        "RECORD" | "STRUCT" => match &rest.fields {
            Some(fields) => FieldType::Struct(read_fields(fields, path)?),
            None => return Err(wrong(path, "it is a RECORD without fields")),
        },
        _ => FieldType::Unsupported(rest.r#type.clone()),
    })
}

/// The declared precision and scale. A precision alone means scale 0.
fn decimal_parameters(
    rest: &RestField,
    max_precision: u8,
    path: &[String],
) -> Result<Option<DecimalParameters>> {
    let precision = integer(rest.precision.as_ref(), "precision", path)?;
    let scale = integer(rest.scale.as_ref(), "scale", path)?;
    let Some(precision) = precision.filter(|precision| *precision != 0) else {
        return match scale.filter(|scale| *scale != 0) {
            None => Ok(None),
            Some(_) => Err(wrong(path, "it has a scale and no precision")),
        };
    };
    let scale = scale.unwrap_or(0);
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if precision <= max_precision && scale <= precision => {
            Ok(Some(DecimalParameters { precision, scale }))
        }
        _ => Err(wrong(
            path,
            &format!("precision {precision} and scale {scale} are out of range"),
        )),
    }
}

fn integer(value: Option<&Value>, member: &str, path: &[String]) -> Result<Option<i64>> {
    let number = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.parse().ok(),
        Some(Value::Number(number)) => number.as_i64(),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(wrong(path, &format!("its {member} is not a whole number"))),
    }
}

fn wrong(path: &[String], what: &str) -> Error {
    if path.is_empty() {
        Error::data(format!("the service's schema cannot be read: {what}"))
    } else {
        let column = path.join(".");
        Error::data(format!(
            "the service's schema cannot be read at column '{column}': {what}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use serde_json::json;

    fn read(fields: Value) -> Result<TableSchema> {
        table_schema(Some(&json!({ "fields": fields })))
    }

    #[test]
    fn reads_legacy_and_googlesql_names() {
        let schema = read(json!([
            {"name": "a", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "b", "type": "INT64"},
            {"name": "c", "type": "FLOAT", "mode": "NULLABLE"},
            {"name": "d", "type": "BOOLEAN", "mode": "REPEATED"},
            {"name": "e", "type": "RECORD", "fields": [{"name": "x", "type": "STRING"}]},
        ]))
        .unwrap();
        let types: Vec<_> = schema
            .fields
            .iter()
            .map(|f| (f.field_type.to_string(), f.mode))
            .collect();
        assert_eq!(
            types,
            [
                ("INT64".to_string(), Mode::Required),
                ("INT64".to_string(), Mode::Nullable),
                ("FLOAT64".to_string(), Mode::Nullable),
                ("BOOL".to_string(), Mode::Repeated),
                ("STRUCT<x STRING>".to_string(), Mode::Nullable),
            ]
        );
    }

    #[test]
    fn reads_parameters() {
        let schema = read(json!([
            {"name": "n", "type": "NUMERIC", "precision": "10", "scale": "2"},
            {"name": "i", "type": "NUMERIC", "precision": 12},
            {"name": "b", "type": "BIGNUMERIC", "precision": "76", "scale": "38"},
            {"name": "t", "type": "TIMESTAMP", "timestampPrecision": "12"},
            {"name": "r", "type": "RANGE", "rangeElementType": {"type": "DATETIME"}},
            {"name": "s", "type": "STRING", "maxLength": "10", "collation": "und:ci",
             "description": "text", "defaultValueExpression": "'x'"},
        ]))
        .unwrap();
        let types: Vec<_> = schema
            .fields
            .iter()
            .map(|f| f.field_type.to_string())
            .collect();
        assert_eq!(
            types,
            [
                "NUMERIC(10, 2)",
                "NUMERIC(12, 0)",
                "BIGNUMERIC(76, 38)",
                "TIMESTAMP(12)",
                "RANGE<DATETIME>",
                "STRING"
            ]
        );
        let text = &schema.fields[5];
        assert_eq!(text.max_length, Some(10));
        assert_eq!(text.collation.as_deref(), Some("und:ci"));
        assert_eq!(text.description.as_deref(), Some("text"));
        assert_eq!(text.default_value_expression.as_deref(), Some("'x'"));
    }

    #[test]
    fn an_unknown_type_is_kept_by_name() {
        let schema = read(json!([{"name": "v", "type": "VECTOR"}])).unwrap();
        assert_eq!(
            schema.fields[0].field_type,
            FieldType::Unsupported("VECTOR".into())
        );
    }

    #[test]
    fn a_table_without_a_schema_has_no_columns() {
        assert_eq!(table_schema(None).unwrap(), TableSchema::default());
        assert_eq!(
            table_schema(Some(&json!({}))).unwrap(),
            TableSchema::default()
        );
    }

    #[test]
    fn what_is_not_a_schema_is_an_error_naming_the_column() {
        for (fields, named) in [
            (json!("x"), "not a JSON array"),
            (json!([{"type": "STRING"}]), "name"),
            (
                json!([{"name": "m", "type": "STRING", "mode": "SOMETIMES"}]),
                "'m'",
            ),
            (
                json!([{"name": "n", "type": "NUMERIC", "precision": "99"}]),
                "'n'",
            ),
            (
                json!([{"name": "n", "type": "NUMERIC", "scale": "2"}]),
                "'n'",
            ),
            (
                json!([{"name": "n", "type": "NUMERIC", "precision": "x"}]),
                "precision",
            ),
            (json!([{"name": "r", "type": "RANGE"}]), "'r'"),
            (json!([{"name": "s", "type": "RECORD"}]), "'s'"),
            (
                json!([{"name": "s", "type": "RECORD", "fields": [{"name": "x", "type": "RANGE"}]}]),
                "'s.x'",
            ),
        ] {
            let error = read(fields.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data);
            assert!(error.message().contains(named), "{fields}: {error}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let mut field = json!({"name": "leaf", "type": "INT64"});
        for _ in 0..20 {
            field = json!({"name": "s", "type": "RECORD", "fields": [field]});
        }
        let error = read(json!([field])).unwrap_err();
        assert!(error.message().contains("deeper"), "{error}");
    }
}
