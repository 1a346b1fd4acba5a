//! Which partition each row is in.

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Date32Type, Int64Type, TimestampMicrosecondType};

use super::commit::Store;
use super::mutation::Mutation;
use super::partition::{Partition, Partitioning};
use super::segment::Segment;
use super::segment_writer::SegmentWriter;
use super::snapshot::Snapshot;
use super::table::{Table, TableMeta};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, adapt_batch};
use crate::value::civil::DAY_MICROS;

/// Which rows of a table, seen from one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Those in it.
    Inside,
    /// All others.
    Outside,
}

impl Snapshot {
    /// The rows inside or outside of one partition, under the snapshot's schema,
    /// batch by batch.
    pub fn each_partition_row(
        &self,
        meta: &TableMeta,
        partition: &Partition,
        rows: Rows,
        take: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let wanted = |row| (row == *partition) == (rows == Rows::Inside);
        self.each_row_where(meta, &wanted, take)
    }

    /// The rows whose partition is `wanted`, batch by batch.
    fn each_row_where(
        &self,
        meta: &TableMeta,
        wanted: &dyn Fn(Partition) -> bool,
        take: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        for segment in &self.segments {
            for batch in segment.reader()? {
                let batch = adapt_batch(&batch?, &self.arrow)?;
                let kept = mask(meta, segment, &batch, wanted)?;
                if kept.true_count() == 0 {
                    continue;
                }
                take(
                    filter_record_batch(&batch, &kept)
                        .map_err(|e| ServiceError::internal(format!("rows of a partition: {e}")))?,
                )?;
            }
        }
        Ok(())
    }
}

/// For each row whether its partition is `wanted`.
fn mask(
    meta: &TableMeta,
    segment: &Segment,
    batch: &RecordBatch,
    wanted: &dyn Fn(Partition) -> bool,
) -> Result<BooleanArray> {
    let whole = |partition| BooleanArray::from(vec![wanted(partition); batch.num_rows()]);
    Ok(match meta.partitioning() {
        Partitioning::None => whole(Partition::Unpartitioned),
        Partitioning::Ingestion(_) => whole(match segment.partition() {
            Some(start) => Partition::Time(start),
            None => Partition::Unpartitioned,
        }),
        Partitioning::Time(field, granularity) => column(batch, field)?
            .into_iter()
            .map(|value| {
                Some(wanted(value.map_or(Partition::Null, |micros| {
                    Partition::Time(granularity.start(micros))
                })))
            })
            .collect(),
        Partitioning::Range(field, start, end, interval) => column(batch, field)?
            .into_iter()
            .map(|value| {
                Some(wanted(value.map_or(Partition::Null, |value| {
                    range_of(value, start, end, interval)
                })))
            })
            .collect(),
    })
}

fn range_of(value: i64, start: i64, end: i64, interval: i64) -> Partition {
    if !(start..end).contains(&value) {
        return Partition::Unpartitioned;
    }
    let steps = (i128::from(value) - i128::from(start)) / i128::from(interval);
    let first = i128::from(start) + steps * i128::from(interval);
    Partition::Range(i64::try_from(first).unwrap_or(start))
}

/// The partitioning column's integers; dates count in microseconds.
fn column(batch: &RecordBatch, field: &Field) -> Result<Vec<Option<i64>>> {
    let column = batch.column_by_name(&field.name).ok_or_else(|| {
        ServiceError::internal(format!(
            "the partitioning column {} has no values",
            field.name
        ))
    })?;
    if let Some(days) = column.as_primitive_opt::<Date32Type>() {
        let micros = |d: Option<i32>| d.map(|d| i64::from(d) * DAY_MICROS);
        Ok(days.iter().map(micros).collect())
    } else if let Some(micros) = column.as_primitive_opt::<TimestampMicrosecondType>() {
        Ok(micros.iter().collect())
    } else if let Some(integers) = column.as_primitive_opt::<Int64Type>() {
        Ok(integers.iter().collect())
    } else {
        Err(ServiceError::internal(format!(
            "the partitioning column {} is held as {}",
            field.name,
            column.data_type()
        )))
    }
}

/// What partitions of a table have expired.
#[derive(Debug)]
pub(super) enum Expiry {
    /// None; the next one does at this time, if any.
    Later(Option<i64>),
    /// This change removes them.
    Now(Mutation),
}

impl Table {
    /// Finds the rows in partitions that are past `timePartitioning.expirationMs`
    /// at `now` (microseconds). A partition's time counts from its start.
    pub(super) fn expiry(&self, store: &Store, now: i64) -> Result<Expiry> {
        let meta = self.meta();
        let life = meta
            .time_partitioning
            .as_ref()
            .and_then(|time| time.expiration_ms.as_ref()?.parse::<i64>().ok())
            .map(|ms| ms.saturating_mul(1000));
        let Some(life) = life.filter(|life| *life > 0) else {
            return Ok(Expiry::Later(None));
        };
        let snapshot = self.snapshot();
        let next = std::cell::Cell::new(None);
        let expired = |partition: Partition| match partition {
            Partition::Time(start) if start.saturating_add(life) <= now => true,
            Partition::Time(start) => {
                let at = start.saturating_add(life);
                next.set(Some(next.get().map_or(at, |n: i64| n.min(at))));
                false
            }
            Partition::Range(_) | Partition::Null | Partition::Unpartitioned => false,
        };
        if let Partitioning::Ingestion(_) = meta.partitioning() {
            let mut gone: Vec<i64> = snapshot
                .segments
                .iter()
                .filter_map(|s| s.partition())
                .filter(|start| expired(Partition::Time(*start)))
                .collect();
            gone.sort_unstable();
            gone.dedup();
            if gone.is_empty() {
                return Ok(Expiry::Later(next.get()));
            }
            let reference = self.reference().clone();
            return Ok(Expiry::Now(Mutation::ReplacePartitions(
                reference,
                gone,
                Vec::new(),
            )));
        }
        let mut any = false;
        for segment in &snapshot.segments {
            for batch in segment.reader()? {
                let batch = adapt_batch(&batch?, &snapshot.arrow)?;
                any |= mask(&meta, segment, &batch, &expired)?.true_count() > 0;
            }
        }
        if !any {
            return Ok(Expiry::Later(next.get()));
        }
        let mut kept = SegmentWriter::new(store, None);
        snapshot.each_row_where(&meta, &|partition| !expired(partition), &mut |batch| {
            kept.push(batch)
        })?;
        Ok(Expiry::Now(Mutation::Replace(
            self.reference().clone(),
            kept.finish()?,
        )))
    }
}
