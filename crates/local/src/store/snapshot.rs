//! What a table holds at one instant.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::segment::Segment;
use crate::error::Result;
use crate::schema::{TableSchema, adapt_batch};

/// Rows and schema of one table at one instant. Cheap to clone and to keep: it
/// holds the segments alive whatever happens to the table.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// BigQuery schema.
    pub schema: Arc<TableSchema>,
    /// Its Arrow form.
    pub arrow: SchemaRef,
    /// Live segments in order of arrival.
    pub segments: Vec<Arc<Segment>>,
    /// The table's `changed` when the snapshot was taken.
    pub version: i64,
    /// The instant that the snapshot shows: [`Table::snapshot_at`] takes it again.
    pub time: i64,
}

impl Snapshot {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.segments.iter().map(|s| s.rows()).sum()
    }

    /// Size of the rows' Arrow buffers in bytes.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|s| s.bytes()).sum()
    }

    /// Size of the rows as the service counts it for `numBytes`.
    pub fn logical_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.logical_bytes()).sum()
    }

    /// All rows under this snapshot's schema.
    pub fn batches(&self) -> Result<Vec<RecordBatch>> {
        let mut out = Vec::new();
        for segment in &self.segments {
            for batch in segment.batches()? {
                out.push(adapt_batch(&batch, &self.arrow)?);
            }
        }
        Ok(out)
    }
}
