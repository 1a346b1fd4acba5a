//! INSERT by load jobs: what is written, what is refused, and what is left over.

use std::time::Duration;

use bigquery_local::faults::{Action, Rule};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::{Error, ErrorKind};
use serde_json::json;

use crate::harness::{Server, commit_metric, error, plan, refused, rows, run, text, write_metric};

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server.create_bucket("bucket").await;
    server
}

fn session<const N: usize>(server: &Server, more: [(&str, &str); N]) -> SessionContext {
    let mut options = vec![
        ("sink.write_method", "file_loads"),
        ("sink.file_loads.staging_path", "gs://bucket/staged"),
        ("sink.file_loads.load_job_poll.initial_backoff", "1 ms"),
        ("sink.file_loads.load_job_poll.max_backoff", "5 ms"),
    ];
    options.extend(more);
    server.session_saying_all(&options)
}

async fn count(context: &SessionContext, table: &str) -> i64 {
    let counts = rows(context, &format!("SELECT count(*) FROM bq.d.{table}")).await;
    counts[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_arrive_by_one_job_and_no_file_stays() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
    let context = session(
        &server,
        [("sink.file_loads.max_staging_file_bytes", "4 KiB")],
    );
    let insert = "INSERT INTO bq.d.t SELECT value, md5(CAST(value AS VARCHAR)) \
                  FROM generate_series(1, 20000)";
    let planned = plan(&context, insert).await;
    run(&context, &planned).await;
    assert_eq!(count(&context, "t").await, 20_000);
    assert_eq!(write_metric(&planned, "rows_written"), 20_000);
    let files = write_metric(&planned, "files_staged");
    assert!(files > 10, "{files}");
    let bytes = write_metric(&planned, "bytes_staged");
    assert!(
        bytes > 2048 * (files - 1) && bytes < 8192 * files,
        "{bytes}"
    );
    assert_eq!(commit_metric(&planned, "load_jobs_submitted"), 1);
    assert!(commit_metric(&planned, "commit_wait") > 0);

    let jobs = server.jobs("load").await;
    assert_eq!(jobs.len(), 1);
    let load = &jobs[0]["configuration"]["load"];
    assert_eq!(load["sourceUris"].as_array().unwrap().len(), files);
    assert_eq!(load["sourceFormat"], "AVRO");
    assert_eq!(load["createDisposition"], "CREATE_NEVER");
    assert_eq!(load["useAvroLogicalTypes"], true);
    assert_eq!(server.objects("bucket").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn staged_files_stay_on_request() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64)").await;
    let context = session(&server, [("sink.file_loads.keep_staged_files", "true")]);
    rows(&context, "INSERT INTO bq.d.t VALUES (1), (2)").await;
    let objects = server.objects("bucket").await;
    assert_eq!(objects.len(), 1, "{objects:?}");
    assert!(objects[0].starts_with("staged/datafusion-"), "{objects:?}");
    assert!(objects[0].ends_with(".avro"), "{objects:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_are_left_out_are_null_or_have_their_defaults() {
    let server = server().await;
    server
        .query("CREATE TABLE d.t (n INT64, s STRING DEFAULT 'x', o STRING, a ARRAY<INT64>)")
        .await;
    let context = session(&server, []);
    rows(&context, "INSERT INTO bq.d.t (n) VALUES (1)").await;
    let context = session(&server, [("sink.missing_value", "default")]);
    rows(&context, "INSERT INTO bq.d.t (n) VALUES (2)").await;
    rows(&context, "INSERT INTO bq.d.t (n, s) VALUES (3, NULL)").await;
    let found = text(&context, "SELECT n, s, o, a FROM bq.d.t ORDER BY n").await;
    let expected = "\
+---+---+---+----+
| n | s | o | a  |
+---+---+---+----+
| 1 |   |   | [] |
| 2 | x |   | [] |
| 3 |   |   | [] |
+---+---+---+----+";
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_cannot_be_written_are_named_and_nothing_is_loaded() {
    let server = server().await;
    server
        .query("CREATE TABLE d.t (n INT64, t TIMESTAMP)")
        .await;
    let insert = "INSERT INTO bq.d.t SELECT value, \
                  CASE WHEN value = 7 THEN TIMESTAMP '2024-01-01 00:00:00.123456789' \
                  ELSE TIMESTAMP '2024-01-01 00:00:00' END FROM generate_series(1, 10)";
    let context = session(&server, []);
    let failed = error(&context, insert).await;
    let failed = Error::find_in(&failed).unwrap();
    for part in ["row 7", "'t'", "finer than the microseconds"] {
        assert!(failed.to_string().contains(part), "{failed}");
    }
    assert_eq!(server.jobs("load").await.len(), 0);
    assert_eq!(count(&context, "t").await, 0);

    let context = session(&server, [("sink.failure.policy", "drop")]);
    let planned = plan(&context, insert).await;
    run(&context, &planned).await;
    assert_eq!(write_metric(&planned, "rows_skipped"), 1);
    assert_eq!(count(&context, "t").await, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_load_jobs_do_not_take_is_refused_at_planning() {
    let server = server().await;
    let fields = json!([
        {"name": "n", "type": "INT64"},
        {"name": "straße", "type": "STRING"},
        {"name": "i", "type": "INTERVAL"},
        {"name": "r", "type": "RANGE", "rangeElementType": {"type": "DATE"}},
    ]);
    server.create_table("d", "t", fields, vec![]).await;
    let context = session(&server, []);
    for (insert, parts) in [
        (
            "INSERT INTO bq.d.t (\"straße\") VALUES ('x')",
            ["'straße'", "ASCII"],
        ),
        (
            "INSERT INTO bq.d.t (i) VALUES (INTERVAL '1' DAY)",
            ["'i'", "INTERVAL"],
        ),
        (
            "INSERT INTO bq.d.t (r) VALUES (named_struct('start', DATE '2024-01-01', 'end', NULL))",
            ["'r'", "RANGE"],
        ),
    ] {
        let frame = context.sql(insert).await.unwrap();
        let failed = frame.create_physical_plan().await.unwrap_err();
        let failed = Error::find_in(&failed).unwrap();
        assert_eq!(failed.kind(), ErrorKind::InvalidArgument);
        for part in parts.into_iter().chain(["sink.write_method"]) {
            assert!(failed.to_string().contains(part), "{failed}");
        }
    }
    // What is not written does not matter.
    rows(&context, "INSERT INTO bq.d.t (n) VALUES (1)").await;
    assert_eq!(count(&context, "t").await, 1);
    // But replacing the schema would drop it.
    let context = session(
        &server,
        [("sink.file_loads.write_disposition", "write_truncate")],
    );
    let failed = error(&context, "INSERT INTO bq.d.t (n) VALUES (1)").await;
    for part in ["'i'", "write_truncate_data"] {
        assert!(failed.to_string().contains(part), "{failed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_becomes_avro_where_a_column_is_json() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64, j JSON)").await;
    let context = session(&server, [("sink.file_loads.staging_format", "parquet")]);
    for (insert, format) in [
        (
            "INSERT INTO bq.d.t VALUES (1, '{\"a\": [1, null]}')",
            "avro",
        ),
        ("INSERT INTO bq.d.t (n) VALUES (2)", "avro"),
    ] {
        let explained = text(&context, &format!("EXPLAIN {insert}")).await;
        assert!(
            explained.contains(&format!("format={format}")),
            "{explained}"
        );
        rows(&context, insert).await;
    }
    let found = text(&context, "SELECT n, j FROM bq.d.t ORDER BY n").await;
    assert!(found.contains(r#"| 1 | {"a":[1,null]} |"#), "{found}");
    assert!(found.contains("| 2 |"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dispositions_do_what_they_say() {
    let server = server().await;
    for (disposition, first, second) in [
        ("write_append", 2, 3),
        ("write_truncate", 2, 1),
        ("write_truncate_data", 2, 1),
    ] {
        let table = format!("t_{disposition}");
        server
            .query(&format!(
                "CREATE TABLE d.{table} (n INT64 NOT NULL, d DATE, PRIMARY KEY (n) NOT ENFORCED) \
                 PARTITION BY d CLUSTER BY n OPTIONS (description = 'kept')"
            ))
            .await;
        let context = session(
            &server,
            [("sink.file_loads.write_disposition", disposition)],
        );
        let insert = |values: &str| format!("INSERT INTO bq.d.{table} VALUES {values}");
        rows(&context, &insert("(1, DATE '2024-01-01'), (2, NULL)")).await;
        assert_eq!(count(&context, &table).await, first, "{disposition}");
        rows(&context, &insert("(3, DATE '2024-01-02')")).await;
        assert_eq!(count(&context, &table).await, second, "{disposition}");
        let found = server.get(&format!("datasets/d/tables/{table}")).await;
        assert_eq!(found["schema"]["fields"][0]["mode"], "REQUIRED");
        assert_eq!(found["timePartitioning"]["field"], "d");
        assert_eq!(found["clustering"]["fields"][0], "n");
        assert_eq!(found["description"], "kept");
        let key = found.pointer("/tableConstraints/primaryKey");
        // As documented, the schema's replacement takes the constraints with it.
        assert_eq!(
            key.is_some(),
            disposition != "write_truncate",
            "{disposition}"
        );
    }

    server.query("CREATE TABLE d.e (n INT64)").await;
    let context = session(
        &server,
        [("sink.file_loads.write_disposition", "write_empty")],
    );
    rows(&context, "INSERT INTO bq.d.e VALUES (1)").await;
    let failed = error(&context, "INSERT INTO bq.d.e VALUES (2)").await;
    let failed = Error::find_in(&failed).unwrap();
    assert_eq!(failed.kind(), ErrorKind::AlreadyExists);
    for part in ["duplicate", "demo.d.e", "gs://bucket/staged"] {
        assert!(failed.to_string().contains(part), "{failed}");
    }
    assert_eq!(count(&context, "e").await, 1);
    assert_eq!(
        server.objects("bucket").await.len(),
        1,
        "of the failed commit"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn replacing_by_nothing_empties_a_table_and_appending_nothing_asks_nobody() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64)").await;
    server.query("INSERT INTO d.t VALUES (1)").await;
    let context = session(&server, []);
    rows(&context, "INSERT INTO bq.d.t SELECT 1 WHERE false").await;
    assert_eq!(server.jobs("load").await.len(), 0);
    assert_eq!(count(&context, "t").await, 1);
    for format in ["avro", "parquet"] {
        let context = session(
            &server,
            [
                ("sink.file_loads.write_disposition", "write_truncate_data"),
                ("sink.file_loads.staging_format", format),
            ],
        );
        server.query("INSERT INTO d.t VALUES (1)").await;
        rows(&context, "INSERT INTO bq.d.t SELECT 1 WHERE false").await;
        assert_eq!(count(&context, "t").await, 0, "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_where_files_go() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64)").await;
    let context = session(&server, [("sink.file_loads.staging_format", "parquet")]);
    let explained = text(&context, "EXPLAIN INSERT INTO bq.d.t VALUES (1)").await;
    for part in [
        "write_method=file_loads",
        "staging=gs://bucket/staged",
        "format=parquet",
        "disposition=write_append",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    assert_eq!(server.objects("bucket").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_does_not_exist_is_named() {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64)").await;
    let context = session(
        &server,
        [("sink.file_loads.staging_path", "gs://missing/x")],
    );
    let failed = error(&context, "INSERT INTO bq.d.t VALUES (1)").await;
    let failed = Error::find_in(&failed).unwrap();
    assert_eq!(failed.kind(), ErrorKind::NotFound);
    for part in ["'missing'", "sink.file_loads.staging_path"] {
        assert!(failed.to_string().contains(part), "{failed}");
    }
}

/// A load job fails as a whole, so that what it would refuse is found before.
#[tokio::test(flavor = "multi_thread")]
async fn k17_rows_that_a_load_job_would_refuse_are_left_out_before() {
    for format in ["avro", "parquet"] {
        let server = Server::start(1 << 20).await;
        server.create_dataset("d").await;
        server.create_bucket("bucket").await;
        let json = if format == "avro" { ", j JSON" } else { "" };
        server
            .query(&format!(
                "CREATE TABLE d.t (n INT64, s STRING(3), b BYTES(2), a ARRAY<STRING(1)>{json})"
            ))
            .await;
        let context = server.session_saying_all(&[
            ("sink.write_method", "file_loads"),
            ("sink.file_loads.staging_path", "gs://bucket/staged"),
            ("sink.file_loads.staging_format", format),
            ("sink.failure.policy", "drop"),
        ]);
        let mut columns = "n, s, b, a".to_string();
        let mut rows = vec![
            "(1, 'abc', X'0102', ['x'])",
            "(2, 'abcd', NULL, [])",
            "(3, NULL, X'010203', [])",
            "(4, NULL, NULL, ['x', 'yz'])",
            "(5, 'äöü', NULL, [])",
        ];
        if format == "avro" {
            columns.push_str(", j");
            rows = vec![
                "(1, 'abc', X'0102', ['x'], '{}')",
                "(2, 'abcd', NULL, [], NULL)",
                "(3, NULL, X'010203', [], NULL)",
                "(4, NULL, NULL, ['x', 'yz'], NULL)",
                "(5, 'äöü', NULL, [], '[1]')",
                "(6, NULL, NULL, [], '{bad')",
            ];
        }
        let sql = format!("INSERT INTO bq.d.t ({columns}) VALUES {}", rows.join(", "));
        let insert = plan(&context, &sql).await;
        run(&context, &insert).await;
        assert_eq!(write_metric(&insert, "rows_written"), 2, "{format}");
        let found = text(&context, "SELECT n FROM bq.d.t ORDER BY n").await;
        let numbers: Vec<_> = found.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(numbers, ['1', '5'], "{format}");
        let failing = server.session_saying_all(&[
            ("sink.write_method", "file_loads"),
            ("sink.file_loads.staging_path", "gs://bucket/staged"),
            ("sink.file_loads.staging_format", format),
        ]);
        refused(&failing, &sql, &["row 2", "'s'", "STRING(3)"]).await;
    }
}

/// What is refused for good says so, and what is left of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_refused_for_good_leaves_no_file_and_says_so() {
    let server = server().await;
    server
        .query("CREATE TABLE d.t (n INT64, day DATE) PARTITION BY day")
        .await;
    let context = session(&server, []);
    context
        .sql(
            "CREATE EXTERNAL TABLE t STORED AS BIGQUERY LOCATION 'demo.d.t' \
             OPTIONS (sink.partition '20240101')",
        )
        .await
        .unwrap();
    refused(
        &context,
        "INSERT INTO t VALUES (1, DATE '2024-01-01'), (2, DATE '2024-01-02')",
        &[
            "demo.d.t$20240101",
            "nothing is written, and the staged files are deleted",
            "write only the rows of this partition to it, or all of them to demo.d.t",
        ],
    )
    .await;
    assert_eq!(count(&context, "t").await, 0);
    // They are deleted behind the statement's back.
    let deleted = async {
        while !server.objects("bucket").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let deleted = tokio::time::timeout(Duration::from_secs(60), deleted).await;
    deleted.expect("nothing refers to the files any more");
}

/// Of several tables one is refused: what is written is told, and nothing is deleted that
/// the others need.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_several_tables_that_ends_in_between_says_what_is_written() {
    let server = server().await;
    for table in ["o_a", "o_b"] {
        server
            .query(&format!("CREATE TABLE d.{table} (n INT64, tenant STRING)"))
            .await;
    }
    let context = session(&server, []);
    context
        .sql(
            "CREATE EXTERNAL TABLE o (n BIGINT, tenant VARCHAR) STORED AS BIGQUERY \
             LOCATION 'demo.d.o' OPTIONS (sink.destination 'demo.d.o_{tenant}')",
        )
        .await
        .unwrap();
    server.fault(
        Rule::once(
            "jobs.insert",
            Action::Http {
                status: 400,
                reason: "invalid".into(),
                message: "not this one".into(),
            },
        )
        .after(1),
    );
    let insert = "INSERT INTO o VALUES (1, 'a'), (2, 'b')";
    let failed = error(&context, insert).await.to_string();
    for part in [
        "rows of 1 of 2 tables and partitions are written",
        "demo.d.o_b",
        "not this one",
        "they stay under gs://bucket/staged",
    ] {
        assert!(failed.contains(part), "{failed}");
    }
    assert_eq!(count(&context, "o_a").await, 1);
    assert_eq!(count(&context, "o_b").await, 0);
    assert_eq!(server.objects("bucket").await.len(), 1);
}
