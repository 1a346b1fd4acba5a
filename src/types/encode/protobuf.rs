//! Rows as protobuf messages.
//!
//! Columns are measured first and written second, each in one loop that knows
//! its type, into one buffer of exactly the right size. Rows are written in
//! groups that stay in the cache while column after column is added to them.

use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, LargeBinaryArray,
    LargeStringArray, StringArray, StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float64Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType, i256,
};

use super::convert::Converted;
use super::descriptor::number;
use super::layout::{LaidOut, lay_out, span};
use super::numbers::Stack;
use super::plan::{Column, Value};
use super::rows::{Body, EncodedRows, ROW_KEY, framed, varint_len};
use super::times::{packed_datetime, packed_time, write_interval};
use crate::error::{Error, ErrorKind, Result};

/// The rows as fields of a request, one after the other: their key, their length and their
/// message. So a request takes many rows by one copy.
pub(super) fn encode(columns: &[Column], converted: Converted) -> Result<EncodedRows> {
    let mut fields = fields(columns, &converted.columns)?;
    let mut lengths = vec![0; converted.rows];
    for field in &mut fields {
        field.measure(&mut lengths);
    }
    let fields_of_requests = lengths.iter().map(|length| framed(*length)).collect();
    let LaidOut { bytes, ends } = lay_out(fields_of_requests, |group, places, out| {
        for (row, place) in group.clone().zip(places.iter_mut()) {
            out[*place] = ROW_KEY;
            *place += 1;
            *place += put_varint(lengths[row] as u64, &mut out[*place..]);
        }
        for field in &fields {
            field.write(group.clone(), places, out);
        }
    });
    let body = Body::Protobuf { bytes, ends };
    Ok(EncodedRows::new(converted.kept, converted.errors, body))
}

/// A field of messages, with its values for the messages of a batch.
struct Field<'a> {
    tag: Tag,
    /// Where the elements of each message's array begin; without it a message has
    /// one value.
    lists: Option<&'a [i32]>,
    nulls: Option<&'a NullBuffer>,
    cells: Cells<'a>,
}

enum Cells<'a> {
    Int(Ints<'a>),
    Time(Times<'a>),
    DateTime(DateTimes<'a>),
    Date(Dates<'a>),
    Double(Doubles<'a>),
    Bool(Bools<'a>),
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    Decimal(Decimals<'a>),
    BigDecimal(BigDecimals<'a>),
    Interval(Intervals<'a>),
    Message {
        fields: Vec<Field<'a>>,
        /// The length of each value, without its frame.
        lengths: Vec<usize>,
    },
}

/// A field's key on the wire.
struct Tag {
    bytes: [u8; 5],
    len: usize,
}

impl Tag {
    fn new(number: u32, wire: u32) -> Self {
        let mut tag = Tag {
            bytes: [0; 5],
            len: 0,
        };
        tag.len = put_varint(u64::from(number << 3 | wire), &mut tag.bytes);
        tag
    }

    #[inline]
    fn put(&self, out: &mut [u8]) -> usize {
        // A loop over so few bytes is faster than a copy of unknown length.
        for (to, from) in out.iter_mut().zip(&self.bytes[..self.len]) {
            *to = *from;
        }
        self.len
    }
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

fn fields<'a>(columns: &[Column], arrays: &'a [ArrayRef]) -> Result<Vec<Field<'a>>> {
    columns
        .iter()
        .zip(arrays)
        .enumerate()
        .map(|(position, (column, array))| Field::new(number(position), column, array))
        .collect()
}

impl<'a> Field<'a> {
    fn new(number: u32, column: &Column, array: &'a ArrayRef) -> Result<Self> {
        let (lists, values) = if column.repeated {
            let lists = array
                .as_list_opt::<i32>()
                .ok_or_else(|| wrong(column, array))?;
            (Some(lists.value_offsets()), lists.values())
        } else {
            (None, array)
        };
        let (wire, cells) = cells(column, values)?;
        Ok(Field {
            tag: Tag::new(number, wire),
            lists,
            nulls: values.nulls().filter(|nulls| nulls.null_count() > 0),
            cells,
        })
    }

    /// Adds the bytes of the field to the length of each message.
    fn measure(&mut self, lengths: &mut [usize]) {
        let shape = Shape {
            tag: self.tag.len,
            lists: self.lists,
            nulls: self.nulls,
        };
        match &mut self.cells {
            Cells::Int(cells) => shape.measure(cells, lengths),
            Cells::Time(cells) => shape.measure(cells, lengths),
            Cells::DateTime(cells) => shape.measure(cells, lengths),
            Cells::Date(cells) => shape.measure(cells, lengths),
            Cells::Double(cells) => shape.measure(cells, lengths),
            Cells::Bool(cells) => shape.measure(cells, lengths),
            Cells::Utf8(cells) => shape.measure(*cells, lengths),
            Cells::LargeUtf8(cells) => shape.measure(*cells, lengths),
            Cells::Utf8View(cells) => shape.measure(*cells, lengths),
            Cells::Binary(cells) => shape.measure(*cells, lengths),
            Cells::LargeBinary(cells) => shape.measure(*cells, lengths),
            Cells::BinaryView(cells) => shape.measure(*cells, lengths),
            Cells::Decimal(cells) => shape.measure(cells, lengths),
            Cells::BigDecimal(cells) => shape.measure(cells, lengths),
            Cells::Interval(cells) => shape.measure(cells, lengths),
            Cells::Message {
                fields,
                lengths: inside,
            } => {
                for field in fields {
                    field.measure(inside);
                }
                shape.measure_by(|at| varint_len(inside[at] as u64) + inside[at], lengths);
            }
        }
    }

    /// Writes the field of the messages in `group`, each to its place in `out`,
    /// and moves the places behind it.
    fn write(&self, group: Range<usize>, places: &mut [usize], out: &mut [u8]) {
        match &self.cells {
            Cells::Int(cells) => self.write_leaf(cells, group, places, out),
            Cells::Time(cells) => self.write_leaf(cells, group, places, out),
            Cells::DateTime(cells) => self.write_leaf(cells, group, places, out),
            Cells::Date(cells) => self.write_leaf(cells, group, places, out),
            Cells::Double(cells) => self.write_leaf(cells, group, places, out),
            Cells::Bool(cells) => self.write_leaf(cells, group, places, out),
            Cells::Utf8(cells) => self.write_leaf(*cells, group, places, out),
            Cells::LargeUtf8(cells) => self.write_leaf(*cells, group, places, out),
            Cells::Utf8View(cells) => self.write_leaf(*cells, group, places, out),
            Cells::Binary(cells) => self.write_leaf(*cells, group, places, out),
            Cells::LargeBinary(cells) => self.write_leaf(*cells, group, places, out),
            Cells::BinaryView(cells) => self.write_leaf(*cells, group, places, out),
            Cells::Decimal(cells) => self.write_leaf(cells, group, places, out),
            Cells::BigDecimal(cells) => self.write_leaf(cells, group, places, out),
            Cells::Interval(cells) => self.write_leaf(cells, group, places, out),
            Cells::Message { fields, lengths } => {
                self.write_messages(fields, lengths, group, places, out);
            }
        }
    }

    fn write_leaf<L: Leaf>(
        &self,
        leaf: &L,
        group: Range<usize>,
        places: &mut [usize],
        out: &mut [u8],
    ) {
        let mut put = |at: usize, place: &mut usize| {
            *place += self.tag.put(&mut out[*place..]);
            *place += leaf.put(at, &mut out[*place..]);
        };
        match (self.lists, self.nulls) {
            (Some(offsets), _) => {
                for (message, place) in group.zip(places) {
                    for at in span(offsets, message) {
                        put(at, place);
                    }
                }
            }
            (None, None) => {
                for (at, place) in group.zip(places) {
                    put(at, place);
                }
            }
            (None, Some(nulls)) => {
                for (at, place) in group.zip(places) {
                    if nulls.is_valid(at) {
                        put(at, place);
                    }
                }
            }
        }
    }

    fn write_messages(
        &self,
        fields: &[Field<'_>],
        lengths: &[usize],
        group: Range<usize>,
        places: &mut [usize],
        out: &mut [u8],
    ) {
        let mut frame = |at: usize, place: &mut usize| {
            *place += self.tag.put(&mut out[*place..]);
            *place += put_varint(lengths[at] as u64, &mut out[*place..]);
        };
        match self.lists {
            None => {
                for (at, place) in group.clone().zip(places.iter_mut()) {
                    if self.nulls.is_none_or(|nulls| nulls.is_valid(at)) {
                        frame(at, place);
                    }
                }
                // The fields of a NULL struct are NULL and leave its place alone.
                for field in fields {
                    field.write(group.clone(), places, out);
                }
            }
            Some(offsets) => {
                let elements = span(offsets, group.start).start..span(offsets, group.end - 1).end;
                let mut inside = Vec::with_capacity(elements.len());
                for (message, place) in group.zip(places) {
                    for at in span(offsets, message) {
                        frame(at, place);
                        inside.push(*place);
                        *place += lengths[at];
                    }
                }
                if !inside.is_empty() {
                    for field in fields {
                        field.write(elements.clone(), &mut inside, out);
                    }
                }
            }
        }
    }
}

/// How values belong to messages.
#[derive(Clone, Copy)]
struct Shape<'a> {
    tag: usize,
    lists: Option<&'a [i32]>,
    nulls: Option<&'a NullBuffer>,
}

impl Shape<'_> {
    fn measure<L: Leaf>(self, leaf: &L, lengths: &mut [usize]) {
        self.measure_by(|at| leaf.len(at), lengths);
    }

    #[inline]
    fn measure_by(self, len: impl Fn(usize) -> usize, lengths: &mut [usize]) {
        match (self.lists, self.nulls) {
            (Some(offsets), _) => {
                for (message, length) in lengths.iter_mut().enumerate() {
                    for at in span(offsets, message) {
                        *length += self.tag + len(at);
                    }
                }
            }
            (None, None) => {
                for (at, length) in lengths.iter_mut().enumerate() {
                    *length += self.tag + len(at);
                }
            }
            (None, Some(nulls)) => {
                for (at, length) in lengths.iter_mut().enumerate() {
                    if nulls.is_valid(at) {
                        *length += self.tag + len(at);
                    }
                }
            }
        }
    }
}

fn cells<'a>(column: &Column, values: &'a ArrayRef) -> Result<(u32, Cells<'a>)> {
    let wrong = || wrong(column, values);
    Ok(match &column.value {
        Value::Int64 => {
            let values = values.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
            (VARINT, Cells::Int(Ints(values.values())))
        }
        Value::Timestamp => {
            let values = values.as_primitive_opt::<TimestampMicrosecondType>();
            (VARINT, Cells::Int(Ints(values.ok_or_else(wrong)?.values())))
        }
        Value::DateTime => {
            let values = values.as_primitive_opt::<TimestampMicrosecondType>();
            let values = values.ok_or_else(wrong)?.values();
            (VARINT, Cells::DateTime(DateTimes(values)))
        }
        Value::Time => {
            let values = values.as_primitive_opt::<Time64MicrosecondType>();
            (
                VARINT,
                Cells::Time(Times(values.ok_or_else(wrong)?.values())),
            )
        }
        Value::Date => {
            let values = values.as_primitive_opt::<Date32Type>().ok_or_else(wrong)?;
            (VARINT, Cells::Date(Dates(values.values())))
        }
        Value::Float64 => {
            let values = values.as_primitive_opt::<Float64Type>().ok_or_else(wrong)?;
            (FIXED64, Cells::Double(Doubles(values.values())))
        }
        Value::Bool => {
            let values = values.as_boolean_opt().ok_or_else(wrong)?;
            (VARINT, Cells::Bool(Bools(values)))
        }
        Value::Decimal(_) => {
            let cells = match values.data_type() {
                DataType::Decimal128(..) => {
                    Cells::Decimal(Decimals(values.as_primitive::<Decimal128Type>().values()))
                }
                DataType::Decimal256(..) => Cells::BigDecimal(BigDecimals(
                    values.as_primitive::<Decimal256Type>().values(),
                )),
                _ => return Err(wrong()),
            };
            (LENGTH, cells)
        }
        Value::Interval => {
            let values = values.as_primitive_opt::<IntervalMonthDayNanoType>();
            let values = values.ok_or_else(wrong)?.values();
            (LENGTH, Cells::Interval(Intervals(values)))
        }
        Value::Text | Value::JsonText | Value::JsonDocument | Value::Bytes => {
            let cells = match values.data_type() {
                DataType::Utf8 => Cells::Utf8(values.as_string()),
                DataType::LargeUtf8 => Cells::LargeUtf8(values.as_string()),
                DataType::Utf8View => Cells::Utf8View(values.as_string_view()),
                DataType::Binary => Cells::Binary(values.as_binary()),
                DataType::LargeBinary => Cells::LargeBinary(values.as_binary()),
                DataType::BinaryView => Cells::BinaryView(values.as_binary_view()),
                _ => return Err(wrong()),
            };
            (LENGTH, cells)
        }
        Value::Struct(columns) | Value::Range(columns) => {
            let values = values.as_struct_opt().ok_or_else(wrong)?;
            let fields = fields(columns, values.columns())?;
            let lengths = vec![0; values.len()];
            (LENGTH, Cells::Message { fields, lengths })
        }
    })
}

fn wrong(column: &Column, array: &ArrayRef) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!(
            "column '{}' was converted to {}, not to {}",
            column.path,
            array.data_type(),
            column.data_type()
        ),
    )
}

/// Values of one type, as they stand behind a field's key.
trait Leaf {
    /// The bytes of the value at `at`.
    fn len(&self, at: usize) -> usize;

    /// Writes the value at `at` to the front of `out`, and says how long it is.
    fn put(&self, at: usize, out: &mut [u8]) -> usize;
}

#[inline]
fn put_varint(mut value: u64, out: &mut [u8]) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}

#[inline]
fn put_bytes(bytes: &[u8], out: &mut [u8]) -> usize {
    let at = put_varint(bytes.len() as u64, out);
    out[at..at + bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}

#[inline]
fn bytes_len(bytes: &[u8]) -> usize {
    varint_len(bytes.len() as u64) + bytes.len()
}

macro_rules! varints {
    ($name:ident, $native:ty, $value:expr) => {
        struct $name<'a>(&'a [$native]);

        impl Leaf for $name<'_> {
            #[inline]
            fn len(&self, at: usize) -> usize {
                varint_len(($value)(self.0[at]).cast_unsigned())
            }

            #[inline]
            fn put(&self, at: usize, out: &mut [u8]) -> usize {
                put_varint(($value)(self.0[at]).cast_unsigned(), out)
            }
        }
    };
}

varints!(Ints, i64, |value: i64| value);
varints!(Times, i64, packed_time);
varints!(DateTimes, i64, packed_datetime);
varints!(Dates, i32, |value: i32| i64::from(value));

struct Doubles<'a>(&'a [f64]);

impl Leaf for Doubles<'_> {
    #[inline]
    fn len(&self, _: usize) -> usize {
        8
    }

    #[inline]
    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        out[..8].copy_from_slice(&self.0[at].to_le_bytes());
        8
    }
}

struct Bools<'a>(&'a BooleanArray);

impl Leaf for Bools<'_> {
    #[inline]
    fn len(&self, _: usize) -> usize {
        1
    }

    #[inline]
    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        out[0] = self.0.value(at).into();
        1
    }
}

macro_rules! texts {
    ($($array:ty),*) => {$(
        impl Leaf for $array {
            #[inline]
            fn len(&self, at: usize) -> usize {
                bytes_len(self.value(at).as_ref())
            }

            #[inline]
            fn put(&self, at: usize, out: &mut [u8]) -> usize {
                put_bytes(self.value(at).as_ref(), out)
            }
        }
    )*};
}

texts!(
    StringArray,
    LargeStringArray,
    StringViewArray,
    BinaryArray,
    LargeBinaryArray,
    BinaryViewArray
);

/// NUMERIC: the integer of nine fractional digits, little-endian, as short as its
/// sign allows.
struct Decimals<'a>(&'a [i128]);

impl Leaf for Decimals<'_> {
    #[inline]
    fn len(&self, at: usize) -> usize {
        1 + short_i128(self.0[at])
    }

    #[inline]
    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        let value = self.0[at];
        put_bytes(&value.to_le_bytes()[..short_i128(value)], out)
    }
}

/// BIGNUMERIC: the same of 38 fractional digits.
struct BigDecimals<'a>(&'a [i256]);

impl Leaf for BigDecimals<'_> {
    #[inline]
    fn len(&self, at: usize) -> usize {
        1 + short_i256(self.0[at])
    }

    #[inline]
    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        let value = self.0[at];
        put_bytes(&value.to_le_bytes()[..short_i256(value)], out)
    }
}

/// The bytes that hold the value and its sign.
#[inline]
fn short_i128(value: i128) -> usize {
    let same = if value < 0 { !value } else { value };
    (128 - same.leading_zeros() as usize) / 8 + 1
}

#[inline]
fn short_i256(value: i256) -> usize {
    let (low, high) = value.to_parts();
    // The high half says nothing when it only repeats the sign.
    let low = low.cast_signed();
    if high == low >> 127 {
        short_i128(low)
    } else {
        16 + short_i128(high)
    }
}

struct Intervals<'a>(&'a [IntervalMonthDayNano]);

impl Intervals<'_> {
    fn text(&self, at: usize) -> Stack<64> {
        let mut text = Stack::new();
        write_interval(self.0[at], &mut text);
        text
    }
}

impl Leaf for Intervals<'_> {
    fn len(&self, at: usize) -> usize {
        bytes_len(self.text(at).as_bytes())
    }

    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        put_bytes(self.text(at).as_bytes(), out)
    }
}
