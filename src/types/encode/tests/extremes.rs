//! The ends of every type: refused or kept, never a panic, and both formats agree.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Date64Array, Decimal32Array, Decimal64Array,
    Decimal128Array, Decimal256Array, DurationMicrosecondArray, DurationMillisecondArray,
    DurationNanosecondArray, DurationSecondArray, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, IntervalDayTimeArray, IntervalMonthDayNanoArray,
    IntervalYearMonthArray, StringArray, StructArray, Time32MillisecondArray, Time32SecondArray,
    Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow::compute::nullif;
use arrow::datatypes::{Field as ArrowField, IntervalDayTime, IntervalMonthDayNano, i256};

use super::*;
use crate::types::{DecimalParameters, TimestampDigits};

/// Arrays with the ends of each type.
fn ends() -> Vec<ArrayRef> {
    let mut arrays: Vec<ArrayRef> = Vec::new();
    macro_rules! signed {
        ($native:ty: $($array:ty),*) => {$(
            let values = vec![<$native>::MIN, -1, 0, 1, <$native>::MAX];
            arrays.push(Arc::new(<$array>::from(values)));
        )*};
    }
    macro_rules! unsigned {
        ($($native:ty: $array:ty),*) => {$(
            let values = vec![<$native>::MIN, 0, 1, <$native>::MAX / 2, <$native>::MAX];
            arrays.push(Arc::new(<$array>::from(values)));
        )*};
    }
    signed!(i8: Int8Array);
    signed!(i16: Int16Array);
    signed!(i32: Int32Array, Date32Array, Time32SecondArray, Time32MillisecondArray,
        IntervalYearMonthArray);
    signed!(i64: Int64Array, Date64Array, Time64MicrosecondArray, Time64NanosecondArray,
        TimestampSecondArray, TimestampMillisecondArray, TimestampMicrosecondArray,
        TimestampNanosecondArray, DurationSecondArray, DurationMillisecondArray,
        DurationMicrosecondArray, DurationNanosecondArray);
    unsigned!(u8: UInt8Array, u16: UInt16Array, u32: UInt32Array, u64: UInt64Array);
    for (digits, scale) in [(9, 0), (9, 9), (9, -9)] {
        let array = Decimal32Array::from(vec![i32::MIN, -1, 0, 1, i32::MAX]);
        arrays.push(Arc::new(
            array.with_precision_and_scale(digits, scale).unwrap(),
        ));
    }
    for (digits, scale) in [(18, 0), (18, 18), (18, -18)] {
        let array = Decimal64Array::from(vec![i64::MIN, -1, 0, 1, i64::MAX]);
        arrays.push(Arc::new(
            array.with_precision_and_scale(digits, scale).unwrap(),
        ));
    }
    for scale in [0, 9, 38, -38] {
        let array = Decimal128Array::from(vec![i128::MIN, -1, 0, 1, i128::MAX]);
        arrays.push(Arc::new(array.with_precision_and_scale(38, scale).unwrap()));
    }
    for scale in [0, 9, 38, 76, -76] {
        let values = vec![i256::MIN, i256::MINUS_ONE, i256::ZERO, i256::ONE, i256::MAX];
        let array = Decimal256Array::from(values);
        arrays.push(Arc::new(array.with_precision_and_scale(76, scale).unwrap()));
    }
    arrays.push(Arc::new(Float32Array::from(vec![
        f32::MIN,
        f32::NAN,
        -0.0,
        f32::MIN_POSITIVE,
        f32::INFINITY,
    ])));
    arrays.push(Arc::new(Float64Array::from(vec![
        f64::MIN,
        f64::NAN,
        -0.0,
        5e-324,
        f64::INFINITY,
    ])));
    arrays.push(Arc::new(IntervalDayTimeArray::from(vec![
        IntervalDayTime::MIN,
        IntervalDayTime::MINUS_ONE,
        IntervalDayTime::ZERO,
        IntervalDayTime::ONE,
        IntervalDayTime::MAX,
    ])));
    arrays.push(Arc::new(IntervalMonthDayNanoArray::from(vec![
        IntervalMonthDayNano::MIN,
        IntervalMonthDayNano::MINUS_ONE,
        IntervalMonthDayNano::ZERO,
        IntervalMonthDayNano::ONE,
        IntervalMonthDayNano::MAX,
    ])));
    arrays.push(Arc::new(BooleanArray::from(vec![true; 5])));
    arrays.push(Arc::new(StringArray::from(vec![
        "",
        "-",
        ".",
        "99999-99-99T99:99:99.999999999999Z",
        "9223372036854775807-9223372036854775807 9223372036854775807 9223372036854775807:0:0",
    ])));
    arrays
}

fn columns() -> Vec<FieldType> {
    let parameters = |precision, scale| Some(DecimalParameters { precision, scale });
    vec![
        FieldType::Int64,
        FieldType::Float64,
        FieldType::Bool,
        FieldType::String,
        FieldType::Bytes,
        FieldType::Numeric(None),
        FieldType::Numeric(parameters(1, 0)),
        FieldType::Numeric(parameters(38, 9)),
        FieldType::BigNumeric(None),
        FieldType::BigNumeric(parameters(76, 38)),
        FieldType::BigNumeric(parameters(1, 1)),
        FieldType::Date,
        FieldType::Time,
        FieldType::DateTime,
        FieldType::Timestamp(TimestampDigits::Six),
        FieldType::Interval,
        FieldType::Json,
    ]
}

/// What becomes of the rows, which has to be the same in both formats.
fn outcome(array: &ArrayRef, field: &Field, marks: &FieldMarks) -> Option<Vec<usize>> {
    let mut outcomes = FORMATS.into_iter().map(|format| {
        let columns = vec![("c", Arc::clone(array))];
        let rows = marked(columns, vec![field.clone()], format, marks).ok()?;
        assert_eq!(rows.len() + rows.errors().len(), array.len());
        assert_eq!(rows.pieces(usize::MAX).unwrap().oversize, []);
        Some(rows.errors().iter().map(|error| error.row).collect())
    });
    let (protobuf, arrow) = (outcomes.next().unwrap(), outcomes.next().unwrap());
    assert_eq!(protobuf, arrow, "{} as {field:?}", array.data_type());
    protobuf
}

#[test]
fn ends_of_all_types_in_columns_of_all_types() {
    let marks = FieldMarks::default();
    let mut planned = 0;
    for array in ends() {
        for field_type in columns() {
            let field = nullable("c", field_type);
            let Some(refused) = outcome(&array, &field, &marks) else {
                continue;
            };
            planned += 1;
            // Where a value is NULL, what stands behind it is nobody's.
            let mask = BooleanArray::from(vec![true, false, true, false, true]);
            let half = nullif(&array, &mask).unwrap();
            let left: Vec<_> = refused.into_iter().filter(|row| row % 2 == 1).collect();
            assert_eq!(outcome(&half, &field, &marks), Some(left));
        }
    }
    assert!(planned > 150, "{planned} conversions");
}

#[test]
fn ends_of_all_types_in_json() {
    let marks = FieldMarks {
        json: vec!["c".to_string()],
        geography: vec![],
    };
    let mut planned = 0;
    for array in ends() {
        let field = Arc::new(ArrowField::new("x", array.data_type().clone(), true));
        let structs = Arc::new(StructArray::from(vec![(field, array)])) as ArrayRef;
        let column = nullable("c", FieldType::Json);
        planned += usize::from(outcome(&structs, &column, &marks).is_some());
    }
    assert!(planned > 30, "{planned} types");
}
