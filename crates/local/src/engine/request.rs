//! What a query job asks of the engine and what it gets back.

use arrow::array::RecordBatch;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::schema::{Field, TableSchema};
use crate::store::{DatasetRef, TableRef};

/// One query parameter. A positional parameter has no name.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryParameter {
    /// Name without `@`, or `None` for `?`.
    pub name: Option<String>,
    /// Type, as a nullable or repeated field.
    pub field: Field,
    /// The REST `parameterValue`: `value`, `arrayValues` or `structValues`.
    pub value: Value,
}

/// A script of one or more GoogleSQL statements.
#[derive(Debug, Clone)]
pub struct QueryRequest {
    /// Job project: where unqualified `dataset.table` names are looked up.
    pub project: String,
    /// Where unqualified `table` names are looked up.
    pub default_dataset: Option<DatasetRef>,
    /// GoogleSQL.
    pub sql: String,
    /// Named or positional parameters, never both.
    pub parameters: Vec<QueryParameter>,
    /// Plan and describe, change nothing, read nothing.
    pub dry_run: bool,
    /// Location of the job, for `region-xx` qualifiers.
    pub location: String,
    /// Once this is cancelled nothing more is read, and nothing is changed.
    pub cancel: CancellationToken,
}

/// Rows that a DML statement touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DmlStats {
    /// Inserted.
    pub inserted: u64,
    /// Updated.
    pub updated: u64,
    /// Deleted.
    pub deleted: u64,
}

/// What a DDL statement did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DdlOutcome {
    /// `CREATE`, `REPLACE`, `SKIP`, `DROP`, `ALTER`.
    pub operation: &'static str,
    /// The table or view it was about.
    pub table: Option<TableRef>,
    /// The dataset it was about.
    pub dataset: Option<DatasetRef>,
}

/// The result of one statement.
#[derive(Debug, Clone)]
pub struct StatementOutcome {
    /// The statement, for script child jobs.
    pub sql: String,
    /// As `statistics.query.statementType` prints it: `SELECT`, `INSERT`,
    /// `CREATE_TABLE_AS_SELECT`, `TRUNCATE_TABLE`, ….
    pub statement_type: &'static str,
    /// Result columns of a SELECT.
    pub schema: Option<TableSchema>,
    /// Result rows of a SELECT in the Arrow form of `schema`.
    pub batches: Vec<RecordBatch>,
    /// Counts of a DML statement.
    pub dml: Option<DmlStats>,
    /// What a DDL statement did.
    pub ddl: Option<DdlOutcome>,
    /// The table that a DML or DDL statement wrote, for
    /// `configuration.query.destinationTable`.
    pub target: Option<TableRef>,
    /// Tables read.
    pub referenced: Vec<TableRef>,
    /// Logical bytes of the columns read.
    pub bytes_processed: u64,
}

/// The result of a query job: one statement, or those of a script that ran.
#[derive(Debug, Clone)]
pub struct QueryOutcome {
    /// In order of execution; never empty. The job's result is that of the last
    /// statement that has one.
    pub statements: Vec<StatementOutcome>,
    /// Whether the job is a script (`statementType` SCRIPT with child jobs).
    pub script: bool,
}
