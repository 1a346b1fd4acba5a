//! Tests of the whole way: exact bytes, every layout, every refusal.

mod bytes;
mod extremes;
mod files;
mod layouts;
mod refusals;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field as ArrowField, Schema};

use super::{EncodedRows, FieldMarks, Payload, RowEncoder, RowFormat};
use crate::error::Result;
use crate::types::{Field, FieldType, Mode, TableSchema};

const FORMATS: [RowFormat; 2] = [RowFormat::Protobuf, RowFormat::Arrow];

fn nullable(name: &str, field_type: FieldType) -> Field {
    Field::new(name, field_type, Mode::Nullable)
}

fn repeated(name: &str, field_type: FieldType) -> Field {
    Field::new(name, field_type, Mode::Repeated)
}

fn required(name: &str, field_type: FieldType) -> Field {
    Field::new(name, field_type, Mode::Required)
}

fn table(fields: Vec<Field>) -> TableSchema {
    TableSchema { fields }
}

/// A batch of nullable columns.
fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let rows = columns.first().map_or(0, |(_, array)| array.len());
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array)| ArrowField::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).unwrap()
}

fn encode(
    columns: Vec<(&str, ArrayRef)>,
    fields: Vec<Field>,
    format: RowFormat,
) -> Result<EncodedRows> {
    marked(columns, fields, format, &FieldMarks::default())
}

fn marked(
    columns: Vec<(&str, ArrayRef)>,
    fields: Vec<Field>,
    format: RowFormat,
    marks: &FieldMarks,
) -> Result<EncodedRows> {
    let batch = batch(columns);
    RowEncoder::plan(&batch.schema(), &table(fields), format, marks)?.encode(&batch)
}

/// The messages of a column, which have to be without faults.
fn messages(array: ArrayRef, field: Field) -> Vec<Vec<u8>> {
    let rows = encode(vec![("c", array)], vec![field], RowFormat::Protobuf).unwrap();
    assert_eq!(rows.errors(), []);
    all(&rows)
}

fn all(rows: &EncodedRows) -> Vec<Vec<u8>> {
    (0..rows.len())
        .map(|at| rows.protobuf_row(at).unwrap().to_vec())
        .collect()
}

/// What the service finds in Arrow rows, put together again from the bytes.
fn arrow_column(array: ArrayRef, field: Field) -> ArrayRef {
    arrow_marked(array, field, &FieldMarks::default())
}

fn arrow_marked(array: ArrayRef, field: Field, marks: &FieldMarks) -> ArrayRef {
    let batch = batch(vec![("c", array)]);
    let schema = batch.schema();
    let table = table(vec![field]);
    let encoder = RowEncoder::plan(&schema, &table, RowFormat::Arrow, marks).unwrap();
    let rows = encoder.encode(&batch).unwrap();
    assert_eq!(rows.errors(), []);
    let pieces = rows.pieces(usize::MAX).unwrap();
    let [piece] = pieces.sendable.as_slice() else {
        panic!("one piece, not {}", pieces.sendable.len())
    };
    let Payload::Arrow(message) = &piece.payload else {
        panic!("an Arrow message")
    };
    let message: Vec<u8> = message.parts().flatten().copied().collect();
    assert_eq!(message.len() % 8, 0);
    let stream = [encoder.writer_schema().as_ref(), &message].concat();
    let mut reader = arrow::ipc::reader::StreamReader::try_new(stream.as_slice(), None).unwrap();
    let read = reader.next().unwrap().unwrap();
    Arc::clone(read.column(0))
}
