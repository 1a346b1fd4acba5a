//! What EXPLAIN ANALYZE shows of a scan.

use std::borrow::Cow;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time,
};

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
    /// The service's last word on throttling, in percent.
    pub(crate) throttle_percent: Gauge,
    /// The service's estimate of rows that the session gives.
    pub(crate) estimated_rows: Count,
    /// The service's estimate of bytes that the session scans.
    pub(crate) estimated_bytes_scanned: Count,
    /// Time waiting for the service.
    pub(crate) wait_time: Time,
    /// Time turning messages into batches.
    pub(crate) decode_time: Time,
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
        }
    }
}
