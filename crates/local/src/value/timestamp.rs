//! TIMESTAMP: microseconds since 1970-01-01 00:00:00 UTC.

use std::fmt::Write;
use std::str::FromStr;

use arrow::array::timezone::Tz;
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone, Utc};

use super::civil::{MAX_MICROS, MIN_MICROS, Scan, is_space, write_datetime};
use super::decimal::{Excess, parse_decimal};
use super::error::ValueError;

/// A time zone: a fixed offset or a name of the tz database.
#[derive(Debug, Clone, Copy)]
pub enum Zone {
    /// Seconds east of UTC.
    Fixed(i32),
    /// A named zone.
    Named(Tz),
}

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone::Fixed(0);

    /// Reads `UTC`, `Z`, `+01:00`, `-8`, `America/Los_Angeles`.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let invalid = || ValueError::new(format!("Invalid time zone: {text}"));
        if text.eq_ignore_ascii_case("utc") || text.eq_ignore_ascii_case("z") {
            return Ok(Zone::UTC);
        }
        if text.starts_with(['+', '-']) {
            return offset(text).map(Zone::Fixed).ok_or_else(invalid);
        }
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(invalid());
        }
        Tz::from_str(text).map(Zone::Named).map_err(|_| invalid())
    }

    /// The instant at which a clock of this zone shows `local` (microseconds of a
    /// zoneless clock). An instant that occurs twice is the first one; one that a
    /// clock change leaves out is read with the offset before the change.
    pub fn to_utc(self, local: i64) -> Option<i64> {
        let micros = match self {
            Zone::Fixed(east) => local - i64::from(east) * 1_000_000,
            Zone::Named(tz) => {
                let naive = naive(local)?;
                match tz.offset_from_local_datetime(&naive) {
                    MappedLocalTime::Single(o) => local - east_micros(&o),
                    MappedLocalTime::Ambiguous(a, b) => {
                        (local - east_micros(&a)).min(local - east_micros(&b))
                    }
                    MappedLocalTime::None => {
                        let before = tz.offset_from_utc_datetime(
                            &naive.checked_sub_signed(chrono::Duration::days(1))?,
                        );
                        local - east_micros(&before)
                    }
                }
            }
        };
        in_range(micros)
    }

    /// What a clock of this zone shows at an instant.
    pub fn to_local(self, micros: i64) -> Option<i64> {
        match self {
            Zone::Fixed(east) => micros.checked_add(i64::from(east) * 1_000_000),
            Zone::Named(tz) => {
                micros.checked_add(east_micros(&tz.offset_from_utc_datetime(&naive(micros)?)))
            }
        }
    }
}

fn naive(micros: i64) -> Option<NaiveDateTime> {
    DateTime::<Utc>::from_timestamp_micros(micros).map(|t| t.naive_utc())
}

fn east_micros<O: Offset>(offset: &O) -> i64 {
    i64::from(offset.fix().local_minus_utc()) * 1_000_000
}

fn in_range(micros: i64) -> Option<i64> {
    (MIN_MICROS..=MAX_MICROS)
        .contains(&micros)
        .then_some(micros)
}

/// `(+|-)H[H][:M[M]]` as seconds east of UTC, at most 14 hours.
fn offset(text: &str) -> Option<i32> {
    let negative = text.starts_with('-');
    let mut scan = Scan::new(text.get(1..)?);
    let hours = scan.number(1, 2)?;
    let minutes = if scan.eat(':').is_some() {
        scan.number(1, 2)?
    } else {
        0
    };
    if !scan.is_done() || minutes > 59 || hours * 60 + minutes > 14 * 60 {
        return None;
    }
    let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
    Some(if negative { -seconds } else { seconds })
}

/// Reads a GoogleSQL timestamp: a date, a time, and an offset or a zone's name;
/// text without a zone is in `default_zone`.
pub fn parse_timestamp(text: &str, default_zone: Zone) -> Result<i64, ValueError> {
    zoned(text, '-', default_zone)
        .ok_or_else(|| ValueError::new(format!("Invalid timestamp: '{text}'")))
}

/// Reads a timestamp as loads and inserts accept it: also with slashes in the
/// date and as seconds since the epoch, but never a date alone.
///
/// Source: recorded CSV loads of the service.
pub fn parse_timestamp_for_import(text: &str) -> Result<i64, ValueError> {
    let trimmed = text.trim_matches(is_space);
    let refused = || {
        ValueError::new(format!(
            "Could not parse '{text}' as a timestamp. Required format is YYYY-MM-DD HH:MM[:SS[.SSSSSS]] or YYYY/MM/DD HH:MM[:SS[.SSSSSS]]"
        ))
    };
    if let Ok(micros) = parse_decimal(trimmed, 30, 6, Excess::Round) {
        return micros
            .to_i128()
            .and_then(|m| i64::try_from(m).ok())
            .and_then(in_range)
            .ok_or_else(refused);
    }
    if !trimmed.contains(':') {
        return Err(refused());
    }
    zoned(trimmed, '-', Zone::UTC)
        .or_else(|| zoned(trimmed, '/', Zone::UTC))
        .ok_or_else(refused)
}

fn zoned(text: &str, separator: char, default_zone: Zone) -> Option<i64> {
    let mut scan = Scan::new(text.trim_matches(is_space));
    let local = scan.datetime(separator)?;
    let rest = scan.rest();
    let zone = match rest.as_bytes().first() {
        None => default_zone,
        Some(b'+' | b'-' | b'Z' | b'z') => Zone::parse(rest).ok()?,
        Some(b' ') => Zone::parse(rest.trim_start_matches(' ')).ok()?,
        Some(_) => return None,
    };
    zone.to_utc(local)
}

/// Writes `YYYY-MM-DD HH:MM:SS[.ffffff]+00`, as CAST to STRING does in UTC.
pub fn write_timestamp(micros: i64, out: &mut String) {
    write_datetime(micros, ' ', out);
    out.push_str("+00");
}

/// Writes seconds since the epoch the way query results carry them:
/// `1.704164645123456E9`, `0.0`, `1.5`.
pub fn write_scientific_seconds(micros: i64, out: &mut String) {
    let magnitude = micros.unsigned_abs();
    // From ten million seconds on, and below a thousandth, the exponent form.
    if magnitude == 0 || (1_000..10_000_000_000_000).contains(&magnitude) {
        return write_plain_seconds(micros, out);
    }
    if micros < 0 {
        out.push('-');
    }
    let digits = magnitude.to_string();
    let exponent = i64::try_from(digits.len()).expect("at most twenty digits") - 1 - 6;
    let significant = digits.trim_end_matches('0');
    out.push_str(&significant[..1]);
    out.push('.');
    out.push_str(if significant.len() > 1 {
        &significant[1..]
    } else {
        "0"
    });
    write!(out, "E{exponent}").expect("writing to a String does not fail");
}

/// Writes seconds since the epoch the way tabledata.list carries them:
/// `1704164645.123456`, `0.0`.
pub fn write_plain_seconds(micros: i64, out: &mut String) {
    if micros < 0 {
        out.push('-');
    }
    let magnitude = micros.unsigned_abs();
    let fraction = format!("{:06}", magnitude % 1_000_000);
    let fraction = fraction.trim_end_matches('0');
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    write!(out, "{}.{fraction}", magnitude / 1_000_000).expect("writing to a String does not fail");
}

/// Writes `YYYY-MM-DDTHH:MM:SS.ffffffffffffZ`, twelve fractional digits
/// (`timestampOutputFormat` ISO8601_STRING).
pub fn write_iso8601(micros: i64, out: &mut String) {
    write_datetime(micros - micros.rem_euclid(1_000_000), 'T', out);
    write!(out, ".{:06}000000Z", micros.rem_euclid(1_000_000))
        .expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> String {
        let mut s = String::new();
        write_timestamp(
            parse_timestamp(text, Zone::UTC).unwrap_or_else(|e| panic!("{e}")),
            &mut s,
        );
        s
    }

    #[test]
    fn zones_and_offsets() {
        for (from, to) in [
            (
                "2024-02-29 12:34:56.789012+00",
                "2024-02-29 12:34:56.789012+00",
            ),
            ("2024-01-02T03:04:05Z", "2024-01-02 03:04:05+00"),
            ("2024-01-02 03:04:05+01:00", "2024-01-02 02:04:05+00"),
            ("2024-01-02 03:04:05-8", "2024-01-02 11:04:05+00"),
            ("2024-01-02 03:04:05 UTC", "2024-01-02 03:04:05+00"),
            (
                "2024-01-02 03:04:05.5 America/Los_Angeles",
                "2024-01-02 11:04:05.500000+00",
            ),
            (
                "2024-07-02 03:04 America/Los_Angeles",
                "2024-07-02 10:04:00+00",
            ),
            ("2024-01-02+05:30", "2024-01-01 18:30:00+00"),
            ("2024-01-02 America/New_York", "2024-01-02 05:00:00+00"),
            // The clock went from 02:00 to 03:00.
            (
                "2024-03-10 02:30:00 America/Los_Angeles",
                "2024-03-10 10:30:00+00",
            ),
            // The clock went from 02:00 back to 01:00.
            (
                "2024-11-03 01:30:00 America/Los_Angeles",
                "2024-11-03 08:30:00+00",
            ),
        ] {
            assert_eq!(utc(from), to, "{from}");
        }
        for bad in [
            "2024-01-02 03:04:05 Mars/Base",
            "2024-01-02 03:04:05+15",
            "2024-01-02 03:04:05+1:60",
            "2024-01-02T03:04:05UTC",
            "1704164645",
            "0001-01-01 00:00:00+14",
            "2024-01-02 03:04:05 +0é",
        ] {
            assert!(parse_timestamp(bad, Zone::UTC).is_err(), "{bad}");
        }
    }

    #[test]
    fn import_spellings() {
        let want = 1_704_164_645_000_000;
        for text in [
            "2024-01-02 03:04:05",
            "2024/01/02 03:04:05",
            "1704164645",
            "1.704164645E9",
            "1704164645.0",
            "2024-01-02T03:04:05",
            "2024-01-02T03:04:05.000Z",
            "2024-01-02 03:04:05 UTC",
        ] {
            assert_eq!(parse_timestamp_for_import(text), Ok(want), "{text}");
        }
        let error = parse_timestamp_for_import("2024-01-02").unwrap_err();
        assert!(
            error
                .message()
                .starts_with("Could not parse '2024-01-02' as a timestamp. Required format is")
        );
        assert!(parse_timestamp_for_import("99999999999999").is_err());
    }

    #[test]
    fn output_forms() {
        let forms = |micros| {
            let (mut a, mut b, mut c) = (String::new(), String::new(), String::new());
            write_scientific_seconds(micros, &mut a);
            write_plain_seconds(micros, &mut b);
            write_iso8601(micros, &mut c);
            (a, b, c)
        };
        let want = |a: &str, b: &str, c: &str| (a.to_string(), b.to_string(), c.to_string());
        assert_eq!(
            forms(1_704_164_645_123_456),
            want(
                "1.704164645123456E9",
                "1704164645.123456",
                "2024-01-02T03:04:05.123456000000Z"
            )
        );
        assert_eq!(
            forms(0),
            want("0.0", "0.0", "1970-01-01T00:00:00.000000000000Z")
        );
        assert_eq!(
            forms(1_500_000_000_000_000),
            want("1.5E9", "1500000000.0", "2017-07-14T02:40:00.000000000000Z")
        );
        assert_eq!(
            forms(1_500_000),
            want("1.5", "1.5", "1970-01-01T00:00:01.500000000000Z")
        );
        assert_eq!(
            forms(1),
            want("1.0E-6", "0.000001", "1970-01-01T00:00:00.000001000000Z")
        );
        assert_eq!(
            forms(-1_500_000),
            want("-1.5", "-1.5", "1969-12-31T23:59:58.500000000000Z")
        );
        assert_eq!(
            forms(MIN_MICROS),
            want(
                "-6.21355968E10",
                "-62135596800.0",
                "0001-01-01T00:00:00.000000000000Z"
            )
        );
        assert_eq!(
            forms(MAX_MICROS),
            want(
                "2.53402300799999999E11",
                "253402300799.999999",
                "9999-12-31T23:59:59.999999000000Z"
            )
        );
    }
}
