//! JSON text from structs and maps.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::faults::{Faults, Place};
use super::lists;
use super::numbers::{Digits, float, rescaled, unplanned};
use super::text::{rounded, text_at};
use super::times::civil_date;
use super::unpack::{plain, plain_type};
use crate::error::Result;

/// Maps of so many entries have their keys compared one by one, without a set.
const FEW_ENTRIES: usize = 16;

/// Says why values of a type have no JSON form, if they have none.
pub(super) fn check(data_type: &DataType) -> Result<(), String> {
    match plain_type(data_type) {
        DataType::Struct(fields) => {
            for (at, field) in fields.iter().enumerate() {
                if fields[..at]
                    .iter()
                    .any(|other| other.name() == field.name())
                {
                    return Err(format!("JSON cannot hold two fields '{}'", field.name()));
                }
                check(field.data_type())?;
            }
            Ok(())
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                if !plain_type(fields[0].data_type()).is_string() {
                    return Err("a map without string keys has no JSON form".to_string());
                }
                check(fields[1].data_type())
            }
            _ => Err("the map has no keys and values".to_string()),
        },
        DataType::Interval(_) | DataType::Duration(_) | DataType::Union(..) => Err(format!(
            "{data_type} has no JSON form; cast it to a string or leave it out"
        )),
        other => lists::element(other).map_or(Ok(()), |item| check(item.data_type())),
    }
}

/// One JSON text for each struct or map; NULL stays NULL.
pub(super) fn documents(
    array: &ArrayRef,
    place: Place<'_>,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    let node = Node::of(array)?;
    let mut texts = StringBuilder::with_capacity(array.len(), array.len() * 32);
    let mut text = String::new();
    for at in 0..array.len() {
        if array.is_null(at) {
            texts.append_null();
            continue;
        }
        text.clear();
        if let Err(why) = node.write(at, &mut text) {
            place.fault(faults, at, || why);
            text.clear();
        }
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// An array, and how its values are written.
struct Node {
    array: ArrayRef,
    nulls: Option<NullBuffer>,
    form: Form,
}

enum Form {
    /// The quoted names, and the fields.
    Struct(Vec<(String, Node)>),
    List(OffsetBuffer<i32>, Box<Node>),
    Map(OffsetBuffer<i32>, ArrayRef, Box<Node>),
    /// With how many fractional digits a value has to be divided by, in powers of ten.
    Decimal(i8),
    /// A time of day or a moment in a unit of so many to the second.
    Time(i64),
    Moment(i64, &'static str),
    Plain,
}

impl Node {
    fn of(array: &ArrayRef) -> Result<Self> {
        let array = plain(array)?;
        let form = match array.data_type() {
            DataType::Struct(fields) => {
                let children = fields.iter().zip(array.as_struct().columns());
                let children = children.map(|(field, child)| {
                    let mut name = String::new();
                    quote(field.name(), &mut name);
                    Ok((name, Node::of(child)?))
                });
                Form::Struct(children.collect::<Result<_>>()?)
            }
            DataType::Map(..) => {
                let (entries, offsets) = lists::elements(&array)?;
                let entries = entries.as_struct();
                Form::Map(
                    offsets,
                    plain(entries.column(0))?,
                    Box::new(Node::of(entries.column(1))?),
                )
            }
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => Form::Decimal(*scale),
            DataType::Time32(unit) | DataType::Time64(unit) => Form::Time(per_second(*unit)),
            DataType::Timestamp(unit, zone) => {
                Form::Moment(per_second(*unit), if zone.is_some() { "Z" } else { "" })
            }
            other if lists::element(other).is_some() => {
                let (elements, offsets) = lists::elements(&array)?;
                Form::List(offsets, Box::new(Node::of(&elements)?))
            }
            _ => Form::Plain,
        };
        Ok(Node {
            nulls: array.logical_nulls(),
            array,
            form,
        })
    }

    /// Writes the value at `at`, or says why it has no JSON form.
    fn write(&self, at: usize, out: &mut String) -> Result<(), String> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
            out.push_str("null");
            return Ok(());
        }
        match &self.form {
            Form::Struct(fields) => {
                out.push('{');
                for (index, (name, field)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push(':');
                    field.write(at, out)?;
                }
                out.push('}');
            }
            Form::List(offsets, elements) => {
                out.push('[');
                for (index, element) in span(offsets, at).enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    elements.write(element, out)?;
                }
                out.push(']');
            }
            Form::Map(offsets, keys, values) => {
                out.push('{');
                let entries = span(offsets, at);
                let mut many = HashSet::new();
                for (index, entry) in entries.clone().enumerate() {
                    let key = text_at(keys, entry).map_err(|e| e.to_string())?;
                    let key = key.ok_or_else(|| "its map has a NULL key".to_string())?;
                    let seen = if entries.len() <= FEW_ENTRIES {
                        (entries.start..entry).any(|earlier| {
                            text_at(keys, earlier).is_ok_and(|other| other == Some(key))
                        })
                    } else {
                        !many.insert(key)
                    };
                    if seen {
                        return Err(format!(
                            "its map has the key '{key}' twice, of which JSON would keep one"
                        ));
                    }
                    if index > 0 {
                        out.push(',');
                    }
                    quote(key, out);
                    out.push(':');
                    values.write(entry, out)?;
                }
                out.push('}');
            }
            Form::Decimal(scale) => self.decimal(at, *scale, out)?,
            Form::Time(unit) => {
                let value = self.integer(at)?;
                if !(0..unit * 86_400).contains(&value) {
                    return Err(format!("{value} is no time of day"));
                }
                out.push('"');
                clock(value, *unit, out);
                out.push('"');
            }
            Form::Moment(unit, zone) => {
                let value = self.integer(at)?;
                out.push('"');
                date(value.div_euclid(unit * 86_400), out)?;
                out.push('T');
                clock(value.rem_euclid(unit * 86_400), *unit, out);
                out.push_str(zone);
                out.push('"');
            }
            Form::Plain => self.plain(at, out)?,
        }
        Ok(())
    }

    fn integer(&self, at: usize) -> Result<i64, String> {
        let array = &self.array;
        Ok(match array.data_type() {
            DataType::Time32(TimeUnit::Second) => {
                array.as_primitive::<Time32SecondType>().value(at).into()
            }
            DataType::Time32(_) => array
                .as_primitive::<Time32MillisecondType>()
                .value(at)
                .into(),
            DataType::Time64(TimeUnit::Microsecond) => {
                array.as_primitive::<Time64MicrosecondType>().value(at)
            }
            DataType::Time64(_) => array.as_primitive::<Time64NanosecondType>().value(at),
            DataType::Timestamp(TimeUnit::Second, _) => {
                array.as_primitive::<TimestampSecondType>().value(at)
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                array.as_primitive::<TimestampMillisecondType>().value(at)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                array.as_primitive::<TimestampMicrosecondType>().value(at)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                array.as_primitive::<TimestampNanosecondType>().value(at)
            }
            other => return Err(unplanned(other, "JSON").to_string()),
        })
    }

    fn decimal(&self, at: usize, scale: i8, out: &mut String) -> Result<(), String> {
        let array = &self.array;
        let value = match array.data_type() {
            DataType::Decimal32(..) => {
                i256::from_i128(array.as_primitive::<Decimal32Type>().value(at).into())
            }
            DataType::Decimal64(..) => {
                i256::from_i128(array.as_primitive::<Decimal64Type>().value(at).into())
            }
            DataType::Decimal128(..) => {
                i256::from_i128(array.as_primitive::<Decimal128Type>().value(at))
            }
            _ => array.as_primitive::<Decimal256Type>().value(at),
        };
        let start = out.len();
        Digits::of(value, scale).write(out);
        // BigQuery keeps 64-bit integers and doubles, and rounds the others.
        let integer = scale <= 0
            && rescaled(value, scale, 0)
                .and_then(i256::to_i128)
                .is_some_and(|v| i64::try_from(v).is_ok() || u64::try_from(v).is_ok());
        if integer || float(value, scale).is_some() {
            Ok(())
        } else {
            Err(rounded(&out[start..]))
        }
    }

    fn plain(&self, at: usize, out: &mut String) -> Result<(), String> {
        let array = &self.array;
        macro_rules! number {
            ($type:ty) => {
                write!(out, "{}", array.as_primitive::<$type>().value(at))
            };
        }
        macro_rules! float {
            ($type:ty) => {{
                let value = array.as_primitive::<$type>().value(at);
                if !value.is_finite() {
                    return Err(format!("{value} has no JSON form; replace it by NULL"));
                }
                // With an exponent where many zeros would be written.
                write!(out, "{value:?}")
            }};
        }
        let written = match array.data_type() {
            DataType::Null => write!(out, "null"),
            DataType::Boolean => write!(out, "{}", array.as_boolean().value(at)),
            DataType::Int8 => number!(Int8Type),
            DataType::Int16 => number!(Int16Type),
            DataType::Int32 => number!(Int32Type),
            DataType::Int64 => number!(Int64Type),
            DataType::UInt8 => number!(UInt8Type),
            DataType::UInt16 => number!(UInt16Type),
            DataType::UInt32 => number!(UInt32Type),
            DataType::UInt64 => number!(UInt64Type),
            DataType::Float16 => {
                let value = array.as_primitive::<Float16Type>().value(at).to_f32();
                if !value.is_finite() {
                    return Err(format!("{value} has no JSON form; replace it by NULL"));
                }
                write!(out, "{value:?}")
            }
            DataType::Float32 => float!(Float32Type),
            DataType::Float64 => float!(Float64Type),
            DataType::Date32 => {
                out.push('"');
                date(array.as_primitive::<Date32Type>().value(at).into(), out)?;
                out.push('"');
                Ok(())
            }
            DataType::Date64 => {
                let millis = array.as_primitive::<Date64Type>().value(at);
                if millis.rem_euclid(86_400_000) != 0 {
                    return Err(format!(
                        "millisecond {millis} after 1970-01-01 is no whole day"
                    ));
                }
                out.push('"');
                date(millis.div_euclid(86_400_000), out)?;
                out.push('"');
                Ok(())
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                let text = text_at(array, at).map_err(|e| e.to_string())?;
                quote(text.unwrap_or_default(), out);
                Ok(())
            }
            DataType::Binary => encode(array.as_binary::<i32>().value(at), out),
            DataType::LargeBinary => encode(array.as_binary::<i64>().value(at), out),
            DataType::BinaryView => encode(array.as_binary_view().value(at), out),
            DataType::FixedSizeBinary(_) => encode(array.as_fixed_size_binary().value(at), out),
            other => return Err(unplanned(other, "JSON").to_string()),
        };
        written.map_err(|e| e.to_string())
    }
}

fn encode(bytes: &[u8], out: &mut String) -> std::fmt::Result {
    out.push('"');
    BASE64_STANDARD.encode_string(bytes, out);
    out.push('"');
    Ok(())
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn span(offsets: &OffsetBuffer<i32>, at: usize) -> std::ops::Range<usize> {
    let place = |offset: i32| usize::try_from(offset).unwrap_or(0);
    place(offsets[at])..place(offsets[at + 1])
}

fn date(days: i64, out: &mut String) -> Result<(), String> {
    if !(-719_162..=2_932_896).contains(&days) {
        return Err(format!(
            "day {days} after 1970-01-01 is not in the years 1 to 9999"
        ));
    }
    let (year, month, day) = civil_date(days);
    write!(out, "{year:04}-{month:02}-{day:02}").map_err(|e| e.to_string())
}

/// Writes a time of day with as many fractional digits as its unit has, unless
/// they are all zero.
fn clock(value: i64, unit: i64, out: &mut String) {
    let (seconds, fraction) = (value / unit, value % unit);
    write!(
        out,
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
    .expect("a string takes text");
    if fraction != 0 {
        let digits = usize::try_from(unit.ilog10()).unwrap_or(0);
        write!(out, ".{fraction:0digits$}").expect("a string takes text");
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    let mut clean = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[clean..at]);
        clean = at + 1;
        if escape.is_empty() {
            write!(out, "\\u{byte:04x}").expect("a string takes text");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[clean..]);
    out.push('"');
}
