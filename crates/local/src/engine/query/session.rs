//! Running DataFusion plans under GoogleSQL's rules.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::partition_filter::check_partition_filters;
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
    // It may lose the sort of a join whose input is a union.
    options.optimizer.repartition_sorts = false;
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
    if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) {
        return ServiceError::new(
            Reason::ResourcesExceeded,
            "Resources exceeded during query execution",
        );
    }
    match error.find_root() {
        DataFusionError::IoError(_)
        | DataFusionError::External(_)
        | DataFusionError::ExecutionJoin(_) => ServiceError::internal(error.strip_backtrace()),
        // The statement was valid: what cannot be planned or run is a gap of this
        // server, and no failure that trying again could help.
        root => {
            let whole = root.strip_backtrace();
            // The lines after the first ask to report a bug to DataFusion.
            let message = whole.lines().next().unwrap_or_default();
            ServiceError::unsupported(format_args!(
                "This query ({})",
                message.trim_end_matches('.')
            ))
        }
    }
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
    check_partition_filters(plan)?;
    wait(unless_cancelled(context, async {
        let physical = context.state().create_physical_plan(plan).await?;
        collect(physical, context.task_ctx()).await
    }))
}

/// Refuses a plan that could not be run, without running it.
pub(super) fn planned(context: &SessionContext, plan: &LogicalPlan) -> Result<()> {
    check_partition_filters(plan)?;
    wait(async { context.state().create_physical_plan(plan).await.map(drop) })
}

/// Optimizes and runs a plan, and hands over its rows batch by batch.
pub(super) fn for_each(
    context: &SessionContext,
    plan: &LogicalPlan,
    mut take: impl FnMut(RecordBatch) -> Result<()> + Send,
) -> Result<()> {
    check_partition_filters(plan)?;
    wait(unless_cancelled(context, async {
        let physical = context.state().create_physical_plan(plan).await?;
        let mut batches = execute_stream(physical, context.task_ctx())?;
        while let Some(batch) = batches.next().await {
            take(batch?).map_err(external)?;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_planned_is_refused_and_no_internal_error() {
        for error in [
            DataFusionError::Plan("no".into()),
            DataFusionError::Internal("no".into()),
            DataFusionError::Plan("no".into()).context("SanityCheckPlan"),
            DataFusionError::NotImplemented("no".into()),
            DataFusionError::from(arrow::error::ArrowError::CastError("no".into())),
        ] {
            let refused = service_error(error);
            assert_eq!(refused.reason, Reason::InvalidQuery, "{refused}");
            assert!(refused.message.starts_with("This query ("), "{refused}");
            assert!(
                refused
                    .message
                    .ends_with("no) is not supported by bigquery-local"),
                "{refused}"
            );
        }
        let own = ServiceError::invalid_query("own");
        assert_eq!(service_error(external(own)).message, "own");
        let lost = DataFusionError::from(std::io::Error::other("disk"));
        assert_eq!(service_error(lost).reason, Reason::InternalError);
    }
}
