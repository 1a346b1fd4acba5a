//! Random predicates over random rows: whatever DataFusion keeps, the
//! restriction accepts; and where the condition claims to be equivalent, the two
//! keep the same rows.
//!
//! The seed is in the message of a failure. `SOUNDNESS_SEED` and
//! `SOUNDNESS_CASES` repeat and extend a run.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, Float64Array, Int64Array, RecordBatch, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field as ArrowField, Float64Type,
    Int64Type, Schema, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, i256,
};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::condition::Condition;
use super::googlesql::{Decimal, Row, Value, accepts};
use super::literal::{MAX_DATE, MAX_MICROS, MIN_DATE, MIN_MICROS};
use super::restriction::Restriction;
use super::tests::offered_by;
use super::translate::translate;
use crate::types::{Field, FieldType, Mode, TableSchema, TimestampDigits};

const INTS: [i64; 11] = [
    0,
    1,
    -1,
    2,
    3,
    5,
    1 << 53,
    (1 << 53) + 1,
    -(1 << 53),
    i64::MAX,
    i64::MIN,
];
const FLOATS: [f64; 13] = [
    0.0,
    -0.0,
    1.5,
    -1.5,
    2.0,
    1e300,
    f64::MAX,
    f64::MIN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    5e-324,
    3.0,
];
const TEXTS: [&str; 14] = [
    "",
    "a",
    "A",
    "ab",
    "a_b",
    "a%b",
    "50%_x",
    "it's",
    "back\\slash",
    "line\nend",
    "\u{1}ctl",
    "é漢🦀",
    "`tick` \"q\"",
    "\\",
];
const BYTES: [&[u8]; 5] = [b"", b"\x00", b"'\\", b"\xff\x00", b"a"];
const DATES: [i32; 10] = [
    MIN_DATE,
    MIN_DATE + 1,
    -1,
    0,
    1,
    19_782,
    19_783,
    19_813,
    MAX_DATE - 1,
    MAX_DATE,
];
/// Around 1970, 2024-03-01 and inside what nanoseconds reach.
const MICROS: [i64; 14] = [
    -86_400_000_001,
    -86_400_000_000,
    -3_600_000_001,
    -1,
    0,
    1,
    999_999,
    1_000_000,
    1_709_251_199_999_999,
    1_709_251_200_000_000,
    1_709_251_200_000_001,
    1_709_294_400_500_000,
    1_711_929_600_000_000,
    1_735_689_600_000_000,
];
const EXTREMES: [i64; 4] = [MIN_MICROS, MIN_MICROS + 1, MAX_MICROS - 1, MAX_MICROS];
const TIMES: [i64; 5] = [0, 1, 3_600_000_000, 3_723_500_000, 86_399_999_999];
const NUMERICS: [i128; 9] = [
    0,
    1,
    -1,
    1_500_000_000,
    -1_500_000_000,
    12_000_000_000,
    12_345_678_901,
    99_999_999_999_999_999_999_999_999_999_999_999_999,
    100_000_000,
];

fn table() -> TableSchema {
    let field = |name: &str, field_type| Field::new(name, field_type, Mode::Nullable);
    TableSchema {
        fields: vec![
            field("n", FieldType::Int64),
            field("f", FieldType::Float64),
            field("s", FieldType::String),
            field("raw", FieldType::Bytes),
            field("flag", FieldType::Bool),
            field("d", FieldType::Date),
            field("dt", FieldType::DateTime),
            field("ts", FieldType::Timestamp(TimestampDigits::Six)),
            field("t", FieldType::Time),
            field("num", FieldType::Numeric(None)),
            field("big", FieldType::BigNumeric(None)),
        ],
    }
}

fn batch(random: &mut StdRng, extremes: Extremes) -> RecordBatch {
    fn column<T: Clone>(random: &mut StdRng, pool: &[T]) -> Vec<Option<T>> {
        (0..ROWS)
            .map(|_| match random.random_ratio(1, 6) {
                true => None,
                false => pool.choose(random).cloned(),
            })
            .collect()
    }
    let mut micros = MICROS.to_vec();
    let mut dates = DATES.to_vec();
    match extremes {
        Extremes::Included => micros.extend(EXTREMES),
        Extremes::LeftOut => dates.retain(|days| days.abs() < 30_000),
    }
    let bigs: Vec<i256> = NUMERICS
        .iter()
        .map(|units| i256::from_i128(*units).wrapping_mul(i256::from_i128(10_i128.pow(20))))
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from(column(random, &INTS)))),
        ("f", Arc::new(Float64Array::from(column(random, &FLOATS)))),
        ("s", Arc::new(StringArray::from(column(random, &TEXTS)))),
        ("raw", Arc::new(BinaryArray::from(column(random, &BYTES)))),
        (
            "flag",
            Arc::new(BooleanArray::from(column(random, &[true, false]))),
        ),
        ("d", Arc::new(Date32Array::from(column(random, &dates)))),
        (
            "dt",
            Arc::new(TimestampMicrosecondArray::from(column(random, &micros))),
        ),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(column(random, &micros)).with_timezone("UTC")),
        ),
        (
            "t",
            Arc::new(Time64MicrosecondArray::from(column(random, &TIMES))),
        ),
        (
            "num",
            Arc::new(
                Decimal128Array::from(column(random, &NUMERICS))
                    .with_precision_and_scale(38, 9)
                    .unwrap(),
            ),
        ),
        (
            "big",
            Arc::new(
                Decimal256Array::from(column(random, &bigs))
                    .with_precision_and_scale(76, 38)
                    .unwrap(),
            ),
        ),
    ];
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let all = columns.into_iter().chain([("id", id)]);
    let fields: Vec<_> = all
        .clone()
        .map(|(name, array)| ArrowField::new(name, array.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        all.map(|(_, array)| array).collect(),
    )
    .unwrap()
}

const ROWS: usize = 24;

/// Whether rows hold times that nanoseconds do not reach: many casts of
/// DataFusion fail on them.
#[derive(Debug, Clone, Copy)]
enum Extremes {
    Included,
    LeftOut,
}

/// The row as the evaluator's values.
fn row(batch: &RecordBatch, index: usize) -> Row {
    batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, array)| (field.name().clone(), value(array, index)))
        .collect()
}

fn value(array: &ArrayRef, index: usize) -> Value {
    if array.is_null(index) {
        return Value::Null;
    }
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

fn pick<'a>(random: &mut StdRng, pool: &[&'a str]) -> &'a str {
    pool.choose(random).unwrap()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A value, and literals that it may be compared with.
fn operand(random: &mut StdRng) -> (String, Vec<String>) {
    let own = |items: &[&str]| {
        items
            .iter()
            .map(|item| item.to_string())
            .collect::<Vec<_>>()
    };
    let micros: Vec<i64> = MICROS.to_vec();
    let instants = |zone: &str| -> Vec<String> {
        let arrow_zone = match zone {
            "" => "None".to_string(),
            zone => format!("Some(\"{zone}\")"),
        };
        let mut all = Vec::new();
        for value in &micros {
            all.push(format!(
                "arrow_cast({value}, 'Timestamp(Microsecond, {arrow_zone})')"
            ));
            all.push(format!(
                "arrow_cast({}, 'Timestamp(Nanosecond, {arrow_zone})')",
                value * 1_000 + 1
            ));
            all.push(format!(
                "arrow_cast({}, 'Timestamp(Millisecond, {arrow_zone})')",
                value / 1_000
            ));
        }
        all
    };
    let dates: Vec<String> = DATES
        .iter()
        .filter(|days| days.abs() < 30_000)
        .map(|days| format!("arrow_cast({days}, 'Date32')"))
        .collect();
    match random.random_range(0..20) {
        0 | 1 => {
            let mut all: Vec<String> = INTS[..10].iter().map(ToString::to_string).collect();
            all.extend(own(&["2.5", "-0.5", "1e3", "3.0"]));
            ("n".to_string(), all)
        }
        2 => {
            let cast = pick(
                random,
                &[
                    "CAST(n AS DOUBLE)",
                    "CAST(n AS DECIMAL(30, 3))",
                    "TRY_CAST(n AS INT)",
                ],
            );
            (
                cast.to_string(),
                own(&["2.5", "0", "-1", "1.0", "9007199254740992.0", "3"]),
            )
        }
        3 | 4 => (
            "f".to_string(),
            own(&[
                "0.0",
                "-0.0",
                "1.5",
                "-1.5",
                "1e300",
                "CAST('NaN' AS DOUBLE)",
                "CAST('inf' AS DOUBLE)",
                "CAST('-inf' AS DOUBLE)",
                "2",
                "5e-324",
            ]),
        ),
        5 | 6 => (
            "s".to_string(),
            TEXTS.iter().map(|text| quoted(text)).collect(),
        ),
        7 => (
            "raw".to_string(),
            own(&["X''", "X'00'", "X'275c'", "X'ff00'", "X'61'"]),
        ),
        8 | 9 => {
            let mut all = dates;
            all.extend(own(&["'2024-03-01'", "'1970-01-01'"]));
            ("d".to_string(), all)
        }
        10 => {
            let cast = pick(random, &["CAST(d AS TIMESTAMP)", "date_trunc('month', d)"]);
            (cast.to_string(), instants(""))
        }
        11 => ("dt".to_string(), instants("")),
        12 => ("ts".to_string(), instants("UTC")),
        13 => ("CAST(ts AS DATE)".to_string(), dates),
        14 => {
            let unit = pick(
                random,
                &[
                    "second", "minute", "hour", "day", "week", "month", "quarter", "year",
                ],
            );
            match random.random_bool(0.5) {
                true => (format!("date_trunc('{unit}', ts)"), instants("UTC")),
                false => (format!("date_trunc('{unit}', dt)"), instants("")),
            }
        }
        15 => {
            let unit = pick(random, &["Second", "Millisecond", "Nanosecond"]);
            (
                format!("arrow_cast(dt, 'Timestamp({unit}, None)')"),
                instants(""),
            )
        }
        16 => {
            let literals = TIMES
                .iter()
                .map(|micros| format!("arrow_cast({micros}, 'Time64(Microsecond)')"))
                .collect();
            ("t".to_string(), literals)
        }
        17 => (
            "num".to_string(),
            own(&[
                "0",
                "1.5",
                "-1.5",
                "12",
                "12.345678901",
                "CAST('0.0000000005' AS DECIMAL(20, 10))",
                "0.1",
            ]),
        ),
        18 => {
            let cast = pick(random, &["CAST(num AS DOUBLE)", "CAST(big AS DOUBLE)"]);
            let all = own(&["0.1", "1.5", "-1.5", "12.345678901", "1e20", "0.0"]);
            (cast.to_string(), all)
        }
        _ => (
            "big".to_string(),
            own(&["0", "1", "-1", "12", "CAST('1.5' AS DECIMAL(20, 10))"]),
        ),
    }
}

fn atom(random: &mut StdRng) -> String {
    if random.random_ratio(1, 8) {
        let tests = [
            "flag",
            "NOT flag",
            "flag = TRUE",
            "flag <> TRUE",
            "flag IS UNKNOWN",
        ];
        return pick(random, &tests).to_string();
    }
    if random.random_ratio(1, 6) {
        let patterns = [
            "a%", "%b", "%a%", "a_b", "a\\_b", "50\\%%", "%\\\\%", "_", "__", "%'%", "é_🦀",
            "%\n%", "a%b", "\\",
        ];
        let pattern = quoted(pick(random, &patterns));
        let text = quoted(TEXTS.choose(random).unwrap());
        return match random.random_range(0..5) {
            0 => format!("s NOT LIKE {pattern}"),
            1 => format!("starts_with(s, {text})"),
            2 => format!("ends_with(s, {text})"),
            3 => format!("contains(s, {text})"),
            _ => format!("s LIKE {pattern}"),
        };
    }
    let (value, literals) = operand(random);
    let mut literal = || literals.choose(random).unwrap().clone();
    let (a, b) = (literal(), literal());
    let list: Vec<String> = (0..5).map(|_| literal()).collect();
    let list = list.join(", ");
    let operator = pick(random, &["=", "<>", "<", "<=", ">", ">="]);
    match random.random_range(0..14) {
        0 => format!("{value} IN ({list})"),
        1 => format!("{value} NOT IN ({list})"),
        2 => format!("{value} IN ({list}, NULL)"),
        3 => format!("{value} BETWEEN {a} AND {b}"),
        4 => format!("{value} NOT BETWEEN {a} AND {b}"),
        5 => format!("{value} IS NULL"),
        6 => format!("{value} IS NOT NULL"),
        7 => format!("{value} IS DISTINCT FROM {a}"),
        8 => format!("{value} IS NOT DISTINCT FROM {a}"),
        9 => format!("{a} {operator} {value}"),
        _ => format!("{value} {operator} {a}"),
    }
}

fn predicate(random: &mut StdRng, depth: usize) -> String {
    if depth == 0 || random.random_ratio(1, 4) {
        return atom(random);
    }
    let left = predicate(random, depth - 1);
    match random.random_range(0..8) {
        0 => format!("NOT ({left})"),
        1 => format!("({left}) IS TRUE"),
        2 => format!("({left}) IS NOT TRUE"),
        3 => format!("({left}) IS NOT FALSE"),
        4 | 5 => format!("({left}) OR ({})", predicate(random, depth - 1)),
        _ => format!("({left}) AND ({})", predicate(random, depth - 1)),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[tokio::test]
async fn what_datafusion_keeps_the_restriction_accepts() {
    let seed = setting("SOUNDNESS_SEED", 20_131_123);
    let cases = setting("SOUNDNESS_CASES", 1_500);
    let schema = table();
    let (mut pushed, mut exact, mut evaluated) = (0, 0, 0);
    for case in 0..cases {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(case));
        let extremes = match random.random_bool(0.3) {
            true => Extremes::Included,
            false => Extremes::LeftOut,
        };
        let batch = batch(&mut random, extremes);
        let predicate = predicate(&mut random, 2);
        let context = SessionContext::new();
        let memory = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap();
        context.register_table("sample", Arc::new(memory)).unwrap();
        let query = format!("SELECT id FROM sample WHERE {predicate}");
        let Ok(frame) = context.sql(&query).await else {
            continue;
        };
        // Overflowing casts are errors of the engine, pushed or not.
        let Ok(kept) = frame.collect().await else {
            continue;
        };
        evaluated += 1;
        let kept: Vec<usize> = kept
            .iter()
            .flat_map(|batch| {
                batch
                    .column(0)
                    .as_primitive::<Int64Type>()
                    .values()
                    .to_vec()
            })
            .map(|id| usize::try_from(id).unwrap())
            .collect();
        let filters = offered_by(batch.schema(), &predicate).await;
        let conditions: Vec<Option<Condition>> = filters
            .iter()
            .map(|filter| translate(&schema, filter))
            .collect();
        let mut restriction = Restriction::of_user(None);
        for condition in conditions.iter().flatten() {
            restriction.admit(condition);
        }
        let text = restriction.text();
        let equivalent = !filters.is_empty()
            && conditions
                .iter()
                .all(|condition| matches!(condition, Some(Condition::Equivalent(_))));
        pushed += u64::from(!text.is_empty());
        exact += u64::from(equivalent);
        for index in 0..ROWS {
            let accepted = accepts(&text, &row(&batch, index));
            let is_kept = kept.contains(&index);
            let sound = match equivalent {
                true => accepted == is_kept,
                false => accepted || !is_kept,
            };
            assert!(
                sound,
                "SOUNDNESS_SEED={} SOUNDNESS_CASES=1\n{predicate}\n{text}\nkept {is_kept}, \
                 accepted {accepted}, equivalent {equivalent}: {:?}\n{filters:?}",
                seed.wrapping_add(case),
                row(&batch, index)
            );
        }
    }
    // The test is about pushed filters: most of them have to be.
    assert!(
        pushed * 2 > evaluated && exact * 4 > evaluated && evaluated * 2 > cases,
        "{cases} cases, {evaluated} evaluated, {pushed} pushed, {exact} equivalent"
    );
}
