//! A server of its own for each test, and short calls to it.

use bigquery_local::{LocalBigQuery, LocalOptions};
use reqwest::{Client, Method};
use serde_json::{Value, json};

/// The project of every test.
pub(crate) const PROJECT: &str = "local";

/// A running server and a client of it.
pub(crate) struct Local {
    pub(crate) server: LocalBigQuery,
    pub(crate) client: Client,
}

/// What a call answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) etag: Option<String>,
}

impl Answer {
    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.status < 300, "{} {}", self.status, self.body);
        self.body
    }

    /// The message of an error, which must have this status and reason and the
    /// whole envelope.
    #[track_caller]
    pub(crate) fn error(self, status: u16, reason: &str) -> String {
        assert_eq!(self.status, status, "{}", self.body);
        let error = &self.body["error"];
        assert_eq!(error["code"], status, "{}", self.body);
        assert_eq!(error["errors"][0]["reason"], reason, "{}", self.body);
        assert_eq!(error["errors"][0]["domain"], "global", "{}", self.body);
        assert_eq!(error["errors"][0]["message"], error["message"]);
        assert!(error["status"].is_string(), "{}", self.body);
        error["message"].as_str().expect("a message").to_string()
    }
}

impl Local {
    /// Starts a server.
    pub(crate) async fn start() -> Self {
        Self {
            server: LocalBigQuery::start(LocalOptions::default())
                .await
                .expect("loopback ports are free"),
            client: Client::new(),
        }
    }

    /// Starts a server with dataset `d`.
    pub(crate) async fn with_dataset() -> Self {
        let local = Self::start().await;
        local
            .post(
                "datasets",
                json!({"datasetReference": {"projectId": PROJECT, "datasetId": "d"}}),
            )
            .await
            .ok();
        local
    }

    /// The URL of a path below the project.
    pub(crate) fn url(&self, path: &str) -> String {
        format!(
            "{}/bigquery/v2/projects/{PROJECT}/{path}",
            self.server.rest_endpoint()
        )
    }

    /// Any request with JSON.
    pub(crate) async fn call(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        let mut request = self.client.request(method, url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.expect("the server answers");
        let status = response.status().as_u16();
        let etag = response
            .headers()
            .get("etag")
            .map(|v| v.to_str().expect("an etag is text").to_string());
        let text = response.text().await.expect("the body arrives");
        let body = if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
        };
        Answer { status, body, etag }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, &self.url(path), &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, &self.url(path), &[], Some(body))
            .await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PATCH, &self.url(path), &[], Some(body))
            .await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PUT, &self.url(path), &[], Some(body))
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, &self.url(path), &[], None).await
    }

    /// Makes table `d.t` with these columns.
    pub(crate) async fn table(&self, fields: Value) -> Value {
        self.table_with(json!({"schema": {"fields": fields}})).await
    }

    /// Makes table `d.t` of a resource that lacks only its name.
    pub(crate) async fn table_with(&self, mut resource: Value) -> Value {
        resource["tableReference"] =
            json!({"projectId": PROJECT, "datasetId": "d", "tableId": "t"});
        self.post("datasets/d/tables", resource).await.ok()
    }

    /// Streams rows into `d.t`; all must be taken.
    pub(crate) async fn insert(&self, rows: &[Value]) {
        let rows: Vec<Value> = rows.iter().map(|row| json!({"json": row})).collect();
        let answer = self
            .post("datasets/d/tables/t/insertAll", json!({"rows": rows}))
            .await
            .ok();
        assert_eq!(answer["insertErrors"], Value::Null, "{answer}");
    }

    /// The values in the first column of `d.t` as text.
    pub(crate) async fn first_column(&self, path: &str) -> Vec<String> {
        let answer = self.get(path).await.ok();
        answer["rows"]
            .as_array()
            .map(|rows| {
                rows.iter()
                    .map(|row| row["f"][0]["v"].as_str().unwrap_or("NULL").to_string())
                    .collect()
            })
            .unwrap_or_default()
    }
}
