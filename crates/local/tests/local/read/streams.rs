use super::api::SplitReadStreamRequest;
use super::api::read_session::TableReadOptions;
use super::*;

fn streams(max: i32, preferred: i32) -> CreateReadSessionRequest {
    CreateReadSessionRequest {
        max_stream_count: max,
        preferred_min_stream_count: preferred,
        ..request()
    }
}

#[tokio::test]
async fn streams_by_size_within_the_caller_s_bounds() {
    // 10,000 rows of 8 + 2 + 14 logical bytes.
    let (local, reader) = start(24_000).await;
    counted(&local, &[4_000, 1, 1, 5_998]).await;
    for (max, preferred, want) in [
        (0, 0, 10),
        (3, 0, 3),
        (1, 0, 1),
        (1_000_000, 0, 10),
        (0, 5, 10),
        (0, 20, 20),
        (0, 5_000, 40),
        (15, 15, 15),
    ] {
        let session = reader.session(streams(max, preferred)).await;
        let count = session.streams.len();
        assert!(
            count <= want && count * 10 >= want * 9,
            "{count} streams of {max}, {preferred}"
        );
        let mut all = Vec::new();
        for stream in &session.streams {
            let mut ids = Vec::new();
            for message in reader.read(&stream.name, 0).await {
                ids.extend(numbers(&batch(&session, &message)));
            }
            assert!(!ids.is_empty());
            all.extend(ids);
        }
        assert_eq!(all, (0..10_000).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_small_table_is_one_stream() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[1000]).await;
    for (max, preferred) in [(0, 0), (4, 2), (100, 100)] {
        let session = reader.session(streams(max, preferred)).await;
        assert_eq!(session.streams.len(), 1);
    }
}

#[tokio::test]
async fn fewer_columns_are_fewer_streams() {
    let (local, reader) = start(24_000).await;
    counted(&local, &[10_000]).await;
    let mut request = selecting(&["id"]);
    request.max_stream_count = 0;
    let session = reader.session(request).await;
    assert_eq!(session.streams.len(), 4);
}

#[tokio::test]
async fn no_more_than_a_thousand_streams() {
    let (local, reader) = start(16).await;
    counted(&local, &[3_000]).await;
    let session = reader.session(streams(0, 0)).await;
    assert_eq!(session.streams.len(), 1000);
}

#[tokio::test]
async fn streams_are_read_at_the_same_time() {
    let (local, reader) = start(24_000).await;
    counted(&local, &[10_000]).await;
    let session = reader.session(streams(0, 0)).await;
    let reads = session.streams.iter().map(|s| reader.read(&s.name, 0));
    let all = futures::future::join_all(reads).await;
    let rows: i64 = all.iter().flatten().map(|m| m.row_count).sum();
    assert_eq!(rows, 10_000);
}

#[tokio::test]
async fn a_split_stream_is_the_same_rows_in_two() {
    let (local, reader) = start(24_000).await;
    counted(&local, &[4_000]).await;
    for (request, expected) in [
        (streams(1, 0), (0..4_000).collect::<Vec<_>>()),
        (
            restricted("MOD(id, 3) = 0"),
            (0..4_000).filter(|i| i % 3 == 0).collect(),
        ),
    ] {
        let session = reader.session(request).await;
        let parent = &session.streams[0].name;
        let split = |name: &str, fraction: f64| {
            let request = SplitReadStreamRequest {
                name: name.to_string(),
                fraction,
            };
            let mut client = reader.0.clone();
            async move { client.split_read_stream(request).await }
        };
        let answer = split(parent, 0.25).await.unwrap().into_inner();
        let (primary, remainder) = (
            answer.primary_stream.unwrap().name,
            answer.remainder_stream.unwrap().name,
        );
        let mut ids = Vec::new();
        let mut sizes = Vec::new();
        for stream in [&primary, &remainder] {
            let mut rows = 0;
            for message in reader.read(stream, 0).await {
                ids.extend(numbers(&batch(&session, &message)));
                rows += message.row_count;
            }
            sizes.push(rows);
        }
        assert_eq!(ids, expected);
        assert!(sizes[0] * 2 < sizes[1], "{sizes:?}");
        assert_eq!(reader.numbers(&session).await, expected);
        // Halves can be halved until a block is left.
        let mut name = primary;
        for _ in 0..64 {
            let answer = split(&name, 0.5).await.unwrap().into_inner();
            name = answer.primary_stream.unwrap().name;
            if name.is_empty() {
                assert!(answer.remainder_stream.unwrap().name.is_empty());
                break;
            }
        }
        assert!(name.is_empty(), "a block cannot be split");
        for fraction in [0.0, 1.0, -1.0, f64::NAN] {
            let error = split(parent, fraction).await.unwrap_err();
            assert_eq!(error.code(), tonic::Code::InvalidArgument);
        }
    }
}

#[tokio::test]
async fn samples_take_whole_blocks() {
    let (local, reader) = start(24_000).await;
    counted(&local, &[20_000]).await;
    let sampled = |percent: f64| {
        let mut request = with_options(TableReadOptions {
            sample_percentage: Some(percent),
            ..TableReadOptions::default()
        });
        request.max_stream_count = 0;
        request
    };
    let all = reader.session(sampled(100.0)).await;
    assert_eq!(reader.numbers(&all).await.len(), 20_000);
    let none = reader.session(sampled(0.0)).await;
    assert!(none.streams.is_empty());
    let some = reader.session(sampled(40.0)).await;
    let ids = reader.numbers(&some).await;
    assert!(ids.len() > 2_000 && ids.len() < 16_000, "{}", ids.len());
    assert_eq!(some.estimated_row_count, ids.len() as i64);
    // Rows follow each other within a block.
    let gaps = ids.windows(2).filter(|w| w[1] != w[0] + 1).count();
    assert!(gaps * 20 < ids.len(), "{gaps} gaps in {} rows", ids.len());
}
