//! Counts that a job reports.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::engine::{DdlOutcome, DmlStats};
use crate::schema::TableSchema;
use crate::store::TableRef;

/// The job-specific part of `statistics`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Statistics {
    /// Nothing to report (yet).
    None,
    /// Of a query job.
    Query(Box<QueryStatistics>),
    /// Of a load job.
    Load(LoadStatistics),
    /// Of a copy job.
    Copy(CopyStatistics),
    /// Of an extract job.
    Extract(ExtractStatistics),
}

/// `statistics.query`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct QueryStatistics {
    /// `SELECT`, `INSERT`, `SCRIPT`, …; `None` when the text could not be read.
    pub statement_type: Option<Cow<'static, str>>,
    /// Logical bytes read; `None` when the job failed before that was known.
    pub bytes_processed: Option<u64>,
    /// What would be paid for: see [`bytes_billed`].
    pub bytes_billed: u64,
    /// Whether the rows came from an earlier run.
    pub cache_hit: bool,
    /// Columns, where the service reports them (dry runs, CREATE TABLE).
    pub schema: Option<TableSchema>,
    /// What a DDL statement did.
    pub ddl: Option<DdlOutcome>,
    /// Counts of a DML statement.
    pub dml: Option<DmlStats>,
    /// Tables read.
    pub referenced: Vec<TableRef>,
}

/// `statistics.load`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoadStatistics {
    /// Number of files.
    pub input_files: u64,
    /// Their bytes as they came.
    pub input_file_bytes: u64,
    /// Rows loaded.
    pub output_rows: u64,
    /// Logical bytes of the rows loaded.
    pub output_bytes: u64,
    /// Records skipped.
    pub bad_records: u64,
}

/// `statistics.copy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CopyStatistics {
    /// Rows copied.
    pub copied_rows: u64,
    /// Logical bytes copied.
    pub copied_logical_bytes: u64,
}

/// `statistics.extract`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExtractStatistics {
    /// Files of each address.
    pub file_counts: Vec<u64>,
    /// Logical bytes of the rows.
    pub input_bytes: u64,
}

const MEBIBYTE: u64 = 1 << 20;

/// Bytes that on-demand pricing bills: whole mebibytes, and at least ten of them
/// for each table read (section 7 of the service reference; a recorded query over
/// 76 bytes of two tables was billed 20,971,520).
pub fn bytes_billed(processed: u64, tables: usize) -> u64 {
    if processed == 0 {
        return 0;
    }
    let whole = processed.div_ceil(MEBIBYTE).saturating_mul(MEBIBYTE);
    let tables = u64::try_from(tables).unwrap_or(u64::MAX).max(1);
    whole.max(tables.saturating_mul(10 * MEBIBYTE))
}

#[cfg(test)]
mod tests {
    use super::bytes_billed;

    #[test]
    fn billed_bytes_have_a_minimum_per_table() {
        assert_eq!(bytes_billed(0, 3), 0);
        assert_eq!(bytes_billed(23, 1), 10_485_760);
        assert_eq!(bytes_billed(76, 2), 20_971_520);
        assert_eq!(bytes_billed(10_485_761, 1), 11_534_336);
    }
}
