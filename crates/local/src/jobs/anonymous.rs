//! Tables for results that have no named destination.
//!
//! They live for a day in a dataset whose name starts with `_`. That dataset is
//! in no list: only its tables exist (section 6.3 of the service reference).

use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::schema::TableSchema;
use crate::store::{Dataset, DatasetRef, TableKind, TableMeta, TableRef};

/// How long a result lives, in milliseconds.
pub const LIFETIME: i64 = 24 * 3_600_000;

/// The project's dataset of anonymous results in `location`.
pub fn dataset(project: &str, location: &str) -> DatasetRef {
    let mut hash = Sha256::new();
    hash.update(project.as_bytes());
    hash.update([0]);
    hash.update(location.as_bytes());
    let name: String = hash.finalize()[..20]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    DatasetRef::new(project, format!("_{name}"))
}

/// A name for a new result.
pub fn new_table(project: &str, location: &str) -> TableRef {
    dataset(project, location).table(format!("anon{}", Uuid::new_v4().simple()))
}

/// The metadata of a result.
pub fn meta(schema: Arc<TableSchema>, location: &str, now: i64) -> TableMeta {
    let home = Dataset::new(location, now);
    TableMeta {
        expiration_time: Some(now + LIFETIME),
        ..TableMeta::new(&home, TableKind::Table, schema, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_share_a_hidden_dataset() {
        let (a, b) = (new_table("p", "US"), new_table("p", "US"));
        assert_ne!(a, b);
        assert_eq!(a.dataset, b.dataset);
        assert!(a.dataset.starts_with('_'));
        assert_ne!(a.dataset, new_table("p", "EU").dataset);
        assert_ne!(a.dataset, new_table("q", "US").dataset);
    }
}
