//! One call that makes a session read BigQuery.

use std::sync::Arc;

use datafusion::catalog::MemoryCatalogProviderList;
use datafusion::execution::SessionStateBuilder;

use crate::catalog::BigQueryCatalog;
use crate::error::Result;
use crate::options::registry::SCAN_TIMESTAMP_PRECISION;
use crate::options::{BigQueryOptions, Options, RawOptions};
use crate::table::{BigQueryTableFactory, Shared, TableContext};

/// The name of the catalog of the default project.
pub const CATALOG_NAME: &str = "bq";

/// What goes after STORED AS.
pub const FILE_TYPE: &str = "BIGQUERY";

/// Adds BigQuery to a session:
///
/// - `CREATE EXTERNAL TABLE … STORED AS BIGQUERY LOCATION
///   'project.dataset.table' OPTIONS (…)`;
/// - `SET bigquery.<option> = …`, with `options` to begin with, before those that
///   the builder's configuration has already;
/// - the catalog `bq`, if `options` name a project: `SELECT … FROM
///   bq.dataset.table`.
///
/// Nothing is sent to the service before a statement needs it.
///
/// # Errors
/// [`Configuration`](crate::ErrorKind::Configuration) for options that are wrong
/// or do not go together.
///
/// # Example
///
/// ```
/// use bigquery_local::{LocalBigQuery, LocalOptions};
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use datafusion_bigquery::{RawOptions, with_bigquery};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = LocalBigQuery::start(LocalOptions::default()).await?;
/// let options = RawOptions::from_pairs([
///     ("project", "local"),
///     ("rest_endpoint", &server.rest_endpoint()),
///     ("grpc_endpoint", &server.grpc_endpoint()),
/// ])?;
/// let builder = SessionStateBuilder::new_with_default_features();
/// let state = with_bigquery(builder, options)?.build();
/// let context = SessionContext::new_with_state(state);
/// assert!(context.catalog("bq").is_some());
/// # Ok(())
/// # }
/// ```
pub fn with_bigquery(
    mut builder: SessionStateBuilder,
    options: RawOptions,
) -> Result<SessionStateBuilder> {
    let config = builder.config().take().unwrap_or_default();
    let earlier = config.options().extensions.get::<BigQueryOptions>();
    let options = match earlier {
        Some(earlier) => options.or_defaults(earlier.raw()),
        None => options,
    };
    let resolved = Options::resolve(&options)?;
    let shared = Arc::new(Shared::default());

    if let Some(project) = resolved.table.project.clone() {
        let mut of_tables = RawOptions::new();
        if let Some(precision) = options.get(&SCAN_TIMESTAMP_PRECISION) {
            of_tables.set(SCAN_TIMESTAMP_PRECISION.name, precision)?;
        }
        let context = TableContext {
            client: shared.client(&resolved.connection)?,
            snapshots: Arc::clone(&shared.snapshots),
            options: of_tables,
        };
        let catalogs = builder
            .catalog_list()
            .get_or_insert_with(|| Arc::new(MemoryCatalogProviderList::new()));
        catalogs.register_catalog(
            CATALOG_NAME.to_string(),
            Arc::new(BigQueryCatalog::new(project, context)),
        );
    }

    let config = config.with_option_extension(BigQueryOptions::new(options)?);
    Ok(builder.with_config(config).with_table_factory(
        FILE_TYPE.to_string(),
        Arc::new(BigQueryTableFactory::new(shared)),
    ))
}
