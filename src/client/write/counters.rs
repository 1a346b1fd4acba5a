//! What is counted while writing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// What happened while writing; several streams may count into one.
#[derive(Debug, Default)]
pub struct WriteCounters {
    pub(super) rows: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) reconnects: AtomicU64,
    pub(super) schema_updates: AtomicU64,
    pub(super) in_flight: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl WriteCounters {
    /// Rows that the service acknowledged.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes of requests sent, each sending counted.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Requests sent, each sending counted.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests sent again.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Streams that something was sent to, each over a connection of its own.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Calls opened after one broke.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    /// How often the service said that the table's columns have changed.
    pub fn schema_updates(&self) -> u64 {
        self.schema_updates.load(Ordering::Relaxed)
    }

    /// Requests without an answer at this moment.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Failures by the canonical code of their status, `TIMEOUT` for requests
    /// that were not answered in time.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().clone()
    }

    pub(super) fn failed(&self, code: &str) {
        *self.errors.lock().entry(code.to_string()).or_default() += 1;
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Takes from a counter.
pub(super) fn subtract(counter: &AtomicU64, less: usize) {
    counter.fetch_sub(u64::try_from(less).unwrap_or(u64::MAX), Ordering::Relaxed);
}
