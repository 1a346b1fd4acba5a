//! Objects and buckets: what is known of them, without a protocol.

use std::collections::BTreeMap;

use bytes::Bytes;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use super::content::Content;
use super::error::{GcsError, Kind, Result};

/// A bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BucketMeta {
    pub(crate) name: String,
    pub(crate) location: String,
    pub(crate) storage_class: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// Microseconds since the epoch.
    pub(crate) created: i64,
    pub(crate) updated: i64,
    pub(crate) metageneration: i64,
}

/// What a client says about an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Attributes {
    pub(crate) content_type: Option<String>,
    pub(crate) content_encoding: Option<String>,
    pub(crate) content_disposition: Option<String>,
    pub(crate) content_language: Option<String>,
    pub(crate) cache_control: Option<String>,
    pub(crate) storage_class: Option<String>,
    pub(crate) custom_time: Option<String>,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectMeta {
    pub(crate) name: String,
    pub(crate) generation: i64,
    pub(crate) metageneration: i64,
    pub(crate) size: u64,
    pub(crate) crc32c: u32,
    /// Composed objects have none.
    pub(crate) md5: Option<[u8; 16]>,
    /// Of a composed object.
    pub(crate) components: Option<u32>,
    /// Microseconds since the epoch.
    pub(crate) created: i64,
    pub(crate) updated: i64,
    pub(crate) attributes: Attributes,
    /// The upload in several requests that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) upload: Option<String>,
}

/// An object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) meta: ObjectMeta,
    pub(crate) content: Content,
}

impl ObjectMeta {
    /// The entity tag, with its quotes: the same in every answer about this
    /// generation.
    pub(crate) fn etag(&self) -> String {
        match &self.md5 {
            Some(md5) => format!("\"{}\"", hex(md5)),
            None => format!("\"-{:x}\"", self.generation),
        }
    }
}

/// Lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a String does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// What identifies bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) crc32c: u32,
    pub(crate) md5: [u8; 16],
}

impl Digests {
    pub(crate) fn of(data: &Bytes) -> Self {
        Self {
            crc32c: crc32c::crc32c(data),
            md5: Md5::digest(data).into(),
        }
    }
}

/// What a client says that the bytes of an upload are, in base64.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) crc32c: Option<String>,
    pub(crate) md5: Option<String>,
}

impl Expected {
    pub(crate) fn check(&self, digests: &Digests) -> Result<()> {
        let wrong = |kind: &str, said: &str, is: &str| {
            Err(GcsError::new(
                Kind::BadDigest,
                format!(
                    "Provided {kind} hash \"{said}\" doesn't match calculated {kind} hash \"{is}\"."
                ),
            ))
        };
        let crc32c = base64(&digests.crc32c.to_be_bytes());
        if let Some(said) = &self.crc32c
            && *said != crc32c
        {
            return wrong("CRC32C", said, &crc32c);
        }
        let md5 = base64(&digests.md5);
        if let Some(said) = &self.md5
            && *said != md5
        {
            return wrong("MD5", said, &md5);
        }
        Ok(())
    }
}

/// Padded base64 in the standard alphabet.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    crate::value::scalar::write_base64(bytes, &mut out);
    out
}

/// Refuses names that no object can have.
pub(crate) fn check_object_name(name: &str) -> Result<()> {
    let legal = !name.is_empty()
        && name.len() <= 1024
        && !name.contains(['\r', '\n'])
        && name != "."
        && name != ".."
        && !name.starts_with(".well-known/acme-challenge/");
    if legal {
        return Ok(());
    }
    Err(GcsError::invalid(format!(
        "Invalid object name of {} bytes: a name has 1 to 1024 bytes of UTF-8 without line breaks and is not . or ..",
        name.len()
    )))
}

/// Refuses names that no bucket can have.
pub(crate) fn check_bucket_name(name: &str) -> Result<()> {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = name.as_bytes();
    let longest = if name.contains('.') { 222 } else { 63 };
    let legal = (3..=longest).contains(&name.len())
        && edge(bytes.first().copied())
        && edge(bytes.last().copied())
        && bytes.iter().all(|b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.')
        })
        && name
            .split('.')
            .all(|part| !part.is_empty() && part.len() <= 63);
    if legal {
        return Ok(());
    }
    Err(GcsError::invalid(format!("Invalid bucket name: '{name}'")))
}

/// Conditions on the generation that an object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Conditions {
    pub(crate) generation: Option<i64>,
    pub(crate) not_generation: Option<i64>,
    pub(crate) metageneration: Option<i64>,
    pub(crate) not_metageneration: Option<i64>,
}

impl Conditions {
    /// For a change. Generation 0 is that of an object which is not there.
    pub(crate) fn check(&self, live: Option<&ObjectMeta>) -> Result<()> {
        let generation = live.map_or(0, |m| m.generation);
        let metageneration = live.map_or(0, |m| m.metageneration);
        let same = |wanted: Option<i64>, is: i64| wanted.is_none_or(|w| w == is);
        let other = |unwanted: Option<i64>, is: i64| unwanted.is_none_or(|u| u != is);
        let met = same(self.generation, generation)
            && other(self.not_generation, generation)
            && same(self.metageneration, metageneration)
            && other(self.not_metageneration, metageneration);
        if met {
            return Ok(());
        }
        Err(GcsError::new(
            Kind::Precondition,
            "At least one of the pre-conditions you specified did not hold.",
        ))
    }

    /// For a read: what the client has already is not sent again.
    pub(crate) fn check_read(&self, live: &ObjectMeta) -> Result<()> {
        let has = self.not_generation == Some(live.generation)
            || self.not_metageneration == Some(live.metageneration);
        let positive = Self {
            not_generation: None,
            not_metageneration: None,
            ..*self
        };
        positive.check(Some(live))?;
        if has {
            return Err(GcsError::new(Kind::NotModified, "Not modified."));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_known_bytes() {
        let digests = Digests::of(&Bytes::from_static(b"123456789"));
        assert_eq!(digests.crc32c, 0xe306_9283);
        assert_eq!(hex(&digests.md5), "25f9e794323b453885f5181f1b624d0b");
        let right = Expected {
            crc32c: Some("4waSgw==".into()),
            md5: Some("JfnnlDI7RTiF9RgfG2JNCw==".into()),
        };
        assert_eq!(right.check(&digests), Ok(()));
        let wrong = Expected {
            md5: Some("AAAA".into()),
            ..right
        };
        assert_eq!(wrong.check(&digests).unwrap_err().kind, Kind::BadDigest);
    }

    #[test]
    fn names() {
        for good in ["abc", "a-b_c", "a.b", "123"] {
            assert!(check_bucket_name(good).is_ok(), "{good}");
        }
        for bad in ["ab", "Abc", "-ab", "a..b", "a/b", "", "a b"] {
            assert!(check_bucket_name(bad).is_err(), "{bad}");
        }
        for good in ["a", "../../etc/passwd", "a//b/", "ü", " "] {
            assert!(check_object_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a\nb"] {
            assert!(check_object_name(bad).is_err(), "{bad}");
        }
        assert!(check_object_name(&"x".repeat(1025)).is_err());
    }
}
