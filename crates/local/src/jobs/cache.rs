//! Results that a repeated query gets without running again.
//!
//! A result is reused when the text, its parameters and its surroundings are the
//! same, the text calls nothing that differs from run to run, and every table and
//! view that its names may mean is the very version it was (section 6.3 of the
//! service reference).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::names::{dotted_names, tables_named};
use crate::engine::QueryRequest;
use crate::schema::TableSchema;
use crate::store::{State, Store, TableKind, TableRef};

/// Results beyond this number push out the oldest.
const MAX_RESULTS: usize = 1_000;

/// Names whose value differs from run to run or that look at metadata.
const VOLATILE: [&str; 14] = [
    "CURRENT_DATE",
    "CURRENT_DATETIME",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "EXTERNAL_QUERY",
    "GENERATE_UUID",
    "INFORMATION_SCHEMA",
    "RAND",
    "SESSION_USER",
    "SYSTEM_TIME",
    "TABLESAMPLE",
    "__TABLES__",
    "_TABLE_SUFFIX",
    "ERROR",
];

/// What makes two runs of a query the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey {
    project: String,
    location: String,
    default_dataset: Option<String>,
    sql: String,
    parameters: String,
}

/// Versions of the tables and views that a query's names may mean.
pub type Fingerprint = Vec<(TableRef, u64, i64, String)>;

/// A result that may be given again.
#[derive(Debug, Clone)]
pub struct CachedResult {
    /// Where the rows are.
    pub table: TableRef,
    /// Columns.
    pub schema: Arc<TableSchema>,
    /// Tables that the first run read.
    pub referenced: Vec<TableRef>,
}

#[derive(Debug)]
struct Entry {
    fingerprint: Fingerprint,
    result: CachedResult,
    serial: u64,
}

/// The results by key.
#[derive(Debug, Default)]
pub struct QueryCache {
    entries: Mutex<(u64, HashMap<CacheKey, Entry>)>,
}

/// The key and the versions of a query, `None` when its result must not be reused.
///
/// `is_routine` tells the names of functions that are kept in datasets: their
/// definitions may change or differ from run to run themselves.
pub fn identify(
    store: &Store,
    request: &QueryRequest,
    is_routine: &dyn Fn(&str) -> bool,
) -> Option<(CacheKey, Fingerprint)> {
    let names = dotted_names(&request.sql);
    let volatile = |names: &[Vec<String>]| {
        names.iter().flatten().any(|part| {
            part.contains('*')
                || VOLATILE.iter().any(|v| part.eq_ignore_ascii_case(v))
                || is_routine(part)
        })
    };
    if volatile(&names) || request.sql.contains("@@") {
        return None;
    }
    let key = CacheKey {
        project: request.project.clone(),
        location: request.location.clone(),
        default_dataset: request.default_dataset.as_ref().map(ToString::to_string),
        sql: request.sql.clone(),
        parameters: format!("{:?}", request.parameters),
    };
    let fingerprint = store.read(|state| fingerprint(state, request, &names, &volatile))?;
    Some((key, fingerprint))
}

fn fingerprint(
    state: &State,
    request: &QueryRequest,
    names: &[Vec<String>],
    volatile: &dyn Fn(&[Vec<String>]) -> bool,
) -> Option<Fingerprint> {
    let tables = tables_named(
        state,
        &request.project,
        request.default_dataset.as_ref(),
        names,
    );
    let mut out: Fingerprint = Vec::with_capacity(tables.len());
    for table in tables {
        let meta = table.meta();
        if let TableKind::View(view) | TableKind::MaterializedView(view) = &meta.kind
            && volatile(&dotted_names(&view.query))
        {
            return None;
        }
        out.push((
            table.reference().clone(),
            table.incarnation(),
            table.changed(),
            meta.etag.clone(),
        ));
    }
    out.sort();
    Some(out)
}

impl QueryCache {
    /// The result of an earlier run, if it is still good.
    pub fn find(
        &self,
        store: &Store,
        key: &CacheKey,
        fingerprint: &Fingerprint,
    ) -> Option<CachedResult> {
        let result = {
            let entries = self.entries.lock();
            let entry = entries.1.get(key)?;
            (entry.fingerprint == *fingerprint).then(|| entry.result.clone())?
        };
        store.table(&result.table).ok().map(|_| result)
    }

    /// Keeps the result of a run that began when its tables were of `fingerprint`.
    pub fn keep(&self, key: CacheKey, fingerprint: Fingerprint, result: CachedResult) {
        let mut entries = self.entries.lock();
        entries.0 += 1;
        let serial = entries.0;
        entries.1.insert(
            key,
            Entry {
                fingerprint,
                result,
                serial,
            },
        );
        if entries.1.len() > MAX_RESULTS {
            let oldest = entries
                .1
                .iter()
                .min_by_key(|(_, entry)| entry.serial)
                .map(|(key, _)| key.clone());
            if let Some(key) = oldest {
                entries.1.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, FieldType};
    use crate::store::{Mutation, StoreOptions, TableMeta, View};

    fn none(_: &str) -> bool {
        false
    }

    fn request(sql: &str) -> QueryRequest {
        QueryRequest {
            project: "p".into(),
            default_dataset: None,
            sql: sql.into(),
            parameters: Vec::new(),
            dry_run: false,
            location: "US".into(),
            cancel: tokio_util::sync::CancellationToken::new(),
            applying: None,
        }
    }

    fn put(store: &Store, name: &str, columns: &[&str], view: Option<&str>) {
        let fields = columns.iter().map(|c| Field::new(*c, FieldType::Int64));
        let schema = Arc::new(TableSchema::new(fields.collect()));
        let home = crate::store::Dataset::new("US", 0);
        let mut meta = TableMeta::new(&home, TableKind::Table, schema, 0);
        if let Some(query) = view {
            meta.kind = TableKind::View(View {
                query: query.into(),
            });
        }
        let reference = TableRef::new("p", "d", name);
        store
            .commit(|_| Ok((vec![Mutation::PutTable(reference, Box::new(meta))], ())))
            .unwrap();
    }

    #[test]
    fn a_result_is_reused_until_a_table_or_a_view_behind_it_changes() {
        let store = Store::in_memory(StoreOptions::default());
        put(&store, "t", &["a"], None);
        put(&store, "inner", &["a"], Some("SELECT a FROM d.t"));
        put(&store, "outer", &["a"], Some("SELECT a FROM d.inner"));
        put(&store, "result", &["a"], None);
        let cache = QueryCache::default();
        let query = request("SELECT * FROM d.outer");
        let result = CachedResult {
            table: TableRef::new("p", "d", "result"),
            schema: Arc::new(TableSchema::default()),
            referenced: Vec::new(),
        };
        let remember = || {
            let (key, fingerprint) = identify(&store, &query, &none).unwrap();
            cache.keep(key, fingerprint, result.clone());
        };
        let hit = || {
            let (key, fingerprint) = identify(&store, &query, &none).unwrap();
            cache.find(&store, &key, &fingerprint).is_some()
        };
        assert!(!hit());
        remember();
        assert!(hit());
        put(&store, "t", &["a", "b"], None);
        assert!(!hit(), "the table changed");
        remember();
        put(&store, "inner", &["a"], Some("SELECT b FROM d.t"));
        assert!(!hit(), "the inner view changed");
        remember();
        assert!(hit());
        store
            .commit(|_| Ok((vec![Mutation::DropTable(result.table.clone())], ())))
            .unwrap();
        assert!(!hit(), "the result is gone");
    }

    #[test]
    fn texts_that_differ_from_run_to_run_have_no_key() {
        let store = Store::in_memory(StoreOptions::default());
        put(&store, "now", &["a"], Some("SELECT current_date() a"));
        for sql in [
            "SELECT rand()",
            "SELECT CURRENT_TIMESTAMP",
            "SELECT * FROM d.INFORMATION_SCHEMA.TABLES",
            "SELECT * FROM `d.t_*`",
            "SELECT @@time_zone",
            "SELECT * FROM d.t FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01'",
            "SELECT * FROM d.now",
        ] {
            assert!(identify(&store, &request(sql), &none).is_none(), "{sql}");
        }
        assert!(identify(&store, &request("SELECT 'rand()' -- rand()"), &none).is_some());
    }

    #[test]
    fn functions_of_datasets_may_change() {
        let store = Store::in_memory(StoreOptions::default());
        put(&store, "v", &["a"], Some("SELECT d.f(1) a"));
        let is_routine = |name: &str| name == "f";
        for sql in ["SELECT d.f(1)", "SELECT * FROM d.v"] {
            assert!(identify(&store, &request(sql), &none).is_some(), "{sql}");
            assert!(
                identify(&store, &request(sql), &is_routine).is_none(),
                "{sql}"
            );
        }
    }

    #[test]
    fn surroundings_are_part_of_the_key() {
        let store = Store::in_memory(StoreOptions::default());
        let key = |r: &QueryRequest| identify(&store, r, &none).unwrap().0;
        let plain = request("SELECT 1");
        let mut other = plain.clone();
        other.project = "q".into();
        assert_ne!(key(&plain), key(&other));
        let mut located = plain.clone();
        located.location = "EU".into();
        assert_ne!(key(&plain), key(&located));
        assert_eq!(key(&plain), key(&plain.clone()));
    }
}
