//! From what an expression computes to what a table or a result holds.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options, take};
use arrow::datatypes::{DataType, Field as ArrowField, SchemaRef, UInt32Type};

use crate::error::{Result, ServiceError};

/// The rows of `columns` under `schema`, which differs from them in names,
/// metadata and in that its arrays are never NULL and hold no NULL.
pub(super) fn to_batch(
    columns: &[ArrayRef],
    rows: usize,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let columns = columns
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| to_field(column, field))
        .collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
    .map_err(|e| ServiceError::internal(format!("rows do not fit their schema: {e}")))
}

/// `array` in the form of `field`.
pub(super) fn to_field(array: &ArrayRef, field: &ArrowField) -> Result<ArrayRef> {
    let misfit = |e: arrow::error::ArrowError| {
        ServiceError::internal(format!("column {} does not fit: {e}", field.name()))
    };
    match (array.data_type(), field.data_type()) {
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let list = if list.null_count() > 0 {
                without_null_lists(list)?
            } else {
                list.clone()
            };
            let used = list.offsets();
            let (first, last) = (used[0] as usize, used[used.len() - 1] as usize);
            let values = list.values().slice(first, last - first);
            if values.logical_null_count() > 0 {
                return Err(ServiceError::invalid_query(format!(
                    "Array cannot have a null element; error in writing field {}",
                    field.name()
                )));
            }
            let offsets =
                OffsetBuffer::new(used.iter().map(|o| o - used[0]).collect::<Vec<_>>().into());
            let child = ArrowField::new(field.name(), item.data_type().clone(), true);
            let values = to_field(&values, &child)?;
            Ok(Arc::new(
                ListArray::try_new(Arc::clone(item), offsets, values, None).map_err(misfit)?,
            ))
        }
        (DataType::Null, DataType::List(item)) => Ok(Arc::new(ListArray::new(
            Arc::clone(item),
            OffsetBuffer::new_zeroed(array.len()),
            arrow::array::new_null_array(item.data_type(), 0),
            None,
        ))),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let from = array.as_struct();
            let columns = from
                .columns()
                .iter()
                .zip(fields)
                .map(|(c, f)| to_field(c, f))
                .collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(
                StructArray::try_new_with_length(
                    fields.clone(),
                    columns,
                    from.nulls().cloned(),
                    from.len(),
                )
                .map_err(misfit)?,
            ))
        }
        (from, to) if from == to => Ok(Arc::clone(array)),
        // Decimals of a narrower type: what does not fit is an error, not NULL.
        (_, to) => cast_with_options(
            array,
            to,
            &CastOptions {
                safe: false,
                ..CastOptions::default()
            },
        )
        .map_err(|e| {
            ServiceError::invalid_query(format!("Invalid value in field {}: {e}", field.name()))
        }),
    }
}

/// The same lists with every NULL one empty.
fn without_null_lists(list: &ListArray) -> Result<ListArray> {
    let nulls = list
        .nulls()
        .cloned()
        .unwrap_or_else(|| NullBuffer::new_valid(list.len()));
    let mut offsets = vec![0i32];
    let mut indices = Vec::new();
    for row in 0..list.len() {
        if nulls.is_valid(row) {
            indices.extend(
                (list.value_offsets()[row]..list.value_offsets()[row + 1]).map(|i| i as u32),
            );
        }
        offsets.push(indices.len() as i32);
    }
    let indices = arrow::array::PrimitiveArray::<UInt32Type>::from(indices);
    let values = take(list.values(), &indices, None)
        .map_err(|e| ServiceError::internal(format!("array elements cannot be copied: {e}")))?;
    let DataType::List(item) = list.data_type() else {
        return Err(ServiceError::internal("a list has a list type"));
    };
    ListArray::try_new(
        Arc::clone(item),
        OffsetBuffer::new(offsets.into()),
        values,
        None,
    )
    .map_err(|e| ServiceError::internal(format!("array cannot be built: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, FieldType, Mode, arrow_field};
    use arrow::array::{
        Int64Array,
        builder::{Int64Builder, ListBuilder},
    };

    #[test]
    fn null_arrays_are_empty_and_null_elements_refused() {
        let field = arrow_field(&Field::new("a", FieldType::Int64).with_mode(Mode::Repeated));
        let mut lists = ListBuilder::new(Int64Builder::new());
        lists.append_value([Some(1), Some(2)]);
        lists.append_null();
        let array: ArrayRef = Arc::new(lists.finish());
        let out = to_field(&array, &field).unwrap();
        assert_eq!(out.null_count(), 0);
        assert_eq!(out.as_list::<i32>().value(1).len(), 0);
        assert_eq!(
            out.as_list::<i32>().value(0).as_ref(),
            &Int64Array::from(vec![1, 2]) as &dyn Array
        );
        let mut lists = ListBuilder::new(Int64Builder::new());
        lists.append_value([Some(1), None]);
        let array: ArrayRef = Arc::new(lists.finish());
        assert_eq!(
            to_field(&array, &field).unwrap_err().message,
            "Array cannot have a null element; error in writing field a"
        );
    }
}
