//! Query jobs: what to run, where it stands, and what came of it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::Transport;
use super::job_model::{DryRun, Job, JobFailure, JobRef, ResultPage};
use super::paths;
use super::transport::Request;
use crate::client::retry::Backoff;
use crate::error::{Error, ErrorKind, Result};
use crate::types::TableRef;

/// How long one request for results lets the service wait for the job.
const LONG_POLL: &str = "10000";
/// A page of rows: the service gives at most 10 MB whatever this says.
const PAGE_ROWS: &str = "50000";
/// Rows by REST are text; instants come as whole microseconds where that is all
/// they have, and with all their digits where they have more.
const TIMESTAMPS: (&str, &str) = ("formatOptions.timestampOutputFormat", "ISO8601_STRING");

/// A query to run as a job.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRequest {
    /// The project that runs the job and pays for it.
    pub project: String,
    /// GoogleSQL.
    pub sql: String,
    /// Values for `@name` or `?` in the query.
    pub parameters: QueryParameters,
    /// The region; that of the data if absent.
    pub location: Option<String>,
    /// The table that gets the result, replacing what is in it; a hidden one of
    /// the service's if absent.
    pub destination: Option<TableRef>,
    /// Labels of the job.
    pub labels: Vec<(String, String)>,
}

/// The parameters of a query (<https://cloud.google.com/bigquery/docs/parameterized-queries>).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum QueryParameters {
    /// None.
    #[default]
    None,
    /// For `@name`.
    Named(Vec<(String, QueryParameter)>),
    /// For `?`, in order.
    Positional(Vec<QueryParameter>),
}

/// What became of an attempt to start a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Inserted {
    /// The job was started.
    New(Job),
    /// The id was taken by this job: someone else's, or one of this client
    /// whose answer was lost on the way.
    Existing(Job),
}

/// A typed value in the form of the REST interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryParameter {
    /// `parameterType`.
    pub parameter_type: Value,
    /// `parameterValue`.
    pub parameter_value: Value,
}

impl QueryRequest {
    fn configuration(&self) -> Map<String, Value> {
        let mut query = Map::new();
        query.insert("query".into(), self.sql.clone().into());
        query.insert("useLegacySql".into(), false.into());
        let parameter = |name: Option<&String>, parameter: &QueryParameter| {
            let mut object = Map::new();
            if let Some(name) = name {
                object.insert("name".into(), name.clone().into());
            }
            object.insert("parameterType".into(), parameter.parameter_type.clone());
            object.insert("parameterValue".into(), parameter.parameter_value.clone());
            Value::Object(object)
        };
        let parameters = match &self.parameters {
            QueryParameters::None => None,
            QueryParameters::Named(named) => Some((
                "NAMED",
                named
                    .iter()
                    .map(|(name, value)| parameter(Some(name), value))
                    .collect::<Vec<_>>(),
            )),
            QueryParameters::Positional(values) => Some((
                "POSITIONAL",
                values.iter().map(|value| parameter(None, value)).collect(),
            )),
        };
        if let Some((mode, parameters)) = parameters {
            query.insert("parameterMode".into(), mode.into());
            query.insert("queryParameters".into(), parameters.into());
        }
        if let Some(table) = &self.destination {
            query.insert("destinationTable".into(), paths::reference(table));
            query.insert("writeDisposition".into(), "WRITE_TRUNCATE".into());
        }
        let mut configuration = Map::new();
        configuration.insert("query".into(), query.into());
        if !self.labels.is_empty() {
            let labels: Map<String, Value> = self
                .labels
                .iter()
                .map(|(name, value)| (name.clone(), value.clone().into()))
                .collect();
            configuration.insert("labels".into(), labels.into());
        }
        configuration
    }
}

impl Transport {
    /// What a query would read, do and answer, without running it.
    pub(crate) async fn dry_run(&self, query: &QueryRequest) -> Result<DryRun> {
        let mut configuration = query.configuration();
        configuration.insert("dryRun".into(), true.into());
        // The answer is about the query, wherever its result goes.
        if let Some(Value::Object(inner)) = configuration.get_mut("query") {
            inner.remove("destinationTable");
            inner.remove("writeDisposition");
        }
        let mut body = json!({"configuration": configuration});
        if let Some(location) = &query.location {
            body["jobReference"] = json!({"projectId": query.project, "location": location});
        }
        let path = ["projects", &query.project, "jobs"];
        let answer = self
            .send(Request::new(Method::POST, &path).with_body(&body))
            .await
            .map_err(|error| explain(error, &query.project))?;
        DryRun::from_json(&answer)
    }

    /// Starts a query as the job `id`, unless there is a job of that id.
    pub(crate) async fn insert_query(&self, query: &QueryRequest, id: &str) -> Result<Inserted> {
        let mut job = JobRef {
            project: query.project.clone(),
            id: id.to_string(),
            location: query.location.clone(),
        };
        let body = json!({
            "jobReference": job.to_json(),
            "configuration": query.configuration(),
        });
        let path = ["projects", &query.project, "jobs"];
        let request = Request::new(Method::POST, &path).with_body(&body);
        match self.send(request).await {
            Ok(answer) => Job::from_json(&answer).map(Inserted::New),
            // Of this id there is one job only: that of an attempt whose answer
            // was lost, or of someone who asked the same.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if job.location.is_none() {
                    job.location = self.dry_run(query).await?.location;
                }
                self.get_job(&job).await.map(Inserted::Existing)
            }
            Err(error) => Err(explain(error, &query.project)),
        }
    }

    /// A job as it stands.
    pub(crate) async fn get_job(&self, job: &JobRef) -> Result<Job> {
        let location = job.location.as_deref().map(|place| ("location", place));
        let path = ["projects", &job.project, "jobs", &job.id];
        let answer = self
            .get(&path, location.as_slice())
            .await
            .map_err(|error| error.with_context(format!("job {job}")))?;
        Job::from_json(&answer)
    }

    /// Waits until a job is done, and gives it as it ended: failed or not.
    pub(crate) async fn wait_for_job(&self, job: Job) -> Result<Job> {
        let mut job = job;
        let mut backoff = Backoff::new(self.policy(), self.clock().clone());
        while !job.is_done() {
            let path = [
                "projects",
                &job.reference.project,
                "queries",
                &job.reference.id,
            ];
            let location = job.reference.location.clone().unwrap_or_default();
            let mut query = vec![("maxResults", "0"), ("timeoutMs", LONG_POLL)];
            if !location.is_empty() {
                query.push(("location", &location));
            }
            // A job that failed answers with its error: jobs.get tells it apart
            // from errors of the request.
            let asked = self.get(&path, &query).await;
            job = self.get_job(&job.reference).await?;
            match asked {
                Err(error) if !job.is_done() => backoff.after(error).await?,
                _ => backoff.progressed(),
            }
        }
        Ok(job)
    }

    /// Ends a job. One that is done already stays as it is.
    pub(crate) async fn cancel_job(&self, job: &JobRef) -> Result<()> {
        let location = job.location.as_deref().map(|place| ("location", place));
        let path = ["projects", &job.project, "jobs", &job.id, "cancel"];
        let request = Request::new(Method::POST, &path).with_query(location.as_slice());
        self.send(request)
            .await
            .map(drop)
            .map_err(|error| error.with_context(format!("cancelling job {job}")))
    }

    /// A page of the rows of a finished query, in the text form of the REST
    /// interface.
    pub(crate) async fn result_page(
        &self,
        job: &JobRef,
        token: Option<&str>,
    ) -> Result<ResultPage> {
        let path = ["projects", &job.project, "queries", &job.id];
        let mut query = vec![("maxResults", PAGE_ROWS), TIMESTAMPS];
        if let Some(location) = &job.location {
            query.push(("location", location));
        }
        if let Some(token) = token {
            query.push(("pageToken", token));
        }
        let answer = self
            .get(&path, &query)
            .await
            .map_err(|error| error.with_context(format!("rows of job {job}")))?;
        ResultPage::from_json(answer)
    }

    /// Sees to it that a table for results exists and is deleted at `expires`
    /// by the service, whatever becomes of us.
    pub(crate) async fn create_expiring_table(
        &self,
        table: &TableRef,
        expires: DateTime<Utc>,
    ) -> Result<()> {
        let path = paths::tables_beside(table);
        let body = json!({
            "tableReference": paths::reference(table),
            "expirationTime": expires.timestamp_millis().to_string(),
        });
        let request = Request::new(Method::POST, &path).with_body(&body);
        match self.send(request).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error.with_context(format!("creating result table {table}"))),
        }
    }

    /// Sets when a table is deleted by the service.
    pub(crate) async fn expire_table(
        &self,
        table: &TableRef,
        expires: DateTime<Utc>,
    ) -> Result<()> {
        let path = paths::table(table);
        let body = json!({"expirationTime": expires.timestamp_millis().to_string()});
        let mut backoff = Backoff::new(self.policy(), self.clock().clone());
        loop {
            let now = self.get(&path, &[]).await?;
            let etag = now.get("etag").and_then(Value::as_str);
            let request = Request::new(Method::PATCH, &path)
                .with_body(&body)
                .if_match(etag);
            match self.send(request).await {
                Ok(_) => return Ok(()),
                // Someone changed the table in between: look again.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    let again = Duration::ZERO;
                    let error = error.with_retry(crate::error::RetryAdvice::After(again));
                    backoff.after(error).await?;
                }
                Err(error) => {
                    return Err(error.with_context(format!("letting {table} expire")));
                }
            }
        }
    }
}

/// The error of a job that could not be started.
fn explain(error: Error, project: &str) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied => Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "the query cannot run in project {project} ({}): the caller needs \
                 bigquery.jobs.create on it (option 'billing_project'; role \
                 roles/bigquery.jobUser) and may read the tables in it \
                 (roles/bigquery.dataViewer)",
                error.message()
            ),
        ),
        _ => error,
    }
}

/// The error of a job that ran and failed.
pub(crate) fn failed(job: &JobRef, failure: &JobFailure) -> Error {
    let (kind, retry) = super::transport::classify(400, &failure.reason);
    let kind = match (kind, failure.reason.as_str()) {
        (_, "notFound") => ErrorKind::NotFound,
        (_, "accessDenied") => ErrorKind::PermissionDenied,
        (kind, _) => kind,
    };
    Error::new(kind, crate::client::excerpt::excerpt(&failure.message))
        .with_retry(retry)
        .with_context(format!("job {job}"))
}
