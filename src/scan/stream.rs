//! One partition of a scan: it takes streams from the execution's queue until
//! there are none left.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};

use super::execution::{Execution, Opened, Source};
use super::metrics::ScanMetrics;
use super::spec::ReadSpec;
use crate::client::read::stream::{ReadCounters, ReadStreamOptions, StreamBatch};

/// What a partition needs to read its share.
#[derive(Debug)]
pub(crate) struct PartitionReader {
    pub(crate) source: Arc<Source>,
    pub(crate) spec: Arc<ReadSpec>,
    pub(crate) execution: Arc<Execution>,
    pub(crate) partitions: usize,
    pub(crate) metrics: ScanMetrics,
    /// What the client counts for this partition.
    pub(crate) counters: Arc<ReadCounters>,
}

type BatchStream = BoxStream<'static, crate::error::Result<StreamBatch>>;

/// Where a partition stands.
enum Position {
    /// Between two streams.
    Between,
    /// Inside one.
    Reading(BatchStream),
    /// Giving out a batch in pieces.
    Slicing(BatchStream, RecordBatch),
}

impl PartitionReader {
    /// The partition's batches, none longer than the engine's batch size.
    /// Nothing is sent to the service before the first poll, and dropping the
    /// stream ends what was sent.
    pub(crate) fn into_stream(self, context: &TaskContext) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.spec.schema);
        let batch_size = context.session_config().batch_size().max(1);
        let batches = self.batches(batch_size);
        let stream = RecordBatchStreamAdapter::new(schema, batches.boxed());
        Box::pin(cooperative(stream))
    }

    fn batches(
        self,
        batch_size: usize,
    ) -> impl Stream<Item = Result<RecordBatch, DataFusionError>> + Send {
        let reader = Arc::new(self);
        let start = (Arc::clone(&reader), Position::Between);
        let unfolded = futures::stream::try_unfold(start, move |(reader, position)| async move {
            let next = reader.next(position, batch_size).await?;
            Ok(next.map(|(batch, position)| (batch, (reader, position))))
        });
        unfolded.inspect_ok(move |batch: &RecordBatch| {
            reader.metrics.baseline.record_output(batch.num_rows());
        })
    }

    /// The next batch and the position after it.
    async fn next(
        &self,
        mut position: Position,
        batch_size: usize,
    ) -> Result<Option<(RecordBatch, Position)>, DataFusionError> {
        loop {
            if self.execution.is_satisfied(self.spec.limit) {
                return Ok(None);
            }
            let opened = self
                .execution
                .opened(&self.source, &self.spec, self.partitions, &self.metrics)
                .await?;
            position = match position {
                Position::Between => match self.open_next(opened) {
                    Some(stream) => Position::Reading(stream),
                    None => return Ok(None),
                },
                Position::Reading(mut stream) => match self.receive(opened, &mut stream).await? {
                    Some(batch) => Position::Slicing(stream, batch),
                    None => Position::Between,
                },
                Position::Slicing(stream, rest) if rest.num_rows() == 0 => {
                    Position::Reading(stream)
                }
                Position::Slicing(stream, rest) => {
                    let wanted = rest.num_rows().min(batch_size);
                    let rows = self.execution.take(wanted, self.spec.limit);
                    if rows == 0 {
                        return Ok(None);
                    }
                    let batch = rest.slice(0, rows);
                    let rest = rest.slice(rows, rest.num_rows() - rows);
                    return Ok(Some((batch, Position::Slicing(stream, rest))));
                }
            };
        }
    }

    /// Begins the next stream of the queue, if there is one.
    fn open_next(&self, opened: &Opened) -> Option<BatchStream> {
        let name = opened.next_stream()?;
        self.metrics.streams.add(1);
        let options = ReadStreamOptions {
            counters: Arc::clone(&self.counters),
            ..ReadStreamOptions::from(&self.source.options)
        };
        let client = &self.source.client;
        Some(client.read_stream(&opened.session, &name, 0, options))
    }

    /// The next batch of a stream, with the plan's columns.
    async fn receive(
        &self,
        opened: &Opened,
        stream: &mut BatchStream,
    ) -> Result<Option<RecordBatch>, DataFusionError> {
        let received = stream.next().await;
        self.metrics.count(&self.counters);
        let context = || format!("reading table {}", self.source.table);
        match received
            .transpose()
            .map_err(|error| error.with_context(context()))?
        {
            Some(StreamBatch { batch, .. }) => {
                let timer = self.metrics.baseline.elapsed_compute().timer();
                let aligned = opened.alignment.apply(&batch);
                timer.done();
                Ok(Some(
                    aligned.map_err(|error| error.with_context(context()))?,
                ))
            }
            None => Ok(None),
        }
    }
}
