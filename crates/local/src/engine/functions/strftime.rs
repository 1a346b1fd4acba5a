//! The format elements of FORMAT_* and PARSE_* functions of dates and times.

use super::civil::{self, Zone};
use super::value::fail;
use crate::error::{Result, ServiceError};

/// Which fields a value has, and so which elements may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fields {
    /// DATE.
    Date,
    /// TIME.
    Time,
    /// DATETIME.
    Datetime,
    /// TIMESTAMP.
    Timestamp,
}

impl Fields {
    fn name(self) -> &'static str {
        match self {
            Fields::Date => "DATE",
            Fields::Time => "TIME",
            Fields::Datetime => "DATETIME",
            Fields::Timestamp => "TIMESTAMP",
        }
    }

    fn allows(self, element: &str) -> bool {
        let date = matches!(
            element,
            "A" | "a"
                | "B"
                | "b"
                | "C"
                | "D"
                | "d"
                | "e"
                | "F"
                | "G"
                | "g"
                | "h"
                | "J"
                | "j"
                | "m"
                | "Q"
                | "U"
                | "u"
                | "V"
                | "W"
                | "w"
                | "x"
                | "Y"
                | "y"
                | "E4Y"
        );
        let clock = matches!(
            element,
            "H" | "I" | "k" | "l" | "M" | "P" | "p" | "R" | "r" | "S" | "T" | "X" | "E*S"
        ) || is_fraction(element);
        let both = matches!(element, "c" | "s");
        let zone = matches!(element, "Z" | "z" | "Ez");
        let text = matches!(element, "%" | "n" | "t");
        match self {
            Fields::Date => date || text,
            Fields::Time => clock || text,
            Fields::Datetime => date || clock || both || text,
            Fields::Timestamp => date || clock || both || zone || text,
        }
    }

    fn check(self, element: &str) -> Result<()> {
        if self.allows(element) {
            Ok(())
        } else {
            Err(ServiceError::unsupported(format!(
                "The format element %{element} for a {}",
                self.name()
            )))
        }
    }
}

fn is_fraction(element: &str) -> bool {
    element
        .strip_prefix('E')
        .and_then(|e| e.strip_suffix('S'))
        .is_some_and(|n| n.len() == 1 && n.bytes().all(|b| b.is_ascii_digit()))
}

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A format cut into literal text and elements.
fn elements(format: &str) -> Vec<Result<String, String>> {
    let chars: Vec<char> = format.chars().collect();
    let mut out = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        if chars[i] != '%' || i + 1 >= chars.len() {
            out.push(Err(chars[i].to_string()));
            i += 1;
            continue;
        }
        let (element, used): (String, usize) = match chars[i + 1] {
            'E' => match (chars.get(i + 2), chars.get(i + 3)) {
                (Some('z'), _) => ("Ez".into(), 3),
                (Some('4'), Some('Y')) => ("E4Y".into(), 4),
                (Some(c), Some('S')) if *c == '*' || c.is_ascii_digit() => (format!("E{c}S"), 4),
                // E modifies other elements without effect.
                (Some(c), _) if matches!(c, 'c' | 'C' | 'x' | 'X' | 'y' | 'Y') => {
                    (c.to_string(), 3)
                }
                _ => ("E".into(), 2),
            },
            'O' => match chars.get(i + 2) {
                Some(c)
                    if matches!(
                        c,
                        'd' | 'e' | 'H' | 'I' | 'm' | 'M' | 'S' | 'u' | 'U' | 'V' | 'w' | 'W' | 'y'
                    ) =>
                {
                    (c.to_string(), 3)
                }
                _ => ("O".into(), 2),
            },
            c => (c.to_string(), 2),
        };
        out.push(Ok(element));
        i += used;
    }
    out
}

/// Formats local microseconds since 1970-01-01; `zone` is the zone and instant of
/// a TIMESTAMP.
pub(crate) fn format(
    pattern: &str,
    local: i64,
    zone: Option<(Zone, i64)>,
    fields: Fields,
) -> Result<String> {
    let mut out = String::new();
    for element in elements(pattern) {
        match element {
            Err(text) => out.push_str(&text),
            Ok(element) => {
                fields.check(&element)?;
                format_element(&element, local, zone, &mut out);
            }
        }
    }
    Ok(out)
}

fn format_element(element: &str, local: i64, zone: Option<(Zone, i64)>, out: &mut String) {
    let (days, time) = civil::split(local);
    let (year, month, day) = civil::ymd(days);
    let weekday = civil::weekday(days);
    let year_day = i64::from(days) - civil::days_from_civil(year, 1, 1).map_or(0, i64::from);
    let seconds = time / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let micros = time % 1_000_000;
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let offset = zone.map_or(0, |(z, t)| z.offset_at(t));
    let nested = |pattern: &[&str]| {
        let mut text = String::new();
        for piece in pattern {
            match piece.strip_prefix('%') {
                Some(e) => format_element(e, local, zone, &mut text),
                None => text.push_str(piece),
            }
        }
        text
    };
    let text = match element {
        "A" => DAYS[weekday as usize].to_string(),
        "a" => DAYS[weekday as usize][..3].to_string(),
        "B" => MONTHS[(month - 1) as usize].to_string(),
        "b" | "h" => MONTHS[(month - 1) as usize][..3].to_string(),
        "C" => format!("{:02}", year / 100),
        "c" => nested(&["%a", " ", "%b", " ", "%e", " ", "%T", " ", "%Y"]),
        "D" | "x" => nested(&["%m", "/", "%d", "/", "%y"]),
        "d" => format!("{day:02}"),
        "e" => format!("{day:2}"),
        "F" => nested(&["%Y", "-", "%m", "-", "%d"]),
        "G" => civil::iso_week(days).0.to_string(),
        "g" => format!("{:02}", civil::iso_week(days).0.rem_euclid(100)),
        "H" => format!("{hour:02}"),
        "I" => format!("{twelve:02}"),
        "J" => {
            let (iso_year, _) = civil::iso_week(days);
            let start = civil::days_from_civil(iso_year.max(1), 1, 4)
                .map_or(0, |d| i64::from(d) - (civil::weekday(d) - 1).rem_euclid(7));
            format!("{:03}", i64::from(days) - start + 1)
        }
        "j" => format!("{:03}", year_day + 1),
        "k" => format!("{hour:2}"),
        "l" => format!("{twelve:2}"),
        "M" => format!("{minute:02}"),
        "m" => format!("{month:02}"),
        "n" => "\n".to_string(),
        "P" => if hour < 12 { "am" } else { "pm" }.to_string(),
        "p" => if hour < 12 { "AM" } else { "PM" }.to_string(),
        "Q" => ((month + 2) / 3).to_string(),
        "R" => nested(&["%H", ":", "%M"]),
        "r" => nested(&["%I", ":", "%M", ":", "%S", " ", "%p"]),
        "S" => format!("{second:02}"),
        "s" => {
            let instant = zone.map_or(local, |(_, t)| t);
            instant.div_euclid(1_000_000).to_string()
        }
        "T" | "X" => nested(&["%H", ":", "%M", ":", "%S"]),
        "t" => "\t".to_string(),
        "U" => format!("{:02}", (year_day + 7 - weekday) / 7),
        "u" => (if weekday == 0 { 7 } else { weekday }).to_string(),
        "V" => format!("{:02}", civil::iso_week(days).1),
        "W" => format!("{:02}", (year_day + 7 - (weekday + 6) % 7) / 7),
        "w" => weekday.to_string(),
        "Y" => year.to_string(),
        "E4Y" => format!("{year:04}"),
        "y" => format!("{:02}", year.rem_euclid(100)),
        "Z" => zone_name(offset),
        "z" => numeric_offset(offset, ""),
        "Ez" => numeric_offset(offset, ":"),
        "%" => "%".to_string(),
        "E*S" => {
            let fraction = format!("{micros:06}");
            let fraction = fraction.trim_end_matches('0');
            if fraction.is_empty() {
                format!("{second:02}")
            } else {
                format!("{second:02}.{fraction}")
            }
        }
        other => match other.as_bytes() {
            [b'E', n @ b'0'..=b'9', b'S'] => {
                let digits = usize::from(n - b'0');
                let fraction = format!("{micros:06}000");
                if digits == 0 {
                    format!("{second:02}")
                } else {
                    format!("{second:02}.{}", &fraction[..digits])
                }
            }
            _ => format!("%{other}"),
        },
    };
    out.push_str(&text);
}

/// `UTC`, `UTC-7`, `UTC+5:30`.
fn zone_name(offset: i64) -> String {
    if offset == 0 {
        return "UTC".into();
    }
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 3600, offset.abs() % 3600 / 60);
    if minutes == 0 {
        format!("UTC{sign}{hours}")
    } else {
        format!("UTC{sign}{hours}:{minutes:02}")
    }
}

fn numeric_offset(offset: i64, separator: &str) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let s = offset.abs();
    format!("{sign}{:02}{separator}{:02}", s / 3600, s % 3600 / 60)
}

#[derive(Debug, Default)]
struct Parsed {
    year: Option<i64>,
    century: Option<i64>,
    short_year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    twelve: bool,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    micros: i64,
    epoch: Option<i64>,
    offset: Option<i64>,
    zone: Option<Zone>,
}

struct Input<'a> {
    rest: &'a str,
}

impl Input<'_> {
    fn number(&mut self, max: usize, low: i64, high: i64) -> Option<i64> {
        let n = self
            .rest
            .bytes()
            .take(max)
            .take_while(u8::is_ascii_digit)
            .count();
        let value = self.rest.get(..n)?.parse().ok()?;
        self.rest = &self.rest[n..];
        (low..=high).contains(&value).then_some(value)
    }

    fn signed(&mut self, max: usize) -> Option<i64> {
        let negative = self.rest.starts_with('-');
        if negative || self.rest.starts_with('+') {
            self.rest = &self.rest[1..];
        }
        let v = self.number(max, 0, i64::MAX)?;
        Some(if negative { -v } else { v })
    }

    fn word(&mut self, words: &[&str]) -> Option<usize> {
        // The full word before its abbreviation.
        for (i, word) in words.iter().enumerate() {
            for form in [word, &&word[..3.min(word.len())]] {
                if self
                    .rest
                    .get(..form.len())
                    .is_some_and(|r| r.eq_ignore_ascii_case(form))
                {
                    self.rest = &self.rest[form.len()..];
                    return Some(i);
                }
            }
        }
        None
    }

    fn spaces(&mut self) {
        self.rest = self
            .rest
            .trim_start_matches(|c: char| c.is_ascii_whitespace());
    }

    fn literal(&mut self, c: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }

    fn fraction(&mut self, max: usize) -> Option<i64> {
        let n = self
            .rest
            .bytes()
            .take(max)
            .take_while(u8::is_ascii_digit)
            .count();
        let mut digits = self.rest[..n].to_string();
        self.rest = &self.rest[n..];
        digits.truncate(6);
        while digits.len() < 6 {
            digits.push('0');
        }
        digits.parse().ok()
    }

    fn offset(&mut self) -> Option<i64> {
        if matches!(self.rest.as_bytes().first(), Some(b'Z' | b'z')) {
            self.rest = &self.rest[1..];
            return Some(0);
        }
        let end = self
            .rest
            .char_indices()
            .skip(1)
            .find(|(_, c)| !c.is_ascii_digit() && *c != ':')
            .map_or(self.rest.len(), |(i, _)| i);
        let offset = civil::parse_offset(self.rest.get(..end)?)?;
        self.rest = &self.rest[end..];
        Some(offset)
    }
}

/// Parses text: local microseconds, or an instant for [`Fields::Timestamp`].
/// Fields that the format lacks are those of 1970-01-01 00:00:00.
pub(crate) fn parse(pattern: &str, text: &str, zone: Zone, fields: Fields) -> Result<i64> {
    let elements = elements(pattern);
    for element in elements.iter().flatten() {
        fields.check(element)?;
        if matches!(element.as_str(), "Q" | "J" | "U" | "V" | "W" | "G" | "g") {
            return Err(ServiceError::unsupported(format!(
                "Parsing the format element %{element}"
            )));
        }
    }
    match parse_fields(&elements, text, zone, fields) {
        Some(v) => Ok(v),
        None => fail(format!("Failed to parse input string \"{text}\"")),
    }
}

fn parse_fields(
    elements: &[Result<String, String>],
    text: &str,
    zone: Zone,
    fields: Fields,
) -> Option<i64> {
    let mut input = Input { rest: text };
    input.spaces();
    let mut p = Parsed::default();
    for element in elements {
        match element {
            Err(literal) => {
                let c = literal.chars().next()?;
                if c.is_ascii_whitespace() {
                    input.spaces();
                } else {
                    input.literal(c)?;
                }
            }
            Ok(element) => parse_element(element, &mut input, &mut p)?,
        }
    }
    input.spaces();
    if !input.rest.is_empty() {
        return None;
    }
    if let Some(epoch) = p.epoch {
        let micros = epoch.checked_mul(1_000_000)?;
        return Some(match fields {
            Fields::Timestamp => micros,
            _ => zone.to_local(micros),
        });
    }
    let hour = match (p.twelve, p.afternoon) {
        (true, Some(true)) => p.hour % 12 + 12,
        (true, _) => p.hour % 12,
        _ => p.hour,
    };
    let year = match (p.year, p.century, p.short_year) {
        (Some(y), _, _) => y,
        (None, Some(c), short) => c * 100 + short.unwrap_or(0),
        (None, None, Some(y)) => y + if y < 69 { 2000 } else { 1900 },
        (None, None, None) => 1970,
    };
    let days = match p.year_day {
        Some(n) if p.month.is_none() => {
            let start = civil::days_from_civil(year, 1, 1)?;
            let length = if civil::month_length(year, 2) == 29 {
                366
            } else {
                365
            };
            (n <= length).then(|| start + n as i32 - 1)?
        }
        _ => civil::days_from_civil(year, p.month.unwrap_or(1), p.day.unwrap_or(1))?,
    };
    // A leap second is the next second.
    let micros = if p.second == 60 { 0 } else { p.micros };
    let clock = ((hour * 60 + p.minute) * 60 + p.second) * 1_000_000 + micros;
    let local = civil::join(days, clock);
    let result = match (fields, p.offset, p.zone) {
        (Fields::Timestamp, Some(offset), _) => local - offset * 1_000_000,
        (Fields::Timestamp, None, named) => named.unwrap_or(zone).to_instant(local),
        _ => local,
    };
    (civil::MIN_MICROS..=civil::MAX_MICROS)
        .contains(&result)
        .then_some(result)
}

fn parse_element(element: &str, input: &mut Input<'_>, p: &mut Parsed) -> Option<()> {
    match element {
        "A" | "a" => {
            input.word(&DAYS)?;
        }
        "B" | "b" | "h" => p.month = Some(input.word(&MONTHS)? as i64 + 1),
        "C" => p.century = Some(input.number(2, 0, 99)?),
        "d" | "e" => {
            input.spaces();
            p.day = Some(input.number(2, 1, 31)?);
        }
        "m" => p.month = Some(input.number(2, 1, 12)?),
        "Y" | "E4Y" => p.year = Some(input.number(4, 1, 9999)?),
        "y" => p.short_year = Some(input.number(2, 0, 99)?),
        "j" => p.year_day = Some(input.number(3, 1, 366)?),
        "u" => {
            input.number(1, 1, 7)?;
        }
        "w" => {
            input.number(1, 0, 6)?;
        }
        "H" | "k" => {
            input.spaces();
            p.hour = input.number(2, 0, 23)?;
            p.twelve = false;
        }
        "I" | "l" => {
            input.spaces();
            p.hour = input.number(2, 1, 12)?;
            p.twelve = true;
        }
        "M" => p.minute = input.number(2, 0, 59)?,
        "S" => p.second = input.number(2, 0, 60)?,
        "E*S" => {
            p.second = input.number(2, 0, 60)?;
            if input.literal('.').is_some() {
                p.micros = input.fraction(9)?;
            }
        }
        "p" | "P" => p.afternoon = Some(input.word(&["AM", "PM"])? == 1),
        "s" => p.epoch = Some(input.signed(18)?),
        "z" | "Ez" => p.offset = Some(input.offset()?),
        "Z" => {
            let end = input
                .rest
                .find(|c: char| c.is_ascii_whitespace())
                .unwrap_or(input.rest.len());
            p.zone = Some(Zone::parse_opt(&input.rest[..end])?);
            input.rest = &input.rest[end..];
        }
        "%" => input.literal('%')?,
        "n" | "t" => input.spaces(),
        "D" | "x" => sequence(&["m", "/", "d", "/", "y"], input, p)?,
        "F" => sequence(&["Y", "-", "m", "-", "d"], input, p)?,
        "T" | "X" => sequence(&["H", ":", "M", ":", "S"], input, p)?,
        "R" => sequence(&["H", ":", "M"], input, p)?,
        "r" => sequence(&["I", ":", "M", ":", "S", " ", "p"], input, p)?,
        "c" => sequence(&["a", " ", "b", " ", "e", " ", "T", " ", "Y"], input, p)?,
        other => match other.as_bytes() {
            [b'E', n @ b'0'..=b'9', b'S'] => {
                p.second = input.number(2, 0, 60)?;
                if *n > b'0' && input.literal('.').is_some() {
                    p.micros = input.fraction(usize::from(n - b'0'))?;
                }
            }
            _ => return None,
        },
    }
    Some(())
}

fn sequence(pieces: &[&str], input: &mut Input<'_>, p: &mut Parsed) -> Option<()> {
    for piece in pieces {
        match *piece {
            " " => input.spaces(),
            "/" | "-" | ":" => input.literal(piece.chars().next()?)?,
            element => parse_element(element, input, p)?,
        }
    }
    Some(())
}

#[cfg(test)]
#[path = "strftime_tests.rs"]
mod tests;
