//! One call that makes a session read and write BigQuery.

use std::sync::Arc;

use datafusion::catalog::{MemoryCatalogProviderList, TableFunction};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::catalog::{BigQueryCatalog, Listings};
use crate::cdc::{self, KeepChangeOrder};
use crate::error::{Error, Result};
use crate::options::registry::PROJECT;
use crate::options::{BigQueryOptions, Options, RawOptions};
use crate::scan::{ReadFilesFirst, SettleLateFilters};
use crate::sink::ArrangeWriters;
use crate::table::{
    BigQueryRelations, BigQueryTableFactory, FitLiterals, Origin, PlanInserts, Shared,
    TableContext, other_connection,
};

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
/// - SHOW TABLES, SHOW COLUMNS and `information_schema` that fail where the
///   service does not answer, in place of DataFusion's, which cannot;
/// - the catalog `bq`, if `options` name a project: `SELECT … FROM
///   bq.dataset.table`;
/// - `FOR SYSTEM_TIME AS OF` and `TABLESAMPLE SYSTEM` of BigQuery tables, which
///   DataFusion by itself would ignore; of other tables they are refused;
/// - the table functions `bigquery_query('SELECT …')`, which runs a query in
///   BigQuery, and `bigquery_scan('project.dataset.table')`; their further
///   arguments are named: options, and `parameters => [5, 'x']` for `?` or
///   `parameters => named_struct('least', 5)` for `@least`;
/// - a physical optimizer rule, by which scans on the probe side of hash joins wait
///   for the join's keys and read only the rows that have them. For that,
///   `datafusion.optimizer.hash_join_inlist_pushdown_max_distinct_values` and
///   `…_max_size` are raised to hold `scan.dynamic_filter_max_values` keys, as the
///   option stands now; a later `SET` of the option to more needs these two set
///   as well;
/// - the time zone UTC, unless the configuration has another one
///   (`datafusion.execution.time_zone`): without any, DataFusion takes
///   `TIMESTAMP WITH TIME ZONE` to be a civil time, which is BigQuery's DATETIME;
/// - a physical optimizer rule, by which a join reads a file of unknown rows before the
///   larger table of BigQuery that it is joined with;
/// - an analyzer rule, by which literals beside columns are not brought to types that
///   cannot hold them: `ts < '9999-12-31'`, `n = 2.5` for a BIGNUMERIC;
/// - an analyzer rule, by which an INSERT gives its values to the sink as they are,
///   so that none is cut to the type of its column without a word, and a physical
///   optimizer rule, by which it has as many writers as option `sink.parallelism` says;
/// - the functions of [`cdc::functions`], which make sequence numbers of changes, and a
///   physical optimizer rule, by which changes without them keep their order;
/// - the table function `debezium_envelopes('file', …, 'id BIGINT, name VARCHAR')`: the
///   changes in files of Debezium's JSON, as `op`, `before`, `after` and `source`.
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
    let shared = Arc::new(Shared::default());
    if let Some((project, context)) = catalog(&shared, &options)? {
        let catalogs = builder
            .catalog_list()
            .get_or_insert_with(|| Arc::new(MemoryCatalogProviderList::new()));
        catalogs.register_catalog(
            CATALOG_NAME.to_string(),
            Arc::new(BigQueryCatalog::new(project, context)),
        );
    }
    let catalogs = builder
        .catalog_list()
        .get_or_insert_with(|| Arc::new(MemoryCatalogProviderList::new()));
    let listings = Listings::new(Arc::clone(catalogs));
    let relations = BigQueryRelations::new(Arc::clone(&shared));
    let planners = builder.relation_planners().get_or_insert_default();
    planners.insert(0, Arc::new(listings));
    planners.insert(0, Arc::new(relations));

    let functions = builder.scalar_functions().get_or_insert_default();
    functions.extend(cdc::functions::all());
    let tables = builder.table_functions().get_or_insert_default();
    let envelopes = TableFunction::new(
        cdc::DEBEZIUM_ENVELOPES.to_string(),
        Arc::new(cdc::DebeziumEnvelopes),
    );
    tables.insert(cdc::DEBEZIUM_ENVELOPES.to_string(), Arc::new(envelopes));

    let mut config = config.with_extension(Arc::clone(&shared));
    let time_zone = &mut config.options_mut().execution.time_zone;
    time_zone.get_or_insert_with(|| TIME_ZONE.to_string());
    // Before DataFusion's own rules, which bring comparisons to common types.
    let analyzer = builder.analyzer().get_or_insert_default();
    analyzer.rules.insert(0, Arc::new(FitLiterals));
    // Before DataFusion chooses the sides of joins.
    let physical = builder.physical_optimizers().get_or_insert_default();
    physical.rules.insert(0, Arc::new(ReadFilesFirst));
    let most = Options::resolve_over(&RawOptions::new(), &options)?
        .scan
        .dynamic_filter_max_values;
    let config =
        with_room_for_keys(config, most).with_option_extension(BigQueryOptions::new(options)?);
    Ok(builder
        .with_config(config)
        .with_analyzer_rule(Arc::new(PlanInserts))
        .with_physical_optimizer_rule(Arc::new(SettleLateFilters))
        .with_physical_optimizer_rule(Arc::new(KeepChangeOrder))
        .with_physical_optimizer_rule(Arc::new(ArrangeWriters))
        .with_table_factory(
            FILE_TYPE.to_string(),
            Arc::new(BigQueryTableFactory::new(shared)),
        ))
}

/// BigQuery's TIMESTAMP is an instant, and shown in this time zone.
const TIME_ZONE: &str = "UTC";

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

/// Makes the catalog `bq` of a session anew if `SET` has changed the options by
/// which it reaches the service since it was made; says whether it did.
///
/// A catalog answers look-ups that know nothing of the session, so what a session
/// says of connections (`SET bigquery.project = …` and others) does not reach a
/// catalog that is there already. Until this is called, reading from it is an
/// error that names the option.
///
/// # Errors
/// As [`with_bigquery`], and [`Configuration`](crate::ErrorKind::Configuration)
/// for a session that was made without it.
pub fn renew_catalog(context: &SessionContext) -> Result<bool> {
    let state = context.state();
    let (Some(shared), Some(options)) = (
        state.config().get_extension::<Shared>(),
        state.config_options().extensions.get::<BigQueryOptions>(),
    ) else {
        return Err(Error::configuration(
            "the session was made without with_bigquery",
        ));
    };
    let existing = context.catalog(CATALOG_NAME);
    let made_with = existing
        .as_ref()
        .and_then(|catalog| catalog.downcast_ref::<BigQueryCatalog>())
        .map(BigQueryCatalog::made_with);
    let nothing = RawOptions::new();
    if other_connection(made_with.unwrap_or(&nothing), options.raw()).is_none() {
        return Ok(false);
    }
    match catalog(&shared, options.raw())? {
        Some((project, terms)) => {
            let catalog = Arc::new(BigQueryCatalog::new(project, terms));
            context.register_catalog(CATALOG_NAME, catalog);
            Ok(true)
        }
        None if made_with.is_some() => Err(Error::configuration(format!(
            "the catalog {CATALOG_NAME} needs option '{}'",
            PROJECT.name
        ))),
        None => Ok(false),
    }
}

/// What the catalog of the options' project is made of, if they name one.
fn catalog(shared: &Arc<Shared>, options: &RawOptions) -> Result<Option<(String, TableContext)>> {
    let resolved = Options::resolve_over(&RawOptions::new(), options)?;
    let Some(project) = resolved.table.project else {
        return Ok(None);
    };
    let context = TableContext {
        client: shared.client(&resolved.connection)?,
        snapshots: Arc::clone(&shared.snapshots),
        runs: Arc::clone(&shared.runs),
        options: RawOptions::new(),
        origin: Origin::Catalog(Arc::new(options.clone())),
    };
    shared.has_catalog(CATALOG_NAME, &project);
    Ok(Some((project, context)))
}
