//! Faults at random.

use bigquery_local::faults::{Action, Detached, Rule};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::method::Method;

/// Some faults in the calls that a method makes, on a table where they tell it.
pub(super) fn rules(random: &mut StdRng, method: &Method, table: &str) -> Vec<Rule> {
    let count = random.random_range(1..7);
    (0..count)
        .map(|_| {
            let call = method.calls.choose(random).unwrap();
            let mut rule = on_table(method, table, Rule::once(*call, action(random, call)));
            rule.skip = match *call {
                "AppendRows" | "objects.insert" => random.random_range(0..40),
                _ => random.random_range(0..6),
            };
            rule.times = Some(random.random_range(1..3));
            rule
        })
        .collect()
}

/// The rule about the calls of a method that write to the table.
pub(super) fn on_table(method: &Method, table: &str, rule: Rule) -> Rule {
    match method.tells_table {
        true => rule.on_table(format!("*.{table}")),
        false => rule,
    }
}

fn action(random: &mut StdRng, call: &str) -> Action {
    let appends = call == "AppendRows";
    let code = |random: &mut StdRng| {
        let codes = ["UNAVAILABLE", "ABORTED", "INTERNAL", "DEADLINE_EXCEEDED"];
        codes.choose(random).unwrap().to_string()
    };
    // REST methods are named like `jobs.insert`.
    let rest = call.contains('.');
    match random.random_range(0..10) {
        0 | 1 if rest => Action::Http {
            status: 503,
            reason: "backendError".into(),
            message: "on purpose".into(),
        },
        0 | 1 => Action::Status {
            code: code(random),
            message: "on purpose".into(),
            retry_after_ms: None,
            storage_error: None,
        },
        2 => Action::RateLimit {
            retry_after_ms: (!rest).then_some(2),
        },
        3 => Action::Reset,
        4 if !rest => Action::Goaway {
            streams: match random.random() {
                true => Detached::Finish,
                false => Detached::Refuse,
            },
        },
        5 if appends => Action::AppendError {
            code: code(random),
            message: "on purpose".into(),
            storage_error: None,
        },
        6 if appends && random.random_ratio(1, 4) => Action::Hang,
        7 => Action::ApplyTwice,
        8 => Action::Delay {
            ms: random.random_range(1..20),
        },
        _ => Action::LoseAnswer,
    }
}
