//! Text, bytes, and JSON that is text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use serde::de::IgnoredAny;

use super::Form;
use super::convert::unwritable;
use super::faults::{Faults, Place};
use super::numbers::unplanned;
use crate::error::Result;

/// Text in a layout that the format can be written from.
pub(super) fn text(array: &ArrayRef, format: Form) -> Result<ArrayRef> {
    match (array.data_type(), format) {
        (DataType::Utf8, _) | (_, Form::Protobuf | Form::Avro) => Ok(Arc::clone(array)),
        (_, Form::Arrow | Form::Parquet) => cast(array, &DataType::Utf8).map_err(unwritable),
    }
}

/// Bytes in a layout that the format can be written from.
pub(super) fn bytes(array: &ArrayRef, format: Form) -> Result<ArrayRef> {
    match (array.data_type(), format) {
        (DataType::FixedSizeBinary(_), _) => fixed(array, format),
        (DataType::Binary, _) | (_, Form::Protobuf | Form::Avro) => Ok(Arc::clone(array)),
        (_, Form::Arrow | Form::Parquet) => cast(array, &DataType::Binary).map_err(unwritable),
    }
}

fn fixed(array: &ArrayRef, format: Form) -> Result<ArrayRef> {
    match format {
        Form::Arrow | Form::Parquet => cast(array, &DataType::Binary).map_err(unwritable),
        Form::Protobuf | Form::Avro => {
            let mut views = BinaryViewBuilder::with_capacity(array.len());
            views.extend(array.as_fixed_size_binary().iter());
            Ok(Arc::new(views.finish()))
        }
    }
}

/// The text at `at`; `None` for NULL.
pub(super) fn text_at(array: &ArrayRef, at: usize) -> Result<Option<&str>> {
    if array.is_null(at) {
        return Ok(None);
    }
    Ok(Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(at),
        DataType::LargeUtf8 => array.as_string::<i64>().value(at),
        DataType::Utf8View => array.as_string_view().value(at),
        other => return Err(unplanned(other, "text")),
    }))
}

/// Notes JSON text with an integer that BigQuery would round without saying so.
///
/// Whether it is JSON at all is for the service to say where it says of which row; a
/// load job fails as a whole.
pub(super) fn check_json(array: &ArrayRef, place: Place<'_>, format: Form, faults: &mut Faults) {
    let is_loaded = matches!(format, Form::Avro | Form::Parquet);
    for at in 0..array.len() {
        let Ok(Some(text)) = text_at(array, at) else {
            continue;
        };
        if let Some(integer) = rounded_integer(text) {
            place.fault(faults, at, || rounded(integer));
        } else if is_loaded && let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
            place.fault(faults, at, || format!("it is not JSON: {error}"));
        }
    }
}

/// Notes text with more characters, and bytes that are more, than a column takes that
/// is a `STRING(n)` or a `BYTES(n)`.
pub(super) fn check_length(
    array: &ArrayRef,
    longest: Option<usize>,
    place: Place<'_>,
    faults: &mut Faults,
) {
    let Some(longest) = longest else {
        return;
    };
    for at in 0..array.len() {
        let (length, unit, column) = if let Ok(Some(text)) = text_at(array, at) {
            // No text has more characters than bytes.
            if text.len() <= longest {
                continue;
            }
            (text.chars().count(), "characters", "STRING")
        } else if let Some(bytes) = bytes_at(array, at) {
            (bytes.len(), "bytes", "BYTES")
        } else {
            continue;
        };
        if length > longest {
            place.fault(faults, at, || {
                format!("it has {length} {unit}, and the column is a {column}({longest})")
            });
        }
    }
}

/// The bytes at `at`; None for NULL and for what is no bytes.
fn bytes_at(array: &ArrayRef, at: usize) -> Option<&[u8]> {
    if array.is_null(at) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(at),
        DataType::LargeBinary => array.as_binary::<i64>().value(at),
        DataType::BinaryView => array.as_binary_view().value(at),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(at),
        _ => return None,
    })
}

pub(super) fn rounded(number: &str) -> String {
    format!(
        "its JSON has the number {number}, which BigQuery would round: integers are kept from \
         -2^63 to 2^64 - 1; write it as a string"
    )
}

/// The first integer in JSON text that BigQuery would store as another number.
fn rounded_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let start = at;
                while at < bytes.len()
                    && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                {
                    at += 1;
                }
                let number = &text[start..at];
                if number.len() > 18 && is_rounded(number) {
                    return Some(number);
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// Whether an integer beyond 64 bits is no double either. Numbers with a
/// fraction or an exponent are doubles by their nature.
fn is_rounded(number: &str) -> bool {
    if number.contains(['.', 'e', 'E'])
        || number.parse::<i64>().is_ok()
        || number.parse::<u64>().is_ok()
    {
        return false;
    }
    // A double's own digits, without an exponent, are its exact integer.
    number
        .parse::<f64>()
        .is_ok_and(|float| format!("{float:.0}") != number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_bigquery_rounds_are_found() {
        for (text, found) in [
            ("9223372036854775807", None),
            ("-9223372036854775808", None),
            ("18446744073709551615", None),
            ("18446744073709551616", None),
            ("18446744073709551617", Some("18446744073709551617")),
            (
                r#"{"a": [1, -9223372036854775809]}"#,
                Some("-9223372036854775809"),
            ),
            (r#"{"a": "18446744073709551617"}"#, None),
            (r#"{"a\"": 1, "18446744073709551617": 2}"#, None),
            ("3.14159265358979323846264338", None),
            ("1e400", None),
            ("\"é\\", None),
        ] {
            assert_eq!(rounded_integer(text), found, "{text}");
        }
    }
}
