//! Reading a table: what to ask for ([`spec`]), the plan node ([`exec`]), one
//! execution of it with its session ([`execution`]) and one partition's share of
//! the streams ([`stream`]), read ahead of the engine ([`read_ahead`]). Filters that
//! the plan relies on and the restriction does not keep are evaluated here
//! ([`guard`]). Keys of
//! joins come late, while the query runs ([`dynamic`]); which of them are waited
//! for is decided over the whole plan ([`dynamic_plan`]), and so is whether a file is
//! read before a table that it is joined with ([`build_side`]).

mod align;
mod build_side;
mod dynamic;
mod dynamic_plan;
mod exec;
mod execution;
mod guard;
mod metrics;
mod prune;
mod read_ahead;
mod rounds;
mod snapshot;
mod spec;
mod stream;

pub(crate) use build_side::ReadFilesFirst;
pub(crate) use dynamic_plan::SettleLateFilters;
pub use exec::BigQueryScanExec;
pub(crate) use execution::Source;
pub(crate) use prune::absorb;
pub(crate) use rounds::Rounds;
pub(crate) use snapshot::{Snapshots, StatementId};
pub(crate) use spec::{Pushdown, ReadBy, ReadSpec, support};
