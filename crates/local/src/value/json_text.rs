//! Reading JSON text exactly.
//!
//! Numbers with a fraction or an exponent become the nearest FLOAT64, to the last
//! bit, which serde_json does not promise without a feature that every crate of the
//! build would have to share.

use serde_json::{Map, Number, Value};

use super::error::ValueError;

/// Deepest nesting of arrays and objects.
const MAX_DEPTH: usize = 127;

/// Reads one JSON value. Of two equal keys of an object the first one counts.
pub fn parse_json(text: &str) -> Result<Value, ValueError> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.skip_spaces();
    if parser.at < text.len() {
        return Err(parser.error("something follows the value"));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, why: &str) -> ValueError {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        ValueError::new(format!("{why} at line {line} column {column}"))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, ValueError> {
        self.skip_spaces();
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) => Err(self.error("expected a value")),
            None => Err(self.error("the text ends too early")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, ValueError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.error("expected a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn enter(&mut self, depth: usize) -> Result<(), ValueError> {
        if depth > MAX_DEPTH {
            return Err(self.error("arrays and objects are nested too deeply"));
        }
        self.at += 1;
        self.skip_spaces();
        Ok(())
    }

    /// Steps over what separates two members, or ends them.
    fn next_member(&mut self, end: u8) -> Result<bool, ValueError> {
        self.skip_spaces();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.skip_spaces();
                Ok(true)
            }
            Some(b) if b == end => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => Err(self.error("expected a comma or the end of the members")),
            None => Err(self.error("the text ends too early")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, ValueError> {
        self.enter(depth)?;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if !self.next_member(b']')? {
                return Ok(Value::Array(items));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, ValueError> {
        self.enter(depth)?;
        let mut members = Map::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a key in quotes"));
            }
            let key = self.string()?;
            self.skip_spaces();
            if self.peek() != Some(b':') {
                return Err(self.error("expected a colon"));
            }
            self.at += 1;
            let value = self.value(depth)?;
            members.entry(key).or_insert(value);
            if !self.next_member(b'}')? {
                return Ok(Value::Object(members));
            }
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Number, ValueError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return Err(self.error("invalid number"));
        }
        let mut is_integer = true;
        if self.peek() == Some(b'.') {
            is_integer = false;
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.error("invalid number"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_integer = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.error("invalid number"));
            }
        }
        let text = &self.text[start..self.at];
        if is_integer {
            if let Ok(signed) = text.parse::<i64>() {
                return Ok(signed.into());
            }
            if let Ok(unsigned) = text.parse::<u64>() {
                return Ok(unsigned.into());
            }
        }
        text.parse::<f64>()
            .ok()
            .and_then(Number::from_f64)
            .ok_or_else(|| self.error("number out of range"))
    }

    fn string(&mut self) -> Result<String, ValueError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            let plain = |b: &u8| !matches!(b, b'"' | b'\\' | 0..=0x1f);
            let rest = &self.text.as_bytes()[start..];
            self.at += rest.iter().take_while(|b| plain(b)).count();
            out.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err(self.error("control character in a string")),
                None => return Err(self.error("the text ends too early")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ValueError> {
        let kind = self.text.as_bytes().get(self.at + 1).copied();
        self.at += 2;
        Ok(match kind {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.error("invalid escape")),
        })
    }

    fn unicode(&mut self) -> Result<char, ValueError> {
        let first = self.hexadecimal()?;
        let code = if (0xd800..0xdc00).contains(&first) {
            let follows = self.text.as_bytes().get(self.at..self.at + 2) == Some(b"\\u");
            if !follows {
                return Err(self.error("lone surrogate in a string"));
            }
            self.at += 2;
            let second = self.hexadecimal()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.error("lone surrogate in a string"));
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.error("lone surrogate in a string"))
    }

    fn hexadecimal(&mut self) -> Result<u32, ValueError> {
        let digits = self
            .text
            .as_bytes()
            .get(self.at..self.at + 4)
            .filter(|d| d.iter().all(u8::is_ascii_hexdigit))
            .and_then(|d| std::str::from_utf8(d).ok())
            .ok_or_else(|| self.error("invalid escape"))?;
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| self.error("invalid escape"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_json_is() {
        for text in [
            "null",
            " [ ] ",
            "{}",
            r#"{"a":[1,-2.5e3,true,false,null,"x"],"b":{"c":{}}}"#,
            r#""\u0041\ud83d\ude00\"\\\/\b\f\n\r\t""#,
            "0",
            "-1",
            "18446744073709551615",
            "1E2",
            "0.1",
        ] {
            let want: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse_json(text), Ok(want), "{text}");
        }
        assert_eq!(
            parse_json(r#"{"a":1,"a":2}"#),
            Ok(serde_json::json!({"a": 1}))
        );
        for bad in [
            "",
            " ",
            "nul",
            "tru",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "+1",
            "1 2",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "\"\u{1}\"",
            "1e999",
            "[",
            "{",
            "'a'",
            "NaN",
            "\u{feff}1",
        ] {
            assert!(parse_json(bad).is_err(), "{bad:?}");
        }
        assert!(parse_json(&"[".repeat(1_000_000)).is_err());
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse_json(&deep(127)).is_ok());
        assert!(parse_json(&deep(128)).is_err());
        let error = parse_json("{\n  \"a\": x}").unwrap_err();
        assert_eq!(error.message(), "expected a value at line 2 column 8");
    }

    proptest! {
        #[test]
        fn floats_are_exact(bits in any::<u64>()) {
            let float = f64::from_bits(bits);
            prop_assume!(float.is_finite());
            for text in [format!("{float:e}"), format!("{float:?}")] {
                prop_assert_eq!(parse_json(&text).unwrap().as_f64(), Some(float), "{}", text);
            }
        }

        #[test]
        fn any_text_is_judged_as_serde_json_does(text in "[\\[\\]{}\":,0-9antrufls\\\\ .eE+-]{0,24}") {
            prop_assert_eq!(parse_json(&text).is_ok(), serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
        }
    }
}
