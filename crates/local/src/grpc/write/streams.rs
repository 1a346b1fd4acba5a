//! Everything that is asked of write streams but appending: making them, looking at
//! them, ending them, and making their rows visible.

use std::sync::Arc;

use prost_types::Timestamp;
use tonic::Status;

use super::errors::{
    already_flushed, beyond_end, detail, failed, finalized, malformed, not_found, wrong_kind,
};
use super::name::{DEFAULT_STREAM, Name, live, native_table};
use super::schema::table_schema;
use crate::grpc::proto::storage_error::StorageErrorCode;
use crate::grpc::proto::write_stream::Type;
use crate::grpc::proto::{
    BatchCommitWriteStreamsRequest, BatchCommitWriteStreamsResponse, CreateWriteStreamRequest,
    FinalizeWriteStreamRequest, FinalizeWriteStreamResponse, FlushRowsRequest, FlushRowsResponse,
    GetWriteStreamRequest, StorageError, WriteStream, WriteStreamView,
};
use crate::store::{
    Mutation, Segment, State, Store, StreamKind, StreamMeta, Table, TableRef, micros_now,
};

/// The service's limit on streams of one commit.
const MAX_COMMITTED_STREAMS: usize = 10_000;

/// CreateWriteStream.
pub(super) fn create(
    store: &Store,
    request: &CreateWriteStreamRequest,
) -> Result<WriteStream, Status> {
    let reference = TableRef::from_path(&request.parent).ok_or_else(malformed)?;
    let kind = request
        .write_stream
        .as_ref()
        .and_then(|stream| match Type::try_from(stream.r#type) {
            Ok(Type::Committed) => Some(StreamKind::Committed),
            Ok(Type::Pending) => Some(StreamKind::Pending),
            Ok(Type::Buffered) => Some(StreamKind::Buffered),
            Ok(Type::Unspecified) | Err(_) => None,
        })
        .ok_or_else(|| {
            Status::invalid_argument("write_stream.type must be COMMITTED, PENDING or BUFFERED")
        })?;
    let id = uuid::Uuid::new_v4().simple();
    let name = format!("{}/streams/{id}", request.parent);
    change(store, |state| {
        let table = native_table(state, &reference, "TABLES_UPDATE_DATA")?;
        let meta = StreamMeta {
            kind,
            table: reference.clone(),
            incarnation: table.incarnation(),
            created: micros_now(),
            end: 0,
            visible: 0,
            finalized: false,
            committed: None,
        };
        let answer = WriteStream {
            table_schema: Some(table_schema(&table.meta().schema)),
            ..describe(&name, &meta)
        };
        Ok((vec![Mutation::PutStream(name.clone(), meta)], answer))
    })
}

/// GetWriteStream.
pub(super) fn get(store: &Store, request: &GetWriteStreamRequest) -> Result<WriteStream, Status> {
    let name = Name::parse(&request.name).ok_or_else(malformed)?;
    let (table, mut answer) = store.read(|state| {
        let table = native_table(state, name.table(), "TABLES_GET")?;
        let answer = match &name {
            Name::Default(reference) => WriteStream {
                name: format!("{}/streams/{DEFAULT_STREAM}", reference.path()),
                r#type: Type::Committed.into(),
                create_time: Some(timestamp(table.created())),
                ..WriteStream::default()
            },
            Name::Created(_) => describe(&request.name, live(state, &request.name, &table)?.meta()),
        };
        Ok::<_, Status>((table, answer))
    })?;
    let meta = table.meta();
    answer.location = meta.location.to_ascii_lowercase();
    if request.view == i32::from(WriteStreamView::Full) {
        answer.table_schema = Some(table_schema(&meta.schema));
    }
    Ok(answer)
}

/// FinalizeWriteStream. Finalizing again is harmless.
pub(super) fn finalize(
    store: &Store,
    request: &FinalizeWriteStreamRequest,
) -> Result<FinalizeWriteStreamResponse, Status> {
    let Name::Created(reference) = Name::parse(&request.name).ok_or_else(malformed)? else {
        return Err(not_found(&request.name));
    };
    change(store, |state| {
        let table = native_table(state, &reference, "TABLES_UPDATE_DATA")?;
        let meta = live(state, &request.name, &table)?.meta();
        let answer = FinalizeWriteStreamResponse {
            row_count: meta.end,
        };
        if meta.finalized {
            return Ok((Vec::new(), answer));
        }
        let meta = StreamMeta {
            finalized: true,
            ..meta.clone()
        };
        let put = Mutation::PutStream(request.name.clone(), meta);
        Ok((vec![put], answer))
    })
}

/// FlushRows: rows up to an offset, inclusive, become visible.
pub(super) fn flush(
    store: &Store,
    request: &FlushRowsRequest,
) -> Result<FlushRowsResponse, Status> {
    let name = &request.write_stream;
    let Name::Created(reference) = Name::parse(name).ok_or_else(malformed)? else {
        return Err(wrong_kind(name, "FlushRows needs a BUFFERED stream."));
    };
    change(store, |state| {
        let table = native_table(state, &reference, "TABLES_UPDATE_DATA")?;
        let stream = live(state, name, &table)?;
        let meta = stream.meta();
        if meta.kind != StreamKind::Buffered {
            return Err(wrong_kind(name, "FlushRows needs a BUFFERED stream."));
        }
        if meta.finalized {
            return Err(finalized(name));
        }
        let offset = request
            .offset
            .ok_or_else(|| Status::invalid_argument("FlushRows needs an offset."))?;
        if offset < 0 {
            return Err(Status::invalid_argument(format!(
                "FlushRows needs an offset of 0 or more, not {offset}. Entity: {name}"
            )));
        }
        if offset >= meta.end {
            return Err(beyond_end(offset, name));
        }
        if offset < meta.visible {
            return Err(already_flushed(offset, name));
        }
        let rows = offset + 1 - meta.visible;
        let (whole, split) = first_rows(stream.held(), rows)?;
        let mut moved: Vec<Segment> = stream.held()[..whole].iter().map(|s| s.share()).collect();
        let (gone, rest) = match split {
            Some((before, after)) => {
                moved.push(before);
                (whole + 1, vec![after])
            }
            None => (whole, Vec::new()),
        };
        let meta = StreamMeta {
            visible: offset + 1,
            ..meta.clone()
        };
        Ok((
            vec![
                Mutation::Append(reference.clone(), moved),
                Mutation::SpliceStream(name.clone(), 0, gone, rest),
                Mutation::PutStream(name.clone(), meta),
            ],
            FlushRowsResponse { offset },
        ))
    })
}

/// How many of the segments are whole among the first `rows` rows, and the two
/// parts of one that is not.
fn first_rows(
    held: &[Arc<Segment>],
    rows: i64,
) -> Result<(usize, Option<(Segment, Segment)>), Status> {
    let mut left = usize::try_from(rows).unwrap_or(usize::MAX);
    for (i, segment) in held.iter().enumerate() {
        if left == 0 {
            return Ok((i, None));
        }
        if segment.rows() <= left {
            left -= segment.rows();
            continue;
        }
        let mut parts = (Vec::new(), Vec::new());
        for batch in segment.batches().map_err(|e| failed(&e))? {
            let first = left.min(batch.num_rows());
            if first > 0 {
                parts.0.push(batch.slice(0, first));
            }
            if first < batch.num_rows() {
                parts.1.push(batch.slice(first, batch.num_rows() - first));
            }
            left -= first;
        }
        let part = |batches| Segment::in_memory(batches, segment.partition());
        return Ok((i, Some((part(parts.0), part(parts.1)))));
    }
    Ok((held.len(), None))
}

/// BatchCommitWriteStreams: all of the streams or, with the reasons in the
/// answer, none.
pub(super) fn batch_commit(
    store: &Store,
    request: &BatchCommitWriteStreamsRequest,
) -> Result<BatchCommitWriteStreamsResponse, Status> {
    let reference = TableRef::from_path(&request.parent).ok_or_else(malformed)?;
    if request.write_streams.is_empty() || request.write_streams.len() > MAX_COMMITTED_STREAMS {
        return Err(Status::invalid_argument(format!(
            "write_streams must name 1 to {MAX_COMMITTED_STREAMS} streams, got {}",
            request.write_streams.len()
        )));
    }
    change(store, |state| {
        let table = native_table(state, &reference, "TABLES_UPDATE_DATA")?;
        let mut names: Vec<&String> = Vec::new();
        let mut known = std::collections::HashSet::new();
        for name in &request.write_streams {
            if known.insert(name) {
                names.push(name);
            }
        }
        let stream_errors: Vec<StorageError> = names
            .iter()
            .filter_map(|name| uncommittable(state, name, &reference, &table))
            .collect();
        if !stream_errors.is_empty() {
            let answer = BatchCommitWriteStreamsResponse {
                commit_time: None,
                stream_errors,
            };
            return Ok((Vec::new(), answer));
        }
        let now = micros_now();
        let mut rows = Vec::new();
        let mut ends = Vec::new();
        for name in names {
            let stream = live(state, name, &table)?;
            rows.extend(stream.held().iter().map(|segment| segment.share()));
            ends.push(Mutation::SpliceStream(
                name.clone(),
                0,
                stream.held().len(),
                Vec::new(),
            ));
            ends.push(Mutation::PutStream(
                name.clone(),
                StreamMeta {
                    committed: Some(now),
                    visible: stream.meta().end,
                    ..stream.meta().clone()
                },
            ));
        }
        let mut mutations = vec![Mutation::Append(reference.clone(), rows)];
        mutations.append(&mut ends);
        let answer = BatchCommitWriteStreamsResponse {
            commit_time: Some(timestamp(now)),
            stream_errors,
        };
        Ok((mutations, answer))
    })
}

/// Why a stream cannot be committed to `table`, if it cannot.
fn uncommittable(
    state: &State,
    name: &str,
    reference: &TableRef,
    table: &Table,
) -> Option<StorageError> {
    let error = |code, message: &str| Some(detail(code, name, format!("{message} Entity: {name}")));
    let belongs = matches!(Name::parse(name), Some(Name::Created(of)) if of == *reference);
    let stream = live(state, name, table).ok().filter(|_| belongs);
    let Some(meta) = stream.map(|stream| stream.meta()) else {
        return error(
            StorageErrorCode::StreamNotFound,
            "The stream does not exist in this table.",
        );
    };
    if meta.kind != StreamKind::Pending {
        return error(
            StorageErrorCode::InvalidStreamType,
            "Only PENDING streams can be committed.",
        );
    }
    if meta.committed.is_some() {
        return error(
            StorageErrorCode::StreamAlreadyCommitted,
            "The stream is already committed.",
        );
    }
    if !meta.finalized {
        return error(
            StorageErrorCode::InvalidStreamState,
            "The stream must be finalized before it is committed.",
        );
    }
    None
}

/// A change whose refusal is a status of the Storage API.
pub(super) fn change<R>(
    store: &Store,
    plan: impl FnOnce(&State) -> Result<(Vec<Mutation>, R), Status>,
) -> Result<R, Status> {
    store
        .commit(|state| match plan(state) {
            Ok((mutations, answer)) => Ok((mutations, Ok(answer))),
            Err(status) => Ok((Vec::new(), Err(status))),
        })
        .map_err(|e| failed(&e))?
}

/// The answer without a schema and a location, which the calls fill differently.
fn describe(name: &str, stream: &StreamMeta) -> WriteStream {
    let created = timestamp(stream.created);
    let (kind, commit_time) = match stream.kind {
        // Rows of a COMMITTED stream are visible at once, so it counts as committed
        // from its creation.
        StreamKind::Committed => (Type::Committed, Some(created)),
        StreamKind::Buffered => (Type::Buffered, None),
        StreamKind::Pending => (Type::Pending, stream.committed.map(timestamp)),
    };
    WriteStream {
        name: name.to_string(),
        r#type: kind.into(),
        create_time: Some(created),
        commit_time,
        ..WriteStream::default()
    }
}

fn timestamp(micros: i64) -> Timestamp {
    Timestamp {
        seconds: micros.div_euclid(1_000_000),
        nanos: i32::try_from(micros.rem_euclid(1_000_000) * 1000)
            .expect("less than a second of nanoseconds fits 32 bits"),
    }
}
