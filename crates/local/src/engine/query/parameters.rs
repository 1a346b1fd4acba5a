//! Query parameters as constants.

use arrow::array::ArrayRef;
use datafusion::scalar::ScalarValue;
use serde_json::Value;

use super::super::functions::SqlType;
use super::super::request::QueryParameter;
use super::env::Constant;
use super::scan::canonical;
use super::session::service_error;
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode};
use crate::value::build::{Cell, CellReader, ColumnBuilder};

/// The constant that a parameter stands for.
pub(super) fn constant(parameter: &QueryParameter) -> Result<Constant> {
    let label = parameter.name.as_deref().unwrap_or("?");
    let cell = cell(&parameter.field, &parameter.value, label)?;
    of_cell(&parameter.field, cell)
}

/// A cell as a constant of its field's type.
pub(super) fn of_cell(field: &Field, cell: Cell) -> Result<Constant> {
    let ty = SqlType::of_column(field);
    let null_array = field.mode() == Mode::Repeated && cell == Cell::Null;
    let mut builder = ColumnBuilder::new(field);
    builder.push(if null_array {
        Cell::Array(Vec::new())
    } else {
        cell
    })?;
    let array: ArrayRef = canonical(&builder.finish()?, &ty.to_arrow())?;
    let value = if null_array {
        ScalarValue::try_new_null(&ty.to_arrow()).map_err(service_error)?
    } else {
        ScalarValue::try_from_array(&array, 0).map_err(service_error)?
    };
    Ok(Constant { ty, value })
}

fn cell(field: &Field, value: &Value, label: &str) -> Result<Cell> {
    let bad = |why: &str| {
        ServiceError::invalid_query(format!("Invalid value for query parameter {label}: {why}"))
    };
    if field.mode() == Mode::Repeated {
        return match value.get("arrayValues") {
            None | Some(Value::Null) => match value.get("value") {
                None | Some(Value::Null) if value.is_null() => Ok(Cell::Null),
                _ => Ok(Cell::Array(Vec::new())),
            },
            Some(Value::Array(items)) => {
                let element = field.element();
                items
                    .iter()
                    .map(|item| cell(&element, item, label))
                    .collect::<Result<_>>()
                    .map(Cell::Array)
            }
            Some(_) => Err(bad("arrayValues is not an array")),
        };
    }
    if let FieldType::Struct(fields) = &field.field_type {
        return match value.get("structValues") {
            None | Some(Value::Null) => Ok(Cell::Null),
            Some(Value::Object(members)) => fields
                .iter()
                .map(|f| {
                    let member = members
                        .iter()
                        .find(|(k, _)| k.eq_ignore_ascii_case(&f.name))
                        .map_or(&Value::Null, |(_, v)| v);
                    cell(f, member, label)
                })
                .collect::<Result<_>>()
                .map(Cell::Struct),
            Some(_) => Err(bad("structValues is not an object")),
        };
    }
    if let FieldType::Range(element) = &field.field_type
        && let Some(Value::Object(bounds)) = value.get("rangeValue")
    {
        let bound = |name: &str| -> Result<Option<i64>> {
            let of = Field::new(name, element.field_type());
            match bounds.get(name) {
                None | Some(Value::Null) => Ok(None),
                Some(v) => match cell(&of, v, label)? {
                    Cell::Int(i) => Ok(Some(i)),
                    _ => Ok(None),
                },
            }
        };
        return Ok(Cell::Range(bound("start")?, bound("end")?));
    }
    let text = match value.get("value") {
        None | Some(Value::Null) => return Ok(Cell::Null),
        Some(Value::String(text)) => text.clone(),
        Some(other @ (Value::Number(_) | Value::Bool(_))) => other.to_string(),
        Some(_) => return Err(bad("value is not a scalar")),
    };
    CellReader::for_sql()
        .text(field, &text)
        .map_err(|e| bad(e.message()))
}
