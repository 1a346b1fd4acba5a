//! What is read: the columns and rows of a table, said to each reader in its words.

use std::time::Duration;

use crate::Outcome;
use crate::process::high_water_of;

/// Streams that every reader asks for.
pub(crate) const STREAMS: i32 = 2;

/// Passes over the table in one reader's process; the fastest counts.
const PASSES: usize = 3;

/// The same of a small share of the rows, where a pass takes milliseconds: a process comes to
/// its own speed only when it has asked for and given back memory a few times.
const SHORT_PASSES: usize = 10;

/// A selection of lineitem's columns and rows.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    rows: Rows,
}

enum Rows {
    All,
    /// One in a hundred orders, all of which follow each other: lineitem lies in the order
    /// of their keys.
    Adjacent,
    /// The rows of one in a hundred parts, which lie all over the table.
    Scattered,
}

pub(crate) const SHAPES: [Shape; 4] = [
    Shape {
        name: "whole",
        columns: &[],
        rows: Rows::All,
    },
    Shape {
        name: "3 of 16 columns",
        columns: &["l_orderkey", "l_extendedprice", "l_shipdate"],
        rows: Rows::All,
    },
    Shape {
        name: "1 % of the rows",
        columns: &[],
        rows: Rows::Adjacent,
    },
    Shape {
        name: "1 %, scattered",
        columns: &[],
        rows: Rows::Scattered,
    },
];

impl Shape {
    pub(crate) fn passes(&self) -> usize {
        match self.rows {
            Rows::All => PASSES,
            Rows::Adjacent | Rows::Scattered => SHORT_PASSES,
        }
    }

    /// The rows as a predicate that SQL and a row restriction both understand.
    pub(crate) fn predicate(&self, scale: f64) -> Option<String> {
        // Keys of orders go up to 6,000,000, those of parts to 200,000, at scale 1.
        let scaled = |key: f64| (key * scale) as u64;
        match self.rows {
            Rows::All => None,
            Rows::Adjacent => Some(format!(
                "l_orderkey BETWEEN {} AND {}",
                scaled(2_970_000.0) + 1,
                scaled(3_030_000.0)
            )),
            Rows::Scattered => Some(format!("l_partkey <= {}", scaled(2_000.0))),
        }
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
    pub(crate) passes: usize,
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
            self.passes.to_string(),
        ]
    }

    pub(crate) fn from_arguments(arguments: &[String]) -> Outcome<Self> {
        let [rest, grpc, table, columns, predicate, _, passes] = arguments else {
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
            passes: passes.parse()?,
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
    /// To plan what to read, where a reader does that: parsing SQL, asking what columns the
    /// table has, optimizing. The others are told columns and restriction as the service
    /// takes them.
    pub(crate) planned: Duration,
    /// From the request for a session to the last batch.
    pub(crate) read: Duration,
}

/// Says the fastest of `passes`, by itself and with what it took to plan it, to the process
/// that waits for it.
#[allow(clippy::print_stdout, reason = "the parent process reads it there")]
pub(crate) fn say(passes: &[Pass]) {
    let fastest = |took: fn(&Pass) -> Duration| {
        let fastest = passes.iter().min_by_key(|pass| took(pass));
        *fastest.expect("a reader makes at least one pass")
    };
    let read = fastest(|pass| pass.read);
    let whole = fastest(|pass| pass.planned + pass.read);
    println!(
        r#"{{"rows": {}, "bytes": {}, "seconds": {}, "with_planning": {}, "peak_kib": {}}}"#,
        read.rows,
        read.bytes,
        read.read.as_secs_f64(),
        (whole.planned + whole.read).as_secs_f64(),
        high_water_of("self").map_or_else(|| "null".to_owned(), |kib| kib.to_string())
    );
}
