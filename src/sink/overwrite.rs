//! INSERT OVERWRITE by the Storage Write methods, which only add rows: they are
//! written to temporary tables, and one job at the commit puts them in the place of
//! the rows that the table has.
//!
//! Each writer has a temporary table of its own, so that writers need not know of
//! each other. Where all rows are in them for certain, a copy job takes them over.
//! Copy jobs leave out what is in the streaming buffer, so otherwise it is a query,
//! which is billed for reading what was just written.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::load::{Jobs, Work, delete_tables, named};
use super::metrics::{CommitCounters, SinkCounters};
use super::numbered::Numbered;
use super::protocol::{BigQuerySink, Committable, WriterState};
use super::writer::{Destination, SinkShared, TableWriter};
use crate::client::rest::bulk_jobs::{BulkWork, JobTarget};
use crate::client::rest::temporary::{KnownRows, TableDefinition};
use crate::client::retry::RetryPolicy;
use crate::client::write::append::Denied;
use crate::client::{Client, background};
use crate::error::{Error, ErrorKind, Result};
use crate::options::LoadDisposition;
use crate::types::TableRef;

/// How long temporary tables outlive a statement that nobody finishes.
const LIFETIME: TimeDelta = TimeDelta::hours(48);

/// The service may deny for a while that a new table is there.
const NEW_TABLE: RetryPolicy = RetryPolicy {
    max_attempts: 30,
    max_delay: Duration::from_secs(30),
    ..RetryPolicy::REQUEST
};

/// Rows that are to replace those of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The table, as `project.dataset.table`.
    pub table: String,
    /// Its partition, if only that is replaced.
    pub partition: Option<String>,
    /// What tells it from others.
    pub id: String,
    /// The table with the rows; none where there are no rows.
    pub temporary: Option<String>,
    /// What makes the rows of the temporary table count.
    pub prepared: Vec<Committable>,
}

impl Replacement {
    pub(super) fn rows(&self) -> u64 {
        self.prepared.iter().map(Committable::rows).sum()
    }
}

/// Writes to a temporary table.
#[derive(Debug)]
pub(super) struct OverwriteWriter {
    sink: BigQuerySink,
    destination: Arc<Destination>,
    partition: Option<String>,
    subtask: usize,
    counters: Arc<SinkCounters>,
    /// Of what comes next.
    id: String,
    /// Made for the first rows.
    open: Option<(TableRef, Box<dyn TableWriter>)>,
}

impl OverwriteWriter {
    pub(super) fn new(
        sink: BigQuerySink,
        destination: Arc<Destination>,
        partition: Option<String>,
        subtask: usize,
        counters: Arc<SinkCounters>,
    ) -> Self {
        OverwriteWriter {
            sink,
            destination,
            partition,
            subtask,
            counters,
            id: new_id(),
            open: None,
        }
    }

    async fn inner(&mut self) -> Result<&mut Box<dyn TableWriter>> {
        if self.open.is_none() {
            let temporary = create(&self.sink.shared, &self.destination.table, &self.id).await?;
            let destination = Destination {
                table: temporary.clone(),
                // It was made a moment ago.
                denied: Denied::MayPass(NEW_TABLE),
                ..Destination::clone(&self.destination)
            };
            let destination = Arc::new(destination);
            // For those who commit its streams.
            self.sink.shared.destinations.ready(&destination);
            let inner = self.sink.open_by_method(
                destination,
                self.subtask,
                None,
                Arc::clone(&self.counters),
            )?;
            self.open = Some((temporary, inner));
        }
        match &mut self.open {
            Some((_, inner)) => Ok(inner),
            None => Err(Error::new(
                ErrorKind::Internal,
                "a temporary table was made and has no writer",
            )),
        }
    }
}

fn new_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Makes an empty table like `table` beside it, for the replacement `id`.
async fn create(shared: &SinkShared, table: &TableRef, id: &str) -> Result<TableRef> {
    let name = format!("datafusion_overwrite_{id}");
    let temporary = TableRef::new(&table.project, &table.dataset, name)?;
    let like = shared.client.table_definition(table).await?;
    shared
        .client
        .create_temporary(
            &temporary,
            &like.without_partition_filter(),
            Utc::now() + LIFETIME,
        )
        .await?;
    Ok(temporary)
}

#[async_trait]
impl TableWriter for OverwriteWriter {
    async fn write(&mut self, rows: Numbered) -> Result<()> {
        self.inner().await?.write(rows).await
    }

    async fn flush(&mut self) -> Result<()> {
        match &mut self.open {
            Some((_, inner)) => inner.flush().await,
            None => Ok(()),
        }
    }

    async fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        let mut replacement = Replacement {
            table: self.destination.table.to_string(),
            partition: self.partition.clone(),
            id: std::mem::replace(&mut self.id, new_id()),
            temporary: None,
            prepared: Vec::new(),
        };
        if let Some((temporary, inner)) = &mut self.open {
            replacement.prepared = inner.prepare_commit().await?;
            replacement.temporary = Some(temporary.to_string());
            // It is the committer's now, and the next rows have another.
            self.open = None;
        }
        Ok(vec![Committable::ReplacementV1(replacement)])
    }

    fn snapshot(&self) -> WriterState {
        WriterState::ReplacementV1 {}
    }
}

impl Drop for OverwriteWriter {
    /// A table that no commit will ever name is deleted as far as that is possible.
    fn drop(&mut self) {
        let Some((temporary, inner)) = self.open.take() else {
            return;
        };
        drop(inner);
        let client = self.sink.shared.client.clone();
        let started = background::spawn(async move {
            delete_tables(&client, &[temporary]).await;
        });
        if let Err(error) = started {
            tracing::warn!(%error, "a temporary table stays until it expires");
        }
    }
}

/// Deletes the temporary tables of what will never be committed, without waiting for it.
pub(super) fn discard(shared: &Arc<SinkShared>, prepared: &[Committable]) {
    let tables = prepared.iter().filter_map(|committable| match committable {
        Committable::ReplacementV1(replacement) => replacement.temporary.as_ref()?.parse().ok(),
        _ => None,
    });
    let tables: Vec<TableRef> = tables.collect();
    if tables.is_empty() {
        return;
    }
    let client = shared.client.clone();
    let started = background::spawn(async move { delete_tables(&client, &tables).await });
    if let Err(error) = started {
        tracing::warn!(%error, "a temporary table stays until it expires");
    }
}

/// The rows of a table that others are to take the place of.
pub(super) struct Replaced<'a> {
    shared: &'a SinkShared,
    target: JobTarget,
    /// What tells this commit from others.
    ids: Vec<String>,
    temporary: Vec<TableRef>,
    rows: u64,
    counters: &'a CommitCounters,
}

impl<'a> Replaced<'a> {
    /// What the replacements, all of one table, replace; `None` when there are none.
    pub(super) fn new(
        shared: &'a SinkShared,
        replacements: &[Replacement],
        counters: &'a CommitCounters,
    ) -> Result<Option<Self>> {
        let Some(first) = replacements.first() else {
            return Ok(None);
        };
        let differs = |other: &&Replacement| {
            (&other.table, &other.partition) != (&first.table, &first.partition)
        };
        if let Some(other) = replacements.iter().find(differs) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "one commit replaces the rows of {} and of {}: make two of it",
                    first.table, other.table
                ),
            ));
        }
        let mut temporary = replacements
            .iter()
            .filter_map(|replacement| replacement.temporary.as_deref())
            .map(str::parse)
            .collect::<Result<Vec<TableRef>>>()?;
        temporary.sort();
        let mut ids: Vec<_> = replacements.iter().map(|r| r.id.clone()).collect();
        ids.sort();
        Ok(Some(Replaced {
            shared,
            target: JobTarget {
                table: first.table.parse()?,
                partition: first.partition.clone(),
            },
            ids,
            temporary,
            rows: replacements.iter().map(Replacement::rows).sum(),
            counters,
        }))
    }

    fn jobs(&self, location: Option<String>) -> Jobs<'a> {
        let (client, options) = (&self.shared.client, &self.shared.options.file_loads);
        Jobs {
            client,
            project: client.billing_project(&self.target.table).to_string(),
            location: location.or_else(|| client.options().location.clone()),
            labels: self.shared.options.job_labels.clone(),
            run: named(
                "overwrite",
                &[&[self.target.to_string()], self.ids.as_slice()].concat(),
            ),
            first_wait: options.poll_initial_backoff,
            longest_wait: options.poll_max_backoff,
            counters: self.counters,
        }
    }

    /// Whether an earlier attempt has done it.
    pub(super) async fn is_done(&self) -> Result<bool> {
        let table = &self.target.table;
        let definition = self.shared.client.table_definition(table).await?;
        let jobs = self.jobs(definition.location().map(str::to_string));
        for step in [COPY, QUERY] {
            if jobs.finished(step).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts the rows of the temporary tables, which count already, in the place of
    /// those of their table.
    pub(super) async fn replace(mut self) -> Result<()> {
        match self.take_over().await {
            Ok(()) => {
                delete_tables(&self.shared.client, &self.temporary).await;
                Ok(())
            }
            Err(error) => {
                // What the service refuses for good it refuses again.
                let again = match error.kind() {
                    ErrorKind::InvalidArgument => "",
                    _ => {
                        " (the new ones are in temporary tables for two days, and the same commit \
                         can be made again)"
                    }
                };
                let which = match error.may_have_applied() {
                    true => "which has its old ones or the new ones, it is not known which",
                    false => "which has its old ones",
                };
                Err(error.with_context(format!(
                    "replacing the rows of {}, {which}{again}",
                    self.target
                )))
            }
        }
    }

    async fn take_over(&mut self) -> Result<()> {
        let client = &self.shared.client;
        if self.temporary.is_empty() {
            let table = create(self.shared, &self.target.table, &self.ids[0]).await?;
            self.temporary.push(table);
        }
        let definition = client.table_definition(&self.target.table).await?;
        let jobs = self.jobs(definition.location().map(str::to_string));
        let temporary = &self.temporary;
        let by_copy = temporary.len() <= self.shared.load_limits.copy_sources
            // A copy would take over that the temporary tables need no filter.
            && !definition.requires_partition_filter()
            && wait_for_rows(client, temporary, self.rows, &definition).await?;
        let target = self.target.clone();
        let work = if by_copy {
            Work {
                step: COPY.into(),
                work: BulkWork::Copy {
                    sources: temporary.clone(),
                },
                target,
                disposition: LoadDisposition::Truncate,
            }
        } else {
            let selects: Vec<_> = temporary
                .iter()
                .map(|table| format!("SELECT * FROM `{table}`"))
                .collect();
            Work {
                step: QUERY.into(),
                work: BulkWork::Query {
                    sql: selects.join(" UNION ALL "),
                },
                disposition: match target.partition {
                    None => LoadDisposition::TruncateData,
                    Some(_) => LoadDisposition::Truncate,
                },
                target,
            }
        };
        jobs.run(&work, |job| ready(Ok(Some(job)))).await?;
        Ok(())
    }
}

/// Whether copies of the tables would have all of their rows. Where only a copy
/// will do, because a query's columns are NULLABLE, the answer is waited for.
async fn wait_for_rows(
    client: &Client,
    tables: &[TableRef],
    rows: u64,
    like: &TableDefinition,
) -> Result<bool> {
    let mut pace = client.pace(FIRST_LOOK, LONGEST_WAIT);
    for look in 1.. {
        let mut known = Some(0_u64);
        for table in tables {
            match client.known_rows(table).await? {
                KnownRows::All(rows) => known = known.map(|known| known + rows),
                KnownRows::SomeStreamed => known = None,
                KnownRows::NoTable => {
                    return Err(Error::new(
                        ErrorKind::FailedPrecondition,
                        format!("temporary table {table} is gone, and its rows with it"),
                    ));
                }
            }
        }
        if known.is_some_and(|known| known >= rows) {
            return Ok(true);
        }
        if !like.has_required_columns() {
            return Ok(false);
        }
        if look > MOST_LOOKS {
            break;
        }
        tracing::info!("rows are in the streaming buffer, which copy jobs leave out: waiting");
        pace.wait().await;
    }
    Err(Error::new(
        ErrorKind::DeadlineExceeded,
        "the new rows are still in the streaming buffer, which copy jobs leave out, and a query \
         cannot replace rows of REQUIRED columns: commit again later, or use sink.write_method \
         'file_loads'",
    ))
}

/// The streaming buffer is emptied within 90 minutes
/// (<https://cloud.google.com/bigquery/docs/streaming-data-into-bigquery#dataavailability>).
const MOST_LOOKS: u32 = 200;
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

const COPY: &str = "copy";
const QUERY: &str = "query";
