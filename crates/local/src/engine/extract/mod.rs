//! Rows into files: one module per format, no protocol, no store.
//!
//! Source: BigQuery's documentation of exporting table data.

mod avro;
mod csv;
mod json;
mod parquet;

use arrow::array::RecordBatch;
use serde::Deserialize;

use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;
use crate::value::text::{TextOptions, TimestampText};

/// `destinationFormat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum FileFormat {
    /// Separated values.
    #[default]
    #[serde(rename = "CSV")]
    Csv,
    /// A JSON object per line.
    #[serde(rename = "NEWLINE_DELIMITED_JSON")]
    NewlineDelimitedJson,
    /// Avro object container files.
    #[serde(rename = "AVRO")]
    Avro,
    /// Parquet.
    #[serde(rename = "PARQUET")]
    Parquet,
}

/// `compression`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// CSV, JSON, Parquet.
    Gzip,
    /// Avro.
    Deflate,
    /// Avro, Parquet.
    Snappy,
    /// Avro, Parquet.
    Zstd,
}

/// How files are written.
#[derive(Debug, Clone, PartialEq)]
pub struct FileOptions {
    /// Format.
    pub format: FileFormat,
    /// Compression.
    pub compression: Compression,
    /// Between the values of CSV.
    pub delimiter: u8,
    /// Whether CSV begins with the names of the columns.
    pub header: Header,
    /// What Avro makes of dates and times.
    pub logical_types: LogicalTypes,
}

/// Whether CSV files have a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// With the names of the columns.
    Names,
    /// None.
    Absent,
}

/// How Avro files hold DATE, TIME, DATETIME and TIMESTAMP (`useAvroLogicalTypes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogicalTypes {
    /// As logical types.
    On,
    /// As text, a TIMESTAMP as microseconds.
    Off,
}

impl FileOptions {
    /// Refuses compressions that the format has not.
    pub fn check(&self) -> Result<()> {
        use Compression::{Deflate, Gzip, None, Snappy, Zstd};
        let legal = match self.format {
            FileFormat::Csv | FileFormat::NewlineDelimitedJson => {
                matches!(self.compression, None | Gzip)
            }
            FileFormat::Avro => matches!(self.compression, None | Deflate | Snappy | Zstd),
            FileFormat::Parquet => matches!(self.compression, None | Gzip | Snappy | Zstd),
        };
        if legal {
            return Ok(());
        }
        Err(ServiceError::invalid(format!(
            "Compression {:?} is not supported for the destination format {:?}.",
            self.compression, self.format
        )))
    }
}

/// One file with all rows of `batches`, which have the Arrow form of `schema`.
pub fn write(
    schema: &TableSchema,
    batches: &[RecordBatch],
    options: &FileOptions,
) -> Result<Vec<u8>> {
    match options.format {
        FileFormat::Csv => compressed(csv::write(schema, batches, options)?, options),
        FileFormat::NewlineDelimitedJson => compressed(json::write(schema, batches)?, options),
        FileFormat::Avro => avro::write(schema, batches, options),
        FileFormat::Parquet => parquet::write(schema, batches, options),
    }
}

/// How values are written as text.
fn text() -> TextOptions {
    TextOptions {
        timestamp: TimestampText::Utc,
    }
}

fn compressed(data: Vec<u8>, options: &FileOptions) -> Result<Vec<u8>> {
    use std::io::Write;
    if options.compression != Compression::Gzip {
        return Ok(data);
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder
        .write_all(&data)
        .and_then(|()| encoder.finish())
        .map_err(|e| ServiceError::internal(format!("a file cannot be compressed: {e}")))
}

#[cfg(test)]
mod tests;
