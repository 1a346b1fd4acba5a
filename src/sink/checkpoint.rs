//! Statements that can be repeated.
//!
//! A statement with the options `sink.checkpoint_path` and `sink.run_id` writes down
//! what its writers have prepared before it commits, and that it has committed. If it
//! is repeated, as after a crash, it finds that:
//!
//! | what is written down | what the repetition does |
//! |---|---|
//! | nothing: nothing is visible | all of it, anew |
//! | what is prepared | only the commit, which may be repeated |
//! | that it is committed | nothing, and answers the same number |
//!
//! So the statement takes effect once, however often it is repeated. Two executions at
//! the same time cannot both write down what they have prepared: the second one finds
//! the note of the first, and fails.

use std::sync::Arc;

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::TaskContext;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
};
use serde::{Deserialize, Serialize};

use super::execution::Execution;
use super::protocol::{BigQuerySink, Committable, Committer};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{RunOptions, StagingPath};

/// A statement that may be repeated.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    options: RunOptions,
    /// Tells the statement from others.
    statement: String,
}

/// What is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "run", rename_all = "snake_case")]
enum Note {
    V1 {
        table: String,
        write_method: String,
        statement: String,
        committables: Vec<Committable>,
        committed: bool,
    },
}

/// Where a note is.
struct Place {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// As the user said it, with the name of the note.
    shown: String,
}

impl Run {
    pub(crate) fn new(options: RunOptions, statement: String) -> Self {
        Self { options, statement }
    }

    /// The name of the run.
    pub(crate) fn id(&self) -> &str {
        &self.options.id
    }

    /// Does what is left to do of the run, and answers how many rows it has written.
    /// `prepare` executes the statement up to its commit.
    pub(super) async fn complete(
        &self,
        execution: &Execution,
        committer: &Committer,
        context: &TaskContext,
        prepare: impl Future<Output = DataFusionResult<Vec<Committable>>>,
    ) -> DataFusionResult<u64> {
        let sink = execution.sink();
        let place = self.place(sink, context)?;
        let note = match place.read().await? {
            Some(note) => {
                self.check(sink, &note, &place)?;
                note
            }
            None => {
                let prepared = prepare.await?;
                // From here on a note may name the files, whatever the answer is.
                execution.begin_commit(&prepared);
                let note = self.note(sink, prepared.clone());
                let created = place.create(&note, self.id()).await;
                if created
                    .as_ref()
                    .is_err_and(|e| e.kind() == ErrorKind::Conflict)
                {
                    execution.call_off(&prepared);
                }
                created?;
                note
            }
        };
        let Note::V1 {
            committables,
            committed,
            ..
        } = &note;
        if *committed {
            tracing::info!(run = self.id(), "the run was committed before");
            return Ok(committables.iter().map(Committable::rows).sum());
        }
        let rows = committer.commit(committables.clone()).await?;
        place.replace(&note.committed()).await?;
        Ok(rows)
    }

    fn note(&self, sink: &BigQuerySink, committables: Vec<Committable>) -> Note {
        Note::V1 {
            table: sink.target(),
            write_method: sink.write_method().name().to_string(),
            statement: self.statement.clone(),
            committables,
            committed: false,
        }
    }

    /// That the note is of this statement.
    fn check(&self, sink: &BigQuerySink, note: &Note, place: &Place) -> Result<()> {
        let Note::V1 {
            table,
            write_method,
            statement,
            ..
        } = note;
        let this_table = sink.target();
        let method = sink.write_method().name();
        let differs = if *table != this_table {
            format!("wrote to {table}, and this one writes to {this_table}")
        } else if write_method != method {
            format!("wrote by '{write_method}', and this one writes by '{method}'")
        } else if *statement != self.statement {
            "was another one".to_string()
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::FailedPrecondition,
            format!(
                "the statement of run '{}' {differs}: give this one another 'sink.run_id', or, if \
                 that run shall be forgotten, remove {}",
                self.id(),
                place.shown
            ),
        ))
    }

    fn place(&self, sink: &BigQuerySink, context: &TaskContext) -> Result<Place> {
        let said = &self.options.path;
        let wrong = |error: DataFusionError| {
            Error::configuration(format!(
                "option 'sink.checkpoint_path' cannot be '{said}': {}",
                error.strip_backtrace()
            ))
        };
        let folder = format!("{}/", said.trim_end_matches('/'));
        let url = ListingTableUrl::parse(&folder).map_err(wrong)?;
        let store = match context.runtime_env().object_store(url.object_store()) {
            Ok(store) => store,
            // The identity that writes the rows reaches Cloud Storage in any session.
            Err(_) => match said.parse::<StagingPath>() {
                Ok(path) => sink.shared.client.bucket(&path)?,
                Err(_) => {
                    return Err(Error::configuration(format!(
                        "option 'sink.checkpoint_path' cannot be '{said}': the session has no \
                         object store for {}; it is a directory, gs://bucket/prefix, or a URL of an \
                         object store that is registered with the session",
                        url.object_store().as_str()
                    )));
                }
            },
        };
        let name = format!("{}.json", self.id());
        Ok(Place {
            store,
            path: url.prefix().clone().join(name.as_str()),
            shown: format!("{folder}{name}"),
        })
    }
}

impl Note {
    fn committed(self) -> Self {
        let Note::V1 {
            table,
            write_method,
            statement,
            committables,
            ..
        } = self;
        Note::V1 {
            table,
            write_method,
            statement,
            committables,
            committed: true,
        }
    }

    fn text(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                format!("what a run has prepared cannot be written down: {error}"),
            )
        })
    }
}

impl Place {
    async fn read(&self) -> Result<Option<Note>> {
        let found = match self.store.get(&self.path).await {
            Ok(found) => found.bytes().await,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => Err(error),
        };
        let text = found.map_err(|error| self.failed("read", error))?;
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            Error::data(format!(
                "{} is not what a run has written down ({error}): remove it if no run needs it",
                self.shown
            ))
        })
    }

    /// Writes the note, unless there is one by now.
    async fn create(&self, note: &Note, run: &str) -> Result<()> {
        let options = PutOptions::from(PutMode::Create);
        let put = self
            .store
            .put_opts(&self.path, note.text()?.into(), options)
            .await;
        match put {
            Ok(_) => Ok(()),
            // An attempt whose answer was lost may have written it.
            Err(StoreError::AlreadyExists { .. }) if self.read().await?.as_ref() == Some(note) => {
                Ok(())
            }
            Err(StoreError::AlreadyExists { .. }) => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "run '{run}' was executed twice at the same time, and the other execution was \
                     first: nothing of this one is visible; repeat it to learn how the other ended"
                ),
            )),
            Err(error) => Err(self.failed("written", error)),
        }
    }

    async fn replace(&self, note: &Note) -> Result<()> {
        let put = self.store.put(&self.path, note.text()?.into()).await;
        match put {
            Ok(_) => Ok(()),
            Err(error) => Err(self
                .failed("written", error)
                .with_context("the statement is committed, and this could not be noted")),
        }
    }

    fn failed(&self, what: &str, error: StoreError) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!("{} cannot be {what}: {error}", self.shown),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written down stays readable: this text is what earlier versions wrote.
    #[test]
    fn the_stored_form_does_not_change() {
        let note = Note::V1 {
            table: "p.d.t".into(),
            write_method: "storage_api_atomic".into(),
            statement: "ab12".into(),
            committables: vec![Committable::StorageApiAtomicV1 {
                table: "p.d.t".into(),
                stream: "s".into(),
                rows: 7,
            }],
            committed: false,
        };
        let text = r#"{"run":"v1","table":"p.d.t","write_method":"storage_api_atomic","statement":"ab12","committables":[{"committable":"storage_api_atomic_v1","table":"p.d.t","stream":"s","rows":7}],"committed":false}"#;
        assert_eq!(note.text().unwrap(), text.as_bytes());
        assert_eq!(serde_json::from_str::<Note>(text).unwrap(), note);
        let after = String::from_utf8(note.committed().text().unwrap()).unwrap();
        assert_eq!(
            after,
            text.replace("\"committed\":false", "\"committed\":true")
        );
    }
}
