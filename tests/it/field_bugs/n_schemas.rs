//! Creating tables, changing them, and not changing them.

use bigquery_local::faults::{Action, Rule};

use crate::harness::{Server, error, rows, status, text};

#[tokio::test(flavor = "multi_thread")]
async fn k05_a_write_that_fails_leaves_the_table_and_its_rows() {
    for method in [
        "storage_api_at_least_once",
        "storage_api_exactly_once",
        "storage_api_atomic",
    ] {
        let server = Server::with_dataset().await;
        server
            .query("CREATE TABLE d.t (id INT64, note STRING); INSERT INTO d.t VALUES (1, 'x')")
            .await;
        let context = server.session_saying([("sink.write_method", method)]);
        server.fault(Rule::once("AppendRows", status("UNAUTHENTICATED")).always());
        error(&context, "INSERT INTO bq.d.t VALUES (2, 'y')").await;
        let table = server.get("datasets/d/tables/t").await;
        assert_eq!(table["schema"]["fields"].as_array().unwrap().len(), 2);
        let found = text(&context, "SELECT count(*) FROM bq.d.t WHERE id = 1").await;
        assert!(found.contains("| 1 "), "{method}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k09_the_first_append_to_a_new_table_may_not_find_it() {
    let server = Server::with_dataset().await;
    let context = server.session_saying([
        ("sink.default_stream.recovery.initial_backoff", "1 ms"),
        ("sink.default_stream.recovery.max_backoff", "2 ms"),
    ]);
    rows(
        &context,
        "CREATE EXTERNAL TABLE t (n BIGINT) STORED AS BIGQUERY LOCATION 'demo.d.t'",
    )
    .await;
    let rule = server.fault(Rule::once("AppendRows", status("NOT_FOUND")));
    rows(&context, "INSERT INTO t VALUES (1), (2)").await;
    assert_eq!(server.acted(rule), 1);
    let found = text(&context, "SELECT count(*) FROM t").await;
    assert!(found.contains("| 2 "), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn n02_columns_in_another_order_and_without_nullable_ones_fit() {
    let server = Server::with_dataset().await;
    server
        .query("CREATE TABLE d.t (a INT64 NOT NULL, b STRING, c FLOAT64)")
        .await;
    let context = server.session(1);
    rows(&context, "INSERT INTO bq.d.t (c, a) VALUES (0.5, 1)").await;
    rows(
        &context,
        "CREATE EXTERNAL TABLE t (C DOUBLE, A BIGINT) STORED AS BIGQUERY LOCATION 'demo.d.t'",
    )
    .await;
    rows(&context, "INSERT INTO t (c, a) VALUES (1.5, 2)").await;
    let found = text(&context, "SELECT a, b, c FROM bq.d.t ORDER BY a").await;
    for row in ["| 1 |   | 0.5 |", "| 2 |   | 1.5 |"] {
        assert!(found.contains(row), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d06_names_that_bigquery_keeps_for_itself_are_refused_early() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    for name in [
        "_TABLE_x",
        "_file_x",
        "_PARTITIONTIME",
        "_ROW_TIMESTAMP",
        "__ROOT__x",
        "_colidentifier",
        "_CHANGE_TYPE",
    ] {
        let sql = format!(
            "CREATE EXTERNAL TABLE t (\"{name}\" BIGINT) STORED AS BIGQUERY LOCATION 'demo.d.t'"
        );
        let refused = error(&context, &sql).await.to_string();
        for part in [name, "keeps names that begin with"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d10_fields_that_differ_only_by_case_are_refused_at_planning() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    let refused = error(
        &context,
        "CREATE EXTERNAL TABLE t (s STRUCT<a BIGINT, \"A\" BIGINT>) STORED AS BIGQUERY \
         LOCATION 'demo.d.t'",
    )
    .await
    .to_string();
    for part in ["'s.A'", "ignores case"] {
        assert!(refused.contains(part), "{refused}");
    }
}

/// Decimals of a new table come back with the digits that they were declared with.
#[tokio::test(flavor = "multi_thread")]
async fn m07_a_new_table_holds_the_decimals_that_it_was_declared_with() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    rows(
        &context,
        "CREATE EXTERNAL TABLE t (small DECIMAL(10, 2), fine DECIMAL(38, 20)) \
         STORED AS BIGQUERY LOCATION 'demo.d.t'",
    )
    .await;
    rows(
        &context,
        "INSERT INTO t VALUES (12345678.25, '1.00000000000000000001')",
    )
    .await;
    let found = text(
        &context,
        "SELECT small, fine, arrow_typeof(fine) AS t FROM t",
    )
    .await;
    for part in [
        "12345678.25",
        "1.00000000000000000001",
        "Decimal256(38, 20)",
    ] {
        assert!(found.contains(part), "{part}: {found}");
    }
}

/// An append asks for nothing but what appending takes.
#[tokio::test(flavor = "multi_thread")]
async fn j08_a_plain_append_changes_no_table() {
    let server = Server::with_dataset().await;
    server.query("CREATE TABLE d.t (id INT64)").await;
    let forbidden = Action::Http {
        status: 403,
        reason: "accessDenied".into(),
        message: "on purpose".into(),
    };
    for method in ["tables.insert", "tables.patch", "tables.update"] {
        server.fault(Rule::once(method, forbidden.clone()).always());
    }
    let context = server.session(1);
    rows(&context, "INSERT INTO bq.d.t VALUES (1)").await;
    let found = text(&context, "SELECT id FROM bq.d.t").await;
    assert!(found.contains("| 1 "), "{found}");
}
