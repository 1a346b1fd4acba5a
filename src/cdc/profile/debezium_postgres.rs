//! Debezium's connector for PostgreSQL.

use serde_json::Value;

use super::source::{SourceBlock, missing, number, refused};
use crate::cdc::ChangeSequence;
use crate::error::Result;

/// Orders changes by their places in the write-ahead log: the LSN of the commit before
/// the change's transaction, then the change's own.
///
/// `source.sequence` has both, as a JSON array of two texts. The first is null before
/// the first commit, in snapshots above all, and then counts as zero. `source.lsn`, if
/// it is there, must agree with the second.
///
/// The order holds for one replication slot: a slot that was made anew begins another
/// one, which the source does not tell apart.
///
/// Source: Debezium's documentation of the PostgreSQL connector, "sequence".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DebeziumPostgres;

impl DebeziumPostgres {
    /// The place of a change.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument): another connector, no
    /// `sequence` or one of another form, an `lsn` that disagrees with it.
    pub fn sequence(&self, source: &SourceBlock) -> Result<ChangeSequence> {
        source.must_be_of("postgresql")?;
        let said = source
            .text("sequence")?
            .ok_or_else(|| missing("sequence"))?;
        let wrong = || {
            refused(format!(
                "the source's 'sequence' must be an array of two LSNs such as [\"16\",\"17\"], \
                 whose first may be null, not '{}'",
                said.chars().take(80).collect::<String>()
            ))
        };
        let (committed, own) = match serde_json::from_str(&said) {
            Ok(Value::Array(values)) => match values.as_slice() {
                [Value::Null, Value::String(own)] => (0, own.clone()),
                [Value::String(committed), Value::String(own)] => (
                    number(committed, "the first LSN of the source's 'sequence'")?,
                    own.clone(),
                ),
                _ => return Err(wrong()),
            },
            Ok(_) | Err(_) => return Err(wrong()),
        };
        let own = number(&own, "the second LSN of the source's 'sequence'")?;
        if let Some(lsn) = source.number("lsn")?
            && lsn != own
        {
            return Err(refused(format!(
                "the source's 'lsn' is {lsn} and its 'sequence' says {own}: they must agree"
            )));
        }
        ChangeSequence::new(&[committed, own])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(json: &str) -> Result<String> {
        let source = SourceBlock::read(json)?;
        Ok(DebeziumPostgres.sequence(&source)?.to_string())
    }

    #[test]
    fn both_positions_are_kept() {
        assert_eq!(
            of(r#"{"connector":"postgresql","sequence":"[\"16\",\"17\"]","lsn":17}"#).unwrap(),
            "0000000000000010/0000000000000011"
        );
        assert_eq!(
            of(r#"{"connector":"postgresql","snapshot":"true","sequence":"[null,\"16\"]","lsn":16}"#)
                .unwrap(),
            "0000000000000000/0000000000000010"
        );
        assert_eq!(
            of(r#"{"connector":"postgresql","sequence":"[\"16\",\"17\"]","lsn":null}"#).unwrap(),
            "0000000000000010/0000000000000011",
            "the check needs an lsn"
        );
    }

    #[test]
    fn what_has_no_order_is_refused() {
        for (source, why) in [
            (
                r#"{"connector":"mysql","sequence":"[\"16\",\"17\"]"}"#,
                "connector is 'mysql'",
            ),
            (r#"{"sequence":"[\"16\",\"17\"]"}"#, "names no connector"),
            (
                r#"{"connector":"postgresql","ts_ms":1,"lsn":17}"#,
                "no 'sequence'",
            ),
            (
                r#"{"connector":"postgresql","sequence":"[\"16\",\"17\"]","lsn":18}"#,
                "must agree",
            ),
            (
                r#"{"connector":"postgresql","sequence":"[\"16\",null]"}"#,
                "two LSNs",
            ),
            (
                r#"{"connector":"postgresql","sequence":"[null,null]"}"#,
                "two LSNs",
            ),
            (
                r#"{"connector":"postgresql","sequence":"[16,17]"}"#,
                "two LSNs",
            ),
            (
                r#"{"connector":"postgresql","sequence":"[\"16\"]"}"#,
                "two LSNs",
            ),
            (
                r#"{"connector":"postgresql","sequence":"[\"1\",\"2\",\"3\"]"}"#,
                "two LSNs",
            ),
            (r#"{"connector":"postgresql","sequence":"16"}"#, "two LSNs"),
            (
                r#"{"connector":"postgresql","sequence":["16","17"]}"#,
                "single value",
            ),
            (
                r#"{"connector":"postgresql","sequence":"[\"-1\",\"17\"]"}"#,
                "first LSN",
            ),
            (
                r#"{"connector":"postgresql","sequence":"[\"1\",\"18446744073709551616\"]"}"#,
                "second LSN",
            ),
            (
                r#"{"connector":"postgresql","sequence":"[\"1\",\"0/16\"]"}"#,
                "second LSN",
            ),
            (r#"["postgresql"]"#, "JSON object"),
            ("", "JSON object"),
        ] {
            let error = of(source).unwrap_err();
            assert!(error.to_string().contains(why), "{source}: {error}");
        }
    }

    proptest! {
        /// Places in the log and sequences are ordered alike.
        #[test]
        fn the_order_is_the_logs(
            one in (any::<Option<u64>>(), any::<u64>()),
            other in (any::<Option<u64>>(), any::<u64>()),
        ) {
            let sequence = |(committed, own): (Option<u64>, u64)| {
                let committed = committed.map_or("null".to_string(), |c| format!("\\\"{c}\\\""));
                of(&format!(
                    r#"{{"connector":"postgresql","sequence":"[{committed},\"{own}\"]","lsn":"{own}"}}"#
                ))
                .unwrap()
            };
            let place = |(committed, own): (Option<u64>, u64)| (committed.unwrap_or(0), own);
            prop_assert_eq!(
                sequence(one).cmp(&sequence(other)),
                place(one).cmp(&place(other))
            );
        }
    }
}
