//! ARRAY and RANGE functions.

use super::cast::make_range;
use super::civil;
use super::decimal;
use super::interval;
use super::operators::{Arithmetic, arithmetic, decimal_kind};
use super::scalar::{Definition, row, typed};
use super::signature::{Argument, Resolved, no_signature};
#[cfg(test)]
use super::text;
use super::types::SqlType;
use super::value::{Answer, Binding, Interval, Value, compare, fail};
use crate::error::Result;

/// Elements that one call may make at most.
const MAX_ELEMENTS: usize = 1_048_575;

fn too_many(name: &str) -> Answer {
    fail(format!(
        "{name} would produce more than {MAX_ELEMENTS} elements"
    ))
}

fn generate_array(a: &[Value<'_>]) -> Answer {
    let one = match &a[0] {
        Value::Int64(_) => Value::Int64(1),
        Value::Float64(_) => Value::Float64(1.0),
        v => {
            let kind = decimal_kind(v);
            kind.checked(&decimal::ten(kind.scale()), || "1".into())?
        }
    };
    let step = a.get(2).unwrap_or(&one);
    let zero = arithmetic(Arithmetic::Subtract, &one, &one)?;
    let direction = compare(step, &zero);
    if direction.is_eq() || matches!(step, Value::Float64(x) if x.is_nan()) {
        return fail("Sequence step cannot be 0.");
    }
    let finite = |v: &Value<'_>| !matches!(v, Value::Float64(x) if !x.is_finite());
    if !a.iter().all(finite) {
        return fail("GENERATE_ARRAY needs finite arguments");
    }
    let mut out = Vec::new();
    let mut n: i64 = 0;
    loop {
        // Doubles are computed from the start, so that errors do not add up.
        let value = match (&a[0], step) {
            (Value::Float64(x), Value::Float64(s)) => Value::Float64(x + s * n as f64),
            _ => match out.last() {
                None => a[0].to_owned_value(),
                Some(last) => match arithmetic(Arithmetic::Add, last, step) {
                    Ok(v) => v,
                    Err(_) => break,
                },
            },
        };
        let past = compare(&value, &a[1]);
        if (direction.is_gt() && past.is_gt()) || (direction.is_lt() && past.is_lt()) {
            break;
        }
        if out.len() >= MAX_ELEMENTS {
            return too_many("GENERATE_ARRAY");
        }
        out.push(value);
        n += 1;
    }
    Ok(Value::Array(out))
}

/// From `start` by steps to `end`, each value made from the one before.
fn sequence(
    name: &str,
    start: i64,
    end: i64,
    next: impl Fn(i64) -> Result<Option<i64>>,
    value: impl Fn(i64) -> Value<'static>,
) -> Answer {
    let mut out = Vec::new();
    let mut at = start;
    let Some(second) = next(start)? else {
        return Ok(Value::Array(if start == end {
            vec![value(start)]
        } else {
            vec![]
        }));
    };
    if second == start {
        return fail("Sequence step cannot be 0.");
    }
    let up = second > start;
    while (up && at <= end) || (!up && at >= end) {
        if out.len() >= MAX_ELEMENTS {
            return too_many(name);
        }
        out.push(value(at));
        match next(at)? {
            Some(n) => at = n,
            None => break,
        }
    }
    Ok(Value::Array(out))
}

fn generate_date_array(a: &[Value<'_>]) -> Answer {
    let step = match (a.get(2), a.get(3)) {
        (Some(n), Some(part)) => interval::of_part(n.int()?, part.str()?)?,
        (Some(i), None) => i.interval()?,
        _ => interval::of_part(1, "DAY")?,
    };
    if step.nanos != 0 {
        return fail("GENERATE_DATE_ARRAY takes a step of days, weeks, months, quarters or years");
    }
    let next = |days: i64| {
        let moved = i32::try_from(days)
            .ok()
            .and_then(|d| civil::add_months(d, step.months))
            .map(|d| i64::from(d) + step.days);
        Ok(moved.filter(|d| (i64::from(civil::MIN_DATE)..=i64::from(civil::MAX_DATE)).contains(d)))
    };
    sequence(
        "GENERATE_DATE_ARRAY",
        i64::from(a[0].date()?),
        i64::from(a[1].date()?),
        next,
        |d| Value::Date(i32::try_from(d).unwrap_or(civil::MAX_DATE)),
    )
}

fn generate_timestamp_array(a: &[Value<'_>]) -> Answer {
    let step = match (a.get(2), a.get(3)) {
        (Some(n), Some(part)) => interval::of_part(n.int()?, part.str()?)?,
        (Some(i), _) => i.interval()?,
        _ => return fail("GENERATE_TIMESTAMP_ARRAY needs a step"),
    };
    if step.months != 0 {
        return fail("GENERATE_TIMESTAMP_ARRAY takes a step of days or parts of days");
    }
    sequence(
        "GENERATE_TIMESTAMP_ARRAY",
        a[0].timestamp()?,
        a[1].timestamp()?,
        |t| Ok(interval::add_to_timestamp(t, step).ok()),
        Value::Timestamp,
    )
}

fn array_to_string(a: &[Value<'_>]) -> Answer {
    let null_text = a.get(2);
    let mut pieces: Vec<&Value<'_>> = Vec::new();
    for v in a[0].array()? {
        match (v, null_text) {
            (Value::Null, None | Some(Value::Null)) => {}
            (Value::Null, Some(text)) => pieces.push(text),
            (v, _) => pieces.push(v),
        }
    }
    if a[0].is_null() || a[1].is_null() {
        return Ok(Value::Null);
    }
    Ok(match &a[1] {
        Value::Bytes(delimiter) => {
            let pieces = pieces
                .into_iter()
                .map(Value::bytes)
                .collect::<Result<Vec<_>>>()?;
            Value::binary(pieces.join(&delimiter[..]))
        }
        delimiter => {
            let pieces = pieces
                .into_iter()
                .map(Value::str)
                .collect::<Result<Vec<_>>>()?;
            Value::text(pieces.join(delimiter.str()?))
        }
    })
}

fn slice(a: &[Value<'_>]) -> Answer {
    let items = a[0].array()?;
    let n = items.len() as i64;
    let place = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
    let (start, end) = (place(a[1].int()?), place(a[2].int()?));
    let (start, end) = (start.max(0), end.min(n - 1));
    if start > end {
        return Ok(Value::Array(Vec::new()));
    }
    Ok(Value::Array(
        items[start as usize..=end as usize]
            .iter()
            .map(Value::to_owned_value)
            .collect(),
    ))
}

fn is_distinct(items: &[Value<'_>]) -> bool {
    let mut seen = std::collections::HashSet::new();
    items.iter().all(|v| {
        let mut key = Vec::new();
        super::value::group_key(v, &mut key);
        seen.insert(key)
    })
}

fn array_call(name: &str, args: &[Argument]) -> Result<Resolved> {
    // For functions over an array of numbers whose result is one of them.
    match args {
        [
            Argument {
                sql_type: SqlType::Array(element),
                ..
            },
        ] => {
            let element = match element.as_ref() {
                SqlType::Null => SqlType::Int64,
                t => t.clone(),
            };
            let ok = match name {
                "array_sum" | "array_avg" => matches!(
                    element,
                    SqlType::Int64 | SqlType::Float64 | SqlType::Numeric | SqlType::BigNumeric
                ),
                _ => element.supports_ordering(),
            };
            if !ok {
                return no_signature(name, args, &[]);
            }
            let ret = match (name, &element) {
                ("array_avg", SqlType::Int64) => SqlType::Float64,
                _ => element.clone(),
            };
            Ok(Resolved {
                args: vec![SqlType::Array(Box::new(element))],
                ret,
            })
        }
        _ => no_signature(name, args, &[]),
    }
}

fn extreme(a: &[Value<'_>], greatest: bool) -> Answer {
    let items: Vec<&Value<'_>> = a[0].array()?.iter().filter(|v| !v.is_null()).collect();
    if let Some(nan) = items
        .iter()
        .find(|v| matches!(v, Value::Float64(x) if x.is_nan()))
    {
        return Ok(nan.to_owned_value());
    }
    let best = if greatest {
        items.into_iter().max_by(|x, y| compare(x, y))
    } else {
        items.into_iter().min_by(|x, y| compare(x, y))
    };
    Ok(best.map_or(Value::Null, Value::to_owned_value))
}

fn sum(binding: &Binding<'_>, a: &[Value<'_>]) -> Answer {
    let mut total: Option<Value<'static>> = None;
    let mut count = 0;
    for v in a[0].array()?.iter().filter(|v| !v.is_null()) {
        count += 1;
        total = Some(match total {
            None => v.to_owned_value(),
            Some(t) => arithmetic(Arithmetic::Add, &t, v)?,
        });
    }
    let Some(total) = total else {
        return Ok(Value::Null);
    };
    if binding.name == "array_sum" {
        return Ok(total);
    }
    match total {
        Value::Int64(t) => Ok(Value::Float64(t as f64 / f64::from(count))),
        Value::Float64(t) => Ok(Value::Float64(t / f64::from(count))),
        other => {
            let kind = decimal_kind(&other);
            let mean = decimal::divide_rounded(&kind.units(&other)?, &count.into());
            kind.checked(&mean, || "ARRAY_AVG".into())
        }
    }
}

fn bounds<'b>(range: &'b Value<'_>) -> Result<(&'b Value<'b>, &'b Value<'b>)> {
    match range.fields()? {
        [start, end] => Ok((start, end)),
        _ => fail("a RANGE has two bounds"),
    }
}

/// Whether an end bound lies after a value; a missing one is unbounded.
fn ends_after(end: &Value<'_>, value: &Value<'_>) -> bool {
    end.is_null() || compare(end, value).is_gt()
}

fn starts_by(start: &Value<'_>, value: &Value<'_>) -> bool {
    start.is_null() || compare(start, value).is_le()
}

fn overlaps(x: &Value<'_>, y: &Value<'_>) -> Result<bool> {
    let ((s1, e1), (s2, e2)) = (bounds(x)?, bounds(y)?);
    let before = |s: &Value<'_>, e: &Value<'_>| s.is_null() || ends_after(e, s);
    Ok(before(s1, e2) && before(s2, e1))
}

fn range_contains(a: &[Value<'_>]) -> Answer {
    let (start, end) = bounds(&a[0])?;
    Ok(Value::Bool(match &a[1] {
        Value::Struct(_) => {
            let (s, e) = bounds(&a[1])?;
            let from = start.is_null() || (!s.is_null() && compare(start, s).is_le());
            let to = end.is_null() || (!e.is_null() && compare(e, end).is_le());
            from && to
        }
        value => starts_by(start, value) && ends_after(end, value),
    }))
}

fn range_intersect(a: &[Value<'_>]) -> Answer {
    if !overlaps(&a[0], &a[1])? {
        return fail("Provided RANGE inputs do not overlap");
    }
    let ((s1, e1), (s2, e2)) = (bounds(&a[0])?, bounds(&a[1])?);
    let start = if compare(s1, s2).is_ge() { s1 } else { s2 };
    let end = match (e1.is_null(), e2.is_null()) {
        (true, _) => e2,
        (_, true) => e1,
        _ if compare(e1, e2).is_le() => e1,
        _ => e2,
    };
    Ok(Value::Struct(vec![
        start.to_owned_value(),
        end.to_owned_value(),
    ]))
}

fn step_by(value: &Value<'_>, step: Interval) -> Result<Option<Value<'static>>> {
    Ok(match value {
        Value::Date(d) => civil::add_months(*d, step.months)
            .and_then(|d| i32::try_from(i64::from(d) + step.days).ok())
            .filter(|d| *d <= civil::MAX_DATE)
            .map(Value::Date),
        Value::Datetime(t) => interval::add_to_datetime(*t, step).map(Value::Datetime),
        other => interval::add_to_timestamp(other.timestamp()?, step)
            .ok()
            .map(Value::Timestamp),
    })
}

fn times(step: Interval, n: i64) -> Interval {
    Interval {
        months: step.months * n,
        days: step.days * n,
        nanos: step.nanos * i128::from(n),
    }
}

/// A range cut into ranges of one step; the last may be shorter.
fn generate_range_array(a: &[Value<'_>]) -> Answer {
    let (start, end) = bounds(&a[0])?;
    if start.is_null() || end.is_null() {
        return fail("GENERATE_RANGE_ARRAY needs a range with both bounds");
    }
    let step = a[1].interval()?;
    let whole = a.get(2).map_or(Ok(true), Value::bool)?;
    if matches!(start, Value::Date(_)) && step.nanos != 0 {
        return fail("GENERATE_RANGE_ARRAY over DATE takes a step of whole days");
    }
    let mut out = Vec::new();
    let mut from = start.to_owned_value();
    for n in 1.. {
        let to = step_by(start, times(step, n))?;
        if let Some(to) = &to
            && compare(to, &from).is_le()
        {
            return fail("GENERATE_RANGE_ARRAY needs a positive step");
        }
        let last = to.as_ref().is_none_or(|to| compare(to, end).is_ge());
        if last {
            let exact = to.as_ref().is_some_and(|to| compare(to, end).is_eq());
            if whole || exact {
                out.push(make_range(from, end.to_owned_value())?);
            }
            break;
        }
        if out.len() >= MAX_ELEMENTS {
            return too_many("GENERATE_RANGE_ARRAY");
        }
        let to = to.unwrap_or(Value::Null);
        out.push(make_range(from, to.clone())?);
        from = to;
    }
    Ok(Value::Array(out))
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        row(
            "generate_array",
            &[
                "INT64, INT64, INT64? -> ARRAY<INT64>",
                "FLOAT64, FLOAT64, FLOAT64? -> ARRAY<FLOAT64>",
                "NUMERIC, NUMERIC, NUMERIC? -> ARRAY<NUMERIC>",
                "BIGNUMERIC, BIGNUMERIC, BIGNUMERIC? -> ARRAY<BIGNUMERIC>",
            ],
            generate_array,
        ),
        row(
            "generate_date_array",
            &[
                "DATE, DATE -> ARRAY<DATE>",
                "DATE, DATE, INTERVAL -> ARRAY<DATE>",
                "DATE, DATE, INT64, STRING -> ARRAY<DATE>",
            ],
            generate_date_array,
        ),
        row(
            "generate_timestamp_array",
            &[
                "TIMESTAMP, TIMESTAMP, INTERVAL -> ARRAY<TIMESTAMP>",
                "TIMESTAMP, TIMESTAMP, INT64, STRING -> ARRAY<TIMESTAMP>",
            ],
            generate_timestamp_array,
        ),
        row("array_length", &["ARRAY<T> -> INT64"], |a| {
            Ok(Value::Int64(a[0].array()?.len() as i64))
        }),
        row("array_concat", &["ARRAY<T>... -> ARRAY<T>"], |a| {
            let mut out = Vec::new();
            for v in a {
                out.extend(v.array()?.iter().map(Value::to_owned_value));
            }
            Ok(Value::Array(out))
        }),
        row("array_reverse", &["ARRAY<T> -> ARRAY<T>"], |a| {
            Ok(Value::Array(
                a[0].array()?
                    .iter()
                    .rev()
                    .map(Value::to_owned_value)
                    .collect(),
            ))
        }),
        row("array_first", &["ARRAY<T> -> T"], |a| {
            match a[0].array()?.first() {
                Some(v) => Ok(v.to_owned_value()),
                None => fail("ARRAY_FIRST cannot get the first element of an empty array"),
            }
        }),
        row("array_last", &["ARRAY<T> -> T"], |a| {
            match a[0].array()?.last() {
                Some(v) => Ok(v.to_owned_value()),
                None => fail("ARRAY_LAST cannot get the last element of an empty array"),
            }
        }),
        row(
            "array_slice",
            &["ARRAY<T>, INT64, INT64 -> ARRAY<T>"],
            slice,
        ),
        row("array_is_distinct", &["ARRAY<T> -> BOOL"], |a| {
            Ok(Value::Bool(is_distinct(a[0].array()?)))
        }),
        row("array_includes", &["ARRAY<T>, T -> BOOL"], |a| {
            Ok(Value::Bool(
                a[0].array()?
                    .iter()
                    .any(|v| super::operators::equal(v, &a[1]) == Some(true)),
            ))
        }),
        row("array_min", &[], |a| extreme(a, false)).resolved_by(array_call),
        row("array_max", &[], |a| extreme(a, true)).resolved_by(array_call),
        typed("array_sum", &[], sum).resolved_by(array_call),
        typed("array_avg", &[], sum).resolved_by(array_call),
        row(
            "array_to_string",
            &[
                "ARRAY<STRING>, STRING, STRING? -> STRING",
                "ARRAY<BYTES>, BYTES, BYTES? -> BYTES",
            ],
            |a| {
                if a[0].is_null() || a[1].is_null() {
                    return Ok(Value::Null);
                }
                array_to_string(a)
            },
        )
        .seeing_nulls(),
        row(
            "range",
            &[
                "DATE, DATE -> RANGE<DATE>",
                "DATETIME, DATETIME -> RANGE<DATETIME>",
                "TIMESTAMP, TIMESTAMP -> RANGE<TIMESTAMP>",
            ],
            |a| make_range(a[0].to_owned_value(), a[1].to_owned_value()),
        )
        .seeing_nulls(),
        row("range_start", &["RANGE<T> -> T"], |a| {
            Ok(bounds(&a[0])?.0.to_owned_value())
        }),
        row("range_end", &["RANGE<T> -> T"], |a| {
            Ok(bounds(&a[0])?.1.to_owned_value())
        }),
        row(
            "range_contains",
            &["RANGE<T>, T -> BOOL", "RANGE<T>, RANGE<T> -> BOOL"],
            range_contains,
        ),
        row("range_overlaps", &["RANGE<T>, RANGE<T> -> BOOL"], |a| {
            overlaps(&a[0], &a[1]).map(Value::Bool)
        }),
        row(
            "range_intersect",
            &["RANGE<T>, RANGE<T> -> RANGE<T>"],
            range_intersect,
        ),
        row(
            "generate_range_array",
            &["RANGE<T>, INTERVAL, BOOL? -> ARRAY<RANGE<T>>"],
            generate_range_array,
        ),
    ]
}

#[cfg(test)]
#[path = "arrays_tests.rs"]
mod tests;
