//! Which column becomes which, and how.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, IntervalUnit, Schema, TimeUnit};

use super::{Form, lists, to_json, unpack};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Field, FieldType, Mode, TableSchema};

/// Columns whose BigQuery type their Arrow type does not tell, as dotted paths
/// without regard to case: through structs by field name, through arrays as if
/// they were not there, into a map by `value`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldMarks {
    /// Strings that are JSON, and structs and maps that become JSON text.
    pub json: Vec<String>,
    /// Strings that are geographies, as well-known text or GeoJSON.
    pub geography: Vec<String>,
}

/// A column, or a field of a struct, that is written.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// The name, as the table spells it.
    pub(super) name: String,
    /// The names from the top, for errors.
    pub(super) path: String,
    /// Where it stands in the batch, or in the struct.
    pub(super) source: usize,
    /// The type it has there.
    pub(super) from: DataType,
    /// Whether NULL is refused.
    pub(super) required: bool,
    /// Whether it is an array.
    pub(super) repeated: bool,
    /// Characters of text or bytes at most, if the column has a limit.
    pub(super) longest: Option<usize>,
    /// What becomes of a value, or of an element.
    pub(super) value: Value,
}

/// What becomes of a value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Int64,
    Float64,
    Bool,
    /// STRING and GEOGRAPHY.
    Text,
    Bytes,
    Decimal(Decimal),
    Date,
    Time,
    DateTime,
    Timestamp,
    Interval,
    /// JSON that is text already.
    JsonText,
    /// JSON that has to be written from a struct or a map.
    JsonDocument,
    /// The bounds.
    Range(Vec<Column>),
    Struct(Vec<Column>),
}

/// A NUMERIC or BIGNUMERIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    /// Whether it is a BIGNUMERIC.
    pub(super) wide: bool,
    /// The digits that the column takes in all; `None` where 256 bits are the limit.
    pub(super) digits: Option<u8>,
    /// The fractional digits that it takes.
    pub(super) fraction: u8,
    /// Precision and scale of the Arrow form.
    pub(super) form: (u8, i8),
}

/// Digits of a BIGNUMERIC in Parquet: a decimal of that width has so many and no more.
pub(super) const WIDEST_IN_PARQUET: u8 = 76;

impl Decimal {
    fn of(field_type: &FieldType, format: Form) -> Option<Self> {
        let (wide, parameters, whole) = match field_type {
            FieldType::Numeric(parameters) => (false, parameters, (38, 9)),
            FieldType::BigNumeric(parameters) => (true, parameters, (76, 38)),
            _ => return None,
        };
        let (digits, fraction) = match parameters {
            Some(parameters) => (Some(parameters.precision), parameters.scale),
            None if wide && format == Form::Parquet => (Some(WIDEST_IN_PARQUET), 38),
            None if wide => (None, 38),
            None => (Some(38), 9),
        };
        let form = match (format, parameters) {
            (Form::Arrow, Some(parameters)) => {
                (parameters.precision, i8::try_from(parameters.scale).ok()?)
            }
            // The other forms carry the integer of the type's full scale: in files it
            // tells NUMERIC from BIGNUMERIC.
            _ => whole,
        };
        Some(Decimal {
            wide,
            digits,
            fraction,
            form,
        })
    }
}

impl Column {
    /// The Arrow form of the column.
    pub(super) fn data_type(&self) -> DataType {
        let value = self.value.data_type();
        if self.repeated {
            DataType::List(Arc::new(ArrowField::new_list_field(value, true)))
        } else {
            value
        }
    }
}

impl Value {
    /// The Arrow form of the value. Protobuf rows may be written from text and
    /// bytes of another layout too.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Value::Int64 => DataType::Int64,
            Value::Float64 => DataType::Float64,
            Value::Bool => DataType::Boolean,
            Value::Text | Value::JsonText | Value::JsonDocument => DataType::Utf8,
            Value::Bytes => DataType::Binary,
            Value::Decimal(decimal) if decimal.wide => {
                DataType::Decimal256(decimal.form.0, decimal.form.1)
            }
            Value::Decimal(decimal) => DataType::Decimal128(decimal.form.0, decimal.form.1),
            Value::Date => DataType::Date32,
            Value::Time => DataType::Time64(TimeUnit::Microsecond),
            Value::DateTime => DataType::Timestamp(TimeUnit::Microsecond, None),
            Value::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Value::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Value::Range(columns) | Value::Struct(columns) => {
                DataType::Struct(columns.iter().map(arrow_field).collect())
            }
        }
    }
}

fn arrow_field(column: &Column) -> ArrowField {
    ArrowField::new(&column.name, column.data_type(), true)
}

/// The Arrow form of the rows.
pub(super) fn arrow_schema(columns: &[Column]) -> Schema {
    Schema::new(columns.iter().map(arrow_field).collect::<Vec<_>>())
}

/// Plans the columns of a batch for a table.
pub(super) fn columns(
    batch: &Schema,
    table: &TableSchema,
    format: Form,
    marks: &FieldMarks,
) -> Result<Vec<Column>> {
    let mut planner = Planner {
        format,
        marks,
        met: Vec::new(),
        problems: Vec::new(),
    };
    let given: Vec<_> = batch
        .fields()
        .iter()
        .map(|field| (field.name().as_str(), field.data_type()))
        .collect();
    let columns = planner.fields(&given, &table.fields, "");
    planner.check_marks();
    if planner.problems.is_empty() {
        Ok(columns)
    } else {
        Err(Error::new(
            ErrorKind::InvalidArgument,
            planner.problems.join("; "),
        ))
    }
}

struct Planner<'a> {
    format: Form,
    marks: &'a FieldMarks,
    /// The marked paths that were met, in lower case.
    met: Vec<String>,
    problems: Vec<String>,
}

impl Planner<'_> {
    /// The columns at one level: names and types of what is given, and the fields
    /// that the table has there.
    fn fields(
        &mut self,
        given: &[(&str, &DataType)],
        fields: &[Field],
        parent: &str,
    ) -> Vec<Column> {
        let mut columns = Vec::with_capacity(given.len());
        let mut taken = vec![false; fields.len()];
        for (source, (name, from)) in given.iter().enumerate() {
            let Some(at) = fields.iter().position(|field| field.is_named(name)) else {
                let what = if parent.is_empty() {
                    "the table has no such column"
                } else {
                    "the column has no such field"
                };
                self.problem(
                    &joined(parent, name),
                    &format!(
                        "{what} for values of type {from}; add it to the table, let it be added by \
                         option 'sink.schema_update.allow_new_fields', or leave it out"
                    ),
                );
                continue;
            };
            let path = joined(parent, &fields[at].name);
            if std::mem::replace(&mut taken[at], true) {
                self.problem(&path, "it is given twice; BigQuery ignores case in names");
                continue;
            }
            columns.extend(self.column(source, from, &fields[at], path));
        }
        for (field, taken) in fields.iter().zip(taken) {
            let missed = field.mode == Mode::Required && field.default_value_expression.is_none();
            if missed && !taken {
                self.problem(
                    &joined(parent, &field.name),
                    &format!(
                        "it is REQUIRED, of type {}, and not given; add it to the rows",
                        field.field_type
                    ),
                );
            }
        }
        columns
    }

    fn column(
        &mut self,
        source: usize,
        from: &DataType,
        field: &Field,
        path: String,
    ) -> Option<Column> {
        let plain = unpack::plain_type(from);
        let repeated = field.mode == Mode::Repeated;
        let element = lists::element(plain);
        let of = match (repeated, element) {
            (true, Some(element)) => unpack::plain_type(element.data_type()),
            (true, None) if plain == &DataType::Null => plain,
            (true, None) => {
                self.refuse(&path, from, field, "give a list");
                return None;
            }
            (false, Some(_)) if !(self.is_json(&path) && matches!(plain, DataType::Map(..))) => {
                self.refuse(&path, from, field, "give a single value");
                return None;
            }
            (false, _) => plain,
        };
        let entries = repeated && matches!(plain, DataType::Map(..));
        let value = self.value(of, field, &path, entries)?;
        Some(Column {
            name: field.name.clone(),
            path,
            source,
            from: from.clone(),
            required: field.mode == Mode::Required,
            repeated,
            longest: field.max_length.and_then(|most| usize::try_from(most).ok()),
            value,
        })
    }

    /// `entries` says that the values are the entries of maps.
    fn value(
        &mut self,
        from: &DataType,
        field: &Field,
        path: &str,
        entries: bool,
    ) -> Option<Value> {
        if !self.marked(path, from, field) {
            return None;
        }
        let value = match (&field.field_type, from) {
            (FieldType::Unsupported(_), _) => {
                self.problem(
                    path,
                    &format!(
                        "its type {} is not known to this version; leave it out",
                        field.field_type
                    ),
                );
                return None;
            }
            (FieldType::Struct(_), DataType::Struct(_))
                if entries && self.is_marked(&joined(path, "key")) =>
            {
                self.problem(path, "the key of a map can be neither JSON nor a geography");
                return None;
            }
            (FieldType::Struct(fields), DataType::Struct(given)) => {
                let given: Vec<_> = given
                    .iter()
                    .enumerate()
                    .map(|(at, child)| {
                        let name = match at {
                            0 if entries => "key",
                            1 if entries => "value",
                            _ => child.name().as_str(),
                        };
                        (name, child.data_type())
                    })
                    .collect();
                Some(Value::Struct(self.fields(&given, fields, path)))
            }
            (FieldType::Struct(fields), DataType::Null) => {
                let given: Vec<_> = fields
                    .iter()
                    .map(|field| (field.name.as_str(), &DataType::Null))
                    .collect();
                Some(Value::Struct(self.fields(&given, fields, path)))
            }
            (FieldType::Range(element), DataType::Struct(given)) => {
                let bounds = ["start", "end"]
                    .map(|name| Field::new(name, element.field_type(), Mode::Nullable));
                let given: Vec<_> = given
                    .iter()
                    .map(|child| (child.name().as_str(), child.data_type()))
                    .collect();
                let bounds = self.fields(&given, &bounds, path);
                if bounds.len() == 2 {
                    Some(Value::Range(bounds))
                } else {
                    self.refuse(path, from, field, "give a struct of start and end");
                    return None;
                }
            }
            (FieldType::Range(element), DataType::Null) => {
                let bounds = ["start", "end"]
                    .map(|name| Field::new(name, element.field_type(), Mode::Nullable));
                let given = [("start", &DataType::Null), ("end", &DataType::Null)];
                Some(Value::Range(self.fields(&given, &bounds, path)))
            }
            (FieldType::Json, DataType::Struct(_) | DataType::Map(..)) => {
                if !self.is_json(path) {
                    let hint = "a struct becomes JSON only where it is marked (FieldMarks), which this \
                                version's SQL does not do: give the JSON as text";
                    self.refuse(path, from, field, hint);
                    return None;
                }
                if let Err(why) = to_json::check(from) {
                    self.refuse(path, from, field, &why);
                    return None;
                }
                Some(Value::JsonDocument)
            }
            (to, from) => scalar(from, to, self.format),
        };
        if value.is_none() {
            self.refuse(path, from, field, "cast it or leave it out");
        }
        value
    }

    /// Whether the marks of a column, if it has any, fit it.
    fn marked(&mut self, path: &str, from: &DataType, field: &Field) -> bool {
        let text = from.is_string() || from == &DataType::Null;
        let document = matches!(from, DataType::Struct(_) | DataType::Map(..));
        for (marks, option, wanted, fits) in [
            (
                &self.marks.json,
                "sink.json_field_paths",
                FieldType::Json,
                text || document,
            ),
            (
                &self.marks.geography,
                "sink.geography_field_paths",
                FieldType::Geography,
                text,
            ),
        ] {
            if !names(marks, path) {
                continue;
            }
            self.met.push(path.to_lowercase());
            let why = if field.field_type != wanted {
                format!("the table's column is {}", field.field_type)
            } else if !fits {
                format!("values of type {from} cannot be {wanted}")
            } else {
                continue;
            };
            self.problem(path, &format!("{option} names it, but {why}"));
            return false;
        }
        true
    }

    fn is_json(&self, path: &str) -> bool {
        names(&self.marks.json, path)
    }

    fn is_marked(&self, path: &str) -> bool {
        self.is_json(path) || names(&self.marks.geography, path)
    }

    fn check_marks(&mut self) {
        // A column that was refused already was not looked at for marks.
        if !self.problems.is_empty() {
            return;
        }
        for (marks, option) in [
            (&self.marks.json, "sink.json_field_paths"),
            (&self.marks.geography, "sink.geography_field_paths"),
        ] {
            for mark in marks {
                if !self.met.contains(&mark.to_lowercase()) {
                    self.problems.push(format!(
                        "{option} names '{mark}', which is no column of the rows"
                    ));
                }
            }
        }
    }

    fn refuse(&mut self, path: &str, from: &DataType, field: &Field, hint: &str) {
        let to = field.type_name();
        self.problem(
            path,
            &format!("values of type {from} cannot become {to}; {hint}"),
        );
    }

    fn problem(&mut self, path: &str, what: &str) {
        self.problems.push(format!("column '{path}': {what}"));
    }
}

fn joined(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_string()
    } else {
        format!("{parent}.{name}")
    }
}

fn names(marks: &[String], path: &str) -> bool {
    marks
        .iter()
        .any(|mark| mark.to_lowercase() == path.to_lowercase())
}

fn is_date(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64)
}

/// What becomes of values of one scalar type in a column of another.
fn scalar(from: &DataType, to: &FieldType, format: Form) -> Option<Value> {
    let null = from == &DataType::Null;
    let text = null || from.is_string();
    let number = null || from.is_numeric();
    let civil = matches!(from, DataType::Timestamp(_, None)) || is_date(from);
    let instant = matches!(from, DataType::Timestamp(..)) || is_date(from);
    let bytes = matches!(
        from,
        DataType::Null
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    );
    let (fits, value) = match to {
        FieldType::Int64 => (number, Value::Int64),
        FieldType::Float64 => (number, Value::Float64),
        FieldType::Bool => (null || from == &DataType::Boolean, Value::Bool),
        FieldType::String | FieldType::Geography => (text, Value::Text),
        FieldType::Bytes => (bytes, Value::Bytes),
        FieldType::Numeric(_) | FieldType::BigNumeric(_) => {
            (number || text, Value::Decimal(Decimal::of(to, format)?))
        }
        FieldType::Date => (
            text || is_date(from) || from == &DataType::Int32,
            Value::Date,
        ),
        FieldType::Time => {
            let time = matches!(from, DataType::Time32(_) | DataType::Time64(_));
            (text || time, Value::Time)
        }
        FieldType::DateTime => (text || civil, Value::DateTime),
        FieldType::Timestamp(_) => (text || instant, Value::Timestamp),
        FieldType::Interval => {
            let interval = matches!(from, DataType::Interval(_) | DataType::Duration(_));
            (text || interval, Value::Interval)
        }
        FieldType::Json => (text, Value::JsonText),
        FieldType::Range(_) | FieldType::Struct(_) | FieldType::Unsupported(_) => return None,
    };
    fits.then_some(value)
}

/// Whether two types hold the same values at the same places, whatever they say
/// of NULL and whatever metadata they carry.
pub(super) fn alike(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::Struct(one), DataType::Struct(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| {
                    one.name() == other.name() && alike(one.data_type(), other.data_type())
                })
        }
        (DataType::Dictionary(key, one), DataType::Dictionary(other_key, other)) => {
            key == other_key && alike(one, other)
        }
        (DataType::RunEndEncoded(ends, one), DataType::RunEndEncoded(other_ends, other)) => {
            ends.data_type() == other_ends.data_type() && alike(one.data_type(), other.data_type())
        }
        (DataType::FixedSizeList(one, size), DataType::FixedSizeList(other, other_size)) => {
            size == other_size && alike(one.data_type(), other.data_type())
        }
        (one, other) => match (lists::element(one), lists::element(other)) {
            (Some(item), Some(other_item)) => {
                std::mem::discriminant(one) == std::mem::discriminant(other)
                    && alike(item.data_type(), other_item.data_type())
            }
            _ => one == other,
        },
    }
}
