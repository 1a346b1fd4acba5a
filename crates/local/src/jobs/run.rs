//! Starting jobs and seeing them to their end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Map, Value};

use super::config::JobConfig;
use super::copy::Copy;
use super::extract::Extract;
use super::job::{Job, Outcome, cancelled_error};
use super::load::Load;
use super::query::Query;
use super::reference::{JobRef, canonical_location, check_job_id, new_job_id};
use super::statistics::Statistics;
use super::{location, names, record};
use crate::engine::load::LoadFile;
use crate::error::{Reason, Result, ServiceError};
use crate::quotas::Quota;
use crate::server::Service;
use crate::store::{DatasetRef, Mutation, millis_now};

/// How long a job that is told to stop may take to do so.
const STOPPING: Duration = Duration::from_secs(10);

/// A job to start.
#[derive(Debug, Default)]
pub struct JobRequest {
    /// Project that runs it.
    pub project: String,
    /// Id, if the client has one.
    pub id: Option<String>,
    /// Location, if the client wants one.
    pub location: Option<String>,
    /// The REST resource's `configuration`.
    pub configuration: Map<String, Value>,
    /// Uploaded files of a load job.
    pub files: Vec<LoadFile>,
    /// The id under which a client may send the same request again.
    pub request_id: Option<String>,
}

/// What a job does, checked as far as can be done before it runs.
enum Work {
    Query(Box<Query>),
    Load(Box<Load>),
    Copy(Copy),
    Extract(Extract),
}

/// Registers a job and starts to work on it in a task of its own. Errors that the
/// service answers at submission (syntax of the configuration and of a query, a taken id, a load
/// or copy in the wrong place) are answered here; all others end up in the job.
pub fn start(service: &Arc<Service>, request: JobRequest) -> Result<Arc<Job>> {
    // A request that is sent again is told so, whatever it asks for this time.
    if let (Some(id), Some(location)) = (&request.id, &request.location) {
        service.jobs.registry.check_free(&JobRef {
            project: request.project.clone(),
            location: canonical_location(location),
            id: id.clone(),
        })?;
    }
    let (job, work, timeout) = prepare(service, request)?;
    let job = register(service, job)?;
    let working = service.jobs.working();
    let task = run(Arc::clone(service), Arc::clone(&job), work, timeout);
    tokio::spawn(async move {
        task.await;
        // Only now nothing of the service is held any more.
        drop(working);
    });
    Ok(job)
}

/// Makes a job known, also to the next run of the server.
fn register(service: &Service, job: Job) -> Result<Arc<Job>> {
    let job = service.jobs.registry.insert(job)?;
    let recorded = service
        .store
        .commit(|_| Ok((vec![record::begun(&job)], ())));
    if let Err(error) = recorded {
        service.jobs.registry.remove(&job.reference);
        return Err(error);
    }
    Ok(job)
}

/// Forgets a job and the statements of a script; a job that still runs is refused.
pub fn delete(service: &Service, reference: &JobRef) -> Result<()> {
    let gone = service.jobs.registry.delete(reference)?;
    let steps = gone.into_iter().map(Mutation::DropJob).collect();
    service.store.commit(|_| Ok((steps, ())))
}

/// Describes what a query would do, without registering anything. The job that is
/// returned is done.
pub async fn dry_run(service: &Arc<Service>, request: JobRequest) -> Result<Job> {
    let (job, work, _) = prepare(service, request)?;
    let Work::Query(query) = work else {
        return Err(ServiceError::invalid("Only query jobs can be dry runs."));
    };
    let outcome = query.describe(service, &job).await?;
    let now = millis_now();
    job.start(now);
    job.finish(outcome, 0, now);
    Ok(job)
}

fn prepare(service: &Service, request: JobRequest) -> Result<(Job, Work, Option<Duration>)> {
    let mut configuration = request.configuration;
    let config = JobConfig::read(&mut configuration)?;
    let id = match request.id {
        Some(id) => {
            check_job_id(&id)?;
            id
        }
        None => new_job_id(),
    };
    let asked = request.location.as_deref();
    let place = |datasets: &[DatasetRef]| {
        service
            .store
            .read(|state| location::infer(state, asked, datasets))
    };
    let timeout = job_timeout(&configuration)?;
    let kind = config.kind();
    let (work, location) = match config {
        JobConfig::Query(config) => {
            let mut datasets: Vec<DatasetRef> = Vec::new();
            datasets.extend(config.destination_table.as_ref().map(|t| t.dataset_ref()));
            datasets.extend(
                config
                    .default_dataset
                    .as_ref()
                    .map(|d| d.resolve(&request.project)),
            );
            let named = names::relation_names(&config.query);
            datasets.extend(
                service
                    .store
                    .read(|state| names::datasets_named(state, &request.project, &named)),
            );
            let location = place(&datasets);
            let query = Query::read(*config, &request.project, &location, datasets)?;
            query.check_syntax()?;
            (Work::Query(Box::new(query)), location)
        }
        JobConfig::Load(config) => {
            let dataset = config.destination_table.dataset_ref();
            let location = place(&[dataset]);
            let load = Load::read(*config, request.files, &location)?;
            service.store.read(|state| load.check(state))?;
            (Work::Load(Box::new(load)), location)
        }
        JobConfig::Copy(config) => {
            let copy = Copy::read(&config)?;
            let location = place(&copy.datasets());
            service.store.read(|state| copy.check(state, &location))?;
            (Work::Copy(copy), location)
        }
        JobConfig::Extract(config) => {
            let extract = Extract::read(&config)?;
            let location = place(&[extract.dataset()]);
            service
                .store
                .read(|state| extract.check(state, &location))?;
            (Work::Extract(extract), location)
        }
    };
    let reference = JobRef {
        project: request.project,
        location,
        id,
    };
    let job =
        Job::new(reference, kind, configuration, None, millis_now()).of_request(request.request_id);
    Ok((job, work, timeout))
}

fn job_timeout(configuration: &Map<String, Value>) -> Result<Option<Duration>> {
    let value = match configuration.get("jobTimeoutMs") {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let millis = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    millis
        .map(|millis| (millis > 0).then(|| Duration::from_millis(millis)))
        .ok_or_else(|| ServiceError::invalid(format!("Invalid value for jobTimeoutMs: {value}")))
}

async fn run(service: Arc<Service>, job: Arc<Job>, work: Work, timeout: Option<Duration>) {
    job.start(millis_now());
    let working = AssertUnwindSafe(perform(&service, &job, work)).catch_unwind();
    tokio::pin!(working);
    let limit = async {
        match timeout {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let (done, stopped) = tokio::select! {
        biased;
        done = &mut working => (Some(done), cancelled_error()),
        () = job.cancellation().cancelled() => (None, cancelled_error()),
        () = limit => (None, timeout_error(timeout)),
    };
    // A change that is being made when the job is stopped still ends well or not at
    // all, and the job says which.
    if done.is_none() {
        job.cancel();
    }
    let done = match done {
        Some(done) => Some(done),
        None => tokio::time::timeout(STOPPING, working).await.ok(),
    };
    let (outcome, children) = match done {
        None => (Outcome::failure(stopped), 0),
        Some(Err(_)) => {
            tracing::error!(job = %job.reference, "job task panicked");
            (Outcome::failure(internal()), 0)
        }
        Some(Ok((outcome, children))) => match &outcome.error {
            Some(error) if error.reason == Reason::Stopped => (
                Outcome {
                    error: Some(stopped),
                    ..outcome
                },
                children,
            ),
            _ => (outcome, children),
        },
    };
    let now = millis_now();
    let outcome = record::finish(&service, &job, outcome, children, now);
    job.finish(outcome, children, now);
}

fn internal() -> ServiceError {
    ServiceError::internal(
        "The job encountered an internal error during execution and was unable to complete \
         successfully.",
    )
}

/// Counts a job that is about to run, whatever becomes of it.
fn charge(service: &Service, job: &Job, work: &Work) -> Result<()> {
    let project = &job.reference.project;
    let table = match work {
        Work::Load(load) => {
            service.quotas.charge(Quota::LoadJobs, project)?;
            Some(load.table())
        }
        Work::Copy(copy) => {
            service.quotas.charge(Quota::CopyJobs, project)?;
            Some(copy.table())
        }
        Work::Query(query) => query.table(),
        Work::Extract(_) => None,
    };
    match table {
        Some(table) => service.quotas.charge(Quota::TableModifications, table),
        None => Ok(()),
    }
}

async fn perform(service: &Arc<Service>, job: &Arc<Job>, work: Work) -> (Outcome, u64) {
    if let Err(error) = charge(service, job, &work) {
        return (Outcome::failure(error), 0);
    }
    match work {
        Work::Query(query) => query.run(service, job).await,
        Work::Load(load) => (Arc::new(*load).run(service, job).await, 0),
        Work::Extract(extract) => {
            let service = Arc::clone(service);
            let job = Arc::clone(job);
            let task = tokio::task::spawn_blocking(move || match extract.run(&service, &job) {
                Ok(statistics) => Outcome::success(Statistics::Extract(statistics)),
                Err(error) => Outcome::failure(error),
            });
            (finished(task.await), 0)
        }
        Work::Copy(copy) => {
            let service = Arc::clone(service);
            let job = Arc::clone(job);
            let task = tokio::task::spawn_blocking(move || match copy.run(&service.store, &job) {
                Ok(statistics) => Outcome::success(Statistics::Copy(statistics)),
                Err(error) => Outcome::failure(error),
            });
            (finished(task.await), 0)
        }
    }
}

fn finished(task: Result<Outcome, tokio::task::JoinError>) -> Outcome {
    task.unwrap_or_else(|e| {
        tracing::error!(error = %e, "job task panicked");
        Outcome::failure(internal())
    })
}

fn timeout_error(limit: Option<Duration>) -> ServiceError {
    let millis = limit.map_or(0, |limit| limit.as_millis());
    ServiceError::new(
        Reason::Stopped,
        format!("Job execution was cancelled: Job timed out after {millis}ms"),
    )
}
