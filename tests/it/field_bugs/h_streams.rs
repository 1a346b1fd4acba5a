//! Area H: read sessions and streams.

use bigquery_local::faults::{Action, Detached, Ending, Rule};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::ErrorKind;
use datafusion_bigquery::client::read::session::ReadSessionRequest;
use datafusion_bigquery::client::read::stream::ReadStreamOptions;
use datafusion_bigquery::types::TableRef;
use futures::{StreamExt, TryStreamExt};

use crate::harness::{PROJECT, Server, error, metric, plan, rows, run};

const ROWS: i64 = 60_000;

/// A table `d.t` of so many rows, which come in several messages.
async fn server(stream_bytes: usize) -> Server {
    let server = Server::start(stream_bytes).await;
    server.create_dataset("d").await;
    server
        .query(&format!(
            "CREATE TABLE d.t AS SELECT n, REPEAT(CAST(n AS STRING), 20) text FROM \
             UNNEST(GENERATE_ARRAY(1, {ROWS})) n; CREATE TABLE d.none (n INT64, text STRING);"
        ))
        .await;
    server
}

async fn one_stream() -> Server {
    server(64 << 20).await
}

async fn set(context: &SessionContext, option: &str, value: &str) {
    let set = format!("SET bigquery.scan.{option} = '{value}'");
    context.sql(&set).await.unwrap();
}

fn status(code: &str, message: &str) -> Action {
    Action::Status {
        code: code.into(),
        message: message.into(),
        retry_after_ms: None,
        storage_error: None,
    }
}

fn busy(retry_after_ms: Option<u64>) -> Action {
    Action::RateLimit { retry_after_ms }
}

fn broken_off(messages: u64, ending: Ending) -> Action {
    Action::Truncate { messages, ending }
}

/// Every number of the table, each once.
async fn check_all(context: &SessionContext) {
    check(&rows(context, "SELECT n, text FROM bq.d.t").await);
}

fn check(batches: &[RecordBatch]) {
    let mut numbers: Vec<i64> = batches
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(1..=ROWS), "{}", numbers.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn h01_a_restriction_that_drops_every_row_is_no_error() {
    let server = one_stream().await;
    let context = server.session(2);
    let frame = context.sql("SELECT n FROM bq.d.t WHERE n = -123").await;
    let batches = frame.unwrap().collect().await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn h03_a_session_without_streams_is_no_error() {
    let server = one_stream().await;
    let context = server.session(3);
    let plan = plan(&context, "SELECT n FROM bq.d.none").await;
    assert_eq!(run(&context, &plan).await, 0);
    assert_eq!(
        (metric(&plan, "sessions"), metric(&plan, "streams")),
        (1, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h04_every_stream_is_read() {
    let server = server(200_000).await;
    for partitions in [1, 3, 16] {
        let context = server.session(partitions);
        check_all(&context).await;
        let plan = plan(&context, "SELECT n, text FROM bq.d.t").await;
        run(&context, &plan).await;
        assert!(metric(&plan, "streams") > 1, "{partitions}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h05_a_lost_stream_is_never_a_success() {
    for action in [
        status("PERMISSION_DENIED", "on purpose"),
        status("ABORTED", "on purpose"),
        Action::RowCount { message: 0, add: 1 },
        Action::RowCount {
            message: 0,
            add: -1,
        },
        Action::Corrupt { message: 0 },
        Action::ExpireSession,
    ] {
        // The third of many streams; a call of a query before would count too.
        let server = server(200_000).await;
        let context = server.session(4);
        let rule = server.fault(Rule::once("ReadRows", action.clone()).after(2));
        let read = context.sql("SELECT count(text) FROM bq.d.t").await;
        let Err(failure) = read.unwrap().collect().await else {
            panic!("read in spite of {action:?}");
        };
        assert!(failure.to_string().contains("demo.d.t"), "{failure}");
        assert_eq!(server.acted(rule), 1, "{action:?}");
        check_all(&context).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h07_a_silent_call_is_made_again() {
    let server = one_stream().await;
    let context = server.session(2);
    set(&context, "idle_timeout", "300 ms").await;
    let rule = server.fault(Rule::once("ReadRows", Action::Hang));
    let read = plan(&context, "SELECT n, text FROM bq.d.t").await;
    assert_eq!(i64::try_from(run(&context, &read).await), Ok(ROWS));
    assert_eq!(server.acted(rule), 1);
    assert!(metric(&read, "reconnects") >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn h08_a_deadline_in_the_middle_loses_and_repeats_nothing() {
    let server = one_stream().await;
    let context = server.session(2);
    server.fault(Rule::once("ReadRows", broken_off(2, Ending::Unavailable)));
    server.fault(Rule::once("ReadRows", status("DEADLINE_EXCEEDED", "took too long")).after(1));
    check_all(&context).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h09_a_missing_permission_is_named_at_once() {
    let server = one_stream().await;
    let context = server.session(2);
    let text = "there was an error operating on 'x': the user does not have \
                'bigquery.readsessions.getData' permission for 'x'";
    let rule = Rule::once("ReadRows", status("PERMISSION_DENIED", text)).always();
    let rule = server.fault(rule);
    let failure = error(&context, "SELECT n FROM bq.d.t").await;
    let known = datafusion_bigquery::Error::find_in(&failure).unwrap();
    assert_eq!(known.kind(), ErrorKind::PermissionDenied);
    let failure = failure.to_string();
    for part in ["bigquery.readsessions.getData", "project demo", "demo.d.t"] {
        assert!(failure.contains(part), "{part}: {failure}");
    }
    assert_eq!(server.acted(rule), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn h09_a_session_that_may_not_be_opened_says_what_is_missing() {
    let server = one_stream().await;
    let context = server.session(2);
    let text = "request failed: the user does not have 'bigquery.readsessions.create' permission";
    let rule = Rule::once("CreateReadSession", status("PERMISSION_DENIED", text)).always();
    let rule = server.fault(rule);
    let failure = error(&context, "SELECT n FROM bq.d.t").await.to_string();
    for part in ["bigquery.readsessions.create", "project demo", "demo.d.t"] {
        assert!(failure.contains(part), "{part}: {failure}");
    }
    assert_eq!(server.acted(rule), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn h11_failures_that_pass_are_tried_again() {
    let server = one_stream().await;
    let context = server.session(2);
    for action in [
        status("UNAVAILABLE", "down"),
        status("INTERNAL", "Received RST_STREAM with error code 2"),
        status(
            "INTERNAL",
            "Received unexpected EOS on DATA frame from server",
        ),
        busy(Some(10)),
        Action::Reset,
        broken_off(1, Ending::Unavailable),
        broken_off(3, Ending::Reset),
    ] {
        let rule = server.fault(Rule::once("ReadRows", action.clone()));
        check_all(&context).await;
        assert_eq!(server.acted(rule), 1, "{action:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h11_failures_that_last_are_not() {
    let server = one_stream().await;
    let context = server.session(2);
    for action in [
        busy(None),
        status("INTERNAL", "an internal error"),
        status("FAILED_PRECONDITION", "no"),
        status("INVALID_ARGUMENT", "no"),
    ] {
        let rule = server.fault(Rule::once("ReadRows", action.clone()).always());
        let failure = error(&context, "SELECT n FROM bq.d.t").await;
        assert!(failure.to_string().contains("demo.d.t"), "{failure}");
        assert_eq!(server.acted(rule), 1, "{action:?}");
        server.unfault(rule);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h11_attempts_count_only_without_progress() {
    let server = one_stream().await;
    let context = server.session(2);
    set(&context, "retry_max_attempts", "3").await;
    // Each call gives one message: more calls than attempts.
    let rule = Rule::once("ReadRows", broken_off(1, Ending::Unavailable)).always();
    let rule = server.fault(rule);
    check_all(&context).await;
    assert!(server.acted(rule) > 3, "{}", server.acted(rule));
    server.unfault(rule);
    let rule = Rule::once("ReadRows", status("UNAVAILABLE", "down")).always();
    let rule = server.fault(rule);
    let failure = error(&context, "SELECT n FROM bq.d.t").await.to_string();
    assert!(failure.contains("gave up after 3 attempts"), "{failure}");
    assert_eq!(server.acted(rule), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_the_last_offset_is_an_end_and_the_next_an_error() {
    let server = one_stream().await;
    let client = server.client();
    let table = TableRef::new(PROJECT, "d", "t").unwrap();
    let session = client
        .create_read_session(&ReadSessionRequest::new(table))
        .await
        .unwrap();
    let read = |offset| {
        let name = &session.streams()[0];
        client.read_stream(&session, name, offset, ReadStreamOptions::default())
    };
    let rows = u64::try_from(ROWS).unwrap();
    assert!(read(rows).next().await.is_none());
    let beyond = read(rows + 1).next().await.unwrap().unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::FailedPrecondition, "{beyond}");
    let last: Vec<_> = read(rows - 1).try_collect().await.unwrap();
    assert_eq!((last.len(), last[0].offset), (1, rows - 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn h13_a_stream_is_one_call() {
    let server = server(200_000).await;
    let context = server.session(4);
    let calls = server.fault(Rule::once("ReadRows", Action::Delay { ms: 0 }).always());
    let read = plan(&context, "SELECT n, text FROM bq.d.t").await;
    assert_eq!(i64::try_from(run(&context, &read).await), Ok(ROWS));
    let streams = u64::try_from(metric(&read, "streams")).unwrap();
    assert!(streams > 1);
    assert_eq!(server.acted(calls), streams);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_cut_off_as_if_it_were_whole_is_gone_on_with() {
    let server = server(200_000).await;
    let context = server.session(4);
    for messages in 0..3 {
        let ending = Ending::Ok;
        let rule = Rule::once("ReadRows", Action::Truncate { messages, ending });
        let rule = server.fault(rule);
        check_all(&context).await;
        assert_eq!(server.acted(rule), 1, "{messages}");
    }
}

/// One stream: while the engine is busy with its first rows, the next are
/// received and decoded.
#[tokio::test(flavor = "multi_thread")]
async fn h15_a_stream_is_read_ahead_of_the_engine() {
    let server = one_stream().await;
    let context = server.session(1);
    let read = plan(&context, "SELECT n, text FROM bq.d.t").await;
    let mut stream = read.execute(0, context.task_ctx()).unwrap();
    let first = stream.next().await.unwrap().unwrap();
    let received = || metric(&read, "received_rows");
    let of_one_message = received();
    while received() == of_one_message {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let mut batches: Vec<_> = stream.try_collect().await.unwrap();
    batches.push(first);
    check(&batches);
    assert_eq!(metric(&read, "streams"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn u10_connections_may_go_away_in_the_middle() {
    let server = server(1 << 20).await;
    let context = server.session(4);
    for streams in [Detached::Finish, Detached::Refuse] {
        for method in ["ReadRows", "CreateReadSession"] {
            let rule = server.fault(Rule::once(method, Action::Goaway { streams }));
            check_all(&context).await;
            assert_eq!(server.acted(rule), 1, "{method} {streams:?}");
        }
    }
}
