//! A dataset's metadata.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
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

impl Dataset {
    /// A dataset with nothing but a location, created at `now` (milliseconds).
    pub fn new(location: impl Into<String>, now: i64) -> Self {
        Self {
            location: location.into(),
            labels: BTreeMap::new(),
            description: None,
            creation_time: now,
            last_modified_time: now,
            etag: fresh_etag(),
            extra: Map::new(),
        }
    }

    /// Milliseconds after which tables expire that say nothing else.
    pub fn default_table_expiration_ms(&self) -> Option<i64> {
        self.milliseconds("defaultTableExpirationMs")
    }

    /// Milliseconds after which partitions expire whose table says nothing else.
    pub fn default_partition_expiration_ms(&self) -> Option<i64> {
        self.milliseconds("defaultPartitionExpirationMs")
    }

    fn milliseconds(&self, key: &str) -> Option<i64> {
        match self.extra.get(key)? {
            Value::String(text) => text.parse().ok(),
            Value::Number(n) => n.as_i64(),
            _ => None,
        }
        .filter(|ms| *ms > 0)
    }
}

/// An etag that no resource has had before.
pub fn fresh_etag() -> String {
    BASE64_STANDARD.encode(rand::random::<[u8; 16]>())
}
