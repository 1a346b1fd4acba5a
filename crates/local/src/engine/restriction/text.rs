//! Functions over text and bytes.

use std::collections::HashMap;

use arrow::datatypes::Int64Type;
use regex::Regex;

use super::collation::folded;
use super::datum::{Datum, Rows};
use super::error::failed;
use super::expr::Expr;
use super::json_path::JsonPath;
use super::types::Type;
use crate::error::Result;

/// Functions over text and, where they make sense, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextFunction {
    Lower,
    Upper,
    Length,
    ByteLength,
    Substr,
    Left,
    Right,
    Trim,
    LeftTrim,
    RightTrim,
    StartsWith,
    EndsWith,
    RegexpContains,
    RegexpExtract,
    Replace,
    Strpos,
    Reverse,
    JsonValue,
}

/// The part of `items` that SUBSTR takes: 1-based, negative from the end.
fn range(len: usize, position: i64, length: Option<i64>) -> Result<std::ops::Range<usize>> {
    let len = i64::try_from(len).map_err(|_| failed("a value is too long"))?;
    let count = match length {
        Some(n) if n < 0 => {
            return Err(failed("Third argument in SUBSTR() cannot be negative"));
        }
        Some(n) => n,
        None => len,
    };
    // Position 0 is read as 1, and one before the beginning as the beginning.
    let start = match position {
        0 => 0,
        p if p > 0 => p - 1,
        p => (len + p.max(-len)).max(0),
    }
    .min(len);
    let end = start.saturating_add(count).min(len);
    let index = |n: i64| usize::try_from(n).unwrap_or(0);
    Ok(index(start)..index(end))
}

fn characters(text: &str, range: std::ops::Range<usize>) -> String {
    text.chars()
        .skip(range.start)
        .take(range.end - range.start)
        .collect()
}

/// Regular expressions by their text; few patterns, many rows.
#[derive(Default)]
struct Patterns(HashMap<String, Regex>);

impl Patterns {
    fn get(&mut self, pattern: &str) -> Result<&Regex> {
        if !self.0.contains_key(pattern) {
            let compiled = Regex::new(pattern).map_err(|e| {
                failed(format_args!(
                    "Cannot parse regular expression: {}",
                    e.to_string().replace('\n', " ")
                ))
            })?;
            self.0.insert(pattern.to_string(), compiled);
        }
        Ok(&self.0[pattern])
    }
}

/// Evaluates a function whose result has type `ty`.
pub(super) fn call(
    function: TextFunction,
    ty: &Type,
    expressions: &[Expr],
    values: &[Datum],
    rows: &Rows,
) -> Result<Datum> {
    if expressions[0].ty == Type::Bytes {
        return over_bytes(function, values, rows);
    }
    let arguments: Vec<&Datum> = values.iter().collect();
    let a = values[0].text();
    let number = |k: usize, i: usize| values[k].primitive::<Int64Type>().get(i);
    let text = |k: usize| values[k].text();
    let fold = expressions.iter().any(|e| e.ignores_case);
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    match function {
        TextFunction::Lower => rows.text(&arguments, |i| Ok(a.get(i).map(str::to_lowercase))),
        TextFunction::Upper => rows.text(&arguments, |i| Ok(a.get(i).map(str::to_uppercase))),
        TextFunction::Reverse => rows.text(&arguments, |i| {
            Ok(a.get(i).map(|t| t.chars().rev().collect()))
        }),
        TextFunction::Length => rows.primitive::<Int64Type>(&arguments, |i| {
            Ok(a.get(i).map(|t| count(t.chars().count())))
        }),
        TextFunction::ByteLength => {
            rows.primitive::<Int64Type>(&arguments, |i| Ok(a.get(i).map(|t| count(t.len()))))
        }
        TextFunction::Substr => rows.text(&arguments, |i| {
            let (Some(text), Some(position)) = (a.get(i), number(1, i)) else {
                return Ok(None);
            };
            let length = match values.get(2) {
                None => None,
                Some(_) => match number(2, i) {
                    None => return Ok(None),
                    some => some,
                },
            };
            let range = range(text.chars().count(), position, length)?;
            Ok(Some(characters(text, range)))
        }),
        TextFunction::Left | TextFunction::Right => rows.text(&arguments, |i| {
            let (Some(text), Some(n)) = (a.get(i), number(1, i)) else {
                return Ok(None);
            };
            let n = usize::try_from(n)
                .map_err(|_| failed("Length argument in LEFT or RIGHT must be non-negative"))?;
            let len = text.chars().count();
            let n = n.min(len);
            Ok(Some(match function {
                TextFunction::Left => characters(text, 0..n),
                _ => characters(text, len - n..len),
            }))
        }),
        TextFunction::Trim | TextFunction::LeftTrim | TextFunction::RightTrim => {
            rows.text(&arguments, |i| {
                let Some(value) = a.get(i) else {
                    return Ok(None);
                };
                let set = match values.get(1) {
                    None => None,
                    Some(_) => match text(1).get(i) {
                        None => return Ok(None),
                        some => some,
                    },
                };
                let trimmed = |c: char| match set {
                    None => c.is_whitespace(),
                    Some(set) => set.contains(c),
                };
                Ok(Some(
                    match function {
                        TextFunction::Trim => value.trim_matches(trimmed),
                        TextFunction::LeftTrim => value.trim_start_matches(trimmed),
                        _ => value.trim_end_matches(trimmed),
                    }
                    .to_string(),
                ))
            })
        }
        TextFunction::StartsWith | TextFunction::EndsWith => {
            let b = text(1);
            rows.booleans(&arguments, |i| {
                Ok(a.get(i).zip(b.get(i)).map(|(a, b)| {
                    let (left, right);
                    let (a, b) = if fold {
                        (left, right) = (folded(a), folded(b));
                        (left.as_str(), right.as_str())
                    } else {
                        (a, b)
                    };
                    match function {
                        TextFunction::StartsWith => a.starts_with(b),
                        _ => a.ends_with(b),
                    }
                }))
            })
        }
        TextFunction::RegexpContains => {
            let b = text(1);
            let mut patterns = Patterns::default();
            rows.booleans(&arguments, |i| {
                let Some((value, pattern)) = a.get(i).zip(b.get(i)) else {
                    return Ok(None);
                };
                Ok(Some(patterns.get(pattern)?.is_match(value)))
            })
        }
        TextFunction::RegexpExtract => {
            let b = text(1);
            let mut patterns = Patterns::default();
            rows.text(&arguments, |i| {
                let Some((value, pattern)) = a.get(i).zip(b.get(i)) else {
                    return Ok(None);
                };
                let pattern = patterns.get(pattern)?;
                if pattern.captures_len() > 2 {
                    return Err(failed(
                        "Regular expression has more than one capturing group",
                    ));
                }
                Ok(pattern
                    .captures(value)
                    .and_then(|c| c.get(c.len() - 1).map(|m| m.as_str().to_string())))
            })
        }
        TextFunction::Replace => {
            let (b, c) = (text(1), text(2));
            rows.text(&arguments, |i| {
                let (Some(a), Some(b), Some(c)) = (a.get(i), b.get(i), c.get(i)) else {
                    return Ok(None);
                };
                Ok(Some(if b.is_empty() {
                    a.to_string()
                } else {
                    a.replace(b, c)
                }))
            })
        }
        TextFunction::Strpos => {
            let b = text(1);
            rows.primitive::<Int64Type>(&arguments, |i| {
                Ok(a.get(i)
                    .zip(b.get(i))
                    .map(|(a, b)| a.find(b).map_or(0, |at| count(a[..at].chars().count()) + 1)))
            })
        }
        TextFunction::JsonValue => {
            let path = match values.get(1) {
                None => {
                    Datum::constant(std::sync::Arc::new(arrow::array::StringArray::from(vec![
                        "$",
                    ])))
                }
                Some(path) => path.clone(),
            };
            let view = path.text();
            rows.text(&arguments, |i| {
                let Some((json, path)) = a.get(i).zip(view.get(i)) else {
                    return Ok(None);
                };
                let path = JsonPath::parse(path).map_err(failed)?;
                Ok(path.scalar(json))
            })
        }
    }
    .inspect(|datum| {
        debug_assert_eq!(
            *datum.array.data_type(),
            super::datum::data_type(ty),
            "{function:?}"
        );
    })
}

fn over_bytes(function: TextFunction, values: &[Datum], rows: &Rows) -> Result<Datum> {
    let arguments: Vec<&Datum> = values.iter().collect();
    let a = values[0].bytes();
    let number = |k: usize, i: usize| values[k].primitive::<Int64Type>().get(i);
    match function {
        TextFunction::Length | TextFunction::ByteLength => rows
            .primitive::<Int64Type>(&arguments, |i| {
                Ok(a.get(i).map(|b| i64::try_from(b.len()).unwrap_or(i64::MAX)))
            }),
        TextFunction::StartsWith | TextFunction::EndsWith => {
            let b = values[1].bytes();
            rows.booleans(&arguments, |i| {
                Ok(a.get(i).zip(b.get(i)).map(|(a, b)| match function {
                    TextFunction::StartsWith => a.starts_with(b),
                    _ => a.ends_with(b),
                }))
            })
        }
        TextFunction::Substr => rows.bytes(&arguments, |i| {
            let (Some(bytes), Some(position)) = (a.get(i), number(1, i)) else {
                return Ok(None);
            };
            let length = match values.get(2) {
                None => None,
                Some(_) => match number(2, i) {
                    None => return Ok(None),
                    some => some,
                },
            };
            Ok(Some(bytes[range(bytes.len(), position, length)?].to_vec()))
        }),
        TextFunction::Reverse => rows.bytes(&arguments, |i| {
            Ok(a.get(i).map(|b| b.iter().rev().copied().collect()))
        }),
        other => Err(failed(format_args!("internal: {other:?} over BYTES"))),
    }
}

/// Evaluates `||` and CONCAT.
pub(super) fn concatenated(ty: &Type, values: &[Datum], rows: &Rows) -> Result<Datum> {
    let arguments: Vec<&Datum> = values.iter().collect();
    if *ty == Type::Bytes {
        let views: Vec<_> = values.iter().map(Datum::bytes).collect();
        return rows.bytes(&arguments, |i| {
            Ok(views
                .iter()
                .map(|v| v.get(i))
                .collect::<Option<Vec<_>>>()
                .map(|all| all.concat()))
        });
    }
    let views: Vec<_> = values.iter().map(Datum::text).collect();
    rows.text(&arguments, |i| {
        Ok(views
            .iter()
            .map(|v| v.get(i))
            .collect::<Option<Vec<_>>>()
            .map(|all| all.concat()))
    })
}
