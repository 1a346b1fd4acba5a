//! A service in memory with one dataset and one table with a column of every type.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::engine::QueryRequest;
use crate::jobs::JobState;
use crate::rest;
use crate::schema::TableSchema;
use crate::server::{LocalOptions, Service};
use crate::store::{DatasetRef, Store, StoreOptions};

pub(super) const PROJECT: &str = "local";

/// How often an unfinished job is looked at.
const POLL: std::time::Duration = std::time::Duration::from_millis(1);

/// A column of every type.
pub(super) fn schema() -> TableSchema {
    serde_json::from_value(fields()).expect("the schema is valid")
}

pub(super) fn fields() -> Value {
    json!({"fields": [
        {"name": "i", "type": "INTEGER"},
        {"name": "f", "type": "FLOAT"},
        {"name": "b", "type": "BOOLEAN"},
        {"name": "s", "type": "STRING"},
        {"name": "ci", "type": "STRING", "collation": "und:ci"},
        {"name": "y", "type": "BYTES"},
        {"name": "n", "type": "NUMERIC"},
        {"name": "bn", "type": "BIGNUMERIC"},
        {"name": "d", "type": "DATE"},
        {"name": "t", "type": "TIME"},
        {"name": "dt", "type": "DATETIME"},
        {"name": "ts", "type": "TIMESTAMP"},
        {"name": "j", "type": "JSON"},
        {"name": "g", "type": "GEOGRAPHY"},
        {"name": "iv", "type": "INTERVAL"},
        {"name": "r", "type": "RANGE", "rangeElementType": {"type": "DATE"}},
        {"name": "st", "type": "RECORD", "fields": [
            {"name": "x", "type": "INTEGER"},
            {"name": "a", "type": "STRING", "mode": "REPEATED"}]},
        {"name": "a", "type": "INTEGER", "mode": "REPEATED"}
    ]})
}

/// Ordinary values, values at the edges, and NULL.
pub(super) fn rows() -> Vec<Value> {
    vec![
        json!({
            "i": 1, "f": 1.5, "b": true, "s": "abc", "ci": "Straße", "y": "AP8=",
            "n": "1.5", "bn": "1.5", "d": "2024-02-29", "t": "12:34:56.789",
            "dt": "2024-02-29 12:34:56.789", "ts": "2024-02-29 12:34:56.789 UTC",
            "j": "{\"a\": [1, \"x\"]}", "g": "POINT(1 2)", "iv": "1-2 3 4:5:6",
            "r": "[2024-01-01, 2024-12-31)", "st": {"x": 7, "a": ["q"]}, "a": [1, 2]
        }),
        json!({
            "i": i64::MIN, "f": "NaN", "b": false, "s": "50%_\\\n'\"é", "ci": "STRASSE",
            "y": "", "n": "-99999999999999999999999999999.999999999",
            "bn": "578960446186580977117854925043439539266.34992332820282019728792003956564819967",
            "d": "0001-01-01", "t": "00:00:00", "dt": "0001-01-01 00:00:00",
            "ts": "9999-12-31 23:59:59.999999 UTC", "j": "null", "g": "POINT(0 0)",
            "iv": "0-0 0 -0:0:0.5", "r": "[UNBOUNDED, 2024-01-01)", "a": []
        }),
        json!({}),
    ]
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) service: Arc<Service>,
    rest: rest::App,
}

impl World {
    /// A service with dataset `d`.
    pub(super) async fn with_dataset() -> Self {
        let options = LocalOptions::default();
        let service = Arc::new(Service::new(
            Store::in_memory(StoreOptions::default()),
            options,
        ));
        let rest = rest::app(&service);
        let world = Self { service, rest };
        world
            .post(
                "datasets",
                &json!({"datasetReference": {"projectId": PROJECT, "datasetId": "d"}}),
            )
            .await;
        world
    }

    /// A service with table `d.t` and its rows.
    pub(super) async fn with_table() -> Self {
        let world = Self::with_dataset().await;
        let reference = json!({"projectId": PROJECT, "datasetId": "d", "tableId": "t"});
        world
            .post(
                "datasets/d/tables",
                &json!({"tableReference": reference, "schema": fields()}),
            )
            .await;
        let rows: Vec<Value> = rows().into_iter().map(|row| json!({"json": row})).collect();
        let answer = world
            .post("datasets/d/tables/t/insertAll", &json!({"rows": rows}))
            .await;
        assert!(answer.get("insertErrors").is_none(), "{answer}");
        world
    }

    /// A request that must succeed.
    async fn post(&self, path: &str, body: &Value) -> Value {
        let request = Request::post(format!("/bigquery/v2/projects/{PROJECT}/{path}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .expect("the request is valid");
        let (status, answer) = self.call(request).await;
        assert!(status.is_success(), "{path}: {status}");
        serde_json::from_slice(&answer).expect("answers are JSON")
    }

    /// Any request; answers once the jobs that it started are over.
    pub(super) async fn call(&self, request: Request<Body>) -> (StatusCode, Vec<u8>) {
        let Ok(response) = self.rest.clone().oneshot(request).await;
        let status = response.status();
        let body = response.into_body().collect().await;
        self.settle().await;
        let body = body.expect("a body in memory arrives").to_bytes();
        (status, body.to_vec())
    }

    async fn settle(&self) {
        let jobs = self.service.jobs.registry.of_project(PROJECT);
        for job in jobs {
            while job.state() != JobState::Done {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    pub(super) fn query(&self, sql: &str) -> QueryRequest {
        QueryRequest {
            project: PROJECT.into(),
            default_dataset: Some(DatasetRef::new(PROJECT, "d")),
            sql: sql.into(),
            parameters: Vec::new(),
            dry_run: false,
            location: "US".into(),
            cancel: tokio_util::sync::CancellationToken::new(),
            applying: None,
        }
    }
}
