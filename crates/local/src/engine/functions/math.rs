//! Mathematical functions.

use num_bigint::{BigInt, Sign};

use super::coercion::supertype;
use super::decimal;
use super::operators::{Arithmetic, arithmetic, decimal_kind, divide, negate, shown};
use super::scalar::{Definition, row};
use super::signature::{Argument, Resolved, no_signature};
use super::text;
use super::types::SqlType;
use super::value::{Answer, Value, compare, fail};
use crate::error::{Result, ServiceError};

const UNARY: &[&str] = &[
    "INT64 -> INT64",
    "FLOAT64 -> FLOAT64",
    "NUMERIC -> NUMERIC",
    "BIGNUMERIC -> BIGNUMERIC",
];
const BINARY: &[&str] = &[
    "INT64, INT64 -> INT64",
    "FLOAT64, FLOAT64 -> FLOAT64",
    "NUMERIC, NUMERIC -> NUMERIC",
    "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC",
];
const FLOATS: &[&str] = &["FLOAT64 -> FLOAT64"];
const ROOTS: &[&str] = &[
    "FLOAT64 -> FLOAT64",
    "NUMERIC -> NUMERIC",
    "BIGNUMERIC -> BIGNUMERIC",
];

/// The result of a FLOAT64 function on one argument, with the range errors that
/// GoogleSQL has.
fn float(name: &str, x: f64, result: f64) -> Answer {
    if x.is_finite() && result.is_infinite() {
        return fail(format!(
            "Floating point error in function: {name}({})",
            text::float_text(x)
        ));
    }
    if !x.is_nan() && result.is_nan() {
        return fail(format!(
            "Floating point error in function: {name}({})",
            text::float_text(x)
        ));
    }
    Ok(Value::Float64(result))
}

/// Applies a FLOAT64 function to a decimal: the double is within the decimal's
/// precision only for NUMERIC inputs of moderate size, so the result is refused
/// where an exact one is not at hand.
fn on_decimal(name: &str, value: &Value<'_>) -> Answer {
    match value {
        Value::Numeric(_) | Value::BigNumeric(_) if name == "SQRT" => {
            let kind = decimal_kind(value);
            let units = kind.units(value)?;
            if units.sign() == Sign::Minus {
                return fail(format!(
                    "Argument to SQRT cannot be negative: {}",
                    shown(value)
                ));
            }
            // √(u·10^-s) = √(u·10^s)·10^-s, with one more digit to round by.
            let scaled = units * decimal::ten(kind.scale() + 2);
            let root = BigInt::from(scaled.magnitude().sqrt());
            kind.checked(&decimal::divide_rounded(&root, &BigInt::from(10u8)), || {
                "SQRT".into()
            })
        }
        _ => Err(ServiceError::unsupported(format!(
            "{name} of a {}",
            decimal_kind(value).sql_name()
        ))),
    }
}

fn pow(a: &[Value<'_>]) -> Answer {
    match (&a[0], &a[1]) {
        (Value::Float64(x), Value::Float64(y)) => {
            let result = x.powf(*y);
            let shown = || format!("POW({}, {})", text::float_text(*x), text::float_text(*y));
            if *x == 0.0 && *y < 0.0 && !y.is_infinite() {
                return fail(format!("Division by zero in function: {}", shown()));
            }
            if (result.is_nan() && !x.is_nan() && !y.is_nan())
                || (result.is_infinite() && x.is_finite() && y.is_finite())
            {
                return fail(format!("Floating point error in function: {}", shown()));
            }
            Ok(Value::Float64(result))
        }
        (x, y) => {
            let kind = decimal_kind(x);
            let (base, exponent) = (kind.units(x)?, kind.units(y)?);
            let unit = decimal::ten(kind.scale());
            if &exponent % &unit != BigInt::ZERO {
                return Err(ServiceError::unsupported(format!(
                    "POW of a {} with a fractional exponent",
                    kind.sql_name()
                )));
            }
            let power = &exponent / &unit;
            let negative = power.sign() == Sign::Minus;
            let Ok(n) = u32::try_from(power.magnitude().clone()) else {
                return Err(ServiceError::unsupported(format!(
                    "POW({}, {})",
                    shown(x),
                    shown(y)
                )));
            };
            let what = || format!("POW({}, {})", shown(x), shown(y));
            if n > 2000 {
                return Err(ServiceError::unsupported(what()));
            }
            let raised = base.pow(n);
            if negative {
                if raised == BigInt::ZERO {
                    return fail(format!("Division by zero in function: {}", what()));
                }
                // unit^n / base^n, scaled.
                let numerator = unit.pow(n) * &unit;
                return kind.checked(&decimal::divide_rounded(&numerator, &raised), what);
            }
            let result = if n == 0 {
                unit
            } else {
                decimal::rescale(&raised, kind.scale() * n, kind.scale())
            };
            kind.checked(&result, what)
        }
    }
}

fn log(a: &[Value<'_>]) -> Answer {
    let x = a[0].float()?;
    if x <= 0.0 {
        return fail(format!(
            "Floating point error in function: LOG({})",
            text::float_text(x)
        ));
    }
    match a.get(1) {
        None => float("LOG", x, x.ln()),
        Some(base) => {
            let base = base.float()?;
            if base <= 0.0 || base == 1.0 {
                return fail(format!(
                    "Floating point error in function: LOG({}, {})",
                    text::float_text(x),
                    text::float_text(base)
                ));
            }
            let result = if base == 2.0 {
                x.log2()
            } else if base == 10.0 {
                x.log10()
            } else {
                x.ln() / base.ln()
            };
            Ok(Value::Float64(result))
        }
    }
}

fn div(a: &[Value<'_>]) -> Answer {
    let by_zero = || {
        fail(format!(
            "division by zero: DIV({}, {})",
            shown(&a[0]),
            shown(&a[1])
        ))
    };
    match (&a[0], &a[1]) {
        (Value::Int64(_), Value::Int64(0)) => by_zero(),
        (Value::Int64(x), Value::Int64(y)) => match x.checked_div(*y) {
            Some(v) => Ok(Value::Int64(v)),
            None => fail(format!("int64 overflow: DIV({x}, {y})")),
        },
        (x, y) => {
            let kind = decimal_kind(x);
            let (p, q) = (kind.units(x)?, kind.units(y)?);
            if q == BigInt::ZERO {
                return by_zero();
            }
            kind.checked(&(p / q * decimal::ten(kind.scale())), || {
                format!("DIV({}, {})", shown(x), shown(y))
            })
        }
    }
}

fn modulo(a: &[Value<'_>]) -> Answer {
    let by_zero = || {
        fail(format!(
            "division by zero: MOD({}, {})",
            shown(&a[0]),
            shown(&a[1])
        ))
    };
    match (&a[0], &a[1]) {
        (Value::Int64(_), Value::Int64(0)) => by_zero(),
        (Value::Int64(x), Value::Int64(y)) => Ok(Value::Int64(x.wrapping_rem(*y))),
        (x, y) => {
            let kind = decimal_kind(x);
            let (p, q) = (kind.units(x)?, kind.units(y)?);
            if q == BigInt::ZERO {
                return by_zero();
            }
            kind.checked(&(p % q), || "MOD".into())
        }
    }
}

fn abs(a: &[Value<'_>]) -> Answer {
    match &a[0] {
        Value::Int64(v) => match v.checked_abs() {
            Some(v) => Ok(Value::Int64(v)),
            None => fail(format!("int64 overflow: ABS({v})")),
        },
        Value::Float64(v) => Ok(Value::Float64(v.abs())),
        v => match compare_to_zero(v)? {
            Sign::Minus => negate(v),
            _ => Ok(v.to_owned_value()),
        },
    }
}

fn compare_to_zero(value: &Value<'_>) -> Result<Sign> {
    Ok(decimal_kind(value).units(value)?.sign())
}

fn sign(a: &[Value<'_>]) -> Answer {
    Ok(match &a[0] {
        Value::Int64(v) => Value::Int64(v.signum()),
        Value::Float64(v) => Value::Float64(if v.is_nan() || *v == 0.0 {
            *v
        } else {
            v.signum()
        }),
        v => {
            let kind = decimal_kind(v);
            let one = match kind.units(v)?.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            };
            return kind.checked(&(BigInt::from(one) * decimal::ten(kind.scale())), || {
                "SIGN".into()
            });
        }
    })
}

/// Rounds a double to `digits` decimal places half away from zero, through its
/// shortest decimal text: ROUND(2.345, 2) is 2.35 although the nearest double
/// lies a little below.
fn round_float(x: f64, digits: i64) -> f64 {
    if !x.is_finite() || digits > 330 {
        return x;
    }
    if digits < -330 {
        return 0.0;
    }
    if digits == 0 {
        return x.round();
    }
    let factor = 10f64.powi(digits.unsigned_abs() as i32);
    if factor.is_infinite() {
        return if digits > 0 { x } else { 0.0 };
    }
    if digits > 0 {
        let scaled = x * factor;
        if !scaled.is_finite() || scaled.abs() >= 9_007_199_254_740_992.0 {
            return x;
        }
        scaled.round() / factor
    } else {
        (x / factor).round() * factor
    }
}

fn truncate_float(x: f64, digits: i64) -> f64 {
    if !x.is_finite() || digits > 330 {
        return x;
    }
    if digits == 0 {
        return x.trunc();
    }
    let factor = 10f64.powi(digits.unsigned_abs().min(400) as i32);
    if digits > 0 {
        let scaled = x * factor;
        if scaled.is_finite() {
            scaled.trunc() / factor
        } else {
            x
        }
    } else if factor.is_infinite() {
        0.0
    } else {
        (x / factor).trunc() * factor
    }
}

fn round(a: &[Value<'_>]) -> Answer {
    let digits = a.get(1).map_or(Ok(0), Value::int)?;
    match &a[0] {
        Value::Float64(x) => {
            let rounded = round_float(*x, digits);
            if rounded.is_infinite() && x.is_finite() {
                return fail(format!(
                    "Floating point overflow in function: ROUND({}, {digits})",
                    text::float_text(*x)
                ));
            }
            Ok(Value::Float64(rounded))
        }
        v => {
            let kind = decimal_kind(v);
            let units = kind.units(v)?;
            let rounded = match a.get(2).map(Value::str).transpose()? {
                None | Some("ROUND_HALF_AWAY_FROM_ZERO") => {
                    decimal::round(&units, kind.scale(), digits)
                }
                Some("ROUND_HALF_EVEN") => half_even(&units, kind.scale(), digits),
                Some(other) => return fail(format!("Invalid rounding mode: {other}")),
            };
            kind.checked(&rounded, || format!("ROUND({}, {digits})", shown(v)))
        }
    }
}

fn half_even(units: &BigInt, scale: u32, digits: i64) -> BigInt {
    let away = decimal::round(units, scale, digits);
    let drop = i64::from(scale).saturating_sub(digits);
    if drop <= 0 {
        return away;
    }
    let unit = decimal::ten(u32::try_from(drop.min(200)).unwrap_or(200));
    let tie = (units % &unit).magnitude() * 2u8 == *unit.magnitude();
    let odd = (&away / &unit) % 2 != BigInt::ZERO;
    if tie && odd {
        if units.sign() == Sign::Minus {
            away + unit
        } else {
            away - unit
        }
    } else {
        away
    }
}

fn trunc(a: &[Value<'_>]) -> Answer {
    let digits = a.get(1).map_or(Ok(0), Value::int)?;
    match &a[0] {
        Value::Float64(x) => Ok(Value::Float64(truncate_float(*x, digits))),
        v => {
            let kind = decimal_kind(v);
            kind.checked(
                &decimal::truncate(&kind.units(v)?, kind.scale(), digits),
                || "TRUNC".into(),
            )
        }
    }
}

fn floor_ceil(a: &[Value<'_>], up: bool) -> Answer {
    match &a[0] {
        Value::Float64(x) => Ok(Value::Float64(if up { x.ceil() } else { x.floor() })),
        v => {
            let kind = decimal_kind(v);
            let units = kind.units(v)?;
            let result = if up {
                -decimal::floor(&-units, kind.scale())
            } else {
                decimal::floor(&units, kind.scale())
            };
            let name = if up { "CEIL" } else { "FLOOR" };
            kind.checked(&result, || format!("{name}({})", shown(v)))
        }
    }
}

fn extreme_operands(name: &str, args: &[Argument]) -> Result<Resolved> {
    let types: Vec<_> = args
        .iter()
        .map(|a| (a.sql_type.clone(), a.literalness()))
        .collect();
    match supertype(&types) {
        Some(t) if !args.is_empty() && (t.supports_ordering() || matches!(t, SqlType::Null)) => {
            let t = if t == SqlType::Null {
                SqlType::Int64
            } else {
                t
            };
            Ok(Resolved {
                args: vec![t.clone(); args.len()],
                ret: t,
            })
        }
        _ => no_signature(name, args, &[]),
    }
}

fn extreme(a: &[Value<'_>], greatest: bool) -> Answer {
    if let Some(nan) = a
        .iter()
        .find(|v| matches!(v, Value::Float64(x) if x.is_nan()))
    {
        return Ok(nan.to_owned_value());
    }
    let mut best = &a[0];
    for v in &a[1..] {
        let order = compare(v, best);
        if (greatest && order.is_gt()) || (!greatest && order.is_lt()) {
            best = v;
        }
    }
    Ok(best.to_owned_value())
}

fn ieee_divide(x: f64, y: f64) -> f64 {
    x / y
}

fn range_bucket(a: &[Value<'_>]) -> Answer {
    let bounds = a[1].array()?;
    if bounds.iter().any(Value::is_null) {
        return fail("Elements in input array to RANGE_BUCKET cannot be null.");
    }
    let nan = |v: &Value<'_>| matches!(v, Value::Float64(x) if x.is_nan());
    if bounds.windows(2).any(|w| compare(&w[0], &w[1]).is_gt()) {
        return fail("Elements in input array to RANGE_BUCKET must be in ascending order.");
    }
    if nan(&a[0]) {
        return Ok(Value::Null);
    }
    let below = bounds.iter().filter(|b| compare(b, &a[0]).is_le()).count();
    Ok(Value::Int64(below as i64))
}

/// Euclid's or the cosine distance of two dense vectors.
fn distance(a: &[Value<'_>], cosine: bool) -> Answer {
    let name = if cosine {
        "COSINE_DISTANCE"
    } else {
        "EUCLIDEAN_DISTANCE"
    };
    let vector = |v: &Value<'_>| -> Result<Option<Vec<f64>>> {
        let items = v.array()?;
        if items.iter().any(Value::is_null) {
            return Ok(None);
        }
        items
            .iter()
            .map(Value::float)
            .collect::<Result<_>>()
            .map(Some)
    };
    let (Some(x), Some(y)) = (vector(&a[0])?, vector(&a[1])?) else {
        return fail(format!(
            "Cannot compute {name} against vectors with NULL elements"
        ));
    };
    if x.len() != y.len() {
        return fail(format!("Array arguments to {name} must have equal length"));
    }
    if cosine {
        let dot: f64 = x.iter().zip(&y).map(|(a, b)| a * b).sum();
        let norm = |v: &[f64]| v.iter().map(|a| a * a).sum::<f64>().sqrt();
        let (p, q) = (norm(&x), norm(&y));
        if p == 0.0 || q == 0.0 {
            return fail(format!("Cannot compute {name} against zero vector"));
        }
        return Ok(Value::Float64(1.0 - dot / (p * q)));
    }
    Ok(Value::Float64(
        x.iter()
            .zip(&y)
            .map(|(a, b)| (a - b) * (a - b))
            .sum::<f64>()
            .sqrt(),
    ))
}

/// NULL in place of an error.
fn or_null(answer: Answer) -> Answer {
    Ok(answer.unwrap_or(Value::Null))
}

macro_rules! floats {
    ($($name:literal => $f:expr),* $(,)?) => {
        vec![$(row($name, FLOATS, |a| {
            let x = a[0].float()?;
            let f: fn(f64) -> f64 = $f;
            float(&$name.to_ascii_uppercase(), x, f(x))
        })),*]
    };
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    let ceilings: &[&'static str] = ROOTS;
    let mut all = vec![
        row("abs", UNARY, abs),
        row("sign", UNARY, sign),
        row("is_inf", &["FLOAT64 -> BOOL"], |a| {
            Ok(Value::Bool(a[0].float()?.is_infinite()))
        }),
        row("is_nan", &["FLOAT64 -> BOOL"], |a| {
            Ok(Value::Bool(a[0].float()?.is_nan()))
        }),
        row("ieee_divide", &["FLOAT64, FLOAT64 -> FLOAT64"], |a| {
            Ok(Value::Float64(ieee_divide(a[0].float()?, a[1].float()?)))
        }),
        row("rand", &["-> FLOAT64"], |_| {
            Ok(Value::Float64(rand::random::<f64>()))
        })
        .volatile(),
        row("sqrt", ROOTS, |a| match &a[0] {
            Value::Float64(x) if *x < 0.0 => fail(format!(
                "Floating point error in function: SQRT({})",
                text::float_text(*x)
            )),
            Value::Float64(x) => float("SQRT", *x, x.sqrt()),
            v => on_decimal("SQRT", v),
        }),
        row("exp", ROOTS, |a| match &a[0] {
            Value::Float64(x) => float("EXP", *x, x.exp()),
            v => on_decimal("EXP", v),
        }),
        row("ln", ROOTS, |a| match &a[0] {
            Value::Float64(x) if *x <= 0.0 => fail(format!(
                "Floating point error in function: LN({})",
                text::float_text(*x)
            )),
            Value::Float64(x) => float("LN", *x, x.ln()),
            v => on_decimal("LN", v),
        }),
        row("log10", ROOTS, |a| match &a[0] {
            Value::Float64(x) if *x <= 0.0 => fail(format!(
                "Floating point error in function: LOG10({})",
                text::float_text(*x)
            )),
            Value::Float64(x) => float("LOG10", *x, x.log10()),
            v => on_decimal("LOG10", v),
        }),
        row("log", &["FLOAT64, FLOAT64? -> FLOAT64"], log),
        row("div", &[BINARY[0], BINARY[2], BINARY[3]], div),
        row("mod", &[BINARY[0], BINARY[2], BINARY[3]], modulo),
        row(
            "round",
            &[
                "FLOAT64, INT64? -> FLOAT64",
                "NUMERIC, INT64? -> NUMERIC",
                "BIGNUMERIC, INT64? -> BIGNUMERIC",
                "NUMERIC, INT64, STRING -> NUMERIC",
                "BIGNUMERIC, INT64, STRING -> BIGNUMERIC",
            ],
            round,
        ),
        row(
            "trunc",
            &[
                "FLOAT64, INT64? -> FLOAT64",
                "NUMERIC, INT64? -> NUMERIC",
                "BIGNUMERIC, INT64? -> BIGNUMERIC",
            ],
            trunc,
        ),
        row("ceil", ceilings, |a| floor_ceil(a, true)),
        row("ceiling", ceilings, |a| floor_ceil(a, true)),
        row("floor", ceilings, |a| floor_ceil(a, false)),
        row("greatest", &[], |a| extreme(a, true)).resolved_by(extreme_operands),
        row("least", &[], |a| extreme(a, false)).resolved_by(extreme_operands),
        row("safe_add", BINARY, |a| {
            or_null(arithmetic(Arithmetic::Add, &a[0], &a[1]))
        }),
        row("safe_subtract", BINARY, |a| {
            or_null(arithmetic(Arithmetic::Subtract, &a[0], &a[1]))
        }),
        row("safe_multiply", BINARY, |a| {
            or_null(arithmetic(Arithmetic::Multiply, &a[0], &a[1]))
        }),
        row("safe_divide", &BINARY[1..], |a| {
            or_null(divide(&a[0], &a[1]))
        }),
        row("safe_negate", UNARY, |a| or_null(negate(&a[0]))),
        row("range_bucket", &["T, ARRAY<T> -> INT64"], range_bucket),
        row("atan2", &["FLOAT64, FLOAT64 -> FLOAT64"], |a| {
            Ok(Value::Float64(a[0].float()?.atan2(a[1].float()?)))
        }),
        row(
            "euclidean_distance",
            &["ARRAY<FLOAT64>, ARRAY<FLOAT64> -> FLOAT64"],
            |a| distance(a, false),
        ),
        row(
            "cosine_distance",
            &["ARRAY<FLOAT64>, ARRAY<FLOAT64> -> FLOAT64"],
            |a| distance(a, true),
        ),
    ];
    for name in ["pow", "power"] {
        all.push(row(name, &BINARY[1..], pow));
    }
    all.extend(floats! {
        "cbrt" => f64::cbrt,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "asin" => f64::asin,
        "acos" => f64::acos,
        "atan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "asinh" => f64::asinh,
        "acosh" => f64::acosh,
        "atanh" => f64::atanh,
        "sec" => |x| 1.0 / x.cos(),
        "csc" => |x| 1.0 / x.sin(),
        "cot" => |x| 1.0 / x.tan(),
        "sech" => |x| 1.0 / x.cosh(),
        "csch" => |x| 1.0 / x.sinh(),
        "coth" => |x| 1.0 / x.tanh(),
    });
    all
}

#[cfg(test)]
#[path = "math_tests.rs"]
mod tests;
