//! A dataset's metadata.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is known of a dataset besides its tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// Region or multi-region, as given (`US`).
    pub location: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Description.
    pub description: Option<String>,
    /// Milliseconds since the epoch.
    pub creation_time: i64,
    /// Milliseconds since the epoch.
    pub last_modified_time: i64,
    /// Changes with every metadata change.
    pub etag: String,
    /// Other fields of the REST resource that are stored and given back
    /// (`friendlyName`, `access`, `defaultTableExpirationMs`, …).
    pub extra: Map<String, Value>,
}
