//! Scalar functions as DataFusion calls them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result as DFResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature as DFSignature, Volatility,
};

use super::array::{Reader, build};
use super::signature::{Argument, Resolved, Signature, resolve};
use super::types::SqlType;
use super::value::{Answer, Binding, Value};
use crate::error::{Result, ServiceError};

/// Whether a NULL argument makes the result NULL without a call of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Any NULL argument gives NULL.
    Strict,
    /// The kernel sees NULLs.
    Seen,
}

/// How a function is computed.
pub(crate) enum Kernel {
    /// One row from the argument values alone.
    Row(fn(&[Value<'_>]) -> Answer),
    /// One row, with the types that the call was bound to.
    Typed(fn(&Binding<'_>, &[Value<'_>]) -> Answer),
    /// Chosen for the bound types once per batch.
    Planned(fn(&Binding<'_>) -> Result<PlannedKernel>),
}

/// A kernel that captured what it computed for a batch.
pub(crate) type PlannedKernel = Box<dyn Fn(&[Value<'_>]) -> Answer>;

/// Chooses the types of a call that plain signatures cannot describe.
pub(crate) type Resolver = fn(&str, &[Argument]) -> Result<Resolved>;

/// A scalar function of the library.
pub(crate) struct Definition {
    /// Lower-case name, or an operator's internal name.
    pub(crate) name: &'static str,
    signatures: Vec<Signature>,
    resolver: Option<Resolver>,
    nulls: Nulls,
    volatility: Volatility,
    kernel: Kernel,
}

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definition")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Definition {
    /// A function with the given signatures and kernel.
    pub(crate) fn new(
        name: &'static str,
        signatures: &[&'static str],
        kernel: Kernel,
    ) -> Definition {
        Definition {
            name,
            signatures: signatures.iter().map(|s| Signature::parse(s)).collect(),
            resolver: None,
            nulls: Nulls::Strict,
            volatility: Volatility::Immutable,
            kernel,
        }
    }

    /// The same function, whose kernel sees NULL arguments.
    pub(crate) fn seeing_nulls(mut self) -> Definition {
        self.nulls = Nulls::Seen;
        self
    }

    /// The same function, with its types chosen by `resolver`.
    pub(crate) fn resolved_by(mut self, resolver: Resolver) -> Definition {
        self.resolver = Some(resolver);
        self
    }

    /// The same function, whose result changes between statements only.
    pub(crate) fn stable(mut self) -> Definition {
        self.volatility = Volatility::Stable;
        self
    }

    /// The same function, called again for every row.
    pub(crate) fn volatile(mut self) -> Definition {
        self.volatility = Volatility::Volatile;
        self
    }

    /// The value of one call.
    #[cfg(test)]
    pub(crate) fn run(&self, bound: &Resolved, row: &[Value<'_>]) -> Answer {
        if self.nulls == Nulls::Strict && row.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        let binding = Binding {
            name: self.name,
            args: &bound.args,
            ret: &bound.ret,
        };
        match self.kernel {
            Kernel::Row(kernel) => kernel(row),
            Kernel::Typed(kernel) => kernel(&binding, row),
            Kernel::Planned(plan) => plan(&binding)?(row),
        }
    }

    /// The types of a call.
    pub(crate) fn resolve(&self, args: &[Argument]) -> Result<Resolved> {
        match self.resolver {
            Some(resolver) => resolver(self.name, args),
            None => resolve(self.name, &self.signatures, args),
        }
    }
}

/// A function with plain signatures whose kernel needs the values only.
pub(crate) fn row(
    name: &'static str,
    signatures: &[&'static str],
    kernel: fn(&[Value<'_>]) -> Answer,
) -> Definition {
    Definition::new(name, signatures, Kernel::Row(kernel))
}

/// A function with plain signatures whose kernel also needs the bound types.
pub(crate) fn typed(
    name: &'static str,
    signatures: &[&'static str],
    kernel: fn(&Binding<'_>, &[Value<'_>]) -> Answer,
) -> Definition {
    Definition::new(name, signatures, Kernel::Typed(kernel))
}

/// A function with plain signatures whose kernel is chosen once per batch.
pub(crate) fn planned(
    name: &'static str,
    signatures: &[&'static str],
    kernel: fn(&Binding<'_>) -> Result<PlannedKernel>,
) -> Definition {
    Definition::new(name, signatures, Kernel::Planned(kernel))
}

/// A [`Definition`] bound to the types of one call, as a DataFusion function.
#[derive(Debug, Clone)]
struct ScalarFunction {
    definition: Arc<Definition>,
    bound: Resolved,
    signature: DFSignature,
}

/// The function of `definition` for one call.
pub(crate) fn bind(definition: &Arc<Definition>, bound: Resolved) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(ScalarFunction {
        // The analyzer coerces the arguments, so that DataFusion's coercion
        // never gets in between.
        signature: DFSignature::user_defined(definition.volatility),
        definition: Arc::clone(definition),
        bound,
    }))
}

impl PartialEq for ScalarFunction {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name && self.bound == other.bound
    }
}

impl Eq for ScalarFunction {}

impl Hash for ScalarFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.definition.name, &self.bound).hash(state);
    }
}

/// One argument of a batch, read as values.
#[derive(Debug)]
pub(crate) struct Input {
    reader: Reader,
    constant: bool,
}

impl Input {
    /// Reads `value` as values of `sql_type`.
    pub(crate) fn new(value: &ColumnarValue, sql_type: &SqlType) -> Result<Input> {
        let (array, constant): (ArrayRef, bool) = match value {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(scalar) => (
                scalar
                    .to_array()
                    .map_err(|e| ServiceError::internal(e.to_string()))?,
                true,
            ),
        };
        Ok(Input {
            reader: Reader::new(&array, sql_type)?,
            constant,
        })
    }

    /// The value of row `i`.
    pub(crate) fn get(&self, i: usize) -> Value<'_> {
        self.reader.get(if self.constant { 0 } else { i })
    }

    /// Whether every row has the same value.
    pub(crate) fn is_constant(&self) -> bool {
        self.constant
    }
}

/// A batch's results as DataFusion wants them.
pub(crate) fn answer(
    values: &[Value<'_>],
    sql_type: &SqlType,
    constant: bool,
) -> Result<ColumnarValue> {
    let array = build(values, sql_type)?;
    if constant {
        ScalarValue::try_from_array(&array, 0)
            .map(ColumnarValue::Scalar)
            .map_err(|e| ServiceError::internal(e.to_string()))
    } else {
        Ok(ColumnarValue::Array(array))
    }
}

impl ScalarFunction {
    fn evaluate(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.len() != self.bound.args.len() {
            return Err(ServiceError::internal(format!(
                "{} was bound to {} arguments and called with {}",
                self.definition.name,
                self.bound.args.len(),
                args.args.len()
            )));
        }
        let inputs = args
            .args
            .iter()
            .zip(&self.bound.args)
            .map(|(value, t)| Input::new(value, t))
            .collect::<Result<Vec<_>>>()?;
        let constant = self.definition.volatility != Volatility::Volatile
            && inputs.iter().all(Input::is_constant);
        let rows = if constant { 1 } else { args.number_rows };
        answer(&self.rows(&inputs, rows)?, &self.bound.ret, constant)
    }

    fn rows(&self, inputs: &[Input], rows: usize) -> Result<Vec<Value<'static>>> {
        let binding = Binding {
            name: self.definition.name,
            args: &self.bound.args,
            ret: &self.bound.ret,
        };
        let kernel: PlannedKernel = match self.definition.kernel {
            Kernel::Planned(plan) if rows > 0 => plan(&binding)?,
            Kernel::Planned(_) => return Ok(Vec::new()),
            Kernel::Row(kernel) => Box::new(kernel),
            Kernel::Typed(kernel) => {
                let bound = self.bound.clone();
                let name = self.definition.name;
                Box::new(move |row| {
                    kernel(
                        &Binding {
                            name,
                            args: &bound.args,
                            ret: &bound.ret,
                        },
                        row,
                    )
                })
            }
        };
        let strict = self.definition.nulls == Nulls::Strict;
        (0..rows)
            .map(|i| {
                let row: Vec<Value<'_>> = inputs.iter().map(|input| input.get(i)).collect();
                if strict && row.iter().any(Value::is_null) {
                    Ok(Value::Null)
                } else {
                    kernel(&row)
                }
            })
            .collect()
    }
}

impl ScalarUDFImpl for ScalarFunction {
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

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> DFResult<FieldRef> {
        Ok(Arc::new(self.bound.ret.to_field(self.definition.name)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DFResult<ColumnarValue> {
        self.evaluate(&args).map_err(external)
    }
}

/// An error of this crate inside DataFusion's.
pub(crate) fn external(error: ServiceError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
