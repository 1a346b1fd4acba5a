//! Crashes of the engine as a process that is killed.
//!
//! The process is this test program, which runs [`the_engine_of_another_process`]
//! and finds what to do in its environment.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::engine::{Job, Storage};
use super::method::Method;
use super::schedule::make_tables;
use super::{model, scale, seed, trouble};
use crate::harness::Server;

const ORDER: &str = "DATAFUSION_BIGQUERY_CHAOS_ORDER";

/// A process that comes no further in this time hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the process is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    job: Job,
    storage: std::path::PathBuf,
    seed: u64,
}

/// Does nothing unless a test has started this program for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_engine_of_another_process() {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    let order: Order = serde_json::from_str(&order).unwrap();
    let storage = Storage::File(order.storage);
    order.job.run(&storage, order.seed).await.unwrap();
}

impl Order {
    fn start(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "chaos::child::the_engine_of_another_process"])
            .env(ORDER, serde_json::to_string(self).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

/// Kills the process that writes by a method again and again.
#[expect(
    clippy::print_stdout,
    reason = "how much trouble there was tells what the test is worth"
)]
pub(super) async fn kills(method: &Method) {
    let count = scale(5, 50);
    let mut left = count;
    let seed = seed(method.name);
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(1 << 20).await;
    make_tables(&server, 1).await;
    let context = server.session(1);
    let directory = tempfile::TempDir::new().unwrap();
    let job = Job {
        endpoints: server.endpoints(),
        method: method.name.into(),
        table: "t0".into(),
        writers: 2,
        rows: 2_000 * i64::try_from(left).unwrap(),
    };
    let mut order = Order {
        storage: directory.path().join("state.json"),
        job: job.clone(),
        seed,
    };
    let storage = Storage::File(order.storage.clone());
    let mut failed = 0;
    let mut in_force = Vec::new();
    loop {
        let rules = trouble::rules(&mut random, method, &job.table);
        in_force.extend(rules.into_iter().map(|rule| server.fault(rule)));
        order.seed = random.random();
        let mut child = order.start();
        let until = storage.load().checkpoints + random.random_range(0..8);
        let ended = match left {
            0 => Some(end_of(&mut child, &storage).await),
            _ => reached(&mut child, &storage, until).await,
        };
        let ended = match ended {
            Some(status) => Some(status),
            None => {
                let more = random.random_range(0..500 * method.life_ms);
                tokio::time::sleep(Duration::from_micros(more)).await;
                child.kill().unwrap();
                left -= 1;
                // It may have been through all the same.
                let status = child.wait().unwrap();
                status.success().then_some(status)
            }
        };
        let found = model::found(&context, &job.table).await;
        match ended {
            Some(status) if status.success() => {
                assert_eq!(left, 0, "it was through before all kills; seed {seed}");
                if let Err(wrong) = model::check_end(&job, &found) {
                    panic!("seed {seed}, at the end: {wrong}");
                }
                let faults: u64 = in_force.into_iter().map(|rule| server.acted(rule)).sum();
                println!(
                    "{}: {count} kills and {failed} failures of the process, {faults} faults, {} \
                     rows counted",
                    method.name,
                    found.values().sum::<u64>()
                );
                return;
            }
            // An error that no attempt of its own has cured: it is started again.
            Some(_) => {
                failed += 1;
                assert!(failed < 50, "it fails again and again; seed {seed}");
            }
            None => {}
        }
        if let Err(wrong) = model::check(&job, &storage.load(), &found) {
            panic!("seed {seed}, {left} kills before the end: {wrong}");
        }
    }
}

/// Waits for so many checkpoints. The status of the process, if it ends before.
async fn reached(
    child: &mut Child,
    storage: &Storage,
    checkpoints: u64,
) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    while storage.load().checkpoints <= checkpoints {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        assert!(start.elapsed() < PATIENCE, "it comes no further");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    None
}

async fn end_of(child: &mut Child, storage: &Storage) -> std::process::ExitStatus {
    let mut progress = (storage.load().checkpoints, Instant::now());
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        let checkpoints = storage.load().checkpoints;
        if checkpoints > progress.0 {
            progress = (checkpoints, Instant::now());
        }
        assert!(progress.1.elapsed() < PATIENCE, "it has no end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
