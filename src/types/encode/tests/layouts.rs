//! Every layout of the same values gives the same rows.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Date64Array, Decimal32Array, DictionaryArray,
    FixedSizeBinaryArray, FixedSizeListArray, Float32Array, Int32Array, Int64Array, ListArray,
    ListViewArray, MapArray, NullArray, RunArray, StringArray, StringViewArray, StructArray,
    Time32SecondArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field as ArrowField, Int32Type, Int64Type};

use super::*;
use crate::types::TimestampDigits;

/// Both formats give the values of `expected` for `array`.
#[track_caller]
fn same(array: ArrayRef, expected: ArrayRef, field: Field) {
    let name = format!("{} as {}", array.data_type(), field.field_type);
    assert_eq!(
        messages(Arc::clone(&array), field.clone()),
        messages(Arc::clone(&expected), field.clone()),
        "{name}"
    );
    assert_eq!(
        arrow_column(array, field.clone()).as_ref(),
        arrow_column(expected, field).as_ref(),
        "{name}"
    );
}

#[test]
fn text_and_bytes() {
    let texts = StringArray::from(vec![
        Some("a"),
        None,
        Some("a long text, not inlined"),
        Some(""),
    ]);
    let texts = Arc::new(texts) as ArrayRef;
    let text = nullable("c", FieldType::String);
    let key = |key: DataType, value: DataType| DataType::Dictionary(Box::new(key), Box::new(value));
    for layout in [
        DataType::LargeUtf8,
        DataType::Utf8View,
        key(DataType::Int8, DataType::Utf8),
        key(DataType::UInt64, DataType::LargeUtf8),
        key(DataType::Int32, DataType::Utf8View),
    ] {
        let array = cast(&texts, &layout).unwrap();
        same(Arc::clone(&array), Arc::clone(&texts), text.clone());
        same(array.slice(1, 2), texts.slice(1, 2), text.clone());
    }
    let bytes = cast(&texts, &DataType::Binary).unwrap();
    for layout in [
        DataType::LargeBinary,
        DataType::BinaryView,
        key(DataType::Int8, DataType::Binary),
    ] {
        let array = cast(&bytes, &layout).unwrap();
        same(array, Arc::clone(&bytes), nullable("c", FieldType::Bytes));
    }
    let values = vec![Some(&b"ab"[..]), None, Some(b"cd")];
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.clone().into_iter(), 2);
    same(
        Arc::new(fixed.unwrap()),
        Arc::new(BinaryArray::from(values)),
        nullable("c", FieldType::Bytes),
    );
}

#[test]
fn runs() {
    let values = StringArray::from(vec![Some("a"), None, Some("b")]);
    let runs = RunArray::try_new(&Int32Array::from(vec![2, 3, 6]), &values).unwrap();
    let plain = StringArray::from(vec![
        Some("a"),
        Some("a"),
        None,
        Some("b"),
        Some("b"),
        Some("b"),
    ]);
    let text = nullable("c", FieldType::String);
    same(
        Arc::new(runs.clone()),
        Arc::new(plain.clone()),
        text.clone(),
    );
    for (offset, length) in [(1, 3), (2, 1), (3, 3), (5, 1)] {
        same(
            Arc::new(runs.slice(offset, length)),
            Arc::new(plain.slice(offset, length)),
            text.clone(),
        );
    }
    let none: [Vec<u8>; 0] = [];
    assert_eq!(messages(Arc::new(runs.slice(0, 0)), text), none);
}

#[test]
fn a_dictionary_with_a_null_in_it_and_one_with_unused_values() {
    let keys = Int32Array::from(vec![Some(0), Some(1), None, Some(0)]);
    // Nobody refers to the last value, which no INT64 holds.
    let values = UInt64Array::from(vec![Some(7), None, Some(u64::MAX)]);
    let array = DictionaryArray::<Int32Type>::new(keys, Arc::new(values));
    same(
        Arc::new(array),
        Arc::new(Int64Array::from(vec![Some(7), None, None, Some(7)])),
        nullable("c", FieldType::Int64),
    );
}

fn lists() -> ListArray {
    ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1), Some(2)]),
        None,
        Some(vec![]),
        Some(vec![Some(3), Some(4)]),
    ])
}

#[test]
fn lists_of_every_layout() {
    let expected = Arc::new(lists()) as ArrayRef;
    let field = repeated("c", FieldType::Int64);
    let item = || Arc::new(ArrowField::new("element", DataType::Int64, true));
    for layout in [
        DataType::LargeList(item()),
        DataType::ListView(item()),
        DataType::LargeListView(item()),
    ] {
        let array = cast(&expected, &layout).unwrap();
        same(Arc::clone(&array), Arc::clone(&expected), field.clone());
        same(array.slice(2, 2), expected.slice(2, 2), field.clone());
    }
    same(expected.slice(1, 3), expected.slice(1, 3), field.clone());
    // Views in another order than their elements, one of which nobody views.
    let views = ListViewArray::new(
        item(),
        ScalarBuffer::from(vec![3, 0, 0, 1]),
        ScalarBuffer::from(vec![2, 9, 0, 2]),
        Arc::new(Int64Array::from(vec![99, 3, 4, 1, 2, 0, 0, 0, 0])),
        Some(vec![true, false, true, true].into()),
    );
    same(Arc::new(views), Arc::clone(&expected), field.clone());
    let fixed = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(
        vec![
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![Some(3), Some(4)]),
        ],
        2,
    );
    let plain = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1), Some(2)]),
        None,
        Some(vec![Some(3), Some(4)]),
    ]);
    same(
        Arc::new(fixed.clone()),
        Arc::new(plain.clone()),
        field.clone(),
    );
    same(
        Arc::new(fixed.slice(1, 2)),
        Arc::new(plain.slice(1, 2)),
        field,
    );
}

#[test]
fn what_a_null_list_holds_is_not_written() {
    let hiding = ListArray::new(
        Arc::new(ArrowField::new("item", DataType::UInt64, true)),
        OffsetBuffer::from_lengths([1, 2, 1]),
        // No INT64, and an element that is NULL.
        Arc::new(UInt64Array::from(vec![
            Some(1),
            Some(u64::MAX),
            None,
            Some(2),
        ])),
        Some(vec![true, false, true].into()),
    );
    let plain = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1)]),
        None,
        Some(vec![Some(2)]),
    ]);
    same(
        Arc::new(hiding),
        Arc::new(plain),
        repeated("c", FieldType::Int64),
    );
}

#[test]
fn null_lists_arrive_as_empty_ones() {
    let sent = arrow_column(Arc::new(lists()), repeated("c", FieldType::Int64));
    assert_eq!(sent.null_count(), 0);
    assert_eq!(sent.as_list::<i32>().value(1).len(), 0);
}

#[test]
fn what_a_null_struct_holds_is_not_written() {
    let numbers = Arc::new(UInt64Array::from(vec![Some(1), Some(u64::MAX), None])) as ArrayRef;
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1)]),
        Some(vec![None]),
        None,
    ]);
    let deep = StructArray::from(vec![(
        Arc::new(ArrowField::new("n", DataType::UInt64, true)),
        Arc::clone(&numbers),
    )]);
    let dictionary: DictionaryArray<Int32Type> = vec!["a", "b", "c"].into_iter().collect();
    let fields = vec![
        ArrowField::new("n", DataType::UInt64, true),
        ArrowField::new("l", lists.data_type().clone(), true),
        ArrowField::new("deep", deep.data_type().clone(), true),
        ArrowField::new("d", dictionary.data_type().clone(), true),
    ];
    let structs = StructArray::new(
        fields.into(),
        vec![
            numbers,
            Arc::new(lists),
            Arc::new(deep),
            Arc::new(dictionary),
        ],
        Some(vec![true, false, false].into()),
    );
    let column = nullable(
        "c",
        FieldType::Struct(vec![
            required("n", FieldType::Int64),
            repeated("l", FieldType::Int64),
            required(
                "deep",
                FieldType::Struct(vec![required("n", FieldType::Int64)]),
            ),
            nullable("d", FieldType::String),
        ]),
    );
    let written = [
        vec![0x0a, 11, 0x08, 1, 0x10, 1, 0x1a, 2, 0x08, 1, 0x22, 1, b'a'],
        vec![],
        vec![],
    ];
    assert_eq!(messages(Arc::new(structs.clone()), column.clone()), written);
    let sent = arrow_column(Arc::new(structs), column);
    let sent = sent.as_struct();
    assert_eq!(sent.null_count(), 2);
    assert_eq!(sent.column(0).null_count(), 2);
}

#[test]
fn numbers_of_other_widths() {
    let int = nullable("c", FieldType::Int64);
    let whole = Arc::new(Int64Array::from(vec![Some(5), None, Some(100)])) as ArrayRef;
    for layout in [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal32(5, 2),
        DataType::Decimal64(5, 1),
        DataType::Decimal128(38, 9),
        DataType::Decimal256(50, 20),
    ] {
        let array = cast(&whole, &layout).unwrap();
        same(Arc::clone(&array), Arc::clone(&whole), int.clone());
        let floats = cast(&whole, &DataType::Float64).unwrap();
        same(
            Arc::clone(&array),
            floats,
            nullable("c", FieldType::Float64),
        );
        for decimal in [FieldType::Numeric(None), FieldType::BigNumeric(None)] {
            same(
                Arc::clone(&array),
                Arc::clone(&whole),
                nullable("c", decimal),
            );
        }
    }
    // Negative scales, and floating point numbers by their own digits.
    let hundreds = Decimal32Array::from(vec![12])
        .with_precision_and_scale(4, -2)
        .unwrap();
    same(
        Arc::new(hundreds),
        Arc::new(Int64Array::from(vec![1200])),
        int,
    );
    same(
        Arc::new(Float32Array::from(vec![0.1])),
        Arc::new(StringArray::from(vec!["0.1"])),
        nullable("c", FieldType::Numeric(None)),
    );
    same(
        Arc::new(StringViewArray::from(vec!["-1.25e-2", " +12.50 ", "0e99"])),
        Arc::new(StringArray::from(vec!["-0.0125", "12.5", "0"])),
        nullable("c", FieldType::BigNumeric(None)),
    );
}

#[test]
fn times_of_other_units() {
    let timestamp = nullable("c", FieldType::Timestamp(TimestampDigits::Six));
    let nanos = TimestampNanosecondArray::from(vec![Some(-1_000), None, Some(86_400_000_000_000)]);
    let micros = Arc::new(Int64Array::from(vec![Some(-1), None, Some(86_400_000_000)]));
    let micros = cast(
        &(micros as ArrayRef),
        &DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None),
    )
    .unwrap();
    same(
        Arc::new(nanos.clone()),
        Arc::clone(&micros),
        timestamp.clone(),
    );
    same(
        Arc::new(nanos.clone().with_timezone("+02:00")),
        Arc::clone(&micros),
        timestamp.clone(),
    );
    same(
        Arc::new(nanos),
        Arc::clone(&micros),
        nullable("c", FieldType::DateTime),
    );
    let texts = StringArray::from(vec![
        Some("1969-12-31T23:59:59.999999"),
        None,
        Some("1970-01-02 00:00:00.000000000"),
    ]);
    same(
        Arc::new(texts.clone()),
        Arc::clone(&micros),
        nullable("c", FieldType::DateTime),
    );
    same(Arc::new(texts), micros, timestamp.clone());
    same(
        Arc::new(Date64Array::from(vec![86_400_000])),
        Arc::new(StringArray::from(vec!["1970-01-02T02:00:00+02:00"])),
        timestamp,
    );
    same(
        Arc::new(Date64Array::from(vec![86_400_000])),
        Arc::new(StringArray::from(vec!["1970-01-02"])),
        nullable("c", FieldType::Date),
    );
    same(
        Arc::new(Int32Array::from(vec![-719_162])),
        Arc::new(StringArray::from(vec!["0001-01-01"])),
        nullable("c", FieldType::Date),
    );
    same(
        Arc::new(Time32SecondArray::from(vec![86_399])),
        Arc::new(StringArray::from(vec!["23:59:59"])),
        nullable("c", FieldType::Time),
    );
}

#[test]
fn a_column_of_nulls_fits_everywhere() {
    let nulls = || Arc::new(NullArray::new(2)) as ArrayRef;
    for field_type in [
        FieldType::Int64,
        FieldType::Json,
        FieldType::Range(crate::types::RangeElement::DateTime),
        FieldType::Struct(vec![
            required("x", FieldType::Int64),
            repeated("y", FieldType::Struct(vec![nullable("z", FieldType::Date)])),
        ]),
    ] {
        let field = nullable("c", field_type.clone());
        assert_eq!(messages(nulls(), field.clone()), [b"", b""]);
        assert_eq!(arrow_column(nulls(), field).null_count(), 2, "{field_type}");
        let field = repeated("c", field_type);
        assert_eq!(messages(nulls(), field.clone()), [b"", b""]);
        assert_eq!(arrow_column(nulls(), field).null_count(), 0);
    }
}

/// `{"a": 1, "b": NULL}`, NULL, `{}`.
fn map() -> MapArray {
    let keys = Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef;
    let values = Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef;
    let fields = vec![
        ArrowField::new("keys", DataType::Utf8, false),
        ArrowField::new("values", DataType::Int64, true),
    ];
    let entries = StructArray::new(fields.into(), vec![keys, values], None);
    MapArray::new(
        Arc::new(ArrowField::new(
            "entries",
            entries.data_type().clone(),
            false,
        )),
        OffsetBuffer::from_lengths([2, 0, 0]),
        entries,
        Some(vec![true, false, true].into()),
        false,
    )
}

#[test]
fn a_map_is_an_array_of_keys_and_values() {
    let fields = vec![
        // In another order than a map has them.
        nullable("value", FieldType::Int64),
        required("key", FieldType::String),
    ];
    let entries = [0x0a, 5, 0x0a, 1, b'a', 0x10, 1, 0x0a, 3, 0x0a, 1, b'b'];
    let column = repeated("c", FieldType::Struct(fields));
    assert_eq!(
        messages(Arc::new(map()), column),
        [entries.to_vec(), vec![], vec![]]
    );
}

#[test]
fn a_marked_struct_becomes_json_text() {
    let arrays: Vec<(&str, ArrayRef)> = vec![
        ("t", Arc::new(StringViewArray::from(vec!["a\"\\\n\u{1}é"]))),
        ("i", Arc::new(UInt64Array::from(vec![u64::MAX]))),
        ("f", Arc::new(Float32Array::from(vec![0.1]))),
        (
            "big",
            Arc::new(arrow::array::Float64Array::from(vec![1e300])),
        ),
        (
            "dec",
            Arc::new(
                Decimal32Array::from(vec![-5])
                    .with_precision_and_scale(9, 3)
                    .unwrap(),
            ),
        ),
        ("bytes", Arc::new(BinaryArray::from(vec![&b"\xff\xfe"[..]]))),
        (
            "day",
            Arc::new(arrow::array::Date32Array::from(vec![19_782])),
        ),
        ("clock", Arc::new(Time32SecondArray::from(vec![3_723]))),
        (
            "moment",
            Arc::new(TimestampNanosecondArray::from(vec![-1]).with_timezone("UTC")),
        ),
        ("civil", Arc::new(TimestampNanosecondArray::from(vec![0]))),
        ("no", Arc::new(Int64Array::from(vec![None::<i64>]))),
        ("list", Arc::new(lists().slice(0, 1))),
        ("map", Arc::new(map().slice(0, 1))),
        ("b", Arc::new(arrow::array::BooleanArray::from(vec![true]))),
    ];
    let fields: Vec<_> = arrays
        .iter()
        .map(|(name, array)| ArrowField::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = arrays.into_iter().map(|(_, array)| array).collect();
    let array = StructArray::new(fields.into(), arrays, None);
    let marks = FieldMarks {
        json: vec!["C".to_string()],
        geography: vec![],
    };
    let field = nullable("c", FieldType::Json);
    let text = arrow_marked(Arc::new(array), field, &marks);
    assert_eq!(
        text.as_string::<i32>().value(0),
        concat!(
            r#"{"t":"a\"\\\n\u0001é","i":18446744073709551615,"f":0.1,"big":1e300,"dec":-0.005,"#,
            r#""bytes":"//4=","day":"2024-02-29","clock":"01:02:03","#,
            r#""moment":"1969-12-31T23:59:59.999999999Z","civil":"1970-01-01T00:00:00","no":null,"#,
            r#""list":[1,2],"map":{"a":1,"b":null},"b":true}"#
        )
    );
    let map = arrow_marked(Arc::new(map()), nullable("c", FieldType::Json), &marks);
    assert_eq!(map.as_string::<i32>().value(0), r#"{"a":1,"b":null}"#);
    assert!(map.is_null(1));
    assert_eq!(map.as_string::<i32>().value(2), "{}");
}
