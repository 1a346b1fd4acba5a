//! Batches of changes as they are encoded.
//!
//! A batch has columns of the table and the pseudocolumns. What is encoded has the
//! pseudocolumns always filled, and of a deletion nothing but its key: the service needs
//! no more, and columns that must have values need none there.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::{cast, nullif};
use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef};

use super::ChangeSequence;
use super::key::{CHANGE_SEQUENCE_NUMBER, CHANGE_TYPE};
use crate::error::{Error, ErrorKind, Result};
use crate::sink::{Places, Prepared, Refused};
use crate::types::{Field, FieldType, Mode, TableRef, TableSchema};

/// How batches of one schema become changes of one table.
#[derive(Debug)]
pub(super) struct ChangeRowsPlan {
    /// What is encoded.
    pub(super) written: SchemaRef,
    /// The table's columns as the encoder sees them, and the pseudocolumns.
    pub(super) columns: TableSchema,
    /// Names of the key's columns in batches; none when equal keys may differ there.
    pub(super) key: Vec<String>,
    /// Columns of batches that are encoded, without the pseudocolumns.
    plain: Vec<Plain>,
    /// Columns that rows that stay must have and batches do not, so that those can only
    /// be deletions.
    left_out: Vec<String>,
    change_type: Option<usize>,
    sequence: Option<usize>,
}

#[derive(Debug)]
struct Plain {
    at: usize,
    name: String,
    role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Key,
    /// Rows that stay must have a value.
    Required,
    Other,
}

impl ChangeRowsPlan {
    /// The plan for batches of `given`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when a column of the key is missing, or one that must
    /// have values though no row is a deletion; and when a pseudocolumn is no text.
    pub(super) fn new(
        table: &TableRef,
        columns: &TableSchema,
        key: &[String],
        given: &Schema,
    ) -> Result<Self> {
        let wrong = |message: String| Err(Error::new(ErrorKind::InvalidArgument, message));
        let position = |name: &str| {
            let fields = given.fields().iter();
            fields
                .into_iter()
                .position(|f| f.name().eq_ignore_ascii_case(name))
        };
        let (change_type, sequence) = (position(CHANGE_TYPE), position(CHANGE_SEQUENCE_NUMBER));
        for (name, first) in [
            (CHANGE_TYPE, change_type),
            (CHANGE_SEQUENCE_NUMBER, sequence),
        ] {
            let mut fields = given.fields().iter().enumerate();
            let again = |at, other: &str| Some(at) != first && other.eq_ignore_ascii_case(name);
            if let Some((_, other)) = fields.find(|(at, field)| again(*at, field.name())) {
                return wrong(format!(
                    "column {name} is written twice, also as {}: a change has one",
                    other.name()
                ));
            }
        }
        for at in [change_type, sequence].into_iter().flatten() {
            let field = given.field(at);
            if !(field.data_type().is_string() || field.data_type().is_null()) {
                return wrong(format!(
                    "column {} must be text, not {}",
                    field.name(),
                    field.data_type()
                ));
            }
        }
        let mut plain = Vec::new();
        let mut written = Vec::new();
        for (at, field) in given.fields().iter().enumerate() {
            if Some(at) == change_type || Some(at) == sequence {
                continue;
            }
            let column = columns.field(field.name());
            let name = column.map_or(field.name(), |column| &column.name);
            let role = match column {
                Some(column) if key.contains(&column.name) => Role::Key,
                Some(column) if column.mode == Mode::Required => Role::Required,
                _ => Role::Other,
            };
            plain.push(Plain {
                at,
                name: name.clone(),
                role,
            });
            written.push(field.as_ref().clone().with_nullable(true));
        }
        let is_given = |name: &str| plain.iter().any(|column| column.name == name);
        if let Some(missing) = key.iter().find(|name| !is_given(name)) {
            return wrong(format!(
                "column {missing} is in the primary key of {table} and not written: changes go to \
                 rows by their key"
            ));
        }
        let needed = columns.fields.iter();
        let needed = needed.filter(|column| column.mode == Mode::Required);
        let left_out = needed
            .map(|column| column.name.clone())
            .filter(|name| !is_given(name))
            .collect::<Vec<_>>();
        // Without change types no row is a deletion, which needs its key only.
        if let (Some(missing), None) = (left_out.first(), change_type) {
            return wrong(format!(
                "column {missing} of {table} is REQUIRED and not written: a change says all of its \
                 row"
            ));
        }
        let mut relaxed = columns.clone();
        for column in &mut relaxed.fields {
            // A change says all of its row, so no column gets its default.
            column.default_value_expression = None;
            if column.mode == Mode::Required {
                column.mode = Mode::Nullable;
            }
        }
        let mut pseudo = |name: &str, mode| {
            written.push(ArrowField::new(name, DataType::Utf8, true));
            relaxed
                .fields
                .push(Field::new(name, FieldType::String, mode));
        };
        // A change without a type is one that was refused.
        pseudo(CHANGE_TYPE, Mode::Required);
        if sequence.is_some() {
            pseudo(CHANGE_SEQUENCE_NUMBER, Mode::Nullable);
        }
        let keys = plain.iter().filter(|column| column.role == Role::Key);
        let keys: Vec<usize> = keys.map(|column| column.at).collect();
        let alike = keys.iter().all(|at| {
            let field = given.field(*at);
            let column = columns.field(field.name());
            column.is_some_and(|column| is_injective(field.data_type(), &column.field_type))
        });
        Ok(Self {
            written: Arc::new(Schema::new(written)),
            columns: relaxed,
            key: match alike {
                true => keys
                    .iter()
                    .map(|at| given.field(*at).name().clone())
                    .collect(),
                false => Vec::new(),
            },
            plain,
            left_out,
            change_type,
            sequence,
        })
    }

    /// What decides between changes of one key.
    pub(super) fn places(&self) -> Places {
        match self.sequence {
            Some(_) => Places::Said,
            None => Places::Arrival,
        }
    }

    /// A batch as it is encoded. Rows that are wrong have no change type, for which the
    /// encoder refuses them.
    pub(super) fn prepare(&self, batch: &RecordBatch) -> Result<Prepared> {
        let rows = batch.num_rows();
        let mut refused: BTreeMap<u64, Refused> = BTreeMap::new();
        let mut refuse = |row: usize, column: &str, message: String| {
            let row = u64::try_from(row).unwrap_or(u64::MAX);
            refused.entry(row).or_insert_with(|| Refused {
                column: Some(column.to_string()),
                message,
            });
        };
        let types = self
            .change_type
            .map(|at| text(batch.column(at)))
            .transpose()?;
        let mut deleted = Vec::with_capacity(rows);
        for row in 0..rows {
            let said = types.as_ref().filter(|types| types.is_valid(row));
            deleted.push(match said.map(|types| types.value(row)) {
                None | Some("UPSERT") => false,
                Some("DELETE") => true,
                Some(other) => {
                    refuse(row, CHANGE_TYPE, not_a_change_type(other));
                    false
                }
            });
        }
        let deleted = BooleanArray::from(deleted);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.plain.len() + 2);
        for column in &self.plain {
            let values = batch.column(column.at);
            let nulls = values.logical_nulls();
            let missing = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            for row in 0..rows {
                let needed = match column.role {
                    Role::Key => true,
                    Role::Required => !deleted.value(row),
                    Role::Other => break,
                };
                if needed && missing(row) {
                    let why = match column.role {
                        Role::Key => "it is in the primary key, by which changes go to rows",
                        Role::Required | Role::Other => "it is REQUIRED",
                    };
                    refuse(row, &column.name, format!("the value is NULL, and {why}"));
                }
            }
            columns.push(match column.role {
                Role::Key => Arc::clone(values),
                Role::Required | Role::Other
                    if deleted.true_count() == 0 || values.data_type().is_null() =>
                {
                    Arc::clone(values)
                }
                Role::Required | Role::Other => nullif(&plainly(values)?, &deleted)
                    .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?,
            });
        }
        if let Some(column) = self.left_out.first() {
            for row in (0..rows).filter(|row| !deleted.value(*row)) {
                refuse(
                    row,
                    column,
                    "it is REQUIRED and not written: an UPSERT says all of its row, and only a \
                     DELETE needs no more than the key"
                        .to_string(),
                );
            }
        }
        let sequences = self.sequence.map(|at| text(batch.column(at))).transpose()?;
        if let Some(sequences) = &sequences {
            for row in 0..rows {
                match sequences.is_valid(row).then(|| sequences.value(row)) {
                    Some(said) => {
                        if let Err(error) = said.parse::<ChangeSequence>() {
                            refuse(row, CHANGE_SEQUENCE_NUMBER, error.message().to_string());
                        }
                    }
                    None => refuse(
                        row,
                        CHANGE_SEQUENCE_NUMBER,
                        "the value is NULL: once a statement writes the column, every change needs \
                         its place"
                            .to_string(),
                    ),
                }
            }
        }
        let types: StringArray = (0..rows)
            .map(|row| {
                let wrong = refused.contains_key(&u64::try_from(row).unwrap_or(u64::MAX));
                let name = if deleted.value(row) {
                    "DELETE"
                } else {
                    "UPSERT"
                };
                (!wrong).then_some(name)
            })
            .collect();
        columns.push(Arc::new(types));
        if let Some(sequences) = sequences {
            columns.push(Arc::new(sequences));
        }
        let batch = RecordBatch::try_new(self.schema_of(&columns), columns)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        Ok(Prepared { batch, refused })
    }

    /// The schema of what is encoded. Dictionaries may have been unpacked.
    fn schema_of(&self, columns: &[ArrayRef]) -> SchemaRef {
        let fields = self.written.fields().iter().zip(columns);
        let fields = fields.map(
            |(field, column)| match field.data_type() == column.data_type() {
                true => Arc::clone(field),
                false => Arc::new(
                    field
                        .as_ref()
                        .clone()
                        .with_data_type(column.data_type().clone()),
                ),
            },
        );
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// Whether different values of a column of the key become different keys. Text that is
/// read as something else does not: '1' and '1.0' are one NUMERIC.
fn is_injective(from: &DataType, to: &FieldType) -> bool {
    let from = match from {
        DataType::Dictionary(_, value) => value.as_ref(),
        other => other,
    };
    match to {
        FieldType::String => from.is_string(),
        FieldType::Int64 => from.is_integer(),
        FieldType::Bool => from == &DataType::Boolean,
        FieldType::Bytes => matches!(
            from,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView
        ),
        FieldType::Numeric(_) | FieldType::BigNumeric(_) => from.is_integer() || from.is_decimal(),
        FieldType::Date => matches!(from, DataType::Date32 | DataType::Int32),
        FieldType::DateTime | FieldType::Timestamp(_) => matches!(from, DataType::Timestamp(..)),
        _ => false,
    }
}

fn text(values: &ArrayRef) -> Result<StringArray> {
    let values = cast(values, &DataType::Utf8)
        .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    Ok(values.as_string::<i32>().clone())
}

/// The values with NULLs of their own, as `nullif` needs them.
fn plainly(values: &ArrayRef) -> Result<ArrayRef> {
    let to = match values.data_type() {
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        _ => return Ok(Arc::clone(values)),
    };
    cast(values, &to).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}

/// The change type of a row by which a MERGE would only update, or only insert.
pub(crate) const UNEVEN_MERGE: &str = "UNEVEN MERGE";

/// What is wrong with a change type, and what to do about it.
fn not_a_change_type(said: &str) -> String {
    if said == UNEVEN_MERGE {
        return "by the conditions of the MERGE it is only updated, only inserted, or deleted and \
                inserted: changes are made without looking whether the table has a row of the key, \
                so both conditions must hold for a row, or neither"
            .to_string();
    }
    let shown: String = said.chars().take(40).collect();
    let before = ["UPDATE_BEFORE", "-U", "UPDATE_PREIMAGE"];
    if before.iter().any(|name| said.eq_ignore_ascii_case(name)) {
        return format!(
            "'{shown}' is the image of a row before its update: leave it out and write the one \
             after it as 'UPSERT'; where the key changes, write a 'DELETE' of the old key too"
        );
    }
    format!("'{shown}' is no change type: write 'UPSERT', which NULL means too, or 'DELETE'")
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn columns() -> TableSchema {
        TableSchema {
            fields: vec![
                Field::new("id", FieldType::Int64, Mode::Required),
                Field::new("name", FieldType::String, Mode::Required),
                Field::new("tags", FieldType::Int64, Mode::Repeated),
            ],
        }
    }

    fn plan(given: &Schema) -> Result<ChangeRowsPlan> {
        let key = ["id".to_string()];
        ChangeRowsPlan::new(&"p.d.t".parse().unwrap(), &columns(), &key, given)
    }

    type Row<'a> = (
        Option<i64>,
        Option<&'a str>,
        Option<&'a str>,
        Option<&'a str>,
    );

    fn batch(rows: &[Row<'_>]) -> RecordBatch {
        let tags = rows.iter().map(|_| Some(vec![Some(1), Some(2)]));
        RecordBatch::try_from_iter_with_nullable([
            (
                "ID",
                Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()) as ArrayRef,
                true,
            ),
            (
                "name",
                Arc::new(rows.iter().map(|r| r.1).collect::<StringArray>()),
                true,
            ),
            (
                "tags",
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(tags)),
                true,
            ),
            (
                "_change_type",
                Arc::new(rows.iter().map(|r| r.2).collect::<StringArray>()),
                true,
            ),
            (
                "_CHANGE_SEQUENCE_NUMBER",
                Arc::new(rows.iter().map(|r| r.3).collect::<StringArray>()),
                true,
            ),
        ])
        .unwrap()
    }

    #[test]
    fn deletions_keep_their_key_only() {
        let given = batch(&[
            (Some(1), Some("a"), None, Some("1")),
            (Some(2), Some("b"), Some("DELETE"), Some("2/F")),
            (Some(3), Some("c"), Some("UPSERT"), Some("3")),
            (Some(4), None, Some("DELETE"), Some("4")),
        ]);
        let prepared = plan(&given.schema()).unwrap().prepare(&given).unwrap();
        assert!(prepared.refused.is_empty(), "{:?}", prepared.refused);
        let of = |name| prepared.batch.column_by_name(name).unwrap();
        assert_eq!(of("ID").null_count(), 0);
        let names: Vec<_> = of("name").as_string::<i32>().iter().collect();
        assert_eq!(names, [Some("a"), None, Some("c"), None]);
        let tags: Vec<_> = (0..4).map(|row| of("tags").is_valid(row)).collect();
        assert_eq!(tags, [true, false, true, false]);
        let types: Vec<_> = of(CHANGE_TYPE)
            .as_string::<i32>()
            .iter()
            .flatten()
            .collect();
        assert_eq!(types, ["UPSERT", "DELETE", "UPSERT", "DELETE"]);
        let numbers: Vec<_> = of(CHANGE_SEQUENCE_NUMBER)
            .as_string::<i32>()
            .iter()
            .collect();
        assert_eq!(numbers[1], Some("2/F"));
    }

    #[test]
    fn rows_that_are_no_changes_are_refused_one_by_one() {
        let given = batch(&[
            (Some(1), Some("a"), Some("UPDATE_BEFORE"), Some("1")),
            (Some(2), Some("b"), Some("upsert"), Some("1")),
            (None, Some("c"), Some("DELETE"), Some("1")),
            (Some(4), None, None, Some("1")),
            (Some(5), Some("e"), None, Some("xyz")),
            (Some(6), Some("f"), None, None),
            (Some(7), Some("g"), None, Some("1")),
        ]);
        let prepared = plan(&given.schema()).unwrap().prepare(&given).unwrap();
        let expected = [
            (0, CHANGE_TYPE, "before its update"),
            (1, CHANGE_TYPE, "no change type"),
            (2, "id", "primary key"),
            (3, "name", "REQUIRED"),
            (4, CHANGE_SEQUENCE_NUMBER, "no change sequence number"),
            (5, CHANGE_SEQUENCE_NUMBER, "every change needs"),
        ];
        assert_eq!(
            prepared.refused.len(),
            expected.len(),
            "{:?}",
            prepared.refused
        );
        let types = prepared.batch.column_by_name(CHANGE_TYPE).unwrap();
        for (row, column, why) in expected {
            let refused = &prepared.refused[&row];
            assert_eq!(refused.column.as_deref(), Some(column), "row {row}");
            assert!(
                refused.message.contains(why),
                "row {row}: {}",
                refused.message
            );
            assert!(types.is_null(usize::try_from(row).unwrap()));
        }
        assert!(types.is_valid(6));
    }

    #[test]
    fn deletions_need_no_required_columns() {
        let all = batch(&[
            (Some(1), None, Some("DELETE"), Some("1")),
            (Some(2), None, Some("UPSERT"), Some("1")),
            (Some(3), None, None, Some("1")),
        ]);
        let given = all.project(&[0, 3, 4]).unwrap();
        let prepared = plan(&given.schema()).unwrap().prepare(&given).unwrap();
        let rows: Vec<u64> = prepared.refused.keys().copied().collect();
        assert_eq!(rows, [1, 2]);
        for refused in prepared.refused.values() {
            assert_eq!(refused.column.as_deref(), Some("name"));
            assert!(refused.message.contains("REQUIRED and not written"));
        }
        let types = prepared.batch.column_by_name(CHANGE_TYPE).unwrap();
        assert!(types.is_valid(0) && types.is_null(1) && types.is_null(2));
    }

    #[test]
    fn key_and_required_columns_are_written() {
        let without = |name: &str| {
            let all = batch(&[]).schema();
            let fields = all.fields().iter().filter(|f| f.name() != name);
            Schema::new(fields.cloned().collect::<Vec<_>>())
        };
        let error = plan(&without("ID")).unwrap_err();
        assert!(error.to_string().contains("primary key"), "{error}");
        let id = batch(&[]).schema().field(0).clone();
        let error = plan(&Schema::new(vec![id])).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("column name of p.d.t is REQUIRED"),
            "{error}"
        );
        let none = plan(&without("_CHANGE_SEQUENCE_NUMBER")).unwrap();
        assert_eq!(none.places(), Places::Arrival);
        assert!(none.columns.field(CHANGE_SEQUENCE_NUMBER).is_none());
        assert_eq!(plan(&batch(&[]).schema()).unwrap().places(), Places::Said);
        assert!(plan(&without("_change_type")).is_ok());

        let mut twice = batch(&[]).schema().fields().to_vec();
        let other = ArrowField::new("_Change_Sequence_Number", DataType::Utf8, true);
        twice.push(Arc::new(other));
        let error = plan(&Schema::new(twice)).unwrap_err();
        assert!(error.to_string().contains("written twice"), "{error}");
    }
}
