//! Meaning without protocol: what a query, a load or a restriction does to the store.

pub mod functions;
pub mod load;
mod query;
mod request;
mod reserved;
pub mod restriction;

pub use query::{Routines, column_default, execute, view_schema};
pub use request::{
    DdlOutcome, DmlStats, QueryOutcome, QueryParameter, QueryRequest, StatementOutcome,
};
