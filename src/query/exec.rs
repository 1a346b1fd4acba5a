//! The plan node that runs a query job and reads its result.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::job::{Finished, JobTerms, Origin, Runs, SharedRuns};
use super::over_rest::{self, Pages};
use super::statement::{Conditions, Relation, alias};
use crate::client::Client;
use crate::client::rest::jobs::QueryParameters;
use crate::error::{Error, ErrorKind};
use crate::options::ScanOptions;
use crate::plan_node::{apply, node, one_line, short, write_list};
use crate::scan::{BigQueryScanExec, ReadSpec, Rounds, Snapshots, Source, StatementId, absorb};
use crate::types::{LineageDataset, TableSchema};

/// What a query is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuerySource {
    /// The user's own text, which is run as it is.
    Text {
        sql: String,
        parameters: QueryParameters,
        /// Bytes that it would read, by the dry run when it was planned.
        estimated_bytes: Option<u64>,
    },
    /// What a SELECT written here reads.
    Relation(Relation),
}

/// What all executions of a query have in common.
#[derive(Debug)]
pub(crate) struct JobSource {
    pub(crate) client: Client,
    pub(crate) query: QuerySource,
    pub(crate) terms: JobTerms,
    /// What there is to read.
    pub(crate) columns: TableSchema,
    /// How the result is read.
    pub(crate) options: ScanOptions,
    pub(crate) statement: StatementId,
    pub(crate) shared: Arc<SharedRuns>,
}

/// Runs a query as a job and reads its result.
///
/// The job starts when the first partition is polled, and is cancelled when all
/// are dropped before it ends.
#[derive(Debug)]
pub struct BigQueryQueryExec {
    source: Arc<JobSource>,
    spec: Arc<ReadSpec>,
    properties: Arc<PlanProperties>,
    rounds: Arc<Rounds<Round>>,
    runs: Mutex<Option<Arc<Runs>>>,
    /// The scans of the results, for their metrics.
    scans: Arc<Mutex<Vec<Arc<BigQueryScanExec>>>>,
    metrics: ExecutionPlanMetricsSet,
}

/// One execution.
#[derive(Debug)]
struct Round {
    number: usize,
    ready: OnceCell<Result<Ready, Arc<DataFusionError>>>,
    mode: Mutex<Mode>,
    /// Rows given out over REST.
    over_rest: AtomicUsize,
}

#[derive(Debug, Clone)]
struct Ready {
    finished: Arc<Finished>,
    scan: Arc<BigQueryScanExec>,
}

/// Over which interface a result is read. The first partition that gets an
/// answer decides for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Undecided,
    Storage,
    Rest,
}

/// What one partition of an execution needs.
struct Partition {
    source: Arc<JobSource>,
    spec: Arc<ReadSpec>,
    runs: Arc<Runs>,
    round: Arc<Round>,
    number: usize,
    partitions: usize,
    scans: Arc<Mutex<Vec<Arc<BigQueryScanExec>>>>,
    context: Arc<TaskContext>,
    metrics: QueryMetrics,
}

/// The counters of one partition.
struct QueryMetrics {
    baseline: BaselineMetrics,
    jobs_submitted: Count,
    jobs_reused: Count,
    bytes_processed: Count,
    rest_rows: Count,
}

/// Where a partition stands.
enum Position {
    Start,
    Storage(SendableRecordBatchStream, Ready),
    Rest(Pages, Ready, Option<RecordBatch>),
    End,
}

impl BigQueryQueryExec {
    pub(crate) fn new(source: Arc<JobSource>, spec: ReadSpec, partitions: usize) -> Self {
        let properties = PlanProperties::new(
            spec.equivalences(),
            Partitioning::UnknownPartitioning(partitions.max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            source,
            spec: Arc::new(spec),
            properties: Arc::new(properties),
            rounds: Arc::default(),
            runs: Mutex::default(),
            scans: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The view or external table that is read, without a request. None for a query of
    /// the user's own, and for tables that are named by a `*`.
    pub fn lineage(&self) -> Option<LineageDataset> {
        match &self.source.query {
            QuerySource::Relation(relation) if !relation.table.is_wildcard() => {
                Some(LineageDataset::of(&relation.table))
            }
            QuerySource::Relation(_) | QuerySource::Text { .. } => None,
        }
    }

    /// The query that runs.
    pub fn sql(&self) -> String {
        self.source.sql(&self.spec, Conditions::All)
    }

    /// The restriction with which the result is read; empty for none. A query
    /// that was written here has its conditions in itself.
    pub fn row_restriction(&self) -> String {
        match &self.source.query {
            QuerySource::Text { .. } => self.spec.restriction.text(),
            QuerySource::Relation(_) => String::new(),
        }
    }

    fn with_spec(&self, spec: ReadSpec) -> Self {
        Self::new(Arc::clone(&self.source), spec, self.partitions())
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// The runs of the query, shared with the statement's other scans of it.
    fn runs(&self) -> Arc<Runs> {
        let mut runs = self.runs.lock();
        Arc::clone(runs.get_or_insert_with(|| {
            let source = &self.source;
            let query = source.request(&self.spec, Conditions::All);
            source
                .shared
                .join(source.statement.clone(), &source.terms, &query)
        }))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, separator: &str) -> fmt::Result {
        let spec = &self.spec;
        write!(f, "project={}", self.source.terms.project)?;
        if let Some(location) = &self.source.terms.location {
            write!(f, "{separator}location={location}")?;
        }
        write!(f, "{separator}query={}", one_line(&self.sql()))?;
        if let QuerySource::Text {
            parameters,
            estimated_bytes,
            ..
        } = &self.source.query
        {
            match parameters {
                QueryParameters::None => {}
                QueryParameters::Named(named) => {
                    let names = named.iter().map(|(name, _)| name);
                    write_list(f, separator, "parameters", names)?;
                }
                QueryParameters::Positional(values) => {
                    write!(f, "{separator}parameters={}", values.len())?;
                }
            }
            if let Some(bytes) = estimated_bytes {
                write!(f, "{separator}estimated_bytes={bytes}")?;
            }
            write_list(f, separator, "selected_fields", &spec.selected_fields)?;
        }
        let restriction = self.row_restriction();
        if !restriction.is_empty() {
            write!(f, "{separator}row_restriction={}", short(&restriction))?;
        }
        write_list(f, separator, "projection", spec.outputs())?;
        write_list(f, separator, "local_filters", &spec.local_filters)?;
        if let Some(limit) = spec.limit {
            write!(f, "{separator}limit={limit}")?;
        }
        Ok(())
    }
}

impl JobSource {
    fn sql(&self, spec: &ReadSpec, conditions: Conditions) -> String {
        match &self.query {
            QuerySource::Text { sql, .. } => sql.clone(),
            QuerySource::Relation(relation) => relation.select(spec, conditions),
        }
    }

    fn request(
        &self,
        spec: &ReadSpec,
        conditions: Conditions,
    ) -> crate::client::rest::jobs::QueryRequest {
        let parameters = match &self.query {
            QuerySource::Text { parameters, .. } => parameters,
            QuerySource::Relation(_) => &QueryParameters::None,
        };
        self.terms.request(&self.sql(spec, conditions), parameters)
    }

    /// How the result is read: its columns as they are, from which the plan's are
    /// made here.
    fn result_spec(&self, spec: &ReadSpec) -> ReadSpec {
        let mut result = spec.clone();
        result.projector = None;
        // Conditions of a query are evaluated again above it.
        result.promised = Arc::default();
        if let QuerySource::Relation(_) = self.query {
            result.restriction = Default::default();
            result.columns = over_rest::renamed(&spec.columns, alias);
            for column in &mut result.selected_fields {
                if let Some(alias) = alias(column) {
                    *column = alias.to_string();
                }
            }
        }
        result.schema = Arc::clone(&result.columns);
        result
    }
}

impl Partition {
    /// The result and the scan that reads it, made by whoever asks first.
    async fn ready(&self) -> Result<Ready> {
        let ready = self.round.ready.get_or_init(|| async {
            let context = match &self.source.query {
                QuerySource::Text { .. } => "running the query".to_string(),
                QuerySource::Relation(relation) => format!("reading {}", relation.table),
            };
            self.run()
                .await
                .map_err(|error| match Error::find_in(&error) {
                    // The kind stays findable: the error is wrapped, not told anew.
                    Some(_) => Arc::new(error.context(context)),
                    None => Arc::new(error),
                })
        });
        ready
            .await
            .clone()
            .map_err(|error| DataFusionError::Shared(Arc::clone(&error)))
    }

    async fn run(&self) -> Result<Ready> {
        let finished = self.finish().await?;
        match finished.origin {
            Origin::Submitted => self.metrics.jobs_submitted.add(1),
            Origin::Reused => self.metrics.jobs_reused.add(1),
        }
        let bytes = finished.job.bytes_processed.unwrap_or(0);
        self.metrics
            .bytes_processed
            .add(usize::try_from(bytes).unwrap_or(usize::MAX));
        tracing::debug!(
            job = %finished.job.reference,
            table = %finished.table,
            bytes,
            "query finished"
        );
        let source = Source {
            client: self.source.client.clone(),
            table: finished.table.clone(),
            columns: self.source.columns.clone(),
            // A result is there once and stays as it is.
            snapshot: Snapshots::default().join(self.source.statement.clone(), &finished.table),
            options: self.source.options.clone(),
            found_at: None,
        };
        let spec = self.source.result_spec(&self.spec);
        let scan = BigQueryScanExec::new(Arc::new(source), spec, self.partitions, None);
        let ready = Ready {
            finished: Arc::new(finished),
            scan: Arc::new(scan),
        };
        self.scans.lock().push(Arc::clone(&ready.scan));
        Ok(ready)
    }

    /// Runs the query. A refusal of a condition that we wrote is no reason to
    /// fail: the engine evaluates it in any case.
    async fn finish(&self) -> Result<Finished> {
        let JobSource { client, terms, .. } = self.source.as_ref();
        let number = self.round.number;
        let query = self.source.request(&self.spec, Conditions::All);
        let refused = match self.runs.finished(number, client, terms, &query).await {
            Ok(finished) => return Ok(finished),
            Err(error) => error,
        };
        let fallback = self.source.request(&self.spec, Conditions::Required);
        let is_refusal = Error::find_in(&refused)
            .is_some_and(|error| error.kind() == ErrorKind::InvalidArgument);
        if !is_refusal || fallback.sql == query.sql {
            return Err(refused);
        }
        let without = Arc::<Runs>::default();
        match without.finished(0, client, terms, &fallback).await {
            Ok(finished) => {
                tracing::warn!(
                    error = %refused,
                    "the service refused a generated condition; the filter runs locally instead"
                );
                Ok(finished)
            }
            // Not the condition's fault: the first answer is about what was asked.
            Err(_) => Err(refused),
        }
    }

    /// The next batch and the position after it.
    async fn next(&self, mut position: Position) -> Result<Option<(RecordBatch, Position)>> {
        loop {
            position = match position {
                Position::Start => {
                    let ready = self.ready().await?;
                    let stream = ready.scan.execute(self.number, Arc::clone(&self.context))?;
                    Position::Storage(stream, ready)
                }
                Position::Storage(mut stream, ready) => match stream.next().await {
                    None => Position::End,
                    Some(Ok(batch)) => {
                        let mut mode = self.round.mode.lock();
                        match *mode {
                            // Another partition reads all rows.
                            Mode::Rest => Position::End,
                            Mode::Undecided | Mode::Storage => {
                                *mode = Mode::Storage;
                                let position = Position::Storage(stream, ready);
                                return Ok(Some((self.named(batch)?, position)));
                            }
                        }
                    }
                    Some(Err(error)) => self.instead(error, ready)?,
                },
                Position::Rest(pages, ready, Some(rest)) if rest.num_rows() > 0 => {
                    let wanted = self.context.session_config().batch_size().max(1);
                    let given = self.round.over_rest.load(Ordering::Relaxed);
                    let left = self
                        .spec
                        .limit
                        .map_or(usize::MAX, |limit| limit.saturating_sub(given));
                    let rows = rest.num_rows().min(wanted).min(left);
                    if rows == 0 {
                        return Ok(None);
                    }
                    self.round.over_rest.fetch_add(rows, Ordering::Relaxed);
                    self.metrics.rest_rows.add(rows);
                    let batch = self.named(rest.slice(0, rows))?;
                    let batch = batch.record_output(&self.metrics.baseline);
                    let rest = rest.slice(rows, rest.num_rows() - rows);
                    return Ok(Some((batch, Position::Rest(pages, ready, Some(rest)))));
                }
                Position::Rest(mut pages, ready, _) => {
                    let schema = over_rest::renamed(&self.spec.columns, |name| self.alias(name));
                    let page = pages
                        .next(&self.source.client, &ready.finished, &schema)
                        .await?;
                    match page {
                        Some(batch) => Position::Rest(pages, ready, Some(batch)),
                        None => Position::End,
                    }
                }
                Position::End => return Ok(None),
            };
        }
    }

    fn alias(&self, name: &str) -> Option<&'static str> {
        match self.source.query {
            QuerySource::Relation(_) => alias(name),
            QuerySource::Text { .. } => None,
        }
    }

    /// Whether there is another way where the Storage Read API refused.
    fn instead(&self, error: DataFusionError, ready: Ready) -> Result<Position> {
        let denied =
            Error::find_in(&error).is_some_and(|error| error.kind() == ErrorKind::PermissionDenied);
        let spec = self.source.result_spec(&self.spec);
        let mut mode = self.round.mode.lock();
        match *mode {
            Mode::Rest => Ok(Position::End),
            Mode::Undecided if denied && over_rest::suffices(&spec) => {
                *mode = Mode::Rest;
                tracing::info!(%error, "no read session: the result is read over REST");
                Ok(Position::Rest(Pages::default(), ready, None))
            }
            Mode::Undecided | Mode::Storage => Err(error),
        }
    }

    /// The plan's rows from those of the result.
    fn named(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(
            Arc::clone(&self.spec.columns),
            batch.columns().to_vec(),
            &options,
        )?;
        self.spec.project(batch)
    }
}

impl DisplayAs for BigQueryQueryExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        node(t, f, self.name(), |f, separator| self.write(f, separator))
    }
}

impl ExecutionPlan for BigQueryQueryExec {
    fn name(&self) -> &str {
        "BigQueryQueryExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply(self.spec.outputs().map(|output| &output.expr), f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("a query job has no inputs, and got {}", children.len());
        }
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut fresh = self.with_spec(self.spec.as_ref().clone());
        // The counters go on: they are about the node, not about one run of it.
        fresh.metrics = self.metrics.clone();
        fresh.scans = Arc::clone(&self.scans);
        Ok(Arc::new(fresh))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.partitions();
        if partition >= partitions {
            return internal_err!("partition {partition} of {partitions} does not exist");
        }
        let count = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, partition);
        let metrics = QueryMetrics {
            baseline: BaselineMetrics::new(&self.metrics, partition),
            jobs_submitted: count("jobs_submitted"),
            jobs_reused: count("jobs_reused"),
            bytes_processed: count("bytes_processed"),
            rest_rows: count("rest_rows"),
        };
        let reader = Arc::new(Partition {
            source: Arc::clone(&self.source),
            spec: Arc::clone(&self.spec),
            runs: self.runs(),
            round: self.rounds.join(partition, partitions, |number| Round {
                number,
                ready: OnceCell::new(),
                mode: Mutex::new(Mode::Undecided),
                over_rest: AtomicUsize::new(0),
            }),
            number: partition,
            partitions,
            scans: Arc::clone(&self.scans),
            context,
            metrics,
        });
        let schema = Arc::clone(&self.spec.schema);
        let start = (reader, Position::Start);
        let batches = futures::stream::try_unfold(start, |(reader, position)| async move {
            let next = reader.next(position).await?;
            Ok(next.map(|(batch, position)| (batch, (reader, position))))
        });
        let stream = RecordBatchStreamAdapter::new(schema, batches.into_stream().boxed());
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        for scan in self.scans.lock().iter() {
            for metric in scan.metrics().unwrap_or_default().iter() {
                metrics.push(Arc::clone(metric));
            }
        }
        Some(metrics)
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.spec.schema)))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let spec = ReadSpec {
            limit,
            ..self.spec.as_ref().clone()
        };
        Some(Arc::new(self.with_spec(spec)))
    }

    fn fetch(&self) -> Option<usize> {
        self.spec.limit
    }

    /// Reads only what the projection needs, fields of structs included.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let spec = absorb(&self.spec, projection.expr())?;
        Ok(spec.map(|spec| Arc::new(self.with_spec(spec)) as Arc<dyn ExecutionPlan>))
    }
}
