//! Crashes of the engine as a task that is aborted.

use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::engine::{Job, Storage};
use super::method::{BUCKET, Method};
use super::{model, scale, seed, trouble};
use crate::harness::Server;

/// Schedules at the same time.
const TOGETHER: usize = 6;

/// A schedule that does not come to its end after so many attempts never will.
const ATTEMPTS: usize = 200;

/// Makes the tables `t0`, `t1`, …, and the bucket for staged files.
pub(super) async fn make_tables(server: &Server, count: usize) {
    server.create_bucket(BUCKET).await;
    server.create_dataset("d").await;
    let create = |n| format!("CREATE TABLE d.t{n} (n INT64, j JSON);");
    for some in (0..count).collect::<Vec<_>>().chunks(100) {
        let sql: String = some.iter().map(create).collect();
        server.query(&sql).await;
    }
}

/// Sends a method through all its schedules.
#[expect(
    clippy::print_stdout,
    reason = "how much trouble there was tells what the test is worth"
)]
pub(super) async fn schedules(method: &'static Method) {
    let count = scale(50, 2_000);
    let seed = seed(method.name);
    let server = Server::start(1 << 20).await;
    make_tables(&server, count).await;
    let context = server.session(1);
    let met: Vec<Met> = stream::iter(0..count)
        .map(|n| schedule(&server, &context, method, n, seed))
        .buffer_unordered(TOGETHER)
        .collect()
        .await;
    let sum = |of: fn(&Met) -> u64| met.iter().map(of).sum::<u64>();
    let (crashes, faults) = (sum(|met| met.crashes), sum(|met| met.faults));
    println!(
        "{}: {count} schedules with {crashes} crashes and {faults} faults, {} rows counted",
        method.name,
        sum(|met| met.rows)
    );
    let least = count as u64;
    assert!(crashes > least && faults > least, "too little trouble");
}

/// What a schedule has come through.
#[derive(Debug, Default)]
struct Met {
    /// Engines that did not come to their end.
    crashes: u64,
    /// Faults that acted.
    faults: u64,
    /// Rows that were there at the end.
    rows: u64,
}

async fn schedule(
    server: &Server,
    context: &SessionContext,
    method: &Method,
    n: usize,
    seed: u64,
) -> Met {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(n as u64));
    let job = Arc::new(Job {
        endpoints: server.endpoints(),
        method: method.name.into(),
        table: format!("t{n}"),
        writers: random.random_range(1..4),
        rows: random.random_range(100..500),
    });
    let case = format!("schedule {n} of seed {seed}, {}", method.name);
    let storage = Storage::Memory(Arc::default());
    let mut rules = trouble::rules(&mut random, method, &job.table);
    let mut met = Met::default();
    let mut in_force = Vec::new();
    for attempt in 0.. {
        assert!(attempt < ATTEMPTS, "{case}: no end");
        in_force.extend(rules.drain(..).map(|rule| server.fault(rule)));
        let (engine, place) = (Arc::clone(&job), storage.clone());
        let run_seed = random.random();
        let mut running = tokio::spawn(async move { engine.run(&place, run_seed).await });
        // The first few times it crashes wherever it is, if it is not through before.
        let crash = match attempt {
            0..4 => Duration::from_micros(random.random_range(0..1_000 * method.life_ms)),
            _ => Duration::from_secs(60),
        };
        let ended = tokio::select! {
            ended = &mut running => ended.unwrap().is_ok(),
            () = tokio::time::sleep(crash) => {
                running.abort();
                running.await.is_ok_and(|ended| ended.is_ok())
            }
        };
        if ended {
            break;
        }
        met.crashes += 1;
        let found = model::found(context, &job.table).await;
        let saved = storage.load();
        if let Err(wrong) = model::check(&job, &saved, &found) {
            panic!("{case}, after attempt {attempt}: {wrong}");
        }
        if attempt < 4 && random.random() {
            rules = trouble::rules(&mut random, method, &job.table);
        }
    }
    let found = model::found(context, &job.table).await;
    if let Err(wrong) = model::check_end(&job, &found) {
        panic!("{case}, at the end: {wrong}");
    }
    met.rows = found.values().sum();
    for rule in in_force {
        met.faults += server.acted(rule);
        server.unfault(rule);
    }
    met
}
