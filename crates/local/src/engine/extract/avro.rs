//! Avro object container files.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::{Compression, FileOptions, LogicalTypes};
use crate::error::{Result, ServiceError};
use crate::grpc::{avro_rows, avro_schema};
use crate::schema::{Field, FieldType, Mode, TableSchema, arrow_field, arrow_schema};

/// Rows of one block.
const BLOCK_ROWS: usize = 8_192;

pub(super) fn write(
    schema: &TableSchema,
    batches: &[RecordBatch],
    options: &FileOptions,
) -> Result<Vec<u8>> {
    let plain = match options.logical_types {
        LogicalTypes::On => schema.clone(),
        LogicalTypes::Off => TableSchema::new(schema.fields.iter().map(plain_field).collect()),
    };
    let (codec, sync) = (
        codec(options.compression),
        uuid::Uuid::new_v4().into_bytes(),
    );
    let mut out = b"Obj\x01".to_vec();
    long(2, &mut out);
    bytes(b"avro.schema", &mut out);
    bytes(avro_schema(&plain, "Root")?.as_bytes(), &mut out);
    bytes(b"avro.codec", &mut out);
    bytes(codec.as_bytes(), &mut out);
    long(0, &mut out);
    out.extend_from_slice(&sync);
    for batch in batches {
        let columns = match options.logical_types {
            LogicalTypes::On => batch.columns().to_vec(),
            LogicalTypes::Off => schema
                .fields
                .iter()
                .zip(batch.columns())
                .map(|(field, array)| plain_array(array, field))
                .collect::<Result<_>>()?,
        };
        let batch = RecordBatch::try_new(arrow_schema(&plain), columns).map_err(wrong)?;
        let mut at = 0;
        while at < batch.num_rows() {
            let rows = BLOCK_ROWS.min(batch.num_rows() - at);
            let block = avro_rows(&plain, &batch.slice(at, rows))?;
            let block = compress(&block, options.compression)?;
            long(rows as u64, &mut out);
            bytes(&block, &mut out);
            out.extend_from_slice(&sync);
            at += rows;
        }
    }
    Ok(out)
}

fn codec(compression: Compression) -> &'static str {
    match compression {
        Compression::Deflate => "deflate",
        Compression::Snappy => "snappy",
        Compression::Zstd => "zstandard",
        Compression::None | Compression::Gzip => "null",
    }
}

fn compress(block: &[u8], compression: Compression) -> Result<Vec<u8>> {
    let failed = |e: &dyn std::fmt::Display| {
        ServiceError::internal(format!("a block cannot be compressed: {e}"))
    };
    match compression {
        Compression::None | Compression::Gzip => Ok(block.to_vec()),
        Compression::Deflate => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
            encoder
                .write_all(block)
                .and_then(|()| encoder.finish())
                .map_err(|e| failed(&e))
        }
        Compression::Snappy => {
            let mut out = snap::raw::Encoder::new()
                .compress_vec(block)
                .map_err(|e| failed(&e))?;
            let mut crc = flate2::Crc::new();
            crc.update(block);
            out.extend_from_slice(&crc.sum().to_be_bytes());
            Ok(out)
        }
        Compression::Zstd => zstd::encode_all(block, 0).map_err(|e| failed(&e)),
    }
}

/// A non-negative `long`.
fn long(value: u64, out: &mut Vec<u8>) {
    let mut rest = value << 1;
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7f).unwrap_or(0) | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or(0));
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    long(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// The field without logical types.
fn plain_field(field: &Field) -> Field {
    let mut plain = field.clone();
    plain.field_type = match &field.field_type {
        FieldType::Date | FieldType::Time | FieldType::Datetime => FieldType::String,
        FieldType::Timestamp => FieldType::Int64,
        FieldType::Struct(fields) => FieldType::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    };
    plain
}

fn plain_array(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let plain = plain_field(field);
    if plain.field_type == field.field_type {
        return Ok(Arc::clone(array));
    }
    let arrow = arrow_field(&plain);
    if field.mode() == Mode::Repeated {
        let list = array.as_list::<i32>();
        let DataType::List(item) = arrow.data_type() else {
            return Err(ServiceError::internal("an array that is no Arrow list"));
        };
        let values = plain_array(list.values(), &field.element())?;
        let list = ListArray::try_new(
            Arc::clone(item),
            list.offsets().clone(),
            values,
            list.nulls().cloned(),
        );
        return Ok(Arc::new(list.map_err(wrong)?));
    }
    if let (FieldType::Struct(fields), DataType::Struct(children)) =
        (&field.field_type, arrow.data_type())
    {
        let record = array.as_struct();
        let columns = fields
            .iter()
            .zip(record.columns())
            .map(|(field, array)| plain_array(array, field))
            .collect::<Result<Vec<_>>>()?;
        let record = StructArray::try_new_with_length(
            children.clone(),
            columns,
            record.nulls().cloned(),
            record.len(),
        );
        return Ok(Arc::new(record.map_err(wrong)?));
    }
    cast(array, arrow.data_type()).map_err(wrong)
}

fn wrong(error: arrow::error::ArrowError) -> ServiceError {
    ServiceError::internal(format!("rows for an Avro file: {error}"))
}
