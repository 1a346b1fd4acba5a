//! What may be said to the service about rows.
//!
//! DataFusion's predicate `p` and a restriction `r` over the same row stand in
//! one of two useful relations, and the relation is the type:
//!
//! - [`Equivalent`]: `r` is TRUE, FALSE or NULL exactly where `p` is.
//! - [`Necessary`]: wherever `p` is TRUE, `r` is TRUE. `r` may be TRUE for more.
//!
//! Only [`Equivalent`] can be negated: the negation of a condition that accepts
//! too much rejects too much. NULL is part of equivalence for the same reason:
//! `x <> 1` and `NOT COALESCE(x = 1, FALSE)` accept different rows.

use super::literal::Literal;

/// A column, or a field inside STRUCT columns, outermost name first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Path(pub(crate) Vec<String>);

/// The comparisons that GoogleSQL and DataFusion share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison that is TRUE where this one is FALSE, and NULL with it.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    /// The comparison with its sides exchanged.
    pub(crate) fn swapped(self) -> Self {
        match self {
            Self::Equal => Self::Equal,
            Self::NotEqual => Self::NotEqual,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }
}

/// A GoogleSQL boolean expression over the columns of one table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// A BOOL column.
    Column(Path),
    Compare(Path, Comparison, Literal),
    /// At least one literal.
    In(Path, Vec<Literal>),
    IsNull(Path),
    IsNan(Path),
    Like(Path, Pattern),
    /// At least two.
    All(Vec<Test>),
    /// At least two.
    Any(Vec<Test>),
    Not(Box<Test>),
    /// `TRUE` or `FALSE`.
    Constant(bool),
}

/// A LIKE pattern, taken apart so that escaping is the printer's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(pub(crate) Vec<Piece>);

/// A part of a LIKE pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// `_`
    One,
    /// `%`
    Many,
}

impl Test {
    pub(crate) fn is_not_null(path: Path) -> Self {
        Self::Not(Box::new(Self::IsNull(path)))
    }

    /// With three values too, TRUE changes no conjunction and FALSE decides it.
    fn all(tests: impl IntoIterator<Item = Test>) -> Self {
        let mut flat = Vec::new();
        for test in tests {
            match test {
                Test::All(inner) => flat.extend(inner),
                Test::Constant(true) => {}
                Test::Constant(false) => return test,
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Test::Constant(true),
            1 => flat.remove(0),
            _ => Test::All(flat),
        }
    }

    /// With three values too, FALSE changes no disjunction and TRUE decides it.
    fn any(tests: impl IntoIterator<Item = Test>) -> Self {
        let mut flat = Vec::new();
        for test in tests {
            match test {
                Test::Any(inner) => flat.extend(inner),
                Test::Constant(false) => {}
                Test::Constant(true) => return test,
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Test::Constant(false),
            1 => flat.remove(0),
            _ => Test::Any(flat),
        }
    }
}

/// A restriction that is TRUE, FALSE and NULL exactly where DataFusion's
/// predicate is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Equivalent(Test);

/// A restriction that is TRUE wherever DataFusion's predicate is TRUE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Necessary(Test);

impl Equivalent {
    /// Asserts the relation; the rules are where that is argued.
    pub(crate) fn new(test: Test) -> Self {
        Self(test)
    }

    /// GoogleSQL's NOT, AND and OR have DataFusion's truth tables, so they keep
    /// equivalence.
    pub(crate) fn not(self) -> Self {
        match self.0 {
            Test::Not(inner) => Self(*inner),
            Test::Constant(value) => Self(Test::Constant(!value)),
            Test::Compare(path, comparison, literal) => {
                Self(Test::Compare(path, comparison.negated(), literal))
            }
            other => Self(Test::Not(Box::new(other))),
        }
    }
}

impl From<Equivalent> for Necessary {
    fn from(condition: Equivalent) -> Self {
        Self(condition.0)
    }
}

impl Necessary {
    /// Asserts the relation; the rules are where that is argued.
    pub(crate) fn new(test: Test) -> Self {
        Self(test)
    }
}

/// One of the two, as known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    Equivalent(Equivalent),
    Necessary(Necessary),
}

impl From<Equivalent> for Condition {
    fn from(condition: Equivalent) -> Self {
        Self::Equivalent(condition)
    }
}

impl From<Necessary> for Condition {
    fn from(condition: Necessary) -> Self {
        Self::Necessary(condition)
    }
}

impl Condition {
    pub(crate) fn equivalent(test: Test) -> Self {
        Self::Equivalent(Equivalent::new(test))
    }

    pub(crate) fn necessary(test: Test) -> Self {
        Self::Necessary(Necessary::new(test))
    }

    /// Forgets an equivalence.
    pub(crate) fn weaken(self) -> Necessary {
        match self {
            Self::Equivalent(condition) => condition.into(),
            Self::Necessary(condition) => condition,
        }
    }

    /// The expression, to print it.
    pub(crate) fn test(&self) -> &Test {
        match self {
            Self::Equivalent(condition) => &condition.0,
            Self::Necessary(condition) => &condition.0,
        }
    }

    /// The conjunction of conditions for a conjunction of predicates. At least
    /// one; equivalent when all are.
    pub(crate) fn all(conditions: Vec<Condition>) -> Condition {
        Self::join(conditions, Test::all)
    }

    /// The disjunction of conditions for a disjunction of predicates. At least
    /// one; equivalent when all are.
    pub(crate) fn any(conditions: Vec<Condition>) -> Condition {
        Self::join(conditions, Test::any)
    }

    fn join(conditions: Vec<Condition>, join: impl FnOnce(Vec<Test>) -> Test) -> Condition {
        let exact = conditions
            .iter()
            .all(|condition| matches!(condition, Condition::Equivalent(_)));
        let tests = conditions
            .into_iter()
            .map(|condition| condition.weaken().0)
            .collect();
        let joined = join(tests);
        match exact {
            true => Condition::equivalent(joined),
            false => Condition::necessary(joined),
        }
    }
}
