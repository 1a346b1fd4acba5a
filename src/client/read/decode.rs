//! Responses as record batches.
//!
//! Nothing in a response is trusted: lengths and offsets are checked before
//! they are used, the memory that decompression may take is bounded, and
//! Arrow's own full validation runs over each array. Damaged bytes are an
//! error, never a panic.

use std::io::Read;
use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::ipc::{self, CompressionType, MessageHeader};
use bytes::Bytes;

use super::message;
use super::schema;
use crate::error::{Error, Result};

/// What one response may take in memory when nothing of it is compressed any
/// more. Responses are at most 128 MB on the wire; columns of few values can
/// shrink a good deal more than this allows for, and the service does not
/// make responses of that kind.
const MAX_DECODED_BYTES: usize = 1 << 30;

/// No array of 32-bit offsets is longer, and with this bound no size computed
/// from a length overflows.
const MAX_ROWS: usize = i32::MAX as usize;

/// LZ4 makes at most this many bytes out of one.
const LZ4_RATIO: usize = 255;

/// How much a buffer of the service's may shrink before its size is only believed
/// as far as its contents bear it out.
const BELIEVED_RATIO: usize = 32;

/// The length that stands before a compressed buffer and says that this one
/// was not worth compressing.
const NOT_COMPRESSED: i64 = -1;

/// How the payload of responses is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// As Arrow messages.
    Plain,
    /// As Arrow messages inside one LZ4 block, unless a response says otherwise.
    Lz4Block,
}

/// Decodes the responses of one session.
#[derive(Debug, Clone)]
pub(super) struct Decoder {
    schema: SchemaRef,
    payload: Payload,
}

impl Decoder {
    pub(super) fn new(schema: SchemaRef, payload: Payload) -> Self {
        Decoder { schema, payload }
    }

    /// The batches of a response's payload. One is usual; servers that frame
    /// every response as a whole stream may send none or several.
    pub(super) fn decode(
        &self,
        payload: Bytes,
        uncompressed_size: Option<i64>,
    ) -> Result<Vec<RecordBatch>> {
        let mut bytes = match (self.payload, uncompressed_size) {
            (Payload::Lz4Block, Some(size)) if size != NOT_COMPRESSED => {
                unwrap_block(&payload, size)?
            }
            (Payload::Lz4Block | Payload::Plain, _) => payload,
        };
        let mut batches = Vec::with_capacity(1);
        let mut budget = MAX_DECODED_BYTES;
        while let Some(message) = message::next(&mut bytes)? {
            let metadata = message.metadata()?;
            match metadata.header_type() {
                MessageHeader::RecordBatch => {
                    let header = metadata
                        .header_as_record_batch()
                        .ok_or_else(|| Error::data("an Arrow record batch has no header"))?;
                    let mut reader =
                        BatchReader::new(header, Buffer::from(message.body.clone()), &mut budget)?;
                    batches.push(reader.read(&self.schema)?);
                }
                MessageHeader::Schema => {
                    let sent = metadata
                        .header_as_schema()
                        .ok_or_else(|| Error::data("an Arrow schema has no header"))?;
                    if schema::convert(sent)?.fields() != self.schema.fields() {
                        return Err(Error::data(
                            "a response has another schema than its session",
                        ));
                    }
                }
                other => {
                    return Err(Error::data(format!(
                        "a response holds an Arrow message of kind {}, which BigQuery does not \
                         document",
                        other.variant_name().unwrap_or("unknown")
                    )));
                }
            }
        }
        Ok(batches)
    }
}

/// The contents of an LZ4 block of known size.
fn unwrap_block(block: &[u8], size: i64) -> Result<Bytes> {
    let size = usize::try_from(size)
        .ok()
        .filter(|size| *size <= MAX_DECODED_BYTES)
        .ok_or_else(too_large)?;
    if size / LZ4_RATIO > block.len() {
        return Err(Error::data(
            "a response's LZ4 compression cannot hold as much as it says",
        ));
    }
    let content = lz4_flex::block::decompress(block, size).map_err(|error| {
        Error::data("a response's LZ4 compression is damaged").with_source(error)
    })?;
    if content.len() != size {
        return Err(Error::data(
            "a response's LZ4 compression holds less than it says",
        ));
    }
    Ok(content.into())
}

/// Reads the arrays of one record batch in the order in which the format lays
/// them out: a node and some buffers for each field, fields depth first.
struct BatchReader<'a> {
    rows: usize,
    nodes: std::vec::IntoIter<Node>,
    buffers: std::vec::IntoIter<(usize, usize)>,
    body: Buffer,
    compression: Option<CompressionType>,
    budget: &'a mut usize,
}

/// Length and number of NULLs of an array.
struct Node {
    rows: usize,
    nulls: usize,
}

impl<'a> BatchReader<'a> {
    fn new(header: ipc::RecordBatch<'_>, body: Buffer, budget: &'a mut usize) -> Result<Self> {
        let damaged = || Error::data("the lengths in an Arrow record batch are wrong");
        let length = |value: i64| usize::try_from(value).map_err(|_| damaged());
        let mut nodes = Vec::new();
        for node in header.nodes().into_iter().flatten() {
            let (rows, nulls) = (length(node.length())?, length(node.null_count())?);
            if nulls > rows || rows > MAX_ROWS {
                return Err(damaged());
            }
            nodes.push(Node { rows, nulls });
        }
        let mut buffers = Vec::new();
        for buffer in header.buffers().into_iter().flatten() {
            let (start, size) = (length(buffer.offset())?, length(buffer.length())?);
            if start.checked_add(size).is_none_or(|end| end > body.len()) {
                return Err(damaged());
            }
            buffers.push((start, size));
        }
        let rows = length(header.length())?;
        if rows > MAX_ROWS {
            return Err(damaged());
        }
        Ok(BatchReader {
            rows,
            nodes: nodes.into_iter(),
            buffers: buffers.into_iter(),
            body,
            compression: header.compression().map(|compression| compression.codec()),
            budget,
        })
    }

    fn read(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = schema
            .fields()
            .iter()
            .map(|field| {
                let array = self.array(field)?;
                if array.len() == self.rows {
                    Ok(make_array(array))
                } else {
                    Err(wrong_column(field, "has a length of its own"))
                }
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .map_err(|error| Error::data(format!("a record batch is not valid: {error}")))
    }

    fn array(&mut self, field: &Field) -> Result<ArrayData> {
        let node = self
            .nodes
            .next()
            .ok_or_else(|| wrong_column(field, "is missing"))?;
        let validity = self.buffer(field)?;
        if node.nulls > 0 && validity.len() < node.rows.div_ceil(8) {
            return Err(wrong_column(field, "has a NULL bitmap that is too short"));
        }
        let mut array = ArrayData::builder(field.data_type().clone())
            .len(node.rows)
            .null_count(node.nulls)
            .null_bit_buffer((node.nulls > 0).then_some(validity))
            .align_buffers(true);
        match field.data_type() {
            DataType::Utf8 | DataType::Binary => {
                array = array
                    .add_buffer(self.offsets(field, node.rows)?)
                    .add_buffer(self.buffer(field)?);
            }
            DataType::List(element) => {
                array = array
                    .add_buffer(self.offsets(field, node.rows)?)
                    .add_child_data(self.array(element)?);
            }
            DataType::Struct(fields) => {
                for child in fields {
                    let child = self.array(child)?;
                    if child.len() != node.rows {
                        return Err(wrong_column(field, "has fields of unequal length"));
                    }
                    array = array.add_child_data(child);
                }
            }
            DataType::Boolean => {
                array = array.add_buffer(self.sized(field, node.rows.div_ceil(8))?);
            }
            // The schema admits no other type without a width of its own.
            fixed => {
                let width = fixed
                    .primitive_width()
                    .ok_or_else(|| wrong_column(field, "has a type that is not read"))?;
                array = array.add_buffer(self.sized(field, node.rows * width)?);
            }
        }
        array
            .build()
            .map_err(|error| wrong_column(field, &format!("is not valid: {error}")))
    }

    /// The next buffer as the offsets of so many rows. An array of no rows may
    /// leave them out.
    fn offsets(&mut self, field: &Field, rows: usize) -> Result<Buffer> {
        let buffer = self.buffer(field)?;
        if rows == 0 && buffer.is_empty() {
            return Ok(buffer);
        }
        shorten(buffer, field, (rows + 1) * size_of::<i32>())
    }

    /// The next buffer, exactly so many bytes of it.
    fn sized(&mut self, field: &Field, bytes: usize) -> Result<Buffer> {
        shorten(self.buffer(field)?, field, bytes)
    }

    /// The next buffer, decompressed.
    fn buffer(&mut self, field: &Field) -> Result<Buffer> {
        let (start, size) = self
            .buffers
            .next()
            .ok_or_else(|| wrong_column(field, "lacks a buffer"))?;
        let raw = self.body.slice_with_length(start, size);
        let Some(compression) = self.compression else {
            return Ok(raw);
        };
        if raw.is_empty() {
            return Ok(raw);
        }
        let (prefix, content) = raw
            .split_first_chunk::<8>()
            .ok_or_else(|| wrong_column(field, "has a compressed buffer without its length"))?;
        let size = i64::from_le_bytes(*prefix);
        if size == NOT_COMPRESSED {
            return Ok(raw.slice(prefix.len()));
        }
        let size = usize::try_from(size)
            .ok()
            .filter(|size| size <= self.budget)
            .ok_or_else(too_large)?;
        *self.budget -= size;
        decompress(compression, content, size)
            .map(Buffer::from_vec)
            .map_err(|what| wrong_column(field, &what))
    }
}

/// The first so many bytes. Padding may follow them, and Arrow's validation
/// panics where it does not end with a whole value.
fn shorten(buffer: Buffer, field: &Field, bytes: usize) -> Result<Buffer> {
    if buffer.len() < bytes {
        return Err(wrong_column(field, "has a buffer that is too short"));
    }
    Ok(buffer.slice_with_length(0, bytes))
}

/// Undoes the compression of a buffer whose size is known and allowed. Memory is
/// taken as the contents come, not as the size claims.
fn decompress(
    compression: CompressionType,
    content: &[u8],
    size: usize,
) -> std::result::Result<Vec<u8>, String> {
    let believed = size.min(content.len().saturating_mul(BELIEVED_RATIO));
    let mut decoded = Vec::with_capacity(believed);
    // A frame does not end where it should, so reading is bounded.
    let limit = u64::try_from(size).unwrap_or(u64::MAX).saturating_add(1);
    match compression {
        CompressionType::LZ4_FRAME => {
            lz4_flex::frame::FrameDecoder::new(content)
                .take(limit)
                .read_to_end(&mut decoded)
                .map_err(|error| format!("has damaged LZ4 compression ({error})"))?;
        }
        CompressionType::ZSTD if believed == size => {
            decoded = zstd::bulk::decompress(content, size)
                .map_err(|error| format!("has damaged Zstandard compression ({error})"))?;
        }
        CompressionType::ZSTD => {
            zstd::Decoder::with_buffer(content)
                .and_then(|decoder| decoder.take(limit).read_to_end(&mut decoded))
                .map_err(|error| format!("has damaged Zstandard compression ({error})"))?;
        }
        _ => return Err("is compressed in a way that BigQuery does not document".into()),
    }
    if decoded.len() == size {
        Ok(decoded)
    } else {
        Err("has a compressed buffer that holds more or less than it says".into())
    }
}

fn wrong_column(field: &Field, what: &str) -> Error {
    Error::data(format!("column '{}' of a response {what}", field.name()))
}

fn too_large() -> Error {
    Error::data(format!(
        "a response says that it takes more than {MAX_DECODED_BYTES} bytes, or less than none"
    ))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
