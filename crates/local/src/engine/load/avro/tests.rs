use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use arrow_avro::writer::AvroWriter;
use serde_json::json;

use super::*;
use crate::jobs::fit::fit_batch;
use crate::schema::arrow_schema;
use crate::value::TextOptions;
use crate::value::rows::page;

fn written(columns: Vec<(&str, ArrayRef)>) -> Vec<LoadFile> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
            .unwrap();
    let mut writer = AvroWriter::new(Vec::new(), batch.schema().as_ref().clone()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    file(writer.into_inner())
}

fn file(data: Vec<u8>) -> Vec<LoadFile> {
    vec![LoadFile {
        name: String::new(),
        data: data.into(),
    }]
}

/// An uncompressed file of one block that is `body`.
fn raw(schema: Value, rows: usize, body: &[u8]) -> Vec<LoadFile> {
    let mut data = MAGIC.to_vec();
    long(&mut data, 1);
    for part in [&b"avro.schema"[..], schema.to_string().as_bytes()] {
        long(&mut data, part.len());
        data.extend_from_slice(part);
    }
    data.push(0);
    data.extend_from_slice(&[7; SYNC]);
    long(&mut data, rows);
    long(&mut data, body.len());
    data.extend_from_slice(body);
    data.extend_from_slice(&[7; SYNC]);
    file(data)
}

fn load(files: &[LoadFile], options: Value) -> Result<(Vec<String>, Value)> {
    let options: FormatOptions = serde_json::from_value(options).unwrap();
    let loaded = read(files, &options, Columns::FromFiles(None))?;
    let arrow = arrow_schema(&loaded.schema);
    let fitted: Result<Vec<RecordBatch>> = loaded
        .batches
        .iter()
        .map(|b| fit_batch(b, &loaded.schema, &arrow))
        .collect();
    let all = usize::MAX;
    let page = page(
        &loaded.schema,
        &fitted?,
        0,
        all,
        all,
        TextOptions::default(),
    )?;
    let rows: Vec<Value> = serde_json::from_str(page.rows.get()).unwrap();
    let rows = rows
        .iter()
        .map(|row| {
            let cells = row["f"].as_array().unwrap();
            cells
                .iter()
                .map(|cell| cell["v"].clone())
                .collect::<Value>()
        })
        .collect();
    let fields = loaded.schema.fields.iter();
    let types = fields
        .map(|f| format!("{} {}", f.name, f.sql_type()))
        .collect();
    Ok((types, rows))
}

#[test]
fn a_written_file_is_read() {
    let files = written(vec![
        ("a", Arc::new(Int64Array::from(vec![Some(1), None]))),
        ("i", Arc::new(Int32Array::from(vec![2, 3]))),
        ("s", Arc::new(StringArray::from(vec![Some("x"), None]))),
        (
            "t",
            Arc::new(TimestampMicrosecondArray::from(vec![0, 1]).with_timezone("UTC")),
        ),
        (
            "l",
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
                Some(vec![Some(1)]),
                None,
            ])),
        ),
    ]);
    let (types, rows) = load(&files, json!({"useAvroLogicalTypes": true})).unwrap();
    assert_eq!(
        types,
        [
            "a INT64",
            "i INT64",
            "s STRING",
            "t TIMESTAMP",
            "l ARRAY<INT64>"
        ]
    );
    assert_eq!(
        rows,
        json!([["1", "2", "x", "0.0", [{"v": "1"}]], [null, "3", null, "1.0E-6", []]])
    );
    let (types, rows) = load(&files, json!({})).unwrap();
    assert_eq!(types[3], "t INT64");
    assert_eq!(rows[1][3], "1");
}

#[test]
fn decimals_maps_enums_and_unions() {
    let schema = json!({"type": "record", "name": "r", "fields": [
        {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 38}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}},
        {"name": "u", "type": ["null", "long", "string"]}]});
    // n = 1 unit of 10^-38; m = {"k": 5}; e = Y; u = "z". Then u = NULL, then u = 3.
    let mut body = vec![2, 1, 2, 2, b'k', 10, 0, 2, 4, 2, b'z'];
    body.extend([2, 0xff, 0, 0, 0]);
    body.extend([2, 0, 0, 0, 2, 6]);
    let files = raw(schema, 3, &body);
    let (types, rows) = load(
        &files,
        json!({"decimalTargetTypes": ["NUMERIC", "BIGNUMERIC"]}),
    )
    .unwrap();
    assert_eq!(
        types,
        [
            "n BIGNUMERIC",
            "m ARRAY<STRUCT<key STRING, value INT64>>",
            "e STRING",
            "u STRUCT<long_value INT64, string_value STRING>"
        ]
    );
    assert_eq!(rows[0][0], "0.00000000000000000000000000000000000001");
    assert_eq!(rows[1][0], "-0.00000000000000000000000000000000000001");
    assert_eq!(rows[0][1], json!([{"v": {"f": [{"v": "k"}, {"v": "5"}]}}]));
    assert_eq!((&rows[0][2], &rows[1][2]), (&json!("Y"), &json!("X")));
    assert_eq!(rows[0][3], json!({"f": [{"v": null}, {"v": "z"}]}));
    assert_eq!(rows[2][3], json!({"f": [{"v": "3"}, {"v": null}]}));
}

#[test]
fn a_string_is_no_datetime() {
    let schema =
        json!({"type": "record", "name": "r", "fields": [{"name": "v", "type": "string"}]});
    let files = raw(schema, 1, &[2, b'x']);
    let wanted: crate::schema::TableSchema =
        serde_json::from_value(json!({"fields": [{"name": "v", "type": "DATETIME"}]})).unwrap();
    let error = read(&files, &FormatOptions::default(), Columns::Given(&wanted)).unwrap_err();
    assert_eq!(
        error.message,
        "Error while reading data, error message: Field v has incompatible types. Configured schema: datetime; Avro file: string."
    );
}

#[test]
fn damaged_files_are_errors() {
    let schema =
        json!({"type": "record", "name": "r", "fields": [{"name": "v", "type": "string"}]});
    let good = raw(schema, 1, &[2, b'x']);
    for cut in 0..good[0].data.len() {
        let files = file(good[0].data[..cut].to_vec());
        // The header alone is a file without rows.
        let outcome = load(&files, json!({}));
        assert!(outcome.is_err() || outcome.unwrap().1 == json!([]), "{cut}");
    }
    assert!(load(&file(b"not avro".to_vec()), json!({})).is_err());
}

/// A file with one column `a` and one block that says it has `rows` rows, and whose
/// values are `data`.
fn one_block(rows: u8, data: &[u8], sync: [u8; SYNC]) -> LoadFile {
    let schema = br#"{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}"#;
    let mut file = MAGIC.to_vec();
    long(&mut file, 1);
    for part in [&b"avro.schema"[..], schema] {
        long(&mut file, part.len());
        file.extend_from_slice(part);
    }
    file.push(0);
    file.extend_from_slice(&[7; SYNC]);
    file.push(rows * 2);
    long(&mut file, data.len());
    file.extend_from_slice(data);
    file.extend_from_slice(&sync);
    LoadFile {
        name: String::new(),
        data: file.into(),
    }
}

/// What follows the last row of a block is passed over, and does not stop the load
/// from ending.
#[test]
fn a_block_ends_with_its_last_row() {
    let options = FormatOptions::default();
    for (said, want) in [(0, 0), (1, 1), (2, 2)] {
        let file = one_block(said, &[2, 4], [7; SYNC]);
        let loaded = super::read(&[file], &options, Columns::FromFiles(None)).unwrap();
        let rows: usize = loaded.batches.iter().map(|b| b.num_rows()).sum();
        assert_eq!(rows, want);
    }
    for (file, want) in [
        (one_block(3, &[2, 4], [7; SYNC]), "failed to read data"),
        (one_block(2, &[2, 4], [8; SYNC]), "Sync mismatch"),
    ] {
        let error = super::read(&[file], &options, Columns::FromFiles(None)).unwrap_err();
        assert!(error.message.contains(want), "{error:?}");
    }
}

#[test]
fn a_block_may_be_several_frames_and_a_damaged_one_is_told() {
    let frame = |text: &[u8]| zstd::bulk::compress(text, 1).unwrap();
    let both = [frame(b"one"), frame(b"two")].concat();
    assert_eq!(super::decompress(&both, <[u8]>::to_vec).unwrap(), b"onetwo");
    let cut = &both[..both.len() - 1];
    let error = super::decompress(cut, <[u8]>::to_vec).unwrap_err();
    assert!(error.message.contains("Apache Avro library"), "{error:?}");
    assert_eq!(super::decompress(&frame(b""), <[u8]>::to_vec).unwrap(), b"");
}
