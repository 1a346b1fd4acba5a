//! Encapsulated messages of the Arrow IPC format.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::read_record_batch;
use arrow::ipc::{Message, root_as_message};

use crate::engine::load::decoding;

/// The flatbuffer of a message and what follows it.
fn parts(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = message;
    if let Some(after) = rest.strip_prefix(&[0xff; 4]) {
        rest = after;
    }
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(i32::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

fn header(flatbuffer: &[u8]) -> Result<Message<'_>, String> {
    root_as_message(flatbuffer).map_err(|_| "it is no Arrow IPC message".to_string())
}

/// Reads a schema message.
pub(super) fn schema(message: &[u8]) -> Result<Schema, String> {
    let (flatbuffer, _) = parts(message).ok_or("it is no Arrow IPC message")?;
    let header = header(flatbuffer)?;
    let schema = header
        .header_as_schema()
        .ok_or("it is no Arrow IPC schema message")?;
    decoding(|| fb_to_schema(schema)).map_err(|_| "it cannot be decoded".to_string())
}

/// Reads a record-batch message.
pub(super) fn batch(message: &[u8], schema: &SchemaRef) -> Result<RecordBatch, String> {
    let (flatbuffer, body) =
        parts(message).ok_or("serialized_record_batch is no encapsulated Arrow IPC message.")?;
    let header = header(flatbuffer)
        .map_err(|_| "serialized_record_batch is no Arrow IPC message.".to_string())?;
    let batch = header.header_as_record_batch().ok_or(
        "serialized_record_batch must be one bare record-batch message, without a schema message before it.",
    )?;
    if batch.compression().is_some() {
        return Err("Compressed Arrow record batches are not supported.".into());
    }
    let length = usize::try_from(header.bodyLength()).unwrap_or(usize::MAX);
    if length > body.len() {
        return Err("serialized_record_batch ends before its body does.".into());
    }
    let body = Buffer::from(body);
    let version = header.version();
    let read = decoding(|| {
        read_record_batch(
            &body,
            batch,
            Arc::clone(schema),
            &HashMap::new(),
            None,
            &version,
        )
    });
    match read {
        Ok(Ok(batch)) => Ok(batch),
        Ok(Err(e)) => Err(format!(
            "serialized_record_batch does not fit the writer schema: {e}."
        )),
        Err(_) => Err("serialized_record_batch cannot be decoded.".into()),
    }
}
