//! TiCDC's messages in Debezium's format.

use super::source::{SourceBlock, missing, refused};
use crate::cdc::ChangeSequence;
use crate::error::Result;

/// Orders changes by the commit timestamp of TiDB's timestamp oracle, whole: its
/// milliseconds alone would not tell apart what was committed within one.
///
/// The changes of one transaction have the same place. TiDB writes a key once in a
/// transaction; where TiCDC splits an update of a key in two, what was ingested last
/// counts.
///
/// Timestamps of different clusters have no common order, so the cluster can be said
/// whose changes are taken.
///
/// Source: TiDB's documentation of TiCDC's Debezium protocol, `commit_ts`, `cluster_id`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TiCdc {
    cluster: Option<String>,
}

impl TiCdc {
    /// The profile for changes of the cluster with this id, or of whichever they are.
    pub fn new(cluster: Option<String>) -> Self {
        Self { cluster }
    }

    /// The place of a change.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument): another connector or
    /// cluster, a snapshot, no `commit_ts` or one that is not above zero.
    pub fn sequence(&self, source: &SourceBlock) -> Result<ChangeSequence> {
        source.must_be_of("TiCDC")?;
        if let Some(cluster) = &self.cluster {
            let own = source
                .text("cluster_id")?
                .ok_or_else(|| missing("cluster_id"))?;
            if own != *cluster {
                return Err(refused(format!(
                    "the change is of cluster '{own}', and the option sink.cdc.ticdc.cluster_id is \
                     '{cluster}': timestamps of different clusters have no common order"
                )));
            }
        }
        if let Some(snapshot) = source.text("snapshot")?
            && snapshot != "false"
        {
            return Err(refused(format!(
                "the source's 'snapshot' is '{snapshot}', and TiCDC takes none"
            )));
        }
        let committed = source.needed("commit_ts")?;
        if committed == 0 {
            return Err(refused(
                "the source's 'commit_ts' is 0, which no commit has",
            ));
        }
        ChangeSequence::new(&[committed])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(json: &str) -> Result<String> {
        let source = SourceBlock::read(json)?;
        let profile = TiCdc::new(Some("main".to_string()));
        Ok(profile.sequence(&source)?.to_string())
    }

    fn committed(at: u64) -> String {
        of(&format!(
            r#"{{"connector":"TiCDC","snapshot":"false","cluster_id":"main","commit_ts":{at},"ts_ms":7}}"#
        ))
        .unwrap()
    }

    #[test]
    fn the_whole_timestamp_is_kept() {
        assert_eq!(committed(449_574_614_268_182_531), "063D35BACF7D0003");
        let anywhere = SourceBlock::read(r#"{"connector":"TiCDC","commit_ts":"16"}"#).unwrap();
        let sequence = TiCdc::default().sequence(&anywhere).unwrap();
        assert_eq!(sequence.to_string(), "0000000000000010");
    }

    #[test]
    fn what_has_no_order_is_refused() {
        for (source, why) in [
            (
                r#"{"connector":"mysql","cluster_id":"main","commit_ts":1}"#,
                "connector is 'mysql'",
            ),
            (
                r#"{"connector":"TiCDC","cluster_id":"other","commit_ts":1}"#,
                "cluster 'other'",
            ),
            (r#"{"connector":"TiCDC","commit_ts":1}"#, "no 'cluster_id'"),
            (
                r#"{"connector":"TiCDC","cluster_id":"main","ts_ms":1}"#,
                "no 'commit_ts'",
            ),
            (
                r#"{"connector":"TiCDC","cluster_id":"main","commit_ts":0}"#,
                "is 0",
            ),
            (
                r#"{"connector":"TiCDC","cluster_id":"main","commit_ts":-1}"#,
                "whole number",
            ),
            (
                r#"{"connector":"TiCDC","cluster_id":"main","commit_ts":1.5}"#,
                "whole number",
            ),
            (
                r#"{"connector":"TiCDC","cluster_id":"main","snapshot":"true","commit_ts":1}"#,
                "takes none",
            ),
        ] {
            let error = of(source).unwrap_err();
            assert!(error.to_string().contains(why), "{source}: {error}");
        }
    }

    proptest! {
        #[test]
        fn the_order_is_the_commits(one in 1..=u64::MAX, other in 1..=u64::MAX) {
            prop_assert_eq!(committed(one).cmp(&committed(other)), one.cmp(&other));
        }
    }
}
