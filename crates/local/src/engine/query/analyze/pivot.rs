//! PIVOT and UNPIVOT.

use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlanBuilder, Operator};
use datafusion::scalar::ScalarValue;

use super::super::super::functions::SqlType;
use super::super::ast::{BinaryOp, Expr, ExprKind, Ident, TableExpr};
use super::Analyzer;
use super::aggregate::{Keys, is_aggregate, walk};
use super::expr::{NOTHING, binary};
use super::from::Source;
use super::query::built;
use super::scope::{Col, Ctx, Found, Frame, Rel, Scope, Typed, column};
use crate::error::{Result, ServiceError};

impl Analyzer<'_> {
    pub(super) fn pivot(&self, from: &TableExpr, frame: Option<&Frame<'_>>) -> Result<Source> {
        match from {
            TableExpr::Pivot {
                input,
                aggregates,
                column,
                values,
                alias,
                at,
            } => {
                let input = self.table_expr(input, None, frame)?;
                if input.row.is_some() {
                    return Err(ServiceError::unsupported("PIVOT in a correlated subquery"));
                }
                let alias = alias.as_ref().map(|a| a.name.clone());
                self.pivoted(input, aggregates, column, values, alias, *at, frame)
            }
            TableExpr::Unpivot { input, .. } => {
                let input = self.table_expr(input, None, frame)?;
                if input.row.is_some() {
                    return Err(ServiceError::unsupported(
                        "UNPIVOT in a correlated subquery",
                    ));
                }
                self.unpivoted(input, from)
            }
            _ => Err(ServiceError::internal("a pivot is a pivot")),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn pivoted(
        &self,
        mut input: Source,
        aggregates: &[(Expr, Option<Ident>)],
        by: &Expr,
        values: &[(Expr, Option<Ident>)],
        alias: Option<String>,
        at: usize,
        frame: Option<&Frame<'_>>,
    ) -> Result<Source> {
        let scope = input.scope.clone();
        let ctx = Ctx::new(&scope, frame, "PIVOT");
        let by_value = self.expr(by, ctx)?;
        let mut used: Vec<String> = by_value
            .expr
            .column_refs()
            .iter()
            .map(|c| c.name.clone())
            .collect();
        for (aggregate, name) in aggregates {
            if !matches!(&aggregate.kind, ExprKind::Call(call) if is_aggregate(call)) {
                return Err(self.error(
                    aggregate.at,
                    "PIVOT expression must be an aggregate function call",
                ));
            }
            if name.is_none() && aggregates.len() > 1 {
                return Err(self.error(
                    aggregate.at,
                    "PIVOT expression must have an alias unless there is exactly one",
                ));
            }
            walk(aggregate, &mut |e| {
                if let ExprKind::Ident(name) = &e.kind
                    && let Found::Column(col) = scope.find(&name.name, false)
                {
                    used.push(col.id.clone());
                }
                if let ExprKind::Dot(range, name) = &e.kind
                    && let ExprKind::Ident(range) = &range.kind
                    && let Found::Range(range) = scope.find(&range.name, true)
                {
                    used.extend(range.find(&name.name).iter().map(|c| c.id.clone()));
                }
            });
        }
        let kept: Vec<Col> = scope
            .merged
            .iter()
            .chain(scope.ranges.iter().flat_map(|r| &r.columns))
            .filter(|c| !used.contains(&c.id) && !scope.absorbed.contains(&c.id))
            .cloned()
            .collect();
        let mut keys = Keys::default();
        let set = kept
            .iter()
            .map(|c| self.group_key(c.typed(), &mut keys, at))
            .collect::<Result<Vec<_>>>()?;
        let grouping = self.group_columns(&mut input, keys)?;
        let grouped = Ctx {
            grouping: Some(&grouping),
            ..ctx
        };
        let mut outputs: Vec<Col> = kept
            .iter()
            .zip(&grouping.keys)
            .map(|(c, k)| Col {
                name: c.name.clone(),
                ..k.col.clone()
            })
            .collect();
        let calls = aggregates
            .iter()
            .map(|(e, name)| {
                let typed = self.expr(e, grouped)?;
                let found = grouping.aggregates.take();
                match found.as_slice() {
                    [(call, col)] if column(&col.id) == typed.expr => {
                        Ok((call.clone(), col.clone(), name))
                    }
                    _ => Err(ServiceError::unsupported("This aggregate in PIVOT")),
                }
            })
            .collect::<Result<Vec<_>>>()?;
        for (value, label) in values {
            let typed = self.expr(value, Ctx::new(&NOTHING, None, "PIVOT"))?;
            let shown = match label {
                Some(label) => label.name.clone(),
                None => self.pivot_name(&typed, value.at)?,
            };
            let matches = self.binary_or_null(by_value.clone(), typed)?;
            for (call, col, name) in &calls {
                let mut call = call.clone();
                if let DfExpr::AggregateFunction(AggregateFunction {
                    params: AggregateFunctionParams { filter, .. },
                    ..
                }) = &mut call
                {
                    *filter = Some(Box::new(match filter.take() {
                        None => matches.clone(),
                        Some(given) => binary(*given, Operator::And, matches.clone()),
                    }));
                }
                let out = Col {
                    name: Some(match name {
                        Some(name) => format!("{}_{shown}", name.name),
                        None => shown.clone(),
                    }),
                    id: self.env.id(),
                    ..col.clone()
                };
                grouping.aggregates.borrow_mut().push((call, out.clone()));
                outputs.push(out);
            }
        }
        let source = self.aggregate(input, &grouping, &[set], frame)?;
        let rel = Rel {
            plan: source.plan,
            columns: outputs,
            row: None,
            value_table: false,
        };
        Ok(self.relation(rel, alias))
    }

    /// `by = value`; a NULL in the list stands for NULL.
    fn binary_or_null(&self, by: Typed, value: Typed) -> Result<DfExpr> {
        if value.is_null_literal() {
            return Ok(DfExpr::IsNull(Box::new(by.expr)));
        }
        Ok(self.binary(BinaryOp::Equal, by, value)?.expr)
    }

    /// What the column of a pivot value is called without an alias.
    fn pivot_name(&self, value: &Typed, at: usize) -> Result<String> {
        Ok(match (&value.ty, &value.literal) {
            (SqlType::String, Some(ScalarValue::Utf8(Some(s)))) => s.clone(),
            (SqlType::Int64, Some(ScalarValue::Int64(Some(n)))) if *n < 0 => {
                format!("minus_{}", n.unsigned_abs())
            }
            (SqlType::Int64, Some(ScalarValue::Int64(Some(n)))) => format!("_{n}"),
            (SqlType::Bool, Some(ScalarValue::Boolean(Some(b)))) => b.to_string(),
            (SqlType::Null, _) => "NULL".to_string(),
            _ => {
                return Err(ServiceError::unsupported(format_args!(
                    "A PIVOT value of type {} without an alias (byte {at})",
                    value.ty
                )));
            }
        })
    }

    fn unpivoted(&self, input: Source, from: &TableExpr) -> Result<Source> {
        let TableExpr::Unpivot {
            include_nulls,
            values,
            name,
            columns,
            alias,
            at,
            ..
        } = from
        else {
            return Err(ServiceError::internal("an unpivot is an unpivot"));
        };
        let find = |ident: &Ident| match input.scope.find(&ident.name, false) {
            Found::Column(col) => Ok(col.clone()),
            _ => Err(self.unrecognized(ident)),
        };
        let mut used = Vec::new();
        for group in columns {
            if group.columns.len() != values.len() {
                return Err(self.error(
                    *at,
                    "UNPIVOT IN has a group with another number of columns than the value columns",
                ));
            }
            for ident in &group.columns {
                used.push(find(ident)?.id);
            }
        }
        let kept: Vec<Col> = all_columns(&input.scope)
            .into_iter()
            .filter(|c| !used.contains(&c.id))
            .collect();
        let mut types: Vec<SqlType> = Vec::new();
        for i in 0..values.len() {
            let cols = columns
                .iter()
                .map(|g| find(&g.columns[i]).map(|c| c.typed()))
                .collect::<Result<Vec<_>>>()?;
            if let Some(other) = cols.iter().find(|c| c.ty != cols[0].ty) {
                return Err(self.error(
                    *at,
                    format_args!(
                        "The datatype of column does not match with other datatypes in the IN clause: {} and {}",
                        cols[0].ty, other.ty
                    ),
                ));
            }
            types.push(cols[0].ty.clone());
        }
        let mut outputs: Vec<Col> = kept
            .iter()
            .map(|c| Col {
                id: self.env.id(),
                ..c.clone()
            })
            .collect();
        for (value, ty) in values.iter().zip(&types) {
            outputs.push(Col {
                name: Some(value.name.clone()),
                id: self.env.id(),
                ty: ty.clone(),
                fold_case: false,
            });
        }
        let mut labels = Vec::new();
        for group in columns {
            labels.push(match &group.label {
                Some(e) => self.expr(e, Ctx::new(&NOTHING, None, "UNPIVOT"))?,
                None => {
                    let names: Vec<&str> = group.columns.iter().map(|c| c.name.as_str()).collect();
                    super::literal::text(&names.join("_"))
                }
            });
        }
        let label_type = self.common_type(&labels, "UNPIVOT")?;
        outputs.push(Col {
            name: Some(name.name.clone()),
            id: self.env.id(),
            ty: label_type.clone(),
            fold_case: false,
        });
        let mut result = None;
        for (group, label) in columns.iter().zip(labels) {
            let mut sources: Vec<DfExpr> = kept.iter().map(|c| column(&c.id)).collect();
            let mut present: Option<DfExpr> = None;
            for ident in &group.columns {
                let col = find(ident)?;
                let not_null = DfExpr::IsNotNull(Box::new(column(&col.id)));
                present = Some(match present {
                    None => not_null,
                    Some(so_far) => binary(so_far, Operator::Or, not_null),
                });
                sources.push(column(&col.id));
            }
            sources.push(self.cast_to(label, &label_type)?.expr);
            let mut builder = LogicalPlanBuilder::from(input.plan.clone());
            if let (false, Some(present)) = (*include_nulls, present) {
                builder = builder
                    .filter(present)
                    .map_err(super::super::session::service_error)?;
            }
            let exprs: Vec<DfExpr> = sources
                .into_iter()
                .zip(&outputs)
                .map(|(e, c)| e.alias(&c.id))
                .collect();
            let plan = built(builder.project(exprs))?;
            result = Some(match result {
                None => plan,
                Some(so_far) => built(LogicalPlanBuilder::from(so_far).union(plan))?,
            });
        }
        let plan = result.ok_or_else(|| ServiceError::internal("UNPIVOT has columns"))?;
        let rel = self.fresh(Rel {
            plan,
            columns: outputs,
            row: None,
            value_table: false,
        })?;
        Ok(self.relation(rel, alias.as_ref().map(|a| a.name.clone())))
    }
}

fn all_columns(scope: &Scope) -> Vec<Col> {
    scope
        .merged
        .iter()
        .chain(scope.ranges.iter().flat_map(|r| &r.columns))
        .filter(|c| !scope.absorbed.contains(&c.id) || scope.merged.iter().any(|m| m.id == c.id))
        .cloned()
        .collect()
}
