//! Copy jobs: tables into a table, as one change.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::config::{CopyConfig, CreateDisposition, WriteDisposition};
use super::destination::{check_rows, rows_outside};
use super::fit::fit_batch;
use super::job::{Job, Outcome};
use super::location;
use super::merge::{Wording, merge};
use super::record::applied;
use super::statistics::{CopyStatistics, Statistics};
use super::target::Target;
use crate::error::{Result, ServiceError};
use crate::schema::arrow_schema;
use crate::store::{
    DatasetRef, Mutation, Partition, Partitioning, Rows, SegmentWriter, State, Store, Table,
    TableKind, TableMeta, TableRef, millis_now,
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

    /// The table that the job writes to.
    pub(super) fn table(&self) -> &TableRef {
        &self.destination.table
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
    pub fn run(&self, store: &Store, job: &Job) -> Result<CopyStatistics> {
        store.commit(|state| {
            job.check_wanted()?;
            let (mut mutations, statistics) = self.plan(store, state)?;
            let outcome = Outcome::success(Statistics::Copy(statistics));
            mutations.push(applied(job, &outcome, None));
            Ok((mutations, statistics))
        })
    }

    fn plan(&self, store: &Store, state: &State) -> Result<(Vec<Mutation>, CopyStatistics)> {
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
                let made = TableMeta::new(
                    dataset,
                    TableKind::Table,
                    Arc::clone(&model.schema),
                    millis_now(),
                );
                like(&model, made)
            }
            Some(table) => self.existing_meta(table, &model, whole)?,
        };
        if existing.is_some_and(|table| *table.meta() != meta) {
            meta.touch(millis_now());
        }
        let decorated = self.destination.partition_of(&meta)?;
        let arrow = arrow_schema(&meta.schema);
        let now = millis_now().saturating_mul(1000);
        let mut statistics = CopyStatistics::default();
        let mut segments = Vec::new();
        for (source, target) in sources.iter().zip(&self.sources) {
            let own = source.meta();
            let snapshot = source.snapshot();
            let inside = target.partition_of(&own)?;
            let place = |from: Option<i64>| match (meta.partitioning(), &decorated) {
                (Partitioning::Ingestion(_), Some(Partition::Time(start))) => Some(*start),
                (Partitioning::Ingestion(_), _) => from.or_else(|| meta.ingestion_partition(now)),
                _ => None,
            };
            // Rows that come as they are stay in the files where they are.
            let checked = match meta.partitioning() {
                Partitioning::Ingestion(_) => None,
                _ => decorated.as_ref(),
            };
            if inside.is_none() && checked.is_none() && snapshot.arrow == arrow {
                for segment in &snapshot.segments {
                    segments.push(segment.share_in(place(segment.partition())));
                }
                continue;
            }
            let fit = |batch: &RecordBatch| -> Result<RecordBatch> {
                let fitted = fit_batch(batch, &meta.schema, &arrow)?;
                if let Some(partition) = checked {
                    let rows = std::slice::from_ref(&fitted);
                    check_rows(&meta, partition, &self.destination, rows)?;
                }
                Ok(fitted)
            };
            if let Some(partition) = &inside {
                let from = match partition {
                    Partition::Time(start) => Some(*start),
                    _ => None,
                };
                let mut out = SegmentWriter::new(store, place(from));
                snapshot.each_partition_row(&own, partition, Rows::Inside, &mut |batch| {
                    out.push(fit(&batch)?)
                })?;
                segments.extend(out.finish()?);
                continue;
            }
            for segment in &snapshot.segments {
                let mut out = SegmentWriter::new(store, place(segment.partition()));
                for batch in segment.reader()? {
                    out.push(fit(&batch?)?)?;
                }
                segments.extend(out.finish()?);
            }
        }
        for segment in &segments {
            statistics.copied_rows += u64::try_from(segment.rows()).unwrap_or(u64::MAX);
            statistics.copied_logical_bytes += segment.logical_bytes();
        }
        let mut mutations = Vec::new();
        if existing.is_none_or(|table| *table.meta() != meta) {
            let put = Mutation::PutTable(reference.clone(), Box::new(meta.clone()));
            mutations.push(put);
        }
        let truncate = self.write == WriteDisposition::Truncate;
        let whole = decorated.is_none();
        mutations.push(match (existing, decorated) {
            (Some(_), None) if truncate => Mutation::Replace(reference.clone(), segments),
            (Some(table), Some(partition)) if truncate => match (meta.partitioning(), partition) {
                (Partitioning::Ingestion(_), Partition::Time(start)) => {
                    Mutation::ReplacePartitions(reference.clone(), vec![start], segments)
                }
                (_, partition) => {
                    let mut all = rows_outside(store, table, &meta, &partition)?;
                    all.append(&mut segments);
                    Mutation::Replace(reference.clone(), all)
                }
            },
            _ => Mutation::Append(reference.clone(), segments),
        });
        if truncate && existing.is_some() && whole {
            mutations.push(Mutation::ForgetChanges(reference.clone()));
        }
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
            WriteDisposition::Truncate if whole => Ok(like(model, (*old).clone())),
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

/// `own` with the schema, the layout and the constraints of `model`, and with its
/// description and labels when it has none.
fn like(model: &TableMeta, own: TableMeta) -> TableMeta {
    TableMeta {
        schema: Arc::clone(&model.schema),
        description: own.description.or_else(|| model.description.clone()),
        labels: if own.labels.is_empty() {
            model.labels.clone()
        } else {
            own.labels
        },
        time_partitioning: model.time_partitioning.clone(),
        range_partitioning: model.range_partitioning.clone(),
        clustering: model.clustering.clone(),
        require_partition_filter: model.require_partition_filter,
        primary_key: model.primary_key.clone(),
        foreign_keys: model.foreign_keys.clone(),
        ..own
    }
}
