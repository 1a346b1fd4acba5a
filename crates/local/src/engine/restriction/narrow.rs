//! Whether a condition lets partitions be left out.

use super::ast::Comparison;
use super::call::Function;
use super::eval::is_constant;
use super::expr::{Expr, Kind, Pseudo};
use super::types::Type;
use crate::schema::TableSchema;

/// Whether every row that passes has a value of `column` that a constant bounds:
/// one child of AND is enough, OR needs all.
pub(super) fn narrows(condition: &Expr, column: &str, schema: &TableSchema) -> bool {
    let is_column = |e: &Expr| names(e, column, schema);
    let both = |a: &Expr, b: &Expr| (is_column(a) && fixed(b)) || (is_column(b) && fixed(a));
    match &condition.kind {
        Kind::And(all) => all.iter().any(|e| narrows(e, column, schema)),
        Kind::Or(all) => all.iter().all(|e| narrows(e, column, schema)),
        Kind::Compare(operator, a, b) => *operator != Comparison::Ne && both(a, b),
        Kind::DistinctFrom(a, b, _) => both(a, b),
        Kind::IsNull(a, _) | Kind::InSet(a, _, _) => is_column(a),
        Kind::Between(a, low, high, _) => is_column(a) && fixed(low) && fixed(high),
        Kind::InList(a, list, _) => is_column(a) && list.iter().all(fixed),
        _ => false,
    }
}

fn fixed(expr: &Expr) -> bool {
    expr.as_literal().is_some() || is_constant(expr)
}

/// Whether `expr` is `column` or grows with it: a cast between date and time
/// types, or a truncation.
fn names(expr: &Expr, column: &str, schema: &TableSchema) -> bool {
    match &expr.kind {
        Kind::Column(path) => match path[..] {
            [i] => schema.fields[i].name.eq_ignore_ascii_case(column),
            _ => false,
        },
        Kind::Pseudo(Pseudo::PartitionTime) => column.eq_ignore_ascii_case("_PARTITIONTIME"),
        Kind::Pseudo(Pseudo::PartitionDate) => column.eq_ignore_ascii_case("_PARTITIONDATE"),
        Kind::Cast(inner) => {
            let civil = |t: &Type| matches!(t, Type::Date | Type::Datetime | Type::Timestamp);
            let ordered = (civil(&inner.ty) && civil(&expr.ty))
                || (inner.ty.is_number() && expr.ty.is_number());
            ordered && names(inner, column, schema)
        }
        Kind::Call(Function::Temporal(function), arguments) => {
            function.is_monotonic()
                && arguments.first().is_some_and(|a| names(a, column, schema))
                && arguments[1..].iter().all(fixed)
        }
        _ => false,
    }
}
