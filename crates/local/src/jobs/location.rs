//! Where a job runs.
//!
//! A client may say it; else it is where the datasets are that the job names, and
//! the US when it names none (section 5.1 of the service reference).

use super::reference::{DEFAULT_LOCATION, canonical_location};
use crate::error::{Reason, Result, ServiceError};
use crate::store::{DatasetRef, State};

/// The location of a job that asks for `requested` and works on `datasets`.
pub fn infer(state: &State, requested: Option<&str>, datasets: &[DatasetRef]) -> String {
    if let Some(location) = requested.filter(|l| !l.is_empty()) {
        return canonical_location(location);
    }
    datasets
        .iter()
        .find_map(|dataset| state.dataset(dataset))
        .map_or_else(
            || DEFAULT_LOCATION.to_string(),
            |dataset| canonical_location(&dataset.location),
        )
}

/// Refuses datasets that are missing or elsewhere.
pub fn check(state: &State, location: &str, datasets: &[DatasetRef]) -> Result<()> {
    for reference in datasets {
        let dataset = state.require_dataset(reference)?;
        if canonical_location(&dataset.location) != location {
            return Err(ServiceError::not_found(format_args!(
                "Dataset {reference} was not found in location {location}"
            )));
        }
    }
    Ok(())
}

/// Adds the job's location to a message about a missing dataset or table, as the
/// service does for queries: recorded `Not found: Table p:d.t was not found in
/// location US`.
pub fn explain_missing(mut error: ServiceError, location: &str) -> ServiceError {
    let about = ["Not found: Table ", "Not found: Dataset "]
        .iter()
        .any(|start| error.message.starts_with(start));
    if error.reason == Reason::NotFound && about && !error.message.contains(" was not found in ") {
        error.message = format!("{} was not found in location {location}", error.message);
        error.location = None;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tables_are_explained_once() {
        let error = ServiceError::not_found("Table p:d.t");
        let explained = explain_missing(error, "US");
        assert_eq!(
            explained.message,
            "Not found: Table p:d.t was not found in location US"
        );
        assert_eq!(explain_missing(explained.clone(), "EU"), explained);
        let other = ServiceError::not_found("Job p:US.j");
        assert_eq!(explain_missing(other.clone(), "US"), other);
    }

    #[test]
    fn a_request_wins_and_the_default_is_the_us() {
        let state = State::default();
        assert_eq!(infer(&state, Some("eu"), &[]), "EU");
        assert_eq!(infer(&state, None, &[DatasetRef::new("p", "d")]), "US");
        assert_eq!(infer(&state, Some(""), &[]), "US");
    }
}
