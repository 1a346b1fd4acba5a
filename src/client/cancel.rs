//! Jobs that nobody waits for any more.

use super::rest::job_model::JobRef;
use super::{Client, background};

/// Cancels a job when whoever waits for it goes away.
#[derive(Debug)]
pub(crate) struct CancelOnDrop {
    client: Client,
    job: JobRef,
    armed: bool,
}

impl CancelOnDrop {
    pub(crate) fn new(client: &Client, job: JobRef) -> Self {
        Self {
            client: client.clone(),
            job,
            armed: true,
        }
    }

    /// It is this job, whose name the service has completed.
    pub(crate) fn aim(&mut self, job: &JobRef) {
        self.job = job.clone();
    }

    /// The job is done, or somebody else's.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (client, job) = (self.client.clone(), self.job.clone());
        let started = background::spawn(async move {
            match client.cancel_job(&job).await {
                Ok(()) => tracing::debug!(%job, "cancelled"),
                Err(error) => tracing::debug!(%job, %error, "a job could not be cancelled"),
            }
        });
        if let Err(error) = started {
            tracing::warn!(job = %self.job, %error, "a job is not cancelled");
        }
    }
}
