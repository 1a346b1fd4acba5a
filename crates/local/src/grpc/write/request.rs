//! AppendRowsRequest as this server reads it: descriptors and rows stay bytes, so
//! that rows are decoded straight into columns and annotations of fields that the
//! generated messages drop can be read.

use bytes::Bytes;
use std::collections::HashMap;

/// The request, with the service's field numbers.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AppendRequest {
    /// Where the rows go; may be left out after the first request of a connection.
    #[prost(string, tag = "1")]
    pub(super) write_stream: String,
    /// Position at which the rows must start.
    #[prost(message, optional, tag = "2")]
    pub(super) offset: Option<i64>,
    /// Rows and their schema.
    #[prost(oneof = "Rows", tags = "4, 5")]
    pub(super) rows: Option<Rows>,
    /// What the client calls itself.
    #[prost(string, tag = "6")]
    pub(super) trace_id: String,
    /// By column, for this request.
    #[prost(map = "string, int32", tag = "7")]
    pub(super) missing_values: HashMap<String, i32>,
    /// For all columns, until it is said again.
    #[prost(int32, tag = "8")]
    pub(super) default_missing_value: i32,
}

/// Rows in one of the two formats.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Rows {
    #[prost(message, tag = "4")]
    Proto(ProtoData),
    #[prost(message, tag = "5")]
    Arrow(ArrowData),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProtoData {
    #[prost(message, optional, tag = "1")]
    pub(super) writer_schema: Option<ProtoSchema>,
    /// A `ProtoRows` message.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(super) rows: Option<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProtoSchema {
    /// A `DescriptorProto`.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(super) descriptor: Option<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ArrowData {
    #[prost(message, optional, tag = "1")]
    pub(super) writer_schema: Option<ArrowSchema>,
    #[prost(message, optional, tag = "2")]
    pub(super) rows: Option<ArrowBatch>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ArrowSchema {
    /// An encapsulated IPC schema message.
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) serialized_schema: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ArrowBatch {
    /// An encapsulated IPC record-batch message.
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) serialized_record_batch: Bytes,
}
