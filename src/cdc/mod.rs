//! Change data capture: rows that replace and delete rows by their key.
//!
//! A change has a type, UPSERT or DELETE, and may have a place in the order of the
//! changes of its key ([`ChangeSequence`]): BigQuery keeps the change with the
//! greatest one, whenever it arrives. [`profile`] makes these places of what
//! replication tools say of where a change was read, and [`functions`] of the same in
//! SQL. The table function `debezium_envelopes` reads changes off files of Debezium's
//! JSON.
//!
//! [`ChangeSinkBuilder`] makes the sink that writes changes to the default stream of a
//! table with a primary key. Rows of one key go through one connection, in order.

mod envelope;
pub mod functions;
#[cfg(test)]
mod history_tests;
mod key;
mod mark;
mod order;
pub mod profile;
mod rows;
mod sequence;
mod sink;
mod staleness;
mod statements;
mod upkeep;

pub(crate) use envelope::{DEBEZIUM_ENVELOPES, DebeziumEnvelopes};
pub(crate) use key::{
    CHANGE_SEQUENCE_NUMBER, CHANGE_TYPE, agreed, is_pseudocolumn, without_pseudocolumns,
};
pub(crate) use order::{KeepChangeOrder, keep as keep_order};
pub(crate) use rows::UNEVEN_MERGE;
pub use sequence::ChangeSequence;
pub use sink::ChangeSinkBuilder;
pub(crate) use sink::new_columns;
