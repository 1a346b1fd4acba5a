//! Avro object container files.

use std::cell::RefCell;
use std::io::{Cursor, Read};
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow_avro::reader::ReaderBuilder;
use serde_json::Value;

use super::avro_schema::{Rules, without_logical_types};
use super::convert::{FileField, FileKind};
use super::decode::decoding;
use super::encoding::contents;
use super::parallel::in_parallel;
use super::parquet::{columns_of, target_schema};
use super::{Columns, FormatOptions, LoadFile, Loaded, reading};
use crate::error::Result;

const MAGIC: &[u8; 4] = b"Obj\x01";
const SYNC: usize = 16;

/// Bytes of one block at most, decompressed.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// A thread keeps no more than this for its next block.
const MOST_KEPT: usize = 16 << 20;

/// Rows of one block at most.
const MAX_BLOCK_ROWS: usize = 1 << 24;

/// Reads Avro files. Columns match by name; the columns are those of the file whose
/// name comes last.
pub(super) fn read(
    files: &[LoadFile],
    options: &FormatOptions,
    columns: Columns<'_>,
) -> Result<Loaded> {
    let rules = Rules::read(options)?;
    let mut opened = Vec::with_capacity(files.len());
    for file in files {
        opened.push((file.name.as_str(), open(file, &rules)?));
    }
    let newest = opened
        .iter()
        .max_by_key(|(name, _)| *name)
        .map(|(_, open)| open.fields.as_slice())
        .unwrap_or_default();
    let schema = target_schema(newest, columns);
    let mut parts = Vec::new();
    for (_, open) in &opened {
        parts.extend(blocks(open)?.into_iter().map(|block| (open, block)));
    }
    let batches = in_parallel(parts, |(open, block)| {
        let batch = read_block(open, &block)?;
        columns_of(&batch, &open.fields, &schema, FileKind::Avro)
    })?;
    Ok(Loaded {
        schema,
        batches,
        bad_records: 0,
        errors: Vec::new(),
    })
}

/// Where a block lies in the body, and how many rows it says it has.
struct Block {
    rows: usize,
    range: Range<usize>,
    /// Where its rows lie, compressed as they are.
    content: Range<usize>,
}

/// The blocks that have rows.
fn blocks(open: &Open) -> Result<Vec<Block>> {
    let mut body = Header {
        data: &open.body,
        at: 0,
    };
    let sync = &open.header[open.header.len() - SYNC..];
    let mut blocks = Vec::new();
    while body.at < body.data.len() {
        let start = body.at;
        let block = body.long().zip(body.bytes());
        let (rows, content) = block.ok_or_else(|| failed("EOF reached"))?;
        let content = body.at - content.len()..body.at;
        let end = body.at + SYNC;
        if body.data.get(body.at..end) != Some(sync) {
            return Err(failed("Sync mismatch"));
        }
        body.at = end;
        let rows = usize::try_from(rows)
            .ok()
            .filter(|rows| *rows <= MAX_BLOCK_ROWS)
            .ok_or_else(|| failed(format_args!("Invalid number of objects in a block: {rows}")))?;
        if rows > 0 {
            blocks.push(Block {
                rows,
                range: start..end,
                content,
            });
        }
    }
    Ok(blocks)
}

/// The rows of one block. The reader is asked for exactly as many as there are: it
/// would look for ever for the next row in bytes that follow the last one.
fn read_block(open: &Open, block: &Block) -> Result<RecordBatch> {
    let builder = ReaderBuilder::new().with_batch_size(block.rows);
    let header = Cursor::new(open.header.as_slice());
    let batch = if open.zstd {
        decompress(&open.body[block.content.clone()], |content| {
            let mut front = Vec::new();
            long(&mut front, block.rows);
            long(&mut front, content.len());
            let sync = &open.header[open.header.len() - SYNC..];
            let input = header.chain(Cursor::new(front)).chain(content).chain(sync);
            decoding(|| builder.build(input)?.next().transpose())
        })?
    } else {
        let input = header.chain(&open.body[block.range.clone()]);
        decoding(|| builder.build(input)?.next().transpose())
    };
    batch?
        .map_err(failed)?
        .filter(|batch| batch.num_rows() == block.rows)
        .ok_or_else(|| {
            failed(format_args!(
                "a block lacks some of its {} rows",
                block.rows
            ))
        })
}

thread_local! {
    /// What the last block held: as much memory as the next one takes.
    static CONTENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Gives `then` what a block holds, of one frame or several. The reader of Avro files would
/// ask the system for new memory for every block, again and again as the block grows.
fn decompress<R>(block: &[u8], then: impl FnOnce(&[u8]) -> R) -> Result<R> {
    CONTENT.with_borrow_mut(|content| {
        content.clear();
        let mut reader = zstd::Decoder::with_buffer(block)
            .map_err(failed)?
            .take(MAX_BLOCK_BYTES + 1);
        let size = reader.read_to_end(content).map_err(failed)?;
        let done = if size as u64 > MAX_BLOCK_BYTES {
            Err(failed("a block is too large"))
        } else {
            Ok(then(content))
        };
        if content.capacity() > MOST_KEPT {
            *content = Vec::new();
        }
        done
    })
}

fn failed(error: impl std::fmt::Display) -> crate::error::ServiceError {
    reading(format_args!(
        "The Apache Avro library failed to read data with the following error: {error}"
    ))
}

struct Open {
    /// The file's header with a schema that has no logical types, and without a codec
    /// whose blocks are decompressed here.
    header: Vec<u8>,
    /// Whether blocks are compressed by zstd.
    zstd: bool,
    /// The blocks.
    body: bytes::Bytes,
    fields: Vec<FileField>,
}

fn open(file: &LoadFile, rules: &Rules) -> Result<Open> {
    let data = contents(file)?;
    let mut header = Header {
        data: &data,
        at: MAGIC.len(),
    };
    let invalid = || {
        reading(
            "The Apache Avro library failed to parse the header with the following error: \
             Invalid data file. Magic does not match.",
        )
    };
    if !data.starts_with(MAGIC) {
        return Err(invalid());
    }
    let entries = header.entries().ok_or_else(invalid)?;
    let body = header.at.checked_add(SYNC).filter(|end| *end <= data.len());
    let body = body.ok_or_else(invalid)?;
    let schema = entries
        .iter()
        .find(|(key, _)| *key == b"avro.schema")
        .and_then(|(_, value)| serde_json::from_slice::<Value>(value).ok())
        .ok_or_else(invalid)?;
    let fields = rules.columns(&schema)?;
    let plain = without_logical_types(&schema).to_string();
    let mut rewritten = MAGIC.to_vec();
    long(&mut rewritten, entries.len());
    let zstd = entries.contains(&(b"avro.codec", b"zstandard"));
    for (key, value) in &entries {
        let value = match *key {
            b"avro.schema" => plain.as_bytes(),
            b"avro.codec" if zstd => b"null",
            _ => value,
        };
        for part in [key, value] {
            long(&mut rewritten, part.len());
            rewritten.extend_from_slice(part);
        }
    }
    rewritten.push(0);
    rewritten.extend_from_slice(&data[header.at..body]);
    Ok(Open {
        header: rewritten,
        zstd,
        body: data.slice(body..),
        fields,
    })
}

/// Reads a header's metadata.
struct Header<'a> {
    data: &'a [u8],
    at: usize,
}

type Entry<'a> = (&'a [u8], &'a [u8]);

impl<'a> Header<'a> {
    fn entries(&mut self) -> Option<Vec<Entry<'a>>> {
        let mut entries = Vec::new();
        loop {
            let count = self.long()?;
            if count == 0 {
                return Some(entries);
            }
            if count < 0 {
                // A negative count is followed by the block's size in bytes.
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                let key = self.bytes()?;
                let value = self.bytes()?;
                entries.push((key, value));
            }
        }
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.long()?).ok()?;
        let end = self.at.checked_add(length)?;
        let bytes = self.data.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    /// A zigzag variable-length integer.
    fn long(&mut self) -> Option<i64> {
        let mut value: u64 = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.data.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                let magnitude = i64::try_from(value >> 1).ok()?;
                return Some(if value & 1 == 0 {
                    magnitude
                } else {
                    -magnitude - 1
                });
            }
        }
        None
    }
}

/// Writes a length as a zigzag variable-length integer.
fn long(out: &mut Vec<u8>, length: usize) {
    let mut value = u64::try_from(length).unwrap_or(u64::MAX >> 1) << 1;
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0);
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests;
