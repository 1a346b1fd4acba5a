//! The text that CAST reads and writes for numbers and times.

use super::civil::{self, Zone};
use super::value::Interval;

/// A double as `CAST(x AS STRING)` prints it: 15 significant digits, or 17 when
/// 15 do not read back as the same double.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let short = general(value, 15);
    if short.parse::<f64>() == Ok(value) {
        short
    } else {
        general(value, 17)
    }
}

/// C's `%.{digits}g`.
pub(crate) fn general(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0".into()
        } else {
            "0".into()
        };
    }
    let digits = digits.max(1);
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |s: &str| {
        if s.contains('.') {
            s.trim_end_matches('0').trim_end_matches('.').to_string()
        } else {
            s.to_string()
        }
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    } else {
        let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
        trim(&format!("{value:.decimals$}"))
    }
}

/// An INT64 from text: decimal or `0x` hexadecimal, sign, spaces around.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = match rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        Some(hex) if !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            i128::from_str_radix(hex.trim_start_matches('0'), 16).or_else(|e| {
                if hex.bytes().all(|b| b == b'0') {
                    Ok(0)
                } else {
                    Err(e)
                }
            })
        }
        Some(_) => return None,
        None if !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()) => rest.parse(),
        None => return None,
    }
    .ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// A FLOAT64 from text.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = body.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        let value = u64::from_str_radix(hex, 16)
            .ok()
            .filter(|_| hex.bytes().all(|b| b.is_ascii_hexdigit()))? as f64;
        return Some(if text.starts_with('-') { -value } else { value });
    }
    let word = matches!(lower.as_str(), "inf" | "infinity" | "nan");
    let number = body.bytes().any(|b| b.is_ascii_digit())
        && body
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !word && !number {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    // A finite number that no double holds is refused rather than infinite.
    (word || value.is_finite()).then_some(value)
}

/// `YYYY-MM-DD`.
pub(crate) fn date_text(days: i32) -> String {
    let (y, m, d) = civil::ymd(days);
    format!("{y:04}-{m:02}-{d:02}")
}

fn fraction_text(micros: i64) -> String {
    match micros {
        0 => String::new(),
        m if m % 1000 == 0 => format!(".{:03}", m / 1000),
        m => format!(".{m:06}"),
    }
}

/// `HH:MM:SS[.fff[fff]]`.
pub(crate) fn time_text(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    format!(
        "{:02}:{:02}:{:02}{}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        fraction_text(micros % 1_000_000)
    )
}

/// A DATETIME with `separator` between date and time.
pub(crate) fn datetime_text(micros: i64, separator: char) -> String {
    let (days, time) = civil::split(micros);
    format!("{}{separator}{}", date_text(days), time_text(time))
}

/// A TIMESTAMP as CAST prints it in a zone: `2024-01-02 03:04:05+00`.
pub(crate) fn timestamp_text(micros: i64, zone: Zone) -> String {
    let offset = zone.offset_at(micros);
    format!(
        "{}{}",
        datetime_text(micros + offset * 1_000_000, ' '),
        civil::short_offset(offset)
    )
}

/// A TIMESTAMP as JSON holds it: `2024-01-02T03:04:05Z`.
pub(crate) fn timestamp_json(micros: i64) -> String {
    format!("{}Z", datetime_text(micros, 'T'))
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn digits(&mut self, min: usize, max: usize) -> Option<i64> {
        let n = self
            .rest
            .bytes()
            .take(max)
            .take_while(u8::is_ascii_digit)
            .count();
        if n < min {
            return None;
        }
        let (digits, rest) = self.rest.split_at(n);
        self.rest = rest;
        digits.parse().ok()
    }

    fn eat(&mut self, options: &[char]) -> bool {
        match self.rest.chars().next() {
            Some(c) if options.contains(&c) => {
                self.rest = &self.rest[c.len_utf8()..];
                true
            }
            _ => false,
        }
    }

    fn date(&mut self) -> Option<i32> {
        let year = self.digits(4, 4)?;
        self.eat(&['-']).then_some(())?;
        let month = self.digits(1, 2)?;
        self.eat(&['-']).then_some(())?;
        let day = self.digits(1, 2)?;
        civil::days_from_civil(year, month, day)
    }

    fn time(&mut self) -> Option<i64> {
        let hour = self.digits(1, 2)?;
        self.eat(&[':']).then_some(())?;
        let minute = self.digits(1, 2)?;
        self.eat(&[':']).then_some(())?;
        let second = self.digits(1, 2)?;
        let mut micros = 0;
        if self.eat(&['.']) {
            let n = self.rest.bytes().take_while(u8::is_ascii_digit).count();
            if n > 9 {
                return None;
            }
            let (digits, rest) = self.rest.split_at(n);
            self.rest = rest;
            // Digits beyond microseconds are cut.
            let mut padded = digits.to_string();
            padded.truncate(6);
            while padded.len() < 6 {
                padded.push('0');
            }
            micros = padded.parse().ok()?;
        }
        // A leap second reads as the next second.
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let micros = if second == 60 { 0 } else { micros };
        Some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
    }
}

fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace())
}

/// A DATE literal.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let mut c = Cursor { rest: trim(text) };
    let date = c.date()?;
    c.rest.is_empty().then_some(date)
}

/// A TIME literal.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let mut c = Cursor { rest: trim(text) };
    let time = c.time()?;
    (c.rest.is_empty() && time < civil::DAY_MICROS).then_some(time)
}

/// A DATETIME literal, `T` or a space between date and time.
pub(crate) fn parse_datetime(text: &str) -> Option<i64> {
    let mut c = Cursor { rest: trim(text) };
    let date = c.date()?;
    let time = if c.eat(&['T', 't', ' ']) {
        c.time()?
    } else {
        0
    };
    let micros = civil::join(date, time);
    (c.rest.is_empty() && micros <= civil::MAX_MICROS).then_some(micros)
}

/// A TIMESTAMP literal; one without a zone is local time of `default`.
pub(crate) fn parse_timestamp(text: &str, default: Zone) -> Option<i64> {
    let mut c = Cursor { rest: trim(text) };
    let date = c.date()?;
    let time = match c.rest.as_bytes() {
        [b'T' | b't', ..] | [b' ', b'0'..=b'9', ..] => {
            c.eat(&['T', 't', ' ']);
            c.time()?
        }
        _ => 0,
    };
    let zone = match c.rest {
        "" => default,
        "Z" | "z" => Zone::UTC,
        rest => match rest.strip_prefix(' ') {
            Some(name) => Zone::parse_opt(name)?,
            None => Zone::Fixed(civil::parse_offset(rest)?),
        },
    };
    let micros = zone.to_instant(civil::join(date, time));
    (civil::MIN_MICROS..=civil::MAX_MICROS)
        .contains(&micros)
        .then_some(micros)
}

/// An INTERVAL in its canonical form `[-]Y-M [-]D [-]H:M:S[.F]`.
pub(crate) fn interval_text(interval: Interval) -> String {
    let sign = |negative: bool| if negative { "-" } else { "" };
    let months = interval.months.abs();
    let nanos = interval.nanos.unsigned_abs();
    let micros = (nanos / 1000) as u64;
    let seconds = micros / 1_000_000;
    let fraction = match micros % 1_000_000 {
        0 => String::new(),
        m if m % 1000 == 0 => format!(".{:03}", m / 1000),
        m => format!(".{m:06}"),
    };
    format!(
        "{}{}-{} {} {}{}:{}:{}{fraction}",
        sign(interval.months < 0),
        months / 12,
        months % 12,
        interval.days,
        sign(interval.nanos < 0),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles() {
        assert_eq!(float_text(1.0), "1");
        assert_eq!(float_text(0.1), "0.1");
        assert_eq!(float_text(1e20), "1e+20");
        assert_eq!(float_text(1.0 / 3.0), "0.33333333333333331");
        assert_eq!(float_text(123456789012345680.0), "1.2345678901234568e+17");
        assert_eq!(float_text(-2.5e-7), "-2.5e-07");
        assert_eq!(float_text(f64::NEG_INFINITY), "-inf");
        assert_eq!(parse_float("-Infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_float(" 1.5e3 "), Some(1500.0));
        assert_eq!(parse_float("1e999"), None);
        assert_eq!(parse_float("-0x10"), Some(-16.0));
        assert_eq!(parse_float("0x+1"), None);
        assert_eq!(parse_float("abc"), None);
    }

    #[test]
    fn integers() {
        assert_eq!(parse_int("-0x1F"), Some(-31));
        assert_eq!(parse_int("0x0"), Some(0));
        assert_eq!(parse_int(" 7 "), Some(7));
        assert_eq!(parse_int("+5"), Some(5));
        assert_eq!(parse_int("-9223372036854775808"), Some(i64::MIN));
        for bad in ["1e3", "1.5", "", "+", "0x", "9223372036854775808", "- 1"] {
            assert_eq!(parse_int(bad), None, "{bad}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(
            parse_date("2024-2-9").map(date_text).as_deref(),
            Some("2024-02-09")
        );
        assert_eq!(parse_date("not-a-date"), None);
        assert_eq!(parse_date("2024-02-30"), None);
        assert_eq!(
            parse_time("1:2:3.5").map(time_text).as_deref(),
            Some("01:02:03.500")
        );
        let t = |s| parse_timestamp(s, Zone::UTC).map(|t| timestamp_text(t, Zone::UTC));
        assert_eq!(t("2024-01-02").as_deref(), Some("2024-01-02 00:00:00+00"));
        assert_eq!(
            t("2024-01-02T03:04:05Z").as_deref(),
            Some("2024-01-02 03:04:05+00")
        );
        assert_eq!(
            t("2024-01-02 03:04:05.123456-08:00").as_deref(),
            Some("2024-01-02 11:04:05.123456+00")
        );
        assert_eq!(
            t("2024-07-02 03:04:05 America/New_York").as_deref(),
            Some("2024-07-02 07:04:05+00")
        );
        assert_eq!(
            t("2024-01-02 +01").as_deref(),
            Some("2024-01-01 23:00:00+00")
        );
        assert_eq!(t("2024-01-02 25:00:00"), None);
        assert_eq!(
            parse_datetime("9999-12-31T23:59:59.999999")
                .map(|t| datetime_text(t, ' '))
                .as_deref(),
            Some("9999-12-31 23:59:59.999999")
        );
    }
}
