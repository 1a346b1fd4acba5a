//! What makes staged files count.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use super::job::{Jobs, Work, run_id};
use super::plan::{Chunk, Last, Plan, Staged, plan};
use super::unloadable;
use crate::client::rest::bulk_jobs::{BulkJob, BulkWork, JobTarget};
use crate::client::rest::temporary::{KnownRows, TableDefinition};
use crate::client::{Client, background};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::options::{LoadDisposition, StagedFiles, StagingFormat};
use crate::sink::metrics::CommitCounters;
use crate::sink::protocol::FileLoads;
use crate::sink::writer::SinkShared;
use crate::types::{TableRef, json};

/// How long temporary tables outlive a commit that nobody repeats.
const LIFETIME: TimeDelta = TimeDelta::hours(48);

/// Requests that delete things, at a time.
const DELETIONS: usize = 16;

/// Whether the same commit would be refused again, however often it is made.
pub(in crate::sink) fn is_final(error: &Error) -> bool {
    error.kind() == ErrorKind::InvalidArgument && !error.may_have_applied()
}

/// Loads what was staged, each table's files as one change.
pub(in crate::sink) async fn commit(
    shared: &SinkShared,
    prepared: Vec<FileLoads>,
    counters: &CommitCounters,
) -> Result<()> {
    let groups = groups(prepared)?;
    for (done, group) in groups.iter().enumerate() {
        let Err(error) = group.commit(shared, counters).await else {
            continue;
        };
        return Err(match done {
            0 => group.explain(shared, error),
            _ => group
                .explain(shared, error.with_effect(Effect::Unknown))
                .with_context(format!(
                    "rows of {done} of {} tables and partitions are written",
                    groups.len()
                )),
        });
    }
    Ok(())
}

/// The files that go into one table in one way.
#[derive(Debug)]
struct Group {
    target: JobTarget,
    disposition: LoadDisposition,
    /// The columns in the files.
    columns: Vec<String>,
    files: Vec<Staged>,
}

fn groups(prepared: Vec<FileLoads>) -> Result<Vec<Group>> {
    let mut groups: BTreeMap<(String, Option<String>), Group> = BTreeMap::new();
    for loads in prepared {
        let unknown = |what: &str, value: &str| {
            Error::data(format!(
                "what was prepared for a commit has the {what} '{value}', which this version does \
                 not know"
            ))
        };
        let disposition = LoadDisposition::named(&loads.disposition)
            .ok_or_else(|| unknown("write disposition", &loads.disposition))?;
        let format = StagingFormat::named(&loads.format)
            .ok_or_else(|| unknown("staging format", &loads.format))?;
        let table: TableRef = loads.table.parse()?;
        let group = groups
            .entry((loads.table.clone(), loads.partition.clone()))
            .or_insert_with(|| Group {
                target: JobTarget {
                    table,
                    partition: loads.partition.clone(),
                },
                disposition,
                columns: Vec::new(),
                files: Vec::new(),
            });
        if group.disposition != disposition {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "files for {} are to be loaded by {} and by {} in one commit: make two commits \
                     of them",
                    group.target,
                    group.disposition.name(),
                    disposition.name()
                ),
            ));
        }
        for column in loads.columns {
            if !group.columns.contains(&column) {
                group.columns.push(column);
            }
        }
        let files = loads.files.into_iter();
        group
            .files
            .extend(files.map(|file| Staged { format, file }));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for group in &mut groups {
        // The same files are cut into the same jobs, whoever lists them.
        group
            .files
            .sort_by(|one, other| one.file.uri.cmp(&other.file.uri));
        group
            .files
            .dedup_by(|one, other| one.file.uri == other.file.uri);
    }
    Ok(groups)
}

impl Group {
    /// What the error means for the files and for whoever made the commit.
    fn explain(&self, shared: &SinkShared, error: Error) -> Error {
        let mut said = format!(
            "loading {} staged files into {}",
            self.files.len(),
            self.target
        );
        if is_final(&error) {
            if self.target.partition.is_some() && error.message().contains("partition") {
                said.push_str(&format!(
                    " (write only the rows of this partition to it, or all of them to {})",
                    self.target.table
                ));
            }
        } else {
            let path = shared.options.file_loads.staging_path.as_ref();
            let known = match error.may_have_applied() {
                true => "whether they are loaded is not known, ",
                false => "",
            };
            said.push_str(&format!(
                " ({known}they stay under {}, and the same commit can be made again)",
                path.map_or_else(|| "Cloud Storage".to_string(), ToString::to_string)
            ));
        }
        error.with_context(said)
    }

    async fn commit(&self, shared: &SinkShared, counters: &CommitCounters) -> Result<()> {
        let client = &shared.client;
        let options = &shared.options.file_loads;
        let table = &self.target.table;
        let definition = client.table_definition(table).await?;
        let last = match (self.disposition, &self.target.partition) {
            (LoadDisposition::TruncateData, None) if !definition.has_required_columns() => {
                Last::Query
            }
            _ => Last::Copy,
        };
        let plan = plan(&self.files, last, &shared.load_limits)?;
        let location = definition.location().map(str::to_string);
        let run = Run {
            jobs: Jobs {
                client,
                project: client.billing_project(table).to_string(),
                location: location.or_else(|| client.options().location.clone()),
                labels: shared.options.job_labels.clone(),
                run: run_id(&self.target, self.disposition, &self.files),
                first_wait: options.poll_initial_backoff,
                longest_wait: options.poll_max_backoff,
                counters,
            },
            schema: self.load_schema(&definition)?,
            definition,
            group: self,
            temp_dataset: temp_dataset(table, options.temp_dataset.as_deref())?,
            wave: shared.load_limits.wave.max(1),
        };
        if let Some(changed) = self.changed_file(shared).await?
            && run.jobs.finished("last").await?.is_none()
        {
            return Err(Error::data(changed));
        }
        match plan {
            Plan::Direct(chunk) => run.direct(chunk).await?,
            Plan::Tree {
                chunks,
                levels,
                last,
            } => run.tree(chunks, &levels, last).await?,
        }
        if options.staged_files == StagedFiles::Deleted {
            delete_staged(
                shared,
                self.files.iter().map(|staged| staged.file.uri.clone()),
            )
            .await;
        }
        Ok(())
    }

    /// Says of a file that it is not as it was staged, before a job makes rows of it
    /// visible. After a commit there may be none any more.
    async fn changed_file(&self, shared: &SinkShared) -> Result<Option<String>> {
        let Some(path) = &shared.options.file_loads.staging_path else {
            return Ok(None);
        };
        let staging = shared.client.staging(path, super::PATH_OPTION)?;
        let files = self.files.iter().map(|staged| &staged.file);
        let uris: Vec<String> = files.map(|file| file.uri.clone()).collect();
        let Some(sizes) = staging.sizes(&uris).await? else {
            tracing::debug!(%path, "files cannot be listed: what is loaded is counted afterwards");
            return Ok(None);
        };
        // Of another bucket, as of a sink with another path, nothing is known here.
        let bucket = format!("gs://{}/", path.bucket());
        let files = self.files.iter().map(|staged| &staged.file);
        let mut files = files.filter(|file| file.uri.starts_with(&bucket));
        Ok(files.find_map(|file| match sizes.get(&file.uri) {
            Some(size) if *size == file.bytes => None,
            Some(size) => Some(format!(
                "staged file {} has {size} bytes and was staged with {}: something else than this \
                 library has changed it, and nothing was loaded",
                file.uri, file.bytes
            )),
            None => Some(format!(
                "staged file {} is not there any more, and nothing was loaded: a lifecycle rule of \
                 the bucket must leave files for as long as their commit may be made",
                file.uri
            )),
        }))
    }

    /// What a job that writes to the table itself does with the rows there.
    fn final_disposition(&self) -> LoadDisposition {
        match (&self.target.partition, self.disposition) {
            // Replacing a partition leaves the table as it is.
            (Some(_), LoadDisposition::TruncateData) => LoadDisposition::Truncate,
            (_, disposition) => disposition,
        }
    }

    /// The table's columns as a load job takes them. The service ignores what files
    /// have beyond them, without a word.
    fn load_schema(&self, definition: &TableDefinition) -> Result<Value> {
        let mut schema = definition.schema();
        let live = json::table_schema(Some(&schema))?;
        let missing: Vec<_> = self
            .columns
            .iter()
            .filter(|column| live.field(column).is_none())
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "the staged files have columns that {} does not have any more, and their \
                     values would be lost: {}",
                    self.target.table,
                    missing.join(", ")
                ),
            ));
        }
        // Types that load jobs refuse are not in the files.
        if let Some(fields) = schema.get_mut("fields").and_then(Value::as_array_mut) {
            let mut loadable = live
                .fields
                .iter()
                .map(|field| !unloadable(&field.field_type));
            fields.retain(|_| loadable.next().unwrap_or(true));
        }
        Ok(schema)
    }
}

fn temp_dataset(table: &TableRef, said: Option<&str>) -> Result<(String, String)> {
    let (project, dataset) = match said {
        None => (table.project.as_str(), table.dataset.as_str()),
        Some(said) => said
            .rsplit_once('.')
            .unwrap_or((table.project.as_str(), said)),
    };
    TableRef::new(project, dataset, "t").map_err(|error| {
        Error::configuration(format!(
            "option 'sink.file_loads.temp_dataset' cannot be '{project}.{dataset}': {}",
            error.message()
        ))
    })?;
    Ok((project.to_string(), dataset.to_string()))
}

/// A plan that is being carried out.
struct Run<'a> {
    jobs: Jobs<'a>,
    definition: TableDefinition,
    schema: Value,
    group: &'a Group,
    temp_dataset: (String, String),
    wave: usize,
}

/// A temporary table with its rows.
#[derive(Debug, Clone)]
struct Temporary {
    table: TableRef,
    rows: u64,
}

impl Run<'_> {
    fn load(&self, step: String, chunk: Chunk) -> Work {
        Work {
            step,
            work: BulkWork::Load {
                uris: chunk.uris,
                format: chunk.format,
                schema: self.schema.clone(),
            },
            target: self.group.target.clone(),
            disposition: self.group.final_disposition(),
        }
    }

    async fn direct(&self, chunk: Chunk) -> Result<()> {
        let rows = chunk.rows;
        let load = self.load("last".into(), chunk);
        let job = self.jobs.run(&load, |job| ready(Ok(Some(job)))).await?;
        check_rows(&job, rows)
    }

    async fn tree(&self, chunks: Vec<Chunk>, levels: &[Vec<usize>], last: Last) -> Result<()> {
        let names = (0..chunks.len()).map(|n| format!("l{n}"));
        let inner = levels
            .iter()
            .enumerate()
            .flat_map(|(level, groups)| (0..groups.len()).map(move |n| format!("c{level}_{n}")));
        let temporary = names
            .chain(inner)
            .map(|step| self.temporary(&step))
            .collect::<Result<Vec<_>>>()?;
        if self.jobs.finished("last").await?.is_none() {
            self.grow(chunks, levels, last).await?;
        }
        delete_tables(self.jobs.client, &temporary).await;
        Ok(())
    }

    async fn grow(&self, chunks: Vec<Chunk>, levels: &[Vec<usize>], last: Last) -> Result<()> {
        let like = match last {
            Last::Copy => self.definition.clone(),
            Last::Query => self.definition.clone().without_partition_filter(),
        };
        let loads = chunks.into_iter().enumerate().map(|(n, chunk)| {
            let rows = chunk.rows;
            (self.load(format!("l{n}"), chunk), rows)
        });
        let mut tables = self.fill(loads.collect(), &like).await?;
        for (level, groups) in levels.iter().enumerate() {
            let mut rest = tables.as_slice();
            let mut copies = Vec::with_capacity(groups.len());
            for (n, group) in groups.iter().enumerate() {
                let sources;
                (sources, rest) = rest.split_at((*group).min(rest.len()));
                copies.push(self.copy(format!("c{level}_{n}"), sources));
            }
            tables = self.fill(copies, &like).await?;
        }
        let (mut work, rows) = self.copy("last".into(), &tables);
        if last == Last::Query {
            let selects: Vec<_> = tables
                .iter()
                .map(|table| format!("SELECT * FROM `{}`", table.table))
                .collect();
            work.work = BulkWork::Query {
                sql: selects.join(" UNION ALL "),
            };
        }
        work.target = self.group.target.clone();
        work.disposition = match (last, self.group.final_disposition()) {
            // The tables are like the destination, so its columns and constraints are
            // taken over from them as they were.
            (Last::Copy, LoadDisposition::TruncateData) => LoadDisposition::Truncate,
            (_, disposition) => disposition,
        };
        let job = self.jobs.run(&work, |job| ready(Ok(Some(job)))).await?;
        check_rows(&job, rows)
    }

    fn copy(&self, step: String, sources: &[Temporary]) -> (Work, u64) {
        let rows = sources.iter().map(|source| source.rows).sum();
        let sources = sources.iter().map(|source| source.table.clone()).collect();
        let work = Work {
            step,
            work: BulkWork::Copy { sources },
            target: self.group.target.clone(),
            disposition: LoadDisposition::Truncate,
        };
        (work, rows)
    }

    /// Does each piece of work into a temporary table of its own. The tables are in
    /// the order of the work.
    async fn fill(&self, work: Vec<(Work, u64)>, like: &TableDefinition) -> Result<Vec<Temporary>> {
        stream::iter(work)
            .map(|(work, rows)| self.fill_one(work, rows, like))
            .buffered(self.wave)
            .try_collect()
            .await
    }

    async fn fill_one(
        &self,
        mut work: Work,
        rows: u64,
        like: &TableDefinition,
    ) -> Result<Temporary> {
        let client = self.jobs.client;
        let table = self.temporary(&work.step)?;
        client
            .create_temporary(&table, like, Utc::now() + LIFETIME)
            .await?;
        work.target = table.clone().into();
        work.disposition = match work.work {
            BulkWork::Load { .. } => LoadDisposition::TruncateData,
            BulkWork::Copy { .. } | BulkWork::Query { .. } => LoadDisposition::Truncate,
        };
        // An earlier attempt may have filled the table so long ago that it expired,
        // and was made anew, empty.
        let still_there = |job: BulkJob| {
            let table = &table;
            async move {
                let known = client.known_rows(table).await?;
                Ok((known == KnownRows::All(rows)).then_some(job))
            }
        };
        let job = self.jobs.run(&work, still_there).await?;
        check_rows(&job, rows)?;
        Ok(Temporary { table, rows })
    }

    fn temporary(&self, step: &str) -> Result<TableRef> {
        let (project, dataset) = &self.temp_dataset;
        TableRef::new(project, dataset, format!("{}_{step}", self.jobs.run))
    }
}

/// Holds what a job says that it wrote against what it was given.
fn check_rows(job: &BulkJob, expected: u64) -> Result<()> {
    match job.rows {
        Some(rows) if rows != expected => Err(Error::data(format!(
            "job {} wrote {rows} rows of {expected}: the staged files were changed, or are not \
             what the service took them for",
            job.reference
        ))),
        _ => Ok(()),
    }
}

/// Deletes temporary tables. One that stays expires.
pub(in crate::sink) async fn delete_tables(client: &Client, tables: &[TableRef]) {
    stream::iter(tables)
        .for_each_concurrent(DELETIONS, |table| async move {
            if let Err(error) = client.delete_table(table).await {
                tracing::warn!(%table, %error, "a temporary table stays until it expires");
            }
        })
        .await;
}

/// Deletes files that were staged and will not be part of a commit, without waiting
/// for it.
pub(in crate::sink) fn discard(shared: &Arc<SinkShared>, files: Vec<String>) {
    if files.is_empty() {
        return;
    }
    let shared = Arc::clone(shared);
    let started = background::spawn(async move { delete_staged(&shared, files.into_iter()).await });
    if let Err(error) = started {
        tracing::warn!(%error, "staged files stay that no commit needs");
    }
}

/// Deletes staged files. One that stays is of no use and does no harm.
async fn delete_staged(shared: &SinkShared, files: impl Iterator<Item = String>) {
    let Some(path) = &shared.options.file_loads.staging_path else {
        return;
    };
    let staging = match shared.client.staging(path, super::PATH_OPTION) {
        Ok(staging) => staging,
        Err(error) => {
            tracing::warn!(%error, "staged files stay that no commit needs");
            return;
        }
    };
    stream::iter(files)
        .for_each_concurrent(DELETIONS, |uri| {
            let staging = &staging;
            async move {
                if let Err(error) = staging.delete(&uri).await {
                    tracing::warn!(uri, %error, "a staged file stays that no commit needs");
                }
            }
        })
        .await;
}
