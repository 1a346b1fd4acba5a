//! Whatever the printer may write is read back as what was meant. The matches
//! have no arm for the rest, so that a new kind of test or literal has to be
//! tried here too.

use datafusion::arrow::datatypes::i256;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Decimal, Node, Operator, Value};
use crate::filter::condition::{Comparison, Path, Pattern, Piece, Test};
use crate::filter::literal::{
    DAY_MICROS, Literal, MAX_DATE, MAX_MICROS, MIN_DATE, MIN_MICROS, Value as Meant,
};

fn name(path: &Path) -> String {
    path.0.join(".")
}

/// A pattern in LIKE's own spelling.
fn spelled(pattern: &Pattern) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::One => "_".to_string(),
        Piece::Many => "%".to_string(),
        Piece::Text(text) => text
            .replace('\\', "\\\\")
            .replace('%', "\\%")
            .replace('_', "\\_"),
    };
    pattern.0.iter().map(piece).collect()
}

/// Units of a decimal with so many digits behind the point.
fn decimal(units: i256, scale: usize) -> Value {
    let text = units.to_string();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    Value::Decimal(Decimal::parse(&format!("{sign}{whole}.{fraction}")))
}

fn meant(literal: &Literal) -> Value {
    match literal.value() {
        Meant::Int64(value) => Value::Int(*value),
        Meant::Float64(value) => Value::Float(*value),
        Meant::String(value) => Value::Text(value.clone()),
        Meant::Bytes(value) => Value::Bytes(value.clone()),
        Meant::Date(value) => Value::Date((*value).into()),
        Meant::Time(value) => Value::Time(*value),
        Meant::DateTime(value) => Value::DateTime(*value),
        Meant::Timestamp(value) => Value::Timestamp(*value),
        Meant::Numeric(units) => decimal(i256::from_i128(*units), 9),
        Meant::BigNumeric(units) => decimal(*units, 38),
    }
}

fn node(test: &Test) -> Node {
    match test {
        Test::Column(path) => Node::Column(name(path)),
        Test::Compare(path, comparison, literal) => {
            let operator = match comparison {
                Comparison::Equal => Operator::Equal,
                Comparison::NotEqual => Operator::NotEqual,
                Comparison::Less => Operator::Less,
                Comparison::LessOrEqual => Operator::LessOrEqual,
                Comparison::Greater => Operator::Greater,
                Comparison::GreaterOrEqual => Operator::GreaterOrEqual,
            };
            Node::Compare(name(path), operator, meant(literal))
        }
        Test::In(path, list) => Node::In(name(path), list.iter().map(meant).collect()),
        Test::IsNull(path) => Node::IsNull(name(path)),
        Test::IsNan(path) => Node::IsNan(name(path)),
        Test::Like(path, pattern) => Node::Like(name(path), spelled(pattern)),
        Test::All(tests) => Node::And(tests.iter().map(node).collect()),
        Test::Any(tests) => Node::Or(tests.iter().map(node).collect()),
        Test::Not(test) => Node::Not(Box::new(node(test))),
        Test::Constant(value) => Node::Constant(*value),
    }
}

fn paths() -> impl Strategy<Value = Path> {
    vec("[^.]{1,6}", 1..4).prop_map(Path)
}

fn literals() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any::<i64>().prop_map(Literal::int64),
        any::<f64>().prop_filter_map("finite", Literal::float64),
        any::<String>().prop_map(Literal::string),
        vec(any::<u8>(), 0..8).prop_map(Literal::bytes),
        (MIN_DATE..=MAX_DATE).prop_filter_map("a date", |days| Literal::date(days.into())),
        (0..DAY_MICROS).prop_filter_map("a time", Literal::time),
        (MIN_MICROS..=MAX_MICROS).prop_filter_map("in range", Literal::datetime),
        (MIN_MICROS..=MAX_MICROS).prop_filter_map("in range", Literal::timestamp),
        any::<i128>().prop_filter_map("38 digits", |units| Literal::numeric(i256::from_i128(
            units
        ))),
        any::<(u128, i128)>()
            .prop_map(|(low, high)| Literal::bignumeric(i256::from_parts(low, high))),
    ]
}

fn comparisons() -> impl Strategy<Value = Comparison> {
    prop_oneof![
        Just(Comparison::Equal),
        Just(Comparison::NotEqual),
        Just(Comparison::Less),
        Just(Comparison::LessOrEqual),
        Just(Comparison::Greater),
        Just(Comparison::GreaterOrEqual),
    ]
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let piece = prop_oneof![
        Just(Piece::One),
        Just(Piece::Many),
        any::<String>().prop_map(Piece::Text),
    ];
    vec(piece, 0..5).prop_map(Pattern)
}

fn tests() -> impl Strategy<Value = Test> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Test::Constant),
        paths().prop_map(Test::Column),
        paths().prop_map(Test::IsNull),
        paths().prop_map(Test::IsNan),
        (paths(), comparisons(), literals())
            .prop_map(|(path, comparison, literal)| { Test::Compare(path, comparison, literal) }),
        (paths(), vec(literals(), 1..5)).prop_map(|(path, list)| Test::In(path, list)),
        (paths(), patterns()).prop_map(|(path, pattern)| Test::Like(path, pattern)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(Test::All),
            vec(inner.clone(), 2..4).prop_map(Test::Any),
            inner.prop_map(|test| Test::Not(Box::new(test))),
        ]
    })
}

proptest! {
    #[test]
    fn everything_printed_is_read_back(test in tests()) {
        let text = test.to_string();
        prop_assert_eq!(Node::parse(&text), node(&test), "{}", text);
    }
}
