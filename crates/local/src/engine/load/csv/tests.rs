use serde_json::{Value, json};

use super::*;
use crate::value::TextOptions;
use crate::value::rows::page;

fn options(options: Value) -> FormatOptions {
    serde_json::from_value(options).unwrap()
}

fn file(text: &str) -> Vec<LoadFile> {
    vec![LoadFile {
        name: String::new(),
        data: text.as_bytes().to_vec().into(),
    }]
}

fn schema(columns: &[(&str, &str)]) -> TableSchema {
    let fields: Vec<Value> = columns
        .iter()
        .map(|(name, kind)| match kind.strip_suffix('!') {
            Some(kind) => json!({"name": name, "type": kind, "mode": "REQUIRED"}),
            None => json!({"name": name, "type": kind}),
        })
        .collect();
    serde_json::from_value(json!({ "fields": fields })).unwrap()
}

fn rows(loaded: &Loaded) -> Vec<Vec<Value>> {
    let page = page(
        &loaded.schema,
        &loaded.batches,
        0,
        usize::MAX,
        usize::MAX,
        TextOptions::default(),
    )
    .unwrap();
    let rows: Vec<Value> = serde_json::from_str(page.rows.get()).unwrap();
    rows.iter()
        .map(|row| {
            let cells = row["f"].as_array().unwrap();
            cells.iter().map(|cell| cell["v"].clone()).collect()
        })
        .collect()
}

fn given(text: &str, columns: &[(&str, &str)], opts: Value) -> Result<Loaded, LoadError> {
    read(
        &file(text),
        &options(opts),
        Columns::Given(&schema(columns)),
    )
}

fn detected(text: &str, opts: Value) -> (Vec<String>, Vec<Vec<Value>>) {
    let loaded = read(&file(text), &options(opts), Columns::FromFiles(None)).unwrap();
    let columns = loaded.schema.fields.iter();
    let columns = columns.map(|f| format!("{} {}", f.name, f.field_type.sql_name()));
    (columns.collect(), rows(&loaded))
}

const RECORDED: [(&str, &str); 7] = [
    ("id", "INTEGER"),
    ("b", "BOOLEAN"),
    ("ts", "TIMESTAMP"),
    ("d", "DATE"),
    ("n", "NUMERIC"),
    ("f", "FLOAT"),
    ("s", "STRING"),
];

fn recorded(line: &str) -> Result<Vec<Vec<Value>>, LoadError> {
    let text = format!("id,b,ts,d,n,f,s\n{line}\n");
    given(&text, &RECORDED, json!({"skipLeadingRows": 1})).map(|loaded| rows(&loaded))
}

#[test]
fn recorded_spellings_are_accepted() {
    let want = json!([
        "1",
        "true",
        "1.704164645E9",
        "2024-01-02",
        "1.5",
        "1.5",
        "x"
    ]);
    for line in [
        "1,T,2024-01-02 03:04:05,2024-01-02,1.5,1.5,x",
        "1,1,2024-01-02 03:04:05,2024-01-02,1.5,1.5,x",
        "1,yes,2024-01-02T03:04:05Z,2024-1-2,1.5,1.5,x",
        "+1,TRUE,2024-01-02T03:04:05,2024-01-02,1.5,1.5,x",
        "\"1\",True,1704164645,2024-01-02,1.5,1.5,x",
        "1,true,2024/01/02 03:04:05,2024-01-02,1.5,1.5,x",
        "1,true,2024-01-02 04:04:05+01:00,2024-01-02,15e-1,1.5,x\r",
    ] {
        assert_eq!(json!(recorded(line).unwrap()[0]), want, "{line}");
    }
    let nulls = recorded("1,,,,,,").unwrap();
    assert_eq!(
        json!(nulls[0]),
        json!(["1", null, null, null, null, null, null])
    );
    let empty = recorded("1,,,,,-inf,\"\"").unwrap();
    assert_eq!(
        json!(empty[0]),
        json!(["1", null, null, null, null, "-Infinity", ""])
    );
}

#[test]
fn recorded_errors_are_word_for_word() {
    let prefix = "Error while reading data, error message: ";
    for (line, detail) in [
        (
            "1,maybe,2024-01-02 03:04:05,2024-01-02,1.5,1.5,x",
            "Unable to parse; line_number: 2 byte_offset_to_start_of_line: 16 column_index: 1 column_name: \"b\" column_type: BOOL value: \"maybe\"",
        ),
        (
            "1,true,2024-01-02,2024-01-02,1.5,1.5,x",
            "Could not parse '2024-01-02' as a timestamp. Required format is YYYY-MM-DD HH:MM[:SS[.SSSSSS]] or YYYY/MM/DD HH:MM[:SS[.SSSSSS]]; line_number: 2 byte_offset_to_start_of_line: 16 column_index: 2 column_name: \"ts\" column_type: TIMESTAMP value: \"2024-01-02\"",
        ),
        (
            "1,true,2024-01-02 03:04:05,2024-02-30,1.5,1.5,x",
            "Unable to parse; line_number: 2 byte_offset_to_start_of_line: 16 column_index: 3 column_name: \"d\" column_type: DATE value: \"2024-02-30\"",
        ),
        (
            "1,true,2024-01-02 03:04:05,2024-01-02,1.0000000001,1.5,x",
            "Invalid NUMERIC value: 1.0000000001; line_number: 2 byte_offset_to_start_of_line: 16 column_index: 4 column_name: \"n\" column_type: NUMERIC value: \"1.0000000001\"",
        ),
    ] {
        let error = recorded(line).unwrap_err();
        assert_eq!(
            error.error.message,
            format!(
                "{prefix}CSV processing encountered too many errors, giving up. Rows: 1; errors: 1; max bad: 0; error percent: 0"
            )
        );
        assert_eq!(error.error.reason.as_str(), "invalid");
        assert_eq!(error.details.len(), 1);
        assert_eq!(error.details[0].message, format!("{prefix}{detail}"));
    }
}

#[test]
fn bad_records_are_skipped_up_to_the_limit() {
    let text = "1\nx\n2\ny\n";
    let columns = [("a", "INTEGER")];
    let loaded = given(text, &columns, json!({"maxBadRecords": 2})).unwrap();
    assert_eq!(json!(rows(&loaded)), json!([["1"], ["2"]]));
    assert_eq!((loaded.bad_records, loaded.errors.len()), (2, 2));
    let error = given(text, &columns, json!({"maxBadRecords": "1"})).unwrap_err();
    assert!(
        error
            .error
            .message
            .contains("Rows: 4; errors: 2; max bad: 1"),
        "{error:?}"
    );
}

#[test]
fn rows_of_other_widths() {
    let columns = [("a", "INTEGER"), ("b", "STRING")];
    let short = given("1\n", &columns, json!({})).unwrap_err();
    assert!(
        short.details[0]
            .message
            .contains("line contains only 1 columns"),
        "{short:?}"
    );
    let jagged = given("1\n", &columns, json!({"allowJaggedRows": true})).unwrap();
    assert_eq!(json!(rows(&jagged)), json!([["1", null]]));
    let long = given("1,x,2\n", &columns, json!({})).unwrap_err();
    assert!(
        long.details[0]
            .message
            .contains("Found 3 column(s) while expected 2"),
        "{long:?}"
    );
    let cut = given("1,x,2\n", &columns, json!({"ignoreUnknownValues": true})).unwrap();
    assert_eq!(json!(rows(&cut)), json!([["1", "x"]]));
    let required = given(
        "x\n",
        &[("a", "STRING"), ("b", "STRING!")],
        json!({"allowJaggedRows": true}),
    );
    assert!(
        required.unwrap_err().details[0]
            .message
            .contains("Required column value is missing")
    );
}

#[test]
fn null_markers_replace_the_empty_text() {
    let columns = [("a", "INTEGER"), ("b", "STRING")];
    let marked = given("N,N\n1,\n", &columns, json!({"nullMarker": "N"})).unwrap();
    assert_eq!(json!(rows(&marked)), json!([[null, null], ["1", ""]]));
    assert!(given(",x\n", &columns, json!({"nullMarker": "N"})).is_err());
    let several = given("N,-\n", &columns, json!({"nullMarkers": ["N", "-"]})).unwrap();
    assert_eq!(json!(rows(&several)), json!([[null, null]]));
    assert!(
        given(
            "",
            &columns,
            json!({"nullMarker": "N", "nullMarkers": ["M"]})
        )
        .is_err()
    );
}

#[test]
fn other_separators_quotes_and_headers() {
    let columns = [("a", "INTEGER"), ("b", "STRING")];
    let tabs = given(
        "1\t'x\ty'\n",
        &columns,
        json!({"fieldDelimiter": "\\t", "quote": "'"}),
    )
    .unwrap();
    assert_eq!(json!(rows(&tabs)), json!([["1", "x\ty"]]));
    let named = given(
        "B,a\nx,1\n",
        &columns,
        json!({"sourceColumnMatch": "NAME", "skipLeadingRows": 1}),
    )
    .unwrap();
    assert_eq!(json!(rows(&named)), json!([["1", "x"]]));
    for bad in [
        json!({"fieldDelimiter": ",,"}),
        json!({"quote": "ab"}),
        json!({"sourceColumnMatch": "OTHER"}),
        json!({"dateFormat": "YYYY"}),
        json!({"encoding": "EBCDIC"}),
    ] {
        assert!(given("1,x\n", &columns, bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn columns_are_detected_with_and_without_a_header() {
    let (columns, values) = detected("id,name\n1,a\n2,b\n", json!({"skipLeadingRows": 1}));
    assert_eq!(columns, ["id INT64", "name STRING"]);
    assert_eq!(json!(values), json!([["1", "a"], ["2", "b"]]));

    let (columns, values) = detected("when|how much|\n2024-01-02|1.5|true\n", json!({}));
    assert_eq!(
        columns,
        ["when DATE", "how_much FLOAT64", "bool_field_2 BOOL"]
    );
    assert_eq!(values.len(), 1);

    let (columns, values) = detected("a,b\nc,d\n", json!({}));
    assert_eq!(columns, ["string_field_0 STRING", "string_field_1 STRING"]);
    assert_eq!(values.len(), 2);

    let (columns, _) = detected(
        "1,2024-01-02 03:04:05,12:30:00\n",
        json!({"skipLeadingRows": 0}),
    );
    assert_eq!(
        columns,
        [
            "int64_field_0 INT64",
            "timestamp_field_1 TIMESTAMP",
            "time_field_2 TIME"
        ]
    );
}
