//! What EXPLAIN ANALYZE shows of a scan.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time,
};
use parking_lot::Mutex;

use crate::client::read::stream::ReadCounters;

/// The counters of one partition of a scan.
#[derive(Debug, Clone)]
pub(crate) struct ScanMetrics {
    /// Rows, and the time spent in this node.
    pub(crate) baseline: BaselineMetrics,
    /// Read sessions opened.
    pub(crate) sessions: Count,
    /// Sessions opened a second time without the generated restriction.
    pub(crate) restriction_refusals: Count,
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
