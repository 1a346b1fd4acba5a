//! What EXPLAIN ANALYZE shows of a scan.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time,
};
use parking_lot::Mutex;

use crate::client::read::stream::ReadCounters;
use crate::types::TableRef;

/// The counters of one partition of a scan.
#[derive(Debug, Clone)]
pub(crate) struct ScanMetrics {
    /// Rows, and the time spent in this node.
    pub(crate) baseline: BaselineMetrics,
    /// Read sessions opened.
    pub(crate) sessions: Count,
    /// Sessions opened a second time without the generated restriction.
    pub(crate) restriction_refusals: Count,
    /// Sessions whose restriction has keys of joins in it.
    pub(crate) late_filters: Count,
    /// Sessions opened without them because they did not come in time.
    pub(crate) late_filter_timeouts: Count,
    /// Time waiting for the keys of joins.
    pub(crate) late_filter_wait: Time,
    /// Streams read.
    pub(crate) streams: Count,
    /// Rows received; more than the node's output where a limit cut.
    pub(crate) received_rows: Count,
    /// Bytes of messages as they came over the wire.
    pub(crate) wire_bytes: Count,
    /// Streams opened again at the row where they broke off.
    pub(crate) reconnects: Count,
    /// The most that the service slowed a stream down, in percent.
    pub(crate) throttle_percent: Gauge,
    /// The service's estimate of rows that the session gives.
    pub(crate) estimated_rows: Count,
    /// The service's estimate of bytes that the session scans.
    pub(crate) estimated_bytes_scanned: Count,
    /// Time waiting for the service.
    pub(crate) wait_time: Time,
    /// Time turning messages into batches.
    pub(crate) decode_time: Time,
    counted: Arc<Mutex<Counted>>,
}

/// Counts of the client that are in the metrics already.
#[derive(Debug, Default)]
struct Counted {
    rows: u64,
    wire_bytes: u64,
    reconnects: u64,
    wait_time: Duration,
    decode_time: Duration,
}

impl ScanMetrics {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| {
            MetricBuilder::new(metrics).counter(Cow::Borrowed(name), partition)
        };
        let time = |name: &'static str| {
            MetricBuilder::new(metrics).subset_time(Cow::Borrowed(name), partition)
        };
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            sessions: count("sessions"),
            restriction_refusals: count("restriction_refusals"),
            late_filters: count("late_filters"),
            late_filter_timeouts: count("late_filter_timeouts"),
            late_filter_wait: time("late_filter_wait"),
            streams: count("streams"),
            received_rows: count("received_rows"),
            wire_bytes: count("wire_bytes"),
            reconnects: count("reconnects"),
            throttle_percent: MetricBuilder::new(metrics)
                .gauge(Cow::Borrowed("throttle_percent"), partition),
            estimated_rows: count("estimated_rows"),
            estimated_bytes_scanned: count("estimated_bytes_scanned"),
            wait_time: time("wait_time"),
            decode_time: time("decode_time"),
            counted: Arc::default(),
        }
    }

    /// Takes over what the client has counted for the partition since the last
    /// call.
    pub(crate) fn count(&self, counters: &ReadCounters) {
        fn more(metric: &Count, seen: &mut u64, now: u64) {
            let more = now.saturating_sub(*seen);
            metric.add(usize::try_from(more).unwrap_or(usize::MAX));
            *seen = now;
        }
        fn longer(metric: &Time, seen: &mut Duration, now: Duration) {
            metric.add_duration(now.saturating_sub(*seen));
            *seen = now;
        }
        let mut seen = self.counted.lock();
        more(&self.received_rows, &mut seen.rows, counters.rows());
        more(
            &self.wire_bytes,
            &mut seen.wire_bytes,
            counters.wire_bytes(),
        );
        more(
            &self.reconnects,
            &mut seen.reconnects,
            counters.reconnects(),
        );
        longer(&self.wait_time, &mut seen.wait_time, counters.wait_time());
        longer(
            &self.decode_time,
            &mut seen.decode_time,
            counters.decode_time(),
        );
        let throttled = usize::try_from(counters.throttle_percent()).unwrap_or(usize::MAX);
        self.throttle_percent.set(throttled);
    }
}

/// The counters of all partitions of an execution together, to tell when it is
/// over.
#[derive(Debug)]
pub(crate) struct Totals {
    table: TableRef,
    sessions: usize,
    streams: usize,
    rows: usize,
    wire_bytes: usize,
    reconnects: usize,
    throttle_percent: usize,
    estimated_bytes_scanned: usize,
    late_filters: usize,
    late_filter_timeouts: usize,
    late_filter_wait: usize,
    wait_time: usize,
    decode_time: usize,
}

impl Totals {
    /// Of an execution that reads `table`, and of no partition yet.
    pub(crate) fn of(table: &TableRef) -> Self {
        Self {
            table: table.clone(),
            sessions: 0,
            streams: 0,
            rows: 0,
            wire_bytes: 0,
            reconnects: 0,
            throttle_percent: 0,
            estimated_bytes_scanned: 0,
            late_filters: 0,
            late_filter_timeouts: 0,
            late_filter_wait: 0,
            wait_time: 0,
            decode_time: 0,
        }
    }

    /// Adds a partition's.
    pub(crate) fn add(&mut self, metrics: &ScanMetrics) {
        self.sessions += metrics.sessions.value();
        self.streams += metrics.streams.value();
        self.rows += metrics.received_rows.value();
        self.wire_bytes += metrics.wire_bytes.value();
        self.reconnects += metrics.reconnects.value();
        let throttled = metrics.throttle_percent.value();
        self.throttle_percent = self.throttle_percent.max(throttled);
        self.estimated_bytes_scanned += metrics.estimated_bytes_scanned.value();
        self.late_filters += metrics.late_filters.value();
        self.late_filter_timeouts += metrics.late_filter_timeouts.value();
        self.late_filter_wait += metrics.late_filter_wait.value();
        self.wait_time += metrics.wait_time.value();
        self.decode_time += metrics.decode_time.value();
    }

    /// Tells them, as an event. Times are in milliseconds, summed over
    /// partitions.
    pub(crate) fn report(&self) {
        const NANOS: usize = 1_000_000;
        tracing::debug!(
            table = %self.table,
            sessions = self.sessions,
            streams = self.streams,
            rows = self.rows,
            wire_bytes = self.wire_bytes,
            reconnects = self.reconnects,
            throttle_percent = self.throttle_percent,
            estimated_bytes_scanned = self.estimated_bytes_scanned,
            late_filters = self.late_filters,
            late_filter_timeouts = self.late_filter_timeouts,
            late_filter_wait = self.late_filter_wait / NANOS,
            wait_time = self.wait_time / NANOS,
            decode_time = self.decode_time / NANOS,
            "scan over"
        );
    }
}
