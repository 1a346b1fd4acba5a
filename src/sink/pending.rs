//! The writer behind `storage_api_atomic`.
//!
//! A writer has one pending stream for each commit, finalized when the commit is
//! prepared. The committer commits the streams of all writers at once.

use async_trait::async_trait;

use super::created::{CreatedStreams, Position};
use super::intake::Intake;
use super::numbered::Numbered;
use super::protocol::{Committable, WriterState};
use super::writer::TableWriter;
use crate::client::write::streams::StreamKind;
use crate::error::{Error, ErrorKind, Result};

/// Appends to pending streams of a table. Rows are visible when a commit has made
/// those of all writers visible.
#[derive(Debug)]
pub(super) struct PendingWriter {
    streams: CreatedStreams,
}

impl PendingWriter {
    pub(super) fn new(intake: Intake) -> Self {
        Self {
            streams: CreatedStreams::new(intake, StreamKind::Pending, None),
        }
    }

    /// Ends a stream, which must have the rows that were acknowledged and no others.
    async fn finalize(&self, position: Position) -> Result<Committable> {
        let intake = &self.streams.intake;
        let rows = match intake
            .client()
            .finalize_write_stream(&position.stream)
            .await
        {
            Ok(rows) => rows,
            Err(error) => return Err(intake.explain(error).await),
        };
        if rows != position.end {
            // A request of a broken call has arrived after all, in a place that was
            // another's. The stream cannot be shortened.
            let error = Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "stream {} has {rows} rows, and {} were written to it: nothing is committed; \
                     write them again",
                    position.stream, position.end
                ),
            );
            return Err(intake.explain(error).await);
        }
        Ok(Committable::StorageApiAtomicV1 {
            table: intake.destination().table.to_string(),
            stream: position.stream,
            rows: position.uncommitted,
        })
    }
}

#[async_trait]
impl TableWriter for PendingWriter {
    async fn write(&mut self, rows: Numbered) -> Result<()> {
        self.streams.write(rows).await
    }

    async fn flush(&mut self) -> Result<()> {
        self.streams.drain().await
    }

    async fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        self.streams.drain().await?;
        let written = self.streams.take_uncommitted();
        self.streams.leave();
        let mut committables = Vec::with_capacity(written.len());
        for position in written {
            committables.push(self.finalize(position).await?);
        }
        Ok(committables)
    }

    fn snapshot(&self) -> WriterState {
        WriterState::StorageApiAtomicV1 {}
    }
}
