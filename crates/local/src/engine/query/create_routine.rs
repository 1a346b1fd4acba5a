//! CREATE FUNCTION and CREATE PROCEDURE.

use std::sync::Arc;

use super::analyze::Analyzer;
use super::ast::{CreateFunction, CreateMode, CreateProcedure, FunctionBody, Path};
use super::ddl::{Done, about_routine};
use super::env::{Effect, Env};
use super::routines;
use crate::error::{Result, ServiceError};
use crate::store::RoutineKind;

/// The key under which a script knows a routine.
pub(super) fn routine_key(env: &Env, path: &Path, temporary: bool) -> Result<String> {
    let parts: Vec<&str> = path.iter().map(|i| i.name.as_str()).collect();
    let key = match parts.as_slice() {
        [name] if temporary => (*name).to_string(),
        [name] => match &*env.default_dataset.borrow() {
            Some(d) => format!("{}.{}.{name}", d.project, d.dataset),
            None => {
                return Err(ServiceError::invalid(format!(
                    "Routine name \"{name}\" missing dataset while no default dataset is set in the request."
                )));
            }
        },
        [dataset, name] if !temporary => format!("{}.{dataset}.{name}", env.project),
        [project, dataset, name] if !temporary => format!("{project}.{dataset}.{name}"),
        _ => {
            return Err(ServiceError::invalid_query(format!(
                "Invalid routine name: {}",
                parts.join(".")
            )));
        }
    };
    Ok(key.to_ascii_lowercase())
}

pub(super) fn create_function(
    env: &Env,
    analyzer: &Analyzer<'_>,
    create: &CreateFunction,
) -> Result<Done> {
    let table = matches!(create.body, FunctionBody::Table(_));
    let statement_type = if table {
        "CREATE_TABLE_FUNCTION"
    } else {
        "CREATE_FUNCTION"
    };
    if let FunctionBody::Other(what) = &create.body {
        return Err(ServiceError::unsupported(what));
    }
    if create.aggregate {
        return Err(ServiceError::unsupported("CREATE AGGREGATE FUNCTION"));
    }
    let key = routine_key(env, &create.path, create.temporary)?;
    if !create.temporary {
        routines::require_dataset(env, &key)?;
    }
    analyzer.check_function(create)?;
    let kind = if table {
        RoutineKind::TableFunction
    } else {
        RoutineKind::Function
    };
    let exists = env.functions.borrow().contains_key(&key)
        || env
            .service
            .store
            .read(|state| routines::exists(state, &key));
    let operation = match (exists, create.mode) {
        (true, CreateMode::IfNotExists) => return Ok(about_routine(statement_type, "SKIP")),
        (true, CreateMode::Plain) if !create.temporary => {
            return Err(ServiceError::duplicate(format_args!(
                "Routine {}",
                env.routine_name(&create.path)
            )));
        }
        (true, _) => "REPLACE",
        (false, _) => "CREATE",
    };
    if create.temporary {
        env.functions
            .borrow_mut()
            .insert(key, Arc::new(create.clone()));
        return Ok(about_routine(statement_type, operation));
    }
    keep(
        env,
        about_routine(statement_type, operation),
        (&key, kind),
        (&create.path, &create.text),
        create.mode,
    )
}

pub(super) fn create_procedure(env: &Env, create: &CreateProcedure) -> Result<Done> {
    let key = routine_key(env, &create.path, false)?;
    routines::require_dataset(env, &key)?;
    let exists = env
        .service
        .store
        .read(|state| routines::exists(state, &key));
    let operation = match (exists, create.mode) {
        (true, CreateMode::IfNotExists) => return Ok(about_routine("CREATE_PROCEDURE", "SKIP")),
        (true, CreateMode::Plain) => {
            return Err(ServiceError::duplicate(format_args!(
                "Routine {}",
                env.routine_name(&create.path)
            )));
        }
        (true, CreateMode::OrReplace) => "REPLACE",
        (false, _) => "CREATE",
    };
    keep(
        env,
        about_routine("CREATE_PROCEDURE", operation),
        (&key, RoutineKind::Procedure),
        (&create.path, &create.text),
        create.mode,
    )
}

/// Puts a routine into its dataset.
fn keep(
    env: &Env,
    done: Done,
    (key, kind): (&str, RoutineKind),
    (path, text): (&Path, &str),
    mode: CreateMode,
) -> Result<Done> {
    if env.dry_run {
        return Ok(done);
    }
    // The last part of the last name: a quoted name may hold the whole path.
    let name = path.last().map_or("", |ident| ident.name.as_str());
    let name = name.rsplit('.').next().unwrap_or(name);
    env.commit(Effect::Ddl(&done), |state| {
        if mode != CreateMode::OrReplace && routines::exists(state, key) {
            return Err(ServiceError::duplicate(format_args!(
                "Routine {}",
                env.routine_name(path)
            )));
        }
        Ok(vec![routines::put(env, state, key, kind, name, text)?])
    })?;
    Ok(done)
}
