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
    /// With those of `predicates` that are filters of this kind and not among
    /// these yet; None where there is none.
    pub(crate) fn offered<'a>(
        &self,
        predicates: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
    ) -> Option<Self> {
        let mut filters = self.0.clone();
        for predicate in predicates {
            if predicate
                .downcast_ref::<DynamicFilterPhysicalExpr>()
                .is_none()
            {
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
