//! Debezium's connector for Spanner.

use super::source::{SourceBlock, missing, refused};
use super::spanner::Spanner;
use crate::cdc::ChangeSequence;
use crate::error::Result;

/// Orders changes as [`Spanner`] does, by `ts_ns`, `sequence` and `mod_number` of the
/// source block.
///
/// The connector also writes stamps of its low watermark, which are no changes: they
/// have no sequence and no mod number, and their time is the connector's own.
///
/// Source: Debezium's documentation of the Spanner connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DebeziumSpanner;

impl DebeziumSpanner {
    /// The place of a change.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument): another connector, a
    /// stamp of the low watermark, no commit time in nanoseconds.
    pub fn sequence(&self, source: &SourceBlock) -> Result<ChangeSequence> {
        source.must_be_of("spanner")?;
        let record = source.text("sequence")?;
        let change = source.number("mod_number")?;
        let (record, change) = match (record, change) {
            (Some(record), Some(change)) => (record, change),
            (None, None) if source.text("low_watermark")?.is_some() => {
                return Err(refused(
                    "the record is a stamp of the low watermark and no change: leave the connector's \
                     gcp.spanner.low-watermark.enabled off, or filter operation 'm' out",
                ));
            }
            (None, _) => return Err(missing("sequence")),
            (Some(_), None) => return Err(missing("mod_number")),
        };
        let wide = |what: &str| refused(format!("the source's '{what}' is out of range"));
        let committed = i64::try_from(source.needed("ts_ns")?).map_err(|_| wide("ts_ns"))?;
        let change = i64::try_from(change).map_err(|_| wide("mod_number"))?;
        Spanner.sequence(committed, &record, change)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(json: &str) -> Result<String> {
        let source = SourceBlock::read(json)?;
        Ok(DebeziumSpanner.sequence(&source)?.to_string())
    }

    #[test]
    fn it_agrees_with_the_stream_itself() {
        assert_eq!(
            of(r#"{"connector":"spanner","ts_ns":1670955531785000000,"ts_ms":1670955531785,"sequence":"1","mod_number":"0","low_watermark":1670955531000}"#)
                .unwrap(),
            "17306D33FB84D440/0000000000000001/0000000000000000"
        );
    }

    #[test]
    fn what_has_no_order_is_refused() {
        for (source, why) in [
            (
                r#"{"connector":"mysql","ts_ns":1,"sequence":1,"mod_number":0}"#,
                "connector is",
            ),
            (
                r#"{"connector":"spanner","ts_ms":1,"sequence":1,"mod_number":0}"#,
                "no 'ts_ns'",
            ),
            (
                r#"{"connector":"spanner","ts_ns":1,"mod_number":0}"#,
                "no 'sequence'",
            ),
            (
                r#"{"connector":"spanner","ts_ns":1,"sequence":1}"#,
                "no 'mod_number'",
            ),
            (
                r#"{"connector":"spanner","ts_ns":1,"low_watermark":1}"#,
                "low watermark",
            ),
            (
                r#"{"connector":"spanner","ts_ns":0,"sequence":1,"mod_number":0}"#,
                "commit time",
            ),
            (
                r#"{"connector":"spanner","ts_ns":1,"sequence":"a","mod_number":0}"#,
                "record sequence",
            ),
            (
                r#"{"connector":"spanner","ts_ns":18446744073709551615,"sequence":1,"mod_number":0}"#,
                "out of range",
            ),
        ] {
            let error = of(source).unwrap_err();
            assert!(error.to_string().contains(why), "{source}: {error}");
        }
    }

    proptest! {
        #[test]
        fn the_order_is_the_streams(
            one in (1..=i64::MAX, any::<u64>(), 0..=i64::MAX),
            other in (1..=i64::MAX, any::<u64>(), 0..=i64::MAX),
        ) {
            let sequence = |(committed, record, change): (i64, u64, i64)| {
                of(&format!(
                    r#"{{"connector":"spanner","ts_ns":{committed},"sequence":"{record}","mod_number":"{change}"}}"#
                ))
                .unwrap()
            };
            prop_assert_eq!(sequence(one).cmp(&sequence(other)), one.cmp(&other));
        }
    }
}
