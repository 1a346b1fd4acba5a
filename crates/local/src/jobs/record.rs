//! What is kept of jobs, and what is made of it at the next start.
//!
//! A job is recorded when it is accepted, before it changes anything; again with the
//! change that it makes, in the same step as the change; and when it is done. So
//! after a crash a job that was under way is known by its name, and it is known
//! whether its change was made: nothing is lost that was acknowledged, and a client
//! that starts the job again under its name is told that it exists.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::job::{Job, JobKind, JobResult, JobState, Outcome, Progress};
use super::reference::JobRef;
use super::statistics::Statistics;
use crate::error::{Reason, Result, ServiceError};
use crate::schema::TableSchema;
use crate::server::Service;
use crate::store::{JobRecord, JobStage, Mutation, State, Table, TableRef, millis_now};

/// A job in the form in which it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    kind: JobKind,
    created: i64,
    parent: Option<JobRef>,
    request_id: Option<String>,
    configuration: Map<String, Value>,
    started: Option<i64>,
    ended: Option<i64>,
    error: Option<ServiceError>,
    errors: Vec<ServiceError>,
    statistics: Statistics,
    result: Option<ResultPlace>,
    children: u64,
}

/// Where a query's rows are.
#[derive(Debug, Serialize, Deserialize)]
struct ResultPlace {
    table: TableRef,
    schema: TableSchema,
    /// Which table of that name, and as of when; not known in a record that is part
    /// of the change which writes the rows.
    version: Option<(u64, i64)>,
}

impl ResultPlace {
    fn of(result: &JobResult, state: Option<&State>) -> Option<Self> {
        let table = result.table.clone()?;
        let incarnation = state
            .and_then(|state| state.table(&table))
            .map(|t| t.incarnation());
        Some(Self {
            schema: TableSchema::clone(&result.schema),
            version: incarnation.zip(result.rows.as_ref().map(|rows| rows.time)),
            table,
        })
    }

    /// The rows, as long as they are there.
    fn find(self, state: &State) -> Option<JobResult> {
        let table: &Arc<Table> = state.table(&self.table)?;
        let rows = match self.version {
            Some((incarnation, _)) if table.incarnation() != incarnation => return None,
            Some((_, time)) => table.snapshot_at(time)?,
            None => table.snapshot(),
        };
        Some(JobResult {
            table: Some(self.table),
            schema: Arc::new(self.schema),
            rows: Some(rows),
        })
    }
}

impl Document {
    fn of(job: &Job) -> Self {
        let progress = job.progress();
        Self {
            kind: job.kind,
            created: job.created,
            parent: job.parent.clone(),
            request_id: job.request_id.clone(),
            configuration: job.configuration(),
            started: progress.started,
            ended: None,
            error: None,
            errors: Vec::new(),
            statistics: progress.statistics,
            result: None,
            children: 0,
        }
    }

    fn ended(mut self, outcome: &Outcome, result: Option<ResultPlace>, now: i64) -> Self {
        self.started.get_or_insert(now);
        self.ended = Some(now);
        self.errors = outcome
            .error
            .iter()
            .chain(&outcome.details)
            .cloned()
            .collect();
        self.error.clone_from(&outcome.error);
        if !matches!(outcome.statistics, Statistics::None) {
            self.statistics = outcome.statistics.clone();
        }
        self.result = result;
        self
    }

    fn record(&self, stage: JobStage) -> JobRecord {
        let document = serde_json::to_string(self).unwrap_or_else(|e| {
            // All of it is maps with text for keys, which JSON can say.
            tracing::error!("a job cannot be recorded: {e}");
            String::new()
        });
        JobRecord { stage, document }
    }

    fn read(record: &JobRecord) -> Result<Self> {
        serde_json::from_str(&record.document)
            .map_err(|e| ServiceError::internal(format!("the record of a job: {e}")))
    }

    /// The job, done.
    fn job(self, reference: JobRef, state: &State) -> Job {
        let job = Job::new(
            reference,
            self.kind,
            self.configuration,
            self.parent,
            self.created,
        )
        .of_request(self.request_id);
        job.restore(Progress {
            state: JobState::Done,
            started: self.started,
            ended: self.ended,
            error: self.error,
            errors: self.errors,
            statistics: self.statistics,
            result: self
                .result
                .and_then(|place| place.find(state))
                .map(Arc::new),
            children: self.children,
        });
        job
    }
}

/// The step that records a job which was accepted.
pub(super) fn begun(job: &Job) -> Mutation {
    let record = Document::of(job).record(JobStage::Begun);
    Mutation::PutJob(job.reference.clone(), record)
}

/// The step that is part of the change which a job makes, when that is all that the
/// job does: `outcome` is how the job ends then, with its rows in `result`.
pub fn applied(
    job: &Job,
    outcome: &Outcome,
    result: Option<(&TableRef, &TableSchema)>,
) -> Mutation {
    let result = result.map(|(table, schema)| ResultPlace {
        table: table.clone(),
        schema: schema.clone(),
        version: None,
    });
    let record = Document::of(job)
        .ended(outcome, result, millis_now())
        .record(JobStage::Applied);
    Mutation::PutJob(job.reference.clone(), record)
}

/// The step that records a job which is done.
pub(super) fn done(
    state: &State,
    job: &Job,
    outcome: &Outcome,
    children: u64,
    now: i64,
) -> Mutation {
    let result = outcome
        .result
        .as_ref()
        .and_then(|result| ResultPlace::of(result, Some(state)));
    let mut document = Document::of(job).ended(outcome, result, now);
    document.children = children;
    Mutation::PutJob(job.reference.clone(), document.record(JobStage::Done))
}

/// Records that a job is done and answers how it ended: what it changed is changed,
/// also when it is said to have been stopped meanwhile.
pub(super) fn finish(
    service: &Service,
    job: &Job,
    outcome: Outcome,
    children: u64,
    now: i64,
) -> Outcome {
    let kept = service.store.commit(|state| {
        let known = state.job(&job.reference);
        let outcome = match known {
            Some(record) if record.stage == JobStage::Applied && outcome.error.is_some() => {
                let document = Document::read(record)?;
                Outcome {
                    statistics: document.statistics,
                    result: document.result.and_then(|place| place.find(state)),
                    error: document.error.clone(),
                    details: document
                        .errors
                        .into_iter()
                        .skip(usize::from(document.error.is_some()))
                        .collect(),
                }
            }
            _ => outcome,
        };
        let step = done(state, job, &outcome, children, now);
        Ok((vec![step], outcome))
    });
    kept.unwrap_or_else(|error| {
        tracing::error!(job = %job.reference, "the end of a job was not recorded: {error}");
        Outcome::failure(error)
    })
}

/// The error of a job that the end of the server ended.
fn interrupted(kind: JobKind) -> ServiceError {
    let changed = match kind {
        JobKind::Query => "If it is a script, statements that had ended before stay done",
        JobKind::Load | JobKind::Copy => "Nothing of it was applied",
        JobKind::Extract => "Files that it had written before stay",
    };
    ServiceError::new(
        Reason::BackendError,
        format!("The server was stopped while the job ran. {changed}."),
    )
}

/// Brings back the jobs that the store knows. Those that were under way when the
/// server ended are done now: well when their change had been made, else with an
/// error. What scripts left behind goes.
pub fn restore(service: &Service) -> Result<()> {
    let now = millis_now();
    let jobs = service.store.commit(|state| {
        let mut steps = Vec::new();
        let mut jobs = Vec::new();
        for (reference, record) in state.jobs() {
            let mut document = match Document::read(record) {
                Ok(document) => document,
                Err(error) => {
                    tracing::error!(job = %reference, "a job is lost: {error}");
                    continue;
                }
            };
            if record.stage == JobStage::Begun {
                let outcome = Outcome::failure(interrupted(document.kind));
                document = document.ended(&outcome, None, now);
            }
            if record.stage != JobStage::Done {
                let record = document.record(JobStage::Done);
                steps.push(Mutation::PutJob(reference.clone(), record));
            }
            jobs.push(document.job(reference.clone(), state));
        }
        let left = state
            .projects()
            .flat_map(|project| state.datasets(project))
            .map(|(reference, _)| reference)
            .filter(|reference| crate::engine::is_temporary(reference));
        steps.extend(left.cloned().map(Mutation::DropDataset));
        Ok((steps, jobs))
    })?;
    for job in jobs {
        let job = service.jobs.registry.insert(job)?;
        service.jobs.requests.restore(&job);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::LocalOptions;
    use crate::store::{Dataset, DatasetRef, Store, StoreOptions};

    fn open(directory: &std::path::Path) -> Service {
        let store = Store::open(directory, StoreOptions::default()).unwrap();
        let service = Service::new(store, LocalOptions::default());
        restore(&service).unwrap();
        service
    }

    fn begin(service: &Service, id: &str) -> Arc<Job> {
        let Value::Object(configuration) = json!({"query": {"query": "q"}}) else {
            panic!("an object")
        };
        let reference = JobRef {
            project: "p".into(),
            location: "US".into(),
            id: id.into(),
        };
        let job = Job::new(reference, JobKind::Query, configuration, None, 5);
        let job = service.jobs.registry.insert(job).unwrap();
        service
            .store
            .commit(|_| Ok((vec![begun(&job)], ())))
            .unwrap();
        job
    }

    fn counted(rows: u64) -> Outcome {
        Outcome::success(Statistics::Copy(crate::jobs::statistics::CopyStatistics {
            copied_rows: rows,
            copied_logical_bytes: 0,
        }))
    }

    /// The server ends here, at whatever moment.
    fn again(service: Service, directory: &std::path::Path) -> Service {
        drop(service);
        open(directory)
    }

    #[test]
    fn a_job_under_way_is_done_after_a_restart_and_says_what_it_did() {
        let directory = tempfile::tempdir().unwrap();
        let service = open(directory.path());
        let nothing = begin(&service, "nothing").reference.clone();
        let all = begin(&service, "all");
        let dataset = DatasetRef::new("p", "d");
        let change = vec![
            Mutation::PutDataset(dataset.clone(), Dataset::new("US", 0)),
            applied(&all, &counted(3), None),
        ];
        service.store.commit(|_| Ok((change, ()))).unwrap();
        let all = all.reference.clone();
        let mut service = again(service, directory.path());
        for _ in 0..2 {
            let job = service.jobs.registry.get(&nothing).unwrap();
            let error = job.progress().error.unwrap();
            assert_eq!(error.reason, Reason::BackendError);
            assert_eq!(job.state(), JobState::Done);
            let progress = service.jobs.registry.get(&all).unwrap().progress();
            assert_eq!((progress.state, progress.error), (JobState::Done, None));
            assert_eq!(progress.statistics, counted(3).statistics);
            assert!(service.store.read(|s| s.dataset(&dataset).is_some()));
            service = again(service, directory.path());
        }
    }

    #[test]
    fn a_job_that_was_stopped_after_its_change_says_that_it_did_it() {
        let service = Service::new(
            Store::in_memory(StoreOptions::default()),
            LocalOptions::default(),
        );
        let job = begin(&service, "late");
        let change = vec![applied(&job, &counted(3), None)];
        service.store.commit(|_| Ok((change, ()))).unwrap();
        let stopped = Outcome::failure(super::super::job::cancelled_error());
        let outcome = finish(&service, &job, stopped, 0, 9);
        assert_eq!(outcome.error, None);
        assert_eq!(outcome.statistics, counted(3).statistics);
        let other = begin(&service, "early");
        let stopped = Outcome::failure(super::super::job::cancelled_error());
        let outcome = finish(&service, &other, stopped, 0, 9);
        assert!(outcome.error.is_some());
        let change = vec![applied(&other, &counted(3), None)];
        let refused = service.store.commit(|_| Ok((change, ())));
        assert_eq!(refused.unwrap_err().reason, Reason::Stopped);
    }

    #[test]
    fn what_scripts_left_behind_goes() {
        let directory = tempfile::tempdir().unwrap();
        let service = open(directory.path());
        let left = DatasetRef::new("p", "_script0123");
        let put = Mutation::PutDataset(left.clone(), Dataset::new("US", 0));
        service.store.commit(|_| Ok((vec![put], ()))).unwrap();
        let service = again(service, directory.path());
        assert!(service.store.read(|s| s.dataset(&left).is_none()));
    }
}
