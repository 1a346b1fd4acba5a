//! Some batches of lineitem, and as many repetitions of them as it takes.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion_bigquery::types::encode::{EncodedRows, FieldMarks, Piece, RowEncoder, RowFormat};
use datafusion_bigquery::types::{Field, FieldType, Mode, TableSchema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::{Outcome, lineitem};

/// Rows of a batch, as DataFusion makes them.
const BATCH_ROWS: usize = 8_192;

/// How many batches are held.
const BATCHES: usize = 16;

/// The size of requests that the library makes unless it is told another.
pub(crate) const REQUEST_BYTES: usize = 512 << 10;

/// A file of batches, as the writers read them.
pub(crate) fn file() -> Outcome<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lineitem.arrows");
    if !path.exists() {
        let first = lineitem::files(0.1)?.swap_remove(0);
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(first)?)?
            .with_batch_size(BATCH_ROWS)
            .with_limit(BATCH_ROWS * BATCHES)
            .build()?;
        let unfinished = path.with_extension("unfinished");
        let mut writer: Option<StreamWriter<File>> = None;
        for batch in reader {
            let batch = batch?;
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(StreamWriter::try_new(
                    File::create(&unfinished)?,
                    batch.schema_ref(),
                )?),
            };
            writer.write(&batch)?;
        }
        writer.ok_or("lineitem has no rows")?.finish()?;
        fs::rename(unfinished, &path)?;
    }
    Ok(path)
}

pub(crate) fn read(path: &Path) -> Outcome<Vec<RecordBatch>> {
    let reader = StreamReader::try_new(BufReader::new(File::open(path)?), None)?;
    Ok(reader.collect::<Result<_, _>>()?)
}

/// Repeats `batches` until there are `rows` rows, divided among `parts`. Nothing is
/// copied.
pub(crate) fn repeated(
    batches: &[RecordBatch],
    rows: usize,
    parts: usize,
) -> Vec<Vec<RecordBatch>> {
    let mut divided = vec![Vec::new(); parts];
    let mut missing = rows;
    for (number, batch) in batches.iter().cycle().enumerate() {
        if missing == 0 {
            break;
        }
        let count = batch.num_rows().min(missing);
        divided[number % parts].push(batch.slice(0, count));
        missing -= count;
    }
    divided
}

/// lineitem as BigQuery has it.
pub(crate) fn table() -> TableSchema {
    let decimal = || FieldType::Numeric(None);
    let columns = [
        ("l_orderkey", FieldType::Int64),
        ("l_partkey", FieldType::Int64),
        ("l_suppkey", FieldType::Int64),
        ("l_linenumber", FieldType::Int64),
        ("l_quantity", decimal()),
        ("l_extendedprice", decimal()),
        ("l_discount", decimal()),
        ("l_tax", decimal()),
        ("l_returnflag", FieldType::String),
        ("l_linestatus", FieldType::String),
        ("l_shipdate", FieldType::Date),
        ("l_commitdate", FieldType::Date),
        ("l_receiptdate", FieldType::Date),
        ("l_shipinstruct", FieldType::String),
        ("l_shipmode", FieldType::String),
        ("l_comment", FieldType::String),
    ];
    TableSchema {
        fields: columns
            .into_iter()
            .map(|(name, kind)| Field::new(name, kind, Mode::Nullable))
            .collect(),
    }
}

/// The encoder for `batch` of lineitem.
pub(crate) fn encoder(batch: &RecordBatch, format: RowFormat) -> Outcome<RowEncoder> {
    let marks = FieldMarks::default();
    Ok(RowEncoder::plan(&batch.schema(), &table(), format, &marks)?)
}

/// The requests' worth of pieces of `rows`.
pub(crate) fn pieces(rows: &EncodedRows) -> Outcome<Vec<Piece>> {
    let pieces = rows.pieces(REQUEST_BYTES)?;
    if !pieces.oversize.is_empty() || !rows.errors().is_empty() {
        return Err("a row of lineitem cannot be written".into());
    }
    Ok(pieces.sendable)
}
