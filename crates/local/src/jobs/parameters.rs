//! Query parameters as REST writes them.

use serde::Deserialize;
use serde_json::Value;

use crate::engine::QueryParameter;
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, RangeElement};

/// `queryParameters[]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RestParameter {
    name: Option<String>,
    parameter_type: ParameterType,
    parameter_value: Option<Value>,
}

/// `parameterType`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParameterType {
    #[serde(rename = "type")]
    name: String,
    array_type: Option<Box<ParameterType>>,
    struct_types: Option<Vec<StructType>>,
    range_element_type: Option<Box<ParameterType>>,
}

/// `structTypes[]`.
#[derive(Debug, Deserialize)]
struct StructType {
    #[serde(default)]
    name: String,
    #[serde(rename = "type")]
    parameter_type: ParameterType,
}

/// Reads `queryParameters` under `parameterMode`. Parameters are all named or all
/// positional; a mode that says otherwise is refused.
pub fn read(mode: Option<&str>, parameters: &[Value]) -> Result<Vec<QueryParameter>> {
    let named = match mode.map(str::to_ascii_uppercase).as_deref() {
        None | Some("") => None,
        Some("NAMED") => Some(true),
        Some("POSITIONAL") => Some(false),
        Some(other) => {
            return Err(ServiceError::invalid(format!(
                "Invalid value for parameterMode: {other} is not a valid value"
            )));
        }
    };
    let mut out: Vec<QueryParameter> = Vec::with_capacity(parameters.len());
    for (position, parameter) in parameters.iter().enumerate() {
        let rest = RestParameter::deserialize(parameter).map_err(|e| {
            ServiceError::invalid(format!("Invalid queryParameters[{position}]: {e}"))
        })?;
        let name = rest.name.filter(|name| !name.is_empty());
        let expects_name = named.unwrap_or_else(|| {
            out.first()
                .map_or(name.is_some(), |first| first.name.is_some())
        });
        if expects_name != name.is_some() {
            return Err(ServiceError::invalid(if expects_name {
                format!("Query parameter {position} has no name although parameters are named")
            } else {
                format!("Query parameter {position} has a name although parameters are positional")
            }));
        }
        let label = name.clone().unwrap_or_else(|| format!("?{}", position + 1));
        if let Some(name) = &name {
            let taken = |p: &QueryParameter| {
                p.name
                    .as_ref()
                    .is_some_and(|n| n.eq_ignore_ascii_case(name))
            };
            if out.iter().any(taken) {
                return Err(ServiceError::invalid(format!(
                    "Duplicate query parameter name: {name}"
                )));
            }
        }
        out.push(QueryParameter {
            field: field(name.as_deref().unwrap_or(""), &rest.parameter_type, &label)?,
            name,
            value: rest.parameter_value.unwrap_or(Value::Null),
        });
    }
    Ok(out)
}

fn field(name: &str, parameter: &ParameterType, label: &str) -> Result<Field> {
    let invalid = |why: &str| {
        Err(ServiceError::invalid(format!(
            "Invalid type of query parameter {label}: {why}"
        )))
    };
    let field_type = match parameter.name.to_ascii_uppercase().as_str() {
        "ARRAY" => {
            let Some(element) = &parameter.array_type else {
                return invalid("ARRAY needs arrayType");
            };
            let element = field(name, element, label)?;
            if element.mode() == Mode::Repeated {
                return invalid("an ARRAY of ARRAYs does not exist");
            }
            return Ok(element.with_mode(Mode::Repeated));
        }
        "STRUCT" | "RECORD" => {
            let members = parameter.struct_types.iter().flatten();
            let fields: Result<Vec<Field>> = members
                .map(|member| field(&member.name, &member.parameter_type, label))
                .collect();
            FieldType::Struct(fields?)
        }
        "RANGE" => {
            let element = parameter.range_element_type.as_ref();
            match element.map(|e| e.name.to_ascii_uppercase()).as_deref() {
                Some("DATE") => FieldType::Range(RangeElement::Date),
                Some("DATETIME") => FieldType::Range(RangeElement::Datetime),
                Some("TIMESTAMP") => FieldType::Range(RangeElement::Timestamp),
                Some(other) => return invalid(&format!("RANGE<{other}> does not exist")),
                None => return invalid("RANGE needs rangeElementType"),
            }
        }
        "INT64" | "INTEGER" => FieldType::Int64,
        "FLOAT64" | "FLOAT" => FieldType::Float64,
        "BOOL" | "BOOLEAN" => FieldType::Bool,
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
        other => return invalid(&format!("{other} is not a type")),
    };
    Ok(Field::new(name, field_type).with_mode(Mode::Nullable))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn types(mode: Option<&str>, parameters: Value) -> Result<Vec<String>> {
        let parameters = parameters.as_array().unwrap().clone();
        read(mode, &parameters).map(|all| all.iter().map(|p| p.field.sql_type()).collect())
    }

    #[test]
    fn every_kind_of_type_is_read() {
        let found = types(
            Some("NAMED"),
            json!([
                {"name": "i", "parameterType": {"type": "INT64"}, "parameterValue": {"value": "5"}},
                {"name": "a", "parameterType": {"type": "ARRAY", "arrayType": {"type": "DATE"}},
                 "parameterValue": {"arrayValues": [{"value": "2024-01-01"}]}},
                {"name": "s", "parameterType": {"type": "STRUCT", "structTypes": [
                    {"name": "x", "type": {"type": "NUMERIC"}},
                    {"name": "y", "type": {"type": "ARRAY", "arrayType": {"type": "BOOL"}}}]}},
                {"name": "r", "parameterType": {"type": "RANGE", "rangeElementType": {"type": "DATE"}}}
            ]),
        );
        assert_eq!(
            found.unwrap(),
            [
                "INT64",
                "ARRAY<DATE>",
                "STRUCT<x NUMERIC, y ARRAY<BOOL>>",
                "RANGE<DATE>"
            ]
        );
    }

    #[test]
    fn a_missing_value_is_null() {
        let parameters = read(None, &[json!({"parameterType": {"type": "STRING"}})]).unwrap();
        assert_eq!(
            (&parameters[0].name, &parameters[0].value),
            (&None, &Value::Null)
        );
    }

    #[test]
    fn modes_and_names_agree() {
        let string = json!({"type": "STRING"});
        let named = json!([{"name": "a", "parameterType": string}]);
        let positional = json!([{"parameterType": string}]);
        assert!(types(None, named.clone()).is_ok());
        assert!(types(None, positional.clone()).is_ok());
        assert!(types(Some("POSITIONAL"), named).is_err());
        assert!(types(Some("NAMED"), positional).is_err());
        assert!(types(Some("BOTH"), json!([])).is_err());
        let mixed = json!([{"name": "a", "parameterType": string}, {"parameterType": string}]);
        assert!(types(None, mixed).is_err());
        let twice = json!([
            {"name": "a", "parameterType": string}, {"name": "A", "parameterType": string}]);
        assert!(types(None, twice).is_err());
    }

    #[test]
    fn impossible_types_are_refused() {
        for bad in [
            json!({"type": "ARRAY"}),
            json!({"type": "ARRAY", "arrayType": {"type": "ARRAY", "arrayType": {"type": "INT64"}}}),
            json!({"type": "RANGE", "rangeElementType": {"type": "INT64"}}),
            json!({"type": "RANGE"}),
            json!({"type": "THING"}),
            json!({}),
        ] {
            assert!(
                types(None, json!([{"parameterType": bad}])).is_err(),
                "{bad}"
            );
        }
    }
}
