//! How rows are written: Arrow or Avro, and which compression.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteOptions, StreamWriter, write_message,
};
use bytes::Bytes;

use super::avro::{self, DisplayNames};
use super::picoseconds::Refinement;
use super::size::buffer_bytes;
use crate::error::{Result, ServiceError};
use crate::grpc::proto;
use crate::grpc::proto::read_rows_response;
use crate::grpc::proto::read_session;
use crate::schema::TableSchema;

/// Room for what a message says of one column, padding included; more is taken when
/// it is needed.
const METADATA_BYTES: usize = 256;

/// Whether the whole payload of a response is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseCompression {
    /// No.
    None,
    /// Raw LZ4 block.
    Lz4,
}

#[derive(Debug)]
enum Encoding {
    Arrow {
        /// The schema as an IPC message.
        schema: Bytes,
        buffers: Option<CompressionType>,
        refinement: Option<Refinement>,
    },
    Avro {
        /// The schema as JSON.
        schema: String,
        table: Arc<TableSchema>,
    },
}

/// How a session's rows are written.
#[derive(Debug)]
pub(super) struct Format {
    encoding: Encoding,
    /// See the type.
    pub(super) response: ResponseCompression,
}

fn ipc_options(buffers: Option<CompressionType>) -> Result<IpcWriteOptions> {
    IpcWriteOptions::default()
        .try_with_compression(buffers)
        .map_err(|e| ServiceError::internal(format!("IPC options: {e}")))
}

impl Format {
    /// Arrow IPC messages of `schema`, or of what `refinement` makes of it.
    pub(super) fn arrow(
        schema: &Schema,
        refinement: Option<Refinement>,
        buffers: Option<CompressionType>,
        response: ResponseCompression,
    ) -> Result<Self> {
        let schema = match &refinement {
            Some(refinement) => refinement.schema(),
            None => schema,
        };
        let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
            schema,
            &mut DictionaryTracker::new(false),
            &IpcWriteOptions::default(),
        );
        let mut bytes = Vec::new();
        write_message(&mut bytes, encoded, &IpcWriteOptions::default())
            .map_err(|e| ServiceError::internal(format!("IPC schema: {e}")))?;
        Ok(Self {
            encoding: Encoding::Arrow {
                schema: bytes.into(),
                buffers,
                refinement,
            },
            response,
        })
    }

    /// Avro datums of rows of `table`.
    pub(super) fn avro(
        table: &Arc<TableSchema>,
        names: DisplayNames,
        response: ResponseCompression,
    ) -> Result<Self> {
        Ok(Self {
            encoding: Encoding::Avro {
                schema: avro::schema(table, names)?,
                table: Arc::clone(table),
            },
            response,
        })
    }

    /// The schema for the session.
    pub(super) fn session_schema(&self) -> read_session::Schema {
        match &self.encoding {
            Encoding::Arrow { schema, .. } => {
                read_session::Schema::ArrowSchema(proto::ArrowSchema {
                    serialized_schema: schema.clone(),
                })
            }
            Encoding::Avro { schema, .. } => read_session::Schema::AvroSchema(proto::AvroSchema {
                schema: schema.clone(),
            }),
        }
    }

    /// The schema for the first message of a ReadRows call.
    pub(super) fn message_schema(&self) -> read_rows_response::Schema {
        match self.session_schema() {
            read_session::Schema::ArrowSchema(s) => read_rows_response::Schema::ArrowSchema(s),
            read_session::Schema::AvroSchema(s) => read_rows_response::Schema::AvroSchema(s),
        }
    }

    /// The payload of a message that holds `batch`.
    pub(super) fn encode(&self, batch: &RecordBatch) -> Result<Vec<u8>> {
        match &self.encoding {
            Encoding::Arrow {
                buffers,
                refinement: None,
                ..
            } => encode_arrow(batch, *buffers),
            Encoding::Arrow {
                buffers,
                refinement: Some(refinement),
                ..
            } => encode_arrow(&refinement.apply(batch)?, *buffers),
            Encoding::Avro { table, .. } => avro::encode(table, batch),
        }
    }

    /// The rows field of a message with `payload`.
    pub(super) fn rows(&self, payload: Bytes) -> read_rows_response::Rows {
        // `row_count` of the rows message is deprecated; the recorded service
        // leaves it 0 and counts in the response.
        #[allow(deprecated)]
        match &self.encoding {
            Encoding::Arrow { .. } => {
                read_rows_response::Rows::ArrowRecordBatch(proto::ArrowRecordBatch {
                    serialized_record_batch: payload,
                    row_count: 0,
                })
            }
            Encoding::Avro { .. } => read_rows_response::Rows::AvroRows(proto::AvroRows {
                serialized_binary_rows: payload,
                row_count: 0,
            }),
        }
    }
}

/// The batch as one IPC message. Arrow's stream writer copies each buffer once, to
/// where it belongs; `IpcDataGenerator::encode` collects the buffers first.
fn encode_arrow(batch: &RecordBatch, buffers: Option<CompressionType>) -> Result<Vec<u8>> {
    let failed = |e| ServiceError::internal(format!("IPC record batch: {e}"));
    let room = buffer_bytes(batch) + METADATA_BYTES * (batch.num_columns() + 1);
    let mut writer = StreamWriter::try_new_with_options(
        Vec::with_capacity(room),
        batch.schema_ref(),
        ipc_options(buffers)?,
    )
    .map_err(failed)?;
    // The stream begins with the schema, which goes its own way.
    writer.get_mut().clear();
    writer.write(batch).map_err(failed)?;
    Ok(std::mem::take(writer.get_mut()))
}
