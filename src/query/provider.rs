//! The result of a query that the user wrote, as a table.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::not_impl_err;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::exec::{BigQueryQueryExec, JobSource, QuerySource};
use super::job::{JobTerms, SharedRuns};
use crate::client::Client;
use crate::client::rest::job_model::DryRun;
use crate::client::rest::jobs::QueryParameters;
use crate::error::{Error, ErrorKind, Result};
use crate::options::registry::SCAN_MATERIALIZE_VIEWS;
use crate::options::{BigQueryOptions, Options, RawOptions, ScanOptions, TimestampPrecision};
use crate::scan::{Pushdown, ReadBy, ReadSpec, StatementId, support};
use crate::types::{TableSchema, arrow};

/// A SELECT that the user wrote, read as a table: each statement that names it
/// runs it. Projection, conditions and limit of the statement go to the read
/// session on the result, never into the user's text.
#[derive(Debug)]
pub struct BigQueryQueryTable {
    context: QueryContext,
    project: String,
    sql: String,
    parameters: QueryParameters,
    columns: TableSchema,
    schema: SchemaRef,
    precision: TimestampPrecision,
    estimated_bytes: Option<u64>,
}

/// What the query tables of a session share.
#[derive(Debug, Clone)]
pub(crate) struct QueryContext {
    pub(crate) client: Client,
    pub(crate) shared: Arc<SharedRuns>,
    /// Options under those of the session; `scan.query` is one of them.
    pub(crate) options: RawOptions,
}

impl BigQueryQueryTable {
    /// The result of `sql`, run by `project`. A dry run finds its columns;
    /// nothing is billed yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the query is wrong;
    /// [`ErrorKind::Unsupported`] when it is no SELECT: the service says what
    /// kind of statement it is, its text is not looked at.
    pub(crate) async fn open(
        context: QueryContext,
        project: String,
        sql: String,
        parameters: QueryParameters,
        defaults: &RawOptions,
    ) -> Result<Self> {
        let options = resolve(&context.options, defaults)?;
        let terms = JobTerms::new(project.clone(), &options)?;
        let request = terms.request(&sql, &parameters);
        let described = context
            .client
            .dry_run(&request)
            .await
            .map_err(|error| error.with_context("planning the query"))?;
        check_select(&described)?;
        let precision = options.scan.timestamp_precision;
        let schema = arrow::table_schema(&described.schema, precision);
        check_names(&described.schema)?;
        Ok(Self {
            context,
            project,
            sql,
            parameters,
            schema,
            columns: described.schema,
            precision,
            estimated_bytes: described.bytes_processed,
        })
    }
}

/// The options of the query over the session's, of which one is about views
/// only.
fn resolve(own: &RawOptions, defaults: &RawOptions) -> Result<Options> {
    let mut defaults = defaults.clone();
    defaults.unset(SCAN_MATERIALIZE_VIEWS.name)?;
    Options::resolve_over(own, &defaults)
}

fn check_select(described: &DryRun) -> Result<()> {
    match described.statement_type.as_deref() {
        Some("SELECT") => Ok(()),
        other => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "only a SELECT can be read as a table, and this is {}: nothing was run",
                match other {
                    Some("SCRIPT") => "a script of several statements".to_string(),
                    Some(kind) => format!("a statement of type {kind}"),
                    None => "a statement of no known type".to_string(),
                }
            ),
        )),
    }
}

/// A result that goes into a table has a name for each column, and no name
/// twice.
fn check_names(columns: &TableSchema) -> Result<()> {
    for (position, field) in columns.fields.iter().enumerate() {
        let twin = columns.fields[..position]
            .iter()
            .find(|earlier| earlier.is_named(&field.name));
        if let Some(twin) = twin {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "the query has columns '{}' and '{}', which BigQuery takes for one: give one \
                     of them another name with AS",
                    twin.name, field.name
                ),
            ));
        }
    }
    Ok(())
}

#[async_trait]
impl TableProvider for BigQueryQueryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let defaults = BigQueryOptions::of(session.config_options());
        let options = resolve(&self.context.options, &defaults)?;
        let pushdown = match options.scan.pushdown_filters {
            true => Pushdown::Filters,
            false => Pushdown::Nothing,
        };
        let spec = ReadSpec::new(
            &self.columns,
            &self.schema,
            projection.map(Vec::as_slice),
            filters,
            pushdown,
            options.scan.row_restriction.as_deref(),
            limit,
        )?;
        let terms = JobTerms::new(self.project.clone(), &options)?;
        let partitions = partitions(session, &options.scan);
        let source = JobSource {
            client: self.context.client.clone(),
            query: QuerySource::Text {
                sql: self.sql.clone(),
                parameters: self.parameters.clone(),
                estimated_bytes: self.estimated_bytes,
            },
            terms,
            columns: self.columns.clone(),
            options: of_results(options.scan, self.precision),
            statement: statement(session),
            shared: Arc::clone(&self.context.shared),
        };
        let exec = BigQueryQueryExec::new(Arc::new(source), spec, partitions);
        Ok(Arc::new(exec))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        let answer = |filter: &&Expr| support(&self.columns, filter, ReadBy::Query);
        Ok(filters.iter().map(answer).collect())
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        _: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        not_impl_err!("the result of a query cannot be written: name a table")
    }
}

/// How many partitions a scan has.
pub(crate) fn partitions(session: &dyn Session, options: &ScanOptions) -> usize {
    let wanted = session.config().target_partitions();
    match usize::try_from(options.max_stream_count) {
        Ok(0) | Err(_) => wanted,
        Ok(most) => wanted.min(most),
    }
}

/// The statement that a session is planning.
pub(crate) fn statement(session: &dyn Session) -> StatementId {
    StatementId {
        session: session.session_id().to_string(),
        began: session.execution_props().query_execution_start_time,
    }
}

/// The options for reading a result: what is about the source has been done by
/// the query, and the result itself costs nothing to read.
pub(crate) fn of_results(options: ScanOptions, precision: TimestampPrecision) -> ScanOptions {
    ScanOptions {
        row_restriction: None,
        snapshot_time: None,
        sample_percentage: None,
        max_bytes_scanned: None,
        timestamp_precision: precision,
        ..options
    }
}
