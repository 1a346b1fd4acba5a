//! Columns from rows: what type the values of a column have in common, and names.

use std::collections::HashSet;

use crate::schema::FieldType;
use crate::value::civil::{parse_date, parse_datetime, parse_time};
use crate::value::scalar::{parse_bool, parse_float64, parse_int64};
use crate::value::timestamp::parse_timestamp_for_import;

/// Rows that are looked at; the service looks at up to 500.
pub(super) const SAMPLE_ROWS: usize = 500;

/// Types in the order in which a text is tried as one of them.
const CANDIDATES: [FieldType; 6] = [
    FieldType::Bool,
    FieldType::Int64,
    FieldType::Float64,
    FieldType::Date,
    FieldType::Time,
    FieldType::Timestamp,
];

/// The types that all values of a column so far have in common.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    possible: Vec<FieldType>,
    empty: bool,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            possible: CANDIDATES.to_vec(),
            empty: true,
        }
    }
}

impl Sample {
    /// Takes a value.
    pub(super) fn text(&mut self, text: &str) {
        self.empty = false;
        self.possible.retain(|candidate| is(candidate, text));
    }

    /// Takes a value whose type is known.
    pub(super) fn value(&mut self, types: &[FieldType]) {
        self.empty = false;
        self.possible.retain(|candidate| types.contains(candidate));
    }

    /// Whether no value was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Whether the values are nothing but text. An empty column counts.
    pub(super) fn is_plain_text(&self) -> bool {
        self.empty || self.possible.is_empty()
    }

    /// The type; STRING when nothing else fits.
    pub(super) fn field_type(&self) -> FieldType {
        match self.possible.first() {
            Some(found) if !self.empty => found.clone(),
            _ => FieldType::String,
        }
    }
}

fn is(candidate: &FieldType, text: &str) -> bool {
    match candidate {
        FieldType::Bool => parse_bool(text.trim()).is_ok(),
        FieldType::Int64 => parse_int64(text).is_ok() && !text.contains(['x', 'X']),
        FieldType::Float64 => parse_float64(text).is_ok(),
        FieldType::Date => parse_date(text).is_ok(),
        FieldType::Time => text.contains(':') && parse_time(text).is_ok(),
        FieldType::Timestamp => {
            text.contains(':')
                && (parse_timestamp_for_import(text).is_ok() || parse_datetime(text).is_ok())
        }
        _ => false,
    }
}

/// Names of columns: legal and unlike.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    generated: usize,
}

impl Names {
    /// A legal name like the header's text.
    pub(super) fn like_header(&mut self, text: &str, position: usize) -> String {
        self.generated = position + 1;
        let mut name: String = text
            .trim()
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '_' {
                    c
                } else {
                    '_'
                }
            })
            .take(300)
            .collect();
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            name.insert(0, '_');
        }
        self.unlike(name)
    }

    /// A name for a column without a header: `int64_field_0`.
    pub(super) fn generated(&mut self, field_type: &FieldType) -> String {
        let position = self.generated;
        self.generated += 1;
        let kind = match field_type {
            FieldType::Float64 => "double".to_string(),
            other => other.sql_name().to_ascii_lowercase(),
        };
        self.unlike(format!("{kind}_field_{position}"))
    }

    fn unlike(&mut self, name: String) -> String {
        let mut unlike = name.clone();
        let mut number = 1;
        while !self.taken.insert(unlike.to_ascii_lowercase()) {
            unlike = format!("{name}_{number}");
            number += 1;
        }
        unlike
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(values: &[&str]) -> FieldType {
        let mut sample = Sample::default();
        for value in values {
            sample.text(value);
        }
        sample.field_type()
    }

    #[test]
    fn values_have_the_narrowest_common_type() {
        assert_eq!(common(&["1", "-2"]), FieldType::Int64);
        assert_eq!(common(&["1", "2.5"]), FieldType::Float64);
        assert_eq!(common(&["true", "FALSE"]), FieldType::Bool);
        assert_eq!(common(&["true", "1"]), FieldType::String);
        assert_eq!(common(&["2024-01-02"]), FieldType::Date);
        assert_eq!(
            common(&["2024-01-02", "2024-01-02 03:04:05"]),
            FieldType::String
        );
        assert_eq!(common(&["2024-01-02T03:04:05Z"]), FieldType::Timestamp);
        assert_eq!(common(&["03:04:05"]), FieldType::Time);
        assert_eq!(common(&["0x1F"]), FieldType::String);
        assert_eq!(common(&[]), FieldType::String);
    }

    #[test]
    fn names_are_legal_and_unlike() {
        let mut names = Names::default();
        assert_eq!(names.like_header(" a b ", 0), "a_b");
        assert_eq!(names.like_header("A_B", 1), "A_B_1");
        assert_eq!(names.like_header("2x", 2), "_2x");
        assert_eq!(names.generated(&FieldType::Float64), "double_field_3");
    }
}
