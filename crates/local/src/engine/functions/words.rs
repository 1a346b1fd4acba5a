//! Functions over the characters of text: case of words, sounds, code points,
//! normal forms, distances.

use unicode_normalization::UnicodeNormalization;

use super::scalar::{Definition, row};
use super::value::{Answer, Value, fail};
use crate::error::{Result, ServiceError};

fn initcap(a: &[Value<'_>]) -> Answer {
    const DELIMITERS: &str = "[](){}/|\\<>!?@\"^#$&~_,.:;*%+-";
    let set: Vec<char> = match a.get(1) {
        Some(s) => s.str()?.chars().collect(),
        None => DELIMITERS.chars().collect(),
    };
    let default = a.len() == 1;
    let mut start = true;
    let mut out = String::new();
    for c in a[0].str()?.chars() {
        if start {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        start = set.contains(&c) || (default && c.is_whitespace());
    }
    Ok(Value::text(out))
}

fn soundex(text: &str) -> String {
    fn code(c: char) -> Option<char> {
        Some(match c.to_ascii_uppercase() {
            'B' | 'F' | 'P' | 'V' => '1',
            'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => '2',
            'D' | 'T' => '3',
            'L' => '4',
            'M' | 'N' => '5',
            'R' => '6',
            _ => return None,
        })
    }
    let mut letters = text.chars().filter(char::is_ascii_alphabetic);
    let Some(first) = letters.next() else {
        return String::new();
    };
    let mut out = first.to_ascii_uppercase().to_string();
    let mut last = code(first);
    for c in letters {
        let digit = code(c);
        // H and W do not part two letters of one code; vowels do.
        if matches!(c.to_ascii_uppercase(), 'H' | 'W') {
            continue;
        }
        if let Some(d) = digit
            && digit != last
        {
            out.push(d);
            if out.len() == 4 {
                return out;
            }
        }
        last = digit;
    }
    while out.len() < 4 {
        out.push('0');
    }
    out
}

fn normalize(text: &str, mode: &str) -> Result<String> {
    Ok(match mode.to_ascii_uppercase().as_str() {
        "NFC" => text.nfc().collect(),
        "NFD" => text.nfd().collect(),
        "NFKC" => text.nfkc().collect(),
        "NFKD" => text.nfkd().collect(),
        other => return fail(format!("Invalid normalize mode: {other}")),
    })
}

fn edit_distance<T: PartialEq>(a: &[T], b: &[T], max: Option<i64>) -> i64 {
    let mut previous: Vec<i64> = (0..=b.len() as i64).collect();
    for (i, x) in a.iter().enumerate() {
        let mut current = vec![i as i64 + 1];
        for (j, y) in b.iter().enumerate() {
            let substitute = previous[j] + i64::from(x != y);
            current.push(substitute.min(previous[j + 1] + 1).min(current[j] + 1));
        }
        previous = current;
    }
    let distance = previous[b.len()];
    max.map_or(distance, |m| distance.min(m))
}

fn code_point(c: i64) -> Result<char> {
    match u32::try_from(c).ok().and_then(char::from_u32) {
        Some(c) => Ok(c),
        None => fail(format!("Invalid codepoint {c}")),
    }
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        row("initcap", &["STRING, STRING? -> STRING"], initcap),
        row("soundex", &["STRING -> STRING"], |a| {
            Ok(Value::text(soundex(a[0].str()?)))
        }),
        row("ascii", &["STRING -> INT64", "BYTES -> INT64"], |a| {
            let first = match &a[0] {
                Value::Bytes(b) => b.first().map(|b| u32::from(*b)),
                other => other.str()?.chars().next().map(u32::from),
            };
            match first {
                Some(c) if c < 128 => Ok(Value::Int64(i64::from(c))),
                Some(_) => fail("ASCII() argument's first character is not ASCII"),
                None => Ok(Value::Int64(0)),
            }
        }),
        row("unicode", &["STRING -> INT64"], |a| {
            Ok(Value::Int64(
                a[0].str()?
                    .chars()
                    .next()
                    .map_or(0, |c| i64::from(u32::from(c))),
            ))
        }),
        row("chr", &["INT64 -> STRING"], |a| {
            Ok(Value::text(match a[0].int()? {
                0 => String::new(),
                c => code_point(c)?.to_string(),
            }))
        }),
        row(
            "to_code_points",
            &["STRING -> ARRAY<INT64>", "BYTES -> ARRAY<INT64>"],
            |a| {
                Ok(Value::Array(match &a[0] {
                    Value::Bytes(b) => b.iter().map(|b| Value::Int64(i64::from(*b))).collect(),
                    other => other
                        .str()?
                        .chars()
                        .map(|c| Value::Int64(i64::from(u32::from(c))))
                        .collect(),
                }))
            },
        ),
        row("code_points_to_string", &["ARRAY<INT64> -> STRING"], |a| {
            let items = a[0].array()?;
            if items.iter().any(Value::is_null) {
                return Ok(Value::Null);
            }
            Ok(Value::text(
                items
                    .iter()
                    .map(|v| code_point(v.int()?))
                    .collect::<Result<String>>()?,
            ))
        }),
        row("code_points_to_bytes", &["ARRAY<INT64> -> BYTES"], |a| {
            let items = a[0].array()?;
            if items.iter().any(Value::is_null) {
                return Ok(Value::Null);
            }
            Ok(Value::binary(
                items
                    .iter()
                    .map(|v| {
                        let c = v.int()?;
                        u8::try_from(c).map_err(|_| {
                            ServiceError::invalid_query(format!(
                                "Invalid extended ASCII codepoint {c}"
                            ))
                        })
                    })
                    .collect::<Result<Vec<u8>>>()?,
            ))
        }),
        row("normalize", &["STRING, STRING? -> STRING"], |a| {
            let mode = a.get(1).map_or(Ok("NFC"), Value::str)?;
            normalize(a[0].str()?, mode).map(Value::text)
        }),
        row(
            "normalize_and_casefold",
            &["STRING, STRING? -> STRING"],
            |a| {
                let mode = a.get(1).map_or(Ok("NFC"), Value::str)?;
                let folded: String =
                    caseless::default_case_fold_str(&normalize(a[0].str()?, mode)?);
                normalize(&folded, mode).map(Value::text)
            },
        ),
        row("safe_convert_bytes_to_string", &["BYTES -> STRING"], |a| {
            Ok(Value::text(String::from_utf8_lossy(a[0].bytes()?)))
        }),
        row(
            "edit_distance",
            &[
                "STRING, STRING, INT64? -> INT64",
                "BYTES, BYTES, INT64? -> INT64",
            ],
            |a| {
                let max = a.get(2).map(Value::int).transpose()?;
                if max.is_some_and(|m| m < 0) {
                    return fail("EDIT_DISTANCE max_distance must be non-negative");
                }
                Ok(Value::Int64(match (&a[0], &a[1]) {
                    (Value::Bytes(x), Value::Bytes(y)) => edit_distance(x, y, max),
                    (x, y) => {
                        let x: Vec<char> = x.str()?.chars().collect();
                        let y: Vec<char> = y.str()?.chars().collect();
                        edit_distance(&x, &y, max)
                    }
                }))
            },
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
    fn words_and_sounds() {
        assert_eq!(
            initcap(&[s("hELLO wOrld-foo")]).unwrap(),
            s("Hello World-Foo")
        );
        assert_eq!(soundex("Ashcraft"), "A261");
        assert_eq!(soundex("Tymczak"), "T522");
        assert_eq!(soundex(""), "");
        assert_eq!(edit_distance(b"kitten", b"sitting", None), 3);
        assert_eq!(edit_distance(b"kitten", b"sitting", Some(2)), 2);
        assert_eq!(normalize("e\u{301}", "nfc").unwrap(), "é");
        assert!(normalize("e", "x").is_err());
        assert!(code_point(0xd800).is_err());
    }
}
