//! Which BigQuery the flags mean: Google's, one at given endpoints, or one that
//! is started here.

use std::env;

use bigquery_local::{LocalBigQuery, LocalOptions};
use url::Url;

use crate::args::Args;
use crate::demo;
use crate::session::Connection;

/// REST endpoint of a local server, by a convention of BigQuery's clients.
const EMULATOR_HOST: &str = "BIGQUERY_EMULATOR_HOST";

/// Starts an embedded BigQuery on free loopback ports, if the flags ask for one,
/// with the demo's tables if they ask for those.
///
/// # Errors
/// One line: it cannot be started, or the tables cannot be loaded.
pub async fn embedded(args: &Args) -> Result<Option<LocalBigQuery>, String> {
    if let Some(Some(directory)) = &args.local {
        return Err(format!(
            "--local {}: the embedded BigQuery keeps its tables in memory only; \
             give --local without a directory",
            directory.display()
        ));
    }
    if !args.demo && args.local.is_none() {
        return Ok(None);
    }
    let defaults = LocalOptions::default();
    let project = if args.demo {
        demo::PROJECT.to_string()
    } else {
        args.project.clone().unwrap_or(defaults.project.clone())
    };
    let server = LocalBigQuery::start(LocalOptions {
        project: project.clone(),
        ..defaults
    })
    .await
    .map_err(|error| format!("cannot start the embedded BigQuery: {error}"))?;
    if args.demo {
        demo::load(&server.rest_endpoint(), &project)
            .await
            .map_err(|error| error.to_string())?;
    }
    Ok(Some(server))
}

/// The connection that the flags and the environment describe.
///
/// # Errors
/// One line: what the flags leave unclear.
pub fn connection(args: &Args, embedded: Option<&LocalBigQuery>) -> Result<Connection, String> {
    let emulator = env::var(EMULATOR_HOST)
        .ok()
        .filter(|value| !value.trim().is_empty());
    let mut connection = match embedded {
        Some(server) => Connection::local(server, &server.service().options.project),
        None => given(args, emulator.as_deref())?,
    };
    for (name, value) in [
        ("billing_project", &args.billing_project),
        ("location", &args.location),
    ] {
        if let Some(value) = value {
            connection.options.push((name.to_string(), value.clone()));
        }
    }
    // Last, so that they win.
    connection.options.extend(args.option.iter().cloned());
    Ok(connection)
}

/// The endpoints given by flags, or by the environment for REST.
fn given(args: &Args, emulator: Option<&str>) -> Result<Connection, String> {
    let mut options = Vec::new();
    let rest = match (&args.rest_endpoint, emulator) {
        (Some(rest), _) => Some((rest.clone(), "--rest-endpoint")),
        (None, Some(host)) => Some((emulator_endpoint(host), EMULATOR_HOST)),
        (None, None) => None,
    };
    if let Some((rest, said_by)) = rest {
        if is_local(&rest) {
            // A local server and Google's Storage API do not know the same tables.
            if args.grpc_endpoint.is_none() {
                return Err(format!(
                    "{said_by} names a local server for REST only; \
                     give its gRPC endpoint too, with --grpc-endpoint"
                ));
            }
            // Nobody checks who asks there, and no token should leave for it.
            options.push(("credentials".to_string(), "anonymous".to_string()));
        }
        options.push(("rest_endpoint".to_string(), rest));
    }
    for (name, value) in [
        ("grpc_endpoint", &args.grpc_endpoint),
        ("storage_endpoint", &args.storage_endpoint),
    ] {
        if let Some(value) = value {
            options.push((name.to_string(), value.clone()));
        }
    }
    Ok(Connection {
        project: args.project.clone(),
        options,
    })
}

/// `BIGQUERY_EMULATOR_HOST` is written with and without `http://`, and for some
/// clients with the path of the API, which is not part of the endpoint.
fn emulator_endpoint(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let host = host.strip_suffix("/bigquery/v2").unwrap_or(host);
    if host.contains("://") {
        host.to_string()
    } else {
        format!("http://{host}")
    }
}

/// Whether an endpoint is on this machine.
fn is_local(endpoint: &str) -> bool {
    let with_scheme;
    let text = if endpoint.contains("://") {
        endpoint
    } else {
        with_scheme = format!("http://{endpoint}");
        &with_scheme
    };
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
