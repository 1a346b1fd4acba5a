//! The writers of one task, one for each table that it has rows for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::metrics::SinkCounters;
use super::protocol::{BigQuerySink, Committable, DestinationState, WriterState};
use super::writer::{Destination, TableWriter};
use crate::error::{Error, ErrorKind, Result};
use crate::types::TableRef;

/// What a [`SinkWriter`](super::SinkWriter) does as long as nothing has failed.
pub(super) struct FanOut {
    sink: BigQuerySink,
    subtask: usize,
    counters: Arc<SinkCounters>,
    open: BTreeMap<TableRef, Box<dyn TableWriter>>,
    /// Where writers go on that are not open: from before a crash, or because they
    /// were put away.
    parked: BTreeMap<TableRef, WriterState>,
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
        let parked = match state {
            None => BTreeMap::new(),
            Some(WriterState::DestinationsV1 { destinations }) => destinations
                .into_iter()
                .map(|destination| Ok((destination.table.parse()?, destination.state)))
                .collect::<Result<_>>()
                .map_err(|error: Error| {
                    Error::configuration(format!(
                        "the state of a writer cannot be used: {}",
                        error.message()
                    ))
                })?,
            Some(state) => BTreeMap::from([(sink.table().clone(), state)]),
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
        })
    }

    pub(super) async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let destination = Arc::clone(&self.sink.destination);
        self.writer(destination)?.write(batch).await
    }

    pub(super) async fn flush(&mut self) -> Result<()> {
        for writer in self.open.values_mut() {
            writer.flush().await?;
        }
        Ok(())
    }

    pub(super) async fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        let mut prepared = Vec::new();
        for writer in self.open.values_mut() {
            prepared.append(&mut writer.prepare_commit().await?);
        }
        Ok(prepared)
    }

    pub(super) fn snapshot(&self) -> WriterState {
        let parked = self
            .parked
            .iter()
            .map(|(table, state)| (table, state.clone()));
        let open = self
            .open
            .iter()
            .map(|(table, writer)| (table, writer.snapshot()));
        let mut states: BTreeMap<&TableRef, WriterState> = parked.collect();
        states.extend(open);
        if let Some(state) = states.remove(self.sink.table())
            && states.is_empty()
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

    fn writer(&mut self, destination: Arc<Destination>) -> Result<&mut Box<dyn TableWriter>> {
        use std::collections::btree_map::Entry;
        match self.open.entry(destination.table.clone()) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(vacant) => {
                let state = self.parked.remove(vacant.key());
                let counters = Arc::clone(&self.counters);
                let opened = self
                    .sink
                    .open_table(destination, self.subtask, state, counters)?;
                Ok(vacant.insert(opened))
            }
        }
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
