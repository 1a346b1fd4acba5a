//! The values of one column, in the buffers that become its Arrow array.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
    Float64Array, Int64Array, IntervalMonthDayNanoArray, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, IntervalMonthDayNano, i256};

use crate::error::{Result, ServiceError};

/// Values by position. A position that is NULL holds a zero.
#[derive(Debug)]
pub(super) enum Values {
    /// INT64, TIME, DATETIME, TIMESTAMP.
    Int64(Vec<i64>),
    /// DATE.
    Int32(Vec<i32>),
    Float64(Vec<f64>),
    Bool(Vec<bool>),
    /// STRING, BYTES, GEOGRAPHY, JSON: where each ends, and all of them.
    Bytes(Vec<i32>, Vec<u8>),
    Int128(Vec<i128>),
    Int256(Vec<i256>),
    Interval(Vec<IntervalMonthDayNano>),
}

/// Where a value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind the last one.
    Next,
    /// In the place of the last one.
    Last,
}

fn put<T: Copy>(values: &mut Vec<T>, value: T, place: Place) {
    match (place, values.last_mut()) {
        (Place::Last, Some(last)) => *last = value,
        _ => values.push(value),
    }
}

impl Values {
    /// None yet, of a column held as `data_type`.
    pub(super) fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Date32 => Self::Int32(Vec::new()),
            DataType::Float64 => Self::Float64(Vec::new()),
            DataType::Boolean => Self::Bool(Vec::new()),
            DataType::Utf8 | DataType::Binary => Self::Bytes(Vec::new(), Vec::new()),
            DataType::Decimal128(..) => Self::Int128(Vec::new()),
            DataType::Decimal256(..) => Self::Int256(Vec::new()),
            DataType::Interval(_) => Self::Interval(Vec::new()),
            _ => Self::Int64(Vec::new()),
        }
    }

    /// An integer, a date in days, or a time in microseconds.
    #[inline]
    pub(super) fn put_int(&mut self, value: i64, place: Place) {
        match self {
            Self::Int64(values) => put(values, value, place),
            // Dates are checked to be in range before they come here.
            Self::Int32(values) => put(values, i32::try_from(value).unwrap_or(i32::MAX), place),
            _ => {}
        }
    }

    #[inline]
    pub(super) fn put_float(&mut self, value: f64, place: Place) {
        if let Self::Float64(values) = self {
            put(values, value, place);
        }
    }

    pub(super) fn put_bool(&mut self, value: bool, place: Place) {
        if let Self::Bool(values) = self {
            put(values, value, place);
        }
    }

    #[inline]
    pub(super) fn put_bytes(&mut self, value: &[u8], place: Place) {
        if let Self::Bytes(ends, data) = self {
            if place == Place::Last && ends.pop().is_some() {
                let start = ends.last().copied().unwrap_or(0);
                data.truncate(usize::try_from(start).unwrap_or(0));
            }
            data.extend_from_slice(value);
            ends.push(i32::try_from(data.len()).unwrap_or(i32::MAX));
        }
    }

    /// A decimal, scaled as the column is and within its precision.
    pub(super) fn put_decimal(&mut self, value: i256, place: Place) {
        match self {
            Self::Int128(values) => put(values, value.to_i128().unwrap_or_default(), place),
            Self::Int256(values) => put(values, value, place),
            _ => {}
        }
    }

    pub(super) fn put_interval(&mut self, value: IntervalMonthDayNano, place: Place) {
        if let Self::Interval(values) = self {
            put(values, value, place);
        }
    }

    /// What stands where a value is NULL.
    #[inline]
    pub(super) fn put_zero(&mut self) {
        match self {
            Self::Int64(values) => values.push(0),
            Self::Int32(values) => values.push(0),
            Self::Float64(values) => values.push(0.0),
            Self::Bool(values) => values.push(false),
            Self::Bytes(ends, _) => ends.push(ends.last().copied().unwrap_or(0)),
            Self::Int128(values) => values.push(0),
            Self::Int256(values) => values.push(i256::ZERO),
            Self::Interval(values) => values.push(IntervalMonthDayNano::new(0, 0, 0)),
        }
    }

    /// The last value, of a date or a time.
    pub(super) fn last_int(&self) -> Option<i64> {
        match self {
            Self::Int64(values) => values.last().copied(),
            Self::Int32(values) => values.last().copied().map(i64::from),
            _ => None,
        }
    }

    /// The last value, of text or bytes.
    pub(super) fn last_bytes(&self) -> Option<&[u8]> {
        let Self::Bytes(ends, data) = self else {
            return None;
        };
        let (last, before) = ends.split_last()?;
        let start = usize::try_from(before.last().copied().unwrap_or(0)).ok()?;
        data.get(start..usize::try_from(*last).ok()?)
    }

    /// The values as an array of `data_type`; none are left.
    pub(super) fn finish(
        &mut self,
        data_type: &DataType,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        Ok(match self {
            Self::Int64(values) => {
                let next = Vec::with_capacity(values.len());
                let values = ScalarBuffer::from(std::mem::replace(values, next));
                match data_type {
                    DataType::Time64(_) => Arc::new(Time64MicrosecondArray::new(values, nulls)),
                    DataType::Timestamp(_, zone) => Arc::new(
                        TimestampMicrosecondArray::new(values, nulls)
                            .with_timezone_opt(zone.clone()),
                    ),
                    _ => Arc::new(Int64Array::new(values, nulls)),
                }
            }
            Self::Int32(values) => {
                let next = Vec::with_capacity(values.len());
                let values = std::mem::replace(values, next);
                Arc::new(Date32Array::new(values.into(), nulls))
            }
            Self::Float64(values) => {
                let next = Vec::with_capacity(values.len());
                let values = std::mem::replace(values, next);
                Arc::new(Float64Array::new(values.into(), nulls))
            }
            Self::Bool(values) => {
                let values = std::mem::take(values);
                Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls))
            }
            Self::Bytes(ends, data) => {
                let lengths = Vec::with_capacity(ends.len());
                let ends = std::mem::replace(ends, lengths);
                let next = Vec::with_capacity(data.len());
                let data = Buffer::from_vec(std::mem::replace(data, next));
                let mut offsets = Vec::with_capacity(ends.len() + 1);
                offsets.push(0);
                offsets.extend(ends);
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                if *data_type == DataType::Utf8 {
                    Arc::new(StringArray::try_new(offsets, data, nulls).map_err(wrong)?)
                } else {
                    Arc::new(BinaryArray::try_new(offsets, data, nulls).map_err(wrong)?)
                }
            }
            Self::Int128(values) => {
                let values = std::mem::take(values);
                Arc::new(
                    Decimal128Array::new(values.into(), nulls).with_data_type(data_type.clone()),
                )
            }
            Self::Int256(values) => {
                let values = std::mem::take(values);
                Arc::new(
                    Decimal256Array::new(values.into(), nulls).with_data_type(data_type.clone()),
                )
            }
            Self::Interval(values) => {
                let values = std::mem::take(values);
                Arc::new(IntervalMonthDayNanoArray::new(values.into(), nulls))
            }
        })
    }
}

fn wrong(error: arrow::error::ArrowError) -> ServiceError {
    ServiceError::internal(format!("appended values: {error}"))
}
