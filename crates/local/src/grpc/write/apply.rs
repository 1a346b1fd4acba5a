//! Rows of one request into their table, or into the stream that holds them back.

use arrow::array::RecordBatch;
use tonic::Status;

use super::errors::{failed, finalized, keyless, masked, recreated, wrong_offset};
use super::name::{Name, live, native_table};
use super::streams::change;
use crate::store::{Changes, Mutation, Segment, Store, StreamKind, StreamMeta, micros_now};

/// Where rows go.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// The stream as the client calls it.
    pub(super) stream: &'a str,
    pub(super) name: &'a Name,
    /// The table that the connection began to write to.
    pub(super) incarnation: u64,
    /// Position at which the rows must start.
    pub(super) offset: Option<i64>,
}

/// Why rows were not written.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// The call goes on.
    Refused(Status),
    /// The call ends.
    Ended(Status),
}

/// Writes the rows, all or none, and answers the position of the first in an
/// application-created stream.
pub(super) fn append(
    store: &Store,
    target: &Target<'_>,
    batch: RecordBatch,
) -> Result<Option<i64>, Unwritten> {
    let ended = Unwritten::Ended;
    let partition = store
        .read(|state| state.table(target.name.table()).map(|table| table.meta()))
        .ok_or_else(|| ended(masked("TABLES_GET", target.name.table())))?
        .ingestion_partition(micros_now());
    let rows = i64::try_from(batch.num_rows()).unwrap_or(i64::MAX);
    let segments = if rows == 0 {
        Vec::new()
    } else {
        store
            .stage(vec![Segment::in_memory(vec![batch], partition)])
            .map_err(|e| ended(failed(&e)))?
    };
    let done = change(store, |state| {
        let mutations = match check(state, target) {
            Ok(None) if segments.is_empty() => Vec::new(),
            Ok(None) => vec![Mutation::Append(target.name.table().clone(), segments)],
            Ok(Some(_)) if segments.is_empty() => Vec::new(),
            Ok(Some(meta)) => {
                let end = meta.end + rows;
                let visible = match meta.kind {
                    StreamKind::Committed => end,
                    StreamKind::Buffered | StreamKind::Pending => meta.visible,
                };
                let held = state.stream(target.stream).map_or(0, |s| s.held().len());
                let put = StreamMeta {
                    end,
                    visible,
                    ..meta.clone()
                };
                let put = Mutation::PutStream(target.stream.to_string(), put);
                let rows = match meta.kind {
                    StreamKind::Committed => {
                        Mutation::Append(target.name.table().clone(), segments)
                    }
                    StreamKind::Buffered | StreamKind::Pending => {
                        Mutation::SpliceStream(target.stream.to_string(), held, 0, segments)
                    }
                };
                let offset = Some(meta.end);
                return Ok((vec![rows, put], Ok(offset)));
            }
            Err(e) => return Ok((Vec::new(), Err(e))),
        };
        let offset = check(state, target).map(|meta| meta.map(|meta| meta.end));
        Ok((mutations, offset))
    });
    done.map_err(ended)?
}

/// Changes rows by their keys, all or none.
pub(super) fn apply_changes(
    store: &Store,
    target: &Target<'_>,
    changes: &Changes,
) -> Result<(), Unwritten> {
    let done = change(store, |state| {
        if let Err(e) = check(state, target) {
            return Ok((Vec::new(), Err(e)));
        }
        let table = native_table(state, target.name.table(), "TABLES_GET")?;
        let meta = table.meta();
        if meta.primary_key.is_empty() {
            return Ok((Vec::new(), Err(Unwritten::Refused(keyless(target.stream)))));
        }
        let now = micros_now();
        let changed = table
            .changes(changes, meta.ingestion_partition(now), now)
            .map_err(|e| failed(&e))?;
        Ok((changed.into_iter().collect(), Ok(())))
    });
    done.map_err(Unwritten::Ended)?
}

/// The stream, if rows may be appended to it now: `None` for the default stream.
pub(super) fn check(
    state: &crate::store::State,
    target: &Target<'_>,
) -> Result<Option<StreamMeta>, Unwritten> {
    let reference = target.name.table();
    let table = native_table(state, reference, "TABLES_GET").map_err(Unwritten::Ended)?;
    if table.incarnation() != target.incarnation {
        return Err(Unwritten::Ended(recreated(reference, target.stream)));
    }
    if let Name::Default(_) = target.name {
        return match target.offset {
            None => Ok(None),
            Some(_) => Err(Unwritten::Refused(Status::invalid_argument(format!(
                "Offset must not be set for the default stream. Entity: {}",
                target.stream
            )))),
        };
    }
    let stream = live(state, target.stream, &table).map_err(Unwritten::Ended)?;
    let meta = stream.meta();
    if meta.finalized {
        return Err(Unwritten::Ended(finalized(target.stream)));
    }
    match target.offset {
        Some(offset) if offset != meta.end => Err(Unwritten::Refused(wrong_offset(
            meta.end,
            offset,
            target.stream,
        ))),
        _ => Ok(Some(meta.clone())),
    }
}
