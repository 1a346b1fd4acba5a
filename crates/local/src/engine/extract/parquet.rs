//! Parquet.

use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as Codec, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{Compression, FileOptions};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, TableSchema, arrow_schema};

pub(super) fn write(
    schema: &TableSchema,
    batches: &[RecordBatch],
    options: &FileOptions,
) -> Result<Vec<u8>> {
    check(&schema.fields)?;
    let failed = |e: parquet::errors::ParquetError| {
        ServiceError::internal(format!("a Parquet file cannot be written: {e}"))
    };
    let codec = match options.compression {
        Compression::None | Compression::Deflate => Codec::UNCOMPRESSED,
        Compression::Gzip => Codec::GZIP(GzipLevel::default()),
        Compression::Snappy => Codec::SNAPPY,
        Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
    };
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut out = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut out, arrow_schema(schema), Some(properties)).map_err(failed)?;
    for batch in batches {
        writer.write(batch).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(out)
}

/// Refuses types that Parquet files of BigQuery do not hold.
fn check(fields: &[Field]) -> Result<()> {
    for field in fields {
        match &field.field_type {
            FieldType::Struct(fields) => check(fields)?,
            FieldType::Interval | FieldType::Range(_) => {
                return Err(ServiceError::invalid(format!(
                    "The type of field {} is not supported for the destination format PARQUET: {}",
                    field.name,
                    field.field_type.sql_name()
                )));
            }
            _ => {}
        }
    }
    Ok(())
}
