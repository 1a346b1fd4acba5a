//! How the values of options are written: switches, numbers, durations,
//! sizes, instants, lists and maps.
//!
//! Each parser returns `None` for what it does not understand; the registry
//! knows what to say then.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

pub(super) fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// A whole number; `_` and `,` may group its digits.
pub(super) fn count(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// A whole number with its sign; `_` and `,` may group its digits.
pub(super) fn integer(text: &str) -> Option<i64> {
    let digits: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    digits.parse().ok()
}

/// `500 ms`, `10 s`, `2 min`, `1 h`, `1.5h`. A number alone has no meaning.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let seconds = match unit.as_str() {
        "ms" | "millis" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    // Rounding to a whole nanosecond undoes what binary fractions do to `0.1 s`.
    Duration::try_from_secs_f64((number * seconds * 1e9).round() / 1e9).ok()
}

/// `512 KiB`, `16 MiB`, `10 GB`, or bytes without a unit.
pub(super) fn size(text: &str) -> Option<u64> {
    if let Some(bytes) = count(text) {
        return Some(bytes);
    }
    let (number, unit) = number_and_unit(text)?;
    let factor: u64 = match unit.as_str() {
        "b" | "byte" | "bytes" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    #[expect(clippy::cast_precision_loss, reason = "factors are far below 2^53")]
    let bytes = number * factor as f64;
    if bytes.fract() != 0.0 || bytes >= 9.0e18 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative and below 2^63, as just checked"
    )]
    Some(bytes as u64)
}

/// A decimal number that is not negative, and the lower-cased letters after it.
fn number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let unit = unit.trim().to_ascii_lowercase();
    Some((number.parse().ok()?, unit))
}

/// A number between 0 and 100, with or without a percent sign.
pub(super) fn percentage(text: &str) -> Option<f64> {
    let number: f64 = text.trim_end_matches('%').trim_end().parse().ok()?;
    (0.0..=100.0).contains(&number).then_some(number)
}

/// An ISO-8601 instant: a date, a date and time, either with an offset or in UTC.
pub(super) fn instant(text: &str) -> Option<DateTime<Utc>> {
    let text = text.trim().trim_end_matches("UTC").trim_end();
    // RFC 3339 wants a `T`, and no blank before the offset.
    let mut strict = text.replacen(' ', "T", usize::from(!text.contains(['T', 't'])));
    strict.retain(|c| c != ' ');
    if let Ok(instant) = DateTime::parse_from_rfc3339(&strict) {
        return Some(instant.with_timezone(&Utc));
    }
    if let Ok(civil) = strict.parse::<NaiveDateTime>() {
        return Some(civil.and_utc());
    }
    let date: NaiveDate = strict.parse().ok()?;
    Some(date.and_hms_opt(0, 0, 0)?.and_utc())
}

/// The parts between `,` or `;`, without blanks around them and without empty
/// ones.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split([',', ';'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_string)
        .collect()
}

/// A list of UUIDs, in lower case and in order; `None` when there is none, a part is no
/// UUID or one came before.
pub(super) fn uuids(text: &str) -> Option<Vec<String>> {
    let mut known: Vec<String> = Vec::new();
    for part in list(text) {
        let uuid = part.to_ascii_lowercase();
        let lengths = uuid.split('-').map(str::len);
        let is_uuid = lengths.eq([8, 4, 4, 4, 12])
            && uuid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
        if !is_uuid || known.contains(&uuid) {
            return None;
        }
        known.push(uuid);
    }
    (!known.is_empty()).then_some(known)
}

/// A list of `key=value`, in order; `None` when a part has no `=`, an empty
/// key, or a key that came before.
pub(super) fn map(text: &str) -> Option<Vec<(String, String)>> {
    let mut entries: Vec<(String, String)> = Vec::new();
    for part in list(text) {
        let (key, value) = part.split_once('=')?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || entries.iter().any(|(seen, _)| seen == key) {
            return None;
        }
        entries.push((key.to_string(), value.to_string()));
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches() {
        for text in ["true", "TRUE", "on", "1", "yes"] {
            assert_eq!(switch(text), Some(true), "{text}");
        }
        for text in ["false", "Off", "0", "no"] {
            assert_eq!(switch(text), Some(false), "{text}");
        }
        assert_eq!(switch("maybe"), None);
        assert_eq!(switch(""), None);
    }

    #[test]
    fn counts() {
        assert_eq!(count("10,000"), Some(10_000));
        assert_eq!(count("1_000"), Some(1_000));
        assert_eq!(count("0"), Some(0));
        for text in ["", "-1", "1.5", "ten", "99999999999999999999999", "+3"] {
            assert_eq!(count(text), None, "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, milliseconds) in [
            ("500 ms", 500),
            ("10 s", 10_000),
            ("0.1 s", 100),
            ("2 min", 120_000),
            ("1 h", 3_600_000),
            ("1.5h", 5_400_000),
            ("1 day", 86_400_000),
            ("0 s", 0),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "10",
            "s",
            "-1 s",
            "10 parsecs",
            "1..5 s",
            "1e400 h",
            "inf s",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("512 KiB", 524_288),
            ("16MiB", 16_777_216),
            ("1.5 kB", 1_500),
            ("10 GB", 10_000_000_000),
            ("1 TiB", 1_099_511_627_776),
            ("1,024", 1_024),
            ("7", 7),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "KiB", "-1", "1 furlong", "0.3 b", "99999999999 TiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn percentages() {
        assert_eq!(percentage("12.5"), Some(12.5));
        assert_eq!(percentage("100 %"), Some(100.0));
        for text in ["101", "-1", "NaN", "x"] {
            assert_eq!(percentage(text), None, "{text}");
        }
    }

    #[test]
    fn instants() {
        let noon = "2024-05-01T12:00:00Z".parse::<DateTime<Utc>>().unwrap();
        for text in [
            "2024-05-01T12:00:00Z",
            "2024-05-01 12:00:00Z",
            "2024-05-01 12:00:00",
            "2024-05-01T12:00:00.000000",
            "2024-05-01 12:00:00 UTC",
            "2024-05-01T14:00:00+02:00",
            "2024-05-01 05:00:00 -07:00",
        ] {
            assert_eq!(instant(text), Some(noon), "{text}");
        }
        assert_eq!(
            instant("2024-05-01").map(|t| t.to_rfc3339()),
            Some("2024-05-01T00:00:00+00:00".into())
        );
        for text in ["", "now", "2024-13-01", "12:00", "1714564800"] {
            assert_eq!(instant(text), None, "{text}");
        }
    }

    #[test]
    fn lists_of_uuids() {
        let (one, other) = (
            "24bc7850-2c16-11e6-a073-0242ac110002",
            "3e11fa47-71ca-11e1-9e33-c80aa9429562",
        );
        let both = format!("{}, {other};", one.to_uppercase());
        assert_eq!(uuids(&both), Some(vec![one.into(), other.into()]));
        let twice = format!("{one},{}", one.to_uppercase());
        for text in ["", ",", "x", "24bc7850-2c16-11e6-a073", twice.as_str()] {
            assert_eq!(uuids(text), None, "{text}");
        }
    }

    #[test]
    fn lists_and_maps() {
        assert_eq!(list(" a, b;c ,,"), ["a", "b", "c"]);
        assert!(list("  ").is_empty());
        assert_eq!(
            map("team=data; cost = x=y"),
            Some(vec![
                ("team".into(), "data".into()),
                ("cost".into(), "x=y".into())
            ])
        );
        assert_eq!(map(""), Some(vec![]));
        for text in ["a", "=x", "a=1,a=2"] {
            assert_eq!(map(text), None, "{text}");
        }
    }
}
