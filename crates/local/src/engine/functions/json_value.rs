//! JSON documents: parsing, printing and paths.
//!
//! Numbers keep their text, and members their order, as functions over STRING
//! need; a value of type JSON is normalized: members sorted by name, the last of
//! equal names kept out, numbers as INT64, UINT64 or FLOAT64 hold them.

use std::collections::BTreeMap;

use super::text;
use super::value::fail;
use crate::error::{Result, ServiceError};

/// A JSON document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number's text.
    Number(String),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// Members in order.
    Object(Vec<(String, Json)>),
}

const MAX_DEPTH: usize = 500;

struct Parser<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Json {
    /// Parses a whole text.
    pub(crate) fn parse(text: &str) -> Option<Json> {
        let mut p = Parser {
            bytes: text.as_bytes(),
            text,
            at: 0,
        };
        let value = p.value(0)?;
        p.spaces();
        (p.at == p.bytes.len()).then_some(value)
    }

    /// The document of a value of type JSON.
    pub(crate) fn stored(text: &str) -> Result<Json> {
        Json::parse(text).ok_or_else(|| ServiceError::internal("a JSON value is not JSON"))
    }

    /// Compact text.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None);
        out
    }

    /// Text on lines of their own, indented by two spaces.
    pub(crate) fn to_pretty_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out
    }

    fn write(&self, out: &mut String, indent: Option<usize>) {
        let line = |out: &mut String, depth: usize| {
            if indent.is_some() {
                out.push('\n');
                out.push_str(&"  ".repeat(depth));
            }
        };
        let depth = indent.unwrap_or(0);
        let inner = indent.map(|d| d + 1);
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Json::Number(n) => out.push_str(n),
            Json::String(s) => write_string(s, out),
            Json::Array(items) if items.is_empty() => out.push_str("[]"),
            Json::Object(members) if members.is_empty() => out.push_str("{}"),
            Json::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    line(out, depth + 1);
                    item.write(out, inner);
                }
                line(out, depth);
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    line(out, depth + 1);
                    write_string(name, out);
                    out.push(':');
                    if indent.is_some() {
                        out.push(' ');
                    }
                    value.write(out, inner);
                }
                line(out, depth);
                out.push('}');
            }
        }
    }

    /// The form that a value of type JSON has. `round` lets numbers lose digits,
    /// which otherwise is an error.
    pub(crate) fn normalized(self, wide: WideNumbers) -> Result<Json> {
        Ok(match self {
            Json::Number(n) => Json::Number(normal_number(&n, wide)?),
            Json::Array(items) => Json::Array(
                items
                    .into_iter()
                    .map(|i| i.normalized(wide))
                    .collect::<Result<_>>()?,
            ),
            Json::Object(members) => {
                let mut sorted = BTreeMap::new();
                for (name, value) in members {
                    // Of members with one name the first counts.
                    let value = value.normalized(wide)?;
                    sorted.entry(name).or_insert(value);
                }
                Json::Object(sorted.into_iter().collect())
            }
            other => other,
        })
    }

    /// The text of a scalar: strings without quotes, `None` for null, arrays and
    /// objects.
    pub(crate) fn scalar_text(&self) -> Option<String> {
        match self {
            Json::Bool(b) => Some(b.to_string()),
            Json::Number(n) => Some(n.clone()),
            Json::String(s) => Some(s.clone()),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// What a path leads to.
    pub(crate) fn at(&self, path: &[Step]) -> Option<&Json> {
        let mut here = self;
        for step in path {
            here = match (step, here) {
                (Step::Member(name), Json::Object(members)) => {
                    &members.iter().find(|(n, _)| n == name)?.1
                }
                (Step::Element(i), Json::Array(items)) => items.get(*i)?,
                _ => return None,
            };
        }
        Some(here)
    }
}

/// What happens to numbers that a JSON value cannot hold exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WideNumbers {
    /// An error.
    Exact,
    /// The nearest double.
    Round,
}

fn normal_number(n: &str, wide: WideNumbers) -> Result<String> {
    if n.parse::<i64>().is_ok() || n.parse::<u64>().is_ok() {
        return Ok(if n == "-0" { "0".into() } else { n.to_string() });
    }
    let value: f64 = n.parse().unwrap_or(f64::NAN);
    if !value.is_finite() {
        return fail(format!("Input number: {n} is out of range of FLOAT64"));
    }
    let printed = float_json(value);
    if wide == WideNumbers::Exact && digits_of(&printed) != digits_of(n) {
        return fail(format!(
            "Input number: {n} cannot round-trip through string representation"
        ));
    }
    Ok(printed)
}

/// A number's significant digits and the power of ten of the last one.
fn digits_of(n: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = n.split_once(['e', 'E']).unwrap_or((n, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let negative = whole.starts_with('-');
    let all = format!("{}{fraction}", whole.trim_start_matches('-'));
    let kept = all.trim_end_matches('0');
    if kept.is_empty() || kept.bytes().all(|b| b == b'0') {
        return (false, String::new(), 0);
    }
    let dropped = (all.len() - kept.len()) as i64;
    let exponent = exponent.parse::<i64>().unwrap_or(i64::from(i32::MAX));
    let power = exponent - fraction.len() as i64 + dropped;
    (negative, kept.trim_start_matches('0').to_string(), power)
}

/// A double inside a JSON value, which keeps a fraction to tell it from an
/// integer.
pub(crate) fn float_json(value: f64) -> String {
    let text = text::float_text(value);
    // The shortest text that reads back as the same double.
    let short = format!("{value:?}");
    let short = if short.len() < text.len() && !short.contains('e') {
        short
    } else {
        text
    };
    if short.contains(['.', 'e', 'N', 'i']) {
        short
    } else {
        format!("{short}.0")
    }
}

fn write_string(s: &str, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

impl Parser<'_> {
    fn spaces(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, b: u8) -> bool {
        self.spaces();
        let hit = self.bytes.get(self.at) == Some(&b);
        self.at += usize::from(hit);
        hit
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.spaces();
        match *self.bytes.get(self.at)? {
            b'{' => {
                self.at += 1;
                let mut members = Vec::new();
                if self.eat(b'}') {
                    return Some(Json::Object(members));
                }
                loop {
                    self.spaces();
                    let name = self.string()?;
                    if !self.eat(b':') {
                        return None;
                    }
                    members.push((name, self.value(depth + 1)?));
                    if self.eat(b'}') {
                        return Some(Json::Object(members));
                    }
                    if !self.eat(b',') {
                        return None;
                    }
                }
            }
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                if self.eat(b']') {
                    return Some(Json::Array(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    if self.eat(b']') {
                        return Some(Json::Array(items));
                    }
                    if !self.eat(b',') {
                        return None;
                    }
                }
            }
            b'"' => self.string().map(Json::String),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        self.bytes[self.at..].starts_with(word.as_bytes()).then(|| {
            self.at += word.len();
            value
        })
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        let leading_zero = self.bytes.get(self.at) == Some(&b'0');
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return None;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return None;
            }
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return None;
            }
        }
        Some(Json::Number(self.text[start..self.at].to_string()))
    }

    fn string(&mut self) -> Option<String> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return None;
        }
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while !matches!(self.bytes.get(self.at)?, b'"' | b'\\') {
                if self.bytes[self.at] < 0x20 {
                    return None;
                }
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            self.at += 1;
            if self.bytes[self.at - 1] == b'"' {
                return Some(out);
            }
            let escape = *self.bytes.get(self.at)?;
            self.at += 1;
            out.push(match escape {
                b'"' => '"',
                b'\\' => '\\',
                b'/' => '/',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => {
                    let unit = self.hex()?;
                    let code = if (0xd800..0xdc00).contains(&unit) {
                        if self.bytes.get(self.at..self.at + 2)? != b"\\u" {
                            return None;
                        }
                        self.at += 2;
                        let low = self.hex()?;
                        if !(0xdc00..0xe000).contains(&low) {
                            return None;
                        }
                        0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                    } else {
                        unit
                    };
                    char::from_u32(code)?
                }
                _ => return None,
            });
        }
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok()
    }
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// A member's name.
    Member(String),
    /// An element's position.
    Element(usize),
}

/// How names are quoted in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathStyle {
    /// `$."a.b"`, as JSON_QUERY and JSON_VALUE read it.
    Standard,
    /// `$['a.b']`, as JSON_EXTRACT reads it.
    Legacy,
}

/// Reads a path.
pub(crate) fn parse_path(path: &str, style: PathStyle) -> Result<Vec<Step>> {
    if path.trim_start().starts_with("lax ") || path.trim_start().starts_with("strict ") {
        return Err(ServiceError::unsupported("A lax or strict JSONPath"));
    }
    let invalid = |at: &str| fail(format!("Invalid token in JSONPath at: {at}"));
    let Some(mut rest) = path.strip_prefix('$') else {
        return fail("JSONPath must start with '$'");
    };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let here = rest;
        if let Some(after) = rest.strip_prefix('.') {
            if let Some(quoted) = after.strip_prefix('"') {
                if style == PathStyle::Legacy {
                    return invalid(here);
                }
                let Some((name, after)) = unquote(quoted, '"') else {
                    return invalid(here);
                };
                steps.push(Step::Member(name));
                rest = after;
            } else {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let name = &after[..end];
                if name.is_empty() || name.contains(['"', '\'', '*', ']']) {
                    return invalid(here);
                }
                steps.push(Step::Member(name.to_string()));
                rest = &after[end..];
            }
        } else if let Some(after) = rest.strip_prefix('[') {
            let quote = after.chars().next().filter(|c| matches!(c, '\'' | '"'));
            if let Some(quote) = quote {
                if style == PathStyle::Standard {
                    return invalid(here);
                }
                let Some((name, after)) = unquote(&after[1..], quote) else {
                    return invalid(here);
                };
                let Some(after) = after.strip_prefix(']') else {
                    return invalid(here);
                };
                steps.push(Step::Member(name));
                rest = after;
            } else {
                let Some((index, after)) = after.split_once(']') else {
                    return invalid(here);
                };
                match index.trim().parse() {
                    Ok(i) if index.trim().bytes().all(|b| b.is_ascii_digit()) => {
                        steps.push(Step::Element(i));
                    }
                    _ => return invalid(here),
                }
                rest = after;
            }
        } else {
            return invalid(here);
        }
    }
    Ok(steps)
}

fn unquote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            c if c == quote => return Some((name, &text[i + c.len_utf8()..])),
            '\\' => match chars.next()?.1 {
                c if c == quote || c == '\\' => name.push(c),
                c => {
                    name.push('\\');
                    name.push(c);
                }
            },
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_compact() {
        let t = |s: &str| Json::parse(s).map(|j| j.to_text());
        assert_eq!(
            t(r#" {"b": [1.50, true, null], "a": "x\u00e9\n"} "#).as_deref(),
            Some(r#"{"b":[1.50,true,null],"a":"xé\n"}"#)
        );
        assert_eq!(t(r#""\ud83d\ude00""#).as_deref(), Some("\"😀\""));
        for bad in [
            "",
            "{bad",
            "[1,]",
            "01",
            "1.",
            "\"a",
            "nul",
            "{} x",
            "\"\u{1}\"",
            "\"\\ud800\"",
        ] {
            assert_eq!(t(bad), None, "{bad}");
        }
        assert_eq!(t(&"[".repeat(100_000)), None);
    }

    #[test]
    fn stored_documents_are_normal() {
        let n = |s: &str| {
            Json::parse(s)
                .unwrap()
                .normalized(WideNumbers::Exact)
                .map(|j| j.to_text())
        };
        assert_eq!(n(r#"{"b":1,"a":2,"b":3}"#).unwrap(), r#"{"a":2,"b":1}"#);
        assert_eq!(n("1.0").unwrap(), "1.0");
        assert_eq!(n("1e2").unwrap(), "100.0");
        assert_eq!(n("18446744073709551615").unwrap(), "18446744073709551615");
        assert!(n("123456789012345678901234567890").is_err());
    }

    #[test]
    fn paths() {
        let p = |s, style| parse_path(s, style).unwrap();
        assert_eq!(
            p("$.a[1].\"b.c\"", PathStyle::Standard),
            [
                Step::Member("a".into()),
                Step::Element(1),
                Step::Member("b.c".into())
            ]
        );
        assert_eq!(
            p("$['a.b']", PathStyle::Legacy),
            [Step::Member("a.b".into())]
        );
        assert!(parse_path("a", PathStyle::Standard).is_err());
        assert!(parse_path("$.", PathStyle::Standard).is_err());
        assert!(parse_path("$[-1]", PathStyle::Standard).is_err());
    }
}
