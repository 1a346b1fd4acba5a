//! BOOL, NULL, and everything that lies on a grid.

use datafusion::arrow::datatypes::{DataType, i256};
use datafusion::common::ScalarValue;

use super::Subject;
use crate::filter::axis::{Thresholds, literal_at, thresholds};
use crate::filter::condition::{Comparison, Condition, Path, Test};
use crate::filter::predicate::{Leaf, Operand, Step};
use crate::types::{FieldType, TableSchema};

pub(super) fn bool_value(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let Leaf::Value(operand) = leaf else {
        return None;
    };
    bool_column(schema, operand)
}

pub(super) fn bool_compare(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let Leaf::Compare(operand, comparison, ScalarValue::Boolean(Some(value))) = leaf else {
        return None;
    };
    let wanted = match comparison {
        Comparison::Equal => *value,
        Comparison::NotEqual => !*value,
        Comparison::Less
        | Comparison::LessOrEqual
        | Comparison::Greater
        | Comparison::GreaterOrEqual => return None,
    };
    let column = bool_column(schema, operand)?;
    match (wanted, column) {
        (true, column) => Some(column),
        (false, Condition::Equivalent(column)) => Some(column.not().into()),
        (false, Condition::Necessary(_)) => None,
    }
}

fn bool_column(schema: &TableSchema, operand: &Operand) -> Option<Condition> {
    let subject = Subject::of(schema, operand)?;
    let same = |step: &Step| matches!(step, Step::Cast(DataType::Boolean));
    (*subject.field_type() == FieldType::Bool && subject.steps.iter().all(same))
        .then(|| Condition::equivalent(Test::Column(subject.path)))
}

pub(super) fn is_null(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let Leaf::IsNull(operand) = leaf else {
        return None;
    };
    let subject = Subject::of(schema, operand)?;
    let scalar = match subject.field_type() {
        FieldType::Int64
        | FieldType::Float64
        | FieldType::Bool
        | FieldType::String
        | FieldType::Bytes
        | FieldType::Numeric(_)
        | FieldType::BigNumeric(_)
        | FieldType::Date
        | FieldType::Time
        | FieldType::DateTime
        | FieldType::Timestamp(_) => true,
        FieldType::Geography
        | FieldType::Json
        | FieldType::Interval
        | FieldType::Range(_)
        | FieldType::Struct(_)
        | FieldType::Unsupported(_) => false,
    };
    // TRY_CAST makes NULLs of its own.
    (scalar && !subject.may_lose_values).then(|| Condition::equivalent(Test::IsNull(subject.path)))
}

pub(super) fn ordered(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let Leaf::Compare(operand, comparison, literal) = leaf else {
        return None;
    };
    let subject = Subject::of(schema, operand)?;
    let thresholds = thresholds(subject.field_type(), subject.steps, literal)?;
    let condition = at_thresholds(&subject.path, subject.field_type(), *comparison, thresholds)?;
    Some(subject.claim(condition))
}

pub(super) fn ordered_in(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let Leaf::In(operand, list) = leaf else {
        return None;
    };
    let subject = Subject::of(schema, operand)?;
    let mut points = Vec::new();
    let mut ranges = Vec::new();
    let mut with_null = false;
    for element in list {
        if element.is_null() {
            with_null = true;
            continue;
        }
        let found = thresholds(subject.field_type(), subject.steps, element)?;
        match found.point() {
            Some(point) => points.push(literal_at(subject.field_type(), point)?),
            None if found.lower == found.upper => {}
            None => ranges.push(at_thresholds(
                &subject.path,
                subject.field_type(),
                Comparison::Equal,
                found,
            )?),
        }
    }
    if !points.is_empty() {
        let points = Test::In(subject.path.clone(), points);
        ranges.insert(0, Condition::equivalent(points));
    }
    if ranges.is_empty() {
        return None;
    }
    let condition = subject.claim(Condition::any(ranges));
    Some(match with_null {
        true => condition.weaken().into(),
        false => condition,
    })
}

/// `f(x) comparison c`, given where `c` lies on the grid of `x`.
pub(super) fn at_thresholds(
    path: &Path,
    field_type: &FieldType,
    comparison: Comparison,
    thresholds: Thresholds,
) -> Option<Condition> {
    let test = |comparison, point: i256| {
        let literal = literal_at(field_type, point)?;
        let test = Test::Compare(path.clone(), comparison, literal);
        Some(Condition::equivalent(test))
    };
    if let Some(point) = thresholds.point() {
        return test(comparison, point);
    }
    // A bound just beyond the type's domain can be said from inside.
    let from = |point: i256| {
        test(Comparison::GreaterOrEqual, point)
            .or_else(|| test(Comparison::Greater, point.checked_sub(i256::ONE)?))
    };
    let below = |point: i256| {
        test(Comparison::Less, point)
            .or_else(|| test(Comparison::LessOrEqual, point.checked_sub(i256::ONE)?))
    };
    let Thresholds { lower, upper } = thresholds;
    let nothing_equals = lower == upper;
    match comparison {
        Comparison::GreaterOrEqual => from(lower),
        Comparison::Greater => from(upper),
        Comparison::Less => below(lower),
        Comparison::LessOrEqual => below(upper),
        Comparison::Equal if nothing_equals => None,
        Comparison::Equal => Some(Condition::all(vec![from(lower)?, below(upper)?])),
        // TRUE for every value, and NULL for NULL.
        Comparison::NotEqual if nothing_equals => {
            Some(Condition::necessary(Test::is_not_null(path.clone())))
        }
        Comparison::NotEqual => Some(Condition::any(vec![below(lower)?, from(upper)?])),
    }
}
