//! What goes wrong is said in one line that names it and what to do, and the
//! exit code is not 0.

use std::fs;

use crate::process::{Run, dfbq};
use crate::server::{dfbq_local, endpoints};

const CREATE: &str = "create external table t stored as bigquery location";

/// The error line contains each of `words`.
#[track_caller]
fn names(run: Run, words: &[&str]) {
    let line = run.error();
    for word in words {
        assert!(line.contains(word), "'{word}' is not in: {line}");
    }
}

#[test]
fn a_wrong_project() {
    let sql = format!("{CREATE} 'elsewhere.nycflights13.flights'");
    names(dfbq_local(&["-c", &sql]).run(), &["elsewhere"]);
}

#[test]
fn a_wrong_dataset() {
    names(
        dfbq_local(&["-c", "select * from bq.nycflights.flights"]).run(),
        &["nycflights", "demo"],
    );
    let sql = format!("{CREATE} 'demo.nycflights.flights'");
    names(dfbq_local(&["-c", &sql]).run(), &["demo", "nycflights"]);
}

#[test]
fn a_wrong_table() {
    names(
        dfbq_local(&["-c", "select * from bq.nycflights13.flight"]).run(),
        &["nycflights13", "flight"],
    );
    let sql = format!("{CREATE} 'demo.nycflights13.flight'");
    names(
        dfbq_local(&["-c", &sql]).run(),
        &["demo", "nycflights13", "flight"],
    );
}

#[test]
fn a_table_that_is_missing_is_not_looked_for_among_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("flight.csv"), "a\n1\n").expect("writable");
    names(
        dfbq_local(&["-c", "select * from bq.nycflights13.\"flight.csv\""])
            .current_dir(folder.path())
            .run(),
        &["flight.csv"],
    );
}

#[test]
fn a_wrong_column() {
    names(
        dfbq_local(&["-c", "select carier from bq.nycflights13.airlines"]).run(),
        &["no column carier", "carrier", "name"],
    );
}

#[test]
fn a_wrong_option() {
    let sql = format!("{CREATE} 'demo.nycflights13.flights' options (scan.pushdown_filter 'true')");
    names(
        dfbq_local(&["-c", &sql]).run(),
        &["scan.pushdown_filter", "scan.pushdown_filters"],
    );
    names(
        dfbq_local(&["-c", "set bigquery.billing_projekt = 'x'"]).run(),
        &["billing_projekt", "billing_project"],
    );
    names(
        dfbq_local(&["-o", "scan.max_stream_count=many", "-c", "select 1"]).run(),
        &["scan.max_stream_count", "many"],
    );
    names(
        dfbq_local(&["-o", "billing_projekt=x", "-c", "select 1"]).run(),
        &["billing_projekt", "billing_project"],
    );
}

#[test]
fn a_wrong_location() {
    let sql = format!("{CREATE} 'nycflights13.flights'");
    names(
        dfbq_local(&["-c", &sql]).run(),
        &["nycflights13.flights", "project.dataset.table"],
    );
}

/// An address on which nothing listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("bound"))
}

#[test]
fn a_stopped_server() {
    let nobody = nobody();
    let run = dfbq(&["--project", "demo", "--rest-endpoint", &nobody])
        .args(&["--grpc-endpoint", &nobody])
        .args(&["-c", "select * from bq.nycflights13.flights"])
        .run();
    names(run, &[nobody.trim_start_matches("http://")]);
}

#[test]
fn a_stopped_storage_api() {
    let nobody = nobody();
    let run = dfbq(&["--project", "demo", "--rest-endpoint", &endpoints().rest])
        .args(&["--grpc-endpoint", &nobody])
        .args(&["-o", "scan.retry_max_attempts=2"])
        .args(&["-c", "select * from bq.nycflights13.airlines"])
        .run();
    names(run, &[nobody.trim_start_matches("http://")]);
}

#[test]
fn a_key_file_that_cannot_be_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let wrong = folder.path().join("not-a-key.json");
    fs::write(
        &wrong,
        "{\"type\": \"authorized_user\", \"secret\": \"hush\"}",
    )
    .expect("writable");
    let missing = folder.path().join("missing.json");
    for (path, said) in [(&wrong, "service account"), (&missing, "read")] {
        let key = format!("credentials.key_file={}", path.display());
        let line = dfbq(&[
            "--project",
            "demo",
            "-o",
            "credentials=key_file",
            "-o",
            &key,
        ])
        .args(&["-c", "select * from bq.nycflights13.flights"])
        .run()
        .error();
        assert!(line.contains("credentials.key_file"), "{line}");
        assert!(line.contains(said), "{line}");
        // Where keys are and what is in them is nobody's business.
        assert!(!line.contains("missing.json"), "{line}");
        assert!(!line.contains("not-a-key"), "{line}");
        assert!(!line.contains("hush"), "{line}");
    }
}

#[test]
fn no_credentials_at_all() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = home.path().to_string_lossy().into_owned();
    let run = dfbq(&[
        "--project",
        "demo",
        "-c",
        "select * from bq.nycflights13.flights",
    ])
    .env("HOME", &folder)
    .env("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file")
    .run();
    names(run, &["credentials"]);
}

#[test]
fn a_catalog_without_a_project() {
    names(
        dfbq(&["-c", "select * from bq.nycflights13.flights"]).run(),
        &["--project"],
    );
}

#[test]
fn an_emulator_by_environment() {
    let endpoints = endpoints();
    let sql = "select count(*) as n from bq.nycflights13.airlines";
    for host in [
        endpoints.rest.clone(),
        endpoints.rest.trim_start_matches("http://").to_string(),
        format!("{}/bigquery/v2", endpoints.rest),
    ] {
        let out = dfbq(&["-q", "--format", "csv", "--project", "demo", "-c", sql])
            .args(&["--grpc-endpoint", &endpoints.grpc])
            .env("BIGQUERY_EMULATOR_HOST", &host)
            .run()
            .ok();
        assert_eq!(out, "n\n16\n");
    }
    let run = dfbq(&["--project", "demo", "-c", sql])
        .env("BIGQUERY_EMULATOR_HOST", &endpoints.rest)
        .run();
    names(run, &["BIGQUERY_EMULATOR_HOST", "--grpc-endpoint"]);
}

#[test]
fn a_directory_that_cannot_keep_data() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("a-file");
    fs::write(&file, "not a directory").expect("writable");
    let path = file.to_string_lossy().into_owned();
    names(dfbq(&["--local", &path, "-c", "select 1"]).run(), &[&path]);
}

#[test]
fn what_would_change_bigquery() {
    for (sql, said) in [
        ("create schema bq.fresh", "CREATE SCHEMA bq.fresh"),
        (
            "drop schema bq.nycflights13 cascade",
            "DROP SCHEMA bq.nycflights13",
        ),
        (
            "create table bq.nycflights13.t as select 1 as a",
            "CREATE TABLE bq.nycflights13.t",
        ),
        (
            "create view BQ.nycflights13.v as select 1 as a",
            "CREATE VIEW BQ.nycflights13.v",
        ),
        (
            "drop table bq.nycflights13.airlines",
            "DROP TABLE bq.nycflights13.airlines",
        ),
        (
            "drop view if exists bq.nycflights13.v",
            "DROP VIEW bq.nycflights13.v",
        ),
        (
            "create external table bq.nycflights13.t stored as bigquery location 'demo.nycflights13.flights'",
            "CREATE EXTERNAL TABLE bq.nycflights13.t",
        ),
        (
            "set datafusion.catalog.default_catalog = 'bq'; create schema fresh",
            "CREATE SCHEMA fresh",
        ),
    ] {
        let instead = match said {
            said if said.contains("SCHEMA") => "bigquery.rest_endpoint",
            said if said.starts_with("CREATE TABLE") => "STORED AS BIGQUERY",
            said if said.contains("EXTERNAL") => "STORED AS BIGQUERY",
            _ => "run the statement in BigQuery",
        };
        names(
            dfbq_local(&["-c", sql]).run(),
            &[said, "this version reads BigQuery", "catalog bq", instead],
        );
    }
    for sql in [
        "delete from bq.nycflights13.airlines",
        "update bq.nycflights13.airlines set name = 'x'",
    ] {
        names(
            dfbq_local(&["-c", sql]).run(),
            &["nycflights13.airlines", "run the statement in BigQuery"],
        );
    }
    // Names of the session are its own, also those that BigQuery knows.
    dfbq_local(&[
        "-c",
        "create schema nycflights13",
        "create table nycflights13.airlines as select 1 as a",
        "drop table nycflights13.airlines",
    ])
    .run()
    .ok();
}

#[test]
fn an_option_of_one_table_said_for_the_session() {
    for (option, name) in [
        ("row_restriction=month = 1", "'scan.row_restriction'"),
        ("scan.sample_percentage=1", "'scan.sample_percentage'"),
        ("table=flights", "'table'"),
    ] {
        names(
            dfbq_local(&["-o", option, "-c", "select 1"]).run(),
            &[name, "OPTIONS"],
        );
    }
}

#[test]
fn a_project_that_contradicts_the_location() {
    let sql = format!("{CREATE} 'demo.nycflights13.flights' options (project 'other')");
    names(
        dfbq_local(&["-c", &sql]).run(),
        &["'project'", "'other'", "'demo'", "LOCATION"],
    );
}
