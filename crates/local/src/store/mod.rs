//! State: datasets, tables and their rows, with every version kept for time travel;
//! routines; what is known of jobs.
//!
//! Nothing here knows a protocol. A change is a list of [`Mutation`]s that one
//! closure computes under the writer's lock, so that checks and changes are one
//! step, readers see all of it or nothing, and a journal can write it as one unit.

mod capture;
mod commit;
mod compaction;
mod dataset;
mod disk;
mod job_record;
mod life;
mod mutation;
mod partition;
mod partition_rows;
mod reference;
mod required_filter;
mod routine;
mod segment;
mod segment_writer;
mod snapshot;
mod state;
mod table;
mod write_stream;
mod zones;

pub use capture::{Changes, Sequence};
pub use commit::{Store, StoreOptions};
pub use dataset::{Dataset, fresh_etag};
pub(crate) use disk::{Journal, blocking, framed, sync_directory};
pub use job_record::{JobRecord, JobStage};
pub use mutation::Mutation;
pub use partition::{Granularity, Partition, Partitioning};
pub use partition_rows::Rows;
pub use reference::{DatasetRef, JobRef, TableRef};
pub use required_filter::RequiredFilter;
pub use routine::{Routine, RoutineKind, RoutineRef};
pub use segment::{Segment, SegmentReader};
pub use segment_writer::SegmentWriter;
pub use snapshot::Snapshot;
pub use state::{State, micros_now, millis_now};
pub use table::{
    ClusteringSpec, RangePartitioning, Table, TableKind, TableMeta, TimePartitioning, View,
};
pub use write_stream::{StreamKind, StreamMeta, WriteStream};
pub use zones::{Zone, ordinal};

#[cfg(test)]
mod tests;
