//! What cannot be kept is refused, in the same words by both formats.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date32Array, Date64Array, Decimal128Array, Decimal256Array,
    DurationNanosecondArray, Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray,
    MapArray, NullArray, StringArray, StructArray, Time64MicrosecondArray, Time64NanosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field as ArrowField, Int64Type, IntervalMonthDayNano, i256};

use super::super::plan;
use super::*;
use crate::error::ErrorKind;
use crate::types::{DecimalParameters, RangeElement, TimestampDigits};

const TIMESTAMP: FieldType = FieldType::Timestamp(TimestampDigits::Six);

/// A column whose row `bad` is refused in words that contain `why`.
#[track_caller]
fn refused_in(array: ArrayRef, field: Field, bad: usize, path: &str, why: &str) {
    let rows = array.len();
    for format in FORMATS {
        let encoded = encode(vec![("c", Arc::clone(&array))], vec![field.clone()], format).unwrap();
        let [error] = encoded.errors() else {
            panic!("one row is refused, not {:?}", encoded.errors())
        };
        assert_eq!((error.row, error.column.as_str()), (bad, path));
        assert!(error.message.contains(why), "{error}");
        assert!(
            error
                .to_string()
                .starts_with(&format!("row {bad}, column '{path}': "))
        );
        // The others keep their order and their numbers.
        let kept: Vec<_> = (0..encoded.len())
            .map(|at| encoded.row_number(at))
            .collect();
        let expected: Vec<_> = (0..rows).filter(|row| *row != bad).collect();
        assert_eq!(kept, expected);
    }
}

#[track_caller]
fn refused(array: impl Array + 'static, field_type: FieldType, bad: usize, why: &str) {
    refused_in(Arc::new(array), nullable("c", field_type), bad, "c", why);
}

#[test]
fn integers_and_floats() {
    refused(
        UInt64Array::from(vec![1, 1 << 63, (1 << 63) - 1]),
        FieldType::Int64,
        1,
        "9223372036854775808",
    );
    for bad in [0.5, f64::NAN, f64::INFINITY, 9_223_372_036_854_775_808.0] {
        let floats = Float64Array::from(vec![1.0, bad]);
        refused(floats, FieldType::Int64, 1, "whole number");
    }
    for bad in [i64::MAX, (1 << 53) + 1] {
        let ints = Int64Array::from(vec![1 << 53, bad, i64::MIN]);
        refused(ints, FieldType::Float64, 1, &bad.to_string());
    }
    refused(
        UInt64Array::from(vec![1 << 63, u64::MAX]),
        FieldType::Float64,
        1,
        "more digits",
    );
    let decimals = Decimal128Array::from(vec![100, 12_345_678_901_234_567_891])
        .with_precision_and_scale(38, 2)
        .unwrap();
    refused(
        decimals,
        FieldType::Float64,
        1,
        "123456789012345678.91 has more digits",
    );
    let decimals = Decimal128Array::from(vec![100, 101])
        .with_precision_and_scale(38, 2)
        .unwrap();
    refused(decimals, FieldType::Int64, 1, "1.01 is no whole number");
}

#[test]
fn decimals_out_of_range_or_with_more_digits() {
    let scaled = |values: Vec<i128>, scale| {
        Decimal128Array::from(values)
            .with_precision_and_scale(38, scale)
            .unwrap()
    };
    let numeric = || FieldType::Numeric(None);
    refused(scaled(vec![10, 11], 10), numeric(), 1, "0.0000000011");
    refused(scaled(vec![-10, -11], 10), numeric(), 1, "-0.0000000011");
    let limit = 10_i128.pow(29);
    refused(
        scaled(vec![limit - 1, limit], 0),
        numeric(),
        1,
        "29 digits before the point and 9 behind it",
    );
    refused(scaled(vec![1 - limit, -limit], 0), numeric(), 1, "NUMERIC");
    let short = || {
        FieldType::Numeric(Some(DecimalParameters {
            precision: 4,
            scale: 2,
        }))
    };
    refused(scaled(vec![9_999, 10_000], 2), short(), 1, "100.00");
    refused(scaled(vec![1_000, 1_001], 3), short(), 1, "1.001");
    let wide = Decimal256Array::from(vec![i256::ONE, i256::MAX])
        .with_precision_and_scale(76, 37)
        .unwrap();
    refused(wide, FieldType::BigNumeric(None), 1, "5.7896e38");
    for bad in [f64::NAN, f64::NEG_INFINITY, 1e-10, 1e29, 1e300] {
        let floats = Float64Array::from(vec![0.1, bad, -1e28]);
        refused(floats, numeric(), 1, &bad.to_string());
    }
    for bad in [
        "",
        "1,5",
        "x",
        "1e-10",
        "1e400",
        "--1",
        "1e99999999999",
        "é",
    ] {
        let texts = StringArray::from(vec!["-1.5e3", bad]);
        refused(texts, numeric(), 1, &format!("'{bad}'"));
    }
}

#[test]
fn times_that_are_finer_or_outside() {
    let nanos = |values: Vec<i64>| TimestampNanosecondArray::from(values);
    for field_type in [TIMESTAMP, FieldType::DateTime] {
        refused(
            nanos(vec![1_000, 1_704_110_400_123_456_789]),
            field_type.clone(),
            1,
            "2024-01-01 12:00:00.123456789 is finer than the microseconds",
        );
        let first = -62_135_596_800_000_000;
        let last = 253_402_300_799_999_999;
        refused(
            TimestampMicrosecondArray::from(vec![first, first - 1, last]),
            field_type.clone(),
            1,
            "year 1",
        );
        refused(
            TimestampMicrosecondArray::from(vec![first, last, last + 1]),
            field_type.clone(),
            2,
            "year 9999",
        );
        refused(
            TimestampSecondArray::from(vec![0, i64::MAX]),
            field_type.clone(),
            1,
            "seconds after",
        );
        for bad in [
            "2024-01-01T00:00:00.1234567",
            "2024-13-01",
            "",
            "2024-06-30 23:59:60",
        ] {
            let texts = StringArray::from(vec!["2024-01-01T00:00:00.123456000", bad]);
            refused(texts, field_type.clone(), 1, &format!("'{bad}'"));
        }
    }
    // A civil time has no zone.
    refused(
        StringArray::from(vec!["2024-01-01T00:00:00", "2024-01-01T00:00:00Z"]),
        FieldType::DateTime,
        1,
        "DATETIME",
    );
    refused(
        Date32Array::from(vec![2_932_896, 2_932_897]),
        FieldType::Date,
        1,
        "DATE",
    );
    for bad in [i32::MAX, i32::MIN, 2_932_897] {
        let days = Date32Array::from(vec![2_932_896, bad]);
        refused(days, FieldType::DateTime, 1, "year 9999");
    }
    refused(
        Date64Array::from(vec![0, 1]),
        FieldType::Date,
        1,
        "no whole day",
    );
    refused(
        StringArray::from(vec!["2024-01-01", "2024-01-01T12:00:00"]),
        FieldType::Date,
        1,
        "2024-01-01T12:00:00",
    );
    refused(
        Time64NanosecondArray::from(vec![1_000, 1_001]),
        FieldType::Time,
        1,
        "1001 ns",
    );
    for bad in [-1, 86_400_000_000] {
        refused(
            Time64MicrosecondArray::from(vec![0, bad]),
            FieldType::Time,
            1,
            "TIME",
        );
    }
    refused(
        StringArray::from(vec!["23:59:59.999999", "23:59:59.9999999"]),
        FieldType::Time,
        1,
        "TIME",
    );
}

#[test]
fn intervals_that_are_finer_or_too_long() {
    for bad in [
        (120_001, 0, 0),
        (0, -3_660_001, 0),
        (0, 0, 1),
        (i32::MIN, 0, 0),
    ] {
        let intervals = IntervalMonthDayNanoArray::from(vec![
            IntervalMonthDayNano::new(120_000, 3_660_000, -1_000),
            IntervalMonthDayNano::new(bad.0, bad.1, bad.2),
        ]);
        refused(intervals, FieldType::Interval, 1, "INTERVAL");
    }
    refused(
        DurationNanosecondArray::from(vec![1_000, 1_001]),
        FieldType::Interval,
        1,
        "INTERVAL",
    );
    refused(
        StringArray::from(vec!["1-2 3 4:5:6.5", "1 day"]),
        FieldType::Interval,
        1,
        "'1 day'",
    );
}

#[test]
fn nulls_where_none_may_be() {
    let ints = || Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as ArrayRef;
    let field = required("c", FieldType::Int64);
    refused_in(ints(), field, 1, "c", "REQUIRED");
    let nulls = encode(
        vec![("c", Arc::new(NullArray::new(2)))],
        vec![required("c", FieldType::Int64)],
        RowFormat::Protobuf,
    )
    .unwrap();
    assert_eq!((nulls.len(), nulls.errors().len()), (0, 2));
    let structs = StructArray::from(vec![(
        Arc::new(ArrowField::new("x", DataType::Int64, true)),
        ints(),
    )]);
    let column = nullable(
        "c",
        FieldType::Struct(vec![required("X", FieldType::Int64)]),
    );
    refused_in(Arc::new(structs), column, 1, "c.X", "REQUIRED");
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1), Some(2)]),
        Some(vec![]),
        None,
        Some(vec![Some(3), None, Some(4)]),
        Some(vec![Some(5)]),
    ]);
    let column = repeated("c", FieldType::Int64);
    refused_in(Arc::new(lists), column, 3, "c", "NULL element");
}

#[test]
fn rows_are_found_through_arrays_in_structs_in_arrays() {
    // Row 2 holds the struct whose inner array has the integer that is too large.
    let inner = ListArray::new(
        Arc::new(ArrowField::new("item", DataType::UInt64, true)),
        OffsetBuffer::from_lengths([1, 0, 2, 1]),
        Arc::new(UInt64Array::from(vec![1, 2, u64::MAX, 3])),
        None,
    );
    let structs = StructArray::from(vec![(
        Arc::new(ArrowField::new("v", inner.data_type().clone(), true)),
        Arc::new(inner) as ArrayRef,
    )]);
    let outer = ListArray::new(
        Arc::new(ArrowField::new("item", structs.data_type().clone(), true)),
        OffsetBuffer::from_lengths([1, 0, 2, 0, 1]),
        Arc::new(structs),
        None,
    );
    let column = repeated(
        "c",
        FieldType::Struct(vec![repeated("v", FieldType::Int64)]),
    );
    refused_in(
        Arc::new(outer.clone()),
        column.clone(),
        2,
        "c.v",
        "18446744073709551615",
    );
    refused_in(
        Arc::new(outer.slice(1, 4)),
        column,
        1,
        "c.v",
        "18446744073709551615",
    );
}

#[test]
fn ranges_that_end_before_they_start() {
    let dates = |values: Vec<i32>| Arc::new(Date32Array::from(values)) as ArrayRef;
    let ranges = StructArray::from(vec![
        (
            Arc::new(ArrowField::new("start", DataType::Date32, true)),
            dates(vec![1, 2, 3]),
        ),
        (
            Arc::new(ArrowField::new("end", DataType::Date32, true)),
            dates(vec![2, 2, 4]),
        ),
    ]);
    refused(
        ranges,
        FieldType::Range(RangeElement::Date),
        1,
        "before it ends",
    );
}

#[test]
fn json_that_would_be_rounded() {
    refused(
        StringArray::from(vec!["[18446744073709551615]", "[18446744073709551617]"]),
        FieldType::Json,
        1,
        "18446744073709551617",
    );
}

fn json_marks(paths: &[&str]) -> FieldMarks {
    FieldMarks {
        json: paths.iter().map(ToString::to_string).collect(),
        geography: vec![],
    }
}

#[track_caller]
fn json_refused(array: ArrayRef, why: &str) {
    for format in FORMATS {
        let encoded = marked(
            vec![("c", Arc::clone(&array))],
            vec![nullable("c", FieldType::Json)],
            format,
            &json_marks(&["c"]),
        )
        .unwrap();
        let errors = encoded.errors();
        assert_eq!((errors.len(), encoded.len()), (1, array.len() - 1));
        assert_eq!(errors[0].row, array.len() - 1);
        assert!(errors[0].message.contains(why), "{}", errors[0]);
    }
}

fn entry_fields() -> Vec<ArrowField> {
    vec![
        ArrowField::new("key", DataType::Utf8, false),
        ArrowField::new("value", DataType::Int64, true),
    ]
}

#[test]
fn structs_without_a_json_form() {
    let of = |array: ArrayRef| {
        let field = ArrowField::new("x", array.data_type().clone(), true);
        Arc::new(StructArray::from(vec![(Arc::new(field), array)])) as ArrayRef
    };
    json_refused(of(Arc::new(Float64Array::from(vec![1.0, f64::NAN]))), "NaN");
    let decimals = Decimal128Array::from(vec![15, 12_345_678_901_234_567_891])
        .with_precision_and_scale(38, 1)
        .unwrap();
    json_refused(of(Arc::new(decimals)), "1234567890123456789.1");
    json_refused(of(Arc::new(Date32Array::from(vec![0, 2_932_897]))), "9999");
    let keys = Arc::new(StringArray::from(vec!["a", "b", "a", "a"])) as ArrayRef;
    let values = Arc::new(Int64Array::from(vec![1, 2, 3, 4])) as ArrayRef;
    let entries = StructArray::new(entry_fields().into(), vec![keys, values], None);
    let map = MapArray::new(
        Arc::new(ArrowField::new("e", entries.data_type().clone(), false)),
        OffsetBuffer::from_lengths([2, 2]),
        entries,
        None,
        false,
    );
    json_refused(Arc::new(map), "'a' twice");
    // One with more entries than are compared one by one.
    let keys: Vec<String> = (0..100).map(|key| (key % 99).to_string()).collect();
    let keys = Arc::new(StringArray::from(keys)) as ArrayRef;
    let values = Arc::new(Int64Array::from(vec![0; 100])) as ArrayRef;
    let entries = StructArray::new(entry_fields().into(), vec![keys, values], None);
    let map = MapArray::new(
        Arc::new(ArrowField::new("e", entries.data_type().clone(), false)),
        OffsetBuffer::from_lengths([0, 100]),
        entries,
        None,
        false,
    );
    json_refused(Arc::new(map), "'0' twice");
}

/// A plan that is refused in words that contain all of `why`.
#[track_caller]
fn unplannable(given: Vec<ArrowField>, fields: Vec<Field>, marks: &FieldMarks, why: &[&str]) {
    for format in FORMATS {
        let schema = Schema::new(given.clone());
        let error = RowEncoder::plan(&schema, &table(fields.clone()), format, marks).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        for why in why {
            assert!(error.message().contains(why), "{error}");
        }
    }
}

#[test]
fn all_columns_that_are_wrong_are_named_at_once() {
    let none = FieldMarks::default();
    let field = |name: &str, data_type| ArrowField::new(name, data_type, true);
    let mut filled = required("filled", FieldType::Int64);
    filled.default_value_expression = Some("1".to_string());
    unplannable(
        vec![
            field("extra", DataType::Int64),
            field(
                "S",
                DataType::Struct(vec![field("y", DataType::Date32)].into()),
            ),
            field("a", DataType::Utf8),
            field("A", DataType::Int64),
            field("list", DataType::Int64),
            field("unknown", DataType::Int64),
        ],
        vec![
            nullable(
                "s",
                FieldType::Struct(vec![nullable("x", FieldType::Int64)]),
            ),
            nullable("a", FieldType::Int64),
            repeated("list", FieldType::Int64),
            nullable("unknown", FieldType::Unsupported("VECTOR".to_string())),
            required("needed", FieldType::Date),
            filled,
            nullable("left_out", FieldType::Date),
        ],
        &none,
        &[
            "column 'extra': the table has no such column for values of type Int64",
            "column 's.y': the column has no such field",
            "column 'a': values of type Utf8 cannot become INT64",
            "column 'a': it is given twice",
            "column 'list': values of type Int64 cannot become ARRAY<INT64>; give a list",
            "column 'unknown': its type VECTOR is not known",
            "column 'needed': it is REQUIRED, of type DATE, and not given",
        ],
    );
    let schema = Schema::new(vec![field("extra", DataType::Int64)]);
    let error = RowEncoder::plan(&schema, &table(vec![]), RowFormat::Arrow, &none).unwrap_err();
    assert!(!error.message().contains("filled") && !error.message().contains("left_out"));
}

#[test]
fn types_that_bigquery_has_no_room_for() {
    let none = FieldMarks::default();
    let list = |of: DataType| DataType::List(Arc::new(ArrowField::new("item", of, true)));
    let zoned = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into()));
    for (from, field) in [
        (list(list(DataType::Int64)), repeated("c", FieldType::Int64)),
        (list(DataType::Int64), nullable("c", FieldType::Int64)),
        (DataType::Boolean, nullable("c", FieldType::Int64)),
        (DataType::Int64, nullable("c", FieldType::Bool)),
        (DataType::Int64, nullable("c", FieldType::String)),
        (DataType::Binary, nullable("c", FieldType::String)),
        (DataType::Utf8, nullable("c", FieldType::Bytes)),
        (DataType::Binary, nullable("c", FieldType::Geography)),
        (zoned.clone(), nullable("c", FieldType::DateTime)),
        (zoned, nullable("c", FieldType::Date)),
        (DataType::Int64, nullable("c", TIMESTAMP)),
        (DataType::Int64, nullable("c", FieldType::Json)),
        (
            DataType::Utf8,
            nullable("c", FieldType::Range(RangeElement::Date)),
        ),
    ] {
        let given = vec![ArrowField::new("c", from, true)];
        unplannable(given, vec![field], &none, &["column 'c'", "cannot become"]);
    }
}

#[test]
fn marks_that_do_not_fit() {
    let structs = DataType::Struct(vec![ArrowField::new("x", DataType::Int64, true)].into());
    let entries = DataType::Struct(
        vec![
            ArrowField::new("key", DataType::Int64, false),
            ArrowField::new("value", DataType::Int64, true),
        ]
        .into(),
    );
    let map = DataType::Map(Arc::new(ArrowField::new("entries", entries, false)), false);
    let json = || nullable("c", FieldType::Json);
    for (from, field, paths, why) in [
        (structs.clone(), json(), vec![], "give the JSON as text"),
        (
            structs.clone(),
            nullable(
                "c",
                FieldType::Struct(vec![nullable("x", FieldType::Int64)]),
            ),
            vec!["c"],
            "the table's column is STRUCT",
        ),
        (
            DataType::Utf8,
            nullable("c", FieldType::String),
            vec!["c"],
            "the table's column is STRING",
        ),
        (DataType::Utf8, json(), vec!["c", "d"], "'d'"),
        (map, json(), vec!["c"], "without string keys"),
        (
            DataType::Struct(
                vec![ArrowField::new(
                    "x",
                    DataType::Duration(arrow::datatypes::TimeUnit::Second),
                    true,
                )]
                .into(),
            ),
            json(),
            vec!["c"],
            "no JSON form",
        ),
    ] {
        let given = vec![ArrowField::new("c", from, true)];
        unplannable(given, vec![field], &json_marks(&paths), &[why]);
    }
    let entries = ArrowField::new("e", DataType::Struct(entry_fields().into()), false);
    let map = DataType::Map(Arc::new(entries), false);
    let stored = FieldType::Struct(vec![
        nullable("key", FieldType::String),
        nullable("value", FieldType::Int64),
    ]);
    unplannable(
        vec![ArrowField::new("c", map, true)],
        vec![repeated("c", stored)],
        &json_marks(&["c.key"]),
        &["the key of a map"],
    );
    let geography = FieldMarks {
        json: vec![],
        geography: vec!["c".to_string()],
    };
    let given = vec![ArrowField::new("c", DataType::Utf8, true)];
    let planned = |field: Field| {
        let schema = Schema::new(given.clone());
        plan::columns(
            &schema,
            &table(vec![field]),
            RowFormat::Arrow.into(),
            &geography,
        )
    };
    assert!(planned(nullable("c", FieldType::Geography)).is_ok());
    assert!(planned(nullable("c", FieldType::String)).is_err());
}

#[test]
fn a_batch_of_another_schema_is_refused() {
    let schema = Schema::new(vec![ArrowField::new("c", DataType::Int64, true)]);
    let table = table(vec![nullable("c", FieldType::Int64)]);
    let marks = FieldMarks::default();
    let encoder = RowEncoder::plan(&schema, &table, RowFormat::Protobuf, &marks).unwrap();
    let other = batch(vec![(
        "c",
        Arc::new(StringArray::from(vec!["x"])) as ArrayRef,
    )]);
    let error = encoder.encode(&other).unwrap_err();
    assert!(error.message().contains("'c'"), "{error}");
}
