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
    assert_eq!(
        super::decompress(&both, |content, _| content.to_vec()).unwrap(),
        b"onetwo"
    );
    let cut = &both[..both.len() - 1];
    let error = super::decompress(cut, |content, _| content.to_vec()).unwrap_err();
    assert!(error.message.contains("Apache Avro library"), "{error:?}");
    assert_eq!(
        super::decompress(&frame(b""), |content, _| content.to_vec()).unwrap(),
        b""
    );
}

/// What a block is by the decoder of scalars and by the Avro library.
fn both_ways(
    schema: &Value,
    rows: usize,
    body: &[u8],
) -> (Option<RecordBatch>, Result<RecordBatch>) {
    let options = serde_json::from_value(json!({"useAvroLogicalTypes": true})).unwrap();
    let files = raw(schema.clone(), rows, body);
    let open = open(&files[0], &Rules::read(&options).unwrap()).unwrap();
    let targets = target_schema(&open.fields, Columns::FromFiles(None));
    let converted = |batch: &RecordBatch| columns_of(batch, &open.fields, &targets, FileKind::Avro);
    let flat = Flat::of(&open.plain, &open.fields, &targets).unwrap();
    let flat = flat.decode(body, rows, &mut vec![vec![9; 3]]);
    let library = decode(&open, None, rows, body, &mut Vec::new());
    (
        flat.map(|batch| converted(&batch).unwrap()),
        library.and_then(|batch| converted(&batch)),
    )
}

fn scalars() -> Value {
    let decimal = |scale: u8| json!({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": scale});
    json!({"type": "record", "name": "r", "fields": [
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": {"type": "int"}},
        {"name": "l", "type": ["null", "long"]},
        {"name": "f", "type": ["float", "null"]},
        {"name": "d", "type": "double"},
        {"name": "y", "type": ["null", "bytes"]},
        {"name": "s", "type": ["string", "null"]},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "n", "type": ["null", decimal(2)]},
        {"name": "same", "type": decimal(9)},
        {"name": "big", "type": ["null", decimal(20)]}]})
}

/// A random record of [`scalars`].
fn record(rng: &mut impl rand::Rng, out: &mut Vec<u8>) {
    fn number(out: &mut Vec<u8>, value: i64) {
        let mut value = ((value << 1) ^ (value >> 63)) as u64;
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }
    fn bytes(out: &mut Vec<u8>, value: &[u8]) {
        number(out, value.len() as i64);
        out.extend_from_slice(value);
    }
    let some = |rng: &mut dyn rand::RngCore, out: &mut Vec<u8>, null: i64| {
        let null_now = rng.next_u32().is_multiple_of(4);
        number(out, if null_now { null } else { 1 - null });
        !null_now
    };
    let long = |rng: &mut dyn rand::RngCore| (rng.next_u64() as i64) >> (rng.next_u32() % 64);
    out.push(u8::from(rng.random::<bool>()));
    number(out, rng.random::<i32>().into());
    if some(rng, out, 0) {
        number(out, long(rng));
    }
    if some(rng, out, 1) {
        out.extend(rng.random::<f32>().to_le_bytes());
    }
    out.extend(rng.random::<f64>().to_le_bytes());
    if some(rng, out, 0) {
        let value: [u8; 9] = rng.random();
        bytes(out, &value[..rng.random_range(0..9)]);
    }
    if some(rng, out, 1) {
        bytes(
            out,
            "aé\0漢🦀"
                .chars()
                .skip(rng.random_range(0..5))
                .collect::<String>()
                .as_bytes(),
        );
    }
    if some(rng, out, 0) {
        number(out, rng.random_range(-719_162..=2_932_896));
    }
    number(
        out,
        rng.random_range(-62_135_596_800_000_000..=253_402_300_799_999_999),
    );
    for optional in [true, false, true] {
        if !optional || some(rng, out, 0) {
            let value = i128::from(long(rng));
            let skip = rng.random_range(0..=8);
            bytes(out, &value.to_be_bytes()[skip..]);
        }
    }
}

#[test]
fn scalars_are_the_same_with_and_without_the_library() {
    use rand::{Rng, SeedableRng};
    let seed = rand::rng().random::<u64>();
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    for _ in 0..200 {
        let rows = rng.random_range(1..40);
        let mut body = Vec::new();
        for _ in 0..rows {
            record(&mut rng, &mut body);
        }
        let (flat, library) = both_ways(&scalars(), rows, &body);
        assert_eq!(flat.as_ref(), library.as_ref().ok(), "seed {seed}");
        assert!(flat.is_some(), "seed {seed}");
    }
}

#[test]
fn damaged_scalars_are_left_to_the_library() {
    use rand::{Rng, SeedableRng};
    let seed = rand::rng().random::<u64>();
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    for _ in 0..2_000 {
        let mut body = Vec::new();
        for _ in 0..3 {
            record(&mut rng, &mut body);
        }
        let at = rng.random_range(0..body.len());
        match rng.random_range(0..3) {
            0 => body.truncate(at),
            1 => body[at] = rng.random(),
            _ => body.extend(&[0; 7][..rng.random_range(1..8)]),
        }
        let options = serde_json::from_value(json!({"useAvroLogicalTypes": true})).unwrap();
        let files = raw(scalars(), 3, &body);
        let open = open(&files[0], &Rules::read(&options).unwrap()).unwrap();
        let targets = target_schema(&open.fields, Columns::FromFiles(None));
        let flat = Flat::of(&open.plain, &open.fields, &targets).unwrap();
        let converted =
            |batch: &RecordBatch| columns_of(batch, &open.fields, &targets, FileKind::Avro);
        if let Some(batch) = flat.decode(&body, 3, &mut Vec::new()) {
            let library =
                decode(&open, None, 3, &body, &mut Vec::new()).and_then(|b| converted(&b));
            assert_eq!(converted(&batch), library, "seed {seed}: {body:?}");
        }
    }
}

#[test]
fn a_block_cannot_ask_for_more_memory_than_it_has_values() {
    let schema = json!({"type": "record", "name": "r", "fields": [{"name": "l", "type": "long"}]});
    let (flat, library) = both_ways(&schema, MAX_BLOCK_ROWS, &[2, 4]);
    assert_eq!(flat, None);
    assert!(library.is_err());
}
