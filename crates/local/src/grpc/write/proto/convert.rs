//! Protobuf values as BigQuery values: what each column takes, and how.
//!
//! Source: the table of supported protobuf types in BigQuery's Storage Write API
//! documentation.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, i256};

use super::values::{Place, Values};
use super::wire::{Malformed, Reader, Wire};
use crate::schema::{Field, FieldType, arrow_field};
use crate::value::build::{Cell, CellReader};
use crate::value::civil::{DAY_MICROS, MAX_DATE, MAX_MICROS, MIN_DATE, MIN_MICROS, date_from_ymd};
use crate::value::decimal::{
    BIGNUMERIC_SCALE, Excess, NUMERIC_PRECISION, NUMERIC_SCALE, digits_at_most, rescaled,
};
use crate::value::interval::interval;

/// What a protobuf field holds, as far as columns take it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    Int32,
    Int64,
    Uint32,
    Uint64,
    Bool,
    Float,
    Double,
    Text,
    Bytes,
    /// Names by number.
    Enum(Arc<HashMap<i32, String>>),
    /// A message whose field 1 holds the value.
    Wrapper(Box<Source>),
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `google.protobuf.Duration`.
    Duration,
}

/// A value as it was written.
#[derive(Debug, Clone, Copy)]
enum Raw<'a> {
    Int(i64),
    Uint(u64),
    Bool(bool),
    Float(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// Seconds and nanoseconds.
    Parts(i64, i64),
}

impl Source {
    /// The source that a type of `google.protobuf` is.
    pub(super) fn well_known(name: &str) -> Option<Self> {
        let wrapper = |source| Some(Self::Wrapper(Box::new(source)));
        match name {
            "BoolValue" => wrapper(Self::Bool),
            "Int32Value" => wrapper(Self::Int32),
            "Int64Value" => wrapper(Self::Int64),
            "UInt32Value" => wrapper(Self::Uint32),
            "UInt64Value" => wrapper(Self::Uint64),
            "FloatValue" => wrapper(Self::Float),
            "DoubleValue" => wrapper(Self::Double),
            "StringValue" => wrapper(Self::Text),
            "BytesValue" => wrapper(Self::Bytes),
            "Timestamp" => Some(Self::Timestamp),
            "Duration" => Some(Self::Duration),
            _ => None,
        }
    }

    /// Whether columns of this type take it.
    pub(super) fn fits(&self, column: &FieldType) -> bool {
        let (scalar, wrapped) = match self {
            Self::Wrapper(inner) => (&**inner, true),
            other => (other, false),
        };
        match column {
            FieldType::Bool if wrapped => *scalar == Self::Bool,
            FieldType::Bool => matches!(
                scalar,
                Self::Bool | Self::Int32 | Self::Int64 | Self::Uint32 | Self::Uint64
            ),
            FieldType::Int64 => matches!(
                scalar,
                Self::Int32 | Self::Int64 | Self::Uint32 | Self::Enum(_)
            ),
            FieldType::Float64 => matches!(scalar, Self::Float | Self::Double),
            FieldType::Numeric | FieldType::Bignumeric => matches!(
                scalar,
                Self::Int32
                    | Self::Int64
                    | Self::Uint32
                    | Self::Uint64
                    | Self::Float
                    | Self::Double
                    | Self::Text
                    | Self::Bytes
            ),
            FieldType::String => matches!(scalar, Self::Text | Self::Enum(_)),
            FieldType::Bytes => matches!(scalar, Self::Bytes | Self::Text),
            FieldType::Date => !wrapped && matches!(scalar, Self::Int32 | Self::Int64 | Self::Text),
            FieldType::Time | FieldType::Datetime => {
                !wrapped && matches!(scalar, Self::Int64 | Self::Text)
            }
            FieldType::Timestamp => {
                !wrapped
                    && matches!(
                        scalar,
                        Self::Int64 | Self::Int32 | Self::Uint32 | Self::Timestamp | Self::Text
                    )
            }
            FieldType::Geography | FieldType::Json => !wrapped && *scalar == Self::Text,
            FieldType::Interval => !wrapped && matches!(scalar, Self::Text | Self::Duration),
            FieldType::Range(_) | FieldType::Struct(_) => false,
        }
    }

    /// Whether repeated values may be packed into one.
    fn packs(&self) -> bool {
        !matches!(
            self,
            Self::Text | Self::Bytes | Self::Wrapper(_) | Self::Timestamp | Self::Duration
        )
    }

    /// Reads a value; `None`, with the value passed over, when it is written in
    /// another form than the field's or is no value of the enum: parsers of
    /// protocol buffers take such a field for an unknown one.
    #[inline]
    fn read<'a>(
        &self,
        number: u32,
        wire: Wire,
        reader: &mut Reader<'a>,
    ) -> Result<Option<Raw<'a>>, Malformed> {
        Ok(Some(match (self, wire) {
            (Self::Int64, Wire::Varint) => Raw::Int(reader.varint()?.cast_signed()),
            (Self::Text, Wire::Length) => Raw::Text(reader.slice()?),
            (Self::Double, Wire::Fixed64) => Raw::Float(f64::from_le_bytes(reader.fixed64()?)),
            (Self::Int32, Wire::Varint) => Raw::Int(i64::from(low32(reader.varint()?))),
            (Self::Bool, Wire::Varint) => Raw::Bool(reader.varint()? != 0),
            (Self::Bytes, Wire::Length) => Raw::Bytes(reader.slice()?),
            (Self::Uint32, Wire::Varint) => {
                Raw::Int(i64::from(low32(reader.varint()?).cast_unsigned()))
            }
            (Self::Uint64, Wire::Varint) => Raw::Uint(reader.varint()?),
            (Self::Float, Wire::Fixed32) => {
                Raw::Float(f64::from(f32::from_le_bytes(reader.fixed32()?)))
            }
            (Self::Enum(names), Wire::Varint) => {
                let number = low32(reader.varint()?);
                if !names.contains_key(&number) {
                    return Ok(None);
                }
                Raw::Int(i64::from(number))
            }
            (Self::Wrapper(inner), Wire::Length) => inner.wrapped(reader.slice()?)?,
            (Self::Timestamp | Self::Duration, Wire::Length) => parts(reader.slice()?)?,
            _ => {
                reader.skip(number, wire)?;
                return Ok(None);
            }
        }))
    }

    /// The value in field 1 of a wrapper, or the zero that an absent one means.
    fn wrapped<'a>(&self, bytes: &'a [u8]) -> Result<Raw<'a>, Malformed> {
        let mut value = match self {
            Self::Bool => Raw::Bool(false),
            Self::Float | Self::Double => Raw::Float(0.0),
            Self::Text => Raw::Text(&[]),
            Self::Bytes => Raw::Bytes(&[]),
            Self::Uint64 => Raw::Uint(0),
            _ => Raw::Int(0),
        };
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.tag()? {
            if number == 1 {
                value = self.read(number, wire, &mut reader)?.unwrap_or(value);
            } else {
                reader.skip(number, wire)?;
            }
        }
        Ok(value)
    }
}

/// The low half of a varint, which is what 32-bit fields take of it.
fn low32(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn parts(bytes: &[u8]) -> Result<Raw<'_>, Malformed> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, Wire::Varint) => seconds = reader.varint()?.cast_signed(),
            (2, Wire::Varint) => nanos = i64::from(low32(reader.varint()?)),
            _ => reader.skip(number, wire)?,
        }
    }
    Ok(Raw::Parts(seconds, nanos))
}

/// What a column makes of a value.
#[derive(Debug)]
enum Rule {
    Int64,
    Float64,
    Bool,
    String,
    Bytes,
    /// Digits and fractional digits of the column, fractional digits of the type,
    /// and what becomes of more.
    Decimal(u8, u8, u8, Excess),
    Date,
    Time,
    Datetime,
    Timestamp,
    /// GEOGRAPHY, JSON: text that is read and written in its normal form.
    Normal,
    Interval,
}

/// A column of scalars that is being filled.
#[derive(Debug)]
pub(super) struct Leaf {
    field: Field,
    source: Source,
    rule: Rule,
    pub(super) values: Values,
    reader: CellReader,
}

impl Leaf {
    /// A column of the type of `field`, or of its element's, filled from `source`.
    pub(super) fn new(field: &Field, source: Source) -> Self {
        let field = field.element();
        let data_type = arrow_field(&field).data_type().clone();
        let rule = match (&field.field_type, &data_type) {
            (FieldType::Numeric, DataType::Decimal128(precision, scale)) => {
                decimal(&field, *precision, *scale, NUMERIC_SCALE)
            }
            (FieldType::Bignumeric, DataType::Decimal256(precision, scale)) => {
                decimal(&field, *precision, *scale, BIGNUMERIC_SCALE)
            }
            (FieldType::Float64, _) => Rule::Float64,
            (FieldType::Bool, _) => Rule::Bool,
            (FieldType::String, _) => Rule::String,
            (FieldType::Bytes, _) => Rule::Bytes,
            (FieldType::Date, _) => Rule::Date,
            (FieldType::Time, _) => Rule::Time,
            (FieldType::Datetime, _) => Rule::Datetime,
            (FieldType::Timestamp, _) => Rule::Timestamp,
            (FieldType::Geography | FieldType::Json, _) => Rule::Normal,
            (FieldType::Interval, _) => Rule::Interval,
            _ => Rule::Int64,
        };
        Self {
            values: Values::new(&data_type),
            field,
            source,
            rule,
            reader: CellReader::for_sql(),
        }
    }

    /// Whether a length-delimited value holds several packed ones.
    pub(super) fn is_packed(&self, wire: Wire) -> bool {
        wire == Wire::Length && self.source.packs()
    }

    /// Reads one of several packed values.
    pub(super) fn read_packed(&mut self, reader: &mut Reader<'_>) -> Result<Taken, Malformed> {
        let wire = match self.source {
            Source::Double => Wire::Fixed64,
            Source::Float => Wire::Fixed32,
            _ => Wire::Varint,
        };
        self.read(1, wire, reader, Place::Next)
    }

    /// Reads a value into the column. What does not fit is answered in words, and
    /// leaves a zero in its place.
    #[inline]
    pub(super) fn read(
        &mut self,
        number: u32,
        wire: Wire,
        reader: &mut Reader<'_>,
        place: Place,
    ) -> Result<Taken, Malformed> {
        let Some(raw) = self.source.read(number, wire, reader)? else {
            return Ok(Taken::Unknown);
        };
        Ok(match self.put(raw, place) {
            Ok(()) => Taken::Value,
            Err(message) => {
                if place == Place::Next {
                    self.values.put_zero();
                }
                Taken::Unfit(message)
            }
        })
    }

    #[inline]
    fn put(&mut self, raw: Raw<'_>, place: Place) -> Result<(), String> {
        match (&self.rule, raw) {
            (Rule::Int64, Raw::Int(v)) => self.values.put_int(v, place),
            (Rule::Float64, Raw::Float(v)) => self.values.put_float(v, place),
            (Rule::String, Raw::Text(bytes)) => {
                let text = self.utf8(bytes)?;
                if self.field.max_length.is_some() {
                    self.checked(text)?;
                }
                self.values.put_bytes(bytes, place);
            }
            (Rule::String, Raw::Int(number)) => {
                // Only an enum gives a STRING column an integer.
                if let (Source::Enum(names), Ok(number)) = (&self.source, i32::try_from(number))
                    && let Some(name) = names.get(&number)
                {
                    if self.field.max_length.is_some() {
                        self.checked(name)?;
                    }
                    self.values.put_bytes(name.as_bytes(), place);
                }
            }
            (Rule::Date, Raw::Int(days)) => {
                self.within(days, i64::from(MIN_DATE), i64::from(MAX_DATE))?;
                self.values.put_int(days, place);
            }
            (Rule::Timestamp, Raw::Int(micros)) => {
                self.within(micros, MIN_MICROS, MAX_MICROS)?;
                self.values.put_int(micros, place);
            }
            (Rule::Bool, Raw::Bool(v)) => self.values.put_bool(v, place),
            (Rule::Bool, Raw::Int(v)) => self.values.put_bool(v != 0, place),
            (Rule::Bool, Raw::Uint(v)) => self.values.put_bool(v != 0, place),
            (Rule::Bytes, Raw::Bytes(bytes) | Raw::Text(bytes)) => {
                if let Some(limit) = self.field.max_length
                    && !i64::try_from(bytes.len()).is_ok_and(|n| n <= limit)
                {
                    return Err(format!(
                        "Field {name}: BYTES({limit}) has maximum length {limit} but got a value with length {} on field {name}.",
                        bytes.len(),
                        name = self.field.name,
                    ));
                }
                self.values.put_bytes(bytes, place);
            }
            (Rule::Decimal(precision, scale, own, excess), raw) => {
                let value = match raw {
                    Raw::Bytes(bytes) => little_endian(bytes, *own).ok_or_else(|| {
                        format!(
                            "Invalid {} encoding on field {}: {} bytes",
                            self.field.field_type.sql_name(),
                            self.field.name,
                            bytes.len()
                        )
                    })?,
                    Raw::Int(v) => return self.put_text(&v.to_string(), place),
                    Raw::Uint(v) => return self.put_text(&v.to_string(), place),
                    Raw::Float(v) => {
                        let digits = crate::value::decimal::parse_decimal(
                            &v.to_string(),
                            *precision,
                            *scale,
                            match excess {
                                Excess::Refuse => Excess::Round,
                                other => *other,
                            },
                        )
                        .map_err(|_| self.out_of_range(&v.to_string()))?;
                        self.values.put_decimal(digits, place);
                        return Ok(());
                    }
                    Raw::Text(bytes) => {
                        let text = self.utf8(bytes)?.to_string();
                        return self.put_text(&text, place);
                    }
                    Raw::Bool(_) | Raw::Parts(..) => return Ok(()),
                };
                let fitted = rescaled(value, *own, *scale, *excess)
                    .filter(|v| *precision >= 76 || digits_at_most(*v, *precision));
                match fitted {
                    Some(value) => self.values.put_decimal(value, place),
                    None => {
                        let mut text = String::new();
                        let own = i8::try_from(*own).unwrap_or(i8::MAX);
                        crate::value::decimal::write_decimal256(value, own, &mut text);
                        return Err(self.out_of_range(&text));
                    }
                }
            }
            (Rule::Time, Raw::Int(packed)) => {
                let micros = packed_time(packed)
                    .ok_or_else(|| self.bad(&format!("packed value {packed}")))?;
                self.values.put_int(micros, place);
            }
            (Rule::Datetime, Raw::Int(packed)) => {
                let micros = packed_datetime(packed)
                    .ok_or_else(|| self.bad(&format!("packed value {packed}")))?;
                self.values.put_int(micros, place);
            }
            (Rule::Timestamp, Raw::Parts(seconds, nanos)) => {
                let micros = parts_micros(seconds, nanos)
                    .filter(|m| (MIN_MICROS..=MAX_MICROS).contains(m))
                    .ok_or_else(|| self.bad(&format!("{seconds} s and {nanos} ns")))?;
                self.values.put_int(micros, place);
            }
            (Rule::Interval, Raw::Parts(seconds, nanos)) => {
                let value = parts_micros(seconds, nanos)
                    .and_then(|micros| interval(0, 0, micros))
                    .ok_or_else(|| self.bad(&format!("{seconds} s and {nanos} ns")))?;
                self.values.put_interval(value, place);
            }
            (_, Raw::Text(bytes)) => {
                let text = self.utf8(bytes)?.to_string();
                return self.put_text(&text, place);
            }
            // No other pair passes `Source::fits`.
            _ => return Err(self.bad("a value of another type")),
        }
        Ok(())
    }

    fn put_text(&mut self, text: &str, place: Place) -> Result<(), String> {
        match self.checked(text)? {
            Cell::Int(v) => self.values.put_int(v, place),
            Cell::Text(text) => self.values.put_bytes(text.as_bytes(), place),
            Cell::Decimal(v) => self.values.put_decimal(v, place),
            Cell::Interval(v) => self.values.put_interval(v, place),
            _ => return Err(self.bad("text")),
        }
        Ok(())
    }

    fn checked(&self, text: &str) -> Result<Cell, String> {
        self.reader.text(&self.field, text).map_err(|e| {
            let name = &self.field.name;
            if e.message().contains(name.as_str()) {
                e.message().to_string()
            } else {
                format!("{} on field {name}.", e.message())
            }
        })
    }

    fn utf8<'a>(&self, bytes: &'a [u8]) -> Result<&'a str, String> {
        std::str::from_utf8(bytes)
            .map_err(|_| format!("Field {} holds bytes that are not UTF-8.", self.field.name))
    }

    fn within(&self, value: i64, least: i64, most: i64) -> Result<(), String> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(self.bad(&value.to_string()))
    }

    fn bad(&self, what: &str) -> String {
        format!(
            "Invalid {} value on field {}: {what}",
            self.field.field_type.sql_name(),
            self.field.name
        )
    }

    fn out_of_range(&self, text: &str) -> String {
        format!(
            "Field {name}: {kind} got a value that is out of range on field {name}: {text}",
            name = self.field.name,
            kind = self.field.sql_type(),
        )
    }
}

/// What became of a value.
#[derive(Debug, PartialEq)]
pub(super) enum Taken {
    /// It is in the column.
    Value,
    /// It is none of the field's.
    Unknown,
    /// It does not fit the column.
    Unfit(String),
}

fn decimal(field: &Field, precision: u8, scale: i8, own: u8) -> Rule {
    let excess = match field.rounding_mode.as_deref() {
        Some("ROUND_HALF_EVEN") => Excess::RoundHalfEven,
        _ => Excess::Round,
    };
    Rule::Decimal(precision, u8::try_from(scale).unwrap_or(0), own, excess)
}

/// A scaled integer in two's complement, low byte first; a NUMERIC has 38 digits.
fn little_endian(bytes: &[u8], scale: u8) -> Option<i256> {
    let last = *bytes.last()?;
    let mut whole = [if last >= 0x80 { 0xff } else { 0 }; 32];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let value = i256::from_le_bytes(whole);
    let fits = scale != NUMERIC_SCALE || digits_at_most(value, NUMERIC_PRECISION);
    fits.then_some(value)
}

fn parts_micros(seconds: i64, nanos: i64) -> Option<i64> {
    let micros = seconds.checked_mul(1_000_000)?;
    (nanos.abs() < 1_000_000_000).then(|| micros.checked_add(nanos.div_euclid(1000)))?
}

/// `hour << 32 | minute << 26 | second << 20 | microsecond` as microseconds.
pub(super) fn packed_time(packed: i64) -> Option<i64> {
    let part = |shift: u32, bits: u32| (packed >> shift) & ((1 << bits) - 1);
    let (hour, minute, second, micros) = (packed >> 32, part(26, 6), part(20, 6), part(0, 20));
    let valid = (0..24).contains(&hour) && minute < 60 && second < 60 && micros < 1_000_000;
    valid.then(|| ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

/// `year << 46 | month << 42 | day << 37 | time` as microseconds since the epoch.
pub(super) fn packed_datetime(packed: i64) -> Option<i64> {
    let time = packed_time(packed & ((1 << 37) - 1))?;
    let year = i32::try_from(packed >> 46).ok()?;
    let month = u32::try_from((packed >> 42) & 15).ok()?;
    let day = u32::try_from((packed >> 37) & 31).ok()?;
    let days = date_from_ymd(year, month, day)?;
    Some(i64::from(days) * DAY_MICROS + time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_civil_time() {
        let time = |h: i64, m: i64, s: i64, us: i64| h << 32 | m << 26 | s << 20 | us;
        let last = time(23, 59, 59, 999_999);
        assert_eq!(packed_time(last), Some(DAY_MICROS - 1));
        for bad in [time(24, 0, 0, 0), time(0, 60, 0, 0), time(0, 0, 60, 0), -1] {
            assert_eq!(packed_time(bad), None, "{bad}");
        }
        assert_eq!(packed_time(1_000_000), None);
        let date = |y: i64, m: i64, d: i64| y << 46 | m << 42 | d << 37;
        assert_eq!(packed_datetime(date(9999, 12, 31) | last), Some(MAX_MICROS));
        assert_eq!(packed_datetime(date(1, 1, 1)), Some(MIN_MICROS));
        assert_eq!(packed_datetime(date(2023, 2, 29)), None);
        assert_eq!(packed_datetime(date(0, 1, 1)), None);
    }

    #[test]
    fn decimals_are_little_endian_twos_complement() {
        let read = |bytes: &[u8]| little_endian(bytes, NUMERIC_SCALE);
        assert_eq!(read(&[1]), Some(i256::from_i128(1)));
        assert_eq!(read(&[0xff]), Some(i256::from_i128(-1)));
        assert_eq!(read(&[0xff, 0]), Some(i256::from_i128(255)));
        assert_eq!(read(&[]), None);
        let largest = i256::from_i128(10_i128.pow(38) - 1);
        assert_eq!(read(&largest.to_le_bytes()), Some(largest));
        let beyond = i256::from_i128(10_i128.pow(38));
        assert_eq!(read(&beyond.to_le_bytes()), None);
        assert_eq!(
            little_endian(&[0x80; 32], BIGNUMERIC_SCALE).map(|v| v < i256::ZERO),
            Some(true)
        );
        assert_eq!(little_endian(&[0; 33], BIGNUMERIC_SCALE), None);
    }

    #[test]
    fn the_parts_of_instants_before_the_epoch() {
        assert_eq!(parts_micros(-1, 999_999_999), Some(-1));
        assert_eq!(parts_micros(i64::MAX, 0), None);
        assert_eq!(parts_micros(0, 1_000_000_000), None);
    }
}
