//! One job of a commit: under ids that say what it does, however often the commit
//! is repeated.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::plan::Staged;
use crate::client::Client;
use crate::client::cancel::CancelOnDrop;
use crate::client::rest::bulk_jobs::{Begun, BulkJob, BulkRequest, BulkState, BulkWork, JobTarget};
use crate::client::rest::job_model::JobRef;
use crate::error::{Error, ErrorKind, Result};
use crate::options::LoadDisposition;
use crate::sink::metrics::CommitCounters;

/// So many jobs of one piece of work may have failed, in all its repetitions.
const MAX_ATTEMPTS: u32 = 1_000;

/// The name of a commit: the same for the same files, whatever their order, into
/// the same table in the same way.
pub(in crate::sink) fn run_id(
    target: &JobTarget,
    disposition: LoadDisposition,
    files: &[Staged],
) -> String {
    let mut parts: Vec<String> = files
        .iter()
        .map(|staged| format!("{} {}", staged.format.name(), staged.file.uri))
        .collect();
    parts.sort();
    parts.insert(0, format!("1 {target} {}", disposition.name()));
    named("load", &parts)
}

/// A name made of a digest of `parts`.
pub(in crate::sink) fn named(what: &str, parts: &[String]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_be_bytes());
        hasher.update(part);
    }
    let digest = hasher.finalize();
    let mut name = format!("datafusion_{what}_");
    for byte in &digest[..16] {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

/// How jobs of one commit run.
#[derive(Debug, Clone)]
pub(in crate::sink) struct Jobs<'a> {
    pub(in crate::sink) client: &'a Client,
    /// The project that runs them.
    pub(in crate::sink) project: String,
    pub(in crate::sink) location: Option<String>,
    pub(in crate::sink) labels: Vec<(String, String)>,
    /// The name of the commit.
    pub(in crate::sink) run: String,
    pub(in crate::sink) first_wait: Duration,
    pub(in crate::sink) longest_wait: Duration,
    pub(in crate::sink) counters: &'a CommitCounters,
}

/// One piece of a commit's work.
#[derive(Debug, Clone)]
pub(in crate::sink) struct Work {
    /// Its name, different from those of the others.
    pub(in crate::sink) step: String,
    pub(in crate::sink) work: BulkWork,
    pub(in crate::sink) target: JobTarget,
    pub(in crate::sink) disposition: LoadDisposition,
}

impl Jobs<'_> {
    fn reference(&self, step: &str, attempt: u32) -> JobRef {
        JobRef {
            project: self.project.clone(),
            id: format!("{}_{step}_{attempt}", self.run),
            location: self.location.clone(),
        }
    }

    /// The job that has done `step`, if there is one.
    pub(in crate::sink) async fn finished(&self, step: &str) -> Result<Option<BulkJob>> {
        for attempt in 0..MAX_ATTEMPTS {
            let job = self
                .client
                .find_bulk(&self.reference(step, attempt))
                .await?;
            match job {
                None => return Ok(None),
                Some(job) if job.state == BulkState::Succeeded => return Ok(Some(job)),
                Some(_) => {}
            }
        }
        Ok(None)
    }

    /// Does the work, or finds that it was done.
    ///
    /// A job that failed has changed nothing, so the next may try; and it keeps its
    /// id for ever, so the next has another. The same goes for one that was cancelled
    /// because its commit was given up while it ran. Jobs are looked at in the order of their
    /// ids: whoever does the same work at the same time meets this one at the first id
    /// that is free, and only one of them gets it.
    ///
    /// `valid` says of a job that had succeeded before whether what it did is still
    /// there.
    pub(in crate::sink) async fn run<F>(
        &self,
        work: &Work,
        mut valid: impl FnMut(BulkJob) -> F,
    ) -> Result<BulkJob>
    where
        F: Future<Output = Result<Option<BulkJob>>>,
    {
        let mut backoff = self.client.job_backoff();
        let mut stopped_before = false;
        for attempt in 0..MAX_ATTEMPTS {
            let request = BulkRequest {
                job: self.reference(&work.step, attempt),
                work: work.work.clone(),
                target: work.target.clone(),
                disposition: work.disposition,
                labels: self.labels.clone(),
            };
            // Before it is sent: nobody may be there any more when it is answered.
            let mut cancel = CancelOnDrop::new(self.client, request.job.clone());
            let job = match self.client.insert_bulk(&request).await {
                Ok(job) => job,
                Err(error) => {
                    // What was refused is not there to be cancelled.
                    if !error.may_have_applied() {
                        cancel.disarm();
                    }
                    return Err(error);
                }
            };
            tracing::debug!(job = %job.reference, begun = ?job.begun, "a job of a commit");
            match job.begun {
                Begun::Now => {
                    cancel.aim(&job.reference);
                    self.counters.submitted();
                }
                // Somebody else may wait for a job that this commit found.
                Begun::Before => {
                    cancel.disarm();
                    self.counters.reattached();
                }
            }
            let job = self
                .client
                .wait_for_bulk(job, self.first_wait, self.longest_wait)
                .await?;
            self.counters.done();
            cancel.disarm();
            let begun = job.begun;
            match job.state.clone() {
                BulkState::Succeeded if begun == Begun::Now => return Ok(job),
                BulkState::Succeeded => {
                    if let Some(job) = valid(job).await? {
                        return Ok(job);
                    }
                }
                BulkState::Failed(failure) => {
                    let stopped = failure.reason == "stopped";
                    let error = failure.into_error(&job.reference);
                    match begun {
                        // What made it fail may be mended by now.
                        Begun::Before => {
                            tracing::info!(%error, "a job of an earlier attempt had failed");
                        }
                        // The cancellation may have been that of the same commit, which
                        // was given up a moment ago. A second one is meant.
                        Begun::Now if stopped && !stopped_before => {
                            stopped_before = true;
                            tracing::info!(%error, "a job was cancelled and is run once more");
                        }
                        Begun::Now => backoff.after(error).await?,
                    }
                }
                BulkState::Running => {
                    return Err(Error::new(
                        ErrorKind::Internal,
                        format!("job {} was not waited for", job.reference),
                    ));
                }
            }
        }
        Err(Error::new(
            ErrorKind::ResourceExhausted,
            format!(
                "{MAX_ATTEMPTS} jobs named {}_{} failed: see their errors in BigQuery, and write \
                 the rows again",
                self.run, work.step
            ),
        ))
    }
}
