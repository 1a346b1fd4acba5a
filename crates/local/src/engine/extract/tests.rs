//! What is written is what loads read.

use serde_json::{Value, json};

use super::*;
use crate::engine::load::{Columns, Defaults, FormatOptions, LoadFile, SourceFormat, read};
use crate::value::build::JsonText;
use crate::value::{JsonRowsBuilder, UnknownFields};

fn rows(fields: Value, rows: &[Value]) -> (TableSchema, RecordBatch) {
    let schema: TableSchema = serde_json::from_value(json!({"fields": fields})).unwrap();
    let mut builder = JsonRowsBuilder::new(&schema, UnknownFields::Refuse, JsonText::Encoded);
    for row in rows {
        builder.push(row).unwrap();
    }
    (schema, builder.finish().unwrap())
}

fn flat() -> (TableSchema, RecordBatch) {
    rows(
        json!([
            {"name": "i", "type": "INTEGER"}, {"name": "s", "type": "STRING"},
            {"name": "d", "type": "DATE"}, {"name": "ts", "type": "TIMESTAMP"},
            {"name": "dt", "type": "DATETIME"}, {"name": "t", "type": "TIME"},
            {"name": "n", "type": "NUMERIC"}, {"name": "y", "type": "BYTES"},
            {"name": "f", "type": "FLOAT"}, {"name": "b", "type": "BOOLEAN"},
        ]),
        &[
            json!({"i": 1, "s": "a,\"b\"\nc", "d": "2024-01-02", "ts": "2024-01-02 03:04:05.5 UTC",
                "dt": "2024-01-02T03:04:05", "t": "01:02:03", "n": "1.25", "y": "AP8=",
                "f": 1.5, "b": true}),
            json!({"s": ""}),
        ],
    )
}

fn options(format: FileFormat, compression: Compression) -> FileOptions {
    FileOptions {
        format,
        compression,
        delimiter: b',',
        header: Header::Names,
        logical_types: LogicalTypes::On,
    }
}

/// Writes and reads again; the rows must be the same.
fn round_trip(format: FileFormat, source: SourceFormat, read_options: Value) {
    let (schema, batch) = flat();
    for compression in [
        Compression::None,
        Compression::Gzip,
        Compression::Deflate,
        Compression::Snappy,
        Compression::Zstd,
    ] {
        let options = options(format, compression);
        if options.check().is_err() {
            continue;
        }
        let file = LoadFile {
            name: "gs://b/o".into(),
            data: write(&schema, std::slice::from_ref(&batch), &options)
                .unwrap()
                .into(),
        };
        let read_options: FormatOptions = serde_json::from_value(read_options.clone()).unwrap();
        let columns = Columns::Given(&schema);
        let loaded = read(
            &[file],
            source,
            &read_options,
            columns,
            &Defaults::default(),
        )
        .unwrap();
        assert_eq!(loaded.batches.len(), 1, "{format:?} {compression:?}");
        for (i, field) in schema.fields.iter().enumerate() {
            let got = loaded.batches[0].column_by_name(&field.name).unwrap();
            assert_eq!(
                got,
                batch.column(i),
                "{format:?} {compression:?} {}",
                field.name
            );
        }
    }
}

#[test]
fn every_format_and_compression_reads_back() {
    round_trip(
        FileFormat::Csv,
        SourceFormat::Csv,
        json!({"skipLeadingRows": 1, "allowQuotedNewlines": true}),
    );
    round_trip(
        FileFormat::NewlineDelimitedJson,
        SourceFormat::NewlineDelimitedJson,
        json!({}),
    );
    round_trip(FileFormat::Parquet, SourceFormat::Parquet, json!({}));
}

#[test]
fn avro_reads_back() {
    let (schema, batch) = flat();
    // A DATETIME is text in Avro, which loads refuse for a DATETIME column.
    let keep: Vec<usize> = (0..schema.fields.len()).filter(|i| *i != 4).collect();
    let batch = batch.project(&keep).unwrap();
    let schema = TableSchema::new(keep.iter().map(|i| schema.fields[*i].clone()).collect());
    for compression in [
        Compression::None,
        Compression::Deflate,
        Compression::Snappy,
        Compression::Zstd,
    ] {
        let options = options(FileFormat::Avro, compression);
        let data = write(&schema, std::slice::from_ref(&batch), &options).unwrap();
        let file = LoadFile {
            name: "gs://b/o".into(),
            data: data.into(),
        };
        let logical: FormatOptions =
            serde_json::from_value(json!({"useAvroLogicalTypes": true})).unwrap();
        let columns = Columns::FromFiles(None);
        let defaults = Defaults::default();
        let loaded = read(&[file], SourceFormat::Avro, &logical, columns, &defaults).unwrap();
        let types: Vec<&str> = loaded
            .schema
            .fields
            .iter()
            .map(|f| f.field_type.sql_name())
            .collect();
        let want: Vec<&str> = schema
            .fields
            .iter()
            .map(|f| f.field_type.sql_name())
            .collect();
        assert_eq!(types, want);
        for (i, field) in schema.fields.iter().enumerate() {
            assert_eq!(
                loaded.batches[0].column(i),
                batch.column(i),
                "{}",
                field.name
            );
        }
    }
}

#[test]
fn words_of_text_formats() {
    let (schema, batch) = flat();
    let csv = write(
        &schema,
        &[batch],
        &options(FileFormat::Csv, Compression::None),
    )
    .unwrap();
    assert_eq!(
        String::from_utf8(csv).unwrap(),
        "i,s,d,ts,dt,t,n,y,f,b\n\
         1,\"a,\"\"b\"\"\nc\",2024-01-02,2024-01-02 03:04:05.500000 UTC,2024-01-02T03:04:05,01:02:03,1.25,AP8=,1.5,true\n\
         ,\"\",,,,,,,,\n"
    );
    let (schema, batch) = rows(
        json!([
            {"name": "i", "type": "INTEGER"}, {"name": "j", "type": "JSON"},
            {"name": "a", "type": "RECORD", "mode": "REPEATED", "fields": [
                {"name": "x", "type": "INTEGER"}, {"name": "y", "type": "FLOAT"}]},
        ]),
        &[
            json!({"i": 1, "j": "{\"k\":[1]}", "a": [{"x": 2}, {"y": 0.5}]}),
            json!({}),
        ],
    );
    let options = options(FileFormat::NewlineDelimitedJson, Compression::None);
    let json = write(&schema, std::slice::from_ref(&batch), &options).unwrap();
    assert_eq!(
        String::from_utf8(json).unwrap(),
        "{\"i\":\"1\",\"j\":{\"k\":[1]},\"a\":[{\"x\":\"2\"},{\"y\":0.5}]}\n{\"a\":[]}\n"
    );
    let nested = FileOptions {
        format: FileFormat::Csv,
        ..options
    };
    let error = write(&schema, &[batch], &nested).unwrap_err();
    assert!(error.message.contains("nested schema. Field: a"), "{error}");
}
