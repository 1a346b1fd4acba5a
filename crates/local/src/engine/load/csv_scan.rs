//! Cutting separated values into records and fields.

use std::borrow::Cow;

/// How values are separated.
#[derive(Debug, Clone)]
pub(super) struct Dialect {
    /// Between fields.
    pub(super) delimiter: String,
    /// Around fields; `None` when nothing quotes.
    pub(super) quote: Option<char>,
    /// Whether a quoted field may hold line breaks.
    pub(super) quoted_newlines: bool,
}

/// A field's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawField<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) quoted: bool,
}

/// A record, good or not, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Line of its beginning, from 1.
    pub(super) line: u64,
    /// Bytes before its beginning.
    pub(super) offset: usize,
    /// Its fields, or why it has none.
    pub(super) fields: Result<Vec<RawField<'a>>, &'static str>,
}

const NOT_CLOSED: &str = "Missing close double quote (\") character.";
const AFTER_QUOTE: &str = "Data between close double quote (\") and field separator.";

/// The records of a text, without empty lines.
pub(super) struct Records<'a> {
    text: &'a str,
    at: usize,
    line: u64,
    dialect: &'a Dialect,
}

impl<'a> Records<'a> {
    pub(super) fn new(text: &'a str, dialect: &'a Dialect) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            dialect,
        }
    }

    /// Passes over `count` lines, whatever they hold.
    pub(super) fn skip_lines(&mut self, count: u64) {
        for _ in 0..count {
            if self.at >= self.text.len() {
                break;
            }
            self.skip_line();
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Length of the line break that `rest` begins with.
    fn line_break(rest: &str) -> Option<usize> {
        let bytes = rest.as_bytes();
        match bytes.first() {
            Some(b'\r') if bytes.get(1) == Some(&b'\n') => Some(2),
            Some(b'\r' | b'\n') => Some(1),
            _ => None,
        }
    }

    fn skip_line(&mut self) {
        let rest = self.rest();
        let end = rest
            .bytes()
            .position(|b| b == b'\r' || b == b'\n')
            .unwrap_or(rest.len());
        self.at += end + Self::line_break(&rest[end..]).unwrap_or(0);
        self.line += 1;
    }

    fn record(&mut self) -> Result<Vec<RawField<'a>>, &'static str> {
        let mut fields = Vec::new();
        loop {
            fields.push(self.field()?);
            let rest = self.rest();
            if rest.starts_with(&self.dialect.delimiter) {
                self.at += self.dialect.delimiter.len();
                continue;
            }
            self.at += Self::line_break(rest).unwrap_or(0);
            self.line += 1;
            return Ok(fields);
        }
    }

    fn field(&mut self) -> Result<RawField<'a>, &'static str> {
        let rest = self.rest();
        match self.dialect.quote {
            Some(quote) if rest.starts_with(quote) => self.quoted(quote),
            _ => {
                let end = self.plain_end(rest);
                self.at += end;
                Ok(RawField {
                    text: Cow::Borrowed(&rest[..end]),
                    quoted: false,
                })
            }
        }
    }

    fn plain_end(&self, rest: &str) -> usize {
        let delimiter = self.dialect.delimiter.as_bytes();
        let first = delimiter.first().copied();
        let bytes = rest.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            if byte == b'\n'
                || byte == b'\r'
                || (Some(byte) == first && bytes[at..].starts_with(delimiter))
            {
                return at;
            }
            at += 1;
        }
        at
    }

    fn quoted(&mut self, quote: char) -> Result<RawField<'a>, &'static str> {
        self.at += quote.len_utf8();
        let mut text: Cow<'a, str> = Cow::Borrowed("");
        loop {
            let rest = self.rest();
            let Some(end) = rest.find(quote) else {
                return Err(NOT_CLOSED);
            };
            let piece = &rest[..end];
            if piece.contains(['\n', '\r']) {
                if !self.dialect.quoted_newlines {
                    return Err(NOT_CLOSED);
                }
                self.line += count_lines(piece);
            }
            push(&mut text, piece);
            self.at += end + quote.len_utf8();
            if !self.rest().starts_with(quote) {
                break;
            }
            // A quote that is doubled is one of the text.
            push(&mut text, &self.rest()[..quote.len_utf8()]);
            self.at += quote.len_utf8();
        }
        let rest = self.rest();
        let closed = rest.is_empty()
            || Self::line_break(rest).is_some()
            || rest.starts_with(&self.dialect.delimiter);
        if !closed {
            return Err(AFTER_QUOTE);
        }
        Ok(RawField { text, quoted: true })
    }
}

fn push<'a>(text: &mut Cow<'a, str>, piece: &'a str) {
    if text.is_empty() {
        *text = Cow::Borrowed(piece);
    } else {
        text.to_mut().push_str(piece);
    }
}

fn count_lines(text: &str) -> u64 {
    let breaks = text.bytes().filter(|b| *b == b'\n').count();
    u64::try_from(breaks).unwrap_or(u64::MAX)
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        while let Some(length) = Self::line_break(self.rest()) {
            self.at += length;
            self.line += 1;
        }
        if self.at >= self.text.len() {
            return None;
        }
        let (line, offset) = (self.line, self.at);
        let fields = self.record();
        if fields.is_err() {
            // Nothing tells where a broken record ends but its line.
            self.at = offset;
            self.line = line;
            self.skip_line();
        }
        Some(Record {
            line,
            offset,
            fields,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect() -> Dialect {
        Dialect {
            delimiter: ",".into(),
            quote: Some('"'),
            quoted_newlines: false,
        }
    }

    type Scanned = (u64, usize, Result<Vec<String>, &'static str>);

    fn scan(text: &str, dialect: &Dialect) -> Vec<Scanned> {
        Records::new(text, dialect)
            .map(|r| {
                let fields = r.fields.map(|fields| {
                    fields
                        .iter()
                        .map(|f| {
                            if f.quoted {
                                format!("<{}>", f.text)
                            } else {
                                f.text.to_string()
                            }
                        })
                        .collect()
                });
                (r.line, r.offset, fields)
            })
            .collect()
    }

    fn ok(fields: &[&str]) -> Result<Vec<String>, &'static str> {
        Ok(fields.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn records_end_with_lines_of_any_kind() {
        assert_eq!(
            scan("a,b\r\n1,\n\n,2\rx", &dialect()),
            [
                (1, 0, ok(&["a", "b"])),
                (2, 5, ok(&["1", ""])),
                (4, 9, ok(&["", "2"])),
                (5, 12, ok(&["x"])),
            ]
        );
        assert_eq!(scan("", &dialect()), []);
    }

    #[test]
    fn quotes_hide_separators_and_double_themselves() {
        assert_eq!(
            scan("\"a,b\",\"\",\"x\"\"y\"\n", &dialect()),
            [(1, 0, ok(&["<a,b>", "<>", "<x\"y>"]))]
        );
        let mut open = dialect();
        assert_eq!(
            scan("\"a\nb\",1\n2,3\n", &open),
            [
                (1, 0, Err(NOT_CLOSED)),
                (2, 3, ok(&["b\"", "1"])),
                (3, 8, ok(&["2", "3"]))
            ]
        );
        open.quoted_newlines = true;
        assert_eq!(
            scan("\"a\nb\",1\n2,3\n", &open),
            [(1, 0, ok(&["<a\nb>", "1"])), (3, 8, ok(&["2", "3"]))]
        );
        assert_eq!(
            scan("\"a\"b,c\nd", &open),
            [(1, 0, Err(AFTER_QUOTE)), (2, 7, ok(&["d"]))]
        );
        assert_eq!(scan("\"a", &open), [(1, 0, Err(NOT_CLOSED))]);
        open.quote = None;
        assert_eq!(scan("\"a\",b", &open), [(1, 0, ok(&["\"a\"", "b"]))]);
    }

    #[test]
    fn separators_may_be_any_text_and_lines_are_skipped() {
        let mut other = dialect();
        other.delimiter = "þ".into();
        assert_eq!(scan("aþb", &other), [(1, 0, ok(&["a", "b"]))]);
        let dialect = dialect();
        let mut records = Records::new("\"h\n\nx,y\n1,2", &dialect);
        records.skip_lines(3);
        let next = records.next().unwrap();
        assert_eq!((next.line, next.offset), (4, 8));
        assert!(records.next().is_none());
    }
}
