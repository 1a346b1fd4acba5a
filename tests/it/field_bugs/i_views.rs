//! Views, wildcards, partitions.

use datafusion_bigquery::{Error, ErrorKind};
use serde_json::json;

use crate::harness::{Server, error, plan, text};

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let fields = |kind: &str| json!([{"name": "id", "type": kind}, {"name": "n", "type": "INT64"}]);
    for day in 1..=3 {
        let rows = vec![json!({"id": day, "n": day * 10})];
        let table = format!("events_2024010{day}");
        server
            .create_table("d", &table, fields("INT64"), rows)
            .await;
    }
    server
        .create_view(
            "d",
            "v",
            "SELECT id, n, n * n AS square FROM `demo.d.events_20240102`",
        )
        .await;
    server
        .query(
            "CREATE TABLE d.p (day DATE, n INT64) PARTITION BY day \
             OPTIONS (require_partition_filter = true)",
        )
        .await;
    server
        .query("INSERT INTO d.p (day, n) VALUES ('2024-01-01', 1), ('2024-01-02', 2)")
        .await;
    server
        .query("CREATE TABLE d.ingested (n INT64) PARTITION BY _PARTITIONDATE")
        .await;
    server.query("INSERT INTO d.ingested (n) VALUES (7)").await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i01_i05_a_view_is_read_with_projection_and_filter_in_its_query() {
    let server = server().await;
    let context = server.session(2);
    let sql = "SELECT square FROM bq.d.v WHERE id = 2";
    let refused = error(&context, sql).await;
    let found = Error::find_in(&refused).expect("our error");
    assert_eq!(found.kind(), ErrorKind::Unsupported, "{refused}");
    text(&context, "SET bigquery.scan.materialize_views = true").await;
    let text_of_plan = format!("{:?}", text(&context, &format!("EXPLAIN {sql}")).await);
    assert!(text_of_plan.contains("WHERE (`id` = 2)"), "{text_of_plan}");
    assert!(!text_of_plan.contains("`n`"), "{text_of_plan}");
    let rows = text(&context, sql).await;
    assert!(rows.contains("| 400    |"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i03_a_wildcard_is_a_query_and_its_suffix_a_column() {
    let server = server().await;
    let context = server.session(2);
    let sql = "SELECT sum(n) AS total FROM bq.d.\"events_*\" WHERE id > 1";
    let refused = error(&context, sql).await.to_string();
    assert!(refused.contains("scan.materialize_views"), "{refused}");
    text(&context, "SET bigquery.scan.materialize_views = true").await;
    let rows = text(&context, sql).await;
    assert!(rows.contains("| 50    |"), "{rows}");
    text(&context, "SET bigquery.scan.partition_columns = true").await;
    let sql = "SELECT id, \"_TABLE_SUFFIX\" AS suffix FROM bq.d.\"events_*\" \
               WHERE \"_TABLE_SUFFIX\" >= '20240103'";
    let rows = text(&context, sql).await;
    assert!(rows.contains("| 3  | 20240103 |"), "{rows}");
    assert_eq!(rows.lines().count(), 5, "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i04_a_demanded_filter_is_named_when_it_is_planned() {
    let server = server().await;
    let context = server.session(2);
    for sql in ["SELECT n FROM bq.d.p", "SELECT n FROM bq.d.p WHERE n = 1"] {
        let frame = context.sql(sql).await.unwrap();
        let refused = frame.create_physical_plan().await.unwrap_err();
        let found = Error::find_in(&refused).expect("our error");
        assert_eq!(found.kind(), ErrorKind::FailedPrecondition, "{refused}");
        assert!(found.message().contains("compare day"), "{refused}");
    }
    let sql = "SELECT n FROM bq.d.p WHERE day = '2024-01-02'";
    plan(&context, sql).await;
    let rows = text(&context, sql).await;
    assert!(rows.contains("| 2 |"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f06_partitions_of_ingestion_are_columns_where_they_are_asked_for() {
    let server = server().await;
    let context = server.session(2);
    let rows = text(&context, "SELECT * FROM bq.d.ingested").await;
    assert!(!rows.contains("_PARTITION"), "{rows}");
    text(&context, "SET bigquery.scan.partition_columns = true").await;
    let sql = "SELECT n FROM bq.d.ingested WHERE \"_PARTITIONTIME\" > TIMESTAMP '2020-01-01' \
               AND \"_PARTITIONDATE\" > DATE '2020-01-01'";
    let rows = text(&context, sql).await;
    assert!(rows.contains("| 7 |"), "{rows}");
    let rows = text(&context, "SELECT * FROM bq.d.ingested").await;
    assert!(rows.contains("| n | _PARTITIONTIME "), "{rows}");
}
