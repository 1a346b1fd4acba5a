//! Writing as DataFusion's own plan node for sinks does it.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};

use super::execution::{Committing, Execution};
use super::metrics::LiveMetrics;
use super::protocol::BigQuerySink;
use super::statement::{describe, written};

/// A [`BigQuerySink`] as a [`DataSink`] of DataFusion, for
/// [`DataSinkExec`](datafusion::datasource::sink::DataSinkExec).
///
/// It has one writer, which takes the whole stream, and one commit when the stream has
/// ended; the answer is the number of rows that were written. What is visible before, and
/// after an error or when the call is dropped, is what the write method says
/// ([`BigQueryCommitExec`](super::BigQueryCommitExec) over
/// [`BigQueryWriteExec`](super::BigQueryWriteExec) does the same with a writer for each
/// partition). A session of [`with_bigquery`](crate::with_bigquery) plans an INSERT this
/// way when all rows go to one table and come from one partition. Statements that can be
/// repeated (option `sink.run_id`) and changes by key are not planned this way: the
/// first need what writers prepare apart from the commit, the second divide their rows
/// by key.
#[derive(Debug)]
pub struct BigQueryDataSink {
    sink: BigQuerySink,
    metrics: LiveMetrics,
}

impl BigQueryDataSink {
    /// Writes to `sink`, whose schema the stream has to have.
    pub fn new(sink: BigQuerySink) -> Self {
        Self {
            sink,
            metrics: LiveMetrics::default(),
        }
    }

    /// What is written to.
    pub fn sink(&self) -> &BigQuerySink {
        &self.sink
    }
}

impl DisplayAs for BigQueryDataSink {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "BigQueryDataSink(")?;
                describe(&self.sink, f, ", ")?;
                write!(f, ")")
            }
            DisplayFormatType::TreeRender => describe(&self.sink, f, "\n"),
        }
    }
}

#[async_trait]
impl DataSink for BigQueryDataSink {
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.now())
    }

    fn schema(&self) -> &SchemaRef {
        self.sink.schema()
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        _: &Arc<TaskContext>,
    ) -> Result<u64> {
        let execution = Arc::new(Execution::new(self.sink.clone()));
        let committing = Committing(Arc::clone(&execution));
        let prepared = written(&self.sink, 0, data, &self.metrics, Some(&execution)).await?;
        let committer = self.sink.committer();
        self.metrics.committer(committer.counters());
        let committed = execution.commit(&committer, prepared).await;
        drop(committing);
        Ok(committed?)
    }
}
