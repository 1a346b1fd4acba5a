//! Window functions.

use arrow::datatypes::i256;
use datafusion::logical_expr::expr::{NullTreatment, Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, WindowFrame, WindowFrameBound,
    WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::scalar::ScalarValue;

use super::super::super::functions::{Function, FunctionKind, SqlType, kind, resolve};
use super::super::ast::{Bound, Call, Expr, ExprKind, Frame as FrameSpec, Window, WindowSpec};
use super::aggregate::{function_name, walk};
use super::call::BoundAggregate;
use super::expr::NOTHING;
use super::modified::{Modifiers, modified};
use super::query::built;
use super::scope::{Ctx, Mode, Typed, Windows, column};
use super::{Analyzer, nested};
use crate::error::{Result, ServiceError};

/// Whether an expression calls a window function.
pub(super) fn has_window(e: &Expr) -> bool {
    let mut found = false;
    walk(e, &mut |e| {
        found |= matches!(&e.kind, ExprKind::Call(call) if call.over.is_some());
    });
    found
}

impl Analyzer<'_> {
    pub(super) fn window_call(
        &self,
        call: &Call,
        name: &str,
        at: usize,
        ctx: Ctx<'_>,
    ) -> Result<Typed> {
        let Some(windows) = ctx.windows else {
            return Err(self.error(
                at,
                format_args!(
                    "Analytic function {} not allowed in {}",
                    name.to_ascii_uppercase(),
                    ctx.clause
                ),
            ));
        };
        let inner = Ctx {
            windows: None,
            clause: "an argument of an analytic function",
            ..ctx
        };
        let spec = match &call.over {
            Some(window) => self.window_spec(window, windows)?,
            None => return Err(ServiceError::internal("a window call has OVER")),
        };
        let (function, args, ty, ranks) = match kind(name) {
            Some(FunctionKind::Window) => self.window_function(call, name, at, inner)?,
            Some(FunctionKind::Aggregate) => {
                if !call.order_by.is_empty() || call.limit.is_some() || call.having.is_some() {
                    return Err(ServiceError::unsupported(
                        "ORDER BY, LIMIT or HAVING inside a window call",
                    ));
                }
                let BoundAggregate { udf, args, ty, .. } =
                    self.bind_aggregate(call, name, at, inner)?;
                let arity = args.len();
                let udf = modified(udf, Modifiers::none(arity), &ty);
                (WindowFunctionDefinition::AggregateUDF(udf), args, ty, false)
            }
            None => {
                return Err(self.error(
                    at,
                    format_args!("Function not found: {}", function_name(call)),
                ));
            }
            _ => {
                return Err(self.error(
                    at,
                    format_args!(
                        "Function {} does not support an OVER clause",
                        name.to_ascii_uppercase()
                    ),
                ));
            }
        };
        let mut partition_by = Vec::new();
        for e in &spec.partition_by {
            let value = self.expr(e, inner)?;
            let value = self.settle(value)?;
            self.require_groupable(&value.ty, "PARTITION BY", e.at)?;
            if value.fold_case {
                return Err(ServiceError::unsupported("PARTITION BY with a collation"));
            }
            partition_by.push(match value.ty {
                SqlType::Float64 => nested::group_key(value.expr),
                _ => value.expr,
            });
        }
        if let Some(frame) = ctx.frame
            && let Mode::Apply { row, .. } = &frame.mode
        {
            partition_by.insert(0, column(row));
        }
        let offsets = spec
            .frame
            .as_ref()
            .is_some_and(|f| !f.rows && has_offset(f));
        let mut order_by: Vec<Sort> = Vec::new();
        let mut key_type = None;
        for item in &spec.order_by {
            let value = self.expr(&item.expr, inner)?;
            key_type = Some(value.ty.clone());
            let mut keys = self.sort_keys(value, item)?;
            if offsets && keys.len() > 1 {
                keys.remove(0);
            }
            order_by.extend(keys);
        }
        if ranks && spec.frame.is_some() {
            return Err(self.error(
                at,
                format_args!(
                    "Window framing clause is not allowed for analytic function {}",
                    name.to_ascii_uppercase()
                ),
            ));
        }
        if offsets && spec.order_by.len() != 1 {
            return Err(self.error(
                at,
                "A RANGE frame with an offset needs exactly one ORDER BY expression",
            ));
        }
        let window_frame = match &spec.frame {
            None => WindowFrame::new((!order_by.is_empty()).then_some(false)),
            Some(frame) => self.window_frame(frame, key_type.as_ref(), at)?,
        };
        let null_treatment = match kind(name) {
            Some(FunctionKind::Window) => call.ignore_nulls.map(|ignore| {
                if ignore {
                    NullTreatment::IgnoreNulls
                } else {
                    NullTreatment::RespectNulls
                }
            }),
            _ => None,
        };
        let window = DfExpr::WindowFunction(Box::new(WindowFunction {
            fun: function,
            params: WindowFunctionParams {
                args,
                partition_by,
                order_by,
                window_frame,
                filter: None,
                null_treatment,
                distinct: false,
            },
        }));
        self.window_column(window, ty, windows)
    }

    fn window_column(&self, window: DfExpr, ty: SqlType, windows: &Windows) -> Result<Typed> {
        let mut found = windows.found.borrow_mut();
        for known in found.iter() {
            if let DfExpr::Alias(alias) = known
                && *alias.expr == window
            {
                return Ok(Typed::column(&alias.name, &ty));
            }
        }
        let id = self.env.id();
        found.push(window.alias(&id));
        Ok(Typed::column(&id, &ty))
    }

    fn window_function(
        &self,
        call: &Call,
        name: &str,
        at: usize,
        ctx: Ctx<'_>,
    ) -> Result<(WindowFunctionDefinition, Vec<DfExpr>, SqlType, bool)> {
        if call.distinct
            || !call.order_by.is_empty()
            || call.limit.is_some()
            || call.having.is_some()
        {
            return Err(self.error(
                at,
                format_args!("DISTINCT, ORDER BY, LIMIT and HAVING are not allowed in {name}"),
            ));
        }
        let values = call
            .args
            .iter()
            .map(|a| self.expr(&a.value, ctx))
            .collect::<Result<Vec<_>>>()?;
        let arguments: Vec<_> = values.iter().map(Typed::argument).collect();
        let bound = resolve(name, &arguments)?;
        let Function::Window(udf) = bound.function else {
            return Err(ServiceError::internal(format!(
                "{name} is no window function"
            )));
        };
        let args = values
            .into_iter()
            .zip(&bound.arguments)
            .map(|(v, to)| Ok(self.cast_to(v, &SqlType::of_column(to))?.expr))
            .collect::<Result<Vec<_>>>()?;
        let framed = matches!(name, "first_value" | "last_value" | "nth_value");
        Ok((
            WindowFunctionDefinition::WindowUDF(udf),
            args,
            SqlType::of_column(&bound.returns),
            !framed,
        ))
    }

    /// The window with what named windows add to it.
    fn window_spec(&self, window: &Window, windows: &Windows) -> Result<WindowSpec> {
        let named = |name: &super::super::ast::Ident| {
            windows
                .named
                .iter()
                .find(|(n, _)| name.is(n))
                .map(|(_, spec)| spec.clone())
                .ok_or_else(|| {
                    self.error(
                        name.at,
                        format_args!("Unrecognized window alias {}", name.name),
                    )
                })
        };
        let mut spec = match window {
            Window::Named(name) => named(name)?,
            Window::Spec(spec) => (**spec).clone(),
        };
        let mut depth = 0;
        while let Some(base) = spec.base.take() {
            depth += 1;
            if depth > 50 {
                return Err(self.error(base.at, "A window refers to itself"));
            }
            let inherited = named(&base)?;
            if !spec.partition_by.is_empty()
                || (!spec.order_by.is_empty() && !inherited.order_by.is_empty())
                || inherited.frame.is_some()
            {
                return Err(self.error(
                    base.at,
                    format_args!("Window {} cannot be changed so", base.name),
                ));
            }
            spec.partition_by = inherited.partition_by;
            if spec.order_by.is_empty() {
                spec.order_by = inherited.order_by;
            }
            spec.base = inherited.base;
        }
        Ok(spec)
    }

    fn window_frame(
        &self,
        frame: &FrameSpec,
        key: Option<&SqlType>,
        at: usize,
    ) -> Result<WindowFrame> {
        let units = if frame.rows {
            WindowFrameUnits::Rows
        } else {
            WindowFrameUnits::Range
        };
        let bound = |b: &Bound| -> Result<WindowFrameBound> {
            let unbounded = || {
                if frame.rows {
                    ScalarValue::UInt64(None)
                } else {
                    ScalarValue::Null
                }
            };
            Ok(match b {
                Bound::UnboundedPreceding => WindowFrameBound::Preceding(unbounded()),
                Bound::UnboundedFollowing => WindowFrameBound::Following(unbounded()),
                Bound::CurrentRow => WindowFrameBound::CurrentRow,
                Bound::Preceding(e) => {
                    WindowFrameBound::Preceding(self.frame_offset(e, frame.rows, key)?)
                }
                Bound::Following(e) => {
                    WindowFrameBound::Following(self.frame_offset(e, frame.rows, key)?)
                }
            })
        };
        let (start, end) = (bound(&frame.start)?, bound(&frame.end)?);
        let order = |b: &Bound| match b {
            Bound::UnboundedPreceding => 0,
            Bound::Preceding(_) => 1,
            Bound::CurrentRow => 2,
            Bound::Following(_) => 3,
            Bound::UnboundedFollowing => 4,
        };
        if order(&frame.start) > order(&frame.end)
            || matches!(frame.start, Bound::UnboundedFollowing)
            || matches!(frame.end, Bound::UnboundedPreceding)
        {
            return Err(self.error(at, "The window frame ends before it starts"));
        }
        Ok(WindowFrame::new_bounds(units, start, end))
    }

    fn frame_offset(&self, e: &Expr, rows: bool, key: Option<&SqlType>) -> Result<ScalarValue> {
        let value = self.expr(e, Ctx::new(&NOTHING, None, "window frame"))?;
        let bad = || {
            self.error(
                e.at,
                "Window framing expression must be a non-negative number",
            )
        };
        if rows {
            let value = self.coerce(value, &SqlType::Int64)?;
            return match self.evaluate_typed(&value)?.value {
                ScalarValue::Int64(Some(n)) => u64::try_from(n)
                    .map(|n| ScalarValue::UInt64(Some(n)))
                    .map_err(|_| bad()),
                _ => Err(bad()),
            };
        }
        let key = match key {
            Some(
                ty @ (SqlType::Int64 | SqlType::Float64 | SqlType::Numeric | SqlType::BigNumeric),
            ) => ty,
            Some(other) => {
                return Err(self.error(
                    e.at,
                    format_args!(
                        "ORDER BY expression of a RANGE frame with an offset must be numeric, not {other}"
                    ),
                ));
            }
            None => return Err(bad()),
        };
        let value = self.coerce(value, key)?;
        let value = self.evaluate_typed(&value)?.value;
        let positive = match &value {
            ScalarValue::Int64(Some(n)) => *n >= 0,
            ScalarValue::Float64(Some(n)) => *n >= 0.0,
            ScalarValue::Decimal128(Some(n), _, _) => *n >= 0,
            ScalarValue::Decimal256(Some(n), _, _) => *n >= i256::ZERO,
            _ => false,
        };
        if positive { Ok(value) } else { Err(bad()) }
    }
}

/// The rows with window functions computed beside them; those over the same window
/// are computed together.
pub(super) fn with_windows(mut plan: LogicalPlan, found: Vec<DfExpr>) -> Result<LogicalPlan> {
    let mut groups: Vec<(Vec<DfExpr>, Vec<Sort>, Vec<DfExpr>)> = Vec::new();
    for window in found {
        let DfExpr::Alias(alias) = &window else {
            return Err(ServiceError::internal("a window function has an id"));
        };
        let DfExpr::WindowFunction(call) = alias.expr.as_ref() else {
            return Err(ServiceError::internal("a window function is one"));
        };
        let (partition, order) = (&call.params.partition_by, &call.params.order_by);
        match groups
            .iter_mut()
            .find(|(p, o, _)| p == partition && o == order)
        {
            Some((_, _, windows)) => windows.push(window),
            None => groups.push((partition.clone(), order.clone(), vec![window])),
        }
    }
    for (_, _, windows) in groups {
        plan = built(LogicalPlanBuilder::from(plan).window(windows))?;
    }
    Ok(plan)
}

fn has_offset(frame: &FrameSpec) -> bool {
    [&frame.start, &frame.end]
        .iter()
        .any(|b| matches!(b, Bound::Preceding(_) | Bound::Following(_)))
}
