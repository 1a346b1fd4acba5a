//! A project as a [`CatalogProvider`].

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::catalog::{CatalogProvider, SchemaProvider};
use parking_lot::Mutex;

use super::dataset::BigQueryDataset;
use super::listing::{Listing, resolve};
use crate::error::Result;
use crate::options::RawOptions;
use crate::table::{Origin, TableContext};

/// The datasets of a project as schemas, their tables as tables.
///
/// Names are looked up as they are and then, if exactly one differs only in
/// case, without regard to case: SQL folds unquoted names to lower case.
#[derive(Debug)]
pub struct BigQueryCatalog {
    project: Arc<Project>,
    /// Datasets by the name they were asked for with.
    datasets: Mutex<HashMap<String, Arc<BigQueryDataset>>>,
}

/// A project and what is known of it.
#[derive(Debug)]
pub(super) struct Project {
    pub(super) id: String,
    pub(super) context: TableContext,
    pub(super) datasets: Arc<Listing<String>>,
}

impl BigQueryCatalog {
    /// The catalog of `project`. Nothing is asked of the service yet.
    pub(crate) fn new(project: String, context: TableContext) -> Self {
        let (client, id) = (context.client.clone(), project.clone());
        let datasets = Listing::new(
            format!("datasets of project {project}"),
            Box::new(move || {
                let (client, id) = (client.clone(), id.clone());
                Box::pin(async move {
                    let items = client.list_datasets(&id).await?;
                    Ok(items
                        .into_iter()
                        .map(|item| item.reference.dataset)
                        .collect())
                })
            }),
        );
        Self {
            project: Arc::new(Project {
                id: project,
                context,
                datasets,
            }),
            datasets: Mutex::default(),
        }
    }

    /// The project's id.
    pub fn project(&self) -> &str {
        &self.project.id
    }

    /// The session's options when this was made.
    pub(crate) fn made_with(&self) -> &RawOptions {
        static NOTHING: LazyLock<RawOptions> = LazyLock::new(RawOptions::new);
        match &self.project.context.origin {
            Origin::Catalog(options) => options,
            Origin::Declared => &NOTHING,
        }
    }

    /// Asks the service for the project's datasets now, so that the next
    /// listing does not have to.
    ///
    /// # Errors
    /// Whatever keeps the service from answering.
    pub async fn refresh(&self) -> Result<()> {
        self.project.datasets.fetch().await.map(|_| ())
    }

    /// What is known of the project.
    pub(super) fn known(&self) -> &Project {
        &self.project
    }

    fn dataset(&self, name: &str) -> Arc<BigQueryDataset> {
        let mut datasets = self.datasets.lock();
        let entry = datasets.entry(name.to_string());
        Arc::clone(entry.or_insert_with(|| {
            Arc::new(BigQueryDataset::new(
                Arc::clone(&self.project),
                name.to_string(),
            ))
        }))
    }
}

impl CatalogProvider for BigQueryCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.project.datasets.get().as_ref().clone()
    }

    /// Every name that a dataset can have is a schema: whether it exists shows
    /// when one of its tables is asked for, with an error that says so.
    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let known = self.project.datasets.known();
        let exact = known
            .as_ref()
            .and_then(|names| resolve(names.iter().map(String::as_str), name));
        Some(self.dataset(exact.unwrap_or(name)))
    }
}
