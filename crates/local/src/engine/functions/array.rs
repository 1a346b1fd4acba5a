//! Between Arrow arrays and [`Value`]s.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;

use super::types::SqlType;
use super::value::{Interval, Value};
use crate::error::{Result, ServiceError};

/// Reads an array's values as those of one GoogleSQL type.
#[derive(Debug)]
pub(crate) struct Reader {
    array: ArrayRef,
    sql_type: SqlType,
    /// Readers of a list's items or of a struct's fields.
    children: Vec<Reader>,
    /// 10^(9 − scale) or 10^(38 − scale) for decimals of a smaller scale.
    decimal_factor: i256,
}

impl Reader {
    /// A reader of `array`, which holds values of `sql_type` in any of the
    /// Arrow forms that count as it.
    pub(crate) fn new(array: &ArrayRef, sql_type: &SqlType) -> Result<Reader> {
        let mut factor = i256::ONE;
        let wanted = match (sql_type, array.data_type()) {
            (SqlType::Numeric, DataType::Decimal128(_, s)) if (0..=9).contains(s) => {
                factor = power_of_ten(9 - *s as u32);
                None
            }
            (SqlType::BigNumeric, DataType::Decimal256(_, s)) if (0..=38).contains(s) => {
                factor = power_of_ten(38 - *s as u32);
                None
            }
            (SqlType::Array(_), DataType::List(_)) => None,
            (SqlType::Array(element), other) if !matches!(other, DataType::Null) => {
                let item = match other {
                    DataType::LargeList(f)
                    | DataType::ListView(f)
                    | DataType::FixedSizeList(f, _) => Arc::clone(f),
                    _ => Arc::new(Field::new("item", element.to_arrow(), true)),
                };
                Some(DataType::List(item))
            }
            (SqlType::Struct(_) | SqlType::Range(_), DataType::Struct(_)) => None,
            (t, given) => {
                let wanted = t.to_arrow();
                (*given != wanted && *given != DataType::Null).then_some(wanted)
            }
        };
        let array = match wanted {
            Some(wanted) => cast(array, &wanted).map_err(|e| {
                ServiceError::internal(format!("{} is not {wanted}: {e}", array.data_type()))
            })?,
            None => Arc::clone(array),
        };
        let children = if matches!(array.data_type(), DataType::Null) {
            Vec::new()
        } else {
            match sql_type {
                SqlType::Array(element) => {
                    vec![Reader::new(array.as_list::<i32>().values(), element)?]
                }
                SqlType::Struct(fields) => {
                    let columns = array.as_struct().columns();
                    if columns.len() != fields.len() {
                        return Err(ServiceError::internal(format!(
                            "a struct of {} fields is not {sql_type}",
                            columns.len()
                        )));
                    }
                    columns
                        .iter()
                        .zip(fields)
                        .map(|(c, (_, t))| Reader::new(c, t))
                        .collect::<Result<_>>()?
                }
                SqlType::Range(element) => array
                    .as_struct()
                    .columns()
                    .iter()
                    .map(|c| Reader::new(c, element))
                    .collect::<Result<_>>()?,
                _ => Vec::new(),
            }
        };
        Ok(Reader {
            array,
            sql_type: sql_type.clone(),
            children,
            decimal_factor: factor,
        })
    }

    /// The value of row `i`.
    pub(crate) fn get(&self, i: usize) -> Value<'_> {
        let array = &self.array;
        if matches!(array.data_type(), DataType::Null) || array.is_null(i) {
            return Value::Null;
        }
        match &self.sql_type {
            SqlType::Null => Value::Null,
            SqlType::Bool => Value::Bool(array.as_boolean().value(i)),
            SqlType::Int64 => Value::Int64(array.as_primitive::<Int64Type>().value(i)),
            SqlType::Float64 => Value::Float64(array.as_primitive::<Float64Type>().value(i)),
            SqlType::Numeric => {
                let v = array.as_primitive::<Decimal128Type>().value(i);
                match self.decimal_factor.to_i128() {
                    Some(factor) => Value::Numeric(v.wrapping_mul(factor)),
                    None => Value::Numeric(v),
                }
            }
            SqlType::BigNumeric => Value::BigNumeric(
                array
                    .as_primitive::<Decimal256Type>()
                    .value(i)
                    .wrapping_mul(self.decimal_factor),
            ),
            SqlType::String | SqlType::Json | SqlType::Geography => {
                Value::String(Cow::Borrowed(array.as_string::<i32>().value(i)))
            }
            SqlType::Bytes => Value::Bytes(Cow::Borrowed(array.as_binary::<i32>().value(i))),
            SqlType::Date => Value::Date(array.as_primitive::<Date32Type>().value(i)),
            SqlType::Time => Value::Time(array.as_primitive::<Time64MicrosecondType>().value(i)),
            SqlType::Datetime => {
                Value::Datetime(array.as_primitive::<TimestampMicrosecondType>().value(i))
            }
            SqlType::Timestamp => {
                Value::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(i))
            }
            SqlType::Interval => {
                let v = array.as_primitive::<IntervalMonthDayNanoType>().value(i);
                Value::Interval(Interval {
                    months: i64::from(v.months),
                    days: i64::from(v.days),
                    nanos: i128::from(v.nanoseconds),
                })
            }
            SqlType::Array(_) => {
                let offsets = array.as_list::<i32>().value_offsets();
                let (from, to) = (offsets[i] as usize, offsets[i + 1] as usize);
                Value::Array((from..to).map(|j| self.children[0].get(j)).collect())
            }
            SqlType::Struct(_) | SqlType::Range(_) => {
                Value::Struct(self.children.iter().map(|c| c.get(i)).collect())
            }
        }
    }
}

fn power_of_ten(n: u32) -> i256 {
    i256::from_i128(10).wrapping_pow(n)
}

fn wrong(value: &Value<'_>, sql_type: &SqlType) -> ServiceError {
    ServiceError::internal(format!("a kernel answered {value:?} for {sql_type}"))
}

macro_rules! primitive {
    ($values:expr, $t:expr, $variant:ident, $builder:expr) => {{
        let mut builder = $builder;
        for value in $values {
            match value {
                Value::Null => builder.append_null(),
                Value::$variant(v) => builder.append_value(*v),
                other => return Err(wrong(other, $t)),
            }
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

/// The array of `values` in the Arrow form of `sql_type`.
pub(crate) fn build(values: &[Value<'_>], sql_type: &SqlType) -> Result<ArrayRef> {
    let n = values.len();
    Ok(match sql_type {
        SqlType::Null => new_null_array(&DataType::Null, n),
        SqlType::Bool => primitive!(values, sql_type, Bool, BooleanBuilder::with_capacity(n)),
        SqlType::Int64 => primitive!(values, sql_type, Int64, Int64Builder::with_capacity(n)),
        SqlType::Float64 => {
            primitive!(values, sql_type, Float64, Float64Builder::with_capacity(n))
        }
        SqlType::Numeric => primitive!(
            values,
            sql_type,
            Numeric,
            Decimal128Builder::with_capacity(n).with_data_type(sql_type.to_arrow())
        ),
        SqlType::BigNumeric => primitive!(
            values,
            sql_type,
            BigNumeric,
            Decimal256Builder::with_capacity(n).with_data_type(sql_type.to_arrow())
        ),
        SqlType::String | SqlType::Json | SqlType::Geography => {
            let mut builder = StringBuilder::with_capacity(n, n * 8);
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::String(v) => builder.append_value(v),
                    other => return Err(wrong(other, sql_type)),
                }
            }
            Arc::new(builder.finish())
        }
        SqlType::Bytes => {
            let mut builder = BinaryBuilder::with_capacity(n, n * 8);
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Bytes(v) => builder.append_value(v),
                    other => return Err(wrong(other, sql_type)),
                }
            }
            Arc::new(builder.finish())
        }
        SqlType::Date => primitive!(values, sql_type, Date, Date32Builder::with_capacity(n)),
        SqlType::Time => primitive!(
            values,
            sql_type,
            Time,
            Time64MicrosecondBuilder::with_capacity(n)
        ),
        SqlType::Datetime => primitive!(
            values,
            sql_type,
            Datetime,
            TimestampMicrosecondBuilder::with_capacity(n)
        ),
        SqlType::Timestamp => primitive!(
            values,
            sql_type,
            Timestamp,
            TimestampMicrosecondBuilder::with_capacity(n).with_data_type(sql_type.to_arrow())
        ),
        SqlType::Interval => {
            let mut builder = IntervalMonthDayNanoBuilder::with_capacity(n);
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Interval(v) => {
                        let parts = (
                            i32::try_from(v.months),
                            i32::try_from(v.days),
                            i64::try_from(v.nanos),
                        );
                        let (Ok(months), Ok(days), Ok(nanos)) = parts else {
                            return Err(ServiceError::unsupported(
                                "An INTERVAL whose time part exceeds 2562047 hours",
                            ));
                        };
                        builder.append_value(IntervalMonthDayNano::new(months, days, nanos));
                    }
                    other => return Err(wrong(other, sql_type)),
                }
            }
            Arc::new(builder.finish())
        }
        SqlType::Array(element) => {
            let mut items: Vec<Value<'_>> = Vec::new();
            let mut lengths = Vec::with_capacity(n);
            let mut valid = Vec::with_capacity(n);
            for value in values {
                match value {
                    Value::Null => {
                        lengths.push(0);
                        valid.push(false);
                    }
                    Value::Array(v) => {
                        items.extend(v.iter().cloned());
                        lengths.push(v.len());
                        valid.push(true);
                    }
                    other => return Err(wrong(other, sql_type)),
                }
            }
            if i32::try_from(items.len()).is_err() {
                return Err(ServiceError::new(
                    crate::error::Reason::ResourcesExceeded,
                    "Resources exceeded during query execution: an array column is too large",
                ));
            }
            let DataType::List(item) = sql_type.to_arrow() else {
                return Err(ServiceError::internal("an ARRAY is a List"));
            };
            let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
            Arc::new(
                ListArray::try_new(
                    item,
                    OffsetBuffer::from_lengths(lengths),
                    build(&items, element)?,
                    nulls,
                )
                .map_err(|e| ServiceError::internal(e.to_string()))?,
            )
        }
        SqlType::Struct(_) | SqlType::Range(_) => {
            let types: Vec<SqlType> = match sql_type {
                SqlType::Struct(fields) => fields.iter().map(|(_, t)| t.clone()).collect(),
                SqlType::Range(element) => vec![element.as_ref().clone(); 2],
                _ => Vec::new(),
            };
            let mut columns = vec![Vec::with_capacity(n); types.len()];
            let mut valid = Vec::with_capacity(n);
            for value in values {
                match value {
                    Value::Null => {
                        columns.iter_mut().for_each(|c| c.push(Value::Null));
                        valid.push(false);
                    }
                    Value::Struct(v) if v.len() == types.len() => {
                        columns
                            .iter_mut()
                            .zip(v)
                            .for_each(|(c, v)| c.push(v.clone()));
                        valid.push(true);
                    }
                    other => return Err(wrong(other, sql_type)),
                }
            }
            let DataType::Struct(fields) = sql_type.to_arrow() else {
                return Err(ServiceError::internal("a STRUCT is a Struct"));
            };
            let columns = columns
                .iter()
                .zip(&types)
                .map(|(c, t)| build(c, t))
                .collect::<Result<Vec<_>>>()?;
            let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
            Arc::new(
                StructArray::try_new_with_length(fields, columns, nulls, n)
                    .map_err(|e| ServiceError::internal(e.to_string()))?,
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_values_come_back_as_they_went() {
        let t = SqlType::Array(Box::new(SqlType::Struct(vec![
            ("a".into(), SqlType::Json),
            ("r".into(), SqlType::Range(Box::new(SqlType::Date))),
        ])));
        let values = vec![
            Value::Null,
            Value::Array(vec![]),
            Value::Array(vec![
                Value::Null,
                Value::Struct(vec![
                    Value::text("{}"),
                    Value::Struct(vec![Value::Date(3), Value::Null]),
                ]),
            ]),
        ];
        let array = build(&values, &t).unwrap();
        assert_eq!(array.data_type(), t.to_field("x").data_type());
        let reader = Reader::new(&array, &t).unwrap();
        for (i, v) in values.iter().enumerate() {
            assert_eq!(&reader.get(i), v);
        }
    }

    #[test]
    fn parameterised_decimals_are_read_at_the_types_scale() {
        let array: ArrayRef = Arc::new(
            Decimal128Array::from(vec![Some(125), None])
                .with_precision_and_scale(10, 2)
                .unwrap(),
        );
        let reader = Reader::new(&array, &SqlType::Numeric).unwrap();
        assert_eq!(reader.get(0), Value::Numeric(1_250_000_000));
        assert_eq!(reader.get(1), Value::Null);
    }
}
