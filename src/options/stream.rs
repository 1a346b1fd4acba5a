//! How to append to write streams.

use std::time::Duration;

use super::raw::RawOptions;
use super::registry::OptionRow;
use super::resolved::{count, duration};
use super::stream_rows::StreamRows;
use super::values;
use crate::error::Result;

/// No request is larger than this, so that rows with what stands around them stay
/// below the service's limit. Its documentation gives 20 MB, and it has refused
/// requests above 10 MiB.
pub const MAX_APPEND_REQUEST_BYTES: usize = 9 << 20;

/// Requests below this would be all framing.
const MIN_APPEND_REQUEST_BYTES: usize = 1 << 10;

/// How to append to write streams of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOptions {
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

impl Default for StreamOptions {
    fn default() -> Self {
        StreamOptions {
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

impl StreamOptions {
    /// What the options in `rows` say.
    ///
    /// # Errors
    /// A size out of range.
    pub(super) fn resolve(raw: &RawOptions, rows: &StreamRows) -> Result<Self> {
        let defaults = StreamOptions::default();
        let time = |row, default| duration(raw, row).unwrap_or(default);
        Ok(StreamOptions {
            max_append_request_bytes: bytes(
                raw,
                &rows.max_append_request_bytes,
                MAX_APPEND_REQUEST_BYTES,
                "from 1 KiB to 9 MiB",
            )?
            .unwrap_or(defaults.max_append_request_bytes),
            max_inflight_requests: count(raw, &rows.max_inflight_requests)
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(defaults.max_inflight_requests),
            max_inflight_bytes: bytes(raw, &rows.max_inflight_bytes, usize::MAX, "at least 1 KiB")?
                .unwrap_or(defaults.max_inflight_bytes),
            append_timeout: time(&rows.append_timeout, defaults.append_timeout),
            recovery_initial_backoff: time(
                &rows.recovery_initial_backoff,
                defaults.recovery_initial_backoff,
            ),
            recovery_max_backoff: time(&rows.recovery_max_backoff, defaults.recovery_max_backoff),
            recovery_max_attempts: count(raw, &rows.recovery_max_attempts)
                .unwrap_or(defaults.recovery_max_attempts),
            retry_initial_delay: time(&rows.retry_initial_delay, defaults.retry_initial_delay),
            retry_delay_multiplier: count(raw, &rows.retry_delay_multiplier)
                .map_or(defaults.retry_delay_multiplier, f64::from),
            retry_max_delay: time(&rows.retry_max_delay, defaults.retry_max_delay),
            retry_max_attempts: count(raw, &rows.retry_max_attempts)
                .unwrap_or(defaults.retry_max_attempts),
            retry_max_duration: time(&rows.retry_max_duration, defaults.retry_max_duration),
        })
    }
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
