//! What encoding costs for a row, beside copying what comes of it.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow::array::RecordBatch;
use bytes::Bytes;
use datafusion_bigquery::options::{StagingCompression, StagingFormat};
use datafusion_bigquery::types::encode::{FieldMarks, FileEncoder, Payload, RowFormat};

use crate::{Outcome, rows};

/// Times that each is done; the fastest counts.
const PASSES: usize = 5;

pub(crate) struct Cost {
    pub(crate) name: &'static str,
    /// Nanoseconds for a row.
    pub(crate) encoding: f64,
    /// The same for a copy of the bytes.
    pub(crate) copying: f64,
    /// Bytes of a row.
    pub(crate) size: f64,
}

pub(crate) fn costs(batches: &[RecordBatch]) -> Outcome<Vec<Cost>> {
    let mut costs = Vec::new();
    for (name, format) in [
        ("protobuf", RowFormat::Protobuf),
        ("arrow", RowFormat::Arrow),
    ] {
        costs.push(cost(name, batches, || requests(batches, format))?);
    }
    for (name, format, compression) in [
        ("avro", StagingFormat::Avro, StagingCompression::None),
        ("avro, zstd", StagingFormat::Avro, StagingCompression::Zstd),
        (
            "parquet, snappy",
            StagingFormat::Parquet,
            StagingCompression::Snappy,
        ),
    ] {
        costs.push(cost(name, batches, || {
            staged(batches, format, compression)
        })?);
    }
    Ok(costs)
}

/// An uncompressed Avro file of `batches`.
pub(crate) fn avro_file(batches: &[RecordBatch]) -> Outcome<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lineitem.avro");
    fs::write(
        &path,
        staged(batches, StagingFormat::Avro, StagingCompression::None)?.concat(),
    )?;
    Ok(path)
}

fn cost(
    name: &'static str,
    batches: &[RecordBatch],
    encode: impl Fn() -> Outcome<Vec<Bytes>>,
) -> Outcome<Cost> {
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let rows = count as f64;
    let mut encoding = f64::INFINITY;
    let mut copying = f64::INFINITY;
    let mut size = 0;
    for _ in 0..PASSES {
        let began = Instant::now();
        let encoded = black_box(encode()?);
        encoding = encoding.min(began.elapsed().as_nanos() as f64 / rows);
        size = encoded.iter().map(Bytes::len).sum();
        let began = Instant::now();
        let mut copy = Vec::with_capacity(size);
        for part in &encoded {
            copy.extend_from_slice(part);
        }
        black_box(copy);
        copying = copying.min(began.elapsed().as_nanos() as f64 / rows);
    }
    Ok(Cost {
        name,
        encoding,
        copying,
        size: size as f64 / rows,
    })
}

/// The rows of all requests for `batches`.
fn requests(batches: &[RecordBatch], format: RowFormat) -> Outcome<Vec<Bytes>> {
    let encoder = rows::encoder(&batches[0], format)?;
    let mut all = Vec::new();
    for batch in batches {
        for piece in rows::pieces(&encoder.encode(batch)?)? {
            match piece.payload {
                Payload::Protobuf(rows) => all.push(rows),
                Payload::Arrow(message) => all.extend(message.parts().map(Bytes::copy_from_slice)),
            }
        }
    }
    Ok(all)
}

/// A staged file of `batches`.
fn staged(
    batches: &[RecordBatch],
    format: StagingFormat,
    compression: StagingCompression,
) -> Outcome<Vec<Bytes>> {
    let encoder = FileEncoder::plan(
        &batches[0].schema(),
        &rows::table(),
        format,
        compression,
        &FieldMarks::default(),
    )?;
    let mut file = encoder.start()?;
    for batch in batches {
        file.write(&encoder.encode(batch)?, 0, usize::MAX)?;
    }
    Ok(file.finish()?.parts)
}
