//! Rows of one partition of a table that is partitioned by a column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};

use super::fit::fit_batch;
use super::target::Target;
use crate::error::{Result, ServiceError};
use crate::schema::arrow_schema;
use crate::store::partition::Granularity;
use crate::store::{Table, TableMeta};

/// For each row, whether it is in the partition that starts at `partition`
/// (microseconds since the epoch).
pub(super) fn membership(
    meta: &TableMeta,
    partition: i64,
    batch: &RecordBatch,
) -> Result<BooleanArray> {
    let broken = |what: &str| ServiceError::internal(format!("partitioned table: {what}"));
    let partitioning = meta
        .time_partitioning
        .as_ref()
        .ok_or_else(|| broken("no time partitioning"))?;
    let granularity = Granularity::parse(&partitioning.granularity)
        .ok_or_else(|| broken("unknown granularity"))?;
    let column = partitioning
        .field
        .as_ref()
        .and_then(|field| meta.schema.index_of(field))
        .ok_or_else(|| broken("no such column"))?;
    let times = micros(batch.column(column))?;
    let times = arrow::array::AsArray::as_primitive::<Int64Type>(&times);
    Ok(times
        .iter()
        .map(|time| Some(time.is_some_and(|t| granularity.start_of(t) == partition)))
        .collect())
}

fn micros(column: &ArrayRef) -> Result<ArrayRef> {
    let convert = |column: &ArrayRef, to: &DataType| {
        cast(column, to).map_err(|e| ServiceError::internal(format!("partition column: {e}")))
    };
    let time = match column.data_type() {
        DataType::Date32 => convert(column, &DataType::Timestamp(TimeUnit::Microsecond, None))?,
        _ => Arc::clone(column),
    };
    convert(&time, &DataType::Int64)
}

/// Refuses rows of other partitions than the one that the job names.
pub(super) fn check_rows(
    meta: &TableMeta,
    partition: i64,
    target: &Target,
    batches: &[RecordBatch],
) -> Result<()> {
    for batch in batches {
        if membership(meta, partition, batch)?.false_count() > 0 {
            return Err(ServiceError::invalid(format!(
                "Some rows belong to different partitions rather than destination partition {}${}",
                target.table,
                target.partition.as_deref().unwrap_or_default()
            )));
        }
    }
    Ok(())
}

/// The table's rows outside the partition, in the form of `meta`'s schema.
pub(super) fn rows_outside(
    table: &Table,
    meta: &TableMeta,
    partition: i64,
) -> Result<Vec<RecordBatch>> {
    let arrow = arrow_schema(&meta.schema);
    let mut kept = Vec::new();
    for batch in table.snapshot().batches()? {
        let batch = fit_batch(&batch, &meta.schema, &arrow)?;
        let inside = membership(meta, partition, &batch)?;
        let outside = arrow::compute::not(&inside)
            .and_then(|outside| filter_record_batch(&batch, &outside))
            .map_err(|e| ServiceError::internal(format!("rows of other partitions: {e}")))?;
        if outside.num_rows() > 0 {
            kept.push(outside);
        }
    }
    Ok(kept)
}
