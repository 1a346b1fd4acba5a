//! Batches that hold no row which passes are passed over; nothing else changes.

use chrono::{DateTime, Days, NaiveDate, TimeDelta};
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::*;

/// Columns that say the same number, each in its own type.
const COLUMNS: [&str; 7] = ["id", "n", "p", "d", "t", "dt", "ts"];

/// The number as a value of `column`, as JSON rows and literals have it.
fn value(column: &str, number: i64) -> String {
    let second = DateTime::UNIX_EPOCH.naive_utc() + TimeDelta::seconds(number);
    match column {
        "id" => number.to_string(),
        "n" | "p" => format!("{number}.5"),
        "d" => {
            let day = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap();
            let day = day.checked_add_days(Days::new(number.unsigned_abs()));
            day.unwrap().to_string()
        }
        "t" => second.format("%H:%M:%S").to_string(),
        "dt" => second.format("%Y-%m-%d %H:%M:%S").to_string(),
        "ts" => second.format("%Y-%m-%d %H:%M:%S+00").to_string(),
        _ => unreachable!("{column}"),
    }
}

fn literal(column: &str, number: i64) -> String {
    let text = value(column, number);
    match column {
        "id" => text,
        "n" | "p" => format!("NUMERIC '{text}'"),
        "d" => format!("DATE '{text}'"),
        "t" => format!("TIME '{text}'"),
        "dt" => format!("DATETIME '{text}'"),
        "ts" => format!("TIMESTAMP '{text}'"),
        _ => unreachable!("{column}"),
    }
}

/// A comparison's text and what it answers for a number; NULL never passes.
type Condition = (String, Box<dyn Fn(i64) -> bool>);

fn condition(rng: &mut impl Rng, depth: usize) -> Condition {
    if depth > 0 && rng.random_ratio(1, 2) {
        let (a, passes_a) = condition(rng, depth - 1);
        let (b, passes_b) = condition(rng, depth - 1);
        return if rng.random() {
            (
                format!("({a} AND {b})"),
                Box::new(move |n| passes_a(n) && passes_b(n)),
            )
        } else {
            (
                format!("({a} OR {b})"),
                Box::new(move |n| passes_a(n) || passes_b(n)),
            )
        };
    }
    let column = COLUMNS[rng.random_range(0..COLUMNS.len())];
    let (k, l) = (rng.random_range(0..700), rng.random_range(0..700));
    let (written, other) = (literal(column, k), literal(column, l));
    match rng.random_range(0..9) {
        0 => (format!("{column} = {written}"), Box::new(move |n| n == k)),
        1 => (format!("{column} < {written}"), Box::new(move |n| n < k)),
        2 => (format!("{column} <= {written}"), Box::new(move |n| n <= k)),
        3 => (format!("{written} < {column}"), Box::new(move |n| k < n)),
        4 => (format!("{written} <= {column}"), Box::new(move |n| k <= n)),
        5 => (format!("{column} != {written}"), Box::new(move |n| n != k)),
        6 => (
            format!("NOT {column} >= {written}"),
            Box::new(move |n| n < k),
        ),
        7 => (
            format!("{column} BETWEEN {written} AND {other}"),
            Box::new(move |n| (k..=l).contains(&n)),
        ),
        _ => (
            format!("{column} NOT BETWEEN {written} AND {other}"),
            Box::new(move |n| !(k..=l).contains(&n)),
        ),
    }
}

#[tokio::test]
async fn the_rows_that_pass_are_the_same() {
    let (local, reader) = start(64 << 20).await;
    local
        .table(json!([
            {"name": "id", "type": "INTEGER"},
            {"name": "n", "type": "NUMERIC"},
            {"name": "p", "type": "NUMERIC", "precision": "10", "scale": "2"},
            {"name": "d", "type": "DATE"},
            {"name": "t", "type": "TIME"},
            {"name": "dt", "type": "DATETIME"},
            {"name": "ts", "type": "TIMESTAMP"},
        ]))
        .await;
    let seed: u64 = rand::rng().random();
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    // Twelve stored batches: some overlap, one has the same number everywhere, one has
    // NULL everywhere.
    let mut numbers: Vec<Option<i64>> = Vec::new();
    for batch in 0..12_i64 {
        let batch: Vec<Option<i64>> = (0..30)
            .map(|row| match batch {
                4 => Some(333),
                5 => None,
                _ => (row % 7 != 3).then(|| batch * 50 + rng.random_range(0..90)),
            })
            .collect();
        let rows: Vec<_> = batch
            .iter()
            .map(|number| match number {
                None => json!({}),
                Some(number) => COLUMNS
                    .iter()
                    .map(|column| ((*column).to_owned(), json!(value(column, *number))))
                    .collect::<serde_json::Map<_, _>>()
                    .into(),
            })
            .collect();
        local.insert(&rows).await;
        numbers.extend(batch);
    }
    for _ in 0..300 {
        let (text, passes) = condition(&mut rng, 2);
        let session = reader.session(restricted(&text)).await;
        let expected: Vec<i64> = numbers
            .iter()
            .flatten()
            .copied()
            .filter(|n| passes(*n))
            .collect();
        let mut found = Vec::new();
        for message in reader.read(&session.streams[0].name, 0).await {
            found.extend(super::numbers(&batch(&session, &message)));
        }
        assert_eq!(found, expected, "seed {seed}: {text}");
        let offset = rng.random_range(0..=expected.len());
        let mut rest = Vec::new();
        for message in reader.read(&session.streams[0].name, offset as i64).await {
            rest.extend(super::numbers(&batch(&session, &message)));
        }
        assert_eq!(
            rest,
            expected[offset..],
            "seed {seed}: {text} from {offset}"
        );
    }
}

#[tokio::test]
async fn a_column_that_became_wider_is_compared_as_what_it_is_now() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[100, 100, 100]).await;
    let widened = "ALTER TABLE d.t ALTER COLUMN id SET DATA TYPE NUMERIC";
    local
        .post("queries", json!({"query": widened, "useLegacySql": false}))
        .await
        .ok();
    for (text, count) in [
        ("id = 150", 1),
        ("id < NUMERIC '100.5'", 101),
        ("id BETWEEN NUMERIC '99.5' AND NUMERIC '199.5'", 100),
    ] {
        let session = reader.session(restricted(text)).await;
        let rows = reader.rows(&session).await.num_rows();
        assert_eq!(rows, count, "{text}");
    }
}

#[tokio::test]
async fn what_fails_still_fails() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[100, 100]).await;
    // No row has id > 500, but the division comes first.
    let session = reader
        .session(restricted("1 / (id - 50) < 2 AND id > 500"))
        .await;
    let failure = reader
        .try_read(&session.streams[0].name, 0)
        .await
        .unwrap_err();
    assert!(
        failure.message().contains("division by zero"),
        "{failure:?}"
    );
    let session = reader
        .session(restricted("id > 500 AND 1 / (id - 50) < 2"))
        .await;
    assert_eq!(reader.rows(&session).await.num_rows(), 0);
}
