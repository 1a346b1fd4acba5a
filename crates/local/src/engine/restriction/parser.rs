//! Tokens to tree: operators by precedence. Operands are in [`super::operand`].
//!
//! Precedence, tightest first: unary `+ - ~`; `* / ||`; `+ -`; `<< >>`; `&`; `^`;
//! `|`; comparisons, which do not associate; `NOT`; `AND`; `OR`.

use super::ast::{Arithmetic, Ast, Comparison, InSource, Is, Node, Sense};
use super::error::{SyntaxError, syntax};
use super::lexer::{Spanned, Token, tokenize};
use crate::engine::reserved::is_reserved;

/// How deep expressions may nest. The parser and everything after it recurse, and
/// this keeps their stack within a thread's.
pub(super) const MAX_DEPTH: usize = 100;

/// Parses one expression that is the whole of `text`.
pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let mut parser = Parser {
        tokens: tokenize(text)?,
        next: 0,
        depth: 0,
    };
    let node = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(node),
        _ => Err(parser.unexpected()),
    }
}

/// The state of parsing.
pub(super) struct Parser {
    tokens: Vec<Spanned>,
    next: usize,
    depth: usize,
}

impl Parser {
    pub(super) fn peek(&self) -> &Token {
        &self.tokens[self.next].token
    }

    /// The token `ahead` of the next one.
    pub(super) fn peek_at(&self, ahead: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.next + ahead).min(last)].token
    }

    pub(super) fn at(&self) -> usize {
        self.tokens[self.next].at
    }

    pub(super) fn advance(&mut self) -> Token {
        let token = self.tokens[self.next].token.clone();
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
        token
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(s) if *s == symbol)
    }

    pub(super) fn accept_symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect_symbol(&mut self, symbol: &str) -> Result<(), SyntaxError> {
        if self.accept_symbol(symbol) {
            return Ok(());
        }
        Err(syntax(
            self.at(),
            format!(
                "Syntax error: Expected \"{symbol}\" but got {}",
                self.describe()
            ),
        ))
    }

    pub(super) fn is_keyword(&self, keyword: &str) -> bool {
        self.keyword_ahead(0, keyword)
    }

    pub(super) fn keyword_ahead(&self, ahead: usize, keyword: &str) -> bool {
        matches!(self.peek_at(ahead), Token::Word(w) if w.eq_ignore_ascii_case(keyword))
    }

    pub(super) fn accept_keyword(&mut self, keyword: &str) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect_keyword(&mut self, keyword: &str) -> Result<(), SyntaxError> {
        if self.accept_keyword(keyword) {
            return Ok(());
        }
        Err(syntax(
            self.at(),
            format!(
                "Syntax error: Expected keyword {keyword} but got {}",
                self.describe()
            ),
        ))
    }

    fn describe(&self) -> String {
        match self.peek() {
            Token::Word(w) if is_reserved(w) => format!("keyword {}", w.to_ascii_uppercase()),
            Token::Word(w) | Token::Quoted(w) => format!("identifier \"{w}\""),
            Token::Integer(n) => format!("integer literal \"{n}\""),
            Token::Float(n) => format!("floating point literal \"{n}\""),
            Token::Text(_) => "string literal".to_string(),
            Token::Bytes(_) => "bytes literal".to_string(),
            Token::Symbol(s) => format!("\"{s}\""),
            Token::End => "end of expression".to_string(),
        }
    }

    pub(super) fn unexpected(&self) -> SyntaxError {
        syntax(
            self.at(),
            format!("Syntax error: Unexpected {}", self.describe()),
        )
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.depth == MAX_DEPTH {
            return Err(too_deep(self.at()));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// An expression of any kind.
    pub(super) fn expression(&mut self) -> Result<Node, SyntaxError> {
        self.nested(Self::disjunction)
    }

    /// An expression in brackets or among arguments, with commas between.
    pub(super) fn list(&mut self, close: &str) -> Result<Vec<Node>, SyntaxError> {
        let mut items = Vec::new();
        if self.accept_symbol(close) {
            return Ok(items);
        }
        loop {
            items.push(self.expression()?);
            if self.accept_symbol(",") {
                continue;
            }
            self.expect_symbol(close)?;
            return Ok(items);
        }
    }

    fn disjunction(&mut self) -> Result<Node, SyntaxError> {
        let at = self.at();
        let first = self.conjunction()?;
        if !self.is_keyword("OR") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.accept_keyword("OR") {
            all.push(self.conjunction()?);
        }
        Ok(node(at, Ast::Or(all)))
    }

    fn conjunction(&mut self) -> Result<Node, SyntaxError> {
        let at = self.at();
        let first = self.negation()?;
        if !self.is_keyword("AND") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.accept_keyword("AND") {
            all.push(self.negation()?);
        }
        Ok(node(at, Ast::And(all)))
    }

    fn negation(&mut self) -> Result<Node, SyntaxError> {
        let at = self.at();
        if self.accept_keyword("NOT") {
            let inner = self.nested(Self::negation)?;
            return Ok(node(at, Ast::Not(Box::new(inner))));
        }
        self.predicate()
    }

    /// One comparison at most: `a = b = c` is a syntax error.
    fn predicate(&mut self) -> Result<Node, SyntaxError> {
        let at = self.at();
        let left = self.arithmetic(0)?;
        let ast = if let Token::Symbol(symbol) = *self.peek()
            && let Some(comparison) = comparison(symbol)
        {
            self.advance();
            let right = self.arithmetic(0)?;
            Ast::Compare(comparison, Box::new(left), Box::new(right))
        } else if self.accept_keyword("IS") {
            self.is(left)?
        } else {
            let negated = self.is_keyword("NOT")
                && ["IN", "LIKE", "BETWEEN"]
                    .iter()
                    .any(|k| self.keyword_ahead(1, k));
            let sense = if negated {
                self.advance();
                Sense::Negated
            } else {
                Sense::Plain
            };
            if self.accept_keyword("IN") {
                let source = self.in_source()?;
                Ast::In(Box::new(left), source, sense)
            } else if self.accept_keyword("LIKE") {
                if self.is_keyword("ANY") || self.is_keyword("SOME") || self.is_keyword("ALL") {
                    return Err(syntax(
                        self.at(),
                        "LIKE ANY, SOME and ALL are not supported by bigquery-local in a row restriction",
                    ));
                }
                let pattern = self.arithmetic(0)?;
                Ast::Like(Box::new(left), Box::new(pattern), sense)
            } else if self.accept_keyword("BETWEEN") {
                let low = self.arithmetic(0)?;
                self.expect_keyword("AND")?;
                let high = self.arithmetic(0)?;
                Ast::Between(Box::new(left), Box::new(low), Box::new(high), sense)
            } else {
                return Ok(left);
            }
        };
        Ok(node(at, ast))
    }

    fn is(&mut self, left: Node) -> Result<Ast, SyntaxError> {
        let sense = if self.accept_keyword("NOT") {
            Sense::Negated
        } else {
            Sense::Plain
        };
        let what = if self.accept_keyword("NULL") {
            Is::Null
        } else if self.accept_keyword("TRUE") {
            Is::True
        } else if self.accept_keyword("FALSE") {
            Is::False
        } else if self.accept_keyword("DISTINCT") {
            self.expect_keyword("FROM")?;
            Is::DistinctFrom(Box::new(self.arithmetic(0)?))
        } else {
            return Err(self.unexpected());
        };
        Ok(Ast::Is(Box::new(left), what, sense))
    }

    fn in_source(&mut self) -> Result<InSource, SyntaxError> {
        if self.accept_keyword("UNNEST") {
            self.expect_symbol("(")?;
            let array = self.expression()?;
            self.expect_symbol(")")?;
            return Ok(InSource::Unnest(Box::new(array)));
        }
        self.expect_symbol("(")?;
        self.refuse_query()?;
        let items = self.list(")")?;
        if items.is_empty() {
            return Err(syntax(self.at(), "Syntax error: Unexpected \")\""));
        }
        Ok(InSource::List(items))
    }

    /// `SELECT` and `WITH` where an expression is due.
    pub(super) fn refuse_query(&self) -> Result<(), SyntaxError> {
        if self.is_keyword("SELECT") || self.is_keyword("WITH") {
            return Err(syntax(self.at(), "nested queries not supported"));
        }
        Ok(())
    }

    /// Binary operators that bind at least as tightly as `least`, left-associative.
    fn arithmetic(&mut self, least: u8) -> Result<Node, SyntaxError> {
        let at = self.at();
        let mut left = self.unary()?;
        while let Token::Symbol(symbol) = *self.peek()
            && let Some(strength) = strength(symbol)
            && strength >= least
        {
            // A chain is a tree as deep as it is long.
            if left.depth >= MAX_DEPTH {
                return Err(too_deep(self.at()));
            }
            self.advance();
            let right = Box::new(self.arithmetic(strength + 1)?);
            let boxed = Box::new(left);
            let ast = match arithmetic(symbol) {
                Some(operator) => Ast::Arithmetic(operator, boxed, right),
                None => Ast::Concat(boxed, right),
            };
            left = node(at, ast);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, SyntaxError> {
        let at = self.at();
        if self.accept_symbol("-") {
            // -9223372036854775808 is one literal, although its digits alone are
            // not an INT64.
            let ast = match self.peek().clone() {
                Token::Integer(n) => {
                    self.advance();
                    Ast::Integer(format!("-{n}"))
                }
                Token::Float(n) => {
                    self.advance();
                    Ast::Float(format!("-{n}"))
                }
                _ => Ast::Negate(Box::new(self.nested(Self::unary)?)),
            };
            return Ok(node(at, ast));
        }
        if self.accept_symbol("+") {
            return self.nested(Self::unary);
        }
        if self.accept_symbol("~") {
            let inner = self.nested(Self::unary)?;
            return Ok(node(at, Ast::BitNot(Box::new(inner))));
        }
        self.operand()
    }
}

/// A node at `at`.
pub(super) fn node(at: usize, ast: Ast) -> Node {
    let mut depth = 0;
    ast.for_each_child(|child| depth = depth.max(child.depth));
    Node {
        at,
        depth: depth + 1,
        ast,
    }
}

/// How tightly a binary operator binds.
fn strength(symbol: &str) -> Option<u8> {
    Some(match symbol {
        "|" => 0,
        "^" => 1,
        "&" => 2,
        "<<" | ">>" => 3,
        "+" | "-" => 4,
        "*" | "/" | "||" => 5,
        _ => return None,
    })
}

fn too_deep(at: usize) -> SyntaxError {
    syntax(
        at,
        format!("the row restriction nests more than {MAX_DEPTH} levels deep"),
    )
}

fn comparison(symbol: &str) -> Option<Comparison> {
    Some(match symbol {
        "=" => Comparison::Eq,
        "!=" | "<>" => Comparison::Ne,
        "<" => Comparison::Lt,
        "<=" => Comparison::Le,
        ">" => Comparison::Gt,
        ">=" => Comparison::Ge,
        _ => return None,
    })
}

fn arithmetic(symbol: &str) -> Option<Arithmetic> {
    Some(match symbol {
        "+" => Arithmetic::Add,
        "-" => Arithmetic::Sub,
        "*" => Arithmetic::Mul,
        "/" => Arithmetic::Div,
        "&" => Arithmetic::BitAnd,
        "|" => Arithmetic::BitOr,
        "^" => Arithmetic::BitXor,
        "<<" => Arithmetic::ShiftLeft,
        ">>" => Arithmetic::ShiftRight,
        _ => return None,
    })
}
