//! TPC-H's lineitem as Parquet files, made once and kept beside the build.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Builder, Decimal128Builder, Int64Builder, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tpchgen::generators::LineItemGenerator;

use crate::Outcome;

const ROWS_PER_BATCH: usize = 65_536;

/// The files of lineitem at `scale`, each small enough for one upload.
pub(crate) fn files(scale: f64) -> Outcome<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lineitem-{scale}"));
    let parts = (scale * 10.0).ceil().max(1.0) as i32;
    let mut files = Vec::new();
    fs::create_dir_all(&folder)?;
    for part in 1..=parts {
        let path = folder.join(format!("{part}-of-{parts}.parquet"));
        if !path.exists() {
            // Renamed when it is whole, so that an interrupted run leaves no half file.
            let unfinished = path.with_extension("unfinished");
            write(&unfinished, scale, part, parts)?;
            fs::rename(&unfinished, &path)?;
        }
        files.push(path);
    }
    Ok(files)
}

fn write(path: &Path, scale: f64, part: i32, parts: i32) -> Outcome<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema(), Some(properties))?;
    let mut rows = LineItemGenerator::new(scale, part, parts).iter();
    while let Some(batch) = batch(&mut rows)? {
        writer.write(&batch)?;
    }
    writer.close()?;
    Ok(())
}

fn schema() -> Arc<Schema> {
    let decimal = DataType::Decimal128(15, 2);
    let columns = [
        ("l_orderkey", DataType::Int64),
        ("l_partkey", DataType::Int64),
        ("l_suppkey", DataType::Int64),
        ("l_linenumber", DataType::Int64),
        ("l_quantity", decimal.clone()),
        ("l_extendedprice", decimal.clone()),
        ("l_discount", decimal.clone()),
        ("l_tax", decimal),
        ("l_returnflag", DataType::Utf8),
        ("l_linestatus", DataType::Utf8),
        ("l_shipdate", DataType::Date32),
        ("l_commitdate", DataType::Date32),
        ("l_receiptdate", DataType::Date32),
        ("l_shipinstruct", DataType::Utf8),
        ("l_shipmode", DataType::Utf8),
        ("l_comment", DataType::Utf8),
    ];
    Arc::new(Schema::new(
        columns
            .into_iter()
            .map(|(name, data_type)| Field::new(name, data_type, true))
            .collect::<Vec<_>>(),
    ))
}

/// The next rows, or `None` at the end.
fn batch<'a>(
    rows: &mut impl Iterator<Item = tpchgen::generators::LineItem<'a>>,
) -> Outcome<Option<RecordBatch>> {
    let mut keys: [Int64Builder; 4] = Default::default();
    let mut decimals: [Decimal128Builder; 4] = std::array::from_fn(|_| {
        Decimal128Builder::new().with_data_type(DataType::Decimal128(15, 2))
    });
    let mut dates: [Date32Builder; 3] = Default::default();
    let mut texts: [StringBuilder; 5] = Default::default();
    let mut count = 0;
    for row in rows.take(ROWS_PER_BATCH) {
        let numbers = [
            row.l_orderkey,
            row.l_partkey,
            row.l_suppkey,
            i64::from(row.l_linenumber),
        ];
        for (builder, number) in keys.iter_mut().zip(numbers) {
            builder.append_value(number);
        }
        let hundredths = [
            row.l_quantity * 100,
            row.l_extendedprice.0,
            row.l_discount.0,
            row.l_tax.0,
        ];
        for (builder, value) in decimals.iter_mut().zip(hundredths) {
            builder.append_value(i128::from(value));
        }
        let days = [row.l_shipdate, row.l_commitdate, row.l_receiptdate];
        for (builder, date) in dates.iter_mut().zip(days) {
            builder.append_value(date.to_unix_epoch());
        }
        let strings = [
            row.l_returnflag,
            row.l_linestatus,
            row.l_shipinstruct,
            row.l_shipmode,
            row.l_comment,
        ];
        for (builder, text) in texts.iter_mut().zip(strings) {
            builder.append_value(text);
        }
        count += 1;
    }
    if count == 0 {
        return Ok(None);
    }
    let [returnflag, linestatus, shipinstruct, shipmode, comment] =
        texts.map(|mut b| Arc::new(b.finish()) as ArrayRef);
    let columns = keys
        .map(|mut b| Arc::new(b.finish()) as ArrayRef)
        .into_iter()
        .chain(decimals.map(|mut b| Arc::new(b.finish()) as ArrayRef))
        .chain([returnflag, linestatus])
        .chain(dates.map(|mut b| Arc::new(b.finish()) as ArrayRef))
        .chain([shipinstruct, shipmode, comment])
        .collect();
    Ok(Some(RecordBatch::try_new(schema(), columns)?))
}
