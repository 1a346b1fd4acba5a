//! A REST server that does as a script says.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use datafusion_bigquery::client::Client;
use datafusion_bigquery::options::{Options, RawOptions};
use serde_json::Value;
use tokio::net::TcpListener;

/// An answer: its status, its headers and its body.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A JSON answer.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Answer {
            status,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        }
    }

    /// An error as the service words it.
    pub(crate) fn error(status: u16, reason: &str, message: &str) -> Self {
        Answer::json(
            status,
            &serde_json::json!({"error": {
                "code": status,
                "message": message,
                "errors": [{"message": message, "domain": "global", "reason": reason}],
            }}),
        )
    }
}

type Script = dyn Fn(usize, &str) -> Answer + Send + Sync;

/// A running scripted server.
pub(crate) struct FakeRest {
    endpoint: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    script: Box<Script>,
    calls: Mutex<Vec<String>>,
    headers: Mutex<Vec<http::HeaderMap>>,
}

impl FakeRest {
    /// A server that answers by the call's number (from 0) and its path and query.
    pub(crate) async fn start(
        script: impl Fn(usize, &str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            script: Box::new(script),
            calls: Mutex::default(),
            headers: Mutex::default(),
        });
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            axum::serve(listener, app).await.unwrap();
        });
        FakeRest {
            endpoint,
            shared,
            task,
        }
    }

    /// The server's address.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A client of this server.
    pub(crate) fn client(&self) -> Client {
        rest_client(&self.endpoint)
    }

    /// Path and query of the calls, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// The headers of the calls, in order.
    pub(crate) fn headers(&self) -> Vec<http::HeaderMap> {
        self.shared.headers.lock().unwrap().clone()
    }
}

impl Drop for FakeRest {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A client of a REST server at this address, without a Storage API.
pub(crate) fn rest_client(endpoint: &str) -> Client {
    let raw = RawOptions::from_pairs([
        ("rest_endpoint", endpoint),
        ("grpc_endpoint", "http://127.0.0.1:1"),
    ])
    .unwrap();
    Client::new(&Options::resolve(&raw).unwrap().connection).unwrap()
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    request: http::Request<axum::body::Body>,
) -> http::Response<axum::body::Body> {
    let path = request
        .uri()
        .path_and_query()
        .map(ToString::to_string)
        .unwrap_or_default();
    let call = {
        let mut calls = shared.calls.lock().unwrap();
        calls.push(path.clone());
        calls.len() - 1
    };
    shared
        .headers
        .lock()
        .unwrap()
        .push(request.headers().clone());
    let answer = (shared.script)(call, &path);
    let mut response = http::Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(answer.body.into()).unwrap()
}
