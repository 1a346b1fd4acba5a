//! One typed value, and reading it from text or JSON.

use arrow::datatypes::{IntervalMonthDayNano, i256};

use super::super::civil::{parse_date, parse_datetime, parse_time};
use super::super::decimal::{
    BIGNUMERIC_PRECISION, BIGNUMERIC_SCALE, Excess, NUMERIC_PRECISION, NUMERIC_SCALE,
    parse_bignumeric, parse_decimal, parse_numeric,
};
use super::super::error::ValueError;
use super::super::geography::normalize_geography;
use super::super::interval::parse_interval;
use super::super::json::normalize_json;
use super::super::range::parse_range;
use super::super::scalar::{
    parse_base64, parse_bool, parse_bool_for_import, parse_float64, parse_int64,
};
use super::super::timestamp::{Zone, parse_timestamp, parse_timestamp_for_import};
use crate::schema::{Field, FieldType};

/// A value of any type.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// NULL.
    Null,
    /// INT64, or DATE in days, or TIME, DATETIME, TIMESTAMP in microseconds.
    Int(i64),
    /// FLOAT64.
    Float(f64),
    /// BOOL.
    Bool(bool),
    /// STRING, GEOGRAPHY, JSON.
    Text(String),
    /// BYTES.
    Bytes(Vec<u8>),
    /// NUMERIC or BIGNUMERIC, scaled as the column is.
    Decimal(i256),
    /// INTERVAL.
    Interval(IntervalMonthDayNano),
    /// RANGE: bounds in the element's unit, `None` unbounded.
    Range(Option<i64>, Option<i64>),
    /// STRUCT: one cell per field.
    Struct(Vec<Cell>),
    /// ARRAY.
    Array(Vec<Cell>),
}

impl Cell {
    /// About how many bytes the value takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Cell::Text(s) => s.len() + 8,
            Cell::Bytes(b) => b.len() + 8,
            Cell::Struct(cells) | Cell::Array(cells) => cells.iter().map(Cell::bytes).sum(),
            Cell::Decimal(_) => 32,
            _ => 8,
        }
    }
}

/// Why a value does not fit its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field, dotted; empty when it is about the row.
    pub location: String,
    /// In the service's words.
    pub message: String,
}

impl FieldError {
    pub(super) fn new(location: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            location: location.into(),
            message: message.into(),
        }
    }
}

/// What a JSON string in a column of type JSON is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonText {
    /// The text of a JSON value (insertAll).
    Encoded,
    /// A string (newline-delimited JSON loads).
    Literal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Import,
    GoogleSql,
}

/// Reads cells; it knows which spellings are accepted.
#[derive(Debug, Clone, Copy)]
pub struct CellReader {
    spelling: Spelling,
    pub(super) json: JsonText,
}

impl CellReader {
    /// Spellings that loads and inserts accept.
    pub fn for_import(json: JsonText) -> Self {
        Self {
            spelling: Spelling::Import,
            json,
        }
    }

    /// Spellings of GoogleSQL literals, as query parameters carry them.
    pub fn for_sql() -> Self {
        Self {
            spelling: Spelling::GoogleSql,
            json: JsonText::Encoded,
        }
    }

    /// Reads text as one value of the type of `field` (of its element when it is
    /// REPEATED) and checks the type's parameters. A STRUCT has no text.
    pub fn text(&self, field: &Field, text: &str) -> Result<Cell, ValueError> {
        let import = self.spelling == Spelling::Import;
        let cell = match &field.field_type {
            FieldType::Int64 => Cell::Int(parse_int64(text)?),
            FieldType::Float64 => Cell::Float(parse_float64(text)?),
            FieldType::Bool if import => Cell::Bool(parse_bool_for_import(text)?),
            FieldType::Bool => Cell::Bool(parse_bool(text)?),
            FieldType::String => Cell::Text(text.to_string()),
            FieldType::Bytes => Cell::Bytes(parse_base64(text)?),
            FieldType::Numeric => Cell::Decimal(numeric(field, text)?),
            FieldType::Bignumeric => Cell::Decimal(bignumeric(field, text)?),
            FieldType::Date => Cell::Int(i64::from(parse_date(text)?)),
            FieldType::Time => Cell::Int(parse_time(text)?),
            FieldType::Datetime => Cell::Int(parse_datetime(text)?),
            FieldType::Timestamp if import => Cell::Int(parse_timestamp_for_import(text)?),
            FieldType::Timestamp => Cell::Int(parse_timestamp(text, Zone::UTC)?),
            FieldType::Geography => Cell::Text(normalize_geography(text)?),
            FieldType::Json => Cell::Text(normalize_json(text)?),
            FieldType::Interval => Cell::Interval(parse_interval(text)?),
            FieldType::Range(element) => {
                let (start, end) = parse_range(text, *element)?;
                Cell::Range(start, end)
            }
            FieldType::Struct(_) => {
                return Err(ValueError::new(format!(
                    "{} cannot be read from text",
                    field.sql_type()
                )));
            }
        };
        fits(field, cell)
    }
}

/// Checks the length of a STRING(n) or BYTES(n) value.
fn fits(field: &Field, cell: Cell) -> Result<Cell, ValueError> {
    let Some(limit) = field.max_length else {
        return Ok(cell);
    };
    let length = match &cell {
        Cell::Text(text) => text.chars().count(),
        Cell::Bytes(bytes) => bytes.len(),
        _ => return Ok(cell),
    };
    if i64::try_from(length).is_ok_and(|n| n <= limit) {
        return Ok(cell);
    }
    Err(ValueError::new(format!(
        "Field {name}: {kind}({limit}) has maximum length {limit} but got a value with length {length} on field {name}.",
        name = field.name,
        kind = field.field_type.sql_name(),
    )))
}

/// How a column rounds; without parameters a NUMERIC refuses excess digits and a
/// BIGNUMERIC rounds them.
fn excess(field: &Field, unparameterized: Excess) -> Excess {
    match field.rounding_mode.as_deref() {
        Some("ROUND_HALF_EVEN") => Excess::RoundHalfEven,
        Some("ROUND_HALF_AWAY_FROM_ZERO") => Excess::Round,
        _ if field.precision.is_some() => Excess::Round,
        _ => unparameterized,
    }
}

fn numeric(field: &Field, text: &str) -> Result<i256, ValueError> {
    let excess = excess(field, Excess::Refuse);
    if field.precision.is_none() {
        return parse_numeric(text, excess).map(i256::from_i128);
    }
    parameterized(field, text, excess, NUMERIC_PRECISION, NUMERIC_SCALE)
}

fn bignumeric(field: &Field, text: &str) -> Result<i256, ValueError> {
    let excess = excess(field, Excess::Round);
    if field.precision.is_none() {
        return parse_bignumeric(text, excess);
    }
    parameterized(
        field,
        text,
        excess,
        BIGNUMERIC_PRECISION - 1,
        BIGNUMERIC_SCALE,
    )
}

fn parameterized(
    field: &Field,
    text: &str,
    excess: Excess,
    max_precision: u8,
    max_scale: u8,
) -> Result<i256, ValueError> {
    let within = |value: Option<i64>, max: u8| {
        value
            .and_then(|v| u8::try_from(v).ok())
            .map_or(0, |v| v.min(max))
    };
    let precision = within(field.precision, max_precision);
    let scale = within(field.scale, max_scale);
    // Tells text that is no number from a number that does not fit.
    parse_decimal(text, BIGNUMERIC_PRECISION, 0, Excess::Round).map_err(|_| {
        ValueError::new(format!(
            "Invalid {} value: {text}",
            field.field_type.sql_name()
        ))
    })?;
    parse_decimal(text, precision, scale, excess).map_err(|_| {
        ValueError::new(format!(
            "Field {name}: {kind} has precision {precision} and scale {scale} but got a value that is out of range on field {name}: {text}",
            name = field.name,
            kind = field.sql_type(),
        ))
    })
}
