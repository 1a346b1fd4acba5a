//! What a statement sees besides its text: tables, parameters, variables and
//! functions.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::super::functions::SqlType;
use super::super::request::{Applying, DmlStats, StatementOutcome};
use super::ast::{CreateFunction, CreateProcedure, Path};
use super::ddl::Done;
use super::insert::Changed;
use super::rewrite::Rewritten;
use super::routines;
use super::scan::Meter;
use super::session::{cancellation, stopped};
use crate::error::{Reason, Result, ServiceError};
use crate::server::Service;
use crate::store::{DatasetRef, Mutation, Segment, Snapshot, State, Table, TableMeta, TableRef};

/// A value with its type: a parameter, a variable, a constant.
#[derive(Debug, Clone)]
pub(super) struct Constant {
    pub(super) ty: SqlType,
    pub(super) value: ScalarValue,
}

/// See the module.
pub(super) struct Env {
    pub(super) service: Arc<Service>,
    pub(super) context: SessionContext,
    pub(super) project: String,
    pub(super) location: String,
    pub(super) default_dataset: RefCell<Option<DatasetRef>>,
    pub(super) named: HashMap<String, Constant>,
    pub(super) positional: Vec<Constant>,
    /// Script variables by lower-case name, innermost block last.
    pub(super) variables: RefCell<Vec<HashMap<String, Constant>>>,
    /// Temporary functions of this script by lower-case name.
    pub(super) functions: RefCell<BTreeMap<String, Arc<CreateFunction>>>,
    /// Temporary tables by lower-case name.
    pub(super) temporary: RefCell<BTreeMap<String, TableRef>>,
    pub(super) dry_run: bool,
    /// Snapshots that the statement already took.
    pub(super) snapshots: RefCell<BTreeMap<TableRef, Snapshot>>,
    /// Tables that the statement read.
    pub(super) referenced: RefCell<Vec<TableRef>>,
    pub(super) bytes: Meter,
    /// The statement's time, in microseconds since the epoch.
    pub(super) now: Cell<i64>,
    ids: Cell<u64>,
    pub(super) transaction: RefCell<Option<Transaction>>,
    /// Set when a change lost against another one and can be computed again.
    pub(super) conflict: Cell<bool>,
    /// Views being expanded, for cycles.
    pub(super) views: RefCell<Vec<TableRef>>,
    /// What the change of the statement carries besides.
    pub(super) applying: Option<Applying>,
}

impl Env {
    pub(super) fn new(
        service: Arc<Service>,
        context: SessionContext,
        project: String,
        location: String,
        default_dataset: Option<DatasetRef>,
    ) -> Self {
        Self {
            service,
            context,
            project,
            location,
            default_dataset: RefCell::new(default_dataset),
            named: HashMap::new(),
            positional: Vec::new(),
            variables: RefCell::new(vec![HashMap::new()]),
            functions: RefCell::default(),
            temporary: RefCell::default(),
            dry_run: false,
            snapshots: RefCell::default(),
            referenced: RefCell::default(),
            bytes: Meter::default(),
            now: Cell::new(crate::store::micros_now()),
            ids: Cell::new(0),
            transaction: RefCell::default(),
            conflict: Cell::new(false),
            views: RefCell::default(),
            applying: None,
        }
    }

    /// A column id that nothing else has.
    pub(super) fn id(&self) -> String {
        self.ids.set(self.ids.get() + 1);
        format!("c{}", self.ids.get())
    }

    /// Forgets what belonged to the previous statement.
    pub(super) fn begin_statement(&self) {
        self.snapshots.borrow_mut().clear();
        self.referenced.borrow_mut().clear();
        self.bytes.reset();
        self.now.set(crate::store::micros_now());
    }

    /// The function that is called `name` (lower case).
    pub(super) fn function(&self, name: &str) -> Option<Arc<CreateFunction>> {
        if let Some(function) = self.functions.borrow().get(name) {
            return Some(Arc::clone(function));
        }
        let key = self.qualified(name)?;
        self.function_at(&key)
    }

    /// The function with this key.
    pub(super) fn function_at(&self, key: &str) -> Option<Arc<CreateFunction>> {
        let known = self.functions.borrow().get(key).cloned();
        known.or_else(|| routines::function(self, key))
    }

    /// The procedure that is called `name` (lower case).
    pub(super) fn procedure(&self, name: &str) -> Option<Arc<CreateProcedure>> {
        let key = self.qualified(name)?;
        self.procedure_at(&key)
    }

    /// The procedure with this key.
    pub(super) fn procedure_at(&self, key: &str) -> Option<Arc<CreateProcedure>> {
        routines::procedure(self, key)
    }

    /// `project.dataset.routine` in lower case.
    fn qualified(&self, name: &str) -> Option<String> {
        match name.matches('.').count() {
            0 => self
                .default_dataset
                .borrow()
                .as_ref()
                .map(|d| format!("{}.{}.{name}", d.project, d.dataset).to_ascii_lowercase()),
            1 => Some(format!("{}.{name}", self.project.to_ascii_lowercase())),
            2 => Some(name.to_string()),
            _ => None,
        }
    }

    /// `project:dataset.routine`, as errors print it.
    pub(super) fn routine_name(&self, path: &Path) -> String {
        let parts: Vec<&str> = path.iter().flat_map(|i| i.name.split('.')).collect();
        match parts.as_slice() {
            [dataset, routine] => format!("{}:{dataset}.{routine}", self.project),
            [project, dataset, routine] => format!("{project}:{dataset}.{routine}"),
            _ => parts.join("."),
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<Constant> {
        let name = name.to_ascii_lowercase();
        self.variables
            .borrow()
            .iter()
            .rev()
            .find_map(|block| block.get(&name).cloned())
    }

    /// The table that a path names.
    pub(super) fn table_ref(&self, path: &Path) -> Result<TableRef> {
        let parts: Vec<&str> = path.iter().map(|i| i.name.as_str()).collect();
        match parts.as_slice() {
            [table] => {
                if let Some(temporary) = self.temporary.borrow().get(&table.to_ascii_lowercase()) {
                    return Ok(temporary.clone());
                }
                match &*self.default_dataset.borrow() {
                    Some(dataset) => Ok(dataset.table(*table)),
                    None => Err(ServiceError::invalid(format!(
                        "Table \"{table}\" must be qualified with a dataset (e.g. dataset.table)."
                    ))),
                }
            }
            [dataset, table] => Ok(TableRef::new(&self.project, *dataset, *table)),
            [project, dataset, table] => Ok(TableRef::new(*project, *dataset, *table)),
            _ => Err(ServiceError::invalid_query(format!(
                "Invalid table name: `{}`",
                parts.join(".")
            ))),
        }
    }

    /// The dataset that a path names.
    pub(super) fn dataset_ref(&self, path: &Path) -> Result<DatasetRef> {
        match path.as_slice() {
            [dataset] => Ok(DatasetRef::new(&self.project, &dataset.name)),
            [project, dataset] => Ok(DatasetRef::new(&project.name, &dataset.name)),
            _ => Err(ServiceError::invalid_query("Invalid dataset name")),
        }
    }

    /// A table, or the service's 404 with its location.
    pub(super) fn table(&self, reference: &TableRef) -> Result<Arc<Table>> {
        self.service
            .store
            .read(|state| self.require(state, reference))
    }

    pub(super) fn require(&self, state: &State, reference: &TableRef) -> Result<Arc<Table>> {
        if let Some(table) = state.table(reference) {
            return Ok(Arc::clone(table));
        }
        match state.dataset(&reference.dataset_ref()) {
            Some(dataset) => Err(ServiceError::not_found(format_args!(
                "Table {reference} was not found in location {}",
                dataset.location
            ))),
            // A project that nobody made anything in is somebody else's (recorded).
            None if reference.project != self.project
                && state.datasets(&reference.project).next().is_none() =>
            {
                Err(ServiceError::new(
                    Reason::AccessDenied,
                    format!(
                        "Access Denied: Table {reference}: User does not have permission to query table {reference}, or perhaps it does not exist."
                    ),
                ))
            }
            None => Err(self.no_dataset(&reference.dataset_ref())),
        }
    }

    pub(super) fn no_dataset(&self, reference: &DatasetRef) -> ServiceError {
        ServiceError::not_found(format_args!(
            "Dataset {reference} was not found in location {}",
            self.location
        ))
    }

    /// The rows of a table as this statement sees them: the same each time.
    pub(super) fn snapshot(&self, table: &Table) -> Snapshot {
        self.snapshots
            .borrow_mut()
            .entry(table.reference().clone())
            .or_insert_with(|| {
                let mut snapshot = table.snapshot();
                if let Some(transaction) = &*self.transaction.borrow()
                    && let Some(pending) = transaction.pending.get(table.reference())
                {
                    snapshot.segments.clone_from(&pending.segments);
                }
                snapshot
            })
            .clone()
    }

    /// Notes that the statement changes rows: all columns of the table count, whether
    /// they are read or not (the service's pricing of DML).
    pub(super) fn note_target(&self, snapshot: &Snapshot) {
        self.bytes.add(snapshot.logical_bytes());
    }

    /// Notes that the statement reads a table.
    pub(super) fn note_read(&self, reference: &TableRef) {
        let mut referenced = self.referenced.borrow_mut();
        if !referenced.contains(reference) {
            referenced.push(reference.clone());
        }
    }
}

/// What a statement has done with a change.
pub(super) enum Effect<'e> {
    /// Only a part of what it does.
    Part,
    /// A DDL statement, all that it does.
    Ddl(&'e Done),
    /// A DML statement, all that it does.
    Dml(&'e Changed),
}

impl Done {
    /// The outcome of the statement.
    pub(super) fn outcome(&self, env: &Env) -> StatementOutcome {
        StatementOutcome {
            statement_type: self.statement_type,
            target: self.outcome.table.clone(),
            schema: self.schema.clone(),
            ddl: Some(self.outcome.clone()),
            ..env.outcome()
        }
    }
}

impl Changed {
    /// The outcome of the statement.
    pub(super) fn outcome(&self, env: &Env) -> StatementOutcome {
        StatementOutcome {
            statement_type: self.statement_type,
            dml: Some(DmlStats {
                inserted: self.inserted,
                updated: self.updated,
                deleted: self.deleted,
            }),
            target: Some(self.target.clone()),
            ..env.outcome()
        }
    }
}

/// What a statement does to the rows of a table.
pub(super) enum RowChange {
    /// Adds rows.
    Append(Vec<Segment>),
    /// Replaces the rows of the snapshot that it was computed from.
    Replace(Vec<Segment>),
    /// Puts other segments in the place of some of the snapshot that it was computed
    /// from, and adds rows.
    Rewrite(Rewritten, Vec<Segment>),
}

/// Rows of a table as an open transaction sees them.
#[derive(Debug)]
struct Pending {
    incarnation: u64,
    /// The table's `changed` when the transaction first used it.
    version: i64,
    segments: Vec<Arc<Segment>>,
}

/// An open transaction: nothing of it is in the store.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pending: BTreeMap<TableRef, Pending>,
}

impl Env {
    /// What a statement did so far, without its text.
    pub(super) fn outcome(&self) -> StatementOutcome {
        StatementOutcome {
            sql: String::new(),
            statement_type: "SCRIPT",
            schema: None,
            batches: Vec::new(),
            dml: None,
            ddl: None,
            target: None,
            referenced: self.referenced.borrow().clone(),
            bytes_processed: self.bytes.bytes(),
            error: None,
        }
    }

    /// What a change carries besides, when it is all that its job does.
    fn carried(&self, effect: &Effect<'_>) -> Option<Mutation> {
        let applying = self.applying.as_ref()?;
        let outcome = match effect {
            Effect::Part => return None,
            Effect::Ddl(done) => done.outcome(self),
            Effect::Dml(changed) => changed.outcome(self),
        };
        Some((applying.0)(&outcome))
    }

    /// Changes the store; `effect` says what the statement has done then.
    pub(super) fn commit(
        &self,
        effect: Effect<'_>,
        plan: impl FnOnce(&State) -> Result<Vec<Mutation>>,
    ) -> Result<()> {
        if self.dry_run {
            return self.service.store.read(plan).map(drop);
        }
        let cancel = cancellation(&self.context);
        self.service.store.commit(|state| {
            // A job that was reported as stopped must not change anything later.
            if cancel.is_cancelled() {
                return Err(stopped());
            }
            let mut mutations = plan(state)?;
            if !mutations.is_empty() {
                mutations.extend(self.carried(&effect));
            }
            Ok((mutations, ()))
        })
    }

    /// Changes rows of `table`, which had the metadata `meta` and, for a
    /// replacement, the version `version` when the change was computed.
    pub(super) fn change_rows(
        &self,
        table: &Table,
        meta: &TableMeta,
        version: i64,
        change: RowChange,
        changed: &Changed,
    ) -> Result<()> {
        if self.dry_run {
            return Ok(());
        }
        let reference = table.reference();
        if let Some(transaction) = self.transaction.borrow_mut().as_mut() {
            let current = table.snapshot();
            let pending = transaction
                .pending
                .entry(reference.clone())
                .or_insert_with(|| Pending {
                    incarnation: table.incarnation(),
                    version: current.version,
                    segments: current.segments,
                });
            match change {
                RowChange::Append(segments) => {
                    pending.segments.extend(segments.into_iter().map(Arc::new));
                }
                RowChange::Replace(segments) => {
                    pending.segments = segments.into_iter().map(Arc::new).collect();
                }
                RowChange::Rewrite(parts, added) => {
                    let mut parts: HashMap<*const Segment, Vec<Segment>> = parts
                        .into_iter()
                        .map(|(gone, by)| (Arc::as_ptr(&gone), by))
                        .collect();
                    pending.segments = std::mem::take(&mut pending.segments)
                        .into_iter()
                        .flat_map(|segment| match parts.remove(&Arc::as_ptr(&segment)) {
                            Some(by) => by.into_iter().map(Arc::new).collect(),
                            None => vec![segment],
                        })
                        .collect();
                    if !parts.is_empty() {
                        return Err(ServiceError::internal(
                            "a transaction changes segments that it does not see",
                        ));
                    }
                    pending.segments.extend(added.into_iter().map(Arc::new));
                }
            }
            return Ok(());
        }
        self.commit(Effect::Dml(changed), |state| {
            let current = self.require(state, reference)?;
            let replaces = !matches!(change, RowChange::Append(_));
            let parts = match &change {
                RowChange::Rewrite(parts, _) => parts.as_slice(),
                RowChange::Append(_) | RowChange::Replace(_) => &[],
            };
            let gone: Vec<Arc<Segment>> = parts.iter().map(|(gone, _)| Arc::clone(gone)).collect();
            // Segments may have been put together, with the same rows.
            let ids = current.live_ids(&gone);
            if current.incarnation() != table.incarnation()
                || current.meta().schema != meta.schema
                || (replaces && current.changed() != version)
                || ids.is_none()
            {
                self.conflict.set(true);
                return Err(ServiceError::invalid_query(format!(
                    "Could not serialize access to table {reference} due to concurrent update"
                )));
            }
            Ok(match change {
                RowChange::Append(segments) if segments.is_empty() => Vec::new(),
                RowChange::Append(segments) => {
                    vec![Mutation::Append(reference.clone(), segments)]
                }
                RowChange::Replace(segments) => {
                    // Only TRUNCATE TABLE replaces all rows.
                    let replace = Mutation::Replace(reference.clone(), segments);
                    vec![replace, Mutation::ForgetChanges(reference.clone())]
                }
                RowChange::Rewrite(parts, added) => {
                    let by = parts.into_iter().map(|(_, by)| by);
                    let parts = ids.into_iter().flatten().zip(by).collect();
                    let mut mutations = vec![Mutation::Rewrite(reference.clone(), parts)];
                    if !added.is_empty() {
                        mutations.push(Mutation::Append(reference.clone(), added));
                    }
                    mutations
                }
            })
        })
    }

    /// BEGIN TRANSACTION.
    pub(super) fn begin_transaction(&self) -> Result<()> {
        let mut transaction = self.transaction.borrow_mut();
        if transaction.is_some() {
            return Err(ServiceError::invalid_query(
                "Transaction control statements are supported only outside of a transaction: there is one already",
            ));
        }
        *transaction = Some(Transaction::default());
        Ok(())
    }

    /// COMMIT TRANSACTION: all of it or, if another write came between, nothing.
    pub(super) fn commit_transaction(&self) -> Result<()> {
        let Some(transaction) = self.transaction.borrow_mut().take() else {
            return Err(ServiceError::invalid_query(
                "There is no transaction to commit",
            ));
        };
        self.commit(Effect::Part, |state| {
            let mut mutations = Vec::new();
            for (reference, pending) in &transaction.pending {
                let current = self.require(state, reference)?;
                if current.incarnation() != pending.incarnation
                    || current.changed() != pending.version
                {
                    return Err(ServiceError::invalid_query(format!(
                        "Transaction is aborted due to concurrent update against table {reference}"
                    )));
                }
                let segments = pending.segments.iter().map(|s| s.share()).collect();
                mutations.push(Mutation::Replace(reference.clone(), segments));
            }
            Ok(mutations)
        })
    }

    /// ROLLBACK TRANSACTION; whether there was one.
    pub(super) fn rollback_transaction(&self) -> bool {
        self.transaction.borrow_mut().take().is_some()
    }

    /// Refuses what a transaction cannot undo.
    pub(super) fn no_transaction(&self, what: &str) -> Result<()> {
        if self.transaction.borrow().is_some() {
            return Err(ServiceError::invalid_query(format!(
                "{what} is not supported inside a transaction"
            )));
        }
        Ok(())
    }
}

/// What the names of the datasets of temporary tables begin with.
const TEMPORARY: &str = "_script";

/// Whether a dataset holds the temporary tables of a script.
pub fn is_temporary(dataset: &DatasetRef) -> bool {
    dataset.dataset.starts_with(TEMPORARY)
}

impl Env {
    /// The name of a new temporary table, in a dataset of the script's own.
    pub(super) fn temporary_table(&self, path: &Path) -> Result<TableRef> {
        let [name] = path.as_slice() else {
            return Err(ServiceError::invalid_query(
                "A temporary table has a name without project and dataset",
            ));
        };
        let known = self
            .temporary
            .borrow()
            .values()
            .next()
            .map(TableRef::dataset_ref);
        let dataset = match known {
            Some(dataset) => dataset,
            None => {
                let dataset = DatasetRef::new(
                    &self.project,
                    format!("{TEMPORARY}{}", uuid::Uuid::new_v4().simple()),
                );
                let created =
                    crate::store::Dataset::new(self.location.clone(), crate::store::millis_now());
                self.commit(Effect::Part, |_| {
                    Ok(vec![Mutation::PutDataset(dataset.clone(), created)])
                })?;
                dataset
            }
        };
        let table = dataset.table(&name.name);
        self.temporary
            .borrow_mut()
            .insert(name.name.to_ascii_lowercase(), table.clone());
        Ok(table)
    }
}
