//! Routines, which are made by SQL.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use serde_json::{Value, json};

use super::answer::{self, RestResult};
use super::names;
use crate::error::{Reason, Result, ServiceError};
use crate::server::Service;
use crate::store::{Mutation, Routine, RoutineKind, RoutineRef, State as Stored};

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/projects/{project}/datasets/{dataset}/routines", get(list))
        .route(
            "/projects/{project}/datasets/{dataset}/routines/{routine}",
            get(fetch).delete(delete),
        )
}

async fn list(
    State(service): State<Arc<Service>>,
    Path((project, dataset)): Path<(String, String)>,
) -> RestResult {
    let dataset = names::dataset(&project, &dataset)?;
    let routines = service.store.read(|state| {
        state.require_dataset(&dataset)?;
        let own = state.routines().filter(|(r, _)| r.dataset == dataset);
        Ok::<_, ServiceError>(own.map(listed_routine).collect::<Vec<_>>())
    })?;
    Ok(answer::json(&match routines.is_empty() {
        true => json!({}),
        false => json!({"routines": routines}),
    }))
}

/// An entry of routines.list, which has no definition.
fn listed_routine((reference, routine): (&RoutineRef, &Arc<Routine>)) -> Value {
    json!({
        "etag": routine.etag,
        "routineReference": {
            "projectId": reference.dataset.project,
            "datasetId": reference.dataset.dataset,
            "routineId": reference.name,
        },
        "routineType": match routine.kind {
            RoutineKind::Function => "SCALAR_FUNCTION",
            RoutineKind::TableFunction => "TABLE_VALUED_FUNCTION",
            RoutineKind::Procedure => "PROCEDURE",
        },
        "creationTime": routine.creation_time.to_string(),
        "lastModifiedTime": routine.last_modified_time.to_string(),
        "language": "SQL",
    })
}

/// The routine that a path names, or the service's 404.
fn routine_ref(
    state: &Stored,
    (project, dataset, routine): &(String, String, String),
) -> Result<RoutineRef> {
    let dataset = names::dataset(project, dataset)?;
    state.require_dataset(&dataset)?;
    let reference = RoutineRef {
        dataset,
        name: routine.clone(),
    };
    match state.routine(&reference) {
        Some(_) => Ok(reference),
        None => Err(ServiceError::not_found(format_args!("Routine {reference}"))),
    }
}

async fn fetch(
    State(service): State<Arc<Service>>,
    Path(path): Path<(String, String, String)>,
) -> RestResult {
    service.store.read(|state| routine_ref(state, &path))?;
    Err(ServiceError::new(
        Reason::NotImplemented,
        "routines.get is not supported by bigquery-local; INFORMATION_SCHEMA.ROUTINES has the \
         definition",
    )
    .into())
}

async fn delete(
    State(service): State<Arc<Service>>,
    Path(path): Path<(String, String, String)>,
) -> RestResult {
    service.store.commit(|state| {
        let reference = routine_ref(state, &path)?;
        Ok((vec![Mutation::DropRoutine(reference)], ()))
    })?;
    Ok(answer::no_content())
}
