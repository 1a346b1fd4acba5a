//! Read and write Google BigQuery tables from Apache DataFusion: Arrow in, Arrow out.
//!
//! The modules, each importing only those before it:
//!
//! - [`error`]: the one error type;
//! - [`options`]: the table of options, and what was said of them;
//! - [`auth`]: who requests are made as;
//! - [`types`]: BigQuery's types and their mappings;
//! - [`client`]: requests to the service, and what comes of them;
//! - `filter`: predicates as row restrictions;
//! - [`scan`]: the plan node that reads a table;
//! - [`sink`]: writers, their commit, and the plan nodes of INSERT;
//! - [`cdc`]: changes by key, and their order;
//! - [`query`]: the plan node that runs a query job and reads its result;
//! - [`table`]: tables as DataFusion sees them, and CREATE EXTERNAL TABLE;
//! - [`catalog`]: a project as a catalog;
//! - [`session`]: one call that registers everything.

pub mod auth;
pub mod catalog;
pub mod cdc;
pub mod client;
pub mod error;
mod filter;
pub mod options;
mod plan_node;
pub mod query;
pub mod scan;
pub mod session;
pub mod sink;
pub mod table;
pub mod types;

pub use catalog::BigQueryCatalog;
pub use client::Client;
pub use error::{Error, ErrorKind, Result};
pub use options::{BigQueryOptions, RawOptions};
pub use query::BigQueryQueryExec;
pub use scan::BigQueryScanExec;
pub use session::with_bigquery;
pub use sink::BigQuerySink;
pub use table::{BigQueryTable, BigQueryTableFactory};
pub use types::TableRef;

/// The Rust in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
