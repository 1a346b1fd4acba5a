//! Records of a Spanner change stream, as its own interface gives them.

use super::source::{number, refused};
use crate::cdc::ChangeSequence;
use crate::error::Result;

/// Orders changes by their commit time in nanoseconds, the record's sequence in the
/// transaction and the change's number in the record.
///
/// Spanner gives different commit times to transactions that write the same columns of a
/// row. Two that write different columns of it may have the same one, and then what was
/// ingested last counts.
///
/// Source: Spanner's documentation of change streams, "Data change records".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spanner;

impl Spanner {
    /// The place of a change: the commit time in nanoseconds since the epoch, the
    /// record's `record_sequence` in decimal digits, and the change's position in its
    /// `mods`, from 0.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a time before the
    /// epoch or a record sequence that is no number.
    pub fn sequence(
        &self,
        committed_nanos: i64,
        record_sequence: &str,
        mod_number: i64,
    ) -> Result<ChangeSequence> {
        let committed = u64::try_from(committed_nanos).ok().filter(|at| *at > 0);
        let committed = committed.ok_or_else(|| {
            refused("the commit time must be after 1970-01-01, as those of Spanner are")
        })?;
        let record = number(record_sequence, "the record sequence")?;
        let change = u64::try_from(mod_number).map_err(|_| {
            refused(format!(
                "the mod number must be 0 or more, not {mod_number}"
            ))
        })?;
        ChangeSequence::new(&[committed, record, change])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_coordinates_are_kept() {
        let committed = chrono::DateTime::parse_from_rfc3339("2022-12-13T18:18:51.785Z")
            .unwrap()
            .timestamp_nanos_opt()
            .unwrap();
        for record in ["1", "00000001"] {
            let sequence = Spanner.sequence(committed, record, 0).unwrap();
            assert_eq!(
                sequence.to_string(),
                "17306D33FB84D440/0000000000000001/0000000000000000"
            );
        }
    }

    #[test]
    fn what_has_no_order_is_refused() {
        assert!(Spanner.sequence(0, "1", 0).is_err());
        assert!(Spanner.sequence(-1, "1", 0).is_err());
        assert!(Spanner.sequence(1, "", 0).is_err());
        assert!(Spanner.sequence(1, "0x1", 0).is_err());
        assert!(Spanner.sequence(1, "-1", 0).is_err());
        assert!(Spanner.sequence(1, "1", -1).is_err());
    }

    proptest! {
        #[test]
        fn the_order_is_the_streams(
            one in (1..=i64::MAX, any::<u64>(), 0..=i64::MAX),
            other in (1..=i64::MAX, any::<u64>(), 0..=i64::MAX),
        ) {
            let sequence = |(committed, record, change): (i64, u64, i64)| {
                Spanner.sequence(committed, &record.to_string(), change).unwrap()
            };
            prop_assert_eq!(sequence(one).cmp(&sequence(other)), one.cmp(&other));
        }
    }
}
