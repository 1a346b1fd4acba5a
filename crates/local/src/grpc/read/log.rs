//! What sessions were asked for, for tests and for users who want to see what
//! their engine pushed down.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::store::TableRef;

/// How many records are kept; older ones are dropped.
const KEPT: usize = 10_000;

/// One successful CreateReadSession.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Session name.
    pub session: String,
    /// Table read.
    pub table: TableRef,
    /// `selected_fields` as requested.
    pub selected_fields: Vec<String>,
    /// `row_restriction` as requested.
    pub row_restriction: String,
    /// Number of streams given.
    pub streams: usize,
}

/// The newest records, oldest first.
#[derive(Debug, Default)]
pub(super) struct SessionLog(Mutex<VecDeque<SessionRecord>>);

impl SessionLog {
    /// Writes `record` to the log and to tracing.
    pub(super) fn push(&self, record: SessionRecord) {
        tracing::info!(
            target: "bigquery_local::read",
            table = %record.table,
            selected_fields = ?record.selected_fields,
            row_restriction = %record.row_restriction,
            streams = record.streams,
            session = %record.session,
            "CreateReadSession"
        );
        let mut records = self.0.lock();
        if records.len() == KEPT {
            records.pop_front();
        }
        records.push_back(record);
    }

    /// The records so far.
    pub(super) fn records(&self) -> Vec<SessionRecord> {
        self.0.lock().iter().cloned().collect()
    }
}
