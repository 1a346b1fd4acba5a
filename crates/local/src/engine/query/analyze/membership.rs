//! IN and LIKE ANY, ALL.

use datafusion::logical_expr::{Expr as DfExpr, Operator, expr::InList};

use super::super::super::functions::SqlType;
use super::super::ast::{BinaryOp, Expr, InSet, Quantifier};
use super::Analyzer;
use super::expr::{binary, compares_natively};
use super::nested;
use super::scope::{Ctx, Typed};
use crate::error::{Result, ServiceError};

impl Analyzer<'_> {
    pub(super) fn in_set(&self, e: &Expr, set: &InSet, ctx: Ctx<'_>) -> Result<Typed> {
        let value = self.expr(e, ctx)?;
        match set {
            InSet::Unnest(array) => {
                let array = self.expr(array, ctx)?;
                if value.fold_case || array.fold_case {
                    return Err(ServiceError::unsupported("IN UNNEST with a collation"));
                }
                let array = self.settle(array)?;
                let SqlType::Array(element) = &array.ty else {
                    return Err(ServiceError::invalid_query(format!(
                        "Values referenced in UNNEST must be arrays. UNNEST contains expression of type {}",
                        array.ty
                    )));
                };
                let element = Typed {
                    ty: (**element).clone(),
                    ..array.clone()
                };
                let ty = self.common_type(&[value.clone(), element], "operator IN UNNEST")?;
                if !compares_natively(&ty) {
                    return Err(ServiceError::unsupported(format_args!(
                        "IN UNNEST of values of type {ty}"
                    )));
                }
                let value = self.cast_to(value, &ty)?;
                let array = self.cast_to(array, &SqlType::Array(Box::new(ty)))?;
                Ok(Typed::new(
                    nested::member(value.expr, array.expr),
                    SqlType::Bool,
                ))
            }
            InSet::Query(query) => self.in_subquery(value, query, ctx),
            InSet::List(items) => {
                let items = self.exprs(items, ctx)?;
                let mut all = vec![value.clone()];
                all.extend(items.iter().cloned());
                let folds = all.iter().any(|t| t.fold_case);
                let ty = self.common_type(&all, "operator IN").ok();
                if let Some(ty) = ty
                    && compares_natively(&ty)
                    && !folds
                    && !all.iter().any(Typed::is_null_literal)
                {
                    let value = self.cast_to(value, &ty)?;
                    let list = items
                        .into_iter()
                        .map(|t| Ok(self.cast_to(t, &ty)?.expr))
                        .collect::<Result<Vec<_>>>()?;
                    return Ok(Typed::new(
                        DfExpr::InList(InList::new(Box::new(value.expr), list, false)),
                        SqlType::Bool,
                    ));
                }
                let mut any: Option<DfExpr> = None;
                for item in items {
                    let equal = self.binary(BinaryOp::Equal, value.clone(), item)?;
                    any = Some(match any {
                        None => equal.expr,
                        Some(so_far) => binary(so_far, Operator::Or, equal.expr),
                    });
                }
                let expr = any.ok_or_else(|| ServiceError::internal("IN has a list"))?;
                Ok(Typed::new(expr, SqlType::Bool))
            }
        }
    }

    pub(super) fn like_some(
        &self,
        e: &Expr,
        quantifier: Quantifier,
        patterns: &InSet,
        not: bool,
        ctx: Ctx<'_>,
    ) -> Result<Typed> {
        let InSet::List(patterns) = patterns else {
            return Err(ServiceError::unsupported("LIKE ANY or ALL over rows"));
        };
        let value = self.expr(e, ctx)?;
        let mut all: Option<DfExpr> = None;
        for pattern in patterns {
            let pattern = self.expr(pattern, ctx)?;
            let mut like = self.operator("$like", vec![value.clone(), pattern])?.expr;
            // NOT LIKE ANY means that some pattern does not match.
            if not {
                like = DfExpr::Not(Box::new(like));
            }
            let op = match quantifier {
                Quantifier::Any => Operator::Or,
                Quantifier::All => Operator::And,
            };
            all = Some(match all {
                None => like,
                Some(so_far) => binary(so_far, op, like),
            });
        }
        let expr = all.ok_or_else(|| ServiceError::internal("LIKE has patterns"))?;
        Ok(Typed::new(expr, SqlType::Bool))
    }
}
