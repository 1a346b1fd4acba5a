//! Escape sequences of string, bytes and identifier literals.

/// Length of a literal's body up to `delimiter`, where a backslash always takes
/// the next byte with it; `None` when it never ends.
pub(super) fn length(body: &[u8], delimiter: &[u8]) -> Option<usize> {
    let mut i = 0;
    while i < body.len() {
        if body[i] == b'\\' {
            i += 2;
        } else if body[i..].starts_with(delimiter) {
            return Some(i);
        } else {
            i += 1;
        }
    }
    None
}

/// Unescapes a string or identifier literal.
pub(super) fn text(raw: &str) -> Result<String, String> {
    let mut out = String::with_capacity(raw.len());
    walk(raw, |piece| {
        match piece {
            Piece::Char(c) | Piece::Unicode(c) => out.push(c),
            Piece::Byte(b) => out.push(char::from(b)),
        }
        Ok(())
    })?;
    Ok(out)
}

/// Unescapes a bytes literal.
pub(super) fn bytes(raw: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(raw.len());
    walk(raw, |piece| {
        match piece {
            Piece::Char(c) => {
                let mut buffer = [0; 4];
                out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            }
            Piece::Byte(b) => out.push(b),
            Piece::Unicode(_) => {
                return Err(
                    "Syntax error: Illegal escape sequence: Unicode escapes cannot be used in bytes literals"
                        .to_string(),
                );
            }
        }
        Ok(())
    })?;
    Ok(out)
}

enum Piece {
    Char(char),
    /// `\x41`, `\101`: a code point in text, a byte in bytes.
    Byte(u8),
    Unicode(char),
}

fn walk(raw: &str, mut found: impl FnMut(Piece) -> Result<(), String>) -> Result<(), String> {
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            found(Piece::Char(c))?;
            continue;
        }
        let Some(kind) = rest.chars().next() else {
            return Err("Syntax error: Illegal escape sequence: \\".to_string());
        };
        let illegal = || format!("Syntax error: Illegal escape sequence: \\{kind}");
        let mut take = |skip: usize, digits: usize, radix: u32| {
            let text = rest.get(skip..skip + digits).filter(|t| t.is_ascii())?;
            let valid = text.chars().all(|d| d.is_digit(radix));
            let value = u32::from_str_radix(text, radix).ok().filter(|_| valid)?;
            rest = &rest[skip + digits..];
            Some(value)
        };
        let piece = match kind {
            'x' | 'X' => Piece::Byte(
                take(1, 2, 16)
                    .and_then(|v| u8::try_from(v).ok())
                    .ok_or_else(illegal)?,
            ),
            '0'..='3' => Piece::Byte(
                take(0, 3, 8)
                    .and_then(|v| u8::try_from(v).ok())
                    .ok_or_else(illegal)?,
            ),
            'u' => Piece::Unicode(
                take(1, 4, 16)
                    .and_then(char::from_u32)
                    .ok_or_else(illegal)?,
            ),
            'U' => Piece::Unicode(
                take(1, 8, 16)
                    .and_then(char::from_u32)
                    .ok_or_else(illegal)?,
            ),
            _ => {
                let plain = match kind {
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\u{b}',
                    '\\' | '?' | '"' | '\'' | '`' => kind,
                    _ => return Err(illegal()),
                };
                rest = &rest[kind.len_utf8()..];
                Piece::Char(plain)
            }
        };
        found(piece)?;
    }
    Ok(())
}
