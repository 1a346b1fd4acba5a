//! Faults of HTTP calls: a service in front of the REST application, and of that of
//! Cloud Storage.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tower::Service as TowerService;

use super::control;
use super::method;
use super::rule::Action;
use super::wire::Handle;
use crate::server::Service;
use crate::store::TableRef;

/// Bodies above this are not looked into for a table.
const MAX_BODY_BYTES: usize = 64 << 20;

/// An application behind the rules in force; that of BigQuery with
/// `/_local/faults`.
#[derive(Debug, Clone)]
pub(crate) struct HttpFaults<S> {
    service: Arc<Service>,
    api: Api,
    inner: S,
}

/// Whose calls an application answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    BigQuery,
    Storage,
}

impl<S> HttpFaults<S> {
    /// Puts the rules of `service` in front of `inner`.
    pub(crate) fn new(service: Arc<Service>, inner: S) -> Self {
        Self {
            service,
            api: Api::BigQuery,
            inner,
        }
    }

    /// The same for an application that is Cloud Storage.
    pub(crate) fn of_storage(service: Arc<Service>, inner: S) -> Self {
        Self {
            service,
            api: Api::Storage,
            inner,
        }
    }
}

impl<S> TowerService<Request> for HttpFaults<S>
where
    S: TowerService<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The instance that was polled ready is the one that is called.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        let service = Arc::clone(&self.service);
        let api = self.api;
        if api == Api::BigQuery && control::is_for(request.uri().path()) {
            return Box::pin(async move { Ok(control::answer(&service.faults, request).await) });
        }
        if !service.faults.is_armed() {
            return Box::pin(inner.call(request));
        }
        Box::pin(run(service, api, inner, request))
    }
}

async fn run<S>(
    service: Arc<Service>,
    api: Api,
    mut inner: S,
    request: Request,
) -> Result<Response, Infallible>
where
    S: TowerService<Request, Response = Response, Error = Infallible> + Send,
    S::Future: Send,
{
    let (parts, mut body) = request.into_parts();
    let handle = parts
        .extensions
        .get::<ConnectInfo<Handle>>()
        .map(|info| info.0.clone());
    let meant = parts
        .headers
        .get("x-http-method-override")
        .and_then(|v| v.to_str().ok()?.parse().ok())
        .unwrap_or_else(|| parts.method.clone());
    let path = parts.uri.path();
    let found = match api {
        Api::BigQuery => method::of_request(&meant, path),
        Api::Storage => method::of_storage_request(&meant, path).map(|name| (name, None)),
    };
    let Some((name, mut table)) = found else {
        return inner.call(Request::from_parts(parts, body)).await;
    };
    if table.is_none() && api == Api::BigQuery {
        let (beginning, whole) = match begin(body, MAX_BODY_BYTES).await {
            Ok(begun) => begun,
            Err(e) => return Ok(error(400, "badRequest", &e.to_string())),
        };
        table = beginning.as_ref().and_then(table_in);
        body = whole;
    }
    let decision = service.faults.decide(name, table.as_ref());
    if !decision.delay.is_zero() {
        tokio::time::sleep(decision.delay).await;
    }
    if decision.action == Some(Action::ApplyTwice) {
        return apply_twice(inner, parts, body).await;
    }
    let request = Request::from_parts(parts, body);
    match decision.action {
        None => inner.call(request).await,
        Some(Action::Http {
            status,
            reason,
            message,
        }) => Ok(error(status, &reason, &message)),
        Some(Action::RateLimit { .. }) => Ok(error(
            match api {
                Api::BigQuery => 403,
                Api::Storage => 429,
            },
            "rateLimitExceeded",
            &format!("Exceeded rate limits: too many {name} requests"),
        )),
        Some(Action::Reset) => lost(handle).await,
        Some(Action::Hang) => std::future::pending().await,
        Some(Action::LoseAnswer) => {
            let answer = inner.call(request).await?;
            consume(answer).await;
            lost(handle).await
        }
        // Not for REST calls; rules that say so are not taken.
        Some(_) => inner.call(request).await,
    }
}

/// A body as it came, and all of it as bytes if these are no more than `most`.
async fn begin(body: Body, most: usize) -> Result<(Option<Bytes>, Body), axum::Error> {
    let mut chunks = body.into_data_stream();
    let mut begun = BytesMut::new();
    while begun.len() <= most {
        let Some(chunk) = chunks.next().await else {
            let bytes = begun.freeze();
            return Ok((Some(bytes.clone()), Body::from(bytes)));
        };
        begun.extend_from_slice(&chunk?);
    }
    let begun = stream::iter([Ok(begun.freeze())]);
    Ok((None, Body::from_stream(begun.chain(chunks))))
}

/// Carries a request out twice, and gives the first answer.
async fn apply_twice<S>(mut inner: S, parts: Parts, body: Body) -> Result<Response, Infallible>
where
    S: TowerService<Request, Response = Response, Error = Infallible> + Send,
    S::Future: Send,
{
    let bytes = match axum::body::to_bytes(body, usize::MAX).await {
        Ok(bytes) => bytes,
        Err(e) => return Ok(error(400, "badRequest", &e.to_string())),
    };
    let request = |parts| Request::from_parts(parts, Body::from(bytes.clone()));
    let first = inner.call(request(parts.clone())).await?;
    let (head, body) = first.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .unwrap_or_default();
    consume(inner.call(request(parts)).await?).await;
    Ok(Response::from_parts(head, Body::from(body)))
}

/// Reads an answer that nobody gets, so that all of it happens.
async fn consume(answer: Response) {
    if let Err(e) = axum::body::to_bytes(answer.into_body(), usize::MAX).await {
        tracing::debug!("an answer that nobody gets failed: {e}");
    }
}

/// Resets the connection; the call ends with it.
async fn lost(handle: Option<Handle>) -> Result<Response, Infallible> {
    match handle {
        Some(handle) => {
            handle.reset();
            std::future::pending().await
        }
        None => Ok(error(503, "backendError", "the connection was lost")),
    }
}

/// The table that a JSON body is about: one to be made, or a job's destination.
fn table_in(body: &Bytes) -> Option<TableRef> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let configuration = &value["configuration"];
    [
        &value["tableReference"],
        &configuration["load"]["destinationTable"],
        &configuration["copy"]["destinationTable"],
        &configuration["query"]["destinationTable"],
        &configuration["extract"]["sourceTable"],
    ]
    .into_iter()
    .find_map(|reference| serde_json::from_value(reference.clone()).ok())
}

/// An error in the service's envelope.
pub(super) fn error(status: u16, reason: &str, message: &str) -> Response {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let word = match status {
        400 | 413 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ALREADY_EXISTS",
        412 => "FAILED_PRECONDITION",
        429 => "RESOURCE_EXHAUSTED",
        501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    };
    let body = json!({"error": {
        "code": status,
        "message": message,
        "errors": [{"message": message, "domain": "global", "reason": reason}],
        "status": word,
    }});
    let mut response = (code, body.to_string()).into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json; charset=UTF-8"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bodies that come in chunks, of no length that was said before.
    #[tokio::test]
    async fn bodies_go_on_as_they_came() {
        let chunked = |chunks: &[&'static str]| {
            let chunks: Vec<_> = chunks.iter().map(|c| Ok::<_, Infallible>(*c)).collect();
            Body::from_stream(stream::iter(chunks))
        };
        for (chunks, looked_into) in [
            (&["ab", "cd"][..], Some("abcd")),
            (&[], Some("")),
            (&["ab", "cd", "e", "fgh"], None),
            (&["abcdefgh"], None),
        ] {
            let (bytes, whole) = begin(chunked(chunks), 4).await.unwrap();
            assert_eq!(bytes.as_deref(), looked_into.map(str::as_bytes));
            let whole = axum::body::to_bytes(whole, usize::MAX).await.unwrap();
            assert_eq!(whole, chunks.concat());
        }
    }
}
