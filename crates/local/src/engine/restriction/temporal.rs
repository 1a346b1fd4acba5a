//! Dates, times and their parts.

use arrow::datatypes::{
    Date32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};

use super::datum::{Datum, Rows};
use super::error::failed;
use super::expr::Expr;
use super::interval;
use super::part::Part;
use super::types::Type;
use crate::error::{Result, ServiceError};
use crate::value::civil::{
    DAY_MICROS, MAX_MICROS, MIN_MICROS, date_from_ymd, days_in_month, days_of, ymd_from_date,
};
use crate::value::timestamp::{Zone, parse_timestamp};

/// Functions over dates and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TemporalFunction {
    /// INT64 → INTERVAL.
    MakeInterval(Part),
    /// Year, month, day.
    MakeDate,
    /// Hour, minute, second.
    MakeTime,
    /// Year to second.
    MakeDatetime,
    /// DATE and TIME.
    DatetimeOf,
    /// A conversion to or from TIMESTAMP in the zone that the second argument names.
    Zoned,
    /// The part as a number, in a zone where there is a second argument.
    Extract(Part),
    /// The start of the part, in a zone where there is a second argument.
    Truncate(Part),
    /// The last day of the part.
    LastDay(Part),
    /// Value and number of parts.
    Add(Part),
    /// Value and number of parts.
    Subtract(Part),
    /// Boundaries, or for TIMESTAMP and TIME whole parts, from the second argument
    /// to the first.
    Difference(Part),
    /// INT64 of a unit in microseconds → TIMESTAMP.
    FromUnix(i64),
    /// TIMESTAMP → INT64 of a unit in microseconds.
    ToUnix(i64),
    /// INT64 → DATE.
    DateFromUnix,
    /// DATE → INT64.
    UnixDate,
}

impl TemporalFunction {
    /// Whether a bound on the result bounds the first argument.
    pub(super) fn is_monotonic(self) -> bool {
        matches!(
            self,
            TemporalFunction::Truncate(_)
                | TemporalFunction::Zoned
                | TemporalFunction::LastDay(_)
                | TemporalFunction::ToUnix(_)
                | TemporalFunction::UnixDate
        )
    }
}

/// A value outside 0001-01-01 to 9999-12-31.
pub(super) fn overflow(ty: &str) -> ServiceError {
    failed(format_args!(
        "{ty} value is out of allowed range: from 0001-01-01 to 9999-12-31"
    ))
}

const MIN_DAYS: i64 = -719_162;
const MAX_DAYS: i64 = 2_932_896;

/// `days` after `date`, within the type.
pub(super) fn add_days(date: i32, days: i64) -> Option<i32> {
    let sum = i64::from(date).checked_add(days)?;
    (MIN_DAYS..=MAX_DAYS)
        .contains(&sum)
        .then(|| i32::try_from(sum).ok())
        .flatten()
}

/// The same day `months` later, or the last day of a shorter month.
fn add_months(date: i32, months: i64) -> Option<i32> {
    let (year, month, day) = ymd_from_date(date);
    let count = (i64::from(year) * 12 + i64::from(month) - 1).checked_add(months)?;
    let year = i32::try_from(count.div_euclid(12)).ok()?;
    let month = u32::try_from(count.rem_euclid(12) + 1).ok()?;
    date_from_ymd(year, month, day.min(days_in_month(year, month)))
}

fn in_range(micros: i64) -> Option<i64> {
    (MIN_MICROS..=MAX_MICROS)
        .contains(&micros)
        .then_some(micros)
}

/// `micros` moved by an interval, months first.
pub(super) fn add_interval(micros: i64, by: IntervalMonthDayNano, sign: i64) -> Option<i64> {
    let date = add_months(days_of(micros), sign * i64::from(by.months))?;
    let date = i64::from(date) + sign * i64::from(by.days);
    let time = micros.rem_euclid(DAY_MICROS) + sign * (by.nanoseconds / 1000);
    in_range(date.checked_mul(DAY_MICROS)?.checked_add(time)?)
}

/// `n` parts after `micros` (a DATE is its first microsecond).
fn add_part(ty: &Type, micros: i64, n: i64, part: Part) -> Result<i64> {
    let name = ty.to_string();
    let out = || overflow(&name);
    if let Some(unit) = part.micros() {
        let by = n.checked_mul(unit).ok_or_else(out)?;
        if *ty == Type::Time {
            let sum = i128::from(micros) + i128::from(by);
            let day = i128::from(DAY_MICROS);
            return i64::try_from(sum.rem_euclid(day)).map_err(|_| out());
        }
        return micros.checked_add(by).and_then(in_range).ok_or_else(out);
    }
    let date = days_of(micros);
    let time = micros.rem_euclid(DAY_MICROS);
    let date = match part {
        Part::Day => add_days(date, n),
        Part::Week(_) => n.checked_mul(7).and_then(|n| add_days(date, n)),
        Part::Month => add_months(date, n),
        Part::Quarter => n.checked_mul(3).and_then(|n| add_months(date, n)),
        Part::Year => n.checked_mul(12).and_then(|n| add_months(date, n)),
        other => return Err(failed(format_args!("Unsupported date part {other}"))),
    };
    let date = date.ok_or_else(out)?;
    Ok(i64::from(date) * DAY_MICROS + time)
}

/// 0 is Sunday.
fn weekday(date: i32) -> i32 {
    (date + 4).rem_euclid(7)
}

/// The first day of the week that begins on `start`.
fn week_start(date: i32, start: u8) -> i32 {
    date - (weekday(date) - i32::from(start)).rem_euclid(7)
}

fn first_of(year: i32, month: u32) -> i32 {
    date_from_ymd(year.clamp(1, 9999), month, 1).unwrap_or(0)
}

/// The Monday on which an ISO year begins, and that year.
fn iso_year(date: i32) -> (i32, i32) {
    // The year of a week is that of its Thursday.
    let thursday = week_start(date, 1) + 3;
    let (year, _, _) = ymd_from_date(thursday);
    // The week with January 4 is the first; the arithmetic also holds for the
    // years 0 and 10000, which dates at the ends belong to.
    let january_4 = thursday - day_of_year(thursday) + 1 + 3;
    (week_start(january_4, 1), year)
}

/// 1 for January 1.
fn day_of_year(date: i32) -> i32 {
    let (_, month, day) = ymd_from_date(date);
    const BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let (year, _, _) = ymd_from_date(date);
    let leap = u32::from(month > 2 && days_in_month(year, 2) == 29);
    i32::try_from(BEFORE[(month - 1) as usize] + day + leap).unwrap_or(366)
}

fn extract(part: Part, micros: i64) -> i64 {
    let date = days_of(micros);
    let time = micros.rem_euclid(DAY_MICROS);
    let (year, month, day) = ymd_from_date(date);
    match part {
        Part::Microsecond => time % 1_000_000,
        Part::Millisecond => time / 1_000 % 1_000,
        Part::Second => time / 1_000_000 % 60,
        Part::Minute => time / 60_000_000 % 60,
        Part::Hour => time / 3_600_000_000,
        Part::Day => i64::from(day),
        Part::DayOfWeek => i64::from(weekday(date)) + 1,
        Part::DayOfYear => i64::from(day_of_year(date)),
        Part::Week(start) => {
            let since = (weekday(date) - i32::from(start)).rem_euclid(7);
            i64::from((day_of_year(date) - 1 + 7 - since) / 7)
        }
        Part::IsoWeek => {
            let (start, _) = iso_year(date);
            i64::from((date - start) / 7 + 1)
        }
        Part::Month => i64::from(month),
        Part::Quarter => i64::from(month.div_ceil(3)),
        Part::Year => i64::from(year),
        Part::IsoYear => i64::from(iso_year(date).1),
        Part::Date => i64::from(date),
        Part::Time => time,
        Part::Datetime => micros,
    }
}

fn extract_interval(part: Part, value: IntervalMonthDayNano) -> Option<i64> {
    let micros = value.nanoseconds / 1000;
    Some(match part {
        Part::Year => i64::from(value.months / 12),
        Part::Month => i64::from(value.months % 12),
        Part::Day => i64::from(value.days),
        Part::Hour => micros / 3_600_000_000,
        Part::Minute => micros / 60_000_000 % 60,
        Part::Second => micros / 1_000_000 % 60,
        Part::Millisecond => micros / 1_000 % 1_000,
        Part::Microsecond => micros % 1_000_000,
        _ => return None,
    })
}

/// The first microsecond of the part that holds `micros`.
fn truncate(part: Part, micros: i64) -> Result<i64> {
    if let Some(unit) = part.micros() {
        return Ok(micros - micros.rem_euclid(unit));
    }
    let date = days_of(micros);
    let (year, month, _) = ymd_from_date(date);
    let start = match part {
        Part::Day => date,
        Part::Week(day) => week_start(date, day),
        Part::IsoWeek => week_start(date, 1),
        Part::Month => first_of(year, month),
        Part::Quarter => first_of(year, (month - 1) / 3 * 3 + 1),
        Part::Year => first_of(year, 1),
        Part::IsoYear => iso_year(date).0,
        other => return Err(failed(format_args!("Unsupported date part {other}"))),
    };
    if i64::from(start) < MIN_DAYS {
        return Err(overflow("DATE"));
    }
    Ok(i64::from(start) * DAY_MICROS)
}

fn last_day(part: Part, date: i32) -> Result<i32> {
    let (year, month, _) = ymd_from_date(date);
    let last = match part {
        Part::Month => first_of(year, month) + months_days(year, month, 1) - 1,
        Part::Quarter => {
            let first = (month - 1) / 3 * 3 + 1;
            first_of(year, first) + months_days(year, first, 3) - 1
        }
        Part::Year => first_of(year, 12) + 30,
        Part::Week(day) => week_start(date, day) + 6,
        Part::IsoWeek => week_start(date, 1) + 6,
        Part::IsoYear => iso_year(iso_year(date).0 + 370).0 - 1,
        other => return Err(failed(format_args!("Unsupported date part {other}"))),
    };
    add_days(last, 0).ok_or_else(|| overflow("DATE"))
}

fn months_days(year: i32, first: u32, months: u32) -> i32 {
    (first..first + months)
        .map(|m| i32::try_from(days_in_month(year, m)).unwrap_or(31))
        .sum()
}

/// Parts from `b` to `a`.
fn difference(ty: &Type, part: Part, a: i64, b: i64) -> Result<i64> {
    let whole = matches!(ty, Type::Timestamp | Type::Time);
    let unit = match part {
        Part::Day if *ty == Type::Timestamp => Some(DAY_MICROS),
        other => other.micros(),
    };
    if let Some(unit) = unit {
        return Ok(if whole {
            (a - b) / unit
        } else {
            a.div_euclid(unit) - b.div_euclid(unit)
        });
    }
    let index = |micros: i64| -> Result<i64> {
        let date = days_of(micros);
        let (year, month, _) = ymd_from_date(date);
        let (year, month) = (i64::from(year), i64::from(month));
        Ok(match part {
            Part::Day => i64::from(date),
            Part::Week(day) => i64::from(week_start(date, day).div_euclid(7)),
            Part::IsoWeek => i64::from(week_start(date, 1).div_euclid(7)),
            Part::Month => year * 12 + month,
            Part::Quarter => year * 4 + (month - 1) / 3,
            Part::Year => year,
            Part::IsoYear => i64::from(iso_year(date).1),
            other => return Err(failed(format_args!("Unsupported date part {other}"))),
        })
    };
    Ok(index(a)? - index(b)?)
}

/// The value at `row` in microseconds; a DATE is its first one.
fn micros_at(value: &Datum, ty: &Type, row: usize) -> Option<i64> {
    match ty {
        Type::Date => value
            .primitive::<Date32Type>()
            .get(row)
            .map(|d| i64::from(d) * DAY_MICROS),
        Type::Time => value.primitive::<Time64MicrosecondType>().get(row),
        _ => value.primitive::<TimestampMicrosecondType>().get(row),
    }
}

/// Time zones named by an argument; a constant one is read once.
enum Zones<'a> {
    One(Option<Zone>),
    Each(&'a Datum),
}

impl<'a> Zones<'a> {
    fn new(names: Option<&'a Datum>, rows: &Rows) -> Result<Self> {
        match names {
            None => Ok(Zones::One(Some(Zone::UTC))),
            Some(names) if names.constant && !rows.is_empty() => {
                Ok(Zones::One(names.text().get(0).map(zone).transpose()?))
            }
            Some(names) => Ok(Zones::Each(names)),
        }
    }

    fn at(&self, row: usize) -> Result<Option<Zone>> {
        match self {
            Zones::One(zone) => Ok(*zone),
            Zones::Each(names) => names.text().get(row).map(zone).transpose(),
        }
    }
}

fn zone(name: &str) -> Result<Zone> {
    Zone::parse(name).map_err(failed)
}

/// Values in microseconds as values of `ty`.
fn of_micros(
    ty: &Type,
    arguments: &[&Datum],
    rows: &Rows,
    mut value: impl FnMut(usize) -> Result<Option<i64>>,
) -> Result<Datum> {
    match ty {
        Type::Date => rows.primitive::<Date32Type>(arguments, |i| Ok(value(i)?.map(days_of))),
        Type::Time => rows.primitive::<Time64MicrosecondType>(arguments, value),
        Type::Int64 => rows.primitive::<Int64Type>(arguments, value),
        _ => rows.primitive::<TimestampMicrosecondType>(arguments, value),
    }
}

/// Evaluates a function whose result has type `ty`.
pub(super) fn call(
    function: TemporalFunction,
    ty: &Type,
    expressions: &[Expr],
    values: &[Datum],
    rows: &Rows,
) -> Result<Datum> {
    let arguments: Vec<&Datum> = values.iter().collect();
    let from = &expressions[0].ty;
    let first = |i: usize| micros_at(&values[0], from, i);
    let number = |k: usize, i: usize| values[k].primitive::<Int64Type>().get(i);
    match function {
        TemporalFunction::MakeInterval(part) => rows
            .primitive::<IntervalMonthDayNanoType>(&arguments, |i| {
                number(0, i).map(|n| interval::of_part(n, part)).transpose()
            }),
        TemporalFunction::MakeDate => rows.primitive::<Date32Type>(&arguments, |i| {
            all_numbers(values, i).map(|n| make_date(&n)).transpose()
        }),
        TemporalFunction::MakeTime => rows.primitive::<Time64MicrosecondType>(&arguments, |i| {
            all_numbers(values, i).map(|n| make_time(&n)).transpose()
        }),
        TemporalFunction::MakeDatetime => of_micros(ty, &arguments, rows, |i| {
            all_numbers(values, i)
                .map(|n| Ok(i64::from(make_date(&n[..3])?) * DAY_MICROS + make_time(&n[3..])?))
                .transpose()
        }),
        TemporalFunction::DatetimeOf => of_micros(ty, &arguments, rows, |i| {
            Ok(first(i)
                .zip(micros_at(&values[1], &Type::Time, i))
                .map(|(date, time)| date + time))
        }),
        TemporalFunction::Zoned => {
            let zones = Zones::new(values.get(1), rows)?;
            let out = || overflow("TIMESTAMP");
            of_micros(ty, &arguments, rows, |i| {
                let Some(zone) = zones.at(i)? else {
                    return Ok(None);
                };
                if *from == Type::Text {
                    return values[0]
                        .text()
                        .get(i)
                        .map(|text| parse_timestamp(text, zone).map_err(failed))
                        .transpose();
                }
                let Some(micros) = first(i) else {
                    return Ok(None);
                };
                if *from == Type::Timestamp {
                    let local = zone.to_local(micros).and_then(in_range).ok_or_else(out)?;
                    return Ok(Some(match ty {
                        Type::Time => local.rem_euclid(DAY_MICROS),
                        _ => local,
                    }));
                }
                zone.to_utc(micros).map(Some).ok_or_else(out)
            })
        }
        TemporalFunction::Extract(part) if *from == Type::Interval => {
            let view = values[0].primitive::<IntervalMonthDayNanoType>();
            rows.primitive::<Int64Type>(&arguments, |i| {
                Ok(view.get(i).and_then(|v| extract_interval(part, v)))
            })
        }
        TemporalFunction::Extract(part) => {
            let zones = Zones::new(values.get(1), rows)?;
            let value = |i: usize| -> Result<Option<i64>> {
                let (Some(zone), Some(micros)) = (zones.at(i)?, first(i)) else {
                    return Ok(None);
                };
                let local = zone.to_local(micros).ok_or_else(|| overflow("TIMESTAMP"))?;
                Ok(Some(extract(part, local)))
            };
            match part {
                Part::Date => rows.primitive::<Date32Type>(&arguments, |i| {
                    Ok(value(i)?.and_then(|d| i32::try_from(d).ok()))
                }),
                _ => of_micros(ty, &arguments, rows, value),
            }
        }
        TemporalFunction::Truncate(part) => {
            let zones = Zones::new(values.get(1), rows)?;
            of_micros(ty, &arguments, rows, |i| {
                let (Some(zone), Some(micros)) = (zones.at(i)?, first(i)) else {
                    return Ok(None);
                };
                let out = || overflow("TIMESTAMP");
                // Parts up to a second are the same in every zone.
                if part.micros().is_some_and(|u| u <= 1_000_000) {
                    return truncate(part, micros).map(Some);
                }
                let local = truncate(part, zone.to_local(micros).ok_or_else(out)?)?;
                zone.to_utc(local).map(Some).ok_or_else(out)
            })
        }
        TemporalFunction::LastDay(part) => rows.primitive::<Date32Type>(&arguments, |i| {
            first(i).map(|m| last_day(part, days_of(m))).transpose()
        }),
        TemporalFunction::Add(part) | TemporalFunction::Subtract(part) => {
            let subtract = matches!(function, TemporalFunction::Subtract(_));
            of_micros(ty, &arguments, rows, |i| {
                let Some((micros, n)) = first(i).zip(number(1, i)) else {
                    return Ok(None);
                };
                let n = if subtract {
                    n.checked_neg().ok_or_else(|| failed("int64 overflow"))?
                } else {
                    n
                };
                add_part(ty, micros, n, part).map(Some)
            })
        }
        TemporalFunction::Difference(part) => rows.primitive::<Int64Type>(&arguments, |i| {
            first(i)
                .zip(micros_at(&values[1], from, i))
                .map(|(a, b)| difference(from, part, a, b))
                .transpose()
        }),
        TemporalFunction::FromUnix(unit) => of_micros(ty, &arguments, rows, |i| {
            number(0, i)
                .map(|n| {
                    n.checked_mul(unit)
                        .and_then(in_range)
                        .ok_or_else(|| overflow("TIMESTAMP"))
                })
                .transpose()
        }),
        TemporalFunction::ToUnix(unit) => {
            rows.primitive::<Int64Type>(&arguments, |i| Ok(first(i).map(|m| m.div_euclid(unit))))
        }
        TemporalFunction::DateFromUnix => rows.primitive::<Date32Type>(&arguments, |i| {
            number(0, i)
                .map(|n| add_days(0, n).ok_or_else(|| overflow("DATE")))
                .transpose()
        }),
        TemporalFunction::UnixDate => {
            rows.primitive::<Int64Type>(&arguments, |i| Ok(first(i).map(|m| i64::from(days_of(m)))))
        }
    }
}

fn all_numbers(values: &[Datum], row: usize) -> Option<Vec<i64>> {
    values
        .iter()
        .map(|v| v.primitive::<Int64Type>().get(row))
        .collect()
}

fn make_date(parts: &[i64]) -> Result<i32> {
    let part = |k: usize| u32::try_from(parts[k]).ok();
    i32::try_from(parts[0])
        .ok()
        .zip(part(1))
        .zip(part(2))
        .and_then(|((y, m), d)| date_from_ymd(y, m, d))
        .ok_or_else(|| {
            failed(format_args!(
                "Input calculates to invalid date: {}-{}-{}",
                parts[0], parts[1], parts[2]
            ))
        })
}

fn make_time(parts: &[i64]) -> Result<i64> {
    let (h, m, s) = (parts[0], parts[1], parts[2]);
    if (0..24).contains(&h) && (0..60).contains(&m) && (0..60).contains(&s) {
        return Ok((h * 3600 + m * 60 + s) * 1_000_000);
    }
    Err(failed(format_args!(
        "Input calculates to invalid time: {h}:{m}:{s}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::civil::{parse_date, parse_datetime, write_date};

    fn day(text: &str) -> i64 {
        i64::from(parse_date(text).unwrap()) * DAY_MICROS
    }

    #[test]
    fn weeks_and_iso_years() {
        for (date, week, iso_week, iso_year, day_of_week) in [
            ("2015-12-31", 52, 53, 2015, 5),
            ("2016-01-01", 0, 53, 2015, 6),
            ("2016-01-02", 0, 53, 2015, 7),
            ("2016-01-03", 1, 53, 2015, 1),
            ("2016-01-04", 1, 1, 2016, 2),
            ("2007-12-31", 52, 1, 2008, 2),
            ("0001-01-01", 0, 1, 1, 2),
            ("9999-12-31", 52, 52, 9999, 6),
        ] {
            let at = day(date);
            assert_eq!(
                (
                    extract(Part::Week(0), at),
                    extract(Part::IsoWeek, at),
                    extract(Part::IsoYear, at),
                    extract(Part::DayOfWeek, at)
                ),
                (week, iso_week, iso_year, day_of_week),
                "{date}"
            );
        }
    }

    #[test]
    fn truncation() {
        for (part, want) in [
            (Part::Day, "2024-02-29"),
            (Part::Week(0), "2024-02-25"),
            (Part::Week(1), "2024-02-26"),
            (Part::IsoWeek, "2024-02-26"),
            (Part::Month, "2024-02-01"),
            (Part::Quarter, "2024-01-01"),
            (Part::Year, "2024-01-01"),
            (Part::IsoYear, "2024-01-01"),
        ] {
            let at = parse_datetime("2024-02-29 13:14:15.123456").unwrap();
            let mut text = String::new();
            write_date(days_of(truncate(part, at).unwrap()), &mut text);
            assert_eq!(text, want, "{part}");
        }
        assert!(truncate(Part::Week(0), day("0001-01-01")).is_err());
    }

    #[test]
    fn last_days() {
        for (part, want) in [
            (Part::Month, "2024-02-29"),
            (Part::Quarter, "2024-03-31"),
            (Part::Year, "2024-12-31"),
            (Part::Week(0), "2024-02-17"),
            (Part::IsoYear, "2024-12-29"),
        ] {
            let date = parse_date("2024-02-13").unwrap();
            assert_eq!(last_day(part, date).unwrap(), parse_date(want).unwrap());
        }
    }

    #[test]
    fn months_clamp_to_shorter_ones() {
        let add = |date: &str, n: i64, part| {
            add_part(&Type::Date, day(date), n, part).map(|m| {
                let mut text = String::new();
                write_date(days_of(m), &mut text);
                text
            })
        };
        assert_eq!(add("2024-01-31", 1, Part::Month).unwrap(), "2024-02-29");
        assert_eq!(add("2024-02-29", -4, Part::Year).unwrap(), "2020-02-29");
        assert_eq!(add("2024-02-29", 1, Part::Year).unwrap(), "2025-02-28");
        assert_eq!(add("2023-12-31", 1, Part::Day).unwrap(), "2024-01-01");
        assert!(add("9999-12-31", 1, Part::Day).is_err());
        assert!(add("0001-01-01", i64::MIN, Part::Week(0)).is_err());
    }

    #[test]
    fn differences_count_boundaries() {
        let diff = |ty: &Type, part, a: &str, b: &str| {
            let at = |t: &str| parse_datetime(t).unwrap();
            difference(ty, part, at(a), at(b)).unwrap()
        };
        let (a, b) = ("2018-01-01 00:00:01", "2017-12-31 23:59:59");
        assert_eq!(diff(&Type::Datetime, Part::Year, a, b), 1);
        assert_eq!(diff(&Type::Datetime, Part::Hour, a, b), 1);
        assert_eq!(diff(&Type::Timestamp, Part::Hour, a, b), 0);
        assert_eq!(diff(&Type::Timestamp, Part::Second, a, b), 2);
        assert_eq!(
            diff(&Type::Date, Part::Week(0), "2017-10-15", "2017-10-14"),
            1
        );
    }
}
