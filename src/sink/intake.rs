//! What writers do with rows before and after the wire, whatever stream they use.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

use super::batch::{Cut, Halves, Origin, Ready};
use super::budget::Budget;
use super::changes::{Prepared, Refused};
use super::failure::FailedRow;
use super::metrics::SinkCounters;
use super::numbered::{Numbered, RowNumbers};
use super::writer::{Destination, SinkShared, explain};
use crate::client::Client;
use crate::client::write::append::{AppendTarget, RequestOrder, RowRefusal, Unexplained};
use crate::client::write::{WriteCounters, WriterSchema};
use crate::error::{Error, ErrorKind, Result};
use crate::options::StreamOptions;
use crate::types::encode::RowFormat;

/// Batches are put together until they have so many rows, so that small ones do
/// not make small requests.
const ROWS_TOGETHER: usize = 4_096;

/// Holds batches back, makes requests of them, and decides over rows that cannot be
/// written.
#[derive(Debug)]
pub(super) struct Intake {
    shared: Arc<SinkShared>,
    destination: Arc<Destination>,
    subtask: usize,
    streams: StreamOptions,
    held: Vec<RecordBatch>,
    /// Of the rows that are held.
    numbers: RowNumbers,
    held_rows: usize,
    held_bytes: usize,
    counters: Arc<SinkCounters>,
}

impl Intake {
    /// For the task with the number `subtask`, whose streams have these options.
    pub(super) fn new(
        shared: Arc<SinkShared>,
        destination: Arc<Destination>,
        subtask: usize,
        streams: StreamOptions,
        counters: Arc<SinkCounters>,
    ) -> Self {
        Self {
            shared,
            destination,
            subtask,
            streams,
            held: Vec::new(),
            numbers: RowNumbers::default(),
            held_rows: 0,
            held_bytes: 0,
            counters,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(super) fn destination(&self) -> &Destination {
        &self.destination
    }

    pub(super) fn streams(&self) -> &StreamOptions {
        &self.streams
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    pub(super) fn wire(&self) -> Arc<WriteCounters> {
        Arc::clone(&self.counters.wire)
    }

    /// Whether requests have to be applied in the order in which they are sent.
    pub(super) fn order(&self) -> RequestOrder {
        match self.destination.changes {
            Some(_) => RequestOrder::Kept,
            None => RequestOrder::Free,
        }
    }

    /// What rows go to.
    pub(super) fn target(&self) -> AppendTarget {
        let encoder = &self.destination.encoder;
        AppendTarget {
            table: self.destination.table.clone(),
            schema: WriterSchema {
                format: encoder.format(),
                bytes: encoder.writer_schema().clone(),
            },
            defaulted: self.destination.defaulted.clone(),
            denied: self.destination.denied,
            unexplained: match (encoder.format(), self.shared.failures.leaves_out()) {
                (RowFormat::Arrow, true) => Unexplained::Rows,
                _ => Unexplained::Final,
            },
            order: self.order(),
        }
    }

    /// Holds rows back.
    pub(super) fn hold(&mut self, rows: Numbered) {
        let Numbered { rows, numbers } = rows;
        if rows.num_rows() == 0 {
            return;
        }
        self.numbers.append(self.held_rows, &numbers);
        self.held_rows += rows.num_rows();
        self.held_bytes += rows.get_array_memory_size();
        self.held.push(rows);
    }

    /// Bytes of rows that are held back, about.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether nothing is held back.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether what is held back is worth a request.
    pub(super) fn is_due(&self) -> bool {
        self.held_rows >= ROWS_TOGETHER || self.held_bytes >= self.streams.max_append_request_bytes
    }

    /// Makes requests of what was held back. `overhead` is what a request has besides
    /// its rows.
    pub(super) async fn cut(&mut self, overhead: usize) -> Result<Vec<Ready>> {
        let held = std::mem::take(&mut self.held);
        let numbers = std::mem::take(&mut self.numbers);
        (self.held_rows, self.held_bytes) = (0, 0);
        let batch = match held.as_slice() {
            [] => return Ok(Vec::new()),
            [only] => only.clone(),
            several => concat_batches(&self.shared.schema, several).map_err(|error| {
                Error::new(
                    ErrorKind::InvalidArgument,
                    format!("batches of a write differ in their schemas: {error}"),
                )
            })?,
        };
        drop(held);
        let source = self.shared.failures.keeps_rows().then(|| batch.clone());
        let Prepared { batch, refused } = match &self.destination.changes {
            Some(changes) => changes.prepare(&batch)?,
            None => Prepared::from(batch),
        };
        let encoded = self.destination.encoder.encode(&batch)?;
        let most = self.streams.max_append_request_bytes;
        let mut cut = Cut::new(encoded, numbers, most, overhead, source)?;
        let failed = std::mem::take(&mut cut.failed).into_iter();
        let failed: Vec<_> = failed
            .map(|(position, failed)| {
                let position = u64::try_from(position).unwrap_or(u64::MAX);
                match refused.get(&position).cloned() {
                    None => failed,
                    Some(Refused { column, message }) => FailedRow {
                        column,
                        message,
                        ..failed
                    },
                }
            })
            .collect();
        self.handle(&failed).await?;
        Ok(cut.ready)
    }

    /// What is left of a request of which the service refused rows. Where it does not
    /// say which, the request is taken apart until the rows are found.
    pub(super) async fn without(
        &self,
        origin: &Origin,
        wrong: Vec<RowRefusal>,
        message: String,
    ) -> Result<Vec<Ready>> {
        if wrong.is_empty() {
            return match origin.halves()? {
                Halves::Two(ready) => Ok(ready),
                Halves::One(failed) => {
                    self.handle(&[FailedRow { message, ..failed }]).await?;
                    Ok(Vec::new())
                }
                Halves::NoneTaken(rows) => Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "the service took none of the {rows} rows of a request, each refused by \
                         itself: {message}"
                    ),
                )),
            };
        }
        let failed: Vec<_> = wrong
            .iter()
            .map(|wrong| origin.failed(wrong.row, wrong.message.clone()))
            .collect();
        self.handle(&failed).await?;
        let wrong: BTreeSet<_> = wrong.into_iter().map(|wrong| wrong.row).collect();
        origin.without(&wrong)
    }

    /// The error with the table, and with what to do where that is known.
    pub(super) async fn explain(&self, error: Error) -> Error {
        explain(&self.shared.client, &self.destination.table, error).await
    }

    async fn handle(&self, failed: &[FailedRow]) -> Result<()> {
        let table = self.destination.table.to_string();
        let failures = &self.shared.failures;
        failures
            .handle(&table, self.subtask, failed, &self.counters)
            .await
    }
}
