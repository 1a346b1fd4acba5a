//! A table that rows go to, made ready when the first of them come.
//!
//! Planning looks at a table at most; nothing is changed before there are rows. Then
//! the table is created if it does not exist, or its columns are changed, as far as
//! the options allow it. Writers of one sink do this once for all of them; writers
//! elsewhere that do the same at the same time come to the same table.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::datatypes::Schema;
use chrono::{TimeDelta, Utc};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::changes::{ChangedTable, Made};
use super::load::LoadTarget;
use super::metrics::SinkCounters;
use super::writer::{Destination, Overwrite, SinkShared};
use crate::client::rest::create::{Created, NewTable};
use crate::client::rest::model::{Table, TableKind};
use crate::client::retry::RetryPolicy;
use crate::client::write::append::Denied;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{
    AppendFormat, CreateDisposition, MissingValue, SinkOptions, WriteEffect, WriteMethod,
};
use crate::types::create::{NewModes, check_terms, table_schema_for};
use crate::types::encode::{FieldMarks, RowEncoder, RowFormat};
use crate::types::evolve::{self, SchemaChange};
use crate::types::{Mode, TableRef, TableSchema};

/// So many tables are remembered; beyond it those that nobody writes to are forgotten.
const REMEMBERED: usize = 1_000;

/// So long after its creation a table may be denied to those who will be given it; the
/// clocks of the service and of this machine may differ.
const NEW: TimeDelta = TimeDelta::minutes(5);

/// How a new table is waited for that somebody else created. Less long than one of our
/// own: who creates tables need not have let us write to them, and the denials of new
/// tables that were seen were two in a row.
const OTHERS_TABLE: RetryPolicy = RetryPolicy {
    max_attempts: 6,
    initial_delay: Duration::from_millis(500),
    multiplier: 2.0,
    max_delay: Duration::from_secs(4),
    max_elapsed: Duration::MAX,
};

/// Tables that are ready, or are being made so.
#[derive(Debug, Default)]
pub(super) struct Destinations(Mutex<HashMap<TableRef, Arc<OnceCell<Arc<Destination>>>>>);

impl Destinations {
    /// Remembers a table that needs nothing done.
    pub(super) fn ready(&self, destination: &Arc<Destination>) {
        let cell = OnceCell::new_with(Some(Arc::clone(destination)));
        self.0
            .lock()
            .insert(destination.table.clone(), Arc::new(cell));
    }

    /// What it means when the service denies access to a table that was written to.
    pub(super) fn denied(&self, table: &TableRef) -> Denied {
        let tables = self.0.lock();
        let ready = tables.get(table).and_then(|cell| cell.get());
        ready.map_or(Denied::Final, |ready| ready.denied)
    }

    fn cell(&self, table: &TableRef) -> Arc<OnceCell<Arc<Destination>>> {
        let mut tables = self.0.lock();
        if tables.len() >= REMEMBERED && !tables.contains_key(table) {
            tables.retain(|_, cell| {
                let written = cell.get().is_some_and(|table| Arc::strong_count(table) > 1);
                Arc::strong_count(cell) > 1 || written
            });
        }
        Arc::clone(tables.entry(table.clone()).or_default())
    }
}

impl SinkShared {
    /// The table, ready for rows. Nothing is asked of the service if it was before.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when it does not exist and is not to be created, and
    /// whatever keeps it from being created or changed.
    pub(super) async fn destination(
        &self,
        table: &TableRef,
        counters: &SinkCounters,
    ) -> Result<Arc<Destination>> {
        let cell = self.destinations.cell(table);
        let ready = cell.get_or_try_init(|| async {
            let prepared = self.prepare(table, counters).await;
            prepared
                .map(Arc::new)
                .map_err(|error| error.with_context(format!("writing table {table}")))
        });
        ready.await.map(Arc::clone)
    }

    async fn prepare(&self, table: &TableRef, counters: &SinkCounters) -> Result<Destination> {
        if let Some(changes) = &self.changes {
            return self
                .prepare_for_changes(changes.as_ref(), table, counters)
                .await;
        }
        let missing = match self.look(table, counters).await {
            Ok((found, denied)) => return self.plan(table, Arc::new(found), denied),
            Err(error) if error.kind() == ErrorKind::NotFound => error,
            Err(error) => return Err(error),
        };
        let Some(columns) = &self.new_columns else {
            return Err(not_created(table, self.options.create_disposition, missing));
        };
        let new = NewTable {
            columns,
            primary_key: &[],
            terms: &self.options.table_create,
        };
        match self.client.create_table(table, new).await? {
            Created::Now(created) => {
                counters.tables_created.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%table, "the table was created");
                self.plan(table, Arc::from(created), self.may_pass())
            }
            // Another writer was first, perhaps for rows with other columns.
            Created::Before => {
                let (found, _) = self.look(table, counters).await?;
                self.plan(table, Arc::new(found), self.may_pass())
            }
        }
    }

    async fn prepare_for_changes(
        &self,
        changes: &dyn ChangedTable,
        table: &TableRef,
        counters: &SinkCounters,
    ) -> Result<Destination> {
        let ready = changes.make_ready().await?;
        check_writable(table, &ready.table.kind)?;
        let denied = match ready.made {
            Made::Nothing => denied(&ready.table, &self.options),
            Made::Change => self.may_pass(),
            Made::Table => {
                counters.tables_created.fetch_add(1, Ordering::Relaxed);
                self.may_pass()
            }
        };
        let planned = changes.plan(&ready.table, &self.schema)?;
        planned.destination(table, &self.options, denied)
    }

    /// The table as it is after the changes that these rows need.
    async fn look(&self, table: &TableRef, counters: &SinkCounters) -> Result<(Table, Denied)> {
        let rows = &self.schema;
        let wanted = |found: &Table| {
            check_writable(table, &found.kind)?;
            let declared = self.declared.as_deref();
            wanted_changes(rows, declared, &found.schema, &self.options)
        };
        let conflicts = self.conflicts();
        let changed = self.client.change_columns(table, conflicts, wanted).await;
        let (found, changes) = changed.map_err(|error| match error.kind() {
            ErrorKind::Conflict => error.with_context(format!(
                "the columns of {table} were changed by somebody else each time that they were to \
                 be changed here"
            )),
            _ => error,
        })?;
        if changes.is_empty() {
            let denied = denied(&found, &self.options);
            return Ok((found, denied));
        }
        counters.schema_changes.fetch_add(1, Ordering::Relaxed);
        let columns: Vec<_> = changes.iter().map(SchemaChange::path).collect();
        tracing::info!(%table, columns = columns.join(", "), "columns of the table were changed");
        Ok((found, self.may_pass()))
    }

    /// How a change of columns is tried again that another one came before.
    fn conflicts(&self) -> RetryPolicy {
        if self.options.write_method != WriteMethod::FileLoads {
            return RetryPolicy::CHANGE;
        }
        let said = self.options.file_loads.schema_reconcile;
        RetryPolicy {
            max_attempts: said.max_attempts,
            initial_delay: said.initial_backoff,
            multiplier: 2.0,
            max_delay: said.max_backoff,
            max_elapsed: Duration::MAX,
        }
    }

    /// How the sink's rows go into the table as it is now.
    fn plan(&self, table: &TableRef, live: Arc<Table>, denied: Denied) -> Result<Destination> {
        plan(table, live, &self.schema, &self.options, denied)
    }

    /// What it means that a table is denied which was created or changed a moment ago:
    /// it has not reached those that take rows.
    fn may_pass(&self) -> Denied {
        Denied::MayPass(propagation(&self.options))
    }
}

/// What it means that a table is denied to which nothing was done.
pub(super) fn denied(table: &Table, options: &SinkOptions) -> Denied {
    let age = table.created.map(|created| Utc::now() - created);
    match age {
        Some(age) if age.abs() < NEW => {
            let said = propagation(options);
            Denied::New(RetryPolicy {
                max_attempts: said.max_attempts.min(OTHERS_TABLE.max_attempts),
                initial_delay: said.initial_delay.min(OTHERS_TABLE.initial_delay),
                ..OTHERS_TABLE
            })
        }
        _ => Denied::Final,
    }
}

/// How long to wait for a change of a table to be known everywhere.
fn propagation(options: &SinkOptions) -> RetryPolicy {
    let propagation = options.propagation;
    RetryPolicy {
        max_attempts: propagation.attempts,
        initial_delay: propagation.interval,
        multiplier: 1.0,
        max_delay: propagation.interval,
        max_elapsed: Duration::MAX,
    }
}

/// The error for a table that does not exist and is not to be created.
pub(crate) fn not_created(
    table: &TableRef,
    disposition: CreateDisposition,
    missing: Error,
) -> Error {
    let why = match disposition {
        CreateDisposition::CreateNever => {
            "does not exist, and option 'sink.create_disposition' is 'create_never': create it in \
             BigQuery, or let it be created"
        }
        // It was there when the statement was planned.
        CreateDisposition::CreateIfNeeded => {
            "does not exist any more: rows cannot be written to it"
        }
    };
    Error::new(ErrorKind::NotFound, format!("table {table} {why}")).with_source(missing)
}

/// The columns that new tables get, whose rows have the columns of `rows` at least.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] naming columns that BigQuery cannot hold, and
/// [`ErrorKind::Configuration`] naming options that do not fit the columns.
pub(crate) fn new_columns(rows: &Schema, options: &SinkOptions) -> Result<TableSchema> {
    let modes = match options.derive_required_columns {
        true => NewModes::Derived,
        false => NewModes::Nullable,
    };
    let marks = FieldMarks {
        json: options.json_field_paths.clone(),
        geography: options.geography_field_paths.clone(),
    };
    let columns = table_schema_for(rows, &marks, modes)?;
    check_terms(&options.table_create, &columns)?;
    Ok(columns)
}

/// The changes of a table that rows need and the options allow. A column that is added
/// has the type that was `declared` for it, or else that of the rows.
///
/// # Errors
/// A column that is to be added cannot be.
pub(super) fn wanted_changes(
    rows: &Schema,
    declared: Option<&Schema>,
    table: &TableSchema,
    options: &SinkOptions,
) -> Result<Vec<SchemaChange>> {
    let allowed = options.schema_update;
    if !allowed.allow_new_fields && !allowed.allow_field_relaxation {
        return Ok(Vec::new());
    }
    let fields = rows.fields().iter().map(|field| {
        let declared = declared.and_then(|declared| declared.fields().find(field.name()));
        match declared {
            Some((_, declared)) if table.field(field.name()).is_none() => Arc::clone(declared),
            _ => Arc::clone(field),
        }
    });
    let rows = &Schema::new(fields.collect::<Vec<_>>());
    let mut changes = evolve::changes(rows, table, &marks_of(rows, options))?;
    changes.retain(|change| match change {
        SchemaChange::Add { .. } => allowed.allow_new_fields,
        SchemaChange::Relax { .. } => allowed.allow_field_relaxation,
    });
    Ok(changes)
}

/// The marks of the columns that rows have: an INSERT may leave out marked ones.
pub(super) fn marks_of(rows: &Schema, options: &SinkOptions) -> FieldMarks {
    let of_rows = |paths: &[String]| {
        let named = |path: &&String| {
            let first = path.split('.').next().unwrap_or_default().to_lowercase();
            let mut fields = rows.fields().iter();
            fields.any(|field| field.name().to_lowercase() == first)
        };
        paths.iter().filter(named).cloned().collect()
    };
    FieldMarks {
        json: of_rows(&options.json_field_paths),
        geography: of_rows(&options.geography_field_paths),
    }
}

/// How rows of `rows` go into a table.
///
/// # Errors
/// [`ErrorKind::Unsupported`] when it is not a table that takes rows;
/// [`ErrorKind::InvalidArgument`] naming the columns that do not fit.
pub(super) fn plan(
    table: &TableRef,
    live: Arc<Table>,
    rows: &Schema,
    options: &SinkOptions,
    denied: Denied,
) -> Result<Destination> {
    check_writable(table, &live.kind)?;
    let columns = &live.schema;
    let left_out = columns.fields.iter().filter(|column| {
        let mut given = rows.fields().iter();
        !given.any(|field| column.is_named(field.name()))
    });
    let (mut defaulted, mut null) = (Vec::new(), Vec::new());
    for column in left_out {
        let default = column.default_value_expression.is_some();
        match (options.missing_value, default, column.mode) {
            (MissingValue::Default, true, _) => defaulted.push(column.name.clone()),
            (MissingValue::Null, true, Mode::Required) => {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "column '{}' of {table} is REQUIRED and not written: give it a value, or \
                         its default by the option sink.missing_value 'default'",
                        column.name
                    ),
                ));
            }
            _ => null.push(column.name.clone()),
        }
    }
    let format = match options.format {
        AppendFormat::Arrow => RowFormat::Arrow,
        AppendFormat::Auto | AppendFormat::Proto => RowFormat::Protobuf,
    };
    let marks = marks_of(rows, options);
    let encoder = RowEncoder::plan(rows, columns, format, &marks)?;
    let (load, overwrite) = match (options.write_method, options.effect) {
        (WriteMethod::FileLoads, _) => {
            let load = LoadTarget::plan(table, &live, rows, &null, &marks, options)?;
            (Some(Arc::new(load)), None)
        }
        (_, WriteEffect::Replace) => {
            let partition = options.partition.clone();
            (None, Some(Overwrite { partition }))
        }
        (_, WriteEffect::Add) => (None, None),
    };
    Ok(Destination {
        table: table.clone(),
        encoder,
        defaulted,
        null,
        denied,
        load,
        overwrite,
        changes: None,
    })
}

/// That rows can be appended to the table.
pub(super) fn check_writable(table: &TableRef, kind: &TableKind) -> Result<()> {
    let instead = match kind {
        TableKind::Table => return Ok(()),
        TableKind::View | TableKind::MaterializedView => "write to the table that it reads from",
        TableKind::Snapshot => "restore it into a table and write to that",
        TableKind::Wildcard => "name one of its tables",
        TableKind::External | TableKind::Other(_) => "write to where its data lies",
    };
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("{table} is {kind}, and rows can be written only to tables: {instead}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_tables_of_others_are_waited_for() {
        let options = SinkOptions::default();
        let created = |age: Option<TimeDelta>| {
            let reference = TableRef::new("p", "d", "t").expect("a name");
            let mut table = Table::planned(reference, TableSchema { fields: Vec::new() });
            table.created = age.map(|age| Utc::now() - age);
            denied(&table, &options)
        };
        assert_eq!(created(None), Denied::Final);
        assert_eq!(created(Some(TimeDelta::hours(1))), Denied::Final);
        for age in [0, 60, -60] {
            let Denied::New(policy) = created(Some(TimeDelta::seconds(age))) else {
                panic!("{age}");
            };
            assert_eq!(
                (policy.max_attempts, policy.max_elapsed),
                (6, Duration::MAX)
            );
            assert_eq!(policy.initial_delay, Duration::from_millis(500));
        }
    }
}
