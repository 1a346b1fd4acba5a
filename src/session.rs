//! One call that makes a session read BigQuery.

use std::sync::Arc;

use datafusion::catalog::MemoryCatalogProviderList;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionConfig;

use crate::catalog::BigQueryCatalog;
use crate::error::Result;
use crate::options::registry::SCAN_TIMESTAMP_PRECISION;
use crate::options::{BigQueryOptions, Options, RawOptions};
use crate::scan::SettleLateFilters;
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
///   bq.dataset.table`;
/// - a physical optimizer rule, by which scans on the probe side of hash joins wait
///   for the join's keys and read only the rows that have them. For that,
///   `datafusion.optimizer.hash_join_inlist_pushdown_max_distinct_values` and
///   `…_max_size` are raised to hold `scan.dynamic_filter_max_values` keys, as the
///   option stands now; a later `SET` of the option to more needs these two set
///   as well.
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

    let config = with_room_for_keys(config, resolved.scan.dynamic_filter_max_values)
        .with_option_extension(BigQueryOptions::new(options)?);
    Ok(builder
        .with_config(config)
        .with_physical_optimizer_rule(Arc::new(SettleLateFilters))
        .with_table_factory(
            FILE_TYPE.to_string(),
            Arc::new(BigQueryTableFactory::new(shared)),
        ))
}

/// Bytes of one key in a join's list of keys, roughly.
const KEY_BYTES: usize = 64;

/// Bytes of such a list at most: DataFusion makes an expression of each of its
/// rows, and a restriction has room for one megabyte of text.
const MAX_KEYS_BYTES: usize = 4 << 20;

/// Lets hash joins tell their probe sides up to so many keys one by one, where
/// DataFusion would stop at 150.
fn with_room_for_keys(mut config: SessionConfig, most: usize) -> SessionConfig {
    let optimizer = &mut config.options_mut().optimizer;
    let values = &mut optimizer.hash_join_inlist_pushdown_max_distinct_values;
    *values = most.max(*values);
    let bytes = &mut optimizer.hash_join_inlist_pushdown_max_size;
    *bytes = most
        .saturating_mul(KEY_BYTES)
        .min(MAX_KEYS_BYTES)
        .max(*bytes);
    config
}
