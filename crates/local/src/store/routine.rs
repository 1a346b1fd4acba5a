//! Functions and procedures that are kept in datasets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reference::DatasetRef;

/// What a routine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoutineKind {
    /// A function that answers a value.
    Function,
    /// A function that answers a table.
    TableFunction,
    /// A procedure.
    Procedure,
}

/// A routine's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RoutineRef {
    /// Where it is kept.
    pub dataset: DatasetRef,
    /// Its name as it was spelled.
    pub name: String,
}

/// `project:dataset.routine`, as errors print it.
impl fmt::Display for RoutineRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.dataset, self.name)
    }
}

impl RoutineRef {
    /// Whether `other` names the same routine: the case of a routine's name does not
    /// tell two apart here.
    fn is(&self, other: &Self) -> bool {
        self.dataset == other.dataset && self.name.eq_ignore_ascii_case(&other.name)
    }
}

/// A routine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Routine {
    /// What it is.
    pub kind: RoutineKind,
    /// The statement that created it.
    pub text: String,
    /// Milliseconds since the epoch.
    pub creation_time: i64,
    /// Milliseconds since the epoch.
    pub last_modified_time: i64,
    /// Changes with every change.
    pub etag: String,
}

/// The routines of every dataset.
#[derive(Debug, Default)]
pub(super) struct Routines {
    /// By name in lower case, as [`RoutineRef::is`] compares.
    by_name: BTreeMap<RoutineRef, (RoutineRef, Arc<Routine>)>,
}

fn key(reference: &RoutineRef) -> RoutineRef {
    RoutineRef {
        dataset: reference.dataset.clone(),
        name: reference.name.to_ascii_lowercase(),
    }
}

impl Routines {
    pub(super) fn put(&mut self, reference: RoutineRef, routine: Routine) {
        self.by_name
            .insert(key(&reference), (reference, Arc::new(routine)));
    }

    pub(super) fn remove(&mut self, reference: &RoutineRef) {
        self.by_name.remove(&key(reference));
    }

    pub(super) fn remove_dataset(&mut self, dataset: &DatasetRef) {
        self.by_name.retain(|own, _| own.dataset != *dataset);
    }

    pub(super) fn get(&self, reference: &RoutineRef) -> Option<&Arc<Routine>> {
        let (own, routine) = self.by_name.get(&key(reference))?;
        debug_assert!(own.is(reference), "names are found by their key");
        Some(routine)
    }

    /// In order of dataset and name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&RoutineRef, &Arc<Routine>)> {
        self.by_name.values().map(|(own, routine)| (own, routine))
    }
}
