//! LIKE: `%` for any characters, `_` for one, backslash for the next one itself.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;

use super::collation::folded;

#[derive(Debug, PartialEq)]
pub(super) enum Step<T> {
    /// These in a row.
    Exactly(Vec<T>),
    /// Any one.
    One,
    /// Any number of any.
    Any,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) enum Pattern {
    Text {
        steps: Vec<Step<char>>,
        ignores_case: bool,
    },
    Bytes(Vec<Step<u8>>),
}

const DANGLING: &str = "LIKE pattern ends with a backslash";

fn compile<T: Copy + PartialEq>(
    items: impl Iterator<Item = T>,
    percent: T,
    underscore: T,
    backslash: T,
) -> Result<Vec<Step<T>>, String> {
    let mut steps = Vec::new();
    let mut run = Vec::new();
    let mut items = items;
    while let Some(item) = items.next() {
        if item == backslash {
            run.push(items.next().ok_or_else(|| DANGLING.to_string())?);
        } else if item == percent || item == underscore {
            if !run.is_empty() {
                steps.push(Step::Exactly(std::mem::take(&mut run)));
            }
            if item == underscore {
                steps.push(Step::One);
            } else if steps.last() != Some(&Step::Any) {
                steps.push(Step::Any);
            }
        } else {
            run.push(item);
        }
    }
    if !run.is_empty() {
        steps.push(Step::Exactly(run));
    }
    Ok(steps)
}

/// Whether `items` as a whole match. On a mismatch only the last `%` is tried
/// again, so the time is bounded by the product of both lengths.
fn matches<T: Copy + PartialEq>(items: &[T], steps: &[Step<T>]) -> bool {
    let (mut at, mut step) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let advanced = match steps.get(step) {
            None => at == items.len(),
            Some(Step::Any) => {
                retry = Some((step + 1, at));
                step += 1;
                continue;
            }
            Some(Step::One) => {
                let found = at < items.len();
                at += usize::from(found);
                found
            }
            Some(Step::Exactly(run)) => {
                let found = items[at..].starts_with(run);
                if found {
                    at += run.len();
                }
                found
            }
        };
        if advanced {
            if step == steps.len() {
                return true;
            }
            step += 1;
            continue;
        }
        match retry {
            Some((after, from)) if from < items.len() => {
                retry = Some((after, from + 1));
                (at, step) = (from + 1, after);
            }
            _ => return false,
        }
    }
}

impl Pattern {
    /// Compiles a text pattern.
    pub(super) fn text(pattern: &str, ignores_case: bool) -> Result<Self, String> {
        let pattern: Cow<'_, str> = if ignores_case {
            folded(pattern).into()
        } else {
            pattern.into()
        };
        Ok(Pattern::Text {
            steps: compile(pattern.chars(), '%', '_', '\\')?,
            ignores_case,
        })
    }

    /// Compiles a bytes pattern.
    pub(super) fn bytes(pattern: &[u8]) -> Result<Self, String> {
        compile(pattern.iter().copied(), b'%', b'_', b'\\').map(Pattern::Bytes)
    }

    /// Compiles a constant, which is not NULL.
    pub(super) fn of_literal(constant: &ArrayRef, ignores_case: bool) -> Result<Self, String> {
        debug_assert!(constant.is_valid(0));
        match constant.data_type() {
            DataType::Binary => Self::bytes(constant.as_binary::<i32>().value(0)),
            _ => Self::text(constant.as_string::<i32>().value(0), ignores_case),
        }
    }

    /// Whether text matches a text pattern.
    pub(super) fn matches_text(&self, text: &str) -> bool {
        match self {
            Pattern::Text {
                steps,
                ignores_case,
            } => {
                let characters: Vec<char> = if *ignores_case {
                    folded(text).chars().collect()
                } else {
                    text.chars().collect()
                };
                matches(&characters, steps)
            }
            Pattern::Bytes(_) => false,
        }
    }

    /// Whether bytes match a bytes pattern.
    pub(super) fn matches_bytes(&self, bytes: &[u8]) -> bool {
        match self {
            Pattern::Bytes(steps) => matches(bytes, steps),
            Pattern::Text { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let like =
            |text: &str, pattern: &str| Pattern::text(pattern, false).unwrap().matches_text(text);
        for (text, pattern, want) in [
            ("abc", "abc", true),
            ("abc", "ab", false),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "_b_", true),
            ("abc", "____", false),
            ("", "", true),
            ("", "%", true),
            ("a", "", false),
            ("50%", r"50\%", true),
            ("50x", r"50\%", false),
            ("a_b", r"a\_b", true),
            ("axb", r"a\_b", false),
            ("a\nb", "a%b", true),
            ("é", "_", true),
            ("aXbXc", "a%X_", true),
            ("mississippi", "m%iss%ip%i", true),
            ("mississippi", "m%iss%ix%", false),
            (r"a\b", r"a\\b", true),
        ] {
            assert_eq!(like(text, pattern), want, "{text:?} LIKE {pattern:?}");
        }
        assert!(Pattern::text("a\\", false).is_err());
        assert!(Pattern::text("ABC%", true).unwrap().matches_text("abcd"));
        assert!(Pattern::bytes(b"a_").unwrap().matches_bytes(&[b'a', 255]));
    }

    #[test]
    fn repeated_wildcards_stay_fast() {
        let text = "a".repeat(5_000);
        let pattern = format!("{}b", "%a".repeat(50));
        assert!(!Pattern::text(&pattern, false).unwrap().matches_text(&text));
    }
}
