//! One job: what was asked, how far it is, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::reference::JobRef;
use super::statistics::Statistics;
use crate::error::{Reason, Result, ServiceError};
use crate::schema::TableSchema;
use crate::store::{Snapshot, TableRef};

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobKind {
    /// GoogleSQL.
    Query,
    /// Files into a table.
    Load,
    /// Tables into a table.
    Copy,
    /// A table into files.
    Extract,
}

impl JobKind {
    /// As `configuration.jobType` prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            JobKind::Query => "QUERY",
            JobKind::Load => "LOAD",
            JobKind::Copy => "COPY",
            JobKind::Extract => "EXTRACT",
        }
    }

    /// The field of `configuration` that describes the job.
    pub fn field(self) -> &'static str {
        match self {
            JobKind::Query => "query",
            JobKind::Load => "load",
            JobKind::Copy => "copy",
            JobKind::Extract => "extract",
        }
    }
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// Accepted.
    Pending,
    /// Working.
    Running,
    /// Finished, well or not.
    Done,
}

impl JobState {
    /// As `status.state` prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Pending => "PENDING",
            JobState::Running => "RUNNING",
            JobState::Done => "DONE",
        }
    }
}

/// The rows that a query job answers with.
#[derive(Debug, Clone)]
pub struct JobResult {
    /// The table they are in; `None` for a dry run.
    pub table: Option<TableRef>,
    /// Columns, every mode said.
    pub schema: Arc<TableSchema>,
    /// The rows as they were when the job ended; `None` for a dry run.
    pub rows: Option<Snapshot>,
}

/// The part of a job that changes while it runs.
#[derive(Debug, Clone)]
pub struct Progress {
    /// State.
    pub state: JobState,
    /// Milliseconds since the epoch.
    pub started: Option<i64>,
    /// Milliseconds since the epoch.
    pub ended: Option<i64>,
    /// Why the job failed.
    pub error: Option<ServiceError>,
    /// Everything that went wrong, `error` first when there is one. A job that
    /// skipped bad records has entries here and no `error`.
    pub errors: Vec<ServiceError>,
    /// Counts.
    pub statistics: Statistics,
    /// Result of a query.
    pub result: Option<Arc<JobResult>>,
    /// Number of child jobs of a script.
    pub children: u64,
}

/// How a job ends.
#[derive(Debug)]
pub struct Outcome {
    /// Counts; what is known of them when the job failed.
    pub statistics: Statistics,
    /// Result of a query.
    pub result: Option<JobResult>,
    /// Why the job failed, if it did.
    pub error: Option<ServiceError>,
    /// Further errors: details of the failure, or skipped records.
    pub details: Vec<ServiceError>,
}

impl Outcome {
    /// A job that did what it was asked to.
    pub fn success(statistics: Statistics) -> Self {
        Self {
            statistics,
            result: None,
            error: None,
            details: Vec::new(),
        }
    }

    /// A job that failed without counts.
    pub fn failure(error: ServiceError) -> Self {
        Self {
            statistics: Statistics::None,
            result: None,
            error: Some(error),
            details: Vec::new(),
        }
    }
}

/// A job. Shared by the task that runs it and by every request about it.
#[derive(Debug)]
pub struct Job {
    /// Name.
    pub reference: JobRef,
    /// What it does.
    pub kind: JobKind,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// The script that this job is a statement of.
    pub parent: Option<JobRef>,
    /// The id of the request that the job answers, if it has one.
    pub request_id: Option<String>,
    /// Labels of the configuration.
    pub labels: BTreeMap<String, String>,
    configuration: RwLock<Map<String, Value>>,
    progress: RwLock<Progress>,
    done: watch::Sender<bool>,
    cancel: CancellationToken,
}

impl Job {
    /// A job that nobody works on yet. `configuration` is the REST resource's.
    pub fn new(
        reference: JobRef,
        kind: JobKind,
        configuration: Map<String, Value>,
        parent: Option<JobRef>,
        created: i64,
    ) -> Self {
        let labels = configuration
            .get("labels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_string())))
            .collect();
        Self {
            reference,
            kind,
            created,
            parent,
            request_id: None,
            labels,
            configuration: RwLock::new(configuration),
            progress: RwLock::new(Progress {
                state: JobState::Pending,
                started: None,
                ended: None,
                error: None,
                errors: Vec::new(),
                statistics: Statistics::None,
                result: None,
                children: 0,
            }),
            done: watch::channel(false).0,
            cancel: CancellationToken::new(),
        }
    }

    /// The same job, which answers the request with this id.
    pub fn of_request(mut self, id: Option<String>) -> Self {
        self.request_id = id;
        self
    }

    /// The configuration with what the server has filled in so far.
    pub fn configuration(&self) -> Map<String, Value> {
        self.configuration.read().clone()
    }

    /// Sets a field of the job-specific part of the configuration.
    pub fn set_configuration(&self, field: &str, value: Value) {
        if let Some(Value::Object(own)) = self.configuration.write().get_mut(self.kind.field()) {
            own.insert(field.to_string(), value);
        }
    }

    /// Progress so far.
    pub fn progress(&self) -> Progress {
        self.progress.read().clone()
    }

    /// State.
    pub fn state(&self) -> JobState {
        self.progress.read().state
    }

    /// The text of a query job.
    pub fn query(&self) -> Option<String> {
        let configuration = self.configuration.read();
        Some(
            configuration
                .get("query")?
                .get("query")?
                .as_str()?
                .to_string(),
        )
    }

    /// Where the job writes, when that is known.
    pub fn destination(&self) -> Option<TableRef> {
        let configuration = self.configuration.read();
        let own = configuration.get(self.kind.field())?;
        serde_json::from_value(own.get("destinationTable")?.clone()).ok()
    }

    /// The job is being worked on from `now` (milliseconds since the epoch) on.
    pub(super) fn start(&self, now: i64) {
        let mut progress = self.progress.write();
        progress.state = JobState::Running;
        progress.started = Some(now);
    }

    /// The job is finished. A second call changes nothing.
    pub(super) fn finish(&self, outcome: Outcome, children: u64, now: i64) {
        {
            let mut progress = self.progress.write();
            if progress.state == JobState::Done {
                return;
            }
            progress.state = JobState::Done;
            progress.started.get_or_insert(now);
            progress.ended = Some(now);
            progress.errors = outcome
                .error
                .iter()
                .chain(&outcome.details)
                .cloned()
                .collect();
            progress.error = outcome.error;
            if !matches!(outcome.statistics, Statistics::None) {
                progress.statistics = outcome.statistics;
            }
            progress.result = outcome.result.map(Arc::new);
            progress.children = children;
        }
        self.done.send_replace(true);
    }

    /// The job was finished by an earlier run of the server.
    pub(super) fn restore(&self, progress: Progress) {
        *self.progress.write() = progress;
        self.done.send_replace(true);
    }

    /// Lets go of the result's rows; the job itself stays.
    pub(super) fn forget_result(&self) {
        self.progress.write().result = None;
    }

    /// Asks the job to stop. A finished job stays as it is.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Cancelled when somebody asks the job to stop.
    pub(super) fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    /// That the job is still wanted. Asked where its change is made, because one that
    /// is said to have been stopped changes nothing any more.
    ///
    /// # Errors
    /// Somebody asked it to stop.
    pub(super) fn check_wanted(&self) -> Result<()> {
        match self.cancel.is_cancelled() {
            true => Err(cancelled_error()),
            false => Ok(()),
        }
    }

    /// Waits until the job is done, at most for `limit`; answers whether it is.
    pub async fn wait(&self, limit: Duration) -> bool {
        let mut done = self.done.subscribe();
        // The sender lives in `self`, so only the time can run out.
        tokio::time::timeout(limit, done.wait_for(|done| *done))
            .await
            .is_ok()
    }
}

/// The error of a job that was cancelled.
pub(super) fn cancelled_error() -> ServiceError {
    ServiceError::new(
        Reason::Stopped,
        "Job execution was cancelled: User requested cancellation",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job() -> Job {
        let Value::Object(configuration) = json!({
            "query": {"query": "SELECT 1"}, "labels": {"k": "v"}, "jobType": "QUERY"
        }) else {
            panic!("an object")
        };
        let reference = JobRef {
            project: "p".into(),
            location: "US".into(),
            id: "j".into(),
        };
        Job::new(reference, JobKind::Query, configuration, None, 5)
    }

    #[tokio::test]
    async fn states_follow_each_other_and_done_is_final() {
        let job = job();
        assert_eq!(job.state(), JobState::Pending);
        assert_eq!(job.labels["k"], "v");
        assert!(!job.wait(Duration::from_millis(1)).await);
        job.start(6);
        assert_eq!(job.state(), JobState::Running);
        job.finish(Outcome::failure(cancelled_error()), 0, 7);
        job.finish(Outcome::success(Statistics::None), 0, 9);
        let progress = job.progress();
        assert_eq!((progress.started, progress.ended), (Some(6), Some(7)));
        assert_eq!(progress.error, Some(cancelled_error()));
        assert_eq!(progress.errors.len(), 1);
        assert!(job.wait(Duration::ZERO).await);
    }

    #[test]
    fn the_server_fills_in_the_destination() {
        let job = job();
        assert_eq!(job.destination(), None);
        let table = TableRef::new("p", "d", "t");
        job.set_configuration("destinationTable", json!(table));
        assert_eq!(job.destination(), Some(table));
        assert_eq!(job.query().as_deref(), Some("SELECT 1"));
    }
}
