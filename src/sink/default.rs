//! The writer behind `storage_api_at_least_once`.

use async_trait::async_trait;
use futures::future::select_all;

use super::batch::{Origin, Ready};
use super::budget::Slot;
use super::intake::Intake;
use super::numbered::Numbered;
use super::protocol::{Committable, WriterState};
use super::writer::TableWriter;
use crate::client::write::append::{AppendStream, RequestOrder, Settled};
use crate::error::{Error, ErrorKind, Result};

/// Appends to the default stream of a table. The rows of a batch are visible when
/// the service acknowledges them, which is at the latest when a flush returns.
///
/// A default stream may be appended to by many connections at the same time. A
/// writer begins with one, and has more when it has more to send than they take.
#[derive(Debug)]
pub(super) struct DefaultWriter {
    intake: Intake,
    /// Opened when there are rows: a writer without any asks nothing of the service.
    connections: Vec<Connection>,
    /// Rows that a commit has not counted yet.
    uncommitted: u64,
}

/// A connection to the default stream.
#[derive(Debug)]
struct Connection {
    stream: AppendStream<Origin>,
    /// What is counted of it.
    _slot: Slot,
}

impl DefaultWriter {
    pub(super) fn new(intake: Intake) -> Self {
        Self {
            intake,
            connections: Vec::new(),
            uncommitted: 0,
        }
    }
}

#[async_trait]
impl TableWriter for DefaultWriter {
    async fn write(&mut self, rows: Numbered) -> Result<()> {
        self.intake.hold(rows);
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
        let connections = self.connections.iter();
        let under_way = connections.map(|connection| connection.stream.in_flight_bytes());
        self.intake.held_bytes() + under_way.sum::<usize>()
    }
}

impl DefaultWriter {
    async fn outcome(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else {
            return Ok(());
        };
        // Nothing more is to be written.
        self.connections.clear();
        Err(self.intake.explain(error).await)
    }

    /// Sends everything and waits for the answers.
    async fn drain(&mut self) -> Result<()> {
        self.send_held().await?;
        while self.connections.iter().any(|c| c.stream.in_flight() > 0) {
            self.settle_one().await?;
        }
        Ok(())
    }

    /// Makes requests of the batches that were held back.
    async fn send_held(&mut self) -> Result<()> {
        if self.intake.is_empty() {
            return Ok(());
        }
        if self.connections.is_empty() {
            let slot = self.intake.budget().first();
            self.open(slot);
        }
        let overhead = self.connections[0].stream.overhead();
        for (origin, rows) in self.intake.cut(overhead).await? {
            for at in 0..self.connections.len() {
                while let Some(settled) = self.connections[at].stream.try_settled()? {
                    self.settle(at, settled).await?;
                }
            }
            let at = loop {
                match self.choose(rows.bytes()) {
                    Some(at) => break at,
                    None => self.settle_one().await?,
                }
            };
            self.connections[at].stream.send(origin, rows);
        }
        Ok(())
    }

    /// The connection for a request with rows of so many bytes, if one takes it now.
    fn choose(&mut self, bytes: usize) -> Option<usize> {
        if self.intake.order() == RequestOrder::Kept {
            // Requests of several connections would have no order.
            return self.connections[0].stream.has_room(bytes).then_some(0);
        }
        let in_flight = |at: usize| self.connections[at].stream.in_flight();
        let has_room = |at: &usize| self.connections[*at].stream.has_room(bytes);
        let all = 0..self.connections.len();
        let freest = all.filter(has_room).min_by_key(|at| in_flight(*at));
        let budget = self.intake.budget();
        let another = match freest {
            Some(at) if in_flight(at) == 0 => None,
            Some(_) => budget.for_speed(),
            // More connections make no room where all bytes are under way.
            None if self.connections[0].stream.window_has_room(bytes) => budget.for_room(),
            None => None,
        };
        another.map(|slot| self.open(slot)).or(freest)
    }

    fn open(&mut self, slot: Slot) -> usize {
        let intake = &self.intake;
        let stream = intake
            .client()
            .default_stream(intake.target(), intake.streams(), intake.wire())
            .sharing(intake.budget().window());
        let connection = Connection {
            stream,
            _slot: slot,
        };
        self.connections.push(connection);
        self.connections.len() - 1
    }

    /// Waits for the first answer on any of the connections.
    async fn settle_one(&mut self) -> Result<()> {
        let busy = self.connections.iter_mut().enumerate();
        let busy = busy.filter(|(_, connection)| connection.stream.in_flight() > 0);
        // Those that are not the first lose nothing.
        let answers = busy.map(|(at, connection)| {
            Box::pin(async move { (at, connection.stream.settled().await) })
        });
        let ((at, settled), _, _) = select_all(answers).await;
        self.settle(at, settled?).await
    }

    async fn settle(&mut self, at: usize, settled: Settled<Origin>) -> Result<()> {
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
                // They had room before.
                let left: Vec<Ready> = self.intake.without(&tag, wrong, message).await?;
                let stream = &mut self.connections[at].stream;
                match self.intake.order() {
                    RequestOrder::Kept => stream.send_instead(left),
                    RequestOrder::Free => {
                        for (origin, rows) in left {
                            stream.send(origin, rows);
                        }
                    }
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
