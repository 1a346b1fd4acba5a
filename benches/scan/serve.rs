//! `bigquery-local` as a process: says where it listens and ends with its input.

use std::io::Read;

use bigquery_local::{LocalBigQuery, LocalOptions};

use crate::Outcome;

#[allow(clippy::print_stdout, reason = "the parent process reads it there")]
pub(crate) async fn run() -> Outcome<()> {
    let server = LocalBigQuery::start(LocalOptions::default()).await?;
    println!(
        r#"{{"rest": "{}", "grpc": "{}", "storage": "{}"}}"#,
        server.rest_endpoint(),
        server.grpc_endpoint(),
        server.storage_endpoint()
    );
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    server.shutdown().await;
    Ok(())
}
