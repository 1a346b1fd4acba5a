//! How the writers of an INSERT stand side by side, decided after the engine's own rules,
//! which divide a plan as they see fit.
//!
//! With option `sink.parallelism` there are so many writers: rows are dealt out to them
//! in turn, and changes by their keys, so that the changes of one key stay in order. One
//! writer whose rows go to one table needs no nodes of ours: it is a [`BigQueryDataSink`]
//! in DataFusion's node.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::data_sink::BigQueryDataSink;
use super::exec::{BigQueryCommitExec, BigQueryWriteExec};

/// Arranges the writers of INSERT statements.
#[derive(Debug)]
pub(crate) struct ArrangeWriters;

impl PhysicalOptimizerRule for ArrangeWriters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let arranged = plan.transform_down(|node| match arranged(&node)? {
            Some(node) => Ok(Transformed::yes(node)),
            None => Ok(Transformed::no(node)),
        })?;
        Ok(arranged.data)
    }

    fn name(&self) -> &str {
        "bigquery_arrange_writers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The commit over other writers; None where they are as they should be.
fn arranged(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(commit) = node.downcast_ref::<BigQueryCommitExec>() else {
        return Ok(None);
    };
    let below = node.children()[0];
    let writers = match below.downcast_ref::<CoalescePartitionsExec>() {
        Some(gathered) => gathered.input(),
        None => below,
    };
    let Some(write) = writers.downcast_ref::<BigQueryWriteExec>() else {
        return Ok(None);
    };
    let given = writers.children()[0];
    let input = spread(write, given)?;
    let alone = input.output_partitioning().partition_count() == 1;
    if alone && commit.sink().table().is_some() && commit.is_plain() && !write.writes_changes() {
        let sink = BigQueryDataSink::new(commit.sink().clone());
        let node = DataSinkExec::new(input, Arc::new(sink), None);
        return Ok(Some(Arc::new(node)));
    }
    if Arc::ptr_eq(&input, given) {
        return Ok(None);
    }
    let moved = BigQueryWriteExec::new(input, write.sink().clone());
    let write = Arc::new(moved.committed(write.when()));
    let below: Arc<dyn ExecutionPlan> = match alone {
        true => write,
        false => Arc::new(CoalescePartitionsExec::new(write)),
    };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Some(
        Arc::clone(node).replace_children(vec![below], options)?,
    ))
}

/// The input of writers in as many partitions as the options say.
fn spread(
    write: &BigQueryWriteExec,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(wanted) = write.sink().parallelism() else {
        return Ok(Arc::clone(input));
    };
    // What the engine has divided for this node is divided otherwise.
    let source = match input.downcast_ref::<RepartitionExec>() {
        Some(divided) => divided.input(),
        None => input,
    };
    let parts = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
    if parts(input) == wanted {
        return Ok(Arc::clone(input));
    }
    let divided = match wanted {
        1 if parts(source) == 1 => return Ok(Arc::clone(source)),
        1 => return Ok(Arc::new(CoalescePartitionsExec::new(Arc::clone(source)))),
        _ if !write.writes_changes() && parts(source) == wanted => return Ok(Arc::clone(source)),
        _ if !write.writes_changes() => Partitioning::RoundRobinBatch(wanted),
        _ => match write.key() {
            Some(key) => Partitioning::Hash(key, wanted),
            None => {
                return plan_err!(
                    "option 'sink.parallelism' cannot be {wanted}: nothing tells the keys of the \
                     changes of {} apart before they are written, so one writer takes all of \
                     them",
                    write.sink().target()
                );
            }
        },
    };
    Ok(Arc::new(RepartitionExec::try_new(
        Arc::clone(source),
        divided,
    )?))
}
