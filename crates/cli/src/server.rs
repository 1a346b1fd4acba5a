//! Which BigQuery the flags mean: Google's, one at given endpoints, or one that
//! is started here.

use std::env;

use bigquery_local::{LocalBigQuery, LocalOptions};
use datafusion_bigquery::options::RawOptions;
use url::Url;

use crate::args::Args;
use crate::demo;

/// Project, by a convention of Google's tools.
const PROJECT: &str = "GOOGLE_CLOUD_PROJECT";
/// REST endpoint of a local server, by a convention of BigQuery's clients.
const EMULATOR_HOST: &str = "BIGQUERY_EMULATOR_HOST";

/// Starts an embedded BigQuery on free loopback ports, if the flags ask for one,
/// with the demo's tables if they ask for those.
///
/// # Errors
/// One line: it cannot be started, or the tables cannot be loaded.
pub async fn embedded(args: &Args) -> Result<Option<LocalBigQuery>, String> {
    if !args.demo && args.local.is_none() {
        return Ok(None);
    }
    let defaults = LocalOptions::default();
    let project = if args.demo {
        demo::PROJECT.to_string()
    } else {
        args.project.clone().unwrap_or(defaults.project.clone())
    };
    let directory = args.local.clone().flatten();
    let server = LocalBigQuery::start(LocalOptions {
        project: project.clone(),
        data: directory.clone(),
        ..defaults
    })
    .await
    .map_err(|error| match &directory {
        Some(directory) => format!(
            "cannot start the embedded BigQuery with its data in {}: {error}",
            directory.display()
        ),
        None => format!("cannot start the embedded BigQuery: {error}"),
    })?;
    if args.demo {
        demo::load(&server.rest_endpoint(), &project)
            .await
            .map_err(|error| error.to_string())?;
        demo::make_bucket(&server.storage_endpoint(), &project)
            .await
            .map_err(|error| error.to_string())?;
    }
    Ok(Some(server))
}

/// The options that the flags and the environment describe.
///
/// # Errors
/// One line: an option that is wrong, or what the flags leave unclear.
pub fn options(args: &Args, embedded: Option<&LocalBigQuery>) -> Result<RawOptions, String> {
    let mut options = match embedded {
        Some(server) => of_server(server),
        None => given(args, |name| {
            env::var(name).ok().filter(|value| !value.trim().is_empty())
        }),
    }?;
    let flags = [
        ("billing_project", &args.billing_project),
        ("location", &args.location),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let said = args
        .option
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    // What -o says is said last and wins.
    for (name, value) in flags.chain(said) {
        options
            .set(name, value)
            .map_err(|error| error.to_string())?;
    }
    Ok(options)
}

/// The options by which a session reaches `server`, with its project as the
/// catalog `bq`.
///
/// # Errors
/// One line: the server's project has a name that an option cannot have.
pub fn of_server(server: &LocalBigQuery) -> Result<RawOptions, String> {
    RawOptions::from_pairs([
        ("project", server.service().options.project.clone()),
        ("rest_endpoint", server.rest_endpoint()),
        ("grpc_endpoint", server.grpc_endpoint()),
        ("storage_endpoint", server.storage_endpoint()),
    ])
    .map_err(|error| error.to_string())
}

/// What flags say, or else `environment`, which answers a variable that is set.
fn given(args: &Args, environment: impl Fn(&str) -> Option<String>) -> Result<RawOptions, String> {
    let rest = match &args.rest_endpoint {
        Some(rest) => Some((rest.clone(), "--rest-endpoint")),
        None => environment(EMULATOR_HOST).map(|host| (emulator_endpoint(&host), EMULATOR_HOST)),
    };
    // A local server and Google's Storage API do not know the same tables.
    if let Some((rest, said_by)) = &rest
        && is_local(rest)
        && args.grpc_endpoint.is_none()
    {
        return Err(format!(
            "{said_by} names a local server for REST only; \
             give its gRPC endpoint too, with --grpc-endpoint"
        ));
    }
    let said = [
        (
            "project",
            args.project.clone().or_else(|| environment(PROJECT)),
        ),
        ("rest_endpoint", rest.map(|(rest, _)| rest)),
        ("grpc_endpoint", args.grpc_endpoint.clone()),
        ("storage_endpoint", args.storage_endpoint.clone()),
    ];
    RawOptions::from_pairs(
        said.into_iter()
            .filter_map(|(name, value)| Some((name, value?))),
    )
    .map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn options(flags: &[&str], environment: &[(&str, &str)]) -> Result<RawOptions, String> {
        let args = Args::parse_from(std::iter::once(&"dfbq").chain(flags));
        given(&args, |name| {
            environment
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.to_string())
        })
    }

    fn pairs(options: &RawOptions) -> Vec<(&str, &str)> {
        options.iter().collect()
    }

    #[test]
    fn googles_endpoints_by_default() {
        let options = options(&["--project", "p-1"], &[]).expect("complete");
        assert_eq!(pairs(&options), [("project", "p-1")]);
    }

    #[test]
    fn the_environment_is_asked_for_what_flags_leave_out() {
        let environment = [
            ("GOOGLE_CLOUD_PROJECT", "from-environment"),
            ("BIGQUERY_EMULATOR_HOST", "localhost:9050"),
        ];
        let grpc = ["--grpc-endpoint", "http://localhost:9060"];
        let from_environment = options(&grpc, &environment).expect("complete");
        assert_eq!(
            pairs(&from_environment),
            [
                ("grpc_endpoint", "http://localhost:9060"),
                ("project", "from-environment"),
                ("rest_endpoint", "http://localhost:9050"),
            ]
        );

        let flags = ["--project", "p-1", "--rest-endpoint", "http://[::1]:1"];
        let from_flags = options(&[&grpc[..], &flags].concat(), &environment).expect("complete");
        assert_eq!(
            pairs(&from_flags),
            [
                ("grpc_endpoint", "http://localhost:9060"),
                ("project", "p-1"),
                ("rest_endpoint", "http://[::1]:1"),
            ]
        );
    }

    #[test]
    fn a_local_rest_endpoint_alone_is_half_a_server() {
        for flags in [&["--rest-endpoint", "http://127.0.0.1:9050"][..], &[]] {
            let error = options(flags, &[("BIGQUERY_EMULATOR_HOST", "127.0.0.1:1")])
                .expect_err("no gRPC endpoint");
            assert!(error.contains("--grpc-endpoint"), "{error}");
        }
        options(&["--rest-endpoint", "https://bigquery.example.com"], &[])
            .expect("an endpoint elsewhere may stand alone");
    }

    #[test]
    fn emulator_hosts_in_all_their_forms() {
        for host in [
            "localhost:9050",
            "http://localhost:9050",
            "http://localhost:9050/",
            "http://localhost:9050/bigquery/v2",
            " localhost:9050/bigquery/v2/ ",
        ] {
            assert_eq!(emulator_endpoint(host), "http://localhost:9050", "{host}");
        }
    }
}
