//! The language as a whole: truth tables, errors, and text of any kind.

mod any_text;
mod bounds;
mod language;
mod meaning;
mod refusals;

use arrow::array::{Array, BooleanArray, RecordBatch};
use serde_json::{Value, json};

use super::{PseudoColumns, Restriction};
use crate::error::Result;
use crate::schema::TableSchema;
use crate::value::build::JsonText;
use crate::value::{JsonRowsBuilder, UnknownFields};

/// A column of every type, some of them with parameters.
fn schema() -> TableSchema {
    serde_json::from_value(json!({"fields": [
        {"name": "i", "type": "INTEGER"},
        {"name": "k", "type": "INTEGER", "mode": "REQUIRED"},
        {"name": "f", "type": "FLOAT"},
        {"name": "b", "type": "BOOLEAN"},
        {"name": "s", "type": "STRING"},
        {"name": "ci", "type": "STRING", "collation": "und:ci"},
        {"name": "y", "type": "BYTES"},
        {"name": "n", "type": "NUMERIC"},
        {"name": "np", "type": "NUMERIC", "precision": "10", "scale": "2"},
        {"name": "bn", "type": "BIGNUMERIC"},
        {"name": "d", "type": "DATE"},
        {"name": "t", "type": "TIME"},
        {"name": "dt", "type": "DATETIME"},
        {"name": "ts", "type": "TIMESTAMP"},
        {"name": "j", "type": "JSON"},
        {"name": "g", "type": "GEOGRAPHY"},
        {"name": "iv", "type": "INTERVAL"},
        {"name": "r", "type": "RANGE", "rangeElementType": {"type": "DATE"}},
        {"name": "st", "type": "RECORD", "fields": [
            {"name": "x", "type": "INTEGER"},
            {"name": "in", "type": "RECORD", "fields": [{"name": "z", "type": "STRING"}]}]},
        {"name": "a", "type": "INTEGER", "mode": "REPEATED"},
        {"name": "order", "type": "INTEGER"},
    ]}))
    .unwrap()
}

/// Three rows: ordinary values, others at the edges, and NULL.
fn rows() -> Vec<Value> {
    vec![
        json!({
            "i": 1, "k": 10, "f": 1.5, "b": true, "s": "abc", "ci": "Straße", "y": "AP8=",
            "n": "1.5", "np": "1.5", "bn": "1.5", "d": "2024-02-29", "t": "12:34:56.789",
            "dt": "2024-02-29 12:34:56.789", "ts": "2024-02-29 12:34:56.789 UTC",
            "j": "{\"a\": [1, \"x\"]}", "g": "POINT(1 2)", "iv": "1-2 3 4:5:6",
            "r": "[2024-01-01, 2024-12-31)", "st": {"x": 7, "in": {"z": "q"}}, "a": [1, 2], "order": 5
        }),
        json!({
            "i": i64::MIN, "k": 20, "f": "NaN", "b": false, "s": "50%_\\\n'\"é", "ci": "STRASSE",
            "y": "", "n": "-99999999999999999999999999999.999999999", "np": "-0.01",
            "bn": "578960446186580977117854925043439539266.34992332820282019728792003956564819967",
            "d": "0001-01-01", "t": "00:00:00", "dt": "0001-01-01 00:00:00",
            "ts": "9999-12-31 23:59:59.999999 UTC", "j": "null", "g": "POINT(0 0)", "iv": "0-0 0 -0:0:0.5",
            "r": "[UNBOUNDED, 2024-01-01)", "st": {"x": null, "in": null}, "a": [], "order": -5
        }),
        json!({"k": 30}),
    ]
}

fn batch() -> RecordBatch {
    let mut builder = JsonRowsBuilder::new(&schema(), UnknownFields::Refuse, JsonText::Encoded);
    for row in rows() {
        builder.push(&row).unwrap();
    }
    builder.finish().unwrap()
}

/// The answers for the three rows: `T`, `F` or `N` each.
fn answers(mask: &BooleanArray) -> String {
    (0..mask.len())
        .map(|i| match mask.is_valid(i).then(|| mask.value(i)) {
            Some(true) => 'T',
            Some(false) => 'F',
            None => 'N',
        })
        .collect()
}

fn evaluate(text: &str) -> Result<String> {
    let restriction = Restriction::parse(text, &schema())?;
    restriction.evaluate(&batch()).map(|mask| answers(&mask))
}

/// Each restriction must give these answers.
#[track_caller]
fn check(cases: &[(&str, &str)]) {
    let batch = batch();
    let schema = schema();
    let mut wrong = Vec::new();
    for (text, want) in cases {
        let got = Restriction::parse(text, &schema)
            .and_then(|r| r.evaluate(&batch))
            .map(|mask| answers(&mask));
        match got {
            Ok(got) if got == *want => {}
            other => wrong.push(format!("{text}\n  want {want}, got {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each restriction must fail, when parsed or when evaluated, with this in the
/// message.
#[track_caller]
fn refuse(cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (text, want) in cases {
        match evaluate(text) {
            Err(e) if e.message.contains(want) && e.message.starts_with("request failed: ") => {}
            other => wrong.push(format!("{text}\n  want error {want:?}, got {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pseudo_columns_take_the_partition() {
    let schema = schema();
    let batch = batch();
    let midnight = 1_709_164_800_000_000; // 2024-02-29
    let answer = |text: &str, partition| {
        let restriction =
            Restriction::parse_with(text, &schema, PseudoColumns::TimeAndDate).unwrap();
        answers(&restriction.evaluate_in(&batch, partition).unwrap())
    };
    assert_eq!(
        answer("_PARTITIONDATE = '2024-02-29'", Some(midnight)),
        "TTT"
    );
    assert_eq!(
        answer("_partitiontime >= TIMESTAMP '2024-03-01'", Some(midnight)),
        "FFF"
    );
    assert_eq!(answer("_PARTITIONTIME IS NULL", None), "TTT");
    assert!(Restriction::parse("_PARTITIONTIME IS NULL", &schema).is_err());
    assert!(
        Restriction::parse_with("_PARTITIONDATE IS NULL", &schema, PseudoColumns::Time).is_err()
    );
}

#[test]
fn which_filters_narrow_partitions() {
    let schema = schema();
    let narrows = |text: &str, column: &str| {
        Restriction::parse_with(text, &schema, PseudoColumns::TimeAndDate)
            .unwrap()
            .narrows(column, &schema)
    };
    for text in [
        "d = '2024-01-01'",
        "DATE '2024-01-01' <= d AND i > 3",
        "d IN ('2024-01-01', '2024-01-02')",
        "d BETWEEN '2024-01-01' AND '2024-01-31'",
        "d IS NULL",
        "d IS NOT NULL",
        "d = '2024-01-01' OR d > '2025-01-01'",
        "DATE_TRUNC(d, MONTH) = '2024-01-01'",
        "CAST(d AS TIMESTAMP) > TIMESTAMP '2024-01-01'",
        "d > CURRENT_DATE",
        "d >= DATE_SUB(CURRENT_DATE(), INTERVAL 3 DAY)",
    ] {
        assert!(narrows(text, "d"), "{text}");
        assert!(!narrows(text, "dt"), "{text}");
    }
    for text in [
        "i = 1",
        "d = '2024-01-01' OR i = 1",
        "NOT d = '2024-01-01'",
        "d != '2024-01-01'",
        "EXTRACT(YEAR FROM d) = 2024",
        "d = DATE(dt)",
        "TRUE",
    ] {
        assert!(!narrows(text, "d"), "{text}");
    }
    assert!(narrows("_PARTITIONDATE > '2024-01-01'", "_PARTITIONDATE"));
}

#[test]
fn a_long_list_is_looked_up_by_hash() {
    let list: Vec<String> = (0..100_000).map(|i| (i * 7).to_string()).collect();
    let schema = schema();
    let restriction = Restriction::parse(&format!("k IN ({})", list.join(",")), &schema).unwrap();
    let many: Vec<RecordBatch> = std::iter::repeat_n(batch(), 2_000).collect();
    let many = arrow::compute::concat_batches(&many[0].schema(), &many).unwrap();
    let started = std::time::Instant::now();
    let mask = restriction.evaluate(&many).unwrap();
    assert_eq!(mask.true_count(), 0);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    let hit = Restriction::parse(&format!("k IN (20, {})", list.join(",")), &schema).unwrap();
    assert_eq!(answers(&hit.evaluate(&batch()).unwrap()), "FTF");
}

#[test]
fn empty_batches_and_sliced_ones() {
    let schema = schema();
    let batch = batch();
    let restriction = Restriction::parse("1 / (k - 10) > 0 AND st.x IS NULL", &schema).unwrap();
    assert_eq!(restriction.evaluate(&batch.slice(0, 0)).unwrap().len(), 0);
    let mask = restriction.evaluate(&batch.slice(1, 2)).unwrap();
    assert_eq!(answers(&mask), "TT");
    let of_list = Restriction::parse("2 IN UNNEST(a) OR s IS NULL", &schema).unwrap();
    assert_eq!(
        answers(&of_list.evaluate(&batch.slice(1, 2)).unwrap()),
        "FT"
    );
}
