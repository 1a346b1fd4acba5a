//! A sink whose rows are changes.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;

use super::key;
use super::mark::{Mark, PENDING_LABEL};
use super::rows::ChangeRowsPlan;
use super::statements::Statements;
use super::upkeep::{Absent, LONGEST, Upkeep};
use crate::client::Client;
use crate::client::rest::model::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{CdcOptions, CreateDisposition, Options, SinkOptions};
use crate::sink::{
    self, BigQuerySink, ChangedTable, Places, PlannedChange, PlannedChanges, Prepared, ReadyTable,
    RowChanges, not_created,
};
use crate::types::{Mode, TableRef, TableSchema};

/// A table of changes, looked after.
#[derive(Debug)]
struct Keyed(Upkeep);

#[async_trait]
impl ChangedTable for Keyed {
    async fn make_ready(&self) -> Result<ReadyTable> {
        self.0.make_ready().await
    }

    fn plan(&self, live: &Table, rows: &SchemaRef) -> Result<PlannedChanges> {
        let Upkeep { table, key, .. } = &self.0;
        let key = key::agreed(table, &live.schema, key, &live.primary_key)?;
        let plan = ChangeRowsPlan::new(table, &live.schema, &key, rows)?;
        Ok(PlannedChanges {
            written: Arc::clone(&plan.written),
            columns: plan.columns.clone(),
            changes: Arc::new(Changes(plan)),
        })
    }
}

/// Changes of one table.
#[derive(Debug)]
struct Changes(ChangeRowsPlan);

impl RowChanges for Changes {
    fn prepare(&self, batch: &RecordBatch) -> Result<Prepared> {
        self.0.prepare(batch)
    }

    fn key(&self) -> &[String] {
        &self.0.key
    }

    fn places(&self) -> Places {
        self.0.places()
    }
}

/// Makes a [`BigQuerySink`] whose rows are changes of a table by its primary key.
///
/// Its batches have columns of the table, the whole key among them, and the pseudocolumns
/// `_CHANGE_TYPE` and `_CHANGE_SEQUENCE_NUMBER`, if any. Before the first row the table is
/// created if there is none, verified, and on request reconciled.
#[derive(Debug, Clone)]
pub struct ChangeSinkBuilder {
    client: Client,
    table: TableRef,
    options: Options,
    key: Vec<String>,
    new_columns: Option<SchemaRef>,
}

impl ChangeSinkBuilder {
    /// For changes of `table`, with options of which `sink.cdc` says how it is kept.
    pub fn new(client: Client, table: TableRef, options: Options) -> Self {
        Self {
            client,
            table,
            options,
            key: Vec::new(),
            new_columns: None,
        }
    }

    /// The columns of the primary key. Without them it is the table's own, and no table
    /// can be created.
    #[must_use]
    pub fn with_primary_key<S: Into<String>>(
        mut self,
        columns: impl IntoIterator<Item = S>,
    ) -> Self {
        self.key = columns.into_iter().map(Into::into).collect();
        self
    }

    /// The columns of a table that is created, where they are more than those of the rows.
    /// Pseudocolumns among them are left out.
    #[must_use]
    pub fn with_new_table_columns(mut self, columns: SchemaRef) -> Self {
        self.new_columns = Some(columns);
        self
    }

    /// The sink for batches of `schema`, after a look at the table. Nothing is created or
    /// changed before the first row.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such table and none is to be created;
    /// [`ErrorKind::Configuration`] when the options are not of changes;
    /// [`ErrorKind::InvalidArgument`] and [`ErrorKind::FailedPrecondition`] for a key or
    /// columns that do not fit.
    pub async fn build(self, schema: SchemaRef) -> Result<BigQuerySink> {
        match self.client.get_table(&self.table).await {
            Ok(found) => self.build_for(&found, schema),
            Err(missing) if missing.kind() == ErrorKind::NotFound => {
                self.build_missing(missing, schema)
            }
            Err(error) => Err(error),
        }
    }

    /// As [`build`](Self::build), for a table that was looked at already.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_for(self, live: &Table, schema: SchemaRef) -> Result<BigQuerySink> {
        let key = key::agreed(&self.table, &live.schema, &self.key, &live.primary_key)?;
        // One that is gone when the first row comes was deleted meanwhile.
        let absent = Absent::Refused(self.options.sink.create_disposition);
        self.sink(live, PlannedChange::None, key, absent, schema)
    }

    /// As [`build`](Self::build), for a table that was found to be `missing`.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_missing(self, missing: Error, schema: SchemaRef) -> Result<BigQuerySink> {
        let disposition = self.options.sink.create_disposition;
        if disposition == CreateDisposition::CreateNever {
            return Err(not_created(&self.table, disposition, missing));
        }
        let terms = self.options.sink.table_create.clone();
        if terms.labels.iter().any(|(name, _)| name == PENDING_LABEL) {
            return Err(Error::configuration(format!(
                "option 'sink.table_create.labels' cannot give {} the label '{PENDING_LABEL}', \
                 which marks a table that is not complete yet",
                self.table
            )));
        }
        let declared = self.new_columns.as_ref().unwrap_or(&schema);
        let columns = new_columns(&self.table, declared, &self.key, &self.options.sink)?;
        let mut planned = Table::planned(self.table.clone(), columns);
        let key = key::agreed(&self.table, &planned.schema, &self.key, &[])?;
        planned.primary_key.clone_from(&key);
        let absent = Absent::Created(terms);
        self.sink(&planned, PlannedChange::Creation, key, absent, schema)
    }

    fn sink(
        self,
        planned: &Table,
        change: PlannedChange,
        key: Vec<String>,
        absent: Absent,
        schema: SchemaRef,
    ) -> Result<BigQuerySink> {
        let cdc = self.cdc()?.clone();
        let upkeep = Upkeep {
            statements: Statements::new(self.client.clone(), self.table.clone(), &self.options),
            patience: patience(&self.options.sink),
            mark: Mark::new(cdc.staleness),
            options: cdc,
            columns: planned.schema.clone(),
            client: self.client.clone(),
            table: self.table.clone(),
            key,
            absent,
        };
        BigQuerySink::builder(self.client, self.table)
            .with_options(self.options.sink)
            .build_changes(planned, change, schema, Arc::new(Keyed(upkeep)))
    }

    fn cdc(&self) -> Result<&CdcOptions> {
        self.options.sink.cdc.as_ref().ok_or_else(|| {
            Error::configuration(format!(
                "writing changes of {} needs option 'sink.cdc.enabled' to be true",
                self.table
            ))
        })
    }
}

/// How long to wait for another writer that is at the table: as long as for any change of
/// one, but its steps do not take minutes.
fn patience(options: &SinkOptions) -> Duration {
    let propagation = options.propagation;
    LONGEST.min(propagation.interval.saturating_mul(propagation.attempts))
}

/// The columns of a table that is created for changes: those that are declared without
/// the pseudocolumns. Those of the key must have values.
///
/// # Errors
/// [`ErrorKind::Configuration`] when there is no key;
/// [`ErrorKind::InvalidArgument`] for columns that cannot be created or be a key.
pub(crate) fn new_columns(
    table: &TableRef,
    declared: &Schema,
    key: &[String],
    options: &SinkOptions,
) -> Result<TableSchema> {
    if key.is_empty() {
        return Err(Error::configuration(format!(
            "table {table} does not exist, and without a primary key none is created for changes: \
             declare PRIMARY KEY (…) in CREATE EXTERNAL TABLE"
        )));
    }
    let context = |error: Error| error.with_context(format!("declaring table {table}"));
    let own = key::without_pseudocolumns(declared).map_err(context)?;
    let mut columns = sink::new_columns(&own, options).map_err(context)?;
    for name in key::agreed(table, &columns, key, &[])? {
        let mut fields = columns.fields.iter_mut();
        if let Some(column) = fields.find(|column| column.is_named(&name)) {
            column.mode = Mode::Required;
        }
    }
    Ok(columns)
}
