//! The one way to change the state.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::disk::{Disk, blocking};
use super::mutation::Mutation;
use super::partition_rows::Expiry;
use super::reference::TableRef;
use super::segment::Segment;
use super::state::{State, micros_now, millis_now};
use super::table::Table;
use crate::error::Result;

/// How a store behaves.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// How far back rows can be read (the service's default is 7 days).
    pub time_travel: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            time_travel: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// The state behind a lock, and the clock of its commits.
#[derive(Debug)]
pub struct Store {
    options: StoreOptions,
    state: RwLock<State>,
    /// Commit time of the newest change; held while one is made.
    last_commit: Mutex<i64>,
    /// Where changes are written before they are acknowledged.
    disk: Option<Disk>,
    /// What is known of the partitions of each table, by incarnation.
    expiries: Mutex<HashMap<u64, Checked>>,
}

/// When a table has to be looked at for expired partitions again: after a change
/// of rows (commit time) or metadata (etag), or at a time.
#[derive(Debug)]
struct Checked {
    seen: (i64, String),
    next: Option<i64>,
}

impl Store {
    /// An empty store that keeps everything in memory.
    pub fn in_memory(options: StoreOptions) -> Self {
        Self {
            options,
            state: RwLock::new(State::default()),
            last_commit: Mutex::new(0),
            disk: None,
            expiries: Mutex::default(),
        }
    }

    /// The store in a directory, which is made if it is not there. Every change
    /// that was acknowledged is in it, and none in part. One program can have a
    /// directory open at a time.
    pub fn open(directory: &Path, options: StoreOptions) -> std::io::Result<Self> {
        let opened = Disk::open(directory)?;
        Ok(Self {
            options,
            state: RwLock::new(opened.state),
            last_commit: Mutex::new(opened.last_commit),
            disk: Some(opened.disk),
            expiries: Mutex::default(),
        })
    }

    /// How the store behaves.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// Looks at the state. Keep it short: writers wait meanwhile.
    pub fn read<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.state.read())
    }

    /// The table, or the service's 404.
    pub fn table(&self, reference: &TableRef) -> Result<Arc<Table>> {
        self.read(|state| state.require_table(reference).cloned())
    }

    /// Writes rows down that a change will add. [`Self::commit`] does so too, but
    /// then every other change waits for it.
    pub fn stage(&self, segments: Vec<Segment>) -> Result<Vec<Segment>> {
        match &self.disk {
            Some(disk) => blocking(|| disk.stage(segments)),
            None => Ok(segments),
        }
    }

    /// Changes the state: `plan` checks and says what to do while no other change
    /// can happen, then all of it happens, with one commit time. In a store with a
    /// directory the change is durable when this returns.
    pub fn commit<R>(&self, plan: impl FnOnce(&State) -> Result<(Vec<Mutation>, R)>) -> Result<R> {
        match &self.disk {
            Some(disk) => blocking(|| self.commit_durably(disk, plan)),
            None => self.commit_in_memory(plan),
        }
    }

    fn commit_in_memory<R>(
        &self,
        plan: impl FnOnce(&State) -> Result<(Vec<Mutation>, R)>,
    ) -> Result<R> {
        let mut last = self.last_commit.lock();
        let (mut mutations, result) = self.planned(plan)?;
        for segments in mutations.iter_mut().flat_map(Mutation::segments_mut) {
            let whole = std::mem::take(segments).into_iter().map(Segment::whole);
            *segments = whole.collect::<Result<_>>()?;
        }
        let now = micros_now().max(*last + 1);
        *last = now;
        let gone = self.apply(mutations, now);
        drop(last);
        drop(gone);
        Ok(result)
    }

    fn commit_durably<R>(
        &self,
        disk: &Disk,
        plan: impl FnOnce(&State) -> Result<(Vec<Mutation>, R)>,
    ) -> Result<R> {
        let mut last = self.last_commit.lock();
        let (mut mutations, result) = self.planned(plan)?;
        if mutations.is_empty() {
            // The answer rests on what was seen, so that must be durable.
            let seen = disk.newest();
            drop(last);
            disk.sync(seen)?;
            return Ok(result);
        }
        for mutation in &mut mutations {
            if let Mutation::Compact(_, _, segment) = mutation {
                let merged = std::mem::replace(segment, Segment::in_memory(Vec::new(), None));
                *segment = disk.stage_whole(merged)?;
            } else {
                for segments in mutation.segments_mut() {
                    *segments = disk.stage(std::mem::take(segments))?;
                }
            }
        }
        let now = micros_now().max(*last + 1);
        let change = disk.append(now, &mutations)?;
        *last = now;
        let gone = self.apply(mutations, now);
        if disk.wants_image()
            && let Err(e) = disk.write_image(&self.state.read(), now)
        {
            tracing::warn!("the journal goes on without an image: {e}");
        }
        drop(last);
        disk.sync(change)?;
        for segment in gone {
            segment.release();
        }
        Ok(result)
    }

    /// Writes the state down whole, so that the next start has no journal to read.
    /// A store does so by itself from time to time.
    pub fn write_image(&self) -> Result<()> {
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        blocking(|| {
            let last = self.last_commit.lock();
            disk.write_image(&self.state.read(), *last)
        })
    }

    /// Takes no more changes. Another program may then use the directory; what is in
    /// memory can still be read.
    pub fn close(&self) {
        if let Some(disk) = &self.disk {
            let _last = self.last_commit.lock();
            blocking(|| disk.close());
        }
    }

    fn planned<R>(
        &self,
        plan: impl FnOnce(&State) -> Result<(Vec<Mutation>, R)>,
    ) -> Result<(Vec<Mutation>, R)> {
        let state = self.state.read();
        let (mutations, result) = plan(&state)?;
        state.check(&mutations)?;
        Ok((mutations, result))
    }

    fn apply(&self, mutations: Vec<Mutation>, now: i64) -> Vec<Arc<Segment>> {
        let mut state = self.state.write();
        mutations
            .into_iter()
            .flat_map(|mutation| state.apply(mutation, now))
            .collect()
    }

    /// Drops row versions older than the time-travel window, and expired tables.
    pub fn forget_old_versions(&self) -> Result<()> {
        let window = i64::try_from(self.options.time_travel.as_micros()).unwrap_or(i64::MAX);
        let horizon = micros_now().saturating_sub(window);
        self.commit(|state| {
            let now = millis_now();
            let mut mutations = Vec::new();
            for table in state.all_tables() {
                let reference = table.reference().clone();
                if table.meta().is_expired(now) {
                    mutations.push(Mutation::DropTable(reference));
                } else if table.remembers_before(horizon) {
                    mutations.push(Mutation::Forget(reference, horizon));
                }
            }
            Ok((mutations, ()))
        })
    }

    /// Removes the rows of expired partitions.
    pub fn expire_partitions(&self) -> Result<()> {
        let tables: Vec<Arc<Table>> = self.read(|state| state.all_tables().cloned().collect());
        let mut checked = std::mem::take(&mut *self.expiries.lock());
        checked.retain(|incarnation, _| tables.iter().any(|t| t.incarnation() == *incarnation));
        for table in tables {
            let seen = (table.changed(), table.meta().etag.clone());
            let known = checked.get(&table.incarnation());
            if known.is_some_and(|known| {
                known.seen == seen && known.next.is_none_or(|n| n > micros_now())
            }) {
                continue;
            }
            match table.expiry(self, micros_now())? {
                Expiry::Later(next) => {
                    checked.insert(table.incarnation(), Checked { seen, next });
                }
                Expiry::Now(removal) => self.commit(|state| {
                    // Rows that came meanwhile are looked at next time.
                    let same = state.table(table.reference()).is_some_and(|now| {
                        now.incarnation() == table.incarnation() && now.changed() == seen.0
                    });
                    Ok((same.then_some(removal).into_iter().collect(), ()))
                })?,
            }
        }
        *self.expiries.lock() = checked;
        Ok(())
    }

    /// Puts many small segments of a table together, as streaming leaves them.
    pub fn compact(&self) -> Result<()> {
        let tables: Vec<Arc<Table>> = self.read(|state| state.all_tables().cloned().collect());
        for table in tables {
            for run in table.small_runs() {
                let Some(merged) = run.merged()? else {
                    continue;
                };
                let reference = table.reference();
                self.commit(|state| {
                    let same = state.table(reference).is_some_and(|now| {
                        now.incarnation() == table.incarnation() && now.has_live(&run.ids)
                    });
                    let compaction =
                        same.then(|| Mutation::Compact(reference.clone(), run.ids.clone(), merged));
                    Ok((compaction.into_iter().collect(), ()))
                })?;
            }
        }
        Ok(())
    }
}
