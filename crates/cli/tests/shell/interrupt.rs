//! What ends the program early: Ctrl-C, and a reader that goes away.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bigquery_local::faults::{Action, Rule};
use bigquery_local::{LocalBigQuery, LocalOptions};

use crate::process::without_settings;

fn command(server: &LocalBigQuery, statement: &str) -> Command {
    let mut command = without_settings();
    command
        .args(["--quiet", "--format", "csv", "--project", "local"])
        .args(["--rest-endpoint", &server.rest_endpoint()])
        .args(["--grpc-endpoint", &server.grpc_endpoint()])
        .args(["-c", statement])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

async fn exit_code(mut child: Child) -> Option<i32> {
    let status = tokio::task::spawn_blocking(move || child.wait());
    let status = tokio::time::timeout(Duration::from_secs(60), status).await;
    let status = status.expect("the program ends").expect("no panic");
    status.expect("it can be waited for").code()
}

/// Ctrl-C while a query job runs cancels the job, and the exit code says what
/// happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_cancels_the_job() {
    let server = LocalBigQuery::start(LocalOptions::default()).await.unwrap();
    let faults = &server.service().faults;
    // After the dry run the job itself is never answered, and may have started.
    let held = faults
        .add(Rule::once("jobs.insert", Action::Hang).after(1).always())
        .unwrap();
    let cancelled = faults
        .add(Rule::once("jobs.cancel", Action::Delay { ms: 0 }).always())
        .unwrap();
    let statement = "SELECT * FROM bigquery_query('SELECT 1 AS one')";
    let child = command(&server, statement).spawn().unwrap();
    let seen = |rule| faults.rule(rule).unwrap().seen;
    let mut patience = 600;
    while seen(held) < 2 {
        patience -= 1;
        assert!(patience > 0, "the query's job was never sent");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    assert_eq!(exit_code(child).await, Some(130));
    // An answer may be lost with what was interrupted: then it is asked for again.
    assert!(seen(cancelled) >= 1, "the job is not cancelled");
}

/// As in `dfbq … | head -1`: no error is shown, and the exit code is the usual one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_goes_away_ends_the_program() {
    let server = LocalBigQuery::start(LocalOptions::default()).await.unwrap();
    let statement = "SELECT value FROM generate_series(1, 3000000)";
    let mut child = command(&server, statement)
        .args(["--maxrows", "inf"])
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "value\n");
    drop(output);
    assert_eq!(exit_code(child).await, Some(141));
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "");
}
