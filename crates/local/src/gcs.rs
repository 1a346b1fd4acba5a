//! The Cloud Storage API.

use std::sync::Arc;

use axum::Router;

use crate::error::{Reason, ServiceError};
use crate::rest::App;
use crate::rest::answer::RestError;
use crate::server::Service;

/// The application of the storage listener: every request is refused in the
/// service's error form, because this server keeps no objects.
pub fn app(_service: &Arc<Service>) -> App {
    App::new(Router::new().fallback(async || {
        RestError(ServiceError::new(
            Reason::NotImplemented,
            "Cloud Storage is not supported by bigquery-local",
        ))
    }))
}
