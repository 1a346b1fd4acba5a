//! The writer behind `storage_api_exactly_once`.
//!
//! A writer has one buffered stream, which it uses from commit to commit and never
//! finalizes: a stream that is finalized cannot be flushed any more. What the stream
//! has behind the last flush is not visible. So a writer that goes on from a state
//! need not know what came after it: if the stream ends where the state says, it is
//! used again, and if not, it is left as it is, and another one is made.

use async_trait::async_trait;

use super::created::{CreatedStreams, Position};
use super::intake::Intake;
use super::numbered::Numbered;
use super::protocol::{Committable, StreamPosition, WriterState};
use super::writer::TableWriter;
use crate::client::write::streams::StreamKind;
use crate::error::Result;

/// Appends to buffered streams of a table. Rows are visible when a commit has flushed
/// them.
#[derive(Debug)]
pub(super) struct BufferedWriter {
    streams: CreatedStreams,
    /// After the last `prepare_commit`.
    state: Option<StreamPosition>,
}

impl BufferedWriter {
    /// A writer that goes on at `resumed`, which is of its table.
    pub(super) fn new(intake: Intake, resumed: Option<StreamPosition>) -> Self {
        let position = resumed.as_ref().map(|resumed| Position {
            stream: resumed.name.clone(),
            end: resumed.next_offset,
            uncommitted: 0,
        });
        Self {
            streams: CreatedStreams::new(intake, StreamKind::Buffered, position),
            state: resumed,
        }
    }
}

#[async_trait]
impl TableWriter for BufferedWriter {
    async fn write(&mut self, rows: Numbered) -> Result<()> {
        self.streams.write(rows).await
    }

    async fn flush(&mut self) -> Result<()> {
        self.streams.drain().await
    }

    async fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        self.streams.drain().await?;
        let table = self.streams.intake.destination().table.to_string();
        let committables = self.streams.take_uncommitted().into_iter();
        let committables = committables
            .map(|position| Committable::StorageApiExactlyOnceV1 {
                table: table.clone(),
                stream: position.stream,
                flush_offset: position.end - 1,
                rows: position.uncommitted,
            })
            .collect();
        self.state = self.streams.position().map(|position| StreamPosition {
            name: position.stream.clone(),
            next_offset: position.end,
        });
        Ok(committables)
    }

    fn snapshot(&self) -> WriterState {
        WriterState::StorageApiExactlyOnceV1 {
            stream: self.state.clone(),
        }
    }
}
