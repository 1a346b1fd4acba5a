//! Hashes, encodings and bits.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::scalar::{Definition, row};
use super::value::{Answer, Value, fail};
use crate::error::Result;

fn input<'a>(value: &'a Value<'_>) -> Result<&'a [u8]> {
    match value {
        Value::Bytes(b) => Ok(b),
        other => other.str().map(str::as_bytes),
    }
}

/// FROM_HEX.
pub(crate) fn from_hex(text: &str) -> Answer {
    let digits: Vec<u8> = text.bytes().collect();
    // An odd number of digits reads as if a zero came first.
    let padded: Vec<u8> = if digits.len() % 2 == 1 {
        std::iter::once(b'0').chain(digits).collect()
    } else {
        digits
    };
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let bytes: Option<Vec<u8>> = padded
        .chunks(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect();
    match bytes {
        Some(b) => Ok(Value::binary(b)),
        None => fail("Failed to decode invalid hexadecimal string due to character at position"),
    }
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// TO_BASE32.
pub(crate) fn to_base32(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let mut block = [0u8; 8];
        block[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(block);
        let digits = (chunk.len() * 8).div_ceil(5);
        for i in 0..8 {
            if i < digits {
                out.push(char::from(BASE32[(bits >> (35 - 5 * i) & 31) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// FROM_BASE32.
pub(crate) fn from_base32(text: &str) -> Answer {
    let invalid = || fail("Failed to decode invalid base32 string");
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(8) || text.len() - digits.len() > 6 {
        return invalid();
    }
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u64, 0);
    for b in digits.bytes() {
        let Some(value) = BASE32.iter().position(|c| *c == b.to_ascii_uppercase()) else {
            return invalid();
        };
        bits = bits << 5 | value as u64;
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Ok(Value::binary(out))
}

/// FROM_BASE64.
pub(crate) fn from_base64(text: &str) -> Answer {
    // Padding may be missing, and spaces do not count.
    let engine = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    match engine.decode(packed) {
        Ok(b) => Ok(Value::binary(b)),
        Err(_) => fail("Failed to decode invalid base64 string"),
    }
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    let both: &[&'static str] = &["STRING -> BYTES", "BYTES -> BYTES"];
    vec![
        row("md5", both, |a| {
            Ok(Value::binary(Md5::digest(input(&a[0])?).to_vec()))
        }),
        row("sha1", both, |a| {
            Ok(Value::binary(Sha1::digest(input(&a[0])?).to_vec()))
        }),
        row("sha256", both, |a| {
            Ok(Value::binary(Sha256::digest(input(&a[0])?).to_vec()))
        }),
        row("sha512", both, |a| {
            Ok(Value::binary(Sha512::digest(input(&a[0])?).to_vec()))
        }),
        row(
            "farm_fingerprint",
            &["STRING -> INT64", "BYTES -> INT64"],
            |a| Ok(Value::Int64(farmhash::fingerprint64(input(&a[0])?) as i64)),
        ),
        row("to_hex", &["BYTES -> STRING"], |a| {
            Ok(Value::text(
                a[0].bytes()?
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect::<String>(),
            ))
        }),
        row("from_hex", &["STRING -> BYTES"], |a| from_hex(a[0].str()?)),
        row("to_base64", &["BYTES -> STRING"], |a| {
            Ok(Value::text(STANDARD.encode(a[0].bytes()?)))
        }),
        row("from_base64", &["STRING -> BYTES"], |a| {
            from_base64(a[0].str()?)
        }),
        row("to_base32", &["BYTES -> STRING"], |a| {
            Ok(Value::text(to_base32(a[0].bytes()?)))
        }),
        row("from_base32", &["STRING -> BYTES"], |a| {
            from_base32(a[0].str()?)
        }),
        row("bit_count", &["INT64 -> INT64", "BYTES -> INT64"], |a| {
            Ok(Value::Int64(match &a[0] {
                Value::Bytes(b) => b.iter().map(|b| i64::from(b.count_ones())).sum(),
                other => i64::from(other.int()?.count_ones()),
            }))
        }),
        row("generate_uuid", &["-> STRING"], |_| {
            Ok(Value::text(uuid::Uuid::new_v4().to_string()))
        })
        .volatile(),
        row("error", &["STRING -> INT64"], |a| match &a[0] {
            Value::Null => fail("ERROR() was called"),
            message => fail(message.str()?.to_string()),
        })
        .seeing_nulls(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_round_trip() {
        for n in 0..12u8 {
            let bytes: Vec<u8> = (0..n).map(|i| i.wrapping_mul(37)).collect();
            let back = from_base32(&to_base32(&bytes)).unwrap();
            assert_eq!(back, Value::binary(bytes));
        }
        assert_eq!(to_base32(b"abcde\xff"), "MFRGGZDF74======");
        assert_eq!(from_hex("0fa").unwrap(), Value::binary(vec![0, 0xfa]));
        assert!(from_hex("zz").is_err());
        assert_eq!(
            from_base64("/+A=").unwrap(),
            Value::binary(vec![0xff, 0xe0])
        );
        assert!(from_base64("!").is_err());
        assert!(from_base32("MFRGG").is_err());
    }

    #[test]
    fn fingerprints_are_the_recorded_ones() {
        let f = |s: &str| farmhash::fingerprint64(s.as_bytes()) as i64;
        assert_eq!(f("hello"), -5_436_999_610_281_751_320);
        assert_eq!(f("a"), -5_528_939_962_900_187_677);
    }
}
