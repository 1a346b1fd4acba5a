//! Subqueries while they run: see [`super::subquery`].

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, new_null_array,
};
use arrow::datatypes::{DataType, FieldRef, Int64Type, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr as DfExpr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
    Signature,
};
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;

use super::super::super::functions::SqlType;
use super::super::scan::Slot;
use super::super::session::{external, run_physical, wait};
use super::nested;
use crate::error::{Result, ServiceError};

/// What becomes of a subquery's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Use {
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
pub(super) struct Correlation {
    pub(super) slot: Arc<Slot>,
    /// Columns of the slot: the row number, then all that the subquery might name.
    pub(super) schema: SchemaRef,
    /// Positions in `schema` of the arguments.
    pub(super) captured: Vec<usize>,
    /// Position of the row number among the plan's columns.
    pub(super) row_column: usize,
}

/// A subquery.
pub(super) struct Subquery {
    pub(super) id: u64,
    pub(super) context: SessionContext,
    pub(super) plan: LogicalPlan,
    pub(super) optimized: OnceLock<LogicalPlan>,
    pub(super) correlation: Option<Correlation>,
    pub(super) usage: Use,
    /// Type of the plan's value column.
    pub(super) value: SqlType,
    pub(super) ty: SqlType,
    pub(super) signature: Signature,
    /// Plans read the slot when they are made.
    pub(super) planning: Mutex<()>,
    /// The rows of an uncorrelated subquery.
    pub(super) once: OnceLock<Result<Arc<Vec<ArrayRef>>>>,
    pub(super) members: OnceLock<Result<Arc<Members>>>,
}

/// The values that IN looks among.
pub(super) struct Members {
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
