//! Jobs: insert, get, list, cancel, delete.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde_json::{Map, Value, json};

use super::answer::{self, RestResult};
use super::request::{JsonBody, Params};
use super::resource::job::{self, Projection};
use super::resource::{list_etag, set_next_page};
use super::{names, page};
use crate::engine::load::LoadFile;
use crate::error::{Result, ServiceError};
use crate::jobs::reference::{DEFAULT_LOCATION, canonical_location};
use crate::jobs::{self, Job, JobFilter, JobRef, JobRequest, JobState};
use crate::server::Service;

/// How long jobs.insert waits for the job before it answers that it still runs.
/// The service too answers short jobs as done.
pub(super) const SETTLE: Duration = Duration::from_secs(5);

/// Entries of one page of jobs.list at most, and when nothing is said.
const MAX_LIST: usize = 1_000;

/// Page tokens of jobs.list.
const LIST: &str = "jobs";

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/projects/{project}/jobs", post(insert).get(list))
        .route("/projects/{project}/jobs/{job}", get(get_one))
        .route("/projects/{project}/jobs/{job}/cancel", post(cancel))
        .route("/projects/{project}/jobs/{job}/delete", delete(delete_one))
}

async fn insert(
    State(service): State<Arc<Service>>,
    Path(project): Path<String>,
    JsonBody(body): JsonBody,
) -> RestResult {
    insert_job(&service, &project, body, Vec::new()).await
}

/// Starts the job that a request body describes, for which `files` were uploaded.
pub(super) async fn insert_job(
    service: &Arc<Service>,
    project: &str,
    body: Value,
    files: Vec<LoadFile>,
) -> RestResult {
    let request = read_request(project, body, files)?;
    if request.configuration.get("dryRun") == Some(&Value::Bool(true)) {
        let done = jobs::dry_run(service, request).await.map_err(of_request)?;
        return Ok(answer::resource(&job::dry_run(service, &done)));
    }
    let job = jobs::start(service, request).map_err(of_request)?;
    Ok(settled(service, &job).await)
}

/// The job's resource, as soon as it is done or has run for a while.
pub(super) async fn settled(service: &Service, job: &Job) -> Response {
    job.wait(SETTLE).await;
    answer::resource(&job::resource(service, job))
}

/// An error of a job's query in the words of a request: its place is the parameter
/// `q` (recorded).
pub(super) fn of_request(mut error: ServiceError) -> ServiceError {
    if error.location.as_deref() == Some("query") {
        error.location = Some("q".into());
    }
    error
}

/// Reads the Job resource of a request.
pub(super) fn read_request(project: &str, body: Value, files: Vec<LoadFile>) -> Result<JobRequest> {
    names::check_project_id(project)?;
    let reference = member(&body, "jobReference")?;
    let text = |name: &str| -> Result<Option<String>> {
        match reference.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(ServiceError::invalid(format!(
                "Invalid value for jobReference.{name}: {other} is not a string"
            ))),
        }
    };
    if let Some(named) = text("projectId")?.filter(|named| named != project) {
        return Err(ServiceError::invalid(format!(
            "Value '{named}' in content does not agree with value '{project}'. This can happen \
             when a value set through a parameter is inconsistent with a value set in the request."
        )));
    }
    Ok(JobRequest {
        project: project.to_string(),
        id: text("jobId")?,
        location: text("location")?,
        configuration: member(&body, "configuration")?,
        files,
        request_id: None,
    })
}

fn member(body: &Value, name: &str) -> Result<Map<String, Value>> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object.clone()),
        Some(other) => Err(ServiceError::invalid(format!(
            "Invalid value for {name}: {other} is not an object"
        ))),
    }
}

/// The job that a path and its `location` parameter name. Without a location only
/// the US are searched (measured, section 5.1 of the service reference).
pub(super) fn find(
    service: &Service,
    project: &str,
    id: &str,
    params: &Params,
) -> Result<Arc<Job>> {
    let location = params.get("location");
    let reference = JobRef {
        project: project.to_string(),
        location: location.map_or_else(|| DEFAULT_LOCATION.to_string(), canonical_location),
        id: id.to_string(),
    };
    service
        .jobs
        .registry
        .get(&reference)
        .map_err(|e| match location {
            Some(_) => e,
            None => ServiceError::not_found(format_args!("Job {project}:{id}")),
        })
}

async fn get_one(
    State(service): State<Arc<Service>>,
    Path((project, id)): Path<(String, String)>,
    params: Params,
) -> RestResult {
    let job = find(&service, &project, &id, &params)?;
    Ok(answer::resource(&job::resource(&service, &job)))
}

async fn cancel(
    State(service): State<Arc<Service>>,
    Path((project, id)): Path<(String, String)>,
    params: Params,
) -> RestResult {
    let job = find(&service, &project, &id, &params)?;
    job.cancel();
    Ok(answer::json(&json!({
        "kind": "bigquery#jobCancelResponse",
        "job": job::resource(&service, &job),
    })))
}

async fn delete_one(
    State(service): State<Arc<Service>>,
    Path((project, id)): Path<(String, String)>,
    params: Params,
) -> RestResult {
    let job = find(&service, &project, &id, &params)?;
    jobs::delete(&service, &job.reference)?;
    Ok(answer::json(&json!({})))
}

async fn list(
    State(service): State<Arc<Service>>,
    Path(project): Path<String>,
    params: Params,
) -> RestResult {
    names::check_project_id(&project)?;
    let filter = JobFilter {
        states: states(&params)?,
        parent: params.get("parentJobId").map(str::to_string),
        min_creation_time: params.number("minCreationTime")?,
        max_creation_time: params.number("maxCreationTime")?,
    };
    let projection = match params.get("projection").unwrap_or("minimal") {
        "full" | "FULL" => Projection::Full,
        "minimal" | "MINIMAL" => Projection::Minimal,
        other => {
            return Err(ServiceError::invalid(format!(
                "Invalid value '{other}' for parameter projection."
            ))
            .at("projection")
            .into());
        }
    };
    let before = match page::position(&params, LIST)? {
        None => None,
        Some(position) => Some(
            position
                .parse()
                .map_err(|_| ServiceError::invalid("Invalid page token.").at("pageToken"))?,
        ),
    };
    let size = params
        .number::<usize>("maxResults")?
        .map_or(MAX_LIST, |n| n.min(MAX_LIST));
    let mut found = service
        .jobs
        .registry
        .list(&project, &filter, before, size + 1);
    let more = found.len() > size;
    found.truncate(size);
    let next = match found.last() {
        Some((serial, _)) if more => Some(page::token(LIST, &serial.to_string())),
        _ => None,
    };
    let items: Vec<Value> = found
        .iter()
        .map(|(_, job)| job::list_item(job, projection))
        .collect();
    let mut body = json!({"kind": "bigquery#jobList", "etag": list_etag(&items), "jobs": items});
    set_next_page(&mut body, next);
    Ok(answer::resource(&body))
}

/// `stateFilter`, which may be repeated.
fn states(params: &Params) -> Result<Vec<JobState>> {
    params
        .all("stateFilter")
        .map(|text| match text.to_ascii_lowercase().as_str() {
            "pending" => Ok(JobState::Pending),
            "running" => Ok(JobState::Running),
            "done" => Ok(JobState::Done),
            _ => Err(ServiceError::invalid(format!(
                "Invalid value '{text}' for parameter stateFilter."
            ))
            .at("stateFilter")),
        })
        .collect()
}
