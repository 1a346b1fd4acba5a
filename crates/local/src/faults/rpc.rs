//! Faults of RPCs: a layer in front of the Storage API.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use googleapis_storage::google::rpc;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use prost::Message;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service as TowerService;

use super::appends;
use super::messages;
use super::rule::{Action, Detached};
use super::wire::Handle;
use crate::grpc::proto;
use crate::grpc::status::{storage_error, with_details};
use crate::server::Service;
use crate::store::TableRef;

/// Request bodies that are looked into; the Storage API takes no larger ones.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// The Storage API behind the rules in force.
#[derive(Debug, Clone)]
pub(crate) struct RpcFaults<S> {
    service: Arc<Service>,
    inner: S,
}

impl<S> RpcFaults<S> {
    /// Puts the rules of `service` in front of `inner`.
    pub(crate) fn new(service: Arc<Service>, inner: S) -> Self {
        Self { service, inner }
    }
}

type Answer<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

impl<S> TowerService<Request<Body>> for RpcFaults<S>
where
    S: TowerService<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answer<S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The instance that was polled ready is the one that is called.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        if request.uri().path().ends_with("/AppendRows") {
            let service = Arc::clone(&self.service);
            return Box::pin(appends::run(service, inner, request));
        }
        if !self.service.faults.is_armed() {
            return Box::pin(inner.call(request));
        }
        let service = Arc::clone(&self.service);
        Box::pin(async move {
            let call = Call::read(&service, request).await;
            match call {
                Ok(call) => call.run(&service, inner).await,
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

/// A request as far as it is known before it is carried out.
struct Call {
    method: String,
    parts: http::request::Parts,
    body: Bytes,
    table: Option<TableRef>,
    /// Stream that ReadRows and SplitReadStream name.
    stream: String,
    /// Whether CreateReadSession restricts rows.
    restricted: bool,
    handle: Option<Handle>,
}

impl Call {
    async fn read(service: &Service, request: Request<Body>) -> Result<Self, Status> {
        let (parts, body) = request.into_parts();
        let method = parts
            .uri
            .path()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_string();
        let handle = parts.extensions.get::<Handle>().cloned();
        let mut call = Self {
            method,
            parts,
            body: Bytes::new(),
            table: None,
            stream: String::new(),
            restricted: false,
            handle,
        };
        let bytes = Limited::new(body, MAX_REQUEST_BYTES)
            .collect()
            .await
            .map_err(|e| Status::internal(format!("reading the request failed: {e}")))?
            .to_bytes();
        // One uncompressed message behind its five-byte header.
        if let Some(message) = bytes.get(5..) {
            call.look_into(service, message);
        }
        call.body = bytes;
        Ok(call)
    }

    fn look_into(&mut self, service: &Service, message: &[u8]) {
        match self.method.as_str() {
            "CreateReadSession" => {
                let Ok(request) = proto::CreateReadSessionRequest::decode(message) else {
                    return;
                };
                let session = request.read_session.unwrap_or_default();
                self.table = TableRef::from_path(&session.table);
                self.restricted = session
                    .read_options
                    .is_some_and(|o| !o.row_restriction.trim().is_empty());
            }
            "ReadRows" | "SplitReadStream" => {
                // Both name the stream in their first field.
                let Ok(request) = proto::ReadRowsRequest::decode(message) else {
                    return;
                };
                self.table = service.read.table_of(&request.read_stream);
                self.stream = request.read_stream;
            }
            // The others name a stream or a table in their first field.
            _ => {
                let Ok(request) = proto::GetWriteStreamRequest::decode(message) else {
                    return;
                };
                self.table = table_of_entity(&request.name);
            }
        }
    }

    fn request(parts: &http::request::Parts, body: Body) -> Request<Body> {
        let mut request = Request::new(body);
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = parts.uri.clone();
        *request.version_mut() = parts.version;
        *request.headers_mut() = parts.headers.clone();
        *request.extensions_mut() = parts.extensions.clone();
        request
    }

    async fn run<S>(self, service: &Service, mut inner: S) -> Result<Response<Body>, S::Error>
    where
        S: TowerService<Request<Body>, Response = Response<Body>> + Send,
        S::Future: Send,
    {
        let decision = service.faults.decide(&self.method, self.table.as_ref());
        if !decision.delay.is_zero() {
            tokio::time::sleep(decision.delay).await;
        }
        let request = Self::request(&self.parts, Body::new(Full::new(self.body.clone())));
        let Some(action) = decision.action else {
            return inner.call(request).await;
        };
        match action {
            Action::Status {
                code: name,
                message,
                retry_after_ms,
                storage_error,
            } => Ok(status(
                code(&name).unwrap_or(Code::Unknown),
                &message,
                retry_after_ms,
                storage_error.as_deref(),
            )
            .into_http()),
            Action::RateLimit { retry_after_ms } => Ok(status(
                Code::ResourceExhausted,
                &format!("Exceeded rate limits: too many {} requests", self.method),
                retry_after_ms,
                None,
            )
            .into_http()),
            Action::Reset => gone(self.handle).await,
            Action::Goaway { streams } => {
                if let Some(handle) = &self.handle {
                    handle.goaway(streams);
                }
                match streams {
                    Detached::Finish => inner.call(request).await,
                    Detached::Refuse => std::future::pending().await,
                }
            }
            Action::Hang => std::future::pending().await,
            Action::RefuseRestriction if self.restricted => Ok(Status::invalid_argument(
                "request failed: the row restriction is too complex to be processed in filtering; consider executing a query instead",
            )
            .into_http()),
            Action::ExpireSession => Ok(service.read.expired_now(&self.stream).into_http()),
            Action::Truncate { .. } | Action::Corrupt { .. } | Action::RowCount { .. } => {
                let answer = inner.call(request).await?;
                Ok(answer.map(|body| messages::damaged(body, &action)))
            }
            Action::LoseAnswer => {
                let answer = inner.call(request).await?;
                // To its end, so that all of it happens; then nobody hears of it.
                if let Err(e) = answer.into_body().collect().await {
                    tracing::debug!("the lost answer was an error: {e}");
                }
                gone(self.handle).await
            }
            Action::ApplyTwice => {
                let (parts, body) = inner.call(request).await?.into_parts();
                let body = match body.collect().await {
                    Ok(whole) => Body::new(whole),
                    Err(status) => return Ok(status.into_http()),
                };
                let again = Body::new(Full::new(self.body));
                let answer = inner.call(Self::request(&self.parts, again)).await?;
                if let Err(e) = answer.into_body().collect().await {
                    tracing::debug!("the second answer was an error: {e}");
                }
                Ok(Response::from_parts(parts, body))
            }
            // A request without a restriction is not refused; delays were made and
            // HTTP errors are not for RPCs.
            Action::RefuseRestriction
            | Action::Delay { .. }
            | Action::Http { .. }
            | Action::AppendError { .. } => {
                inner.call(request).await
            }
        }
    }
}

/// Resets the connection; the call ends with it.
async fn gone<E>(handle: Option<Handle>) -> Result<Response<Body>, E> {
    match handle {
        Some(handle) => {
            handle.reset();
            std::future::pending().await
        }
        None => Ok(Status::unavailable("the connection was lost").into_http()),
    }
}

/// The table of `projects/p/datasets/d/tables/t` with anything behind it.
pub(super) fn table_of_entity(name: &str) -> Option<TableRef> {
    let parts: Vec<&str> = name.split('/').take(6).collect();
    TableRef::from_path(&parts.join("/"))
}

/// A status with details.
pub(super) fn status(
    code: Code,
    message: &str,
    retry_after_ms: Option<u64>,
    storage: Option<&str>,
) -> Status {
    let mut details = Vec::new();
    if let Some(ms) = retry_after_ms {
        let info = rpc::RetryInfo {
            retry_delay: Some(prost_types::Duration {
                seconds: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
                nanos: i32::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
            }),
        };
        details.push(prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".into(),
            value: info.encode_to_vec(),
        });
    }
    if let Some(code) = storage.and_then(storage_code) {
        details.push(storage_error(&proto::StorageError {
            code: code.into(),
            entity: String::new(),
            error_message: message.to_string(),
        }));
    }
    with_details(code, message, details)
}

/// The code called `name` (`UNAVAILABLE`).
pub(super) fn code(name: &str) -> Option<Code> {
    Some(match name {
        "OK" => Code::Ok,
        "CANCELLED" => Code::Cancelled,
        "UNKNOWN" => Code::Unknown,
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "DEADLINE_EXCEEDED" => Code::DeadlineExceeded,
        "NOT_FOUND" => Code::NotFound,
        "ALREADY_EXISTS" => Code::AlreadyExists,
        "PERMISSION_DENIED" => Code::PermissionDenied,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "ABORTED" => Code::Aborted,
        "OUT_OF_RANGE" => Code::OutOfRange,
        "UNIMPLEMENTED" => Code::Unimplemented,
        "INTERNAL" => Code::Internal,
        "UNAVAILABLE" => Code::Unavailable,
        "DATA_LOSS" => Code::DataLoss,
        "UNAUTHENTICATED" => Code::Unauthenticated,
        _ => return None,
    })
}

/// The StorageError code called `name` (`STREAM_FINALIZED`).
pub(super) fn storage_code(name: &str) -> Option<proto::storage_error::StorageErrorCode> {
    proto::storage_error::StorageErrorCode::from_str_name(name)
}
