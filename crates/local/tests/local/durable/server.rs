//! The server as a process that can be killed, and changes sent to it.

use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};

use crate::process::{ANY_PORTS, complaints, program, ready};
use crate::uploads::{MULTIPART, multipart_body};

/// A running server.
pub(super) struct Running {
    child: Child,
    pub(super) calls: Calls,
    /// Of the Storage API, and of Cloud Storage.
    pub(super) grpc: String,
    pub(super) storage: String,
}

impl Running {
    /// Starts a server and waits until it serves.
    pub(super) fn start(data: &Path) -> Self {
        let mut child = spawn(data);
        let endpoints = ready(&mut child);
        let endpoint = |name: &str| endpoints[name].as_str().unwrap().to_string();
        Self {
            child,
            grpc: endpoint("grpc"),
            storage: endpoint("storage"),
            calls: Calls {
                rest: endpoints["rest"].as_str().unwrap().to_string(),
                client: Client::new(),
                dying: Arc::default(),
            },
        }
    }

    /// SIGKILL: nothing of the program runs after this.
    pub(super) fn kill(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.calls.dying.store(true, Ordering::SeqCst);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let complaints = complaints(&mut self.child);
        if !std::thread::panicking() {
            assert!(!complaints.contains("panicked at"), "{complaints}");
        }
    }
}

/// Starts the program without waiting for it.
pub(super) fn spawn(data: &Path) -> Child {
    program(&ANY_PORTS).arg("--data").arg(data).spawn().unwrap()
}

/// Calls of a server that may be killed meanwhile.
#[derive(Clone)]
pub(super) struct Calls {
    rest: String,
    client: Client,
    /// Set before the server is killed: until then every call must succeed.
    dying: Arc<AtomicBool>,
}

impl Calls {
    fn url(&self, path: &str) -> String {
        format!("{}/projects/p/{path}", self.rest)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(self.url(path)).json(body)
    }

    pub(super) fn patch(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.patch(self.url(path)).json(body)
    }

    /// A statement through jobs.query.
    pub(super) fn query(&self, sql: &str) -> RequestBuilder {
        let body = json!({"query": sql, "useLegacySql": false, "useQueryCache": false,
            "timeoutMs": 60_000});
        self.post("queries", &body)
    }

    /// A statement as a job with a name of the client's.
    pub(super) fn named_query(&self, sql: &str, job: &str) -> RequestBuilder {
        let query = json!({"query": sql, "useLegacySql": false, "useQueryCache": false});
        let body = json!({"jobReference": {"projectId": "p", "jobId": job},
            "configuration": {"query": query}});
        self.post("jobs", &body)
    }

    /// A load job with its file, under a name of the client's if there is one.
    pub(super) fn load(
        &self,
        (dataset, table): (&str, &str),
        load: Value,
        data: &[u8],
        name: Option<&str>,
    ) -> RequestBuilder {
        let mut configuration = json!({
            "destinationTable": {"projectId": "p", "datasetId": dataset, "tableId": table}});
        let own = load.as_object().unwrap().clone();
        configuration.as_object_mut().unwrap().extend(own);
        let mut job = json!({"configuration": {"load": configuration}});
        if let Some(name) = name {
            job["jobReference"] = json!({"projectId": "p", "jobId": name});
        }
        let url = format!(
            "{}/upload/bigquery/v2/projects/p/jobs?uploadType=multipart",
            self.rest
        );
        self.client
            .post(url)
            .header("Content-Type", MULTIPART)
            .body(multipart_body(&job, data))
    }

    /// Sends a change and waits until it is acknowledged: of a job, until it is
    /// done. `None` when the server was killed before.
    pub(super) async fn change(&self, request: RequestBuilder) -> Option<Value> {
        let mut answer = self.answer(request).await?;
        loop {
            let failed = &answer["status"]["errorResult"];
            assert!(failed.is_null(), "{answer}");
            assert!(answer["insertErrors"].is_null(), "{answer}");
            let running = answer["jobComplete"] == false
                || answer["status"]["state"]
                    .as_str()
                    .is_some_and(|state| state != "DONE");
            if !running {
                return Some(answer);
            }
            let id = answer["jobReference"]["jobId"].as_str().unwrap();
            let request = self.client.get(self.url(&format!("jobs/{id}")));
            answer = self.answer(request).await?;
        }
    }

    /// Sends a request that started a job with a name again, to the server that runs
    /// now, and answers whether the name was taken.
    pub(super) async fn is_taken(&self, request: RequestBuilder) -> bool {
        let mut request = request.build().unwrap();
        let now = Url::parse(&self.rest).unwrap();
        request.url_mut().set_port(now.port()).unwrap();
        let response = self.client.execute(request).await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        match status {
            StatusCode::CONFLICT => true,
            StatusCode::OK => false,
            _ => panic!("{status}: {text}"),
        }
    }

    /// Waits until a job is done, and answers its resource.
    pub(super) async fn done(&self, job: &str) -> Value {
        loop {
            let found = self.get(&format!("jobs/{job}")).await;
            let found = found.unwrap_or_else(|| panic!("there is no job {job}"));
            if found["status"]["state"] == "DONE" {
                return found;
            }
        }
    }

    async fn answer(&self, request: RequestBuilder) -> Option<Value> {
        let sent = async {
            let response = request.send().await?;
            Ok((response.status(), response.text().await?))
        };
        let answer: reqwest::Result<(StatusCode, String)> = sent.await;
        match answer {
            Ok((status, text)) => {
                assert!(status.is_success(), "{status}: {text}");
                Some(serde_json::from_str(if text.is_empty() { "null" } else { &text }).unwrap())
            }
            Err(e) => {
                assert!(self.dying.load(Ordering::SeqCst), "before the kill: {e}");
                None
            }
        }
    }

    /// A resource, `None` when it is not there.
    pub(super) async fn get(&self, path: &str) -> Option<Value> {
        let response = self.client.get(self.url(path)).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        if status == StatusCode::NOT_FOUND {
            return None;
        }
        assert!(status.is_success(), "{status}: {text}");
        Some(serde_json::from_str(&text).unwrap())
    }

    /// The rows of a query whose columns are all integers.
    pub(super) async fn integers(&self, sql: &str) -> Vec<Vec<i64>> {
        let answer = self.change(self.query(sql)).await.unwrap();
        assert!(answer["pageToken"].is_null(), "more than one page: {sql}");
        let integer = |cell: &Value| cell["v"].as_str().unwrap().parse().unwrap();
        let rows = answer["rows"].as_array();
        rows.into_iter()
            .flatten()
            .map(|row| row["f"].as_array().unwrap().iter().map(integer).collect())
            .collect()
    }
}
