//! Statements with a run id whose process is killed, and which are repeated until they
//! succeed: they take effect once.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bigquery_local::faults::{Action, Rule};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::{RawOptions, with_bigquery};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::method::{Method, Promise};
use super::schedule::make_tables;
use super::{model, scale, seed, trouble};
use crate::harness::Server;

const ORDER: &str = "DATAFUSION_BIGQUERY_CHAOS_STATEMENT";

/// Of each of the two partitions.
const ROWS: i64 = 1_500;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    options: Vec<(String, String)>,
    table: String,
}

/// Does nothing unless a test has started this program for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_statement_of_another_process() {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    let order: Order = serde_json::from_str(&order).unwrap();
    let options = RawOptions::from_pairs(order.options).unwrap();
    let builder = SessionStateBuilder::new_with_default_features();
    let state = with_bigquery(builder, options).unwrap().build();
    let part = |from: i64| {
        let to = from + ROWS - 1;
        format!("SELECT value, '[1]' FROM generate_series({from}, {to})")
    };
    let insert = format!(
        "INSERT INTO bq.d.{} {} UNION ALL {}",
        order.table,
        part(0),
        part(ROWS)
    );
    let frame = SessionContext::new_with_state(state).sql(&insert).await;
    frame.unwrap().collect().await.unwrap();
}

impl Order {
    fn start(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "chaos::statement::the_statement_of_another_process",
            ])
            .env(ORDER, serde_json::to_string(self).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

/// Kills statements that write by a method, each of which has to take effect once.
#[expect(
    clippy::print_stdout,
    reason = "how much trouble there was tells what the test is worth"
)]
pub(super) async fn kills(method: &Method) {
    let count = scale(5, 50);
    let seed = seed(method.name);
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(1 << 20).await;
    make_tables(&server, count).await;
    let context = server.session(1);
    let directory = tempfile::TempDir::new().unwrap();
    let (mut faults, mut repeated, mut rows) = (0, 0, 0);
    for n in 0..count {
        let mut options = server.endpoints();
        let run = format!("run-{n}");
        let said = [
            ("sink.write_method", method.name),
            ("sink.checkpoint_path", directory.path().to_str().unwrap()),
            ("sink.run_id", &run),
        ];
        let said = said.into_iter().chain(method.options.iter().copied());
        options.extend(said.map(|(name, value)| (name.to_string(), value.to_string())));
        let order = Order {
            options,
            table: format!("t{n}"),
        };
        // The calls take so long that a kill meets any of them.
        let slow = method.calls.iter().map(|call| {
            let slow = Action::Delay {
                ms: random.random_range(1..4),
            };
            trouble::on_table(method, &order.table, Rule::once(*call, slow).always())
        });
        let mut quiet: Vec<u64> = slow.map(|rule| server.fault(rule)).collect();
        let rules = trouble::rules(&mut random, method, &order.table);
        let loud: Vec<u64> = rules.into_iter().map(|rule| server.fault(rule)).collect();
        let watch = Rule::once(method.calls[0], Action::Delay { ms: 0 }).always();
        let begun = server.fault(trouble::on_table(method, &order.table, watch));
        quiet.push(begun);
        let mut child = order.start();
        while server.acted(begun) == 0 && child.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(random.random_range(0..150_000))).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let whole = usize::try_from(2 * ROWS).unwrap();
        let found = model::found(&context, &order.table).await;
        let case = format!("statement {n} of seed {seed}, {}", method.name);
        assert!(found.values().all(|times| *times == 1), "{case}");
        if method.promise == Promise::Atomic {
            assert!([0, whole].contains(&found.len()), "{case}: {}", found.len());
        }
        // Once to complete it, and once more for nothing.
        let mut succeeded = 0;
        for attempt in 0.. {
            assert!(attempt < 20, "{case}: no end");
            repeated += 1;
            if order.start().wait().unwrap().success() {
                succeeded += 1;
            }
            if succeeded == 2 {
                break;
            }
        }
        let found = model::found(&context, &order.table).await;
        assert_eq!(found.len(), whole, "{case}");
        assert!(found.values().all(|times| *times == 1), "{case}");
        rows += found.len();
        faults += loud.iter().map(|rule| server.acted(*rule)).sum::<u64>();
        for rule in quiet.into_iter().chain(loud) {
            server.unfault(rule);
        }
    }
    println!(
        "{}: {count} killed statements, {repeated} repetitions, {faults} faults, {rows} rows counted",
        method.name
    );
}
