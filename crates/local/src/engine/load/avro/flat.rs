//! Blocks of records that have scalars only, decoded straight into columns of the right
//! size. What is not as it should be is left to the Avro library, which says so.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Decimal128Array, Float32Array,
    Float64Array, Int32Array, Int64Array, NullBufferBuilder, RecordBatch, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use serde_json::Value;

use super::super::convert::{FileField, Leaf, Shape};
use super::super::decimals::big_endian_narrow;
use crate::schema::{FieldType, TableSchema};

/// The largest scale of NUMERIC.
const NUMERIC_SCALE: u8 = 9;

/// How to decode the records of a file.
#[derive(Debug)]
pub(super) struct Flat(Vec<Column>);

#[derive(Debug)]
struct Column {
    name: String,
    wire: Wire,
    /// The byte that says NULL, of a column that can be NULL.
    null: Option<u8>,
}

/// How a value is written, and what it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    /// Bytes that are a decimal, as one of this scale after a multiplication.
    Decimal(u8, i128),
}

impl Flat {
    /// For files whose schema, without logical types, is `schema`; its fields mean `fields`
    /// and go to columns of `targets`. None where there are others than scalars.
    pub(super) fn of(schema: &Value, fields: &[FileField], targets: &TableSchema) -> Option<Self> {
        let types = schema.get("fields")?.as_array()?;
        if types.len() != fields.len() {
            return None;
        }
        let columns = types.iter().zip(fields).map(|(field, known)| {
            let (written, null) = nullable(field.get("type")?)?;
            Some(Column {
                name: known.name.clone(),
                wire: wire(written, known, targets)?,
                null,
            })
        });
        Some(Self(columns.collect::<Option<_>>()?))
    }

    /// The columns of `rows` records that are all of `content`; None when they are not.
    pub(super) fn decode(
        &self,
        content: &[u8],
        rows: usize,
        texts: &mut Vec<Vec<u8>>,
    ) -> Option<RecordBatch> {
        // Every value takes a byte: no block can ask for more memory than it is worth.
        if rows.checked_mul(self.0.len())? > content.len() {
            return None;
        }
        texts.resize_with(self.0.len().max(texts.len()), Vec::new);
        let mut columns: Vec<_> = self
            .0
            .iter()
            .zip(texts)
            .map(|(column, text)| Builder::new(column, rows, text))
            .collect();
        let mut input = Input(content);
        for _ in 0..rows {
            for column in &mut columns {
                column.read(&mut input)?;
            }
        }
        if !input.0.is_empty() {
            return None;
        }
        let columns = columns.into_iter().map(Builder::finish);
        let columns: Vec<ArrayRef> = columns.collect::<Option<_>>()?;
        let names = self.0.iter().map(|column| column.name.as_str());
        RecordBatch::try_from_iter_with_nullable(names.zip(columns).map(|(n, c)| (n, c, true))).ok()
    }
}

/// A type, or the other one of a union with NULL, and the byte that says NULL.
fn nullable(declared: &Value) -> Option<(&Value, Option<u8>)> {
    let Value::Array(branches) = declared else {
        return Some((declared, None));
    };
    match branches.as_slice() {
        [null, other] if null == "null" => Some((other, Some(0))),
        [other, null] if null == "null" => Some((other, Some(2))),
        _ => None,
    }
}

fn wire(written: &Value, known: &FileField, targets: &TableSchema) -> Option<Wire> {
    let Shape::Value(leaf) = &known.shape else {
        return None;
    };
    let name = match written {
        Value::Object(definition) => definition.get("type")?,
        name => name,
    };
    let wire = match name.as_str()? {
        "boolean" => Wire::Boolean,
        "int" => Wire::Int,
        "long" => Wire::Long,
        "float" => Wire::Float,
        "double" => Wire::Double,
        "bytes" => Wire::Bytes,
        "string" => Wire::Text,
        _ => return None,
    };
    let Leaf::DecimalBytes { scale } = *leaf else {
        return Some(wire);
    };
    if wire != Wire::Bytes || scale > 38 {
        return None;
    }
    let numeric = targets
        .field(&known.name)
        .is_some_and(|target| target.field_type == FieldType::Numeric);
    Some(match NUMERIC_SCALE.checked_sub(scale) {
        Some(more) if numeric => Wire::Decimal(NUMERIC_SCALE, 10_i128.pow(more.into())),
        _ => Wire::Decimal(scale, 1),
    })
}

/// What of a block is not yet decoded.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// A zigzag variable-length integer.
    #[inline(always)]
    fn long(&mut self) -> Option<i64> {
        let (first, rest) = self.0.split_first()?;
        if *first < 0x80 {
            self.0 = rest;
            return Some(zigzag(u64::from(*first)));
        }
        self.longer()
    }

    fn longer(&mut self) -> Option<i64> {
        let mut value = 0_u64;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            if at == 9 && *byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Some(zigzag(value));
            }
        }
        None
    }

    #[inline]
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.long()?).ok()?;
        self.take(length)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// A column that is being decoded.
struct Builder<'a> {
    values: Values<'a>,
    valid: NullBufferBuilder,
    null: Option<u8>,
}

enum Values<'a> {
    Boolean(BooleanBufferBuilder),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal(Vec<i128>, u8, i128),
    /// Bytes or text, put together in memory that is used again for the next block,
    /// because nothing says beforehand how much they are.
    Bytes(&'a mut Vec<u8>, Vec<i32>),
    Text(&'a mut Vec<u8>, Vec<i32>),
}

impl<'a> Builder<'a> {
    fn new(column: &Column, rows: usize, text: &'a mut Vec<u8>) -> Self {
        text.clear();
        let ends = || {
            let mut ends = Vec::with_capacity(rows + 1);
            ends.push(0);
            ends
        };
        Self {
            values: match column.wire {
                Wire::Boolean => Values::Boolean(BooleanBufferBuilder::new(rows)),
                Wire::Int => Values::Int(Vec::with_capacity(rows)),
                Wire::Long => Values::Long(Vec::with_capacity(rows)),
                Wire::Float => Values::Float(Vec::with_capacity(rows)),
                Wire::Double => Values::Double(Vec::with_capacity(rows)),
                Wire::Decimal(scale, factor) => {
                    Values::Decimal(Vec::with_capacity(rows), scale, factor)
                }
                Wire::Bytes => Values::Bytes(text, ends()),
                Wire::Text => Values::Text(text, ends()),
            },
            valid: NullBufferBuilder::new(rows),
            null: column.null,
        }
    }

    #[inline]
    fn read(&mut self, input: &mut Input) -> Option<()> {
        if let Some(null) = self.null {
            // Which branch a value has is written as a number: 0 or 1, in one byte.
            let [branch] = input.fixed()?;
            if branch == null {
                self.valid.append_null();
                self.values.push_null();
                return Some(());
            }
            if branch > 2 || branch % 2 == 1 {
                return None;
            }
            self.valid.append_non_null();
        }
        self.values.read(input)
    }

    fn finish(self) -> Option<ArrayRef> {
        let mut valid = self.valid;
        self.values.finish(valid.finish())
    }
}

impl Values<'_> {
    #[inline]
    fn read(&mut self, input: &mut Input) -> Option<()> {
        match self {
            Values::Long(values) => values.push(input.long()?),
            Values::Int(values) => values.push(i32::try_from(input.long()?).ok()?),
            Values::Decimal(values, _, factor) => {
                values.push(big_endian_narrow(input.bytes()?)?.checked_mul(*factor)?);
            }
            Values::Bytes(bytes, ends) | Values::Text(bytes, ends) => {
                bytes.extend_from_slice(input.bytes()?);
                ends.push(i32::try_from(bytes.len()).ok()?);
            }
            Values::Boolean(values) => values.append(match input.fixed::<1>()? {
                [0] => false,
                [1] => true,
                _ => return None,
            }),
            Values::Float(values) => values.push(f32::from_le_bytes(input.fixed()?)),
            Values::Double(values) => values.push(f64::from_le_bytes(input.fixed()?)),
        }
        Some(())
    }

    fn push_null(&mut self) {
        match self {
            Values::Boolean(values) => values.append(false),
            Values::Int(values) => values.push(0),
            Values::Long(values) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Decimal(values, _, _) => values.push(0),
            Values::Bytes(_, ends) | Values::Text(_, ends) => {
                ends.push(ends.last().copied().unwrap_or(0));
            }
        }
    }

    fn finish(self, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
        let offsets = |ends: Vec<i32>| OffsetBuffer::new(ScalarBuffer::from(ends));
        Some(match self {
            Values::Boolean(mut values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int(values) => Arc::new(Int32Array::new(values.into(), nulls)),
            Values::Long(values) => Arc::new(Int64Array::new(values.into(), nulls)),
            Values::Float(values) => Arc::new(Float32Array::new(values.into(), nulls)),
            Values::Double(values) => Arc::new(Float64Array::new(values.into(), nulls)),
            Values::Decimal(values, scale, _) => {
                let scale = i8::try_from(scale).ok()?;
                let decimals = Decimal128Array::new(values.into(), nulls);
                Arc::new(decimals.with_precision_and_scale(38, scale).ok()?)
            }
            Values::Bytes(bytes, ends) => {
                let bytes = Buffer::from_slice_ref(bytes.as_slice());
                Arc::new(BinaryArray::try_new(offsets(ends), bytes, nulls).ok()?)
            }
            Values::Text(bytes, ends) => {
                let bytes = Buffer::from_slice_ref(bytes.as_slice());
                Arc::new(StringArray::try_new(offsets(ends), bytes, nulls).ok()?)
            }
        })
    }
}
