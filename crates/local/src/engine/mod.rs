//! Meaning without protocol: what a query, a load or a restriction does to the store.

pub mod functions;
pub mod load;
mod request;
pub mod restriction;

pub use request::{
    DdlOutcome, DmlStats, QueryOutcome, QueryParameter, QueryRequest, StatementOutcome,
};

/// Runs a script of GoogleSQL.
pub async fn execute(
    _service: &std::sync::Arc<crate::server::Service>,
    _request: QueryRequest,
) -> crate::error::Result<QueryOutcome> {
    Err(crate::error::ServiceError::unsupported("GoogleSQL"))
}
