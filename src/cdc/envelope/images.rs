//! The rows before and after changes, as structs.
//!
//! A value is what its text says, or an error that names where it stands: a decoder would
//! take the nearest number that a type has.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::json::ReaderBuilder;
use serde_json::value::RawValue;

use super::lines::Envelope;
use super::number::Number;
use super::wrong;
use crate::error::{Error, ErrorKind, Result};

/// What Debezium writes in place of a value that its source did not say: as text, and as
/// bytes in base64.
const UNAVAILABLE: [&str; 2] = [
    "__debezium_unavailable_value",
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
];

/// Which of an envelope's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Image {
    Before,
    After,
}

impl Image {
    pub(super) fn name(self) -> &'static str {
        match self {
            Image::Before => "before",
            Image::After => "after",
        }
    }

    fn of(self, envelope: &Envelope) -> Option<&RawValue> {
        match self {
            Image::Before => envelope.before.as_deref(),
            Image::After => envelope.after.as_deref(),
        }
    }
}

/// The columns of the rows.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    pub(super) fields: Fields,
    /// Whether somebody said their types. If not, a number with a floating point is only
    /// one if no digit is lost: it may have been a decimal.
    pub(super) declared: bool,
}

impl Columns {
    /// The rows of the envelopes.
    ///
    /// # Errors
    /// A value that does not fit its column; it names the line and the field.
    pub(super) fn images(&self, envelopes: &[Envelope], image: Image) -> Result<ArrayRef> {
        let texts = envelopes
            .iter()
            .map(|envelope| self.text(envelope, image))
            .collect::<Result<Vec<_>>>()?;
        if let Ok(decoded) = decoded(&self.fields, &texts) {
            return Ok(decoded);
        }
        // What is wrong with which one, found by decoding them one by one.
        for (envelope, text) in envelopes.iter().zip(&texts) {
            for field in &self.fields {
                let fields = Fields::from(vec![Arc::clone(field)]);
                if let Err(error) = decoded(&fields, std::slice::from_ref(text)) {
                    let why = format!("cannot be read: {error}");
                    return Err(misfit(envelope, image, field.name(), &why));
                }
            }
        }
        match decoded(&self.fields, &texts) {
            Ok(decoded) => Ok(decoded),
            Err(error) => Err(Error::new(ErrorKind::Internal, error.to_string())),
        }
    }

    /// The row as JSON that has the columns, and no value that a decoder would change.
    fn text(&self, envelope: &Envelope, image: Image) -> Result<String> {
        let Some(row) = image.of(envelope) else {
            return Ok("null".to_string());
        };
        let mut text = String::new();
        let writing = Writing {
            image,
            declared: self.declared,
        };
        writing
            .object(row, &self.fields, &mut text)
            .map_err(|(path, why)| misfit(envelope, image, &path, &why))?;
        Ok(text)
    }
}

fn misfit(envelope: &Envelope, image: Image, path: &str, why: &str) -> Error {
    wrong(format!(
        "{}: field '{path}' of '{}' {why}",
        envelope.place,
        image.name()
    ))
}

fn decoded(
    fields: &Fields,
    texts: &[String],
) -> std::result::Result<ArrayRef, arrow::error::ArrowError> {
    let row = Field::new("row", DataType::Struct(fields.clone()), true);
    let mut decoder = ReaderBuilder::new_with_field(row)
        .with_batch_size(texts.len())
        .build_decoder()?;
    decoder.decode(texts.join("\n").as_bytes())?;
    match decoder.flush()? {
        Some(batch) if batch.num_rows() == texts.len() => Ok(Arc::clone(batch.column(0))),
        Some(batch) => Err(arrow::error::ArrowError::JsonError(format!(
            "{} rows were read in place of {}",
            batch.num_rows(),
            texts.len()
        ))),
        None => Ok(Arc::new(StructArray::new_null(fields.clone(), texts.len()))),
    }
}

/// The path of a field, and what is wrong with it.
type Misfit = (String, String);

struct Writing {
    image: Image,
    declared: bool,
}

impl Writing {
    fn object(
        &self,
        value: &RawValue,
        fields: &Fields,
        text: &mut String,
    ) -> std::result::Result<(), Misfit> {
        let given: BTreeMap<String, &RawValue> = serde_json::from_str(value.get())
            .map_err(|error| (String::new(), error.to_string()))?;
        text.push('{');
        let mut first = true;
        for field in fields {
            let name = field.name();
            // Names without quotes are in lower case, whatever those of the source are.
            let value = match given.get(name) {
                Some(value) => value,
                None => {
                    let is_alike = |other: &&String| other.eq_ignore_ascii_case(name);
                    let mut alike = given.keys().filter(is_alike);
                    match (alike.next(), alike.next()) {
                        (None, _) => continue,
                        (Some(one), None) => &given[one],
                        (Some(one), Some(other)) => {
                            let why = format!(
                                "may be '{one}' or '{other}': declare the one that is meant in \
                                 double quotes"
                            );
                            return Err((name.clone(), why));
                        }
                    }
                }
            };
            if !first {
                text.push(',');
            }
            first = false;
            text.push_str(&quoted(name));
            text.push(':');
            let below = |(path, why): Misfit| match path.as_str() {
                "" => (name.clone(), why),
                path if path.starts_with('[') => (format!("{name}{path}"), why),
                path => (format!("{name}.{path}"), why),
            };
            self.value(value, field.data_type(), text).map_err(below)?;
        }
        text.push('}');
        Ok(())
    }

    fn value(
        &self,
        value: &RawValue,
        data_type: &DataType,
        text: &mut String,
    ) -> std::result::Result<(), Misfit> {
        let json = value.get();
        match data_type {
            _ if json == "null" => text.push_str(json),
            DataType::Struct(fields) if json.starts_with('{') => {
                return self.object(value, fields, text);
            }
            DataType::List(item) | DataType::LargeList(item) if json.starts_with('[') => {
                let items: Vec<&RawValue> = serde_json::from_str(json)
                    .map_err(|error| (String::new(), error.to_string()))?;
                text.push('[');
                for (at, value) in items.into_iter().enumerate() {
                    if at > 0 {
                        text.push(',');
                    }
                    self.value(value, item.data_type(), text)
                        .map_err(|(path, why)| (format!("[{at}]{path}"), why))?;
                }
                text.push(']');
            }
            _ => {
                let written = self.scalar(json, data_type);
                text.push_str(&written.map_err(|why| (String::new(), why))?);
            }
        }
        Ok(())
    }

    /// The text of a scalar as a decoder takes it for what it is.
    fn scalar(&self, json: &str, data_type: &DataType) -> std::result::Result<String, String> {
        let as_text: Option<String> = match json.starts_with('"') {
            true => serde_json::from_str(json).ok(),
            false => None,
        };
        if self.image == Image::After
            && let Some(said) = &as_text
            && UNAVAILABLE.contains(&said.as_str())
        {
            return Err(format!(
                "is '{said}', by which Debezium says that it does not know the value: a change \
                 says all of its row, so give the source's table REPLICA IDENTITY FULL, or leave \
                 the column out of those that are declared"
            ));
        }
        let shown: String = json.chars().take(60).collect();
        let is_no = |what: &str| Err(format!("is {shown}, which is no {what}"));
        let number = || Number::read(as_text.as_deref().unwrap_or(json));
        match data_type {
            DataType::Boolean => match json {
                "true" | "false" => Ok(json.to_string()),
                _ => is_no("BOOLEAN"),
            },
            _ if data_type.is_integer() => {
                let said = as_text.as_deref().unwrap_or(json);
                match is_of(said, data_type) {
                    true => Ok(said.to_string()),
                    false => is_no(&format!("{data_type}")),
                }
            }
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => {
                let before = i64::from(*precision) - i64::from(*scale);
                let Some(number) = number() else {
                    return Err(format!(
                        "is {shown}, which is no number: set decimal.handling.mode to string in \
                         the connector"
                    ));
                };
                match number.plain(before, i64::from(*scale)) {
                    Some(plain) => Ok(format!("\"{plain}\"")),
                    None => Err(format!(
                        "is {shown}, which has more digits than DECIMAL({precision}, {scale})"
                    )),
                }
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 if as_text.is_none() => {
                let finite = match data_type {
                    DataType::Float64 => json.parse::<f64>().is_ok_and(f64::is_finite),
                    _ => json.parse::<f32>().is_ok_and(f32::is_finite),
                };
                let Some(number) = number().filter(|_| finite) else {
                    return is_no("number of this type");
                };
                match self.declared || number.survives_f64(json) {
                    true => Ok(json.to_string()),
                    false => Err(format!(
                        "is {shown}, which a DOUBLE does not keep: declare the columns in a last \
                         argument, such as 'id BIGINT, price DECIMAL(38, 9)'; DOUBLE there takes \
                         the nearest one"
                    )),
                }
            }
            // Any scalar has a text of its own.
            _ if data_type.is_string() && !json.starts_with(['{', '[']) => match as_text {
                Some(_) => Ok(json.to_string()),
                None => Ok(quoted(json)),
            },
            _ if data_type.is_string() => {
                Err(format!("is {shown}, which is neither text nor a number"))
            }
            // Days since 1970, as connectors write dates.
            DataType::Date32 if as_text.is_none() => match json.parse::<i32>() {
                Ok(_) => Ok(json.to_string()),
                Err(_) => is_no("DATE"),
            },
            _ if data_type.is_temporal() && as_text.is_none() => Err(format!(
                "is {shown}, which does not say of what unit it is: declare BIGINT, and convert it \
                 by to_timestamp_millis(…), to_timestamp_micros(…) or to_timestamp_nanos(…)"
            )),
            _ => Ok(json.to_string()),
        }
    }
}

/// Whether the text is a whole number that a type has.
fn is_of(text: &str, data_type: &DataType) -> bool {
    match data_type {
        DataType::Int8 => text.parse::<i8>().is_ok(),
        DataType::Int16 => text.parse::<i16>().is_ok(),
        DataType::Int32 => text.parse::<i32>().is_ok(),
        DataType::Int64 => text.parse::<i64>().is_ok(),
        DataType::UInt8 => text.parse::<u8>().is_ok(),
        DataType::UInt16 => text.parse::<u16>().is_ok(),
        DataType::UInt32 => text.parse::<u32>().is_ok(),
        DataType::UInt64 => text.parse::<u64>().is_ok(),
        _ => false,
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
