//! Tables and views.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use serde_json::{Map, Value, json};

use super::answer::{self, RestResult};
use super::request::{Conditions, JsonBody, Params};
use super::resource::table::{Absent, Detail};
use super::{merge, names, page, resource};
use crate::engine;
use crate::error::{Result, ServiceError};
use crate::quotas::Quota;
use crate::schema::{TableSchema, evolve_schema};
use crate::server::Service;
use crate::store::{Mutation, TableKind, TableMeta, TableRef, millis_now};

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route(
            "/projects/{project}/datasets/{dataset}/tables",
            get(list).post(insert),
        )
        .route(
            "/projects/{project}/datasets/{dataset}/tables/{table}",
            get(fetch).patch(patch).put(replace).delete(delete),
        )
}

async fn insert(
    State(service): State<Arc<Service>>,
    Path((project, dataset)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> RestResult {
    let dataset = names::dataset(&project, &dataset)?;
    let body = members(&body);
    let reference = resource::table::reference(&project, &dataset.dataset, body)?;
    let kind = resource::table::kind(body)?;
    let schema = schema_of(&service, &reference, &kind, body).await?;
    service
        .quotas
        .charge(Quota::TableCreations, &reference.project)?;
    let answer = service.store.commit(|state| {
        let home = state.require_dataset(&dataset)?;
        if let Some(table) = state.table(&reference) {
            let race = service.options.realism.creation_race;
            return Err(service.creation_races.lost(table, &reference, race));
        }
        let mut meta = TableMeta::new(home, kind, Arc::new(schema), millis_now());
        if let Some(ms) = home.default_partition_expiration_ms()
            && let Some(Value::Object(time)) = body.get("timePartitioning")
            && !time.contains_key("expirationMs")
        {
            let mut body = body.clone();
            body["timePartitioning"]["expirationMs"] = json!(ms.to_string());
            resource::table::read(&mut meta, &body, Absent::Default)?;
        } else {
            resource::table::read(&mut meta, body, Absent::Default)?;
        }
        Ok((
            vec![Mutation::PutTable(reference.clone(), Box::new(meta))],
            (),
        ))
    });
    answer?;
    answer_table(&service, &reference, Detail::Full)
}

/// The columns of a new relation: a view's come from its query, in which the body
/// may describe them.
async fn schema_of(
    service: &Arc<Service>,
    reference: &TableRef,
    kind: &TableKind,
    body: &Map<String, Value>,
) -> Result<TableSchema> {
    let said = resource::table::schema(body)?;
    let (TableKind::View(view) | TableKind::MaterializedView(view)) = kind else {
        return Ok(said.unwrap_or_default());
    };
    let mut schema = engine::view_schema(service, &reference.project, &view.query).await?;
    for field in said.iter().flat_map(|s| &s.fields) {
        match schema.index_of(&field.name) {
            Some(i) => schema.fields[i].description.clone_from(&field.description),
            None => {
                return Err(ServiceError::invalid(format!(
                    "Provided Schema does not match Table {reference}. Field {} is not in the view's query",
                    field.name
                )));
            }
        }
    }
    Ok(schema)
}

fn answer_table(service: &Service, reference: &TableRef, detail: Detail) -> RestResult {
    let table = service.store.table(reference)?;
    Ok(answer::resource(&resource::table::full(
        service, &table, detail,
    )))
}

async fn fetch(
    State(service): State<Arc<Service>>,
    Path((project, dataset, table)): Path<(String, String, String)>,
    conditions: Conditions,
    params: Params,
) -> RestResult {
    let decorated = names::decorated(&project, &dataset, &table)?;
    let table = service.store.table(&decorated.table)?;
    let meta = table.meta();
    if let Some(id) = &decorated.partition {
        meta.partition(id)?;
    }
    if conditions.has(&meta.etag) {
        return Ok(answer::not_modified());
    }
    let detail = match params.get("view") {
        None | Some("TABLE_METADATA_VIEW_UNSPECIFIED" | "STORAGE_STATS" | "FULL") => Detail::Full,
        Some("BASIC") => Detail::Basic,
        Some(other) => {
            return Err(ServiceError::invalid(format!(
                "Invalid value for view: {other} is not a valid value"
            ))
            .at("view")
            .into());
        }
    };
    let mut body = resource::table::full(&service, &table, detail);
    if let Some(fields) = params.get("selectedFields") {
        let selected = super::tabledata::select(&meta.schema, fields)?;
        body["schema"] = json!(selected);
    }
    Ok(answer::resource(&body))
}

async fn list(
    State(service): State<Arc<Service>>,
    Path((project, dataset)): Path<(String, String)>,
    params: Params,
) -> RestResult {
    let dataset = names::dataset(&project, &dataset)?;
    let page = service.store.read(|state| {
        state.require_dataset(&dataset)?;
        let tables = state
            .tables(&dataset)
            .map(|table| (table.reference().table.clone(), Arc::clone(table)));
        page::of(tables, &params, "tables", 50)
    })?;
    let items: Vec<Value> = page.items.iter().map(resource::table::item).collect();
    let mut body = json!({
        "kind": "bigquery#tableList",
        "etag": resource::list_etag(&items),
        "totalItems": page.total,
    });
    if !items.is_empty() {
        body["tables"] = Value::Array(items);
    }
    resource::set_next_page(&mut body, page.next);
    Ok(answer::resource(&body))
}

async fn patch(
    State(service): State<Arc<Service>>,
    Path((project, dataset, table)): Path<(String, String, String)>,
    conditions: Conditions,
    JsonBody(body): JsonBody,
) -> RestResult {
    let reference = names::table(&project, &dataset, &table)?;
    update(&service, &reference, &conditions, &body, Change::Merge).await
}

async fn replace(
    State(service): State<Arc<Service>>,
    Path((project, dataset, table)): Path<(String, String, String)>,
    conditions: Conditions,
    JsonBody(body): JsonBody,
) -> RestResult {
    let reference = names::table(&project, &dataset, &table)?;
    update(&service, &reference, &conditions, &body, Change::Replace).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Merge,
    Replace,
}

async fn update(
    service: &Arc<Service>,
    reference: &TableRef,
    conditions: &Conditions,
    body: &Value,
    change: Change,
) -> RestResult {
    if let Some(named) = resource::object(members(body), "tableReference")?
        && resource::text(named, "tableId")?.is_some_and(|id| id != reference.table)
    {
        return Err(ServiceError::invalid("Cannot change the ID of an existing table.").into());
    }
    service.quotas.charge(Quota::TableUpdates, reference)?;
    // Columns of a new view query are planned before the state is locked.
    let view = match resource::table::kind(members(body))? {
        kind @ (TableKind::View(_) | TableKind::MaterializedView(_)) => {
            let now = service.store.table(reference)?.meta();
            resource::table::check_kind(&now.kind, &kind)?;
            let schema = schema_of(service, reference, &kind, members(body)).await?;
            Some((kind, schema))
        }
        TableKind::Table | TableKind::External => None,
    };
    service.store.commit(|state| {
        let table = state.require_table(reference)?;
        let old = table.meta();
        conditions.check(&old.etag)?;
        let mut wanted = match change {
            Change::Merge => resource::table::writable(&old),
            Change::Replace => json!({}),
        };
        merge::merge(&mut wanted, body);
        let wanted = members(&wanted);
        let mut new = TableMeta::clone(&old);
        match (view, resource::table::schema(wanted)?) {
            (Some((kind, schema)), _) => {
                new.kind = kind;
                new.schema = Arc::new(schema);
            }
            (None, Some(schema)) if old.schema.fields.is_empty() => new.schema = Arc::new(schema),
            (None, Some(schema)) if matches!(old.kind, TableKind::Table) => {
                new.schema = Arc::new(evolve_schema(&reference.to_string(), &old.schema, &schema)?);
            }
            (None, Some(schema)) => new.schema = Arc::new(described(&old.schema, &schema)),
            (None, None) => {}
        }
        resource::table::read(&mut new, wanted, Absent::Clear)?;
        resource::table::check_update(&old, &new)?;
        if new != *old {
            new.touch(millis_now());
        }
        Ok((
            vec![Mutation::PutTable(reference.clone(), Box::new(new))],
            (),
        ))
    })?;
    answer_table(service, reference, Detail::Full)
}

/// A view's columns with the descriptions of `said`.
fn described(columns: &TableSchema, said: &TableSchema) -> TableSchema {
    let mut schema = columns.clone();
    for field in &mut schema.fields {
        if let Some(said) = said.field(&field.name) {
            field.description.clone_from(&said.description);
        }
    }
    schema
}

async fn delete(
    State(service): State<Arc<Service>>,
    Path((project, dataset, table)): Path<(String, String, String)>,
    conditions: Conditions,
) -> RestResult {
    let decorated = names::decorated(&project, &dataset, &table)?;
    let reference = decorated.table;
    if let Some(id) = decorated.partition {
        super::tabledata::delete_partition(&service, &reference, &id, &conditions)?;
        return Ok(answer::no_content());
    }
    service.store.commit(|state| {
        let table = state.require_table(&reference)?;
        conditions.check(&table.meta().etag)?;
        Ok((vec![Mutation::DropTable(reference.clone())], ()))
    })?;
    Ok(answer::no_content())
}

fn members(body: &Value) -> &Map<String, Value> {
    body.as_object().expect("bodies are objects")
}
