//! CAST, SAFE_CAST and implicit coercion.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result as DFResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature as DFSignature, Volatility,
};
use num_bigint::BigInt;

use super::CastMode;
use super::cast_format;
use super::civil::{self, Zone};
use super::decimal::{self, DecimalKind};
use super::interval;
use super::scalar::{Input, answer, external};
use super::text;
use super::types::SqlType;
use super::value::{Answer, Value, fail};
use crate::error::{Result, ServiceError};
use crate::schema::Field;

/// The parameters of a parameterised type: `STRING(n)`, `BYTES(n)`,
/// `NUMERIC(p, s)`, `BIGNUMERIC(p, s)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum TypeParameters {
    /// Characters of a STRING or bytes of BYTES.
    MaxLength(i64),
    /// Precision and scale.
    Decimal(i64, i64),
}

/// See [`super::cast`].
pub(crate) fn bind(from: &Field, to: &Field, mode: CastMode) -> Result<Arc<ScalarUDF>> {
    let (from_type, target) = (SqlType::of_column(from), SqlType::of_column(to));
    check_cast(&from_type, &target)?;
    let parameters = match (&target, to.max_length, to.precision) {
        (SqlType::String | SqlType::Bytes, Some(n), _) => Some(TypeParameters::MaxLength(n)),
        (SqlType::Numeric | SqlType::BigNumeric, _, Some(p)) => {
            Some(TypeParameters::Decimal(p, to.scale.unwrap_or(0)))
        }
        _ => None,
    };
    Ok(Arc::new(ScalarUDF::new_from_impl(CastFunction {
        from: from_type,
        target,
        parameters,
        mode,
        signature: DFSignature::user_defined(Volatility::Immutable),
    })))
}

#[derive(Debug, Clone)]
struct CastFunction {
    from: SqlType,
    target: SqlType,
    parameters: Option<TypeParameters>,
    mode: CastMode,
    signature: DFSignature,
}

impl PartialEq for CastFunction {
    fn eq(&self, other: &Self) -> bool {
        (&self.from, &self.target, self.parameters, self.mode)
            == (&other.from, &other.target, other.parameters, other.mode)
    }
}

impl Eq for CastFunction {}

impl Hash for CastFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.from, &self.target, self.parameters, self.mode).hash(state);
    }
}

impl CastFunction {
    fn one(&self, row: &[Value<'_>]) -> Answer {
        if row.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        let options = Options {
            format: row.get(1).map(Value::str).transpose()?,
            zone: match row.get(2) {
                Some(name) => Zone::parse(name.str()?)?,
                None => Zone::UTC,
            },
        };
        cast_value(&row[0], &self.from, &self.target, &options)
            .and_then(|v| apply_parameters(v, self.parameters))
    }

    fn evaluate(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [ColumnarValue::Array(a)] = args.args.as_slice()
            && self.from == self.target
            && self.parameters.is_none()
            && *a.data_type() == self.target.to_arrow()
        {
            return Ok(ColumnarValue::Array(Arc::clone(a)));
        }
        let inputs = args
            .args
            .iter()
            .zip([&self.from, &SqlType::String, &SqlType::String])
            .map(|(value, t)| Input::new(value, t))
            .collect::<Result<Vec<_>>>()?;
        if inputs.is_empty() || inputs.len() != args.args.len() {
            return Err(ServiceError::internal("a cast has one to three arguments"));
        }
        let constant = inputs.iter().all(Input::is_constant);
        let rows = if constant { 1 } else { args.number_rows };
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            let row: Vec<Value<'_>> = inputs.iter().map(|input| input.get(i)).collect();
            out.push(match self.one(&row) {
                // A missing feature is no bad value.
                Err(e) if self.mode == CastMode::Safe && !is_refusal(&e) => Value::Null,
                other => other?,
            });
        }
        answer(&out, &self.target, constant)
    }
}

fn is_refusal(error: &ServiceError) -> bool {
    error
        .message
        .ends_with("is not supported by bigquery-local")
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &str {
        match self.mode {
            CastMode::Strict => "cast",
            CastMode::Safe => "safe_cast",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> DFResult<String> {
        // Two casts of one expression to different types are different columns.
        let args: Vec<String> = args.iter().map(|a| a.schema_name().to_string()).collect();
        Ok(format!(
            "{}({} AS {} {:?})",
            self.name(),
            args.join(", "),
            self.target,
            self.parameters
        ))
    }

    fn signature(&self) -> &DFSignature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DFResult<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> DFResult<DataType> {
        Ok(self.target.to_arrow())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> DFResult<FieldRef> {
        Ok(Arc::new(self.target.to_field(self.name())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DFResult<ColumnarValue> {
        self.evaluate(&args).map_err(external)
    }
}

/// The FORMAT and AT TIME ZONE clauses of a cast.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options<'a> {
    /// The format.
    pub(crate) format: Option<&'a str>,
    /// The zone, UTC when not given.
    pub(crate) zone: Zone,
}

/// Whether CAST converts between two types at all.
///
/// # Errors
/// `Invalid cast from A to B`.
pub(crate) fn check_cast(from: &SqlType, to: &SqlType) -> Result<()> {
    use SqlType as T;
    let ok = match (from, to) {
        (T::Null, _) => true,
        (a, b) if a == b => true,
        (T::Int64, T::Bool | T::Float64 | T::Numeric | T::BigNumeric | T::String) => true,
        (T::Float64 | T::Numeric | T::BigNumeric, b) => matches!(
            b,
            T::Int64 | T::Float64 | T::Numeric | T::BigNumeric | T::String
        ),
        (T::Bool, T::Int64 | T::String) => true,
        (T::String, b) => !matches!(
            b,
            T::Json | T::Geography | T::Array(_) | T::Struct(_) | T::Null
        ),
        (T::Bytes, T::String) => true,
        (T::Date, T::String | T::Datetime | T::Timestamp) => true,
        (T::Time, T::String) => true,
        (T::Datetime, T::String | T::Date | T::Time | T::Timestamp) => true,
        (T::Timestamp, T::String | T::Date | T::Time | T::Datetime) => true,
        (T::Interval, T::String) => true,
        (T::Range(_), T::String) => true,
        (T::Array(a), T::Array(b)) => return check_cast(a, b),
        (T::Struct(a), T::Struct(b)) if a.len() == b.len() => {
            for ((_, a), (_, b)) in a.iter().zip(b) {
                check_cast(a, b)?;
            }
            true
        }
        _ => false,
    };
    if ok {
        Ok(())
    } else {
        fail(format!("Invalid cast from {from} to {to}"))
    }
}

/// Converts one value.
pub(crate) fn cast_value(
    value: &Value<'_>,
    from: &SqlType,
    to: &SqlType,
    options: &Options<'_>,
) -> Answer {
    use SqlType as T;
    if value.is_null() {
        return Ok(Value::Null);
    }
    if let Some(format) = options.format {
        return cast_format::cast_with_format(value, from, to, format, options.zone);
    }
    if from == to {
        return Ok(value.to_owned_value());
    }
    match (from, to) {
        (_, T::String) => value_to_string(value, from, options.zone).map(Value::text),
        (T::String, _) => string_to(value.str()?, to, options.zone),
        (T::Array(a), T::Array(b)) => Ok(Value::Array(
            value
                .array()?
                .iter()
                .map(|v| cast_value(v, a, b, options))
                .collect::<Result<_>>()?,
        )),
        (T::Struct(a), T::Struct(b)) if a.len() == b.len() => Ok(Value::Struct(
            value
                .fields()?
                .iter()
                .zip(a.iter().zip(b))
                .map(|(v, ((_, a), (_, b)))| cast_value(v, a, b, options))
                .collect::<Result<_>>()?,
        )),
        (T::Int64, T::Bool) => Ok(Value::Bool(value.int()? != 0)),
        (T::Bool, T::Int64) => Ok(Value::Int64(i64::from(value.bool()?))),
        (T::Int64 | T::Float64 | T::Numeric | T::BigNumeric, _) => number_to(value, to),
        (T::Date, T::Datetime) => Ok(Value::Datetime(civil::join(value.date()?, 0))),
        (T::Date, T::Timestamp) => {
            timestamp(options.zone.to_instant(civil::join(value.date()?, 0)))
        }
        (T::Datetime, T::Date) => Ok(Value::Date(civil::split(value.datetime()?).0)),
        (T::Datetime, T::Time) => Ok(Value::Time(civil::split(value.datetime()?).1)),
        (T::Datetime, T::Timestamp) => timestamp(options.zone.to_instant(value.datetime()?)),
        (T::Timestamp, T::Date) => Ok(Value::Date(
            civil::split(options.zone.to_local(value.timestamp()?)).0,
        )),
        (T::Timestamp, T::Time) => Ok(Value::Time(
            civil::split(options.zone.to_local(value.timestamp()?)).1,
        )),
        (T::Timestamp, T::Datetime) => {
            let local = options.zone.to_local(value.timestamp()?);
            if (civil::MIN_MICROS..=civil::MAX_MICROS).contains(&local) {
                Ok(Value::Datetime(local))
            } else {
                fail(format!(
                    "Cannot convert timestamp to datetime in range: {}",
                    text::timestamp_text(value.timestamp()?, Zone::UTC)
                ))
            }
        }
        _ => {
            check_cast(from, to)?;
            Err(ServiceError::internal(format!(
                "no cast from {from} to {to}"
            )))
        }
    }
}

fn timestamp(micros: i64) -> Answer {
    if (civil::MIN_MICROS..=civil::MAX_MICROS).contains(&micros) {
        Ok(Value::Timestamp(micros))
    } else {
        fail(
            "Timestamp is out of supported range 0001-01-01 00:00:00 to 9999-12-31 23:59:59.999999",
        )
    }
}

fn number_to(value: &Value<'_>, to: &SqlType) -> Answer {
    let out_of_range = |shown: String| fail(format!("{} out of range: {shown}", lower(to)));
    match (value, to) {
        (Value::Int64(v), SqlType::Float64) => Ok(Value::Float64(*v as f64)),
        (Value::Int64(v), SqlType::Numeric) => Ok(Value::Numeric(i128::from(*v) * 1_000_000_000)),
        (Value::Int64(v), SqlType::BigNumeric) => {
            decimal::from_big(&(BigInt::from(*v) * decimal::ten(38)))
                .map(Value::BigNumeric)
                .ok_or_else(|| ServiceError::internal("an INT64 fits a BIGNUMERIC"))
        }
        (Value::Float64(v), SqlType::Int64) => {
            if !v.is_finite() {
                return fail(format!(
                    "Illegal conversion of non-finite floating point number to an integer: {}",
                    text::float_text(*v).to_lowercase()
                ));
            }
            let rounded = v.round();
            if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                Ok(Value::Int64(rounded as i64))
            } else {
                out_of_range(text::float_text(*v))
            }
        }
        (Value::Float64(v), SqlType::Numeric | SqlType::BigNumeric) => {
            if !v.is_finite() {
                return fail(format!(
                    "Illegal conversion of non-finite floating point number to {}: {}",
                    lower(to),
                    text::float_text(*v).to_lowercase()
                ));
            }
            let kind = kind_of(to);
            match kind.value(&decimal::from_float(*v, kind.scale())) {
                Some(v) => Ok(v),
                None => out_of_range(text::float_text(*v)),
            }
        }
        (Value::Numeric(_) | Value::BigNumeric(_), _) => {
            let kind = if matches!(value, Value::Numeric(_)) {
                DecimalKind::Numeric
            } else {
                DecimalKind::BigNumeric
            };
            let units = kind.units(value)?;
            let shown = || decimal::to_text(&units, kind.scale());
            match to {
                SqlType::Float64 => Ok(Value::Float64(decimal::to_float(&units, kind.scale()))),
                SqlType::Int64 => match i64::try_from(&decimal::rescale(&units, kind.scale(), 0)) {
                    Ok(v) => Ok(Value::Int64(v)),
                    Err(_) => out_of_range(shown()),
                },
                SqlType::Numeric | SqlType::BigNumeric => {
                    let wanted = kind_of(to);
                    match wanted.value(&decimal::rescale(&units, kind.scale(), wanted.scale())) {
                        Some(v) => Ok(v),
                        None => out_of_range(shown()),
                    }
                }
                _ => Err(ServiceError::internal(format!("no number is a {to}"))),
            }
        }
        _ => Err(ServiceError::internal(format!("no cast to {to}"))),
    }
}

fn kind_of(t: &SqlType) -> DecimalKind {
    match t {
        SqlType::BigNumeric => DecimalKind::BigNumeric,
        _ => DecimalKind::Numeric,
    }
}

fn lower(t: &SqlType) -> String {
    t.to_string().to_lowercase()
}

/// The text of a value as `CAST(x AS STRING)` gives it.
pub(crate) fn value_to_string(value: &Value<'_>, from: &SqlType, zone: Zone) -> Result<String> {
    Ok(match value {
        Value::Bool(v) => v.to_string(),
        Value::Int64(v) => v.to_string(),
        Value::Float64(v) => text::float_text(*v),
        Value::Numeric(_) | Value::BigNumeric(_) => decimal::value_text(value).unwrap_or_default(),
        Value::String(v) if *from == SqlType::String => v.to_string(),
        Value::Bytes(v) => match std::str::from_utf8(v) {
            Ok(s) => s.to_string(),
            Err(_) => return fail("Invalid cast of bytes to UTF8 string"),
        },
        Value::Date(v) => text::date_text(*v),
        Value::Time(v) => text::time_text(*v),
        Value::Datetime(v) => text::datetime_text(*v, ' '),
        Value::Timestamp(v) => text::timestamp_text(*v, zone),
        Value::Interval(v) => text::interval_text(*v),
        Value::Struct(bounds) if matches!(from, SqlType::Range(_)) => {
            let SqlType::Range(element) = from else {
                return Err(ServiceError::internal("a range has an element type"));
            };
            let bound = |v: &Value<'_>| {
                if v.is_null() {
                    Ok("UNBOUNDED".to_string())
                } else {
                    value_to_string(v, element, zone)
                }
            };
            match bounds.as_slice() {
                [start, end] => format!("[{}, {})", bound(start)?, bound(end)?),
                _ => return Err(ServiceError::internal("a range has two bounds")),
            }
        }
        _ => {
            check_cast(from, &SqlType::String)?;
            return Err(ServiceError::internal(format!("no text of {from}")));
        }
    })
}

/// A value of `to` from its text.
pub(crate) fn string_to(s: &str, to: &SqlType, zone: Zone) -> Answer {
    Ok(match to {
        SqlType::String => Value::text(s),
        SqlType::Bytes => Value::binary(s.as_bytes()),
        SqlType::Bool => match s.trim_matches(|c: char| c.is_ascii_whitespace()) {
            t if t.eq_ignore_ascii_case("true") => Value::Bool(true),
            t if t.eq_ignore_ascii_case("false") => Value::Bool(false),
            _ => return fail(format!("Bad bool value: {s}")),
        },
        SqlType::Int64 => match text::parse_int(s) {
            Some(v) => Value::Int64(v),
            None => return fail(format!("Bad int64 value: {s}")),
        },
        SqlType::Float64 => match text::parse_float(s) {
            Some(v) => Value::Float64(v),
            None => return fail(format!("Bad double value: {s}")),
        },
        SqlType::Numeric | SqlType::BigNumeric => {
            let kind = kind_of(to);
            match decimal::parse(s, kind.scale()).and_then(|u| kind.value(&u)) {
                Some(v) => v,
                None => return fail(format!("Invalid {to} value: {s}")),
            }
        }
        SqlType::Date => match text::parse_date(s) {
            Some(v) => Value::Date(v),
            None => return fail(format!("Invalid date: '{s}'")),
        },
        SqlType::Time => match text::parse_time(s) {
            Some(v) => Value::Time(v),
            None => return fail(format!("Invalid time string \"{s}\"")),
        },
        SqlType::Datetime => match text::parse_datetime(s) {
            Some(v) => Value::Datetime(v),
            None => return fail(format!("Invalid datetime string \"{s}\"")),
        },
        SqlType::Timestamp => match text::parse_timestamp(s, zone) {
            Some(v) => Value::Timestamp(v),
            None => return fail(format!("Invalid timestamp: '{s}'")),
        },
        SqlType::Interval => Value::Interval(interval::parse(s)?),
        SqlType::Range(element) => return parse_range(s, element, zone),
        _ => {
            check_cast(&SqlType::String, to)?;
            return Err(ServiceError::internal(format!("no {to} from text")));
        }
    })
}

/// A RANGE from `[start, end)`, where a bound may be UNBOUNDED or NULL.
fn parse_range(s: &str, element: &SqlType, zone: Zone) -> Answer {
    let inner = s
        .trim()
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(')'))
        .and_then(|t| t.split_once(','));
    let Some((start, end)) = inner else {
        return fail(format!(
            "Invalid RANGE value: \"{s}\"; a range reads \"[start, end)\""
        ));
    };
    let bound = |t: &str| {
        let t = t.trim();
        if t.eq_ignore_ascii_case("UNBOUNDED") || t.eq_ignore_ascii_case("NULL") {
            Ok(Value::Null)
        } else {
            string_to(t, element, zone)
        }
    };
    make_range(bound(start)?, bound(end)?)
}

/// A RANGE of two bounds.
pub(crate) fn make_range(start: Value<'static>, end: Value<'static>) -> Answer {
    if !start.is_null() && !end.is_null() && super::value::compare(&start, &end).is_ge() {
        return fail("Range start element must be smaller than range end element");
    }
    Ok(Value::Struct(vec![start, end]))
}

fn apply_parameters(value: Value<'static>, parameters: Option<TypeParameters>) -> Answer {
    match (parameters, &value) {
        (Some(TypeParameters::MaxLength(max)), Value::String(s)) => {
            let length = s.chars().count() as i64;
            if length > max {
                return fail(format!(
                    "STRING has maximum length of {max} but got a value with length of {length}"
                ));
            }
            Ok(value)
        }
        (Some(TypeParameters::MaxLength(max)), Value::Bytes(b)) => {
            let length = b.len() as i64;
            if length > max {
                return fail(format!(
                    "BYTES has maximum length of {max} but got a value with length of {length}"
                ));
            }
            Ok(value)
        }
        (
            Some(TypeParameters::Decimal(precision, scale)),
            Value::Numeric(_) | Value::BigNumeric(_),
        ) => {
            let kind = if matches!(value, Value::Numeric(_)) {
                DecimalKind::Numeric
            } else {
                DecimalKind::BigNumeric
            };
            let units = decimal::round(&kind.units(&value)?, kind.scale(), scale);
            let digits = u32::try_from((precision - scale).max(0)).unwrap_or(0) + kind.scale();
            if *units.magnitude() >= *decimal::ten(digits).magnitude() {
                return fail(format!(
                    "{} has precision {precision} and scale {scale} but got a value that is not in range of {}({precision}, {scale}): {}",
                    kind.sql_name(),
                    kind.sql_name(),
                    decimal::to_text(&units, kind.scale())
                ));
            }
            kind.checked(&units, || "CAST".into())
        }
        _ => Ok(value),
    }
}

#[cfg(test)]
#[path = "cast_tests.rs"]
mod tests;
