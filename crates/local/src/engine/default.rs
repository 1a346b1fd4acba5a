//! Default values of columns.

use std::sync::Arc;

use crate::error::{Result, ServiceError};
use crate::schema::Field;
use crate::server::Service;
use crate::value::build::Cell;

/// Evaluates the default of a column.
pub async fn column_default(_service: &Arc<Service>, field: &Field) -> Result<Cell> {
    Err(ServiceError::unsupported(format_args!(
        "The default value of column {}",
        field.name
    )))
}
