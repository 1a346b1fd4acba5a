//! CAST … FORMAT: dates, times and bytes by format elements.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::civil::{self, Zone};
use super::types::SqlType;
use super::value::{Answer, Value, fail};
use crate::error::{Result, ServiceError};

const DAYS: [&str; 7] = [
    "SUNDAY",
    "MONDAY",
    "TUESDAY",
    "WEDNESDAY",
    "THURSDAY",
    "FRIDAY",
    "SATURDAY",
];
const MONTHS: [&str; 12] = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];
/// Longer elements before those that they begin with.
const ELEMENTS: [&str; 34] = [
    "YYYY", "YYY", "YY", "Y", "RRRR", "RR", "MONTH", "MON", "MM", "MI", "DAY", "DDD", "DD", "DY",
    "D", "HH24", "HH12", "HH", "SSSSS", "SS", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FF7",
    "FF8", "FF9", "A.M.", "P.M.", "TZH", "TZM", "AM",
];

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// An element in upper case, and as it was written.
    Element(&'static str, String),
    Literal(char),
}

fn tokens(format: &str) -> Result<Vec<Token>> {
    let mut out = Vec::new();
    let mut rest = format;
    while let Some(c) = rest.chars().next() {
        let found = ELEMENTS.iter().chain(&["PM"]).find(|e| {
            rest.get(..e.len())
                .is_some_and(|r| r.eq_ignore_ascii_case(e))
        });
        if let Some(element) = found {
            out.push(Token::Element(element, rest[..element.len()].to_string()));
            rest = &rest[element.len()..];
        } else if c == '"' {
            let Some(end) = rest[1..].find('"') else {
                return fail(format!("Unclosed quoted text in the format '{format}'"));
            };
            out.extend(rest[1..=end].chars().map(Token::Literal));
            rest = &rest[end + 2..];
        } else if matches!(c, '-' | '.' | '/' | ',' | '\'' | ';' | ':' | ' ') {
            out.push(Token::Literal(c));
            rest = &rest[1..];
        } else {
            return fail(format!("Cannot find matched format element at '{rest}'"));
        }
    }
    Ok(out)
}

/// The case of a name follows that of the element: `MON`, `Mon` or `mon`.
fn in_case(name: &str, written: &str) -> String {
    let mut letters = written.chars().filter(char::is_ascii_alphabetic);
    let (first, second) = (letters.next(), letters.next());
    match (first, second) {
        (Some(a), Some(b)) if a.is_ascii_uppercase() && b.is_ascii_lowercase() => {
            name[..1].to_string() + &name[1..].to_lowercase()
        }
        (Some(a), _) if a.is_ascii_lowercase() => name.to_lowercase(),
        _ => name.to_string(),
    }
}

fn needs(element: &str) -> (bool, bool) {
    let date = matches!(element.as_bytes()[0], b'Y' | b'R' | b'D')
        || matches!(element, "MM" | "MON" | "MONTH");
    let zone = element.starts_with("TZ");
    (date, !date && !zone)
}

fn write(value: &Value<'_>, from: &SqlType, format: &str, zone: Zone) -> Answer {
    let (local, offset) = match value {
        Value::Date(d) => (civil::join(*d, 0), None),
        Value::Time(t) => (*t, None),
        Value::Datetime(t) => (*t, None),
        other => {
            let t = other.timestamp()?;
            (zone.to_local(t), Some(zone.offset_at(t)))
        }
    };
    let (days, time) = civil::split(local);
    let (year, month, day) = civil::ymd(days);
    let seconds = time / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let year_day = i64::from(days) - civil::days_from_civil(year, 1, 1).map_or(0, i64::from) + 1;
    let mut out = String::new();
    for token in tokens(format)? {
        let (element, written) = match token {
            Token::Literal(c) => {
                out.push(c);
                continue;
            }
            Token::Element(e, w) => (e, w),
        };
        let (date, clock) = needs(element);
        let fits = match from {
            SqlType::Date => date,
            SqlType::Time => clock,
            SqlType::Datetime => date || clock,
            _ => true,
        };
        if !fits {
            return fail(format!(
                "{from} does not support the format element '{element}'"
            ));
        }
        let offset = offset.unwrap_or(0);
        out.push_str(&match element {
            "YYYY" | "RRRR" => format!("{year:04}"),
            "YYY" => format!("{:03}", year % 1000),
            "YY" | "RR" => format!("{:02}", year % 100),
            "Y" => format!("{}", year % 10),
            "MM" => format!("{month:02}"),
            "MON" => in_case(&MONTHS[(month - 1) as usize][..3], &written),
            "MONTH" => in_case(MONTHS[(month - 1) as usize], &written),
            "DDD" => format!("{year_day:03}"),
            "DD" => format!("{day:02}"),
            "D" => format!("{}", civil::weekday(days) + 1),
            "DAY" => in_case(DAYS[civil::weekday(days) as usize], &written),
            "DY" => in_case(&DAYS[civil::weekday(days) as usize][..3], &written),
            "HH24" => format!("{hour:02}"),
            "HH" | "HH12" => format!("{:02}", if hour % 12 == 0 { 12 } else { hour % 12 }),
            "MI" => format!("{minute:02}"),
            "SS" => format!("{second:02}"),
            "SSSSS" => format!("{seconds:05}"),
            "AM" | "PM" => in_case(if hour < 12 { "AM" } else { "PM" }, &written),
            "A.M." | "P.M." => in_case(if hour < 12 { "A.M." } else { "P.M." }, &written),
            "TZH" => format!(
                "{}{:02}",
                if offset < 0 { '-' } else { '+' },
                offset.abs() / 3600
            ),
            "TZM" => format!("{:02}", offset.abs() % 3600 / 60),
            fraction => {
                let digits = usize::from(fraction.as_bytes()[2] - b'0');
                format!("{:06}000", time % 1_000_000)[..digits].to_string()
            }
        });
    }
    Ok(Value::text(out))
}

struct Input<'a> {
    rest: &'a str,
}

impl Input<'_> {
    fn number(&mut self, max: usize) -> Option<i64> {
        let n = self
            .rest
            .bytes()
            .take(max)
            .take_while(u8::is_ascii_digit)
            .count();
        let v = self.rest.get(..n)?.parse().ok()?;
        self.rest = &self.rest[n..];
        Some(v)
    }

    fn name(&mut self, names: &[&str], length: Option<usize>) -> Option<i64> {
        for (i, name) in names.iter().enumerate() {
            let name = &name[..length.unwrap_or(name.len())];
            if self
                .rest
                .get(..name.len())
                .is_some_and(|r| r.eq_ignore_ascii_case(name))
            {
                self.rest = &self.rest[name.len()..];
                return Some(i as i64);
            }
        }
        None
    }
}

#[derive(Default)]
struct Parsed {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    half: Option<i64>,
    minute: i64,
    second: i64,
    of_day: Option<i64>,
    micros: i64,
    offset_sign: i64,
    offset: Option<i64>,
}

fn read_element(element: &str, input: &mut Input<'_>, p: &mut Parsed) -> Option<()> {
    match element {
        "YYYY" | "RRRR" => p.year = Some(input.number(4)?),
        "MM" => p.month = Some(input.number(2)?),
        "MON" => p.month = Some(input.name(&MONTHS, Some(3))? + 1),
        "MONTH" => p.month = Some(input.name(&MONTHS, None)? + 1),
        "DD" => p.day = Some(input.number(2)?),
        "DDD" => p.year_day = Some(input.number(3)?),
        "HH24" => p.hour = input.number(2).filter(|h| *h < 24)?,
        "HH" | "HH12" => p.hour = input.number(2).filter(|h| (1..=12).contains(h))? % 12,
        "MI" => p.minute = input.number(2).filter(|m| *m < 60)?,
        "SS" => p.second = input.number(2).filter(|s| *s < 60)?,
        "SSSSS" => p.of_day = Some(input.number(5).filter(|s| *s < 86_400)?),
        "AM" | "PM" => p.half = Some(input.name(&["AM", "PM"], None)?),
        "A.M." | "P.M." => p.half = Some(input.name(&["A.M.", "P.M."], None)?),
        "TZH" => {
            p.offset_sign = if input.rest.starts_with('-') { -1 } else { 1 };
            input.rest = input
                .rest
                .strip_prefix(['+', '-', ' '])
                .unwrap_or(input.rest);
            let hours = input.number(2).filter(|h| *h <= 14)?;
            p.offset = Some(p.offset.unwrap_or(0) + hours * 3600);
        }
        "TZM" => {
            let minutes = input.number(2).filter(|m| *m < 60)?;
            p.offset = Some(p.offset.unwrap_or(0) + minutes * 60);
        }
        fraction => {
            let digits = usize::from(fraction.as_bytes()[2] - b'0');
            let n = input
                .rest
                .bytes()
                .take(digits)
                .take_while(u8::is_ascii_digit)
                .count();
            let mut text = input.rest[..n].to_string();
            input.rest = &input.rest[n..];
            text.truncate(6);
            while text.len() < 6 {
                text.push('0');
            }
            p.micros = text.parse().ok()?;
        }
    }
    Some(())
}

fn read(text: &str, to: &SqlType, format: &str, zone: Zone) -> Answer {
    let tokens = tokens(format)?;
    for token in &tokens {
        if let Token::Element(element, _) = token {
            if matches!(*element, "YYY" | "YY" | "Y" | "RR" | "D" | "DAY" | "DY") {
                return Err(ServiceError::unsupported(format!(
                    "CAST of a STRING with the format element '{element}'"
                )));
            }
            let (date, clock) = needs(element);
            let fits = match to {
                SqlType::Date => date,
                SqlType::Time => clock,
                SqlType::Datetime => date || clock,
                _ => true,
            };
            if !fits {
                return fail(format!(
                    "{to} does not support the format element '{element}'"
                ));
            }
        }
    }
    let mut input = Input {
        rest: text.trim_start(),
    };
    let mut p = Parsed::default();
    let parsed = tokens.iter().try_for_each(|token| match token {
        Token::Literal(c) => {
            input.rest = input.rest.strip_prefix(*c)?;
            Some(())
        }
        Token::Element(element, _) => read_element(element, &mut input, &mut p),
    });
    let invalid = || {
        fail(format!(
            "Failed to parse input string \"{text}\" with format '{format}'"
        ))
    };
    if parsed.is_none() || !input.rest.trim_end().is_empty() {
        return invalid();
    }
    let clock = p.of_day.map_or(
        (p.hour + p.half.unwrap_or(0) * 12) * 3600 + p.minute * 60 + p.second,
        |s| s,
    ) * 1_000_000
        + p.micros;
    if *to == SqlType::Time {
        return Ok(Value::Time(clock));
    }
    // What the format leaves out would be taken from the current date.
    let days = match (p.year, p.month, p.year_day) {
        (Some(year), None, Some(n)) => civil::days_from_civil(year, 1, 1)
            .map(|d| d + n as i32 - 1)
            .filter(|d| n > 0 && civil::ymd(*d).0 == year),
        (Some(year), Some(month), _) => civil::days_from_civil(year, month, p.day.unwrap_or(1)),
        _ => {
            return Err(ServiceError::unsupported(format!(
                "CAST of a STRING as {to} with a format that has no year or no month"
            )));
        }
    };
    let Some(days) = days else {
        return invalid();
    };
    let local = civil::join(days, clock);
    let instant = match p.offset {
        Some(offset) => local - p.offset_sign * offset * 1_000_000,
        None => zone.to_instant(local),
    };
    match to {
        SqlType::Date => Ok(Value::Date(days)),
        SqlType::Datetime => Ok(Value::Datetime(local)),
        _ if (civil::MIN_MICROS..=civil::MAX_MICROS).contains(&instant) => {
            Ok(Value::Timestamp(instant))
        }
        _ => invalid(),
    }
}

fn encode(bytes: &[u8], format: &str) -> Answer {
    Ok(Value::text(match format.to_ascii_uppercase().as_str() {
        "HEX" | "BASE16" => bytes.iter().map(|b| format!("{b:02x}")).collect(),
        "BASE64" => STANDARD.encode(bytes),
        "BASE32" => super::hash::to_base32(bytes),
        "UTF8" | "UTF-8" => match std::str::from_utf8(bytes) {
            Ok(s) => s.to_string(),
            Err(_) => return fail("Invalid cast of bytes to UTF8 string"),
        },
        "ASCII" if bytes.is_ascii() => String::from_utf8_lossy(bytes).into_owned(),
        "ASCII" => return fail("Invalid ASCII value"),
        _ => {
            return Err(ServiceError::unsupported(format!(
                "CAST of BYTES with the format '{format}'"
            )));
        }
    }))
}

fn decode(text: &str, format: &str) -> Answer {
    match format.to_ascii_uppercase().as_str() {
        "HEX" | "BASE16" => super::hash::from_hex(text),
        "BASE64" => super::hash::from_base64(text),
        "BASE32" => super::hash::from_base32(text),
        "UTF8" | "UTF-8" => Ok(Value::binary(text.as_bytes())),
        "ASCII" if text.is_ascii() => Ok(Value::binary(text.as_bytes())),
        "ASCII" => fail("Invalid ASCII value"),
        _ => Err(ServiceError::unsupported(format!(
            "CAST as BYTES with the format '{format}'"
        ))),
    }
}

/// Converts one value under a FORMAT clause.
pub(crate) fn cast_with_format(
    value: &Value<'_>,
    from: &SqlType,
    to: &SqlType,
    format: &str,
    zone: Zone,
) -> Answer {
    use SqlType as T;
    match (from, to) {
        (T::Bytes, T::String) => encode(value.bytes()?, format),
        (T::String, T::Bytes) => decode(value.str()?, format),
        (T::Date | T::Time | T::Datetime | T::Timestamp, T::String) => {
            write(value, from, format, zone)
        }
        (T::String, T::Date | T::Time | T::Datetime | T::Timestamp) => {
            read(value.str()?, to, format, zone)
        }
        _ => Err(ServiceError::unsupported(format!(
            "CAST({from} AS {to} FORMAT …)"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    fn shown(value: &str, format: &str) -> String {
        let value = Value::Datetime(text::parse_datetime(value).unwrap());
        match cast_with_format(
            &value,
            &SqlType::Datetime,
            &SqlType::String,
            format,
            Zone::UTC,
        ) {
            Ok(v) => v.str().unwrap().to_string(),
            Err(e) => e.message,
        }
    }

    #[test]
    fn times_are_written() {
        assert_eq!(
            shown("2018-01-30 14:05:09.5", "YYYY-MM-DD HH24:MI:SS.FF3"),
            "2018-01-30 14:05:09.500"
        );
        assert_eq!(
            shown("2018-01-30 14:05:09", "DAY, DD MON Y HH12:MI PM"),
            "TUESDAY, 30 JAN 8 02:05 PM"
        );
        assert_eq!(
            shown("2018-01-30 00:00:10", "Mon \"of\" month DDD SSSSS"),
            "Jan of january 030 00010"
        );
        assert!(shown("2018-01-30", "TZH").contains("does not support"));
        assert!(shown("2018-01-30", "QQ").starts_with("Cannot find matched format element"));
    }

    #[test]
    fn times_are_read() {
        let r = |s: &str, to: SqlType, f: &str| read(s, &to, f, Zone::UTC);
        assert_eq!(
            r("18 Dec 2019", SqlType::Date, "DD MON YYYY").unwrap(),
            Value::Date(text::parse_date("2019-12-18").unwrap())
        );
        assert_eq!(
            r(
                "2020.06.03 00:00:53+0530",
                SqlType::Timestamp,
                "YYYY.MM.DD HH24:MI:SSTZHTZM"
            )
            .unwrap(),
            Value::Timestamp(
                text::parse_timestamp("2020-06-03 00:00:53+05:30", Zone::UTC).unwrap()
            )
        );
        assert_eq!(
            r("12:05 a.m.", SqlType::Time, "HH:MI A.M.").unwrap(),
            Value::Time(300_000_000)
        );
        assert!(r("2019-02-30", SqlType::Date, "YYYY-MM-DD").is_err());
        assert!(r("12", SqlType::Date, "DD").is_err());
    }

    #[test]
    fn bytes_and_text() {
        assert_eq!(encode(b"\x00\xff", "hex").unwrap(), Value::text("00ff"));
        assert_eq!(decode("00ff", "HEX").unwrap(), Value::binary(vec![0, 0xff]));
        assert!(encode(b"\xff", "ASCII").is_err());
        assert!(encode(b"", "BASE7").is_err());
    }
}
