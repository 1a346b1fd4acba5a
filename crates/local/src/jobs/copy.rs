//! Copy jobs: tables into a table, as one change.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;

use super::config::{CopyConfig, CreateDisposition, WriteDisposition};
use super::fit::fit_batch;
use super::merge::{Wording, merge};
use super::partitions;
use super::statistics::CopyStatistics;
use super::target::Target;
use super::{layout, location};
use crate::error::{Result, ServiceError};
use crate::schema::{arrow_schema, logical_bytes};
use crate::store::{
    DatasetRef, Mutation, Segment, State, Store, Table, TableKind, TableMeta, millis_now,
};

/// Sources of one job at most.
const MAX_SOURCES: usize = 1_200;

/// A copy job, read.
#[derive(Debug)]
pub struct Copy {
    sources: Vec<Target>,
    destination: Target,
    create: CreateDisposition,
    write: WriteDisposition,
}

/// Rows to copy: the batches of one segment and its ingestion-time partition.
struct Part {
    batches: Vec<RecordBatch>,
    partition: Option<i64>,
}

impl Copy {
    /// Reads the configuration.
    pub fn read(config: &CopyConfig) -> Result<Self> {
        match config.operation_type.as_deref().unwrap_or("COPY") {
            "COPY" | "OPERATION_TYPE_UNSPECIFIED" => {}
            other => {
                return Err(ServiceError::invalid(format!(
                    "operationType {other} is not supported by bigquery-local"
                )));
            }
        }
        let sources = config.source_table.iter().chain(&config.source_tables);
        let sources: Result<Vec<Target>> = sources.map(Target::parse).collect();
        let sources = sources?;
        if sources.is_empty() {
            return Err(ServiceError::invalid(
                "Required parameter is missing: sourceTables",
            ));
        }
        if sources.len() > MAX_SOURCES {
            return Err(ServiceError::invalid(format!(
                "Too many sources: {}. Limit is {MAX_SOURCES}.",
                sources.len()
            )));
        }
        let write = config.write_disposition.unwrap_or(WriteDisposition::Empty);
        if write == WriteDisposition::TruncateData {
            return Err(ServiceError::invalid(
                "WRITE_TRUNCATE_DATA is not allowed for copy jobs.",
            ));
        }
        Ok(Self {
            sources,
            destination: Target::parse(&config.destination_table)?,
            create: config.create_disposition,
            write,
        })
    }

    /// The datasets that the job works on, destination first.
    pub fn datasets(&self) -> Vec<DatasetRef> {
        std::iter::once(&self.destination)
            .chain(&self.sources)
            .map(|target| target.table.dataset_ref())
            .collect()
    }

    /// Refuses what can be refused before the job runs.
    pub fn check(&self, state: &State, location: &str) -> Result<()> {
        location::check(state, location, &self.datasets())?;
        self.sources(state).map(drop)
    }

    fn sources(&self, state: &State) -> Result<Vec<Arc<Table>>> {
        self.sources
            .iter()
            .map(|source| {
                let table = state.require_table(&source.table)?;
                match table.meta().kind {
                    TableKind::Table => Ok(Arc::clone(table)),
                    _ => Err(ServiceError::invalid(format!(
                        "{} is not allowed for this operation because it is not currently a TABLE.",
                        source.table
                    ))),
                }
            })
            .collect()
    }

    /// Copies.
    pub fn run(&self, store: &Store) -> Result<CopyStatistics> {
        store.commit(|state| self.plan(state))
    }

    fn plan(&self, state: &State) -> Result<(Vec<Mutation>, CopyStatistics)> {
        let reference = &self.destination.table;
        let dataset = state.require_dataset(&reference.dataset_ref())?;
        let sources = self.sources(state)?;
        let model = sources[0].meta();
        for (source, target) in sources.iter().zip(&self.sources).skip(1) {
            merge(
                reference,
                &model.schema,
                &source.meta().schema,
                &[],
                Wording::Load,
            )
            .map_err(|e| {
                ServiceError::invalid(format!(
                    "Source tables {} and {} have different schemas: {}",
                    self.sources[0].table, target.table, e.message
                ))
            })?;
        }
        let existing = state.table(reference);
        let whole = self.destination.partition.is_none();
        let mut meta = match existing {
            None if self.create == CreateDisposition::Never => {
                return Err(ServiceError::not_found(format_args!("Table {reference}")));
            }
            None => {
                let now = millis_now();
                TableMeta {
                    expiration_time: layout::default_expiration(dataset, now),
                    ..like(&model, &dataset.location, now)
                }
            }
            Some(table) => self.existing_meta(table, &model, whole)?,
        };
        if existing.is_some_and(|table| *table.meta() != meta) {
            meta.touch(millis_now());
        }
        let decorated = self.destination.partition_start(&meta)?;
        let mut parts = Vec::new();
        for (source, target) in sources.iter().zip(&self.sources) {
            parts.extend(parts_of(source, target)?);
        }
        let by_ingestion = meta
            .time_partitioning
            .as_ref()
            .is_some_and(|p| p.field.is_none());
        let arrow = arrow_schema(&meta.schema);
        let mut statistics = CopyStatistics::default();
        let mut segments = Vec::new();
        for part in parts {
            let fitted: Result<Vec<RecordBatch>> = part
                .batches
                .iter()
                .map(|batch| fit_batch(batch, &meta.schema, &arrow))
                .collect();
            let fitted = fitted?;
            if let Some(start) = decorated.filter(|_| !by_ingestion) {
                partitions::check_rows(&meta, start, &self.destination, &fitted)?;
            }
            for batch in &fitted {
                statistics.copied_rows += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
                statistics.copied_logical_bytes += logical_bytes(batch);
            }
            let partition = match (by_ingestion, decorated) {
                (false, _) => None,
                (true, Some(start)) => Some(start),
                (true, None) => part.partition.or_else(|| now_partition(&meta)),
            };
            segments.push(Segment::in_memory(fitted, partition));
        }
        let mut mutations = Vec::new();
        if existing.is_none_or(|table| *table.meta() != meta) {
            let put = Mutation::PutTable(reference.clone(), Box::new(meta.clone()));
            mutations.push(put);
        }
        mutations.push(match (self.write, existing, decorated) {
            (WriteDisposition::Truncate, Some(table), Some(start)) if !by_ingestion => {
                let mut all = vec![Segment::in_memory(
                    partitions::rows_outside(table, &meta, start)?,
                    None,
                )];
                all.append(&mut segments);
                Mutation::Replace(reference.clone(), all)
            }
            (WriteDisposition::Truncate, _, Some(start)) => {
                Mutation::ReplacePartitions(reference.clone(), vec![start], segments)
            }
            (WriteDisposition::Truncate, _, None) => Mutation::Replace(reference.clone(), segments),
            _ => Mutation::Append(reference.clone(), segments),
        });
        Ok((mutations, statistics))
    }

    fn existing_meta(&self, table: &Table, model: &TableMeta, whole: bool) -> Result<TableMeta> {
        let reference = &self.destination.table;
        let old = table.meta();
        if old.kind != TableKind::Table {
            return Err(ServiceError::invalid(format!(
                "{reference} is not allowed for this operation because it is not currently a TABLE."
            )));
        }
        match self.write {
            WriteDisposition::Empty if table.snapshot().rows() > 0 => {
                Err(ServiceError::duplicate(format_args!("Table {reference}")))
            }
            WriteDisposition::Truncate if whole => Ok(TableMeta {
                description: old.description.clone(),
                labels: old.labels.clone(),
                creation_time: old.creation_time,
                last_modified_time: old.last_modified_time,
                etag: old.etag.clone(),
                expiration_time: old.expiration_time,
                extra: old.extra.clone(),
                ..like(model, &old.location, old.creation_time)
            }),
            _ => {
                // Copying adds rows, never columns, and tightens or relaxes nothing.
                let merged = merge(reference, &old.schema, &model.schema, &[], Wording::Load)?;
                if merged != *old.schema {
                    return Err(ServiceError::internal("a copy does not change a schema"));
                }
                Ok((*old).clone())
            }
        }
    }
}

/// A new table like `model`: schema, layout and constraints.
fn like(model: &TableMeta, location: &str, now: i64) -> TableMeta {
    TableMeta {
        description: model.description.clone(),
        labels: model.labels.clone(),
        time_partitioning: model.time_partitioning.clone(),
        range_partitioning: model.range_partitioning.clone(),
        clustering: model.clustering.clone(),
        require_partition_filter: model.require_partition_filter,
        primary_key: model.primary_key.clone(),
        foreign_keys: model.foreign_keys.clone(),
        ..TableMeta::new(Arc::clone(&model.schema), location, now)
    }
}

fn now_partition(meta: &TableMeta) -> Option<i64> {
    let partitioning = meta.time_partitioning.as_ref()?;
    let granularity = crate::store::partition::Granularity::parse(&partitioning.granularity)?;
    Some(granularity.start_of(millis_now().saturating_mul(1000)))
}

/// The rows of a table, or of the partition that `target` names.
fn parts_of(table: &Table, target: &Target) -> Result<Vec<Part>> {
    let meta = table.meta();
    let start = target.partition_start(&meta)?;
    let by_column = meta
        .time_partitioning
        .as_ref()
        .is_some_and(|p| p.field.is_some());
    let snapshot = table.snapshot();
    let mut parts = Vec::new();
    for segment in &snapshot.segments {
        if start.is_some() && !by_column && segment.partition() != start {
            continue;
        }
        let mut batches = segment.batches()?;
        if let Some(start) = start.filter(|_| by_column) {
            let arrow = arrow_schema(&meta.schema);
            for batch in &mut batches {
                let fitted = fit_batch(batch, &meta.schema, &arrow)?;
                let inside = partitions::membership(&meta, start, &fitted)?;
                *batch = filter_record_batch(&fitted, &inside)
                    .map_err(|e| ServiceError::internal(format!("rows of a partition: {e}")))?;
            }
        }
        parts.push(Part {
            batches,
            partition: segment.partition(),
        });
    }
    Ok(parts)
}
