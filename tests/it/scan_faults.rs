//! What the scan does when the service does not do as asked.

use std::time::Duration;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bigquery::{RawOptions, with_bigquery};
use futures::StreamExt;
use googleapis_storage::google::cloud::bigquery::storage::v1::{
    CreateReadSessionRequest, ReadSession, ReadStream,
};
use serde_json::json;
use tonic::Code;

use crate::fake_read::{Act, FakeRead, rows, session, throttled};
use crate::fake_rest::{Answer, FakeRest};
use crate::harness::{error, metric, plan, run, scan_line};

/// A REST server with one table `p.d.t` of a column `n`, and a session over it
/// and `read`.
pub(crate) async fn session_over(read: &FakeRead) -> (FakeRest, SessionContext) {
    let rest = FakeRest::start(|_, _| {
        let table = json!({
            "kind": "bigquery#table",
            "tableReference": {"projectId": "p", "datasetId": "d", "tableId": "t"},
            "type": "TABLE",
            "schema": {"fields": [{"name": "n", "type": "INTEGER"}]},
        });
        Answer::json(200, &table)
    })
    .await;
    let options = RawOptions::from_pairs([
        ("project", "p"),
        ("rest_endpoint", rest.endpoint()),
        ("grpc_endpoint", &read.endpoint()),
    ])
    .unwrap();
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(2));
    let state = with_bigquery(builder, options).unwrap().build();
    (rest, SessionContext::new_with_state(state))
}

fn restriction(call: &CreateReadSessionRequest) -> String {
    let session = call.read_session.as_ref().unwrap();
    let options = session.read_options.as_ref().unwrap();
    options.row_restriction.clone()
}

/// A session that expires six hours after `created`, in seconds since 1970.
fn session_of(created: i64) -> ReadSession {
    ReadSession {
        expire_time: Some(prost_types::Timestamp {
            seconds: created + 6 * 3_600,
            nanos: 500_000_000,
        }),
        ..session()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_generated_restriction_is_left_out_once() {
    let server = FakeRead::with_sessions(
        |_, request| match restriction(request).as_str() {
            "" => Ok(session()),
            _ => Err(Box::new(Act::End(
                Code::InvalidArgument,
                "request failed: too complex",
            ))),
        },
        |_, _| vec![Act::Send(rows(0..10))],
    )
    .await;
    let (_rest, context) = session_over(&server).await;
    let plan = plan(&context, "SELECT n FROM bq.d.t WHERE n > 5").await;
    assert_eq!(run(&context, &plan).await, 4);
    let asked: Vec<_> = server.session_calls().iter().map(restriction).collect();
    assert_eq!(asked, ["(`n` > 5)", ""]);
    assert_eq!(metric(&plan, "restriction_refusals"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_refused_either_way_fails_with_the_first_reason() {
    let server = FakeRead::with_sessions(
        |call, _| {
            let reason = ["the first reason", "the second reason"][call];
            Err(Box::new(Act::End(Code::InvalidArgument, reason)))
        },
        |_, _| vec![],
    )
    .await;
    let (_rest, context) = session_over(&server).await;
    let refused = error(&context, "SELECT n FROM bq.d.t WHERE n > 5").await;
    let refused = refused.to_string();
    assert!(refused.contains("the first reason"), "{refused}");
    assert!(refused.contains("reading table p.d.t"), "{refused}");
    assert_eq!(server.session_calls().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_of_one_statement_are_opened_as_of_one_time() {
    let server = FakeRead::with_sessions(
        |call, _| Ok(session_of(1_700_000_000 + i64::try_from(call).unwrap())),
        |_, _| vec![Act::Send(rows(0..10))],
    )
    .await;
    let (_rest, context) = session_over(&server).await;
    let query = "SELECT l.n FROM bq.d.t l JOIN bq.d.t r ON l.n = r.n";
    let joined = plan(&context, query).await;
    assert_eq!(run(&context, &joined).await, 10);
    let times: Vec<_> = server
        .session_calls()
        .into_iter()
        .map(|call| {
            let modifiers = call.read_session.unwrap().table_modifiers;
            modifiers.and_then(|modifiers| modifiers.snapshot_time)
        })
        .collect();
    // The first one tells the service's clock.
    let time = prost_types::Timestamp {
        seconds: 1_700_000_000,
        nanos: 500_000_000,
    };
    assert_eq!(times, [None, Some(time), Some(time)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn h04_every_stream_is_read_once() {
    let streams = |count: usize| ReadSession {
        streams: (0..count)
            .map(|number| ReadStream {
                name: format!("stream-{number}"),
            })
            .collect(),
        ..session()
    };
    let server = FakeRead::with_sessions(
        move |_, _| Ok(streams(7)),
        |_, request| {
            let number: i64 = request.read_stream["stream-".len()..].parse().unwrap();
            vec![Act::Send(rows(number * 10..number * 10 + 10))]
        },
    )
    .await;
    let (_rest, context) = session_over(&server).await;
    let whole = plan(&context, "SELECT n FROM bq.d.t").await;
    assert_eq!(run(&context, &whole).await, 70);
    let mut read: Vec<_> = server
        .calls()
        .into_iter()
        .map(|call| call.read_stream)
        .collect();
    read.sort();
    read.dedup();
    assert_eq!((read.len(), server.calls().len()), (7, 7));
    assert_eq!(metric(&whole, "streams"), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_streams_are_asked_for() {
    let server = FakeRead::start(|_, _| vec![]).await;
    let (_rest, context) = session_over(&server).await;
    let asked = |options: &'static [(&str, &str)]| {
        let context = context.clone();
        let server = &server;
        async move {
            for (option, value) in options {
                let set = format!("SET bigquery.scan.{option} = {value}");
                context.sql(&set).await.unwrap();
            }
            let read = plan(&context, "SELECT n FROM bq.d.t").await;
            assert_eq!(run(&context, &read).await, 0);
            let call = server.session_calls().pop().unwrap();
            (call.max_stream_count, call.preferred_min_stream_count)
        }
    };
    // Twice the two partitions, and no limit.
    assert_eq!(asked(&[]).await, (0, 4));
    assert_eq!(asked(&[("max_stream_count", "3")]).await, (3, 3));
    let least = &[("preferred_min_stream_count", "2")];
    assert_eq!(asked(least).await, (3, 2));
    assert_eq!(asked(&[("max_stream_count", "0")]).await, (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_without_rows_are_no_end() {
    let server = FakeRead::with_sessions(
        |_, _| {
            let stream = |number| ReadStream {
                name: format!("stream-{number}"),
            };
            Ok(ReadSession {
                streams: (0..5).map(stream).collect(),
                ..session()
            })
        },
        |_, request| match request.read_stream.as_str() {
            // No message at all, one without rows, and one of no rows.
            "stream-0" => vec![],
            "stream-1" => vec![Act::Send(throttled(0))],
            "stream-2" => vec![Act::Send(rows(0..0))],
            _ => vec![Act::Send(rows(0..10))],
        },
    )
    .await;
    let (_rest, context) = session_over(&server).await;
    let read = plan(&context, "SELECT n FROM bq.d.t").await;
    assert_eq!(run(&context, &read).await, 20);
    assert_eq!(metric(&read, "streams"), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_query_ends_its_calls() {
    let server = FakeRead::start(|_, _| vec![Act::Send(rows(0..10)), Act::Hang]).await;
    let (_rest, context) = session_over(&server).await;
    let frame = context.sql("SELECT n FROM bq.d.t").await.unwrap();
    let mut stream = frame.execute_stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    for _ in 0..100 {
        if server.cancelled() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the call goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_stops_a_stream_that_would_go_on() {
    let server = FakeRead::start(|_, _| vec![Act::Send(rows(0..10)), Act::Hang]).await;
    let (_rest, context) = session_over(&server).await;
    let limited = plan(&context, "SELECT n FROM bq.d.t LIMIT 3").await;
    assert!(scan_line(&limited).contains("limit=3"));
    assert_eq!(run(&context, &limited).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_before_a_row_is_wanted() {
    let server = FakeRead::start(|_, _| vec![Act::Send(rows(0..10))]).await;
    let (rest, context) = session_over(&server).await;
    let scan = plan(&context, "SELECT n FROM bq.d.t").await;
    let mut stream = scan.execute(0, context.task_ctx()).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.session_calls().len(), 0);
    assert_eq!(rest.calls().len(), 1);
    assert_eq!(stream.next().await.unwrap().unwrap().num_rows(), 10);
    assert_eq!(server.session_calls().len(), 1);
}
