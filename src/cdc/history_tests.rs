//! Histories of changes that say no places: divided by key among writers, sent over
//! connections that break and requests that are refused in part, they end in the table
//! that applying them one after the other gives.
//!
//! How rows become changes and how they are divided is the library's and DataFusion's own
//! code. The connection is a model of what a writer is promised: requests are applied in
//! order until it breaks, and what was not answered is sent again, in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::Partitioning;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::rows::ChangeRowsPlan;
use super::{CHANGE_TYPE, key};
use crate::types::{Field, FieldType, Mode, TableSchema};

const HISTORIES: usize = 10_000;

/// A change of a key, as its name; None deletes.
type Change = (i64, Option<String>);

fn history(random: &mut StdRng) -> Vec<Change> {
    let keys = random.random_range(1..8);
    (0..random.random_range(1..60))
        .map(|n| {
            let name = random.random_ratio(3, 4).then(|| format!("{n}"));
            (random.random_range(0..keys), name)
        })
        .collect()
}

fn apply(table: &mut BTreeMap<i64, String>, change: &Change) {
    match &change.1 {
        Some(name) => table.insert(change.0, name.clone()),
        None => table.remove(&change.0),
    };
}

fn batch(changes: &[Change]) -> RecordBatch {
    let types = changes.iter().map(|(_, name)| match name {
        Some(_) => None,
        None => Some("DELETE"),
    });
    let ids: Int64Array = changes.iter().map(|(id, _)| Some(*id)).collect();
    // A deletion's other columns are as they come.
    let names = changes
        .iter()
        .map(|(_, name)| name.as_deref().or(Some("old")));
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids) as ArrayRef, true),
        ("name", Arc::new(names.collect::<StringArray>()), true),
        (
            "_change_type",
            Arc::new(types.collect::<StringArray>()),
            true,
        ),
    ])
    .unwrap()
}

/// The changes that a batch is encoded as.
fn changes(plan: &ChangeRowsPlan, batch: &RecordBatch) -> Vec<Change> {
    let prepared = plan.prepare(batch).unwrap();
    assert!(prepared.refused.is_empty(), "{:?}", prepared.refused);
    let column = |name| prepared.batch.column_by_name(name).unwrap();
    let ids = column("id").as_primitive::<Int64Type>().values().iter();
    let names = column("name").as_string::<i32>().iter();
    let types = column(CHANGE_TYPE).as_string::<i32>().iter();
    ids.zip(names)
        .zip(types)
        .map(|((id, name), kind)| match kind {
            Some("UPSERT") => (*id, Some(name.unwrap().to_string())),
            Some("DELETE") => {
                assert_eq!(name, None, "a deletion is its key only");
                (*id, None)
            }
            other => panic!("{other:?} is no change type"),
        })
        .collect()
}

/// One writer's connection.
struct Connection {
    unsent: VecDeque<Vec<Change>>,
    /// Sent, and not answered.
    sent: VecDeque<Vec<Change>>,
    /// How many of `sent` were applied.
    applied: usize,
}

impl Connection {
    fn is_done(&self) -> bool {
        self.unsent.is_empty() && self.sent.is_empty()
    }

    /// Something happens to it.
    fn step(&mut self, random: &mut StdRng, table: &mut BTreeMap<i64, String>) {
        match random.random_range(0..10) {
            0..=3 => self.sent.extend(self.unsent.pop_front()),
            4..=6 => {
                if let Some(request) = self.sent.get(self.applied) {
                    request.iter().for_each(|change| apply(table, change));
                    self.applied += 1;
                }
            }
            7..=8 => {
                if self.applied > 0 {
                    self.sent.pop_front();
                    self.applied -= 1;
                }
            }
            // It breaks, or a request is refused and taken apart: what was not answered
            // goes again, before what has not been sent.
            _ => {
                let mut again = std::mem::take(&mut self.sent);
                self.applied = 0;
                if let Some(first) = again.pop_front() {
                    let (one, other) = first.split_at(random.random_range(0..=first.len()));
                    for part in [other, one] {
                        if !part.is_empty() {
                            again.push_front(part.to_vec());
                        }
                    }
                }
                again.append(&mut self.unsent);
                self.unsent = again;
            }
        }
    }
}

#[test]
fn without_places_the_order_of_each_key_decides() {
    let columns = TableSchema {
        fields: vec![
            Field::new("id", FieldType::Int64, Mode::Required),
            Field::new("name", FieldType::String, Mode::Required),
        ],
    };
    let table = "p.d.t".parse().unwrap();
    let key = key::agreed(&table, &columns, &["id".to_string()], &[]).unwrap();
    let schema = batch(&[]).schema();
    let plan = ChangeRowsPlan::new(&table, &columns, &key, &schema).unwrap();
    let by_key: Vec<_> = plan
        .key
        .iter()
        .map(|name| col(name, &schema).unwrap())
        .collect();
    assert_eq!(by_key.len(), 1, "changes can be divided by their key");

    let seed = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    for number in 0..HISTORIES {
        let history = history(&mut random);
        let mut expected = BTreeMap::new();
        history
            .iter()
            .for_each(|change| apply(&mut expected, change));

        let writers = random.random_range(1..5);
        let hash = Partitioning::Hash(by_key.clone(), writers);
        let mut divided = BatchPartitioner::try_new(hash, Time::default(), 0, 1).unwrap();
        let mut connections: Vec<Connection> = (0..writers)
            .map(|_| Connection {
                unsent: VecDeque::new(),
                sent: VecDeque::new(),
                applied: 0,
            })
            .collect();
        for part in history.chunks(random.random_range(1..20)) {
            divided
                .partition(batch(part), |writer, rows| {
                    let changes = changes(&plan, &rows);
                    let requests = changes.chunks(random.random_range(1..6));
                    let unsent = &mut connections[writer].unsent;
                    unsent.extend(requests.map(<[Change]>::to_vec));
                    Ok(())
                })
                .unwrap();
        }
        let mut found = BTreeMap::new();
        while connections.iter().any(|connection| !connection.is_done()) {
            let at = random.random_range(0..writers);
            connections[at].step(&mut random, &mut found);
        }
        assert_eq!(found, expected, "seed {seed}, history {number}");
    }
}
