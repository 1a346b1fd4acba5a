//! The normal form of JSON text: no spaces, object keys sorted, the first of two
//! equal keys kept, integers outside 64 bits turned into FLOAT64.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::error::ValueError;
use super::json_text::parse_json;
use super::scalar::shortened;

/// Normalizes JSON text.
pub fn normalize_json(text: &str) -> Result<String, ValueError> {
    let value = parse_json(text)
        .map_err(|e| ValueError::new(format!("Invalid JSON: {}: {e}", shortened(text))))?;
    Ok(normal_form(&value))
}

/// Normalizes a parsed value.
pub fn normal_form(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
            (Some(i), ..) => write!(out, "{i}").expect("writing to a String does not fail"),
            (_, Some(u), _) => write!(out, "{u}").expect("writing to a String does not fail"),
            (.., Some(f)) => write_json_float(f, out),
            _ => out.push_str("null"),
        },
        Value::String(s) => write_json_string(s, out),
        Value::Array(items) => {
            separated('[', ']', items, out, write_value);
        }
        Value::Object(map) => {
            let sorted: BTreeMap<&str, &Value> = map.iter().map(|(k, v)| (k.as_str(), v)).collect();
            separated('{', '}', sorted, out, |(key, item), out| {
                write_json_string(key, out);
                out.push(':');
                write_value(item, out);
            });
        }
    }
}

fn separated<T>(
    open: char,
    close: char,
    items: impl IntoIterator<Item = T>,
    out: &mut String,
    mut one: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        one(item, out);
    }
    out.push(close);
}

/// Writes a JSON string with its quotes.
pub fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (i, b) in text.bytes().enumerate() {
        let escape = match b {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            0x0c => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[plain..i]);
        plain = i + 1;
        if escape.is_empty() {
            write!(out, "\\u{b:04x}").expect("writing to a String does not fail");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// Writes a float as the service writes numbers inside JSON: `1.0`, `0.0001`,
/// `1e+20`, `1e-05`.
pub fn write_json_float(value: f64, out: &mut String) {
    if value == 0.0 {
        return out.push_str(if value.is_sign_negative() {
            "-0.0"
        } else {
            "0.0"
        });
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("the exponent form has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    if (-4..15).contains(&exponent) {
        return write!(out, "{value:?}").expect("writing to a String does not fail");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        .expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_forms() {
        for (from, to) in [
            (
                r#" { "b" : 1, "a": [1, null, "x"] } "#,
                r#"{"a":[1,null,"x"],"b":1}"#,
            ),
            ("null", "null"),
            (r#"{"a":1,"a":2}"#, r#"{"a":1}"#),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551616", "1.8446744073709552e+19"),
            ("1.0", "1.0"),
            ("1e2", "100.0"),
            ("1e14", "100000000000000.0"),
            ("1e15", "1e+15"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1.25e-7", "1.25e-07"),
            (r#""\u0001é\/\n""#, "\"\\u0001é/\\n\""),
        ] {
            assert_eq!(normalize_json(from).as_deref(), Ok(to), "{from}");
        }
        for bad in ["", "{", "{'a':1}", "nul", "1 2", "[1,]"] {
            assert!(normalize_json(bad).is_err(), "{bad}");
        }
        assert!(normalize_json(&"[".repeat(100_000)).is_err());
    }
}
