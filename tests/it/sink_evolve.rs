//! Columns that an INSERT adds or relaxes.

use std::time::Duration;

use bigquery_local::Realism;
use bigquery_local::faults::{Action, Rule};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::options::{
    FileLoadOptions, ReconcileOptions, SchemaUpdateOptions, SinkOptions, WriteMethod,
};
use datafusion_bigquery::sink::BigQuerySink;
use datafusion_bigquery::{ErrorKind, TableRef};
use serde_json::Value;

use crate::harness::{PROJECT, Server, error, rows, text};

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    prepare(&server).await;
    server
}

async fn prepare(server: &Server) {
    server.create_dataset("d").await;
    server
        .query(
            "CREATE TABLE d.t (id INT64 NOT NULL, address STRUCT<street STRING>, \
             items ARRAY<STRUCT<sku STRING>>)",
        )
        .await;
}

fn allowing(new_fields: bool, relaxation: bool) -> SinkOptions {
    SinkOptions {
        schema_update: SchemaUpdateOptions {
            allow_new_fields: new_fields,
            allow_field_relaxation: relaxation,
        },
        ..SinkOptions::default()
    }
}

/// The rows of a query, written by a sink of their own.
async fn write(
    server: &Server,
    context: &SessionContext,
    sql: &str,
    options: SinkOptions,
) -> datafusion_bigquery::Result<u64> {
    let frame = context.sql(sql).await.unwrap();
    let batches = frame.collect().await.unwrap();
    let table = TableRef::new(PROJECT, "d", "t").unwrap();
    let builder = BigQuerySink::builder(server.client(), table).with_options(options);
    let sink = builder.build(batches[0].schema()).await?;
    let mut writer = sink.writer(0, None)?;
    for batch in batches {
        writer.write(batch).await?;
    }
    let prepared = writer.prepare_commit().await?;
    let changes = writer.counters().schema_changes();
    sink.committer().commit(prepared).await?;
    Ok(changes)
}

async fn fields(server: &Server) -> Value {
    server.get("datasets/d/tables/t").await["schema"]["fields"].clone()
}

const ROWS: &str = "SELECT 1 AS id, \
    named_struct('street', 's', 'zip', 'z') AS address, \
    [named_struct('sku', 'x', 'price', 1.5)] AS items, \
    DATE '2024-02-29' AS placed";

#[tokio::test(flavor = "multi_thread")]
async fn n03_a_column_that_the_table_lacks_is_an_error_that_names_it() {
    let server = server().await;
    let context = server.session(1);
    let error = write(&server, &context, ROWS, allowing(false, false))
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "demo.d.t",
        "'placed'",
        "'address.zip'",
        "'items.price'",
        "sink.schema_update.allow_new_fields",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(fields(&server).await.as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn n04_columns_and_nested_fields_are_added() {
    let server = server().await;
    let context = server.session(1);
    assert_eq!(
        write(&server, &context, ROWS, allowing(true, false))
            .await
            .unwrap(),
        1
    );
    let fields = fields(&server).await;
    assert_eq!(fields[0]["mode"], "REQUIRED");
    assert_eq!(fields[1]["fields"][1]["name"], "zip");
    assert_eq!(fields[2]["fields"][1]["name"], "price");
    assert_eq!(fields[3]["name"], "placed");
    assert_ne!(fields[3]["mode"], "REQUIRED");
    let found = text(
        &context,
        "SELECT id, address.zip, items[1]['price'] AS price, placed FROM bq.d.t",
    )
    .await;
    assert!(found.contains("| 1  | z"), "{found}");
    assert!(found.contains("2024-02-29"), "{found}");
    // Nothing is left to change.
    assert_eq!(
        write(&server, &context, ROWS, allowing(true, false))
            .await
            .unwrap(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn required_is_relaxed_only_where_that_is_allowed() {
    let server = server().await;
    let context = server.session(1);
    let rows = "SELECT named_struct('street', 's') AS address";
    let error = write(&server, &context, rows, allowing(true, false))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("'id': it is REQUIRED"), "{error}");
    assert_eq!(
        write(&server, &context, rows, allowing(false, true))
            .await
            .unwrap(),
        1
    );
    assert_ne!(fields(&server).await[0]["mode"], "REQUIRED");
    // Rows that always have it do not make it REQUIRED again.
    write(&server, &context, "SELECT 1 AS id", allowing(true, true))
        .await
        .unwrap();
    assert_ne!(fields(&server).await[0]["mode"], "REQUIRED");
}

/// Another change in between: the table is looked at again, and what is missing then is
/// added.
#[tokio::test(flavor = "multi_thread")]
async fn n08_writers_that_change_one_table_at_once_all_get_their_columns() {
    let server = server().await;
    let conflict = Action::Http {
        status: 412,
        reason: "conditionNotMet".into(),
        message: "Precondition check failed.".into(),
    };
    let rule = server.fault(Rule::once("tables.patch", conflict));
    let context = server.session(1);
    let mut writers = Vec::new();
    for number in 0..6 {
        let sql = format!("SELECT {number} AS id, 'x' AS column_{number}");
        let (server, context) = (&server, context.clone());
        writers.push(async move { write(server, &context, &sql, allowing(true, false)).await });
    }
    for outcome in futures::future::join_all(writers).await {
        outcome.unwrap();
    }
    assert_eq!(server.acted(rule), 1);
    let fields = fields(&server).await;
    let names: Vec<_> = fields
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["name"].clone())
        .collect();
    for number in 0..6 {
        let name = format!("column_{number}");
        assert!(
            names.iter().any(|found| *found == *name),
            "{name}: {names:?}"
        );
    }
    let found = text(&context, "SELECT count(*) FROM bq.d.t").await;
    assert!(found.contains("| 6 "), "{found}");
}

/// Under file_loads the options say how often a change is tried that another came before.
#[tokio::test(flavor = "multi_thread")]
async fn changes_before_a_load_are_tried_as_often_as_the_options_say() {
    for (conflicts, attempts, through) in [(2, 3, true), (2, 2, false), (0, 1, true)] {
        let server = server().await;
        server.create_bucket("bucket").await;
        let conflict = Action::Http {
            status: 412,
            reason: "conditionNotMet".into(),
            message: "Precondition check failed.".into(),
        };
        let mut rule = Rule::once("tables.patch", conflict);
        rule.times = Some(conflicts);
        let rule = server.fault(rule);
        let mut options = allowing(true, false);
        options.write_method = WriteMethod::FileLoads;
        options.file_loads = FileLoadOptions {
            staging_path: Some("gs://bucket/staged".parse().unwrap()),
            schema_reconcile: ReconcileOptions {
                initial_backoff: Duration::from_millis(1),
                max_backoff: Duration::from_millis(2),
                max_attempts: attempts,
            },
            poll_initial_backoff: Duration::from_millis(1),
            ..FileLoadOptions::default()
        };
        let context = server.session(1);
        let written = write(&server, &context, "SELECT 1 AS id, 'x' AS more", options).await;
        assert_eq!(server.acted(rule), conflicts, "{attempts}");
        match (written, through) {
            (Ok(changes), true) => assert_eq!(changes, 1, "{attempts}"),
            (Err(error), false) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                for part in ["gave up after 2 attempts", "demo.d.t", "by somebody else"] {
                    assert!(error.to_string().contains(part), "{error}");
                }
            }
            (outcome, _) => panic!("{attempts} attempts: {outcome:?}"),
        }
    }
}

/// Where rows are written, the change is known a while later.
#[tokio::test(flavor = "multi_thread")]
async fn rows_wait_until_new_columns_are_known() {
    let realism = Realism {
        schema_delay: Duration::from_millis(300),
        ..Realism::default()
    };
    let server = Server::start_with(realism).await;
    prepare(&server).await;
    tokio::time::sleep(Duration::from_millis(350)).await;
    let context = server.session(1);
    let mut options = allowing(true, false);
    options.propagation.interval = Duration::from_millis(20);
    options.propagation.attempts = 1_000;
    write(&server, &context, ROWS, options).await.unwrap();
    let found = text(&context, "SELECT placed FROM bq.d.t").await;
    assert!(found.contains("2024-02-29"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn insert_explains_what_it_will_change() {
    let server = server().await;
    let context = server.session_saying([("sink.schema_update.allow_field_relaxation", "true")]);
    let explained = text(
        &context,
        "EXPLAIN INSERT INTO bq.d.t (address) SELECT named_struct('street', 's')",
    )
    .await;
    assert!(explained.contains("change=[id]"), "{explained}");
    // An EXPLAIN changes nothing.
    assert_eq!(fields(&server).await[0]["mode"], "REQUIRED");
    let refused = server.session(1);
    let error = error(
        &refused,
        "INSERT INTO bq.d.t (address) SELECT named_struct('street', 's')",
    )
    .await;
    assert!(
        error.to_string().contains("'id': it is REQUIRED"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_column_that_the_table_lacks_is_added_by_the_first_insert() {
    let server = server().await;
    let context = server.session(1);
    let declare = |more: &str| {
        format!(
            "CREATE EXTERNAL TABLE t (id BIGINT, placed DATE) STORED AS BIGQUERY \
             LOCATION 'demo.d.t'{more}"
        )
    };
    let refused = error(&context, &declare("")).await.to_string();
    for part in [
        "'placed'",
        "demo.d.t",
        "sink.schema_update.allow_new_fields",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let allowed = " OPTIONS ('sink.schema_update.allow_new_fields' 'true')";
    rows(&context, &declare(allowed)).await;
    let early = error(&context, "SELECT placed FROM t").await.to_string();
    assert!(early.contains("'placed'"), "{early}");
    assert!(early.contains("the first INSERT adds it"), "{early}");
    assert_eq!(fields(&server).await.as_array().unwrap().len(), 3);

    rows(&context, "INSERT INTO t (id) VALUES (1)").await;
    assert_eq!(fields(&server).await.as_array().unwrap().len(), 3);
    rows(
        &context,
        "INSERT INTO t (placed, id) VALUES (DATE '2024-02-29', 2)",
    )
    .await;
    let fields = fields(&server).await;
    assert_eq!(fields[3]["name"], "placed");
    assert_eq!(fields[3]["type"], "DATE");
    let found = text(&context, "SELECT id, placed FROM t ORDER BY id").await;
    assert!(found.contains("| 1  |            |"), "{found}");
    assert!(found.contains("| 2  | 2024-02-29 |"), "{found}");
}

/// The same for fields of structs.
#[tokio::test(flavor = "multi_thread")]
async fn n04_declared_fields_that_a_struct_lacks_are_added_by_the_first_insert() {
    let server = server().await;
    let context = server.session(1);
    let declare = |more: &str| {
        format!(
            "CREATE EXTERNAL TABLE t (id BIGINT, address STRUCT<street VARCHAR, zip VARCHAR>, \
             items STRUCT<sku VARCHAR, price DOUBLE>[]) STORED AS BIGQUERY \
             LOCATION 'demo.d.t'{more}"
        )
    };
    let refused = error(&context, &declare("")).await.to_string();
    for part in [
        "'address'",
        "demo.d.t",
        "sink.schema_update.allow_new_fields",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let allowed = " OPTIONS ('sink.schema_update.allow_new_fields' 'true')";
    rows(&context, &declare(allowed)).await;
    let early = error(&context, "SELECT id FROM t").await.to_string();
    assert!(early.contains("the first INSERT adds"), "{early}");

    rows(
        &context,
        "INSERT INTO t SELECT 1, named_struct('street', 's', 'zip', 'z'), \
         [named_struct('sku', 'x', 'price', 1.5)]",
    )
    .await;
    let fields = fields(&server).await;
    assert_eq!(fields[1]["fields"][1]["name"], "zip");
    assert_eq!(fields[2]["fields"][1]["name"], "price");
    let found = text(
        &context,
        "SELECT address.zip, items[1]['price'] AS price FROM t",
    )
    .await;
    assert!(
        found.contains("| z ") && found.contains("| 1.5 "),
        "{found}"
    );
}
