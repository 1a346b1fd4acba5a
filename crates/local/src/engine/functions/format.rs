//! FORMAT.

use super::cast::value_to_string;
use super::civil::Zone;
use super::decimal;
use super::operators::decimal_kind;
use super::scalar::{Definition, typed};
use super::signature::{Argument, Resolved, no_signature};
use super::text;
use super::types::SqlType;
use super::value::{Answer, Binding, Value, fail};
use crate::error::{Result, ServiceError};

/// The flags of an element, as they are written: `- + # 0 '` and a space.
#[derive(Debug, Default)]
struct Flags(Vec<char>);

impl Flags {
    fn has(&self, flag: char) -> bool {
        self.0.contains(&flag)
    }
}

#[derive(Debug)]
struct Spec {
    flags: Flags,
    width: usize,
    precision: Option<usize>,
    letter: char,
}

/// Widths and precisions beyond this are refused.
const MAX_WIDTH: i64 = 100_000;

struct Arguments<'r, 'a> {
    values: &'r [Value<'a>],
    types: &'r [SqlType],
    next: usize,
}

impl<'r, 'a> Arguments<'r, 'a> {
    fn take(&mut self, spec: char) -> Result<(&'r Value<'a>, &'r SqlType, usize)> {
        match (self.values.get(self.next), self.types.get(self.next)) {
            (Some(v), Some(t)) => {
                self.next += 1;
                Ok((v, t, self.next + 1))
            }
            _ => fail(format!(
                "Too few arguments to FORMAT for pattern element %{spec}: it has {} arguments after the pattern",
                self.values.len()
            )),
        }
    }

    fn star(&mut self) -> Result<Option<i64>> {
        match self.take('*')?.0 {
            Value::Null => Ok(None),
            v => {
                let n = v.int()?;
                if n.abs() > MAX_WIDTH {
                    return fail(format!("Width or precision {n} of FORMAT is too large"));
                }
                Ok(Some(n))
            }
        }
    }
}

fn format(binding: &Binding<'_>, a: &[Value<'_>]) -> Answer {
    if a[0].is_null() {
        return Ok(Value::Null);
    }
    let pattern: Vec<char> = a[0].str()?.chars().collect();
    let mut args = Arguments {
        values: &a[1..],
        types: &binding.args[1..],
        next: 0,
    };
    let mut out = String::new();
    let mut i = 0;
    while i < pattern.len() {
        if pattern[i] != '%' {
            out.push(pattern[i]);
            i += 1;
            continue;
        }
        i += 1;
        if pattern.get(i) == Some(&'%') {
            out.push('%');
            i += 1;
            continue;
        }
        let mut spec = Spec {
            flags: Flags::default(),
            width: 0,
            precision: None,
            letter: 'd',
        };
        while let Some(c) = pattern.get(i) {
            match c {
                '-' | '+' | ' ' | '#' | '0' | '\'' => spec.flags.0.push(*c),
                _ => break,
            }
            i += 1;
        }
        let number = |i: &mut usize| -> Result<i64> {
            let mut n = 0i64;
            while let Some(d) = pattern.get(*i).and_then(|c| c.to_digit(10)) {
                n = n * 10 + i64::from(d);
                if n > MAX_WIDTH {
                    return fail("Width or precision of FORMAT is too large");
                }
                *i += 1;
            }
            Ok(n)
        };
        let width = if pattern.get(i) == Some(&'*') {
            i += 1;
            match args.star()? {
                Some(n) => n,
                None => return Ok(Value::Null),
            }
        } else {
            number(&mut i)?
        };
        if width < 0 {
            spec.flags.0.push('-');
        }
        spec.width = usize::try_from(width.unsigned_abs()).unwrap_or(0);
        if pattern.get(i) == Some(&'.') {
            i += 1;
            let precision = if pattern.get(i) == Some(&'*') {
                i += 1;
                match args.star()? {
                    Some(n) => n,
                    None => return Ok(Value::Null),
                }
            } else {
                number(&mut i)?
            };
            spec.precision = usize::try_from(precision).ok();
        }
        let Some(letter) = pattern.get(i) else {
            return fail("FORMAT pattern ends within an element");
        };
        spec.letter = *letter;
        i += 1;
        let (value, t, position) = args.take(*letter)?;
        match element(&spec, value, t, position)? {
            Some(text) => out.push_str(&text),
            None => return Ok(Value::Null),
        }
    }
    if args.next < args.values.len() {
        return fail(format!(
            "Too many arguments to FORMAT for pattern \"{}\"; Expected {}; Got {}",
            a[0].str()?,
            args.next + 1,
            a.len()
        ));
    }
    Ok(Value::text(out))
}

fn wrong<T>(expected: &str, t: &SqlType, position: usize) -> Result<T> {
    fail(format!(
        "Invalid type for argument {position} to FORMAT; Expected {expected}; Got {t}"
    ))
}

/// One element; `None` when a NULL makes the whole result NULL.
fn element(spec: &Spec, value: &Value<'_>, t: &SqlType, position: usize) -> Result<Option<String>> {
    let text = match spec.letter {
        't' | 'T' => {
            let text = printed(value, t, spec.letter == 'T')?;
            return Ok(Some(pad_text(spec, &text)));
        }
        _ if value.is_null() => return Ok(None),
        'd' | 'i' => match value {
            Value::Int64(v) => integer(spec, v.unsigned_abs().to_string(), *v < 0),
            _ => return wrong("integer", t, position),
        },
        'u' => match value {
            Value::Int64(v) if *v >= 0 => integer(spec, v.to_string(), false),
            Value::Int64(_) => return fail("FORMAT %u of a negative INT64"),
            _ => return wrong("UINT", t, position),
        },
        'o' | 'x' | 'X' => match value {
            Value::Int64(v) => {
                let n = v.unsigned_abs();
                let digits = match spec.letter {
                    'o' => format!("{n:o}"),
                    'x' => format!("{n:x}"),
                    _ => format!("{n:X}"),
                };
                let digits = match (spec.flags.has('#'), spec.letter) {
                    (true, 'o') => format!("0{digits}"),
                    (true, 'x') => format!("0x{digits}"),
                    (true, 'X') => format!("0X{digits}"),
                    _ => digits,
                };
                integer(spec, digits, *v < 0)
            }
            _ => return wrong("integer", t, position),
        },
        'f' | 'F' | 'e' | 'E' | 'g' | 'G' => match value {
            Value::Float64(v) => float(spec, *v),
            Value::Numeric(_) | Value::BigNumeric(_) => decimal_element(spec, value)?,
            _ => return wrong("floating point", t, position),
        },
        's' => match value {
            Value::String(s) if *t == SqlType::String => pad_text(spec, s),
            _ => return wrong("STRING", t, position),
        },
        'p' | 'P' => match value {
            Value::String(s) if *t == SqlType::Json => {
                let doc = super::json_value::Json::stored(s)?;
                pad_text(
                    spec,
                    &if spec.letter == 'p' {
                        doc.to_text()
                    } else {
                        doc.to_pretty_text()
                    },
                )
            }
            _ => return wrong("JSON", t, position),
        },
        other => {
            return fail(format!(
                "Invalid format specifier character \"{other}\" in FORMAT string"
            ));
        }
    };
    Ok(Some(text))
}

fn pad_text(spec: &Spec, text: &str) -> String {
    let cut: String = match spec.precision {
        Some(n) => text.chars().take(n).collect(),
        None => text.to_string(),
    };
    let missing = spec.width.saturating_sub(cut.chars().count());
    if spec.flags.has('-') {
        format!("{cut}{}", " ".repeat(missing))
    } else {
        format!("{}{cut}", " ".repeat(missing))
    }
}

fn group(digits: &str) -> String {
    let (whole, rest) = match digits.find(['.', 'e', 'E']) {
        Some(at) => digits.split_at(at),
        None => (digits, ""),
    };
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out + rest
}

fn sign(spec: &Spec, negative: bool) -> &'static str {
    match (negative, spec.flags.has('+'), spec.flags.has(' ')) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    }
}

fn number(spec: &Spec, digits: &str, negative: bool, zeros: bool) -> String {
    let sign = sign(spec, negative);
    let missing = spec.width.saturating_sub(sign.len() + digits.len());
    if spec.flags.has('-') {
        format!("{sign}{digits}{}", " ".repeat(missing))
    } else if zeros {
        format!("{sign}{}{digits}", "0".repeat(missing))
    } else {
        format!("{}{sign}{digits}", " ".repeat(missing))
    }
}

fn integer(spec: &Spec, digits: String, negative: bool) -> String {
    let digits = match spec.precision {
        Some(p) if p > digits.len() => format!("{}{digits}", "0".repeat(p - digits.len())),
        _ => digits,
    };
    let digits = if spec.flags.has('\'') {
        group(&digits)
    } else {
        digits
    };
    number(
        spec,
        &digits,
        negative,
        spec.flags.has('0') && spec.precision.is_none(),
    )
}

fn exponent(text: &str) -> String {
    // Rust prints 1e5 where C prints 1e+05.
    match text.split_once('e') {
        Some((m, e)) => {
            let (sign, digits) = match e.strip_prefix('-') {
                Some(d) => ('-', d),
                None => ('+', e),
            };
            format!("{m}e{sign}{digits:0>2}")
        }
        None => text.to_string(),
    }
}

fn float(spec: &Spec, v: f64) -> String {
    let upper = spec.letter.is_ascii_uppercase();
    let case = |s: String| if upper { s.to_uppercase() } else { s };
    let negative = v.is_sign_negative() && !v.is_nan();
    if !v.is_finite() {
        let word = if v.is_nan() { "nan" } else { "inf" };
        return number(spec, &case(word.into()), negative, false);
    }
    let precision = spec.precision.unwrap_or(6);
    let digits = match spec.letter.to_ascii_lowercase() {
        'f' => format!("{:.precision$}", v.abs()),
        'e' => exponent(&format!("{:.precision$e}", v.abs())),
        _ => text::general(v.abs(), precision.max(1)),
    };
    let digits = if spec.flags.has('\'') {
        group(&digits)
    } else {
        digits
    };
    number(spec, &case(digits), negative, spec.flags.has('0'))
}

fn decimal_element(spec: &Spec, value: &Value<'_>) -> Result<String> {
    if !matches!(spec.letter, 'f' | 'F') {
        return Err(ServiceError::unsupported(format!(
            "FORMAT %{} of a NUMERIC",
            spec.letter
        )));
    }
    let kind = decimal_kind(value);
    let precision = spec.precision.unwrap_or(6);
    let units = decimal::round(&kind.units(value)?, kind.scale(), precision as i64);
    let shown = decimal::to_text(&units, kind.scale());
    let negative = shown.starts_with('-');
    let shown = shown.trim_start_matches('-');
    let (whole, fraction) = shown.split_once('.').unwrap_or((shown, ""));
    let digits = if precision == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{fraction:0<precision$}")
    };
    let digits = if spec.flags.has('\'') {
        group(&digits)
    } else {
        digits
    };
    Ok(number(spec, &digits, negative, spec.flags.has('0')))
}

fn quote(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn escaped_bytes(b: &[u8]) -> String {
    let mut out = String::new();
    for byte in b {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x20..=0x7e => out.push(char::from(*byte)),
            other => out.push_str(&format!("\\x{other:02x}")),
        }
    }
    out
}

fn float_shown(v: f64) -> String {
    let text = text::float_text(v);
    if v.is_finite() && !text.contains(['.', 'e']) {
        format!("{text}.0")
    } else {
        text.to_lowercase()
    }
}

/// `%t`, or with `literal` `%T`: text that reads as the same value.
fn printed(value: &Value<'_>, t: &SqlType, literal: bool) -> Result<String> {
    let typed = |name: &str| -> Result<String> {
        let text = value_to_string(value, t, Zone::UTC)?;
        Ok(if literal {
            format!("{name} \"{text}\"")
        } else {
            text
        })
    };
    Ok(match value {
        Value::Null => "NULL".to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Int64(v) => v.to_string(),
        Value::Float64(v) => {
            let text = float_shown(*v);
            if literal && !v.is_finite() {
                format!("CAST(\"{text}\" AS FLOAT64)")
            } else {
                text
            }
        }
        Value::Numeric(_) => typed("NUMERIC")?,
        Value::BigNumeric(_) => typed("BIGNUMERIC")?,
        Value::String(s) => match t {
            SqlType::Json if literal => format!("JSON {}", quote(s)),
            SqlType::Geography => {
                return Err(ServiceError::unsupported("FORMAT of a GEOGRAPHY"));
            }
            SqlType::String if literal => quote(s),
            _ => s.to_string(),
        },
        Value::Bytes(b) if literal => format!("b\"{}\"", escaped_bytes(b)),
        Value::Bytes(b) => escaped_bytes(b),
        Value::Date(_) => typed("DATE")?,
        Value::Time(_) => typed("TIME")?,
        Value::Datetime(_) => typed("DATETIME")?,
        Value::Timestamp(_) => typed("TIMESTAMP")?,
        Value::Interval(_) => {
            let text = value_to_string(value, t, Zone::UTC)?;
            if literal {
                format!("INTERVAL \"{text}\" YEAR TO SECOND")
            } else {
                text
            }
        }
        Value::Array(items) => {
            let element = t.element().cloned().unwrap_or(SqlType::Null);
            let items = items
                .iter()
                .map(|v| printed(v, &element, literal))
                .collect::<Result<Vec<_>>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Struct(values) => match t {
            SqlType::Range(element) => {
                let text = value_to_string(value, t, Zone::UTC)?;
                if literal {
                    format!("RANGE<{element}> \"{text}\"")
                } else {
                    text
                }
            }
            SqlType::Struct(fields) => {
                let items = values
                    .iter()
                    .zip(fields)
                    .map(|(v, (_, t))| printed(v, t, literal))
                    .collect::<Result<Vec<_>>>()?;
                format!("({})", items.join(", "))
            }
            _ => return Err(ServiceError::internal("a struct value has a struct type")),
        },
    })
}

fn format_call(name: &str, args: &[Argument]) -> Result<Resolved> {
    let is_text = args
        .first()
        .is_some_and(|a| matches!(a.sql_type, SqlType::String | SqlType::Null));
    if !is_text {
        return no_signature(name, args, &[]);
    }
    let mut types = vec![SqlType::String];
    types.extend(args[1..].iter().map(|a| match &a.sql_type {
        SqlType::Null => SqlType::Int64,
        t => t.clone(),
    }));
    Ok(Resolved {
        args: types,
        ret: SqlType::String,
    })
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        typed("format", &[], format)
            .resolved_by(format_call)
            .seeing_nulls(),
    ]
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
