//! REGEXP_* functions.

use super::pattern::{Groups, byte_length, cached};
use super::scalar::{Definition, row};
use super::value::{Answer, Value, fail};
use crate::error::Result;

/// The byte offset of a 1-based character (or byte) position, `None` beyond the
/// end.
pub(crate) fn start_position(value: &Value<'_>, position: i64) -> Result<Option<usize>> {
    let skip = usize::try_from(position - 1).unwrap_or(usize::MAX);
    Ok(match value {
        Value::Bytes(b) => (skip <= b.len()).then_some(skip),
        other => {
            let text = other.str()?;
            match text.char_indices().nth(skip) {
                Some((at, _)) => Some(at),
                None => (text.chars().count() == skip).then_some(text.len()),
            }
        }
    })
}

fn slice(value: &Value<'_>, range: &std::ops::Range<usize>) -> Answer {
    Ok(match value {
        Value::Bytes(b) => Value::binary(&b[range.clone()]),
        other => Value::text(&other.str()?[range.clone()]),
    })
}

fn checked_positions(a: &[Value<'_>], name: &str) -> Result<(i64, i64)> {
    let position = a.get(2).map_or(Ok(1), Value::int)?;
    let occurrence = a.get(3).map_or(Ok(1), Value::int)?;
    if position < 1 {
        return fail(format!(
            "Third argument in {name} must be positive: {position}"
        ));
    }
    if occurrence < 1 {
        return fail(format!(
            "Fourth argument in {name} must be positive: {occurrence}"
        ));
    }
    Ok((position, occurrence))
}

fn one_group(pattern: &super::pattern::Pattern) -> Result<usize> {
    match pattern.groups() {
        n @ 0..=1 => Ok(n),
        n => fail(format!(
            "Regular expressions passed into extraction functions must not have more than 1 capturing group, but the regular expression has {n} capturing groups"
        )),
    }
}

fn nth(a: &[Value<'_>], name: &str) -> Result<Option<(Groups, usize)>> {
    let (position, occurrence) = checked_positions(a, name)?;
    let pattern = cached(&a[1])?;
    let group = one_group(&pattern)?;
    let Some(start) = start_position(&a[0], position)? else {
        return Ok(None);
    };
    let nth = usize::try_from(occurrence - 1).unwrap_or(usize::MAX);
    Ok(pattern
        .find_all(&a[0], start)?
        .into_iter()
        .nth(nth)
        .map(|groups| (groups, group)))
}

fn extract(a: &[Value<'_>]) -> Answer {
    match nth(a, "REGEXP_EXTRACT")? {
        Some((groups, group)) => match groups.get(group).cloned().flatten() {
            Some(range) => slice(&a[0], &range),
            None => Ok(Value::Null),
        },
        None => Ok(Value::Null),
    }
}

fn extract_all(a: &[Value<'_>]) -> Answer {
    let pattern = cached(&a[1])?;
    let group = one_group(&pattern)?;
    Ok(Value::Array(
        pattern
            .find_all(&a[0], 0)?
            .into_iter()
            .map(|groups| match groups.get(group).cloned().flatten() {
                Some(range) => slice(&a[0], &range),
                None => Ok(match a[0] {
                    Value::Bytes(_) => Value::binary(Vec::new()),
                    _ => Value::text(""),
                }),
            })
            .collect::<Result<_>>()?,
    ))
}

fn instr(a: &[Value<'_>]) -> Answer {
    let which = a.get(4).map_or(Ok(0), Value::int)?;
    if !(0..=1).contains(&which) {
        return fail(format!(
            "Fifth argument in REGEXP_INSTR must be 0 or 1: {which}"
        ));
    }
    let Some((groups, group)) = nth(a, "REGEXP_INSTR")? else {
        return Ok(Value::Int64(0));
    };
    let Some(range) = groups.get(group).cloned().flatten() else {
        return Ok(Value::Int64(0));
    };
    let at = if which == 0 { range.start } else { range.end };
    Ok(Value::Int64(match &a[0] {
        Value::Bytes(_) => at as i64 + 1,
        other => other.str()?[..at].chars().count() as i64 + 1,
    }))
}

/// The replacement's pieces: `\0`…`\9` are groups, `\\` a backslash.
fn replace(a: &[Value<'_>]) -> Answer {
    let pattern = cached(&a[1])?;
    let raw: &[u8] = match &a[2] {
        Value::Bytes(b) => b,
        other => other.str()?.as_bytes(),
    };
    enum Piece {
        Bytes(Vec<u8>),
        Group(usize),
    }
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    let mut i = 0;
    while i < raw.len() {
        if raw[i] != b'\\' {
            literal.push(raw[i]);
            i += 1;
            continue;
        }
        match raw.get(i + 1) {
            Some(d @ b'0'..=b'9') => {
                let group = usize::from(d - b'0');
                if group > pattern.groups() {
                    return fail(format!(
                        "Invalid REGEXP_REPLACE pattern: the replacement asks for group {group}, and the regular expression has {}",
                        pattern.groups()
                    ));
                }
                pieces.push(Piece::Bytes(std::mem::take(&mut literal)));
                pieces.push(Piece::Group(group));
            }
            Some(b'\\') => literal.push(b'\\'),
            _ => {
                return fail(
                    "Invalid REGEXP_REPLACE pattern: a backslash must be followed by a digit or a backslash",
                );
            }
        }
        i += 2;
    }
    pieces.push(Piece::Bytes(literal));
    let source: &[u8] = match &a[0] {
        Value::Bytes(b) => b,
        other => other.str()?.as_bytes(),
    };
    let mut out = Vec::with_capacity(byte_length(&a[0])?);
    let mut at = 0;
    for groups in pattern.find_all(&a[0], 0)? {
        let Some(whole) = groups.first().cloned().flatten() else {
            continue;
        };
        out.extend_from_slice(&source[at..whole.start]);
        for piece in &pieces {
            match piece {
                Piece::Bytes(b) => out.extend_from_slice(b),
                Piece::Group(g) => {
                    if let Some(range) = groups.get(*g).cloned().flatten() {
                        out.extend_from_slice(&source[range]);
                    }
                }
            }
        }
        at = whole.end;
    }
    out.extend_from_slice(&source[at..]);
    match &a[0] {
        Value::Bytes(_) => Ok(Value::binary(out)),
        _ => match String::from_utf8(out) {
            Ok(s) => Ok(Value::text(s)),
            Err(_) => fail("REGEXP_REPLACE produced a STRING that is not UTF-8"),
        },
    }
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    let extracts: &[&'static str] = &[
        "STRING, STRING, INT64?, INT64? -> STRING",
        "BYTES, BYTES, INT64?, INT64? -> BYTES",
    ];
    vec![
        row(
            "regexp_contains",
            &["STRING, STRING -> BOOL", "BYTES, BYTES -> BOOL"],
            |a| Ok(Value::Bool(cached(&a[1])?.find_at(&a[0], 0)?.is_some())),
        ),
        row("regexp_extract", extracts, extract),
        row("regexp_substr", extracts, extract),
        row(
            "regexp_extract_all",
            &[
                "STRING, STRING -> ARRAY<STRING>",
                "BYTES, BYTES -> ARRAY<BYTES>",
            ],
            extract_all,
        ),
        row(
            "regexp_instr",
            &[
                "STRING, STRING, INT64?, INT64?, INT64? -> INT64",
                "BYTES, BYTES, INT64?, INT64?, INT64? -> INT64",
            ],
            instr,
        ),
        row(
            "regexp_replace",
            &[
                "STRING, STRING, STRING -> STRING",
                "BYTES, BYTES, BYTES -> BYTES",
            ],
            replace,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(v: &str) -> Value<'static> {
        Value::text(v)
    }

    #[test]
    fn extraction() {
        assert_eq!(
            extract(&[s("foo@bar.com"), s("@(.*)\\.")]).unwrap(),
            s("bar")
        );
        assert_eq!(extract(&[s("abc"), s("x")]).unwrap(), Value::Null);
        let (p, o) = (Value::Int64(1), Value::Int64(2));
        assert_eq!(
            extract(&[s("Hello Helloo"), s("H?ello+"), p, o]).unwrap(),
            s("Helloo")
        );
        assert!(extract(&[s("a"), s("(a)(b)")]).is_err());
        assert_eq!(
            extract_all(&[s("x1y22"), s("[0-9]+")]).unwrap(),
            Value::Array(vec![s("1"), s("22")])
        );
        assert_eq!(instr(&[s("äab@cd"), s("@[^.]*")]).unwrap(), Value::Int64(4));
    }

    #[test]
    fn replacement() {
        assert_eq!(
            replace(&[s("# Heading"), s("^# ([a-zA-Z0-9 ]+)"), s("<h1>\\1</h1>")]).unwrap(),
            s("<h1>Heading</h1>")
        );
        assert_eq!(replace(&[s("abc"), s("b"), s("\\\\")]).unwrap(), s("a\\c"));
        assert!(replace(&[s("abc"), s("b"), s("\\1")]).is_err());
        assert_eq!(replace(&[s("ab"), s(""), s("-")]).unwrap(), s("-a-b-"));
    }
}
