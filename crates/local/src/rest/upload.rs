//! Uploads: load jobs that bring their file along, in one request or in pieces.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::header::{CONTENT_RANGE, CONTENT_TYPE, HOST, HeaderMap, HeaderName, LOCATION, RANGE};
use http::{StatusCode, Uri};
use serde_json::Value;

use super::answer::{self, RestResult};
use super::jobs::{insert_job, of_request, read_request, settled};
use super::names;
use super::request::{JsonBody, Params, bounded, gunzip, is_gzip, parse_error};
use super::upload_multipart::parts;
use crate::engine::load::LoadFile;
use crate::error::{Reason, Result, ServiceError};
use crate::jobs::config::JobConfig;
use crate::jobs::uploads::{MAX_UPLOAD_BYTES, Progress, Range};
use crate::jobs::{self, JobKind};
use crate::server::Service;

const UPLOAD_ID: HeaderName = HeaderName::from_static("x-guploader-uploadid");

pub(super) fn routes() -> Router<Arc<Service>> {
    let mut router = Router::new();
    for path in [
        "/upload/bigquery/v2/projects/{project}/jobs",
        "/resumable/upload/bigquery/v2/projects/{project}/jobs",
        "/upload/projects/{project}/jobs",
        "/resumable/upload/projects/{project}/jobs",
    ] {
        router = router.route(path, post(begin).put(receive).delete(abandon));
    }
    router
}

fn limit() -> usize {
    usize::try_from(MAX_UPLOAD_BYTES).unwrap_or(usize::MAX)
}

async fn begin(
    State(service): State<Arc<Service>>,
    Path(project): Path<String>,
    params: Params,
    request: Request,
) -> RestResult {
    names::check_project_id(&project)?;
    if params.get("upload_id").is_some() {
        // Some clients send the pieces by POST.
        return piece(&service, &project, &params, request).await;
    }
    match params.get("uploadType") {
        Some("multipart") => multipart(&service, &project, request).await,
        Some("resumable") => resumable(&service, &project, request).await,
        Some(other) => Err(ServiceError::invalid(format!(
            "Invalid value '{other}' for parameter uploadType: use multipart or resumable."
        ))
        .at("uploadType")
        .into()),
        None => Err(
            ServiceError::invalid("Required parameter is missing: uploadType")
                .at("uploadType")
                .into(),
        ),
    }
}

async fn multipart(service: &Arc<Service>, project: &str, request: Request) -> RestResult {
    let content_type = header(request.headers(), &CONTENT_TYPE).unwrap_or_default();
    let gzip = is_gzip(&request);
    let body = bounded(request.into_body(), limit()).await?;
    let body = if gzip { gunzip(&body, limit())? } else { body };
    let [metadata, media] = parts(&content_type, &body)?;
    let resource: Value = serde_json::from_slice(&metadata).map_err(parse_error)?;
    load_only(project, &resource)?;
    insert_job(service, project, resource, vec![file(media)]).await
}

fn file(data: Bytes) -> LoadFile {
    LoadFile {
        name: String::new(),
        data,
    }
}

/// Refuses a job that has no use for a file, before the file is sent.
fn load_only(project: &str, resource: &Value) -> Result<()> {
    let mut request = read_request(project, resource.clone(), Vec::new())?;
    let config = JobConfig::read(&mut request.configuration)?;
    if config.kind() == JobKind::Load {
        return Ok(());
    }
    Err(ServiceError::invalid(format!(
        "Media uploads are for load jobs; this is a job of type {}.",
        config.kind().as_str()
    )))
}

async fn resumable(service: &Arc<Service>, project: &str, request: Request) -> RestResult {
    let host = header(request.headers(), &HOST).unwrap_or_else(|| service.options.rest.to_string());
    let path = request.uri().path().to_string();
    let JsonBody(resource) = JsonBody::from_request(request, &()).await?;
    load_only(project, &resource)?;
    let id = service.jobs.uploads.begin(project, resource)?;
    let location = format!("http://{host}{path}?uploadType=resumable&upload_id={id}");
    let location: Uri = location.parse().map_err(|_| {
        ServiceError::invalid("The Host header and the path make no address for the upload.")
    })?;
    Ok((
        StatusCode::OK,
        [
            (LOCATION, location.to_string()),
            (UPLOAD_ID, id),
            (CONTENT_TYPE, "text/plain; charset=utf-8".to_string()),
        ],
        Body::empty(),
    )
        .into_response())
}

async fn receive(
    State(service): State<Arc<Service>>,
    Path(project): Path<String>,
    params: Params,
    request: Request,
) -> RestResult {
    names::check_project_id(&project)?;
    piece(&service, &project, &params, request).await
}

async fn piece(
    service: &Arc<Service>,
    project: &str,
    params: &Params,
    request: Request,
) -> RestResult {
    let id = upload_id(params)?;
    let range = header(request.headers(), &CONTENT_RANGE);
    let body = bounded(request.into_body(), limit()).await?;
    let range = content_range(range.as_deref(), body.len())?;
    match service.jobs.uploads.receive(project, id, range, &body)? {
        Progress::Incomplete(received) => Ok(incomplete(id, received)),
        Progress::Done(job) => Ok(settled(service, &job).await),
        Progress::Complete {
            project,
            resource,
            data,
        } => {
            let started = read_request(&project, resource, vec![file(data)])
                .and_then(|request| jobs::start(service, request));
            match started {
                Ok(job) => {
                    service.jobs.uploads.finish(id, &job);
                    Ok(settled(service, &job).await)
                }
                Err(error) => {
                    service.jobs.uploads.abandon(id)?;
                    Err(of_request(error).into())
                }
            }
        }
    }
}

async fn abandon(
    State(service): State<Arc<Service>>,
    Path(_project): Path<String>,
    params: Params,
) -> RestResult {
    service.jobs.uploads.abandon(upload_id(&params)?)?;
    Ok(answer::no_content())
}

fn upload_id(params: &Params) -> Result<&str> {
    params.get("upload_id").ok_or_else(|| {
        ServiceError::invalid("Required parameter is missing: upload_id").at("upload_id")
    })
}

/// 308: how much has arrived.
fn incomplete(id: &str, received: u64) -> Response {
    let mut response = (
        StatusCode::PERMANENT_REDIRECT,
        [(UPLOAD_ID, id.to_string())],
        Body::empty(),
    )
        .into_response();
    if let Some(last) = received.checked_sub(1)
        && let Ok(value) = format!("bytes=0-{last}").parse()
    {
        response.headers_mut().insert(RANGE, value);
    }
    response
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(str::to_string)
}

/// Reads `bytes 0-9/10`, `bytes 0-9/*`, `bytes */10` and `bytes */*`; without a
/// header the body is the whole file.
fn content_range(text: Option<&str>, length: usize) -> Result<Range> {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    let Some(text) = text else {
        return Ok(Range {
            start: Some(0),
            total: Some(length),
        });
    };
    let invalid = || {
        ServiceError::new(
            Reason::Invalid,
            format!("Invalid Content-Range header: {text}"),
        )
    };
    let (range, total) = text
        .trim()
        .strip_prefix("bytes")
        .and_then(|rest| rest.trim_start().split_once('/'))
        .ok_or_else(invalid)?;
    let total = match total.trim() {
        "*" => None,
        digits => Some(digits.parse().map_err(|_| invalid())?),
    };
    if range.trim() == "*" {
        return Ok(Range { start: None, total });
    }
    let (first, last) = range.trim().split_once('-').ok_or_else(invalid)?;
    let (first, last): (u64, u64) = match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => (first, last),
        _ => return Err(invalid()),
    };
    if last < first || last - first != length.saturating_sub(1) || length == 0 {
        return Err(ServiceError::invalid(format!(
            "The Content-Range header {text} does not agree with a body of {length} bytes."
        )));
    }
    Ok(Range {
        start: Some(first),
        total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges() {
        let read = |text, length| content_range(text, length).map(|r| (r.start, r.total));
        assert_eq!(read(None, 3), Ok((Some(0), Some(3))));
        assert_eq!(read(Some("bytes 0-21/22"), 22), Ok((Some(0), Some(22))));
        assert_eq!(read(Some("bytes 5-9/*"), 5), Ok((Some(5), None)));
        assert_eq!(read(Some("bytes */22"), 0), Ok((None, Some(22))));
        assert_eq!(read(Some("bytes */*"), 0), Ok((None, None)));
        for (bad, length) in [
            ("bytes 0-21/22", 21),
            ("bytes 9-5/10", 5),
            ("bytes 0-0/1", 0),
            ("bytes x-y/z", 1),
            ("bytes 0-1", 2),
            ("lines 0-1/2", 2),
            ("bytes -1-2/3", 4),
            ("bytes 0-18446744073709551615/*", 1),
        ] {
            assert!(read(Some(bad), length).is_err(), "{bad}");
        }
    }
}
