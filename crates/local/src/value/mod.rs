//! Values: text ⇄ typed scalars, Arrow arrays → REST text, JSON rows → Arrow.
//!
//! Everything here is pure. Spellings are GoogleSQL's unless a function says that
//! it reads what loads and inserts accept beyond that.
//!
//! | module | what |
//! |---|---|
//! | [`scalar`] | INT64, FLOAT64, BOOL, BYTES |
//! | [`civil`] | DATE, TIME, DATETIME |
//! | [`timestamp`] | TIMESTAMP and time zones |
//! | [`decimal`] | NUMERIC, BIGNUMERIC |
//! | [`interval`], [`range`] | INTERVAL, RANGE |
//! | [`json_text`] | JSON text, exactly |
//! | [`json`], [`geography`] | normal forms of JSON text and well-known text |
//! | [`text`] | any Arrow value as the text that REST answers carry |
//! | [`rows`] | record batches as REST rows |
//! | [`build`] | JSON rows as record batches |

pub mod build;
pub mod civil;
pub mod decimal;
mod error;
pub mod geography;
pub mod interval;
pub mod json;
pub mod json_text;
pub(crate) mod nested;
pub mod range;
pub mod rows;
pub mod scalar;
pub mod text;
pub mod timestamp;

pub use build::{JsonRowsBuilder, RowError, UnknownFields};
pub use error::ValueError;
pub use text::{TextOptions, TimestampText};

#[cfg(test)]
mod tests;
