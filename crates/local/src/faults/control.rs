//! `/_local/faults` on the REST listener: rules over HTTP.

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::decide::{Faults, RuleSet};
use super::http::error;
use super::rule::Rule;

const PATH: &str = "/_local/faults";

/// A rule set is small.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Whether a path is this module's.
pub(super) fn is_for(path: &str) -> bool {
    path == PATH || path.strip_prefix(PATH).is_some_and(|r| r.starts_with('/'))
}

/// Answers a request.
///
/// `GET` lists the rules and what they did; `POST` adds one rule, or those of a
/// file's text; `PUT` replaces all; `DELETE` removes all, or with `/{id}` one.
pub(super) async fn answer(faults: &Faults, request: Request) -> Response {
    let method = request.method().clone();
    let path = request.uri().path()[PATH.len()..]
        .trim_start_matches('/')
        .to_string();
    let body = match axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES).await {
        Ok(body) => body,
        Err(e) => return error(413, "requestTooLarge", &e.to_string()),
    };
    if !path.is_empty() {
        return match (&method, path.parse().ok()) {
            (&Method::GET, Some(id)) => match faults.rule(id) {
                Some(state) => json_answer(json!(state)),
                None => missing(&path),
            },
            (&Method::DELETE, Some(id)) if faults.remove(id) => json_answer(json!({})),
            (&Method::GET | &Method::DELETE, _) => missing(&path),
            _ => not_allowed(),
        };
    }
    match method {
        Method::GET => json_answer(json!({"rules": faults.rules()})),
        Method::DELETE => {
            faults.clear();
            json_answer(json!({}))
        }
        Method::POST => {
            let added = match serde_json::from_slice::<Value>(&body) {
                Ok(value) if value.get("rules").is_some() => faults.add_all(&body),
                Ok(_) => serde_json::from_slice::<Rule>(&body)
                    .map_err(|e| super::rule::RuleError(e.to_string()))
                    .and_then(|rule| faults.add(rule))
                    .map(|id| vec![id]),
                Err(e) => Err(super::rule::RuleError(e.to_string())),
            };
            match added {
                Ok(ids) => json_answer(json!({"ids": ids})),
                Err(e) => error(400, "invalid", &e.to_string()),
            }
        }
        Method::PUT => match RuleSet::parse(&body) {
            Ok(_) => {
                faults.clear();
                match faults.add_all(&body) {
                    Ok(ids) => json_answer(json!({"ids": ids})),
                    Err(e) => error(400, "invalid", &e.to_string()),
                }
            }
            Err(e) => error(400, "invalid", &e.to_string()),
        },
        _ => not_allowed(),
    }
}

fn missing(id: &str) -> Response {
    error(404, "notFound", &format!("Not found: fault rule {id}"))
}

fn not_allowed() -> Response {
    error(
        405,
        "invalid",
        "GET, POST, PUT and DELETE are understood here",
    )
}

fn json_answer(value: Value) -> Response {
    let mut response = (StatusCode::OK, value.to_string()).into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json; charset=UTF-8"),
    );
    response
}
