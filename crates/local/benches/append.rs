//! How fast a bare gRPC client can append protobuf rows: requests that were encoded
//! before, many in flight, nothing but sending.
//!
//! ```sh
//! cargo bench -p bigquery-local --bench append
//! ```

use std::io::Write;
use std::time::Instant;

use bigquery_local::{LocalBigQuery, LocalOptions};
use bytes::Bytes;
use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use api::append_rows_request::{ProtoData, Rows};
use api::append_rows_response::Response;
use api::big_query_write_client::BigQueryWriteClient;
use api::{AppendRowsRequest, ProtoRows, ProtoSchema};

/// Rows as of the TPC-H table `lineitem`: columns, their protobuf and table types.
const COLUMNS: [(&str, Type, &str); 10] = [
    ("orderkey", Type::Int64, "INTEGER"),
    ("partkey", Type::Int64, "INTEGER"),
    ("quantity", Type::Double, "FLOAT"),
    ("extendedprice", Type::Double, "FLOAT"),
    ("tax", Type::Bytes, "NUMERIC"),
    ("returnflag", Type::String, "STRING"),
    ("shipdate", Type::Int32, "DATE"),
    ("receipt", Type::Int64, "TIMESTAMP"),
    ("shipmode", Type::String, "STRING"),
    ("comment", Type::String, "STRING"),
];
const ROWS: u32 = 8_000;
const REQUESTS: usize = 400;

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("seven bits"));
}

fn row(i: u32) -> Bytes {
    let mut out = Vec::new();
    let n = u64::from(i);
    for (number, value) in [(1, n * 7_919), (2, n * 104_729), (7, 10_000 + n % 2_000)] {
        varint(number << 3, &mut out);
        varint(value, &mut out);
    }
    for (number, value) in [(3, 1.5), (4, 20_000.25)] {
        varint(number << 3 | 1, &mut out);
        out.extend_from_slice(&f64::to_le_bytes(value));
    }
    varint(8 << 3, &mut out);
    varint(1_700_000_000_000_000 + n, &mut out);
    let comment = "carefully final deposits sleep across the";
    for (number, text) in [
        (5, &[0x00, 0xe1, 0xf5, 0x05][..]),
        (6, b"N"),
        (9, b"TRUCK"),
        (10, comment.as_bytes()),
    ] {
        varint(number << 3 | 2, &mut out);
        varint(text.len() as u64, &mut out);
        out.extend_from_slice(text);
    }
    out.into()
}

async fn post(url: String, body: serde_json::Value) {
    let answer = reqwest::Client::new().post(url).json(&body).send().await;
    assert!(answer.expect("the server answers").status().is_success());
}

#[tokio::main]
async fn main() {
    let server = LocalBigQuery::start(LocalOptions::default())
        .await
        .expect("loopback ports are free");
    let project = format!("{}/projects/local", server.rest_endpoint());
    let dataset = json!({"datasetReference": {"datasetId": "d"}});
    post(format!("{project}/datasets"), dataset).await;
    let fields = COLUMNS.map(|(name, _, kind)| json!({"name": name, "type": kind}));
    let table = json!({"tableReference": {"tableId": "t"}, "schema": {"fields": fields}});
    post(format!("{project}/datasets/d/tables"), table).await;

    let fields = (1..)
        .zip(COLUMNS)
        .map(|(number, (name, kind, _))| FieldDescriptorProto {
            name: Some(name.into()),
            number: Some(number),
            label: Some(Label::Optional.into()),
            r#type: Some(kind.into()),
            ..FieldDescriptorProto::default()
        });
    let schema = ProtoSchema {
        proto_descriptor: Some(DescriptorProto {
            name: Some("Row".into()),
            field: fields.collect(),
            ..DescriptorProto::default()
        }),
    };
    let rows: Vec<Bytes> = (0..ROWS).map(row).collect();
    let bytes: usize = rows.iter().map(Bytes::len).sum();
    let request = |first: bool| AppendRowsRequest {
        write_stream: "projects/local/datasets/d/tables/t/streams/_default".into(),
        rows: Some(Rows::ProtoRows(ProtoData {
            writer_schema: first.then(|| schema.clone()),
            rows: Some(ProtoRows {
                serialized_rows: rows.clone(),
            }),
        })),
        ..AppendRowsRequest::default()
    };
    let channel = tonic::transport::Channel::from_shared(server.grpc_endpoint())
        .expect("the endpoint is a URI")
        .connect()
        .await
        .expect("the server listens");
    let mut client = BigQueryWriteClient::new(channel);
    let (sender, receiver) = mpsc::channel(8);
    let requests: Vec<_> = (0..REQUESTS).map(|i| request(i == 0)).collect();
    let began = Instant::now();
    tokio::spawn(async move {
        for request in requests {
            if sender.send(request).await.is_err() {
                return;
            }
        }
    });
    let mut answers = client
        .append_rows(ReceiverStream::new(receiver))
        .await
        .expect("the call begins")
        .into_inner();
    let mut done = 0;
    while let Some(answer) = answers.message().await.expect("the call goes on") {
        assert!(matches!(answer.response, Some(Response::AppendResult(_))));
        done += 1;
    }
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(done, REQUESTS);
    let per_second = |n: usize| f64::from(u32::try_from(n).expect("few enough")) / seconds;
    let mut out = std::io::stdout();
    // Standard output may be closed; there is nowhere else to say it.
    let _ = writeln!(
        out,
        "{REQUESTS} requests of {ROWS} rows and {bytes} bytes: {:.0} MB/s, {:.0} rows/s",
        per_second(bytes * REQUESTS) / 1e6,
        per_second(rows.len() * REQUESTS),
    );
    server.shutdown().await;
}
