//! The constants of an IN list, looked up by hash.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Decimal256Type, Float64Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType, i256,
};

use super::collation::folded;
use super::datum::{Datum, Rows};
use super::types::Type;
use crate::error::Result;

#[derive(Debug)]
enum Values {
    Integers(HashSet<i64>),
    Numerics(HashSet<i128>),
    Bignumerics(HashSet<i256>),
    /// Bits, with −0 as +0 and without NaN, which equals nothing.
    Floats(HashSet<u64>),
    Text(HashSet<String>),
    /// Folded text of a collated comparison.
    Folded(HashSet<String>),
    Bytes(HashSet<Vec<u8>>),
}

/// Constants of one type.
#[derive(Debug)]
pub(super) struct ValueSet {
    values: Values,
    /// Whether NULL is among them, which makes a miss NULL.
    has_null: bool,
}

fn bits(value: f64) -> u64 {
    (value + 0.0).to_bits()
}

impl ValueSet {
    /// The set of `constants`, arrays of one value of `ty`; `None` for a type that
    /// is not looked up by hash.
    pub(super) fn new(ty: &Type, constants: &[&ArrayRef], ignores_case: bool) -> Option<Self> {
        let present = || constants.iter().filter(|c| c.is_valid(0));
        let values = match ty {
            Type::Int64 => Values::Integers(
                present()
                    .map(|c| c.as_primitive::<Int64Type>().value(0))
                    .collect(),
            ),
            Type::Date => Values::Integers(
                present()
                    .map(|c| i64::from(c.as_primitive::<Date32Type>().value(0)))
                    .collect(),
            ),
            Type::Time => Values::Integers(
                present()
                    .map(|c| c.as_primitive::<Time64MicrosecondType>().value(0))
                    .collect(),
            ),
            Type::Datetime | Type::Timestamp => Values::Integers(
                present()
                    .map(|c| c.as_primitive::<TimestampMicrosecondType>().value(0))
                    .collect(),
            ),
            Type::Numeric => Values::Numerics(
                present()
                    .map(|c| c.as_primitive::<Decimal128Type>().value(0))
                    .collect(),
            ),
            Type::Bignumeric => Values::Bignumerics(
                present()
                    .map(|c| c.as_primitive::<Decimal256Type>().value(0))
                    .collect(),
            ),
            Type::Float64 => Values::Floats(
                present()
                    .map(|c| c.as_primitive::<Float64Type>().value(0))
                    .filter(|v| !v.is_nan())
                    .map(bits)
                    .collect(),
            ),
            Type::Text if ignores_case => Values::Folded(
                present()
                    .map(|c| folded(c.as_string::<i32>().value(0)))
                    .collect(),
            ),
            Type::Text => Values::Text(
                present()
                    .map(|c| c.as_string::<i32>().value(0).to_string())
                    .collect(),
            ),
            Type::Bytes => Values::Bytes(
                present()
                    .map(|c| c.as_binary::<i32>().value(0).to_vec())
                    .collect(),
            ),
            Type::Bool
            | Type::Interval
            | Type::Json
            | Type::Geography
            | Type::Range(_)
            | Type::Struct(_)
            | Type::Array(_) => return None,
        };
        Some(Self {
            values,
            has_null: constants.iter().any(|c| c.is_null(0)),
        })
    }

    /// Whether each of `values`, of type `ty`, is in the set.
    pub(super) fn contains(&self, ty: &Type, values: &Datum, rows: &Rows) -> Result<Datum> {
        let miss = (!self.has_null).then_some(false);
        let answer = |found: Option<bool>| match found {
            Some(true) => Ok(Some(true)),
            Some(false) => Ok(miss),
            None => Ok(None),
        };
        let arguments = [values];
        match (&self.values, ty) {
            (Values::Integers(set), Type::Date) => {
                let view = values.primitive::<Date32Type>();
                rows.booleans(&arguments, |i| {
                    answer(view.get(i).map(|v| set.contains(&i64::from(v))))
                })
            }
            (Values::Integers(set), Type::Time) => {
                let view = values.primitive::<Time64MicrosecondType>();
                rows.booleans(&arguments, |i| {
                    answer(view.get(i).map(|v| set.contains(&v)))
                })
            }
            (Values::Integers(set), Type::Datetime | Type::Timestamp) => {
                let view = values.primitive::<TimestampMicrosecondType>();
                rows.booleans(&arguments, |i| {
                    answer(view.get(i).map(|v| set.contains(&v)))
                })
            }
            (Values::Integers(set), _) => {
                let view = values.primitive::<Int64Type>();
                rows.booleans(&arguments, |i| {
                    answer(view.get(i).map(|v| set.contains(&v)))
                })
            }
            (Values::Numerics(set), _) => {
                let view = values.primitive::<Decimal128Type>();
                rows.booleans(&arguments, |i| {
                    answer(view.get(i).map(|v| set.contains(&v)))
                })
            }
            (Values::Bignumerics(set), _) => {
                let view = values.primitive::<Decimal256Type>();
                rows.booleans(&arguments, |i| {
                    answer(view.get(i).map(|v| set.contains(&v)))
                })
            }
            (Values::Floats(set), _) => {
                let view = values.primitive::<Float64Type>();
                rows.booleans(&arguments, |i| {
                    answer(view.get(i).map(|v| !v.is_nan() && set.contains(&bits(v))))
                })
            }
            (Values::Text(set), _) => {
                let view = values.text();
                rows.booleans(&arguments, |i| answer(view.get(i).map(|v| set.contains(v))))
            }
            (Values::Folded(set), _) => {
                let view = values.text();
                rows.booleans(&arguments, |i| {
                    answer(view.get(i).map(|v| set.contains(&folded(v))))
                })
            }
            (Values::Bytes(set), _) => {
                let view = values.bytes();
                rows.booleans(&arguments, |i| answer(view.get(i).map(|v| set.contains(v))))
            }
        }
    }
}
