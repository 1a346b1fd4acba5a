//! Drives the sink as a streaming engine does: parallel writers, checkpoints of its
//! own, a crash between two of them, and every row once.
//!
//! Run it with `cargo run --example checkpoints`. To write to the service itself, leave
//! out the endpoints and name your project.

use std::error::Error;
use std::sync::Arc;

use bigquery_local::{LocalBigQuery, LocalOptions};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion_bigquery::options::{Options, WriteMethod};
use datafusion_bigquery::sink::{Committable, SinkWriter, WriterState};
use datafusion_bigquery::{BigQuerySink, Client, RawOptions, TableRef};
use serde::{Deserialize, Serialize};

/// Parallel tasks, and events of each between two checkpoints.
const TASKS: usize = 2;
const EVENTS: i64 = 1_000;

/// What this engine stores at a checkpoint: how far each task has read its source, the
/// state of its writer, and what is to be committed.
#[derive(Serialize, Deserialize)]
struct Checkpoint {
    epoch: i64,
    writers: Vec<WriterState>,
    committables: Vec<Committable>,
}

#[tokio::main]
#[allow(clippy::print_stdout, reason = "the example says what came of it")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = LocalBigQuery::start(LocalOptions::default()).await?;
    make_dataset(&server).await?;
    let sink = sink(&server).await?;

    // The first checkpoint is stored and committed.
    let mut writers = open(&sink, None)?;
    let stored = checkpoint(&mut writers, 1).await?;
    commit(&sink, &stored).await?;

    // The second one is stored, and the engine crashes before it commits, with rows of
    // the third under way.
    let stored = checkpoint(&mut writers, 2).await?;
    for (task, writer) in writers.iter_mut().enumerate() {
        writer.write(events(task, 3)?).await?;
    }
    drop(writers);

    // It starts again from what is stored. Committing may be repeated.
    let restored: Checkpoint = serde_json::from_str(&stored)?;
    commit(&sink, &stored).await?;
    commit(&sink, &stored).await?;
    let mut writers = open(&sink, Some(restored.writers))?;
    let stored = checkpoint(&mut writers, restored.epoch + 1).await?;
    commit(&sink, &stored).await?;
    for writer in writers {
        writer.close().await?;
    }

    let rows = count(&server).await?;
    println!("{rows} rows of {TASKS} tasks after 3 checkpoints and a crash");
    assert_eq!(rows, (3 * EVENTS * TASKS as i64).to_string());
    server.shutdown().await;
    Ok(())
}

/// The sink for events. The table is made when the first of them is written.
async fn sink(server: &LocalBigQuery) -> Result<BigQuerySink, Box<dyn Error>> {
    let options = Options::resolve(&RawOptions::from_pairs([
        ("project", "local"),
        ("rest_endpoint", &server.rest_endpoint()),
        ("grpc_endpoint", &server.grpc_endpoint()),
        ("sink.write_method", "storage_api_exactly_once"),
    ])?)?;
    assert_eq!(
        options.sink.write_method,
        WriteMethod::StorageApiExactlyOnce
    );
    let client = Client::new(&options.connection)?;
    let table: TableRef = "local.engine.events".parse()?;
    let schema = events(0, 1)?.schema();
    let sink = BigQuerySink::builder(client, table)
        .with_options(options.sink)
        .build(schema)
        .await?;
    Ok(sink)
}

/// A writer for each task, from its state if it goes on after a crash.
fn open(
    sink: &BigQuerySink,
    states: Option<Vec<WriterState>>,
) -> Result<Vec<SinkWriter>, Box<dyn Error>> {
    let states = match states {
        Some(states) => states.into_iter().map(Some).collect(),
        None => vec![None; TASKS],
    };
    let mut writers = Vec::new();
    for (task, state) in states.into_iter().enumerate() {
        writers.push(sink.writer(task, state)?);
    }
    Ok(writers)
}

/// Writes the events of one epoch and gives out the checkpoint after it, as stored.
async fn checkpoint(writers: &mut [SinkWriter], epoch: i64) -> Result<String, Box<dyn Error>> {
    let mut states = Vec::new();
    let mut committables = Vec::new();
    for (task, writer) in writers.iter_mut().enumerate() {
        writer.write(events(task, epoch)?).await?;
        committables.extend(writer.prepare_commit().await?);
        states.push(writer.snapshot()?);
    }
    let checkpoint = Checkpoint {
        epoch,
        writers: states,
        committables,
    };
    Ok(serde_json::to_string(&checkpoint)?)
}

async fn commit(sink: &BigQuerySink, stored: &str) -> Result<(), Box<dyn Error>> {
    let checkpoint: Checkpoint = serde_json::from_str(stored)?;
    sink.committer().commit(checkpoint.committables).await?;
    Ok(())
}

/// What a task's source gives in an epoch: the same whenever it is asked.
fn events(task: usize, epoch: i64) -> Result<RecordBatch, Box<dyn Error>> {
    let first = (epoch - 1) * EVENTS;
    let ids: Int64Array = (first..first + EVENTS).collect();
    let tasks = Int64Array::from_value(i64::try_from(task)?, ids.len());
    let columns = [
        ("task", Arc::new(tasks) as ArrayRef),
        ("id", Arc::new(ids) as ArrayRef),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

async fn make_dataset(server: &LocalBigQuery) -> Result<(), Box<dyn Error>> {
    let url = format!(
        "{}/bigquery/v2/projects/local/datasets",
        server.rest_endpoint()
    );
    reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json")
        .body(r#"{"datasetReference": {"datasetId": "engine"}}"#)
        .send()
        .await?
        .error_for_status()?;
    Ok(())
}

/// The distinct events in the table, counted by BigQuery.
async fn count(server: &LocalBigQuery) -> Result<String, Box<dyn Error>> {
    let url = format!(
        "{}/bigquery/v2/projects/local/queries",
        server.rest_endpoint()
    );
    let body = serde_json::json!({
        "query": "SELECT IF(COUNT(*) = COUNT(DISTINCT id * 10 + task), COUNT(*), -1) \
                  FROM engine.events",
        "useLegacySql": false,
    });
    let answer = reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await?
        .error_for_status()?
        .text()
        .await?;
    let answer: serde_json::Value = serde_json::from_str(&answer)?;
    let count = answer["rows"][0]["f"][0]["v"].as_str();
    Ok(count.ok_or("the count is no row")?.to_owned())
}
