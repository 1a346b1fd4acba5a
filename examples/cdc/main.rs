//! Replicates a table of another database into BigQuery from the changes that a
//! replication tool has recorded, and shows what the replica holds.
//!
//! Run it with `cargo run --example cdc -- postgres`, or with `mysql`, `tidb` or
//! `spanner`. The changes are the files of `examples/data/cdc`, and BigQuery is an
//! embedded one, so no account is needed. Each of the four programs is a module here;
//! `replica` is what they share.

mod mysql;
mod postgres;
mod replica;
mod spanner;
mod tidb;

use std::error::Error;

use replica::Replica;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let source = std::env::args().nth(1).unwrap_or_default();
    let replica = Replica::start().await?;
    match source.as_str() {
        "postgres" => postgres::replicate(&replica).await?,
        "mysql" => mysql::replicate(&replica).await?,
        "tidb" => tidb::replicate(&replica).await?,
        "spanner" => spanner::replicate(&replica).await?,
        other => {
            let known = "postgres, mysql, tidb or spanner";
            return Err(format!("say which database to replicate ({known}), not '{other}'").into());
        }
    }
    replica.customers().await?.show().await?;
    Ok(())
}
