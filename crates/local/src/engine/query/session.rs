//! Running DataFusion plans under GoogleSQL's rules.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio_util::sync::CancellationToken;

use crate::error::{Reason, Result, ServiceError};

/// Stack of the threads that analyze and run queries: both recurse over the tree.
pub(super) const STACK_BYTES: usize = 256 << 20;

/// A session without DataFusion's own names, whose plans run in one partition so
/// that rows keep their order.
pub(super) fn context() -> SessionContext {
    cancellable(CancellationToken::new())
}

/// Like [`context`]; what runs in it stops when the token is cancelled.
pub(super) fn cancellable(cancel: CancellationToken) -> SessionContext {
    let mut config = SessionConfig::new()
        .with_extension(Arc::new(cancel))
        .with_target_partitions(1)
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let options = config.options_mut();
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.execution.parquet.schema_force_view_types = false;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .build();
    SessionContext::new_with_state(state)
}

/// What a failure inside DataFusion means to the service: an error of ours that
/// travelled through it, or an internal one.
pub(super) fn service_error(error: DataFusionError) -> ServiceError {
    let mut current: &(dyn std::error::Error + 'static) = &error;
    loop {
        if let Some(own) = current.downcast_ref::<ServiceError>() {
            return own.clone();
        }
        if let Some(DataFusionError::External(inner)) = current.downcast_ref::<DataFusionError>()
            && let Some(own) = inner.downcast_ref::<ServiceError>()
        {
            return own.clone();
        }
        if let Some(DataFusionError::ArrowError(inner, _)) =
            current.downcast_ref::<DataFusionError>()
            && let arrow::error::ArrowError::ExternalError(inner) = inner.as_ref()
        {
            if let Some(own) = inner.downcast_ref::<ServiceError>() {
                return own.clone();
            }
            current = inner.as_ref();
            continue;
        }
        match current.source() {
            Some(source) => current = source,
            None => break,
        }
    }
    if matches!(error.find_root(), DataFusionError::NotImplemented(_)) {
        return ServiceError::unsupported(format_args!(
            "This query ({})",
            error.find_root().strip_backtrace()
        ));
    }
    if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) {
        return ServiceError::new(
            Reason::ResourcesExceeded,
            "Resources exceeded during query execution",
        );
    }
    ServiceError::internal(error.strip_backtrace())
}

/// An error of the service inside DataFusion.
pub(super) fn external(error: ServiceError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The token of a session.
pub(super) fn cancellation(context: &SessionContext) -> CancellationToken {
    context
        .state()
        .config()
        .get_extension::<CancellationToken>()
        .map(|token| token.as_ref().clone())
        .unwrap_or_default()
}

/// The error of a statement whose session was cancelled.
pub(super) fn stopped() -> ServiceError {
    ServiceError::new(Reason::Stopped, "Job execution was cancelled")
}

async fn unless_cancelled<T>(
    context: &SessionContext,
    work: impl Future<Output = Result<T, DataFusionError>>,
) -> Result<T, DataFusionError> {
    let cancel = cancellation(context);
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(external(stopped())),
        done = work => done,
    }
}

/// Optimizes and runs a plan, and waits for its rows.
pub(super) fn run(context: &SessionContext, plan: &LogicalPlan) -> Result<Vec<RecordBatch>> {
    wait(unless_cancelled(context, async {
        let physical = context.state().create_physical_plan(plan).await?;
        collect(physical, context.task_ctx()).await
    }))
}

/// Runs a physical plan and waits for its rows.
pub(super) fn run_physical(
    context: &SessionContext,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Vec<RecordBatch>> {
    wait(unless_cancelled(context, collect(plan, context.task_ctx())))
}

/// Waits for a future on a thread of its own: the caller may itself run inside an
/// operator, where a runtime must not be entered again.
pub(super) fn wait<T: Send>(
    future: impl Future<Output = Result<T, DataFusionError>> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let handle = std::thread::Builder::new()
            .name("query".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || {
                tokio::runtime::Builder::new_current_thread()
                    .build()
                    .map_err(|e| ServiceError::internal(format!("no runtime: {e}")))?
                    .block_on(future)
                    .map_err(service_error)
            })
            .map_err(|e| ServiceError::internal(format!("no thread for a query: {e}")))?;
        handle
            .join()
            .unwrap_or_else(|_| Err(ServiceError::internal("a query operator panicked")))
    })
}
