//! Rows that are ready to be sent, and how they are cut into requests.

use std::fmt;
use std::ops::Range;

use arrow::array::RecordBatch;
use bytes::Bytes;

use super::ipc::{ArrowMessage, Messages};
use crate::error::Result;

/// Why a row cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// The row's number in the batch that was encoded, from 0.
    pub row: usize,
    /// The path of the column, as `address.zip`; empty when it is the whole row.
    pub column: String,
    /// What is wrong with the value and what to do about it.
    pub message: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.column.is_empty() {
            write!(f, "row {}: {}", self.row, self.message)
        } else {
            write!(
                f,
                "row {}, column '{}': {}",
                self.row, self.column, self.message
            )
        }
    }
}

/// The rows of one batch, encoded.
#[derive(Debug, Clone)]
pub struct EncodedRows {
    /// The numbers that the rows have in the batch, in ascending order; `None`
    /// when no row was left out.
    kept: Option<Vec<usize>>,
    errors: Vec<RowError>,
    body: Body,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    /// Row `i` is `bytes[ends[i - 1]..ends[i]]`, as a field `serialized_rows`.
    Protobuf {
        bytes: Bytes,
        ends: Vec<usize>,
    },
    Arrow(RecordBatch),
}

/// Rows for one request.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Which of the encoded rows these are: positions among
    /// [`EncodedRows::len`], not numbers in the batch.
    pub rows: Range<usize>,
    /// What the request carries.
    pub payload: Payload,
}

impl Piece {
    /// The bytes that the rows take in a request, with the framing of each.
    pub fn encoded_len(&self) -> usize {
        match &self.payload {
            Payload::Protobuf(rows) => rows.len(),
            Payload::Arrow(message) => framed(message.len()),
        }
    }
}

/// What a request carries of rows.
#[derive(Debug, Clone)]
pub enum Payload {
    /// A `ProtoRows` message: its field `serialized_rows` once for each row. A view of
    /// all rows of the batch, nothing is copied.
    Protobuf(Bytes),
    /// `ArrowRecordBatch.serialized_record_batch`: a bare record batch message.
    Arrow(ArrowMessage),
}

/// Encoded rows, cut into requests.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    /// What can be sent, in the order of the rows.
    pub sendable: Vec<Piece>,
    /// Rows that alone are larger than a request may be.
    pub oversize: Vec<RowError>,
}

impl EncodedRows {
    pub(super) fn new(kept: Option<Vec<usize>>, errors: Vec<RowError>, body: Body) -> Self {
        EncodedRows { kept, errors, body }
    }

    /// How many rows are encoded.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Protobuf { ends, .. } => ends.len(),
            Body::Arrow(batch) => batch.num_rows(),
        }
    }

    /// Whether no row is encoded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number in the batch of the encoded row at `position`.
    ///
    /// # Panics
    /// When there are not so many rows.
    pub fn row_number(&self, position: usize) -> usize {
        assert!(position < self.len(), "there is no row {position}");
        self.kept.as_ref().map_or(position, |kept| kept[position])
    }

    /// Why rows were left out, by ascending row number, one error for a row.
    pub fn errors(&self) -> &[RowError] {
        &self.errors
    }

    /// The serialized message of one row; `None` for the Arrow format.
    pub fn protobuf_row(&self, position: usize) -> Option<Bytes> {
        match &self.body {
            Body::Protobuf { bytes, ends } => Some(unframed(
                &bytes.slice(start_of(ends, position)..ends[position]),
            )),
            Body::Arrow(_) => None,
        }
    }

    /// All rows in as few pieces as possible whose encoded lengths, framing
    /// included, are at most `limit` bytes. A row that is longer alone is an
    /// error instead.
    ///
    /// # Errors
    /// Arrow cannot write a batch.
    pub fn pieces(&self, limit: usize) -> Result<Pieces> {
        self.pieces_of(0..self.len(), limit)
    }

    /// The same for some of the encoded rows: the ones around a row that the
    /// service refused, for example.
    ///
    /// # Errors
    /// Arrow cannot write a batch.
    pub fn pieces_of(&self, rows: Range<usize>, limit: usize) -> Result<Pieces> {
        let mut pieces = Pieces::default();
        match &self.body {
            Body::Protobuf { bytes, ends } => {
                self.cut_messages((bytes, ends), rows, limit, &mut pieces);
            }
            Body::Arrow(batch) => self.cut_batch(batch, rows, limit, &mut pieces)?,
        }
        Ok(pieces)
    }

    fn cut_messages(
        &self,
        (bytes, ends): (&Bytes, &[usize]),
        rows: Range<usize>,
        limit: usize,
        pieces: &mut Pieces,
    ) {
        let mut first = rows.start;
        while first < rows.end {
            let start = start_of(ends, first);
            let fitting = ends[first..rows.end].partition_point(|end| end - start <= limit);
            if fitting == 0 {
                let length = ends[first] - start;
                pieces.oversize.push(self.oversize(first, length, limit));
                first += 1;
                continue;
            }
            let rows = first..first + fitting;
            first = rows.end;
            pieces.sendable.push(Piece {
                payload: Payload::Protobuf(bytes.slice(start..ends[rows.end - 1])),
                rows,
            });
        }
    }

    fn cut_batch(
        &self,
        batch: &RecordBatch,
        rows: Range<usize>,
        limit: usize,
        pieces: &mut Pieces,
    ) -> Result<()> {
        let mut position = rows.start;
        let mut step = rows.len();
        let mut messages = Messages::of(batch)?;
        while position < rows.end {
            step = step.clamp(1, rows.end - position);
            let message = messages.next(&batch.slice(position, step))?;
            let length = framed(message.len());
            if length <= limit {
                pieces.sendable.push(Piece {
                    rows: position..position + step,
                    payload: Payload::Arrow(message),
                });
                position += step;
            } else if step == 1 {
                pieces.oversize.push(self.oversize(position, length, limit));
                position += 1;
                // What follows may be small again.
                step = rows.end - position;
            } else {
                // As many as should fit if all rows were alike, but fewer than half.
                let share = u128::try_from(step).unwrap_or(u128::MAX)
                    * u128::try_from(limit).unwrap_or(u128::MAX)
                    / u128::try_from(length).unwrap_or(u128::MAX);
                step = usize::try_from(share).unwrap_or(step).min(step - 1);
            }
        }
        Ok(())
    }

    fn oversize(&self, position: usize, length: usize, limit: usize) -> RowError {
        RowError {
            row: self.row_number(position),
            column: String::new(),
            message: format!(
                "the row takes {length} bytes, more than the {limit} that a request may have; \
                 raise max_append_request_bytes (9 MiB at most) or write less in the row"
            ),
        }
    }
}

/// The key of `ProtoRows.serialized_rows`: field 1, length-delimited.
pub(super) const ROW_KEY: u8 = 1 << 3 | 2;

/// Where the row at `position` begins.
fn start_of(ends: &[usize], position: usize) -> usize {
    position.checked_sub(1).map_or(0, |before| ends[before])
}

/// The message of a row that stands as a field.
fn unframed(row: &Bytes) -> Bytes {
    // The last byte of a varint is the first without the highest bit.
    let length = row.iter().skip(1).take_while(|byte| **byte >= 0x80).count() + 1;
    row.slice(1 + length..)
}

/// The bytes of a length-delimited field of a small number.
pub(super) fn framed(length: usize) -> usize {
    1 + varint_len(u64::try_from(length).unwrap_or(u64::MAX)) + length
}

/// The bytes of a varint.
#[inline]
pub(super) fn varint_len(value: u64) -> usize {
    // Seven bits to a byte, and zero takes one byte too.
    let bits = 64 - usize::try_from((value | 1).leading_zeros()).unwrap_or(0);
    bits.div_ceil(7)
}
