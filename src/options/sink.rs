//! How to write.

use std::time::Duration;

use super::raw::RawOptions;
use super::registry::{self, OptionRow};
use super::resolved::{count, duration, lower};
use super::values;
use crate::error::{Error, Result};

/// No request is larger than this, so that rows with what stands around them stay
/// below the service's limit. Its documentation gives 20 MB, and it has refused
/// requests above 10 MiB.
pub const MAX_APPEND_REQUEST_BYTES: usize = 9 << 20;

/// Requests below this would be all framing.
const MIN_APPEND_REQUEST_BYTES: usize = 1 << 10;

/// How to write.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SinkOptions {
    /// By which of the service's ways.
    pub write_method: WriteMethod,
    /// How rows are encoded.
    pub format: AppendFormat,
    /// What columns without values get.
    pub missing_value: MissingValue,
    /// What becomes of rows that cannot be written.
    pub failure: FailureOptions,
    /// Of the default stream.
    pub default_stream: DefaultStreamOptions,
}

/// By which of the service's ways rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WriteMethod {
    /// Appends to the default stream: rows are visible when they are
    /// acknowledged, and a lost acknowledgement writes rows again.
    #[default]
    StorageApiAtLeastOnce,
}

impl WriteMethod {
    /// The value of `sink.write_method`.
    pub fn name(self) -> &'static str {
        match self {
            WriteMethod::StorageApiAtLeastOnce => "storage_api_at_least_once",
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

/// What becomes of rows that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailureOptions {
    /// The rule.
    pub policy: FailurePolicy,
    /// Under [`FailurePolicy::Drop`], so many rows may fail.
    pub max_rows: Option<u32>,
}

/// What becomes of a row that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FailurePolicy {
    /// Writing fails.
    #[default]
    Fail,
    /// It is counted, logged and left out.
    Drop,
}

/// How to append to the default stream.
#[derive(Debug, Clone, PartialEq)]
pub struct DefaultStreamOptions {
    /// Bytes of a request, about.
    pub max_append_request_bytes: usize,
    /// Requests under way at most.
    pub max_inflight_requests: usize,
    /// Bytes under way at most.
    pub max_inflight_bytes: usize,
    /// How long a connection may be silent while requests wait.
    pub append_timeout: Duration,
    /// The wait before the first replacement of a broken connection.
    pub recovery_initial_backoff: Duration,
    /// The greatest of these waits.
    pub recovery_max_backoff: Duration,
    /// Connections in a row on which nothing is acknowledged.
    pub recovery_max_attempts: u32,
    /// The wait before a refused request is sent again.
    pub retry_initial_delay: Duration,
    /// By how much each of these waits is longer.
    pub retry_delay_multiplier: f64,
    /// The greatest of these waits.
    pub retry_max_delay: Duration,
    /// Refusals in a row.
    pub retry_max_attempts: u32,
    /// How long a refused request is sent again.
    pub retry_max_duration: Duration,
}

impl Default for DefaultStreamOptions {
    fn default() -> Self {
        DefaultStreamOptions {
            max_append_request_bytes: 512 << 10,
            max_inflight_requests: 100,
            max_inflight_bytes: 100 << 20,
            append_timeout: Duration::from_secs(300),
            recovery_initial_backoff: Duration::from_millis(500),
            recovery_max_backoff: Duration::from_secs(10),
            recovery_max_attempts: 10,
            retry_initial_delay: Duration::from_millis(500),
            retry_delay_multiplier: 2.0,
            retry_max_delay: Duration::from_secs(30),
            retry_max_attempts: 5,
            retry_max_duration: Duration::from_secs(300),
        }
    }
}

/// What the options say of writing.
///
/// # Errors
/// A value out of range, or one that this version does not act on.
pub(super) fn sink(raw: &RawOptions) -> Result<SinkOptions> {
    let not_yet = |row: &OptionRow, value: &str, instead: &str| {
        Error::configuration(format!(
            "option '{}' cannot be '{value}' yet: this version does only '{instead}'",
            row.name
        ))
    };
    let method = &registry::SINK_WRITE_METHOD;
    if let Some(value) = lower(raw, method)
        && value != WriteMethod::StorageApiAtLeastOnce.name()
    {
        let only = WriteMethod::StorageApiAtLeastOnce.name();
        return Err(not_yet(method, &value, only));
    }
    let policy = match lower(raw, &registry::SINK_FAILURE_POLICY).as_deref() {
        None | Some("fail") => FailurePolicy::Fail,
        Some("drop") => FailurePolicy::Drop,
        Some(other) => {
            return Err(not_yet(
                &registry::SINK_FAILURE_POLICY,
                other,
                "fail' and 'drop",
            ));
        }
    };
    let max_rows = count(raw, &registry::SINK_FAILURE_MAX_ROWS);
    if max_rows.is_some() && policy == FailurePolicy::Fail {
        return Err(Error::configuration(format!(
            "option '{}' needs '{}' to be 'drop': under 'fail' the first row that cannot be \
             written is the last",
            registry::SINK_FAILURE_MAX_ROWS.name,
            registry::SINK_FAILURE_POLICY.name
        )));
    }
    Ok(SinkOptions {
        write_method: WriteMethod::StorageApiAtLeastOnce,
        format: match lower(raw, &registry::SINK_FORMAT).as_deref() {
            Some("arrow") => AppendFormat::Arrow,
            Some("proto") => AppendFormat::Proto,
            _ => AppendFormat::Auto,
        },
        missing_value: match lower(raw, &registry::SINK_MISSING_VALUE).as_deref() {
            Some("default") => MissingValue::Default,
            _ => MissingValue::Null,
        },
        failure: FailureOptions { policy, max_rows },
        default_stream: default_stream(raw)?,
    })
}

fn default_stream(raw: &RawOptions) -> Result<DefaultStreamOptions> {
    let defaults = DefaultStreamOptions::default();
    let whole = |row, default| {
        count(raw, row)
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(default)
    };
    let time = |row, default| duration(raw, row).unwrap_or(default);
    Ok(DefaultStreamOptions {
        max_append_request_bytes: bytes(
            raw,
            &registry::SINK_MAX_APPEND_REQUEST_BYTES,
            MAX_APPEND_REQUEST_BYTES,
            "from 1 KiB to 9 MiB",
        )?
        .unwrap_or(defaults.max_append_request_bytes),
        max_inflight_requests: whole(
            &registry::SINK_MAX_INFLIGHT_REQUESTS,
            defaults.max_inflight_requests,
        ),
        max_inflight_bytes: bytes(
            raw,
            &registry::SINK_MAX_INFLIGHT_BYTES,
            usize::MAX,
            "at least 1 KiB",
        )?
        .unwrap_or(defaults.max_inflight_bytes),
        append_timeout: time(&registry::SINK_APPEND_TIMEOUT, defaults.append_timeout),
        recovery_initial_backoff: time(
            &registry::SINK_RECOVERY_INITIAL_BACKOFF,
            defaults.recovery_initial_backoff,
        ),
        recovery_max_backoff: time(
            &registry::SINK_RECOVERY_MAX_BACKOFF,
            defaults.recovery_max_backoff,
        ),
        recovery_max_attempts: count(raw, &registry::SINK_RECOVERY_MAX_ATTEMPTS)
            .unwrap_or(defaults.recovery_max_attempts),
        retry_initial_delay: time(
            &registry::SINK_RETRY_INITIAL_DELAY,
            defaults.retry_initial_delay,
        ),
        retry_delay_multiplier: count(raw, &registry::SINK_RETRY_DELAY_MULTIPLIER)
            .map_or(defaults.retry_delay_multiplier, f64::from),
        retry_max_delay: time(&registry::SINK_RETRY_MAX_DELAY, defaults.retry_max_delay),
        retry_max_attempts: count(raw, &registry::SINK_RETRY_MAX_ATTEMPTS)
            .unwrap_or(defaults.retry_max_attempts),
        retry_max_duration: time(
            &registry::SINK_RETRY_MAX_DURATION,
            defaults.retry_max_duration,
        ),
    })
}

fn bytes(raw: &RawOptions, row: &OptionRow, most: usize, allowed: &str) -> Result<Option<usize>> {
    let Some(said) = raw.get(row) else {
        return Ok(None);
    };
    let size = values::size(said).and_then(|size| usize::try_from(size).ok());
    match size {
        Some(size) if (MIN_APPEND_REQUEST_BYTES..=most).contains(&size) => Ok(Some(size)),
        _ => Err(row.refused(said, allowed)),
    }
}
