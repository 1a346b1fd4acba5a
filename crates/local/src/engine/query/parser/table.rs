//! FROM clauses.

use super::super::ast::{
    Argument, ExprKind, Ident, JoinKind, JoinOn, TableArgument, TableExpr, UnpivotColumns,
};
use super::Parser;
use super::lexer::TokenKind;
use crate::error::{Result, ServiceError};

impl Parser<'_> {
    /// Tables separated by commas and joins, after FROM.
    pub(super) fn from(&mut self) -> Result<TableExpr> {
        let mut left = self.joined()?;
        loop {
            let at = self.offset();
            if !self.take_symbol(",") {
                return Ok(left);
            }
            let right = self.table_primary()?;
            left = TableExpr::Join {
                left: Box::new(left),
                right: Box::new(right),
                kind: JoinKind::Comma,
                on: JoinOn::None,
                at,
            };
            left = self.joins(left)?;
        }
    }

    fn joined(&mut self) -> Result<TableExpr> {
        let first = self.table_primary()?;
        self.joins(first)
    }

    fn join_kind(&mut self) -> Result<Option<JoinKind>> {
        if self.is_word("NATURAL") {
            return Err(ServiceError::unsupported("NATURAL JOIN"));
        }
        let kind = if self.take_words(&["CROSS", "JOIN"]) {
            return Ok(Some(JoinKind::Cross));
        } else if self.take_word("INNER") {
            JoinKind::Inner
        } else if self.take_word("LEFT") {
            self.take_word("OUTER");
            JoinKind::Left
        } else if self.take_word("RIGHT") {
            self.take_word("OUTER");
            JoinKind::Right
        } else if self.take_word("FULL") {
            self.take_word("OUTER");
            JoinKind::Full
        } else if self.is_word("JOIN") {
            JoinKind::Inner
        } else {
            return Ok(None);
        };
        self.expect_word("JOIN")?;
        Ok(Some(kind))
    }

    fn joins(&mut self, mut left: TableExpr) -> Result<TableExpr> {
        // `a JOIN b JOIN c ON x ON y`: conditions belong to the innermost open join.
        let mut open: Vec<(TableExpr, JoinKind, usize)> = Vec::new();
        let mut length = 0usize;
        loop {
            let at = self.offset();
            if let Some(kind) = self.join_kind()? {
                length += 1;
                if length > 200 {
                    return Err(ServiceError::unsupported("A chain of more than 200 joins"));
                }
                let right = self.table_primary()?;
                let on = self.join_condition()?;
                // An array needs no condition; a path may be an array.
                let last = !(self.is_word("JOIN")
                    || self.is_word("INNER")
                    || self.is_word("LEFT")
                    || self.is_word("RIGHT")
                    || self.is_word("FULL"));
                let optional = match &right {
                    TableExpr::Unnest { .. } => true,
                    TableExpr::Table { path, .. } => path.len() > 1 && last,
                    _ => false,
                } || kind == JoinKind::Cross;
                if matches!(on, JoinOn::None) && !optional {
                    open.push((left, kind, at));
                    left = right;
                    continue;
                }
                left = TableExpr::Join {
                    left: Box::new(left),
                    right: Box::new(right),
                    kind,
                    on,
                    at,
                };
                continue;
            }
            if let Some((outer, kind, at)) = open.pop() {
                let on = self.join_condition()?;
                if matches!(on, JoinOn::None) {
                    return Err(self.unexpected("Expected keyword ON or keyword USING"));
                }
                left = TableExpr::Join {
                    left: Box::new(outer),
                    right: Box::new(left),
                    kind,
                    on,
                    at,
                };
                continue;
            }
            return Ok(left);
        }
    }

    fn join_condition(&mut self) -> Result<JoinOn> {
        if self.take_word("ON") {
            return Ok(JoinOn::On(self.expr()?));
        }
        if self.take_word("USING") {
            return Ok(JoinOn::Using(self.parenthesized(|p| p.ident())?));
        }
        Ok(JoinOn::None)
    }

    fn table_primary(&mut self) -> Result<TableExpr> {
        let table = self.nested(|p| p.table_primary_inner())?;
        self.pivots(table)
    }

    fn with_offset(&mut self) -> Result<Option<Option<Ident>>> {
        if !self.take_words(&["WITH", "OFFSET"]) {
            return Ok(None);
        }
        Ok(Some(self.table_alias()?))
    }

    /// An alias; PIVOT and UNPIVOT are operators here.
    fn table_alias(&mut self) -> Result<Option<Ident>> {
        if (self.is_word("PIVOT") || self.is_word("UNPIVOT"))
            && (self.symbol_at(1, "(") || self.word_at(1, "INCLUDE") || self.word_at(1, "EXCLUDE"))
        {
            return Ok(None);
        }
        self.alias()
    }

    fn table_primary_inner(&mut self) -> Result<TableExpr> {
        let at = self.offset();
        if self.take_word("UNNEST") {
            self.expect_symbol("(")?;
            let exprs = self.comma_separated(|p| p.expr())?;
            self.expect_symbol(")")?;
            let alias = self.table_alias()?;
            let offset = self.with_offset()?;
            return Ok(TableExpr::Unnest {
                exprs,
                alias,
                offset,
                at,
            });
        }
        if self.is_symbol("(") {
            if self.query_follows(0) {
                // `((SELECT …) UNION ALL …)` and `((SELECT …) JOIN …)` both start so.
                let mark = self.at;
                self.expect_symbol("(")?;
                if let Ok(query) = self.query()
                    && self.take_symbol(")")
                {
                    let alias = self.table_alias()?;
                    return Ok(TableExpr::Subquery {
                        query: Box::new(query),
                        alias,
                    });
                }
                if !(self.tokens[mark + 1].kind == TokenKind::Symbol("(")) {
                    // Not a join in parentheses: report the query's own error.
                    self.at = mark;
                    self.expect_symbol("(")?;
                    self.query()?;
                    self.expect_symbol(")")?;
                }
                self.at = mark;
            }
            self.expect_symbol("(")?;
            let inner = self.from()?;
            self.expect_symbol(")")?;
            return Ok(inner);
        }
        if self.is_word("LATERAL") {
            return Err(ServiceError::unsupported("LATERAL"));
        }
        let path = self.path()?;
        if self.is_symbol("(") {
            return self.table_function(path);
        }
        let mut alias = self.table_alias()?;
        let offset = self.with_offset()?;
        let mut system_time = None;
        if self.take_words(&["FOR", "SYSTEM_TIME", "AS", "OF"])
            || self.take_words(&["FOR", "SYSTEM", "TIME", "AS", "OF"])
        {
            system_time = Some(self.expr()?);
            if alias.is_none() {
                alias = self.table_alias()?;
            }
        }
        let sample = self.sample()?;
        Ok(TableExpr::Table {
            path,
            alias,
            offset,
            system_time,
            sample,
        })
    }

    /// `TABLESAMPLE SYSTEM (n PERCENT)`.
    fn sample(&mut self) -> Result<Option<super::super::ast::Expr>> {
        if !self.take_word("TABLESAMPLE") {
            return Ok(None);
        }
        self.expect_word("SYSTEM")?;
        self.expect_symbol("(")?;
        let percent = self.expr()?;
        self.expect_word("PERCENT")?;
        self.expect_symbol(")")?;
        Ok(Some(percent))
    }

    fn table_function(&mut self, name: Vec<Ident>) -> Result<TableExpr> {
        self.expect_symbol("(")?;
        let mut args = Vec::new();
        if !self.take_symbol(")") {
            args = self.comma_separated(|p| {
                if p.take_word("TABLE") {
                    return Ok(TableArgument::Table(p.path()?));
                }
                if p.query_follows(0) && p.is_symbol("(") {
                    let mark = p.at;
                    p.expect_symbol("(")?;
                    let query = p.query()?;
                    p.expect_symbol(")")?;
                    if p.is_symbol(",") || p.is_symbol(")") {
                        return Ok(TableArgument::Query(Box::new(query)));
                    }
                    p.at = mark;
                }
                let name = if p.symbol_at(1, "=>") {
                    let name = p.any_ident()?;
                    p.advance();
                    Some(name)
                } else {
                    None
                };
                Ok(TableArgument::Expr(Argument {
                    name,
                    value: p.expr()?,
                    alias: None,
                }))
            })?;
            self.expect_symbol(")")?;
        }
        let alias = self.table_alias()?;
        Ok(TableExpr::Function { name, args, alias })
    }

    fn pivots(&mut self, mut table: TableExpr) -> Result<TableExpr> {
        loop {
            let at = self.offset();
            if self.is_word("PIVOT") && self.symbol_at(1, "(") {
                self.advance();
                self.expect_symbol("(")?;
                let aggregates = self.comma_separated(|p| {
                    let expr = p.expr()?;
                    Ok((expr, p.alias()?))
                })?;
                self.expect_word("FOR")?;
                let column = Box::new(self.pivot_column()?);
                self.expect_word("IN")?;
                let values = self.parenthesized(|p| {
                    let expr = p.expr()?;
                    Ok((expr, p.alias()?))
                })?;
                self.expect_symbol(")")?;
                let alias = self.table_alias()?;
                table = TableExpr::Pivot {
                    input: Box::new(table),
                    aggregates,
                    column,
                    values,
                    alias,
                    at,
                };
            } else if self.is_word("UNPIVOT")
                && (self.symbol_at(1, "(") || self.word_at(2, "NULLS"))
            {
                table = self.unpivot(table, at)?;
            } else {
                return Ok(table);
            }
        }
    }

    /// An expression that stops before IN.
    fn pivot_column(&mut self) -> Result<super::super::ast::Expr> {
        let at = self.offset();
        let mut expr = super::super::ast::Expr {
            kind: ExprKind::Ident(self.ident()?),
            at,
        };
        while self.take_symbol(".") {
            let name = self.any_ident()?;
            expr = super::super::ast::Expr {
                at: name.at,
                kind: ExprKind::Dot(Box::new(expr), name),
            };
        }
        Ok(expr)
    }

    fn unpivot(&mut self, input: TableExpr, at: usize) -> Result<TableExpr> {
        self.expect_word("UNPIVOT")?;
        let include_nulls = if self.take_words(&["INCLUDE", "NULLS"]) {
            true
        } else {
            self.take_words(&["EXCLUDE", "NULLS"]);
            false
        };
        self.expect_symbol("(")?;
        let values = if self.is_symbol("(") {
            self.parenthesized(|p| p.ident())?
        } else {
            vec![self.ident()?]
        };
        self.expect_word("FOR")?;
        let name = self.ident()?;
        self.expect_word("IN")?;
        let columns = self.parenthesized(|p| {
            let columns = if p.is_symbol("(") {
                p.parenthesized(|p| p.ident())?
            } else {
                vec![p.ident()?]
            };
            let labelled = p.take_word("AS")
                || matches!(p.peek(), TokenKind::String(_) | TokenKind::Integer(_));
            let label = if labelled { Some(p.expr()?) } else { None };
            Ok(UnpivotColumns { columns, label })
        })?;
        self.expect_symbol(")")?;
        let alias = self.table_alias()?;
        Ok(TableExpr::Unpivot {
            input: Box::new(input),
            include_nulls,
            values,
            name,
            columns,
            alias,
            at,
        })
    }
}
