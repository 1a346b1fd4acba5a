//! Function calls, ORDER BY items and windows.

use super::super::ast::{
    Argument, Bound, Call, Expr, ExprKind, Frame, Having, Ident, OrderItem, Window, WindowSpec,
};
use super::expr::boxed;
use super::lexer::TokenKind;
use super::{Parser, is_reserved};
use crate::error::{Result, ServiceError};

impl Parser<'_> {
    /// The arguments and what follows them; the name has been read.
    pub(super) fn call(&mut self, name: Vec<Ident>, at: usize) -> Result<Expr> {
        self.nested(|p| p.call_inner(name, at))
    }

    fn call_inner(&mut self, name: Vec<Ident>, at: usize) -> Result<Expr> {
        self.expect_symbol("(")?;
        let mut call = Call {
            name,
            args: Vec::new(),
            distinct: false,
            ignore_nulls: None,
            having: None,
            order_by: Vec::new(),
            limit: None,
            over: None,
        };
        call.distinct = self.take_word("DISTINCT");
        if self.is_symbol("*") {
            let star = self.offset();
            self.advance();
            call.args.push(Argument {
                name: None,
                value: boxed(ExprKind::Star, star),
                alias: None,
            });
        } else if !self.is_symbol(")") && !self.is_words(&["ORDER", "BY"]) && !self.is_word("LIMIT")
        {
            call.args = self.comma_separated(|p| p.argument())?;
        }
        self.call_modifiers(&mut call)?;
        self.expect_symbol(")")?;
        if self.is_words(&["WITHIN", "GROUP"]) {
            return Err(ServiceError::unsupported("WITHIN GROUP"));
        }
        // Behind the call it belongs to OVER; otherwise it is the enclosing call's.
        if call.ignore_nulls.is_none() && self.word_at(2, "OVER") {
            call.ignore_nulls = self.null_treatment();
        }
        if self.take_word("OVER") {
            call.over = Some(if self.is_symbol("(") {
                self.expect_symbol("(")?;
                let spec = self.window_spec()?;
                self.expect_symbol(")")?;
                Window::Spec(Box::new(spec))
            } else {
                Window::Named(self.ident()?)
            });
        }
        Ok(boxed(ExprKind::Call(Box::new(call)), at))
    }

    fn null_treatment(&mut self) -> Option<bool> {
        if self.take_words(&["IGNORE", "NULLS"]) {
            Some(true)
        } else if self.take_words(&["RESPECT", "NULLS"]) {
            Some(false)
        } else {
            None
        }
    }

    fn call_modifiers(&mut self, call: &mut Call) -> Result<()> {
        call.ignore_nulls = self.null_treatment();
        if self.take_word("HAVING") {
            let which = if self.take_word("MAX") {
                Having::Max
            } else {
                self.expect_word("MIN")?;
                Having::Min
            };
            call.having = Some((which, self.expr()?));
        }
        if self.take_words(&["ORDER", "BY"]) {
            call.order_by = self.order_items()?;
        }
        if self.take_word("LIMIT") {
            call.limit = Some(self.expr()?);
        }
        Ok(())
    }

    fn argument(&mut self) -> Result<Argument> {
        let name = if self.symbol_at(1, "=>") {
            let name = self.any_ident()?;
            self.advance();
            Some(name)
        } else {
            None
        };
        if self.symbol_at(1, "->") {
            return Err(ServiceError::unsupported("A lambda expression"));
        }
        if self.query_follows(0) && !self.is_symbol("(") {
            return Err(self.unexpected(""));
        }
        let value = self.expr()?;
        // `ARRAY_AGG(x) …` never has aliases; STRUCT-like calls do.
        let alias = if self.take_word("AS") {
            Some(self.ident()?)
        } else {
            None
        };
        Ok(Argument { name, value, alias })
    }

    pub(super) fn order_items(&mut self) -> Result<Vec<OrderItem>> {
        self.comma_separated(|p| {
            let expr = p.expr()?;
            let collate = if p.take_word("COLLATE") {
                Some(p.string_literal()?)
            } else {
                None
            };
            let descending = if p.take_word("DESC") {
                true
            } else {
                p.take_word("ASC");
                false
            };
            let nulls_first = if p.take_words(&["NULLS", "FIRST"]) {
                Some(true)
            } else if p.take_words(&["NULLS", "LAST"]) {
                Some(false)
            } else {
                None
            };
            Ok(OrderItem {
                expr,
                descending,
                nulls_first,
                collate,
            })
        })
    }

    pub(super) fn window_spec(&mut self) -> Result<WindowSpec> {
        let base = match self.peek() {
            TokenKind::Word(w) if !is_reserved(w) => Some(self.ident()?),
            TokenKind::Quoted(_) => Some(self.ident()?),
            _ => None,
        };
        let partition_by = if self.take_words(&["PARTITION", "BY"]) {
            self.comma_separated(|p| p.expr())?
        } else {
            Vec::new()
        };
        let order_by = if self.take_words(&["ORDER", "BY"]) {
            self.order_items()?
        } else {
            Vec::new()
        };
        let frame = if self.take_word("ROWS") {
            Some(self.frame(true)?)
        } else if self.take_word("RANGE") {
            Some(self.frame(false)?)
        } else {
            None
        };
        Ok(WindowSpec {
            base,
            partition_by,
            order_by,
            frame,
        })
    }

    fn frame(&mut self, rows: bool) -> Result<Frame> {
        let (start, end) = if self.take_word("BETWEEN") {
            let start = self.bound()?;
            self.expect_word("AND")?;
            (start, self.bound()?)
        } else {
            (self.bound()?, Bound::CurrentRow)
        };
        if self.is_word("EXCLUDE") {
            return Err(ServiceError::unsupported("EXCLUDE in a window frame"));
        }
        Ok(Frame { rows, start, end })
    }

    fn bound(&mut self) -> Result<Bound> {
        if self.take_words(&["UNBOUNDED", "PRECEDING"]) {
            return Ok(Bound::UnboundedPreceding);
        }
        if self.take_words(&["UNBOUNDED", "FOLLOWING"]) {
            return Ok(Bound::UnboundedFollowing);
        }
        if self.take_words(&["CURRENT", "ROW"]) {
            return Ok(Bound::CurrentRow);
        }
        let value = self.bit_or()?;
        if self.take_word("PRECEDING") {
            Ok(Bound::Preceding(value))
        } else {
            self.expect_word("FOLLOWING")?;
            Ok(Bound::Following(value))
        }
    }
}
