//! Load jobs: files into a table, as one change.

use std::sync::Arc;

use super::config::{LoadConfig, WriteDisposition};
use super::destination::{Destination, Written};
use super::files::{Address, check_place, find};
use super::job::{Job, Outcome};
use super::location;
use super::merge::Wording;
use super::record::applied;
use super::statistics::{LoadStatistics, Statistics};
use super::target::Target;
use crate::engine::load::{
    Columns, Defaults, LoadError, LoadFile, Loaded, SourceFormat, read, unsupported_format,
};
use crate::error::{Result, ServiceError};
use crate::schema::{FieldType, TableSchema};
use crate::server::Service;
use crate::store::{DatasetRef, State, TableRef};

/// Addresses of one job at most.
const MAX_URIS: usize = 10_000;

/// Errors that a job reports besides its own at most.
const MAX_DETAILS: usize = 100;

/// A load job, read.
#[derive(Debug)]
pub struct Load {
    config: LoadConfig,
    destination: Destination,
    /// Of files that are in Cloud Storage.
    addresses: Vec<Address>,
    /// What was uploaded, or what the addresses lead to.
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
        if !files.is_empty() {
            readable(config.source_format)?;
        }
        if let Some(schema) = &config.schema {
            check_schema(schema, config.source_format)?;
        }
        let addresses = if files.is_empty() {
            config
                .source_uris
                .iter()
                .map(|uri| Address::parse(uri))
                .collect::<Result<_>>()?
        } else {
            Vec::new()
        };
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
            addresses,
            files,
        })
    }

    /// The dataset that the job writes to.
    pub fn dataset(&self) -> DatasetRef {
        self.destination.target.table.dataset_ref()
    }

    /// The table that the job writes to.
    pub(super) fn table(&self) -> &TableRef {
        &self.destination.target.table
    }

    /// Refuses what can be refused before the job runs.
    pub fn check(&self, state: &State) -> Result<()> {
        location::check(state, &self.destination.location, &[self.dataset()])
    }

    /// Reads the files and writes the rows.
    pub async fn run(self: Arc<Self>, service: &Arc<Service>, job: &Arc<Job>) -> Outcome {
        match self.try_run(service, job).await {
            Ok((statistics, details)) => Outcome {
                details,
                ..Outcome::success(Statistics::Load(statistics))
            },
            Err(failure) => {
                let mut details = failure.details;
                details.truncate(MAX_DETAILS);
                Outcome {
                    details,
                    ..Outcome::failure(failure.error)
                }
            }
        }
    }

    async fn try_run(
        mut self: Arc<Self>,
        service: &Arc<Service>,
        job: &Arc<Job>,
    ) -> Result<(LoadStatistics, Vec<ServiceError>), LoadError> {
        readable(self.config.source_format)?;
        if !self.addresses.is_empty() {
            self = Arc::new(self.with_files(service).await?);
        }
        let existing = service.store.read(|state| {
            self.destination.check(state)?;
            Ok::<_, ServiceError>(self.destination.existing_schema(state))
        })?;
        let rows_may_lack = self.config.source_format == SourceFormat::NewlineDelimitedJson;
        let expected = self.expected(existing.as_deref());
        let defaults = match &expected {
            Some(expected) if rows_may_lack => {
                Defaults::of(service, expected.fields.iter()).await?
            }
            _ => Defaults::default(),
        };
        let this = Arc::clone(&self);
        let mut loaded = blocking(move || this.read_files(existing.as_deref(), &defaults)).await?;
        job.check_wanted()?;
        if let Some(expected) = &expected {
            let missing = expected
                .fields
                .iter()
                .filter(|field| loaded.lacks(&field.name));
            let defaults = Defaults::of(service, missing).await?;
            loaded.fill(&expected.fields, &defaults)?;
        }
        let details = {
            loaded.errors.truncate(MAX_DETAILS);
            std::mem::take(&mut loaded.errors)
        };
        let mut statistics = LoadStatistics {
            input_files: count(self.files.len()),
            input_file_bytes: self.files.iter().map(|f| count(f.data.len())).sum(),
            bad_records: loaded.bad_records,
            ..LoadStatistics::default()
        };
        let (this, service, job) = (Arc::clone(&self), Arc::clone(service), Arc::clone(job));
        blocking(move || {
            let carried = |written: &Written| {
                job.check_wanted()?;
                statistics.output_rows = written.rows;
                statistics.output_bytes = written.bytes;
                let outcome = Outcome {
                    details: details.clone(),
                    ..Outcome::success(Statistics::Load(statistics))
                };
                Ok(Some(applied(&job, &outcome, None)))
            };
            this.destination
                .write(&service.store, &loaded.schema, &loaded.batches, carried)?;
            Ok((statistics, details))
        })
        .await
    }

    /// The same job with the files that its addresses lead to now.
    async fn with_files(&self, service: &Arc<Service>) -> Result<Self, LoadError> {
        let (service, addresses) = (Arc::clone(service), self.addresses.clone());
        let location = self.destination.location.clone();
        let files = blocking(move || {
            check_place(&service.objects, &addresses, &location)?;
            find(&service.objects, &addresses).map_err(LoadError::from)
        })
        .await?;
        Ok(Self {
            config: self.config.clone(),
            destination: self.destination.clone(),
            addresses: Vec::new(),
            files,
        })
    }

    /// Whether the job replaces the destination's schema.
    fn replaces_schema(&self) -> bool {
        self.destination.write == WriteDisposition::Truncate
            && self.destination.target.partition.is_none()
    }

    /// The columns that the destination will have for sure: those it has, or those
    /// that the job gives it.
    fn expected(&self, existing: Option<&TableSchema>) -> Option<TableSchema> {
        let given = self.config.schema.as_ref();
        match existing {
            Some(existing) if !self.replaces_schema() => Some(existing.clone()),
            _ => given.or(existing).cloned(),
        }
    }

    fn read_files(
        &self,
        existing: Option<&TableSchema>,
        defaults: &Defaults,
    ) -> Result<Loaded, LoadError> {
        let replaces_schema = self.replaces_schema();
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
            defaults,
        )
    }
}

/// Runs work that computes or waits on locks off the tasks that serve requests.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => {
            tracing::error!(error = %e, "a load panicked");
            Err(ServiceError::internal(
                "The job encountered an internal error during execution and was unable to \
                 complete successfully.",
            )
            .into())
        }
    }
}

/// Refuses formats that this server does not read. The service has them, so a job
/// over files in Cloud Storage begins, and then fails.
fn readable(format: SourceFormat) -> Result<()> {
    match format {
        SourceFormat::Orc | SourceFormat::DatastoreBackup => Err(unsupported_format(format)),
        SourceFormat::Csv
        | SourceFormat::NewlineDelimitedJson
        | SourceFormat::Avro
        | SourceFormat::Parquet => Ok(()),
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
