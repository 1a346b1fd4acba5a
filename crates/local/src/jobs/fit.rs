//! Giving rows the columns, modes and limits of the table they go to.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions, StructArray,
    new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field as ArrowField, Fields, SchemaRef};

use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, TableSchema};

/// Columns of `batch`, matched by name, in the Arrow form of `target`.
///
/// A column that `batch` lacks is NULL. A NULL in a REQUIRED field, a text or a
/// number beyond its field's parameters and a NULL element of an array are errors
/// that name the field.
pub fn fit_batch(
    batch: &RecordBatch,
    target: &TableSchema,
    arrow: &SchemaRef,
) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let columns = fit_fields(
        batch.schema_ref().fields(),
        batch.columns(),
        &target.fields,
        arrow.fields(),
        None,
        rows,
        "",
    )?;
    RecordBatch::try_new_with_options(
        Arc::clone(arrow),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
    .map_err(|e| ServiceError::internal(format!("fitted columns do not fit: {e}")))
}

fn fit_fields(
    from: &Fields,
    columns: &[ArrayRef],
    fields: &[Field],
    arrow: &Fields,
    parents: Option<&NullBuffer>,
    rows: usize,
    path: &str,
) -> Result<Vec<ArrayRef>> {
    fields
        .iter()
        .zip(arrow)
        .map(|(field, arrow)| {
            let name = format!("{path}{}", field.name);
            let found = from
                .iter()
                .position(|f| f.name().eq_ignore_ascii_case(&field.name));
            let array = match found {
                Some(i) => fit_array(&columns[i], field, arrow, &name)?,
                None => absent(field, arrow, rows),
            };
            if field.mode() == Mode::Required {
                require(&array, parents, &name)?;
                if parents.is_some() && array.null_count() > 0 {
                    return filled(&array, &name);
                }
            }
            Ok(array)
        })
        .collect()
}

/// Refuses a NULL that no NULL parent hides.
fn require(array: &ArrayRef, parents: Option<&NullBuffer>, name: &str) -> Result<()> {
    let Some(nulls) = array.logical_nulls().filter(|n| n.null_count() > 0) else {
        return Ok(());
    };
    let bad = (0..array.len())
        .find(|&row| nulls.is_null(row) && parents.is_none_or(|parents| parents.is_valid(row)));
    match bad {
        None => Ok(()),
        Some(row) => Err(ServiceError::invalid(format!(
            "Only optional fields can be set to NULL. Field: {name}; Row: {row}; Value: NULL"
        ))),
    }
}

/// A REQUIRED child has values even where its parent is NULL.
fn filled(array: &ArrayRef, name: &str) -> Result<ArrayRef> {
    let data = array.to_data().into_builder().nulls(None).build();
    data.map(arrow::array::make_array)
        .map_err(|e| ServiceError::internal(format!("field {name} behind NULL records: {e}")))
}

fn absent(field: &Field, arrow: &ArrowField, rows: usize) -> ArrayRef {
    match (field.mode(), arrow.data_type()) {
        (Mode::Repeated, DataType::List(item)) => Arc::new(ListArray::new(
            Arc::clone(item),
            OffsetBuffer::new_zeroed(rows),
            new_null_array(item.data_type(), 0),
            None,
        )),
        (_, data_type) => new_null_array(data_type, rows),
    }
}

fn fit_array(array: &ArrayRef, field: &Field, arrow: &ArrowField, name: &str) -> Result<ArrayRef> {
    if field.mode() != Mode::Repeated {
        return fit_value(array, field, arrow.data_type(), name);
    }
    let (DataType::List(_), DataType::List(item)) = (array.data_type(), arrow.data_type()) else {
        return Err(unfit(array.data_type(), field, name));
    };
    let list = array.as_list::<i32>();
    let (offsets, values) = without_null_lists(list)?;
    if values.logical_nulls().is_some_and(|n| n.null_count() > 0) {
        return Err(ServiceError::invalid(format!(
            "Array elements cannot be NULL. Field: {name}"
        )));
    }
    let values = fit_value(&values, field, item.data_type(), name)?;
    ListArray::try_new(Arc::clone(item), offsets, values, None)
        .map(|a| Arc::new(a) as ArrayRef)
        .map_err(|e| ServiceError::internal(format!("fitted array {name}: {e}")))
}

/// Offsets from zero and exactly the values between them; a NULL list is empty.
fn without_null_lists(list: &ListArray) -> Result<(OffsetBuffer<i32>, ArrayRef)> {
    if list.null_count() == 0 {
        let first = list.value_offsets().first().copied().unwrap_or(0);
        let last = list.value_offsets().last().copied().unwrap_or(0);
        let (from, to) = (index(first), index(last));
        let values = list.values().slice(from, to - from);
        if first == 0 {
            return Ok((list.offsets().clone(), values));
        }
        let lengths = list.offsets().lengths();
        return Ok((OffsetBuffer::from_lengths(lengths), values));
    }
    let lengths: Vec<usize> = (0..list.len())
        .map(|i| {
            if list.is_null(i) {
                0
            } else {
                index(list.value_length(i))
            }
        })
        .collect();
    let mut kept = Vec::new();
    for (i, length) in lengths.iter().enumerate() {
        let start = index(list.value_offsets()[i]);
        kept.extend((start..start + length).map(|at| u32::try_from(at).unwrap_or(u32::MAX)));
    }
    let kept = arrow::array::UInt32Array::from(kept);
    let values = arrow::compute::take(list.values(), &kept, None)
        .map_err(|e| ServiceError::internal(format!("elements of an array: {e}")))?;
    Ok((OffsetBuffer::from_lengths(lengths), values))
}

fn index(offset: i32) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

fn fit_value(array: &ArrayRef, field: &Field, to: &DataType, name: &str) -> Result<ArrayRef> {
    let fitted = match (&field.field_type, to) {
        (FieldType::Struct(fields), DataType::Struct(arrow)) => {
            let DataType::Struct(from) = array.data_type() else {
                return Err(unfit(array.data_type(), field, name));
            };
            let array = array.as_struct();
            let columns = fit_fields(
                from,
                array.columns(),
                fields,
                arrow,
                Some(array.nulls().unwrap_or(&NullBuffer::new_valid(array.len()))),
                array.len(),
                &format!("{name}."),
            )?;
            StructArray::try_new_with_length(
                arrow.clone(),
                columns,
                array.nulls().cloned(),
                array.len(),
            )
            .map(|a| Arc::new(a) as ArrayRef)
            .map_err(|e| ServiceError::internal(format!("fitted record {name}: {e}")))?
        }
        _ if array.data_type() == to => Arc::clone(array),
        _ => cast(array, field, to, name)?,
    };
    check_length(&fitted, field, name)?;
    Ok(fitted)
}

fn cast(array: &ArrayRef, field: &Field, to: &DataType, name: &str) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &options).map_err(|e| match field.field_type {
        FieldType::Numeric | FieldType::Bignumeric => ServiceError::invalid(format!(
            "Field {name}: a value is out of range of {}",
            field.element_or_self().sql_type()
        )),
        _ => ServiceError::invalid(format!("Field {name}: {e}")),
    })
}

fn unfit(from: &DataType, field: &Field, name: &str) -> ServiceError {
    ServiceError::invalid(format!(
        "Field {name} of type {} cannot hold {from}",
        field.sql_type()
    ))
}

/// Refuses texts beyond `STRING(n)` and bytes beyond `BYTES(n)`.
fn check_length(array: &ArrayRef, field: &Field, name: &str) -> Result<()> {
    let Some(limit) = field.max_length.and_then(|n| usize::try_from(n).ok()) else {
        return Ok(());
    };
    let longest = match array.data_type() {
        DataType::Utf8 => array
            .as_string::<i32>()
            .iter()
            .flatten()
            .map(|s| s.chars().count())
            .max(),
        DataType::Binary => array
            .as_binary::<i32>()
            .iter()
            .flatten()
            .map(<[u8]>::len)
            .max(),
        _ => None,
    };
    match longest.filter(|length| *length > limit) {
        None => Ok(()),
        Some(length) => Err(ServiceError::invalid(format!(
            "Field {name}: {} has maximum length {limit} but got a value with length {length}",
            field.element_or_self().sql_type()
        ))),
    }
}

trait ElementOrSelf {
    fn element_or_self(&self) -> Field;
}

impl ElementOrSelf for Field {
    fn element_or_self(&self) -> Field {
        if self.mode() == Mode::Repeated {
            self.element()
        } else {
            self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use serde_json::json;

    use super::*;
    use crate::schema::arrow_schema;

    fn fit(columns: Vec<(&str, ArrayRef)>, target: serde_json::Value) -> Result<RecordBatch> {
        let target: TableSchema = serde_json::from_value(json!({"fields": target})).unwrap();
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(n, c)| (n, c, true)),
        )
        .unwrap();
        fit_batch(&batch, &target, &arrow_schema(&target))
    }

    #[test]
    fn columns_match_by_name_and_missing_ones_are_null_or_empty() {
        let fitted = fit(
            vec![("B", Arc::new(Int64Array::from(vec![1, 2])))],
            json!([
                {"name": "a", "type": "STRING"},
                {"name": "b", "type": "INTEGER", "mode": "REQUIRED"},
                {"name": "l", "type": "DATE", "mode": "REPEATED"}
            ]),
        )
        .unwrap();
        assert_eq!(fitted.column(0).null_count(), 2);
        assert_eq!(fitted.column(1).as_primitive::<Int64Type>().value(1), 2);
        assert_eq!(fitted.column(2).null_count(), 0);
    }

    #[test]
    fn required_fields_are_required_unless_their_record_is_null() {
        let required = json!([{"name": "a", "type": "INTEGER", "mode": "REQUIRED"}]);
        let error = fit(
            vec![("a", Arc::new(Int64Array::from(vec![Some(1), None])))],
            required.clone(),
        )
        .unwrap_err();
        assert!(error.message.contains("Field: a; Row: 1"), "{error}");
        assert!(
            fit(
                vec![("x", Arc::new(Int64Array::from(vec![1])))],
                required.clone()
            )
            .is_err()
        );

        let record = |nulls: Vec<bool>| -> ArrayRef {
            let child: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
            Arc::new(StructArray::new(
                Fields::from(vec![ArrowField::new("a", DataType::Int64, true)]),
                vec![child],
                Some(NullBuffer::from(nulls)),
            ))
        };
        let target = json!([{"name": "s", "type": "RECORD", "fields": required}]);
        let hidden = fit(vec![("s", record(vec![true, false]))], target.clone()).unwrap();
        assert_eq!(hidden.column(0).null_count(), 1);
        let seen = fit(vec![("s", record(vec![true, true]))], target).unwrap_err();
        assert!(seen.message.contains("Field: s.a; Row: 1"), "{seen}");
    }

    #[test]
    fn null_lists_are_empty_and_null_elements_are_refused() {
        let target = json!([{"name": "l", "type": "INTEGER", "mode": "REPEATED"}]);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
            Some(vec![Some(1)]),
            None,
            Some(vec![Some(2), Some(3)]),
        ]);
        let fitted = fit(vec![("l", Arc::new(lists))], target.clone()).unwrap();
        let list = fitted.column(0).as_list::<i32>();
        assert_eq!(list.null_count(), 0);
        assert_eq!(list.value_offsets(), [0, 1, 1, 3]);
        let sliced = fitted.slice(2, 1);
        let again = fit(vec![("l", Arc::clone(sliced.column(0)))], target.clone()).unwrap();
        assert_eq!(again.column(0).as_list::<i32>().value_offsets(), [0, 2]);

        let nulls = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![None])]);
        let error = fit(vec![("l", Arc::new(nulls))], target).unwrap_err();
        assert!(error.message.contains("Field: l"), "{error}");
    }

    #[test]
    fn parameters_are_limits() {
        let text = json!([{"name": "s", "type": "STRING", "maxLength": "3"}]);
        assert!(
            fit(
                vec![("s", Arc::new(StringArray::from(vec!["äöü"])))],
                text.clone()
            )
            .is_ok()
        );
        let error = fit(
            vec![("s", Arc::new(StringArray::from(vec!["abcde"])))],
            text,
        )
        .unwrap_err();
        assert_eq!(
            error.message,
            "Field s: STRING(3) has maximum length 3 but got a value with length 5"
        );
        let number = json!([{"name": "n", "type": "NUMERIC", "precision": "4", "scale": "2"}]);
        let decimal = |v: i128| -> ArrayRef {
            Arc::new(
                Decimal128Array::from(vec![v])
                    .with_precision_and_scale(38, 9)
                    .unwrap(),
            )
        };
        let fitted = fit(vec![("n", decimal(1_235_000_000))], number.clone()).unwrap();
        assert_eq!(
            fitted
                .column(0)
                .as_primitive::<arrow::datatypes::Decimal128Type>()
                .value(0),
            124
        );
        let error = fit(vec![("n", decimal(1_235_000_000_000))], number).unwrap_err();
        assert!(error.message.contains("NUMERIC(4, 2)"), "{error}");
    }
}
