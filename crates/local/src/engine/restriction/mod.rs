//! `row_restriction`: a GoogleSQL boolean expression over one table's columns.

use arrow::array::{BooleanArray, RecordBatch};

use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;

/// The service's limit on the text of a restriction.
pub const MAX_RESTRICTION_BYTES: usize = 1 << 20;

/// The pseudo columns of an ingestion-time partitioned table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PseudoColumns {
    /// None: any other table.
    None,
    /// `_PARTITIONTIME`.
    Time,
    /// `_PARTITIONTIME` and, on daily tables, `_PARTITIONDATE`.
    TimeAndDate,
}

/// A parsed and typed restriction.
#[derive(Debug)]
pub struct Restriction {}

impl Restriction {
    /// Parses and types `text` over the columns of `schema`.
    pub fn parse(text: &str, schema: &TableSchema) -> Result<Self> {
        Self::parse_with(text, schema, PseudoColumns::None)
    }

    /// The same where pseudo columns may be named.
    pub fn parse_with(_text: &str, _schema: &TableSchema, _pseudo: PseudoColumns) -> Result<Self> {
        Err(ServiceError::unsupported("row_restriction"))
    }

    /// TRUE, FALSE or NULL for each row of `batch`, which has the Arrow form of
    /// the schema parsed with.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        self.evaluate_in(batch, None)
    }

    /// The same for rows of the ingestion-time partition that starts at `partition`
    /// (microseconds since the epoch).
    pub fn evaluate_in(
        &self,
        batch: &RecordBatch,
        _partition: Option<i64>,
    ) -> Result<BooleanArray> {
        Ok(BooleanArray::new_null(batch.num_rows()))
    }

    /// Whether partitions of `column` can be left out because of this restriction.
    pub fn narrows(&self, _column: &str) -> bool {
        false
    }
}
