//! The reference: requests of protobuf rows, encoded before, sent as fast as the
//! server takes them.

use std::time::Instant;

use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use prost::Message;
use prost_types::DescriptorProto;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use api::append_rows_request::{ProtoData, Rows};
use api::append_rows_response::Response;
use api::big_query_write_client::BigQueryWriteClient;
use api::{AppendRowsRequest, ProtoRows, ProtoSchema};
use datafusion_bigquery::types::encode::RowFormat;

use crate::Outcome;
use crate::rows;
use crate::target::{Target, say};

/// Connections that the rows are divided among; the library's INSERT has as many
/// partitions.
pub(crate) const CONNECTIONS: usize = 2;

/// Requests that wait in front of a connection.
const AHEAD: usize = 4;

struct Encoded {
    rows: Vec<bytes::Bytes>,
    bytes: usize,
}

pub(crate) async fn run(target: &Target) -> Outcome<()> {
    let batches = rows::read(&target.batches)?;
    let first = batches.first().ok_or("there are no batches")?;
    let encoder = rows::encoder(first, RowFormat::Protobuf)?;
    let mut encoded = Vec::new();
    for batch in &batches {
        let batch = encoder.encode(batch)?;
        for piece in rows::pieces(&batch)? {
            let rows: Vec<_> = piece
                .rows
                .filter_map(|row| batch.protobuf_row(row))
                .collect();
            let bytes = rows.iter().map(bytes::Bytes::len).sum();
            encoded.push(Encoded { rows, bytes });
        }
    }
    let schema = ProtoSchema {
        proto_descriptor: Some(DescriptorProto::decode(encoder.writer_schema().as_ref())?),
    };
    let (requests, bytes) = requests(target, &schema, &encoded)?;

    let began = Instant::now();
    let mut calls = Vec::new();
    for requests in requests {
        calls.push(tokio::spawn(send(target.grpc.clone(), requests)));
    }
    for call in futures::future::join_all(calls).await {
        call??;
    }
    say(target.rows, bytes, began.elapsed());
    Ok(())
}

/// The requests of each connection, and how many bytes of rows they have.
fn requests(
    target: &Target,
    schema: &ProtoSchema,
    encoded: &[Encoded],
) -> Outcome<(Vec<Vec<AppendRowsRequest>>, usize)> {
    let [project, dataset, table] = target.parts()?;
    let stream = format!("projects/{project}/datasets/{dataset}/tables/{table}/streams/_default");
    let mut divided = vec![Vec::new(); CONNECTIONS];
    let (mut missing, mut bytes) = (target.rows, 0);
    for (number, request) in encoded.iter().cycle().enumerate() {
        if missing == 0 {
            break;
        }
        let mut rows = request.rows.clone();
        if missing < rows.len() {
            rows.truncate(missing);
            bytes += rows.iter().map(bytes::Bytes::len).sum::<usize>();
        } else {
            bytes += request.bytes;
        }
        missing -= rows.len();
        let connection = &mut divided[number % CONNECTIONS];
        let writer_schema = connection.is_empty().then(|| schema.clone());
        connection.push(AppendRowsRequest {
            write_stream: stream.clone(),
            rows: Some(Rows::ProtoRows(ProtoData {
                writer_schema,
                rows: Some(ProtoRows {
                    serialized_rows: rows,
                }),
            })),
            ..AppendRowsRequest::default()
        });
    }
    Ok((divided, bytes))
}

async fn send(grpc: String, requests: Vec<AppendRowsRequest>) -> Outcome<()> {
    let channel = Channel::from_shared(grpc)?.connect().await?;
    let mut client = BigQueryWriteClient::new(channel);
    let expected = requests.len();
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        for request in requests {
            if sender.send(request).await.is_err() {
                return;
            }
        }
    });
    let mut answers = client
        .append_rows(ReceiverStream::new(receiver))
        .await?
        .into_inner();
    let mut answered = 0;
    while let Some(answer) = answers.message().await? {
        match answer.response {
            Some(Response::AppendResult(_)) => answered += 1,
            other => return Err(format!("an append was answered with {other:?}").into()),
        }
    }
    if answered == expected {
        Ok(())
    } else {
        Err(format!("{answered} of {expected} appends were answered").into())
    }
}
