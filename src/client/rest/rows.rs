//! Rows of the REST interface as Arrow, exactly as the Storage Read API would
//! have delivered them.
//!
//! A row is `{"f": [{"v": …}, …]}`; every scalar is text, a RECORD is a row again
//! and an array is a list of `{"v": …}`
//! (<https://cloud.google.com/bigquery/docs/reference/rest/v2/tabledata/list>).

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
    Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray, RecordBatch,
    RecordBatchOptions, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, IntervalMonthDayNano, SchemaRef, TimeUnit, i256};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::types::{Field, FieldType, Mode, TableSchema};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// The columns of `schema`, found by name among `table`'s, of some rows.
///
/// # Errors
/// [`crate::error::ErrorKind::Data`] naming the column and row whose value does not
/// have the form of its type.
pub fn decode(rows: &[Value], table: &TableSchema, schema: &SchemaRef) -> Result<RecordBatch> {
    let cells = rows
        .iter()
        .enumerate()
        .map(|(row, value)| {
            let cells = fields_of(value).filter(|cells| cells.len() == table.fields.len());
            cells.ok_or_else(|| {
                Error::data(format!("row {row} does not have one value for each column"))
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut columns = Vec::with_capacity(schema.fields().len());
    for arrow in schema.fields() {
        let (position, field) = table
            .fields
            .iter()
            .enumerate()
            .find(|(_, field)| field.name == *arrow.name())
            .ok_or_else(|| Error::data(format!("the result has no column '{}'", arrow.name())))?;
        let values: Vec<_> = cells
            .iter()
            .map(|cells| content(&cells[position]))
            .collect();
        let column = column(&values, field, arrow.data_type())
            .map_err(|error| error.with_context(format!("column '{}'", field.name)))?;
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|error| {
        Error::data(format!("the rows do not fit their columns: {error}")).with_source(error)
    })
}

fn fields_of(value: &Value) -> Option<&Vec<Value>> {
    value.get("f")?.as_array()
}

/// What a cell holds; None for NULL.
fn content(cell: &Value) -> Option<&Value> {
    cell.get("v").filter(|value| !value.is_null())
}

/// Values of a field, of which some may be arrays.
fn column(values: &[Option<&Value>], field: &Field, to: &DataType) -> Result<ArrayRef> {
    if field.mode != Mode::Repeated {
        return scalars(values, field, to);
    }
    let DataType::List(child) = to else {
        return Err(mismatch(field, to));
    };
    let mut elements = Vec::new();
    let mut lengths = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        let list = match value {
            None => &[][..],
            Some(value) => value
                .as_array()
                .ok_or_else(|| wrong(row, "an array"))?
                .as_slice(),
        };
        lengths.push(list.len());
        elements.extend(list.iter().map(content));
    }
    let values = scalars(&elements, field, child.data_type())?;
    ListArray::try_new(
        Arc::clone(child),
        OffsetBuffer::from_lengths(lengths),
        values,
        None,
    )
    .map(|array| Arc::new(array) as ArrayRef)
    .map_err(|error| Error::data(error.to_string()))
}

fn scalars(values: &[Option<&Value>], field: &Field, to: &DataType) -> Result<ArrayRef> {
    if let FieldType::Struct(fields) = &field.field_type {
        return structs(values, fields, field, to);
    }
    let texts = values
        .iter()
        .enumerate()
        .map(|(row, value)| match value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(wrong(row, "a text")),
        })
        .collect::<Result<Vec<_>>>()?;
    if let FieldType::Range(element) = &field.field_type {
        return ranges(&texts, element.field_type(), to);
    }
    Ok(match (&field.field_type, to) {
        (FieldType::Int64, DataType::Int64) => {
            Arc::new(Int64Array::from(each(&texts, "a whole number", |text| {
                text.parse().ok()
            })?))
        }
        (FieldType::Float64, DataType::Float64) => {
            Arc::new(Float64Array::from(each(&texts, "a number", |text| {
                text.parse().ok()
            })?))
        }
        (FieldType::Bool, DataType::Boolean) => {
            Arc::new(BooleanArray::from(each(&texts, "true or false", |text| {
                text.to_ascii_lowercase().parse().ok()
            })?))
        }
        (FieldType::String | FieldType::Geography | FieldType::Json, DataType::Utf8)
        | (FieldType::Timestamp(_), DataType::Utf8) => Arc::new(StringArray::from(texts)),
        (FieldType::Bytes, DataType::Binary) => {
            let bytes = each(&texts, "base64", |text| BASE64_STANDARD.decode(text).ok())?;
            Arc::new(BinaryArray::from_iter(bytes))
        }
        (FieldType::Numeric(_), DataType::Decimal128(precision, scale)) => {
            let values = each(&texts, "a decimal number", |text| {
                decimal_digits(text, *scale)?.parse::<i128>().ok()
            })?;
            Arc::new(
                Decimal128Array::from(values)
                    .with_precision_and_scale(*precision, *scale)
                    .map_err(|error| Error::data(error.to_string()))?,
            )
        }
        (FieldType::BigNumeric(_), DataType::Decimal256(precision, scale)) => {
            let values = each(&texts, "a decimal number", |text| {
                i256::from_string(&decimal_digits(text, *scale)?)
            })?;
            Arc::new(
                Decimal256Array::from(values)
                    .with_precision_and_scale(*precision, *scale)
                    .map_err(|error| Error::data(error.to_string()))?,
            )
        }
        (FieldType::Date, DataType::Date32) => {
            Arc::new(Date32Array::from(each(&texts, "a date", date)?))
        }
        (FieldType::Time, DataType::Time64(TimeUnit::Microsecond)) => Arc::new(
            Time64MicrosecondArray::from(each(&texts, "a time of day", time)?),
        ),
        (FieldType::DateTime, DataType::Timestamp(TimeUnit::Microsecond, None)) => Arc::new(
            TimestampMicrosecondArray::from(each(&texts, "a date and time", |text| {
                civil(text)?.in_unit(MICROS_PER_SECOND)
            })?),
        ),
        (FieldType::Timestamp(_), DataType::Timestamp(TimeUnit::Microsecond, Some(zone))) => {
            Arc::new(
                TimestampMicrosecondArray::from(each(&texts, "an instant", |text| {
                    instant(text)?.in_unit(MICROS_PER_SECOND)
                })?)
                .with_timezone(Arc::clone(zone)),
            )
        }
        (FieldType::Timestamp(_), DataType::Timestamp(TimeUnit::Nanosecond, Some(zone))) => {
            Arc::new(
                TimestampNanosecondArray::from(each(&texts, "an instant", |text| {
                    instant(text)?.in_unit(1_000 * MICROS_PER_SECOND)
                })?)
                .with_timezone(Arc::clone(zone)),
            )
        }
        (FieldType::Interval, DataType::Interval(_)) => Arc::new(IntervalMonthDayNanoArray::from(
            each(&texts, "an interval", interval)?,
        )),
        _ => return Err(mismatch(field, to)),
    })
}

fn structs(
    values: &[Option<&Value>],
    fields: &[Field],
    field: &Field,
    to: &DataType,
) -> Result<ArrayRef> {
    let DataType::Struct(children) = to else {
        return Err(mismatch(field, to));
    };
    let mut rows = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        rows.push(match value {
            None => None,
            Some(value) => Some(
                fields_of(value)
                    .filter(|cells| cells.len() == fields.len())
                    .ok_or_else(|| wrong(row, "a record with all of its fields"))?,
            ),
        });
    }
    let mut arrays = Vec::with_capacity(children.len());
    for child in children {
        let (position, field) = fields
            .iter()
            .enumerate()
            .find(|(_, field)| field.name == *child.name())
            .ok_or_else(|| mismatch(field, to))?;
        let values: Vec<_> = rows
            .iter()
            .map(|row| row.and_then(|cells| content(&cells[position])))
            .collect();
        let array = column(&values, field, child.data_type())
            .map_err(|error| error.with_context(format!("field '{}'", field.name)))?;
        arrays.push(array);
    }
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    StructArray::try_new_with_length(children.clone(), arrays, nulls, values.len())
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(|error| Error::data(error.to_string()))
}

/// `[start, end)`, an open end written `UNBOUNDED`.
fn ranges(texts: &[Option<&str>], element: FieldType, to: &DataType) -> Result<ArrayRef> {
    let element = Field::new("bound", element, Mode::Nullable);
    let DataType::Struct(children) = to else {
        return Err(mismatch(&element, to));
    };
    let bounds = each(texts, "a range", |text| {
        let inner = text.strip_prefix('[')?.strip_suffix(')')?;
        inner.split_once(", ")
    })?;
    let bound = |pick: fn(&(&str, &str)) -> String| -> Vec<Option<Value>> {
        bounds
            .iter()
            .map(|range| {
                let text = pick(range.as_ref()?);
                (text != "UNBOUNDED").then_some(Value::String(text))
            })
            .collect()
    };
    let mut arrays = Vec::with_capacity(2);
    for (child, values) in children.iter().zip([
        bound(|range| range.0.to_string()),
        bound(|range| range.1.to_string()),
    ]) {
        let values: Vec<_> = values.iter().map(Option::as_ref).collect();
        arrays.push(scalars(&values, &element, child.data_type())?);
    }
    let nulls: NullBuffer = texts.iter().map(Option::is_some).collect();
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    StructArray::try_new_with_length(children.clone(), arrays, nulls, texts.len())
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(|error| Error::data(error.to_string()))
}

/// Every text that is there, read by `read`.
fn each<'a, T>(
    texts: &[Option<&'a str>],
    form: &str,
    read: impl Fn(&'a str) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    texts
        .iter()
        .enumerate()
        .map(|(row, text)| match text {
            None => Ok(None),
            Some(text) => read(text).map(Some).ok_or_else(|| wrong(row, form)),
        })
        .collect()
}

/// The value itself is data of the user's and not shown.
fn wrong(row: usize, form: &str) -> Error {
    Error::data(format!("the value of row {row} is not {form}"))
}

fn mismatch(field: &Field, to: &DataType) -> Error {
    Error::data(format!("{} does not become {to}", field.field_type))
}

/// The digits of a decimal number at `scale`, as a whole number. None if it has
/// more digits after the point than that.
fn decimal_digits(text: &str, scale: i8) -> Option<String> {
    let scale = usize::try_from(scale).ok()?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let kept = fraction.trim_end_matches('0');
    if (whole.is_empty() && fraction.is_empty())
        || !all_digits(whole)
        || !all_digits(fraction)
        || kept.len() > scale
    {
        return None;
    }
    let number = format!("{whole}{kept}{:0<1$}", "", scale - kept.len());
    let number = number.trim_start_matches('0');
    Some(match number {
        "" => "0".to_string(),
        number => format!("{sign}{number}"),
    })
}

fn date(text: &str) -> Option<i32> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok()
}

fn time(text: &str) -> Option<i64> {
    let time = NaiveTime::parse_from_str(text, "%H:%M:%S%.f").ok()?;
    let seconds = i64::from(time.num_seconds_from_midnight());
    Some(seconds * MICROS_PER_SECOND + i64::from(time.nanosecond() / 1_000))
}

/// Whole seconds since the epoch and the fraction after them.
struct Moment {
    seconds: i64,
    picos: u64,
}

impl Moment {
    /// As a number of parts of a second, of which there are `per_second`.
    fn in_unit(&self, per_second: i64) -> Option<i64> {
        let parts = self.picos / (1_000_000_000_000 / u64::try_from(per_second).ok()?);
        self.seconds
            .checked_mul(per_second)?
            .checked_add(i64::try_from(parts).ok()?)
    }
}

/// `2020-10-01T12:00:00[.ffffff]`.
fn civil(text: &str) -> Option<Moment> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 12 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let time = NaiveDateTime::parse_from_str(seconds, "%Y-%m-%dT%H:%M:%S").ok()?;
    Some(Moment {
        seconds: time.and_utc().timestamp(),
        picos: format!("{fraction:0<12}").parse().ok()?,
    })
}

/// `2020-10-01T12:00:00.ffffffffffffZ`.
fn instant(text: &str) -> Option<Moment> {
    civil(text.strip_suffix('Z')?)
}

/// `1-2 3 4:5:6.789`: years and months, days, and time, each with its sign.
fn interval(text: &str) -> Option<IntervalMonthDayNano> {
    let mut parts = text.split(' ');
    let (months, days, time) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let signed = |text: &str| -> (i64, String) {
        match text.strip_prefix('-') {
            Some(rest) => (-1, rest.to_string()),
            None => (1, text.to_string()),
        }
    };
    let (sign, months) = signed(months);
    let (years, months) = months.split_once('-')?;
    let months =
        sign * (years.parse::<i64>().ok()?.checked_mul(12)? + months.parse::<i64>().ok()?);
    let (sign, time) = signed(time);
    let mut clock = time.split(':');
    let (hours, minutes, seconds) = (clock.next()?, clock.next()?, clock.next()?);
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    if clock.next().is_some() || fraction.len() > 9 {
        return None;
    }
    let seconds = hours.parse::<i64>().ok()?.checked_mul(3600)?
        + minutes.parse::<i64>().ok()?.checked_mul(60)?
        + seconds.parse::<i64>().ok()?;
    let nanos = format!("{fraction:0<9}").parse::<i64>().ok()?;
    Some(IntervalMonthDayNano::new(
        i32::try_from(months).ok()?,
        days.parse().ok()?,
        sign * seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?,
    ))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Decimal128Type, Decimal256Type, Int64Type};
    use serde_json::json;

    use super::*;
    use crate::error::ErrorKind;
    use crate::options::TimestampPrecision;
    use crate::types::arrow::table_schema;
    use crate::types::{DecimalParameters, RangeElement, TimestampDigits};

    fn one(field_type: FieldType, value: Value) -> Result<ArrayRef> {
        let field = Field::new("c", field_type, Mode::Nullable);
        let table = TableSchema {
            fields: vec![field],
        };
        let schema = table_schema(&table, TimestampPrecision::Nanos);
        let batch = decode(&[json!({"f": [{"v": value}]})], &table, &schema)?;
        Ok(Arc::clone(batch.column(0)))
    }

    fn shown(field_type: FieldType, value: &str) -> String {
        let array = one(field_type, json!(value)).unwrap();
        arrow::util::display::array_value_to_string(&array, 0).unwrap()
    }

    #[test]
    fn every_type_at_its_ends() {
        let numeric = FieldType::Numeric(None);
        let big = FieldType::BigNumeric(None);
        let twelve = FieldType::Timestamp(TimestampDigits::Twelve);
        let six = FieldType::Timestamp(TimestampDigits::Six);
        for (field_type, text, expected) in [
            (
                FieldType::Int64,
                "-9223372036854775808",
                "-9223372036854775808",
            ),
            (FieldType::Float64, "-Infinity", "-inf"),
            (FieldType::Float64, "NaN", "NaN"),
            (FieldType::Float64, "1.5E300", "1.5e300"),
            (FieldType::Bool, "true", "true"),
            (FieldType::Bytes, "AP8=", "00ff"),
            (numeric.clone(), "-0.000000001", "-0.000000001"),
            (
                numeric,
                "99999999999999999999999999999.999999999",
                "99999999999999999999999999999.999999999",
            ),
            (
                big.clone(),
                "99999999999999999999999999999999999999.99999999999999999999999999999999999999",
                "99999999999999999999999999999999999999.99999999999999999999999999999999999999",
            ),
            (FieldType::Date, "0001-01-01", "0001-01-01"),
            (FieldType::Date, "9999-12-31", "9999-12-31"),
            (FieldType::Time, "23:59:59.999999", "23:59:59.999999"),
            (
                FieldType::DateTime,
                "0001-01-01T00:00:00.000001",
                "0001-01-01T00:00:00.000001",
            ),
            (
                six,
                "9999-12-31T23:59:59.999999000000Z",
                "9999-12-31T23:59:59.999999Z",
            ),
            (
                twelve,
                "1969-12-31T23:59:59.123456789999Z",
                "1969-12-31T23:59:59.123456789Z",
            ),
            (
                FieldType::Interval,
                "-0-3 1 -1:2:3.5",
                "-3 mons 1 days -1 hours -2 mins -3.500000000 secs",
            ),
            (
                FieldType::Range(RangeElement::Date),
                "[UNBOUNDED, 2024-01-01)",
                "{start: , end: 2024-01-01}",
            ),
        ] {
            assert_eq!(shown(field_type, text), expected, "{text}");
        }
        // The ends of BIGNUMERIC have a digit more than Arrow prints.
        let least =
            "-578960446186580977117854925043439539266.34992332820282019728792003956564819968";
        let array = one(big, json!(least)).unwrap();
        assert_eq!(array.as_primitive::<Decimal256Type>().value(0), i256::MIN);
    }

    #[test]
    fn parameters_of_decimals_are_kept() {
        let parameters = Some(DecimalParameters {
            precision: 5,
            scale: 2,
        });
        let array = one(FieldType::Numeric(parameters), json!("1.5")).unwrap();
        assert_eq!(array.as_primitive::<Decimal128Type>().value(0), 150);
        let error = one(FieldType::Numeric(parameters), json!("1.555")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data);
    }

    #[test]
    fn nested_values_keep_null_apart_from_empty() {
        let table = TableSchema {
            fields: vec![Field::new(
                "s",
                FieldType::Struct(vec![
                    Field::new("a", FieldType::Int64, Mode::Nullable),
                    Field::new("l", FieldType::String, Mode::Repeated),
                ]),
                Mode::Nullable,
            )],
        };
        let schema = table_schema(&table, TimestampPrecision::Micros);
        let rows = [
            json!({"f": [{"v": null}]}),
            json!({"f": [{"v": {"f": [{"v": null}, {"v": []}]}}]}),
            json!({"f": [{"v": {"f": [{"v": "7"}, {"v": [{"v": "x"}, {"v": ""}]}]}}]}),
        ];
        let batch = decode(&rows, &table, &schema).unwrap();
        let column = batch.column(0).as_struct();
        assert!(column.is_null(0) && column.is_valid(1));
        assert!(column.column(0).is_null(1));
        assert_eq!(column.column(0).as_primitive::<Int64Type>().value(2), 7);
        let lists = column.column(1).as_list::<i32>();
        assert_eq!((lists.value_length(1), lists.value_length(2)), (0, 2));
    }

    #[test]
    fn what_has_another_form_is_an_error_with_column_and_row() {
        for (field_type, value) in [
            (FieldType::Int64, json!("1.5")),
            (FieldType::Int64, json!(7)),
            (FieldType::Bytes, json!("*")),
            (FieldType::Date, json!("10000-01-01")),
            (FieldType::Timestamp(TimestampDigits::Six), json!("1.5E9")),
            (FieldType::Interval, json!("1 2 3")),
            (FieldType::Numeric(None), json!("1e5")),
            (FieldType::Range(RangeElement::Date), json!("2024-01-01")),
        ] {
            let error = one(field_type, value.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{value}");
            assert!(error.to_string().contains("column 'c'"), "{error}");
            assert!(error.to_string().contains("row 0"), "{error}");
        }
        let table = TableSchema::default();
        let schema = table_schema(&table, TimestampPrecision::Micros);
        assert!(decode(&[json!([])], &table, &schema).is_err());
    }
}
