//! Keeping the order in which a plan gives changes that have no sequence numbers.
//!
//! Changes of one key are applied as they arrive, so from the plan to the service they
//! must stay in order. The engine sees no reason for that: it drops an ORDER BY whose
//! order nobody asks for, and deals batches out to partitions in turn. [`keep`] asks for
//! the order of an ORDER BY where the plan is made, and [`KeepChangeOrder`], after the
//! engine's own rules, takes the dealing out and makes sure that what is divided by key
//! comes from one place.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, OrderingRequirements, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties,
};

use crate::plan_node::only;
use crate::sink::BigQueryWriteExec;

/// The plan with an order that is asked for, if it ends in an ORDER BY.
pub(crate) fn keep(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let found = plan.transform_down(|node| {
        if node.downcast_ref::<SortExec>().is_some() {
            let kept = KeepOrderExec::new(node);
            return Ok(Transformed::new(
                Arc::new(kept) as _,
                true,
                TreeNodeRecursion::Stop,
            ));
        }
        // An order below a join or a union is not the plan's.
        match node.children().len() {
            1 => Ok(Transformed::no(node)),
            _ => Ok(Transformed::new(node, false, TreeNodeRecursion::Stop)),
        }
    })?;
    Ok(found.data)
}

/// Gives its input on as it is, and needs it in the order of the sort below.
#[derive(Debug)]
pub(crate) struct KeepOrderExec {
    input: Arc<dyn ExecutionPlan>,
    order: Option<OrderingRequirements>,
}

impl KeepOrderExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let order = input.output_ordering().cloned();
        Self {
            input,
            order: order.map(OrderingRequirements::from),
        }
    }
}

impl DisplayAs for KeepOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BigQueryKeepOrderExec")
    }
}

impl ExecutionPlan for KeepOrderExec {
    fn name(&self) -> &str {
        "BigQueryKeepOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        Ok(Arc::new(Self {
            input: only(self.name(), children)?,
            order: self.order.clone(),
        }))
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
        self.input.execute(partition, context)
    }
}

/// Makes sure that changes without sequence numbers are written in the order in which
/// the plan gives them.
#[derive(Debug)]
pub(crate) struct KeepChangeOrder;

impl PhysicalOptimizerRule for KeepChangeOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let kept = plan.transform_up(|node| {
            let Some(write) = node.downcast_ref::<BigQueryWriteExec>() else {
                return Ok(Transformed::no(node));
            };
            if !write.writes_by_arrival() {
                return Ok(Transformed::no(node));
            }
            let table = write.sink().target();
            let input = undealt(Arc::clone(node.children()[0]))?;
            let source = match input.downcast_ref::<RepartitionExec>() {
                Some(divided) => Arc::clone(divided.input()),
                None => Arc::clone(&input),
            };
            let parts = source.output_partitioning().partition_count();
            if parts > 1 {
                return plan_err!(
                    "changes of {table} have no sequence numbers, and come from {parts} parts that \
                     are read side by side, so the last change of a key would be any of them: \
                     write _CHANGE_SEQUENCE_NUMBER, or end an INSERT with ORDER BY"
                );
            }
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(
                node.replace_children(vec![input], options)?,
            ))
        })?;
        Ok(kept.data)
    }

    fn name(&self) -> &str {
        "bigquery_keep_change_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan without nodes that deal the batches of one partition out in turn.
fn undealt(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let undealt = plan.transform_up(|node| {
        let dealt = node
            .downcast_ref::<RepartitionExec>()
            .filter(|repartition| {
                matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_))
                    && repartition.input().output_partitioning().partition_count() == 1
            });
        match dealt.map(|dealt| Arc::clone(dealt.input())) {
            Some(input) => Ok(Transformed::yes(input)),
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(undealt.data)
}
