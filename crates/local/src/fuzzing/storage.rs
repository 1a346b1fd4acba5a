//! Requests of Cloud Storage and Pub/Sub.

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::world::World;
use super::{Verdict, watch};
use crate::gcs;

/// What is there before a request: a bucket, an object, an upload in parts, a topic.
const BEFORE: [&[u8]; 4] = [
    b"POST /storage/v1/b\n\n{\"name\": \"bucket\"}",
    b"PUT /bucket/o\n\n0123456789",
    b"POST /bucket/parts?uploads=\n\n",
    b"PUT /v1/projects/p/topics/topic\n\n",
];

/// A request: a line `METHOD PATH`, lines `name: value`, an empty line, the body.
pub fn storage(bytes: &[u8]) -> Verdict {
    let Some(request) = request(bytes) else {
        return Verdict::Refused;
    };
    watch::run(async move {
        let world = World::with_dataset().await;
        let app = gcs::app(&world.service);
        for before in BEFORE {
            let request = request_of(before);
            let Ok(answer) = app.clone().oneshot(request).await;
            assert!(answer.status().is_success(), "{}", answer.status());
        }
        let Ok(answer) = app.oneshot(request).await;
        let status = answer.status();
        let body = answer.into_body().collect().await;
        match body {
            Ok(_) if status.is_success() || status.is_redirection() => Verdict::Accepted,
            _ => Verdict::Refused,
        }
    })
}

fn request_of(bytes: &[u8]) -> Request<Body> {
    request(bytes).expect("the request is valid")
}

fn request(bytes: &[u8]) -> Option<Request<Body>> {
    let mut rest = bytes;
    let mut line = || -> &[u8] {
        let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        line
    };
    let first = line();
    let space = first.iter().position(|b| *b == b' ')?;
    let uri = http::Uri::try_from(&first[space + 1..]).ok()?;
    let mut request = Request::builder()
        .method(Method::from_bytes(&first[..space]).ok()?)
        .uri(uri);
    loop {
        let header = line();
        if header.is_empty() {
            break;
        }
        let colon = header.iter().position(|b| *b == b':')?;
        request = request.header(&header[..colon], header[colon + 1..].trim_ascii());
    }
    request.body(Body::from(rest.to_vec())).ok()
}
