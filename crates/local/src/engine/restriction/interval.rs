//! INTERVAL literals and their parts.

use std::sync::Arc;

use arrow::array::IntervalMonthDayNanoArray;
use arrow::datatypes::IntervalMonthDayNano;

use super::ast::Node;
use super::bind::{Binder, Bound};
use super::call::Function;
use super::coerce::coerce;
use super::error::{failed, syntax};
use super::expr::{Expr, Kind};
use super::part::Part;
use super::temporal::TemporalFunction;
use super::types::Type;
use crate::error::Result;
use crate::value::interval::{interval, parse_interval};

/// An interval from its parts, or the error of the type's ends.
pub(super) fn checked(months: i64, days: i64, micros: i64) -> Result<IntervalMonthDayNano> {
    interval(months, days, micros).ok_or_else(|| failed("interval overflow"))
}

/// `n` of `part` as months, days and microseconds.
pub(super) fn of_part(n: i64, part: Part) -> Result<IntervalMonthDayNano> {
    let times = |unit: i64| {
        n.checked_mul(unit)
            .ok_or_else(|| failed("interval overflow"))
    };
    match part {
        Part::Year => checked(times(12)?, 0, 0),
        Part::Quarter => checked(times(3)?, 0, 0),
        Part::Month => checked(n, 0, 0),
        Part::Week(_) | Part::IsoWeek => checked(0, times(7)?, 0),
        Part::Day => checked(0, n, 0),
        other => match other.micros() {
            Some(unit) => checked(0, 0, times(unit)?),
            None => Err(failed(format_args!("Unsupported INTERVAL part {other}"))),
        },
    }
}

/// `INTERVAL n part`.
pub(super) fn of_parts(binder: &Binder<'_>, at: usize, value: &Node, part: &str) -> Bound<Expr> {
    let part = Part::named(part, None)
        .filter(|p| p.is_duration())
        .ok_or_else(|| {
            syntax(
                at,
                format!("A valid date part name is required but found {part}"),
            )
        })?;
    let value = binder.bind(value)?;
    let ty = value.ty.clone();
    let value = coerce(value, &Type::Int64).ok_or_else(|| {
        syntax(
            at,
            format!("Interval value must be coercible to INT64 type, but is {ty}"),
        )
    })??;
    let function = Function::Temporal(TemporalFunction::MakeInterval(part));
    Ok(Expr::new(at, Type::Interval, Kind::Call(function, vec![value])).failing(true))
}

/// `INTERVAL '…' part [TO part]`.
pub(super) fn literal(at: usize, text: &str, from: &str, to: Option<&str>) -> Bound<Expr> {
    let invalid = || syntax(at, format!("Invalid INTERVAL literal '{text}'"));
    let start = Part::named(from, None).ok_or_else(invalid)?;
    let value = match to {
        None if text.trim().parse::<i64>().is_ok() => {
            let n = text.trim().parse().map_err(|_| invalid())?;
            of_part(n, start).map_err(|_| invalid())?
        }
        // `1.5` of SECOND has a fraction.
        None if start == Part::Second => parse_interval(&format!("0-0 0 0:0:{}", text.trim()))
            .or_else(|_| {
                let positive = text.trim().strip_prefix('-').unwrap_or("?");
                parse_interval(&format!("0-0 0 -0:0:{positive}"))
            })
            .map_err(|_| invalid())?,
        None => return Err(invalid()),
        Some(to) => {
            let end = Part::named(to, None).ok_or_else(invalid)?;
            compound(text.trim(), start, end).ok_or_else(invalid)?
        }
    };
    Ok(Expr::literal(
        at,
        Type::Interval,
        Arc::new(IntervalMonthDayNanoArray::from(vec![value])),
    ))
}

/// Fills the missing parts of `text` so that it reads `Y-M D H:M:S`.
fn compound(text: &str, start: Part, end: Part) -> Option<IntervalMonthDayNano> {
    const ORDER: [Part; 6] = [
        Part::Year,
        Part::Month,
        Part::Day,
        Part::Hour,
        Part::Minute,
        Part::Second,
    ];
    let position = |p: Part| ORDER.iter().position(|o| *o == p);
    let (from, to) = (position(start)?, position(end)?);
    if from >= to {
        return None;
    }
    let mut pieces = text.split_whitespace();
    let year_month = match (from, to) {
        (0, 1..) => pieces.next()?.to_string(),
        (1, _) => {
            let months = pieces.next()?;
            match months.strip_prefix('-') {
                Some(months) => format!("-0-{months}"),
                None => format!("0-{months}"),
            }
        }
        _ => "0-0".to_string(),
    };
    let day = if from <= 2 && to >= 2 {
        pieces.next()?.to_string()
    } else {
        "0".to_string()
    };
    let time = if to >= 3 {
        let piece = pieces.next()?;
        let (sign, unsigned) = match piece.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", piece),
        };
        let first = from.max(3);
        if unsigned.split(':').count() != to - first + 1 {
            return None;
        }
        format!(
            "{sign}{}{unsigned}{}",
            "0:".repeat(first - 3),
            ":0".repeat(5 - to)
        )
    } else {
        "0:0:0".to_string()
    };
    if pieces.next().is_some() {
        return None;
    }
    parse_interval(&format!("{year_month} {day} {time}")).ok()
}
