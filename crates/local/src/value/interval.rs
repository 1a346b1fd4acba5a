//! INTERVAL: months, days and a time part, each with its own sign.

use std::fmt::Write;

use arrow::datatypes::IntervalMonthDayNano;

use super::civil::{Scan, is_space};
use super::error::ValueError;

const MAX_MONTHS: i64 = 120_000;
const MAX_DAYS: i64 = 3_660_000;
const MAX_MICROS: i64 = 87_840_000 * 3_600_000_000;

/// An interval from its parts, `None` when one is beyond the type's ends:
/// 10,000 years, 3,660,000 days, 87,840,000 hours. A time part beyond 2,562,047
/// hours is refused too: Arrow's 64-bit nanoseconds end there.
pub fn interval(months: i64, days: i64, micros: i64) -> Option<IntervalMonthDayNano> {
    if months.abs() > MAX_MONTHS || days.abs() > MAX_DAYS || micros.checked_abs()? > MAX_MICROS {
        return None;
    }
    Some(IntervalMonthDayNano::new(
        i32::try_from(months).ok()?,
        i32::try_from(days).ok()?,
        i64::try_from(i128::from(micros) * 1000).ok()?,
    ))
}

/// Reads `[Y-M] [D] [H:M:S[.F]]` (`1-2 3 4:5:6.789`) or ISO 8601 (`P1Y2M3DT4H5M6.789S`).
/// Digits beyond microseconds are cut off.
pub fn parse_interval(text: &str) -> Result<IntervalMonthDayNano, ValueError> {
    let trimmed = text.trim_matches(is_space);
    let parts = if trimmed.starts_with(['P', 'p']) {
        iso(&trimmed[1..])
    } else {
        canonical(trimmed)
    };
    parts
        .and_then(|(months, days, micros)| interval(months, days, micros))
        .ok_or_else(|| ValueError::new(format!("Invalid INTERVAL value: '{text}'")))
}

fn canonical(text: &str) -> Option<(i64, i64, i64)> {
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    match parts.as_slice() {
        [months, days, time] => Some((year_month(months)?, whole(days)?, clock(time)?)),
        [first, second] if first.get(1..)?.contains('-') && second.contains(':') => {
            Some((year_month(first)?, 0, clock(second)?))
        }
        [first, second] if second.contains(':') => Some((0, whole(first)?, clock(second)?)),
        [first, second] => Some((year_month(first)?, whole(second)?, 0)),
        [one] if one.contains(':') => Some((0, 0, clock(one)?)),
        [one] => Some((year_month(one)?, 0, 0)),
        _ => None,
    }
}

/// The sign and what follows it.
fn signed(text: &str) -> (i64, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    }
}

fn year_month(text: &str) -> Option<i64> {
    let (sign, unsigned) = signed(text);
    let (years, months) = unsigned.split_once('-')?;
    Some(sign * (natural(years)? * 12 + natural(months)?))
}

fn whole(text: &str) -> Option<i64> {
    let (sign, unsigned) = signed(text);
    Some(sign * natural(unsigned)?)
}

fn natural(text: &str) -> Option<i64> {
    let mut scan = Scan::new(text);
    let digits = scan.digits(1, 12)?;
    scan.is_done().then(|| digits.parse().ok())?
}

fn clock(text: &str) -> Option<i64> {
    let (sign, unsigned) = signed(text);
    let mut parts = unsigned.split(':');
    let hours = natural(parts.next()?)?;
    let minutes = natural(parts.next()?)?;
    let seconds = seconds_as_micros(parts.next()?)?;
    if parts.next().is_some() {
        return None;
    }
    hours
        .checked_mul(60)?
        .checked_add(minutes)?
        .checked_mul(60_000_000)?
        .checked_add(seconds)
        .map(|micros| sign * micros)
}

fn seconds_as_micros(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut scan = Scan::new(fraction);
    let fraction = scan.digits(1, 9)?;
    if !scan.is_done() {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    natural(whole)?
        .checked_mul(1_000_000)?
        .checked_add(nanos / 1000)
}

/// What follows the `P`: `[nY][nM][nW][nD][T[nH][nM][n[.f]S]]`, each number signed.
fn iso(text: &str) -> Option<(i64, i64, i64)> {
    let (date, time) = match text.find(['T', 't']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    if date.is_empty() && time.is_none_or(str::is_empty) {
        return None;
    }
    let (mut months, mut days, mut micros) = (0_i64, 0_i64, 0_i64);
    for (sign, number, unit) in designated(date)? {
        let n = sign * natural(number)?;
        match unit {
            'Y' => months = months.checked_add(n.checked_mul(12)?)?,
            'M' => months = months.checked_add(n)?,
            'W' => days = days.checked_add(n.checked_mul(7)?)?,
            'D' => days = days.checked_add(n)?,
            _ => return None,
        }
    }
    for (sign, number, unit) in designated(time.unwrap_or(""))? {
        let n = match unit {
            'H' => natural(number)?.checked_mul(3_600_000_000)?,
            'M' => natural(number)?.checked_mul(60_000_000)?,
            'S' => seconds_as_micros(number)?,
            _ => return None,
        };
        micros = micros.checked_add(sign * n)?;
    }
    Some((months, days, micros))
}

/// Splits `-3Y2M` into sign, number and upper-case unit.
fn designated(text: &str) -> Option<Vec<(i64, &str, char)>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (sign, unsigned) = signed(rest);
        let end = unsigned.find(|c: char| c.is_ascii_alphabetic())?;
        let unit = char::from(unsigned.as_bytes()[end]).to_ascii_uppercase();
        parts.push((sign, &unsigned[..end], unit));
        rest = &unsigned[end + 1..];
    }
    Some(parts)
}

/// Writes `Y-M D H:M:S[.F]`.
pub fn write_interval(value: IntervalMonthDayNano, out: &mut String) {
    let sign = |negative: bool| if negative { "-" } else { "" };
    let months = value.months.unsigned_abs();
    let micros = (value.nanoseconds / 1000).unsigned_abs();
    let seconds = micros / 1_000_000;
    write!(
        out,
        "{}{}-{} {} {}{}:{}:{}",
        sign(value.months < 0),
        months / 12,
        months % 12,
        value.days,
        sign(value.nanoseconds / 1000 < 0),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
    )
    .expect("writing to a String does not fail");
    let fraction = micros % 1_000_000;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(from: &str) -> String {
        let mut s = String::new();
        write_interval(
            parse_interval(from).unwrap_or_else(|e| panic!("{e}")),
            &mut s,
        );
        s
    }

    #[test]
    fn spellings() {
        for (from, to) in [
            ("1-2 3 4:5:6.789", "1-2 3 4:5:6.789"),
            ("-0-3 0 0:0:0", "-0-3 0 0:0:0"),
            ("0-0 1 0:0:0", "0-0 1 0:0:0"),
            ("-1-14 -3 -4:05:06", "-2-2 -3 -4:5:6"),
            ("1-2", "1-2 0 0:0:0"),
            ("1-2 3", "1-2 3 0:0:0"),
            ("1-2 4:5:6", "1-2 0 4:5:6"),
            ("-1-2 4:5:6", "-1-2 0 4:5:6"),
            ("3 4:5:6", "0-0 3 4:5:6"),
            ("-3 4:5:6", "0-0 -3 4:5:6"),
            ("0:0:0.1234567", "0-0 0 0:0:0.123456"),
            ("-0:0:0.000001", "0-0 0 -0:0:0.000001"),
            ("P1Y2M3DT4H5M6.789S", "1-2 3 4:5:6.789"),
            ("P-1Y2M3W-1D", "-0-10 20 0:0:0"),
            ("PT-90M", "0-0 0 -1:30:0"),
            ("0-0 0 2562047:0:0", "0-0 0 2562047:0:0"),
            (
                "-10000-0 -3660000 -2562047:0:0",
                "-10000-0 -3660000 -2562047:0:0",
            ),
        ] {
            assert_eq!(text(from), to, "{from}");
        }
        for bad in [
            "",
            "1",
            "1-2 3 4",
            "10000-1",
            "0-0 3660001 0:0:0",
            "87840000:0:1",
            "P",
            "PT",
            "P1X",
            "1:2",
            "1-2-3",
            "1-2 3 4:5:6 7",
            "P1",
            "é-1",
        ] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
    }
}
