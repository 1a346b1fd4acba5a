//! Meaning without protocol: what a query, a load or a restriction does to the store.

mod default;
pub mod functions;
pub mod load;
mod request;
pub mod restriction;
mod view;

pub use default::column_default;
pub use request::{
    DdlOutcome, DmlStats, QueryOutcome, QueryParameter, QueryRequest, StatementOutcome,
};
pub use view::view_schema;

/// Runs a script of GoogleSQL.
pub async fn execute(
    _service: &std::sync::Arc<crate::server::Service>,
    _request: QueryRequest,
) -> crate::error::Result<QueryOutcome> {
    Err(crate::error::ServiceError::unsupported("GoogleSQL"))
}
