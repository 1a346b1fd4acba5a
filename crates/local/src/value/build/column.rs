//! Arrow builders that take cells.

use std::sync::Arc;

use arrow::array::NullBufferBuilder;
use arrow::array::{
    ArrayBuilder, ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder,
    Decimal256Builder, Float64Builder, Int64Builder, IntervalMonthDayNanoBuilder, ListArray,
    StringBuilder, StructArray, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};

use super::cell::Cell;
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, arrow_field};

/// Collects the cells of one column.
#[derive(Debug)]
pub struct ColumnBuilder(Kind);

#[derive(Debug)]
enum Kind {
    Int64(Int64Builder),
    Float64(Float64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Numeric(Decimal128Builder),
    Bignumeric(Decimal256Builder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Instant(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Range(Fields, Box<[ColumnBuilder; 2]>, NullBufferBuilder),
    Struct(Fields, Vec<ColumnBuilder>, NullBufferBuilder),
    Array(FieldRef, Box<ColumnBuilder>, Vec<i32>),
}

impl ColumnBuilder {
    /// A builder for values of `field`.
    pub fn new(field: &Field) -> Self {
        let arrow = arrow_field(field);
        let data_type = arrow.data_type().clone();
        if field.mode() == Mode::Repeated {
            let DataType::List(item) = data_type else {
                unreachable!("a REPEATED field is an Arrow list");
            };
            let element = ColumnBuilder::new(&field.element());
            return Self(Kind::Array(item, Box::new(element), vec![0]));
        }
        Self(match (&field.field_type, &data_type) {
            (FieldType::Int64, _) => Kind::Int64(Int64Builder::new()),
            (FieldType::Float64, _) => Kind::Float64(Float64Builder::new()),
            (FieldType::Bool, _) => Kind::Bool(BooleanBuilder::new()),
            (FieldType::String | FieldType::Geography | FieldType::Json, _) => {
                Kind::Text(StringBuilder::new())
            }
            (FieldType::Bytes, _) => Kind::Bytes(BinaryBuilder::new()),
            (FieldType::Numeric, _) => {
                Kind::Numeric(Decimal128Builder::new().with_data_type(data_type))
            }
            (FieldType::Bignumeric, _) => {
                Kind::Bignumeric(Decimal256Builder::new().with_data_type(data_type))
            }
            (FieldType::Date, _) => Kind::Date(Date32Builder::new()),
            (FieldType::Time, _) => Kind::Time(Time64MicrosecondBuilder::new()),
            (FieldType::Datetime | FieldType::Timestamp, _) => {
                Kind::Instant(TimestampMicrosecondBuilder::new().with_data_type(data_type))
            }
            (FieldType::Interval, _) => Kind::Interval(IntervalMonthDayNanoBuilder::new()),
            (FieldType::Range(element), DataType::Struct(fields)) => {
                let bound =
                    |name: &str| ColumnBuilder::new(&Field::new(name, element.field_type()));
                Kind::Range(
                    fields.clone(),
                    Box::new([bound("start"), bound("end")]),
                    NullBufferBuilder::new(0),
                )
            }
            (FieldType::Struct(inner), DataType::Struct(fields)) => Kind::Struct(
                fields.clone(),
                inner.iter().map(ColumnBuilder::new).collect(),
                NullBufferBuilder::new(0),
            ),
            (FieldType::Range(_) | FieldType::Struct(_), _) => {
                unreachable!("ranges and structs are Arrow structs")
            }
        })
    }

    /// Appends one value. A NULL in an ARRAY column is an empty array.
    pub fn push(&mut self, cell: Cell) -> Result<()> {
        match (&mut self.0, cell) {
            (Kind::Int64(b), Cell::Int(v)) => b.append_value(v),
            (Kind::Int64(b), Cell::Null) => b.append_null(),
            (Kind::Float64(b), Cell::Float(v)) => b.append_value(v),
            (Kind::Float64(b), Cell::Null) => b.append_null(),
            (Kind::Bool(b), Cell::Bool(v)) => b.append_value(v),
            (Kind::Bool(b), Cell::Null) => b.append_null(),
            (Kind::Text(b), Cell::Text(v)) => b.append_value(v),
            (Kind::Text(b), Cell::Null) => b.append_null(),
            (Kind::Bytes(b), Cell::Bytes(v)) => b.append_value(v),
            (Kind::Bytes(b), Cell::Null) => b.append_null(),
            (Kind::Numeric(b), Cell::Decimal(v)) => {
                b.append_value(
                    v.to_i128()
                        .ok_or_else(|| wrong("a NUMERIC beyond 128 bits"))?,
                );
            }
            (Kind::Numeric(b), Cell::Null) => b.append_null(),
            (Kind::Bignumeric(b), Cell::Decimal(v)) => b.append_value(v),
            (Kind::Bignumeric(b), Cell::Null) => b.append_null(),
            (Kind::Date(b), Cell::Int(v)) => {
                b.append_value(i32::try_from(v).map_err(|_| wrong("a DATE beyond 32 bits"))?);
            }
            (Kind::Date(b), Cell::Null) => b.append_null(),
            (Kind::Time(b), Cell::Int(v)) => b.append_value(v),
            (Kind::Time(b), Cell::Null) => b.append_null(),
            (Kind::Instant(b), Cell::Int(v)) => b.append_value(v),
            (Kind::Instant(b), Cell::Null) => b.append_null(),
            (Kind::Interval(b), Cell::Interval(v)) => b.append_value(v),
            (Kind::Interval(b), Cell::Null) => b.append_null(),
            (Kind::Range(_, bounds, nulls), cell) => {
                let (start, end) = match cell {
                    Cell::Range(start, end) => {
                        nulls.append_non_null();
                        (start, end)
                    }
                    Cell::Null => {
                        nulls.append_null();
                        (None, None)
                    }
                    other => return Err(misplaced(&other)),
                };
                for (bound, value) in bounds.iter_mut().zip([start, end]) {
                    bound.push(value.map_or(Cell::Null, Cell::Int))?;
                }
            }
            (Kind::Struct(_, columns, nulls), Cell::Struct(cells)) => {
                if cells.len() != columns.len() {
                    return Err(wrong("a STRUCT of another number of fields"));
                }
                nulls.append_non_null();
                for (column, cell) in columns.iter_mut().zip(cells) {
                    column.push(cell)?;
                }
            }
            (Kind::Struct(_, columns, nulls), Cell::Null) => {
                nulls.append_null();
                for column in columns {
                    column.push(Cell::Null)?;
                }
            }
            (Kind::Array(_, element, offsets), Cell::Array(cells)) => {
                for cell in cells {
                    element.push(cell)?;
                }
                offsets.push(
                    i32::try_from(element.len())
                        .map_err(|_| wrong("more than 2^31 array elements in one batch"))?,
                );
            }
            (Kind::Array(_, _, offsets), Cell::Null) => {
                offsets.push(offsets[offsets.len() - 1]);
            }
            (_, other) => return Err(misplaced(&other)),
        }
        Ok(())
    }

    fn len(&self) -> usize {
        match &self.0 {
            Kind::Int64(b) => b.len(),
            Kind::Float64(b) => b.len(),
            Kind::Bool(b) => b.len(),
            Kind::Text(b) => b.len(),
            Kind::Bytes(b) => b.len(),
            Kind::Numeric(b) => b.len(),
            Kind::Bignumeric(b) => b.len(),
            Kind::Date(b) => b.len(),
            Kind::Time(b) => b.len(),
            Kind::Instant(b) => b.len(),
            Kind::Interval(b) => b.len(),
            Kind::Range(_, _, nulls) | Kind::Struct(_, _, nulls) => nulls.len(),
            Kind::Array(_, _, offsets) => offsets.len() - 1,
        }
    }

    /// The values so far; the builder is empty afterwards.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        Ok(match &mut self.0 {
            Kind::Int64(b) => Arc::new(b.finish()),
            Kind::Float64(b) => Arc::new(b.finish()),
            Kind::Bool(b) => Arc::new(b.finish()),
            Kind::Text(b) => Arc::new(b.finish()),
            Kind::Bytes(b) => Arc::new(b.finish()),
            Kind::Numeric(b) => Arc::new(b.finish()),
            Kind::Bignumeric(b) => Arc::new(b.finish()),
            Kind::Date(b) => Arc::new(b.finish()),
            Kind::Time(b) => Arc::new(b.finish()),
            Kind::Instant(b) => Arc::new(b.finish()),
            Kind::Interval(b) => Arc::new(b.finish()),
            Kind::Range(fields, bounds, nulls) => {
                let rows = nulls.len();
                let columns = bounds.iter_mut().map(Self::finish).collect::<Result<_>>()?;
                structs(fields, columns, nulls, rows)?
            }
            Kind::Struct(fields, columns, nulls) => {
                let rows = nulls.len();
                let columns = columns
                    .iter_mut()
                    .map(Self::finish)
                    .collect::<Result<_>>()?;
                structs(fields, columns, nulls, rows)?
            }
            Kind::Array(item, element, offsets) => {
                let offsets = std::mem::replace(offsets, vec![0]);
                ListArray::try_new(
                    Arc::clone(item),
                    OffsetBuffer::new(ScalarBuffer::from(offsets)),
                    element.finish()?,
                    None,
                )
                .map(|a| Arc::new(a) as ArrayRef)
                .map_err(|e| ServiceError::internal(format!("array cells: {e}")))?
            }
        })
    }
}

fn structs(
    fields: &Fields,
    columns: Vec<ArrayRef>,
    nulls: &mut NullBufferBuilder,
    rows: usize,
) -> Result<ArrayRef> {
    StructArray::try_new_with_length(fields.clone(), columns, nulls.finish(), rows)
        .map(|a| Arc::new(a) as ArrayRef)
        .map_err(|e| ServiceError::internal(format!("struct cells: {e}")))
}

fn wrong(what: &str) -> ServiceError {
    ServiceError::internal(what)
}

fn misplaced(cell: &Cell) -> ServiceError {
    let kind = match cell {
        Cell::Null => "NULL",
        Cell::Int(_) => "an integer",
        Cell::Float(_) => "a float",
        Cell::Bool(_) => "a boolean",
        Cell::Text(_) => "text",
        Cell::Bytes(_) => "bytes",
        Cell::Decimal(_) => "a decimal",
        Cell::Interval(_) => "an interval",
        Cell::Range(..) => "a range",
        Cell::Struct(_) => "a struct",
        Cell::Array(_) => "an array",
    };
    ServiceError::internal(format!("{kind} in a column of another type"))
}
