//! Every write method through random schedules of faults, crashes and restarts, with
//! every row counted afterwards.
//!
//! An [`engine`] writes numbered rows, stores its state at checkpoints as the sink's
//! protocol asks, commits, and goes on from what it stored whenever it crashes.
//! [`trouble`] makes the service fail at random, and crashes the engine: as a task
//! that is aborted ([`schedule`]), and as a process that is killed ([`child`]). The
//! [`model`] says what may be in the table at any moment, and what must be at the
//! end. [`statement`] kills statements that can be repeated. A method is a row of the
//! table in [`method`], and has a module of tests here: `chaos::file_loads` selects
//! those of one.
//!
//! `DATAFUSION_BIGQUERY_FULL=1` makes 2,000 schedules and 50 kills of each method.
//! `DATAFUSION_BIGQUERY_SEED` repeats a run, as far as chance alone made it.

mod child;
mod engine;
mod method;
mod model;
mod schedule;
mod statement;
mod trouble;

use std::env;

use self::method::{AT_LEAST_ONCE, ATOMIC, EXACTLY_ONCE, FILE_LOADS};

const FULL: &str = "DATAFUSION_BIGQUERY_FULL";
const SEED: &str = "DATAFUSION_BIGQUERY_SEED";

/// `few`, or `many` where the whole is asked for.
fn scale(few: usize, many: usize) -> usize {
    match env::var_os(FULL) {
        Some(value) if value == "1" => many,
        Some(value) => panic!("{FULL} is 1 or not set, not {value:?}"),
        None => few,
    }
}

/// The seed of a run, told so that it can be run again.
#[expect(
    clippy::print_stdout,
    reason = "the seed tells how to see a failure again"
)]
fn seed(of: &str) -> u64 {
    let seed = match env::var(SEED) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|e| panic!("{SEED} is a number, not {text:?}: {e}")),
        Err(_) => rand::random(),
    };
    println!("{of}: {SEED}={seed}");
    seed
}

mod at_least_once {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn never_loses() {
        schedule::schedules(&AT_LEAST_ONCE).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn killed_it_never_loses() {
        child::kills(&AT_LEAST_ONCE).await;
    }
}

mod exactly_once {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn never_loses_nor_repeats() {
        schedule::schedules(&EXACTLY_ONCE).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn killed_it_never_loses_nor_repeats() {
        child::kills(&EXACTLY_ONCE).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_killed_statement_takes_effect_once() {
        statement::kills(&EXACTLY_ONCE).await;
    }
}

mod atomic {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn never_loses_nor_repeats_nor_halves() {
        schedule::schedules(&ATOMIC).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn killed_it_never_loses_nor_repeats_nor_halves() {
        child::kills(&ATOMIC).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_killed_statement_takes_effect_once() {
        statement::kills(&ATOMIC).await;
    }
}

mod file_loads {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn never_loses_nor_repeats_nor_halves() {
        schedule::schedules(&FILE_LOADS).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn killed_it_never_loses_nor_repeats_nor_halves() {
        child::kills(&FILE_LOADS).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_killed_statement_takes_effect_once() {
        statement::kills(&FILE_LOADS).await;
    }
}
