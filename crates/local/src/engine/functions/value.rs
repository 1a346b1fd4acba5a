//! One GoogleSQL value, as row-wise kernels read and make it.

use std::borrow::Cow;

use arrow::datatypes::i256;

use super::types::SqlType;
use crate::error::{Result, ServiceError};

/// An INTERVAL: three parts with signs of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Interval {
    /// Years and months, in months.
    pub(crate) months: i64,
    /// Days.
    pub(crate) days: i64,
    /// The time part in nanoseconds (INTERVAL has microseconds; the Arrow form
    /// has nanoseconds).
    pub(crate) nanos: i128,
}

/// A value. Text, bytes and nested values may borrow from the array they were
/// read from; kernels answer owned ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// SQL NULL of any type.
    Null,
    /// BOOL.
    Bool(bool),
    /// INT64.
    Int64(i64),
    /// FLOAT64.
    Float64(f64),
    /// NUMERIC, in units of 10⁻⁹.
    Numeric(i128),
    /// BIGNUMERIC, in units of 10⁻³⁸.
    BigNumeric(i256),
    /// STRING, and JSON and GEOGRAPHY as their text.
    String(Cow<'a, str>),
    /// BYTES.
    Bytes(Cow<'a, [u8]>),
    /// DATE, days since 1970-01-01.
    Date(i32),
    /// TIME, microseconds since midnight.
    Time(i64),
    /// DATETIME, microseconds since 1970-01-01 00:00:00.
    Datetime(i64),
    /// TIMESTAMP, microseconds since the epoch.
    Timestamp(i64),
    /// INTERVAL.
    Interval(Interval),
    /// ARRAY.
    Array(Vec<Value<'a>>),
    /// STRUCT, or the two bounds of a RANGE.
    Struct(Vec<Value<'a>>),
}

/// What a kernel answers.
pub(crate) type Answer = Result<Value<'static>>;

macro_rules! reader {
    ($(#[$doc:meta])* $name:ident, $variant:ident, $out:ty, $sql:literal) => {
        $(#[$doc])*
        pub(crate) fn $name(&self) -> Result<$out> {
            match self {
                Value::$variant(v) => Ok(*v),
                other => Err(other.mismatch($sql)),
            }
        }
    };
}

impl<'a> Value<'a> {
    /// A STRING (JSON, GEOGRAPHY) value.
    pub(crate) fn text(text: impl Into<String>) -> Value<'static> {
        Value::String(Cow::Owned(text.into()))
    }

    /// A BYTES value.
    pub(crate) fn binary(bytes: impl Into<Vec<u8>>) -> Value<'static> {
        Value::Bytes(Cow::Owned(bytes.into()))
    }

    /// Whether this is NULL.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    fn mismatch(&self, wanted: &str) -> ServiceError {
        ServiceError::internal(format!("a kernel expected {wanted} and was given {self:?}"))
    }

    reader!(
        /// The BOOL.
        bool, Bool, bool, "BOOL"
    );
    reader!(
        /// The INT64.
        int, Int64, i64, "INT64"
    );
    reader!(
        /// The FLOAT64.
        float, Float64, f64, "FLOAT64"
    );
    reader!(
        /// The NUMERIC in units of 10⁻⁹.
        numeric, Numeric, i128, "NUMERIC"
    );
    reader!(
        /// The BIGNUMERIC in units of 10⁻³⁸.
        bignumeric, BigNumeric, i256, "BIGNUMERIC"
    );
    reader!(
        /// The DATE in days.
        date, Date, i32, "DATE"
    );
    reader!(
        /// The TIME in microseconds.
        time, Time, i64, "TIME"
    );
    reader!(
        /// The DATETIME in microseconds.
        datetime, Datetime, i64, "DATETIME"
    );
    reader!(
        /// The TIMESTAMP in microseconds.
        timestamp, Timestamp, i64, "TIMESTAMP"
    );
    reader!(
        /// The INTERVAL.
        interval, Interval, Interval, "INTERVAL"
    );

    /// The text of a STRING, JSON or GEOGRAPHY.
    pub(crate) fn str(&self) -> Result<&str> {
        match self {
            Value::String(v) => Ok(v),
            other => Err(other.mismatch("STRING")),
        }
    }

    /// The BYTES.
    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        match self {
            Value::Bytes(v) => Ok(v),
            other => Err(other.mismatch("BYTES")),
        }
    }

    /// The elements of an ARRAY.
    pub(crate) fn array(&self) -> Result<&[Value<'a>]> {
        match self {
            Value::Array(v) => Ok(v),
            other => Err(other.mismatch("ARRAY")),
        }
    }

    /// The fields of a STRUCT or the bounds of a RANGE.
    pub(crate) fn fields(&self) -> Result<&[Value<'a>]> {
        match self {
            Value::Struct(v) => Ok(v),
            other => Err(other.mismatch("STRUCT")),
        }
    }

    /// The same value, owning everything.
    pub(crate) fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(v) => Value::Bool(v),
            Value::Int64(v) => Value::Int64(v),
            Value::Float64(v) => Value::Float64(v),
            Value::Numeric(v) => Value::Numeric(v),
            Value::BigNumeric(v) => Value::BigNumeric(v),
            Value::String(v) => Value::String(Cow::Owned(v.into_owned())),
            Value::Bytes(v) => Value::Bytes(Cow::Owned(v.into_owned())),
            Value::Date(v) => Value::Date(v),
            Value::Time(v) => Value::Time(v),
            Value::Datetime(v) => Value::Datetime(v),
            Value::Timestamp(v) => Value::Timestamp(v),
            Value::Interval(v) => Value::Interval(v),
            Value::Array(v) => Value::Array(v.into_iter().map(Value::into_owned).collect()),
            Value::Struct(v) => Value::Struct(v.into_iter().map(Value::into_owned).collect()),
        }
    }

    /// A copy that owns everything.
    pub(crate) fn to_owned_value(&self) -> Value<'static> {
        self.clone().into_owned()
    }
}

/// A failure that belongs to the query's data or arguments.
pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(ServiceError::invalid_query(message))
}

/// The months, days and nanoseconds that order and compare intervals: a month is
/// 30 days and a day is 24 hours.
pub(crate) fn interval_order_key(interval: Interval) -> i128 {
    (i128::from(interval.months) * 30 + i128::from(interval.days)) * 86_400_000_000_000
        + interval.nanos
}

/// A total order of values of one type: NULL first, then NaN, then as GoogleSQL
/// sorts. Zeros of either sign are equal.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Int64(x), Value::Int64(y)) => x.cmp(y),
        (Value::Float64(x), Value::Float64(y)) => match (x.is_nan(), y.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => x.partial_cmp(y).unwrap_or(Ordering::Equal),
        },
        (Value::Numeric(x), Value::Numeric(y)) => x.cmp(y),
        (Value::BigNumeric(x), Value::BigNumeric(y)) => x.cmp(y),
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Bytes(x), Value::Bytes(y)) => x.cmp(y),
        (Value::Date(x), Value::Date(y)) => x.cmp(y),
        (Value::Time(x), Value::Time(y))
        | (Value::Datetime(x), Value::Datetime(y))
        | (Value::Timestamp(x), Value::Timestamp(y)) => x.cmp(y),
        (Value::Interval(x), Value::Interval(y)) => {
            interval_order_key(*x).cmp(&interval_order_key(*y))
        }
        (Value::Array(x), Value::Array(y)) | (Value::Struct(x), Value::Struct(y)) => x
            .iter()
            .zip(y)
            .map(|(x, y)| compare(x, y))
            .find(|o| o.is_ne())
            .unwrap_or_else(|| x.len().cmp(&y.len())),
        // Values of different types never meet: one column has one type.
        _ => Ordering::Equal,
    }
}

/// Bytes that are equal exactly for values that GROUP BY and DISTINCT hold
/// equal: zeros of either sign and NaNs are one value each.
pub(crate) fn group_key(value: &Value<'_>, out: &mut Vec<u8>) {
    let mut put = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(bytes);
    };
    match value {
        Value::Null => put(0, &[]),
        Value::Bool(v) => put(1, &[u8::from(*v)]),
        Value::Int64(v) => put(2, &v.to_le_bytes()),
        Value::Float64(v) => {
            let v = if v.is_nan() {
                f64::NAN
            } else if *v == 0.0 {
                0.0
            } else {
                *v
            };
            put(3, &v.to_bits().to_le_bytes());
        }
        Value::Numeric(v) => put(4, &v.to_le_bytes()),
        Value::BigNumeric(v) => put(5, &v.to_le_bytes()),
        Value::String(v) => {
            put(6, &(v.len() as u64).to_le_bytes());
            out.extend_from_slice(v.as_bytes());
        }
        Value::Bytes(v) => {
            put(7, &(v.len() as u64).to_le_bytes());
            out.extend_from_slice(v);
        }
        Value::Date(v) => put(8, &v.to_le_bytes()),
        Value::Time(v) => put(9, &v.to_le_bytes()),
        Value::Datetime(v) => put(10, &v.to_le_bytes()),
        Value::Timestamp(v) => put(11, &v.to_le_bytes()),
        Value::Interval(v) => put(12, &interval_order_key(*v).to_le_bytes()),
        Value::Array(items) | Value::Struct(items) => {
            put(13, &(items.len() as u64).to_le_bytes());
            for item in items {
                group_key(item, out);
            }
        }
    }
}

/// How a kernel is being called: the types it was bound to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding<'a> {
    /// The function's name.
    pub(crate) name: &'a str,
    /// The argument types after coercion.
    pub(crate) args: &'a [SqlType],
    /// The result type.
    pub(crate) ret: &'a SqlType,
}
