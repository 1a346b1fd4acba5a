//! A Storage Read server that does as a script says: every failure arrives
//! over a real socket.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use base64::Engine as _;
use bytes::{BufMut, Bytes, BytesMut};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion_bigquery::client::Client;
use datafusion_bigquery::options::{Options, RawOptions};
use googleapis_storage::google::cloud::bigquery::storage::v1::{
    ArrowRecordBatch, ArrowSchema, CreateReadSessionRequest, ReadRowsRequest, ReadRowsResponse,
    ReadSession, ReadStream, ThrottleState, read_rows_response::Rows, read_session,
};
use googleapis_storage::google::rpc;
use http_body::Frame;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Code;
use tonic::service::Routes;

/// One thing that the server does during a call.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Sends a response.
    Send(ReadRowsResponse),
    /// Sends bytes in a frame of their own, whatever they are.
    SendRaw(Bytes),
    /// Ends the call with a status.
    End(Code, &'static str),
    /// Ends the call with a status that asks to wait.
    EndWithWait(Code, Duration),
    /// Ends the call as if something in between had cut it off.
    Cut,
    /// Resets the HTTP/2 stream.
    Reset,
    /// Sends nothing more, and does not end either.
    Hang,
    /// Waits before it goes on.
    Pause(Duration),
}

/// What happens in the call of this number (from 0) with this request.
type Script = dyn Fn(usize, &ReadRowsRequest) -> Vec<Act> + Send + Sync;

/// What happens in the session call of this number.
type SessionScript =
    dyn Fn(usize, &CreateReadSessionRequest) -> Result<ReadSession, Box<Act>> + Send + Sync;

/// A running scripted server; dropping it closes every connection.
pub(crate) struct FakeRead {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    script: Box<Script>,
    sessions: Box<SessionScript>,
    calls: Mutex<Vec<ReadRowsRequest>>,
    session_calls: Mutex<Vec<CreateReadSessionRequest>>,
    routing: Mutex<Vec<String>>,
    cancelled: Arc<Mutex<usize>>,
}

impl FakeRead {
    /// A server whose sessions have a single stream of one INT64 column `n`.
    pub(crate) async fn start(
        script: impl Fn(usize, &ReadRowsRequest) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        FakeRead::with_sessions(|_, _| Ok(session()), script).await
    }

    /// A server with a script for sessions too.
    pub(crate) async fn with_sessions(
        sessions: impl Fn(usize, &CreateReadSessionRequest) -> Result<ReadSession, Box<Act>>
        + Send
        + Sync
        + 'static,
        script: impl Fn(usize, &ReadRowsRequest) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            sessions: Box::new(sessions),
            calls: Mutex::default(),
            session_calls: Mutex::default(),
            routing: Mutex::default(),
            cancelled: Arc::default(),
        });
        let builder = tonic::transport::Server::builder();
        let task = tokio::spawn(serve(builder, listener, Arc::clone(&shared)));
        FakeRead {
            address,
            shared,
            task,
        }
    }

    /// A server that asks clients to leave each connection after this long
    /// (HTTP/2 GOAWAY), as load balancers do.
    pub(crate) async fn start_going_away(
        after: Duration,
        script: impl Fn(usize, &ReadRowsRequest) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        let mut server = FakeRead::start(script).await;
        server.stop().await;
        let listener = server.listen_again().await;
        let builder = tonic::transport::Server::builder().max_connection_age(after);
        server.task = tokio::spawn(serve(builder, listener, Arc::clone(&server.shared)));
        server
    }

    /// Closes every connection at once and listens again at the same address.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        let listener = self.listen_again().await;
        let builder = tonic::transport::Server::builder();
        self.task = tokio::spawn(serve(builder, listener, Arc::clone(&self.shared)));
    }

    async fn listen_again(&self) -> TcpListener {
        loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Closes every connection at once and listens no more.
    pub(crate) async fn stop(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// The server's address.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client of this server.
    pub(crate) fn client(&self) -> Client {
        client_at(self.address, &[])
    }

    /// A client of this server with more options.
    pub(crate) fn client_with(&self, more: &[(&str, &str)]) -> Client {
        client_at(self.address, more)
    }

    /// The offsets of the ReadRows calls, in order.
    pub(crate) fn offsets(&self) -> Vec<i64> {
        self.calls().iter().map(|call| call.offset).collect()
    }

    /// The ReadRows calls, in order.
    pub(crate) fn calls(&self) -> Vec<ReadRowsRequest> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// The session calls, in order.
    pub(crate) fn session_calls(&self) -> Vec<CreateReadSessionRequest> {
        self.shared.session_calls.lock().unwrap().clone()
    }

    /// The routing headers of all calls, in order.
    pub(crate) fn routing(&self) -> Vec<String> {
        self.shared.routing.lock().unwrap().clone()
    }

    /// How many ReadRows calls the client gave up.
    pub(crate) fn cancelled(&self) -> usize {
        *self.shared.cancelled.lock().unwrap()
    }
}

impl Drop for FakeRead {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A client of a server at this address, whose REST interface is elsewhere.
pub(crate) fn client_at(address: SocketAddr, more: &[(&str, &str)]) -> Client {
    let grpc = format!("http://{address}");
    let mut pairs = vec![
        ("rest_endpoint", "http://127.0.0.1:1"),
        ("grpc_endpoint", grpc.as_str()),
    ];
    pairs.extend_from_slice(more);
    let raw = RawOptions::from_pairs(pairs).unwrap();
    Client::new(&Options::resolve(&raw).unwrap().connection).unwrap()
}

async fn serve(mut builder: tonic::transport::Server, listener: TcpListener, shared: Arc<Shared>) {
    let router = Router::new()
        .route(
            "/google.cloud.bigquery.storage.v1.BigQueryRead/CreateReadSession",
            post(create_session),
        )
        .route(
            "/google.cloud.bigquery.storage.v1.BigQueryRead/ReadRows",
            post(read_rows),
        )
        .with_state(shared);
    // Small responses go out at once.
    let connections = TcpListenerStream::new(listener).map(|connection| {
        let connection = connection?;
        connection.set_nodelay(true)?;
        Ok::<_, std::io::Error>(connection)
    });
    let _ = builder
        .add_routes(Routes::from(router))
        .serve_with_incoming(connections)
        .await;
}

type Request = http::Request<axum::body::Body>;
type Response = http::Response<axum::body::Body>;

async fn message<M: Message + Default>(shared: &Shared, request: Request) -> M {
    if let Some(routing) = request.headers().get("x-goog-request-params") {
        let routing = routing.to_str().unwrap().to_string();
        shared.routing.lock().unwrap().push(routing);
    }
    let body = axum::body::to_bytes(request.into_body(), 1 << 24)
        .await
        .unwrap();
    M::decode(&body[5..]).unwrap()
}

async fn create_session(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let message: CreateReadSessionRequest = message(&shared, request).await;
    let call = {
        let mut calls = shared.session_calls.lock().unwrap();
        calls.push(message.clone());
        calls.len() - 1
    };
    let (acts, acting) = mpsc::channel(16);
    match (shared.sessions)(call, &message) {
        Ok(session) => {
            acts.send(data(&session.encode_to_vec())).await.unwrap();
            acts.send(trailers(Code::Ok, "", None)).await.unwrap();
        }
        Err(act) => act_out(*act, &acts).await,
    }
    respond(acting)
}

async fn read_rows(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let message: ReadRowsRequest = message(&shared, request).await;
    let call = {
        let mut calls = shared.calls.lock().unwrap();
        calls.push(message.clone());
        calls.len() - 1
    };
    let script = (shared.script)(call, &message);
    let (acts, acting) = mpsc::channel(1);
    let cancelled = Arc::clone(&shared.cancelled);
    tokio::spawn(async move {
        let ends = script.iter().any(|act| {
            matches!(
                act,
                Act::End(..) | Act::EndWithWait(..) | Act::Cut | Act::Reset
            )
        });
        for act in script {
            let hangs = matches!(act, Act::Hang);
            act_out(act, &acts).await;
            if hangs || acts.is_closed() {
                acts.closed().await;
                *cancelled.lock().unwrap() += 1;
                return;
            }
        }
        if !ends {
            let _ = acts.send(trailers(Code::Ok, "", None)).await;
        }
    });
    respond(acting)
}

async fn act_out(act: Act, acts: &mpsc::Sender<Step>) {
    let step = match act {
        Act::Send(response) => data(&response.encode_to_vec()),
        Act::SendRaw(bytes) => data(&bytes),
        Act::End(code, message) => trailers(code, message, None),
        Act::EndWithWait(code, delay) => trailers(code, "wait", Some(delay)),
        Act::Reset => Step::Fail,
        Act::Cut => Step::Stop,
        Act::Hang => return,
        Act::Pause(pause) => return tokio::time::sleep(pause).await,
    };
    let _ = acts.send(step).await;
}

/// What a response's body does next.
enum Step {
    Frame(Frame<Bytes>),
    /// Fails, so that the HTTP/2 stream is reset.
    Fail,
    /// Ends without a status.
    Stop,
}

fn data(message: &[u8]) -> Step {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    Step::Frame(Frame::data(frame.freeze()))
}

fn trailers(code: Code, message: &str, delay: Option<Duration>) -> Step {
    let mut trailers = http::HeaderMap::new();
    let number = i32::from(code);
    trailers.insert("grpc-status", number.into());
    trailers.insert("grpc-message", message.parse().unwrap());
    if let Some(delay) = delay {
        let info = rpc::RetryInfo {
            retry_delay: Some(delay.try_into().unwrap()),
        };
        let details = rpc::Status {
            code: number,
            message: message.into(),
            details: vec![prost_types::Any {
                type_url: "type.googleapis.com/google.rpc.RetryInfo".into(),
                value: info.encode_to_vec(),
            }],
        };
        let encoded =
            base64::engine::general_purpose::STANDARD_NO_PAD.encode(details.encode_to_vec());
        trailers.insert("grpc-status-details-bin", encoded.parse().unwrap());
    }
    Step::Frame(Frame::trailers(trailers))
}

fn respond(acts: mpsc::Receiver<Step>) -> Response {
    http::Response::builder()
        .header("content-type", "application/grpc")
        .body(axum::body::Body::new(ScriptedBody { acts, over: false }))
        .unwrap()
}

struct ScriptedBody {
    acts: mpsc::Receiver<Step>,
    over: bool,
}

impl http_body::Body for ScriptedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.over {
            return Poll::Ready(None);
        }
        match self.acts.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Step::Frame(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(Some(Step::Fail)) => {
                self.over = true;
                Poll::Ready(Some(Err(std::io::Error::other("scripted"))))
            }
            Poll::Ready(Some(Step::Stop) | None) => {
                self.over = true;
                Poll::Ready(None)
            }
        }
    }
}

/// The name of the only stream.
pub(crate) const STREAM: &str = "projects/p/locations/us/sessions/s/streams/only";

fn schema() -> Schema {
    Schema::new(vec![Field::new("n", DataType::Int64, false)])
}

/// A session of the one stream.
pub(crate) fn session() -> ReadSession {
    ReadSession {
        name: "projects/p/locations/us/sessions/s".into(),
        streams: vec![ReadStream {
            name: STREAM.into(),
        }],
        schema: Some(read_session::Schema::ArrowSchema(ArrowSchema {
            serialized_schema: bare_messages(None),
        })),
        ..ReadSession::default()
    }
}

/// The schema message, or the record-batch message, of one column of numbers.
fn bare_messages(numbers: Option<std::ops::Range<i64>>) -> Bytes {
    let mut writer = StreamWriter::try_new(Vec::new(), &schema()).unwrap();
    let schema_bytes = writer.get_ref().len();
    let Some(numbers) = numbers else {
        return Bytes::copy_from_slice(writer.get_ref());
    };
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    let batch = RecordBatch::try_new(Arc::new(schema()), vec![column]).unwrap();
    writer.write(&batch).unwrap();
    Bytes::copy_from_slice(&writer.get_ref()[schema_bytes..])
}

/// A response with these numbers.
pub(crate) fn rows(numbers: std::ops::Range<i64>) -> ReadRowsResponse {
    ReadRowsResponse {
        row_count: numbers.end - numbers.start,
        rows: Some(Rows::ArrowRecordBatch(ArrowRecordBatch {
            serialized_record_batch: bare_messages(Some(numbers)),
            ..ArrowRecordBatch::default()
        })),
        ..ReadRowsResponse::default()
    }
}

/// A response without rows that says how much the stream is slowed down.
pub(crate) fn throttled(percent: i32) -> ReadRowsResponse {
    ReadRowsResponse {
        throttle_state: Some(ThrottleState {
            throttle_percent: percent,
        }),
        ..ReadRowsResponse::default()
    }
}
