//! What may be in the table.

use std::collections::HashMap;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;

use super::engine::{Job, Saved};
use super::method::Promise;
use crate::harness::rows;

/// How often each number is in the table.
pub(super) async fn found(context: &SessionContext, table: &str) -> HashMap<i64, u64> {
    let mut found = HashMap::new();
    for batch in rows(context, &format!("SELECT n FROM bq.d.{table}")).await {
        let numbers = batch.column(0).as_primitive::<Int64Type>();
        for number in numbers.values() {
            *found.entry(*number).or_default() += 1;
        }
    }
    found
}

/// How many rows of each writer, counted from its first, are in the table; they
/// have to be all the good ones up to there that `at_most` has.
fn check_between(
    job: &Job,
    found: &HashMap<i64, u64>,
    at_least: &[i64],
    at_most: &[i64],
) -> Result<(), String> {
    let mut allowed = 0;
    for writer in 0..job.writers {
        for number in job.good(writer, at_least[writer]) {
            if !found.contains_key(&number) {
                return Err(format!("row {number} is committed and not there"));
            }
        }
        let there = |number: &i64| found.contains_key(number);
        allowed += job.good(writer, at_most[writer]).filter(there).count();
    }
    match found.len() - allowed {
        0 => Ok(()),
        more => Err(format!("{more} rows are there that no checkpoint has")),
    }
}

/// Checks what is in the table after a crash, when this was stored.
pub(super) fn check(job: &Job, saved: &Saved, found: &HashMap<i64, u64>) -> Result<(), String> {
    let nothing = vec![0; job.writers];
    let or_nothing = |rows: &Vec<i64>| match rows.is_empty() {
        true => nothing.clone(),
        false => rows.clone(),
    };
    let (committed, next) = (or_nothing(&saved.committed), or_nothing(&saved.next));
    match job.method().promise {
        Promise::AtLeastOnce => check_between(job, found, &committed, &vec![job.rows; job.writers]),
        Promise::ExactlyOnce => {
            once(found)?;
            check_between(job, found, &committed, &next)
        }
        Promise::Atomic => {
            once(found)?;
            check_between(job, found, &committed, &committed)
                .or_else(|_| check_between(job, found, &next, &next))
        }
    }
}

/// Checks what is in the table at the end.
pub(super) fn check_end(job: &Job, found: &HashMap<i64, u64>) -> Result<(), String> {
    if job.method().promise != Promise::AtLeastOnce {
        once(found)?;
    }
    let all = vec![job.rows; job.writers];
    check_between(job, found, &all, &all)
}

fn once(found: &HashMap<i64, u64>) -> Result<(), String> {
    match found.iter().find(|(_, times)| **times > 1) {
        Some((number, times)) => Err(format!("row {number} is there {times} times")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(method: &str) -> Job {
        Job {
            endpoints: Vec::new(),
            method: method.into(),
            table: "t".into(),
            writers: 2,
            rows: 9,
        }
    }

    /// The good rows up to there, once.
    fn table(job: &Job, rows: [i64; 2]) -> HashMap<i64, u64> {
        let good = (0..2).flat_map(|writer| job.good(writer, rows[writer]));
        good.map(|number| (number, 1)).collect()
    }

    fn saved(next: [i64; 2], committed: [i64; 2]) -> Saved {
        Saved {
            next: next.to_vec(),
            committed: committed.to_vec(),
            ..Saved::default()
        }
    }

    #[test]
    fn the_model_tells_the_promises_apart() {
        let state = saved([6, 6], [3, 3]);
        for (method, rows, allowed) in [
            ("storage_api_at_least_once", [9, 9], true),
            ("storage_api_at_least_once", [2, 6], false),
            ("storage_api_exactly_once", [3, 3], true),
            ("storage_api_exactly_once", [3, 6], true),
            ("storage_api_exactly_once", [6, 7], false),
            ("storage_api_exactly_once", [2, 6], false),
            ("storage_api_atomic", [3, 3], true),
            ("storage_api_atomic", [6, 6], true),
            ("storage_api_atomic", [3, 6], false),
            ("file_loads", [3, 3], true),
            ("file_loads", [6, 6], true),
            ("file_loads", [3, 6], false),
        ] {
            let job = job(method);
            let outcome = check(&job, &state, &table(&job, rows));
            assert_eq!(outcome.is_ok(), allowed, "{method} {rows:?}: {outcome:?}");
        }
    }

    #[test]
    fn twice_is_allowed_only_at_least_once() {
        for (method, allowed) in [
            ("storage_api_at_least_once", true),
            ("storage_api_exactly_once", false),
            ("storage_api_atomic", false),
            ("file_loads", false),
        ] {
            let job = job(method);
            let mut all = table(&job, [9, 9]);
            check_end(&job, &all).unwrap();
            *all.values_mut().next().unwrap() = 2;
            assert_eq!(check_end(&job, &all).is_ok(), allowed, "{method}");
            check_end(&job, &table(&job, [9, 8])).unwrap_err();
        }
    }

    #[test]
    fn some_rows_are_refused_and_most_are_not() {
        let good = job("storage_api_atomic").good(1, 10_000).count();
        assert!((9_600..9_950).contains(&good), "{good}");
    }
}
