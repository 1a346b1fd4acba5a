//! Names of write streams, and the tables behind them.

use std::sync::Arc;
use std::time::Duration;

use tonic::Status;

use super::errors::{invalid_name, masked, not_found};
use crate::server::Service;
use crate::store::{State, Table, TableKind, TableRef, WriteStream, micros_now};

pub(super) const DEFAULT_STREAM: &str = "_default";

/// A stream's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Name {
    /// The default stream of a table.
    Default(TableRef),
    /// A stream that CreateWriteStream made, or never did.
    Created(TableRef),
}

impl Name {
    /// Reads `{table}/streams/{id}`, and `{table}/_default` as the service does.
    pub(super) fn parse(name: &str) -> Option<Self> {
        if let Some(table) = name.strip_suffix("/_default")
            && !table.ends_with("/streams")
        {
            return TableRef::from_path(table).map(Name::Default);
        }
        let (table, id) = name.rsplit_once("/streams/")?;
        let reference = TableRef::from_path(table)?;
        match id {
            "" => None,
            DEFAULT_STREAM => Some(Name::Default(reference)),
            _ => Some(Name::Created(reference)),
        }
    }

    pub(super) fn table(&self) -> &TableRef {
        match self {
            Name::Default(table) | Name::Created(table) => table,
        }
    }
}

/// The table, which must be one that rows can be written to. A missing one looks
/// forbidden.
///
/// Source: errors of the Storage Write API for tables that do not exist.
pub(super) fn native_table(
    state: &State,
    reference: &TableRef,
    permission: &str,
) -> Result<Arc<Table>, Status> {
    let table = state
        .table(reference)
        .ok_or_else(|| masked(permission, reference))?;
    if table.meta().kind != TableKind::Table {
        return Err(Status::invalid_argument(format!(
            "Rows can be written to tables only. Entity: {}",
            reference.path()
        )));
    }
    Ok(Arc::clone(table))
}

/// Denies a table that was made a moment ago, if the server is to be so real.
pub(super) fn propagated(
    service: &Service,
    table: &TableRef,
    permission: &str,
) -> Result<(), Status> {
    let delay = service.options.realism.creation_delay;
    let young = service.store.read(|state| {
        let created = state.table(table).map(|table| table.created());
        created.is_some_and(|created| micros_now().saturating_sub(created) < micros(delay))
    });
    if young {
        return Err(masked(permission, table));
    }
    Ok(())
}

/// A duration in microseconds.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The stream called `name`, which must belong to this very table.
pub(super) fn live<'a>(
    state: &'a State,
    name: &str,
    table: &Table,
) -> Result<&'a WriteStream, Status> {
    let stream = state.stream(name).ok_or_else(|| invalid_name(name))?;
    if stream.meta().incarnation != table.incarnation() {
        return Err(not_found(name));
    }
    Ok(stream)
}
