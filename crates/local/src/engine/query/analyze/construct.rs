//! ARRAY and STRUCT constructors and subscripts.

use super::super::super::functions::SqlType;
use super::super::ast::{Expr, ExprKind, Ident, Subscript, TypeName};
use super::Analyzer;
use super::expr::implied_name;
use super::literal::{evaluate, literal};
use super::nested;
use super::scope::{Ctx, Typed};
use super::types::resolve_type;
use crate::error::{Result, ServiceError};

/// Of which types the parts of a constructor may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// Of those that become the right one.
    Converted,
    /// Of the right one, or NULL.
    Same,
}

impl Analyzer<'_> {
    pub(super) fn array(
        &self,
        element: Option<&TypeName>,
        items: &[Expr],
        ctx: Ctx<'_>,
    ) -> Result<Typed> {
        let values = self.exprs(items, ctx)?;
        if let Some(bad) = values
            .iter()
            .position(|v| matches!(v.ty, SqlType::Array(_)))
        {
            return Err(self.error(
                items[bad].at,
                "Cannot construct array with element type ARRAY because nested arrays are not supported",
            ));
        }
        let ty = match element {
            Some(element) => resolve_type(element, &self.sql)?.0,
            None if values.is_empty() => SqlType::Int64,
            None => self.common_type(&values, "operator ARRAY").map_err(|_| {
                let shown: Vec<String> = values.iter().map(|v| v.ty.to_string()).collect();
                ServiceError::invalid_query(format!(
                    "Array elements of types {{{}}} do not have a common supertype",
                    shown.join(", ")
                ))
            })?,
        };
        let constants = values.iter().all(|v| v.literal.is_some());
        let untyped = element.is_none();
        let values = values
            .into_iter()
            .map(|v| {
                if untyped {
                    self.cast_to(v, &ty)
                } else {
                    self.coerce(v, &ty)
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let expr = nested::make_array(&ty, values.into_iter().map(|v| v.expr).collect());
        let list = if items.is_empty() && untyped {
            SqlType::Array(Box::new(SqlType::Null))
        } else {
            SqlType::Array(Box::new(ty))
        };
        if items.is_empty() && untyped {
            // An empty literal takes the type that its place asks for.
            let typed_list = SqlType::Array(Box::new(SqlType::Null));
            let value = evaluate(&nested::make_array(&SqlType::Null, Vec::new()))?;
            return Ok(literal(value, typed_list));
        }
        if constants && untyped {
            let value = evaluate(&expr)?;
            return Ok(literal(value, list));
        }
        Ok(Typed::new(expr, list))
    }

    /// STRUCT(…) with or without a type.
    pub(super) fn struct_value(
        &self,
        fields: Option<&[(Option<Ident>, TypeName)]>,
        items: &[(Expr, Option<Ident>)],
        values: Vec<Typed>,
        at: usize,
    ) -> Result<Typed> {
        if let Some(fields) = fields {
            if fields.len() != values.len() {
                return Err(self.error(
                    at,
                    format_args!(
                        "STRUCT type has {} fields but constructor call has {} fields",
                        fields.len(),
                        values.len()
                    ),
                ));
            }
            let mut typed = Vec::new();
            for ((name, ty), value) in fields.iter().zip(values) {
                let name = name.as_ref().map(|n| n.name.clone()).unwrap_or_default();
                let ty = resolve_type(ty, &self.sql)?.0;
                typed.push((name, self.coerce(value, &ty)?));
            }
            return Ok(self.make_struct(typed));
        }
        let named = items
            .iter()
            .zip(values)
            .map(|((e, alias), value)| {
                let name = match alias {
                    Some(alias) => alias.name.clone(),
                    None => implied_name(e).unwrap_or_default(),
                };
                // A NULL without a type is an INT64.
                let value = if value.is_null_literal() {
                    self.cast_to(value, &SqlType::Int64)?
                } else {
                    self.settle(value)?
                };
                Ok((name, value))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(self.make_struct(named))
    }

    /// A constructor without a type as a value of `ty`, part by part: `[]` and
    /// `(NULL, 1)` have no type of their own. `None` when it is none, or when a part
    /// is of another type: fields of a STRUCT are converted, elements of an ARRAY are
    /// not (recorded: `[1, 2]` is no ARRAY<FLOAT64>).
    pub(super) fn constructed(
        &self,
        e: &Expr,
        ty: &SqlType,
        parts: Parts,
        ctx: Ctx<'_>,
    ) -> Option<Typed> {
        let part = |e: &Expr, ty: &SqlType, parts: Parts| {
            if let Some(typed) = self.constructed(e, ty, parts, ctx) {
                return Some(typed);
            }
            let typed = self.expr(e, ctx).ok()?;
            let same = typed.ty == *ty || typed.is_null_literal();
            if parts == Parts::Same && !same {
                return None;
            }
            self.assign(typed, ty, "a part").ok()
        };
        match (&e.kind, ty) {
            (
                ExprKind::Array {
                    element: None,
                    items,
                },
                SqlType::Array(element),
            ) => {
                let values = items
                    .iter()
                    .map(|item| part(item, element, Parts::Same).map(|typed| typed.expr))
                    .collect::<Option<Vec<_>>>()?;
                Some(Typed::new(nested::make_array(element, values), ty.clone()))
            }
            (
                ExprKind::Struct {
                    fields: None,
                    items,
                },
                SqlType::Struct(fields),
            ) if items.len() == fields.len() => {
                let values = items
                    .iter()
                    .zip(fields)
                    .map(|((item, _), (name, ty))| Some((name.clone(), part(item, ty, parts)?)))
                    .collect::<Option<Vec<_>>>()?;
                Some(self.make_struct(values))
            }
            _ => None,
        }
    }

    /// A value whose type nothing will decide any more.
    pub(super) fn settle(&self, value: Typed) -> Result<Typed> {
        match &value.ty {
            SqlType::Null => self.cast_to(value, &SqlType::Int64),
            SqlType::Array(element) if **element == SqlType::Null => {
                self.cast_to(value, &SqlType::Array(Box::new(SqlType::Int64)))
            }
            _ => Ok(value),
        }
    }

    pub(super) fn make_struct(&self, fields: Vec<(String, Typed)>) -> Typed {
        let literal_struct = fields.iter().all(|(_, v)| v.literal.is_some());
        let ty = SqlType::Struct(
            fields
                .iter()
                .map(|(n, v)| (n.clone(), v.ty.clone()))
                .collect(),
        );
        let expr = nested::make_struct(&ty, fields.into_iter().map(|(_, v)| v.expr).collect());
        if literal_struct && let Ok(value) = evaluate(&expr) {
            return literal(value, ty);
        }
        Typed::new(expr, ty)
    }

    pub(super) fn subscript(
        &self,
        inner: &Expr,
        kind: Subscript,
        index: &Expr,
        ctx: Ctx<'_>,
    ) -> Result<Typed> {
        let value = self.expr(inner, ctx)?;
        let index = self.expr(index, ctx)?;
        let element = match (&value.ty, kind) {
            (SqlType::Json, Subscript::Plain) => {
                let index = match index.ty {
                    SqlType::String => index,
                    _ => self.coerce(index, &SqlType::Int64)?,
                };
                return Ok(Typed::new(
                    nested::json_member(value.expr, index.expr),
                    SqlType::Json,
                ));
            }
            (SqlType::Array(element), _) => (**element).clone(),
            (SqlType::Struct(_), _) => {
                return Err(ServiceError::unsupported("A subscript of a STRUCT"));
            }
            (other, _) => {
                return Err(ServiceError::invalid_query(format!(
                    "Element access using [OFFSET()] is not supported on values of type {other}"
                )));
            }
        };
        let index = self.coerce(index, &SqlType::Int64).map_err(|_| {
            ServiceError::invalid_query("Array position in [] must be coercible to INT64 type")
        })?;
        let value = self.settle(value)?;
        let element = if element == SqlType::Null {
            SqlType::Int64
        } else {
            element
        };
        let expr = nested::element(value.expr, index.expr, kind, &element);
        Ok(Typed::new(expr, element))
    }
}
