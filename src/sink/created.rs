//! What the writers to created streams have in common: requests at known offsets,
//! and another stream where one has to be given up.

use std::collections::VecDeque;

use super::batch::{Origin, Ready};
use super::intake::Intake;
use super::numbered::Numbered;
use crate::client::write::append::{AppendStream, Settled, StartAt};
use crate::client::write::streams::{CreatedStream, StreamKind};
use crate::error::{Error, ErrorKind, Result};

/// Where a stream stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// Its name.
    pub(super) stream: String,
    /// How many rows it has that are ours and in order.
    pub(super) end: i64,
    /// How many of them no commit knows of yet.
    pub(super) uncommitted: u64,
}

/// Writes rows to created streams of one kind, one at a time.
#[derive(Debug)]
pub(super) struct CreatedStreams {
    pub(super) intake: Intake,
    kind: StreamKind,
    /// Where an earlier writer was, until the first rows show that the stream is
    /// still so.
    resumed: Option<Position>,
    /// Created for the first rows: a writer without rows asks nothing of the service.
    open: Option<Open>,
    /// Streams that take no more rows and have some that no commit knows of.
    retired: Vec<Position>,
    /// Requests to be sent.
    backlog: VecDeque<Ready>,
}

#[derive(Debug)]
struct Open {
    position: Position,
    stream: AppendStream<Origin>,
}

impl CreatedStreams {
    /// Without any stream yet, or with the one of an earlier writer.
    pub(super) fn new(intake: Intake, kind: StreamKind, resumed: Option<Position>) -> Self {
        Self {
            intake,
            kind,
            resumed,
            open: None,
            retired: Vec::new(),
            backlog: VecDeque::new(),
        }
    }

    /// Takes a batch, and sends what has become worth a request.
    pub(super) async fn write(&mut self, rows: Numbered) -> Result<()> {
        self.intake.hold(rows);
        if !self.intake.is_due() {
            return Ok(());
        }
        let outcome = self.send_held().await;
        self.outcome(outcome).await
    }

    /// Sends everything and waits for the answers.
    pub(super) async fn drain(&mut self) -> Result<()> {
        let outcome = self.drain_all().await;
        self.outcome(outcome).await
    }

    /// The streams with rows that no commit knows of; they are known from now on.
    pub(super) fn take_uncommitted(&mut self) -> Vec<Position> {
        let mut taken = std::mem::take(&mut self.retired);
        if let Some(open) = &mut self.open
            && open.position.uncommitted > 0
        {
            taken.push(open.position.clone());
            open.position.uncommitted = 0;
        }
        taken
    }

    /// Leaves the stream for good.
    pub(super) fn leave(&mut self) {
        self.open = None;
    }

    /// The stream that the next rows go to.
    pub(super) fn position(&self) -> Option<&Position> {
        let open = self.open.as_ref().map(|open| &open.position);
        open.or(self.resumed.as_ref())
    }

    /// The error with the table and with what to do. Nothing more is to be written
    /// after it.
    async fn outcome(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else {
            return Ok(());
        };
        self.open = None;
        Err(self.intake.explain(error).await)
    }

    async fn drain_all(&mut self) -> Result<()> {
        self.send_held().await?;
        while self.open.as_ref().is_some_and(|o| o.stream.in_flight() > 0) {
            self.settle_one().await?;
            self.send_backlog().await?;
        }
        Ok(())
    }

    async fn send_held(&mut self) -> Result<()> {
        if self.intake.is_empty() {
            return Ok(());
        }
        let overhead = self.open().await?.stream.overhead();
        let ready = self.intake.cut(overhead).await?;
        self.backlog.extend(ready);
        self.send_backlog().await
    }

    /// Sends the requests that wait, which other ones may join meanwhile.
    async fn send_backlog(&mut self) -> Result<()> {
        while let Some((origin, rows)) = self.backlog.pop_front() {
            while let Some(settled) = self.open().await?.stream.try_settled()? {
                self.settle(settled).await?;
            }
            while !self.open().await?.stream.has_room(rows.bytes()) {
                self.settle_one().await?;
            }
            self.open().await?.stream.send(origin, rows);
        }
        Ok(())
    }

    async fn settle_one(&mut self) -> Result<()> {
        let settled = self.open().await?.stream.settled().await?;
        self.settle(settled).await
    }

    async fn settle(&mut self, settled: Settled<Origin>) -> Result<()> {
        match settled {
            Settled::Written { rows, .. } => {
                let position = &mut self.open().await?.position;
                position.end += i64::try_from(rows).unwrap_or(i64::MAX);
                position.uncommitted += u64::try_from(rows).unwrap_or(u64::MAX);
                Ok(())
            }
            Settled::Rejected {
                tag,
                wrong,
                message,
                ..
            } => {
                let left = self.intake.without(&tag, wrong, message).await?;
                self.backlog.extend(left);
                Ok(())
            }
            Settled::Stranded { tag, rows } => self.strand((tag, rows)).await,
        }
    }

    /// Takes everything back from a stream that takes no more rows.
    async fn strand(&mut self, first: Ready) -> Result<()> {
        let Some(mut open) = self.open.take() else {
            return Err(Error::new(ErrorKind::Internal, "no stream to be given up"));
        };
        let mut back = vec![first];
        while open.stream.in_flight() > 0 {
            match open.stream.settled().await? {
                Settled::Stranded { tag, rows } => back.push((tag, rows)),
                Settled::Written { .. } | Settled::Rejected { .. } => {
                    return Err(Error::new(
                        ErrorKind::Internal,
                        "a stream that was given up has answered a request",
                    ));
                }
            }
        }
        for ready in back.into_iter().rev() {
            self.backlog.push_front(ready);
        }
        if open.position.uncommitted > 0 {
            self.retired.push(open.position);
        }
        Ok(())
    }

    /// The open stream: the one of an earlier writer, or one that is made now.
    async fn open(&mut self) -> Result<&mut Open> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let (position, start) = match self.resumed.take() {
                    Some(position) => {
                        let start = StartAt::Offset(position.end);
                        (position, start)
                    }
                    None => (self.create().await?, StartAt::Beginning),
                };
                let intake = &self.intake;
                let stream = CreatedStream {
                    kind: self.kind,
                    name: position.stream.clone(),
                    start,
                };
                let stream = intake
                    .client()
                    .created_stream(stream, intake.target(), intake.streams(), intake.wire())
                    .sharing(intake.budget().window());
                Open { position, stream }
            }
        };
        Ok(self.open.insert(open))
    }

    async fn create(&self) -> Result<Position> {
        let destination = self.intake.destination();
        let client = self.intake.client();
        let stream = client
            .create_write_stream(&destination.table, self.kind, destination.denied)
            .await?;
        Ok(Position {
            stream,
            end: 0,
            uncommitted: 0,
        })
    }
}
