//! Rows as Arrow IPC messages, each for itself: BigQuery takes no stream.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
    write_message,
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

/// The record batch message of a batch without dictionaries.
pub(super) fn record_batch(batch: &RecordBatch) -> Result<Bytes> {
    let options = options()?;
    let mut tracker = DictionaryTracker::new(true);
    let (_, data) = IpcDataGenerator::default()
        .encode(
            batch,
            &mut tracker,
            &options,
            &mut IpcWriteContext::default(),
        )
        .map_err(unwritable)?;
    message(data, &options)
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
