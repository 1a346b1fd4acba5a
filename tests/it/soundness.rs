//! Random predicates through sockets: a query keeps the rows that DataFusion
//! keeps of the same rows in memory, whatever of it BigQuery was told.
//!
//! The predicates are those of the library's own test without sockets.

#[path = "../../src/filter/soundness/generate.rs"]
mod generate;
#[path = "../../src/filter/soundness/values.rs"]
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bigquery_local::faults::{Action, Rule};
use chrono::{DateTime, NaiveDate, TimeDelta};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::harness::{Server, metric, rows};
use values::{BYTES, CENTS, DATES, EXTREMES, FLOATS, INTS, MICROS, NUMERICS, TEXTS, TIMES};

const ROWS: usize = 80;

/// The table of which the service refuses every restriction, so that the filters which
/// the scan has promised are evaluated by it.
const REFUSED: &str = "refused";

fn fields() -> Value {
    let field = |name: &str, kind: &str| json!({"name": name, "type": kind});
    json!([
        {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
        field("n", "INTEGER"),
        {"name": "req", "type": "INTEGER", "mode": "REQUIRED"},
        field("f", "FLOAT"),
        field("name", "STRING"),
        {"name": "folded", "type": "STRING", "collation": "und:ci"},
        field("raw", "BYTES"),
        field("flag", "BOOLEAN"),
        field("d", "DATE"),
        field("dt", "DATETIME"),
        field("ts", "TIMESTAMP"),
        {"name": "fine", "type": "TIMESTAMP", "timestampPrecision": "12"},
        field("t", "TIME"),
        field("num", "NUMERIC"),
        {"name": "cents", "type": "NUMERIC", "precision": "10", "scale": "2"},
        field("big", "BIGNUMERIC"),
        field("doc", "JSON"),
        {"name": "tags", "type": "STRING", "mode": "REPEATED"},
        {"name": "s", "type": "RECORD", "fields": [
            field("a", "INTEGER"),
            field("name", "STRING"),
            field("at", "DATETIME"),
            field("ok", "BOOLEAN"),
            {"name": "deep", "type": "RECORD", "fields": [
                field("x", "FLOAT"),
                field("num", "NUMERIC"),
            ]},
        ]},
    ])
}

/// Random values in the spelling of `insertAll`, a part of them NULL.
struct Cells<'a> {
    random: &'a mut StdRng,
    micros: Vec<i64>,
    dates: Vec<i32>,
}

impl Cells<'_> {
    fn of<T: Copy>(&mut self, pool: &[T], sent: impl Fn(T) -> Value) -> Value {
        match self.random.random_ratio(1, 6) {
            true => Value::Null,
            false => sent(*pool.choose(self.random).unwrap()),
        }
    }

    fn int(&mut self) -> Value {
        self.of(&INTS, |value| json!(value.to_string()))
    }

    fn float(&mut self) -> Value {
        self.of(&FLOATS, |value| match value {
            value if value.is_nan() => json!("NaN"),
            f64::INFINITY => json!("Infinity"),
            f64::NEG_INFINITY => json!("-Infinity"),
            value => json!(format!("{value:?}")),
        })
    }

    fn text(&mut self) -> Value {
        self.of(&TEXTS, |value| json!(value))
    }

    fn time(&mut self, zone: &str) -> Value {
        let pool = self.micros.clone();
        self.of(&pool, |micros| {
            let time = DateTime::from_timestamp_micros(micros).unwrap();
            json!(format!("{}{zone}", time.format("%Y-%m-%d %H:%M:%S%.6f")))
        })
    }

    fn decimal(&mut self, pool: &[i128], scale: usize) -> Value {
        self.of(pool, |units| {
            let digits = format!("{:0>width$}", units.unsigned_abs(), width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            let sign = if units < 0 { "-" } else { "" };
            json!(format!("{sign}{whole}.{fraction}"))
        })
    }

    fn row(&mut self, id: usize) -> Value {
        let dates = self.dates.clone();
        let mut row = json!({
            "id": id,
            "n": self.int(),
            "req": self.int(),
            "f": self.float(),
            "name": self.text(),
            "folded": self.text(),
            "raw": self.of(&BYTES, |value| json!(STANDARD.encode(value))),
            "flag": self.of(&[true, false], |value| json!(value)),
            "d": self.of(&dates, |days| {
                let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
                json!((epoch + TimeDelta::days(days.into())).format("%Y-%m-%d").to_string())
            }),
            "dt": self.time(""),
            "ts": self.time("Z"),
            "fine": self.time("Z"),
            "t": self.of(&TIMES, |micros| {
                let time = DateTime::from_timestamp_micros(micros).unwrap();
                json!(time.format("%H:%M:%S%.6f").to_string())
            }),
            "num": self.decimal(&NUMERICS, 9),
            "cents": self.decimal(&CENTS, 2),
            "big": self.decimal(&NUMERICS, 18),
            "doc": self.of(&["\"a\"", "null", "{\"k\": 1}"], |value| json!(value)),
            "tags": [],
            "s": null,
        });
        if row["req"].is_null() {
            row["req"] = json!("7");
        }
        if self.random.random_bool(0.5) {
            row["tags"] = json!(["a", TEXTS.choose(self.random).unwrap()]);
        }
        if self.random.random_ratio(4, 5) {
            let deep = json!({"x": self.float(), "num": self.decimal(&NUMERICS, 9)});
            row["s"] = json!({
                "a": self.int(),
                "name": self.text(),
                "at": self.time(""),
                "ok": self.of(&[true, false], |value| json!(value)),
                "deep": match self.random.random_ratio(1, 5) {
                    true => Value::Null,
                    false => deep,
                },
            });
        }
        row
    }
}

/// Creates a table and reads it back whole, as a table in memory named after it.
async fn create(server: &Server, context: &SessionContext, seed: u64, table: &str) {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut micros, mut dates) = (MICROS.to_vec(), DATES.to_vec());
    match table {
        "extreme" => micros.extend(EXTREMES),
        _ => dates.retain(|days| days.abs() < 30_000),
    }
    let mut cells = Cells {
        random: &mut random,
        micros,
        dates,
    };
    let sent = (0..ROWS).map(|id| cells.row(id)).collect();
    server.create_table("d", table, fields(), sent).await;
    let batches = rows(context, &format!("SELECT * FROM bq.d.{table}")).await;
    let memory = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    let name = format!("memory_{table}");
    context.register_table(&name, Arc::new(memory)).unwrap();
}

/// The ids that a query keeps, sorted.
async fn kept(context: &SessionContext, table: &str, predicate: &str) -> Result<Vec<i64>, String> {
    let query = format!("SELECT id FROM {table} WHERE {predicate}");
    let said = |error: DataFusionError| error.to_string();
    let frame = context.sql(&query).await.map_err(said)?;
    let plan = frame.create_physical_plan().await.map_err(said)?;
    let running = collect(Arc::clone(&plan), context.task_ctx());
    let batches = running.await.map_err(said)?;
    // A refusal would only cost another session, and hide that it was one.
    if !table.ends_with(REFUSED) {
        assert_eq!(metric(&plan, "restriction_refusals"), 0, "{query}");
    }
    let ids = |batch: &RecordBatch| {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        ids.values().to_vec()
    };
    let mut ids: Vec<i64> = batches.iter().flat_map(ids).collect();
    ids.sort_unstable();
    Ok(ids)
}

fn is_of_the_engine(error: &str) -> bool {
    let casts = ["Arrow error: Cast error", "Execution error: Cannot cast"];
    casts.iter().any(|cast| error.starts_with(cast))
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn pushdown_keeps_the_rows_that_the_engine_keeps() {
    let seed = setting("DATAFUSION_BIGQUERY_SEED").unwrap_or(4_051);
    let full = std::env::var_os("DATAFUSION_BIGQUERY_FULL").is_some();
    let cases = match setting("DATAFUSION_BIGQUERY_CASE") {
        Some(case) => case..case + 1,
        None => 0..if full { 40_000 } else { 2_400 },
    };
    let tried = cases.end - cases.start;
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let context = server.session(1);
    for table in ["extreme", "plain", REFUSED] {
        create(&server, &context, seed, table).await;
    }
    let refusal = Rule::once("CreateReadSession", Action::RefuseRestriction);
    server.fault(refusal.on_table(format!("*.{REFUSED}")).always());
    let before = server.sessions().len();
    let next = Arc::new(AtomicU64::new(cases.start));
    let compared = Arc::new(AtomicU64::new(0));
    let (required, spared) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (context, next) = (context.clone(), next.clone());
            let (compared, required) = (compared.clone(), required.clone());
            let spared = spared.clone();
            tokio::spawn(async move {
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    if case >= cases.end {
                        return;
                    }
                    let drawn = seed.wrapping_mul(1_000_003).wrapping_add(case);
                    let mut random = StdRng::seed_from_u64(drawn);
                    let table = match random.random_ratio(1, 4) {
                        true => "extreme",
                        false => "plain",
                    };
                    let depth = random.random_range(0..4);
                    let predicate = generate::predicate(&mut random, depth);
                    // DataFusion makes a short list comparisons or a set, as the plan
                    // around it has it, and the zeros are alike to the one only.
                    if predicate.contains(" IN (") && predicate.contains("-0.0") {
                        continue;
                    }
                    let table = match random.random_ratio(1, 6) {
                        true => REFUSED,
                        false => table,
                    };
                    let memory = format!("memory_{table}");
                    // What the engine cannot evaluate is an error in any case.
                    let Ok(expected) = kept(&context, &memory, &predicate).await else {
                        continue;
                    };
                    let found = kept(&context, &format!("bq.d.{table}"), &predicate).await;
                    // Of other rows beside it the engine sometimes evaluates a part that it
                    // spares itself here, and some parts cannot be evaluated on all rows.
                    if found.as_ref().is_err_and(|e| is_of_the_engine(e)) {
                        spared.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    // What the engine would fail on, the service has to evaluate.
                    if table == REFUSED && found.as_ref().is_err_and(|e| e.contains("too complex"))
                    {
                        required.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    assert_eq!(
                        found,
                        Ok(expected),
                        "DATAFUSION_BIGQUERY_SEED={seed} DATAFUSION_BIGQUERY_CASE={case}\n\
                         {table} {predicate}"
                    );
                    compared.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for worker in workers {
        if let Err(error) = worker.await {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    let sessions = server.sessions().split_off(before);
    let restricted = sessions
        .iter()
        .filter(|s| !s.row_restriction.is_empty())
        .count();
    // The server remembers its newest sessions only.
    let remembered = sessions.len();
    let compared = compared.load(Ordering::Relaxed);
    let required = required.load(Ordering::Relaxed);
    let spared = spared.load(Ordering::Relaxed);
    assert!(
        tried == 1
            || compared * 10 > tried * 6
                && restricted * 10 > remembered * 4
                && required * 50 < compared
                && spared * 1_000 <= compared,
        "{tried} cases, {compared} compared, {restricted} of {remembered} restricted, {required} \
         need the service, {spared} failed"
    );
}
