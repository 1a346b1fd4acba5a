//! Arithmetic, comparison, bit and text operators.

use num_bigint::BigInt;
use std::cmp::Ordering;

use super::civil;
use super::decimal::{self, DecimalKind};
use super::interval;
use super::pattern;
use super::scalar::{Definition, planned, row};
use super::signature::{Argument, Resolved, Signature, no_signature, resolve};
use super::text;
use super::types::SqlType;
use super::value::{Answer, Interval, Value, compare, fail};
use crate::error::{Result, ServiceError};

/// `+`, `-` or `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// Addition.
    Add,
    /// Subtraction.
    Subtract,
    /// Multiplication.
    Multiply,
}

impl Arithmetic {
    fn symbol(self) -> char {
        match self {
            Arithmetic::Add => '+',
            Arithmetic::Subtract => '-',
            Arithmetic::Multiply => '*',
        }
    }
}

/// Adds, subtracts or multiplies two numbers of one type.
pub(crate) fn arithmetic(op: Arithmetic, a: &Value<'_>, b: &Value<'_>) -> Answer {
    match (a, b) {
        (Value::Int64(x), Value::Int64(y)) => {
            let result = match op {
                Arithmetic::Add => x.checked_add(*y),
                Arithmetic::Subtract => x.checked_sub(*y),
                Arithmetic::Multiply => x.checked_mul(*y),
            };
            match result {
                Some(v) => Ok(Value::Int64(v)),
                None => fail(format!("int64 overflow: {x} {} {y}", op.symbol())),
            }
        }
        (Value::Float64(x), Value::Float64(y)) => {
            let result = match op {
                Arithmetic::Add => x + y,
                Arithmetic::Subtract => x - y,
                Arithmetic::Multiply => x * y,
            };
            if result.is_infinite() && x.is_finite() && y.is_finite() {
                return fail(format!(
                    "double overflow: {} {} {}",
                    text::float_text(*x),
                    op.symbol(),
                    text::float_text(*y)
                ));
            }
            Ok(Value::Float64(result))
        }
        (Value::Numeric(x), Value::Numeric(y)) if op != Arithmetic::Multiply => {
            let result = match op {
                Arithmetic::Add => x.checked_add(*y),
                _ => x.checked_sub(*y),
            };
            match result.filter(|v| v.unsigned_abs() < 10u128.pow(38)) {
                Some(v) => Ok(Value::Numeric(v)),
                None => decimal_overflow(DecimalKind::Numeric, op, a, b),
            }
        }
        (Value::BigNumeric(x), Value::BigNumeric(y)) if op != Arithmetic::Multiply => {
            let result = match op {
                Arithmetic::Add => x.checked_add(*y),
                _ => x.checked_sub(*y),
            };
            match result {
                Some(v) => Ok(Value::BigNumeric(v)),
                None => decimal_overflow(DecimalKind::BigNumeric, op, a, b),
            }
        }
        (Value::Numeric(x), Value::Numeric(y)) => {
            // Most products fit 128 bits before they are scaled back.
            if let Some(product) = x.checked_mul(*y) {
                let unit = 1_000_000_000;
                let (q, r) = (product / unit, product % unit);
                let half = if r.abs() * 2 >= unit { r.signum() } else { 0 };
                return Ok(Value::Numeric(q + half));
            }
            multiply_decimals(DecimalKind::Numeric, a, b)
        }
        (Value::BigNumeric(_), Value::BigNumeric(_)) => {
            multiply_decimals(DecimalKind::BigNumeric, a, b)
        }
        _ => Err(ServiceError::internal(format!("no arithmetic on {a:?}"))),
    }
}

fn multiply_decimals(kind: DecimalKind, a: &Value<'_>, b: &Value<'_>) -> Answer {
    let product = kind.units(a)? * kind.units(b)?;
    match kind.value(&decimal::rescale(&product, 2 * kind.scale(), kind.scale())) {
        Some(v) => Ok(v),
        None => decimal_overflow(kind, Arithmetic::Multiply, a, b),
    }
}

fn decimal_overflow(kind: DecimalKind, op: Arithmetic, a: &Value<'_>, b: &Value<'_>) -> Answer {
    fail(format!(
        "{} overflow: {} {} {}",
        kind.sql_name().to_lowercase(),
        shown(a),
        op.symbol(),
        shown(b)
    ))
}

/// A number as error messages show it.
pub(crate) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Int64(v) => v.to_string(),
        Value::Float64(v) => text::float_text(*v),
        other => decimal::value_text(other).unwrap_or_default(),
    }
}

/// `a / b` of FLOAT64, NUMERIC or BIGNUMERIC. `given` are the operands as the
/// query wrote them, for the message.
pub(crate) fn divide(a: &Value<'_>, b: &Value<'_>) -> Answer {
    let by_zero = || fail(format!("division by zero: {} / {}", shown(a), shown(b)));
    match (a, b) {
        (Value::Float64(x), Value::Float64(y)) => {
            if *y == 0.0 {
                return by_zero();
            }
            let result = x / y;
            if result.is_infinite() && x.is_finite() {
                return fail(format!(
                    "double overflow: {} / {}",
                    text::float_text(*x),
                    text::float_text(*y)
                ));
            }
            Ok(Value::Float64(result))
        }
        (Value::Numeric(_) | Value::BigNumeric(_), _) => {
            let kind = decimal_kind(a);
            let (x, y) = (kind.units(a)?, kind.units(b)?);
            if y == BigInt::ZERO {
                return by_zero();
            }
            let quotient = decimal::divide_rounded(&(x * decimal::ten(kind.scale())), &y);
            kind.checked(&quotient, || format!("{} / {}", shown(a), shown(b)))
        }
        _ => Err(ServiceError::internal(format!("no division of {a:?}"))),
    }
}

/// The kind of a decimal value.
pub(crate) fn decimal_kind(value: &Value<'_>) -> DecimalKind {
    match value {
        Value::BigNumeric(_) => DecimalKind::BigNumeric,
        _ => DecimalKind::Numeric,
    }
}

/// `-x`.
pub(crate) fn negate(value: &Value<'_>) -> Answer {
    Ok(match value {
        Value::Int64(v) => match v.checked_neg() {
            Some(v) => Value::Int64(v),
            None => return fail(format!("int64 overflow: -({v})")),
        },
        Value::Float64(v) => Value::Float64(-v),
        Value::Numeric(v) => Value::Numeric(-v),
        Value::BigNumeric(v) => match v.checked_neg() {
            Some(v) => Value::BigNumeric(v),
            None => return fail("bignumeric overflow: the negation of the smallest BIGNUMERIC"),
        },
        Value::Interval(v) => Value::Interval(interval::negate(*v)),
        other => return Err(ServiceError::internal(format!("no negation of {other:?}"))),
    })
}

/// Whether two values are equal as `=` tells: NULL when that depends on a NULL.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>) -> Option<bool> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Float64(x), Value::Float64(y)) => Some(x == y),
        (Value::Struct(x), Value::Struct(y)) => {
            let mut unknown = false;
            for (x, y) in x.iter().zip(y) {
                match equal(x, y) {
                    Some(false) => return Some(false),
                    None => unknown = true,
                    Some(true) => {}
                }
            }
            (!unknown).then_some(true)
        }
        _ => Some(compare(a, b).is_eq()),
    }
}

/// Whether `a` and `b` are one value, NULL and NaN being equal to themselves.
pub(crate) fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Struct(x), Value::Struct(y)) => x.iter().zip(y).all(|(x, y)| same(x, y)),
        _ => compare(a, b).is_eq(),
    }
}

/// How `a` and `b` are ordered, `None` when one is a NaN.
fn ordered(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Float64(x), Value::Float64(y)) => x.partial_cmp(y),
        // A range without a lower bound comes first, one without an upper last.
        (Value::Struct(x), Value::Struct(y)) => match (x.as_slice(), y.as_slice()) {
            ([s1, e1], [s2, e2]) => {
                Some(
                    compare(s1, s2).then_with(|| match (e1.is_null(), e2.is_null()) {
                        (true, true) => Ordering::Equal,
                        (true, false) => Ordering::Greater,
                        (false, true) => Ordering::Less,
                        (false, false) => compare(e1, e2),
                    }),
                )
            }
            _ => None,
        },
        _ => Some(compare(a, b)),
    }
}

fn comparison_operands(name: &str, args: &[Argument]) -> Result<Resolved> {
    let pattern = vec![Signature::parse("T, T -> BOOL")];
    let Ok(resolved) = resolve(name, &pattern, args) else {
        return no_signature(name, args, &[]);
    };
    let ok = match name {
        "$less" | "$less_or_equal" | "$greater" | "$greater_or_equal" => {
            resolved.args[0].supports_ordering()
        }
        "$is_distinct" => !matches!(resolved.args[0], SqlType::Json | SqlType::Geography),
        _ => resolved.args[0].supports_equality(),
    };
    if !ok {
        let verb = match name {
            "$equal" | "$not_equal" => "Equality",
            "$is_distinct" => "IS DISTINCT FROM",
            _ => "Less than",
        };
        let types: Vec<String> = args.iter().map(|a| a.sql_type.to_string()).collect();
        return fail(format!(
            "{verb} is not defined for arguments of type {}",
            types.join(" and ")
        ));
    }
    Ok(resolved)
}

fn comparison(name: &'static str, test: fn(&[Value<'_>]) -> Answer) -> Definition {
    row(name, &[], test).resolved_by(comparison_operands)
}

fn add_interval(name: &str, args: &[Argument]) -> Result<Resolved> {
    const NUMBERS: [&str; 4] = [
        "INT64, INT64 -> INT64",
        "FLOAT64, FLOAT64 -> FLOAT64",
        "NUMERIC, NUMERIC -> NUMERIC",
        "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC",
    ];
    const ADD: [&str; 8] = [
        "DATE, INT64 -> DATE",
        "INT64, DATE -> DATE",
        "DATE, INTERVAL -> DATETIME",
        "DATETIME, INTERVAL -> DATETIME",
        "TIMESTAMP, INTERVAL -> TIMESTAMP",
        "INTERVAL, DATE -> DATETIME",
        "INTERVAL, DATETIME -> DATETIME",
        "INTERVAL, TIMESTAMP -> TIMESTAMP",
    ];
    const SUBTRACT: [&str; 8] = [
        "DATE, INT64 -> DATE",
        "DATE, DATE -> INTERVAL",
        "DATETIME, DATETIME -> INTERVAL",
        "TIMESTAMP, TIMESTAMP -> INTERVAL",
        "TIME, TIME -> INTERVAL",
        "DATE, INTERVAL -> DATETIME",
        "DATETIME, INTERVAL -> DATETIME",
        "TIMESTAMP, INTERVAL -> TIMESTAMP",
    ];
    let mut signatures: Vec<Signature> = NUMBERS.iter().map(|s| Signature::parse(s)).collect();
    let more: &[&'static str] = if name == "$add" { &ADD } else { &SUBTRACT };
    signatures.extend(more.iter().map(|s| Signature::parse(s)));
    signatures.push(Signature::parse("INTERVAL, INTERVAL -> INTERVAL"));
    resolve(name, &signatures, args)
}

fn move_by(value: &Value<'_>, by: Interval) -> Answer {
    match value {
        Value::Date(d) => match interval::add_to_datetime(civil::join(*d, 0), by) {
            Some(v) => Ok(Value::Datetime(v)),
            None => fail(format!(
                "Adding an INTERVAL to DATE {} causes overflow",
                text::date_text(*d)
            )),
        },
        Value::Datetime(t) => match interval::add_to_datetime(*t, by) {
            Some(v) => Ok(Value::Datetime(v)),
            None => fail(format!(
                "Adding an INTERVAL to DATETIME {} causes overflow",
                text::datetime_text(*t, ' ')
            )),
        },
        other => interval::add_to_timestamp(other.timestamp()?, by).map(Value::Timestamp),
    }
}

fn move_date(days: i32, by: i64) -> Answer {
    match i64::from(days)
        .checked_add(by)
        .and_then(|d| i32::try_from(d).ok())
        .filter(|d| (civil::MIN_DATE..=civil::MAX_DATE).contains(d))
    {
        Some(d) => Ok(Value::Date(d)),
        None => fail(format!(
            "Date overflow: adding {by} days to {} leaves the range of DATE",
            text::date_text(days)
        )),
    }
}

fn plus(a: &[Value<'_>]) -> Answer {
    match (&a[0], &a[1]) {
        (Value::Interval(x), Value::Interval(y)) => interval::checked(Interval {
            months: x.months + y.months,
            days: x.days + y.days,
            nanos: x.nanos + y.nanos,
        })
        .map(Value::Interval),
        (Value::Interval(by), value) | (value, Value::Interval(by)) => move_by(value, *by),
        (Value::Date(d), Value::Int64(n)) | (Value::Int64(n), Value::Date(d)) => move_date(*d, *n),
        (x, y) => arithmetic(Arithmetic::Add, x, y),
    }
}

fn minus(a: &[Value<'_>]) -> Answer {
    let micros = |d: i64| {
        Value::Interval(Interval {
            nanos: i128::from(d) * 1_000,
            ..Interval::default()
        })
    };
    match (&a[0], &a[1]) {
        (Value::Interval(x), Value::Interval(y)) => interval::checked(Interval {
            months: x.months - y.months,
            days: x.days - y.days,
            nanos: x.nanos - y.nanos,
        })
        .map(Value::Interval),
        (value, Value::Interval(by)) => move_by(value, interval::negate(*by)),
        (Value::Date(d), Value::Int64(n)) => match n.checked_neg() {
            Some(n) => move_date(*d, n),
            None => fail(format!("Date overflow: {} - {n}", text::date_text(*d))),
        },
        (Value::Date(x), Value::Date(y)) => Ok(Value::Interval(Interval {
            days: i64::from(*x) - i64::from(*y),
            ..Interval::default()
        })),
        (Value::Datetime(x), Value::Datetime(y))
        | (Value::Timestamp(x), Value::Timestamp(y))
        | (Value::Time(x), Value::Time(y)) => Ok(micros(x - y)),
        (x, y) => arithmetic(Arithmetic::Subtract, x, y),
    }
}

fn times(a: &[Value<'_>]) -> Answer {
    match (&a[0], &a[1]) {
        (Value::Interval(i), Value::Int64(n)) | (Value::Int64(n), Value::Interval(i)) => {
            let scaled = (
                i.months.checked_mul(*n),
                i.days.checked_mul(*n),
                i.nanos.checked_mul(i128::from(*n)),
            );
            match scaled {
                (Some(months), Some(days), Some(nanos)) => interval::checked(Interval {
                    months,
                    days,
                    nanos,
                })
                .map(Value::Interval),
                _ => fail("Interval overflow in multiplication"),
            }
        }
        (x, y) => arithmetic(Arithmetic::Multiply, x, y),
    }
}

fn slash(a: &[Value<'_>]) -> Answer {
    match (&a[0], &a[1]) {
        (Value::Interval(i), Value::Int64(n)) => {
            if *n == 0 {
                return fail(format!("division by zero: {} / 0", text::interval_text(*i)));
            }
            let day = 86_400_000_000_000i128;
            let months = i.months / n;
            let total_days = i.days + i.months % n * 30;
            let days = total_days / n;
            let nanos = (i.nanos + i128::from(total_days % n) * day) / i128::from(*n);
            interval::checked(Interval {
                months,
                days,
                nanos: nanos / 1000 * 1000,
            })
            .map(Value::Interval)
        }
        (x, y) => divide(x, y),
    }
}

/// Shifts and bit operations on INT64 and on BYTES.
fn bitwise(
    a: &[Value<'_>],
    symbol: &str,
    ints: fn(i64, i64) -> i64,
    bytes: fn(u8, u8) -> u8,
) -> Answer {
    match (&a[0], &a[1]) {
        (Value::Int64(x), Value::Int64(y)) => Ok(Value::Int64(ints(*x, *y))),
        (Value::Bytes(x), Value::Bytes(y)) => {
            if x.len() != y.len() {
                return fail(format!(
                    "Bitwise operator {symbol} on BYTES of different lengths: {} and {}",
                    x.len(),
                    y.len()
                ));
            }
            Ok(Value::binary(
                x.iter()
                    .zip(y.iter())
                    .map(|(x, y)| bytes(*x, *y))
                    .collect::<Vec<_>>(),
            ))
        }
        (x, _) => Err(ServiceError::internal(format!("no bits of {x:?}"))),
    }
}

enum Shift {
    Left,
    Right,
}

fn shift(a: &[Value<'_>], direction: &Shift) -> Answer {
    let by = a[1].int()?;
    if by < 0 {
        let side = match direction {
            Shift::Left => "left",
            Shift::Right => "right",
        };
        return fail(format!(
            "Bitwise {side} shift offset cannot be negative: {by}"
        ));
    }
    match &a[0] {
        Value::Int64(v) => Ok(Value::Int64(if by >= 64 {
            0
        } else {
            match direction {
                Shift::Left => v.wrapping_shl(by as u32),
                // Bits shifted in are zeros, whatever the sign.
                Shift::Right => ((*v as u64) >> by) as i64,
            }
        })),
        Value::Bytes(v) => {
            let bits = v.len() as i64 * 8;
            let mut out = vec![0u8; v.len()];
            if by < bits {
                let (whole, part) = ((by / 8) as usize, (by % 8) as u32);
                for (i, slot) in out.iter_mut().enumerate() {
                    let at = |j: Option<usize>| j.and_then(|j| v.get(j)).copied().unwrap_or(0);
                    let (near, far) = match direction {
                        Shift::Left => (at(Some(i + whole)), at(Some(i + whole + 1))),
                        Shift::Right => (at(i.checked_sub(whole)), at(i.checked_sub(whole + 1))),
                    };
                    *slot = match (direction, part) {
                        (_, 0) => near,
                        (Shift::Left, p) => (near << p) | (far >> (8 - p)),
                        (Shift::Right, p) => (near >> p) | (far << (8 - p)),
                    };
                }
            }
            Ok(Value::binary(out))
        }
        other => Err(ServiceError::internal(format!("no shift of {other:?}"))),
    }
}

/// The operators.
pub(crate) fn definitions() -> Vec<Definition> {
    let numbers: &[&'static str] = &[
        "INT64, INT64 -> INT64",
        "FLOAT64, FLOAT64 -> FLOAT64",
        "NUMERIC, NUMERIC -> NUMERIC",
        "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC",
        "INTERVAL, INT64 -> INTERVAL",
        "INT64, INTERVAL -> INTERVAL",
    ];
    let bits: &[&'static str] = &["INT64, INT64 -> INT64", "BYTES, BYTES -> BYTES"];
    let shifts: &[&'static str] = &["INT64, INT64 -> INT64", "BYTES, INT64 -> BYTES"];
    vec![
        row("$add", &[], plus).resolved_by(add_interval),
        row("$subtract", &[], minus).resolved_by(add_interval),
        row("$multiply", numbers, times),
        row(
            "$divide",
            &[
                "FLOAT64, FLOAT64 -> FLOAT64",
                "NUMERIC, NUMERIC -> NUMERIC",
                "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC",
                "INTERVAL, INT64 -> INTERVAL",
            ],
            slash,
        ),
        row(
            "$unary_minus",
            &[
                "INT64 -> INT64",
                "FLOAT64 -> FLOAT64",
                "NUMERIC -> NUMERIC",
                "BIGNUMERIC -> BIGNUMERIC",
                "INTERVAL -> INTERVAL",
            ],
            |a| negate(&a[0]),
        ),
        row(
            "$concat",
            &[
                "STRING, STRING -> STRING",
                "BYTES, BYTES -> BYTES",
                "ARRAY<T>, ARRAY<T> -> ARRAY<T>",
            ],
            |a| match (&a[0], &a[1]) {
                (Value::String(x), Value::String(y)) => Ok(Value::text(format!("{x}{y}"))),
                (Value::Bytes(x), Value::Bytes(y)) => Ok(Value::binary([&x[..], &y[..]].concat())),
                (x, y) => Ok(Value::Array(
                    x.array()?
                        .iter()
                        .chain(y.array()?)
                        .map(Value::to_owned_value)
                        .collect(),
                )),
            },
        ),
        comparison("$equal", |a| {
            Ok(equal(&a[0], &a[1]).map_or(Value::Null, Value::Bool))
        }),
        comparison("$not_equal", |a| {
            Ok(equal(&a[0], &a[1]).map_or(Value::Null, |e| Value::Bool(!e)))
        }),
        comparison("$less", |a| {
            Ok(Value::Bool(
                ordered(&a[0], &a[1]).is_some_and(Ordering::is_lt),
            ))
        }),
        comparison("$less_or_equal", |a| {
            Ok(Value::Bool(
                ordered(&a[0], &a[1]).is_some_and(Ordering::is_le),
            ))
        }),
        comparison("$greater", |a| {
            Ok(Value::Bool(
                ordered(&a[0], &a[1]).is_some_and(Ordering::is_gt),
            ))
        }),
        comparison("$greater_or_equal", |a| {
            Ok(Value::Bool(
                ordered(&a[0], &a[1]).is_some_and(Ordering::is_ge),
            ))
        }),
        comparison("$is_distinct", |a| Ok(Value::Bool(!same(&a[0], &a[1])))).seeing_nulls(),
        planned(
            "$like",
            &["STRING, STRING -> BOOL", "BYTES, BYTES -> BOOL"],
            |binding| pattern::like_kernel(&binding.args[0]),
        ),
        row("$bitwise_and", bits, |a| {
            bitwise(a, "&", |x, y| x & y, |x, y| x & y)
        }),
        row("$bitwise_or", bits, |a| {
            bitwise(a, "|", |x, y| x | y, |x, y| x | y)
        }),
        row("$bitwise_xor", bits, |a| {
            bitwise(a, "^", |x, y| x ^ y, |x, y| x ^ y)
        }),
        row(
            "$bitwise_not",
            &["INT64 -> INT64", "BYTES -> BYTES"],
            |a| match &a[0] {
                Value::Bytes(b) => Ok(Value::binary(b.iter().map(|b| !b).collect::<Vec<_>>())),
                other => Ok(Value::Int64(!other.int()?)),
            },
        ),
        row("$shift_left", shifts, |a| shift(a, &Shift::Left)),
        row("$shift_right", shifts, |a| shift(a, &Shift::Right)),
    ]
}
