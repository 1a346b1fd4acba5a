use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use serde_json::json;

use super::api::arrow_serialization_options::CompressionCodec;
use super::api::read_session::TableReadOptions;
use super::api::read_session::table_read_options::{
    OutputFormatSerializationOptions, ResponseCompressionCodec,
};
use super::api::{ArrowSerializationOptions, DataFormat};
use super::*;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}

#[tokio::test]
async fn a_session_says_what_it_is() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[1000]).await;
    let mut request = selecting(&["ID"]);
    session_of(&mut request)
        .read_options
        .as_mut()
        .unwrap()
        .row_restriction = "id > 5".into();
    session_of(&mut request).trace_id = "trace".into();
    let asked = session_of(&mut request).read_options.clone();
    let session = reader.session(request).await;
    let prefix = "projects/local/locations/us/sessions/";
    assert!(session.name.starts_with(prefix), "{}", session.name);
    let stream = &session.streams[0].name;
    assert!(stream.starts_with(&format!("{}/streams/", session.name)));
    assert_eq!(session.table, table_path());
    assert_eq!(session.data_format(), DataFormat::Arrow);
    assert_eq!(session.read_options, asked);
    assert_eq!(session.trace_id, "trace");
    assert_eq!(session.estimated_row_count, 1000);
    assert_eq!(session.estimated_total_bytes_scanned, 8000);
    let left = session.expire_time.unwrap().seconds - now() / 1_000_000;
    assert!((21_590..=21_600).contains(&left), "{left}");
    assert_eq!(reader.numbers(&session).await.len(), 994);

    let record = &local.server.service().read_log()[0];
    assert_eq!(record.session, session.name);
    assert_eq!(record.table.to_string(), "local:d.t");
    assert_eq!(record.selected_fields, ["ID"]);
    assert_eq!(record.row_restriction, "id > 5");
    assert_eq!(record.streams, 1);
}

#[tokio::test]
async fn an_empty_table_has_a_schema_and_no_streams() {
    let (local, reader) = start(1).await;
    counted(&local, &[]).await;
    let session = reader.session(request()).await;
    assert!(session.streams.is_empty());
    let schema = super::arrow_schema(&session);
    assert_eq!(schema.field(0).name(), "id");
    assert_eq!(session.estimated_row_count, 0);
}

#[tokio::test]
async fn selected_fields_are_in_table_order_and_may_be_nested() {
    let (local, reader) = start(64 << 20).await;
    local
        .table(json!([
            {"name": "a", "type": "INTEGER"},
            {"name": "st", "type": "RECORD", "fields": [
                {"name": "x", "type": "INTEGER", "mode": "REQUIRED"},
                {"name": "y", "type": "STRING"},
                {"name": "deep", "type": "RECORD", "fields": [
                    {"name": "p", "type": "DATE"}, {"name": "q", "type": "DATETIME"}]}]},
            {"name": "list", "type": "RECORD", "mode": "REPEATED", "fields": [
                {"name": "k", "type": "STRING"}, {"name": "v", "type": "FLOAT"}]},
            {"name": "z", "type": "STRING"},
        ]))
        .await;
    local
        .insert(&[
            json!({"a": 1, "st": {"x": 2, "y": "y", "deep": {"p": "2024-01-01", "q": "2024-01-01 00:00:00"}},
                   "list": [{"k": "k1", "v": 1.5}, {"k": "k2"}], "z": "z"}),
            json!({"a": 2}),
        ])
        .await;
    let session = reader
        .session(selecting(&["z", "list.v", "st.deep.q", "st.x", "st.x"]))
        .await;
    let schema = super::arrow_schema(&session);
    let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["st", "list", "z"]);
    let DataType::Struct(fields) = schema.field(0).data_type() else {
        panic!("{schema}")
    };
    assert_eq!(fields.len(), 2);
    assert_eq!(fields[0].name(), "x");
    assert!(!fields[0].is_nullable());
    let DataType::Struct(deep) = fields[1].data_type() else {
        panic!("{schema}")
    };
    assert_eq!(
        deep[0].metadata()["ARROW:extension:name"],
        "google:sqlType:datetime"
    );
    let rows = reader.rows(&session).await;
    let st = rows.column(0).as_struct();
    assert!(st.is_valid(0) && st.is_null(1));
    let list = rows.column(1).as_list::<i32>();
    assert_eq!(list.value_length(0), 2);
    assert_eq!(list.value_length(1), 0);
    assert_eq!(rows.column(2).as_string::<i32>().value(0), "z");

    // A struct named whole has all its fields, whatever else is named of it.
    let whole = reader.session(selecting(&["st.x", "st", "a"])).await;
    let schema = super::arrow_schema(&whole);
    let DataType::Struct(fields) = schema.field(1).data_type() else {
        panic!("{schema}")
    };
    assert_eq!(fields.len(), 3);
}

#[tokio::test]
async fn a_session_does_not_see_later_changes() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[3]).await;
    let before = now();
    tokio::time::sleep(Duration::from_millis(2)).await;
    let session = reader.session(request()).await;
    append(
        &local,
        vec![
            Arc::new(Int64Array::from(vec![100])),
            Arc::new(StringArray::from(vec!["later"])),
        ],
        None,
    );
    local
        .patch(
            "datasets/d/tables/t",
            json!({"schema": {"fields": [
                {"name": "id", "type": "INTEGER"}, {"name": "s", "type": "STRING"},
                {"name": "new", "type": "BOOLEAN"}]}}),
        )
        .await
        .ok();
    assert_eq!(reader.numbers(&session).await, [0, 1, 2]);
    assert_eq!(super::arrow_schema(&session).fields().len(), 2);

    let old = reader.session(as_of(before)).await;
    assert_eq!(reader.numbers(&old).await, [0, 1, 2]);
    assert_eq!(super::arrow_schema(&old).fields().len(), 2);
    let new = reader.session(request()).await;
    assert_eq!(reader.numbers(&new).await, [0, 1, 2, 100]);
    assert_eq!(super::arrow_schema(&new).fields().len(), 3);

    local.delete("datasets/d/tables/t").await;
    assert_eq!(reader.numbers(&session).await, [0, 1, 2]);
}

#[tokio::test]
async fn compression_of_buffers_and_of_responses() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[50_000]).await;
    let plain = reader.session(request()).await;
    let size = |messages: &[ReadRowsResponse]| -> usize {
        messages.iter().map(|m| payload(m).len()).sum()
    };
    let uncompressed = reader.read(&plain.streams[0].name, 0).await;
    assert!(
        uncompressed
            .iter()
            .all(|m| m.uncompressed_byte_size.is_none())
    );
    for codec in [CompressionCodec::Lz4Frame, CompressionCodec::Zstd] {
        let session = reader
            .session(with_options(TableReadOptions {
                output_format_serialization_options: Some(
                    OutputFormatSerializationOptions::ArrowSerializationOptions(
                        ArrowSerializationOptions {
                            buffer_compression: codec.into(),
                            ..ArrowSerializationOptions::default()
                        },
                    ),
                ),
                ..TableReadOptions::default()
            }))
            .await;
        let messages = reader.read(&session.streams[0].name, 0).await;
        assert!(size(&messages) < size(&uncompressed) / 2, "{codec:?}");
        assert!(messages.iter().all(|m| m.uncompressed_byte_size.is_none()));
        assert_eq!(reader.numbers(&session).await.len(), 50_000);
    }
    let session = reader
        .session(with_options(TableReadOptions {
            response_compression_codec: Some(ResponseCompressionCodec::Lz4.into()),
            ..TableReadOptions::default()
        }))
        .await;
    let mut rows = 0;
    for message in reader.read(&session.streams[0].name, 0).await {
        let n = usize::try_from(message.uncompressed_byte_size.unwrap()).unwrap();
        let bytes = lz4_flex::block::decompress(&payload(&message), n).unwrap();
        assert_eq!(bytes.len(), n);
        rows += batch_of(&session, &bytes).num_rows();
    }
    assert_eq!(rows, 50_000);
}

#[tokio::test]
async fn a_response_that_compression_would_not_shrink_is_sent_as_it_is() {
    let (local, reader) = start(64 << 20).await;
    local.table(json!([{"name": "b", "type": "BYTES"}])).await;
    // Bytes without repetition.
    let mut state = 1u64;
    let noise: Vec<u8> = (0..1 << 20)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    append(
        &local,
        vec![Arc::new(arrow::array::BinaryArray::from(vec![
            noise.as_slice(),
        ]))],
        None,
    );
    let session = reader
        .session(with_options(TableReadOptions {
            response_compression_codec: Some(ResponseCompressionCodec::Lz4.into()),
            ..TableReadOptions::default()
        }))
        .await;
    let messages = reader.read(&session.streams[0].name, 0).await;
    assert_eq!(messages[0].uncompressed_byte_size, Some(-1));
    let rows = batch(&session, &messages[0]);
    assert_eq!(rows.column(0).as_binary::<i32>().value(0), noise);
}

#[tokio::test]
async fn six_hours_and_not_a_second_more() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[3]).await;
    let session = reader.session(request()).await;
    let stream = &session.streams[0].name;
    let clock = local.server.service().read.clock();
    clock.advance(Duration::from_secs(6 * 3600 - 60));
    assert_eq!(reader.numbers(&session).await, [0, 1, 2]);
    clock.advance(Duration::from_secs(61));
    let error = reader.try_read(stream, 0).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::FailedPrecondition);
    let message = error.message();
    let start = format!("there was an error operating on '{stream}': session expired at 20");
    assert!(message.starts_with(&start), "{message}");
    assert!(message.ends_with("+00:00"), "{message}");
    clock.advance(Duration::from_secs(48 * 3600));
    // A session is forgotten a day after its end.
    local.server.service().read.forget_expired();
    let error = reader.try_read(stream, 0).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::NotFound);
}
