//! Damage to the messages of a ReadRows answer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use prost::Message;
use tonic::body::Body;
use tonic::{Code, Status};

use super::frames::{Assembler, framed, payload};
use super::rule::{Action, Ending};
use crate::grpc::proto::ReadRowsResponse;
use crate::grpc::proto::read_rows_response::Rows;

/// Time for messages to be sent before the reset that follows them.
const LULL: Duration = Duration::from_millis(50);

/// The messages of `body` with what `action` does to them.
pub(super) fn damaged(body: Body, action: &Action) -> Body {
    Body::new(Damaged {
        inner: body,
        assembler: Assembler::default(),
        seen: 0,
        action: action.clone(),
        ended: false,
        lull: None,
    })
}

struct Damaged {
    inner: Body,
    assembler: Assembler,
    /// Complete messages so far.
    seen: u64,
    action: Action,
    ended: bool,
    /// Runs before a reset, which would overtake the messages sent so far.
    lull: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Damaged {
    fn altered(&self, message: Bytes) -> Bytes {
        let (Action::Corrupt { message: wanted }
        | Action::RowCount {
            message: wanted, ..
        }) = self.action
        else {
            return message;
        };
        if wanted != self.seen {
            return message;
        }
        let Ok(mut response) = ReadRowsResponse::decode(payload(&message)) else {
            return message;
        };
        match &self.action {
            Action::RowCount { add, .. } => {
                response.row_count = response.row_count.saturating_add(*add);
            }
            _ => match &mut response.rows {
                Some(Rows::ArrowRecordBatch(rows)) => {
                    rows.serialized_record_batch = scrambled(&rows.serialized_record_batch);
                }
                Some(Rows::AvroRows(rows)) => {
                    rows.serialized_binary_rows = scrambled(&rows.serialized_binary_rows);
                }
                None => {}
            },
        }
        framed(&response)
    }

    /// The end of a truncated stream.
    fn end(&mut self, ending: Ending) -> Result<Frame<Bytes>, Status> {
        self.ended = true;
        let mut trailers = http::HeaderMap::new();
        let status = match ending {
            Ending::Ok => Status::new(Code::Ok, ""),
            Ending::Unavailable => Status::unavailable("the stream was cut off"),
            // An error of the body is an RST_STREAM.
            Ending::Reset => return Err(Status::internal("the stream was cut off")),
        };
        status.add_header(&mut trailers)?;
        Ok(Frame::trailers(trailers))
    }
}

/// Other bytes where the beginning was, which holds what a decoder needs.
fn scrambled(bytes: &Bytes) -> Bytes {
    let mut out = bytes.to_vec();
    for byte in out.iter_mut().take(64) {
        *byte ^= 0xa5;
    }
    out.into()
}

impl HttpBody for Damaged {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            if let Action::Truncate { messages, ending } = self.action
                && self.seen >= messages
            {
                if ending == Ending::Reset {
                    let lull = self
                        .lull
                        .get_or_insert_with(|| Box::pin(tokio::time::sleep(LULL)));
                    std::task::ready!(lull.as_mut().poll(cx));
                }
                return Poll::Ready(Some(self.end(ending)));
            }
            if let Some(message) = self.assembler.next() {
                let message = self.altered(message);
                self.seen += 1;
                return Poll::Ready(Some(Ok(Frame::data(message))));
            }
            match std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                None => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
                Some(Err(e)) => return Poll::Ready(Some(Err(e))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.assembler.push(&data),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
    }
}
