//! How rows are written: Arrow or Avro, and which compression.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use bytes::Bytes;

use crate::error::{Result, ServiceError};
use crate::grpc::proto;
use crate::grpc::proto::read_rows_response;
use crate::grpc::proto::read_session;

/// Whether the whole payload of a response is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseCompression {
    /// No.
    None,
    /// Raw LZ4 block.
    Lz4,
}

/// How a session's rows are written.
#[derive(Debug)]
pub(super) struct Format {
    /// The schema as every message would carry it.
    schema: Bytes,
    buffers: Option<CompressionType>,
    /// See the type.
    pub(super) response: ResponseCompression,
}

fn ipc_options(buffers: Option<CompressionType>) -> Result<IpcWriteOptions> {
    IpcWriteOptions::default()
        .try_with_compression(buffers)
        .map_err(|e| ServiceError::internal(format!("IPC options: {e}")))
}

impl Format {
    /// Arrow IPC messages of `schema`.
    pub(super) fn arrow(
        schema: &Schema,
        buffers: Option<CompressionType>,
        response: ResponseCompression,
    ) -> Result<Self> {
        let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
            schema,
            &mut DictionaryTracker::new(false),
            &IpcWriteOptions::default(),
        );
        let mut bytes = Vec::new();
        write_message(&mut bytes, encoded, &IpcWriteOptions::default())
            .map_err(|e| ServiceError::internal(format!("IPC schema: {e}")))?;
        Ok(Self {
            schema: bytes.into(),
            buffers,
            response,
        })
    }

    /// The schema for the session.
    pub(super) fn session_schema(&self) -> read_session::Schema {
        read_session::Schema::ArrowSchema(proto::ArrowSchema {
            serialized_schema: self.schema.clone(),
        })
    }

    /// The schema for the first message of a ReadRows call.
    pub(super) fn message_schema(&self) -> read_rows_response::Schema {
        read_rows_response::Schema::ArrowSchema(proto::ArrowSchema {
            serialized_schema: self.schema.clone(),
        })
    }

    /// The payload of a message that holds `batch`.
    pub(super) fn encode(&self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let failed = |e| ServiceError::internal(format!("IPC record batch: {e}"));
        let options = ipc_options(self.buffers)?;
        let (_, encoded) = IpcDataGenerator::default()
            .encode(
                batch,
                &mut DictionaryTracker::new(false),
                &options,
                &mut IpcWriteContext::default(),
            )
            .map_err(failed)?;
        let mut bytes =
            Vec::with_capacity(encoded.ipc_message.len() + encoded.arrow_data.len() + 64);
        write_message(&mut bytes, encoded, &options).map_err(failed)?;
        Ok(bytes)
    }

    /// The rows field of a message with `payload`.
    pub(super) fn rows(&self, payload: Bytes) -> read_rows_response::Rows {
        // `row_count` of the batch message is deprecated; the recorded service
        // leaves it 0 and counts in the response.
        #[allow(deprecated)]
        read_rows_response::Rows::ArrowRecordBatch(proto::ArrowRecordBatch {
            serialized_record_batch: payload,
            row_count: 0,
        })
    }
}
