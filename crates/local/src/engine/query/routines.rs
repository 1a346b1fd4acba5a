//! Functions and procedures that are kept in datasets.

use std::sync::Arc;

use super::ast::{CreateFunction, CreateProcedure, StatementKind};
use super::env::Env;
use super::parser::parse_script;
use crate::error::{Reason, Result, ServiceError};
use crate::store::{
    DatasetRef, Mutation, Routine, RoutineKind, RoutineRef, State, fresh_etag, millis_now,
};

/// Whether a function that is kept in a dataset is called `name`.
pub fn has_function(state: &State, name: &str) -> bool {
    state.routines().any(|(reference, routine)| {
        routine.kind != RoutineKind::Procedure && reference.name.eq_ignore_ascii_case(name)
    })
}

/// `project.dataset.routine` taken apart. A project may have dots in its name.
fn parts(key: &str) -> Option<(&str, &str, &str)> {
    let mut parts = key.rsplitn(3, '.');
    let (name, dataset, project) = (parts.next()?, parts.next()?, parts.next()?);
    Some((project, dataset, name))
}

/// The routine with this key, whatever the case of its letters.
fn find<'s>(state: &'s State, key: &str) -> Option<(&'s RoutineRef, &'s Arc<Routine>)> {
    let (project, dataset, name) = parts(key)?;
    state.routines().find(|(reference, _)| {
        reference.name.eq_ignore_ascii_case(name)
            && reference.dataset.dataset.eq_ignore_ascii_case(dataset)
            && reference.dataset.project.eq_ignore_ascii_case(project)
    })
}

fn text(env: &Env, key: &str) -> Option<String> {
    env.service
        .store
        .read(|state| find(state, key).map(|(_, routine)| routine.text.clone()))
}

/// The function with this key.
pub(super) fn function(env: &Env, key: &str) -> Option<Arc<CreateFunction>> {
    let statement = parse_script(&text(env, key)?).ok()?;
    match statement.into_iter().next()?.kind {
        StatementKind::CreateFunction(function) => Some(Arc::from(function)),
        _ => None,
    }
}

/// The procedure with this key.
pub(super) fn procedure(env: &Env, key: &str) -> Option<Arc<CreateProcedure>> {
    let statement = parse_script(&text(env, key)?).ok()?;
    match statement.into_iter().next()?.kind {
        StatementKind::CreateProcedure(procedure) => Some(Arc::from(procedure)),
        _ => None,
    }
}

/// The dataset that a key names.
fn dataset(env: &Env, state: &State, key: &str) -> Result<DatasetRef> {
    let (project, dataset, _) = parts(key)
        .ok_or_else(|| ServiceError::invalid_query(format!("Invalid routine name: {key}")))?;
    // The key is in lower case, the dataset's name may not be.
    let named = |p: &str| {
        state
            .datasets(p)
            .map(|(reference, _)| reference)
            .find(|r| r.dataset.eq_ignore_ascii_case(dataset))
            .cloned()
    };
    let known = state
        .projects()
        .filter(|p| p.eq_ignore_ascii_case(project))
        .find_map(named);
    known.ok_or_else(|| env.no_dataset(&DatasetRef::new(project, dataset)))
}

/// Refuses a routine whose dataset is not there.
pub(super) fn require_dataset(env: &Env, key: &str) -> Result<()> {
    env.service
        .store
        .read(|state| dataset(env, state, key).map(drop))
}

/// The change that keeps a routine, in the place of one with its name and kind.
pub(super) fn put(
    env: &Env,
    state: &State,
    key: &str,
    kind: RoutineKind,
    name: &str,
    text: &str,
) -> Result<Mutation> {
    let now = millis_now();
    let old = find(state, key);
    if let Some((reference, old)) = old
        && old.kind != kind
    {
        return Err(ServiceError::invalid_query(format!(
            "Routine {reference} is of another kind and cannot be replaced"
        )));
    }
    let reference = RoutineRef {
        dataset: dataset(env, state, key)?,
        name: name.to_string(),
    };
    let routine = Routine {
        kind,
        text: text.to_string(),
        creation_time: old.map_or(now, |(_, old)| old.creation_time),
        last_modified_time: now,
        etag: fresh_etag(),
    };
    Ok(Mutation::PutRoutine(reference, Box::new(routine)))
}

/// The change that removes a routine.
pub(super) fn remove(state: &State, key: &str) -> Result<Mutation> {
    match find(state, key) {
        Some((reference, _)) => Ok(Mutation::DropRoutine(reference.clone())),
        None => Err(ServiceError::new(
            Reason::NotFound,
            format!("Not found: Routine {key}"),
        )),
    }
}

/// Whether there is one, of whatever kind.
pub(super) fn exists(state: &State, key: &str) -> bool {
    find(state, key).is_some()
}
