//! The rules in force, and what they say of a call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::rule::{Action, Rule, RuleError, matches_pattern};
use crate::store::TableRef;

/// Names a rule until it is removed.
pub type RuleId = u64;

/// A rule and what it did so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleState {
    /// Its name.
    pub id: RuleId,
    /// What it says.
    pub rule: Rule,
    /// Calls that it was about.
    pub seen: u64,
    /// Calls that it acted on.
    pub acted: u64,
}

#[derive(Debug)]
struct Rules {
    list: Vec<RuleState>,
    next: RuleId,
    /// Decides `probability`; seeded, so that a run can be repeated.
    random: StdRng,
}

/// The rules in force. None by default.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Rules>,
    any: AtomicBool,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rules: Mutex::new(Rules {
                list: Vec::new(),
                next: 1,
                random: StdRng::seed_from_u64(0),
            }),
            any: AtomicBool::new(false),
        }
    }
}

/// The file form and the HTTP form of rules.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleSet {
    /// Seed of `probability`.
    #[serde(default)]
    pub(super) seed: Option<u64>,
    pub(super) rules: Vec<Rule>,
}

impl RuleSet {
    pub(super) fn parse(text: &[u8]) -> Result<Self, RuleError> {
        let set: Self = serde_json::from_slice(text).map_err(|e| RuleError(e.to_string()))?;
        for (i, rule) in set.rules.iter().enumerate() {
            rule.check()
                .map_err(|e| RuleError(format!("rules[{i}]: {e}")))?;
        }
        Ok(set)
    }
}

/// What happens to one call.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Before anything else.
    pub(super) delay: Duration,
    /// Instead of, around or after the call.
    pub(super) action: Option<Action>,
}

impl Faults {
    /// Adds a rule after those in force.
    pub fn add(&self, rule: Rule) -> Result<RuleId, RuleError> {
        rule.check()?;
        let mut rules = self.rules.lock();
        let id = rules.next;
        rules.next += 1;
        rules.list.push(RuleState {
            id,
            rule,
            seen: 0,
            acted: 0,
        });
        self.any.store(true, Ordering::Release);
        Ok(id)
    }

    /// Adds the rules of a file's text: `{"seed": 7, "rules": […]}`; all of them or,
    /// when one is wrong, none.
    pub fn add_all(&self, text: &[u8]) -> Result<Vec<RuleId>, RuleError> {
        let set = RuleSet::parse(text)?;
        if let Some(seed) = set.seed {
            self.rules.lock().random = StdRng::seed_from_u64(seed);
        }
        set.rules.into_iter().map(|rule| self.add(rule)).collect()
    }

    /// Removes a rule; `false` when there is none of that name.
    pub fn remove(&self, id: RuleId) -> bool {
        let mut rules = self.rules.lock();
        let before = rules.list.len();
        rules.list.retain(|r| r.id != id);
        self.any.store(!rules.list.is_empty(), Ordering::Release);
        rules.list.len() < before
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.rules.lock().list.clear();
        self.any.store(false, Ordering::Release);
    }

    /// The rules in force, in order.
    pub fn rules(&self) -> Vec<RuleState> {
        self.rules.lock().list.clone()
    }

    /// One rule and what it did so far.
    pub fn rule(&self, id: RuleId) -> Option<RuleState> {
        self.rules.lock().list.iter().find(|r| r.id == id).cloned()
    }

    /// Whether there is any rule.
    pub(super) fn is_armed(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// What happens to a call of `method` on `table`. Rules are asked in order:
    /// delays add up, and the first other rule that acts ends the search.
    pub(super) fn decide(&self, method: &str, table: Option<&TableRef>) -> Decision {
        let name = table.map(|t| format!("{}.{}.{}", t.project, t.dataset, t.table));
        let mut decision = Decision::default();
        let mut rules = self.rules.lock();
        let Rules { list, random, .. } = &mut *rules;
        for state in list {
            let rule = &state.rule;
            let on_table = match (&rule.table, &name) {
                (None, _) => true,
                (Some(pattern), Some(name)) => matches_pattern(pattern, name),
                (Some(_), None) => false,
            };
            if !on_table || !matches_pattern(&rule.method, method) {
                continue;
            }
            state.seen += 1;
            let due = state.seen > rule.skip
                && (state.seen - rule.skip - 1).is_multiple_of(rule.every)
                && rule.times.is_none_or(|times| state.acted < times);
            if !due || !(rule.probability >= 1.0 || random.random::<f64>() < rule.probability) {
                continue;
            }
            state.acted += 1;
            tracing::info!(
                target: "bigquery_local::faults",
                rule = state.id,
                method,
                table = name.as_deref(),
                action = ?rule.action,
                "fault"
            );
            match &rule.action {
                Action::Delay { ms } => decision.delay += Duration::from_millis(*ms),
                other => {
                    decision.action = Some(other.clone());
                    break;
                }
            }
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acts(faults: &Faults, method: &str, table: Option<&TableRef>) -> bool {
        faults.decide(method, table) != Decision::default()
    }

    #[test]
    fn which_calls_are_due() {
        let faults = Faults::default();
        assert!(!faults.is_armed());
        let mut rule = Rule::once("ReadRows", Action::Hang).after(2);
        rule.every = 3;
        rule.times = Some(2);
        let id = faults.add(rule).unwrap();
        let due: Vec<usize> = (0..12)
            .filter(|_| true)
            .filter(|_| acts(&faults, "ReadRows", None))
            .collect();
        assert_eq!(due, [2, 5]);
        assert!(!acts(&faults, "SplitReadStream", None));
        let state = faults.rule(id).unwrap();
        assert_eq!((state.seen, state.acted), (12, 2));
        assert!(faults.remove(id));
        assert!(!faults.remove(id) && !faults.is_armed());
    }

    #[test]
    fn tables_and_order() {
        let faults = Faults::default();
        let delay = |ms| Rule::once("*", Action::Delay { ms }).always();
        faults.add(delay(1)).unwrap();
        faults
            .add(
                Rule::once("tables.get", Action::Hang)
                    .always()
                    .on_table("p.d.*"),
            )
            .unwrap();
        faults.add(delay(10)).unwrap();
        let on = faults.decide("tables.get", Some(&TableRef::new("p", "d", "t")));
        assert_eq!((on.delay.as_millis(), on.action), (1, Some(Action::Hang)));
        let off = faults.decide("tables.get", Some(&TableRef::new("p", "e", "t")));
        assert_eq!((off.delay.as_millis(), off.action), (11, None));
        assert_eq!(faults.decide("tables.get", None).delay.as_millis(), 11);
    }

    #[test]
    fn chance_repeats_with_its_seed() {
        let run = |seed: u64| {
            let faults = Faults::default();
            let text = format!(
                r#"{{"seed": {seed}, "rules": [{{"method": "*", "times": null, "probability": 0.5, "action": "hang"}}]}}"#
            );
            faults.add_all(text.as_bytes()).unwrap();
            (0..64)
                .map(|_| acts(&faults, "ReadRows", None))
                .collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        assert!(run(1).contains(&true) && run(1).contains(&false));
    }

    #[test]
    fn a_wrong_rule_keeps_all_of_them_out() {
        let faults = Faults::default();
        let text = br#"{"rules": [{"method": "ReadRows", "action": "hang"}, {"method": "x", "action": "hang"}]}"#;
        let error = faults.add_all(text).unwrap_err();
        assert!(error.to_string().starts_with("rules[1]: "), "{error}");
        assert!(faults.rules().is_empty());
    }
}
