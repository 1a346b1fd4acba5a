//! DISTINCT, ORDER BY, LIMIT, IGNORE NULLS and HAVING MAX/MIN inside an aggregate
//! call, around any aggregate: rows are kept, prepared, and then given to it.

use std::hash::{Hash, Hasher};
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortColumn, SortOptions, concat, lexsort_to_indices, take};
use arrow::datatypes::{DataType, Field as ArrowField, FieldRef, Schema};
use arrow::row::{RowConverter, SortField};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::scalar::ScalarValue;

use super::super::super::functions::SqlType;

/// HAVING MAX or HAVING MIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pick {
    Max,
    Min,
}

/// What stands inside the call besides its arguments. The values come after the
/// arguments: keys of ORDER BY, then that of HAVING.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Modifiers {
    pub(super) distinct: bool,
    pub(super) ignore_nulls: bool,
    /// Ascending and NULLs first, per key.
    pub(super) order: Vec<(bool, bool)>,
    pub(super) limit: Option<usize>,
    pub(super) having: Option<Pick>,
    /// Number of the aggregate's own arguments.
    pub(super) arity: usize,
}

impl Modifiers {
    pub(super) fn is_plain(&self) -> bool {
        !self.distinct
            && !self.ignore_nulls
            && self.order.is_empty()
            && self.limit.is_none()
            && self.having.is_none()
    }

    /// No modifiers: the wrapper then only makes any window frame possible.
    pub(super) fn none(arity: usize) -> Self {
        Self {
            distinct: false,
            ignore_nulls: false,
            order: Vec::new(),
            limit: None,
            having: None,
            arity,
        }
    }
}

#[derive(Debug)]
struct Modified {
    inner: Arc<AggregateUDF>,
    modifiers: Modifiers,
    ty: SqlType,
    signature: Signature,
}

impl PartialEq for Modified {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner && self.modifiers == other.modifiers && self.ty == other.ty
    }
}

impl Eq for Modified {}

impl Hash for Modified {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.modifiers.hash(state);
    }
}

/// `inner` with modifiers; its result has type `ty`.
pub(super) fn modified(
    inner: Arc<AggregateUDF>,
    modifiers: Modifiers,
    ty: &SqlType,
) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Modified {
        inner,
        modifiers,
        ty: ty.clone(),
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

impl AggregateUDFImpl for Modified {
    fn name(&self) -> &str {
        self.inner.name()
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

    fn return_field(&self, _arg_fields: &[FieldRef]) -> DfResult<FieldRef> {
        Ok(Arc::new(self.ty.to_field(self.inner.name())))
    }

    fn default_value(&self, data_type: &DataType) -> DfResult<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        Ok(args
            .input_fields
            .iter()
            .enumerate()
            .map(|(i, f)| {
                let item = Arc::new(ArrowField::new("item", f.data_type().clone(), true));
                Arc::new(ArrowField::new(
                    format!("{}[{i}]", args.name),
                    DataType::List(item),
                    true,
                ))
            })
            .collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let arity = self.modifiers.arity;
        if args.exprs.len() < arity {
            return Err(DataFusionError::Internal(
                "an aggregate has all its arguments".into(),
            ));
        }
        Ok(Box::new(Rows {
            inner: Arc::clone(&self.inner),
            modifiers: self.modifiers.clone(),
            return_field: Arc::new(self.ty.to_field(self.inner.name())),
            schema: args.schema.clone(),
            name: args.name.to_string(),
            exprs: args.exprs[..arity].to_vec(),
            fields: args.expr_fields[..arity].to_vec(),
            columns: vec![Vec::new(); args.exprs.len()],
            types: args
                .expr_fields
                .iter()
                .map(|f| f.data_type().clone())
                .collect(),
            dropped: 0,
        }))
    }
}

/// The rows of one group, or of one window frame.
#[derive(Debug)]
struct Rows {
    inner: Arc<AggregateUDF>,
    modifiers: Modifiers,
    return_field: FieldRef,
    schema: Schema,
    name: String,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<FieldRef>,
    columns: Vec<Vec<ArrayRef>>,
    types: Vec<DataType>,
    /// Rows that left the window frame at its start.
    dropped: usize,
}

impl Rows {
    /// All rows that are in.
    fn gathered(&self) -> DfResult<Vec<ArrayRef>> {
        self.columns
            .iter()
            .zip(&self.types)
            .map(|(parts, ty)| {
                if parts.is_empty() {
                    return Ok(new_null_array(ty, 0));
                }
                let refs: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                let all = concat(&refs)?;
                Ok(all.slice(self.dropped, all.len() - self.dropped))
            })
            .collect()
    }

    fn select(columns: &[ArrayRef], rows: Vec<u32>) -> DfResult<Vec<ArrayRef>> {
        let rows = UInt32Array::from(rows);
        columns.iter().map(|c| Ok(take(c, &rows, None)?)).collect()
    }

    /// The aggregate's arguments, prepared.
    fn prepared(&self) -> DfResult<Vec<ArrayRef>> {
        let mut columns = self.gathered()?;
        let arity = self.modifiers.arity;
        let count = |columns: &[ArrayRef]| columns.first().map_or(0, |c| c.len());
        let all = |columns: &[ArrayRef]| 0..u32::try_from(count(columns)).unwrap_or(u32::MAX);
        if self.modifiers.ignore_nulls {
            let rows = all(&columns)
                .filter(|i| columns[0].is_valid(*i as usize))
                .collect();
            columns = Self::select(&columns, rows)?;
        }
        if let Some(pick) = self.modifiers.having {
            let key = &columns[arity + self.modifiers.order.len()];
            let options = SortOptions {
                descending: pick == Pick::Max,
                nulls_first: false,
            };
            let field = SortField::new_with_options(key.data_type().clone(), options);
            let converted =
                RowConverter::new(vec![field])?.convert_columns(std::slice::from_ref(key))?;
            let best = (0..key.len())
                .filter(|i| key.is_valid(*i))
                .min_by_key(|i| converted.row(*i));
            let rows = match best {
                Some(best) => all(&columns)
                    .filter(|i| converted.row(*i as usize) == converted.row(best))
                    .collect(),
                None => Vec::new(),
            };
            columns = Self::select(&columns, rows)?;
        }
        if self.modifiers.distinct {
            let fields = columns[..arity]
                .iter()
                .map(|c| SortField::new(c.data_type().clone()))
                .collect();
            let converted = RowConverter::new(fields)?.convert_columns(&columns[..arity])?;
            let mut seen = std::collections::HashSet::new();
            let rows = all(&columns)
                .filter(|i| seen.insert(converted.row(*i as usize)))
                .collect();
            columns = Self::select(&columns, rows)?;
        }
        if !self.modifiers.order.is_empty() && count(&columns) > 1 {
            // The row's number makes the order a stable one.
            let mut keys: Vec<SortColumn> = self
                .modifiers
                .order
                .iter()
                .zip(&columns[arity..])
                .map(|((ascending, nulls_first), key)| SortColumn {
                    values: Arc::clone(key),
                    options: Some(SortOptions {
                        descending: !ascending,
                        nulls_first: *nulls_first,
                    }),
                })
                .collect();
            keys.push(SortColumn {
                values: Arc::new(UInt32Array::from_iter_values(all(&columns))),
                options: None,
            });
            let order = lexsort_to_indices(&keys, None)?;
            columns = columns
                .iter()
                .map(|c| Ok(take(c, &order, None)?))
                .collect::<DfResult<_>>()?;
        }
        if let Some(limit) = self.modifiers.limit {
            let rows = count(&columns).min(limit);
            columns = columns.iter().map(|c| c.slice(0, rows)).collect();
        }
        columns.truncate(arity);
        Ok(columns)
    }
}

impl Accumulator for Rows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(Arc::clone(value));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let columns = self.prepared()?;
        let mut inner = self.inner.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.fields,
        })?;
        if columns.first().is_some_and(|c| !c.is_empty()) {
            inner.update_batch(&columns)?;
        }
        inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self
                .columns
                .iter()
                .flatten()
                .map(|c| c.get_array_memory_size())
                .sum::<usize>()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        self.gathered()?
            .into_iter()
            .map(|values| {
                let item = Arc::new(ArrowField::new("item", values.data_type().clone(), true));
                let list = ListArray::try_new(
                    item,
                    OffsetBuffer::from_lengths([values.len()]),
                    values,
                    None,
                )?;
                Ok(ScalarValue::List(Arc::new(list)))
            })
            .collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for (column, state) in self.columns.iter_mut().zip(states) {
            let lists = state.as_list::<i32>();
            for row in 0..lists.len() {
                if lists.is_valid(row) {
                    column.push(lists.value(row));
                }
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.dropped += values.first().map_or(0, |v| v.len());
        // Parts that have left as a whole are let go.
        while let Some(first) = self
            .columns
            .first()
            .and_then(|c| c.first())
            .map(|a| a.len())
        {
            if first > self.dropped {
                break;
            }
            self.dropped -= first;
            for column in &mut self.columns {
                column.remove(0);
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}
