//! The catalog `bq` of a session that was given no project.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::plan_err;
use datafusion::error::Result;

/// Lists nothing, and answers every look-up with what is missing.
#[derive(Debug)]
pub struct UnsetCatalog;

impl CatalogProvider for UnsetCatalog {
    fn schema_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn schema(&self, _: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(UnsetSchema))
    }
}

#[derive(Debug)]
struct UnsetSchema;

#[async_trait]
impl SchemaProvider for UnsetSchema {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        plan_err!(
            "cannot look for table '{name}': the catalog bq has no project; \
             start dfbq with --project, --demo or --local, or set GOOGLE_CLOUD_PROJECT"
        )
    }

    fn table_exist(&self, _: &str) -> bool {
        false
    }
}
