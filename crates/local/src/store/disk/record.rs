//! What is written: changes in the journal, whole states in images.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::file::{DataFile, FileSlice};
use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;
use crate::store::capture::{ChangedRows, Earlier};
use crate::store::dataset::Dataset;
use crate::store::job_record::JobRecord;
use crate::store::mutation::Mutation;
use crate::store::reference::{DatasetRef, JobRef, TableRef};
use crate::store::routine::{Routine, RoutineRef};
use crate::store::segment::{Content, Segment};
use crate::store::table::TableMeta;
use crate::store::write_stream::StreamMeta;

/// One change.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// Its commit time.
    pub(super) time: i64,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Step {
    PutDataset(DatasetRef, Dataset),
    DropDataset(DatasetRef),
    PutTable(TableRef, Box<TableMeta>),
    DropTable(TableRef),
    Append(TableRef, Vec<StoredSegment>),
    Replace(TableRef, Vec<StoredSegment>),
    ReplacePartitions(TableRef, Vec<i64>, Vec<StoredSegment>),
    Rewrite(TableRef, Vec<(u64, Vec<StoredSegment>)>),
    Change(TableRef, StoredChange),
    ForgetChanges(TableRef),
    Forget(TableRef, i64),
    Compact(TableRef, Vec<u64>, StoredSegment),
    PutRoutine(RoutineRef, Box<Routine>),
    DropRoutine(RoutineRef),
    PutJob(JobRef, JobRecord),
    DropJob(JobRef),
    PutStream(String, StreamMeta),
    SpliceStream(String, usize, usize, Vec<StoredSegment>),
    DropStream(String),
}

/// A change of rows by key.
#[derive(Debug, Serialize, Deserialize)]
struct StoredChange {
    removed: Vec<(u64, Vec<u32>)>,
    rows: Vec<StoredSegment>,
    log: Vec<StoredSegment>,
    earlier: Earlier,
}

/// A segment without its rows.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::store) struct StoredSegment {
    rows: usize,
    bytes: usize,
    logical_bytes: u64,
    /// Not there in directories of before it was kept.
    #[serde(default)]
    columns: Vec<(String, u64)>,
    partition: Option<i64>,
    place: Place,
}

/// Where a segment's Arrow IPC stream is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Place {
    /// In the record, after its JSON.
    Record { offset: usize, length: usize },
    /// In a data file.
    File { file: u64, offset: u64, length: u64 },
}

/// Everything that a state is.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::store) struct Image {
    /// Commit time of the newest change.
    pub(in crate::store) last_commit: i64,
    pub(in crate::store) incarnations: u64,
    pub(in crate::store) segments: u64,
    pub(in crate::store) datasets: Vec<(DatasetRef, Dataset)>,
    pub(in crate::store) tables: Vec<TableImage>,
    /// Not there in directories of before they were kept.
    #[serde(default)]
    pub(in crate::store) routines: Vec<(RoutineRef, Routine)>,
    /// Oldest first. Not there in directories of before they were kept.
    #[serde(default)]
    pub(in crate::store) jobs: Vec<(JobRef, JobRecord)>,
    #[serde(default)]
    pub(in crate::store) streams: Vec<StreamImage>,
}

/// One write stream of an [`Image`].
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::store) struct StreamImage {
    pub(in crate::store) name: String,
    pub(in crate::store) meta: StreamMeta,
    pub(in crate::store) held: Vec<StoredSegment>,
}

/// One table of an [`Image`].
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::store) struct TableImage {
    pub(in crate::store) reference: TableRef,
    pub(in crate::store) incarnation: u64,
    pub(in crate::store) meta: TableMeta,
    pub(in crate::store) changed: i64,
    pub(in crate::store) schemas: Vec<(i64, TableSchema)>,
    pub(in crate::store) lives: Vec<LifeImage>,
    /// There once rows were changed by key.
    #[serde(default)]
    pub(in crate::store) log: Option<LogImage>,
}

/// What is known of the order of changes by key: segments and their ids.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::store) struct LogImage(pub(in crate::store) Vec<(u64, StoredSegment)>);

/// One segment of a [`TableImage`] and when it was live.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::store) struct LifeImage {
    pub(in crate::store) id: u64,
    pub(in crate::store) parts: Vec<(i64, usize)>,
    pub(in crate::store) to: Option<i64>,
    /// Rows that were removed one by one, with commit times.
    #[serde(default)]
    pub(in crate::store) removed: Vec<(i64, Vec<u32>)>,
    pub(in crate::store) segment: StoredSegment,
}

/// The payload of a change: the length of its JSON, its JSON, the rows of its
/// small segments.
pub(super) fn encode(time: i64, mutations: &[Mutation]) -> Result<Vec<u8>> {
    let mut rows = Vec::new();
    let steps = mutations
        .iter()
        .map(|mutation| step(mutation, &mut rows))
        .collect::<Result<_>>()?;
    let json = serde_json::to_vec(&Record { time, steps })
        .map_err(|e| ServiceError::internal(format!("a change cannot be recorded: {e}")))?;
    let mut out = Vec::with_capacity(8 + json.len() + rows.len());
    out.extend_from_slice(&(json.len() as u64).to_le_bytes());
    out.extend_from_slice(&json);
    out.extend_from_slice(&rows);
    Ok(out)
}

fn step(mutation: &Mutation, rows: &mut Vec<u8>) -> Result<Step> {
    let mut stored = |segments: &[Segment]| -> Result<Vec<StoredSegment>> {
        segments
            .iter()
            .map(|s| StoredSegment::of(s, rows))
            .collect()
    };
    Ok(match mutation {
        Mutation::PutDataset(reference, dataset) => {
            Step::PutDataset(reference.clone(), dataset.clone())
        }
        Mutation::DropDataset(reference) => Step::DropDataset(reference.clone()),
        Mutation::PutTable(reference, meta) => Step::PutTable(reference.clone(), meta.clone()),
        Mutation::DropTable(reference) => Step::DropTable(reference.clone()),
        Mutation::Append(reference, segments) => Step::Append(reference.clone(), stored(segments)?),
        Mutation::Replace(reference, segments) => {
            Step::Replace(reference.clone(), stored(segments)?)
        }
        Mutation::ReplacePartitions(reference, partitions, segments) => {
            Step::ReplacePartitions(reference.clone(), partitions.clone(), stored(segments)?)
        }
        Mutation::Rewrite(reference, parts) => Step::Rewrite(
            reference.clone(),
            parts
                .iter()
                .map(|(gone, segments)| Ok((*gone, stored(segments)?)))
                .collect::<Result<_>>()?,
        ),
        Mutation::Change(reference, changed) => Step::Change(
            reference.clone(),
            StoredChange {
                removed: changed.removed.clone(),
                rows: stored(&changed.rows)?,
                log: stored(&changed.log)?,
                earlier: changed.earlier,
            },
        ),
        Mutation::ForgetChanges(reference) => Step::ForgetChanges(reference.clone()),
        Mutation::Forget(reference, horizon) => Step::Forget(reference.clone(), *horizon),
        Mutation::Compact(reference, gone, segment) => Step::Compact(
            reference.clone(),
            gone.clone(),
            StoredSegment::of(segment, rows)?,
        ),
        Mutation::PutRoutine(reference, routine) => {
            Step::PutRoutine(reference.clone(), routine.clone())
        }
        Mutation::DropRoutine(reference) => Step::DropRoutine(reference.clone()),
        Mutation::PutJob(reference, record) => Step::PutJob(reference.clone(), record.clone()),
        Mutation::DropJob(reference) => Step::DropJob(reference.clone()),
        Mutation::PutStream(name, meta) => Step::PutStream(name.clone(), meta.clone()),
        Mutation::SpliceStream(name, at, gone, segments) => {
            Step::SpliceStream(name.clone(), *at, *gone, stored(segments)?)
        }
        Mutation::DropStream(name) => Step::DropStream(name.clone()),
    })
}

impl StoredSegment {
    /// Describes a segment; one that is in no file has its rows put into `rows`.
    pub(super) fn of(segment: &Segment, rows: &mut Vec<u8>) -> Result<Self> {
        let place = match segment.content() {
            Content::File(slice) => Place::File {
                file: slice.file.number(),
                offset: slice.offset,
                length: slice.length,
            },
            Content::Encoded(bytes) => {
                let offset = rows.len();
                rows.extend_from_slice(&bytes);
                Place::Record {
                    offset,
                    length: bytes.len(),
                }
            }
            Content::Batches(_) => {
                return Err(ServiceError::internal(
                    "rows were not encoded before their change",
                ));
            }
        };
        Ok(Self {
            rows: segment.rows(),
            bytes: segment.bytes(),
            logical_bytes: segment.logical_bytes(),
            columns: segment.all_column_bytes().to_vec(),
            partition: segment.partition(),
            place,
        })
    }

    /// Describes a segment whose rows are at `slice`.
    pub(super) fn at(segment: &Segment, slice: &FileSlice) -> Self {
        Self {
            rows: segment.rows(),
            bytes: segment.bytes(),
            logical_bytes: segment.logical_bytes(),
            columns: segment.all_column_bytes().to_vec(),
            partition: segment.partition(),
            place: Place::File {
                file: slice.file.number(),
                offset: slice.offset,
                length: slice.length,
            },
        }
    }
}

/// The data files that a state names, each once.
#[derive(Debug)]
pub(super) struct Files<'a> {
    directory: &'a Path,
    known: HashMap<u64, Arc<DataFile>>,
}

impl<'a> Files<'a> {
    pub(super) fn new(directory: &'a Path) -> Self {
        Self {
            directory,
            known: HashMap::new(),
        }
    }

    fn get(&mut self, number: u64) -> Arc<DataFile> {
        let directory = self.directory;
        Arc::clone(self.known.entry(number).or_insert_with(|| {
            let file = DataFile::new(number, directory.join(super::file_name(number)));
            // Not to be deleted before the whole state is known.
            file.keep();
            Arc::new(file)
        }))
    }

    /// Every file that was named.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<DataFile>> {
        self.known.values()
    }

    /// The segment of a description; `rows` are those of the record it is in.
    pub(super) fn segment(&mut self, stored: &StoredSegment, rows: &Bytes) -> Result<Segment> {
        let content = match stored.place {
            Place::Record { offset, length } => {
                let end = offset.checked_add(length).filter(|end| *end <= rows.len());
                let end = end.ok_or_else(|| {
                    ServiceError::internal("a change in the journal names rows that it lacks")
                })?;
                Content::Encoded(rows.slice(offset..end))
            }
            Place::File {
                file,
                offset,
                length,
            } => Content::File(FileSlice {
                file: self.get(file),
                offset,
                length,
            }),
        };
        Ok(Segment::recorded(
            stored.rows,
            stored.bytes,
            stored.logical_bytes,
            stored.columns.clone(),
            stored.partition,
            content,
        ))
    }

    /// Reads the payload of a change.
    pub(super) fn decode(&mut self, payload: &Bytes) -> Result<(i64, Vec<Mutation>)> {
        let bad = |why: String| ServiceError::internal(format!("a change in the journal: {why}"));
        let length = payload
            .get(..8)
            .and_then(|b| b.try_into().ok())
            .and_then(|b| usize::try_from(u64::from_le_bytes(b)).ok())
            .filter(|n| n.checked_add(8).is_some_and(|end| end <= payload.len()))
            .ok_or_else(|| bad("its length is wrong".into()))?;
        let record: Record =
            serde_json::from_slice(&payload[8..8 + length]).map_err(|e| bad(e.to_string()))?;
        let rows = payload.slice(8 + length..);
        let mutations = record
            .steps
            .into_iter()
            .map(|step| self.mutation(step, &rows))
            .collect::<Result<_>>()?;
        Ok((record.time, mutations))
    }

    fn mutation(&mut self, step: Step, rows: &Bytes) -> Result<Mutation> {
        let mut segments = |stored: Vec<StoredSegment>| -> Result<Vec<Segment>> {
            stored.iter().map(|s| self.segment(s, rows)).collect()
        };
        Ok(match step {
            Step::PutDataset(reference, dataset) => Mutation::PutDataset(reference, dataset),
            Step::DropDataset(reference) => Mutation::DropDataset(reference),
            Step::PutTable(reference, meta) => Mutation::PutTable(reference, meta),
            Step::DropTable(reference) => Mutation::DropTable(reference),
            Step::Append(reference, stored) => Mutation::Append(reference, segments(stored)?),
            Step::Replace(reference, stored) => Mutation::Replace(reference, segments(stored)?),
            Step::ReplacePartitions(reference, partitions, stored) => {
                Mutation::ReplacePartitions(reference, partitions, segments(stored)?)
            }
            Step::Rewrite(reference, parts) => Mutation::Rewrite(
                reference,
                parts
                    .into_iter()
                    .map(|(gone, stored)| Ok((gone, segments(stored)?)))
                    .collect::<Result<_>>()?,
            ),
            Step::Change(reference, stored) => {
                let changed = ChangedRows {
                    removed: stored.removed,
                    rows: segments(stored.rows)?,
                    log: segments(stored.log)?,
                    earlier: stored.earlier,
                };
                Mutation::Change(reference, Box::new(changed))
            }
            Step::ForgetChanges(reference) => Mutation::ForgetChanges(reference),
            Step::Forget(reference, horizon) => Mutation::Forget(reference, horizon),
            Step::Compact(reference, gone, stored) => {
                Mutation::Compact(reference, gone, self.segment(&stored, rows)?)
            }
            Step::PutRoutine(reference, routine) => Mutation::PutRoutine(reference, routine),
            Step::DropRoutine(reference) => Mutation::DropRoutine(reference),
            Step::PutJob(reference, record) => Mutation::PutJob(reference, record),
            Step::DropJob(reference) => Mutation::DropJob(reference),
            Step::PutStream(name, meta) => Mutation::PutStream(name, meta),
            Step::SpliceStream(name, at, gone, stored) => {
                Mutation::SpliceStream(name, at, gone, segments(stored)?)
            }
            Step::DropStream(name) => Mutation::DropStream(name),
        })
    }
}
