//! Queries: WITH, set operations, ORDER BY and LIMIT over them.

use std::rc::Rc;

use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, Operator, WindowFrame,
    WindowFunctionDefinition,
};
use datafusion::scalar::ScalarValue;

use super::super::super::functions::SqlType;
use super::super::ast::{Cte, Expr, ExprKind, OrderItem, Query, SetExpr, SetOp};
use super::super::scan::plan_of;
use super::super::session::service_error;
use super::expr::{NOTHING, binary};
use super::literal::int;
use super::scope::{Col, Ctx, Frame, Mode, Rel, Scope, Typed, column};
use super::window::with_windows;
use super::{Analyzer, CteEntry, frame_address, nested};
use crate::error::{Result, ServiceError};

/// LIMIT and OFFSET.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cut {
    pub(super) limit: Option<usize>,
    pub(super) offset: usize,
}

impl Cut {
    fn is_none(self) -> bool {
        self.limit.is_none() && self.offset == 0
    }
}

pub(super) fn built(builder: datafusion::error::Result<LogicalPlanBuilder>) -> Result<LogicalPlan> {
    builder
        .and_then(LogicalPlanBuilder::build)
        .map_err(service_error)
}

impl Analyzer<'_> {
    /// Analyzes a query.
    pub(in crate::engine::query) fn query(
        &self,
        query: &Query,
        frame: Option<&Frame<'_>>,
    ) -> Result<Rel> {
        let depth = self.ctes.borrow().len();
        let result = self
            .declare_ctes(query, frame)
            .and_then(|()| self.query_body(query, frame));
        self.ctes.borrow_mut().truncate(depth);
        result
    }

    fn declare_ctes(&self, query: &Query, frame: Option<&Frame<'_>>) -> Result<()> {
        for (i, cte) in query.with.iter().enumerate() {
            if query.with[..i].iter().any(|c| c.name.is(&cte.name.name)) {
                return Err(self.error(
                    cte.name.at,
                    format_args!("Duplicate alias {} for WITH subquery", cte.name.name),
                ));
            }
            let visible = self.ctes.borrow().len();
            self.ctes.borrow_mut().push(CteEntry {
                cte: Rc::new(cte.clone()),
                visible,
                frame: frame_address(frame),
                work: None,
                recursive: query.recursive && names_itself(cte),
            });
        }
        // A definition that nothing uses must be valid all the same.
        for cte in &query.with {
            if !query.recursive && frame.is_none() {
                self.cte(&cte.name, frame)?;
            }
        }
        Ok(())
    }

    /// The relation that a WITH clause calls `name`, if there is one.
    pub(super) fn cte(
        &self,
        name: &super::super::ast::Ident,
        frame: Option<&Frame<'_>>,
    ) -> Result<Option<Rel>> {
        let (index, entry) = {
            let ctes = self.ctes.borrow();
            match ctes
                .iter()
                .enumerate()
                .rev()
                .find(|(_, e)| e.cte.name.is(&name.name))
            {
                Some((i, e)) => (i, e.clone()),
                None => return Ok(None),
            }
        };
        if let Some(work) = entry.work {
            return self.fresh(work).map(Some);
        }
        let inner = if entry.frame == frame_address(frame) {
            frame
        } else if entry.frame.is_none() {
            None
        } else {
            frame
        };
        let visible = if entry.recursive {
            index + 1
        } else {
            entry.visible
        };
        let hidden = self.ctes.borrow_mut().split_off(visible);
        let result = if entry.recursive {
            self.recursive_cte(index, &entry.cte, inner)
        } else {
            self.query(&entry.cte.query, inner)
        };
        let mut ctes = self.ctes.borrow_mut();
        ctes.truncate(visible);
        ctes.extend(hidden);
        drop(ctes);
        result.map(Some)
    }

    fn recursive_cte(&self, index: usize, cte: &Cte, frame: Option<&Frame<'_>>) -> Result<Rel> {
        let SetExpr::Op {
            op: SetOp::Union,
            all,
            left,
            right,
            ..
        } = &cte.query.body
        else {
            return Err(self.error(
                cte.name.at,
                format_args!(
                    "Recursive query must be in the form of `non-recursive-term UNION recursive-term`: {}",
                    cte.name.name
                ),
            ));
        };
        if frame.is_some() {
            return Err(ServiceError::unsupported(
                "A recursive WITH inside a subquery",
            ));
        }
        if !cte.query.order_by.is_empty() || cte.query.limit.is_some() || !cte.query.with.is_empty()
        {
            return Err(ServiceError::unsupported(
                "WITH, ORDER BY or LIMIT in a recursive WITH",
            ));
        }
        let mut base = self.set_expr(left, None)?;
        base = self.settle_rel(base)?;
        let work_name = self.env.id();
        let schema = super::super::scan::id_schema(base.columns.iter().map(|c| (&c.id, &c.ty)));
        let work = datafusion::catalog::cte_worktable::CteWorkTable::new(&work_name, schema);
        let plan = plan_named(&work_name, std::sync::Arc::new(work))?;
        self.ctes.borrow_mut()[index].work = Some(Rel {
            plan,
            columns: base.columns.clone(),
            row: None,
            value_table: false,
        });
        let step = self.set_expr(right, None);
        self.ctes.borrow_mut()[index].work = None;
        let step = step?;
        if step.columns.len() != base.columns.len() {
            return Err(self.mismatched(base.columns.len(), step.columns.len(), cte.name.at));
        }
        let columns = base
            .columns
            .iter()
            .zip(&step.columns)
            .map(|(to, from)| {
                let value = self.coerce(from.typed(), &to.ty)?;
                Ok(nested::marked(value.expr, &to.ty).alias(&to.id))
            })
            .collect::<Result<Vec<_>>>()?;
        let step_plan = built(LogicalPlanBuilder::from(step.plan).project(columns))?;
        let plan = built(
            LogicalPlanBuilder::from(base.plan).to_recursive_query(work_name, step_plan, !all),
        )?;
        self.fresh(Rel {
            plan,
            columns: base.columns,
            row: None,
            value_table: false,
        })
    }

    /// The same relation with ids of its own.
    pub(super) fn fresh(&self, rel: Rel) -> Result<Rel> {
        let items = rel
            .columns
            .iter()
            .map(|c| (c.name.clone(), c.typed()))
            .collect();
        self.project_rel(rel, items)
    }

    /// A relation of the given columns over `rel`.
    pub(super) fn project_rel(&self, rel: Rel, items: Vec<(Option<String>, Typed)>) -> Result<Rel> {
        let mut columns = Vec::with_capacity(items.len());
        let mut exprs = Vec::with_capacity(items.len() + 1);
        for (name, value) in items {
            let id = self.env.id();
            exprs.push(value.expr.alias(&id));
            columns.push(Col {
                name,
                id,
                ty: value.ty,
                fold_case: value.fold_case,
            });
        }
        let row = rel.row.as_ref().map(|row| {
            let id = self.env.id();
            exprs.push(column(row).alias(&id));
            id
        });
        Ok(Rel {
            plan: built(LogicalPlanBuilder::from(rel.plan).project(exprs))?,
            columns,
            row,
            value_table: rel.value_table,
        })
    }

    /// The relation without untyped columns.
    pub(in crate::engine::query) fn settle_rel(&self, rel: Rel) -> Result<Rel> {
        let untyped = |t: &SqlType| {
            *t == SqlType::Null || matches!(t, SqlType::Array(e) if **e == SqlType::Null)
        };
        if !rel.columns.iter().any(|c| untyped(&c.ty)) {
            return Ok(rel);
        }
        let items = rel
            .columns
            .iter()
            .map(|c| Ok((c.name.clone(), self.settle(c.typed())?)))
            .collect::<Result<Vec<_>>>()?;
        self.project_rel(rel, items)
    }

    /// In a correlated subquery: the relation beside the outer row it belongs to.
    pub(super) fn with_outer(&self, rel: Rel, frame: &Frame<'_>) -> Result<Rel> {
        let Mode::Apply { row, .. } = &frame.mode else {
            return Ok(rel);
        };
        let outer = self.outer_rows(frame)?;
        let builder = LogicalPlanBuilder::from(outer);
        let plan = match &rel.row {
            Some(inner) => built(builder.join_on(
                rel.plan,
                datafusion::common::JoinType::Inner,
                [binary(column(row), Operator::Eq, column(inner))],
            ))?,
            None => built(builder.cross_join(rel.plan))?,
        };
        Ok(Rel {
            plan,
            columns: rel.columns,
            row: Some(row.clone()),
            value_table: rel.value_table,
        })
    }

    /// The numbered rows of the query around a correlated subquery.
    pub(super) fn outer_rows(&self, frame: &Frame<'_>) -> Result<LogicalPlan> {
        match &frame.mode {
            Mode::Apply { slot, .. } => plan_of(std::sync::Arc::clone(slot) as _),
            Mode::Probe => Err(ServiceError::internal("a probe has no outer rows")),
        }
    }

    fn query_body(&self, query: &Query, frame: Option<&Frame<'_>>) -> Result<Rel> {
        let cut = self.cut(query)?;
        if let SetExpr::Select(select) = &query.body {
            return self.select(select, &query.order_by, cut, frame);
        }
        let rel = self.set_expr(&query.body, frame)?;
        if query.order_by.is_empty() && cut.is_none() {
            return Ok(rel);
        }
        let mut scope = Scope::default();
        scope.ranges.push(super::scope::Range {
            columns: rel.columns.clone(),
            ..Default::default()
        });
        let ctx = Ctx::new(&scope, frame, "ORDER BY clause");
        let mut keys = Vec::new();
        for item in &query.order_by {
            let value = match ordinal(&item.expr) {
                Some(n) => self.ordinal_column(n, &rel.columns, item.expr.at)?.typed(),
                None => self.expr(&item.expr, ctx)?,
            };
            keys.extend(self.sort_keys(value, item)?);
        }
        self.order_and_cut(rel, keys, cut)
    }

    pub(super) fn ordinal_column<'c>(
        &self,
        n: i64,
        columns: &'c [Col],
        at: usize,
    ) -> Result<&'c Col> {
        usize::try_from(n)
            .ok()
            .and_then(|n| n.checked_sub(1))
            .and_then(|n| columns.get(n))
            .ok_or_else(|| {
                self.error(
                    at,
                    format_args!(
                        "ORDER BY column number item is out of range. Column numbers must be between 1 and {}. Found : {n}",
                        columns.len()
                    ),
                )
            })
    }

    fn cut(&self, query: &Query) -> Result<Cut> {
        let number = |e: &Expr| -> Result<usize> {
            let value = self.expr(e, Ctx::new(&NOTHING, None, "LIMIT"))?;
            let value = self.coerce(value, &SqlType::Int64)?;
            match self.evaluate_typed(&value)?.value {
                ScalarValue::Int64(Some(n)) if n >= 0 => {
                    Ok(usize::try_from(n).unwrap_or(usize::MAX))
                }
                _ => Err(self.error(
                    e.at,
                    "LIMIT and OFFSET expect a non-negative integer literal or parameter",
                )),
            }
        };
        Ok(Cut {
            limit: query.limit.as_ref().map(number).transpose()?,
            offset: query.offset.as_ref().map(number).transpose()?.unwrap_or(0),
        })
    }

    /// The keys that order by a value as GoogleSQL does.
    pub(super) fn sort_keys(&self, value: Typed, item: &OrderItem) -> Result<Vec<Sort>> {
        if item.collate.is_some() {
            return Err(ServiceError::unsupported("COLLATE in ORDER BY"));
        }
        let value = self.settle(value)?;
        if !value.ty.supports_ordering() {
            return Err(self.error(
                item.expr.at,
                format_args!("ORDER BY does not support expressions of type {}", value.ty),
            ));
        }
        let ascending = !item.descending;
        let nulls_first = item.nulls_first.unwrap_or(ascending);
        let sort = |expr: DfExpr| Sort {
            expr,
            asc: ascending,
            nulls_first,
        };
        Ok(match value.ty {
            SqlType::Float64 => nested::float_keys(value.expr)
                .into_iter()
                .map(sort)
                .collect(),
            SqlType::Interval | SqlType::Range(_) => {
                return Err(ServiceError::unsupported(format_args!(
                    "ORDER BY a value of type {}",
                    value.ty
                )));
            }
            SqlType::String if value.fold_case => vec![sort(self.folded(value)?.expr)],
            _ => vec![sort(value.expr)],
        })
    }

    /// Orders rows and keeps those between OFFSET and LIMIT, in a correlated
    /// subquery per outer row. The keys may name any column of the plan.
    pub(super) fn order_and_cut(&self, mut rel: Rel, keys: Vec<Sort>, cut: Cut) -> Result<Rel> {
        if let (Some(row), false) = (&rel.row, cut.is_none()) {
            let number = self.env.id();
            let window = DfExpr::WindowFunction(Box::new(WindowFunction {
                fun: WindowFunctionDefinition::WindowUDF(row_number_udwf()),
                params: WindowFunctionParams {
                    args: Vec::new(),
                    partition_by: vec![column(row)],
                    order_by: keys.clone(),
                    window_frame: WindowFrame::new((!keys.is_empty()).then_some(true)),
                    filter: None,
                    null_treatment: None,
                    distinct: false,
                },
            }))
            .alias(&number);
            rel.plan = with_windows(rel.plan, vec![window])?;
            let place =
                datafusion::logical_expr::cast(column(&number), arrow::datatypes::DataType::Int64);
            let whole = |n: usize| int(i64::try_from(n).unwrap_or(i64::MAX)).expr;
            let mut condition = binary(place.clone(), Operator::Gt, whole(cut.offset));
            if let Some(limit) = cut.limit {
                let last = whole(limit.saturating_add(cut.offset));
                condition = binary(
                    condition,
                    Operator::And,
                    binary(place, Operator::LtEq, last),
                );
            }
            rel.plan = built(LogicalPlanBuilder::from(rel.plan).filter(condition))?;
            if !keys.is_empty() {
                rel.plan = built(LogicalPlanBuilder::from(rel.plan).sort(keys))?;
            }
            return Ok(rel);
        }
        let mut builder = LogicalPlanBuilder::from(rel.plan);
        if !keys.is_empty() {
            builder = builder.sort(keys).map_err(service_error)?;
        }
        if !cut.is_none() {
            builder = builder
                .limit(cut.offset, cut.limit)
                .map_err(service_error)?;
        }
        rel.plan = builder.build().map_err(service_error)?;
        Ok(rel)
    }

    /// Whether values can be told apart by GROUP BY, DISTINCT and the like.
    pub(super) fn require_groupable(&self, ty: &SqlType, what: &str, at: usize) -> Result<()> {
        match ty {
            SqlType::Json | SqlType::Geography => Err(self.error(
                at,
                format_args!("{what} is not allowed with values of type {ty}"),
            )),
            SqlType::Array(element) => self.require_groupable(element, what, at),
            SqlType::Struct(fields) => fields
                .iter()
                .try_for_each(|(_, t)| self.require_groupable(t, what, at)),
            SqlType::Interval => Err(ServiceError::unsupported(format_args!(
                "{what} with values of type INTERVAL"
            ))),
            _ => Ok(()),
        }
    }
}

/// The position that a select-list number names.
pub(super) fn ordinal(e: &Expr) -> Option<i64> {
    match &e.kind {
        ExprKind::Integer(n) => n.parse().ok(),
        _ => None,
    }
}

/// A scan called `name`, as recursive plans find their work table.
fn plan_named(
    name: &str,
    provider: std::sync::Arc<dyn datafusion::datasource::TableProvider>,
) -> Result<LogicalPlan> {
    let schema = provider.schema();
    let scan = LogicalPlanBuilder::scan(
        name,
        datafusion::datasource::provider_as_source(provider),
        None,
    )
    .map_err(service_error)?;
    let columns = schema
        .fields()
        .iter()
        .map(|f| {
            DfExpr::Column(datafusion::common::Column::new(Some(name), f.name())).alias(f.name())
        })
        .collect::<Vec<_>>();
    built(scan.project(columns))
}

/// Whether a definition refers to its own name, as text tells.
fn names_itself(cte: &Cte) -> bool {
    let mut found = false;
    super::super::ast::tables_of(&cte.query, &mut |path| {
        found |= path.len() == 1 && path[0].is(&cte.name.name);
    });
    found
}
