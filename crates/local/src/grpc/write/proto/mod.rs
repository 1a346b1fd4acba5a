//! Protobuf rows into Arrow columns, by a plan that a writer schema and a table's
//! columns are compiled to.
//!
//! Rows are proto2: a field that is not there is NULL (an empty array, the column's
//! default), an empty message is a struct of NULLs. Values of a descriptor are
//! ignored where the wire format says that a parser has to (unknown numbers, a
//! value in another form than its field's).
//!
//! | module | what |
//! |---|---|
//! | [`descriptor`] | the writer schema |
//! | [`plan`] | which field fills which column |
//! | [`wire`] | the wire format |
//! | [`convert`] | protobuf values as BigQuery values |
//! | [`column`], [`values`] | the columns while they are filled |

mod column;
mod convert;
mod descriptor;
mod plan;
mod values;
mod wire;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use self::column::{Children, Column, Errors, Parent};
use self::descriptor::MessageType;
use self::wire::{Malformed, Reader, Wire};
use super::change::{CHANGE_SEQUENCE, CHANGE_TYPE, RowChanges, deletes, is_pseudocolumn, sequence};
use super::plan::Mismatch;
use super::rows::{Decoded, RowFault, Undecoded, too_many};
use crate::schema::{Field, FieldType, TableSchema, arrow_schema};
use crate::store::Sequence;

/// Decodes rows of one writer schema into the columns of one table schema.
#[derive(Debug)]
pub(super) struct ProtoPlan {
    /// Of the table, and behind them the pseudocolumns of changes.
    columns: Children,
    arrow: SchemaRef,
    changes: Option<ChangePlan>,
}

/// What makes rows changes.
#[derive(Debug)]
struct ChangePlan {
    /// Positions of the pseudocolumns.
    change_type: usize,
    sequence: Option<usize>,
    /// For each of the table's columns whether it is of the key.
    key: Vec<bool>,
}

impl ProtoPlan {
    /// The plan for a serialized `DescriptorProto` and a table with this key, if it
    /// has one.
    pub(super) fn compile(
        descriptor: &[u8],
        schema: &TableSchema,
        key: &[String],
    ) -> Result<Self, Mismatch> {
        let message = MessageType::read(descriptor).map_err(Mismatch::Invalid)?;
        let mut all = schema.clone();
        for field in &message.fields {
            if is_pseudocolumn(field.column()) {
                let name = field.column().to_ascii_uppercase();
                all.fields.push(Field::new(&name, FieldType::String));
            }
        }
        let position = |name| all.fields.iter().position(|field| field.name == name);
        let changes = match (position(CHANGE_TYPE), position(CHANGE_SEQUENCE)) {
            (None, None) => None,
            (Some(change_type), sequence) => Some(ChangePlan {
                change_type,
                sequence,
                key: schema
                    .fields
                    .iter()
                    .map(|field| key.iter().any(|of| of.eq_ignore_ascii_case(&field.name)))
                    .collect(),
            }),
            (None, Some(_)) => {
                return Err(Mismatch::Invalid(format!(
                    "the field {CHANGE_SEQUENCE} needs the field {CHANGE_TYPE}"
                )));
            }
        };
        Ok(Self {
            columns: plan::compile(&message, &all)?,
            arrow: arrow_schema(schema),
            changes,
        })
    }

    /// Whether rows are changes.
    pub(super) fn captures(&self) -> bool {
        self.changes.is_some()
    }

    /// Decodes a serialized `ProtoRows`. A column of `defaulted` has a value where
    /// rows leave it out, which the caller fills in.
    pub(super) fn decode(&mut self, rows: &[u8], defaulted: &[bool]) -> Result<Decoded, Undecoded> {
        let mut errors = Errors::default();
        let mut missing: Vec<Vec<bool>> = defaulted.iter().map(|_| Vec::new()).collect();
        let mut changes = RowChanges::default();
        let mut reader = Reader::new(rows);
        let malformed = |_: Malformed| Undecoded::Request("The rows cannot be parsed.".to_string());
        while let Some((number, wire)) = reader.tag().map_err(malformed)? {
            if (number, wire) != (1, Wire::Length) {
                reader.skip(number, wire).map_err(malformed)?;
                continue;
            }
            let row = reader.slice().map_err(malformed)?;
            if too_many(errors.row + 1, self.columns.columns.len()) {
                return Err(Undecoded::Request(format!(
                    "More than {} rows of {} columns in one request are not supported by bigquery-local.",
                    errors.row,
                    self.columns.columns.len()
                )));
            }
            if self.columns.decode(row, &mut errors).is_err() {
                errors.add(|| "The row cannot be parsed as a message of the writer schema.".into());
            }
            let mut deleted = false;
            if let Some(plan) = &self.changes {
                let place;
                (deleted, place) = plan.read(&self.columns.columns, &mut errors);
                changes.deleted.push(deleted);
                changes.sequences.push(place);
            }
            for (i, column) in self.columns.columns.iter_mut().enumerate() {
                let filled = defaulted.get(i).is_some_and(|d| *d);
                let parent = if filled {
                    missing[i].push(column.is_missing());
                    Parent::Null
                } else if deleted && self.changes.as_ref().is_some_and(|c| !c.is_key(i)) {
                    // What is deleted needs nothing but its key.
                    Parent::Null
                } else {
                    Parent::Present
                };
                column.finish_row(parent, &mut errors);
            }
            errors.row += 1;
        }
        let count = errors.row;
        let arrays = self.columns.finish().map(|mut arrays| {
            arrays.truncate(self.arrow.fields().len());
            arrays
        });
        if !errors.found.is_empty() {
            let faults = errors.found.into_iter();
            return Err(Undecoded::Rows(
                faults
                    .map(|(row, message)| RowFault { row, message })
                    .collect(),
            ));
        }
        Ok(Decoded {
            columns: arrays.map_err(Undecoded::Server)?,
            schema: Arc::clone(&self.arrow),
            rows: count,
            missing,
            changes: self.changes.is_some().then_some(changes),
        })
    }
}

impl ChangePlan {
    fn is_key(&self, column: usize) -> bool {
        self.key.get(column).copied().unwrap_or(false)
    }

    /// What the row that was read says: whether it deletes, and its place.
    fn read(&self, columns: &[Column], errors: &mut Errors) -> (bool, Sequence) {
        let deleted = deletes(columns[self.change_type].text()).unwrap_or_else(|why| {
            errors.add(|| why);
            false
        });
        let number = self.sequence.and_then(|at| columns[at].text());
        let place = number.map(sequence).transpose().unwrap_or_else(|why| {
            errors.add(|| why);
            None
        });
        (deleted, place.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
