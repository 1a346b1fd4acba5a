//! AppendRows with protobuf rows: kinds of streams, what sticks, what is refused.

use std::time::Duration;

use bigquery_local::{LocalBigQuery, LocalOptions, Realism};
use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use prost_types::field_descriptor_proto::Type;
use serde_json::json;
use tonic::Code;

use api::append_rows_request::MissingValueInterpretation;
use api::storage_error::StorageErrorCode;
use api::write_stream::Type as Kind;

use crate::append::{
    Writer, appended, at, bad_rows, bytes, default_stream, field, ids, int, message, path, query,
    refused, request, simple, simple_columns, simple_rows, storage_error,
};
use crate::harness::{Local, PROJECT};

async fn start() -> (Local, Writer) {
    let local = Local::with_dataset().await;
    local.table(simple_columns()).await;
    let writer = Writer::of(&local).await;
    (local, writer)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_the_default_stream_are_visible_when_they_are_acknowledged() {
    let (local, writer) = start().await;
    let (stream, schema) = (default_stream(), simple());
    let mut connection = writer.connect();
    let first = connection
        .send(request(&stream, Some(&schema), simple_rows(0..2)))
        .await;
    assert_eq!(first.as_ref().unwrap().write_stream, stream);
    assert_eq!(appended(first), None);
    assert_eq!(ids(&local).await, [0, 1]);
    // Stream and schema stick.
    let second = connection.send(request("", None, simple_rows(2..3))).await;
    assert_eq!(appended(second), None);
    let offset = connection
        .send(at(3, request("", None, simple_rows(3..4))))
        .await;
    assert_eq!(refused(offset).0, Code::InvalidArgument);
    assert_eq!(ids(&local).await, [0, 1, 2]);
    connection.close().await;
    let mut alias = writer.connect();
    let short = format!("{}/_default", path("t"));
    let sent = alias
        .send(request(&short, Some(&schema), simple_rows(4..5)))
        .await;
    appended(sent);
    assert_eq!(ids(&local).await, [0, 1, 2, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn default_streams_share_a_connection() {
    let (local, writer) = start().await;
    let other = json!({
        "tableReference": {"projectId": "local", "datasetId": "d", "tableId": "u"},
        "schema": {"fields": [{"name": "v", "type": "INTEGER"}]},
    });
    local.post("datasets/d/tables", other).await.ok();
    let (one, two) = (default_stream(), format!("{}/streams/_default", path("u")));
    let second = message("Other", vec![field(7, "V", Type::Int64)]);
    let mut connection = writer.connect();
    let schema = simple();
    appended(
        connection
            .send(request(&one, Some(&schema), simple_rows(0..1)))
            .await,
    );
    let sent = connection
        .send(request(&two, Some(&second), vec![int(7, 70)]))
        .await;
    assert_eq!(sent.as_ref().unwrap().write_stream, two);
    appended(sent);
    appended(
        connection
            .send(request(&one, Some(&schema), simple_rows(1..2)))
            .await,
    );
    assert_eq!(ids(&local).await, [0, 1]);
    assert_eq!(query(&local, "SELECT v FROM d.u").await, [json!(["70"])]);
    // From the first change on a request says where it goes.
    let unnamed = connection.send(request("", None, simple_rows(2..3))).await;
    assert_eq!(unnamed.unwrap_err().code(), Code::InvalidArgument);
    let mut connection = writer.connect();
    appended(connection.send(request(&one, Some(&schema), vec![])).await);
    let schemaless = connection.send(request(&two, None, vec![int(7, 1)])).await;
    assert_eq!(schemaless.unwrap_err().code(), Code::InvalidArgument);
    let committed = writer.create(Kind::Committed).await;
    let mut connection = writer.connect();
    appended(connection.send(request(&one, Some(&schema), vec![])).await);
    let foreign = connection
        .send(request(&committed, Some(&schema), simple_rows(0..1)))
        .await;
    assert_eq!(foreign.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_begins_with_a_stream_and_a_schema() {
    let (_local, writer) = start().await;
    let schema = simple();
    let absent = format!("{}/streams/_default", path("absent"));
    let unknown = format!("{}/streams/unknown", path("t"));
    let stream = default_stream();
    let mut empty = request(&stream, None, vec![]);
    empty.rows = None;
    for (first, code) in [
        (request("", Some(&schema), vec![]), Code::InvalidArgument),
        (
            request("nonsense", Some(&schema), vec![]),
            Code::InvalidArgument,
        ),
        (request(&stream, None, vec![]), Code::InvalidArgument),
        (
            request(&absent, Some(&schema), vec![]),
            Code::PermissionDenied,
        ),
        (
            request(&unknown, Some(&schema), vec![]),
            Code::InvalidArgument,
        ),
        (empty, Code::InvalidArgument),
    ] {
        let ended = writer.connect().send(first).await.unwrap_err();
        assert_eq!(ended.code(), code, "{ended}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_of_a_committed_stream() {
    let (local, writer) = start().await;
    let stream = writer.create(Kind::Committed).await;
    let schema = simple();
    let mut connection = writer.connect();
    let first = connection
        .send(at(0, request(&stream, Some(&schema), simple_rows(0..3))))
        .await;
    assert_eq!(appended(first), Some(0));
    let again = connection
        .send(at(0, request("", None, simple_rows(0..3))))
        .await;
    assert_eq!(storage_error(&again), StorageErrorCode::OffsetAlreadyExists);
    let (code, words) = refused(again);
    assert_eq!(code, Code::AlreadyExists);
    assert!(
        words.contains("within stream, expected offset 3, received 0"),
        "{words}"
    );
    let beyond = connection
        .send(at(9, request("", None, simple_rows(9..10))))
        .await;
    assert_eq!(storage_error(&beyond), StorageErrorCode::OffsetOutOfRange);
    assert_eq!(refused(beyond).0, Code::OutOfRange);
    let next = connection.send(request("", None, simple_rows(3..4))).await;
    assert_eq!(appended(next), Some(3));
    assert_eq!(ids(&local).await, [0, 1, 2, 3]);
    assert_eq!(writer.finalize(&stream).await, 4);
    let late = connection.send(request("", None, simple_rows(4..5))).await;
    assert_eq!(storage_error(&late), StorageErrorCode::StreamFinalized);
    assert_eq!(late.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(ids(&local).await, [0, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn buffered_rows_are_visible_up_to_the_flushed_offset() {
    let (local, writer) = start().await;
    let stream = writer.create(Kind::Buffered).await;
    let schema = simple();
    let mut connection = writer.connect();
    for lo in [0, 4] {
        let rows = simple_rows(lo..lo + 4);
        let sent = connection
            .send(at(lo, request(&stream, Some(&schema), rows)))
            .await;
        assert_eq!(appended(sent), Some(lo));
    }
    assert_eq!(ids(&local).await, [0_i64; 0]);
    // In the middle of a request, at its end, and over two of them.
    for (offset, visible) in [(1, 2), (3, 4), (5, 6), (7, 8)] {
        assert_eq!(writer.flush(&stream, offset).await.unwrap(), offset);
        assert_eq!(ids(&local).await, (0..visible).collect::<Vec<i64>>());
    }
    let again = writer.flush(&stream, 5).await.unwrap_err();
    assert_eq!(again.code(), Code::AlreadyExists);
    let beyond = writer.flush(&stream, 8).await.unwrap_err();
    assert_eq!(beyond.code(), Code::OutOfRange);
    let negative = writer.flush(&stream, -1).await.unwrap_err();
    assert_eq!(negative.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_streams_become_visible_together() {
    let (local, writer) = start().await;
    let (one, two) = (
        writer.create(Kind::Pending).await,
        writer.create(Kind::Pending).await,
    );
    let schema = simple();
    for (stream, range) in [(&one, 0..2), (&two, 2..4)] {
        let rows = simple_rows(range);
        appended(
            writer
                .connect()
                .send(request(stream, Some(&schema), rows))
                .await,
        );
    }
    assert_eq!(writer.finalize(&one).await, 2);
    let errors = writer.commit(&[&one, &two]).await;
    assert_eq!(errors, [StorageErrorCode::InvalidStreamState]);
    assert_eq!(ids(&local).await, [0_i64; 0]);
    assert_eq!(writer.finalize(&two).await, 2);
    // A stream that is named twice is committed once.
    assert_eq!(writer.commit(&[&one, &two, &one]).await, []);
    assert_eq!(ids(&local).await, [0, 1, 2, 3]);
    let again = writer.commit(&[&two]).await;
    assert_eq!(again, [StorageErrorCode::StreamAlreadyCommitted]);
    assert_eq!(ids(&local).await, [0, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_row_refuses_its_request_and_nothing_else() {
    let local = Local::with_dataset().await;
    local
        .table(json!([
            {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "s", "type": "STRING", "maxLength": "3"},
        ]))
        .await;
    let writer = Writer::of(&local).await;
    let stream = writer.create(Kind::Committed).await;
    let mut connection = writer.connect();
    let rows = vec![
        int(1, 1),
        bytes(2, "abc"),
        [int(1, 2), bytes(2, "abcd")].concat(),
        vec![0xff; 4],
        [int(1, 4), bytes(2, [0xff])].concat(),
    ];
    let errors = bad_rows(
        connection
            .send(request(&stream, Some(&simple()), rows))
            .await,
    );
    let rows: Vec<i64> = errors.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, [1, 2, 3, 4], "{errors:?}");
    assert!(errors[0].1.contains("id is required"), "{errors:?}");
    assert_eq!(
        errors[1].1,
        "Field s: STRING(3) has maximum length 3 but got a value with length 4 on field s."
    );
    assert!(errors[3].1.contains("UTF-8"), "{errors:?}");
    let good = connection
        .send(at(0, request("", None, vec![int(1, 9)])))
        .await;
    assert_eq!(appended(good), Some(0));
    assert_eq!(ids(&local).await, [9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn writer_schemas_that_do_not_fit() {
    let (_local, writer) = start().await;
    let stream = default_stream();
    let extra = message(
        "Row",
        vec![field(1, "id", Type::Int64), field(2, "zzz", Type::String)],
    );
    let mut connection = writer.connect();
    let sent = connection
        .send(request(&stream, Some(&extra), vec![]))
        .await;
    assert_eq!(
        storage_error(&sent),
        StorageErrorCode::SchemaMismatchExtraFields
    );
    assert!(refused(sent).1.contains("extra fields: 'zzz'"));
    for wrong in [
        message("Row", vec![field(1, "id", Type::Bool)]),
        message("Row", vec![field(1, "id", Type::Sint64)]),
        message("Row", vec![field(1, "id", Type::Group)]),
        message("Row", vec![field(0, "id", Type::Int64)]),
        message(
            "Row",
            vec![crate::append::repeated(field(1, "id", Type::Int64))],
        ),
        message(
            "Row",
            vec![crate::append::named(field(1, "id", Type::Enum), "Nowhere")],
        ),
        message(
            "Row",
            vec![field(1, "id", Type::Int64), field(2, "ID", Type::Int64)],
        ),
    ] {
        let (code, words) = refused(connection.send(request("", Some(&wrong), vec![])).await);
        assert_eq!(code, Code::InvalidArgument, "{words}");
    }
    // The connection goes on with a schema that fits.
    appended(
        connection
            .send(request("", Some(&simple()), simple_rows(0..1)))
            .await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_values_are_null_or_the_default() {
    let local = Local::with_dataset().await;
    local
        .table(json!([
            {"name": "id", "type": "INTEGER"},
            {"name": "s", "type": "STRING", "defaultValueExpression": "'dflt'"},
            {"name": "u", "type": "STRING", "mode": "REQUIRED",
             "defaultValueExpression": "GENERATE_UUID()"},
        ]))
        .await;
    let writer = Writer::of(&local).await;
    let schema = simple();
    let mut connection = writer.connect();
    let null = MissingValueInterpretation::NullValue.into();
    let default = MissingValueInterpretation::DefaultValue.into();
    // Without an interpretation the REQUIRED column has nothing.
    let stream = default_stream();
    let sent = connection
        .send(request(&stream, Some(&schema), vec![int(1, 0)]))
        .await;
    assert_eq!(bad_rows(sent).len(), 1);
    let mut first = request("", None, vec![int(1, 1), simple_rows(2..3).remove(0)]);
    first.default_missing_value_interpretation = default;
    appended(connection.send(first).await);
    // The default sticks, one column's interpretation does not.
    let mut second = request("", None, vec![int(1, 3)]);
    second.missing_value_interpretations = [("S".to_string(), null)].into();
    appended(connection.send(second).await);
    appended(connection.send(request("", None, vec![int(1, 4)])).await);
    let rows = query(&local, "SELECT id, s FROM d.t ORDER BY id").await;
    assert_eq!(
        rows,
        [
            json!(["1", "dflt"]),
            json!(["2", "s2"]),
            json!(["3", null]),
            json!(["4", "dflt"])
        ]
    );
    let distinct = query(&local, "SELECT COUNT(DISTINCT u) FROM d.t").await;
    assert_eq!(distinct, [json!(["4"])]);
    for (column, value) in [("s", 0), ("nowhere", null), ("s", 9)] {
        let mut bad = request("", None, vec![int(1, 5)]);
        bad.missing_value_interpretations = [(column.to_string(), value)].into();
        assert_eq!(refused(connection.send(bad).await).0, Code::InvalidArgument);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_is_added_is_announced_and_old_schemas_go_on() {
    let (local, writer) = start().await;
    let stream = default_stream();
    let mut connection = writer.connect();
    let sent = connection
        .send(request(&stream, Some(&simple()), simple_rows(0..1)))
        .await
        .unwrap();
    assert!(sent.updated_schema.is_none());
    let mut columns = simple_columns();
    columns
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "extra", "type": "INTEGER"}));
    local
        .patch(
            "datasets/d/tables/t",
            json!({"schema": {"fields": columns}}),
        )
        .await
        .ok();
    let sent = connection
        .send(request("", None, simple_rows(1..2)))
        .await
        .unwrap();
    let announced = sent
        .updated_schema
        .as_ref()
        .expect("the new schema")
        .fields
        .clone();
    let names: Vec<&str> = announced.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["id", "s", "extra"]);
    let sent = connection
        .send(request("", None, simple_rows(2..3)))
        .await
        .unwrap();
    assert!(sent.updated_schema.is_none(), "it is said once");
    let mut schema = simple();
    schema.field.push(field(3, "extra", Type::Int64));
    let rows = vec![[int(1, 3), int(3, 30)].concat()];
    appended(connection.send(request("", Some(&schema), rows)).await);
    let rows = query(&local, "SELECT id, extra FROM d.t ORDER BY id").await;
    assert_eq!(rows[3], json!(["3", "30"]));
    assert_eq!(rows[1], json!(["1", null]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_made_again_ends_the_connection() {
    let (local, writer) = start().await;
    let stream = default_stream();
    let mut connection = writer.connect();
    appended(
        connection
            .send(request(&stream, Some(&simple()), simple_rows(0..1)))
            .await,
    );
    assert_eq!(local.delete("datasets/d/tables/t").await.status, 204);
    local.table(simple_columns()).await;
    let ended = connection
        .send(request("", None, simple_rows(1..2)))
        .await
        .unwrap_err();
    assert_eq!(ended.code(), Code::NotFound);
    assert!(ended.message().contains("re-created"), "{ended}");
    assert_eq!(ids(&local).await, [0_i64; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_above_the_limit_is_refused() {
    let local = Local::with_dataset().await;
    local.table(simple_columns()).await;
    let writer = Writer::of(&local).await;
    let limit = local.server.service().options.append_request_bytes;
    let row = |n: usize| bytes(2, vec![b'x'; n]);
    let stream = default_stream();
    let schema = simple();
    let mut connection = writer.connect();
    let below = request(&stream, Some(&schema), vec![row(limit - 1000)]);
    appended(connection.send(below).await);
    let above = request(&stream, Some(&schema), vec![row(limit)]);
    let ended = connection.send(above).await.unwrap_err();
    assert_eq!(ended.code(), Code::InvalidArgument);
    assert!(
        ended
            .message()
            .starts_with("AppendRows request too large: "),
        "{ended}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_come_in_the_order_of_requests() {
    let (local, writer) = start().await;
    let stream = writer.create(Kind::Committed).await;
    let schema = simple();
    let mut connection = writer.connect();
    for i in 0..8 {
        let rows = simple_rows(i * 10..i * 10 + 10);
        connection
            .push(at(i * 10, request(&stream, Some(&schema), rows)))
            .await;
    }
    for i in 0..8 {
        assert_eq!(appended(connection.answer().await.unwrap()), Some(i * 10));
    }
    connection.close().await;
    assert_eq!(ids(&local).await.len(), 80);
}

/// A server with these delays and the table `d.t`.
async fn realistic(realism: Realism) -> (Local, Writer) {
    let options = LocalOptions {
        realism,
        ..LocalOptions::default()
    };
    let local = Local {
        server: LocalBigQuery::start(options).await.unwrap(),
        client: reqwest::Client::new(),
    };
    let dataset = json!({"datasetReference": {"projectId": PROJECT, "datasetId": "d"}});
    local.post("datasets", dataset).await.ok();
    local.table(simple_columns()).await;
    let writer = Writer::of(&local).await;
    (local, writer)
}

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn a_new_table_is_denied_while_it_propagates() {
    let (_local, writer) = realistic(Realism {
        creation_delay: LONG,
        ..Realism::default()
    })
    .await;
    let sent = request(&default_stream(), Some(&simple()), simple_rows(0..1));
    let ended = writer.connect().send(sent).await.unwrap_err();
    assert_eq!(ended.code(), Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_columns_are_unknown_while_they_propagate() {
    let (local, writer) = realistic(Realism {
        schema_delay: LONG,
        ..Realism::default()
    })
    .await;
    let mut columns = simple_columns();
    let extra = json!({"name": "extra", "type": "INTEGER"});
    columns.as_array_mut().unwrap().push(extra);
    local
        .patch(
            "datasets/d/tables/t",
            json!({"schema": {"fields": columns}}),
        )
        .await
        .ok();
    let mut schema = simple();
    schema.field.push(field(3, "extra", Type::Int64));
    let stream = default_stream();
    let mut connection = writer.connect();
    let sent = connection
        .send(request(&stream, Some(&schema), vec![]))
        .await;
    assert_eq!(
        storage_error(&sent),
        StorageErrorCode::SchemaMismatchExtraFields
    );
    appended(
        connection
            .send(request("", Some(&simple()), simple_rows(0..1)))
            .await,
    );
    assert_eq!(ids(&local).await, [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_call_is_ended() {
    let (_local, writer) = realistic(Realism {
        append_idle: Some(Duration::from_millis(1)),
        ..Realism::default()
    })
    .await;
    let mut connection = writer.connect();
    let sent = request(&default_stream(), Some(&simple()), simple_rows(0..1));
    connection.push(sent).await;
    // Whether the request was answered first is a matter of time.
    loop {
        match connection.answer().await.expect("a response, or a status") {
            Ok(_) => {}
            Err(status) => {
                assert_eq!(status.code(), Code::Aborted);
                return;
            }
        }
    }
}
