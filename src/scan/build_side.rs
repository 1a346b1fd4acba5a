//! Which side of a hash join is read first, where a file is joined with a table.
//!
//! DataFusion reads the smaller side first if it knows how many rows both have, and
//! else the left one. Of CSV and JSON files it knows no rows, so that a table of
//! BigQuery on the left would be read whole and its keys sent to a file. A file's
//! size says enough.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use super::exec::BigQueryScanExec;

/// Bytes of a row of which nothing is known but that it has a key.
const ROW_BYTES: u64 = 8;

/// Joins read files first that are smaller than the table on the left. It has to run
/// before DataFusion's own choice, which keeps what it knows nothing better of.
#[derive(Debug, Default)]
pub(crate) struct ReadFilesFirst;

impl PhysicalOptimizerRule for ReadFilesFirst {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|plan| {
            let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(plan));
            };
            let movable = *join.partition_mode() == PartitionMode::Auto
                && join.join_type().supports_swap()
                && !join.null_aware;
            let smaller = || match (table_rows(join.left()), file_bytes(join.right())) {
                (Some(rows), Some(bytes)) => bytes < rows.saturating_mul(ROW_BYTES),
                _ => false,
            };
            if movable && smaller() {
                Ok(Transformed::yes(join.swap_inputs(PartitionMode::Auto)?))
            } else {
                Ok(Transformed::no(plan))
            }
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "read_files_before_bigquery"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of the largest table of BigQuery below `plan`, as far as they are known.
fn table_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    match plan.downcast_ref::<BigQueryScanExec>() {
        Some(scan) => scan.table_rows(),
        None => plan.children().into_iter().filter_map(table_rows).max(),
    }
}

/// The bytes of the files below `plan`, if there is nothing else.
fn file_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let children = plan.children();
    if !children.is_empty() {
        return children.into_iter().map(file_bytes).sum();
    }
    let source = plan.downcast_ref::<DataSourceExec>()?;
    let files = source.data_source().downcast_ref::<FileScanConfig>()?;
    let files = files.file_groups.iter().flat_map(|group| group.iter());
    Some(files.map(|file| file.object_meta.size).sum())
}
