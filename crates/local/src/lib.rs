//! An embedded BigQuery: REST v2 and the Storage API on loopback sockets, in
//! memory, with no account and no network.
//!
//! | module | what |
//! |---|---|
//! | [`schema`] | BigQuery's types, their REST form and their Arrow form |
//! | [`store`] | datasets, tables, rows and their versions; no protocol |
//! | [`engine`] | what a query, a load or a restriction means; no protocol |
//! | [`error`] | errors in the service's words |
//! | [`jobs`] | queries, loads and copies: their states, statistics and results |
//! | [`value`] | text, JSON and Arrow forms of values |
//! | [`rest`] | REST v2 |
//! | [`grpc`] | the Storage API |
//! | [`faults`] | failures on purpose |
//! | [`gcs`] | the Cloud Storage API |
//! | [`quotas`] | what the service counts and limits |
//! | [`server`] | listeners |

mod creation_race;
pub mod engine;
pub mod error;
pub mod faults;
#[doc(hidden)]
pub mod fuzzing;
pub mod gcs;
pub mod grpc;
pub mod jobs;
pub mod quotas;
pub mod rest;
pub mod schema;
pub mod server;
pub mod store;
pub mod value;

pub use server::{Exposure, LocalBigQuery, LocalOptions, Realism, Service};

/// The Rust in the documentation compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/local-bigquery.md")]
struct Documentation;
