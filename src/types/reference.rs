//! The names of datasets and tables.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// What ends the id of a wildcard table.
const WILDCARD: char = '*';

/// A dataset by its full name, printed as `project.dataset`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatasetRef {
    /// The project's id, possibly scoped by a domain (`example.com:project`).
    pub project: String,
    /// The dataset's id. Case matters.
    pub dataset: String,
}

impl DatasetRef {
    /// The dataset of these ids.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when an id contains what no id can.
    pub fn new(project: impl Into<String>, dataset: impl Into<String>) -> Result<Self> {
        let (project, dataset) = (project.into(), dataset.into());
        check_project(&project)?;
        check_dataset(&dataset)?;
        Ok(DatasetRef { project, dataset })
    }
}

impl fmt::Display for DatasetRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.project, self.dataset)
    }
}

/// A table by its full name, read from and printed as `project.dataset.table`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableRef {
    /// The project's id, possibly scoped by a domain (`example.com:project`).
    pub project: String,
    /// The dataset's id. Case matters.
    pub dataset: String,
    /// The table's id. Case matters; it may hold any Unicode letters, spaces
    /// and dashes.
    pub table: String,
}

impl TableRef {
    /// The table of these ids.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when an id contains what no id can.
    pub fn new(
        project: impl Into<String>,
        dataset: impl Into<String>,
        table: impl Into<String>,
    ) -> Result<Self> {
        let (project, dataset, table) = (project.into(), dataset.into(), table.into());
        check_project(&project)?;
        check_dataset(&dataset)?;
        check_table(&table)?;
        Ok(TableRef {
            project,
            dataset,
            table,
        })
    }

    /// Whether this means all tables whose ids begin alike, as `events_*` does
    /// (<https://cloud.google.com/bigquery/docs/querying-wildcard-tables>).
    pub fn is_wildcard(&self) -> bool {
        self.table.ends_with(WILDCARD)
    }

    /// The dataset that holds the table.
    pub fn dataset_ref(&self) -> DatasetRef {
        DatasetRef {
            project: self.project.clone(),
            dataset: self.dataset.clone(),
        }
    }

    /// The resource name that the Storage APIs use,
    /// `projects/…/datasets/…/tables/…`.
    pub fn resource_name(&self) -> String {
        format!(
            "projects/{}/datasets/{}/tables/{}",
            self.project, self.dataset, self.table
        )
    }
}

impl fmt::Display for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.project, self.dataset, self.table)
    }
}

/// Reads `project.dataset.table`, the whole or each part in backquotes if one
/// likes. The project may be scoped by a domain, `example.com:project`.
impl FromStr for TableRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("'{text}' does not name a table: write project.dataset.table"),
            )
        };
        let parts = split_parts(text).ok_or_else(wrong)?;
        // A domain-scoped project has dots of its own, all before its colon.
        let [project @ .., dataset, table] = parts.as_slice() else {
            return Err(wrong());
        };
        if project.is_empty() || (project.len() > 1 && !project.join(".").contains(':')) {
            return Err(wrong());
        }
        TableRef::new(project.join("."), dataset, table)
    }
}

/// The parts between dots, with backquotes taken off; `None` where quotes do
/// not pair up or a part is empty.
fn split_parts(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    let whole = text
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'))
        .filter(|inner| !inner.contains('`'));
    if let Some(inner) = whole {
        let parts: Vec<String> = inner.split('.').map(str::to_string).collect();
        return parts.iter().all(|part| !part.is_empty()).then_some(parts);
    }
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = match rest.strip_prefix('`') {
            Some(quoted) => quoted.split_once('`')?,
            None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        if part.is_empty() || (part.contains('`') && !rest.starts_with('`')) {
            return None;
        }
        parts.push(part.to_string());
        if after.is_empty() {
            return Some(parts);
        }
        rest = after.strip_prefix('.')?;
    }
}

/// Project ids: letters, digits and dashes, with an optional domain before a
/// colon. Being lenient about length leaves the verdict to the service; being
/// strict about characters keeps ids from changing the meaning of a URL.
fn check_project(id: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if !id.is_empty() && id.chars().all(fits) && id != "." && id != ".." {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!("'{id}' is not a project id: use letters, digits and dashes, as in my-project"),
    ))
}

/// Dataset ids: `[A-Za-z0-9_]{1,1024}`; hidden result datasets begin with `_`.
fn check_dataset(id: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if (1..=1024).contains(&id.len()) && id.chars().all(fits) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!("'{id}' is not a dataset id: use up to 1,024 letters, digits and underscores"),
    ))
}

/// Table ids: up to 1,024 bytes of UTF-8 of letters, marks, numbers,
/// connectors, dashes and spaces. `$` (a partition decorator) and `@` (a
/// snapshot decorator) name part of a table and are refused with the way out.
/// A `*` at the end stands for all tables whose ids begin so.
fn check_table(id: &str) -> Result<()> {
    if let Some(decorator) = id.chars().find(|c| matches!(c, '$' | '@')) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "'{id}' carries a decorator ('{decorator}'), which names a part of a table: name the \
                 table alone; to read a part filter on its partition column or set \
                 scan.snapshot_time, and to write one partition set sink.partition"
            ),
        ));
    }
    let fits = |c: char| {
        c.is_alphanumeric() || matches!(c, '_' | '-' | ' ') || (!c.is_ascii() && !c.is_control())
    };
    let named = id.strip_suffix(WILDCARD).unwrap_or(id);
    if (1..=1024).contains(&id.len()) && named.chars().all(fits) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "'{id}' is not a table id: use up to 1,024 bytes of letters, digits, underscores, \
             dashes and spaces"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(String, String, String)> {
        let table: TableRef = text.parse().ok()?;
        Some((table.project, table.dataset, table.table))
    }

    fn owned(a: &str, b: &str, c: &str) -> Option<(String, String, String)> {
        Some((a.into(), b.into(), c.into()))
    }

    #[test]
    fn reads_full_names() {
        assert_eq!(parts("my-p.d.t"), owned("my-p", "d", "t"));
        assert_eq!(parts(" `my-p.d.t` "), owned("my-p", "d", "t"));
        assert_eq!(parts("`my-p`.d.`t x`"), owned("my-p", "d", "t x"));
        assert_eq!(parts("example.com:p.d.t"), owned("example.com:p", "d", "t"));
        assert_eq!(
            parts("p.d.orders from 2023"),
            owned("p", "d", "orders from 2023")
        );
        assert_eq!(parts("p.d.Größe"), owned("p", "d", "Größe"));
    }

    #[test]
    fn refuses_what_is_not_a_table() {
        for text in [
            "",
            "t",
            "d.t",
            "p.d.",
            "p..t",
            "a.b.c.d",
            "`p.d.t",
            "p.d.t`",
            "p.d.a/b",
            "p/x.d.t",
            "p.my-d.t",
            "p.d.t\nu",
            "p.d.a\u{0}b",
            "p.d.a?b",
            "`p`d.t",
            "..d.t",
        ] {
            assert_eq!(
                text.parse::<TableRef>().map_err(|e| e.kind()),
                Err(ErrorKind::InvalidArgument),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_decorator_is_refused_with_the_way_out() {
        let error = "p.d.t$20240101".parse::<TableRef>().unwrap_err();
        assert!(error.message().contains("partition column"), "{error}");
    }

    #[test]
    fn prints_what_it_reads() {
        let table = TableRef::new("p", "d", "t").unwrap();
        assert_eq!(table.to_string(), "p.d.t");
        assert_eq!(table.resource_name(), "projects/p/datasets/d/tables/t");
        assert_eq!(table.dataset_ref().to_string(), "p.d");
    }
}
