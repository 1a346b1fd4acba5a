//! Subqueries as functions of the outer columns that they name.
//!
//! A subquery without such columns runs once. A correlated one runs once per
//! batch of outer rows: its plan starts from a table of the batch's rows, each
//! with a number, carries the number through every operator (grouping by it,
//! partitioning windows by it), and the results go back to the rows by number.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr as DfExpr, ScalarUDF, Signature, Volatility};
use parking_lot::Mutex;

use super::super::super::functions::SqlType;
use super::super::ast::{BinaryOp, Query};
use super::super::scan::{Slot, id_schema};
use super::super::session::planned;
use super::Analyzer;
use super::scope::{Col, Ctx, Frame, Mode, Rel, Scope, Typed, column};
use super::subquery_function::{Correlation, Subquery, Use};
use crate::error::{Result, ServiceError};

/// A subquery's plan and, if it is correlated, how and to which outer columns.
type Analyzed = (Rel, Option<(Correlation, Vec<Col>)>);

static IDS: AtomicU64 = AtomicU64::new(1);

impl Analyzer<'_> {
    /// A column of the query around a subquery, as the subquery sees it.
    pub(super) fn capture(&self, value: Typed, frame: &Frame<'_>) -> Result<Typed> {
        let references: Vec<String> = value
            .expr
            .column_refs()
            .into_iter()
            .map(|c| c.name.clone())
            .collect();
        if references.is_empty() {
            return Ok(value);
        }
        frame.correlated.set(true);
        if matches!(frame.mode, Mode::Probe) {
            return Err(ServiceError::internal("a correlated subquery"));
        }
        let visible = visible(frame.outer);
        for id in references {
            let mut captured = frame.captured.borrow_mut();
            if captured.iter().any(|c| c.id == id) {
                continue;
            }
            match visible.iter().find(|c| c.id == id) {
                Some(col) => captured.push(col.clone()),
                None => {
                    return Err(ServiceError::unsupported(
                        "This reference from a subquery to the query around it",
                    ));
                }
            }
        }
        Ok(value)
    }

    /// Analyzes a subquery, correlated or not.
    fn subquery(
        &self,
        ctx: Ctx<'_>,
        analyze: &dyn Fn(Option<&Frame<'_>>) -> Result<Rel>,
    ) -> Result<Analyzed> {
        let probe = Frame {
            outer: ctx,
            mode: Mode::Probe,
            correlated: Cell::new(false),
            captured: RefCell::default(),
        };
        let result = analyze(Some(&probe));
        if !probe.correlated.get() {
            return Ok((result?, None));
        }
        let row = self.env.id();
        let mut columns = vec![(row.clone(), SqlType::Int64)];
        for col in visible(ctx) {
            if !columns.iter().any(|(id, _)| *id == col.id) {
                columns.push((col.id, col.ty));
            }
        }
        let slot = Arc::new(Slot::new(&columns, Vec::new()));
        let frame = Frame {
            outer: ctx,
            mode: Mode::Apply {
                row: row.clone(),
                slot: Arc::clone(&slot),
            },
            correlated: Cell::new(false),
            captured: RefCell::default(),
        };
        let rel = analyze(Some(&frame))?;
        let captured = frame.captured.into_inner();
        let positions = captured
            .iter()
            .map(|c| {
                columns
                    .iter()
                    .position(|(id, _)| *id == c.id)
                    .ok_or_else(|| ServiceError::internal("a captured column is visible"))
            })
            .collect::<Result<Vec<_>>>()?;
        let number = rel
            .row
            .as_ref()
            .and_then(|row| rel.plan.schema().index_of_column_by_name(None, row))
            .ok_or_else(|| ServiceError::internal("a correlated plan numbers its rows"))?;
        let correlation = Correlation {
            slot,
            schema: id_schema(columns.iter().map(|(id, t)| (id, t))),
            captured: positions,
            row_column: number,
        };
        Ok((rel, Some((correlation, captured))))
    }

    fn function(
        &self,
        usage: Use,
        rel: Rel,
        correlation: Option<(Correlation, Vec<Col>)>,
        needle: Option<DfExpr>,
        ty: SqlType,
    ) -> Result<Typed> {
        let value = match rel.columns.first() {
            Some(col) => col.ty.clone(),
            None => SqlType::Int64,
        };
        // The rest of the statement cannot see into the subquery: neither its filters
        // nor what it reads.
        planned(&self.env.context, &rel.plan)?;
        let (correlation, captured) = match correlation {
            Some((c, captured)) => (Some(c), captured),
            None => (None, Vec::new()),
        };
        let mut args: Vec<DfExpr> = needle.into_iter().collect();
        args.extend(captured.iter().map(|c| column(&c.id)));
        let udf = ScalarUDF::new_from_impl(Subquery {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            context: self.env.context.clone(),
            plan: rel.plan,
            optimized: OnceLock::new(),
            correlation,
            usage,
            value,
            ty: ty.clone(),
            signature: Signature::user_defined(Volatility::Stable),
            planning: Mutex::new(()),
            once: OnceLock::new(),
            members: OnceLock::new(),
        });
        Ok(Typed::new(
            DfExpr::ScalarFunction(ScalarFunction::new_udf(Arc::new(udf), args)),
            ty,
        ))
    }

    /// The query's one column as a value: itself, or a struct of a value table.
    fn one_column(&self, rel: &Rel, what: &str, at: usize) -> Result<Col> {
        match rel.columns.as_slice() {
            [one] => Ok(one.clone()),
            other => Err(self.error(
                at,
                format_args!(
                    "{what} cannot have more than one column unless using SELECT AS STRUCT to build STRUCT values; got {} columns",
                    other.len()
                ),
            )),
        }
    }

    pub(super) fn scalar_subquery(&self, query: &Query, ctx: Ctx<'_>) -> Result<Typed> {
        let (rel, correlation) = self.subquery(ctx, &|frame| self.settled(query, frame))?;
        let col = self.one_column(&rel, "Scalar subquery", query.at)?;
        self.function(Use::Scalar, rel, correlation, None, col.ty)
    }

    pub(super) fn array_subquery(&self, query: &Query, ctx: Ctx<'_>) -> Result<Typed> {
        let (rel, correlation) = self.subquery(ctx, &|frame| self.settled(query, frame))?;
        let col = self.one_column(&rel, "ARRAY subquery", query.at)?;
        if matches!(col.ty, SqlType::Array(_)) {
            return Err(self.error(
                query.at,
                "Cannot use array subquery with column of type ARRAY because nested arrays are not supported",
            ));
        }
        let ty = SqlType::Array(Box::new(col.ty));
        self.function(Use::Array, rel, correlation, None, ty)
    }

    pub(super) fn exists_subquery(&self, query: &Query, ctx: Ctx<'_>) -> Result<Typed> {
        let (rel, correlation) = self.subquery(ctx, &|frame| self.settled(query, frame))?;
        self.function(Use::Exists, rel, correlation, None, SqlType::Bool)
    }

    /// `needle IN (query)`.
    pub(super) fn in_subquery(&self, needle: Typed, query: &Query, ctx: Ctx<'_>) -> Result<Typed> {
        let (rel, correlation) = self.subquery(ctx, &|frame| self.settled(query, frame))?;
        let col = self.one_column(&rel, "Subquery of type IN", query.at)?;
        let comparable = self
            .common_type(&[needle.clone(), col.typed()], "operator IN")
            .ok()
            .filter(|ty| {
                matches!(
                    ty,
                    SqlType::Bool
                        | SqlType::Int64
                        | SqlType::String
                        | SqlType::Bytes
                        | SqlType::Date
                        | SqlType::Time
                        | SqlType::Datetime
                        | SqlType::Timestamp
                        | SqlType::Numeric
                        | SqlType::BigNumeric
                ) && !needle.fold_case
                    && !col.fold_case
            });
        if let (None, Some(ty)) = (&correlation, comparable) {
            let needle = self.cast_to(needle, &ty)?;
            let value = self.cast_to(col.typed(), &ty)?;
            let rel = self.project_rel(rel, vec![(None, value)])?;
            return self.function(Use::In, rel, None, Some(needle.expr), SqlType::Bool);
        }
        // Any other comparison runs inside the subquery, with the needle as a column of
        // the outer rows.
        let id = self.env.id();
        let inner = Col {
            name: None,
            id: id.clone(),
            ty: needle.ty.clone(),
            fold_case: needle.fold_case,
        };
        let both_ctx = Ctx {
            extra: Some(&inner),
            ..ctx
        };
        let (rel, correlation) = self.subquery(both_ctx, &|frame| {
            let Some(frame) = frame else {
                return Err(ServiceError::internal("a subquery has a frame"));
            };
            let rel = self.settled(query, Some(frame))?;
            let needle = self.capture(inner.typed(), frame)?;
            let rel = self.with_outer(rel, frame)?;
            let col = self.one_column(&rel, "Subquery of type IN", query.at)?;
            let equal = self.binary(BinaryOp::Equal, needle, col.typed())?;
            self.project_rel(rel, vec![(None, equal)])
        })?;
        let typed = self.function(Use::Any, rel, correlation, None, SqlType::Bool)?;
        // The needle's own column exists only inside: pass its expression instead.
        let DfExpr::ScalarFunction(mut call) = typed.expr else {
            return Err(ServiceError::internal("a subquery is a function"));
        };
        for arg in &mut call.args {
            if *arg == column(&id) {
                *arg = needle.expr.clone();
            }
        }
        Ok(Typed::new(DfExpr::ScalarFunction(call), SqlType::Bool))
    }

    /// The query with its columns' types settled.
    fn settled(&self, query: &Query, frame: Option<&Frame<'_>>) -> Result<Rel> {
        self.query(query, frame)
    }

    /// An expression over the arguments of a SQL function, computed like a subquery.
    pub(super) fn applied(
        &self,
        arguments: Vec<(Col, DfExpr)>,
        analyze: &dyn Fn(Ctx<'_>) -> Result<Typed>,
    ) -> Result<Typed> {
        let mut scope = Scope::default();
        scope.ranges.push(super::scope::Range {
            columns: arguments.iter().map(|(c, _)| c.clone()).collect(),
            ..Default::default()
        });
        let ctx = Ctx::new(&scope, None, "Function");
        let row = self.env.id();
        let mut columns = vec![(row.clone(), SqlType::Int64)];
        columns.extend(arguments.iter().map(|(c, _)| (c.id.clone(), c.ty.clone())));
        let slot = Arc::new(Slot::new(&columns, Vec::new()));
        let provider: Arc<dyn datafusion::datasource::TableProvider> = Arc::clone(&slot) as _;
        let plan = super::super::scan::plan_of(provider)?;
        let value = self.settle(analyze(ctx)?)?;
        let rel = Rel {
            plan,
            columns: Vec::new(),
            row: Some(row.clone()),
            value_table: false,
        };
        let ty = value.ty.clone();
        let rel = self.project_rel(rel, vec![(None, value)])?;
        let number = rel
            .row
            .as_ref()
            .and_then(|row| rel.plan.schema().index_of_column_by_name(None, row))
            .ok_or_else(|| ServiceError::internal("a function's rows are numbered"))?;
        let correlation = Correlation {
            slot,
            schema: id_schema(columns.iter().map(|(id, t)| (id, t))),
            captured: (1..columns.len()).collect(),
            row_column: number,
        };
        let typed = self.function(Use::Scalar, rel, Some((correlation, Vec::new())), None, ty)?;
        let DfExpr::ScalarFunction(mut call) = typed.expr else {
            return Err(ServiceError::internal("a subquery is a function"));
        };
        call.args = arguments.into_iter().map(|(_, e)| e).collect();
        Ok(Typed::new(DfExpr::ScalarFunction(call), typed.ty))
    }
}

/// Every column that a subquery standing at `ctx` may name.
fn visible(ctx: Ctx<'_>) -> Vec<Col> {
    let mut columns: Vec<Col> = match ctx.grouping {
        Some(grouping) => grouping.keys.iter().map(|k| k.col.clone()).collect(),
        None => ctx.scope.all().cloned().collect(),
    };
    columns.extend(ctx.extra.cloned());
    if let Some(frame) = ctx.frame {
        columns.extend(visible(frame.outer));
    }
    columns
}
