//! DROP.

use super::ast::{Drop, FunctionBody, ObjectKind};
use super::create_routine::routine_key;
use super::ddl::{Done, about_dataset, about_routine, about_table};
use super::env::{Effect, Env};
use super::routines;
use crate::error::{Reason, Result, ServiceError};
use crate::store::{Mutation, TableKind};

pub(super) fn drop_object(env: &Env, drop: &Drop) -> Result<Done> {
    match drop.kind {
        ObjectKind::Schema => drop_schema(env, drop),
        ObjectKind::Function | ObjectKind::TableFunction | ObjectKind::Procedure => {
            drop_routine(env, drop)
        }
        ObjectKind::Table
        | ObjectKind::View
        | ObjectKind::MaterializedView
        | ObjectKind::SnapshotTable
        | ObjectKind::ExternalTable => drop_table(env, drop),
    }
}

fn drop_routine(env: &Env, drop: &Drop) -> Result<Done> {
    let statement_type = match drop.kind {
        ObjectKind::Procedure => "DROP_PROCEDURE",
        ObjectKind::TableFunction => "DROP_TABLE_FUNCTION",
        _ => "DROP_FUNCTION",
    };
    let temporary = drop.path.len() == 1
        && env
            .functions
            .borrow()
            .contains_key(&drop.path[0].name.to_ascii_lowercase());
    let key = routine_key(env, &drop.path, temporary)?;
    let found = if drop.kind == ObjectKind::Procedure {
        env.procedure_at(&key).is_some()
    } else {
        let table = drop.kind == ObjectKind::TableFunction;
        env.function_at(&key)
            .is_some_and(|f| matches!(f.body, FunctionBody::Table(_)) == table)
    };
    if !found {
        if drop.if_exists {
            return Ok(about_routine(statement_type, "SKIP"));
        }
        return Err(ServiceError::not_found(format_args!(
            "Routine {}",
            env.routine_name(&drop.path)
        )));
    }
    let done = about_routine(statement_type, "DROP");
    if !env.dry_run {
        let kept = env.functions.borrow_mut().remove(&key).is_none();
        if kept {
            env.commit(Effect::Ddl(&done), |state| {
                Ok(vec![routines::remove(state, &key)?])
            })?;
        }
    }
    Ok(done)
}

fn drop_schema(env: &Env, drop: &Drop) -> Result<Done> {
    let reference = env.dataset_ref(&drop.path)?;
    let plan = |state: &crate::store::State| -> Result<bool> {
        if state.dataset(&reference).is_none() {
            if drop.if_exists {
                return Ok(false);
            }
            return Err(env.no_dataset(&reference));
        }
        if !drop.cascade && !state.is_empty(&reference) {
            return Err(ServiceError::new(
                Reason::ResourceInUse,
                format!("Dataset {reference} is still in use"),
            ));
        }
        Ok(true)
    };
    let found = env.service.store.read(plan)?;
    if !found {
        return Ok(about_dataset("DROP_SCHEMA", "SKIP", reference));
    }
    let done = about_dataset("DROP_SCHEMA", "DROP", reference.clone());
    if !env.dry_run {
        env.commit(Effect::Ddl(&done), |state| {
            Ok(if plan(state)? {
                vec![Mutation::DropDataset(reference.clone())]
            } else {
                Vec::new()
            })
        })?;
    }
    Ok(done)
}

fn drop_table(env: &Env, drop: &Drop) -> Result<Done> {
    let (statement_type, word) = match drop.kind {
        ObjectKind::View => ("DROP_VIEW", "VIEW"),
        ObjectKind::MaterializedView => ("DROP_MATERIALIZED_VIEW", "MATERIALIZED VIEW"),
        ObjectKind::SnapshotTable => ("DROP_SNAPSHOT_TABLE", "SNAPSHOT TABLE"),
        ObjectKind::ExternalTable => ("DROP_EXTERNAL_TABLE", "EXTERNAL TABLE"),
        _ => ("DROP_TABLE", "TABLE"),
    };
    let reference = env.table_ref(&drop.path)?;
    let plan = |state: &crate::store::State| -> Result<bool> {
        let table = match state.table(&reference) {
            Some(table) => table,
            None if drop.if_exists => return Ok(false),
            None => {
                return Err(env.require(state, &reference).err().unwrap_or_else(|| {
                    ServiceError::not_found(format_args!("Table {reference}"))
                }));
            }
        };
        let meta = table.meta();
        let snapshot = meta.extra.contains_key("snapshotDefinition");
        let fits = match drop.kind {
            ObjectKind::View => matches!(meta.kind, TableKind::View(_)),
            ObjectKind::MaterializedView => matches!(meta.kind, TableKind::MaterializedView(_)),
            ObjectKind::ExternalTable => matches!(meta.kind, TableKind::External),
            ObjectKind::SnapshotTable => snapshot,
            _ => matches!(meta.kind, TableKind::Table | TableKind::External),
        };
        if !fits {
            return Err(ServiceError::invalid_query(format!(
                "{reference} is not a {word}, which DROP {word} needs"
            )));
        }
        Ok(true)
    };
    let found = env.service.store.read(plan)?;
    if !found {
        return Ok(about_table(statement_type, "SKIP", reference));
    }
    let done = about_table(statement_type, "DROP", reference.clone());
    if !env.dry_run {
        env.commit(Effect::Ddl(&done), |state| {
            Ok(if plan(state)? {
                vec![Mutation::DropTable(reference.clone())]
            } else {
                Vec::new()
            })
        })?;
        env.temporary.borrow_mut().retain(|_, t| *t != reference);
    }
    Ok(done)
}
