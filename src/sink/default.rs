//! The writer behind `storage_api_at_least_once`.

use arrow::array::RecordBatch;
use async_trait::async_trait;

use super::batch::{Origin, Ready};
use super::intake::Intake;
use super::protocol::{Committable, WriterState};
use super::writer::TableWriter;
use crate::client::write::append::{AppendStream, Settled};
use crate::error::{Error, ErrorKind, Result};

/// Appends to the default stream of a table. The rows of a batch are visible when
/// the service acknowledges them, which is at the latest when a flush returns.
#[derive(Debug)]
pub(super) struct DefaultWriter {
    intake: Intake,
    /// Opened for the first rows: a writer without rows asks nothing of the service.
    stream: Option<AppendStream<Origin>>,
    /// Rows that a commit has not counted yet.
    uncommitted: u64,
}

impl DefaultWriter {
    pub(super) fn new(intake: Intake) -> Self {
        Self {
            intake,
            stream: None,
            uncommitted: 0,
        }
    }
}

#[async_trait]
impl TableWriter for DefaultWriter {
    async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.intake.hold(batch);
        if self.intake.is_due() {
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

    fn bytes(&self) -> usize {
        let under_way = self
            .stream
            .as_ref()
            .map_or(0, AppendStream::in_flight_bytes);
        self.intake.held_bytes() + under_way
    }
}

impl DefaultWriter {
    async fn outcome(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else {
            return Ok(());
        };
        // Nothing more is to be written.
        self.stream = None;
        Err(self.intake.explain(error).await)
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
        if self.intake.is_empty() {
            return Ok(());
        }
        let overhead = self.stream().overhead();
        for (origin, rows) in self.intake.cut(overhead).await? {
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

    fn stream(&mut self) -> &mut AppendStream<Origin> {
        self.stream.get_or_insert_with(|| {
            let intake = &self.intake;
            intake
                .client()
                .default_stream(intake.target(), intake.streams(), intake.wire())
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
                tag,
                wrong,
                message,
                ..
            } => {
                let left: Vec<Ready> = self.intake.without(&tag, wrong, message).await?;
                for (origin, rows) in left {
                    // They had room before.
                    self.stream().send(origin, rows);
                }
                Ok(())
            }
            Settled::Stranded { .. } => Err(Error::new(
                ErrorKind::Internal,
                "a default stream was given up, and has no offsets that could be wrong",
            )),
        }
    }
}
