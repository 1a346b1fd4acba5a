//! SELECT.

use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlanBuilder};

use super::super::super::functions::SqlType;
use super::super::ast::{Expr, ExprKind, GroupBy, Ident, OrderItem, Select, SelectAs, SelectItem};
use super::aggregate::has_aggregate;
use super::expr::implied_name;
use super::from::Source;
use super::query::{Cut, built, ordinal};
use super::scope::{Col, Ctx, Found, Frame, Grouping, Rel, Typed, Windows, column};
use super::window::with_windows;
use super::{Analyzer, nested};
use crate::error::{Result, ServiceError};

/// An item of the select list after `*` was expanded.
pub(super) enum Item<'a> {
    /// Something to analyze.
    Ast(Option<String>, &'a Expr),
    /// A column of the FROM clause.
    Column(Option<String>, Col, usize),
    /// A field of a value.
    Field(Option<String>, &'a Expr, Ident),
}

impl Item<'_> {
    fn name(&self) -> Option<String> {
        match self {
            Item::Ast(name, _) | Item::Column(name, ..) | Item::Field(name, ..) => name.clone(),
        }
    }
}

impl Analyzer<'_> {
    pub(super) fn select(
        &self,
        select: &Select,
        order_by: &[OrderItem],
        cut: Cut,
        frame: Option<&Frame<'_>>,
    ) -> Result<Rel> {
        let mut source = self.source(select.from.as_ref(), frame)?;
        if let Some(filter) = &select.filter {
            let ctx = Ctx::new(&source.scope, frame, "WHERE clause");
            let condition = self.condition(filter, ctx)?;
            source.plan = built(LogicalPlanBuilder::from(source.plan).filter(condition))?;
        }
        let scope = source.scope.clone();
        let items = self.expand(select, &source, frame)?;
        let aggregated = select.group_by.is_some()
            || select.having.as_ref().is_some_and(has_aggregate)
            || select.qualify.as_ref().is_some_and(has_aggregate)
            || items
                .iter()
                .any(|i| matches!(i, Item::Ast(_, e) if has_aggregate(e)))
            || order_by.iter().any(|o| has_aggregate(&o.expr));
        if !aggregated && select.having.is_some() {
            return Err(self.error(
                select.at,
                "The HAVING clause requires GROUP BY or aggregation to be present",
            ));
        }
        let windows = Windows {
            named: select
                .windows
                .iter()
                .map(|(n, w)| (n.name.to_ascii_lowercase(), w.clone()))
                .collect(),
            ..Default::default()
        };
        let sets = if aggregated {
            Some(self.grouping_sets(select, &items, &mut source, &scope, frame)?)
        } else {
            None
        };
        let grouping = sets.as_ref().map(|(grouping, _)| grouping);
        let ctx = Ctx {
            grouping,
            windows: Some(&windows),
            ..Ctx::new(&scope, frame, "SELECT list")
        };
        let outputs = items
            .iter()
            .map(|item| Ok((item.name(), self.item(item, ctx)?)))
            .collect::<Result<Vec<_>>>()?;
        let aliases: Vec<(String, Typed)> = outputs
            .iter()
            .zip(&items)
            .filter_map(|((name, typed), item)| match item {
                // Only what the select list names itself: columns keep their own names.
                Item::Ast(_, e) if implied_name(e) != *name || grouping.is_some() => {
                    name.clone().map(|n| (n, typed.clone()))
                }
                _ => None,
            })
            .collect();
        let having = match &select.having {
            Some(e) => Some(self.condition(
                e,
                Ctx {
                    windows: None,
                    aliases: Some(&aliases),
                    clause: "HAVING clause",
                    ..ctx
                },
            )?),
            None => None,
        };
        let qualify = match &select.qualify {
            Some(e) => Some(self.condition(
                e,
                Ctx {
                    aliases: Some(&aliases),
                    clause: "QUALIFY clause",
                    ..ctx
                },
            )?),
            None => None,
        };
        if qualify.is_some() && windows.found.borrow().is_empty() {
            return Err(self.error(
                select.at,
                "The QUALIFY clause requires analytic function to be present",
            ));
        }
        let mut keys = Vec::new();
        for item in order_by {
            let key = self.order_key(item, &outputs, &aliases, ctx, !select.distinct)?;
            keys.push(match key {
                // The columns become one value: what orders them stays beside it.
                OrderKey::Output(i) if select.select_as == SelectAs::Struct => {
                    OrderKey::Value(outputs[i].1.clone())
                }
                other => other,
            });
        }
        // Everything is known: build the plan from the bottom up.
        if let Some((grouping, sets)) = &sets {
            source = self.aggregate(source, grouping, sets, frame)?;
        }
        if let Some(having) = having {
            source.plan = built(LogicalPlanBuilder::from(source.plan).filter(having))?;
        }
        let found = windows.found.take();
        if !found.is_empty() {
            source.plan = with_windows(source.plan, found)?;
        }
        if let Some(qualify) = qualify {
            source.plan = built(LogicalPlanBuilder::from(source.plan).filter(qualify))?;
        }
        self.output(select, source, outputs, order_by, keys, cut)
    }

    /// The select list over the rows, distinct, ordered and cut.
    fn output(
        &self,
        select: &Select,
        source: Source,
        outputs: Vec<(Option<String>, Typed)>,
        order_by: &[OrderItem],
        keys: Vec<OrderKey>,
        cut: Cut,
    ) -> Result<Rel> {
        let outputs = match select.select_as {
            SelectAs::Columns => outputs,
            SelectAs::Struct => {
                let fields = outputs
                    .into_iter()
                    .map(|(name, v)| Ok((name.unwrap_or_default(), self.settle(v)?)))
                    .collect::<Result<Vec<_>>>()?;
                vec![(None, self.make_struct(fields))]
            }
            SelectAs::Value => {
                if outputs.len() != 1 {
                    return Err(self.error(
                        select.at,
                        "SELECT AS VALUE query must have exactly one column",
                    ));
                }
                outputs
            }
        };
        let value_table = select.select_as != SelectAs::Columns;
        let mut hidden = Vec::new();
        let mut pending = Vec::new();
        for (key, item) in keys.into_iter().zip(order_by) {
            match key {
                OrderKey::Output(i) => pending.push((Err(i), item)),
                OrderKey::Value(value) => {
                    hidden.push((None, self.settle(value)?));
                    pending.push((Ok(hidden.len() - 1), item));
                }
            }
        }
        let width = outputs.len();
        let mut all = outputs;
        all.extend(hidden);
        let rel = self.project_rel(
            Rel {
                plan: source.plan,
                columns: Vec::new(),
                row: source.row,
                value_table,
            },
            all,
        )?;
        let mut sorts: Vec<Sort> = Vec::new();
        for (place, item) in pending {
            let col = match place {
                Ok(hidden) => &rel.columns[width + hidden],
                Err(output) => &rel.columns[output],
            };
            sorts.extend(self.sort_keys(col.typed(), item)?);
        }
        let mut rel = rel;
        if select.distinct {
            for col in &rel.columns {
                self.require_groupable(&col.ty, "SELECT DISTINCT", select.at)?;
                if col.fold_case {
                    return Err(ServiceError::unsupported(
                        "SELECT DISTINCT with a collation",
                    ));
                }
            }
            rel.plan = built(LogicalPlanBuilder::from(rel.plan).distinct())?;
        }
        let mut rel = self.order_and_cut(rel, sorts, cut)?;
        if rel.columns.len() > width
            || rel.plan.schema().fields().len() > width + usize::from(rel.row.is_some())
        {
            rel.columns.truncate(width);
            let mut exprs: Vec<DfExpr> = rel.columns.iter().map(|c| column(&c.id)).collect();
            exprs.extend(rel.row.iter().map(|r| column(r)));
            rel.plan = built(LogicalPlanBuilder::from(rel.plan).project(exprs))?;
        }
        Ok(rel)
    }

    fn order_key(
        &self,
        item: &OrderItem,
        outputs: &[(Option<String>, Typed)],
        aliases: &[(String, Typed)],
        ctx: Ctx<'_>,
        plain: bool,
    ) -> Result<OrderKey> {
        if let Some(n) = ordinal(&item.expr) {
            let position = usize::try_from(n)
                .ok()
                .and_then(|n| n.checked_sub(1))
                .filter(|n| *n < outputs.len());
            return match position {
                Some(i) => Ok(OrderKey::Output(i)),
                None => Err(self.error(
                    item.expr.at,
                    format_args!(
                        "ORDER BY column number item is out of range. Column numbers must be between 1 and {}. Found : {n}",
                        outputs.len()
                    ),
                )),
            };
        }
        if let ExprKind::Ident(name) = &item.expr.kind {
            let hits: Vec<usize> = outputs
                .iter()
                .enumerate()
                .filter(|(_, (n, _))| {
                    n.as_ref()
                        .is_some_and(|n| n.eq_ignore_ascii_case(&name.name))
                })
                .map(|(i, _)| i)
                .collect();
            match hits.as_slice() {
                [] => {}
                [one] => return Ok(OrderKey::Output(*one)),
                [first, rest @ ..]
                    if rest
                        .iter()
                        .all(|i| outputs[*i].1.expr == outputs[*first].1.expr) =>
                {
                    return Ok(OrderKey::Output(*first));
                }
                _ => {
                    return Err(self.error(
                        name.at,
                        format_args!("Column name {} is ambiguous", name.name),
                    ));
                }
            }
        }
        let value = self.expr(
            &item.expr,
            Ctx {
                aliases: Some(aliases),
                clause: "ORDER BY clause",
                ..ctx
            },
        )?;
        if let Some(i) = outputs.iter().position(|(_, o)| o.expr == value.expr) {
            return Ok(OrderKey::Output(i));
        }
        if !plain {
            return Err(self.error(
                item.expr.at,
                "ORDER BY clause expression references a column which is not visible after SELECT DISTINCT",
            ));
        }
        Ok(OrderKey::Value(value))
    }

    pub(super) fn item(&self, item: &Item<'_>, ctx: Ctx<'_>) -> Result<Typed> {
        match item {
            Item::Ast(_, e) => self.expr(e, ctx),
            Item::Column(name, col, at) => match ctx.grouping {
                None => Ok(col.typed()),
                Some(grouping) => {
                    let typed = col.typed();
                    grouping
                        .keys
                        .iter()
                        .find(|k| k.expr == typed.expr)
                        .map(|k| k.col.typed())
                        .ok_or_else(|| {
                            self.error(
                                *at,
                                format_args!(
                                    "Star expansion expression references column {} which is neither grouped nor aggregated",
                                    name.clone().unwrap_or_default()
                                ),
                            )
                        })
                }
            },
            Item::Field(_, e, name) => {
                let value = self.expr(e, ctx)?;
                self.field(value, name)
            }
        }
    }

    /// The select list with every `*` replaced by what it stands for.
    fn expand<'a>(
        &self,
        select: &'a Select,
        source: &Source,
        frame: Option<&Frame<'_>>,
    ) -> Result<Vec<Item<'a>>> {
        let mut items = Vec::new();
        for item in &select.items {
            match item {
                SelectItem::Expr { expr, alias } => {
                    let name = alias
                        .as_ref()
                        .map(|a| a.name.clone())
                        .or_else(|| implied_name(expr));
                    items.push(Item::Ast(name, expr));
                }
                SelectItem::Star {
                    of,
                    except,
                    replace,
                    at,
                } => {
                    let expanded = match of {
                        None => self.star(source, *at)?,
                        Some(e) => self.dot_star(e, source, frame, *at)?,
                    };
                    self.edit_star(expanded, except, replace, &mut items)?;
                }
            }
        }
        Ok(items)
    }

    fn star<'a>(&self, source: &Source, at: usize) -> Result<Vec<Item<'a>>> {
        let scope = &source.scope;
        if scope.ranges.is_empty() {
            return Err(self.error(at, "SELECT * must have a FROM clause"));
        }
        let columns = scope
            .merged
            .iter()
            .chain(
                scope
                    .ranges
                    .iter()
                    .flat_map(|r| &r.columns)
                    .filter(|c| !scope.absorbed.contains(&c.id)),
            )
            .map(|c| Item::Column(c.name.clone(), c.clone(), at))
            .collect();
        Ok(columns)
    }

    fn dot_star<'a>(
        &self,
        e: &'a Expr,
        source: &Source,
        frame: Option<&Frame<'_>>,
        at: usize,
    ) -> Result<Vec<Item<'a>>> {
        if let ExprKind::Ident(name) = &e.kind
            && let Found::Range(range) = source.scope.find(&name.name, true)
        {
            return Ok(range
                .columns
                .iter()
                .map(|c| Item::Column(c.name.clone(), c.clone(), at))
                .collect());
        }
        let value = if has_aggregate(e) {
            return Err(ServiceError::unsupported(".* of an aggregate"));
        } else {
            self.expr(e, Ctx::new(&source.scope, frame, "SELECT list"))?
        };
        match value.ty {
            SqlType::Struct(fields) => Ok(fields
                .into_iter()
                .map(|(name, _)| {
                    let ident = Ident {
                        name: name.clone(),
                        at,
                    };
                    Item::Field((!name.is_empty()).then_some(name), e, ident)
                })
                .collect()),
            other => Err(self.error(
                at,
                format_args!("Dot-star is not supported for type {other}"),
            )),
        }
    }

    fn edit_star<'a>(
        &self,
        expanded: Vec<Item<'a>>,
        except: &[Ident],
        replace: &'a [(Expr, Ident)],
        items: &mut Vec<Item<'a>>,
    ) -> Result<()> {
        let named = |item: &Item<'_>, name: &Ident| {
            item.name()
                .is_some_and(|n| n.eq_ignore_ascii_case(&name.name))
        };
        for name in except.iter().chain(replace.iter().map(|(_, n)| n)) {
            if !expanded.iter().any(|i| named(i, name)) {
                return Err(self.error(
                    name.at,
                    format_args!(
                        "Column {} in SELECT * EXCEPT or REPLACE list does not exist",
                        name.name
                    ),
                ));
            }
        }
        let before = items.len();
        for item in expanded {
            if except.iter().any(|name| named(&item, name)) {
                continue;
            }
            match replace.iter().find(|(_, name)| named(&item, name)) {
                Some((e, _)) => items.push(Item::Ast(item.name(), e)),
                None => items.push(item),
            }
        }
        if items.len() == before {
            return Err(ServiceError::invalid_query(
                "SELECT * EXCEPT excludes every column",
            ));
        }
        Ok(())
    }

    /// The keys and the sets of keys of GROUP BY; none without the clause.
    fn grouping_sets(
        &self,
        select: &Select,
        items: &[Item<'_>],
        source: &mut Source,
        scope: &super::scope::Scope,
        frame: Option<&Frame<'_>>,
    ) -> Result<(Grouping, Vec<Vec<usize>>)> {
        let ctx = Ctx::new(scope, frame, "GROUP BY clause");
        let mut keys = super::aggregate::Keys::default();
        let sets = match &select.group_by {
            None => vec![Vec::new()],
            Some(GroupBy::All) => {
                let mut set = Vec::new();
                for item in items {
                    let grouped = match item {
                        Item::Ast(_, e) => !has_aggregate(e) && !super::window::has_window(e),
                        _ => true,
                    };
                    if grouped {
                        let value = self.item(item, ctx)?;
                        if !value.expr.column_refs().is_empty() {
                            set.push(self.group_key(value, &mut keys, select.at)?);
                        }
                    }
                }
                vec![set]
            }
            Some(GroupBy::Items(group)) => self.group_items(group, items, ctx, &mut keys)?,
        };
        let grouping = self.group_columns(source, keys)?;
        Ok((grouping, sets))
    }
}

/// What one item of ORDER BY orders by.
pub(super) enum OrderKey {
    /// A column of the select list.
    Output(usize),
    /// Something else.
    Value(Typed),
}

/// The value with what tells its type.
pub(super) fn marked(value: Typed) -> Typed {
    Typed {
        expr: nested::marked(value.expr, &value.ty),
        ..value
    }
}
