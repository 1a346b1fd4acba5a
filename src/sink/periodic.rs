//! Commits of a plan that never ends, from time to time.
//!
//! The commit asks all writers at once. Each of them sends what it holds back, gives out
//! what it has prepared since it was asked before, and goes on writing; when all have
//! answered, what they gave is committed together. The next time comes one interval
//! after the writers were asked, or when the commit is through, whichever is later. A
//! writer whose input ends gives out the rest and is not waited for any more.
//!
//! What was committed stays, whatever happens later.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use tokio::sync::watch;

use super::execution::{Committing, Execution};
use super::feed::Feed;
use super::handover::{Handover, Stand};
use super::metrics::{LiveMetrics, WriterMetrics};
use super::protocol::{BigQuerySink, Committable, Committer, SinkWriter};
use crate::client::retry::Clock;

/// A writer of an input that may never end.
struct Task {
    number: usize,
    writer: SinkWriter,
    feed: Feed,
    execution: Arc<Execution>,
    asked: watch::Receiver<u64>,
    answered: u64,
    metrics: WriterMetrics,
}

/// Writes a partition, and gives out what there is to commit of it whenever that is
/// asked for.
///
/// # Errors
/// No writer can be made.
pub(super) fn write(
    execution: Arc<Execution>,
    sink: &BigQuerySink,
    number: usize,
    input: SendableRecordBatchStream,
    metrics: &LiveMetrics,
) -> Result<impl Stream<Item = Result<RecordBatch>> + use<>> {
    let (asked, answered) = execution.enter(number);
    let writer = sink.writer(number, None)?;
    let metrics = metrics.writer(number, sink.write_method(), writer.counters());
    let task = Task {
        number,
        writer,
        feed: Feed::new(input, sink),
        execution,
        asked,
        answered,
        metrics,
    };
    Ok(stream::try_unfold(Some(task), |task| async move {
        match task {
            None => Ok(None),
            Some(task) => task.until_asked().await.map(Some),
        }
    }))
}

impl Task {
    async fn until_asked(mut self) -> Result<(RecordBatch, Option<Self>)> {
        let stand = self.write_until_asked().await;
        let prepared = match stand {
            Ok(stand) => self.prepare().await.map(|prepared| (stand, prepared)),
            Err(error) => Err(error),
        };
        let (stand, committables) = prepared?;
        self.execution.hand_over(&committables);
        let batch = Handover::new(self.number, committables, Some(stand)).to_batch(self.number)?;
        self.metrics.baseline.record_output(batch.num_rows());
        match stand {
            Stand::Answered => Ok((batch, Some(self))),
            Stand::Ended => {
                self.writer.close().await?;
                self.metrics.baseline.done();
                Ok((batch, None))
            }
        }
    }

    async fn write_until_asked(&mut self) -> Result<Stand> {
        loop {
            let answered = self.answered;
            let asked = async {
                let asked = self.asked.wait_for(|asked| *asked > answered).await;
                // The execution, which this task has a part in, holds the sender.
                asked.map_or(answered, |asked| *asked)
            };
            let next = tokio::select! {
                // An input that always has rows does not keep a checkpoint waiting.
                biased;
                asked = asked => {
                    self.answered = asked;
                    return Ok(Stand::Answered);
                }
                next = self.feed.next() => next,
            };
            let given = self.feed.give(next, &mut self.writer, &self.metrics);
            if !given.await? {
                return Ok(Stand::Ended);
            }
        }
    }

    async fn prepare(&mut self) -> Result<Vec<Committable>> {
        let timer = self.metrics.write_time.timer();
        let prepared = self.writer.prepare_commit().await?;
        timer.done();
        Ok(prepared)
    }
}

/// The commits above such writers.
pub(super) struct Commits {
    interval: Duration,
    clock: Arc<dyn Clock>,
    /// Ends when the writers are to be asked.
    due: BoxFuture<'static, ()>,
    committing: Committing,
    committer: Committer,
    input: Input,
    done: Done,
    over: bool,
}

/// What comes from the writers.
struct Input {
    stream: SendableRecordBatchStream,
    flows: bool,
    /// What there is to commit.
    committables: Vec<Committable>,
    /// Writers that were asked and have not answered.
    waiting: BTreeSet<usize>,
}

/// What is committed.
#[derive(Debug, Default)]
struct Done {
    commits: u64,
    rows: u64,
    told: bool,
}

impl Commits {
    pub(super) fn new(
        interval: Duration,
        execution: Arc<Execution>,
        sink: &BigQuerySink,
        stream: SendableRecordBatchStream,
        metrics: &LiveMetrics,
    ) -> Self {
        let clock = Arc::clone(sink.shared.client.clock());
        let committer = sink.committer();
        metrics.committer(committer.counters());
        Self {
            interval,
            due: clock.sleep(interval),
            clock,
            committing: Committing(execution),
            committer,
            input: Input {
                stream,
                flows: true,
                committables: Vec::new(),
                waiting: BTreeSet::new(),
            },
            done: Done::default(),
            over: false,
        }
    }

    /// Commits, and gives how many rows are committed after each commit that had any.
    pub(super) fn run(self) -> impl Stream<Item = Result<u64>> {
        stream::try_unfold(self, |mut commits| async move {
            match commits.next().await {
                Ok(None) => Ok(None),
                Ok(Some(rows)) => Ok(Some((rows, commits))),
                Err(error) => Err(commits.explain(error)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<u64>> {
        while !self.over {
            self.collect().await?;
            self.over = !self.input.flows;
            let committables = std::mem::take(&mut self.input.committables);
            let some = !committables.is_empty();
            let before = self.done.rows;
            if some {
                self.commit(committables).await?;
            }
            if self.done.rows > before || (self.over && !self.done.told) {
                self.done.told = true;
                return Ok(Some(self.done.rows));
            }
        }
        Ok(None)
    }

    /// Takes what the writers give until the next commit is due and all of them have
    /// answered, or all have ended.
    async fn collect(&mut self) -> Result<()> {
        let execution = Arc::clone(&self.committing.0);
        while self.input.flows {
            tokio::select! {
                () = &mut self.due => {
                    // Rows that come in the next interval are behind the question.
                    self.input.waiting = execution.ask();
                    self.due = self.clock.sleep(self.interval);
                    break;
                }
                taken = self.input.take(&execution) => taken?,
            }
        }
        while self.input.flows && !self.input.waiting.is_empty() {
            self.input.take(&execution).await?;
        }
        Ok(())
    }

    async fn commit(&mut self, committables: Vec<Committable>) -> Result<()> {
        let execution = Arc::clone(&self.committing.0);
        execution.begin_commit(&committables);
        let mut failed = None;
        let committed = {
            let mut commit = pin!(self.committer.commit(committables));
            loop {
                // The writers go on meanwhile, also where nothing else drives them.
                tokio::select! {
                    biased;
                    committed = &mut commit => break committed,
                    taken = self.input.take(&execution), if self.input.flows && failed.is_none() => {
                        failed = taken.err();
                    }
                }
            }
        };
        self.done.rows = self.done.rows.saturating_add(committed?);
        self.done.commits += 1;
        failed.map_or(Ok(()), Err)
    }

    /// Says what is there in spite of an error.
    fn explain(&self, error: DataFusionError) -> DataFusionError {
        match &self.done {
            Done { commits: 0, .. } => error,
            Done { commits, rows, .. } => error.context(format!(
                "{commits} commits of this statement came before, and their {rows} rows stay"
            )),
        }
    }
}

impl Input {
    async fn take(&mut self, execution: &Execution) -> Result<()> {
        let Some(batch) = self.stream.next().await else {
            self.flows = false;
            return Ok(());
        };
        let Handover {
            mut committables,
            stands,
        } = Handover::of_batch(&batch?)?;
        self.committables.append(&mut committables);
        for (writer, stand) in stands {
            self.waiting.remove(&writer);
            if stand == Stand::Ended {
                execution.leave(writer);
            }
        }
        Ok(())
    }
}
