//! LIKE patterns, and RE2's regular expressions on the `regex` crate.

use std::cell::RefCell;
use std::ops::Range;

use super::scalar::PlannedKernel;
use super::types::SqlType;
use super::value::{Value, fail};
use crate::error::{Result, ServiceError};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Piece<T> {
    Many,
    One,
    Exactly(T),
}

fn like_pieces<T: Copy + PartialEq>(
    pattern: impl Iterator<Item = T>,
    special: [T; 3],
) -> Result<Vec<Piece<T>>> {
    let [many, one, escape] = special;
    let mut pieces = Vec::new();
    let mut pattern = pattern;
    while let Some(c) = pattern.next() {
        pieces.push(if c == many {
            Piece::Many
        } else if c == one {
            Piece::One
        } else if c == escape {
            match pattern.next() {
                Some(c) => Piece::Exactly(c),
                None => return fail("LIKE pattern ends with a backslash"),
            }
        } else {
            Piece::Exactly(c)
        });
    }
    Ok(pieces)
}

fn like_matches<T: Copy + PartialEq>(text: &[T], pieces: &[Piece<T>]) -> bool {
    let (mut t, mut p) = (0, 0);
    // Where to go on when what follows the last `%` does not match.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pieces.get(p) {
            Some(Piece::Many) => {
                retry = Some((p, t));
                p += 1;
            }
            Some(Piece::One) => {
                t += 1;
                p += 1;
            }
            Some(Piece::Exactly(c)) if *c == text[t] => {
                t += 1;
                p += 1;
            }
            _ => match retry {
                Some((many, from)) => {
                    retry = Some((many, from + 1));
                    t = from + 1;
                    p = many + 1;
                }
                None => return false,
            },
        }
    }
    pieces[p..].iter().all(|piece| *piece == Piece::Many)
}

/// A pattern and its pieces.
type Last<P, T> = RefCell<Option<(P, Vec<Piece<T>>)>>;

/// The kernel of LIKE over values of a type, which keeps the pattern of the row
/// before.
pub(crate) fn like_kernel(of: &SqlType) -> Result<PlannedKernel> {
    if *of == SqlType::Bytes {
        let last: Last<Vec<u8>, u8> = RefCell::default();
        return Ok(Box::new(move |a| {
            let pattern = a[1].bytes()?;
            let mut last = last.borrow_mut();
            if last.as_ref().is_none_or(|(p, _)| p != pattern) {
                let pieces = like_pieces(pattern.iter().copied(), [b'%', b'_', b'\\'])?;
                *last = Some((pattern.to_vec(), pieces));
            }
            let pieces = last.as_ref().map_or(&[][..], |(_, p)| p);
            Ok(Value::Bool(like_matches(a[0].bytes()?, pieces)))
        }));
    }
    let last: Last<String, char> = RefCell::default();
    Ok(Box::new(move |a| {
        let pattern = a[1].str()?;
        let mut last = last.borrow_mut();
        if last.as_ref().is_none_or(|(p, _)| p != pattern) {
            let pieces = like_pieces(pattern.chars(), ['%', '_', '\\'])?;
            *last = Some((pattern.to_string(), pieces));
        }
        let pieces = last.as_ref().map_or(&[][..], |(_, p)| p);
        let text: Vec<char> = a[0].str()?.chars().collect();
        Ok(Value::Bool(like_matches(&text, pieces)))
    }))
}

/// A compiled regular expression over STRING or BYTES.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// Over text.
    Text(regex::Regex),
    /// Over bytes.
    Bytes(regex::bytes::Regex),
}

/// A match: the whole and every group.
pub(crate) type Groups = Vec<Option<Range<usize>>>;

impl Pattern {
    /// Compiles `pattern`, which searches values of its own type.
    pub(crate) fn compile(pattern: &Value<'_>) -> Result<Pattern> {
        let compiled = match pattern {
            Value::Bytes(b) => {
                let Ok(text) = std::str::from_utf8(b) else {
                    return Err(ServiceError::unsupported(
                        "A regular expression over BYTES that is not UTF-8",
                    ));
                };
                regex::bytes::RegexBuilder::new(&translate(text)?)
                    .unicode(false)
                    .build()
                    .map(Pattern::Bytes)
            }
            other => regex::Regex::new(&translate(other.str()?)?).map(Pattern::Text),
        };
        match compiled {
            Ok(p) => Ok(p),
            Err(e) => {
                let reason = match &e {
                    regex::Error::CompiledTooBig(_) => "pattern too large".to_string(),
                    e => e
                        .to_string()
                        .lines()
                        .last()
                        .unwrap_or_default()
                        .trim_start_matches("error: ")
                        .to_string(),
                };
                fail(format!("Cannot parse regular expression: {reason}"))
            }
        }
    }

    /// Capturing groups.
    pub(crate) fn groups(&self) -> usize {
        match self {
            Pattern::Text(r) => r.captures_len() - 1,
            Pattern::Bytes(r) => r.captures_len() - 1,
        }
    }

    /// The first match at or after byte `start` of the value.
    pub(crate) fn find_at(&self, value: &Value<'_>, start: usize) -> Result<Option<Groups>> {
        Ok(match self {
            Pattern::Text(r) => r
                .captures_at(value.str()?, start)
                .map(|c| c.iter().map(|m| m.map(|m| m.range())).collect()),
            Pattern::Bytes(r) => r
                .captures_at(value.bytes()?, start)
                .map(|c| c.iter().map(|m| m.map(|m| m.range())).collect()),
        })
    }

    /// Every match from byte `start` on; an empty match right after another one
    /// does not count.
    pub(crate) fn find_all(&self, value: &Value<'_>, start: usize) -> Result<Vec<Groups>> {
        let mut out = Vec::new();
        let mut at = start;
        let mut last_end = None;
        let length = byte_length(value)?;
        while at <= length {
            let Some(groups) = self.find_at(value, at)? else {
                break;
            };
            let Some(whole) = groups.first().cloned().flatten() else {
                break;
            };
            if whole.is_empty() {
                at = next_position(value, whole.end)?;
                if last_end == Some(whole.end) {
                    continue;
                }
            } else {
                at = whole.end;
            }
            last_end = Some(whole.end);
            out.push(groups);
        }
        Ok(out)
    }
}

/// Bytes of a STRING or BYTES.
pub(crate) fn byte_length(value: &Value<'_>) -> Result<usize> {
    match value {
        Value::Bytes(b) => Ok(b.len()),
        other => Ok(other.str()?.len()),
    }
}

/// The byte position after the character (or byte) at `at`.
fn next_position(value: &Value<'_>, at: usize) -> Result<usize> {
    Ok(match value {
        Value::Bytes(_) => at + 1,
        other => {
            let text = other.str()?;
            at + text[at..].chars().next().map_or(1, char::len_utf8)
        }
    })
}

/// Rewrites RE2's syntax where the `regex` crate reads it differently: Perl
/// classes are ASCII, brackets and set operators inside a class are literal, `{`
/// that starts no repetition is literal, `\Q…\E` quotes.
fn translate(pattern: &str) -> Result<String> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut i = 0;
    let mut class = false;
    let mut class_start = 0;
    while i < chars.len() {
        let c = chars[i];
        match c {
            '\\' => {
                let Some(&next) = chars.get(i + 1) else {
                    out.push('\\');
                    i += 1;
                    continue;
                };
                i += 2;
                let (set, negated) = match next {
                    'd' | 'D' => ("0-9", next == 'D'),
                    'w' | 'W' => ("0-9A-Za-z_", next == 'W'),
                    's' | 'S' => ("\\t\\n\\x0C\\r ", next == 'S'),
                    'b' if !class => {
                        out.push_str("(?-u:\\b)");
                        continue;
                    }
                    'B' if !class => {
                        return Err(ServiceError::unsupported("\\B in a regular expression"));
                    }
                    'Q' => {
                        while i < chars.len()
                            && !(chars[i] == '\\' && chars.get(i + 1) == Some(&'E'))
                        {
                            out.push_str(&regex::escape(&chars[i].to_string()));
                            i += 1;
                        }
                        i += 2;
                        continue;
                    }
                    _ => {
                        out.push('\\');
                        out.push(next);
                        continue;
                    }
                };
                match (class, negated) {
                    (true, false) => out.push_str(set),
                    (_, true) => out.push_str(&format!("[^{set}]")),
                    (false, false) => out.push_str(&format!("[{set}]")),
                }
                continue;
            }
            '[' if !class => {
                class = true;
                out.push('[');
                i += 1;
                if chars.get(i) == Some(&'^') {
                    out.push('^');
                    i += 1;
                }
                class_start = i;
                // A bracket right after the opening one is literal.
                if chars.get(i) == Some(&']') {
                    out.push_str("\\]");
                    i += 1;
                }
                continue;
            }
            '[' if class => {
                let rest: String = chars[i..].iter().collect();
                match rest.strip_prefix("[:").and_then(|r| r.find(":]")) {
                    Some(end) => {
                        let name: String = rest.chars().take(end + 4).collect();
                        out.push_str(&name);
                        i += end + 4;
                        continue;
                    }
                    None => out.push_str("\\["),
                }
            }
            ']' if class => {
                class = false;
                out.push(']');
            }
            '&' | '~' if class => {
                out.push('\\');
                out.push(c);
            }
            '-' if class && chars.get(i + 1) == Some(&'-') && i > class_start => {
                out.push_str("\\-")
            }
            '{' if !class => {
                let rest: String = chars[i + 1..].iter().take_while(|c| **c != '}').collect();
                let closed = chars[i + 1..].contains(&'}');
                let (low, high) = rest.split_once(',').unwrap_or((&rest, ""));
                let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
                if closed && !low.is_empty() && digits(low) && digits(high) {
                    out.push('{');
                } else {
                    out.push_str("\\{");
                }
            }
            c => out.push(c),
        }
        i += 1;
    }
    Ok(out)
}

thread_local! {
    static COMPILED: RefCell<Vec<(Value<'static>, Pattern)>> = const { RefCell::new(Vec::new()) };
}

/// Compiles a pattern, or finds it among the last few.
pub(crate) fn cached(pattern: &Value<'_>) -> Result<Pattern> {
    COMPILED.with(|cache| {
        let mut cache = cache.borrow_mut();
        if let Some(at) = cache.iter().position(|(p, _)| p == pattern) {
            return Ok(cache[at].1.clone());
        }
        let compiled = Pattern::compile(pattern)?;
        if cache.len() >= 16 {
            cache.remove(0);
        }
        cache.push((pattern.to_owned_value(), compiled.clone()));
        Ok(compiled)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(text: &str, pattern: &str) -> bool {
        let kernel = like_kernel(&SqlType::String).unwrap();
        kernel(&[Value::text(text), Value::text(pattern)]).unwrap() == Value::Bool(true)
    }

    #[test]
    fn like_patterns() {
        assert!(like("abc", "a%"));
        assert!(like("abcabd", "%ab_"));
        assert!(!like("abc", "_b"));
        assert!(like("50%", r"50\%"));
        assert!(!like("50x", r"50\%"));
        assert!(like("ä", "_"));
        assert!(like("", "%"));
        assert!(like("a\nb", "a%b"));
        let kernel = like_kernel(&SqlType::String).unwrap();
        assert!(kernel(&[Value::text("a"), Value::text("a\\")]).is_err());
    }

    fn find(pattern: &str, text: &str) -> Vec<String> {
        let p = Pattern::compile(&Value::text(pattern)).unwrap();
        let v = Value::text(text);
        p.find_all(&v, 0)
            .unwrap()
            .into_iter()
            .map(|g| text[g[0].clone().unwrap()].to_string())
            .collect()
    }

    #[test]
    fn re2_syntax() {
        assert_eq!(find(r"\d+", "1२3"), ["1", "3"]);
        assert_eq!(find(r"[\w]+", "aé_b"), ["a", "_b"]);
        assert_eq!(find(r"[^\s]+", "a b\u{a0}c"), ["a", "b\u{a0}c"]);
        assert_eq!(find(r"\Qa.b\E", "a.b axb"), ["a.b"]);
        assert_eq!(find(r"[[]", "a[b"), ["["]);
        assert_eq!(find(r"[a&&b]+", "a&b"), ["a&b"]);
        assert_eq!(find(r"a{,2}", "a{,2}"), ["a{,2}"]);
        assert_eq!(find(r"[[:alpha:]]+", "ab1"), ["ab"]);
        assert_eq!(find(r"a*", "baac"), ["", "aa", ""]);
        assert_eq!(find(r"[]a]+", "x]a"), ["]a"]);
        assert!(Pattern::compile(&Value::text("(")).is_err());
    }
}
