//! The conditions of joins: ON and USING.

use datafusion::common::JoinType;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlanBuilder, Operator};

use super::super::ast::{BinaryOp, Ident, JoinKind};
use super::Analyzer;
use super::expr::binary;
use super::from::Source;
use super::query::built;
use super::scope::{Col, Found, Scope, column};
use crate::error::{Result, ServiceError};

impl Analyzer<'_> {
    pub(super) fn join_on(
        &self,
        left: Source,
        right: Source,
        kind: JoinKind,
        condition: DfExpr,
        scope: Scope,
    ) -> Result<Source> {
        let mut conditions = vec![condition];
        if let (Some(l), Some(r)) = (&left.row, &right.row) {
            conditions.push(binary(column(l), Operator::Eq, column(r)));
        }
        let join_type = match kind {
            JoinKind::Left => JoinType::Left,
            JoinKind::Right => JoinType::Right,
            JoinKind::Full => JoinType::Full,
            JoinKind::Inner | JoinKind::Comma | JoinKind::Cross => JoinType::Inner,
        };
        if join_type != JoinType::Inner && left.row.is_none() && right.row.is_some() {
            return Err(ServiceError::unsupported(
                "An outer join with a correlated subquery",
            ));
        }
        let row = left.row.or(right.row);
        Ok(Source {
            plan: built(
                LogicalPlanBuilder::from(left.plan).join_on(right.plan, join_type, conditions),
            )?,
            scope,
            row,
        })
    }

    pub(super) fn join_using(
        &self,
        left: Source,
        right: Source,
        kind: JoinKind,
        names: &[Ident],
    ) -> Result<Source> {
        let find = |source: &Source, name: &Ident, side: &str| match source
            .scope
            .find(&name.name, false)
        {
            Found::Column(col) => Ok(col.clone()),
            Found::Ambiguous => Err(self.error(
                name.at,
                format_args!("Column name {} is ambiguous", name.name),
            )),
            _ => Err(self.error(
                name.at,
                format_args!(
                    "Column {} in USING clause not found on {side} side of join",
                    name.name
                ),
            )),
        };
        let mut condition: Option<DfExpr> = None;
        let mut pairs = Vec::new();
        for name in names {
            let l = find(&left, name, "left")?;
            let r = find(&right, name, "right")?;
            let equal = self
                .binary(BinaryOp::Equal, l.typed(), r.typed())
                .map_err(|e| self.locate(name.at, e))?;
            condition = Some(match condition {
                None => equal.expr,
                Some(so_far) => binary(so_far, Operator::And, equal.expr),
            });
            pairs.push((name, l, r));
        }
        let condition = condition.ok_or_else(|| ServiceError::internal("USING has columns"))?;
        let mut scope = left.scope.clone();
        scope.ranges.extend(right.scope.ranges.clone());
        scope.absorbed.extend(right.scope.absorbed.clone());
        let mut merged: Vec<Col> = Vec::new();
        let mut computed = Vec::new();
        for (name, l, r) in &pairs {
            scope.merged.retain(|c| c.id != l.id);
            scope.absorbed.extend([l.id.clone(), r.id.clone()]);
            let col = match kind {
                JoinKind::Right => r.clone(),
                JoinKind::Full => {
                    let ty = self.common_type(&[l.typed(), r.typed()], "USING")?;
                    let id = self.env.id();
                    let value = self.first_present(vec![l.typed(), r.typed()], &ty)?;
                    computed.push(value.expr.alias(&id));
                    Col {
                        name: None,
                        id,
                        ty,
                        fold_case: l.fold_case || r.fold_case,
                    }
                }
                _ => l.clone(),
            };
            merged.push(Col {
                name: Some(l.name.clone().unwrap_or_else(|| name.name.clone())),
                ..col
            });
        }
        merged.extend(std::mem::take(&mut scope.merged));
        merged.extend(right.scope.merged.clone());
        scope.merged = merged;
        let mut joined = self.join_on(left, right, kind, condition, scope)?;
        if !computed.is_empty() {
            let mut exprs = joined.all_columns();
            exprs.extend(computed);
            joined.plan = built(LogicalPlanBuilder::from(joined.plan).project(exprs))?;
        }
        Ok(joined)
    }
}
