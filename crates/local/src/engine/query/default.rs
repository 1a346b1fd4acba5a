//! Default values of columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float64Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, i256,
};

use super::super::functions::SqlType;
use super::analyze::Analyzer;
use super::env::{Constant, Env};
use super::output::to_field;
use super::parser::parse_expression;
use super::session::{context, service_error};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, arrow_field};
use crate::server::Service;
use crate::value::build::Cell;

/// Evaluates the default of a column; NULL without one.
pub async fn column_default(service: &Arc<Service>, field: &Field) -> Result<Cell> {
    let (service, field) = (Arc::clone(service), field.clone());
    super::on_own_thread(move || {
        let env = Env::new(service, context(), String::new(), "US".into(), None);
        let value = default_value(&env, &field)?;
        let array = value.value.to_array().map_err(service_error)?;
        cell(&to_field(&array, &arrow_field(&field))?, &field)
    })
    .await
}

/// Evaluates the default of a column for so many rows: one value for all of them, or
/// one for each when it is another every time.
pub async fn column_defaults(
    service: &Arc<Service>,
    field: &Field,
    rows: usize,
) -> Result<Vec<Cell>> {
    let (service, field) = (Arc::clone(service), field.clone());
    super::on_own_thread(move || {
        let env = Env::new(service, context(), String::new(), "US".into(), None);
        let arrow = arrow_field(&field);
        let text = field.default_value_expression.as_deref().unwrap_or("");
        let rows = if varies(text) { rows } else { 1 };
        (0..rows)
            .map(|_| {
                let value = default_value(&env, &field)?;
                let array = value.value.to_array().map_err(service_error)?;
                cell(&to_field(&array, &arrow)?, &field)
            })
            .collect()
    })
    .await
}

/// Whether an expression calls a function that answers something else every time.
/// A text that only looks like it costs time and is right all the same.
fn varies(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    ["GENERATE_UUID", "RAND"]
        .iter()
        .any(|name| text.contains(name))
}

/// The default of a column as a constant of its type; NULL without one.
pub(super) fn default_value(env: &Env, field: &Field) -> Result<Constant> {
    let Some(text) = &field.default_value_expression else {
        let ty = SqlType::of_column(field);
        let value =
            datafusion::scalar::ScalarValue::try_new_null(&ty.to_arrow()).map_err(service_error)?;
        return Ok(Constant { ty, value });
    };
    let expr = parse_expression(text)?;
    let analyzer = Analyzer::new(env, text);
    let value = analyzer.value_for_column(&expr, field)?;
    analyzer.evaluate_typed(&value)
}

/// The first value of a column in its stored form.
fn cell(array: &ArrayRef, field: &Field) -> Result<Cell> {
    if array.is_null(0) {
        return Ok(Cell::Null);
    }
    Ok(match array.data_type() {
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(0)),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(0)),
        DataType::Boolean => Cell::Bool(array.as_boolean().value(0)),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(0).to_string()),
        DataType::Binary => Cell::Bytes(array.as_binary::<i32>().value(0).to_vec()),
        DataType::Date32 => Cell::Int(array.as_primitive::<Date32Type>().value(0).into()),
        DataType::Time64(_) => Cell::Int(array.as_primitive::<Time64MicrosecondType>().value(0)),
        DataType::Timestamp(..) => {
            Cell::Int(array.as_primitive::<TimestampMicrosecondType>().value(0))
        }
        DataType::Decimal128(..) => Cell::Decimal(i256::from_i128(
            array.as_primitive::<Decimal128Type>().value(0),
        )),
        DataType::Decimal256(..) => Cell::Decimal(array.as_primitive::<Decimal256Type>().value(0)),
        DataType::Interval(_) => {
            Cell::Interval(array.as_primitive::<IntervalMonthDayNanoType>().value(0))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns();
            if let FieldType::Range(element) = &field.field_type {
                let of = Field::new("bound", element.field_type());
                let bound = |i: usize| -> Result<Option<i64>> {
                    match cell(&columns[i], &of)? {
                        Cell::Int(v) => Ok(Some(v)),
                        _ => Ok(None),
                    }
                };
                return Ok(Cell::Range(bound(0)?, bound(1)?));
            }
            Cell::Struct(
                columns
                    .iter()
                    .zip(field.fields())
                    .map(|(c, f)| cell(c, f))
                    .collect::<Result<_>>()?,
            )
        }
        DataType::List(_) => {
            let values = array.as_list::<i32>().value(0);
            let element = field.element();
            Cell::Array(
                (0..values.len())
                    .map(|i| cell(&values.slice(i, 1), &element))
                    .collect::<Result<_>>()?,
            )
        }
        other => {
            return Err(ServiceError::internal(format!(
                "a column cannot hold {other}"
            )));
        }
    })
}
