//! GROUP BY and aggregate functions.

use std::cell::RefCell;

use datafusion::common::JoinType;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlanBuilder, Operator};

use super::super::super::functions::{FunctionKind, SqlType, kind};
use super::super::ast::{Call, Expr, ExprKind, GroupItem, InSet};
use super::expr::binary;
use super::from::Source;
use super::literal::{int, null_of};
use super::query::{built, ordinal};
use super::scope::{Col, Ctx, Frame, Grouping, Key, Mode, Typed, column};
use super::select::{Item, marked};
use super::{Analyzer, nested};
use crate::error::{Result, ServiceError};

/// Keys of GROUP BY while they are gathered.
#[derive(Debug, Default)]
pub(super) struct Keys {
    keys: Vec<Key>,
    /// What each key's column holds.
    values: Vec<Typed>,
    computed: bool,
}

/// Calls `visit` with an expression and everything below it but subqueries.
pub(super) fn walk<'a>(e: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    visit(e);
    let mut all = |items: &'a [Expr]| items.iter().for_each(|i| walk(i, visit));
    match &e.kind {
        ExprKind::And(items) | ExprKind::Or(items) | ExprKind::Array { items, .. } => all(items),
        ExprKind::Dot(inner, _)
        | ExprKind::Unary(_, inner)
        | ExprKind::Not(inner)
        | ExprKind::Is { expr: inner, .. } => walk(inner, visit),
        ExprKind::Subscript(a, _, b)
        | ExprKind::Binary(_, a, b)
        | ExprKind::IsDistinct {
            left: a, right: b, ..
        }
        | ExprKind::Like {
            expr: a,
            pattern: b,
            ..
        } => {
            walk(a, visit);
            walk(b, visit);
        }
        ExprKind::Between {
            expr, low, high, ..
        } => {
            walk(expr, visit);
            walk(low, visit);
            walk(high, visit);
        }
        ExprKind::In { expr, set, .. }
        | ExprKind::LikeSome {
            expr,
            patterns: set,
            ..
        } => {
            walk(expr, visit);
            match set {
                InSet::List(items) => items.iter().for_each(|i| walk(i, visit)),
                InSet::Unnest(array) => walk(array, visit),
                InSet::Query(_) => {}
            }
        }
        ExprKind::Case {
            operand,
            whens,
            otherwise,
        } => {
            if let Some(operand) = operand {
                walk(operand, visit);
            }
            for (when, then) in whens {
                walk(when, visit);
                walk(then, visit);
            }
            if let Some(otherwise) = otherwise {
                walk(otherwise, visit);
            }
        }
        ExprKind::Cast {
            expr, format, zone, ..
        } => {
            walk(expr, visit);
            for extra in [format, zone].into_iter().flatten() {
                walk(extra, visit);
            }
        }
        ExprKind::Extract { expr, zone, .. } => {
            walk(expr, visit);
            if let Some(zone) = zone {
                walk(zone, visit);
            }
        }
        ExprKind::Interval { value, .. } => walk(value, visit),
        ExprKind::Struct { items, .. } => items.iter().for_each(|(i, _)| walk(i, visit)),
        ExprKind::Call(call) => {
            call.args.iter().for_each(|a| walk(&a.value, visit));
            call.order_by.iter().for_each(|o| walk(&o.expr, visit));
            if let Some((_, having)) = &call.having {
                walk(having, visit);
            }
            if let Some(super::super::ast::Window::Spec(spec)) = &call.over {
                spec.partition_by.iter().for_each(|e| walk(e, visit));
                spec.order_by.iter().for_each(|o| walk(&o.expr, visit));
            }
        }
        ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::Integer(_)
        | ExprKind::Float(_)
        | ExprKind::String(_)
        | ExprKind::Bytes(_)
        | ExprKind::Typed(..)
        | ExprKind::Ident(_)
        | ExprKind::Parameter(_)
        | ExprKind::Positional(_)
        | ExprKind::SystemVariable(_)
        | ExprKind::ArrayQuery(_)
        | ExprKind::Exists(_)
        | ExprKind::Subquery(_)
        | ExprKind::Star => {}
    }
}

/// The dotted name of a called function, without SAFE.
pub(super) fn function_name(call: &Call) -> String {
    let parts: Vec<&str> = call.name.iter().map(|i| i.name.as_str()).collect();
    parts.join(".")
}

/// Whether a call is of an aggregate function.
pub(super) fn is_aggregate(call: &Call) -> bool {
    let name = function_name(call);
    let name = name
        .get(..5)
        .filter(|p| p.eq_ignore_ascii_case("safe."))
        .map_or(name.as_str(), |_| &name[5..]);
    kind(&name.to_ascii_lowercase()) == Some(FunctionKind::Aggregate)
        || name.eq_ignore_ascii_case("GROUPING")
}

/// Whether an expression aggregates rows.
pub(super) fn has_aggregate(e: &Expr) -> bool {
    let mut found = false;
    walk(e, &mut |e| {
        if let ExprKind::Call(call) = &e.kind {
            found |= call.over.is_none() && is_aggregate(call);
        }
    });
    found
}

impl Analyzer<'_> {
    /// The key that groups by a value: an index.
    pub(super) fn group_key(&self, value: Typed, keys: &mut Keys, at: usize) -> Result<usize> {
        let value = self.settle(value)?;
        self.require_groupable(&value.ty, "Grouping", at)?;
        if value.fold_case {
            return Err(ServiceError::unsupported("GROUP BY with a collation"));
        }
        if let Some(i) = keys.keys.iter().position(|k| k.expr == value.expr) {
            return Ok(i);
        }
        keys.computed |= !matches!(value.expr, DfExpr::Column(_));
        keys.keys.push(Key {
            expr: value.expr.clone(),
            col: Col {
                name: None,
                id: self.env.id(),
                ty: value.ty.clone(),
                fold_case: false,
            },
        });
        let stored = match value.ty {
            SqlType::Float64 => Typed::new(nested::group_key(value.expr), SqlType::Float64),
            _ => value,
        };
        keys.values.push(stored);
        Ok(keys.keys.len() - 1)
    }

    fn group_expr(
        &self,
        e: &Expr,
        items: &[Item<'_>],
        ctx: Ctx<'_>,
        keys: &mut Keys,
    ) -> Result<usize> {
        if let Some(n) = ordinal(e) {
            let item = usize::try_from(n)
                .ok()
                .and_then(|n| n.checked_sub(1))
                .and_then(|n| items.get(n))
                .ok_or_else(|| {
                    self.error(
                        e.at,
                        format_args!(
                            "GROUP BY column number {n} is out of range. Column numbers must be between 1 and {}",
                            items.len()
                        ),
                    )
                })?;
            return self.group_by_item(item, e.at, ctx, keys);
        }
        if let ExprKind::Ident(name) = &e.kind {
            let named = items.iter().find(|i| match i {
                Item::Ast(Some(alias), e) => {
                    alias.eq_ignore_ascii_case(&name.name)
                        && super::expr::implied_name(e).as_ref() != Some(alias)
                }
                _ => false,
            });
            if let Some(item) = named {
                return self.group_by_item(item, e.at, ctx, keys);
            }
        }
        let value = self.expr(e, ctx)?;
        self.group_key(value, keys, e.at)
    }

    fn group_by_item(
        &self,
        item: &Item<'_>,
        at: usize,
        ctx: Ctx<'_>,
        keys: &mut Keys,
    ) -> Result<usize> {
        if let Item::Ast(_, e) = item
            && has_aggregate(e)
        {
            return Err(self.error(at, "Aggregate functions are not allowed in GROUP BY"));
        }
        let value = self.item(item, ctx)?;
        self.group_key(value, keys, at)
    }

    fn group_all(
        &self,
        exprs: &[Expr],
        items: &[Item<'_>],
        ctx: Ctx<'_>,
        keys: &mut Keys,
    ) -> Result<Vec<usize>> {
        exprs
            .iter()
            .map(|e| self.group_expr(e, items, ctx, keys))
            .collect()
    }

    /// The sets of keys that the items of GROUP BY stand for: their product.
    pub(super) fn group_items(
        &self,
        group: &[GroupItem],
        items: &[Item<'_>],
        ctx: Ctx<'_>,
        keys: &mut Keys,
    ) -> Result<Vec<Vec<usize>>> {
        let mut product: Vec<Vec<usize>> = vec![Vec::new()];
        for item in group {
            let sets = self.group_item(item, items, ctx, keys)?;
            product = product
                .iter()
                .flat_map(|done| {
                    sets.iter().map(|set| {
                        let mut both = done.clone();
                        both.extend(set.iter().filter(|k| !done.contains(k)));
                        both
                    })
                })
                .collect();
            if product.len() > 4096 {
                return Err(ServiceError::invalid_query(
                    "GROUP BY has more than 4096 grouping sets",
                ));
            }
        }
        Ok(product)
    }

    fn group_item(
        &self,
        item: &GroupItem,
        items: &[Item<'_>],
        ctx: Ctx<'_>,
        keys: &mut Keys,
    ) -> Result<Vec<Vec<usize>>> {
        match item {
            GroupItem::Expr(e) => Ok(vec![vec![self.group_expr(e, items, ctx, keys)?]]),
            GroupItem::Tuple(exprs) => Ok(vec![self.group_all(exprs, items, ctx, keys)?]),
            GroupItem::Rollup(columns) => {
                let parts = columns
                    .iter()
                    .map(|c| self.group_all(c, items, ctx, keys))
                    .collect::<Result<Vec<_>>>()?;
                Ok((0..=parts.len())
                    .rev()
                    .map(|n| parts[..n].concat())
                    .collect())
            }
            GroupItem::Cube(columns) => {
                let parts = columns
                    .iter()
                    .map(|c| self.group_all(c, items, ctx, keys))
                    .collect::<Result<Vec<_>>>()?;
                if parts.len() > 12 {
                    return Err(ServiceError::invalid_query("CUBE has too many columns"));
                }
                Ok((0..1usize << parts.len())
                    .rev()
                    .map(|bits| {
                        let count = parts.len();
                        parts
                            .iter()
                            .enumerate()
                            .filter(|(i, _)| bits & (1 << (count - 1 - i)) != 0)
                            .flat_map(|(_, p)| p.clone())
                            .collect()
                    })
                    .collect())
            }
            GroupItem::Sets(sets) => {
                let mut all = Vec::new();
                for set in sets {
                    all.extend(self.group_item(set, items, ctx, keys)?);
                }
                Ok(all)
            }
        }
    }

    /// Puts the keys into columns beside the rows'.
    pub(super) fn group_columns(&self, source: &mut Source, keys: Keys) -> Result<Grouping> {
        let mut exprs: Vec<DfExpr> = source.all_columns();
        for (key, value) in keys.keys.iter().zip(keys.values) {
            exprs.push(marked(value).expr.alias(&key.col.id));
        }
        let plan = std::mem::replace(&mut source.plan, empty());
        source.plan = built(LogicalPlanBuilder::from(plan).project(exprs))?;
        Ok(Grouping {
            keys: keys.keys,
            computed_keys: keys.computed,
            aggregates: RefCell::default(),
            asked: RefCell::default(),
        })
    }

    /// The grouped rows: keys, aggregates and answers of GROUPING().
    pub(super) fn aggregate(
        &self,
        mut source: Source,
        grouping: &Grouping,
        sets: &[Vec<usize>],
        frame: Option<&Frame<'_>>,
    ) -> Result<Source> {
        let mut aggregates: Vec<(DfExpr, Col)> = grouping.aggregates.borrow().clone();
        let mut carried: Vec<String> = Vec::new();
        if let Some(frame) = frame
            && let (Mode::Apply { row, slot }, Some(own)) = (&frame.mode, source.row.clone())
        {
            // Outer columns stay what they are within an outer row.
            let schema = datafusion::datasource::TableProvider::schema(slot.as_ref());
            carried = schema.fields().iter().map(|f| f.name().clone()).collect();
            let without_keys = sets.iter().any(Vec::is_empty);
            if without_keys {
                source = self.with_empty_groups(source, &own, frame, &mut aggregates)?;
            } else if own != *row {
                source = self.beside_outer(source, &own, frame)?;
            }
            source.row = Some(row.clone());
        }
        let many = sets.len() > 1;
        let mut result: Option<datafusion::logical_expr::LogicalPlan> = None;
        for set in sets {
            let mut group: Vec<DfExpr> = set
                .iter()
                .map(|i| column(&grouping.keys[*i].col.id))
                .collect();
            group.extend(carried.iter().map(|id| column(id)));
            let calls: Vec<DfExpr> = aggregates
                .iter()
                .map(|(e, col)| e.clone().alias(&col.id))
                .collect();
            let plan = if group.is_empty() && calls.is_empty() {
                // `SELECT 1 FROM t GROUP BY ()`: one row whatever the input.
                let one = datafusion::functions_aggregate::count::count(int(1).expr);
                built(
                    LogicalPlanBuilder::from(source.plan.clone())
                        .aggregate(Vec::<DfExpr>::new(), vec![one.alias(self.env.id())]),
                )?
            } else {
                built(LogicalPlanBuilder::from(source.plan.clone()).aggregate(group, calls))?
            };
            let mut exprs: Vec<DfExpr> = Vec::new();
            for (i, key) in grouping.keys.iter().enumerate() {
                let value = if set.contains(&i) {
                    column(&key.col.id)
                } else {
                    null_of(&key.col.ty)?
                };
                exprs.push(nested::marked(value, &key.col.ty).alias(&key.col.id));
            }
            for (_, col) in &aggregates {
                exprs.push(nested::marked(column(&col.id), &col.ty).alias(&col.id));
            }
            for (key, id) in grouping.asked.borrow().iter() {
                exprs.push(int(i64::from(!set.contains(key))).expr.alias(id));
            }
            exprs.extend(carried.iter().map(|id| column(id)));
            let plan = built(LogicalPlanBuilder::from(plan).project(exprs))?;
            result = Some(match result {
                None => plan,
                Some(so_far) => built(LogicalPlanBuilder::from(so_far).union(plan))?,
            });
        }
        source.plan =
            result.ok_or_else(|| ServiceError::internal("grouping has at least one set"))?;
        if many {
            let mut exprs: Vec<DfExpr> = Vec::new();
            let columns = grouping
                .keys
                .iter()
                .map(|k| &k.col)
                .chain(aggregates.iter().map(|(_, c)| c));
            for col in columns {
                exprs.push(nested::marked(column(&col.id), &col.ty).alias(&col.id));
            }
            exprs.extend(grouping.asked.borrow().iter().map(|(_, id)| column(id)));
            exprs.extend(carried.iter().map(|id| column(id)));
            source.plan = built(LogicalPlanBuilder::from(source.plan).project(exprs))?;
        }
        Ok(source)
    }

    /// Joins rows whose outer row is numbered by `own` with the outer rows.
    fn beside_outer(&self, source: Source, own: &str, frame: &Frame<'_>) -> Result<Source> {
        let Mode::Apply { row, .. } = &frame.mode else {
            return Ok(source);
        };
        let outer = self.outer_rows(frame)?;
        let plan = built(LogicalPlanBuilder::from(outer).join_on(
            source.plan,
            JoinType::Inner,
            [binary(column(row), Operator::Eq, column(own))],
        ))?;
        Ok(Source {
            plan,
            row: Some(row.clone()),
            ..source
        })
    }

    /// In a correlated subquery without GROUP BY every outer row has its group, if
    /// an empty one: outer rows are joined back, and aggregates look only at rows
    /// that were there.
    fn with_empty_groups(
        &self,
        source: Source,
        own: &str,
        frame: &Frame<'_>,
        aggregates: &mut [(DfExpr, Col)],
    ) -> Result<Source> {
        let Mode::Apply { row, slot } = &frame.mode else {
            return Ok(source);
        };
        let schema = datafusion::datasource::TableProvider::schema(slot.as_ref());
        let inner = self.env.id();
        let mut exprs: Vec<DfExpr> = source
            .plan
            .schema()
            .fields()
            .iter()
            .filter(|f| schema.column_with_name(f.name()).is_none() && f.name() != own)
            .map(|f| column(f.name()))
            .collect();
        exprs.push(column(own).alias(&inner));
        let rows = built(LogicalPlanBuilder::from(source.plan).project(exprs))?;
        let outer = self.outer_rows(frame)?;
        let plan = built(LogicalPlanBuilder::from(outer).join_on(
            rows,
            JoinType::Left,
            [binary(column(row), Operator::Eq, column(&inner))],
        ))?;
        for (call, _) in aggregates.iter_mut() {
            let present = DfExpr::IsNotNull(Box::new(column(&inner)));
            if let DfExpr::AggregateFunction(AggregateFunction {
                params: AggregateFunctionParams { filter, .. },
                ..
            }) = call
            {
                *filter = Some(Box::new(match filter.take() {
                    None => present,
                    Some(given) => binary(*given, Operator::And, present),
                }));
            }
        }
        Ok(Source {
            plan,
            row: Some(row.clone()),
            ..source
        })
    }

    /// GROUPING(key).
    pub(super) fn grouping_call(&self, call: &Call, at: usize, ctx: Ctx<'_>) -> Result<Typed> {
        let Some(grouping) = ctx.grouping else {
            return Err(self.error(at, "GROUPING requires GROUP BY"));
        };
        let [argument] = call.args.as_slice() else {
            return Err(self.error(at, "GROUPING takes one argument"));
        };
        let value = self.expr(&argument.value, ctx.ungrouped())?;
        let Some(key) = grouping.keys.iter().position(|k| k.expr == value.expr) else {
            return Err(self.error(
                at,
                "GROUPING must have an argument that exists within GROUP BY",
            ));
        };
        let mut asked = grouping.asked.borrow_mut();
        let id = match asked.iter().find(|(k, _)| *k == key) {
            Some((_, id)) => id.clone(),
            None => {
                let id = self.env.id();
                asked.push((key, id.clone()));
                id
            }
        };
        Ok(Typed::column(&id, &SqlType::Int64))
    }

    /// The column of an aggregate over the rows of a group.
    pub(super) fn aggregate_column(
        &self,
        function: AggregateFunction,
        ty: SqlType,
        ctx: Ctx<'_>,
    ) -> Result<Typed> {
        let Some(grouping) = ctx.grouping else {
            return Err(ServiceError::internal(
                "an aggregate stands in a grouped query",
            ));
        };
        let call = DfExpr::AggregateFunction(function);
        let mut aggregates = grouping.aggregates.borrow_mut();
        if let Some((_, col)) = aggregates.iter().find(|(e, _)| *e == call) {
            return Ok(col.typed());
        }
        let col = Col {
            name: None,
            id: self.env.id(),
            ty,
            fold_case: false,
        };
        let typed = col.typed();
        aggregates.push((call, col));
        Ok(typed)
    }
}

fn empty() -> datafusion::logical_expr::LogicalPlan {
    datafusion::logical_expr::LogicalPlan::EmptyRelation(datafusion::logical_expr::EmptyRelation {
        produce_one_row: false,
        schema: std::sync::Arc::new(datafusion::common::DFSchema::empty()),
    })
}
