//! PostgreSQL, by Debezium.
//!
//! A change's place is where it stands in the write-ahead log: the position of the commit
//! before its transaction, and its own. Both are in `source.sequence`.

use std::error::Error;

use super::replica::Replica;

pub(crate) async fn replicate(replica: &Replica) -> Result<(), Box<dyn Error>> {
    let sequence = "bigquery_sequence_debezium_postgres(source)";
    replica.apply("postgres.jsonl", sequence).await?;
    // A connector that starts again sends changes again, which does no harm.
    replica.apply("postgres.jsonl", sequence).await
}
