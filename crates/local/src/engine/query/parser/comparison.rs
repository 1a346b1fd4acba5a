//! Comparisons: `=`, IS, BETWEEN, IN and LIKE.

use super::super::ast::{BinaryOp, Expr, ExprKind, InSet, Quantifier, Truth};
use super::Parser;
use super::expr::{binary, boxed};
use super::lexer::TokenKind;
use crate::error::Result;

impl Parser<'_> {
    pub(super) fn comparison(&mut self) -> Result<Expr> {
        let mut left = self.bit_or()?;
        loop {
            let at = self.offset();
            let op = match self.peek() {
                TokenKind::Symbol("=") => Some(BinaryOp::Equal),
                TokenKind::Symbol("!=" | "<>") => Some(BinaryOp::NotEqual),
                TokenKind::Symbol("<") => Some(BinaryOp::Less),
                TokenKind::Symbol("<=") => Some(BinaryOp::LessOrEqual),
                TokenKind::Symbol(">") => Some(BinaryOp::Greater),
                TokenKind::Symbol(">=") => Some(BinaryOp::GreaterOrEqual),
                _ => None,
            };
            if let Some(op) = op {
                self.advance();
                let right = self.bit_or()?;
                left = binary(op, left, right, at);
                // Comparisons do not chain.
                if matches!(
                    self.peek(),
                    TokenKind::Symbol("=" | "!=" | "<>" | "<" | "<=" | ">" | ">=")
                ) {
                    return Err(self.unexpected("Expected end of comparison"));
                }
                continue;
            }
            let not = self.is_word("NOT")
                && (self.word_at(1, "IN") || self.word_at(1, "LIKE") || self.word_at(1, "BETWEEN"));
            if not {
                self.advance();
            }
            if self.take_word("IS") {
                left = self.is_suffix(left, at)?;
            } else if self.take_word("BETWEEN") {
                let low = self.bit_or()?;
                self.expect_word("AND")?;
                let high = self.bit_or()?;
                left = boxed(
                    ExprKind::Between {
                        expr: Box::new(left),
                        low: Box::new(low),
                        high: Box::new(high),
                        not,
                    },
                    at,
                );
            } else if self.take_word("IN") {
                let set = self.in_set()?;
                left = boxed(
                    ExprKind::In {
                        expr: Box::new(left),
                        set,
                        not,
                    },
                    at,
                );
            } else if self.take_word("LIKE") {
                left = self.like_suffix(left, not, at)?;
            } else {
                return Ok(left);
            }
        }
    }

    fn is_suffix(&mut self, left: Expr, at: usize) -> Result<Expr> {
        let not = self.take_word("NOT");
        if self.take_words(&["DISTINCT", "FROM"]) {
            let right = self.bit_or()?;
            return Ok(boxed(
                ExprKind::IsDistinct {
                    left: Box::new(left),
                    right: Box::new(right),
                    not,
                },
                at,
            ));
        }
        let what = if self.take_word("NULL") || self.take_word("UNKNOWN") {
            Truth::Null
        } else if self.take_word("TRUE") {
            Truth::True
        } else if self.take_word("FALSE") {
            Truth::False
        } else {
            return Err(self.unexpected(""));
        };
        Ok(boxed(
            ExprKind::Is {
                expr: Box::new(left),
                what,
                not,
            },
            at,
        ))
    }

    fn like_suffix(&mut self, left: Expr, not: bool, at: usize) -> Result<Expr> {
        let quantifier = if self.take_word("ANY") || self.take_word("SOME") {
            Some(Quantifier::Any)
        } else if self.take_word("ALL") {
            Some(Quantifier::All)
        } else {
            None
        };
        let expr = Box::new(left);
        let kind = match quantifier {
            Some(quantifier) => ExprKind::LikeSome {
                expr,
                quantifier,
                patterns: self.in_set()?,
                not,
            },
            None => ExprKind::Like {
                expr,
                pattern: Box::new(self.bit_or()?),
                not,
            },
        };
        Ok(boxed(kind, at))
    }

    fn in_set(&mut self) -> Result<InSet> {
        if self.take_word("UNNEST") {
            self.expect_symbol("(")?;
            let array = self.expr()?;
            self.expect_symbol(")")?;
            return Ok(InSet::Unnest(Box::new(array)));
        }
        if self.is_symbol("(") && self.query_follows(1) {
            self.expect_symbol("(")?;
            let query = self.query()?;
            self.expect_symbol(")")?;
            return Ok(InSet::Query(Box::new(query)));
        }
        Ok(InSet::List(self.parenthesized(|p| p.expr())?))
    }
}
