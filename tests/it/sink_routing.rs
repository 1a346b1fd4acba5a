//! Rows that go to many tables.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::client::retry::Clock;
use datafusion_bigquery::options::{Options, SinkOptions, WriteMethod};
use datafusion_bigquery::sink::{BigQuerySink, Committable, DestinationResolver, Resolution};
use datafusion_bigquery::{Client, ErrorKind, RawOptions, Result, TableRef};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::harness::{PROJECT, Server, error, plan, rows, run, scan_of, text, write_metric};

/// The ids in a table, in order.
async fn ids(server: &Server, table: &str) -> String {
    let sql =
        format!("SELECT string_agg(CAST(id AS VARCHAR), ',' ORDER BY id) AS ids FROM bq.d.{table}");
    let found = text(&server.session(1), &sql).await;
    found
        .lines()
        .nth(3)
        .unwrap()
        .trim_matches(['|', ' '])
        .to_string()
}

async fn declare(context: &SessionContext, more: &str) {
    rows(
        context,
        &format!(
            "CREATE EXTERNAL TABLE orders (tenant VARCHAR, id BIGINT) STORED AS BIGQUERY \
             LOCATION 'demo.d.orders' OPTIONS (\
             sink.destination 'demo.d.orders_{{tenant}}'{more})"
        ),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_to_the_table_that_they_name() {
    for method in ["storage_api_at_least_once", "storage_api_exactly_once"] {
        let server = Server::with_dataset().await;
        // One of the tables is there already.
        server
            .query("CREATE TABLE d.orders_b (id INT64, note STRING)")
            .await;
        let context = server.session_saying([
            ("sink.write_method", method),
            ("sink.per_destination_metrics", "true"),
        ]);
        declare(&context, ", sink.destination.drop_columns 'tenant'").await;
        let sql = "INSERT INTO orders VALUES ('a', 1), ('b', 2), ('a', 3), ('c', 4)";
        let explained = text(&context, &format!("EXPLAIN {sql}")).await;
        assert!(
            explained.contains("table=demo.d.orders_{tenant}"),
            "{explained}"
        );
        let insert = plan(&context, sql).await;
        run(&context, &insert).await;
        assert_eq!(write_metric(&insert, "tables_created"), 2, "{method}");
        assert_eq!(
            write_metric(&insert, "rows_written_demo.d.orders_a"),
            2,
            "{method}"
        );
        assert_eq!(ids(&server, "orders_a").await, "1,3", "{method}");
        assert_eq!(ids(&server, "orders_b").await, "2", "{method}");
        assert_eq!(ids(&server, "orders_c").await, "4", "{method}");
        let table = server.get("datasets/d/tables/orders_a").await;
        assert_eq!(table["schema"]["fields"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_name_no_table_are_for_the_failure_policy() {
    let server = Server::with_dataset().await;
    let sql = "INSERT INTO orders VALUES ('a', 1), (NULL, 2), ('x.y', 3), ('a', 4)";
    let context = server.session(1);
    declare(&context, "").await;
    let failed = error(&context, sql).await.to_string();
    for part in ["row 2", "'tenant' is NULL", "demo.d.orders_{tenant}"] {
        assert!(failed.contains(part), "{failed}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letters");
    let target = format!("file://{}", path.display());
    let context = server.session_saying([
        ("sink.failure.policy", "dead_letter"),
        ("sink.failure.dead_letter", target.as_str()),
    ]);
    declare(&context, "").await;
    let insert = plan(&context, sql).await;
    run(&context, &insert).await;
    assert_eq!(write_metric(&insert, "rows_skipped"), 2);
    assert_eq!(ids(&server, "orders_a").await, "1,4");
    let letters: Vec<Value> = std::fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(letters.len(), 2);
    assert_eq!(letters[0]["destination"], "demo.d.orders_{tenant}");
    assert_eq!(letters[0]["row"], 2);
    assert_eq!(letters[1]["payload"]["tenant"], "x.y");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_routed_is_refused_at_planning() {
    let server = Server::with_dataset().await;
    let context = server.session_saying([("sink.write_method", "storage_api_atomic")]);
    let sql = "CREATE EXTERNAL TABLE orders (tenant VARCHAR, id BIGINT) STORED AS BIGQUERY \
               LOCATION 'demo.d.orders' OPTIONS (sink.destination 'demo.d.orders_{tenant}')";
    let failed = error(&context, sql).await.to_string();
    for part in [
        "storage_api_atomic",
        "sink.destination",
        "'storage_api_exactly_once' or 'file_loads'",
    ] {
        assert!(failed.contains(part), "{failed}");
    }
    let context = server.session(1);
    rows(&context, sql).await;
    let failed = error(&context, "SELECT * FROM orders").await.to_string();
    for part in [
        "demo.d.orders",
        "'sink.destination'",
        "orders_{tenant}",
        "own names",
    ] {
        assert!(failed.contains(part), "{failed}");
    }
    rows(&context, "DROP TABLE orders").await;
    rows(&context, &sql.replace("{tenant}", "{nope}")).await;
    let failed = error(&context, "INSERT INTO orders VALUES ('a', 1)")
        .await
        .to_string();
    assert!(failed.contains("'nope' is no column"), "{failed}");
}

fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
    let ids = Int64Array::from_iter_values(rows);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids)]).unwrap()
}

/// Sends each row to one of so many tables; every eleventh to none.
#[derive(Debug)]
struct Modulo(i64);

impl DestinationResolver for Modulo {
    fn resolve(&self, batch: &RecordBatch) -> Result<Vec<Resolution>> {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        ids.values()
            .iter()
            .map(|id| {
                Ok(match id % 11 {
                    10 => Resolution::Unroutable {
                        payload: format!("id={id}"),
                        reason: "an eleventh".into(),
                    },
                    _ => {
                        let table = format!("part_{}", id % self.0);
                        Resolution::Destination(TableRef::new(PROJECT, "d", table)?)
                    }
                })
            })
            .collect()
    }
}

fn resolved(
    server: &Server,
    tables: i64,
    options: SinkOptions,
) -> datafusion_bigquery::sink::BigQuerySinkBuilder {
    BigQuerySink::routing_builder(server.client(), Arc::new(Modulo(tables))).with_options(options)
}

fn dropping() -> SinkOptions {
    let mut options = SinkOptions::default();
    options.failure.policy = datafusion_bigquery::options::FailurePolicy::Drop;
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resolver_writes_to_more_tables_than_are_open_at_once() {
    let server = Server::with_dataset().await;
    let sink = resolved(&server, 250, dropping())
        .build(batch(0..0).schema())
        .await
        .unwrap();
    assert_eq!((sink.table(), sink.lineage()), (None, None));
    let mut writer = sink.writer(0, None).unwrap();
    for start in (0..1_000).step_by(500) {
        writer.write(batch(start..start + 500)).await.unwrap();
        assert!(writer.counters().open_destinations() <= 200);
    }
    let prepared = writer.prepare_commit().await.unwrap();
    let routed = (0..1_000).filter(|id| id % 11 != 10).count();
    let rows: u64 = prepared.iter().map(Committable::rows).sum();
    assert_eq!(usize::try_from(rows).unwrap(), routed);
    assert_eq!(
        usize::try_from(writer.counters().skipped()).unwrap(),
        1_000 - routed
    );
    sink.committer().commit(prepared).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(ids(&server, "part_7").await, "7,257,507,757");
    let all = server.get("datasets/d/tables?maxResults=1000").await;
    assert_eq!(all["tables"].as_array().unwrap().len(), 250);
}

/// One state and one list of committables for all tables: after a crash nothing is lost
/// and nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_several_tables_is_one() {
    let server = Server::with_dataset().await;
    let options = SinkOptions {
        write_method: WriteMethod::StorageApiExactlyOnce,
        ..dropping()
    };
    let sink = resolved(&server, 3, options)
        .build(batch(0..0).schema())
        .await
        .unwrap();
    let mut writer = sink.writer(0, None).unwrap();
    writer.write(batch(0..9)).await.unwrap();
    let first = writer.prepare_commit().await.unwrap();
    assert_eq!(first.len(), 3);
    let state = serde_json::to_string(&writer.snapshot().unwrap()).unwrap();
    // Rows that come after the checkpoint die with the writer.
    writer.write(batch(9..20)).await.unwrap();
    writer.flush().await.unwrap();
    drop(writer);
    sink.committer().commit(first.clone()).await.unwrap();
    sink.committer().commit(first).await.unwrap();
    let state = serde_json::from_str(&state).unwrap();
    let mut writer = sink.writer(0, Some(state)).unwrap();
    writer.write(batch(11..18)).await.unwrap();
    let second = writer.prepare_commit().await.unwrap();
    sink.committer().commit(second).await.unwrap();
    writer.close().await.unwrap();
    let mut found = BTreeMap::new();
    for part in 0..3 {
        found.insert(part, ids(&server, &format!("part_{part}")).await);
    }
    assert_eq!(found[&0], "0,3,6,12,15");
    assert_eq!(found[&1], "1,4,7,13,16");
    assert_eq!(found[&2], "2,5,8,11,14,17");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_adds_columns_of_its_own() {
    let server = Server::with_dataset().await;
    let table = TableRef::new(PROJECT, "d", "t").unwrap();
    let text_field = |name: &str| Arc::new(Field::new(name, DataType::Utf8, true));
    let sink = BigQuerySink::builder(server.client(), table)
        .with_constant_field(text_field("source"), ScalarValue::from("unit"))
        .with_computed_field(text_field("label"), |batch| {
            let ids = batch.column(0).as_primitive::<Int64Type>();
            let labels = ids.values().iter().map(|id| format!("row {id}"));
            Ok(Arc::new(StringArray::from_iter_values(labels)) as ArrayRef)
        })
        .build(batch(0..0).schema())
        .await
        .unwrap();
    let lineage = sink.lineage().unwrap();
    assert_eq!(
        (lineage.namespace.as_str(), lineage.name.as_str()),
        ("bigquery", "demo.d.t")
    );
    let mut writer = sink.writer(0, None).unwrap();
    writer.write(batch(5..7)).await.unwrap();
    writer.close().await.unwrap();
    let context = server.session(1);
    let read = plan(&context, "SELECT id FROM bq.d.t").await;
    assert_eq!(scan_of(&read, "t").lineage(), Some(lineage));
    let found = text(&context, "SELECT * FROM bq.d.t ORDER BY id").await;
    for part in ["| 5  | unit   | row 5 |", "| 6  | unit   | row 6 |"] {
        assert!(found.contains(part), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_one_table_does_not_fit_a_sink_of_several() {
    let server = Server::with_dataset().await;
    let sink = resolved(&server, 3, SinkOptions::default())
        .build(batch(0..0).schema())
        .await
        .unwrap();
    let state = serde_json::from_str(r#"{"state":"storage_api_at_least_once_v1"}"#).unwrap();
    let failed = sink.writer(0, Some(state)).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Configuration);
}

/// A clock that is set by hand.
#[derive(Debug)]
struct HandClock {
    start: Instant,
    passed: Mutex<Duration>,
}

impl HandClock {
    fn pass(&self, duration: Duration) {
        *self.passed.lock().unwrap() += duration;
    }
}

impl Clock for HandClock {
    fn now(&self) -> Instant {
        self.start + *self.passed.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.pass(duration);
        Box::pin(tokio::task::yield_now())
    }

    fn chance(&self) -> f64 {
        0.5
    }
}

/// The writer of a table without rows for the timeout is put away, its rows count with
/// those of the others, and it goes on where it was when there are rows again.
#[tokio::test(flavor = "multi_thread")]
async fn writers_without_rows_for_long_are_put_away() {
    const MINUTE: Duration = Duration::from_secs(60);
    for (method, streams) in [
        ("storage_api_at_least_once", 0),
        ("storage_api_exactly_once", 3),
        ("file_loads", 0),
    ] {
        let server = Server::with_dataset().await;
        server.create_bucket("bucket").await;
        let clock = Arc::new(HandClock {
            start: Instant::now(),
            passed: Mutex::default(),
        });
        let mut said = vec![
            ("sink.write_method", method),
            ("sink.destination", "demo.d.orders_{tenant}"),
            ("sink.destination_idle_timeout", "30 min"),
        ];
        if method == "file_loads" {
            said.push(("sink.file_loads.staging_path", "gs://bucket/staged"));
            said.push(("sink.file_loads.load_job_poll.initial_backoff", "1 ms"));
        }
        let said = RawOptions::from_pairs(said).unwrap();
        let options = Options::resolve_over(&said, &server.options()).unwrap();
        let client = Client::with_clock(&options.connection, Arc::clone(&clock) as _).unwrap();
        let table = TableRef::new(PROJECT, "d", "orders").unwrap();
        let rows = |tenant: &str, id: i64| {
            let columns: [(&str, ArrayRef); 2] = [
                ("tenant", Arc::new(StringArray::from(vec![tenant]))),
                ("id", Arc::new(Int64Array::from(vec![id]))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let sink = BigQuerySink::builder(client, table)
            .with_options(options.sink)
            .build(rows("a", 0).schema())
            .await
            .unwrap();
        let created = server.calls("CreateWriteStream");
        let mut writer = sink.writer(0, None).unwrap();
        let counters = Arc::clone(writer.counters());
        writer.write(rows("a", 1)).await.unwrap();
        writer.write(rows("b", 2)).await.unwrap();
        assert_eq!(counters.open_destinations(), 2, "{method}");
        clock.pass(29 * MINUTE);
        writer.write(rows("b", 3)).await.unwrap();
        assert_eq!(counters.open_destinations(), 2, "{method}");
        clock.pass(2 * MINUTE);
        writer.write(rows("b", 4)).await.unwrap();
        assert_eq!(counters.open_destinations(), 1, "{method}");
        writer.write(rows("a", 5)).await.unwrap();
        assert_eq!(counters.open_destinations(), 2, "{method}");
        clock.pass(40 * MINUTE);
        writer.write(rows("c", 6)).await.unwrap();
        assert_eq!(counters.open_destinations(), 1, "{method}");
        let prepared = writer.prepare_commit().await.unwrap();
        writer.close().await.unwrap();
        let counted = sink.committer().commit(prepared).await.unwrap();
        assert_eq!(counted, 6, "{method}");
        for (table, stored) in [
            ("orders_a", "1,5"),
            ("orders_b", "2,3,4"),
            ("orders_c", "6"),
        ] {
            assert_eq!(ids(&server, table).await, stored, "{method} {table}");
        }
        // The stream of a writer that was put away is taken up again.
        assert_eq!(server.acted(created), streams, "{method}");
    }
}
