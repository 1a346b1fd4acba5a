//! Type names.

use super::super::ast::{TypeKind, TypeName};
use super::Parser;
use super::lexer::TokenKind;
use crate::error::Result;

impl Parser<'_> {
    /// A type, with parameters where the type takes some.
    pub(super) fn type_name(&mut self) -> Result<TypeName> {
        self.nested(|p| p.type_name_inner())
    }

    fn type_name_inner(&mut self) -> Result<TypeName> {
        let at = self.offset();
        if self.take_word("ARRAY") {
            self.expect_symbol("<")?;
            let element = self.type_name()?;
            self.expect_symbol(">")?;
            return Ok(TypeName {
                kind: TypeKind::Array(Box::new(element)),
                at,
            });
        }
        if self.take_word("STRUCT") {
            self.expect_symbol("<")?;
            let fields = self.struct_type_fields()?;
            return Ok(TypeName {
                kind: TypeKind::Struct(fields),
                at,
            });
        }
        if self.take_word("RANGE") {
            self.expect_symbol("<")?;
            let element = self.type_name()?;
            self.expect_symbol(">")?;
            return Ok(TypeName {
                kind: TypeKind::Range(Box::new(element)),
                at,
            });
        }
        let name = if self.take_word("INTERVAL") {
            "INTERVAL".to_string()
        } else {
            let mut name = self.ident()?.name.to_ascii_uppercase();
            while self.take_symbol(".") {
                name.push('.');
                name.push_str(&self.any_ident()?.name);
            }
            name
        };
        let mut parameters = Vec::new();
        if self.is_symbol("(") {
            parameters = self.parenthesized(|p| match p.peek() {
                TokenKind::Integer(n) => {
                    let n = n
                        .parse()
                        .map_err(|_| p.unexpected("Invalid type parameter"))?;
                    p.advance();
                    Ok(n)
                }
                _ => Err(p.unexpected("Expected integer literal")),
            })?;
        }
        Ok(TypeName {
            kind: TypeKind::Simple(name, parameters),
            at,
        })
    }

    /// `name type, type, …>`
    pub(super) fn struct_type_fields(
        &mut self,
    ) -> Result<Vec<(Option<super::super::ast::Ident>, TypeName)>> {
        let mut fields = Vec::new();
        if self.is_symbol(">") {
            self.expect_symbol(">")?;
            return Ok(fields);
        }
        loop {
            // A field has a name if a type follows the first word.
            let named = match (self.peek(), self.peek_at(1)) {
                (TokenKind::Quoted(_), _) => true,
                (TokenKind::Word(w), TokenKind::Word(_) | TokenKind::Quoted(_)) => {
                    !w.eq_ignore_ascii_case("ARRAY") && !w.eq_ignore_ascii_case("STRUCT")
                }
                _ => false,
            };
            let name = if named { Some(self.any_ident()?) } else { None };
            fields.push((name, self.type_name()?));
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol(">")?;
        Ok(fields)
    }
}
