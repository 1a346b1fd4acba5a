//! The session behind the shell: DataFusion with what datafusion-cli adds to it,
//! and BigQuery.

use std::env;
use std::sync::Arc;

use bigquery_local::LocalBigQuery;
use datafusion::config::{ConfigExtension, ConfigOptions};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::SessionConfig;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::options::BigQueryOptions;
use datafusion_cli::functions::{
    ListFilesCacheFunc, MetadataCacheFunc, ParquetMetadataFunc, StatisticsCacheFunc,
};
use datafusion_cli::object_storage::StdinCarriesCommands;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;

use crate::files::with_file_tables;
use crate::progress::{Progress, ProgressPlanner};

/// Which BigQuery a session talks to, and how.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Project of the catalog `bq`; without one there is no such catalog.
    pub project: Option<String>,
    /// Session defaults, as `SET bigquery.<name> = <value>` would set them.
    pub options: Vec<(String, String)>,
}

impl Connection {
    /// The embedded BigQuery `server`, with its project `project`.
    pub fn local(server: &LocalBigQuery, project: &str) -> Self {
        Self {
            project: Some(project.to_string()),
            options: vec![
                ("rest_endpoint".to_string(), server.rest_endpoint()),
                ("grpc_endpoint".to_string(), server.grpc_endpoint()),
                ("storage_endpoint".to_string(), server.storage_endpoint()),
                ("credentials".to_string(), "anonymous".to_string()),
            ],
        }
    }
}

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

/// Opens a session.
///
/// # Errors
/// An option or the dialect is not known, or has a value that it cannot have.
pub async fn open(connection: &Connection, frontend: Frontend) -> Result<Opened> {
    let object_stores = Arc::new(InstrumentedObjectStoreRegistry::new());
    let runtime = RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::clone(&object_stores) as _)
        .build_arc()?;
    let mut config = config(connection, &frontend)?;
    if frontend.stdin == Stdin::Statements {
        config = config.with_extension(Arc::new(StdinCarriesCommands));
    }
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(runtime);
    let mut state = builder.build();
    if let Some(progress) = frontend.progress {
        let planner = ProgressPlanner::new(Arc::clone(state.query_planner()), progress);
        state = SessionStateBuilder::new_from_existing(state)
            .with_query_planner(Arc::new(planner))
            .build();
    }
    let context = with_file_tables(SessionContext::new_with_state(state));
    register_functions(&context);
    Ok(Opened {
        context,
        object_stores,
    })
}

/// DataFusion's settings: from the environment (`DATAFUSION_…`), else
/// datafusion-cli's.
fn config(connection: &Connection, frontend: &Frontend) -> Result<SessionConfig> {
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
    options.extensions.insert(BigQueryOptions::default());
    for (name, value) in &connection.options {
        options.set(&format!("{}.{name}", BigQueryOptions::PREFIX), value)?;
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
