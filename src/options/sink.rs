//! How to write.

use std::time::Duration;

use super::cdc::{CdcOptions, cdc};
use super::failure::{FailureOptions, failure};
use super::file_loads::{self, FileLoadOptions, LoadDisposition};
use super::raw::RawOptions;
use super::registry::{self, OptionRow};
use super::resolved::{count, duration, is_on, lower};
use super::stream::StreamOptions;
use super::stream_rows;
use super::table_create::{TableCreateOptions, table_create};
use super::values;
use crate::error::{Error, Result};

/// How to write.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SinkOptions {
    /// By which of the service's ways.
    pub write_method: WriteMethod,
    /// How rows are encoded.
    pub format: AppendFormat,
    /// What columns without values get.
    pub missing_value: MissingValue,
    /// What happens when a table does not exist.
    pub create_disposition: CreateDisposition,
    /// What a table is like that is created, besides its columns.
    pub table_create: TableCreateOptions,
    /// Whether columns that are never NULL are REQUIRED in a table that is created.
    pub derive_required_columns: bool,
    /// Columns that are JSON, as dotted paths.
    pub json_field_paths: Vec<String>,
    /// Columns that are GEOGRAPHY, as dotted paths.
    pub geography_field_paths: Vec<String>,
    /// What may change of the columns of a table.
    pub schema_update: SchemaUpdateOptions,
    /// How long to wait for a change of a table to reach those that take rows.
    pub propagation: PropagationOptions,
    /// To which tables rows go.
    pub destination: DestinationOptions,
    /// So many writers stand side by side; without it as many as the plan has partitions.
    pub parallelism: Option<usize>,
    /// What becomes of rows that cannot be written.
    pub failure: FailureOptions,
    /// As which run a statement is executed.
    pub run: Option<RunOptions>,
    /// How often the rows of a plan that never ends are committed.
    pub checkpoint_interval: Option<Duration>,
    /// Of the default stream.
    pub default_stream: StreamOptions,
    /// How many connections there are to the default stream.
    pub default_connections: ConnectionCounts,
    /// How long rows wait at most to be sent to the default stream, while the input gives
    /// few of them.
    pub flush_interval: Option<Duration>,
    /// Of buffered streams.
    pub buffered_stream: StreamOptions,
    /// Of pending streams.
    pub pending_stream: StreamOptions,
    /// Of load jobs from staged files.
    pub file_loads: FileLoadOptions,
    /// The partition that is written; all of the table without it.
    pub partition: Option<String>,
    /// What a commit does with the rows that the table has.
    pub effect: WriteEffect,
    /// Labels of jobs that write.
    pub job_labels: Vec<(String, String)>,
    /// How to write changes by key, if rows are such.
    pub cdc: Option<CdcOptions>,
}

impl SinkOptions {
    /// Whether a commit replaces rows, even where there are no new ones.
    pub fn replaces(&self) -> bool {
        self.effect == WriteEffect::Replace
            || (self.write_method == WriteMethod::FileLoads
                && self.file_loads.write_disposition.replaces())
    }

    /// That what is said of the rows in the table acts on an INSERT.
    ///
    /// # Errors
    /// A disposition of load jobs where none is made.
    pub(crate) fn check_disposition(&self) -> Result<()> {
        let said = self.file_loads.write_disposition;
        let acts = self.write_method == WriteMethod::FileLoads
            || self.effect == WriteEffect::Replace
            || said == LoadDisposition::Append;
        if acts {
            return Ok(());
        }
        let (disposition, method) = (
            registry::SINK_WRITE_DISPOSITION.name,
            registry::SINK_WRITE_METHOD.name,
        );
        Err(Error::configuration(format!(
            "option '{disposition}' '{}' is about load jobs, and '{}' (option '{method}') adds rows: \
             RESET the first one, set '{method}' to 'file_loads', or write INSERT OVERWRITE",
            said.name(),
            self.write_method.name()
        )))
    }

    /// What load jobs do with the rows that the table has.
    ///
    /// # Errors
    /// INSERT OVERWRITE of a table that has to be empty.
    pub fn load_disposition(&self) -> Result<LoadDisposition> {
        match (self.effect, self.file_loads.write_disposition) {
            (WriteEffect::Replace, LoadDisposition::Empty) => Err(Error::configuration(
                "INSERT OVERWRITE and option 'sink.file_loads.write_disposition' 'write_empty' \
                 cannot go together: one replaces rows, and the other wants none to be there",
            )),
            (WriteEffect::Replace, LoadDisposition::Append) => Ok(LoadDisposition::TruncateData),
            (_, said) => Ok(said),
        }
    }
}

/// What a commit does with the rows that the table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WriteEffect {
    /// They stay, unless [`FileLoadOptions::write_disposition`] says otherwise.
    #[default]
    Add,
    /// They are replaced, all at once; schema and constraints stay.
    Replace,
}

/// How many connections a statement has to default streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// So many are opened as soon as answers are awaited.
    pub min: usize,
    /// So many are opened at most for want of room.
    pub max: usize,
}

impl Default for ConnectionCounts {
    fn default() -> Self {
        Self { min: 2, max: 20 }
    }
}

impl ConnectionCounts {
    fn resolve(raw: &RawOptions) -> Result<Self> {
        let defaults = Self::default();
        let said = |row| count(raw, row).and_then(|count| usize::try_from(count).ok());
        let (min, max) = (
            said(&registry::SINK_MIN_CONNECTIONS),
            said(&registry::SINK_MAX_CONNECTIONS),
        );
        match (min, max) {
            (Some(min), Some(max)) if min > max => Err(Error::configuration(format!(
                "options '{}' and '{}' cannot go together: {min} is more than {max}",
                registry::SINK_MIN_CONNECTIONS.name,
                registry::SINK_MAX_CONNECTIONS.name
            ))),
            // Where only one is said, it moves the other.
            (None, Some(max)) => Ok(Self {
                min: defaults.min.min(max),
                max,
            }),
            (min, max) => {
                let min = min.unwrap_or(defaults.min);
                let max = max.unwrap_or(defaults.max).max(min);
                Ok(Self { min, max })
            }
        }
    }
}

/// By which name a statement can be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// The directory of what runs note, as it was said.
    pub path: String,
    /// The name of the run.
    pub id: String,
}

/// By which of the service's ways rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WriteMethod {
    /// Appends to the default stream: rows are visible when they are
    /// acknowledged, and a lost acknowledgement writes rows again.
    #[default]
    StorageApiAtLeastOnce,
    /// Appends to buffered streams at known offsets: rows are visible when they are
    /// committed, each once.
    StorageApiExactlyOnce,
    /// Appends to pending streams: the rows of a commit are visible at once, all or
    /// none of them.
    StorageApiAtomic,
    /// Files are staged in Cloud Storage and loaded by jobs: rows are visible at the
    /// commit, all at once, and exactly once.
    FileLoads,
}

impl WriteMethod {
    const ALL: [WriteMethod; 4] = [
        WriteMethod::StorageApiAtLeastOnce,
        WriteMethod::StorageApiExactlyOnce,
        WriteMethod::StorageApiAtomic,
        WriteMethod::FileLoads,
    ];

    /// The value of `sink.write_method`.
    pub fn name(self) -> &'static str {
        match self {
            WriteMethod::StorageApiAtLeastOnce => "storage_api_at_least_once",
            WriteMethod::StorageApiExactlyOnce => "storage_api_exactly_once",
            WriteMethod::StorageApiAtomic => "storage_api_atomic",
            WriteMethod::FileLoads => "file_loads",
        }
    }

    /// The options that are about no other method.
    fn rows(self) -> Vec<&'static OptionRow> {
        match self {
            WriteMethod::StorageApiAtLeastOnce => {
                let mut rows = stream_rows::DEFAULT_STREAM.all().to_vec();
                rows.extend([
                    &registry::SINK_MIN_CONNECTIONS,
                    &registry::SINK_MAX_CONNECTIONS,
                    &registry::SINK_FLUSH_INTERVAL,
                ]);
                rows
            }
            WriteMethod::StorageApiExactlyOnce => stream_rows::BUFFERED_STREAM.all().to_vec(),
            WriteMethod::StorageApiAtomic => stream_rows::PENDING_STREAM.all().to_vec(),
            WriteMethod::FileLoads => file_loads::ROWS.to_vec(),
        }
    }
}

/// How rows are encoded for the Storage Write API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AppendFormat {
    /// Protobuf messages, which can hold every column.
    #[default]
    Auto,
    /// Arrow record batches.
    Arrow,
    /// Protobuf messages.
    Proto,
}

/// What a column gets that a statement leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MissingValue {
    /// NULL.
    #[default]
    Null,
    /// The table's default for it.
    Default,
}

/// What happens when a table does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CreateDisposition {
    /// It is created.
    #[default]
    CreateIfNeeded,
    /// Writing fails.
    CreateNever,
}

/// What may change of the columns of a table so that rows can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemaUpdateOptions {
    /// Whether columns and fields of structs that it lacks may be added, NULLABLE.
    pub allow_new_fields: bool,
    /// Whether REQUIRED columns may become NULLABLE.
    pub allow_field_relaxation: bool,
}

/// How long to wait until a table that was created or changed is known where rows
/// are written, which takes seconds to minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PropagationOptions {
    /// Between attempts.
    pub interval: Duration,
    /// How many attempts in a row.
    pub attempts: u32,
}

impl Default for PropagationOptions {
    fn default() -> Self {
        PropagationOptions {
            interval: Duration::from_secs(30),
            attempts: 30,
        }
    }
}

/// To which tables rows go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationOptions {
    /// The name of a table with columns in braces, whose values stand there for each
    /// row; without it all rows go to one table.
    pub pattern: Option<String>,
    /// Columns that are not written: they only say where rows go.
    pub drop_columns: Vec<String>,
    /// How long a table has no rows before its writer is put away.
    pub idle_timeout: Duration,
    /// Whether rows are counted for each table.
    pub metrics: bool,
}

impl Default for DestinationOptions {
    fn default() -> Self {
        DestinationOptions {
            pattern: None,
            drop_columns: Vec::new(),
            idle_timeout: Duration::from_secs(3_600),
            metrics: false,
        }
    }
}

/// What the options say of writing.
///
/// # Errors
/// A value out of range, or one that this version does not act on.
pub(super) fn sink(raw: &RawOptions) -> Result<SinkOptions> {
    let format = match lower(raw, &registry::SINK_FORMAT).as_deref() {
        Some("arrow") => AppendFormat::Arrow,
        Some("proto") => AppendFormat::Proto,
        _ => AppendFormat::Auto,
    };
    let cdc = cdc(raw, format)?;
    check_routing(raw)?;
    let write_method = write_method(raw);
    let file_loads = file_loads::resolve(raw)?;
    if write_method == WriteMethod::FileLoads && file_loads.staging_path.is_none() {
        return Err(Error::configuration(format!(
            "option '{}' set to 'file_loads' needs option '{}' beside it, as gs://bucket/prefix",
            registry::SINK_WRITE_METHOD.name,
            registry::SINK_STAGING_PATH.name
        )));
    }
    let create_disposition = create_disposition(raw)?;
    let (json_field_paths, geography_field_paths) = marks(raw)?;
    Ok(SinkOptions {
        write_method,
        file_loads,
        partition: partition(raw)?,
        effect: WriteEffect::Add,
        job_labels: raw
            .get(&registry::JOB_LABELS)
            .and_then(values::map)
            .unwrap_or_default(),
        format,
        cdc,
        missing_value: match lower(raw, &registry::SINK_MISSING_VALUE).as_deref() {
            Some("default") => MissingValue::Default,
            _ => MissingValue::Null,
        },
        create_disposition,
        table_create: table_create(raw)?,
        derive_required_columns: is_on(raw, &registry::SINK_DERIVE_REQUIRED_COLUMNS),
        json_field_paths,
        geography_field_paths,
        schema_update: SchemaUpdateOptions {
            allow_new_fields: is_on(raw, &registry::SINK_ALLOW_NEW_FIELDS),
            allow_field_relaxation: is_on(raw, &registry::SINK_ALLOW_FIELD_RELAXATION),
        },
        propagation: propagation(raw),
        destination: destination(raw)?,
        parallelism: count(raw, &registry::SINK_PARALLELISM)
            .and_then(|count| usize::try_from(count).ok()),
        failure: failure(raw)?,
        run: run(raw)?,
        checkpoint_interval: duration(raw, &registry::SINK_CHECKPOINT_INTERVAL),
        default_stream: StreamOptions::resolve(raw, &stream_rows::DEFAULT_STREAM)?,
        default_connections: ConnectionCounts::resolve(raw)?,
        flush_interval: duration(raw, &registry::SINK_FLUSH_INTERVAL),
        buffered_stream: StreamOptions::resolve(raw, &stream_rows::BUFFERED_STREAM)?,
        pending_stream: StreamOptions::resolve(raw, &stream_rows::PENDING_STREAM)?,
    })
}

/// # Errors
/// What a new table is like is said although none is made.
fn create_disposition(raw: &RawOptions) -> Result<CreateDisposition> {
    let row = &registry::SINK_CREATE_DISPOSITION;
    if lower(raw, row).as_deref() != Some("create_never") {
        return Ok(CreateDisposition::CreateIfNeeded);
    }
    let of_creation = raw
        .iter()
        .find(|(name, _)| name.starts_with("sink.table_create."));
    if let Some((name, _)) = of_creation {
        return Err(Error::configuration(format!(
            "options '{name}' and '{}' cannot go together: under create_never no table is made",
            row.name
        )));
    }
    Ok(CreateDisposition::CreateNever)
}

fn propagation(raw: &RawOptions) -> PropagationOptions {
    let defaults = PropagationOptions::default();
    PropagationOptions {
        interval: duration(raw, &registry::SINK_PROPAGATION_INTERVAL).unwrap_or(defaults.interval),
        attempts: count(raw, &registry::SINK_PROPAGATION_ATTEMPTS).unwrap_or(defaults.attempts),
    }
}

/// # Errors
/// Columns are left out that name no table.
fn destination(raw: &RawOptions) -> Result<DestinationOptions> {
    let (row, dropped) = (
        &registry::SINK_DESTINATION,
        &registry::SINK_DESTINATION_DROP_COLUMNS,
    );
    if raw.get(dropped).is_some() && raw.get(row).is_none() {
        return Err(Error::configuration(format!(
            "option '{}' needs '{}' beside it: without a pattern no column is for naming tables \
             only",
            dropped.name, row.name
        )));
    }
    let defaults = DestinationOptions::default();
    Ok(DestinationOptions {
        pattern: raw.get(row).map(str::to_string),
        drop_columns: list(raw, dropped),
        idle_timeout: duration(raw, &registry::SINK_DESTINATION_IDLE_TIMEOUT)
            .unwrap_or(defaults.idle_timeout),
        metrics: is_on(raw, &registry::SINK_PER_DESTINATION_METRICS),
    })
}

/// One commit of pending streams is of one table.
fn check_routing(raw: &RawOptions) -> Result<()> {
    let (method, pattern) = (&registry::SINK_WRITE_METHOD, &registry::SINK_DESTINATION);
    if lower(raw, method).as_deref() == Some("storage_api_atomic") && raw.get(pattern).is_some() {
        return Err(Error::configuration(format!(
            "options '{}' 'storage_api_atomic' and '{}' cannot go together: a batch commit is of \
             one table; write to many tables with '{}' 'storage_api_exactly_once' or 'file_loads'",
            method.name, pattern.name, method.name
        )));
    }
    Ok(())
}

/// Columns that are JSON, and those that are GEOGRAPHY.
///
/// # Errors
/// A column that would be both.
fn marks(raw: &RawOptions) -> Result<(Vec<String>, Vec<String>)> {
    let rows = (
        &registry::SINK_JSON_FIELD_PATHS,
        &registry::SINK_GEOGRAPHY_FIELD_PATHS,
    );
    let (json, geography) = (list(raw, rows.0), list(raw, rows.1));
    let both = |path: &&String| geography.iter().any(|g| g.eq_ignore_ascii_case(path));
    match json.iter().find(both) {
        None => Ok((json, geography)),
        Some(path) => Err(Error::configuration(format!(
            "options '{}' and '{}' both name '{path}': a column is the one or the other",
            rows.0.name, rows.1.name
        ))),
    }
}

fn list(raw: &RawOptions, row: &OptionRow) -> Vec<String> {
    raw.get(row).map(values::list).unwrap_or_default()
}

/// The longest name of a run.
const MAX_RUN_ID_BYTES: usize = 128;

fn run(raw: &RawOptions) -> Result<Option<RunOptions>> {
    let Some(id) = raw.get(&registry::SINK_RUN_ID) else {
        return Ok(None);
    };
    // It becomes the name of a file.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !id.chars().all(plain) || id.starts_with('.') || id.len() > MAX_RUN_ID_BYTES {
        let allowed = "at most 128 letters, digits, '.', '-' and '_', and begin without a dot";
        return Err(registry::SINK_RUN_ID.refused(id, allowed));
    }
    match raw.get(&registry::SINK_CHECKPOINT_PATH) {
        Some(path) => Ok(Some(RunOptions {
            path: path.to_string(),
            id: id.to_string(),
        })),
        None => Err(Error::configuration(format!(
            "option '{}' needs '{}': what the run has done must be noted somewhere",
            registry::SINK_RUN_ID.name,
            registry::SINK_CHECKPOINT_PATH.name
        ))),
    }
}

impl SinkOptions {
    /// The run as which a statement writes by these options.
    ///
    /// # Errors
    /// [`Configuration`](crate::ErrorKind::Configuration) when the method cannot
    /// repeat it.
    pub fn repeatable(&self) -> Result<Option<&RunOptions>> {
        match (&self.run, self.write_method) {
            (Some(_), WriteMethod::StorageApiAtLeastOnce) => Err(Error::configuration(format!(
                "option '{}' cannot go together with '{}' '{}', whose rows are visible before they \
                 are committed: select another method",
                registry::SINK_RUN_ID.name,
                registry::SINK_WRITE_METHOD.name,
                self.write_method.name()
            ))),
            (run, _) => Ok(run.as_ref()),
        }
    }
}

/// The id of a partition: digits of a time, or the start of an integer range.
fn partition(raw: &RawOptions) -> Result<Option<String>> {
    let row = &registry::SINK_PARTITION;
    let Some(said) = raw.get(row) else {
        return Ok(None);
    };
    let digits = said.strip_prefix('-').unwrap_or(said);
    let special = ["__NULL__", "__UNPARTITIONED__"].contains(&said);
    if special || (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())) {
        return Ok(Some(said.to_string()));
    }
    Err(row.refused(said, "the id of a partition, such as 20260101"))
}

/// The method that the options select.
fn write_method(raw: &RawOptions) -> WriteMethod {
    let said = lower(raw, &registry::SINK_WRITE_METHOD);
    let mut all = WriteMethod::ALL.into_iter();
    all.find(|method| said.as_deref() == Some(method.name()))
        .unwrap_or_default()
}

/// Options about one write method that a table says of itself need that method.
///
/// # Errors
/// One that is about another method than `all` selects.
pub(super) fn check_methods(own: &RawOptions, all: &RawOptions) -> Result<()> {
    let selected = write_method(all);
    if selected == WriteMethod::FileLoads && own.get(&registry::SINK_FORMAT).is_some() {
        return Err(Error::configuration(format!(
            "options '{}' and '{}' 'file_loads' cannot go together: files have '{}'",
            registry::SINK_FORMAT.name,
            registry::SINK_WRITE_METHOD.name,
            registry::SINK_STAGING_FORMAT.name
        )));
    }
    for method in WriteMethod::ALL {
        if method == selected {
            continue;
        }
        let rows = method.rows();
        if let Some(row) = rows.into_iter().find(|row| own.get(row).is_some()) {
            return Err(Error::configuration(format!(
                "option '{}' is about '{}' '{}', and the method is '{}': leave it out, or select \
                 that method",
                row.name,
                registry::SINK_WRITE_METHOD.name,
                method.name(),
                selected.name()
            )));
        }
    }
    Ok(())
}
