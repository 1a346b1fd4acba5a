//! Statements and the procedural language.

use super::super::ast::{Ident, SetTarget, Statement, StatementKind};
use super::Parser;
use super::lexer::TokenKind;
use crate::error::{Result, ServiceError};

/// Statements of GoogleSQL that this server does not have.
const MISSING: &[&[&str]] = &[
    &["EXPORT", "DATA"],
    &["EXPORT", "MODEL"],
    &["LOAD", "DATA"],
    &["GRANT"],
    &["REVOKE"],
    &["UNDROP"],
    &["DESCRIBE"],
    &["EXPLAIN"],
    &["SHOW"],
];

impl Parser<'_> {
    /// Statements up to one of the words `until`, or to the end of the text.
    pub(super) fn statements(&mut self, until: &[&str]) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        loop {
            while self.take_symbol(";") {}
            if matches!(self.peek(), TokenKind::End) || self.at_block_word(until) {
                return Ok(statements);
            }
            let start = self.offset();
            let kind = self.nested(|p| p.statement())?;
            statements.push(Statement {
                kind,
                start,
                end: self.previous_end(),
            });
            if !self.take_symbol(";") {
                let end = matches!(self.peek(), TokenKind::End) && until.is_empty();
                if !end {
                    return Err(self.unexpected(if until.is_empty() {
                        "Expected end of input"
                    } else {
                        "Expected \";\""
                    }));
                }
            }
        }
    }

    fn at_block_word(&self, until: &[&str]) -> bool {
        until.iter().any(|w| self.is_word(w))
    }

    fn statement(&mut self) -> Result<StatementKind> {
        for words in MISSING {
            if self.is_words(words) {
                return Err(ServiceError::unsupported(words.join(" ")));
            }
        }
        let label = match self.peek() {
            TokenKind::Word(_) | TokenKind::Quoted(_) if self.symbol_at(1, ":") => {
                let label = self.ident()?.name;
                self.expect_symbol(":")?;
                Some(label)
            }
            _ => None,
        };
        let word = match self.peek() {
            TokenKind::Word(w) => w.to_ascii_uppercase(),
            _ => String::new(),
        };
        if label.is_some()
            && !matches!(word.as_str(), "BEGIN" | "LOOP" | "WHILE" | "REPEAT" | "FOR")
        {
            return Err(self.unexpected(""));
        }
        match word.as_str() {
            "SELECT" | "WITH" | "FROM" => Ok(StatementKind::Query(Box::new(self.query()?))),
            "INSERT" => self.insert(),
            "UPDATE" => self.update(),
            "DELETE" => self.delete(),
            "MERGE" => self.merge(),
            "TRUNCATE" => {
                self.advance();
                self.expect_word("TABLE")?;
                Ok(StatementKind::Truncate(self.path()?))
            }
            "CREATE" => self.create(),
            "DROP" => self.drop(),
            "ALTER" => self.alter(),
            "CALL" => self.call_statement(),
            "EXECUTE" => self.execute_immediate(),
            "DECLARE" => self.declare(),
            "SET" => self.set(),
            "IF" => self.if_statement(),
            "CASE" => self.case_statement(),
            "BEGIN" => self.begin(label),
            "LOOP" => {
                self.advance();
                let body = self.statements(&["END"])?;
                self.end_of("LOOP", &label)?;
                Ok(StatementKind::Loop { label, body })
            }
            "WHILE" => {
                self.advance();
                let condition = self.expr()?;
                self.expect_word("DO")?;
                let body = self.statements(&["END"])?;
                self.end_of("WHILE", &label)?;
                Ok(StatementKind::While {
                    label,
                    condition,
                    body,
                })
            }
            "REPEAT" => {
                self.advance();
                let body = self.statements(&["UNTIL"])?;
                self.expect_word("UNTIL")?;
                let until = self.expr()?;
                self.end_of("REPEAT", &label)?;
                Ok(StatementKind::Repeat { label, body, until })
            }
            "FOR" => self.for_statement(label),
            "BREAK" | "LEAVE" => {
                self.advance();
                Ok(StatementKind::Break(self.loop_label()?))
            }
            "CONTINUE" | "ITERATE" => {
                self.advance();
                Ok(StatementKind::Continue(self.loop_label()?))
            }
            "RETURN" => {
                self.advance();
                Ok(StatementKind::Return)
            }
            "RAISE" => self.raise(),
            "COMMIT" => {
                self.advance();
                self.take_word("TRANSACTION");
                Ok(StatementKind::CommitTransaction)
            }
            "ROLLBACK" => {
                self.advance();
                self.take_word("TRANSACTION");
                Ok(StatementKind::RollbackTransaction)
            }
            "ASSERT" => {
                self.advance();
                let condition = self.expr()?;
                let message = if self.take_word("AS") {
                    Some(self.string_literal()?)
                } else {
                    None
                };
                Ok(StatementKind::Assert { condition, message })
            }
            _ if self.is_symbol("(") => Ok(StatementKind::Query(Box::new(self.query()?))),
            _ => Err(self.unexpected("")),
        }
    }

    fn loop_label(&mut self) -> Result<Option<String>> {
        match self.peek() {
            TokenKind::Word(_) | TokenKind::Quoted(_) => Ok(Some(self.ident()?.name)),
            _ => Ok(None),
        }
    }

    /// `END LOOP [label]`.
    fn end_of(&mut self, word: &str, label: &Option<String>) -> Result<()> {
        self.expect_word("END")?;
        self.expect_word(word)?;
        self.end_label(label)
    }

    fn end_label(&mut self, label: &Option<String>) -> Result<()> {
        if let Some(label) = label
            && matches!(self.peek(), TokenKind::Word(w) | TokenKind::Quoted(w) if w.eq_ignore_ascii_case(label))
        {
            self.advance();
        }
        Ok(())
    }

    fn declare(&mut self) -> Result<StatementKind> {
        self.advance();
        let names = self.comma_separated(|p| p.ident())?;
        let declared = if self.is_word("DEFAULT") {
            None
        } else {
            Some(self.type_name()?)
        };
        let default = if self.take_word("DEFAULT") {
            Some(self.expr()?)
        } else {
            None
        };
        Ok(StatementKind::Declare {
            names,
            declared,
            default,
        })
    }

    fn set(&mut self) -> Result<StatementKind> {
        self.advance();
        let targets = if self.is_symbol("(") {
            self.parenthesized(|p| p.set_target())?
        } else {
            vec![self.set_target()?]
        };
        self.expect_symbol("=")?;
        Ok(StatementKind::Set {
            targets,
            value: self.expr()?,
        })
    }

    fn set_target(&mut self) -> Result<SetTarget> {
        if let TokenKind::SystemVariable(name) = self.peek() {
            let at = self.offset();
            let mut name = name.clone();
            self.advance();
            while self.take_symbol(".") {
                name.push('.');
                name.push_str(&self.any_ident()?.name);
            }
            return Ok(SetTarget::System(name, at));
        }
        let name = self.ident()?;
        if self.is_symbol(".") {
            return Err(ServiceError::unsupported("SET of a struct's field"));
        }
        Ok(SetTarget::Variable(name))
    }

    fn if_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            let condition = self.expr()?;
            self.expect_word("THEN")?;
            branches.push((condition, self.statements(&["ELSEIF", "ELSE", "END"])?));
            if self.take_word("ELSEIF") {
                continue;
            }
            if self.take_word("ELSE") {
                otherwise = self.statements(&["END"])?;
            }
            self.end_of("IF", &None)?;
            return Ok(StatementKind::If {
                branches,
                otherwise,
            });
        }
    }

    fn case_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let operand = if self.is_word("WHEN") {
            None
        } else {
            Some(self.expr()?)
        };
        let mut branches = Vec::new();
        while self.take_word("WHEN") {
            let when = self.expr()?;
            self.expect_word("THEN")?;
            branches.push((when, self.statements(&["WHEN", "ELSE", "END"])?));
        }
        let otherwise = if self.take_word("ELSE") {
            Some(self.statements(&["END"])?)
        } else {
            None
        };
        self.end_of("CASE", &None)?;
        Ok(StatementKind::Case {
            operand,
            branches,
            otherwise,
        })
    }

    fn begin(&mut self, label: Option<String>) -> Result<StatementKind> {
        self.advance();
        if label.is_none()
            && (self.is_word("TRANSACTION")
                || self.is_symbol(";")
                || matches!(self.peek(), TokenKind::End))
        {
            self.take_word("TRANSACTION");
            return Ok(StatementKind::BeginTransaction);
        }
        let body = self.statements(&["END", "EXCEPTION"])?;
        let handler = if self.take_words(&["EXCEPTION", "WHEN", "ERROR", "THEN"]) {
            Some(self.statements(&["END"])?)
        } else {
            None
        };
        self.expect_word("END")?;
        self.end_label(&label)?;
        Ok(StatementKind::Block {
            label,
            body,
            handler,
        })
    }

    fn for_statement(&mut self, label: Option<String>) -> Result<StatementKind> {
        self.advance();
        let variable = self.ident()?;
        self.expect_word("IN")?;
        self.expect_symbol("(")?;
        let query = self.query()?;
        self.expect_symbol(")")?;
        self.expect_word("DO")?;
        let body = self.statements(&["END"])?;
        self.end_of("FOR", &label)?;
        Ok(StatementKind::For {
            label,
            variable,
            query: Box::new(query),
            body,
        })
    }

    fn raise(&mut self) -> Result<StatementKind> {
        self.advance();
        if self.take_word("USING") {
            let name = self.ident()?;
            if !name.is("MESSAGE") {
                return Err(self.error(name.at, "Expected MESSAGE"));
            }
            self.expect_symbol("=")?;
            return Ok(StatementKind::Raise(Some(self.expr()?)));
        }
        Ok(StatementKind::Raise(None))
    }

    fn call_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let name = self.path()?;
        self.expect_symbol("(")?;
        let args = if self.is_symbol(")") {
            Vec::new()
        } else {
            self.comma_separated(|p| p.expr())?
        };
        self.expect_symbol(")")?;
        Ok(StatementKind::Call { name, args })
    }

    fn execute_immediate(&mut self) -> Result<StatementKind> {
        self.advance();
        self.expect_word("IMMEDIATE")?;
        let sql = self.expr()?;
        let into = if self.take_word("INTO") {
            self.comma_separated(|p| p.ident())?
        } else {
            Vec::new()
        };
        let using: Vec<(super::super::ast::Expr, Option<Ident>)> = if self.take_word("USING") {
            self.comma_separated(|p| {
                let value = p.expr()?;
                let name = if p.take_word("AS") {
                    Some(p.ident()?)
                } else {
                    None
                };
                Ok((value, name))
            })?
        } else {
            Vec::new()
        };
        Ok(StatementKind::ExecuteImmediate { sql, into, using })
    }
}
