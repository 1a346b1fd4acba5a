//! Datasets.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use serde_json::{Map, Value, json};

use super::answer::{self, RestResult};
use super::request::{Conditions, JsonBody, Params};
use super::{merge, names, page, resource};
use crate::error::{Reason, Result, ServiceError};
use crate::quotas::Quota;
use crate::server::Service;
use crate::store::{Dataset, DatasetRef, Mutation, State as Stored, fresh_etag, millis_now};

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/projects/{project}/datasets", get(list).post(insert))
        .route(
            "/projects/{project}/datasets/{dataset}",
            get(fetch).patch(patch).put(replace).delete(delete),
        )
        .route(
            "/projects/{project}/datasets/{dataset}/models",
            get(list_models),
        )
        .route(
            "/projects/{project}/datasets/{dataset}/tables/{table}/rowAccessPolicies",
            get(list_row_access_policies),
        )
}

async fn insert(
    State(service): State<Arc<Service>>,
    Path(project): Path<String>,
    JsonBody(body): JsonBody,
) -> RestResult {
    let body = members(&body);
    let reference = resource::dataset::reference(&project, body)?;
    let location = match resource::text(body, "location")? {
        Some(location) => resource::dataset::location(&location)?,
        None => "US".to_string(),
    };
    let mut dataset = Dataset::new(location, millis_now());
    resource::dataset::read(&mut dataset, body)?;
    let answer = resource::dataset::full(&service, &reference, &dataset);
    service.store.commit(|state| {
        if state.dataset(&reference).is_some() {
            return Err(ServiceError::duplicate(format_args!("Dataset {reference}")));
        }
        Ok((vec![Mutation::PutDataset(reference, dataset)], ()))
    })?;
    Ok(answer::resource(&answer))
}

async fn fetch(
    State(service): State<Arc<Service>>,
    Path((project, dataset)): Path<(String, String)>,
    conditions: Conditions,
) -> RestResult {
    let reference = names::dataset(&project, &dataset)?;
    let dataset = service
        .store
        .read(|state| state.require_dataset(&reference).cloned())?;
    if conditions.has(&dataset.etag) {
        return Ok(answer::not_modified());
    }
    Ok(answer::resource(&resource::dataset::full(
        &service, &reference, &dataset,
    )))
}

async fn list(
    State(service): State<Arc<Service>>,
    Path(project): Path<String>,
    params: Params,
) -> RestResult {
    names::check_project_id(&project)?;
    let all = params.flag("all")?;
    let filter = LabelFilter::parse(params.get("filter").unwrap_or(""))?;
    let page = service.store.read(|state| {
        let visible = state
            .datasets(&project)
            // Anonymous result datasets are hidden.
            .filter(|(reference, _)| all || !reference.dataset.starts_with('_'))
            .filter(|(_, dataset)| filter.accepts(dataset))
            .map(|(reference, dataset)| {
                let item = resource::dataset::item(reference, dataset);
                (reference.dataset.clone(), item)
            });
        page::of(visible, &params, "datasets", 50)
    })?;
    let mut body = json!({
        "kind": "bigquery#datasetList",
        "etag": resource::list_etag(&page.items),
    });
    if !page.items.is_empty() {
        body["datasets"] = json!(page.items);
    }
    resource::set_next_page(&mut body, page.next);
    Ok(answer::resource(&body))
}

async fn patch(
    State(service): State<Arc<Service>>,
    Path((project, dataset)): Path<(String, String)>,
    conditions: Conditions,
    JsonBody(body): JsonBody,
) -> RestResult {
    let reference = names::dataset(&project, &dataset)?;
    update(&service, reference, &conditions, &body, |dataset| {
        let mut merged = resource::dataset::writable(dataset);
        merge::merge(&mut merged, &body);
        merged
    })
}

async fn replace(
    State(service): State<Arc<Service>>,
    Path((project, dataset)): Path<(String, String)>,
    conditions: Conditions,
    JsonBody(body): JsonBody,
) -> RestResult {
    let reference = names::dataset(&project, &dataset)?;
    update(&service, reference, &conditions, &body, |_| body.clone())
}

fn update(
    service: &Service,
    reference: DatasetRef,
    conditions: &Conditions,
    body: &Value,
    new: impl FnOnce(&Dataset) -> Value,
) -> RestResult {
    if let Some(named) = resource::object(members(body), "datasetReference")?
        && resource::text(named, "datasetId")?.is_some_and(|id| id != reference.dataset)
    {
        return Err(ServiceError::invalid("Cannot change the ID of an existing dataset.").into());
    }
    service.quotas.charge(Quota::DatasetUpdates, &reference)?;
    let location = resource::text(members(body), "location")?;
    let answer = service.store.commit(|state| {
        let old = state.require_dataset(&reference)?;
        conditions.check(&old.etag)?;
        if let Some(location) = location
            && resource::dataset::location(&location)? != old.location
        {
            return Err(ServiceError::invalid(format!(
                "Cannot change the location of an existing dataset: {reference} is in {}",
                old.location
            )));
        }
        let mut dataset = Dataset::clone(old);
        resource::dataset::read(&mut dataset, members(&new(old)))?;
        if dataset != **old {
            dataset.etag = fresh_etag();
            dataset.last_modified_time = millis_now();
        }
        let answer = resource::dataset::full(service, &reference, &dataset);
        Ok((vec![Mutation::PutDataset(reference, dataset)], answer))
    })?;
    Ok(answer::resource(&answer))
}

async fn delete(
    State(service): State<Arc<Service>>,
    Path((project, dataset)): Path<(String, String)>,
    conditions: Conditions,
    params: Params,
) -> RestResult {
    let reference = names::dataset(&project, &dataset)?;
    let contents = params.flag("deleteContents")?;
    service.store.commit(|state: &Stored| {
        conditions.check(&state.require_dataset(&reference)?.etag)?;
        if !contents && !state.is_empty(&reference) {
            return Err(ServiceError::new(
                Reason::ResourceInUse,
                format!("Dataset {reference} is still in use"),
            ));
        }
        Ok((vec![Mutation::DropDataset(reference)], ()))
    })?;
    Ok(answer::no_content())
}

async fn list_models(
    State(service): State<Arc<Service>>,
    Path((project, dataset)): Path<(String, String)>,
) -> RestResult {
    empty_list(&service, &project, &dataset)
}

async fn list_row_access_policies(
    State(service): State<Arc<Service>>,
    Path((project, dataset, table)): Path<(String, String, String)>,
) -> RestResult {
    let reference = names::table(&project, &dataset, &table)?;
    service.store.table(&reference)?;
    Ok(answer::json(&json!({})))
}

/// The list of something that no dataset has here; the service leaves everything
/// out of such an answer.
fn empty_list(service: &Service, project: &str, dataset: &str) -> RestResult {
    let reference = names::dataset(project, dataset)?;
    service
        .store
        .read(|state| state.require_dataset(&reference).map(|_| ()))?;
    Ok(answer::json(&json!({})))
}

fn members(body: &Value) -> &Map<String, Value> {
    body.as_object().expect("bodies are objects")
}

/// A list's `filter`: `labels.key` and `labels.key:value`, all of which must hold.
#[derive(Debug, PartialEq, Eq)]
struct LabelFilter(Vec<(String, Option<String>)>);

impl LabelFilter {
    fn parse(text: &str) -> Result<Self> {
        text.split_ascii_whitespace()
            .filter(|word| !word.eq_ignore_ascii_case("and"))
            .map(|term| {
                let (key, value) = match term.split_once(':') {
                    Some((key, value)) => (key, Some(value.to_string())),
                    None => (term, None),
                };
                key.strip_prefix("labels.")
                    .filter(|key| !key.is_empty())
                    .map(|key| (key.to_string(), value))
                    .ok_or_else(|| {
                        ServiceError::invalid(format!(
                            "Invalid filter \"{term}\": expected labels.key or labels.key:value."
                        ))
                        .at("filter")
                    })
            })
            .collect::<Result<_>>()
            .map(Self)
    }

    fn accepts(&self, dataset: &Dataset) -> bool {
        self.0.iter().all(|(key, value)| {
            dataset
                .labels
                .get(key)
                .is_some_and(|has| value.as_ref().is_none_or(|v| v == "*" || v == has))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_filters() {
        let mut dataset = Dataset::new("US", 0);
        dataset.labels.insert("a".into(), "1".into());
        dataset.labels.insert("b".into(), String::new());
        for (filter, accepted) in [
            ("", true),
            ("labels.a", true),
            ("labels.a:1", true),
            ("labels.a:2", false),
            ("labels.a:1 labels.b", true),
            ("labels.a:1 AND labels.c", false),
            ("labels.b:", true),
        ] {
            assert_eq!(
                LabelFilter::parse(filter).unwrap().accepts(&dataset),
                accepted,
                "{filter}"
            );
        }
        assert!(LabelFilter::parse("name:x").is_err());
    }
}
