//! A table: metadata, and rows in segments with the interval in which each was live.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::dataset::{Dataset, fresh_etag};
use super::reference::TableRef;
use super::segment::Segment;
use crate::error::Result;
use crate::schema::{TableSchema, adapt_batch, arrow_schema};

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

impl TableMeta {
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

/// A segment and when it was live, in commit times (microseconds since the epoch).
#[derive(Debug, Clone)]
struct Life {
    segment: Arc<Segment>,
    from: i64,
    /// First commit time at which the segment is gone; `None` while live.
    to: Option<i64>,
}

#[derive(Debug)]
struct Rows {
    segments: Vec<Life>,
    /// The schema and the commit time from which it held, oldest first.
    schemas: Vec<(i64, Arc<TableSchema>)>,
    /// Commit time of the newest change of rows or schema.
    changed: i64,
}

/// A table. Metadata is replaced as a whole; rows change by whole segments.
#[derive(Debug)]
pub struct Table {
    reference: TableRef,
    /// Tells a table from another that had the same name before.
    incarnation: u64,
    meta: RwLock<Arc<TableMeta>>,
    rows: RwLock<Rows>,
}

impl Table {
    /// An empty table created at commit time `now`.
    pub(super) fn new(reference: TableRef, incarnation: u64, meta: TableMeta, now: i64) -> Self {
        let schemas = vec![(now, Arc::clone(&meta.schema))];
        Self {
            reference,
            incarnation,
            meta: RwLock::new(Arc::new(meta)),
            rows: RwLock::new(Rows {
                segments: Vec::new(),
                schemas,
                changed: now,
            }),
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
            .filter(|life| life.from <= time && life.to.is_none_or(|to| to > time))
            .map(|life| Arc::clone(&life.segment))
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

    pub(super) fn append(&self, segments: Vec<Arc<Segment>>, now: i64) {
        let mut rows = self.rows.write();
        rows.changed = now;
        rows.segments
            .extend(segments.into_iter().map(|segment| Life {
                segment,
                from: now,
                to: None,
            }));
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

    /// Forgets what nobody can read any more: segments retired before `horizon`.
    pub(super) fn forget_before(&self, horizon: i64) {
        self.rows
            .write()
            .segments
            .retain(|life| life.to.is_none_or(|to| to > horizon));
    }
}

/// Rows and schema of one table at one instant. Cheap to clone and to keep: it
/// holds the segments alive whatever happens to the table.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// BigQuery schema.
    pub schema: Arc<TableSchema>,
    /// Its Arrow form.
    pub arrow: SchemaRef,
    /// Live segments in order of arrival.
    pub segments: Vec<Arc<Segment>>,
    /// The table's `changed` when the snapshot was taken.
    pub version: i64,
    /// The instant that the snapshot shows: [`Table::snapshot_at`] takes it again.
    pub time: i64,
}

impl Snapshot {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.segments.iter().map(|s| s.rows()).sum()
    }

    /// Size of the rows' Arrow buffers in bytes.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|s| s.bytes()).sum()
    }

    /// Size of the rows as the service counts it for `numBytes`.
    pub fn logical_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.logical_bytes()).sum()
    }

    /// All rows under this snapshot's schema.
    pub fn batches(&self) -> Result<Vec<RecordBatch>> {
        let mut out = Vec::new();
        for segment in &self.segments {
            for batch in segment.batches()? {
                out.push(adapt_batch(&batch, &self.arrow)?);
            }
        }
        Ok(out)
    }
}
