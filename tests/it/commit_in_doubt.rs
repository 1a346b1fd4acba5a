//! Commits of which the answer is lost: what is said of the rows is true.

use std::time::Duration;

use bigquery_local::faults::{Action, Rule};

use crate::harness::{Server, error, lines, refused, rows, status};

/// A commit is carried out, its answer is lost, and every further attempt is turned away.
/// The rows are there, so no error may say that they are not.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_may_be_visible_are_not_denied() {
    let staged = ("sink.file_loads.staging_path", "gs://bucket/staged");
    let insert = "INSERT INTO bq.d.t SELECT value FROM generate_series(1, 1000)";
    let overwrite = "INSERT OVERWRITE bq.d.t SELECT value FROM generate_series(1, 1000)";
    for (method, call, statement, said) in [
        (
            "storage_api_exactly_once",
            "FlushRows",
            insert,
            "rows of at least 0 of 1 streams are visible, of others it is not known",
        ),
        (
            "storage_api_atomic",
            "BatchCommitWriteStreams",
            insert,
            "all rows of the table are visible or none, it is not known which",
        ),
        (
            "file_loads",
            "jobs.insert",
            insert,
            "whether they are loaded is not known",
        ),
        (
            "storage_api_atomic",
            "jobs.insert",
            overwrite,
            "its old ones or the new ones, it is not known which",
        ),
    ] {
        let server = Server::with_dataset().await;
        server.create_bucket("bucket").await;
        server.query("CREATE TABLE d.t (id INT64)").await;
        let context = server.session_saying([("sink.write_method", method), staged]);
        server.fault(Rule::once(call, Action::LoseAnswer));
        let turned_away = match call.contains('.') {
            true => Action::Http {
                status: 503,
                reason: "backendError".into(),
                message: "busy".into(),
            },
            false => status("UNAVAILABLE"),
        };
        let rule = Rule::once(call, turned_away).always();
        let rule = server.fault(rule);
        let failed = error(&context, statement).await.to_string();
        for part in [
            said,
            "rows of the statement may be visible",
            "'sink.run_id'",
        ] {
            assert!(failed.contains(part), "{method}: no {part} in {failed}");
        }
        server.unfault(rule);
        // Read over a session that knows nothing of it.
        let reader = server.session(1);
        let visible = async {
            // A job that nobody waits for takes its time.
            while lines(&reader, "SELECT count(*) FROM bq.d.t").await == ["0"] {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let visible = tokio::time::timeout(Duration::from_secs(60), visible).await;
        visible.expect("the call was carried out");
        let count = lines(&reader, "SELECT count(*) FROM bq.d.t").await;
        assert_eq!(count, ["1000"], "{method}");
    }
}

/// A disposition of load jobs that the session says is not passed over by other methods.
#[tokio::test(flavor = "multi_thread")]
async fn a_disposition_that_would_not_act_is_refused() {
    let server = Server::with_dataset().await;
    server.query("CREATE TABLE d.t (id INT64)").await;
    server.query("INSERT INTO d.t VALUES (1)").await;
    for disposition in ["write_truncate", "write_empty", "write_truncate_data"] {
        let context = server.session_saying([
            ("sink.write_method", "storage_api_exactly_once"),
            ("sink.file_loads.write_disposition", disposition),
        ]);
        let parts = [
            "sink.file_loads.write_disposition",
            disposition,
            "storage_api_exactly_once",
            "INSERT OVERWRITE",
            "demo.d.t",
        ];
        refused(&context, "INSERT INTO bq.d.t VALUES (2)", &parts).await;
        assert_eq!(lines(&context, "SELECT id FROM bq.d.t").await, ["1"]);
    }
    let context = server.session_saying([("sink.file_loads.write_disposition", "write_append")]);
    rows(&context, "INSERT INTO bq.d.t VALUES (2)").await;
    assert_eq!(lines(&context, "SELECT count(*) FROM bq.d.t").await, ["2"]);
}
