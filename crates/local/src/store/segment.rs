//! A run of rows that never changes once written.

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::schema::logical_bytes;

/// Immutable rows of one table, all written by one change under one schema.
#[derive(Debug)]
pub struct Segment {
    rows: usize,
    bytes: usize,
    logical_bytes: u64,
    /// Start of the ingestion-time partition that the rows belong to, in
    /// microseconds since the epoch; `None` for other tables.
    partition: Option<i64>,
    batches: Vec<RecordBatch>,
}

impl Segment {
    /// Rows held in memory.
    pub fn in_memory(batches: Vec<RecordBatch>, partition: Option<i64>) -> Self {
        Self {
            rows: batches.iter().map(RecordBatch::num_rows).sum(),
            bytes: batches.iter().map(RecordBatch::get_array_memory_size).sum(),
            logical_bytes: batches.iter().map(logical_bytes).sum(),
            partition,
            batches,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Size of the rows' Arrow buffers in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Size of the rows as the service counts it: 8 bytes for a number, 2 more than
    /// its UTF-8 for text, nothing for NULL.
    pub fn logical_bytes(&self) -> u64 {
        self.logical_bytes
    }

    /// See the field.
    pub fn partition(&self) -> Option<i64> {
        self.partition
    }

    /// The rows under the schema they were written with; see
    /// [`crate::schema::adapt_batch`] for giving them a later one.
    pub fn batches(&self) -> Result<Vec<RecordBatch>> {
        Ok(self.batches.clone())
    }
}
