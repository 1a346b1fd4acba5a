//! Changes by key, as change data capture writes them.
//!
//! A change replaces or deletes the rows of its key. Rows are not rewritten for that:
//! new ones are appended, and those that they replace are marked as removed in their
//! segments ([`Life::remove`](super::life::Life::remove)), so that a change costs what
//! it brings and the past can still be read. [`KeyIndex`] knows where the rows of each
//! key are. It is in memory only, is made of what is stored when the first change comes,
//! and follows what else happens to the table.
//!
//! What decides between changes must outlive the rows: the greatest sequence number of
//! each key, also of one that was deleted. It is kept in a [log](Log) beside the rows,
//! which has an entry for each change that won and had a number. Once most entries are
//! of the past, the log is written anew with the present ones.

mod index;

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::disk::{LogImage, StoredSegment};
use super::segment::Segment;
use crate::error::{Result, ServiceError};

pub(super) use self::index::KeyIndex;

/// How long the number of a deleted key is remembered: an older change that comes later
/// than this brings the row back.
///
/// Source: BigQuery's documentation of change data capture, "Limitations".
const TOMBSTONE_MICROS: i64 = 2 * 24 * 3600 * 1_000_000;

/// The place of a change among those of its key, comparable as bytes; empty without a
/// sequence number, which is less than any.
pub type Sequence = Box<[u8]>;

/// Changes of rows by their keys, in the order in which they came.
#[derive(Debug)]
pub struct Changes {
    /// The Arrow form of the table's columns.
    pub schema: SchemaRef,
    /// The values of each column; of deleted rows only those of the key matter.
    pub columns: Vec<ArrayRef>,
    /// For each change whether it deletes its key's row.
    pub deleted: Vec<bool>,
    /// For each change its place.
    pub sequences: Vec<Sequence>,
}

/// What changes do to a table, once it was decided which of them win.
#[derive(Debug)]
pub struct ChangedRows {
    /// Rows that go, by segment.
    pub(super) removed: Vec<(u64, Vec<u32>)>,
    /// Rows that come.
    pub(super) rows: Vec<Segment>,
    /// Entries of the log.
    pub(super) log: Vec<Segment>,
    /// What happens to the entries that are there.
    pub(super) earlier: Earlier,
}

/// What happens to earlier entries of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Earlier {
    Kept,
    /// The new entries say all.
    Replaced,
}

/// The numbers of changes that won, in the order of their commits. A table that has one
/// was changed by key.
#[derive(Debug, Default)]
pub(super) struct Log {
    parts: Vec<(u64, Arc<Segment>)>,
}

const SEQUENCE: &str = "_CHANGE_SEQUENCE_NUMBER";
const DELETED: &str = "_CHANGE_TYPE";
const AT: &str = "_CHANGE_TIMESTAMP";

impl Log {
    /// Adds entries and answers those that are not needed any more.
    pub(super) fn add(
        &mut self,
        first: u64,
        segments: Vec<Arc<Segment>>,
        earlier: Earlier,
    ) -> Vec<Arc<Segment>> {
        let gone = match earlier {
            Earlier::Kept => Vec::new(),
            Earlier::Replaced => std::mem::take(&mut self.parts),
        };
        for (id, segment) in (first..).zip(segments) {
            segment.adopt();
            self.parts.push((id, segment));
        }
        gone.into_iter().map(|(_, segment)| segment).collect()
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.parts.iter().map(|(_, segment)| segment)
    }

    pub(super) fn entries(&self) -> usize {
        self.segments().map(|segment| segment.rows()).sum()
    }

    /// The form in which it is written.
    pub(super) fn image(
        &self,
        store: &dyn Fn(&Arc<Segment>) -> Result<StoredSegment>,
    ) -> Result<LogImage> {
        let parts = self.parts.iter();
        parts
            .map(|(id, segment)| Ok((*id, store(segment)?)))
            .collect::<Result<_>>()
            .map(LogImage)
    }

    /// The log of an image.
    pub(super) fn from_image(
        image: LogImage,
        load: &mut dyn FnMut(&StoredSegment) -> Result<Segment>,
    ) -> Result<Self> {
        let mut parts = Vec::with_capacity(image.0.len());
        for (id, stored) in image.0 {
            let segment = Arc::new(load(&stored)?);
            segment.adopt();
            parts.push((id, segment));
        }
        Ok(Self { parts })
    }
}

/// The columns of a log: those of the key, and what is known of it.
fn log_schema(key: &Schema) -> SchemaRef {
    let mut fields: Vec<Field> = key.fields().iter().map(|f| f.as_ref().clone()).collect();
    fields.push(Field::new(SEQUENCE, DataType::Binary, false));
    fields.push(Field::new(DELETED, DataType::Boolean, false));
    fields.push(Field::new(AT, DataType::Int64, false));
    Arc::new(Schema::new(fields))
}

/// Entries of a log.
fn log_segment(
    key: &Schema,
    mut keys: Vec<ArrayRef>,
    sequences: &[&[u8]],
    deleted: Vec<bool>,
    at: Vec<i64>,
) -> Result<Segment> {
    keys.push(Arc::new(BinaryArray::from_iter_values(sequences)));
    keys.push(Arc::new(BooleanArray::from(deleted)));
    keys.push(Arc::new(Int64Array::from(at)));
    let batch = RecordBatch::try_new(log_schema(key), keys).map_err(unfit)?;
    Ok(Segment::in_memory(vec![batch], None))
}

fn unfit(error: arrow::error::ArrowError) -> ServiceError {
    ServiceError::internal(format!("changes do not fit their table: {error}"))
}

#[cfg(test)]
mod tests;
