//! Any Arrow value as the text that REST answers carry.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray,
    StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float64Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};

use super::civil::{write_date, write_datetime, write_time};
use super::decimal::{write_decimal128, write_decimal256};
use super::interval::write_interval;
use super::scalar::{write_base64, write_float64};
use super::timestamp::{write_iso8601, write_plain_seconds, write_scientific_seconds};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode};

/// How a TIMESTAMP is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampText {
    /// `1.704164645123456E9`: query results.
    #[default]
    Scientific,
    /// `1704164645.123456`: tabledata.list.
    Plain,
    /// Microseconds since the epoch (`formatOptions.useInt64Timestamp`).
    Int64,
    /// `2024-01-02T03:04:05.123456000000Z` (`timestampOutputFormat`).
    Iso8601,
    /// `2024-01-02 03:04:05.123456 UTC`: files of extract jobs.
    Utc,
}

impl TimestampText {
    /// Writes microseconds since the epoch.
    pub fn write(self, micros: i64, out: &mut String) {
        match self {
            TimestampText::Scientific => write_scientific_seconds(micros, out),
            TimestampText::Plain => write_plain_seconds(micros, out),
            TimestampText::Int64 => write_integer(micros, out),
            TimestampText::Iso8601 => write_iso8601(micros, out),
            TimestampText::Utc => {
                write_datetime(micros, ' ', out);
                out.push_str(" UTC");
            }
        }
    }
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextOptions {
    /// Form of TIMESTAMP values, also inside a RANGE.
    pub timestamp: TimestampText,
}

/// A column that can write its values one by one: the array's type is looked at
/// once, not once per row.
#[derive(Debug, Clone)]
pub enum Column {
    /// INT64.
    Int64(Int64Array),
    /// FLOAT64.
    Float64(Float64Array),
    /// BOOL.
    Bool(BooleanArray),
    /// STRING, GEOGRAPHY, JSON.
    Text(StringArray),
    /// BYTES.
    Bytes(BinaryArray),
    /// NUMERIC.
    Numeric(Decimal128Array, i8),
    /// BIGNUMERIC.
    Bignumeric(Decimal256Array, i8),
    /// DATE.
    Date(Date32Array),
    /// TIME.
    Time(Time64MicrosecondArray),
    /// DATETIME.
    Datetime(TimestampMicrosecondArray),
    /// TIMESTAMP.
    Timestamp(TimestampMicrosecondArray, TimestampText),
    /// INTERVAL.
    Interval(IntervalMonthDayNanoArray),
    /// RANGE: the array and its two bounds.
    Range(StructArray, Box<[Column; 2]>),
    /// STRUCT.
    Struct(StructArray, Vec<Column>),
    /// ARRAY.
    Array(ListArray, Box<Column>),
}

impl Column {
    /// Looks at `array`, the values of a column described by `field`.
    pub fn new(field: &Field, array: &ArrayRef, options: TextOptions) -> Result<Self> {
        if field.mode() == Mode::Repeated {
            let list = array
                .as_list_opt::<i32>()
                .ok_or_else(|| mismatch(field, array))?;
            let element = Column::new(&field.element(), list.values(), options)?;
            return Ok(Column::Array(list.clone(), Box::new(element)));
        }
        Self::scalar(field, array, options).ok_or_else(|| mismatch(field, array))?
    }

    fn scalar(field: &Field, array: &ArrayRef, options: TextOptions) -> Option<Result<Self>> {
        Some(Ok(match (&field.field_type, array.data_type()) {
            (FieldType::Int64, _) => Column::Int64(array.as_primitive_opt::<Int64Type>()?.clone()),
            (FieldType::Float64, _) => {
                Column::Float64(array.as_primitive_opt::<Float64Type>()?.clone())
            }
            (FieldType::Bool, _) => Column::Bool(array.as_boolean_opt()?.clone()),
            (FieldType::String | FieldType::Geography | FieldType::Json, _) => {
                Column::Text(array.as_string_opt::<i32>()?.clone())
            }
            (FieldType::Bytes, _) => Column::Bytes(array.as_binary_opt::<i32>()?.clone()),
            (FieldType::Numeric, DataType::Decimal128(_, scale)) => {
                Column::Numeric(array.as_primitive_opt::<Decimal128Type>()?.clone(), *scale)
            }
            (FieldType::Bignumeric, DataType::Decimal256(_, scale)) => {
                Column::Bignumeric(array.as_primitive_opt::<Decimal256Type>()?.clone(), *scale)
            }
            (FieldType::Numeric | FieldType::Bignumeric, _) => return None,
            (FieldType::Date, _) => Column::Date(array.as_primitive_opt::<Date32Type>()?.clone()),
            (FieldType::Time, DataType::Time64(TimeUnit::Microsecond)) => {
                Column::Time(array.as_primitive_opt::<Time64MicrosecondType>()?.clone())
            }
            (FieldType::Time, _) => return None,
            (FieldType::Datetime, _) => Column::Datetime(
                array
                    .as_primitive_opt::<TimestampMicrosecondType>()?
                    .clone(),
            ),
            (FieldType::Timestamp, _) => Column::Timestamp(
                array
                    .as_primitive_opt::<TimestampMicrosecondType>()?
                    .clone(),
                options.timestamp,
            ),
            (FieldType::Interval, DataType::Interval(IntervalUnit::MonthDayNano)) => {
                Column::Interval(
                    array
                        .as_primitive_opt::<IntervalMonthDayNanoType>()?
                        .clone(),
                )
            }
            (FieldType::Interval, _) => return None,
            (FieldType::Range(element), _) => {
                let bounds = array.as_struct_opt().filter(|s| s.num_columns() == 2)?;
                let bound = |i: usize, name: &str| {
                    let field = Field::new(name, element.field_type());
                    Column::new(&field, bounds.column(i), options)
                };
                match (bound(0, "start"), bound(1, "end")) {
                    (Ok(start), Ok(end)) => Column::Range(bounds.clone(), Box::new([start, end])),
                    (Err(e), _) | (_, Err(e)) => return Some(Err(e)),
                }
            }
            (FieldType::Struct(fields), _) => {
                let values = array
                    .as_struct_opt()
                    .filter(|s| s.num_columns() == fields.len())?;
                let columns: Result<Vec<Column>> = fields
                    .iter()
                    .zip(values.columns())
                    .map(|(field, array)| Column::new(field, array, options))
                    .collect();
                match columns {
                    Ok(columns) => Column::Struct(values.clone(), columns),
                    Err(e) => return Some(Err(e)),
                }
            }
        }))
    }

    /// Whether the value in `row` is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        match self {
            Column::Int64(a) => a.is_null(row),
            Column::Float64(a) => a.is_null(row),
            Column::Bool(a) => a.is_null(row),
            Column::Text(a) => a.is_null(row),
            Column::Bytes(a) => a.is_null(row),
            Column::Numeric(a, _) => a.is_null(row),
            Column::Bignumeric(a, _) => a.is_null(row),
            Column::Date(a) => a.is_null(row),
            Column::Time(a) => a.is_null(row),
            Column::Datetime(a) | Column::Timestamp(a, _) => a.is_null(row),
            Column::Interval(a) => a.is_null(row),
            Column::Range(a, _) => a.is_null(row),
            Column::Struct(a, _) => a.is_null(row),
            Column::Array(a, _) => a.is_null(row),
        }
    }

    /// Writes the value in `row`, which is not NULL, as REST text. A STRUCT or an
    /// ARRAY has no text of its own and writes nothing; see [`super::rows`].
    pub fn write(&self, row: usize, out: &mut String) {
        match self {
            Column::Int64(a) => write_integer(a.value(row), out),
            Column::Float64(a) => write_float64(a.value(row), out),
            Column::Bool(a) => out.push_str(if a.value(row) { "true" } else { "false" }),
            Column::Text(a) => out.push_str(a.value(row)),
            Column::Bytes(a) => write_base64(a.value(row), out),
            Column::Numeric(a, scale) => write_decimal128(a.value(row), *scale, out),
            Column::Bignumeric(a, scale) => write_decimal256(a.value(row), *scale, out),
            Column::Date(a) => write_date(a.value(row), out),
            Column::Time(a) => write_time(a.value(row), out),
            Column::Datetime(a) => write_datetime(a.value(row), 'T', out),
            Column::Timestamp(a, form) => form.write(a.value(row), out),
            Column::Interval(a) => write_interval(a.value(row), out),
            Column::Range(_, bounds) => {
                for (open, bound) in ["[", ", "].iter().zip(bounds.iter()) {
                    out.push_str(open);
                    if bound.is_null(row) {
                        out.push_str("UNBOUNDED");
                    } else {
                        bound.write(row, out);
                    }
                }
                out.push(')');
            }
            Column::Struct(..) | Column::Array(..) => {}
        }
    }
}

fn write_integer(value: i64, out: &mut String) {
    use std::fmt::Write;
    write!(out, "{value}").expect("writing to a String does not fail");
}

fn mismatch(field: &Field, array: &ArrayRef) -> ServiceError {
    ServiceError::internal(format!(
        "column {} of type {} is held as Arrow {}",
        field.name,
        field.sql_type(),
        array.data_type()
    ))
}
