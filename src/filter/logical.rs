//! DataFusion's logical expressions, as they are written.

use datafusion::logical_expr::expr::{InList, Like};
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, TryCast};

use super::functions::Known;
use super::predicate::{Step, Truth};
use super::shape::{Shape, Shaped};

impl Shaped for Expr {
    fn shape(&self) -> Shape<'_, Self> {
        match self {
            Expr::Alias(alias) => Shape::Same(&alias.expr),
            Expr::Column(column) => Shape::Column(&column.name),
            Expr::Literal(scalar, _) => Shape::Literal(scalar),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => Shape::Binary(left, *op, right),
            Expr::Not(inner) => Shape::Not(inner),
            Expr::IsNull(inner) | Expr::IsUnknown(inner) => Shape::IsNull(inner),
            Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => Shape::IsNotNull(inner),
            Expr::IsTrue(inner) => Shape::Is(inner, Truth::True, false.into()),
            Expr::IsFalse(inner) => Shape::Is(inner, Truth::False, false.into()),
            Expr::IsNotTrue(inner) => Shape::Is(inner, Truth::True, true.into()),
            Expr::IsNotFalse(inner) => Shape::Is(inner, Truth::False, true.into()),
            Expr::Between(Between {
                expr,
                negated,
                low,
                high,
            }) => Shape::Between(expr, low, high, (*negated).into()),
            Expr::InList(InList {
                expr,
                list,
                negated,
            }) => Shape::In(expr, list, (*negated).into()),
            Expr::Like(Like {
                negated,
                expr,
                pattern,
                escape_char: None | Some('\\'),
                case_insensitive: false,
            }) => Shape::Like(expr, pattern, (*negated).into()),
            Expr::Cast(Cast { expr, field }) => {
                Shape::Convert(expr, Step::Cast(field.data_type().clone()))
            }
            Expr::TryCast(TryCast { expr, field }) => {
                Shape::Convert(expr, Step::TryCast(field.data_type().clone()))
            }
            Expr::ScalarFunction(function) => match Known::of(&function.func) {
                Some(known) => Shape::Call(known, &function.args),
                None => Shape::Other,
            },
            Expr::Case(case) => Shape::Case {
                subject: case.expr.as_deref(),
                whens: case
                    .when_then_expr
                    .iter()
                    .map(|(when, _)| &**when)
                    .collect(),
                thens: case
                    .when_then_expr
                    .iter()
                    .map(|(_, then)| &**then)
                    .collect(),
                otherwise: case.else_expr.as_deref(),
            },
            _ => Shape::Other,
        }
    }
}
