//! BigQuery's types as this library knows them, and their mappings.
//!
//! [`TableSchema`] is what `tables.get` says of a table's columns. Each
//! mapping has a file of its own: [`json`] reads the REST form and [`json_write`]
//! writes it, [`arrow`] gives the Arrow form in which the Storage Read API delivers,
//! [`create`] the columns for Arrow data, and [`evolve`] what has to change of a
//! table so that it takes them. Nothing here does I/O.

pub mod arrow;
pub mod create;
pub mod encode;
pub mod evolve;
mod field;
pub mod json;
pub mod json_write;
mod lineage;
mod reference;

pub use field::{
    DecimalParameters, Field, FieldType, Mode, RangeElement, TableSchema, TimestampDigits,
};
pub use lineage::LineageDataset;
pub use reference::{DatasetRef, TableRef};
