//! What a query job asks of the engine and what it gets back.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::error::{Result, ServiceError};
use crate::schema::{Field, TableSchema};
use crate::store::{DatasetRef, Mutation, TableRef};

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
    /// What the change of a single statement carries besides; scripts make several
    /// changes and carry nothing.
    pub applying: Option<Applying>,
}

/// Makes a step that becomes part of the change which a statement makes, from what
/// the statement will have done then.
#[derive(Clone)]
pub struct Applying(pub Arc<dyn Fn(&StatementOutcome) -> Mutation + Send + Sync>);

impl fmt::Debug for Applying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Applying")
    }
}

/// Rows that a DML statement touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DmlStats {
    /// Inserted.
    pub inserted: u64,
    /// Updated.
    pub updated: u64,
    /// Deleted.
    pub deleted: u64,
}

/// What a DDL statement did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DdlOutcome {
    /// `CREATE`, `REPLACE`, `SKIP`, `DROP`, `ALTER`.
    pub operation: Cow<'static, str>,
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
    /// Why the statement of a script failed.
    pub error: Option<ServiceError>,
}

/// The result of a query job: one statement, or those of a script that ran.
#[derive(Debug, Clone)]
pub struct QueryOutcome {
    /// In order of execution; never empty. The job's result is that of the last
    /// statement that has one.
    pub statements: Vec<StatementOutcome>,
    /// Whether the job is a script (`statementType` SCRIPT with child jobs).
    pub script: bool,
    /// How a script ended early. What its statements changed until then stays
    /// changed; the one that failed is the last of them when it got as far as to run.
    pub failure: Option<ServiceError>,
}

impl QueryOutcome {
    /// The outcome of a script that came to its end, else how it ended early.
    pub fn to_the_end(self) -> Result<Self> {
        match self.failure {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }
}
