//! What becomes of rows that cannot be written.
//!
//! A row fails where its table is found, where it is encoded (a value that its column
//! cannot hold), where requests are cut (a row larger than any request), or at the
//! service. Wherever it is, the same rule decides, and only the failing rows are
//! affected: the others of their request are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;

use super::dead_letter::{DeadLetter, DeadLetters};
use super::metrics::SinkCounters;
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{FailureOptions, FailurePolicy};

/// So many failing rows are told one by one; the rest are only counted.
const TOLD: u64 = 100;

/// A row that cannot be written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FailedRow {
    /// Which, counted from 1 in what its writer was given.
    pub(crate) row: u64,
    /// The column at fault, if that is known.
    pub(crate) column: Option<String>,
    /// What is wrong.
    pub(crate) message: String,
    /// The row itself, where it is kept.
    pub(crate) content: Option<Content>,
}

/// What a row is, for those who look at it later.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// A batch of this row only.
    Row(RecordBatch),
    /// What a resolver of destinations made of it.
    Text(String),
}

impl Content {
    /// A row of a batch.
    pub(crate) fn of(batch: &RecordBatch, row: usize) -> Self {
        Content::Row(batch.slice(row, 1))
    }
}

/// The rule for all writers of a sink.
#[derive(Debug)]
pub(crate) struct FailureHandler {
    options: FailureOptions,
    /// Rows left out so far, by all writers.
    dropped: AtomicU64,
    letters: Option<DeadLetters>,
}

impl FailureHandler {
    /// The rule of a sink that writes through `client`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when dead letters cannot go where the options say.
    pub(crate) fn new(options: FailureOptions, client: &Client) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            letters: DeadLetters::new(&options, client)?,
            options,
            dropped: AtomicU64::new(0),
        }))
    }

    /// Whether rows that fail are wanted with their content.
    pub(crate) fn keeps_rows(&self) -> bool {
        self.letters.is_some()
    }

    /// Whether rows that fail may be left out at all.
    pub(crate) fn leaves_out(&self) -> bool {
        self.options.policy != FailurePolicy::Fail
    }

    /// Before the first row: makes sure that dead letters have a place.
    pub(crate) async fn check(&self) -> Result<()> {
        match &self.letters {
            Some(letters) => letters.check().await,
            None => Ok(()),
        }
    }

    /// Before a commit, after all rows were written: dead letters are delivered.
    pub(crate) async fn flush(&self) -> Result<()> {
        match &self.letters {
            Some(letters) => letters.flush().await,
            None => Ok(()),
        }
    }

    /// At the end of a writer.
    pub(crate) async fn shut_down(&self) -> Result<()> {
        match &self.letters {
            Some(letters) => letters.shut_down().await,
            None => Ok(()),
        }
    }

    /// Decides over rows that writer `subtask` had for `destination`, which is a table
    /// or what should have named one. Ok leaves them out and counts them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the first of them, when they must not
    /// be left out; and what keeps a dead letter from being delivered.
    pub(crate) async fn handle(
        &self,
        destination: &str,
        subtask: usize,
        failed: &[FailedRow],
        counters: &SinkCounters,
    ) -> Result<()> {
        if failed.is_empty() {
            return Ok(());
        }
        for failed in failed {
            let reason = match self.options.policy {
                FailurePolicy::Fail => return Err(self.error(subtask, failed, "")),
                FailurePolicy::Drop => "a row cannot be written and is left out",
                FailurePolicy::DeadLetter => "a row cannot be written and becomes a dead letter",
            };
            let before = self.dropped.fetch_add(1, Ordering::Relaxed);
            if let Some(most) = self.options.max_rows
                && before >= u64::from(most)
            {
                let more =
                    format!("; at most {most} may be left out (option 'sink.failure.max_rows')");
                return Err(self.error(subtask, failed, &more));
            }
            if before < TOLD {
                tracing::warn!(
                    table = destination,
                    row = failed.row,
                    partition = subtask,
                    column = failed.column.as_deref().unwrap_or_default(),
                    reason = failed.message,
                    "{reason}"
                );
            }
        }
        if let Some(letters) = &self.letters {
            let made = failed.iter();
            let made = made.map(|failed| DeadLetter::new(destination, subtask, failed));
            letters.add(made.collect()).await?;
        }
        let more = u64::try_from(failed.len()).unwrap_or(u64::MAX);
        counters.skipped.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    fn error(&self, subtask: usize, failed: &FailedRow, more: &str) -> Error {
        let partition = match subtask {
            0 => String::new(),
            other => format!(" of partition {other}"),
        };
        let column = match &failed.column {
            Some(column) => format!(", column '{column}'"),
            None => String::new(),
        };
        Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "row {}{partition}{column} cannot be written: {}{more}",
                failed.row, failed.message
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ConnectionOptions;

    fn handler(policy: FailurePolicy, max_rows: Option<u32>) -> Arc<FailureHandler> {
        let options = FailureOptions {
            policy,
            max_rows,
            ..FailureOptions::default()
        };
        let client = Client::new(&ConnectionOptions::default()).unwrap();
        FailureHandler::new(options, &client).unwrap()
    }

    const TABLE: &str = "p.d.t";

    fn failed(row: u64) -> FailedRow {
        FailedRow {
            row,
            column: Some("at".into()),
            message: "too fine".into(),
            content: None,
        }
    }

    #[tokio::test]
    async fn fail_names_the_row_and_the_column() {
        let counters = SinkCounters::default();
        let error = handler(FailurePolicy::Fail, None)
            .handle(TABLE, 0, &[failed(7)], &counters)
            .await
            .unwrap_err();
        assert_eq!(
            error.message(),
            "row 7, column 'at' cannot be written: too fine"
        );
        let error = handler(FailurePolicy::Fail, None)
            .handle(TABLE, 3, &[failed(7)], &counters)
            .await
            .unwrap_err();
        assert!(error.message().contains("row 7 of partition 3"), "{error}");
    }

    #[tokio::test]
    async fn drop_goes_on_up_to_the_limit() {
        let counters = SinkCounters::default();
        let handler = handler(FailurePolicy::Drop, Some(2));
        handler
            .handle(TABLE, 0, &[failed(1)], &counters)
            .await
            .unwrap();
        handler
            .handle(TABLE, 1, &[failed(1)], &counters)
            .await
            .unwrap();
        let error = handler
            .handle(TABLE, 0, &[failed(9)], &counters)
            .await
            .unwrap_err();
        assert_eq!(counters.skipped(), 2);
        for part in ["row 9", "at most 2", "sink.failure.max_rows"] {
            assert!(error.message().contains(part), "{error}");
        }
    }
}
