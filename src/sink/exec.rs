//! The plan nodes of INSERT: writers side by side, and one commit on top of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
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
use futures::{StreamExt, TryStreamExt, stream};

use super::changes::{Places, RowChanges};
use super::checkpoint::Run;
use super::execution::{Committing, Execution};
use super::handover::{self, Handover};
use super::metrics::LiveMetrics;
use super::periodic::{self, Commits};
use super::protocol::{BigQuerySink, Committable};
use super::statement::{describe, written};
use crate::plan_node::{node, only};

/// Writes the rows of its input, each partition by a writer of its own. Its rows
/// are what the writers have prepared for the commit.
#[derive(Debug)]
pub struct BigQueryWriteExec {
    input: Arc<dyn ExecutionPlan>,
    sink: BigQuerySink,
    when: CommitTime,
    properties: Arc<PlanProperties>,
    metrics: Arc<LiveMetrics>,
}

/// When the rows of a plan are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitTime {
    /// When all are written.
    #[default]
    AtTheEnd,
    /// Those written so far, so long after the last time, and the rest at the end if
    /// there is one.
    Every(Duration),
}

impl BigQueryWriteExec {
    /// Writes `input` to `sink`, whose schema it has to have.
    pub fn new(input: Arc<dyn ExecutionPlan>, sink: BigQuerySink) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let when = CommitTime::AtTheEnd;
        let properties = properties(handover::schema(), partitions, when, &input);
        Self {
            input,
            sink,
            when,
            properties,
            metrics: Arc::default(),
        }
    }

    /// The same for a plan whose rows are committed then.
    #[must_use]
    pub fn committed(mut self, when: CommitTime) -> Self {
        let partitions = self.input.output_partitioning().partition_count();
        self.when = when;
        self.properties = properties(handover::schema(), partitions, when, &self.input);
        self
    }

    /// What is written to.
    pub fn sink(&self) -> &BigQuerySink {
        &self.sink
    }

    /// When the rows are committed.
    pub fn when(&self) -> CommitTime {
        self.when
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
    when: CommitTime,
    properties: Arc<PlanProperties>,
    metrics: Arc<LiveMetrics>,
}

impl BigQueryCommitExec {
    /// Commits what `input`, which ends in a [`BigQueryWriteExec`], prepares.
    pub fn new(input: Arc<dyn ExecutionPlan>, sink: BigQuerySink) -> Self {
        let when = CommitTime::AtTheEnd;
        let properties = properties(count_schema(), 1, when, &input);
        Self {
            input,
            sink,
            run: None,
            when,
            properties,
            metrics: Arc::default(),
        }
    }

    /// What is committed to.
    pub(super) fn sink(&self) -> &BigQuerySink {
        &self.sink
    }

    /// Whether there is one commit, of a statement that is executed once.
    pub(super) fn is_plain(&self) -> bool {
        self.run.is_none() && self.when == CommitTime::AtTheEnd
    }

    /// The same as a run that may be repeated.
    #[must_use]
    pub(crate) fn with_run(mut self, run: Option<Run>) -> Self {
        self.run = run;
        self
    }

    /// The same for a plan whose rows are committed then. From time to time there is a
    /// row with the number of rows committed so far after each commit.
    #[must_use]
    pub fn committed(mut self, when: CommitTime) -> Self {
        self.when = when;
        self.properties = properties(count_schema(), 1, when, &self.input);
        self
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, separator: &str) -> fmt::Result {
        write!(f, "table={}", self.sink.target())?;
        if let CommitTime::Every(interval) = self.when {
            write!(f, "{separator}checkpoint_interval={interval:?}")?;
        }
        match &self.run {
            Some(run) => write!(f, "{separator}run_id={}", run.id()),
            None => Ok(()),
        }
    }
}

fn count_schema() -> SchemaRef {
    let count = Field::new("count", DataType::UInt64, false);
    Arc::new(Schema::new(vec![count]))
}

fn counted(rows: u64) -> Result<RecordBatch> {
    let rows: ArrayRef = Arc::new(UInt64Array::from(vec![rows]));
    Ok(RecordBatch::try_new(count_schema(), vec![rows])?)
}

fn properties(
    schema: SchemaRef,
    partitions: usize,
    when: CommitTime,
    input: &Arc<dyn ExecutionPlan>,
) -> Arc<PlanProperties> {
    let (emission, boundedness) = match when {
        CommitTime::AtTheEnd => (EmissionType::Final, Boundedness::Bounded),
        CommitTime::Every(_) => (EmissionType::Incremental, input.boundedness()),
    };
    let properties = PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(partitions),
        emission,
        boundedness,
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
        let write = Self::new(only(self.name(), children)?, self.sink.clone());
        Ok(Arc::new(write.committed(self.when)))
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
        let execution = Execution::of(&context);
        let input = self.input.execute(partition, context)?;
        let (sink, metrics) = (self.sink.clone(), Arc::clone(&self.metrics));
        let schema = handover::schema();
        Ok(match (self.when, execution) {
            (CommitTime::Every(_), Some(execution)) => {
                let prepared = periodic::write(execution, &sink, partition, input, &metrics)?;
                Box::pin(RecordBatchStreamAdapter::new(schema, prepared))
            }
            (_, execution) => {
                let prepared = async move {
                    let execution = execution.as_deref();
                    let written = written(&sink, partition, input, &metrics, execution).await?;
                    Handover::new(partition, written, None).to_batch(partition)
                };
                let prepared = stream::once(prepared);
                Box::pin(RecordBatchStreamAdapter::new(schema, prepared))
            }
        })
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.now())
    }
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
        Ok(Arc::new(
            commit.with_run(self.run.clone()).committed(self.when),
        ))
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
        let metrics = Arc::clone(&self.metrics);
        let execution = Arc::new(Execution::new(self.sink.clone()));
        let below = execution.within(&context);
        if let CommitTime::Every(interval) = self.when {
            let input = self.input.execute(0, below)?;
            let commits = Commits::new(interval, execution, &self.sink, input, &metrics);
            let counts = commits.run().map(|rows| rows.and_then(counted));
            return Ok(Box::pin(RecordBatchStreamAdapter::new(
                self.schema(),
                counts,
            )));
        }
        let (input, sink, run) = (Arc::clone(&self.input), self.sink.clone(), self.run.clone());
        let committed = async move {
            let committing = Committing(Arc::clone(&execution));
            let prepared = prepared(input, below);
            let committer = sink.committer();
            metrics.committer(committer.counters());
            let outcome = match &run {
                Some(run) => {
                    run.complete(&execution, &committer, &context, prepared)
                        .await
                }
                None => match prepared.await {
                    Ok(prepared) => {
                        let committed = execution.commit(&committer, prepared).await;
                        committed.map_err(Into::into)
                    }
                    Err(error) => Err(error),
                },
            };
            drop(committing);
            counted(outcome?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
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
        committables.append(&mut Handover::of_batch(batch)?.committables);
    }
    Ok(committables)
}
