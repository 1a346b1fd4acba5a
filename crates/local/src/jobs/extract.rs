//! Extract jobs: a table into files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;

use super::config::ExtractConfig;
use super::files::{Address, check_place, storage_error};
use super::job::Job;
use super::location;
use super::statistics::ExtractStatistics;
use super::target::Target;
use crate::engine::extract::{FileFormat, FileOptions, Header, LogicalTypes, write};
use crate::error::{Result, ServiceError};
use crate::gcs::{Attributes, Conditions, Expected, New, Objects};
use crate::schema::logical_bytes;
use crate::server::Service;
use crate::store::{DatasetRef, Rows, State, Table, TableKind};

/// One file at most, in logical bytes; a larger table needs addresses with a `*`.
const FILE_BYTES: u64 = 1 << 30;

/// A file of an address with a `*` has about so many logical bytes.
const SHARD_BYTES: u64 = 256 << 20;

/// An extract job, read.
#[derive(Debug)]
pub struct Extract {
    source: Target,
    addresses: Vec<Address>,
    options: FileOptions,
}

impl Extract {
    /// Reads the configuration.
    pub fn read(config: &ExtractConfig) -> Result<Self> {
        let Some(source) = &config.source_table else {
            return Err(ServiceError::invalid(if config.source_model.is_some() {
                "Extracting models is not supported by bigquery-local"
            } else {
                "Required parameter is missing: sourceTable"
            }));
        };
        let uris = config
            .destination_uri
            .iter()
            .chain(&config.destination_uris);
        let addresses = uris
            .map(|uri| Address::parse(uri))
            .collect::<Result<Vec<_>>>()?;
        if addresses.is_empty() {
            return Err(ServiceError::invalid(
                "Required parameter is missing: destinationUris",
            ));
        }
        if addresses.len() > 1 && addresses.iter().any(|address| address.after.is_none()) {
            return Err(ServiceError::invalid(
                "Several destination URIs must each have a *.",
            ));
        }
        let delimiter = match config.field_delimiter.as_deref() {
            None | Some("") => b',',
            Some("tab" | "\\t") => b'\t',
            Some(text) => match text.as_bytes() {
                [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => *byte,
                _ => {
                    return Err(ServiceError::invalid(format!(
                        "The fieldDelimiter {text:?} is not one ASCII character."
                    )));
                }
            },
        };
        let options = FileOptions {
            format: config.destination_format.unwrap_or_default(),
            compression: config.compression.unwrap_or_default(),
            delimiter,
            header: match config.print_header {
                Some(false) => Header::Absent,
                _ => Header::Names,
            },
            logical_types: match config.use_avro_logical_types {
                Some(true) => LogicalTypes::On,
                _ => LogicalTypes::Off,
            },
        };
        options.check()?;
        Ok(Self {
            source: Target::parse(source)?,
            addresses,
            options,
        })
    }

    /// The dataset that the job reads.
    pub fn dataset(&self) -> DatasetRef {
        self.source.table.dataset_ref()
    }

    /// Refuses what can be refused before the job runs.
    pub fn check(&self, state: &State, location: &str) -> Result<()> {
        location::check(state, location, &[self.dataset()])?;
        self.table(state).map(drop)
    }

    fn table(&self, state: &State) -> Result<Arc<Table>> {
        let table = state.require_table(&self.source.table)?;
        match table.meta().kind {
            TableKind::Table => Ok(Arc::clone(table)),
            _ => Err(ServiceError::invalid(format!(
                "{} is not allowed for this operation because it is not currently a TABLE.",
                self.source.table
            ))),
        }
    }

    /// Writes the files.
    pub fn run(&self, service: &Service, job: &Job) -> Result<ExtractStatistics> {
        let table = service.store.read(|state| self.table(state))?;
        let meta = table.meta();
        check_place(&service.objects, &self.addresses, &meta.location)?;
        let snapshot = table.snapshot();
        let batches = match self.source.partition_of(&meta)? {
            Some(partition) => {
                let mut rows = Vec::new();
                snapshot.each_partition_row(&meta, &partition, Rows::Inside, &mut |batch| {
                    rows.push(batch);
                    Ok(())
                })?;
                rows
            }
            None => snapshot.batches()?,
        };
        let input_bytes: u64 = batches.iter().map(logical_bytes).sum();
        let sharded = self.addresses[0].after.is_some();
        if !sharded && input_bytes > FILE_BYTES {
            return Err(ServiceError::invalid(format!(
                "Table {} too large to be exported to a single file. Specify a uri including a * to shard export. See 'Exporting data into one or more files' in https://cloud.google.com/bigquery/docs/exporting-data.",
                self.source.table
            )));
        }
        let shards = if sharded { cut(batches) } else { vec![batches] };
        let mut counts = vec![0_u64; self.addresses.len()];
        // Every address gets a file, and rows go around.
        let rounds = shards.len().max(self.addresses.len());
        let mut shards = shards.into_iter();
        for round in 0..rounds {
            job.check_wanted()?;
            let at = round % self.addresses.len();
            let address = &self.addresses[at];
            let rows = shards.next().unwrap_or_default();
            let data = write(&snapshot.schema, &rows, &self.options)?;
            let name = address.filled(&format!("{:012}", counts[at]));
            self.put(&service.objects, address, name, data.into())?;
            counts[at] += 1;
        }
        Ok(ExtractStatistics {
            file_counts: counts,
            input_bytes,
        })
    }

    fn put(&self, objects: &Objects, to: &Address, name: String, data: Bytes) -> Result<()> {
        let kind = match self.options.format {
            FileFormat::Csv => "text/csv",
            FileFormat::NewlineDelimitedJson => "application/json",
            FileFormat::Avro | FileFormat::Parquet => "application/octet-stream",
        };
        let new = New {
            name,
            attributes: Attributes {
                content_type: Some(kind.to_string()),
                ..Attributes::default()
            },
            conditions: Conditions::default(),
            expected: Expected::default(),
        };
        objects
            .put(&to.bucket, new, data)
            .map(drop)
            .map_err(|e| storage_error(&e, &to.uri))
    }
}

/// Cuts rows into parts of about [`SHARD_BYTES`]; one part, of no rows, when there are
/// none.
fn cut(batches: Vec<RecordBatch>) -> Vec<Vec<RecordBatch>> {
    let mut shards = vec![Vec::new()];
    let mut bytes = 0;
    for batch in batches {
        let size = logical_bytes(&batch);
        if bytes > 0 && bytes + size > SHARD_BYTES {
            shards.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        if let Some(last) = shards.last_mut() {
            last.push(batch);
        }
    }
    shards
}
