//! Writing to created streams: every row once, whatever breaks; nothing visible
//! before the commit; and what is left behind by writers that are no more.

use std::sync::Arc;

use bigquery_local::faults::{Action, Detached, Rule};
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::options::Options;
use datafusion_bigquery::sink::{BigQuerySink, Committable, SinkWriter, WriterState};
use datafusion_bigquery::{Error, ErrorKind, RawOptions, TableRef};

use crate::harness::{PROJECT, Server, error, plan, rows, run, status, text, write_metric};

const ROWS: usize = 3_000;

/// A write method, and where its options are.
#[derive(Debug, Clone, Copy)]
struct Method {
    name: &'static str,
    streams: &'static str,
}

const EXACTLY_ONCE: Method = Method {
    name: "storage_api_exactly_once",
    streams: "sink.buffered_stream",
};
const ATOMIC: Method = Method {
    name: "storage_api_atomic",
    streams: "sink.pending_stream",
};

impl Method {
    /// Options by which an insert makes about ten requests and does not wait long.
    fn options(self) -> RawOptions {
        let of = |option: &str| format!("{}.{option}", self.streams);
        RawOptions::from_pairs([
            ("sink.write_method".to_string(), self.name),
            (of("max_append_request_bytes"), "16 KiB"),
            (of("recovery.initial_backoff"), "1 ms"),
            (of("recovery.max_backoff"), "5 ms"),
            (of("recovery.max_attempts"), "4"),
            (of("retry.initial_delay"), "1 ms"),
            (of("append_timeout"), "1 s"),
            // The table is new, and what is denied is to stay so.
            ("sink.propagation.attempts".to_string(), "1"),
        ])
        .unwrap()
    }

    /// The call that makes rows visible.
    fn commit(self) -> &'static str {
        match self.name {
            "storage_api_exactly_once" => "FlushRows",
            _ => "BatchCommitWriteStreams",
        }
    }
}

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .query("CREATE TABLE d.t (n INT64, s STRING); CREATE TABLE d.j (n INT64, j JSON)")
        .await;
    server
}

fn session(server: &Server, method: Method) -> SessionContext {
    server.session_over(&method.options())
}

fn insert() -> String {
    format!("INSERT INTO bq.d.t SELECT value, repeat('x', 50) FROM generate_series(1, {ROWS})")
}

fn refused(code: &str, storage_error: Option<&str>) -> Action {
    Action::AppendError {
        code: code.into(),
        message: "on purpose".into(),
        storage_error: storage_error.map(str::to_string),
    }
}

/// How many rows a table has, and how many different ones.
async fn stored_in(context: &SessionContext, table: &str) -> (usize, usize) {
    let sql = format!("SELECT count(*), count(DISTINCT n) FROM bq.d.{table}");
    let counts = rows(context, &sql).await;
    let count = |column| {
        let counts = counts[0].column(column).as_primitive::<Int64Type>();
        usize::try_from(counts.value(0)).unwrap()
    };
    (count(0), count(1))
}

async fn stored(context: &SessionContext) -> (usize, usize) {
    stored_in(context, "t").await
}

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let column = Arc::new(Int64Array::from_iter_values(range));
    RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap()
}

async fn sink(server: &Server, method: Method) -> BigQuerySink {
    let table = TableRef::new(PROJECT, "d", "t").unwrap();
    let options = Options::resolve(&method.options()).unwrap();
    BigQuerySink::builder(server.client(), table)
        .with_options(options.sink)
        .build(numbers(0..0).schema())
        .await
        .unwrap()
}

async fn write(writer: &mut SinkWriter, range: std::ops::Range<i64>) -> Vec<Committable> {
    writer.write(numbers(range)).await.unwrap();
    writer.prepare_commit().await.unwrap()
}

/// What an engine stores comes back as it was.
fn through_storage<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

fn stream_of(committable: &Committable) -> &str {
    match committable {
        Committable::StorageApiExactlyOnceV1 { stream, .. }
        | Committable::StorageApiAtomicV1 { stream, .. } => stream,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k02_every_row_is_there_once_whatever_breaks_an_append() {
    for (name, action) in [
        ("aborted", status("ABORTED")),
        ("unavailable", status("UNAVAILABLE")),
        ("cancelled", status("CANCELLED")),
        ("internal", status("INTERNAL")),
        ("deadline", status("DEADLINE_EXCEEDED")),
        ("token ran out", status("UNAUTHENTICATED")),
        (
            "throttled",
            Action::RateLimit {
                retry_after_ms: Some(5),
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
        ("in the answer", refused("UNAVAILABLE", None)),
        (
            "said to be too far",
            refused("OUT_OF_RANGE", Some("OFFSET_OUT_OF_RANGE")),
        ),
    ] {
        for (method, format) in [(EXACTLY_ONCE, "proto"), (ATOMIC, "arrow")] {
            let server = server().await;
            let context = session(&server, method);
            let set = format!("SET bigquery.sink.format = '{format}'");
            context.sql(&set).await.unwrap();
            let first = server.fault(Rule::once("AppendRows", action.clone()).after(3));
            let second = server.fault(Rule::once("AppendRows", action.clone()).after(7));
            let insert = plan(&context, &insert()).await;
            run(&context, &insert).await;
            let case = format!("{name}, {method:?}");
            assert_eq!(server.acted(first) + server.acted(second), 2, "{case}");
            assert_eq!(stored(&context).await, (ROWS, ROWS), "{case}");
            assert_eq!(write_metric(&insert, "rows_written"), ROWS, "{case}");
            assert_eq!(write_metric(&insert, "in_flight"), 0, "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_is_there_once_whatever_breaks_another_call() {
    for (method, calls) in [
        (EXACTLY_ONCE, &["CreateWriteStream", "FlushRows"][..]),
        (
            ATOMIC,
            &[
                "CreateWriteStream",
                "FinalizeWriteStream",
                "BatchCommitWriteStreams",
            ][..],
        ),
    ] {
        for call in calls {
            for action in [
                status("ABORTED"),
                status("UNAVAILABLE"),
                status("INTERNAL"),
                status("UNAUTHENTICATED"),
                Action::RateLimit {
                    retry_after_ms: Some(5),
                },
                Action::Reset,
                Action::Goaway {
                    streams: Detached::Finish,
                },
                Action::LoseAnswer,
                Action::ApplyTwice,
            ] {
                let server = server().await;
                let context = session(&server, method);
                let rule = server.fault(Rule::once(*call, action.clone()));
                let insert = plan(&context, &insert()).await;
                run(&context, &insert).await;
                let case = format!("{call}: {action:?}");
                assert_eq!(server.acted(rule), 1, "{case}");
                assert_eq!(stored(&context).await, (ROWS, ROWS), "{case}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_end_and_nothing_is_visible() {
    for method in [EXACTLY_ONCE, ATOMIC] {
        for call in ["CreateWriteStream", "AppendRows", method.commit()] {
            let server = server().await;
            let context = session(&server, method);
            let rule = server.fault(Rule::once(call, status("UNAVAILABLE")).always());
            let failed = error(&context, &insert()).await;
            let failed = Error::find_in(&failed).unwrap();
            assert_eq!(failed.kind(), ErrorKind::Unavailable);
            let told = failed.to_string();
            for part in ["demo.d.t", "gave up after 4 attempts", "on purpose"] {
                assert!(told.contains(part), "{call}: {told}");
            }
            assert_eq!(server.acted(rule), 4, "{call}");
            server.unfault(rule);
            assert_eq!(stored(&context).await, (0, 0), "{call}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_twice_is_wrong() {
    for call in ["CreateWriteStream", "AppendRows"] {
        let server = server().await;
        let context = session(&server, EXACTLY_ONCE);
        let rule = server.fault(Rule::once(call, status("UNAUTHENTICATED")).always());
        let failed = error(&context, &insert()).await;
        let failed = Error::find_in(&failed).unwrap();
        assert_eq!(failed.kind(), ErrorKind::Unauthenticated);
        assert_eq!(server.acted(rule), 2, "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k01_k04_rows_of_somebody_else_in_the_stream_are_not_taken_for_ours() {
    let server = server().await;
    let context = session(&server, EXACTLY_ONCE);
    // The first append at an offset cannot have been written before.
    let action = refused("ALREADY_EXISTS", Some("OFFSET_ALREADY_EXISTS"));
    let rule = server.fault(Rule::once("AppendRows", action).after(2));
    let created = server.calls("CreateWriteStream");
    let flushed = server.calls("FlushRows");
    run(&context, &plan(&context, &insert()).await).await;
    assert_eq!(server.acted(rule), 1);
    assert_eq!(server.acted(created), 2, "the stream is given up");
    assert_eq!(server.acted(flushed), 2, "what it has of ours counts");
    assert_eq!(stored(&context).await, (ROWS, ROWS));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_visible_before_the_commit_and_repeating_it_changes_nothing() {
    for method in [EXACTLY_ONCE, ATOMIC] {
        let server = server().await;
        let context = session(&server, method);
        let sink = sink(&server, method).await;
        let mut committables = Vec::new();
        for subtask in 0..3_i64 {
            let mut writer = sink.writer(0, None).unwrap();
            let from = subtask * 1_000;
            committables.extend(write(&mut writer, from..from + 700).await);
            writer.close().await.unwrap();
        }
        assert_eq!(committables.len(), 3);
        assert_eq!(stored(&context).await, (0, 0), "{method:?}");
        let committables = through_storage(&committables);
        // By another sink, as after a crash.
        let committer = self::sink(&server, method).await.committer();
        let commits = server.calls("BatchCommitWriteStreams");
        for _ in 0..2 {
            let committed = committer.commit(committables.clone()).await.unwrap();
            assert_eq!(committed, 2_100);
            assert_eq!(stored(&context).await, (2_100, 2_100), "{method:?}");
        }
        let in_one = if method.name == ATOMIC.name { 2 } else { 0 };
        assert_eq!(server.acted(commits), in_one);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_which_a_part_is_committed_is_refused_whole() {
    let server = server().await;
    let context = session(&server, ATOMIC);
    let sink = sink(&server, ATOMIC).await;
    let mut writer = sink.writer(0, None).unwrap();
    let first = write(&mut writer, 0..10).await;
    let second = write(&mut writer, 10..20).await;
    assert_ne!(stream_of(&first[0]), stream_of(&second[0]));
    let committer = sink.committer();
    committer.commit(first.clone()).await.unwrap();
    let both = [first.clone(), second.clone()].concat();
    let failed = committer.commit(both).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::FailedPrecondition);
    for part in ["demo.d.t", "nothing is committed", "already committed"] {
        assert!(failed.to_string().contains(part), "{failed}");
    }
    assert_eq!(stored(&context).await, (10, 10));
    committer.commit(second).await.unwrap();
    committer.commit(first).await.unwrap();
    assert_eq!(stored(&context).await, (20, 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_a_buffered_stream_is_used_again_and_never_finalized() {
    let server = server().await;
    let context = session(&server, EXACTLY_ONCE);
    let sink = sink(&server, EXACTLY_ONCE).await;
    let created = server.calls("CreateWriteStream");
    let finalized = server.calls("FinalizeWriteStream");
    let mut writer = sink.writer(0, None).unwrap();
    let committer = sink.committer();
    for commit in 0..4 {
        let committables = write(&mut writer, commit * 10..commit * 10 + 10).await;
        assert_eq!(committer.commit(committables).await.unwrap(), 10);
    }
    // Without rows there is nothing to commit.
    assert_eq!(writer.prepare_commit().await.unwrap(), []);
    // A writer that goes on from the state goes on in the stream.
    let state = through_storage(&writer.snapshot().unwrap());
    writer.close().await.unwrap();
    let mut writer = sink.writer(0, Some(state.clone())).unwrap();
    assert_eq!(writer.snapshot().unwrap(), state);
    let committables = write(&mut writer, 40..50).await;
    committer.commit(committables).await.unwrap();
    assert_eq!(server.acted(created), 1);
    assert_eq!(server.acted(finalized), 0);
    assert_eq!(stored(&context).await, (50, 50));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crashed_writer_wrote_after_its_state_stays_invisible() {
    let server = server().await;
    let context = session(&server, EXACTLY_ONCE);
    let sink = sink(&server, EXACTLY_ONCE).await;
    let mut writer = sink.writer(0, None).unwrap();
    let stored_committables = write(&mut writer, 0..10).await;
    let state = writer.snapshot().unwrap();
    // Rows after the state, even prepared ones, and then a crash.
    let lost = write(&mut writer, 10..25).await;
    drop(writer);
    assert_eq!(stream_of(&lost[0]), stream_of(&stored_committables[0]));

    let committer = sink.committer();
    committer.commit(stored_committables.clone()).await.unwrap();
    assert_eq!(stored(&context).await, (10, 10));
    let created = server.calls("CreateWriteStream");
    let mut writer = sink.writer(0, Some(state)).unwrap();
    let again = write(&mut writer, 10..30).await;
    assert_eq!(server.acted(created), 1);
    assert_ne!(stream_of(&again[0]), stream_of(&stored_committables[0]));
    committer.commit(again).await.unwrap();
    assert_eq!(stored(&context).await, (30, 30));
    let more = write(&mut writer, 30..40).await;
    committer.commit(more).await.unwrap();
    assert_eq!(stored(&context).await, (40, 40));
    assert_eq!(server.acted(created), 1, "the new stream is used again");
}

#[tokio::test(flavor = "multi_thread")]
async fn k13_a_stream_that_is_gone_is_replaced_and_its_rows_are_missed() {
    let server = server().await;
    let context = session(&server, EXACTLY_ONCE);
    let sink = sink(&server, EXACTLY_ONCE).await;
    let mut writer = sink.writer(0, None).unwrap();
    let prepared = write(&mut writer, 0..10).await;
    let state = writer.snapshot().unwrap();
    drop(writer);
    server
        .query("CREATE OR REPLACE TABLE d.t (n INT64, s STRING)")
        .await;
    // What was prepared and not committed cannot be committed any more.
    let failed = sink.committer().commit(prepared).await.unwrap_err();
    assert!(failed.to_string().contains("demo.d.t"), "{failed}");
    let mut writer = sink.writer(0, Some(state)).unwrap();
    let committables = write(&mut writer, 10..20).await;
    sink.committer().commit(committables).await.unwrap();
    assert_eq!(stored(&context).await, (10, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_another_method_is_refused() {
    let server = server().await;
    let state = WriterState::StorageApiAtomicV1 {};
    let sink = sink(&server, EXACTLY_ONCE).await;
    let refused = sink.writer(0, Some(state)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Configuration);
    for part in [EXACTLY_ONCE.name, ATOMIC.name] {
        assert!(refused.message().contains(part), "{refused}");
    }
}

/// Three partitions, the last of which has a value at its end that its column
/// cannot hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_fails_leaves_nothing_of_the_others() {
    for method in [EXACTLY_ONCE, ATOMIC] {
        let server = server().await;
        let context = session(&server, method);
        let insert = |last: &str| {
            format!(
                "INSERT INTO bq.d.t (n) SELECT value::DOUBLE FROM generate_series(1, 1000) \
                 UNION ALL SELECT value::DOUBLE FROM generate_series(1001, 2000) \
                 UNION ALL SELECT CASE WHEN value = 3000 THEN {last} ELSE value END \
                 FROM generate_series(2001, 3000)"
            )
        };
        let failed = error(&context, &insert("0.5")).await.to_string();
        for part in ["demo.d.t", "row 1000", "'n'", "0.5"] {
            assert!(failed.contains(part), "{failed}");
        }
        assert_eq!(stored(&context).await, (0, 0), "{method:?}");
        let found = text(&context, &insert("3000.0")).await;
        assert!(found.contains("3000"), "{found}");
        assert_eq!(stored(&context).await, (3_000, 3_000), "{method:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k16_no_rows_make_no_stream() {
    for method in [EXACTLY_ONCE, ATOMIC] {
        let server = server().await;
        let context = session(&server, method);
        let asked = server.calls("*WriteStream*");
        let flushed = server.calls("FlushRows");
        let found = text(&context, "INSERT INTO bq.d.t SELECT 1, 'x' WHERE false").await;
        assert!(found.contains("| 0 "), "{found}");
        assert_eq!(server.acted(asked) + server.acted(flushed), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k08_a_statement_that_is_cancelled_before_its_commit_leaves_nothing() {
    for method in [EXACTLY_ONCE, ATOMIC] {
        for call in ["AppendRows", method.commit()] {
            let server = server().await;
            let context = session(&server, method);
            let rule = server.fault(Rule::once(call, Action::Hang).always());
            let insert = plan(&context, &insert()).await;
            let running = tokio::spawn(collect(insert, context.task_ctx()));
            while server.acted(rule) == 0 {
                tokio::task::yield_now().await;
            }
            running.abort();
            assert!(running.await.unwrap_err().is_cancelled());
            server.unfault(rule);
            assert_eq!(stored(&context).await, (0, 0), "{call}");
        }
    }
}

/// Every fifth row is no JSON. Rows behind a refused one move up to its place.
#[tokio::test(flavor = "multi_thread")]
async fn k17_rows_that_are_refused_are_left_out_and_no_others() {
    let insert = "INSERT INTO bq.d.j SELECT value, CASE value % 5 WHEN 0 THEN '{bad' ELSE \
                  concat('[', repeat('1, ', 20), '2]') END FROM generate_series(1, 2000)";
    for (name, action) in [
        ("nothing", None),
        ("answer lost", Some(Action::LoseAnswer)),
        ("reset", Some(Action::Reset)),
        ("unavailable", Some(status("UNAVAILABLE"))),
        ("in the answer", Some(refused("UNAVAILABLE", None))),
    ] {
        for (method, format) in [
            (EXACTLY_ONCE, "proto"),
            (EXACTLY_ONCE, "arrow"),
            (ATOMIC, "proto"),
            (ATOMIC, "arrow"),
        ] {
            let server = server().await;
            let context = session(&server, method);
            for (option, value) in [("sink.format", format), ("sink.failure.policy", "drop")] {
                let set = format!("SET bigquery.{option} = '{value}'");
                context.sql(&set).await.unwrap();
            }
            if let Some(action) = &action {
                for skip in [2, 6, 9] {
                    server.fault(Rule::once("AppendRows", action.clone()).after(skip));
                }
            }
            let plan = plan(&context, insert).await;
            run(&context, &plan).await;
            let case = format!("{name}, {method:?}, {format}");
            assert_eq!(write_metric(&plan, "rows_skipped"), 400, "{case}");
            assert_eq!(write_metric(&plan, "rows_written"), 1_600, "{case}");
            assert_eq!(stored_in(&context, "j").await, (1_600, 1_600), "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_a_table_that_is_gone_is_told_from_one_that_is_forbidden() {
    for method in [EXACTLY_ONCE, ATOMIC] {
        let server = server().await;
        let context = session(&server, method);
        server.fault(Rule::once("CreateWriteStream", status("PERMISSION_DENIED")));
        let failed = error(&context, &insert()).await.to_string();
        for part in ["demo.d.t", "on purpose", "bigquery.tables.updateData"] {
            assert!(failed.contains(part), "{failed}");
        }
        let sink = sink(&server, method).await;
        server.query("DROP TABLE d.t").await;
        let mut writer = sink.writer(0, None).unwrap();
        writer.write(numbers(0..10)).await.unwrap();
        let failed = writer.flush().await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::NotFound);
        assert!(
            failed.message().contains("demo.d.t does not exist"),
            "{failed}"
        );
    }
}
