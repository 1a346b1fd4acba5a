//! A BigQuery table as DataFusion's [`TableProvider`].

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Statistics, not_impl_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::metadata::LiveTable;
use crate::client::Client;
use crate::client::rest::model::TableKind;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::translate::replacement;
use crate::options::{BigQueryOptions, Options, RawOptions, ScanOptions};
use crate::scan::{BigQueryScanExec, Pushdown, ReadSpec, Snapshots, Source, StatementId};
use crate::types::TableRef;

/// A BigQuery table.
///
/// Its columns are those of the live table when the provider was made. Filters
/// that BigQuery can evaluate travel with the read session; DataFusion evaluates
/// them again.
#[derive(Debug)]
pub struct BigQueryTable {
    client: Client,
    snapshots: Arc<Snapshots>,
    table: TableRef,
    /// What was said of this table; the session's defaults come later.
    options: RawOptions,
    state: State,
}

/// What the service said of the table.
#[derive(Debug)]
enum State {
    Live(Box<LiveTable>),
    /// It does not exist; a statement declared columns for its creation.
    Declared(SchemaRef),
}

/// A table's parts, to make providers that share a client.
#[derive(Debug, Clone)]
pub(crate) struct TableContext {
    pub(crate) client: Client,
    pub(crate) snapshots: Arc<Snapshots>,
    /// Options under those of the session.
    pub(crate) options: RawOptions,
}

impl BigQueryTable {
    /// The table `table`, reached through `client`, with options of its own
    /// such as `scan.row_restriction`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such table;
    /// [`ErrorKind::Configuration`] for an option that is wrong; and whatever
    /// keeps the service from answering.
    pub async fn open(client: Client, table: TableRef, options: RawOptions) -> Result<Self> {
        let context = TableContext {
            client,
            snapshots: Arc::default(),
            options,
        };
        Self::live(&context, table).await
    }

    /// The live table.
    pub(crate) async fn live(context: &TableContext, table: TableRef) -> Result<Self> {
        let precision = Options::resolve(&context.options)?.scan.timestamp_precision;
        let found = context.client.get_table(&table).await?;
        let live = LiveTable::new(table.clone(), found, precision);
        Ok(Self::with_state(
            context,
            table,
            State::Live(Box::new(live)),
        ))
    }

    /// The live table, or one still to be created with `declared` columns.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when the declared columns disagree with the
    /// live ones.
    pub(crate) async fn live_or_declared(
        context: &TableContext,
        table: TableRef,
        declared: SchemaRef,
    ) -> Result<Self> {
        match Self::live(context, table.clone()).await {
            Ok(provider) => {
                if let State::Live(live) = &provider.state {
                    live.check_declared(&declared)?;
                }
                Ok(provider)
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !declared.fields().is_empty() => {
                Ok(Self::with_state(context, table, State::Declared(declared)))
            }
            Err(error) => Err(error),
        }
    }

    fn with_state(context: &TableContext, table: TableRef, state: State) -> Self {
        Self {
            client: context.client.clone(),
            snapshots: Arc::clone(&context.snapshots),
            table,
            options: context.options.clone(),
            state,
        }
    }

    /// The table's full name.
    pub fn table_ref(&self) -> &TableRef {
        &self.table
    }

    /// The options for a statement: the table's own before the session's.
    fn options(&self, session: &dyn Session) -> Result<Options> {
        let defaults = session
            .config_options()
            .extensions
            .get::<BigQueryOptions>()
            .map(|defaults| defaults.raw().clone())
            .unwrap_or_default();
        Options::resolve(&self.options.or_defaults(&defaults))
    }

    /// What to read: the table as it was found, or as it is by now.
    async fn readable(&self, options: &Options) -> Result<LiveTable> {
        let live = match &self.state {
            State::Live(live) => live.as_ref().clone(),
            State::Declared(declared) => {
                let found =
                    self.client.get_table(&self.table).await.map_err(|error| {
                        match error.kind() {
                            ErrorKind::NotFound => Error::new(
                                ErrorKind::NotFound,
                                format!(
                                    "table {} does not exist yet: its first INSERT creates it",
                                    self.table
                                ),
                            )
                            .with_source(error),
                            _ => error,
                        }
                    })?;
                let precision = options.scan.timestamp_precision;
                let live = LiveTable::new(self.table.clone(), found, precision);
                live.check_declared(declared)?;
                if !same_columns(&live.schema, declared) {
                    return Err(Error::new(
                        ErrorKind::FailedPrecondition,
                        format!(
                            "table {} was created after it was declared here: declare it again \
                             to read it",
                            self.table
                        ),
                    ));
                }
                live
            }
        };
        live.check_readable()?;
        Ok(live)
    }
}

fn same_columns(live: &SchemaRef, declared: &SchemaRef) -> bool {
    live.fields().len() == declared.fields().len()
        && live.fields().iter().zip(declared.fields()).all(|(a, b)| {
            a.name() == b.name()
                && a.data_type() == b.data_type()
                && a.is_nullable() == b.is_nullable()
        })
}

#[async_trait]
impl TableProvider for BigQueryTable {
    fn schema(&self) -> SchemaRef {
        match &self.state {
            State::Live(live) => Arc::clone(&live.schema),
            State::Declared(schema) => Arc::clone(schema),
        }
    }

    fn table_type(&self) -> TableType {
        match &self.state {
            State::Live(live) => table_type(&live.kind),
            State::Declared(_) => TableType::Base,
        }
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let options = self.options(session)?;
        let live = self.readable(&options).await?;
        let pushdown = match options.scan.pushdown_filters {
            true => Pushdown::Filters,
            false => Pushdown::Nothing,
        };
        let spec = ReadSpec::new(
            &live.columns,
            &live.schema,
            projection.map(Vec::as_slice),
            filters,
            pushdown,
            options.scan.row_restriction.as_deref(),
            limit,
        )?;
        live.check_filtered(&spec.restriction.text())?;
        let partitions = match usize::try_from(options.scan.max_stream_count) {
            Ok(0) | Err(_) => session.config().target_partitions(),
            Ok(most) => session.config().target_partitions().min(most),
        };
        let statement = StatementId {
            session: session.session_id().to_string(),
            began: session.execution_props().query_execution_start_time,
        };
        let scan_options = ScanOptions {
            timestamp_precision: live.precision,
            ..options.scan
        };
        let source = Source {
            client: self.client.clone(),
            table: self.table.clone(),
            columns: live.columns.clone(),
            snapshot: self.snapshots.join(statement, &self.table),
            options: scan_options,
        };
        Ok(Arc::new(BigQueryScanExec::new(
            Arc::new(source),
            spec,
            partitions,
            live.rows,
        )))
    }

    /// Every filter is given to the scan. Nearly all are kept (Inexact): a
    /// restriction that the service refuses is dropped when the session opens,
    /// and then only the engine's filter remains; and the scan shows in EXPLAIN
    /// which filters the restriction leaves to the engine. Exact are the few
    /// that the engine would fail to evaluate.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        let answer = |filter: &&Expr| match &self.state {
            State::Live(live) if replacement(&live.columns, filter).is_some() => {
                TableProviderFilterPushDown::Exact
            }
            State::Live(_) | State::Declared(_) => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(answer).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let State::Live(live) = &self.state else {
            return None;
        };
        // Rows in the streaming buffer are not counted yet, so never exact.
        Some(Statistics {
            num_rows: live.rows.map_or(Precision::Absent, Precision::Inexact),
            ..Statistics::new_unknown(&live.schema)
        })
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        _: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        not_impl_err!(
            "this version reads BigQuery tables and does not write {}",
            self.table
        )
    }
}

/// How information_schema calls a kind of table.
pub(crate) fn table_type(kind: &TableKind) -> TableType {
    match kind {
        TableKind::View | TableKind::MaterializedView => TableType::View,
        TableKind::Table | TableKind::Snapshot | TableKind::External | TableKind::Other(_) => {
            TableType::Base
        }
    }
}
