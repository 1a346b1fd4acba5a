use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Fields, IntervalUnit, TimeUnit};

use super::*;

fn marks(json: &[&str], geography: &[&str]) -> FieldMarks {
    let owned = |paths: &[&str]| paths.iter().map(ToString::to_string).collect();
    FieldMarks {
        json: owned(json),
        geography: owned(geography),
    }
}

fn field(name: &str, data_type: DataType) -> ArrowField {
    ArrowField::new(name, data_type, true)
}

fn one(data_type: DataType) -> Result<String> {
    let schema = Schema::new(vec![field("c", data_type)]);
    let created = table_schema_for(&schema, &FieldMarks::default(), NewModes::Nullable)?;
    Ok(created.fields[0].type_name())
}

fn map(key: DataType, value: DataType) -> DataType {
    let entries = Fields::from(vec![
        ArrowField::new("keys", key, false),
        field("values", value),
    ]);
    let entries = ArrowField::new("entries", DataType::Struct(entries), false);
    DataType::Map(Arc::new(entries), false)
}

#[test]
fn every_arrow_type_has_the_type_that_holds_its_values() {
    let list = |of| DataType::List(Arc::new(field("item", of)));
    let pair = Fields::from(vec![
        field("x", DataType::Int32),
        field("y", list(DataType::Utf8)),
    ]);
    for (arrow, bigquery) in [
        (DataType::Boolean, "BOOL"),
        (DataType::Int8, "INT64"),
        (DataType::UInt64, "INT64"),
        (DataType::Float16, "FLOAT64"),
        (DataType::Float64, "FLOAT64"),
        (DataType::Utf8View, "STRING"),
        (DataType::FixedSizeBinary(3), "BYTES"),
        (DataType::Date64, "DATE"),
        (DataType::Time32(TimeUnit::Second), "TIME"),
        (DataType::Timestamp(TimeUnit::Nanosecond, None), "DATETIME"),
        (
            DataType::Timestamp(TimeUnit::Second, Some("+01:00".into())),
            "TIMESTAMP",
        ),
        (DataType::Interval(IntervalUnit::YearMonth), "INTERVAL"),
        (DataType::Duration(TimeUnit::Second), "INTERVAL"),
        (DataType::Decimal128(38, 9), "NUMERIC"),
        (DataType::Decimal256(76, 38), "BIGNUMERIC"),
        (DataType::Decimal32(5, -2), "NUMERIC(7, 0)"),
        (
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
            "STRING",
        ),
        (list(DataType::Int32), "ARRAY<INT64>"),
        (DataType::Struct(pair), "STRUCT<x INT64, y ARRAY<STRING>>"),
        (
            map(DataType::Utf8, DataType::Int64),
            "ARRAY<STRUCT<key STRING, value INT64>>",
        ),
    ] {
        assert_eq!(one(arrow.clone()).unwrap(), bigquery, "{arrow}");
    }
}

/// Up to 29 digits before the point and 9 behind it are a NUMERIC's.
#[test]
fn m07_decimals_take_the_smaller_type_that_holds_them() {
    for (precision, scale, bigquery) in [
        (10, 2, "NUMERIC(10, 2)"),
        (29, 0, "NUMERIC(29, 0)"),
        (38, 10, "BIGNUMERIC(38, 10)"),
        (38, 20, "BIGNUMERIC(38, 20)"),
        (30, 0, "BIGNUMERIC(30, 0)"),
    ] {
        let created = one(DataType::Decimal128(precision, scale)).unwrap();
        assert_eq!(created, bigquery);
    }
    for (precision, scale) in [(39, 0), (76, 39), (76, 10)] {
        let error = one(DataType::Decimal256(precision, scale)).unwrap_err();
        assert!(error.message().contains("38 digits before"), "{error}");
    }
}

#[test]
fn what_bigquery_cannot_hold_is_refused_and_named_together() {
    let list = |of| DataType::List(Arc::new(field("item", of)));
    let schema = Schema::new(vec![
        field("nothing", DataType::Null),
        field("deep", list(list(DataType::Int64))),
        field("ok", DataType::Int64),
        field("OK", DataType::Int64),
        field("_partition_of", DataType::Int64),
        field("a.b", DataType::Int64),
        field("empty", DataType::Struct(Fields::empty())),
    ]);
    let error = table_schema_for(&schema, &FieldMarks::default(), NewModes::Nullable).unwrap_err();
    for part in [
        "column 'nothing'",
        "column 'deep'",
        "column 'OK': it is there twice",
        "_PARTITION",
        "column 'a.b': BigQuery takes no '.'",
        "column 'empty'",
    ] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    assert!(!error.message().contains("'ok'"), "{error}");
    let none = Schema::empty();
    assert!(table_schema_for(&none, &FieldMarks::default(), NewModes::Nullable).is_err());
    let mut deep = DataType::Int64;
    for _ in 0..15 {
        deep = DataType::Struct(vec![field("s", deep)].into());
    }
    assert!(one(deep).unwrap_err().message().contains("15 levels"));
}

#[test]
fn marks_make_json_and_geographies_also_inside_structs_lists_and_maps() {
    let inner = Fields::from(vec![
        field("doc", DataType::Utf8),
        field("n", DataType::Int64),
    ]);
    let list = DataType::List(Arc::new(field("item", DataType::Struct(inner.clone()))));
    let schema = Schema::new(vec![
        field("s", DataType::Struct(inner.clone())),
        field("l", list),
        field("m", map(DataType::Utf8, DataType::Utf8)),
        field("whole", DataType::Struct(inner)),
        field("as_document", map(DataType::Utf8, DataType::Int64)),
        field("place", DataType::Utf8),
    ]);
    let marks = marks(
        &["S.Doc", "l.doc", "m.value", "whole", "as_document"],
        &["place"],
    );
    let created = table_schema_for(&schema, &marks, NewModes::Nullable).unwrap();
    let types: Vec<String> = created
        .fields
        .iter()
        .map(|field| field.field_type.to_string())
        .collect();
    assert_eq!(
        types,
        [
            "STRUCT<doc JSON, n INT64>",
            "STRUCT<doc JSON, n INT64>",
            "STRUCT<key STRING, value JSON>",
            "JSON",
            "JSON",
            "GEOGRAPHY",
        ]
    );
    assert_eq!(created.fields[4].mode, Mode::Nullable);
}

#[test]
fn marks_that_do_not_fit_are_refused() {
    let schema = Schema::new(vec![
        field("n", DataType::Int64),
        field("m", map(DataType::Utf8, DataType::Utf8)),
    ]);
    for (marks, parts) in [
        (marks(&["nope"], &[]), ["sink.json_field_paths", "'nope'"]),
        (marks(&["n"], &[]), ["Int64", "JSON"]),
        (marks(&[], &["n"]), ["sink.geography_field_paths", "Int64"]),
        (marks(&["m.key"], &[]), ["key of a map", "'m'"]),
    ] {
        let error = table_schema_for(&schema, &marks, NewModes::Nullable).unwrap_err();
        for part in parts {
            assert!(error.message().contains(part), "{part}: {error}");
        }
    }
}

/// Data that was read from BigQuery goes back into columns of the same types.
#[test]
fn what_was_read_keeps_its_type() {
    let named = |name: &str| HashMap::from([(EXTENSION_NAME.to_string(), name.to_string())]);
    let bounds = Fields::from(vec![
        field("start", DataType::Date32),
        field("end", DataType::Date32),
    ]);
    let range = HashMap::from([(SQL_TYPE.to_string(), "range".to_string())]);
    let schema = Schema::new(vec![
        field("j", DataType::Utf8).with_metadata(named("google:sqlType:json")),
        field("g", DataType::Utf8).with_metadata(named("google:sqlType:geography")),
        field("r", DataType::Struct(bounds.clone())).with_metadata(range),
        field("s", DataType::Struct(bounds)),
    ]);
    let created = table_schema_for(&schema, &FieldMarks::default(), NewModes::Nullable).unwrap();
    let types: Vec<String> = created
        .fields
        .iter()
        .map(|field| field.field_type.to_string())
        .collect();
    assert_eq!(
        types,
        [
            "JSON",
            "GEOGRAPHY",
            "RANGE<DATE>",
            "STRUCT<start DATE, end DATE>"
        ]
    );
}

#[test]
fn required_only_where_asked_for() {
    let schema = Schema::new(vec![
        ArrowField::new("id", DataType::Int64, false),
        field("note", DataType::Utf8),
    ]);
    let modes = |modes| -> Vec<Mode> {
        let created = table_schema_for(&schema, &FieldMarks::default(), modes).unwrap();
        created.fields.iter().map(|field| field.mode).collect()
    };
    assert_eq!(modes(NewModes::Nullable), [Mode::Nullable; 2]);
    assert_eq!(modes(NewModes::Derived), [Mode::Required, Mode::Nullable]);
}

fn terms(options: TableCreateOptions) -> Result<()> {
    let columns = TableSchema {
        fields: vec![
            Field::new("day", FieldType::Date, Mode::Nullable),
            Field::new("n", FieldType::Int64, Mode::Nullable),
            Field::new("tags", FieldType::String, Mode::Repeated),
            Field::new(
                "s",
                FieldType::Struct(vec![Field::new("x", FieldType::Int64, Mode::Nullable)]),
                Mode::Nullable,
            ),
        ],
    };
    check_terms(&options, &columns)
}

#[test]
fn n10_partitions_and_clusters_are_checked_against_the_columns() {
    let by_time = |field: &str, unit| TableCreateOptions {
        partitioning: Some(NewPartitioning::Time {
            unit,
            field: Some(field.into()),
            expiration: None,
        }),
        ..TableCreateOptions::default()
    };
    let by_range = |field: &str| TableCreateOptions {
        partitioning: Some(NewPartitioning::Range {
            field: field.into(),
            start: 0,
            end: 100,
            interval: 10,
        }),
        ..TableCreateOptions::default()
    };
    let clustered = |fields: &[&str]| TableCreateOptions {
        clustered_fields: fields.iter().map(ToString::to_string).collect(),
        ..TableCreateOptions::default()
    };
    terms(by_time("DAY", PartitionUnit::Day)).unwrap();
    terms(by_range("n")).unwrap();
    terms(clustered(&["n", "day"])).unwrap();
    for (options, parts) in [
        (by_time("day", PartitionUnit::Hour), ["'hour'", "DATE"]),
        (by_time("n", PartitionUnit::Day), ["'n'", "TIMESTAMP"]),
        (by_time("nope", PartitionUnit::Day), ["'nope'", "no column"]),
        (by_time("tags", PartitionUnit::Day), ["'tags'", "repeated"]),
        (by_range("day"), ["'day'", "INT64"]),
        (clustered(&["tags"]), ["'tags'", "repeated"]),
        (clustered(&["s"]), ["'s'", "STRUCT"]),
        (clustered(&["s.x"]), ["'s.x'", "no column"]),
    ] {
        let error = terms(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        for part in parts {
            assert!(error.message().contains(part), "{part}: {error}");
        }
    }
}
