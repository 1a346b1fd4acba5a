//! `--data`: what was acknowledged survives `kill -9`, and nothing is there in part.

mod changes;
mod server;
mod streams;
mod uploads;
mod wide;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::sync::mpsc;

use self::server::{Calls, Running, spawn};
use self::wide::{CHANGE_BYTES, PATCHED, Wide};
use self::writer::{ALL, Writer};
use crate::process::{ANY_PORTS, program};

/// Clients that make changes at the same time.
const WRITERS: i64 = 4;
/// A round has at least so many changes of the wide table: ten rounds make the journal
/// longer than the 16 MiB after which an image takes its place.
const WIDE_CHANGES: usize = 4;
const _: () = assert!(10 * WIDE_CHANGES * CHANGE_BYTES > 16 << 20);
/// The shared table is emptied after so many rounds, so that looking stays quick.
const ROUNDS_UNTIL_EMPTY: usize = 10;

/// How often the server is killed.
fn rounds() -> usize {
    match std::env::var("BIGQUERY_LOCAL_FULL").as_deref() {
        Ok("1") => 200,
        Ok(other) => panic!("BIGQUERY_LOCAL_FULL is 1 or not set, not {other:?}"),
        Err(_) => 10,
    }
}

fn seed() -> u64 {
    match std::env::var("BIGQUERY_LOCAL_SEED") {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|e| panic!("BIGQUERY_LOCAL_SEED is an integer, not {text:?}: {e}")),
        Err(_) => rand::random(),
    }
}

async fn make_shared_table(calls: &Calls) {
    let dataset = json!({"datasetReference": {"datasetId": "d"}});
    let made = calls.change(calls.post("datasets", &dataset)).await;
    assert!(made.is_some());
    let table = json!({"tableReference": {"tableId": "t"}, "schema": {"fields": [
        {"name": "batch", "type": "INTEGER"}, {"name": "text", "type": "STRING"}]}});
    let made = calls.change(calls.post("datasets/d/tables", &table)).await;
    assert!(made.is_some());
}

/// The number of the newest image, 0 when there is none.
fn newest_image(data: &Path) -> u64 {
    std::fs::read_dir(data)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let number = name.strip_prefix("image-")?;
            u64::from_str_radix(number, 16).ok()
        })
        .max()
        .unwrap_or(0)
}

#[expect(
    clippy::print_stdout,
    reason = "the seed, and what was met, tell how to see a failure again"
)]
#[tokio::test(flavor = "multi_thread")]
async fn kill_at_any_moment_loses_nothing_and_halves_nothing() {
    let seed = seed();
    println!("BIGQUERY_LOCAL_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let data = tempfile::TempDir::new().unwrap();
    let mut acknowledged: BTreeMap<&str, usize> = BTreeMap::new();
    let mut cut_off: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    let mut running = Running::start(data.path());
    make_shared_table(&running.calls).await;
    let mut wide = Wide::default();
    wide.prepare(&running.calls).await;
    let mut writers: Vec<Writer> = (0..WRITERS).map(|n| Writer::new(n, seed)).collect();
    for writer in &writers {
        writer.prepare(&running.calls).await;
    }
    for round in 0..rounds() {
        let (told, mut listen) = mpsc::unbounded_channel();
        let tasks: Vec<_> = writers
            .drain(..)
            .map(|writer| tokio::spawn(writer.run(running.calls.clone(), told.clone())))
            .collect();
        let counting = tokio::spawn(wide.run(running.calls.clone(), told));
        let (mut changes, mut patches) = (random.random_range(10..50), WIDE_CHANGES);
        while changes > 0 || patches > 0 {
            let name = listen.recv().await.expect("the clients go on");
            *acknowledged.entry(name).or_default() += 1;
            let left = if name == PATCHED {
                &mut patches
            } else {
                &mut changes
            };
            *left = left.saturating_sub(1);
        }
        // Somewhere in the changes that run now.
        tokio::time::sleep(Duration::from_micros(random.random_range(0..40_000))).await;
        running.kill();
        for task in tasks {
            writers.push(task.await.unwrap());
        }
        wide = counting.await.unwrap();
        if random.random_ratio(1, 3) {
            // Reading the directory may be cut off too.
            let mut child = spawn(data.path());
            tokio::time::sleep(Duration::from_micros(random.random_range(0..60_000))).await;
            child.kill().unwrap();
            child.wait().unwrap();
        }
        running = Running::start(data.path());
        let context = format!("round {round}, BIGQUERY_LOCAL_SEED={seed}");
        wide.check(&running.calls, &context).await;
        for writer in &mut writers {
            if let Some(found) = writer.check(&running.calls, &context).await {
                *cut_off.entry(found).or_default() += 1;
            }
        }
        if round % ROUNDS_UNTIL_EMPTY == ROUNDS_UNTIL_EMPTY - 1 {
            let empty = running.calls.query("TRUNCATE TABLE d.t");
            assert!(running.calls.change(empty).await.is_some());
            for writer in &mut writers {
                writer.forget_batches();
            }
        }
    }
    let images = newest_image(data.path());
    println!("images: {images}");
    println!("acknowledged: {acknowledged:?}");
    println!("cut off, and whether it was there afterwards: {cut_off:?}");
    assert!(images > 0, "no image was written");
    for name in ALL {
        assert!(
            acknowledged.contains_key(name),
            "no {name} was acknowledged"
        );
    }
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
