//! Meaning without protocol: what a query, a load or a restriction does to the store.

mod default;
pub mod functions;
mod request;
pub mod restriction;
mod view;

pub use default::column_default;
pub use request::{
    DdlOutcome, DmlStats, QueryOutcome, QueryParameter, QueryRequest, StatementOutcome,
};
pub use view::view_schema;
