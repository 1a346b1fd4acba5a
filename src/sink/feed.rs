//! The batches of an input on their way to a writer.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use futures::future::BoxFuture;

use super::metrics::WriterMetrics;
use super::protocol::{BigQuerySink, SinkWriter};
use crate::client::retry::Clock;
use crate::options::WriteMethod;

/// Gives a writer what an input has, and has it send what it holds back when the input
/// gives little (option `sink.default_stream.flush_interval`).
pub(super) struct Feed {
    input: SendableRecordBatchStream,
    interval: Option<Duration>,
    clock: Arc<dyn Clock>,
    /// Ends when the rows that the writer holds back have waited long enough.
    due: Option<BoxFuture<'static, ()>>,
}

impl Feed {
    pub(super) fn new(input: SendableRecordBatchStream, sink: &BigQuerySink) -> Self {
        let options = &sink.shared.options;
        let of_method = options.write_method == WriteMethod::StorageApiAtLeastOnce;
        Self {
            input,
            interval: options.flush_interval.filter(|_| of_method),
            clock: Arc::clone(sink.shared.client.clock()),
            due: None,
        }
    }

    /// What is to be done next. Nothing is lost when this is dropped before it ends.
    pub(super) async fn next(&mut self) -> Next {
        let due = async {
            match &mut self.due {
                Some(due) => due.await,
                None => pending().await,
            }
        };
        tokio::select! {
            // Also where the input always has rows, but too few for a request.
            biased;
            () = due => {
                self.due = None;
                Next::Flush
            }
            next = self.input.next() => match next {
                Some(batch) => Next::Batch(batch),
                None => Next::End,
            },
        }
    }

    /// Does it with the writer. False at the end.
    pub(super) async fn give(
        &mut self,
        next: Next,
        writer: &mut SinkWriter,
        metrics: &WriterMetrics,
    ) -> Result<bool> {
        let batch = match next {
            Next::End => return Ok(false),
            Next::Batch(batch) => Some(batch?),
            Next::Flush => None,
        };
        let timer = metrics.write_time.timer();
        match batch {
            None => writer.flush().await?,
            Some(batch) => {
                if self.due.is_none() {
                    self.due = self.interval.map(|interval| self.clock.sleep(interval));
                }
                writer.write(batch).await?;
            }
        }
        timer.done();
        Ok(true)
    }
}

/// What is to be done with a writer.
pub(super) enum Next {
    Batch(Result<RecordBatch>),
    /// Rows have waited long enough.
    Flush,
    End,
}
