//! The line that says how far a statement is, over a server that does not go on.

use std::io::Write;
use std::time::Duration;

use bigquery_local::faults::{Action, Rule};
use bigquery_local::{LocalBigQuery, LocalOptions};
use datafusion_bigquery::RawOptions;
use dfbq::progress::Progress;
use dfbq::session::{Frontend, open};
use tokio::sync::mpsc;

/// A terminal that hands on what is drawn.
struct Terminal(mpsc::UnboundedSender<String>);

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Nobody listens once the test is over.
        let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Starts an INSERT of 1,000 rows that comes as far as `call`, waits until the line has
/// all of `parts`, and drops it.
async fn stopped_at(call: &str, options: &[(&str, &str)], parts: &[&str]) {
    let server = LocalBigQuery::start(LocalOptions::default()).await.unwrap();
    let (rest, grpc) = (server.rest_endpoint(), server.grpc_endpoint());
    let storage = server.storage_endpoint();
    let mut said = vec![
        ("project", "local"),
        ("rest_endpoint", &rest),
        ("grpc_endpoint", &grpc),
        ("storage_endpoint", &storage),
    ];
    said.extend(options);
    let (drawn, mut lines) = mpsc::unbounded_channel();
    let tick = Duration::from_millis(1);
    let frontend = Frontend {
        progress: Some(Progress::new(Terminal(drawn), Duration::ZERO, tick)),
        ..Frontend::default()
    };
    let context = open(RawOptions::from_pairs(said).unwrap(), frontend)
        .await
        .unwrap()
        .context;
    let client = reqwest::Client::new();
    for (url, body) in [
        (
            format!("{rest}/projects/local/datasets"),
            r#"{"datasetReference": {"datasetId": "d"}}"#,
        ),
        (
            format!("{rest}/projects/local/queries"),
            r#"{"query": "CREATE TABLE d.t (n INT64)", "useLegacySql": false}"#,
        ),
        (
            format!("{storage}/storage/v1/b?project=local"),
            r#"{"name": "bucket"}"#,
        ),
    ] {
        let request = client.post(url).header("content-type", "application/json");
        let answer = request.body(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{body}: {answer:?}");
    }
    let held = Rule::once(call, Action::Hang).always();
    server.service().faults.add(held).unwrap();
    let insert = "INSERT INTO bq.d.t SELECT value FROM generate_series(1, 1000)";
    let running = context.sql(insert).await.unwrap().collect();
    let waiting = async {
        loop {
            let line = lines.recv().await.expect("the statement goes on");
            if parts.iter().all(|part| line.contains(part)) {
                return;
            }
        }
    };
    tokio::select! {
        outcome = running => panic!("{call} is never answered: {outcome:?}"),
        () = waiting => {}
    }
    // What it drew is wiped away.
    let mut last = None;
    while let Ok(line) = lines.try_recv() {
        last = Some(line);
    }
    assert_eq!(last.as_deref(), Some("\r\x1b[K"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_shows_rows_bytes_and_what_is_in_flight() {
    let parts = ["writing BigQuery: 0 rows, ", " sent, 1 in flight"];
    stopped_at("AppendRows", &[("sink.parallelism", "1")], &parts).await;
    let options = [
        ("sink.write_method", "storage_api_exactly_once"),
        ("sink.parallelism", "3"),
    ];
    let parts = ["writing BigQuery: 1,000 rows, ", " sent, 0 in flight"];
    stopped_at("FlushRows", &options, &parts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_shows_its_load_jobs() {
    for parallelism in ["1", "2"] {
        let options = [
            ("sink.write_method", "file_loads"),
            ("sink.file_loads.staging_path", "gs://bucket/staged"),
            ("sink.file_loads.keep_staged_files", "false"),
            ("sink.parallelism", parallelism),
        ];
        // Files are deleted when their job is done.
        let parts = ["writing BigQuery: 1,000 rows, ", " files, 1 of 1 jobs done"];
        stopped_at("objects.delete", &options, &parts).await;
    }
}
