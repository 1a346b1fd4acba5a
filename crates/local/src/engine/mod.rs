//! Meaning without protocol: what a query, a load or a restriction does to the store.

pub mod functions;
mod request;
pub mod restriction;

pub use request::{
    DdlOutcome, DmlStats, QueryOutcome, QueryParameter, QueryRequest, StatementOutcome,
};
