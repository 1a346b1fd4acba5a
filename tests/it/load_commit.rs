//! Commits of staged files: plans of several jobs, repetitions, and crashes at every
//! point.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion_bigquery::options::Options;
use datafusion_bigquery::sink::{BigQuerySink, Committable, LoadLimits};
use datafusion_bigquery::{Error, ErrorKind, RawOptions, TableRef};

use crate::harness::{PROJECT, Server, text};

pub(crate) const TINY: LoadLimits = LoadLimits {
    uris: 2,
    bytes: 1 << 40,
    copy_sources: 2,
    query_sources: 2,
    jobs: 100,
    wave: 3,
};

pub(crate) async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server.create_bucket("bucket").await;
    server
}

pub(crate) async fn sink(
    server: &Server,
    table: &str,
    limits: LoadLimits,
    more: &[(&str, &str)],
) -> BigQuerySink {
    let mut said = vec![
        ("sink.write_method", "file_loads"),
        ("sink.file_loads.staging_path", "gs://bucket/staged"),
        ("sink.file_loads.load_job_poll.initial_backoff", "1 ms"),
        ("sink.file_loads.load_job_poll.max_backoff", "5 ms"),
        ("sink.file_loads.max_staging_file_bytes", "1 KiB"),
    ];
    said.retain(|(name, _)| more.iter().all(|(other, _)| name != other));
    said.extend(more);
    let said = RawOptions::from_pairs(said).unwrap();
    let options = Options::resolve_over(&said, &server.options()).unwrap();
    let table: TableRef = format!("{PROJECT}.d.{table}").parse().unwrap();
    BigQuerySink::builder(server.client(), table)
        .with_options(options.sink)
        .with_load_limits(limits)
        .build(schema())
        .await
        .unwrap()
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ]))
}

/// Rows that take about a file for every ten.
pub(crate) fn batch(numbers: std::ops::Range<i64>) -> RecordBatch {
    let texts = numbers.clone().map(|n| format!("{n:0100}"));
    let texts = StringArray::from_iter_values(texts);
    RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(Int64Array::from_iter_values(numbers)),
            Arc::new(texts),
        ],
    )
    .unwrap()
}

/// Stages rows, by two writers.
pub(crate) async fn stage(sink: &BigQuerySink, numbers: std::ops::Range<i64>) -> Vec<Committable> {
    let middle = i64::midpoint(numbers.start, numbers.end);
    let mut prepared = Vec::new();
    for (subtask, numbers) in [numbers.start..middle, middle..numbers.end]
        .into_iter()
        .enumerate()
    {
        let mut writer = sink.writer(subtask, None).unwrap();
        writer.write(batch(numbers)).await.unwrap();
        prepared.extend(writer.prepare_commit().await.unwrap());
        writer.close().await.unwrap();
    }
    prepared
}

pub(crate) fn files(prepared: &[Committable]) -> usize {
    prepared
        .iter()
        .map(|committable| match committable {
            Committable::FileLoadsV1(loads) => loads.files.len(),
            other => panic!("files are staged, not {other:?}"),
        })
        .sum()
}

/// How many rows the table has, how many different ones, and the least and the
/// greatest.
pub(crate) async fn stored(server: &Server, table: &str) -> String {
    let sql = format!(
        "SELECT count(*) AS c, count(DISTINCT n) AS d, min(n) AS l, max(n) AS m FROM bq.d.{table}"
    );
    let found = text(&server.session(1), &sql).await;
    let line = found.lines().nth(3).unwrap();
    let cells = line.split('|').map(str::trim).filter(|c| !c.is_empty());
    cells.collect::<Vec<_>>().join(" ")
}

/// The tables of the dataset.
pub(crate) async fn tables(server: &Server) -> Vec<String> {
    let answer = server.get("datasets/d/tables?maxResults=1000").await;
    let tables = answer["tables"].as_array().cloned().unwrap_or_default();
    tables
        .iter()
        .map(|table| {
            table["tableReference"]["tableId"]
                .as_str()
                .unwrap()
                .to_string()
        })
        .collect()
}

async fn create(server: &Server, table: &str) {
    server
        .query(&format!(
            "CREATE TABLE d.{table} (n INT64 NOT NULL, s STRING OPTIONS (description = 'text'), \
             PRIMARY KEY (n) NOT ENFORCED) \
             PARTITION BY RANGE_BUCKET(n, GENERATE_ARRAY(0, 1000, 100)) CLUSTER BY s"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_files_than_a_job_takes_go_through_temporary_tables() {
    for (disposition, first, second) in [
        ("write_append", "200 200 0 199", "400 400 0 399"),
        ("write_truncate", "200 200 0 199", "200 200 200 399"),
        ("write_truncate_data", "200 200 0 199", "200 200 200 399"),
        ("write_empty", "200 200 0 199", "200 200 0 199"),
    ] {
        let server = server().await;
        create(&server, "t").await;
        let more = [("sink.file_loads.write_disposition", disposition)];
        let sink = sink(&server, "t", TINY, &more).await;
        for (numbers, expected) in [(0..200, first), (200..400, second)] {
            let prepared = stage(&sink, numbers).await;
            assert!(files(&prepared) > 8, "{prepared:?}");
            let committer = sink.committer();
            let outcome = committer.commit(prepared.clone()).await;
            if let Err(error) = outcome {
                assert_eq!(disposition, "write_empty");
                assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            } else {
                assert!(committer.counters().jobs_submitted() > 8);
                assert_eq!(committer.counters().jobs_reattached(), 0);
                // Again, it finds what was done and does nothing.
                let again = sink.committer();
                assert_eq!(again.commit(prepared).await.unwrap(), 200);
                assert_eq!(again.counters().jobs_submitted(), 0);
                assert_eq!(tables(&server).await, ["t"], "{disposition}");
                assert_eq!(server.objects("bucket").await, Vec::<String>::new());
            }
            assert_eq!(stored(&server, "t").await, expected, "{disposition}");
        }
        let found = server.get("datasets/d/tables/t").await;
        assert_eq!(found["clustering"]["fields"][0], "s");
        assert_eq!(found["rangePartitioning"]["field"], "n");
        assert_eq!(found["schema"]["fields"][0]["mode"], "REQUIRED");
        assert_eq!(found["schema"]["fields"][1]["description"], "text");
        let key = found.pointer("/tableConstraints/primaryKey/columns/0");
        assert_eq!(key.and_then(|key| key.as_str()), Some("n"), "{disposition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_made_again_changes_nothing() {
    let server = server().await;
    create(&server, "t").await;
    let sink = sink(&server, "t", LoadLimits::default(), &[]).await;
    let mut prepared = stage(&sink, 0..100).await;
    assert_eq!(
        sink.committer().commit(prepared.clone()).await.unwrap(),
        100
    );
    prepared.reverse();
    // What was stored is read by another process.
    let stored_text = serde_json::to_string(&prepared).unwrap();
    let restored: Vec<Committable> = serde_json::from_str(&stored_text).unwrap();
    let other = self::sink(&server, "t", LoadLimits::default(), &[]).await;
    let committer = other.committer();
    assert_eq!(committer.commit(restored).await.unwrap(), 100);
    assert_eq!(committer.counters().jobs_submitted(), 0);
    assert_eq!(committer.counters().jobs_reattached(), 1);
    assert_eq!(stored(&server, "t").await, "100 100 0 99");
    assert_eq!(server.jobs("load").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_failed_can_be_made_again_when_its_reason_is_gone() {
    let server = server().await;
    create(&server, "t").await;
    let more = [("sink.file_loads.write_disposition", "write_empty")];
    let sink = sink(&server, "t", LoadLimits::default(), &more).await;
    server.query("INSERT INTO d.t VALUES (7, 'x')").await;
    let prepared = stage(&sink, 0..100).await;
    let failed = sink.committer().commit(prepared.clone()).await.unwrap_err();
    for part in ["demo.d.t", "gs://bucket/staged", "duplicate"] {
        assert!(failed.to_string().contains(part), "{failed}");
    }
    assert_eq!(server.objects("bucket").await.len(), files(&prepared));
    server.query("DELETE FROM d.t WHERE true").await;
    assert_eq!(sink.committer().commit(prepared).await.unwrap(), 100);
    assert_eq!(stored(&server, "t").await, "100 100 0 99");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_table_that_expired_is_filled_again() {
    let server = server().await;
    create(&server, "t").await;
    let sink = sink(&server, "t", TINY, &[]).await;
    let prepared = stage(&sink, 0..60).await;
    // The last job fails for good, and the temporary tables vanish before the commit
    // is made again.
    let rule = server.refuse_copies_into("demo.d.t");
    sink.committer().commit(prepared.clone()).await.unwrap_err();
    assert!(server.acted(rule) > 0);
    server.unfault(rule);
    let left = tables(&server).await;
    assert!(left.len() > 2, "{left:?}");
    for table in left.iter().filter(|table| *table != "t") {
        server.query(&format!("DROP TABLE d.{table}")).await;
    }
    assert_eq!(sink.committer().commit(prepared).await.unwrap(), 60);
    assert_eq!(stored(&server, "t").await, "60 60 0 59");
    assert_eq!(tables(&server).await, ["t"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_tables_expire_and_may_have_a_dataset_of_their_own() {
    let server = server().await;
    server.create_dataset("scratch").await;
    create(&server, "t").await;
    let more = [("sink.file_loads.temp_dataset", "scratch")];
    let sink = sink(&server, "t", TINY, &more).await;
    let prepared = stage(&sink, 0..60).await;
    let rule = server.refuse_copies_into("demo.d.t");
    sink.committer().commit(prepared.clone()).await.unwrap_err();
    server.unfault(rule);
    assert_eq!(tables(&server).await, ["t"]);
    let answer = server.get("datasets/scratch/tables?maxResults=1000").await;
    let found = answer["tables"].as_array().unwrap();
    assert!(found.len() > 2, "{answer}");
    for table in found {
        let id = table["tableReference"]["tableId"].as_str().unwrap();
        let table = server.get(&format!("datasets/scratch/tables/{id}")).await;
        assert!(table["expirationTime"].is_string(), "{table}");
    }
    sink.committer().commit(prepared).await.unwrap();
    let answer = server.get("datasets/scratch/tables").await;
    assert_eq!(answer["tables"].as_array().map_or(0, Vec::len), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_vanish_before_the_commit_are_not_lost_silently() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
    let sink = sink(&server, "t", LoadLimits::default(), &[]).await;
    let prepared = stage(&sink, 0..10).await;
    server.query("ALTER TABLE d.t DROP COLUMN s").await;
    let failed = sink.committer().commit(prepared).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::FailedPrecondition);
    assert!(failed.message().ends_with(": s"), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_staged_file_that_changed_is_noticed() {
    let server = server().await;
    create(&server, "t").await;
    let sink = sink(&server, "t", LoadLimits::default(), &[]).await;
    let mut prepared = stage(&sink, 0..40).await;
    let Committable::FileLoadsV1(loads) = &mut prepared[0] else {
        panic!("files are staged")
    };
    loads.files[0].rows += 1;
    let failed: Error = sink.committer().commit(prepared).await.unwrap_err();
    assert!(failed.message().contains("wrote 40 rows of 41"), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_staged_file_that_changed_is_told_before_any_row_is_there() {
    for (name, gone) in [("has 3 bytes", false), ("is not there any more", true)] {
        let server = server().await;
        create(&server, "t").await;
        let sink = sink(&server, "t", LoadLimits::default(), &[]).await;
        let prepared = stage(&sink, 0..40).await;
        let object = server.objects("bucket").await.remove(1);
        let url = format!("{}/bucket/{object}", server.storage_endpoint());
        let client = reqwest::Client::new();
        let request = match gone {
            true => client.delete(url),
            false => client.put(url).body("abc"),
        };
        assert!(request.send().await.unwrap().status().is_success());
        let failed: Error = sink.committer().commit(prepared).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Data, "{failed}");
        for part in [name, &object] {
            assert!(failed.to_string().contains(part), "{failed}");
        }
        assert_eq!(stored(&server, "t").await, "0 0", "{name}");
        assert!(server.jobs("load").await.is_empty(), "{name}");
    }
}
