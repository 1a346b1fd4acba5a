//! Looking after the table that changes go to, before the first one is sent: it is
//! created where there is none, verified, and on request reconciled.

use std::time::Duration;

use super::key;
use super::mark::{Mark, PENDING_LABEL};
use super::staleness;
use super::statements::Statements;
use crate::client::Client;
use crate::client::rest::create::{Created, NewTable};
use crate::client::rest::model::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{
    CdcOptions, CreateDisposition, Staleness, TableCreateOptions, TableReconciliation,
};
use crate::sink::{Made, ReadyTable, not_created};
use crate::types::{Mode, TableRef, TableSchema};

/// What a table has to be like.
#[derive(Debug)]
pub(super) struct Upkeep {
    pub(super) client: Client,
    pub(super) table: TableRef,
    /// The columns of its key.
    pub(super) key: Vec<String>,
    /// Its columns as the statement was planned with, or as it is created with.
    pub(super) columns: TableSchema,
    pub(super) options: CdcOptions,
    pub(super) absent: Absent,
    pub(super) statements: Statements,
    /// What marks the table while the steps are done that lead to its staleness.
    pub(super) mark: Mark,
    /// How long to wait for what another writer does.
    pub(super) patience: Duration,
}

/// Between looks at a table that another writer is at.
const LOOK: Duration = Duration::from_millis(250);

/// How long to wait at most for another writer, which needs a few statements.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// What becomes of a table that does not exist.
#[derive(Debug)]
pub(super) enum Absent {
    /// It is created.
    Created(TableCreateOptions),
    /// Nothing is written.
    Refused(CreateDisposition),
}

impl Upkeep {
    /// Makes sure that the table is there with its key and its staleness. Every step can
    /// be repeated, and what an interrupted one left behind is found again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no table and none is to be created;
    /// [`ErrorKind::FailedPrecondition`] when it is not as it has to be, and is not to be
    /// changed.
    pub(super) async fn make_ready(&self) -> Result<ReadyTable> {
        let ready = match (self.client.get_table(&self.table).await, &self.absent) {
            (Ok(found), Absent::Refused(_)) => self.take(found).await,
            (Ok(_), Absent::Created(_)) => self.take_from_others().await,
            (Err(error), _) if error.kind() != ErrorKind::NotFound => Err(error),
            (Err(_), Absent::Created(terms)) => self.create(terms).await,
            (Err(missing), Absent::Refused(disposition)) => {
                return Err(not_created(&self.table, *disposition, missing));
            }
        };
        ready.map_err(|error| error.with_context(format!("preparing {} for changes", self.table)))
    }

    async fn create(&self, terms: &TableCreateOptions) -> Result<ReadyTable> {
        let mut terms = terms.clone();
        // The staleness is a step of its own, after which nothing is left to be done.
        if let Staleness::AtMost(_) = self.options.staleness {
            let label = (PENDING_LABEL.to_string(), self.mark.value().to_string());
            terms.labels.push(label);
        }
        let new = NewTable {
            columns: &self.columns,
            primary_key: &self.key,
            terms: &terms,
        };
        match self.client.create_table(&self.table, new).await? {
            Created::Now(created) => {
                tracing::info!(table = %self.table, "the table was created");
                self.complete(*created).await
            }
            Created::Before => self.take_from_others().await,
        }
    }

    /// The table when no writer is at it any more, under `verify_only`, which leaves to
    /// others what they have begun. Their steps take milliseconds, or a writer has stopped
    /// between them: so the looks come soon after each other, and not for long.
    ///
    /// # Errors
    /// [`ErrorKind::FailedPrecondition`] when the mark is still there.
    async fn settled(&self, found: Table) -> Result<Table> {
        let clock = self.client.clock();
        let begun = clock.now();
        let mut found = found;
        while let Some(pending) = Mark::of(&found)
            && pending != self.mark
        {
            let waited = clock.now().saturating_duration_since(begun);
            let Some(left) = self.patience.checked_sub(waited).filter(|t| !t.is_zero()) else {
                return Err(interrupted(&pending));
            };
            clock.sleep(LOOK.min(left)).await;
            found = self.client.get_table(&self.table).await?;
        }
        Ok(found)
    }

    /// A table that was to be created and is there: by another writer, which may be at it
    /// still, or by an attempt of this one whose answer was lost.
    async fn take_from_others(&self) -> Result<ReadyTable> {
        let found = self.client.get_table(&self.table).await?;
        if Mark::of(&found).as_ref() == Some(&self.mark) {
            return self.complete(found).await;
        }
        let ready = self.take(found).await?;
        // It is as new as one that was created here.
        Ok(ReadyTable {
            made: Made::Change,
            ..ready
        })
    }

    /// Does what is left to be done for a table that was created here.
    async fn complete(&self, created: Table) -> Result<ReadyTable> {
        let mut table = created;
        if Mark::of(&table).is_some() {
            self.set_staleness(self.options.staleness).await?;
            table = self.unmark(self.options.staleness).await?;
        }
        Ok(ReadyTable {
            table,
            made: Made::Table,
        })
    }

    /// A table that was there before.
    async fn take(&self, found: Table) -> Result<ReadyTable> {
        let found = match self.options.reconciliation {
            TableReconciliation::VerifyOnly => self.settled(found).await?,
            TableReconciliation::Reconcile => found,
        };
        self.check_columns(&found)?;
        if !found.primary_key.is_empty() && !key::same(&found.primary_key, &self.key) {
            return Err(self.other_key(&found.primary_key));
        }
        match self.options.reconciliation {
            TableReconciliation::VerifyOnly => {
                self.verify(&found).await?;
                Ok(ReadyTable {
                    table: found,
                    made: Made::Nothing,
                })
            }
            TableReconciliation::Reconcile => self.reconcile(found).await,
        }
    }

    async fn verify(&self, found: &Table) -> Result<()> {
        if found.primary_key.is_empty() {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "it has no primary key, and ({}) is declared: set option \
                     'sink.cdc.table_reconciliation' to 'reconcile' to add it",
                    self.key.join(", ")
                ),
            ));
        }
        let wanted = self.options.staleness;
        match self.differing_staleness(wanted).await? {
            None => Ok(()),
            Some(shown) => Err(differs(
                wanted,
                &shown,
                "set it in BigQuery, or set option 'sink.cdc.table_reconciliation' to 'reconcile'",
            )),
        }
    }

    async fn reconcile(&self, found: Table) -> Result<ReadyTable> {
        let pending = Mark::of(&found);
        let wanted = self.wanted(pending.as_ref())?;
        let keyless = found.primary_key.is_empty();
        let stale = self.differing_staleness(wanted).await?.is_some();
        let marked = match &pending {
            Some(pending) if pending.leads_to(wanted) => true,
            // What others began leads elsewhere from now on.
            Some(_) => {
                self.put_mark().await?;
                true
            }
            None if keyless && stale => {
                self.put_mark().await?;
                true
            }
            // One step is done or not.
            None => false,
        };
        let mut table = found;
        if keyless {
            table = self.add_key().await?;
        }
        if stale {
            self.set_staleness(wanted).await?;
        }
        if marked {
            table = self.unmark(wanted).await?;
        }
        Ok(ReadyTable {
            table,
            made: match keyless {
                true => Made::Change,
                false => Made::Nothing,
            },
        })
    }

    /// Where the steps lead to: what the options say comes first, and where they say
    /// nothing an interrupted reconciliation is completed.
    fn wanted(&self, pending: Option<&Mark>) -> Result<Staleness> {
        match (self.options.staleness, pending) {
            (Staleness::Unmanaged, Some(pending)) => pending.staleness().ok_or_else(|| {
                Error::new(
                    ErrorKind::FailedPrecondition,
                    format!(
                        "its label '{PENDING_LABEL}' is '{}', which does not say what was to be \
                         done: set option 'sink.cdc.max_staleness' or \
                         'sink.cdc.clear_max_staleness', or take the label away",
                        pending.value()
                    ),
                )
            }),
            (own, _) => Ok(own),
        }
    }

    async fn add_key(&self) -> Result<Table> {
        let added = self.statements.add_key(&self.key).await;
        let table = self.client.get_table(&self.table).await?;
        match (key::same(&table.primary_key, &self.key), added) {
            // By this statement, or by another writer's.
            (true, _) => Ok(table),
            (false, Err(error)) => Err(error),
            (false, Ok(())) => Err(self.other_key(&table.primary_key)),
        }
    }

    async fn set_staleness(&self, wanted: Staleness) -> Result<()> {
        self.statements.set_staleness(wanted).await?;
        match self.differing_staleness(wanted).await? {
            None => Ok(()),
            Some(shown) => Err(differs(
                wanted,
                &shown,
                "it was set and is not there; another writer may set it too",
            )),
        }
    }

    /// The table's staleness, if it is not the one that is wanted.
    async fn differing_staleness(&self, wanted: Staleness) -> Result<Option<String>> {
        if wanted == Staleness::Unmanaged {
            return Ok(None);
        }
        let shown = self.statements.shown_staleness().await?;
        match staleness::is(wanted, shown.as_deref()) {
            true => Ok(None),
            false => Ok(Some(shown.unwrap_or_else(|| "none".to_string()))),
        }
    }

    async fn put_mark(&self) -> Result<()> {
        let label = |_: &Table| {
            let value = Some(self.mark.value().to_string());
            vec![(PENDING_LABEL.to_string(), value)]
        };
        self.client.change_labels(&self.table, label).await?;
        Ok(())
    }

    /// Takes the mark away, unless another writer is on its way elsewhere.
    async fn unmark(&self, wanted: Staleness) -> Result<Table> {
        let label = |found: &Table| match Mark::of(found) {
            Some(mark) if mark.leads_to(wanted) => vec![(PENDING_LABEL.to_string(), None)],
            _ => Vec::new(),
        };
        self.client.change_labels(&self.table, label).await
    }

    /// That columns are of the types that they were planned with: of the key always,
    /// because equal values of one type may differ as another, and all of them where the
    /// table was to be created and another writer was first.
    fn check_columns(&self, found: &Table) -> Result<()> {
        for column in &self.columns.fields {
            let is_key = self.key.iter().any(|name| column.is_named(name));
            if !is_key && matches!(self.absent, Absent::Refused(_)) {
                continue;
            }
            let live = found.schema.field(&column.name);
            let alike = live.is_some_and(|live| {
                let repeated = |mode| mode == Mode::Repeated;
                live.field_type == column.field_type && repeated(live.mode) == repeated(column.mode)
            });
            if alike {
                continue;
            }
            let is = live.map_or("is not there".to_string(), |live| {
                format!("is {}", live.field_type)
            });
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "its column {} {is} by now, and was {} when the statement was planned: declare \
                     the table again",
                    column.name, column.field_type
                ),
            ));
        }
        Ok(())
    }

    fn other_key(&self, live: &[String]) -> Error {
        Error::new(
            ErrorKind::FailedPrecondition,
            format!(
                "its primary key is ({}) and was ({}) when the statement was planned: declare the \
                 table again",
                live.join(", "),
                self.key.join(", ")
            ),
        )
    }
}

/// The error for a table whose reconciliation has not ended.
fn interrupted(pending: &Mark) -> Error {
    Error::new(
        ErrorKind::FailedPrecondition,
        format!(
            "a reconciliation of it has begun and not ended (its label '{PENDING_LABEL}' is '{}'): \
             wait if another writer is at it; otherwise set option \
             'sink.cdc.table_reconciliation' to 'reconcile' to complete it",
            pending.value()
        ),
    )
}

fn differs(wanted: Staleness, shown: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::FailedPrecondition,
        format!(
            "its max_staleness is {shown} and the options say {}: {what}",
            staleness::words(wanted)
        ),
    )
}
