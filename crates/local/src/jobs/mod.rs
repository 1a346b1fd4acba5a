//! Jobs: what runs, what ran, and what came of it.
//!
//! A job is registered, answered, and worked on in a background task; requests
//! look at it through the [`JobRegistry`]. Nothing here speaks HTTP.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | `configuration` as typed values |
//! | [`registry`], [`job`] | the jobs and their states |
//! | [`record`] | what is kept of jobs, and jobs after a restart |
//! | [`statistics`] | counts |
//! | [`location`], [`names`] | where a job runs, from the names it mentions |
//! | [`run`] | starting and finishing jobs |
//! | [`query`], [`load`], [`copy`], [`extract`] | what each kind does |
//! | [`files`] | `gs://` addresses |
//! | [`destination`], [`target`], [`merge`], [`fit`], [`layout`] | writing rows into a table: dispositions, schema updates, partitions |
//! | [`anonymous`], [`cache`] | results without a named destination |
//! | [`parameters`] | query parameters |
//! | [`requests`], [`uploads`] | repeated requests, resumable uploads |

pub mod anonymous;
pub mod cache;
pub mod config;
pub mod copy;
pub mod destination;
pub mod extract;
mod files;
pub mod fit;
pub mod job;
pub mod layout;
pub mod load;
pub mod location;
pub mod merge;
pub mod names;
pub mod parameters;
pub mod query;
pub mod record;
pub mod reference;
pub mod registry;
pub mod requests;
pub mod run;
pub mod statistics;
pub mod target;
pub mod uploads;

use std::sync::Arc;

use tokio::sync::watch;

use crate::store::millis_now;

pub use job::{Job, JobKind, JobResult, JobState};
pub use record::restore;
pub use reference::JobRef;
pub use registry::{JobFilter, JobRegistry};
pub use run::{JobRequest, delete, dry_run, start};

/// Everything about jobs that requests share.
#[derive(Debug, Default)]
pub struct Jobs {
    /// The jobs.
    pub registry: JobRegistry,
    /// Results that repeated queries get.
    pub cache: cache::QueryCache,
    /// Requests that must not be carried out twice.
    pub requests: requests::Requests,
    /// Uploads under way.
    pub uploads: uploads::Uploads,
    /// How many tasks work on jobs.
    running: Arc<watch::Sender<usize>>,
}

/// A task that works on a job, until it is dropped.
#[derive(Debug)]
pub(super) struct Working(Arc<watch::Sender<usize>>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

impl Jobs {
    /// One more task works on a job.
    fn working(&self) -> Working {
        self.running.send_modify(|running| *running += 1);
        Working(Arc::clone(&self.running))
    }

    /// Waits until no task works on a job.
    pub async fn idle(&self) {
        let mut running = self.running.subscribe();
        // The sender lives in `self`.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    /// Lets go of results whose day is over.
    pub fn forget_old(&self) {
        self.registry
            .forget_results_before(millis_now() - anonymous::LIFETIME);
    }
}

/// The caller that every job belongs to: this server has no accounts.
pub const USER_EMAIL: &str = "user@bigquery-local";
