//! What handlers take out of requests: JSON bodies, parameters, preconditions.

use std::collections::HashMap;
use std::io::Read;
use std::str::FromStr;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use futures::StreamExt;
use http::header::{CONTENT_ENCODING, IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;
use serde_json::Value;

use super::answer::RestError;
use crate::error::{Reason, Result, ServiceError};
use crate::value::json_text::parse_json;

/// The largest JSON body, as sent and after decompression.
pub const MAX_JSON_BYTES: usize = 64 << 20;

/// A request's JSON object. An empty body is an empty object.
#[derive(Debug)]
pub struct JsonBody(pub Value);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = RestError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, RestError> {
        let gzip = is_gzip(&request);
        let bytes = bounded(request.into_body(), MAX_JSON_BYTES).await?;
        let bytes = if gzip {
            gunzip(&bytes, MAX_JSON_BYTES)?
        } else {
            bytes
        };
        if bytes.is_empty() {
            return Ok(Self(Value::Object(serde_json::Map::new())));
        }
        let text = std::str::from_utf8(&bytes).map_err(parse_error)?;
        match parse_json(text) {
            Ok(value @ Value::Object(_)) => Ok(Self(value)),
            Ok(_) => Err(parse_error("the body must be a JSON object").into()),
            Err(e) => Err(parse_error(e).into()),
        }
    }
}

/// Whether a body is compressed.
pub fn is_gzip(request: &Request) -> bool {
    request
        .headers()
        .get(CONTENT_ENCODING)
        .is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

/// The answer to a body that is no JSON.
pub fn parse_error(why: impl std::fmt::Display) -> ServiceError {
    ServiceError::new(Reason::ParseError, format!("Parse Error: {why}"))
}

/// Reads a body of at most `limit` bytes.
pub async fn bounded(body: Body, limit: usize) -> Result<Bytes> {
    let mut chunks = body.into_data_stream();
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|e| {
            ServiceError::invalid(format!("The request body could not be read: {e}"))
        })?;
        if all.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.into())
}

/// Decompresses at most `limit` bytes.
pub fn gunzip(bytes: &[u8], limit: usize) -> Result<Bytes> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes)
        .take(limit as u64 + 1)
        .read_to_end(&mut out)
        .map_err(|e| ServiceError::invalid(format!("The gzip body could not be read: {e}")))?;
    if out.len() > limit {
        return Err(too_large(limit));
    }
    Ok(out.into())
}

fn too_large(limit: usize) -> ServiceError {
    ServiceError::new(
        Reason::RequestTooLarge,
        format!("Request payload size exceeds the limit: {limit} bytes."),
    )
}

/// The query parameters.
#[derive(Debug, Default)]
pub struct Params(HashMap<String, Vec<String>>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, RestError> {
        let mut values: HashMap<String, Vec<String>> = HashMap::new();
        let query = parts.uri.query().unwrap_or("");
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            values
                .entry(key.into_owned())
                .or_default()
                .push(value.into_owned());
        }
        Ok(Self(values))
    }
}

impl Params {
    /// A parameter's last value, if it is given and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .and_then(|v| v.last())
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    /// Every value of a parameter that may be repeated.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0
            .get(name)
            .into_iter()
            .flatten()
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    /// A parameter that is a number.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    ServiceError::invalid(format!("Invalid value '{text}' for parameter {name}."))
                        .at(name)
                })
            })
            .transpose()
    }

    /// A parameter that is a boolean; absent is `false`.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") || text == "1" => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") || text == "0" => Ok(false),
            Some(text) => Err(ServiceError::invalid(format!(
                "Invalid value '{text}' for parameter {name}."
            ))
            .at(name)),
        }
    }
}

/// The etags that a request is conditional on.
#[derive(Debug, Default)]
pub struct Conditions {
    if_match: Option<String>,
    if_none_match: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Conditions {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, RestError> {
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|v| v.to_str().ok())
                .map(str::to_string)
        };
        Ok(Self {
            if_match: header(IF_MATCH),
            if_none_match: header(IF_NONE_MATCH),
        })
    }
}

impl Conditions {
    /// Refuses a change of a resource whose etag is not the one the client saw.
    pub fn check(&self, etag: &str) -> Result<()> {
        match &self.if_match {
            Some(wanted) if !lists(wanted, etag) => Err(ServiceError::new(
                Reason::ConditionNotMet,
                "Precondition check failed.",
            )),
            _ => Ok(()),
        }
    }

    /// Whether the client has the resource of this etag already.
    pub fn has(&self, etag: &str) -> bool {
        self.if_none_match
            .as_deref()
            .is_some_and(|seen| lists(seen, etag))
    }
}

/// Whether a header's list of etags has `etag`, quoted or not, weak or not.
fn lists(header: &str, etag: &str) -> bool {
    header.split(',').map(str::trim).any(|one| {
        // An etag may itself begin with `W/`, without quotes.
        let weak = one.strip_prefix("W/").unwrap_or(one);
        one == "*" || one == etag || weak == etag || weak.trim_matches('"') == etag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etag_lists() {
        assert!(lists("\"abc==\"", "abc=="));
        assert!(lists("abc==", "abc=="));
        assert!(lists("W/\"x\", \"abc==\"", "abc=="));
        assert!(lists("*", "abc=="));
        assert!(lists("W/bc==", "W/bc=="));
        assert!(lists("\"W/bc==\"", "W/bc=="));
        assert!(!lists("\"abc\"", "abc=="));
    }

    #[test]
    fn compressed_bodies_are_bounded() {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&vec![b' '; 100_000]).unwrap();
        let bytes = encoder.finish().unwrap();
        assert_eq!(gunzip(&bytes, 100_000).unwrap().len(), 100_000);
        assert_eq!(
            gunzip(&bytes, 99_999).unwrap_err().reason,
            Reason::RequestTooLarge
        );
        assert_eq!(gunzip(b"no gzip", 10).unwrap_err().reason, Reason::Invalid);
    }
}
