//! Operands: literals, names, calls and brackets.

use super::ast::{Ast, DatePart, Node};
use super::error::{SyntaxError, syntax};
use super::lexer::Token;
use super::parser::{Parser, node};
use crate::engine::reserved::is_reserved;

impl Parser {
    /// One operand of an operator.
    pub(super) fn operand(&mut self) -> Result<Node, SyntaxError> {
        let at = self.at();
        let ast = match self.peek().clone() {
            Token::Integer(n) => {
                self.advance();
                Ast::Integer(n)
            }
            Token::Float(n) => {
                self.advance();
                Ast::Float(n)
            }
            Token::Text(s) => {
                self.advance();
                Ast::Text(s)
            }
            Token::Bytes(b) => {
                self.advance();
                Ast::Bytes(b)
            }
            Token::Symbol("(") => {
                self.advance();
                self.refuse_query()?;
                let inner = self.expression()?;
                if self.is_symbol(",") {
                    return Err(syntax(
                        at,
                        "STRUCT constructors are not supported by bigquery-local in a row restriction",
                    ));
                }
                self.expect_symbol(")")?;
                self.refuse_subscript()?;
                return Ok(inner);
            }
            Token::Symbol("[") => {
                self.advance();
                Ast::Array(self.list("]")?)
            }
            Token::Quoted(name) => {
                self.advance();
                self.path(name)?
            }
            Token::Word(word) => self.word(word)?,
            Token::Symbol(_) | Token::End => return Err(self.unexpected()),
        };
        self.refuse_subscript()?;
        Ok(node(at, ast))
    }

    /// `x[OFFSET(0)]` and `j['a']`.
    fn refuse_subscript(&self) -> Result<(), SyntaxError> {
        if self.is_symbol("[") {
            return Err(syntax(
                self.at(),
                "The subscript operator is not supported by bigquery-local in a row restriction",
            ));
        }
        Ok(())
    }

    fn word(&mut self, word: String) -> Result<Ast, SyntaxError> {
        let at = self.at();
        let upper = word.to_ascii_uppercase();
        match upper.as_str() {
            "NULL" | "TRUE" | "FALSE" => {
                self.advance();
                return Ok(match upper.as_str() {
                    "NULL" => Ast::Null,
                    other => Ast::Bool(other == "TRUE"),
                });
            }
            "CASE" => {
                self.advance();
                return self.case();
            }
            "CAST" => {
                self.advance();
                return self.cast(false);
            }
            "SAFE_CAST" if matches!(self.peek_at(1), Token::Symbol("(")) => {
                self.advance();
                return self.cast(true);
            }
            "EXTRACT" => {
                self.advance();
                return self.extract();
            }
            "INTERVAL" => {
                self.advance();
                return self.interval();
            }
            "EXISTS" => return Err(syntax(at, "nested queries not supported")),
            "ARRAY" => {
                self.advance();
                return self.array();
            }
            "RANGE" => {
                self.advance();
                return self.range();
            }
            "STRUCT" => {
                return Err(syntax(
                    at,
                    "STRUCT constructors are not supported by bigquery-local in a row restriction",
                ));
            }
            _ => {}
        }
        if let (
            "DATE" | "DATETIME" | "TIME" | "TIMESTAMP" | "NUMERIC" | "DECIMAL" | "BIGNUMERIC"
            | "BIGDECIMAL" | "JSON",
            Token::Text(text),
        ) = (upper.as_str(), self.peek_at(1).clone())
        {
            self.advance();
            self.advance();
            return Ok(Ast::Typed(upper, text));
        }
        // IF, LEFT and RIGHT are reserved and functions all the same.
        let callable = !is_reserved(&word) || matches!(upper.as_str(), "IF" | "LEFT" | "RIGHT");
        if matches!(self.peek_at(1), Token::Symbol("(")) && callable {
            self.advance();
            return self.call(upper, false);
        }
        if upper == "SAFE"
            && matches!(self.peek_at(1), Token::Symbol("."))
            && matches!(self.peek_at(3), Token::Symbol("("))
            && let Token::Word(function) = self.peek_at(2).clone()
        {
            self.advance();
            self.advance();
            self.advance();
            return self.call(function.to_ascii_uppercase(), true);
        }
        if is_reserved(&word) {
            return Err(self.unexpected());
        }
        self.advance();
        if matches!(
            upper.as_str(),
            "CURRENT_DATE" | "CURRENT_TIMESTAMP" | "CURRENT_DATETIME" | "CURRENT_TIME"
        ) {
            return Ok(Ast::Call {
                name: upper,
                arguments: Vec::new(),
                safe: false,
            });
        }
        self.path(word)
    }

    /// The segments after `first`.
    fn path(&mut self, first: String) -> Result<Ast, SyntaxError> {
        let mut segments = vec![first];
        while self.accept_symbol(".") {
            match self.advance() {
                Token::Word(w) | Token::Quoted(w) => segments.push(w),
                _ => return Err(self.unexpected()),
            }
        }
        if self.is_symbol("(") {
            return Err(syntax(
                self.at(),
                format!("Function not found: {}", segments.join(".")),
            ));
        }
        Ok(Ast::Path(segments))
    }

    fn call(&mut self, name: String, safe: bool) -> Result<Ast, SyntaxError> {
        self.expect_symbol("(")?;
        self.refuse_query()?;
        if self.is_symbol("*") || self.is_keyword("DISTINCT") {
            return Err(syntax(
                self.at(),
                "Aggregate functions are not allowed in a row restriction",
            ));
        }
        let arguments = self.arguments()?;
        if self.is_keyword("OVER") {
            return Err(syntax(
                self.at(),
                "Analytic functions are not allowed in a row restriction",
            ));
        }
        Ok(Ast::Call {
            name,
            arguments,
            safe,
        })
    }

    /// Arguments up to the closing bracket. A date part such as `DAY` or
    /// `WEEK(MONDAY)` parses as a name or a call and is read as a part by the
    /// function that expects one.
    fn arguments(&mut self) -> Result<Vec<Node>, SyntaxError> {
        self.list(")")
    }

    fn case(&mut self) -> Result<Ast, SyntaxError> {
        let operand = if self.is_keyword("WHEN") {
            None
        } else {
            Some(Box::new(self.expression()?))
        };
        let mut whens = Vec::new();
        while self.accept_keyword("WHEN") {
            let condition = self.expression()?;
            self.expect_keyword("THEN")?;
            whens.push((condition, self.expression()?));
        }
        if whens.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = if self.accept_keyword("ELSE") {
            Some(Box::new(self.expression()?))
        } else {
            None
        };
        self.expect_keyword("END")?;
        Ok(Ast::Case {
            operand,
            whens,
            otherwise,
        })
    }

    fn cast(&mut self, safe: bool) -> Result<Ast, SyntaxError> {
        self.expect_symbol("(")?;
        self.refuse_query()?;
        let value = Box::new(self.expression()?);
        self.expect_keyword("AS")?;
        let type_name = self.type_name()?;
        if self.is_keyword("FORMAT") || self.is_keyword("AT") {
            return Err(syntax(
                self.at(),
                "The FORMAT clause of CAST is not supported by bigquery-local in a row restriction",
            ));
        }
        self.expect_symbol(")")?;
        Ok(Ast::Cast {
            value,
            type_name,
            safe,
        })
    }

    /// A type's name without parameters, in upper case.
    fn type_name(&mut self) -> Result<String, SyntaxError> {
        let at = self.at();
        let Token::Word(word) = self.advance() else {
            return Err(syntax(at, "Syntax error: Expected a type name"));
        };
        if self.is_symbol("(") || self.is_symbol("<") {
            return Err(syntax(
                self.at(),
                "Parameterized types in CAST are not supported by bigquery-local in a row restriction",
            ));
        }
        Ok(word.to_ascii_uppercase())
    }

    fn extract(&mut self) -> Result<Ast, SyntaxError> {
        self.expect_symbol("(")?;
        let part = self.date_part()?;
        self.expect_keyword("FROM")?;
        let from = Box::new(self.expression()?);
        let zone = if self.accept_keyword("AT") {
            self.expect_keyword("TIME")?;
            self.expect_keyword("ZONE")?;
            Some(Box::new(self.expression()?))
        } else {
            None
        };
        self.expect_symbol(")")?;
        Ok(Ast::Extract { part, from, zone })
    }

    fn date_part(&mut self) -> Result<DatePart, SyntaxError> {
        let at = self.at();
        let Token::Word(name) = self.advance() else {
            return Err(syntax(at, "Syntax error: Expected a date part"));
        };
        let mut weekday = None;
        if self.accept_symbol("(") {
            let at = self.at();
            let Token::Word(day) = self.advance() else {
                return Err(syntax(at, "Syntax error: Expected a weekday"));
            };
            weekday = Some(day.to_ascii_uppercase());
            self.expect_symbol(")")?;
        }
        Ok(DatePart {
            name: name.to_ascii_uppercase(),
            weekday,
        })
    }

    fn interval(&mut self) -> Result<Ast, SyntaxError> {
        if let Token::Text(text) = self.peek().clone() {
            self.advance();
            let from = self.date_part()?.name;
            let to = if self.accept_keyword("TO") {
                Some(self.date_part()?.name)
            } else {
                None
            };
            return Ok(Ast::IntervalLiteral(text, from, to));
        }
        let value = Box::new(self.expression()?);
        Ok(Ast::Interval(value, self.date_part()?.name))
    }

    /// `ARRAY<T>[…]` and `ARRAY[…]`.
    fn array(&mut self) -> Result<Ast, SyntaxError> {
        if self.is_symbol("(") {
            return Err(syntax(self.at(), "nested queries not supported"));
        }
        if self.accept_symbol("<") {
            // The element type is the elements' common type; naming it changes
            // nothing for values that fit it.
            self.type_name()?;
            self.expect_symbol(">")?;
        }
        self.expect_symbol("[")?;
        Ok(Ast::Array(self.list("]")?))
    }

    /// `RANGE<T> '…'`.
    fn range(&mut self) -> Result<Ast, SyntaxError> {
        self.expect_symbol("<")?;
        let element = self.type_name()?;
        self.expect_symbol(">")?;
        let at = self.at();
        match self.advance() {
            Token::Text(text) => Ok(Ast::RangeLiteral(element, text)),
            _ => Err(syntax(at, "Syntax error: Expected a string literal")),
        }
    }
}
