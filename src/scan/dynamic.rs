//! Filters that are completed while the query runs.
//!
//! A hash join knows its keys before it reads its probe side, and tells them in
//! a filter that it has pushed there while they were unknown. A scan on the
//! probe side waits for them and asks BigQuery for the rows with these keys
//! only. Other operators push such filters too (the bound of a TopK, the extrema
//! of an aggregate); those get better as rows arrive and are never complete in
//! time, so a scan takes them as they stand and waits for none.
//!
//! Which filters are a join's, and for which of them waiting cannot stop the
//! query, only the whole plan tells: [`super::dynamic_plan`] decides. Until it
//! has, a filter is merely offered, and as long as the scan does not show it,
//! nobody computes it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, Column, DynamicFilterPhysicalExpr, DynamicFilterTracking, InListExpr,
    Literal, lit,
};
use futures::future::join_all;

use crate::filter::condition::{Condition, Test};
use crate::filter::translate::translate_physical;
use crate::types::TableSchema;

/// What a scan does with a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stance {
    /// Nothing: nobody has decided yet.
    Offered,
    /// It waits until the filter is complete.
    Awaited,
    /// It takes the filter as it stands.
    Noted,
}

/// One filter.
#[derive(Debug, Clone)]
struct LateFilter {
    id: u64,
    /// A [`DynamicFilterPhysicalExpr`] over the scan's columns.
    predicate: Arc<dyn PhysicalExpr>,
    stance: Stance,
}

/// The filters of one scan.
#[derive(Debug, Clone, Default)]
pub(crate) struct LateFilters(Vec<LateFilter>);

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// Everything awaited is complete.
    Complete,
    /// The time allowed was over first.
    TimedOut,
}

impl LateFilters {
    /// With those of `predicates` that are filters of this kind, by a key that is
    /// `of_use`, and not among these yet; None where there is none.
    pub(crate) fn offered<'a>(
        &self,
        predicates: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
        of_use: impl Fn(&Arc<dyn PhysicalExpr>) -> bool,
    ) -> Option<Self> {
        let mut filters = self.0.clone();
        for predicate in predicates {
            if predicate
                .downcast_ref::<DynamicFilterPhysicalExpr>()
                .is_none()
            {
                continue;
            }
            // Nobody is to compute, or wait for, what no restriction can say.
            if !predicate.children().into_iter().any(&of_use) {
                continue;
            }
            let Some(id) = predicate.expression_id() else {
                continue;
            };
            if filters.iter().all(|known| known.id != id) {
                filters.push(LateFilter {
                    id,
                    predicate: Arc::clone(predicate),
                    stance: Stance::Offered,
                });
            }
        }
        (filters.len() > self.0.len()).then_some(Self(filters))
    }

    /// Each filter with the stance for its expression id; those without one are
    /// dropped.
    pub(crate) fn decided(&self, stance: impl Fn(u64) -> Option<Stance>) -> Self {
        let decide = |filter: &LateFilter| {
            let stance = stance(filter.id)?;
            Some(LateFilter {
                stance,
                ..filter.clone()
            })
        };
        Self(self.0.iter().filter_map(decide).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The filters that the plan may know of.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let shown = self.0.iter().filter(|one| one.stance != Stance::Offered);
        shown.map(|one| &one.predicate)
    }

    fn awaited(&self) -> impl Iterator<Item = &LateFilter> {
        self.0.iter().filter(|one| one.stance == Stance::Awaited)
    }

    /// The columns of which keys are awaited, for EXPLAIN.
    pub(crate) fn awaited_columns(&self) -> Vec<String> {
        let mut names = Vec::new();
        for key in self.awaited().flat_map(|one| one.predicate.children()) {
            let name = match key.downcast_ref::<Column>() {
                Some(column) => column.name().to_string(),
                None => key.to_string(),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Waits until everything awaited is complete, at most so long. None when
    /// there is nothing to wait for.
    pub(crate) async fn wait(&self, most: Duration) -> Option<Waited> {
        let awaited: Vec<_> = self
            .awaited()
            .map(|one| completed(Arc::clone(&one.predicate)))
            .collect();
        if awaited.is_empty() {
            return None;
        }
        match tokio::time::timeout(most, join_all(awaited)).await {
            Ok(_) => Some(Waited::Complete),
            Err(_) => Some(Waited::TimedOut),
        }
    }

    /// What the filters say now of the rows that are needed. Lists of more than
    /// `most_values` values are left out, and their bounds stay.
    pub(crate) fn condition(
        &self,
        columns: &TableSchema,
        most_values: usize,
    ) -> Result<Option<Condition>> {
        let mut conditions = Vec::new();
        for filter in self.shown() {
            let Some(filter) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() else {
                continue;
            };
            let mut current = filter.current()?;
            let mut values = HashSet::new();
            if count_values(&current, most_values, &mut values) == Size::TooMany {
                current = without_lists(&current);
            }
            let condition = translate_physical(columns, &current).map(Condition::from);
            conditions.extend(condition.filter(|it| *it.test() != Test::Constant(true)));
        }
        Ok((!conditions.is_empty()).then(|| Condition::all(conditions)))
    }
}

/// Whether no row meets a condition.
pub(crate) fn is_never(condition: &Condition) -> bool {
    *condition.test() == Test::Constant(false)
}

/// Ends when `predicate` is complete.
async fn completed(predicate: Arc<dyn PhysicalExpr>) {
    // A filter announces its completion to whoever listens at that moment and
    // forgets it otherwise; `wait_complete` looks first and listens then. So
    // someone has to listen before it looks, or a completion in between is lost.
    let _listening = DynamicFilterTracking::classify(&predicate);
    if let Some(filter) = predicate.downcast_ref::<DynamicFilterPhysicalExpr>() {
        filter.wait_complete().await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Fits,
    TooMany,
}

/// Collects the different values in the lists of `predicate`, as long as there
/// are not more than `most`.
fn count_values(
    predicate: &Arc<dyn PhysicalExpr>,
    most: usize,
    seen: &mut HashSet<ScalarValue>,
) -> Size {
    if let Some(list) = list_of_keys(predicate) {
        for value in list.list() {
            if let Some(value) = value.downcast_ref::<Literal>() {
                seen.insert(value.value().clone());
            }
            if seen.len() > most {
                return Size::TooMany;
            }
        }
        return Size::Fits;
    }
    let mut parts = parts(predicate).into_iter();
    match parts.any(|part| count_values(part, most, seen) == Size::TooMany) {
        true => Size::TooMany,
        false => Size::Fits,
    }
}

/// `predicate` with TRUE for each list of keys: it accepts what it accepted, and
/// more.
fn without_lists(predicate: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    if list_of_keys(predicate).is_some() {
        return lit(true);
    }
    if let Some(binary) = connective(predicate) {
        return Arc::new(BinaryExpr::new(
            without_lists(binary.left()),
            *binary.op(),
            without_lists(binary.right()),
        ));
    }
    if let Some(case) = predicate.downcast_ref::<CaseExpr>() {
        let branches = case
            .when_then_expr()
            .iter()
            .map(|(when, then)| (Arc::clone(when), without_lists(then)))
            .collect();
        let otherwise = case.else_expr().map(without_lists);
        if let Ok(case) = CaseExpr::try_new(case.expr().cloned(), branches, otherwise) {
            return Arc::new(case);
        }
    }
    Arc::clone(predicate)
}

/// The parts that make `predicate` wider when they become wider.
fn parts(predicate: &Arc<dyn PhysicalExpr>) -> Vec<&Arc<dyn PhysicalExpr>> {
    if let Some(binary) = connective(predicate) {
        return vec![binary.left(), binary.right()];
    }
    match predicate.downcast_ref::<CaseExpr>() {
        Some(case) => {
            let thens = case.when_then_expr().iter().map(|(_, then)| then);
            thens.chain(case.else_expr()).collect()
        }
        None => Vec::new(),
    }
}

fn list_of_keys(predicate: &Arc<dyn PhysicalExpr>) -> Option<&InListExpr> {
    let list = predicate.downcast_ref::<InListExpr>()?;
    (!list.negated()).then_some(list)
}

fn connective(predicate: &Arc<dyn PhysicalExpr>) -> Option<&BinaryExpr> {
    let binary = predicate.downcast_ref::<BinaryExpr>()?;
    matches!(binary.op(), Operator::And | Operator::Or).then_some(binary)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema};
    use datafusion::physical_expr::expressions::{binary, col};

    use super::*;
    use crate::filter::restriction::Restriction;
    use crate::types::{Field, FieldType, Mode};

    fn schema() -> Schema {
        Schema::new(vec![ArrowField::new("n", DataType::Int64, true)])
    }

    fn columns() -> TableSchema {
        TableSchema {
            fields: vec![Field::new("n", FieldType::Int64, Mode::Nullable)],
        }
    }

    fn n() -> Arc<dyn PhysicalExpr> {
        col("n", &schema()).unwrap()
    }

    fn filter() -> Arc<DynamicFilterPhysicalExpr> {
        Arc::new(DynamicFilterPhysicalExpr::new(vec![n()], lit(true)))
    }

    fn keys(keys: std::ops::Range<i64>) -> Arc<dyn PhysicalExpr> {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(keys.clone()));
        let list = InListExpr::try_new_from_array(n(), values, false, &schema()).unwrap();
        let low = binary(n(), Operator::GtEq, lit(keys.start), &schema()).unwrap();
        binary(low, Operator::And, Arc::new(list), &schema()).unwrap()
    }

    fn awaiting(filter: &Arc<DynamicFilterPhysicalExpr>) -> LateFilters {
        let predicate: Arc<dyn PhysicalExpr> = Arc::clone(filter) as _;
        let offered = LateFilters::default()
            .offered([&predicate], |_| true)
            .unwrap();
        offered.decided(|_| Some(Stance::Awaited))
    }

    fn text(filters: &LateFilters, most_values: usize) -> String {
        let mut restriction = Restriction::of_user(None);
        if let Some(condition) = filters.condition(&columns(), most_values).unwrap() {
            restriction.admit(&condition);
        }
        restriction.text()
    }

    #[test]
    fn what_is_only_offered_is_not_shown() {
        let filter: Arc<dyn PhysicalExpr> = filter();
        let fixed = lit(true);
        let offered = LateFilters::default().offered([&fixed, &filter, &filter], |_| true);
        let offered = offered.unwrap();
        assert_eq!(offered.0.len(), 1);
        assert_eq!(offered.shown().count(), 0);
        let again = offered.offered([&filter], |_| true);
        assert!(again.is_none(), "it is there already");
        let useless = LateFilters::default().offered([&filter], |_| false);
        assert!(useless.is_none());
        let id = filter.expression_id().unwrap();
        let noted = offered.decided(|it| (it == id).then_some(Stance::Noted));
        assert_eq!(noted.shown().count(), 1);
        assert!(noted.awaited_columns().is_empty());
        assert!(noted.decided(|_| None).is_empty());
    }

    #[test]
    fn lists_beyond_the_number_allowed_leave_their_bounds() {
        let filter = filter();
        let late = awaiting(&filter);
        assert_eq!(late.awaited_columns(), ["n"]);
        assert_eq!(text(&late, 10), "");
        filter.update(keys(0..3)).unwrap();
        assert_eq!(text(&late, 3), "(`n` >= 0) AND (`n` IN (0, 1, 2))");
        assert_eq!(text(&late, 2), "(`n` >= 0)");
        // Partitions have a list each, and the number is of all.
        let route = binary(n(), Operator::Modulo, lit(2_i64), &schema()).unwrap();
        let branches = vec![(lit(0_i64), keys(0..3)), (lit(1_i64), keys(7..10))];
        let routed = CaseExpr::try_new(Some(route), branches, Some(lit(false))).unwrap();
        filter.update(Arc::new(routed)).unwrap();
        assert!(
            text(&late, 6).contains("IN (7, 8, 9)"),
            "{}",
            text(&late, 6)
        );
        assert_eq!(text(&late, 5), "((`n` >= 0) OR (`n` >= 7))");
    }

    /// What is under a negation must not become wider.
    #[test]
    fn lists_in_a_negation_stay() {
        let inside = Arc::new(datafusion::physical_expr::expressions::NotExpr::new(keys(
            0..3,
        )));
        let inside: Arc<dyn PhysicalExpr> = inside;
        assert!(Arc::ptr_eq(&without_lists(&inside), &inside));
    }

    #[tokio::test]
    async fn there_is_nothing_to_wait_for_without_an_awaited_filter() {
        let most = Duration::from_secs(3600);
        assert_eq!(LateFilters::default().wait(most).await, None);
        let filter = filter();
        let noted = awaiting(&filter).decided(|_| Some(Stance::Noted));
        assert_eq!(noted.wait(most).await, None);
        let late = awaiting(&filter);
        assert_eq!(late.wait(Duration::ZERO).await, Some(Waited::TimedOut));
        filter.mark_complete();
        assert_eq!(late.wait(Duration::ZERO).await, Some(Waited::Complete));
    }

    /// However the completion falls into the wait, it is noticed.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_completion_is_missed() {
        for _ in 0..3_000 {
            let filter = filter();
            let late = awaiting(&filter);
            let waiting = tokio::spawn(async move { late.wait(Duration::from_secs(60)).await });
            filter.mark_complete();
            assert_eq!(waiting.await.unwrap(), Some(Waited::Complete));
        }
    }
}
