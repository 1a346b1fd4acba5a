//! A server with one table, and what it was asked for.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};

use crate::harness::{Server, rows};

/// A table `bq.d.t` with an `id` and further columns.
pub(super) struct Table {
    pub(super) server: Server,
    pub(super) context: SessionContext,
}

impl Table {
    /// A table whose rows get ids from 0.
    pub(super) async fn new(fields: Value, values: Vec<Value>) -> Self {
        let server = Server::start(1 << 20).await;
        server.create_dataset("d").await;
        let mut all = vec![json!({"name": "id", "type": "INTEGER", "mode": "REQUIRED"})];
        all.extend(fields.as_array().unwrap().iter().cloned());
        let values = values.into_iter().enumerate().map(|(id, mut row)| {
            row["id"] = json!(id);
            row
        });
        server
            .create_table("d", "t", json!(all), values.collect())
            .await;
        let context = server.session(2);
        Self { server, context }
    }

    /// A table with one column `x` of a type.
    pub(super) async fn of(kind: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| json!({"x": value})).collect();
        Self::new(json!([{"name": "x", "type": kind}]), values).await
    }

    /// The ids of the rows that pass, after checking that the engine alone says
    /// the same.
    pub(super) async fn ids(&self, predicate: &str) -> Vec<i64> {
        let query = format!("SELECT id FROM bq.d.t WHERE {predicate}");
        let found = ids(&rows(&self.context, &query).await);
        let alone = self
            .server
            .session_saying([("scan.pushdown_filters", "false")]);
        assert_eq!(found, ids(&rows(&alone, &query).await), "{predicate}");
        found
    }

    /// What the server was asked to restrict rows to, for a predicate.
    pub(super) async fn asked(&self, predicate: &str) -> String {
        let query = format!("SELECT id FROM bq.d.t WHERE {predicate}");
        rows(&self.context, &query).await;
        self.server.sessions().pop().unwrap().row_restriction
    }
}

pub(super) fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let column = |batch: &RecordBatch| {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        ids.values().to_vec()
    };
    let mut ids: Vec<_> = batches.iter().flat_map(column).collect();
    ids.sort_unstable();
    ids
}
