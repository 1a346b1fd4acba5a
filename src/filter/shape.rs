//! Expressions as [`Predicate`]s, whatever they are written in.
//!
//! DataFusion has two languages for expressions, one for plans and one for what
//! runs. Each says of its expressions what [`Shape`] they have; the reading of
//! shapes is the same.

use std::collections::HashSet;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;

use super::condition::{Comparison, Path, Pattern};
use super::functions::Known;
use super::predicate::{Leaf, MAX_DEPTH, Negated, Operand, Predicate, Step, Truth, Unit};

/// An expression that says what it is.
pub(crate) trait Shaped: Sized {
    fn shape(&self) -> Shape<'_, Self>;
}

/// What an expression is, one level deep.
pub(crate) enum Shape<'a, E> {
    /// Another name for the same.
    Same(&'a E),
    /// An expression that is made when it is asked for.
    Snapshot(E),
    Column(&'a str),
    Literal(&'a ScalarValue),
    Binary(&'a E, Operator, &'a E),
    Not(&'a E),
    IsNull(&'a E),
    IsNotNull(&'a E),
    Is(&'a E, Truth, Negated),
    /// Value, lower and upper bound.
    Between(&'a E, &'a E, &'a E, Negated),
    In(&'a E, &'a [E], Negated),
    /// Value and pattern; case matters, and a backslash escapes.
    Like(&'a E, &'a E, Negated),
    /// A conversion to another type.
    Convert(&'a E, Step),
    Call(Known, &'a [E]),
    /// `CASE`; with a subject a branch is taken where that equals its `WHEN`.
    Case {
        subject: Option<&'a E>,
        whens: Vec<&'a E>,
        thens: Vec<&'a E>,
        otherwise: Option<&'a E>,
    },
    Other,
}

/// The predicate that `expr` is.
pub(crate) fn predicate<E: Shaped>(expr: &E) -> Predicate {
    at_depth(expr, 0)
}

fn at_depth<E: Shaped>(expr: &E, depth: usize) -> Predicate {
    match depth < MAX_DEPTH {
        true => read(expr, depth + 1).unwrap_or(Predicate::Other),
        false => Predicate::Other,
    }
}

fn read<E: Shaped>(expr: &E, depth: usize) -> Option<Predicate> {
    let inner = |expr: &E| at_depth(expr, depth);
    let leaf = |leaf: Leaf| Some(Predicate::Leaf(leaf));
    match expr.shape() {
        Shape::Same(same) => Some(inner(same)),
        Shape::Snapshot(current) => Some(inner(&current)),
        Shape::Literal(scalar) => match scalar {
            ScalarValue::Boolean(value) => Some(Predicate::Constant(*value)),
            ScalarValue::Null => Some(Predicate::Constant(None)),
            _ => None,
        },
        Shape::Binary(_, Operator::And, _) => {
            let parts = chain(expr, Operator::And);
            Some(Predicate::All(parts.into_iter().map(inner).collect()))
        }
        Shape::Binary(_, Operator::Or, _) => {
            let parts = chain(expr, Operator::Or);
            Some(Predicate::Any(parts.into_iter().map(inner).collect()))
        }
        Shape::Binary(left, operator, right) => comparison(left, operator, right, depth),
        Shape::Not(negated) => {
            let (base, negations) = negations(negated);
            Some(inner(base).negated_if((negations % 2 == 0).into()))
        }
        Shape::IsNull(value) => Some(null_test(value, depth)),
        Shape::IsNotNull(value) => Some(null_test(value, depth).not()),
        Shape::Is(tested, truth, negated) => {
            let is = Predicate::Leaf(Leaf::Is(Box::new(inner(tested)), truth));
            Some(is.negated_if(negated))
        }
        Shape::Between(value, low, high, negated) => {
            let value = operand(value)?;
            let low = Leaf::Compare(value.clone(), Comparison::GreaterOrEqual, literal(low)?);
            let high = Leaf::Compare(value, Comparison::LessOrEqual, literal(high)?);
            let both = Predicate::All(vec![Predicate::Leaf(low), Predicate::Leaf(high)]);
            Some(both.negated_if(negated))
        }
        Shape::In(value, list, negated) => {
            let list = list.iter().map(literal).collect::<Option<Vec<_>>>()?;
            let found = match value.shape() {
                Shape::Call(Known::Struct, parts) => tuples(parts, &list),
                _ => Predicate::Leaf(Leaf::In(operand(value)?, distinct(list))),
            };
            Some(found.negated_if(negated))
        }
        Shape::Like(value, pattern, negated) => {
            let pattern = Pattern::parse(&text(&literal(pattern)?)?);
            let like = Predicate::Leaf(Leaf::Like(operand(value)?, pattern));
            Some(like.negated_if(negated))
        }
        Shape::Call(
            known @ (Known::StartsWith | Known::EndsWith | Known::Contains),
            [value, wanted],
        ) => {
            let pattern = known.pattern(&text(&literal(wanted)?)?)?;
            leaf(Leaf::Like(operand(value)?, pattern))
        }
        Shape::Column(_) | Shape::Convert(..) | Shape::Call(..) => {
            leaf(Leaf::Value(operand(expr)?))
        }
        Shape::Case {
            subject,
            whens,
            thens,
            otherwise,
        } => {
            // TRUE comes out of a branch that is TRUE, and one is only taken where its
            // condition is TRUE.
            let taken = |when| match subject {
                Some(subject) => comparison(subject, Operator::Eq, when, depth),
                None => Some(inner(when)),
            };
            let branches = whens.into_iter().zip(thens).map(|(when, then)| {
                let taken = taken(when).unwrap_or(Predicate::Other);
                Predicate::All(vec![taken, inner(then)])
            });
            let otherwise = otherwise.map(inner);
            let any = Predicate::Any(branches.chain(otherwise).collect());
            Some(Predicate::Implies(Box::new(any)))
        }
        Shape::Other => None,
    }
}

/// `value IS NULL`; of a condition that is `IS UNKNOWN`.
fn null_test<E: Shaped>(value: &E, depth: usize) -> Predicate {
    Predicate::Leaf(match operand(value) {
        Some(operand) => Leaf::IsNull(operand),
        None => Leaf::Is(Box::new(at_depth(value, depth)), Truth::Unknown),
    })
}

/// The operands of a chain of one connective, however it is nested. The walk
/// keeps its own stack: a chain may be as long as an IN list.
fn chain<E: Shaped>(expr: &E, connective: Operator) -> Vec<&E> {
    let mut found = Vec::new();
    let mut stack = vec![expr];
    while let Some(next) = stack.pop() {
        match next.shape() {
            Shape::Binary(left, operator, right) if operator == connective => {
                stack.push(right);
                stack.push(left);
            }
            _ => found.push(next),
        }
    }
    found
}

/// What is below any number of NOTs, and the number.
fn negations<E: Shaped>(expr: &E) -> (&E, usize) {
    let mut base = expr;
    let mut count = 0;
    while let Shape::Not(inner) = base.shape() {
        base = inner;
        count += 1;
    }
    (base, count)
}

fn comparison<E: Shaped>(
    left: &E,
    operator: Operator,
    right: &E,
    depth: usize,
) -> Option<Predicate> {
    let (value, scalar, swapped) = match literal(right) {
        Some(scalar) => (left, scalar, false),
        None => (right, literal(left)?, true),
    };
    if let Operator::IsDistinctFrom | Operator::IsNotDistinctFrom = operator {
        let distinct = Negated::from(operator == Operator::IsDistinctFrom);
        let same = match (operand(value), &scalar) {
            (Some(operand), _) => Leaf::Same(operand, scalar),
            // How IS TRUE and IS FALSE are run.
            (None, ScalarValue::Boolean(Some(truth))) => {
                let truth = match truth {
                    true => Truth::True,
                    false => Truth::False,
                };
                Leaf::Is(Box::new(at_depth(value, depth)), truth)
            }
            (None, _) => return None,
        };
        return Some(Predicate::Leaf(same).negated_if(distinct));
    }
    let comparison = match operator {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    };
    let comparison = match swapped {
        true => comparison.swapped(),
        false => comparison,
    };
    Some(Predicate::Leaf(Leaf::Compare(
        operand(value)?,
        comparison,
        scalar,
    )))
}

/// Each value once: a join tells the keys of all its rows, and many may be alike.
fn distinct(mut values: Vec<ScalarValue>) -> Vec<ScalarValue> {
    let mut seen = HashSet::with_capacity(values.len());
    values.retain(|value| seen.insert(value.clone()));
    values
}

/// `struct(a, b) IN ((1, 2), …)`, which joins over several columns make: each
/// part is in the list of its own values, or NULL where one of these is.
fn tuples<E: Shaped>(parts: &[E], list: &[ScalarValue]) -> Predicate {
    let conditions = parts.iter().enumerate().filter_map(|(position, part)| {
        let operand = operand(part)?;
        let mut seen = HashSet::new();
        let mut values = Vec::new();
        let mut with_null = false;
        for element in list {
            let ScalarValue::Struct(tuple) = element else {
                return None;
            };
            let column = tuple.columns().get(position)?;
            let value = ScalarValue::try_from_array(column, 0).ok()?;
            if value.is_null() {
                with_null = true;
            } else if seen.insert(value.clone()) {
                values.push(value);
            }
        }
        let within = Predicate::Leaf(Leaf::In(operand.clone(), values));
        Some(match with_null {
            true => Predicate::Any(vec![within, Predicate::Leaf(Leaf::IsNull(operand))]),
            false => within,
        })
    });
    Predicate::Implies(Box::new(Predicate::All(conditions.collect())))
}

/// The column or field under functions that `expr` is.
fn operand<E: Shaped>(expr: &E) -> Option<Operand> {
    // Outermost first, while the expression is taken apart.
    let mut steps = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut next = expr;
    for _ in 0..MAX_DEPTH {
        match next.shape() {
            Shape::Same(same) => next = same,
            Shape::Column(column) => {
                names.push(column.to_string());
                names.reverse();
                steps.reverse();
                return Some(Operand {
                    path: Path(names),
                    steps,
                });
            }
            // A field of a converted struct is not a field of the column.
            Shape::Convert(..) | Shape::Call(Known::DateTrunc | Known::DatePart, _)
                if !names.is_empty() =>
            {
                return None;
            }
            Shape::Convert(inner, step) => {
                steps.push(step);
                next = inner;
            }
            Shape::Call(Known::GetField, [base, inside @ ..]) => {
                for name in inside.iter().rev() {
                    names.push(text(&literal(name)?)?);
                }
                next = base;
            }
            Shape::Call(Known::DateTrunc, [unit, value]) => {
                steps.push(Step::Truncate(Unit::named(&text(&literal(unit)?)?)?));
                next = value;
            }
            Shape::Call(Known::DatePart, [part, value])
                if text(&literal(part)?)?.eq_ignore_ascii_case("year") =>
            {
                steps.push(Step::Year);
                next = value;
            }
            _ => return None,
        }
    }
    None
}

fn literal<E: Shaped>(expr: &E) -> Option<ScalarValue> {
    let mut next = expr;
    loop {
        match next.shape() {
            Shape::Same(same) => next = same,
            Shape::Literal(scalar) => return Some(plain(scalar.clone())),
            _ => return None,
        }
    }
}

/// The value of a dictionary-encoded scalar.
fn plain(mut scalar: ScalarValue) -> ScalarValue {
    while let ScalarValue::Dictionary(_, value) = scalar {
        scalar = *value;
    }
    scalar
}

fn text(scalar: &ScalarValue) -> Option<String> {
    scalar.try_as_str().flatten().map(str::to_string)
}
