//! Projects.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::json;

use super::answer::{self, RestResult};
use super::page;
use super::request::Params;
use crate::server::Service;

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new().route("/projects", get(list))
}

async fn list(State(service): State<Arc<Service>>, params: Params) -> RestResult {
    let mut ids: BTreeSet<String> = BTreeSet::from([service.options.project.clone()]);
    service.store.read(|state| {
        ids.extend(state.projects().map(str::to_string));
    });
    let page = page::of(
        ids.into_iter().map(|id| (id.clone(), id)),
        &params,
        "projects",
        50,
    )?;
    let projects: Vec<_> = page
        .items
        .iter()
        .map(|id| {
            json!({
                "kind": "bigquery#project",
                "id": id,
                "numericId": numeric_id(id),
                "projectReference": {"projectId": id},
                "friendlyName": id,
            })
        })
        .collect();
    let mut body = json!({
        "kind": "bigquery#projectList",
        "etag": super::resource::list_etag(&projects),
        "projects": projects,
        "totalItems": page.total,
    });
    super::resource::set_next_page(&mut body, page.next);
    Ok(answer::resource(&body))
}

/// A stable twelve-digit number for a project.
fn numeric_id(project: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(project.as_bytes());
    let head: [u8; 8] = std::array::from_fn(|i| digest[i]);
    format!(
        "{}",
        100_000_000_000 + u64::from_be_bytes(head) % 900_000_000_000
    )
}
