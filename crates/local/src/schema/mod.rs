//! Table schemas: BigQuery's types, their REST form and their Arrow form.

mod arrow;
mod field;
mod json;
mod size;
mod validate;

pub use arrow::{absent, adapt_batch, arrow_field, arrow_schema};
pub use field::{Field, FieldType, Mode, RangeElement, TableSchema};
pub use size::{column_bytes, logical_bytes};
pub use validate::{MAX_COLUMNS, evolve_schema, validate_schema};
