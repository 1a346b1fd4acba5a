//! What is counted while writing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time,
};
use parking_lot::Mutex;

use crate::client::write::WriteCounters;

/// What a writer has done so far.
#[derive(Debug, Default)]
pub struct SinkCounters {
    pub(super) wire: Arc<WriteCounters>,
    pub(super) skipped: AtomicU64,
}

impl SinkCounters {
    /// Of the requests that were made.
    pub fn wire(&self) -> &WriteCounters {
        &self.wire
    }

    /// Rows that the failure policy left out.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

/// The counters of one partition of a write, as EXPLAIN ANALYZE shows them.
#[derive(Debug, Clone)]
pub(super) struct SinkMetrics {
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
    pub(super) baseline: BaselineMetrics,
    rows_written: Count,
    bytes_sent: Count,
    requests: Count,
    rows_skipped: Count,
    append_retries: Count,
    reconnects: Count,
    schema_updates: Count,
    in_flight: Gauge,
    /// Time in the writer: encoding, and waiting for room and for answers.
    pub(super) write_time: Time,
    errors: Arc<Mutex<BTreeMap<String, Count>>>,
}

impl SinkMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| {
            MetricBuilder::new(metrics).counter(Cow::Borrowed(name), partition)
        };
        Self {
            metrics: metrics.clone(),
            partition,
            baseline: BaselineMetrics::new(metrics, partition),
            rows_written: count("rows_written"),
            bytes_sent: count("bytes_sent"),
            requests: count("requests"),
            rows_skipped: count("rows_skipped"),
            append_retries: count("append_retries"),
            reconnects: count("reconnects"),
            schema_updates: count("schema_updates"),
            in_flight: MetricBuilder::new(metrics).gauge(Cow::Borrowed("in_flight"), partition),
            write_time: MetricBuilder::new(metrics)
                .subset_time(Cow::Borrowed("write_time"), partition),
            errors: Arc::default(),
        }
    }

    /// Takes over what a writer has counted. Only one writer counts into these.
    pub(super) fn count(&self, counters: &SinkCounters) {
        fn set(metric: &Count, now: u64) {
            let now = usize::try_from(now).unwrap_or(usize::MAX);
            metric.add(now.saturating_sub(metric.value()));
        }
        let wire = &counters.wire;
        set(&self.rows_written, wire.rows());
        set(&self.bytes_sent, wire.bytes());
        set(&self.requests, wire.requests());
        set(&self.rows_skipped, counters.skipped());
        set(&self.append_retries, wire.retries());
        set(&self.reconnects, wire.reconnects());
        set(&self.schema_updates, wire.schema_updates());
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
    }
}
