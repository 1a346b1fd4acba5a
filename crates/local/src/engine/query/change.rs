//! UPDATE, DELETE and TRUNCATE: what changes is computed from one snapshot and put
//! in its place if nothing else changed the table meanwhile.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::Int64Type;

use super::analyze::{Analyzer, Target};
use super::ast::{Assignment, Expr, Ident, Path, TableExpr};
use super::env::{Env, RowChange};
use super::insert::{Changed, changeable, stored, writable};
use super::rewrite::{Change, rewrite};
use super::session::planned;
use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;

/// New values of some columns for some rows, by row number.
pub(super) struct Update {
    /// Position of each column and its new values in stored form.
    pub(super) columns: Vec<(usize, ArrayRef)>,
    /// Row number to index of the new values.
    pub(super) rows: HashMap<i64, usize>,
}

/// The row numbers in a result's column.
pub(super) fn numbers(batches: &[RecordBatch], id: &str) -> Result<Vec<i64>> {
    let mut out = Vec::new();
    for batch in batches.iter().filter(|b| b.num_rows() > 0) {
        let column = batch
            .column_by_name(id)
            .ok_or_else(|| ServiceError::internal("rows are numbered"))?;
        out.extend(column.as_primitive::<Int64Type>().values().iter().copied());
    }
    Ok(out)
}

/// One column of a result, as the table's column holds it.
pub(super) fn column_values(
    batches: &[RecordBatch],
    id: &str,
    field: &crate::schema::Field,
) -> Result<ArrayRef> {
    let arrow = crate::schema::arrow_field(field);
    let parts = batches
        .iter()
        .filter(|b| b.num_rows() > 0)
        .map(|b| {
            let column = b
                .column_by_name(id)
                .ok_or_else(|| ServiceError::internal("a result has its columns"))?;
            stored(column, field)
        })
        .collect::<Result<Vec<_>>>()?;
    if parts.is_empty() {
        return Ok(arrow::array::new_empty_array(arrow.data_type()));
    }
    let refs: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    arrow::compute::concat(&refs).map_err(|e| ServiceError::internal(e.to_string()))
}

/// Reads the result of an UPDATE's plan.
pub(super) fn update_of(
    batches: &[RecordBatch],
    row: &str,
    values: &[(usize, String)],
    schema: &TableSchema,
) -> Result<Update> {
    let mut rows = HashMap::new();
    for (index, number) in numbers(batches, row)?.into_iter().enumerate() {
        if rows.insert(number, index).is_some() {
            return Err(several_matches());
        }
    }
    let columns = values
        .iter()
        .map(|(position, id)| {
            Ok((
                *position,
                column_values(batches, id, &schema.fields[*position])?,
            ))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Update { columns, rows })
}

pub(super) fn several_matches() -> ServiceError {
    ServiceError::invalid_query(
        "UPDATE/MERGE must match at most one source row for each target row",
    )
}

/// A batch whose first row has number `first`, with new values.
pub(super) fn updated(batch: &RecordBatch, update: &Update, first: i64) -> Result<RecordBatch> {
    let internal = |e: arrow::error::ArrowError| ServiceError::internal(e.to_string());
    let count = batch.num_rows();
    let order: Vec<(usize, usize)> = (0..count)
        .map(|i| match update.rows.get(&(first + i as i64)) {
            Some(new) => (1, *new),
            None => (0, i),
        })
        .collect();
    if order.iter().all(|(from, _)| *from == 0) {
        return Ok(batch.clone());
    }
    let mut columns = batch.columns().to_vec();
    for (position, values) in &update.columns {
        columns[*position] = interleave(&[columns[*position].as_ref(), values.as_ref()], &order)
            .map_err(internal)?;
    }
    RecordBatch::try_new(batch.schema(), columns).map_err(internal)
}

pub(super) fn update(
    env: &Env,
    analyzer: &Analyzer<'_>,
    path: &Path,
    alias: Option<&Ident>,
    set: &[Assignment],
    from: Option<&TableExpr>,
    filter: &Expr,
) -> Result<Changed> {
    let (table, meta) = changeable(env, path, "UPDATE")?;
    let snapshot = env.snapshot(&table);
    env.note_target(&snapshot);
    let target = Target::new(table.reference(), &meta, snapshot.clone(), path, alias);
    let plan = analyzer.update_rows(&target, set, from, filter)?;
    let mut changed = Changed::nothing("UPDATE", table.reference());
    if env.dry_run {
        planned(&env.context, &plan.plan)?;
        return Ok(changed);
    }
    let what = Change::Update(&plan.values);
    let (rows, rewritten) = rewrite(env, &snapshot, plan.plan, &plan.row, what)?;
    changed.updated = rows;
    if rows > 0 {
        let change = RowChange::Rewrite(rewritten, Vec::new());
        env.change_rows(&table, &meta, snapshot.version, change, &changed)?;
    }
    Ok(changed)
}

pub(super) fn delete(
    env: &Env,
    analyzer: &Analyzer<'_>,
    path: &Path,
    alias: Option<&Ident>,
    filter: &Expr,
) -> Result<Changed> {
    let (table, meta) = changeable(env, path, "DELETE")?;
    let snapshot = env.snapshot(&table);
    env.note_target(&snapshot);
    let target = Target::new(table.reference(), &meta, snapshot.clone(), path, alias);
    let (plan, row) = analyzer.delete_rows(&target, filter)?;
    let mut changed = Changed::nothing("DELETE", table.reference());
    if env.dry_run {
        planned(&env.context, &plan)?;
        return Ok(changed);
    }
    let (rows, rewritten) = rewrite(env, &snapshot, plan, &row, Change::Delete)?;
    changed.deleted = rows;
    if rows > 0 {
        let change = RowChange::Rewrite(rewritten, Vec::new());
        env.change_rows(&table, &meta, snapshot.version, change, &changed)?;
    }
    Ok(changed)
}

pub(super) fn truncate(env: &Env, path: &Path) -> Result<Changed> {
    let (table, meta) = writable(env, path)?;
    let snapshot = env.snapshot(&table);
    let changed = Changed {
        deleted: snapshot.rows() as u64,
        ..Changed::nothing("TRUNCATE_TABLE", table.reference())
    };
    env.change_rows(
        &table,
        &meta,
        snapshot.version,
        RowChange::Replace(Vec::new()),
        &changed,
    )?;
    Ok(changed)
}

/// Used by MERGE for rows that it adds.
pub(super) fn batch_of(columns: Vec<ArrayRef>, schema: &TableSchema) -> Result<RecordBatch> {
    RecordBatch::try_new(crate::schema::arrow_schema(schema), columns)
        .map_err(|e| ServiceError::internal(e.to_string()))
}
