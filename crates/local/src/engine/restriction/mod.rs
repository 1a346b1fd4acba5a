//! `row_restriction`: a GoogleSQL boolean expression over one table's columns.
//!
//! The steps, a module each: [`lexer`], [`parser`] (with [`operand`]) to the tree
//! of [`ast`]; [`bind`] to the typed tree of [`expr`]; [`eval`] over batches. This
//! is GoogleSQL's meaning, not that of the query engine: three-valued logic, NaN
//! that equals nothing, −0 that equals +0, exact decimals, `und:ci` columns.

mod arithmetic;
mod ast;
mod bind;
mod bounds;
mod call;
mod call_time;
mod cast;
mod coerce;
mod collation;
mod compare;
mod datum;
mod error;
mod escape;
mod eval;
mod expr;
mod interval;
mod json_path;
mod lexer;
mod like;
mod literal;
mod narrow;
mod number;
mod operand;
mod parser;
mod part;
mod set;
mod temporal;
mod text;
mod types;
mod wide;

#[cfg(test)]
mod tests;

use arrow::array::{BooleanArray, RecordBatch};

pub use bounds::Bound;

use crate::error::Result;
use crate::schema::TableSchema;
use crate::store::micros_now;

/// The service's limit on the text of a restriction.
pub const MAX_RESTRICTION_BYTES: usize = 1 << 20;

/// The pseudo columns of an ingestion-time partitioned table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PseudoColumns {
    /// None: any other table.
    None,
    /// `_PARTITIONTIME`.
    Time,
    /// `_PARTITIONTIME` and, on daily tables, `_PARTITIONDATE`.
    TimeAndDate,
}

/// A parsed and typed restriction.
#[derive(Debug)]
pub struct Restriction {
    condition: expr::Expr,
}

impl Restriction {
    /// Parses and types `text` over the columns of `schema`. The error is
    /// `INVALID_ARGUMENT` and says what is wrong at which line and column.
    pub fn parse(text: &str, schema: &TableSchema) -> Result<Self> {
        Self::parse_with(text, schema, PseudoColumns::None)
    }

    /// The same where pseudo columns may be named.
    pub fn parse_with(text: &str, schema: &TableSchema, pseudo: PseudoColumns) -> Result<Self> {
        let binder = bind::Binder {
            schema,
            pseudo,
            now: micros_now(),
        };
        parser::parse(text)
            .and_then(|node| binder.condition(&node))
            .map(|condition| Self { condition })
            .map_err(|e| e.in_text(text))
    }

    /// TRUE, FALSE or NULL for each row of `batch`, which has the Arrow form of
    /// the schema parsed with. A failure on a row (division by zero, overflow)
    /// fails the batch.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        self.evaluate_in(batch, None)
    }

    /// The same for rows of the ingestion-time partition that starts at `partition`
    /// (microseconds since the epoch).
    pub fn evaluate_in(&self, batch: &RecordBatch, partition: Option<i64>) -> Result<BooleanArray> {
        eval::Scope { batch, partition }.condition(&self.condition)
    }

    /// What can be said of the rows that pass, column by column: a row whose value of one
    /// of them lies outside does not.
    pub fn bounds(&self) -> Vec<Bound> {
        bounds::bounds(&self.condition)
    }

    /// Whether partitions of `column` can be left out because of this restriction.
    pub fn narrows(&self, column: &str, schema: &TableSchema) -> bool {
        narrow::narrows(&self.condition, column, schema)
    }
}
