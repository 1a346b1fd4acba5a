//! A raw AppendRows connection, and rows for it.

use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use api::append_rows_request::{ProtoData, Rows};
use api::append_rows_response::Response;
use api::big_query_write_client::BigQueryWriteClient;
use api::storage_error::StorageErrorCode;
use api::write_stream::Type as Kind;
use api::{
    AppendRowsRequest, AppendRowsResponse, BatchCommitWriteStreamsRequest,
    CreateWriteStreamRequest, FinalizeWriteStreamRequest, FlushRowsRequest, ProtoRows, ProtoSchema,
    StorageError, WriteStream,
};

use crate::harness::{Local, PROJECT};

/// The path of a table in dataset `d`.
pub(crate) fn path(table: &str) -> String {
    format!("projects/{PROJECT}/datasets/d/tables/{table}")
}

/// The default stream of `d.t`.
pub(crate) fn default_stream() -> String {
    format!("{}/streams/_default", path("t"))
}

/// A client of the Storage Write API.
#[derive(Clone)]
pub(crate) struct Writer(pub(crate) BigQueryWriteClient<Channel>);

impl Writer {
    pub(crate) async fn of(local: &Local) -> Self {
        Self::at(&local.server.grpc_endpoint()).await
    }

    pub(crate) async fn at(endpoint: &str) -> Self {
        let channel = Channel::from_shared(endpoint.to_string())
            .unwrap()
            .connect()
            .await
            .expect("the server listens");
        Self(BigQueryWriteClient::new(channel))
    }

    pub(crate) async fn create(&self, kind: Kind) -> String {
        self.create_in(&path("t"), kind).await
    }

    pub(crate) async fn create_in(&self, parent: &str, kind: Kind) -> String {
        let request = CreateWriteStreamRequest {
            parent: parent.to_string(),
            write_stream: Some(WriteStream {
                r#type: kind.into(),
                ..WriteStream::default()
            }),
        };
        let made = self.0.clone().create_write_stream(request).await.unwrap();
        made.into_inner().name
    }

    pub(crate) async fn finalize(&self, name: &str) -> i64 {
        let name = name.to_string();
        let request = FinalizeWriteStreamRequest { name };
        let answer = self.0.clone().finalize_write_stream(request).await.unwrap();
        answer.into_inner().row_count
    }

    pub(crate) async fn flush(&self, name: &str, offset: i64) -> Result<i64, Status> {
        let request = FlushRowsRequest {
            write_stream: name.to_string(),
            offset: Some(offset),
        };
        let answer = self.0.clone().flush_rows(request).await?;
        Ok(answer.into_inner().offset)
    }

    pub(crate) async fn commit(&self, streams: &[&str]) -> Vec<StorageErrorCode> {
        self.commit_in(&path("t"), streams).await
    }

    pub(crate) async fn commit_in(&self, parent: &str, streams: &[&str]) -> Vec<StorageErrorCode> {
        let request = BatchCommitWriteStreamsRequest {
            parent: parent.to_string(),
            write_streams: streams.iter().map(ToString::to_string).collect(),
        };
        let answer = self.0.clone().batch_commit_write_streams(request).await;
        let answer = answer.unwrap().into_inner();
        assert_eq!(
            answer.commit_time.is_some(),
            answer.stream_errors.is_empty()
        );
        answer
            .stream_errors
            .iter()
            .map(StorageError::code)
            .collect()
    }

    pub(crate) fn connect(&self) -> Connection {
        let (sender, receiver) = mpsc::channel(16);
        Connection {
            client: self.0.clone(),
            requests: Some(sender),
            waiting: Some(receiver),
            answers: None,
        }
    }
}

/// One AppendRows call.
pub(crate) struct Connection {
    client: BigQueryWriteClient<Channel>,
    requests: Option<mpsc::Sender<AppendRowsRequest>>,
    waiting: Option<mpsc::Receiver<AppendRowsRequest>>,
    answers: Option<Streaming<AppendRowsResponse>>,
}

impl Connection {
    /// Sends a request and waits for its response.
    pub(crate) async fn send(
        &mut self,
        request: AppendRowsRequest,
    ) -> Result<AppendRowsResponse, Status> {
        self.push(request).await;
        self.answer().await.expect("a response, or a status")
    }

    /// Sends a request to a server that may be killed; `None` when nobody answers.
    pub(crate) async fn try_send(
        &mut self,
        request: AppendRowsRequest,
    ) -> Option<AppendRowsResponse> {
        self.requests.as_ref()?.send(request).await.ok()?;
        if let Some(receiver) = self.waiting.take() {
            let answers = self.client.append_rows(ReceiverStream::new(receiver)).await;
            self.answers = Some(answers.ok()?.into_inner());
        }
        self.answer().await?.ok()
    }

    /// Sends a request.
    pub(crate) async fn push(&mut self, request: AppendRowsRequest) {
        let sender = self.requests.as_ref().expect("the call is open");
        // A call that has ended takes nothing; its status says why.
        let _ = sender.send(request).await;
        if let Some(receiver) = self.waiting.take() {
            let answers = self.client.append_rows(ReceiverStream::new(receiver)).await;
            self.answers = Some(answers.expect("the call begins").into_inner());
        }
    }

    /// The next response; `None` at the end.
    pub(crate) async fn answer(&mut self) -> Option<Result<AppendRowsResponse, Status>> {
        self.answers.as_mut()?.message().await.transpose()
    }

    /// Says that no more requests come, and sees that the call ends well.
    pub(crate) async fn close(mut self) {
        self.requests = None;
        assert!(self.answer().await.is_none());
    }
}

/// The offset of a response that is no error.
#[track_caller]
pub(crate) fn appended(answer: Result<AppendRowsResponse, Status>) -> Option<i64> {
    let answer = answer.expect("the call goes on");
    match answer.response.expect("a response says something") {
        Response::AppendResult(result) => result.offset,
        Response::Error(e) => panic!("{} {:?}", e.message, answer.row_errors),
    }
}

/// The error in a response after which the call goes on.
#[track_caller]
pub(crate) fn refused(answer: Result<AppendRowsResponse, Status>) -> (Code, String) {
    let answer = answer.expect("the call goes on");
    match answer.response.expect("a response says something") {
        Response::AppendResult(_) => panic!("the rows were taken"),
        Response::Error(e) => (Code::from(e.code), e.message),
    }
}

/// The rows that a response refuses, with the words.
#[track_caller]
pub(crate) fn bad_rows(answer: Result<AppendRowsResponse, Status>) -> Vec<(i64, String)> {
    let answer = answer.expect("the call goes on");
    let errors = answer.row_errors.clone();
    let (code, message) = refused(Ok(answer));
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        message.starts_with("Errors found while processing rows."),
        "{message}"
    );
    errors.into_iter().map(|e| (e.index, e.message)).collect()
}

/// The StorageError in the details of an error in a response.
#[track_caller]
pub(crate) fn storage_error(answer: &Result<AppendRowsResponse, Status>) -> StorageErrorCode {
    let details = match answer {
        Ok(answer) => match answer.response.as_ref().expect("a response") {
            Response::Error(e) => e.details.clone(),
            Response::AppendResult(_) => panic!("the rows were taken"),
        },
        Err(status) => {
            googleapis_storage::google::rpc::Status::decode(status.details())
                .expect("the trailers hold a whole status")
                .details
        }
    };
    let detail = details.first().expect("a detail");
    StorageError::decode(detail.value.as_slice())
        .expect("a StorageError")
        .code()
}

/// A field of a message type.
pub(crate) fn field(number: i32, name: &str, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_string()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        ..FieldDescriptorProto::default()
    }
}

/// The same field, repeated.
pub(crate) fn repeated(mut field: FieldDescriptorProto) -> FieldDescriptorProto {
    field.label = Some(Label::Repeated.into());
    field
}

/// The same field, of a named type.
pub(crate) fn named(mut field: FieldDescriptorProto, type_name: &str) -> FieldDescriptorProto {
    field.type_name = Some(type_name.to_string());
    field
}

pub(crate) fn message(name: &str, fields: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto {
        name: Some(name.to_string()),
        field: fields,
        ..DescriptorProto::default()
    }
}

/// `(id INT64, s STRING)` as fields 1 and 2.
pub(crate) fn simple() -> DescriptorProto {
    message(
        "Row",
        vec![field(1, "id", Type::Int64), field(2, "s", Type::String)],
    )
}

/// The columns of [`simple`].
pub(crate) fn simple_columns() -> Value {
    json!([{"name": "id", "type": "INTEGER"}, {"name": "s", "type": "STRING"}])
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

/// A varint field.
pub(crate) fn int(number: u64, value: i64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(number << 3, &mut out);
    varint(value.cast_unsigned(), &mut out);
    out
}

/// A length-delimited field.
pub(crate) fn bytes(number: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    varint(number << 3 | 2, &mut out);
    varint(value.as_ref().len() as u64, &mut out);
    out.extend_from_slice(value.as_ref());
    out
}

/// Rows `lo..hi` of [`simple`].
pub(crate) fn simple_rows(range: std::ops::Range<i64>) -> Vec<Vec<u8>> {
    range
        .map(|i| [int(1, i), bytes(2, format!("s{i}"))].concat())
        .collect()
}

/// A request with rows of `schema`, or of the one that sticks.
pub(crate) fn request(
    stream: &str,
    schema: Option<&DescriptorProto>,
    rows: Vec<Vec<u8>>,
) -> AppendRowsRequest {
    AppendRowsRequest {
        write_stream: stream.to_string(),
        rows: Some(Rows::ProtoRows(ProtoData {
            writer_schema: schema.map(|schema| ProtoSchema {
                proto_descriptor: Some(schema.clone()),
            }),
            rows: Some(ProtoRows {
                serialized_rows: rows.into_iter().map(Into::into).collect(),
            }),
        })),
        ..AppendRowsRequest::default()
    }
}

/// The same request at an offset.
pub(crate) fn at(offset: i64, mut request: AppendRowsRequest) -> AppendRowsRequest {
    request.offset = Some(offset);
    request
}

/// What a query answers, row by row, as text.
pub(crate) async fn query(local: &Local, sql: &str) -> Vec<Value> {
    let body = json!({"query": sql, "useLegacySql": false});
    let answer = local.post("queries", body).await.ok();
    let rows = answer["rows"].as_array().cloned().unwrap_or_default();
    rows.into_iter()
        .map(|row| {
            let cells = row["f"].as_array().expect("cells");
            cells.iter().map(|cell| cell["v"].clone()).collect()
        })
        .collect()
}

/// The ids in `d.t`, in order.
pub(crate) async fn ids(local: &Local) -> Vec<i64> {
    query(local, "SELECT id FROM d.t ORDER BY id")
        .await
        .iter()
        .map(|row| row[0].as_str().unwrap().parse().unwrap())
        .collect()
}
