//! What is counted while writing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricsSet, Time,
};
use parking_lot::Mutex;

use super::load::StagedFile;
use crate::client::write::WriteCounters;
use crate::options::WriteMethod;

/// What a writer has done so far.
#[derive(Debug, Default)]
pub struct SinkCounters {
    pub(super) wire: Arc<WriteCounters>,
    pub(super) skipped: AtomicU64,
    pub(super) tables_created: AtomicU64,
    pub(super) schema_changes: AtomicU64,
    pub(super) open_destinations: AtomicU64,
    /// By table, where that is asked for.
    pub(super) by_table: Mutex<BTreeMap<String, u64>>,
    staged_files: AtomicU64,
    staged_bytes: AtomicU64,
    staged_rows: AtomicU64,
}

impl SinkCounters {
    /// Of the requests that were made.
    pub fn wire(&self) -> &WriteCounters {
        &self.wire
    }

    /// Tables that were created.
    pub fn tables_created(&self) -> u64 {
        self.tables_created.load(Ordering::Relaxed)
    }

    /// How often columns of a table were added or relaxed.
    pub fn schema_changes(&self) -> u64 {
        self.schema_changes.load(Ordering::Relaxed)
    }

    /// Tables that the writer has rows for at this moment.
    pub fn open_destinations(&self) -> u64 {
        self.open_destinations.load(Ordering::Relaxed)
    }

    /// Rows that were prepared for a commit, by table, where the options ask for it.
    pub fn rows_by_table(&self) -> BTreeMap<String, u64> {
        self.by_table.lock().clone()
    }

    /// Rows that the failure policy left out.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Files that were staged.
    pub fn staged_files(&self) -> u64 {
        self.staged_files.load(Ordering::Relaxed)
    }

    /// The bytes of these files.
    pub fn staged_bytes(&self) -> u64 {
        self.staged_bytes.load(Ordering::Relaxed)
    }

    /// The rows in them.
    pub fn staged_rows(&self) -> u64 {
        self.staged_rows.load(Ordering::Relaxed)
    }

    pub(super) fn staged(&self, file: &StagedFile) {
        self.staged_files.fetch_add(1, Ordering::Relaxed);
        self.staged_bytes.fetch_add(file.bytes, Ordering::Relaxed);
        self.staged_rows.fetch_add(file.rows, Ordering::Relaxed);
    }
}

/// What a committer has done so far.
#[derive(Debug, Default)]
pub struct CommitCounters {
    submitted: AtomicU64,
    reattached: AtomicU64,
    done: AtomicU64,
    waited_nanos: AtomicU64,
}

impl CommitCounters {
    /// Jobs that were started.
    pub fn jobs_submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Jobs of earlier attempts that were found.
    pub fn jobs_reattached(&self) -> u64 {
        self.reattached.load(Ordering::Relaxed)
    }

    /// Of both, those that have ended, well or not.
    pub fn jobs_done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// How long commits took.
    pub fn commit_wait(&self) -> Duration {
        Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }

    pub(super) fn waited(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.waited_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn submitted(&self) {
        self.submitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn reattached(&self) {
        self.reattached.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// The metrics of a plan node that writes or commits: what its writers and committers
/// have counted at the moment at which someone looks.
#[derive(Debug, Default)]
pub(super) struct LiveMetrics {
    set: ExecutionPlanMetricsSet,
    watched: Mutex<Vec<Watched>>,
}

#[derive(Debug)]
enum Watched {
    Writer(SinkMetrics, Arc<SinkCounters>),
    Committer(CommitMetrics, Arc<CommitCounters>),
}

impl LiveMetrics {
    /// The metrics of a partition, to which `counters` are added whenever they are
    /// looked at.
    pub(super) fn writer(
        &self,
        partition: usize,
        method: WriteMethod,
        counters: &Arc<SinkCounters>,
    ) -> WriterMetrics {
        let metrics = SinkMetrics::new(&self.set, partition, method);
        let watched = Watched::Writer(metrics, Arc::clone(counters));
        self.watched.lock().push(watched);
        WriterMetrics {
            baseline: BaselineMetrics::new(&self.set, partition),
            write_time: MetricBuilder::new(&self.set)
                .subset_time(Cow::Borrowed("write_time"), partition),
        }
    }

    /// The same of a commit.
    pub(super) fn committer(&self, counters: &Arc<CommitCounters>) {
        let metrics = CommitMetrics::new(&self.set);
        let watched = Watched::Committer(metrics, Arc::clone(counters));
        self.watched.lock().push(watched);
    }

    /// The metrics as they are now.
    pub(super) fn now(&self) -> MetricsSet {
        // Two who look at once must not add the same twice.
        let watched = self.watched.lock();
        for watched in watched.iter() {
            match watched {
                Watched::Writer(metrics, counters) => metrics.count(counters),
                Watched::Committer(metrics, counters) => metrics.count(counters),
            }
        }
        self.set.clone_inner()
    }
}

/// What a writer measures itself.
#[derive(Debug, Clone)]
pub(super) struct WriterMetrics {
    pub(super) baseline: BaselineMetrics,
    /// Time in the writer: encoding, and waiting for room and for answers.
    pub(super) write_time: Time,
}

/// The counters of a commit, as EXPLAIN ANALYZE shows them.
#[derive(Debug)]
struct CommitMetrics {
    load_jobs_submitted: Count,
    load_jobs_reattached: Count,
    load_jobs_done: Count,
    commit_wait: Time,
}

impl CommitMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let count =
            |name: &'static str| MetricBuilder::new(metrics).counter(Cow::Borrowed(name), 0);
        Self {
            load_jobs_submitted: count("load_jobs_submitted"),
            load_jobs_reattached: count("load_jobs_reattached"),
            load_jobs_done: count("load_jobs_done"),
            commit_wait: MetricBuilder::new(metrics).subset_time(Cow::Borrowed("commit_wait"), 0),
        }
    }

    fn count(&self, counters: &CommitCounters) {
        let known = u64::try_from(self.commit_wait.value()).unwrap_or(u64::MAX);
        let waited = counters.commit_wait();
        self.commit_wait
            .add_duration(waited.saturating_sub(Duration::from_nanos(known)));
        set(&self.load_jobs_submitted, counters.jobs_submitted());
        set(&self.load_jobs_reattached, counters.jobs_reattached());
        set(&self.load_jobs_done, counters.jobs_done());
    }
}

fn set(metric: &Count, now: u64) {
    let now = usize::try_from(now).unwrap_or(usize::MAX);
    metric.add(now.saturating_sub(metric.value()));
}

/// The counters of one partition of a write, as EXPLAIN ANALYZE shows them.
#[derive(Debug)]
struct SinkMetrics {
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
    rows_written: Count,
    bytes_sent: Count,
    requests: Count,
    /// Files and their bytes, where the method stages any.
    staged: Option<(Count, Count)>,
    rows_skipped: Count,
    append_retries: Count,
    connections: Count,
    reconnects: Count,
    schema_updates: Count,
    tables_created: Count,
    schema_changes: Count,
    in_flight: Gauge,
    open_destinations: Gauge,
    errors: Mutex<BTreeMap<String, Count>>,
    tables: Mutex<BTreeMap<String, Count>>,
}

impl SinkMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, method: WriteMethod) -> Self {
        let count = |name: &'static str| {
            MetricBuilder::new(metrics).counter(Cow::Borrowed(name), partition)
        };
        Self {
            metrics: metrics.clone(),
            partition,
            rows_written: count("rows_written"),
            bytes_sent: count("bytes_sent"),
            requests: count("requests"),
            staged: match method {
                WriteMethod::FileLoads => Some((count("files_staged"), count("bytes_staged"))),
                WriteMethod::StorageApiAtLeastOnce
                | WriteMethod::StorageApiExactlyOnce
                | WriteMethod::StorageApiAtomic => None,
            },
            rows_skipped: count("rows_skipped"),
            append_retries: count("append_retries"),
            connections: count("connections"),
            reconnects: count("reconnects"),
            schema_updates: count("schema_updates"),
            tables_created: count("tables_created"),
            schema_changes: count("schema_changes"),
            open_destinations: MetricBuilder::new(metrics)
                .gauge(Cow::Borrowed("open_destinations"), partition),
            in_flight: MetricBuilder::new(metrics).gauge(Cow::Borrowed("in_flight"), partition),
            errors: Mutex::default(),
            tables: Mutex::default(),
        }
    }

    fn count(&self, counters: &SinkCounters) {
        let wire = &counters.wire;
        set(&self.rows_written, wire.rows() + counters.staged_rows());
        set(&self.bytes_sent, wire.bytes() + counters.staged_bytes());
        if let Some((files, bytes)) = &self.staged {
            set(files, counters.staged_files());
            set(bytes, counters.staged_bytes());
        }
        set(&self.requests, wire.requests());
        set(&self.rows_skipped, counters.skipped());
        set(&self.append_retries, wire.retries());
        set(&self.connections, wire.connections());
        set(&self.reconnects, wire.reconnects());
        set(&self.schema_updates, wire.schema_updates());
        set(&self.tables_created, counters.tables_created());
        set(&self.schema_changes, counters.schema_changes());
        self.open_destinations
            .set(usize::try_from(counters.open_destinations()).unwrap_or(usize::MAX));
        self.in_flight
            .set(usize::try_from(wire.in_flight()).unwrap_or(usize::MAX));
        let mut known = self.errors.lock();
        for (code, times) in wire.errors() {
            let metric = known.entry(code).or_insert_with_key(|code| {
                MetricBuilder::new(&self.metrics)
                    .counter(format!("errors_{}", code.to_lowercase()), self.partition)
            });
            set(metric, times);
        }
        let mut known = self.tables.lock();
        for (table, rows) in counters.rows_by_table() {
            let metric = known.entry(table).or_insert_with_key(|table| {
                MetricBuilder::new(&self.metrics)
                    .counter(format!("rows_written_{table}"), self.partition)
            });
            set(metric, rows);
        }
    }
}
