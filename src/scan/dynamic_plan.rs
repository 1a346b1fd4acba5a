//! Which late filters a scan waits for, decided over the whole plan.
//!
//! A scan that waits for a join's keys gives no rows, and that must never be the
//! reason why the keys are not known. Two facts make it so.
//!
//! **The wait itself delays nobody.** It is for the filter of a join whose probe
//! side holds the scan, so whatever the scan gives, that join is the only one to
//! get it; and the join takes nothing from its probe side before its filter is
//! complete. Operators in between may ask the scan early (CoalescePartitions,
//! SortPreservingMerge and Repartition start their inputs on their own), but what
//! they get waits in front of the join. Filters of joins for which this does not
//! hold are not awaited.
//!
//! **The join gets there.** A join whose filter somebody uses completes it when
//! every one of its partitions has its build side, and each partition waits for
//! that. A partition that nobody asks holds up the others for ever. Partitions
//! are left unasked below an operator that gives up a partition after seeing one
//! of its inputs, such as a partitioned join without build rows. If the abandoned
//! join is partitioned itself, it notices when it is dropped; a join whose
//! partitions share one build side does not, and neither may one below an
//! operator that is unknown here. Then the scan hides the filter, nobody uses it,
//! and the join does not wait.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode, SortMergeJoinExec,
};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use super::dynamic::Stance;
use super::exec::BigQueryScanExec;

/// Decides for every BigQuery scan of a plan which late filters it waits for.
/// It has to run after DataFusion's own rules, the last of which push the
/// filters down.
#[derive(Debug, Default)]
pub(crate) struct SettleLateFilters;

impl PhysicalOptimizerRule for SettleLateFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        settle(plan, &Above::default())
    }

    fn name(&self) -> &str {
        "bigquery_late_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// How the partitions of an operator are asked for rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Asked {
    /// All of them, whatever becomes of any.
    #[default]
    All,
    /// Some may be dropped without having been asked.
    AllOrDropped,
    /// Unknown: maybe one after the other.
    Unknown,
}

/// What lies above an operator.
#[derive(Debug, Clone, Default)]
struct Above {
    /// Filters that may be awaited, by expression id.
    awaited: Vec<u64>,
    /// Filters to take as they stand.
    noted: Vec<u64>,
    asked: Asked,
}

fn settle(plan: Arc<dyn ExecutionPlan>, above: &Above) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = plan.downcast_ref::<BigQueryScanExec>() {
        return Ok(match scan.late_filters().is_empty() {
            true => plan,
            false => Arc::new(scan.with_late_filters(scan.late_filters().decided(|id| {
                if above.awaited.contains(&id) {
                    Some(Stance::Awaited)
                } else if above.noted.contains(&id) {
                    Some(Stance::Noted)
                } else {
                    None
                }
            }))),
        });
    }
    let children = plan.children();
    if children.is_empty() {
        return Ok(plan);
    }
    let settled = children
        .into_iter()
        .enumerate()
        .map(|(position, child)| {
            settle(
                Arc::clone(child),
                &below(plan.as_ref(), position, child, above),
            )
        })
        .collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, settled)
}

/// What lies above the input `child`, at `position`, of `plan`.
fn below(
    plan: &dyn ExecutionPlan,
    position: usize,
    child: &Arc<dyn ExecutionPlan>,
    above: &Above,
) -> Above {
    // Runs its inputs again and again, each time with new filters that nobody
    // has pushed.
    if plan.is::<RecursiveQueryExec>() {
        return Above {
            asked: Asked::Unknown,
            ..Above::default()
        };
    }
    let mut below = above.clone();
    below.asked = match child.output_partitioning().partition_count() {
        // There are no others to hold up.
        0 | 1 => Asked::All,
        _ => asked(plan, position, child, above.asked),
    };
    let produced = plan.dynamic_expressions_produced();
    let ids = produced.iter().filter_map(|filter| filter.expression_id());
    match plan.downcast_ref::<HashJoinExec>() {
        Some(join) if position == 1 && completes(join, above.asked) => below.awaited.extend(ids),
        None if plan.is::<SortExec>() || plan.is::<AggregateExec>() => below.noted.extend(ids),
        // The build side of a join, a join that may not get there, and operators
        // whose filters nobody has looked at.
        Some(_) | None => {}
    }
    below
}

/// How the partitions of the input at `position` are asked, when those of
/// `plan` are asked like this.
fn asked(
    plan: &dyn ExecutionPlan,
    position: usize,
    child: &Arc<dyn ExecutionPlan>,
    above: Asked,
) -> Asked {
    // They start or poll all of their inputs.
    if plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<AnalyzeExec>()
    {
        return Asked::All;
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return match (join.partition_mode(), position) {
            // A partition without build rows ends there.
            (PartitionMode::Partitioned, 1) => dropped(above),
            // The build side is read to its end; with a shared one all
            // partitions go the same way.
            _ => above,
        };
    }
    if plan.is::<SortMergeJoinExec>() {
        return dropped(above);
    }
    // Their partitions share what may end them early, or nothing does.
    if plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<UnionExec>()
        || plan.is::<InterleaveExec>()
    {
        return above;
    }
    if plan.is::<ScalarSubqueryExec>() {
        return match position {
            0 => above,
            _ => Asked::All,
        };
    }
    let partitions = plan.output_partitioning().partition_count();
    let one_to_one =
        plan.children().len() == 1 && partitions == child.output_partitioning().partition_count();
    match one_to_one {
        true => above,
        false => Asked::Unknown,
    }
}

fn dropped(above: Asked) -> Asked {
    match above {
        Asked::All | Asked::AllOrDropped => Asked::AllOrDropped,
        Asked::Unknown => Asked::Unknown,
    }
}

/// Whether a join whose partitions are asked like this completes its filter.
fn completes(join: &HashJoinExec, asked: Asked) -> bool {
    if join.properties().partitioning.partition_count() <= 1 {
        return true;
    }
    match (asked, join.partition_mode()) {
        (Asked::All, _) | (Asked::AllOrDropped, PartitionMode::Partitioned) => true,
        (Asked::AllOrDropped, PartitionMode::CollectLeft | PartitionMode::Auto)
        | (Asked::Unknown, _) => false,
    }
}
