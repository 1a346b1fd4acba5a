//! The rows of the options that every kind of write stream has, once for each kind.

use super::registry::{Display, OptionRow, Scope, ValueForm};

/// The options of one kind of write stream.
#[derive(Debug)]
pub(super) struct StreamRows {
    pub(super) max_append_request_bytes: OptionRow,
    pub(super) max_inflight_requests: OptionRow,
    pub(super) max_inflight_bytes: OptionRow,
    pub(super) append_timeout: OptionRow,
    pub(super) recovery_initial_backoff: OptionRow,
    pub(super) recovery_max_backoff: OptionRow,
    pub(super) recovery_max_attempts: OptionRow,
    pub(super) retry_initial_delay: OptionRow,
    pub(super) retry_delay_multiplier: OptionRow,
    pub(super) retry_max_delay: OptionRow,
    pub(super) retry_max_attempts: OptionRow,
    pub(super) retry_max_duration: OptionRow,
}

impl StreamRows {
    /// In the order of the documentation.
    pub(super) fn all(&self) -> [&OptionRow; 12] {
        [
            &self.max_append_request_bytes,
            &self.max_inflight_requests,
            &self.max_inflight_bytes,
            &self.append_timeout,
            &self.recovery_initial_backoff,
            &self.recovery_max_backoff,
            &self.recovery_max_attempts,
            &self.retry_initial_delay,
            &self.retry_delay_multiplier,
            &self.retry_max_delay,
            &self.retry_max_attempts,
            &self.retry_max_duration,
        ]
    }
}

macro_rules! row {
    ($prefix:literal, $name:literal, $default:literal, $form:expr, $meaning:literal) => {
        OptionRow {
            name: concat!($prefix, ".", $name),
            spellings: &[],
            default: $default,
            meaning: $meaning,
            form: $form,
            scope: Scope::Session,
            display: Display::Shown,
        }
    };
}

macro_rules! stream_rows {
    ($prefix:literal) => {
        StreamRows {
            max_append_request_bytes: row!(
                $prefix,
                "max_append_request_bytes",
                "512 KiB",
                ValueForm::Size,
                "rows go out in requests of about this size, at most 9 MiB; a row larger than it \
                 has a request for itself"
            ),
            max_inflight_requests: row!(
                $prefix,
                "max_inflight_requests",
                "100",
                ValueForm::Count { min: 1, max: 1_000 },
                "requests under way on a connection; further ones wait"
            ),
            max_inflight_bytes: row!(
                $prefix,
                "max_inflight_bytes",
                "100 MiB",
                ValueForm::Size,
                "bytes under way on the connections of a statement, each of which may have one request at least; further ones wait"
            ),
            append_timeout: row!(
                $prefix,
                "append_timeout",
                "5 min",
                ValueForm::Duration,
                "a connection that answers nothing for this long while requests wait is given up, \
                 and what it did not answer is sent again"
            ),
            recovery_initial_backoff: row!(
                $prefix,
                "recovery.initial_backoff",
                "500 ms",
                ValueForm::Duration,
                "wait before a broken connection is replaced; it doubles while nothing is \
                 acknowledged"
            ),
            recovery_max_backoff: row!(
                $prefix,
                "recovery.max_backoff",
                "10 s",
                ValueForm::Duration,
                "greatest of these waits, and the wait when a quota is used up"
            ),
            recovery_max_attempts: row!(
                $prefix,
                "recovery.max_attempts",
                "10",
                ValueForm::Count {
                    min: 1,
                    max: 1_000_000
                },
                "connections in a row on which nothing was acknowledged before the statement fails"
            ),
            retry_initial_delay: row!(
                $prefix,
                "retry.initial_delay",
                "500 ms",
                ValueForm::Duration,
                "wait before a request that the service refused for now is sent again"
            ),
            retry_delay_multiplier: row!(
                $prefix,
                "retry.delay_multiplier",
                "2",
                ValueForm::Count { min: 1, max: 100 },
                "by how much each of these waits is longer than the one before"
            ),
            retry_max_delay: row!(
                $prefix,
                "retry.max_delay",
                "30 s",
                ValueForm::Duration,
                "greatest of these waits"
            ),
            retry_max_attempts: row!(
                $prefix,
                "retry.max_attempts",
                "5",
                ValueForm::Count {
                    min: 1,
                    max: 1_000_000
                },
                "such refusals in a row before the statement fails"
            ),
            retry_max_duration: row!(
                $prefix,
                "retry.max_duration",
                "5 min",
                ValueForm::Duration,
                "no such request is sent again later than this after its first refusal"
            ),
        }
    };
}

/// Of the write method `storage_api_at_least_once`.
pub(super) static DEFAULT_STREAM: StreamRows = stream_rows!("sink.default_stream");

/// Of the write method `storage_api_exactly_once`.
pub(super) static BUFFERED_STREAM: StreamRows = stream_rows!("sink.buffered_stream");

/// Of the write method `storage_api_atomic`.
pub(super) static PENDING_STREAM: StreamRows = stream_rows!("sink.pending_stream");
