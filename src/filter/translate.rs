//! Predicates to conditions: AND, OR and NOT around the rules.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::Expr;

use super::condition::{Comparison, Condition, Test};
use super::logical;
use super::predicate::{Leaf, Operand, Predicate, Step, Truth};
use super::rules::RULES;
use crate::types::TableSchema;

/// The condition that a logical predicate over the table puts on its rows, or
/// None where nothing can be said.
pub(crate) fn translate(schema: &TableSchema, expr: &Expr) -> Option<Condition> {
    condition(schema, &logical::predicate(expr))
}

/// The condition that has to stand in for a predicate, because the engine cannot
/// evaluate the predicate on every value that the columns may hold: it turns a
/// date into nanoseconds, which end in the year 2262, and fails beyond. None
/// where the engine can, or where no condition keeps exactly the same rows.
pub(crate) fn replacement(schema: &TableSchema, expr: &Expr) -> Option<Condition> {
    let predicate = logical::predicate(expr);
    if !overflows(&predicate) {
        return None;
    }
    let condition = condition(schema, &predicate)?;
    matches!(condition, Condition::Equivalent(_)).then_some(condition)
}

/// Whether a leaf takes a column's values to nanoseconds.
fn overflows(predicate: &Predicate) -> bool {
    let to_nanos = |operand: &Operand| {
        operand.steps.iter().any(|step| {
            matches!(
                step,
                Step::Cast(DataType::Timestamp(TimeUnit::Nanosecond, _))
            )
        })
    };
    match predicate {
        Predicate::All(parts) | Predicate::Any(parts) => parts.iter().any(overflows),
        Predicate::Not(inner) | Predicate::Leaf(Leaf::Is(inner, _)) => overflows(inner),
        Predicate::Leaf(
            Leaf::Value(operand)
            | Leaf::Compare(operand, ..)
            | Leaf::Same(operand, _)
            | Leaf::In(operand, _)
            | Leaf::IsNull(operand)
            | Leaf::Like(operand, _),
        ) => to_nanos(operand),
        Predicate::Other => false,
    }
}

/// The condition of a predicate, whatever it was written as.
pub(crate) fn condition(schema: &TableSchema, predicate: &Predicate) -> Option<Condition> {
    match predicate {
        Predicate::All(parts) => {
            let known: Vec<_> = parts
                .iter()
                .filter_map(|part| condition(schema, part))
                .collect();
            let complete = known.len() == parts.len();
            conjunction(known, complete)
        }
        Predicate::Any(parts) => {
            let known: Option<Vec<_>> = parts.iter().map(|part| condition(schema, part)).collect();
            known.filter(|known| !known.is_empty()).map(Condition::any)
        }
        Predicate::Not(inner) => negation(schema, inner),
        Predicate::Leaf(Leaf::Is(inner, Truth::True)) => {
            // Never NULL, unlike the condition for `inner`.
            Some(condition(schema, inner)?.weaken().into())
        }
        Predicate::Leaf(Leaf::Is(inner, Truth::False)) => {
            Some(negation(schema, inner)?.weaken().into())
        }
        Predicate::Leaf(Leaf::Same(operand, literal)) if literal.is_null() => {
            leaf(schema, &Leaf::IsNull(operand.clone()))
        }
        Predicate::Leaf(Leaf::Same(operand, literal)) => {
            let equal = Leaf::Compare(operand.clone(), Comparison::Equal, literal.clone());
            Some(leaf(schema, &equal)?.weaken().into())
        }
        Predicate::Leaf(found) => leaf(schema, found),
        Predicate::Other => None,
    }
}

/// The condition of `NOT predicate`. NOT moves inwards (De Morgan's laws hold
/// with three values); what is left is a leaf.
fn negation(schema: &TableSchema, predicate: &Predicate) -> Option<Condition> {
    let not = |part: &Predicate| Predicate::Not(Box::new(part.clone()));
    match predicate {
        Predicate::Not(inner) => condition(schema, inner),
        Predicate::All(parts) => {
            condition(schema, &Predicate::Any(parts.iter().map(not).collect()))
        }
        Predicate::Any(parts) => {
            condition(schema, &Predicate::All(parts.iter().map(not).collect()))
        }
        Predicate::Leaf(Leaf::Compare(operand, comparison, literal)) => {
            let negated = Leaf::Compare(operand.clone(), comparison.negated(), literal.clone());
            leaf(schema, &negated)
        }
        Predicate::Leaf(Leaf::Same(operand, literal)) => {
            let is_null = leaf(schema, &Leaf::IsNull(operand.clone()));
            if literal.is_null() {
                return match is_null? {
                    Condition::Equivalent(is_null) => Some(is_null.not().into()),
                    Condition::Necessary(_) => None,
                };
            }
            let differs = Leaf::Compare(operand.clone(), Comparison::NotEqual, literal.clone());
            // Like the predicate, never NULL.
            Some(Condition::any(vec![leaf(schema, &differs)?, is_null?]))
        }
        Predicate::Leaf(Leaf::Is(inner, truth)) => {
            // TRUE where `inner` has the other truth value or none.
            let other = match truth {
                Truth::True => negation(schema, inner)?,
                Truth::False => condition(schema, inner)?,
            };
            let unknown = leaf(schema, &Leaf::IsNull(subject_of(inner)?.clone()))?;
            Some(Condition::any(vec![other, unknown]))
        }
        Predicate::Leaf(found) => match leaf(schema, found)? {
            Condition::Equivalent(condition) => Some(condition.not().into()),
            Condition::Necessary(_) => None,
        },
        Predicate::Other => None,
    }
}

/// The operand whose NULL is the only way for `predicate` to be NULL.
fn subject_of(predicate: &Predicate) -> Option<&Operand> {
    match predicate {
        Predicate::Not(inner) => subject_of(inner),
        Predicate::Leaf(Leaf::Compare(operand, _, literal)) if !literal.is_null() => Some(operand),
        Predicate::Leaf(Leaf::In(operand, list)) => list
            .iter()
            .all(|element| !element.is_null())
            .then_some(operand),
        Predicate::Leaf(Leaf::Value(operand) | Leaf::Like(operand, _)) => Some(operand),
        Predicate::Leaf(Leaf::Compare(..) | Leaf::Same(..) | Leaf::IsNull(_) | Leaf::Is(..))
        | Predicate::All(_)
        | Predicate::Any(_)
        | Predicate::Other => None,
    }
}

fn leaf(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    RULES.iter().find_map(|rule| (rule.apply)(schema, leaf))
}

fn conjunction(known: Vec<Condition>, complete: bool) -> Option<Condition> {
    if known.is_empty() {
        return None;
    }
    let condition = Condition::all(known);
    Some(match complete {
        true => condition,
        false => condition.weaken().into(),
    })
}

/// The conjuncts of a condition, each to be admitted by itself.
pub(crate) fn conjuncts(condition: &Condition) -> Vec<&Test> {
    match condition.test() {
        Test::All(tests) => tests.iter().collect(),
        other => vec![other],
    }
}
