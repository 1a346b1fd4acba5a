//! What is read and written, for tools that follow data.

use super::TableRef;

/// A data set as OpenLineage names it
/// (<https://openlineage.io/docs/spec/naming#bigquery>).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LineageDataset {
    /// Always `bigquery`.
    pub namespace: String,
    /// `project.dataset.table`.
    pub name: String,
}

impl LineageDataset {
    /// The data set that is a table.
    pub fn of(table: &TableRef) -> Self {
        LineageDataset {
            namespace: "bigquery".to_string(),
            name: table.to_string(),
        }
    }
}
