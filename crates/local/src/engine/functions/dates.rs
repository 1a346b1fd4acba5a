//! Parts of dates and times: EXTRACT, adding, differences, truncation.

use super::civil::{self, DAY_MICROS, Zone};
use super::interval;
use super::scalar::{Definition, row};
use super::signature::{Argument, Resolved, Signature, no_signature, resolve};
use super::text;
use super::types::SqlType;
use super::value::{Answer, Value, fail};
use crate::error::Result;

/// A date part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// MICROSECOND.
    Microsecond,
    /// MILLISECOND.
    Millisecond,
    /// SECOND.
    Second,
    /// MINUTE.
    Minute,
    /// HOUR.
    Hour,
    /// DAY.
    Day,
    /// DAYOFWEEK, Sunday 1.
    DayOfWeek,
    /// DAYOFYEAR.
    DayOfYear,
    /// WEEK, starting at a weekday (Sunday 0).
    Week(i64),
    /// ISOWEEK.
    IsoWeek,
    /// MONTH.
    Month,
    /// QUARTER.
    Quarter,
    /// YEAR.
    Year,
    /// ISOYEAR.
    IsoYear,
    /// DATE.
    Date,
    /// DATETIME.
    Datetime,
    /// TIME.
    Time,
}

impl Part {
    /// Reads a part as the analyzer passes it.
    pub(crate) fn parse(name: &str) -> Result<Part> {
        let upper = name.trim().to_ascii_uppercase();
        Ok(match upper.as_str() {
            "MICROSECOND" => Part::Microsecond,
            "MILLISECOND" => Part::Millisecond,
            "SECOND" => Part::Second,
            "MINUTE" => Part::Minute,
            "HOUR" => Part::Hour,
            "DAY" => Part::Day,
            "DAYOFWEEK" => Part::DayOfWeek,
            "DAYOFYEAR" => Part::DayOfYear,
            "WEEK" | "WEEK(SUNDAY)" => Part::Week(0),
            "WEEK(MONDAY)" => Part::Week(1),
            "WEEK(TUESDAY)" => Part::Week(2),
            "WEEK(WEDNESDAY)" => Part::Week(3),
            "WEEK(THURSDAY)" => Part::Week(4),
            "WEEK(FRIDAY)" => Part::Week(5),
            "WEEK(SATURDAY)" => Part::Week(6),
            "ISOWEEK" => Part::IsoWeek,
            "MONTH" => Part::Month,
            "QUARTER" => Part::Quarter,
            "YEAR" => Part::Year,
            "ISOYEAR" => Part::IsoYear,
            "DATE" => Part::Date,
            "DATETIME" => Part::Datetime,
            "TIME" => Part::Time,
            _ => {
                return fail(format!(
                    "A valid date part name is required but found {name}"
                ));
            }
        })
    }

    /// Microseconds of a part of the clock.
    fn clock_unit(self) -> Option<i64> {
        Some(match self {
            Part::Microsecond => 1,
            Part::Millisecond => 1_000,
            Part::Second => 1_000_000,
            Part::Minute => 60_000_000,
            Part::Hour => 3_600_000_000,
            _ => return None,
        })
    }
}

fn unsupported<T>(function: &str, part: &str) -> Result<T> {
    fail(format!("{function} does not support the {part} date part"))
}

/// Days since the epoch of the first day of a week-like period.
fn week_start(days: i32, start: i64) -> i32 {
    days - ((civil::weekday(days) - start).rem_euclid(7)) as i32
}

/// First day of the ISO year that holds `days`.
fn iso_year_start(days: i32) -> i32 {
    let (year, _) = civil::iso_week(days);
    // 4 January is always in week 1.
    civil::days_from_civil(year.max(1), 1, 4).map_or(days, |d| week_start(d, 1))
}

/// The date on which the period of `part` that holds `days` begins.
pub(crate) fn truncate_date(days: i32, part: Part, function: &str, name: &str) -> Result<i32> {
    let (year, month, _) = civil::ymd(days);
    let result = match part {
        Part::Day => days,
        Part::Week(start) => week_start(days, start),
        Part::IsoWeek => week_start(days, 1),
        Part::Month => civil::days_from_civil(year, month, 1).unwrap_or(days),
        Part::Quarter => civil::days_from_civil(year, (month - 1) / 3 * 3 + 1, 1).unwrap_or(days),
        Part::Year => civil::days_from_civil(year, 1, 1).unwrap_or(days),
        Part::IsoYear => iso_year_start(days),
        _ => return unsupported(function, name),
    };
    if result < civil::MIN_DATE {
        return fail(format!(
            "{function} of {} by {name} is before 0001-01-01",
            text::date_text(days)
        ));
    }
    Ok(result)
}

fn truncate_micros(micros: i64, part: Part, function: &str, name: &str) -> Result<i64> {
    match part.clock_unit() {
        Some(unit) => Ok(micros - micros.rem_euclid(unit)),
        None => {
            let (days, _) = civil::split(micros);
            Ok(civil::join(truncate_date(days, part, function, name)?, 0))
        }
    }
}

fn truncate_timestamp(micros: i64, part: Part, zone: Zone, function: &str, name: &str) -> Answer {
    if let Some(unit) = part.clock_unit() {
        // Within an hour the offset stays what it is.
        let offset = zone.offset_at(micros) * 1_000_000;
        let local = micros + offset;
        return Ok(Value::Timestamp(local - local.rem_euclid(unit) - offset));
    }
    let local = truncate_micros(zone.to_local(micros), part, function, name)?;
    Ok(Value::Timestamp(zone.to_instant(local)))
}

fn extract_date(days: i32, part: Part) -> Option<i64> {
    let (year, month, day) = civil::ymd(days);
    let year_day = || i64::from(days) - civil::days_from_civil(year, 1, 1).map_or(0, i64::from);
    Some(match part {
        Part::Year => year,
        Part::Month => month,
        Part::Day => day,
        Part::Quarter => (month + 2) / 3,
        Part::DayOfWeek => civil::weekday(days) + 1,
        Part::DayOfYear => year_day() + 1,
        Part::IsoYear => civil::iso_week(days).0,
        Part::IsoWeek => civil::iso_week(days).1,
        Part::Week(start) => {
            let weekday = (civil::weekday(days) - start).rem_euclid(7);
            (year_day() + 7 - weekday) / 7
        }
        _ => return None,
    })
}

fn extract_clock(micros: i64, part: Part) -> Option<i64> {
    Some(match part {
        Part::Microsecond => micros % 1_000_000,
        Part::Millisecond => micros / 1_000 % 1_000,
        Part::Second => micros / 1_000_000 % 60,
        Part::Minute => micros / 60_000_000 % 60,
        Part::Hour => micros / 3_600_000_000,
        _ => return None,
    })
}

fn extract(a: &[Value<'_>]) -> Answer {
    let name = a[0].str()?;
    let unsupported = |t: &str| {
        fail(format!(
            "EXTRACT from {t} does not support the {name} date part"
        ))
    };
    if let Value::Interval(i) = &a[1] {
        return interval::extract(*i, name).map(Value::Int64);
    }
    let part = Part::parse(name)?;
    let local = match &a[1] {
        Value::Date(d) => {
            return match extract_date(*d, part) {
                Some(v) => Ok(Value::Int64(v)),
                None => unsupported("DATE"),
            };
        }
        Value::Time(t) => {
            return match extract_clock(*t, part) {
                Some(v) => Ok(Value::Int64(v)),
                None => unsupported("TIME"),
            };
        }
        Value::Timestamp(t) => {
            let zone = match a.get(2) {
                Some(z) => Zone::parse(z.str()?)?,
                None => Zone::UTC,
            };
            zone.to_local(*t)
        }
        other => other.datetime()?,
    };
    let (days, time) = civil::split(local);
    Ok(match part {
        Part::Date => Value::Date(days),
        Part::Time => Value::Time(time),
        Part::Datetime => Value::Datetime(local),
        _ => match extract_date(days, part).or_else(|| extract_clock(time, part)) {
            Some(v) => Value::Int64(v),
            None => return unsupported("TIMESTAMP"),
        },
    })
}

fn extract_call(name: &str, args: &[Argument]) -> Result<Resolved> {
    let Some(part) = args.first().and_then(Argument::literal_text) else {
        return no_signature("extract", args, &[]);
    };
    let ret = match part.to_ascii_uppercase().as_str() {
        "DATE" => "DATE",
        "TIME" => "TIME",
        "DATETIME" => "DATETIME",
        _ => "INT64",
    };
    let whole = ret != "INT64";
    let mut signatures = match ret {
        "DATE" => vec![
            "STRING, DATETIME -> DATE",
            "STRING, TIMESTAMP, STRING? -> DATE",
        ],
        "TIME" => vec![
            "STRING, DATETIME -> TIME",
            "STRING, TIMESTAMP, STRING? -> TIME",
        ],
        "DATETIME" => vec!["STRING, TIMESTAMP, STRING? -> DATETIME"],
        _ => vec![
            "STRING, DATE -> INT64",
            "STRING, DATETIME -> INT64",
            "STRING, TIMESTAMP, STRING? -> INT64",
            "STRING, TIME -> INT64",
            "STRING, INTERVAL -> INT64",
        ],
    };
    if whole && args.get(1).is_some_and(|a| a.sql_type == SqlType::Date) {
        signatures.clear();
    }
    if !whole && args.get(1).is_some_and(|a| a.sql_type != SqlType::Interval) {
        Part::parse(part)?;
    }
    let signatures: Vec<Signature> = signatures.into_iter().map(Signature::parse).collect();
    if signatures.is_empty() {
        return fail(format!(
            "EXTRACT from DATE does not support the {part} date part"
        ));
    }
    resolve(name, &signatures, args)
}

/// Adds `amount` (or subtracts it) of a part.
fn add(a: &[Value<'_>], function: &str, sign: i64) -> Answer {
    let amount = a[1].int()?;
    let part_name = a[2].str()?;
    let part = Part::parse(part_name)?;
    let overflow = |what: String| {
        fail(format!(
            "{function} overflow: adding {amount} {part_name} to {what} is out of range"
        ))
    };
    let Some(signed) = amount.checked_mul(sign) else {
        return overflow("it".into());
    };
    let scaled = |unit: i64| signed.checked_mul(unit);
    match &a[0] {
        Value::Date(d) => {
            let days = |n: Option<i64>| {
                n.and_then(|n| i64::from(*d).checked_add(n))
                    .and_then(|n| i32::try_from(n).ok())
                    .filter(|n| (civil::MIN_DATE..=civil::MAX_DATE).contains(n))
            };
            let result = match part {
                Part::Day => days(Some(signed)),
                Part::Week(0) => days(scaled(7)),
                Part::Month => civil::add_months(*d, signed),
                Part::Quarter => scaled(3).and_then(|m| civil::add_months(*d, m)),
                Part::Year => scaled(12).and_then(|m| civil::add_months(*d, m)),
                _ => return unsupported(function, part_name),
            };
            match result {
                Some(v) => Ok(Value::Date(v)),
                None => overflow(format!("date {}", text::date_text(*d))),
            }
        }
        Value::Time(t) => {
            let Some(unit) = part.clock_unit() else {
                return unsupported(function, part_name);
            };
            let moved = i128::from(*t) + i128::from(signed) * i128::from(unit);
            let wrapped = moved.rem_euclid(i128::from(DAY_MICROS));
            Ok(Value::Time(i64::try_from(wrapped).unwrap_or(0)))
        }
        Value::Datetime(t) => {
            let (days, time) = civil::split(*t);
            let months = |n: Option<i64>| {
                n.and_then(|n| civil::add_months(days, n))
                    .map(|d| civil::join(d, time))
            };
            let micros = |unit: i64| scaled(unit).and_then(|n| t.checked_add(n));
            let result = match part {
                Part::Month => months(Some(signed)),
                Part::Quarter => months(scaled(3)),
                Part::Year => months(scaled(12)),
                Part::Day => micros(DAY_MICROS),
                Part::Week(0) => micros(7 * DAY_MICROS),
                _ => match part.clock_unit() {
                    Some(unit) => micros(unit),
                    None => return unsupported(function, part_name),
                },
            };
            match result.filter(|t| (civil::MIN_MICROS..=civil::MAX_MICROS).contains(t)) {
                Some(v) => Ok(Value::Datetime(v)),
                None => overflow(format!("datetime {}", text::datetime_text(*t, ' '))),
            }
        }
        other => {
            let t = other.timestamp()?;
            let unit = match part {
                Part::Day => DAY_MICROS,
                _ => match part.clock_unit() {
                    Some(unit) => unit,
                    None => return unsupported(function, part_name),
                },
            };
            match scaled(unit)
                .and_then(|n| t.checked_add(n))
                .filter(|t| (civil::MIN_MICROS..=civil::MAX_MICROS).contains(t))
            {
                Some(v) => Ok(Value::Timestamp(v)),
                None => overflow(format!("timestamp {}", text::timestamp_text(t, Zone::UTC))),
            }
        }
    }
}

/// Which boundaries lie between two dates.
fn date_difference(x: i32, y: i32, part: Part) -> Option<i64> {
    let week = |d: i32, start: i64| (i64::from(d) + 4 - start).div_euclid(7);
    let month = |d: i32| {
        let (y, m, _) = civil::ymd(d);
        y * 12 + m - 1
    };
    Some(match part {
        Part::Day => i64::from(x) - i64::from(y),
        Part::Week(start) => week(x, start) - week(y, start),
        Part::IsoWeek => week(x, 1) - week(y, 1),
        Part::Month => month(x) - month(y),
        Part::Quarter => month(x).div_euclid(3) - month(y).div_euclid(3),
        Part::Year => civil::ymd(x).0 - civil::ymd(y).0,
        Part::IsoYear => civil::iso_week(x).0 - civil::iso_week(y).0,
        _ => return None,
    })
}

fn difference(a: &[Value<'_>], function: &str) -> Answer {
    let name = a[2].str()?;
    let part = Part::parse(name)?;
    let result = match (&a[0], &a[1]) {
        (Value::Date(x), Value::Date(y)) => date_difference(*x, *y, part),
        (Value::Time(x), Value::Time(y)) => part
            .clock_unit()
            .map(|unit| x.div_euclid(unit) - y.div_euclid(unit)),
        (Value::Datetime(x), Value::Datetime(y)) => match part.clock_unit() {
            Some(unit) => Some(x.div_euclid(unit) - y.div_euclid(unit)),
            None => date_difference(civil::split(*x).0, civil::split(*y).0, part),
        },
        (x, y) => {
            let unit = match part {
                Part::Day => Some(DAY_MICROS),
                _ => part.clock_unit(),
            };
            // Whole units between the instants, towards zero.
            let micros = x.timestamp()? - y.timestamp()?;
            unit.map(|unit| micros / unit)
        }
    };
    match result {
        Some(v) => Ok(Value::Int64(v)),
        None => unsupported(function, name),
    }
}

fn truncate(a: &[Value<'_>], function: &str) -> Answer {
    let name = a.get(1).map_or(Ok("DAY"), Value::str)?;
    let part = Part::parse(name)?;
    match &a[0] {
        Value::Date(d) => truncate_date(*d, part, function, name).map(Value::Date),
        Value::Datetime(t) => truncate_micros(*t, part, function, name).map(Value::Datetime),
        Value::Time(t) => match part.clock_unit() {
            Some(unit) => Ok(Value::Time(t - t.rem_euclid(unit))),
            None => unsupported(function, name),
        },
        other => {
            let zone = match a.get(2) {
                Some(z) => Zone::parse(z.str()?)?,
                None => Zone::UTC,
            };
            truncate_timestamp(other.timestamp()?, part, zone, function, name)
        }
    }
}

fn last_day(a: &[Value<'_>]) -> Answer {
    let name = a.get(1).map_or(Ok("MONTH"), Value::str)?;
    let part = Part::parse(name)?;
    let days = match &a[0] {
        Value::Date(d) => *d,
        other => civil::split(other.datetime()?).0,
    };
    let (year, month, _) = civil::ymd(days);
    let end_of = |month: i64| civil::days_from_civil(year, month, civil::month_length(year, month));
    let result = match part {
        Part::Month => end_of(month),
        Part::Quarter => end_of((month + 2) / 3 * 3),
        Part::Year => end_of(12),
        Part::Week(start) => Some(week_start(days, start) + 6),
        Part::IsoWeek => Some(week_start(days, 1) + 6),
        Part::IsoYear => {
            let start = iso_year_start(days);
            Some(week_start(start + 371, 1)).map(|d| {
                if iso_year_start(d) == d {
                    d - 1
                } else {
                    iso_year_start(d) - 1
                }
            })
        }
        _ => return unsupported("LAST_DAY", name),
    };
    match result.filter(|d| *d <= civil::MAX_DATE) {
        Some(d) => Ok(Value::Date(d)),
        None => fail("LAST_DAY is out of the range of DATE"),
    }
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    let date_diff: &[&'static str] = &[
        "DATE, DATE, STRING -> INT64",
        "DATETIME, DATETIME, STRING -> INT64",
        "TIMESTAMP, TIMESTAMP, STRING -> INT64",
    ];
    let date_trunc: &[&'static str] = &[
        "DATE, STRING -> DATE",
        "DATETIME, STRING -> DATETIME",
        "TIMESTAMP, STRING, STRING? -> TIMESTAMP",
    ];
    vec![
        row("$extract", &[], extract).resolved_by(extract_call),
        row(
            "date_add",
            &[
                "DATE, INT64, STRING -> DATE",
                "DATETIME, INT64, STRING -> DATETIME",
                "TIMESTAMP, INT64, STRING -> TIMESTAMP",
            ],
            |a| add(a, "DATE_ADD", 1),
        ),
        row(
            "date_sub",
            &[
                "DATE, INT64, STRING -> DATE",
                "DATETIME, INT64, STRING -> DATETIME",
                "TIMESTAMP, INT64, STRING -> TIMESTAMP",
            ],
            |a| add(a, "DATE_SUB", -1),
        ),
        row(
            "datetime_add",
            &["DATETIME, INT64, STRING -> DATETIME"],
            |a| add(a, "DATETIME_ADD", 1),
        ),
        row(
            "datetime_sub",
            &["DATETIME, INT64, STRING -> DATETIME"],
            |a| add(a, "DATETIME_SUB", -1),
        ),
        row(
            "timestamp_add",
            &["TIMESTAMP, INT64, STRING -> TIMESTAMP"],
            |a| add(a, "TIMESTAMP_ADD", 1),
        ),
        row(
            "timestamp_sub",
            &["TIMESTAMP, INT64, STRING -> TIMESTAMP"],
            |a| add(a, "TIMESTAMP_SUB", -1),
        ),
        row("time_add", &["TIME, INT64, STRING -> TIME"], |a| {
            add(a, "TIME_ADD", 1)
        }),
        row("time_sub", &["TIME, INT64, STRING -> TIME"], |a| {
            add(a, "TIME_SUB", -1)
        }),
        row("date_diff", date_diff, |a| difference(a, "DATE_DIFF")),
        row("datetime_diff", &date_diff[1..], |a| {
            difference(a, "DATETIME_DIFF")
        }),
        row("timestamp_diff", &date_diff[2..], |a| {
            difference(a, "TIMESTAMP_DIFF")
        }),
        row("time_diff", &["TIME, TIME, STRING -> INT64"], |a| {
            difference(a, "TIME_DIFF")
        }),
        row("date_trunc", date_trunc, |a| truncate(a, "DATE_TRUNC")),
        row("datetime_trunc", &date_trunc[1..], |a| {
            truncate(a, "DATETIME_TRUNC")
        }),
        row(
            "timestamp_trunc",
            &[
                "TIMESTAMP, STRING, STRING? -> TIMESTAMP",
                "DATETIME, STRING -> DATETIME",
            ],
            |a| truncate(a, "TIMESTAMP_TRUNC"),
        ),
        row("time_trunc", &["TIME, STRING -> TIME"], |a| {
            truncate(a, "TIME_TRUNC")
        }),
        row(
            "last_day",
            &["DATE, STRING? -> DATE", "DATETIME, STRING? -> DATE"],
            last_day,
        ),
    ]
}

#[cfg(test)]
#[path = "dates_tests.rs"]
mod tests;
