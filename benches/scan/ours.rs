//! The table read through SQL: a physical plan whose partitions run as tasks.

use std::time::Instant;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bigquery::{RawOptions, with_bigquery};
use futures::TryStreamExt;

use crate::Outcome;
use crate::shape::{Pass, Reading, STREAMS, say};

pub(crate) async fn run(reading: &Reading) -> Outcome<()> {
    let context = session(reading)?;
    let mut passes = Vec::new();
    for _ in 0..reading.passes {
        passes.push(pass(&context, reading).await?);
    }
    say(&passes);
    Ok(())
}

pub(crate) fn session(reading: &Reading) -> Outcome<SessionContext> {
    let project = reading.table.split('.').next().unwrap_or_default();
    let options = RawOptions::from_pairs([
        ("project", project),
        ("rest_endpoint", &reading.rest),
        ("grpc_endpoint", &reading.grpc),
        ("scan.compression", "none"),
        ("scan.max_stream_count", &STREAMS.to_string()),
        ("scan.preferred_min_stream_count", "1"),
    ])?;
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(STREAMS as usize));
    Ok(SessionContext::new_with_state(
        with_bigquery(builder, options)?.build(),
    ))
}

/// The statement that reads what `reading` says.
pub(crate) fn statement(reading: &Reading) -> String {
    let columns = match reading.columns.as_slice() {
        [] => "*".to_owned(),
        columns => columns.join(", "),
    };
    let (_, table) = reading.table.split_once('.').unwrap_or_default();
    let mut sql = format!("SELECT {columns} FROM bq.{table}");
    if !reading.predicate.is_empty() {
        sql.push_str(" WHERE ");
        sql.push_str(&reading.predicate);
    }
    sql
}

async fn pass(context: &SessionContext, reading: &Reading) -> Outcome<Pass> {
    let began = Instant::now();
    let plan = context
        .sql(&statement(reading))
        .await?
        .create_physical_plan()
        .await?;
    let planned = began.elapsed();
    let reads = execute_stream_partitioned(plan, context.task_ctx())?
        .into_iter()
        .map(|partition| {
            tokio::spawn(partition.try_fold(0i64, |rows, batch| async move {
                Ok(rows + i64::try_from(batch.num_rows()).unwrap_or(i64::MAX))
            }))
        });
    let mut rows = 0;
    for read in futures::future::join_all(reads).await {
        rows += read??;
    }
    Ok(Pass {
        rows,
        bytes: 0,
        planned,
        read: began.elapsed() - planned,
    })
}
