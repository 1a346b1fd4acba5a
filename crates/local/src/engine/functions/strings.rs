//! STRING and BYTES functions.

use super::cast;
use super::civil::Zone;
use super::scalar::{Definition, row, typed};
use super::types::SqlType;
use super::value::{Answer, Value, fail};
use crate::error::Result;

/// What one function may make at most, in bytes.
const MAX_BYTES: usize = 100 * 1024 * 1024;

/// The same operation on the characters of a STRING or the bytes of BYTES.
fn on_both(
    value: &Value<'_>,
    text: impl FnOnce(&[char]) -> Result<Vec<char>>,
    bytes: impl FnOnce(&[u8]) -> Result<Vec<u8>>,
) -> Answer {
    match value {
        Value::Bytes(b) => bytes(b).map(Value::binary),
        other => {
            let chars: Vec<char> = other.str()?.chars().collect();
            Ok(Value::text(text(&chars)?.into_iter().collect::<String>()))
        }
    }
}

/// SUBSTR of `items`: 1-based, negative from the end.
fn substr<T: Clone>(items: &[T], position: i64, length: Option<i64>) -> Result<Vec<T>> {
    let count = items.len() as i64;
    let start = match position {
        p if p > 0 => p - 1,
        0 => 0,
        p => (count.saturating_add(p)).max(0),
    };
    let length = match length {
        Some(l) if l < 0 => return fail("Third argument in SUBSTR() cannot be negative"),
        Some(l) => l,
        None => count,
    };
    let start = start.min(count);
    let end = start.saturating_add(length).min(count);
    Ok(items[start as usize..end as usize].to_vec())
}

fn substr_call(a: &[Value<'_>]) -> Answer {
    let position = a[1].int()?;
    let length = a.get(2).map(Value::int).transpose()?;
    on_both(
        &a[0],
        |c| substr(c, position, length),
        |b| substr(b, position, length),
    )
}

fn side(a: &[Value<'_>], name: &str) -> Answer {
    let n = a[1].int()?;
    if n < 0 {
        return fail(format!("Second argument in {name}() cannot be negative"));
    }
    fn cut<T: Clone>(items: &[T], n: i64, left: bool) -> Vec<T> {
        let n = (n as u64).min(items.len() as u64) as usize;
        if left {
            items[..n].to_vec()
        } else {
            items[items.len() - n..].to_vec()
        }
    }
    let left = name == "LEFT";
    on_both(&a[0], |c| Ok(cut(c, n, left)), |b| Ok(cut(b, n, left)))
}

fn pad(a: &[Value<'_>], name: &str) -> Answer {
    let length = a[1].int()?;
    if length < 0 {
        return fail(format!("Second argument in {name}() cannot be negative"));
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > MAX_BYTES {
        return fail(format!(
            "Output of {name} exceeds max allowed output size of 1MB"
        ));
    }
    fn fill<T: Clone>(items: &[T], length: usize, with: &[T], name: &str) -> Result<Vec<T>> {
        if items.len() >= length {
            return Ok(items[..length].to_vec());
        }
        if with.is_empty() {
            return fail(format!("Third argument in {name}() cannot be empty"));
        }
        let padding = with.iter().cycle().take(length - items.len()).cloned();
        Ok(if name == "LPAD" {
            padding.chain(items.iter().cloned()).collect()
        } else {
            items.iter().cloned().chain(padding).collect()
        })
    }
    let text_pad: Vec<char> = match a.get(2) {
        Some(Value::String(s)) => s.chars().collect(),
        _ => vec![' '],
    };
    let byte_pad: Vec<u8> = match a.get(2) {
        Some(Value::Bytes(b)) => b.to_vec(),
        _ => vec![b' '],
    };
    on_both(
        &a[0],
        |c| fill(c, length, &text_pad, name),
        |b| fill(b, length, &byte_pad, name),
    )
}

#[derive(Clone, Copy)]
struct Sides {
    left: bool,
    right: bool,
}

fn trim(a: &[Value<'_>], sides: Sides) -> Answer {
    fn cut<T: Clone>(items: &[T], sides: Sides, drop: impl Fn(&T) -> bool) -> Vec<T> {
        let start = if sides.left {
            items.iter().position(|c| !drop(c)).unwrap_or(items.len())
        } else {
            0
        };
        let end = if sides.right {
            items
                .iter()
                .rposition(|c| !drop(c))
                .map_or(start, |i| i + 1)
        } else {
            items.len()
        };
        items[start..end.max(start)].to_vec()
    }
    match (&a[0], a.get(1)) {
        (Value::Bytes(b), Some(set)) => {
            let set = set.bytes()?;
            Ok(Value::binary(cut(b, sides, |c| set.contains(c))))
        }
        (value, set) => {
            let chars: Vec<char> = value.str()?.chars().collect();
            let set: Option<Vec<char>> = set
                .map(|s| s.str().map(|s| s.chars().collect()))
                .transpose()?;
            let kept = cut(&chars, sides, |c| match &set {
                Some(set) => set.contains(c),
                None => c.is_whitespace(),
            });
            Ok(Value::text(kept.into_iter().collect::<String>()))
        }
    }
}

fn search<T: PartialEq>(
    items: &[T],
    wanted: &[T],
    position: i64,
    occurrence: i64,
) -> Option<usize> {
    if wanted.is_empty() {
        return None;
    }
    let n = items.len();
    if position > 0 {
        let from = usize::try_from(position - 1).ok()?;
        let mut seen = 0;
        let mut at = from;
        while at + wanted.len() <= n {
            if items[at..at + wanted.len()] == *wanted {
                seen += 1;
                if seen == occurrence {
                    return Some(at + 1);
                }
            }
            at += 1;
        }
        None
    } else {
        // A negative position searches backwards from that character.
        let back = usize::try_from(position.unsigned_abs()).ok()?;
        let mut at = (n.checked_sub(back)? + 1).min(n.checked_sub(wanted.len())? + 1);
        let mut seen = 0;
        while at > 0 {
            at -= 1;
            if items[at..at + wanted.len()] == *wanted {
                seen += 1;
                if seen == occurrence {
                    return Some(at + 1);
                }
            }
        }
        None
    }
}

fn instr(a: &[Value<'_>]) -> Answer {
    let position = a.get(2).map_or(Ok(1), Value::int)?;
    let occurrence = a.get(3).map_or(Ok(1), Value::int)?;
    if position == 0 {
        return fail("Third argument in INSTR() must not be 0");
    }
    if occurrence < 1 {
        return fail("Fourth argument in INSTR() must be positive");
    }
    let found = match (&a[0], &a[1]) {
        (Value::Bytes(x), Value::Bytes(y)) => search(x, y, position, occurrence),
        (x, y) => {
            let x: Vec<char> = x.str()?.chars().collect();
            let y: Vec<char> = y.str()?.chars().collect();
            search(&x, &y, position, occurrence)
        }
    };
    Ok(Value::Int64(found.unwrap_or(0) as i64))
}

fn replace(a: &[Value<'_>]) -> Answer {
    Ok(match (&a[0], &a[1], &a[2]) {
        (Value::Bytes(x), Value::Bytes(from), Value::Bytes(to)) => {
            if from.is_empty() {
                return Ok(a[0].to_owned_value());
            }
            let mut out = Vec::with_capacity(x.len());
            let mut at = 0;
            while at < x.len() {
                if x[at..].starts_with(from) {
                    out.extend_from_slice(to);
                    at += from.len();
                } else {
                    out.push(x[at]);
                    at += 1;
                }
            }
            Value::binary(out)
        }
        (x, from, to) => match from.str()? {
            "" => x.to_owned_value(),
            from => Value::text(x.str()?.replace(from, to.str()?)),
        },
    })
}

fn repeat(a: &[Value<'_>]) -> Answer {
    let n = a[1].int()?;
    if n < 0 {
        return fail("Second argument in REPEAT() cannot be negative");
    }
    let length = super::pattern::byte_length(&a[0])?;
    if i128::from(n) * length as i128 > MAX_BYTES as i128 {
        return fail("Output of REPEAT exceeds max allowed output size of 1MB");
    }
    Ok(match &a[0] {
        _ if length == 0 => a[0].to_owned_value(),
        Value::Bytes(b) => Value::binary(b.repeat(n as usize)),
        other => Value::text(other.str()?.repeat(n as usize)),
    })
}

fn translate(a: &[Value<'_>]) -> Answer {
    fn map<T: PartialEq + Copy>(items: &[T], from: &[T], to: &[T]) -> Result<Vec<T>> {
        for (i, c) in from.iter().enumerate() {
            if from[..i].contains(c) {
                return fail("Duplicate character in TRANSLATE source characters");
            }
        }
        Ok(items
            .iter()
            .filter_map(|c| match from.iter().position(|f| f == c) {
                Some(i) => to.get(i).copied(),
                None => Some(*c),
            })
            .collect())
    }
    match (&a[0], &a[1], &a[2]) {
        (Value::Bytes(x), Value::Bytes(from), Value::Bytes(to)) => {
            map(x, from, to).map(Value::binary)
        }
        (x, from, to) => {
            let chars = |v: &Value<'_>| v.str().map(|s| s.chars().collect::<Vec<_>>());
            let out = map(&chars(x)?, &chars(from)?, &chars(to)?)?;
            Ok(Value::text(out.into_iter().collect::<String>()))
        }
    }
}

fn split(a: &[Value<'_>]) -> Answer {
    Ok(Value::Array(match (&a[0], a.get(1)) {
        (Value::Bytes(b), Some(delimiter)) => {
            let delimiter = delimiter.bytes()?;
            if delimiter.is_empty() {
                b.iter().map(|b| Value::binary(vec![*b])).collect()
            } else {
                let mut out = Vec::new();
                let mut piece = Vec::new();
                let mut at = 0;
                while at < b.len() {
                    if b[at..].starts_with(delimiter) {
                        out.push(Value::binary(std::mem::take(&mut piece)));
                        at += delimiter.len();
                    } else {
                        piece.push(b[at]);
                        at += 1;
                    }
                }
                out.push(Value::binary(piece));
                out
            }
        }
        (value, delimiter) => {
            let text = value.str()?;
            match delimiter.map_or(Ok(","), Value::str)? {
                _ if text.is_empty() => vec![Value::text("")],
                "" => text.chars().map(|c| Value::text(c.to_string())).collect(),
                delimiter => text.split(delimiter).map(Value::text).collect(),
            }
        }
    }))
}

/// CONCAT casts its arguments to STRING unless all are BYTES.
fn concat(binding: &super::value::Binding<'_>, a: &[Value<'_>]) -> Answer {
    if *binding.ret == SqlType::Bytes {
        let mut out = Vec::new();
        for v in a {
            out.extend_from_slice(v.bytes()?);
        }
        return Ok(Value::binary(out));
    }
    let mut out = String::new();
    for (v, t) in a.iter().zip(binding.args) {
        out.push_str(&cast::value_to_string(v, t, Zone::UTC)?);
    }
    Ok(Value::text(out))
}

fn starts_ends(a: &[Value<'_>], starts: bool) -> Answer {
    Ok(Value::Bool(match (&a[0], &a[1]) {
        (Value::Bytes(x), Value::Bytes(y)) => {
            if starts {
                x.starts_with(y)
            } else {
                x.ends_with(y)
            }
        }
        (x, y) => {
            let (x, y) = (x.str()?, y.str()?);
            if starts {
                x.starts_with(y)
            } else {
                x.ends_with(y)
            }
        }
    }))
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    let both: &[&'static str] = &["STRING -> STRING", "BYTES -> BYTES"];
    let count: &[&'static str] = &["STRING -> INT64", "BYTES -> INT64"];
    let cut: &[&'static str] = &[
        "STRING, INT64, INT64? -> STRING",
        "BYTES, INT64, INT64? -> BYTES",
    ];
    let ends: &[&'static str] = &["STRING, INT64 -> STRING", "BYTES, INT64 -> BYTES"];
    let trims: &[&'static str] = &["STRING, STRING? -> STRING", "BYTES, BYTES -> BYTES"];
    let pads: &[&'static str] = &[
        "STRING, INT64, STRING? -> STRING",
        "BYTES, INT64, BYTES? -> BYTES",
    ];
    let tests: &[&'static str] = &["STRING, STRING -> BOOL", "BYTES, BYTES -> BOOL"];
    let three: &[&'static str] = &[
        "STRING, STRING, STRING -> STRING",
        "BYTES, BYTES, BYTES -> BYTES",
    ];
    let length = |a: &[Value<'_>]| -> Answer {
        Ok(Value::Int64(match &a[0] {
            Value::Bytes(b) => b.len() as i64,
            other => other.str()?.chars().count() as i64,
        }))
    };
    let bytes = |a: &[Value<'_>]| -> Answer {
        super::pattern::byte_length(&a[0]).map(|n| Value::Int64(n as i64))
    };
    let chars =
        |a: &[Value<'_>]| -> Answer { Ok(Value::Int64(a[0].str()?.chars().count() as i64)) };
    vec![
        row("length", count, length),
        row("char_length", &["STRING -> INT64"], chars),
        row("character_length", &["STRING -> INT64"], chars),
        row("byte_length", count, bytes),
        row("octet_length", count, bytes),
        row("upper", both, |a| match &a[0] {
            Value::Bytes(b) => Ok(Value::binary(b.to_ascii_uppercase())),
            v => Ok(Value::text(v.str()?.to_uppercase())),
        }),
        row("lower", both, |a| match &a[0] {
            Value::Bytes(b) => Ok(Value::binary(b.to_ascii_lowercase())),
            v => Ok(Value::text(v.str()?.to_lowercase())),
        }),
        typed(
            "concat",
            &["BYTES... -> BYTES", "STRING... -> STRING"],
            concat,
        )
        .resolved_by(resolve_concat),
        row("substr", cut, substr_call),
        row("substring", cut, substr_call),
        row("left", ends, |a| side(a, "LEFT")),
        row("right", ends, |a| side(a, "RIGHT")),
        row("lpad", pads, |a| pad(a, "LPAD")),
        row("rpad", pads, |a| pad(a, "RPAD")),
        row("trim", trims, |a| {
            trim(
                a,
                Sides {
                    left: true,
                    right: true,
                },
            )
        }),
        row("ltrim", trims, |a| {
            trim(
                a,
                Sides {
                    left: true,
                    right: false,
                },
            )
        }),
        row("rtrim", trims, |a| {
            trim(
                a,
                Sides {
                    left: false,
                    right: true,
                },
            )
        }),
        row("starts_with", tests, |a| starts_ends(a, true)),
        row("ends_with", tests, |a| starts_ends(a, false)),
        row(
            "strpos",
            &["STRING, STRING -> INT64", "BYTES, BYTES -> INT64"],
            |a| {
                if super::pattern::byte_length(&a[1])? == 0 {
                    return Ok(Value::Int64(1));
                }
                instr(a)
            },
        ),
        row(
            "instr",
            &[
                "STRING, STRING, INT64?, INT64? -> INT64",
                "BYTES, BYTES, INT64?, INT64? -> INT64",
            ],
            instr,
        ),
        row("replace", three, replace),
        row(
            "repeat",
            &["STRING, INT64 -> STRING", "BYTES, INT64 -> BYTES"],
            repeat,
        ),
        row("reverse", both, |a| {
            on_both(
                &a[0],
                |c| Ok(c.iter().rev().copied().collect()),
                |b| Ok(b.iter().rev().copied().collect()),
            )
        }),
        row("translate", three, translate),
        row(
            "split",
            &[
                "STRING, STRING? -> ARRAY<STRING>",
                "BYTES, BYTES -> ARRAY<BYTES>",
            ],
            split,
        ),
    ]
}

fn resolve_concat(
    name: &str,
    args: &[super::signature::Argument],
) -> Result<super::signature::Resolved> {
    use super::signature::{Resolved, no_signature};
    if args.is_empty() {
        return no_signature(name, args, &[]);
    }
    let all_bytes = args
        .iter()
        .all(|a| matches!(a.sql_type, SqlType::Bytes | SqlType::Null))
        && args.iter().any(|a| a.sql_type == SqlType::Bytes);
    if all_bytes {
        return Ok(Resolved {
            args: vec![SqlType::Bytes; args.len()],
            ret: SqlType::Bytes,
        });
    }
    let types = args
        .iter()
        .map(|a| match &a.sql_type {
            SqlType::Null => Some(SqlType::String),
            SqlType::Bytes
            | SqlType::Array(_)
            | SqlType::Struct(_)
            | SqlType::Json
            | SqlType::Geography => None,
            t => Some(t.clone()),
        })
        .collect::<Option<Vec<_>>>();
    match types {
        Some(types) => Ok(Resolved {
            args: types,
            ret: SqlType::String,
        }),
        None => no_signature(name, args, &[]),
    }
}

#[cfg(test)]
#[path = "strings_tests.rs"]
mod tests;
