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

use self::column::{Children, Errors, Parent};
use self::descriptor::MessageType;
use self::wire::{Malformed, Reader, Wire};
use super::plan::Mismatch;
use super::rows::{Decoded, RowFault, Undecoded, too_many};
use crate::schema::{TableSchema, arrow_schema};

/// Decodes rows of one writer schema into the columns of one table schema.
#[derive(Debug)]
pub(super) struct ProtoPlan {
    columns: Children,
    arrow: SchemaRef,
}

impl ProtoPlan {
    /// The plan for a serialized `DescriptorProto`.
    pub(super) fn compile(descriptor: &[u8], schema: &TableSchema) -> Result<Self, Mismatch> {
        let message = MessageType::read(descriptor).map_err(Mismatch::Invalid)?;
        Ok(Self {
            columns: plan::compile(&message, schema)?,
            arrow: arrow_schema(schema),
        })
    }

    /// Decodes a serialized `ProtoRows`. A column of `defaulted` has a value where
    /// rows leave it out, which the caller fills in.
    pub(super) fn decode(&mut self, rows: &[u8], defaulted: &[bool]) -> Result<Decoded, Undecoded> {
        let mut errors = Errors::default();
        let mut missing: Vec<Vec<bool>> = defaulted.iter().map(|_| Vec::new()).collect();
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
            for (i, column) in self.columns.columns.iter_mut().enumerate() {
                let filled = defaulted.get(i).is_some_and(|d| *d);
                let parent = if filled {
                    missing[i].push(column.is_missing());
                    Parent::Null
                } else {
                    Parent::Present
                };
                column.finish_row(parent, &mut errors);
            }
            errors.row += 1;
        }
        let count = errors.row;
        let arrays = self.columns.finish();
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
        })
    }
}

#[cfg(test)]
mod tests;
