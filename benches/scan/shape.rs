//! What is read: the columns and rows of a table, said to each reader in its words.

use std::time::Duration;

use crate::Outcome;

/// Streams that every reader asks for.
pub(crate) const STREAMS: i32 = 2;

/// Passes over the table in one reader's process; the fastest counts.
pub(crate) const PASSES: usize = 3;

/// A selection of lineitem's columns and rows.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    /// Keeps the rows with `l_partkey` up to this share of all parts.
    pub(crate) one_part_in: Option<u32>,
}

pub(crate) const SHAPES: [Shape; 3] = [
    Shape {
        name: "whole",
        columns: &[],
        one_part_in: None,
    },
    Shape {
        name: "3 of 16 columns",
        columns: &["l_orderkey", "l_extendedprice", "l_shipdate"],
        one_part_in: None,
    },
    Shape {
        name: "1 % of the rows",
        columns: &[],
        one_part_in: Some(100),
    },
];

impl Shape {
    /// The rows as a predicate that SQL and a row restriction both understand.
    pub(crate) fn predicate(&self, scale: f64) -> Option<String> {
        let parts = 200_000.0 * scale;
        self.one_part_in
            .map(|share| format!("l_partkey <= {}", (parts / f64::from(share)) as u64))
    }
}

/// What a reader's process is told.
pub(crate) struct Reading {
    pub(crate) rest: String,
    pub(crate) grpc: String,
    /// `project.dataset.table`
    pub(crate) table: String,
    pub(crate) columns: Vec<String>,
    pub(crate) predicate: String,
}

impl Reading {
    pub(crate) fn arguments(&self) -> Vec<String> {
        vec![
            self.rest.clone(),
            self.grpc.clone(),
            self.table.clone(),
            self.columns.join(","),
            self.predicate.clone(),
            STREAMS.to_string(),
            PASSES.to_string(),
        ]
    }

    pub(crate) fn from_arguments(arguments: &[String]) -> Outcome<Self> {
        let [rest, grpc, table, columns, predicate, ..] = arguments else {
            return Err(format!("a reading is not {arguments:?}").into());
        };
        Ok(Self {
            rest: rest.clone(),
            grpc: grpc.clone(),
            table: table.clone(),
            columns: columns
                .split(',')
                .filter(|c| !c.is_empty())
                .map(str::to_owned)
                .collect(),
            predicate: predicate.clone(),
        })
    }

    /// The table's resource name.
    pub(crate) fn resource(&self) -> Outcome<String> {
        let mut parts = self.table.split('.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(project), Some(dataset), Some(table)) => Ok(format!(
                "projects/{project}/datasets/{dataset}/tables/{table}"
            )),
            _ => Err(format!("not a table: {}", self.table).into()),
        }
    }
}

/// One pass over the table.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) rows: i64,
    /// Bytes of all record batches, where the reader sees them.
    pub(crate) bytes: usize,
    pub(crate) took: Duration,
}

/// Says the fastest of `passes` to the process that waits for it.
#[allow(clippy::print_stdout, reason = "the parent process reads it there")]
pub(crate) fn say(passes: &[Pass]) {
    let fastest = passes
        .iter()
        .min_by_key(|pass| pass.took)
        .expect("a reader makes at least one pass");
    println!(
        r#"{{"rows": {}, "bytes": {}, "seconds": {}}}"#,
        fastest.rows,
        fastest.bytes,
        fastest.took.as_secs_f64()
    );
}
