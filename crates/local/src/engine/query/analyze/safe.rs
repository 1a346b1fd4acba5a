//! The SAFE. prefix: an error of a row is NULL.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr as DfExpr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::super::super::functions::SqlType;

/// Another function, whose failing rows are NULL.
#[derive(Debug)]
struct Safe {
    inner: Arc<ScalarUDF>,
    ty: SqlType,
    name: String,
    signature: Signature,
}

impl PartialEq for Safe {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner && self.ty == other.ty
    }
}

impl Eq for Safe {}

impl Hash for Safe {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

/// `SAFE.f` for a function whose result has type `ty`.
pub(super) fn safe(inner: Arc<ScalarUDF>, ty: &SqlType) -> Arc<ScalarUDF> {
    let volatility = match inner.signature().volatility {
        Volatility::Volatile => Volatility::Volatile,
        Volatility::Stable | Volatility::Immutable => Volatility::Immutable,
    };
    Arc::new(ScalarUDF::new_from_impl(Safe {
        name: format!("safe.{}", inner.name()),
        inner,
        ty: ty.clone(),
        signature: Signature::user_defined(volatility),
    }))
}

impl ScalarUDFImpl for Safe {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema_name(&self, args: &[DfExpr]) -> DfResult<String> {
        Ok(format!("safe.{}", self.inner.schema_name(args)?))
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
        Ok(Arc::new(self.ty.to_field(&self.name)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let again = |args: &ScalarFunctionArgs, values: Vec<ColumnarValue>, rows: usize| {
            self.inner.invoke_with_args(ScalarFunctionArgs {
                args: values,
                arg_fields: args.arg_fields.clone(),
                number_rows: rows,
                return_field: Arc::clone(&args.return_field),
                config_options: Arc::clone(&args.config_options),
            })
        };
        if let Ok(all) = again(&args, args.args.clone(), args.number_rows) {
            return Ok(all);
        }
        // Some row fails: find out which, one by one.
        let mut rows = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let values = args
                .args
                .iter()
                .map(|value| match value {
                    ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(row, 1)),
                    ColumnarValue::Scalar(scalar) => ColumnarValue::Scalar(scalar.clone()),
                })
                .collect();
            rows.push(match again(&args, values, 1) {
                Ok(value) => value.to_array(1)?,
                Err(_) => new_null_array(&self.ty.to_arrow(), 1),
            });
        }
        let rows: Vec<&dyn arrow::array::Array> = rows.iter().map(AsRef::as_ref).collect();
        if rows.is_empty() {
            return Ok(ColumnarValue::Array(new_null_array(&self.ty.to_arrow(), 0)));
        }
        Ok(ColumnarValue::Array(concat(&rows)?))
    }
}
