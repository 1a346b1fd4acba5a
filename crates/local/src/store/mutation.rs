//! The steps that changes are made of.

use super::capture::ChangedRows;
use super::dataset::Dataset;
use super::job_record::JobRecord;
use super::reference::{DatasetRef, JobRef, TableRef};
use super::routine::{Routine, RoutineRef};
use super::segment::Segment;
use super::table::TableMeta;
use super::write_stream::StreamMeta;

/// One step of a change. A change is a list of these, applied as a whole.
#[derive(Debug)]
pub enum Mutation {
    /// Creates a dataset or replaces its metadata.
    PutDataset(DatasetRef, Dataset),
    /// Removes a dataset, all its tables and all its routines.
    DropDataset(DatasetRef),
    /// Creates a table or replaces its metadata; rows stay.
    PutTable(TableRef, Box<TableMeta>),
    /// Removes a table.
    DropTable(TableRef),
    /// Adds rows. They must have the Arrow form of the table's schema.
    Append(TableRef, Vec<Segment>),
    /// Replaces all rows, under the schema that the table has then.
    Replace(TableRef, Vec<Segment>),
    /// Puts other rows in the place of those of some live segments, which
    /// [`Table::live_ids`](super::Table::live_ids) names; the others stay.
    Rewrite(TableRef, Vec<(u64, Vec<Segment>)>),
    /// Replaces the rows of some ingestion-time partitions (starts in
    /// microseconds since the epoch).
    ReplacePartitions(TableRef, Vec<i64>, Vec<Segment>),
    /// Changes rows by their key, as [`Table::changes`](super::Table::changes) says.
    Change(TableRef, Box<ChangedRows>),
    /// Forgets that rows were changed by key, and in which order.
    ForgetChanges(TableRef),
    /// Forgets rows that were gone at a commit time already: they cannot be read
    /// as of an earlier time any more.
    Forget(TableRef, i64),
    /// Puts one segment in the place of several live ones that follow each other
    /// and hold the same rows; what was visible when stays as it is.
    Compact(TableRef, Vec<u64>, Segment),
    /// Creates a routine or replaces it.
    PutRoutine(RoutineRef, Box<Routine>),
    /// Removes a routine.
    DropRoutine(RoutineRef),
    /// Keeps what is known of a job. A record that says the job was
    /// [applied](super::JobStage::Applied) makes the whole change fail when the job
    /// is not there or done already.
    PutJob(JobRef, JobRecord),
    /// Forgets a job.
    DropJob(JobRef),
    /// Creates a write stream or replaces its state; what it holds stays.
    PutStream(String, StreamMeta),
    /// Puts rows in the place of so many segments that a write stream holds, from a
    /// position on.
    SpliceStream(String, usize, usize, Vec<Segment>),
    /// Forgets a write stream and what it holds.
    DropStream(String),
}

impl Mutation {
    /// The segments that the step adds.
    pub(super) fn segments_mut(&mut self) -> Vec<&mut Vec<Segment>> {
        match self {
            Mutation::Append(_, segments)
            | Mutation::Replace(_, segments)
            | Mutation::ReplacePartitions(_, _, segments)
            | Mutation::SpliceStream(_, _, _, segments) => vec![segments],
            Mutation::Rewrite(_, parts) => parts.iter_mut().map(|(_, segments)| segments).collect(),
            Mutation::Change(_, changed) => vec![&mut changed.rows, &mut changed.log],
            Mutation::PutDataset(..)
            | Mutation::DropDataset(_)
            | Mutation::PutTable(..)
            | Mutation::DropTable(_)
            | Mutation::ForgetChanges(_)
            | Mutation::Forget(..)
            | Mutation::Compact(..)
            | Mutation::PutRoutine(..)
            | Mutation::DropRoutine(_)
            | Mutation::PutJob(..)
            | Mutation::DropJob(_)
            | Mutation::PutStream(..)
            | Mutation::DropStream(_) => Vec::new(),
        }
    }
}
