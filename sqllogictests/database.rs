//! A chapter's connection: a session as users build it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use sqllogictest::{AsyncDB, DBOutput};

use crate::cells::{Letter, letters, rows};

/// Runs the statements of a chapter in one session.
pub struct Database {
    context: SessionContext,
}

impl Database {
    /// Runs statements in `context`.
    pub fn new(context: SessionContext) -> Self {
        Self { context }
    }
}

/// An error as `dfbq` prints it.
#[derive(Debug)]
pub struct StatementError(DataFusionError);

impl fmt::Display for StatementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&dfbq::report::one_line(&self.0))
    }
}

impl std::error::Error for StatementError {}

impl From<DataFusionError> for StatementError {
    fn from(error: DataFusionError) -> Self {
        Self(error)
    }
}

impl From<ArrowError> for StatementError {
    fn from(error: ArrowError) -> Self {
        Self(error.into())
    }
}

#[async_trait]
impl AsyncDB for Database {
    type Error = StatementError;
    type ColumnType = Letter;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, StatementError> {
        let frame = self.context.sql(sql).await?;
        let schema = Arc::clone(frame.schema().inner());
        let batches = frame.collect().await?;
        if schema.fields().is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        Ok(DBOutput::Rows {
            types: letters(&schema),
            rows: rows(&schema, &batches)?,
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "datafusion-bigquery"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
