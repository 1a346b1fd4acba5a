//! The one printer of GoogleSQL in this crate.
//!
//! Nothing else writes a quote, a backslash or a back-quote, so a value cannot
//! become syntax: text is escaped backslash first, then quotes, then control
//! characters; names are back-quoted segment by segment; every operand of AND,
//! OR and NOT stands in brackets.
//!
//! Lexical rules: GoogleSQL reference, "Lexical structure and syntax".

use std::fmt::{self, Write};

use datafusion::arrow::datatypes::i256;

use super::condition::{Comparison, Path, Pattern, Piece, Test};
use super::literal::{BIGNUMERIC_SCALE, DAY_MICROS, Literal, NUMERIC_SCALE, Value};

/// `name`, quoted so that reserved words, dashes and spaces are plain names.
pub(crate) struct Identifier<'a>(pub(crate) &'a str);

impl fmt::Display for Identifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('`')?;
        escape(f, self.0, '`')?;
        f.write_char('`')
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_char('.')?;
            }
            Identifier(name).fmt(f)?;
        }
        Ok(())
    }
}

/// A STRING literal.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('\'')?;
        escape(f, self.0, '\'')?;
        f.write_char('\'')
    }
}

/// Writes `text` for the inside of a literal that ends at `quote`.
fn escape(f: &mut fmt::Formatter<'_>, text: &str, quote: char) -> fmt::Result {
    for character in text.chars() {
        match character {
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c == quote => write!(f, "\\{c}")?,
            c if c.is_ascii_control() => write!(f, "\\x{:02x}", u32::from(c))?,
            // `\x` names bytes beyond ASCII in some readers, `\u` always a code
            // point. U+2028 and U+2029 are line ends to some readers.
            c if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => {
                write!(f, "\\u{:04x}", u32::from(c))?;
            }
            c => f.write_char(c)?,
        }
    }
    Ok(())
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Value::Int64(value) => write!(f, "{value}"),
            // Shortest text that reads back as the same double, with a point or
            // an exponent so that it is a FLOAT64 and not an INT64 literal.
            Value::Float64(value) => write!(f, "{value:?}"),
            Value::String(value) => Text(value).fmt(f),
            Value::Bytes(value) => {
                f.write_str("b'")?;
                for byte in value {
                    write!(f, "\\x{byte:02x}")?;
                }
                f.write_char('\'')
            }
            Value::Date(days) => {
                f.write_str("DATE '")?;
                date(f, (*days).into())?;
                f.write_char('\'')
            }
            Value::Time(micros) => {
                f.write_str("TIME '")?;
                time(f, *micros)?;
                f.write_char('\'')
            }
            Value::DateTime(micros) => {
                f.write_str("DATETIME '")?;
                date_and_time(f, *micros)?;
                f.write_char('\'')
            }
            Value::Timestamp(micros) => {
                f.write_str("TIMESTAMP '")?;
                date_and_time(f, *micros)?;
                f.write_str("+00:00'")
            }
            Value::Numeric(units) => {
                let text = decimal(i256::from_i128(*units), NUMERIC_SCALE);
                write!(f, "NUMERIC '{text}'")
            }
            Value::BigNumeric(units) => {
                let text = decimal(*units, BIGNUMERIC_SCALE);
                write!(f, "BIGNUMERIC '{text}'")
            }
        }
    }
}

fn date_and_time(f: &mut fmt::Formatter<'_>, micros: i64) -> fmt::Result {
    date(f, micros.div_euclid(DAY_MICROS))?;
    f.write_char(' ')?;
    time(f, micros.rem_euclid(DAY_MICROS))
}

/// Four-digit years: a literal's domain begins in year 1 and ends in year 9999.
fn date(f: &mut fmt::Formatter<'_>, days: i64) -> fmt::Result {
    let (year, month, day) = civil(days);
    write!(f, "{year:04}-{month:02}-{day:02}")
}

/// Always six fractional digits.
fn time(f: &mut fmt::Formatter<'_>, micros: i64) -> fmt::Result {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (minutes, second) = (seconds / 60, seconds % 60);
    let (hour, minute) = (minutes / 60, minutes % 60);
    write!(f, "{hour:02}:{minute:02}:{second:02}.{fraction:06}")
}

/// Year, month and day of the proleptic Gregorian calendar, counted in whole
/// 400-year cycles of 146,097 days from 0000-03-01.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day_of_cycle = shifted.rem_euclid(146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
        - day_of_cycle / 146_096)
        / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = match month_from_march {
        m @ 0..=9 => m + 3,
        m => m - 9,
    };
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    (year, month, day)
}

/// Plain digits without trailing zeros.
fn decimal(units: i256, scale: i8) -> String {
    let negative = units.is_negative();
    let digits = units.to_string();
    let digits = digits.trim_start_matches('-');
    let scale = usize::try_from(scale).expect("scales of NUMERIC and BIGNUMERIC are positive");
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    let fraction = fraction.trim_end_matches('0');
    let sign = if negative { "-" } else { "" };
    match fraction {
        "" => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pattern = String::new();
        for piece in &self.0 {
            match piece {
                Piece::One => pattern.push('_'),
                Piece::Many => pattern.push('%'),
                Piece::Text(text) => {
                    for character in text.chars() {
                        if matches!(character, '\\' | '%' | '_') {
                            pattern.push('\\');
                        }
                        pattern.push(character);
                    }
                }
            }
        }
        // A pattern is written inside a literal: its own escapes are escaped.
        Text(&pattern).fmt(f)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(path) => path.fmt(f),
            Self::Compare(path, comparison, literal) => write!(f, "{path} {comparison} {literal}"),
            Self::In(path, list) => in_list(f, path, "IN", list),
            Self::IsNull(path) => write!(f, "{path} IS NULL"),
            Self::IsNan(path) => write!(f, "IS_NAN({path})"),
            Self::Like(path, pattern) => write!(f, "{path} LIKE {pattern}"),
            Self::Constant(true) => f.write_str("TRUE"),
            Self::Constant(false) => f.write_str("FALSE"),
            Self::All(tests) => joined(f, tests, " AND "),
            Self::Any(tests) => joined(f, tests, " OR "),
            Self::Not(test) => match test.as_ref() {
                Self::IsNull(path) => write!(f, "{path} IS NOT NULL"),
                Self::In(path, list) => in_list(f, path, "NOT IN", list),
                Self::Like(path, pattern) => write!(f, "{path} NOT LIKE {pattern}"),
                other => write!(f, "NOT ({other})"),
            },
        }
    }
}

fn in_list(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    operator: &str,
    list: &[Literal],
) -> fmt::Result {
    write!(f, "{path} {operator} (")?;
    for (index, literal) in list.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{literal}")?;
    }
    f.write_char(')')
}

fn joined(f: &mut fmt::Formatter<'_>, tests: &[Test], separator: &str) -> fmt::Result {
    for (index, test) in tests.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write!(f, "({test})")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::literal::{MAX_DATE, MAX_MICROS, MIN_DATE, MIN_MICROS};

    fn text(value: &str) -> String {
        Literal::string(value).to_string()
    }

    #[test]
    fn a01_a_quote_is_escaped_with_a_backslash() {
        assert_eq!(text("Looney's Lane"), r"'Looney\'s Lane'");
    }

    #[test]
    fn a02_backslashes_line_ends_and_controls_are_escaped() {
        assert_eq!(text(r"a\b"), r"'a\\b'");
        assert_eq!(text("line1\nline2\r"), r"'line1\nline2\r'");
        assert_eq!(text("\0\u{7f}\u{85}\u{2028}"), r"'\x00\x7f\u0085\u2028'");
        assert_eq!(text(r"\'"), r"'\\\''");
    }

    #[test]
    fn a03_text_cannot_become_syntax() {
        assert_eq!(text("x' OR TRUE --"), r"'x\' OR TRUE --'");
        assert_eq!(text("\"`é漢"), "'\"`é漢'");
    }

    #[test]
    fn bytes_are_hexadecimal() {
        assert_eq!(
            Literal::bytes(vec![0, b'\'', b'\\', 255]).to_string(),
            r"b'\x00\x27\x5c\xff'"
        );
        assert_eq!(Literal::bytes(vec![]).to_string(), "b''");
    }

    #[test]
    fn a07_a11_times_have_four_digit_years_and_six_fractional_digits() {
        let first = Literal::datetime(MIN_MICROS + 999_000).unwrap();
        assert_eq!(first.to_string(), "DATETIME '0001-01-01 00:00:00.999000'");
        let last = Literal::datetime(MAX_MICROS).unwrap();
        assert_eq!(last.to_string(), "DATETIME '9999-12-31 23:59:59.999999'");
        let before = Literal::datetime(-1).unwrap();
        assert_eq!(before.to_string(), "DATETIME '1969-12-31 23:59:59.999999'");
        assert_eq!(
            Literal::time(0).unwrap().to_string(),
            "TIME '00:00:00.000000'"
        );
    }

    #[test]
    fn a10_a_timestamp_keeps_its_offset() {
        assert_eq!(
            Literal::timestamp(1_470_513_900_000_000)
                .unwrap()
                .to_string(),
            "TIMESTAMP '2016-08-06 20:05:00.000000+00:00'"
        );
    }

    #[test]
    fn dates_follow_the_calendar() {
        for days in MIN_DATE..=MAX_DATE {
            let expected = chrono::NaiveDate::from_num_days_from_ce_opt(days + 719_163).unwrap();
            let printed = Literal::date(days.into()).unwrap().to_string();
            if days % 97 == 0 || days == MIN_DATE || days == MAX_DATE {
                assert_eq!(printed, format!("DATE '{expected}'"));
            }
        }
    }

    #[test]
    fn decimals_are_typed_and_plain() {
        let numeric = |units: i128| {
            Literal::numeric(i256::from_i128(units))
                .unwrap()
                .to_string()
        };
        assert_eq!(numeric(1_500_000_000), "NUMERIC '1.5'");
        assert_eq!(numeric(-1), "NUMERIC '-0.000000001'");
        assert_eq!(numeric(0), "NUMERIC '0'");
        assert_eq!(
            Literal::bignumeric(i256::MIN).to_string(),
            "BIGNUMERIC '-578960446186580977117854925043439539266.34992332820282019728792003956564819968'"
        );
    }

    #[test]
    fn floats_read_back() {
        for value in [0.1, 1.0, -2.5, 1e300, 5e-324, f64::MAX] {
            let printed = Literal::float64(value).unwrap().to_string();
            assert_eq!(printed.parse::<f64>().unwrap(), value);
            assert!(printed.contains(['.', 'e']), "{printed}");
        }
    }

    #[test]
    fn d01_names_are_back_quoted_segment_by_segment() {
        let path = Path(vec!["order".into(), "a`b".into(), "weiß-1".into()]);
        assert_eq!(path.to_string(), r"`order`.`a\`b`.`weiß-1`");
    }
}
