//! `CREATE EXTERNAL TABLE … STORED AS BIGQUERY`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::CreateExternalTable;

use super::provider::{BigQueryTable, TableContext};
use super::shared::Shared;
use crate::error::{Error, Result};
use crate::options::registry::PROJECT;
use crate::options::{BigQueryOptions, Options, RawOptions};
use crate::types::TableRef;

/// Makes the tables of `CREATE EXTERNAL TABLE name STORED AS BIGQUERY LOCATION
/// 'project.dataset.table' OPTIONS (…)`.
#[derive(Debug)]
pub struct BigQueryTableFactory {
    shared: Arc<Shared>,
}

impl BigQueryTableFactory {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn table(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<BigQueryTable> {
        refuse_clauses(command)?;
        let own = RawOptions::from_pairs(&command.options)?;
        let defaults = session
            .config_options()
            .extensions
            .get::<BigQueryOptions>()
            .map(|defaults| defaults.raw().clone())
            .unwrap_or_default();
        let options = Options::resolve(&own.or_defaults(&defaults))?;
        let table = location(command, &own, &options)?;
        let context = TableContext {
            client: self.shared.client(&options.connection)?,
            snapshots: Arc::clone(&self.shared.snapshots),
            options: own,
        };
        let declared = Arc::new(command.schema.as_arrow().clone());
        BigQueryTable::live_or_declared(&context, table, declared).await
    }
}

#[async_trait]
impl TableProviderFactory for BigQueryTableFactory {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> DataFusionResult<Arc<dyn TableProvider>> {
        let table = self.table(session, command).await.map_err(|error| {
            error.with_context(format!("creating external table {}", command.name))
        })?;
        Ok(Arc::new(table))
    }
}

/// Clauses about files have options instead.
fn refuse_clauses(command: &CreateExternalTable) -> Result<()> {
    let refuse = |clause: &str, instead: &str| {
        Err(Error::configuration(format!(
            "{clause} is about files and does not go with STORED AS BIGQUERY: {instead}"
        )))
    };
    if !command.table_partition_cols.is_empty() {
        return refuse(
            "PARTITIONED BY",
            "a new table is partitioned by the options sink.table_create.time_partitioning.type \
             and .field",
        );
    }
    if !command.order_exprs.is_empty() {
        return refuse(
            "WITH ORDER",
            "BigQuery keeps no order; a new table is clustered by the option \
             sink.table_create.clustered_fields",
        );
    }
    if command.unbounded {
        return refuse(
            "UNBOUNDED",
            "a table is read as of one time, now or that of the option scan.snapshot_time",
        );
    }
    Ok(())
}

/// The table of LOCATION, whose parts options may name instead.
fn location(
    command: &CreateExternalTable,
    own: &RawOptions,
    options: &Options,
) -> Result<TableRef> {
    let [location] = command.locations.as_slice() else {
        return Err(Error::configuration(format!(
            "LOCATION names {} tables: name one, as project.dataset.table",
            command.locations.len()
        )));
    };
    let named = &options.table;
    let said = |option: Option<&str>, part: &str, name: &str| match option {
        Some(other) if other != part => Err(Error::configuration(format!(
            "option '{name}' is '{other}' and LOCATION '{location}' says '{part}': leave one out"
        ))),
        _ => Ok(()),
    };
    let table: TableRef = location.parse()?;
    // The session's project is a default, so only the statement's can contradict.
    said(own.get(&PROJECT), &table.project, "project")?;
    said(named.dataset.as_deref(), &table.dataset, "dataset")?;
    said(named.table.as_deref(), &table.table, "table")?;
    Ok(table)
}
