//! The Arrow form of BigQuery types, as the Storage Read API answers them and as
//! this server stores them (section 2.1 of the service reference).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ListArray, RecordBatch, RecordBatchOptions, StructArray, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{
    DataType, Field as ArrowField, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit,
};

use super::field::{Field, FieldType, Mode, TableSchema};
use crate::error::{Result, ServiceError};

const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// The Arrow schema of a table.
pub fn arrow_schema(schema: &TableSchema) -> SchemaRef {
    Arc::new(Schema::new(
        schema.fields.iter().map(arrow_field).collect::<Vec<_>>(),
    ))
}

/// The Arrow field of a column: type, nullability and metadata.
///
/// The metadata of an array's element sits on the list's field, and its child,
/// called `item`, has none.
pub fn arrow_field(field: &Field) -> ArrowField {
    let scalar = data_type(field);
    let (data_type, nullable) = match field.mode() {
        Mode::Nullable => (scalar, true),
        Mode::Required => (scalar, false),
        Mode::Repeated => (
            DataType::List(Arc::new(ArrowField::new("item", scalar, true))),
            false,
        ),
    };
    ArrowField::new(&field.name, data_type, nullable).with_metadata(metadata(&field.field_type))
}

fn data_type(field: &Field) -> DataType {
    match &field.field_type {
        FieldType::Int64 => DataType::Int64,
        FieldType::Float64 => DataType::Float64,
        FieldType::Bool => DataType::Boolean,
        FieldType::String | FieldType::Geography | FieldType::Json => DataType::Utf8,
        FieldType::Bytes => DataType::Binary,
        FieldType::Numeric => {
            let (p, s) = decimal_parameters(field, 38, 9, 29);
            DataType::Decimal128(p, s)
        }
        FieldType::Bignumeric => {
            let (p, s) = decimal_parameters(field, 76, 38, 38);
            DataType::Decimal256(p, s)
        }
        FieldType::Date => DataType::Date32,
        FieldType::Time => DataType::Time64(TimeUnit::Microsecond),
        FieldType::Datetime => DataType::Timestamp(TimeUnit::Microsecond, None),
        FieldType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        FieldType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        FieldType::Range(element) => {
            let bound = |name| arrow_field(&Field::new(name, element.field_type()));
            DataType::Struct(Fields::from(vec![bound("start"), bound("end")]))
        }
        FieldType::Struct(fields) => {
            DataType::Struct(fields.iter().map(arrow_field).collect::<Vec<_>>().into())
        }
    }
}

/// `(precision, scale)` of a decimal column; without parameters the type's own,
/// and a precision alone has scale 0.
fn decimal_parameters(field: &Field, precision: u8, scale: i8, integer_digits: i64) -> (u8, i8) {
    match (field.precision, field.scale) {
        (None, None) => (precision, scale),
        (Some(p), s) => {
            let s = s.unwrap_or(0).clamp(0, i64::from(scale));
            (
                u8::try_from(p.clamp(1, i64::from(precision))).unwrap_or(precision),
                i8::try_from(s).unwrap_or(scale),
            )
        }
        (None, Some(s)) => {
            let s = s.clamp(0, i64::from(scale));
            (
                u8::try_from(integer_digits + s).unwrap_or(precision),
                i8::try_from(s).unwrap_or(scale),
            )
        }
    }
}

fn metadata(field_type: &FieldType) -> HashMap<String, String> {
    let extension = |name: &str| HashMap::from([(EXTENSION_NAME.to_string(), name.to_string())]);
    match field_type {
        FieldType::Datetime => extension("google:sqlType:datetime"),
        FieldType::Json => extension("google:sqlType:json"),
        FieldType::Interval => extension("google:sqlType:interval"),
        FieldType::Geography => {
            let mut map = extension("google:sqlType:geography");
            map.insert(EXTENSION_METADATA.into(), r#"{"encoding": "WKT"}"#.into());
            map
        }
        FieldType::Range(_) => HashMap::from([("google:sqlType".into(), "range".into())]),
        FieldType::Int64
        | FieldType::Float64
        | FieldType::Bool
        | FieldType::String
        | FieldType::Bytes
        | FieldType::Numeric
        | FieldType::Bignumeric
        | FieldType::Date
        | FieldType::Time
        | FieldType::Timestamp
        | FieldType::Struct(_) => HashMap::new(),
    }
}

/// Gives a batch written under an older schema the columns of `target`, matched
/// by name: a column or nested field that was added later is NULL (an empty list
/// when REPEATED), and one that `target` lacks is left out.
pub fn adapt_batch(batch: &RecordBatch, target: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == target {
        return Ok(batch.clone());
    }
    let rows = batch.num_rows();
    let columns = adapt_columns(
        batch.schema_ref().fields(),
        batch.columns(),
        target.fields(),
        rows,
    )?;
    RecordBatch::try_new_with_options(
        Arc::clone(target),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
    .map_err(|e| ServiceError::internal(format!("stored rows do not fit their schema: {e}")))
}

fn adapt_columns(
    from: &Fields,
    columns: &[ArrayRef],
    to: &Fields,
    rows: usize,
) -> Result<Vec<ArrayRef>> {
    to.iter()
        .map(|field| {
            match from
                .iter()
                .position(|f| f.name().eq_ignore_ascii_case(field.name()))
            {
                Some(i) => adapt_array(&columns[i], field),
                None => Ok(absent(field, rows)),
            }
        })
        .collect()
}

/// The values of a column that rows do not have: NULL, or empty lists.
pub fn absent(field: &ArrowField, rows: usize) -> ArrayRef {
    match field.data_type() {
        DataType::List(item) => Arc::new(ListArray::new(
            Arc::clone(item),
            OffsetBuffer::new_zeroed(rows),
            new_null_array(item.data_type(), 0),
            None,
        )),
        other => new_null_array(other, rows),
    }
}

fn adapt_array(array: &ArrayRef, field: &ArrowField) -> Result<ArrayRef> {
    if array.data_type() == field.data_type() {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), field.data_type()) {
        (DataType::Struct(from), DataType::Struct(to)) => {
            let array = array
                .as_any()
                .downcast_ref::<StructArray>()
                .expect("a Struct type is a StructArray");
            let columns = adapt_columns(from, array.columns(), to, array.len())?;
            StructArray::try_new_with_length(
                to.clone(),
                columns,
                array.nulls().cloned(),
                array.len(),
            )
            .map(|a| Arc::new(a) as ArrayRef)
            .map_err(|e| ServiceError::internal(format!("stored struct does not fit: {e}")))
        }
        (DataType::List(_), DataType::List(item)) => {
            let array = array
                .as_any()
                .downcast_ref::<ListArray>()
                .expect("a List type is a ListArray");
            let values = adapt_array(array.values(), item)?;
            ListArray::try_new(
                Arc::clone(item),
                array.offsets().clone(),
                values,
                array.nulls().cloned(),
            )
            .map(|a| Arc::new(a) as ArrayRef)
            .map_err(|e| ServiceError::internal(format!("stored array does not fit: {e}")))
        }
        (from, to) => arrow::compute::cast(array, to).map_err(|e| {
            ServiceError::internal(format!("stored {from} does not become {to}: {e}"))
        }),
    }
}
