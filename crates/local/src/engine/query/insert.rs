//! INSERT.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::scalar::ScalarValue;

use super::analyze::{Analyzer, Rel, Typed};
use super::ast::{Ident, InsertSource, InsertValue, Path};
use super::default::default_value;
use super::env::{Env, RowChange};
use super::output::{to_batch, to_field};
use super::select::result_columns;
use super::session::{for_each, planned, service_error};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, Mode, TableSchema, arrow_field, arrow_schema};
use crate::store::{SegmentWriter, Table, TableKind, TableMeta, TableRef, micros_now};

/// What a statement that changes rows did.
pub(super) struct Changed {
    pub(super) statement_type: &'static str,
    pub(super) target: TableRef,
    pub(super) inserted: u64,
    pub(super) updated: u64,
    pub(super) deleted: u64,
}

impl Changed {
    /// A statement on `target` that has changed nothing yet.
    pub(super) fn nothing(statement_type: &'static str, target: &TableRef) -> Self {
        Self {
            statement_type,
            target: target.clone(),
            inserted: 0,
            updated: 0,
            deleted: 0,
        }
    }
}

/// A table that rows may be written to.
pub(super) fn writable(env: &Env, path: &Path) -> Result<(Arc<Table>, Arc<TableMeta>)> {
    let reference = env.table_ref(path)?;
    let table = env.table(&reference)?;
    let meta = table.meta();
    match meta.kind {
        TableKind::Table if meta.extra.contains_key("snapshotDefinition") => {
            Err(ServiceError::invalid_query(format!(
                "{reference} is a snapshot, and DML statements need a table"
            )))
        }
        TableKind::Table => Ok((table, meta)),
        TableKind::View(_) | TableKind::MaterializedView(_) => Err(ServiceError::invalid_query(
            format!("{reference} is a view, and DML statements need a table"),
        )),
        TableKind::External => Err(ServiceError::invalid_query(format!(
            "{reference} is an external table, and DML statements need a native one"
        ))),
    }
}

/// A table whose rows a statement can change: as [`writable`], and not one that is
/// changed by key.
///
/// Source: BigQuery's documentation of change data capture, "Limitations".
pub(super) fn changeable(
    env: &Env,
    path: &Path,
    statement: &str,
) -> Result<(Arc<Table>, Arc<TableMeta>)> {
    let (table, meta) = writable(env, path)?;
    if table.is_captured() {
        return Err(ServiceError::invalid_query(format!(
            "{statement} is not supported on table {} while change data capture writes to it",
            table.reference()
        )));
    }
    Ok((table, meta))
}

/// The positions of the named columns; all of them without a list.
pub(super) fn positions(
    analyzer: &Analyzer<'_>,
    schema: &TableSchema,
    columns: &[Ident],
) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok((0..schema.fields.len()).collect());
    }
    let mut positions = Vec::new();
    for name in columns {
        let Some(i) = schema.index_of(&name.name) else {
            return Err(analyzer.error(
                name.at,
                format_args!("Column {} is not present in the table", name.name),
            ));
        };
        if positions.contains(&i) {
            return Err(analyzer.error(
                name.at,
                format_args!("INSERT has columns with duplicate name: {}", name.name),
            ));
        }
        positions.push(i);
    }
    Ok(positions)
}

/// The default of every column that the statement leaves out.
fn defaults(env: &Env, schema: &TableSchema) -> Result<Vec<ScalarValue>> {
    schema
        .fields
        .iter()
        .map(|f| default_value(env, f).map(|c| c.value))
        .collect()
}

/// Hands over the rows of an INSERT in the table's form, batch by batch.
fn rows(
    env: &Env,
    analyzer: &Analyzer<'_>,
    schema: &TableSchema,
    positions: &[usize],
    source: &InsertSource,
    mut take: impl FnMut(RecordBatch) -> Result<()> + Send,
) -> Result<()> {
    let defaults = defaults(env, schema)?;
    match source {
        InsertSource::Values(values) => {
            let mut cells: Vec<Vec<ScalarValue>> = vec![Vec::new(); schema.fields.len()];
            for row in values {
                if row.len() != positions.len() {
                    return Err(ServiceError::invalid_query(format!(
                        "Inserted row has wrong column count; Has {}, expected {}",
                        row.len(),
                        positions.len()
                    )));
                }
                for (i, field) in schema.fields.iter().enumerate() {
                    let value = match positions.iter().position(|p| *p == i).map(|p| &row[p]) {
                        Some(InsertValue::Expr(e)) => {
                            let typed = analyzer.value_for_column(e, field)?;
                            analyzer.evaluate_typed(&typed)?.value
                        }
                        Some(InsertValue::Default) | None => defaults[i].clone(),
                    };
                    cells[i].push(value);
                }
            }
            let columns = cells
                .into_iter()
                .zip(&schema.fields)
                .map(|(values, field)| {
                    let array = ScalarValue::iter_to_array(values).map_err(service_error)?;
                    stored(&array, field)
                })
                .collect::<Result<Vec<_>>>()?;
            take(to_batch(&columns, values.len(), &arrow_schema(schema))?)
        }
        InsertSource::Query(query) => {
            let rel = result_columns(analyzer, query)?;
            if rel.columns.len() != positions.len() {
                return Err(ServiceError::invalid_query(format!(
                    "Inserted row has wrong column count; Has {}, expected {}",
                    rel.columns.len(),
                    positions.len()
                )));
            }
            let rel = for_columns(analyzer, rel, positions, schema)?;
            if env.dry_run {
                return planned(&env.context, &rel.plan);
            }
            for_each(&env.context, &rel.plan, |batch| {
                take(from_query(&batch, &rel, schema, positions, &defaults)?)
            })
        }
    }
}

/// A query's columns as values of the columns they go into.
fn for_columns(
    analyzer: &Analyzer<'_>,
    rel: Rel,
    positions: &[usize],
    schema: &TableSchema,
) -> Result<Rel> {
    let items = rel
        .columns
        .iter()
        .zip(positions)
        .map(|(col, p)| {
            let value: Typed = analyzer.column_for_column(col, &schema.fields[*p])?;
            Ok((None, value))
        })
        .collect::<Result<Vec<_>>>()?;
    analyzer.projected(rel, items)
}

fn from_query(
    batch: &RecordBatch,
    rel: &Rel,
    schema: &TableSchema,
    positions: &[usize],
    defaults: &[ScalarValue],
) -> Result<RecordBatch> {
    let columns = schema
        .fields
        .iter()
        .enumerate()
        .map(|(i, field)| {
            let array: ArrayRef = match positions.iter().position(|p| *p == i) {
                Some(p) => batch
                    .column_by_name(&rel.columns[p].id)
                    .cloned()
                    .ok_or_else(|| ServiceError::internal("a query has its columns"))?,
                None => defaults[i]
                    .to_array_of_size(batch.num_rows())
                    .map_err(service_error)?,
            };
            stored(&array, field)
        })
        .collect::<Result<Vec<_>>>()?;
    to_batch(&columns, batch.num_rows(), &arrow_schema(schema))
}

/// The values in the column's form; NULL in a REQUIRED column is refused.
pub(super) fn stored(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let array = to_field(array, &arrow_field(field))?;
    if field.mode() == Mode::Required && array.null_count() > 0 {
        return Err(ServiceError::invalid_query(format!(
            "Required field {} cannot be null",
            field.name
        )));
    }
    require_fields(&array, field)?;
    Ok(array)
}

/// NOT NULL inside structs.
fn require_fields(array: &ArrayRef, field: &Field) -> Result<()> {
    use arrow::array::AsArray;
    if field.fields().is_empty() {
        return Ok(());
    }
    let values = match field.mode() {
        Mode::Repeated => Arc::clone(array.as_list::<i32>().values()),
        _ => Arc::clone(array),
    };
    let parent = values.as_struct();
    for (column, inner) in parent.columns().iter().zip(field.fields()) {
        if inner.mode() == Mode::Required
            && (0..column.len()).any(|i| parent.is_valid(i) && column.is_null(i))
        {
            return Err(ServiceError::invalid_query(format!(
                "Required field {}.{} cannot be null",
                field.name, inner.name
            )));
        }
        require_fields(column, inner)?;
    }
    Ok(())
}

pub(super) fn insert(
    env: &Env,
    analyzer: &Analyzer<'_>,
    path: &Path,
    columns: &[Ident],
    source: &InsertSource,
) -> Result<Changed> {
    let (table, meta) = writable(env, path)?;
    let positions = positions(analyzer, &meta.schema, columns)?;
    let mut out = SegmentWriter::new(&env.service.store, meta.ingestion_partition(micros_now()));
    rows(env, analyzer, &meta.schema, &positions, source, |batch| {
        out.push(batch)
    })?;
    let changed = Changed {
        inserted: out.rows(),
        ..Changed::nothing("INSERT", table.reference())
    };
    let change = RowChange::Append(out.finish()?);
    env.change_rows(&table, &meta, 0, change, &changed)?;
    Ok(changed)
}
