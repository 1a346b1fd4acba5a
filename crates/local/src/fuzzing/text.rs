//! Text: requests, SQL and restrictions.

use std::time::Duration;

use axum::body::Body;
use http::{Method, Request};

use super::world::{World, rows, schema};
use super::{Verdict, watch};
use crate::engine::restriction::Restriction;
use crate::engine::{self, QueryOutcome};
use crate::value::build::JsonText;
use crate::value::{JsonRowsBuilder, UnknownFields};

/// How long a statement may compute before it is cancelled; it must then stop.
const PATIENCE: Duration = Duration::from_secs(5);

/// A REST request: a line `METHOD PATH`, and the body, which is said to be JSON.
pub fn rest_json(bytes: &[u8]) -> Verdict {
    let end = bytes.iter().position(|b| *b == b'\n');
    let (line, body) = match end {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[][..]),
    };
    let space = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
    let path = line.get(space + 1..).unwrap_or_default();
    let (Ok(method), Ok(uri)) = (
        Method::from_bytes(&line[..space]),
        http::Uri::try_from(path),
    ) else {
        return Verdict::Refused;
    };
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", "application/json")
        .body(Body::from(body.to_vec()));
    let Ok(request) = request else {
        return Verdict::Refused;
    };
    watch::run(async move {
        let world = World::with_table().await;
        let (status, _) = world.call(request).await;
        if status.is_success() {
            Verdict::Accepted
        } else {
            Verdict::Refused
        }
    })
}

/// A script of GoogleSQL, planned and run.
pub fn sql(bytes: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(bytes).into_owned();
    watch::run(async move {
        let world = World::with_table().await;
        let mut request = world.query(&text);
        request.dry_run = true;
        // The answer of a run decides: a script may be right and not plannable.
        drop(engine::execute(&world.service, request).await);
        let request = world.query(&text);
        let cancel = request.cancel.clone();
        let running = engine::execute(&world.service, request);
        tokio::pin!(running);
        let done = match tokio::time::timeout(PATIENCE, &mut running).await {
            Ok(done) => done,
            Err(_) => {
                cancel.cancel();
                running.await
            }
        };
        Verdict::of(&done.and_then(QueryOutcome::to_the_end))
    })
}

/// A row restriction of a read session.
pub fn restriction(bytes: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(bytes).into_owned();
    watch::run(async move {
        let work = move || {
            let schema = schema();
            let mut batch = JsonRowsBuilder::new(&schema, UnknownFields::Refuse, JsonText::Encoded);
            for row in rows() {
                batch.push(&row).expect("the rows are valid");
            }
            let batch = batch.finish().expect("the rows are valid");
            let parsed = Restriction::parse(&text, &schema);
            Verdict::of(&parsed.and_then(|restriction| restriction.evaluate(&batch)))
        };
        tokio::task::spawn_blocking(work)
            .await
            .expect("a restriction never panics")
    })
}
