//! Creations and reconciliations of a table of changes that are interrupted between their
//! steps.

use std::time::{Duration, Instant};

use bigquery_local::faults::{Action, Rule};
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};

use crate::cdc::{key_of, staleness_of};
use crate::harness::{PROJECT, Server, error, lines, refused, rows};

const LABEL: &str = "datafusion_bigquery_cdc_pending";
/// The calls that a table is looked after with.
const METHODS: [&str; 6] = [
    "tables.get",
    "tables.insert",
    "tables.patch",
    "jobs.insert",
    "jobs.get",
    "jobs.getQueryResults",
];

/// What a table is at the beginning, and what is asked of it.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// A statement that creates `{table}`; nothing where it does not exist.
    before: &'static str,
    options: &'static str,
    staleness: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        before: "",
        options: ", 'sink.cdc.max_staleness' '10 min'",
        staleness: "0-0 0 0:10:0",
    },
    Case {
        before: "CREATE TABLE d.{table} (id INT64 NOT NULL, name STRING) OPTIONS (labels = [('team', 'data')])",
        options: ", 'sink.cdc.max_staleness' '10 min'",
        staleness: "0-0 0 0:10:0",
    },
    Case {
        before: "CREATE TABLE d.{table} (id INT64 NOT NULL, name STRING) \
                 OPTIONS (max_staleness = INTERVAL 5 MINUTE, labels = [('team', 'data')])",
        options: ", 'sink.cdc.clear_max_staleness' 'true'",
        staleness: "0-0 0 0:0:0",
    },
];

/// What there is of a table.
#[derive(Debug, PartialEq)]
enum Found {
    Nothing,
    Table {
        key: Value,
        staleness: String,
        labels: Vec<String>,
    },
}

async fn found(server: &Server, context: &SessionContext, table: &str) -> Found {
    let listed = server.get("datasets/d/tables?maxResults=1000").await;
    let listed = listed["tables"].as_array().cloned().unwrap_or_default();
    if !listed
        .iter()
        .any(|of| of["tableReference"]["tableId"] == table)
    {
        return Found::Nothing;
    }
    let resource = server.get(&format!("datasets/d/tables/{table}")).await;
    let labels = resource["labels"].as_object().cloned().unwrap_or_default();
    Found::Table {
        key: key_of(server, table).await,
        staleness: staleness_of(context, table).await,
        labels: labels.into_iter().map(|(name, _)| name).collect(),
    }
}

/// Declares a table anew and writes a change to it.
async fn write(context: &SessionContext, table: &str, more: &str) -> Result<(), String> {
    if context.table_exist(table).unwrap() {
        rows(context, &format!("DROP TABLE {table}")).await;
    }
    let declared = format!(
        "CREATE EXTERNAL TABLE {table} (id BIGINT, name VARCHAR, PRIMARY KEY (id)) \
         STORED AS BIGQUERY LOCATION '{PROJECT}.d.{table}' \
         OPTIONS ('sink.cdc.enabled' 'true'{more})"
    );
    for sql in [
        declared,
        format!("INSERT INTO {table} (id, name) VALUES (1, 'a')"),
    ] {
        let planned = context.sql(&sql).await.map_err(|error| error.to_string())?;
        planned.collect().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Sessions that wait for other writers only a moment.
const IMPATIENT: [(&str, &str); 2] = [
    ("sink.propagation.interval", "1 ms"),
    ("sink.propagation.attempts", "3"),
];

const RECONCILE: &str = ", 'sink.cdc.table_reconciliation' 'reconcile'";

/// Every call of every case fails once, so a program ends between every two steps. What
/// it leaves is what there was, or what is to be, or it is marked; and then only who may
/// change the table completes it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_interrupted_anywhere_is_marked_and_completed() {
    let server = Server::with_dataset().await;
    let context = server.session_saying(IMPATIENT);
    let (mut number, mut marked) = (0, 0);
    for case in CASES {
        for method in METHODS {
            for calls in 0.. {
                number += 1;
                let table = format!("t{number}");
                let before = case.before.replace("{table}", &table);
                if !before.is_empty() {
                    server.query(&before).await;
                }
                let first = found(&server, &context, &table).await;
                let broken = Action::Http {
                    status: 403,
                    reason: "accessDenied".into(),
                    message: "on purpose".into(),
                };
                let rule = server.fault(Rule::once(method, broken).after(calls));
                let reconcile = format!("{}{RECONCILE}", case.options);
                let outcome = write(&context, &table, &reconcile).await;
                let acted = server.acted(rule) > 0;
                server.unfault(rule);
                let at = format!("{method} {calls} of {case:?}");
                let mut labels: Vec<String> = vec!["team".into()];
                if case.before.is_empty() {
                    labels.clear();
                }
                let last = Found::Table {
                    key: json!(["id"]),
                    staleness: case.staleness.to_string(),
                    labels: labels.clone(),
                };
                if acted {
                    let message = outcome.expect_err(&at);
                    assert!(message.contains("on purpose"), "{at}: {message}");
                    let left = found(&server, &context, &table).await;
                    let is_marked = match &left {
                        Found::Table { labels, .. } => labels.iter().any(|name| name == LABEL),
                        Found::Nothing => false,
                    };
                    if is_marked {
                        marked += 1;
                        let message = write(&context, &table, case.options).await.expect_err(&at);
                        for part in [LABEL, "has begun and not ended", "'reconcile'"] {
                            assert!(message.contains(part), "{at}: no {part} in {message}");
                        }
                        assert_eq!(found(&server, &context, &table).await, left, "{at}");
                    } else {
                        assert!(left == first || left == last, "{at}: {left:?}");
                    }
                    write(&context, &table, &reconcile).await.expect(&at);
                } else {
                    outcome.expect(&at);
                }
                assert_eq!(found(&server, &context, &table).await, last, "{at}");
                write(&context, &table, case.options).await.expect(&at);
                let sql = format!("SELECT id, name FROM bq.d.{table}");
                assert_eq!(lines(&context, &sql).await, ["1 a"], "{at}");
                if !acted {
                    break;
                }
            }
        }
    }
    assert!(
        marked >= 12,
        "{marked} of {number} were interrupted between steps"
    );
}

/// Every step is carried out and its answer is lost, so it is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn steps_whose_answers_are_lost_are_done_once() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    let mut number = 0;
    for case in CASES {
        for method in ["tables.insert", "tables.patch", "jobs.insert"] {
            for calls in 0.. {
                number += 1;
                let table = format!("t{number}");
                let before = case.before.replace("{table}", &table);
                if !before.is_empty() {
                    server.query(&before).await;
                }
                let rule = Rule::once(method, Action::LoseAnswer).after(calls);
                let rule = server.fault(rule);
                let reconcile = format!("{}{RECONCILE}", case.options);
                let at = format!("{method} {calls} of {case:?}");
                write(&context, &table, &reconcile).await.expect(&at);
                let acted = server.acted(rule) > 0;
                server.unfault(rule);
                let left = found(&server, &context, &table).await;
                let Found::Table {
                    key,
                    staleness,
                    labels,
                } = left
                else {
                    panic!("{at}: there is no table");
                };
                assert_eq!(
                    (key, staleness.as_str()),
                    (json!(["id"]), case.staleness),
                    "{at}"
                );
                assert!(!labels.iter().any(|name| name == LABEL), "{at}: {labels:?}");
                if !acted {
                    break;
                }
            }
        }
    }
}

/// A table with the mark of a reconciliation that led to a staleness of ten minutes.
async fn left_behind(server: &Server, table: &str, value: &str) {
    server
        .query(&format!(
            "CREATE TABLE d.{table} (id INT64 NOT NULL, name STRING, PRIMARY KEY (id) NOT ENFORCED) \
             OPTIONS (labels = [('{LABEL}', '{value}')])"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_began_is_completed_or_led_elsewhere() {
    let server = Server::with_dataset().await;
    let context = server.session_saying(IMPATIENT);
    let begun = "max_staleness_600s_1a2b3c4d";
    for (table, options, staleness) in [
        // Nothing is said of the staleness, so it is the one that was begun.
        ("silent", "", "0-0 0 0:10:0"),
        (
            "same",
            ", 'sink.cdc.max_staleness' '10 min'",
            "0-0 0 0:10:0",
        ),
        (
            "other",
            ", 'sink.cdc.max_staleness' '20 min'",
            "0-0 0 0:20:0",
        ),
        ("none", ", 'sink.cdc.clear_max_staleness' 'true'", ""),
    ] {
        left_behind(&server, table, begun).await;
        let message = write(&context, table, options).await.unwrap_err();
        assert!(
            message.contains(LABEL) && message.contains(begun),
            "{message}"
        );
        write(&context, table, &format!("{options}{RECONCILE}"))
            .await
            .unwrap();
        let expected = Found::Table {
            key: json!(["id"]),
            staleness: staleness.to_string(),
            labels: Vec::new(),
        };
        assert_eq!(found(&server, &context, table).await, expected, "{table}");
    }
    // What leads nowhere has to be said.
    left_behind(&server, "strange", "yes").await;
    let message = write(&context, "strange", RECONCILE).await.unwrap_err();
    for part in [LABEL, "'yes'", "sink.cdc.max_staleness"] {
        assert!(message.contains(part), "no {part} in {message}");
    }
    let more = format!(", 'sink.cdc.max_staleness' '10 min'{RECONCILE}");
    write(&context, "strange", &more).await.unwrap();
    assert_eq!(staleness_of(&context, "strange").await, "0-0 0 0:10:0");

    // Another key is not replaced, marked or not.
    left_behind(&server, "keyed", begun).await;
    server
        .query("ALTER TABLE d.keyed DROP PRIMARY KEY; ALTER TABLE d.keyed ADD PRIMARY KEY (name) NOT ENFORCED")
        .await;
    let message = write(&context, "keyed", RECONCILE).await.unwrap_err();
    assert!(
        message.contains("is (name), and (id) is declared"),
        "{message}"
    );
    assert_eq!(key_of(&server, "keyed").await, json!(["name"]));
}

/// Several writers reconcile one table at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn writers_reconcile_side_by_side() {
    let server = Server::with_dataset().await;
    server
        .query("CREATE TABLE d.t (id INT64 NOT NULL, name STRING)")
        .await;
    let more = format!(", 'sink.cdc.max_staleness' '10 min'{RECONCILE}");
    let writes = (0..8).map(|_| {
        let (context, more) = (server.session(1), more.clone());
        async move { write(&context, "t", &more).await }
    });
    for outcome in futures::future::join_all(writes).await {
        outcome.unwrap();
    }
    let expected = Found::Table {
        key: json!(["id"]),
        staleness: "0-0 0 0:10:0".to_string(),
        labels: Vec::new(),
    };
    let context = server.session(1);
    assert_eq!(found(&server, &context, "t").await, expected);
}

/// Who may only verify waits for a writer that is at the table, and not longer than that
/// takes.
#[tokio::test(flavor = "multi_thread")]
async fn another_writers_steps_are_waited_for() {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    left_behind(&server, "t", "max_staleness_600s_1a2b3c4d").await;
    let begun = Instant::now();
    let ends = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        server
            .query("ALTER TABLE d.t SET OPTIONS (max_staleness = INTERVAL 10 MINUTE, labels = [('team', 'data')])")
            .await;
    };
    let more = ", 'sink.cdc.max_staleness' '10 min'";
    let (written, ()) = futures::future::join(write(&context, "t", more), ends).await;
    written.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        lines(&context, "SELECT id, name FROM bq.d.t").await,
        ["1 a"]
    );
}

/// A creation that another writer does not complete is waited for, and then left alone.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_another_creation_ends() {
    let server = Server::with_dataset().await;
    let context = server.session_saying(IMPATIENT);
    let declared = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, name VARCHAR, PRIMARY KEY (id)) \
         STORED AS BIGQUERY LOCATION '{PROJECT}.d.t' OPTIONS ('sink.cdc.enabled' 'true')"
    );
    rows(&context, &declared).await;
    // Between the look at the table and its creation another writer creates it.
    let missing = Action::Http {
        status: 404,
        reason: "notFound".into(),
        message: "Not found: Table".into(),
    };
    left_behind(&server, "t", "max_staleness_600s_1a2b3c4d").await;
    let rule = server.fault(Rule {
        times: Some(2),
        ..Rule::once("tables.get", missing).on_table("*.t")
    });
    let insert = "INSERT INTO t (id, name) VALUES (1, 'a')";
    let message = error(&context, insert).await.to_string();
    assert!(message.contains("has begun and not ended"), "{message}");
    assert_eq!(server.acted(rule), 2);
    refused(&context, insert, &[LABEL]).await;
    assert_eq!(lines(&context, "SELECT count(*) FROM bq.d.t").await, ["0"]);
}
