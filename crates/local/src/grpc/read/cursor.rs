//! The rows of one stream from one offset on, as batches of about one message.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use tonic::Status;

use super::blocks::Block;
use super::pick::pick;
use super::registry::{Session, Stream};
use super::run::Run;
use super::size::buffer_bytes;
use crate::error::{Result, ServiceError};
use crate::schema::adapt_batch;

/// Size aimed at for the rows of one message.
const MESSAGE_BYTES: usize = 1 << 20;

/// Rows looked at in one step; bounds the work between two messages.
const STEP_ROWS: usize = 32 * 1024;

/// Rows of one message.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The rows, projected.
    pub(super) rows: RecordBatch,
    /// Share of the stream's rows looked at before these.
    pub(super) start: f64,
    /// The same with these.
    pub(super) end: f64,
}

/// Projected rows that wait to be sent, and how many rows of the stream were
/// looked at when the last of them was found.
#[derive(Debug)]
struct Pending {
    rows: RecordBatch,
    bytes: usize,
    position: usize,
}

/// Reads a stream once.
#[derive(Debug)]
pub(super) struct Cursor {
    session: Arc<Session>,
    blocks: Arc<[Block]>,
    next_block: usize,
    /// The blocks that are being read.
    run: Option<Run>,
    /// What is left of a stored batch, and its partition.
    stored: Option<(RecordBatch, Option<i64>)>,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// Rows that the caller has already.
    skip: usize,
    offset: i64,
    looked_at: usize,
    sent_at: usize,
    total: usize,
}

impl Cursor {
    /// Starts at `offset`, a number of rows that passed the restriction.
    pub(super) fn new(session: Arc<Session>, stream: &Stream, offset: i64) -> Result<Self, Status> {
        let total = stream.rows();
        let skip = usize::try_from(offset).map_err(|_| {
            Status::invalid_argument(format!("offset must not be negative, got {offset}"))
        })?;
        if skip > total {
            return Err(beyond(offset));
        }
        Ok(Self {
            session,
            blocks: Arc::clone(&stream.blocks),
            next_block: 0,
            run: None,
            stored: None,
            pending: VecDeque::new(),
            pending_bytes: 0,
            skip,
            offset,
            looked_at: 0,
            sent_at: 0,
            total,
        })
    }

    /// The next message's rows, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Chunk>, Status> {
        let mut ended = false;
        while self.pending_bytes < MESSAGE_BYTES {
            match self.step()? {
                Some(found) => self.push(found),
                None => {
                    ended = true;
                    break;
                }
            }
        }
        let Some(mut chunk) = self.take()? else {
            if self.skip > 0 {
                return Err(beyond(self.offset));
            }
            return Ok(None);
        };
        // Rows after the last that passed were looked at too.
        if ended && self.pending.is_empty() {
            chunk.end = 1.0;
        }
        Ok(Some(chunk))
    }

    /// Looks at some more rows and answers those that pass, possibly none; `None`
    /// at the end of the stream.
    fn step(&mut self) -> Result<Option<RecordBatch>> {
        let Some((stored, partition)) = self.next_stored()? else {
            return Ok(None);
        };
        self.looked_at += stored.num_rows();
        let Some(restriction) = &self.session.restriction else {
            let kept = self.drop_skipped(stored);
            let adapted = adapt_batch(&kept, &self.session.table_arrow)?;
            return self.session.projection.apply(&adapted, partition).map(Some);
        };
        let adapted = adapt_batch(&stored, &self.session.table_arrow)?;
        let mask = restriction.evaluate_in(&adapted, partition)?;
        let passing = mask.true_count();
        if passing <= self.skip {
            self.skip -= passing;
            return Ok(Some(RecordBatch::new_empty(Arc::clone(
                &self.session.projection.arrow,
            ))));
        }
        let projected = self.session.projection.apply(&adapted, partition)?;
        let kept = if passing == projected.num_rows() {
            projected
        } else {
            pick(&projected, &mask).map_err(|e| ServiceError::internal(format!("filter: {e}")))?
        };
        Ok(Some(self.drop_skipped(kept)))
    }

    fn drop_skipped(&mut self, rows: RecordBatch) -> RecordBatch {
        let skip = self.skip.min(rows.num_rows());
        self.skip -= skip;
        if skip == 0 {
            rows
        } else {
            rows.slice(skip, rows.num_rows() - skip)
        }
    }

    /// The next stored rows, at most [`STEP_ROWS`].
    fn next_stored(&mut self) -> Result<Option<(RecordBatch, Option<i64>)>> {
        loop {
            if let Some((batch, partition)) = self.stored.take() {
                let rows = batch.num_rows();
                if rows <= STEP_ROWS {
                    return Ok(Some((batch, partition)));
                }
                let rest = batch.slice(STEP_ROWS, rows - STEP_ROWS);
                self.stored = Some((rest, partition));
                return Ok(Some((batch.slice(0, STEP_ROWS), partition)));
            }
            if let Some(run) = &mut self.run {
                let next = run.next()?;
                self.looked_at += run.passed_over();
                match next {
                    Some(batch) => self.stored = Some((batch, run.partition)),
                    None => self.run = None,
                }
                continue;
            }
            let Some(rows) = self.next_run()? else {
                return Ok(None);
            };
            if rows > 0 {
                self.looked_at += rows;
                self.sent_at = self.looked_at;
            }
        }
    }

    /// Opens the next run of blocks that follow each other in one segment, or skips
    /// it where the caller has all of its rows: then the answer is their number,
    /// else zero. `None` at the end.
    fn next_run(&mut self) -> Result<Option<usize>> {
        let Some(first) = self.blocks.get(self.next_block) else {
            return Ok(None);
        };
        self.next_block += 1;
        let mut rows = first.rows.clone();
        while let Some(next) = self.blocks.get(self.next_block)
            && Arc::ptr_eq(&next.segment, &first.segment)
            && next.rows.start == rows.end
        {
            rows.end = next.rows.end;
            self.next_block += 1;
        }
        if self.session.restriction.is_none() && self.skip >= rows.len() {
            self.skip -= rows.len();
            return Ok(Some(rows.len()));
        }
        self.run = Some(Run::open(&self.session, &first.segment, rows)?);
        Ok(Some(0))
    }

    fn push(&mut self, rows: RecordBatch) {
        if rows.num_rows() > 0 {
            let bytes = buffer_bytes(&rows);
            self.pending_bytes += bytes;
            self.pending.push_back(Pending {
                rows,
                bytes,
                position: self.looked_at,
            });
        }
    }

    /// One message out of what is pending.
    fn take(&mut self) -> Result<Option<Chunk>> {
        let Some(first) = self.pending.pop_front() else {
            return Ok(None);
        };
        self.pending_bytes -= first.bytes;
        let (rows, position) = if first.bytes > MESSAGE_BYTES && first.rows.num_rows() > 1 {
            self.cut(first)
        } else {
            let (mut bytes, mut position) = (first.bytes, first.position);
            let mut parts = vec![first.rows];
            while let Some(next) = self.pending.front()
                && bytes + next.bytes <= MESSAGE_BYTES
            {
                let next = self.pending.pop_front().expect("front was there");
                self.pending_bytes -= next.bytes;
                bytes += next.bytes;
                position = next.position;
                parts.push(next.rows);
            }
            let rows = match parts.len() {
                1 => parts.swap_remove(0),
                _ => concat_batches(&self.session.projection.arrow, &parts)
                    .map_err(|e| ServiceError::internal(format!("concatenation: {e}")))?,
            };
            (rows, position)
        };
        let share = |position: usize| position as f64 / self.total.max(1) as f64;
        let chunk = Chunk {
            rows,
            start: share(self.sent_at),
            end: share(position),
        };
        self.sent_at = position;
        Ok(Some(chunk))
    }

    /// Cuts a message off the front of `large`; the rest stays pending.
    fn cut(&mut self, large: Pending) -> (RecordBatch, usize) {
        let rows = large.rows.num_rows();
        let mut head =
            usize::try_from(rows as u128 * MESSAGE_BYTES as u128 / large.bytes.max(1) as u128)
                .unwrap_or(rows)
                .clamp(1, rows);
        // Rows of very different sizes: look again until the head fits.
        while head > 1 && buffer_bytes(&large.rows.slice(0, head)) > 2 * MESSAGE_BYTES {
            head /= 2;
        }
        if head == rows {
            return (large.rows, large.position);
        }
        let rest = large.rows.slice(head, rows - head);
        let bytes = buffer_bytes(&rest);
        // Where the head ends among the rows looked at, as far as can be told.
        let position = large.position - (large.position - self.sent_at) * (rows - head) / rows;
        self.pending_bytes += bytes;
        self.pending.push_front(Pending {
            rows: rest,
            bytes,
            position: large.position,
        });
        (large.rows.slice(0, head), position)
    }
}

fn beyond(offset: i64) -> Status {
    Status::failed_precondition(format!("offset {offset} has not been allocated yet"))
}
