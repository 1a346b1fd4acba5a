//! Requests that carry an id so that repeating them does nothing again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::job::Job;
use crate::error::Result;
use crate::store::millis_now;

/// How long a request id is remembered, in milliseconds.
const LIFETIME: i64 = 15 * 60_000;

/// A project and a request's id.
type RequestKey = (String, String);

/// The jobs that requests with an id have started, and when.
#[derive(Debug, Default)]
pub struct Requests {
    started: Mutex<HashMap<RequestKey, (Arc<Job>, i64)>>,
}

impl Requests {
    /// A job that an earlier run of the server started.
    pub fn restore(&self, job: &Arc<Job>) {
        if let Some(id) = &job.request_id {
            let key = (job.reference.project.clone(), id.clone());
            let started = (Arc::clone(job), job.created);
            self.started.lock().insert(key, started);
        }
    }

    /// The job of an earlier request of the project with this id, or the one that
    /// `start` makes now.
    pub fn once(
        &self,
        project: &str,
        id: &str,
        start: impl FnOnce() -> Result<Arc<Job>>,
    ) -> Result<Arc<Job>> {
        let mut started = self.started.lock();
        let now = millis_now();
        started.retain(|_, (_, at)| now - *at < LIFETIME);
        let key = (project.to_string(), id.to_string());
        if let Some((job, _)) = started.get(&key) {
            return Ok(Arc::clone(job));
        }
        let job = start()?;
        started.insert(key, (Arc::clone(&job), now));
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::error::ServiceError;
    use crate::jobs::job::JobKind;
    use crate::jobs::reference::JobRef;

    fn job(id: &str) -> Arc<Job> {
        let reference = JobRef {
            project: "p".into(),
            location: "US".into(),
            id: id.into(),
        };
        Arc::new(Job::new(reference, JobKind::Query, Map::new(), None, 0))
    }

    #[test]
    fn a_repeated_request_gets_the_first_job() {
        let requests = Requests::default();
        let first = requests.once("p", "r", || Ok(job("a"))).unwrap();
        let again = requests.once("p", "r", || Ok(job("b"))).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let other = requests.once("q", "r", || Ok(job("c"))).unwrap();
        assert_eq!(other.reference.id, "c");
    }

    #[test]
    fn a_refused_request_may_be_repeated() {
        let requests = Requests::default();
        assert!(
            requests
                .once("p", "r", || Err(ServiceError::invalid("no")))
                .is_err()
        );
        assert!(requests.once("p", "r", || Ok(job("a"))).is_ok());
    }
}
