//! Datasets and tables.

use serde_json::Value;

use super::Transport;
use super::model::{DatasetListItem, Page, Table, TableListItem, dataset_page, table_page};
use super::paths;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{DatasetRef, TableRef};

/// How many items a page holds; the service gives at most this many.
const PAGE_SIZE: &str = "1000";

impl Transport {
    /// What the service says of a table.
    pub(crate) async fn get_table(&self, table: &TableRef) -> Result<Table> {
        let path = paths::table(table);
        let answer = self
            .get(&path, &[])
            .await
            .map_err(|error| explain(error, &format!("table {table}"), TABLE_ADVICE))?;
        Table::from_json(&answer).map_err(|error| error.with_context(format!("table {table}")))
    }

    /// The datasets of a project that the caller may see.
    pub(crate) async fn list_datasets(&self, project: &str) -> Result<Vec<DatasetListItem>> {
        let path = ["projects", project, "datasets"];
        self.pages(&path, dataset_page)
            .await
            .map_err(|error| explain(error, &format!("project {project}"), PROJECT_ADVICE))
    }

    /// The tables and views of a dataset.
    pub(crate) async fn list_tables(&self, dataset: &DatasetRef) -> Result<Vec<TableListItem>> {
        let path = paths::tables(dataset);
        self.pages(&path, table_page)
            .await
            .map_err(|error| explain(error, &format!("dataset {dataset}"), DATASET_ADVICE))
    }

    /// The items of every page.
    async fn pages<T>(&self, path: &[&str], read: fn(&Value) -> Result<Page<T>>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut query = vec![("maxResults", PAGE_SIZE)];
            if let Some(token) = &token {
                query.push(("pageToken", token));
            }
            let page = read(&self.get(path, &query).await?)?;
            items.extend(page.items);
            match page.next.filter(|next| !next.is_empty()) {
                None => return Ok(items),
                Some(next) if token.as_ref() == Some(&next) => {
                    return Err(Error::data("the service answers the same page for ever"));
                }
                Some(next) => token = Some(next),
            }
        }
    }
}

const TABLE_ADVICE: &str = "check the project, dataset and table names, case included";
const DATASET_ADVICE: &str = "check the project and dataset names, case included";
const PROJECT_ADVICE: &str = "check the project's id";

/// The error with what it is about, and for the usual two what to do.
fn explain(error: Error, what: &str, advice: &str) -> Error {
    let told = error.message();
    match error.kind() {
        ErrorKind::NotFound => Error::new(
            ErrorKind::NotFound,
            format!("{what} does not exist ({told}): {advice}"),
        ),
        ErrorKind::PermissionDenied => Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "{what} cannot be looked at ({told}): ask for a role such as \
                 roles/bigquery.metadataViewer on it, or check the credentials"
            ),
        ),
        ErrorKind::Unauthenticated
        | ErrorKind::AlreadyExists
        | ErrorKind::InvalidArgument
        | ErrorKind::Configuration
        | ErrorKind::Unavailable
        | ErrorKind::ResourceExhausted
        | ErrorKind::FailedPrecondition
        | ErrorKind::Conflict
        | ErrorKind::SessionExpired
        | ErrorKind::Data
        | ErrorKind::DeadlineExceeded
        | ErrorKind::Cancelled
        | ErrorKind::Unsupported
        | ErrorKind::Internal => error.with_context(what),
    }
}
