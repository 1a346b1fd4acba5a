//! Text to tokens: GoogleSQL's lexical structure.

use super::error::{SyntaxError, syntax};
use super::escape;

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A name or keyword as written.
    Word(String),
    /// A back-quoted name, unescaped.
    Quoted(String),
    /// An integer literal as written: decimal or `0x…`.
    Integer(String),
    /// A floating-point literal as written.
    Float(String),
    /// A string literal, unescaped.
    Text(String),
    /// A bytes literal, unescaped.
    Bytes(Vec<u8>),
    /// An operator or a bracket.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// A token and the byte at which it starts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spanned {
    pub(super) token: Token,
    pub(super) at: usize,
}

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 29] = [
    "<<", ">>", "<=", ">=", "<>", "!=", "||", "=>", "=", "<", ">", "+", "-", "*", "/", "(", ")",
    "[", "]", "{", "}", ",", ".", "~", "&", "|", "^", ":", "%",
];

/// The tokens of `text`, the last of which is [`Token::End`].
pub(super) fn tokenize(text: &str) -> Result<Vec<Spanned>, SyntaxError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank()?;
        let at = lexer.at;
        let token = lexer.token()?;
        let end = token == Token::End;
        tokens.push(Spanned { token, at });
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blank(&mut self) -> Result<(), SyntaxError> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("--") || trimmed.starts_with('#') {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                let close = trimmed
                    .find("*/")
                    .ok_or_else(|| syntax(self.at, "Unclosed comment"))?;
                self.at += close + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        if let Some(prefix) = literal_prefix(rest) {
            return self.quoted_literal(prefix);
        }
        if first == '`' {
            return self.quoted_name();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let len = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            self.at += len;
            return Ok(Token::Word(rest[..len].to_string()));
        }
        let second_is_digit = rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if first.is_ascii_digit() || (first == '.' && second_is_digit) {
            return self.number();
        }
        for symbol in SYMBOLS {
            if rest.starts_with(symbol) {
                self.at += symbol.len();
                return Ok(Token::Symbol(symbol));
            }
        }
        if first == '@' || first == '?' {
            return Err(syntax(
                self.at,
                "Query parameters cannot be used in a row restriction",
            ));
        }
        if first == ';' {
            return Err(syntax(self.at, "Syntax error: Unexpected \";\""));
        }
        Err(syntax(
            self.at,
            format!("Syntax error: Illegal input character {first:?}"),
        ))
    }

    fn number(&mut self) -> Result<Token, SyntaxError> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| {
            from + bytes[from..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let (len, float) = if rest.starts_with("0x") || rest.starts_with("0X") {
            let end = 2 + bytes[2..]
                .iter()
                .take_while(|b| b.is_ascii_hexdigit())
                .count();
            if end == 2 {
                return Err(syntax(self.at, "Syntax error: Invalid hex integer literal"));
            }
            (end, false)
        } else {
            let mut end = digits(0);
            let mut float = false;
            if bytes.get(end) == Some(&b'.') {
                float = true;
                end = digits(end + 1);
            }
            if matches!(bytes.get(end), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
                let exponent = digits((end + 1 + sign).min(bytes.len()));
                if exponent > end + 1 + sign {
                    float = true;
                    end = exponent;
                }
            }
            (end, float)
        };
        if matches!(bytes.get(len), Some(b) if b.is_ascii_alphanumeric() || *b == b'_') {
            return Err(syntax(
                self.at + len,
                "Syntax error: Missing whitespace between literal and alias",
            ));
        }
        self.at += len;
        let text = rest[..len].to_string();
        Ok(if float {
            Token::Float(text)
        } else {
            Token::Integer(text)
        })
    }

    fn quoted_name(&mut self) -> Result<Token, SyntaxError> {
        let start = self.at;
        let body = &self.rest().as_bytes()[1..];
        let len = escape::length(body, b"`")
            .ok_or_else(|| syntax(start, "Syntax error: Unclosed identifier literal"))?;
        let raw = &self.text[start + 1..start + 1 + len];
        self.at = start + len + 2;
        if raw.is_empty() {
            return Err(syntax(start, "Syntax error: Invalid empty identifier"));
        }
        escape::text(raw)
            .map(Token::Quoted)
            .map_err(|m| syntax(start, m))
    }

    fn quoted_literal(&mut self, prefix: Prefix) -> Result<Token, SyntaxError> {
        let start = self.at;
        let after = start + prefix.letters;
        let quote = &self.text[after..=after];
        let triple = quote.repeat(3);
        let is_triple = self.text[after..].starts_with(&triple);
        let delimiter: &str = if is_triple { &triple } else { quote };
        let body_start = after + delimiter.len();
        let body = &self.text.as_bytes()[body_start..];
        let len = escape::length(body, delimiter.as_bytes()).ok_or_else(|| {
            syntax(
                start,
                if is_triple {
                    "Syntax error: Unclosed triple-quoted string literal"
                } else {
                    "Syntax error: Unclosed string literal"
                },
            )
        })?;
        let raw = &self.text[body_start..body_start + len];
        if !is_triple && raw.contains(['\n', '\r']) {
            return Err(syntax(start, "Syntax error: Unclosed string literal"));
        }
        self.at = body_start + len + delimiter.len();
        // A line break inside a triple-quoted literal is always \n.
        let unified;
        let raw = if raw.contains('\r') {
            unified = raw.replace("\r\n", "\n").replace('\r', "\n");
            &unified
        } else {
            raw
        };
        match (prefix.bytes, prefix.raw) {
            (false, true) => Ok(Token::Text(raw.to_string())),
            (true, true) => Ok(Token::Bytes(raw.as_bytes().to_vec())),
            (false, false) => escape::text(raw).map(Token::Text),
            (true, false) => escape::bytes(raw).map(Token::Bytes),
        }
        .map_err(|m| syntax(start, m))
    }
}

/// What precedes the quotation mark of a literal.
struct Prefix {
    letters: usize,
    bytes: bool,
    raw: bool,
}

fn literal_prefix(rest: &str) -> Option<Prefix> {
    let letters = rest.bytes().take(3).position(|b| b == b'\'' || b == b'"')?;
    let lower = rest[..letters].to_ascii_lowercase();
    let (bytes, raw) = match lower.as_str() {
        "" => (false, false),
        "r" => (false, true),
        "b" => (true, false),
        "rb" | "br" => (true, true),
        _ => return None,
    };
    Some(Prefix {
        letters,
        bytes,
        raw,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Token {
        let tokens = tokenize(text).unwrap();
        assert_eq!(tokens.len(), 2, "{tokens:?}");
        tokens[0].token.clone()
    }

    #[test]
    fn every_form_of_string_literal() {
        for (text, want) in [
            ("'abc'", "abc"),
            ("\"it's\"", "it's"),
            (r"'a\'b'", "a'b"),
            (
                r"'\a\b\f\n\r\t\v\\\?\`\''",
                "\u{7}\u{8}\u{c}\n\r\t\u{b}\\?`'",
            ),
            (r"'\x41\101\u00e9\U0001F600'", "AAé😀"),
            ("'''a'b''c'''", "a'b''c"),
            ("\"\"\"line\r\nnext\"\"\"", "line\nnext"),
            (r"r'a\nb'", r"a\nb"),
            (r"R'a\'b'", r"a\'b"),
            ("''", ""),
            ("''''''", ""),
        ] {
            assert_eq!(one(text), Token::Text(want.into()), "{text}");
        }
        assert_eq!(one(r"b'\x00\xffa'"), Token::Bytes(vec![0, 255, b'a']));
        assert_eq!(one(r"rB'\x'"), Token::Bytes(b"\\x".to_vec()));
        assert_eq!(one("b'é'"), Token::Bytes("é".as_bytes().to_vec()));
    }

    #[test]
    fn numbers_names_and_comments() {
        assert_eq!(one("0xFf"), Token::Integer("0xFf".into()));
        assert_eq!(one("1."), Token::Float("1.".into()));
        assert_eq!(one(".5e-3"), Token::Float(".5e-3".into()));
        assert_eq!(one("1E10"), Token::Float("1E10".into()));
        assert_eq!(one("`a-b\\`c`"), Token::Quoted("a-b`c".into()));
        assert_eq!(one("-- x\n /* y */ # z\n abc"), Token::Word("abc".into()));
    }

    #[test]
    fn malformed_text_is_an_error() {
        for text in [
            "'abc",
            "'a\nb'",
            "\"",
            "'''abc''",
            "`abc",
            "``",
            r"'\q'",
            r"'\x1'",
            r"'\ud800'",
            "1abc",
            "0x",
            "/* x",
            "a ; b",
            "@p",
            "?",
            r"b'\u0041'",
            "é",
            "'\\",
            r"'\400'",
        ] {
            assert!(tokenize(text).is_err(), "{text}");
        }
    }
}
