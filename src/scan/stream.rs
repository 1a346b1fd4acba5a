//! One partition of a scan: it takes streams from the execution's queue until
//! there are none left.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use super::dynamic::LateFilters;
use super::execution::{Execution, Opened, Source, Terms};
use super::metrics::ScanMetrics;
use super::read_ahead::{Held, ReadAhead};
use super::spec::ReadSpec;
use crate::client::read::stream::{ReadCounters, ReadStreamOptions, StreamBatch};

/// What a partition needs to read its share.
#[derive(Debug)]
pub(crate) struct PartitionReader {
    pub(crate) source: Arc<Source>,
    pub(crate) spec: Arc<ReadSpec>,
    pub(crate) late_filters: LateFilters,
    pub(crate) execution: Arc<Execution>,
    pub(crate) partition: usize,
    pub(crate) partitions: usize,
    pub(crate) config: Arc<ConfigOptions>,
    pub(crate) metrics: ScanMetrics,
    /// What the client counts for this partition.
    pub(crate) counters: Arc<ReadCounters>,
}

type BatchStream = BoxStream<'static, crate::error::Result<StreamBatch>>;

/// Where the engine stands.
enum Position {
    /// Nobody has asked yet.
    Start,
    /// Between two messages.
    Reading(ReadAhead),
    /// Giving out a message in pieces, from this row on.
    Slicing(ReadAhead, Held, usize),
}

impl PartitionReader {
    /// The partition's batches, none longer than the engine's batch size.
    /// Nothing is sent to the service before the first poll, and dropping the
    /// stream ends what was sent.
    pub(crate) fn into_stream(self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.spec.schema);
        let reader = Arc::new(self);
        let start = (reader, context, Position::Start);
        let batches = futures::stream::try_unfold(start, |(reader, context, position)| async {
            let next = reader.next(position, &context).await?;
            Ok(next.map(|(batch, position)| (batch, (reader, context, position))))
        });
        let stream = RecordBatchStreamAdapter::new(schema, batches.boxed());
        Box::pin(cooperative(stream))
    }

    /// The next batch and the position after it.
    async fn next(
        self: &Arc<Self>,
        mut position: Position,
        context: &TaskContext,
    ) -> Result<Option<(RecordBatch, Position)>, DataFusionError> {
        let limit = self.spec.limit;
        let batch_size = context.session_config().batch_size().max(1);
        loop {
            if self.execution.is_satisfied(limit) {
                return Ok(None);
            }
            position = match position {
                Position::Start => Position::Reading(self.start(context)),
                Position::Reading(mut ahead) => match ahead.next().await? {
                    Some(held) => Position::Slicing(ahead, held, 0),
                    None => return Ok(None),
                },
                Position::Slicing(ahead, held, from) => {
                    let left = held.batch.num_rows() - from;
                    if left == 0 {
                        position = Position::Reading(ahead);
                        continue;
                    }
                    let rows = self.execution.take(left.min(batch_size), limit);
                    if rows == 0 {
                        return Ok(None);
                    }
                    let batch = self.spec.project(held.batch.slice(from, rows))?;
                    let batch = batch.record_output(&self.metrics.baseline);
                    return Ok(Some((batch, Position::Slicing(ahead, held, from + rows))));
                }
            };
        }
    }

    fn start(self: &Arc<Self>, context: &TaskContext) -> ReadAhead {
        let name = format!("BigQueryScan {}[{}]", self.source.table, self.partition);
        ReadAhead::start(
            Arc::clone(self).messages(),
            MemoryConsumer::new(name),
            context.memory_pool(),
            Arc::clone(&self.execution.neighbours),
        )
    }

    /// The messages of the partition's streams, with the plan's columns.
    fn messages(self: Arc<Self>) -> impl Stream<Item = Result<RecordBatch, DataFusionError>> {
        futures::stream::try_unfold((self, None), |(reader, stream)| async {
            let next = reader.receive_from(stream).await?;
            Ok(next.map(|(batch, stream)| (batch, (reader, Some(stream)))))
        })
    }

    /// The next message of this stream or of those after it.
    async fn receive_from(
        &self,
        mut stream: Option<BatchStream>,
    ) -> Result<Option<(RecordBatch, BatchStream)>, DataFusionError> {
        let terms = Terms {
            source: &self.source,
            spec: &self.spec,
            late_filters: &self.late_filters,
            partitions: self.partitions,
            config: &self.config,
        };
        let Some(opened) = self.execution.opened(&terms, &self.metrics).await? else {
            return Ok(None);
        };
        loop {
            let mut current = match stream.take() {
                Some(current) => current,
                None if self.execution.is_satisfied(self.spec.limit) => return Ok(None),
                None => match self.open_next(opened) {
                    Some(next) => next,
                    None => return Ok(None),
                },
            };
            if let Some(batch) = self.receive(opened, &mut current).await? {
                return Ok(Some((batch, current)));
            }
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

    /// The next message of a stream.
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
                let aligned = aligned.map_err(|error| error.with_context(context()))?;
                let kept = match &opened.guard {
                    Some(guard) => guard.keep(&batch, aligned)?,
                    None => aligned,
                };
                timer.done();
                Ok(Some(kept))
            }
            None => Ok(None),
        }
    }
}

impl Drop for PartitionReader {
    fn drop(&mut self) {
        self.metrics.count(&self.counters);
        self.execution.leave(&self.source.table, &self.metrics);
    }
}
