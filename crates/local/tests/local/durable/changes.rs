//! Changes by key, whose order outlives the program.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::seed;
use super::server::Running;
use crate::append::{Writer, appended, request};
use crate::capture::{changes, delete, keyed, upsert};

const STREAM: &str = "projects/p/datasets/c/tables/t/streams/_default";

/// Changes are sent in an order of their own; the server is killed after each batch, and
/// what comes afterwards must lose and win as if it had not been.
#[expect(
    clippy::print_stdout,
    reason = "the seed tells how to see a failure again"
)]
#[tokio::test(flavor = "multi_thread")]
async fn deleted_keys_and_numbers_survive_kill() {
    let seed = seed();
    println!("BIGQUERY_LOCAL_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let data = tempfile::TempDir::new().unwrap();
    let mut running = Running::start(data.path());
    let dataset = json!({"datasetReference": {"datasetId": "c"}});
    let calls = &running.calls;
    calls
        .change(calls.post("datasets", &dataset))
        .await
        .unwrap();
    let mut table = keyed();
    table["tableReference"] = json!({"tableId": "t"});
    let made = calls.change(calls.post("datasets/c/tables", &table)).await;
    assert!(made.is_some());

    let mut model: BTreeMap<i64, (u64, Option<i64>)> = BTreeMap::new();
    for round in 0..8 {
        let writer = Writer::at(&running.grpc).await;
        let mut connection = writer.connect();
        for _ in 0..random.random_range(1..6) {
            let mut rows = Vec::new();
            // Some batches are large enough for a file of their own.
            let count = if random.random_ratio(1, 4) { 6_000 } else { 10 };
            for change in 0..count {
                let id = random.random_range(0..if count > 10 { 5_000 } else { 40 });
                let number: u64 = random.random_range(0..40);
                let text = (random.random_ratio(2, 3)).then_some(round * 10_000 + change);
                rows.push(match text {
                    Some(text) => upsert(id, &text.to_string(), &format!("{number:X}")),
                    None => delete(id, &format!("{number:X}")),
                });
                let newest = model.entry(id).or_default();
                if number >= newest.0 {
                    *newest = (number, text);
                }
            }
            let sent = request(STREAM, Some(&changes()), rows);
            assert_eq!(appended(connection.send(sent).await), None);
        }
        running.kill();
        running = Running::start(data.path());
        let found = running
            .calls
            .integers("SELECT id, CAST(s AS INT64) FROM c.t WHERE id < 100 ORDER BY id")
            .await;
        let expected: Vec<Vec<i64>> = model
            .range(..100)
            .filter_map(|(id, (_, text))| Some(vec![*id, (*text)?]))
            .collect();
        assert_eq!(found, expected, "round {round}");
        let count = running
            .calls
            .integers("SELECT COUNT(*), SUM(id) FROM c.t")
            .await;
        let live = model.iter().filter(|(_, (_, text))| text.is_some());
        let (count_of, sum) = live.fold((0, 0), |(n, sum), (id, _)| (n + 1, sum + id));
        assert_eq!(count, [vec![count_of, sum]], "round {round}");
    }
}
