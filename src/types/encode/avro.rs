//! Rows in Avro's binary form.
//!
//! As for protobuf, columns are measured first and written second, each in one
//! loop that knows its type, into one buffer of exactly the right size. Avro
//! writes an absent value as the number of the union's branch, and a field of an
//! absent record not at all.

use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array,
    Decimal256Array, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float64Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};

use super::layout::{LaidOut, lay_out, span};
use super::plan::{Column, Value};
use crate::error::{Error, ErrorKind, Result};

/// Encodes `rows` rows of converted columns.
pub(super) fn encode(columns: &[Column], arrays: &[ArrayRef], rows: usize) -> Result<LaidOut> {
    let mut fields = fields(columns, arrays)?;
    let mut lengths = vec![0; rows];
    for field in &mut fields {
        field.measure(None, &mut lengths);
    }
    Ok(lay_out(lengths, |group, places, out| {
        for field in &fields {
            field.write(None, group.clone(), places, out);
        }
    }))
}

/// A field of records, with its values for the records of a batch.
struct Field<'a> {
    /// Whether the value is a union with null.
    nullable: bool,
    nulls: Option<&'a NullBuffer>,
    cells: Cells<'a>,
}

enum Cells<'a> {
    Long(&'a [i64]),
    Int(&'a [i32]),
    Double(&'a [f64]),
    Bool(&'a BooleanArray),
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    Decimal(&'a Decimal128Array),
    BigDecimal(&'a Decimal256Array),
    Record(Vec<Field<'a>>),
    List {
        offsets: &'a [i32],
        items: Box<Field<'a>>,
        /// The length of each element.
        lengths: Vec<usize>,
    },
}

fn fields<'a>(columns: &[Column], arrays: &'a [ArrayRef]) -> Result<Vec<Field<'a>>> {
    columns
        .iter()
        .zip(arrays)
        .map(|(column, array)| Field::new(column, array))
        .collect()
}

impl<'a> Field<'a> {
    fn new(column: &Column, array: &'a ArrayRef) -> Result<Self> {
        let nulls = |array: &'a ArrayRef| array.nulls().filter(|nulls| nulls.null_count() > 0);
        if column.repeated {
            let lists = array
                .as_list_opt::<i32>()
                .ok_or_else(|| unplanned(column, array))?;
            let values = lists.values();
            let items = Field {
                nullable: false,
                nulls: None,
                cells: cells(column, values)?,
            };
            return Ok(Field {
                nullable: false,
                nulls: None,
                cells: Cells::List {
                    offsets: lists.value_offsets(),
                    items: Box::new(items),
                    lengths: vec![0; values.len()],
                },
            });
        }
        Ok(Field {
            nullable: !column.required,
            nulls: nulls(array),
            cells: cells(column, array)?,
        })
    }

    /// Adds the bytes of the field to the length of each record that is there.
    fn measure(&mut self, holders: Option<&NullBuffer>, lengths: &mut [usize]) {
        let shape = Shape {
            branch: usize::from(self.nullable),
            nulls: self.nulls,
            holders,
        };
        match &mut self.cells {
            Cells::Long(values) => shape.measure(*values, lengths),
            Cells::Int(values) => shape.measure(*values, lengths),
            Cells::Double(values) => shape.measure(*values, lengths),
            Cells::Bool(values) => shape.measure(*values, lengths),
            Cells::Utf8(values) => shape.measure(*values, lengths),
            Cells::LargeUtf8(values) => shape.measure(*values, lengths),
            Cells::Utf8View(values) => shape.measure(*values, lengths),
            Cells::Binary(values) => shape.measure(*values, lengths),
            Cells::LargeBinary(values) => shape.measure(*values, lengths),
            Cells::BinaryView(values) => shape.measure(*values, lengths),
            Cells::Decimal(values) => shape.measure(*values, lengths),
            Cells::BigDecimal(values) => shape.measure(*values, lengths),
            Cells::Record(fields) => {
                shape.measure_by(|_| 0, lengths);
                for field in fields {
                    field.measure(self.nulls, lengths);
                }
            }
            Cells::List {
                offsets,
                items,
                lengths: inside,
            } => {
                items.measure(None, inside);
                shape.measure_by(
                    |at| {
                        let elements = span(offsets, at);
                        match elements.len() {
                            0 => 1,
                            count => {
                                // The count, the elements, and a count of zero.
                                long_len(long(count)) + inside[elements].iter().sum::<usize>() + 1
                            }
                        }
                    },
                    lengths,
                );
            }
        }
    }

    /// Writes the field of the records in `group`, each to its place in `out`, and
    /// moves the places behind it.
    fn write(
        &self,
        holders: Option<&NullBuffer>,
        group: Range<usize>,
        places: &mut [usize],
        out: &mut [u8],
    ) {
        match &self.cells {
            Cells::Long(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::Int(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::Double(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::Bool(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::Utf8(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::LargeUtf8(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::Utf8View(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::Binary(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::LargeBinary(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::BinaryView(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::Decimal(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::BigDecimal(values) => self.write_leaf(*values, holders, group, places, out),
            Cells::Record(fields) => {
                self.each(holders, group.clone(), places, out, |_, _| 0);
                for field in fields {
                    field.write(self.nulls, group.clone(), places, out);
                }
            }
            Cells::List {
                offsets,
                items,
                lengths,
            } => {
                let elements = span(offsets, group.start).start..span(offsets, group.end - 1).end;
                let mut inside = Vec::with_capacity(elements.len());
                for (at, place) in group.zip(places) {
                    // The lists of absent records are empty: there is no element
                    // to skip.
                    if holders.is_some_and(|holders| holders.is_null(at)) {
                        continue;
                    }
                    let span = span(offsets, at);
                    if !span.is_empty() {
                        *place += put_long(long(span.len()), &mut out[*place..]);
                        for element in span {
                            inside.push(*place);
                            *place += lengths[element];
                        }
                    }
                    *place += put_long(0, &mut out[*place..]);
                }
                if !inside.is_empty() {
                    items.write(None, elements, &mut inside, out);
                }
            }
        }
    }

    fn write_leaf<L: Leaf + ?Sized>(
        &self,
        leaf: &L,
        holders: Option<&NullBuffer>,
        group: Range<usize>,
        places: &mut [usize],
        out: &mut [u8],
    ) {
        self.each(holders, group, places, out, |at, out| leaf.put(at, out));
    }

    /// Writes the branch of each value that a record has, and what `put` makes of
    /// it.
    #[inline]
    fn each(
        &self,
        holders: Option<&NullBuffer>,
        group: Range<usize>,
        places: &mut [usize],
        out: &mut [u8],
        put: impl Fn(usize, &mut [u8]) -> usize,
    ) {
        match (holders, self.nulls) {
            (None, None) if self.nullable => {
                for (at, place) in group.zip(places) {
                    out[*place] = PRESENT;
                    *place += 1;
                    *place += put(at, &mut out[*place..]);
                }
            }
            (None, None) => {
                for (at, place) in group.zip(places) {
                    *place += put(at, &mut out[*place..]);
                }
            }
            (holders, nulls) => {
                for (at, place) in group.zip(places) {
                    if holders.is_some_and(|holders| holders.is_null(at)) {
                        continue;
                    }
                    let present = nulls.is_none_or(|nulls| nulls.is_valid(at));
                    if self.nullable {
                        out[*place] = if present { PRESENT } else { ABSENT };
                        *place += 1;
                    }
                    if present {
                        *place += put(at, &mut out[*place..]);
                    }
                }
            }
        }
    }
}

/// The branches of a union of null and something.
const ABSENT: u8 = 0;
const PRESENT: u8 = 2;

/// How values belong to records.
#[derive(Clone, Copy)]
struct Shape<'a> {
    /// The bytes of a branch.
    branch: usize,
    nulls: Option<&'a NullBuffer>,
    holders: Option<&'a NullBuffer>,
}

impl Shape<'_> {
    fn measure<L: Leaf + ?Sized>(self, leaf: &L, lengths: &mut [usize]) {
        self.measure_by(|at| leaf.len(at), lengths);
    }

    #[inline]
    fn measure_by(self, len: impl Fn(usize) -> usize, lengths: &mut [usize]) {
        match (self.holders, self.nulls) {
            (None, None) => {
                for (at, length) in lengths.iter_mut().enumerate() {
                    *length += self.branch + len(at);
                }
            }
            (holders, nulls) => {
                for (at, length) in lengths.iter_mut().enumerate() {
                    if holders.is_some_and(|holders| holders.is_null(at)) {
                        continue;
                    }
                    *length += self.branch;
                    if nulls.is_none_or(|nulls| nulls.is_valid(at)) {
                        *length += len(at);
                    }
                }
            }
        }
    }
}

fn cells<'a>(column: &Column, values: &'a ArrayRef) -> Result<Cells<'a>> {
    let wrong = || unplanned(column, values);
    Ok(match &column.value {
        Value::Int64 => {
            let values = values.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
            Cells::Long(values.values())
        }
        Value::Timestamp | Value::DateTime => {
            let values = values.as_primitive_opt::<TimestampMicrosecondType>();
            Cells::Long(values.ok_or_else(wrong)?.values())
        }
        Value::Time => {
            let values = values.as_primitive_opt::<Time64MicrosecondType>();
            Cells::Long(values.ok_or_else(wrong)?.values())
        }
        Value::Date => {
            let values = values.as_primitive_opt::<Date32Type>().ok_or_else(wrong)?;
            Cells::Int(values.values())
        }
        Value::Float64 => {
            let values = values.as_primitive_opt::<Float64Type>();
            Cells::Double(values.ok_or_else(wrong)?.values())
        }
        Value::Bool => Cells::Bool(values.as_boolean_opt().ok_or_else(wrong)?),
        Value::Text | Value::JsonText | Value::JsonDocument => match values.data_type() {
            DataType::Utf8 => Cells::Utf8(values.as_string()),
            DataType::LargeUtf8 => Cells::LargeUtf8(values.as_string()),
            DataType::Utf8View => Cells::Utf8View(values.as_string_view()),
            _ => return Err(wrong()),
        },
        Value::Bytes => match values.data_type() {
            DataType::Binary => Cells::Binary(values.as_binary()),
            DataType::LargeBinary => Cells::LargeBinary(values.as_binary()),
            DataType::BinaryView => Cells::BinaryView(values.as_binary_view()),
            _ => return Err(wrong()),
        },
        Value::Decimal(decimal) if decimal.wide => {
            let values = values.as_primitive_opt::<Decimal256Type>();
            Cells::BigDecimal(values.ok_or_else(wrong)?)
        }
        Value::Decimal(_) => {
            let values = values.as_primitive_opt::<Decimal128Type>();
            Cells::Decimal(values.ok_or_else(wrong)?)
        }
        Value::Struct(columns) => {
            let structs = values.as_struct_opt().ok_or_else(wrong)?;
            Cells::Record(fields(columns, structs.columns())?)
        }
        // Refused when the encoder was planned.
        Value::Interval | Value::Range(_) => return Err(wrong()),
    })
}

fn unplanned(column: &Column, array: &ArrayRef) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!(
            "column '{}' was converted to {}, which no Avro file can be written from",
            column.path,
            array.data_type()
        ),
    )
}

/// Values that are written as they stand.
trait Leaf {
    fn len(&self, at: usize) -> usize;
    /// Writes the value and answers its length.
    fn put(&self, at: usize, out: &mut [u8]) -> usize;
}

impl Leaf for [i64] {
    #[inline]
    fn len(&self, at: usize) -> usize {
        long_len(self[at])
    }

    #[inline]
    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        put_long(self[at], out)
    }
}

impl Leaf for [i32] {
    #[inline]
    fn len(&self, at: usize) -> usize {
        long_len(self[at].into())
    }

    #[inline]
    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        put_long(self[at].into(), out)
    }
}

impl Leaf for [f64] {
    #[inline]
    fn len(&self, _: usize) -> usize {
        8
    }

    #[inline]
    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        out[..8].copy_from_slice(&self[at].to_le_bytes());
        8
    }
}

impl Leaf for BooleanArray {
    #[inline]
    fn len(&self, _: usize) -> usize {
        1
    }

    #[inline]
    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        out[0] = u8::from(self.value(at));
        1
    }
}

macro_rules! bytes_leaf {
    ($($array:ty, $value:ident => $bytes:expr;)*) => {$(
        impl Leaf for $array {
            #[inline]
            fn len(&self, at: usize) -> usize {
                let $value = self.value(at);
                bytes_len($bytes)
            }

            #[inline]
            fn put(&self, at: usize, out: &mut [u8]) -> usize {
                let $value = self.value(at);
                put_bytes($bytes, out)
            }
        }
    )*};
}

bytes_leaf! {
    StringArray, value => value.as_bytes();
    LargeStringArray, value => value.as_bytes();
    StringViewArray, value => value.as_bytes();
    BinaryArray, value => value;
    LargeBinaryArray, value => value;
    BinaryViewArray, value => value;
    Decimal256Array, value => shortest(&value.to_be_bytes());
}

impl Leaf for Decimal128Array {
    #[inline]
    fn len(&self, at: usize) -> usize {
        1 + two_complement_bytes(self.value(at))
    }

    #[inline]
    fn put(&self, at: usize, out: &mut [u8]) -> usize {
        let value = self.value(at);
        let length = two_complement_bytes(value);
        // A length of at most 16 is one byte.
        let head = put_long(long(length), out);
        // Most numbers have eight bytes at most.
        if length <= 8 {
            let bytes = (value as i64).to_be_bytes();
            out[head..head + length].copy_from_slice(&bytes[8 - length..]);
        } else {
            out[head..head + length].copy_from_slice(&value.to_be_bytes()[16 - length..]);
        }
        head + length
    }
}

/// How many bytes it takes to write a number in two's complement.
#[inline]
fn two_complement_bytes(value: i128) -> usize {
    // The bits that differ from the sign, and one for the sign.
    let bits = 129 - (value ^ (value >> 127)).leading_zeros();
    bits.div_ceil(8) as usize
}

/// The fewest bytes that are the same number in two's complement.
#[inline]
fn shortest(bytes: &[u8]) -> &[u8] {
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
    let mut first = 0;
    while first + 1 < bytes.len()
        && bytes[first] == sign
        && (bytes[first + 1] & 0x80) == (sign & 0x80)
    {
        first += 1;
    }
    &bytes[first..]
}

#[inline]
fn bytes_len(bytes: &[u8]) -> usize {
    long_len(long(bytes.len())) + bytes.len()
}

#[inline]
fn put_bytes(bytes: &[u8], out: &mut [u8]) -> usize {
    let head = put_long(long(bytes.len()), out);
    out[head..head + bytes.len()].copy_from_slice(bytes);
    head + bytes.len()
}

/// A length as the format has it.
#[inline]
pub(super) fn long(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Positive and negative numbers in turn, so that small ones are short.
#[inline]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
pub(super) fn long_len(value: i64) -> usize {
    super::rows::varint_len(zigzag(value))
}

#[inline]
pub(super) fn put_long(value: i64, out: &mut [u8]) -> usize {
    let mut rest = zigzag(value);
    let mut at = 0;
    while rest >= 0x80 {
        out[at] = (rest as u8) | 0x80;
        rest >>= 7;
        at += 1;
    }
    out[at] = rest as u8;
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_lengths_and_bytes_of_the_format() {
        for (value, bytes) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (
                i64::MAX,
                &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            ),
            (
                i64::MIN,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            ),
        ] {
            let mut out = [0; 10];
            let length = put_long(value, &mut out);
            assert_eq!(&out[..length], bytes, "{value}");
            assert_eq!(long_len(value), length, "{value}");
        }
    }

    #[test]
    fn decimals_lose_only_bytes_that_repeat_the_sign() {
        for (value, bytes) in [
            (0_i128, &[0][..]),
            (127, &[0x7f]),
            (128, &[0, 0x80]),
            (-1, &[0xff]),
            (-128, &[0x80]),
            (-129, &[0xff, 0x7f]),
            (256, &[1, 0]),
        ] {
            assert_eq!(shortest(&value.to_be_bytes()), bytes, "{value}");
            let mut out = [9; 17];
            let narrow = Decimal128Array::from(vec![value]);
            assert_eq!(Leaf::len(&narrow, 0), 1 + bytes.len(), "{value}");
            assert_eq!(narrow.put(0, &mut out), 1 + bytes.len(), "{value}");
            assert_eq!(out[0], 2 * bytes.len() as u8, "{value}");
            assert_eq!(&out[1..=bytes.len()], bytes, "{value}");
        }
        for bit in 0..127 {
            for value in [
                1_i128 << bit,
                -(1_i128 << bit),
                (1_i128 << bit) - 1,
                -(1_i128 << bit) - 1,
            ] {
                let (bytes, mut out) = (value.to_be_bytes(), [9; 17]);
                let length = Decimal128Array::from(vec![value]).put(0, &mut out);
                assert_eq!(&out[1..length], shortest(&bytes), "{value}");
            }
        }
        for value in [i128::MIN, i128::MAX] {
            assert_eq!(two_complement_bytes(value), 16);
        }
        assert_eq!(shortest(&i128::MIN.to_be_bytes()).len(), 16);
    }
}
