//! Files as tables: `SELECT … FROM 'flights.parquet'`.

use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, CatalogProviderList};
use datafusion::prelude::SessionContext;
use datafusion_cli::catalog::DynamicObjectStoreCatalog;

/// A session like `context` in which a table name that the default catalog does
/// not know is tried as the path or URL of a file.
///
/// Other catalogs answer for themselves alone: a table that is missing from
/// BigQuery must not become a file of that name, and an error of the service
/// must not be followed by a second try.
pub fn with_file_tables(context: SessionContext) -> SessionContext {
    let plain = Arc::clone(context.state().catalog_list());
    let context = context.enable_url_table();
    let files = DynamicObjectStoreCatalog::new(
        Arc::clone(context.state().catalog_list()),
        context.state_weak_ref(),
    );
    let default_catalog = context
        .state()
        .config_options()
        .catalog
        .default_catalog
        .clone();
    context.register_catalog_list(Arc::new(FileCatalogs {
        default_catalog,
        files,
        plain,
    }));
    context
}

#[derive(Debug)]
struct FileCatalogs {
    default_catalog: String,
    files: DynamicObjectStoreCatalog,
    plain: Arc<dyn CatalogProviderList>,
}

impl CatalogProviderList for FileCatalogs {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.plain.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.plain.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        if name == self.default_catalog {
            self.files.catalog(name)
        } else {
            self.plain.catalog(name)
        }
    }
}
