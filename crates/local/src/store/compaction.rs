//! Which segments are worth being put together.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

use super::segment::Segment;
use crate::error::{Result, ServiceError};

/// Segments below this size are put together.
const SMALL_BYTES: usize = 1 << 20;
/// Fewer than this many are left as they are.
const LEAST: usize = 32;
/// What is put together becomes about this large.
const MERGED_BYTES: usize = 16 << 20;

/// Small live segments that follow each other in one partition.
#[derive(Debug, Default)]
pub(super) struct SmallRun {
    pub(super) ids: Vec<u64>,
    segments: Vec<Arc<Segment>>,
}

impl SmallRun {
    /// Their rows as one segment; `None` when they were not all written under one
    /// schema.
    pub(super) fn merged(&self) -> Result<Option<Segment>> {
        let mut batches: Vec<RecordBatch> = Vec::new();
        for segment in &self.segments {
            batches.extend(segment.batches()?);
        }
        let Some(schema) = batches.first().map(RecordBatch::schema) else {
            return Ok(None);
        };
        if batches.iter().any(|batch| batch.schema() != schema) {
            return Ok(None);
        }
        let merged = concat_batches(&schema, &batches)
            .map_err(|e| ServiceError::internal(format!("segments cannot be put together: {e}")))?;
        let partition = self.segments.first().and_then(|s| s.partition());
        Ok(Some(Segment::in_memory(vec![merged], partition)))
    }
}

/// Finds runs in segments that are shown to it in order.
#[derive(Debug, Default)]
pub(super) struct RunFinder {
    runs: Vec<SmallRun>,
    current: SmallRun,
    bytes: usize,
    partition: Option<i64>,
}

impl RunFinder {
    /// The next live segment.
    pub(super) fn add(&mut self, id: u64, segment: &Arc<Segment>) {
        if segment.bytes() >= SMALL_BYTES {
            return self.end();
        }
        let fits = self.bytes + segment.bytes() <= MERGED_BYTES;
        if !fits || segment.partition() != self.partition {
            self.end();
        }
        self.partition = segment.partition();
        self.bytes += segment.bytes();
        self.current.ids.push(id);
        self.current.segments.push(Arc::clone(segment));
    }

    /// Something else is in between.
    pub(super) fn end(&mut self) {
        let run = std::mem::take(&mut self.current);
        self.bytes = 0;
        if run.ids.len() >= LEAST {
            self.runs.push(run);
        }
    }

    /// The runs that are worth it.
    pub(super) fn finish(mut self) -> Vec<SmallRun> {
        self.end();
        self.runs
    }
}
