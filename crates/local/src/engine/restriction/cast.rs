//! CAST and SAFE_CAST, and the conversions that coercion makes.

use arrow::datatypes::{
    Date32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType, i256,
};

use super::bind::Bound;
use super::coerce::{coerce, fold};
use super::datum::{Datum, Rows, each_row};
use super::error::{failed, syntax};
use super::expr::{Expr, Kind, Written};
use super::types::Type;
use super::wide;
use crate::error::Result;
use crate::value::civil::{
    DAY_MICROS, days_of, parse_date, parse_datetime, parse_time, write_date, write_datetime,
    write_time,
};
use crate::value::decimal::{
    Excess, parse_bignumeric, parse_numeric, write_decimal128, write_decimal256,
};
use crate::value::interval::{parse_interval, write_interval};
use crate::value::scalar::{parse_bool, parse_float64, parse_int64};
use crate::value::timestamp::{Zone, parse_timestamp, write_timestamp};

/// Whether CAST from one type to the other exists.
///
/// Source: the table of the conversion-rules reference.
fn exists(from: &Type, to: &Type) -> bool {
    use Type::{
        Bignumeric, Bool, Bytes, Date, Datetime, Float64, Int64, Interval, Numeric, Text, Time,
        Timestamp,
    };
    if from == to {
        return true;
    }
    match from {
        Int64 => matches!(to, Bool | Numeric | Bignumeric | Float64 | Text),
        Numeric | Bignumeric | Float64 => {
            matches!(to, Int64 | Numeric | Bignumeric | Float64 | Text)
        }
        Bool => matches!(to, Int64 | Text),
        Text => matches!(
            to,
            Bool | Int64
                | Numeric
                | Bignumeric
                | Float64
                | Bytes
                | Date
                | Datetime
                | Time
                | Timestamp
                | Interval
        ),
        Bytes => matches!(to, Text),
        Date => matches!(to, Text | Datetime | Timestamp),
        Datetime => matches!(to, Text | Date | Time | Timestamp),
        Time | Interval => matches!(to, Text),
        Timestamp => matches!(to, Text | Date | Datetime | Time),
        _ => false,
    }
}

/// Types a cast; `safe` makes failures NULL.
pub(super) fn bind(at: usize, value: Expr, to: &Type, safe: bool) -> Bound<Expr> {
    if value.written == Written::Null {
        return coerce(value, to)
            .unwrap_or_else(|| Err(syntax(at, "NULL has every type")))
            .map(|mut e| {
                e.written = Written::Plain;
                e
            });
    }
    if !exists(&value.ty, to) {
        return Err(syntax(
            at,
            format!("Invalid cast from {} to {to}", value.ty),
        ));
    }
    let ignores_case = value.ignores_case && *to == Type::Text;
    let fallible = value.fallible;
    let (kind, fails) = if safe {
        (Kind::SafeCast(Box::new(value)), fallible)
    } else {
        (Kind::Cast(Box::new(value)), true)
    };
    let mut expr = Expr::new(at, to.clone(), kind).failing(fails);
    expr.ignores_case = ignores_case;
    Ok(fold(expr))
}

/// Evaluates SAFE_CAST: NULL where [`cast`] would fail.
pub(super) fn safe_cast(value: &Datum, from: &Type, to: &Type, rows: &Rows) -> Result<Datum> {
    each_row(std::slice::from_ref(value), to, rows, |one, rows| {
        cast(&one[0], from, to, rows)
    })
}

/// Evaluates CAST.
pub(super) fn cast(value: &Datum, from: &Type, to: &Type, rows: &Rows) -> Result<Datum> {
    if from == to {
        return Ok(value.clone());
    }
    let argument = [value];
    match (from, to) {
        (_, Type::Text) => to_text(value, from, rows),
        (Type::Text, _) => from_text(value, to, rows),
        (Type::Bool, Type::Int64) => {
            let view = value.booleans();
            rows.primitive::<Int64Type>(&argument, |i| Ok(view.get(i).map(i64::from)))
        }
        (Type::Int64, Type::Bool) => {
            let view = value.primitive::<Int64Type>();
            rows.booleans(&argument, |i| Ok(view.get(i).map(|v| v != 0)))
        }
        (Type::Int64, Type::Float64) => {
            let view = value.primitive::<Int64Type>();
            rows.primitive::<Float64Type>(&argument, |i| Ok(view.get(i).map(|v| v as f64)))
        }
        (Type::Int64, Type::Numeric | Type::Bignumeric) => {
            let view = value.primitive::<Int64Type>();
            let scale = scale(to);
            rows.scaled(to, &argument, |i| {
                Ok(view
                    .get(i)
                    .and_then(|v| wide::rescale(i256::from_i128(i128::from(v)), 0, scale)))
            })
        }
        (Type::Float64, Type::Int64) => {
            let view = value.primitive::<Float64Type>();
            rows.primitive::<Int64Type>(&argument, |i| view.get(i).map(float_to_int).transpose())
        }
        (Type::Float64, Type::Numeric | Type::Bignumeric) => {
            let view = value.primitive::<Float64Type>();
            rows.scaled(to, &argument, |i| {
                view.get(i).map(|v| float_to_decimal(v, to)).transpose()
            })
        }
        (Type::Numeric | Type::Bignumeric, Type::Float64) => {
            let scale = scale(from);
            rows.primitive::<Float64Type>(&argument, |i| {
                Ok(value.scaled(i).map(|v| decimal_to_float(v, scale)))
            })
        }
        (Type::Numeric | Type::Bignumeric, Type::Int64) => {
            let scale = scale(from);
            rows.primitive::<Int64Type>(&argument, |i| {
                value
                    .scaled(i)
                    .map(|v| {
                        wide::rescale(v, scale, 0)
                            .and_then(|v| v.to_i128())
                            .and_then(|v| i64::try_from(v).ok())
                            .ok_or_else(|| failed("int64 out of range in a cast of a decimal"))
                    })
                    .transpose()
            })
        }
        (Type::Numeric | Type::Bignumeric, Type::Numeric | Type::Bignumeric) => {
            let (a, b) = (scale(from), scale(to));
            rows.scaled(to, &argument, |i| {
                value
                    .scaled(i)
                    .map(|v| wide::rescale(v, a, b).ok_or_else(|| failed("numeric overflow")))
                    .transpose()
            })
        }
        (Type::Date, Type::Datetime | Type::Timestamp) => {
            let view = value.primitive::<Date32Type>();
            rows.primitive::<TimestampMicrosecondType>(&argument, |i| {
                Ok(view.get(i).map(|d| i64::from(d) * DAY_MICROS))
            })
        }
        (Type::Datetime | Type::Timestamp, Type::Datetime | Type::Timestamp) => Ok(value.clone()),
        (Type::Datetime | Type::Timestamp, Type::Date) => {
            let view = value.primitive::<TimestampMicrosecondType>();
            rows.primitive::<Date32Type>(&argument, |i| Ok(view.get(i).map(days_of)))
        }
        (Type::Datetime | Type::Timestamp, Type::Time) => {
            let view = value.primitive::<TimestampMicrosecondType>();
            rows.primitive::<Time64MicrosecondType>(&argument, |i| {
                Ok(view.get(i).map(|m| m.rem_euclid(DAY_MICROS)))
            })
        }
        _ => Err(failed(format_args!("Invalid cast from {from} to {to}"))),
    }
}

fn scale(ty: &Type) -> u32 {
    if *ty == Type::Numeric { 9 } else { 38 }
}

/// Rounds half away from zero.
fn float_to_int(value: f64) -> Result<i64> {
    let rounded = value.round();
    // 2^63 is a FLOAT64 and is not an INT64; −2^63 is both.
    if rounded.is_finite()
        && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded)
    {
        return Ok(rounded as i64);
    }
    Err(failed(format_args!(
        "Illegal conversion of non-finite or out-of-range floating point number to an integer: {value}"
    )))
}

fn float_to_decimal(value: f64, to: &Type) -> Result<i256> {
    if !value.is_finite() {
        return Err(failed(format_args!(
            "Illegal conversion of non-finite floating point number to {to}: {value}"
        )));
    }
    // All digits of the value that can decide rounding to 38 places.
    let exact = format!("{value:.80}");
    let parsed = match to {
        Type::Numeric => parse_numeric(&exact, Excess::Round).map(i256::from_i128),
        _ => parse_bignumeric(&exact, Excess::Round),
    };
    parsed.map_err(|_| failed(format_args!("{to} out of range: {value}")))
}

/// The nearest FLOAT64.
fn decimal_to_float(value: i256, scale: u32) -> f64 {
    const EXACT: i128 = 1 << 53;
    if let Some(small) = value.to_i128()
        && (-EXACT..=EXACT).contains(&small)
        && scale <= 22
    {
        // Both operands are exact, so the quotient is rounded once.
        return small as f64 / 10_f64.powi(scale.cast_signed());
    }
    let mut text = String::new();
    write_decimal256(value, i8::try_from(scale).unwrap_or(38), &mut text);
    text.parse().unwrap_or(f64::NAN)
}

/// The shortest digits that read back, without `.0` on whole numbers.
fn write_float(value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("nan");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "inf" } else { "-inf" });
    } else if value == 0.0 {
        out.push('0');
    } else {
        let magnitude = value.abs();
        if (1e-5..1e15).contains(&magnitude) {
            out.push_str(&value.to_string());
        } else {
            let text = format!("{value:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(e) => ('-', e),
                None => ('+', exponent),
            };
            out.push_str(&format!("{digits}e{sign}{exponent:0>2}"));
        }
    }
}

fn to_text(value: &Datum, from: &Type, rows: &Rows) -> Result<Datum> {
    let argument = [value];
    let written = |write: &dyn Fn(&mut String)| {
        let mut text = String::new();
        write(&mut text);
        text
    };
    match from {
        Type::Int64 => {
            let view = value.primitive::<Int64Type>();
            rows.text(&argument, |i| Ok(view.get(i).map(|v| v.to_string())))
        }
        Type::Bool => {
            let view = value.booleans();
            rows.text(&argument, |i| Ok(view.get(i).map(|v| v.to_string())))
        }
        Type::Float64 => {
            let view = value.primitive::<Float64Type>();
            rows.text(&argument, |i| {
                Ok(view.get(i).map(|v| written(&|out| write_float(v, out))))
            })
        }
        Type::Numeric | Type::Bignumeric => {
            let scale = if *from == Type::Numeric { 9 } else { 38 };
            rows.text(&argument, |i| {
                Ok(value.scaled(i).map(|v| {
                    written(&|out| match v.to_i128() {
                        Some(small) if scale == 9 => write_decimal128(small, scale, out),
                        _ => write_decimal256(v, scale, out),
                    })
                }))
            })
        }
        Type::Bytes => {
            let view = value.bytes();
            rows.text(&argument, |i| {
                view.get(i)
                    .map(|b| {
                        String::from_utf8(b.to_vec())
                            .map_err(|_| failed("Invalid UTF-8 in a cast of BYTES to STRING"))
                    })
                    .transpose()
            })
        }
        Type::Date => {
            let view = value.primitive::<Date32Type>();
            rows.text(&argument, |i| {
                Ok(view.get(i).map(|v| written(&|out| write_date(v, out))))
            })
        }
        Type::Time => {
            let view = value.primitive::<Time64MicrosecondType>();
            rows.text(&argument, |i| {
                Ok(view.get(i).map(|v| written(&|out| write_time(v, out))))
            })
        }
        Type::Datetime => {
            let view = value.primitive::<TimestampMicrosecondType>();
            rows.text(&argument, |i| {
                Ok(view
                    .get(i)
                    .map(|v| written(&|out| write_datetime(v, ' ', out))))
            })
        }
        Type::Timestamp => {
            let view = value.primitive::<TimestampMicrosecondType>();
            rows.text(&argument, |i| {
                Ok(view.get(i).map(|v| written(&|out| write_timestamp(v, out))))
            })
        }
        Type::Interval => {
            let view = value.primitive::<IntervalMonthDayNanoType>();
            rows.text(&argument, |i| {
                Ok(view.get(i).map(|v| written(&|out| write_interval(v, out))))
            })
        }
        other => Err(failed(format_args!("Invalid cast from {other} to STRING"))),
    }
}

fn from_text(value: &Datum, to: &Type, rows: &Rows) -> Result<Datum> {
    let view = value.text();
    let argument = [value];
    match to {
        Type::Bool => rows.booleans(&argument, |i| {
            view.get(i)
                .map(|t| parse_bool(t).map_err(failed))
                .transpose()
        }),
        Type::Int64 => rows.primitive::<Int64Type>(&argument, |i| {
            view.get(i)
                .map(|t| parse_int64(t).map_err(failed))
                .transpose()
        }),
        Type::Float64 => rows.primitive::<Float64Type>(&argument, |i| {
            view.get(i)
                .map(|t| parse_float64(t).map_err(failed))
                .transpose()
        }),
        Type::Numeric => rows.scaled(to, &argument, |i| {
            view.get(i)
                .map(|t| {
                    parse_numeric(t, Excess::Round)
                        .map(i256::from_i128)
                        .map_err(failed)
                })
                .transpose()
        }),
        Type::Bignumeric => rows.scaled(to, &argument, |i| {
            view.get(i)
                .map(|t| parse_bignumeric(t, Excess::Round).map_err(failed))
                .transpose()
        }),
        Type::Bytes => rows.bytes(&argument, |i| {
            Ok(view.get(i).map(|t| t.as_bytes().to_vec()))
        }),
        Type::Date => rows.primitive::<Date32Type>(&argument, |i| {
            view.get(i)
                .map(|t| parse_date(t).map_err(failed))
                .transpose()
        }),
        Type::Time => rows.primitive::<Time64MicrosecondType>(&argument, |i| {
            view.get(i)
                .map(|t| parse_time(t).map_err(failed))
                .transpose()
        }),
        Type::Datetime => rows.primitive::<TimestampMicrosecondType>(&argument, |i| {
            view.get(i)
                .map(|t| parse_datetime(t).map_err(failed))
                .transpose()
        }),
        Type::Timestamp => rows.primitive::<TimestampMicrosecondType>(&argument, |i| {
            view.get(i)
                .map(|t| parse_timestamp(t, Zone::UTC).map_err(failed))
                .transpose()
        }),
        Type::Interval => rows.primitive::<IntervalMonthDayNanoType>(&argument, |i| {
            view.get(i)
                .map(|t| parse_interval(t).map_err(failed))
                .transpose()
        }),
        other => Err(failed(format_args!("Invalid cast from STRING to {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_text() {
        for (value, want) in [
            (1.0, "1"),
            (-0.0, "0"),
            (1.5, "1.5"),
            (1e15, "1e+15"),
            (123456789012345.0, "123456789012345"),
            (1e-5, "0.00001"),
            (1e-7, "1e-07"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (0.1, "0.1"),
        ] {
            let mut text = String::new();
            write_float(value, &mut text);
            assert_eq!(text, want);
        }
    }

    #[test]
    fn float_and_decimal_conversions() {
        let numeric = |v: f64| float_to_decimal(v, &Type::Numeric).map(|v| v.to_i128().unwrap());
        assert_eq!(numeric(0.1).unwrap(), 100_000_000);
        assert_eq!(numeric(2.5e-10).unwrap(), 0);
        assert_eq!(numeric(7.5e-10).unwrap(), 1);
        assert!(numeric(1e30).is_err());
        assert!(numeric(f64::NAN).is_err());
        assert_eq!(decimal_to_float(i256::from_i128(100_000_000), 9), 0.1);
        assert_eq!(float_to_int(2.5).unwrap(), 3);
        assert_eq!(float_to_int(-2.5).unwrap(), -3);
        assert_eq!(float_to_int(i64::MIN as f64).unwrap(), i64::MIN);
        assert!(float_to_int(-(i64::MIN as f64)).is_err());
    }
}
