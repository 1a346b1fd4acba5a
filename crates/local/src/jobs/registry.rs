//! Every job of this server, by name and in order of creation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;

use super::job::{Job, JobState};
use super::reference::JobRef;
use crate::error::{Result, ServiceError};

/// Finished jobs beyond this number are forgotten, oldest first.
const MAX_JOBS: usize = 100_000;

/// Which jobs a list asks for.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Only these states; empty for all.
    pub states: Vec<JobState>,
    /// Only the statements of this script. Without it, statements of scripts are
    /// left out.
    pub parent: Option<String>,
    /// Created at or after, in milliseconds since the epoch.
    pub min_creation_time: Option<i64>,
    /// Created at or before, in milliseconds since the epoch.
    pub max_creation_time: Option<i64>,
}

#[derive(Debug, Default)]
struct Jobs {
    by_name: HashMap<JobRef, u64>,
    /// By serial number, so in order of creation.
    by_serial: BTreeMap<u64, Arc<Job>>,
    next: u64,
}

/// The jobs. Cheap to share; every method locks for a moment.
#[derive(Debug, Default)]
pub struct JobRegistry {
    jobs: RwLock<Jobs>,
}

impl Jobs {
    fn check_free(&self, reference: &JobRef) -> Result<()> {
        if self.by_name.contains_key(reference) {
            return Err(ServiceError::duplicate(format_args!("Job {reference}")));
        }
        Ok(())
    }
}

impl JobRegistry {
    /// Adds a job, or answers 409 when its name was ever used, whatever became of
    /// the job that has it.
    pub fn insert(&self, job: Job) -> Result<Arc<Job>> {
        let mut jobs = self.jobs.write();
        jobs.check_free(&job.reference)?;
        let serial = jobs.next;
        jobs.next += 1;
        let job = Arc::new(job);
        jobs.by_name.insert(job.reference.clone(), serial);
        jobs.by_serial.insert(serial, Arc::clone(&job));
        if jobs.by_serial.len() > MAX_JOBS {
            let oldest = jobs
                .by_serial
                .iter()
                .find(|(_, job)| job.state() == JobState::Done)
                .map(|(serial, _)| *serial);
            if let Some(gone) = oldest.and_then(|serial| jobs.by_serial.remove(&serial)) {
                jobs.by_name.remove(&gone.reference);
            }
        }
        Ok(job)
    }

    /// Answers 409 when a job has this name.
    pub fn check_free(&self, reference: &JobRef) -> Result<()> {
        self.jobs.read().check_free(reference)
    }

    /// A job, or the service's 404.
    pub fn get(&self, reference: &JobRef) -> Result<Arc<Job>> {
        let jobs = self.jobs.read();
        jobs.by_name
            .get(reference)
            .and_then(|serial| jobs.by_serial.get(serial))
            .cloned()
            .ok_or_else(|| ServiceError::not_found(format_args!("Job {reference}")))
    }

    /// Forgets a job that could not be recorded.
    pub(super) fn remove(&self, reference: &JobRef) {
        let mut jobs = self.jobs.write();
        if let Some(serial) = jobs.by_name.remove(reference) {
            jobs.by_serial.remove(&serial);
        }
    }

    /// Forgets a job and the statements of a script, and answers their names; a job
    /// that still runs is refused.
    pub(super) fn delete(&self, reference: &JobRef) -> Result<Vec<JobRef>> {
        let mut jobs = self.jobs.write();
        let serial = *jobs
            .by_name
            .get(reference)
            .ok_or_else(|| ServiceError::not_found(format_args!("Job {reference}")))?;
        let running = jobs
            .by_serial
            .get(&serial)
            .is_some_and(|job| job.state() != JobState::Done);
        if running {
            return Err(ServiceError::invalid(format!(
                "Job {reference} is still running; cancel it or wait for it before deleting it."
            )));
        }
        let gone: Vec<u64> = jobs
            .by_serial
            .iter()
            .filter(|(s, job)| **s == serial || job.parent.as_ref() == Some(reference))
            .map(|(s, _)| *s)
            .collect();
        let gone: Vec<JobRef> = gone
            .into_iter()
            .filter_map(|serial| jobs.by_serial.remove(&serial))
            .map(|job| job.reference.clone())
            .collect();
        for reference in &gone {
            jobs.by_name.remove(reference);
        }
        Ok(gone)
    }

    /// The project's jobs that `filter` lets through, newest first, after the one
    /// with serial number `before`; with the serial number of each, which is the
    /// place to continue from.
    pub fn list(
        &self,
        project: &str,
        filter: &JobFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Vec<(u64, Arc<Job>)> {
        let jobs = self.jobs.read();
        jobs.by_serial
            .range(..before.unwrap_or(u64::MAX))
            .rev()
            .filter(|(_, job)| job.reference.project == project && filter.accepts(job))
            .take(limit)
            .map(|(serial, job)| (*serial, Arc::clone(job)))
            .collect()
    }

    /// Every job of a project, oldest first, statements of scripts included.
    pub fn of_project(&self, project: &str) -> Vec<Arc<Job>> {
        let jobs = self.jobs.read();
        jobs.by_serial
            .values()
            .filter(|job| job.reference.project == project)
            .cloned()
            .collect()
    }

    /// Lets go of the rows of jobs that ended before `time` (milliseconds since the
    /// epoch): anonymous results live for a day.
    pub fn forget_results_before(&self, time: i64) {
        for job in self.jobs.read().by_serial.values() {
            if job.progress().ended.is_some_and(|ended| ended < time) {
                job.forget_result();
            }
        }
    }
}

impl JobFilter {
    fn accepts(&self, job: &Job) -> bool {
        let parent = match &self.parent {
            Some(wanted) => job.parent.as_ref().is_some_and(|p| p.id == *wanted),
            None => job.parent.is_none(),
        };
        parent
            && (self.states.is_empty() || self.states.contains(&job.state()))
            && self.min_creation_time.is_none_or(|t| job.created >= t)
            && self.max_creation_time.is_none_or(|t| job.created <= t)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::jobs::job::{JobKind, Outcome};
    use crate::jobs::statistics::Statistics;

    fn reference(id: &str) -> JobRef {
        JobRef {
            project: "p".into(),
            location: "US".into(),
            id: id.into(),
        }
    }

    fn add(registry: &JobRegistry, id: &str, parent: Option<&str>, created: i64) -> Arc<Job> {
        let job = Job::new(
            reference(id),
            JobKind::Query,
            Map::new(),
            parent.map(reference),
            created,
        );
        registry.insert(job).unwrap()
    }

    fn ids(found: &[(u64, Arc<Job>)]) -> Vec<&str> {
        found.iter().map(|(_, j)| j.reference.id.as_str()).collect()
    }

    #[test]
    fn a_name_is_used_once() {
        let registry = JobRegistry::default();
        let job = add(&registry, "a", None, 1);
        job.finish(Outcome::failure(ServiceError::invalid("no")), 0, 2);
        let again = Job::new(reference("a"), JobKind::Query, Map::new(), None, 3);
        let error = registry.insert(again).unwrap_err();
        assert_eq!(error.message, "Already Exists: Job p:US.a");
        let elsewhere = JobRef {
            location: "EU".into(),
            ..reference("a")
        };
        let other = Job::new(elsewhere, JobKind::Query, Map::new(), None, 3);
        assert!(registry.insert(other).is_ok());
        assert_eq!(
            registry.get(&reference("b")).unwrap_err().message,
            "Not found: Job p:US.b"
        );
    }

    #[test]
    fn lists_are_newest_first_and_leave_statements_out() {
        let registry = JobRegistry::default();
        add(&registry, "a", None, 1);
        add(&registry, "script", None, 2);
        add(&registry, "statement", Some("script"), 3);
        add(&registry, "b", None, 4);
        let all = registry.list("p", &JobFilter::default(), None, 10);
        assert_eq!(ids(&all), ["b", "script", "a"]);
        let page = registry.list("p", &JobFilter::default(), None, 2);
        assert_eq!(ids(&page), ["b", "script"]);
        let rest = registry.list("p", &JobFilter::default(), Some(page[1].0), 2);
        assert_eq!(ids(&rest), ["a"]);
        let statements = JobFilter {
            parent: Some("script".into()),
            ..JobFilter::default()
        };
        assert_eq!(
            ids(&registry.list("p", &statements, None, 9)),
            ["statement"]
        );
        let window = JobFilter {
            min_creation_time: Some(2),
            max_creation_time: Some(3),
            ..JobFilter::default()
        };
        assert_eq!(ids(&registry.list("p", &window, None, 9)), ["script"]);
        assert!(
            registry
                .list("q", &JobFilter::default(), None, 9)
                .is_empty()
        );
    }

    #[test]
    fn only_finished_jobs_are_deleted_and_statements_go_along() {
        let registry = JobRegistry::default();
        let script = add(&registry, "script", None, 2);
        let statement = add(&registry, "statement", Some("script"), 3);
        assert!(registry.delete(&reference("script")).is_err());
        script.finish(Outcome::success(Statistics::None), 1, 4);
        statement.finish(Outcome::success(Statistics::None), 0, 4);
        registry.delete(&reference("script")).unwrap();
        assert!(registry.get(&reference("statement")).is_err());
        assert!(registry.delete(&reference("script")).is_err());
    }
}
