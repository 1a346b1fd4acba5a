//! The `nycflights13` tables: every flight that left New York City in 2013, with
//! its carriers, aircraft, airports and weather (367,687 rows).
//!
//! The Parquet files are part of the program, so that `dfbq --demo` needs
//! neither a checkout nor a network. They are loaded the way any client loads
//! files into BigQuery: a multipart upload per table, each a load job.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// Project of the demo's tables.
pub const PROJECT: &str = "demo";
/// Dataset of the demo's tables.
pub const DATASET: &str = "nycflights13";

/// Bucket of the demo, for files of load jobs.
pub const BUCKET: &str = "staging";

/// A table of the demo and the Parquet file it is loaded from.
#[derive(Debug, Clone, Copy)]
pub struct DemoTable {
    /// Name of the table.
    pub name: &'static str,
    /// The whole file.
    pub parquet: &'static [u8],
}

macro_rules! tables {
    ($($name:literal),*) => {
        [$(DemoTable {
            name: $name,
            parquet: include_bytes!(concat!("../../../examples/data/", $name, ".parquet")),
        }),*]
    };
}

/// The five tables.
pub const TABLES: [DemoTable; 5] = tables!("airlines", "airports", "flights", "planes", "weather");

/// Why the tables could not be loaded.
#[derive(Debug)]
pub struct LoadError(String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

/// Creates dataset [`DATASET`] in `project` at the BigQuery whose REST endpoint is
/// `rest_endpoint`, and loads [`TABLES`] into it. A table that is there already is
/// replaced. No credentials are sent, so this is for local servers.
///
/// # Errors
/// The server cannot be reached, refuses a request, or a load job fails; the
/// message names the table.
pub async fn load(rest_endpoint: &str, project: &str) -> Result<(), LoadError> {
    let client = Client {
        http: reqwest::Client::new(),
        base: rest_endpoint.trim_end_matches('/').to_string(),
        project: project.to_string(),
    };
    client.create_dataset().await?;
    for table in TABLES {
        client
            .load(table)
            .await
            .map_err(|error| LoadError(format!("cannot load table {}: {error}", table.name)))?;
    }
    Ok(())
}

/// Creates bucket [`BUCKET`] at the Cloud Storage whose endpoint is
/// `storage_endpoint`, unless it is there.
///
/// # Errors
/// The server cannot be reached or refuses the request.
pub async fn make_bucket(storage_endpoint: &str, project: &str) -> Result<(), LoadError> {
    let client = Client {
        http: reqwest::Client::new(),
        base: storage_endpoint.trim_end_matches('/').to_string(),
        project: project.to_string(),
    };
    let url = format!("{}/storage/v1/b?project={project}", client.base);
    client.create(url, json!({"name": BUCKET})).await
}

struct Client {
    http: reqwest::Client,
    base: String,
    project: String,
}

impl Client {
    async fn create_dataset(&self) -> Result<(), LoadError> {
        let url = format!(
            "{}/bigquery/v2/projects/{}/datasets",
            self.base, self.project
        );
        let body = json!({"datasetReference": {"projectId": self.project, "datasetId": DATASET}});
        self.create(url, body).await
    }

    /// Makes what `body` says, unless it is there.
    async fn create(&self, url: String, body: Value) -> Result<(), LoadError> {
        let request = self
            .http
            .post(url)
            .header("content-type", "application/json")
            .body(body.to_string());
        match self.send(request).await {
            Err(Failure::Status(409, _)) => Ok(()),
            other => other.map(drop).map_err(|failure| failure.into_error()),
        }
    }

    async fn load(&self, table: DemoTable) -> Result<(), LoadError> {
        let job = json!({
            "configuration": {"load": {
                "destinationTable": {
                    "projectId": self.project,
                    "datasetId": DATASET,
                    "tableId": table.name,
                },
                "sourceFormat": "PARQUET",
                "writeDisposition": "WRITE_TRUNCATE",
            }}
        });
        let url = format!(
            "{}/upload/bigquery/v2/projects/{}/jobs?uploadType=multipart",
            self.base, self.project
        );
        let request = self
            .http
            .post(url)
            .header(
                "content-type",
                format!("multipart/related; boundary={BOUNDARY}"),
            )
            .body(multipart(&job, table.parquet));
        let mut job = self.send(request).await.map_err(Failure::into_error)?;
        while job["status"]["state"] != "DONE" {
            tokio::time::sleep(Duration::from_millis(20)).await;
            job = self.job(&job).await?;
        }
        match job["status"].get("errorResult") {
            Some(error) => Err(LoadError(message(error))),
            None => Ok(()),
        }
    }

    /// The job's present state.
    async fn job(&self, job: &Value) -> Result<Value, LoadError> {
        let reference = &job["jobReference"];
        let id = reference["jobId"]
            .as_str()
            .ok_or_else(|| LoadError("the server's answer names no job".to_string()))?;
        let mut request = self.http.get(format!(
            "{}/bigquery/v2/projects/{}/jobs/{id}",
            self.base, self.project
        ));
        if let Some(location) = reference["location"].as_str() {
            request = request.query(&[("location", location)]);
        }
        self.send(request).await.map_err(Failure::into_error)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Value, Failure> {
        let answer = request.send().await.map_err(Failure::transport)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(Failure::transport)?;
        let value: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            Ok(value)
        } else {
            Err(Failure::Status(status.as_u16(), message(&value["error"])))
        }
    }
}

enum Failure {
    Transport(String),
    Status(u16, String),
}

impl Failure {
    fn transport(error: reqwest::Error) -> Self {
        Self::Transport(error.to_string())
    }

    fn into_error(self) -> LoadError {
        LoadError(match self {
            Self::Transport(message) => message,
            Self::Status(status, message) => format!("HTTP {status}: {message}"),
        })
    }
}

fn message(error: &Value) -> String {
    error["message"]
        .as_str()
        .unwrap_or("the server gave no reason")
        .to_string()
}

/// Between the parts of an upload; a test makes sure that no file contains it.
const BOUNDARY: &str = "nycflights13-part-5f0c2d";

/// The `multipart/related` body of a load job and its file.
fn multipart(job: &Value, file: &[u8]) -> Vec<u8> {
    let job = job.to_string();
    let mut body = Vec::with_capacity(file.len() + job.len() + 256);
    body.extend_from_slice(
        format!(
            "--{BOUNDARY}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{job}\r\n\
             --{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\r\n"
        )
        .as_bytes(),
    );
    body.extend_from_slice(file);
    body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_parquet_files_without_the_boundary() {
        let boundary = BOUNDARY.as_bytes();
        for table in TABLES {
            assert!(table.parquet.starts_with(b"PAR1"), "{}", table.name);
            assert!(table.parquet.ends_with(b"PAR1"), "{}", table.name);
            assert!(
                !table
                    .parquet
                    .windows(boundary.len())
                    .any(|bytes| bytes == boundary),
                "{}",
                table.name
            );
        }
    }

    #[test]
    fn an_upload_has_two_parts_and_an_end() {
        let body = multipart(&json!({"a": 1}), b"PAR1");
        assert_eq!(
            String::from_utf8(body).expect("ASCII"),
            "--nycflights13-part-5f0c2d\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n\
             {\"a\":1}\r\n\
             --nycflights13-part-5f0c2d\r\nContent-Type: application/octet-stream\r\n\r\n\
             PAR1\r\n\
             --nycflights13-part-5f0c2d--\r\n"
        );
    }
}
