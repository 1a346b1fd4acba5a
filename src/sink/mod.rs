//! Writing to a table.
//!
//! [`BigQuerySink`] is the protocol between an engine and this library: writers
//! take rows, a committer makes them count, and what is between the two can be
//! kept across a crash ([`protocol`]). [`builder`] checks a table and a schema
//! and makes the sink; [`fan_out`] gives a task's rows to the writers of their tables;
//! [`writer`] is what the writers of all methods have in common; [`default`] is the writer behind the write method
//! `storage_api_at_least_once`, [`batch`] turns its batches into requests, and
//! [`failure`] decides over rows that cannot be written. INSERT in SQL is the first
//! user of the protocol: [`exec`] has its plan nodes.

mod batch;
mod builder;
mod default;
mod exec;
mod failure;
mod fan_out;
mod metrics;
mod protocol;
mod writer;

pub use builder::BigQuerySinkBuilder;
pub use exec::{BigQueryCommitExec, BigQueryWriteExec};
pub use metrics::SinkCounters;
pub use protocol::{
    BigQuerySink, Committable, Committer, DestinationState, SinkWriter, WriterState,
};
