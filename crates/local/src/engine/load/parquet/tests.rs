use std::sync::Arc;

use arrow::array::{
    Decimal128Array, Int64Array, Int64Builder, ListArray, MapBuilder, StringArray, StringBuilder,
    StructArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Fields, Int64Type};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use super::*;
use crate::jobs::fit::fit_batch;
use crate::schema::arrow_schema;
use crate::value::TextOptions;
use crate::value::rows::page;

fn file(columns: Vec<(&str, ArrayRef)>) -> Vec<LoadFile> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
            .unwrap();
    let mut data = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut data, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    vec![LoadFile {
        name: String::new(),
        data: data.into(),
    }]
}

fn options(options: Value) -> FormatOptions {
    serde_json::from_value(options).unwrap()
}

fn schema(fields: Value) -> TableSchema {
    serde_json::from_value(json!({"fields": fields})).unwrap()
}

fn types(loaded: &Loaded) -> Vec<String> {
    let fields = loaded.schema.fields.iter();
    fields
        .map(|f| format!("{} {}", f.name, f.sql_type()))
        .collect()
}

fn rows(loaded: &Loaded) -> Value {
    let arrow = arrow_schema(&loaded.schema);
    let fitted: Vec<RecordBatch> = loaded
        .batches
        .iter()
        .map(|b| fit_batch(b, &loaded.schema, &arrow).unwrap())
        .collect();
    let all = usize::MAX;
    let page = page(&loaded.schema, &fitted, 0, all, all, TextOptions::default()).unwrap();
    let rows: Vec<Value> = serde_json::from_str(page.rows.get()).unwrap();
    rows.iter()
        .map(|row| {
            let cells = row["f"].as_array().unwrap();
            cells
                .iter()
                .map(|cell| cell["v"].clone())
                .collect::<Value>()
        })
        .collect()
}

fn list() -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1), Some(2)]),
        Some(vec![]),
        None,
    ]))
}

const INFER: &str = r#"{"parquetOptions": {"enableListInference": true}}"#;

fn infer() -> FormatOptions {
    serde_json::from_str(INFER).unwrap()
}

#[test]
fn columns_are_those_of_the_file() {
    let decimal = Decimal128Array::from(vec![1_250_000_000_i128; 3])
        .with_precision_and_scale(38, 9)
        .unwrap();
    let child: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let record = StructArray::new(
        Fields::from(vec![ArrowField::new("x", DataType::Int64, true)]),
        vec![child],
        Some(vec![true, true, false].into()),
    );
    let files = file(vec![
        (
            "a",
            Arc::new(Int64Array::from(vec![Some(1), Some(2), None])),
        ),
        (
            "s",
            Arc::new(StringArray::from(vec![Some("x"), None, Some("z")])),
        ),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 2]).with_timezone("UTC")),
        ),
        (
            "local",
            Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 2])),
        ),
        ("n", Arc::new(decimal)),
        ("l", list()),
        ("st", Arc::new(record)),
    ]);
    let loaded = read(&files, &infer(), Columns::FromFiles(None)).unwrap();
    assert_eq!(
        types(&loaded),
        [
            "a INT64",
            "s STRING",
            "ts TIMESTAMP",
            "local TIMESTAMP",
            "n NUMERIC",
            "l ARRAY<INT64>",
            "st STRUCT<x INT64>"
        ]
    );
    assert_eq!(
        rows(&loaded)[0],
        json!([
            "1", "x", "0.0", "0.0", "1.25", [{"v": "1"}, {"v": "2"}], {"f": [{"v": "1"}]}
        ])
    );
    assert_eq!(rows(&loaded)[2][6], Value::Null);
}

#[test]
fn lists_that_are_not_inferred_are_records_and_fill_no_array() {
    let files = file(vec![("l", list())]);
    let plain = options(json!({}));
    let loaded = read(&files, &plain, Columns::FromFiles(None)).unwrap();
    let [column] = types(&loaded).try_into().unwrap();
    assert!(
        column.starts_with("l STRUCT<list ARRAY<STRUCT<"),
        "{column}"
    );
    assert_eq!(
        rows(&loaded)[0][0],
        json!({"f": [{"v": [{"v": {"f": [{"v": "1"}]}}, {"v": {"f": [{"v": "2"}]}}]}]})
    );
    assert_eq!(rows(&loaded)[2][0], Value::Null);
    let wanted = schema(json!([{"name": "l", "type": "INTEGER", "mode": "REPEATED"}]));
    let empty = read(&files, &plain, Columns::Given(&wanted)).unwrap();
    assert_eq!(rows(&empty), json!([[[]], [[]], [[]]]));
    let filled = read(&files, &infer(), Columns::Given(&wanted)).unwrap();
    assert_eq!(rows(&filled)[0][0], json!([{"v": "1"}, {"v": "2"}]));
}

#[test]
fn maps_are_records_or_arrays() {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    builder.keys().append_value("k");
    builder.values().append_value(7);
    builder.append(true).unwrap();
    builder.append(false).unwrap();
    let files = file(vec![("m", Arc::new(builder.finish()))]);
    let plain = read(&files, &options(json!({})), Columns::FromFiles(None)).unwrap();
    let [column] = types(&plain).try_into().unwrap();
    assert!(
        column.ends_with("ARRAY<STRUCT<key STRING, value INT64>>>"),
        "{column}"
    );
    let as_array = options(json!({"parquetOptions": {"mapTargetType": "ARRAY_OF_STRUCT"}}));
    let loaded = read(&files, &as_array, Columns::FromFiles(None)).unwrap();
    assert_eq!(types(&loaded), ["m ARRAY<STRUCT<key STRING, value INT64>>"]);
    assert_eq!(
        rows(&loaded),
        json!([[[{"v": {"f": [{"v": "k"}, {"v": "7"}]}}]], [[]]])
    );
}

#[test]
fn the_destination_has_a_say_in_types_but_not_in_all() {
    let files = file(vec![
        ("t", Arc::new(TimestampMicrosecondArray::from(vec![0]))),
        ("x", Arc::new(Int64Array::from(vec![1]))),
    ]);
    let existing = schema(json!([
        {"name": "t", "type": "DATETIME"}, {"name": "x", "type": "STRING"}]));
    let loaded = read(&files, &infer(), Columns::FromFiles(Some(&existing))).unwrap();
    assert_eq!(types(&loaded), ["t DATETIME", "x INT64"]);
    assert_eq!(rows(&loaded)[0][0], "1970-01-01T00:00:00");
    let error = read(&files, &infer(), Columns::Given(&existing)).unwrap_err();
    assert!(
        error.message.contains(
            "Parquet column 'x' has type INT64 which does not match the target cpp_type STRING."
        ),
        "{error}"
    );
}

#[test]
fn given_columns_are_all_there_is() {
    let files = file(vec![
        ("a", Arc::new(Int64Array::from(vec![1]))),
        ("ignored", Arc::new(Int64Array::from(vec![2]))),
    ]);
    let wanted = schema(json!([
        {"name": "new", "type": "STRING"}, {"name": "A", "type": "INTEGER"}]));
    let loaded = read(&files, &infer(), Columns::Given(&wanted)).unwrap();
    assert_eq!(rows(&loaded), json!([[null, "1"]]));
}

#[test]
fn what_cannot_be_kept_is_an_error() {
    let nanos = file(vec![(
        "t",
        Arc::new(TimestampNanosecondArray::from(vec![1])),
    )]);
    let error = read(&nanos, &infer(), Columns::FromFiles(None)).unwrap_err();
    assert!(error.message.contains("column 't'"), "{error}");
    for damaged in [&b""[..], b"PAR1", b"PAR1xxxxPAR1", b"not parquet"] {
        let files = vec![LoadFile {
            name: String::new(),
            data: damaged.to_vec().into(),
        }];
        assert!(read(&files, &infer(), Columns::FromFiles(None)).is_err());
    }
}

#[test]
fn files_are_read_together_by_name() {
    let mut files = file(vec![("b", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    files[0].name = "1".into();
    let mut second = file(vec![
        ("c", Arc::new(StringArray::from(vec!["x"])) as ArrayRef),
        ("b", Arc::new(Int64Array::from(vec![2]))),
    ]);
    second[0].name = "2".into();
    files.extend(second);
    let loaded = read(&files, &infer(), Columns::FromFiles(None)).unwrap();
    assert_eq!(rows(&loaded), json!([[null, "1"], ["x", "2"]]));
    assert_eq!(
        loaded
            .batches
            .iter()
            .map(RecordBatch::num_rows)
            .sum::<usize>(),
        2
    );
}
