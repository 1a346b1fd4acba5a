//! The embedded BigQuery as a program: listens until it is told to stop.

use std::io::{self, IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bigquery_local::quotas::QuotaLimits;
use bigquery_local::server::Exposure;
use bigquery_local::{LocalBigQuery, LocalOptions, Realism};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

/// An embedded BigQuery: REST v2, the Storage API and Cloud Storage on loopback.
///
/// When ready it prints one line of JSON with the three endpoints. SIGTERM and
/// SIGINT stop it. RUST_LOG sets what it logs to standard error.
#[derive(Debug, Parser)]
#[command(name = "bigquery-local", version)]
struct Arguments {
    /// Address of the REST API; port 0 picks one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9050", value_parser = address)]
    rest: SocketAddr,
    /// Address of the Storage API (gRPC, plaintext); port 0 picks one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9060", value_parser = address)]
    grpc: SocketAddr,
    /// Address of the Cloud Storage API; port 0 picks one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9070", value_parser = address)]
    storage: SocketAddr,
    /// Project that exists from the start
    #[arg(long, value_name = "PROJECT", default_value = "test-project")]
    project: String,
    /// Storage Read splits tables into streams of about this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = LocalOptions::default().stream_bytes)]
    stream_bytes: usize,
    /// AppendRows requests above this many bytes are refused
    #[arg(long, value_name = "BYTES", default_value_t = LocalOptions::default().append_request_bytes)]
    append_request_bytes: usize,
    /// Deny for so long that a new table can be written to
    #[arg(long, value_name = "MS", default_value_t = 0)]
    creation_delay_ms: u64,
    /// Do not know new columns in AppendRows for so long
    #[arg(long, value_name = "MS", default_value_t = 0)]
    schema_delay_ms: u64,
    /// End an AppendRows call that has been without a request for so long
    #[arg(long, value_name = "MS")]
    append_idle_ms: Option<u64>,
    /// For so long after a table was made, refuse every third of the first fifteen who want to
    /// make it too with rateLimitExceeded
    #[arg(long, value_name = "MS", default_value_t = 0)]
    creation_race_ms: u64,
    /// Refuse what is beyond the service's quotas
    #[arg(long)]
    enforce_quotas: bool,
    /// Directory in which datasets, tables and rows are kept. Without it they are
    /// gone when the program ends
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Fail on purpose as the rules in this JSON file say
    #[arg(long, value_name = "FILE")]
    faults: Option<std::path::PathBuf>,
    /// Listen on addresses that other machines can reach. There is no
    /// authentication: whoever reaches them can read and change everything
    #[arg(long)]
    allow_remote: bool,
}

/// What the program prints once it serves.
#[derive(Debug, serde::Serialize)]
struct Ready {
    rest: String,
    grpc: String,
    storage: String,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.to_socket_addrs()
        .map_err(|e| format!("{e}; write HOST:PORT"))?
        .next()
        .ok_or_else(|| "the name has no address".to_string())
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,bigquery_local=info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Standard error may be closed; there is nowhere else to say it.
            let _ = writeln!(io::stderr(), "bigquery-local: {e}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> io::Result<()> {
    let faults = match &arguments.faults {
        None => None,
        Some(path) => Some(std::fs::read(path).map_err(|e| {
            io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display()))
        })?),
    };
    // Before the listeners, so that a signal during the start is not lost.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let local = LocalBigQuery::start(LocalOptions {
        rest: arguments.rest,
        grpc: arguments.grpc,
        storage: arguments.storage,
        exposure: if arguments.allow_remote {
            Exposure::Remote
        } else {
            Exposure::Loopback
        },
        project: arguments.project,
        stream_bytes: arguments.stream_bytes,
        append_request_bytes: arguments.append_request_bytes,
        realism: Realism {
            creation_delay: Duration::from_millis(arguments.creation_delay_ms),
            schema_delay: Duration::from_millis(arguments.schema_delay_ms),
            append_idle: arguments.append_idle_ms.map(Duration::from_millis),
            creation_race: Duration::from_millis(arguments.creation_race_ms),
            quotas: arguments.enforce_quotas.then(QuotaLimits::default),
        },
        data: arguments.data,
    })
    .await
    .map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied if !arguments.allow_remote => {
            io::Error::new(e.kind(), format!("{e} (--allow-remote)"))
        }
        _ => e,
    })?;
    if let Some(text) = faults {
        local.service().faults.add_all(&text).map_err(|e| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the rules of --faults: {e}"),
            )
        })?;
    }
    let ready = serde_json::to_string(&Ready {
        rest: local.rest_endpoint(),
        grpc: local.grpc_endpoint(),
        storage: local.storage_endpoint(),
    })?;
    let mut out = io::stdout();
    writeln!(out, "{ready}")?;
    out.flush()?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    local.shutdown().await;
    Ok(())
}
