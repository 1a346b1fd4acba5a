//! Query results as the text that chapters expect.

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use sqllogictest::ColumnType;

/// The letter of a column in `query II…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letter {
    /// `B`: booleans.
    Boolean,
    /// `D`: dates, times, civil timestamps and intervals.
    DateTime,
    /// `I`: integers.
    Integer,
    /// `P`: points in time.
    Timestamp,
    /// `R`: floating point and decimal numbers.
    Real,
    /// `T`: strings.
    Text,
    /// `?`: bytes, structs, lists and the rest.
    Other,
}

const LETTERS: [(Letter, char); 7] = [
    (Letter::Boolean, 'B'),
    (Letter::DateTime, 'D'),
    (Letter::Integer, 'I'),
    (Letter::Timestamp, 'P'),
    (Letter::Real, 'R'),
    (Letter::Text, 'T'),
    (Letter::Other, '?'),
];

impl ColumnType for Letter {
    fn from_char(value: char) -> Option<Self> {
        LETTERS
            .iter()
            .find(|(_, letter)| *letter == value)
            .map(|(kind, _)| *kind)
    }

    fn to_char(&self) -> char {
        LETTERS
            .iter()
            .find(|(kind, _)| kind == self)
            .map_or('?', |(_, letter)| *letter)
    }
}

/// The letters of a result's columns.
pub fn letters(schema: &Schema) -> Vec<Letter> {
    schema
        .fields()
        .iter()
        .map(|field| letter(field.data_type()))
        .collect()
}

fn letter(data_type: &DataType) -> Letter {
    match data_type {
        DataType::Boolean => Letter::Boolean,
        data_type if data_type.is_integer() => Letter::Integer,
        data_type if data_type.is_floating() || data_type.is_decimal() => Letter::Real,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Letter::Text,
        DataType::Timestamp(_, Some(_)) => Letter::Timestamp,
        data_type if data_type.is_temporal() => Letter::DateTime,
        DataType::Dictionary(_, values) => letter(values),
        _ => Letter::Other,
    }
}

/// The rows of a result: `NULL` for null, `(empty)` for the empty string, line
/// ends inside a string as `\n`, and otherwise Arrow's own text.
///
/// A plan that EXPLAIN shows is one row per line, numbered, because
/// sqllogictest ignores the white space that a line begins with.
///
/// # Errors
/// Arrow cannot print a value.
pub fn rows(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, ArrowError> {
    let format = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &format))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns
                .iter()
                .zip(batch.columns())
                .map(|(formatter, column)| {
                    let text = formatter.value(row).try_to_string()?;
                    Ok(cell(text, column.as_ref(), row))
                })
                .collect::<Result<Vec<_>, ArrowError>>()?;
            if is_explain(schema) {
                rows.extend(plan_lines(&cells));
            } else {
                rows.push(
                    cells
                        .into_iter()
                        .map(|cell| cell.replace('\n', "\\n"))
                        .collect(),
                );
            }
        }
    }
    Ok(rows)
}

fn cell(text: String, column: &dyn Array, row: usize) -> String {
    if text.is_empty() && column.is_valid(row) {
        "(empty)".to_string()
    } else {
        text
    }
}

fn is_explain(schema: &Schema) -> bool {
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    names == ["plan_type", "plan"]
}

/// `physical_plan` alone, then `01)…`, `02)--…` with two dashes per level.
fn plan_lines(cells: &[String]) -> Vec<Vec<String>> {
    let [plan_type, plan] = cells else {
        return vec![cells.to_vec()];
    };
    let mut lines = vec![vec![plan_type.clone()]];
    for (index, line) in plan.trim_end().lines().enumerate() {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        lines.push(vec![format!(
            "{:02}){}{}",
            index + 1,
            "-".repeat(depth),
            text.trim_end()
        )]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Float64Array, StringArray};
    use std::sync::Arc;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter(columns).expect("columns of one length")
    }

    #[test]
    fn nulls_and_empty_strings_are_told_apart() {
        let batch = batch(vec![
            (
                "s",
                Arc::new(StringArray::from(vec![Some(""), None, Some("a\nb")])) as ArrayRef,
            ),
            (
                "f",
                Arc::new(Float64Array::from(vec![Some(-0.0), Some(f64::NAN), None])),
            ),
        ]);
        assert_eq!(
            rows(&batch.schema(), std::slice::from_ref(&batch)).expect("printable"),
            [["(empty)", "-0.0"], ["NULL", "NaN"], ["a\\nb", "NULL"]]
        );
    }

    #[test]
    fn plans_keep_their_levels() {
        let batch = batch(vec![
            (
                "plan_type",
                Arc::new(StringArray::from(vec!["physical_plan"])) as ArrayRef,
            ),
            ("plan", Arc::new(StringArray::from(vec!["A: x\n  B\n"]))),
        ]);
        assert_eq!(
            rows(&batch.schema(), std::slice::from_ref(&batch)).expect("printable"),
            [["physical_plan"], ["01)A: x"], ["02)--B"]]
        );
    }

    #[test]
    fn letters_are_their_own_inverse() {
        for (kind, letter) in LETTERS {
            assert_eq!(Letter::from_char(letter), Some(kind));
            assert_eq!(kind.to_char(), letter);
        }
    }
}
