//! Fields of STRUCT values in Arrow arrays.

use arrow::array::{Array, ArrayRef, BooleanArray, StructArray};
use arrow::compute::nullif;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// The field at `position` of structs: of a NULL struct it is NULL, whatever the field's
/// buffer holds.
pub(crate) fn field(structs: &StructArray, position: usize) -> Result<ArrayRef, ArrowError> {
    let field = structs.column(position);
    match structs.nulls() {
        Some(nulls) if *field.data_type() != DataType::Null => {
            nullif(field, &BooleanArray::new(!nulls.inner(), None))
        }
        _ => Ok(ArrayRef::clone(field)),
    }
}
