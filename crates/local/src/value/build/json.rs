//! JSON → cells, with the service's words for what does not fit.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::error::ValueError;
use super::super::json::{normal_form, normalize_json};
use super::super::range::{checked, parse_bound};
use super::super::scalar::shortened;
use super::UnknownFields;
use super::cell::{Cell, CellReader, FieldError, JsonText};
use crate::schema::{Field, FieldType, Mode, RangeElement};

/// The message type that the service names in errors about missing fields.
const ROW_MESSAGE: &str = "Msg_0_CLOUD_QUERY_TABLE";

/// Positions by lower-case name.
pub(super) fn names(fields: &[Field]) -> HashMap<String, usize> {
    fields
        .iter()
        .enumerate()
        .map(|(i, f)| (f.name.to_ascii_lowercase(), i))
        .collect()
}

impl CellReader {
    /// Reads a JSON object as one row.
    pub(super) fn row(
        &self,
        fields: &[Field],
        names: &HashMap<String, usize>,
        defaults: &[Option<Cell>],
        row: &Value,
        unknown: UnknownFields,
    ) -> Result<Vec<Cell>, FieldError> {
        let object = row
            .as_object()
            .ok_or_else(|| FieldError::new("", "A row must be a JSON object."))?;
        self.object(fields, names, defaults, object, "", unknown)
    }

    fn object(
        &self,
        fields: &[Field],
        names: &HashMap<String, usize>,
        defaults: &[Option<Cell>],
        object: &Map<String, Value>,
        path: &str,
        unknown: UnknownFields,
    ) -> Result<Vec<Cell>, FieldError> {
        let mut cells: Vec<Option<Cell>> = vec![None; fields.len()];
        for (key, value) in object {
            let Some(&i) = names.get(&key.to_ascii_lowercase()) else {
                if unknown == UnknownFields::Ignore {
                    continue;
                }
                let at = joined(path, key);
                let message = format!("no such field: {at}.");
                return Err(FieldError::new(at, message));
            };
            cells[i] =
                Some(self.json(&fields[i], value, &joined(path, &fields[i].name), unknown)?);
        }
        fields
            .iter()
            .zip(cells)
            .enumerate()
            .map(|(i, (field, cell))| match (cell, field.mode()) {
                (Some(cell), _) => Ok(cell),
                (None, _) if defaults.get(i).is_some_and(Option::is_some) => {
                    Ok(defaults[i].clone().unwrap_or(Cell::Null))
                }
                (None, Mode::Nullable) => Ok(Cell::Null),
                (None, Mode::Repeated) => Ok(Cell::Array(Vec::new())),
                (None, Mode::Required) => {
                    let at = joined(path, &field.name);
                    let message = format!("Missing required field: {ROW_MESSAGE}.{at}.");
                    Err(FieldError::new(at, message))
                }
            })
            .collect()
    }

    /// Reads a JSON value as a value of `field`, which is called `path` in errors.
    pub fn json(
        &self,
        field: &Field,
        value: &Value,
        path: &str,
        unknown: UnknownFields,
    ) -> Result<Cell, FieldError> {
        match (field.mode(), value) {
            (Mode::Repeated, Value::Array(items)) => items
                .iter()
                .map(|item| match item {
                    Value::Null if field.field_type != FieldType::Json => Err(not_optional(path)),
                    item => self.one(field, item, path, unknown),
                })
                .collect::<Result<_, _>>()
                .map(Cell::Array),
            (Mode::Repeated, Value::Null) => Err(not_optional(path)),
            (Mode::Repeated, _) => Err(FieldError::new(
                path,
                format!("Repeated field must be imported as a JSON array. Field: {path}."),
            )),
            (Mode::Required, Value::Null) => Err(not_optional(path)),
            (Mode::Nullable, Value::Null) => Ok(Cell::Null),
            (_, Value::Array(_)) if field.field_type != FieldType::Json => Err(FieldError::new(
                path,
                format!("Array specified for non-repeated field: {path}."),
            )),
            _ => self.one(field, value, path, unknown),
        }
    }

    fn one(
        &self,
        field: &Field,
        value: &Value,
        path: &str,
        unknown: UnknownFields,
    ) -> Result<Cell, FieldError> {
        let at = |error: ValueError| FieldError::new(path, error.message());
        match (&field.field_type, value) {
            (FieldType::Struct(fields), Value::Object(object)) => self
                .object(fields, &names(fields), &[], object, path, unknown)
                .map(Cell::Struct),
            (FieldType::Range(element), Value::Object(object)) => range(*element, object, path),
            (FieldType::Json, value) => self.json_column(value).map(Cell::Text).map_err(at),
            (FieldType::Struct(_), _) | (_, Value::Object(_)) => Err(FieldError::new(
                path,
                format!("This field: {path} is not a record."),
            )),
            (_, value) => {
                let text = plain(field, value);
                self.text(field, &text)
                    .map_err(|e| FieldError::new(path, reworded(field, value, &text, e)))
            }
        }
    }

    fn json_column(&self, value: &Value) -> Result<String, ValueError> {
        match value {
            Value::String(text) if self.json == JsonText::Encoded => normalize_json(text),
            other => Ok(normal_form(other)),
        }
    }
}

fn range(
    element: RangeElement,
    object: &Map<String, Value>,
    path: &str,
) -> Result<Cell, FieldError> {
    let bound = |name: &str| -> Result<Option<i64>, FieldError> {
        match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => parse_bound(text, element)
                .map_err(|e| FieldError::new(joined(path, name), e.message())),
            Some(other) => Err(FieldError::new(
                joined(path, name),
                format!("A range bound must be a string, not {other}."),
            )),
        }
    };
    if let Some(other) = object.keys().find(|k| *k != "start" && *k != "end") {
        let at = joined(path, other);
        let message = format!("no such field: {at}.");
        return Err(FieldError::new(at, message));
    }
    let (start, end) =
        checked(bound("start")?, bound("end")?).map_err(|e| FieldError::new(path, e.message()))?;
    Ok(Cell::Range(start, end))
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_string()
    } else {
        format!("{path}.{name}")
    }
}

fn not_optional(path: &str) -> FieldError {
    FieldError::new(
        path,
        format!("Only optional fields can be set to NULL. Field: {path}; Value: NULL"),
    )
}

/// A JSON scalar as text of the column's type.
fn plain(field: &Field, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // 1.0 is an integer when an integer is wanted.
        Value::Number(n) => match (n.as_i64(), n.as_f64(), &field.field_type) {
            (None, Some(f), FieldType::Int64)
                if f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0 =>
            {
                format!("{f:.0}")
            }
            _ => n.to_string(),
        },
        other => other.to_string(),
    }
}

/// Errors about numbers and booleans have words of their own in row errors.
fn reworded(field: &Field, value: &Value, text: &str, error: ValueError) -> String {
    let wanted = match &field.field_type {
        FieldType::Int64 => "integer",
        FieldType::Float64 => "floating point",
        FieldType::Bool => "boolean",
        _ => return error.message().to_string(),
    };
    let shown = match value {
        Value::String(text) => shortened(text),
        _ => text.to_string(),
    };
    format!("Cannot convert value to {wanted} (bad value): {shown}")
}
