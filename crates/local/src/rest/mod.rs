//! REST v2: one module per resource, each with its own routes.
//!
//! Every path answers with and without the `/bigquery/v2` prefix, because clients
//! differ in what they take for the endpoint.

pub mod answer;
mod datasets;
mod discovery;
pub mod insert_all;
mod jobs;
pub mod merge;
pub mod names;
pub mod page;
mod projects;
mod queries;
pub mod request;
mod resource;
mod routines;
mod tabledata;
mod tables;
mod upload;
mod upload_multipart;

pub(crate) use upload_multipart::parts as multipart_parts;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::middleware::map_response;
use axum::response::Response;
use http::Method;
use http::header::HeaderName;

use crate::server::Service;

/// The REST routes over `service`.
pub fn router(service: Arc<Service>) -> Router {
    let resources = Router::new()
        .merge(projects::routes())
        .merge(datasets::routes())
        .merge(routines::routes())
        .merge(tables::routes())
        .merge(tabledata::routes())
        .merge(jobs::routes())
        .merge(queries::routes());
    Router::new()
        .nest("/bigquery/v2", resources.clone())
        .merge(resources)
        .merge(discovery::routes())
        .merge(crate::quotas::routes())
        .merge(upload::routes())
        .fallback(answer::no_such_path)
        .layer(map_response(answer::in_envelope))
        .with_state(service)
}

/// The application of the REST listener.
pub fn app(service: &Arc<Service>) -> App {
    App::new(router(Arc::clone(service)))
}

/// A router behind what happens before routing: a POST with
/// `X-HTTP-Method-Override` is a request of that method.
#[derive(Debug, Clone)]
pub struct App(Router);

impl App {
    /// An application of `router`.
    pub fn new(router: Router) -> Self {
        Self(router)
    }
}

const METHOD_OVERRIDE: HeaderName = HeaderName::from_static("x-http-method-override");

impl tower::Service<Request> for App {
    type Response = Response;
    type Error = Infallible;
    type Future = <Router as tower::Service<Request>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        <Router as tower::Service<Request>>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        if request.method() == Method::POST {
            let meant =
                request
                    .headers()
                    .get(METHOD_OVERRIDE)
                    .and_then(|value| match value.as_bytes() {
                        b"PATCH" => Some(Method::PATCH),
                        b"PUT" => Some(Method::PUT),
                        b"DELETE" => Some(Method::DELETE),
                        b"GET" => Some(Method::GET),
                        _ => None,
                    });
            if let Some(method) = meant {
                *request.method_mut() = method;
            }
        }
        self.0.call(request)
    }
}
