//! How long a start takes when a directory holds about 1 GB of rows, most of it
//! in large segments and some of it streamed. A start reads no rows, so this must
//! not depend on their number.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bigquery_local::schema::{Field, FieldType, TableSchema, arrow_schema};
use bigquery_local::store::{
    Dataset, DatasetRef, Mutation, Segment, Store, StoreOptions, TableKind, TableMeta,
};

const LARGE: i64 = 16;
const LARGE_ROWS: i64 = 1 << 19;
const STREAMED: i64 = 2_000;

fn batch(schema: &TableSchema, from: i64, rows: i64) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(from..from + rows)),
        Arc::new(StringArray::from_iter_values(
            (from..from + rows).map(|n| format!("{n:0>112}")),
        )),
    ];
    RecordBatch::try_new(arrow_schema(schema), columns).expect("the columns fit the schema")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = io::stdout();
    let directory = tempfile::TempDir::new()?;
    let store = Store::open(directory.path(), StoreOptions::default())?;
    let schema = Arc::new(TableSchema::new(vec![
        Field::new("n", FieldType::Int64),
        Field::new("s", FieldType::String),
    ]));
    let dataset = Dataset::new("US", 0);
    let reference = DatasetRef::new("p", "d").table("t");
    let meta = TableMeta::new(&dataset, TableKind::Table, Arc::clone(&schema), 0);
    store.commit(|_| {
        let put = Mutation::PutDataset(reference.dataset_ref(), dataset);
        Ok((
            vec![put, Mutation::PutTable(reference.clone(), Box::new(meta))],
            (),
        ))
    })?;
    let append = |from: i64, rows: i64| {
        let segment = Segment::in_memory(vec![batch(&schema, from, rows)], None);
        let segments = store.stage(vec![segment])?;
        store.commit(|_| Ok((vec![Mutation::Append(reference.clone(), segments)], ())))
    };
    let began = Instant::now();
    for i in 0..LARGE {
        append(i * LARGE_ROWS, LARGE_ROWS)?;
    }
    for i in 0..STREAMED {
        append(LARGE * LARGE_ROWS + i, 1)?;
    }
    let bytes = store.table(&reference)?.snapshot().bytes();
    writeln!(out, "{} MB written in {:?}", bytes >> 20, began.elapsed())?;
    drop(store);
    let began = Instant::now();
    let store = Store::open(directory.path(), StoreOptions::default())?;
    let opened = began.elapsed();
    let rows = store.table(&reference)?.snapshot().rows();
    writeln!(out, "start with {rows} rows: {opened:?}")?;
    Ok(())
}
