//! Changes by key in a store: what is seen now and then, in memory and in a directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Changes, Sequence};
use crate::schema::{Field, FieldType, TableSchema, arrow_schema};
use crate::store::{
    Dataset, DatasetRef, Mutation, Segment, Snapshot, Store, StoreOptions, Table, TableKind,
    TableMeta, TableRef, micros_now,
};

fn schema() -> TableSchema {
    TableSchema::new(vec![
        Field::new("k", FieldType::Int64),
        Field::new("s", FieldType::String),
    ])
}

fn table() -> TableRef {
    TableRef::new("p", "d", "t")
}

fn create(store: &Store) {
    let schema = Arc::new(schema());
    let mut meta = TableMeta::new(&Dataset::new("US", 0), TableKind::Table, schema, 0);
    meta.primary_key = vec!["K".to_string()];
    let mutations = vec![
        Mutation::PutDataset(DatasetRef::new("p", "d"), Dataset::new("US", 0)),
        Mutation::PutTable(table(), Box::new(meta)),
    ];
    store.commit(|_| Ok((mutations, ()))).unwrap();
}

/// A key, the text of its row unless it is deleted, and the change's number.
type Change = (i64, Option<String>, u64);

fn columns(changes: &[Change]) -> Vec<ArrayRef> {
    let keys: Int64Array = changes.iter().map(|(key, ..)| Some(*key)).collect();
    let texts: StringArray = changes.iter().map(|(_, text, _)| text.as_deref()).collect();
    vec![Arc::new(keys), Arc::new(texts)]
}

fn apply(store: &Store, at: i64, changes: &[Change]) {
    let changes = Changes {
        schema: arrow_schema(&schema()),
        columns: columns(changes),
        deleted: changes.iter().map(|(_, text, _)| text.is_none()).collect(),
        sequences: changes
            .iter()
            .map(|(.., number)| match number {
                0 => Sequence::default(),
                number => number.to_be_bytes().into(),
            })
            .collect(),
    };
    store
        .commit(|state| {
            let table = state.require_table(&table())?;
            let changed = table.changes(&changes, None, at)?;
            Ok((changed.into_iter().collect(), ()))
        })
        .unwrap();
}

fn found(store: &Store) -> Arc<Table> {
    store.table(&table()).unwrap()
}

fn rows(snapshot: &Snapshot) -> BTreeMap<i64, String> {
    let mut out = BTreeMap::new();
    for batch in snapshot.batches().unwrap() {
        let keys = batch.column(0).as_primitive::<Int64Type>();
        let texts = batch.column(1).as_string::<i32>();
        for (key, text) in keys.values().iter().zip(texts) {
            let before = out.insert(*key, text.unwrap().to_string());
            assert_eq!(before, None, "key {key} has two rows");
        }
    }
    assert_eq!(out.len(), snapshot.rows());
    out
}

fn change(key: i64, text: &str, number: u64) -> Change {
    (key, Some(text.to_string()), number)
}

#[test]
fn deletions_are_forgotten_after_two_days() {
    let store = Store::in_memory(StoreOptions::default());
    create(&store);
    let day = 24 * 3600 * 1_000_000;
    apply(&store, 0, &[(1, None, 5), (2, None, 5), change(3, "c", 5)]);
    apply(
        &store,
        2 * day,
        &[change(1, "late", 4), change(3, "late", 4)],
    );
    assert_eq!(
        rows(&found(&store).snapshot()),
        BTreeMap::from([(3, "c".to_string())])
    );
    apply(
        &store,
        2 * day + 1,
        &[change(2, "late", 4), change(3, "late", 4)],
    );
    let expected = [(2, "late".to_string()), (3, "c".to_string())];
    assert_eq!(rows(&found(&store).snapshot()), BTreeMap::from(expected));
}

/// Small changes, plain rows, segments that are put together, a log that is written
/// anew: the present and every past are what they were, whichever way the index came to
/// know of it.
fn histories_keep_every_version(directory: Option<&Path>) {
    let seed = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    let open = || match directory {
        Some(directory) => Store::open(directory, StoreOptions::default()).unwrap(),
        None => Store::in_memory(StoreOptions::default()),
    };
    let mut store = open();
    create(&store);
    let mut model: BTreeMap<i64, (u64, Option<String>)> = BTreeMap::new();
    let mut past: Vec<(i64, BTreeMap<i64, String>)> = Vec::new();
    let mut numbered = 0;
    for round in 0..200u64 {
        let large = round % 25 == 20;
        let keys = if large { 4_000 } else { 30 };
        let mut changes = Vec::new();
        for i in 0..if large {
            8_000
        } else {
            random.random_range(1..6)
        } {
            let key = random.random_range(0..keys);
            let number = random.random_range(1..100 + round * 20);
            let text = random.random_ratio(2, 3).then(|| format!("{round}.{i}"));
            let newest = model.entry(key).or_default();
            if number >= newest.0 {
                *newest = (number, text.clone());
            }
            changes.push((key, text, number));
        }
        numbered += changes.len();
        apply(&store, micros_now(), &changes);
        if random.random_ratio(1, 10) {
            // Keys of their own, so that no key has two rows.
            let key = 1_000_000 + i64::try_from(round).unwrap();
            let plain = columns(&[change(key, "plain", 0)]);
            let batch = arrow::array::RecordBatch::try_new(arrow_schema(&schema()), plain).unwrap();
            let segment = Segment::in_memory(vec![batch], None);
            let append = vec![Mutation::Append(table(), vec![segment])];
            store.commit(|_| Ok((append, ()))).unwrap();
            model.insert(key, (0, Some("plain".to_string())));
        }
        match random.random_range(0..30) {
            0 | 1 => store.compact().unwrap(),
            2 => store.write_image().unwrap(),
            3 if directory.is_some() => {
                drop(store);
                store = open();
            }
            _ => {}
        }
        let expected = model.iter();
        let expected = expected.filter_map(|(key, (_, text))| Some((*key, text.clone()?)));
        let expected: BTreeMap<i64, String> = expected.collect();
        let snapshot = found(&store).snapshot();
        assert_eq!(rows(&snapshot), expected, "seed {seed}, round {round}");
        past.push((snapshot.time, expected));
    }
    store.compact().unwrap();
    for (time, expected) in past.iter().step_by(7) {
        let then = found(&store).snapshot_at(*time).unwrap();
        assert_eq!(rows(&then), *expected, "seed {seed}, at {time}");
    }
    let logged: usize = found(&store).logged();
    assert!(
        logged < numbered / 2,
        "{logged} of {numbered} entries are kept"
    );
}

#[test]
fn histories_keep_every_version_in_memory() {
    histories_keep_every_version(None);
}

#[test]
fn histories_keep_every_version_in_a_directory() {
    let directory = tempfile::TempDir::new().unwrap();
    histories_keep_every_version(Some(directory.path()));
}
