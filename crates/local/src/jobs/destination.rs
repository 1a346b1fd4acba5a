//! Writing a job's rows into its destination: dispositions, schema updates,
//! partitions. One commit, all rows or none.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::config::{
    CreateDisposition, DestinationProperties, LayoutConfig, SchemaUpdateOption, WriteDisposition,
};
use super::fit::fit_batch;
use super::layout;
use super::merge::{Wording, merge};
use super::partitions;
use super::target::Target;
use crate::error::{Result, ServiceError};
use crate::schema::{TableSchema, arrow_schema, logical_bytes};
use crate::store::partition::Granularity;
use crate::store::{
    Dataset, Mutation, Segment, State, Store, Table, TableKind, TableMeta, TableRef, millis_now,
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
                self.target.partition_start(&meta).map(drop)
            }
            Some(table) => {
                let meta = table.meta();
                self.check_kind(&meta)?;
                self.layout.check_same(&meta, self.write)?;
                self.target.partition_start(&meta)?;
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

    fn check_kind(&self, meta: &TableMeta) -> Result<()> {
        let kind = match meta.kind {
            TableKind::Table => return Ok(()),
            TableKind::View(_) => "VIEW",
            TableKind::MaterializedView(_) => "MATERIALIZED_VIEW",
            TableKind::External => "EXTERNAL",
        };
        Err(ServiceError::invalid(format!(
            "{} is not allowed for this operation because it is currently a {kind}.",
            self.target.table
        )))
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
        let now = millis_now();
        let mut meta = TableMeta::new(Arc::new(schema.clone()), &dataset.location, now);
        meta.expiration_time = layout::default_expiration(dataset, now);
        meta
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
            layout::check(&meta)?;
            return Ok(Plan {
                meta,
                existing: None,
                changed: true,
            });
        };
        let old = existing.meta();
        self.check_kind(&old)?;
        self.layout.check_same(&old, self.write)?;
        let mut meta = (*old).clone();
        if self.write == WriteDisposition::Truncate && self.target.partition.is_none() {
            meta.schema = Arc::new(incoming.clone());
            meta.primary_key.clear();
            meta.foreign_keys.clear();
            self.layout.apply(&mut meta);
            layout::check(&meta)?;
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
    pub fn write(
        &self,
        store: &Store,
        incoming: &TableSchema,
        batches: &[RecordBatch],
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
            Ok((self.mutations(plan, fitted)?, written))
        })
    }

    fn mutations(&self, plan: Plan, batches: Vec<RecordBatch>) -> Result<Vec<Mutation>> {
        let reference = &self.target.table;
        let mut mutations = Vec::new();
        let decorated = self.target.partition_start(&plan.meta)?;
        let by_ingestion = plan
            .meta
            .time_partitioning
            .as_ref()
            .filter(|p| p.field.is_none());
        let segments = |batches: Vec<RecordBatch>, partition| {
            if batches.is_empty() {
                Vec::new()
            } else {
                vec![Segment::in_memory(batches, partition)]
            }
        };
        let empty_before = plan
            .existing
            .as_ref()
            .is_none_or(|table| table.snapshot().rows() == 0);
        if plan.changed {
            mutations.push(Mutation::PutTable(
                reference.clone(),
                Box::new(plan.meta.clone()),
            ));
        }
        let replace = match self.write {
            WriteDisposition::Truncate | WriteDisposition::TruncateData => true,
            WriteDisposition::Append => false,
            WriteDisposition::Empty if empty_before => false,
            WriteDisposition::Empty => {
                return Err(ServiceError::duplicate(format_args!("Table {reference}")));
            }
        };
        if let Some(partitioning) = by_ingestion {
            let now = millis_now().saturating_mul(1000);
            let granularity = Granularity::parse(&partitioning.granularity);
            let start = decorated.or_else(|| granularity.map(|g| g.start_of(now)));
            let segments = segments(batches, start);
            mutations.push(match (replace, decorated) {
                (true, Some(partition)) => {
                    Mutation::ReplacePartitions(reference.clone(), vec![partition], segments)
                }
                (true, None) => Mutation::Replace(reference.clone(), segments),
                (false, _) => Mutation::Append(reference.clone(), segments),
            });
            return Ok(mutations);
        }
        if let Some(partition) = decorated {
            partitions::check_rows(&plan.meta, partition, &self.target, &batches)?;
            if replace {
                let mut all = match &plan.existing {
                    Some(table) => partitions::rows_outside(table, &plan.meta, partition)?,
                    None => Vec::new(),
                };
                all.extend(batches);
                mutations.push(Mutation::Replace(reference.clone(), segments(all, None)));
                return Ok(mutations);
            }
        }
        let segments = segments(batches, None);
        mutations.push(if replace {
            Mutation::Replace(reference.clone(), segments)
        } else {
            Mutation::Append(reference.clone(), segments)
        });
        Ok(mutations)
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
