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

/// Whether the restriction is TRUE for the row.
pub(super) fn accepts(restriction: &str, row: &Row) -> bool {
    if restriction.is_empty() {
        return true;
    }
    let mut parser = Parser {
        rest: restriction,
        row,
    };
    let answer = parser.or();
    parser.skip();
    assert!(parser.rest.is_empty(), "left over: {}", parser.rest);
    answer == Some(true)
}

struct Parser<'a> {
    rest: &'a str,
    row: &'a Row,
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

    fn or(&mut self) -> Option<bool> {
        let mut answer = self.and();
        while self.take("OR") {
            let right = self.and();
            answer = match (answer, right) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
        }
        answer
    }

    fn and(&mut self) -> Option<bool> {
        let mut answer = self.not();
        while self.take("AND") {
            let right = self.not();
            answer = match (answer, right) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
        }
        answer
    }

    fn not(&mut self) -> Option<bool> {
        match self.take("NOT") {
            true => self.not().map(|answer| !answer),
            false => self.test(),
        }
    }

    fn test(&mut self) -> Option<bool> {
        if self.take("(") {
            let answer = self.or();
            self.expect(")");
            return answer;
        }
        for (word, value) in [("TRUE", true), ("FALSE", false)] {
            if self.take(word) {
                return Some(value);
            }
        }
        if self.take("IS_NAN") {
            self.expect("(");
            let value = self.column();
            self.expect(")");
            return match value {
                Value::Null => None,
                Value::Float(value) => Some(value.is_nan()),
                other => panic!("IS_NAN of {other:?}"),
            };
        }
        let left = self.column();
        if self.take("IS") {
            let negated = self.take("NOT");
            self.expect("NULL");
            return Some((left == Value::Null) != negated);
        }
        let negated = self.take("NOT");
        if self.take("IN") {
            return self.in_list(&left).map(|found| found != negated);
        }
        if self.take("LIKE") {
            let Value::Text(pattern) = self.literal() else {
                panic!("LIKE wants text");
            };
            return match left {
                Value::Null => None,
                Value::Text(text) => {
                    let text: Vec<char> = text.chars().collect();
                    let pattern: Vec<char> = pattern.chars().collect();
                    Some(like(&text, &pattern) != negated)
                }
                other => panic!("LIKE of {other:?}"),
            };
        }
        assert!(!negated, "NOT before {}", self.rest);
        for (operator, holds) in [
            (
                "!=",
                (|order| order != Some(Ordering::Equal)) as fn(Option<Ordering>) -> bool,
            ),
            ("<=", |order| {
                matches!(order, Some(Ordering::Less | Ordering::Equal))
            }),
            (">=", |order| {
                matches!(order, Some(Ordering::Greater | Ordering::Equal))
            }),
            ("=", |order| order == Some(Ordering::Equal)),
            ("<", |order| order == Some(Ordering::Less)),
            (">", |order| order == Some(Ordering::Greater)),
        ] {
            if self.take(operator) {
                let right = self.literal();
                return compare(&left, &right).map(holds);
            }
        }
        match left {
            Value::Null => None,
            Value::Bool(value) => Some(value),
            other => panic!("{other:?} is not a condition"),
        }
    }

    fn in_list(&mut self, left: &Value) -> Option<bool> {
        self.expect("(");
        let mut found = Some(false);
        loop {
            let right = self.literal();
            let equal = compare(left, &right).map(|order| order == Some(Ordering::Equal));
            found = match (found, equal) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            if !self.take(",") {
                self.expect(")");
                return found;
            }
        }
    }

    fn column(&mut self) -> Value {
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
        self.row
            .get(&name)
            .unwrap_or_else(|| panic!("no column {name}"))
            .clone()
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
