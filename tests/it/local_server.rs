//! An embedded BigQuery with the flights data, loaded through its public API.

use std::path::PathBuf;

use bigquery_local::{LocalBigQuery, LocalOptions};
use datafusion_bigquery::client::Client;
use datafusion_bigquery::options::{Options, RawOptions};
use serde_json::{Value, json};

/// The project of the data.
pub const PROJECT: &str = "demo";

/// A running server.
pub struct Local {
    pub server: LocalBigQuery,
}

impl Local {
    /// An empty server that cuts tables into streams of about so many bytes.
    pub async fn start(stream_bytes: usize) -> Self {
        let options = LocalOptions {
            project: PROJECT.into(),
            stream_bytes,
            ..LocalOptions::default()
        };
        Local {
            server: LocalBigQuery::start(options).await.unwrap(),
        }
    }

    /// A client of the server.
    pub fn client(&self) -> Client {
        let rest = self.server.rest_endpoint();
        let grpc = self.server.grpc_endpoint();
        let raw = RawOptions::from_pairs([
            ("rest_endpoint", rest.as_str()),
            ("grpc_endpoint", grpc.as_str()),
        ])
        .unwrap();
        Client::new(&Options::resolve(&raw).unwrap().connection).unwrap()
    }

    /// Sends JSON to a path of the REST interface.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!(
            "{}/bigquery/v2/projects/{PROJECT}/{path}",
            self.server.rest_endpoint()
        );
        let response = reqwest::Client::new()
            .post(url)
            .json(body)
            .send()
            .await
            .unwrap();
        let status = response.status();
        let answer: Value = response.json().await.unwrap();
        assert!(status.is_success(), "{path}: {answer}");
        answer
    }

    /// Makes a dataset.
    pub async fn create_dataset(&self, dataset: &str) {
        let reference = json!({"projectId": PROJECT, "datasetId": dataset});
        self.post("datasets", &json!({"datasetReference": reference}))
            .await;
    }

    /// Makes a table with these columns.
    pub async fn create_table(&self, dataset: &str, table: &str, fields: Value) {
        let reference = json!({"projectId": PROJECT, "datasetId": dataset, "tableId": table});
        self.post(
            &format!("datasets/{dataset}/tables"),
            &json!({"tableReference": reference, "schema": {"fields": fields}}),
        )
        .await;
    }

    /// Streams rows into a table.
    pub async fn insert(&self, dataset: &str, table: &str, rows: &[Value]) {
        let rows: Vec<Value> = rows.iter().map(|row| json!({"json": row})).collect();
        let answer = self
            .post(
                &format!("datasets/{dataset}/tables/{table}/insertAll"),
                &json!({"rows": rows}),
            )
            .await;
        assert_eq!(answer.get("insertErrors"), None, "{answer}");
    }

    /// Loads one of the flights tables from its Parquet file.
    pub async fn load_flights_table(&self, dataset: &str, table: &str) {
        let job = json!({"configuration": {"load": {
            "destinationTable": {"projectId": PROJECT, "datasetId": dataset, "tableId": table},
            "sourceFormat": "PARQUET",
        }}});
        let mut body = format!(
            "--boundary\r\nContent-Type: application/json\r\n\r\n{job}\r\n\
             --boundary\r\nContent-Type: */*\r\n\r\n"
        )
        .into_bytes();
        body.extend(std::fs::read(parquet_file(table)).unwrap());
        body.extend(b"\r\n--boundary--\r\n");
        let answer: Value = reqwest::Client::new()
            .post(format!(
                "{}/upload/bigquery/v2/projects/{PROJECT}/jobs?uploadType=multipart",
                self.server.rest_endpoint()
            ))
            .header("content-type", "multipart/related; boundary=boundary")
            .body(body)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        assert_eq!(answer["status"]["state"], "DONE", "{answer}");
        assert_eq!(answer["status"].get("errorResult"), None, "{answer}");
    }
}

/// The Parquet file of one of the flights tables.
pub fn parquet_file(table: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("examples/data/{table}.parquet"))
}
