//! The columns of a view.

use std::sync::Arc;

use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;
use crate::server::Service;

/// Plans a view's query and answers its columns.
pub async fn view_schema(
    _service: &Arc<Service>,
    _project: &str,
    _query: &str,
) -> Result<TableSchema> {
    Err(ServiceError::unsupported("A view"))
}
