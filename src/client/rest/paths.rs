//! Where resources are, and how they are named in bodies.

use serde_json::{Value, json};

use crate::types::{DatasetRef, TableRef};

/// The path of a table.
pub(super) fn table(table: &TableRef) -> [&str; 6] {
    let TableRef {
        project,
        dataset,
        table,
    } = table;
    ["projects", project, "datasets", dataset, "tables", table]
}

/// The path of the tables of a table's dataset.
pub(super) fn tables_beside(table: &TableRef) -> [&str; 5] {
    [
        "projects",
        &table.project,
        "datasets",
        &table.dataset,
        "tables",
    ]
}

/// The path of a dataset's tables.
pub(super) fn tables(dataset: &DatasetRef) -> [&str; 5] {
    [
        "projects",
        &dataset.project,
        "datasets",
        &dataset.dataset,
        "tables",
    ]
}

/// A table as the bodies of requests name it.
pub(super) fn reference(table: &TableRef) -> Value {
    json!({
        "projectId": table.project,
        "datasetId": table.dataset,
        "tableId": table.table,
    })
}
