//! How to write by load jobs from staged files.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::raw::RawOptions;
use super::registry::{self, OptionRow};
use super::resolved::{count, duration, is_on, lower};
use super::values;
use crate::error::{Error, Result};

/// A table takes 1,500 load jobs in a day, failed ones included
/// (<https://cloud.google.com/bigquery/quotas#standard_tables>): one a minute is
/// about as many.
const ADVISED_INTERVAL: Duration = Duration::from_secs(300);

/// The least size of a staged file that can be asked for.
const MIN_FILE_BYTES: usize = 1 << 10;

/// How to write by load jobs from staged files.
#[derive(Debug, Clone, PartialEq)]
pub struct FileLoadOptions {
    /// Where files are staged; the method cannot do without.
    pub staging_path: Option<StagingPath>,
    /// What becomes of the rows that the table has.
    pub write_disposition: LoadDisposition,
    /// The format of staged files.
    pub staging_format: StagingFormat,
    /// Their compression.
    pub compression: StagingCompression,
    /// Their size, about.
    pub max_staging_file_bytes: usize,
    /// `dataset` or `project.dataset` for temporary tables; where absent, the
    /// destination's.
    pub temp_dataset: Option<String>,
    /// The shortest time between two commits of one plan.
    pub min_checkpoint_interval: Duration,
    /// The wait before a job is looked at for the second time.
    pub poll_initial_backoff: Duration,
    /// The greatest of these waits.
    pub poll_max_backoff: Duration,
    /// How a change of a table is tried again that somebody else's came before.
    pub schema_reconcile: ReconcileOptions,
    /// Files of one writer that are finished and uploaded at a time.
    pub max_concurrent_finalizations: usize,
    /// What becomes of staged files after a commit.
    pub staged_files: StagedFiles,
}

impl Default for FileLoadOptions {
    fn default() -> Self {
        FileLoadOptions {
            staging_path: None,
            write_disposition: LoadDisposition::default(),
            staging_format: StagingFormat::default(),
            compression: StagingCompression::default(),
            max_staging_file_bytes: 16 << 20,
            temp_dataset: None,
            min_checkpoint_interval: Duration::from_secs(120),
            poll_initial_backoff: Duration::from_secs(1),
            poll_max_backoff: Duration::from_secs(30),
            schema_reconcile: ReconcileOptions::default(),
            max_concurrent_finalizations: 1,
            staged_files: StagedFiles::default(),
        }
    }
}

/// How often and how long a change of a table is tried that depends on the table not
/// having been changed since it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconcileOptions {
    /// The wait before the second attempt.
    pub initial_backoff: Duration,
    /// The greatest of these waits.
    pub max_backoff: Duration,
    /// Attempts, the first one included.
    pub max_attempts: u32,
}

impl Default for ReconcileOptions {
    fn default() -> Self {
        ReconcileOptions {
            initial_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(10),
            max_attempts: 10,
        }
    }
}

impl FileLoadOptions {
    /// Holds the interval between the commits of an unbounded plan against the
    /// service's limit of load jobs in a day. Below five minutes it is logged.
    ///
    /// # Errors
    /// [`Configuration`](crate::error::ErrorKind::Configuration) when it is shorter
    /// than [`min_checkpoint_interval`](Self::min_checkpoint_interval).
    pub fn check_interval(&self, interval: Duration) -> Result<()> {
        if interval < self.min_checkpoint_interval {
            return Err(Error::configuration(format!(
                "option 'sink.checkpoint_interval' cannot be {interval:?} with \
                 sink.write_method 'file_loads': each commit is a load job, and a table takes 1,500 \
                 in a day; make it at least {:?}, or lower \
                 'sink.file_loads.min_checkpoint_interval'",
                self.min_checkpoint_interval
            )));
        }
        if interval < ADVISED_INTERVAL {
            tracing::warn!(
                ?interval,
                "commits by load jobs are less than five minutes apart: failed jobs count \
                 towards the 1,500 that a table takes in a day, too"
            );
        }
        Ok(())
    }
}

/// A place for files in Cloud Storage, printed as `gs://bucket/prefix`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StagingPath {
    bucket: String,
    /// Without a slash at either end; may be empty.
    prefix: String,
}

impl StagingPath {
    /// The bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// What names of objects begin with, without a slash at the end.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl fmt::Display for StagingPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gs://{}", self.bucket)?;
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix)?;
        }
        Ok(())
    }
}

/// What is wrong with the text of a [`StagingPath`].
pub(crate) const STAGING_PATH_FORM: &str =
    "gs://bucket/prefix, the prefix of letters, digits and the characters / . _ = -";

impl FromStr for StagingPath {
    type Err = ();

    /// Characters that mean something to load jobs (`*`), to addresses or to shells
    /// are left out, so that a name is the same everywhere.
    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let rest = text.trim().strip_prefix("gs://").ok_or(())?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let in_bucket =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
        if !(3..=222).contains(&bucket.len()) || !bucket.chars().all(in_bucket) {
            return Err(());
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let in_prefix = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=');
        let fits = |segment: &str| {
            !segment.is_empty()
                && segment != "."
                && segment != ".."
                && segment.chars().all(in_prefix)
        };
        if prefix.len() > 700 || !(prefix.is_empty() || prefix.split('/').all(fits)) {
            return Err(());
        }
        Ok(StagingPath {
            bucket: bucket.to_string(),
            prefix: prefix.to_string(),
        })
    }
}

/// What a load does with the rows that the table has
/// (`configuration.load.writeDisposition` of the REST interface).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LoadDisposition {
    /// They stay.
    #[default]
    Append,
    /// They are replaced; schema and constraints become those of the load.
    Truncate,
    /// They are replaced; schema and constraints stay.
    TruncateData,
    /// There must be none.
    Empty,
}

impl LoadDisposition {
    /// The value of the option.
    pub fn name(self) -> &'static str {
        match self {
            LoadDisposition::Append => "write_append",
            LoadDisposition::Truncate => "write_truncate",
            LoadDisposition::TruncateData => "write_truncate_data",
            LoadDisposition::Empty => "write_empty",
        }
    }

    /// What the option's value, in lower case, means.
    pub fn named(name: &str) -> Option<Self> {
        [
            LoadDisposition::Append,
            LoadDisposition::Truncate,
            LoadDisposition::TruncateData,
            LoadDisposition::Empty,
        ]
        .into_iter()
        .find(|disposition| disposition.name() == name)
    }

    /// Whether rows that the table has are replaced.
    pub fn replaces(self) -> bool {
        matches!(
            self,
            LoadDisposition::Truncate | LoadDisposition::TruncateData
        )
    }
}

/// The format of staged files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StagingFormat {
    /// Avro, which can hold every column that load jobs take.
    #[default]
    Avro,
    /// Parquet, which cannot hold JSON.
    Parquet,
}

impl StagingFormat {
    /// The value of the option.
    pub fn name(self) -> &'static str {
        match self {
            StagingFormat::Avro => "avro",
            StagingFormat::Parquet => "parquet",
        }
    }

    /// What the option's value, in lower case, means.
    pub fn named(name: &str) -> Option<Self> {
        [StagingFormat::Avro, StagingFormat::Parquet]
            .into_iter()
            .find(|format| format.name() == name)
    }
}

/// The compression of staged files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StagingCompression {
    /// None.
    None,
    /// Snappy.
    Snappy,
    /// DEFLATE, of Avro alone.
    Deflate,
    /// gzip, of Parquet alone.
    Gzip,
    /// LZ4 blocks, of Parquet alone.
    Lz4Raw,
    /// Zstandard.
    #[default]
    Zstd,
}

impl StagingCompression {
    /// The value of the option.
    pub fn name(self) -> &'static str {
        match self {
            StagingCompression::None => "none",
            StagingCompression::Snappy => "snappy",
            StagingCompression::Deflate => "deflate",
            StagingCompression::Gzip => "gzip",
            StagingCompression::Lz4Raw => "lz4_raw",
            StagingCompression::Zstd => "zstd",
        }
    }
}

/// What becomes of staged files after a commit that succeeded. After one that
/// failed they stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StagedFiles {
    /// They are deleted.
    #[default]
    Deleted,
    /// They stay.
    Kept,
}

/// The options of the method.
pub(super) const ROWS: [&OptionRow; 14] = [
    &registry::SINK_STAGING_PATH,
    &registry::SINK_WRITE_DISPOSITION,
    &registry::SINK_STAGING_FORMAT,
    &registry::SINK_STAGING_COMPRESSION,
    &registry::SINK_MAX_STAGING_FILE_BYTES,
    &registry::SINK_TEMP_DATASET,
    &registry::SINK_MIN_CHECKPOINT_INTERVAL,
    &registry::SINK_LOAD_POLL_INITIAL_BACKOFF,
    &registry::SINK_LOAD_POLL_MAX_BACKOFF,
    &registry::SINK_RECONCILE_INITIAL_BACKOFF,
    &registry::SINK_RECONCILE_MAX_BACKOFF,
    &registry::SINK_RECONCILE_MAX_ATTEMPTS,
    &registry::SINK_MAX_CONCURRENT_FINALIZATIONS,
    &registry::SINK_KEEP_STAGED_FILES,
];

/// What the options say of load jobs.
///
/// # Errors
/// A value out of range, or a pair that cannot go together.
pub(super) fn resolve(raw: &RawOptions) -> Result<FileLoadOptions> {
    use registry::{SINK_STAGING_COMPRESSION, SINK_STAGING_FORMAT, SINK_STAGING_PATH};
    let defaults = FileLoadOptions::default();
    let staging_path = match raw.get(&SINK_STAGING_PATH) {
        None => None,
        Some(said) => Some(
            said.parse()
                .map_err(|()| SINK_STAGING_PATH.refused(said, STAGING_PATH_FORM))?,
        ),
    };
    let staging_format = lower(raw, &SINK_STAGING_FORMAT)
        .and_then(|name| StagingFormat::named(&name))
        .unwrap_or(defaults.staging_format);
    let compression = match lower(raw, &SINK_STAGING_COMPRESSION).as_deref() {
        Some("none") => StagingCompression::None,
        Some("snappy") => StagingCompression::Snappy,
        Some("deflate") => StagingCompression::Deflate,
        Some("gzip") => StagingCompression::Gzip,
        Some("lz4_raw") => StagingCompression::Lz4Raw,
        _ => StagingCompression::Zstd,
    };
    let fits = match compression {
        StagingCompression::Deflate => staging_format == StagingFormat::Avro,
        StagingCompression::Gzip | StagingCompression::Lz4Raw => {
            staging_format == StagingFormat::Parquet
        }
        StagingCompression::None | StagingCompression::Snappy | StagingCompression::Zstd => true,
    };
    if !fits {
        return Err(Error::configuration(format!(
            "options '{}' '{}' and '{}' '{}' cannot go together: take none, snappy or zstd",
            SINK_STAGING_COMPRESSION.name,
            compression.name(),
            SINK_STAGING_FORMAT.name,
            staging_format.name()
        )));
    }
    let row = &registry::SINK_MAX_STAGING_FILE_BYTES;
    let max_staging_file_bytes = match raw.get(row) {
        None => defaults.max_staging_file_bytes,
        Some(said) => values::size(said)
            .and_then(|size| usize::try_from(size).ok())
            .filter(|size| (MIN_FILE_BYTES..=1 << 30).contains(size))
            .ok_or_else(|| row.refused(said, "from 1 KiB to 1 GiB"))?,
    };
    let row = &registry::SINK_TEMP_DATASET;
    let temp_dataset = raw.get(row).map(str::to_string);
    Ok(FileLoadOptions {
        staging_path,
        write_disposition: lower(raw, &registry::SINK_WRITE_DISPOSITION)
            .and_then(|name| LoadDisposition::named(&name))
            .unwrap_or(defaults.write_disposition),
        staging_format,
        compression,
        max_staging_file_bytes,
        temp_dataset,
        min_checkpoint_interval: duration(raw, &registry::SINK_MIN_CHECKPOINT_INTERVAL)
            .unwrap_or(defaults.min_checkpoint_interval),
        poll_initial_backoff: duration(raw, &registry::SINK_LOAD_POLL_INITIAL_BACKOFF)
            .unwrap_or(defaults.poll_initial_backoff),
        poll_max_backoff: duration(raw, &registry::SINK_LOAD_POLL_MAX_BACKOFF)
            .unwrap_or(defaults.poll_max_backoff),
        schema_reconcile: ReconcileOptions {
            initial_backoff: duration(raw, &registry::SINK_RECONCILE_INITIAL_BACKOFF)
                .unwrap_or(defaults.schema_reconcile.initial_backoff),
            max_backoff: duration(raw, &registry::SINK_RECONCILE_MAX_BACKOFF)
                .unwrap_or(defaults.schema_reconcile.max_backoff),
            max_attempts: count(raw, &registry::SINK_RECONCILE_MAX_ATTEMPTS)
                .unwrap_or(defaults.schema_reconcile.max_attempts),
        },
        max_concurrent_finalizations: count(raw, &registry::SINK_MAX_CONCURRENT_FINALIZATIONS)
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(defaults.max_concurrent_finalizations),
        staged_files: if is_on(raw, &registry::SINK_KEEP_STAGED_FILES) {
            StagedFiles::Kept
        } else {
            StagedFiles::Deleted
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_paths_are_read_and_printed() {
        for (text, bucket, prefix) in [
            ("gs://my-bucket/some/prefix", "my-bucket", "some/prefix"),
            ("gs://my-bucket/some/prefix/", "my-bucket", "some/prefix"),
            ("gs://my-bucket", "my-bucket", ""),
            ("gs://my.bucket_1/", "my.bucket_1", ""),
        ] {
            let path: StagingPath = text.parse().unwrap();
            assert_eq!((path.bucket(), path.prefix()), (bucket, prefix), "{text}");
            assert_eq!(path.to_string(), text.trim_end_matches('/'));
        }
        for text in [
            "",
            "s3://bucket/x",
            "bucket/x",
            "gs://",
            "gs://ab",
            "gs://Bucket/x",
            "gs://bucket//x",
            "gs://bucket/a*b",
            "gs://bucket/a/../b",
            "gs://bucket/a b",
            "gs://bucket/a#1",
            "gs://bucket/a?b",
        ] {
            assert!(text.parse::<StagingPath>().is_err(), "{text}");
        }
    }

    #[test]
    fn commits_that_would_use_up_the_day_are_refused() {
        let options = FileLoadOptions::default();
        let error = options.check_interval(Duration::from_secs(60)).unwrap_err();
        for part in [
            "'sink.checkpoint_interval'",
            "1,500",
            "min_checkpoint_interval",
        ] {
            assert!(error.message().contains(part), "{error}");
        }
        options.check_interval(Duration::from_secs(120)).unwrap();
    }
}
