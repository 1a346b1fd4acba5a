//! Avro object container files.

mod flat;

use std::cell::RefCell;
use std::io::{BufRead, Read};
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow_avro::reader::ReaderBuilder;
use serde_json::Value;

use self::flat::Flat;
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
    let opened: Vec<(Open, Option<Flat>)> = opened
        .into_iter()
        .map(|(_, open)| {
            let flat = Flat::of(&open.plain, &open.fields, &schema);
            (open, flat)
        })
        .collect();
    let mut parts = Vec::new();
    for (open, flat) in &opened {
        let blocks = blocks(open)?.into_iter();
        parts.extend(blocks.map(|block| (open, flat.as_ref(), block)));
    }
    let batches = in_parallel(parts, |(open, flat, block)| {
        let batch = read_block(open, flat, &block)?;
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

/// The rows of one block.
fn read_block(open: &Open, flat: Option<&Flat>, block: &Block) -> Result<RecordBatch> {
    let content = &open.body[block.content.clone()];
    match open.codec {
        Codec::Null => decode(open, flat, block.rows, content, &mut Vec::new()),
        Codec::Zstd => decompress(content, |content, texts| {
            decode(open, flat, block.rows, content, texts)
        })?,
        Codec::Other => with_library(block.rows, &open.header, &open.body[block.range.clone()]),
    }
}

/// Decodes what a block holds, which is not compressed any more.
fn decode(
    open: &Open,
    flat: Option<&Flat>,
    rows: usize,
    content: &[u8],
    texts: &mut Vec<Vec<u8>>,
) -> Result<RecordBatch> {
    if let Some(batch) = flat.and_then(|flat| flat.decode(content, rows, texts)) {
        return Ok(batch);
    }
    let mut front = open.header.clone();
    long(&mut front, rows);
    long(&mut front, content.len());
    let sync = &open.header[open.header.len() - SYNC..];
    with_library(rows, &front, content.chain(sync))
}

/// The rows of one block by the Avro library, which is given `front` and then `rest`. It is
/// asked for exactly as many as there are: it would look for ever for the next row in bytes
/// that follow the last one.
fn with_library(rows: usize, front: &[u8], rest: impl BufRead) -> Result<RecordBatch> {
    let builder = ReaderBuilder::new().with_batch_size(rows);
    let batch = decoding(|| builder.build(front.chain(rest))?.next().transpose())?;
    batch
        .map_err(failed)?
        .filter(|batch| batch.num_rows() == rows)
        .ok_or_else(|| failed(format_args!("a block lacks some of its {rows} rows")))
}

/// Memory that the next block uses again.
#[derive(Default)]
struct Kept {
    /// What the block holds.
    content: Vec<u8>,
    /// See [`Flat::decode`].
    texts: Vec<Vec<u8>>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// Gives `then` what a block holds, of one frame or several. The reader of Avro files would
/// ask the system for new memory for every block, again and again as the block grows.
fn decompress<R>(block: &[u8], then: impl FnOnce(&[u8], &mut Vec<Vec<u8>>) -> R) -> Result<R> {
    KEPT.with_borrow_mut(|Kept { content, texts }| {
        content.clear();
        let mut reader = zstd::Decoder::with_buffer(block)
            .map_err(failed)?
            .take(MAX_BLOCK_BYTES + 1);
        let size = reader.read_to_end(content).map_err(failed)?;
        let done = if size as u64 > MAX_BLOCK_BYTES {
            Err(failed("a block is too large"))
        } else {
            Ok(then(content, texts))
        };
        for kept in texts.iter_mut().chain([content]) {
            if kept.capacity() > MOST_KEPT {
                *kept = Vec::new();
            }
        }
        done
    })
}

fn failed(error: impl std::fmt::Display) -> crate::error::ServiceError {
    reading(format_args!(
        "The Apache Avro library failed to read data with the following error: {error}"
    ))
}

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Null,
    /// Decompressed here.
    Zstd,
    /// Decompressed by the Avro library.
    Other,
}

struct Open {
    /// The file's header with a schema that has no logical types, and without a codec
    /// whose blocks are decompressed here.
    header: Vec<u8>,
    codec: Codec,
    /// The schema without logical types.
    plain: Value,
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
    let plain = without_logical_types(&schema);
    let plain_text = plain.to_string();
    let mut rewritten = MAGIC.to_vec();
    long(&mut rewritten, entries.len());
    let codec = match entries.iter().find(|(key, _)| *key == b"avro.codec") {
        None | Some((_, b"null")) => Codec::Null,
        Some((_, b"zstandard")) => Codec::Zstd,
        Some(_) => Codec::Other,
    };
    for (key, value) in &entries {
        let value = match *key {
            b"avro.schema" => plain_text.as_bytes(),
            b"avro.codec" if codec == Codec::Zstd => b"null",
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
        codec,
        plain,
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
