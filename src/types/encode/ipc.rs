//! Rows as Arrow IPC messages, each for itself: BigQuery takes no stream.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteOptions, StreamEncoder, write_message,
};
use bytes::Bytes;

use super::convert::{Converted, unwritable};
use super::rows::{Body, EncodedRows};
use crate::error::Result;

/// The schema message.
pub(super) fn schema(schema: &Schema) -> Result<Bytes> {
    let options = options()?;
    let mut tracker = DictionaryTracker::new(true);
    let data = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        schema,
        &mut tracker,
        &options,
    );
    message(data, &options)
}

/// A record batch message, in the pieces of memory that it was made of: what the batch
/// has stays where it is. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct ArrowMessage {
    parts: Arc<[Buffer]>,
    length: usize,
}

impl ArrowMessage {
    fn new(parts: Vec<Buffer>) -> Self {
        Self {
            length: parts.iter().map(Buffer::len).sum(),
            parts: parts.into(),
        }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Its bytes, one part after the other.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(Buffer::as_slice)
    }
}

impl From<Bytes> for ArrowMessage {
    fn from(message: Bytes) -> Self {
        Self::new(vec![message.into()])
    }
}

/// Makes messages of batches of one schema, which have no dictionaries.
pub(super) struct Messages(StreamEncoder);

impl Messages {
    pub(super) fn of(batch: &RecordBatch) -> Result<Self> {
        let mut encoder =
            StreamEncoder::try_new_with_options(&batch.schema(), options()?).map_err(unwritable)?;
        // A stream begins with its schema: what follows stands for itself.
        encoder.encode(&batch.slice(0, 0)).map_err(unwritable)?;
        Ok(Self(encoder))
    }

    pub(super) fn next(&mut self, batch: &RecordBatch) -> Result<ArrowMessage> {
        let parts = self.0.encode(batch).map_err(unwritable)?;
        Ok(ArrowMessage::new(parts))
    }
}

/// The rows as one batch, from which messages are cut.
pub(super) fn encode(schema: &SchemaRef, converted: Converted) -> Result<EncodedRows> {
    let options = RecordBatchOptions::new().with_row_count(Some(converted.rows));
    let batch = RecordBatch::try_new_with_options(schema.clone(), converted.columns, &options)
        .map_err(unwritable)?;
    let body = Body::Arrow(batch);
    Ok(EncodedRows::new(converted.kept, converted.errors, body))
}

/// Uncompressed, which is all that is documented, and without more padding than
/// the format asks for.
fn options() -> Result<IpcWriteOptions> {
    IpcWriteOptions::try_new(8, false, MetadataVersion::V5).map_err(unwritable)
}

fn message(data: EncodedData, options: &IpcWriteOptions) -> Result<Bytes> {
    let mut bytes = Vec::with_capacity(data.ipc_message.len() + data.arrow_data.len() + 64);
    write_message(&mut bytes, data, options).map_err(unwritable)?;
    Ok(bytes.into())
}
