//! Writing to a table.
//!
//! [`BigQuerySink`] is the protocol between an engine and this library: writers
//! take rows, a committer makes them count, and what is between the two can be
//! kept across a crash ([`protocol`]). [`builder`] checks a table and a schema
//! and makes the sink; [`fan_out`] gives a task's rows to the writers of their tables;
//! [`writer`] is what the writers of all methods have in common.
//!
//! [`default`], [`buffered`] and [`pending`] are the writers behind the write methods
//! `storage_api_at_least_once`, `storage_api_exactly_once` and `storage_api_atomic`,
//! [`load`] is that behind `file_loads`, [`overwrite`] puts rows in the place of
//! others, and [`commit`] makes rows count. [`intake`] and [`batch`] turn batches into
//! requests for the streams, [`created`] is what the latter two share, and
//! [`failure`] decides over rows that cannot be written. INSERT in SQL is the first
//! user of the protocol: [`exec`] has its plan nodes, [`handover`] and [`execution`] are
//! what they tell each other, [`periodic`] commits plans that never end, [`data_sink`] is
//! what takes the nodes' place where one writer is enough, [`statement`] what both share,
//! [`feed`] gives the writers their rows, [`numbered`] says which these are,
//! [`arrange`] decides how many writers there are, and [`checkpoint`] makes statements
//! repeatable.

mod arrange;
mod arrival;
mod batch;
mod budget;
mod buffered;
mod builder;
mod changes;
mod checkpoint;
mod commit;
mod created;
mod data_sink;
mod dead_letter;
mod default;
mod destination;
mod exec;
mod execution;
mod failure;
mod fan_out;
mod feed;
mod handover;
mod intake;
mod load;
mod metrics;
mod numbered;
mod overwrite;
mod pending;
mod periodic;
mod protocol;
mod route;
mod statement;
mod writer;

pub(crate) use arrange::ArrangeWriters;
pub(crate) use arrival::{checked_metadata, checked_type, checked_values};
pub use builder::BigQuerySinkBuilder;
pub(crate) use changes::{
    ChangedTable, Made, Places, PlannedChanges, Prepared, ReadyTable, Refused, RowChanges,
};
pub(crate) use checkpoint::Run;
pub use data_sink::BigQueryDataSink;
pub(crate) use destination::{new_columns, not_created};
pub use exec::{BigQueryCommitExec, BigQueryWriteExec, CommitTime};
pub use load::{LoadLimits, StagedFile};
pub use metrics::{CommitCounters, SinkCounters};
pub use overwrite::Replacement;
pub(crate) use protocol::PlannedChange;
pub use protocol::{
    BigQuerySink, Committable, Committer, DestinationState, FileLoads, SinkWriter, StreamPosition,
    WriterState,
};
pub use route::{DestinationResolver, Resolution};
