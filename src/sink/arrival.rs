//! What is done with rows before it is decided where they go.
//!
//! Values that a plan has cast for the sink arrive with those that could not be cast
//! ([`checked_type`]): their rows fail here. Then columns are added that the builder
//! of the sink asked for.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, StructArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::ScalarValue;

use super::failure::{Content, FailedRow};
use super::numbered::{Numbered, RowNumbers};
use crate::error::{Error, ErrorKind, Result};

/// The metadata of a column of checked values.
const CHECKED: &str = "datafusion_bigquery.checked";

/// The type of values that were cast to `to`, with what could not be: a struct of the
/// value, why it could not be cast, and the value before, as text; the last two are
/// NULL where the cast succeeded.
pub(crate) fn checked_type(to: &DataType) -> DataType {
    DataType::Struct(checked_fields(to))
}

fn checked_fields(to: &DataType) -> Fields {
    Fields::from(vec![
        Field::new("value", to.clone(), true),
        Field::new("error", DataType::Utf8, true),
        Field::new("given", DataType::Utf8, true),
    ])
}

/// The metadata by which a sink knows a column of [`checked_type`].
pub(crate) fn checked_metadata() -> HashMap<String, String> {
    HashMap::from([(CHECKED.to_string(), String::new())])
}

/// Values that were cast, with why they could not be and what they were before.
pub(crate) fn checked_values(value: ArrayRef, error: StringArray, given: StringArray) -> ArrayRef {
    let fields = checked_fields(value.data_type());
    Arc::new(StructArray::new(
        fields,
        vec![value, Arc::new(error), Arc::new(given)],
        None,
    ))
}

fn is_checked(field: &Field) -> bool {
    field.metadata().contains_key(CHECKED)
}

/// The column that the sink writes for one of a plan.
fn unchecked(field: &FieldRef) -> FieldRef {
    match (is_checked(field), field.data_type()) {
        (true, DataType::Struct(fields)) if !fields.is_empty() => Arc::new(Field::new(
            field.name(),
            fields[0].data_type().clone(),
            true,
        )),
        _ => Arc::clone(field),
    }
}

/// A column that the sink adds to its rows.
#[derive(Clone)]
pub(super) struct ExtraField {
    pub(super) field: FieldRef,
    pub(super) source: ExtraSource,
}

/// A function of a batch that gives a value for each of its rows.
pub(super) type Compute = Arc<dyn Fn(&RecordBatch) -> Result<ArrayRef> + Send + Sync>;

#[derive(Clone)]
pub(super) enum ExtraSource {
    Constant(ScalarValue),
    Computed(Compute),
}

impl fmt::Debug for ExtraField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtraField")
            .field("field", &self.field)
            .finish_non_exhaustive()
    }
}

/// How rows arrive.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    /// Of the batches that a sink is given.
    pub(super) given: SchemaRef,
    checked: Vec<usize>,
    extra: Vec<ExtraField>,
    /// With the columns that are added: what says where rows go.
    pub(super) whole: SchemaRef,
    /// The columns that are written, where some are not.
    kept: Option<Vec<usize>>,
    /// What is written.
    pub(super) written: SchemaRef,
}

impl Arrival {
    /// # Errors
    /// [`ErrorKind::Configuration`] when a column is added that is there already, or
    /// one is not to be written that is not there.
    pub(super) fn new(
        given: SchemaRef,
        extra: Vec<ExtraField>,
        dropped: &[String],
    ) -> Result<Self> {
        let mut fields: Vec<FieldRef> = given.fields().iter().map(unchecked).collect();
        for added in &extra {
            let name = added.field.name().to_lowercase();
            if fields
                .iter()
                .any(|field| field.name().to_lowercase() == name)
            {
                return Err(Error::configuration(format!(
                    "column '{}' is added to the rows, which have one of that name",
                    added.field.name()
                )));
            }
            fields.push(Arc::clone(&added.field));
        }
        let whole = Arc::new(Schema::new(fields));
        let mut left_out = Vec::new();
        for name in dropped {
            let lower = name.to_lowercase();
            let mut fields = whole.fields().iter();
            match fields.position(|field| field.name().to_lowercase() == lower) {
                Some(at) => left_out.push(at),
                None => {
                    return Err(Error::configuration(format!(
                        "option 'sink.destination.drop_columns' names '{name}', which is no column \
                         of the rows"
                    )));
                }
            }
        }
        let kept: Vec<usize> = (0..whole.fields().len())
            .filter(|at| !left_out.contains(at))
            .collect();
        let written = whole.project(&kept).map_err(|error| {
            Error::new(ErrorKind::Internal, "columns cannot be left out").with_source(error)
        })?;
        let checked = given
            .fields()
            .iter()
            .enumerate()
            .filter_map(|(at, field)| is_checked(field).then_some(at))
            .collect();
        Ok(Arrival {
            given,
            checked,
            extra,
            kept: (!left_out.is_empty()).then_some(kept),
            whole,
            written: Arc::new(written),
        })
    }

    /// The rows of a batch as they are routed, and those that fail. `first_row` is the
    /// number of the batch's first row.
    pub(super) fn take(
        &self,
        batch: RecordBatch,
        first_row: u64,
    ) -> Result<(Numbered, Vec<FailedRow>)> {
        let wrong = |error: arrow::error::ArrowError| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("a batch has not the columns that the sink was made for: {error}"),
            )
        };
        let mut numbers = RowNumbers::from(first_row);
        if self.checked.is_empty() && self.extra.is_empty() {
            let rows = Numbered {
                rows: batch,
                numbers,
            };
            return Ok((rows, Vec::new()));
        }
        let (mut columns, failed) = self.uncheck(&batch, first_row)?;
        let plain = Arc::new(Schema::new(
            self.whole.fields()[..batch.num_columns().min(self.whole.fields().len())].to_vec(),
        ));
        let mut batch = RecordBatch::try_new(plain, columns).map_err(wrong)?;
        if !failed.is_empty() {
            let mut keep = vec![true; batch.num_rows()];
            for row in &failed {
                let at = row.row.saturating_sub(first_row);
                if let Some(kept) = usize::try_from(at).ok().and_then(|at| keep.get_mut(at)) {
                    *kept = false;
                }
            }
            let kept = keep.iter().enumerate().filter(|(_, kept)| **kept);
            numbers = numbers.select(kept.map(|(at, _)| at));
            batch = filter_record_batch(&batch, &BooleanArray::from(keep)).map_err(wrong)?;
        }
        columns = batch.columns().to_vec();
        for added in &self.extra {
            columns.push(added.values(&batch)?);
        }
        let rows = RecordBatch::try_new(Arc::clone(&self.whole), columns).map_err(wrong)?;
        Ok((Numbered { rows, numbers }, failed))
    }

    /// The columns without what says that they were cast, and the rows whose values
    /// could not be.
    fn uncheck(
        &self,
        batch: &RecordBatch,
        first_row: u64,
    ) -> Result<(Vec<ArrayRef>, Vec<FailedRow>)> {
        let mut columns = batch.columns().to_vec();
        let mut shown = columns.clone();
        let mut reasons: Vec<(usize, &str, ArrayRef)> = Vec::new();
        for at in &self.checked {
            let values = columns[*at].as_struct_opt().ok_or_else(|| {
                Error::new(
                    ErrorKind::Internal,
                    "a checked column has no struct of values",
                )
            })?;
            let (value, error, given) = (
                Arc::clone(values.column(0)),
                Arc::clone(values.column(1)),
                Arc::clone(values.column(2)),
            );
            if error.null_count() < error.len() {
                reasons.push((*at, self.given.field(*at).name(), error));
                shown[*at] = given;
            } else {
                shown[*at] = Arc::clone(&value);
            }
            columns[*at] = value;
        }
        let mut failed = Vec::new();
        for row in 0..batch.num_rows() {
            let reason = reasons.iter().find(|(_, _, errors)| errors.is_valid(row));
            let Some((_, column, errors)) = reason else {
                continue;
            };
            failed.push(FailedRow {
                row: first_row + u64::try_from(row).unwrap_or(u64::MAX),
                column: Some((*column).to_string()),
                message: errors.as_string::<i32>().value(row).to_string(),
                content: self.content(&shown, &columns, &reasons, row),
            });
        }
        Ok((columns, failed))
    }

    /// A failing row as it was given: values that could not be cast as text, the
    /// others as they are.
    fn content(
        &self,
        shown: &[ArrayRef],
        cast: &[ArrayRef],
        reasons: &[(usize, &str, ArrayRef)],
        row: usize,
    ) -> Option<Content> {
        let (mut fields, mut values) = (Vec::new(), Vec::new());
        for (at, field) in self.given.fields().iter().enumerate() {
            let fails = reasons
                .iter()
                .any(|(column, _, errors)| *column == at && errors.is_valid(row));
            let array = match fails {
                true => &shown[at],
                false => &cast[at],
            };
            fields.push(Field::new(field.name(), array.data_type().clone(), true));
            values.push(array.slice(row, 1));
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), values).ok()?;
        Some(Content::Row(batch))
    }

    /// Without the columns that are not written.
    pub(super) fn written(&self, batch: RecordBatch) -> Result<RecordBatch> {
        match &self.kept {
            None => Ok(batch),
            Some(kept) => batch.project(kept).map_err(|error| {
                Error::new(ErrorKind::Internal, "columns cannot be left out").with_source(error)
            }),
        }
    }
}

impl ExtraField {
    fn values(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let name = self.field.name();
        let values = match &self.source {
            ExtraSource::Constant(value) => {
                value.to_array_of_size(batch.num_rows()).map_err(|error| {
                    Error::configuration(format!("column '{name}' has no constant: {error}"))
                })?
            }
            ExtraSource::Computed(compute) => compute(batch)
                .map_err(|error| error.with_context(format!("computing column '{name}'")))?,
        };
        if values.len() != batch.num_rows() || values.data_type() != self.field.data_type() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "column '{name}' was computed as {} values of {} for {} rows, and is declared \
                     as {}",
                    values.len(),
                    values.data_type(),
                    batch.num_rows(),
                    self.field.data_type()
                ),
            ));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    fn given() -> RecordBatch {
        let values = checked_values(
            Arc::new(Int64Array::from(vec![Some(1), None, None])),
            StringArray::from(vec![None, Some("no number"), None]),
            StringArray::from(vec![None, Some("seven"), None]),
        );
        let schema = Schema::new(vec![
            Field::new("n", values.data_type().clone(), true).with_metadata(checked_metadata()),
            Field::new("s", DataType::Utf8, true),
        ]);
        let text = StringArray::from(vec!["a", "b", "c"]);
        RecordBatch::try_new(Arc::new(schema), vec![values, Arc::new(text)]).unwrap()
    }

    #[test]
    fn rows_fail_whose_values_could_not_be_cast() {
        let batch = given();
        let arrival = Arrival::new(batch.schema(), Vec::new(), &[]).unwrap();
        assert_eq!(arrival.written.field(0).data_type(), &DataType::Int64);
        let (Numbered { rows, numbers }, failed) = arrival.take(batch, 11).unwrap();
        assert_eq!((numbers.of(0), numbers.of(1)), (11, 13));
        assert_eq!(rows.num_rows(), 2);
        assert_eq!(
            rows.column(0).as_ref(),
            &Int64Array::from(vec![Some(1), None])
        );
        let [failed] = failed.as_slice() else {
            panic!("one row fails: {failed:?}")
        };
        assert_eq!((failed.row, failed.column.as_deref()), (12, Some("n")));
        let Some(Content::Row(row)) = &failed.content else {
            panic!("the row is kept")
        };
        assert_eq!(row.column(0).as_ref(), &StringArray::from(vec!["seven"]));
        assert_eq!(row.column(1).as_ref(), &StringArray::from(vec!["b"]));
    }

    #[test]
    fn columns_are_added_and_left_out() {
        let length = Field::new("length", DataType::Int64, true);
        let source = Field::new("source", DataType::Utf8, true);
        let compute: Compute = Arc::new(|batch| {
            let rows = i64::try_from(batch.num_rows()).unwrap();
            Ok(Arc::new(Int64Array::from_iter_values(0..rows)))
        });
        let extra = vec![
            ExtraField {
                field: Arc::new(source),
                source: ExtraSource::Constant(ScalarValue::from("here")),
            },
            ExtraField {
                field: Arc::new(length),
                source: ExtraSource::Computed(compute),
            },
        ];
        let batch = given();
        let arrival = Arrival::new(batch.schema(), extra.clone(), &["S".to_string()]).unwrap();
        let (rows, _) = arrival.take(batch.clone(), 1).unwrap();
        let rows = arrival.written(rows.rows).unwrap();
        let names: Vec<_> = rows
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        assert_eq!(names, ["n", "source", "length"]);
        assert_eq!(rows.column(2).as_ref(), &Int64Array::from(vec![0, 1]));
        let twice = Arrival::new(arrival.whole, extra, &[]).unwrap_err();
        assert!(twice.message().contains("'source'"), "{twice}");
        let unknown = Arrival::new(batch.schema(), Vec::new(), &["x".to_string()]).unwrap_err();
        assert!(unknown.message().contains("'x'"), "{unknown}");
    }

    #[test]
    fn a_wrong_computation_is_named() {
        let compute: Compute = Arc::new(|_| Ok(Arc::new(Int64Array::from(vec![1]))));
        let extra = ExtraField {
            field: Arc::new(Field::new("x", DataType::Int64, true)),
            source: ExtraSource::Computed(compute),
        };
        let batch = given();
        let arrival = Arrival::new(batch.schema(), vec![extra], &[]).unwrap();
        let error = arrival.take(batch, 1).unwrap_err();
        for part in ["'x'", "1 values", "2 rows"] {
            assert!(error.message().contains(part), "{part}: {error}");
        }
    }
}
