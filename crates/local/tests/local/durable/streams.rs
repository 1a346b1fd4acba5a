//! Write streams and objects of a server that is killed while they are written.

use std::collections::BTreeMap;
use std::time::Duration;

use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::Client;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use api::append_rows_response::Response;
use api::write_stream::Type as Kind;

use super::server::{Calls, Running};
use super::{rounds, seed};
use crate::append::{Connection, Writer, at, request, simple, simple_rows};

/// Rows of one request.
const ROWS: i64 = 10;
/// Rows of one kind of stream have ids from so many times its number on.
const APART: i64 = 1_000_000;
/// Requests between two flushes.
const FLUSHES: i64 = 3;
const PARENT: &str = "projects/p/datasets/s/tables/t";
const KINDS: [Kind; 3] = [Kind::Committed, Kind::Buffered, Kind::Pending];

/// A stream, and what is known of it.
struct Appender {
    kind: Kind,
    first: i64,
    name: String,
    /// Rows that were acknowledged.
    end: i64,
    /// Rows that were flushed, as far as that was acknowledged.
    flushed: i64,
    /// A flush that was not answered.
    flushing: Option<i64>,
}

impl Appender {
    fn request(&self) -> api::AppendRowsRequest {
        let first = self.first + self.end;
        let rows = simple_rows(first..first + ROWS);
        at(self.end, request(&self.name, Some(&simple()), rows))
    }

    /// Appends until the server is gone.
    async fn run(mut self, writer: Writer, told: UnboundedSender<Kind>) -> Self {
        let mut connection = writer.connect();
        while let Some(answer) = connection.try_send(self.request()).await {
            match answer.response.expect("a response") {
                Response::AppendResult(result) => assert_eq!(result.offset, Some(self.end)),
                Response::Error(e) => panic!("{}", e.message),
            }
            self.end += ROWS;
            let _ = told.send(self.kind);
            if self.kind == Kind::Buffered && self.end % (FLUSHES * ROWS) == 0 {
                // In the middle of a request.
                let offset = self.end - ROWS / 2;
                self.flushing = Some(offset);
                match writer.flush(&self.name, offset - 1).await {
                    Ok(_) => self.flushed = offset,
                    Err(_) => return self,
                }
                self.flushing = None;
            }
        }
        self
    }

    /// Finds out whether the request without an answer was applied: whole or not.
    async fn probe(&mut self, connection: &mut Connection, context: &str) {
        let answer = connection
            .send(self.request())
            .await
            .expect("the stream is there");
        match answer.response.expect("a response") {
            Response::AppendResult(result) => {
                assert_eq!(result.offset, Some(self.end), "{context}");
            }
            Response::Error(e) => {
                let words = format!("expected offset {}, received {}", self.end + ROWS, self.end);
                assert!(e.message.contains(&words), "{context}: {}", e.message);
            }
        }
        self.end += ROWS;
    }
}

/// How many rows of a kind the table has: all from the first on, each once.
async fn visible(calls: &Calls, first: i64, context: &str) -> i64 {
    let query = calls.query(&format!(
        "SELECT COUNT(*), COUNT(DISTINCT id), IFNULL(MAX(id), {before}) FROM s.t \
         WHERE id >= {first} AND id < {end}",
        before = first - 1,
        end = first + APART,
    ));
    let answer = calls.change(query).await.expect("the query succeeds");
    let number = |i: usize| -> i64 {
        let value = answer["rows"][0]["f"][i]["v"].as_str().unwrap();
        value.parse().unwrap()
    };
    let count = number(0);
    assert_eq!(
        (number(1), number(2)),
        (count, first + count - 1),
        "{context}"
    );
    count
}

/// Puts objects until the server is gone; answers how many were acknowledged.
async fn objects(storage: String, mut next: u64) -> u64 {
    let client = Client::new();
    loop {
        let body = body_of(next);
        let url = format!("{storage}/bucket/o{next}");
        match client.put(url).body(body).send().await {
            Ok(answer) if answer.status() == 200 => next += 1,
            Ok(answer) => panic!("{}", answer.status()),
            Err(_) => return next,
        }
    }
}

fn body_of(number: u64) -> String {
    number
        .to_string()
        .repeat(usize::try_from(number % 50).unwrap() * 1000 + 1)
}

#[expect(
    clippy::print_stdout,
    reason = "the seed tells how to see a failure again"
)]
#[tokio::test(flavor = "multi_thread")]
async fn killed_streams_keep_what_was_acknowledged_and_no_half_request() {
    let seed = seed();
    println!("BIGQUERY_LOCAL_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let data = tempfile::TempDir::new().unwrap();
    let mut running = Running::start(data.path());
    let dataset = json!({"datasetReference": {"datasetId": "s"}});
    running
        .calls
        .change(running.calls.post("datasets", &dataset))
        .await
        .unwrap();
    let table = json!({"tableReference": {"tableId": "t"}, "schema": {"fields": [
        {"name": "id", "type": "INTEGER"}, {"name": "s", "type": "STRING"}]}});
    running
        .calls
        .change(running.calls.post("datasets/s/tables", &table))
        .await
        .unwrap();
    let bucket = format!("{}/storage/v1/b", running.storage);
    let made = Client::new()
        .post(bucket)
        .json(&json!({"name": "bucket"}))
        .send()
        .await;
    assert_eq!(made.unwrap().status(), 200);
    let writer = Writer::at(&running.grpc).await;
    let mut appenders = Vec::new();
    for (number, kind) in (0..).zip(KINDS) {
        appenders.push(Appender {
            kind,
            first: number * APART,
            name: writer.create_in(PARENT, kind).await,
            end: 0,
            flushed: 0,
            flushing: None,
        });
    }
    let mut puts = 0;
    for round in 0..rounds() {
        let context = format!("round {round}, BIGQUERY_LOCAL_SEED={seed}");
        let writer = Writer::at(&running.grpc).await;
        let (told, mut listen) = unbounded_channel();
        let tasks: Vec<_> = appenders
            .drain(..)
            .map(|appender| tokio::spawn(appender.run(writer.clone(), told.clone())))
            .collect();
        let putting = tokio::spawn(objects(running.storage.clone(), puts));
        let mut seen: BTreeMap<Kind, usize> = BTreeMap::new();
        while KINDS
            .iter()
            .any(|kind| seen.get(kind).copied().unwrap_or(0) < 5)
        {
            *seen
                .entry(listen.recv().await.expect("appends go on"))
                .or_default() += 1;
        }
        tokio::time::sleep(Duration::from_micros(random.random_range(0..20_000))).await;
        running.kill();
        for task in tasks {
            appenders.push(task.await.unwrap());
        }
        let acknowledged = putting.await.unwrap();
        running = Running::start(data.path());
        for number in puts..acknowledged {
            let url = format!("{}/bucket/o{number}", running.storage);
            let found = Client::new()
                .get(url)
                .send()
                .await
                .unwrap()
                .text()
                .await
                .unwrap();
            assert!(found == body_of(number), "{context}: object {number}");
        }
        // The one without an answer is there whole, or not.
        let url = format!("{}/bucket/o{acknowledged}", running.storage);
        let last = Client::new().get(url).send().await.unwrap();
        if last.status() == 200 {
            assert!(
                last.text().await.unwrap() == body_of(acknowledged),
                "{context}"
            );
        }
        puts = acknowledged;
        let writer = Writer::at(&running.grpc).await;
        for appender in &mut appenders {
            let count = visible(&running.calls, appender.first, &context).await;
            let flushed = appender.flushed;
            let allowed = match appender.kind {
                Kind::Committed => vec![appender.end, appender.end + ROWS],
                Kind::Buffered => vec![flushed, appender.flushing.unwrap_or(flushed)],
                _ => vec![0],
            };
            assert!(
                allowed.contains(&count),
                "{context}: {:?} {count} of {allowed:?}",
                appender.kind
            );
            if appender.kind == Kind::Buffered {
                appender.flushed = count;
                appender.flushing = None;
            }
            appender.probe(&mut writer.connect(), &context).await;
        }
    }
    let writer = Writer::at(&running.grpc).await;
    for appender in &appenders {
        match appender.kind {
            Kind::Buffered => {
                writer
                    .flush(&appender.name, appender.end - 1)
                    .await
                    .unwrap();
            }
            Kind::Pending => {
                assert_eq!(writer.finalize(&appender.name).await, appender.end);
                assert_eq!(writer.commit_in(PARENT, &[&appender.name]).await, []);
            }
            _ => {}
        }
    }
    running.kill();
    running = Running::start(data.path());
    for appender in &appenders {
        let count = visible(&running.calls, appender.first, "after the end").await;
        assert_eq!(count, appender.end, "{:?}", appender.kind);
    }
}
