//! A table's columns as BigQuery describes them.

use std::fmt;

/// The columns of a table, in the table's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableSchema {
    /// The columns.
    pub fields: Vec<Field>,
}

impl TableSchema {
    /// The column of this name. BigQuery's column names are unique and looked
    /// up without regard to case.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.is_named(name))
    }

    /// The column or nested field at `path`, one segment per level, looked up
    /// without regard to case.
    pub fn field_at<S: AsRef<str>>(&self, path: &[S]) -> Option<&Field> {
        let (first, rest) = path.split_first()?;
        let mut current = self.field(first.as_ref())?;
        for segment in rest {
            current = current
                .field_type
                .fields()
                .iter()
                .find(|field| field.is_named(segment.as_ref()))?;
        }
        Some(current)
    }

    /// Takes STRING columns that do not say their collation to have their table's:
    /// comparisons that may ignore case must not be trusted.
    pub(crate) fn collate(&mut self, collation: &str) {
        for field in &mut self.fields {
            collate(field, collation);
        }
    }
}

/// A column, or a field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name, in the case in which it was declared.
    pub name: String,
    /// The type of a value; of an element where the mode is repeated.
    pub field_type: FieldType,
    /// Whether values may be NULL or are arrays.
    pub mode: Mode,
    /// The description, if one was given.
    pub description: Option<String>,
    /// The collation of a STRING column (`und:ci`), if it has one. Comparisons
    /// of such a column ignore case, which Arrow's do not.
    pub collation: Option<String>,
    /// The GoogleSQL text of the value of omitted columns, if there is one.
    pub default_value_expression: Option<String>,
    /// The greatest length of a STRING (characters) or BYTES (bytes) value.
    pub max_length: Option<i64>,
}

impl Field {
    /// A field with neither description nor parameters.
    pub fn new(name: impl Into<String>, field_type: FieldType, mode: Mode) -> Self {
        Field {
            name: name.into(),
            field_type,
            mode,
            description: None,
            collation: None,
            default_value_expression: None,
            max_length: None,
        }
    }

    /// The GoogleSQL name of the type with its parameters, an array's included.
    pub fn type_name(&self) -> String {
        match self.mode {
            Mode::Repeated => format!("ARRAY<{}>", self.field_type),
            Mode::Nullable | Mode::Required => self.field_type.to_string(),
        }
    }

    /// Whether BigQuery would take `name` to mean this field.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.name.to_lowercase() == name.to_lowercase()
    }
}

/// Whether values of a field may be NULL or are arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Values may be NULL.
    #[default]
    Nullable,
    /// Values are never NULL.
    Required,
    /// Values are arrays, possibly empty, never NULL, without NULL elements.
    Repeated,
}

/// Precision and scale of a NUMERIC or BIGNUMERIC column that declares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecimalParameters {
    /// Digits in all.
    pub precision: u8,
    /// Digits after the point.
    pub scale: u8,
}

/// How many fractional digits of a second a TIMESTAMP column stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimestampDigits {
    /// Six, microseconds: `TIMESTAMP`.
    #[default]
    Six,
    /// Twelve, picoseconds: `TIMESTAMP(12)`.
    Twelve,
}

/// What a RANGE is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RangeElement {
    /// `RANGE<DATE>`.
    Date,
    /// `RANGE<DATETIME>`.
    DateTime,
    /// `RANGE<TIMESTAMP>`.
    Timestamp,
}

impl RangeElement {
    /// The type of the bounds.
    pub fn field_type(self) -> FieldType {
        match self {
            RangeElement::Date => FieldType::Date,
            RangeElement::DateTime => FieldType::DateTime,
            RangeElement::Timestamp => FieldType::Timestamp(TimestampDigits::Six),
        }
    }
}

/// The type of a field's values; arrays are a [`Mode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// 64-bit signed integer.
    Int64,
    /// IEEE 754 double.
    Float64,
    /// Boolean.
    Bool,
    /// Unicode text.
    String,
    /// Bytes.
    Bytes,
    /// Decimal of 29 integer and 9 fractional digits.
    Numeric(Option<DecimalParameters>),
    /// Decimal of 38 integer (a little more at the ends) and 38 fractional digits.
    BigNumeric(Option<DecimalParameters>),
    /// Civil date, years 1 to 9999.
    Date,
    /// Civil time of day in microseconds.
    Time,
    /// Civil date and time in microseconds.
    DateTime,
    /// Instant.
    Timestamp(TimestampDigits),
    /// A geography, exchanged as well-known text.
    Geography,
    /// JSON, exchanged as text.
    Json,
    /// Months, days and microseconds, each with its own sign.
    Interval,
    /// A half-open range; a missing bound is unbounded.
    Range(RangeElement),
    /// Named fields.
    Struct(Vec<Field>),
    /// A type that this version does not know, by the name the service gave.
    /// Columns of it cannot be read; the others of the table can.
    Unsupported(String),
}

impl FieldType {
    /// The fields of a struct; none for the other types.
    pub fn fields(&self) -> &[Field] {
        match self {
            FieldType::Struct(fields) => fields,
            FieldType::Int64
            | FieldType::Float64
            | FieldType::Bool
            | FieldType::String
            | FieldType::Bytes
            | FieldType::Numeric(_)
            | FieldType::BigNumeric(_)
            | FieldType::Date
            | FieldType::Time
            | FieldType::DateTime
            | FieldType::Timestamp(_)
            | FieldType::Geography
            | FieldType::Json
            | FieldType::Interval
            | FieldType::Range(_)
            | FieldType::Unsupported(_) => &[],
        }
    }

    /// The same, to change them.
    pub(crate) fn fields_mut(&mut self) -> &mut [Field] {
        match self {
            FieldType::Struct(fields) => fields,
            _ => &mut [],
        }
    }

    /// The type, or that of a field inside it, that this version does not know.
    pub fn unsupported(&self) -> Option<&str> {
        match self {
            FieldType::Unsupported(name) => Some(name),
            other => other
                .fields()
                .iter()
                .find_map(|field| field.field_type.unsupported()),
        }
    }
}

/// The GoogleSQL name with its parameters, as `NUMERIC(10, 2)` or
/// `STRUCT<a INT64, b ARRAY<STRING>>`.
impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = |f: &mut fmt::Formatter<'_>, name, parameters: &Option<DecimalParameters>| {
            f.write_str(name)?;
            match parameters {
                Some(DecimalParameters { precision, scale }) => write!(f, "({precision}, {scale})"),
                None => Ok(()),
            }
        };
        match self {
            FieldType::Int64 => f.write_str("INT64"),
            FieldType::Float64 => f.write_str("FLOAT64"),
            FieldType::Bool => f.write_str("BOOL"),
            FieldType::String => f.write_str("STRING"),
            FieldType::Bytes => f.write_str("BYTES"),
            FieldType::Numeric(parameters) => decimal(f, "NUMERIC", parameters),
            FieldType::BigNumeric(parameters) => decimal(f, "BIGNUMERIC", parameters),
            FieldType::Date => f.write_str("DATE"),
            FieldType::Time => f.write_str("TIME"),
            FieldType::DateTime => f.write_str("DATETIME"),
            FieldType::Timestamp(TimestampDigits::Six) => f.write_str("TIMESTAMP"),
            FieldType::Timestamp(TimestampDigits::Twelve) => f.write_str("TIMESTAMP(12)"),
            FieldType::Geography => f.write_str("GEOGRAPHY"),
            FieldType::Json => f.write_str("JSON"),
            FieldType::Interval => f.write_str("INTERVAL"),
            FieldType::Range(element) => write!(f, "RANGE<{}>", element.field_type()),
            FieldType::Struct(fields) => {
                f.write_str("STRUCT<")?;
                for (index, field) in fields.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{} {}", field.name, field.type_name())?;
                }
                f.write_str(">")
            }
            FieldType::Unsupported(name) => f.write_str(name),
        }
    }
}

fn collate(field: &mut Field, collation: &str) {
    if field.field_type == FieldType::String {
        field.collation.get_or_insert_with(|| collation.to_string());
    }
    for inner in field.field_type.fields_mut() {
        collate(inner, collation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested() -> TableSchema {
        TableSchema {
            fields: vec![
                Field::new("Id", FieldType::Int64, Mode::Required),
                Field::new(
                    "s",
                    FieldType::Struct(vec![
                        Field::new("a", FieldType::String, Mode::Nullable),
                        Field::new(
                            "Deep",
                            FieldType::Struct(vec![Field::new(
                                "x",
                                FieldType::Date,
                                Mode::Repeated,
                            )]),
                            Mode::Nullable,
                        ),
                    ]),
                    Mode::Nullable,
                ),
            ],
        }
    }

    #[test]
    fn fields_are_found_without_regard_to_case() {
        let schema = nested();
        assert_eq!(schema.field("ID").map(|f| f.name.as_str()), Some("Id"));
        assert_eq!(schema.field("nope"), None);
        assert_eq!(
            schema
                .field_at(&["S", "deep", "X"])
                .map(|f| f.field_type.clone()),
            Some(FieldType::Date)
        );
        assert_eq!(schema.field_at(&["Id", "x"]), None);
        assert_eq!(schema.field_at::<&str>(&[]), None);
    }

    #[test]
    fn types_print_as_googlesql() {
        assert_eq!(
            nested().fields[1].field_type.to_string(),
            "STRUCT<a STRING, Deep STRUCT<x ARRAY<DATE>>>"
        );
        let parameters = Some(DecimalParameters {
            precision: 10,
            scale: 2,
        });
        assert_eq!(FieldType::Numeric(parameters).to_string(), "NUMERIC(10, 2)");
        assert_eq!(FieldType::BigNumeric(None).to_string(), "BIGNUMERIC");
        assert_eq!(
            FieldType::Range(RangeElement::DateTime).to_string(),
            "RANGE<DATETIME>"
        );
    }

    #[test]
    fn an_unknown_type_is_found_inside_structs() {
        let inner = Field::new("v", FieldType::Unsupported("VECTOR".into()), Mode::Nullable);
        assert_eq!(FieldType::Struct(vec![inner]).unsupported(), Some("VECTOR"));
        assert_eq!(nested().fields[1].field_type.unsupported(), None);
    }
}
