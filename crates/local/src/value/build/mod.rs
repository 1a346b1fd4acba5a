//! JSON rows (insertAll, newline-delimited JSON) as record batches.

mod cell;
mod column;
mod json;

use std::collections::HashMap;
use std::fmt;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use serde_json::Value;

pub use cell::{Cell, CellReader, FieldError, JsonText};
pub use column::ColumnBuilder;

use crate::error::{Result, ServiceError};
use crate::schema::{TableSchema, arrow_schema};

/// What to do with a field that the table lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownFields {
    /// The row is in error.
    #[default]
    Refuse,
    /// The field is left out.
    Ignore,
}

/// Why a row was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// Position of the row among those pushed, from 0.
    pub row: usize,
    /// The field it is about, dotted; empty when it is about the row.
    pub location: String,
    /// In the service's words.
    pub message: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}: {}", self.row, self.message)
    }
}

impl std::error::Error for RowError {}

/// Batches are cut at about this many bytes: far below the 2 GiB at which the
/// offsets of an Arrow string array end.
const FULL_BYTES: usize = 256 << 20;

/// Collects typed rows into one record batch.
#[derive(Debug)]
pub struct CellsBuilder {
    schema: TableSchema,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    bytes: usize,
}

impl CellsBuilder {
    /// A builder for rows of `schema`.
    pub fn new(schema: &TableSchema) -> Self {
        Self {
            schema: schema.clone(),
            columns: schema.fields.iter().map(ColumnBuilder::new).collect(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the batch should be finished before more rows are pushed.
    pub fn is_full(&self) -> bool {
        self.bytes >= FULL_BYTES
    }

    /// Appends a row: one cell per column, of the column's type.
    pub fn push(&mut self, cells: Vec<Cell>) -> Result<()> {
        if cells.len() != self.columns.len() {
            return Err(ServiceError::internal(format!(
                "a row of {} cells does not fit {} columns",
                cells.len(),
                self.columns.len()
            )));
        }
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            self.bytes += cell.bytes();
            column.push(cell)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// The rows so far as a batch in the Arrow form of the schema; the builder is
    /// empty afterwards.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let columns = self
            .columns
            .iter_mut()
            .map(ColumnBuilder::finish)
            .collect::<Result<Vec<ArrayRef>>>()?;
        RecordBatch::try_new_with_options(
            arrow_schema(&self.schema),
            columns,
            &RecordBatchOptions::new().with_row_count(Some(rows)),
        )
        .map_err(|e| ServiceError::internal(format!("rows do not fit their schema: {e}")))
    }
}

/// Collects JSON rows into record batches.
#[derive(Debug)]
pub struct JsonRowsBuilder {
    cells: CellsBuilder,
    reader: CellReader,
    names: HashMap<String, usize>,
    unknown: UnknownFields,
    defaults: Vec<Option<Cell>>,
    seen: usize,
}

impl JsonRowsBuilder {
    /// A builder for rows of `schema`; `json` says what a string in a JSON column is.
    pub fn new(schema: &TableSchema, unknown: UnknownFields, json: JsonText) -> Self {
        Self {
            names: json::names(&schema.fields),
            reader: CellReader::for_import(json),
            cells: CellsBuilder::new(schema),
            unknown,
            defaults: vec![None; schema.fields.len()],
            seen: 0,
        }
    }

    /// Values of top-level columns that a row leaves out.
    pub fn with_defaults(mut self, defaults: Vec<Option<Cell>>) -> Self {
        self.defaults = defaults;
        self.defaults.resize(self.cells.schema.fields.len(), None);
        self
    }

    /// Rows taken since the last batch.
    pub fn rows(&self) -> usize {
        self.cells.rows()
    }

    /// Whether the batch should be finished before more rows are pushed.
    pub fn is_full(&self) -> bool {
        self.cells.is_full()
    }

    /// Takes a row whole, or not at all.
    pub fn push(&mut self, row: &Value) -> Result<(), RowError> {
        let index = self.seen;
        self.seen += 1;
        let at = |error: FieldError| RowError {
            row: index,
            location: error.location,
            message: error.message,
        };
        let cells = self
            .reader
            .row(
                &self.cells.schema.fields,
                &self.names,
                &self.defaults,
                row,
                self.unknown,
            )
            .map_err(at)?;
        self.cells.push(cells).map_err(|e| RowError {
            row: index,
            location: String::new(),
            message: e.message,
        })
    }

    /// The rows taken so far as a batch; the builder is empty afterwards.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        self.cells.finish()
    }
}

#[cfg(test)]
mod tests;
