//! A BigQuery table as DataFusion's [`TableProvider`].

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchemaRef, Statistics, not_impl_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::dml::{InsertOp, MergeIntoClause};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::insert::LeftOut;
use super::metadata::{LiveTable, NewColumns, Reading, SchemaTerms};
use super::version::Version;
use crate::client::Client;
use crate::client::rest::model::{Table, TableKind};
use crate::error::{Error, ErrorKind, Result};
use crate::options::registry::{self, OptionRow};
use crate::options::{BigQueryOptions, Options, RawOptions, ScanOptions};
use crate::query::{
    BigQueryQueryExec, JobSource, JobTerms, QuerySource, Relation, SharedRuns, of_results,
    partitions, statement,
};
use crate::scan::{BigQueryScanExec, Pushdown, ReadBy, ReadSpec, Snapshots, Source, support};
use crate::sink::{BigQueryCommitExec, BigQueryWriteExec, new_columns};
use crate::types::{Field, FieldType, Mode, TableRef, TableSchema, arrow};

/// A BigQuery table.
///
/// Its columns are those of the live table when the provider was made. Filters
/// that BigQuery can evaluate travel with the read session; DataFusion evaluates those
/// again that BigQuery understands in its own way.
#[derive(Debug)]
pub struct BigQueryTable {
    pub(super) client: Client,
    snapshots: Arc<Snapshots>,
    pub(super) table: TableRef,
    /// What was said of this table; the session's defaults come later.
    options: RawOptions,
    origin: Origin,
    runs: Arc<SharedRuns>,
    /// What a statement says of the one place where it names the table.
    version: Version,
    pub(super) state: State,
    /// What INSERT fills each column with that it leaves out.
    left_out: LeftOut,
    /// What tells the INSERT from others that this is the target of.
    pub(super) statement: Option<String>,
}

/// Where a table was named first.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// In a declaration: what it means was settled then.
    Declared,
    /// In a catalog that was made with these options of the session. What the
    /// session says later of schemas applies, and what it says of connections
    /// comes too late.
    Catalog(Arc<RawOptions>),
}

/// What the service said of the table.
#[derive(Debug, Clone)]
pub(super) enum State {
    Live {
        live: Arc<LiveTable>,
        /// As it was said, to be read with other options.
        found: Arc<Table>,
    },
    /// It does not exist, or lacks columns; a statement declared those for an INSERT
    /// to create.
    Declared {
        /// As it will be then.
        schema: SchemaRef,
        columns: TableSchema,
    },
}

/// A table's parts, to make providers that share a client.
#[derive(Debug, Clone)]
pub(crate) struct TableContext {
    pub(crate) client: Client,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) runs: Arc<SharedRuns>,
    /// Options under those of the session.
    pub(crate) options: RawOptions,
    pub(crate) origin: Origin,
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
            runs: Arc::default(),
            options,
            origin: Origin::Declared,
        };
        Self::live(&context, table, &RawOptions::new()).await
    }

    /// The live table, with the session's `defaults` as they are now.
    pub(crate) async fn live(
        context: &TableContext,
        table: TableRef,
        defaults: &RawOptions,
    ) -> Result<Self> {
        let options = Options::resolve_over(&context.options, defaults)?;
        let found_at = context.client.clock().now();
        let found = context.client.get_table(&table).await?;
        let live = LiveTable::new(table.clone(), found.clone(), SchemaTerms::from(&options))
            .found_at(Some(found_at));
        let state = State::Live {
            live: Arc::new(live),
            found: Arc::new(found),
        };
        Ok(Self::with_state(context, table, state))
    }

    /// The table where one statement names it: with `version`, and the session's
    /// options of this moment. None if that is the table as it is.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when the session says something of the
    /// connection that does not reach its catalog.
    pub(crate) fn named(&self, version: Version, defaults: &RawOptions) -> Result<Option<Self>> {
        let mut state = self.state.clone();
        let mut renewed = false;
        if let Origin::Catalog(made_with) = &self.origin {
            check_reached(made_with, defaults)?;
            if let State::Live { live, found } = &self.state {
                let options = Options::resolve_over(&self.options, defaults)?;
                let terms = SchemaTerms::from(&options);
                if live.terms != terms {
                    let found_at = live.found_at;
                    let live = LiveTable::new(self.table.clone(), found.as_ref().clone(), terms)
                        .found_at(found_at);
                    state = State::Live {
                        live: Arc::new(live),
                        found: Arc::clone(found),
                    };
                    renewed = true;
                }
            }
        }
        if !renewed && version.is_plain() {
            return Ok(None);
        }
        Ok(Some(self.copy(version, state)))
    }

    /// The table as the target of one INSERT.
    pub(super) fn of_statement(&self, digest: String) -> Self {
        Self {
            statement: Some(digest),
            ..self.copy(self.version.clone(), self.state.clone())
        }
    }

    fn copy(&self, version: Version, state: State) -> Self {
        Self {
            client: self.client.clone(),
            snapshots: Arc::clone(&self.snapshots),
            table: self.table.clone(),
            options: self.options.clone(),
            origin: self.origin.clone(),
            runs: Arc::clone(&self.runs),
            version,
            state,
            left_out: LeftOut::default(),
            statement: None,
        }
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
        defaults: &RawOptions,
    ) -> Result<Self> {
        match Self::live(context, table.clone(), defaults).await {
            Ok(provider) => {
                let State::Live { live, .. } = &provider.state else {
                    return Ok(provider);
                };
                let options = Options::resolve_over(&context.options, defaults)?;
                live.check_declared(&declared, NewColumns::of(&options))?;
                if live.check_declared(&declared, NewColumns::Never).is_ok() {
                    return Ok(provider);
                }
                let columns = widened(live, &declared, &options)
                    .map_err(|error| error.with_context(format!("declaring table {table}")))?;
                let schema = arrow::table_schema(&columns, options.scan.timestamp_precision);
                let state = State::Declared { schema, columns };
                Ok(Self::with_state(context, table, state))
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !declared.fields().is_empty() => {
                let options = Options::resolve_over(&context.options, defaults)?;
                let columns = new_columns(&declared, &options.sink)
                    .map_err(|error| error.with_context(format!("declaring table {table}")))?;
                let schema = arrow::table_schema(&columns, options.scan.timestamp_precision);
                let state = State::Declared { schema, columns };
                Ok(Self::with_state(context, table, state))
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
            origin: context.origin.clone(),
            runs: Arc::clone(&context.runs),
            version: Version::default(),
            state,
            left_out: LeftOut::default(),
            statement: None,
        }
    }

    /// The table's full name.
    pub fn table_ref(&self) -> &TableRef {
        &self.table
    }

    /// The table's own options before those of a session.
    pub(super) fn options_over(&self, defaults: &RawOptions) -> Result<Options> {
        Options::resolve_over(&self.options, defaults)
    }

    /// The options for a statement: the table's own before the session's.
    pub(super) fn options(&self, session: &dyn Session) -> Result<Options> {
        let defaults = BigQueryOptions::of(session.config_options());
        let mut options = self.options_over(&defaults)?;
        self.version.apply(session, &mut options.scan)?;
        Ok(options)
    }

    fn refuse_change(&self, statement: &str) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        not_impl_err!(
            "{statement} is not supported: rows of {} are added by INSERT INTO, or all of them replaced \
             by INSERT OVERWRITE; run the statement in BigQuery, or, if the table has a primary key, \
             declare it with option 'sink.cdc.enabled' and write changes",
            self.table
        )
    }

    /// Reads what only a query can.
    fn by_query(
        &self,
        session: &dyn Session,
        options: Options,
        live: &LiveTable,
        spec: ReadSpec,
    ) -> Result<BigQueryQueryExec> {
        let project = self.client.billing_project(&self.table).to_string();
        let terms = JobTerms::new(project, &options)?;
        let partitions = partitions(session, &options.scan);
        let source = JobSource {
            client: self.client.clone(),
            query: QuerySource::Relation(Relation {
                table: self.table.clone(),
            }),
            terms,
            columns: live.columns.clone(),
            options: of_results(options.scan, live.terms.precision),
            statement: statement(session),
            shared: Arc::clone(&self.runs),
        };
        Ok(BigQueryQueryExec::new(Arc::new(source), spec, partitions))
    }

    /// That a table is read which was declared only.
    fn not_there(&self, options: &Options) -> Error {
        let why = match &options.sink.destination.pattern {
            Some(pattern) => format!(
                "does not exist: rows that are inserted here go to the tables of option \
                 'sink.destination' ('{pattern}'): read those by their own names"
            ),
            None => "does not exist yet: the first INSERT into it creates it".to_string(),
        };
        Error::new(ErrorKind::NotFound, format!("table {} {why}", self.table))
    }

    /// What to read: the table as it was found, or as it is by now.
    async fn readable(&self, options: &Options) -> Result<Arc<LiveTable>> {
        let live = match &self.state {
            State::Live { live, .. } => Arc::clone(live),
            State::Declared {
                schema: declared, ..
            } => {
                let found = self.client.get_table(&self.table).await;
                let found = found.map_err(|error| match error.kind() {
                    ErrorKind::NotFound => self.not_there(options).with_source(error),
                    _ => error,
                })?;
                let terms = SchemaTerms::from(options);
                let live = LiveTable::new(self.table.clone(), found, terms);
                live.check_declared(declared, NewColumns::Missing)?;
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
                Arc::new(live)
            }
        };
        Ok(live)
    }
}

/// The options by which a catalog reaches the service.
static OF_CONNECTIONS: [&OptionRow; 9] = [
    &registry::PROJECT,
    &registry::BILLING_PROJECT,
    &registry::REST_ENDPOINT,
    &registry::GRPC_ENDPOINT,
    &registry::ALLOW_PLAINTEXT,
    &registry::CREDENTIALS,
    &registry::CREDENTIALS_KEY_FILE,
    &registry::CREDENTIALS_IMPERSONATE,
    &registry::TRACE_ID,
];

/// The first option of connections by which two sets of options differ.
pub(crate) fn other_connection(one: &RawOptions, other: &RawOptions) -> Option<&'static str> {
    let differ = |row: &&&OptionRow| one.get(row) != other.get(row);
    OF_CONNECTIONS.iter().find(differ).map(|row| row.name)
}

fn check_reached(made_with: &RawOptions, now: &RawOptions) -> Result<()> {
    match other_connection(made_with, now) {
        None => Ok(()),
        Some(option) => Err(Error::configuration(format!(
            "option '{option}' was set after the catalog of this table was made, and does not \
             reach it: say it when the session is made, or call session::renew_catalog"
        ))),
    }
}

/// The columns of a table that an INSERT will have added those declared columns and
/// fields to which it lacks.
fn widened(live: &LiveTable, declared: &SchemaRef, options: &Options) -> Result<TableSchema> {
    let mut columns = live.columns.clone();
    add_lacking(
        &mut columns.fields,
        new_columns(declared, &options.sink)?.fields,
    );
    Ok(columns)
}

fn add_lacking(fields: &mut Vec<Field>, declared: Vec<Field>) {
    for mut new in declared {
        match fields.iter_mut().find(|field| field.is_named(&new.name)) {
            Some(field) => {
                if let (FieldType::Struct(fields), FieldType::Struct(declared)) =
                    (&mut field.field_type, new.field_type)
                {
                    add_lacking(fields, declared);
                }
            }
            None => {
                // The rows that are there have none of its values.
                new.mode = match new.mode {
                    Mode::Repeated => Mode::Repeated,
                    Mode::Nullable | Mode::Required => Mode::Nullable,
                };
                fields.push(new);
            }
        }
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
            State::Live { live, .. } => Arc::clone(&live.schema),
            State::Declared { schema, .. } => Arc::clone(schema),
        }
    }

    fn table_type(&self) -> TableType {
        match &self.state {
            State::Live { live, .. } => table_type(&live.kind),
            State::Declared { .. } => TableType::Base,
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
        if let Some(partition) = &options.sink.partition {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "this is partition '{partition}' of {}, which is only written: read the table \
                     itself and filter on its partition column",
                    self.table
                ),
            )
            .into());
        }
        let live = self.readable(&options).await?;
        let reading = live.reading(&options)?;
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
        if reading == Reading::ByQuery {
            let exec = self.by_query(session, options, &live, spec)?;
            return Ok(Arc::new(exec));
        }
        let filtered = live.check_filtered(&spec.restriction.text());
        filtered.map_err(|error| match pushdown {
            Pushdown::Filters => error,
            Pushdown::Nothing => error.with_context(
                "no filter of the statement reaches BigQuery while option \
                 'scan.pushdown_filters' is false",
            ),
        })?;
        let partitions = partitions(session, &options.scan);
        let scan_options = ScanOptions {
            timestamp_precision: live.terms.precision,
            ..options.scan
        };
        let source = Source {
            client: self.client.clone(),
            table: self.table.clone(),
            columns: live.columns.clone(),
            snapshot: self.snapshots.join(statement(session), &self.table),
            options: scan_options,
            found_at: live.found_at,
        };
        Ok(Arc::new(BigQueryScanExec::new(
            Arc::new(source),
            spec,
            partitions,
            live.rows,
        )))
    }

    /// Every filter is given to the scan. Exact are those that the scan itself answers
    /// for: by a condition that keeps the same rows, or by evaluating the filter where a
    /// session opens without the condition. What is left to the engine stays with it
    /// (Inexact), and so does everything where a query job reads, whose result may lack
    /// the columns. The scan shows in EXPLAIN what the restriction does not say.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        let answer = |filter: &&Expr| match &self.state {
            State::Live { live, .. } if live.is_read_directly() => {
                support(&live.columns, filter, ReadBy::Scan)
            }
            State::Live { live, .. } => support(&live.columns, filter, ReadBy::Query),
            State::Declared { .. } => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(answer).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let State::Live { live, .. } = &self.state else {
            return None;
        };
        // Rows in the streaming buffer are not counted yet, so never exact.
        Some(Statistics {
            num_rows: live.rows.map_or(Precision::Absent, Precision::Inexact),
            ..Statistics::new_unknown(&live.schema)
        })
    }

    /// A NULL that [`PlanInserts`](super::insert::PlanInserts) can tell from one that
    /// was said.
    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.left_out.column(&self.schema(), column)
    }

    async fn insert_into(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let run = self.run(session)?;
        let (sink, when) = self.sink(session, &input, operation).await?;
        let write = BigQueryWriteExec::new(input, sink.clone()).committed(when);
        let commit = BigQueryCommitExec::new(Arc::new(write), sink).committed(when);
        Ok(Arc::new(commit.with_run(run)))
    }

    async fn delete_from(
        &self,
        _: &dyn Session,
        _: Vec<Expr>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse_change("DELETE")
    }

    async fn update(
        &self,
        _: &dyn Session,
        _: Vec<(String, Expr)>,
        _: Vec<Expr>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse_change("UPDATE")
    }

    async fn truncate(&self, _: &dyn Session) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse_change("TRUNCATE")
    }

    async fn merge_into(
        &self,
        _: &dyn Session,
        _: Arc<dyn ExecutionPlan>,
        _: DFSchemaRef,
        _: Expr,
        _: Vec<MergeIntoClause>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse_change("MERGE")
    }
}

/// How information_schema calls a kind of table.
pub(crate) fn table_type(kind: &TableKind) -> TableType {
    match kind {
        TableKind::View | TableKind::MaterializedView => TableType::View,
        TableKind::Table
        | TableKind::Snapshot
        | TableKind::External
        | TableKind::Wildcard
        | TableKind::Other(_) => TableType::Base,
    }
}
