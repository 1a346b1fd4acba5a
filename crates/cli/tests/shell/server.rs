//! One embedded BigQuery with the demo's tables for all tests.

use std::sync::OnceLock;

use bigquery_local::{LocalBigQuery, LocalOptions};

use crate::process::{Dfbq, dfbq};

/// Where the server of the tests listens.
pub(crate) struct Endpoints {
    pub(crate) rest: String,
    pub(crate) grpc: String,
}

/// Starts the server once; it stays until the test process ends.
pub(crate) fn endpoints() -> &'static Endpoints {
    static ENDPOINTS: OnceLock<Endpoints> = OnceLock::new();
    ENDPOINTS.get_or_init(|| {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let server = start().await;
                tell.send(Endpoints {
                    rest: server.rest_endpoint(),
                    grpc: server.grpc_endpoint(),
                })
                .expect("the tests wait for it");
                std::future::pending::<()>().await;
            });
        });
        told.recv().expect("the server starts")
    })
}

async fn start() -> LocalBigQuery {
    let server = LocalBigQuery::start(LocalOptions {
        project: dfbq::demo::PROJECT.to_string(),
        ..LocalOptions::default()
    })
    .await
    .expect("free loopback ports");
    dfbq::demo::load(&server.rest_endpoint(), dfbq::demo::PROJECT)
        .await
        .expect("the demo's tables load");
    server
}

/// `dfbq` over the server of the tests, printing rows as CSV.
pub(crate) fn dfbq_local(args: &[&str]) -> Dfbq {
    let endpoints = endpoints();
    dfbq(&[
        "--quiet",
        "--format",
        "csv",
        "--project",
        "demo",
        "--rest-endpoint",
        &endpoints.rest,
        "--grpc-endpoint",
        &endpoints.grpc,
    ])
    .args(args)
}
