//! The table resource.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{flag, integer, labels, object, text, texts};
use crate::error::{Result, ServiceError};
use crate::schema::{TableSchema, validate_schema};
use crate::server::Service;
use crate::store::{
    ClusteringSpec, Partitioning, RangePartitioning, Table, TableKind, TableMeta, TableRef,
    TimePartitioning, View, millis_now,
};

/// Members that are kept and given back without a meaning here.
const KEPT: [&str; 8] = [
    "friendlyName",
    "encryptionConfiguration",
    "defaultCollation",
    "defaultRoundingMode",
    "resourceTags",
    "externalDataConfiguration",
    "materializedView",
    "biglakeConfiguration",
];

/// The reference in an insert's body, which the path completes.
pub(in crate::rest) fn reference(
    project: &str,
    dataset: &str,
    body: &Map<String, Value>,
) -> Result<TableRef> {
    let missing = || ServiceError::invalid("Required parameter is missing: tableReference.tableId");
    let reference = object(body, "tableReference")?.ok_or_else(missing)?;
    let id = text(reference, "tableId")?.ok_or_else(missing)?;
    for (key, path) in [("projectId", project), ("datasetId", dataset)] {
        if let Some(named) = text(reference, key)?
            && named != path
        {
            return Err(ServiceError::invalid(format!(
                "Value in content does not agree with value in path: {key} {named} is not {path}"
            )));
        }
    }
    crate::rest::names::table(project, dataset, &id)
}

/// What kind of relation a body describes.
pub(in crate::rest) fn kind(body: &Map<String, Value>) -> Result<TableKind> {
    let view = |definition: &Map<String, Value>, key: &str| -> Result<View> {
        let query = text(definition, "query")?.filter(|q| !q.trim().is_empty());
        if flag(definition, "useLegacySql")? {
            return Err(ServiceError::invalid(format!(
                "{key}.useLegacySql: legacy SQL is not supported by bigquery-local"
            )));
        }
        Ok(View {
            query: query.ok_or_else(|| {
                ServiceError::invalid(format!("Required parameter is missing: {key}.query"))
            })?,
        })
    };
    if let Some(definition) = object(body, "view")? {
        return Ok(TableKind::View(view(definition, "view")?));
    }
    if let Some(definition) = object(body, "materializedView")? {
        return Ok(TableKind::MaterializedView(view(
            definition,
            "materializedView",
        )?));
    }
    if object(body, "externalDataConfiguration")?.is_some() {
        return Ok(TableKind::External);
    }
    Ok(TableKind::Table)
}

/// The schema in a body, if there is one.
pub(in crate::rest) fn schema(body: &Map<String, Value>) -> Result<Option<TableSchema>> {
    let Some(schema) = object(body, "schema")? else {
        return Ok(None);
    };
    let schema: TableSchema = serde_json::from_value(Value::Object(schema.clone()))
        .map_err(|e| ServiceError::invalid(e.to_string()))?;
    validate_schema(&schema)?;
    Ok(Some(schema))
}

/// The members that PATCH and PUT change.
pub(in crate::rest) fn writable(meta: &TableMeta) -> Value {
    let mut body = meta.extra.clone();
    let mut put = |key: &str, value: Value| {
        body.insert(key.to_string(), value);
    };
    if let Some(description) = &meta.description {
        put("description", json!(description));
    }
    if !meta.labels.is_empty() {
        put("labels", json!(meta.labels));
    }
    if !meta.schema.fields.is_empty() {
        put("schema", json!(*meta.schema));
    }
    if let Some(at) = meta.expiration_time {
        put("expirationTime", json!(at.to_string()));
    }
    if let Some(time) = &meta.time_partitioning {
        put("timePartitioning", json!(time));
    }
    if let Some(range) = &meta.range_partitioning {
        put("rangePartitioning", range_json(range));
    }
    if let Some(clustering) = &meta.clustering {
        put("clustering", json!(clustering));
    }
    if meta.require_partition_filter {
        put("requirePartitionFilter", json!(true));
    }
    if !meta.primary_key.is_empty() || !meta.foreign_keys.is_empty() {
        let mut constraints = Map::new();
        if !meta.primary_key.is_empty() {
            constraints.insert("primaryKey".into(), json!({"columns": meta.primary_key}));
        }
        if !meta.foreign_keys.is_empty() {
            constraints.insert("foreignKeys".into(), json!(meta.foreign_keys));
        }
        put("tableConstraints", Value::Object(constraints));
    }
    if let TableKind::View(view) = &meta.kind {
        put("view", json!({"query": view.query, "useLegacySql": false}));
    }
    Value::Object(body)
}

fn range_json(range: &RangePartitioning) -> Value {
    json!({
        "field": range.field,
        "range": {
            "start": range.start.to_string(),
            "end": range.end.to_string(),
            "interval": range.interval.to_string(),
        },
    })
}

/// Whether absent members keep what the table got from its dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum Absent {
    /// A new table: yes.
    Default,
    /// An existing table: no, they are cleared.
    Clear,
}

/// Puts the writable members of `body` but its kind and schema into `meta`.
///
/// `maxStaleness` is accepted and dropped, as the service does: only DDL sets it.
pub(in crate::rest) fn read(
    meta: &mut TableMeta,
    body: &Map<String, Value>,
    absent: Absent,
) -> Result<()> {
    meta.description = text(body, "description")?;
    meta.labels = labels(body)?;
    match integer(body, "expirationTime")? {
        Some(at) if at <= millis_now() && meta.expiration_time != Some(at) => {
            return Err(ServiceError::invalid(format!(
                "Invalid value for expirationTime: {at} is in the past"
            )));
        }
        Some(at) => meta.expiration_time = Some(at),
        None if absent == Absent::Clear => meta.expiration_time = None,
        None => {}
    }
    meta.time_partitioning = time_partitioning(body)?;
    meta.range_partitioning = range_partitioning(body)?;
    meta.clustering = match object(body, "clustering")? {
        Some(clustering) => Some(ClusteringSpec {
            fields: texts(clustering, "fields")?,
        }),
        None => None,
    };
    let inner_filter = match object(body, "timePartitioning")? {
        Some(time) => flag(time, "requirePartitionFilter")?,
        None => false,
    };
    meta.require_partition_filter = flag(body, "requirePartitionFilter")? || inner_filter;
    (meta.primary_key, meta.foreign_keys) = constraints(body)?;
    meta.extra = KEPT
        .iter()
        .filter_map(|key| {
            body.get(*key)
                .filter(|v| !v.is_null())
                .map(|v| ((*key).to_string(), v.clone()))
        })
        .collect();
    meta.validate_layout()
}

fn time_partitioning(body: &Map<String, Value>) -> Result<Option<TimePartitioning>> {
    let Some(time) = object(body, "timePartitioning")? else {
        return Ok(None);
    };
    Ok(Some(TimePartitioning {
        granularity: text(time, "type")?
            .ok_or_else(|| {
                ServiceError::invalid("Required parameter is missing: timePartitioning.type")
            })?
            .to_ascii_uppercase(),
        field: text(time, "field")?,
        // The service takes 0 for "never".
        expiration_ms: integer(time, "expirationMs")?
            .filter(|ms| *ms != 0)
            .map(|ms| ms.to_string()),
    }))
}

fn range_partitioning(body: &Map<String, Value>) -> Result<Option<RangePartitioning>> {
    let Some(spec) = object(body, "rangePartitioning")? else {
        return Ok(None);
    };
    let missing = |what: &str| {
        ServiceError::invalid(format!(
            "Required parameter is missing: rangePartitioning.{what}"
        ))
    };
    let range = object(spec, "range")?.ok_or_else(|| missing("range"))?;
    let bound = |key: &str| integer(range, key)?.ok_or_else(|| missing(&format!("range.{key}")));
    Ok(Some(RangePartitioning {
        field: text(spec, "field")?.ok_or_else(|| missing("field"))?,
        start: bound("start")?,
        end: bound("end")?,
        interval: bound("interval")?,
    }))
}

fn constraints(body: &Map<String, Value>) -> Result<(Vec<String>, Vec<Value>)> {
    let Some(constraints) = object(body, "tableConstraints")? else {
        return Ok((Vec::new(), Vec::new()));
    };
    let primary = match object(constraints, "primaryKey")? {
        Some(key) => texts(key, "columns")?,
        None => Vec::new(),
    };
    let foreign = match constraints.get("foreignKeys") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(keys)) => keys.clone(),
        Some(_) => {
            return Err(ServiceError::invalid(
                "Invalid value for tableConstraints.foreignKeys: a list is needed",
            ));
        }
    };
    Ok((primary, foreign))
}

/// Refuses to make another kind of relation of an existing one.
pub(in crate::rest) fn check_kind(old: &TableKind, new: &TableKind) -> Result<()> {
    if std::mem::discriminant(old) == std::mem::discriminant(new) {
        return Ok(());
    }
    Err(ServiceError::invalid(
        "Cannot change the type of an existing table.",
    ))
}

/// Refuses a change of what a table keeps for life.
pub(in crate::rest) fn check_update(old: &TableMeta, new: &TableMeta) -> Result<()> {
    let refuse = |why: &str| Err(ServiceError::invalid(why));
    check_kind(&old.kind, &new.kind)?;
    let layout = |meta: &TableMeta| {
        meta.time_partitioning.as_ref().map(|t| {
            (
                t.granularity.clone(),
                t.field.as_ref().map(|f| f.to_ascii_lowercase()),
            )
        })
    };
    let unpartitioned =
        |meta: &TableMeta| meta.time_partitioning.is_none() && meta.range_partitioning.is_none();
    if unpartitioned(old) != unpartitioned(new) {
        return refuse(
            "Cannot convert non partitioned/clustered table to partitioned/clustered table.",
        );
    }
    if layout(old) != layout(new) || old.range_partitioning != new.range_partitioning {
        return refuse("Cannot change partitioning spec for a partitioned table.");
    }
    Ok(())
}

/// How much of a table `tables.get` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum Detail {
    /// `view=BASIC`: no sizes.
    Basic,
    /// `view=STORAGE_STATS`, `FULL`, and by default.
    Full,
}

/// The whole resource.
pub(in crate::rest) fn full(service: &Service, table: &Table, detail: Detail) -> Value {
    let meta = table.meta();
    let reference = table.reference();
    let mut body = writable(&meta);
    let object = body.as_object_mut().expect("a resource is an object");
    let mut put = |key: &str, value: Value| {
        object.insert(key.to_string(), value);
    };
    put("kind", json!("bigquery#table"));
    put("etag", json!(meta.etag));
    put("id", json!(reference.to_string()));
    put(
        "selfLink",
        json!(format!(
            "http://{}/bigquery/v2/projects/{}/datasets/{}/tables/{}",
            service.options.rest, reference.project, reference.dataset, reference.table
        )),
    );
    put("tableReference", json!(reference));
    put("type", json!(meta.kind.name()));
    put("location", json!(meta.location));
    put("creationTime", json!(meta.creation_time.to_string()));
    let changed = meta.last_modified_time.max(table.changed() / 1000);
    put("lastModifiedTime", json!(changed.to_string()));
    if let Some(column) = partitioning_column(&meta) {
        put(
            "partitionDefinition",
            json!({"partitionedColumn": [{"field": column}]}),
        );
    }
    if detail == Detail::Full {
        let snapshot = table.snapshot();
        let bytes = snapshot.logical_bytes().to_string();
        put("numRows", json!(snapshot.rows().to_string()));
        put("numBytes", json!(bytes));
        put("numLongTermBytes", json!("0"));
        put("numTotalLogicalBytes", json!(bytes));
        put("numActiveLogicalBytes", json!(bytes));
        put("numLongTermLogicalBytes", json!("0"));
    }
    body
}

fn partitioning_column(meta: &TableMeta) -> Option<String> {
    match meta.partitioning() {
        Partitioning::Time(field, _) | Partitioning::Range(field, ..) => Some(field.name.clone()),
        Partitioning::Ingestion(_) => Some("_PARTITIONTIME".to_string()),
        Partitioning::None => None,
    }
}

/// The resource as a list carries it.
pub(in crate::rest) fn item(table: &Arc<Table>) -> Value {
    let meta = table.meta();
    let reference = table.reference();
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| {
        object.insert(key.to_string(), value);
    };
    put("kind", json!("bigquery#table"));
    put("id", json!(reference.to_string()));
    put("tableReference", json!(reference));
    put("type", json!(meta.kind.name()));
    put("creationTime", json!(meta.creation_time.to_string()));
    if let Some(name) = meta.extra.get("friendlyName") {
        put("friendlyName", name.clone());
    }
    if !meta.labels.is_empty() {
        put("labels", json!(meta.labels));
    }
    if let Some(at) = meta.expiration_time {
        put("expirationTime", json!(at.to_string()));
    }
    if let Some(time) = &meta.time_partitioning {
        put("timePartitioning", json!(time));
    }
    if let Some(range) = &meta.range_partitioning {
        put("rangePartitioning", range_json(range));
    }
    if let Some(clustering) = &meta.clustering {
        put("clustering", json!(clustering));
    }
    if meta.require_partition_filter {
        put("requirePartitionFilter", json!(true));
    }
    if matches!(meta.kind, TableKind::View(_)) {
        put("view", json!({"useLegacySql": false}));
    }
    Value::Object(object)
}
