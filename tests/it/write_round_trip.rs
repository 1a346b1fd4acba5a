//! Every type, at any depth and in any of Arrow's layouts, is read as it was
//! written: random tables through real sockets, in both formats.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, Int32Array, ListArray, RecordBatch,
    RunArray, StructArray, UInt32Array,
};
use datafusion::arrow::compute::{CastOptions, cast_with_options, concat_batches, nullif, take};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema, TimeUnit};
use datafusion_bigquery::options::Options;
use datafusion_bigquery::{BigQuerySink, RawOptions, TableRef};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use serde_json::Value;

use crate::harness::{PROJECT, Server, rows};
use crate::random_tables::Precision;
use crate::round_trip::{Case, by_id, setting};

/// The same values in another layout, and often another type.
fn disguised(array: &ArrayRef, random: &mut StdRng) -> ArrayRef {
    let array = match array.data_type() {
        DataType::Struct(_) => record(array.as_struct(), random),
        DataType::List(_) => list(array.as_list(), random),
        _ => scalar(array, random),
    };
    let rows = i32::try_from(array.len()).unwrap();
    match random.random_range(0..8) {
        // A slice of something longer.
        0 if rows > 0 => {
            let mut places = vec![0, u32::try_from(rows).unwrap() - 1];
            places.extend(0..u32::try_from(rows).unwrap());
            places.push(0);
            let longer = take(&array, &UInt32Array::from(places), None).unwrap();
            longer.slice(2, array.len())
        }
        // A dictionary whose values stand in another order.
        1 => {
            let mut order: Vec<i32> = (0..rows).collect();
            order.shuffle(random);
            let mut keys = vec![0; array.len()];
            for (place, row) in order.iter().enumerate() {
                keys[usize::try_from(*row).unwrap()] = i32::try_from(place).unwrap();
            }
            let values = take(&array, &Int32Array::from(order), None).unwrap();
            Arc::new(DictionaryArray::<Int32Type>::new(keys.into(), values))
        }
        2 if rows > 0 => {
            let ends = Int32Array::from_iter_values(1..=rows);
            Arc::new(RunArray::try_new(&ends, &array).unwrap())
        }
        _ => array,
    }
}

fn scalar(array: &ArrayRef, random: &mut StdRng) -> ArrayRef {
    let layouts = match array.data_type() {
        DataType::Utf8 => vec![DataType::LargeUtf8, DataType::Utf8View],
        DataType::Binary => vec![DataType::LargeBinary, DataType::BinaryView],
        DataType::Int64 => vec![
            DataType::Int8,
            DataType::UInt64,
            DataType::Decimal128(38, 3),
            DataType::Decimal256(70, 40),
        ],
        DataType::Date32 => vec![DataType::Date64, DataType::Utf8],
        DataType::Time64(_) => vec![DataType::Time64(TimeUnit::Nanosecond)],
        DataType::Timestamp(_, zone) => vec![
            DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            DataType::Timestamp(TimeUnit::Microsecond, None),
        ],
        DataType::Decimal128(digits, scale) => {
            vec![DataType::Decimal256(digits + 7, scale + 7), DataType::Utf8]
        }
        // Arrow's text of a 77th digit is without it.
        DataType::Decimal256(digits, _) if *digits < 76 => vec![DataType::Utf8View],
        _ => vec![],
    };
    let exactly = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    match layouts.choose(random) {
        // What does not fit stays as it is.
        Some(layout) if random.random_bool(0.7) => {
            cast_with_options(array, layout, &exactly).unwrap_or_else(|_| Arc::clone(array))
        }
        _ => Arc::clone(array),
    }
}

fn named(name: &str, random: &mut StdRng) -> String {
    match random.random_range(0..3) {
        0 => name.to_ascii_uppercase(),
        1 => name.to_ascii_lowercase(),
        _ => name.to_string(),
    }
}

/// The same fields in another order and in names of another case.
fn shuffled(
    fields: &Fields,
    columns: &[ArrayRef],
    random: &mut StdRng,
) -> (Vec<Field>, Vec<ArrayRef>) {
    let mut pairs: Vec<_> = fields
        .iter()
        .zip(columns)
        .map(|(field, column)| {
            // The names of a RANGE's bounds, and of a struct's fields.
            let column = disguised(column, random);
            let name = named(field.name(), random);
            (Field::new(name, column.data_type().clone(), true), column)
        })
        .collect();
    pairs.shuffle(random);
    pairs.into_iter().unzip()
}

fn record(structs: &StructArray, random: &mut StdRng) -> ArrayRef {
    let (fields, columns) = shuffled(structs.fields(), structs.columns(), random);
    let nulls = structs.nulls().cloned();
    Arc::new(StructArray::new(fields.into(), columns, nulls))
}

fn list(lists: &ListArray, random: &mut StdRng) -> ArrayRef {
    let values = disguised(lists.values(), random);
    let item = Arc::new(Field::new("element", values.data_type().clone(), true));
    let array = ListArray::new(
        item,
        lists.offsets().clone(),
        values,
        lists.nulls().cloned(),
    );
    let mut array: ArrayRef = Arc::new(array);
    if random.random_bool(0.5) {
        // An array without elements may as well be NULL.
        let empty: BooleanArray = lists.offsets().lengths().map(|n| Some(n == 0)).collect();
        array = nullif(&array, &empty).unwrap();
    }
    let DataType::List(item) = array.data_type().clone() else {
        panic!("a list stays one")
    };
    let layout = match random.random_range(0..4) {
        0 => DataType::LargeList(item),
        1 => DataType::ListView(item),
        2 => DataType::LargeListView(item),
        _ => return array,
    };
    // Not every element type can be moved to every layout.
    cast_with_options(&array, &layout, &CastOptions::default()).unwrap_or(array)
}

fn disguised_batch(batch: &RecordBatch, random: &mut StdRng) -> RecordBatch {
    let (fields, columns) = shuffled(batch.schema().fields(), batch.columns(), random);
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

async fn write(server: &Server, table: &str, said: &[(&str, &str)], batch: RecordBatch) {
    let said = RawOptions::from_pairs(said.iter().copied()).unwrap();
    let options = Options::resolve_over(&said, &server.options()).unwrap();
    let table: TableRef = format!("{PROJECT}.d.{table}").parse().unwrap();
    let sink = BigQuerySink::builder(server.client(), table)
        .with_options(options.sink)
        .build(batch.schema())
        .await
        .unwrap();
    let mut writer = sink.writer(0, None).unwrap();
    let rows = u64::try_from(batch.num_rows()).unwrap();
    writer.write(batch).await.unwrap();
    writer.flush().await.unwrap();
    let committables = writer.prepare_commit().await.unwrap();
    assert_eq!(sink.committer().commit(committables).await.unwrap(), rows);
    writer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn random_rows_are_read_as_they_were_written() {
    let seed = setting("DATAFUSION_BIGQUERY_SEED").unwrap_or(104_729);
    let full = std::env::var_os("DATAFUSION_BIGQUERY_FULL").is_some();
    let cases = match setting("DATAFUSION_BIGQUERY_CASE") {
        Some(case) => case..case + 1,
        None => 0..if full { 1_000 } else { 40 },
    };
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let context = server.session(1);
    for number in cases {
        let mut case = Case::of_precision(seed, number, Some(Precision::Micros));
        let source = format!("s{number}");
        case.create(&server, &source).await;
        let batches = rows(&context, &format!("SELECT * FROM bq.d.{source}")).await;
        let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
        for format in ["proto", "arrow"] {
            let table = format!("{format}{number}");
            let fields = Value::from(case.fields());
            server.create_table("d", &table, fields, vec![]).await;
            let given = disguised_batch(&batch, &mut case.random);
            let schema = given.schema();
            write(&server, &table, &[("sink.format", format)], given).await;
            let found = rows(&context, &format!("SELECT * FROM bq.d.{table}")).await;
            assert_eq!(
                by_id(&found),
                case.expected(),
                "{} {format} {schema:?}",
                case.name
            );
        }
    }
}

/// What load jobs take from files of both formats. Parquet has no BIGNUMERIC of 77
/// digits.
fn loadable(column: &Value) -> bool {
    let name = column["name"].as_str().unwrap();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let nested = column["fields"].as_array();
    name.chars().all(plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !["INTERVAL", "RANGE", "BIGNUMERIC"].contains(&column["type"].as_str().unwrap())
        && nested.is_none_or(|fields| fields.iter().all(loadable))
}

#[tokio::test(flavor = "multi_thread")]
async fn random_rows_are_read_as_they_were_loaded() {
    let seed = setting("DATAFUSION_BIGQUERY_SEED").unwrap_or(130_003);
    let full = std::env::var_os("DATAFUSION_BIGQUERY_FULL").is_some();
    let cases = match setting("DATAFUSION_BIGQUERY_CASE") {
        Some(case) => case..case + 1,
        None => 0..if full { 1_000 } else { 40 },
    };
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server.create_bucket("bucket").await;
    let context = server.session(1);
    let compressions = |format| match format {
        "avro" => ["zstd", "snappy", "deflate", "none"],
        _ => ["zstd", "snappy", "gzip", "lz4_raw"],
    };
    let mut loaded_columns = 0;
    for number in cases {
        let mut case = Case::of_precision(seed, number, Some(Precision::Micros));
        let source = format!("s{number}");
        case.create(&server, &source).await;
        let batches = rows(&context, &format!("SELECT * FROM bq.d.{source}")).await;
        let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
        let fields = case.fields();
        let kept: Vec<usize> = (0..batch.num_columns())
            .filter(|at| loadable(&fields[*at]))
            .collect();
        loaded_columns += kept.len();
        let batch = batch.project(&kept).unwrap();
        let expected: Vec<_> = case
            .expected()
            .into_iter()
            .map(|(id, values)| {
                // The id is the first column, and not among the values.
                let values = kept.iter().skip(1).map(|at| values[at - 1].clone());
                (id, values.collect::<Vec<_>>())
            })
            .collect();
        for format in ["avro", "parquet"] {
            let table = format!("{format}{number}");
            let fields: Vec<Value> = kept.iter().map(|at| fields[*at].clone()).collect();
            server
                .create_table("d", &table, fields.into(), vec![])
                .await;
            let given = disguised_batch(&batch, &mut case.random);
            let schema = given.schema();
            let compression = compressions(format)[usize::try_from(number % 4).unwrap()];
            let said = [
                ("sink.write_method", "file_loads"),
                ("sink.file_loads.staging_path", "gs://bucket/staged"),
                ("sink.file_loads.load_job_poll.initial_backoff", "1 ms"),
                ("sink.file_loads.staging_format", format),
                ("sink.file_loads.compression", compression),
            ];
            write(&server, &table, &said, given).await;
            let found = rows(&context, &format!("SELECT * FROM bq.d.{table}")).await;
            assert_eq!(by_id(&found), expected, "{} {format} {schema:?}", case.name);
        }
    }
    assert!(loaded_columns > 40 * 2 || setting("DATAFUSION_BIGQUERY_CASE").is_some());
    assert_eq!(server.objects("bucket").await, Vec::<String>::new());
}
