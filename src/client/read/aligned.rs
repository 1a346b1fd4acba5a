//! ReadRows responses, received into memory that Arrow can use as it is.
//!
//! Arrow's arrays want their buffers aligned to up to 16 bytes. A response that is
//! put together from HTTP/2 frames wherever there is room has its record batch at
//! any address, so that nearly every buffer of numbers would have to be copied once
//! more. Here the frames are copied, once, to where the buffers of the record batch
//! come to be aligned.
//!
//! The protocol stays tonic's: a layer below it takes the contents of the messages
//! out of the frames and passes empty messages on in their place, and the decoder
//! takes the contents from a queue whenever tonic has seen a message. Whatever is
//! not a whole uncompressed message is passed on as it came, so that tonic says
//! what is wrong with it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::buffer::{Buffer, MutableBuffer};
use bytes::{Buf, Bytes};
use futures::future::BoxFuture;
use googleapis_storage::google::cloud::bigquery::storage::v1::{ReadRowsRequest, ReadRowsResponse};
use http::uri::PathAndQuery;
use http_body::{Body as HttpBody, Frame};
use parking_lot::Mutex;
use prost::Message;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tower::Service;

use super::channel::MAX_MESSAGE_BYTES;

const READ_ROWS: &str = "/google.cloud.bigquery.storage.v1.BigQueryRead/ReadRows";

/// The flag and the length before each message
/// (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
const HEADER_BYTES: usize = 5;

/// What a message has before its record batch is found within so many bytes.
const LOOK_AHEAD: usize = 64;

/// What Arrow's own allocations are aligned to.
const ALIGNMENT: usize = 64;

/// Memory for a message is taken at once up to this size, and beyond it as the
/// contents come.
const BELIEVED_BYTES: usize = 16 << 20;

/// Calls ReadRows.
pub(super) async fn read_rows(
    channel: Channel,
    request: Request<ReadRowsRequest>,
) -> Result<Streaming<ReadRowsResponse>, Status> {
    let contents = Contents::default();
    let channel = Receiving {
        channel,
        contents: contents.clone(),
    };
    let mut grpc = Grpc::new(channel);
    grpc.ready()
        .await
        .map_err(|error| Status::from_error(Box::new(error)))?;
    let path = PathAndQuery::from_static(READ_ROWS);
    let responses = grpc
        .server_streaming(request, path, ReadRowsCodec(contents))
        .await?;
    Ok(responses.into_inner())
}

/// The contents of messages that tonic has yet to see.
#[derive(Debug, Clone, Default)]
struct Contents(Arc<Mutex<VecDeque<Bytes>>>);

/// A channel whose responses have empty messages.
#[derive(Debug, Clone)]
struct Receiving {
    channel: Channel,
    contents: Contents,
}

impl Service<http::Request<Body>> for Receiving {
    type Response = http::Response<ReceivingBody>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = Service::call(&mut self.channel, request);
        let contents = self.contents.clone();
        Box::pin(async move {
            let response = answer.await?;
            Ok(response.map(|body| ReceivingBody {
                body,
                contents,
                assembly: Assembly::default(),
            }))
        })
    }
}

struct ReceivingBody {
    body: Body,
    contents: Contents,
    assembly: Assembly,
}

impl HttpBody for ReceivingBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                // What is left of a message that was cut off.
                None => {
                    let rest = this.assembly.rest();
                    return Poll::Ready(rest.map(|rest| Ok(Frame::data(rest))));
                }
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => match this.assembly.rest() {
                    None => return Poll::Ready(Some(Ok(trailers))),
                    // The trailers of a call that was cut off in a message say no
                    // more than that.
                    Some(rest) => return Poll::Ready(Some(Ok(Frame::data(rest)))),
                },
            };
            let seen = this.assembly.take(data, &mut this.contents.0.lock());
            if !seen.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(seen))));
            }
        }
    }
}

/// A message in the making.
#[derive(Debug, Default)]
struct Assembly {
    header: [u8; HEADER_BYTES],
    /// How much of the header is there.
    header_bytes: usize,
    /// The first bytes, as long as it is open where they belong.
    start: Vec<u8>,
    buffer: Option<MutableBuffer>,
    /// Bytes that are still to come.
    missing: usize,
    /// Nothing is understood any more, and everything is passed on.
    broken: bool,
}

impl Assembly {
    /// Takes the contents of a frame. The answer is what tonic is to see in its
    /// place.
    fn take(&mut self, mut data: Bytes, whole: &mut VecDeque<Bytes>) -> Bytes {
        let mut seen = Vec::new();
        while !data.is_empty() {
            if self.broken {
                seen.extend_from_slice(&data);
                break;
            }
            if self.header_bytes < HEADER_BYTES {
                let count = data.len().min(HEADER_BYTES - self.header_bytes);
                let to = self.header_bytes..self.header_bytes + count;
                data.copy_to_slice(&mut self.header[to]);
                self.header_bytes += count;
                if self.header_bytes < HEADER_BYTES {
                    break;
                }
                let [flag, length @ ..] = self.header;
                self.missing = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                if flag != 0 || self.missing > MAX_MESSAGE_BYTES {
                    self.broken = true;
                    seen.extend_from_slice(&self.header);
                    continue;
                }
            }
            let count = data.len().min(self.missing);
            self.missing -= count;
            self.add(data.split_to(count));
            if self.missing == 0 {
                whole.push_back(self.finish());
                seen.extend_from_slice(&[0; HEADER_BYTES]);
            }
        }
        seen.into()
    }

    /// Adds contents of the message, whose number is already off what is missing.
    fn add(&mut self, data: Bytes) {
        if let Some(buffer) = &mut self.buffer {
            buffer.extend_from_slice(&data);
            return;
        }
        if self.start.is_empty() && (data.len() >= LOOK_AHEAD || self.missing == 0) {
            let mut buffer = place(&data, data.len() + self.missing);
            buffer.extend_from_slice(&data);
            self.buffer = Some(buffer);
            return;
        }
        self.start.extend_from_slice(&data);
        if self.start.len() >= LOOK_AHEAD || self.missing == 0 {
            let mut buffer = place(&self.start, self.start.len() + self.missing);
            buffer.extend_from_slice(&self.start);
            self.start.clear();
            self.buffer = Some(buffer);
        }
    }

    /// The contents of the message, which is whole, without the padding before it.
    fn finish(&mut self) -> Bytes {
        let [_, length @ ..] = self.header;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        self.header_bytes = 0;
        let Some(buffer) = self.buffer.take() else {
            return Bytes::new();
        };
        let whole = Bytes::from_owner(Aligned(buffer.into()));
        whole.slice(whole.len() - length..)
    }

    /// What tonic is to see of a message that is not whole, when there will be no
    /// more: the header of a message whose contents are missing.
    fn rest(&mut self) -> Option<Bytes> {
        if self.broken || self.header_bytes == 0 {
            return None;
        }
        self.header_bytes = 0;
        self.broken = true;
        Some(Bytes::from_static(&[0, 0, 0, 0, 1]))
    }
}

/// Memory for a message of `length` bytes that begins with `start`: padding as far
/// as it takes to align the buffers of the record batch.
fn place(start: &[u8], length: usize) -> MutableBuffer {
    let body = record_batch(start).map_or(0, |at| {
        at.saturating_add(buffers_after(start.get(at..).unwrap_or(&[])))
    });
    let padding = (ALIGNMENT - body % ALIGNMENT) % ALIGNMENT;
    let mut buffer = MutableBuffer::with_capacity(padding + length.min(BELIEVED_BYTES));
    buffer.resize(padding, 0);
    buffer
}

/// Where the record batch of a `ReadRowsResponse` begins, if it is among its first
/// bytes.
fn record_batch(start: &[u8]) -> Option<usize> {
    /// Field 4 of the response, and in it field 1: both with a length.
    const ARROW_RECORD_BATCH: u64 = 4 << 3 | LENGTH;
    const SERIALIZED_RECORD_BATCH: u64 = 1 << 3 | LENGTH;
    const VARINT: u64 = 0;
    const FIXED64: u64 = 1;
    const LENGTH: u64 = 2;
    const FIXED32: u64 = 5;

    let mut rest = start;
    let mut wanted = ARROW_RECORD_BATCH;
    loop {
        let tag = prost::encoding::decode_varint(&mut rest).ok()?;
        if tag == wanted {
            prost::encoding::decode_varint(&mut rest).ok()?;
            if wanted == SERIALIZED_RECORD_BATCH {
                return Some(start.len() - rest.len());
            }
            wanted = SERIALIZED_RECORD_BATCH;
            continue;
        }
        let skipped = match tag & 7 {
            VARINT => {
                prost::encoding::decode_varint(&mut rest).ok()?;
                0
            }
            FIXED64 => 8,
            LENGTH => usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?,
            FIXED32 => 4,
            _ => return None,
        };
        rest = rest.get(skipped..)?;
    }
}

/// How far after the beginning of an encapsulated Arrow message its buffers begin,
/// as far as can be told.
fn buffers_after(message: &[u8]) -> usize {
    const CONTINUATION: u32 = 0xFFFF_FFFF;
    let word = |at: usize| {
        let bytes = message.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let (prefix, metadata) = match word(0) {
        Some(CONTINUATION) => (8, word(4)),
        first => (4, first),
    };
    let metadata = metadata.and_then(|length| usize::try_from(length).ok());
    metadata.map_or(0, |length| length.saturating_add(prefix))
}

/// Arrow's memory as the owner of bytes.
struct Aligned(Buffer);

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Requests as prost encodes them; responses from the contents that were set aside.
#[derive(Debug, Clone)]
struct ReadRowsCodec(Contents);

impl Codec for ReadRowsCodec {
    type Encode = ReadRowsRequest;
    type Decode = ReadRowsResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        self.clone()
    }

    fn decoder(&mut self) -> Self::Decoder {
        self.clone()
    }
}

impl Encoder for ReadRowsCodec {
    type Item = ReadRowsRequest;
    type Error = Status;

    fn encode(&mut self, item: Self::Item, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer)
            .map_err(|error| Status::internal(format!("a request cannot be encoded: {error}")))
    }
}

impl Decoder for ReadRowsCodec {
    type Item = ReadRowsResponse;
    type Error = Status;

    fn decode(&mut self, _: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let contents = self.0.0.lock().pop_front();
        let contents = contents.ok_or_else(|| Status::internal("a message has no contents"))?;
        ReadRowsResponse::decode(contents)
            .map(Some)
            .map_err(|error| {
                Status::internal(format!("failed to decode Protobuf message: {error}"))
            })
    }
}

#[cfg(test)]
#[path = "aligned_tests.rs"]
mod tests;
