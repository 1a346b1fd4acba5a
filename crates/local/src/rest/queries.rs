//! jobs.query and jobs.getQueryResults.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answer::{self, RestError, RestResult};
use super::jobs::{find, of_request};
use super::request::{JsonBody, Params};
use super::resource::job::{affected_rows, dml_stats, millis, nameless, reference};
use super::resource::list_etag;
use super::tabledata::{MAX_PAGE_BYTES, timestamp_text, write_from};
use super::{names, page};
use crate::engine::load::optional_int64;
use crate::error::{Reason, Result, ServiceError};
use crate::jobs::statistics::{QueryStatistics, Statistics};
use crate::jobs::{self, Job, JobKind, JobRequest, JobResult, JobState};
use crate::schema::TableSchema;
use crate::server::Service;
use crate::value::rows::PageWriter;
use crate::value::{TextOptions, TimestampText};

/// How long a request waits when it says nothing.
const DEFAULT_TIMEOUT_MS: u64 = 10_000;

/// How long a request waits at most (section 6.3 of the service reference).
const MAX_TIMEOUT_MS: u64 = 200_000;

/// Page tokens of results.
const ROWS: &str = "rows";

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/projects/{project}/queries", post(query))
        .route("/projects/{project}/queries/{job}", get(results))
}

/// Which rows a request wants, and how.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    start: usize,
    max_rows: Option<usize>,
    options: TextOptions,
}

/// What jobs.query and getQueryResults answer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Arc<TableSchema>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_reference: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_rows: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes_processed: Option<String>,
    job_complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_hit: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_dml_affected_rows: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dml_stats: Option<Value>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

async fn query(
    State(service): State<Arc<Service>>,
    Path(project): Path<String>,
    JsonBody(body): JsonBody,
) -> RestResult {
    names::check_project_id(&project)?;
    let request = Request::read(&project, &body)?;
    if request.dry_run {
        let done = jobs::dry_run(&service, request.job)
            .await
            .map_err(of_request)?;
        return Ok(answer::json(&described(&done)));
    }
    let job = match request.job.request_id.clone() {
        Some(id) => service
            .jobs
            .requests
            .once(&project, &id, || jobs::start(&service, request.job)),
        None => jobs::start(&service, request.job),
    };
    let job = job.map_err(of_request)?;
    job.wait(request.timeout).await;
    let wanted = request.wanted;
    let optional = request.optional;
    blocking(move || {
        let mut answer = outcome(&job, wanted)?;
        answer.kind = "bigquery#queryResponse";
        complete(&mut answer, &job);
        if optional && answer.job_complete && answer.page_token.is_none() {
            answer.job_reference = None;
            answer.more.remove("jobCreationReason");
        }
        Ok(answer)
    })
    .await
}

/// A query that needs no more than one page and no job.
struct Request {
    job: JobRequest,
    dry_run: bool,
    timeout: Duration,
    wanted: Wanted,
    /// Whether the client can do without a job's name.
    optional: bool,
}

/// Fields of a jobs.query body that are fields of `configuration.query`.
const QUERY_FIELDS: [&str; 9] = [
    "query",
    "defaultDataset",
    "useQueryCache",
    "useLegacySql",
    "parameterMode",
    "queryParameters",
    "maximumBytesBilled",
    "connectionProperties",
    "createSession",
];

impl Request {
    fn read(project: &str, body: &Value) -> Result<Self> {
        let text = |name: &str| match body.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(invalid(name, other)),
        };
        let flag = |object: Option<&Value>, name: &str| match object.and_then(|o| o.get(name)) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(invalid(name, other)),
        };
        let number = |name: &str| -> Result<Option<u64>> {
            let value = body.get(name).unwrap_or(&Value::Null);
            let number = optional_int64(value).map_err(|_| invalid(name, value))?;
            number
                .map(|n| u64::try_from(n).map_err(|_| invalid(name, value)))
                .transpose()
        };
        if text("query")?.is_none() {
            return Err(ServiceError::invalid(
                "Required parameter is missing: query",
            ));
        }
        let mut own = Map::new();
        for name in QUERY_FIELDS {
            if let Some(value) = body.get(name).filter(|v| !v.is_null()) {
                own.insert(name.to_string(), value.clone());
            }
        }
        let dry_run = flag(Some(body), "dryRun")?;
        let mut configuration = Map::new();
        configuration.insert("query".into(), Value::Object(own));
        for name in ["labels", "jobTimeoutMs", "reservation"] {
            if let Some(value) = body.get(name).filter(|v| !v.is_null()) {
                configuration.insert(name.to_string(), value.clone());
            }
        }
        if dry_run {
            configuration.insert("dryRun".into(), true.into());
        }
        let format = body.get("formatOptions");
        let output = format.and_then(|f| f.get("timestampOutputFormat"));
        let optional = match text("jobCreationMode")?.as_deref() {
            None | Some("JOB_CREATION_MODE_UNSPECIFIED" | "JOB_CREATION_REQUIRED") => false,
            Some("JOB_CREATION_OPTIONAL") => true,
            Some(other) => return Err(invalid("jobCreationMode", &json!(other))),
        };
        let max_rows = number("maxResults")?;
        Ok(Self {
            job: JobRequest {
                project: project.to_string(),
                id: None,
                location: text("location")?,
                configuration,
                files: Vec::new(),
                request_id: text("requestId")?,
            },
            dry_run,
            timeout: timeout(number("timeoutMs")?),
            wanted: Wanted {
                start: 0,
                max_rows: max_rows.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
                options: TextOptions {
                    timestamp: timestamp_text(
                        flag(format, "useInt64Timestamp")?,
                        output.and_then(Value::as_str),
                        TimestampText::Scientific,
                    )?,
                },
            },
            optional,
        })
    }
}

fn invalid(name: &str, value: &Value) -> ServiceError {
    ServiceError::invalid(format!("Invalid value for {name}: {value}")).at(name)
}

fn timeout(millis: Option<u64>) -> Duration {
    Duration::from_millis(millis.unwrap_or(DEFAULT_TIMEOUT_MS).min(MAX_TIMEOUT_MS))
}

async fn blocking(work: impl FnOnce() -> Result<Answer> + Send + 'static) -> RestResult {
    let answer = tokio::task::spawn_blocking(work).await.map_err(|e| {
        RestError(ServiceError::internal(format!(
            "reading results ended: {e}"
        )))
    })??;
    Ok(answer::json(&answer))
}

async fn results(
    State(service): State<Arc<Service>>,
    Path((project, id)): Path<(String, String)>,
    params: Params,
) -> RestResult {
    let job = find(&service, &project, &id, &params)?;
    if job.kind != JobKind::Query {
        return Err(
            ServiceError::invalid(format!("Job {} is not a query job.", job.reference)).into(),
        );
    }
    let wanted = Wanted {
        start: start_row(&job, &params)?,
        max_rows: params.number("maxResults")?,
        options: TextOptions {
            timestamp: timestamp_text(
                params.flag("formatOptions.useInt64Timestamp")?,
                params.get("formatOptions.timestampOutputFormat"),
                TimestampText::Scientific,
            )?,
        },
    };
    job.wait(timeout(params.number("timeoutMs")?)).await;
    blocking(move || {
        let mut answer = outcome(&job, wanted)?;
        answer.kind = "bigquery#getQueryResultsResponse";
        answer.etag = Some(list_etag(&(
            job.reference.to_string(),
            &answer.total_rows,
            wanted.start,
            answer.job_complete,
        )));
        Ok(answer)
    })
    .await
}

/// The row that a page begins with: the token's, else `startIndex`.
fn start_row(job: &Job, params: &Params) -> Result<usize> {
    let Some(position) = page::position(params, ROWS)? else {
        return Ok(params.number("startIndex")?.unwrap_or(0));
    };
    position
        .strip_prefix(job.reference.id.as_str())
        .and_then(|rest| rest.strip_prefix(':')?.parse().ok())
        .ok_or_else(|| ServiceError::invalid("Invalid page token.").at("pageToken"))
}

/// What a job has to say to a request for its rows: that it runs, why it failed, or
/// the rows.
fn outcome(job: &Job, wanted: Wanted) -> Result<Answer> {
    let progress = job.progress();
    let mut answer = Answer {
        job_reference: Some(reference(&job.reference)),
        job_complete: progress.state == JobState::Done,
        ..Answer::default()
    };
    if !answer.job_complete {
        return Ok(answer);
    }
    if let Some(error) = progress.error {
        return Err(of_request(of_job(error)));
    }
    if let Statistics::Query(query) = &progress.statistics {
        count(&mut answer, query);
    }
    if let Some(result) = progress.result {
        page_of(&mut answer, job, &result, wanted)?;
    } else if job
        .destination()
        .is_some_and(|t| t.dataset.starts_with('_'))
    {
        let table = job.destination().map(|t| t.to_string()).unwrap_or_default();
        return Err(ServiceError::not_found(format_args!("Table {table}")));
    }
    Ok(answer)
}

/// An error of a job in the words of a request for its rows: not this request has
/// failed, so sending it again is of no use (section 6.4 of the service reference).
fn of_job(mut error: ServiceError) -> ServiceError {
    error.reason = match error.reason {
        Reason::BackendError => Reason::JobBackendError,
        Reason::InternalError => Reason::JobInternalError,
        other => other,
    };
    error
}

fn count(answer: &mut Answer, query: &QueryStatistics) {
    answer.total_bytes_processed = query.bytes_processed.map(|b| b.to_string());
    answer.cache_hit = Some(query.cache_hit);
    if let Some(dml) = query.dml {
        answer.num_dml_affected_rows = Some(affected_rows(dml).to_string());
        answer.dml_stats = Some(dml_stats(dml));
    }
}

fn page_of(answer: &mut Answer, job: &Job, result: &JobResult, wanted: Wanted) -> Result<()> {
    answer.schema = Some(Arc::clone(&result.schema));
    let Some(snapshot) = &result.rows else {
        return Ok(());
    };
    let total = snapshot.rows();
    answer.total_rows = Some(total.to_string());
    let rows = wanted.max_rows.unwrap_or(usize::MAX);
    let mut page = PageWriter::new(&result.schema, rows, MAX_PAGE_BYTES, wanted.options);
    write_from(snapshot, wanted.start, &snapshot.arrow, &mut page)?;
    let page = page.finish()?;
    let next = wanted.start.saturating_add(page.count);
    if next < total {
        let position = format!("{}:{next}", job.reference.id);
        answer.page_token = Some(page::token(ROWS, &position));
    }
    if page.count > 0 {
        answer
            .more
            .insert("pageRowCount".into(), page.count.to_string().into());
        answer.rows = Some(page.rows);
    }
    Ok(())
}

/// Adds what jobs.query says beyond the rows.
fn complete(answer: &mut Answer, job: &Job) {
    let progress = job.progress();
    let more = &mut answer.more;
    more.insert("queryId".into(), job.reference.id.clone().into());
    more.insert("location".into(), job.reference.location.clone().into());
    more.insert("jobCreationReason".into(), json!({"code": "REQUESTED"}));
    more.insert("creationTime".into(), millis(job.created));
    if let Some(started) = progress.started {
        more.insert("startTime".into(), millis(started));
    }
    if let Some(ended) = progress.ended {
        more.insert("endTime".into(), millis(ended));
        let busy = ended - progress.started.unwrap_or(ended);
        more.insert("totalSlotMs".into(), millis(busy));
    }
    if let Statistics::Query(query) = &progress.statistics {
        bill(more, query);
    }
}

fn bill(more: &mut Map<String, Value>, query: &QueryStatistics) {
    if query.bytes_processed.is_some() {
        let billed = query.bytes_billed.to_string();
        more.insert("totalBytesBilled".into(), billed.into());
    }
    if let Some(statement_type) = query.statement_type.clone() {
        more.insert("statementType".into(), statement_type.into());
    }
}

/// The answer to a dry run.
fn described(job: &Job) -> Answer {
    let progress = job.progress();
    let mut answer = Answer {
        kind: "bigquery#queryResponse",
        job_reference: Some(nameless(&job.reference)),
        job_complete: true,
        schema: progress.result.map(|result| Arc::clone(&result.schema)),
        ..Answer::default()
    };
    let more = &mut answer.more;
    more.insert("location".into(), job.reference.location.clone().into());
    more.insert("creationTime".into(), millis(job.created));
    if let Some(ended) = progress.ended {
        more.insert("endTime".into(), millis(ended));
    }
    if let Statistics::Query(query) = &progress.statistics {
        bill(&mut answer.more, query);
        count(&mut answer, query);
    }
    answer.num_dml_affected_rows = None;
    answer.dml_stats = None;
    answer
}
