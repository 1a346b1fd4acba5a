//! `+ - * /`, shifts and bit operators, unary minus.

use arrow::datatypes::{
    Date32Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    TimestampMicrosecondType, i256,
};

use super::ast::Arithmetic;
use super::bind::Bound;
use super::coerce::{alike, coerce};
use super::datum::{Datum, Rows};
use super::error::{failed, syntax};
use super::expr::{Expr, Kind};
use super::interval;
use super::types::Type;
use super::{number, temporal, wide};
use crate::error::Result;
use crate::value::civil::DAY_MICROS;

/// Types a binary operator.
pub(super) fn bind(at: usize, operator: Arithmetic, left: Expr, right: Expr) -> Bound<Expr> {
    let symbol = operator.symbol();
    let types = format!("{}, {}", left.ty, right.ty);
    let mismatch = move || {
        syntax(
            at,
            format!("No matching signature for operator {symbol} for argument types: {types}"),
        )
    };
    if let Some(expr) = civil(at, operator, &left, &right) {
        return Ok(expr);
    }
    let both = alike(vec![left, right])?
        .and_then(|all| <[Expr; 2]>::try_from(all).ok())
        .filter(|all| all[0].ty.is_number());
    let Some([left, right]) = both else {
        return Err(mismatch());
    };
    let (left, right) = match operator {
        Arithmetic::Add | Arithmetic::Sub | Arithmetic::Mul => (left, right),
        // Division of integers is a FLOAT64.
        Arithmetic::Div if left.ty == Type::Int64 => {
            let float = |e| coerce(e, &Type::Float64).ok_or_else(&mismatch);
            (float(left)??, float(right)??)
        }
        Arithmetic::Div => (left, right),
        Arithmetic::BitAnd
        | Arithmetic::BitOr
        | Arithmetic::BitXor
        | Arithmetic::ShiftLeft
        | Arithmetic::ShiftRight => {
            if left.ty != Type::Int64 {
                return Err(mismatch());
            }
            (left, right)
        }
    };
    let ty = left.ty.clone();
    let kind = Kind::Arithmetic(operator, Box::new(left), Box::new(right));
    Ok(Expr::new(at, ty, kind).failing(true))
}

/// Operators over dates, times and intervals.
fn civil(at: usize, operator: Arithmetic, left: &Expr, right: &Expr) -> Option<Expr> {
    use Arithmetic::{Add, Sub};
    let point = |t: &Type| matches!(t, Type::Date | Type::Datetime | Type::Timestamp);
    let ty = match (operator, &left.ty, &right.ty) {
        (Add | Sub, Type::Date, Type::Int64) | (Add, Type::Int64, Type::Date) => Type::Date,
        (Add | Sub, Type::Interval, Type::Interval) => Type::Interval,
        (Add | Sub, Type::Date, Type::Interval) | (Add, Type::Interval, Type::Date) => {
            Type::Datetime
        }
        (Add | Sub, t, Type::Interval) if point(t) => t.clone(),
        (Add, Type::Interval, t) if point(t) => t.clone(),
        (Sub, a, b) if point(a) && a == b => Type::Interval,
        _ => return None,
    };
    // The point in time first, the distance second.
    let (left, right) = match (&left.ty, &right.ty) {
        (Type::Int64, Type::Date) => (right, left),
        (Type::Interval, t) if point(t) => (right, left),
        _ => (left, right),
    };
    let kind = Kind::Arithmetic(operator, Box::new(left.clone()), Box::new(right.clone()));
    Some(Expr::new(at, ty, kind).failing(true))
}

/// Types unary minus.
pub(super) fn negate(at: usize, inner: Expr) -> Bound<Expr> {
    let ty = inner.ty.clone();
    if !(ty.is_number() || ty == Type::Interval) {
        return Err(syntax(
            at,
            format!("No matching signature for operator - for argument types: {ty}"),
        ));
    }
    Ok(Expr::new(at, ty, Kind::Negate(Box::new(inner))).failing(true))
}

/// Evaluates unary minus.
pub(super) fn negated(ty: &Type, value: &Datum, rows: &Rows) -> Result<Datum> {
    match ty {
        Type::Int64 => {
            let view = value.primitive::<Int64Type>();
            rows.primitive::<Int64Type>(&[value], |i| {
                view.get(i)
                    .map(|v| v.checked_neg().ok_or_else(|| int_overflow("-", v, None)))
                    .transpose()
            })
        }
        Type::Float64 => {
            let view = value.primitive::<Float64Type>();
            rows.primitive::<Float64Type>(&[value], |i| Ok(view.get(i).map(|v| -v)))
        }
        Type::Interval => {
            let view = value.primitive::<IntervalMonthDayNanoType>();
            rows.primitive::<IntervalMonthDayNanoType>(&[value], |i| {
                Ok(view.get(i).map(|v| {
                    IntervalMonthDayNano::new(
                        v.months.wrapping_neg(),
                        v.days.wrapping_neg(),
                        v.nanoseconds.wrapping_neg(),
                    )
                }))
            })
        }
        _ => rows.scaled(ty, &[value], |i| {
            value
                .scaled(i)
                .map(|v| v.checked_neg().ok_or_else(|| failed("numeric overflow")))
                .transpose()
        }),
    }
}

fn int_overflow(symbol: &str, a: i64, b: Option<i64>) -> crate::error::ServiceError {
    match b {
        Some(b) => failed(format_args!("int64 overflow: {a} {symbol} {b}")),
        None => failed(format_args!("int64 overflow: {symbol}({a})")),
    }
}

/// Evaluates a binary operator. `operands` are the types of both sides.
pub(super) fn compute(
    operator: Arithmetic,
    ty: &Type,
    operands: (&Type, &Type),
    left: &Datum,
    right: &Datum,
    rows: &Rows,
) -> Result<Datum> {
    match operands {
        (Type::Int64, Type::Int64) => integers(operator, left, right, rows),
        (Type::Float64, _) => floats(operator, left, right, rows),
        (Type::Numeric, _) => decimals(operator, ty, 9, left, right, rows),
        (Type::Bignumeric, _) => decimals(operator, ty, 38, left, right, rows),
        _ => civils(operator, operands, left, right, rows),
    }
}

fn integers(operator: Arithmetic, left: &Datum, right: &Datum, rows: &Rows) -> Result<Datum> {
    let (a, b) = (
        left.primitive::<Int64Type>(),
        right.primitive::<Int64Type>(),
    );
    rows.primitive::<Int64Type>(&[left, right], |i| {
        let Some((a, b)) = a.get(i).zip(b.get(i)) else {
            return Ok(None);
        };
        let shift = || {
            u32::try_from(b)
                .map_err(|_| failed(format_args!("Bitwise shift by negative offset {b}")))
        };
        let result = match operator {
            Arithmetic::Add => a.checked_add(b),
            Arithmetic::Sub => a.checked_sub(b),
            Arithmetic::Mul => a.checked_mul(b),
            Arithmetic::Div => number::divided(a, b)?,
            Arithmetic::BitAnd => Some(a & b),
            Arithmetic::BitOr => Some(a | b),
            Arithmetic::BitXor => Some(a ^ b),
            Arithmetic::ShiftLeft => Some(a.checked_shl(shift()?).unwrap_or(0)),
            // The shift is of bits: the sign is not carried down.
            Arithmetic::ShiftRight => Some(
                a.cast_unsigned()
                    .checked_shr(shift()?)
                    .unwrap_or(0)
                    .cast_signed(),
            ),
        };
        result
            .map(Some)
            .ok_or_else(|| int_overflow(operator.symbol(), a, Some(b)))
    })
}

fn floats(operator: Arithmetic, left: &Datum, right: &Datum, rows: &Rows) -> Result<Datum> {
    let (a, b) = (
        left.primitive::<Float64Type>(),
        right.primitive::<Float64Type>(),
    );
    rows.primitive::<Float64Type>(&[left, right], |i| {
        let Some((a, b)) = a.get(i).zip(b.get(i)) else {
            return Ok(None);
        };
        let symbol = operator.symbol();
        let result = match operator {
            Arithmetic::Add => a + b,
            Arithmetic::Sub => a - b,
            Arithmetic::Mul => a * b,
            Arithmetic::Div => {
                if b == 0.0 {
                    return Err(failed(format_args!("division by zero: {a} / {b}")));
                }
                a / b
            }
            _ => return Err(failed(format_args!("internal: {symbol} over FLOAT64"))),
        };
        // Overflow to infinity is an error unless an operand was infinite.
        if result.is_infinite() && a.is_finite() && b.is_finite() {
            return Err(failed(format_args!("double overflow: {a} {symbol} {b}")));
        }
        Ok(Some(result))
    })
}

fn decimals(
    operator: Arithmetic,
    ty: &Type,
    scale: u32,
    left: &Datum,
    right: &Datum,
    rows: &Rows,
) -> Result<Datum> {
    rows.scaled(ty, &[left, right], |i| {
        let Some((a, b)) = left.scaled(i).zip(right.scaled(i)) else {
            return Ok(None);
        };
        let symbol = operator.symbol();
        let result = match operator {
            Arithmetic::Add => a.checked_add(b),
            Arithmetic::Sub => a.checked_sub(b),
            Arithmetic::Mul => wide::multiply(a, b, scale),
            Arithmetic::Div if b == i256::ZERO => return Err(failed("division by zero")),
            Arithmetic::Div => wide::divide(a, b, scale),
            _ => return Err(failed(format_args!("internal: {symbol} over decimals"))),
        };
        result
            .map(Some)
            .ok_or_else(|| failed(format_args!("numeric overflow in {symbol}")))
    })
}

fn civils(
    operator: Arithmetic,
    operands: (&Type, &Type),
    left: &Datum,
    right: &Datum,
    rows: &Rows,
) -> Result<Datum> {
    let sign = if operator == Arithmetic::Sub { -1 } else { 1 };
    let both = [left, right];
    match operands {
        (Type::Date, Type::Int64) => {
            let (a, b) = (
                left.primitive::<Date32Type>(),
                right.primitive::<Int64Type>(),
            );
            rows.primitive::<Date32Type>(&both, |i| {
                a.get(i)
                    .zip(b.get(i))
                    .map(|(a, b)| {
                        b.checked_mul(sign)
                            .and_then(|b| temporal::add_days(a, b))
                            .ok_or_else(|| temporal::overflow("DATE"))
                    })
                    .transpose()
            })
        }
        (Type::Date, Type::Date) => {
            let (a, b) = (
                left.primitive::<Date32Type>(),
                right.primitive::<Date32Type>(),
            );
            rows.primitive::<IntervalMonthDayNanoType>(&both, |i| {
                Ok(a.get(i)
                    .zip(b.get(i))
                    .map(|(a, b)| IntervalMonthDayNano::new(0, a - b, 0)))
            })
        }
        (Type::Datetime | Type::Timestamp, Type::Datetime | Type::Timestamp) => {
            let (a, b) = (
                left.primitive::<TimestampMicrosecondType>(),
                right.primitive::<TimestampMicrosecondType>(),
            );
            rows.primitive::<IntervalMonthDayNanoType>(&both, |i| {
                a.get(i)
                    .zip(b.get(i))
                    .map(|(a, b)| interval::checked(0, 0, a - b))
                    .transpose()
            })
        }
        (Type::Interval, Type::Interval) => {
            let (a, b) = (
                left.primitive::<IntervalMonthDayNanoType>(),
                right.primitive::<IntervalMonthDayNanoType>(),
            );
            rows.primitive::<IntervalMonthDayNanoType>(&both, |i| {
                a.get(i)
                    .zip(b.get(i))
                    .map(|(a, b)| {
                        interval::checked(
                            i64::from(a.months) + sign * i64::from(b.months),
                            i64::from(a.days) + sign * i64::from(b.days),
                            a.nanoseconds / 1000 + sign * (b.nanoseconds / 1000),
                        )
                    })
                    .transpose()
            })
        }
        (point, Type::Interval) => {
            let b = right.primitive::<IntervalMonthDayNanoType>();
            let shift = |micros: i64, by: IntervalMonthDayNano| {
                if *point == Type::Timestamp && by.months != 0 {
                    return Err(failed(
                        "TIMESTAMP +/- INTERVAL is not supported for intervals with non-zero MONTH or YEAR part",
                    ));
                }
                temporal::add_interval(micros, by, sign)
                    .ok_or_else(|| temporal::overflow("DATETIME"))
            };
            if *point == Type::Date {
                let a = left.primitive::<Date32Type>();
                rows.primitive::<TimestampMicrosecondType>(&both, |i| {
                    a.get(i)
                        .zip(b.get(i))
                        .map(|(a, b)| shift(i64::from(a) * DAY_MICROS, b))
                        .transpose()
                })
            } else {
                let a = left.primitive::<TimestampMicrosecondType>();
                rows.primitive::<TimestampMicrosecondType>(&both, |i| {
                    a.get(i).zip(b.get(i)).map(|(a, b)| shift(a, b)).transpose()
                })
            }
        }
        _ => Err(failed("internal: operator over these types")),
    }
}
