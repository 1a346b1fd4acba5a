//! Rows that are changes: what the pseudocolumns of change data capture say.
//!
//! Source: BigQuery's documentation of change data capture with the Storage Write API.

use crate::store::Sequence;

/// `UPSERT` or `DELETE`.
pub(super) const CHANGE_TYPE: &str = "_CHANGE_TYPE";
/// One to four hexadecimal numbers with `/` between them.
pub(super) const CHANGE_SEQUENCE: &str = "_CHANGE_SEQUENCE_NUMBER";

/// Whether rows of a connection are changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    /// They are added.
    Insert,
    /// They replace or delete rows by their key.
    Change,
}

/// What the service says of anything that is no change type where one has to be.
pub(super) const NOT_A_CHANGE_TYPE: &str = "The given value is not a valid CHANGE_TYPE";

/// The changes of a request, row by row.
#[derive(Debug, Default)]
pub(super) struct RowChanges {
    pub(super) deleted: Vec<bool>,
    pub(super) sequences: Vec<Sequence>,
}

/// Whether the name is that of a pseudocolumn.
pub(super) fn is_pseudocolumn(name: &str) -> bool {
    [CHANGE_TYPE, CHANGE_SEQUENCE]
        .iter()
        .any(|pseudo| name.eq_ignore_ascii_case(pseudo))
}

/// Whether a change deletes.
pub(super) fn deletes(change_type: Option<&[u8]>) -> Result<bool, String> {
    match change_type {
        Some(b"UPSERT") => Ok(false),
        Some(b"DELETE") => Ok(true),
        Some(other) => Err(format!(
            "{NOT_A_CHANGE_TYPE}: {}",
            String::from_utf8_lossy(other)
        )),
        None => Err(format!(
            "{NOT_A_CHANGE_TYPE}: Field {CHANGE_TYPE} has no value."
        )),
    }
}

/// The place that a sequence number gives: its sections as unsigned numbers, the most
/// significant byte first, so that bytes are compared as the numbers are and what has
/// more sections is greater than its beginning.
pub(super) fn sequence(number: &[u8]) -> Result<Sequence, String> {
    let wrong = || {
        format!(
            "The given value is not a valid {CHANGE_SEQUENCE}: {}",
            String::from_utf8_lossy(number)
        )
    };
    let text = std::str::from_utf8(number).map_err(|_| wrong())?;
    let sections: Vec<&str> = text.split('/').collect();
    if sections.len() > 4 {
        return Err(wrong());
    }
    let mut bytes = Vec::with_capacity(8 * sections.len());
    for section in sections {
        let digits = (1..=16).contains(&section.len())
            && section.bytes().all(|digit| digit.is_ascii_hexdigit());
        let value = u64::from_str_radix(section, 16).ok().filter(|_| digits);
        bytes.extend_from_slice(&value.ok_or_else(wrong)?.to_be_bytes());
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: &str) -> Sequence {
        sequence(number.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_are_compared_section_by_section() {
        assert!(place("7B") > place("77"));
        assert!(place("FFF/ABC") > place("FFF/B"));
        assert!(place("FFF/ABC") > place("ABC"));
        assert!(place("ABC") > place("BA/FFFFFFFF"));
        assert!(place("FFFFFFFFFFFFFFFF") > place("7FFFFFFFFFFFFFFF"));
        assert_eq!(place("7b"), place("000000000000007B"));
        assert!(place("1/0") > place("1"));
        assert!(place("0") > Sequence::default(), "none at all is the least");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            "/",
            "1/",
            "xyz",
            "1/2/3/4/5",
            "12345678901234567",
            "-1",
            "+1",
            " 1",
        ] {
            assert!(sequence(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(sequence(&[0xff]).is_err());
    }

    #[test]
    fn change_types_are_written_as_they_are() {
        assert_eq!(deletes(Some(b"UPSERT")), Ok(false));
        assert_eq!(deletes(Some(b"DELETE")), Ok(true));
        for wrong in [Some(b"MERGE".as_slice()), Some(b"upsert"), Some(b""), None] {
            let error = deletes(wrong).unwrap_err();
            assert!(error.starts_with(NOT_A_CHANGE_TYPE), "{error}");
        }
    }
}
