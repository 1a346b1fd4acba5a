//! How to write.

use super::raw::RawOptions;
use super::registry::{self, OptionRow};
use super::resolved::{count, lower};
use super::stream::StreamOptions;
use super::stream_rows::{self, StreamRows};
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
    /// What becomes of rows that cannot be written.
    pub failure: FailureOptions,
    /// Of the default stream.
    pub default_stream: StreamOptions,
    /// Of buffered streams.
    pub buffered_stream: StreamOptions,
    /// Of pending streams.
    pub pending_stream: StreamOptions,
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
}

impl WriteMethod {
    const ALL: [WriteMethod; 3] = [
        WriteMethod::StorageApiAtLeastOnce,
        WriteMethod::StorageApiExactlyOnce,
        WriteMethod::StorageApiAtomic,
    ];

    /// The value of `sink.write_method`.
    pub fn name(self) -> &'static str {
        match self {
            WriteMethod::StorageApiAtLeastOnce => "storage_api_at_least_once",
            WriteMethod::StorageApiExactlyOnce => "storage_api_exactly_once",
            WriteMethod::StorageApiAtomic => "storage_api_atomic",
        }
    }

    /// The options of its streams.
    fn stream_rows(self) -> &'static StreamRows {
        match self {
            WriteMethod::StorageApiAtLeastOnce => &stream_rows::DEFAULT_STREAM,
            WriteMethod::StorageApiExactlyOnce => &stream_rows::BUFFERED_STREAM,
            WriteMethod::StorageApiAtomic => &stream_rows::PENDING_STREAM,
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
    let write_method = match write_method(raw) {
        Ok(method) => method,
        Err(value) => {
            let instead = WriteMethod::ALL.map(WriteMethod::name).join("', '");
            return Err(not_yet(&registry::SINK_WRITE_METHOD, &value, &instead));
        }
    };
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
        write_method,
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
        default_stream: StreamOptions::resolve(raw, &stream_rows::DEFAULT_STREAM)?,
        buffered_stream: StreamOptions::resolve(raw, &stream_rows::BUFFERED_STREAM)?,
        pending_stream: StreamOptions::resolve(raw, &stream_rows::PENDING_STREAM)?,
    })
}

/// The method that the options select; the value where this version lacks it.
fn write_method(raw: &RawOptions) -> Result<WriteMethod, String> {
    let Some(said) = lower(raw, &registry::SINK_WRITE_METHOD) else {
        return Ok(WriteMethod::default());
    };
    let mut all = WriteMethod::ALL.into_iter();
    all.find(|method| method.name() == said).ok_or(said)
}

/// Options about one write method that a table says of itself need that method.
///
/// # Errors
/// One that is about another method than `all` selects.
pub(super) fn check_methods(own: &RawOptions, all: &RawOptions) -> Result<()> {
    let selected = write_method(all).ok();
    for method in WriteMethod::ALL {
        if Some(method) == selected {
            continue;
        }
        let rows = method.stream_rows().all();
        if let Some(row) = rows.into_iter().find(|row| own.get(row).is_some()) {
            let selected = all.get(&registry::SINK_WRITE_METHOD);
            return Err(Error::configuration(format!(
                "option '{}' is about '{}' '{}', and the method is '{}': leave it out, or select \
                 that method",
                row.name,
                registry::SINK_WRITE_METHOD.name,
                method.name(),
                selected.unwrap_or(WriteMethod::default().name())
            )));
        }
    }
    Ok(())
}
