//! INSERT: what arrives, what is refused, and what is counted.

use datafusion::prelude::SessionContext;
use datafusion_bigquery::ErrorKind;
use serde_json::json;

use crate::harness::{Server, error, plan, refused, run, text, write_metric};

/// Tables `d.t` (every kind of scalar) and `d.r` (a REQUIRED column, one with a
/// default).
async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .query(
            "CREATE TABLE d.t (n INT64, f FLOAT64, b BOOL, s STRING, y BYTES, d DATE, \
             c TIME, dt DATETIME, ts TIMESTAMP, num NUMERIC, big BIGNUMERIC, j JSON, \
             a ARRAY<INT64>, p STRUCT<x INT64, y STRING>); \
             CREATE TABLE d.r (id INT64 NOT NULL, note STRING DEFAULT 'none', other STRING); \
             CREATE VIEW d.v AS SELECT 1 AS n;",
        )
        .await;
    server
}

async fn execute(context: &SessionContext, sql: &str) -> u64 {
    let counted = text(context, sql).await;
    let digits: String = counted.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{counted}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn m01_m09_m11_m18_values_of_every_type_arrive_in_both_formats() {
    for format in ["proto", "arrow"] {
        let server = server().await;
        let context = server.session(2);
        let set = format!("SET bigquery.sink.format = '{format}'");
        context.sql(&set).await.unwrap();
        let inserted = execute(
            &context,
            "INSERT INTO bq.d.t VALUES (7, 1.5, true, 'é', X'00ff', DATE '2024-02-29', \
             TIME '12:34:56.789012', TIMESTAMP '2024-05-01T01:02:03.000004', \
             TIMESTAMP '2024-05-01T01:02:03.000004Z', 1.25, 2.5, '{\"k\":1}', [1, 2], \
             named_struct('x', 3, 'y', 'z')), \
             (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        )
        .await;
        assert_eq!(inserted, 2, "{format}");
        let found = text(
            &context,
            "SELECT n, f, b, s, encode(y, 'hex') y, d, c, dt, ts, num, big, j, a, p.x, p.y \
             FROM bq.d.t ORDER BY n NULLS LAST",
        )
        .await;
        let rows: Vec<&str> = found.lines().skip(3).collect();
        let first: Vec<&str> = rows[0].split('|').map(str::trim).collect();
        assert_eq!(
            first[1..16],
            [
                "7",
                "1.5",
                "true",
                "é",
                "00ff",
                "2024-02-29",
                "12:34:56.789012",
                "2024-05-01T01:02:03.000004",
                "2024-05-01T01:02:03.000004Z",
                "1.250000000",
                "2.50000000000000000000000000000000000000",
                "{\"k\":1}",
                "[1, 2]",
                "3",
                "z",
            ],
            "{format}"
        );
        let second: Vec<&str> = rows[1].split('|').map(str::trim).collect();
        for (at, value) in second[1..16].iter().enumerate() {
            let want = if at == 12 { "[]" } else { "" };
            assert_eq!(*value, want, "{format} {at}");
        }
    }
}

/// DataFusion alone would cut these without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_its_column_cannot_hold_is_refused_and_named() {
    let server = server().await;
    let context = server.session(1);
    for (sql, column, value) in [
        (
            "INSERT INTO bq.d.t (n, ts) VALUES (1, TIMESTAMP '2024-01-01 00:00:00.123456'), \
             (2, TIMESTAMP '2024-01-01 00:00:00.123456789')",
            "'ts'",
            "row 2",
        ),
        (
            "INSERT INTO bq.d.t (ts) SELECT TIMESTAMP '2024-01-01 00:00:00.123456789'",
            "'ts'",
            "row 1",
        ),
        (
            "INSERT INTO bq.d.t (ts) SELECT * FROM (VALUES \
             (TIMESTAMP '2024-01-01 00:00:00.123456789')) v",
            "'ts'",
            "row 1",
        ),
        ("INSERT INTO bq.d.t (n) VALUES (1), (2.5)", "'n'", "row 2"),
        ("INSERT INTO bq.d.t (n) VALUES (1.5)", "'n'", "row 1"),
        (
            "INSERT INTO bq.d.t (n) SELECT 9223372036854775808",
            "'n'",
            "row 1",
        ),
        (
            "INSERT INTO bq.d.t (num) SELECT 0.12345678901",
            "'num'",
            "row 1",
        ),
        (
            "INSERT INTO bq.d.t (a) VALUES ([1, NULL, 3])",
            "'a'",
            "row 1",
        ),
        ("INSERT INTO bq.d.t (n) VALUES ('seven')", "'n'", "seven"),
    ] {
        refused(&context, sql, &[column, value]).await;
    }
    let found = text(&context, "SELECT count(*) FROM bq.d.t WHERE n = 2").await;
    assert!(found.contains("| 0 "), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn implicit_conversions_that_lose_nothing_work() {
    let server = server().await;
    let context = server.session(1);
    let inserted = execute(
        &context,
        "INSERT INTO bq.d.t (n, f, s, d, ts, num) VALUES \
         ('7', 2, 9, '2024-02-29', '2024-02-29 01:02:03.25', '3.25'), \
         (8, 2.5, 'x', DATE '2024-03-01', date_trunc('microsecond', now()), 4)",
    )
    .await;
    assert_eq!(inserted, 2);
    let found = text(&context, "SELECT n, f, s, d, num FROM bq.d.t ORDER BY n").await;
    for row in [
        "| 7 | 2.0 | 9 | 2024-02-29 | 3.250000000 |",
        "| 8 | 2.5 | x | 2024-03-01 | 4.000000000 |",
    ] {
        assert!(found.contains(row), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k16_no_rows_are_no_error_and_ask_nothing() {
    let server = server().await;
    let context = server.session(3);
    let empty = plan(&context, "INSERT INTO bq.d.r (id) SELECT 1 WHERE false").await;
    run(&context, &empty).await;
    assert_eq!(write_metric(&empty, "requests"), 0);
    let sql = "INSERT INTO bq.d.r (id) SELECT 1 WHERE false";
    assert_eq!(execute(&context, sql).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn c11_u11_a_left_out_column_is_not_an_explicit_null() {
    let server = server().await;
    let context = server.session(1);
    let left = "INSERT INTO bq.d.r (id) VALUES (1)";
    execute(&context, left).await;
    context
        .sql("SET bigquery.sink.missing_value = 'default'")
        .await
        .unwrap();
    execute(&context, "INSERT INTO bq.d.r (id, other) VALUES (2, 'o')").await;
    execute(&context, "INSERT INTO bq.d.r (id, note) VALUES (3, NULL)").await;
    let found = text(&context, "SELECT id, note, other FROM bq.d.r ORDER BY id").await;
    for row in [
        "| 1  |      |       |",
        "| 2  | none | o     |",
        "| 3  |      |       |",
    ] {
        assert!(found.contains(row), "{found}");
    }
    refused(
        &context,
        "INSERT INTO bq.d.r (note) VALUES ('x')",
        &["'id'", "REQUIRED"],
    )
    .await;
    refused(
        &context,
        "INSERT INTO bq.d.r (id, note) VALUES (4, 'x'), (NULL, 'y')",
        &["row 2", "'id'", "REQUIRED"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_to_is_refused_at_planning() {
    let server = server().await;
    let context = server.session(1);
    refused(
        &context,
        "INSERT INTO bq.d.v VALUES (1)",
        &["demo.d.v is a view", "only to tables"],
    )
    .await;
    for (option, value, parts) in [
        (
            "sink.write_method",
            "file_loads",
            "sink.file_loads.staging_path",
        ),
        (
            "sink.failure.policy",
            "dead_letter",
            "sink.failure.dead_letter",
        ),
    ] {
        context
            .sql(&format!("SET bigquery.{option} = '{value}'"))
            .await
            .unwrap();
        refused(
            &context,
            "INSERT INTO bq.d.r (id) VALUES (1)",
            &[option, value, parts],
        )
        .await;
        context
            .sql(&format!("SET bigquery.{option} = ''"))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_table_takes_rows_in_the_order_of_its_columns() {
    let server = server().await;
    let context = server.session(1);
    context
        .sql(
            "CREATE EXTERNAL TABLE own STORED AS BIGQUERY LOCATION 'demo.d.r' \
             OPTIONS (sink.missing_value 'default')",
        )
        .await
        .unwrap();
    execute(&context, "INSERT INTO own (other, id) VALUES ('o', 5)").await;
    let found = text(&context, "SELECT id, note, other FROM own").await;
    assert!(found.contains("| 5  | none | o     |"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_written_by_the_names_of_their_columns() {
    let server = server().await;
    let context = server.session(1);
    let frame = context
        .sql("SELECT 'o' AS \"OTHER\", CAST(6 AS INT) AS id")
        .await
        .unwrap();
    frame
        .write_table(
            "bq.d.r",
            datafusion::dataframe::DataFrameWriteOptions::new(),
        )
        .await
        .unwrap();
    let found = text(&context, "SELECT id, note, other FROM bq.d.r").await;
    assert!(found.contains("| 6  |      | o     |"), "{found}");
    let frame = context.sql("SELECT 1 AS id, 2 AS nope").await.unwrap();
    let refused = frame
        .write_table(
            "bq.d.r",
            datafusion::dataframe::DataFrameWriteOptions::new(),
        )
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("'nope'"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_the_rule_does_not_write() {
    let server = server().await;
    let table = datafusion_bigquery::BigQueryTable::open(
        server.client(),
        datafusion_bigquery::TableRef::new("demo", "d", "r").unwrap(),
        server.options(),
    )
    .await
    .unwrap();
    let context = SessionContext::new();
    context
        .register_table("r", std::sync::Arc::new(table))
        .unwrap();
    let failed = error(&context, "INSERT INTO r (id) VALUES (1)").await;
    let failed = datafusion_bigquery::Error::find_in(&failed).unwrap();
    assert_eq!(failed.kind(), ErrorKind::Unsupported);
    assert!(failed.message().contains("with_bigquery"), "{failed}");
}

/// `bad` has text that is no JSON, which only the service finds out.
#[tokio::test(flavor = "multi_thread")]
async fn k17_k18_rows_that_the_service_refuses_are_named_or_dropped() {
    let rows = json!([
        "(1, '{\"a\": 1}')",
        "(2, '{bad')",
        "(3, '[]')",
        "(4, 'worse}')",
        "(5, 'null')",
    ]);
    let rows: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row.as_str())
        .collect();
    let sql = format!("INSERT INTO bq.d.t (n, j) VALUES {}", rows.join(", "));
    for format in ["proto", "arrow"] {
        let server = server().await;
        let context = server.session_saying([("sink.format", format)]);
        refused(&context, &sql, &["demo.d.t", "row 2", "j"]).await;

        let context =
            server.session_saying([("sink.format", format), ("sink.failure.policy", "drop")]);
        let insert = plan(&context, &sql).await;
        run(&context, &insert).await;
        assert_eq!(write_metric(&insert, "rows_written"), 3, "{format}");
        assert_eq!(write_metric(&insert, "rows_skipped"), 2, "{format}");
        let found = text(&context, "SELECT n FROM bq.d.t ORDER BY n").await;
        let numbers: Vec<_> = found.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(numbers, ['1', '3', '5'], "{format}");

        let context = server.session_saying([
            ("sink.format", format),
            ("sink.failure.policy", "drop"),
            ("sink.failure.max_rows", "1"),
        ]);
        refused(&context, &sql, &["row 4", "sink.failure.max_rows"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l02_l03_l04_requests_are_cut_and_a_row_too_large_for_any_is_refused() {
    let server = server().await;
    for format in ["proto", "arrow"] {
        let context = server.session_saying([
            ("sink.format", format),
            ("sink.default_stream.max_append_request_bytes", "64 KiB"),
        ]);
        let insert = plan(
            &context,
            "INSERT INTO bq.d.r (id, note) SELECT value, repeat('x', 1000) \
             FROM generate_series(1, 2000)",
        )
        .await;
        run(&context, &insert).await;
        assert_eq!(write_metric(&insert, "rows_written"), 2000);
        assert!(write_metric(&insert, "requests") >= 2_000_000 / 65_536);
        // Larger than a request usually is, and less than one may be.
        let large = "INSERT INTO bq.d.r (id, note) VALUES (1, 'a'), (2, repeat('x', 300000))";
        assert_eq!(execute(&context, large).await, 2);
        let huge = "INSERT INTO bq.d.r (id, note) VALUES (1, 'a'), (2, repeat('x', 10000000))";
        refused(&context, huge, &["row 2", "9 MiB"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m19_views_and_dictionaries_of_a_plan_are_written() {
    let server = server().await;
    let context = server.session(2);
    let sql = "INSERT INTO bq.d.t (s, y, n) SELECT arrow_cast('v', 'Utf8View'), \
               arrow_cast('b', 'BinaryView'), arrow_cast(7, 'UInt64') UNION ALL SELECT \
               arrow_cast('d', 'Utf8View'), arrow_cast('c', 'BinaryView'), \
               arrow_cast(8, 'UInt64')";
    assert_eq!(execute(&context, sql).await, 2);
    let sql = "INSERT INTO bq.d.t (s) SELECT arrow_cast('k', 'Dictionary(Int32, Utf8)')";
    assert_eq!(execute(&context, sql).await, 1);
    let found = text(&context, "SELECT s FROM bq.d.t ORDER BY s").await;
    for value in ["| d |", "| k |", "| v |"] {
        assert!(found.contains(value), "{found}");
    }
}

/// A struct's values go to the fields of their names, and to no other.
#[tokio::test(flavor = "multi_thread")]
async fn n03_a_field_that_a_struct_lacks_is_an_error_that_names_it() {
    let server = server().await;
    let context = server.session(1);
    for (value, field) in [
        ("named_struct('x', 1, 'z', 'a')", "'p.z'"),
        ("named_struct('q', 7, 'r', 'a')", "'p.q'"),
    ] {
        let sql = format!("INSERT INTO bq.d.t (n, p) SELECT 9, {value}");
        refused(&context, &sql, &[field]).await;
    }
    for (n, value) in [
        (1, "named_struct('x', 7, 'y', 'a')"),
        (2, "named_struct('Y', 'a', 'X', '7')"),
        (3, "struct(7, 'a')"),
        (4, "named_struct('x', 7)"),
    ] {
        let sql = format!("INSERT INTO bq.d.t (n, p) SELECT {n}, {value}");
        assert_eq!(execute(&context, &sql).await, 1, "{value}");
    }
    let found = text(
        &context,
        "SELECT n, p.x AS x, p.y AS y FROM bq.d.t ORDER BY n",
    )
    .await;
    for row in [
        "| 1 | 7 | a |",
        "| 2 | 7 | a |",
        "| 3 | 7 | a |",
        "| 4 | 7 |   |",
    ] {
        assert!(found.contains(row), "{row}: {found}");
    }
}

/// Also where no row has a value, which the planner notices before any row is written.
#[tokio::test(flavor = "multi_thread")]
async fn null_for_a_required_column_is_of_its_row() {
    let server = server().await;
    let context = server.session(1);
    for values in ["(NULL)", "(NULL), (NULL)"] {
        let sql = format!("INSERT INTO bq.d.r (id) VALUES {values}");
        refused(&context, &sql, &["demo.d.r", "row 1", "'id'", "REQUIRED"]).await;
    }
    let dropping = server.session_saying([("sink.failure.policy", "drop")]);
    let sql = "INSERT INTO bq.d.r (id, note) VALUES (NULL, 'a'), (NULL, 'b')";
    assert_eq!(execute(&dropping, sql).await, 0);
    assert_eq!(
        execute(&dropping, "INSERT INTO bq.d.r (id) SELECT 5").await,
        1
    );
}

/// Rows keep their numbers behind rows that were set aside before them, also where rows
/// go to several tables.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_named_by_their_place_in_the_statement() {
    let server = server().await;
    server
        .query(
            "CREATE TABLE d.n_1 (k INT64, n NUMERIC(5, 2), j JSON, s STRING(3)); \
                CREATE TABLE d.n_2 (k INT64, n NUMERIC(5, 2), j JSON, s STRING(3))",
        )
        .await;
    let values = "VALUES (1, 1.5, '{}', 'abc'), (1, 1.005, NULL, 'x'), (2, 2, '{bad', 'y'), \
                  (1, 3, NULL, 'toolong'), (2, 4, '[1]', NULL), (1, 5, '{worse', NULL), \
                  (2, 6, NULL, 'too long')";
    let directory = tempfile::tempdir().unwrap();
    for (at, format) in ["proto", "arrow"].into_iter().enumerate() {
        for (name, table) in [("one", "demo.d.n_1"), ("several", "demo.d.n_{k}")] {
            let path = directory.path().join(format!("{name}{at}"));
            let letters = format!("file://{}", path.display());
            let context = server.session_saying_all(&[
                ("sink.format", format),
                ("sink.failure.policy", "dead_letter"),
                ("sink.failure.dead_letter", &letters),
            ]);
            let declare = format!(
                "CREATE EXTERNAL TABLE {name} (k BIGINT, n DECIMAL(5, 2), j VARCHAR, s VARCHAR) \
                 STORED AS BIGQUERY LOCATION 'demo.d.n_1' OPTIONS \
                 ('sink.json_field_paths' 'j'{})",
                match name {
                    "one" => String::new(),
                    _ => format!(", 'sink.destination' '{table}'"),
                }
            );
            context.sql(&declare).await.unwrap();
            let written = execute(&context, &format!("INSERT INTO {name} {values}")).await;
            assert_eq!(written, 2, "{format}, {name}");
            let letters = std::fs::read_to_string(&path).unwrap();
            let mut rows: Vec<u64> = letters
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
                .map(|letter| letter["row"].as_u64().unwrap())
                .collect();
            rows.sort_unstable();
            assert_eq!(rows, [2, 3, 4, 6, 7], "{format}, {name}: {letters}");
        }
    }
}
