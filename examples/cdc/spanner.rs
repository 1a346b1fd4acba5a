//! Spanner, by Debezium.
//!
//! A change's place is the commit time in nanoseconds, the record in its transaction and
//! the change in its record. Who reads a change stream without Debezium gives the same
//! three to `bigquery_sequence_spanner`.

use std::error::Error;

use super::replica::Replica;

pub(crate) async fn replicate(replica: &Replica) -> Result<(), Box<dyn Error>> {
    let sequence = "bigquery_sequence_debezium_spanner(source)";
    replica.apply("spanner.jsonl", sequence).await
}
