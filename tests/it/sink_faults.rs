//! Writing when the service does not do as asked: at least once means that no row
//! is lost, whatever breaks.

use std::sync::Arc;

use bigquery_local::faults::{Action, Detached, Rule};
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::sink::{BigQuerySink, Committable};
use datafusion_bigquery::{Error, ErrorKind, TableRef};

use crate::harness::{PROJECT, Server, error, plan, rows, run, status, write_metric};

const ROWS: usize = 5_000;

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
    server
}

/// A session whose writes make about ten requests and do not wait long.
fn session(server: &Server) -> SessionContext {
    server.session_saying([
        ("sink.default_stream.max_append_request_bytes", "24 KiB"),
        ("sink.default_stream.recovery.initial_backoff", "1 ms"),
        ("sink.default_stream.recovery.max_backoff", "5 ms"),
        ("sink.default_stream.recovery.max_attempts", "4"),
        ("sink.default_stream.retry.initial_delay", "1 ms"),
        ("sink.default_stream.append_timeout", "1 s"),
        ("sink.default_stream.max_connections", "1"),
        // The table is new, and what is denied is to stay so.
        ("sink.propagation.attempts", "1"),
    ])
}

fn insert() -> String {
    format!("INSERT INTO bq.d.t SELECT value, repeat('x', 50) FROM generate_series(1, {ROWS})")
}

/// How many rows the table has, and how many different ones.
async fn stored(context: &SessionContext) -> (usize, usize) {
    let counts = rows(context, "SELECT count(*), count(DISTINCT n) FROM bq.d.t").await;
    let count = |column| {
        let counts = counts[0].column(column).as_primitive::<Int64Type>();
        usize::try_from(counts.value(0)).unwrap()
    };
    (count(0), count(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_whatever_breaks() {
    for (name, action) in [
        ("aborted", status("ABORTED")),
        ("unavailable", status("UNAVAILABLE")),
        ("cancelled", status("CANCELLED")),
        ("internal", status("INTERNAL")),
        ("token ran out", status("UNAUTHENTICATED")),
        ("deadline", status("DEADLINE_EXCEEDED")),
        ("re-created", status("NOT_FOUND")),
        (
            "throttled",
            Action::RateLimit {
                retry_after_ms: Some(5),
            },
        ),
        (
            "over quota",
            Action::RateLimit {
                retry_after_ms: None,
            },
        ),
        ("reset", Action::Reset),
        (
            "going away",
            Action::Goaway {
                streams: Detached::Finish,
            },
        ),
        (
            "refused when going away",
            Action::Goaway {
                streams: Detached::Refuse,
            },
        ),
        ("answer lost", Action::LoseAnswer),
        ("applied twice", Action::ApplyTwice),
        ("hung", Action::Hang),
        (
            "in the answer",
            Action::AppendError {
                code: "UNAVAILABLE".into(),
                message: "on purpose".into(),
                storage_error: None,
            },
        ),
    ] {
        let server = server().await;
        let context = session(&server);
        let first = server.fault(Rule::once("AppendRows", action.clone()).after(3));
        let second = server.fault(Rule::once("AppendRows", action.clone()).after(7));
        let insert = plan(&context, &insert()).await;
        run(&context, &insert).await;
        assert_eq!(write_metric(&insert, "rows_written"), ROWS, "{name}");
        assert!(write_metric(&insert, "requests") >= 10, "{name}");
        assert_eq!(server.acted(first) + server.acted(second), 2, "{name}");
        assert_eq!(write_metric(&insert, "in_flight"), 0, "{name}");
        let (all, different) = stored(&context).await;
        assert_eq!(different, ROWS, "{name}");
        assert!(all >= ROWS, "{name}");
    }
}

/// Answers are kept waiting, so that one connection after the other is full.
#[tokio::test(flavor = "multi_thread")]
async fn connections_grow_with_what_there_is_to_send() {
    for (min, max, inflight, opened) in [
        ("1", "1", "100", 1..=1),
        ("3", "20", "100", 3..=3),
        ("1", "4", "1", 4..=4),
        ("1", "20", "1", 5..=20),
    ] {
        let server = server().await;
        let context = server.session_saying([
            ("sink.default_stream.max_append_request_bytes", "8 KiB"),
            ("sink.default_stream.min_connections", min),
            ("sink.default_stream.max_connections", max),
            ("sink.default_stream.max_inflight_requests", inflight),
            ("sink.default_stream.recovery.initial_backoff", "1 ms"),
        ]);
        let slow = Action::Delay { ms: 30 };
        let rule = server.fault(Rule::once("AppendRows", slow).always());
        let insert = plan(&context, &insert()).await;
        run(&context, &insert).await;
        assert!(server.acted(rule) >= 20);
        assert_eq!(stored(&context).await, (ROWS, ROWS), "{min} {max}");
        let found = write_metric(&insert, "connections");
        assert!(opened.contains(&found), "{min} {max} {inflight}: {found}");

        // What breaks one of them is nothing to the others.
        server.unfault(rule);
        for skip in [2, 5, 9, 14] {
            server.fault(Rule::once("AppendRows", status("ABORTED")).after(skip));
        }
        run(&context, &plan(&context, &self::insert()).await).await;
        let (all, different) = stored(&context).await;
        assert!(all >= 2 * ROWS && different == ROWS, "{all} {different}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_progress_the_attempts_end_and_the_last_error_is_told() {
    let server = server().await;
    let context = session(&server);
    let rule = server.fault(Rule::once("AppendRows", status("UNAVAILABLE")).always());
    let failed = error(&context, &insert()).await;
    let failed = Error::find_in(&failed).unwrap();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    let told = failed.to_string();
    for part in ["demo.d.t", "gave up after 4 attempts", "on purpose"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(server.acted(rule), 4);

    server.unfault(rule);
    let refused = Rule::once(
        "AppendRows",
        Action::AppendError {
            code: "UNAVAILABLE".into(),
            message: "not now".into(),
            storage_error: None,
        },
    );
    server.fault(refused.always());
    let failed = error(&context, &insert()).await.to_string();
    assert!(failed.contains("gave up after 5 attempts"), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k06_k10_a_refusal_keeps_its_reason_and_says_what_is_missing() {
    let server = server().await;
    let context = session(&server);
    server.fault(Rule::once("AppendRows", status("PERMISSION_DENIED")));
    let failed = error(&context, &insert()).await.to_string();
    for part in ["demo.d.t", "on purpose", "bigquery.tables.updateData"] {
        assert!(failed.contains(part), "{failed}");
    }
    // A table that is gone looks forbidden to those who append.
    context
        .sql("CREATE EXTERNAL TABLE gone STORED AS BIGQUERY LOCATION 'demo.d.t'")
        .await
        .unwrap();
    server.query("DROP TABLE d.t").await;
    let failed = error(&context, "INSERT INTO gone VALUES (1, 'x')").await;
    let failed = Error::find_in(&failed).unwrap();
    assert_eq!(failed.kind(), ErrorKind::NotFound);
    assert!(
        failed.message().contains("demo.d.t does not exist"),
        "{failed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_no_attempt_cures_is_told_at_once() {
    let server = server().await;
    let context = session(&server);
    for code in ["INVALID_ARGUMENT", "DATA_LOSS", "FAILED_PRECONDITION"] {
        let rule = server.fault(Rule::once("AppendRows", status(code)));
        let failed = error(&context, &insert()).await.to_string();
        assert!(failed.contains("on purpose"), "{code}: {failed}");
        assert_eq!(server.acted(rule), 1);
    }
    let mismatch = Rule::once(
        "AppendRows",
        Action::AppendError {
            code: "INVALID_ARGUMENT".into(),
            message: "extra fields: 's'".into(),
            storage_error: Some("SCHEMA_MISMATCH_EXTRA_FIELDS".into()),
        },
    );
    server.fault(mismatch);
    let failed = error(&context, &insert()).await.to_string();
    for part in ["extra fields: 's'", "takes minutes"] {
        assert!(failed.contains(part), "{failed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_made_anew_meanwhile_takes_the_rows_that_follow() {
    let server = server().await;
    let sink = sink(&server).await;
    let mut writer = sink.writer(0, None).unwrap();
    writer.write(numbers(0..10)).await.unwrap();
    writer.flush().await.unwrap();
    server
        .query("CREATE OR REPLACE TABLE d.t (n INT64, s STRING)")
        .await;
    writer.write(numbers(10..20)).await.unwrap();
    writer.flush().await.unwrap();
    let context = session(&server);
    assert_eq!(stored(&context).await, (10, 10));
}

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let column = Arc::new(Int64Array::from_iter_values(range));
    RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap()
}

async fn sink(server: &Server) -> BigQuerySink {
    let table = TableRef::new(PROJECT, "d", "t").unwrap();
    BigQuerySink::builder(server.client(), table)
        .build(numbers(0..0).schema())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn k14_flush_returns_when_every_row_is_there() {
    let server = server().await;
    let context = session(&server);
    let sink = sink(&server).await;
    let mut writer = sink.writer(0, None).unwrap();
    for start in (0..1_000).step_by(10) {
        writer.write(numbers(start..start + 10)).await.unwrap();
    }
    writer.flush().await.unwrap();
    assert_eq!(stored(&context).await, (1_000, 1_000));
    assert_eq!(writer.counters().wire().rows(), 1_000);

    // What is prepared stands for the rows since the last commit.
    let prepared = writer.prepare_commit().await.unwrap();
    let rows =
        |committables: &[Committable]| -> u64 { committables.iter().map(Committable::rows).sum() };
    assert_eq!(rows(&prepared), 1_000);
    writer.write(numbers(1_000..1_007)).await.unwrap();
    let more = writer.prepare_commit().await.unwrap();
    assert_eq!(rows(&more), 7);
    let committer = sink.committer();
    assert_eq!(committer.commit(more.clone()).await.unwrap(), 7);
    assert_eq!(committer.commit(more).await.unwrap(), 7);
    let state = writer.snapshot().unwrap();
    writer.close().await.unwrap();

    // A writer goes on from a state that was stored.
    let state = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    let mut writer = sink.writer(0, Some(state)).unwrap();
    writer.write(numbers(1_007..1_010)).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(stored(&context).await, (1_010, 1_010));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_error_a_writer_is_over() {
    let server = server().await;
    let sink = sink(&server).await;
    server.fault(Rule::once("AppendRows", status("FAILED_PRECONDITION")));
    let mut writer = sink.writer(0, None).unwrap();
    writer.write(numbers(0..10)).await.unwrap();
    let failed = writer.flush().await.unwrap_err();
    assert!(failed.to_string().contains("on purpose"), "{failed}");
    let failed = writer.write(numbers(0..10)).await.unwrap_err();
    assert!(failed.message().contains("failed before"), "{failed}");
    writer.flush().await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_partition_of_a_plan_has_its_writer() {
    let server = server().await;
    let context = server.session(3);
    let union = "INSERT INTO bq.d.t (n) SELECT value FROM generate_series(1, 1000) UNION ALL \
                 SELECT value FROM generate_series(1001, 2000)";
    let insert = plan(&context, union).await;
    run(&context, &insert).await;
    assert_eq!(write_metric(&insert, "rows_written"), 2_000);
    assert!(write_metric(&insert, "requests") >= 2);
    assert_eq!(stored(&context).await, (2_000, 2_000));
}
