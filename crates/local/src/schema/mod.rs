//! Table schemas: BigQuery's types, their REST form and their Arrow form.

mod arrow;
mod field;
mod json;
mod size;

pub use arrow::{adapt_batch, arrow_field, arrow_schema};
pub use field::{Field, FieldType, Mode, RangeElement, TableSchema};
pub use size::{logical_bytes, logical_bytes_of};
