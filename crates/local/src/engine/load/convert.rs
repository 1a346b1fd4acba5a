//! Arrow values as a file's reader gives them → values of BigQuery types.
//!
//! A [`FileField`] says what a column of the file is; [`convert`] turns its array
//! into one of the destination's type. Modes are not checked here.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StringBuilder, StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Date32Type, Field as ArrowField, Fields, Int64Type, TimeUnit};

use super::decimals::{decimal_texts, decimals, more_digits};
use super::reading;
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, arrow_field};
use crate::value::civil::{MAX_DATE, MAX_MICROS, MIN_DATE, MIN_MICROS};
use crate::value::geography::normalize_geography;
use crate::value::json::normalize_json;

/// A column or nested field of a file.
#[derive(Debug, Clone)]
pub(super) struct FileField {
    /// Name in the file.
    pub(super) name: String,
    /// What BigQuery makes of it when nothing else is wanted.
    pub(super) field: Field,
    /// How its Arrow values are to be read.
    pub(super) shape: Shape,
    /// The file's own name of the type, for errors.
    pub(super) type_name: String,
}

/// How Arrow values of a field are to be read.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// A scalar.
    Value(Leaf),
    /// A record, children by name.
    Record(Vec<FileField>),
    /// A list that is an ARRAY.
    List(Box<FileField>),
    /// A map that is an ARRAY of records `key`, `value`.
    Map(Box<(FileField, FileField)>),
    /// A list or a map that is a record with one REPEATED field of this name.
    Wrapped(String, Box<FileField>),
    /// A list whose elements are records with one field of this name.
    Boxed(Box<FileField>),
    /// A union of several types: a record with a field for each.
    Union(Vec<FileField>),
}

/// What the numbers of a scalar mean beyond their Arrow type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    /// What the Arrow type says.
    Plain,
    /// Integers that are values of this type, in the unit of the Arrow type that is
    /// given here.
    Logical(Logical),
    /// Bytes that are decimals, big endian.
    DecimalBytes {
        /// Digits after the point.
        scale: u8,
    },
}

/// Logical types over integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logical {
    Date,
    TimeMillis,
    TimeMicros,
    TimestampMillis,
    TimestampMicros,
    TimestampNanos,
    LocalMillis,
    LocalMicros,
    LocalNanos,
}

impl Logical {
    fn arrow(self) -> DataType {
        let timestamp = |unit, utc: bool| DataType::Timestamp(unit, utc.then(|| "UTC".into()));
        match self {
            Logical::Date => DataType::Date32,
            Logical::TimeMillis => DataType::Time32(TimeUnit::Millisecond),
            Logical::TimeMicros => DataType::Time64(TimeUnit::Microsecond),
            Logical::TimestampMillis => timestamp(TimeUnit::Millisecond, true),
            Logical::TimestampMicros => timestamp(TimeUnit::Microsecond, true),
            Logical::TimestampNanos => timestamp(TimeUnit::Nanosecond, true),
            Logical::LocalMillis => timestamp(TimeUnit::Millisecond, false),
            Logical::LocalMicros => timestamp(TimeUnit::Microsecond, false),
            Logical::LocalNanos => timestamp(TimeUnit::Nanosecond, false),
        }
    }
}

/// The words of a format's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Parquet,
    Avro,
}

impl FileKind {
    fn mismatch(self, file: &FileField, target: &Field, path: &str) -> ServiceError {
        match self {
            FileKind::Parquet => reading(format_args!(
                "Parquet column '{path}' has type {} which does not match the target cpp_type {}.",
                file.type_name,
                cpp_type(target)
            )),
            FileKind::Avro => reading(format_args!(
                "Field {path} has incompatible types. Configured schema: {}; Avro file: {}.",
                target.field_type.rest_name().to_lowercase(),
                file.type_name
            )),
        }
    }
}

fn cpp_type(field: &Field) -> &'static str {
    match field.field_type {
        FieldType::Float64 => "DOUBLE",
        FieldType::Bool => "BOOL",
        FieldType::String | FieldType::Bytes | FieldType::Json | FieldType::Geography => "STRING",
        FieldType::Numeric => "NUMERIC",
        FieldType::Bignumeric => "BIGNUMERIC",
        FieldType::Struct(_) => "MESSAGE",
        _ => "INT64",
    }
}

/// Converts values of `file` to the type of `target`, called `path` in errors.
pub(super) fn convert(
    array: &ArrayRef,
    file: &FileField,
    target: &Field,
    kind: FileKind,
    path: &str,
) -> Result<ArrayRef> {
    match (&file.shape, target.mode()) {
        (Shape::List(element), Mode::Repeated) => {
            let (offsets, values, nulls) = list_parts(array, path)?;
            repeated(offsets, nulls, &values, element, target, kind, path)
        }
        (Shape::Map(entry), Mode::Repeated) => map(array, entry, target, kind, path),
        // Measured: a list read without inference fills no ARRAY, and says nothing.
        (Shape::Wrapped(_, _), Mode::Repeated) => Ok(empty_lists(target, array.len())),
        (Shape::Wrapped(group, inner), _) => wrapped(array, group, inner, target, kind, path),
        (Shape::Boxed(inner), _) => boxed(array, inner, target, kind, path),
        (_, Mode::Repeated) => Err(kind.mismatch(file, target, path)),
        (Shape::Record(children), _) => record(array, children, file, target, kind, path),
        (Shape::Union(members), _) => union(array, members, file, target, kind, path),
        (Shape::Value(leaf), _) => value(array, *leaf, file, target, kind, path),
        (Shape::List(_) | Shape::Map(_), _) => Err(kind.mismatch(file, target, path)),
    }
}

pub(super) fn broken(path: &str, what: impl std::fmt::Display) -> ServiceError {
    reading(format_args!("column '{path}': {what}"))
}

type ListParts = (OffsetBuffer<i32>, ArrayRef, Option<NullBuffer>);

fn list_parts(array: &ArrayRef, path: &str) -> Result<ListParts> {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let parts = (
                list.offsets().clone(),
                Arc::clone(list.values()),
                list.nulls().cloned(),
            );
            Ok(parts)
        }
        DataType::Map(_, _) => {
            let map: &MapArray = array.as_map();
            let parts = (
                map.offsets().clone(),
                Arc::new(map.entries().clone()) as ArrayRef,
                map.nulls().cloned(),
            );
            Ok(parts)
        }
        other => Err(broken(path, format_args!("{other} is no list"))),
    }
}

fn repeated(
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
    values: &ArrayRef,
    element: &FileField,
    target: &Field,
    kind: FileKind,
    path: &str,
) -> Result<ArrayRef> {
    let values = convert(values, element, &target.element(), kind, path)?;
    let item = Arc::new(ArrowField::new("item", values.data_type().clone(), true));
    ListArray::try_new(item, offsets, values, nulls)
        .map(|list| Arc::new(list) as ArrayRef)
        .map_err(|e| broken(path, e))
}

fn empty_lists(target: &Field, rows: usize) -> ArrayRef {
    let element = arrow_field(&target.element());
    let item = Arc::new(ArrowField::new("item", element.data_type().clone(), true));
    Arc::new(ListArray::new(
        item,
        OffsetBuffer::new_zeroed(rows),
        new_null_array(element.data_type(), 0),
        None,
    ))
}

fn map(
    array: &ArrayRef,
    entry: &(FileField, FileField),
    target: &Field,
    kind: FileKind,
    path: &str,
) -> Result<ArrayRef> {
    let (offsets, entries, nulls) = list_parts(array, path)?;
    let entries = entries.as_struct();
    let (Some(keys), Some(values)) = (entries.columns().first(), entries.columns().get(1)) else {
        return Err(broken(path, "a map without keys and values"));
    };
    let parts = [("key", &entry.0, keys), ("value", &entry.1, values)];
    let rows = entries.len();
    let structs = record_of(&parts, target, rows, None, kind, path)?;
    let item = Arc::new(ArrowField::new("item", structs.data_type().clone(), true));
    ListArray::try_new(item, offsets, structs, nulls)
        .map(|list| Arc::new(list) as ArrayRef)
        .map_err(|e| broken(path, e))
}

/// A list as a record with one REPEATED field.
fn wrapped(
    array: &ArrayRef,
    group: &str,
    inner: &FileField,
    target: &Field,
    kind: FileKind,
    path: &str,
) -> Result<ArrayRef> {
    let nulls = array.nulls().cloned();
    let rows = array.len();
    record_of(&[(group, inner, array)], target, rows, nulls, kind, path)
}

/// The element of a list as a record with one field.
fn boxed(
    array: &ArrayRef,
    inner: &FileField,
    target: &Field,
    kind: FileKind,
    path: &str,
) -> Result<ArrayRef> {
    let parts = [(inner.name.as_str(), inner, array)];
    record_of(&parts, target, array.len(), None, kind, path)
}

fn record(
    array: &ArrayRef,
    children: &[FileField],
    file: &FileField,
    target: &Field,
    kind: FileKind,
    path: &str,
) -> Result<ArrayRef> {
    let (DataType::Struct(_), FieldType::Struct(_)) = (array.data_type(), &target.field_type)
    else {
        return Err(kind.mismatch(file, target, path));
    };
    let structs = array.as_struct();
    let parts: Vec<(&str, &FileField, &ArrayRef)> = children
        .iter()
        .zip(structs.columns())
        .map(|(child, column)| (child.name.as_str(), child, column))
        .collect();
    record_of(
        &parts,
        target,
        array.len(),
        structs.nulls().cloned(),
        kind,
        path,
    )
}

/// A record of `target`'s fields, each from the part of its name; NULL where there
/// is none.
fn record_of(
    parts: &[(&str, &FileField, &ArrayRef)],
    target: &Field,
    rows: usize,
    nulls: Option<NullBuffer>,
    kind: FileKind,
    path: &str,
) -> Result<ArrayRef> {
    let FieldType::Struct(fields) = &target.field_type else {
        let Some((_, file, _)) = parts.first() else {
            return Err(broken(path, "a record without fields"));
        };
        return Err(kind.mismatch(file, target, path));
    };
    let mut arrow = Vec::with_capacity(fields.len());
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let at = format!("{path}.{}", field.name);
        let found = parts
            .iter()
            .find(|(name, _, _)| name.eq_ignore_ascii_case(&field.name));
        let column = match found {
            Some((_, file, column)) => convert(column, file, field, kind, &at)?,
            None if field.mode() == Mode::Repeated => empty_lists(field, rows),
            None => new_null_array(arrow_field(field).data_type(), rows),
        };
        arrow.push(ArrowField::new(
            &field.name,
            column.data_type().clone(),
            true,
        ));
        columns.push(column);
    }
    StructArray::try_new_with_length(Fields::from(arrow), columns, nulls, rows)
        .map(|a| Arc::new(a) as ArrayRef)
        .map_err(|e| broken(path, e))
}

fn union(
    array: &ArrayRef,
    members: &[FileField],
    file: &FileField,
    target: &Field,
    kind: FileKind,
    path: &str,
) -> Result<ArrayRef> {
    let DataType::Union(fields, _) = array.data_type() else {
        return Err(kind.mismatch(file, target, path));
    };
    let union: &arrow::array::UnionArray = array
        .as_any()
        .downcast_ref()
        .ok_or_else(|| broken(path, "not a union"))?;
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (id, _) in fields.iter() {
        // Row `i` of member `id` is where the union holds that member, else NULL.
        let child = union.child(id);
        let rows: arrow::array::UInt32Array = (0..union.len())
            .map(|row| {
                (union.type_id(row) == id)
                    .then(|| u32::try_from(union.value_offset(row)).ok())
                    .flatten()
            })
            .collect();
        let column = arrow::compute::take(child, &rows, None).map_err(|e| broken(path, e))?;
        columns.push(column);
    }
    let non_null: Vec<&ArrayRef> = columns
        .iter()
        .filter(|column| !column.data_type().is_null())
        .collect();
    let parts: Vec<(&str, &FileField, &ArrayRef)> = members
        .iter()
        .zip(non_null)
        .map(|(member, column)| (member.name.as_str(), member, column))
        .collect();
    record_of(&parts, target, array.len(), None, kind, path)
}

fn value(
    array: &ArrayRef,
    leaf: Leaf,
    file: &FileField,
    target: &Field,
    kind: FileKind,
    path: &str,
) -> Result<ArrayRef> {
    let array = match leaf {
        Leaf::Plain => plain(array, path)?,
        Leaf::Logical(logical) => {
            let base = match logical.arrow() {
                DataType::Date32 | DataType::Time32(_) => DataType::Int32,
                _ => DataType::Int64,
            };
            let integers = cast(array, &base, path)?;
            cast(&integers, &logical.arrow(), path)?
        }
        Leaf::DecimalBytes { scale } => decimals(array, scale, path)?,
    };
    if !compatible(array.data_type(), &target.field_type) {
        return Err(kind.mismatch(file, target, path));
    }
    scalar(&array, target, path)
}

/// Arrow encodings of the same values as the plain type.
pub(super) fn plain(array: &ArrayRef, path: &str) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, value) => cast(array, value, path),
        DataType::LargeUtf8 | DataType::Utf8View => cast(array, &DataType::Utf8, path),
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            cast(array, &DataType::Binary, path)
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn compatible(from: &DataType, to: &FieldType) -> bool {
    let integer = from.is_integer();
    let decimal = matches!(
        from,
        DataType::Decimal128(_, _) | DataType::Decimal256(_, _)
    );
    // A column that is NULL throughout has any type.
    if from.is_null() {
        return true;
    }
    match to {
        FieldType::Int64 => integer,
        FieldType::Float64 => from.is_floating(),
        FieldType::Bool => from == &DataType::Boolean,
        FieldType::String => matches!(from, DataType::Utf8 | DataType::Binary) || decimal,
        FieldType::Bytes => matches!(from, DataType::Utf8 | DataType::Binary),
        FieldType::Json | FieldType::Geography => from == &DataType::Utf8,
        FieldType::Numeric | FieldType::Bignumeric => decimal,
        FieldType::Date => from == &DataType::Date32,
        FieldType::Time => matches!(from, DataType::Time32(_) | DataType::Time64(_)),
        FieldType::Datetime | FieldType::Timestamp => matches!(from, DataType::Timestamp(_, _)),
        FieldType::Interval | FieldType::Range(_) | FieldType::Struct(_) => false,
    }
}

fn cast(array: &ArrayRef, to: &DataType, path: &str) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &options).map_err(|e| broken(path, e))
}

fn scalar(array: &ArrayRef, target: &Field, path: &str) -> Result<ArrayRef> {
    if array.data_type().is_null() {
        return Ok(new_null_array(arrow_field(target).data_type(), array.len()));
    }
    match &target.field_type {
        FieldType::Date => {
            let dates = array.as_primitive::<Date32Type>();
            let bad = |d: &i32| !(MIN_DATE..=MAX_DATE).contains(d);
            if let Some(bad) = dates.iter().flatten().find(bad) {
                return Err(broken(path, format_args!("Invalid date value: {bad} days")));
            }
            Ok(Arc::clone(array))
        }
        FieldType::Time => {
            exact_micros(array, path)?;
            cast(array, &DataType::Time64(TimeUnit::Microsecond), path)
        }
        FieldType::Timestamp | FieldType::Datetime => {
            exact_micros(array, path)?;
            let DataType::Timestamp(_, zone) = array.data_type() else {
                return Err(broken(path, "no timestamps"));
            };
            // A zone changes how a timestamp is shown, never its number.
            let micros = cast(
                array,
                &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
                path,
            )?;
            let numbers = cast(&micros, &DataType::Int64, path)?;
            let bad = |m: &i64| !(MIN_MICROS..=MAX_MICROS).contains(m);
            if let Some(bad) = numbers
                .as_primitive::<Int64Type>()
                .iter()
                .flatten()
                .find(bad)
            {
                return Err(broken(path, format_args!("Invalid timestamp value: {bad}")));
            }
            cast(
                &numbers,
                arrow_field(&plain_target(target)).data_type(),
                path,
            )
        }
        FieldType::Json => texts(array, normalize_json, path),
        FieldType::Geography => texts(array, normalize_geography, path),
        FieldType::String => match array.data_type() {
            DataType::Utf8 => Ok(Arc::clone(array)),
            DataType::Binary => cast(array, &DataType::Utf8, path),
            _ => decimal_texts(array, path),
        },
        FieldType::Numeric | FieldType::Bignumeric => {
            let to = arrow_field(&plain_target(target)).data_type().clone();
            let beyond = || {
                let name = target.field_type.sql_name();
                broken(path, format_args!("a value is out of range of {name}"))
            };
            if let (DataType::Decimal128(_, scale), DataType::Decimal128(_, wanted)) =
                (array.data_type(), &to)
                && let Ok(digits) = u32::try_from(wanted - scale)
            {
                return more_digits(array.as_primitive(), digits, *wanted).ok_or_else(beyond);
            }
            let wide = match array.data_type() {
                DataType::Decimal128(_, scale) => {
                    cast(array, &DataType::Decimal256(76, *scale), path)?
                }
                _ => Arc::clone(array),
            };
            cast(&wide, &to, path).map_err(|_| beyond())
        }
        _ => cast(array, arrow_field(&plain_target(target)).data_type(), path),
    }
}

/// The target as a nullable scalar without parameters, whose limits are checked
/// when rows are written.
fn plain_target(target: &Field) -> Field {
    Field::new(&target.name, target.field_type.clone())
}

/// Refuses times between two microseconds.
fn exact_micros(array: &ArrayRef, path: &str) -> Result<()> {
    let nanos = match array.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Time64(TimeUnit::Nanosecond) => {
            cast(array, &DataType::Int64, path)?
        }
        _ => return Ok(()),
    };
    let between = |n: &i64| n.rem_euclid(1000) != 0;
    match nanos
        .as_primitive::<Int64Type>()
        .iter()
        .flatten()
        .find(between)
    {
        None => Ok(()),
        Some(nanos) => Err(broken(
            path,
            format_args!(
                "{nanos} nanoseconds are not a whole number of microseconds; write the file with \
                 microsecond precision"
            ),
        )),
    }
}

fn texts(
    array: &ArrayRef,
    normalize: impl Fn(&str) -> std::result::Result<String, crate::value::ValueError>,
    path: &str,
) -> Result<ArrayRef> {
    let strings = array.as_string::<i32>();
    let mut out = StringBuilder::with_capacity(strings.len(), strings.value_data().len());
    for text in strings {
        match text {
            None => out.append_null(),
            Some(text) => out.append_value(normalize(text).map_err(|e| broken(path, e))?),
        }
    }
    Ok(Arc::new(out.finish()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BinaryArray, Decimal128Array, Int32Array, Int64Array, StringArray,
        TimestampNanosecondArray, UInt64Array,
    };
    use arrow::datatypes::Decimal128Type;

    use super::*;

    fn leaf(leaf: Leaf) -> FileField {
        FileField {
            name: "c".into(),
            field: Field::new("c", FieldType::Int64),
            shape: Shape::Value(leaf),
            type_name: "INT64".into(),
        }
    }

    fn to(array: impl Array + 'static, shape: Leaf, target: FieldType) -> Result<ArrayRef> {
        let array: ArrayRef = Arc::new(array);
        let target = Field::new("c", target);
        convert(&array, &leaf(shape), &target, FileKind::Parquet, "c")
    }

    #[test]
    fn integers_widen_and_overflow_is_an_error() {
        let wide = to(
            Int32Array::from(vec![Some(1), None]),
            Leaf::Plain,
            FieldType::Int64,
        )
        .unwrap();
        assert_eq!(wide.as_primitive::<Int64Type>().value(0), 1);
        assert!(
            to(
                UInt64Array::from(vec![u64::MAX]),
                Leaf::Plain,
                FieldType::Int64
            )
            .is_err()
        );
        let error = to(Int64Array::from(vec![1]), Leaf::Plain, FieldType::Float64).unwrap_err();
        assert_eq!(
            error.message,
            "Error while reading data, error message: Parquet column 'c' has type INT64 which does not match the target cpp_type DOUBLE."
        );
    }

    #[test]
    fn logical_types_give_integers_a_meaning() {
        let date = Leaf::Logical(Logical::Date);
        let dates = to(Int32Array::from(vec![19_000]), date, FieldType::Date).unwrap();
        assert_eq!(dates.data_type(), &DataType::Date32);
        assert!(to(Int32Array::from(vec![i32::MAX]), date, FieldType::Date).is_err());
        let millis = Leaf::Logical(Logical::TimestampMillis);
        let times = to(Int64Array::from(vec![5]), millis, FieldType::Timestamp).unwrap();
        let numbers = arrow::compute::cast(&times, &DataType::Int64).unwrap();
        assert_eq!(numbers.as_primitive::<Int64Type>().value(0), 5_000);
        assert!(
            to(
                Int64Array::from(vec![i64::MAX]),
                millis,
                FieldType::Timestamp
            )
            .is_err()
        );
    }

    #[test]
    fn nanoseconds_are_not_rounded() {
        let nanos = |n| TimestampNanosecondArray::from(vec![n]);
        assert!(to(nanos(1_000), Leaf::Plain, FieldType::Datetime).is_ok());
        let error = to(nanos(1_001), Leaf::Plain, FieldType::Timestamp).unwrap_err();
        assert!(
            error.message.contains("column 'c': 1001 nanoseconds"),
            "{error}"
        );
    }

    #[test]
    fn decimals_go_where_they_fit() {
        let decimal = |v| {
            Decimal128Array::from(vec![v])
                .with_precision_and_scale(38, 2)
                .unwrap()
        };
        let numeric = to(decimal(125), Leaf::Plain, FieldType::Numeric).unwrap();
        assert_eq!(
            numeric.as_primitive::<Decimal128Type>().value(0),
            1_250_000_000
        );
        let whole = |v| Decimal128Array::from(vec![Some(v), None]);
        let most = 10_i128.pow(29) - 1;
        let whole = |v| whole(v).with_precision_and_scale(38, 0).unwrap();
        for value in [most, -most] {
            let numeric = to(whole(value), Leaf::Plain, FieldType::Numeric).unwrap();
            let numeric = numeric.as_primitive::<Decimal128Type>();
            assert_eq!(numeric.value(0), value * 1_000_000_000);
            assert!(numeric.is_null(1));
        }
        for value in [most + 1, -most - 1] {
            let error = to(whole(value), Leaf::Plain, FieldType::Numeric).unwrap_err();
            assert!(
                error.message.contains("out of range of NUMERIC"),
                "{error:?}"
            );
        }
        let text = to(decimal(-125), Leaf::Plain, FieldType::String).unwrap();
        assert_eq!(text.as_string::<i32>().value(0), "-1.25");
        let huge = 10_i128.pow(36);
        assert!(to(decimal(huge), Leaf::Plain, FieldType::Numeric).is_err());
        assert!(to(decimal(huge), Leaf::Plain, FieldType::Bignumeric).is_ok());
    }

    #[test]
    fn decimal_bytes_are_big_endian() {
        let bytes = BinaryArray::from(vec![Some(&[4_u8, 226][..])]);
        let shape = Leaf::DecimalBytes { scale: 2 };
        let numeric = to(bytes, shape, FieldType::Numeric).unwrap();
        assert_eq!(
            numeric.as_primitive::<Decimal128Type>().value(0),
            12_500_000_000
        );
    }

    #[test]
    fn json_and_geography_are_normalized_or_refused() {
        let json = to(
            StringArray::from(vec!["{\"b\": 1, \"a\": 2}"]),
            Leaf::Plain,
            FieldType::Json,
        );
        assert_eq!(
            json.unwrap().as_string::<i32>().value(0),
            "{\"a\":2,\"b\":1}"
        );
        assert!(to(StringArray::from(vec!["{"]), Leaf::Plain, FieldType::Json).is_err());
        assert!(
            to(
                StringArray::from(vec!["POINT(1"]),
                Leaf::Plain,
                FieldType::Geography
            )
            .is_err()
        );
    }
}
