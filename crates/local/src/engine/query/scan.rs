//! Rows that a plan reads: a table's snapshot, or rows at hand.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::provider_as_source;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown,
};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use super::super::functions::SqlType;
use super::partition_filter::PartitionFilter;
use super::session::service_error;
use super::snapshot_exec::SnapshotExec;
use crate::error::{Result, ServiceError};
use crate::store::{RequiredFilter, Snapshot};

/// What a scanned column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The table's column at this position.
    Column(usize),
    /// The row's number in the snapshot, from 0.
    RowNumber,
    /// Start of the ingestion-time partition, as a TIMESTAMP.
    Partition,
}

/// A column of a scan.
#[derive(Debug, Clone)]
pub(super) struct ScanColumn {
    pub(super) id: String,
    pub(super) sql_type: SqlType,
    pub(super) source: Source,
}

/// A table's rows at one instant.
pub(super) struct SnapshotTable {
    snapshot: Snapshot,
    columns: Vec<ScanColumn>,
    schema: SchemaRef,
    partition_filter: Option<PartitionFilter>,
    /// Where what is read counts, if it does.
    meter: Option<Meter>,
    /// Positions of the columns that were counted.
    counted: Mutex<HashSet<usize>>,
}

/// Logical bytes that a statement reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter(Arc<AtomicU64>);

impl Meter {
    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl SnapshotTable {
    /// Counts the columns that are read; each once, however often they are.
    fn count(&self, columns: &[ScanColumn]) {
        let Some(meter) = &self.meter else { return };
        let mut counted = self.counted.lock();
        for column in columns {
            if let Source::Column(position) = column.source
                && counted.insert(position)
            {
                let name = &self.snapshot.schema.fields[position].name;
                let segments = self.snapshot.segments.iter();
                meter.add(segments.map(|segment| segment.column_bytes(name)).sum());
            }
        }
    }

    /// The filter that whoever reads the table must have.
    pub(super) fn partition_filter(&self) -> Option<&PartitionFilter> {
        self.partition_filter.as_ref()
    }
}

impl fmt::Debug for SnapshotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotTable")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

/// A stored array as expressions see its type: without decimal parameters, and
/// with nothing said about nullability.
pub(super) fn canonical(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let misfit = |e: arrow::error::ArrowError| ServiceError::internal(e.to_string());
    match (array.data_type(), to) {
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let values = canonical(list.values(), item.data_type())?;
            Ok(Arc::new(
                ListArray::try_new(
                    Arc::clone(item),
                    list.offsets().clone(),
                    values,
                    list.nulls().cloned(),
                )
                .map_err(misfit)?,
            ))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let from = array.as_struct();
            let columns = from
                .columns()
                .iter()
                .zip(fields)
                .map(|(c, f)| canonical(c, f.data_type()))
                .collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(
                StructArray::try_new_with_length(
                    fields.clone(),
                    columns,
                    from.nulls().cloned(),
                    from.len(),
                )
                .map_err(misfit)?,
            ))
        }
        _ => cast(array, to).map_err(misfit),
    }
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    // The filters stay above the scan; a table that requires one looks at them.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let pushed = match self.partition_filter {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(vec![pushed; filters.len()])
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let wanted = projection
            .cloned()
            .unwrap_or_else(|| (0..self.columns.len()).collect());
        let schema = Arc::new(self.schema.project(&wanted)?);
        let columns: Vec<ScanColumn> = wanted.iter().map(|i| self.columns[*i].clone()).collect();
        self.count(&columns);
        let snapshot = self.snapshot.clone();
        Ok(Arc::new(SnapshotExec::new(snapshot, columns, schema)))
    }
}

/// Reads `snapshot`; the plan's columns are called by their ids. `required` is the
/// filter that the table must be read with; what is read counts in `meter`.
pub(super) fn scan(
    snapshot: Snapshot,
    columns: Vec<ScanColumn>,
    required: Option<RequiredFilter<'_>>,
    meter: Option<Meter>,
) -> Result<LogicalPlan> {
    let partition_filter = required.map(|required| PartitionFilter {
        ids: columns
            .iter()
            .filter(|c| match c.source {
                Source::Column(i) => required
                    .column
                    .is_some_and(|name| snapshot.schema.fields[i].name.eq_ignore_ascii_case(name)),
                Source::Partition => required.column.is_none(),
                Source::RowNumber => false,
            })
            .map(|c| c.id.clone())
            .collect(),
        refusal: required.refusal,
    });
    let schema = id_schema(columns.iter().map(|c| (&c.id, &c.sql_type)));
    plan_of(Arc::new(SnapshotTable {
        snapshot,
        columns,
        schema,
        partition_filter,
        meter,
        counted: Mutex::default(),
    }))
}

/// Reads rows at hand under the given ids and types.
pub(super) fn rows(
    columns: &[(String, SqlType)],
    batches: Vec<RecordBatch>,
) -> Result<LogicalPlan> {
    plan_of(Arc::new(Slot::new(columns, batches)))
}

/// The Arrow schema of columns called by their ids.
pub(super) fn id_schema<'a>(columns: impl Iterator<Item = (&'a String, &'a SqlType)>) -> SchemaRef {
    Arc::new(Schema::new(
        columns.map(|(id, t)| t.to_field(id)).collect::<Vec<_>>(),
    ))
}

/// A scan of `provider` whose columns have no qualifier.
pub(super) fn plan_of(provider: Arc<dyn TableProvider>) -> Result<LogicalPlan> {
    let schema = provider.schema();
    // Ids are unique, so the first one makes the table's name unique too.
    let name = match schema.fields().first() {
        Some(field) => format!("t_{}", field.name()),
        None => "t".to_string(),
    };
    let scan = LogicalPlanBuilder::scan(name.as_str(), provider_as_source(provider), None)
        .map_err(service_error)?;
    let columns = schema
        .fields()
        .iter()
        .map(|f| {
            Expr::Column(datafusion::common::Column::new(
                Some(name.as_str()),
                f.name(),
            ))
            .alias(f.name())
        })
        .collect::<Vec<_>>();
    scan.project(columns)
        .and_then(LogicalPlanBuilder::build)
        .map_err(service_error)
}

/// Rows that may be exchanged between two plannings.
pub(super) struct Slot {
    schema: SchemaRef,
    batches: Mutex<Vec<RecordBatch>>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Slot {
    pub(super) fn new(columns: &[(String, SqlType)], batches: Vec<RecordBatch>) -> Self {
        Self {
            schema: id_schema(columns.iter().map(|(id, t)| (id, t))),
            batches: Mutex::new(batches),
        }
    }

    pub(super) fn put(&self, batches: Vec<RecordBatch>) {
        *self.batches.lock() = batches;
    }
}

#[async_trait]
impl TableProvider for Slot {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let batches = self.batches.lock().clone();
        Ok(MemorySourceConfig::try_new_exec(
            &[batches],
            Arc::clone(&self.schema),
            projection.cloned(),
        )?)
    }
}
