//! Jobs as the REST interface describes them.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::model::{millis, number};
use crate::error::{Error, Result};
use crate::types::{TableRef, TableSchema, json};

/// A job by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobRef {
    /// The project that runs it.
    pub project: String,
    /// Its id in project and region.
    pub id: String,
    /// Its region. A job outside of the US is found only by it.
    pub location: Option<String>,
}

impl JobRef {
    pub(super) fn to_json(&self) -> Value {
        let mut reference = Map::new();
        reference.insert("projectId".into(), self.project.clone().into());
        reference.insert("jobId".into(), self.id.clone().into());
        if let Some(location) = &self.location {
            reference.insert("location".into(), location.clone().into());
        }
        Value::Object(reference)
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => write!(f, "{}:{location}.{}", self.project, self.id),
            None => write!(f, "{}:{}", self.project, self.id),
        }
    }
}

/// A query job as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub reference: JobRef,
    /// How far it is.
    pub state: JobState,
    /// When it was created.
    pub created: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended: Option<DateTime<Utc>>,
    /// The table with its result.
    pub destination: Option<TableRef>,
    /// Bytes that it read, as they are billed before rounding.
    pub bytes_processed: Option<u64>,
    /// What kind of statement it ran.
    pub statement_type: Option<String>,
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// Not done.
    Running,
    /// Done as asked.
    Succeeded,
    /// Done, and nothing came of it.
    Failed(JobFailure),
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFailure {
    /// The service's word for it, such as `invalidQuery` or `stopped`.
    pub reason: String,
    /// In words.
    pub message: String,
}

impl Job {
    /// Whether nothing more will happen to it.
    pub fn is_done(&self) -> bool {
        self.state != JobState::Running
    }

    /// Reads a job resource.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Data`] when the value is not one.
    pub fn from_json(value: &Value) -> Result<Self> {
        let answer = JobAnswer::deserialize(value).map_err(|error| {
            Error::data(format!(
                "the service's answer is not a job resource ({error})"
            ))
        })?;
        let query = answer.configuration.query.unwrap_or_default();
        let state = match (answer.status.state.as_str(), answer.status.error_result) {
            ("DONE", Some(error)) => JobState::Failed(JobFailure {
                reason: error.reason,
                message: error.message,
            }),
            ("DONE", None) => JobState::Succeeded,
            _ => JobState::Running,
        };
        let statistics = answer.statistics.unwrap_or_default();
        let of_query = statistics.query.unwrap_or_default();
        Ok(Job {
            reference: JobRef {
                project: answer.job_reference.project_id,
                id: answer.job_reference.job_id.unwrap_or_default(),
                location: answer.job_reference.location,
            },
            state,
            created: millis(statistics.creation_time.as_ref()),
            ended: millis(statistics.end_time.as_ref()),
            destination: query.destination_table.map(|table| TableRef {
                project: table.project_id,
                dataset: table.dataset_id,
                table: table.table_id,
            }),
            bytes_processed: number(statistics.total_bytes_processed.as_ref()),
            statement_type: of_query.statement_type,
        })
    }
}

/// What a dry run says of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// What kind of statement it is, such as `SELECT`.
    pub statement_type: Option<String>,
    /// The columns of its result.
    pub schema: TableSchema,
    /// Bytes that it would read.
    pub bytes_processed: Option<u64>,
    /// Where it would run.
    pub location: Option<String>,
}

impl DryRun {
    pub(super) fn from_json(value: &Value) -> Result<Self> {
        let answer = JobAnswer::deserialize(value).map_err(|error| {
            Error::data(format!(
                "the service's answer is not a job resource ({error})"
            ))
        })?;
        let statistics = answer.statistics.unwrap_or_default();
        let query = statistics.query.unwrap_or_default();
        Ok(DryRun {
            statement_type: query.statement_type,
            schema: json::table_schema(query.schema.as_ref())?,
            bytes_processed: number(statistics.total_bytes_processed.as_ref())
                .or_else(|| number(query.total_bytes_processed.as_ref())),
            location: answer.job_reference.location,
        })
    }
}

/// Some rows of a finished query, and the token by which to ask for more.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultPage {
    /// The columns.
    pub schema: TableSchema,
    /// Rows in the REST interface's form.
    pub rows: Vec<Value>,
    /// Rows of the whole result.
    pub total_rows: Option<u64>,
    /// For the next page, if there is one.
    pub next: Option<String>,
}

impl ResultPage {
    pub(super) fn from_json(value: Value) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            schema: Option<Value>,
            #[serde(default)]
            rows: Vec<Value>,
            total_rows: Option<Value>,
            page_token: Option<String>,
            #[serde(default)]
            job_complete: bool,
        }
        let answer = Answer::deserialize(value).map_err(|error| {
            Error::data(format!(
                "the service's answer is not a page of rows ({error})"
            ))
        })?;
        if !answer.job_complete {
            return Err(Error::data("a finished job is said to run"));
        }
        Ok(ResultPage {
            schema: json::table_schema(answer.schema.as_ref())?,
            rows: answer.rows,
            total_rows: number(answer.total_rows.as_ref()),
            next: answer.page_token.filter(|token| !token.is_empty()),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobAnswer {
    job_reference: JobReferenceAnswer,
    #[serde(default)]
    configuration: ConfigurationAnswer,
    #[serde(default)]
    status: StatusAnswer,
    statistics: Option<StatisticsAnswer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobReferenceAnswer {
    project_id: String,
    job_id: Option<String>,
    location: Option<String>,
}

#[derive(Deserialize, Default)]
struct ConfigurationAnswer {
    query: Option<QueryAnswer>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct QueryAnswer {
    destination_table: Option<DestinationAnswer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DestinationAnswer {
    project_id: String,
    dataset_id: String,
    table_id: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct StatusAnswer {
    #[serde(default)]
    state: String,
    error_result: Option<FailureAnswer>,
}

#[derive(Deserialize)]
struct FailureAnswer {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct StatisticsAnswer {
    creation_time: Option<Value>,
    end_time: Option<Value>,
    total_bytes_processed: Option<Value>,
    query: Option<QueryStatisticsAnswer>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct QueryStatisticsAnswer {
    statement_type: Option<String>,
    schema: Option<Value>,
    total_bytes_processed: Option<Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn reads_a_job() {
        let job = Job::from_json(&json!({
            "jobReference": {"projectId": "p", "jobId": "j", "location": "EU"},
            "configuration": {"query": {"destinationTable":
                {"projectId": "p", "datasetId": "_hidden", "tableId": "anon"}}},
            "status": {"state": "DONE"},
            "statistics": {
                "creationTime": "1700000000000", "endTime": "1700000001000",
                "totalBytesProcessed": "17", "query": {"statementType": "SELECT"},
            },
        }))
        .unwrap();
        assert_eq!(job.reference.to_string(), "p:EU.j");
        assert_eq!(job.state, JobState::Succeeded);
        assert_eq!(job.destination.unwrap().to_string(), "p._hidden.anon");
        assert_eq!(job.bytes_processed, Some(17));
        assert_eq!((job.ended.unwrap() - job.created.unwrap()).num_seconds(), 1);
    }

    #[test]
    fn a_job_with_an_error_has_failed_only_when_done() {
        let job = |state: &str| {
            Job::from_json(&json!({
                "jobReference": {"projectId": "p", "jobId": "j"},
                "status": {"state": state,
                    "errorResult": {"reason": "stopped", "message": "m"}},
            }))
            .unwrap()
            .state
        };
        assert_eq!(job("RUNNING"), JobState::Running);
        assert!(matches!(job("DONE"), JobState::Failed(f) if f.reason == "stopped"));
    }

    #[test]
    fn what_is_not_a_job_is_an_error() {
        for value in [
            json!(null),
            json!([]),
            json!({}),
            json!({"jobReference": 1}),
        ] {
            let error = Job::from_json(&value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{value}");
        }
        let page = ResultPage::from_json(json!({"jobComplete": false}));
        assert_eq!(page.unwrap_err().kind(), ErrorKind::Data);
    }
}
