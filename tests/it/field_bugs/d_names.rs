//! Names: reserved, case, unicode, characters that mean something.

use datafusion_bigquery::Error;
use serde_json::json;

use crate::harness::{Server, error, text};

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let fields = json!([
        {"name": "order", "type": "INT64"}, {"name": "interval", "type": "INT64"},
        {"name": "current", "type": "INT64"},
    ]);
    let rows = vec![json!({"order": 1, "interval": 2, "current": 3})];
    server
        .create_table("d", "t", fields.clone(), rows.clone())
        .await;
    server
        .create_table("d", "orders from 2023", fields, rows)
        .await;
    server
        .create_view(
            "d",
            "v",
            "SELECT `order`, `interval`, `current` FROM `demo.d.t`",
        )
        .await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d01_d02_reserved_words_are_column_names() {
    let server = server().await;
    let context = server.session(1);
    text(&context, "SET bigquery.scan.materialize_views = true").await;
    for table in ["t", "v"] {
        let sql = format!(
            "SELECT \"current\", \"interval\" FROM bq.d.{table} WHERE \"order\" = 1 AND \
             \"interval\" > 1"
        );
        let rows = text(&context, &sql).await;
        assert!(rows.contains("| 3       | 2        |"), "{table}: {rows}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d05_columns_that_differ_in_case_are_never_merged() {
    let server = server().await;
    let context = server.session(1);
    // The service gives the second of them another name.
    let sql = "SELECT * FROM bigquery_query('SELECT 1 AS allowsMultiUse, 2 AS AllowsMultiUse')";
    let rows = text(&context, sql).await;
    assert!(
        rows.contains("| 1              | 2                |"),
        "{rows}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d08_a_table_is_a_table_whatever_its_name_reads_like() {
    let server = server().await;
    let context = server.session(1);
    for sql in [
        "SELECT \"order\" FROM bq.d.\"orders from 2023\"",
        "SELECT \"order\" FROM bigquery_scan('demo.d.orders from 2023')",
    ] {
        let rows = text(&context, sql).await;
        assert!(rows.contains("| 1     |"), "{sql}: {rows}");
    }
    // And a query is no table.
    let refused = error(&context, "SELECT * FROM bigquery_scan('SELECT 1')").await;
    assert!(Error::find_in(&refused).is_some(), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d09_a_query_may_begin_with_anything() {
    let server = server().await;
    let context = server.session(1);
    for query in [
        "-- a comment\nSELECT 1 AS x",
        "/* another */ SELECT 1 AS x",
        "# a third\nSELECT 1 AS x",
        "WITH q AS (SELECT 1 AS x) SELECT x FROM q",
        "\tSELECT 1 AS x",
        "\n\n(SELECT 1 AS x)",
    ] {
        let sql = format!("SELECT x FROM bigquery_query('{query}')");
        let rows = text(&context, &sql).await;
        assert!(rows.contains("| 1 |"), "{query}: {rows}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d12_a_decorator_is_refused_with_the_way_out() {
    let server = server().await;
    let context = server.session(1);
    for sql in [
        "SELECT * FROM bq.d.\"t$20240101\"",
        "SELECT * FROM bigquery_scan('demo.d.t$20240101')",
    ] {
        let refused = error(&context, sql).await.to_string();
        assert!(refused.contains("partition column"), "{refused}");
    }
}
