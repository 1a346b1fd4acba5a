//! Change sequences of what replication tools say of their sources.
//!
//! Each profile is a pure function of a change's source block. A change whose place
//! among the others of its source cannot be told from it is refused: the time at
//! which a change was read or written, in milliseconds, is never taken for its place,
//! because two changes of one key can have the same one.
//!
//! | profile | sections |
//! |---|---|
//! | [`DebeziumPostgres`] | last committed LSN, LSN |
//! | [`DebeziumMySql`] | number of the source UUID, GTID's transaction, binlog position, row |
//! | [`DebeziumSpanner`], [`Spanner`] | commit time in nanoseconds, record sequence, mod number |
//! | [`TiCdc`] | commit timestamp |

mod debezium_mysql;
mod debezium_postgres;
mod debezium_spanner;
mod source;
mod spanner;
mod ticdc;

pub use debezium_mysql::DebeziumMySql;
pub use debezium_postgres::DebeziumPostgres;
pub use debezium_spanner::DebeziumSpanner;
pub use source::SourceBlock;
pub use spanner::Spanner;
pub use ticdc::TiCdc;
