//! Meaning without protocol: what a query, a load or a restriction does to the store.

pub mod extract;
pub mod functions;
pub mod load;
mod query;
mod request;
mod reserved;
pub mod restriction;

pub use query::{
    check_syntax, column_default, column_defaults, execute, has_function, is_temporary, view_schema,
};
pub use request::{
    Applying, DdlOutcome, DmlStats, QueryOutcome, QueryParameter, QueryRequest, StatementOutcome,
};
