//! Who pays, and what they may do.

use std::sync::{Arc, Mutex};

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::{RawOptions, with_bigquery};
use serde_json::json;

use crate::fake_rest::{Answer, FakeRest};
use crate::harness::{Server, error, text};

fn session(rest: &str, more: &[(&str, &str)]) -> SessionContext {
    let mut options = RawOptions::from_pairs([
        ("project", "data"),
        ("rest_endpoint", rest),
        ("grpc_endpoint", "http://127.0.0.1:1"),
    ])
    .unwrap();
    for (name, value) in more {
        options.set(name, value).unwrap();
    }
    let builder = SessionStateBuilder::new_with_default_features();
    SessionContext::new_with_state(with_bigquery(builder, options).unwrap().build())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j01_j02_jobs_and_dry_runs_are_paid_by_the_billing_project() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    let rest = FakeRest::start(move |_, path| {
        seen.lock().unwrap().push(path.to_string());
        Answer::error(400, "invalidQuery", "no such query")
    })
    .await;
    let context = session(rest.endpoint(), &[("billing_project", "payer")]);
    error(&context, "SELECT * FROM bigquery_query('SELECT 1 AS x')").await;
    let create = "CREATE EXTERNAL TABLE q STORED AS BIGQUERY LOCATION 'data' \
                  OPTIONS('scan.query' 'SELECT 1 AS x')";
    error(&context, create).await;
    let paths = paths.lock().unwrap().clone();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert!(
        paths
            .iter()
            .all(|path| path.contains("/projects/payer/jobs")),
        "{paths:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j04_a_script_is_not_run_and_not_said_to_have_failed_after_it_ran() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .create_table(
            "d",
            "t",
            json!([{"name": "a", "type": "INT64"}]),
            Vec::new(),
        )
        .await;
    let context = server.session(1);
    let sql = "SELECT * FROM bigquery_query('INSERT INTO d.t (a) VALUES (1); SELECT * FROM d.t')";
    let refused = error(&context, sql).await.to_string();
    assert!(refused.contains("nothing was run"), "{refused}");
    let rows = text(&context, "SELECT count(*) AS n FROM bq.d.t").await;
    assert!(rows.contains("| 0 |"), "{rows}");
}
