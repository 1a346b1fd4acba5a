//! What is known of jobs, so that a client that asks after a restart is told.
//!
//! A record's document belongs to whoever runs jobs; the store keeps it, and knows
//! of it only how far the job is. That is enough to keep a job and what it changes
//! together: the change that a job makes carries the record of the job that made
//! it, and a job that is done makes no more changes.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::reference::JobRef;

/// Records beyond this number are forgotten, oldest first.
const MAX_RECORDS: usize = 10_000;
/// So are records beyond these bytes of documents.
const MAX_BYTES: usize = 32 << 20;

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobStage {
    /// Accepted. Nothing that it asks for is in the state.
    Begun,
    /// All that it asks for is in the state; the document says how it ends.
    Applied,
    /// Finished, well or not.
    Done,
}

/// What is known of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// How far it is.
    pub stage: JobStage,
    /// Everything else, in a form of the owner's.
    pub document: String,
}

/// The records in order of the jobs' creation.
#[derive(Debug, Default)]
pub(super) struct JobRecords {
    by_serial: BTreeMap<u64, (JobRef, JobRecord)>,
    serials: HashMap<JobRef, u64>,
    next: u64,
    bytes: usize,
}

impl JobRecords {
    /// Adds or replaces a record, and forgets old ones beyond the bounds. Jobs that
    /// are not done are never forgotten.
    pub(super) fn put(&mut self, reference: JobRef, record: JobRecord) {
        self.bytes += record.document.len();
        let serial = *self.serials.entry(reference.clone()).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        if let Some((_, old)) = self.by_serial.insert(serial, (reference, record)) {
            self.bytes -= old.document.len();
        }
        while self.by_serial.len() > MAX_RECORDS || self.bytes > MAX_BYTES {
            let oldest = self
                .by_serial
                .iter()
                .find(|(s, (_, record))| **s != serial && record.stage == JobStage::Done)
                .map(|(_, (reference, _))| reference.clone());
            let Some(oldest) = oldest else { return };
            self.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, reference: &JobRef) {
        if let Some(serial) = self.serials.remove(reference)
            && let Some((_, record)) = self.by_serial.remove(&serial)
        {
            self.bytes -= record.document.len();
        }
    }

    pub(super) fn get(&self, reference: &JobRef) -> Option<&JobRecord> {
        let serial = self.serials.get(reference)?;
        self.by_serial.get(serial).map(|(_, record)| record)
    }

    /// Oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &(JobRef, JobRecord)> {
        self.by_serial.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(n: usize) -> JobRef {
        JobRef {
            project: "p".into(),
            location: "US".into(),
            id: format!("j{n}"),
        }
    }

    fn record(stage: JobStage, bytes: usize) -> JobRecord {
        JobRecord {
            stage,
            document: "x".repeat(bytes),
        }
    }

    #[test]
    fn old_finished_jobs_are_forgotten_beyond_the_bounds() {
        let mut records = JobRecords::default();
        records.put(reference(0), record(JobStage::Begun, 1));
        for n in 1..=MAX_RECORDS {
            records.put(reference(n), record(JobStage::Done, 1));
        }
        assert!(records.get(&reference(0)).is_some(), "it still runs");
        assert!(records.get(&reference(1)).is_none());
        assert_eq!(records.all().count(), MAX_RECORDS);
        records.put(reference(0), record(JobStage::Done, MAX_BYTES - 2));
        assert_eq!(records.all().count(), 3);
        let newest = reference(MAX_RECORDS);
        assert!(records.get(&newest).is_some());
        records.put(newest, record(JobStage::Done, 1));
        assert_eq!(records.bytes, MAX_BYTES, "replaced, not added");
    }
}
