//! Rows that replace and delete rows by their key.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;

use super::destination::marks_of;
use super::writer::Destination;
use crate::client::rest::model::Table;
use crate::client::write::append::Denied;
use crate::error::Result;
use crate::options::SinkOptions;
use crate::types::encode::{RowEncoder, RowFormat};
use crate::types::{TableRef, TableSchema};

/// A table whose rows are replaced and deleted by its key. All writers of a sink share
/// one.
#[async_trait]
pub(crate) trait ChangedTable: fmt::Debug + Send + Sync {
    /// Makes sure that the table is there and takes changes. Called when the first rows
    /// come.
    async fn make_ready(&self) -> Result<ReadyTable>;

    /// How rows of a schema become changes of the table as it is.
    fn plan(&self, live: &Table, rows: &SchemaRef) -> Result<PlannedChanges>;
}

/// A table that takes changes.
#[derive(Debug)]
pub(crate) struct ReadyTable {
    /// As it is now.
    pub(crate) table: Table,
    /// What had to be done for it.
    pub(crate) made: Made,
}

/// What was done to a table before the first changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    Nothing,
    /// It was changed.
    Change,
    /// It was created.
    Table,
}

/// What is done to the rows of a sink whose rows are changes.
pub(crate) trait RowChanges: fmt::Debug + Send + Sync {
    /// A batch of the sink's schema as it is encoded.
    fn prepare(&self, batch: &RecordBatch) -> Result<Prepared>;

    /// The names of the columns by which rows can be divided so that those of a key stay
    /// together; none when that cannot be seen before they are encoded.
    fn key(&self) -> &[String];

    /// Whether rows of one key may go out side by side, because each says its place.
    fn places(&self) -> Places;
}

/// What decides which change of a key is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// Sequence numbers.
    Said,
    /// The order in which changes arrive.
    Arrival,
}

/// A batch that can be encoded.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) batch: RecordBatch,
    /// What is wrong with rows that the encoder is going to refuse, by their position.
    pub(crate) refused: BTreeMap<u64, Refused>,
}

/// What is wrong with a row.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) column: Option<String>,
    pub(crate) message: String,
}

impl From<RecordBatch> for Prepared {
    fn from(batch: RecordBatch) -> Self {
        Self {
            batch,
            refused: BTreeMap::new(),
        }
    }
}

/// How rows become changes of one table.
#[derive(Debug)]
pub(crate) struct PlannedChanges {
    /// What is encoded.
    pub(crate) written: SchemaRef,
    /// The table's columns as the encoder sees them, and the pseudocolumns.
    pub(crate) columns: TableSchema,
    pub(crate) changes: Arc<dyn RowChanges>,
}

impl PlannedChanges {
    pub(super) fn destination(
        self,
        table: &TableRef,
        options: &SinkOptions,
        denied: Denied,
    ) -> Result<Destination> {
        let marks = marks_of(&self.written, options);
        let encoder = RowEncoder::plan(&self.written, &self.columns, RowFormat::Protobuf, &marks)
            .map_err(|error| error.with_context(format!("writing changes of {table}")))?;
        let left_out = self.columns.fields.iter().filter(|column| {
            let mut written = self.written.fields().iter();
            !written.any(|field| column.is_named(field.name()))
        });
        Ok(Destination {
            table: table.clone(),
            null: left_out.map(|column| column.name.clone()).collect(),
            encoder,
            defaulted: Vec::new(),
            denied,
            load: None,
            overwrite: None,
            changes: Some(self.changes),
        })
    }
}
