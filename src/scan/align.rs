//! Columns as they arrived, as columns of the plan.
//!
//! The plan's schema comes from `tables.get`, the batches' from the read
//! session. Columns are matched by name. The two may differ in field metadata
//! and in nullability inside nested types, which Arrow counts as different
//! types although the buffers are the same; fields of a struct that the plan does
//! not have are left out; a different type proper means that the table changed in
//! between.
//!
//! Fields inside a NULL struct are made NULL. In Arrow they may hold anything,
//! and the engine takes them out of the struct without looking at it, while
//! BigQuery says that a field of NULL is NULL.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, RecordBatch, RecordBatchOptions, StructArray,
};
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::error::{Error, ErrorKind, Result};

/// Which columns of the session's batches make the plan's, found once.
#[derive(Debug)]
pub(crate) struct Alignment {
    schema: SchemaRef,
    /// Positions in the session's schema, in the plan's order.
    positions: Vec<usize>,
}

impl Alignment {
    /// Matches the plan's columns with the session's.
    ///
    /// # Errors
    /// [`ErrorKind::FailedPrecondition`] naming the column that is missing or
    /// has another type.
    pub(crate) fn new(plan: &SchemaRef, session: &Schema) -> Result<Self> {
        let by_name: HashMap<&str, (usize, &Field)> = session
            .fields()
            .iter()
            .enumerate()
            .map(|(position, field)| (field.name().as_str(), (position, field.as_ref())))
            .collect();
        let mut positions = Vec::with_capacity(plan.fields().len());
        for field in plan.fields() {
            let Some(&(position, found)) = by_name.get(field.name().as_str()) else {
                return Err(changed(field.name(), "is gone"));
            };
            if !same_layout(found.data_type(), field.data_type()) {
                let now = format!("is now {} and was {}", found.data_type(), field.data_type());
                return Err(changed(field.name(), &now));
            }
            positions.push(position);
        }
        Ok(Self {
            schema: Arc::clone(plan),
            positions,
        })
    }

    /// The plan's columns of `batch`.
    ///
    /// # Errors
    /// [`ErrorKind::Data`] when the batch does not have the session's schema, or
    /// has a NULL where the table said that there is none.
    pub(crate) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.positions.len());
        for (position, field) in self.positions.iter().zip(self.schema.fields()) {
            let column = batch.columns().get(*position).ok_or_else(|| {
                Error::data(format!("a batch lacks the column '{}'", field.name()))
            })?;
            columns.push(masked(&relabel(column, field.data_type())?)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(
            |error| {
                Error::data(format!("a batch does not fit the table's columns: {error}"))
                    .with_source(error)
            },
        )
    }
}

/// That a column is not what it was when the query was planned.
pub(super) fn changed(column: &str, how: &str) -> Error {
    Error::new(
        ErrorKind::FailedPrecondition,
        format!(
            "column '{column}' {how}: the table changed after the query was planned, run it again \
             (and declare the table again, if it was declared before the change)"
        ),
    )
}

/// Whether values of one type can be relabelled as the other: fields of structs are
/// found by name.
fn same_layout(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Struct(from), DataType::Struct(to)) => to.iter().all(|to| {
            let found = from.find(to.name());
            found.is_some_and(|(_, from)| same_layout(from.data_type(), to.data_type()))
        }),
        (DataType::List(from), DataType::List(to)) => same_layout(from.data_type(), to.data_type()),
        (from, to) => from == to,
    }
}

/// The same buffers under another type of the same layout, or of some fields of it.
fn relabel(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let failed = |error| {
        Error::data(format!(
            "a nested column does not fit its type {to}: {error}"
        ))
        .with_source(error)
    };
    match (array.data_type(), to) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let array = array.as_struct();
            let children = fields
                .iter()
                .map(|field| match array.column_by_name(field.name()) {
                    Some(child) => relabel(child, field.data_type()),
                    None => Err(Error::data(format!(
                        "a nested column lacks the field '{}'",
                        field.name()
                    ))),
                })
                .collect::<Result<Vec<_>>>()?;
            StructArray::try_new_with_length(
                fields.clone(),
                children,
                array.nulls().cloned(),
                array.len(),
            )
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(failed)
        }
        (DataType::List(_), DataType::List(field)) => {
            let array = array.as_list::<i32>();
            let values = relabel(array.values(), field.data_type())?;
            ListArray::try_new(
                Arc::clone(field),
                array.offsets().clone(),
                values,
                array.nulls().cloned(),
            )
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(failed)
        }
        (from, to) => Err(Error::data(format!("a column of type {from} came as {to}"))),
    }
}

/// The array with NULL wherever a struct around a value is.
fn masked(array: &ArrayRef) -> Result<ArrayRef> {
    let failed =
        |error| Error::data(format!("NULLs of a nested column: {error}")).with_source(error);
    match array.data_type() {
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let outside = array
                .nulls()
                .filter(|nulls| nulls.null_count() > 0)
                .map(|nulls| BooleanArray::new(!nulls.inner(), None));
            let children = array
                .columns()
                .iter()
                .map(|child| match &outside {
                    Some(outside) => masked(&nullif(child, outside).map_err(failed)?),
                    None => masked(child),
                })
                .collect::<Result<Vec<_>>>()?;
            StructArray::try_new_with_length(
                fields.clone(),
                children,
                array.nulls().cloned(),
                array.len(),
            )
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(failed)
        }
        DataType::List(field) if field.data_type().is_nested() => {
            let array = array.as_list::<i32>();
            ListArray::try_new(
                Arc::clone(field),
                array.offsets().clone(),
                masked(array.values())?,
                array.nulls().cloned(),
            )
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(failed)
        }
        _ => Ok(Arc::clone(array)),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::arrow::buffer::NullBuffer;
    use datafusion::arrow::datatypes::{Fields, Int64Type};

    use super::*;

    fn schema(fields: Vec<Field>) -> SchemaRef {
        Arc::new(Schema::new(fields))
    }

    #[test]
    fn c01_columns_are_matched_by_name() {
        let session = schema(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
        ]);
        let plan = schema(vec![
            Field::new("b", DataType::Utf8, true),
            Field::new("a", DataType::Int64, true),
        ]);
        let batch = RecordBatch::try_new(
            Arc::clone(&session),
            vec![
                Arc::new(Int64Array::from(vec![1])),
                Arc::new(StringArray::from(vec!["x"])),
            ],
        )
        .unwrap();
        let aligned = Alignment::new(&plan, &session)
            .unwrap()
            .apply(&batch)
            .unwrap();
        assert_eq!(aligned.schema(), plan);
        assert_eq!(aligned.column(0).as_string::<i32>().value(0), "x");
    }

    #[test]
    fn u12_ten_thousand_columns_are_matched() {
        let fields = |order: &mut dyn Iterator<Item = usize>| -> SchemaRef {
            let field = |n| Field::new(format!("c{n}"), DataType::Int64, true);
            schema(order.map(field).collect())
        };
        let session = fields(&mut (0..10_000));
        let plan = fields(&mut (0..10_000).rev());
        let alignment = Alignment::new(&plan, &session).unwrap();
        assert_eq!(alignment.positions[0], 9_999);
        assert_eq!(alignment.positions[9_999], 0);
    }

    #[test]
    fn no_columns_keep_the_number_of_rows() {
        let session = schema(vec![Field::new("a", DataType::Int64, true)]);
        let batch = RecordBatch::try_new(
            Arc::clone(&session),
            vec![Arc::new(Int64Array::from(vec![1, 2, 3]))],
        )
        .unwrap();
        let plan = schema(vec![]);
        let aligned = Alignment::new(&plan, &session)
            .unwrap()
            .apply(&batch)
            .unwrap();
        assert_eq!((aligned.num_rows(), aligned.num_columns()), (3, 0));
    }

    #[test]
    fn nested_labels_are_the_plans() {
        let inner = |nullable, metadata: &[(&str, &str)]| {
            let metadata: HashMap<String, String> = metadata
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect();
            Fields::from(vec![
                Field::new("x", DataType::Int64, nullable).with_metadata(metadata),
            ])
        };
        let session = schema(vec![Field::new(
            "s",
            DataType::Struct(inner(true, &[])),
            true,
        )]);
        let planned = inner(false, &[("k", "v")]);
        let plan = schema(vec![Field::new(
            "s",
            DataType::Struct(planned.clone()),
            true,
        )]);
        let values = StructArray::new(
            inner(true, &[]),
            vec![Arc::new(Int64Array::from(vec![7]))],
            None,
        );
        let batch = RecordBatch::try_new(Arc::clone(&session), vec![Arc::new(values)]).unwrap();
        let aligned = Alignment::new(&plan, &session)
            .unwrap()
            .apply(&batch)
            .unwrap();
        assert_eq!(aligned.column(0).data_type(), &DataType::Struct(planned));
    }

    #[test]
    fn fields_of_a_null_struct_are_null() {
        let inner = Fields::from(vec![Field::new("x", DataType::Int64, false)]);
        let outer = Fields::from(vec![
            Field::new("in", DataType::Struct(inner.clone()), true),
            Field::new("list", DataType::new_list(DataType::Int64, true), false),
        ]);
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1)]),
            Some(vec![]),
            Some(vec![Some(3)]),
        ]);
        let present = |bits: Vec<bool>| Some(NullBuffer::from(bits));
        let x = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let nested = StructArray::new(inner, vec![x], present(vec![true, false, true]));
        let values = StructArray::new(
            outer.clone(),
            vec![Arc::new(nested), Arc::new(list)],
            present(vec![false, true, true]),
        );
        let schema = schema(vec![Field::new("s", DataType::Struct(outer), true)]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).unwrap();
        let aligned = Alignment::new(&schema, &schema)
            .unwrap()
            .apply(&batch)
            .unwrap();
        let values = aligned.column(0).as_struct();
        let present = |array: &dyn Array| (0..3).map(|at| array.is_valid(at)).collect::<Vec<_>>();
        assert_eq!(present(values), [false, true, true]);
        assert_eq!(present(values.column(0)), [false, false, true]);
        let x = values.column(0).as_struct().column(0);
        assert_eq!(present(x), [false, false, true]);
        assert_eq!(x.as_primitive::<Int64Type>().value(2), 3);
        assert_eq!(present(values.column(1)), [false, true, true]);
    }

    #[test]
    fn e06_a_changed_table_is_named() {
        let plan = schema(vec![Field::new("a", DataType::Int64, true)]);
        let other = schema(vec![Field::new("a", DataType::Utf8, true)]);
        let gone = schema(vec![Field::new("b", DataType::Utf8, true)]);
        for session in [other, gone] {
            let error = Alignment::new(&plan, &session).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
            assert!(error.message().contains("column 'a'"), "{error}");
        }
    }
}
