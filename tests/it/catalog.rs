//! The catalog `bq`.

use serde_json::json;

use crate::harness::{Server, error, text};

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    let fields = || json!([{"name": "a", "type": "INTEGER"}]);
    for dataset in ["MyData", "other"] {
        server.create_dataset(dataset).await;
    }
    server
        .create_table("MyData", "Orders", fields(), vec![json!({"a": 1})])
        .await;
    server
        .create_table("other", "t", fields(), vec![json!({"a": 2})])
        .await;
    server
        .create_table("other", "T", fields(), vec![json!({"a": 3})])
        .await;
    server
        .create_table("other", "orders from 2023", fields(), vec![json!({"a": 4})])
        .await;
    server
        .create_view("other", "v", "SELECT a FROM `demo.other.t`")
        .await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn e01_names_are_found_exactly_and_then_without_case() {
    let server = server().await;
    let context = server.session(1);
    for (table, value) in [
        ("bq.mydata.orders", "1"),
        ("bq.\"MyData\".\"Orders\"", "1"),
        ("bq.other.t", "2"),
        ("bq.other.\"T\"", "3"),
        ("bq.other.\"orders from 2023\"", "4"),
    ] {
        let rows = text(&context, &format!("SELECT a FROM {table}")).await;
        assert!(rows.contains(&format!("| {value} |")), "{table}: {rows}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named() {
    let server = server().await;
    let context = server.session(1);
    for (table, parts) in [
        (
            "bq.other.nothing",
            [
                "table demo.other.nothing does not exist",
                "orders from 2023, t, v",
            ],
        ),
        (
            "bq.nowhere.t",
            ["dataset demo.nowhere does not exist", "MyData, other"],
        ),
    ] {
        let error = error(&context, &format!("SELECT * FROM {table}")).await;
        let error = error.to_string();
        for part in parts {
            assert!(error.contains(part), "{table}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e02_every_table_is_listed_with_its_kind() {
    let server = server().await;
    let context = server.session(1);
    let listed = text(
        &context,
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE \
         table_catalog = 'bq' AND table_schema <> 'information_schema' ORDER BY 1, 2",
    )
    .await;
    for row in [
        "| MyData       | Orders           | BASE TABLE |",
        "| other        | T                | BASE TABLE |",
        "| other        | orders from 2023 | BASE TABLE |",
        "| other        | v                | VIEW       |",
    ] {
        assert!(listed.contains(row), "{row} in\n{listed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e05_every_page_is_listed() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("many").await;
    for n in 0..60 {
        let fields = json!([{"name": "a", "type": "INTEGER"}]);
        server
            .create_table("many", &format!("t{n:02}"), fields, vec![])
            .await;
    }
    let context = server.session(1);
    let counted = text(
        &context,
        "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'many'",
    )
    .await;
    assert!(counted.contains("| 60 "), "{counted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_catalog_and_schema() {
    let server = server().await;
    let context = server.session(1);
    for statement in [
        "SET datafusion.catalog.default_catalog = 'bq'",
        "SET datafusion.catalog.default_schema = 'mydata'",
    ] {
        context.sql(statement).await.unwrap();
    }
    let rows = text(
        &context,
        "WITH c AS (SELECT a FROM orders) SELECT a + 1 AS b FROM c",
    )
    .await;
    assert!(rows.contains("| 2 |"), "{rows}");
}
