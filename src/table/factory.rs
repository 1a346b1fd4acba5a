//! `CREATE EXTERNAL TABLE … STORED AS BIGQUERY`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::Constraint;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::CreateExternalTable;

use super::change_table::{BigQueryChangeTable, Names};
use super::provider::{BigQueryTable, Origin, TableContext};
use super::shared::Shared;
use crate::client::rest::jobs::QueryParameters;
use crate::error::{Error, Result};
use crate::options::registry::{
    DATASET, PROJECT, SCAN_MATERIALIZE_VIEWS, SCAN_QUERY, SINK_CDC_ENABLED, SINK_PARTITION, TABLE,
};
use crate::options::{BigQueryOptions, Options, RawOptions};
use crate::query::{BigQueryQueryTable, QueryContext};
use crate::types::{DatasetRef, TableRef};

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
    ) -> Result<Arc<dyn TableProvider>> {
        refuse_clauses(command)?;
        let said = RawOptions::from_pairs(&command.options)?;
        let defaults = BigQueryOptions::of(session.config_options());
        refuse_partition_of_changes(&said, &defaults, command)?;
        let own = with_partition(said, command)?;
        if let Some(sql) = own.get(&SCAN_QUERY) {
            let sql = sql.to_string();
            return self.query(command, own, sql, &defaults).await;
        }
        let options = Options::resolve_over(&own, &defaults)?;
        let table = location(command, &own, &options)?;
        let context = TableContext {
            client: self.shared.client(&options.connection)?,
            snapshots: Arc::clone(&self.shared.snapshots),
            runs: Arc::clone(&self.shared.runs),
            options: own,
            origin: Origin::Declared,
        };
        let declared = Arc::new(command.schema.as_arrow().clone());
        if options.sink.cdc.is_some() {
            let key = declared_key(command);
            let changes = BigQueryChangeTable::open(
                context,
                table,
                declared,
                key,
                &options,
                Names::of(session),
            )
            .await?;
            return Ok(Arc::new(changes));
        }
        let table = BigQueryTable::live_or_declared(&context, table, declared, &defaults).await?;
        Ok(Arc::new(table))
    }

    /// The result of the option `scan.query`, whose LOCATION is the project that
    /// runs it.
    async fn query(
        &self,
        command: &CreateExternalTable,
        own: RawOptions,
        sql: String,
        defaults: &RawOptions,
    ) -> Result<Arc<dyn TableProvider>> {
        if !command.schema.fields().is_empty() {
            return Err(Error::configuration(
                "the columns of a query are those of its result: leave the column list out",
            ));
        }
        for row in [&DATASET, &TABLE] {
            if own.get(row).is_some() {
                return Err(Error::configuration(format!(
                    "options '{}' and '{}' cannot go together: a query names its tables itself",
                    row.name, SCAN_QUERY.name
                )));
            }
        }
        let [project] = command.locations.as_slice() else {
            return Err(Error::configuration(
                "LOCATION of a query is the one project that runs it, as 'my-project'",
            ));
        };
        // A dataset that cannot be wrong shows whether the project is one.
        DatasetRef::new(project, "d").map_err(|error| {
            Error::configuration(format!(
                "LOCATION of a query is the project that runs it: {}",
                error.message()
            ))
        })?;
        if let Some(other) = own.get(&PROJECT).filter(|other| other != project) {
            return Err(Error::configuration(format!(
                "option 'project' is '{other}' and LOCATION says '{project}': leave one out"
            )));
        }
        if project.contains('.') && !project.contains(':') {
            return Err(Error::configuration(format!(
                "LOCATION '{project}' names a table, and with option 'scan.query' it is the \
                 project that runs the query, as 'my-project'"
            )));
        }
        // What is said of no query is said of this one.
        let mut for_queries = defaults.clone();
        for_queries.unset(SCAN_MATERIALIZE_VIEWS.name)?;
        let options = Options::resolve_over(&own, &for_queries)?;
        let payer = options
            .connection
            .billing_project
            .clone()
            .unwrap_or_else(|| project.clone());
        let context = QueryContext {
            client: self.shared.client(&options.connection)?,
            shared: Arc::clone(&self.shared.runs),
            options: own,
        };
        let table =
            BigQueryQueryTable::open(context, payer, sql, QueryParameters::None, defaults).await?;
        Ok(Arc::new(table))
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
        Ok(table)
    }
}

/// The columns of PRIMARY KEY (…), if a statement says so.
fn declared_key(command: &CreateExternalTable) -> Vec<String> {
    let key = command
        .constraints
        .iter()
        .find_map(|constraint| match constraint {
            Constraint::PrimaryKey(columns) => Some(columns),
            Constraint::Unique(_) => None,
        });
    let columns = key.into_iter().flatten();
    columns
        .map(|column| command.schema.field(*column).name().clone())
        .collect()
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
            "BigQuery tables are partitioned when they are created in BigQuery, and conditions on \
             the partition column reach it",
        );
    }
    if !command.order_exprs.is_empty() {
        return refuse(
            "WITH ORDER",
            "BigQuery keeps no order: say ORDER BY in the query",
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

/// A location without the decorator that names a partition, and the partition.
fn decorated(location: &str) -> (&str, Option<&str>) {
    match location.rsplit_once('$') {
        Some((table, partition)) => (table, Some(partition)),
        None => (location, None),
    }
}

/// The options with the partition that LOCATION names, if it names one.
fn with_partition(own: RawOptions, command: &CreateExternalTable) -> Result<RawOptions> {
    let [location] = command.locations.as_slice() else {
        return Ok(own);
    };
    let (_, Some(partition)) = decorated(location) else {
        return Ok(own);
    };
    if let Some(other) = own.get(&SINK_PARTITION)
        && other != partition
    {
        return Err(Error::configuration(format!(
            "option '{}' is '{other}' and LOCATION '{location}' says '{partition}': leave one out",
            SINK_PARTITION.name
        )));
    }
    let said = RawOptions::from_pairs([(SINK_PARTITION.name, partition)])?;
    Ok(own.or_defaults(&said))
}

/// Changes go to the partitions of their rows, so a LOCATION that names one would be
/// ignored.
fn refuse_partition_of_changes(
    said: &RawOptions,
    defaults: &RawOptions,
    command: &CreateExternalTable,
) -> Result<()> {
    let [location] = command.locations.as_slice() else {
        return Ok(());
    };
    let (table, Some(partition)) = decorated(location) else {
        return Ok(());
    };
    if said.get(&SINK_CDC_ENABLED).is_none()
        || Options::resolve_over(said, defaults)?.sink.cdc.is_none()
    {
        return Ok(());
    }
    Err(Error::configuration(format!(
        "LOCATION '{location}' names the partition '{partition}', which does not go with option \
         '{}': a change goes to the row of its key, in whichever partition that is; say LOCATION \
         '{table}'",
        SINK_CDC_ENABLED.name
    )))
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
    let (table, _) = decorated(location);
    let table: TableRef = table.parse()?;
    // The session's project is a default, so only the statement's can contradict.
    said(own.get(&PROJECT), &table.project, "project")?;
    said(named.dataset.as_deref(), &table.dataset, "dataset")?;
    said(named.table.as_deref(), &table.table, "table")?;
    Ok(table)
}
