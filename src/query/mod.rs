//! Query jobs as sources of rows: queries that the user wrote, and SELECTs that
//! this library writes for what the Storage Read API cannot read (views,
//! external tables, wildcard tables).
//!
//! A job writes its result into a table, and the ordinary scan reads that.
//! Projection and conditions go into SQL that was written here; beside SQL that
//! the user wrote they go to the read session on the result.

mod exec;
mod job;
mod over_rest;
pub(crate) mod parameters;
mod provider;
mod statement;

pub use exec::BigQueryQueryExec;
pub(crate) use exec::{JobSource, QuerySource};
pub(crate) use job::{JobTerms, SharedRuns};
pub use provider::BigQueryQueryTable;
pub(crate) use provider::{QueryContext, of_results, partitions, statement};
pub(crate) use statement::Relation;
