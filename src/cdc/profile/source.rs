//! The block in which a change says where it comes from.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};

/// The `source` of a Debezium envelope, or of one like it.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceBlock {
    fields: Map<String, Value>,
}

impl SourceBlock {
    /// Reads a JSON object.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the text is none.
    pub fn read(json: &str) -> Result<Self> {
        match serde_json::from_str(json) {
            Ok(Value::Object(fields)) => Ok(Self { fields }),
            Ok(_) | Err(_) => Err(refused(
                "the source of a change must be a JSON object, as 'source' of a Debezium envelope",
            )),
        }
    }

    /// Refuses the block of another connector.
    pub(super) fn must_be_of(&self, connector: &str) -> Result<()> {
        match self.text("connector")? {
            Some(own) if own == connector => Ok(()),
            Some(other) => Err(refused(format!(
                "the source's connector is '{other}', and this profile orders changes of \
                 '{connector}'"
            ))),
            None => Err(refused(format!(
                "the source names no connector; this profile orders changes of '{connector}'"
            ))),
        }
    }

    /// A field that is not null, as text; numbers and truth values as they are written.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(Value::Bool(value)) => Ok(Some(value.to_string())),
            Some(Value::Array(_) | Value::Object(_)) => Err(refused(format!(
                "the source's '{name}' must be a single value"
            ))),
        }
    }

    /// A field that is not null, as an unsigned whole number of 64 bits.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>> {
        self.text(name)?
            .map(|text| number(&text, &format!("the source's '{name}'")))
            .transpose()
    }

    /// As [`number`](Self::number), of a field without which there is no order.
    pub(super) fn needed(&self, name: &str) -> Result<u64> {
        self.number(name)?.ok_or_else(|| missing(name))
    }
}

/// The error for a field without which there is no order.
pub(super) fn missing(name: &str) -> Error {
    refused(format!(
        "the source has no '{name}', without which the change has no place among the others; times \
         in milliseconds do not stand in for it"
    ))
}

pub(super) fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// An unsigned whole number of 64 bits in decimal digits.
pub(super) fn number(text: &str, what: &str) -> Result<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let read = text.parse().ok().filter(|_| digits);
    read.ok_or_else(|| {
        refused(format!(
            "{what} must be a whole number from 0 to {}, not '{}'",
            u64::MAX,
            text.chars().take(80).collect::<String>()
        ))
    })
}
