//! Requests over HTTP and what their answers mean.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::auth::Credentials;
use crate::client::endpoint;
use crate::client::excerpt::excerpt;
use crate::client::retry::{Clock, RetryPolicy, retry};
use crate::error::{Effect, Error, ErrorKind, Result, RetryAdvice};
use crate::options::EndpointUrl;

/// An interface of Google's over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Api {
    /// Where its present version lives on a server.
    base_path: &'static str,
    /// The option that says where the server is.
    option: &'static str,
    /// What a server of it is, for errors.
    server: &'static str,
}

impl Api {
    pub(crate) const BIGQUERY: Api = Api {
        base_path: "/bigquery/v2",
        option: "rest_endpoint",
        server: "a BigQuery server",
    };

    pub(crate) const PUBSUB: Api = Api {
        base_path: "/v1",
        option: "sink.failure.pubsub_endpoint",
        server: "a Pub/Sub server",
    };
}

/// How long one attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// No answer of the methods used here comes near this size.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    method: Method,
    path: &'a [&'a str],
    query: &'a [(&'a str, &'a str)],
    body: Option<&'a Value>,
    if_match: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// A request about the resource at `path`, whose segments are escaped where
    /// it is sent.
    pub(crate) fn new(method: Method, path: &'a [&'a str]) -> Self {
        Request {
            method,
            path,
            query: &[],
            body: None,
            if_match: None,
        }
    }

    pub(crate) fn with_query(mut self, query: &'a [(&'a str, &'a str)]) -> Self {
        self.query = query;
        self
    }

    pub(crate) fn with_body(mut self, body: &'a Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Only if the resource still has this etag; otherwise the answer is
    /// [`ErrorKind::Conflict`].
    pub(crate) fn if_match(mut self, etag: Option<&'a str>) -> Self {
        self.if_match = etag;
        self
    }
}

/// Sends requests, as whom and to where they go.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    api: Api,
    http: reqwest::Client,
    endpoint: EndpointUrl,
    credentials: Credentials,
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
}

impl Transport {
    /// To BigQuery.
    pub(crate) fn new(
        endpoint: EndpointUrl,
        credentials: Credentials,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        Self::of_api(Api::BIGQUERY, endpoint, credentials, clock)
    }

    pub(crate) fn of_api(
        api: Api,
        endpoint: EndpointUrl,
        credentials: Credentials,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let mut builder = reqwest::Client::builder()
            .user_agent(endpoint::USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ATTEMPT_TIMEOUT)
            // A redirect would carry the token to another host.
            .redirect(reqwest::redirect::Policy::none());
        if endpoint.is_local() {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                "the HTTP client cannot be set up on this machine",
            )
            .with_source(error)
        })?;
        let policy = endpoint::request_policy(&endpoint);
        Ok(Transport {
            api,
            http,
            endpoint,
            credentials,
            policy,
            clock,
        })
    }

    /// GET of the resource at `path`, whose segments are escaped here.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value> {
        self.send(Request::new(Method::GET, path).with_query(query))
            .await
    }

    /// Sends a request, again where that may help, and gives the answer's JSON;
    /// null where the answer has no body.
    ///
    /// Whoever sends a request that changes something makes it one that can be
    /// repeated: by a name of its own or by the etag it depends on. The error of
    /// such a request says whether it may have been applied
    /// ([`Error::may_have_applied`]).
    pub(crate) async fn send(&self, request: Request<'_>) -> Result<Value> {
        let url = self.url(request.path, request.query)?;
        retry(self.policy, &self.clock, || {
            self.send_once(&request, url.clone())
        })
        .await
    }

    /// How single requests are repeated.
    pub(super) fn policy(&self) -> RetryPolicy {
        self.policy
    }

    /// Time and chance, as this client has them.
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Url> {
        let base = self.endpoint.path();
        let Api {
            base_path, option, ..
        } = self.api;
        let base = if base.ends_with(base_path) {
            base.to_string()
        } else {
            format!("{base}{base_path}")
        };
        let wrong = || {
            Error::configuration(format!(
                "option '{option}' cannot be '{}': it must be an address such as \
                 'http://127.0.0.1:9050'",
                self.endpoint
            ))
        };
        let mut url =
            Url::parse(&format!("{}{base}", self.endpoint.origin())).map_err(|_| wrong())?;
        url.path_segments_mut().map_err(|()| wrong())?.extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    async fn send_once(&self, request: &Request<'_>, url: Url) -> Result<Value> {
        let answer = self.answer(request, url).await;
        // A request without an answer may have reached the server all the same.
        answer.map_err(|error| match (error.kind(), &request.method) {
            (_, &Method::GET) => error,
            (ErrorKind::Unavailable | ErrorKind::DeadlineExceeded | ErrorKind::Data, _) => {
                error.with_effect(Effect::Unknown)
            }
            _ => error,
        })
    }

    async fn answer(&self, request: &Request<'_>, url: Url) -> Result<Value> {
        let headers = self.credentials.headers().await?;
        tracing::debug!(%url, method = %request.method, "request");
        let mut builder = self
            .http
            .request(request.method.clone(), url)
            .headers(headers);
        if let Some(etag) = request.if_match {
            builder = builder.header(reqwest::header::IF_MATCH, etag);
        }
        builder = match request.body {
            Some(body) => builder.json(body),
            // Servers want to know how long the body is that a POST has not.
            None if request.method == Method::POST => {
                builder.header(reqwest::header::CONTENT_LENGTH, 0)
            }
            None => builder,
        };
        let mut response = builder
            .send()
            .await
            .map_err(|error| self.unanswered(error))?;
        let status = response.status();
        let retry_after = response
            .headers()
            .get(reqwest::header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.unanswered(error))?
        {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(Error::data(format!(
                    "the answer of {} is larger than {MAX_ANSWER_BYTES} bytes",
                    self.endpoint
                )));
            }
            body.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            return Err(refusal(self.api, status, &body, retry_after));
        }
        if body.is_empty() && request.method != Method::GET {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|error| {
            Error::data(format!(
                "the answer of {} is not JSON: check that option '{}' names {}",
                self.endpoint, self.api.option, self.api.server
            ))
            .with_source(error)
        })
    }

    /// The error for a request that got no answer.
    fn unanswered(&self, error: reqwest::Error) -> Error {
        // The URL holds names of the user's, which the caller adds anyway.
        let error = error.without_url();
        if error.is_connect() {
            return endpoint::nothing_answers(self.api.option, &self.endpoint).with_source(error);
        }
        if error.is_timeout() {
            return Error::new(
                ErrorKind::DeadlineExceeded,
                format!("{} took too long to answer", self.endpoint),
            )
            .with_source(error);
        }
        // A gRPC endpoint ends the connection, or sends what is no HTTP/1.
        let advice = match self.endpoint.is_local() {
            true => format!(
                "; if that goes on, check that option '{}' names {} and not a gRPC endpoint",
                self.api.option, self.api.server
            ),
            false => String::new(),
        };
        Error::new(
            ErrorKind::Unavailable,
            format!("the connection to {} broke{advice}", self.endpoint),
        )
        .with_source(error)
    }
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<ErrorItem>,
}

#[derive(Deserialize)]
struct ErrorItem {
    #[serde(default)]
    reason: String,
}

/// The error that an answer with an error status describes
/// (<https://cloud.google.com/bigquery/docs/error-messages>).
fn refusal(api: Api, status: StatusCode, body: &[u8], retry_after: Option<Duration>) -> Error {
    let answer = serde_json::from_slice::<ErrorAnswer>(body).ok();
    let reason = answer
        .as_ref()
        .and_then(|answer| answer.error.errors.first())
        .map_or("", |item| item.reason.as_str());
    let (kind, retry) = match (classify(status.as_u16(), reason), &answer) {
        // The service explains what it refuses; whoever does not is another
        // server, and its "not found" is not about a table.
        ((ErrorKind::NotFound | ErrorKind::InvalidArgument, _), None) => {
            (ErrorKind::Data, RetryAdvice::Never)
        }
        (classified, _) => classified,
    };
    let retry = match (retry, retry_after) {
        (RetryAdvice::Backoff, Some(delay)) => RetryAdvice::After(delay),
        (retry, _) => retry,
    };
    let message = match answer {
        Some(answer) if !answer.error.message.is_empty() => excerpt(&answer.error.message),
        _ => format!(
            "HTTP status {} without an explanation: check that option '{}' names {}",
            status.as_u16(),
            api.option,
            api.server
        ),
    };
    Error::new(kind, message).with_retry(retry)
}

pub(super) fn classify(status: u16, reason: &str) -> (ErrorKind, RetryAdvice) {
    let backoff = RetryAdvice::Backoff;
    let never = RetryAdvice::Never;
    match (status, reason) {
        (_, "rateLimitExceeded" | "jobRateLimitExceeded") | (429, _) => {
            (ErrorKind::ResourceExhausted, backoff)
        }
        (_, "quotaExceeded" | "resourcesExceeded" | "responseTooLarge") => {
            (ErrorKind::ResourceExhausted, never)
        }
        (_, "stopped") => (ErrorKind::Cancelled, never),
        (501, _) => (ErrorKind::Unsupported, never),
        (_, "backendError" | "internalError" | "jobBackendError" | "jobInternalError")
        | (500..=599, _) => (ErrorKind::Unavailable, backoff),
        (408, _) => (ErrorKind::DeadlineExceeded, backoff),
        (401, _) => (ErrorKind::Unauthenticated, never),
        (403, _) => (ErrorKind::PermissionDenied, never),
        (404, _) => (ErrorKind::NotFound, never),
        (409, _) => (ErrorKind::AlreadyExists, never),
        (412, _) => (ErrorKind::Conflict, never),
        (400..=499, _) => (ErrorKind::InvalidArgument, never),
        _ => (ErrorKind::Data, never),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_classified_by_code_and_reason() {
        let body = |reason: &str| {
            format!(
                r#"{{"error": {{"code": 0, "message": "told", "errors": [{{"reason": "{reason}"}}]}}}}"#
            )
        };
        for (status, reason, kind, retryable) in [
            (400, "invalid", ErrorKind::InvalidArgument, false),
            (400, "jobBackendError", ErrorKind::Unavailable, true),
            (401, "authError", ErrorKind::Unauthenticated, false),
            (403, "accessDenied", ErrorKind::PermissionDenied, false),
            (403, "rateLimitExceeded", ErrorKind::ResourceExhausted, true),
            (403, "quotaExceeded", ErrorKind::ResourceExhausted, false),
            (404, "notFound", ErrorKind::NotFound, false),
            (409, "duplicate", ErrorKind::AlreadyExists, false),
            (412, "conditionNotMet", ErrorKind::Conflict, false),
            (413, "requestTooLarge", ErrorKind::InvalidArgument, false),
            (429, "", ErrorKind::ResourceExhausted, true),
            (500, "internalError", ErrorKind::Unavailable, true),
            (501, "notImplemented", ErrorKind::Unsupported, false),
            (503, "backendError", ErrorKind::Unavailable, true),
            (302, "", ErrorKind::Data, false),
        ] {
            let code = StatusCode::from_u16(status).unwrap();
            let error = refusal(Api::BIGQUERY, code, body(reason).as_bytes(), None);
            assert_eq!(error.kind(), kind, "{status} {reason}");
            assert_eq!(error.is_retryable(), retryable, "{status} {reason}");
            assert_eq!(error.message(), "told");
        }
    }

    #[test]
    fn the_wait_asked_for_is_kept() {
        let wait = Some(Duration::from_secs(7));
        let error = refusal(Api::BIGQUERY, StatusCode::SERVICE_UNAVAILABLE, b"", wait);
        assert_eq!(
            error.retry_advice(),
            RetryAdvice::After(Duration::from_secs(7))
        );
        let error = refusal(Api::BIGQUERY, StatusCode::NOT_FOUND, b"", wait);
        assert_eq!(error.retry_advice(), RetryAdvice::Never);
    }

    #[test]
    fn answers_that_are_not_the_services_are_not_quoted() {
        for body in [&b"<html>secret</html>"[..], b"\xff\xfe", b"{}", b"[1]", b""] {
            let error = refusal(Api::BIGQUERY, StatusCode::NOT_FOUND, body, None);
            assert_eq!(error.kind(), ErrorKind::Data, "{error}");
            assert!(error.message().contains("404"), "{error}");
            assert!(error.message().contains("'rest_endpoint'"), "{error}");
            assert!(!error.message().contains("secret"), "{error}");
        }
    }
}
