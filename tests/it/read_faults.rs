//! Streams that break, and what arrives all the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion_bigquery::client::Client;
use datafusion_bigquery::client::read::session::{ReadSession, ReadSessionRequest};
use datafusion_bigquery::client::read::stream::{ReadStreamOptions, StreamBatch};
use datafusion_bigquery::error::{Error, ErrorKind};
use datafusion_bigquery::options::Compression;
use datafusion_bigquery::types::TableRef;
use futures::StreamExt;
use googleapis_storage::google::cloud::bigquery::storage::v1::stream_stats::Progress;
use googleapis_storage::google::cloud::bigquery::storage::v1::{ReadRowsResponse, StreamStats};
use tonic::Code;

use super::fake_read::{Act, FakeRead, STREAM, client_at, rows, session, throttled};

fn table() -> TableRef {
    "p.d.t".parse().unwrap()
}

async fn open(client: &Client) -> ReadSession {
    let request = ReadSessionRequest {
        compression: Compression::None,
        ..ReadSessionRequest::new(table())
    };
    client.create_read_session(&request).await.unwrap()
}

fn options() -> ReadStreamOptions {
    ReadStreamOptions {
        max_attempts: 5,
        idle_timeout: Duration::from_secs(10),
        ..ReadStreamOptions::default()
    }
}

/// The numbers that arrive, and the error at the end if there is one.
async fn read_with(
    client: &Client,
    offset: u64,
    options: ReadStreamOptions,
) -> (Vec<i64>, Option<Error>) {
    let session = open(client).await;
    let mut stream = client.read_stream(&session, STREAM, offset, options);
    let mut numbers = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(StreamBatch { batch, offset }) => {
                let column = batch.column(0).as_primitive::<Int64Type>();
                // In these streams every row is its own offset.
                assert_eq!(column.value(0), i64::try_from(offset).unwrap());
                numbers.extend(column.values());
            }
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error ends the stream");
                return (numbers, Some(error));
            }
        }
    }
    (numbers, None)
}

async fn read(server: &FakeRead) -> (Vec<i64>, Option<Error>) {
    read_with(&server.client(), 0, options()).await
}

/// A response that says how far the stream is with it.
fn reaching(share: f64, response: ReadRowsResponse) -> ReadRowsResponse {
    let progress = Progress {
        at_response_start: 0.0,
        at_response_end: share,
    };
    ReadRowsResponse {
        stats: Some(StreamStats {
            progress: Some(progress),
        }),
        ..response
    }
}

fn numbers(end: i64) -> Vec<i64> {
    (0..end).collect()
}

#[tokio::test]
async fn a_quiet_stream_is_read_with_one_call() {
    let server = FakeRead::start(|_, _| {
        vec![
            Act::Send(rows(0..3)),
            Act::Send(throttled(40)),
            Act::Send(rows(3..5)),
        ]
    })
    .await;
    let options = options();
    let counters = Arc::clone(&options.counters);
    let (got, error) = read_with(&server.client(), 0, options).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(got, numbers(5));
    assert_eq!(server.offsets(), [0]);
    assert_eq!(counters.rows(), 5);
    assert_eq!(counters.responses(), 3);
    assert_eq!(counters.reconnects(), 0);
    assert_eq!(counters.throttle_percent(), 40);
    assert!(counters.wire_bytes() > 0);
    assert!(!counters.wait_time().is_zero() && !counters.decode_time().is_zero());
}

#[tokio::test]
async fn calls_are_routed_by_what_they_are_about() {
    let server = FakeRead::start(|_, _| vec![]).await;
    read(&server).await;
    assert_eq!(
        server.routing(),
        [
            "read_session.table=projects/p/datasets/d/tables/t".to_string(),
            format!("read_stream={STREAM}"),
            // An answer without rows is asked for again.
            format!("read_stream={STREAM}"),
        ]
    );
}

#[tokio::test]
async fn a_stream_without_responses_is_empty() {
    let server = FakeRead::start(|_, _| vec![]).await;
    let (got, error) = read(&server).await;
    assert!(got.is_empty() && error.is_none(), "{error:?}");
    assert_eq!(server.offsets(), [0, 0]);
}

/// Nothing but the progress that it told says that a call was cut off.
#[tokio::test]
async fn a_call_that_ends_well_before_the_end_is_gone_on_with() {
    let server = FakeRead::start(|call, request| match call {
        0 => vec![],
        1 => vec![Act::Send(reaching(0.25, rows(0..2)))],
        2 => vec![
            Act::Send(reaching(0.5, rows(2..4))),
            Act::Send(reaching(0.75, rows(4..6))),
        ],
        _ => vec![Act::Send(reaching(1.0, rows(request.offset..8)))],
    })
    .await;
    let (got, error) = read(&server).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(got, numbers(8));
    assert_eq!(server.offsets(), [0, 0, 2, 6]);
}

/// A server may never say that it is at the end: then nothing comes after it.
#[tokio::test]
async fn progress_that_stays_below_the_whole_is_asked_about_once() {
    let server = FakeRead::start(|call, _| match call {
        0 => vec![Act::Send(reaching(0.9, rows(0..3)))],
        _ => vec![],
    })
    .await;
    let (got, error) = read(&server).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(got, numbers(3));
    assert_eq!(server.offsets(), [0, 3]);
}

#[tokio::test]
async fn reading_may_begin_in_the_middle() {
    let server = FakeRead::start(|_, request| vec![Act::Send(rows(request.offset..9))]).await;
    let (got, error) = read_with(&server.client(), 7, options()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(got, [7, 8]);
}

/// Every fault that another attempt can cure, before, between and after rows.
#[tokio::test]
async fn every_row_arrives_once_through_every_fault() {
    let faults = [
        Act::End(Code::Unavailable, "down"),
        Act::End(Code::DeadlineExceeded, "too long"),
        Act::End(Code::Internal, "Received RST_STREAM with error code 2"),
        Act::End(
            Code::Internal,
            "Received unexpected EOS on DATA frame from server",
        ),
        Act::EndWithWait(Code::ResourceExhausted, Duration::from_millis(10)),
        Act::Cut,
        Act::Reset,
    ];
    for fault in faults {
        let scripted = fault.clone();
        let server = FakeRead::start(move |call, request| {
            let at = request.offset;
            match call {
                0 | 2 => vec![scripted.clone()],
                1 | 3 => vec![
                    Act::Send(rows(at..at + 2)),
                    Act::Send(rows(at + 2..at + 3)),
                    scripted.clone(),
                ],
                _ => vec![Act::Send(rows(at..8))],
            }
        })
        .await;
        let options = options();
        let counters = Arc::clone(&options.counters);
        let (got, error) = read_with(&server.client(), 0, options).await;
        assert!(error.is_none(), "{fault:?}: {error:?}");
        assert_eq!(got, numbers(8), "{fault:?}");
        assert_eq!(server.offsets(), [0, 0, 3, 3, 6], "{fault:?}");
        assert_eq!(counters.reconnects(), 4);
        assert_eq!(counters.rows(), 8);
    }
}

#[tokio::test]
async fn a_server_that_restarts_is_read_on() {
    let mut server = FakeRead::start(|call, request| match call {
        0 => vec![Act::Send(rows(0..4)), Act::Hang],
        _ => vec![Act::Send(rows(request.offset..9))],
    })
    .await;
    let client = server.client();
    let session = open(&client).await;
    let mut stream = client.read_stream(&session, STREAM, 0, options());
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(first.batch.num_rows(), 4);
    server.restart().await;
    let second = stream.next().await.unwrap().unwrap();
    assert_eq!((second.offset, second.batch.num_rows()), (4, 5));
    assert!(stream.next().await.is_none());
    assert_eq!(server.offsets(), [0, 4]);
}

#[tokio::test]
async fn connections_may_be_asked_to_go_away() {
    let server = FakeRead::start_going_away(Duration::from_millis(100), |_, request| {
        (request.offset..8)
            .flat_map(|n| {
                [
                    Act::Send(rows(n..n + 1)),
                    Act::Pause(Duration::from_millis(50)),
                ]
            })
            .collect()
    })
    .await;
    let client = server.client();
    for _ in 0..3 {
        let (got, error) = read_with(&client, 0, options()).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(got, numbers(8));
    }
}

#[tokio::test]
async fn a_silent_stream_is_opened_again_where_it_stopped() {
    let server = FakeRead::start(|call, request| match call {
        0 => vec![Act::Hang],
        1 => vec![Act::Send(rows(0..2)), Act::Hang],
        _ => vec![Act::Send(rows(request.offset..4))],
    })
    .await;
    let options = ReadStreamOptions {
        idle_timeout: Duration::from_millis(200),
        ..options()
    };
    let (got, error) = read_with(&server.client(), 0, options).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(got, numbers(4));
    assert_eq!(server.offsets(), [0, 0, 2]);
}

#[tokio::test]
async fn attempts_count_only_without_progress() {
    // One row a call, many calls: more than the attempts allowed, all fine.
    let server = FakeRead::start(|_, request| {
        if request.offset == 12 {
            return vec![];
        }
        vec![
            Act::Send(rows(request.offset..request.offset + 1)),
            Act::End(Code::Unavailable, "down"),
        ]
    })
    .await;
    let (got, error) = read(&server).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(got, numbers(12));

    let server = FakeRead::start(|_, _| vec![Act::End(Code::Unavailable, "down")]).await;
    let (got, error) = read(&server).await;
    let error = error.expect("it is down for good");
    assert!(got.is_empty());
    assert_eq!(server.offsets().len(), 5);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    for part in ["p.d.t", "5 attempts", "down"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn what_another_attempt_cannot_cure_fails_at_once() {
    for (code, kind) in [
        (Code::PermissionDenied, ErrorKind::PermissionDenied),
        (Code::FailedPrecondition, ErrorKind::FailedPrecondition),
        (Code::ResourceExhausted, ErrorKind::ResourceExhausted),
        (Code::Internal, ErrorKind::Internal),
        (Code::InvalidArgument, ErrorKind::InvalidArgument),
        (Code::NotFound, ErrorKind::NotFound),
    ] {
        let server =
            FakeRead::start(move |_, _| vec![Act::Send(rows(0..2)), Act::End(code, "told so")])
                .await;
        let started = Instant::now();
        let (got, error) = read(&server).await;
        let error = error.expect("the call failed");
        assert_eq!(got, numbers(2));
        assert_eq!(error.kind(), kind);
        assert_eq!(server.offsets(), [0], "{code:?}");
        assert!(error.to_string().contains("told so"), "{error}");
        assert!(error.to_string().contains("p.d.t"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    let server = FakeRead::start(|_, _| {
        vec![Act::End(
            Code::PermissionDenied,
            "there was an error operating on 'x': the user does not have \
             'bigquery.readsessions.getData' permission for 'x'",
        )]
    })
    .await;
    let client = server.client_with(&[("billing_project", "payer")]);
    let (_, error) = read_with(&client, 0, options()).await;
    let error = error.expect("the caller may not").to_string();
    for part in [
        "p.d.t",
        "bigquery.readsessions.getData",
        "project payer",
        "billing_project",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn the_end_of_a_session_is_said_plainly() {
    let server = FakeRead::start(|_, _| {
        vec![Act::End(
            Code::FailedPrecondition,
            "there was an error operating on 'x': session expired at 2024-11-23T09:59:13+00:00",
        )]
    })
    .await;
    let (_, error) = read(&server).await;
    let error = error.expect("the session is over");
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("six hours"), "{error}");
}

#[tokio::test]
async fn a_wrong_row_count_is_noticed() {
    for announced in [0, 2, 4, -1] {
        let server = FakeRead::start(move |_, _| {
            vec![Act::Send(ReadRowsResponse {
                row_count: announced,
                ..rows(0..3)
            })]
        })
        .await;
        let (got, error) = read(&server).await;
        let error = error.expect("the numbers differ");
        assert!(got.is_empty());
        assert_eq!(error.kind(), ErrorKind::Data);
        assert!(error.to_string().contains("3"), "{error}");
    }
}

#[tokio::test]
async fn damaged_responses_are_errors() {
    let mut damaged = rows(0..3);
    let Some(rows_field) = &mut damaged.rows else {
        unreachable!()
    };
    use googleapis_storage::google::cloud::bigquery::storage::v1::read_rows_response::Rows;
    let Rows::ArrowRecordBatch(arrow) = rows_field else {
        unreachable!()
    };
    arrow.serialized_record_batch = arrow.serialized_record_batch.slice(..20);
    let acts = [
        Act::Send(damaged),
        Act::SendRaw(bytes::Bytes::from_static(b"\xff\xff\xff")),
    ];
    for act in acts {
        let scripted = act.clone();
        let server = FakeRead::start(move |_, _| vec![scripted.clone()]).await;
        let (got, error) = read(&server).await;
        assert!(got.is_empty());
        assert!(error.is_some(), "{act:?}");
        assert!(server.offsets().len() <= 5);
    }
}

#[tokio::test]
async fn dropping_a_stream_ends_its_call() {
    let server = FakeRead::start(|_, _| vec![Act::Send(rows(0..1)), Act::Hang]).await;
    let client = server.client();
    let session = open(&client).await;
    let mut stream = client.read_stream(&session, STREAM, 0, options());
    stream.next().await.unwrap().unwrap();
    assert_eq!(server.cancelled(), 0);
    drop(stream);
    let started = Instant::now();
    while server.cancelled() == 0 {
        assert!(started.elapsed() < Duration::from_secs(5), "still running");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Streams that are left unread must not stop one that is read, however much
/// they have under way.
#[tokio::test]
async fn unread_streams_do_not_stop_others() {
    const ROWS: i64 = 1 << 18;
    let server = FakeRead::start(|_, _| {
        (0..24)
            .map(|part| Act::Send(rows(part * ROWS..(part + 1) * ROWS)))
            .collect()
    })
    .await;
    let client = server.client();
    let session = open(&client).await;
    let mut unread = Vec::new();
    for _ in 0..7 {
        let mut stream = client.read_stream(&session, STREAM, 0, options());
        stream.next().await.unwrap().unwrap();
        unread.push(stream);
    }
    // Time for the unread ones to fill what they may fill.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let read = async {
        let mut stream = client.read_stream(&session, STREAM, 0, options());
        let mut total = 0;
        while let Some(batch) = stream.next().await {
            total += batch.unwrap().batch.num_rows();
        }
        total
    };
    let total = tokio::time::timeout(Duration::from_secs(60), read)
        .await
        .expect("one stream is read to its end while seven wait");
    assert_eq!(i64::try_from(total).unwrap(), 24 * ROWS);
}

#[tokio::test]
async fn sessions_are_asked_for_as_wanted() {
    let server = FakeRead::start(|_, _| vec![]).await;
    let client = server.client_with(&[("billing_project", "payer"), ("trace_id", "me")]);
    let request = ReadSessionRequest {
        selected_fields: vec!["n".into(), "s.x".into()],
        row_restriction: Some("(n > 1)".into()),
        max_stream_count: 8,
        preferred_min_stream_count: 4,
        compression: Compression::Zstd,
        snapshot_time: Some("2024-05-01T12:00:00.5Z".parse().unwrap()),
        sample_percentage: Some(10.0),
        ..ReadSessionRequest::new(table())
    };
    let session = client.create_read_session(&request).await.unwrap();
    assert_eq!(session.streams(), [STREAM]);
    assert_eq!(session.schema().fields().len(), 1);
    let asked = server.session_calls().remove(0);
    assert_eq!(asked.parent, "projects/payer");
    assert_eq!(
        (asked.max_stream_count, asked.preferred_min_stream_count),
        (8, 4)
    );
    let asked = asked.read_session.unwrap();
    assert_eq!(asked.table, "projects/p/datasets/d/tables/t");
    assert_eq!(asked.trace_id, "me");
    assert_eq!(asked.data_format, 2);
    let snapshot = asked.table_modifiers.unwrap().snapshot_time.unwrap();
    assert_eq!(
        (snapshot.seconds, snapshot.nanos),
        (1_714_564_800, 500_000_000)
    );
    let read = asked.read_options.unwrap();
    assert_eq!(read.selected_fields, ["n", "s.x"]);
    assert_eq!(read.row_restriction, "(n > 1)");
    assert_eq!(read.sample_percentage, Some(10.0));
    assert_eq!(read.response_compression_codec, None);
}

#[tokio::test]
async fn sessions_are_opened_again_after_passing_failures() {
    let server = FakeRead::with_sessions(
        |call, _| match call {
            0 => Err(Box::new(Act::End(Code::Unavailable, "down"))),
            1 => Err(Box::new(Act::Reset)),
            _ => Ok(session()),
        },
        |_, _| vec![],
    )
    .await;
    open(&server.client()).await;
    assert_eq!(server.session_calls().len(), 3);
}

#[tokio::test]
async fn refused_sessions_say_why_and_what_to_do() {
    for (code, kind, parts) in [
        (
            Code::PermissionDenied,
            ErrorKind::PermissionDenied,
            &[
                "p.d.t",
                "told so",
                "bigquery.readsessions.create",
                "project p",
                "has to exist",
            ][..],
        ),
        (
            Code::NotFound,
            ErrorKind::NotFound,
            &["p.d.t", "told so", "does not exist", "check"][..],
        ),
        (
            Code::InvalidArgument,
            ErrorKind::InvalidArgument,
            &["p.d.t", "told so"][..],
        ),
    ] {
        let server = FakeRead::with_sessions(
            move |_, _| Err(Box::new(Act::End(code, "told so"))),
            |_, _| vec![],
        )
        .await;
        let error = server
            .client()
            .create_read_session(&ReadSessionRequest::new(table()))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(server.session_calls().len(), 1);
        for part in parts {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    }
}

#[tokio::test]
async fn a_stopped_server_is_named_with_its_option() {
    let mut server = FakeRead::start(|_, _| vec![]).await;
    server.stop().await;
    let started = Instant::now();
    let error = server
        .client()
        .create_read_session(&ReadSessionRequest::new(table()))
        .await
        .unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    for part in [
        "nothing answers at http://127.0.0.1:",
        "'grpc_endpoint'",
        "p.d.t",
    ] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn a_server_of_another_kind_is_an_error() {
    // It accepts connections and speaks no HTTP/2.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            drop(socket);
        }
    });
    let error = client_at(address, &[])
        .create_read_session(&ReadSessionRequest::new(table()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("p.d.t"), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn a_server_without_the_storage_api_is_named_with_its_option() {
    let router = axum::Router::new().fallback(|| async { http::StatusCode::METHOD_NOT_ALLOWED });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_routes(tonic::service::Routes::from(router))
            .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)),
    );
    let error = client_at(address, &[])
        .create_read_session(&ReadSessionRequest::new(table()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
    for part in ["p.d.t", "'grpc_endpoint'", "405"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}
