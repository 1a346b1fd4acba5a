//! Jobs that move whole tables and files: load, copy, and queries that write.
//!
//! In a project and region an id is used once, whatever became of its job. So a
//! job is inserted under an id that says what it does: whoever inserts it again,
//! after a lost answer or a crash, finds the first one.

use std::fmt;
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Transport;
use super::job_model::JobRef;
use super::model::number;
use super::transport::{Request, classify};
use crate::client::excerpt::excerpt;
use crate::client::retry::{Backoff, Pace};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{LoadDisposition, StagingFormat};
use crate::types::TableRef;

/// Errors of a failed job that are told besides the one that ended it.
const TOLD_DETAILS: usize = 3;

/// A table, or one of its partitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobTarget {
    /// The table.
    pub table: TableRef,
    /// The partition, as `20260101`.
    pub partition: Option<String>,
}

impl JobTarget {
    fn to_json(&self) -> Value {
        let id = match &self.partition {
            None => self.table.table.clone(),
            Some(partition) => format!("{}${partition}", self.table.table),
        };
        json!({
            "projectId": self.table.project,
            "datasetId": self.table.dataset,
            "tableId": id,
        })
    }
}

impl From<TableRef> for JobTarget {
    fn from(table: TableRef) -> Self {
        JobTarget {
            table,
            partition: None,
        }
    }
}

impl fmt::Display for JobTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.partition {
            None => write!(f, "{}", self.table),
            Some(partition) => write!(f, "{}${partition}", self.table),
        }
    }
}

/// What a job does. None of them makes a table.
#[derive(Debug, Clone, PartialEq)]
pub enum BulkWork {
    /// Loads files (`configuration.load`).
    Load {
        /// The files, as exact `gs://` addresses.
        uris: Vec<String>,
        /// Their format.
        format: StagingFormat,
        /// The columns, as `schema` of the REST interface.
        schema: Value,
    },
    /// Copies tables (`configuration.copy`).
    Copy {
        /// The tables.
        sources: Vec<TableRef>,
    },
    /// Writes the result of a query (`configuration.query`), which is billed.
    Query {
        /// GoogleSQL.
        sql: String,
    },
}

/// A job to insert.
#[derive(Debug, Clone, PartialEq)]
pub struct BulkRequest {
    /// Its id, and where it runs.
    pub job: JobRef,
    /// What it does.
    pub work: BulkWork,
    /// Where the rows go.
    pub target: JobTarget,
    /// What becomes of the rows that are there.
    pub disposition: LoadDisposition,
    /// Labels of the job.
    pub labels: Vec<(String, String)>,
}

impl BulkRequest {
    fn configuration(&self) -> Value {
        let disposition = match self.disposition {
            LoadDisposition::Append => "WRITE_APPEND",
            LoadDisposition::Truncate => "WRITE_TRUNCATE",
            LoadDisposition::TruncateData => "WRITE_TRUNCATE_DATA",
            LoadDisposition::Empty => "WRITE_EMPTY",
        };
        let mut own = Map::new();
        let kind = match &self.work {
            BulkWork::Load {
                uris,
                format,
                schema,
            } => {
                own.insert("sourceUris".into(), json!(uris));
                own.insert("schema".into(), schema.clone());
                match format {
                    StagingFormat::Avro => {
                        own.insert("sourceFormat".into(), "AVRO".into());
                        // Without it dates and times load as integers.
                        own.insert("useAvroLogicalTypes".into(), true.into());
                    }
                    StagingFormat::Parquet => {
                        own.insert("sourceFormat".into(), "PARQUET".into());
                        // Without it arrays load empty.
                        let options = json!({"enableListInference": true});
                        own.insert("parquetOptions".into(), options);
                    }
                }
                let decimals = json!(["NUMERIC", "BIGNUMERIC"]);
                own.insert("decimalTargetTypes".into(), decimals);
                "load"
            }
            BulkWork::Copy { sources } => {
                let sources: Vec<Value> = sources
                    .iter()
                    .map(|source| JobTarget::from(source.clone()).to_json())
                    .collect();
                own.insert("sourceTables".into(), sources.into());
                "copy"
            }
            BulkWork::Query { sql } => {
                own.insert("query".into(), sql.clone().into());
                own.insert("useLegacySql".into(), false.into());
                "query"
            }
        };
        own.insert("destinationTable".into(), self.target.to_json());
        own.insert("createDisposition".into(), "CREATE_NEVER".into());
        own.insert("writeDisposition".into(), disposition.into());
        let mut configuration = json!({kind: own});
        if !self.labels.is_empty() {
            let labels: Map<String, Value> = self
                .labels
                .iter()
                .map(|(name, value)| (name.clone(), value.clone().into()))
                .collect();
            configuration["labels"] = labels.into();
        }
        configuration
    }

    /// Whether a job of the same id is this one, as far as the service tells what it
    /// does.
    fn is(&self, found: &Value) -> bool {
        let wanted = self.configuration();
        ["load", "copy", "query"].iter().all(|kind| {
            let (wanted, found) = (wanted.get(kind), found.get(kind));
            wanted.is_some() == found.is_some()
                && [
                    "destinationTable",
                    "writeDisposition",
                    "sourceUris",
                    "sourceTables",
                    "query",
                ]
                .iter()
                .all(|key| {
                    let of = |value: Option<&Value>| value.and_then(|v| v.get(key)).cloned();
                    of(found).is_none_or(|found| Some(found) == of(wanted))
                })
        })
    }
}

/// A job as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct BulkJob {
    /// Its name.
    pub reference: JobRef,
    /// How far it is.
    pub state: BulkState,
    /// The rows that it wrote, where the service tells them.
    pub rows: Option<u64>,
    /// Whether this request started it or found it.
    pub begun: Begun,
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkState {
    /// Not done.
    Running,
    /// Done as asked.
    Succeeded,
    /// Done, and nothing came of it.
    Failed(BulkFailure),
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkFailure {
    /// The service's word for it, such as `invalid`.
    pub reason: String,
    /// In words, with the place and the details that the service tells.
    pub message: String,
}

/// How a job came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// This request started it.
    Now,
    /// There was a job of this id: of an attempt whose answer was lost, or of a
    /// commit that is repeated.
    Before,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobAnswer {
    job_reference: ReferenceAnswer,
    #[serde(default)]
    configuration: Value,
    #[serde(default)]
    status: StatusAnswer,
    #[serde(default)]
    statistics: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReferenceAnswer {
    location: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatusAnswer {
    state: String,
    error_result: Option<ErrorAnswer>,
    errors: Vec<ErrorAnswer>,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(default)]
struct ErrorAnswer {
    reason: String,
    location: String,
    message: String,
}

impl fmt::Display for ErrorAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", excerpt(&self.message))?;
        if !self.location.is_empty() {
            write!(f, " (at {})", excerpt(&self.location))?;
        }
        Ok(())
    }
}

impl BulkFailure {
    fn of(result: ErrorAnswer, errors: &[ErrorAnswer]) -> Self {
        let mut message = format!("{}: {result}", result.reason);
        for detail in errors
            .iter()
            .filter(|detail| detail.message != result.message)
            .take(TOLD_DETAILS)
        {
            message.push_str(&format!("; {}: {detail}", detail.reason));
        }
        BulkFailure {
            reason: result.reason,
            message,
        }
    }

    /// The failure as an error. [`Error::is_retryable`] says whether the same work
    /// may succeed under another id.
    pub fn into_error(self, job: &JobRef) -> Error {
        let (kind, retry) = classify(400, &self.reason);
        let kind = match (kind, self.reason.as_str()) {
            (_, "notFound") => ErrorKind::NotFound,
            (_, "accessDenied") => ErrorKind::PermissionDenied,
            (_, "duplicate") => ErrorKind::AlreadyExists,
            (kind, _) => kind,
        };
        Error::new(kind, self.message)
            .with_retry(retry)
            .with_context(format!("job {job}"))
    }
}

impl Transport {
    /// Inserts a job, or finds the one that has its id.
    pub(crate) async fn insert_bulk(&self, request: &BulkRequest) -> Result<BulkJob> {
        let job = &request.job;
        let body = json!({
            "jobReference": job.to_json(),
            "configuration": request.configuration(),
        });
        let path = ["projects", &job.project, "jobs"];
        let sent = Request::new(Method::POST, &path).with_body(&body);
        match self.send(sent).await {
            Ok(answer) => bulk_job(job, &answer, Begun::Now),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let answer = self.bulk_answer(job).await?;
                let configuration = answer.get("configuration").unwrap_or(&Value::Null);
                if !request.is(configuration) {
                    return Err(Error::new(
                        ErrorKind::FailedPrecondition,
                        format!(
                            "job {job} exists and does something else than this commit: it was \
                             made by something that is not this library"
                        ),
                    ));
                }
                bulk_job(job, &answer, Begun::Before)
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::new(
                ErrorKind::PermissionDenied,
                format!(
                    "the job cannot run in project {} ({}): the caller needs \
                     bigquery.jobs.create on it (option 'billing_project'; role \
                     roles/bigquery.jobUser), may write to the table (roles/bigquery.dataEditor) \
                     and read the staged files (roles/storage.objectViewer)",
                    job.project,
                    error.message()
                ),
            )),
            Err(error) => Err(error.with_context(format!("job {job}"))),
        }
    }

    /// Waits until a job is done, however long it runs, and gives it as it ended.
    pub(crate) async fn wait_for_bulk(
        &self,
        mut job: BulkJob,
        first_wait: Duration,
        longest_wait: Duration,
    ) -> Result<BulkJob> {
        let mut pace = Pace::new(first_wait, longest_wait, self.clock().clone());
        let mut backoff = Backoff::new(self.policy(), self.clock().clone());
        while job.state == BulkState::Running {
            pace.wait().await;
            match self.bulk_answer(&job.reference).await {
                Ok(answer) => {
                    backoff.progressed();
                    job = bulk_job(&job.reference, &answer, job.begun)?;
                }
                Err(error) => backoff.after(error).await?,
            }
        }
        Ok(job)
    }

    /// The job of this id, if there is one.
    pub(crate) async fn find_bulk(&self, job: &JobRef) -> Result<Option<BulkJob>> {
        match self.bulk_answer(job).await {
            Ok(answer) => bulk_job(job, &answer, Begun::Before).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn bulk_answer(&self, job: &JobRef) -> Result<Value> {
        let location = job.location.as_deref().map(|place| ("location", place));
        let path = ["projects", &job.project, "jobs", &job.id];
        self.get(&path, location.as_slice())
            .await
            .map_err(|error| error.with_context(format!("job {job}")))
    }
}

fn bulk_job(asked: &JobRef, answer: &Value, begun: Begun) -> Result<BulkJob> {
    let answer = JobAnswer::deserialize(answer).map_err(|error| {
        Error::data(format!(
            "the service's answer is not a job resource ({error})"
        ))
    })?;
    let state = match (answer.status.state.as_str(), answer.status.error_result) {
        ("DONE", Some(result)) => BulkState::Failed(BulkFailure::of(result, &answer.status.errors)),
        ("DONE", None) => BulkState::Succeeded,
        _ => BulkState::Running,
    };
    let is = |kind: &str| answer.configuration.get(kind).is_some();
    let statistics = &answer.statistics;
    let rows = if is("load") {
        number(statistics.pointer("/load/outputRows"))
    } else if is("copy") {
        number(statistics.pointer("/copy/copiedRows"))
    } else {
        None
    };
    Ok(BulkJob {
        reference: JobRef {
            location: answer.job_reference.location.or(asked.location.clone()),
            ..asked.clone()
        },
        state,
        rows,
        begun,
    })
}
