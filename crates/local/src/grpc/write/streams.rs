//! The write streams that clients made, and what may be done with each kind.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prost_types::Timestamp;
use tonic::Status;

use super::errors::{beyond_end, detail, invalid_name, malformed, masked, not_found, refused};
use super::schema::table_schema;
use crate::grpc::proto::storage_error::StorageErrorCode;
use crate::grpc::proto::write_stream::Type;
use crate::grpc::proto::{
    BatchCommitWriteStreamsRequest, BatchCommitWriteStreamsResponse, CreateWriteStreamRequest,
    FinalizeWriteStreamRequest, FinalizeWriteStreamResponse, FlushRowsRequest, FlushRowsResponse,
    GetWriteStreamRequest, StorageError, WriteStream, WriteStreamView,
};
use crate::store::{Store, Table, TableKind, TableRef, micros_now};

/// The service's limit on streams of one commit.
const MAX_COMMITTED_STREAMS: usize = 10_000;

const DEFAULT_STREAM: &str = "_default";

/// What an application-created stream has been through.
#[derive(Debug, Clone)]
struct Stream {
    kind: Type,
    /// Tells the stream's table from another that got the same name later.
    incarnation: u64,
    /// Microseconds since the epoch.
    created: i64,
    /// Offset that the next row would get.
    end: i64,
    finalized: bool,
    /// When a PENDING stream was committed, in microseconds since the epoch.
    committed: Option<i64>,
}

/// A stream's name, taken apart.
enum Name {
    /// The default stream of a table.
    Default(TableRef),
    /// A stream that CreateWriteStream made, or never did.
    Created(TableRef),
}

/// All write streams of a server, by name.
#[derive(Debug, Default)]
pub struct WriteStreams {
    streams: Mutex<HashMap<String, Stream>>,
}

impl WriteStreams {
    /// CreateWriteStream.
    pub(super) fn create(
        &self,
        store: &Store,
        request: &CreateWriteStreamRequest,
    ) -> Result<WriteStream, Status> {
        let reference = TableRef::from_path(&request.parent).ok_or_else(malformed)?;
        let kind = request
            .write_stream
            .as_ref()
            .and_then(|stream| Type::try_from(stream.r#type).ok())
            .filter(|kind| *kind != Type::Unspecified)
            .ok_or_else(|| {
                Status::invalid_argument("write_stream.type must be COMMITTED, PENDING or BUFFERED")
            })?;
        let table = native_table(store, &reference, "TABLES_UPDATE_DATA")?;
        let name = format!(
            "{}/streams/{}",
            request.parent,
            uuid::Uuid::new_v4().simple()
        );
        let stream = Stream {
            kind,
            incarnation: table.incarnation(),
            created: micros_now(),
            end: 0,
            finalized: false,
            committed: None,
        };
        let answer = WriteStream {
            table_schema: Some(table_schema(&table.meta().schema)),
            ..describe(&name, &stream)
        };
        self.streams.lock().insert(name, stream);
        Ok(answer)
    }

    /// GetWriteStream.
    pub(super) fn get(
        &self,
        store: &Store,
        request: &GetWriteStreamRequest,
    ) -> Result<WriteStream, Status> {
        let (table, mut answer) = match parse(&request.name).ok_or_else(malformed)? {
            Name::Default(reference) => {
                let table = native_table(store, &reference, "TABLES_GET")?;
                let answer = WriteStream {
                    name: format!("{}/streams/{DEFAULT_STREAM}", reference.path()),
                    r#type: Type::Committed.into(),
                    create_time: Some(timestamp(table.created())),
                    ..WriteStream::default()
                };
                (table, answer)
            }
            Name::Created(reference) => {
                let table = native_table(store, &reference, "TABLES_GET")?;
                let streams = self.streams.lock();
                let stream = live(&streams, &request.name, &table)?;
                (Arc::clone(&table), describe(&request.name, stream))
            }
        };
        let meta = table.meta();
        answer.location = meta.location.to_ascii_lowercase();
        if request.view == i32::from(WriteStreamView::Full) {
            answer.table_schema = Some(table_schema(&meta.schema));
        }
        Ok(answer)
    }

    /// FinalizeWriteStream. Finalizing again is harmless.
    pub(super) fn finalize(
        &self,
        store: &Store,
        request: &FinalizeWriteStreamRequest,
    ) -> Result<FinalizeWriteStreamResponse, Status> {
        let Name::Created(reference) = parse(&request.name).ok_or_else(malformed)? else {
            return Err(not_found(&request.name));
        };
        let table = native_table(store, &reference, "TABLES_UPDATE_DATA")?;
        let mut streams = self.streams.lock();
        let stream = live_mut(&mut streams, &request.name, &table)?;
        stream.finalized = true;
        Ok(FinalizeWriteStreamResponse {
            row_count: stream.end,
        })
    }

    /// FlushRows.
    pub(super) fn flush(
        &self,
        store: &Store,
        request: &FlushRowsRequest,
    ) -> Result<FlushRowsResponse, Status> {
        let name = &request.write_stream;
        let Name::Created(reference) = parse(name).ok_or_else(malformed)? else {
            return Err(wrong_kind(name, "FlushRows needs a BUFFERED stream."));
        };
        let table = native_table(store, &reference, "TABLES_UPDATE_DATA")?;
        let streams = self.streams.lock();
        let stream = live(&streams, name, &table)?;
        if stream.kind != Type::Buffered {
            return Err(wrong_kind(name, "FlushRows needs a BUFFERED stream."));
        }
        if stream.finalized {
            return Err(refused(
                StorageErrorCode::StreamFinalized,
                name,
                format!("Stream has been finalized and cannot be flushed. Entity: {name}"),
            ));
        }
        let offset = request
            .offset
            .ok_or_else(|| Status::invalid_argument("FlushRows needs an offset."))?;
        // No stream has rows, so there is nothing that any offset could make visible.
        Err(beyond_end(offset, name))
    }

    /// BatchCommitWriteStreams: all of the streams or, with the reasons in the
    /// answer, none.
    pub(super) fn batch_commit(
        &self,
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
        let table = native_table(store, &reference, "TABLES_UPDATE_DATA")?;
        let mut streams = self.streams.lock();
        let stream_errors: Vec<StorageError> = request
            .write_streams
            .iter()
            .filter_map(|name| uncommittable(&streams, name, &reference, &table))
            .collect();
        if !stream_errors.is_empty() {
            return Ok(BatchCommitWriteStreamsResponse {
                commit_time: None,
                stream_errors,
            });
        }
        let now = micros_now();
        for name in &request.write_streams {
            if let Some(stream) = streams.get_mut(name) {
                stream.committed = Some(now);
            }
        }
        Ok(BatchCommitWriteStreamsResponse {
            commit_time: Some(timestamp(now)),
            stream_errors,
        })
    }
}

/// Why a stream cannot be committed to `table`, if it cannot.
fn uncommittable(
    streams: &HashMap<String, Stream>,
    name: &str,
    reference: &TableRef,
    table: &Table,
) -> Option<StorageError> {
    let error = |code, message: &str| Some(detail(code, name, format!("{message} Entity: {name}")));
    let belongs = matches!(parse(name), Some(Name::Created(of)) if of == *reference);
    let Some(stream) = live(streams, name, table).ok().filter(|_| belongs) else {
        return error(
            StorageErrorCode::StreamNotFound,
            "The stream does not exist in this table.",
        );
    };
    if stream.kind != Type::Pending {
        return error(
            StorageErrorCode::InvalidStreamType,
            "Only PENDING streams can be committed.",
        );
    }
    if stream.committed.is_some() {
        return error(
            StorageErrorCode::StreamAlreadyCommitted,
            "The stream is already committed.",
        );
    }
    if !stream.finalized {
        return error(
            StorageErrorCode::InvalidStreamState,
            "The stream must be finalized before it is committed.",
        );
    }
    None
}

/// The table, which must be one that rows can be written to. A missing one looks
/// forbidden, as section 3.4 of the service reference says.
fn native_table(
    store: &Store,
    reference: &TableRef,
    permission: &str,
) -> Result<Arc<Table>, Status> {
    let table = store
        .table(reference)
        .map_err(|_| masked(permission, reference))?;
    if table.meta().kind != TableKind::Table {
        return Err(Status::invalid_argument(format!(
            "Rows can be written to tables only. Entity: {}",
            reference.path()
        )));
    }
    Ok(table)
}

fn live<'a>(
    streams: &'a HashMap<String, Stream>,
    name: &str,
    table: &Table,
) -> Result<&'a Stream, Status> {
    let stream = streams.get(name).ok_or_else(|| invalid_name(name))?;
    if stream.incarnation != table.incarnation() {
        return Err(not_found(name));
    }
    Ok(stream)
}

fn live_mut<'a>(
    streams: &'a mut HashMap<String, Stream>,
    name: &str,
    table: &Table,
) -> Result<&'a mut Stream, Status> {
    live(streams, name, table)?;
    streams.get_mut(name).ok_or_else(|| invalid_name(name))
}

fn wrong_kind(stream: &str, message: &str) -> Status {
    refused(
        StorageErrorCode::InvalidStreamType,
        stream,
        format!("{message} Entity: {stream}"),
    )
}

/// The answer without a schema and a location, which the calls fill differently.
fn describe(name: &str, stream: &Stream) -> WriteStream {
    let created = timestamp(stream.created);
    WriteStream {
        name: name.to_string(),
        r#type: stream.kind.into(),
        create_time: Some(created),
        // Rows of a COMMITTED stream are visible at once, so it counts as committed
        // from its creation.
        commit_time: match stream.kind {
            Type::Committed => Some(created),
            Type::Pending | Type::Buffered | Type::Unspecified => stream.committed.map(timestamp),
        },
        ..WriteStream::default()
    }
}

/// Reads `{table}/streams/{id}`, and `{table}/_default` as the service does.
fn parse(name: &str) -> Option<Name> {
    if let Some(table) = name.strip_suffix("/_default")
        && !table.ends_with("/streams")
    {
        return TableRef::from_path(table).map(Name::Default);
    }
    let (table, id) = name.rsplit_once("/streams/")?;
    let reference = TableRef::from_path(table)?;
    match id {
        "" => None,
        DEFAULT_STREAM => Some(Name::Default(reference)),
        _ => Some(Name::Created(reference)),
    }
}

fn timestamp(micros: i64) -> Timestamp {
    Timestamp {
        seconds: micros.div_euclid(1_000_000),
        nanos: i32::try_from(micros.rem_euclid(1_000_000) * 1000)
            .expect("less than a second of nanoseconds fits 32 bits"),
    }
}
