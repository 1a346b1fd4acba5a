//! One statement, one snapshot.
//!
//! Every scan of a table inside one statement reads the table as of one time,
//! so that a self-join never sees two versions. A statement that scans a table
//! once needs nothing: its session is a snapshot by itself. Where there are
//! several scans, the first session to open tells the service's clock, and all
//! of them are opened as of that time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::error::Result;
use crate::types::TableRef;

/// What tells a statement from others: the session that runs it and the time
/// at which it began.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StatementId {
    /// DataFusion's session.
    pub(crate) session: String,
    /// When the statement began, as the session's execution properties say.
    pub(crate) began: Option<DateTime<Utc>>,
}

/// The snapshots of the statements that are under way.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    live: Mutex<HashMap<(StatementId, TableRef), Weak<Snapshot>>>,
}

impl Snapshots {
    /// The snapshot that a new scan of `table` in `statement` shares with the
    /// statement's other scans of it.
    pub(crate) fn join(&self, statement: StatementId, table: &TableRef) -> Arc<Snapshot> {
        let mut live = self.live.lock();
        live.retain(|_, snapshot| snapshot.strong_count() > 0);
        // Without a beginning one statement looks like the next.
        let known = statement.began.is_some();
        let key = (statement, table.clone());
        let snapshot = match live.get(&key).and_then(Weak::upgrade) {
            Some(snapshot) if known => snapshot,
            _ => {
                let snapshot = Arc::new(Snapshot::default());
                live.insert(key, Arc::downgrade(&snapshot));
                snapshot
            }
        };
        snapshot.scans.fetch_add(1, Ordering::Relaxed);
        snapshot
    }
}

/// The time as of which the scans of one table in one statement read.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    scans: AtomicUsize,
    /// A time for each execution of the plan.
    times: Mutex<Vec<Arc<OnceCell<DateTime<Utc>>>>>,
}

impl Snapshot {
    /// The time for the `execution`-th execution of the plan, from `clock` if
    /// nobody has asked yet; None where one scan is alone with its table.
    ///
    /// # Errors
    /// What `clock` fails with; the next caller then asks again.
    pub(crate) async fn time<F>(
        &self,
        execution: usize,
        clock: impl FnOnce() -> F,
    ) -> Result<Option<DateTime<Utc>>>
    where
        F: Future<Output = Result<DateTime<Utc>>>,
    {
        if self.scans.load(Ordering::Relaxed) < 2 {
            return Ok(None);
        }
        let cell = {
            let mut times = self.times.lock();
            while times.len() <= execution {
                times.push(Arc::default());
            }
            Arc::clone(&times[execution])
        };
        let time = cell.get_or_try_init(clock).await?;
        Ok(Some(*time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(began: i64) -> StatementId {
        StatementId {
            session: "s".to_string(),
            began: DateTime::from_timestamp(began, 0),
        }
    }

    fn table(name: &str) -> TableRef {
        TableRef::new("p", "d", name).unwrap()
    }

    #[tokio::test]
    async fn a_lone_scan_needs_no_time() {
        let snapshots = Snapshots::default();
        let alone = snapshots.join(statement(1), &table("t"));
        let _other_table = snapshots.join(statement(1), &table("u"));
        let _other_statement = snapshots.join(statement(2), &table("t"));
        let time = alone
            .time(0, || async { unreachable!("no clock is asked") })
            .await;
        assert_eq!(time.unwrap(), None);
    }

    #[tokio::test]
    async fn scans_of_one_statement_share_a_time() {
        let snapshots = Snapshots::default();
        let one = snapshots.join(statement(1), &table("t"));
        let two = snapshots.join(statement(1), &table("t"));
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let first = one.time(0, || async { Ok(at(10)) }).await.unwrap();
        let second = two.time(0, || async { Ok(at(20)) }).await.unwrap();
        assert_eq!((first, second), (Some(at(10)), Some(at(10))));
        let again = two.time(1, || async { Ok(at(30)) }).await.unwrap();
        assert_eq!(again, Some(at(30)));
    }

    #[test]
    fn finished_statements_leave_nothing_behind() {
        let snapshots = Snapshots::default();
        drop(snapshots.join(statement(1), &table("t")));
        let _next = snapshots.join(statement(2), &table("t"));
        assert_eq!(snapshots.live.lock().len(), 1);
    }
}
