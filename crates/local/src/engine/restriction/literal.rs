//! Literals: values that the text spells.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array,
    IntervalMonthDayNanoArray, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, IntervalMonthDayNano};

use super::bind::Bound;
use super::datum::{bignumerics, data_type, numerics};
use super::error::syntax;
use super::expr::{Expr, Written};
use super::types::Type;
use crate::schema::RangeElement;
use crate::value::ValueError;
use crate::value::civil::{parse_date, parse_datetime, parse_time};
use crate::value::decimal::{Excess, parse_bignumeric, parse_numeric};
use crate::value::interval::parse_interval;
use crate::value::json::normalize_json;
use crate::value::range::parse_range;
use crate::value::scalar::{parse_float64, parse_int64};
use crate::value::timestamp::{Zone, parse_timestamp};

/// A value in an array of length one.
pub(super) fn literal(at: usize, ty: Type, array: impl Array + 'static) -> Expr {
    Expr::literal(at, ty, Arc::new(array))
}

/// An untyped NULL.
pub(super) fn null(at: usize) -> Expr {
    let mut expr = literal(at, Type::Int64, Int64Array::from(vec![None]));
    expr.written = Written::Null;
    expr
}

/// TRUE or FALSE.
pub(super) fn boolean(at: usize, value: bool) -> Expr {
    literal(at, Type::Bool, BooleanArray::from(vec![value]))
}

/// An INT64 that is a literal.
pub(super) fn integer(at: usize, text: &str) -> Bound<Expr> {
    let value =
        parse_int64(text).map_err(|_| syntax(at, format!("Invalid integer literal: {text}")))?;
    let mut expr = literal(at, Type::Int64, Int64Array::from(vec![value]));
    expr.written = Written::Integer;
    Ok(expr)
}

/// A FLOAT64 that is a literal.
pub(super) fn float(at: usize, text: &str) -> Bound<Expr> {
    let value = parse_float64(text)
        .map_err(|_| syntax(at, format!("Invalid floating point literal: {text}")))?;
    let mut expr = literal(at, Type::Float64, Float64Array::from(vec![value]));
    expr.written = Written::Float(text.to_string());
    Ok(expr)
}

/// The value of `ty` that `text` spells, as a typed literal or a coerced one.
pub(super) fn parsed(at: usize, ty: &Type, text: &str) -> Result<Expr, ValueError> {
    let array: ArrayRef = match ty {
        Type::Date => Arc::new(Date32Array::from(vec![parse_date(text)?])),
        Type::Time => Arc::new(Time64MicrosecondArray::from(vec![parse_time(text)?])),
        Type::Datetime => Arc::new(TimestampMicrosecondArray::from(vec![parse_datetime(text)?])),
        Type::Timestamp => Arc::new(TimestampMicrosecondArray::from(vec![parse_timestamp(
            text,
            Zone::UTC,
        )?])),
        Type::Numeric => Arc::new(numerics(vec![Some(parse_numeric(text, Excess::Round)?)])),
        Type::Bignumeric => Arc::new(bignumerics(vec![Some(parse_bignumeric(
            text,
            Excess::Round,
        )?)])),
        Type::Json => Arc::new(StringArray::from(vec![normalize_json(text)?])),
        Type::Interval => {
            let value: IntervalMonthDayNano = parse_interval(text)?;
            Arc::new(IntervalMonthDayNanoArray::from(vec![value]))
        }
        other => {
            return Err(ValueError::new(format!("there are no {other} literals")));
        }
    };
    Ok(Expr::literal(at, ty.clone(), array))
}

/// `RANGE<T> '…'`.
pub(super) fn range(at: usize, name: &str, text: &str) -> Bound<Expr> {
    let element = match name {
        "DATE" => RangeElement::Date,
        "DATETIME" => RangeElement::Datetime,
        "TIMESTAMP" => RangeElement::Timestamp,
        other => {
            return Err(syntax(
                at,
                format!("Unsupported range element type: {other}"),
            ));
        }
    };
    let (start, end) = parse_range(text, element)
        .map_err(|e| syntax(at, format!("Invalid RANGE literal: {e}")))?;
    let ty = Type::Range(element);
    let DataType::Struct(fields) = data_type(&ty) else {
        return Err(syntax(at, "a range is stored as a struct"));
    };
    let bound = |value: Option<i64>| -> ArrayRef {
        match element {
            RangeElement::Date => Arc::new(Date32Array::from(vec![
                value.and_then(|v| i32::try_from(v).ok()),
            ])),
            RangeElement::Datetime => Arc::new(TimestampMicrosecondArray::from(vec![value])),
            RangeElement::Timestamp => {
                Arc::new(TimestampMicrosecondArray::from(vec![value]).with_timezone("UTC"))
            }
        }
    };
    let array = StructArray::try_new(fields, vec![bound(start), bound(end)], None)
        .map_err(|e| syntax(at, e.to_string()))?;
    Ok(literal(at, ty, array))
}
