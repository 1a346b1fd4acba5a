//! Writing many rows without holding them.

use arrow::array::{Array, RecordBatch};

use super::commit::Store;
use super::disk::SEGMENT_BYTES;
use super::segment::Segment;
use crate::error::Result;

/// Makes segments of rows that come batch by batch. In a store with a directory no
/// more than a segment's rows are in memory.
#[derive(Debug)]
pub struct SegmentWriter<'s> {
    store: &'s Store,
    partition: Option<i64>,
    pending: Vec<RecordBatch>,
    bytes: usize,
    rows: u64,
    segments: Vec<Segment>,
}

impl<'s> SegmentWriter<'s> {
    /// Segments of the ingestion-time partition that starts at `partition`
    /// (microseconds since the epoch), if the table has such.
    pub fn new(store: &'s Store, partition: Option<i64>) -> Self {
        Self {
            store,
            partition,
            pending: Vec::new(),
            bytes: 0,
            rows: 0,
            segments: Vec::new(),
        }
    }

    /// Adds rows.
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
        self.bytes += size(&batch);
        self.pending.push(batch);
        if self.bytes >= SEGMENT_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn flush(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.pending);
        self.bytes = 0;
        let segment = Segment::in_memory(batches, self.partition);
        self.segments.extend(self.store.stage(vec![segment])?);
        Ok(())
    }

    /// The segments.
    pub fn finish(mut self) -> Result<Vec<Segment>> {
        if !self.pending.is_empty() {
            self.flush()?;
        }
        Ok(self.segments)
    }
}

/// Bytes of a batch's rows; its buffers may hold others as well.
fn size(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns
        .map(|column| {
            let data = column.to_data();
            data.get_slice_memory_size()
                .unwrap_or_else(|_| column.get_array_memory_size())
        })
        .sum()
}
