//! The writer behind `file_loads`.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::task::JoinSet;

use super::{LoadTarget, StagedFile};
use crate::client::staging::Staging;
use crate::error::{Error, ErrorKind, Result};
use crate::options::StagingPath;
use crate::sink::failure::{Content, FailedRow};
use crate::sink::metrics::SinkCounters;
use crate::sink::numbered::Numbered;
use crate::sink::protocol::{Committable, FileLoads, WriterState};
use crate::sink::writer::{Destination, SinkShared, TableWriter};
use crate::types::encode::{FileFull, FileRows, FileWriter};

/// Stages rows as files. Nothing of them is visible before the commit.
#[derive(Debug)]
pub(in crate::sink) struct LoadWriter {
    shared: Arc<SinkShared>,
    destination: Arc<Destination>,
    target: Arc<LoadTarget>,
    subtask: usize,
    path: StagingPath,
    /// Set up for the first file: a writer without rows asks nothing of anyone.
    staging: Option<Staging>,
    /// Below this name are this writer's files, and nobody else's.
    folder: String,
    next_file: usize,
    open: Option<FileWriter>,
    /// Dropping them ends them.
    uploads: JoinSet<Result<StagedFile>>,
    /// Files that no commit knows yet.
    staged: Vec<StagedFile>,
    /// Their addresses, and those of files that are being uploaded.
    named: Vec<String>,
    counters: Arc<SinkCounters>,
}

impl LoadWriter {
    pub(in crate::sink) fn new(
        shared: Arc<SinkShared>,
        destination: Arc<Destination>,
        target: Arc<LoadTarget>,
        subtask: usize,
        counters: Arc<SinkCounters>,
    ) -> Result<Self> {
        let Some(path) = shared.options.file_loads.staging_path.clone() else {
            return Err(Error::configuration(
                "write method file_loads needs option 'sink.file_loads.staging_path'",
            ));
        };
        let folder = format!("datafusion-{:032x}", rand::random::<u128>());
        Ok(LoadWriter {
            shared,
            destination,
            target,
            subtask,
            path,
            staging: None,
            folder,
            next_file: 0,
            open: None,
            uploads: JoinSet::new(),
            staged: Vec::new(),
            named: Vec::new(),
            counters,
        })
    }

    fn staging(&mut self) -> Result<Staging> {
        if let Some(staging) = &self.staging {
            return Ok(staging.clone());
        }
        let staging = self.shared.client.staging(&self.path, super::PATH_OPTION)?;
        self.staging = Some(staging.clone());
        Ok(staging)
    }

    async fn add(&mut self, rows: &FileRows) -> Result<()> {
        let limit = self.shared.options.file_loads.max_staging_file_bytes;
        let mut next = 0;
        while next < rows.len() {
            let file = match &mut self.open {
                Some(file) => file,
                open => open.insert(self.target.encoder.start()?),
            };
            let full;
            (next, full) = file.write(rows, next, limit)?;
            if full == FileFull::Full {
                self.finalize().await?;
            }
        }
        Ok(())
    }

    /// Ends the open file and begins to upload it.
    async fn finalize(&mut self) -> Result<()> {
        let Some(file) = self.open.take() else {
            return Ok(());
        };
        let most = self.shared.options.file_loads.max_concurrent_finalizations;
        while self.uploads.len() >= most {
            self.uploaded().await?;
        }
        let staging = self.staging()?;
        let name = format!(
            "{}/{:05}-{:06}.{}",
            self.folder,
            self.subtask,
            self.next_file,
            self.target.format().name()
        );
        self.next_file += 1;
        self.named.push(staging.uri(&name));
        self.uploads.spawn(async move {
            let file = file.finish()?;
            let bytes = u64::try_from(file.size()).unwrap_or(u64::MAX);
            let uri = staging.put(&name, file.parts.into_iter().collect()).await?;
            Ok(StagedFile {
                uri,
                bytes,
                rows: file.rows,
            })
        });
        Ok(())
    }

    /// Waits for an upload, if there is one.
    async fn uploaded(&mut self) -> Result<()> {
        let file = match self.uploads.join_next().await {
            None => return Ok(()),
            Some(Ok(outcome)) => outcome?,
            Some(Err(error)) => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    "the task that writes a staged file ended early",
                )
                .with_source(error));
            }
        };
        self.counters.staged(&file);
        self.staged.push(file);
        Ok(())
    }

    async fn take(&mut self, given: &Numbered) -> Result<()> {
        let batch = &given.rows;
        let rows = self.target.encode(batch)?;
        if !rows.errors().is_empty() {
            let keeps = self.shared.failures.keeps_rows();
            let failed: Vec<_> = rows
                .errors()
                .iter()
                .map(|error| FailedRow {
                    row: given.numbers.of(error.row),
                    column: Some(error.column.clone()).filter(|column| !column.is_empty()),
                    message: error.message.clone(),
                    content: keeps.then(|| Content::of(batch, error.row)),
                })
                .collect();
            self.handle(&failed).await?;
        }
        self.add(&rows).await
    }

    async fn drain(&mut self) -> Result<()> {
        self.finalize().await?;
        while !self.uploads.is_empty() {
            self.uploaded().await?;
        }
        Ok(())
    }

    fn of_table(&self, error: Error) -> Error {
        error.with_context(format!("writing table {}", self.destination.table))
    }

    async fn handle(&mut self, failed: &[FailedRow]) -> Result<()> {
        let table = self.destination.table.to_string();
        let failures = &self.shared.failures;
        failures
            .handle(&table, self.subtask, failed, &self.counters)
            .await
    }
}

#[async_trait]
impl TableWriter for LoadWriter {
    async fn write(&mut self, rows: Numbered) -> Result<()> {
        let outcome = self.take(&rows).await;
        outcome.map_err(|error| self.of_table(error))
    }

    async fn flush(&mut self) -> Result<()> {
        let outcome = self.drain().await;
        outcome.map_err(|error| self.of_table(error))
    }

    async fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        self.flush().await?;
        // Replacing a table's rows by none takes a file without rows.
        if self.staged.is_empty() && self.target.disposition.replaces() {
            self.open = Some(self.target.encoder.start()?);
            self.flush().await?;
        }
        let mut files = std::mem::take(&mut self.staged);
        self.named.clear();
        if files.is_empty() {
            return Ok(Vec::new());
        }
        files.sort_by(|one, other| one.uri.cmp(&other.uri));
        Ok(vec![Committable::FileLoadsV1(FileLoads {
            table: self.destination.table.to_string(),
            partition: self.target.partition.clone(),
            disposition: self.target.disposition.name().to_string(),
            format: self.target.format().name().to_string(),
            columns: self.target.encoder.columns().to_vec(),
            files,
        })])
    }

    fn snapshot(&self) -> WriterState {
        WriterState::FileLoadsV1 {}
    }
}

impl Drop for LoadWriter {
    /// Files that no commit will ever name are deleted as far as that is possible.
    fn drop(&mut self) {
        self.uploads.abort_all();
        super::discard(&self.shared, std::mem::take(&mut self.named));
    }
}
