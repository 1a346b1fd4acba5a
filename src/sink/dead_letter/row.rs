//! A row as JSON, for people who find out why it was not written.
//!
//! Whatever the row holds has a form here, also what JSON has no place for: numbers
//! that are not finite, intervals and the like are text.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The row as a JSON object.
pub(super) fn object(batch: &RecordBatch, row: usize) -> String {
    let mut out = String::from("{");
    for (at, field) in batch.schema_ref().fields().iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        quote(field.name(), &mut out);
        out.push(':');
        value(batch.column(at), row, &mut out);
    }
    out.push('}');
    out
}

/// A text in quotes.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn list(items: &ArrayRef, out: &mut String) {
    out.push('[');
    for at in 0..items.len() {
        if at > 0 {
            out.push(',');
        }
        value(items, at, out);
    }
    out.push(']');
}

fn value(array: &ArrayRef, at: usize, out: &mut String) {
    if array.logical_nulls().is_some_and(|nulls| nulls.is_null(at)) {
        out.push_str("null");
        return;
    }
    match array.data_type() {
        DataType::Struct(fields) => {
            out.push('{');
            for (index, (field, child)) in
                fields.iter().zip(array.as_struct().columns()).enumerate()
            {
                if index > 0 {
                    out.push(',');
                }
                quote(field.name(), out);
                out.push(':');
                value(child, at, out);
            }
            out.push('}');
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(at), out),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(at), out),
        DataType::ListView(_) => list(&array.as_list_view::<i32>().value(at), out),
        DataType::LargeListView(_) => list(&array.as_list_view::<i64>().value(at), out),
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(at), out),
        DataType::Map(..) => {
            let entries: ArrayRef = std::sync::Arc::new(array.as_map().value(at));
            list(&entries, out);
        }
        DataType::Dictionary(_, values) => match cast(&array.slice(at, 1), values) {
            Ok(plain) => value(&plain, 0, out),
            Err(_) => text(array, at, out),
        },
        DataType::RunEndEncoded(_, values) => match cast(&array.slice(at, 1), values.data_type()) {
            Ok(plain) => value(&plain, 0, out),
            Err(_) => text(array, at, out),
        },
        DataType::Binary => bytes(array.as_binary::<i32>().value(at), out),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(at), out),
        DataType::BinaryView => bytes(array.as_binary_view().value(at), out),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(at), out),
        DataType::Boolean => {
            out.push_str(match array.as_boolean().value(at) {
                true => "true",
                false => "false",
            });
        }
        data_type if data_type.is_numeric() => {
            let shown = shown(array, at);
            // What is no number in JSON, such as NaN, is text.
            match serde_json::from_str::<serde_json::Number>(&shown) {
                Ok(_) => out.push_str(&shown),
                Err(_) => quote(&shown, out),
            }
        }
        _ => text(array, at, out),
    }
}

fn bytes(bytes: &[u8], out: &mut String) {
    out.push('"');
    BASE64_STANDARD.encode_string(bytes, out);
    out.push('"');
}

fn text(array: &ArrayRef, at: usize, out: &mut String) {
    quote(&shown(array, at), out);
}

fn shown(array: &ArrayRef, at: usize) -> String {
    let options = FormatOptions::default();
    ArrayFormatter::try_new(array.as_ref(), &options)
        .and_then(|formatter| formatter.value(at).try_to_string())
        .unwrap_or_else(|error| format!("a value that cannot be shown ({error})"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray,
        StringArray, StructArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    #[test]
    fn every_value_has_a_form() {
        let decimal = Decimal128Array::from(vec![Some(12_345)])
            .with_precision_and_scale(20, 2)
            .unwrap();
        let time = TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC");
        let inner: ArrayRef = Arc::new(Int64Array::from(vec![None::<i64>]));
        let nested = StructArray::from(vec![(
            Arc::new(Field::new("x", DataType::Int64, true)),
            inner,
        )]);
        let words: DictionaryArray<Int32Type> = vec!["é\"\n"].into_iter().collect();
        let items = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])]);
        let columns: [(&str, ArrayRef); 9] = [
            ("n", Arc::new(Int64Array::from(vec![i64::MIN]))),
            ("f", Arc::new(Float64Array::from(vec![1.5]))),
            ("nan", Arc::new(Float64Array::from(vec![f64::NAN]))),
            ("d", Arc::new(decimal)),
            ("y", Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]]))),
            ("t", Arc::new(time)),
            ("s", Arc::new(nested)),
            ("w", Arc::new(words)),
            ("l", Arc::new(items)),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let text = object(&batch, 0);
        assert_eq!(
            text,
            r#"{"n":-9223372036854775808,"f":1.5,"nan":"NaN","d":123.45,"y":"AP8=","t":"1970-01-01T00:00:00.000001Z","s":{"x":null},"w":"é\"\n","l":[1,null]}"#
        );
        let none: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
        let batch = RecordBatch::try_from_iter([("s", none)]).unwrap();
        assert_eq!(object(&batch, 0), r#"{"s":null}"#);
    }
}
