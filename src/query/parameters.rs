//! Values as query parameters
//! (<https://cloud.google.com/bigquery/docs/reference/rest/v2/QueryParameter>).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, NaiveDate, TimeDelta};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use serde_json::{Map, Value, json};

use crate::client::rest::jobs::QueryParameter;
use crate::error::{Error, ErrorKind, Result};

/// The parameter of a value. A timestamp with a zone is a TIMESTAMP, one
/// without is a DATETIME, as in what is read.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for a type that BigQuery does not have, and
/// [`ErrorKind::InvalidArgument`] for a value outside of its type.
pub(crate) fn parameter(value: &ScalarValue) -> Result<QueryParameter> {
    Ok(QueryParameter {
        parameter_type: type_of(&value.data_type())?,
        parameter_value: value_of(value)?,
    })
}

/// The fields of a struct as named parameters; None for another value.
///
/// # Errors
/// As [`parameter`], naming the parameter.
pub(crate) fn named(value: &ScalarValue) -> Option<Result<Vec<(String, QueryParameter)>>> {
    let ScalarValue::Struct(fields) = value else {
        return None;
    };
    let each = fields.fields().iter().zip(fields.columns());
    Some(
        each.map(|(field, column)| {
            let name = field.name();
            let scalar = scalar(column, 0)?;
            let parameter = parameter(&scalar)
                .map_err(|error| error.with_context(format!("parameter @{name}")))?;
            Ok((name.clone(), parameter))
        })
        .collect(),
    )
}

fn scalar(array: &ArrayRef, row: usize) -> Result<ScalarValue> {
    ScalarValue::try_from_array(array, row)
        .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))
}

fn type_of(data_type: &DataType) -> Result<Value> {
    let plain = |name: &str| json!({ "type": name });
    Ok(match data_type {
        DataType::Null => {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "a NULL without a type cannot be a parameter: write CAST(NULL AS …)",
            ));
        }
        DataType::Boolean => plain("BOOL"),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64 => plain("INT64"),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => plain("FLOAT64"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => plain("STRING"),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => plain("BYTES"),
        DataType::Date32 | DataType::Date64 => plain("DATE"),
        DataType::Time32(_) | DataType::Time64(_) => plain("TIME"),
        DataType::Timestamp(_, None) => plain("DATETIME"),
        DataType::Timestamp(_, Some(_)) => plain("TIMESTAMP"),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            let whole = i16::from(*precision) - i16::from(*scale);
            match (*scale <= 9 && whole <= 29, *scale <= 38 && whole <= 38) {
                (true, _) => plain("NUMERIC"),
                (false, true) => plain("BIGNUMERIC"),
                (false, false) => return Err(unsupported(data_type)),
            }
        }
        DataType::Interval(_) => plain("INTERVAL"),
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _) => {
            json!({"type": "ARRAY", "arrayType": type_of(element.data_type())?})
        }
        DataType::Struct(fields) => {
            let types = fields
                .iter()
                .map(|field| Ok(json!({"name": field.name(), "type": type_of(field.data_type())?})))
                .collect::<Result<Vec<_>>>()?;
            json!({"type": "STRUCT", "structTypes": types})
        }
        DataType::Dictionary(_, value) => type_of(value)?,
        other => return Err(unsupported(other)),
    })
}

fn unsupported(data_type: &DataType) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("a value of type {data_type} cannot be a query parameter: cast it"),
    )
}

fn value_of(value: &ScalarValue) -> Result<Value> {
    match value {
        ScalarValue::Dictionary(_, inner) => return value_of(inner),
        ScalarValue::List(list) if list.is_valid(0) => {
            return elements(&list.value(0));
        }
        ScalarValue::LargeList(list) if list.is_valid(0) => {
            return elements(&list.value(0));
        }
        ScalarValue::FixedSizeList(list) if list.is_valid(0) => {
            return elements(&list.value(0));
        }
        ScalarValue::Struct(fields) if fields.is_valid(0) => {
            let mut values = Map::new();
            for (field, column) in fields.fields().iter().zip(fields.columns()) {
                values.insert(field.name().clone(), value_of(&scalar(column, 0)?)?);
            }
            return Ok(json!({ "structValues": values }));
        }
        _ => {}
    }
    if value.is_null() {
        return Ok(json!({ "value": null }));
    }
    Ok(json!({ "value": text(value)? }))
}

fn elements(array: &ArrayRef) -> Result<Value> {
    let values = (0..array.len())
        .map(|row| value_of(&scalar(array, row)?))
        .collect::<Result<Vec<_>>>()?;
    Ok(json!({ "arrayValues": values }))
}

/// A value that is not NULL, as the service reads it.
fn text(value: &ScalarValue) -> Result<String> {
    let out_of_range = || {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("{value} is outside of the range of its BigQuery type"),
        )
    };
    Ok(match value {
        ScalarValue::Boolean(Some(value)) => value.to_string(),
        ScalarValue::UInt64(Some(value)) => i64::try_from(*value)
            .map_err(|_| out_of_range())?
            .to_string(),
        ScalarValue::Float16(_) | ScalarValue::Float32(_) | ScalarValue::Float64(_) => {
            let wide = value
                .cast_to(&DataType::Float64)
                .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))?;
            let ScalarValue::Float64(Some(number)) = wide else {
                return Err(out_of_range());
            };
            match number {
                n if n.is_nan() => "NaN".to_string(),
                n if n == f64::INFINITY => "Infinity".to_string(),
                n if n == f64::NEG_INFINITY => "-Infinity".to_string(),
                n => format!("{n:?}"),
            }
        }
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => text.clone(),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes))
        | ScalarValue::FixedSizeBinary(_, Some(bytes)) => BASE64_STANDARD.encode(bytes),
        ScalarValue::Date32(Some(days)) => date(i64::from(*days)).ok_or_else(out_of_range)?,
        ScalarValue::Date64(Some(millis)) => {
            date(millis.div_euclid(86_400_000)).ok_or_else(out_of_range)?
        }
        ScalarValue::Time32Second(_)
        | ScalarValue::Time32Millisecond(_)
        | ScalarValue::Time64Microsecond(_)
        | ScalarValue::Time64Nanosecond(_) => {
            let micros = whole(value, &DataType::Time64(TimeUnit::Microsecond))?;
            let ScalarValue::Time64Microsecond(Some(micros)) = micros else {
                return Err(out_of_range());
            };
            let seconds = micros / 1_000_000;
            format!(
                "{:02}:{:02}:{:02}.{:06}",
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60,
                micros % 1_000_000
            )
        }
        ScalarValue::TimestampSecond(_, zone)
        | ScalarValue::TimestampMillisecond(_, zone)
        | ScalarValue::TimestampMicrosecond(_, zone)
        | ScalarValue::TimestampNanosecond(_, zone) => {
            let to = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            let ScalarValue::TimestampMicrosecond(Some(micros), _) = whole(value, &to)? else {
                return Err(out_of_range());
            };
            let time = DateTime::from_timestamp_micros(micros)
                .filter(|time| in_years(time.date_naive()))
                .ok_or_else(out_of_range)?;
            match zone {
                Some(_) => time.format("%Y-%m-%d %H:%M:%S%.6f+00:00").to_string(),
                None => time.format("%Y-%m-%d %H:%M:%S%.6f").to_string(),
            }
        }
        ScalarValue::IntervalYearMonth(_)
        | ScalarValue::IntervalDayTime(_)
        | ScalarValue::IntervalMonthDayNano(_) => interval(value).ok_or_else(out_of_range)?,
        // Whole numbers and decimals print as GoogleSQL reads them.
        ScalarValue::Int8(_)
        | ScalarValue::Int16(_)
        | ScalarValue::Int32(_)
        | ScalarValue::Int64(_)
        | ScalarValue::UInt8(_)
        | ScalarValue::UInt16(_)
        | ScalarValue::UInt32(_)
        | ScalarValue::Decimal32(..)
        | ScalarValue::Decimal64(..)
        | ScalarValue::Decimal128(..)
        | ScalarValue::Decimal256(..) => {
            let array = value
                .to_array()
                .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))?;
            datafusion::arrow::util::display::array_value_to_string(&array, 0)
                .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))?
        }
        other => return Err(unsupported(&other.data_type())),
    })
}

/// The value in another unit of time, if it has no finer part.
fn whole(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    let failed = |error: datafusion::error::DataFusionError| {
        Error::new(ErrorKind::InvalidArgument, error.strip_backtrace())
    };
    let cast = value.cast_to(to).map_err(failed)?;
    let back = cast.cast_to(&value.data_type()).map_err(failed)?;
    if back == *value {
        return Ok(cast);
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "{value} is finer than a microsecond, which is as fine as parameters are; round it \
             first, for example with date_trunc('microsecond', …)"
        ),
    ))
}

fn date(days: i64) -> Option<String> {
    let date = NaiveDate::default().checked_add_signed(TimeDelta::try_days(days)?)?;
    in_years(date).then(|| date.format("%Y-%m-%d").to_string())
}

fn in_years(date: NaiveDate) -> bool {
    use chrono::Datelike;
    (1..=9999).contains(&date.year())
}

/// `years-months days hours:minutes:seconds`.
fn interval(value: &ScalarValue) -> Option<String> {
    let (months, days, nanos) = match value {
        ScalarValue::IntervalYearMonth(Some(months)) => (*months, 0, 0),
        ScalarValue::IntervalDayTime(Some(value)) => {
            (0, value.days, i64::from(value.milliseconds) * 1_000_000)
        }
        ScalarValue::IntervalMonthDayNano(Some(value)) => {
            (value.months, value.days, value.nanoseconds)
        }
        _ => return None,
    };
    if nanos % 1_000 != 0 {
        return None;
    }
    let sign = |negative: bool| if negative { "-" } else { "" };
    let (micros, of_month) = (nanos.unsigned_abs() / 1_000, months.unsigned_abs());
    let seconds = micros / 1_000_000;
    Some(format!(
        "{}{}-{} {days} {}{}:{}:{}.{:06}",
        sign(months < 0),
        of_month / 12,
        of_month % 12,
        sign(nanos < 0),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        micros % 1_000_000
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{Field, Fields, Int64Type};
    use datafusion::common::scalar::ScalarStructBuilder;

    use super::*;

    fn sent(value: ScalarValue) -> (Value, Value) {
        let parameter = parameter(&value).unwrap();
        (parameter.parameter_type, parameter.parameter_value)
    }

    #[test]
    fn scalars_have_their_types() {
        let utc = Some("+02:00".into());
        for (value, name, text) in [
            (ScalarValue::from(true), "BOOL", "true"),
            (ScalarValue::from(-7_i8), "INT64", "-7"),
            (ScalarValue::from(1.0_f64), "FLOAT64", "1.0"),
            (ScalarValue::from(f64::NEG_INFINITY), "FLOAT64", "-Infinity"),
            (ScalarValue::from("it's"), "STRING", "it's"),
            (ScalarValue::Binary(Some(vec![0, 255])), "BYTES", "AP8="),
            (ScalarValue::Date32(Some(-719_162)), "DATE", "0001-01-01"),
            (
                ScalarValue::Time64Nanosecond(Some(1_000)),
                "TIME",
                "00:00:00.000001",
            ),
            (
                ScalarValue::TimestampNanosecond(Some(1_500_000_000), None),
                "DATETIME",
                "1970-01-01 00:00:01.500000",
            ),
            (
                ScalarValue::TimestampMicrosecond(Some(-1), utc),
                "TIMESTAMP",
                "1969-12-31 23:59:59.999999+00:00",
            ),
            (
                ScalarValue::Decimal128(Some(-15), 38, 9),
                "NUMERIC",
                "-0.000000015",
            ),
            (
                ScalarValue::Decimal128(Some(15), 38, 10),
                "BIGNUMERIC",
                "0.0000000015",
            ),
            (
                ScalarValue::new_interval_mdn(-14, 3, -3_600_500_000_000),
                "INTERVAL",
                "-1-2 3 -1:0:0.500000",
            ),
        ] {
            let expected = (json!({ "type": name }), json!({ "value": text }));
            assert_eq!(sent(value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn g13_an_empty_array_has_its_element_type() {
        let field = Field::new("a", DataType::Int64, true);
        let structs = DataType::Struct(Fields::from(vec![field]));
        let empty = ScalarValue::List(ScalarValue::new_list(&[], &structs, true));
        let (parameter_type, value) = sent(empty);
        assert_eq!(
            parameter_type,
            json!({"type": "ARRAY", "arrayType": {"type": "STRUCT",
                "structTypes": [{"name": "a", "type": {"type": "INT64"}}]}})
        );
        assert_eq!(value, json!({"arrayValues": []}));
        let list = ScalarValue::List(Arc::new(
            datafusion::arrow::array::ListArray::from_iter_primitive::<Int64Type, _, _>([Some([
                Some(1),
                None,
            ])]),
        ));
        assert_eq!(
            sent(list).1,
            json!({"arrayValues": [{"value": "1"}, {"value": null}]})
        );
    }

    #[test]
    fn a_struct_is_named_parameters() {
        let value = ScalarStructBuilder::new()
            .with_scalar(
                Field::new("least", DataType::Int64, true),
                ScalarValue::from(5_i64),
            )
            .with_scalar(
                Field::new("s", DataType::Utf8, true),
                ScalarValue::Utf8(None),
            )
            .build()
            .unwrap();
        let named = named(&value).unwrap().unwrap();
        assert_eq!(named[0].0, "least");
        assert_eq!(named[1].1.parameter_value, json!({"value": null}));
        assert!(super::named(&ScalarValue::from(1_i64)).is_none());
    }

    #[test]
    fn what_bigquery_cannot_hold_is_refused() {
        for value in [
            ScalarValue::Null,
            ScalarValue::UInt64(Some(u64::MAX)),
            ScalarValue::Date32(Some(i32::MAX)),
            ScalarValue::TimestampNanosecond(Some(1), None),
            ScalarValue::Decimal256(None, 76, 39),
            ScalarValue::DurationSecond(Some(1)),
        ] {
            assert!(parameter(&value).is_err(), "{value}");
        }
    }
}
