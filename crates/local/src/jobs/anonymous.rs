//! Tables for results that have no named destination.
//!
//! They live for a day in a dataset whose name starts with `_`. That dataset is
//! in no list: only its tables exist (section 6.3 of the service reference).

use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::registry::JobRegistry;
use crate::error::Result;
use crate::schema::TableSchema;
use crate::store::{DatasetRef, Mutation, Store, TableMeta, TableRef, millis_now};

/// How long a result lives, in milliseconds.
pub const LIFETIME: i64 = 24 * 3_600_000;

/// How often expired results are looked for, in milliseconds.
const SWEEP_INTERVAL: i64 = 60_000;

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
    TableMeta {
        expiration_time: Some(now + LIFETIME),
        ..TableMeta::new(schema, location, now)
    }
}

/// Drops results whose day is over. Called often, works once a minute.
#[derive(Debug, Default)]
pub struct Sweeper {
    last: Mutex<i64>,
}

impl Sweeper {
    /// Drops what has expired, if it is time to look again.
    pub fn sweep(&self, store: &Store, jobs: &JobRegistry) -> Result<()> {
        let now = millis_now();
        {
            let mut last = self.last.lock();
            if now - *last < SWEEP_INTERVAL {
                return Ok(());
            }
            *last = now;
        }
        jobs.forget_results_before(now - LIFETIME);
        drop_expired(store, now)
    }
}

fn drop_expired(store: &Store, now: i64) -> Result<()> {
    let any = store.read(|state| !state.expired_anonymous(now).is_empty());
    if !any {
        return Ok(());
    }
    store.commit(|state| {
        let gone = state
            .expired_anonymous(now)
            .into_iter()
            .map(Mutation::DropTable)
            .collect();
        Ok((gone, ()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreOptions;

    #[test]
    fn results_share_a_hidden_dataset() {
        let (a, b) = (new_table("p", "US"), new_table("p", "US"));
        assert_ne!(a, b);
        assert_eq!(a.dataset, b.dataset);
        assert!(a.dataset.starts_with('_'));
        assert_ne!(a.dataset, new_table("p", "EU").dataset);
        assert_ne!(a.dataset, new_table("q", "US").dataset);
    }

    #[test]
    fn results_expire_and_other_tables_stay() {
        let store = Store::in_memory(StoreOptions::default());
        let old = new_table("p", "US");
        let new = new_table("p", "US");
        let named = TableRef::new("p", "d", "t");
        let schema = Arc::new(TableSchema::default());
        store
            .commit(|_| {
                let put = |reference: &TableRef, now| {
                    let meta = meta(Arc::clone(&schema), "US", now);
                    Mutation::PutTable(reference.clone(), Box::new(meta))
                };
                Ok((vec![put(&old, 0), put(&new, 5), put(&named, 0)], ()))
            })
            .unwrap();
        drop_expired(&store, LIFETIME + 1).unwrap();
        assert!(store.table(&old).is_err());
        assert!(store.table(&new).is_ok());
        assert!(store.table(&named).is_ok());
    }
}
