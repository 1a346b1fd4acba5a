//! What the service counts, and how much of it there may be.
//!
//! Everything is counted at all times; only where quotas are enforced
//! ([`Realism::quotas`](crate::Realism), or [`Quotas::enforce`]) something is refused.
//!
//! Source: sections 3.6, 5.2 and 6.4 of the service reference.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};

use crate::error::{Reason, Result, ServiceError};
use crate::rest::answer::{self, RestResult};
use crate::server::Service;

/// A window is counted in so many parts, each of which is forgotten as a whole.
const PARTS: u32 = 60;

/// Something of which there may be only so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quota {
    /// Load jobs, copy jobs and query jobs with a destination that end in a table;
    /// those that fail count too.
    TableModifications,
    /// tables.patch and tables.update of a table.
    TableUpdates,
    /// tables.insert in a project.
    TableCreations,
    /// datasets.patch and datasets.update of a dataset.
    DatasetUpdates,
    /// Load jobs of a project.
    LoadJobs,
    /// Copy jobs of a project.
    CopyJobs,
    /// CreateWriteStream in a project.
    WriteStreams,
}

impl Quota {
    const ALL: [Quota; 7] = [
        Quota::TableModifications,
        Quota::TableUpdates,
        Quota::TableCreations,
        Quota::DatasetUpdates,
        Quota::LoadJobs,
        Quota::CopyJobs,
        Quota::WriteStreams,
    ];

    /// Its name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Quota::TableModifications => "table_modifications",
            Quota::TableUpdates => "table_updates",
            Quota::TableCreations => "table_creations",
            Quota::DatasetUpdates => "dataset_updates",
            Quota::LoadJobs => "load_jobs",
            Quota::CopyJobs => "copy_jobs",
            Quota::WriteStreams => "write_streams",
        }
    }

    /// The time in which so much may be.
    pub fn window(self) -> Duration {
        const DAY: u64 = 24 * 3600;
        Duration::from_secs(match self {
            Quota::TableModifications | Quota::LoadJobs | Quota::CopyJobs => DAY,
            Quota::TableUpdates | Quota::DatasetUpdates => 10,
            Quota::TableCreations => 1,
            Quota::WriteStreams => 3600,
        })
    }

    /// What the service says beyond it. The words of [`Quota::TableUpdates`] were
    /// measured; the reasons of the others are documented, and their words are not.
    fn error(self) -> ServiceError {
        match self {
            Quota::TableModifications => ServiceError::new(
                Reason::QuotaExceeded,
                "Quota exceeded: Your table exceeded quota for imports or query appends per table",
            ),
            Quota::TableUpdates => ServiceError::new(
                Reason::RateLimitExceeded,
                "Exceeded rate limits: too many table update operations for this table",
            ),
            Quota::TableCreations => ServiceError::new(
                Reason::RateLimitExceeded,
                "Exceeded rate limits: too many table creations for this project",
            ),
            Quota::DatasetUpdates => ServiceError::new(
                Reason::RateLimitExceeded,
                "Exceeded rate limits: too many dataset update operations for this dataset",
            ),
            Quota::LoadJobs => ServiceError::new(
                Reason::QuotaExceeded,
                "Quota exceeded: Your project exceeded quota for load jobs per project",
            ),
            Quota::CopyJobs => ServiceError::new(
                Reason::QuotaExceeded,
                "Quota exceeded: Your project exceeded quota for copy jobs per project",
            ),
            Quota::WriteStreams => ServiceError::new(
                Reason::QuotaExceeded,
                "Exceeds 'CreateWriteStream requests' quota, user project quota exceeded",
            ),
        }
    }
}

/// How much there may be of each [`Quota`] in its window. The default is what the
/// service's documentation says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Of a table, in a day.
    pub table_modifications: u64,
    /// Of a table, in 10 seconds.
    pub table_updates: u64,
    /// In a project, in a second.
    pub table_creations: u64,
    /// Of a dataset, in 10 seconds.
    pub dataset_updates: u64,
    /// In a project, in a day.
    pub load_jobs: u64,
    /// In a project, in a day.
    pub copy_jobs: u64,
    /// In a project, in an hour.
    pub write_streams: u64,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self {
            table_modifications: 1_500,
            table_updates: 5,
            table_creations: 10,
            dataset_updates: 5,
            load_jobs: 100_000,
            copy_jobs: 100_000,
            write_streams: 10_000,
        }
    }
}

impl QuotaLimits {
    /// How much there may be of one.
    pub fn of(&self, quota: Quota) -> u64 {
        match quota {
            Quota::TableModifications => self.table_modifications,
            Quota::TableUpdates => self.table_updates,
            Quota::TableCreations => self.table_creations,
            Quota::DatasetUpdates => self.dataset_updates,
            Quota::LoadJobs => self.load_jobs,
            Quota::CopyJobs => self.copy_jobs,
            Quota::WriteStreams => self.write_streams,
        }
    }
}

/// The counts of a server.
#[derive(Debug, Default)]
pub struct Quotas(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    enforced: Option<QuotaLimits>,
    used: BTreeMap<(Quota, String), Used>,
}

#[derive(Debug, Default)]
struct Used {
    /// Parts of the window, oldest first: when each began, and how much was in it.
    parts: VecDeque<(Instant, u64)>,
    refused: u64,
}

impl Used {
    fn forget(&mut self, window: Duration, now: Instant) {
        while let Some((began, _)) = self.parts.front()
            && now.saturating_duration_since(*began) >= window
        {
            self.parts.pop_front();
        }
    }

    fn total(&self) -> u64 {
        self.parts.iter().map(|(_, count)| count).sum()
    }

    fn add(&mut self, window: Duration, now: Instant) {
        match self.parts.back_mut() {
            Some((began, count)) if now.saturating_duration_since(*began) < window / PARTS => {
                *count += 1;
            }
            _ => self.parts.push_back((now, 1)),
        }
    }
}

impl Quotas {
    /// Counts with these limits, if any are enforced.
    pub(crate) fn new(enforced: Option<QuotaLimits>) -> Self {
        let quotas = Self::default();
        quotas.enforce(enforced);
        quotas
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses from now on what is beyond the limits; without them nothing.
    pub fn enforce(&self, limits: Option<QuotaLimits>) {
        self.counts().enforced = limits;
    }

    /// Begins to count anew, as when every window has passed.
    pub fn reset(&self) {
        self.counts().used.clear();
    }

    /// How much of a quota is used up by a resource in the window that ends now. A table
    /// is `project:dataset.table`, a dataset `project:dataset`, a project its id.
    pub fn used(&self, quota: Quota, resource: &str) -> u64 {
        let key = (quota, resource.to_string());
        self.counts().used.get_mut(&key).map_or(0, |used| {
            used.forget(quota.window(), Instant::now());
            used.total()
        })
    }

    /// How often a quota was found to be used up, by any resource.
    pub fn refused(&self, quota: Quota) -> u64 {
        let counts = self.counts();
        let of_quota = counts.used.iter().filter(|((of, _), _)| *of == quota);
        of_quota.map(|(_, used)| used.refused).sum()
    }

    /// Counts one more, or refuses it, which counts nothing.
    pub(crate) fn charge(&self, quota: Quota, resource: impl fmt::Display) -> Result<()> {
        let (now, window) = (Instant::now(), quota.window());
        let mut counts = self.counts();
        let limit = counts.enforced.map(|limits| limits.of(quota));
        let used = counts
            .used
            .entry((quota, resource.to_string()))
            .or_default();
        used.forget(window, now);
        if limit.is_some_and(|limit| used.total() >= limit) {
            used.refused += 1;
            return Err(quota.error());
        }
        used.add(window, now);
        Ok(())
    }

    /// Forgets resources of which nothing is counted any more.
    pub(crate) fn forget_old(&self) {
        let now = Instant::now();
        self.counts().used.retain(|(quota, _), used| {
            used.forget(quota.window(), now);
            used.refused > 0 || !used.parts.is_empty()
        });
    }

    /// All counts.
    fn list(&self) -> Vec<Value> {
        let now = Instant::now();
        let mut counts = self.counts();
        let limits = counts.enforced;
        let of = |((quota, resource), used): (&(Quota, String), &mut Used)| {
            used.forget(quota.window(), now);
            json!({
                "quota": quota.name(),
                "resource": resource,
                "used": used.total(),
                "refused": used.refused,
                "windowSeconds": quota.window().as_secs(),
                "limit": limits.map(|limits| limits.of(*quota)),
            })
        };
        counts.used.iter_mut().map(of).collect()
    }
}

/// `GET /_local/quotas`: what is used of which quota, by which resource.
pub(crate) fn routes() -> Router<std::sync::Arc<Service>> {
    Router::new().route("/_local/quotas", get(list))
}

async fn list(State(service): State<std::sync::Arc<Service>>) -> RestResult {
    let limits = QuotaLimits::default();
    let documented: serde_json::Map<String, Value> = Quota::ALL
        .iter()
        .map(|quota| (quota.name().to_string(), json!(limits.of(*quota))))
        .collect();
    Ok(answer::json(&json!({
        "quotas": service.quotas.list(),
        "documentedLimits": documented,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_passes_part_by_part() {
        let (window, began) = (Duration::from_secs(60), Instant::now());
        let mut used = Used::default();
        for second in 0..120_u64 {
            let now = began + Duration::from_secs(second);
            used.forget(window, now);
            used.add(window, now);
            used.add(window, now);
            assert_eq!(used.total(), 2 * (second + 1).min(60), "{second}");
        }
        assert_eq!(used.parts.len(), 60);
        used.forget(window, began + Duration::from_secs(500));
        assert_eq!(used.total(), 0);
    }

    #[test]
    fn what_is_refused_is_not_counted() {
        let quotas = Quotas::default();
        let charge = || quotas.charge(Quota::TableModifications, "p:d.t");
        for _ in 0..3 {
            charge().unwrap();
        }
        let limits = QuotaLimits {
            table_modifications: 4,
            ..QuotaLimits::default()
        };
        quotas.enforce(Some(limits));
        charge().unwrap();
        for _ in 0..2 {
            assert_eq!(charge().unwrap_err().reason, Reason::QuotaExceeded);
        }
        quotas
            .charge(Quota::TableModifications, "p:d.other")
            .unwrap();
        assert_eq!(quotas.used(Quota::TableModifications, "p:d.t"), 4);
        assert_eq!(quotas.refused(Quota::TableModifications), 2);
        quotas.reset();
        charge().unwrap();
        quotas.enforce(None);
        assert_eq!(quotas.used(Quota::TableModifications, "p:d.t"), 1);
    }
}
