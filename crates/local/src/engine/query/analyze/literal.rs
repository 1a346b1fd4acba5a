//! Literals, constants and coercion.

use std::collections::BTreeMap;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use datafusion::common::metadata::FieldMetadata;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, Expr as DfExpr, expr::ScalarFunction};
use datafusion::physical_expr::create_physical_expr;
use datafusion::scalar::ScalarValue;

use super::super::super::functions::{CastMode, Literalness, SqlType, cast, distance, supertype};
use super::super::env::Constant;
use super::super::session::service_error;
use super::Analyzer;
use super::scope::Typed;
use crate::error::{Result, ServiceError};

/// A literal expression of a type.
pub(super) fn constant(value: ScalarValue, ty: &SqlType) -> DfExpr {
    let metadata: BTreeMap<String, String> = ty.metadata().into_iter().collect();
    let metadata = (!metadata.is_empty()).then(|| FieldMetadata::new(metadata));
    DfExpr::Literal(value, metadata)
}

/// A typed literal.
pub(super) fn literal(value: ScalarValue, ty: SqlType) -> Typed {
    Typed {
        expr: constant(value.clone(), &ty),
        ty,
        literal: Some(value),
        fold_case: false,
    }
}

pub(super) fn text(value: &str) -> Typed {
    literal(ScalarValue::Utf8(Some(value.to_string())), SqlType::String)
}

pub(super) fn int(value: i64) -> Typed {
    literal(ScalarValue::Int64(Some(value)), SqlType::Int64)
}

pub(super) fn boolean(value: bool) -> Typed {
    literal(ScalarValue::Boolean(Some(value)), SqlType::Bool)
}

/// NULL of a type.
pub(super) fn null_of(ty: &SqlType) -> Result<DfExpr> {
    let value = ScalarValue::try_new_null(&ty.to_arrow()).map_err(service_error)?;
    Ok(constant(value, ty))
}

/// The value of an expression that no row feeds.
pub(in crate::engine::query) fn evaluate(expr: &DfExpr) -> Result<ScalarValue> {
    let physical = create_physical_expr(
        expr,
        &DFSchema::empty(),
        &ExecutionProps::new(),
        &PhysicalPlanningContext::default(),
    )
    .map_err(service_error)?;
    let row = RecordBatch::try_new_with_options(
        std::sync::Arc::new(Schema::empty()),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    )
    .map_err(|e| ServiceError::internal(e.to_string()))?;
    match physical.evaluate(&row).map_err(service_error)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(array) => {
            ScalarValue::try_from_array(&array, 0).map_err(service_error)
        }
    }
}

impl Analyzer<'_> {
    /// A parameter or variable as an expression.
    pub(in crate::engine::query) fn constant_expr(&self, constant_value: &Constant) -> Typed {
        Typed::new(
            constant(constant_value.value.clone(), &constant_value.ty),
            constant_value.ty.clone(),
        )
    }

    /// An expression that no row feeds, evaluated.
    pub(in crate::engine::query) fn evaluate_typed(&self, typed: &Typed) -> Result<Constant> {
        let value = match &typed.literal {
            Some(value) => value.clone(),
            None => {
                if !typed.expr.column_refs().is_empty() {
                    return Err(ServiceError::invalid_query(
                        "A constant expression is required here",
                    ));
                }
                evaluate(&typed.expr)?
            }
        };
        Ok(Constant {
            ty: typed.ty.clone(),
            value,
        })
    }

    /// CAST to `to`, without a look at what is allowed implicitly.
    pub(super) fn cast_to(&self, typed: Typed, to: &SqlType) -> Result<Typed> {
        if typed.ty == *to {
            return Ok(typed);
        }
        if typed.is_null_literal() {
            let value = ScalarValue::try_new_null(&to.to_arrow()).map_err(service_error)?;
            return Ok(literal(value, to.clone()));
        }
        let udf = cast(&typed.ty.to_column(""), &to.to_column(""), CastMode::Strict)?;
        let expr = DfExpr::ScalarFunction(ScalarFunction::new_udf(udf, vec![typed.expr]));
        if typed.literal.is_some() && expr.column_refs().is_empty() {
            return Ok(literal(evaluate(&expr)?, to.clone()));
        }
        Ok(Typed::new(expr, to.clone()))
    }

    /// Implicit coercion to `to`, where GoogleSQL allows it.
    pub(in crate::engine::query) fn coerce(&self, typed: Typed, to: &SqlType) -> Result<Typed> {
        if typed.ty == *to {
            return Ok(typed);
        }
        if distance(&typed.ty, to, literalness(&typed)).is_none() {
            return Err(ServiceError::invalid_query(format!(
                "Could not cast expression of type {} to type {to}",
                typed.ty
            )));
        }
        self.cast_to(typed, to)
    }

    /// Assignment to a column or variable of type `to`.
    pub(in crate::engine::query) fn assign(
        &self,
        typed: Typed,
        to: &SqlType,
        what: &str,
    ) -> Result<Typed> {
        if typed.ty != *to && assignable(&typed, to) {
            return self.cast_to(typed, to);
        }
        if typed.ty == *to {
            return Ok(typed);
        }
        Err(ServiceError::invalid_query(format!(
            "Value of type {} cannot be assigned to {what}, which has type {to}",
            typed.ty
        )))
    }

    /// The one type that all of these become.
    pub(super) fn common_type(&self, values: &[Typed], what: &str) -> Result<SqlType> {
        let types: Vec<_> = values
            .iter()
            .map(|t| (t.ty.clone(), literalness(t)))
            .collect();
        let ty = supertype(&types).ok_or_else(|| {
            let shown: Vec<String> = types.iter().map(|(t, _)| t.to_string()).collect();
            ServiceError::invalid_query(format!(
                "No matching signature for {what} for argument types: {}",
                shown.join(", ")
            ))
        })?;
        Ok(if ty == SqlType::Null {
            SqlType::Int64
        } else {
            ty
        })
    }
}

pub(super) fn literalness(typed: &Typed) -> Literalness {
    if typed.literal.is_some() {
        Literalness::Literal
    } else {
        Literalness::Expression
    }
}

/// Whether a value may be stored where the type is `to`.
fn assignable(typed: &Typed, to: &SqlType) -> bool {
    // Elements of an array are not coerced, not even literal ones (recorded).
    if let SqlType::Array(element) = &typed.ty
        && **element != SqlType::Null
    {
        return false;
    }
    distance(&typed.ty, to, literalness(typed)).is_some()
}
