//! A dataset as a [`SchemaProvider`].

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::TableType;
use parking_lot::Mutex;

use super::listing::{Listing, resolve};
use super::project::Project;
use crate::client::rest::model::TableListItem;
use crate::error::{Error, ErrorKind, Result};
use crate::options::RawOptions;
use crate::table::{BigQueryTable, Origin, table_type};
use crate::types::{DatasetRef, TableRef};

/// Names that are listed in an error, at most.
const SHOWN_NAMES: usize = 10;

/// The tables of a dataset, each looked up when a query names it.
#[derive(Debug)]
pub(super) struct BigQueryDataset {
    project: Arc<Project>,
    /// As it was asked for; perhaps in another case than the dataset's own.
    name: String,
    /// By the dataset's own name, once that is known.
    tables: Mutex<Option<(String, Arc<Listing<TableListItem>>)>>,
}

impl BigQueryDataset {
    pub(super) fn new(project: Arc<Project>, name: String) -> Self {
        Self {
            project,
            name,
            tables: Mutex::new(None),
        }
    }

    /// The listing of the dataset with exactly this name.
    fn listing(&self, dataset: &str) -> Result<Arc<Listing<TableListItem>>> {
        let mut tables = self.tables.lock();
        if let Some((name, listing)) = &*tables
            && name == dataset
        {
            return Ok(Arc::clone(listing));
        }
        let dataset_ref = DatasetRef::new(&self.project.id, dataset)?;
        let client = self.project.context.client.clone();
        let listing = Listing::new(
            format!("tables of {dataset_ref}"),
            Box::new(move || {
                let (client, dataset) = (client.clone(), dataset_ref.clone());
                Box::pin(async move { client.list_tables(&dataset).await })
            }),
        );
        *tables = Some((dataset.to_string(), Arc::clone(&listing)));
        Ok(listing)
    }

    /// The dataset's own name as far as it is known.
    fn known_name(&self) -> String {
        match &*self.tables.lock() {
            Some((name, _)) => name.clone(),
            None => self.name.clone(),
        }
    }

    async fn open(&self, dataset: &str, table: &str) -> Result<BigQueryTable> {
        described(&self.project, dataset, table).await
    }

    /// The table that `name` means.
    async fn find(&self, name: &str) -> Result<BigQueryTable> {
        let dataset = self.known_name();
        let known = self.listing(&dataset)?.known();
        let likely = known
            .as_ref()
            .and_then(|items| resolve(items.iter().map(|item| item.reference.table.as_str()), name))
            .unwrap_or(name);
        match self.open(&dataset, likely).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            answer => return answer,
        }
        let (dataset, items) = self.existing(&dataset).await?;
        let names = items.iter().map(|item| item.reference.table.as_str());
        match resolve(names.clone(), name) {
            Some(found) => self.open(&dataset, found).await,
            None => Err(missing(
                &format!("table {}.{dataset}.{name}", self.project.id),
                "the dataset's tables",
                names,
            )),
        }
    }

    /// The dataset's own name, and its tables as they are now.
    async fn existing(&self, dataset: &str) -> Result<(String, Arc<Vec<TableListItem>>)> {
        match self.listing(dataset)?.fetch().await {
            Ok(items) => return Ok((dataset.to_string(), items)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let datasets = self.project.datasets.fetch().await?;
        let names = datasets.iter().map(String::as_str);
        match resolve(names.clone(), &self.name) {
            Some(own) if own != dataset => {
                let items = self.listing(own)?.fetch().await?;
                Ok((own.to_string(), items))
            }
            _ => Err(missing(
                &format!("dataset {}.{}", self.project.id, self.name),
                "the project's datasets",
                names,
            )),
        }
    }
}

/// A table of a project, by its own names.
pub(super) async fn described(
    project: &Project,
    dataset: &str,
    table: &str,
) -> Result<BigQueryTable> {
    let table = TableRef::new(&project.id, dataset, table)?;
    let context = &project.context;
    let nothing = RawOptions::new();
    let defaults = match &context.origin {
        Origin::Catalog(made_with) => made_with.as_ref(),
        Origin::Declared => &nothing,
    };
    BigQueryTable::live(context, table, defaults).await
}

/// Says what is missing and what there is instead.
fn missing<'a>(what: &str, others: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    let listed = match names.len() {
        0 => format!("{others} are none: check that option 'project' is the right one"),
        n if n > SHOWN_NAMES => format!(
            "{others} are {} and {} more",
            names[..SHOWN_NAMES].join(", "),
            n - SHOWN_NAMES
        ),
        _ => format!("{others} are {}", names.join(", ")),
    };
    Error::new(
        ErrorKind::NotFound,
        format!("{what} does not exist; {listed}"),
    )
}

#[async_trait]
impl SchemaProvider for BigQueryDataset {
    fn table_names(&self) -> Vec<String> {
        match self.listing(&self.known_name()) {
            Ok(listing) => listing
                .get()
                .iter()
                .map(|item| item.reference.table.clone())
                .collect(),
            Err(_) => Vec::new(),
        }
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        let table = self.find(name).await?;
        Ok(Some(Arc::new(table)))
    }

    /// Without `tables.get`: a list of tables says of what kind each is.
    async fn table_type(&self, name: &str) -> DataFusionResult<Option<TableType>> {
        let listing = self.listing(&self.known_name())?;
        let items = match listing.known() {
            Some(items) => items,
            None => listing.fetch().await?,
        };
        let item = items.iter().find(|item| item.reference.table == name);
        Ok(item.map(|item| table_type(&item.kind)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.listing(&self.known_name()).is_ok_and(|listing| {
            let items = listing.get();
            resolve(items.iter().map(|item| item.reference.table.as_str()), name).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_there_is() {
        let error = missing(
            "table p.d.t",
            "the dataset's tables",
            ["b", "a"].into_iter(),
        );
        assert_eq!(
            error.to_string(),
            "table p.d.t does not exist; the dataset's tables are a, b"
        );
        let many: Vec<String> = (0..12).map(|n| format!("t{n:02}")).collect();
        let error = missing("x", "the dataset's tables", many.iter().map(String::as_str));
        assert!(error.to_string().ends_with("t09 and 2 more"), "{error}");
    }
}
