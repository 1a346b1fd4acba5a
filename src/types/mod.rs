//! BigQuery's types as this library knows them, and their mappings.
//!
//! [`TableSchema`] is what `tables.get` says of a table's columns. Each
//! mapping has a file of its own: [`json`] reads the REST form, [`arrow`]
//! gives the Arrow form in which the Storage Read API delivers. Nothing here
//! does I/O.

pub mod arrow;
pub mod encode;
mod field;
pub mod json;
mod reference;

pub use field::{
    DecimalParameters, Field, FieldType, Mode, RangeElement, TableSchema, TimestampDigits,
};
pub use reference::{DatasetRef, TableRef};
