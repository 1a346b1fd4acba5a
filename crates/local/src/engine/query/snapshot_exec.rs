//! The operator that reads a table's snapshot, segment by segment: rows that are
//! in files are in memory only as long as the query works on them.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray,
};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, assert_or_internal_err};
use datafusion::error::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};

use super::scan::{ScanColumn, Source, canonical};
use super::session::external;
use crate::error::{Result, ServiceError};
use crate::schema::adapt_batch;
use crate::store::{SegmentReader, Snapshot};

/// Reads `columns` of a snapshot in the order in which its rows arrived.
pub(super) struct SnapshotExec {
    snapshot: Snapshot,
    columns: Vec<ScanColumn>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl SnapshotExec {
    /// A scan whose batches have `schema`, which describes `columns`.
    pub(super) fn new(snapshot: Snapshot, columns: Vec<ScanColumn>, schema: SchemaRef) -> Self {
        let numbers = columns.iter().zip(schema.fields()).enumerate();
        let ordering = numbers
            .filter(|(_, (column, _))| column.source == Source::RowNumber)
            .map(|(position, (_, field))| {
                let column = Arc::new(Column::new(field.name(), position));
                [PhysicalSortExpr::new(column, ascending())]
            });
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(Arc::clone(&schema), ordering),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        Self {
            snapshot,
            columns,
            schema,
            properties: Arc::new(properties),
        }
    }
}

/// How row numbers are in order.
fn ascending() -> SortOptions {
    SortOptions {
        descending: false,
        nulls_first: false,
    }
}

impl fmt::Debug for SnapshotExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotExec")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for SnapshotExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.snapshot.rows();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "SnapshotExec: rows={rows}")
            }
            DisplayFormatType::TreeRender => writeln!(f, "rows={rows}"),
        }
    }
}

impl ExecutionPlan for SnapshotExec {
    fn name(&self) -> &'static str {
        "SnapshotExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        assert_or_internal_err!(partition == 0, "SnapshotExec has no partition {partition}");
        let mut columns = self.columns.clone();
        let mut positions: Vec<usize> = columns
            .iter()
            .filter_map(|column| match column.source {
                Source::Column(position) => Some(position),
                Source::RowNumber | Source::Partition => None,
            })
            .collect();
        positions.sort_unstable();
        positions.dedup();
        for column in &mut columns {
            if let Source::Column(position) = &mut column.source {
                *position = positions.binary_search(position).unwrap_or_default();
            }
        }
        let batches = Batches {
            read: Arc::new(self.snapshot.arrow.project(&positions)?),
            snapshot: self.snapshot.clone(),
            columns,
            schema: Arc::clone(&self.schema),
            segment: 0,
            reader: None,
            first: 0,
            ready: None,
            most: context.session_config().batch_size().max(1),
        };
        let batches = batches.map(|batch| batch.map_err(external));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            futures::stream::iter(batches),
        )))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        Ok(Arc::new(
            Statistics::new_unknown(&self.schema)
                .with_num_rows(Precision::Exact(self.snapshot.rows()))
                .with_total_byte_size(Precision::Inexact(self.snapshot.bytes())),
        ))
    }
}

/// The batches of a snapshot, one after the other.
struct Batches {
    snapshot: Snapshot,
    /// The columns that are read, in which `columns` count.
    read: SchemaRef,
    columns: Vec<ScanColumn>,
    schema: SchemaRef,
    /// The next segment.
    segment: usize,
    /// The current one, and the partition its rows are in.
    reader: Option<(SegmentReader, Option<i64>)>,
    /// Number of the next row.
    first: i64,
    /// What is read and not yet answered.
    ready: Option<RecordBatch>,
    most: usize,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.take().filter(|b| b.num_rows() > 0) {
                if batch.num_rows() <= self.most {
                    return Some(Ok(batch));
                }
                let rest = batch.num_rows() - self.most;
                self.ready = Some(batch.slice(self.most, rest));
                return Some(Ok(batch.slice(0, self.most)));
            }
            match self.read() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => {
                    self.segment = self.snapshot.segments.len();
                    self.reader = None;
                    return Some(Err(e));
                }
            }
        }
    }
}

impl Batches {
    /// Takes one step; answers whether there may be more.
    fn read(&mut self) -> Result<bool> {
        if let Some((reader, partition)) = &mut self.reader {
            let partition = *partition;
            match reader.next() {
                Some(batch) => self.ready = Some(self.columns_of(&batch?, partition)?),
                None => self.reader = None,
            }
            return Ok(true);
        }
        let Some(segment) = self.snapshot.segments.get(self.segment) else {
            return Ok(false);
        };
        let read = &self.read;
        let wanted = |name: &str| {
            let mut fields = read.fields().iter();
            fields.any(|field| field.name().eq_ignore_ascii_case(name))
        };
        self.reader = Some((segment.columns(&wanted)?, segment.partition()));
        self.segment += 1;
        Ok(true)
    }

    fn columns_of(&mut self, batch: &RecordBatch, partition: Option<i64>) -> Result<RecordBatch> {
        let batch = adapt_batch(batch, &self.read)?;
        let rows = batch.num_rows();
        let end = self.first + i64::try_from(rows).unwrap_or(i64::MAX);
        let arrays = self
            .columns
            .iter()
            .map(|column| {
                Ok(match column.source {
                    Source::Column(position) => {
                        canonical(batch.column(position), &column.sql_type.to_arrow())?
                    }
                    Source::RowNumber => {
                        Arc::new(Int64Array::from_iter_values(self.first..end)) as ArrayRef
                    }
                    Source::Partition => {
                        let starts = TimestampMicrosecondArray::from(vec![partition; rows]);
                        Arc::new(starts.with_timezone("UTC"))
                    }
                })
            })
            .collect::<Result<Vec<_>>>()?;
        self.first = end;
        RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            arrays,
            &RecordBatchOptions::new().with_row_count(Some(rows)),
        )
        .map_err(|e| ServiceError::internal(e.to_string()))
    }
}
