//! Batches as requests, and what is left of a request whose rows were refused.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use bytes::{BufMut, BytesMut};

use super::failure::{Content, FailedRow};
use super::numbered::RowNumbers;
use crate::client::write::RequestRows;
use crate::error::Result;
use crate::options::MAX_APPEND_REQUEST_BYTES;
use crate::types::encode::{EncodedRows, Payload, Pieces, RowError};

/// Which rows a request has: kept with it until it is answered.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    encoded: Arc<EncodedRows>,
    /// Positions in `encoded`, ascending.
    positions: Vec<Range<usize>>,
    /// Of the batch's rows.
    numbers: Arc<RowNumbers>,
    /// The rows as they were given, where those that fail are to be kept.
    source: Option<RecordBatch>,
    /// Of a part of a request that is taken apart to find the rows that are wrong.
    narrowed: Option<Arc<Narrowed>>,
}

/// A request that is taken apart to find the rows that are wrong.
#[derive(Debug)]
struct Narrowed {
    rows: usize,
    /// Rows that were found.
    failed: AtomicUsize,
}

impl Narrowed {
    /// Counts a row that was found, and answers whether all are by now: then it is not
    /// the rows that are wrong.
    fn one_more_fails(&self) -> bool {
        self.failed.fetch_add(1, Ordering::Relaxed) + 1 == self.rows
    }
}

/// A request that is taken apart.
#[derive(Debug)]
pub(super) enum Halves {
    /// Its parts.
    Two(Vec<Ready>),
    /// It has one row, which is wrong.
    One(FailedRow),
    /// It has one row, and so many of the request before were refused as it is: all.
    NoneTaken(usize),
}

/// A request that can be sent.
pub(super) type Ready = (Origin, RequestRows);

/// Requests, and rows that are in none of them.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub(super) ready: Vec<Ready>,
    /// With their positions in the batch.
    pub(super) failed: Vec<(usize, FailedRow)>,
}

impl Cut {
    /// Cuts the rows of a batch into requests whose rows take at most `target` bytes.
    /// A row that is larger has a request to itself, unless it is larger than any
    /// request with `overhead` bytes around its rows can be. `source` is the batch, if
    /// rows that fail are to be kept.
    pub(super) fn new(
        encoded: EncodedRows,
        numbers: RowNumbers,
        target: usize,
        overhead: usize,
        source: Option<RecordBatch>,
    ) -> Result<Self> {
        let mut cut = Cut::default();
        let origin = Origin {
            encoded: Arc::new(encoded),
            positions: Vec::new(),
            numbers: Arc::new(numbers),
            source,
            narrowed: None,
        };
        let errors = origin.encoded.errors().iter();
        cut.failed.extend(errors.map(|error| {
            let column = (!error.column.is_empty()).then(|| error.column.clone());
            let failed = origin.failed_row(error.row, column, error.message.clone());
            (error.row, failed)
        }));
        let most = MAX_APPEND_REQUEST_BYTES.saturating_sub(overhead);
        let limit = target.saturating_sub(overhead).max(1);
        let pieces = origin.encoded.pieces(limit)?;
        let oversize = cut.add(pieces, &origin);
        for row in oversize {
            let position = origin.position_of(row.row);
            let alone = origin.encoded.pieces_of(position..position + 1, most)?;
            let too_large = cut.add(alone, &origin);
            cut.failed.extend(too_large.iter().map(|error| {
                let why = "it alone is larger than a request may be (9 MiB)";
                (
                    error.row,
                    origin.failed_row(error.row, None, why.to_string()),
                )
            }));
        }
        Ok(cut)
    }

    fn add(&mut self, pieces: Pieces, origin: &Origin) -> Vec<RowError> {
        for piece in pieces.sendable {
            let rows = RequestRows::new(piece.payload, piece.rows.len());
            let origin = Origin {
                positions: vec![piece.rows],
                ..origin.clone()
            };
            self.ready.push((origin, rows));
        }
        pieces.oversize
    }
}

impl Origin {
    /// The position of the row that has this number in its batch.
    fn position_of(&self, row: usize) -> usize {
        let (mut low, mut high) = (0, self.encoded.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.encoded.row_number(middle) < row {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The row at this place of the request, which failed.
    pub(super) fn failed(&self, index: usize, message: String) -> FailedRow {
        let mut left = index;
        for range in &self.positions {
            if left < range.len() {
                let row = self.encoded.row_number(range.start + left);
                return self.failed_row(row, None, message);
            }
            left -= range.len();
        }
        FailedRow {
            row: self.numbers.of(0),
            column: None,
            message,
            content: None,
        }
    }

    /// The row with this number in its batch, which failed.
    fn failed_row(&self, row: usize, column: Option<String>, message: String) -> FailedRow {
        FailedRow {
            row: self.numbers.of(row),
            column,
            message,
            content: self.source.as_ref().map(|source| Content::of(source, row)),
        }
    }

    /// The request as two, of half its rows each, because some row of it is refused and
    /// nobody says which.
    pub(super) fn halves(&self) -> Result<Halves> {
        let count: usize = self.positions.iter().map(Range::len).sum();
        if count == 1 {
            return Ok(match &self.narrowed {
                Some(narrowed) if narrowed.one_more_fails() => Halves::NoneTaken(narrowed.rows),
                _ => Halves::One(self.failed(0, String::new())),
            });
        }
        let narrowed = self.narrowed.clone().unwrap_or_else(|| {
            Arc::new(Narrowed {
                rows: count,
                failed: AtomicUsize::new(0),
            })
        });
        let origin = Self {
            narrowed: Some(narrowed),
            ..self.clone()
        };
        // What is not in the one half is in the other.
        let mut ready = origin.without(&(count / 2..count).collect())?;
        ready.extend(origin.without(&(0..count / 2).collect())?);
        Ok(Halves::Two(ready))
    }

    /// The request without the rows at these places of it: none, one, or several
    /// where rows of the format cannot be put together again.
    pub(super) fn without(&self, wrong: &BTreeSet<usize>) -> Result<Vec<Ready>> {
        let mut kept: Vec<Range<usize>> = Vec::new();
        for (index, position) in self.positions.iter().cloned().flatten().enumerate() {
            if !wrong.contains(&index) {
                match kept.last_mut() {
                    Some(last) if last.end == position => last.end += 1,
                    _ => kept.push(position..position + 1),
                }
            }
        }
        let mut ready: Vec<Ready> = Vec::new();
        let (mut messages, mut count) = (BytesMut::new(), 0);
        for range in &kept {
            let pieces = self
                .encoded
                .pieces_of(range.clone(), MAX_APPEND_REQUEST_BYTES)?;
            for piece in pieces.sendable {
                match piece.payload {
                    Payload::Protobuf(rows) => {
                        messages.put(rows);
                        count += piece.rows.len();
                    }
                    Payload::Arrow(_) => {
                        let rows = RequestRows::new(piece.payload, piece.rows.len());
                        ready.push((self.of(vec![piece.rows]), rows));
                    }
                }
            }
        }
        if count > 0 {
            let rows = RequestRows::new(Payload::Protobuf(messages.freeze()), count);
            ready.push((self.of(kept), rows));
        }
        Ok(ready)
    }

    fn of(&self, positions: Vec<Range<usize>>) -> Self {
        Self {
            positions,
            ..self.clone()
        }
    }
}
