//! STRING and BYTES columns.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use super::Subject;
use crate::filter::condition::{Comparison, Condition, Test};
use crate::filter::literal::Literal;
use crate::filter::predicate::{Leaf, Operand, Step};
use crate::types::{Field, FieldType, TableSchema};

fn is_collated(field: &Field) -> bool {
    field
        .collation
        .as_deref()
        .is_some_and(|collation| !collation.is_empty())
}

/// The subject, if it is a STRING or BYTES column under nothing but changes of
/// Arrow's representation.
fn text_column<'a>(schema: &'a TableSchema, operand: &'a Operand) -> Option<Subject<'a>> {
    let subject = Subject::of(schema, operand)?;
    let same = |step: &Step| match (subject.field_type(), step) {
        (FieldType::String, Step::Cast(to)) => {
            matches!(
                to,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            )
        }
        (FieldType::Bytes, Step::Cast(to)) => {
            matches!(
                to,
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView
            )
        }
        _ => false,
    };
    let steps_fit = subject.steps.iter().all(same);
    (matches!(subject.field_type(), FieldType::String | FieldType::Bytes) && steps_fit)
        .then_some(subject)
}

fn literal(field_type: &FieldType, scalar: &ScalarValue) -> Option<Literal> {
    match (field_type, scalar) {
        (
            FieldType::String,
            ScalarValue::Utf8(Some(value))
            | ScalarValue::LargeUtf8(Some(value))
            | ScalarValue::Utf8View(Some(value)),
        ) => Some(Literal::string(value.as_str())),
        (
            FieldType::Bytes,
            ScalarValue::Binary(Some(value))
            | ScalarValue::LargeBinary(Some(value))
            | ScalarValue::BinaryView(Some(value)),
        ) => Some(Literal::bytes(value.as_slice())),
        _ => None,
    }
}

/// The elements of an IN list, and whether NULL is among them.
fn elements(field_type: &FieldType, list: &[ScalarValue]) -> Option<(Vec<Literal>, bool)> {
    let literals = list
        .iter()
        .filter(|element| !element.is_null())
        .map(|element| literal(field_type, element))
        .collect::<Option<Vec<_>>>()?;
    let with_null = literals.len() < list.len();
    (!literals.is_empty()).then_some((literals, with_null))
}

pub(super) fn plain(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let (Leaf::Compare(operand, ..) | Leaf::In(operand, _)) = leaf else {
        return None;
    };
    let subject = text_column(schema, operand)?;
    if is_collated(subject.field) {
        return None;
    }
    match leaf {
        Leaf::Compare(_, comparison, scalar) => {
            let literal = literal(subject.field_type(), scalar)?;
            let test = Test::Compare(subject.path, *comparison, literal);
            Some(Condition::equivalent(test))
        }
        Leaf::In(_, list) => {
            let (literals, with_null) = elements(subject.field_type(), list)?;
            let test = Test::In(subject.path, literals);
            Some(match with_null {
                true => Condition::necessary(test),
                false => Condition::equivalent(test),
            })
        }
        _ => None,
    }
}

pub(super) fn collated(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let (Leaf::Compare(operand, Comparison::Equal, _) | Leaf::In(operand, _)) = leaf else {
        return None;
    };
    let subject = text_column(schema, operand)?;
    let test = match leaf {
        Leaf::Compare(_, comparison, scalar) => {
            let literal = literal(subject.field_type(), scalar)?;
            Test::Compare(subject.path, *comparison, literal)
        }
        Leaf::In(_, list) => Test::In(subject.path, elements(&FieldType::String, list)?.0),
        _ => return None,
    };
    Some(Condition::necessary(test))
}

pub(super) fn like(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let Leaf::Like(operand, pattern) = leaf else {
        return None;
    };
    let subject = text_column(schema, operand)?;
    (*subject.field_type() == FieldType::String && !is_collated(subject.field))
        .then(|| Condition::equivalent(Test::Like(subject.path, pattern.clone())))
}
