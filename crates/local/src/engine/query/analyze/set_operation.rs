//! UNION, INTERSECT and EXCEPT.

use datafusion::logical_expr::{Expr as DfExpr, LogicalPlanBuilder};

use super::super::super::functions::SqlType;
use super::super::ast::{SetExpr, SetOp};
use super::super::session::service_error;
use super::query::{Cut, built};
use super::scope::{Col, Frame, Rel, column};
use super::{Analyzer, nested};
use crate::error::{Result, ServiceError};

impl Analyzer<'_> {
    pub(super) fn mismatched(&self, left: usize, right: usize, at: usize) -> ServiceError {
        self.error(
            at,
            format_args!(
                "Queries in UNION ALL have mismatched column count; query 1 has {left} columns, query 2 has {right} columns"
            ),
        )
    }

    pub(super) fn set_expr(&self, set: &SetExpr, frame: Option<&Frame<'_>>) -> Result<Rel> {
        match set {
            SetExpr::Select(select) => self.select(select, &[], Cut::default(), frame),
            SetExpr::Query(query) => self.query(query, frame),
            SetExpr::Op {
                op,
                all,
                left,
                right,
                at,
            } => self.set_operation(*op, *all, left, right, *at, frame),
        }
    }

    fn set_operation(
        &self,
        op: SetOp,
        all: bool,
        left: &SetExpr,
        right: &SetExpr,
        at: usize,
        frame: Option<&Frame<'_>>,
    ) -> Result<Rel> {
        let word = match (op, all) {
            (SetOp::Union, true) => "UNION ALL",
            (SetOp::Union, false) => "UNION DISTINCT",
            (SetOp::Intersect, _) => "INTERSECT DISTINCT",
            (SetOp::Except, _) => "EXCEPT DISTINCT",
        };
        if all && op != SetOp::Union {
            return Err(self.error(
                at,
                "INTERSECT ALL and EXCEPT ALL are not supported; use DISTINCT",
            ));
        }
        let left = self.set_expr(left, frame)?;
        let right = self.set_expr(right, frame)?;
        if left.columns.len() != right.columns.len() {
            return Err(self.error(
                at,
                format_args!(
                    "Queries in {word} have mismatched column count; query 1 has {} column{}, query 2 has {} column{}",
                    left.columns.len(),
                    if left.columns.len() == 1 { "" } else { "s" },
                    right.columns.len(),
                    if right.columns.len() == 1 { "" } else { "s" },
                ),
            ));
        }
        let mut types = Vec::new();
        for (i, (l, r)) in left.columns.iter().zip(&right.columns).enumerate() {
            let ty = super::super::super::functions::supertype(&[
                (
                    l.ty.clone(),
                    super::super::super::functions::Literalness::Expression,
                ),
                (
                    r.ty.clone(),
                    super::super::super::functions::Literalness::Expression,
                ),
            ])
            .ok_or_else(|| {
                self.error(
                    at,
                    format_args!(
                        "Column {} in {word} has incompatible types: {}, {}",
                        i + 1,
                        l.ty,
                        r.ty
                    ),
                )
            })?;
            if !all {
                self.require_groupable(&ty, word, at)?;
            }
            types.push(ty);
        }
        let (left, right) = (self.under(left, &types)?, self.under(right, &types)?);
        self.combine(op, all, left, right)
    }

    /// The relation with its columns cast to `types`.
    fn under(&self, rel: Rel, types: &[SqlType]) -> Result<Rel> {
        let items = rel
            .columns
            .iter()
            .zip(types)
            .map(|(c, ty)| Ok((c.name.clone(), self.cast_to(c.typed(), ty)?)))
            .collect::<Result<Vec<_>>>()?;
        self.project_rel(rel, items)
    }

    fn combine(&self, op: SetOp, all: bool, left: Rel, right: Rel) -> Result<Rel> {
        // Both sides under the ids of the left one.
        let mut renamed: Vec<DfExpr> = right
            .columns
            .iter()
            .zip(&left.columns)
            .map(|(r, l)| column(&r.id).alias(&l.id))
            .collect();
        let row = match (&left.row, &right.row) {
            (Some(l), Some(r)) => {
                renamed.push(column(r).alias(l));
                Some(l.clone())
            }
            (None, None) => None,
            _ => return Err(ServiceError::internal("both sides number the outer rows")),
        };
        let right_plan = built(LogicalPlanBuilder::from(right.plan).project(renamed))?;
        let plan = match op {
            SetOp::Union => {
                let builder = LogicalPlanBuilder::from(left.plan).union(right_plan);
                if all {
                    built(builder)?
                } else {
                    built(builder.and_then(LogicalPlanBuilder::distinct))?
                }
            }
            SetOp::Intersect => LogicalPlanBuilder::intersect(left.plan, right_plan, false)
                .map_err(service_error)?,
            SetOp::Except => {
                LogicalPlanBuilder::except(left.plan, right_plan, false).map_err(service_error)?
            }
        };
        // Set operations lose what tells types apart.
        let mut exprs: Vec<DfExpr> = Vec::new();
        let mut columns = Vec::new();
        for c in &left.columns {
            let id = self.env.id();
            exprs.push(nested::marked(column(&c.id), &c.ty).alias(&id));
            columns.push(Col { id, ..c.clone() });
        }
        let row = row.map(|row| {
            let id = self.env.id();
            exprs.push(column(&row).alias(&id));
            id
        });
        Ok(Rel {
            plan: built(LogicalPlanBuilder::from(plan).project(exprs))?,
            columns,
            row,
            value_table: left.value_table,
        })
    }
}
