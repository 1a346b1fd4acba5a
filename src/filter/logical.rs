//! DataFusion's logical expressions as [`Predicate`]s.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{InList, Like, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, Operator, TryCast};

use super::condition::{Comparison, Path, Pattern};
use super::predicate::{Leaf, Operand, Predicate, Step, Truth, Unit};

/// The shape of `expr`. Volatile functions and subqueries have none.
pub(crate) fn predicate(expr: &Expr) -> Predicate {
    leaf_or_connective(expr).unwrap_or(Predicate::Other)
}

fn leaf_or_connective(expr: &Expr) -> Option<Predicate> {
    let not = |inner: Predicate| Predicate::Not(Box::new(inner));
    let negate_if = |negated: bool, inner: Predicate| match negated {
        true => not(inner),
        false => inner,
    };
    let is = |inner: &Expr, truth| Predicate::Leaf(Leaf::Is(Box::new(predicate(inner)), truth));
    Some(match expr {
        Expr::Alias(alias) => predicate(&alias.expr),
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::And, ..
        }) => Predicate::All(operands(expr, Operator::And)),
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::Or, ..
        }) => Predicate::Any(operands(expr, Operator::Or)),
        Expr::BinaryExpr(binary) => comparison(binary)?,
        Expr::Not(inner) => not(predicate(inner)),
        Expr::IsNull(inner) => null_test(inner)?,
        Expr::IsNotNull(inner) => not(null_test(inner)?),
        Expr::IsUnknown(inner) => null_test(inner)?,
        Expr::IsNotUnknown(inner) => not(null_test(inner)?),
        Expr::IsTrue(inner) => is(inner, Truth::True),
        Expr::IsFalse(inner) => is(inner, Truth::False),
        Expr::IsNotTrue(inner) => not(is(inner, Truth::True)),
        Expr::IsNotFalse(inner) => not(is(inner, Truth::False)),
        Expr::Between(Between {
            expr,
            negated,
            low,
            high,
        }) => {
            let value = operand(expr)?;
            let bound = |comparison, bound: &Expr| {
                let literal = literal(bound)?;
                Some(Predicate::Leaf(Leaf::Compare(
                    value.clone(),
                    comparison,
                    literal,
                )))
            };
            let both = Predicate::All(vec![
                bound(Comparison::GreaterOrEqual, low)?,
                bound(Comparison::LessOrEqual, high)?,
            ]);
            negate_if(*negated, both)
        }
        Expr::InList(InList {
            expr,
            list,
            negated,
        }) => {
            let list = list.iter().map(literal).collect::<Option<Vec<_>>>()?;
            negate_if(*negated, Predicate::Leaf(Leaf::In(operand(expr)?, list)))
        }
        Expr::Like(Like {
            negated,
            expr,
            pattern,
            escape_char: None | Some('\\'),
            case_insensitive: false,
        }) => {
            let pattern = Pattern::parse(&text(&literal(pattern)?)?);
            negate_if(
                *negated,
                Predicate::Leaf(Leaf::Like(operand(expr)?, pattern)),
            )
        }
        Expr::ScalarFunction(function) => match string_test(function) {
            Some(leaf) => Predicate::Leaf(leaf),
            None => Predicate::Leaf(Leaf::Value(operand(expr)?)),
        },
        Expr::Column(_) | Expr::Cast(_) | Expr::TryCast(_) => {
            Predicate::Leaf(Leaf::Value(operand(expr)?))
        }
        _ => return None,
    })
}

/// The operands of a chain of one connective, however it is nested. The walk
/// keeps its own stack: a chain may be as long as an IN list.
fn operands(expr: &Expr, connective: Operator) -> Vec<Predicate> {
    let mut found = Vec::new();
    let mut stack = vec![expr];
    while let Some(next) = stack.pop() {
        match next {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == connective => {
                stack.push(right);
                stack.push(left);
            }
            other => found.push(predicate(other)),
        }
    }
    found
}

fn comparison(binary: &BinaryExpr) -> Option<Predicate> {
    let BinaryExpr { left, op, right } = binary;
    if let Operator::IsDistinctFrom | Operator::IsNotDistinctFrom = op {
        let (value, literal) = match literal(right) {
            Some(scalar) => (operand(left)?, scalar),
            None => (operand(right)?, literal(left)?),
        };
        let same = Predicate::Leaf(Leaf::Same(value, literal));
        return Some(match op {
            Operator::IsDistinctFrom => Predicate::Not(Box::new(same)),
            _ => same,
        });
    }
    let comparison = match op {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    };
    let leaf = match literal(right) {
        Some(scalar) => Leaf::Compare(operand(left)?, comparison, scalar),
        None => Leaf::Compare(operand(right)?, comparison.swapped(), literal(left)?),
    };
    Some(Predicate::Leaf(leaf))
}

fn null_test(expr: &Expr) -> Option<Predicate> {
    Some(Predicate::Leaf(Leaf::IsNull(operand(expr)?)))
}

/// `starts_with`, `ends_with` and `contains`.
fn string_test(function: &ScalarFunction) -> Option<Leaf> {
    let [value, wanted] = function.args.as_slice() else {
        return None;
    };
    let pattern: fn(&str) -> Pattern = match function.name() {
        "starts_with" => Pattern::prefix,
        "ends_with" => Pattern::suffix,
        "contains" => Pattern::infix,
        _ => return None,
    };
    Some(Leaf::Like(
        operand(value)?,
        pattern(&text(&literal(wanted)?)?),
    ))
}

fn operand(expr: &Expr) -> Option<Operand> {
    match expr {
        Expr::Alias(alias) => operand(&alias.expr),
        Expr::Column(column) => Some(Operand {
            path: Path(vec![column.name.clone()]),
            steps: Vec::new(),
        }),
        Expr::Cast(Cast { expr, field }) => {
            with_step(operand(expr)?, Step::Cast(field.data_type().clone()))
        }
        Expr::TryCast(TryCast { expr, field }) => {
            with_step(operand(expr)?, Step::TryCast(field.data_type().clone()))
        }
        Expr::ScalarFunction(function) => match (function.name(), function.args.as_slice()) {
            ("get_field", [base, names @ ..]) => {
                let mut value = operand(base)?;
                // A field of a converted struct is not a field of the column.
                if !value.steps.is_empty() {
                    return None;
                }
                for name in names {
                    value.path.0.push(text(&literal(name)?)?);
                }
                Some(value)
            }
            ("date_trunc", [unit, value]) => {
                let unit = Unit::named(&text(&literal(unit)?)?)?;
                with_step(operand(value)?, Step::Truncate(unit))
            }
            _ => None,
        },
        _ => None,
    }
}

fn with_step(mut operand: Operand, step: Step) -> Option<Operand> {
    operand.steps.push(step);
    Some(operand)
}

fn literal(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(scalar, _) => Some(scalar.clone()),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}

fn text(scalar: &ScalarValue) -> Option<String> {
    scalar.try_as_str().flatten().map(str::to_string)
}
