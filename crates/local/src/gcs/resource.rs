//! Buckets and objects as the JSON API writes them, and as clients do.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::error::{GcsError, Result};
use super::object::{Attributes, BucketMeta, Expected, ObjectMeta, base64};
use crate::value::timestamp::write_iso8601;

/// `2024-01-31T12:00:00.123Z`.
pub(super) fn time(micros: i64) -> String {
    let mut text = String::new();
    write_iso8601(micros, &mut text);
    // The service prints milliseconds.
    match text.split_once('.') {
        Some((seconds, fraction)) => {
            let millis: String = fraction.chars().take(3).collect();
            format!("{seconds}.{millis}Z")
        }
        None => text,
    }
}

fn percent(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A bucket resource.
pub(super) fn bucket(meta: &BucketMeta, host: &str) -> Value {
    let mut out = json!({
        "kind": "storage#bucket",
        "id": meta.name,
        "name": meta.name,
        "selfLink": format!("http://{host}/storage/v1/b/{}", percent(&meta.name)),
        "location": meta.location,
        "locationType": "multi-region",
        "storageClass": meta.storage_class,
        "projectNumber": "0",
        "timeCreated": time(meta.created),
        "updated": time(meta.updated),
        "metageneration": meta.metageneration.to_string(),
        "etag": base64(&meta.metageneration.to_be_bytes()),
    });
    if !meta.labels.is_empty() {
        out["labels"] = json!(meta.labels);
    }
    out
}

/// An object resource.
pub(super) fn object(bucket: &str, meta: &ObjectMeta, host: &str) -> Value {
    let link = format!("b/{}/o/{}", percent(bucket), percent(&meta.name));
    let generation = meta.generation.to_string();
    let attributes = &meta.attributes;
    let mut out = json!({
        "kind": "storage#object",
        "id": format!("{bucket}/{}/{generation}", meta.name),
        "selfLink": format!("http://{host}/storage/v1/{link}"),
        "mediaLink": format!(
            "http://{host}/download/storage/v1/{link}?generation={generation}&alt=media"
        ),
        "name": meta.name,
        "bucket": bucket,
        "generation": generation,
        "metageneration": meta.metageneration.to_string(),
        "size": meta.size.to_string(),
        "crc32c": base64(&meta.crc32c.to_be_bytes()),
        "etag": base64(&[meta.generation.to_be_bytes(), meta.metageneration.to_be_bytes()].concat()),
        "storageClass": attributes.storage_class.as_deref().unwrap_or("STANDARD"),
        "timeCreated": time(meta.created),
        "timeStorageClassUpdated": time(meta.created),
        "updated": time(meta.updated),
    });
    let optional = [
        ("contentType", &attributes.content_type),
        ("contentEncoding", &attributes.content_encoding),
        ("contentDisposition", &attributes.content_disposition),
        ("contentLanguage", &attributes.content_language),
        ("cacheControl", &attributes.cache_control),
        ("customTime", &attributes.custom_time),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            out[name] = json!(value);
        }
    }
    if let Some(md5) = &meta.md5 {
        out["md5Hash"] = json!(base64(md5));
    }
    if let Some(components) = meta.components {
        out["componentCount"] = json!(components);
    }
    if !attributes.metadata.is_empty() {
        out["metadata"] = json!(attributes.metadata);
    }
    out
}

/// The attributes in a client's object resource, over those that are there: a field
/// that is null is removed, one that is left out stays.
pub(super) fn change(attributes: &mut Attributes, resource: &Map<String, Value>) -> Result<()> {
    let take = |name: &str, slot: &mut Option<String>| -> Result<()> {
        match resource.get(name) {
            None => {}
            Some(Value::Null) => *slot = None,
            Some(Value::String(text)) => *slot = Some(text.clone()),
            Some(other) => {
                return Err(GcsError::invalid(format!(
                    "Invalid value for {name}: {other}"
                )));
            }
        }
        Ok(())
    };
    take("contentType", &mut attributes.content_type)?;
    take("contentEncoding", &mut attributes.content_encoding)?;
    take("contentDisposition", &mut attributes.content_disposition)?;
    take("contentLanguage", &mut attributes.content_language)?;
    take("cacheControl", &mut attributes.cache_control)?;
    take("storageClass", &mut attributes.storage_class)?;
    take("customTime", &mut attributes.custom_time)?;
    match resource.get("metadata") {
        None => {}
        Some(Value::Null) => attributes.metadata.clear(),
        Some(Value::Object(metadata)) => texts("metadata", metadata, &mut attributes.metadata)?,
        Some(other) => {
            return Err(GcsError::invalid(format!(
                "Invalid value for metadata: {other}"
            )));
        }
    }
    Ok(())
}

/// Merges an object of strings; null removes.
pub(super) fn texts(
    name: &str,
    from: &Map<String, Value>,
    into: &mut BTreeMap<String, String>,
) -> Result<()> {
    for (key, value) in from {
        match value {
            Value::Null => {
                into.remove(key);
            }
            Value::String(text) => {
                into.insert(key.clone(), text.clone());
            }
            other => {
                return Err(GcsError::invalid(format!(
                    "Invalid value for {name}.{key}: {other}"
                )));
            }
        }
    }
    Ok(())
}

/// The digests that a client's resource says its bytes have.
pub(super) fn expected(resource: &Map<String, Value>) -> Expected {
    let text = |name: &str| resource.get(name).and_then(Value::as_str).map(Into::into);
    Expected {
        crc32c: text("crc32c"),
        md5: text("md5Hash"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(time(1_500_000), "1970-01-01T00:00:01.500Z");
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn attributes_are_merged() {
        let mut attributes = Attributes {
            content_type: Some("a/b".into()),
            metadata: BTreeMap::from([("k".into(), "v".into()), ("l".into(), "w".into())]),
            ..Attributes::default()
        };
        let resource = json!({"contentType": null, "cacheControl": "no-store",
            "metadata": {"k": null, "m": "x"}});
        change(&mut attributes, resource.as_object().unwrap()).unwrap();
        assert_eq!(attributes.content_type, None);
        assert_eq!(attributes.cache_control.as_deref(), Some("no-store"));
        let keys: Vec<&str> = attributes.metadata.keys().map(String::as_str).collect();
        assert_eq!(keys, ["l", "m"]);
        let wrong = json!({"contentType": 1});
        assert!(change(&mut attributes, wrong.as_object().unwrap()).is_err());
    }
}
