//! MERGE.

use std::collections::HashSet;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;

use super::analyze::{Analyzer, Joined, Target};
use super::ast::{Expr, Ident, MergeAction, MergeClause, MergeMatch, Path, TableExpr};
use super::change::{batch_of, column_values, several_matches, update_of};
use super::env::{Env, RowChange};
use super::insert::{Changed, changeable};
use super::rewrite::rewritten;
use super::session::{planned, run};
use crate::error::{Result, ServiceError};
use crate::store::{SegmentWriter, micros_now};

/// The parts of a MERGE statement.
pub(super) struct Merge<'m> {
    pub(super) target: &'m Path,
    pub(super) alias: Option<&'m Ident>,
    pub(super) source: &'m TableExpr,
    pub(super) on: &'m Expr,
    pub(super) clauses: &'m [MergeClause],
}

pub(super) fn merge(env: &Env, analyzer: &Analyzer<'_>, merge: &Merge<'_>) -> Result<Changed> {
    let (table, meta) = changeable(env, merge.target, "MERGE")?;
    let snapshot = env.snapshot(&table);
    env.note_target(&snapshot);
    let target = Target::new(
        table.reference(),
        &meta,
        snapshot.clone(),
        merge.target,
        merge.alias,
    );
    let mut joined = analyzer.merge_rows(&target, merge.source, merge.on, merge.clauses)?;
    analyzer.keep_merge_columns(&mut joined, merge.clauses, &target)?;
    let mut changed = Changed::nothing("MERGE", table.reference());
    let batches = if env.dry_run {
        planned(&env.context, &joined.plan)?;
        Vec::new()
    } else {
        run(&env.context, &joined.plan)?
    };
    one_match_each(&joined, &batches, merge.clauses)?;
    let mut updates = Vec::new();
    let mut deleted: HashSet<i64> = HashSet::new();
    let mut added = Vec::new();
    for (index, clause) in merge.clauses.iter().enumerate() {
        match &clause.action {
            MergeAction::Update(_) => {
                let plan = analyzer.merge_update(&joined, &batches, index, clause, &target)?;
                if env.dry_run {
                    continue;
                }
                let result = run(&env.context, &plan.plan)?;
                let update = update_of(&result, &plan.row, &plan.values, &snapshot.schema)?;
                changed.updated += update.rows.len() as u64;
                updates.push(update);
            }
            MergeAction::Delete => {
                let rows = rows_of(&joined, &batches, index)?;
                changed.deleted += rows.len() as u64;
                deleted.extend(rows);
            }
            MergeAction::Insert { .. } | MergeAction::InsertRow => {
                let rel = analyzer.merge_insert(&joined, &batches, index, clause, &target)?;
                if env.dry_run {
                    continue;
                }
                let result = run(&env.context, &rel.plan)?;
                let columns = rel
                    .columns
                    .iter()
                    .zip(&snapshot.schema.fields)
                    .map(|(col, field)| column_values(&result, &col.id, field))
                    .collect::<Result<Vec<_>>>()?;
                let batch = batch_of(columns, &snapshot.schema)?;
                if batch.num_rows() > 0 {
                    changed.inserted += batch.num_rows() as u64;
                    added.push(batch);
                }
            }
        }
    }
    let touched = changed.inserted + changed.updated + changed.deleted;
    if touched > 0 {
        let store = &env.service.store;
        let parts = rewritten(store, &snapshot, &updates, &deleted)?;
        let mut new = SegmentWriter::new(store, meta.ingestion_partition(micros_now()));
        for batch in added {
            new.push(batch)?;
        }
        let change = RowChange::Rewrite(parts, new.finish()?);
        env.change_rows(&table, &meta, snapshot.version, change, &changed)?;
    }
    Ok(changed)
}

/// The target's rows to which a clause applies.
fn rows_of(
    joined: &Joined,
    batches: &[arrow::array::RecordBatch],
    clause: usize,
) -> Result<Vec<i64>> {
    let mut rows = Vec::new();
    for batch in batches.iter().filter(|b| b.num_rows() > 0) {
        let column = |id: &str| {
            batch
                .column_by_name(id)
                .map(|c| c.as_primitive::<Int64Type>())
                .ok_or_else(|| ServiceError::internal("joined rows have numbers"))
        };
        let (numbers, clauses) = (column(&joined.row)?, column(&joined.clause)?);
        for i in 0..batch.num_rows() {
            if numbers.is_valid(i) && usize::try_from(clauses.value(i)).is_ok_and(|c| c == clause) {
                rows.push(numbers.value(i));
            }
        }
    }
    Ok(rows)
}

/// A row of the target may match one row of the source at most.
fn one_match_each(
    joined: &Joined,
    batches: &[arrow::array::RecordBatch],
    clauses: &[MergeClause],
) -> Result<()> {
    let mut seen = HashSet::new();
    for (index, clause) in clauses.iter().enumerate() {
        if clause.when != MergeMatch::Matched {
            continue;
        }
        for row in rows_of(joined, batches, index)? {
            if !seen.insert(row) {
                return Err(several_matches());
            }
        }
    }
    Ok(())
}
