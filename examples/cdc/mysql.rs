//! MySQL, by Debezium.
//!
//! A change's place is its GTID with the event's position and the row. Each server counts
//! its own transactions, so the servers are named in the order in which they took over
//! from each other. When another one does, its UUID is appended to the list; a change of a
//! server that is not in it stops the statement.

use std::error::Error;

use super::replica::Replica;

pub(crate) async fn replicate(replica: &Replica) -> Result<(), Box<dyn Error>> {
    replica
        .run(
            "SET bigquery.sink.cdc.debezium_mysql.source_uuids =
               '24bc7850-2c16-11e6-a073-0242ac110002, 3e11fa47-71ca-11e1-9e33-c80aa9429562'",
        )
        .await?;
    let sequence = "bigquery_sequence_debezium_mysql(source)";
    replica.apply("mysql.jsonl", sequence).await
}
