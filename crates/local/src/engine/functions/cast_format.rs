//! CAST … FORMAT.

use super::civil::Zone;
use super::types::SqlType;
use super::value::{Answer, Value};
use crate::error::ServiceError;

/// Converts one value under a FORMAT clause.
pub(crate) fn cast_with_format(
    _value: &Value<'_>,
    from: &SqlType,
    to: &SqlType,
    _format: &str,
    _zone: Zone,
) -> Answer {
    Err(ServiceError::unsupported(format!(
        "CAST({from} AS {to} FORMAT …)"
    )))
}
