//! CREATE FUNCTION and CREATE PROCEDURE.

use std::sync::Arc;

use super::analyze::Analyzer;
use super::ast::{CreateFunction, CreateMode, CreateProcedure, FunctionBody, Path};
use super::ddl::{Done, about_routine};
use super::env::Env;
use crate::error::{Result, ServiceError};
use crate::store::DatasetRef;

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

/// Routines that outlive their script have no place in the store.
fn require_temporary(env: &Env, key: &str) -> Result<()> {
    let mut parts = key.split('.');
    if let (Some(project), Some(dataset), Some(_)) = (parts.next(), parts.next(), parts.next()) {
        let known = env.service.store.read(|state| {
            state
                .datasets(&env.project)
                .any(|(d, _)| d.dataset.eq_ignore_ascii_case(dataset))
        });
        if !known && env.project.eq_ignore_ascii_case(project) {
            return Err(env.no_dataset(&DatasetRef::new(&env.project, dataset)));
        }
    }
    Ok(())
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
        require_temporary(env, &key)?;
    }
    analyzer.check_function(create)?;
    let exists = env.function_at(&key).is_some();
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
    } else if !env.dry_run {
        env.service.routines.put_function(key, create.text.clone());
    }
    Ok(about_routine(statement_type, operation))
}

pub(super) fn create_procedure(env: &Env, create: &CreateProcedure) -> Result<Done> {
    let key = routine_key(env, &create.path, false)?;
    require_temporary(env, &key)?;
    let exists = env.procedure_at(&key).is_some();
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
    if !env.dry_run {
        env.service.routines.put_procedure(key, create.text.clone());
    }
    Ok(about_routine("CREATE_PROCEDURE", operation))
}
