//! Tables that the first change creates.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bigquery_local::Realism;
use bigquery_local::faults::{Action, Rule};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::cdc::ChangeSinkBuilder;
use datafusion_bigquery::options::Options;
use datafusion_bigquery::sink::BigQuerySink;
use datafusion_bigquery::{BigQueryTable, ErrorKind, RawOptions, TableRef};
use serde_json::{Value, json};

use crate::cdc::{key_of, staleness_of};
use crate::harness::{PROJECT, Server, lines, plan, refused, rows, run, text, write_metric};

/// Declares the table of dataset `d` with this name, which need not exist.
fn declaration(table: &str, columns: &str, more: &str) -> String {
    format!(
        "CREATE EXTERNAL TABLE {table} ({columns}) STORED AS BIGQUERY \
         LOCATION '{PROJECT}.d.{table}' OPTIONS ('sink.cdc.enabled' 'true'{more})"
    )
}

const COLUMNS: &str = "id BIGINT, name VARCHAR, PRIMARY KEY (id)";
const TEN_MINUTES: &str = ", 'sink.cdc.max_staleness' '10 min'";

async fn tables(server: &Server) -> usize {
    let found = server.get("datasets/d/tables").await;
    found["tables"].as_array().map_or(0, Vec::len)
}

async fn stored(context: &SessionContext, table: &str) -> String {
    let sql = format!("SELECT id, name FROM bq.d.{table} ORDER BY id");
    lines(context, &sql).await.join("; ")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_change_creates_the_declared_table() {
    let server = Server::with_dataset().await;
    let context = server.session(2);
    let columns = "id BIGINT, name VARCHAR, doc VARCHAR, place VARCHAR, tags VARCHAR[], day DATE, \
                   _change_type VARCHAR, _change_sequence_number VARCHAR, PRIMARY KEY (name, id)";
    let more = ", 'sink.json_field_paths' 'doc', 'sink.geography_field_paths' 'place', \
                'sink.table_create.time_partitioning.type' 'day', \
                'sink.table_create.time_partitioning.field' 'day', \
                'sink.table_create.clustered_fields' 'id', \
                'sink.table_create.labels' 'team=data', \
                'sink.table_create.description' 'what it is', \
                'sink.cdc.max_staleness' '10 min'";
    rows(&context, &declaration("t", columns, more)).await;
    refused(&context, "SELECT * FROM t", &["SELECT", "demo.d.t"]).await;
    let described = lines(&context, "DESCRIBE t").await;
    assert_eq!(described.len(), 8, "{described:?}");
    assert_eq!(described[0], "id Int64 NO");
    assert_eq!(described[2], "doc Utf8 YES");

    // Neither a plan nor an INSERT without rows creates anything.
    let insert = "INSERT INTO t (id, name, doc, place, tags, day, _CHANGE_TYPE)";
    let explained = text(
        &context,
        &format!("EXPLAIN {insert} VALUES (1, 'a', NULL, NULL, NULL, NULL, 'DELETE')"),
    )
    .await;
    assert!(explained.contains("create=if_needed"), "{explained}");
    rows(
        &context,
        "INSERT INTO t (id, name) SELECT 1, 'a' WHERE false",
    )
    .await;
    assert_eq!(tables(&server).await, 0);

    let written = plan(
        &context,
        &format!(
            "{insert} VALUES (1, 'a', '{{\"n\": 1}}', 'POINT(1 2)', ['x'], DATE '2026-01-02', NULL), \
             (1, 'b', NULL, NULL, NULL, NULL, 'UPSERT'), (2, 'c', NULL, NULL, NULL, NULL, 'DELETE'), \
             (1, 'b', NULL, NULL, NULL, NULL, 'DELETE')"
        ),
    )
    .await;
    run(&context, &written).await;
    assert_eq!(write_metric(&written, "tables_created"), 1);
    let table = server.get("datasets/d/tables/t").await;
    let fields = table["schema"]["fields"].as_array().unwrap();
    let fields: Vec<String> = fields
        .iter()
        .map(|field| {
            let of = |member: &str| field[member].as_str().unwrap_or("NULLABLE");
            format!("{} {} {}", of("name"), of("type"), of("mode"))
        })
        .collect();
    assert_eq!(
        fields,
        [
            "id INTEGER REQUIRED",
            "name STRING REQUIRED",
            "doc JSON NULLABLE",
            "place GEOGRAPHY NULLABLE",
            "tags STRING REPEATED",
            "day DATE NULLABLE",
        ]
    );
    let key = &table["tableConstraints"]["primaryKey"]["columns"];
    let mut key: Vec<&str> = key
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    key.sort_unstable();
    assert_eq!(key, ["id", "name"]);
    assert_eq!(
        table["timePartitioning"],
        json!({"type": "DAY", "field": "day"})
    );
    assert_eq!(table["clustering"]["fields"], json!(["id"]));
    // Of the mark nothing is left.
    assert_eq!(table["labels"], json!({"team": "data"}));
    assert_eq!(table["description"], "what it is");
    assert_eq!(staleness_of(&context, "t").await, "0-0 0 0:10:0");
    let sql = "SELECT id, name, doc, tags, day FROM bq.d.t ORDER BY id";
    assert_eq!(lines(&context, sql).await, ["1 a {\"n\":1} [x] 2026-01-02"]);

    // The same declaration writes to it again, and finds nothing to do.
    let again = plan(
        &context,
        "INSERT INTO t (id, name, _CHANGE_TYPE) VALUES (1, 'a', 'DELETE')",
    )
    .await;
    run(&context, &again).await;
    assert_eq!(write_metric(&again, "tables_created"), 0);
    assert_eq!(stored(&context, "t").await, "");
    // So does another one like it.
    rows(&context, "DROP TABLE t").await;
    rows(&context, &declaration("t", columns, more)).await;
    rows(
        &context,
        "INSERT INTO t (id, name, tags) VALUES (1, 'a', ['x'])",
    )
    .await;
    assert_eq!(stored(&context, "t").await, "1 a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_creates_it_as_well() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    rows(&context, &declaration("t", COLUMNS, "")).await;
    rows(
        &context,
        "MERGE INTO t USING (VALUES (1, 'a'), (2, 'b')) AS s(id, name) ON t.id = s.id \
         WHEN MATCHED THEN UPDATE SET name = s.name \
         WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
    )
    .await;
    assert_eq!(key_of(&server, "t").await, json!(["id"]));
    assert_eq!(stored(&context, "t").await, "1 a; 2 b");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_created_is_refused() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    for (columns, more, parts) in [
        ("id BIGINT", "", &["demo.d.bad", "PRIMARY KEY"][..]),
        (
            "id DOUBLE, PRIMARY KEY (id)",
            "",
            &["FLOAT64", "primary key"],
        ),
        (
            "id VARCHAR, PRIMARY KEY (id)",
            ", 'sink.json_field_paths' 'id'",
            &["JSON", "primary key"],
        ),
        (
            "id BIGINT, _table_x INT, PRIMARY KEY (id)",
            "",
            &["'_table_x'", "_TABLE_"],
        ),
        (
            "id BIGINT, _CHANGE_TYPE INT, PRIMARY KEY (id)",
            "",
            &["_change_type", "must be text"],
        ),
        (
            "id BIGINT, PRIMARY KEY (id)",
            ", 'sink.table_create.clustered_fields' 'nope'",
            &["clustered_fields", "'nope'"],
        ),
        (
            "id BIGINT, PRIMARY KEY (id)",
            ", 'sink.create_disposition' 'create_never', 'sink.table_create.description' 'x'",
            &["sink.create_disposition", "sink.table_create.description"],
        ),
    ] {
        refused(&context, &declaration("bad", columns, more), parts).await;
    }
    let insert = |table: &str| format!("INSERT INTO {table} (id, name) VALUES (1, 'a')");
    for (table, more, parts) in [
        (
            "never",
            ", 'sink.create_disposition' 'create_never'",
            ["demo.d.never does not exist", "'create_never'"],
        ),
        (
            "labelled",
            ", 'sink.table_create.labels' 'datafusion_bigquery_cdc_pending=x'",
            ["sink.table_create.labels", "demo.d.labelled"],
        ),
    ] {
        rows(&context, &declaration(table, COLUMNS, more)).await;
        refused(&context, &insert(table), &parts).await;
    }
    let nowhere = declaration("homeless", COLUMNS, "").replace(".d.", ".nowhere.");
    rows(&context, &nowhere).await;
    refused(
        &context,
        &insert("homeless"),
        &["create dataset demo.nowhere first"],
    )
    .await;
    assert_eq!(tables(&server).await, 0);
}

/// Without leave to create tables those that exist are still looked after.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_must_exist_is_still_reconciled() {
    let server = Server::with_dataset().await;
    server
        .query("CREATE TABLE d.t (id INT64 NOT NULL, name STRING)")
        .await;
    let context = server.session(1);
    let never = ", 'sink.create_disposition' 'create_never'";
    let insert = "INSERT INTO t (id, name) VALUES (1, 'a')";
    rows(&context, &declaration("t", COLUMNS, never)).await;
    refused(
        &context,
        insert,
        &["no primary key", "sink.cdc.table_reconciliation"],
    )
    .await;
    rows(&context, "DROP TABLE t").await;
    let reconcile = format!("{never}, 'sink.cdc.table_reconciliation' 'reconcile'");
    rows(&context, &declaration("t", COLUMNS, &reconcile)).await;
    rows(&context, insert).await;
    assert_eq!(key_of(&server, "t").await, json!(["id"]));
    assert_eq!(stored(&context, "t").await, "1 a");
}

/// A table that appears between the plan and its first row is one of others.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_others_created_meanwhile_is_verified() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    for (number, (theirs, parts)) in [
        (
            "id INT64 NOT NULL, name STRING, PRIMARY KEY (id) NOT ENFORCED",
            None,
        ),
        (
            "id INT64 NOT NULL, name STRING NOT NULL, PRIMARY KEY (name) NOT ENFORCED",
            Some(["is (name)", "was (id)"]),
        ),
        (
            "id INT64 NOT NULL, name STRING",
            Some(["no primary key", "(id)"]),
        ),
        (
            "id STRING NOT NULL, name STRING, PRIMARY KEY (id) NOT ENFORCED",
            Some(["column id is STRING", "was INT64"]),
        ),
        (
            "id INT64 NOT NULL, name INT64, PRIMARY KEY (id) NOT ENFORCED",
            Some(["column name is INT64", "was STRING"]),
        ),
        (
            "id INT64 NOT NULL, PRIMARY KEY (id) NOT ENFORCED",
            Some(["column name is not there", "declare the table again"]),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let table = format!("t{number}");
        rows(&context, &declaration(&table, COLUMNS, "")).await;
        let sql = format!("INSERT INTO {table} (id, name) VALUES (1, 'a')");
        let planned = plan(&context, &sql).await;
        server
            .query(&format!("CREATE TABLE d.{table} ({theirs})"))
            .await;
        match parts {
            None => {
                run(&context, &planned).await;
                assert_eq!(stored(&context, &table).await, "1 a");
            }
            Some(parts) => {
                let collected = datafusion::physical_plan::collect(planned, context.task_ctx());
                let error = collected.await.unwrap_err().to_string();
                for part in parts {
                    assert!(error.contains(part), "{theirs}: no {part} in {error}");
                }
                let count = format!("SELECT count(*) FROM bq.d.{table}");
                assert_eq!(lines(&context, &count).await, ["0"], "{theirs}");
            }
        }
    }
    // One that is gone is not created in its place: what was planned is not what it was.
    rows(&context, &declaration("gone", COLUMNS, "")).await;
    rows(&context, "INSERT INTO gone (id, name) VALUES (1, 'a')").await;
    let planned = plan(&context, "INSERT INTO gone (id, name) VALUES (2, 'b')").await;
    server.query("DROP TABLE d.gone").await;
    let collected = datafusion::physical_plan::collect(planned, context.task_ctx());
    let error = collected.await.unwrap_err().to_string();
    assert!(
        error.contains("demo.d.gone does not exist any more"),
        "{error}"
    );
}

fn options(server: &Server, more: &[(&str, &str)]) -> Options {
    let cdc = [("sink.cdc.enabled", "true")];
    let more = RawOptions::from_pairs(cdc.iter().chain(more).copied()).unwrap();
    Options::resolve(&server.options().or_defaults(&more)).unwrap()
}

fn changes(ids: std::ops::Range<i64>) -> RecordBatch {
    let names: StringArray = ids.clone().map(|id| Some(format!("n{id}"))).collect();
    let types: StringArray = ids.clone().map(|_| Some("UPSERT")).collect();
    RecordBatch::try_from_iter([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef,
        ),
        ("name", Arc::new(names)),
        ("_CHANGE_TYPE", Arc::new(types)),
    ])
    .unwrap()
}

/// Sixteen sinks of their own create one table at the same time, in several steps. One
/// of them does; the others wait for it, or help it.
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_writers_create_one_table() {
    for reconciliation in ["verify_only", "reconcile"] {
        let server = Server::with_dataset().await;
        let limited = Action::RateLimit {
            retry_after_ms: None,
        };
        let rule = server.fault(Rule {
            times: Some(5),
            ..Rule::once("tables.insert", limited)
        });
        let mut sinks = Vec::new();
        for _ in 0..16 {
            let options = options(
                &server,
                &[
                    ("sink.cdc.max_staleness", "10 min"),
                    ("sink.cdc.table_reconciliation", reconciliation),
                    ("sink.propagation.interval", "5 ms"),
                    ("sink.propagation.attempts", "100000"),
                ],
            );
            let table = TableRef::new(PROJECT, "d", "race").unwrap();
            let builder = ChangeSinkBuilder::new(server.client(), table, options);
            let builder = builder.with_primary_key(["id"]);
            sinks.push(builder.build(changes(0..0).schema()).await.unwrap());
        }
        let mut writers = tokio::task::JoinSet::new();
        for (number, sink) in (0..).zip(sinks) {
            writers.spawn(async move {
                let mut writer = sink.writer(0, None).unwrap();
                let ids = number * 10..number * 10 + 10;
                writer.write(changes(ids)).await.unwrap();
                writer.prepare_commit().await.unwrap();
                writer.counters().tables_created()
            });
        }
        let created: u64 = writers.join_all().await.into_iter().sum();
        assert_eq!(created, 1, "{reconciliation}");
        assert_eq!(server.acted(rule), 5);
        let context = server.session(1);
        let sql = "SELECT count(*), count(DISTINCT id) FROM bq.d.race";
        assert_eq!(lines(&context, sql).await, ["160 160"], "{reconciliation}");
        assert_eq!(key_of(&server, "race").await, json!(["id"]));
        assert_eq!(staleness_of(&context, "race").await, "0-0 0 0:10:0");
        let table = server.get("datasets/d/tables/race").await;
        assert_eq!(table["labels"], Value::Null, "{reconciliation}");
    }
}

/// Sessions with the same declaration begin together, none of which may change a table
/// that is there. All write, and none waits long.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_begin_together_all_write() {
    let server = Server::with_dataset().await;
    let begun = Instant::now();
    let writes = (0..4).map(|number| {
        let context = server.session(1);
        async move {
            rows(&context, &declaration("t", COLUMNS, TEN_MINUTES)).await;
            let sql = format!("INSERT INTO t (id, name) VALUES ({number}, 'n')");
            rows(&context, &sql).await;
        }
    });
    futures::future::join_all(writes).await;
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    let context = server.session(1);
    assert_eq!(stored(&context, "t").await, "0 n; 1 n; 2 n; 3 n");
    assert_eq!(staleness_of(&context, "t").await, "0-0 0 0:10:0");
}

/// The service has created the table, and its answer is lost: the second attempt finds a
/// table there and knows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_answer_is_lost_is_completed() {
    for more in ["", TEN_MINUTES] {
        let server = Server::with_dataset().await;
        let context = server.session(1);
        rows(&context, &declaration("t", COLUMNS, more)).await;
        let rule = server.fault(Rule::once("tables.insert", Action::LoseAnswer));
        rows(&context, "INSERT INTO t (id, name) VALUES (1, 'a')").await;
        assert_eq!(server.acted(rule), 1);
        assert_eq!(stored(&context, "t").await, "1 a");
        let table = server.get("datasets/d/tables/t").await;
        assert_eq!(table["labels"], Value::Null);
        let staleness = if more.is_empty() { "" } else { "0-0 0 0:10:0" };
        assert_eq!(staleness_of(&context, "t").await, staleness);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_wait_until_a_new_table_is_known() {
    let realism = Realism {
        creation_delay: Duration::from_millis(300),
        ..Realism::default()
    };
    let server = Server::start_with(realism).await;
    server.create_dataset("d").await;
    let context = server.session_saying([
        ("sink.propagation.interval", "20 ms"),
        ("sink.propagation.attempts", "1000"),
    ]);
    rows(&context, &declaration("t", COLUMNS, "")).await;
    rows(
        &context,
        "INSERT INTO t (id, name) SELECT value % 10, CAST(value AS VARCHAR) \
         FROM generate_series(1, 100)",
    )
    .await;
    let last: Vec<String> = (0..10)
        .map(|id| format!("{id} {}", if id == 0 { 100 } else { 90 + id }))
        .collect();
    assert_eq!(stored(&context, "t").await, last.join("; "));
}

/// From Rust: the columns of the rows, or more of them; and what the builder refuses.
#[tokio::test(flavor = "multi_thread")]
async fn the_builder_creates_it_as_well() {
    let server = Server::with_dataset().await;
    let table = |name: &str| TableRef::new(PROJECT, "d", name).unwrap();
    let rows = changes(0..3);
    let builder =
        |name: &str| ChangeSinkBuilder::new(server.client(), table(name), options(&server, &[]));
    let context = server.session(1);
    let sink = builder("t").with_primary_key(["ID"]);
    let sink = sink.build(rows.schema()).await.unwrap();
    let mut writer = sink.writer(0, None).unwrap();
    writer.write(rows.clone()).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(key_of(&server, "t").await, json!(["id"]));
    assert_eq!(stored(&context, "t").await, "0 n0; 1 n1; 2 n2");
    // Now it is there, and its key need not be said.
    let sink = builder("t").build(rows.schema()).await.unwrap();
    let mut writer = sink.writer(0, None).unwrap();
    writer.write(rows.clone()).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(stored(&context, "t").await, "0 n0; 1 n1; 2 n2");

    let none = builder("u").build(rows.schema()).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Configuration);
    assert!(none.message().contains("PRIMARY KEY"), "{none}");
    let other = builder("t").with_primary_key(["name"]);
    let other = other.build(rows.schema()).await.unwrap_err();
    assert!(other.message().contains("(name) is declared"), "{other}");
    // Rows of a sink that knows nothing of changes would be appended.
    let plain = BigQuerySink::builder(server.client(), table("t"))
        .with_options(options(&server, &[]).sink)
        .build(rows.schema())
        .await
        .unwrap_err();
    assert!(plain.message().contains("sink.cdc.enabled"), "{plain}");
    let raw = RawOptions::from_pairs([("sink.cdc.enabled", "true")]).unwrap();
    let plain = BigQueryTable::open(server.client(), table("t"), raw).await;
    context
        .register_table("plain", Arc::new(plain.unwrap()))
        .unwrap();
    let insert = "INSERT INTO plain (id, name) VALUES (1, 'a')";
    refused(
        &context,
        insert,
        &["sink.cdc.enabled", "CREATE EXTERNAL TABLE"],
    )
    .await;
    assert_eq!(stored(&context, "t").await, "0 n0; 1 n1; 2 n2");
}
