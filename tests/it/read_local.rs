//! The client against the embedded BigQuery: two programs written from the
//! same document, by different hands, over real sockets.

use std::collections::HashMap;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Int64Type, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::client::Client;
use datafusion_bigquery::client::read::session::{ReadSession, ReadSessionRequest};
use datafusion_bigquery::client::read::stream::ReadStreamOptions;
use datafusion_bigquery::error::ErrorKind;
use datafusion_bigquery::options::{Compression, TimestampPrecision};
use datafusion_bigquery::types::{DatasetRef, TableRef, arrow::table_schema};
use datafusion_bigquery::{RawOptions, with_bigquery};
use futures::StreamExt;
use serde_json::json;

use super::harness::{PROJECT, Server, refused};

fn table(name: &str) -> TableRef {
    TableRef::new(PROJECT, "nycflights13", name).unwrap()
}

async fn flights(stream_bytes: usize, table: &str) -> Server {
    let server = Server::start(stream_bytes).await;
    server.create_dataset("nycflights13").await;
    server.load_parquet("nycflights13", table).await;
    server
}

/// Every batch of every stream, the streams side by side.
async fn read_session(client: &Client, session: &ReadSession) -> Vec<RecordBatch> {
    let streams = session.streams().iter().map(|name| {
        client
            .read_stream(session, name, 0, ReadStreamOptions::default())
            .map(|item| item.unwrap().batch)
            .collect::<Vec<_>>()
    });
    futures::future::join_all(streams).await.concat()
}

/// The rows in an order of their own, as bytes that are equal where the values
/// are.
fn sorted_rows(batch: &RecordBatch) -> Vec<Vec<u8>> {
    let fields = batch
        .columns()
        .iter()
        .map(|column| SortField::new(column.data_type().clone()))
        .collect();
    let converter = RowConverter::new(fields).unwrap();
    let rows = converter.convert_columns(batch.columns()).unwrap();
    let mut rows: Vec<Vec<u8>> = rows.iter().map(|row| row.as_ref().to_vec()).collect();
    rows.sort_unstable();
    rows
}

#[tokio::test]
async fn every_compression_gives_the_same_rows() {
    let server = flights(1 << 20, "weather").await;
    let client = server.client();
    let mut wire = Vec::new();
    let mut first: Option<Vec<Vec<u8>>> = None;
    for compression in [
        Compression::None,
        Compression::Lz4,
        Compression::Zstd,
        Compression::Lz4Response,
    ] {
        let request = ReadSessionRequest {
            compression,
            ..ReadSessionRequest::new(table("weather"))
        };
        let session = client.create_read_session(&request).await.unwrap();
        let options = ReadStreamOptions::default();
        let mut batches = Vec::new();
        for name in session.streams() {
            let mut stream = client.read_stream(&session, name, 0, options.clone());
            while let Some(batch) = stream.next().await {
                batches.push(batch.unwrap().batch);
            }
        }
        wire.push(options.counters.wire_bytes());
        let read = concat_batches(session.schema(), &batches).unwrap();
        let rows = sorted_rows(&read);
        match &first {
            None => first = Some(rows),
            Some(first) => assert!(*first == rows, "{compression:?} differs"),
        }
    }
    for compressed in &wire[1..] {
        assert!(*compressed < wire[0], "{wire:?}");
    }
}

#[tokio::test]
async fn a_stream_continues_at_any_row() {
    let server = flights(64 << 10, "airports").await;
    let client = server.client();
    let session = client
        .create_read_session(&ReadSessionRequest::new(table("airports")))
        .await
        .unwrap();
    assert!(session.streams().len() > 1, "{session:?}");
    for name in session.streams() {
        let whole = collect(&client, &session, name, 0).await;
        let rows = whole.num_rows();
        for offset in [1, rows / 2, rows - 1, rows] {
            let rest = collect(&client, &session, name, offset).await;
            assert_eq!(rest, whole.slice(offset, rows - offset), "from {offset}");
        }
        let mut beyond = client.read_stream(
            &session,
            name,
            u64::try_from(rows).unwrap() + 1,
            ReadStreamOptions::default(),
        );
        let error = beyond.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    }
}

async fn collect(client: &Client, session: &ReadSession, name: &str, from: usize) -> RecordBatch {
    let from = u64::try_from(from).unwrap();
    let mut stream = client.read_stream(session, name, from, ReadStreamOptions::default());
    let mut batches = Vec::new();
    let mut next = from;
    while let Some(item) = stream.next().await {
        let item = item.unwrap();
        assert_eq!(item.offset, next);
        next += u64::try_from(item.batch.num_rows()).unwrap();
        batches.push(item.batch);
    }
    concat_batches(session.schema(), &batches).unwrap()
}

/// What the catalog says of a table is what its sessions deliver.
#[tokio::test]
async fn schemas_of_tables_and_sessions_agree_for_every_type() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let scalar = |name: &str, kind: &str| json!({"name": name, "type": kind});
    let scalars = [
        "INT64",
        "FLOAT64",
        "BOOL",
        "STRING",
        "BYTES",
        "DATE",
        "TIME",
        "DATETIME",
        "TIMESTAMP",
        "NUMERIC",
        "BIGNUMERIC",
        "GEOGRAPHY",
        "JSON",
        "INTERVAL",
    ];
    let mut fields: Vec<_> = scalars
        .iter()
        .map(|kind| scalar(&format!("c_{kind}"), kind))
        .collect();
    for kind in scalars {
        fields.push(json!({"name": format!("r_{kind}"), "type": kind, "mode": "REPEATED"}));
        fields.push(json!({"name": format!("q_{kind}"), "type": kind, "mode": "REQUIRED"}));
    }
    for element in ["DATE", "DATETIME", "TIMESTAMP"] {
        fields.push(json!({
            "name": format!("range_{element}"),
            "type": "RANGE",
            "rangeElementType": {"type": element},
        }));
    }
    fields.extend([
        json!({"name": "n", "type": "NUMERIC", "precision": "10", "scale": "2"}),
        json!({"name": "b", "type": "BIGNUMERIC", "precision": "50", "scale": "20"}),
        json!({"name": "s", "type": "RECORD", "fields": [
            scalar("j", "JSON"),
            {"name": "deep", "type": "RECORD", "mode": "REPEATED", "fields": [
                {"name": "d", "type": "DATETIME", "mode": "REQUIRED"},
                {"name": "g", "type": "GEOGRAPHY", "mode": "REPEATED"},
            ]},
        ]}),
    ]);
    server
        .create_table("d", "types", json!(fields), vec![])
        .await;
    let client = server.client();
    let reference = TableRef::new(PROJECT, "d", "types").unwrap();
    let known = client.get_table(&reference).await.unwrap();
    let planned = table_schema(&known.schema, TimestampPrecision::Micros);
    assert_eq!(planned.fields().len(), fields.len());
    let session = client
        .create_read_session(&ReadSessionRequest::new(reference))
        .await
        .unwrap();
    for (planned, delivered) in planned.fields().iter().zip(session.schema().fields()) {
        assert_eq!(planned, delivered);
    }
    assert_eq!(
        &Schema::new(planned.fields().clone()),
        session.schema().as_ref()
    );
}

#[tokio::test]
async fn an_empty_table_has_a_schema_and_no_rows() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .create_table("d", "empty", json!([{"name": "j", "type": "JSON"}]), vec![])
        .await;
    let client = server.client();
    let session = client
        .create_read_session(&ReadSessionRequest::new(
            TableRef::new(PROJECT, "d", "empty").unwrap(),
        ))
        .await
        .unwrap();
    assert_eq!(session.schema().field(0).name(), "j");
    assert!(read_session(&client, &session).await.is_empty());
}

#[tokio::test]
async fn columns_arrive_in_the_tables_order_and_rows_as_restricted() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let rows = (0..10)
        .map(|n| json!({"a": n, "b": format!("row {n}"), "s": {"x": n * 2, "y": 0}}))
        .collect();
    let fields = json!([
        {"name": "a", "type": "INT64"},
        {"name": "b", "type": "STRING"},
        {"name": "s", "type": "RECORD", "fields": [
            {"name": "x", "type": "INT64"}, {"name": "y", "type": "INT64"},
        ]},
    ]);
    server.create_table("d", "t", fields, rows).await;
    let client = server.client();
    let request = ReadSessionRequest {
        selected_fields: vec!["s.x".into(), "a".into()],
        row_restriction: Some("a >= 7 OR b = 'row 1'".into()),
        ..ReadSessionRequest::new(TableRef::new(PROJECT, "d", "t").unwrap())
    };
    let session = client.create_read_session(&request).await.unwrap();
    let names: Vec<_> = session
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().as_str())
        .collect();
    assert_eq!(names, ["a", "s"]);
    let batches = read_session(&client, &session).await;
    let read = concat_batches(session.schema(), &batches).unwrap();
    let mut values: Vec<_> = read.column(0).as_primitive::<Int64Type>().values().to_vec();
    values.sort_unstable();
    assert_eq!(values, [1, 7, 8, 9]);
    assert_eq!(read.column(1).as_struct().column_names(), ["x"]);

    let nothing = ReadSessionRequest {
        row_restriction: Some("a < 0".into()),
        ..request
    };
    let session = client.create_read_session(&nothing).await.unwrap();
    assert!(read_session(&client, &session).await.is_empty());
}

#[tokio::test]
async fn what_does_not_exist_is_named() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .create_table("d", "t", json!([{"name": "a", "type": "INT64"}]), vec![])
        .await;
    let client = server.client();
    for name in ["demo.d.missing", "demo.missing.t", "missing.d.t"] {
        let reference: TableRef = name.parse().unwrap();
        let error = client.get_table(&reference).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        let error = client
            .create_read_session(&ReadSessionRequest::new(reference))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::PermissionDenied
            ),
            "{error}"
        );
        assert!(error.to_string().contains(name), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let dataset = DatasetRef::new(PROJECT, "missing").unwrap();
    let error = client.list_tables(&dataset).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("demo.missing"), "{error}");

    let t = TableRef::new(PROJECT, "d", "t").unwrap();
    for request in [
        ReadSessionRequest {
            selected_fields: vec!["nope".into()],
            ..ReadSessionRequest::new(t.clone())
        },
        ReadSessionRequest {
            row_restriction: Some("nope > 1".into()),
            ..ReadSessionRequest::new(t.clone())
        },
        ReadSessionRequest {
            row_restriction: Some("((".into()),
            ..ReadSessionRequest::new(t)
        },
    ] {
        let error = client.create_read_session(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("demo.d.t"), "{error}");
    }
}

#[tokio::test]
async fn datasets_and_tables_are_listed() {
    let server = flights(1 << 20, "airlines").await;
    let client = server.client();
    let datasets = client.list_datasets(PROJECT).await.unwrap();
    let names: Vec<_> = datasets
        .iter()
        .map(|item| item.reference.to_string())
        .collect();
    assert_eq!(names, ["demo.nycflights13"]);
    let dataset = DatasetRef::new(PROJECT, "nycflights13").unwrap();
    let tables = client.list_tables(&dataset).await.unwrap();
    let names: Vec<_> = tables
        .iter()
        .map(|item| item.reference.to_string())
        .collect();
    assert_eq!(names, ["demo.nycflights13.airlines"]);
    let airlines = client.get_table(&table("airlines")).await.unwrap();
    assert_eq!(airlines.num_rows, Some(16));
    assert!(airlines.etag.is_some() && airlines.location.is_some());
}

/// An endpoint in the place of another one answers, but not as it should.
#[tokio::test(flavor = "multi_thread")]
async fn swapped_endpoints_are_named_with_their_option() {
    let server = Server::with_dataset().await;
    server.query("CREATE TABLE d.t (n INT64)").await;
    let endpoints: HashMap<String, String> = server.endpoints().into_iter().collect();
    for (rest, grpc, wrong) in [
        ("grpc_endpoint", "rest_endpoint", "'rest_endpoint'"),
        ("rest_endpoint", "rest_endpoint", "'grpc_endpoint'"),
    ] {
        let options = RawOptions::from_pairs([
            ("project", PROJECT),
            ("rest_endpoint", &endpoints[rest]),
            ("grpc_endpoint", &endpoints[grpc]),
        ]);
        let builder = SessionStateBuilder::new_with_default_features();
        let state = with_bigquery(builder, options.unwrap()).unwrap().build();
        let context = SessionContext::new_with_state(state);
        for sql in ["SELECT * FROM bq.d.t", "INSERT INTO bq.d.t VALUES (1)"] {
            refused(&context, sql, &["demo.d.t", "check", "option", wrong]).await;
        }
    }
}
