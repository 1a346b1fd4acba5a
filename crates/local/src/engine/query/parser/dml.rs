//! INSERT, UPDATE, DELETE, MERGE and TRUNCATE.

use super::super::ast::{
    Assignment, Ident, InsertSource, InsertValue, MergeAction, MergeClause, MergeMatch,
    StatementKind,
};
use super::Parser;
use crate::error::{Result, ServiceError};

impl Parser<'_> {
    pub(super) fn insert(&mut self) -> Result<StatementKind> {
        self.expect_word("INSERT")?;
        if self.is_word("OR") || self.is_word("IGNORE") || self.is_word("REPLACE") {
            return Err(self.unexpected(""));
        }
        self.take_word("INTO");
        let path = self.path()?;
        let columns = if self.is_symbol("(") && !self.query_follows(0) {
            self.parenthesized(|p| p.any_ident())?
        } else {
            Vec::new()
        };
        let source = if self.take_word("VALUES") {
            InsertSource::Values(self.comma_separated(|p| p.parenthesized(|p| p.insert_value()))?)
        } else {
            InsertSource::Query(Box::new(self.query()?))
        };
        if self.is_word("ASSERT_ROWS_MODIFIED") {
            return Err(ServiceError::unsupported("ASSERT_ROWS_MODIFIED"));
        }
        Ok(StatementKind::Insert {
            path,
            columns,
            source,
        })
    }

    fn insert_value(&mut self) -> Result<InsertValue> {
        if self.take_word("DEFAULT") {
            return Ok(InsertValue::Default);
        }
        Ok(InsertValue::Expr(self.expr()?))
    }

    fn target_alias(&mut self) -> Result<Option<Ident>> {
        self.alias_unless(&["SET", "WHERE", "USING"])
    }

    fn alias_unless(&mut self, words: &[&str]) -> Result<Option<Ident>> {
        if words.iter().any(|w| self.is_word(w)) {
            return Ok(None);
        }
        self.alias()
    }

    fn assignments(&mut self) -> Result<Vec<Assignment>> {
        self.comma_separated(|p| {
            if p.is_symbol("(") {
                return Err(ServiceError::unsupported("A nested DML statement"));
            }
            let mut path = vec![p.any_ident()?];
            while p.take_symbol(".") {
                path.push(p.any_ident()?);
            }
            if p.is_symbol("[") {
                return Err(ServiceError::unsupported("Assigning to an array element"));
            }
            p.expect_symbol("=")?;
            Ok(Assignment {
                path,
                value: p.insert_value()?,
            })
        })
    }

    pub(super) fn update(&mut self) -> Result<StatementKind> {
        self.expect_word("UPDATE")?;
        let path = self.path()?;
        let alias = self.target_alias()?;
        self.expect_word("SET")?;
        let set = self.assignments()?;
        let from = if self.take_word("FROM") {
            Some(self.from()?)
        } else {
            None
        };
        if !self.is_word("WHERE") {
            return Err(self.unexpected("UPDATE must have a WHERE clause; Expected keyword WHERE"));
        }
        self.advance();
        let filter = self.expr()?;
        Ok(StatementKind::Update {
            path,
            alias,
            set,
            from,
            filter,
        })
    }

    pub(super) fn delete(&mut self) -> Result<StatementKind> {
        self.expect_word("DELETE")?;
        self.take_word("FROM");
        let path = self.path()?;
        let alias = self.target_alias()?;
        if !self.is_word("WHERE") {
            return Err(self.unexpected("DELETE must have a WHERE clause; Expected keyword WHERE"));
        }
        self.advance();
        let filter = self.expr()?;
        Ok(StatementKind::Delete {
            path,
            alias,
            filter,
        })
    }

    pub(super) fn merge(&mut self) -> Result<StatementKind> {
        self.expect_word("MERGE")?;
        self.take_word("INTO");
        let target = self.path()?;
        let alias = self.target_alias()?;
        self.expect_word("USING")?;
        let source = self.merge_source()?;
        self.expect_word("ON")?;
        let on = self.expr()?;
        let mut clauses = Vec::new();
        while self.take_word("WHEN") {
            let not = self.take_word("NOT");
            self.expect_word("MATCHED")?;
            let when = if !not {
                MergeMatch::Matched
            } else if self.take_words(&["BY", "SOURCE"]) {
                MergeMatch::NotMatchedBySource
            } else {
                self.take_words(&["BY", "TARGET"]);
                MergeMatch::NotMatchedByTarget
            };
            let condition = if self.take_word("AND") {
                Some(self.expr()?)
            } else {
                None
            };
            self.expect_word("THEN")?;
            let action = self.merge_action()?;
            let fits = matches!(action, MergeAction::Insert { .. } | MergeAction::InsertRow)
                == (when == MergeMatch::NotMatchedByTarget);
            if !fits {
                return Err(self.unexpected("Invalid action for this WHEN clause"));
            }
            clauses.push(MergeClause {
                when,
                condition,
                action,
            });
        }
        if clauses.is_empty() {
            return Err(self.unexpected("Expected keyword WHEN"));
        }
        Ok(StatementKind::Merge {
            target,
            alias,
            source,
            on,
            clauses,
        })
    }

    fn merge_source(&mut self) -> Result<super::super::ast::TableExpr> {
        self.from()
    }

    fn merge_action(&mut self) -> Result<MergeAction> {
        if self.take_word("DELETE") {
            return Ok(MergeAction::Delete);
        }
        if self.take_word("UPDATE") {
            self.expect_word("SET")?;
            return Ok(MergeAction::Update(self.assignments()?));
        }
        self.expect_word("INSERT")?;
        let columns = if self.is_symbol("(") {
            self.parenthesized(|p| p.any_ident())?
        } else {
            Vec::new()
        };
        if self.take_word("ROW") {
            return if columns.is_empty() {
                Ok(MergeAction::InsertRow)
            } else {
                Err(ServiceError::unsupported("MERGE INSERT (columns) ROW"))
            };
        }
        self.expect_word("VALUES")?;
        let values = self.parenthesized(|p| p.insert_value())?;
        Ok(MergeAction::Insert { columns, values })
    }
}
