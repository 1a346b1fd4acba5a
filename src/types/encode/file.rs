//! Record batches as files that load jobs read.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde_json::Value as Json;

use super::avro;
use super::avro_container::{AvroFile, Codec, MAX_ROW_BYTES};
use super::convert::{self, unwritable};
use super::layout::LaidOut;
use super::rows::RowError;
use super::{FieldMarks, Form, avro_schema, plan};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{StagingCompression, StagingFormat};
use crate::types::{Field, FieldType, TableSchema};

/// Turns record batches of one schema into files for load jobs into one table.
///
/// Values are kept exactly or refused as [`RowEncoder`](super::RowEncoder) does, in
/// the same words. DATETIME is written as a time without a zone, decimals with the
/// whole width of their type, NULL arrays as empty ones; JSON and GEOGRAPHY are
/// text whose type the load job's schema has to say.
#[derive(Debug, Clone)]
pub struct FileEncoder {
    columns: Arc<[plan::Column]>,
    names: Vec<String>,
    container: Container,
}

#[derive(Debug, Clone)]
enum Container {
    Avro {
        schema: Arc<Json>,
        codec: Codec,
    },
    Parquet {
        schema: SchemaRef,
        compression: Compression,
    },
}

impl FileEncoder {
    /// Decides how batches of `batch` become files for `table`.
    ///
    /// A JSON column makes Avro of Parquet, written or not, because load jobs take no
    /// Parquet with a schema that has one; [`format`](Self::format) tells which it became. The codec becomes
    /// Avro's default then.
    ///
    /// # Errors
    /// As [`RowEncoder::plan`](super::RowEncoder::plan), and
    /// [`InvalidArgument`](crate::error::ErrorKind::InvalidArgument) naming columns
    /// that load jobs do not take from files: INTERVAL, RANGE, and names beyond
    /// ASCII letters, digits and underscores.
    /// [`Configuration`](crate::error::ErrorKind::Configuration) when the format has
    /// no such compression.
    pub fn plan(
        batch: &Schema,
        table: &TableSchema,
        format: StagingFormat,
        compression: StagingCompression,
        marks: &FieldMarks,
    ) -> Result<Self> {
        let columns = |format| {
            let form = match format {
                StagingFormat::Avro => Form::Avro,
                StagingFormat::Parquet => Form::Parquet,
            };
            plan::columns(batch, table, form, marks)
        };
        let mut planned = columns(format)?;
        avro_schema::check(&planned)?;
        let mismatch = || {
            Error::configuration(format!(
                "{} files have no compression {}",
                format.name(),
                compression.name()
            ))
        };
        let container = match format {
            StagingFormat::Parquet if !has_json(&table.fields) => Container::Parquet {
                schema: Arc::new(plan::arrow_schema(&planned)),
                compression: parquet_compression(compression).ok_or_else(mismatch)?,
            },
            StagingFormat::Parquet => {
                planned = columns(StagingFormat::Avro)?;
                Container::Avro {
                    schema: Arc::new(avro_schema::schema(&planned)),
                    codec: Codec::of(compression).unwrap_or(Codec::Zstandard),
                }
            }
            StagingFormat::Avro => Container::Avro {
                schema: Arc::new(avro_schema::schema(&planned)),
                codec: Codec::of(compression).ok_or_else(mismatch)?,
            },
        };
        Ok(FileEncoder {
            names: planned.iter().map(|column| column.name.clone()).collect(),
            columns: planned.into(),
            container,
        })
    }

    /// The columns that are written, as the table spells them.
    pub fn columns(&self) -> &[String] {
        &self.names
    }

    /// The format of the files.
    pub fn format(&self) -> StagingFormat {
        match self.container {
            Container::Avro { .. } => StagingFormat::Avro,
            Container::Parquet { .. } => StagingFormat::Parquet,
        }
    }

    /// The rows of `batch`, which has the schema of the plan: those that can be
    /// written, in their order, and why the others cannot.
    ///
    /// # Errors
    /// As [`RowEncoder::encode`](super::RowEncoder::encode).
    pub fn encode(&self, batch: &RecordBatch) -> Result<FileRows> {
        let form = match self.container {
            Container::Avro { .. } => Form::Avro,
            Container::Parquet { .. } => Form::Parquet,
        };
        let converted = convert::batch(&self.columns, batch, form)?;
        let mut errors = converted.errors;
        let body = match &self.container {
            Container::Parquet { schema, .. } => {
                let options = RecordBatchOptions::new().with_row_count(Some(converted.rows));
                let schema = Arc::clone(schema);
                let batch = RecordBatch::try_new_with_options(schema, converted.columns, &options);
                Body::Parquet(batch.map_err(unwritable)?)
            }
            Container::Avro { .. } => {
                let rows = avro::encode(&self.columns, &converted.columns, converted.rows)?;
                let number = |at: usize| converted.kept.as_ref().map_or(at, |kept| kept[at]);
                Body::Avro(without_oversize(rows, number, &mut errors))
            }
        };
        errors.sort_by_key(|error| error.row);
        Ok(FileRows { errors, body })
    }

    /// A new file.
    ///
    /// # Errors
    /// Parquet cannot hold the columns.
    pub fn start(&self) -> Result<FileWriter> {
        let file = match &self.container {
            Container::Avro { schema, codec } => File::Avro(AvroFile::new(schema, *codec)),
            Container::Parquet {
                schema,
                compression,
            } => {
                let properties = WriterProperties::builder()
                    .set_compression(*compression)
                    .build();
                let options = ArrowWriterOptions::new()
                    .with_properties(properties)
                    .with_skip_arrow_metadata(true);
                let writer =
                    ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(schema), options);
                File::Parquet(Box::new(writer.map_err(unparquetable)?))
            }
        };
        Ok(FileWriter { rows: 0, file })
    }
}

/// Takes out the rows that are too long for a block.
fn without_oversize(
    rows: LaidOut,
    number: impl Fn(usize) -> usize,
    errors: &mut Vec<RowError>,
) -> LaidOut {
    let mut start = 0;
    if rows.ends.iter().all(|end| {
        let length = end - start;
        start = *end;
        length <= MAX_ROW_BYTES
    }) {
        return rows;
    }
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let mut start = 0;
    for (at, end) in rows.ends.iter().enumerate() {
        let row = &rows.bytes[start..*end];
        start = *end;
        if row.len() <= MAX_ROW_BYTES {
            bytes.extend_from_slice(row);
            ends.push(bytes.len());
            continue;
        }
        errors.push(RowError {
            row: number(at),
            column: String::new(),
            message: format!(
                "the row takes {} bytes, more than the {MAX_ROW_BYTES} that a block of an Avro \
                 file is sure to hold; write less in the row, or set \
                 sink.file_loads.staging_format to parquet",
                row.len()
            ),
        });
    }
    LaidOut {
        bytes: bytes.into(),
        ends,
    }
}

/// Whether a column, or a field of one, is JSON.
fn has_json(fields: &[Field]) -> bool {
    fields
        .iter()
        .any(|field| field.field_type == FieldType::Json || has_json(field.field_type.fields()))
}

fn parquet_compression(compression: StagingCompression) -> Option<Compression> {
    match compression {
        StagingCompression::None => Some(Compression::UNCOMPRESSED),
        StagingCompression::Snappy => Some(Compression::SNAPPY),
        StagingCompression::Gzip => Some(Compression::GZIP(GzipLevel::default())),
        StagingCompression::Lz4Raw => Some(Compression::LZ4_RAW),
        StagingCompression::Zstd => Some(Compression::ZSTD(ZstdLevel::default())),
        StagingCompression::Deflate => None,
    }
}

fn unparquetable(error: ParquetError) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("rows cannot be written as Parquet: {error}"),
    )
    .with_source(error)
}

/// The rows of one batch, ready for files.
#[derive(Debug, Clone)]
pub struct FileRows {
    errors: Vec<RowError>,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Avro(LaidOut),
    Parquet(RecordBatch),
}

impl FileRows {
    /// How many rows are encoded.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Avro(rows) => rows.ends.len(),
            Body::Parquet(batch) => batch.num_rows(),
        }
    }

    /// Whether no row is encoded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Why rows were left out, by ascending row number, one error for a row.
    pub fn errors(&self) -> &[RowError] {
        &self.errors
    }
}

/// A file that rows are added to, in memory.
pub struct FileWriter {
    rows: u64,
    file: File,
}

enum File {
    Avro(AvroFile),
    Parquet(Box<ArrowWriter<Vec<u8>>>),
}

impl fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWriter")
            .field("rows", &self.rows)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

/// Whether a file takes more rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFull {
    /// It has as many bytes as it may: finish it and start another.
    Full,
    /// It takes more.
    Open,
}

/// A whole file.
#[derive(Debug, Clone)]
pub struct Finished {
    /// What is in it, cut anywhere.
    pub parts: Vec<Bytes>,
    /// How many rows that are.
    pub rows: u64,
}

impl FileWriter {
    /// How many rows the file has.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// About how many bytes it has.
    pub fn size(&self) -> usize {
        match &self.file {
            File::Avro(file) => file.size(),
            File::Parquet(file) => file.bytes_written() + file.in_progress_size(),
        }
    }

    /// Adds the rows from the `from`-th on until the file has about `limit` bytes.
    /// The answer is how many rows of `rows` are in files by then, and whether this
    /// file is full.
    ///
    /// # Errors
    /// The format's writer cannot write them.
    pub fn write(
        &mut self,
        rows: &FileRows,
        from: usize,
        limit: usize,
    ) -> Result<(usize, FileFull)> {
        let next = match (&mut self.file, &rows.body) {
            (File::Avro(file), Body::Avro(rows)) => file.write(rows, from, limit)?,
            (File::Parquet(file), Body::Parquet(batch)) => {
                let mut next = from;
                // In steps, because a few rows may be a whole file.
                let step = (batch.num_rows() / 16).max(64);
                while next < batch.num_rows() {
                    let count = step.min(batch.num_rows() - next);
                    file.write(&batch.slice(next, count))
                        .map_err(unparquetable)?;
                    next += count;
                    if file.bytes_written() + file.in_progress_size() >= limit {
                        break;
                    }
                }
                next
            }
            (File::Avro(_), Body::Parquet(_)) | (File::Parquet(_), Body::Avro(_)) => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    "rows of one format are written to a file of the other",
                ));
            }
        };
        self.rows += u64::try_from(next - from).unwrap_or(u64::MAX);
        let full = if self.size() >= limit {
            FileFull::Full
        } else {
            FileFull::Open
        };
        Ok((next, full))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The format's writer cannot write it.
    pub fn finish(self) -> Result<Finished> {
        let parts = match self.file {
            File::Avro(file) => file.finish()?,
            File::Parquet(file) => vec![file.into_inner().map_err(unparquetable)?.into()],
        };
        Ok(Finished {
            parts,
            rows: self.rows,
        })
    }
}

impl Finished {
    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }
}
