//! Queries: WITH, SELECT, set operations, ORDER BY and LIMIT.

use super::super::ast::{
    Cte, Expr, GroupBy, GroupItem, Ident, Query, Select, SelectAs, SelectItem, SetExpr, SetOp,
};
use super::Parser;
use super::lexer::TokenKind;
use crate::error::{Result, ServiceError};

/// EXCEPT and REPLACE behind a `*`.
type StarModifiers = (Vec<Ident>, Vec<(Expr, Ident)>);

impl Parser<'_> {
    pub(super) fn query(&mut self) -> Result<Query> {
        self.nested(|p| p.query_inner())
    }

    fn query_inner(&mut self) -> Result<Query> {
        let at = self.offset();
        if self.is_word("FROM") {
            return Err(ServiceError::unsupported("Pipe query syntax"));
        }
        let mut recursive = false;
        let mut with = Vec::new();
        if self.take_word("WITH") {
            recursive = self.take_word("RECURSIVE");
            with = self.comma_separated(|p| {
                let name = p.ident()?;
                if p.is_symbol("(") {
                    return Err(p.unexpected("Expected keyword AS"));
                }
                p.expect_word("AS")?;
                p.expect_symbol("(")?;
                let query = p.query()?;
                p.expect_symbol(")")?;
                if p.is_words(&["WITH", "DEPTH"]) {
                    return Err(ServiceError::unsupported("WITH DEPTH"));
                }
                Ok(Cte { name, query })
            })?;
        }
        let body = self.set_expr()?;
        let order_by = if self.take_words(&["ORDER", "BY"]) {
            self.order_items()?
        } else {
            Vec::new()
        };
        let mut limit = None;
        let mut offset = None;
        if self.take_word("LIMIT") {
            limit = Some(self.expr()?);
            if self.take_word("OFFSET") {
                offset = Some(self.expr()?);
            }
        }
        if self.is_symbol("|>") {
            return Err(ServiceError::unsupported("Pipe query syntax"));
        }
        Ok(Query {
            recursive,
            with,
            body,
            order_by,
            limit,
            offset,
            at,
        })
    }

    fn set_expr(&mut self) -> Result<SetExpr> {
        let mut left = self.set_operand()?;
        let mut previous: Option<(SetOp, bool)> = None;
        loop {
            let at = self.offset();
            let by_name = |words: &[&str]| {
                let set = ["UNION", "INTERSECT", "EXCEPT"].into_iter();
                set.map(|last| [words, &[last]].concat())
                    .any(|words| self.is_words(&words))
            };
            if by_name(&["INNER"])
                || by_name(&["FULL"])
                || by_name(&["FULL", "OUTER"])
                || by_name(&["LEFT"])
                || by_name(&["LEFT", "OUTER"])
            {
                return Err(ServiceError::unsupported("A set operation BY NAME"));
            }
            let op = if self.is_word("UNION") {
                SetOp::Union
            } else if self.is_word("INTERSECT") {
                SetOp::Intersect
            } else if self.is_word("EXCEPT") {
                SetOp::Except
            } else {
                return Ok(left);
            };
            self.advance();
            let all = if self.take_word("ALL") {
                true
            } else if self.take_word("DISTINCT") {
                false
            } else {
                return Err(self.unexpected("Expected keyword ALL or keyword DISTINCT"));
            };
            if previous.is_some_and(|p| p != (op, all)) {
                return Err(self.error(
                    at,
                    "Different set operations cannot be used in the same query without using parentheses for grouping",
                ));
            }
            previous = Some((op, all));
            if self.is_word("BY") || self.is_word("CORRESPONDING") || self.is_word("STRICT") {
                return Err(ServiceError::unsupported("A set operation BY NAME"));
            }
            let right = self.set_operand()?;
            left = SetExpr::Op {
                op,
                all,
                left: Box::new(left),
                right: Box::new(right),
                at,
            };
        }
    }

    fn set_operand(&mut self) -> Result<SetExpr> {
        if self.take_symbol("(") {
            let query = self.query()?;
            self.expect_symbol(")")?;
            return Ok(SetExpr::Query(Box::new(query)));
        }
        Ok(SetExpr::Select(Box::new(self.select()?)))
    }

    fn select(&mut self) -> Result<Select> {
        let at = self.offset();
        if !self.take_word("SELECT") {
            return Err(self.unexpected("Expected keyword SELECT"));
        }
        if self.is_word("WITH") {
            return Err(ServiceError::unsupported("SELECT WITH"));
        }
        let mut distinct = false;
        if self.take_word("DISTINCT") {
            distinct = true;
        } else {
            self.take_word("ALL");
        }
        let mut select_as = SelectAs::Columns;
        if self.take_word("AS") {
            if self.take_word("STRUCT") {
                select_as = SelectAs::Struct;
            } else if self.take_word("VALUE") {
                select_as = SelectAs::Value;
            } else {
                return Err(ServiceError::unsupported("SELECT AS with a named type"));
            }
        }
        let mut items = vec![self.select_item()?];
        while self.take_symbol(",") {
            // A trailing comma is allowed.
            if self.is_word("FROM")
                || matches!(self.peek(), TokenKind::End | TokenKind::Symbol(")" | ";"))
            {
                break;
            }
            items.push(self.select_item()?);
        }
        let from = if self.take_word("FROM") {
            Some(self.from()?)
        } else {
            None
        };
        let filter = self.clause("WHERE")?;
        let group_by = if self.take_words(&["GROUP", "BY"]) {
            Some(self.group_by()?)
        } else if self.is_words(&["GROUP", "AND"]) {
            return Err(ServiceError::unsupported("GROUP AND ORDER BY"));
        } else {
            None
        };
        let having = self.clause("HAVING")?;
        let qualify = self.clause("QUALIFY")?;
        let windows = if self.take_word("WINDOW") {
            self.comma_separated(|p| {
                let name = p.ident()?;
                p.expect_word("AS")?;
                if p.take_symbol("(") {
                    let spec = p.window_spec()?;
                    p.expect_symbol(")")?;
                    return Ok((name, spec));
                }
                let base = p.ident()?;
                Ok((
                    name,
                    super::super::ast::WindowSpec {
                        base: Some(base),
                        partition_by: Vec::new(),
                        order_by: Vec::new(),
                        frame: None,
                    },
                ))
            })?
        } else {
            Vec::new()
        };
        Ok(Select {
            distinct,
            select_as,
            items,
            from,
            filter,
            group_by,
            having,
            qualify,
            windows,
            at,
        })
    }

    fn clause(&mut self, word: &str) -> Result<Option<Expr>> {
        if self.take_word(word) {
            self.expr().map(Some)
        } else {
            Ok(None)
        }
    }

    fn select_item(&mut self) -> Result<SelectItem> {
        let at = self.offset();
        if self.take_symbol("*") {
            let (except, replace) = self.star_modifiers()?;
            return Ok(SelectItem::Star {
                of: None,
                except,
                replace,
                at,
            });
        }
        let expr = self.expr()?;
        if self.is_symbol(".") && self.symbol_at(1, "*") {
            self.advance();
            self.advance();
            let (except, replace) = self.star_modifiers()?;
            return Ok(SelectItem::Star {
                of: Some(expr),
                except,
                replace,
                at,
            });
        }
        let alias = self.alias()?;
        Ok(SelectItem::Expr { expr, alias })
    }

    fn star_modifiers(&mut self) -> Result<StarModifiers> {
        let except = if self.is_word("EXCEPT") && self.symbol_at(1, "(") {
            self.advance();
            self.parenthesized(|p| p.any_ident())?
        } else {
            Vec::new()
        };
        let replace = if self.is_word("REPLACE") && self.symbol_at(1, "(") {
            self.advance();
            self.parenthesized(|p| {
                let expr = p.expr()?;
                p.take_word("AS");
                Ok((expr, p.any_ident()?))
            })?
        } else {
            Vec::new()
        };
        Ok((except, replace))
    }

    fn group_by(&mut self) -> Result<GroupBy> {
        if self.take_word("ALL") {
            return Ok(GroupBy::All);
        }
        Ok(GroupBy::Items(self.comma_separated(|p| p.group_item())?))
    }

    fn group_item(&mut self) -> Result<GroupItem> {
        if self.take_word("ROLLUP") {
            return Ok(GroupItem::Rollup(
                self.parenthesized(|p| p.group_columns())?,
            ));
        }
        if self.take_word("CUBE") {
            return Ok(GroupItem::Cube(self.parenthesized(|p| p.group_columns())?));
        }
        if self.take_words(&["GROUPING", "SETS"]) {
            return Ok(GroupItem::Sets(self.parenthesized(|p| {
                if p.is_symbol("(") {
                    return Ok(GroupItem::Tuple(p.group_columns()?));
                }
                p.group_item()
            })?));
        }
        if self.is_symbol("(") && self.symbol_at(1, ")") {
            self.advance();
            self.advance();
            return Ok(GroupItem::Tuple(Vec::new()));
        }
        let expr = self.expr()?;
        if self.is_word("AS") {
            return Err(ServiceError::unsupported("An alias in GROUP BY"));
        }
        Ok(GroupItem::Expr(expr))
    }

    /// `a`, `(a, b)` or `()`.
    fn group_columns(&mut self) -> Result<Vec<Expr>> {
        if !self.is_symbol("(") {
            return Ok(vec![self.expr()?]);
        }
        if self.symbol_at(1, ")") {
            self.advance();
            self.advance();
            return Ok(Vec::new());
        }
        let expr = self.expr()?;
        Ok(match expr.kind {
            super::super::ast::ExprKind::Struct {
                fields: None,
                items,
            } => items.into_iter().map(|(e, _)| e).collect(),
            kind => vec![Expr { kind, at: expr.at }],
        })
    }
}
