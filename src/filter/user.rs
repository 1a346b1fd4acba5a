//! The restriction that a user wrote, as far as it has to be understood to
//! stand next to others.
//!
//! In brackets, text that is no expression of its own can become part of another
//! one: `a) OR (b` widens what stands beside it, and a comment at the end hides
//! it. So the text has to end outside of literals and block comments with every
//! bracket closed; the service judges the rest.
//!
//! Lexical rules: GoogleSQL reference, "Lexical structure and syntax".

/// A restriction that can be put in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserRestriction {
    text: String,
    end: End,
}

/// What the text ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Token,
    /// A comment that lasts to the end of the line.
    LineComment,
}

impl UserRestriction {
    /// The restriction that `text` is; None for blank text.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let end = Scanner::new(text).scan()?;
        let text = text.to_string();
        Ok(Some(Self { text, end }))
    }

    /// As given.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// As an operand of AND.
    pub(crate) fn bracketed(&self) -> String {
        match self.end {
            End::Token => format!("({})", self.text),
            End::LineComment => format!("({}\n)", self.text),
        }
    }
}

struct Scanner<'a> {
    rest: &'a str,
    /// The brackets that are open, outermost first.
    brackets: Vec<char>,
}

impl<'a> Scanner<'a> {
    fn new(rest: &'a str) -> Self {
        Self {
            rest,
            brackets: Vec::new(),
        }
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Up to the end of `token`, or false where there is none.
    fn skip_past(&mut self, token: &str) -> bool {
        match self.rest.split_once(token) {
            Some((_, rest)) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn scan(mut self) -> Result<End, String> {
        let mut end = End::Token;
        while let Some(character) = self.rest.chars().next() {
            end = End::Token;
            if self.take("--") || self.take("#") {
                if !self.skip_past("\n") {
                    end = End::LineComment;
                    break;
                }
            } else if self.take("/*") {
                if !self.skip_past("*/") {
                    return Err("a comment is not closed".to_string());
                }
            } else if matches!(character, '\'' | '"' | '`') {
                self.literal()?;
            } else {
                self.rest = &self.rest[character.len_utf8()..];
                self.bracket(character)?;
            }
        }
        match self.brackets.pop() {
            Some(open) => Err(format!("'{open}' is not closed")),
            None => Ok(end),
        }
    }

    fn bracket(&mut self, character: char) -> Result<(), String> {
        let opening = match character {
            '(' | '[' | '{' => {
                self.brackets.push(character);
                return Ok(());
            }
            ')' => '(',
            ']' => '[',
            '}' => '{',
            _ => return Ok(()),
        };
        match self.brackets.pop() {
            Some(open) if open == opening => Ok(()),
            _ => Err(format!("'{character}' closes nothing")),
        }
    }

    /// A literal or quoted name from its opening quote on. In raw literals too a
    /// backslash keeps the next quote from closing them.
    fn literal(&mut self) -> Result<(), String> {
        let quote = self.rest.chars().next().expect("a quote was seen");
        let triple: String = [quote; 3].iter().collect();
        let (closing, multiline) = match quote != '`' && self.rest.starts_with(&triple) {
            true => (triple, true),
            false => (quote.to_string(), false),
        };
        self.rest = &self.rest[closing.len()..];
        loop {
            if self.take(&closing) {
                return Ok(());
            }
            let mut characters = self.rest.chars();
            match characters.next() {
                None => return Err(format!("the literal that {closing} begins is not closed")),
                Some('\n' | '\r') if !multiline => {
                    return Err(format!("a line ends in the literal that {closing} begins"));
                }
                Some('\\') => {
                    characters.next();
                }
                Some(_) => {}
            }
            self.rest = characters.as_str();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> UserRestriction {
        UserRestriction::parse(text).unwrap().unwrap()
    }

    #[test]
    fn blank_text_is_none() {
        assert_eq!(UserRestriction::parse(" \n"), Ok(None));
    }

    #[test]
    fn a_comment_at_the_end_gets_a_line_of_its_own() {
        assert_eq!(parse("a > 1").bracketed(), "(a > 1)");
        assert_eq!(parse("a > 1 -- why").bracketed(), "(a > 1 -- why\n)");
        assert_eq!(parse("a > 1 # why").bracketed(), "(a > 1 # why\n)");
        assert_eq!(
            parse("a > 1 -- why\nAND b").bracketed(),
            "(a > 1 -- why\nAND b)"
        );
        assert_eq!(parse("a = '--'").bracketed(), "(a = '--')");
        assert_eq!(parse("a = /* -- */ 1").bracketed(), "(a = /* -- */ 1)");
    }

    #[test]
    fn what_would_spill_over_is_refused() {
        for text in [
            "a) OR (b",
            "(a",
            "a]",
            "(a]",
            "a /* why",
            "a = 'x",
            "a = 'x\ny'",
            r"a = 'x\'",
            "a = '''x''",
            "`a",
        ] {
            UserRestriction::parse(text).expect_err(text);
        }
    }

    #[test]
    fn brackets_and_quotes_in_literals_are_text() {
        for text in [
            "a = ')'",
            r"a = '\')'",
            r"a = r'\')'",
            "a = \"it's )\"",
            "a = '''it's\n)'''",
            "a = \"\"\"x\"\n(\"\"\"",
            "`a)` > 1",
            "a IN UNNEST([1, (2)])",
            "a = '' AND b = ''",
            "a = rb'(' OR a = B')'",
        ] {
            assert_eq!(parse(text).text(), text);
        }
    }
}
