//! Read Google BigQuery tables from Apache DataFusion: Arrow in, Arrow out.
//!
//! The modules, each importing only those before it:
//!
//! - [`error`]: the one error type;
//! - [`options`]: the table of options, and what was said of them;
//! - [`auth`]: who requests are made as;
//! - [`types`]: BigQuery's types and their mappings;
//! - [`client`]: requests to the service, and what comes of them;

pub mod auth;
pub mod client;
pub mod error;
mod filter;
pub mod options;
pub mod types;

pub use error::{Error, ErrorKind, Result};
