//! The session behind the shell: DataFusion with what datafusion-cli adds to it,
//! and BigQuery.

use std::env;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bigquery::options::{RawOptions, registry};
use datafusion_bigquery::session::{CATALOG_NAME, with_bigquery};
use datafusion_cli::functions::{
    ListFilesCacheFunc, MetadataCacheFunc, ParquetMetadataFunc, StatisticsCacheFunc,
};
use datafusion_cli::object_storage::StdinCarriesCommands;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;

use crate::files::with_file_tables;
use crate::progress::{Progress, ProgressPlanner};
use crate::unset::UnsetCatalog;

/// How the shell is run, as far as the session must know.
#[derive(Debug, Clone, Default)]
pub struct Frontend {
    /// Name of the SQL dialect to begin with.
    pub dialect: Option<String>,
    /// Whether standard input carries statements, so that it cannot carry data.
    pub stdin: Stdin,
    /// Where long statements show how far they are; nowhere, if not given.
    pub progress: Option<Progress>,
}

/// What standard input carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing, or the data of a table at LOCATION '/dev/stdin'.
    #[default]
    Data,
    /// Statements.
    Statements,
}

/// A session, and the registry of object stores that its printing looks at.
pub struct Opened {
    /// The session.
    pub context: SessionContext,
    /// Its object stores.
    pub object_stores: Arc<InstrumentedObjectStoreRegistry>,
}

/// Opens a session over the BigQuery that `options` describe.
///
/// # Errors
/// Options that do not go together, or a dialect that is not known.
pub async fn open(options: RawOptions, frontend: Frontend) -> Result<Opened> {
    let object_stores = Arc::new(InstrumentedObjectStoreRegistry::new());
    let runtime = RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::clone(&object_stores) as _)
        .build_arc()?;
    let mut config = config(&frontend)?;
    if frontend.stdin == Stdin::Statements {
        config = config.with_extension(Arc::new(StdinCarriesCommands));
    }
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(runtime);
    let has_project = options.get(&registry::PROJECT).is_some();
    let mut state = with_bigquery(builder, options)?.build();
    if let Some(progress) = frontend.progress {
        let planner = ProgressPlanner::new(Arc::clone(state.query_planner()), progress);
        state = SessionStateBuilder::new_from_existing(state)
            .with_query_planner(Arc::new(planner))
            .build();
    }
    let context = with_file_tables(SessionContext::new_with_state(state));
    register_functions(&context);
    if !has_project {
        context.register_catalog(CATALOG_NAME, Arc::new(UnsetCatalog));
    }
    Ok(Opened {
        context,
        object_stores,
    })
}

/// DataFusion's settings: from the environment (`DATAFUSION_…`), else
/// datafusion-cli's.
fn config(frontend: &Frontend) -> Result<SessionConfig> {
    let mut options = ConfigOptions::from_env()?;
    if env::var_os("DATAFUSION_EXPLAIN_FORMAT").is_none() {
        options.explain.format = ExplainFormat::Tree;
    }
    if env::var_os("DATAFUSION_FORMAT_NULL").is_none() {
        options.format.null = "NULL".to_string();
    }
    if let Some(dialect) = &frontend.dialect {
        options.set("datafusion.sql_parser.dialect", dialect)?;
    }
    Ok(SessionConfig::from(options).with_information_schema(true))
}

/// The table functions that datafusion-cli has beyond DataFusion's.
fn register_functions(context: &SessionContext) {
    let caches = Arc::clone(&context.task_ctx().runtime_env().cache_manager);
    context.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
    context.register_udtf(
        "metadata_cache",
        Arc::new(MetadataCacheFunc::new(Arc::clone(&caches))),
    );
    context.register_udtf(
        "statistics_cache",
        Arc::new(StatisticsCacheFunc::new(Arc::clone(&caches))),
    );
    context.register_udtf(
        "list_files_cache",
        Arc::new(ListFilesCacheFunc::new(caches)),
    );
}
