//! Rows for predicates: a column of every kind that filters can be about, full
//! of the values that go wrong.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, Float64Array, Int64Array, ListBuilder, RecordBatch, StringArray,
    StringBuilder, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field as ArrowField, Float64Type,
    Int64Type, Schema, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, i256,
};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::values::{BYTES, CENTS, DATES, EXTREMES, FLOATS, INTS, MICROS, NUMERICS, TEXTS, TIMES};
use crate::filter::googlesql::{Decimal, Row, Value};
use crate::types::{DecimalParameters, Field, FieldType, Mode, TableSchema, TimestampDigits};

/// A value of 76 digits.
pub(super) const BIG_EXTREME: i256 = i256::from_parts(
    0x7775_a5f1_7195_0fff_ffff_ffff_ffff_ffff,
    0x161b_cca7_1199_15b5_0764_b4ab_e865_2979,
);

/// Rows of a batch.
pub(super) const ROWS: usize = 24;

/// Whether rows hold times that nanoseconds do not reach: many casts of
/// DataFusion fail on them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extremes {
    Included,
    LeftOut,
}

/// The table as BigQuery describes it.
pub(super) fn table() -> TableSchema {
    let field = |name: &str, field_type| Field::new(name, field_type, Mode::Nullable);
    let cents = Some(DecimalParameters {
        precision: 10,
        scale: 2,
    });
    let mut folded = field("folded", FieldType::String);
    folded.collation = Some("und:ci".to_string());
    TableSchema {
        fields: vec![
            field("n", FieldType::Int64),
            Field::new("req", FieldType::Int64, Mode::Required),
            field("f", FieldType::Float64),
            field("name", FieldType::String),
            folded,
            field("raw", FieldType::Bytes),
            field("flag", FieldType::Bool),
            field("d", FieldType::Date),
            field("dt", FieldType::DateTime),
            field("ts", FieldType::Timestamp(TimestampDigits::Six)),
            field("fine", FieldType::Timestamp(TimestampDigits::Twelve)),
            field("t", FieldType::Time),
            field("num", FieldType::Numeric(None)),
            field("cents", FieldType::Numeric(cents)),
            field("big", FieldType::BigNumeric(None)),
            field("doc", FieldType::Json),
            Field::new("tags", FieldType::String, Mode::Repeated),
            field(
                "s",
                FieldType::Struct(vec![
                    field("a", FieldType::Int64),
                    field("name", FieldType::String),
                    field("at", FieldType::DateTime),
                    field("ok", FieldType::Bool),
                    field(
                        "deep",
                        FieldType::Struct(vec![
                            field("x", FieldType::Float64),
                            field("num", FieldType::Numeric(None)),
                        ]),
                    ),
                ]),
            ),
        ],
    }
}

/// Values at random, a part of them NULL.
struct Columns<'a> {
    random: &'a mut StdRng,
    micros: Vec<i64>,
    dates: Vec<i32>,
}

impl Columns<'_> {
    fn of<T: Clone>(&mut self, pool: &[T]) -> Vec<Option<T>> {
        (0..ROWS)
            .map(|_| match self.random.random_ratio(1, 6) {
                true => None,
                false => pool.choose(self.random).cloned(),
            })
            .collect()
    }

    fn ints(&mut self) -> ArrayRef {
        Arc::new(Int64Array::from(self.of(&INTS)))
    }

    fn floats(&mut self) -> ArrayRef {
        Arc::new(Float64Array::from(self.of(&FLOATS)))
    }

    fn texts(&mut self) -> ArrayRef {
        Arc::new(StringArray::from(self.of(&TEXTS)))
    }

    fn bools(&mut self) -> ArrayRef {
        Arc::new(BooleanArray::from(self.of(&[true, false])))
    }

    fn times(&mut self, zone: Option<&str>) -> ArrayRef {
        let micros = self.micros.clone();
        let array = TimestampMicrosecondArray::from(self.of(&micros));
        Arc::new(array.with_timezone_opt(zone))
    }

    fn numerics(&mut self) -> ArrayRef {
        let array = Decimal128Array::from(self.of(&NUMERICS));
        Arc::new(array.with_precision_and_scale(38, 9).unwrap())
    }

    fn nulls(&mut self) -> NullBuffer {
        (0..ROWS)
            .map(|_| !self.random.random_ratio(1, 5))
            .collect::<Vec<_>>()
            .into()
    }
}

/// Random rows of [`table`].
pub(super) fn batch(random: &mut StdRng, extremes: Extremes) -> RecordBatch {
    let mut micros = MICROS.to_vec();
    let mut dates = DATES.to_vec();
    match extremes {
        Extremes::Included => micros.extend(EXTREMES),
        Extremes::LeftOut => dates.retain(|days| days.abs() < 30_000),
    }
    let mut columns = Columns {
        random,
        micros,
        dates,
    };
    let required: Vec<i64> = columns
        .of(&INTS)
        .into_iter()
        .map(|value| value.unwrap_or(7))
        .collect();
    let dates = columns.dates.clone();
    let bigs: Vec<i256> = NUMERICS
        .iter()
        .map(|units| i256::from_i128(*units).wrapping_mul(i256::from_i128(10_i128.pow(20))))
        .chain([BIG_EXTREME, BIG_EXTREME.wrapping_neg()])
        .collect();
    let mut tags = ListBuilder::new(StringBuilder::new());
    for _ in 0..ROWS {
        for _ in 0..columns.random.random_range(0..3) {
            tags.values()
                .append_value(TEXTS.choose(columns.random).unwrap());
        }
        tags.append(true);
    }
    let deep: Vec<(&str, ArrayRef)> = vec![("x", columns.floats()), ("num", columns.numerics())];
    let deep = structs(deep, columns.nulls());
    let nested: Vec<(&str, ArrayRef)> = vec![
        ("a", columns.ints()),
        ("name", columns.texts()),
        ("at", columns.times(None)),
        ("ok", columns.bools()),
        ("deep", deep),
    ];
    let nested = structs(nested, columns.nulls());
    let cents = Decimal128Array::from(columns.of(&CENTS));
    let bigs = Decimal256Array::from(columns.of(&bigs));
    let all: Vec<(&str, ArrayRef)> = vec![
        ("n", columns.ints()),
        ("req", Arc::new(Int64Array::from(required))),
        ("f", columns.floats()),
        ("name", columns.texts()),
        ("folded", columns.texts()),
        ("raw", Arc::new(BinaryArray::from(columns.of(&BYTES)))),
        ("flag", columns.bools()),
        ("d", Arc::new(Date32Array::from(columns.of(&dates)))),
        ("dt", columns.times(None)),
        ("ts", columns.times(Some("UTC"))),
        ("fine", columns.times(Some("UTC"))),
        (
            "t",
            Arc::new(Time64MicrosecondArray::from(columns.of(&TIMES))),
        ),
        ("num", columns.numerics()),
        (
            "cents",
            Arc::new(cents.with_precision_and_scale(10, 2).unwrap()),
        ),
        (
            "big",
            Arc::new(bigs.with_precision_and_scale(76, 38).unwrap()),
        ),
        ("doc", columns.texts()),
        ("tags", Arc::new(tags.finish())),
        ("s", nested),
    ];
    let fields: Vec<_> = all
        .iter()
        .map(|(name, array)| {
            let nullable = !matches!(*name, "req" | "tags");
            ArrowField::new(*name, array.data_type().clone(), nullable)
        })
        .collect();
    let arrays = all.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn structs(columns: Vec<(&str, ArrayRef)>, nulls: NullBuffer) -> ArrayRef {
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array)| ArrowField::new(*name, array.data_type().clone(), true))
        .collect();
    let outside = BooleanArray::new(!nulls.inner(), None);
    let arrays = columns
        .into_iter()
        .map(|(_, array)| without(&array, &outside))
        .collect();
    Arc::new(StructArray::new(fields.into(), arrays, Some(nulls)))
}

/// NULL where `outside` is TRUE, at every depth: a scan delivers fields of NULL
/// as NULL.
fn without(array: &ArrayRef, outside: &BooleanArray) -> ArrayRef {
    let array = nullif(array, outside).unwrap();
    let DataType::Struct(fields) = array.data_type() else {
        return array;
    };
    let children = array.as_struct().columns().iter();
    let children = children.map(|child| without(child, outside)).collect();
    Arc::new(StructArray::new(
        fields.clone(),
        children,
        array.nulls().cloned(),
    ))
}

/// The row as the evaluator's values, nested fields by dotted names. What is
/// NULL in its struct's place is NULL.
pub(super) fn row(batch: &RecordBatch, index: usize) -> Row {
    let mut row = Row::new();
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        add(&mut row, field.name().clone(), array, index, Outer::Present);
    }
    row
}

/// Whether the struct around a field is NULL.
#[derive(Clone, Copy, PartialEq)]
enum Outer {
    Present,
    Null,
}

fn add(row: &mut Row, name: String, array: &ArrayRef, index: usize, outer: Outer) {
    let null = outer == Outer::Null || array.is_null(index);
    match array.data_type() {
        DataType::Struct(fields) => {
            for (field, child) in fields.iter().zip(array.as_struct().columns()) {
                let outer = if null { Outer::Null } else { Outer::Present };
                add(row, format!("{name}.{}", field.name()), child, index, outer);
            }
        }
        // No restriction may name these.
        DataType::List(_) => {}
        _ if name == "doc" || name == "fine" => {
            let value = if null { Value::Null } else { Value::Opaque };
            row.insert(name, value);
        }
        _ if null => {
            row.insert(name, Value::Null);
        }
        _ if name == "folded" => {
            let text = array.as_string::<i32>().value(index).to_string();
            row.insert(name, Value::FoldedText(text));
        }
        _ => {
            row.insert(name, value(array, index));
        }
    }
}

fn value(array: &ArrayRef, index: usize) -> Value {
    match array.data_type() {
        DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(index)),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(index)),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(index).to_string()),
        DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(index).to_vec()),
        DataType::Boolean => Value::Bool(array.as_boolean().value(index)),
        DataType::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(index).into()),
        DataType::Time64(_) => {
            Value::Time(array.as_primitive::<Time64MicrosecondType>().value(index))
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let micros = array
                .as_primitive::<TimestampMicrosecondType>()
                .value(index);
            match zone {
                Some(_) => Value::Timestamp(micros),
                None => Value::DateTime(micros),
            }
        }
        DataType::Decimal128(..) => {
            let array = array.as_primitive::<Decimal128Type>();
            Value::Decimal(Decimal::parse(&array.value_as_string(index)))
        }
        DataType::Decimal256(..) => {
            let array = array.as_primitive::<Decimal256Type>();
            Value::Decimal(Decimal::parse(&array.value_as_string(index)))
        }
        other => panic!("no column has type {other}"),
    }
}
