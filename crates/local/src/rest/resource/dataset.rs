//! The dataset resource.

use serde_json::{Map, Value, json};

use super::{integer, labels, object, text};
use crate::error::{Result, ServiceError};
use crate::server::Service;
use crate::store::{Dataset, DatasetRef};

/// Members that are kept and given back without a meaning here, and those whose
/// meaning is in [`Dataset`]'s methods.
const KEPT: [&str; 13] = [
    "friendlyName",
    "access",
    "defaultTableExpirationMs",
    "defaultPartitionExpirationMs",
    "defaultEncryptionConfiguration",
    "isCaseInsensitive",
    "defaultCollation",
    "defaultRoundingMode",
    "maxTimeTravelHours",
    "storageBillingModel",
    "resourceTags",
    "externalDatasetReference",
    "linkedDatasetSource",
];

/// The members that PATCH and PUT change.
pub(in crate::rest) fn writable(dataset: &Dataset) -> Value {
    let mut body = Map::new();
    if !dataset.labels.is_empty() {
        body.insert("labels".into(), json!(dataset.labels));
    }
    if let Some(description) = &dataset.description {
        body.insert("description".into(), json!(description));
    }
    body.extend(dataset.extra.clone());
    Value::Object(body)
}

/// Puts the writable members of `body` into `dataset`; absent ones are cleared.
pub(in crate::rest) fn read(dataset: &mut Dataset, body: &Map<String, Value>) -> Result<()> {
    dataset.labels = labels(body)?;
    dataset.description = text(body, "description")?;
    for key in ["defaultTableExpirationMs", "defaultPartitionExpirationMs"] {
        let least = if key == "defaultTableExpirationMs" {
            3_600_000
        } else {
            1
        };
        if let Some(ms) = integer(body, key)?
            && ms < least
        {
            return Err(ServiceError::invalid(format!(
                "Invalid value for {key}: {ms} is less than the minimum of {least} milliseconds"
            )));
        }
    }
    if let Some(hours) = integer(body, "maxTimeTravelHours")?
        && (!(48..=168).contains(&hours) || hours % 24 != 0)
    {
        return Err(ServiceError::invalid(format!(
            "Invalid value for maxTimeTravelHours: {hours} is not a multiple of 24 between 48 and 168"
        )));
    }
    dataset.extra = KEPT
        .iter()
        .filter_map(|key| {
            body.get(*key)
                .filter(|v| !v.is_null())
                .map(|v| ((*key).to_string(), as_text_if_int64(key, v)))
        })
        .collect();
    Ok(())
}

/// 64-bit integers travel as text.
fn as_text_if_int64(key: &str, value: &Value) -> Value {
    match value {
        Value::Number(n) if key.ends_with("Ms") || key.ends_with("Hours") => json!(n.to_string()),
        other => other.clone(),
    }
}

/// The reference in an insert's body, which the path's project completes.
pub(in crate::rest) fn reference(project: &str, body: &Map<String, Value>) -> Result<DatasetRef> {
    let missing =
        || ServiceError::invalid("Required parameter is missing: datasetReference.datasetId");
    let reference = object(body, "datasetReference")?.ok_or_else(missing)?;
    let id = text(reference, "datasetId")?.ok_or_else(missing)?;
    if let Some(named) = text(reference, "projectId")?
        && named != project
    {
        return Err(ServiceError::invalid(format!(
            "Value in content does not agree with value in path: project {named} is not {project}"
        )));
    }
    crate::rest::names::dataset(project, &id)
}

/// Normalizes a location: multi-regions are upper case, regions lower case.
pub(in crate::rest) fn location(text: &str) -> Result<String> {
    let valid = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !valid {
        return Err(ServiceError::invalid(format!(
            "Invalid location \"{text}\"."
        )));
    }
    Ok(match text.to_ascii_uppercase().as_str() {
        upper @ ("US" | "EU") => upper.to_string(),
        _ => text.to_ascii_lowercase(),
    })
}

/// The whole resource.
pub(in crate::rest) fn full(service: &Service, reference: &DatasetRef, dataset: &Dataset) -> Value {
    let mut body = writable(dataset);
    let object = body.as_object_mut().expect("a resource is an object");
    object.extend(item(reference, dataset));
    object.insert("kind".into(), json!("bigquery#dataset"));
    object.insert("etag".into(), json!(dataset.etag));
    object.insert(
        "selfLink".into(),
        json!(format!(
            "http://{}/bigquery/v2/projects/{}/datasets/{}",
            service.options.rest, reference.project, reference.dataset
        )),
    );
    object.insert(
        "creationTime".into(),
        json!(dataset.creation_time.to_string()),
    );
    object.insert(
        "lastModifiedTime".into(),
        json!(dataset.last_modified_time.to_string()),
    );
    object.entry("access").or_insert_with(default_access);
    object
        .entry("maxTimeTravelHours")
        .or_insert_with(|| json!("168"));
    body
}

/// The resource as a list carries it.
pub(in crate::rest) fn item(reference: &DatasetRef, dataset: &Dataset) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("kind".into(), json!("bigquery#dataset"));
    object.insert("id".into(), json!(reference.to_string()));
    object.insert("datasetReference".into(), json!(reference));
    if !dataset.labels.is_empty() {
        object.insert("labels".into(), json!(dataset.labels));
    }
    if let Some(name) = dataset.extra.get("friendlyName") {
        object.insert("friendlyName".into(), name.clone());
    }
    object.insert("location".into(), json!(dataset.location));
    object.insert("type".into(), json!("DEFAULT"));
    object
}

fn default_access() -> Value {
    json!([
        {"role": "WRITER", "specialGroup": "projectWriters"},
        {"role": "OWNER", "specialGroup": "projectOwners"},
        {"role": "OWNER", "userByEmail": "anonymous@bigquery-local.invalid"},
        {"role": "READER", "specialGroup": "projectReaders"},
    ])
}
