//! Avro object container files: a header with the schema, and blocks of rows
//! (<https://avro.apache.org/docs/1.11.1/specification/#object-container-files>).

use std::cell::RefCell;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression as Level;
use flate2::write::DeflateEncoder;
use serde_json::Value as Json;
use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

use super::avro::{long, long_len, put_long};
use super::layout::LaidOut;
use super::spare;
use crate::error::{Error, ErrorKind, Result};
use crate::options::StagingCompression;

/// Blocks have about so many bytes before compression. The service reads a file
/// block by block and takes none above 16 MB.
const BLOCK_BYTES: usize = 1 << 20;
/// Files are written once, sent once and read once: there is nothing to be won by more.
const ZSTD_LEVEL: i32 = 1;
/// A thread keeps no more than this for its next block.
const MOST_KEPT: usize = 4 * BLOCK_BYTES;
/// Bytes of the mark behind the header and behind each block.
const SYNC: usize = 16;
/// The longest row that a block of 16 MB is sure to hold, whatever the codec does
/// to it.
pub(super) const MAX_ROW_BYTES: usize = 15 << 20;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct AvroFile {
    codec: Codec,
    sync: [u8; SYNC],
    /// The header and the blocks, in order.
    parts: Vec<Bytes>,
    /// Bytes of them.
    length: usize,
    block: Vec<u8>,
    block_rows: usize,
    /// What compression left of the blocks that were closed, to guess at the open one.
    closed: (usize, usize),
}

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Null,
    Deflate,
    Snappy,
    Zstandard,
}

impl Codec {
    /// The codec of Avro files that an option names, if it is one.
    pub(super) fn of(compression: StagingCompression) -> Option<Self> {
        match compression {
            StagingCompression::None => Some(Codec::Null),
            StagingCompression::Deflate => Some(Codec::Deflate),
            StagingCompression::Snappy => Some(Codec::Snappy),
            StagingCompression::Zstd => Some(Codec::Zstandard),
            StagingCompression::Gzip | StagingCompression::Lz4Raw => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Codec::Null => "null",
            Codec::Deflate => "deflate",
            Codec::Snappy => "snappy",
            Codec::Zstandard => "zstandard",
        }
    }
}

impl AvroFile {
    pub(super) fn new(schema: &Json, codec: Codec) -> Self {
        let sync: [u8; SYNC] = rand::random();
        let mut out = b"Obj\x01".to_vec();
        let schema = schema.to_string();
        append_long(2, &mut out);
        for (key, value) in [("avro.codec", codec.name()), ("avro.schema", &schema)] {
            append_bytes(key.as_bytes(), &mut out);
            append_bytes(value.as_bytes(), &mut out);
        }
        append_long(0, &mut out);
        out.extend_from_slice(&sync);
        AvroFile {
            codec,
            sync,
            length: out.len(),
            parts: vec![out.into()],
            block: Vec::new(),
            block_rows: 0,
            closed: (0, 0),
        }
    }

    /// About how many bytes the file would have if it ended now.
    pub(super) fn size(&self) -> usize {
        let (before, after) = self.closed;
        let open = self.block.len();
        // What is in the open block compresses like what came before it.
        let guess = if before == 0 {
            open
        } else {
            usize::try_from(open as u128 * after as u128 / before as u128).unwrap_or(open)
        };
        self.length + guess
    }

    /// Adds rows from the `from`-th on until the file has `limit` bytes, and answers
    /// how many of all rows are behind it then. A file takes at least one row.
    pub(super) fn write(&mut self, rows: &LaidOut, from: usize, limit: usize) -> Result<usize> {
        let block_bytes = BLOCK_BYTES.min(limit);
        let mut next = from;
        let start = from.checked_sub(1).map_or(0, |before| rows.ends[before]);
        let mut written = start;
        while next < rows.ends.len() {
            // As many rows as the block still takes, at least one.
            let room = block_bytes.saturating_sub(self.block.len());
            let within = rows.ends[next..].partition_point(|end| *end <= written + room);
            let until = next + within.max(1);
            let end = rows.ends[until - 1];
            if self.block_rows > 0 && self.block.len() + (end - written) > MAX_ROW_BYTES {
                self.close_block()?;
            }
            self.block.extend_from_slice(&rows.bytes[written..end]);
            self.block_rows += until - next;
            (next, written) = (until, end);
            if self.block.len() >= block_bytes {
                self.close_block()?;
            }
            if self.size() >= limit {
                break;
            }
        }
        Ok(next)
    }

    /// The whole file, in parts.
    pub(super) fn finish(mut self) -> Result<Vec<Bytes>> {
        self.close_block()?;
        Ok(self.parts)
    }

    fn close_block(&mut self) -> Result<()> {
        if self.block_rows == 0 {
            return Ok(());
        }
        let block = match self.codec {
            Codec::Null => self.finished(&self.block),
            Codec::Deflate => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Level::default());
                let packed = encoder
                    .write_all(&self.block)
                    .and_then(|()| encoder.finish())
                    .map_err(|error| incompressible(&error))?;
                self.finished(&packed)
            }
            Codec::Snappy => {
                let mut packed = snap::raw::Encoder::new()
                    .compress_vec(&self.block)
                    .map_err(|error| incompressible(&error))?;
                let mut crc = flate2::Crc::new();
                crc.update(&self.block);
                packed.extend_from_slice(&crc.sum().to_be_bytes());
                self.finished(&packed)
            }
            Codec::Zstandard => compress(&self.block, |packed| self.finished(packed))
                .map_err(|error| incompressible(&error))?,
        };
        self.closed.0 += self.block.len();
        self.closed.1 += block.len();
        self.length += block.len();
        self.parts.push(block);
        self.block.clear();
        self.block_rows = 0;
        Ok(())
    }

    /// The open block as the file has it, of rows that were compressed to `packed`.
    fn finished(&self, packed: &[u8]) -> Bytes {
        let (rows, size) = (long(self.block_rows), long(packed.len()));
        let length = long_len(rows) + long_len(size) + packed.len() + SYNC;
        let mut block = spare::buffer(length);
        let mut at = put_long(rows, &mut block);
        at += put_long(size, &mut block[at..]);
        let (content, sync) = block[at..].split_at_mut(packed.len());
        content.copy_from_slice(packed);
        sync.copy_from_slice(&self.sync);
        spare::bytes(block)
    }
}

thread_local! {
    /// What compression works with, and what comes of it: as much memory as a block takes.
    static ZSTD: RefCell<Option<(Compressor<'static>, Vec<u8>)>> = const { RefCell::new(None) };
}

/// Gives `then` a block, compressed.
fn compress<R>(block: &[u8], then: impl FnOnce(&[u8]) -> R) -> std::io::Result<R> {
    ZSTD.with_borrow_mut(|zstd| {
        let (mut compressor, mut packed) = match zstd.take() {
            Some(zstd) => zstd,
            None => (Compressor::new(ZSTD_LEVEL)?, Vec::new()),
        };
        packed.clear();
        packed.reserve(compress_bound(block.len()));
        compressor.compress_to_buffer(block, &mut packed)?;
        let done = then(&packed);
        if packed.capacity() <= MOST_KEPT {
            *zstd = Some((compressor, packed));
        }
        Ok(done)
    })
}

fn incompressible(error: &dyn std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("a block of an Avro file cannot be compressed: {error}"),
    )
}

fn append_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    append_long(long(bytes.len()), out);
    out.extend_from_slice(bytes);
}

fn append_long(value: i64, out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + long_len(value), 0);
    put_long(value, &mut out[at..]);
}
