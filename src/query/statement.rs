//! The SELECT that reads what the Storage Read API cannot.
//!
//! Pure: from what to read to GoogleSQL.

use std::collections::HashSet;

use crate::scan::ReadSpec;
use crate::types::TableRef;

/// Columns that a table has beside those of its schema, and the names under
/// which a result can carry them: a result table may not have columns whose
/// names begin as theirs do.
const PSEUDO_COLUMNS: [(&str, &str); 3] = [
    ("_TABLE_SUFFIX", "pseudo_TABLE_SUFFIX"),
    ("_PARTITIONTIME", "pseudo_PARTITIONTIME"),
    ("_PARTITIONDATE", "pseudo_PARTITIONDATE"),
];

/// What a written SELECT reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Relation {
    /// Project and dataset, and a name that may end in `*`.
    pub(crate) table: TableRef,
}

/// Which conditions are in the SELECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conditions {
    All,
    /// Those alone that nobody evaluates again.
    Required,
}

impl Relation {
    /// The SELECT of what `spec` asks for.
    pub(super) fn select(&self, spec: &ReadSpec, conditions: Conditions) -> String {
        let mut seen = HashSet::new();
        let columns: Vec<String> = spec
            .selected_fields
            .iter()
            // Fields of a struct are taken out of the result, not out of this.
            .map(|path| path.split('.').next().unwrap_or(path))
            .filter(|column| seen.insert(*column))
            .map(|column| match alias(column) {
                Some(alias) => format!("{} AS {}", quoted(column), quoted(alias)),
                None => quoted(column),
            })
            .collect();
        let TableRef {
            project,
            dataset,
            table,
        } = &self.table;
        let mut sql = format!(
            "SELECT {} FROM {}",
            columns.join(", "),
            quoted(&format!("{project}.{dataset}.{table}"))
        );
        let condition = match conditions {
            Conditions::All => spec.restriction.text(),
            Conditions::Required => spec
                .restriction
                .text_without_generated()
                .unwrap_or_else(|| spec.restriction.text()),
        };
        if !condition.is_empty() {
            sql.push_str(" WHERE ");
            sql.push_str(&condition);
        }
        if let Some(limit) = spec.limit {
            sql.push_str(&format!(" LIMIT {limit}"));
        }
        sql
    }
}

/// The name that a pseudo-column has in a result.
pub(super) fn alias(column: &str) -> Option<&'static str> {
    PSEUDO_COLUMNS
        .iter()
        .find(|(name, _)| *name == column)
        .map(|(_, alias)| *alias)
}

/// A name in backquotes, in which GoogleSQL reads escapes as in strings.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', r"\\").replace('`', r"\`"))
}
