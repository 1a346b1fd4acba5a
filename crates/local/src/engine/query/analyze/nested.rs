//! STRUCT and ARRAY values: making them and taking them apart, column-wise.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, StructArray, UInt32Array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::{DataType, Field as ArrowField, FieldRef};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr as DfExpr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::super::super::functions::SqlType;
use super::super::ast::Subscript;
use super::access;
pub(super) use super::safe::safe;
use crate::value::nested;

/// What the function does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Operation {
    MakeArray,
    MakeStruct,
    Field(usize),
    /// The value itself, with the metadata that tells its type.
    Mark,
    /// Arrays of equal rank side by side, with their positions, as one array.
    Zip(Padding),
    /// The value, or NULL where it is NaN or a zero's sign is lost: a sort key.
    OrderKey,
    /// Whether a sort key is not NaN.
    NotNan,
    /// An element of an array by position.
    Element(Subscript),
    /// A member of a JSON object or array.
    JsonMember,
    /// Whether a value is among an array's elements, in three-valued logic.
    Member,
}

/// What an empty array contributes to a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Padding {
    /// Nothing.
    Drop,
    /// One row of NULLs, as in a LEFT JOIN.
    Keep,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Nested {
    operation: Operation,
    ty: SqlType,
    signature: Signature,
}

fn call(operation: Operation, ty: &SqlType, args: Vec<DfExpr>) -> DfExpr {
    let udf = ScalarUDF::new_from_impl(Nested {
        operation,
        ty: ty.clone(),
        signature: Signature::user_defined(Volatility::Immutable),
    });
    DfExpr::ScalarFunction(ScalarFunction::new_udf(Arc::new(udf), args))
}

/// An array of elements that all have type `element`.
pub(super) fn make_array(element: &SqlType, items: Vec<DfExpr>) -> DfExpr {
    call(
        Operation::MakeArray,
        &SqlType::Array(Box::new(element.clone())),
        items,
    )
}

/// A struct of type `ty`.
pub(super) fn make_struct(ty: &SqlType, fields: Vec<DfExpr>) -> DfExpr {
    call(Operation::MakeStruct, ty, fields)
}

/// A field of a struct, of type `ty`.
pub(super) fn get_field(value: DfExpr, index: usize, ty: &SqlType) -> DfExpr {
    call(Operation::Field(index), ty, vec![value])
}

/// The same value, with the metadata of its type where Arrow's type is not enough.
pub(super) fn marked(value: DfExpr, ty: &SqlType) -> DfExpr {
    if ambiguous(ty) {
        call(Operation::Mark, ty, vec![value])
    } else {
        value
    }
}

fn ambiguous(ty: &SqlType) -> bool {
    match ty {
        SqlType::Json | SqlType::Geography | SqlType::Range(_) => true,
        SqlType::Array(element) => ambiguous(element),
        _ => false,
    }
}

/// The elements of `arrays` side by side as STRUCT<e0, …, offset>.
pub(super) fn zip(
    arrays: Vec<DfExpr>,
    elements: &[SqlType],
    padding: Padding,
) -> (DfExpr, SqlType) {
    let mut fields: Vec<(String, SqlType)> = elements
        .iter()
        .enumerate()
        .map(|(i, t)| (format!("e{i}"), t.clone()))
        .collect();
    fields.push(("offset".to_string(), SqlType::Int64));
    let element = SqlType::Struct(fields);
    let list = SqlType::Array(Box::new(element.clone()));
    (call(Operation::Zip(padding), &list, arrays), element)
}

/// FLOAT64 sorts by two keys: whether it is a number (NaN comes first), and then
/// its value, where both zeros are the same.
pub(super) fn float_keys(value: DfExpr) -> [DfExpr; 2] {
    [
        call(Operation::NotNan, &SqlType::Bool, vec![value.clone()]),
        call(Operation::OrderKey, &SqlType::Float64, vec![value]),
    ]
}

/// The form of a FLOAT64 that equal values share when rows are grouped.
pub(super) fn group_key(value: DfExpr) -> DfExpr {
    call(Operation::OrderKey, &SqlType::Float64, vec![value])
}

/// An element of an array.
pub(super) fn element(array: DfExpr, index: DfExpr, kind: Subscript, ty: &SqlType) -> DfExpr {
    call(Operation::Element(kind), ty, vec![array, index])
}

/// A member of a JSON value by name or position.
pub(super) fn json_member(value: DfExpr, index: DfExpr) -> DfExpr {
    call(Operation::JsonMember, &SqlType::Json, vec![value, index])
}

/// `value IN UNNEST(array)`.
pub(super) fn member(value: DfExpr, array: DfExpr) -> DfExpr {
    call(Operation::Member, &SqlType::Bool, vec![value, array])
}

impl Nested {
    fn run(&self, args: &[ArrayRef], rows: usize) -> DfResult<ArrayRef> {
        match &self.operation {
            Operation::MakeArray => self.make_array(args, rows),
            Operation::MakeStruct => {
                let DataType::Struct(fields) = self.ty.to_arrow() else {
                    return Err(internal("a struct has a struct type"));
                };
                let columns = args
                    .iter()
                    .zip(&fields)
                    .map(|(a, f)| fit(a, f.data_type()))
                    .collect::<DfResult<Vec<_>>>()?;
                Ok(Arc::new(StructArray::try_new_with_length(
                    fields, columns, None, rows,
                )?))
            }
            Operation::Field(index) => {
                let array = args
                    .first()
                    .ok_or_else(|| internal("a field has a struct"))?;
                if matches!(array.data_type(), DataType::Null) {
                    return Ok(new_null_array(&self.ty.to_arrow(), rows));
                }
                Ok(nested::field(array.as_struct(), *index)?)
            }
            Operation::Mark => args
                .first()
                .cloned()
                .ok_or_else(|| internal("a value to mark")),
            Operation::Zip(padding) => self.zip(args, rows, *padding),
            Operation::OrderKey => {
                let array = args.first().ok_or_else(|| internal("a number"))?;
                let floats = array.as_primitive::<arrow::datatypes::Float64Type>();
                Ok(Arc::new(floats.unary::<_, arrow::datatypes::Float64Type>(
                    |v| {
                        if v.is_nan() { f64::NAN } else { v + 0.0 }
                    },
                )))
            }
            Operation::Element(kind) => match args {
                [array, index] => access::element(array, index, *kind, &self.ty.to_arrow()),
                _ => Err(internal("an array and a position")),
            },
            Operation::JsonMember => match args {
                [value, index] => access::json_member(value, index),
                _ => Err(internal("a JSON value and a member")),
            },
            Operation::Member => match args {
                [value, array] => access::member(value, array),
                _ => Err(internal("a value and an array")),
            },
            Operation::NotNan => {
                let array = args.first().ok_or_else(|| internal("a number"))?;
                let floats = array.as_primitive::<arrow::datatypes::Float64Type>();
                Ok(Arc::new(arrow::array::BooleanArray::from_unary(
                    floats,
                    |v| !v.is_nan(),
                )))
            }
        }
    }

    fn make_array(&self, args: &[ArrayRef], rows: usize) -> DfResult<ArrayRef> {
        let DataType::List(item) = self.ty.to_arrow() else {
            return Err(internal("an array has a list type"));
        };
        let values = if args.is_empty() {
            new_null_array(item.data_type(), 0)
        } else {
            let columns = args
                .iter()
                .map(|a| fit(a, item.data_type()))
                .collect::<DfResult<Vec<_>>>()?;
            let indices: Vec<(usize, usize)> = (0..rows)
                .flat_map(|row| (0..columns.len()).map(move |c| (c, row)))
                .collect();
            let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
            interleave(&columns, &indices)?
        };
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(args.len(), rows));
        Ok(Arc::new(ListArray::try_new(item, offsets, values, None)?))
    }

    fn zip(&self, args: &[ArrayRef], rows: usize, padding: Padding) -> DfResult<ArrayRef> {
        let DataType::List(item) = self.ty.to_arrow() else {
            return Err(internal("zipped arrays have a list type"));
        };
        let DataType::Struct(fields) = item.data_type().clone() else {
            return Err(internal("zipped arrays have a struct element"));
        };
        let lists: Vec<Option<&ListArray>> = args
            .iter()
            .map(|a| match a.data_type() {
                DataType::List(_) => Some(a.as_list::<i32>()),
                _ => None,
            })
            .collect();
        let length = |list: &ListArray, row: usize| {
            if list.is_valid(row) {
                list.value_length(row) as usize
            } else {
                0
            }
        };
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0i32);
        let mut indices: Vec<Vec<Option<u32>>> = vec![Vec::new(); lists.len()];
        let mut positions: Vec<Option<i64>> = Vec::new();
        for row in 0..rows {
            let longest = lists
                .iter()
                .flatten()
                .map(|l| length(l, row))
                .max()
                .unwrap_or(0);
            for i in 0..longest {
                positions.push(i64::try_from(i).ok());
                for (list, indices) in lists.iter().zip(&mut indices) {
                    indices.push(list.and_then(|l| {
                        (i < length(l, row)).then(|| l.value_offsets()[row] as u32 + i as u32)
                    }));
                }
            }
            if longest == 0 && padding == Padding::Keep {
                positions.push(None);
                indices.iter_mut().for_each(|i| i.push(None));
            }
            offsets
                .push(i32::try_from(positions.len()).map_err(|_| internal("too many elements"))?);
        }
        let mut columns = lists
            .iter()
            .zip(indices)
            .zip(&fields)
            .map(|((list, indices), field)| match list {
                Some(list) => fit(
                    &take(list.values(), &UInt32Array::from(indices), None)?,
                    field.data_type(),
                ),
                None => Ok(new_null_array(field.data_type(), positions.len())),
            })
            .collect::<DfResult<Vec<_>>>()?;
        columns.push(Arc::new(Int64Array::from(positions)));
        let values = StructArray::try_new(fields, columns, None)?;
        Ok(Arc::new(ListArray::try_new(
            item,
            OffsetBuffer::new(offsets.into()),
            Arc::new(values),
            None,
        )?))
    }
}

/// The array under another, equal but for names and metadata inside it.
pub(super) fn fit(array: &ArrayRef, to: &DataType) -> DfResult<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let from = array.as_struct();
            let columns = from
                .columns()
                .iter()
                .zip(fields)
                .map(|(c, f)| fit(c, f.data_type()))
                .collect::<DfResult<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                from.nulls().cloned(),
                from.len(),
            )?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let from = array.as_list::<i32>();
            Ok(Arc::new(ListArray::try_new(
                Arc::clone(item),
                from.offsets().clone(),
                fit(from.values(), item.data_type())?,
                from.nulls().cloned(),
            )?))
        }
        (DataType::Null, _) => Ok(new_null_array(to, array.len())),
        _ => Ok(arrow::compute::cast(array, to)?),
    }
}

fn internal(message: &str) -> DataFusionError {
    DataFusionError::Internal(message.to_string())
}

impl ScalarUDFImpl for Nested {
    fn name(&self) -> &str {
        match self.operation {
            Operation::MakeArray => "$make_array",
            Operation::MakeStruct => "$make_struct",
            Operation::Field(_) => "$get_field",
            Operation::Mark => "$mark",
            Operation::Zip(_) => "$zip",
            Operation::OrderKey => "$order_key",
            Operation::NotNan => "$not_nan",
            Operation::Element(_) => "$element",
            Operation::JsonMember => "$json_member",
            Operation::Member => "$member",
        }
    }

    fn schema_name(&self, args: &[DfExpr]) -> DfResult<String> {
        let args: Vec<String> = args.iter().map(|a| a.schema_name().to_string()).collect();
        Ok(format!(
            "{:?}<{}>({})",
            self.operation,
            self.ty,
            args.join(", ")
        ))
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
        Ok(Arc::new(self.ty.to_field(self.name())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = args
            .args
            .iter()
            .all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays = args
            .args
            .iter()
            .map(|a| a.to_array(rows))
            .collect::<DfResult<Vec<_>>>()?;
        let array = self.run(&arrays, rows)?;
        if constant && args.number_rows != 1 {
            return Ok(ColumnarValue::Scalar(
                datafusion::scalar::ScalarValue::try_from_array(&array, 0)?,
            ));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// One list per group of consecutive rows: `lengths` says how many belong to each.
pub(super) fn lists(
    values: &[ArrayRef],
    order: &[(usize, usize)],
    lengths: Vec<usize>,
    element: &SqlType,
) -> DfResult<ArrayRef> {
    let item = Arc::new(ArrowField::new("item", element.to_arrow(), true));
    let values = if values.is_empty() {
        new_null_array(item.data_type(), 0)
    } else {
        let refs: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        fit(&interleave(&refs, order)?, item.data_type())?
    };
    Ok(Arc::new(ListArray::try_new(
        item,
        OffsetBuffer::from_lengths(lengths),
        values,
        None,
    )?))
}

/// Columns of several batches as one.
pub(super) fn joined(arrays: &[ArrayRef], ty: &DataType) -> DfResult<ArrayRef> {
    if arrays.is_empty() {
        return Ok(new_null_array(ty, 0));
    }
    let refs: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(concat(&refs)?)
}
