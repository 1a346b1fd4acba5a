//! Functions and procedures that outlive the script that created them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::ast::{CreateFunction, CreateProcedure, StatementKind};
use super::parser::parse_script;

/// The texts of the routines by `project.dataset.routine` in lower case. They live
/// as long as the server.
#[derive(Debug, Default)]
pub struct Routines {
    functions: RwLock<BTreeMap<String, String>>,
    procedures: RwLock<BTreeMap<String, String>>,
}

impl Routines {
    pub(super) fn put_function(&self, key: String, text: String) {
        self.functions.write().insert(key, text);
    }

    pub(super) fn put_procedure(&self, key: String, text: String) {
        self.procedures.write().insert(key, text);
    }

    /// Whether a function kept here is called `name`, in whatever dataset.
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.read().keys().any(|key| {
            let own = key.rsplit(['.', ':']).next().unwrap_or(key);
            own.trim_matches('`').eq_ignore_ascii_case(name)
        })
    }

    pub(super) fn remove(&self, key: &str) {
        self.functions.write().remove(key);
        self.procedures.write().remove(key);
    }

    pub(super) fn function(&self, key: &str) -> Option<Arc<CreateFunction>> {
        let text = self.functions.read().get(key).cloned()?;
        let statement = parse_script(&text).ok()?.into_iter().next()?;
        match statement.kind {
            StatementKind::CreateFunction(function) => Some(Arc::from(function)),
            _ => None,
        }
    }

    pub(super) fn procedure(&self, key: &str) -> Option<Arc<CreateProcedure>> {
        let text = self.procedures.read().get(key).cloned()?;
        let statement = parse_script(&text).ok()?.into_iter().next()?;
        match statement.kind {
            StatementKind::CreateProcedure(procedure) => Some(Arc::from(procedure)),
            _ => None,
        }
    }
}
