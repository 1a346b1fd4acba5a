//! The writers of one task, one for each table that it has rows for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::RecordBatch;
use futures::future::try_join_all;

use super::failure::FailedRow;
use super::metrics::SinkCounters;
use super::numbered::Numbered;
use super::protocol::{BigQuerySink, Committable, DestinationState, WriterState};
use super::route::Route;
use super::writer::TableWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::types::TableRef;

/// So many tables are open at once; beyond it the one that had no rows for longest is
/// put away. Each open one has a call, which takes a place on a connection.
const MOST_OPEN: usize = 200;

/// Rows of all tables take about so many bytes at most before they are all sent and
/// waited for.
const MOST_BYTES: usize = 128 << 20;

/// What a [`SinkWriter`](super::SinkWriter) does as long as nothing has failed.
pub(super) struct FanOut {
    sink: BigQuerySink,
    subtask: usize,
    counters: Arc<SinkCounters>,
    open: BTreeMap<TableRef, Open>,
    /// Where writers go on that are not open: from before a crash, or because they
    /// were put away.
    parked: BTreeMap<TableRef, WriterState>,
    /// What those prepared that were put away since the last commit.
    prepared: Vec<Committable>,
    /// Whether dead letters are known to have a place.
    checked: bool,
    /// The number of the next row, from 1.
    next_row: u64,
}

/// The writer of a table.
struct Open {
    writer: Box<dyn TableWriter>,
    last_rows: Instant,
}

impl FanOut {
    /// # Errors
    /// [`ErrorKind::Configuration`] when the state is of another write method or of
    /// another table.
    pub(super) fn new(
        sink: BigQuerySink,
        subtask: usize,
        state: Option<WriterState>,
        counters: Arc<SinkCounters>,
    ) -> Result<Self> {
        let unusable = |why: &str| {
            Error::configuration(format!("the state of a writer cannot be used: {why}"))
        };
        let parked = match (state, sink.table()) {
            (None | Some(WriterState::ReplacementV1 {}), _) => BTreeMap::new(),
            (Some(WriterState::DestinationsV1 { destinations }), _) => destinations
                .into_iter()
                .map(|destination| {
                    let table = destination.table.parse();
                    let table: TableRef =
                        table.map_err(|error: Error| unusable(error.message()))?;
                    Ok((table, destination.state))
                })
                .collect::<Result<_>>()?,
            (Some(state), Some(table)) => BTreeMap::from([(table.clone(), state)]),
            (Some(_), None) => return Err(unusable("it is of one table, and rows go to several")),
        };
        for (table, state) in &parked {
            check_method(&sink, table, state)?;
        }
        Ok(Self {
            sink,
            subtask,
            counters,
            open: BTreeMap::new(),
            parked,
            prepared: Vec::new(),
            checked: false,
            next_row: 1,
        })
    }

    pub(super) async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if !self.checked {
            self.sink.shared.failures.check().await?;
            self.checked = true;
        }
        let first_row = self.next_row;
        self.next_row += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
        let (rows, failed) = self.sink.arrival.take(batch, first_row)?;
        self.leave_out(&failed).await?;
        let routed = self.sink.route.split(rows)?;
        self.leave_out(&routed.unroutable).await?;
        for (table, Numbered { rows, numbers }) in routed.tables {
            if rows.num_rows() > 0 {
                let rows = self.sink.arrival.written(rows)?;
                self.write_to(table, Numbered { rows, numbers }).await?;
            }
        }
        if self.sink.table().is_none() {
            self.keep_few().await?;
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> Result<()> {
        try_join_all(self.open.values_mut().map(|open| open.writer.flush())).await?;
        self.sink.shared.failures.flush().await
    }

    /// Flushes for the last time.
    pub(super) async fn close(&mut self) -> Result<()> {
        try_join_all(self.open.values_mut().map(|open| open.writer.flush())).await?;
        self.sink.shared.failures.shut_down().await
    }

    pub(super) async fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        if let Some(table) = self.sink.table().cloned()
            && self.sink.shared.options.replaces()
        {
            // Rows are replaced by none, too.
            self.open(&table).await?;
        }
        let tables: Vec<TableRef> = self.open.keys().cloned().collect();
        let open = self.open.values_mut();
        let prepared = try_join_all(open.map(|open| open.writer.prepare_commit())).await?;
        for (table, mut prepared) in tables.iter().zip(prepared) {
            self.count(table, &prepared);
            self.prepared.append(&mut prepared);
        }
        // Only what the failure policy did not take counts.
        self.sink.shared.failures.flush().await?;
        Ok(std::mem::take(&mut self.prepared))
    }

    pub(super) fn snapshot(&self) -> WriterState {
        let parked = self
            .parked
            .iter()
            .map(|(table, state)| (table, state.clone()));
        let open = self
            .open
            .iter()
            .map(|(table, open)| (table, open.writer.snapshot()));
        let mut states: BTreeMap<&TableRef, WriterState> = parked.collect();
        states.extend(open);
        if let Some(table) = self.sink.table()
            && states.len() == 1
            && let Some(state) = states.remove(table)
        {
            return state;
        }
        WriterState::DestinationsV1 {
            destinations: states
                .into_iter()
                .map(|(table, state)| DestinationState {
                    table: table.to_string(),
                    state,
                })
                .collect(),
        }
    }

    /// Sees to it that the table has a writer.
    async fn open(&mut self, table: &TableRef) -> Result<()> {
        if !self.open.contains_key(table) {
            if self.open.len() >= MOST_OPEN {
                self.put_longest_idle_away().await?;
            }
            let shared = &self.sink.shared;
            let destination = shared.destination(table, &self.counters).await?;
            let state = self.parked.remove(table);
            let counters = Arc::clone(&self.counters);
            let writer = self
                .sink
                .open_table(destination, self.subtask, state, counters)?;
            let open = Open {
                writer,
                last_rows: self.now(),
            };
            self.open.insert(table.clone(), open);
            self.count_open();
        }
        Ok(())
    }

    async fn write_to(&mut self, table: TableRef, rows: Numbered) -> Result<()> {
        self.open(&table).await?;
        let now = self.now();
        let open = self
            .open
            .get_mut(&table)
            .expect("the writer was opened just now or before");
        open.last_rows = now;
        open.writer.write(rows).await
    }

    /// Puts writers away that had no rows for long, and bounds what all hold.
    async fn keep_few(&mut self) -> Result<()> {
        let (now, timeout) = (
            self.now(),
            self.sink.shared.options.destination.idle_timeout,
        );
        let idle: Vec<TableRef> = self
            .open
            .iter()
            .filter(|(_, open)| now.saturating_duration_since(open.last_rows) >= timeout)
            .map(|(table, _)| table.clone())
            .collect();
        for table in idle {
            self.put_away(&table).await?;
        }
        let bytes: usize = self.open.values().map(|open| open.writer.bytes()).sum();
        if bytes > MOST_BYTES {
            try_join_all(self.open.values_mut().map(|open| open.writer.flush())).await?;
        }
        Ok(())
    }

    async fn put_longest_idle_away(&mut self) -> Result<()> {
        let longest = self.open.iter().min_by_key(|(_, open)| open.last_rows);
        match longest.map(|(table, _)| table.clone()) {
            Some(table) => self.put_away(&table).await,
            None => Ok(()),
        }
    }

    /// Ends the writer of a table, which may be opened again.
    async fn put_away(&mut self, table: &TableRef) -> Result<()> {
        let Some(mut open) = self.open.remove(table) else {
            return Ok(());
        };
        self.count_open();
        let mut prepared = open.writer.prepare_commit().await?;
        self.count(table, &prepared);
        self.prepared.append(&mut prepared);
        let state = open.writer.snapshot();
        if !state.is_empty() {
            self.parked.insert(table.clone(), state);
        }
        Ok(())
    }

    /// Decides over rows that go to no table.
    async fn leave_out(&mut self, failed: &[FailedRow]) -> Result<()> {
        let target = self.sink.target();
        let failures = &self.sink.shared.failures;
        let handled = failures
            .handle(&target, self.subtask, failed, &self.counters)
            .await;
        handled.map_err(|error| match self.sink.route.as_ref() {
            Route::Fixed(table) => error.with_context(format!("writing table {table}")),
            Route::Pattern(_) | Route::Resolver(_) => error,
        })
    }

    fn count(&self, table: &TableRef, prepared: &[Committable]) {
        let rows: u64 = prepared.iter().map(Committable::rows).sum();
        if rows > 0 && self.sink.shared.options.destination.metrics {
            let mut by_table = self.counters.by_table.lock();
            *by_table.entry(table.to_string()).or_default() += rows;
        }
    }

    fn count_open(&self) {
        let open = u64::try_from(self.open.len()).unwrap_or(u64::MAX);
        self.counters
            .open_destinations
            .store(open, Ordering::Relaxed);
    }

    fn now(&self) -> Instant {
        self.sink.shared.client.clock().now()
    }
}

impl fmt::Debug for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FanOut")
            .field("subtask", &self.subtask)
            .field("open", &self.open.keys())
            .finish_non_exhaustive()
    }
}

fn check_method(sink: &BigQuerySink, table: &TableRef, state: &WriterState) -> Result<()> {
    let method = sink.write_method();
    match state.write_method() {
        Some(of_state) if of_state == method => Ok(()),
        of_state => Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "the state of a writer for {table} is of {}, and the sink writes by '{}': keep \
                 the option 'sink.write_method' across restarts",
                of_state.map_or("several tables".to_string(), |of| format!(
                    "'{}'",
                    of.name()
                )),
                method.name()
            ),
        )),
    }
}
