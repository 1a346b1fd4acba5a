//! The write methods, and what they promise.

/// What a method promises of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// Each is there, perhaps several times, and perhaps before its commit.
    AtLeastOnce,
    /// Each is there once, not before its commit is prepared, and those of a commit
    /// perhaps not all at the same time.
    ExactlyOnce,
    /// As exactly once, and those of a commit all at the same time.
    Atomic,
}

/// A write method in the test.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) promise: Promise,
    /// Options besides the method.
    pub(super) options: &'static [(&'static str, &'static str)],
    /// What is called on the service, and may fail.
    pub(super) calls: &'static [&'static str],
    /// Whether some rows are such as only the service refuses.
    pub(super) refused_rows: bool,
}

/// Options of streams by which requests are small and waits are short.
macro_rules! stream_options {
    ($streams:literal) => {
        &[
            (concat!($streams, ".max_append_request_bytes"), "1 KiB"),
            (concat!($streams, ".max_inflight_requests"), "7"),
            (concat!($streams, ".append_timeout"), "300 ms"),
            (concat!($streams, ".recovery.initial_backoff"), "1 ms"),
            (concat!($streams, ".recovery.max_backoff"), "4 ms"),
            (concat!($streams, ".retry.initial_delay"), "1 ms"),
        ]
    };
}

pub(super) static AT_LEAST_ONCE: Method = Method {
    name: "storage_api_at_least_once",
    promise: Promise::AtLeastOnce,
    options: stream_options!("sink.default_stream"),
    calls: &["AppendRows"],
    refused_rows: true,
};

pub(super) static EXACTLY_ONCE: Method = Method {
    name: "storage_api_exactly_once",
    promise: Promise::ExactlyOnce,
    options: stream_options!("sink.buffered_stream"),
    calls: &["AppendRows", "AppendRows", "CreateWriteStream", "FlushRows"],
    refused_rows: true,
};

pub(super) static ATOMIC: Method = Method {
    name: "storage_api_atomic",
    promise: Promise::Atomic,
    options: stream_options!("sink.pending_stream"),
    calls: &[
        "AppendRows",
        "AppendRows",
        "CreateWriteStream",
        "FinalizeWriteStream",
        "BatchCommitWriteStreams",
    ],
    refused_rows: true,
};

/// All of them.
pub(super) static METHODS: &[&Method] = &[&AT_LEAST_ONCE, &EXACTLY_ONCE, &ATOMIC];
