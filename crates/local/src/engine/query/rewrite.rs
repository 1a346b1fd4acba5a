//! Putting changed rows in the place of old ones, segment by segment: a segment in
//! which nothing changes stays as it is, and no more than one is in memory.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};

use super::analyze::column;
use super::change::{Update, column_values, several_matches, updated};
use super::env::Env;
use super::session::{for_each, service_error};
use crate::error::{Result, ServiceError};
use crate::schema::adapt_batch;
use crate::store::{Segment, SegmentWriter, Snapshot, Store};

/// A segment and what comes in its place.
pub(super) type Rewritten = Vec<(Arc<Segment>, Vec<Segment>)>;

/// What happens to the rows that a plan names.
pub(super) enum Change<'c> {
    /// They get the values in the plan's columns, by position in the table.
    Update(&'c [(usize, String)]),
    /// They go.
    Delete,
}

/// Changes the rows whose numbers are in the plan's column `row`, and answers how
/// many they are. The plan's rows are taken in order of that number: a plan that
/// finds them in order (one that only reads the table) is never held.
pub(super) fn rewrite(
    env: &Env,
    snapshot: &Snapshot,
    plan: LogicalPlan,
    row: &str,
    change: Change<'_>,
) -> Result<(u64, Rewritten)> {
    let sorted = LogicalPlanBuilder::from(plan)
        .sort([column(row).sort(true, false)])
        .and_then(LogicalPlanBuilder::build)
        .map_err(service_error)?;
    let mut rewriter = Rewriter {
        store: &env.service.store,
        snapshot,
        row,
        change,
        segment: 0,
        first: 0,
        last: None,
        pending: Vec::new(),
        changed: 0,
        out: Vec::new(),
    };
    for_each(&env.context, &sorted, |batch| rewriter.take(&batch))?;
    rewriter.flush()?;
    Ok((rewriter.changed, rewriter.out))
}

struct Rewriter<'r> {
    store: &'r Store,
    snapshot: &'r Snapshot,
    row: &'r str,
    change: Change<'r>,
    /// The segment that changes are gathered for, and the number of its first row.
    segment: usize,
    first: i64,
    /// Number of the last changed row.
    last: Option<i64>,
    /// Rows of the plan that are about the segment.
    pending: Vec<RecordBatch>,
    changed: u64,
    out: Rewritten,
}

fn row_numbers<'b>(batch: &'b RecordBatch, row: &str) -> Result<&'b [i64]> {
    let column = batch
        .column_by_name(row)
        .ok_or_else(|| ServiceError::internal("rows are numbered"))?;
    Ok(column.as_primitive::<Int64Type>().values())
}

impl Rewriter<'_> {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let numbers = row_numbers(batch, self.row)?;
        let mut at = 0;
        while at < numbers.len() {
            let end = self.end()?;
            if numbers[at] >= end {
                self.flush()?;
                self.segment += 1;
                self.first = end;
                continue;
            }
            let here = numbers[at..].partition_point(|number| *number < end);
            for number in &numbers[at..at + here] {
                if self.last == Some(*number) {
                    return Err(several_matches());
                }
                self.last = Some(*number);
            }
            self.changed += here as u64;
            self.pending.push(batch.slice(at, here));
            at += here;
        }
        Ok(())
    }

    /// The number of the first row after the segment.
    fn end(&self) -> Result<i64> {
        let segment = self
            .snapshot
            .segments
            .get(self.segment)
            .ok_or_else(|| ServiceError::internal("a row is in a segment"))?;
        Ok(self.first + segment.rows() as i64)
    }

    fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let mut numbers = Vec::new();
        for batch in &pending {
            numbers.extend_from_slice(row_numbers(batch, self.row)?);
        }
        let segment = &self.snapshot.segments[self.segment];
        let by = match self.change {
            Change::Delete => {
                let deleted = numbers.into_iter().collect();
                self.rewritten(segment, &[], &deleted)?
            }
            Change::Update(values) => {
                let fields = &self.snapshot.schema.fields;
                let columns = values
                    .iter()
                    .map(|(position, id)| {
                        let values = column_values(&pending, id, &fields[*position])?;
                        Ok((*position, values))
                    })
                    .collect::<Result<Vec<(usize, ArrayRef)>>>()?;
                let rows = numbers.into_iter().zip(0..).collect();
                self.rewritten(segment, &[Update { columns, rows }], &HashSet::new())?
            }
        };
        self.out.push((Arc::clone(segment), by));
        Ok(())
    }

    fn rewritten(
        &self,
        segment: &Segment,
        updates: &[Update],
        deleted: &HashSet<i64>,
    ) -> Result<Vec<Segment>> {
        segment_after(
            self.store,
            self.snapshot,
            (segment, self.first),
            updates,
            deleted,
        )
    }
}

/// The rows of a segment, the first of which has number `first`, after updates and
/// then deletions.
fn segment_after(
    store: &Store,
    snapshot: &Snapshot,
    (segment, mut first): (&Segment, i64),
    updates: &[Update],
    deleted: &HashSet<i64>,
) -> Result<Vec<Segment>> {
    let mut out = SegmentWriter::new(store, segment.partition());
    for batch in segment.reader()? {
        let mut batch = adapt_batch(&batch?, &snapshot.arrow)?;
        let count = batch.num_rows() as i64;
        for update in updates {
            batch = updated(&batch, update, first)?;
        }
        if !deleted.is_empty() {
            let kept: BooleanArray = (first..first + count)
                .map(|number| Some(!deleted.contains(&number)))
                .collect();
            batch = filter_record_batch(&batch, &kept)
                .map_err(|e| ServiceError::internal(e.to_string()))?;
        }
        first += count;
        out.push(batch)?;
    }
    out.finish()
}

/// The segments of a table in which rows are updated or deleted, after updates and
/// then deletions.
pub(super) fn rewritten(
    store: &Store,
    snapshot: &Snapshot,
    updates: &[Update],
    deleted: &HashSet<i64>,
) -> Result<Rewritten> {
    let mut touched: Vec<i64> = updates
        .iter()
        .flat_map(|update| update.rows.keys())
        .chain(deleted)
        .copied()
        .collect();
    touched.sort_unstable();
    let mut out = Vec::new();
    let mut first = 0;
    for segment in &snapshot.segments {
        let end = first + segment.rows() as i64;
        let next = touched.partition_point(|number| *number < first);
        if touched.get(next).is_some_and(|number| *number < end) {
            let by = segment_after(store, snapshot, (segment, first), updates, deleted)?;
            out.push((Arc::clone(segment), by));
        }
        first = end;
    }
    Ok(out)
}
