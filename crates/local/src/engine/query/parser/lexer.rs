//! GoogleSQL text to tokens.

use crate::error::{Result, ServiceError};

/// A piece of GoogleSQL.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum TokenKind {
    /// An unquoted word: keyword or name.
    Word(String),
    /// A name in backquotes.
    Quoted(String),
    /// A decimal or hexadecimal integer as written.
    Integer(String),
    /// A floating point number as written.
    Float(String),
    /// A string literal's value.
    String(String),
    /// A bytes literal's value.
    Bytes(Vec<u8>),
    /// `@name`.
    Parameter(String),
    /// `@@name`.
    SystemVariable(String),
    /// Punctuation.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Token {
    /// What it is.
    pub(in crate::engine::query) kind: TokenKind,
    /// Byte offset of its first character.
    pub(in crate::engine::query) start: usize,
    /// Byte offset after its last character.
    pub(in crate::engine::query) end: usize,
}

/// Longest first, so that the first match is the right one.
const SYMBOLS: &[&str] = &[
    "<<", ">>", "<=", ">=", "<>", "!=", "||", "=>", "|>", "->", "+=", "-=", "(", ")", "[", "]",
    "{", "}", "<", ">", "=", "+", "-", "*", "/", "~", "^", "&", "|", ",", ".", ";", ":", "?", "!",
    "$", "%",
];

/// `[line:column]` of a byte offset; columns count characters, a tab goes to the
/// next multiple of eight.
pub(in crate::engine::query) fn position(sql: &str, offset: usize) -> String {
    let mut end = offset.min(sql.len());
    while !sql.is_char_boundary(end) {
        end -= 1;
    }
    let before = &sql[..end];
    let line = before.matches('\n').count() + 1;
    let last = before.rsplit('\n').next().unwrap_or("");
    let column = last.chars().fold(1usize, |column, c| {
        if c == '\t' {
            (column - 1) / 8 * 8 + 9
        } else {
            column + 1
        }
    });
    format!("[{line}:{column}]")
}

/// `Syntax error: … at [l:c]`.
pub(in crate::engine::query) fn syntax_error(
    sql: &str,
    offset: usize,
    message: impl std::fmt::Display,
) -> ServiceError {
    ServiceError::invalid_query(format!(
        "Syntax error: {message} at {}",
        position(sql, offset)
    ))
}

/// Cuts `sql[from..]` into tokens; the last one is [`TokenKind::End`].
pub(in crate::engine::query) fn tokenize(sql: &str, from: usize) -> Result<Vec<Token>> {
    let mut lexer = Lexer { sql, at: from };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let end = token.kind == TokenKind::End;
        tokens.push(token);
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    sql: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.sql[self.at..]
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.sql
            .as_bytes()
            .get(self.at + ahead)
            .copied()
            .unwrap_or(0)
    }

    fn error(&self, offset: usize, message: impl std::fmt::Display) -> ServiceError {
        syntax_error(self.sql, offset, message)
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            let blanks = rest.len() - trimmed.len();
            let line_comment = trimmed.starts_with("--") || trimmed.starts_with('#');
            let block_comment = trimmed.starts_with("/*");
            self.at += blanks;
            if line_comment {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if block_comment {
                let Some(end) = self.rest().get(2..).and_then(|r| r.find("*/")) else {
                    return Err(self.error(self.at, "Unclosed comment"));
                };
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Token> {
        self.skip_blanks()?;
        let start = self.at;
        let kind = self.kind()?;
        Ok(Token {
            kind,
            start,
            end: self.at,
        })
    }

    fn kind(&mut self) -> Result<TokenKind> {
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            return Ok(TokenKind::End);
        };
        if first.is_ascii_alphabetic() || first == '_' {
            if let Some(literal) = self.prefixed_literal()? {
                return Ok(literal);
            }
            return Ok(TokenKind::Word(self.word()));
        }
        if first.is_ascii_digit() || (first == '.' && self.byte(1).is_ascii_digit()) {
            return self.number();
        }
        match first {
            '\'' | '"' => {
                let bytes = self.quoted(false, false)?;
                Ok(TokenKind::String(self.utf8(bytes, start)?))
            }
            '`' => {
                let bytes = self.quoted(false, false)?;
                let name = self.utf8(bytes, start)?;
                if name.is_empty() {
                    return Err(self.error(start, "Invalid empty identifier"));
                }
                Ok(TokenKind::Quoted(name))
            }
            '@' => {
                let system = self.byte(1) == b'@';
                self.at += if system { 2 } else { 1 };
                let name = if self.byte(0) == b'`' {
                    let bytes = self.quoted(false, false)?;
                    self.utf8(bytes, start)?
                } else {
                    self.word()
                };
                if name.is_empty() {
                    return Err(self.error(start, "Unexpected \"@\""));
                }
                Ok(if system {
                    TokenKind::SystemVariable(name)
                } else {
                    TokenKind::Parameter(name)
                })
            }
            other => {
                let symbol = SYMBOLS
                    .iter()
                    .find(|s| self.rest().starts_with(**s))
                    .copied();
                match symbol {
                    Some(symbol) => {
                        self.at += symbol.len();
                        Ok(TokenKind::Symbol(symbol))
                    }
                    None => Err(self.error(
                        start,
                        format_args!("Illegal input character \"{}\"", other.escape_default()),
                    )),
                }
            }
        }
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self.byte(0).is_ascii_alphanumeric() || self.byte(0) == b'_' {
            self.at += 1;
        }
        self.sql[start..self.at].to_string()
    }

    fn utf8(&self, bytes: Vec<u8>, start: usize) -> Result<String> {
        String::from_utf8(bytes).map_err(|_| self.error(start, "Structurally invalid UTF8 string"))
    }

    /// `r'…'`, `b'…'`, `rb'…'` and `br'…'`.
    fn prefixed_literal(&mut self) -> Result<Option<TokenKind>> {
        let start = self.at;
        let mut length = 0;
        let (mut raw, mut bytes) = (false, false);
        while length < 2 {
            match self.byte(length).to_ascii_lowercase() {
                b'r' if !raw => raw = true,
                b'b' if !bytes => bytes = true,
                _ => break,
            }
            length += 1;
        }
        if length == 0 || !matches!(self.byte(length), b'\'' | b'"') {
            return Ok(None);
        }
        self.at += length;
        let value = self.quoted(raw, bytes)?;
        Ok(Some(if bytes {
            TokenKind::Bytes(value)
        } else {
            TokenKind::String(self.utf8(value, start)?)
        }))
    }

    fn number(&mut self) -> Result<TokenKind> {
        let start = self.at;
        if self.byte(0) == b'0' && matches!(self.byte(1), b'x' | b'X') {
            self.at += 2;
            while self.byte(0).is_ascii_hexdigit() {
                self.at += 1;
            }
            if self.at == start + 2 {
                return Err(self.error(start, "Invalid hexadecimal integer literal"));
            }
            return Ok(TokenKind::Integer(self.sql[start..self.at].to_string()));
        }
        let mut float = false;
        while self.byte(0).is_ascii_digit() {
            self.at += 1;
        }
        if self.byte(0) == b'.' {
            float = true;
            self.at += 1;
            while self.byte(0).is_ascii_digit() {
                self.at += 1;
            }
        }
        if matches!(self.byte(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if self.byte(1 + sign).is_ascii_digit() {
                float = true;
                self.at += 1 + sign;
                while self.byte(0).is_ascii_digit() {
                    self.at += 1;
                }
            }
        }
        if self.byte(0).is_ascii_alphabetic() || self.byte(0) == b'_' {
            return Err(self.error(self.at, "Missing whitespace between literal and alias"));
        }
        let text = self.sql[start..self.at].to_string();
        Ok(if float {
            TokenKind::Float(text)
        } else {
            TokenKind::Integer(text)
        })
    }

    /// The value between the quotes that start here.
    fn quoted(&mut self, raw: bool, bytes: bool) -> Result<Vec<u8>> {
        let start = self.at;
        let quote = self.byte(0);
        let triple = quote != b'`' && self.byte(1) == quote && self.byte(2) == quote;
        let width = if triple { 3 } else { 1 };
        self.at += width;
        let what = match (quote, bytes, triple) {
            (b'`', _, _) => "identifier literal",
            (_, true, true) => "triple-quoted bytes literal",
            (_, true, false) => "bytes literal",
            (_, false, true) => "triple-quoted string literal",
            (_, false, false) => "string literal",
        };
        let mut value = Vec::new();
        loop {
            if self.at >= self.sql.len() {
                return Err(self.error(start, format_args!("Unclosed {what}")));
            }
            let byte = self.byte(0);
            if byte == quote && (!triple || (self.byte(1) == quote && self.byte(2) == quote)) {
                self.at += width;
                return Ok(value);
            }
            match byte {
                b'\n' | b'\r' if !triple => {
                    return Err(self.error(start, format_args!("Unclosed {what}")));
                }
                b'\r' => {
                    // Line ends inside literals are normalized to \n.
                    self.at += if self.byte(1) == b'\n' { 2 } else { 1 };
                    value.push(b'\n');
                }
                b'\\' if raw => {
                    value.push(b'\\');
                    self.at += 1;
                    let next = self.rest().chars().next().map_or(0, char::len_utf8);
                    if next == 0 {
                        return Err(self.error(start, format_args!("Unclosed {what}")));
                    }
                    value.extend_from_slice(&self.sql.as_bytes()[self.at..self.at + next]);
                    self.at += next;
                }
                b'\\' => self.escape(&mut value, bytes)?,
                _ => {
                    value.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, value: &mut Vec<u8>, bytes: bool) -> Result<()> {
        let start = self.at;
        let letter = self.byte(1);
        self.at += 2;
        let simple = match letter {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\\' | b'?' | b'"' | b'\'' | b'`' => letter,
            b'x' | b'X' => return self.code(value, start, 2, 16, bytes),
            b'u' if !bytes => return self.code(value, start, 4, 16, false),
            b'U' if !bytes => return self.code(value, start, 8, 16, false),
            b'0'..=b'3' => {
                self.at -= 1;
                return self.code(value, start, 3, 8, bytes);
            }
            _ => {
                let shown = self.sql[start + 1..].chars().next().unwrap_or(' ');
                return Err(self.error(
                    start,
                    format_args!("Illegal escape sequence: \\{}", shown.escape_default()),
                ));
            }
        };
        value.push(simple);
        Ok(())
    }

    /// `digits` digits of an escape: a byte, or a code point in a string.
    fn code(
        &mut self,
        value: &mut Vec<u8>,
        start: usize,
        digits: usize,
        radix: u32,
        bytes: bool,
    ) -> Result<()> {
        let code = self
            .sql
            .get(self.at..self.at + digits)
            .filter(|text| text.bytes().all(|b| b.is_ascii_alphanumeric()))
            .and_then(|text| u32::from_str_radix(text, radix).ok());
        let Some(code) = code else {
            return Err(self.error(start, "Illegal escape sequence"));
        };
        self.at += digits;
        if bytes {
            match u8::try_from(code) {
                Ok(byte) => value.push(byte),
                Err(_) => return Err(self.error(start, "Illegal escape sequence")),
            }
            return Ok(());
        }
        let Some(c) = char::from_u32(code) else {
            return Err(self.error(start, "Illegal escape sequence"));
        };
        let mut buffer = [0; 4];
        value.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(sql: &str) -> Vec<TokenKind> {
        tokenize(sql, 0)
            .unwrap()
            .into_iter()
            .map(|t| t.kind)
            .collect()
    }

    #[test]
    fn literals() {
        assert_eq!(
            kinds(r#"'a\x41\u00e9\101' r'\n' b'\xff' """q"z""" 0xFf 1.5e-3 .5"#),
            vec![
                TokenKind::String("aAéA".into()),
                TokenKind::String("\\n".into()),
                TokenKind::Bytes(vec![255]),
                TokenKind::String("q\"z".into()),
                TokenKind::Integer("0xFf".into()),
                TokenKind::Float("1.5e-3".into()),
                TokenKind::Float(".5".into()),
                TokenKind::End,
            ]
        );
    }

    #[test]
    fn comments_and_parameters() {
        assert_eq!(
            kinds("-- x\n# y\n/* z */ @a @@b.c"),
            vec![
                TokenKind::Parameter("a".into()),
                TokenKind::SystemVariable("b".into()),
                TokenKind::Symbol("."),
                TokenKind::Word("c".into()),
                TokenKind::End,
            ]
        );
    }

    #[test]
    fn errors_name_the_place() {
        let error = tokenize("SELECT\n 'abc", 0).unwrap_err();
        assert_eq!(
            error.message,
            "Syntax error: Unclosed string literal at [2:2]"
        );
        assert!(tokenize(r"'\q'", 0).is_err());
        assert!(tokenize("1x", 0).is_err());
        assert!(tokenize(r"'\ud800'", 0).is_err());
        assert!(tokenize("`", 0).is_err());
        assert!(tokenize("'\\", 0).is_err());
        assert!(tokenize("r'\\", 0).is_err());
        assert!(tokenize("'\\xé'", 0).is_err());
    }
}
