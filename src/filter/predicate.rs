//! The shapes of predicates that have a translation, free of where they came
//! from: DataFusion's logical expressions and its physical ones both become
//! these, so that one set of rules serves both.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use super::condition::{Comparison, Path, Pattern, Piece};

/// A boolean expression of DataFusion, as far as it can matter here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Predicate {
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
    Leaf(Leaf),
    /// A BOOL literal; None is NULL.
    Constant(Option<bool>),
    /// Something that is TRUE at most where this is.
    Implies(Box<Predicate>),
    /// Anything else: may be TRUE for any row.
    Other,
}

/// Predicates nested deeper than this are [`Predicate::Other`] from there on, so
/// that no query can exhaust the stack here. Chains of one connective count as
/// one level, however long.
pub(crate) const MAX_DEPTH: usize = 64;

impl Predicate {
    pub(crate) fn not(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    pub(crate) fn negated_if(self, negated: Negated) -> Self {
        match negated {
            Negated::Yes => self.not(),
            Negated::No => self,
        }
    }
}

/// Whether a NOT stands before a test (`NOT IN`, `NOT LIKE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Negated {
    Yes,
    No,
}

impl From<bool> for Negated {
    fn from(negated: bool) -> Self {
        match negated {
            true => Self::Yes,
            false => Self::No,
        }
    }
}

/// A boolean expression that is not made of others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Leaf {
    /// A BOOL value.
    Value(Operand),
    Compare(Operand, Comparison, ScalarValue),
    /// `IS NOT DISTINCT FROM`; its negation is `IS DISTINCT FROM`.
    Same(Operand, ScalarValue),
    In(Operand, Vec<ScalarValue>),
    IsNull(Operand),
    /// `IS TRUE`, `IS FALSE`, `IS UNKNOWN`; their negations are `IS NOT TRUE` and
    /// so on.
    Is(Box<Predicate>, Truth),
    Like(Operand, Pattern),
}

/// Which of the three truth values an `IS` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    True,
    False,
    Unknown,
}

/// A column, or a field inside it, under functions of one argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operand {
    pub(crate) path: Path,
    /// Innermost first.
    pub(crate) steps: Vec<Step>,
}

/// A function of one argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// CAST: another type or an error.
    Cast(DataType),
    /// TRY_CAST: another type or NULL.
    TryCast(DataType),
    /// `date_trunc` to this unit.
    Truncate(Unit),
    /// `date_part` of the year.
    Year,
}

/// Units of `date_trunc` that divide the calendar the same way everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    /// Begins on Monday.
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    /// The unit that DataFusion's `date_trunc` means by `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "microsecond" => Some(Self::Microsecond),
            "millisecond" => Some(Self::Millisecond),
            "second" => Some(Self::Second),
            "minute" => Some(Self::Minute),
            "hour" => Some(Self::Hour),
            "day" => Some(Self::Day),
            "week" => Some(Self::Week),
            "month" => Some(Self::Month),
            "quarter" => Some(Self::Quarter),
            "year" => Some(Self::Year),
            _ => None,
        }
    }
}

impl Pattern {
    /// Reads a pattern the way Arrow's LIKE does: a backslash takes the next
    /// character literally, and a trailing one is itself.
    pub(crate) fn parse(pattern: &str) -> Self {
        fn flush(text: &mut String, pieces: &mut Vec<Piece>) {
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(text)));
            }
        }
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' => {
                    flush(&mut text, &mut pieces);
                    if pieces.last() != Some(&Piece::Many) {
                        pieces.push(Piece::Many);
                    }
                }
                '_' => {
                    flush(&mut text, &mut pieces);
                    pieces.push(Piece::One);
                }
                '\\' => text.push(characters.next().unwrap_or('\\')),
                other => text.push(other),
            }
        }
        flush(&mut text, &mut pieces);
        Self(pieces)
    }

    /// The pattern of everything that begins with `prefix`.
    pub(crate) fn prefix(prefix: &str) -> Self {
        Self::around(&[], prefix, &[Piece::Many])
    }

    /// The pattern of everything that ends with `suffix`.
    pub(crate) fn suffix(suffix: &str) -> Self {
        Self::around(&[Piece::Many], suffix, &[])
    }

    /// The pattern of everything that contains `infix`.
    pub(crate) fn infix(infix: &str) -> Self {
        use Piece::Many;
        match infix {
            "" => Self(vec![Many]),
            _ => Self::around(&[Many], infix, &[Many]),
        }
    }

    fn around(before: &[Piece], text: &str, after: &[Piece]) -> Self {
        let mut pieces = before.to_vec();
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_string()));
        }
        pieces.extend_from_slice(after);
        Self(pieces)
    }
}
