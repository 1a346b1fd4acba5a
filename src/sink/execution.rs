//! What the nodes of one execution of an INSERT know of each other besides what flows
//! between them.
//!
//! The commit asks the writers for a checkpoint by it, in a plan that commits from time
//! to time; and it knows of each file that is staged and not yet part of a commit, so
//! that they are deleted when none comes. It goes from the commit to the writers with
//! the [`TaskContext`], because a plan may be executed several times at once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::execution::TaskContext;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::protocol::{BigQuerySink, Committable, Committer};
use super::{load, overwrite};
use crate::error::Result;

/// One execution.
pub(super) struct Execution {
    sink: BigQuerySink,
    /// How many checkpoints were asked for.
    asked: watch::Sender<u64>,
    /// The writers that have begun and not ended.
    writers: Mutex<BTreeSet<usize>>,
    handed: Mutex<Handed>,
}

/// The staged files that writers have handed over.
enum Handed {
    /// Those that no commit has begun with.
    Waiting(BTreeSet<String>),
    /// There will be no commit any more.
    Over,
}

impl Execution {
    /// An execution whose writers write to `sink`.
    pub(super) fn new(sink: BigQuerySink) -> Self {
        Self {
            sink,
            asked: watch::Sender::new(0),
            writers: Mutex::default(),
            handed: Mutex::new(Handed::Waiting(BTreeSet::new())),
        }
    }

    /// The execution that a writer is part of; None when something else than this
    /// library's commit executes it.
    pub(super) fn of(context: &TaskContext) -> Option<Arc<Self>> {
        context.session_config().get_extension()
    }

    /// The context for the writers.
    pub(super) fn within(self: &Arc<Self>, context: &TaskContext) -> Arc<TaskContext> {
        let config = context.session_config().clone();
        Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            config.with_extension(Arc::clone(self)),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        ))
    }

    /// A writer begins. It learns of checkpoints by the receiver, and need not answer
    /// those up to the number.
    pub(super) fn enter(&self, writer: usize) -> (watch::Receiver<u64>, u64) {
        let mut writers = self.writers.lock();
        writers.insert(writer);
        let asked = self.asked.subscribe();
        let before = *asked.borrow();
        (asked, before)
    }

    /// A writer has given out the last that it has.
    pub(super) fn leave(&self, writer: usize) {
        self.writers.lock().remove(&writer);
    }

    /// What is written to.
    pub(super) fn sink(&self) -> &BigQuerySink {
        &self.sink
    }

    /// Asks every writer for what it has to commit, and says which those are. One that
    /// begins later has nothing yet.
    pub(super) fn ask(&self) -> BTreeSet<usize> {
        let writers = self.writers.lock();
        self.asked.send_modify(|asked| *asked += 1);
        writers.clone()
    }

    /// A writer gives this out.
    pub(super) fn hand_over(&self, committables: &[Committable]) {
        let over = match &mut *self.handed.lock() {
            Handed::Waiting(files) => {
                files.extend(files_of(committables));
                false
            }
            Handed::Over => true,
        };
        if over {
            load::discard(&self.sink.shared, files_of(committables).collect());
        }
    }

    /// A commit of this begins: from now on its files are needed to repeat it.
    pub(super) fn begin_commit(&self, committables: &[Committable]) {
        if let Handed::Waiting(files) = &mut *self.handed.lock() {
            for file in files_of(committables) {
                files.remove(&file);
            }
        }
    }

    /// The commit did not begin after all, and nobody will make it.
    pub(super) fn call_off(&self, committables: &[Committable]) {
        self.hand_over(committables);
    }

    /// Commits, and learns how many rows are written by it. Nothing but this execution
    /// knows what was prepared: where the service refuses it for good, it is deleted.
    pub(super) async fn commit(
        &self,
        committer: &Committer,
        prepared: Vec<Committable>,
    ) -> Result<u64> {
        self.begin_commit(&prepared);
        let refused = match committer.commit(prepared.clone()).await {
            Err(error) if load::is_final(&error) => error,
            Err(error) if error.may_have_applied() => {
                return Err(error.with_context(
                    "rows of the statement may be visible: look before it is repeated, or give \
                     statements that are repeated the options 'sink.run_id' and \
                     'sink.checkpoint_path'",
                ));
            }
            committed => return committed,
        };
        let files: Vec<_> = files_of(&prepared).collect();
        let refused = match files.is_empty() {
            true => refused,
            false => refused.with_context("nothing is written, and the staged files are deleted"),
        };
        load::discard(&self.sink.shared, files);
        overwrite::discard(&self.sink.shared, &prepared);
        Err(refused)
    }

    fn give_up(&self) {
        let handed = std::mem::replace(&mut *self.handed.lock(), Handed::Over);
        if let Handed::Waiting(files) = handed {
            load::discard(&self.sink.shared, files.into_iter().collect());
        }
    }
}

fn files_of(committables: &[Committable]) -> impl Iterator<Item = String> + '_ {
    committables
        .iter()
        .filter_map(|committable| match committable {
            Committable::FileLoadsV1(loads) => Some(&loads.files),
            _ => None,
        })
        .flatten()
        .map(|file| file.uri.clone())
}

/// Deletes what was staged for nothing when the commit of an execution ends, however
/// it ends.
pub(super) struct Committing(pub(super) Arc<Execution>);

impl Drop for Committing {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}
