//! The whole state: datasets, tables, routines and jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::dataset::Dataset;
use super::disk::{Image, StoredSegment};
use super::job_record::{JobRecord, JobRecords, JobStage};
use super::mutation::Mutation;
use super::reference::{DatasetRef, JobRef, TableRef};
use super::routine::{Routine, RoutineRef, Routines};
use super::segment::Segment;
use super::table::Table;
use super::write_stream::WriteStream;
use crate::error::{Reason, Result, ServiceError};

/// Datasets and tables of every project.
#[derive(Debug, Default)]
pub struct State {
    datasets: BTreeMap<DatasetRef, Arc<Dataset>>,
    tables: BTreeMap<TableRef, Arc<Table>>,
    routines: Routines,
    jobs: JobRecords,
    /// Write streams by their whole name.
    streams: BTreeMap<String, WriteStream>,
    incarnations: u64,
    /// Segments that tables have ever had; each gets the next number as its id.
    segments: u64,
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

    /// A routine.
    pub fn routine(&self, reference: &RoutineRef) -> Option<&Arc<Routine>> {
        self.routines.get(reference)
    }

    /// Every routine, in order of dataset and name.
    pub fn routines(&self) -> impl Iterator<Item = (&RoutineRef, &Arc<Routine>)> {
        self.routines.all()
    }

    /// Whether anything is kept in a dataset.
    pub fn is_empty(&self, dataset: &DatasetRef) -> bool {
        self.tables(dataset).next().is_none()
            && self.routines().all(|(own, _)| own.dataset != *dataset)
    }

    /// What is known of a job.
    pub fn job(&self, reference: &JobRef) -> Option<&JobRecord> {
        self.jobs.get(reference)
    }

    /// What is known of jobs, oldest first.
    pub fn jobs(&self) -> impl Iterator<Item = &(JobRef, JobRecord)> {
        self.jobs.all()
    }

    /// A write stream, by its whole name.
    pub fn stream(&self, name: &str) -> Option<&WriteStream> {
        self.streams.get(name)
    }

    /// All write streams, by name.
    pub fn streams(&self) -> impl Iterator<Item = (&str, &WriteStream)> {
        self.streams.iter().map(|(name, s)| (name.as_str(), s))
    }

    /// Refuses a change that names a table which neither exists nor is made by it,
    /// so that applying cannot fail half-way.
    pub(super) fn check(&self, mutations: &[Mutation]) -> Result<()> {
        let mut known: BTreeMap<&TableRef, bool> = BTreeMap::new();
        let mut dropped: Vec<&DatasetRef> = Vec::new();
        let mut made: Vec<&str> = Vec::new();
        for mutation in mutations {
            match mutation {
                Mutation::PutTable(reference, _) => {
                    known.insert(reference, true);
                }
                Mutation::DropTable(reference) => {
                    known.insert(reference, false);
                }
                Mutation::DropDataset(reference) => {
                    known.retain(|table, _| table.dataset_ref() != *reference);
                    dropped.push(reference);
                }
                Mutation::Append(reference, _)
                | Mutation::Replace(reference, _)
                | Mutation::ReplacePartitions(reference, ..)
                | Mutation::Rewrite(reference, _)
                | Mutation::Change(reference, _)
                | Mutation::ForgetChanges(reference)
                | Mutation::Forget(reference, _)
                | Mutation::Compact(reference, ..) => {
                    let exists = known.get(reference).copied().unwrap_or_else(|| {
                        self.tables.contains_key(reference)
                            && !dropped.contains(&&reference.dataset_ref())
                    });
                    if !exists {
                        return Err(ServiceError::not_found(format_args!("Table {reference}")));
                    }
                }
                Mutation::PutJob(reference, record) if record.stage == JobStage::Applied => {
                    // A job that was reported as stopped must not change anything later.
                    let stage = self.jobs.get(reference).map(|known| known.stage);
                    if stage != Some(JobStage::Begun) {
                        return Err(ServiceError::new(
                            Reason::Stopped,
                            "Job execution was cancelled",
                        ));
                    }
                }
                Mutation::PutDataset(..)
                | Mutation::PutRoutine(..)
                | Mutation::DropRoutine(_)
                | Mutation::PutJob(..)
                | Mutation::DropJob(_)
                | Mutation::DropStream(_) => {}
                Mutation::PutStream(name, _) => made.push(name),
                Mutation::SpliceStream(name, ..) => {
                    if !made.contains(&name.as_str()) && !self.streams.contains_key(name) {
                        return Err(ServiceError::not_found(format_args!("Stream {name}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Applies one step of a change that passed [`Self::check`] and answers the
    /// segments that the state has no more.
    ///
    /// What it does depends on nothing but the state, the step and `now`, the
    /// change's commit time, so that it can be done again at the next start.
    #[must_use]
    pub(super) fn apply(&mut self, mutation: Mutation, now: i64) -> Vec<Arc<Segment>> {
        match mutation {
            Mutation::PutDataset(reference, dataset) => {
                self.datasets.insert(reference, Arc::new(dataset));
                Vec::new()
            }
            Mutation::DropDataset(reference) => {
                self.datasets.remove(&reference);
                self.routines.remove_dataset(&reference);
                let mut gone = Vec::new();
                let mut incarnations = Vec::new();
                self.tables.retain(|r, table| {
                    let stays = r.dataset_ref() != reference;
                    if !stays {
                        gone.extend(table.segments());
                        incarnations.push(table.incarnation());
                    }
                    stays
                });
                gone.extend(self.empty_streams(&incarnations));
                gone
            }
            Mutation::PutTable(reference, meta) => {
                let live = self
                    .tables
                    .get(&reference)
                    .filter(|table| !table.meta().is_expired(now / 1000));
                match live {
                    Some(table) => {
                        table.put_meta(*meta, now);
                        Vec::new()
                    }
                    None => {
                        self.incarnations += 1;
                        let table = Table::new(reference.clone(), self.incarnations, *meta, now);
                        self.tables
                            .insert(reference, Arc::new(table))
                            .map_or_else(Vec::new, |expired| self.left_by(&expired))
                    }
                }
            }
            Mutation::DropTable(reference) => self
                .tables
                .remove(&reference)
                .map_or_else(Vec::new, |table| self.left_by(&table)),
            Mutation::Append(reference, segments) => {
                self.append(&reference, segments, now, &|_| false);
                Vec::new()
            }
            Mutation::Replace(reference, segments) => {
                self.append(&reference, segments, now, &|_| true);
                Vec::new()
            }
            Mutation::ReplacePartitions(reference, partitions, segments) => {
                self.append(&reference, segments, now, &|s| {
                    s.partition().is_some_and(|p| partitions.contains(&p))
                });
                Vec::new()
            }
            Mutation::Rewrite(reference, parts) => {
                for (gone, segments) in parts {
                    let first = self.segments;
                    self.segments += segments.len() as u64;
                    if let Some(table) = self.tables.get(&reference) {
                        let segments = segments.into_iter().map(Arc::new).collect();
                        table.rewrite(gone, first, segments, now);
                    }
                }
                Vec::new()
            }
            Mutation::Change(reference, changed) => {
                let first = self.segments;
                self.segments += (changed.rows.len() + changed.log.len()) as u64;
                self.tables
                    .get(&reference)
                    .map_or_else(Vec::new, |table| table.change(first, *changed, now))
            }
            Mutation::ForgetChanges(reference) => self
                .tables
                .get(&reference)
                .map_or_else(Vec::new, |table| table.forget_changes()),
            Mutation::Forget(reference, horizon) => self
                .tables
                .get(&reference)
                .map_or_else(Vec::new, |table| table.forget_before(horizon)),
            Mutation::Compact(reference, gone, segment) => {
                let id = self.segments;
                self.segments += 1;
                let segment = Arc::new(segment);
                match self.tables.get(&reference) {
                    Some(table) => table.compact(&gone, id, segment),
                    None => Vec::new(),
                }
            }
            Mutation::PutRoutine(reference, routine) => {
                self.routines.put(reference, *routine);
                Vec::new()
            }
            Mutation::DropRoutine(reference) => {
                self.routines.remove(&reference);
                Vec::new()
            }
            Mutation::PutJob(reference, record) => {
                self.jobs.put(reference, record);
                Vec::new()
            }
            Mutation::DropJob(reference) => {
                self.jobs.remove(&reference);
                Vec::new()
            }
            Mutation::PutStream(name, meta) => {
                match self.streams.get_mut(&name) {
                    Some(stream) => stream.put_meta(meta),
                    None => {
                        self.streams.insert(name, WriteStream::new(meta));
                    }
                }
                Vec::new()
            }
            Mutation::SpliceStream(name, at, gone, segments) => self
                .streams
                .get_mut(&name)
                .map_or_else(Vec::new, |stream| stream.splice(at, gone, segments)),
            Mutation::DropStream(name) => self
                .streams
                .remove(&name)
                .map_or_else(Vec::new, |mut stream| stream.empty()),
        }
    }

    /// The segments of a table that is gone and of its write streams.
    fn left_by(&mut self, table: &Table) -> Vec<Arc<Segment>> {
        let mut gone = table.segments();
        gone.extend(self.empty_streams(&[table.incarnation()]));
        gone
    }

    /// Takes away what the write streams of tables hold.
    fn empty_streams(&mut self, incarnations: &[u64]) -> Vec<Arc<Segment>> {
        self.streams
            .values_mut()
            .filter(|stream| incarnations.contains(&stream.meta().incarnation))
            .flat_map(WriteStream::empty)
            .collect()
    }

    /// Ends the life of the segments that `gone` picks and adds others.
    fn append(
        &mut self,
        reference: &TableRef,
        segments: Vec<Segment>,
        now: i64,
        gone: &dyn Fn(&Segment) -> bool,
    ) {
        let first = self.segments;
        self.segments += segments.len() as u64;
        if let Some(table) = self.tables.get(reference) {
            table.retire(gone, now);
            table.append(first, segments.into_iter().map(Arc::new).collect(), now);
        }
    }

    /// Every table, expired ones too.
    pub(super) fn all_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// Every segment of every table, whenever it was live.
    pub(super) fn segments(&self) -> impl Iterator<Item = Arc<Segment>> {
        let held = self.streams.values().flat_map(|s| s.held().iter().cloned());
        self.tables
            .values()
            .flat_map(|table| table.segments())
            .chain(held)
    }

    /// The state in the form in which it is written.
    pub(super) fn image(
        &self,
        last_commit: i64,
        store: &dyn Fn(&Arc<Segment>) -> Result<StoredSegment>,
    ) -> Result<Image> {
        Ok(Image {
            last_commit,
            incarnations: self.incarnations,
            segments: self.segments,
            datasets: self
                .datasets
                .iter()
                .map(|(reference, dataset)| (reference.clone(), Dataset::clone(dataset)))
                .collect(),
            tables: self
                .tables
                .values()
                .map(|table| table.image(store))
                .collect::<Result<_>>()?,
            routines: self
                .routines
                .all()
                .map(|(reference, routine)| (reference.clone(), Routine::clone(routine)))
                .collect(),
            jobs: self.jobs.all().cloned().collect(),
            streams: self
                .streams
                .iter()
                .map(|(name, stream)| stream.image(name, store))
                .collect::<Result<_>>()?,
        })
    }

    /// The state of an image.
    pub(super) fn from_image(
        image: Image,
        load: &mut dyn FnMut(&StoredSegment) -> Result<Segment>,
    ) -> Result<Self> {
        let mut state = Self {
            incarnations: image.incarnations,
            segments: image.segments,
            ..Self::default()
        };
        for (reference, dataset) in image.datasets {
            state.datasets.insert(reference, Arc::new(dataset));
        }
        for (reference, routine) in image.routines {
            state.routines.put(reference, routine);
        }
        for (reference, record) in image.jobs {
            state.jobs.put(reference, record);
        }
        for table in image.tables {
            let table = Table::from_image(table, load)?;
            state
                .tables
                .insert(table.reference().clone(), Arc::new(table));
        }
        for stream in image.streams {
            let loaded = WriteStream::from_image(&stream, load)?;
            state.streams.insert(stream.name, loaded);
        }
        Ok(state)
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
