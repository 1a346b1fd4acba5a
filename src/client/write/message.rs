//! AppendRowsRequest as it goes over the wire.
//!
//! Rows are encoded once and kept until they are acknowledged, perhaps sent
//! several times; what stands before them in a request is made for each sending,
//! because the first request of a call says more than the others. So a request is
//! two pieces of bytes, and the rows are last in it. Writer schemas stay bytes:
//! the generated messages drop annotations of fields that the service wants.

use bytes::{BufMut, Bytes, BytesMut};
use googleapis_storage::google::cloud::bigquery::storage::v1::AppendRowsResponse;
use googleapis_storage::google::cloud::bigquery::storage::v1::append_rows_request::MissingValueInterpretation;
use prost::Message as _;
use prost::encoding::{encode_varint, encoded_len_varint};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::types::encode::{Payload, RowFormat};

/// What the rows of a call look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterSchema {
    /// How rows are encoded. It cannot change within a call.
    pub format: RowFormat,
    /// A `DescriptorProto`, or an IPC schema message.
    pub bytes: Bytes,
}

/// The rows of one request.
#[derive(Debug, Clone)]
pub struct RequestRows {
    payload: Payload,
    count: usize,
    bytes: usize,
}

impl RequestRows {
    /// The rows of `payload`, which are so many.
    pub fn new(payload: Payload, count: usize) -> Self {
        let bytes = match &payload {
            Payload::Protobuf(rows) => rows.len(),
            Payload::Arrow(message) => framed_len(message.len()),
        };
        Self {
            payload,
            count,
            bytes,
        }
    }

    /// How many rows these are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes that they take in a request, with the framing of each.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What the first request of a call says besides its rows.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    pub(super) stream: String,
    pub(super) schema: WriterSchema,
    pub(super) trace_id: Option<String>,
}

// Fields of AppendRowsRequest.
const WRITE_STREAM: u32 = 1;
const OFFSET: u32 = 2;
const PROTO_ROWS: u32 = 4;
const ARROW_ROWS: u32 = 5;
const TRACE_ID: u32 = 6;
const MISSING_VALUE_INTERPRETATIONS: u32 = 7;
// Fields of ProtoData and ArrowData.
const WRITER_SCHEMA: u32 = 1;
const ROWS: u32 = 2;
// The only field that is used of ProtoSchema, ArrowSchema and ArrowRecordBatch.
const CONTENT: u32 = 1;

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub(super) struct Request {
    head: Bytes,
    rows: RequestRows,
}

impl Request {
    /// The request for these rows; the first of its call if there is an
    /// `opening`. `offset` is where the stream has to end for them. Columns of
    /// `defaulted`, which no row has, get their defaults.
    pub(super) fn new(
        opening: Option<&Opening>,
        offset: Option<i64>,
        defaulted: &[String],
        rows: &RequestRows,
    ) -> Self {
        let mut head = BytesMut::new();
        if let Some(opening) = opening {
            put_bytes(&mut head, WRITE_STREAM, opening.stream.as_bytes());
            if let Some(trace_id) = &opening.trace_id {
                put_bytes(&mut head, TRACE_ID, trace_id.as_bytes());
            }
        }
        if let Some(offset) = offset {
            // An Int64Value; prost knows it as i64.
            put_bytes(&mut head, OFFSET, &offset.encode_to_vec());
        }
        for column in defaulted {
            let mut entry = BytesMut::new();
            put_bytes(&mut entry, 1, column.as_bytes());
            put_key(&mut entry, 2, WireType::Varint);
            encode_varint(MissingValueInterpretation::DefaultValue as u64, &mut entry);
            put_bytes(&mut head, MISSING_VALUE_INTERPRETATIONS, &entry);
        }
        let mut data = BytesMut::new();
        if let Some(opening) = opening {
            let mut schema = BytesMut::new();
            put_bytes(&mut schema, CONTENT, &opening.schema.bytes);
            put_bytes(&mut data, WRITER_SCHEMA, &schema);
        }
        put_key(&mut data, ROWS, WireType::Bytes);
        encode_varint(rows.bytes as u64, &mut data);
        let field = match rows.payload {
            Payload::Protobuf(_) => PROTO_ROWS,
            Payload::Arrow(_) => ARROW_ROWS,
        };
        put_key(&mut head, field, WireType::Bytes);
        encode_varint((data.len() + rows.bytes) as u64, &mut head);
        head.put(data);
        Self {
            head: head.freeze(),
            rows: rows.clone(),
        }
    }

    /// Bytes of the whole message.
    pub(super) fn encoded_len(&self) -> usize {
        self.head.len() + self.rows.bytes
    }
}

/// Bytes at most that the first request of a call has besides its rows.
pub(super) fn most_overhead(opening: &Opening, defaulted: &[String]) -> usize {
    // Lengths are variable, so the longest of them are counted.
    const LENGTHS: usize = 3 * 10;
    // The largest has the longest form.
    let offset = Some(i64::MAX);
    let none = match opening.schema.format {
        RowFormat::Protobuf => Payload::Protobuf(Bytes::new()),
        RowFormat::Arrow => Payload::Arrow(Bytes::new().into()),
    };
    let none = RequestRows::new(none, 0);
    Request::new(Some(opening), offset, defaulted, &none).encoded_len() + LENGTHS
}

/// Bytes of a field of `length` bytes with its key and its length.
fn framed_len(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

enum WireType {
    Varint = 0,
    Bytes = 2,
}

fn put_key(buffer: &mut impl BufMut, field: u32, wire_type: WireType) {
    encode_varint(u64::from((field << 3) | wire_type as u32), buffer);
}

fn put_bytes(buffer: &mut BytesMut, field: u32, bytes: &[u8]) {
    put_key(buffer, field, WireType::Bytes);
    encode_varint(bytes.len() as u64, buffer);
    buffer.put_slice(bytes);
}

fn put(buffer: &mut impl BufMut, request: Request) {
    buffer.put(request.head);
    match request.rows.payload {
        Payload::Protobuf(rows) => buffer.put(rows),
        Payload::Arrow(message) => {
            put_key(buffer, CONTENT, WireType::Bytes);
            encode_varint(message.len() as u64, buffer);
            message.parts().for_each(|part| buffer.put_slice(part));
        }
    }
}

/// Requests as they are, responses as prost decodes them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AppendCodec;

impl Codec for AppendCodec {
    type Encode = Request;
    type Decode = AppendRowsResponse;
    type Encoder = AppendCodec;
    type Decoder = AppendCodec;

    fn encoder(&mut self) -> Self::Encoder {
        AppendCodec
    }

    fn decoder(&mut self) -> Self::Decoder {
        AppendCodec
    }
}

impl Encoder for AppendCodec {
    type Item = Request;
    type Error = Status;

    fn encode(&mut self, request: Request, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(request.encoded_len());
        put(buffer, request);
        Ok(())
    }
}

impl Decoder for AppendCodec {
    type Item = AppendRowsResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        AppendRowsResponse::decode(buffer)
            .map(Some)
            .map_err(|error| Status::data_loss(format!("a response cannot be decoded: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use googleapis_storage::google::cloud::bigquery::storage::v1::append_rows_request::Rows;
    use googleapis_storage::google::cloud::bigquery::storage::v1::{
        AppendRowsRequest, ProtoRows, ProtoSchema,
    };

    use super::*;

    fn opening(format: RowFormat) -> Opening {
        let descriptor = prost_types::DescriptorProto {
            name: Some("Row".into()),
            ..prost_types::DescriptorProto::default()
        };
        Opening {
            stream: "projects/p/datasets/d/tables/t/streams/_default".into(),
            schema: WriterSchema {
                format,
                bytes: match format {
                    RowFormat::Protobuf => descriptor.encode_to_vec().into(),
                    RowFormat::Arrow => Bytes::from_static(b"schema"),
                },
            },
            trace_id: Some("me".into()),
        }
    }

    fn bytes(request: &Request) -> Bytes {
        let mut whole = BytesMut::new();
        put(&mut whole, request.clone());
        assert_eq!(whole.len(), request.encoded_len());
        whole.freeze()
    }

    fn proto_rows(rows: &[&[u8]]) -> RequestRows {
        let message = ProtoRows {
            serialized_rows: rows.iter().map(|row| Bytes::copy_from_slice(row)).collect(),
        };
        RequestRows::new(
            Payload::Protobuf(message.encode_to_vec().into()),
            rows.len(),
        )
    }

    #[test]
    fn the_generated_message_reads_what_is_sent() {
        let rows = proto_rows(&[b"one", b"", &[7; 300]]);
        let opening = opening(RowFormat::Protobuf);
        let defaulted = ["a".to_string(), "ü".to_string()];
        let request = Request::new(Some(&opening), Some(1 << 40), &defaulted, &rows);
        let read = AppendRowsRequest::decode(bytes(&request)).unwrap();
        assert_eq!(read.write_stream, opening.stream);
        assert_eq!(read.trace_id, "me");
        assert_eq!(read.offset, Some(1 << 40));
        assert_eq!(read.missing_value_interpretations.len(), 2);
        assert_eq!(read.missing_value_interpretations["ü"], 2);
        let Some(Rows::ProtoRows(data)) = read.rows else {
            panic!("no rows")
        };
        let descriptor = data.writer_schema.unwrap().proto_descriptor.unwrap();
        assert_eq!(descriptor.name(), "Row");
        let read = data.rows.unwrap().serialized_rows;
        assert_eq!(read, [&b"one"[..], b"", &[7; 300]]);
        assert!(most_overhead(&opening, &defaulted) + rows.bytes() >= request.encoded_len());

        let later = Request::new(None, Some(0), &[], &rows);
        let read = AppendRowsRequest::decode(bytes(&later)).unwrap();
        assert_eq!(read.write_stream, "");
        assert_eq!(read.offset, Some(0));
        let Some(Rows::ProtoRows(data)) = read.rows else {
            panic!("no rows")
        };
        assert_eq!(data.writer_schema, None::<ProtoSchema>);
    }

    #[test]
    fn arrow_rows_stand_in_their_own_field() {
        let rows = RequestRows::new(Payload::Arrow(Bytes::from_static(b"batch").into()), 9);
        let opening = opening(RowFormat::Arrow);
        let request = Request::new(Some(&opening), None, &[], &rows);
        let read = AppendRowsRequest::decode(bytes(&request)).unwrap();
        assert_eq!(read.offset, None);
        let Some(Rows::ArrowRows(data)) = read.rows else {
            panic!("no rows")
        };
        assert_eq!(data.writer_schema.unwrap().serialized_schema, "schema");
        assert_eq!(data.rows.unwrap().serialized_record_batch, "batch");
    }
}
