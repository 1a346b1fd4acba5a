//! Rows as files: exact bytes, sizes, and what only one of the formats can hold.

use arrow::array::{AsArray, Decimal256Array, Int64Array, ListArray, StringArray, StructArray};
use arrow::datatypes::{DataType, Int64Type, i256};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;
use crate::options::{StagingCompression, StagingFormat};
use crate::types::encode::{FileEncoder, FileFull};

fn encoder(batch: &RecordBatch, fields: Vec<Field>, format: StagingFormat) -> FileEncoder {
    FileEncoder::plan(
        &batch.schema(),
        &table(fields),
        format,
        StagingCompression::None,
        &FieldMarks::default(),
    )
    .unwrap()
}

/// The bytes of the whole file, in one file.
fn file(encoder: &FileEncoder, batch: &RecordBatch) -> Vec<u8> {
    let rows = encoder.encode(batch).unwrap();
    assert_eq!(rows.errors(), []);
    let mut file = encoder.start().unwrap();
    let written = file.write(&rows, 0, usize::MAX).unwrap();
    assert_eq!(written, (rows.len(), FileFull::Open));
    let finished = file.finish().unwrap();
    assert_eq!(finished.rows, rows.len() as u64);
    assert_eq!(finished.size(), finished.parts.concat().len());
    finished.parts.concat()
}

/// A number as Avro has it, and what is behind it.
fn long(bytes: &[u8]) -> (i64, &[u8]) {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
    let raw = bytes[..=end]
        .iter()
        .rev()
        .fold(0_u64, |raw, byte| raw << 7 | u64::from(byte & 0x7f));
    let value = (raw >> 1) as i64 ^ -((raw & 1) as i64);
    (value, &bytes[end + 1..])
}

fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = long(bytes);
    rest.split_at(usize::try_from(length).unwrap())
}

/// The schema in an Avro file without compression, and the blocks: rows and bytes.
fn opened(file: &[u8]) -> (serde_json::Value, Vec<(i64, Vec<u8>)>) {
    let mut rest = file.strip_prefix(b"Obj\x01").unwrap();
    let (entries, after) = long(rest);
    rest = after;
    let mut schema = None;
    for _ in 0..entries {
        let (key, after) = text(rest);
        let (value, after) = text(after);
        match key {
            b"avro.codec" => assert_eq!(value, b"null"),
            b"avro.schema" => schema = Some(serde_json::from_slice(value).unwrap()),
            other => panic!("{other:?}"),
        }
        rest = after;
    }
    let (end, after) = long(rest);
    assert_eq!(end, 0);
    let (sync, mut rest) = after.split_at(16);
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let (rows, after) = long(rest);
        let (bytes, after) = text(after);
        rest = after.strip_prefix(sync).unwrap();
        blocks.push((rows, bytes.to_vec()));
    }
    (schema.unwrap(), blocks)
}

#[test]
fn avro_rows_are_exact() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-2), None]));
    let inner: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("hidden")]));
    let inside = ArrowField::new("t", DataType::Utf8, true);
    let structs: ArrayRef = Arc::new(StructArray::new(
        vec![inside].into(),
        vec![inner],
        Some(vec![true, false].into()),
    ));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), Some(300)]),
        None,
    ]));
    let batch = batch(vec![("n", numbers), ("s", structs), ("a", lists)]);
    let field = |name: &str, of, mode| Field::new(name, of, mode);
    let fields = vec![
        field("n", FieldType::Int64, Mode::Nullable),
        field(
            "s",
            FieldType::Struct(vec![field("t", FieldType::String, Mode::Required)]),
            Mode::Nullable,
        ),
        field("a", FieldType::Int64, Mode::Repeated),
    ];
    let encoder = encoder(&batch, fields, StagingFormat::Avro);
    let (schema, blocks) = opened(&file(&encoder, &batch));
    assert_eq!(
        schema,
        serde_json::json!({"type": "record", "name": "record_1", "fields": [
            {"name": "n", "type": ["null", "long"]},
            {"name": "s", "type": ["null", {"type": "record", "name": "record_2", "fields": [
                {"name": "t", "type": "string"}]}]},
            {"name": "a", "type": {"type": "array", "items": "long"}},
        ]})
    );
    let rows = [
        // The second branch, -2; a record with "a"; two elements, 1 and 300, and the end.
        &[2, 3, 2, 2, b'a', 4, 2, 0xd8, 4, 0][..],
        // NULL, NULL, and an array without elements.
        &[0, 0, 0],
    ];
    assert_eq!(blocks, [(2, rows.concat())]);
}

#[test]
fn a_bignumeric_of_77_digits_fits_avro_only() {
    let digits = |count: usize| i256::from_string(&"5".repeat(count)).unwrap();
    let values: ArrayRef = Arc::new(
        Decimal256Array::from(vec![digits(76), digits(77)])
            .with_precision_and_scale(76, 38)
            .unwrap(),
    );
    let batch = batch(vec![("c", values)]);
    let fields = vec![Field::new("c", FieldType::BigNumeric(None), Mode::Nullable)];
    let avro = encoder(&batch, fields.clone(), StagingFormat::Avro);
    let (schema, blocks) = opened(&file(&avro, &batch));
    assert_eq!(schema["fields"][0]["type"][1]["precision"], 77);
    let (first, rest) = text(&blocks[0].1[1..]);
    let bytes = digits(76).to_be_bytes();
    let significant = bytes.iter().position(|byte| *byte != 0).unwrap();
    let sign = usize::from(bytes[significant] & 0x80 != 0);
    assert_eq!(first, &bytes[significant - sign..]);
    let (second, _) = text(&rest[1..]);
    assert_eq!(second, digits(77).to_be_bytes());

    let parquet = encoder(&batch, fields, StagingFormat::Parquet);
    let rows = parquet.encode(&batch).unwrap();
    let [error] = rows.errors() else {
        panic!("one row does not fit")
    };
    assert_eq!((error.row, error.column.as_str()), (1, "c"));
    assert!(
        error
            .message
            .contains("BIGNUMERIC in a Parquet file, which has 38 digits before"),
        "{error}"
    );
}

#[test]
fn files_end_at_their_size_and_lose_no_row() {
    let texts = (0..10_000).map(|n| format!("{n:0100}"));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let batch = batch(vec![("c", Arc::clone(&texts))]);
    let fields = vec![Field::new("c", FieldType::String, Mode::Nullable)];
    for format in [StagingFormat::Avro, StagingFormat::Parquet] {
        let encoder = encoder(&batch, fields.clone(), format);
        let rows = encoder.encode(&batch).unwrap();
        let limit = 100_000;
        let (mut next, mut files) = (0, Vec::new());
        while next < rows.len() {
            let mut file = encoder.start().unwrap();
            let before = next;
            (next, _) = file.write(&rows, next, limit).unwrap();
            assert_eq!(file.rows(), (next - before) as u64);
            files.push(file.finish().unwrap());
        }
        assert!(files.len() > 5, "{format:?}: {}", files.len());
        let mut found = Vec::new();
        for file in files {
            let bytes = file.parts.concat();
            assert!(bytes.len() < 2 * limit, "{format:?}");
            if format == StagingFormat::Avro {
                for (_, block) in opened(&bytes).1 {
                    let mut rest = block.as_slice();
                    while !rest.is_empty() {
                        let value;
                        (value, rest) = text(&rest[1..]);
                        found.push(String::from_utf8(value.to_vec()).unwrap());
                    }
                }
            } else {
                let reader =
                    ParquetRecordBatchReaderBuilder::try_new(::bytes::Bytes::from(bytes)).unwrap();
                for batch in reader.build().unwrap() {
                    let batch = batch.unwrap();
                    let values = batch.column(0).as_string::<i32>();
                    found.extend(values.iter().flatten().map(str::to_string));
                }
            }
        }
        let expected: Vec<_> = texts.as_string::<i32>().iter().flatten().collect();
        assert_eq!(found, expected, "{format:?}");
    }
}

#[test]
fn a_row_that_no_block_holds_is_refused_alone() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        "a".to_string(),
        "x".repeat(16 << 20),
        "b".to_string(),
    ]));
    let batch = batch(vec![("c", texts)]);
    let fields = vec![Field::new("c", FieldType::String, Mode::Required)];
    let encoder = encoder(&batch, fields, StagingFormat::Avro);
    let rows = encoder.encode(&batch).unwrap();
    let [error] = rows.errors() else {
        panic!("one row is too long")
    };
    assert_eq!(error.row, 1);
    assert!(error.message.contains("parquet"), "{error}");
    let mut file = encoder.start().unwrap();
    file.write(&rows, 0, usize::MAX).unwrap();
    let (_, blocks) = opened(&file.finish().unwrap().parts.concat());
    assert_eq!(blocks, [(2, vec![2, b'a', 2, b'b'])]);
}
