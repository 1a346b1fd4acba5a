//! Entries of the areas K, M, N, P and R about load jobs and replaced rows.

use std::sync::Arc;
use std::time::Duration;

use bigquery_local::faults::{Action, Rule};
use datafusion::arrow::array::{Float64Array, RecordBatch};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::options::FileLoadOptions;
use datafusion_bigquery::{Error, ErrorKind};

use crate::harness::{Server, commit_metric, error, plan, rows, run, text, write_metric};
use crate::load_commit::{server, stored, tables};

fn session(server: &Server, method: &str) -> SessionContext {
    server.session_saying_all(&[
        ("sink.write_method", method),
        ("sink.file_loads.staging_path", "gs://bucket/staged"),
        ("sink.file_loads.load_job_poll.initial_backoff", "1 ms"),
        ("sink.file_loads.load_job_poll.max_backoff", "5 ms"),
    ])
}

fn loads(server: &Server) -> SessionContext {
    session(server, "file_loads")
}

fn refused() -> Action {
    Action::Http {
        status: 400,
        reason: "invalid".into(),
        message: "on purpose".into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k05_a_load_that_fails_leaves_the_table_and_its_rows() {
    for statement in ["INSERT INTO", "INSERT OVERWRITE"] {
        let server = server().await;
        server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
        server.query("INSERT INTO d.t VALUES (1, 'old')").await;
        server.fault(Rule::once("jobs.insert", refused()).always());
        error(
            &loads(&server),
            &format!("{statement} bq.d.t VALUES (2, 'new')"),
        )
        .await;
        assert_eq!(stored(&server, "t").await, "1 1 1 1", "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k14_the_rows_that_jobs_wrote_are_held_against_those_that_were_given() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
    let insert = "INSERT INTO bq.d.t SELECT value, 'x' FROM generate_series(1, 1000)";
    let planned = plan(&loads(&server), insert).await;
    run(&loads(&server), &planned).await;
    assert_eq!(write_metric(&planned, "rows_written"), 1000);
    assert_eq!(commit_metric(&planned, "load_jobs_submitted"), 1);
    let jobs = server.jobs("load").await;
    let statistics = &jobs[0]["statistics"]["load"];
    assert_eq!(statistics["outputRows"], "1000");
    assert_eq!(stored(&server, "t").await, "1000 1000 1 1000");
}

#[tokio::test(flavor = "multi_thread")]
async fn k16_no_rows_are_no_job_and_no_error() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
    let answer = text(
        &loads(&server),
        "INSERT INTO bq.d.t SELECT 1, 'x' WHERE false",
    )
    .await;
    assert!(answer.contains("| 0     |"), "{answer}");
    assert_eq!(server.jobs("load").await.len(), 0);
    assert_eq!(server.objects("bucket").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn m05_the_unit_of_a_time_is_that_of_its_type() {
    let server = server().await;
    server
        .query("CREATE TABLE d.t (t TIMESTAMP, l DATETIME)")
        .await;
    let context = loads(&server);
    let unit = |unit: &str| {
        format!("arrow_cast(TIMESTAMP '2022-07-28 03:16:24', 'Timestamp({unit}, None)')")
    };
    for name in ["Second", "Millisecond", "Microsecond", "Nanosecond"] {
        let (zoned, civil) = (unit(name), unit(name));
        rows(
            &context,
            &format!("INSERT INTO bq.d.t SELECT {zoned} AS t, {civil} AS l"),
        )
        .await;
    }
    let found = text(&context, "SELECT DISTINCT t, l FROM bq.d.t").await;
    assert_eq!(found.lines().count(), 5, "one row: {found}");
    assert!(
        found.contains("| 2022-07-28T03:16:24Z | 2022-07-28T03:16:24 |"),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn m06_the_first_instant_of_bigquery_is_loaded() {
    let server = server().await;
    server
        .query("CREATE TABLE d.t (t TIMESTAMP, l DATETIME, d DATE)")
        .await;
    let context = loads(&server);
    for format in ["avro", "parquet"] {
        rows(
            &context,
            &format!("SET bigquery.sink.file_loads.staging_format = '{format}'"),
        )
        .await;
        rows(
            &context,
            "INSERT INTO bq.d.t SELECT \
             arrow_cast(-62135596800000000, 'Timestamp(Microsecond, None)') AS t, \
             arrow_cast(-62135596800000000, 'Timestamp(Microsecond, None)') AS l, \
             arrow_cast(arrow_cast(-719162, 'Int32'), 'Date32') AS d",
        )
        .await;
    }
    let found = text(&context, "SELECT DISTINCT t, l, d FROM bq.d.t").await;
    assert_eq!(found.lines().count(), 5, "one row: {found}");
    let first = "| 0001-01-01T00:00:00Z | 0001-01-01T00:00:00 | 0001-01-01 |";
    assert!(found.contains(first), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_an_array_with_a_null_is_refused_by_column_and_row() {
    let server = server().await;
    server
        .query("CREATE TABLE d.t (n INT64, a ARRAY<INT64>)")
        .await;
    let failed = error(
        &loads(&server),
        "INSERT INTO bq.d.t VALUES (1, [1, 3]), (2, [1, NULL, 3])",
    )
    .await;
    for part in ["row 2", "'a'", "NULL element"] {
        assert!(failed.to_string().contains(part), "{failed}");
    }
    assert_eq!(server.jobs("load").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_every_float_arrives() {
    let server = server().await;
    server.query("CREATE TABLE d.t (x FLOAT64)").await;
    let context = loads(&server);
    let floats = [
        0.0,
        -0.0,
        1.5,
        f64::MIN_POSITIVE / 2.0,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let batch =
        RecordBatch::try_from_iter([("x", Arc::new(Float64Array::from(floats.to_vec())) as _)])
            .unwrap();
    context.register_batch("given", batch).unwrap();
    for format in ["avro", "parquet"] {
        rows(
            &context,
            &format!("SET bigquery.sink.file_loads.staging_format = '{format}'"),
        )
        .await;
        rows(&context, "INSERT OVERWRITE bq.d.t SELECT x FROM given").await;
        let batches = rows(&context, "SELECT x FROM bq.d.t").await;
        let mut found: Vec<u64> = Vec::new();
        for batch in &batches {
            let column = batch.column(0).as_any().downcast_ref::<Float64Array>();
            found.extend(column.unwrap().values().iter().map(|x| x.to_bits()));
        }
        let mut expected: Vec<u64> = floats.iter().map(|x| x.to_bits()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m15_bytes_are_loaded_as_they_are() {
    let server = server().await;
    server
        .query("CREATE TABLE d.t (b BYTES, a ARRAY<BYTES>)")
        .await;
    let context = loads(&server);
    rows(
        &context,
        "INSERT INTO bq.d.t VALUES (X'00ff10', [X'', X'fe'])",
    )
    .await;
    let found = text(&context, "SELECT b, a FROM bq.d.t").await;
    assert_eq!(found.matches("| 00ff10 | [, fe] |").count(), 1, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn n07_a_column_that_the_table_lacks_is_not_ignored() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
    let context = loads(&server);
    rows(
        &context,
        "CREATE EXTERNAL TABLE declared STORED AS BIGQUERY LOCATION 'demo.d.t'",
    )
    .await;
    // The table changes behind the statement's back.
    let frame = context
        .sql("INSERT INTO declared VALUES (1, 'x')")
        .await
        .unwrap();
    server.query("ALTER TABLE d.t DROP COLUMN s").await;
    let failed = frame.collect().await.unwrap_err();
    let failed = Error::find_in(&failed).unwrap();
    assert_eq!(failed.kind(), ErrorKind::FailedPrecondition);
    assert!(failed.to_string().contains("would be lost: s"), "{failed}");
    assert_eq!(server.jobs("load").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn p02_temporary_tables_go_or_expire() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
    let context = session(&server, "storage_api_at_least_once");
    rows(&context, "INSERT OVERWRITE bq.d.t VALUES (1, 'x')").await;
    assert_eq!(tables(&server).await, ["t"]);
    // Not refused for good: what is, is deleted at once.
    let denied = Action::Http {
        status: 403,
        reason: "accessDenied".into(),
        message: "on purpose".into(),
    };
    server.fault(Rule::once("jobs.insert", denied).always());
    error(&context, "INSERT OVERWRITE bq.d.t VALUES (2, 'y')").await;
    let left = tables(&server).await;
    assert_eq!(left.len(), 2, "{left:?}");
    for table in left.iter().filter(|table| *table != "t") {
        let found = server.get(&format!("datasets/d/tables/{table}")).await;
        assert!(found["expirationTime"].is_string(), "{found}");
    }
    assert_eq!(stored(&server, "t").await, "1 1 1 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn p03_replacing_rows_keeps_descriptions_and_constraints() {
    for method in ["file_loads", "storage_api_at_least_once"] {
        let server = server().await;
        server
            .query(
                "CREATE TABLE d.t (n INT64 OPTIONS (description = 'number'), s STRING DEFAULT 'x', \
                 PRIMARY KEY (n) NOT ENFORCED)",
            )
            .await;
        let before = server.get("datasets/d/tables/t").await;
        let context = session(&server, method);
        rows(&context, "INSERT OVERWRITE bq.d.t VALUES (1, 'a')").await;
        let after = server.get("datasets/d/tables/t").await;
        for member in ["schema", "tableConstraints"] {
            assert_eq!(after[member], before[member], "{method}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p04_rows_of_a_table_that_requires_a_filter_are_replaced() {
    for method in ["file_loads", "storage_api_at_least_once"] {
        let server = server().await;
        server
            .query(
                "CREATE TABLE d.t (n INT64, day DATE) PARTITION BY day \
                 OPTIONS (require_partition_filter = true)",
            )
            .await;
        server
            .query("INSERT INTO d.t VALUES (1, '2026-01-01')")
            .await;
        let context = session(&server, method);
        rows(
            &context,
            "INSERT OVERWRITE bq.d.t VALUES (2, DATE '2026-01-02')",
        )
        .await;
        let sql = "SELECT n FROM bq.d.t WHERE day > DATE '2025-01-01'";
        assert!(text(&context, sql).await.contains("| 2 |"), "{method}");
    }
}

#[test]
fn r04_commits_that_would_use_up_the_load_jobs_of_a_day_are_refused() {
    let options = FileLoadOptions::default();
    let failed = options.check_interval(Duration::from_secs(30)).unwrap_err();
    assert!(failed.message().contains("1,500"), "{failed}");
}
