//! A table: metadata, and rows in segments with the interval in which each was live.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::capture::{ChangedRows, Changes, KeyIndex, Log};
use super::compaction::{RunFinder, SmallRun};
use super::dataset::{Dataset, fresh_etag};
use super::disk::{StoredSegment, TableImage};
use super::life::Life;
use super::mutation::Mutation;
use super::reference::TableRef;
use super::segment::Segment;
use super::snapshot::Snapshot;
use crate::error::{Result, ServiceError};
use crate::schema::{TableSchema, arrow_schema};

/// What kind of relation a table resource is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TableKind {
    /// A native table.
    Table,
    /// A logical view.
    View(View),
    /// A materialized view.
    MaterializedView(View),
    /// An external table; its configuration is in `TableMeta::extra`.
    External,
}

/// A view's definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// GoogleSQL.
    pub query: String,
}

/// Partitioning by time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimePartitioning {
    /// `HOUR`, `DAY`, `MONTH` or `YEAR`.
    #[serde(rename = "type")]
    pub granularity: String,
    /// Partitioning column; `None` partitions by ingestion time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Milliseconds after which a partition expires, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_ms: Option<String>,
}

/// Partitioning by integer range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RangePartitioning {
    /// Partitioning column.
    pub field: String,
    /// First value.
    pub start: i64,
    /// First value after the last.
    pub end: i64,
    /// Width of one partition.
    pub interval: i64,
}

/// Clustering columns, at most four.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusteringSpec {
    /// Column names, in order.
    pub fields: Vec<String>,
}

/// A table's metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableMeta {
    /// Kind.
    pub kind: TableKind,
    /// Columns.
    pub schema: Arc<TableSchema>,
    /// Region of the dataset.
    pub location: String,
    /// Description.
    pub description: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Milliseconds since the epoch.
    pub creation_time: i64,
    /// Milliseconds since the epoch.
    pub last_modified_time: i64,
    /// Milliseconds since the epoch.
    pub expiration_time: Option<i64>,
    /// Changes with every metadata change.
    pub etag: String,
    /// Partitioning by time.
    pub time_partitioning: Option<TimePartitioning>,
    /// Partitioning by integer range.
    pub range_partitioning: Option<RangePartitioning>,
    /// Clustering.
    pub clustering: Option<ClusteringSpec>,
    /// Whether reads must filter on the partitioning column.
    pub require_partition_filter: bool,
    /// Primary key columns, empty for none.
    pub primary_key: Vec<String>,
    /// Foreign keys as the REST resource has them.
    pub foreign_keys: Vec<Value>,
    /// `max_staleness` as set by DDL (REST drops it), as interval text.
    pub max_staleness: Option<String>,
    /// Other fields of the REST resource that are stored and given back.
    pub extra: Map<String, Value>,
}

impl TableKind {
    /// What the service calls it.
    pub fn name(&self) -> &'static str {
        match self {
            TableKind::Table => "TABLE",
            TableKind::View(_) => "VIEW",
            TableKind::MaterializedView(_) => "MATERIALIZED_VIEW",
            TableKind::External => "EXTERNAL",
        }
    }
}

impl TableMeta {
    /// Refuses relations that hold no rows of their own as something to write to.
    pub fn takes_rows(&self, reference: &TableRef) -> Result<()> {
        if self.kind == TableKind::Table {
            return Ok(());
        }
        Err(ServiceError::invalid(format!(
            "{reference} is not allowed for this operation because it is currently a {}.",
            self.kind.name()
        )))
    }

    /// A relation of `schema` in `dataset`, created at `now` (milliseconds) with
    /// the dataset's location and default expirations, and nothing else.
    pub fn new(dataset: &Dataset, kind: TableKind, schema: Arc<TableSchema>, now: i64) -> Self {
        let expires = matches!(kind, TableKind::Table);
        Self {
            schema,
            location: dataset.location.clone(),
            description: None,
            labels: BTreeMap::new(),
            creation_time: now,
            last_modified_time: now,
            expiration_time: dataset
                .default_table_expiration_ms()
                .filter(|_| expires)
                .map(|ms| now.saturating_add(ms)),
            etag: fresh_etag(),
            time_partitioning: None,
            range_partitioning: None,
            clustering: None,
            require_partition_filter: false,
            primary_key: Vec::new(),
            foreign_keys: Vec::new(),
            max_staleness: None,
            extra: Map::new(),
            kind,
        }
    }

    /// Notes a change of metadata: a new etag and modification time.
    pub fn touch(&mut self, now: i64) {
        self.etag = fresh_etag();
        self.last_modified_time = now;
    }

    /// Whether the table is gone at `now` (milliseconds).
    pub fn is_expired(&self, now: i64) -> bool {
        self.expiration_time.is_some_and(|at| at <= now)
    }
}

#[derive(Debug)]
struct Versions {
    segments: Vec<Life>,
    /// The schema and the commit time from which it held, oldest first.
    schemas: Vec<(i64, Arc<TableSchema>)>,
    /// Commit time of the newest change of rows or schema.
    changed: i64,
    /// There once rows were changed by key.
    log: Option<Log>,
}

/// A table. Metadata is replaced as a whole; rows change by whole segments.
#[derive(Debug)]
pub struct Table {
    reference: TableRef,
    /// Tells a table from another that had the same name before.
    incarnation: u64,
    meta: RwLock<Arc<TableMeta>>,
    rows: RwLock<Versions>,
    /// Made when rows are first changed by key. Locked before `rows`.
    keys: Mutex<Option<KeyIndex>>,
}

impl Table {
    /// An empty table created at commit time `now`.
    pub(super) fn new(reference: TableRef, incarnation: u64, meta: TableMeta, now: i64) -> Self {
        let schemas = vec![(now, Arc::clone(&meta.schema))];
        Self {
            reference,
            incarnation,
            meta: RwLock::new(Arc::new(meta)),
            rows: RwLock::new(Versions {
                segments: Vec::new(),
                schemas,
                changed: now,
                log: None,
            }),
            keys: Mutex::default(),
        }
    }

    /// Name.
    pub fn reference(&self) -> &TableRef {
        &self.reference
    }

    /// See the field.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The metadata of this moment.
    pub fn meta(&self) -> Arc<TableMeta> {
        Arc::clone(&self.meta.read())
    }

    /// Commit time of the newest change of rows or schema; a change computed from
    /// a snapshot checks that this is still the snapshot's.
    pub fn changed(&self) -> i64 {
        self.rows.read().changed
    }

    /// Commit time of the creation: the oldest instant that can be read.
    pub fn created(&self) -> i64 {
        self.rows.read().schemas[0].0
    }

    /// The columns at `time` (microseconds since the epoch), or the first ones when the
    /// table is younger.
    pub fn schema_at(&self, time: i64) -> Arc<TableSchema> {
        let rows = self.rows.read();
        let past = rows.schemas.iter().rev().find(|(from, _)| *from <= time);
        Arc::clone(&past.unwrap_or(&rows.schemas[0]).1)
    }

    /// The rows and the schema of this moment.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_at(i64::MAX)
            .expect("every table has a schema from its creation on")
    }

    /// The rows and the schema as of `time` (microseconds since the epoch), or
    /// `None` when the table did not exist then.
    pub fn snapshot_at(&self, time: i64) -> Option<Snapshot> {
        let rows = self.rows.read();
        let schema = rows
            .schemas
            .iter()
            .rev()
            .find(|(from, _)| *from <= time)
            .map(|(_, schema)| Arc::clone(schema))?;
        let segments = rows
            .segments
            .iter()
            .filter_map(|life| life.at(time))
            .collect();
        Some(Snapshot {
            arrow: arrow_schema(&schema),
            schema,
            segments,
            version: rows.changed,
            time: time.min(rows.changed),
        })
    }

    pub(super) fn put_meta(&self, meta: TableMeta, now: i64) {
        let mut rows = self.rows.write();
        let newest = &rows.schemas[rows.schemas.len() - 1].1;
        if **newest != *meta.schema {
            rows.schemas.push((now, Arc::clone(&meta.schema)));
            rows.changed = now;
        }
        *self.meta.write() = Arc::new(meta);
    }

    /// Adds segments, which get ids from `first` on.
    pub(super) fn append(&self, first: u64, segments: Vec<Arc<Segment>>, now: i64) {
        let mut rows = self.rows.write();
        rows.changed = now;
        rows.segments.extend(
            (first..)
                .zip(segments)
                .map(|(id, segment)| Life::begun(id, segment, now)),
        );
    }

    /// Whether rows are changed by key: they were, and have not all been replaced
    /// since.
    pub fn is_captured(&self) -> bool {
        self.rows.read().log.is_some()
    }

    /// Entries of the log of changes by key.
    #[cfg(test)]
    pub(super) fn logged(&self) -> usize {
        self.rows.read().log.as_ref().map_or(0, Log::entries)
    }

    /// What changes by key do to the table, with rows in an ingestion-time partition
    /// (its start, in microseconds since the epoch) or in none; `None` when older ones
    /// than those that were made lose. It must be applied before anything else is.
    pub fn changes(
        &self,
        changes: &Changes,
        partition: Option<i64>,
        now: i64,
    ) -> Result<Option<Mutation>> {
        let meta = self.meta();
        let mut keys = self.keys.lock();
        let rows = self.rows.read();
        let none = Log::default();
        let log = rows.log.as_ref().unwrap_or(&none);
        // An index that could not follow to the end is not kept.
        let mut index = match keys.take() {
            Some(mut index) if index.can_follow(&meta.primary_key, &rows.segments) => {
                index.follow(&rows.segments)?;
                index
            }
            _ => KeyIndex::of(&meta.primary_key, &meta.schema, &rows.segments, log)?,
        };
        let changed = index.plan(changes, log, partition, now)?;
        *keys = Some(index);
        Ok(changed.map(|changed| Mutation::Change(self.reference.clone(), Box::new(changed))))
    }

    /// Applies changes by key, whose segments get ids from `first` on, and answers what
    /// is not needed any more.
    pub(super) fn change(&self, first: u64, changed: ChangedRows, now: i64) -> Vec<Arc<Segment>> {
        let mut keys = self.keys.lock();
        let mut rows = self.rows.write();
        rows.changed = now;
        let mut removed: HashMap<u64, Vec<u32>> = changed.removed.into_iter().collect();
        let mut gone = Vec::new();
        for life in rows.segments.iter_mut().filter(|life| life.to.is_none()) {
            if let Some(removed) = removed.remove(&life.id) {
                life.remove(removed, now);
                gone.extend(life.to.map(|_| life.id));
            }
        }
        let mut id = first;
        let mut begun = Vec::with_capacity(changed.rows.len());
        for segment in changed.rows {
            begun.push((id, segment.rows()));
            rows.segments.push(Life::begun(id, Arc::new(segment), now));
            id += 1;
        }
        if let Some(index) = &mut *keys {
            index.settle(&begun, &gone);
        }
        let entries = changed.log.into_iter().map(Arc::new).collect();
        let log = rows.log.get_or_insert_default();
        log.add(id, entries, changed.earlier)
    }

    /// Forgets that rows were changed by key, and the numbers of the changes.
    pub(super) fn forget_changes(&self) -> Vec<Arc<Segment>> {
        let mut keys = self.keys.lock();
        *keys = None;
        let log = self.rows.write().log.take();
        log.iter().flat_map(Log::segments).cloned().collect()
    }

    /// Ends the life of the segments that `gone` picks.
    pub(super) fn retire(&self, gone: &dyn Fn(&Segment) -> bool, now: i64) {
        let mut rows = self.rows.write();
        rows.changed = now;
        for life in &mut rows.segments {
            if life.to.is_none() && gone(&life.segment) {
                life.to = Some(now);
            }
        }
    }

    /// What [`Mutation::Rewrite`](super::Mutation::Rewrite) calls segments of a
    /// snapshot of this moment; `None` when one is not live any more, or was put
    /// together with others.
    pub fn live_ids(&self, segments: &[Arc<Segment>]) -> Option<Vec<u64>> {
        let rows = self.rows.read();
        let live: HashMap<*const Segment, u64> = rows
            .segments
            .iter()
            .filter(|life| life.to.is_none())
            .map(|life| (Arc::as_ptr(life.left()), life.id))
            .collect();
        segments
            .iter()
            .map(|segment| live.get(&Arc::as_ptr(segment)).copied())
            .collect()
    }

    /// Ends the life of a segment and puts others, with ids from `first` on, in its
    /// place.
    pub(super) fn rewrite(&self, gone: u64, first: u64, by: Vec<Arc<Segment>>, now: i64) {
        let mut rows = self.rows.write();
        let place = rows
            .segments
            .iter()
            .position(|life| life.id == gone && life.to.is_none());
        // Whoever made the change has seen it live under the writer's lock.
        let Some(place) = place else { return };
        rows.changed = now;
        rows.segments[place].to = Some(now);
        let lives: Vec<Life> = (first..)
            .zip(by)
            .map(|(id, segment)| Life::begun(id, segment, now))
            .collect();
        rows.segments.splice(place + 1..place + 1, lives);
    }

    /// Every segment, whenever it was live, and those of the log.
    pub(super) fn segments(&self) -> Vec<Arc<Segment>> {
        let rows = self.rows.read();
        let log = rows.log.iter().flat_map(Log::segments);
        rows.segments
            .iter()
            .map(|life| &life.segment)
            .chain(log)
            .cloned()
            .collect()
    }

    /// Whether [`Self::forget_before`] would forget anything.
    pub(super) fn remembers_before(&self, horizon: i64) -> bool {
        let rows = self.rows.read();
        rows.segments
            .iter()
            .any(|life| life.to.is_some_and(|to| to <= horizon))
    }

    /// Forgets what nobody can read any more, segments that were gone at `horizon`
    /// already, and answers them.
    pub(super) fn forget_before(&self, horizon: i64) -> Vec<Arc<Segment>> {
        let mut rows = self.rows.write();
        let (gone, kept) = std::mem::take(&mut rows.segments)
            .into_iter()
            .partition(|life| life.to.is_some_and(|to| to <= horizon));
        rows.segments = kept;
        segments_of(gone)
    }

    /// Whether all these segments are live.
    pub(super) fn has_live(&self, ids: &[u64]) -> bool {
        self.rows.read().run(ids).is_some()
    }

    /// Puts one segment in the place of live ones that follow each other, and
    /// answers those; does nothing when they are not there any more.
    pub(super) fn compact(&self, ids: &[u64], id: u64, segment: Arc<Segment>) -> Vec<Arc<Segment>> {
        let mut keys = self.keys.lock();
        let mut rows = self.rows.write();
        // Whoever made the change has seen the run live under the writer's lock.
        // A segment that was never in the state is not released from it.
        let Some(run) = rows.run(ids) else {
            return Vec::new();
        };
        let at = run.start;
        let gone: Vec<Life> = rows.segments.drain(run).collect();
        let life = Life::together(id, segment, &gone);
        rows.segments.insert(at, life);
        if let Some(index) = &mut *keys {
            let parts: Vec<_> = gone.iter().map(|l| (l.id, l.segment.rows())).collect();
            index.merged(&parts, id);
        }
        segments_of(gone)
    }

    /// Runs of small live segments that follow each other.
    pub(super) fn small_runs(&self) -> Vec<SmallRun> {
        let rows = self.rows.read();
        let mut runs = RunFinder::default();
        let mut schema = 0;
        for life in &rows.segments {
            let written = life.parts.last().map_or(0, |(from, _)| *from);
            let under = rows.schemas.partition_point(|(from, _)| *from <= written);
            if under != schema {
                runs.end();
                schema = under;
            }
            match life.to {
                None => runs.add(life.id, &life.segment),
                Some(_) => runs.end(),
            }
        }
        runs.finish()
    }

    /// The table in the form in which it is written.
    pub(super) fn image(
        &self,
        store: &dyn Fn(&Arc<Segment>) -> Result<StoredSegment>,
    ) -> Result<TableImage> {
        let rows = self.rows.read();
        Ok(TableImage {
            reference: self.reference.clone(),
            incarnation: self.incarnation,
            meta: TableMeta::clone(&self.meta()),
            changed: rows.changed,
            schemas: rows
                .schemas
                .iter()
                .map(|(from, schema)| (*from, TableSchema::clone(schema)))
                .collect(),
            lives: rows
                .segments
                .iter()
                .map(|life| Ok(life.image(store(&life.segment)?)))
                .collect::<Result<_>>()?,
            log: rows.log.as_ref().map(|log| log.image(store)).transpose()?,
        })
    }

    /// The table of an image.
    pub(super) fn from_image(
        image: TableImage,
        load: &mut dyn FnMut(&StoredSegment) -> Result<Segment>,
    ) -> Result<Self> {
        let mut schemas: Vec<(i64, Arc<TableSchema>)> = image
            .schemas
            .into_iter()
            .map(|(from, schema)| (from, Arc::new(schema)))
            .collect();
        if schemas.is_empty() {
            schemas.push((image.changed, Arc::clone(&image.meta.schema)));
        }
        let segments = image
            .lives
            .into_iter()
            .map(|life| Life::from_image(life, load))
            .collect::<Result<_>>()?;
        let log = image
            .log
            .map(|log| Log::from_image(log, load))
            .transpose()?;
        Ok(Self {
            reference: image.reference,
            incarnation: image.incarnation,
            meta: RwLock::new(Arc::new(image.meta)),
            rows: RwLock::new(Versions {
                segments,
                schemas,
                changed: image.changed,
                log,
            }),
            keys: Mutex::default(),
        })
    }
}

impl Versions {
    /// Where live segments of these ids follow each other.
    fn run(&self, ids: &[u64]) -> Option<std::ops::Range<usize>> {
        let first = ids.first()?;
        let start = self.segments.iter().position(|life| life.id == *first)?;
        let end = start.checked_add(ids.len())?;
        let found = self.segments.get(start..end)?;
        found
            .iter()
            .zip(ids)
            .all(|(life, id)| life.id == *id && life.to.is_none())
            .then_some(start..end)
    }
}

fn segments_of(lives: Vec<Life>) -> Vec<Arc<Segment>> {
    lives.into_iter().map(|life| life.segment).collect()
}
