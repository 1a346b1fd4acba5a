//! Aggregate functions as DataFusion calls them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field as ArrowField, FieldRef};
use datafusion::common::{Result as DFResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature as DFSignature, Volatility,
};

use super::array::{Reader, build};
use super::scalar::{Resolver, external};
use super::signature::{Argument, Resolved, Signature, resolve};
use super::types::SqlType;
use super::value::{Answer, Value};
use crate::error::{Result, ServiceError};

/// What an aggregate keeps of the rows that it saw.
pub(crate) trait Fold: Send + Sync + fmt::Debug {
    /// Takes a row's arguments.
    fn add(&mut self, row: &[Value<'_>]) -> Result<()>;
    /// The aggregate's value of the rows so far.
    fn result(&self) -> Answer;
    /// What was kept, as values of the definition's state types.
    fn state(&self) -> Result<Vec<Value<'static>>>;
    /// Takes what another fold of the same aggregate kept; its rows come after
    /// those of this one.
    fn merge(&mut self, state: &[Value<'_>]) -> Result<()>;
    /// Bytes held beyond the fold itself, about.
    fn held(&self) -> usize {
        0
    }
}

/// An aggregate function of the library.
pub(crate) struct AggregateDefinition {
    /// Lower-case name.
    pub(crate) name: &'static str,
    signatures: Vec<Signature>,
    resolver: Option<Resolver>,
    skip_nulls: bool,
    fold: fn(&Resolved) -> Box<dyn Fold>,
    state: fn(&Resolved) -> Vec<SqlType>,
    empty: Option<ScalarValue>,
}

impl fmt::Debug for AggregateDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggregateDefinition")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl AggregateDefinition {
    /// An aggregate of `fold`s, which never see a row whose first argument is
    /// NULL.
    pub(crate) fn new(
        name: &'static str,
        signatures: &[&'static str],
        fold: fn(&Resolved) -> Box<dyn Fold>,
        state: fn(&Resolved) -> Vec<SqlType>,
    ) -> Self {
        Self {
            name,
            signatures: signatures.iter().map(|s| Signature::parse(s)).collect(),
            resolver: None,
            skip_nulls: true,
            fold,
            state,
            empty: None,
        }
    }

    /// The same aggregate, whose folds see every row.
    pub(crate) fn seeing_nulls(mut self) -> Self {
        self.skip_nulls = false;
        self
    }

    /// The same aggregate with its types chosen by `resolver`.
    pub(crate) fn resolved_by(mut self, resolver: Resolver) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// The same aggregate, whose value over no rows is not NULL.
    pub(crate) fn empty(mut self, value: ScalarValue) -> Self {
        self.empty = Some(value);
        self
    }

    /// The aggregate of `rows`, half of them by way of a state.
    #[cfg(test)]
    pub(crate) fn run(&self, bound: &Resolved, rows: &[Vec<Value<'static>>]) -> Answer {
        let mut folds = [(self.fold)(bound), (self.fold)(bound)];
        for (i, row) in rows.iter().enumerate() {
            if !(self.skip_nulls && row[0].is_null()) {
                folds[usize::from(i * 2 >= rows.len())].add(row)?;
            }
        }
        let [mut first, second] = folds;
        let state = second.state()?;
        for (value, t) in state.iter().zip((self.state)(bound)) {
            build(std::slice::from_ref(value), &t)?;
        }
        first.merge(&state)?;
        first.result()
    }

    /// The types of a call.
    pub(crate) fn resolve(&self, args: &[Argument]) -> Result<Resolved> {
        match self.resolver {
            Some(resolver) => resolver(self.name, args),
            None => resolve(self.name, &self.signatures, args),
        }
    }
}

/// The aggregate of `definition` for one call.
pub(crate) fn bind(definition: &Arc<AggregateDefinition>, bound: Resolved) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(AggregateFunction {
        definition: Arc::clone(definition),
        bound,
        signature: DFSignature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug, Clone)]
struct AggregateFunction {
    definition: Arc<AggregateDefinition>,
    bound: Resolved,
    signature: DFSignature,
}

impl PartialEq for AggregateFunction {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name && self.bound == other.bound
    }
}

impl Eq for AggregateFunction {}

impl Hash for AggregateFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.definition.name, &self.bound).hash(state);
    }
}

impl AggregateUDFImpl for AggregateFunction {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &DFSignature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DFResult<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> DFResult<DataType> {
        Ok(self.bound.ret.to_arrow())
    }

    fn return_field(&self, _arg_fields: &[FieldRef]) -> DFResult<FieldRef> {
        Ok(Arc::new(self.bound.ret.to_field(self.definition.name)))
    }

    fn is_nullable(&self) -> bool {
        true
    }

    fn default_value(&self, data_type: &DataType) -> DFResult<ScalarValue> {
        match &self.definition.empty {
            Some(value) => Ok(value.clone()),
            None => ScalarValue::try_from(data_type),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DFResult<Vec<FieldRef>> {
        Ok((self.definition.state)(&self.bound)
            .iter()
            .enumerate()
            .map(|(i, t)| {
                Arc::new(ArrowField::new(
                    format!("{}[{i}]", args.name),
                    t.to_arrow(),
                    true,
                ))
            })
            .collect())
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> DFResult<Box<dyn Accumulator>> {
        Ok(Box::new(FoldAccumulator {
            fold: (self.definition.fold)(&self.bound),
            states: (self.definition.state)(&self.bound),
            definition: Arc::clone(&self.definition),
            bound: self.bound.clone(),
        }))
    }
}

#[derive(Debug)]
struct FoldAccumulator {
    definition: Arc<AggregateDefinition>,
    bound: Resolved,
    states: Vec<SqlType>,
    fold: Box<dyn Fold>,
}

fn scalar(value: &Value<'_>, sql_type: &SqlType) -> Result<ScalarValue> {
    let array = build(std::slice::from_ref(value), sql_type)?;
    ScalarValue::try_from_array(&array, 0).map_err(|e| ServiceError::internal(e.to_string()))
}

fn readers(arrays: &[ArrayRef], types: &[SqlType]) -> Result<Vec<Reader>> {
    arrays
        .iter()
        .zip(types)
        .map(|(a, t)| Reader::new(a, t))
        .collect()
}

impl FoldAccumulator {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |a| a.len());
        let readers = readers(values, &self.bound.args)?;
        let mut row = Vec::with_capacity(readers.len());
        for i in 0..rows {
            row.clear();
            row.extend(readers.iter().map(|r| r.get(i)));
            if self.definition.skip_nulls && row.first().is_some_and(Value::is_null) {
                continue;
            }
            self.fold.add(&row)?;
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |a| a.len());
        let readers = readers(states, &self.states)?;
        for i in 0..rows {
            let row: Vec<Value<'_>> = readers.iter().map(|r| r.get(i)).collect();
            self.fold.merge(&row)?;
        }
        Ok(())
    }
}

impl Accumulator for FoldAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DFResult<()> {
        self.update(values).map_err(external)
    }

    fn evaluate(&mut self) -> DFResult<ScalarValue> {
        self.fold
            .result()
            .and_then(|v| scalar(&v, &self.bound.ret))
            .map_err(external)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.fold.held()
    }

    fn state(&mut self) -> DFResult<Vec<ScalarValue>> {
        self.fold
            .state()
            .and_then(|values| {
                values
                    .iter()
                    .zip(&self.states)
                    .map(|(v, t)| scalar(v, t))
                    .collect()
            })
            .map_err(external)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DFResult<()> {
        self.merge(states).map_err(external)
    }
}
