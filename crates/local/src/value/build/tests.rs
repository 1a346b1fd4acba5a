use serde_json::{Value, json};

use super::super::rows;
use super::super::text::{TextOptions, TimestampText};
use super::*;

fn schema(fields: Value) -> TableSchema {
    serde_json::from_value(json!({ "fields": fields })).unwrap()
}

fn all_types() -> TableSchema {
    schema(json!([
        {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
        {"name": "f_int", "type": "INTEGER"},
        {"name": "f_float", "type": "FLOAT"},
        {"name": "f_bool", "type": "BOOLEAN"},
        {"name": "f_str", "type": "STRING"},
        {"name": "f_bytes", "type": "BYTES"},
        {"name": "f_num", "type": "NUMERIC"},
        {"name": "f_bignum", "type": "BIGNUMERIC"},
        {"name": "f_date", "type": "DATE"},
        {"name": "f_datetime", "type": "DATETIME"},
        {"name": "f_time", "type": "TIME"},
        {"name": "f_ts", "type": "TIMESTAMP"},
        {"name": "f_geo", "type": "GEOGRAPHY"},
        {"name": "f_json", "type": "JSON"},
        {"name": "f_interval", "type": "INTERVAL"},
        {"name": "f_range", "type": "RANGE", "rangeElementType": {"type": "DATE"}},
        {"name": "f_struct", "type": "RECORD", "fields": [
            {"name": "a", "type": "INTEGER"},
            {"name": "b", "type": "STRING"},
            {"name": "c", "type": "RECORD", "fields": [{"name": "d", "type": "DATE"}]}]},
        {"name": "f_arr", "type": "INTEGER", "mode": "REPEATED"},
        {"name": "f_arrst", "type": "RECORD", "mode": "REPEATED", "fields": [
            {"name": "k", "type": "STRING"},
            {"name": "v", "type": "FLOAT"}]}
    ]))
}

fn builder(schema: &TableSchema) -> JsonRowsBuilder {
    JsonRowsBuilder::new(schema, UnknownFields::Refuse, JsonText::Encoded)
}

fn rendered(schema: &TableSchema, batch: &RecordBatch, timestamp: TimestampText) -> Value {
    let page = rows::page(
        schema,
        std::slice::from_ref(batch),
        0,
        usize::MAX,
        usize::MAX,
        TextOptions { timestamp },
    )
    .unwrap();
    assert_eq!(page.count, batch.num_rows());
    serde_json::from_str(page.rows.get()).unwrap()
}

#[test]
fn every_type_reads_back() {
    let schema = all_types();
    let mut builder = builder(&schema);
    builder
        .push(&json!({
            "id": 1, "f_int": "-9223372036854775808", "f_float": 1.5, "f_bool": true,
            "f_str": "héllo \n wörld", "f_bytes": "AP8QYWJj",
            "f_num": "99999999999999999999999999999.999999999",
            "f_bignum": "-578960446186580977117854925043439539266.34992332820282019728792003956564819968",
            "f_date": "0001-01-01", "f_datetime": "9999-12-31 23:59:59.999999", "F_TIME": "23:59:59.999999",
            "f_ts": "2024-02-29 12:34:56.789012 UTC", "f_geo": "POINT(-122.35 47.62)",
            "f_json": "{\"b\": 1, \"a\": [1, null, \"x\"]}", "f_interval": "1-2 3 4:5:6.789",
            "f_range": {"start": "2024-01-01", "end": null},
            "f_struct": {"a": 7, "b": "x", "c": {"d": "2020-05-05"}},
            "f_arr": [1, 2, 3], "f_arrst": [{"k": "k1", "v": 1.25}, {"k": "k2", "v": null}]
        }))
        .unwrap();
    builder.push(&json!({"id": 2})).unwrap();
    let batch = builder.finish().unwrap();
    assert_eq!(builder.rows(), 0);
    assert_eq!(batch.schema(), arrow_schema(&schema));
    let rows = rendered(&schema, &batch, TimestampText::Scientific);
    assert_eq!(
        rows[0],
        json!({"f": [
            {"v": "1"}, {"v": "-9223372036854775808"}, {"v": "1.5"}, {"v": "true"},
            {"v": "héllo \n wörld"}, {"v": "AP8QYWJj"},
            {"v": "99999999999999999999999999999.999999999"},
            {"v": "-578960446186580977117854925043439539266.34992332820282019728792003956564819968"},
            {"v": "0001-01-01"}, {"v": "9999-12-31T23:59:59.999999"}, {"v": "23:59:59.999999"},
            {"v": "1.709210096789012E9"}, {"v": "POINT(-122.35 47.62)"},
            {"v": "{\"a\":[1,null,\"x\"],\"b\":1}"}, {"v": "1-2 3 4:5:6.789"},
            {"v": "[2024-01-01, UNBOUNDED)"},
            {"v": {"f": [{"v": "7"}, {"v": "x"}, {"v": {"f": [{"v": "2020-05-05"}]}}]}},
            {"v": [{"v": "1"}, {"v": "2"}, {"v": "3"}]},
            {"v": [{"v": {"f": [{"v": "k1"}, {"v": "1.25"}]}}, {"v": {"f": [{"v": "k2"}, {"v": null}]}}]}
        ]})
    );
    let nulls = rows[1]["f"].as_array().unwrap();
    assert_eq!(nulls[0], json!({"v": "2"}));
    assert!(nulls[1..17].iter().all(|c| *c == json!({"v": null})));
    assert!(nulls[17..].iter().all(|c| *c == json!({"v": []})));
    for (form, want) in [
        (TimestampText::Plain, "1709210096.789012"),
        (TimestampText::Int64, "1709210096789012"),
        (TimestampText::Iso8601, "2024-02-29T12:34:56.789012000000Z"),
    ] {
        assert_eq!(rendered(&schema, &batch, form)[0]["f"][11]["v"], want);
    }
}

#[test]
fn errors_name_row_and_field() {
    let schema = schema(json!([
        {"name": "a", "type": "INTEGER", "mode": "REQUIRED"},
        {"name": "s", "type": "STRING", "maxLength": "3"},
        {"name": "y", "type": "BYTES", "maxLength": "2"},
        {"name": "n", "type": "NUMERIC"},
        {"name": "p", "type": "NUMERIC", "precision": "5", "scale": "2"},
        {"name": "f", "type": "FLOAT"},
        {"name": "b", "type": "BOOLEAN"},
        {"name": "d", "type": "DATE"},
        {"name": "t", "type": "TIMESTAMP"},
        {"name": "r", "type": "RECORD", "fields": [
            {"name": "x", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "l", "type": "STRING", "mode": "REPEATED"}]},
        {"name": "g", "type": "RANGE", "rangeElementType": {"type": "DATE"}},
        {"name": "j", "type": "JSON"}
    ]));
    let cases = [
        (json!({"a": 1, "zzz": 1}), "zzz", "no such field: zzz."),
        (
            json!({"s": "x"}),
            "a",
            "Missing required field: Msg_0_CLOUD_QUERY_TABLE.a.",
        ),
        (
            json!({"a": null}),
            "a",
            "Only optional fields can be set to NULL. Field: a; Value: NULL",
        ),
        (
            json!({"a": "not-a-number"}),
            "a",
            "Cannot convert value to integer (bad value): not-a-number",
        ),
        (
            json!({"a": 1.5}),
            "a",
            "Cannot convert value to integer (bad value): 1.5",
        ),
        (
            json!({"a": true}),
            "a",
            "Cannot convert value to integer (bad value): true",
        ),
        (
            json!({"a": [1]}),
            "a",
            "Array specified for non-repeated field: a.",
        ),
        (
            json!({"a": 1, "s": {"x": 1}}),
            "s",
            "This field: s is not a record.",
        ),
        (
            json!({"a": 1, "s": "äöüß"}),
            "s",
            "Field s: STRING(3) has maximum length 3 but got a value with length 4 on field s.",
        ),
        (
            json!({"a": 1, "y": "AAAA"}),
            "y",
            "Field y: BYTES(2) has maximum length 2 but got a value with length 3 on field y.",
        ),
        (
            json!({"a": 1, "n": "1.0000000001"}),
            "n",
            "Invalid NUMERIC value: 1.0000000001",
        ),
        (
            json!({"a": 1, "n": 1e29}),
            "n",
            "Invalid NUMERIC value: 1e+29",
        ),
        (
            json!({"a": 1, "p": "1000"}),
            "p",
            "Field p: NUMERIC(5, 2) has precision 5 and scale 2 but got a value that is out of range on field p: 1000",
        ),
        (json!({"a": 1, "p": "x"}), "p", "Invalid NUMERIC value: x"),
        (
            json!({"a": 1, "f": "x"}),
            "f",
            "Cannot convert value to floating point (bad value): x",
        ),
        (
            json!({"a": 1, "b": "maybe"}),
            "b",
            "Cannot convert value to boolean (bad value): maybe",
        ),
        (
            json!({"a": 1, "d": "2024-02-30"}),
            "d",
            "Invalid date: '2024-02-30'",
        ),
        (
            json!({"a": 1, "r": 1}),
            "r",
            "This field: r is not a record.",
        ),
        (
            json!({"a": 1, "r": {}}),
            "r.x",
            "Missing required field: Msg_0_CLOUD_QUERY_TABLE.r.x.",
        ),
        (
            json!({"a": 1, "r": {"x": 1, "q": 2}}),
            "r.q",
            "no such field: r.q.",
        ),
        (
            json!({"a": 1, "r": {"x": 1, "l": "v"}}),
            "r.l",
            "Repeated field must be imported as a JSON array. Field: r.l.",
        ),
        (
            json!({"a": 1, "r": {"x": 1, "l": [null]}}),
            "r.l",
            "Only optional fields can be set to NULL. Field: r.l; Value: NULL",
        ),
        (
            json!({"a": 1, "g": {"start": "2024-01-02", "end": "2024-01-01"}}),
            "g",
            "Range start element must be less than range end element",
        ),
        (
            json!({"a": 1, "g": {"from": "2024-01-02"}}),
            "g.from",
            "no such field: g.from.",
        ),
        (json!([]), "", "A row must be a JSON object."),
    ];
    let mut builder = builder(&schema);
    builder
        .push(&json!({"a": 1, "p": "1.005", "f": "NaN", "t": 1_704_164_645}))
        .unwrap();
    for (i, (row, location, message)) in cases.iter().enumerate() {
        let error = builder.push(row).unwrap_err();
        assert_eq!(
            (error.row, error.location.as_str(), error.message.as_str()),
            (i + 1, *location, *message)
        );
    }
    let error = builder
        .push(&json!({"a": 1, "t": "2024-01-02"}))
        .unwrap_err();
    assert!(
        error
            .message
            .starts_with("Could not parse '2024-01-02' as a timestamp.")
    );
    let error = builder.push(&json!({"a": 1, "j": "{"})).unwrap_err();
    assert_eq!(error.location, "j");
    builder.push(&json!({"a": 2.0, "r": {"x": "3"}})).unwrap();
    let batch = builder.finish().unwrap();
    let rows = rendered(&schema, &batch, TimestampText::Plain);
    assert_eq!(rows[0]["f"][4]["v"], "1.01");
    assert_eq!(rows[0]["f"][8]["v"], "1704164645.0");
    assert_eq!(rows[1]["f"][0]["v"], "2");
    assert_eq!(rows[1]["f"][9]["v"], json!({"f": [{"v": "3"}, {"v": []}]}));
    assert_eq!(batch.num_rows(), 2);
}

#[test]
fn unknown_fields_defaults_and_json_text() {
    let schema = schema(json!([
        {"name": "a", "type": "INTEGER", "mode": "REQUIRED"},
        {"name": "j", "type": "JSON"},
        {"name": "js", "type": "JSON", "mode": "REPEATED"}
    ]));
    let mut builder = JsonRowsBuilder::new(&schema, UnknownFields::Ignore, JsonText::Literal)
        .with_defaults(vec![Some(Cell::Int(42))]);
    builder
        .push(&json!({"x": {"y": 1}, "j": "{}", "js": [null, {"b": 1, "a": 2}]}))
        .unwrap();
    builder
        .push(&json!({"a": 1, "j": {"z": [1.0, 2], "a": null}}))
        .unwrap();
    let batch = builder.finish().unwrap();
    let rows = rendered(&schema, &batch, TimestampText::Plain);
    assert_eq!(
        rows,
        json!([
            {"f": [{"v": "42"}, {"v": "\"{}\""}, {"v": [{"v": "null"}, {"v": "{\"a\":2,\"b\":1}"}]}]},
            {"f": [{"v": "1"}, {"v": "{\"a\":null,\"z\":[1.0,2]}"}, {"v": []}]}
        ])
    );
}

#[test]
fn pages_cut_by_rows_and_bytes() {
    let schema = schema(json!([{"name": "a", "type": "INTEGER"}]));
    let batches: Vec<RecordBatch> = [0..3, 3..3, 3..10]
        .into_iter()
        .map(|range| {
            let mut builder = builder(&schema);
            for i in range {
                builder.push(&json!({"a": i})).unwrap();
            }
            builder.finish().unwrap()
        })
        .collect();
    let page = |start, max_rows, max_bytes| {
        let page = rows::page(
            &schema,
            &batches,
            start,
            max_rows,
            max_bytes,
            TextOptions::default(),
        )
        .unwrap();
        let rows: Vec<Value> = serde_json::from_str(page.rows.get()).unwrap();
        assert_eq!(rows.len(), page.count);
        rows.iter()
            .map(|r| r["f"][0]["v"].as_str().unwrap().parse::<usize>().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(page(0, 100, 10_000), (0..10).collect::<Vec<_>>());
    assert_eq!(page(2, 3, 10_000), [2, 3, 4]);
    assert_eq!(page(0, 100, 1), [0]);
    assert_eq!(page(9, 100, 10_000), [9]);
    assert_eq!(page(10, 100, 10_000), Vec::<usize>::new());
    assert_eq!(page(0, 0, 10_000), Vec::<usize>::new());
}

#[test]
fn builder_without_columns_counts_rows() {
    let schema = TableSchema::default();
    let mut builder = builder(&schema);
    builder.push(&json!({})).unwrap();
    builder.push(&json!({})).unwrap();
    let batch = builder.finish().unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (2, 0));
}
