//! The example programs of change data capture end in the right tables.

#[path = "../../examples/cdc/mysql.rs"]
mod mysql;
#[path = "../../examples/cdc/postgres.rs"]
mod postgres;
#[path = "../../examples/cdc/replica.rs"]
mod replica;
#[path = "../../examples/cdc/spanner.rs"]
mod spanner;
#[path = "../../examples/cdc/tidb.rs"]
mod tidb;

use replica::Replica;

use crate::harness::lines_of;

async fn customers(replica: &Replica) -> Vec<String> {
    let frame = replica.customers().await.unwrap();
    lines_of(&frame.collect().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_replicated() {
    let replica = Replica::start().await.unwrap();
    postgres::replicate(&replica).await.unwrap();
    assert_eq!(
        customers(&replica).await,
        [
            "1 Ada Berlin 10.500000000",
            "3 Cyd Rome 35.250000000",
            "5 Dee Oslo 40.000000000",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_replicated() {
    let replica = Replica::start().await.unwrap();
    mysql::replicate(&replica).await.unwrap();
    assert_eq!(
        customers(&replica).await,
        [
            "1 Ada Berlin 10.500000000",
            "2 Bob Nice 20.000000000",
            "3 Cyd Rome 30.000000000",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tidb_is_replicated() {
    let replica = Replica::start().await.unwrap();
    tidb::replicate(&replica).await.unwrap();
    assert_eq!(customers(&replica).await, ["1 Ada Berlin 10.500000000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn spanner_is_replicated() {
    let replica = Replica::start().await.unwrap();
    spanner::replicate(&replica).await.unwrap();
    assert_eq!(customers(&replica).await, ["1 Ada Berlin 10.500000000"]);
}
