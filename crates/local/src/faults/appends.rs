//! Faults of AppendRows: each request of the call counts as one.
//!
//! One filter stands in the requests and one in the responses. The first says of
//! every request what is to become of its response, in order; the second does it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::task::AtomicWaker;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use parking_lot::Mutex;
use prost::Message;
use tokio::time::Sleep;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service as TowerService;

use super::frames::{Assembler, framed, payload};
use super::rpc::{code, status, table_of_entity};
use super::rule::{Action, Detached};
use super::wire::Handle;
use crate::grpc::proto::{AppendRowsResponse, GetWriteStreamRequest, append_rows_response};
use crate::server::Service;
use crate::store::TableRef;

/// What becomes of the next response.
#[derive(Debug)]
enum Slot {
    Pass,
    Drop,
    /// The connection is reset when it arrives.
    Lose,
    /// This, without any from the server.
    Answer(Bytes),
    /// The call ends here.
    End(Status),
    /// Nothing any more.
    Silence,
}

#[derive(Debug, Default)]
struct Shared {
    slots: Mutex<VecDeque<Slot>>,
    waker: AtomicWaker,
}

impl Shared {
    fn push(&self, slot: Slot) {
        self.slots.lock().push_back(slot);
        self.waker.wake();
    }

    /// The status with which the call is to end, if it is.
    fn end(&self) -> Option<Status> {
        self.slots.lock().iter().find_map(|slot| match slot {
            Slot::End(status) => Some(status.clone()),
            _ => None,
        })
    }
}

/// Carries out an AppendRows call under the rules in force, also those that are
/// added while it runs.
pub(super) async fn run<S>(
    service: Arc<Service>,
    mut inner: S,
    request: Request<Body>,
) -> Result<Response<Body>, S::Error>
where
    S: TowerService<Request<Body>, Response = Response<Body>>,
{
    let shared = Arc::new(Shared::default());
    let handle = request.extensions().get::<Handle>().cloned();
    let filtered = request.map(|body| {
        Body::new(Requests {
            inner: body,
            assembler: Assembler::default(),
            shared: Arc::clone(&shared),
            service,
            table: None,
            handle: handle.clone(),
            held: None,
            out: VecDeque::new(),
            done: false,
        })
    });
    let answer = inner.call(filtered).await?;
    // A server that saw no request may have ended the call in the headers already.
    if answer.headers().contains_key("grpc-status")
        && let Some(status) = shared.end()
    {
        return Ok(status.into_http());
    }
    Ok(answer.map(|body| {
        Body::new(Responses {
            inner: body,
            assembler: Assembler::default(),
            shared,
            handle,
            ended: false,
        })
    }))
}

struct Requests {
    inner: Body,
    assembler: Assembler,
    shared: Arc<Shared>,
    service: Arc<Service>,
    /// Of the stream that was named last.
    table: Option<TableRef>,
    handle: Option<Handle>,
    /// A request that waits, and what happens to it then.
    held: Option<(Pin<Box<Sleep>>, Bytes, Option<Action>)>,
    out: VecDeque<Bytes>,
    done: bool,
}

impl Requests {
    fn act(&mut self, message: Bytes, action: Option<Action>) {
        let end = |this: &mut Self, slot: Slot| {
            this.done = true;
            this.shared.push(slot);
        };
        let pass = |this: &mut Self, slot: Slot| {
            this.shared.push(slot);
            this.out.push_back(message.clone());
        };
        match action {
            Some(Action::Status {
                code: name,
                message,
                retry_after_ms,
                storage_error,
            }) => {
                let code = code(&name).unwrap_or(Code::Unknown);
                let status = status(code, &message, retry_after_ms, storage_error.as_deref());
                end(self, Slot::End(status));
            }
            Some(Action::RateLimit { retry_after_ms }) => {
                let words = "Exceeds 'AppendRows throughput' quota";
                let status = status(Code::ResourceExhausted, words, retry_after_ms, None);
                end(self, Slot::End(status));
            }
            Some(Action::AppendError {
                code: name,
                message,
                storage_error,
            }) => {
                let code = code(&name).unwrap_or(Code::Unknown);
                let error = status(code, &message, None, storage_error.as_deref());
                self.shared.push(Slot::Answer(framed(&in_band(&error))));
            }
            Some(Action::Reset) => match &self.handle {
                Some(handle) => {
                    handle.reset();
                    end(self, Slot::Silence);
                }
                None => end(self, Slot::End(lost())),
            },
            Some(Action::Goaway { streams }) => {
                if let Some(handle) = &self.handle {
                    handle.goaway(streams);
                }
                match streams {
                    Detached::Finish => pass(self, Slot::Pass),
                    Detached::Refuse => end(self, Slot::Silence),
                }
            }
            Some(Action::Hang) => end(self, Slot::Silence),
            Some(Action::LoseAnswer) => pass(self, Slot::Lose),
            Some(Action::ApplyTwice) => {
                pass(self, Slot::Pass);
                pass(self, Slot::Drop);
            }
            // The others are not for AppendRows; rules that say so are not taken.
            _ => pass(self, Slot::Pass),
        }
    }
}

fn lost() -> Status {
    Status::unavailable("the connection was lost")
}

/// A response that carries an error and leaves the call as it is.
fn in_band(status: &Status) -> AppendRowsResponse {
    use googleapis_storage::google::rpc;
    let error = rpc::Status::decode(status.details()).unwrap_or_else(|_| rpc::Status::default());
    AppendRowsResponse {
        response: Some(append_rows_response::Response::Error(rpc::Status {
            code: status.code().into(),
            message: status.message().to_string(),
            details: error.details,
        })),
        ..AppendRowsResponse::default()
    }
}

impl HttpBody for Requests {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(message) = self.out.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(message))));
            }
            if self.done {
                return Poll::Ready(None);
            }
            if let Some((sleep, _, _)) = &mut self.held {
                std::task::ready!(sleep.as_mut().poll(cx));
                let (_, message, action) = self.held.take().expect("a request was held");
                self.act(message, action);
                continue;
            }
            if let Some(message) = self.assembler.next() {
                // The stream's name is the first field, as it is of this message.
                let named = GetWriteStreamRequest::decode(payload(&message));
                if let Ok(named) = named
                    && !named.name.is_empty()
                {
                    self.table = table_of_entity(&named.name);
                }
                let decision = self
                    .service
                    .faults
                    .decide("AppendRows", self.table.as_ref());
                if decision.delay.is_zero() {
                    self.act(message, decision.action);
                } else {
                    let sleep = Box::pin(tokio::time::sleep(decision.delay));
                    self.held = Some((sleep, message, decision.action));
                }
                continue;
            }
            match std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                None => {
                    self.done = true;
                    let rest = self.assembler.rest();
                    if !rest.is_empty() {
                        self.out.push_back(rest);
                    }
                }
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.assembler.push(&data),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
    }
}

struct Responses {
    inner: Body,
    assembler: Assembler,
    shared: Arc<Shared>,
    handle: Option<Handle>,
    ended: bool,
}

impl Responses {
    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.ended = true;
        let mut trailers = http::HeaderMap::new();
        Poll::Ready(Some(
            status
                .add_header(&mut trailers)
                .map(|()| Frame::trailers(trailers)),
        ))
    }
}

impl HttpBody for Responses {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.shared.waker.register(cx.waker());
        loop {
            let shared = Arc::clone(&self.shared);
            {
                let mut slots = shared.slots.lock();
                match slots.front() {
                    Some(Slot::Answer(_)) => {
                        if let Some(Slot::Answer(message)) = slots.pop_front() {
                            return Poll::Ready(Some(Ok(Frame::data(message))));
                        }
                    }
                    Some(Slot::End(status)) => {
                        let status = status.clone();
                        drop(slots);
                        return self.end(&status);
                    }
                    Some(Slot::Silence) => return Poll::Pending,
                    Some(Slot::Pass | Slot::Drop | Slot::Lose) | None => {}
                }
            }
            if let Some(message) = self.assembler.next() {
                let slot = shared.slots.lock().pop_front();
                match slot {
                    Some(Slot::Drop) => continue,
                    Some(Slot::Lose) => match &self.handle {
                        Some(handle) => {
                            handle.reset();
                            shared.slots.lock().push_front(Slot::Silence);
                            continue;
                        }
                        None => return self.end(&lost()),
                    },
                    _ => return Poll::Ready(Some(Ok(Frame::data(message)))),
                }
            }
            match std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.assembler.push(&data),
                    Err(trailers) => match shared.end() {
                        Some(status) => return self.end(&status),
                        None => return Poll::Ready(Some(Ok(trailers))),
                    },
                },
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => match shared.end() {
                    Some(status) => return self.end(&status),
                    None => {
                        self.ended = true;
                        return Poll::Ready(None);
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use http_body_util::{BodyExt, StreamBody};
    use tokio_stream::wrappers::ReceiverStream;

    use super::super::rule::Rule;
    use super::*;
    use crate::grpc::proto::AppendRowsRequest;

    /// A server that answers every request with its number.
    async fn server(
        seen: Arc<AtomicU64>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Infallible> {
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            let mut body = request.into_body();
            let mut assembler = Assembler::default();
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { break };
                assembler.push(&data);
                while assembler.next().is_some() {
                    let offset = seen.fetch_add(1, Ordering::SeqCst);
                    let message = AppendRowsResponse {
                        response: Some(append_rows_response::Response::AppendResult(
                            append_rows_response::AppendResult {
                                offset: i64::try_from(offset).ok(),
                            },
                        )),
                        ..AppendRowsResponse::default()
                    };
                    let frame = Frame::data(framed(&message));
                    if sender.send(Ok::<_, Status>(frame)).await.is_err() {
                        return;
                    }
                }
            }
            let mut trailers = http::HeaderMap::new();
            Status::new(Code::Ok, "").add_header(&mut trailers).unwrap();
            let _ = sender.send(Ok(Frame::trailers(trailers))).await;
        });
        Ok(Response::new(Body::new(StreamBody::new(
            ReceiverStream::new(receiver),
        ))))
    }

    /// What a client of three requests gets: offsets (−1 for an error in a
    /// response), the status, and how many requests the server saw.
    async fn outcome(rules: Vec<Rule>) -> (Vec<i64>, Code, u64) {
        let local = crate::LocalBigQuery::start(crate::LocalOptions::default())
            .await
            .unwrap();
        let service = Arc::clone(local.service());
        for rule in rules {
            service.faults.add(rule).unwrap();
        }
        let seen = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&seen);
        let inner = tower::service_fn(move |request| server(Arc::clone(&counter), request));
        let requests = (0..3).map(|i| {
            let message = AppendRowsRequest {
                write_stream: if i == 0 {
                    "projects/p/datasets/d/tables/t/streams/_default".into()
                } else {
                    String::new()
                },
                ..AppendRowsRequest::default()
            };
            Ok::<_, Status>(Frame::data(framed(&message)))
        });
        let body = Body::new(StreamBody::new(tokio_stream::iter(requests)));
        let answer = run(service, inner, Request::new(body)).await.unwrap();
        let mut code = answer.headers().get("grpc-status").map(|_| Code::Unknown);
        let headers = answer.headers().clone();
        let mut offsets = Vec::new();
        let mut body = answer.into_body();
        let mut assembler = Assembler::default();
        while let Some(frame) = body.frame().await {
            match frame.unwrap().into_data() {
                Ok(data) => assembler.push(&data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap();
                    code = Status::from_header_map(&trailers).map(|s| s.code());
                }
            }
            while let Some(message) = assembler.next() {
                let response = AppendRowsResponse::decode(payload(&message)).unwrap();
                offsets.push(match response.response.unwrap() {
                    append_rows_response::Response::AppendResult(r) => r.offset.unwrap(),
                    append_rows_response::Response::Error(_) => -1,
                });
            }
        }
        let code = Status::from_header_map(&headers)
            .map(|s| s.code())
            .or(code)
            .unwrap();
        (offsets, code, seen.load(Ordering::SeqCst))
    }

    fn second(action: Action) -> Vec<Rule> {
        vec![Rule::once("AppendRows", action).after(1).on_table("p.d.t")]
    }

    fn aborted() -> Action {
        Action::Status {
            code: "ABORTED".into(),
            message: "on purpose".into(),
            retry_after_ms: None,
            storage_error: None,
        }
    }

    #[tokio::test]
    async fn each_request_counts() {
        assert_eq!(outcome(vec![]).await, (vec![0, 1, 2], Code::Ok, 3));
        assert_eq!(
            outcome(second(aborted())).await,
            (vec![0], Code::Aborted, 1)
        );
        let first = Rule::once("AppendRows", aborted());
        assert_eq!(outcome(vec![first]).await, (vec![], Code::Aborted, 0));
        let elsewhere = Rule::once("AppendRows", aborted()).on_table("p.d.other");
        assert_eq!(outcome(vec![elsewhere]).await, (vec![0, 1, 2], Code::Ok, 3));
        let error = Action::AppendError {
            code: "INVALID_ARGUMENT".into(),
            message: "on purpose".into(),
            storage_error: Some("OFFSET_OUT_OF_RANGE".into()),
        };
        assert_eq!(outcome(second(error)).await, (vec![0, -1, 1], Code::Ok, 2));
        let twice = outcome(second(Action::ApplyTwice)).await;
        assert_eq!(twice, (vec![0, 1, 3], Code::Ok, 4));
        // Without a connection to reset the answer is lost by a status.
        let (offsets, code, seen) = outcome(second(Action::LoseAnswer)).await;
        assert_eq!((offsets, code), (vec![0], Code::Unavailable));
        assert!(seen >= 2);
        let limit = Action::RateLimit {
            retry_after_ms: Some(10),
        };
        assert_eq!(outcome(second(limit)).await.1, Code::ResourceExhausted);
    }

    #[tokio::test]
    async fn requests_wait_or_are_never_answered() {
        let started = Instant::now();
        let delayed = outcome(second(Action::Delay { ms: 120 })).await;
        assert_eq!(delayed, (vec![0, 1, 2], Code::Ok, 3));
        assert!(started.elapsed() >= Duration::from_millis(120));
        let hanging = outcome(second(Action::Hang));
        assert!(
            tokio::time::timeout(Duration::from_millis(500), hanging)
                .await
                .is_err()
        );
    }
}
