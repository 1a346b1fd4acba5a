//! FLOAT64 columns, and others that the engine compares as doubles.

use datafusion::arrow::datatypes::{DataType, i256};
use datafusion::common::ScalarValue;

use super::Subject;
use super::compare::at_thresholds;
use crate::filter::axis::{Axis, Thresholds, literal_at, ten_to};
use crate::filter::condition::{Comparison, Condition, Path, Test};
use crate::filter::literal::Literal;
use crate::filter::predicate::{Leaf, Operand, Step};
use crate::types::{FieldType, TableSchema};

/// The subject, if it is a FLOAT64 column as it is.
fn float_column<'a>(schema: &'a TableSchema, operand: &'a Operand) -> Option<Subject<'a>> {
    let subject = Subject::of(schema, operand)?;
    let same = |step: &Step| matches!(step, Step::Cast(DataType::Float64));
    (*subject.field_type() == FieldType::Float64 && subject.steps.iter().all(same))
        .then_some(subject)
}

/// A double that equality treats alike on both sides.
fn plain(literal: &ScalarValue) -> Option<Literal> {
    match literal {
        ScalarValue::Float64(Some(value)) if *value != 0.0 => Literal::float64(*value),
        _ => None,
    }
}

pub(super) fn equal(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let Leaf::Compare(operand, comparison @ (Comparison::Equal | Comparison::NotEqual), literal) =
        leaf
    else {
        return None;
    };
    let subject = float_column(schema, operand)?;
    let literal = plain(literal)?;
    Some(Condition::equivalent(Test::Compare(
        subject.path,
        *comparison,
        literal,
    )))
}

pub(super) fn in_list(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let Leaf::In(operand, list) = leaf else {
        return None;
    };
    let subject = float_column(schema, operand)?;
    let list = list.iter().map(plain).collect::<Option<Vec<_>>>()?;
    (!list.is_empty()).then(|| Condition::equivalent(Test::In(subject.path, list)))
}

pub(super) fn compare(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let Leaf::Compare(operand, comparison, ScalarValue::Float64(Some(value))) = leaf else {
        return None;
    };
    let path = float_column(schema, operand)?.path;
    Some(Condition::necessary(widened(path, *comparison, *value)?))
}

/// A test that is TRUE wherever the engine's comparison is, whatever order it
/// gives to NaN of either sign and to the two zeros.
fn widened(path: Path, comparison: Comparison, value: f64) -> Option<Test> {
    let or_nan = |test: Test| Test::Any(vec![test, Test::IsNan(path.clone())]);
    if value.is_nan() {
        return (comparison == Comparison::Equal).then_some(Test::IsNan(path));
    }
    let compare = |comparison, value| {
        let literal = Literal::float64(value)?;
        Some(Test::Compare(path.clone(), comparison, literal))
    };
    if value.is_infinite() {
        // Infinity has no literal, but nothing finite lies beyond the largest double.
        return match (comparison, value.is_sign_positive()) {
            (Comparison::Equal, true) => compare(Comparison::Greater, f64::MAX),
            (Comparison::Equal, false) => compare(Comparison::Less, f64::MIN),
            (Comparison::Less, true) => compare(Comparison::LessOrEqual, f64::MAX).map(or_nan),
            (Comparison::Greater, false) => {
                compare(Comparison::GreaterOrEqual, f64::MIN).map(or_nan)
            }
            (Comparison::GreaterOrEqual, true) => {
                compare(Comparison::Greater, f64::MAX).map(or_nan)
            }
            (Comparison::LessOrEqual, false) => compare(Comparison::Less, f64::MIN).map(or_nan),
            _ => None,
        };
    }
    let closed = |open, closed| if value == 0.0 { closed } else { open };
    // Both zeros print as one.
    let value = if value == 0.0 { 0.0 } else { value };
    match comparison {
        Comparison::Equal => compare(Comparison::Equal, value),
        Comparison::NotEqual if value == 0.0 => Some(Test::is_not_null(path.clone())),
        Comparison::NotEqual => compare(Comparison::NotEqual, value),
        Comparison::Less => {
            compare(closed(Comparison::Less, Comparison::LessOrEqual), value).map(or_nan)
        }
        Comparison::LessOrEqual => compare(Comparison::LessOrEqual, value).map(or_nan),
        Comparison::Greater => compare(
            closed(Comparison::Greater, Comparison::GreaterOrEqual),
            value,
        )
        .map(or_nan),
        Comparison::GreaterOrEqual => compare(Comparison::GreaterOrEqual, value).map(or_nan),
    }
}

/// The subject and a finite double, if the engine compares the column as one.
fn as_float<'a>(schema: &'a TableSchema, leaf: &'a Leaf) -> Option<(Subject<'a>, Comparison, f64)> {
    let Leaf::Compare(operand, comparison, ScalarValue::Float64(Some(value))) = leaf else {
        return None;
    };
    let subject = Subject::of(schema, operand)?;
    let [Step::Cast(DataType::Float64)] = subject.steps else {
        return None;
    };
    value.is_finite().then_some((subject, *comparison, *value))
}

pub(super) fn integer_as_float(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let (subject, comparison, value) = as_float(schema, leaf)?;
    let exact_below = f64::from(2_u32).powi(53);
    if *subject.field_type() != FieldType::Int64 || value.abs() >= exact_below {
        return None;
    }
    let (lower, floor) = (value.ceil(), value.floor());
    let point = |value: f64| i256::from_f64(value);
    let thresholds = Thresholds {
        lower: point(lower)?,
        upper: point(floor)?.wrapping_add(i256::ONE),
    };
    at_thresholds(&subject.path, subject.field_type(), comparison, thresholds)
}

pub(super) fn decimal_as_float(schema: &TableSchema, leaf: &Leaf) -> Option<Condition> {
    let (subject, comparison, value) = as_float(schema, leaf)?;
    let Axis::Decimal(scale) = Axis::of(subject.field_type())? else {
        return None;
    };
    let floor = floor_units(value, scale)?;
    // The conversion is wrong by less than one part in 2⁴⁶.
    let magnitude = floor.checked_abs()?;
    let slack = (magnitude >> 46u8).checked_add(i256::ONE)?;
    let low = literal_at(subject.field_type(), floor.checked_sub(slack)?)?;
    let high = literal_at(
        subject.field_type(),
        floor.checked_add(slack)?.checked_add(i256::ONE)?,
    )?;
    let test = |comparison, literal| Test::Compare(subject.path.clone(), comparison, literal);
    let at_least = test(Comparison::GreaterOrEqual, low);
    let at_most = test(Comparison::LessOrEqual, high);
    Some(Condition::necessary(match comparison {
        Comparison::Greater | Comparison::GreaterOrEqual => at_least,
        Comparison::Less | Comparison::LessOrEqual => at_most,
        Comparison::Equal => Test::All(vec![at_least, at_most]),
        Comparison::NotEqual => return None,
    }))
}

/// `value × 10^scale`, rounded down; exact, because a double is a whole number
/// times a power of two.
fn floor_units(value: f64, scale: i8) -> Option<i256> {
    let bits = value.to_bits();
    let fraction = i64::try_from(bits & ((1 << 52) - 1)).expect("52 bits fit");
    let biased = i32::try_from((bits >> 52) & 0x7ff).expect("11 bits fit");
    let (mantissa, exponent) = match biased {
        0 => (fraction, -1_074),
        _ => (fraction | (1 << 52), biased - 1_075),
    };
    let mantissa = if value.is_sign_negative() {
        -mantissa
    } else {
        mantissa
    };
    let scaled = i256::from(mantissa).checked_mul(ten_to(u32::try_from(scale).ok()?)?)?;
    match exponent {
        0.. => scaled.checked_mul(i256::from(2_i64).checked_pow(exponent.unsigned_abs())?),
        -254..=-1 => Some(scaled >> u8::try_from(-exponent).expect("at most 254")),
        _ if scaled.is_negative() => Some(i256::MINUS_ONE),
        _ => Some(i256::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_doubles_are_rounded_down() {
        let units = |value| floor_units(value, 9).map(|units| units.to_string());
        assert_eq!(units(1.5).as_deref(), Some("1500000000"));
        assert_eq!(units(-1.5).as_deref(), Some("-1500000000"));
        assert_eq!(units(0.1).as_deref(), Some("100000000"));
        assert_eq!(units(-0.1).as_deref(), Some("-100000001"));
        assert_eq!(units(5e-324).as_deref(), Some("0"));
        assert_eq!(units(-5e-324).as_deref(), Some("-1"));
        assert_eq!(units(1e300), None);
    }
}
