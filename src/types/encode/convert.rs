//! Columns of any Arrow type as the one Arrow form of their BigQuery type.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, RecordBatch, StructArray, new_null_array,
};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Date32Type, Field, TimestampMicrosecondType};
use arrow::error::ArrowError;

use super::faults::{Faults, Owners, Place};
use super::plan::{Column, Value, alike};
use super::rows::RowError;
use super::unpack::{masked, plain};
use super::{Form, lists, numbers, text, times, to_json};
use crate::error::{Error, ErrorKind, Result};

/// The rows of a batch that can be written.
#[derive(Debug)]
pub(super) struct Converted {
    /// One array for each planned column.
    pub(super) columns: Vec<ArrayRef>,
    /// How many rows there are.
    pub(super) rows: usize,
    /// Their numbers in the batch; `None` for all of them.
    pub(super) kept: Option<Vec<usize>>,
    /// What is wrong with the others.
    pub(super) errors: Vec<RowError>,
}

/// Converts the columns of a batch, and leaves out the rows that have a fault.
pub(super) fn batch(columns: &[Column], batch: &RecordBatch, format: Form) -> Result<Converted> {
    let mut faults = Faults::default();
    let mut converted = Vec::with_capacity(columns.len());
    for column in columns {
        let array = batch
            .columns()
            .get(column.source)
            .filter(|array| alike(array.data_type(), &column.from))
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::Internal,
                    format!(
                        "column '{}' of a batch is not the {} that was planned for",
                        column.path, column.from
                    ),
                )
            })?;
        let place = Place {
            path: &column.path,
            owners: &Owners::Rows,
            holders: None,
        };
        converted.push(self::column(array, column, place, format, &mut faults)?);
    }
    let mut rows = batch.num_rows();
    let mut kept = None;
    if !faults.is_empty() {
        let good: Vec<usize> = (0..rows).filter(|row| !faults.contains(*row)).collect();
        let mask: BooleanArray = (0..rows).map(|row| Some(!faults.contains(row))).collect();
        for array in &mut converted {
            *array = filter(array, &mask).map_err(unwritable)?;
        }
        rows = good.len();
        kept = Some(good);
    }
    Ok(Converted {
        columns: converted,
        rows,
        kept,
        errors: faults.into_errors(),
    })
}

/// Converts a column, or a field of structs.
fn column(
    array: &ArrayRef,
    column: &Column,
    place: Place<'_>,
    format: Form,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    let array = masked(plain(array)?, place.holders)?;
    if column.repeated {
        return list(&array, column, place, format, faults);
    }
    if column.required && array.logical_null_count() > 0 {
        let nulls = array.logical_nulls();
        for at in 0..array.len() {
            let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
            if null && place.holders.is_none_or(|holders| holders.is_valid(at)) {
                place.fault(faults, at, || {
                    "it is NULL, and the column is REQUIRED".to_string()
                });
            }
        }
    }
    text::check_length(&array, column.longest, place, faults);
    value(&array, &column.value, place, format, faults)
}

fn list(
    array: &ArrayRef,
    column: &Column,
    place: Place<'_>,
    format: Form,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    if array.data_type() == &DataType::Null {
        let item = Field::new_list_field(column.value.data_type(), true);
        return Ok(Arc::new(ListArray::new(
            Arc::new(item),
            arrow::buffer::OffsetBuffer::new_zeroed(array.len()),
            new_null_array(&column.value.data_type(), 0),
            None,
        )));
    }
    let (elements, offsets) = lists::elements(array)?;
    let owners = Owners::Lists {
        lists: place.owners,
        offsets: &offsets,
    };
    let inside = Place {
        path: place.path,
        owners: &owners,
        holders: None,
    };
    let elements = plain(&elements)?;
    if let Some(nulls) = elements.logical_nulls() {
        for at in (0..elements.len()).filter(|at| nulls.is_null(*at)) {
            inside.fault(faults, at, || {
                "its array has a NULL element, which BigQuery does not store; \
                 remove it with array_remove_all(…, NULL) or replace it"
                    .to_string()
            });
        }
    }
    text::check_length(&elements, column.longest, inside, faults);
    let values = value(&elements, &column.value, inside, format, faults)?;
    // The layout of text is free, so the type of the item is the array's.
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    ListArray::try_new(item, offsets, values, None)
        .map(|lists| Arc::new(lists) as ArrayRef)
        .map_err(unwritable)
}

fn value(
    array: &ArrayRef,
    value: &Value,
    place: Place<'_>,
    format: Form,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    if array.data_type() == &DataType::Null {
        return Ok(new_null_array(&value.data_type(), array.len()));
    }
    match value {
        Value::Int64 => numbers::int64(array, place, faults),
        Value::Float64 => numbers::float64(array, place, faults),
        Value::Decimal(decimal) => numbers::decimal(array, *decimal, place, faults),
        Value::Bool => Ok(Arc::clone(array)),
        Value::Text => text::text(array, format),
        Value::JsonText => {
            text::check_json(array, place, format, faults);
            text::text(array, format)
        }
        Value::JsonDocument => to_json::documents(array, place, faults),
        Value::Bytes => text::bytes(array, format),
        Value::Date => times::date(array, place, faults),
        Value::Time => times::time(array, place, faults),
        Value::DateTime => times::datetime(array, place, faults),
        Value::Timestamp => times::timestamp(array, place, faults),
        Value::Interval => times::interval(array, place, faults),
        Value::Struct(columns) => record(array, columns, place, format, faults),
        Value::Range(columns) => {
            let ranges = record(array, columns, place, format, faults)?;
            check_ranges(ranges.as_struct(), place, faults);
            Ok(ranges)
        }
    }
}

fn record(
    array: &ArrayRef,
    columns: &[Column],
    place: Place<'_>,
    format: Form,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    let structs = array.as_struct();
    let mut children = Vec::with_capacity(columns.len());
    for child in columns {
        let inside = Place {
            path: &child.path,
            owners: place.owners,
            holders: structs.nulls(),
        };
        let given = structs.column(child.source);
        children.push(column(given, child, inside, format, faults)?);
    }
    let fields = columns
        .iter()
        .zip(&children)
        .map(|(column, array)| Field::new(&column.name, array.data_type().clone(), true))
        .collect();
    StructArray::try_new_with_length(fields, children, structs.nulls().cloned(), structs.len())
        .map(|structs| Arc::new(structs) as ArrayRef)
        .map_err(unwritable)
}

/// A range that ends before it starts, or is empty, is none.
fn check_ranges(ranges: &StructArray, place: Place<'_>, faults: &mut Faults) {
    let bound = |name: &str, at: usize| -> Option<i64> {
        let bounds = ranges.column_by_name(name)?;
        if bounds.is_null(at) {
            return None;
        }
        match bounds.as_primitive_opt::<Date32Type>() {
            Some(days) => Some(days.value(at).into()),
            None => bounds
                .as_primitive_opt::<TimestampMicrosecondType>()
                .map(|micros| micros.value(at)),
        }
    };
    for at in (0..ranges.len()).filter(|at| ranges.is_valid(*at)) {
        if let (Some(start), Some(end)) = (bound("start", at), bound("end", at))
            && start >= end
        {
            place.fault(faults, at, || {
                "its range does not start before it ends".to_string()
            });
        }
    }
}

/// A batch that Arrow itself cannot bring into the form.
pub(super) fn unwritable(error: ArrowError) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("a batch cannot be brought into the form that BigQuery takes: {error}"),
    )
    .with_source(error)
}
