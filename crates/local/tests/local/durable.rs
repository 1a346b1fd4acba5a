//! `--data`: what was acknowledged survives `kill -9`, and nothing is there in part.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::Client;
use serde_json::{Value, json};

use crate::process::{ANY_PORTS, program, ready};

/// Rows of one request: all of them are there, or none.
const BATCH: usize = 7;

struct Running {
    child: Child,
    base: String,
    client: Client,
}

impl Running {
    fn start(data: &Path) -> Self {
        let mut child = program(&ANY_PORTS).arg("--data").arg(data).spawn().unwrap();
        let endpoints = ready(&mut child);
        Self {
            child,
            base: format!("{}/projects/p", endpoints["rest"].as_str().unwrap()),
            client: Client::new(),
        }
    }

    /// SIGKILL: nothing of the program runs after this.
    fn kill(self) {
        drop(self);
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Option<Value> {
        send(request).await
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.client.get(format!("{}/{path}", self.base));
        self.send(request).await.expect("the server answers")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The answer of a success, `None` when the request failed in any way.
async fn send(request: reqwest::RequestBuilder) -> Option<Value> {
    let response = request.send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let text = response.text().await.ok()?;
    serde_json::from_str(if text.is_empty() { "null" } else { &text }).ok()
}

/// What clients were told.
#[derive(Default)]
struct Acknowledged {
    batches: Vec<usize>,
    tables: Vec<String>,
    label: Option<usize>,
}

async fn write(base: String, client: Client, writer: usize, told: Arc<Mutex<Acknowledged>>) {
    for i in 0.. {
        let batch = writer * 1_000_000 + i;
        // Every tenth is too large for the journal.
        let text = "x".repeat(if i % 10 == 9 { 30_000 } else { 10 });
        let rows: Vec<Value> = (0..BATCH)
            .map(|_| json!({"json": {"batch": batch, "text": text}}))
            .collect();
        let insert = client
            .post(format!("{base}/datasets/d/tables/t/insertAll"))
            .json(&json!({"rows": rows}));
        match send(insert).await {
            Some(answer) => {
                assert_eq!(answer["insertErrors"], Value::Null);
                told.lock().batches.push(batch);
            }
            None => return,
        }
        if i % 5 == 4 {
            let name = format!("t{batch}");
            let create = client
                .post(format!("{base}/datasets/d/tables"))
                .json(&json!({"tableReference": {"tableId": name}, "schema": {"fields": [{"name": "a", "type": "DATE"}]}}));
            match send(create).await {
                Some(_) => told.lock().tables.push(name),
                None => return,
            }
        }
        if writer == 0 && i % 3 == 0 {
            let patch = client
                .patch(format!("{base}/datasets/d"))
                .json(&json!({"labels": {"n": i.to_string()}}));
            match send(patch).await {
                Some(_) => told.lock().label = Some(i),
                None => return,
            }
        }
    }
}

/// Rows of `t` by batch.
async fn batches(running: &Running) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    let mut token = String::new();
    loop {
        let page = running
            .get(&format!(
                "datasets/d/tables/t/data?selectedFields=batch&pageToken={token}"
            ))
            .await;
        for row in page["rows"].as_array().unwrap_or(&Vec::new()) {
            let batch = row["f"][0]["v"].as_str().unwrap().parse().unwrap();
            *found.entry(batch).or_default() += 1;
        }
        match page["pageToken"].as_str() {
            Some(next) => token = next.to_string(),
            None => return found,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_at_any_moment_loses_nothing_and_halves_nothing() {
    let data = tempfile::TempDir::new().unwrap();
    let told = Arc::new(Mutex::new(Acknowledged::default()));
    let seed = rand::random::<u64>();
    let mut random = StdRng::seed_from_u64(seed);
    let mut offset = 0;
    for round in 0..10 {
        let running = Running::start(data.path());
        let base = running.base.clone();
        if round == 0 {
            let dataset = json!({"datasetReference": {"datasetId": "d"}});
            let request = running
                .client
                .post(format!("{base}/datasets"))
                .json(&dataset);
            running.send(request).await.unwrap();
            let table = json!({"tableReference": {"tableId": "t"}, "schema": {"fields": [
                {"name": "batch", "type": "INTEGER"}, {"name": "text", "type": "STRING"}]}});
            let request = running
                .client
                .post(format!("{base}/datasets/d/tables"))
                .json(&table);
            running.send(request).await.unwrap();
        }
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let writer = if round == 0 && writer == 0 {
                    0
                } else {
                    offset + writer
                };
                tokio::spawn(write(
                    base.clone(),
                    running.client.clone(),
                    writer,
                    Arc::clone(&told),
                ))
            })
            .collect();
        offset += 4;
        tokio::time::sleep(Duration::from_millis(random.random_range(20..600))).await;
        running.kill();
        for writer in writers {
            writer.await.unwrap();
        }

        let running = Running::start(data.path());
        let found = batches(&running).await;
        for (batch, rows) in &found {
            assert_eq!(
                *rows, BATCH,
                "batch {batch} in part, round {round}, seed {seed}"
            );
        }
        let (acknowledged, tables, label) = {
            let told = told.lock();
            (told.batches.clone(), told.tables.clone(), told.label)
        };
        for batch in acknowledged {
            assert!(
                found.contains_key(&batch),
                "batch {batch} lost, round {round}, seed {seed}"
            );
        }
        for table in tables {
            let got = running.get(&format!("datasets/d/tables/{table}")).await;
            assert_eq!(
                got["schema"]["fields"][0]["name"], "a",
                "{table}, seed {seed}"
            );
        }
        if let Some(least) = label {
            let now = running.get("datasets/d").await["labels"]["n"]
                .as_str()
                .unwrap()
                .parse::<usize>()
                .unwrap();
            assert!(now >= least, "label {now} after {least}, seed {seed}");
        }
        running.kill();
    }
    assert!(
        told.lock().batches.len() > 10,
        "the writers came to nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_serves_one_server_at_a_time() {
    let data = tempfile::TempDir::new().unwrap();
    let first = Running::start(data.path());
    let second = program(&ANY_PORTS)
        .arg("--data")
        .arg(data.path())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let words = String::from_utf8(second.stderr).unwrap();
    assert!(
        words.contains("another server uses this directory"),
        "{words}"
    );
    first.kill();
    Running::start(data.path()).kill();
    let file = data.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let refused = program(&ANY_PORTS)
        .arg("--data")
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
}
