//! Load jobs: files into a table, as one change.

use super::config::{LoadConfig, WriteDisposition};
use super::destination::Destination;
use super::job::{Job, Outcome};
use super::location;
use super::merge::Wording;
use super::statistics::{LoadStatistics, Statistics};
use super::target::Target;
use crate::engine::load::{
    Columns, LoadError, LoadFile, Loaded, SourceFormat, read, unsupported_format,
};
use crate::error::{Reason, Result, ServiceError};
use crate::schema::{FieldType, TableSchema};
use crate::store::{DatasetRef, State, Store};

/// Addresses of one job at most.
const MAX_URIS: usize = 10_000;

/// Errors that a job reports besides its own at most.
const MAX_DETAILS: usize = 100;

/// A load job, read.
#[derive(Debug)]
pub struct Load {
    config: LoadConfig,
    destination: Destination,
    files: Vec<LoadFile>,
}

impl Load {
    /// Reads the configuration; `files` are what was uploaded.
    pub fn read(config: LoadConfig, files: Vec<LoadFile>, location: &str) -> Result<Self> {
        if files.is_empty() && config.source_uris.is_empty() {
            return Err(ServiceError::invalid(
                "Required parameter is missing: sourceUris",
            ));
        }
        if config.source_uris.len() > MAX_URIS {
            return Err(ServiceError::invalid(format!(
                "Too many source URIs: {}. Limit is {MAX_URIS}.",
                config.source_uris.len()
            )));
        }
        if matches!(
            config.source_format,
            SourceFormat::Orc | SourceFormat::DatastoreBackup
        ) {
            return Err(unsupported_format(config.source_format));
        }
        if let Some(schema) = &config.schema {
            check_schema(schema, config.source_format)?;
        }
        let destination = Destination {
            target: Target::parse(&config.destination_table)?,
            create: config.create_disposition,
            write: config.write_disposition.unwrap_or(WriteDisposition::Append),
            updates: config.schema_update_options.clone(),
            layout: config.layout.clone(),
            properties: config.destination_table_properties.clone(),
            location: location.to_string(),
            wording: Wording::Load,
        };
        Ok(Self {
            config,
            destination,
            files,
        })
    }

    /// The dataset that the job writes to.
    pub fn dataset(&self) -> DatasetRef {
        self.destination.target.table.dataset_ref()
    }

    /// Refuses what can be refused before the job runs.
    pub fn check(&self, state: &State) -> Result<()> {
        location::check(state, &self.destination.location, &[self.dataset()])
    }

    /// Reads the files and writes the rows.
    pub fn run(&self, store: &Store, job: &Job) -> Outcome {
        match self.try_run(store, job) {
            Ok((statistics, details)) => Outcome {
                details,
                ..Outcome::success(Statistics::Load(statistics))
            },
            Err(failure) => {
                // The service repeats a job's error as the first of `errors`.
                let mut details = failure.details;
                details.truncate(MAX_DETAILS);
                Outcome {
                    details,
                    ..Outcome::failure(failure.error)
                }
            }
        }
    }

    fn try_run(
        &self,
        store: &Store,
        job: &Job,
    ) -> Result<(LoadStatistics, Vec<ServiceError>), LoadError> {
        if !self.config.source_uris.is_empty() && self.files.is_empty() {
            return Err(ServiceError::new(
                Reason::NotImplemented,
                "Loading from Cloud Storage is not supported by bigquery-local",
            )
            .into());
        }
        let existing = store.read(|state| {
            self.destination.check(state)?;
            Ok::<_, ServiceError>(self.destination.existing_schema(state))
        })?;
        let mut loaded = self.read_files(existing.as_deref())?;
        if job.is_cancelled() {
            return Err(super::job::cancelled_error().into());
        }
        let written = self
            .destination
            .write(store, &loaded.schema, &loaded.batches)?;
        loaded.errors.truncate(MAX_DETAILS);
        let statistics = LoadStatistics {
            input_files: count(self.files.len()),
            input_file_bytes: self.files.iter().map(|f| count(f.data.len())).sum(),
            output_rows: written.rows,
            output_bytes: written.bytes,
            bad_records: loaded.bad_records,
        };
        Ok((statistics, loaded.errors))
    }

    fn read_files(&self, existing: Option<&TableSchema>) -> Result<Loaded, LoadError> {
        let replaces_schema = self.destination.write == WriteDisposition::Truncate
            && self.destination.target.partition.is_none();
        let self_describing = matches!(
            self.config.source_format,
            SourceFormat::Avro | SourceFormat::Parquet
        );
        let given = self.config.schema.as_ref().filter(|s| !s.fields.is_empty());
        let columns = match (given, existing) {
            (Some(schema), _) => Columns::Given(schema),
            (None, existing) if self_describing => {
                Columns::FromFiles(existing.filter(|_| !replaces_schema))
            }
            (None, existing) if self.config.autodetect == Some(true) => {
                Columns::FromFiles(existing.filter(|_| !replaces_schema))
            }
            (None, Some(schema)) => Columns::Given(schema),
            (None, None) => {
                return Err(ServiceError::invalid("No schema specified on job or table.").into());
            }
        };
        read(
            &self.files,
            self.config.source_format,
            &self.config.format,
            columns,
        )
    }
}

/// Refuses types that files of a format cannot hold (section 5.2 of the service
/// reference).
fn check_schema(schema: &TableSchema, format: SourceFormat) -> Result<()> {
    fn visit(fields: &[crate::schema::Field], format: SourceFormat) -> Result<()> {
        for field in fields {
            let refused = match (&field.field_type, format) {
                (FieldType::Struct(fields), _) => {
                    visit(fields, format)?;
                    false
                }
                (FieldType::Json, SourceFormat::Parquet) => true,
                (
                    FieldType::Interval | FieldType::Range(_),
                    SourceFormat::Parquet | SourceFormat::Avro,
                ) => true,
                _ => false,
            };
            if refused {
                return Err(ServiceError::invalid(format!(
                    "Unsupported field type: {}",
                    field.field_type.sql_name()
                )));
            }
        }
        Ok(())
    }
    visit(&schema.fields, format)
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
