//! What is written where, said to each writer in its words.

use std::path::PathBuf;
use std::time::Duration;

use crate::Outcome;

/// What a writer's process is told.
pub(crate) struct Target {
    pub(crate) rest: String,
    pub(crate) grpc: String,
    pub(crate) storage: String,
    /// `project.dataset.table`
    pub(crate) table: String,
    pub(crate) rows: usize,
    /// The batches that are repeated, as an Arrow stream.
    pub(crate) batches: PathBuf,
}

impl Target {
    pub(crate) fn arguments(&self) -> Vec<String> {
        vec![
            self.rest.clone(),
            self.grpc.clone(),
            self.storage.clone(),
            self.table.clone(),
            self.rows.to_string(),
            self.batches.display().to_string(),
        ]
    }

    pub(crate) fn from_arguments(arguments: &[String]) -> Outcome<Self> {
        let [rest, grpc, storage, table, rows, batches] = arguments else {
            return Err(format!("a target is not {arguments:?}").into());
        };
        Ok(Self {
            rest: rest.clone(),
            grpc: grpc.clone(),
            storage: storage.clone(),
            table: table.clone(),
            rows: rows.parse()?,
            batches: batches.into(),
        })
    }

    /// Project, dataset and table.
    pub(crate) fn parts(&self) -> Outcome<[&str; 3]> {
        let parts: Vec<&str> = self.table.split('.').collect();
        parts
            .try_into()
            .map_err(|_| format!("not a table: {}", self.table).into())
    }
}

/// Says what was written to the process that waits for it.
#[allow(clippy::print_stdout, reason = "the parent process reads it there")]
pub(crate) fn say(rows: usize, bytes: usize, took: Duration) {
    println!(
        r#"{{"rows": {rows}, "bytes": {bytes}, "seconds": {}}}"#,
        took.as_secs_f64()
    );
}
