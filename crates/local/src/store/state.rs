//! The whole state and the one way to change it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

use super::dataset::Dataset;
use super::reference::{DatasetRef, TableRef};
use super::segment::Segment;
use super::table::{Table, TableMeta};
use crate::error::{Result, ServiceError};

/// One step of a change. A change is a list of these, applied as a whole.
#[derive(Debug)]
pub enum Mutation {
    /// Creates a dataset or replaces its metadata.
    PutDataset(DatasetRef, Dataset),
    /// Removes a dataset and all its tables.
    DropDataset(DatasetRef),
    /// Creates a table or replaces its metadata; rows stay.
    PutTable(TableRef, Box<TableMeta>),
    /// Removes a table.
    DropTable(TableRef),
    /// Adds rows. They must have the Arrow form of the table's schema.
    Append(TableRef, Vec<Segment>),
    /// Replaces all rows, under the schema that the table has then.
    Replace(TableRef, Vec<Segment>),
    /// Replaces the rows of some ingestion-time partitions (starts in
    /// microseconds since the epoch).
    ReplacePartitions(TableRef, Vec<i64>, Vec<Segment>),
}

/// Datasets and tables of every project.
#[derive(Debug, Default)]
pub struct State {
    datasets: BTreeMap<DatasetRef, Arc<Dataset>>,
    tables: BTreeMap<TableRef, Arc<Table>>,
    incarnations: u64,
}

impl State {
    /// A dataset's metadata.
    pub fn dataset(&self, reference: &DatasetRef) -> Option<&Arc<Dataset>> {
        self.datasets.get(reference)
    }

    /// A dataset's metadata, or the service's 404.
    pub fn require_dataset(&self, reference: &DatasetRef) -> Result<&Arc<Dataset>> {
        self.dataset(reference)
            .ok_or_else(|| ServiceError::not_found(format_args!("Dataset {reference}")))
    }

    /// The datasets of a project in order of name.
    pub fn datasets(&self, project: &str) -> impl Iterator<Item = (&DatasetRef, &Arc<Dataset>)> {
        self.datasets
            .iter()
            .filter(move |(reference, _)| reference.project == project)
    }

    /// The projects that have datasets, in order.
    pub fn projects(&self) -> impl Iterator<Item = &str> {
        let mut last = None;
        self.datasets.keys().filter_map(move |reference| {
            let project = reference.project.as_str();
            (last != Some(project)).then(|| {
                last = Some(project);
                project
            })
        })
    }

    /// A table that has not expired.
    pub fn table(&self, reference: &TableRef) -> Option<&Arc<Table>> {
        self.tables
            .get(reference)
            .filter(|table| !table.meta().is_expired(millis_now()))
    }

    /// A table, or the service's 404: of its dataset when that is missing too.
    pub fn require_table(&self, reference: &TableRef) -> Result<&Arc<Table>> {
        if let Some(table) = self.table(reference) {
            return Ok(table);
        }
        self.require_dataset(&reference.dataset_ref())?;
        Err(ServiceError::not_found(format_args!("Table {reference}")))
    }

    /// The tables of a dataset in order of name, without those that expired.
    pub fn tables(&self, dataset: &DatasetRef) -> impl Iterator<Item = &Arc<Table>> {
        let now = millis_now();
        self.tables
            .range(dataset.table("")..)
            .map(|(_, table)| table)
            .take_while(move |t| {
                t.reference().project == dataset.project && t.reference().dataset == dataset.dataset
            })
            .filter(move |t| !t.meta().is_expired(now))
    }

    /// Refuses a change that names a table which neither exists nor is made by it,
    /// so that applying cannot fail half-way.
    fn check(&self, mutations: &[Mutation]) -> Result<()> {
        let mut known: BTreeMap<&TableRef, bool> = BTreeMap::new();
        for mutation in mutations {
            match mutation {
                Mutation::PutTable(reference, _) => {
                    known.insert(reference, true);
                }
                Mutation::DropTable(reference) => {
                    known.insert(reference, false);
                }
                Mutation::Append(reference, _)
                | Mutation::Replace(reference, _)
                | Mutation::ReplacePartitions(reference, ..) => {
                    let exists = known
                        .get(reference)
                        .copied()
                        .unwrap_or_else(|| self.tables.contains_key(reference));
                    if !exists {
                        return Err(ServiceError::not_found(format_args!("Table {reference}")));
                    }
                }
                Mutation::PutDataset(..) | Mutation::DropDataset(_) => {}
            }
        }
        Ok(())
    }

    /// Applies one step of a change that passed [`Self::check`].
    fn apply(&mut self, mutation: Mutation, now: i64) {
        match mutation {
            Mutation::PutDataset(reference, dataset) => {
                self.datasets.insert(reference, Arc::new(dataset));
            }
            Mutation::DropDataset(reference) => {
                self.datasets.remove(&reference);
                self.tables.retain(|r, _| r.dataset_ref() != reference);
            }
            Mutation::PutTable(reference, meta) => match self.table(&reference) {
                Some(table) => table.put_meta(*meta, now),
                None => {
                    self.incarnations += 1;
                    let table = Table::new(reference.clone(), self.incarnations, *meta, now);
                    self.tables.insert(reference, Arc::new(table));
                }
            },
            Mutation::DropTable(reference) => {
                self.tables.remove(&reference);
            }
            Mutation::Append(reference, segments) => {
                if let Some(table) = self.tables.get(&reference) {
                    table.append(segments.into_iter().map(Arc::new).collect(), now);
                }
            }
            Mutation::Replace(reference, segments) => {
                if let Some(table) = self.tables.get(&reference) {
                    table.retire(&|_| true, now);
                    table.append(segments.into_iter().map(Arc::new).collect(), now);
                }
            }
            Mutation::ReplacePartitions(reference, partitions, segments) => {
                if let Some(table) = self.tables.get(&reference) {
                    table.retire(
                        &|s| s.partition().is_some_and(|p| partitions.contains(&p)),
                        now,
                    );
                    table.append(segments.into_iter().map(Arc::new).collect(), now);
                }
            }
        }
    }
}

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
}

impl Store {
    /// An empty store that keeps everything in memory.
    pub fn in_memory(options: StoreOptions) -> Self {
        Self {
            options,
            state: RwLock::new(State::default()),
            last_commit: Mutex::new(0),
        }
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

    /// Changes the state: `plan` checks and says what to do while no other change
    /// can happen, then all of it happens, with one commit time.
    pub fn commit<R>(&self, plan: impl FnOnce(&State) -> Result<(Vec<Mutation>, R)>) -> Result<R> {
        let mut last = self.last_commit.lock();
        let (mutations, result) = {
            let state = self.state.read();
            let (mutations, result) = plan(&state)?;
            state.check(&mutations)?;
            (mutations, result)
        };
        let now = micros_now().max(*last + 1);
        *last = now;
        let mut state = self.state.write();
        for mutation in mutations {
            state.apply(mutation, now);
        }
        Ok(result)
    }

    /// Drops row versions older than the time-travel window, and expired tables.
    pub fn forget_old_versions(&self) -> Result<()> {
        let window = i64::try_from(self.options.time_travel.as_micros()).unwrap_or(i64::MAX);
        let horizon = micros_now().saturating_sub(window);
        for table in self.state.read().tables.values() {
            table.forget_before(horizon);
        }
        self.commit(|state| {
            let now = millis_now();
            let expired = state
                .tables
                .values()
                .filter(|table| table.meta().is_expired(now))
                .map(|table| Mutation::DropTable(table.reference().clone()))
                .collect();
            Ok((expired, ()))
        })
    }
}

/// Microseconds since the epoch.
pub fn micros_now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Milliseconds since the epoch.
pub fn millis_now() -> i64 {
    micros_now() / 1000
}
