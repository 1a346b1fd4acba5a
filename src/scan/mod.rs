//! Reading a table: what to ask for ([`spec`]), the plan node ([`exec`]), one
//! execution of it with its session ([`execution`]) and one partition's share of
//! the streams ([`stream`]).

mod align;
mod exec;
mod execution;
mod metrics;
mod prune;
mod snapshot;
mod spec;
mod stream;

pub use exec::BigQueryScanExec;
pub(crate) use execution::Source;
pub(crate) use snapshot::{Snapshots, StatementId};
pub(crate) use spec::{Pushdown, ReadSpec};
