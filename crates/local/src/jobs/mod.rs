//! Jobs: what runs, what ran, and what came of it.
//!
//! A job is registered, answered, and worked on in a background task; requests
//! look at it through the [`JobRegistry`]. Nothing here speaks HTTP.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | `configuration` as typed values |
//! | [`registry`], [`job`] | the jobs and their states |
//! | [`statistics`] | counts |
//! | [`location`], [`names`] | where a job runs, from the names it mentions |
//! | [`run`] | starting and finishing jobs |
//! | [`query`], [`load`], [`copy`] | what each kind does |
//! | [`destination`], [`target`], [`merge`], [`fit`], [`layout`] | writing rows into a table: dispositions, schema updates, partitions |
//! | [`anonymous`], [`cache`] | results without a named destination |
//! | [`parameters`] | query parameters |
//! | [`requests`], [`uploads`] | repeated requests, resumable uploads |

pub mod anonymous;
pub mod cache;
pub mod config;
pub mod copy;
pub mod destination;
pub mod fit;
pub mod job;
pub mod layout;
pub mod load;
pub mod location;
pub mod merge;
pub mod names;
pub mod parameters;
pub mod query;
pub mod reference;
pub mod registry;
pub mod requests;
pub mod run;
pub mod statistics;
pub mod target;
pub mod uploads;

use crate::store::millis_now;

pub use job::{Job, JobKind, JobResult, JobState};
pub use reference::JobRef;
pub use registry::{JobFilter, JobRegistry};
pub use run::{JobRequest, dry_run, start};

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
}

impl Jobs {
    /// Lets go of results whose day is over.
    pub fn forget_old(&self) {
        self.registry
            .forget_results_before(millis_now() - anonymous::LIFETIME);
    }
}

/// The caller that every job belongs to: this server has no accounts.
pub const USER_EMAIL: &str = "user@bigquery-local";
