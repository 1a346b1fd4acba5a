//! Expressions.

use super::super::ast::{BinaryOp, Expr, ExprKind, Ident, Subscript, TypeKind, TypeName, UnaryOp};
use super::Parser;
use super::lexer::TokenKind;
use crate::error::{Result, ServiceError};

pub(super) fn boxed(kind: ExprKind, at: usize) -> Expr {
    Expr { kind, at }
}

pub(super) fn binary(op: BinaryOp, left: Expr, right: Expr, at: usize) -> Expr {
    boxed(ExprKind::Binary(op, Box::new(left), Box::new(right)), at)
}

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Result<Expr> {
        self.nested(|p| p.or())
    }

    fn or(&mut self) -> Result<Expr> {
        let at = self.offset();
        let first = self.and()?;
        if !self.is_word("OR") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.take_word("OR") {
            operands.push(self.and()?);
        }
        Ok(boxed(ExprKind::Or(operands), at))
    }

    fn and(&mut self) -> Result<Expr> {
        let at = self.offset();
        let first = self.not()?;
        if !self.is_word("AND") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.take_word("AND") {
            operands.push(self.not()?);
        }
        Ok(boxed(ExprKind::And(operands), at))
    }

    fn not(&mut self) -> Result<Expr> {
        let at = self.offset();
        if self.take_word("NOT") {
            let inner = self.nested(|p| p.not())?;
            return Ok(boxed(ExprKind::Not(Box::new(inner)), at));
        }
        self.comparison()
    }

    pub(super) fn bit_or(&mut self) -> Result<Expr> {
        let mut left = self.bit_xor()?;
        while self.is_symbol("|") {
            let at = self.offset();
            self.advance();
            left = binary(BinaryOp::BitOr, left, self.bit_xor()?, at);
        }
        Ok(left)
    }

    fn bit_xor(&mut self) -> Result<Expr> {
        let mut left = self.bit_and()?;
        while self.is_symbol("^") {
            let at = self.offset();
            self.advance();
            left = binary(BinaryOp::BitXor, left, self.bit_and()?, at);
        }
        Ok(left)
    }

    fn bit_and(&mut self) -> Result<Expr> {
        let mut left = self.shift()?;
        while self.is_symbol("&") {
            let at = self.offset();
            self.advance();
            left = binary(BinaryOp::BitAnd, left, self.shift()?, at);
        }
        Ok(left)
    }

    fn shift(&mut self) -> Result<Expr> {
        let mut left = self.additive()?;
        loop {
            let at = self.offset();
            let op = match self.peek() {
                TokenKind::Symbol("<<") => BinaryOp::ShiftLeft,
                TokenKind::Symbol(">>") => BinaryOp::ShiftRight,
                _ => return Ok(left),
            };
            self.advance();
            left = binary(op, left, self.additive()?, at);
        }
    }

    fn additive(&mut self) -> Result<Expr> {
        let mut left = self.multiplicative()?;
        let mut length = 0usize;
        loop {
            let at = self.offset();
            let op = match self.peek() {
                TokenKind::Symbol("+") => BinaryOp::Add,
                TokenKind::Symbol("-") => BinaryOp::Subtract,
                _ => return Ok(left),
            };
            self.advance();
            left = binary(op, left, self.multiplicative()?, at);
            length += 1;
            self.limit_chain(length)?;
        }
    }

    fn multiplicative(&mut self) -> Result<Expr> {
        let mut left = self.unary()?;
        let mut length = 0usize;
        loop {
            let at = self.offset();
            let op = match self.peek() {
                TokenKind::Symbol("*") => BinaryOp::Multiply,
                TokenKind::Symbol("/") => BinaryOp::Divide,
                TokenKind::Symbol("||") => BinaryOp::Concat,
                _ => return Ok(left),
            };
            self.advance();
            left = binary(op, left, self.unary()?, at);
            length += 1;
            self.limit_chain(length)?;
        }
    }

    /// Chains of operators become trees as deep as they are long.
    fn limit_chain(&self, length: usize) -> Result<()> {
        if length > 500 {
            return Err(ServiceError::unsupported(
                "A chain of more than 500 operators",
            ));
        }
        Ok(())
    }

    fn unary(&mut self) -> Result<Expr> {
        let at = self.offset();
        let op = match self.peek() {
            TokenKind::Symbol("-") => UnaryOp::Minus,
            TokenKind::Symbol("+") => UnaryOp::Plus,
            TokenKind::Symbol("~") => UnaryOp::BitNot,
            _ => return self.postfix(),
        };
        self.advance();
        let inner = self.nested(|p| p.unary())?;
        // The smallest INT64 has no positive counterpart, so signs belong to literals.
        let kind = match (op, &inner.kind) {
            (UnaryOp::Minus, ExprKind::Integer(n)) if !n.starts_with('-') => {
                ExprKind::Integer(format!("-{n}"))
            }
            (UnaryOp::Minus, ExprKind::Float(n)) if !n.starts_with('-') => {
                ExprKind::Float(format!("-{n}"))
            }
            _ => ExprKind::Unary(op, Box::new(inner)),
        };
        Ok(boxed(kind, at))
    }

    fn postfix(&mut self) -> Result<Expr> {
        let mut expr = self.primary()?;
        let mut length = 0usize;
        loop {
            let at = self.offset();
            if self.is_symbol(".") && !self.symbol_at(1, "*") {
                self.advance();
                if self.is_symbol("(") {
                    return Err(ServiceError::unsupported(
                        "A generalized field access `.( )`",
                    ));
                }
                let name = self.any_ident()?;
                expr = boxed(ExprKind::Dot(Box::new(expr), name), at);
            } else if self.take_symbol("[") {
                let (kind, index) = self.subscript()?;
                self.expect_symbol("]")?;
                expr = boxed(
                    ExprKind::Subscript(Box::new(expr), kind, Box::new(index)),
                    at,
                );
            } else if self.is_symbol("(") {
                match path_of(&expr) {
                    Some(name) if !matches!(expr.kind, ExprKind::Call(_)) => {
                        let at = name.first().map_or(expr.at, |n| n.at);
                        expr = self.call(name, at)?;
                    }
                    _ => return Ok(expr),
                }
            } else {
                return Ok(expr);
            }
            length += 1;
            self.limit_chain(length)?;
        }
    }

    fn subscript(&mut self) -> Result<(Subscript, Expr)> {
        let kind = if !self.symbol_at(1, "(") {
            Subscript::Plain
        } else if self.is_word("OFFSET") {
            Subscript::Offset
        } else if self.is_word("ORDINAL") {
            Subscript::Ordinal
        } else if self.is_word("SAFE_OFFSET") {
            Subscript::SafeOffset
        } else if self.is_word("SAFE_ORDINAL") {
            Subscript::SafeOrdinal
        } else {
            Subscript::Plain
        };
        if kind == Subscript::Plain {
            return Ok((kind, self.expr()?));
        }
        self.advance();
        self.expect_symbol("(")?;
        let index = self.expr()?;
        self.expect_symbol(")")?;
        Ok((kind, index))
    }

    fn primary(&mut self) -> Result<Expr> {
        let at = self.offset();
        let token = self.peek().clone();
        let kind = match token {
            TokenKind::Integer(n) => {
                self.advance();
                ExprKind::Integer(n)
            }
            TokenKind::Float(n) => {
                self.advance();
                ExprKind::Float(n)
            }
            TokenKind::String(s) => {
                self.advance();
                let mut value = s;
                // Adjacent literals are one.
                while let TokenKind::String(more) = self.peek() {
                    value.push_str(&more.clone());
                    self.advance();
                }
                ExprKind::String(value)
            }
            TokenKind::Bytes(b) => {
                self.advance();
                ExprKind::Bytes(b)
            }
            TokenKind::Parameter(name) => {
                self.advance();
                ExprKind::Parameter(name)
            }
            TokenKind::SystemVariable(name) => {
                self.advance();
                let mut name = name;
                while self.is_symbol(".") {
                    self.advance();
                    name.push('.');
                    name.push_str(&self.any_ident()?.name);
                }
                ExprKind::SystemVariable(name)
            }
            TokenKind::Symbol("?") => {
                self.advance();
                self.positional += 1;
                ExprKind::Positional(self.positional - 1)
            }
            TokenKind::Symbol("(") => return self.parenthesized_expr(at),
            TokenKind::Symbol("[") => {
                self.advance();
                let items = self.array_items()?;
                ExprKind::Array {
                    element: None,
                    items,
                }
            }
            TokenKind::Quoted(_) => ExprKind::Ident(self.ident()?),
            TokenKind::Word(word) => return self.word_expr(&word, at),
            TokenKind::Symbol(_) | TokenKind::End => return Err(self.unexpected("")),
        };
        Ok(boxed(kind, at))
    }

    /// After `[`.
    fn array_items(&mut self) -> Result<Vec<Expr>> {
        if self.take_symbol("]") {
            return Ok(Vec::new());
        }
        let items = self.comma_separated(|p| p.expr())?;
        self.expect_symbol("]")?;
        Ok(items)
    }

    fn parenthesized_expr(&mut self, at: usize) -> Result<Expr> {
        if self.query_follows(0) {
            self.expect_symbol("(")?;
            let query = self.query()?;
            self.expect_symbol(")")?;
            return Ok(boxed(ExprKind::Subquery(Box::new(query)), at));
        }
        self.expect_symbol("(")?;
        let first = self.expr()?;
        if self.take_symbol(")") {
            return Ok(first);
        }
        let mut items = vec![(first, None)];
        while self.take_symbol(",") {
            items.push((self.expr()?, None));
        }
        self.expect_symbol(")")?;
        Ok(boxed(
            ExprKind::Struct {
                fields: None,
                items,
            },
            at,
        ))
    }

    /// Whether the tokens `ahead` begin a query: parentheses, then SELECT, WITH or FROM.
    pub(super) fn query_follows(&self, ahead: usize) -> bool {
        let mut i = ahead;
        while self.symbol_at(i, "(") {
            i += 1;
        }
        self.word_at(i, "SELECT") || (self.word_at(i, "WITH") && !self.symbol_at(i + 1, "("))
    }

    fn word_expr(&mut self, word: &str, at: usize) -> Result<Expr> {
        let upper = word.to_ascii_uppercase();
        let kind = match upper.as_str() {
            "NULL" => {
                self.advance();
                ExprKind::Null
            }
            "TRUE" | "FALSE" => {
                self.advance();
                ExprKind::Bool(upper == "TRUE")
            }
            "CASE" => return self.case(at),
            "CAST" => return self.cast(false, at),
            "SAFE_CAST" if self.symbol_at(1, "(") => return self.cast(true, at),
            "EXTRACT" => return self.extract(at),
            "INTERVAL" => return self.interval(at),
            "EXISTS" => {
                self.advance();
                self.expect_symbol("(")?;
                let query = self.query()?;
                self.expect_symbol(")")?;
                ExprKind::Exists(Box::new(query))
            }
            "ARRAY" => return self.array(at),
            "STRUCT" => return self.struct_(at),
            "RANGE" if self.symbol_at(1, "<") => {
                let to = self.type_name()?;
                ExprKind::Typed(to, self.string_literal()?)
            }
            "DATE" | "DATETIME" | "TIME" | "TIMESTAMP" | "NUMERIC" | "DECIMAL" | "BIGNUMERIC"
            | "BIGDECIMAL" | "JSON"
                if matches!(self.peek_at(1), TokenKind::String(_)) =>
            {
                self.advance();
                let to = TypeName {
                    kind: TypeKind::Simple(upper, Vec::new()),
                    at,
                };
                ExprKind::Typed(to, self.string_literal()?)
            }
            // Keywords that are also functions.
            "IF" | "LEFT" | "RIGHT" | "GROUPING" | "COLLATE" | "RANGE"
                if self.symbol_at(1, "(") =>
            {
                let name = self.any_ident()?;
                return self.call(vec![name], at);
            }
            "NEW" => return Err(ServiceError::unsupported("NEW")),
            "WITH" if self.symbol_at(1, "(") => {
                return Err(ServiceError::unsupported("The WITH expression"));
            }
            _ => ExprKind::Ident(self.ident()?),
        };
        Ok(boxed(kind, at))
    }

    fn case(&mut self, at: usize) -> Result<Expr> {
        self.expect_word("CASE")?;
        let operand = if self.is_word("WHEN") {
            None
        } else {
            Some(Box::new(self.expr()?))
        };
        let mut whens = Vec::new();
        while self.take_word("WHEN") {
            let when = self.expr()?;
            self.expect_word("THEN")?;
            whens.push((when, self.expr()?));
        }
        if whens.is_empty() {
            return Err(self.unexpected("Expected keyword WHEN"));
        }
        let otherwise = if self.take_word("ELSE") {
            Some(Box::new(self.expr()?))
        } else {
            None
        };
        self.expect_word("END")?;
        Ok(boxed(
            ExprKind::Case {
                operand,
                whens,
                otherwise,
            },
            at,
        ))
    }

    fn cast(&mut self, safe: bool, at: usize) -> Result<Expr> {
        self.advance();
        self.expect_symbol("(")?;
        let expr = Box::new(self.expr()?);
        self.expect_word("AS")?;
        let to = self.type_name()?;
        let mut format = None;
        let mut zone = None;
        if self.take_word("FORMAT") {
            format = Some(Box::new(self.expr()?));
            if self.take_words(&["AT", "TIME", "ZONE"]) {
                zone = Some(Box::new(self.expr()?));
            }
        }
        self.expect_symbol(")")?;
        Ok(boxed(
            ExprKind::Cast {
                expr,
                to,
                safe,
                format,
                zone,
            },
            at,
        ))
    }

    /// A date part in upper case: `DAY`, `WEEK(MONDAY)`.
    fn date_part(&mut self) -> Result<String> {
        let mut part = self.ident()?.name.to_ascii_uppercase();
        if part == "WEEK" && self.take_symbol("(") {
            part = format!("WEEK({})", self.ident()?.name.to_ascii_uppercase());
            self.expect_symbol(")")?;
        }
        Ok(part)
    }

    fn extract(&mut self, at: usize) -> Result<Expr> {
        self.advance();
        self.expect_symbol("(")?;
        let part = self.date_part()?;
        self.expect_word("FROM")?;
        let expr = Box::new(self.expr()?);
        let zone = if self.take_words(&["AT", "TIME", "ZONE"]) {
            Some(Box::new(self.expr()?))
        } else {
            None
        };
        self.expect_symbol(")")?;
        Ok(boxed(ExprKind::Extract { part, expr, zone }, at))
    }

    fn interval(&mut self, at: usize) -> Result<Expr> {
        self.advance();
        let value = Box::new(self.bit_or()?);
        let from = self.date_part()?;
        let to = if self.take_word("TO") {
            Some(self.date_part()?)
        } else {
            None
        };
        Ok(boxed(ExprKind::Interval { value, from, to }, at))
    }

    fn array(&mut self, at: usize) -> Result<Expr> {
        if self.symbol_at(1, "(") {
            self.advance();
            self.expect_symbol("(")?;
            let query = self.query()?;
            self.expect_symbol(")")?;
            return Ok(boxed(ExprKind::ArrayQuery(Box::new(query)), at));
        }
        if self.symbol_at(1, "<") {
            let TypeKind::Array(element) = self.type_name()?.kind else {
                return Err(self.unexpected(""));
            };
            self.expect_symbol("[")?;
            let items = self.array_items()?;
            return Ok(boxed(
                ExprKind::Array {
                    element: Some(*element),
                    items,
                },
                at,
            ));
        }
        self.advance();
        self.expect_symbol("[")?;
        let items = self.array_items()?;
        Ok(boxed(
            ExprKind::Array {
                element: None,
                items,
            },
            at,
        ))
    }

    fn struct_(&mut self, at: usize) -> Result<Expr> {
        let fields = if self.symbol_at(1, "<") {
            match self.type_name()?.kind {
                TypeKind::Struct(fields) => Some(fields),
                _ => return Err(self.unexpected("")),
            }
        } else {
            self.advance();
            None
        };
        self.expect_symbol("(")?;
        let mut items = Vec::new();
        if !self.take_symbol(")") {
            items = self.comma_separated(|p| {
                let value = p.expr()?;
                let alias = if p.take_word("AS") {
                    Some(p.ident()?)
                } else {
                    None
                };
                Ok((value, alias))
            })?;
            self.expect_symbol(")")?;
        }
        Ok(boxed(ExprKind::Struct { fields, items }, at))
    }
}

/// The dotted name that an expression is, if it is nothing else.
fn path_of(expr: &Expr) -> Option<Vec<Ident>> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(vec![name.clone()]),
        ExprKind::Dot(inner, name) => {
            let mut path = path_of(inner)?;
            path.push(name.clone());
            Some(path)
        }
        _ => None,
    }
}
