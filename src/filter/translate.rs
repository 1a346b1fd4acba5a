//! Predicates to conditions: AND, OR and NOT around the rules.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, lit};

use super::condition::{Comparison, Condition, Necessary, Test};
use super::predicate::{Leaf, Operand, Predicate, Step, Truth};
use super::rules::RULES;
use super::shape::predicate;
use crate::types::{Field, FieldType, Mode, TableSchema};

/// The condition that a logical predicate over the table puts on its rows, or
/// None where nothing can be said.
#[cfg(test)]
pub(crate) fn translate(schema: &TableSchema, expr: &Expr) -> Option<Condition> {
    condition(schema, &predicate(expr))
}

/// The condition that a physical predicate over the table's columns puts on its
/// rows, or None where nothing can be said. The parts of it that have no
/// translation, such as look-ups in a hash table, are left out; a filter that is
/// still to be completed is taken as it stands.
pub(crate) fn translate_physical(
    schema: &TableSchema,
    expr: &Arc<dyn PhysicalExpr>,
) -> Option<Necessary> {
    Some(condition(schema, &predicate(expr))?.weaken())
}

/// Whether a condition can say which values of `key` are wanted, an expression over the
/// columns of `arrow`.
pub(crate) fn takes_values(
    schema: &TableSchema,
    key: &Arc<dyn PhysicalExpr>,
    arrow: &Schema,
) -> bool {
    let value = key
        .data_type(arrow)
        .and_then(|data_type| ScalarValue::new_default(&data_type));
    // What has no sample has to show itself.
    let Ok(value) = value else {
        return true;
    };
    [Operator::Eq, Operator::GtEq].into_iter().any(|operator| {
        let test = BinaryExpr::new(Arc::clone(key), operator, lit(value.clone()));
        let test: Arc<dyn PhysicalExpr> = Arc::new(test);
        translate_physical(schema, &test).is_some()
    })
}

/// Who decides whether a row passes a filter, and what is said of the filter.
#[derive(Debug)]
pub(crate) enum Evaluator {
    /// BigQuery alone, by a condition that keeps the same rows, because the engine cannot
    /// evaluate the filter on every value that the columns may hold: it turns a date into
    /// nanoseconds, which end in the year 2262, and fails beyond.
    Service(Condition),
    /// BigQuery, by a condition that keeps the same rows; and whoever promised the filter,
    /// where BigQuery is not told.
    Either(Condition),
    /// The engine, whatever BigQuery is told.
    Engine(Option<Condition>),
}

/// Who evaluates a filter over the table.
pub(crate) fn evaluator(schema: &TableSchema, expr: &Expr) -> Evaluator {
    let predicate = predicate(expr);
    match condition(schema, &predicate) {
        Some(condition @ Condition::Equivalent(_)) if overflows(&predicate) => {
            Evaluator::Service(condition)
        }
        Some(condition @ Condition::Equivalent(_)) if !may_fail(schema, &predicate) => {
            Evaluator::Either(condition)
        }
        condition => Evaluator::Engine(condition),
    }
}

/// Whether a leaf takes a column's values to nanoseconds.
fn overflows(predicate: &Predicate) -> bool {
    any_operand(predicate, &|operand| {
        operand.steps.iter().any(|step| {
            matches!(
                step,
                Step::Cast(DataType::Timestamp(TimeUnit::Nanosecond, _))
            )
        })
    })
}

/// Whether the engine may fail to evaluate a predicate on values of the columns, because a
/// cast has no room for all of them. What it evaluates beside others it may not reach.
pub(super) fn may_fail(schema: &TableSchema, predicate: &Predicate) -> bool {
    any_operand(predicate, &|operand| {
        let Some(field) = schema.field_at(&operand.path.0) else {
            return true;
        };
        operand.steps.iter().any(|step| match step {
            Step::Cast(to) => !has_room(&field.field_type, to),
            Step::TryCast(_) | Step::Truncate(_) | Step::Year => false,
        })
    })
}

/// How pseudo-columns begin; no other column may
/// (<https://cloud.google.com/bigquery/docs/schemas#column_names>).
const PSEUDO: &str = "_PARTITION";

/// The first column that a filter is about and that is not in `now` what it was in `then`, so
/// that what was said about it then may be wrong.
pub(crate) fn changed<'a>(
    then: &'a TableSchema,
    now: &TableSchema,
    expr: &Expr,
) -> Option<&'a Field> {
    let found = RefCell::new(None);
    any_operand(&predicate(expr), &|operand| {
        let path = &operand.path.0;
        let (Some(was), is) = (then.field_at(path), now.field_at(path)) else {
            return false;
        };
        // Pseudo-columns are in no schema and stay what they are.
        if is.is_none() && was.name.starts_with(PSEUDO) {
            return false;
        }
        let same = is.is_some_and(|is| {
            is.field_type == was.field_type
                && is.collation == was.collation
                && (is.mode == Mode::Repeated) == (was.mode == Mode::Repeated)
        });
        if !same {
            found.replace(Some(was));
        }
        !same
    });
    found.into_inner()
}

/// Whether a type has room for all values of a column.
fn has_room(column: &FieldType, to: &DataType) -> bool {
    let whole_digits = match column {
        FieldType::Int64 => 19,
        FieldType::Numeric(None) => 29,
        FieldType::BigNumeric(None) => 39,
        FieldType::Numeric(Some(of)) | FieldType::BigNumeric(Some(of)) => {
            i16::from(of.precision) - i16::from(of.scale)
        }
        _ => 0,
    };
    match to {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            i16::from(*precision) - i16::from(*scale) >= whole_digits
        }
        DataType::Float16 => false,
        to => !to.is_integer() || *to == DataType::Int64 && *column == FieldType::Int64,
    }
}

/// Whether `test` holds for something that a leaf is about.
fn any_operand(predicate: &Predicate, test: &impl Fn(&Operand) -> bool) -> bool {
    match predicate {
        Predicate::All(parts) | Predicate::Any(parts) => {
            parts.iter().any(|part| any_operand(part, test))
        }
        Predicate::Not(inner) | Predicate::Implies(inner) | Predicate::Leaf(Leaf::Is(inner, _)) => {
            any_operand(inner, test)
        }
        Predicate::Leaf(
            Leaf::Value(operand)
            | Leaf::Compare(operand, ..)
            | Leaf::Same(operand, _)
            | Leaf::In(operand, _)
            | Leaf::IsNull(operand)
            | Leaf::Like(operand, _),
        ) => test(operand),
        Predicate::Constant(_) | Predicate::Other => false,
    }
}

/// Whether a predicate is asked for or its negation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sense {
    Positive,
    Negative,
}

impl Sense {
    fn reversed(self) -> Self {
        match self {
            Self::Positive => Self::Negative,
            Self::Negative => Self::Positive,
        }
    }
}

/// The condition of a predicate, whatever it was written as.
fn condition(schema: &TableSchema, predicate: &Predicate) -> Option<Condition> {
    directed(schema, predicate, Sense::Positive)
}

/// The condition of `predicate` or of `NOT predicate`. NOT moves inwards (De
/// Morgan's laws hold with three values); what is left is a leaf.
fn directed(schema: &TableSchema, predicate: &Predicate, sense: Sense) -> Option<Condition> {
    let parts = |parts: &[Predicate]| -> Vec<Option<Condition>> {
        let part = |part| directed(schema, part, sense);
        parts.iter().map(part).collect()
    };
    match (predicate, sense) {
        (Predicate::Not(inner), sense) => directed(schema, inner, sense.reversed()),
        (Predicate::All(found), Sense::Positive) | (Predicate::Any(found), Sense::Negative) => {
            conjunction(parts(found))
        }
        (Predicate::Any(found), Sense::Positive) | (Predicate::All(found), Sense::Negative) => {
            let all = parts(found).into_iter().collect::<Option<Vec<_>>>()?;
            (!all.is_empty()).then(|| Condition::any(all))
        }
        (Predicate::Constant(Some(value)), sense) => {
            let value = *value == (sense == Sense::Positive);
            Some(Condition::equivalent(Test::Constant(value)))
        }
        // NULL, and so is its negation: never TRUE.
        (Predicate::Constant(None), _) => Some(Condition::necessary(Test::Constant(false))),
        (Predicate::Implies(wider), Sense::Positive) => {
            Some(directed(schema, wider, sense)?.weaken().into())
        }
        (Predicate::Leaf(found), Sense::Positive) => affirmed(schema, found),
        (Predicate::Leaf(found), Sense::Negative) => negated(schema, found),
        (Predicate::Implies(_), Sense::Negative) | (Predicate::Other, _) => None,
    }
}

fn affirmed(schema: &TableSchema, found: &Leaf) -> Option<Condition> {
    match found {
        // Where `inner` is NULL, IS is FALSE and the condition may be NULL: both
        // drop the row, but NOT would tell them apart.
        Leaf::Is(inner, truth) => {
            let inner = match truth {
                Truth::True => directed(schema, inner, Sense::Positive),
                Truth::False => directed(schema, inner, Sense::Negative),
                Truth::Unknown => return unknown(schema, inner),
            };
            Some(inner?.weaken().into())
        }
        Leaf::Same(operand, literal) if literal.is_null() => {
            leaf(schema, &Leaf::IsNull(operand.clone()))
        }
        Leaf::Same(operand, literal) => {
            let equal = Leaf::Compare(operand.clone(), Comparison::Equal, literal.clone());
            Some(leaf(schema, &equal)?.weaken().into())
        }
        other => leaf(schema, other),
    }
}

fn negated(schema: &TableSchema, found: &Leaf) -> Option<Condition> {
    match found {
        Leaf::Compare(operand, comparison, literal) => {
            let opposite = Leaf::Compare(operand.clone(), comparison.negated(), literal.clone());
            leaf(schema, &opposite)
        }
        Leaf::Same(operand, literal) => {
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
        Leaf::Is(inner, truth) => {
            // TRUE where `inner` has the other truth value or none.
            let other = match truth {
                Truth::True => directed(schema, inner, Sense::Negative)?,
                Truth::False => directed(schema, inner, Sense::Positive)?,
                Truth::Unknown => {
                    return match unknown(schema, inner)? {
                        Condition::Equivalent(unknown) => Some(unknown.not().into()),
                        Condition::Necessary(_) => None,
                    };
                }
            };
            Some(Condition::any(vec![other, unknown(schema, inner)?]))
        }
        other => match leaf(schema, other)? {
            Condition::Equivalent(condition) => Some(condition.not().into()),
            Condition::Necessary(_) => None,
        },
    }
}

/// `predicate IS UNKNOWN`, which is never NULL itself.
fn unknown(schema: &TableSchema, predicate: &Predicate) -> Option<Condition> {
    leaf(schema, &Leaf::IsNull(subject_of(predicate)?.clone()))
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
        | Predicate::Constant(_)
        | Predicate::Implies(_)
        | Predicate::Other => None,
    }
}

fn leaf(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    RULES.iter().find_map(|rule| (rule.apply)(schema, leaf))
}

/// What is known of a conjunction's parts.
fn conjunction(parts: Vec<Option<Condition>>) -> Option<Condition> {
    let count = parts.len();
    let known: Vec<_> = parts.into_iter().flatten().collect();
    if known.is_empty() {
        return None;
    }
    let complete = known.len() == count;
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
