//! The typed tree: every name is a column, every operator has its operand types.

use std::sync::Arc;

use arrow::array::ArrayRef;

use super::ast::{Arithmetic, Comparison, Sense};
use super::call::Function;
use super::like::Pattern;
use super::set::ValueSet;
use super::types::Type;

/// How an expression was written, as far as coercion asks.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Written {
    /// Not as a literal that coerces specially.
    Plain,
    Null,
    Integer,
    /// With its text, which becomes NUMERIC exactly.
    Float(String),
    Text(String),
}

/// A typed expression.
#[derive(Debug, Clone)]
pub(super) struct Expr {
    pub(super) at: usize,
    pub(super) kind: Kind,
    pub(super) ty: Type,
    pub(super) written: Written,
    /// Whether text compares without case (collation `und:ci`).
    pub(super) ignores_case: bool,
    /// Whether evaluation can fail on some row.
    pub(super) fallible: bool,
}

/// Pseudo columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pseudo {
    PartitionTime,
    PartitionDate,
}

/// What an expression does. Operands already have the types that it needs.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// One value, as an array of length one in the form of [`super::eval`].
    Literal(ArrayRef),
    /// Positions from the table's columns down through structs.
    Column(Vec<usize>),
    Pseudo(Pseudo),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    DistinctFrom(Box<Expr>, Box<Expr>, Sense),
    IsNull(Box<Expr>, Sense),
    /// `IS TRUE`, `IS FALSE`.
    IsBool(Box<Expr>, bool, Sense),
    Between(Box<Expr>, Box<Expr>, Box<Expr>, Sense),
    /// IN over constants.
    InSet(Box<Expr>, Arc<ValueSet>, Sense),
    /// IN over other expressions.
    InList(Box<Expr>, Vec<Expr>, Sense),
    /// IN UNNEST of an array column.
    InArray(Box<Expr>, Box<Expr>, Sense),
    /// LIKE with a constant pattern.
    LikePattern(Box<Expr>, Arc<Pattern>, Sense),
    Like(Box<Expr>, Box<Expr>, Sense),
    /// CASE and IF.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    Coalesce(Vec<Expr>),
    Cast(Box<Expr>),
    /// NULL where the cast fails.
    SafeCast(Box<Expr>),
    Negate(Box<Expr>),
    BitNot(Box<Expr>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    Concat(Vec<Expr>),
    Call(Function, Vec<Expr>),
    /// NULL where the call fails.
    SafeCall(Function, Vec<Expr>),
}

impl Expr {
    /// A value of `ty`, of length one.
    pub(super) fn literal(at: usize, ty: Type, value: ArrayRef) -> Self {
        Self::new(at, ty, Kind::Literal(value))
    }

    /// An expression that cannot fail.
    pub(super) fn new(at: usize, ty: Type, kind: Kind) -> Self {
        Self {
            at,
            kind,
            ty,
            written: Written::Plain,
            ignores_case: false,
            fallible: false,
        }
    }

    /// The same, which can fail where `fallible` or a child can.
    pub(super) fn failing(mut self, fallible: bool) -> Self {
        self.fallible = fallible;
        self
    }

    /// The value of a literal.
    pub(super) fn as_literal(&self) -> Option<&ArrayRef> {
        match &self.kind {
            Kind::Literal(value) => Some(value),
            _ => None,
        }
    }
}

impl Expr {
    /// Calls `see` with every direct child.
    pub(super) fn for_each_child<'a>(&'a self, mut see: impl FnMut(&'a Expr)) {
        match &self.kind {
            Kind::Literal(_) | Kind::Column(_) | Kind::Pseudo(_) => {}
            Kind::Not(a)
            | Kind::IsNull(a, _)
            | Kind::IsBool(a, _, _)
            | Kind::InSet(a, _, _)
            | Kind::LikePattern(a, _, _)
            | Kind::Cast(a)
            | Kind::SafeCast(a)
            | Kind::Negate(a)
            | Kind::BitNot(a) => see(a),
            Kind::Compare(_, a, b)
            | Kind::DistinctFrom(a, b, _)
            | Kind::InArray(a, b, _)
            | Kind::Like(a, b, _)
            | Kind::Arithmetic(_, a, b) => {
                see(a);
                see(b);
            }
            Kind::Between(a, b, c, _) => {
                see(a);
                see(b);
                see(c);
            }
            Kind::InList(a, list, _) => {
                see(a);
                list.iter().for_each(see);
            }
            Kind::Case(whens, otherwise) => {
                for (condition, value) in whens {
                    see(condition);
                    see(value);
                }
                see(otherwise);
            }
            Kind::And(all)
            | Kind::Or(all)
            | Kind::Coalesce(all)
            | Kind::Concat(all)
            | Kind::Call(_, all)
            | Kind::SafeCall(_, all) => all.iter().for_each(see),
        }
    }
}
