//! A request, with its path and query taken apart.

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;

use super::error::{GcsError, Result};
use super::uploads::{MAX_OBJECT_BYTES, too_large};

/// Memory for a body as its length is said; more is found as it comes.
const RESERVED: usize = 64 << 20;

/// A request whose body was read.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// As it was sent: escaped.
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A whole body, put together as it comes: the parts of a large one need not all be held
/// beside it.
async fn whole(mut body: Body, headers: &HeaderMap, limit: usize) -> Result<Bytes> {
    let said = headers
        .get(CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse().ok());
    let mut all = BytesMut::with_capacity(said.unwrap_or(0).min(RESERVED));
    while let Some(frame) = body.frame().await {
        let Ok(part) = frame
            .map_err(|_| GcsError::invalid("The body of the request ended early"))?
            .into_data()
        else {
            continue;
        };
        if all.len() + part.len() > limit {
            return Err(too_large());
        }
        all.extend_from_slice(&part);
    }
    Ok(all.freeze())
}

impl Call {
    pub(super) async fn read(request: Request) -> Result<Self> {
        let (parts, body): (_, Body) = request.into_parts();
        let limit = usize::try_from(MAX_OBJECT_BYTES).unwrap_or(usize::MAX);
        let body = whole(body, &parts.headers, limit).await?;
        let query = parts.uri.query().unwrap_or_default();
        let query = url::form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        Ok(Self {
            method: parts.method,
            path: parts.uri.path().to_string(),
            query,
            headers: parts.headers,
            body,
        })
    }

    /// A query parameter.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    /// A number in the query.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.param(name)
            .filter(|text| !text.is_empty())
            .map(|text| {
                text.parse()
                    .map_err(|_| GcsError::invalid(format!("Invalid value for {name}: {text}")))
            })
            .transpose()
    }

    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A number in a header.
    pub(super) fn header_number(&self, name: &str) -> Result<Option<i64>> {
        self.header(name)
            .map(|text| {
                text.trim()
                    .parse()
                    .map_err(|_| GcsError::invalid(format!("Invalid value for {name}: {text}")))
            })
            .transpose()
    }
}

/// Undoes percent encoding.
pub(super) fn unescaped(text: &str) -> Result<String> {
    let wrong = || GcsError::invalid("A name in the path is not UTF-8 in percent encoding.");
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        out.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    String::from_utf8(out).map_err(|_| wrong())
}

/// The first and the end of the bytes that `Range` asks for; `None` for all of them.
pub(super) fn range(header: Option<&str>, length: u64) -> Result<Option<(u64, u64)>> {
    let Some(spec) = header.and_then(|h| h.trim().strip_prefix("bytes=")) else {
        return Ok(None);
    };
    // Several ranges, and what is none, are answered with the whole object.
    let Some((first, last)) = spec.trim().split_once('-').filter(|_| !spec.contains(',')) else {
        return Ok(None);
    };
    let unsatisfiable = || {
        Err(GcsError::new(
            super::error::Kind::Range,
            "The requested range cannot be satisfied.",
        ))
    };
    match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first > last => Ok(None),
        (Ok(first), _) if first >= length && (length > 0 || first > 0) => unsatisfiable(),
        (Ok(first), Ok(last)) => Ok(Some((first, last.saturating_add(1).min(length)))),
        (Ok(first), Err(_)) if last.trim().is_empty() => Ok(Some((first, length))),
        (Err(_), Ok(0)) if first.trim().is_empty() => unsatisfiable(),
        (Err(_), Ok(count)) if first.trim().is_empty() => {
            Ok(Some((length.saturating_sub(count), length)))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let read = |text| range(Some(text), 10).map_err(|_| ());
        assert_eq!(read("bytes=0-3"), Ok(Some((0, 4))));
        assert_eq!(read("bytes=4-"), Ok(Some((4, 10))));
        assert_eq!(read("bytes=4-99"), Ok(Some((4, 10))));
        assert_eq!(read("bytes=-3"), Ok(Some((7, 10))));
        assert_eq!(read("bytes=-99"), Ok(Some((0, 10))));
        assert_eq!(read("bytes=10-"), Err(()));
        assert_eq!(read("bytes=-0"), Err(()));
        assert_eq!(read("bytes=3-1"), Ok(None));
        assert_eq!(read("bytes=0-1,3-4"), Ok(None));
        assert_eq!(read("lines=1-2"), Ok(None));
        assert_eq!(read("bytes=x-"), Ok(None));
        assert_eq!(range(None, 10), Ok(None));
    }

    #[test]
    fn names_in_paths() {
        assert_eq!(unescaped("a%2Fb%20c+d").as_deref(), Ok("a/b c+d"));
        assert_eq!(unescaped("%C3%BC").as_deref(), Ok("ü"));
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert!(unescaped(bad).is_err(), "{bad}");
        }
    }
}
