//! The place of a change in the order of changes of its key.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// Sections of a sequence number at most.
const MOST_SECTIONS: usize = 4;

/// Hexadecimal digits of a section at most, and of one that is printed.
const DIGITS: usize = 16;

/// A value of `_CHANGE_SEQUENCE_NUMBER`: one to four unsigned numbers of 64 bits.
///
/// They are compared number by number, the next one only where all before it are
/// equal. Where one sequence ends and the other goes on, the shorter one is less; the
/// service does not say how it decides there, so a table's sequences should all have
/// the same number of sections.
///
/// Read, sections have 1 to 16 hexadecimal digits of either case. Printed, each has
/// 16 digits in upper case, so that printed sequences of one length are ordered as
/// text too.
///
/// Source: BigQuery's documentation of change data capture, "Manage custom ordering".
///
/// ```
/// use datafusion_bigquery::cdc::ChangeSequence;
///
/// let one: ChangeSequence = "FFF/B".parse()?;
/// let other: ChangeSequence = "fff/abc".parse()?;
/// assert!(one < other);
/// assert_eq!(one.to_string(), "0000000000000FFF/000000000000000B");
/// # Ok::<(), datafusion_bigquery::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangeSequence {
    /// Those past `count` are zero.
    sections: [u64; MOST_SECTIONS],
    count: u8,
}

impl ChangeSequence {
    /// The sequence of these sections.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there are none or more than four.
    pub fn new(sections: &[u64]) -> Result<Self> {
        if sections.is_empty() || sections.len() > MOST_SECTIONS {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "a change sequence number has 1 to {MOST_SECTIONS} sections, not {}",
                    sections.len()
                ),
            ));
        }
        let mut own = [0; MOST_SECTIONS];
        own[..sections.len()].copy_from_slice(sections);
        let count = u8::try_from(sections.len()).expect("there are at most four sections");
        Ok(Self {
            sections: own,
            count,
        })
    }

    /// Its numbers, the most significant one first.
    pub fn sections(&self) -> &[u64] {
        &self.sections[..usize::from(self.count)]
    }
}

impl Ord for ChangeSequence {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.sections().cmp(other.sections())
    }
}

impl PartialOrd for ChangeSequence {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ChangeSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, section) in self.sections().iter().enumerate() {
            if position > 0 {
                f.write_str("/")?;
            }
            write!(f, "{section:0DIGITS$X}")?;
        }
        Ok(())
    }
}

impl FromStr for ChangeSequence {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "'{}' is no change sequence number: it has 1 to {MOST_SECTIONS} sections of 1 to \
                     {DIGITS} hexadecimal digits, with '/' between them",
                    text.chars().take(80).collect::<String>()
                ),
            )
        };
        let mut sections = [0; MOST_SECTIONS];
        let mut count = 0;
        for section in text.split('/') {
            let digits = !section.is_empty()
                && section.len() <= DIGITS
                && section.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !digits || count == MOST_SECTIONS {
                return Err(wrong());
            }
            sections[count] = u64::from_str_radix(section, 16).map_err(|_| wrong())?;
            count += 1;
        }
        Self::new(&sections[..count])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> ChangeSequence {
        text.parse().unwrap()
    }

    /// The documentation's examples.
    #[test]
    fn sections_are_numbers_and_not_text() {
        assert!(read("7B") > read("77"));
        assert!(read("FFF/ABC") > read("FFF/B"));
        assert!(read("FFF/ABC") > read("ABC"));
        assert!(read("ABC") > read("BA/FFFFFFFF"));
        assert_eq!(read("7b"), read("7B"));
        assert_eq!(read("0000000007B"), read("7B"));
        assert!(
            read("FFFFFFFFFFFFFFFF") > read("7FFFFFFFFFFFFFFF"),
            "unsigned"
        );
        assert!(read("1") < read("1/0"), "what goes on is greater");
    }

    #[test]
    fn what_is_no_sequence_is_refused() {
        for text in [
            "",
            "/",
            "1/",
            "/1",
            "1//2",
            "g",
            "xyz",
            "-1",
            "+1",
            " 1",
            "1 ",
            "0x1",
            "1/2/3/4/5",
            "12345678901234567",
            "1,2",
            "１",
        ] {
            let error = text.parse::<ChangeSequence>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text:?}");
            assert!(error.to_string().contains("sections"), "{error}");
        }
        assert!(ChangeSequence::new(&[]).is_err());
        assert!(ChangeSequence::new(&[1; 5]).is_err());
    }

    fn sections() -> impl Strategy<Value = Vec<u64>> {
        let section = prop_oneof![any::<u64>(), 0..3u64, Just(u64::MAX), Just(1 << 63)];
        prop::collection::vec(section, 1..=4)
    }

    proptest! {
        #[test]
        fn printing_and_reading_keep_it(sections in sections()) {
            let sequence = ChangeSequence::new(&sections).unwrap();
            prop_assert_eq!(sequence.sections(), &sections);
            let text = sequence.to_string();
            prop_assert_eq!(text.len(), sections.len() * 17 - 1);
            prop_assert_eq!(read(&text), sequence);
            prop_assert_eq!(read(&text.to_lowercase()), sequence);
        }

        #[test]
        fn printed_order_is_its_order(one in sections(), other in sections()) {
            let (one, other) = (ChangeSequence::new(&one).unwrap(), ChangeSequence::new(&other).unwrap());
            prop_assert_eq!(one.cmp(&other), one.sections().cmp(other.sections()));
            if one.sections().len() == other.sections().len() {
                prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
            }
        }
    }
}
