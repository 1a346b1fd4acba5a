//! Reading files into rows: one module per format, no protocol, no store.
//!
//! | module | what |
//! |---|---|
//! | [`options`] | how files are read |
//! | [`csv`], [`csv_scan`] | separated values |
//! | [`json`] | a JSON object per line |
//! | [`detect`] | columns from rows (CSV, JSON) |
//! | [`defaults`] | values of columns that files lack |
//! | [`avro`], [`avro_schema`] | Avro object container files |
//! | [`parquet`], [`parquet_schema`] | Parquet |
//! | [`decode`] | what a decoder's panic means |
//! | [`parallel`] | parts of files on every core |
//! | [`convert`], [`decimals`] | Arrow values of files as BigQuery's |

mod avro;
mod avro_schema;
mod convert;
mod csv;
mod csv_scan;
mod decimal;
mod decimals;
mod decode;
mod defaults;
mod detect;
mod encoding;
mod json;
mod options;
mod parallel;
mod parquet;
mod parquet_schema;

use arrow::array::RecordBatch;
use bytes::Bytes;

pub(crate) use decode::{decoding, is_decoding};
pub use defaults::Defaults;
pub use options::{FormatOptions, ParquetOptions, SourceFormat, int64, optional_int64};

use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;

/// One file.
#[derive(Debug, Clone)]
pub struct LoadFile {
    /// Its address; empty for an upload.
    pub name: String,
    /// Its bytes, as they came.
    pub data: Bytes,
}

/// Which columns the rows have.
#[derive(Debug, Clone, Copy)]
pub enum Columns<'a> {
    /// Exactly these; what else the files have is ignored or, in CSV and JSON, bad.
    Given(&'a TableSchema),
    /// Those of the files (Avro, Parquet) or those found in the rows (CSV, JSON). A
    /// column of the same name here has the type that is wanted.
    FromFiles(Option<&'a TableSchema>),
}

/// Rows read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Columns, in order.
    pub schema: TableSchema,
    /// Rows in the Arrow form of `schema`.
    pub batches: Vec<RecordBatch>,
    /// Records skipped.
    pub bad_records: u64,
    /// What was wrong with them.
    pub errors: Vec<ServiceError>,
}

/// Why files were not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// The error of the job.
    pub error: ServiceError,
    /// Its causes, where several records are bad.
    pub details: Vec<ServiceError>,
}

impl From<ServiceError> for LoadError {
    fn from(error: ServiceError) -> Self {
        Self {
            error,
            details: Vec::new(),
        }
    }
}

/// Decompressed bytes of one job at most: a job larger than this fails instead of
/// exhausting the memory.
pub const MAX_INPUT_BYTES: usize = 4 << 30;

/// Reads files. `defaults` are the values of columns that single rows leave out
/// (JSON); whole columns are filled by [`Loaded::fill`].
pub fn read(
    files: &[LoadFile],
    format: SourceFormat,
    options: &FormatOptions,
    columns: Columns<'_>,
    defaults: &Defaults,
) -> Result<Loaded, LoadError> {
    match format {
        SourceFormat::Csv => csv::read(files, options, columns),
        SourceFormat::NewlineDelimitedJson => json::read(files, options, columns, defaults),
        SourceFormat::Avro => Ok(avro::read(files, options, columns)?),
        SourceFormat::Parquet => Ok(parquet::read(files, options, columns)?),
        SourceFormat::Orc | SourceFormat::DatastoreBackup => Err(unsupported_format(format).into()),
    }
}

/// The error of a format that this server does not read.
pub fn unsupported_format(format: SourceFormat) -> ServiceError {
    let name = match format {
        SourceFormat::Csv => "CSV",
        SourceFormat::NewlineDelimitedJson => "NEWLINE_DELIMITED_JSON",
        SourceFormat::Avro => "AVRO",
        SourceFormat::Parquet => "PARQUET",
        SourceFormat::Orc => "ORC",
        SourceFormat::DatastoreBackup => "DATASTORE_BACKUP",
    };
    ServiceError::invalid(format!(
        "Source format {name} is not supported by bigquery-local"
    ))
}

/// The service's prefix of errors in a file's contents.
fn reading(message: impl std::fmt::Display) -> ServiceError {
    ServiceError::invalid(format!(
        "Error while reading data, error message: {message}"
    ))
}

/// Refuses a zone for timestamps that say none, other than UTC.
fn check_time_zone(options: &FormatOptions) -> Result<()> {
    match options.time_zone.as_deref() {
        None | Some("") => Ok(()),
        Some(zone) if zone.eq_ignore_ascii_case("utc") => Ok(()),
        Some(zone) => Err(ServiceError::invalid(format!(
            "timeZone {zone} of load jobs is not supported by bigquery-local"
        ))),
    }
}
