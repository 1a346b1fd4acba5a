use std::time::Duration;

use super::*;

#[tokio::test]
async fn every_offset_gives_the_same_suffix() {
    let (local, reader) = start(1 << 20).await;
    // Many small segments, one large: messages join some and cut others.
    let mut segments = vec![1; 20];
    segments.extend([100_000, 3, 50_000, 7]);
    counted(&local, &segments).await;
    let total: i64 = 150_030;
    for (request, keep) in [
        (request(), (|_| true) as fn(&i64) -> bool),
        (restricted("MOD(id, 7) = 3"), |i| i % 7 == 3),
        (restricted("id > 149000"), |i| *i > 149_000),
    ] {
        let session = reader.session(request).await;
        let stream = &session.streams[0].name;
        let want: Vec<i64> = (0..total).filter(keep).collect();
        let rows = want.len() as i64;
        assert_eq!(reader.numbers(&session).await, want);
        for offset in [1, 2, 19, 20, 21, 1_000, rows / 2, rows - 1] {
            let offset = offset.min(rows - 1);
            let mut ids = Vec::new();
            for message in reader.read(stream, offset).await {
                ids.extend(numbers(&batch(&session, &message)));
            }
            assert!(ids == want[offset as usize..], "offset {offset}");
        }
        assert!(reader.read(stream, rows).await.is_empty());
        for beyond in [rows + 1, i64::MAX] {
            let error = reader.try_read(stream, beyond).await.unwrap_err();
            assert_eq!(error.code(), tonic::Code::FailedPrecondition);
            assert_eq!(
                error.message(),
                format!("offset {beyond} has not been allocated yet")
            );
        }
        let error = reader.try_read(stream, -1).await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::InvalidArgument);
    }
}

#[tokio::test]
async fn messages_carry_schema_once_counts_and_progress() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[300_000]).await;
    for request in [request(), restricted("MOD(id, 2) = 0")] {
        let session = reader.session(request).await;
        let stream = &session.streams[0].name;
        for offset in [0, 50_000] {
            let messages = reader.read(stream, offset).await;
            assert!(messages.len() > 1);
            assert!(messages[0].schema.is_some());
            assert!(messages[1..].iter().all(|m| m.schema.is_none()));
            let mut last = 0.0;
            for message in &messages {
                let progress = message.stats.as_ref().unwrap().progress.unwrap();
                assert!(progress.at_response_start >= last, "{progress:?}");
                assert!(progress.at_response_end >= progress.at_response_start);
                last = progress.at_response_end;
                assert!(payload(message).len() < 4 << 20);
            }
            assert!((last - 1.0).abs() < 1e-9, "{last}");
            let first = messages[0].stats.as_ref().unwrap().progress.unwrap();
            assert!(first.at_response_end < 1.0);
        }
    }
}

#[tokio::test]
async fn nothing_that_matches_is_no_message() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[1000]).await;
    let session = reader.session(restricted("id = -1")).await;
    assert_eq!(session.streams.len(), 1);
    assert!(reader.read(&session.streams[0].name, 0).await.is_empty());
}

#[tokio::test]
async fn rows_of_very_different_sizes() {
    let (local, reader) = start(64 << 20).await;
    local
        .table(
            serde_json::json!([{"name": "id", "type": "INTEGER"}, {"name": "s", "type": "STRING"}]),
        )
        .await;
    let text: StringArray = (0..200)
        .map(|i| Some("x".repeat(if i % 40 == 39 { 6 << 20 } else { 10 })))
        .collect();
    append(
        &local,
        vec![
            Arc::new(Int64Array::from_iter_values(0..200)),
            Arc::new(text),
        ],
        None,
    );
    let session = reader.session(request()).await;
    let messages = reader.read(&session.streams[0].name, 0).await;
    assert!(messages.iter().all(|m| payload(m).len() < 13 << 20));
    let ids: Vec<i64> = messages
        .iter()
        .flat_map(|m| numbers(&batch(&session, m)))
        .collect();
    assert_eq!(ids, (0..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reader_that_leaves_stops_the_work() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[2_000_000]).await;
    let session = reader.session(request()).await;
    let mut stream = reader
        .0
        .clone()
        .read_rows(ReadRowsRequest {
            read_stream: session.streams[0].name.clone(),
            offset: 0,
        })
        .await
        .unwrap()
        .into_inner();
    assert!(stream.message().await.unwrap().is_some());
    let calls = || local.server.service().read.open_calls();
    // Unread, the call waits: it is far from its end and makes nothing more.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(calls(), 1);
    drop(stream);
    for _ in 0..200 {
        if calls() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the call runs on without a client");
}
