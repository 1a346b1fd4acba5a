//! GoogleSQL types of expressions, and which become which without a cast.

use std::fmt;

use crate::schema::{Field, FieldType, Mode, RangeElement};

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    Bool,
    Int64,
    Float64,
    Numeric,
    Bignumeric,
    Text,
    Bytes,
    Date,
    Time,
    Datetime,
    Timestamp,
    Interval,
    Json,
    Geography,
    Range(RangeElement),
    Struct(Vec<Field>),
    Array(Box<Type>),
}

impl Type {
    /// The type of a column or a nested field.
    pub(super) fn of(field: &Field) -> Self {
        let element = match &field.field_type {
            FieldType::Int64 => Type::Int64,
            FieldType::Float64 => Type::Float64,
            FieldType::Bool => Type::Bool,
            FieldType::String => Type::Text,
            FieldType::Bytes => Type::Bytes,
            FieldType::Numeric => Type::Numeric,
            FieldType::Bignumeric => Type::Bignumeric,
            FieldType::Date => Type::Date,
            FieldType::Time => Type::Time,
            FieldType::Datetime => Type::Datetime,
            FieldType::Timestamp => Type::Timestamp,
            FieldType::Geography => Type::Geography,
            FieldType::Json => Type::Json,
            FieldType::Interval => Type::Interval,
            FieldType::Range(element) => Type::Range(*element),
            FieldType::Struct(fields) => Type::Struct(fields.clone()),
        };
        match field.mode() {
            Mode::Repeated => Type::Array(Box::new(element)),
            Mode::Nullable | Mode::Required => element,
        }
    }

    /// The type called `name` (upper case), of those that CAST takes.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "BOOL" | "BOOLEAN" => Type::Bool,
            "INT64" | "INT" | "SMALLINT" | "INTEGER" | "BIGINT" | "TINYINT" | "BYTEINT" => {
                Type::Int64
            }
            "FLOAT64" => Type::Float64,
            "NUMERIC" | "DECIMAL" => Type::Numeric,
            "BIGNUMERIC" | "BIGDECIMAL" => Type::Bignumeric,
            "STRING" => Type::Text,
            "BYTES" => Type::Bytes,
            "DATE" => Type::Date,
            "TIME" => Type::Time,
            "DATETIME" => Type::Datetime,
            "TIMESTAMP" => Type::Timestamp,
            "INTERVAL" => Type::Interval,
            "JSON" => Type::Json,
            _ => return None,
        })
    }

    /// INT64, NUMERIC, BIGNUMERIC or FLOAT64: their rank in that order.
    fn rank(&self) -> Option<u8> {
        Some(match self {
            Type::Int64 => 0,
            Type::Numeric => 1,
            Type::Bignumeric => 2,
            Type::Float64 => 3,
            _ => return None,
        })
    }

    /// Whether a value is a number.
    pub(super) fn is_number(&self) -> bool {
        self.rank().is_some()
    }

    /// Whether any expression of this type is taken where `to` is wanted.
    pub(super) fn coerces_to(&self, to: &Type) -> bool {
        self == to
            || matches!((self.rank(), to.rank()), (Some(a), Some(b)) if a < b)
            || matches!((self, to), (Type::Date, Type::Datetime))
    }

    /// The type to which both coerce.
    pub(super) fn common(&self, other: &Type) -> Option<Type> {
        if self.coerces_to(other) {
            Some(other.clone())
        } else if other.coerces_to(self) {
            Some(self.clone())
        } else {
            None
        }
    }

    /// Whether `=` is defined.
    pub(super) fn has_equality(&self) -> bool {
        !matches!(
            self,
            Type::Json | Type::Geography | Type::Struct(_) | Type::Array(_)
        )
    }

    /// Whether `<` is defined.
    pub(super) fn has_order(&self) -> bool {
        self.has_equality()
    }
}

/// As error messages print types.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("BOOL"),
            Type::Int64 => f.write_str("INT64"),
            Type::Float64 => f.write_str("FLOAT64"),
            Type::Numeric => f.write_str("NUMERIC"),
            Type::Bignumeric => f.write_str("BIGNUMERIC"),
            Type::Text => f.write_str("STRING"),
            Type::Bytes => f.write_str("BYTES"),
            Type::Date => f.write_str("DATE"),
            Type::Time => f.write_str("TIME"),
            Type::Datetime => f.write_str("DATETIME"),
            Type::Timestamp => f.write_str("TIMESTAMP"),
            Type::Interval => f.write_str("INTERVAL"),
            Type::Json => f.write_str("JSON"),
            Type::Geography => f.write_str("GEOGRAPHY"),
            Type::Range(element) => write!(f, "RANGE<{}>", element.field_type().sql_name()),
            Type::Struct(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|field| format!("{} {}", field.name, field.sql_type()))
                    .collect();
                write!(f, "STRUCT<{}>", fields.join(", "))
            }
            Type::Array(element) => write!(f, "ARRAY<{element}>"),
        }
    }
}
