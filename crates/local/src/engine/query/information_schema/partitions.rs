//! PARTITIONS.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Date32Type, Int64Type, TimestampMicrosecondType};
use datafusion::scalar::ScalarValue;

use super::super::env::Env;
use super::{I, S, T, View, int, maybe, name_of, text, with_name};
use crate::error::Result;
use crate::schema::logical_bytes;
use crate::store::{Partitioning, Snapshot, Table, TableKind, TableMeta};
use crate::value::civil::DAY_MICROS;

pub(super) fn partitions(env: &Env, tables: &[Arc<Table>]) -> Result<View> {
    let mut view = with_name(&[
        ("partition_id", S),
        ("total_rows", I),
        ("total_logical_bytes", I),
        ("total_billable_bytes", I),
        ("last_modified_time", T),
        ("storage_tier", S),
    ]);
    for table in tables {
        let meta = table.meta();
        if meta.kind != TableKind::Table {
            continue;
        }
        let snapshot = env.snapshot(table);
        for (id, (rows, bytes)) in sizes(&snapshot, &meta)? {
            let mut row = name_of(table);
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            row.extend([
                maybe(id),
                int(i64::try_from(rows).unwrap_or(i64::MAX)),
                int(bytes),
                int(bytes),
                ScalarValue::TimestampMicrosecond(Some(snapshot.version), Some("UTC".into())),
                text("ACTIVE"),
            ]);
            view.rows.push(row);
        }
    }
    Ok(view)
}

/// Rows and logical bytes of every partition by id; a table without partitions has
/// one without id.
fn sizes(snapshot: &Snapshot, meta: &TableMeta) -> Result<BTreeMap<Option<String>, (u64, u64)>> {
    let mut sizes: BTreeMap<Option<String>, (u64, u64)> = BTreeMap::new();
    if meta.partitioning() == Partitioning::None {
        sizes.insert(None, (0, 0));
    }
    for segment in &snapshot.segments {
        for batch in segment.batches()? {
            let ids = ids(&batch, meta, segment.partition());
            let bytes = logical_bytes(&batch);
            let count = ids.len().max(1) as u64;
            for id in ids {
                let entry = sizes.entry(id).or_default();
                entry.0 += 1;
                entry.1 += bytes / count;
            }
        }
    }
    Ok(sizes)
}

/// The partition of every row.
fn ids(batch: &RecordBatch, meta: &TableMeta, arrived: Option<i64>) -> Vec<Option<String>> {
    let rows = batch.num_rows();
    let unpartitioned = || Some("__UNPARTITIONED__".to_string());
    let column = |name: &str| batch.column_by_name(name);
    match meta.partitioning() {
        Partitioning::None => vec![None; rows],
        Partitioning::Ingestion(granularity) => {
            vec![arrived.map_or_else(unpartitioned, |start| Some(granularity.id(start))); rows]
        }
        Partitioning::Time(field, granularity) => {
            let Some(column) = column(&field.name) else {
                return vec![Some("__NULL__".into()); rows];
            };
            (0..rows)
                .map(|i| {
                    if column.is_null(i) {
                        return Some("__NULL__".into());
                    }
                    let micros = match column.as_primitive_opt::<Date32Type>() {
                        Some(days) => i64::from(days.value(i)) * DAY_MICROS,
                        None => column.as_primitive::<TimestampMicrosecondType>().value(i),
                    };
                    Some(granularity.id(micros))
                })
                .collect()
        }
        Partitioning::Range(field, start, end, interval) => {
            let Some(column) = column(&field.name) else {
                return vec![Some("__NULL__".into()); rows];
            };
            let values = column.as_primitive::<Int64Type>();
            (0..rows)
                .map(|i| {
                    if values.is_null(i) {
                        return Some("__NULL__".into());
                    }
                    let value = values.value(i);
                    if !(start..end).contains(&value) {
                        return unpartitioned();
                    }
                    let steps = (i128::from(value) - i128::from(start)) / i128::from(interval);
                    Some((i128::from(start) + steps * i128::from(interval)).to_string())
                })
                .collect()
        }
    }
}
