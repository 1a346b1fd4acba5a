//! A run of rows that never changes once written.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use parking_lot::RwLock;

use super::disk::{FileReader, FileSlice, blocking};
use super::zones::{Zone, Zones};
use crate::error::{Result, ServiceError};
use crate::schema::column_bytes;

/// Immutable rows of one table, all written by one change under one schema.
#[derive(Debug)]
pub struct Segment {
    rows: usize,
    bytes: usize,
    logical_bytes: u64,
    /// The same for each column, by name; nothing in records that lack it.
    columns: Arc<[(String, u64)]>,
    /// Start of the ingestion-time partition that the rows belong to, in
    /// microseconds since the epoch; `None` for other tables.
    partition: Option<i64>,
    /// Which of the first rows are meant; `None` for `rows` of them, all.
    kept: Option<BooleanBuffer>,
    /// Holds at least as many rows as are meant or passed over, which are the first.
    content: Arc<RwLock<Content>>,
    /// Of the batches in memory, while they are there.
    zones: Arc<Zones>,
}

/// Where rows are.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// In memory.
    Batches(Vec<RecordBatch>),
    /// In the journal, and in memory as an Arrow IPC stream until the journal is
    /// next rewritten.
    Encoded(Bytes),
    /// In a file, as an Arrow IPC stream.
    File(FileSlice),
}

impl Segment {
    /// Rows held in memory.
    pub fn in_memory(batches: Vec<RecordBatch>, partition: Option<i64>) -> Self {
        let columns = column_bytes(&batches);
        Self {
            rows: batches.iter().map(RecordBatch::num_rows).sum(),
            bytes: batches.iter().map(RecordBatch::get_array_memory_size).sum(),
            logical_bytes: columns.iter().map(|(_, bytes)| bytes).sum(),
            columns: columns.into(),
            partition,
            kept: None,
            content: Arc::new(RwLock::new(Content::Batches(batches))),
            zones: Arc::default(),
        }
    }

    /// Rows as they were recorded.
    pub(super) fn recorded(
        rows: usize,
        bytes: usize,
        logical_bytes: u64,
        columns: Vec<(String, u64)>,
        partition: Option<i64>,
        content: Content,
    ) -> Self {
        Self {
            rows,
            bytes,
            logical_bytes,
            columns: columns.into(),
            partition,
            kept: None,
            content: Arc::new(RwLock::new(content)),
            zones: Arc::default(),
        }
    }

    /// The same rows again, for another change. They are not copied: a file can
    /// hold the rows of several segments.
    pub fn share(&self) -> Self {
        self.share_in(self.partition)
    }

    /// The same rows again, in an ingestion-time partition (its start, in
    /// microseconds since the epoch) or in none.
    pub fn share_in(&self, partition: Option<i64>) -> Self {
        Self {
            rows: self.rows,
            bytes: self.bytes,
            logical_bytes: self.logical_bytes,
            columns: Arc::clone(&self.columns),
            partition,
            kept: self.kept.clone(),
            // Of its own, because each segment of the state is moved for itself.
            content: Arc::new(RwLock::new(self.content())),
            zones: Arc::clone(&self.zones),
        }
    }

    /// The first `rows` rows of a segment of which all are meant.
    pub(super) fn prefix(&self, rows: usize) -> Self {
        self.part(rows.min(self.rows), None)
    }

    /// The rows that `kept` picks of the first ones, of a segment of which all are
    /// meant.
    pub(super) fn picked(&self, kept: BooleanBuffer) -> Self {
        self.part(kept.count_set_bits(), Some(kept))
    }

    /// Some of the rows, which are not copied.
    fn part(&self, rows: usize, kept: Option<BooleanBuffer>) -> Self {
        let share = |whole: u64| {
            u64::try_from(u128::from(whole) * rows as u128 / (self.rows.max(1)) as u128)
                .unwrap_or(whole)
        };
        Self {
            rows,
            bytes: usize::try_from(share(self.bytes as u64)).unwrap_or(self.bytes),
            logical_bytes: share(self.logical_bytes),
            columns: self
                .columns
                .iter()
                .map(|(name, bytes)| (name.clone(), share(*bytes)))
                .collect(),
            partition: self.partition,
            kept,
            content: Arc::clone(&self.content),
            zones: Arc::clone(&self.zones),
        }
    }

    /// Whether rows in between are passed over. Such a segment is not written down.
    pub(super) fn is_picked(&self) -> bool {
        self.kept.is_some()
    }

    /// The same rows in a segment of which all are meant.
    pub(super) fn whole(self) -> Result<Self> {
        if !self.is_picked() {
            return Ok(self);
        }
        Ok(Self::in_memory(self.batches()?, self.partition))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Size of the rows' Arrow buffers in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Size of the rows as the service counts it: 8 bytes for a number, 2 more than
    /// its UTF-8 for text, nothing for NULL.
    pub fn logical_bytes(&self) -> u64 {
        self.logical_bytes
    }

    /// [`Self::logical_bytes`] of one column, by its name: nothing when the rows were
    /// written without it.
    pub fn column_bytes(&self, name: &str) -> u64 {
        if self.columns.is_empty() {
            return self.logical_bytes;
        }
        let mut columns = self.columns.iter();
        let found = columns.find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map_or(0, |(_, bytes)| *bytes)
    }

    /// The logical size of each column, by name.
    pub(super) fn all_column_bytes(&self) -> &[(String, u64)] {
        &self.columns
    }

    /// See the field.
    pub fn partition(&self) -> Option<i64> {
        self.partition
    }

    /// The rows under the schema they were written with; see
    /// [`crate::schema::adapt_batch`] for giving them a later one.
    pub fn batches(&self) -> Result<Vec<RecordBatch>> {
        blocking(|| self.reader()?.collect())
    }

    /// Reads the rows batch by batch, so that rows which are in a file need never
    /// be in memory all at once.
    pub fn reader(&self) -> Result<SegmentReader> {
        if self.rows == 0 {
            return Ok(SegmentReader {
                source: Source::Batches(Vec::new().into_iter()),
                left: 0,
                columns: None,
                kept: None,
            });
        }
        let source = match &*self.content.read() {
            Content::Batches(batches) => Source::Batches(batches.clone().into_iter()),
            Content::Encoded(bytes) => Source::Encoded(
                StreamReader::try_new(Cursor::new(bytes.clone()), None).map_err(unreadable)?,
            ),
            Content::File(slice) => Source::File(slice.reader()?),
        };
        Ok(SegmentReader {
            source,
            left: self.stored_rows(),
            columns: None,
            kept: self.kept.clone(),
        })
    }

    /// Like [`Self::reader`], for the columns that `wanted` picks by their names:
    /// of those in a file, no bytes of others are read.
    pub fn columns(&self, wanted: &dyn Fn(&str) -> bool) -> Result<SegmentReader> {
        let mut reader = match &*self.content.read() {
            Content::File(slice) if self.rows > 0 => SegmentReader {
                source: Source::File(slice.columns(wanted)?),
                left: self.stored_rows(),
                columns: None,
                kept: self.kept.clone(),
            },
            _ => self.reader()?,
        };
        if !matches!(reader.source, Source::File(_)) {
            reader.columns = reader.positions(wanted);
        }
        Ok(reader)
    }

    /// What is known of the column called `name` in each batch that [`Self::reader`]
    /// answers, of values compared as `data_type`; nothing of rows that are not in memory.
    pub fn zones(&self, name: &str, data_type: &DataType) -> Option<Arc<[Zone]>> {
        match &*self.content.read() {
            Content::Batches(batches) if !self.is_picked() => {
                Some(self.zones.of(batches, name, data_type))
            }
            Content::Batches(_) | Content::Encoded(_) | Content::File(_) => None,
        }
    }

    /// Rows that have to be read to see those that are meant.
    fn stored_rows(&self) -> usize {
        self.kept.as_ref().map_or(self.rows, BooleanBuffer::len)
    }

    pub(super) fn content(&self) -> Content {
        self.content.read().clone()
    }

    /// The segment is in the state now.
    pub(super) fn adopt(&self) {
        if let Content::File(slice) = &*self.content.read() {
            slice.adopt();
        }
    }

    /// The segment is not in the state any more, durably.
    pub(super) fn release(&self) {
        if let Content::File(slice) = &*self.content.read() {
            slice.release();
        }
    }

    /// Says that the same rows are somewhere else now.
    pub(super) fn move_to(&self, content: Content) {
        *self.content.write() = content;
    }
}

fn unreadable(error: arrow::error::ArrowError) -> ServiceError {
    ServiceError::internal(format!("stored rows cannot be read: {error}"))
}

/// Writes batches as one Arrow IPC stream.
pub(super) fn encode(batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let unwritable =
        |e: arrow::error::ArrowError| ServiceError::internal(format!("rows cannot be stored: {e}"));
    if let Some(first) = batches.first() {
        let mut writer = StreamWriter::try_new(&mut out, &first.schema()).map_err(unwritable)?;
        for batch in batches {
            writer.write(batch).map_err(unwritable)?;
        }
        writer.finish().map_err(unwritable)?;
    }
    Ok(out)
}

enum Source {
    Batches(std::vec::IntoIter<RecordBatch>),
    Encoded(StreamReader<Cursor<Bytes>>),
    File(FileReader),
}

/// The batches of a segment, one after the other.
pub struct SegmentReader {
    source: Source,
    left: usize,
    /// Positions of the columns to answer; `None` for what the source has.
    columns: Option<Vec<usize>>,
    /// Which of the rows that are left are meant.
    kept: Option<BooleanBuffer>,
}

impl SegmentReader {
    /// Where the columns are in batches that have all of them.
    fn positions(&self, wanted: &dyn Fn(&str) -> bool) -> Option<Vec<usize>> {
        let schema = match &self.source {
            Source::Batches(batches) => batches.as_slice().first()?.schema(),
            Source::Encoded(reader) => reader.schema(),
            Source::File(_) => return None,
        };
        let fields = schema.fields().iter().enumerate();
        let wanted = fields.filter(|(_, field)| wanted(field.name()));
        Some(wanted.map(|(position, _)| position).collect())
    }

    /// Passes over the next batch and answers its rows, if it is in memory.
    pub fn pass_over(&mut self) -> Option<usize> {
        let Source::Batches(batches) = &mut self.source else {
            return None;
        };
        let next = batches.as_slice().first().filter(|_| self.kept.is_none())?;
        let rows = next.num_rows().min(self.left);
        self.left -= rows;
        batches.next();
        Some(rows)
    }

    /// Bytes of rows read from a file so far, of a reader of some columns.
    pub fn bytes_read(&self) -> Option<u64> {
        match &self.source {
            Source::File(reader) => reader.bytes_read(),
            Source::Batches(_) | Source::Encoded(_) => None,
        }
    }
}

impl std::fmt::Debug for SegmentReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentReader")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Iterator for SegmentReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            let batch = self.stored()?;
            let Some(kept) = &mut self.kept else {
                return Some(batch);
            };
            let batch = match batch {
                Ok(batch) => batch,
                Err(e) => return Some(Err(e)),
            };
            let of_batch = kept.slice(0, batch.num_rows());
            *kept = kept.slice(batch.num_rows(), kept.len() - batch.num_rows());
            if of_batch.count_set_bits() > 0 {
                let picked = filter_record_batch(&batch, &BooleanArray::new(of_batch, None));
                return Some(picked.map_err(unreadable));
            }
        }
    }
}

impl SegmentReader {
    /// The next rows, also those that are passed over.
    fn stored(&mut self) -> Option<Result<RecordBatch>> {
        if self.left == 0 {
            return None;
        }
        let batch = match &mut self.source {
            Source::Batches(batches) => batches.next().map(Ok),
            Source::Encoded(reader) => reader.next().map(|b| b.map_err(unreadable)),
            Source::File(reader) => blocking(|| reader.next()),
        };
        let batch = match batch {
            Some(Ok(batch)) => batch,
            Some(Err(e)) => {
                self.left = 0;
                return Some(Err(e));
            }
            None => {
                let missing = std::mem::take(&mut self.left);
                return Some(Err(ServiceError::internal(format!(
                    "stored rows cannot be read: {missing} rows are missing"
                ))));
            }
        };
        let batch = if batch.num_rows() > self.left {
            batch.slice(0, self.left)
        } else {
            batch
        };
        self.left -= batch.num_rows();
        Some(match &self.columns {
            Some(columns) => batch.project(columns).map_err(unreadable),
            None => Ok(batch),
        })
    }
}
