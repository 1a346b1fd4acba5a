//! The plan nodes of INSERT: writers side by side, and one commit on top of them.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, EvaluationType, ReplaceChildrenOptions,
    SchedulingType,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties,
};
use futures::{TryStreamExt, stream};

use super::changes::{Places, RowChanges};
use super::checkpoint::Run;
use super::metrics::LiveMetrics;
use super::protocol::{BigQuerySink, Committable};
use super::statement::{describe, written};
use crate::error::{Error, ErrorKind};
use crate::plan_node::{node, only};

/// Writes the rows of its input, each partition by a writer of its own. Its rows
/// are what the writers have prepared for the commit.
#[derive(Debug)]
pub struct BigQueryWriteExec {
    input: Arc<dyn ExecutionPlan>,
    sink: BigQuerySink,
    properties: Arc<PlanProperties>,
    metrics: Arc<LiveMetrics>,
}

impl BigQueryWriteExec {
    /// Writes `input` to `sink`, whose schema it has to have.
    pub fn new(input: Arc<dyn ExecutionPlan>, sink: BigQuerySink) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = properties(prepared_schema(), partitions);
        Self {
            input,
            sink,
            properties,
            metrics: Arc::default(),
        }
    }

    /// What is written to.
    pub fn sink(&self) -> &BigQuerySink {
        &self.sink
    }

    /// Whether the last change of a key is the one that arrives last.
    pub(crate) fn writes_by_arrival(&self) -> bool {
        let changes = self.changes();
        changes.is_some_and(|changes| changes.places() == Places::Arrival)
    }

    /// Whether rows are changes by key.
    pub(super) fn writes_changes(&self) -> bool {
        self.changes().is_some()
    }

    /// The columns of the key of changes, where they tell the keys apart.
    pub(super) fn key(&self) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
        let schema = self.input.schema();
        let columns = self.changes()?.key().iter().map(|name| {
            let at = schema.index_of(name).ok()?;
            Some(Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>)
        });
        let key = columns.collect::<Option<Vec<_>>>();
        key.filter(|key| !key.is_empty())
    }

    fn changes(&self) -> Option<&Arc<dyn RowChanges>> {
        self.sink.planned.as_ref()?.changes.as_ref()
    }
}

/// Commits what the writers below it have prepared, and answers how many rows
/// that are.
#[derive(Debug)]
pub struct BigQueryCommitExec {
    input: Arc<dyn ExecutionPlan>,
    sink: BigQuerySink,
    run: Option<Run>,
    properties: Arc<PlanProperties>,
    metrics: Arc<LiveMetrics>,
}

impl BigQueryCommitExec {
    /// Commits what `input`, which ends in a [`BigQueryWriteExec`], prepares.
    pub fn new(input: Arc<dyn ExecutionPlan>, sink: BigQuerySink) -> Self {
        let count = Field::new("count", DataType::UInt64, false);
        Self {
            input,
            sink,
            run: None,
            properties: properties(Arc::new(Schema::new(vec![count])), 1),
            metrics: Arc::default(),
        }
    }

    /// What is committed to.
    pub(super) fn sink(&self) -> &BigQuerySink {
        &self.sink
    }

    /// Whether this is a run that may be repeated.
    pub(super) fn is_repeatable(&self) -> bool {
        self.run.is_some()
    }

    /// The same as a run that may be repeated.
    #[must_use]
    pub(crate) fn with_run(mut self, run: Option<Run>) -> Self {
        self.run = run;
        self
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, separator: &str) -> fmt::Result {
        write!(f, "table={}", self.sink.target())?;
        match &self.run {
            Some(run) => write!(f, "{separator}run_id={}", run.id()),
            None => Ok(()),
        }
    }
}

fn prepared_schema() -> SchemaRef {
    let committable = Field::new("committable", DataType::Binary, false);
    Arc::new(Schema::new(vec![committable]))
}

fn properties(schema: SchemaRef, partitions: usize) -> Arc<PlanProperties> {
    let properties = PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Final,
        Boundedness::Bounded,
    )
    .with_scheduling_type(SchedulingType::Cooperative)
    .with_evaluation_type(EvaluationType::Eager);
    Arc::new(properties)
}

impl DisplayAs for BigQueryWriteExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        node(t, f, "BigQueryWriteExec", |f, separator| {
            describe(&self.sink, f, separator)
        })
    }
}

impl ExecutionPlan for BigQueryWriteExec {
    fn name(&self) -> &str {
        "BigQueryWriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// Changes of one key go to one writer.
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let distribution = match (self.writes_changes(), self.key()) {
            (false, _) => Distribution::UnspecifiedDistribution,
            (true, Some(key)) => Distribution::KeyPartitioned(key),
            // Nothing tells the keys apart before they are encoded.
            (true, None) => Distribution::SinglePartition,
        };
        InputDistributionRequirements::new(vec![distribution])
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(
            only(self.name(), children)?,
            self.sink.clone(),
        )))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (sink, metrics) = (self.sink.clone(), Arc::clone(&self.metrics));
        let prepared = async move { batch_of(&written(&sink, partition, input, &metrics).await?) };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            prepared_schema(),
            stream::once(prepared),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.now())
    }
}

fn batch_of(committables: &[Committable]) -> Result<RecordBatch> {
    let texts = committables
        .iter()
        .map(|committable| {
            serde_json::to_vec(committable).map_err(|error| {
                internal_datafusion_err!("a committable cannot be written down: {error}")
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let texts = BinaryArray::from_iter_values(texts);
    Ok(RecordBatch::try_new(
        prepared_schema(),
        vec![Arc::new(texts)],
    )?)
}

impl DisplayAs for BigQueryCommitExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        node(t, f, "BigQueryCommitExec", |f, separator| {
            self.write(f, separator)
        })
    }
}

impl ExecutionPlan for BigQueryCommitExec {
    fn name(&self) -> &str {
        "BigQueryCommitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let commit = Self::new(only(self.name(), children)?, self.sink.clone());
        Ok(Arc::new(commit.with_run(self.run.clone())))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count();
        if partition != 0 || partitions != 1 {
            return internal_err!(
                "a commit reads one partition, and was asked for {partition} over {partitions}"
            );
        }
        let (input, sink, run) = (Arc::clone(&self.input), self.sink.clone(), self.run.clone());
        let schema = self.schema();
        let answer = Arc::clone(&schema);
        let metrics = Arc::clone(&self.metrics);
        let committed = async move {
            let prepared = prepared(input, Arc::clone(&context));
            let committer = sink.committer();
            metrics.committer(committer.counters());
            let outcome = match &run {
                Some(run) => run.complete(&sink, &committer, &context, prepared).await,
                None => match prepared.await {
                    Ok(prepared) => committer.commit(prepared).await.map_err(Into::into),
                    Err(error) => Err(error),
                },
            };
            let rows = outcome?;
            let rows: ArrayRef = Arc::new(UInt64Array::from(vec![rows]));
            Ok(RecordBatch::try_new(answer, vec![rows])?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            stream::once(committed),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.now())
    }
}

/// Executes the writers. Nothing of it begins before this is waited for: a run that
/// was prepared before needs no writers.
async fn prepared(
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<Vec<Committable>> {
    let prepared: Vec<RecordBatch> = input.execute(0, context)?.try_collect().await?;
    let mut committables = Vec::new();
    for batch in &prepared {
        committables.append(&mut committables_of(batch)?);
    }
    Ok(committables)
}

fn committables_of(batch: &RecordBatch) -> Result<Vec<Committable>> {
    let texts = batch.column(0).as_binary::<i32>();
    texts
        .iter()
        .flatten()
        .map(|text| {
            serde_json::from_slice(text).map_err(|error| {
                DataFusionError::from(Error::new(
                    ErrorKind::Internal,
                    format!("what a writer prepared for the commit cannot be read: {error}"),
                ))
            })
        })
        .collect()
}
