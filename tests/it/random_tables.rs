//! Tables of random columns with random values, in three forms: as the REST
//! interface takes them, as the Arrow schema that they have to arrive with, and
//! as text to compare with what arrived.
//!
//! The forms are made from the same drawn numbers and share no code with the
//! library or the embedded BigQuery.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit, i256};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

const DAY_MICROS: i64 = 86_400_000_000;
const MIN_DATE: i32 = -719_162;
const MAX_DATE: i32 = 2_932_896;
const MIN_MICROS: i64 = MIN_DATE as i64 * DAY_MICROS;
const MAX_MICROS: i64 = (MAX_DATE as i64 + 1) * DAY_MICROS - 1;

/// How TIMESTAMP(12) is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    Micros,
    Nanos,
    Picos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Nullable,
    Required,
    Repeated,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Int,
    Float,
    Bool,
    Text(Option<usize>),
    Bytes(Option<usize>),
    /// Precision and scale, if declared.
    Numeric(Option<(u8, u8)>),
    BigNumeric(Option<(u8, u8)>),
    Date,
    Time,
    DateTime,
    Timestamp,
    Timestamp12,
    Geography,
    Json,
    Interval,
    /// Of DATE, DATETIME or TIMESTAMP.
    Range(Box<Kind>),
    Struct(Vec<Column>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
}

/// A value, as it is sent and as it has to be read.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Null,
    Scalar { sent: Value, shown: String },
    Struct(Vec<Cell>),
    List(Vec<Cell>),
}

/// Random columns, structs nested so deep at most.
pub(crate) fn columns(random: &mut StdRng, depth: usize) -> Vec<Column> {
    let count = random.random_range(1..6);
    let mut columns: Vec<_> = (0..count)
        .map(|position| column(random, depth, position))
        .collect();
    // Every table goes as deep as it may.
    if depth > 0 {
        columns.push(Column {
            name: format!("deep_{depth}"),
            kind: Kind::Struct(self::columns(random, depth - 1)),
            mode: mode(random),
        });
    }
    columns
}

fn column(random: &mut StdRng, depth: usize, position: usize) -> Column {
    let base = ["c", "C_", "größe_", "select_", "_x"]
        .choose(random)
        .unwrap();
    Column {
        name: format!("{base}{position}"),
        kind: kind(random, depth),
        mode: mode(random),
    }
}

fn mode(random: &mut StdRng) -> Mode {
    match random.random_range(0..6) {
        0 => Mode::Required,
        1 => Mode::Repeated,
        _ => Mode::Nullable,
    }
}

fn kind(random: &mut StdRng, depth: usize) -> Kind {
    let declared = |random: &mut StdRng, whole: u8, scale: u8| {
        random.random_bool(0.5).then(|| {
            let scale = random.random_range(0..=scale);
            let least = scale.max(1);
            (random.random_range(least..=whole + scale), scale)
        })
    };
    let length = |random: &mut StdRng| random.random_bool(0.3).then(|| random.random_range(1..9));
    match random.random_range(0..20) {
        0 => Kind::Int,
        1 => Kind::Float,
        2 => Kind::Bool,
        3 => Kind::Text(length(random)),
        4 => Kind::Bytes(length(random)),
        5 => Kind::Numeric(declared(random, 29, 9)),
        6 => Kind::BigNumeric(declared(random, 38, 38)),
        7 => Kind::Date,
        8 => Kind::Time,
        9 => Kind::DateTime,
        10 => Kind::Timestamp,
        11 => Kind::Timestamp12,
        12 => Kind::Geography,
        13 => Kind::Json,
        14 => Kind::Interval,
        15 => Kind::Range(Box::new(
            [Kind::Date, Kind::DateTime, Kind::Timestamp]
                .choose(random)
                .unwrap()
                .clone(),
        )),
        _ if depth > 0 => Kind::Struct(columns(random, depth - 1)),
        _ => Kind::Int,
    }
}

impl Column {
    /// As `schema.fields` of a table has it.
    pub(crate) fn rest(&self) -> Value {
        let mut field = json!({"name": self.name, "mode": match self.mode {
            Mode::Nullable => "NULLABLE",
            Mode::Required => "REQUIRED",
            Mode::Repeated => "REPEATED",
        }});
        let mut decimal = |declared: &Option<(u8, u8)>| {
            if let Some((precision, scale)) = declared {
                field["precision"] = json!(precision.to_string());
                field["scale"] = json!(scale.to_string());
            }
        };
        let name = match &self.kind {
            Kind::Int => "INTEGER",
            Kind::Float => "FLOAT",
            Kind::Bool => "BOOLEAN",
            Kind::Text(_) => "STRING",
            Kind::Bytes(_) => "BYTES",
            Kind::Numeric(declared) => {
                decimal(declared);
                "NUMERIC"
            }
            Kind::BigNumeric(declared) => {
                decimal(declared);
                "BIGNUMERIC"
            }
            Kind::Date => "DATE",
            Kind::Time => "TIME",
            Kind::DateTime => "DATETIME",
            Kind::Timestamp | Kind::Timestamp12 => "TIMESTAMP",
            Kind::Geography => "GEOGRAPHY",
            Kind::Json => "JSON",
            Kind::Interval => "INTERVAL",
            Kind::Range(_) => "RANGE",
            Kind::Struct(_) => "RECORD",
        };
        field["type"] = json!(name);
        match &self.kind {
            Kind::Text(Some(length)) | Kind::Bytes(Some(length)) => {
                field["maxLength"] = json!(length.to_string());
            }
            Kind::Timestamp12 => field["timestampPrecision"] = json!("12"),
            Kind::Range(of) => {
                let of = match **of {
                    Kind::Date => "DATE",
                    Kind::DateTime => "DATETIME",
                    _ => "TIMESTAMP",
                };
                field["rangeElementType"] = json!({"type": of});
            }
            Kind::Struct(columns) => {
                field["fields"] = columns.iter().map(Column::rest).collect();
            }
            _ => {}
        }
        field
    }

    /// The Arrow field that has to arrive.
    pub(crate) fn arrow(&self, precision: Precision) -> Field {
        let micros =
            |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        let parameters = |declared: &Option<(u8, u8)>, digits: u8, scale: u8| {
            let (digits, scale) = declared.unwrap_or((digits, scale));
            (digits.min(76), i8::try_from(scale).unwrap())
        };
        let value = match &self.kind {
            Kind::Int => DataType::Int64,
            Kind::Float => DataType::Float64,
            Kind::Bool => DataType::Boolean,
            Kind::Text(_) | Kind::Geography | Kind::Json => DataType::Utf8,
            Kind::Bytes(_) => DataType::Binary,
            Kind::Numeric(declared) => {
                let (digits, scale) = parameters(declared, 38, 9);
                DataType::Decimal128(digits, scale)
            }
            Kind::BigNumeric(declared) => {
                let (digits, scale) = parameters(declared, 76, 38);
                DataType::Decimal256(digits, scale)
            }
            Kind::Date => DataType::Date32,
            Kind::Time => DataType::Time64(TimeUnit::Microsecond),
            Kind::DateTime => micros(None),
            Kind::Timestamp => micros(Some("UTC")),
            Kind::Timestamp12 => match precision {
                Precision::Micros => micros(Some("UTC")),
                Precision::Nanos => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
                Precision::Picos => DataType::Utf8,
            },
            Kind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Kind::Range(of) => {
                let bound = |name: &str| Column {
                    name: name.to_string(),
                    kind: Kind::clone(of),
                    mode: Mode::Nullable,
                };
                let bounds = [bound("start"), bound("end")];
                DataType::Struct(bounds.iter().map(|bound| bound.arrow(precision)).collect())
            }
            Kind::Struct(columns) => DataType::Struct(
                columns
                    .iter()
                    .map(|column| column.arrow(precision))
                    .collect(),
            ),
        };
        let field = match self.mode {
            Mode::Nullable => Field::new(&self.name, value, true),
            Mode::Required => Field::new(&self.name, value, false),
            Mode::Repeated => {
                let item = Arc::new(Field::new("item", value, true));
                Field::new(&self.name, DataType::List(item), false)
            }
        };
        let mark = |name: &str| ("ARROW:extension:name", format!("google:sqlType:{name}"));
        let metadata: Vec<(&str, String)> = match self.kind {
            Kind::DateTime => vec![mark("datetime")],
            Kind::Json => vec![mark("json")],
            Kind::Interval => vec![mark("interval")],
            Kind::Geography => vec![
                mark("geography"),
                (
                    "ARROW:extension:metadata",
                    r#"{"encoding": "WKT"}"#.to_string(),
                ),
            ],
            Kind::Range(_) => vec![("google:sqlType", "range".to_string())],
            _ => vec![],
        };
        let metadata: HashMap<String, String> = metadata
            .into_iter()
            .map(|(key, value)| (key.to_string(), value))
            .collect();
        field.with_metadata(metadata)
    }

    /// A random value.
    pub(crate) fn cell(&self, random: &mut StdRng, precision: Precision) -> Cell {
        match self.mode {
            Mode::Nullable if random.random_ratio(1, 4) => Cell::Null,
            Mode::Nullable | Mode::Required => self.kind.cell(random, precision),
            Mode::Repeated => {
                let count = random.random_range(0..4);
                Cell::List(
                    (0..count)
                        .map(|_| self.kind.cell(random, precision))
                        .collect(),
                )
            }
        }
    }
}

/// A number: small, anywhere, or at an end.
fn number(random: &mut StdRng, least: i64, most: i64) -> i64 {
    match random.random_range(0..6) {
        0 => least,
        1 => most,
        2 => random.random_range(-2..=2_i64).clamp(least, most),
        _ => random.random_range(least..=most),
    }
}

fn date_text(days: i64) -> String {
    let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
    let date = epoch + TimeDelta::days(days);
    date.format("%Y-%m-%d").to_string()
}

fn instant(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap()
}

fn datetime_text(micros: i64) -> String {
    instant(micros).format("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}

/// `units` with so many digits behind the point.
fn decimal_text(units: &str, scale: usize) -> String {
    let (sign, digits) = match units.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", units),
    };
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    match fraction {
        "" => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    }
}

/// Units of so many digits at most.
fn units(random: &mut StdRng, digits: usize) -> String {
    let count = match random.random_range(0..4) {
        0 => digits,
        _ => random.random_range(1..=digits),
    };
    let mut text: String = (0..count)
        .map(|_| char::from(b'0' + random.random_range(0..10_u8)))
        .collect();
    if random.random_ratio(1, 5) {
        text = "9".repeat(digits);
    }
    let text = text.trim_start_matches('0');
    match (text, random.random_bool(0.5)) {
        ("", _) => "0".to_string(),
        (text, true) => format!("-{text}"),
        (text, false) => text.to_string(),
    }
}

const CHARACTERS: [char; 16] = [
    'a', 'Z', '0', ' ', '\'', '"', '\\', '\n', '\t', '\u{1}', '\u{7f}', '%', 'é', '漢', '🦀',
    '\u{2028}',
];

impl Kind {
    fn cell(&self, random: &mut StdRng, precision: Precision) -> Cell {
        let (sent, shown) = match self {
            Kind::Struct(columns) => {
                let cells = columns.iter().map(|column| column.cell(random, precision));
                return Cell::Struct(cells.collect());
            }
            Kind::Range(of) => {
                let mut bound = || match random.random_ratio(1, 4) {
                    true => None,
                    false => Some(of.point(random)),
                };
                let (mut start, mut end) = (bound(), bound());
                if let (Some(from), Some(to)) = (start, end) {
                    // A range is never empty.
                    start = Some(from.min(to));
                    end = (from != to).then(|| from.max(to));
                }
                let text = |bound: Option<i64>| {
                    bound.map_or("UNBOUNDED".to_string(), |point| of.point_text(point))
                };
                let shown = |bound: Option<i64>| bound.map_or("NULL".into(), |p| p.to_string());
                (
                    json!(format!("[{}, {})", text(start), text(end))),
                    format!("{{{}, {}}}", shown(start), shown(end)),
                )
            }
            Kind::Int => {
                let value = number(random, i64::MIN, i64::MAX);
                (json!(value.to_string()), value.to_string())
            }
            Kind::Float => {
                let value = match random.random_range(0..8) {
                    0 => f64::NAN,
                    1 => f64::INFINITY,
                    2 => f64::NEG_INFINITY,
                    3 => -0.0,
                    4 => 5e-324,
                    5 => f64::MAX,
                    _ => random.random_range(-1e9..1e9),
                };
                let sent = match value {
                    value if value.is_nan() => json!("NaN"),
                    value if value.is_infinite() => {
                        json!(if value > 0.0 { "Infinity" } else { "-Infinity" })
                    }
                    value => json!(format!("{value:?}")),
                };
                (sent, format!("{value:?}"))
            }
            Kind::Bool => {
                let value = random.random_bool(0.5);
                (json!(value), value.to_string())
            }
            Kind::Text(most) => {
                let count = random.random_range(0..=most.unwrap_or(12));
                let text: String = (0..count)
                    .map(|_| *CHARACTERS.choose(random).unwrap())
                    .collect();
                (json!(text), format!("{text:?}"))
            }
            Kind::Bytes(most) => {
                let count = random.random_range(0..=most.unwrap_or(12));
                let bytes: Vec<u8> = (0..count).map(|_| random.random()).collect();
                (json!(STANDARD.encode(&bytes)), format!("{bytes:?}"))
            }
            Kind::Numeric(declared) => {
                let (digits, scale) = declared.unwrap_or((38, 9));
                let units = units(random, digits.into());
                (json!(decimal_text(&units, scale.into())), units)
            }
            Kind::BigNumeric(declared) => {
                let (digits, scale) = declared.unwrap_or((76, 38));
                let units = match (declared, random.random_range(0..5)) {
                    (None, 0) => i256::MAX.to_string(),
                    (None, 1) => i256::MIN.to_string(),
                    _ => units(random, digits.into()),
                };
                (json!(decimal_text(&units, scale.into())), units)
            }
            Kind::Date | Kind::DateTime | Kind::Timestamp => {
                let point = self.point(random);
                (json!(self.point_text(point)), point.to_string())
            }
            Kind::Time => {
                let micros = number(random, 0, DAY_MICROS - 1);
                let text = instant(micros).format("%H:%M:%S%.6f").to_string();
                (json!(text), micros.to_string())
            }
            Kind::Timestamp12 => {
                let micros = match precision {
                    // The years that nanoseconds reach.
                    Precision::Nanos => number(random, i64::MIN / 1_000, i64::MAX / 1_000),
                    Precision::Micros | Precision::Picos => Kind::Timestamp.point(random),
                };
                let shown = match precision {
                    Precision::Micros => micros.to_string(),
                    Precision::Nanos => (micros * 1_000).to_string(),
                    Precision::Picos => format!("\"{}000000Z\"", datetime_text(micros)),
                };
                (json!(Kind::Timestamp.point_text(micros)), shown)
            }
            Kind::Geography => {
                let (x, y) = (
                    random.random_range(-180..=180),
                    random.random_range(-90..=90),
                );
                let text = format!("POINT({x} {y})");
                (json!(text), format!("{text:?}"))
            }
            Kind::Json => {
                let (sent, read) = *[
                    ("null", "null"),
                    ("[ ]", "[]"),
                    (
                        "{\"b\": 1, \"a\" : [true, null]}",
                        "{\"a\":[true,null],\"b\":1}",
                    ),
                    ("\"é\\n\"", "\"é\\n\""),
                    ("-12", "-12"),
                ]
                .choose(random)
                .unwrap();
                (json!(sent), format!("{read:?}"))
            }
            Kind::Interval => {
                let months = number(random, -120_000, 120_000);
                let days = number(random, -3_660_000, 3_660_000);
                let most = i64::MAX / 1_000;
                let micros = number(random, -most, most);
                let sign = |value: i64| if value < 0 { "-" } else { "" };
                let (m, t) = (months.abs(), micros.abs());
                let text = format!(
                    "{}{}-{} {days} {}{}:{}:{}.{:06}",
                    sign(months),
                    m / 12,
                    m % 12,
                    sign(micros),
                    t / 3_600_000_000,
                    t / 60_000_000 % 60,
                    t / 1_000_000 % 60,
                    t % 1_000_000
                );
                (json!(text), format!("{months} {days} {}", micros * 1_000))
            }
        };
        Cell::Scalar { sent, shown }
    }

    /// A value of DATE (days), DATETIME or TIMESTAMP (microseconds).
    fn point(&self, random: &mut StdRng) -> i64 {
        match self {
            Kind::Date => number(random, MIN_DATE.into(), MAX_DATE.into()),
            _ => number(random, MIN_MICROS, MAX_MICROS),
        }
    }

    fn point_text(&self, point: i64) -> String {
        match self {
            Kind::Date => date_text(point),
            Kind::DateTime => datetime_text(point),
            _ => format!("{}Z", datetime_text(point)),
        }
    }
}

impl Cell {
    /// As `insertAll` takes it.
    pub(crate) fn sent(&self, column: &Column) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Scalar { sent, .. } => sent.clone(),
            Cell::List(cells) => cells.iter().map(|cell| cell.sent(column)).collect(),
            Cell::Struct(cells) => {
                let Kind::Struct(columns) = &column.kind else {
                    panic!("only a RECORD has a struct");
                };
                columns
                    .iter()
                    .zip(cells)
                    .map(|(column, cell)| (column.name.clone(), cell.sent(column)))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }
        }
    }

    /// As it has to be read.
    pub(crate) fn shown(&self) -> String {
        let all = |cells: &[Cell]| {
            let cells: Vec<_> = cells.iter().map(Cell::shown).collect();
            cells.join(", ")
        };
        match self {
            Cell::Null => "NULL".to_string(),
            Cell::Scalar { shown, .. } => shown.clone(),
            Cell::Struct(cells) => format!("{{{}}}", all(cells)),
            Cell::List(cells) => format!("[{}]", all(cells)),
        }
    }
}
