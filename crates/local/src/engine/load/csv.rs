//! Separated values.
//!
//! Source of spellings and words: recorded CSV loads of the service.

use super::csv_scan::{Dialect, RawField, Record, Records};
use super::detect::{self, Sample};
use super::encoding::{contents, text};
use super::{Columns, FormatOptions, LoadError, LoadFile, Loaded, reading};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, TableSchema};
use crate::value::build::{Cell, CellReader, CellsBuilder, JsonText};

/// Reads files of separated values.
pub(super) fn read(
    files: &[LoadFile],
    options: &FormatOptions,
    columns: Columns<'_>,
) -> Result<Loaded, LoadError> {
    let settings = Settings::read(options)?;
    let mut texts = Vec::with_capacity(files.len());
    for file in files {
        let bytes = contents(file)?;
        texts.push(text(&bytes, options.encoding.as_deref())?.into_owned());
    }
    let (schema, dialect, skip) = match columns {
        Columns::Given(schema) => (
            schema.clone(),
            settings.dialect(None),
            options.skip_leading_rows.unwrap_or(0),
        ),
        Columns::FromFiles(wanted) => {
            let found = autodetect(&texts, &settings, options)?;
            (
                with_wanted_types(found.schema, wanted),
                found.dialect,
                found.skip,
            )
        }
    };
    for field in &schema.fields {
        let nested = matches!(field.field_type, FieldType::Struct(_));
        if nested || field.mode() == Mode::Repeated {
            return Err(ServiceError::invalid(format!(
                "Cannot load CSV data with a nested schema. Field: {}",
                field.name
            ))
            .into());
        }
    }
    let skip = u64::try_from(skip).unwrap_or(0);
    let mut rows = Rows::new(&schema, &settings, options);
    for text in &texts {
        let mut records = Records::new(text, &dialect);
        let order = if settings.matching == Matching::Name {
            records.skip_lines(skip.saturating_sub(1));
            let header = records.next();
            Some(header_order(
                &schema,
                header.as_ref(),
                settings.ignore_unknown,
            )?)
        } else {
            records.skip_lines(skip);
            None
        };
        for record in records {
            rows.push(&record, order.as_deref())?;
        }
    }
    rows.finish()
}

/// How values find their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matching {
    /// By their place in the line.
    Position,
    /// By the header's names.
    Name,
}

/// What the NUL character in a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nul {
    /// An error.
    Refused,
    /// Part of the text.
    Kept,
}

/// What the options mean.
struct Settings {
    delimiter: Option<String>,
    quote: Option<char>,
    quoted_newlines: bool,
    jagged: bool,
    ignore_unknown: bool,
    /// Texts that mean NULL; empty text does when there are none.
    null_markers: Vec<String>,
    matching: Matching,
    nul: Nul,
}

impl Settings {
    fn read(options: &FormatOptions) -> Result<Self> {
        for (given, name) in [
            (&options.date_format, "dateFormat"),
            (&options.datetime_format, "datetimeFormat"),
            (&options.time_format, "timeFormat"),
            (&options.timestamp_format, "timestampFormat"),
        ] {
            if given.as_ref().is_some_and(|f| !f.is_empty()) {
                return Err(ServiceError::invalid(format!(
                    "{name} of load jobs is not supported by bigquery-local"
                )));
            }
        }
        super::check_time_zone(options)?;
        let delimiter = options
            .field_delimiter
            .as_deref()
            .filter(|d| !d.is_empty())
            .map(|d| match d {
                "\\t" | "tab" => "\t".to_string(),
                other => other.to_string(),
            });
        if delimiter
            .as_ref()
            .is_some_and(|d| d.chars().count() > 1 || d.contains(['\n', '\r']))
        {
            return Err(ServiceError::invalid(
                "fieldDelimiter must be a single character that does not end lines.",
            ));
        }
        let quote = match options.quote.as_deref() {
            None => Some('"'),
            Some(text) => {
                let mut characters = text.chars();
                let quote = characters.next();
                if characters.next().is_some() {
                    return Err(ServiceError::invalid("quote must be a single character."));
                }
                quote
            }
        };
        let mut null_markers: Vec<String> = options.null_markers.clone().unwrap_or_default();
        match options.null_marker.as_deref() {
            Some(_) if !null_markers.is_empty() => {
                return Err(ServiceError::invalid(
                    "Only one of nullMarker and nullMarkers may be set.",
                ));
            }
            Some(marker) if !marker.is_empty() => null_markers.push(marker.to_string()),
            _ => {}
        }
        let matching = match options.source_column_match.as_deref().unwrap_or("POSITION") {
            "POSITION" | "SOURCE_COLUMN_MATCH_UNSPECIFIED" | "" => Matching::Position,
            "NAME" => Matching::Name,
            other => {
                return Err(ServiceError::invalid(format!(
                    "Invalid value for sourceColumnMatch: {other} is not a valid value"
                )));
            }
        };
        if matching == Matching::Name && options.skip_leading_rows == Some(0) {
            return Err(ServiceError::invalid(
                "sourceColumnMatch NAME needs a header: skipLeadingRows must be at least 1.",
            ));
        }
        Ok(Self {
            delimiter,
            quote,
            quoted_newlines: options.allow_quoted_newlines == Some(true),
            jagged: options.allow_jagged_rows == Some(true),
            ignore_unknown: options.ignore_unknown_values == Some(true),
            null_markers,
            matching,
            nul: match options.preserve_ascii_control_characters {
                Some(true) => Nul::Kept,
                _ => Nul::Refused,
            },
        })
    }

    fn dialect(&self, detected: Option<&str>) -> Dialect {
        Dialect {
            delimiter: self
                .delimiter
                .as_deref()
                .or(detected)
                .unwrap_or(",")
                .to_string(),
            quote: self.quote,
            quoted_newlines: self.quoted_newlines,
        }
    }

    fn is_null(&self, field: &RawField<'_>) -> bool {
        if self.null_markers.is_empty() {
            field.text.is_empty() && !field.quoted
        } else {
            self.null_markers.iter().any(|marker| *marker == field.text)
        }
    }
}

/// For each column, the position of its values by the header's names.
fn header_order(
    schema: &TableSchema,
    header: Option<&Record<'_>>,
    ignore_unknown: bool,
) -> Result<Vec<Option<usize>>> {
    let names: Vec<String> = match header.map(|h| &h.fields) {
        None => Vec::new(),
        Some(Ok(fields)) => fields.iter().map(|f| f.text.trim().to_string()).collect(),
        Some(Err(why)) => return Err(reading(format_args!("Unreadable header: {why}"))),
    };
    let unknown = names.iter().find(|name| schema.field(name).is_none());
    if let (Some(name), false) = (unknown, ignore_unknown) {
        return Err(reading(format_args!(
            "The header names a column that the schema lacks: {name}"
        )));
    }
    Ok(schema
        .fields
        .iter()
        .map(|field| {
            names
                .iter()
                .position(|name| name.eq_ignore_ascii_case(&field.name))
        })
        .collect())
}

/// Collects good rows and counts bad ones.
struct Rows<'a> {
    schema: &'a TableSchema,
    settings: &'a Settings,
    reader: CellReader,
    cells: CellsBuilder,
    loaded: Loaded,
    rows: u64,
    allowed: u64,
}

impl<'a> Rows<'a> {
    fn new(schema: &'a TableSchema, settings: &'a Settings, options: &FormatOptions) -> Self {
        Self {
            schema,
            settings,
            reader: CellReader::for_import(JsonText::Encoded),
            cells: CellsBuilder::new(schema),
            loaded: Loaded {
                schema: schema.clone(),
                batches: Vec::new(),
                bad_records: 0,
                errors: Vec::new(),
            },
            rows: 0,
            allowed: options.bad_records_allowed(),
        }
    }

    fn push(
        &mut self,
        record: &Record<'_>,
        order: Option<&[Option<usize>]>,
    ) -> Result<(), LoadError> {
        self.rows += 1;
        match self.row(record, order) {
            Ok(cells) => {
                self.cells.push(cells)?;
                if self.cells.is_full() {
                    self.loaded.batches.push(self.cells.finish()?);
                }
                Ok(())
            }
            Err(why) => {
                self.loaded.bad_records += 1;
                self.loaded.errors.push(reading(why));
                if self.loaded.bad_records > self.allowed {
                    return Err(self.give_up());
                }
                Ok(())
            }
        }
    }

    fn give_up(&mut self) -> LoadError {
        LoadError {
            error: reading(format_args!(
                "CSV processing encountered too many errors, giving up. Rows: {}; errors: {}; \
                 max bad: {}; error percent: 0",
                self.rows, self.loaded.bad_records, self.allowed
            )),
            details: std::mem::take(&mut self.loaded.errors),
        }
    }

    fn finish(mut self) -> Result<Loaded, LoadError> {
        self.loaded.batches.push(self.cells.finish()?);
        Ok(self.loaded)
    }

    fn row(
        &self,
        record: &Record<'_>,
        order: Option<&[Option<usize>]>,
    ) -> Result<Vec<Cell>, String> {
        let place = format!(
            "line_number: {} byte_offset_to_start_of_line: {}",
            record.line, record.offset
        );
        let fields = record
            .fields
            .as_ref()
            .map_err(|why| format!("{why}; {place}"))?;
        let columns = &self.schema.fields;
        if order.is_none() && fields.len() > columns.len() && !self.settings.ignore_unknown {
            return Err(format!(
                "Too many values in line. Found {} column(s) while expected {}.; {place}",
                fields.len(),
                columns.len()
            ));
        }
        columns
            .iter()
            .enumerate()
            .map(|(i, column)| {
                let position = match order {
                    Some(order) => order[i],
                    None => Some(i),
                };
                match position.and_then(|p| fields.get(p)) {
                    Some(field) => self.cell(column, field, i, &place),
                    None if order.is_some() || self.settings.jagged => self.null(column, i, &place),
                    None => Err(format!(
                        "CSV table references column position {i}, but line contains only {} \
                         columns.; {place}",
                        fields.len()
                    )),
                }
            })
            .collect()
    }

    fn null(&self, column: &Field, index: usize, place: &str) -> Result<Cell, String> {
        if column.mode() == Mode::Required {
            return Err(format!(
                "Required column value is missing; {place} column_index: {index} column_name: \
                 \"{}\" column_type: {}",
                column.name,
                column.field_type.sql_name()
            ));
        }
        Ok(Cell::Null)
    }

    fn cell(
        &self,
        column: &Field,
        field: &RawField<'_>,
        index: usize,
        place: &str,
    ) -> Result<Cell, String> {
        if self.settings.is_null(field) {
            return self.null(column, index, place);
        }
        let textual = matches!(column.field_type, FieldType::String | FieldType::Bytes);
        if field.text.is_empty()
            && field.quoted
            && !textual
            && self.settings.null_markers.is_empty()
        {
            return self.null(column, index, place);
        }
        let bad = |why: &str| {
            Err(format!(
                "{why}; {place} column_index: {index} column_name: \"{}\" column_type: {} value: \
                 \"{}\"",
                column.name,
                column.field_type.sql_name(),
                field.text
            ))
        };
        if self.settings.nul == Nul::Refused && field.text.contains('\0') {
            return bad("Bad character (ASCII 0) encountered");
        }
        match self.reader.text(column, &field.text) {
            Ok(cell) => Ok(cell),
            // Recorded: these three types say why, the others only that.
            Err(e) => match column.field_type {
                FieldType::Numeric | FieldType::Bignumeric | FieldType::Timestamp => {
                    bad(e.message())
                }
                FieldType::String | FieldType::Bytes if column.max_length.is_some() => {
                    bad(e.message())
                }
                _ => bad("Unable to parse"),
            },
        }
    }
}

/// What was found out about files without a schema.
struct Detected {
    schema: TableSchema,
    dialect: Dialect,
    skip: i64,
}

/// Separators that are looked for.
const DELIMITERS: [&str; 3] = [",", "|", "\t"];

fn autodetect(texts: &[String], settings: &Settings, options: &FormatOptions) -> Result<Detected> {
    let text = texts.iter().find(|t| !t.trim().is_empty());
    let text = text.map(String::as_str).unwrap_or_default();
    let skip = options.skip_leading_rows;
    let before = skip.map_or(0, |n| n.saturating_sub(1).max(0));
    let delimiter = match &settings.delimiter {
        Some(_) => None,
        None => DELIMITERS
            .iter()
            .max_by_key(|d| (columns_with(text, d, settings, before), **d == ","))
            .copied(),
    };
    let dialect = settings.dialect(delimiter);
    let mut records = Records::new(text, &dialect);
    records.skip_lines(u64::try_from(before).unwrap_or(0));
    let mut rows: Vec<Vec<RawField<'_>>> = records
        .filter_map(|r| r.fields.ok())
        .take(detect::SAMPLE_ROWS + 1)
        .collect();
    if rows.is_empty() {
        return Err(reading(
            "Failed to detect schema: the input has no rows. Provide a schema.",
        ));
    }
    let header = rows.remove(0);
    let width = rows
        .iter()
        .map(Vec::len)
        .max()
        .unwrap_or(0)
        .max(header.len());
    let sample = |rows: &[Vec<RawField<'_>>], column: usize| {
        let mut sample = Sample::default();
        for field in rows.iter().filter_map(|row| row.get(column)) {
            if !settings.is_null(field) {
                sample.text(&field.text);
            }
        }
        sample
    };
    let head = std::slice::from_ref(&header);
    let all_text = (0..header.len()).all(|c| sample(head, c).is_plain_text());
    let typed = (0..width).any(|c| {
        let below = sample(&rows, c);
        !below.is_empty() && !below.is_plain_text()
    });
    let has_header = skip != Some(0) && all_text && (typed || rows.is_empty());
    let first_is_data = !has_header && skip.is_none_or(|n| n == 0);
    let mut data = rows;
    if first_is_data {
        data.insert(0, header.clone());
    }
    let mut names = detect::Names::default();
    let fields = (0..width)
        .map(|c| {
            let found = sample(&data, c).field_type();
            let name = match header
                .get(c)
                .filter(|h| has_header && !h.text.trim().is_empty())
            {
                Some(field) => names.like_header(&field.text, c),
                None => names.generated(&found),
            };
            Field::new(name, found).with_mode(Mode::Nullable)
        })
        .collect();
    let skip = if has_header && skip.is_none() {
        1
    } else {
        skip.unwrap_or(0)
    };
    Ok(Detected {
        schema: TableSchema::new(fields),
        dialect,
        skip,
    })
}

/// How many columns a separator makes, if it makes as many in the first lines.
fn columns_with(text: &str, delimiter: &str, settings: &Settings, skip: i64) -> usize {
    let dialect = settings.dialect(Some(delimiter));
    let mut records = Records::new(text, &dialect);
    records.skip_lines(u64::try_from(skip).unwrap_or(0));
    let mut widths = records
        .take(20)
        .filter_map(|r| r.fields.ok())
        .map(|f| f.len());
    let first = widths.next().unwrap_or(0);
    if widths.all(|w| w == first) { first } else { 1 }
}

/// Columns found in rows, with the types that the destination has for them.
fn with_wanted_types(mut found: TableSchema, wanted: Option<&TableSchema>) -> TableSchema {
    let Some(wanted) = wanted else {
        return found;
    };
    for field in &mut found.fields {
        // Any text is a STRING: a column of that type takes what looks like a number.
        match wanted.field(&field.name) {
            Some(want) if want.field_type == FieldType::String => {
                field.field_type = FieldType::String;
                field.max_length = want.max_length;
                field.mode = want.mode;
            }
            Some(want) if want.field_type == field.field_type => field.mode = want.mode,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
