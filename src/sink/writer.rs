//! What the writers of all methods have in common.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;

use super::budget::Budget;
use super::changes::{ChangedTable, RowChanges};
use super::destination::Destinations;
use super::failure::FailureHandler;
use super::load::{LoadLimits, LoadTarget};
use super::numbered::Numbered;
use super::protocol::{Committable, WriterState};
use crate::client::Client;
use crate::client::write::append::Denied;
use crate::error::{Error, ErrorKind, Result};
use crate::options::SinkOptions;
use crate::types::encode::RowEncoder;
use crate::types::{TableRef, TableSchema};

/// Takes the rows that one task has for one table.
///
/// The calls come one after the other, from [`SinkWriter`](super::SinkWriter). After
/// an error the writer is not called again; dropping it gives up what is under way.
#[async_trait]
pub(super) trait TableWriter: fmt::Debug + Send {
    /// Takes rows of the sink's schema.
    async fn write(&mut self, rows: Numbered) -> Result<()>;

    /// Sends what is held back and waits until the service has all of it.
    async fn flush(&mut self) -> Result<()>;

    /// Flushes, and gives out what a commit needs to know of the rows since the last
    /// call: nothing when there were none.
    async fn prepare_commit(&mut self) -> Result<Vec<Committable>>;

    /// The state right after [`prepare_commit`](Self::prepare_commit).
    fn snapshot(&self) -> WriterState;

    /// Bytes of rows that it holds back or that are under way, about.
    fn bytes(&self) -> usize {
        0
    }
}

/// What all writers of a sink share.
pub(super) struct SinkShared {
    pub(super) client: Client,
    pub(super) options: SinkOptions,
    /// Of the batches that the writers of tables take.
    pub(super) schema: SchemaRef,
    /// What tables that do not exist are created with; None where none is to be.
    pub(super) new_columns: Option<TableSchema>,
    /// The one table, where rows are changes of it.
    pub(super) changes: Option<Arc<dyn ChangedTable>>,
    /// The columns as a statement declared them, if it did.
    pub(super) declared: Option<SchemaRef>,
    pub(super) destinations: Destinations,
    pub(super) failures: Arc<FailureHandler>,
    /// Of connections to default streams.
    pub(super) budget: Budget,
    pub(super) load_limits: LoadLimits,
}

impl fmt::Debug for SinkShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkShared")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A table that rows go to, and how its rows are made.
#[derive(Clone)]
pub(super) struct Destination {
    pub(super) table: TableRef,
    pub(super) encoder: RowEncoder,
    /// Columns that are not written and get their defaults.
    pub(super) defaulted: Vec<String>,
    /// Columns that are not written and are NULL.
    pub(super) null: Vec<String>,
    /// What it means when the service denies access to the table.
    pub(super) denied: Denied,
    /// How its files are made, under the method that stages files.
    pub(super) load: Option<Arc<LoadTarget>>,
    /// Under the methods that only add rows: what they replace.
    pub(super) overwrite: Option<Overwrite>,
    /// What makes rows changes by key, if they are.
    pub(super) changes: Option<Arc<dyn RowChanges>>,
}

/// What rows replace.
#[derive(Debug, Clone)]
pub(super) struct Overwrite {
    /// The partition; all of the table without it.
    pub(super) partition: Option<String>,
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// The error with the table, and with what to do where that is known.
///
/// The service says PERMISSION_DENIED of a table that does not exist; `tables.get`
/// tells the two apart.
pub(super) async fn explain(client: &Client, table: &TableRef, error: Error) -> Error {
    if error.kind() != ErrorKind::PermissionDenied {
        return error.with_context(format!("writing table {table}"));
    }
    let told = error.message();
    match client.get_table(table).await {
        Err(missing) if missing.kind() == ErrorKind::NotFound => Error::new(
            ErrorKind::NotFound,
            format!("table {table} does not exist any more: rows cannot be written to it"),
        ),
        _ => Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "rows cannot be written to table {table} ({told}): the caller needs \
                 bigquery.tables.updateData on it (role roles/bigquery.dataEditor)"
            ),
        ),
    }
}
