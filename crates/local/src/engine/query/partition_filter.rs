//! Tables that may only be read with a filter over their partitioning column.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, TableScan, expr::ScalarFunction,
};
use datafusion::optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{Optimizer, OptimizerContext};

use super::scan::SnapshotTable;
use super::session::service_error;
use crate::error::{Result, ServiceError};

/// What a scan's filters must bound.
#[derive(Debug, Clone)]
pub(super) struct PartitionFilter {
    /// Ids of the columns that hold the partition, one of which is enough.
    pub(super) ids: HashSet<String>,
    /// What to say if none is.
    pub(super) refusal: String,
}

/// Fails if `plan` reads a table without the filter that it requires. Filters
/// count where they are written and wherever they move down to the table: through
/// subqueries, views and joins.
pub(super) fn check_partition_filters(plan: &LogicalPlan) -> Result<()> {
    let mut required = false;
    each_scan(plan, &mut |_, _| {
        required = true;
        Ok(())
    })?;
    if !required {
        return Ok(());
    }
    // No other rules: they would fold the conditions that are looked for.
    let rules = Optimizer::with_rules(vec![
        Arc::new(EliminateOuterJoin::new()),
        Arc::new(PushDownFilter::new()),
    ]);
    let pushed = rules
        .optimize(plan.clone(), &OptimizerContext::new(), |_, _| {})
        .map_err(service_error)?;
    each_scan(&pushed, &mut |scan, filter| {
        let condition = Condition {
            ids: &filter.ids,
            schema: &scan.projected_schema,
        };
        if scan.filters.iter().any(|f| condition.narrows(f)) {
            return Ok(());
        }
        Err(ServiceError::invalid_query(filter.refusal.clone()))
    })
}

/// Visits the scans that require a filter.
fn each_scan(
    plan: &LogicalPlan,
    visit: &mut dyn FnMut(&TableScan, &PartitionFilter) -> Result<()>,
) -> Result<()> {
    let mut result = Ok(());
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<SnapshotTable>()
            && let Some(filter) = table.partition_filter()
        {
            result = visit(scan, filter);
            if result.is_err() {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(service_error)?;
    result
}

/// Looks at the conditions of one scan.
struct Condition<'a> {
    ids: &'a HashSet<String>,
    schema: &'a DFSchema,
}

impl Condition<'_> {
    /// Whether every row that passes has a partition that a constant bounds: one
    /// side of AND is enough, OR needs both.
    fn narrows(&self, condition: &Expr) -> bool {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And => self.narrows(left) || self.narrows(right),
                Operator::Or => self.narrows(left) && self.narrows(right),
                Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                    self.bounds(left, right)
                }
                _ => false,
            },
            Expr::IsTrue(inner) => self.narrows(inner),
            Expr::Not(inner) => self.excludes(inner),
            Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
                (
                    "$equal" | "$less" | "$less_or_equal" | "$greater" | "$greater_or_equal"
                    | "$is_distinct",
                    [left, right],
                ) => self.bounds(left, right),
                ("$member", [value, array]) => self.is_partition(value) && is_fixed(array),
                _ => false,
            },
            other => self.selects(other),
        }
    }

    /// The same for the rows that do not pass.
    fn excludes(&self, condition: &Expr) -> bool {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                // NOT BETWEEN.
                Operator::And => self.excludes(left) && self.excludes(right),
                Operator::Or => self.excludes(left) || self.excludes(right),
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                    self.bounds(left, right)
                }
                _ => false,
            },
            Expr::Not(inner) => self.narrows(inner),
            Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
                ("$is_distinct", [left, right]) => self.bounds(left, right),
                ("$member", [value, array]) => self.is_partition(value) && is_fixed(array),
                _ => false,
            },
            other => self.selects(other),
        }
    }

    /// IN and IS NULL, which name partitions whether negated or not.
    fn selects(&self, condition: &Expr) -> bool {
        match condition {
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => self.is_partition(inner),
            Expr::InList(list) => self.is_partition(&list.expr) && list.list.iter().all(is_fixed),
            _ => false,
        }
    }

    fn bounds(&self, left: &Expr, right: &Expr) -> bool {
        (self.is_partition(left) && is_fixed(right)) || (self.is_partition(right) && is_fixed(left))
    }

    /// Whether `expr` is the partitioning column or grows with it: a cast between
    /// date and time types or numbers, or a truncation.
    fn is_partition(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Column(column) => self.ids.contains(&column.name),
            Expr::Alias(alias) => self.is_partition(&alias.expr),
            Expr::ScalarFunction(call) => {
                let Some((first, rest)) = call.args.split_first() else {
                    return false;
                };
                (self.is_ordered_cast(expr, call, first) || is_monotonic(call.name()))
                    && self.is_partition(first)
                    && rest.iter().all(is_fixed)
            }
            _ => false,
        }
    }

    fn is_ordered_cast(&self, whole: &Expr, call: &ScalarFunction, from: &Expr) -> bool {
        let civil = |t: &DataType| matches!(t, DataType::Date32 | DataType::Timestamp(..));
        call.name() == "cast"
            && match (from.get_type(self.schema), whole.get_type(self.schema)) {
                (Ok(from), Ok(to)) => {
                    (civil(&from) && civil(&to)) || (from.is_numeric() && to.is_numeric())
                }
                _ => false,
            }
    }
}

/// Functions of times whose result grows with their first argument.
fn is_monotonic(function: &str) -> bool {
    matches!(
        function,
        "date"
            | "datetime"
            | "timestamp"
            | "date_trunc"
            | "datetime_trunc"
            | "timestamp_trunc"
            | "last_day"
            | "unix_date"
            | "unix_seconds"
            | "unix_millis"
            | "unix_micros"
    )
}

/// Whether `expr` is the same for all rows and known before any row is read.
fn is_fixed(expr: &Expr) -> bool {
    let reads = expr.exists(|e| {
        Ok(match e {
            Expr::Column(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::ScalarSubquery(_)
            | Expr::InSubquery(_)
            | Expr::Exists(_) => true,
            Expr::ScalarFunction(call) => call.name() == "$subquery",
            _ => false,
        })
    });
    !reads.unwrap_or(true) && !expr.is_volatile()
}
