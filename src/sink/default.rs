//! The writer behind `storage_api_at_least_once`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use async_trait::async_trait;

use super::batch::{Cut, Origin};
use super::failure::FailedRow;
use super::metrics::SinkCounters;
use super::protocol::{Committable, WriterState};
use super::writer::{Destination, SinkShared, TableWriter, explain};
use crate::client::write::WriterSchema;
use crate::client::write::default::{DefaultStream, DefaultStreamTarget, Settled};
use crate::error::{Error, ErrorKind, Result};

/// Batches are put together until they have so many rows, so that small ones do
/// not make small requests.
const ROWS_TOGETHER: usize = 4_096;

/// Appends to the default stream of a table. The rows of a batch are visible when
/// the service acknowledges them, which is at the latest when a flush returns.
#[derive(Debug)]
pub(super) struct DefaultWriter {
    shared: Arc<SinkShared>,
    destination: Arc<Destination>,
    subtask: usize,
    /// Opened for the first rows: a writer without rows asks nothing of the service.
    stream: Option<DefaultStream<Origin>>,
    held: Vec<RecordBatch>,
    held_rows: usize,
    held_bytes: usize,
    /// The number of the next row, from 1.
    next_row: u64,
    /// Rows that a commit has not counted yet.
    uncommitted: u64,
    counters: Arc<SinkCounters>,
}

impl DefaultWriter {
    pub(super) fn new(
        shared: Arc<SinkShared>,
        destination: Arc<Destination>,
        subtask: usize,
        counters: Arc<SinkCounters>,
    ) -> Self {
        Self {
            shared,
            destination,
            subtask,
            stream: None,
            held: Vec::new(),
            held_rows: 0,
            held_bytes: 0,
            next_row: 1,
            uncommitted: 0,
            counters,
        }
    }
}

#[async_trait]
impl TableWriter for DefaultWriter {
    async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.held_rows += batch.num_rows();
        self.held_bytes += batch.get_array_memory_size();
        if batch.num_rows() > 0 {
            self.held.push(batch);
        }
        let target = self.shared.options.default_stream.max_append_request_bytes;
        if self.held_rows >= ROWS_TOGETHER || self.held_bytes >= target {
            let outcome = self.send_held().await;
            return self.outcome(outcome).await;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        let outcome = self.drain().await;
        self.outcome(outcome).await
    }

    async fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        self.flush().await?;
        Ok(match std::mem::take(&mut self.uncommitted) {
            0 => Vec::new(),
            rows => vec![Committable::StorageApiAtLeastOnceV1 { rows }],
        })
    }

    fn snapshot(&self) -> WriterState {
        WriterState::StorageApiAtLeastOnceV1 {}
    }
}

impl DefaultWriter {
    async fn outcome(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else {
            return Ok(());
        };
        // Nothing more is to be written.
        self.stream = None;
        Err(explain(&self.shared.client, &self.destination.table, error).await)
    }

    /// Sends everything and waits for the answers.
    async fn drain(&mut self) -> Result<()> {
        self.send_held().await?;
        while self.stream.as_ref().is_some_and(|s| s.in_flight() > 0) {
            self.settle_one().await?;
        }
        Ok(())
    }

    /// Makes requests of the batches that were held back.
    async fn send_held(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        (self.held_rows, self.held_bytes) = (0, 0);
        let batch = match held.as_slice() {
            [] => return Ok(()),
            [only] => only.clone(),
            several => concat_batches(&self.shared.schema, several).map_err(|error| {
                Error::new(
                    ErrorKind::InvalidArgument,
                    format!("batches of a write differ in their schemas: {error}"),
                )
            })?,
        };
        drop(held);
        let first_row = self.next_row;
        self.next_row += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
        let encoded = self.destination.encoder.encode(&batch)?;
        let target = self.shared.options.default_stream.max_append_request_bytes;
        let overhead = self.stream().overhead();
        let cut = Cut::new(encoded, first_row, target, overhead)?;
        self.handle(&cut.failed).await?;
        for (origin, rows) in cut.ready {
            while !self.stream().has_room(rows.bytes()) {
                self.settle_one().await?;
            }
            while let Some(settled) = self.stream().try_settled()? {
                self.settle(settled).await?;
            }
            self.stream().send(origin, rows);
        }
        Ok(())
    }

    fn stream(&mut self) -> &mut DefaultStream<Origin> {
        self.stream.get_or_insert_with(|| {
            let destination = &self.destination;
            let encoder = &destination.encoder;
            self.shared.client.default_stream(
                DefaultStreamTarget {
                    table: destination.table.clone(),
                    schema: WriterSchema {
                        format: encoder.format(),
                        bytes: encoder.writer_schema().clone(),
                    },
                    defaulted: destination.defaulted.clone(),
                },
                &self.shared.options.default_stream,
                Arc::clone(&self.counters.wire),
            )
        })
    }

    async fn settle_one(&mut self) -> Result<()> {
        let settled = self.stream().settled().await?;
        self.settle(settled).await
    }

    async fn settle(&mut self, settled: Settled<Origin>) -> Result<()> {
        match settled {
            Settled::Written { rows, .. } => {
                self.uncommitted += u64::try_from(rows).unwrap_or(u64::MAX);
                Ok(())
            }
            Settled::Rejected {
                tag: origin, wrong, ..
            } => {
                let failed: Vec<_> = wrong
                    .iter()
                    .map(|wrong| FailedRow {
                        row: origin.row(wrong.row),
                        column: None,
                        message: wrong.message.clone(),
                    })
                    .collect();
                self.handle(&failed).await?;
                let wrong: BTreeSet<_> = wrong.into_iter().map(|wrong| wrong.row).collect();
                for (origin, rows) in origin.without(&wrong)? {
                    // They had room before.
                    self.stream().send(origin, rows);
                }
                Ok(())
            }
        }
    }

    async fn handle(&self, failed: &[FailedRow]) -> Result<()> {
        let failures = &self.shared.failures;
        failures
            .handle(&self.destination.table, self.subtask, failed)
            .await?;
        let more = u64::try_from(failed.len()).unwrap_or(u64::MAX);
        self.counters.skipped.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }
}
