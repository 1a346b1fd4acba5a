//! Running a query as a job, once for all who ask for it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use datafusion::error::DataFusionError;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use crate::client::Client;
use crate::client::cancel::CancelOnDrop;
use crate::client::rest::job_model::{Job, JobRef, JobState};
use crate::client::rest::jobs::{Inserted, QueryParameters, QueryRequest};
use crate::error::{Error, ErrorKind, Result, RetryAdvice};
use crate::options::{Options, QueryOptions};
use crate::scan::StatementId;
use crate::types::TableRef;

/// How long a result lives in a dataset of the user's.
const RESULT_LIFETIME: TimeDelta = TimeDelta::hours(24);
/// Jobs of one query in one window that are looked at, the failed ones included.
const MAX_PROBES: u32 = 1_000;
/// How often a job that failed for the service's own reasons is run.
const MAX_RUNS: u32 = 3;

/// How jobs are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobTerms {
    /// The project that runs and pays.
    pub(crate) project: String,
    pub(crate) location: Option<String>,
    pub(crate) labels: Vec<(String, String)>,
    /// Where results go that must not be hidden: project and dataset.
    result_dataset: Option<(String, String)>,
    reuse_within: Option<Duration>,
    max_bytes_scanned: Option<u64>,
    /// Whose results may be reused: those of the same name and identity.
    application: String,
}

impl JobTerms {
    /// The terms of jobs that `project` runs.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when a name is none.
    pub(crate) fn new(project: String, options: &Options) -> Result<Self> {
        let QueryOptions {
            location,
            result_dataset,
            reuse_within,
            labels,
            ..
        } = options.query.clone();
        let result_dataset = result_dataset
            .map(|text| -> Result<_> {
                let (in_project, dataset) = match text.rsplit_once('.') {
                    Some((in_project, dataset)) => (in_project.to_string(), dataset.to_string()),
                    None => (project.clone(), text.clone()),
                };
                // The name of a table in it shows whether the parts are names.
                TableRef::new(&in_project, &dataset, "t").map_err(|error| {
                    Error::configuration(format!(
                        "option 'scan.query_result_dataset' cannot be '{text}': {}",
                        error.message()
                    ))
                })?;
                Ok((in_project, dataset))
            })
            .transpose()?;
        let connection = &options.connection;
        let application = format!(
            "{:?} {:?}",
            connection.trace_id, connection.credentials.impersonate
        );
        Ok(Self {
            project,
            location,
            labels,
            result_dataset,
            reuse_within,
            max_bytes_scanned: options.scan.max_bytes_scanned,
            application,
        })
    }

    /// The query as a job of these terms.
    pub(crate) fn request(&self, sql: &str, parameters: &QueryParameters) -> QueryRequest {
        QueryRequest {
            project: self.project.clone(),
            sql: sql.to_string(),
            parameters: parameters.clone(),
            location: self.location.clone(),
            destination: None,
            labels: self.labels.clone(),
        }
    }
}

/// A job that succeeded.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    pub(super) job: Job,
    pub(super) table: TableRef,
    pub(super) origin: Origin,
}

/// Where a result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The job was started for this.
    Submitted,
    /// The job had been started before.
    Reused,
}

type Shared = Result<Finished, Arc<DataFusionError>>;

/// The runs of one query in one statement: one for each execution of the plan,
/// whichever scan of the statement asks first.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    rounds: Mutex<Vec<Arc<OnceCell<Shared>>>>,
}

impl Runs {
    /// The result in the `round`-th execution of the plan.
    pub(super) async fn finished(
        &self,
        round: usize,
        client: &Client,
        terms: &JobTerms,
        query: &QueryRequest,
    ) -> Result<Finished, DataFusionError> {
        let cell = {
            let mut rounds = self.rounds.lock();
            while rounds.len() <= round {
                rounds.push(Arc::default());
            }
            Arc::clone(&rounds[round])
        };
        let shared = cell
            .get_or_init(|| async {
                run(client, terms, query)
                    .await
                    .map_err(|error| Arc::new(DataFusionError::from(error)))
            })
            .await;
        shared
            .clone()
            .map_err(|error| DataFusionError::Shared(Arc::clone(&error)))
    }
}

/// The queries of the statements that are under way, so that one which a
/// statement names twice runs once.
#[derive(Debug, Default)]
pub(crate) struct SharedRuns {
    live: Mutex<HashMap<(StatementId, String), Weak<Runs>>>,
}

impl SharedRuns {
    /// The runs that `statement` shares for `query`.
    pub(crate) fn join(
        &self,
        statement: StatementId,
        terms: &JobTerms,
        query: &QueryRequest,
    ) -> Arc<Runs> {
        // Without a beginning one statement looks like the next.
        if statement.began.is_none() {
            return Arc::default();
        }
        let mut live = self.live.lock();
        live.retain(|_, runs| runs.strong_count() > 0);
        let key = (statement, digest(terms, query));
        if let Some(runs) = live.get(&key).and_then(Weak::upgrade) {
            return runs;
        }
        let runs = Arc::default();
        live.insert(key, Arc::downgrade(&runs));
        runs
    }
}

/// What tells a query from others: text, parameters and everything that decides
/// where its result is and who may read it.
fn digest(terms: &JobTerms, query: &QueryRequest) -> String {
    let mut hasher = Sha256::new();
    let parameters = format!("{:?}", query.parameters);
    let dataset = format!("{:?}", terms.result_dataset);
    for part in [
        "1",
        &terms.application,
        &terms.project,
        terms.location.as_deref().unwrap_or_default(),
        &dataset,
        &query.sql,
        &parameters,
    ] {
        hasher.update(part.len().to_be_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize()[..16])
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string succeeds");
    }
    text
}

/// Runs the query, or finds a run of it.
async fn run(client: &Client, terms: &JobTerms, query: &QueryRequest) -> Result<Finished> {
    match terms.reuse_within {
        None => {
            check_cost(client, terms, query).await?;
            submit_until_done(client, terms, query).await
        }
        Some(window) => reuse_or_run(client, terms, query, window).await,
    }
}

/// Holds the service's estimate against `scan.max_bytes_scanned`.
async fn check_cost(client: &Client, terms: &JobTerms, query: &QueryRequest) -> Result<()> {
    let Some(most) = terms.max_bytes_scanned else {
        return Ok(());
    };
    let refuse = |message| Err(Error::new(ErrorKind::FailedPrecondition, message));
    match client.dry_run(query).await?.bytes_processed {
        Some(estimate) if estimate <= most => Ok(()),
        Some(estimate) => refuse(format!(
            "the query would read {estimate} bytes by the service's estimate and \
             scan.max_bytes_scanned allows {most}: select fewer columns, filter on the partition \
             column, or raise the option"
        )),
        None => refuse(
            "the service gives no estimate to hold against scan.max_bytes_scanned: leave the \
             option out to run the query all the same"
                .to_string(),
        ),
    }
}

/// Runs the query under an id of its own, again if the service failed it for
/// reasons of its own.
async fn submit_until_done(
    client: &Client,
    terms: &JobTerms,
    query: &QueryRequest,
) -> Result<Finished> {
    let mut runs = 0;
    loop {
        runs += 1;
        let id = format!("datafusion_{}", hex(&rand::random::<[u8; 16]>()));
        match submit(client, terms, query, &id).await {
            Err(error) if error.is_retryable() && runs < MAX_RUNS => {
                tracing::warn!(%error, "a query job failed and is run again");
            }
            outcome => return outcome,
        }
    }
}

/// Runs the query as the job `id`.
async fn submit(
    client: &Client,
    terms: &JobTerms,
    query: &QueryRequest,
    id: &str,
) -> Result<Finished> {
    let mut query = query.clone();
    if let Some((project, dataset)) = &terms.result_dataset {
        let table = TableRef::new(project, dataset, format!("{id}_result"))?;
        // Before the job, so that the table goes away even if we do first.
        client
            .create_expiring_table(&table, Utc::now() + RESULT_LIFETIME)
            .await?;
        query.destination = Some(table);
    }
    // Before the job is sent: a request whose answer nobody waits for may have started
    // it.
    let mut cancel = CancelOnDrop::new(
        client,
        JobRef {
            project: query.project.clone(),
            id: id.to_string(),
            location: query.location.clone(),
        },
    );
    let inserted = match client.insert_query(&query, id).await {
        Ok(inserted) => inserted,
        Err(error) => {
            // What was refused is not there to be cancelled.
            if !error.may_have_applied() {
                cancel.disarm();
            }
            return Err(error);
        }
    };
    let (job, origin) = match (inserted, terms.reuse_within) {
        (Inserted::New(job), _) | (Inserted::Existing(job), None) => (job, Origin::Submitted),
        // Others wait for this job too, or run it.
        (Inserted::Existing(job), Some(_)) => {
            cancel.disarm();
            (job, Origin::Reused)
        }
    };
    cancel.aim(&job.reference);
    let outcome = client.wait_for_job(job).await;
    cancel.disarm();
    let job = match (outcome, origin) {
        (Ok(job), _) => job,
        // Someone else's job may have failed for a reason of theirs, such as
        // that they cancelled it.
        (Err(error), Origin::Reused) => return Err(error.with_retry(RetryAdvice::Backoff)),
        (Err(error), Origin::Submitted) => return Err(error),
    };
    if let Some(table) = &query.destination {
        // Replacing a table's content may have taken its expiration away.
        client
            .expire_table(table, Utc::now() + RESULT_LIFETIME)
            .await?;
    }
    finished(job, origin)
}

fn finished(job: Job, origin: Origin) -> Result<Finished> {
    match job.destination.clone() {
        Some(table) => Ok(Finished { job, table, origin }),
        None => Err(Error::data(format!(
            "job {} does not say which table has its result",
            job.reference
        ))),
    }
}

/// Finds a run of the query that began within `window`, or runs it under an id
/// by which others find it.
///
/// Ids are a digest of the query, the number of the window since the epoch, and
/// a count: a job that failed or whose result is gone keeps its id for ever, and
/// the next takes the next count.
async fn reuse_or_run(
    client: &Client,
    terms: &JobTerms,
    query: &QueryRequest,
    window: Duration,
) -> Result<Finished> {
    let digest = digest(terms, query);
    let millis = i64::try_from(window.as_millis().max(1)).unwrap_or(i64::MAX);
    let now = Utc::now();
    let oldest = now - TimeDelta::milliseconds(millis);
    let current = now.timestamp_millis().div_euclid(millis);
    let probe = Probe {
        client,
        terms,
        digest: &digest,
        oldest,
    };
    let mut count = match probe.look(current, 0).await? {
        Looked::Found(found) => return Ok(*found),
        Looked::Free(count) => count,
    };
    if let Looked::Found(found) = probe.look(current - 1, 0).await? {
        return Ok(*found);
    }
    check_cost(client, terms, query).await?;
    let mut runs = 0;
    while count < MAX_PROBES {
        let id = probe.id(current, count);
        runs += 1;
        match submit(client, terms, query, &id).await {
            Ok(finished) => return Ok(finished),
            Err(error) if error.is_retryable() && runs < MAX_RUNS => {
                tracing::warn!(%error, "a query job failed and is run again");
            }
            Err(error) => return Err(error),
        }
        count = match probe.look(current, count).await? {
            Looked::Found(found) => return Ok(*found),
            Looked::Free(count) => count,
        };
    }
    Err(Error::new(
        ErrorKind::ResourceExhausted,
        format!(
            "{MAX_PROBES} jobs of this query failed within scan.reuse_query_result_within: leave \
             the option out"
        ),
    ))
}

struct Probe<'a> {
    client: &'a Client,
    terms: &'a JobTerms,
    digest: &'a str,
    oldest: DateTime<Utc>,
}

enum Looked {
    Found(Box<Finished>),
    /// No job has this count yet.
    Free(u32),
}

impl Probe<'_> {
    fn id(&self, window: i64, count: u32) -> String {
        format!("datafusion_{}_{window}_{count}", self.digest)
    }

    /// The first job of a window from `count` on whose result can be read.
    async fn look(&self, window: i64, mut count: u32) -> Result<Looked> {
        while count < MAX_PROBES {
            let reference = JobRef {
                project: self.terms.project.clone(),
                id: self.id(window, count),
                location: self.terms.location.clone(),
            };
            let job = match self.client.get_job(&reference).await {
                Ok(job) => job,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Ok(Looked::Free(count));
                }
                Err(error) => return Err(error),
            };
            if let Some(found) = self.usable(job).await? {
                return Ok(Looked::Found(Box::new(found)));
            }
            count += 1;
        }
        Ok(Looked::Free(count))
    }

    /// The result of someone's job, if it comes to have one that is young enough
    /// and still there.
    async fn usable(&self, job: Job) -> Result<Option<Finished>> {
        if job.created.is_none_or(|created| created < self.oldest)
            || matches!(job.state, JobState::Failed(_))
        {
            return Ok(None);
        }
        let reference = job.reference.clone();
        let job = match self.client.wait_for_job(job).await {
            Ok(job) => job,
            Err(error) => {
                tracing::debug!(job = %reference, %error, "a job to reuse failed");
                return Ok(None);
            }
        };
        let finished = finished(job, Origin::Reused)?;
        match self.client.get_table(&finished.table).await {
            Ok(_) => Ok(Some(finished)),
            // Deleted, or of another identity: hidden results belong to one.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::PermissionDenied
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
