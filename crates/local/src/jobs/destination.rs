//! Writing a job's rows into its destination: dispositions, schema updates,
//! partitions. One commit, all rows or none.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::config::{
    CreateDisposition, DestinationProperties, LayoutConfig, SchemaUpdateOption, WriteDisposition,
};
use super::fit::fit_batch;
use super::merge::{Wording, merge};
use super::target::Target;
use crate::error::{Result, ServiceError};
use crate::schema::{TableSchema, arrow_schema, logical_bytes};
use crate::store::{
    Dataset, Mutation, Partition, Partitioning, Rows, Segment, SegmentWriter, Snapshot, State,
    Store, Table, TableKind, TableMeta, TableRef, millis_now,
};

/// Where and how a job's rows are written.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Table or partition.
    pub target: Target,
    /// Whether a missing table is made.
    pub create: CreateDisposition,
    /// What happens to the rows that are there.
    pub write: WriteDisposition,
    /// What an append may change.
    pub updates: Vec<SchemaUpdateOption>,
    /// Layout of a table that is made.
    pub layout: LayoutConfig,
    /// Description and labels of a table that is made.
    pub properties: Option<DestinationProperties>,
    /// Location of the job.
    pub location: String,
    /// Whose words a refusal uses.
    pub wording: Wording,
}

/// What was written.
#[derive(Debug, Clone)]
pub struct Written {
    /// The table.
    pub table: TableRef,
    /// Its schema now.
    pub schema: Arc<TableSchema>,
    /// Rows written.
    pub rows: u64,
    /// Their logical bytes.
    pub bytes: u64,
}

/// What a write does to the table's metadata.
#[derive(Debug)]
struct Plan {
    meta: TableMeta,
    /// The table as it is, `None` when it is made.
    existing: Option<Arc<Table>>,
    /// Whether the metadata changes.
    changed: bool,
}

impl Destination {
    /// Refuses what can be refused before any row is read.
    pub fn check(&self, state: &State) -> Result<()> {
        let dataset = state.require_dataset(&self.target.table.dataset_ref())?;
        self.check_updates()?;
        match state.table(&self.target.table) {
            None if self.create == CreateDisposition::Never => Err(ServiceError::not_found(
                format_args!("Table {}", self.target.table),
            )),
            None => {
                let mut meta = self.new_meta(dataset, &TableSchema::default());
                self.layout.apply(&mut meta);
                self.target.partition_of(&meta).map(drop)
            }
            Some(table) => {
                let meta = table.meta();
                meta.takes_rows(&self.target.table)?;
                self.layout.check_same(&meta, self.write)?;
                self.target.partition_of(&meta)?;
                if self.write == WriteDisposition::Empty && table.snapshot().rows() > 0 {
                    return Err(ServiceError::duplicate(format_args!(
                        "Table {}",
                        self.target.table
                    )));
                }
                Ok(())
            }
        }
    }

    fn check_updates(&self) -> Result<()> {
        let allowed = match self.write {
            WriteDisposition::Append | WriteDisposition::TruncateData => true,
            WriteDisposition::Truncate => self.target.partition.is_some(),
            WriteDisposition::Empty => false,
        };
        if self.updates.is_empty() || allowed {
            return Ok(());
        }
        Err(ServiceError::invalid(
            "Schema update options should only be specified with WRITE_APPEND disposition, or \
             with WRITE_TRUNCATE disposition on a table partition.",
        ))
    }

    /// The schema of the destination while it lasts: rows without a schema of their
    /// own are read with it.
    pub fn existing_schema(&self, state: &State) -> Option<Arc<TableSchema>> {
        state
            .table(&self.target.table)
            .map(|table| Arc::clone(&table.meta().schema))
    }

    /// The schema that the destination would have after rows of `incoming`.
    pub fn schema_after(&self, state: &State, incoming: &TableSchema) -> Result<Arc<TableSchema>> {
        self.plan(state, incoming).map(|plan| plan.meta.schema)
    }

    fn new_meta(&self, dataset: &Dataset, schema: &TableSchema) -> TableMeta {
        TableMeta::new(
            dataset,
            TableKind::Table,
            Arc::new(schema.clone()),
            millis_now(),
        )
    }

    fn plan(&self, state: &State, incoming: &TableSchema) -> Result<Plan> {
        let table = &self.target.table;
        let dataset = state.require_dataset(&table.dataset_ref())?;
        let Some(existing) = state.table(table) else {
            if self.create == CreateDisposition::Never {
                return Err(ServiceError::not_found(format_args!("Table {table}")));
            }
            let mut meta = self.new_meta(dataset, incoming);
            self.layout.apply(&mut meta);
            self.describe(&mut meta);
            meta.validate_layout()?;
            return Ok(Plan {
                meta,
                existing: None,
                changed: true,
            });
        };
        let old = existing.meta();
        old.takes_rows(&self.target.table)?;
        self.layout.check_same(&old, self.write)?;
        let mut meta = (*old).clone();
        if self.write == WriteDisposition::Truncate && self.target.partition.is_none() {
            meta.schema = Arc::new(incoming.clone());
            meta.primary_key.clear();
            meta.foreign_keys.clear();
            self.layout.apply(&mut meta);
            meta.validate_layout()?;
        } else {
            let merged = merge(table, &old.schema, incoming, &self.updates, self.wording)?;
            if merged != *old.schema {
                meta.schema = Arc::new(merged);
            }
        }
        let changed = meta != *old;
        if changed {
            meta.touch(millis_now());
        }
        Ok(Plan {
            meta,
            existing: Some(Arc::clone(existing)),
            changed,
        })
    }

    fn describe(&self, meta: &mut TableMeta) {
        let Some(properties) = &self.properties else {
            return;
        };
        meta.description.clone_from(&properties.description);
        meta.labels.clone_from(&properties.labels);
        if let Some(name) = &properties.friendly_name {
            meta.extra
                .insert("friendlyName".into(), name.clone().into());
        }
    }

    /// Writes `batches`, which have the Arrow form of `incoming`, as one change.
    /// `carried` may make a step that becomes part of it, or call it off.
    pub fn write(
        &self,
        store: &Store,
        incoming: &TableSchema,
        batches: &[RecordBatch],
        carried: impl FnOnce(&Written) -> Result<Option<Mutation>>,
    ) -> Result<Written> {
        store.commit(|state| {
            let plan = self.plan(state, incoming)?;
            let arrow = arrow_schema(&plan.meta.schema);
            let mut fitted = Vec::with_capacity(batches.len());
            for batch in batches.iter().filter(|b| b.num_rows() > 0) {
                fitted.push(fit_batch(batch, &plan.meta.schema, &arrow)?);
            }
            let rows = fitted.iter().map(|b| count(b.num_rows())).sum();
            let bytes = fitted.iter().map(logical_bytes).sum();
            let written = Written {
                table: self.target.table.clone(),
                schema: Arc::clone(&plan.meta.schema),
                rows,
                bytes,
            };
            let mut mutations = self.mutations(store, plan, fitted)?;
            mutations.extend(carried(&written)?);
            Ok((mutations, written))
        })
    }

    fn mutations(
        &self,
        store: &Store,
        plan: Plan,
        batches: Vec<RecordBatch>,
    ) -> Result<Vec<Mutation>> {
        let reference = &self.target.table;
        let meta = &plan.meta;
        let decorated = self.target.partition_of(meta)?;
        let empty_before = plan
            .existing
            .as_ref()
            .is_none_or(|table| table.snapshot().rows() == 0);
        let replace = match self.write {
            WriteDisposition::Truncate | WriteDisposition::TruncateData => true,
            WriteDisposition::Append => false,
            WriteDisposition::Empty if empty_before => false,
            WriteDisposition::Empty => {
                return Err(ServiceError::duplicate(format_args!("Table {reference}")));
            }
        };
        let whole = decorated.is_none();
        let rows = match (decorated, meta.partitioning()) {
            (Some(Partition::Time(start)), Partitioning::Ingestion(_)) => {
                let segments = segments(batches, Some(start));
                if replace {
                    Mutation::ReplacePartitions(reference.clone(), vec![start], segments)
                } else {
                    Mutation::Append(reference.clone(), segments)
                }
            }
            (Some(partition), _) => {
                check_rows(meta, &partition, &self.target, &batches)?;
                if replace {
                    let mut all = match &plan.existing {
                        Some(table) => rows_outside(store, table, meta, &partition)?,
                        None => Vec::new(),
                    };
                    all.extend(segments(batches, None));
                    Mutation::Replace(reference.clone(), all)
                } else {
                    Mutation::Append(reference.clone(), segments(batches, None))
                }
            }
            (None, _) => {
                let now = millis_now().saturating_mul(1000);
                let segments = segments(batches, meta.ingestion_partition(now));
                if replace {
                    Mutation::Replace(reference.clone(), segments)
                } else {
                    Mutation::Append(reference.clone(), segments)
                }
            }
        };
        let mut mutations = Vec::new();
        if plan.changed {
            mutations.push(Mutation::PutTable(
                reference.clone(),
                Box::new(plan.meta.clone()),
            ));
        }
        if let Mutation::Replace(..) = rows
            && whole
        {
            mutations.push(Mutation::ForgetChanges(reference.clone()));
        }
        mutations.push(rows);
        Ok(mutations)
    }
}

/// One segment of all rows, or none when there are none.
fn segments(batches: Vec<RecordBatch>, partition: Option<i64>) -> Vec<Segment> {
    if batches.is_empty() {
        return Vec::new();
    }
    vec![Segment::in_memory(batches, partition)]
}

/// Refuses rows of other partitions than the one that the job names.
pub(super) fn check_rows(
    meta: &TableMeta,
    partition: &Partition,
    target: &Target,
    batches: &[RecordBatch],
) -> Result<()> {
    let rows = Snapshot {
        schema: Arc::clone(&meta.schema),
        arrow: arrow_schema(&meta.schema),
        segments: vec![Arc::new(Segment::in_memory(batches.to_vec(), None))],
        version: 0,
        time: 0,
    };
    let mut outside = false;
    rows.each_partition_row(meta, partition, Rows::Outside, &mut |_| {
        outside = true;
        Ok(())
    })?;
    if !outside {
        return Ok(());
    }
    Err(ServiceError::invalid(format!(
        "Some rows belong to different partitions rather than destination partition {}${}",
        target.table,
        target.partition.as_deref().unwrap_or_default()
    )))
}

/// The table's rows outside a partition, in the form of `meta`'s schema.
pub(super) fn rows_outside(
    store: &Store,
    table: &Table,
    meta: &TableMeta,
    partition: &Partition,
) -> Result<Vec<Segment>> {
    let arrow = arrow_schema(&meta.schema);
    let mut out = SegmentWriter::new(store, None);
    table
        .snapshot()
        .each_partition_row(&table.meta(), partition, Rows::Outside, &mut |batch| {
            out.push(fit_batch(&batch, &meta.schema, &arrow)?)
        })?;
    out.finish()
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
