//! Statements with a run id: repeated as often as one likes, they take effect once.

use bigquery_local::faults::{Action, Rule};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::{Error, ErrorKind, RawOptions};
use tempfile::TempDir;

use crate::harness::{Server, error, plan, rows, run, write_metric};

const METHODS: [(&str, &str); 2] = [
    ("storage_api_exactly_once", "FlushRows"),
    ("storage_api_atomic", "BatchCommitWriteStreams"),
];

struct Notes {
    server: Server,
    directory: TempDir,
}

impl Notes {
    async fn new() -> Self {
        let server = Server::start(1 << 20).await;
        server.create_dataset("d").await;
        server
            .query("CREATE TABLE d.t (n INT64, s STRING); CREATE TABLE d.u (n INT64, s STRING)")
            .await;
        Self {
            server,
            directory: TempDir::new().unwrap(),
        }
    }

    /// A session, as of a process of its own, whose statements are run `id`.
    fn session(&self, method: &str, id: &str) -> SessionContext {
        let path = self.directory.path().to_str().unwrap();
        let options = [
            ("sink.write_method", method),
            ("sink.checkpoint_path", path),
            ("sink.run_id", id),
        ];
        let more = RawOptions::from_pairs(options).unwrap();
        self.server.session_over(&more)
    }

    fn count(&self) -> usize {
        std::fs::read_dir(self.directory.path()).unwrap().count()
    }

    async fn stored(&self) -> (i64, i64) {
        let context = self.server.session(1);
        let counts = rows(&context, "SELECT count(*), count(DISTINCT n) FROM bq.d.t").await;
        let count = |column| {
            counts[0]
                .column(column)
                .as_primitive::<Int64Type>()
                .value(0)
        };
        (count(0), count(1))
    }
}

/// The number that a statement answers.
async fn answer(context: &SessionContext, sql: &str) -> u64 {
    let batches = rows(context, sql).await;
    batches[0].column(0).as_primitive::<UInt64Type>().value(0)
}

fn insert(rows: i64) -> String {
    format!(
        "INSERT INTO bq.d.t SELECT value, 'a' FROM generate_series(1, {rows}) UNION ALL \
         SELECT value, 'b' FROM generate_series({rows} + 1, 2 * {rows})"
    )
}

fn unavailable(call: &str) -> Rule {
    let action = Action::Status {
        code: "UNAVAILABLE".into(),
        message: "on purpose".into(),
        retry_after_ms: None,
        storage_error: None,
    };
    Rule::once(call, action).always()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_does_nothing_and_answers_the_same() {
    for (method, _) in METHODS {
        let notes = Notes::new().await;
        for _ in 0..3 {
            let context = notes.session(method, "load-2024.05_01");
            assert_eq!(answer(&context, &insert(500)).await, 1_000);
            assert_eq!(notes.stored().await, (1_000, 1_000), "{method}");
        }
        let context = notes.session(method, "load-2024.05_01");
        let again = plan(&context, &insert(500)).await;
        run(&context, &again).await;
        assert_eq!(write_metric(&again, "requests"), 0);
        // Another run is another statement, also with the same words.
        let context = notes.session(method, "load-2024.05_02");
        assert_eq!(answer(&context, &insert(500)).await, 1_000);
        assert_eq!(notes.stored().await, (2_000, 1_000), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_completes_a_commit_that_failed() {
    for (method, commit) in METHODS {
        let notes = Notes::new().await;
        let rule = notes.server.fault(unavailable(commit));
        let failed = error(&notes.session(method, "r"), &insert(500)).await;
        let failed = Error::find_in(&failed).unwrap();
        assert_eq!(failed.kind(), ErrorKind::Unavailable);
        assert_eq!(notes.stored().await, (0, 0), "{method}");
        notes.server.unfault(rule);

        let context = notes.session(method, "r");
        let again = plan(&context, &insert(500)).await;
        run(&context, &again).await;
        assert_eq!(
            write_metric(&again, "requests"),
            0,
            "nothing is written anew"
        );
        assert_eq!(notes.stored().await, (1_000, 1_000), "{method}");
        assert_eq!(answer(&context, &insert(500)).await, 1_000);
        assert_eq!(notes.stored().await, (1_000, 1_000), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_before_it_was_prepared_is_done_anew() {
    for (method, _) in METHODS {
        let notes = Notes::new().await;
        let rule = notes.server.fault(unavailable("CreateWriteStream"));
        error(&notes.session(method, "r"), &insert(500)).await;
        notes.server.unfault(rule);
        assert_eq!(notes.count(), 0);
        let context = notes.session(method, "r");
        assert_eq!(answer(&context, &insert(500)).await, 1_000);
        assert_eq!(notes.stored().await, (1_000, 1_000), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rows_are_a_result_too() {
    let notes = Notes::new().await;
    for _ in 0..2 {
        let context = notes.session("storage_api_atomic", "r");
        let none = "INSERT INTO bq.d.t SELECT 1, 'x' WHERE false";
        assert_eq!(answer(&context, none).await, 0);
    }
    assert_eq!(notes.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_statement_under_the_same_name_is_refused() {
    let notes = Notes::new().await;
    let many: Vec<String> = (1..20).map(|n| format!("({n}, 'x')")).collect();
    let first = format!("INSERT INTO bq.d.t VALUES {}, (20, 'x')", many.join(", "));
    let (atomic, exactly_once) = ("storage_api_atomic", "storage_api_exactly_once");
    assert_eq!(answer(&notes.session(atomic, "r"), &first).await, 20);
    for (method, sql, part) in [
        (
            atomic,
            first.replace("(20, 'x')", "(21, 'x')"),
            "was another one",
        ),
        (atomic, first.replace("d.t", "d.u"), "demo.d.u"),
        (exactly_once, first.clone(), exactly_once),
    ] {
        let refused = error(&notes.session(method, "r"), &sql).await;
        let refused = Error::find_in(&refused).unwrap();
        assert_eq!(refused.kind(), ErrorKind::FailedPrecondition);
        for part in ["'r'", "sink.run_id", "r.json", part] {
            assert!(refused.message().contains(part), "{refused}");
        }
    }
    assert_eq!(notes.stored().await, (20, 20));
    assert_eq!(answer(&notes.session(atomic, "r"), &first).await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_executions_at_once_write_once() {
    for (method, _) in METHODS {
        let notes = Notes::new().await;
        let statement = insert(300);
        let executions = (0..4).map(|_| {
            let context = notes.session(method, "r");
            let statement = statement.clone();
            tokio::spawn(async move {
                let frame = context.sql(&statement).await.unwrap();
                frame.collect().await.map(drop)
            })
        });
        let mut through = 0;
        for execution in futures::future::join_all(executions).await {
            match execution.unwrap() {
                Ok(()) => through += 1,
                Err(failed) => {
                    let failed = Error::find_in(&failed).unwrap();
                    assert_eq!(failed.kind(), ErrorKind::Conflict, "{failed}");
                }
            }
        }
        assert!(through >= 1);
        assert_eq!(notes.stored().await, (600, 600), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_least_once_cannot_be_repeated() {
    let notes = Notes::new().await;
    let context = notes.session("storage_api_at_least_once", "r");
    let refused = error(&context, &insert(5)).await.to_string();
    for part in ["'sink.run_id'", "'storage_api_at_least_once'"] {
        assert!(refused.contains(part), "{refused}");
    }
    // Who only reads is not concerned.
    rows(&context, "SELECT * FROM bq.d.t").await;
    assert_eq!(notes.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_the_session_does_not_know_is_named() {
    let notes = Notes::new().await;
    let context = notes.session("storage_api_atomic", "r");
    let set = "SET bigquery.sink.checkpoint_path = 'somewhere://else'";
    context.sql(set).await.unwrap();
    let refused = error(&context, &insert(5)).await.to_string();
    for part in ["'sink.checkpoint_path'", "somewhere://else"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(notes.stored().await, (0, 0));
}

/// What becomes of the rows that are there is part of the statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_that_replaces_rows_is_another_statement() {
    for (method, _) in METHODS {
        let notes = Notes::new().await;
        let into = "INSERT INTO bq.d.t VALUES (1, 'a')";
        let overwrite = "INSERT OVERWRITE bq.d.t VALUES (1, 'a')";
        for (id, first, second) in [("a", into, overwrite), ("b", overwrite, into)] {
            answer(&notes.session(method, id), first).await;
            let before = notes.stored().await;
            let refused = error(&notes.session(method, id), second).await.to_string();
            assert!(refused.contains("was another one"), "{method}: {refused}");
            assert_eq!(notes.stored().await, before, "{method}");
            assert_eq!(answer(&notes.session(method, id), first).await, 1);
        }
    }
    let notes = Notes::new().await;
    notes.server.create_bucket("bucket").await;
    let session = |disposition: &str| {
        let path = notes.directory.path().to_str().unwrap();
        let options = [
            ("sink.write_method", "file_loads"),
            ("sink.file_loads.staging_path", "gs://bucket/staged"),
            ("sink.file_loads.write_disposition", disposition),
            ("sink.checkpoint_path", path),
            ("sink.run_id", "r"),
        ];
        notes
            .server
            .session_over(&RawOptions::from_pairs(options).unwrap())
    };
    let sql = "INSERT INTO bq.d.t VALUES (1, 'a')";
    for _ in 0..2 {
        assert_eq!(answer(&session("write_append"), sql).await, 1);
    }
    let refused = error(&session("write_truncate"), sql).await.to_string();
    assert!(refused.contains("was another one"), "{refused}");
    assert_eq!(notes.stored().await, (1, 1));
}

/// Notes in Cloud Storage are read and written as the identity that writes the rows.
#[tokio::test(flavor = "multi_thread")]
async fn notes_may_be_in_cloud_storage() {
    let notes = Notes::new().await;
    notes.server.create_bucket("bucket").await;
    let session = |id: &str| {
        let options = [
            ("sink.write_method", "storage_api_exactly_once"),
            ("sink.checkpoint_path", "gs://bucket/notes"),
            ("sink.run_id", id),
        ];
        notes
            .server
            .session_over(&RawOptions::from_pairs(options).unwrap())
    };
    for _ in 0..2 {
        assert_eq!(answer(&session("r"), &insert(5)).await, 10);
        assert_eq!(notes.stored().await, (10, 10));
    }
    let objects = notes.server.objects("bucket").await;
    assert_eq!(objects, ["notes/r.json"]);
    // Of two at once, one commits.
    let (one, other) = (session("s"), session("s"));
    let sql = insert(20);
    let (one, other) = tokio::join!(rows_or_error(&one, &sql), rows_or_error(&other, &sql));
    assert!(one.is_ok() || other.is_ok(), "{one:?} {other:?}");
    assert_eq!(notes.stored().await, (50, 40));
}

async fn rows_or_error(context: &SessionContext, sql: &str) -> datafusion::error::Result<usize> {
    let batches = context.sql(sql).await?.collect().await?;
    Ok(batches.len())
}
