//! Cloud Storage: the XML API that `object_store` uses, the JSON API that Google's
//! storage clients use, and, on the same listener, as much of Pub/Sub as takes what
//! could not be written.
//!
//! | module | what |
//! |---|---|
//! | [`objects`] | buckets and objects; no protocol |
//! | [`object`], [`content`] | what an object is, and where its bytes are |
//! | [`listing`] | pages of objects |
//! | [`uploads`] | uploads in several requests |
//! | [`disk`], [`upload_files`] | objects and uploads in a directory |
//! | [`call`], [`error`] | requests and refusals |
//! | [`json`], [`xml`] | the two APIs |
//! | [`pubsub`] | topics and their messages |

mod call;
mod content;
mod disk;
mod error;
mod json;
mod listing;
mod object;
mod objects;
mod pubsub;
mod resource;
mod upload_files;
mod uploads;
mod xml;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;

pub(crate) use error::{GcsError, Kind};
pub(crate) use object::{Attributes, Conditions, Expected};
pub(crate) use objects::New;
pub use objects::Objects;
pub use pubsub::Topics;

use self::call::Call;
use crate::rest::App;
use crate::server::Service;

/// The application of the storage listener.
pub fn app(service: &Arc<Service>) -> App {
    let router = Router::new()
        .fallback(answer)
        .with_state(Arc::clone(service));
    App::new(router)
}

async fn answer(State(service): State<Arc<Service>>, request: Request) -> Response {
    let path = request.uri().path();
    let is = |prefix: &str| path.starts_with(prefix);
    let json_api = is("/storage/v1/")
        || is("/upload/storage/v1/")
        || is("/resumable/upload/storage/v1/")
        || is("/download/storage/v1/")
        || is("/batch/storage/");
    let pubsub = is("/v1/projects/") || is("/_local/pubsub/");
    let call = match Call::read(request).await {
        Ok(call) => call,
        Err(e) if json_api || pubsub => return e.json(),
        Err(e) => return e.xml(),
    };
    if json_api {
        json::answer(&service.objects, &call).unwrap_or_else(|e| e.json())
    } else if pubsub {
        pubsub::answer(&service.topics, &call).unwrap_or_else(|e| e.json())
    } else {
        xml::answer(&service.objects, &call).unwrap_or_else(|e| e.xml())
    }
}
