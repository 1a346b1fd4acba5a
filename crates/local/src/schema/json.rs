//! A field as REST v2 writes it (`TableFieldSchema`).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::field::{Field, FieldType, Mode, RangeElement};

/// The wire form of a field. Integers travel as strings, either is accepted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JsonField {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<Field>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "int_text",
        serialize_with = "text"
    )]
    max_length: Option<i64>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "int_text",
        serialize_with = "text"
    )]
    precision: Option<i64>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "int_text",
        serialize_with = "text"
    )]
    scale: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default_value_expression: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rounding_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collation: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "int_text",
        serialize_with = "text"
    )]
    timestamp_precision: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range_element_type: Option<JsonRangeElement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy_tags: Option<Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct JsonRangeElement {
    #[serde(rename = "type")]
    type_name: String,
}

fn int_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    match Option::<Value>::deserialize(deserializer)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(n)) => n
            .as_i64()
            .map(Some)
            .ok_or_else(|| serde::de::Error::custom(format!("{n} is not a 64-bit integer"))),
        Some(Value::String(s)) => s
            .parse()
            .map(Some)
            .map_err(|_| serde::de::Error::custom(format!("{s:?} is not a 64-bit integer"))),
        Some(other) => Err(serde::de::Error::custom(format!(
            "{other} is not an integer"
        ))),
    }
}

fn text<S: serde::Serializer>(value: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(v) => serializer.collect_str(v),
        None => serializer.serialize_none(),
    }
}

impl TryFrom<JsonField> for Field {
    type Error = String;

    fn try_from(json: JsonField) -> Result<Self, String> {
        if json.name.is_empty() {
            return Err("Field name must not be empty.".into());
        }
        let upper = json.type_name.to_ascii_uppercase();
        let field_type = match upper.as_str() {
            "INTEGER" | "INT64" => FieldType::Int64,
            "FLOAT" | "FLOAT64" => FieldType::Float64,
            "BOOLEAN" | "BOOL" => FieldType::Bool,
            "STRING" => FieldType::String,
            "BYTES" => FieldType::Bytes,
            "NUMERIC" | "DECIMAL" => FieldType::Numeric,
            "BIGNUMERIC" | "BIGDECIMAL" => FieldType::Bignumeric,
            "DATE" => FieldType::Date,
            "TIME" => FieldType::Time,
            "DATETIME" => FieldType::Datetime,
            "TIMESTAMP" => FieldType::Timestamp,
            "GEOGRAPHY" => FieldType::Geography,
            "JSON" => FieldType::Json,
            "INTERVAL" => FieldType::Interval,
            "RANGE" => {
                let element = json.range_element_type.as_ref().ok_or_else(|| {
                    format!("Field {} of type RANGE needs rangeElementType.", json.name)
                })?;
                FieldType::Range(match element.type_name.to_ascii_uppercase().as_str() {
                    "DATE" => RangeElement::Date,
                    "DATETIME" => RangeElement::Datetime,
                    "TIMESTAMP" => RangeElement::Timestamp,
                    other => return Err(format!("{other} is not a valid range element type.")),
                })
            }
            "RECORD" | "STRUCT" => {
                let fields = json.fields.clone().unwrap_or_default();
                if fields.is_empty() {
                    return Err(format!(
                        "Field {} is type RECORD but has no schema",
                        json.name
                    ));
                }
                FieldType::Struct(fields)
            }
            _ => {
                return Err(format!(
                    "Invalid value for type: {} is not a valid value",
                    json.type_name
                ));
            }
        };
        let mode = match json.mode.as_deref().map(str::to_ascii_uppercase).as_deref() {
            None | Some("") => None,
            Some("NULLABLE") => Some(Mode::Nullable),
            Some("REQUIRED") => Some(Mode::Required),
            Some("REPEATED") => Some(Mode::Repeated),
            Some(other) => {
                return Err(format!(
                    "Invalid value for mode: {other} is not a valid value"
                ));
            }
        };
        Ok(Field {
            name: json.name,
            field_type,
            mode,
            description: json.description,
            max_length: json.max_length,
            precision: json.precision,
            scale: json.scale,
            default_value_expression: json.default_value_expression,
            rounding_mode: json.rounding_mode,
            collation: json.collation,
            timestamp_precision: json.timestamp_precision,
            policy_tags: json.policy_tags,
        })
    }
}

impl From<Field> for JsonField {
    fn from(field: Field) -> Self {
        let type_name = field.field_type.rest_name().to_string();
        let (fields, range_element_type) = match field.field_type {
            FieldType::Struct(fields) => (Some(fields), None),
            FieldType::Range(element) => (
                None,
                Some(JsonRangeElement {
                    type_name: element.field_type().sql_name().to_string(),
                }),
            ),
            _ => (None, None),
        };
        JsonField {
            name: field.name,
            type_name,
            mode: field.mode.map(|m| {
                match m {
                    Mode::Nullable => "NULLABLE",
                    Mode::Required => "REQUIRED",
                    Mode::Repeated => "REPEATED",
                }
                .to_string()
            }),
            fields,
            description: field.description,
            max_length: field.max_length,
            precision: field.precision,
            scale: field.scale,
            default_value_expression: field.default_value_expression,
            rounding_mode: field.rounding_mode,
            collation: field.collation,
            timestamp_precision: field.timestamp_precision,
            range_element_type,
            policy_tags: field.policy_tags,
        }
    }
}
