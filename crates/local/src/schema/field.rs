//! A table's columns as BigQuery describes them.

use serde::{Deserialize, Serialize};

use super::json::JsonField;

/// The type of a column or of a struct's field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// 64-bit signed integer.
    Int64,
    /// IEEE 754 double.
    Float64,
    /// Boolean.
    Bool,
    /// UTF-8 text.
    String,
    /// Bytes.
    Bytes,
    /// Decimal, 29 integer and 9 fractional digits.
    Numeric,
    /// Decimal, 38 integer and 38 fractional digits (a little more at the ends).
    Bignumeric,
    /// Civil date, 0001-01-01 to 9999-12-31.
    Date,
    /// Civil time of day, microseconds.
    Time,
    /// Civil date and time, microseconds.
    Datetime,
    /// Instant, microseconds since the epoch.
    Timestamp,
    /// Well-known text of a geography.
    Geography,
    /// JSON text, normalized.
    Json,
    /// Months, days and a time part, each with its own sign.
    Interval,
    /// A half-open range.
    Range(RangeElement),
    /// Named fields.
    Struct(Vec<Field>),
}

/// What a RANGE is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RangeElement {
    /// `RANGE<DATE>`.
    Date,
    /// `RANGE<DATETIME>`.
    Datetime,
    /// `RANGE<TIMESTAMP>`.
    Timestamp,
}

impl RangeElement {
    /// The type of the two bounds.
    pub fn field_type(self) -> FieldType {
        match self {
            RangeElement::Date => FieldType::Date,
            RangeElement::Datetime => FieldType::Datetime,
            RangeElement::Timestamp => FieldType::Timestamp,
        }
    }
}

impl FieldType {
    /// The name that REST answers print (`INTEGER`, `RECORD`, …).
    pub fn rest_name(&self) -> &'static str {
        match self {
            FieldType::Int64 => "INTEGER",
            FieldType::Float64 => "FLOAT",
            FieldType::Bool => "BOOLEAN",
            FieldType::Struct(_) => "RECORD",
            other => other.sql_name(),
        }
    }

    /// The GoogleSQL name without parameters (`INT64`, `STRUCT`, …).
    pub fn sql_name(&self) -> &'static str {
        match self {
            FieldType::Int64 => "INT64",
            FieldType::Float64 => "FLOAT64",
            FieldType::Bool => "BOOL",
            FieldType::String => "STRING",
            FieldType::Bytes => "BYTES",
            FieldType::Numeric => "NUMERIC",
            FieldType::Bignumeric => "BIGNUMERIC",
            FieldType::Date => "DATE",
            FieldType::Time => "TIME",
            FieldType::Datetime => "DATETIME",
            FieldType::Timestamp => "TIMESTAMP",
            FieldType::Geography => "GEOGRAPHY",
            FieldType::Json => "JSON",
            FieldType::Interval => "INTERVAL",
            FieldType::Range(_) => "RANGE",
            FieldType::Struct(_) => "STRUCT",
        }
    }
}

/// Whether a column may be NULL, must not be, or is an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Mode {
    /// NULL allowed.
    Nullable,
    /// NOT NULL.
    Required,
    /// ARRAY.
    Repeated,
}

/// One column, or one field of a STRUCT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "JsonField", into = "JsonField")]
pub struct Field {
    /// Name, case as given.
    pub name: String,
    /// Type (of the element when `mode` is `Repeated`).
    pub field_type: FieldType,
    /// Mode as it was said; `None` (said by nobody, as in tables made by CTAS)
    /// means NULLABLE, and REST answers then leave it out.
    pub mode: Option<Mode>,
    /// Description.
    pub description: Option<String>,
    /// `STRING(n)` and `BYTES(n)`.
    pub max_length: Option<i64>,
    /// `NUMERIC(p, s)` and `BIGNUMERIC(p, s)`.
    pub precision: Option<i64>,
    /// See `precision`.
    pub scale: Option<i64>,
    /// SQL of the default.
    pub default_value_expression: Option<String>,
    /// `ROUND_HALF_EVEN` or `ROUND_HALF_AWAY_FROM_ZERO`.
    pub rounding_mode: Option<String>,
    /// `und:ci` or empty.
    pub collation: Option<String>,
    /// 6 or 12 for TIMESTAMP.
    pub timestamp_precision: Option<i64>,
    /// Policy tags, kept verbatim.
    pub policy_tags: Option<serde_json::Value>,
}

impl Field {
    /// A field with nothing but a name and a type.
    pub fn new(name: impl Into<String>, field_type: FieldType) -> Self {
        Self {
            name: name.into(),
            field_type,
            mode: None,
            description: None,
            max_length: None,
            precision: None,
            scale: None,
            default_value_expression: None,
            rounding_mode: None,
            collation: None,
            timestamp_precision: None,
            policy_tags: None,
        }
    }

    /// The same field in `mode`.
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// The mode, where nothing said means NULLABLE.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Nullable)
    }

    /// Fields of a STRUCT, empty for any other type.
    pub fn fields(&self) -> &[Field] {
        match &self.field_type {
            FieldType::Struct(fields) => fields,
            _ => &[],
        }
    }

    /// The GoogleSQL type with parameters, as INFORMATION_SCHEMA prints it:
    /// `NUMERIC(10, 2)`, `ARRAY<STRUCT<x DATE>>`, `RANGE<DATE>`.
    pub fn sql_type(&self) -> String {
        let scalar = match &self.field_type {
            FieldType::Struct(fields) => {
                let inner: Vec<String> = fields
                    .iter()
                    .map(|f| format!("{} {}", f.name, f.sql_type()))
                    .collect();
                format!("STRUCT<{}>", inner.join(", "))
            }
            FieldType::Range(element) => format!("RANGE<{}>", element.field_type().sql_name()),
            FieldType::Numeric | FieldType::Bignumeric => match (self.precision, self.scale) {
                (Some(p), Some(s)) => format!("{}({p}, {s})", self.field_type.sql_name()),
                (Some(p), None) => format!("{}({p})", self.field_type.sql_name()),
                _ => self.field_type.sql_name().to_string(),
            },
            FieldType::String | FieldType::Bytes => match self.max_length {
                Some(n) => format!("{}({n})", self.field_type.sql_name()),
                None => self.field_type.sql_name().to_string(),
            },
            other => other.sql_name().to_string(),
        };
        if self.mode() == Mode::Repeated {
            format!("ARRAY<{scalar}>")
        } else {
            scalar
        }
    }

    /// The element of a REPEATED field as a field of its own.
    pub fn element(&self) -> Field {
        let mut element = self.clone();
        element.mode = Some(Mode::Nullable);
        element
    }
}

/// A table's columns, in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TableSchema {
    /// The columns.
    #[serde(default)]
    pub fields: Vec<Field>,
}

impl TableSchema {
    /// A schema of `fields`.
    pub fn new(fields: Vec<Field>) -> Self {
        Self { fields }
    }

    /// The column called `name`, compared without case as BigQuery does.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.index_of(name).map(|i| &self.fields[i])
    }

    /// The position of the column called `name`, compared without case.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.fields
            .iter()
            .position(|f| f.name.eq_ignore_ascii_case(name))
    }
}
