//! Joins of every shape, with and without late filters: the same rows, no wait
//! that ran out of time, and none without end.
//!
//! `DATAFUSION_BIGQUERY_FULL=1` draws 10,000 queries instead of 500; a failure
//! prints the number that draws its query again as `DATAFUSION_BIGQUERY_SEED`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::harness::{Server, metric};

/// Nothing here takes a tenth of this, unless something waits for ever.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Tables of columns `k`, `s` and `v`: keys shared by some rows, by all of them
/// and by none, NULL keys, and no rows at all.
const TABLES: &str = "
    CREATE TABLE d.t0 AS SELECT IF(MOD(n, 11) = 0, NULL, MOD(n * 7, 40)) k,
        CONCAT('s', CAST(MOD(n * 3, 37) AS STRING)) s, n v
        FROM UNNEST(GENERATE_ARRAY(1, 120)) n;
    CREATE TABLE d.t1 AS SELECT n k, CONCAT('s', CAST(n AS STRING)) s, MOD(n, 5) v
        FROM UNNEST(GENERATE_ARRAY(1, 40)) n;
    CREATE TABLE d.t2 AS SELECT n * 5 k, IF(n = 2, NULL, CONCAT('s', CAST(n AS STRING))) s, n v
        FROM UNNEST(GENERATE_ARRAY(1, 6)) n;
    CREATE TABLE d.t3 AS SELECT 1 k, 's' s, 1 v FROM UNNEST([1]) n WHERE n > 1;
    CREATE TABLE d.t4 AS SELECT 7 k, 's7' s, n v FROM UNNEST(GENERATE_ARRAY(1, 30)) n;
";

/// A query with the columns `k`, `s` and `v`, whose rows do not depend on the
/// order in which others come.
fn relation(random: &mut StdRng, depth: u32) -> String {
    if depth == 0 {
        let table = random.random_range(0..5);
        let filter = match random.random_range(0..6) {
            0 => format!(" WHERE k > {}", random.random_range(0..40)),
            1 => format!(" WHERE v <= {}", random.random_range(0..30)),
            2 => " WHERE s LIKE 's1%'".to_string(),
            _ => String::new(),
        };
        return format!("SELECT k, s, v FROM bq.d.t{table}{filter}");
    }
    let one = relation(random, depth - 1);
    let other = |random: &mut StdRng| {
        let depth = random.random_range(0..depth);
        relation(random, depth)
    };
    match random.random_range(0..22) {
        0..=8 => {
            let other = other(random);
            let kind = [
                "JOIN",
                "JOIN",
                "JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
            ]
            .choose(random)
            .unwrap();
            let on = [
                "a.k = b.k",
                "a.k = b.k",
                "a.k = b.k",
                "a.s = b.s",
                "a.k = b.k AND a.s = b.s",
                "a.k IS NOT DISTINCT FROM b.k",
                "a.k = b.k AND a.v <= b.v",
                "a.k = b.k + 1",
            ]
            .choose(random)
            .unwrap();
            let (key, value) = *[("a.k", "b.v"), ("b.k", "a.v")].choose(random).unwrap();
            format!("SELECT {key} k, a.s, {value} v FROM ({one}) a {kind} ({other}) b ON {on}")
        }
        9 | 10 => {
            let other = other(random);
            let not = ["", "NOT "].choose(random).unwrap();
            format!("SELECT k, s, v FROM ({one}) WHERE k {not}IN (SELECT k FROM ({other}))")
        }
        11 | 12 => {
            let other = other(random);
            let not = ["", "NOT "].choose(random).unwrap();
            format!(
                "SELECT a.k, a.s, a.v FROM ({one}) a WHERE {not}EXISTS (SELECT 1 FROM ({other}) b \
                 WHERE a.k = b.k)"
            )
        }
        13 | 14 => format!("SELECT k, max(s) s, sum(v) v FROM ({one}) GROUP BY k"),
        15 => format!("SELECT max(k) k, min(s) s, count(*) v FROM ({one})"),
        16 => format!("SELECT DISTINCT k, s, v FROM ({one})"),
        17 => {
            let other = other(random);
            format!("SELECT k, s, v FROM ({one}) UNION ALL SELECT k, s, v FROM ({other})")
        }
        18 | 19 => {
            let rows = random.random_range(1..60);
            format!("SELECT k, s, v FROM ({one}) ORDER BY v DESC, k, s LIMIT {rows}")
        }
        20 => format!("SELECT k, s, sum(v) OVER (PARTITION BY k) v FROM ({one})"),
        _ => {
            let other = other(random);
            format!("SELECT k, s, v FROM ({one}) WHERE v >= (SELECT min(v) FROM ({other}))")
        }
    }
}

fn query(random: &mut StdRng) -> String {
    let depth = random.random_range(1..4);
    let relation = relation(random, depth);
    match random.random_range(0..4) {
        0 => format!("SELECT * FROM ({relation}) ORDER BY k, s, v"),
        1 => format!("SELECT count(*), sum(v), min(s), max(k) FROM ({relation})"),
        2 => format!("SELECT * FROM ({relation}) ORDER BY v, s, k LIMIT 20"),
        _ => relation,
    }
}

/// Settings that change the shape of plans.
fn config(random: &mut StdRng) -> SessionConfig {
    let number = |random: &mut StdRng, of: &[u64]| *of.choose(random).unwrap();
    let optimizer = |name: &str| format!("datafusion.optimizer.{name}");
    let execution = |name: &str| format!("datafusion.execution.{name}");
    let mut config = SessionConfig::new()
        .with_target_partitions(random.random_range(1..7))
        .with_batch_size(random.random_range(1..200));
    for (name, values) in [
        (
            "hash_join_single_partition_threshold",
            &[0, 400, 1 << 20][..],
        ),
        (
            "hash_join_single_partition_threshold_rows",
            &[0, 20, 1 << 20],
        ),
    ] {
        config = config.set_u64(&optimizer(name), number(random, values));
    }
    let buffering = number(random, &[0, 0, 1, 1 << 20]);
    config = config.set_u64(&execution("hash_join_buffering_capacity"), buffering);
    for name in [
        "join_reordering",
        "prefer_hash_join",
        "repartition_joins",
        "repartition_aggregations",
        "repartition_sorts",
        "prefer_existing_sort",
        "enable_round_robin_repartition",
        "enable_topk_dynamic_filter_pushdown",
        "enable_aggregate_dynamic_filter_pushdown",
    ] {
        // Mostly as usual, so that what is unusual comes alone.
        if random.random_bool(0.15) {
            config = config.set_bool(&optimizer(name), random.random());
        }
    }
    config
}

/// What a query gave.
struct Outcome {
    rows: Vec<String>,
    restricted: usize,
    timeouts: usize,
    plan: String,
}

async fn outcome(context: &SessionContext, sql: &str) -> Result<Outcome, String> {
    let said = |error| format!("{error}");
    let frame = context.sql(sql).await.map_err(said)?;
    let plan = frame.create_physical_plan().await.map_err(said)?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await;
    let mut rows = Vec::new();
    for batch in batches.map_err(said)? {
        let options = FormatOptions::new().with_null("NULL");
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let cells: Vec<_> = columns.iter().map(|it| it.value(row).to_string()).collect();
            cells.join(" ")
        }));
    }
    rows.sort_unstable();
    Ok(Outcome {
        rows,
        restricted: metric(&plan, "late_filters"),
        timeouts: metric(&plan, "late_filter_timeouts"),
        plan: displayable(plan.as_ref()).indent(false).to_string(),
    })
}

/// Draws a query, runs it both ways and says how many of its sessions were
/// restricted; None for a query that fails both ways.
async fn compare(server: &Server, seed: u64) -> Result<Option<usize>, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let sql = query(&mut random);
    let config = config(&mut random);
    let with = server.session_with(config.clone());
    let without = server.session_with(config);
    let set = |context: &SessionContext, what: &str| {
        let context = context.clone();
        let sql = format!("SET bigquery.scan.{what}");
        async move { context.sql(&sql).await.map(drop).unwrap() }
    };
    set(&with, "dynamic_filter_wait = '30 s'").await;
    set(&without, "dynamic_filters = false").await;
    match (outcome(&with, &sql).await, outcome(&without, &sql).await) {
        (Ok(with), Ok(without)) if with.rows != without.rows => Err(format!(
            "other rows with late filters: {:?} and without {:?}\n{sql}\n{}",
            with.rows, without.rows, with.plan
        )),
        (Ok(with), Ok(_)) if with.timeouts > 0 => {
            Err(format!("a wait was in vain\n{sql}\n{}", with.plan))
        }
        (Ok(with), Ok(_)) => Ok(Some(with.restricted)),
        // What DataFusion cannot plan, it cannot plan either way.
        (Err(with), Err(without)) if with == without => Ok(None),
        (with, without) => Err(format!(
            "fails one way only: {:?} and {:?}\n{sql}",
            with.err(),
            without.err()
        )),
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn late_filters_change_no_rows_and_block_nothing() {
    let queries = match std::env::var_os("DATAFUSION_BIGQUERY_FULL") {
        Some(_) => 10_000,
        None => 500,
    };
    let (first, last) = match setting("DATAFUSION_BIGQUERY_SEED") {
        Some(seed) => (seed, seed),
        None => (1, queries),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(async {
        let server = Server::start(400).await;
        server.create_dataset("d").await;
        server.query(TABLES).await;
        server
    });
    let server = Arc::new(server);
    let next = Arc::new(AtomicU64::new(first));
    let under_way = Arc::new(Mutex::new(HashMap::new()));
    let (ended, ends) = mpsc::channel();
    for worker in 0..3 {
        let (server, next) = (Arc::clone(&server), Arc::clone(&next));
        let (under_way, ended) = (Arc::clone(&under_way), ended.clone());
        std::thread::spawn(move || {
            // One of them has a single thread for everything.
            let mut builder = match worker {
                0 => tokio::runtime::Builder::new_current_thread(),
                _ => tokio::runtime::Builder::new_multi_thread(),
            };
            let runtime = builder.worker_threads(2).enable_all().build().unwrap();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed > last {
                    return;
                }
                under_way.lock().unwrap().insert(worker, seed);
                let outcome = runtime.block_on(compare(&server, seed));
                under_way.lock().unwrap().remove(&worker);
                if ended.send((seed, outcome)).is_err() {
                    return;
                }
            }
        });
    }
    drop(ended);
    let (mut run, mut restricted) = (0, 0);
    let mut unplannable = 0;
    loop {
        match ends.recv_timeout(WATCHDOG) {
            Ok((seed, Err(failure))) => panic!("DATAFUSION_BIGQUERY_SEED={seed}: {failure}"),
            Ok((_, Ok(sessions))) => {
                run += 1;
                unplannable += u64::from(sessions.is_none());
                restricted += u64::from(sessions.is_some_and(|sessions| sessions > 0));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!(
                    "no end; DATAFUSION_BIGQUERY_SEED of {:?}",
                    under_way.lock().unwrap()
                )
            }
        }
    }
    assert_eq!(run, last - first + 1);
    if first < last {
        assert!(restricted * 4 > run, "{restricted} of {run}");
        assert!(
            unplannable * 10 < run,
            "{unplannable} of {run} fail both ways"
        );
    }
}
