//! The reference: receives the messages of a table and drops them undecoded.

use std::time::{Duration, Instant};

use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use tonic::transport::Channel;

use api::arrow_serialization_options::CompressionCodec;
use api::big_query_read_client::BigQueryReadClient;
use api::read_session::TableReadOptions;
use api::read_session::table_read_options::OutputFormatSerializationOptions;
use api::{
    ArrowSerializationOptions, CreateReadSessionRequest, DataFormat, ReadRowsRequest, ReadSession,
};

use crate::Outcome;
use crate::shape::{Pass, Reading, STREAMS, say};

pub(crate) async fn run(reading: &Reading) -> Outcome<()> {
    let mut passes = Vec::new();
    for _ in 0..reading.passes {
        passes.push(pass(reading).await?);
    }
    say(&passes);
    Ok(())
}

async fn pass(reading: &Reading) -> Outcome<Pass> {
    let began = Instant::now();
    let channel = Channel::from_shared(reading.grpc.clone())?
        .initial_stream_window_size(16 << 20)
        .initial_connection_window_size(32 << 20)
        .connect()
        .await?;
    let client = BigQueryReadClient::new(channel).max_decoding_message_size(256 << 20);
    let options = TableReadOptions {
        selected_fields: reading.columns.clone(),
        row_restriction: reading.predicate.clone(),
        output_format_serialization_options: Some(
            OutputFormatSerializationOptions::ArrowSerializationOptions(
                ArrowSerializationOptions {
                    buffer_compression: CompressionCodec::CompressionUnspecified.into(),
                    ..ArrowSerializationOptions::default()
                },
            ),
        ),
        ..TableReadOptions::default()
    };
    let session = client
        .clone()
        .create_read_session(CreateReadSessionRequest {
            parent: "projects/local".into(),
            read_session: Some(ReadSession {
                table: reading.resource()?,
                data_format: DataFormat::Arrow.into(),
                read_options: Some(options),
                ..ReadSession::default()
            }),
            max_stream_count: STREAMS,
            preferred_min_stream_count: 1,
        })
        .await?
        .into_inner();
    let reads = session.streams.into_iter().map(|stream| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let request = ReadRowsRequest {
                read_stream: stream.name,
                offset: 0,
            };
            let mut messages = client.read_rows(request).await?.into_inner();
            let (mut rows, mut bytes) = (0, 0);
            while let Some(message) = messages.message().await? {
                rows += message.row_count;
                if let Some(api::read_rows_response::Rows::ArrowRecordBatch(batch)) = message.rows {
                    bytes += batch.serialized_record_batch.len();
                }
            }
            Ok::<_, tonic::Status>((rows, bytes))
        })
    });
    let (mut rows, mut bytes) = (0, 0);
    for read in futures::future::join_all(reads).await {
        let (r, b) = read??;
        rows += r;
        bytes += b;
    }
    Ok(Pass {
        rows,
        bytes,
        planned: Duration::ZERO,
        read: began.elapsed(),
    })
}
