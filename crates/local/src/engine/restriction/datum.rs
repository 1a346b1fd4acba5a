//! Columns of values in evaluation, and how kernels walk them.
//!
//! Each type has one Arrow form here: decimals are `Decimal128(38, 9)` and
//! `Decimal256(76, 38)`, DATETIME and TIMESTAMP microseconds without a zone.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray,
    Decimal128Array, Decimal256Array, PrimitiveArray, StringArray, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, IntervalUnit, TimeUnit, TimestampMicrosecondType,
    i256,
};

use super::error::failed;
use super::types::Type;
use crate::error::Result;
use crate::schema::arrow_field;
use crate::schema::{Field, FieldType};

/// Values of one expression: one for each row, or one for all.
#[derive(Debug, Clone)]
pub(super) struct Datum {
    pub(super) array: ArrayRef,
    /// Whether `array` has one value that stands for every row.
    pub(super) constant: bool,
}

impl Datum {
    /// A value for each row.
    pub(super) fn rows(array: impl Array + 'static) -> Self {
        Self {
            array: Arc::new(array),
            constant: false,
        }
    }

    /// A value for each row, or for all when `constant`.
    pub(super) fn like(array: impl Array + 'static, constant: bool) -> Self {
        Self {
            array: Arc::new(array),
            constant,
        }
    }

    /// One value for all.
    pub(super) fn constant(array: ArrayRef) -> Self {
        Self {
            array,
            constant: true,
        }
    }

    /// One NULL for all.
    pub(super) fn null(ty: &Type) -> Self {
        Self::constant(new_null_array(&data_type(ty), 1))
    }

    fn index(&self, row: usize) -> usize {
        if self.constant { 0 } else { row }
    }

    /// Whether the value at `row` is NULL.
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(self.index(row))
    }

    /// The values as those of `T`.
    pub(super) fn primitive<T: ArrowPrimitiveType>(&self) -> View<&PrimitiveArray<T>> {
        View {
            array: self.array.as_primitive::<T>(),
            constant: self.constant,
        }
    }

    /// The values as text.
    pub(super) fn text(&self) -> View<&StringArray> {
        View {
            array: self.array.as_string::<i32>(),
            constant: self.constant,
        }
    }

    /// The values as bytes.
    pub(super) fn bytes(&self) -> View<&BinaryArray> {
        View {
            array: self.array.as_binary::<i32>(),
            constant: self.constant,
        }
    }

    /// The values as booleans.
    pub(super) fn booleans(&self) -> View<&BooleanArray> {
        View {
            array: self.array.as_boolean(),
            constant: self.constant,
        }
    }

    /// The values as integers scaled by the type's scale.
    pub(super) fn scaled(&self, row: usize) -> Option<i256> {
        let i = self.index(row);
        if self.array.is_null(i) {
            return None;
        }
        Some(match self.array.data_type() {
            DataType::Decimal128(_, _) => {
                i256::from_i128(self.array.as_primitive::<Decimal128Type>().value(i))
            }
            _ => self.array.as_primitive::<Decimal256Type>().value(i),
        })
    }

    /// The booleans, one for each of `count` rows.
    pub(super) fn into_booleans(self, count: usize) -> BooleanArray {
        let array = self.array.as_boolean();
        if !self.constant {
            return array.clone();
        }
        match array.is_valid(0).then(|| array.value(0)) {
            Some(value) => BooleanArray::new(
                if value {
                    BooleanBuffer::new_set(count)
                } else {
                    BooleanBuffer::new_unset(count)
                },
                None,
            ),
            None => BooleanArray::new_null(count),
        }
    }
}

/// Typed access to a [`Datum`].
#[derive(Debug, Clone, Copy)]
pub(super) struct View<A> {
    array: A,
    constant: bool,
}

impl<A: ArrayAccessor> View<A> {
    /// The value at `row`, `None` for NULL.
    pub(super) fn get(&self, row: usize) -> Option<A::Item> {
        let i = if self.constant { 0 } else { row };
        (!self.array.is_null(i)).then(|| self.array.value(i))
    }
}

/// The rows on which an operation happens. On the others nothing can fail, and
/// the result does not matter.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) count: usize,
    /// `None` for all.
    pub(super) active: Option<BooleanBuffer>,
}

impl Rows {
    /// All of `count` rows.
    pub(super) fn all(count: usize) -> Self {
        Self {
            count,
            active: None,
        }
    }

    /// Those of these rows that are set in `mask`.
    pub(super) fn within(&self, mask: &BooleanBuffer) -> Self {
        let active = match &self.active {
            Some(active) => active & mask,
            None => mask.clone(),
        };
        Self {
            count: self.count,
            active: Some(active),
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        match &self.active {
            Some(active) => active.count_set_bits() == 0,
            None => self.count == 0,
        }
    }

    fn has(&self, row: usize) -> bool {
        self.active.as_ref().is_none_or(|a| a.value(row))
    }

    /// What `value` answers for each row, or for all when every one of `arguments`
    /// is constant; NULL for rows that are not among these.
    pub(super) fn map<T>(
        &self,
        arguments: &[&Datum],
        mut value: impl FnMut(usize) -> Result<Option<T>>,
    ) -> Result<Vec<Option<T>>> {
        if arguments.iter().all(|a| a.constant) {
            return Ok(vec![if self.is_empty() { None } else { value(0)? }]);
        }
        (0..self.count)
            .map(|row| if self.has(row) { value(row) } else { Ok(None) })
            .collect()
    }

    /// [`Rows::map`] to a [`Datum`] of a primitive type.
    pub(super) fn primitive<T: ArrowPrimitiveType>(
        &self,
        arguments: &[&Datum],
        value: impl FnMut(usize) -> Result<Option<T::Native>>,
    ) -> Result<Datum> {
        let array: PrimitiveArray<T> = self.map(arguments, value)?.into_iter().collect();
        Ok(Datum::like(array, arguments.iter().all(|a| a.constant)))
    }

    /// [`Rows::map`] to booleans.
    pub(super) fn booleans(
        &self,
        arguments: &[&Datum],
        value: impl FnMut(usize) -> Result<Option<bool>>,
    ) -> Result<Datum> {
        let array = BooleanArray::from(self.map(arguments, value)?);
        Ok(Datum::like(array, arguments.iter().all(|a| a.constant)))
    }

    /// [`Rows::map`] to text.
    pub(super) fn text(
        &self,
        arguments: &[&Datum],
        value: impl FnMut(usize) -> Result<Option<String>>,
    ) -> Result<Datum> {
        let array = StringArray::from(self.map(arguments, value)?);
        Ok(Datum::like(array, arguments.iter().all(|a| a.constant)))
    }

    /// [`Rows::map`] to bytes.
    pub(super) fn bytes(
        &self,
        arguments: &[&Datum],
        value: impl FnMut(usize) -> Result<Option<Vec<u8>>>,
    ) -> Result<Datum> {
        let array: BinaryArray = self.map(arguments, value)?.into_iter().collect();
        Ok(Datum::like(array, arguments.iter().all(|a| a.constant)))
    }

    /// [`Rows::map`] to NUMERIC or BIGNUMERIC; a value outside the type fails.
    pub(super) fn scaled(
        &self,
        ty: &Type,
        arguments: &[&Datum],
        value: impl FnMut(usize) -> Result<Option<i256>>,
    ) -> Result<Datum> {
        let constant = arguments.iter().all(|a| a.constant);
        let values = self.map(arguments, value)?;
        if *ty == Type::Bignumeric {
            return Ok(Datum::like(bignumerics(values), constant));
        }
        let narrow = values
            .into_iter()
            .map(|v| v.map(numeric).transpose())
            .collect::<Result<Vec<_>>>()?;
        Ok(Datum::like(numerics(narrow), constant))
    }
}

/// The largest NUMERIC, scaled.
const MAX_NUMERIC: i128 = 10_i128.pow(38) - 1;

/// A scaled integer as a NUMERIC.
pub(super) fn numeric(value: i256) -> Result<i128> {
    value
        .to_i128()
        .filter(|v| (-MAX_NUMERIC..=MAX_NUMERIC).contains(v))
        .ok_or_else(|| failed("numeric overflow"))
}

/// An array of NUMERIC.
pub(super) fn numerics(values: Vec<Option<i128>>) -> Decimal128Array {
    values
        .into_iter()
        .collect::<Decimal128Array>()
        .with_data_type(DataType::Decimal128(38, 9))
}

/// An array of BIGNUMERIC.
pub(super) fn bignumerics(values: Vec<Option<i256>>) -> Decimal256Array {
    values
        .into_iter()
        .collect::<Decimal256Array>()
        .with_data_type(DataType::Decimal256(76, 38))
}

/// The Arrow type of values of `ty` in evaluation.
pub(super) fn data_type(ty: &Type) -> DataType {
    match ty {
        Type::Bool => DataType::Boolean,
        Type::Int64 => DataType::Int64,
        Type::Float64 => DataType::Float64,
        Type::Numeric => DataType::Decimal128(38, 9),
        Type::Bignumeric => DataType::Decimal256(76, 38),
        Type::Text | Type::Json | Type::Geography => DataType::Utf8,
        Type::Bytes => DataType::Binary,
        Type::Date => DataType::Date32,
        Type::Time => DataType::Time64(TimeUnit::Microsecond),
        Type::Datetime | Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        Type::Range(element) => arrow_field(&Field::new("", FieldType::Range(*element)))
            .data_type()
            .clone(),
        Type::Struct(fields) => arrow_field(&Field::new("", FieldType::Struct(fields.clone())))
            .data_type()
            .clone(),
        Type::Array(element) => DataType::List(Arc::new(arrow::datatypes::Field::new(
            "item",
            data_type(element),
            true,
        ))),
    }
}

/// A stored column of type `ty` in the form of evaluation.
pub(super) fn from_stored(array: &ArrayRef, ty: &Type) -> Result<ArrayRef> {
    Ok(match (ty, array.data_type()) {
        (Type::Timestamp | Type::Datetime, _) => Arc::new(
            array
                .as_primitive::<TimestampMicrosecondType>()
                .clone()
                .with_timezone_opt(None::<&str>),
        ),
        (Type::Numeric, DataType::Decimal128(38, 9))
        | (Type::Bignumeric, DataType::Decimal256(76, 38)) => Arc::clone(array),
        (Type::Numeric, DataType::Decimal128(_, scale)) => {
            let factor = power(9 - i32::from(*scale))?.as_i128();
            let scaled: Decimal128Array = array
                .as_primitive::<Decimal128Type>()
                .unary(|v| v.wrapping_mul(factor));
            Arc::new(scaled.with_data_type(DataType::Decimal128(38, 9)))
        }
        (Type::Bignumeric, DataType::Decimal256(_, scale)) => {
            let factor = power(38 - i32::from(*scale))?;
            let scaled: Decimal256Array = array
                .as_primitive::<Decimal256Type>()
                .unary(|v| v.wrapping_mul(factor));
            Arc::new(scaled.with_data_type(DataType::Decimal256(76, 38)))
        }
        _ => Arc::clone(array),
    })
}

/// 10^`exponent`; a column's scale is never beyond its type's.
fn power(exponent: i32) -> Result<i256> {
    u32::try_from(exponent)
        .ok()
        .and_then(|e| i256::from_i128(10).checked_pow(e))
        .ok_or_else(|| failed("a decimal column has a scale beyond its type's"))
}

/// What `compute` answers for each row alone, NULL where it fails.
pub(super) fn each_row(
    arguments: &[Datum],
    ty: &Type,
    rows: &Rows,
    compute: impl Fn(&[Datum], &Rows) -> Result<Datum>,
) -> Result<Datum> {
    // Most batches have no failing row.
    if let Ok(all) = compute(arguments, rows) {
        return Ok(all);
    }
    let constant = arguments.iter().all(|a| a.constant);
    let null = Datum::null(ty);
    let count = if constant { 1 } else { rows.count };
    let mut values = Vec::with_capacity(count);
    for row in 0..count {
        if !constant && !rows.has(row) {
            values.push(Arc::clone(&null.array));
            continue;
        }
        let one: Vec<Datum> = arguments
            .iter()
            .map(|a| Datum::constant(a.array.slice(a.index(row), 1)))
            .collect();
        let value = compute(&one, &Rows::all(1)).unwrap_or_else(|_| null.clone());
        values.push(value.array.slice(0, 1));
    }
    let parts: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    if parts.is_empty() {
        return Ok(null);
    }
    Ok(Datum {
        array: arrow::compute::concat(&parts).map_err(|e| failed(format_args!("internal: {e}")))?,
        constant,
    })
}
