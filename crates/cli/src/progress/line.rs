//! What is said of a plan that runs, from the metrics of its nodes.

use std::sync::Arc;
use std::time::Duration;

use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_bigquery::sink::BigQueryDataSink;

/// What the BigQuery scans and writes of a plan have done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    reading: Option<Reading>,
    writing: Option<Writing>,
}

/// What scans have read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reading {
    rows: u64,
    bytes: u64,
    estimated_rows: u64,
    estimated_bytes: u64,
}

/// What writes have written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Writing {
    rows: u64,
    bytes: u64,
    /// Requests without an answer.
    in_flight: u64,
    files: u64,
    jobs: u64,
    jobs_done: u64,
}

impl Seen {
    /// Adds up the nodes of `plan` that read or write BigQuery; `None` if none does.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut seen = Self::default();
        let mut below = vec![Arc::clone(plan)];
        while let Some(plan) = below.pop() {
            if let Some(metrics) = plan.metrics() {
                let sum = |name: &str| {
                    metrics
                        .sum_by_name(name)
                        .map_or(0, |value| value.as_usize() as u64)
                };
                match plan.name() {
                    "BigQueryScanExec" => {
                        let reading = seen.reading.get_or_insert_default();
                        reading.rows += sum("received_rows");
                        reading.bytes += sum("wire_bytes");
                        reading.estimated_rows += sum("estimated_rows");
                        reading.estimated_bytes += sum("estimated_bytes_scanned");
                    }
                    _ if writes(plan.as_ref()) => {
                        let writing = seen.writing.get_or_insert_default();
                        writing.rows += sum("rows_written");
                        writing.bytes += sum("bytes_sent");
                        writing.in_flight += sum("in_flight");
                        writing.files += sum("files_staged");
                        writing.jobs += sum("load_jobs_submitted") + sum("load_jobs_reattached");
                        writing.jobs_done += sum("load_jobs_done");
                    }
                    _ => {}
                }
            }
            below.extend(plan.children().into_iter().map(Arc::clone));
        }
        (seen != Self::default()).then_some(seen)
    }

    /// One line of it.
    pub(super) fn line(&self, elapsed: Duration) -> String {
        let mut line = match (&self.writing, &self.reading) {
            (Some(writing), reading) if *writing != Writing::default() => {
                let mut line = writing.text();
                if let Some(reading) = reading {
                    line.push_str(&format!(", {} read", reading.of_all()));
                }
                line
            }
            (_, Some(reading)) => reading.text(),
            (_, None) => "writing BigQuery: nothing yet".to_string(),
        };
        line.push_str(&format!(", {} s", elapsed.as_secs()));
        line
    }
}

/// Whether a node writes to BigQuery.
fn writes(plan: &dyn ExecutionPlan) -> bool {
    match plan.downcast_ref::<DataSinkExec>() {
        Some(node) => node.sink().is::<BigQueryDataSink>(),
        None => ["BigQueryWriteExec", "BigQueryCommitExec"].contains(&plan.name()),
    }
}

impl Reading {
    fn of_all(&self) -> String {
        match self.estimated_rows {
            0 => format!("{} rows", grouped(self.rows)),
            all => format!("{} of about {} rows", grouped(self.rows), grouped(all)),
        }
    }

    /// The service estimates rows, and the bytes that it scans, which are not
    /// those that arrive: these are compressed.
    fn text(&self) -> String {
        let mut text = format!(
            "reading BigQuery: {}, {} received",
            self.of_all(),
            size(self.bytes)
        );
        if self.estimated_bytes > 0 {
            text.push_str(&format!(", about {} scanned", size(self.estimated_bytes)));
        }
        text
    }
}

impl Writing {
    fn text(&self) -> String {
        let mut text = format!("writing BigQuery: {} rows, ", grouped(self.rows));
        let bytes = size(self.bytes);
        match self.files {
            0 => text.push_str(&format!("{bytes} sent, {} in flight", self.in_flight)),
            files => text.push_str(&format!("{bytes} in {files} files")),
        }
        if self.jobs > 0 {
            text.push_str(&format!(", {} of {} jobs done", self.jobs_done, self.jobs));
        }
        text
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in the largest unit that leaves at least one.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let grouped: Vec<String> = [0, 999, 1000, 1_234_567].map(grouped).into();
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
        let sizes: Vec<String> = [0, 1023, 1024, 1536 << 20, u64::MAX].map(size).into();
        assert_eq!(
            sizes,
            ["0 B", "1023 B", "1.0 KiB", "1.5 GiB", "16777216.0 TiB"]
        );
    }
}
