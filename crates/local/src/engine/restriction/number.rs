//! Numeric functions.

use arrow::datatypes::{Float64Type, Int64Type, i256};

use super::datum::{Datum, Rows};
use super::error::failed;
use super::types::Type;
use super::wide;
use crate::error::Result;

/// Functions over numbers; arguments have the result's type unless said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberFunction {
    Abs,
    Sign,
    Mod,
    Div,
    Floor,
    Ceil,
    Round,
    Trunc,
    Sqrt,
    Greatest,
    Least,
    /// NULL instead of a division by zero.
    SafeDivide,
    /// FLOAT64 → BOOL.
    IsNan,
    /// FLOAT64 → BOOL.
    IsInf,
}

/// Truncated integer division; `None` on overflow.
pub(super) fn divided(a: i64, b: i64) -> Result<Option<i64>> {
    if b == 0 {
        return Err(failed(format_args!("division by zero: {a} / {b}")));
    }
    Ok(a.checked_div(b))
}

fn overflow(name: &str) -> crate::error::ServiceError {
    failed(format_args!("numeric overflow in {name}"))
}

/// Evaluates a function whose result has type `ty`.
pub(super) fn call(
    function: NumberFunction,
    ty: &Type,
    values: &[Datum],
    rows: &Rows,
) -> Result<Datum> {
    use NumberFunction::{IsInf, IsNan};
    let arguments: Vec<&Datum> = values.iter().collect();
    if matches!(function, IsNan | IsInf) {
        let view = values[0].primitive::<Float64Type>();
        return rows.booleans(&arguments, |i| {
            Ok(view.get(i).map(|v| match function {
                IsNan => v.is_nan(),
                _ => v.is_infinite(),
            }))
        });
    }
    match ty {
        Type::Int64 => {
            let views: Vec<_> = values.iter().map(Datum::primitive::<Int64Type>).collect();
            rows.primitive::<Int64Type>(&arguments, |i| {
                match views.iter().map(|v| v.get(i)).collect::<Option<Vec<_>>>() {
                    Some(all) => integer(function, &all).map(Some),
                    None => Ok(None),
                }
            })
        }
        Type::Float64 => {
            let views: Vec<_> = values.iter().map(Datum::primitive::<Float64Type>).collect();
            rows.primitive::<Float64Type>(&arguments, |i| {
                match views.iter().map(|v| v.get(i)).collect::<Option<Vec<_>>>() {
                    Some(all) => float(function, &all),
                    None => Ok(None),
                }
            })
        }
        _ => {
            let scale = if *ty == Type::Numeric { 9 } else { 38 };
            rows.scaled(ty, &arguments, |i| {
                match values
                    .iter()
                    .map(|v| v.scaled(i))
                    .collect::<Option<Vec<_>>>()
                {
                    Some(all) => decimal(function, scale, &all),
                    None => Ok(None),
                }
            })
        }
    }
}

fn integer(function: NumberFunction, all: &[i64]) -> Result<i64> {
    let a = all[0];
    match function {
        NumberFunction::Abs => a
            .checked_abs()
            .ok_or_else(|| failed(format_args!("int64 overflow: ABS({a})"))),
        NumberFunction::Sign => Ok(a.signum()),
        NumberFunction::Mod => {
            if all[1] == 0 {
                return Err(failed(format_args!("division by zero: MOD({a}, 0)")));
            }
            // The one overflow, of the smallest by −1, has remainder 0.
            Ok(a.checked_rem(all[1]).unwrap_or(0))
        }
        NumberFunction::Div => {
            divided(a, all[1])?.ok_or_else(|| failed(format_args!("int64 overflow: DIV({a}, -1)")))
        }
        NumberFunction::Greatest => Ok(all.iter().copied().fold(a, i64::max)),
        NumberFunction::Least => Ok(all.iter().copied().fold(a, i64::min)),
        other => Err(failed(format_args!("internal: {other:?} over INT64"))),
    }
}

fn float(function: NumberFunction, all: &[f64]) -> Result<Option<f64>> {
    let a = all[0];
    Ok(Some(match function {
        NumberFunction::Abs => a.abs(),
        NumberFunction::Sign if a == 0.0 || a.is_nan() => a,
        NumberFunction::Sign => a.signum(),
        NumberFunction::Floor => a.floor(),
        NumberFunction::Ceil => a.ceil(),
        // Half away from zero, as f64::round does.
        NumberFunction::Round => a.round(),
        NumberFunction::Trunc => a.trunc(),
        NumberFunction::Sqrt if a < 0.0 => {
            return Err(failed(format_args!(
                "Argument to SQRT cannot be negative: {a}"
            )));
        }
        NumberFunction::Sqrt => a.sqrt(),
        NumberFunction::SafeDivide => {
            let result = a / all[1];
            if all[1] == 0.0 || (result.is_infinite() && a.is_finite()) {
                return Ok(None);
            }
            result
        }
        NumberFunction::Greatest | NumberFunction::Least if all.iter().any(|v| v.is_nan()) => {
            f64::NAN
        }
        NumberFunction::Greatest => all.iter().copied().fold(a, f64::max),
        NumberFunction::Least => all.iter().copied().fold(a, f64::min),
        other => return Err(failed(format_args!("internal: {other:?} over FLOAT64"))),
    }))
}

fn decimal(function: NumberFunction, scale: u32, all: &[i256]) -> Result<Option<i256>> {
    let a = all[0];
    let one = i256::from_i128(10_i128.pow(scale));
    let whole = |quotient: Option<i256>| quotient.and_then(|q| q.checked_mul(one));
    let truncated = a.checked_div(one);
    let has_fraction = a.checked_rem(one).is_some_and(|r| r != i256::ZERO);
    let step = i256::from_i128(1);
    let result = match function {
        NumberFunction::Abs => a.checked_abs(),
        NumberFunction::Sign => match a.cmp(&i256::ZERO) {
            std::cmp::Ordering::Less => one.checked_neg(),
            std::cmp::Ordering::Equal => Some(i256::ZERO),
            std::cmp::Ordering::Greater => Some(one),
        },
        NumberFunction::Mod | NumberFunction::Div if all[1] == i256::ZERO => {
            return Err(failed("division by zero"));
        }
        NumberFunction::Mod => a.checked_rem(all[1]).or(Some(i256::ZERO)),
        NumberFunction::Div => whole(a.checked_div(all[1])),
        NumberFunction::Trunc => whole(truncated),
        NumberFunction::Floor if has_fraction && a < i256::ZERO => {
            whole(truncated.and_then(|q| q.checked_sub(step)))
        }
        NumberFunction::Ceil if has_fraction && a > i256::ZERO => {
            whole(truncated.and_then(|q| q.checked_add(step)))
        }
        NumberFunction::Floor | NumberFunction::Ceil => whole(truncated),
        NumberFunction::Round => whole(wide::rescale(a, scale, 0)),
        NumberFunction::SafeDivide if all[1] == i256::ZERO => return Ok(None),
        NumberFunction::SafeDivide => return Ok(wide::divide(a, all[1], scale)),
        NumberFunction::Greatest => all.iter().copied().max(),
        NumberFunction::Least => all.iter().copied().min(),
        NumberFunction::Sqrt | NumberFunction::IsNan | NumberFunction::IsInf => {
            return Err(failed(format_args!("internal: {function:?} over decimals")));
        }
    };
    result.map(Some).ok_or_else(|| overflow("a function"))
}
