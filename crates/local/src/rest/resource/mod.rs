//! The JSON form of datasets, tables and jobs.

pub(super) mod dataset;
pub(super) mod job;
pub(super) mod table;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::error::{Result, ServiceError};

/// An etag of a list's content.
pub(super) fn list_etag<T: serde::Serialize>(items: &T) -> String {
    let bytes = serde_json::to_vec(items).unwrap_or_default();
    BASE64_STANDARD.encode(&Sha256::digest(&bytes)[..16])
}

/// Puts the token of the next page into a list, if there is one.
pub(super) fn set_next_page(body: &mut Value, next: Option<String>) {
    if let Some(token) = next {
        body["nextPageToken"] = Value::String(token);
    }
}

/// A member that is text; `null` is absent.
pub(super) fn text(object: &Map<String, Value>, key: &str) -> Result<Option<String>> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(ServiceError::invalid(format!(
            "Invalid value for {key}: {other} is not a string"
        ))),
    }
}

/// A member that is a 64-bit integer, as text or as a number.
pub(super) fn integer(object: &Map<String, Value>, key: &str) -> Result<Option<i64>> {
    match object.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.parse().ok(),
        Some(Value::Number(n)) => n.as_i64(),
        Some(_) => None,
    }
    .map(Some)
    .ok_or_else(|| {
        ServiceError::invalid(format!(
            "Invalid value for {key}: {} is not a 64-bit integer",
            object[key]
        ))
    })
}

/// A member that is a boolean; absent is `false`.
pub(super) fn flag(object: &Map<String, Value>, key: &str) -> Result<bool> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(b)) => Ok(*b),
        Some(Value::String(s)) if s == "true" => Ok(true),
        Some(Value::String(s)) if s == "false" => Ok(false),
        Some(other) => Err(ServiceError::invalid(format!(
            "Invalid value for {key}: {other} is not a boolean"
        ))),
    }
}

/// A member that is an object.
pub(super) fn object<'a>(
    parent: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Map<String, Value>>> {
    match parent.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(other) => Err(ServiceError::invalid(format!(
            "Invalid value for {key}: {other} is not an object"
        ))),
    }
}

/// A member that is a list of text.
pub(super) fn texts(parent: &Map<String, Value>, key: &str) -> Result<Vec<String>> {
    let invalid = || {
        ServiceError::invalid(format!(
            "Invalid value for {key}: a list of strings is needed"
        ))
    };
    match parent.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_string).ok_or_else(invalid))
            .collect(),
        Some(_) => Err(invalid()),
    }
}

/// Reads and checks `labels`.
pub(super) fn labels(
    parent: &Map<String, Value>,
) -> Result<std::collections::BTreeMap<String, String>> {
    let Some(map) = object(parent, "labels")? else {
        return Ok(std::collections::BTreeMap::new());
    };
    if map.len() > 64 {
        return Err(ServiceError::invalid(format!(
            "A resource can have at most 64 labels, not {}.",
            map.len()
        )));
    }
    let lower = |c: char| {
        (c.is_alphabetic() && !c.is_uppercase()) || c.is_numeric() || c == '_' || c == '-'
    };
    map.iter()
        .map(|(key, value)| {
            let value = value.as_str().unwrap_or("");
            let key_ok = key.chars().count() <= 63
                && key.chars().all(lower)
                && key.starts_with(|c: char| c.is_alphabetic());
            if !key_ok {
                return Err(ServiceError::invalid(format!(
                    "Label key \"{key}\" has invalid characters or length: it must start with a lowercase letter and have at most 63 lowercase letters, digits, underscores and dashes."
                )));
            }
            if value.chars().count() > 63 || !value.chars().all(lower) {
                return Err(ServiceError::invalid(format!(
                    "Label value \"{value}\" of key \"{key}\" has invalid characters or length: it must have at most 63 lowercase letters, digits, underscores and dashes."
                )));
            }
            Ok((key.clone(), value.to_string()))
        })
        .collect()
}
