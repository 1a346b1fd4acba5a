use tonic::Code;

use super::api::arrow_serialization_options::CompressionCodec;
use super::api::read_session::TableReadOptions;
use super::api::read_session::table_read_options::{
    OutputFormatSerializationOptions, ResponseCompressionCodec,
};
use super::api::{ArrowSerializationOptions, SplitReadStreamRequest};
use super::*;

#[track_caller]
fn check(answer: Result<ReadSession, Status>, code: Code, words: &str) {
    let error = answer.expect_err(words);
    assert_eq!(error.code(), code, "{error}");
    assert!(error.message().contains(words), "{error}");
}

#[tokio::test]
async fn names() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[3]).await;
    let invalid = "Invalid resource field value in the request.";
    for table in [
        "",
        "not/a/table",
        "projects/local/datasets/d/tables/",
        "projects/local/datasets/d/tables/t/x",
    ] {
        let mut request = request();
        session_of(&mut request).table = table.into();
        check(
            reader.try_session(request).await,
            Code::InvalidArgument,
            invalid,
        );
    }
    for parent in ["", "local", "projects/", "projects/a/b"] {
        let mut request = request();
        request.parent = parent.into();
        check(
            reader.try_session(request).await,
            Code::InvalidArgument,
            invalid,
        );
    }
    for (table, words) in [
        (
            "projects/local/datasets/d/tables/nope",
            "Not found: Table local:d.nope",
        ),
        (
            "projects/local/datasets/nope/tables/t",
            "Not found: Dataset local:nope",
        ),
        (
            "projects/nope/datasets/d/tables/t",
            "Not found: Dataset nope:d",
        ),
    ] {
        let mut request = request();
        session_of(&mut request).table = table.into();
        check(reader.try_session(request).await, Code::NotFound, words);
    }
    let mut without = request();
    without.read_session = None;
    check(
        reader.try_session(without).await,
        Code::InvalidArgument,
        "read_session",
    );

    let session = reader.session(request()).await;
    for (stream, code) in [
        (String::new(), Code::InvalidArgument),
        ("x".to_string(), Code::InvalidArgument),
        (session.name.clone(), Code::InvalidArgument),
        (format!("{}/streams/nope", session.name), Code::NotFound),
        (
            "projects/local/locations/us/sessions/nope/streams/nope".to_string(),
            Code::NotFound,
        ),
    ] {
        let error = reader.try_read(&stream, 0).await.unwrap_err();
        assert_eq!(error.code(), code, "{stream}: {error}");
        let split = SplitReadStreamRequest {
            name: stream,
            fraction: 0.5,
        };
        let error = reader.0.clone().split_read_stream(split).await.unwrap_err();
        assert_eq!(error.code(), code);
    }
}

#[tokio::test]
async fn counts_formats_and_options() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[3]).await;
    for (max, preferred) in [(-1, 0), (0, -1), (3, 4)] {
        let mut request = request();
        request.max_stream_count = max;
        request.preferred_min_stream_count = preferred;
        check(
            reader.try_session(request).await,
            Code::InvalidArgument,
            "stream_count",
        );
    }
    for format in [0, 77] {
        let mut request = request();
        session_of(&mut request).data_format = format;
        check(
            reader.try_session(request).await,
            Code::InvalidArgument,
            "request failed: data format unspecified",
        );
    }
    let mut request = request();
    session_of(&mut request).trace_id = "x".repeat(257);
    check(
        reader.try_session(request).await,
        Code::InvalidArgument,
        "trace_id",
    );
    for percent in [-0.1, 100.1, f64::NAN] {
        let request = with_options(TableReadOptions {
            sample_percentage: Some(percent),
            ..TableReadOptions::default()
        });
        check(
            reader.try_session(request).await,
            Code::InvalidArgument,
            "sample_percentage",
        );
    }
    check(
        reader.try_session(selecting(&["id", "zzz"])).await,
        Code::InvalidArgument,
        "zzz",
    );
    check(
        reader.try_session(selecting(&["id.x"])).await,
        Code::InvalidArgument,
        "id.x",
    );
    let both = with_options(TableReadOptions {
        response_compression_codec: Some(ResponseCompressionCodec::Lz4.into()),
        output_format_serialization_options: Some(
            OutputFormatSerializationOptions::ArrowSerializationOptions(
                ArrowSerializationOptions {
                    buffer_compression: CompressionCodec::Zstd.into(),
                    ..ArrowSerializationOptions::default()
                },
            ),
        ),
        ..TableReadOptions::default()
    });
    check(
        reader.try_session(both).await,
        Code::InvalidArgument,
        "cannot be set together",
    );
}

#[tokio::test]
async fn restrictions_that_are_refused() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[3]).await;
    for (text, words) in [
        (
            "id = = 3",
            "request failed: Query error: Syntax error: Unexpected \"=\"",
        ),
        ("nocol = 3", "Unrecognized name: nocol"),
        ("id = 'x'", "No matching signature for operator ="),
        ("id IN (SELECT 1)", "nested queries not supported"),
        ("_PARTITIONTIME IS NULL", "Unrecognized name"),
    ] {
        check(
            reader.try_session(restricted(text)).await,
            Code::InvalidArgument,
            words,
        );
    }
    let long = format!("id = 1{}", " ".repeat((1 << 20) - 6));
    assert_eq!(long.len(), 1 << 20);
    assert_eq!(reader.session(restricted(&long)).await.streams.len(), 1);
    check(
        reader.try_session(restricted(&format!("{long} "))).await,
        Code::InvalidArgument,
        "read_session.read_options.row_restriction exceeded maximum allowed length. Maximum bytes allowed: 1048576",
    );
    // What fails on a row fails the reading of it.
    let session = reader.session(restricted("1 / (id - 2) > 0")).await;
    let error = reader
        .try_read(&session.streams[0].name, 0)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("division by zero"), "{error}");
}

#[tokio::test]
async fn instants_that_cannot_be_read() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[3]).await;
    let created = {
        let store = &local.server.service().store;
        store
            .table(&TableRef::new(PROJECT, "d", "t"))
            .unwrap()
            .created()
    };
    assert_eq!(reader.session(as_of(created)).await.streams.len(), 0);
    check(
        reader.try_session(as_of(created - 1)).await,
        Code::InvalidArgument,
        "Cannot read before",
    );
    check(
        reader.try_session(as_of(created + 3_600_000_000)).await,
        Code::InvalidArgument,
        "in the future",
    );
    check(
        reader
            .try_session(as_of(created - 30 * 86_400_000_000))
            .await,
        Code::InvalidArgument,
        "time travel timestamp exceeds the maximum time travel duration of 168h",
    );
}

#[tokio::test]
async fn views_are_not_read() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[3]).await;
    let store = &local.server.service().store;
    let view = TableRef::new(PROJECT, "d", "v");
    store
        .commit(|state| {
            let mut meta = (*state
                .require_table(&TableRef::new(PROJECT, "d", "t"))?
                .meta())
            .clone();
            meta.kind = bigquery_local::store::TableKind::View(bigquery_local::store::View {
                query: "SELECT id FROM d.t".into(),
            });
            Ok((vec![Mutation::PutTable(view.clone(), Box::new(meta))], ()))
        })
        .unwrap();
    let mut request = request();
    session_of(&mut request).table = view.path();
    check(
        reader.try_session(request).await,
        Code::InvalidArgument,
        "request failed: non-table entities cannot be read with the storage API",
    );
}
