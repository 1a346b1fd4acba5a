//! Consecutive rows of one segment, read batch by batch.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::registry::Session;
use crate::error::{Result, ServiceError};
use crate::store::{Segment, SegmentReader, Zone};

/// Some rows of a segment, of which those are passed over that the session's restriction
/// rules out by what is known of whole batches.
#[derive(Debug)]
pub(super) struct Run {
    reader: SegmentReader,
    /// Start of the ingestion-time partition, in microseconds since the epoch.
    pub(super) partition: Option<i64>,
    /// Row of the segment at which the reader is.
    at: usize,
    rows: Range<usize>,
    /// Whether each batch from the next one on can have rows that pass; all of those
    /// behind the last one can.
    may_pass: std::vec::IntoIter<bool>,
    /// Rows passed over that were not yet told.
    passed_over: usize,
}

impl Run {
    /// Starts in front of `rows` of `segment`.
    pub(super) fn open(session: &Session, segment: &Segment, rows: Range<usize>) -> Result<Self> {
        Ok(Self {
            reader: segment.reader()?,
            partition: segment.partition(),
            at: 0,
            rows,
            may_pass: may_pass(session, segment).into_iter(),
            passed_over: 0,
        })
    }

    /// The run's part of the next batch that has one.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.at < self.rows.end {
            let start = self.at;
            if self.may_pass.next() == Some(false)
                && let Some(rows) = self.reader.pass_over()
            {
                self.at += rows;
                self.passed_over += self.part(start).len();
                continue;
            }
            let Some(batch) = self.reader.next().transpose()? else {
                return Err(ServiceError::internal(format!(
                    "stored rows cannot be read: {} of {} are there",
                    self.at, self.rows.end
                )));
            };
            self.at += batch.num_rows();
            let part = self.part(start);
            if !part.is_empty() {
                return Ok(Some(batch.slice(part.start - start, part.len())));
            }
        }
        Ok(None)
    }

    /// The rows passed over since this was last asked.
    pub(super) fn passed_over(&mut self) -> usize {
        std::mem::take(&mut self.passed_over)
    }

    /// The run's rows among those from `start` to where the reader is.
    fn part(&self, start: usize) -> Range<usize> {
        let (from, to) = (self.rows.start.max(start), self.rows.end.min(self.at));
        from..to.max(from)
    }
}

/// For each batch of the segment, whether rows of it can pass.
fn may_pass(session: &Session, segment: &Segment) -> Vec<bool> {
    let mut may: Vec<bool> = Vec::new();
    for bound in &session.bounds {
        let name = session.table_arrow.field(bound.column).name();
        let zones: Option<Arc<[Zone]>> = segment.zones(name, &bound.data_type);
        let zones = zones.as_deref().unwrap_or_default();
        may.resize(may.len().max(zones.len()), true);
        for (may, zone) in may.iter_mut().zip(zones) {
            *may &= zone.may_hold(bound.least, bound.greatest);
        }
    }
    may
}
