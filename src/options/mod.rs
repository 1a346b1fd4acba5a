//! Options: said in SQL, in Rust, in the session or on the command line, and
//! checked in one place.
//!
//! [`registry`] has a row for each option. [`RawOptions`] holds what was said,
//! [`Options`] what it means after every check, and [`BigQueryOptions`] puts
//! session defaults behind `SET bigquery.<name> = …`.

mod cdc;
mod endpoint;
mod failure;
mod file_loads;
mod raw;
pub mod registry;
mod resolved;
mod rows;
mod set;
mod sink;
mod stream;
mod stream_rows;
mod suggest;
mod table_create;
mod unbounded;
mod values;

pub use cdc::{CdcOptions, ChangeSourceOptions, Staleness, TableReconciliation};
pub use endpoint::EndpointUrl;
pub use failure::{DeadLetterTarget, FailureOptions, FailurePolicy, Outstanding};
pub use file_loads::{
    FileLoadOptions, LoadDisposition, ReconcileOptions, StagedFiles, StagingCompression,
    StagingFormat, StagingPath,
};
pub use raw::RawOptions;
pub use resolved::{
    Compression, ConnectionOptions, CredentialsOptions, CredentialsSource, Executables, Options,
    QueryOptions, ScanOptions, TableOptions, TimestampPrecision,
};
pub use set::BigQueryOptions;
pub use sink::{
    AppendFormat, ConnectionCounts, CreateDisposition, DestinationOptions, MissingValue,
    PropagationOptions, RunOptions, SchemaUpdateOptions, SinkOptions, WriteEffect, WriteMethod,
};
pub use stream::{MAX_APPEND_REQUEST_BYTES, StreamOptions};
pub use table_create::{NewPartitioning, PartitionUnit, TableCreateOptions};
