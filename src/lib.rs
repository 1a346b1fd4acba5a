//! Read Google BigQuery tables from Apache DataFusion: Arrow in, Arrow out.
//!
//! The modules, each importing only those before it:
//!
//! - [`error`]: the one error type;
//! - [`options`]: the table of options, and what was said of them;
//! - [`types`]: BigQuery's types and their mappings;

pub mod error;
mod filter;
pub mod options;
pub mod types;

pub use error::{Error, ErrorKind, Result};
