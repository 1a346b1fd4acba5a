//! `multipart/related` bodies: a JSON part and a media part.

use axum::body::Bytes;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::error::{Result, ServiceError};

/// The two parts of an upload's body: the resource and the file. Parts may be of
/// any type; only their order matters.
pub(crate) fn parts(content_type: &str, body: &Bytes) -> Result<[Bytes; 2]> {
    let boundary = boundary(content_type)?;
    let malformed = |why: &str| ServiceError::invalid(format!("Malformed multipart body: {why}"));
    let delimiter = format!("--{boundary}");
    let mut found = Vec::new();
    let mut at = find(body, delimiter.as_bytes(), 0)
        .filter(|at| *at == 0 || body[at - 1] == b'\n')
        .ok_or_else(|| malformed("the boundary does not occur"))?;
    loop {
        at += delimiter.len();
        let rest = &body[at..];
        if rest.starts_with(b"--") {
            break;
        }
        at += line_end(rest).ok_or_else(|| malformed("a boundary line does not end"))?;
        let next = next_delimiter(body, delimiter.as_bytes(), at)
            .ok_or_else(|| malformed("the closing boundary is missing"))?;
        // The line break before a boundary belongs to it.
        let mut end = next;
        if end > at && body[end - 1] == b'\n' {
            end -= 1;
            if end > at && body[end - 1] == b'\r' {
                end -= 1;
            }
        }
        found.push(content(&body.slice(at..end))?);
        at = next;
    }
    <[Bytes; 2]>::try_from(found)
        .map_err(|found| malformed(&format!("{} parts instead of two", found.len())))
}

fn boundary(content_type: &str) -> Result<String> {
    let wrong = || {
        ServiceError::invalid(format!(
            "An upload of type multipart needs Content-Type multipart/related with a boundary, \
             not \"{content_type}\"."
        ))
    };
    let (kind, parameters) = content_type.split_once(';').ok_or_else(wrong)?;
    if !kind.trim().to_ascii_lowercase().starts_with("multipart/") {
        return Err(wrong());
    }
    let lower = parameters.to_ascii_lowercase();
    let at = lower.find("boundary=").ok_or_else(wrong)?;
    let value = &parameters[at + "boundary=".len()..];
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split(';').next().map(str::trim),
    };
    value
        .filter(|b| !b.is_empty() && b.len() <= 200)
        .map(str::to_string)
        .ok_or_else(wrong)
}

fn find(haystack: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let (first, rest) = (needle.first()?, haystack.get(from..)?);
    let mut at = 0;
    while let Some(step) = rest[at..].iter().position(|b| b == first) {
        at += step;
        if rest[at..].starts_with(needle) {
            return Some(from + at);
        }
        at += 1;
    }
    None
}

/// The next boundary that begins a line.
fn next_delimiter(body: &[u8], delimiter: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at = find(body, delimiter, at)?;
        if at == from || body[at - 1] == b'\n' {
            return Some(at);
        }
        at += 1;
    }
}

/// Length of the rest of a line with its end.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| *b == b'\n').map(|at| at + 1)
}

/// What follows a part's headers.
fn content(part: &Bytes) -> Result<Bytes> {
    let mut at = 0;
    let mut base64 = false;
    while let Some(length) = line_end(&part[at..]) {
        let line = part[at..at + length].trim_ascii();
        at += length;
        if line.is_empty() {
            let data = part.slice(at..);
            return if base64 { decoded(&data) } else { Ok(data) };
        }
        let line = line.to_ascii_lowercase();
        base64 |= line.starts_with(b"content-transfer-encoding:") && line.ends_with(b"base64");
    }
    if part[at..].trim_ascii().is_empty() {
        // Headers only: an empty part.
        return Ok(Bytes::new());
    }
    Err(ServiceError::invalid(
        "Malformed multipart body: a part has no empty line after its headers",
    ))
}

fn decoded(data: &Bytes) -> Result<Bytes> {
    let text: Vec<u8> = data
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    BASE64_STANDARD
        .decode(text)
        .map(Bytes::from)
        .map_err(|e| ServiceError::invalid(format!("Malformed multipart body: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, body: &str) -> Result<[String; 2]> {
        let parts = parts(content_type, &Bytes::copy_from_slice(body.as_bytes()))?;
        Ok(parts.map(|part| String::from_utf8(part.to_vec()).unwrap()))
    }

    const TYPE: &str = "multipart/related; boundary=\"===x===\"";

    #[test]
    fn two_parts_of_any_type() {
        let body = "--===x===\r\nContent-Type: application/json\r\n\r\n{}\r\n\
                    --===x===\r\nContent-Type: */*\r\n\r\na,b\n1,2\n\r\n--===x===--\r\n";
        assert_eq!(read(TYPE, body).unwrap(), ["{}", "a,b\n1,2\n"]);
        let plain = body.replace("===x===", "x").replace("\r\n", "\n");
        assert_eq!(
            read("Multipart/Related; Boundary=x; a=b", &plain).unwrap(),
            ["{}", "a,b\n1,2\n"]
        );
    }

    #[test]
    fn a_boundary_inside_a_line_is_data() {
        let body = "--x\n\n{}\n--x\n\nthis --x is data\n--x--";
        assert_eq!(
            read("multipart/related; boundary=x", body).unwrap(),
            ["{}", "this --x is data"]
        );
    }

    #[test]
    fn base64_parts_are_decoded_and_parts_may_be_empty() {
        let body = "--x\n\n{}\n--x\nContent-Transfer-Encoding: base64\n\nYSxi\n--x--";
        assert_eq!(
            read("multipart/related; boundary=x", body).unwrap(),
            ["{}", "a,b"]
        );
        let empty = "--x\n\n{}\n--x\nContent-Type: text/csv\n\n--x--";
        assert_eq!(
            read("multipart/related; boundary=x", empty).unwrap(),
            ["{}", ""]
        );
    }

    #[test]
    fn malformed_bodies_are_errors() {
        let good = "--x\n\n{}\n--x\n\na\n--x--";
        for content_type in [
            "application/json",
            "multipart/related",
            "multipart/related; boundary=",
        ] {
            assert!(read(content_type, good).is_err(), "{content_type}");
        }
        for cut in 0..good.len() - 2 {
            assert!(
                read("multipart/related; boundary=x", &good[..cut]).is_err(),
                "{cut}"
            );
        }
        let three = "--x\n\n1\n--x\n\n2\n--x\n\n3\n--x--";
        assert!(read("multipart/related; boundary=x", three).is_err());
    }
}
