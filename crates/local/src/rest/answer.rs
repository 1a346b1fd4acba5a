//! What every answer has in common: JSON, and the error envelope.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, HeaderValue};
use http::{StatusCode, Uri};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Reason, ServiceError};

/// What a handler answers.
pub type RestResult = Result<Response, RestError>;

/// A failure that becomes the service's error envelope.
#[derive(Debug)]
pub struct RestError(pub ServiceError);

impl From<ServiceError> for RestError {
    fn from(error: ServiceError) -> Self {
        Self(error)
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let status = match self.0.reason.http_status() {
            // A cancelled job is no failed request, but a request that needs its
            // result is one.
            200 => StatusCode::BAD_REQUEST,
            code => StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        if status.is_server_error() {
            tracing::error!("{status}: {}", self.0);
        } else {
            tracing::debug!("{status}: {}", self.0);
        }
        json_with_status(status, &envelope(status, &self.0))
    }
}

/// `{"error":{"code":…,"message":…,"errors":[…],"status":…}}`.
pub fn envelope(status: StatusCode, error: &ServiceError) -> Value {
    json!({
        "error": {
            "code": status.as_u16(),
            "message": error.message,
            "errors": [error_proto(error, Domain::Named)],
            "status": error.reason.status(),
        }
    })
}

/// Whether an error object says its `domain`, as those in envelopes do and those
/// of jobs do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// With `"domain": "global"` and `locationType`.
    Named,
    /// As a job's `status.errors` has it.
    Left,
}

/// One entry of an `errors` list.
pub fn error_proto(error: &ServiceError, domain: Domain) -> Value {
    let mut object = json!({"message": error.message, "reason": error.reason.as_str()});
    if let Some(location) = &error.location {
        object["location"] = json!(location);
    }
    if domain == Domain::Named {
        object["domain"] = json!("global");
        if error.location.is_some() {
            object["locationType"] = json!("parameter");
        }
    }
    object
}

/// 200 with JSON. A resource's etag is in the `ETag` header too.
pub fn json<T: Serialize>(body: &T) -> Response {
    json_with_status(StatusCode::OK, body)
}

/// A resource: like [`json`], with its etag in the `ETag` header.
pub fn resource(body: &Value) -> Response {
    let mut response = json(body);
    if let Some(etag) = body["etag"]
        .as_str()
        .and_then(|e| HeaderValue::from_str(e).ok())
    {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

/// 204 without a body.
pub fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// 304: the client has the resource already.
pub fn not_modified() -> Response {
    StatusCode::NOT_MODIFIED.into_response()
}

/// JSON with another status than 200.
pub fn json_with_status<T: Serialize>(status: StatusCode, body: &T) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => {
            let mut response = (status, bytes).into_response();
            response.headers_mut().insert(
                CONTENT_TYPE,
                HeaderValue::from_static("application/json; charset=UTF-8"),
            );
            response
        }
        Err(e) => {
            tracing::error!("an answer is no JSON: {e}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The answer to a path that no route has.
pub async fn no_such_path(uri: Uri) -> RestError {
    RestError(ServiceError::new(
        Reason::NotFound,
        format!("No such method: {}", uri.path()),
    ))
}

/// Puts refusals that are made before a handler runs (a wrong method, a path that
/// is no UTF-8) into the service's error form.
pub async fn in_envelope(response: Response) -> Response {
    let status = response.status();
    let has_json = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|t| t.as_bytes().starts_with(b"application/json"));
    if has_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let reason = match status.as_u16() {
        404 => Reason::NotFound,
        405 | 501 => Reason::NotImplemented,
        413 => Reason::RequestTooLarge,
        500.. => Reason::InternalError,
        _ => Reason::Invalid,
    };
    let words = status.canonical_reason().unwrap_or("Bad Request");
    let (mut parts, _) = response.into_parts();
    parts.headers.clear();
    let body = envelope(status, &ServiceError::new(reason, words));
    parts.headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/json; charset=UTF-8"),
    );
    Response::from_parts(parts, Body::from(body.to_string()))
}
