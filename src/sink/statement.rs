//! What both ways to execute an INSERT have in common: the plan nodes of [`exec`] and the
//! one of [`data_sink`].
//!
//! [`exec`]: super::exec
//! [`data_sink`]: super::data_sink

use std::fmt;

use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;

use super::execution::Execution;
use super::feed::Feed;
use super::metrics::LiveMetrics;
use super::protocol::{BigQuerySink, Committable, PlannedChange};
use crate::plan_node::write_list;

/// Writes what a sink does, as EXPLAIN shows it.
pub(super) fn describe(
    sink: &BigQuerySink,
    f: &mut fmt::Formatter<'_>,
    separator: &str,
) -> fmt::Result {
    write!(
        f,
        "table={}{separator}write_method={}",
        sink.target(),
        sink.write_method().name(),
    )?;
    let Some(planned) = &sink.planned else {
        return Ok(());
    };
    write_list(f, separator, "columns", planned.encoder.columns())?;
    if let (Some(load), Some(path)) = (&planned.load, &sink.shared.options.file_loads.staging_path)
    {
        write!(
            f,
            "{separator}staging={path}{separator}format={}{separator}disposition={}",
            load.format().name(),
            load.disposition.name()
        )?;
    }
    if let Some(overwrite) = &planned.overwrite {
        match &overwrite.partition {
            None => write!(f, "{separator}replaces=table")?,
            Some(partition) => write!(f, "{separator}replaces={partition}")?,
        }
    }
    let (null, defaulted) = (&planned.null, &planned.defaulted);
    write_list(f, separator, "null", null)?;
    write_list(f, separator, "default", defaulted)?;
    match &sink.change {
        PlannedChange::None => {}
        PlannedChange::Creation => write!(f, "{separator}create=if_needed")?,
        PlannedChange::Columns(columns) => {
            write_list(f, separator, "change", columns)?;
        }
    }
    Ok(())
}

/// Writes a partition and gives what is to be committed of it, which the execution
/// learns of.
pub(super) async fn written(
    sink: &BigQuerySink,
    partition: usize,
    input: SendableRecordBatchStream,
    metrics: &LiveMetrics,
    execution: Option<&Execution>,
) -> Result<Vec<Committable>> {
    let mut writer = sink.writer(partition, None)?;
    let metrics = metrics.writer(partition, sink.write_method(), writer.counters());
    let mut feed = Feed::new(input, sink);
    loop {
        let next = feed.next().await;
        if !feed.give(next, &mut writer, &metrics).await? {
            break;
        }
    }
    let timer = metrics.write_time.timer();
    let committables = writer.prepare_commit().await?;
    timer.done();
    if let Some(execution) = execution {
        execution.hand_over(&committables);
    }
    writer.close().await?;
    metrics.baseline.record_output(committables.len());
    metrics.baseline.done();
    Ok(committables)
}
