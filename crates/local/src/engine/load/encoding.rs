//! Bytes of a file as they come → bytes of its format: gzip, character encodings.

use std::borrow::Cow;
use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;

use super::{LoadFile, MAX_INPUT_BYTES, reading};
use crate::error::{Result, ServiceError};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The file's contents, decompressed when they begin like a gzip file.
pub(super) fn contents(file: &LoadFile) -> Result<Bytes> {
    if !file.data.starts_with(&GZIP_MAGIC) {
        return Ok(file.data.clone());
    }
    let mut out = Vec::new();
    let limit = u64::try_from(MAX_INPUT_BYTES).unwrap_or(u64::MAX);
    MultiGzDecoder::new(file.data.as_ref())
        .take(limit.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|e| reading(format_args!("Could not decompress gzip input: {e}")))?;
    if out.len() > MAX_INPUT_BYTES {
        return Err(reading(format_args!(
            "Decompressed input is larger than {MAX_INPUT_BYTES} bytes"
        )));
    }
    Ok(out.into())
}

/// The text in `encoding`, UTF-8 when nothing is said. What is no UTF-8 becomes the
/// replacement character, as the service does it; a byte order mark is left out.
pub(super) fn text<'a>(bytes: &'a [u8], encoding: Option<&str>) -> Result<Cow<'a, str>> {
    let normal = encoding.unwrap_or("UTF-8").to_ascii_uppercase();
    let text = match normal.replace('_', "-").as_str() {
        "" | "UTF-8" | "UTF8" => {
            String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
        }
        "ISO-8859-1" => Cow::Owned(bytes.iter().map(|b| char::from(*b)).collect()),
        "UTF-16BE" | "UTF-16-BE" => Cow::Owned(utf16(bytes, u16::from_be_bytes)),
        "UTF-16LE" | "UTF-16-LE" => Cow::Owned(utf16(bytes, u16::from_le_bytes)),
        "UTF-32BE" | "UTF-32-BE" => Cow::Owned(utf32(bytes, u32::from_be_bytes)),
        "UTF-32LE" | "UTF-32-LE" => Cow::Owned(utf32(bytes, u32::from_le_bytes)),
        _ => {
            return Err(ServiceError::invalid(format!(
                "Invalid value for encoding: {} is not a valid value",
                encoding.unwrap_or_default()
            )));
        }
    };
    Ok(text)
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes
        .chunks(2)
        .map(|c| <[u8; 2]>::try_from(c).map_or(0xfffd, unit));
    let text = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
    without_mark(text)
}

fn utf32(bytes: &[u8], unit: fn([u8; 4]) -> u32) -> String {
    let text = bytes.chunks(4).map(|c| {
        <[u8; 4]>::try_from(c)
            .ok()
            .and_then(|c| char::from_u32(unit(c)))
            .unwrap_or(char::REPLACEMENT_CHARACTER)
    });
    without_mark(text)
}

fn without_mark(text: impl Iterator<Item = char>) -> String {
    let mut text = text.peekable();
    text.next_if_eq(&'\u{feff}');
    text.collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(data: Vec<u8>) -> LoadFile {
        LoadFile {
            name: String::new(),
            data: data.into(),
        }
    }

    #[test]
    fn gzip_is_told_by_its_first_bytes() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(b"a,b\n").unwrap();
        let mut twice = gzip.finish().unwrap();
        twice.extend(twice.clone());
        assert_eq!(contents(&file(twice)).unwrap(), "a,b\na,b\n");
        assert_eq!(contents(&file(b"a".to_vec())).unwrap(), "a");
        assert!(contents(&file(vec![0x1f, 0x8b, 1, 2])).is_err());
    }

    #[test]
    fn encodings() {
        assert_eq!(text(b"\xef\xbb\xbfa", None).unwrap(), "a");
        assert_eq!(text(b"\xe4", Some("ISO-8859-1")).unwrap(), "ä");
        assert_eq!(text(b"\xff", Some("utf-8")).unwrap(), "\u{fffd}");
        assert_eq!(text(b"\xfe\xff\x00a", Some("UTF-16BE")).unwrap(), "a");
        assert_eq!(text(b"a\x00b", Some("UTF-16LE")).unwrap(), "a\u{fffd}");
        assert_eq!(text(b"a\0\0\0", Some("UTF-32LE")).unwrap(), "a");
        assert!(text(b"", Some("EBCDIC")).is_err());
    }
}
