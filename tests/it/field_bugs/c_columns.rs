//! Projection, column order, counts.

use serde_json::json;

use crate::harness::{Server, text};

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let fields = json!([
        {"name": "a", "type": "INT64"}, {"name": "b", "type": "INT64"},
        {"name": "name", "type": "STRING"},
        {"name": "s", "type": "RECORD", "fields": [
            {"name": "a", "type": "INT64"}, {"name": "b", "type": "STRING"}]},
    ]);
    let rows = vec![
        json!({"a": 1, "b": 2, "name": "x", "s": {"a": 7, "b": "y"}}),
        json!({"a": 3, "b": 4, "name": null, "s": null}),
    ];
    server.create_table("d", "t", fields, rows).await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_results_of_queries_are_matched_by_name() {
    let server = server().await;
    let context = server.session(1);
    let sql = "SELECT b, a FROM bigquery_query('SELECT a, b FROM d.t') ORDER BY a";
    let rows = text(&context, sql).await;
    assert!(rows.contains("| 2 | 1 |"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c04_rows_just_streamed_are_counted() {
    let server = server().await;
    let context = server.session(1);
    let rows = text(&context, "SELECT count(*) AS n FROM bq.d.t").await;
    assert!(rows.contains("| 2 |"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c05_a_field_under_a_null_test_of_its_struct() {
    let server = server().await;
    let context = server.session(1);
    let rows = text(&context, "SELECT s.a FROM bq.d.t WHERE s IS NOT NULL").await;
    assert!(rows.contains("| 7 ") && !rows.contains("NULL"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c07_a_column_is_taken_from_a_query_by_name() {
    let server = server().await;
    let context = server.session(1);
    let sql = "SELECT name FROM bigquery_query('SELECT * FROM d.t') WHERE name IS NOT NULL";
    let rows = text(&context, sql).await;
    assert!(rows.contains("| x "), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_querys_names_keep_their_case() {
    let server = server().await;
    let context = server.session(1);
    let sql = "SELECT lower, \"UPPER\", \"miXED\" FROM \
               bigquery_query('select 1 as lower, 2 as UPPER, 3 as miXED')";
    let rows = text(&context, sql).await;
    assert!(rows.contains("| lower | UPPER | miXED |"), "{rows}");
    assert!(rows.contains("| 1     | 2     | 3     |"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_a_filtered_column_is_asked_for_once() {
    let server = server().await;
    server
        .create_view("d", "v", "SELECT a, name FROM `demo.d.t`")
        .await;
    let context = server.session(1);
    text(&context, "SET bigquery.scan.materialize_views = true").await;
    let rows = text(&context, "SELECT a FROM bq.d.v WHERE a > 1 AND a < 9").await;
    assert!(rows.contains("| 3 |"), "{rows}");
}
