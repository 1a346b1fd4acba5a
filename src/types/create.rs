//! The columns of a table that is to be created for Arrow data.

use std::fmt;

use arrow::datatypes::{DataType, Field as ArrowField, Schema};

use super::arrow::{EXTENSION_NAME, SQL_TYPE};
use super::encode::FieldMarks;
use super::field::{
    DecimalParameters, Field, FieldType, Mode, RangeElement, TableSchema, TimestampDigits,
};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{NewPartitioning, PartitionUnit, TableCreateOptions};

/// Limits of the service
/// (<https://cloud.google.com/bigquery/quotas#standard_tables>).
const MAX_COLUMNS: usize = 10_000;
const MAX_NAME_LENGTH: usize = 300;
const MAX_DEPTH: usize = 15;

/// What no name of a column has
/// (<https://cloud.google.com/bigquery/docs/schemas#flexible-column-names>).
const FORBIDDEN_CHARACTERS: &str = "!\"$()*,./;?@[\\]^`{}~";

/// How no name of a column begins, whatever its case
/// (<https://cloud.google.com/bigquery/docs/schemas#column_names>).
const FORBIDDEN_BEGINNINGS: [&str; 9] = [
    "_CHANGE_SEQUENCE_NUMBER",
    "_CHANGE_TIMESTAMP",
    "_CHANGE_TYPE",
    "_COLIDENTIFIER",
    "_FILE_",
    "_PARTITION",
    "_ROW_TIMESTAMP",
    "_TABLE_",
    "__ROOT__",
];

/// Which columns of a new table are REQUIRED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewModes {
    /// None.
    Nullable,
    /// Those that are never NULL in the data.
    Derived,
}

/// The columns for data of `schema`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`], in one message about all columns that BigQuery
/// cannot hold, by name or by type, and about marks that name no column.
pub fn table_schema_for(
    schema: &Schema,
    marks: &FieldMarks,
    modes: NewModes,
) -> Result<TableSchema> {
    let mut creator = Creator::new(marks, modes);
    let fields = creator.fields(schema.fields().iter().map(AsRef::as_ref), "", 1);
    if schema.fields().is_empty() {
        creator.problem("", "a table has at least one column");
    }
    if schema.fields().len() > MAX_COLUMNS {
        creator.problem("", "a table has at most 10,000 columns");
    }
    creator.check_marks();
    creator.finish(TableSchema { fields })
}

/// The column for one Arrow field at `parent`, which is empty at the top.
///
/// # Errors
/// As [`table_schema_for`], without a look at marks of other columns.
pub(crate) fn field_for(
    field: &ArrowField,
    parent: &str,
    marks: &FieldMarks,
    modes: NewModes,
) -> Result<Field> {
    let mut creator = Creator::new(marks, modes);
    let depth = 1 + parent.split('.').filter(|part| !part.is_empty()).count();
    let created = creator.field(field, parent, depth);
    let none = Field::new(field.name(), FieldType::Bool, Mode::Nullable);
    creator.finish(created.unwrap_or(none))
}

/// That a new table of these columns can be partitioned and clustered so.
///
/// # Errors
/// [`ErrorKind::Configuration`] naming the option and the column.
pub fn check_terms(terms: &TableCreateOptions, columns: &TableSchema) -> Result<()> {
    match &terms.partitioning {
        None | Some(NewPartitioning::Time { field: None, .. }) => {}
        Some(NewPartitioning::Time {
            field: Some(name),
            unit,
            ..
        }) => {
            const OPTION: &str = "sink.table_create.time_partitioning.field";
            let column = single(columns, name, OPTION)?;
            match (&column.field_type, unit) {
                (FieldType::Date, PartitionUnit::Hour) => {
                    return Err(Error::configuration(format!(
                        "options 'sink.table_create.time_partitioning.type' 'hour' and '{OPTION}' \
                         '{name}' cannot go together: a DATE has no hours"
                    )));
                }
                (FieldType::Date | FieldType::DateTime | FieldType::Timestamp(_), _) => {}
                (other, _) => {
                    return Err(unfit(
                        OPTION,
                        name,
                        other,
                        "a DATE, DATETIME or TIMESTAMP column",
                    ));
                }
            }
        }
        Some(NewPartitioning::Range { field: name, .. }) => {
            const OPTION: &str = "sink.table_create.range_partitioning.field";
            let column = single(columns, name, OPTION)?;
            if column.field_type != FieldType::Int64 {
                return Err(unfit(OPTION, name, &column.field_type, "an INT64 column"));
            }
        }
    }
    for name in &terms.clustered_fields {
        const OPTION: &str = "sink.table_create.clustered_fields";
        let column = single(columns, name, OPTION)?;
        let fits = match &column.field_type {
            FieldType::BigNumeric(_)
            | FieldType::Bool
            | FieldType::Date
            | FieldType::DateTime
            | FieldType::Geography
            | FieldType::Int64
            | FieldType::Numeric(_)
            | FieldType::Range(_)
            | FieldType::String
            | FieldType::Timestamp(_) => true,
            FieldType::Bytes
            | FieldType::Float64
            | FieldType::Interval
            | FieldType::Json
            | FieldType::Struct(_)
            | FieldType::Time
            | FieldType::Unsupported(_) => false,
        };
        if !fits {
            let wanted = "a column of whole numbers, decimals, text, dates, times with a date, \
                          ranges, geographies or BOOL";
            return Err(unfit(OPTION, name, &column.field_type, wanted));
        }
    }
    Ok(())
}

/// The column of an option, which is at the top and not repeated.
fn single<'a>(columns: &'a TableSchema, name: &str, option: &str) -> Result<&'a Field> {
    let Some(column) = columns.field(name) else {
        return Err(Error::configuration(format!(
            "option '{option}' names '{name}', which is no column of the new table"
        )));
    };
    if column.mode == Mode::Repeated {
        return Err(Error::configuration(format!(
            "option '{option}' names '{name}', which is repeated: it must be a column of single \
             values"
        )));
    }
    Ok(column)
}

fn unfit(option: &str, name: &str, found: &FieldType, wanted: &str) -> Error {
    Error::configuration(format!(
        "option '{option}' names '{name}', which is {found}: it must be {wanted}"
    ))
}

/// Why a name cannot be that of a new column, if it cannot.
fn wrong_name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("a column needs a name".to_string());
    }
    if name.chars().count() > MAX_NAME_LENGTH {
        return Some(format!(
            "the name is longer than {MAX_NAME_LENGTH} characters"
        ));
    }
    if let Some(wrong) = name
        .chars()
        .find(|c| FORBIDDEN_CHARACTERS.contains(*c) || c.is_control())
    {
        return Some(format!("BigQuery takes no {wrong:?} in names"));
    }
    let upper = name.to_uppercase();
    FORBIDDEN_BEGINNINGS
        .iter()
        .find(|beginning| upper.starts_with(**beginning))
        .map(|beginning| format!("BigQuery keeps names that begin with {beginning} for itself"))
}

struct Creator<'a> {
    marks: &'a FieldMarks,
    modes: NewModes,
    /// The marks that were met, in lower case.
    met: Vec<String>,
    problems: Vec<String>,
}

impl<'a> Creator<'a> {
    fn new(marks: &'a FieldMarks, modes: NewModes) -> Self {
        Creator {
            marks,
            modes,
            met: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn finish<T>(self, created: T) -> Result<T> {
        match self.problems.is_empty() {
            true => Ok(created),
            false => Err(Error::new(
                ErrorKind::InvalidArgument,
                self.problems.join("; "),
            )),
        }
    }

    fn fields<'f>(
        &mut self,
        given: impl Iterator<Item = &'f ArrowField>,
        parent: &str,
        depth: usize,
    ) -> Vec<Field> {
        let mut fields: Vec<Field> = Vec::new();
        for field in given {
            if fields.iter().any(|other| other.is_named(field.name())) {
                let what = "it is there twice; BigQuery ignores case in names";
                self.problem(&joined(parent, field.name()), what);
                continue;
            }
            fields.extend(self.field(field, parent, depth));
        }
        fields
    }

    fn field(&mut self, field: &ArrowField, parent: &str, depth: usize) -> Option<Field> {
        let path = joined(parent, field.name());
        if let Some(why) = wrong_name(field.name()) {
            self.problem(&path, &why);
            return None;
        }
        if depth > MAX_DEPTH {
            self.problem(&path, "it is nested deeper than the 15 levels of BigQuery");
            return None;
        }
        let plain = plain(field.data_type());
        let document = self.takes(&path, &Kind::Json);
        let (mode, of) = match (element(plain), document) {
            (Some(_), true) if matches!(plain, DataType::Map(..)) => (None, plain),
            (Some(element), _) => (Some(Mode::Repeated), element),
            (None, _) => (None, plain),
        };
        let mode = mode.unwrap_or(match (self.modes, field.is_nullable()) {
            (NewModes::Derived, false) => Mode::Required,
            (NewModes::Derived, true) | (NewModes::Nullable, _) => Mode::Nullable,
        });
        let entries = mode == Mode::Repeated && matches!(plain, DataType::Map(..));
        let field_type = match entries {
            true => self.entries(of, &path, depth),
            false => self.value(of, field, &path, depth),
        };
        Some(Field::new(field.name(), field_type?, mode))
    }

    /// The entries of maps.
    fn entries(&mut self, of: &DataType, path: &str, depth: usize) -> Option<FieldType> {
        let DataType::Struct(fields) = of else {
            self.problem(path, "the map has no keys and values");
            return None;
        };
        let [key, value] = &**fields else {
            self.problem(path, "the map has no keys and values");
            return None;
        };
        for kind in [Kind::Json, Kind::Geography] {
            if self.takes(&joined(path, "key"), &kind) {
                self.problem(path, "the key of a map can be neither JSON nor a geography");
                return None;
            }
        }
        let named = [
            key.as_ref().clone().with_name("key"),
            value.as_ref().clone().with_name("value"),
        ];
        let fields = self.fields(named.iter(), path, depth + 1);
        (fields.len() == 2).then_some(FieldType::Struct(fields))
    }

    fn value(
        &mut self,
        of: &DataType,
        field: &ArrowField,
        path: &str,
        depth: usize,
    ) -> Option<FieldType> {
        let marked = |name: &str| {
            field
                .metadata()
                .get(EXTENSION_NAME)
                .is_some_and(|extension| extension == name)
        };
        for (kind, extension) in [
            (Kind::Json, "google:sqlType:json"),
            (Kind::Geography, "google:sqlType:geography"),
        ] {
            let said = self.takes(path, &kind);
            let read = of.is_string() && marked(extension);
            if !said && !read {
                continue;
            }
            let document = matches!(of, DataType::Struct(_) | DataType::Map(..));
            let fits = of.is_string() || (document && kind == Kind::Json);
            if !fits {
                let option = kind.option();
                let what = format!("{option} names it, but values of type {of} cannot be {kind}");
                self.problem(path, &what);
                return None;
            }
            return Some(kind.field_type());
        }
        let refuse = |creator: &mut Self, hint: &str| {
            let what = format!("BigQuery has no type for values of type {of}; {hint}");
            creator.problem(path, &what);
            None
        };
        match of {
            DataType::Boolean => Some(FieldType::Bool),
            of if of.is_integer() => Some(FieldType::Int64),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Some(FieldType::Float64),
            of if of.is_string() => Some(FieldType::String),
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Some(FieldType::Bytes),
            DataType::Date32 | DataType::Date64 => Some(FieldType::Date),
            DataType::Time32(_) | DataType::Time64(_) => Some(FieldType::Time),
            DataType::Timestamp(_, None) => Some(FieldType::DateTime),
            DataType::Timestamp(_, Some(_)) => {
                Some(FieldType::Timestamp(TimestampDigits::default()))
            }
            DataType::Interval(_) | DataType::Duration(_) => Some(FieldType::Interval),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => match decimal(*precision, *scale) {
                Some(decimal) => Some(decimal),
                None => refuse(
                    self,
                    "cast it to a decimal of at most 38 digits before the point and 38 behind it",
                ),
            },
            DataType::Struct(fields) => {
                let is_range = field.metadata().get(SQL_TYPE).is_some_and(|t| t == "range");
                if is_range {
                    return match range(fields.iter().map(AsRef::as_ref)) {
                        Some(range) => Some(range),
                        None => refuse(self, "a range has two bounds of one date or time type"),
                    };
                }
                if fields.is_empty() {
                    return refuse(self, "a STRUCT has at least one field");
                }
                let created = self.fields(fields.iter().map(AsRef::as_ref), path, depth + 1);
                (created.len() == fields.len()).then_some(FieldType::Struct(created))
            }
            DataType::Null => refuse(self, "cast it to the type that it shall have"),
            of if element(of).is_some() => {
                refuse(self, "arrays hold no arrays: put a struct between them")
            }
            _ => refuse(self, "cast it or leave it out"),
        }
    }

    /// Whether a mark names the path.
    fn takes(&mut self, path: &str, kind: &Kind) -> bool {
        let marks = match kind {
            Kind::Json => &self.marks.json,
            Kind::Geography => &self.marks.geography,
        };
        let path = path.to_lowercase();
        let named = marks.iter().any(|mark| mark.to_lowercase() == path);
        if named {
            self.met.push(path);
        }
        named
    }

    fn check_marks(&mut self) {
        if !self.problems.is_empty() {
            return;
        }
        for kind in [Kind::Json, Kind::Geography] {
            let marks = match kind {
                Kind::Json => &self.marks.json,
                Kind::Geography => &self.marks.geography,
            };
            for mark in marks {
                if !self.met.contains(&mark.to_lowercase()) {
                    let option = kind.option();
                    self.problems
                        .push(format!("{option} names '{mark}', which is no column"));
                }
            }
        }
    }

    fn problem(&mut self, path: &str, what: &str) {
        self.problems.push(match path {
            "" => what.to_string(),
            path => format!("column '{path}': {what}"),
        });
    }
}

/// What a mark says.
#[derive(PartialEq, Eq)]
enum Kind {
    Json,
    Geography,
}

impl Kind {
    fn option(&self) -> &'static str {
        match self {
            Kind::Json => "sink.json_field_paths",
            Kind::Geography => "sink.geography_field_paths",
        }
    }

    fn field_type(&self) -> FieldType {
        match self {
            Kind::Json => FieldType::Json,
            Kind::Geography => FieldType::Geography,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.field_type().fmt(f)
    }
}

/// The type of the values behind a dictionary or runs.
pub(super) fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        other => other,
    }
}

/// The type of the elements of a list, or of the entries of a map.
pub(super) fn element(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _)
        | DataType::Map(element, _) => Some(plain(element.data_type())),
        _ => None,
    }
}

/// The smaller of the two decimal types that holds every value.
fn decimal(precision: u8, scale: i8) -> Option<FieldType> {
    // A negative scale means zeros before the point.
    let whole = i16::from(precision) - i16::from(scale);
    let scale = u8::try_from(scale).unwrap_or(0);
    let digits = u8::try_from(whole).ok()?.checked_add(scale)?;
    let parameters = (digits > 0).then_some(DecimalParameters {
        precision: digits.max(scale),
        scale,
    })?;
    match (parameters.precision, scale) {
        (38, 9) => Some(FieldType::Numeric(None)),
        (76, 38) => Some(FieldType::BigNumeric(None)),
        _ if scale <= 9 && whole <= 29 => Some(FieldType::Numeric(Some(parameters))),
        _ if scale <= 38 && whole <= 38 => Some(FieldType::BigNumeric(Some(parameters))),
        _ => None,
    }
}

fn range<'f>(bounds: impl Iterator<Item = &'f ArrowField>) -> Option<FieldType> {
    let bounds: Vec<_> = bounds.map(|bound| plain(bound.data_type())).collect();
    let [start, end] = bounds.as_slice() else {
        return None;
    };
    let element = match start {
        DataType::Date32 | DataType::Date64 => RangeElement::Date,
        DataType::Timestamp(_, None) => RangeElement::DateTime,
        DataType::Timestamp(_, Some(_)) => RangeElement::Timestamp,
        _ => return None,
    };
    (start == end).then_some(FieldType::Range(element))
}

fn joined(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_string(),
        parent => format!("{parent}.{name}"),
    }
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
