//! What an engine and a sink have to do with each other.
//!
//! Who calls what, in which order, and what is true afterwards:
//!
//! 1. A [`BigQuerySink`] is made once and cloned to where it is needed. It sends
//!    nothing of its own.
//! 2. Each of the engine's parallel tasks has one [`SinkWriter`], with a number of
//!    its own (`subtask`). Calls of one writer come one after the other; writers do
//!    not know of each other and run at the same time.
//! 3. A writer takes batches by [`write`](SinkWriter::write). It may send at once or
//!    hold rows back; it waits when too much is under way.
//! 4. At a checkpoint, or at the end, [`prepare_commit`](SinkWriter::prepare_commit)
//!    sends what was held back, waits until the service has it, and gives out what
//!    a [`Committer`] needs; [`snapshot`](SinkWriter::snapshot) right after it gives
//!    the state from which a writer can go on after a crash. An engine that survives
//!    crashes stores both before it commits.
//! 5. [`Committer::commit`] makes the rows count. It may be called again with the
//!    same committables, as after a crash: that changes nothing more.
//! 6. [`close`](SinkWriter::close) ends a writer. One that is dropped without it
//!    gives up what is under way.
//!
//! After an error a writer is over: its later calls fail, and what was written
//! since the last commit is in doubt.
//!
//! | method | visible | after a crash |
//! |---|---|---|
//! | `storage_api_at_least_once` | each row when the service acknowledges it, before any commit | the rows since the last checkpoint come again, and those that were acknowledged are there twice |
//! | `storage_api_exactly_once` | the rows of a writer when the commit flushes its stream | each row is there once: a writer that goes on from a stored state writes the rows after it again, and those it had written before stay invisible; a crash inside a commit leaves the rows of some writers visible, and repeating the commit completes it |
//! | `storage_api_atomic` | the rows of all writers that are committed together, at once | all rows of a commit are there, each once, or none: a crash inside a commit leaves one of the two, and repeating it completes it |
//! | `file_loads` | the rows of all writers that are committed together, of each table at once | each row is there once: before a commit nothing is visible; a crash inside one leaves all rows of a table or none, and repeating it completes it |
//! | INSERT OVERWRITE by any of them | the new rows in place of the old ones, at once | the old rows are there until the commit; a crash inside it leaves one of the two, and repeating it completes it |
//!
//! What they ask of an engine:
//!
//! | method | state | committables of one checkpoint |
//! |---|---|---|
//! | `storage_api_at_least_once` | empty | need not be committed |
//! | `storage_api_exactly_once` | the stream and its next offset; only one writer may go on from it | may be committed together or apart, before or after those of earlier checkpoints |
//! | `storage_api_atomic` | empty | must be committed by one call, which is what makes them one; at most 10,000 streams of a table |
//! | `file_loads` | empty | must be committed by one call, and repeated with the same; files that no stored committable names are garbage |
//! | INSERT OVERWRITE | empty | must be committed by one call, and repeated with the same |
//!
//! Committables are for ever: a stream is found again by its name for as long as the
//! service keeps it, which is 7 days without use for a buffered stream and 3 for a
//! pending one. A commit after that fails, and says so. Jobs are found again by their
//! ids, which the service keeps for six months; the temporary tables of an INSERT
//! OVERWRITE are there for two days.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use super::arrival::Arrival;
use super::buffered::BufferedWriter;
use super::builder::BigQuerySinkBuilder;
use super::commit;
use super::default::DefaultWriter;
use super::fan_out::FanOut;
use super::intake::Intake;
use super::load::{LoadWriter, StagedFile};
use super::metrics::{CommitCounters, SinkCounters};
use super::overwrite::{OverwriteWriter, Replacement};
use super::pending::PendingWriter;
use super::route::{DestinationResolver, Route};
use super::writer::{Destination, SinkShared, TableWriter};
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{StreamOptions, WriteMethod};
use crate::types::{LineageDataset, TableRef};

/// A table to write to, or several, and how. Cloning is cheap.
#[derive(Clone)]
pub struct BigQuerySink {
    pub(super) shared: Arc<SinkShared>,
    pub(super) route: Arc<Route>,
    pub(super) arrival: Arc<Arrival>,
    /// How rows go into the table, or into one that is created, as far as that is known
    /// before there are rows.
    pub(super) planned: Option<Arc<Destination>>,
    pub(super) change: PlannedChange,
}

/// What will be done before the first row, as it seems at planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlannedChange {
    None,
    /// Tables are created that do not exist.
    Creation,
    /// Columns are added or relaxed, by these paths.
    Columns(Vec<String>),
}

impl BigQuerySink {
    /// Begins a sink that writes to `table`, unless the options say to route rows.
    pub fn builder(client: Client, table: TableRef) -> BigQuerySinkBuilder {
        BigQuerySinkBuilder::to_table(client, table)
    }

    /// Begins a sink that writes each row to the table that `resolver` says.
    pub fn routing_builder(
        client: Client,
        resolver: Arc<dyn DestinationResolver>,
    ) -> BigQuerySinkBuilder {
        BigQuerySinkBuilder::to_resolved(client, resolver)
    }

    /// The table; None when rows go to several.
    pub fn table(&self) -> Option<&TableRef> {
        self.route.table()
    }

    /// The table, or what says where rows go, for people.
    pub fn target(&self) -> String {
        self.route.to_string()
    }

    /// The data set that rows are written to, without a request. None when rows go to
    /// several tables, which are known only with the rows.
    pub fn lineage(&self) -> Option<LineageDataset> {
        self.table().map(LineageDataset::of)
    }

    /// The schema of the batches that writers take.
    pub fn schema(&self) -> &SchemaRef {
        &self.arrival.given
    }

    /// How rows are written.
    pub fn write_method(&self) -> WriteMethod {
        self.shared.options.write_method
    }

    /// How many writers the options ask for; None leaves it to the plan.
    pub(super) fn parallelism(&self) -> Option<usize> {
        self.shared.options.parallelism
    }

    /// The writer of the task with the number `subtask`, from `state` if it goes on
    /// after a crash. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Configuration`](crate::ErrorKind::Configuration) when the state is of
    /// another write method.
    pub fn writer(&self, subtask: usize, state: Option<WriterState>) -> Result<SinkWriter> {
        let counters = Arc::<SinkCounters>::default();
        let fan_out = FanOut::new(self.clone(), subtask, state, Arc::clone(&counters))?;
        Ok(SinkWriter {
            target: self.target(),
            working: Some(fan_out),
            counters,
        })
    }

    /// The writer of a task for one of the tables that it has rows for, from the
    /// state that an earlier one had. Nothing is sent yet.
    pub(super) fn open_table(
        &self,
        destination: Arc<Destination>,
        subtask: usize,
        state: Option<WriterState>,
        counters: Arc<SinkCounters>,
    ) -> Result<Box<dyn TableWriter>> {
        match &destination.overwrite {
            None => self.open_by_method(destination, subtask, state, counters),
            Some(overwrite) => {
                let partition = overwrite.partition.clone();
                let sink = self.clone();
                let writer = OverwriteWriter::new(sink, destination, partition, subtask, counters);
                Ok(Box::new(writer))
            }
        }
    }

    /// The same by the write method itself, whatever becomes of the rows later.
    pub(super) fn open_by_method(
        &self,
        destination: Arc<Destination>,
        subtask: usize,
        state: Option<WriterState>,
        counters: Arc<SinkCounters>,
    ) -> Result<Box<dyn TableWriter>> {
        let options = &self.shared.options;
        let intake = |streams: &StreamOptions| {
            Intake::new(
                Arc::clone(&self.shared),
                Arc::clone(&destination),
                subtask,
                streams.clone(),
                Arc::clone(&counters),
            )
        };
        match (options.write_method, state) {
            (
                WriteMethod::StorageApiAtLeastOnce,
                None | Some(WriterState::StorageApiAtLeastOnceV1 {}),
            ) => Ok(Box::new(DefaultWriter::new(intake(
                &options.default_stream,
            )))),
            (WriteMethod::StorageApiExactlyOnce, None) => {
                let intake = intake(&options.buffered_stream);
                Ok(Box::new(BufferedWriter::new(intake, None)))
            }
            (
                WriteMethod::StorageApiExactlyOnce,
                Some(WriterState::StorageApiExactlyOnceV1 { stream }),
            ) => {
                if let Some(stream) = &stream {
                    stream.check_table(&destination.table)?;
                }
                let intake = intake(&options.buffered_stream);
                Ok(Box::new(BufferedWriter::new(intake, stream)))
            }
            (WriteMethod::StorageApiAtomic, None | Some(WriterState::StorageApiAtomicV1 {})) => {
                let intake = intake(&options.pending_stream);
                Ok(Box::new(PendingWriter::new(intake)))
            }
            (WriteMethod::FileLoads, None | Some(WriterState::FileLoadsV1 {})) => {
                let Some(target) = destination.load.clone() else {
                    return Err(Error::new(
                        ErrorKind::Internal,
                        format!("no files were planned for {}", destination.table),
                    ));
                };
                Ok(Box::new(LoadWriter::new(
                    Arc::clone(&self.shared),
                    destination,
                    target,
                    subtask,
                    counters,
                )?))
            }
            (method, Some(_)) => Err(Error::configuration(format!(
                "the state of a writer for {} is of another write method than '{}'",
                destination.table,
                method.name()
            ))),
        }
    }

    /// What makes written rows count.
    pub fn committer(&self) -> Committer {
        Committer {
            sink: self.clone(),
            counters: Arc::default(),
        }
    }
}

impl fmt::Debug for BigQuerySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BigQuerySink")
            .field("target", &self.target())
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

/// Where a writer goes on after a crash. It can be stored in any format of serde;
/// later versions of this library read what earlier ones stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum WriterState {
    /// At least once needs none: everything since the checkpoint is written again.
    StorageApiAtLeastOnceV1 {},
    /// Exactly once goes on where its stream is, if it has made one.
    StorageApiExactlyOnceV1 {
        /// The stream.
        stream: Option<StreamPosition>,
    },
    /// Atomic needs none: what was not committed is not visible.
    StorageApiAtomicV1 {},
    /// File loads need none: files since the checkpoint are staged again, and those
    /// before it are in committables.
    FileLoadsV1 {},
    /// Rows that replace others need none: they are written again to another
    /// temporary table.
    ReplacementV1 {},
    /// Of a writer that has rows for several tables, or for none so far.
    DestinationsV1 {
        /// One for each table.
        destinations: Vec<DestinationState>,
    },
}

impl WriterState {
    /// The method of a state of one table.
    pub(super) fn write_method(&self) -> Option<WriteMethod> {
        match self {
            WriterState::StorageApiAtLeastOnceV1 {} => Some(WriteMethod::StorageApiAtLeastOnce),
            WriterState::StorageApiExactlyOnceV1 { .. } => Some(WriteMethod::StorageApiExactlyOnce),
            WriterState::StorageApiAtomicV1 {} => Some(WriteMethod::StorageApiAtomic),
            WriterState::FileLoadsV1 {} => Some(WriteMethod::FileLoads),
            WriterState::ReplacementV1 {} | WriterState::DestinationsV1 { .. } => None,
        }
    }

    /// Whether a writer goes on from it as if there were none.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            WriterState::StorageApiAtLeastOnceV1 {}
            | WriterState::StorageApiAtomicV1 {}
            | WriterState::FileLoadsV1 {}
            | WriterState::ReplacementV1 {} => true,
            WriterState::StorageApiExactlyOnceV1 { stream } => stream.is_none(),
            WriterState::DestinationsV1 { destinations } => destinations.is_empty(),
        }
    }
}

/// Where a writer is in its buffered stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// The stream's name, which begins with that of its table.
    pub name: String,
    /// The offset of the next row.
    pub next_offset: i64,
}

impl StreamPosition {
    /// # Errors
    /// [`ErrorKind::Configuration`] when the stream is one of another table.
    fn check_table(&self, table: &TableRef) -> Result<()> {
        let rest = self.name.strip_prefix(&table.resource_name());
        match rest.is_some_and(|rest| rest.starts_with("/streams/")) {
            true => Ok(()),
            false => Err(Error::configuration(format!(
                "the state of a writer for {table} names the stream {}, which is of another table",
                self.name
            ))),
        }
    }
}

/// Where a writer goes on with one of several tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestinationState {
    /// The table, as `project.dataset.table`.
    pub table: String,
    /// Its state.
    pub state: WriterState,
}

/// What a writer has prepared for a commit. It can be stored like a
/// [`WriterState`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "committable", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Committable {
    /// Rows that are visible already.
    StorageApiAtLeastOnceV1 {
        /// How many the service acknowledged.
        rows: u64,
    },
    /// Rows of a buffered stream that are to be flushed.
    StorageApiExactlyOnceV1 {
        /// The table, as `project.dataset.table`.
        table: String,
        /// The stream's name.
        stream: String,
        /// The offset of the last of the rows.
        flush_offset: i64,
        /// How many rows it has got since the last commit.
        rows: u64,
    },
    /// A finalized pending stream that is to be committed.
    StorageApiAtomicV1 {
        /// The table, as `project.dataset.table`.
        table: String,
        /// The stream's name.
        stream: String,
        /// How many rows it has.
        rows: u64,
    },
    /// Files that are staged.
    FileLoadsV1(FileLoads),
    /// Rows in a temporary table that replace those of another.
    ReplacementV1(Replacement),
}

/// Staged files, and where they go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLoads {
    /// The table, as `project.dataset.table`.
    pub table: String,
    /// Its partition, if one is written.
    pub partition: Option<String>,
    /// What becomes of the rows that are there, as the option
    /// `sink.file_loads.write_disposition` names it.
    pub disposition: String,
    /// The format of the files, as the option `sink.file_loads.staging_format` names
    /// it.
    pub format: String,
    /// The columns in the files.
    pub columns: Vec<String>,
    /// The files.
    pub files: Vec<StagedFile>,
}

impl Committable {
    /// How many rows it stands for.
    pub fn rows(&self) -> u64 {
        match self {
            Committable::StorageApiAtLeastOnceV1 { rows }
            | Committable::StorageApiExactlyOnceV1 { rows, .. }
            | Committable::StorageApiAtomicV1 { rows, .. } => *rows,
            Committable::FileLoadsV1(loads) => loads.files.iter().map(|file| file.rows).sum(),
            Committable::ReplacementV1(replacement) => replacement.rows(),
        }
    }
}

/// Takes the rows of one task. The module's documentation says who calls what and
/// when.
#[derive(Debug)]
pub struct SinkWriter {
    target: String,
    /// None after an error: dropping it gave up what was under way.
    working: Option<FanOut>,
    counters: Arc<SinkCounters>,
}

impl SinkWriter {
    /// Takes a batch of the sink's schema. Returns when the batch is under way or
    /// held back, which says nothing of whether it will arrive.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) naming a row that
    /// cannot be written, also one of an earlier batch; and what no further attempt
    /// can cure.
    pub async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        let outcome = self.working()?.write(batch).await;
        self.over_after(outcome)?;
        // To encode is to keep the thread, and where a plan's rows are always ready nothing
        // else gives it away: what is under way would stand still, and in the end the writer
        // that waits for it.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Sends what is held back, and returns when the service has every row that was
    /// written so far, without those that the failure policy left out.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn flush(&mut self) -> Result<()> {
        let outcome = self.working()?.flush().await;
        self.over_after(outcome)
    }

    /// Flushes, and gives out what was written since the last call.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        let outcome = self.working()?.prepare_commit().await;
        self.over_after(outcome)
    }

    /// The state after the last [`prepare_commit`](Self::prepare_commit).
    ///
    /// # Errors
    /// [`FailedPrecondition`](crate::ErrorKind::FailedPrecondition) after an error:
    /// what was stored before is the state to go on from.
    pub fn snapshot(&self) -> Result<WriterState> {
        match &self.working {
            Some(working) => Ok(working.snapshot()),
            None => Err(failed_before(&self.target)),
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> &Arc<SinkCounters> {
        &self.counters
    }

    /// Flushes and ends the writer.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn close(mut self) -> Result<()> {
        let outcome = self.working()?.close().await;
        self.over_after(outcome)
    }

    fn working(&mut self) -> Result<&mut FanOut> {
        match &mut self.working {
            Some(working) => Ok(working),
            None => Err(failed_before(&self.target)),
        }
    }

    fn over_after<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.working = None;
        }
        outcome
    }
}

fn failed_before(target: &str) -> Error {
    Error::new(
        ErrorKind::FailedPrecondition,
        format!("a write to table {target} has failed before"),
    )
}

/// Makes written rows count.
#[derive(Debug, Clone)]
pub struct Committer {
    sink: BigQuerySink,
    counters: Arc<CommitCounters>,
}

impl Committer {
    /// Commits what writers have prepared, of any number of them and in any order.
    /// Committing the same again, all of it together, changes nothing. The answer is
    /// the number of rows that the committables stand for.
    ///
    /// # Errors
    /// [`FailedPrecondition`](crate::ErrorKind::FailedPrecondition),
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) or
    /// [`NotFound`](crate::ErrorKind::NotFound) when streams are not there any more or
    /// cannot be committed; and whatever the last of the allowed attempts met. After
    /// an error the commit can be repeated; staged files stay for that. None under `storage_api_at_least_once`,
    /// which has nothing left to do.
    pub async fn commit(&self, committables: Vec<Committable>) -> Result<u64> {
        let began = Instant::now();
        let outcome = commit::commit(&self.sink, committables, &self.counters).await;
        self.counters.waited(began.elapsed());
        outcome
    }

    /// What happened so far.
    pub fn counters(&self) -> &Arc<CommitCounters> {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is stored stays readable: this text is what earlier versions wrote.
    #[test]
    fn the_stored_forms_do_not_change() {
        let position = StreamPosition {
            name: "projects/p/datasets/d/tables/t/streams/s".into(),
            next_offset: 9,
        };
        for (state, text) in [
            (
                WriterState::StorageApiAtLeastOnceV1 {},
                r#"{"state":"storage_api_at_least_once_v1"}"#,
            ),
            (
                WriterState::StorageApiExactlyOnceV1 {
                    stream: Some(position),
                },
                r#"{"state":"storage_api_exactly_once_v1","stream":{"name":"projects/p/datasets/d/tables/t/streams/s","next_offset":9}}"#,
            ),
            (
                WriterState::StorageApiAtomicV1 {},
                r#"{"state":"storage_api_atomic_v1"}"#,
            ),
            (WriterState::FileLoadsV1 {}, r#"{"state":"file_loads_v1"}"#),
            (
                WriterState::ReplacementV1 {},
                r#"{"state":"replacement_v1"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&state).unwrap(), text);
            assert_eq!(serde_json::from_str::<WriterState>(text).unwrap(), state);
        }

        for (committable, text) in [
            (
                Committable::StorageApiAtLeastOnceV1 { rows: 7 },
                r#"{"committable":"storage_api_at_least_once_v1","rows":7}"#,
            ),
            (
                Committable::StorageApiExactlyOnceV1 {
                    table: "p.d.t".into(),
                    stream: "s".into(),
                    flush_offset: 6,
                    rows: 7,
                },
                r#"{"committable":"storage_api_exactly_once_v1","table":"p.d.t","stream":"s","flush_offset":6,"rows":7}"#,
            ),
            (
                Committable::StorageApiAtomicV1 {
                    table: "p.d.t".into(),
                    stream: "s".into(),
                    rows: 7,
                },
                r#"{"committable":"storage_api_atomic_v1","table":"p.d.t","stream":"s","rows":7}"#,
            ),
            (
                Committable::FileLoadsV1(FileLoads {
                    table: "p.d.t".into(),
                    partition: None,
                    disposition: "write_append".into(),
                    format: "avro".into(),
                    columns: vec!["n".into()],
                    files: vec![StagedFile {
                        uri: "gs://b/f".into(),
                        bytes: 10,
                        rows: 7,
                    }],
                }),
                r#"{"committable":"file_loads_v1","table":"p.d.t","partition":null,"disposition":"write_append","format":"avro","columns":["n"],"files":[{"uri":"gs://b/f","bytes":10,"rows":7}]}"#,
            ),
            (
                Committable::ReplacementV1(Replacement {
                    table: "p.d.t".into(),
                    partition: Some("20260101".into()),
                    id: "i".into(),
                    temporary: Some("p.d.x".into()),
                    prepared: vec![Committable::StorageApiAtLeastOnceV1 { rows: 7 }],
                }),
                r#"{"committable":"replacement_v1","table":"p.d.t","partition":"20260101","id":"i","temporary":"p.d.x","prepared":[{"committable":"storage_api_at_least_once_v1","rows":7}]}"#,
            ),
        ] {
            assert_eq!(committable.rows(), 7);
            assert_eq!(serde_json::to_string(&committable).unwrap(), text);
            let read = serde_json::from_str::<Committable>(text).unwrap();
            assert_eq!(read, committable);
        }

        let state = WriterState::StorageApiAtLeastOnceV1 {};
        let several = WriterState::DestinationsV1 {
            destinations: vec![DestinationState {
                table: "p.d.t".into(),
                state,
            }],
        };
        let text = r#"{"state":"destinations_v1","destinations":[{"table":"p.d.t","state":{"state":"storage_api_at_least_once_v1"}}]}"#;
        assert_eq!(serde_json::to_string(&several).unwrap(), text);
        assert_eq!(serde_json::from_str::<WriterState>(text).unwrap(), several);
    }
}
