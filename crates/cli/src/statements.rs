//! Cutting a text into its statements.
//!
//! The pieces are slices of the text itself, so that each can be handed on
//! unchanged and its place can be named in an error.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

/// One statement of a text, without the semicolon that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The statement and the comments before it.
    pub sql: &'a str,
    /// Where its first word begins in the text, in bytes.
    pub first_word: usize,
    /// Where the text goes on after it and its semicolon, in bytes.
    pub end: usize,
}

/// The statements of `text`, in order. Semicolons inside strings, quoted names
/// and comments do not cut; pieces of nothing but white space and comments are
/// left out.
///
/// A text that has no tokens under `dialect` (an unterminated string, say) is
/// cut up to the place where that begins, and the rest is one piece: the parser
/// then says what is wrong with it, after the statements before it have run.
pub fn statements<'a>(text: &'a str, dialect: &dyn Dialect) -> Vec<Piece<'a>> {
    let lines = Lines::new(text);
    let mut tokens = Vec::new();
    // On an error the tokens before it are in the buffer.
    let complete = Tokenizer::new(dialect, text)
        .tokenize_with_location_into_buf(&mut tokens)
        .is_ok();

    let mut pieces = Vec::new();
    let mut start = 0;
    let mut word = None;
    for token in &tokens {
        match &token.token {
            Token::SemiColon => {
                let end = lines.offset(token.span.end);
                if let Some(first_word) = word.take() {
                    pieces.push(Piece {
                        sql: &text[start..lines.offset(token.span.start)],
                        first_word,
                        end,
                    });
                }
                start = end;
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => {
                word.get_or_insert_with(|| lines.offset(token.span.start));
            }
        }
    }
    if !complete {
        word.get_or_insert_with(|| {
            tokens
                .last()
                .map_or(0, |token| lines.offset(token.span.end))
        });
    }
    if let Some(first_word) = word {
        pieces.push(Piece {
            sql: &text[start..],
            first_word,
            end: text.len(),
        });
    }
    pieces
}

/// Whether the last statement of `text` is ended by a semicolon: one that is not
/// inside a string or a comment, with nothing but white space and comments after
/// it.
pub fn is_ended(text: &str, dialect: &dyn Dialect) -> bool {
    let Ok(tokens) = Tokenizer::new(dialect, text).tokenize() else {
        return false;
    };
    let last = tokens
        .iter()
        .rfind(|token| !matches!(token, Token::Whitespace(_) | Token::EOF));
    last == Some(&Token::SemiColon)
}

/// Where each line of a text begins, to turn the tokenizer's line and column
/// (both from 1, columns in characters) into a byte offset.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self { text, starts }
    }

    fn offset(&self, location: Location) -> usize {
        let line = usize::try_from(location.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let column = usize::try_from(location.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(&start) = self.starts.get(line) else {
            return self.text.len();
        };
        self.text[start..]
            .char_indices()
            .nth(column)
            .map_or(self.text.len(), |(at, _)| start + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::{BigQueryDialect, GenericDialect};

    /// Statements and the lines that their first words stand on.
    fn cut(text: &str) -> Vec<(String, usize)> {
        statements(text, &GenericDialect {})
            .into_iter()
            .map(|piece| {
                let line = text[..piece.first_word].matches('\n').count() + 1;
                (piece.sql.trim().to_string(), line)
            })
            .collect()
    }

    #[test]
    fn pieces_are_the_text_itself() {
        assert_eq!(
            cut("select 1;\n\nselect\n  2 ;select 3"),
            [
                ("select 1".to_string(), 1),
                ("select\n  2".to_string(), 3),
                ("select 3".to_string(), 4)
            ]
        );
    }

    #[test]
    fn quotes_and_comments_hide_semicolons() {
        assert_eq!(
            cut("select ';', \"a;b\" -- no; cut\n, /* ; */ 1; select 2"),
            [
                ("select ';', \"a;b\" -- no; cut\n, /* ; */ 1".to_string(), 1),
                ("select 2".to_string(), 2)
            ]
        );
    }

    #[test]
    fn nothing_to_run() {
        assert!(cut("").is_empty());
        assert!(cut(" ;; \n -- only a comment;\n /* ; */ ; ").is_empty());
    }

    #[test]
    fn a_comment_belongs_to_the_statement_after_it() {
        assert_eq!(
            cut("-- first\nselect 1;\n-- second\nselect 2;"),
            [
                ("-- first\nselect 1".to_string(), 2),
                ("-- second\nselect 2".to_string(), 4)
            ]
        );
    }

    #[test]
    fn letters_of_several_bytes_count_as_one_column() {
        assert_eq!(
            cut("select 'żółć 🦀'; select 2"),
            [
                ("select 'żółć 🦀'".to_string(), 1),
                ("select 2".to_string(), 1)
            ]
        );
    }

    #[test]
    fn windows_line_ends() {
        assert_eq!(
            cut("select 1;\r\nselect 2;\r\n"),
            [("select 1".to_string(), 1), ("select 2".to_string(), 2)]
        );
    }

    #[test]
    fn what_cannot_be_tokenized_is_the_last_piece() {
        assert_eq!(
            cut("select 1;\nselect 'open; select 3"),
            [
                ("select 1".to_string(), 1),
                ("select 'open; select 3".to_string(), 2)
            ]
        );
        assert_eq!(cut("'open"), [("'open".to_string(), 1)]);
    }

    #[test]
    fn a_semicolon_ends_a_statement_only_outside_quotes() {
        let ended = |text| is_ended(text, &GenericDialect {});
        assert!(ended("select 1;"));
        assert!(ended("select 1; -- done\n"));
        assert!(!ended("select 1; select"));
        assert!(!ended("select 'a;"));
        assert!(!ended("select 1 -- a;"));
        assert!(!ended("/* a;"));
        assert!(!ended(""));
    }

    #[test]
    fn the_dialect_decides_what_a_string_is() {
        let text = r#"select "it\";s"; select 2"#;
        let pieces = statements(text, &BigQueryDialect {});
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        assert_eq!(pieces[0].sql, r#"select "it\";s""#);
    }
}
