//! Names of jobs and the places they run in.

use rand::Rng;
use rand::distr::Alphanumeric;

use crate::error::{Result, ServiceError};

pub use crate::store::JobRef;

/// The longest job id.
const MAX_JOB_ID: usize = 1024;

/// The location of a job that names no dataset and asks for none.
pub const DEFAULT_LOCATION: &str = "US";

/// Refuses an id that is not 1 to 1,024 letters, digits, underscores or dashes.
pub fn check_job_id(id: &str) -> Result<()> {
    let ok = !id.is_empty()
        && id.len() <= MAX_JOB_ID
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if ok {
        return Ok(());
    }
    let shown: String = id.chars().take(64).collect();
    Err(ServiceError::invalid(format!(
        "Invalid job ID \"{shown}\". Job IDs must be alphanumeric (plus underscores and dashes) \
         and must be at most {MAX_JOB_ID} characters long."
    )))
}

/// An id for a job whose client gave none.
pub fn new_job_id() -> String {
    let random: String = rand::rng()
        .sample_iter(Alphanumeric)
        .take(27)
        .map(char::from)
        .collect();
    format!("job_{random}")
}

/// Multi-regions in upper case, regions in lower case, as job references print them.
pub fn canonical_location(location: &str) -> String {
    if location.eq_ignore_ascii_case("us") || location.eq_ignore_ascii_case("eu") {
        location.to_ascii_uppercase()
    } else {
        location.to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_ids_are_checked() {
        assert!(check_job_id("a-B_9").is_ok());
        assert!(check_job_id(&"x".repeat(1024)).is_ok());
        for bad in ["", "a b", "a.b", "ä", &"x".repeat(1025)] {
            let error = check_job_id(bad).unwrap_err();
            assert_eq!(error.reason.as_str(), "invalid", "{bad}");
        }
    }

    #[test]
    fn made_ids_are_valid_and_differ() {
        let (a, b) = (new_job_id(), new_job_id());
        assert!(check_job_id(&a).is_ok());
        assert_ne!(a, b);
    }

    #[test]
    fn locations_have_one_spelling() {
        assert_eq!(canonical_location("us"), "US");
        assert_eq!(canonical_location("Eu"), "EU");
        assert_eq!(canonical_location("EUROPE-West3"), "europe-west3");
    }
}
