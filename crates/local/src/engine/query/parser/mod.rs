//! GoogleSQL text to syntax trees, by recursive descent.
//!
//! What GoogleSQL has and this server lacks is refused here by name where the
//! syntax alone tells; anything else that does not parse is a syntax error.

mod alter;
mod call;
mod comparison;
mod ddl;
mod dml;
mod expr;
mod lexer;
mod query;
mod script;
mod table;
mod types;

use super::ast::{Expr, Ident, Path, Statement};
use crate::engine::reserved::is_reserved;
use crate::error::{Result, ServiceError};

use lexer::{Token, TokenKind, tokenize};
pub(super) use lexer::{position, syntax_error};

/// How deep expressions, queries and blocks may nest.
const MAX_DEPTH: usize = 120;

/// Parses a script: statements separated by semicolons.
pub(super) fn parse_script(sql: &str) -> Result<Vec<Statement>> {
    let mut parser = Parser::new(sql)?;
    let statements = parser.statements(&[])?;
    parser.expect_end()?;
    Ok(statements)
}

/// Parses one expression that is the whole text, as a column default is.
pub(super) fn parse_expression(sql: &str) -> Result<Expr> {
    let mut parser = Parser::new(sql)?;
    let expr = parser.expr()?;
    parser.expect_end()?;
    Ok(expr)
}

pub(super) struct Parser<'a> {
    sql: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// `?` seen so far.
    positional: usize,
}

impl<'a> Parser<'a> {
    fn new(sql: &'a str) -> Result<Self> {
        Ok(Self {
            sql,
            tokens: tokenize(sql, 0)?,
            at: 0,
            depth: 0,
            positional: 0,
        })
    }

    fn peek(&self) -> &TokenKind {
        &self.tokens[self.at].kind
    }

    fn peek_at(&self, ahead: usize) -> &TokenKind {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.at + ahead).min(last)].kind
    }

    /// Byte offset of the next token.
    fn offset(&self) -> usize {
        self.tokens[self.at].start
    }

    /// Byte offset after the last token that was taken.
    fn previous_end(&self) -> usize {
        self.at.checked_sub(1).map_or(0, |i| self.tokens[i].end)
    }

    fn text(&self, from: usize) -> String {
        self.sql[from..self.previous_end().max(from)].to_string()
    }

    fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    /// Runs `parse` one level deeper, refusing what nests too deep for the stack.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return Err(ServiceError::unsupported(format_args!(
                "SQL nested deeper than {MAX_DEPTH} levels"
            )));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn word_at(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), TokenKind::Word(w) if w.eq_ignore_ascii_case(word))
    }

    fn is_word(&self, word: &str) -> bool {
        self.word_at(0, word)
    }

    fn is_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(i, w)| self.word_at(i, w))
    }

    fn symbol_at(&self, ahead: usize, symbol: &str) -> bool {
        matches!(self.peek_at(ahead), TokenKind::Symbol(s) if *s == symbol)
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        self.symbol_at(0, symbol)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn take_words(&mut self, words: &[&str]) -> bool {
        let found = self.is_words(words);
        if found {
            for _ in words {
                self.advance();
            }
        }
        found
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("Expected keyword {word}")))
        }
    }

    fn expect_words(&mut self, words: &[&str]) -> Result<()> {
        words.iter().try_for_each(|w| self.expect_word(w))
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if self.take_symbol(symbol) {
            return Ok(());
        }
        // `>>` closes two type parameters at once.
        if symbol == ">" && self.is_symbol(">>") {
            let token = &mut self.tokens[self.at];
            token.kind = TokenKind::Symbol(">");
            token.start += 1;
            return Ok(());
        }
        Err(self.unexpected(&format!("Expected \"{symbol}\"")))
    }

    fn expect_end(&self) -> Result<()> {
        match self.peek() {
            TokenKind::End => Ok(()),
            _ => Err(self.unexpected("Expected end of input")),
        }
    }

    /// What the next token is, as errors of the service call it.
    fn describe(&self) -> String {
        match self.peek() {
            TokenKind::Word(w) if is_reserved(w) => format!("keyword {}", w.to_ascii_uppercase()),
            TokenKind::Word(w) => format!("identifier \"{w}\""),
            TokenKind::Quoted(w) => format!("identifier `{w}`"),
            TokenKind::Integer(n) => format!("integer literal \"{n}\""),
            TokenKind::Float(n) => format!("floating point literal \"{n}\""),
            TokenKind::String(s) => format!("string literal {s:?}"),
            TokenKind::Bytes(_) => "bytes literal".to_string(),
            TokenKind::Parameter(p) => format!("\"@{p}\""),
            TokenKind::SystemVariable(p) => format!("\"@@{p}\""),
            TokenKind::Symbol(s) => format!("\"{s}\""),
            TokenKind::End => "end of script".to_string(),
        }
    }

    /// `Syntax error: Expected … but got …`, or `Unexpected …` without expectation.
    fn unexpected(&self, expectation: &str) -> ServiceError {
        let got = self.describe();
        let message = if expectation.is_empty() {
            format!("Unexpected {got}")
        } else {
            format!("{expectation} but got {got}")
        };
        self.error(self.offset(), message)
    }

    fn error(&self, offset: usize, message: impl std::fmt::Display) -> ServiceError {
        syntax_error(self.sql, offset, message)
    }

    /// A name: a word that is not reserved, or anything in backquotes.
    fn ident(&mut self) -> Result<Ident> {
        let at = self.offset();
        let name = match self.peek() {
            TokenKind::Word(w) if !is_reserved(w) => w.clone(),
            TokenKind::Quoted(w) => w.clone(),
            TokenKind::Word(_) | TokenKind::End => return Err(self.unexpected("")),
            _ => return Err(self.unexpected("Expected identifier")),
        };
        self.advance();
        Ok(Ident { name, at })
    }

    /// A name after a dot or `AS`-like place, where keywords are names too.
    fn any_ident(&mut self) -> Result<Ident> {
        let at = self.offset();
        let name = match self.peek() {
            TokenKind::Word(w) | TokenKind::Quoted(w) => w.clone(),
            _ => return Err(self.unexpected("Expected identifier")),
        };
        self.advance();
        Ok(Ident { name, at })
    }

    /// `[AS] alias`; without AS only a word that is not reserved counts.
    fn alias(&mut self) -> Result<Option<Ident>> {
        if self.take_word("AS") {
            return self.ident().map(Some);
        }
        match self.peek() {
            TokenKind::Quoted(_) => self.ident().map(Some),
            TokenKind::Word(w) if !is_reserved(w) => self.ident().map(Some),
            _ => Ok(None),
        }
    }

    /// A dotted name of a table, dataset or routine: parts may hold dashes, and
    /// one pair of backquotes may hold several parts.
    fn path(&mut self) -> Result<Path> {
        let mut path = Vec::new();
        loop {
            let quoted = matches!(self.peek(), TokenKind::Quoted(_));
            let part = if path.is_empty() {
                self.dashed_ident()?
            } else {
                self.any_ident()?
            };
            if quoted {
                for name in part.name.split('.') {
                    path.push(Ident {
                        name: name.to_string(),
                        at: part.at,
                    });
                }
            } else {
                path.push(part);
            }
            if !self.take_symbol(".") {
                break;
            }
        }
        if path.iter().any(|p| p.name.is_empty()) {
            let shown: Vec<_> = path.iter().map(|p| p.name.as_str()).collect();
            return Err(ServiceError::invalid_query(format!(
                "Invalid table-valued name: `{}`",
                shown.join(".")
            )));
        }
        Ok(path)
    }

    /// The first part of a path. `my-project` is one name when nothing but the
    /// dashes stands between its words.
    fn dashed_ident(&mut self) -> Result<Ident> {
        let first = self.ident()?;
        let start = first.at;
        if self.sql.as_bytes()[start] == b'`' {
            return Ok(first);
        }
        let rest = &self.sql[start..];
        let length = rest
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'-')
            .count();
        let name = rest[..length].trim_end_matches('-');
        if name.len() == first.name.len() || name.contains("--") {
            return Ok(first);
        }
        let end = start + name.len();
        // Tokens were cut without knowing that this is a name (`1.` would be a number).
        self.tokens.truncate(self.at);
        self.tokens.extend(tokenize(self.sql, end)?);
        Ok(Ident {
            name: name.to_string(),
            at: start,
        })
    }

    /// `item, item, …`
    fn comma_separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take_symbol(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `(item, item, …)`
    fn parenthesized<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_symbol("(")?;
        let items = self.comma_separated(item)?;
        self.expect_symbol(")")?;
        Ok(items)
    }

    fn string_literal(&mut self) -> Result<String> {
        match self.peek() {
            TokenKind::String(s) => {
                let s = s.clone();
                self.advance();
                Ok(s)
            }
            _ => Err(self.unexpected("Expected string literal")),
        }
    }
}

/// Parses one query that is the whole text, as a view's is.
pub(super) fn parse_query(sql: &str) -> Result<super::ast::Query> {
    let mut parser = Parser::new(sql)?;
    let query = parser.query()?;
    parser.take_symbol(";");
    parser.expect_end()?;
    Ok(query)
}
