//! Arrow values as the table holds them, with what is wrong about each row.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, PrimitiveArray, StructArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Decimal256Type, Int32Type,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    Time64MicrosecondType, TimestampMicrosecondType, i256,
};

use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, absent, arrow_field};
use crate::value::build::{Cell, CellReader, ColumnBuilder};
use crate::value::civil::{DAY_MICROS, MAX_DATE, MAX_MICROS, MIN_DATE, MIN_MICROS};
use crate::value::decimal::{Excess, digits_at_most, rescaled, write_decimal256};
use crate::value::interval::interval;

/// The first fault of each row.
pub(super) type Faults = BTreeMap<usize, String>;

/// The row that each value belongs to; `None` when that is its position.
type Owners<'a> = Option<&'a [usize]>;

fn fault(faults: &mut Faults, owners: Owners<'_>, at: usize, message: impl FnOnce() -> String) {
    let row = owners.map_or(Some(at), |rows| rows.get(at).copied());
    if let Some(row) = row {
        faults.entry(row).or_insert_with(message);
    }
}

/// The values of `array`, whose type the column `field` takes, in the column's form.
pub(super) fn convert(
    array: &ArrayRef,
    field: &Field,
    path: &str,
    owners: Owners<'_>,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    if field.mode() == Mode::Repeated {
        return list(array.as_list(), field, path, owners, faults);
    }
    if field.mode() == Mode::Required && array.null_count() > 0 {
        for at in nulls_of(array) {
            fault(faults, owners, at, || {
                format!("Field {path} is required but has no value.")
            });
        }
    }
    match &field.field_type {
        FieldType::Struct(fields) => record(array.as_struct(), fields, field, path, owners, faults),
        FieldType::Range(element) => {
            let bounds = [
                Field::new("start", element.field_type()),
                Field::new("end", element.field_type()),
            ];
            let done = record(array.as_struct(), &bounds, field, path, owners, faults)?;
            check_ranges(done.as_struct(), path, owners, faults);
            Ok(done)
        }
        _ => scalar(array, field, path, owners, faults),
    }
}

fn nulls_of(array: &ArrayRef) -> impl Iterator<Item = usize> + '_ {
    (0..array.len()).filter(|i| array.is_null(*i))
}

fn list(
    lists: &ListArray,
    field: &Field,
    path: &str,
    owners: Owners<'_>,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    let offsets = lists.value_offsets();
    let place = |offset: i32| usize::try_from(offset).unwrap_or(0);
    let mut rows = vec![usize::MAX; lists.values().len()];
    for at in 0..lists.len() {
        if lists.is_null(at) {
            fault(faults, owners, at, || {
                format!("Field {path} is repeated and cannot be NULL; send an empty list.")
            });
            continue;
        }
        let row = owners.map_or(at, |rows| rows.get(at).copied().unwrap_or(usize::MAX));
        for owner in &mut rows[place(offsets[at])..place(offsets[at + 1])] {
            *owner = row;
        }
    }
    let first = place(offsets[0]);
    let last = place(offsets[offsets.len() - 1]);
    let values = lists.values().slice(first, last - first);
    let rows = &rows[first..last];
    for at in nulls_of(&values) {
        fault(faults, Some(rows), at, || {
            format!("Field {path} is repeated and has an element that is NULL.")
        });
    }
    let values = convert(&values, &field.element(), path, Some(rows), faults)?;
    let arrow = arrow_field(field);
    let DataType::List(item) = arrow.data_type() else {
        return Err(ServiceError::internal("an array that is no Arrow list"));
    };
    let lengths = lists.offsets().lengths();
    ListArray::try_new(
        Arc::clone(item),
        arrow::buffer::OffsetBuffer::from_lengths(lengths),
        values,
        None,
    )
    .map(|array| Arc::new(array) as ArrayRef)
    .map_err(wrong)
}

fn record(
    structs: &StructArray,
    fields: &[Field],
    field: &Field,
    path: &str,
    owners: Owners<'_>,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    let arrow = arrow_field(field);
    let DataType::Struct(children) = arrow.data_type() else {
        return Err(ServiceError::internal("a record that is no Arrow struct"));
    };
    let rows = structs.len();
    let mut columns = Vec::with_capacity(fields.len());
    for inner in fields {
        let path = format!("{path}.{}", inner.name);
        let given = structs
            .fields()
            .iter()
            .position(|f| f.name().eq_ignore_ascii_case(&inner.name));
        let Some(given) = given else {
            if inner.mode() == Mode::Required {
                for at in (0..rows).filter(|at| structs.is_valid(*at)) {
                    fault(faults, owners, at, || {
                        format!("Field {path} is required but has no value.")
                    });
                }
            }
            columns.push(absent(&arrow_field(inner), rows));
            continue;
        };
        // What a NULL struct holds is nobody's fault.
        let column = structs.column(given);
        let mut inside = Faults::new();
        let positions: Vec<usize> = (0..rows).collect();
        columns.push(convert(
            column,
            inner,
            &path,
            Some(&positions),
            &mut inside,
        )?);
        for (at, message) in inside {
            if structs.is_valid(at) {
                fault(faults, owners, at, || message);
            }
        }
    }
    StructArray::try_new_with_length(children.clone(), columns, structs.nulls().cloned(), rows)
        .map(|array| Arc::new(array) as ArrayRef)
        .or_else(|e| {
            // A request that is refused anyway needs no values.
            if faults.is_empty() {
                Err(wrong(e))
            } else {
                Ok(absent(&arrow, rows))
            }
        })
}

fn check_ranges(ranges: &StructArray, path: &str, owners: Owners<'_>, faults: &mut Faults) {
    let bound = |i: usize, at: usize| -> Option<i64> {
        let column = ranges.column(i);
        if column.is_null(at) {
            return None;
        }
        match column.as_primitive_opt::<Date32Type>() {
            Some(days) => Some(days.value(at).into()),
            None => column
                .as_primitive_opt::<TimestampMicrosecondType>()
                .map(|micros| micros.value(at)),
        }
    };
    for at in (0..ranges.len()).filter(|at| ranges.is_valid(*at)) {
        if let (Some(start), Some(end)) = (bound(0, at), bound(1, at))
            && start >= end
        {
            fault(faults, owners, at, || {
                format!("Field {path}: Range start element must be less than range end element")
            });
        }
    }
}

fn scalar(
    array: &ArrayRef,
    field: &Field,
    path: &str,
    owners: Owners<'_>,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    let arrow = arrow_field(field);
    let target = arrow.data_type();
    let mut bad = |at: usize, message: String| fault(faults, owners, at, || message);
    let invalid = |what: &dyn std::fmt::Display| {
        format!(
            "Invalid {} value on field {path}: {what}",
            field.field_type.sql_name()
        )
    };
    match (&field.field_type, array.data_type()) {
        (FieldType::Date, DataType::Date32 | DataType::Int32) => {
            let days: PrimitiveArray<Date32Type> = match array.as_primitive_opt::<Int32Type>() {
                Some(days) => days.reinterpret_cast(),
                None => array.as_primitive::<Date32Type>().clone(),
            };
            for (at, value) in present(&days) {
                if !(MIN_DATE..=MAX_DATE).contains(&value) {
                    bad(at, invalid(&value));
                }
            }
            Ok(Arc::new(days))
        }
        (FieldType::Timestamp | FieldType::Datetime, _) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>();
            for (at, value) in present(micros) {
                if !(MIN_MICROS..=MAX_MICROS).contains(&value) {
                    bad(at, invalid(&value));
                }
            }
            let zone = match target {
                DataType::Timestamp(_, zone) => zone.clone(),
                _ => None,
            };
            let micros: TimestampMicrosecondArray = micros.clone();
            Ok(Arc::new(micros.with_timezone_opt(zone)))
        }
        (FieldType::Time, _) => {
            for (at, value) in present(array.as_primitive::<Time64MicrosecondType>()) {
                if !(0..DAY_MICROS).contains(&value) {
                    bad(at, invalid(&value));
                }
            }
            Ok(Arc::clone(array))
        }
        (FieldType::Numeric | FieldType::Bignumeric, _) => decimals(array, field, path, &mut bad),
        (FieldType::Interval, DataType::Interval(unit)) => {
            intervals(array, *unit, &mut |at| bad(at, invalid(&"out of range")))
        }
        (FieldType::Bytes, _) => {
            if let Some(limit) = field.max_length {
                for (at, value) in array.as_binary::<i32>().iter().enumerate() {
                    let length = value.map_or(0, <[u8]>::len);
                    if !i64::try_from(length).is_ok_and(|n| n <= limit) {
                        bad(
                            at,
                            format!(
                                "Field {path}: BYTES({limit}) has maximum length {limit} but got a value with length {length} on field {path}."
                            ),
                        );
                    }
                }
            }
            Ok(Arc::clone(array))
        }
        (FieldType::String, _) if field.max_length.is_none() => Ok(Arc::clone(array)),
        (_, DataType::Utf8) => {
            let reader = CellReader::for_sql();
            let column = field.element();
            let mut builder = ColumnBuilder::new(&column);
            for (at, value) in array.as_string::<i32>().iter().enumerate() {
                let cell = match value.map(|text| reader.text(&column, text)) {
                    None => Cell::Null,
                    Some(Ok(cell)) => cell,
                    Some(Err(e)) => {
                        bad(at, format!("{} on field {path}.", e.message()));
                        Cell::Null
                    }
                };
                builder.push(cell)?;
            }
            builder.finish()
        }
        // Wider integers and floats: nothing is lost.
        _ => cast(array, target).map_err(wrong),
    }
}

fn present<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
) -> impl Iterator<Item = (usize, T::Native)> + '_ {
    array
        .iter()
        .enumerate()
        .filter_map(|(at, v)| Some((at, v?)))
}

fn decimals(
    array: &ArrayRef,
    field: &Field,
    path: &str,
    bad: &mut dyn FnMut(usize, String),
) -> Result<ArrayRef> {
    let arrow = arrow_field(field);
    let (DataType::Decimal128(precision, to) | DataType::Decimal256(precision, to)) =
        *arrow.data_type()
    else {
        return Err(ServiceError::internal("a decimal that is no Arrow decimal"));
    };
    let excess = match field.rounding_mode.as_deref() {
        Some("ROUND_HALF_EVEN") => Excess::RoundHalfEven,
        _ => Excess::Round,
    };
    let mut fit = |at: usize, value: i256, from: i8| -> i256 {
        let scale = |s: i8| u8::try_from(s).unwrap_or(0);
        // Every 256-bit integer is a BIGNUMERIC.
        let unbounded = precision >= 76 && to == 38;
        let fitted = rescaled(value, scale(from), scale(to), excess)
            .filter(|v| unbounded || digits_at_most(*v, precision));
        fitted.unwrap_or_else(|| {
            let mut text = String::new();
            write_decimal256(value, from, &mut text);
            bad(
                at,
                format!(
                    "Field {path}: {} got a value that is out of range on field {path}: {text}",
                    field.sql_type()
                ),
            );
            i256::ZERO
        })
    };
    let values: Vec<Option<i256>> = match *array.data_type() {
        DataType::Decimal128(_, from) => array
            .as_primitive::<Decimal128Type>()
            .iter()
            .enumerate()
            .map(|(at, v)| v.map(|v| fit(at, i256::from_i128(v), from)))
            .collect(),
        DataType::Decimal256(_, from) => array
            .as_primitive::<Decimal256Type>()
            .iter()
            .enumerate()
            .map(|(at, v)| v.map(|v| fit(at, v, from)))
            .collect(),
        _ => return Err(ServiceError::internal("a decimal of another Arrow type")),
    };
    Ok(match arrow.data_type() {
        DataType::Decimal128(..) => Arc::new(
            values
                .into_iter()
                .map(|v| v.map(|v| v.to_i128().unwrap_or_default()))
                .collect::<PrimitiveArray<Decimal128Type>>()
                .with_data_type(arrow.data_type().clone()),
        ),
        _ => Arc::new(
            values
                .into_iter()
                .collect::<PrimitiveArray<Decimal256Type>>()
                .with_data_type(arrow.data_type().clone()),
        ),
    })
}

fn intervals(array: &ArrayRef, unit: IntervalUnit, bad: &mut dyn FnMut(usize)) -> Result<ArrayRef> {
    let parts: Vec<Option<(i64, i64, i64)>> = match unit {
        IntervalUnit::YearMonth => array
            .as_primitive::<IntervalYearMonthType>()
            .iter()
            .map(|v| v.map(|months| (i64::from(months), 0, 0)))
            .collect(),
        IntervalUnit::DayTime => array
            .as_primitive::<IntervalDayTimeType>()
            .iter()
            .map(|v| v.map(|v| (0, i64::from(v.days), i64::from(v.milliseconds) * 1000)))
            .collect(),
        IntervalUnit::MonthDayNano => array
            .as_primitive::<IntervalMonthDayNanoType>()
            .iter()
            .map(|v| {
                v.map(|v| {
                    let micros = v.nanoseconds.div_euclid(1000);
                    (i64::from(v.months), i64::from(v.days), micros)
                })
            })
            .collect(),
    };
    let mut values = Vec::with_capacity(parts.len());
    for (at, part) in parts.into_iter().enumerate() {
        let value = part.map(|(months, days, micros)| interval(months, days, micros));
        if value == Some(None) {
            bad(at);
        }
        values.push(value.flatten());
    }
    Ok(Arc::new(
        values
            .into_iter()
            .collect::<PrimitiveArray<IntervalMonthDayNanoType>>(),
    ))
}

fn wrong(error: arrow::error::ArrowError) -> ServiceError {
    ServiceError::internal(format!("appended values: {error}"))
}
