//! An evaluator of restriction texts for tests, written from GoogleSQL's
//! semantics: three-valued logic, NaN that compares with nothing, zeros that are
//! equal. It reads text, so that the printer is under test too.

use std::cmp::Ordering;
use std::collections::HashMap;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

/// A value of a row. Decimals are in units of 10⁻³⁸ as text of equal length
/// would be too clumsy: they are compared as sign and digits.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// A STRING of a column whose collation ignores case.
    FoldedText(String),
    /// A value that nothing may be compared with.
    Opaque,
    Bytes(Vec<u8>),
    Date(i64),
    Time(i64),
    DateTime(i64),
    Timestamp(i64),
    Decimal(Decimal),
}

/// A decimal as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decimal {
    negative: bool,
    whole: String,
    fraction: String,
}

impl Decimal {
    pub(super) fn parse(text: &str) -> Self {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = whole.trim_start_matches('0').to_string();
        let fraction = fraction.trim_end_matches('0').to_string();
        Self {
            negative: negative && !(whole.is_empty() && fraction.is_empty()),
            whole,
            fraction,
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        let magnitude = || {
            let by_whole = (self.whole.len(), &self.whole).cmp(&(other.whole.len(), &other.whole));
            by_whole.then_with(|| self.fraction.cmp(&other.fraction))
        };
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => magnitude(),
            (true, true) => magnitude().reverse(),
        }
    }
}

pub(super) type Row = HashMap<String, Value>;

/// A restriction, read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Constant(bool),
    /// A name, segments joined by dots.
    Column(String),
    Compare(String, Operator, Value),
    In(String, Vec<Value>),
    IsNull(String),
    IsNan(String),
    Like(String, String),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    /// NaN is not equal to anything, and in no order with anything.
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

impl Node {
    /// Reads a restriction; none means TRUE.
    pub(super) fn parse(restriction: &str) -> Self {
        if restriction.is_empty() {
            return Self::Constant(true);
        }
        let mut parser = Parser { rest: restriction };
        let node = parser.or();
        parser.skip();
        assert!(parser.rest.is_empty(), "left over: {}", parser.rest);
        node
    }

    /// Whether it is TRUE for the row.
    pub(super) fn accepts(&self, row: &Row) -> bool {
        self.value(row) == Some(true)
    }

    /// TRUE, FALSE, or None for NULL.
    pub(super) fn value(&self, row: &Row) -> Option<bool> {
        let column = |name: &String| row.get(name).unwrap_or_else(|| panic!("no column {name}"));
        match self {
            Self::Constant(value) => Some(*value),
            Self::Column(name) => match column(name) {
                Value::Null => None,
                Value::Bool(value) => Some(*value),
                other => panic!("{other:?} is not a condition"),
            },
            Self::Compare(name, operator, literal) => {
                compare(column(name), literal).map(|order| operator.holds(order))
            }
            Self::In(name, list) => {
                let value = column(name);
                either(list.iter().map(|literal| {
                    compare(value, literal).map(|order| Operator::Equal.holds(order))
                }))
            }
            Self::IsNull(name) => Some(*column(name) == Value::Null),
            Self::IsNan(name) => match column(name) {
                Value::Null => None,
                Value::Float(value) => Some(value.is_nan()),
                other => panic!("IS_NAN of {other:?}"),
            },
            Self::Like(name, pattern) => match column(name) {
                Value::Null => None,
                Value::Text(text) => {
                    let text: Vec<char> = text.chars().collect();
                    let pattern: Vec<char> = pattern.chars().collect();
                    Some(like(&text, &pattern))
                }
                other => panic!("LIKE of {other:?}"),
            },
            Self::Or(nodes) => either(nodes.iter().map(|node| node.value(row))),
            Self::And(nodes) => {
                let not = |value: Option<bool>| value.map(|value| !value);
                not(either(nodes.iter().map(|node| not(node.value(row)))))
            }
            Self::Not(node) => node.value(row).map(|value| !value),
        }
    }
}

/// OR: TRUE if one is, NULL if one is and none is TRUE.
fn either(values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut answer = Some(false);
    for value in values {
        match value {
            Some(true) => return Some(true),
            Some(false) => {}
            None => answer = None,
        }
    }
    answer
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip();
        let Some(rest) = self.rest.strip_prefix(token) else {
            return false;
        };
        let word = token.ends_with(|c: char| c.is_alphanumeric());
        if word && rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return false;
        }
        self.rest = rest;
        true
    }

    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "expected {token} at {}", self.rest);
    }

    fn or(&mut self) -> Node {
        let mut nodes = vec![self.and()];
        while self.take("OR") {
            nodes.push(self.and());
        }
        match nodes.len() {
            1 => nodes.remove(0),
            _ => Node::Or(nodes),
        }
    }

    fn and(&mut self) -> Node {
        let mut nodes = vec![self.not()];
        while self.take("AND") {
            nodes.push(self.not());
        }
        match nodes.len() {
            1 => nodes.remove(0),
            _ => Node::And(nodes),
        }
    }

    fn not(&mut self) -> Node {
        match self.take("NOT") {
            true => Node::Not(Box::new(self.not())),
            false => self.test(),
        }
    }

    fn test(&mut self) -> Node {
        if self.take("(") {
            let node = self.or();
            self.expect(")");
            return node;
        }
        for (word, value) in [("TRUE", true), ("FALSE", false)] {
            if self.take(word) {
                return Node::Constant(value);
            }
        }
        if self.take("IS_NAN") {
            self.expect("(");
            let name = self.column();
            self.expect(")");
            return Node::IsNan(name);
        }
        let name = self.column();
        if self.take("IS") {
            let negated = self.take("NOT");
            self.expect("NULL");
            return negate_if(negated, Node::IsNull(name));
        }
        let negated = self.take("NOT");
        if self.take("IN") {
            return negate_if(negated, Node::In(name, self.list()));
        }
        if self.take("LIKE") {
            let Value::Text(pattern) = self.literal() else {
                panic!("LIKE wants text");
            };
            return negate_if(negated, Node::Like(name, pattern));
        }
        assert!(!negated, "NOT before {}", self.rest);
        for (token, operator) in [
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("=", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ] {
            if self.take(token) {
                return Node::Compare(name, operator, self.literal());
            }
        }
        Node::Column(name)
    }

    fn list(&mut self) -> Vec<Value> {
        self.expect("(");
        let mut list = vec![self.literal()];
        while self.take(",") {
            list.push(self.literal());
        }
        self.expect(")");
        list
    }

    fn column(&mut self) -> String {
        self.skip();
        let mut name = String::new();
        loop {
            self.expect("`");
            name.push_str(&self.until('`'));
            match self.rest.strip_prefix('.') {
                Some(rest) => self.rest = rest,
                None => break,
            }
            name.push('.');
        }
        name
    }

    fn literal(&mut self) -> Value {
        self.skip();
        for (word, value) in [("TRUE", true), ("FALSE", false)] {
            if self.take(word) {
                return Value::Bool(value);
            }
        }
        if self.take("b'") {
            let text = self.until('\'');
            return Value::Bytes(
                text.chars()
                    .map(|c| u8::try_from(u32::from(c)).unwrap())
                    .collect(),
            );
        }
        if self.take("DATE") {
            let date: NaiveDate = self.quoted().parse().unwrap();
            return Value::Date(days(date));
        }
        if self.take("TIMESTAMP") {
            let text = self.quoted();
            let time = DateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.6f%:z").unwrap();
            return Value::Timestamp(time.timestamp_micros());
        }
        if self.take("DATETIME") {
            let text = self.quoted();
            let time = NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.6f").unwrap();
            return Value::DateTime(time.and_utc().timestamp_micros());
        }
        if self.take("TIME") {
            let time: NaiveTime = self.quoted().parse().unwrap();
            let seconds = i64::from(time.num_seconds_from_midnight());
            return Value::Time(seconds * 1_000_000 + i64::from(time.nanosecond() / 1_000));
        }
        if self.take("NUMERIC") || self.take("BIGNUMERIC") {
            return Value::Decimal(Decimal::parse(&self.quoted()));
        }
        if self.rest.starts_with('\'') {
            return Value::Text(self.quoted());
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+')))
            .unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        match number.contains(['.', 'e']) {
            true => Value::Float(number.parse().unwrap()),
            false => Value::Int(number.parse().unwrap_or_else(|_| panic!("{number}"))),
        }
    }

    fn quoted(&mut self) -> String {
        self.expect("'");
        self.until('\'')
    }

    /// Up to the closing `quote`, unescaped.
    fn until(&mut self, quote: char) -> String {
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((position, character)) = characters.next() {
            match character {
                c if c == quote => {
                    self.rest = &self.rest[position + c.len_utf8()..];
                    return text;
                }
                '\n' | '\r' => panic!("a raw line end in a literal"),
                '\\' => {
                    let (_, escaped) = characters.next().unwrap();
                    let mut code = |digits: usize| {
                        let code: String =
                            (0..digits).map(|_| characters.next().unwrap().1).collect();
                        char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap()
                    };
                    text.push(match escaped {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        'x' => code(2),
                        'u' => code(4),
                        '\\' | '\'' | '"' | '`' => escaped,
                        other => panic!("\\{other} is no escape"),
                    });
                }
                other => text.push(other),
            }
        }
        panic!("the literal does not end: {}", self.rest)
    }
}

fn negate_if(negated: bool, node: Node) -> Node {
    match negated {
        true => Node::Not(Box::new(node)),
        false => node,
    }
}

/// None for NULL, Some(None) for values without an order.
fn compare(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    Some(match (left, right) {
        (Value::Null, _) | (_, Value::Null) => return None,
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Int(b))
        | (Value::Date(a), Value::Date(b))
        | (Value::Time(a), Value::Time(b))
        | (Value::DateTime(a), Value::DateTime(b))
        | (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::FoldedText(a), Value::Text(b)) => Some(a.to_lowercase().cmp(&b.to_lowercase())),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Decimal(a), Value::Decimal(b)) => Some(a.order(b)),
        (a, b) => panic!("no matching signature for {a:?} and {b:?}"),
    })
}

fn like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|skipped| like(&text[skipped..], rest)),
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest),
        ['\\', literal @ ('%' | '_' | '\\'), rest @ ..] => {
            text.first() == Some(literal) && like(&text[1..], rest)
        }
        ['\\', ..] => panic!("a LIKE pattern escapes what needs no escape"),
        [literal, rest @ ..] => text.first() == Some(literal) && like(&text[1..], rest),
    }
}

fn days(date: NaiveDate) -> i64 {
    date.signed_duration_since(NaiveDate::default()).num_days()
}

#[test]
fn the_evaluator_knows_three_values() {
    let row: Row = [
        ("a".to_string(), Value::Null),
        ("f".to_string(), Value::Float(f64::NAN)),
        ("s".to_string(), Value::Text("a%\\".to_string())),
    ]
    .into();
    let accepts = |restriction: &str, row: &Row| Node::parse(restriction).accepts(row);
    assert!(!accepts("`a` = 1", &row));
    assert!(!accepts("NOT (`a` = 1)", &row));
    assert!(accepts("(`a` = 1) OR (`a` IS NULL)", &row));
    assert!(!accepts("`a` NOT IN (1, 2)", &row));
    assert!(!accepts("`f` > 1.0", &row));
    assert!(accepts("`f` != 1.0", &row));
    assert!(accepts("(`f` > 1.0) OR (IS_NAN(`f`))", &row));
    assert!(accepts(r"`s` LIKE 'a\\%\\\\'", &row));
    assert!(!accepts(r"`s` LIKE 'a\\%'", &row));
}

mod printed;
