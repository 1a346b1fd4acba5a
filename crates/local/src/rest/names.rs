//! Names in paths and bodies.

use std::sync::LazyLock;

use regex::Regex;

use crate::error::{Result, ServiceError};
use crate::store::{DatasetRef, TableRef};

/// What the service allows in table ids.
static TABLE_ID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[\p{L}\p{M}\p{N}\p{Pc}\p{Pd}\p{Zs}]+$").expect("the pattern is valid")
});

/// Longest dataset or table id in bytes of UTF-8.
const MAX_ID: usize = 1024;

/// Refuses an id that no dataset may have.
pub fn check_dataset_id(id: &str) -> Result<()> {
    let valid = !id.is_empty()
        && id.len() <= MAX_ID
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if valid {
        return Ok(());
    }
    Err(ServiceError::invalid(format!(
        "Invalid dataset ID \"{id}\". Dataset IDs must be alphanumeric (plus underscores) and must be at most {MAX_ID} characters long."
    )))
}

/// Refuses an id that no table may have.
pub fn check_table_id(id: &str) -> Result<()> {
    if !id.is_empty() && id.len() <= MAX_ID && TABLE_ID.is_match(id) {
        return Ok(());
    }
    Err(ServiceError::invalid(format!(
        "Invalid table ID \"{id}\". Table IDs must be alphanumeric (plus underscores) and must be at most {MAX_ID} characters long. Also, Table decorators cannot be used."
    )))
}

/// Refuses an id that no project may have.
pub fn check_project_id(id: &str) -> Result<()> {
    let valid = !id.is_empty()
        && id.len() <= MAX_ID
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'));
    if valid {
        return Ok(());
    }
    Err(ServiceError::invalid(format!(
        "Invalid project ID \"{id}\"."
    )))
}

/// A dataset as a path names it.
pub fn dataset(project: &str, dataset: &str) -> Result<DatasetRef> {
    check_project_id(project)?;
    check_dataset_id(dataset)?;
    Ok(DatasetRef::new(project, dataset))
}

/// A table as a path names it, with the partition decorator that may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decorated {
    /// The table.
    pub table: TableRef,
    /// What follows `$`.
    pub partition: Option<String>,
}

/// Reads `t` or `t$20240131`.
pub fn decorated(project: &str, dataset_id: &str, table: &str) -> Result<Decorated> {
    let dataset = dataset(project, dataset_id)?;
    let (id, partition) = match table.split_once('$') {
        Some((id, partition)) => (id, Some(partition.to_string())),
        None => (table, None),
    };
    check_table_id(id).map_err(|_| match table.contains('$') {
        true => ServiceError::invalid(format!("Invalid table ID \"{table}\".")),
        false => check_table_id(table)
            .err()
            .unwrap_or_else(|| ServiceError::invalid("Invalid table ID.")),
    })?;
    Ok(Decorated {
        table: dataset.table(id),
        partition,
    })
}

/// A table as a path names it where no decorator is allowed.
pub fn table(project: &str, dataset_id: &str, table: &str) -> Result<TableRef> {
    let dataset = dataset(project, dataset_id)?;
    check_table_id(table)?;
    Ok(dataset.table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        for good in ["t", "T_1", "tábla", "my table", "a-b", "表"] {
            check_table_id(good).unwrap_or_else(|e| panic!("{e}"));
        }
        for bad in ["", "a.b", "a/b", "t$1", "t@1", &"x".repeat(1025)] {
            assert!(check_table_id(bad).is_err(), "{bad}");
        }
        for bad in ["", "a-b", "a b", "é"] {
            assert!(check_dataset_id(bad).is_err(), "{bad}");
        }
        let decorated = decorated("p", "d", "t$20240131").unwrap();
        assert_eq!(decorated.table, TableRef::new("p", "d", "t"));
        assert_eq!(decorated.partition.as_deref(), Some("20240131"));
        assert!(super::decorated("p", "d", "$2024").is_err());
        assert!(table("p", "d", "t$20240131").is_err());
    }
}
