//! `CREATE EXTERNAL TABLE … STORED AS BIGQUERY`.

use serde_json::json;

use crate::harness::{Server, refused, text};

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let fields = json!([
        {"name": "a", "type": "INTEGER"},
        {"name": "b", "type": "STRING"},
    ]);
    let rows = vec![json!({"a": 1, "b": "x"})];
    server.create_table("d", "t", fields, rows).await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_and_without_columns() {
    let server = server().await;
    let context = server.session(1);
    for (name, columns) in [("plain", ""), ("typed", "(a BIGINT, b VARCHAR)")] {
        let statement = format!(
            "CREATE EXTERNAL TABLE {name} {columns} STORED AS BIGQUERY LOCATION 'demo.d.t'"
        );
        context.sql(&statement).await.unwrap();
        let rows = text(&context, &format!("SELECT b, a FROM {name}")).await;
        assert!(rows.contains("| x | 1 |"), "{rows}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_when_the_table_is_declared() {
    let server = server().await;
    let context = server.session(1);
    let create = "CREATE EXTERNAL TABLE w";
    let stored = "STORED AS BIGQUERY";
    for (statement, parts) in [
        (
            format!("{create} {stored} LOCATION 'demo.d.missing'"),
            ["demo.d.missing", "does not exist"],
        ),
        (
            format!("{create} {stored} LOCATION 'd.t'"),
            ["'d.t'", "project.dataset.table"],
        ),
        (
            format!("{create} (a VARCHAR) {stored} LOCATION 'demo.d.t'"),
            ["'a'", "INT64"],
        ),
        (
            format!("{create} (c BIGINT) {stored} LOCATION 'demo.d.t'"),
            ["'c'", "no such column"],
        ),
        (
            format!("{create} {stored} LOCATION 'demo.d.t' OPTIONS (scan.pushdown_filter 'true')"),
            ["scan.pushdown_filter", "scan.pushdown_filters"],
        ),
        (
            format!("{create} (a BIGINT) {stored} PARTITIONED BY (a) LOCATION 'demo.d.t'"),
            [
                "PARTITIONED BY",
                "are partitioned when they are created in BigQuery",
            ],
        ),
        (
            format!("{create} (a BIGINT) {stored} WITH ORDER (a) LOCATION 'demo.d.t'"),
            ["WITH ORDER", "ORDER BY in the query"],
        ),
        (
            format!("CREATE UNBOUNDED EXTERNAL TABLE w {stored} LOCATION 'demo.d.t'"),
            ["UNBOUNDED", "scan.snapshot_time"],
        ),
        (
            format!("{create} {stored} LOCATION 'demo.d.t' OPTIONS (dataset 'e')"),
            ["'dataset'", "demo.d.t"],
        ),
    ] {
        refused(&context, &statement, &parts).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_does_not_exist_yet() {
    let server = server().await;
    let context = server.session(1);
    context
        .sql("CREATE EXTERNAL TABLE n (a BIGINT) STORED AS BIGQUERY LOCATION 'demo.d.new'")
        .await
        .unwrap();
    refused(
        &context,
        "SELECT * FROM n",
        &["demo.d.new", "does not exist yet"],
    )
    .await;
    let fields = json!([{"name": "a", "type": "INTEGER"}]);
    server
        .create_table("d", "new", fields, vec![json!({"a": 5})])
        .await;
    let rows = text(&context, "SELECT a FROM n").await;
    assert!(rows.contains("| 5 |"), "{rows}");
}
