//! Writes record batches to a table with Google's Rust SDK, its Arrow writer.
//!
//! Arguments: rest, grpc, storage, project.dataset.table, rows, a file of batches.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use google_cloud_auth::credentials::anonymous;
use google_cloud_bigquery::client::Write;
use google_cloud_bigquery::model::{ArrowRecordBatch, ArrowSchema};
use google_cloud_bigquery::write::DefaultWriter;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Connections, as the other writers have.
const CONNECTIONS: usize = 2;

/// Rows of a request, so that it has about the bytes of the other writers' ones.
const REQUEST_ROWS: usize = 4_096;

/// Requests that a writer does not yet have answers to.
const IN_FLIGHT: usize = 50;

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [_, grpc, _, table, rows, file] = arguments.as_slice() else {
        return Err("rest, grpc, storage, table, rows and a file are needed".into());
    };
    let batches = read(file)?;
    let schema = writable(&batches[0])?.schema();
    let rows: usize = rows.parse()?;
    let parts: Vec<&str> = table.split('.').collect();
    let resource = format!(
        "projects/{}/datasets/{}/tables/{}",
        parts[0], parts[1], parts[2]
    );
    let client = Write::builder()
        .with_endpoint(grpc)
        .with_credentials(anonymous::Builder::new().build())
        .build()
        .await?;

    let began = Instant::now();
    let mut writers = Vec::new();
    for part in repeated(&batches, rows) {
        let writer = client
            .open_default_stream(&resource)
            .build_arrow(ArrowSchema::new().set_serialized_schema(schema_message(&schema)?))
            .await?;
        writers.push(tokio::spawn(write(writer, part)));
    }
    let mut bytes = 0;
    for writer in writers {
        bytes += writer.await??;
    }
    println!(
        "{}",
        serde_json::json!({
            "seconds": began.elapsed().as_secs_f64(), "rows": rows, "bytes": bytes
        })
    );
    Ok(())
}

/// The batch with decimals as BigQuery's NUMERIC is in Arrow: it takes no others.
fn writable(batch: &RecordBatch) -> Outcome<RecordBatch> {
    let numeric = DataType::Decimal128(38, 9);
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let column = match column.data_type() {
            DataType::Decimal128(..) => cast(column, &numeric)?,
            _ => column.clone(),
        };
        fields.push(Field::new(field.name(), column.data_type().clone(), true));
        columns.push(column);
    }
    Ok(RecordBatch::try_new(Schema::new(fields).into(), columns)?)
}

fn read(file: &str) -> Outcome<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for batch in StreamReader::try_new(BufReader::new(File::open(file)?), None)? {
        let batch = batch?;
        for start in (0..batch.num_rows()).step_by(REQUEST_ROWS) {
            let count = REQUEST_ROWS.min(batch.num_rows() - start);
            batches.push(batch.slice(start, count));
        }
    }
    Ok(batches)
}

fn repeated(batches: &[RecordBatch], rows: usize) -> Vec<Vec<RecordBatch>> {
    let mut divided = vec![Vec::new(); CONNECTIONS];
    let mut missing = rows;
    for (number, batch) in batches.iter().cycle().enumerate() {
        if missing == 0 {
            break;
        }
        let count = batch.num_rows().min(missing);
        divided[number % CONNECTIONS].push(batch.slice(0, count));
        missing -= count;
    }
    divided
}

async fn write(
    writer: DefaultWriter<google_cloud_bigquery::write::format::Arrow>,
    batches: Vec<RecordBatch>,
) -> Outcome<usize> {
    let mut bytes = 0;
    let mut unanswered = std::collections::VecDeque::new();
    for batch in batches {
        let message = batch_message(&writable(&batch)?)?;
        bytes += message.len();
        let rows = ArrowRecordBatch::new().set_serialized_record_batch(message);
        unanswered.push_back(writer.append(rows).send());
        if unanswered.len() >= IN_FLIGHT
            && let Some(oldest) = unanswered.pop_front()
        {
            oldest.await?;
        }
    }
    for answer in unanswered {
        answer.await?;
    }
    Ok(bytes)
}

fn schema_message(schema: &SchemaRef) -> Outcome<Vec<u8>> {
    let options = IpcWriteOptions::default();
    let mut tracker = DictionaryTracker::new(true);
    let data = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        schema,
        &mut tracker,
        &options,
    );
    let mut message = Vec::new();
    write_message(&mut message, data, &options)?;
    Ok(message)
}

fn batch_message(batch: &RecordBatch) -> Outcome<Vec<u8>> {
    let options = IpcWriteOptions::default();
    let mut tracker = DictionaryTracker::new(true);
    let (_, data) = IpcDataGenerator::default().encode(
        batch,
        &mut tracker,
        &options,
        &mut IpcWriteContext::default(),
    )?;
    let mut message = Vec::new();
    write_message(&mut message, data, &options)?;
    Ok(message)
}
