//! TiDB, by TiCDC in Debezium's format.
//!
//! A change's place is the commit timestamp of its cluster. Timestamps of two clusters have
//! no common order, so the cluster is named, and a change of another one stops the
//! statement.

use std::error::Error;

use super::replica::Replica;

pub(crate) async fn replicate(replica: &Replica) -> Result<(), Box<dyn Error>> {
    replica
        .run("SET bigquery.sink.cdc.ticdc.cluster_id = 'main'")
        .await?;
    let sequence = "bigquery_sequence_ticdc(source)";
    replica.apply("tidb.jsonl", sequence).await
}
