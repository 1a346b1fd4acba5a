//! Tables that an INSERT creates.

use std::sync::Arc;
use std::time::Duration;

use bigquery_local::Realism;
use bigquery_local::faults::{Action, Rule};
use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion_bigquery::options::SinkOptions;
use datafusion_bigquery::sink::BigQuerySink;
use datafusion_bigquery::{ErrorKind, TableRef};
use serde_json::{Value, json};

use crate::harness::{PROJECT, Server, plan, refused, rows, run, status, text, write_metric};

/// Names, types and modes of a table's columns.
fn columns(table: &Value) -> Vec<String> {
    let fields = table["schema"]["fields"].as_array().unwrap();
    let of = |field: &Value, member: &str| field[member].as_str().unwrap_or("NULLABLE").to_string();
    fields
        .iter()
        .map(|field| {
            format!(
                "{} {} {}",
                of(field, "name"),
                of(field, "type"),
                of(field, "mode")
            )
        })
        .collect()
}

async fn tables(server: &Server) -> usize {
    let found = server.get("datasets/d/tables").await;
    found["tables"].as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_insert_creates_the_declared_table() {
    let server = Server::with_dataset().await;
    let context = server.session(2);
    // Without a time zone DataFusion has no instants to declare.
    rows(&context, "SET datafusion.execution.time_zone = 'UTC'").await;
    rows(
        &context,
        "CREATE EXTERNAL TABLE t (id INT NOT NULL, note VARCHAR, price DECIMAL(10, 2), \
         at TIMESTAMP WITH TIME ZONE, doc VARCHAR, place VARCHAR, tags VARCHAR[], day DATE) \
         STORED AS BIGQUERY LOCATION 'demo.d.t' OPTIONS (\
         sink.derive_required_columns 'true', \
         sink.json_field_paths 'doc', sink.geography_field_paths 'place', \
         sink.table_create.time_partitioning.type 'day', \
         sink.table_create.time_partitioning.field 'day', \
         sink.table_create.time_partitioning.expiration '10 days', \
         sink.table_create.clustered_fields 'id, note', \
         sink.table_create.labels 'team=data', \
         sink.table_create.description 'what it is', \
         sink.table_create.expiration '30 days')",
    )
    .await;
    refused(
        &context,
        "SELECT * FROM t",
        &["demo.d.t", "does not exist yet"],
    )
    .await;
    // Neither a plan nor an INSERT without rows creates anything.
    let explained = text(&context, "EXPLAIN INSERT INTO t (id) VALUES (1)").await;
    assert!(explained.contains("create=if_needed"), "{explained}");
    rows(&context, "INSERT INTO t (id) SELECT 1 WHERE false").await;
    assert_eq!(tables(&server).await, 0);

    let insert = plan(
        &context,
        "INSERT INTO t (id, doc, place, tags) VALUES (1, '{\"a\": 1}', 'POINT(1 2)', ['x']), \
         (2, NULL, NULL, NULL)",
    )
    .await;
    run(&context, &insert).await;
    assert_eq!(write_metric(&insert, "tables_created"), 1);
    let table = server.get("datasets/d/tables/t").await;
    assert_eq!(
        columns(&table),
        [
            "id INTEGER REQUIRED",
            "note STRING NULLABLE",
            "price NUMERIC NULLABLE",
            "at TIMESTAMP NULLABLE",
            "doc JSON NULLABLE",
            "place GEOGRAPHY NULLABLE",
            "tags STRING REPEATED",
            "day DATE NULLABLE",
        ]
    );
    assert_eq!(table["schema"]["fields"][2]["precision"], "10");
    assert_eq!(
        table["timePartitioning"],
        json!({"type": "DAY", "field": "day", "expirationMs": "864000000"})
    );
    assert_eq!(table["clustering"]["fields"], json!(["id", "note"]));
    assert_eq!(table["labels"], json!({"team": "data"}));
    assert_eq!(table["description"], "what it is");
    assert!(table["expirationTime"].is_string(), "{table}");

    // The same declaration reads it, and writes to it again.
    rows(&context, "INSERT INTO t (id, price) VALUES (3, 1.25)").await;
    let found = text(&context, "SELECT id, doc, price, tags FROM t ORDER BY id").await;
    for part in ["| 1  | {\"a\":1} |", "| 2  |", "| 3  |", "1.25"] {
        assert!(found.contains(part), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_bigquery_cannot_hold_is_refused_when_it_is_declared() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    for (columns, options, parts) in [
        ("_table_x INT", "", vec!["'_table_x'", "_TABLE_"]),
        (
            "day DATE",
            "sink.table_create.time_partitioning.type 'hour', \
             sink.table_create.time_partitioning.field 'day'",
            vec!["'hour'", "DATE"],
        ),
        (
            "tags VARCHAR[]",
            "sink.table_create.clustered_fields 'tags'",
            vec!["'tags'", "repeated"],
        ),
        (
            "n INT",
            "sink.table_create.clustered_fields 'nope'",
            vec!["clustered_fields", "'nope'"],
        ),
        (
            "n INT",
            "sink.json_field_paths 'nope'",
            vec!["sink.json_field_paths", "'nope'"],
        ),
        (
            "n INT",
            "sink.create_disposition 'create_never', sink.table_create.description 'x'",
            vec!["sink.create_disposition", "sink.table_create.description"],
        ),
    ] {
        let options = match options {
            "" => String::new(),
            options => format!(" OPTIONS ({options})"),
        };
        let sql = format!(
            "CREATE EXTERNAL TABLE bad ({columns}) STORED AS BIGQUERY LOCATION 'demo.d.bad'{options}"
        );
        refused(&context, &sql, &parts).await;
    }
    rows(
        &context,
        "CREATE EXTERNAL TABLE never (n INT) STORED AS BIGQUERY LOCATION 'demo.d.never' \
         OPTIONS (sink.create_disposition 'create_never')",
    )
    .await;
    let refusal = ["demo.d.never does not exist", "'create_never'"];
    refused(&context, "INSERT INTO never VALUES (1)", &refusal).await;
    rows(
        &context,
        "CREATE EXTERNAL TABLE homeless (n INT) STORED AS BIGQUERY LOCATION 'demo.nowhere.t'",
    )
    .await;
    let refusal = ["demo.nowhere.t", "create dataset demo.nowhere first"];
    refused(&context, "INSERT INTO homeless VALUES (1)", &refusal).await;
}

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let column = Arc::new(Int64Array::from_iter_values(range));
    RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap()
}

/// Sixteen sinks of their own create one table at the same time, and the service
/// refuses some of the attempts as too many.
#[tokio::test(flavor = "multi_thread")]
async fn n06_sixteen_writers_create_one_table() {
    let server = Server::with_dataset().await;
    let rule = Rule::once(
        "tables.insert",
        Action::RateLimit {
            retry_after_ms: None,
        },
    );
    let rule = Rule {
        times: Some(5),
        ..rule
    };
    let rule = server.fault(rule);
    let mut writers = tokio::task::JoinSet::new();
    let first = server.client();
    for number in 0..16_i64 {
        let client = match number {
            0 => first.clone(),
            _ => server.client(),
        };
        writers.spawn(async move {
            let table = TableRef::new(PROJECT, "d", "race").unwrap();
            let schema = numbers(0..0).schema();
            let sink = BigQuerySink::builder(client, table)
                .build(schema)
                .await
                .unwrap();
            let mut writer = sink.writer(0, None).unwrap();
            writer
                .write(numbers(number * 10..number * 10 + 10))
                .await
                .unwrap();
            writer.prepare_commit().await.unwrap();
            writer.counters().tables_created()
        });
    }
    let created: u64 = writers.join_all().await.into_iter().sum();
    assert_eq!(created, 1);
    assert_eq!(server.acted(rule), 5);
    let context = server.session(1);
    let found = text(
        &context,
        "SELECT count(*), count(DISTINCT n) FROM bq.d.race",
    )
    .await;
    assert!(found.contains("| 160      | 160 "), "{found}");
}

/// A table that was created is denied for a while where rows are written.
#[tokio::test(flavor = "multi_thread")]
async fn k10_rows_wait_until_a_new_table_is_known() {
    for method in [
        "storage_api_at_least_once",
        "storage_api_exactly_once",
        "storage_api_atomic",
    ] {
        let realism = Realism {
            creation_delay: Duration::from_millis(300),
            ..Realism::default()
        };
        let server = Server::start_with(realism).await;
        server.create_dataset("d").await;
        let context = server.session_saying([
            ("sink.propagation.interval", "20 ms"),
            ("sink.propagation.attempts", "1000"),
            ("sink.write_method", method),
        ]);
        rows(
            &context,
            "CREATE EXTERNAL TABLE t (n BIGINT) STORED AS BIGQUERY LOCATION 'demo.d.t'",
        )
        .await;
        rows(
            &context,
            "INSERT INTO t SELECT value FROM generate_series(1, 100)",
        )
        .await;
        let found = text(&context, "SELECT count(*) FROM t").await;
        assert!(found.contains("| 100 "), "{method}: {found}");
    }
}

/// Each call that the service denies for a while after a creation is waited for, whoever
/// created the table.
#[tokio::test(flavor = "multi_thread")]
async fn k10_each_call_that_is_denied_after_our_own_creation_is_waited_for() {
    for (method, call) in [
        ("storage_api_at_least_once", "AppendRows"),
        ("storage_api_exactly_once", "CreateWriteStream"),
        ("storage_api_exactly_once", "AppendRows"),
        ("storage_api_exactly_once", "FlushRows"),
        ("storage_api_atomic", "CreateWriteStream"),
        ("storage_api_atomic", "AppendRows"),
    ] {
        let server = Server::with_dataset().await;
        let patient = || {
            server.session_saying([
                ("sink.propagation.interval", "1 ms"),
                ("sink.propagation.attempts", "4"),
                ("sink.write_method", method),
            ])
        };
        let context = patient();
        rows(
            &context,
            "CREATE EXTERNAL TABLE t (n BIGINT) STORED AS BIGQUERY LOCATION 'demo.d.t'",
        )
        .await;
        let denied = Rule {
            times: Some(3),
            ..Rule::once(call, status("PERMISSION_DENIED"))
        };
        let rule = server.fault(denied.clone());
        let insert = "INSERT INTO t SELECT value FROM generate_series(1, 100)";
        rows(&context, insert).await;
        assert_eq!(server.acted(rule), 3, "{method} {call}");
        let found = text(&context, "SELECT count(*), count(DISTINCT n) FROM bq.d.t").await;
        assert!(
            found.contains("| 100      | 100 "),
            "{method} {call}: {found}"
        );

        let context = patient();
        let rule = server.fault(denied.clone());
        rows(&context, "INSERT INTO bq.d.t VALUES (101)").await;
        assert_eq!(server.acted(rule), 3, "{method} {call}");
    }
}

/// Sixteen sinks that find no table make one, whatever the losers of the race hear.
#[tokio::test(flavor = "multi_thread")]
async fn n06_losers_of_a_creation_race_write_all_the_same() {
    let server = Server::start_with(Realism {
        creation_race: Duration::from_secs(3600),
        ..Realism::default()
    })
    .await;
    server.create_dataset("d").await;
    let mut sinks = Vec::new();
    for _ in 0..16 {
        let table = TableRef::new(PROJECT, "d", "race").unwrap();
        let builder = BigQuerySink::builder(server.client(), table);
        sinks.push(builder.build(numbers(0..0).schema()).await.unwrap());
    }
    let mut writers = tokio::task::JoinSet::new();
    for (number, sink) in sinks.into_iter().enumerate() {
        let first = i64::try_from(number).unwrap() * 10;
        writers.spawn(async move {
            let mut writer = sink.writer(0, None).unwrap();
            writer.write(numbers(first..first + 10)).await.unwrap();
            writer.prepare_commit().await.unwrap();
            writer.counters().tables_created()
        });
    }
    assert_eq!(writers.join_all().await.into_iter().sum::<u64>(), 1);
    let found = text(
        &server.session(1),
        "SELECT count(*), count(DISTINCT n) FROM bq.d.race",
    )
    .await;
    assert!(found.contains("| 160      | 160 "), "{found}");
}

/// A refusal that does not end names what is missing, not a table that is there.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_new_table_ends() {
    let server = Server::with_dataset().await;
    let context = server.session_saying([
        ("sink.propagation.interval", "1 ms"),
        ("sink.propagation.attempts", "3"),
    ]);
    rows(
        &context,
        "CREATE EXTERNAL TABLE t (n BIGINT) STORED AS BIGQUERY LOCATION 'demo.d.t'",
    )
    .await;
    let denied = Action::Status {
        code: "PERMISSION_DENIED".into(),
        message: "as the test wants it".into(),
        retry_after_ms: None,
        storage_error: None,
    };
    let rule = server.fault(Rule::once("AppendRows", denied).always());
    let refusal = ["demo.d.t", "bigquery.tables.updateData"];
    refused(&context, "INSERT INTO t VALUES (1)", &refusal).await;
    assert_eq!(server.acted(rule), 3);
    // Somebody else's new table is waited for too.
    refused(&context, "INSERT INTO bq.d.t VALUES (1)", &refusal).await;
    assert_eq!(server.acted(rule), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_struct_that_is_marked_becomes_json() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    let select = "SELECT 1 AS id, named_struct('a', 1.5, 'day', DATE '2024-02-29') AS doc";
    let frame = context.sql(select).await.unwrap();
    let rows = frame.collect().await.unwrap().swap_remove(0);
    let options = SinkOptions {
        json_field_paths: vec!["doc".into()],
        ..SinkOptions::default()
    };
    // The first creates the table, the second finds a column of JSON there.
    for _ in 0..2 {
        let table = TableRef::new(PROJECT, "d", "t").unwrap();
        let builder = BigQuerySink::builder(server.client(), table).with_options(options.clone());
        let sink = builder.build(rows.schema()).await.unwrap();
        let mut writer = sink.writer(0, None).unwrap();
        writer.write(rows.clone()).await.unwrap();
        writer.close().await.unwrap();
    }
    let table = server.get("datasets/d/tables/t").await;
    assert_eq!(columns(&table)[1], "doc JSON NULLABLE");
    let found = text(&context, "SELECT doc, count(*) FROM bq.d.t GROUP BY doc").await;
    assert!(
        found.contains(r#"{"a":1.5,"day":"2024-02-29"} | 2 "#),
        "{found}"
    );
}

/// The builder is the same for a table that is not there.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_says_what_it_cannot_create() {
    let server = Server::with_dataset().await;
    let table = TableRef::new(PROJECT, "d", "t").unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("ok", DataType::Int64, true),
        Field::new("nothing", DataType::Null, true),
    ]));
    let error = BigQuerySink::builder(server.client(), table)
        .build(schema)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("'nothing'"), "{error}");
}
