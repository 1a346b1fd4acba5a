//! Batches as requests, and what is left of a request whose rows were refused.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::failure::FailedRow;
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
    /// The number of the first row of the batch in what the writer was given, from
    /// 1.
    first_row: u64,
}

/// A request that can be sent.
pub(super) type Ready = (Origin, RequestRows);

/// Requests, and rows that are in none of them.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub(super) ready: Vec<Ready>,
    pub(super) failed: Vec<FailedRow>,
}

impl Cut {
    /// Cuts the rows of a batch into requests whose rows take at most `target` bytes.
    /// A row that is larger has a request to itself, unless it is larger than any
    /// request with `overhead` bytes around its rows can be.
    pub(super) fn new(
        encoded: EncodedRows,
        first_row: u64,
        target: usize,
        overhead: usize,
    ) -> Result<Self> {
        let mut cut = Cut::default();
        cut.failed.extend(
            encoded
                .errors()
                .iter()
                .map(|error| failed(error, first_row)),
        );
        let origin = Origin {
            encoded: Arc::new(encoded),
            positions: Vec::new(),
            first_row,
        };
        let most = MAX_APPEND_REQUEST_BYTES.saturating_sub(overhead);
        let limit = target.saturating_sub(overhead).max(1);
        let pieces = origin.encoded.pieces(limit)?;
        let oversize = cut.add(pieces, &origin);
        for row in oversize {
            let position = origin.position_of(row.row);
            let alone = origin.encoded.pieces_of(position..position + 1, most)?;
            let too_large = cut.add(alone, &origin);
            cut.failed.extend(too_large.iter().map(|error| FailedRow {
                row: number(error.row, first_row),
                column: None,
                message: "it alone is larger than a request may be (9 MiB)".to_string(),
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

    /// The number, from 1, that a row of the request has in what the writer was
    /// given.
    pub(super) fn row(&self, index: usize) -> u64 {
        let mut left = index;
        for range in &self.positions {
            if left < range.len() {
                return number(self.encoded.row_number(range.start + left), self.first_row);
            }
            left -= range.len();
        }
        self.first_row
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
        let mut messages = Vec::new();
        for range in &kept {
            let pieces = self
                .encoded
                .pieces_of(range.clone(), MAX_APPEND_REQUEST_BYTES)?;
            for piece in pieces.sendable {
                match piece.payload {
                    Payload::Protobuf(rows) => messages.extend(rows),
                    Payload::Arrow(_) => {
                        let rows = RequestRows::new(piece.payload, piece.rows.len());
                        ready.push((self.of(vec![piece.rows]), rows));
                    }
                }
            }
        }
        if !messages.is_empty() {
            let count = messages.len();
            let rows = RequestRows::new(Payload::Protobuf(messages), count);
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

fn failed(error: &RowError, first_row: u64) -> FailedRow {
    FailedRow {
        row: number(error.row, first_row),
        column: (!error.column.is_empty()).then(|| error.column.clone()),
        message: error.message.clone(),
    }
}

fn number(row: usize, first_row: u64) -> u64 {
    first_row.saturating_add(u64::try_from(row).unwrap_or(u64::MAX))
}
