//! Write streams over gRPC: what each kind may do, and in whose words it is refused.

use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use serde_json::json;
use tonic::transport::Channel;
use tonic::{Code, Status};

use api::big_query_write_client::BigQueryWriteClient;
use api::storage_error::StorageErrorCode;
use api::write_stream::Type;
use api::{
    BatchCommitWriteStreamsRequest, BatchCommitWriteStreamsResponse, CreateWriteStreamRequest,
    FinalizeWriteStreamRequest, FlushRowsRequest, GetWriteStreamRequest, WriteStream,
    WriteStreamView,
};

use crate::harness::{Local, PROJECT};

struct Writer(BigQueryWriteClient<Channel>);

fn table() -> String {
    format!("projects/{PROJECT}/datasets/d/tables/t")
}

impl Writer {
    /// A server with the table `d.t (id INTEGER REQUIRED, tags STRING REPEATED)`.
    async fn start() -> (Local, Self) {
        let local = Local::with_dataset().await;
        local
            .table(json!([
                {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
                {"name": "tags", "type": "STRING", "mode": "REPEATED"},
            ]))
            .await;
        let channel = Channel::from_shared(local.server.grpc_endpoint())
            .unwrap()
            .connect()
            .await
            .expect("the server listens");
        (local, Self(BigQueryWriteClient::new(channel)))
    }

    async fn create(&self, kind: Type) -> Result<WriteStream, Status> {
        self.create_in(&table(), kind).await
    }

    async fn create_in(&self, parent: &str, kind: Type) -> Result<WriteStream, Status> {
        let request = CreateWriteStreamRequest {
            parent: parent.to_string(),
            write_stream: Some(WriteStream {
                r#type: kind.into(),
                ..WriteStream::default()
            }),
        };
        let answer = self.0.clone().create_write_stream(request).await?;
        Ok(answer.into_inner())
    }

    async fn get(&self, name: &str, view: WriteStreamView) -> Result<WriteStream, Status> {
        let request = GetWriteStreamRequest {
            name: name.to_string(),
            view: view.into(),
        };
        Ok(self.0.clone().get_write_stream(request).await?.into_inner())
    }

    async fn finalize(&self, name: &str) -> Result<i64, Status> {
        let request = FinalizeWriteStreamRequest {
            name: name.to_string(),
        };
        let answer = self.0.clone().finalize_write_stream(request).await?;
        Ok(answer.into_inner().row_count)
    }

    async fn flush(&self, name: &str, offset: i64) -> Status {
        let request = FlushRowsRequest {
            write_stream: name.to_string(),
            offset: Some(offset),
        };
        self.0
            .clone()
            .flush_rows(request)
            .await
            .expect_err("a stream without rows has nothing to flush")
    }

    async fn commit(&self, streams: &[&str]) -> BatchCommitWriteStreamsResponse {
        let request = BatchCommitWriteStreamsRequest {
            parent: table(),
            write_streams: streams.iter().map(ToString::to_string).collect(),
        };
        self.0
            .clone()
            .batch_commit_write_streams(request)
            .await
            .expect("errors of streams are in the answer")
            .into_inner()
    }
}

fn codes(answer: &BatchCommitWriteStreamsResponse) -> Vec<StorageErrorCode> {
    answer.stream_errors.iter().map(|e| e.code()).collect()
}

#[tokio::test]
async fn created_streams_describe_themselves() {
    let (_local, writer) = Writer::start().await;
    for kind in [Type::Committed, Type::Pending, Type::Buffered] {
        let made = writer.create(kind).await.unwrap();
        assert!(made.name.starts_with(&format!("{}/streams/", table())));
        assert_eq!((made.r#type(), made.location.as_str()), (kind, ""));
        assert_eq!(made.commit_time.is_some(), kind == Type::Committed);
        let fields = made.table_schema.unwrap().fields;
        assert_eq!(
            fields
                .iter()
                .map(|f| (f.name.as_str(), f.r#type(), f.mode()))
                .collect::<Vec<_>>(),
            [
                (
                    "id",
                    api::table_field_schema::Type::Int64,
                    api::table_field_schema::Mode::Required
                ),
                (
                    "tags",
                    api::table_field_schema::Type::String,
                    api::table_field_schema::Mode::Repeated
                ),
            ]
        );
        let basic = writer
            .get(&made.name, WriteStreamView::Basic)
            .await
            .unwrap();
        assert_eq!((basic.r#type(), basic.location.as_str()), (kind, "us"));
        assert!(basic.table_schema.is_none());
        let full = writer.get(&made.name, WriteStreamView::Full).await.unwrap();
        assert_eq!(full.table_schema.unwrap().fields, fields);
    }
}

#[tokio::test]
async fn the_default_stream_is_there_and_is_never_finalized() {
    let (_local, writer) = Writer::start().await;
    let long = format!("{}/streams/_default", table());
    for name in [long.clone(), format!("{}/_default", table())] {
        let stream = writer.get(&name, WriteStreamView::Basic).await.unwrap();
        assert_eq!((&stream.name, stream.r#type()), (&long, Type::Committed));
    }
    let refused = writer.finalize(&long).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(
        refused.message(),
        format!("Requested entity was not found. Entity: {long}")
    );
    assert_eq!(writer.flush(&long, 0).await.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn missing_tables_look_forbidden_and_missing_streams_have_invalid_names() {
    let (_local, writer) = Writer::start().await;
    let absent = format!("projects/{PROJECT}/datasets/d/tables/absent");
    let refused = writer.create_in(&absent, Type::Pending).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert_eq!(
        refused.message(),
        format!(
            "Permission 'TABLES_UPDATE_DATA' denied on resource '{absent}' (or it may not exist)."
        )
    );
    let name = format!("{}/streams/nobody", table());
    let refused = writer.get(&name, WriteStreamView::Basic).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(
        refused.message(),
        format!("Invalid stream name. Entity: {name}")
    );
    let refused = writer
        .create_in("projects/p", Type::Pending)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn only_finalized_pending_streams_commit_and_only_once() {
    let (_local, writer) = Writer::start().await;
    let pending = writer.create(Type::Pending).await.unwrap().name;
    let open = writer.create(Type::Pending).await.unwrap().name;
    let buffered = writer.create(Type::Buffered).await.unwrap().name;
    assert_eq!(writer.finalize(&pending).await.unwrap(), 0);

    let refused = writer
        .commit(&[&pending, &open, &buffered, "nonsense"])
        .await;
    assert!(refused.commit_time.is_none());
    assert_eq!(
        codes(&refused),
        [
            StorageErrorCode::InvalidStreamState,
            StorageErrorCode::InvalidStreamType,
            StorageErrorCode::StreamNotFound
        ]
    );
    let done = writer.commit(&[&pending]).await;
    assert!(done.commit_time.is_some() && done.stream_errors.is_empty());
    let again = writer.commit(&[&pending]).await;
    assert_eq!(codes(&again), [StorageErrorCode::StreamAlreadyCommitted]);
}

#[tokio::test]
async fn flushing_past_the_end_or_the_wrong_stream_is_refused() {
    let (_local, writer) = Writer::start().await;
    let buffered = writer.create(Type::Buffered).await.unwrap().name;
    let beyond = writer.flush(&buffered, 0).await;
    assert_eq!(beyond.code(), Code::OutOfRange);
    assert_eq!(
        beyond.message(),
        format!("Offset 0 is beyond the end of the stream Entity: {buffered}")
    );
    let pending = writer.create(Type::Pending).await.unwrap().name;
    assert_eq!(
        writer.flush(&pending, 0).await.code(),
        Code::InvalidArgument
    );
    writer.finalize(&buffered).await.unwrap();
    let finalized = writer.flush(&buffered, 0).await;
    assert_eq!(finalized.code(), Code::InvalidArgument);
    assert!(finalized.message().contains("finalized"));
    assert!(!finalized.details().is_empty(), "a StorageError says which");
}

#[tokio::test]
async fn streams_end_with_their_table() {
    let (local, writer) = Writer::start().await;
    let stream = writer.create(Type::Pending).await.unwrap().name;
    assert_eq!(local.delete("datasets/d/tables/t").await.status, 204);
    local
        .table(json!([{"name": "id", "type": "INTEGER"}]))
        .await;
    let refused = writer.finalize(&stream).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}
