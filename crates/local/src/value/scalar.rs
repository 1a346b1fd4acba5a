//! INT64, FLOAT64, BOOL and BYTES.

use std::fmt::Write;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::civil::is_space;
use super::error::ValueError;

/// Reads decimal digits, or hexadecimal ones after `0x`, with an optional sign.
pub fn parse_int64(text: &str) -> Result<i64, ValueError> {
    let trimmed = text.trim_matches(is_space);
    let invalid = || ValueError::new(format!("Bad int64 value: {text}"));
    let unsigned = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    match unsigned
        .strip_prefix("0x")
        .or_else(|| unsigned.strip_prefix("0X"))
    {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            let magnitude = i128::from(u64::from_str_radix(digits, 16).map_err(|_| invalid())?);
            let value = if trimmed.starts_with('-') {
                -magnitude
            } else {
                magnitude
            };
            i64::try_from(value).map_err(|_| invalid())
        }
        Some(_) => Err(invalid()),
        None => trimmed.parse().map_err(|_| invalid()),
    }
}

/// Reads a decimal number, `inf`, `infinity` or `nan` in any case and with a sign.
pub fn parse_float64(text: &str) -> Result<f64, ValueError> {
    let trimmed = text.trim_matches(is_space);
    let invalid = || ValueError::new(format!("Bad double value: {text}"));
    let value: f64 = trimmed.parse().map_err(|_| invalid())?;
    // A number too large for the type is no spelling of infinity.
    let has_digits = trimmed.bytes().any(|b| b.is_ascii_digit());
    if value.is_infinite() && has_digits {
        return Err(invalid());
    }
    Ok(value)
}

/// Reads `true` or `false` in any case.
pub fn parse_bool(text: &str) -> Result<bool, ValueError> {
    if text.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err(ValueError::new(format!("Bad bool value: {text}")))
    }
}

/// Reads a BOOL as loads accept it: also `t`, `f`, `yes`, `no`, `y`, `n`, `1`, `0`.
///
/// Source: recorded CSV loads of the service.
pub fn parse_bool_for_import(text: &str) -> Result<bool, ValueError> {
    match text.trim_matches(is_space).to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "0" => Ok(false),
        _ => Err(ValueError::new(format!("Bad bool value: {text}"))),
    }
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Reads base64 in the standard or the URL-safe alphabet, padded or not.
pub fn parse_base64(text: &str) -> Result<Vec<u8>, ValueError> {
    STANDARD
        .decode(text)
        .or_else(|_| URL_SAFE.decode(text))
        .map_err(|_| {
            ValueError::new(format!(
                "Could not decode base64 string to bytes: {}",
                shortened(text)
            ))
        })
}

/// Writes padded base64 in the standard alphabet.
pub fn write_base64(bytes: &[u8], out: &mut String) {
    STANDARD.encode_string(bytes, out);
}

/// Writes the shortest digits that read back: `1.5`, `1.0`, `1.0E10`, `NaN`, `-Infinity`.
pub fn write_float64(value: f64, out: &mut String) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        write!(out, "{value:?}").expect("writing to a String does not fail");
        return;
    }
    let start = out.len();
    write!(out, "{value:E}").expect("writing to a String does not fail");
    if !out[start..].contains('.') {
        let at = start + out[start..].find('E').expect("the exponent form has an E");
        out.insert_str(at, ".0");
    }
}

/// The beginning of a text, for an error that must stay readable.
pub(super) fn shortened(text: &str) -> String {
    const LIMIT: usize = 128;
    if text.chars().count() <= LIMIT {
        return text.to_string();
    }
    let head: String = text.chars().take(LIMIT).collect();
    format!("{head}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        assert_eq!(parse_int64("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(parse_int64("+1"), Ok(1));
        assert_eq!(parse_int64(" 0x1F "), Ok(31));
        assert_eq!(parse_int64("-0x8000000000000000"), Ok(i64::MIN));
        for bad in [
            "",
            "1.0",
            "9223372036854775808",
            "0x",
            "0x-1",
            "1e3",
            "--1",
            "not-a-number",
        ] {
            assert!(parse_int64(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn floats() {
        let text = |v| {
            let mut s = String::new();
            write_float64(v, &mut s);
            s
        };
        for (value, want) in [
            (1.5, "1.5"),
            (0.1, "0.1"),
            (1.0, "1.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1e20, "1.0E20"),
            (1e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (1.25e-5, "1.25E-5"),
            (f64::MAX, "1.7976931348623157E308"),
            (5e-324, "5.0E-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(value), want);
        }
        assert_eq!(parse_float64("-inf"), Ok(f64::NEG_INFINITY));
        assert_eq!(parse_float64("Infinity"), Ok(f64::INFINITY));
        assert!(parse_float64("NaN").unwrap().is_nan());
        assert_eq!(parse_float64("1e3"), Ok(1000.0));
        for bad in ["", "1e999", "abc", "1..2", "0x10"] {
            assert!(parse_float64(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bools_and_bytes() {
        for yes in ["T", "1", "yes", "True", "y"] {
            assert_eq!(parse_bool_for_import(yes), Ok(true), "{yes}");
        }
        assert!(parse_bool_for_import("maybe").is_err());
        assert!(parse_bool("1").is_err());
        assert_eq!(parse_bool("FALSE"), Ok(false));
        assert_eq!(parse_base64("Af8="), Ok(vec![1, 255]));
        assert_eq!(parse_base64("Af8"), Ok(vec![1, 255]));
        assert_eq!(parse_base64("_-8="), Ok(vec![255, 239]));
        assert!(parse_base64("A").is_err());
        let mut s = String::new();
        write_base64(b"\x00\xff\x10abc", &mut s);
        assert_eq!(s, "AP8QYWJj");
    }
}
