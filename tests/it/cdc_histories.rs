//! Histories of changes, broken on purpose, end in the table that applying them one
//! after the other gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use bigquery_local::faults::{Action, Detached, Rule};
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::cdc::ChangeSequence;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::harness::{PROJECT, Server, rows};

/// How many histories of each kind are served.
fn histories() -> u64 {
    match std::env::var("CDC_FULL").as_deref() {
        Ok("1") => 2_000,
        Ok(other) => panic!("CDC_FULL is 1 or not set, not {other:?}"),
        Err(_) => 200,
    }
}

fn seed() -> u64 {
    match std::env::var("CDC_SEED") {
        Ok(text) => text.parse().expect("CDC_SEED is a number"),
        Err(_) => rand::random(),
    }
}

#[derive(Debug, Clone)]
struct Change {
    id: i64,
    /// None deletes.
    name: Option<String>,
    place: u64,
}

fn history(random: &mut StdRng) -> Vec<Change> {
    let keys = random.random_range(1..12);
    let mut place = random.random_range(0..u64::MAX / 2);
    (0..random.random_range(1..200))
        .map(|n| {
            place += random.random_range(1..1_000_000_000_000);
            Change {
                id: random.random_range(0..keys),
                name: random.random_ratio(3, 4).then(|| format!("{n}")),
                place,
            }
        })
        .collect()
}

fn applied(history: &[Change]) -> BTreeMap<i64, String> {
    let mut table = BTreeMap::new();
    for change in history {
        match &change.name {
            Some(name) => table.insert(change.id, name.clone()),
            None => table.remove(&change.id),
        };
    }
    table
}

/// Whether changes say their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Places,
    Nothing,
}

fn batch(changes: &[Change], told: Told) -> RecordBatch {
    let sequence = |change: &Change| {
        let sections = [change.place, change.place.rotate_left(7)];
        ChangeSequence::new(&sections).unwrap().to_string()
    };
    let text =
        |of: &dyn Fn(&Change) -> Option<String>| changes.iter().map(of).collect::<StringArray>();
    let types = |c: &Change| c.name.is_none().then(|| "DELETE".to_string());
    let mut columns: Vec<(&str, Arc<dyn datafusion::arrow::array::Array>)> = vec![
        (
            "id",
            Arc::new(changes.iter().map(|c| c.id).collect::<Int64Array>()),
        ),
        ("name", Arc::new(text(&|c| c.name.clone()))),
        ("_change_type", Arc::new(text(&types))),
    ];
    if told == Told::Places {
        columns.push((
            "_change_sequence_number",
            Arc::new(text(&|c| Some(sequence(c)))),
        ));
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn session(server: &Server) -> SessionContext {
    server.session_saying([
        ("sink.default_stream.max_append_request_bytes", "1 KiB"),
        ("sink.default_stream.recovery.initial_backoff", "1 ms"),
        ("sink.default_stream.recovery.max_backoff", "3 ms"),
        ("sink.default_stream.recovery.max_attempts", "20"),
        ("sink.default_stream.retry.initial_delay", "1 ms"),
        ("sink.default_stream.retry.max_attempts", "20"),
    ])
}

fn fault(random: &mut StdRng) -> Action {
    let status = |code: &str| Action::Status {
        code: code.into(),
        message: "on purpose".into(),
        retry_after_ms: None,
        storage_error: None,
    };
    match random.random_range(0..7) {
        0 => status("ABORTED"),
        1 => status("UNAVAILABLE"),
        2 => Action::LoseAnswer,
        3 => Action::ApplyTwice,
        4 => Action::Goaway {
            streams: Detached::Refuse,
        },
        _ => Action::AppendError {
            code: "UNAVAILABLE".into(),
            message: "on purpose".into(),
            storage_error: None,
        },
    }
}

async fn write(context: &SessionContext, table: &str, batches: Vec<RecordBatch>, told: Told) {
    let schema = batches[0].schema();
    let source = MemTable::try_new(schema, vec![batches]).unwrap();
    context.register_table("source", Arc::new(source)).unwrap();
    let number = match told {
        Told::Places => ", _CHANGE_SEQUENCE_NUMBER",
        Told::Nothing => "",
    };
    let columns = format!("id, name, _CHANGE_TYPE{number}");
    let sql = format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM source");
    rows(context, &sql).await;
    context.deregister_table("source").unwrap();
}

async fn stored(context: &SessionContext, table: &str) -> BTreeMap<i64, String> {
    let found = rows(context, &format!("SELECT id, name FROM bq.d.{table}")).await;
    let mut table = BTreeMap::new();
    for batch in &found {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        for (id, name) in ids.values().iter().zip(batch.column(1).as_string::<i32>()) {
            let before = table.insert(*id, name.unwrap_or_default().to_string());
            assert_eq!(before, None, "key {id} has two rows");
        }
    }
    table
}

async fn table(server: &Server, context: &SessionContext, number: u64) -> String {
    let table = format!("t{number}");
    server
        .query(&format!(
            "CREATE TABLE d.{table} (id INT64 NOT NULL, name STRING NOT NULL, \
             PRIMARY KEY (id) NOT ENFORCED)"
        ))
        .await;
    context
        .sql(&format!(
            "CREATE EXTERNAL TABLE {table} STORED AS BIGQUERY LOCATION '{PROJECT}.d.{table}' \
             OPTIONS ('sink.cdc.enabled' 'true')"
        ))
        .await
        .unwrap();
    table
}

#[expect(
    clippy::print_stdout,
    reason = "the seed tells how to see a failure again"
)]
#[tokio::test(flavor = "multi_thread")]
async fn with_places_any_order_ends_in_the_same_table() {
    let seed = seed();
    println!("CDC_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let context = session(&server);
    for number in 0..histories() {
        let table = table(&server, &context, number).await;
        let history = history(&mut random);
        let expected = applied(&history);
        // Shuffled, some of them twice, and in several statements at the same time.
        let mut sent = history.clone();
        sent.extend(
            history
                .iter()
                .filter(|_| random.random_ratio(1, 3))
                .cloned(),
        );
        sent.shuffle(&mut random);
        let rule = Rule::once("AppendRows", fault(&mut random));
        let rule = server.fault(
            rule.after(random.random_range(0..3))
                .on_table(format!("*{table}*")),
        );
        let parts = sent.chunks(sent.len().div_ceil(random.random_range(1..4)));
        let writes = parts.map(|part| {
            let batches = part
                .chunks(7)
                .map(|some| batch(some, Told::Places))
                .collect();
            let context = session(&server);
            let table = &table;
            async move {
                context
                    .sql(&format!(
                        "CREATE EXTERNAL TABLE {table} STORED AS BIGQUERY LOCATION \
                         '{PROJECT}.d.{table}' OPTIONS ('sink.cdc.enabled' 'true')"
                    ))
                    .await
                    .unwrap();
                write(&context, table, batches, Told::Places).await;
            }
        });
        futures::future::join_all(writes).await;
        server.unfault(rule);
        let found = stored(&context, &table).await;
        assert_eq!(found, expected, "seed {seed}, history {number}");
    }
}

#[expect(
    clippy::print_stdout,
    reason = "the seed tells how to see a failure again"
)]
#[tokio::test(flavor = "multi_thread")]
async fn without_places_the_order_of_each_key_is_kept() {
    let seed = seed();
    println!("CDC_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let context = session(&server);
    context
        .sql("SET datafusion.execution.target_partitions = 3")
        .await
        .unwrap();
    let mut acted = 0;
    for number in 0..histories() {
        let table = table(&server, &context, number).await;
        let history = history(&mut random);
        let expected = applied(&history);
        let rules: Vec<u64> = (0..2)
            .map(|_| {
                let rule = Rule::once("AppendRows", fault(&mut random));
                server.fault(
                    rule.after(random.random_range(0..6))
                        .on_table(format!("*{table}*")),
                )
            })
            .collect();
        let batches = history
            .chunks(5)
            .map(|some| batch(some, Told::Nothing))
            .collect();
        write(&context, &table, batches, Told::Nothing).await;
        for rule in rules {
            acted += server.acted(rule);
            server.unfault(rule);
        }
        let found = stored(&context, &table).await;
        assert_eq!(found, expected, "seed {seed}, history {number}");
    }
    assert!(
        acted > histories() / 4,
        "{acted} faults in {} histories",
        histories()
    );
}

/// A row that the service refuses in the middle: what is left of its request keeps its
/// place before the requests that were on their way behind it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_refused_request_stays_before_what_came_after() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .query(
            "CREATE TABLE d.t (id INT64 NOT NULL, name STRING(4) NOT NULL, \
             PRIMARY KEY (id) NOT ENFORCED)",
        )
        .await;
    let context = session(&server);
    context
        .sql(&format!(
            "CREATE EXTERNAL TABLE t STORED AS BIGQUERY LOCATION '{PROJECT}.d.t' \
             OPTIONS ('sink.cdc.enabled' 'true', 'sink.failure.policy' 'drop')"
        ))
        .await
        .unwrap();
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]);
    // Ten keys over and over; every 97th row is too long, which only the service knows.
    let ids: Int64Array = (0..3_000).map(|n| Some(n % 10)).collect();
    let names: StringArray = (0..3_000)
        .map(|n| {
            Some(if n % 97 == 0 {
                "too long".to_string()
            } else {
                n.to_string()
            })
        })
        .collect();
    let batch =
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(names)]).unwrap();
    let source = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    context.register_table("source", Arc::new(source)).unwrap();
    rows(
        &context,
        "INSERT INTO t (id, name) SELECT id, name FROM source",
    )
    .await;
    let expected = (0..10).map(|id| {
        let last = (0..3_000)
            .rev()
            .find(|n| n % 10 == id && n % 97 != 0)
            .unwrap();
        (i64::from(id), last.to_string())
    });
    assert_eq!(stored(&context, "t").await, expected.collect());
}
