//! The write methods, and what they promise.

use datafusion_bigquery::sink::LoadLimits;

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
    /// What is called on the service, and may fail. The first of them begins to write.
    pub(super) calls: &'static [&'static str],
    /// Whether these calls say which table they are about. Those that do not fail for
    /// whoever makes them.
    pub(super) tells_table: bool,
    /// Whether some rows are such as only the service refuses.
    pub(super) refused_rows: bool,
    /// A crash comes within so many milliseconds, which is about what a few checkpoints
    /// take.
    pub(super) life_ms: u64,
}

/// So few files in a job that many commits take several.
pub(super) const LIMITS: LoadLimits = LoadLimits {
    uris: 6,
    bytes: 1 << 40,
    copy_sources: 3,
    query_sources: 3,
    jobs: 1_000,
    wave: 4,
};

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
    tells_table: true,
    refused_rows: true,
    life_ms: 30,
};

pub(super) static EXACTLY_ONCE: Method = Method {
    name: "storage_api_exactly_once",
    promise: Promise::ExactlyOnce,
    options: stream_options!("sink.buffered_stream"),
    calls: &["CreateWriteStream", "AppendRows", "AppendRows", "FlushRows"],
    tells_table: true,
    refused_rows: true,
    life_ms: 30,
};

pub(super) static ATOMIC: Method = Method {
    name: "storage_api_atomic",
    promise: Promise::Atomic,
    options: stream_options!("sink.pending_stream"),
    calls: &[
        "CreateWriteStream",
        "AppendRows",
        "AppendRows",
        "FinalizeWriteStream",
        "BatchCommitWriteStreams",
    ],
    tells_table: true,
    refused_rows: true,
    life_ms: 30,
};

/// The bucket of the staged files.
pub(super) const BUCKET: &str = "chaos";

pub(super) static FILE_LOADS: Method = Method {
    name: "file_loads",
    promise: Promise::Atomic,
    options: &[
        ("sink.file_loads.staging_path", "gs://chaos/staged"),
        ("sink.file_loads.max_staging_file_bytes", "2 KiB"),
        ("sink.file_loads.max_concurrent_finalizations", "3"),
        ("sink.file_loads.load_job_poll.initial_backoff", "1 ms"),
        ("sink.file_loads.load_job_poll.max_backoff", "5 ms"),
    ],
    calls: &[
        "objects.insert",
        "objects.insert",
        "objects.delete",
        "jobs.insert",
        "jobs.insert",
        "jobs.get",
        "tables.insert",
        "tables.delete",
    ],
    tells_table: false,
    // A job with such a row loads none.
    refused_rows: false,
    life_ms: 250,
};

/// All of them.
pub(super) static METHODS: &[&Method] = &[&AT_LEAST_ONCE, &EXACTLY_ONCE, &ATOMIC, &FILE_LOADS];
