//! Civil time: days, clocks and zones as integers.

use chrono::{DateTime, Datelike, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

use super::value::fail;
use crate::error::Result;

/// Microseconds of a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;
/// 0001-01-01 in days since 1970-01-01.
pub(crate) const MIN_DATE: i32 = -719_162;
/// 9999-12-31 in days since 1970-01-01.
pub(crate) const MAX_DATE: i32 = 2_932_896;
/// 0001-01-01 00:00:00 in microseconds since the epoch.
pub(crate) const MIN_MICROS: i64 = -62_135_596_800_000_000;
/// 9999-12-31 23:59:59.999999 in microseconds since the epoch.
pub(crate) const MAX_MICROS: i64 = 253_402_300_799_999_999;

/// The days of a civil date, if it exists and is in range.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i32> {
    if !(1..=9999).contains(&year) {
        return None;
    }
    let date = NaiveDate::from_ymd_opt(
        i32::try_from(year).ok()?,
        u32::try_from(month).ok()?,
        u32::try_from(day).ok()?,
    )?;
    Some(date.num_days_from_ce() - 719_163)
}

/// The civil date of `days`; days out of range give the nearest date that
/// exists, which stored and computed values never are.
pub(crate) fn civil(days: i32) -> NaiveDate {
    NaiveDate::from_num_days_from_ce_opt(days.clamp(MIN_DATE - 400, MAX_DATE + 400) + 719_163)
        .unwrap_or_default()
}

/// Days in a month.
pub(crate) fn month_length(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 => 29,
        2 => 28,
        _ => 31,
    }
}

/// Year, month and day of `days`.
pub(crate) fn ymd(days: i32) -> (i64, i64, i64) {
    let date = civil(days);
    (
        i64::from(date.year()),
        i64::from(date.month()),
        i64::from(date.day()),
    )
}

/// `days` moved by whole months, to the last day of a shorter month.
pub(crate) fn add_months(days: i32, months: i64) -> Option<i32> {
    let (year, month, day) = ymd(days);
    let index = (year * 12 + month - 1).checked_add(months)?;
    let (year, month) = (index.div_euclid(12), index.rem_euclid(12) + 1);
    if !(1..=9999).contains(&year) {
        return None;
    }
    days_from_civil(year, month, day.min(month_length(year, month)))
}

/// Sunday 0 … Saturday 6.
pub(crate) fn weekday(days: i32) -> i64 {
    (i64::from(days) + 4).rem_euclid(7)
}

/// ISO year and week of `days`.
pub(crate) fn iso_week(days: i32) -> (i64, i64) {
    let week = civil(days).iso_week();
    (i64::from(week.year()), i64::from(week.week()))
}

/// Date and microseconds of the day of a DATETIME's microseconds.
pub(crate) fn split(micros: i64) -> (i32, i64) {
    (
        i32::try_from(micros.div_euclid(DAY_MICROS)).unwrap_or(i32::MAX),
        micros.rem_euclid(DAY_MICROS),
    )
}

/// DATETIME microseconds of a date and a time of day.
pub(crate) fn join(days: i32, micros: i64) -> i64 {
    i64::from(days) * DAY_MICROS + micros
}

/// A time zone: a name of the tz database or a fixed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// A named zone.
    Named(Tz),
    /// Seconds east of UTC.
    Fixed(i64),
}

impl Zone {
    /// UTC, the default zone.
    pub(crate) const UTC: Zone = Zone::Fixed(0);

    /// A zone as GoogleSQL spells it: `America/Los_Angeles`, `UTC`, `+05:30`,
    /// `-8`, `UTC+01:00`.
    pub(crate) fn parse(name: &str) -> Result<Zone> {
        match Self::parse_opt(name) {
            Some(zone) => Ok(zone),
            None => fail(format!("Invalid time zone: {name}")),
        }
    }

    /// See [`Zone::parse`].
    pub(crate) fn parse_opt(name: &str) -> Option<Zone> {
        let offset = name.strip_prefix("UTC").unwrap_or(name);
        if let Some(seconds) = parse_offset(offset) {
            return Some(Zone::Fixed(seconds));
        }
        if matches!(name, "UTC" | "Z" | "z") {
            return Some(Zone::UTC);
        }
        name.parse::<Tz>().ok().map(Zone::Named)
    }

    /// Seconds east of UTC at an instant.
    pub(crate) fn offset_at(self, micros: i64) -> i64 {
        match self {
            Zone::Fixed(seconds) => seconds,
            Zone::Named(tz) => match DateTime::from_timestamp_micros(micros) {
                Some(at) => i64::from(
                    tz.offset_from_utc_datetime(&at.naive_utc())
                        .fix()
                        .local_minus_utc(),
                ),
                None => 0,
            },
        }
    }

    /// The local DATETIME of an instant.
    pub(crate) fn to_local(self, micros: i64) -> i64 {
        micros + self.offset_at(micros) * 1_000_000
    }

    /// The instant of a local DATETIME: the earlier of two, and for a time that
    /// a clock change skips, the one the clock before the change would show.
    pub(crate) fn to_instant(self, local: i64) -> i64 {
        let tz = match self {
            Zone::Fixed(seconds) => return local - seconds * 1_000_000,
            Zone::Named(tz) => tz,
        };
        let Some(naive) = DateTime::from_timestamp_micros(local).map(|t| t.naive_utc()) else {
            return local;
        };
        let offset = match tz.offset_from_local_datetime(&naive) {
            MappedLocalTime::Single(o) | MappedLocalTime::Ambiguous(o, _) => {
                o.fix().local_minus_utc()
            }
            MappedLocalTime::None => {
                let before = naive - chrono::TimeDelta::hours(3);
                earlier_offset(tz, before)
            }
        };
        local - i64::from(offset) * 1_000_000
    }
}

fn earlier_offset(tz: Tz, local: NaiveDateTime) -> i32 {
    match tz.offset_from_local_datetime(&local) {
        MappedLocalTime::Single(o) | MappedLocalTime::Ambiguous(o, _) => o.fix().local_minus_utc(),
        MappedLocalTime::None => 0,
    }
}

/// `+5`, `+05`, `+05:30` or `-0530` in seconds.
pub(crate) fn parse_offset(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let rest = &text[1..];
    let (hours, minutes) = match rest.split_once(':') {
        Some((h, m)) if m.len() == 2 => (h, m),
        Some(_) => return None,
        None if rest.len() == 4 => (rest.get(..2)?, rest.get(2..)?),
        None => (rest, "0"),
    };
    let digits = |s: &str| {
        (!s.is_empty() && s.len() <= 2 && s.bytes().all(|b| b.is_ascii_digit()))
            .then(|| s.parse::<i64>().ok())
            .flatten()
    };
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    if hours > 14 || minutes > 59 || (hours == 14 && minutes > 0) {
        return None;
    }
    Some(sign * (hours * 3600 + minutes * 60))
}

/// `+00`, `-07`, `+05:30`.
pub(crate) fn short_offset(seconds: i64) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let s = seconds.abs();
    if s % 3600 == 0 {
        format!("{sign}{:02}", s / 3600)
    } else {
        format!("{sign}{:02}:{:02}", s / 3600, s % 3600 / 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_keep_within_the_month() {
        let d = |y, m, d| days_from_civil(y, m, d).unwrap();
        assert_eq!(add_months(d(2024, 1, 31), 1), Some(d(2024, 2, 29)));
        assert_eq!(add_months(d(2024, 3, 31), -1), Some(d(2024, 2, 29)));
        assert_eq!(add_months(d(2023, 12, 31), -10), Some(d(2023, 2, 28)));
        assert_eq!(add_months(d(9999, 12, 1), 1), None);
        assert_eq!(days_from_civil(1, 1, 1), Some(MIN_DATE));
        assert_eq!(days_from_civil(9999, 12, 31), Some(MAX_DATE));
        assert_eq!(days_from_civil(2023, 2, 29), None);
        assert_eq!(weekday(0), 4);
    }

    #[test]
    fn zones() {
        let la = Zone::parse("America/Los_Angeles").unwrap();
        // 2024-03-10 02:30 does not exist there; the standard clock would show it.
        let local = join(days_from_civil(2024, 3, 10).unwrap(), 9_000_000_000);
        assert_eq!(la.to_instant(local), local + 8 * 3_600_000_000);
        // 2024-11-03 01:30 happens twice; the first is in daylight time.
        let local = join(days_from_civil(2024, 11, 3).unwrap(), 5_400_000_000);
        assert_eq!(la.to_instant(local), local + 7 * 3_600_000_000);
        assert_eq!(Zone::parse("+05:45").unwrap(), Zone::Fixed(20_700));
        assert_eq!(Zone::parse("UTC-3").unwrap(), Zone::Fixed(-10_800));
        assert!(Zone::parse("Mars/Olympus").is_err());
        assert_eq!(short_offset(-25_200), "-07");
        assert_eq!(short_offset(20_700), "+05:45");
    }
}
