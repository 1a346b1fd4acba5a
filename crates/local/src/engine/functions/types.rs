//! GoogleSQL's types as expressions see them, and their Arrow form.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, Fields, IntervalUnit, TimeUnit};

use crate::schema::{Field, FieldType, Mode, RangeElement};

const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SqlType {
    /// The untyped `NULL` literal, which takes any type.
    Null,
    /// `BOOL`.
    Bool,
    /// `INT64`.
    Int64,
    /// `FLOAT64`.
    Float64,
    /// `NUMERIC`, any parameters.
    Numeric,
    /// `BIGNUMERIC`, any parameters.
    BigNumeric,
    /// `STRING`.
    String,
    /// `BYTES`.
    Bytes,
    /// `DATE`.
    Date,
    /// `TIME`.
    Time,
    /// `DATETIME`.
    Datetime,
    /// `TIMESTAMP`.
    Timestamp,
    /// `JSON`.
    Json,
    /// `GEOGRAPHY`.
    Geography,
    /// `INTERVAL`.
    Interval,
    /// `RANGE<T>` with its element type, one of DATE, DATETIME and TIMESTAMP.
    Range(Box<SqlType>),
    /// `ARRAY<T>`.
    Array(Box<SqlType>),
    /// `STRUCT<name T, …>`; an anonymous field has an empty name.
    Struct(Vec<(String, SqlType)>),
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // GoogleSQL itself reads an untyped NULL as INT64.
            SqlType::Null | SqlType::Int64 => f.write_str("INT64"),
            SqlType::Bool => f.write_str("BOOL"),
            SqlType::Float64 => f.write_str("FLOAT64"),
            SqlType::Numeric => f.write_str("NUMERIC"),
            SqlType::BigNumeric => f.write_str("BIGNUMERIC"),
            SqlType::String => f.write_str("STRING"),
            SqlType::Bytes => f.write_str("BYTES"),
            SqlType::Date => f.write_str("DATE"),
            SqlType::Time => f.write_str("TIME"),
            SqlType::Datetime => f.write_str("DATETIME"),
            SqlType::Timestamp => f.write_str("TIMESTAMP"),
            SqlType::Json => f.write_str("JSON"),
            SqlType::Geography => f.write_str("GEOGRAPHY"),
            SqlType::Interval => f.write_str("INTERVAL"),
            SqlType::Range(element) => write!(f, "RANGE<{element}>"),
            SqlType::Array(element) => write!(f, "ARRAY<{element}>"),
            SqlType::Struct(fields) => {
                f.write_str("STRUCT<")?;
                for (i, (name, field)) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    if name.is_empty() {
                        write!(f, "{field}")?;
                    } else {
                        write!(f, "{name} {field}")?;
                    }
                }
                f.write_str(">")
            }
        }
    }
}

impl SqlType {
    /// The Arrow type of values of this type.
    pub(crate) fn to_arrow(&self) -> DataType {
        match self {
            SqlType::Null => DataType::Null,
            SqlType::Bool => DataType::Boolean,
            SqlType::Int64 => DataType::Int64,
            SqlType::Float64 => DataType::Float64,
            SqlType::Numeric => DataType::Decimal128(38, 9),
            SqlType::BigNumeric => DataType::Decimal256(76, 38),
            SqlType::String | SqlType::Json | SqlType::Geography => DataType::Utf8,
            SqlType::Bytes => DataType::Binary,
            SqlType::Date => DataType::Date32,
            SqlType::Time => DataType::Time64(TimeUnit::Microsecond),
            SqlType::Datetime => DataType::Timestamp(TimeUnit::Microsecond, None),
            SqlType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            SqlType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            SqlType::Range(element) => DataType::Struct(Fields::from(vec![
                element.to_field("start"),
                element.to_field("end"),
            ])),
            SqlType::Array(element) => {
                DataType::List(Arc::new(ArrowField::new("item", element.to_arrow(), true)))
            }
            SqlType::Struct(fields) => DataType::Struct(
                fields
                    .iter()
                    .map(|(name, t)| t.to_field(name))
                    .collect::<Vec<_>>()
                    .into(),
            ),
        }
    }

    /// A nullable Arrow field of this type, with the metadata that tells apart
    /// types that share an Arrow type.
    pub(crate) fn to_field(&self, name: &str) -> ArrowField {
        ArrowField::new(name, self.to_arrow(), true).with_metadata(self.metadata())
    }

    /// The metadata of a field of this type.
    pub(crate) fn metadata(&self) -> HashMap<String, String> {
        let extension =
            |name: &str| HashMap::from([(EXTENSION_NAME.to_string(), name.to_string())]);
        match self {
            SqlType::Datetime => extension("google:sqlType:datetime"),
            SqlType::Json => extension("google:sqlType:json"),
            SqlType::Interval => extension("google:sqlType:interval"),
            SqlType::Geography => {
                let mut map = extension("google:sqlType:geography");
                map.insert(EXTENSION_METADATA.into(), r#"{"encoding": "WKT"}"#.into());
                map
            }
            SqlType::Range(_) => HashMap::from([("google:sqlType".into(), "range".into())]),
            SqlType::Array(element) => element.metadata(),
            _ => HashMap::new(),
        }
    }

    /// The type of a table's column.
    pub(crate) fn of_column(field: &Field) -> SqlType {
        let scalar = match &field.field_type {
            FieldType::Int64 => SqlType::Int64,
            FieldType::Float64 => SqlType::Float64,
            FieldType::Bool => SqlType::Bool,
            FieldType::String => SqlType::String,
            FieldType::Bytes => SqlType::Bytes,
            FieldType::Numeric => SqlType::Numeric,
            FieldType::Bignumeric => SqlType::BigNumeric,
            FieldType::Date => SqlType::Date,
            FieldType::Time => SqlType::Time,
            FieldType::Datetime => SqlType::Datetime,
            FieldType::Timestamp => SqlType::Timestamp,
            FieldType::Geography => SqlType::Geography,
            FieldType::Json => SqlType::Json,
            FieldType::Interval => SqlType::Interval,
            FieldType::Range(element) => SqlType::Range(Box::new(match element {
                RangeElement::Date => SqlType::Date,
                RangeElement::Datetime => SqlType::Datetime,
                RangeElement::Timestamp => SqlType::Timestamp,
            })),
            FieldType::Struct(fields) => SqlType::Struct(
                fields
                    .iter()
                    .map(|f| (f.name.clone(), SqlType::of_column(f)))
                    .collect(),
            ),
        };
        match field.mode() {
            Mode::Repeated => SqlType::Array(Box::new(scalar)),
            Mode::Nullable | Mode::Required => scalar,
        }
    }

    /// A result column of this type, as answers describe it.
    pub(crate) fn to_column(&self, name: &str) -> Field {
        let field_type = match self {
            SqlType::Null | SqlType::Int64 => FieldType::Int64,
            SqlType::Bool => FieldType::Bool,
            SqlType::Float64 => FieldType::Float64,
            SqlType::Numeric => FieldType::Numeric,
            SqlType::BigNumeric => FieldType::Bignumeric,
            SqlType::String => FieldType::String,
            SqlType::Bytes => FieldType::Bytes,
            SqlType::Date => FieldType::Date,
            SqlType::Time => FieldType::Time,
            SqlType::Datetime => FieldType::Datetime,
            SqlType::Timestamp => FieldType::Timestamp,
            SqlType::Json => FieldType::Json,
            SqlType::Geography => FieldType::Geography,
            SqlType::Interval => FieldType::Interval,
            SqlType::Range(element) => FieldType::Range(match element.as_ref() {
                SqlType::Datetime => RangeElement::Datetime,
                SqlType::Timestamp => RangeElement::Timestamp,
                _ => RangeElement::Date,
            }),
            SqlType::Struct(fields) => {
                FieldType::Struct(fields.iter().map(|(n, t)| t.to_column(n)).collect())
            }
            SqlType::Array(element) => {
                return element.to_column(name).with_mode(Mode::Repeated);
            }
        };
        Field::new(name, field_type).with_mode(Mode::Nullable)
    }

    /// The element type of an array.
    pub(crate) fn element(&self) -> Option<&SqlType> {
        match self {
            SqlType::Array(element) => Some(element),
            _ => None,
        }
    }

    /// Whether values of this type can be compared with `=`.
    pub(crate) fn supports_equality(&self) -> bool {
        match self {
            SqlType::Json | SqlType::Geography | SqlType::Array(_) => false,
            SqlType::Struct(fields) => fields.iter().all(|(_, t)| t.supports_equality()),
            _ => true,
        }
    }

    /// Whether values of this type can be compared with `<` and sorted.
    pub(crate) fn supports_ordering(&self) -> bool {
        !matches!(
            self,
            SqlType::Json | SqlType::Geography | SqlType::Array(_) | SqlType::Struct(_)
        )
    }
}
