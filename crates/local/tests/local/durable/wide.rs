//! A client that makes the journal long, so that images are written.

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::server::Calls;

/// Bytes of one change at least: each puts the whole schema into the journal.
pub(super) const CHANGE_BYTES: usize = COLUMNS * DESCRIPTION_BYTES;
const COLUMNS: usize = 500;
const DESCRIPTION_BYTES: usize = 1_000;
/// What it tells of each change.
pub(super) const PATCHED: &str = "tables.patch";

/// A table with long metadata whose label is a counter.
#[derive(Debug, Default)]
pub(super) struct Wide {
    acknowledged: u64,
    open: Option<u64>,
}

impl Wide {
    /// Makes the table.
    pub(super) async fn prepare(&self, calls: &Calls) {
        let fields: Vec<Value> = (0..COLUMNS)
            .map(|i| {
                json!({"name": format!("c{i}"), "type": "INTEGER",
                    "description": "d".repeat(DESCRIPTION_BYTES)})
            })
            .collect();
        let table = json!({"tableReference": {"tableId": "wide"}, "labels": {"n": "0"},
            "schema": {"fields": fields}});
        let made = calls.change(calls.post("datasets/d/tables", &table)).await;
        assert!(made.is_some());
    }

    /// Counts until the server is killed.
    pub(super) async fn run(mut self, calls: Calls, told: UnboundedSender<&'static str>) -> Self {
        loop {
            let next = self.acknowledged + 1;
            self.open = Some(next);
            let body = json!({"labels": {"n": next.to_string()}});
            let patch = calls.patch("datasets/d/tables/wide", &body);
            if calls.change(patch).await.is_none() {
                return self;
            }
            self.open = None;
            self.acknowledged = next;
            // Nobody listens any more once the server is to be killed.
            let _ = told.send(PATCHED);
        }
    }

    /// The counter is where it was left, and the table is whole.
    pub(super) async fn check(&mut self, calls: &Calls, context: &str) {
        let table = calls.get("datasets/d/tables/wide").await;
        let table = table.expect("the table is there");
        let fields = table["schema"]["fields"].as_array().map(Vec::len);
        assert_eq!(fields, Some(COLUMNS), "{context}");
        let found = table["labels"]["n"].as_str().unwrap().parse().unwrap();
        let open = self.open.take();
        assert!(
            found == self.acknowledged || Some(found) == open,
            "{context}: found {found}, acknowledged {}, not acknowledged {open:?}",
            self.acknowledged
        );
        self.acknowledged = found;
    }
}
