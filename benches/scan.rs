//! Reading a whole table through SQL, as a ratio of a bare gRPC client that receives
//! the same messages and drops them. Both run against one embedded BigQuery in this
//! process, one after the other, several times; the fastest of each counts.
//!
//! `cargo bench --bench scan`

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use bigquery_local::{LocalBigQuery, LocalOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::{RawOptions, with_bigquery};
use futures::TryStreamExt;
use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use tonic::transport::Channel;

use api::big_query_read_client::BigQueryReadClient;
use api::{CreateReadSessionRequest, DataFormat, ReadRowsRequest, ReadSession};

const ROUNDS: usize = 7;
const STREAMS: i32 = 2;

/// What one pass over the table took.
#[derive(Clone, Copy)]
struct Pass {
    rows: i64,
    took: Duration,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = LocalBigQuery::start(LocalOptions {
        stream_bytes: 1 << 20,
        ..LocalOptions::default()
    })
    .await?;
    load(&server).await?;
    let context = session(&server)?;

    let (mut bare, mut sql) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let (pass, received) = read_bare(&server).await?;
        bytes = received;
        bare.push(pass);
        sql.push(read_sql(&context).await?);
    }
    let (bare, sql) = (fastest(&bare), fastest(&sql));
    assert_eq!(bare.rows, sql.rows, "both readers see the whole table");

    let megabytes = bytes as f64 / 1e6;
    let mut out = io::stdout();
    writeln!(
        out,
        "flights, all columns, {} rows, {megabytes:.1} MB of record batches",
        sql.rows
    )?;
    for (name, pass) in [("bare gRPC client", bare), ("SQL scan", sql)] {
        let seconds = pass.took.as_secs_f64();
        writeln!(
            out,
            "{name:>16}: {:6.1} ms, {:7.1} MB/s",
            seconds * 1e3,
            megabytes / seconds
        )?;
    }
    writeln!(
        out,
        "SQL scan / bare gRPC client: {:.2} of its throughput",
        bare.took.as_secs_f64() / sql.took.as_secs_f64()
    )?;
    server.shutdown().await;
    Ok(())
}

fn fastest(passes: &[Pass]) -> Pass {
    *passes
        .iter()
        .min_by_key(|pass| pass.took)
        .expect("there is at least one round")
}

fn session(server: &LocalBigQuery) -> Result<SessionContext, Box<dyn Error>> {
    let options = RawOptions::from_pairs([
        ("project", "local"),
        ("rest_endpoint", &server.rest_endpoint()),
        ("grpc_endpoint", &server.grpc_endpoint()),
        ("scan.compression", "none"),
        ("scan.max_stream_count", &STREAMS.to_string()),
        ("scan.preferred_min_stream_count", "1"),
    ])?;
    let builder = SessionStateBuilder::new_with_default_features();
    Ok(SessionContext::new_with_state(
        with_bigquery(builder, options)?.build(),
    ))
}

/// Reads the table through a physical plan and drops the batches.
async fn read_sql(context: &SessionContext) -> Result<Pass, Box<dyn Error>> {
    let began = Instant::now();
    let plan = context
        .sql("SELECT * FROM bq.nycflights13.flights")
        .await?
        .create_physical_plan()
        .await?;
    let reads = execute_stream_partitioned(plan, context.task_ctx())?
        .into_iter()
        .map(|partition| {
            tokio::spawn(partition.try_fold(0i64, |rows, batch| async move {
                Ok(rows + i64::try_from(batch.num_rows()).unwrap_or(i64::MAX))
            }))
        });
    let mut rows = 0;
    for read in futures::future::join_all(reads).await {
        rows += read??;
    }
    Ok(Pass {
        rows,
        took: began.elapsed(),
    })
}

/// Receives the same table and drops the messages undecoded. Answers the pass and
/// the bytes of all record batches.
async fn read_bare(server: &LocalBigQuery) -> Result<(Pass, usize), Box<dyn Error>> {
    let began = Instant::now();
    let channel = Channel::from_shared(server.grpc_endpoint())?
        .initial_stream_window_size(16 << 20)
        .initial_connection_window_size(32 << 20)
        .connect()
        .await?;
    let client = BigQueryReadClient::new(channel).max_decoding_message_size(256 << 20);
    let session = client
        .clone()
        .create_read_session(CreateReadSessionRequest {
            parent: "projects/local".into(),
            read_session: Some(ReadSession {
                table: "projects/local/datasets/nycflights13/tables/flights".into(),
                data_format: DataFormat::Arrow.into(),
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
    let pass = Pass {
        rows,
        took: began.elapsed(),
    };
    Ok((pass, bytes))
}

/// Loads `flights` the way any client of BigQuery does: a multipart upload.
async fn load(server: &LocalBigQuery) -> Result<(), Box<dyn Error>> {
    let http = reqwest::Client::new();
    let rest = server.rest_endpoint();
    http.post(format!("{rest}/bigquery/v2/projects/local/datasets"))
        .header("content-type", "application/json")
        .body(r#"{"datasetReference": {"datasetId": "nycflights13"}}"#)
        .send()
        .await?
        .error_for_status()?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/flights.parquet");
    let configuration = r#"{"jobReference": {"jobId": "load"}, "configuration": {"load": {
        "sourceFormat": "PARQUET", "destinationTable":
        {"projectId": "local", "datasetId": "nycflights13", "tableId": "flights"}}}}"#;
    let mut body = Vec::new();
    write!(
        body,
        "--part\r\nContent-Type: application/json\r\n\r\n{configuration}\r\n\
         --part\r\nContent-Type: application/octet-stream\r\n\r\n"
    )?;
    body.extend(std::fs::read(file)?);
    body.extend(b"\r\n--part--\r\n");
    http.post(format!(
        "{rest}/upload/bigquery/v2/projects/local/jobs?uploadType=multipart"
    ))
    .header("content-type", "multipart/related; boundary=part")
    .body(body)
    .send()
    .await?
    .error_for_status()?;
    loop {
        let text = http
            .get(format!(
                "{rest}/bigquery/v2/projects/local/jobs/load?location=US"
            ))
            .send()
            .await?
            .error_for_status()?
            .text()
            .await?;
        let job: serde_json::Value = serde_json::from_str(&text)?;
        let status = &job["status"];
        if status["state"] != "DONE" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        } else if status["errorResult"].is_null() {
            return Ok(());
        } else {
            return Err(status["errorResult"].to_string().into());
        }
    }
}
