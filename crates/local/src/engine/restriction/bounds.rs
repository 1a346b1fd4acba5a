//! Which values of single columns a condition leaves possible, so that rows whose
//! least and greatest values are known need not be looked at.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use super::ast::{Comparison, Sense};
use super::expr::{Expr, Kind};
use crate::store::ordinal;

/// The values of a column that rows which pass can have. NULL is not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Position of the column in the table.
    pub column: usize,
    /// The type in which values are compared.
    pub data_type: DataType,
    /// The least of them, in units of that type (see [`ordinal`]).
    pub least: i128,
    /// The greatest of them.
    pub greatest: i128,
}

/// What `condition` says of columns. Only what is evaluated before anything that can
/// fail counts: passing over rows must not hide a failure.
pub(super) fn bounds(condition: &Expr) -> Vec<Bound> {
    let mut found = Vec::new();
    collect(condition, &mut found);
    found
}

/// Adds what `condition` says; false when nothing behind it counts.
fn collect(condition: &Expr, found: &mut Vec<Bound>) -> bool {
    if condition.fallible && !matches!(condition.kind, Kind::And(_)) {
        return false;
    }
    match &condition.kind {
        Kind::And(all) => return all.iter().all(|e| collect(e, found)),
        Kind::Compare(operator, a, b) => {
            if let (Some(column), Some(value)) = (column(a), value(b)) {
                found.extend(compared(column, *operator, value));
            } else if let (Some(value), Some(column)) = (value(a), column(b)) {
                found.extend(compared(column, mirrored(*operator), value));
            }
        }
        Kind::Between(a, low, high, Sense::Plain) => {
            if let (Some(column), Some(least), Some(greatest)) =
                (column(a), value(low), value(high))
            {
                found.push(Bound {
                    column,
                    data_type: least.data_type,
                    least: least.value,
                    greatest: greatest.value,
                });
            }
        }
        _ => {}
    }
    true
}

fn compared(column: usize, operator: Comparison, literal: Literal) -> Option<Bound> {
    let value = literal.value;
    let (least, greatest) = match operator {
        Comparison::Eq => (value, value),
        Comparison::Lt => (i128::MIN, value.checked_sub(1)?),
        Comparison::Le => (i128::MIN, value),
        Comparison::Gt => (value.checked_add(1)?, i128::MAX),
        Comparison::Ge => (value, i128::MAX),
        Comparison::Ne => return None,
    };
    Some(Bound {
        column,
        data_type: literal.data_type,
        least,
        greatest,
    })
}

/// The operator with its sides exchanged.
fn mirrored(operator: Comparison) -> Comparison {
    match operator {
        Comparison::Lt => Comparison::Gt,
        Comparison::Le => Comparison::Ge,
        Comparison::Gt => Comparison::Lt,
        Comparison::Ge => Comparison::Le,
        Comparison::Eq | Comparison::Ne => operator,
    }
}

/// The column that `expr` is, not a field of one.
fn column(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        Kind::Column(path) => match path[..] {
            [column] => Some(column),
            _ => None,
        },
        _ => None,
    }
}

struct Literal {
    data_type: DataType,
    value: i128,
}

/// The literal that `expr` is, if it is not NULL and of a type whose values are whole
/// numbers of one unit.
fn value(expr: &Expr) -> Option<Literal> {
    let literal: &ArrayRef = expr.as_literal()?;
    Some(Literal {
        data_type: literal.data_type().clone(),
        value: ordinal(literal.as_ref(), 0)?,
    })
}
