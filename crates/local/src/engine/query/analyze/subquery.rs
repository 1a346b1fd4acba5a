//! Subqueries as functions of the outer columns that they name.
//!
//! A subquery without such columns runs once. A correlated one runs once per
//! batch of outer rows: its plan starts from a table of the batch's rows, each
//! with a number, carries the number through every operator (grouping by it,
//! partitioning windows by it), and the results go back to the rows by number.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, new_null_array,
};
use arrow::datatypes::{DataType, FieldRef, Int64Type, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr as DfExpr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;

use super::super::super::functions::SqlType;
use super::super::ast::{BinaryOp, Query};
use super::super::scan::{Slot, id_schema};
use super::super::session::{external, run_physical, wait};
use super::scope::{Col, Ctx, Frame, Mode, Rel, Scope, Typed, column};
use super::{Analyzer, nested};
use crate::error::{Result, ServiceError};

/// What becomes of a subquery's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Use {
    /// The one value; NULL without rows.
    Scalar,
    /// Whether there are rows.
    Exists,
    /// All values.
    Array,
    /// Whether the first argument is among the values.
    In,
    /// Whether any value is TRUE, in three-valued logic.
    Any,
}

/// How the rows of a batch get into a correlated subquery and its results back.
struct Correlation {
    slot: Arc<Slot>,
    /// Columns of the slot: the row number, then all that the subquery might name.
    schema: SchemaRef,
    /// Positions in `schema` of the arguments.
    captured: Vec<usize>,
    /// Position of the row number among the plan's columns.
    row_column: usize,
}

/// A subquery.
struct Subquery {
    id: u64,
    context: SessionContext,
    plan: LogicalPlan,
    optimized: OnceLock<LogicalPlan>,
    correlation: Option<Correlation>,
    usage: Use,
    /// Type of the plan's value column.
    value: SqlType,
    ty: SqlType,
    signature: Signature,
    /// Plans read the slot when they are made.
    planning: Mutex<()>,
    /// The rows of an uncorrelated subquery.
    once: OnceLock<Result<Arc<Vec<ArrayRef>>>>,
    members: OnceLock<Result<Arc<Members>>>,
}

/// The values that IN looks among.
struct Members {
    converter: RowConverter,
    rows: HashSet<OwnedRow>,
    has_null: bool,
    empty: bool,
}

impl fmt::Debug for Subquery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subquery")
            .field("id", &self.id)
            .field("usage", &self.usage)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Subquery {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Subquery {}

impl Hash for Subquery {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

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
    ) -> Result<(Rel, Option<(Correlation, Vec<Col>)>)> {
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

impl Subquery {
    fn execute(&self) -> Result<Vec<RecordBatch>> {
        let plan = match self.optimized.get() {
            Some(plan) => plan.clone(),
            None => {
                let plan = self
                    .context
                    .state()
                    .optimize(&self.plan)
                    .map_err(super::super::session::service_error)?;
                self.optimized.get_or_init(|| plan).clone()
            }
        };
        let state = self.context.state();
        let physical = wait(async {
            state
                .query_planner()
                .create_physical_plan(&plan, &state)
                .await
        })?;
        run_physical(&self.context, physical)
    }

    /// The value column, in the plan's order.
    fn values(batches: &[RecordBatch], position: usize) -> Vec<ArrayRef> {
        batches
            .iter()
            .filter(|b| b.num_rows() > 0)
            .map(|b| Arc::clone(b.column(position)))
            .collect()
    }

    fn uncorrelated(&self) -> Result<Arc<Vec<ArrayRef>>> {
        self.once
            .get_or_init(|| {
                let batches = self.execute()?;
                if self.usage == Use::Exists {
                    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                    let count = Int64Array::from(vec![i64::from(rows > 0)]);
                    return Ok(Arc::new(vec![Arc::new(count) as ArrayRef]));
                }
                Ok(Arc::new(Self::values(&batches, 0)))
            })
            .clone()
    }

    fn constant(&self, args: &[ArrayRef], rows: usize) -> Result<ColumnarValue> {
        let arrow = |e: DataFusionError| super::super::session::service_error(e);
        let values = self.uncorrelated()?;
        let array: ArrayRef = match self.usage {
            Use::Scalar => match values.iter().map(|v| v.len()).sum::<usize>() {
                0 => new_null_array(&self.ty.to_arrow(), 1),
                1 => nested::joined(&values, &self.ty.to_arrow()).map_err(arrow)?,
                _ => return Err(too_many()),
            },
            Use::Exists => {
                let some = values[0].as_primitive::<Int64Type>().value(0) == 1;
                Arc::new(BooleanArray::from(vec![some]))
            }
            Use::Array => {
                let order: Vec<(usize, usize)> = values
                    .iter()
                    .enumerate()
                    .flat_map(|(i, v)| (0..v.len()).map(move |j| (i, j)))
                    .collect();
                let length = order.len();
                nested::lists(&values, &order, vec![length], &self.value).map_err(arrow)?
            }
            Use::In => return self.membership(args, rows).map(ColumnarValue::Array),
            Use::Any => return Err(ServiceError::internal("ANY is always correlated")),
        };
        datafusion::scalar::ScalarValue::try_from_array(&array, 0)
            .map(ColumnarValue::Scalar)
            .map_err(arrow)
    }

    fn membership(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let internal = |e: arrow::error::ArrowError| ServiceError::internal(e.to_string());
        let members = self
            .members
            .get_or_init(|| {
                let values = self.uncorrelated()?;
                let converter = RowConverter::new(vec![SortField::new(self.value.to_arrow())])
                    .map_err(internal)?;
                let mut members = Members {
                    converter,
                    rows: HashSet::new(),
                    has_null: false,
                    empty: true,
                };
                for array in values.iter() {
                    members.empty &= array.is_empty();
                    let converted = members
                        .converter
                        .convert_columns(std::slice::from_ref(array))
                        .map_err(internal)?;
                    for row in 0..array.len() {
                        if array.is_null(row) {
                            members.has_null = true;
                        } else {
                            members.rows.insert(converted.row(row).owned());
                        }
                    }
                }
                Ok(Arc::new(members))
            })
            .clone()?;
        let needle = args
            .first()
            .ok_or_else(|| ServiceError::internal("IN has a left side"))?;
        if members.empty {
            return Ok(Arc::new(BooleanArray::from(vec![false; rows])));
        }
        let converted = members
            .converter
            .convert_columns(std::slice::from_ref(needle))
            .map_err(internal)?;
        let answers: BooleanArray = (0..needle.len())
            .map(|row| {
                if needle.is_null(row) {
                    return None;
                }
                if members.rows.contains(&converted.row(row).owned()) {
                    return Some(true);
                }
                if members.has_null { None } else { Some(false) }
            })
            .collect();
        Ok(Arc::new(answers))
    }

    fn correlated(
        &self,
        correlation: &Correlation,
        args: &[ArrayRef],
        rows: usize,
    ) -> Result<ArrayRef> {
        let internal = |e: arrow::error::ArrowError| ServiceError::internal(e.to_string());
        let count = i64::try_from(rows).unwrap_or(i64::MAX);
        let columns: Vec<ArrayRef> = correlation
            .schema
            .fields()
            .iter()
            .enumerate()
            .map(|(i, field)| {
                if i == 0 {
                    return Ok(Arc::new(Int64Array::from_iter_values(0..count)) as ArrayRef);
                }
                match correlation.captured.iter().position(|p| *p == i) {
                    Some(argument) => nested::fit(&args[argument], field.data_type())
                        .map_err(super::super::session::service_error),
                    None => Ok(new_null_array(field.data_type(), rows)),
                }
            })
            .collect::<Result<_>>()?;
        let batch =
            RecordBatch::try_new(Arc::clone(&correlation.schema), columns).map_err(internal)?;
        let batches = {
            let _one_at_a_time = self.planning.lock();
            correlation.slot.put(vec![batch]);
            let batches = self.execute();
            correlation.slot.put(Vec::new());
            batches?
        };
        let mut places: Vec<Vec<(usize, usize)>> = vec![Vec::new(); rows];
        for (b, batch) in batches.iter().filter(|b| b.num_rows() > 0).enumerate() {
            let numbers = batch
                .column(correlation.row_column)
                .as_primitive::<Int64Type>();
            for (i, number) in numbers.values().iter().enumerate() {
                let place = usize::try_from(*number)
                    .ok()
                    .and_then(|n| places.get_mut(n))
                    .ok_or_else(|| ServiceError::internal("a subquery's row number is known"))?;
                place.push((b, i));
            }
        }
        let position = usize::from(correlation.row_column == 0);
        self.distribute(&batches, position, &places)
    }

    /// The results of each outer row.
    fn distribute(
        &self,
        batches: &[RecordBatch],
        position: usize,
        places: &[Vec<(usize, usize)>],
    ) -> Result<ArrayRef> {
        let arrow = |e: DataFusionError| super::super::session::service_error(e);
        if self.usage == Use::Exists {
            return Ok(Arc::new(BooleanArray::from_iter(
                places.iter().map(|p| Some(!p.is_empty())),
            )));
        }
        let values = Self::values(batches, position);
        match self.usage {
            Use::Array => {
                let order: Vec<(usize, usize)> = places.iter().flatten().copied().collect();
                let lengths = places.iter().map(Vec::len).collect();
                nested::lists(&values, &order, lengths, &self.value).map_err(arrow)
            }
            Use::Any => Ok(Arc::new(BooleanArray::from_iter(places.iter().map(
                |place| {
                    let mut unknown = false;
                    for (b, i) in place {
                        let array = values[*b].as_boolean();
                        if array.is_null(*i) {
                            unknown = true;
                        } else if array.value(*i) {
                            return Some(true);
                        }
                    }
                    if unknown { None } else { Some(false) }
                },
            )))),
            _ => {
                if places.iter().any(|p| p.len() > 1) {
                    return Err(too_many());
                }
                let null = new_null_array(&self.value.to_arrow(), 1);
                let mut all: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
                all.push(null.as_ref());
                let missing = (all.len() - 1, 0);
                let order: Vec<(usize, usize)> = places
                    .iter()
                    .map(|p| p.first().copied().unwrap_or(missing))
                    .collect();
                arrow::compute::interleave(&all, &order)
                    .map_err(|e| ServiceError::internal(e.to_string()))
            }
        }
    }
}

fn too_many() -> ServiceError {
    ServiceError::invalid_query("Scalar subquery produced more than one element")
}

impl ScalarUDFImpl for Subquery {
    fn name(&self) -> &str {
        "$subquery"
    }

    fn schema_name(&self, _args: &[DfExpr]) -> DfResult<String> {
        Ok(format!("$subquery{}", self.id))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DfResult<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> DfResult<DataType> {
        Ok(self.ty.to_arrow())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> DfResult<FieldRef> {
        Ok(Arc::new(self.ty.to_field("$subquery")))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args
            .args
            .iter()
            .map(|a| a.to_array(rows))
            .collect::<DfResult<Vec<_>>>()?;
        match &self.correlation {
            None => self.constant(&arrays, rows).map_err(external),
            Some(_) if rows == 0 => {
                Ok(ColumnarValue::Array(new_null_array(&self.ty.to_arrow(), 0)))
            }
            Some(correlation) => self
                .correlated(correlation, &arrays, rows)
                .map(ColumnarValue::Array)
                .map_err(external),
        }
    }
}
