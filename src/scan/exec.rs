//! The plan node that reads a BigQuery table.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};

use super::dynamic::LateFilters;
use super::execution::{Executions, Source};

use super::guard::Sent;
use super::metrics::ScanMetrics;
use super::prune;
use super::spec::ReadSpec;
use super::stream::PartitionReader;
use crate::filter::translate::takes_values;
use crate::plan_node::{apply, node, short, write_list};
use crate::types::{LineageDataset, TableRef};

/// Of the rows of a table one in so many passes a filter, as the planner takes it where it
/// knows no better: DataFusion's `default_filter_selectivity` is 20 per cent.
const FILTERED_SHARE: usize = 5;

/// Reads a BigQuery table through the Storage Read API.
///
/// The partitions share one read session, which opens when the first of them is
/// polled, and take its streams from one queue. Rows come in no order.
#[derive(Debug)]
pub struct BigQueryScanExec {
    source: Arc<Source>,
    spec: Arc<ReadSpec>,
    late_filters: LateFilters,
    /// Rows of the table by its metadata, which lags behind.
    table_rows: Option<usize>,
    properties: Arc<PlanProperties>,
    executions: Arc<Executions>,
    metrics: ExecutionPlanMetricsSet,
}

impl BigQueryScanExec {
    pub(crate) fn new(
        source: Arc<Source>,
        spec: ReadSpec,
        partitions: usize,
        table_rows: Option<usize>,
    ) -> Self {
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
            late_filters: LateFilters::default(),
            table_rows,
            properties: Arc::new(properties),
            executions: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The table that is read.
    pub fn table(&self) -> &TableRef {
        &self.source.table
    }

    /// The data set that is read, without a request; None for the hidden result of a
    /// query, which is of nobody's.
    pub fn lineage(&self) -> Option<LineageDataset> {
        let table = &self.source.table;
        let hidden = table.dataset.starts_with('_');
        (!hidden).then(|| LineageDataset::of(table))
    }

    /// The columns that the read session is asked for. Should the service refuse the
    /// restriction, those of its filters are asked for as well; once the scan has run,
    /// they are here.
    pub fn selected_fields(&self) -> Vec<String> {
        match self.executions.asked() {
            Some(asked) => asked.selected_fields,
            None => self.spec.planned_fields(),
        }
    }

    /// The filters of which the last session's restriction says nothing or not all.
    fn local_filters(&self) -> Vec<String> {
        let mut filters = self.spec.local_filters.clone();
        let asked = self.executions.asked();
        if asked.is_some_and(|asked| asked.sent == Sent::WithoutGenerated) {
            filters.extend(self.spec.restricted_filters());
        }
        filters
    }

    /// The restriction that the read session is asked for; empty for none. Once
    /// the scan has run, that of its last session, with the keys of joins in it.
    pub fn row_restriction(&self) -> String {
        match self.executions.asked() {
            Some(asked) => asked.restriction,
            None => self.spec.restriction.text(),
        }
    }

    /// Rows of the table by its metadata.
    pub(super) fn table_rows(&self) -> Option<u64> {
        self.table_rows.and_then(|rows| u64::try_from(rows).ok())
    }

    pub(super) fn late_filters(&self) -> &LateFilters {
        &self.late_filters
    }

    /// The scan with these late filters, as if it had never run.
    pub(super) fn with_late_filters(&self, late_filters: LateFilters) -> Self {
        Self {
            source: Arc::clone(&self.source),
            spec: Arc::clone(&self.spec),
            late_filters,
            table_rows: self.table_rows,
            // The same, so that what is known of the operators above still holds.
            properties: Arc::clone(&self.properties),
            executions: Arc::default(),
            metrics: self.metrics.clone(),
        }
    }

    /// The scan with other terms, as if it had never run. Its late filters are
    /// about other columns than it has now, or their operators have new ones.
    fn with_spec(&self, spec: ReadSpec) -> Self {
        let source = Arc::clone(&self.source);
        Self::new(source, spec, self.partitions(), self.table_rows)
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, separator: &str) -> fmt::Result {
        let spec = &self.spec;
        write!(f, "table={}", self.source.table)?;
        write_list(f, separator, "selected_fields", self.selected_fields())?;
        let restriction = self.row_restriction();
        if !restriction.is_empty() {
            write!(f, "{separator}row_restriction={}", short(&restriction))?;
        }
        write_list(f, separator, "projection", spec.outputs())?;
        write_list(f, separator, "local_filters", self.local_filters())?;
        let awaited = self.late_filters.awaited_columns();
        write_list(f, separator, "late_filters", &awaited)?;
        if let Some(limit) = spec.limit {
            write!(f, "{separator}limit={limit}")?;
        }
        if let Some(time) = self.source.options.snapshot_time {
            write!(f, "{separator}snapshot_time={}", time.to_rfc3339())?;
        }
        if let Some(percentage) = self.source.options.sample_percentage {
            write!(f, "{separator}sample_percentage={percentage}")?;
        }
        Ok(())
    }
}

impl DisplayAs for BigQueryScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        node(t, f, self.name(), |f, separator| self.write(f, separator))
    }
}

impl ExecutionPlan for BigQueryScanExec {
    fn name(&self) -> &str {
        "BigQueryScanExec"
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
        // A filter that nobody shows is not computed.
        let shown = self.late_filters.shown();
        let outputs = self.spec.outputs().map(|output| &output.expr);
        apply(shown.chain(outputs), f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("a BigQuery scan has no inputs, and got {}", children.len());
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
        let reader = PartitionReader {
            source: Arc::clone(&self.source),
            spec: Arc::clone(&self.spec),
            late_filters: self.late_filters.clone(),
            execution: self.executions.join(partition, partitions),
            partition,
            partitions,
            config: Arc::clone(context.session_config().options()),
            metrics: ScanMetrics::new(&self.metrics, partition),
            counters: Arc::default(),
        };
        Ok(reader.into_stream(context))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.spec.schema);
        // Streams are handed out as partitions ask for them.
        if args.partition().is_none() {
            let kept = self.table_rows.map(|rows| match self.spec.promised.len() {
                0 => rows,
                _ => rows / FILTERED_SHARE,
            });
            let rows = match (kept, self.spec.limit) {
                (Some(rows), Some(limit)) => Some(rows.min(limit)),
                (rows, _) => rows,
            };
            statistics.num_rows = rows.map_or(Precision::Absent, Precision::Inexact);
            statistics.calculate_total_byte_size(&self.spec.schema);
        }
        Ok(Arc::new(statistics))
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

    /// Keeps the filters that are completed while the query runs. Every one of
    /// them is evaluated above the scan again.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let filters = &child_pushdown_result.parent_filters;
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(vec![
            PushedDown::No;
            filters.len()
        ]);
        let options = &self.source.options;
        // With a limit, other rows would be counted.
        let wanted = phase == FilterPushdownPhase::Post
            && options.pushdown_filters
            && options.dynamic_filters
            && self.spec.limit.is_none();
        if !wanted {
            return Ok(answer);
        }
        let offered = filters
            .iter()
            .map(|filter| self.spec.over_columns(&filter.filter))
            .collect::<Result<Vec<_>>>()?;
        let (table, columns) = (&self.source.columns, &self.spec.columns);
        let of_use = |key: &Arc<dyn PhysicalExpr>| takes_values(table, key, columns);
        Ok(match self.late_filters.offered(&offered, of_use) {
            Some(late_filters) => {
                answer.with_updated_node(Arc::new(self.with_late_filters(late_filters)))
            }
            None => answer,
        })
    }

    /// Reads only what the projection needs, fields of structs included.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let spec = prune::absorb(&self.spec, projection.expr())?;
        Ok(spec.map(|spec| Arc::new(self.with_spec(spec)) as Arc<dyn ExecutionPlan>))
    }
}
