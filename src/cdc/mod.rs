//! Change data capture: rows that replace and delete rows by their key.
//!
//! A change has a type, UPSERT or DELETE, and may have a place in the order of the
//! changes of its key ([`ChangeSequence`]): BigQuery keeps the change with the
//! greatest one, whenever it arrives. [`profile`] makes these places of what
//! replication tools say of where a change was read.

pub mod profile;
mod sequence;

pub use sequence::ChangeSequence;
