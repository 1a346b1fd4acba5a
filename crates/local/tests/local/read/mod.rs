//! Storage Read over gRPC.

mod agreement;
mod avro;
mod errors;
mod partitions;
mod restrictions;
mod resume;
mod sessions;
mod streams;
mod zones;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::ipc::reader::StreamReader;
use bigquery_local::store::{Mutation, Segment, TableRef};
use bigquery_local::{LocalBigQuery, LocalOptions};
use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use serde_json::json;
use tonic::Status;
use tonic::transport::Channel;

use api::big_query_read_client::BigQueryReadClient;
use api::read_session::{Schema, TableModifiers, TableReadOptions};
use api::{CreateReadSessionRequest, DataFormat, ReadRowsRequest, ReadRowsResponse, ReadSession};

use crate::harness::{Local, PROJECT};

/// A client of the Storage Read API.
pub(crate) struct Reader(BigQueryReadClient<Channel>);

/// `projects/local/datasets/d/tables/t`.
fn table_path() -> String {
    format!("projects/{PROJECT}/datasets/d/tables/t")
}

/// A request for all of `d.t` in Arrow, in one stream.
pub(crate) fn request() -> CreateReadSessionRequest {
    CreateReadSessionRequest {
        parent: format!("projects/{PROJECT}"),
        read_session: Some(ReadSession {
            table: table_path(),
            data_format: DataFormat::Arrow.into(),
            ..ReadSession::default()
        }),
        max_stream_count: 1,
        preferred_min_stream_count: 0,
    }
}

/// The same with these options.
fn with_options(options: TableReadOptions) -> CreateReadSessionRequest {
    let mut request = request();
    session_of(&mut request).read_options = Some(options);
    request
}

/// The same with these fields.
fn selecting(fields: &[&str]) -> CreateReadSessionRequest {
    with_options(TableReadOptions {
        selected_fields: fields.iter().map(ToString::to_string).collect(),
        ..TableReadOptions::default()
    })
}

/// The same with this restriction.
pub(crate) fn restricted(text: &str) -> CreateReadSessionRequest {
    with_options(TableReadOptions {
        row_restriction: text.to_string(),
        ..TableReadOptions::default()
    })
}

/// The same as of an instant, in microseconds since the epoch.
fn as_of(micros: i64) -> CreateReadSessionRequest {
    let mut request = request();
    session_of(&mut request).table_modifiers = Some(TableModifiers {
        snapshot_time: Some(prost_types::Timestamp {
            seconds: micros.div_euclid(1_000_000),
            nanos: i32::try_from(micros.rem_euclid(1_000_000) * 1000).unwrap(),
        }),
    });
    request
}

fn session_of(request: &mut CreateReadSessionRequest) -> &mut ReadSession {
    request.read_session.as_mut().unwrap()
}

impl Reader {
    pub(crate) fn client(&self) -> BigQueryReadClient<Channel> {
        self.0.clone()
    }

    async fn of(server: &LocalBigQuery) -> Self {
        let channel = Channel::from_shared(server.grpc_endpoint())
            .unwrap()
            .connect()
            .await
            .expect("the server listens");
        Self(
            BigQueryReadClient::new(channel)
                .max_decoding_message_size(256 << 20)
                .max_encoding_message_size(256 << 20),
        )
    }

    pub(crate) async fn try_session(
        &self,
        request: CreateReadSessionRequest,
    ) -> Result<ReadSession, Status> {
        self.0
            .clone()
            .create_read_session(request)
            .await
            .map(tonic::Response::into_inner)
    }

    pub(crate) async fn session(&self, request: CreateReadSessionRequest) -> ReadSession {
        self.try_session(request).await.expect("a session")
    }

    /// All messages of one stream from `offset` on.
    pub(crate) async fn try_read(
        &self,
        stream: &str,
        offset: i64,
    ) -> Result<Vec<ReadRowsResponse>, Status> {
        let request = ReadRowsRequest {
            read_stream: stream.to_string(),
            offset,
        };
        let mut messages = self.0.clone().read_rows(request).await?.into_inner();
        let mut all = Vec::new();
        while let Some(message) = messages.message().await? {
            all.push(message);
        }
        Ok(all)
    }

    pub(crate) async fn read(&self, stream: &str, offset: i64) -> Vec<ReadRowsResponse> {
        self.try_read(stream, offset).await.expect("rows")
    }

    /// The rows of all streams of a session, one after the other.
    async fn rows(&self, session: &ReadSession) -> RecordBatch {
        let mut batches = Vec::new();
        for stream in &session.streams {
            for message in self.read(&stream.name, 0).await {
                batches.push(batch(session, &message));
            }
        }
        arrow::compute::concat_batches(&arrow_schema(session), &batches).unwrap()
    }

    /// The INT64 values of the first column.
    pub(crate) async fn numbers(&self, session: &ReadSession) -> Vec<i64> {
        numbers(&self.rows(session).await)
    }
}

pub(crate) fn numbers(batch: &RecordBatch) -> Vec<i64> {
    batch
        .column(0)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec()
}

fn schema_bytes(session: &ReadSession) -> Vec<u8> {
    match session.schema.as_ref().expect("a session has a schema") {
        Schema::ArrowSchema(schema) => schema.serialized_schema.to_vec(),
        Schema::AvroSchema(schema) => panic!("not Arrow: {}", schema.schema),
    }
}

fn arrow_schema(session: &ReadSession) -> SchemaRef {
    StreamReader::try_new(std::io::Cursor::new(schema_bytes(session)), None)
        .unwrap()
        .schema()
}

pub(crate) fn payload(message: &ReadRowsResponse) -> Vec<u8> {
    use api::read_rows_response::Rows;
    match message.rows.as_ref().expect("rows") {
        Rows::ArrowRecordBatch(batch) => batch.serialized_record_batch.to_vec(),
        Rows::AvroRows(rows) => rows.serialized_binary_rows.to_vec(),
    }
}

/// The rows of one message: schema and batch are one IPC stream.
fn batch_of(session: &ReadSession, payload: &[u8]) -> RecordBatch {
    let bytes = [schema_bytes(session).as_slice(), payload].concat();
    let mut reader = StreamReader::try_new(std::io::Cursor::new(bytes), None).unwrap();
    let batch = reader.next().expect("one batch").unwrap();
    assert!(reader.next().is_none());
    batch
}

pub(crate) fn batch(session: &ReadSession, message: &ReadRowsResponse) -> RecordBatch {
    let batch = batch_of(session, &payload(message));
    assert_eq!(batch.num_rows() as i64, message.row_count);
    batch
}

/// A server that gives streams of about `stream_bytes`, with a client.
pub(crate) async fn start(stream_bytes: usize) -> (Local, Reader) {
    let server = LocalBigQuery::start(LocalOptions {
        stream_bytes,
        ..LocalOptions::default()
    })
    .await
    .unwrap();
    let reader = Reader::of(&server).await;
    let local = Local {
        server,
        client: reqwest::Client::new(),
    };
    local
        .post(
            "datasets",
            json!({"datasetReference": {"projectId": PROJECT, "datasetId": "d"}}),
        )
        .await
        .ok();
    (local, reader)
}

/// A table `d.t` of `id` (0 and up) and text, stored in segments of these sizes.
pub(crate) async fn counted(local: &Local, segments: &[usize]) {
    local
        .table(json!([
            {"name": "id", "type": "INTEGER"},
            {"name": "s", "type": "STRING"}
        ]))
        .await;
    let mut next = 0i64;
    for rows in segments {
        let ids: Vec<i64> = (next..next + *rows as i64).collect();
        next += *rows as i64;
        let text: StringArray = ids.iter().map(|i| Some(format!("row {i:>10}"))).collect();
        append(
            local,
            vec![Arc::new(Int64Array::from(ids)), Arc::new(text)],
            None,
        );
    }
}

/// Puts columns into the store as one segment.
fn append(local: &Local, columns: Vec<ArrayRef>, partition: Option<i64>) {
    let store = &local.server.service().store;
    let reference = TableRef::new(PROJECT, "d", "t");
    store
        .commit(|state| {
            let arrow = state.require_table(&reference)?.snapshot().arrow;
            let batch = RecordBatch::try_new(arrow, columns).unwrap();
            let segment = Segment::in_memory(vec![batch], partition);
            Ok((vec![Mutation::Append(reference.clone(), vec![segment])], ()))
        })
        .unwrap();
}
