//! Rows of a request between decoding and the table.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;

use super::change::RowChanges;
use crate::engine::column_defaults;
use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;
use crate::server::Service;
use crate::store::Changes;
use crate::value::build::ColumnBuilder;

/// Rows in the Arrow form of their table, before defaults are filled in.
#[derive(Debug)]
pub(super) struct Decoded {
    /// Of the table.
    pub(super) schema: SchemaRef,
    /// One for each of the table's columns.
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
    /// By column: for each row whether it leaves the column to its default. Empty
    /// where that cannot be.
    pub(super) missing: Vec<Vec<bool>>,
    /// What the rows change, if they are changes.
    pub(super) changes: Option<RowChanges>,
}

/// What is to be done with rows.
#[derive(Debug)]
pub(super) enum DecodedRows {
    Added(RecordBatch),
    Changed(Changes),
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowFault {
    /// Position in the request.
    pub(super) row: usize,
    pub(super) message: String,
}

/// Why there are no rows.
#[derive(Debug)]
pub(super) enum Undecoded {
    /// These rows are wrong; the others are not taken either.
    Rows(Vec<RowFault>),
    /// The request is.
    Request(String),
    /// This server is.
    Server(ServiceError),
}

/// Values of one request at most, counting those that rows leave out: an empty row
/// takes two bytes in a request, and a value of each column in the table.
const MAX_VALUES: usize = 1 << 28;

/// Whether so many rows of so many columns would take more memory than one request
/// may.
pub(super) fn too_many(rows: usize, columns: usize) -> bool {
    rows.saturating_mul(columns.max(1)) > MAX_VALUES
}

impl Decoded {
    /// Puts defaults where rows leave columns out.
    pub(super) async fn fill(
        &mut self,
        service: &Arc<Service>,
        schema: &TableSchema,
    ) -> Result<()> {
        for (i, missing) in self.missing.iter().enumerate() {
            let count = missing.iter().filter(|m| **m).count();
            let (Some(field), true) = (schema.fields.get(i), count > 0) else {
                continue;
            };
            let mut builder = ColumnBuilder::new(field);
            let cells = column_defaults(service, field, count).await?;
            let several = cells.len() > 1;
            for cell in cells {
                builder.push(cell)?;
            }
            let defaults = builder.finish()?;
            let mut next = 0;
            let indices: Vec<(usize, usize)> = missing
                .iter()
                .enumerate()
                .map(|(row, missing)| {
                    if !missing {
                        return (0, row);
                    }
                    let at = if several { next } else { 0 };
                    next += 1;
                    (1, at)
                })
                .collect();
            let filled = interleave(&[self.columns[i].as_ref(), defaults.as_ref()], &indices);
            self.columns[i] = filled
                .map_err(|e| ServiceError::internal(format!("a default does not fit: {e}")))?;
        }
        Ok(())
    }

    /// The rows as what is to be done with them.
    pub(super) fn rows(mut self) -> Result<DecodedRows> {
        let Some(changes) = self.changes.take() else {
            return self.batch().map(DecodedRows::Added);
        };
        Ok(DecodedRows::Changed(Changes {
            schema: self.schema,
            columns: self.columns,
            deleted: changes.deleted,
            sequences: changes.sequences,
        }))
    }

    /// The rows as a batch.
    pub(super) fn batch(self) -> Result<RecordBatch> {
        RecordBatch::try_new_with_options(
            self.schema,
            self.columns,
            &RecordBatchOptions::new().with_row_count(Some(self.rows)),
        )
        .map_err(|e| ServiceError::internal(format!("appended rows do not fit their table: {e}")))
    }
}
