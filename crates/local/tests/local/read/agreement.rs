//! A restriction and the WHERE of a query are the same language, and this server
//! has two evaluators of it. Where both answer, they must answer the same rows.

use serde_json::json;

use super::*;
use crate::harness::Local;

const OPERANDS: [&[&str]; 9] = [
    &[
        "i",
        "k",
        "1",
        "-3",
        "0",
        "NULL",
        "9223372036854775807",
        "MOD(k, 7)",
        "ABS(k)",
    ],
    &[
        "f",
        "1.5",
        "0.0",
        "-0.0",
        "CAST('nan' AS FLOAT64)",
        "CAST(i AS FLOAT64)",
        "NULL",
    ],
    &[
        "s",
        "'abc'",
        "''",
        "LOWER(s)",
        "SUBSTR(s, 2)",
        "CONCAT(s, 'x')",
        "NULL",
        "'a%'",
    ],
    &["y", "b'\\x00'", "b''", "b'abc'"],
    &["n", "1.5", "1", "NUMERIC '-0.01'", "n * 2", "i", "NULL"],
    &[
        "d",
        "DATE '2024-02-29'",
        "'2024-01-01'",
        "DATE_TRUNC(d, MONTH)",
        "DATE(ts)",
        "NULL",
    ],
    &[
        "ts",
        "TIMESTAMP '2024-02-29 12:34:56.789Z'",
        "'2024-03-01 00:00:00+01:00'",
        "TIMESTAMP(dt)",
    ],
    &[
        "dt",
        "DATETIME '2024-02-29 12:34:56.789'",
        "d",
        "'2024-01-01'",
        "DATETIME(ts)",
    ],
    &["b", "TRUE", "FALSE", "NULL", "(i = 1)", "(s IS NULL)"],
];

const PREDICATES: [&str; 36] = [
    "i IN (1, 2, NULL)",
    "i NOT IN (1, 2)",
    "i NOT IN (1, NULL)",
    "s IN ('abc', '')",
    "i BETWEEN 0 AND 5",
    "NOT (i BETWEEN 0 AND 5)",
    "s LIKE 'a%'",
    "s LIKE '%_%'",
    r"s LIKE r'50\%%'",
    "s NOT LIKE '%b%'",
    "i IS NULL OR f > 1",
    "i IS NULL AND NOT b",
    "NOT b OR i = 1",
    "b IS NOT TRUE",
    "b IS FALSE",
    "i IS DISTINCT FROM 1",
    "i IS NOT DISTINCT FROM NULL",
    "st.x = 7",
    "st.x IS NULL",
    "STARTS_WITH(s, 'a')",
    "ENDS_WITH(s, 'c')",
    "REGEXP_CONTAINS(s, r'^a.c$')",
    "LENGTH(s) = 3",
    "IF(b, i, k) > 5",
    "CASE WHEN i = 1 THEN 'x' WHEN k > 15 THEN 'y' END = 'y'",
    "COALESCE(i, k) > 3",
    "NULLIF(k, 10) IS NULL",
    "k / 4 = 2.5",
    "DIV(k, 3) = 3",
    "EXTRACT(YEAR FROM d) = 2024",
    "EXTRACT(DAYOFWEEK FROM ts) = 5",
    "DATE_ADD(d, INTERVAL 1 MONTH) > '2024-03-01'",
    "TIMESTAMP_TRUNC(ts, HOUR) = '2024-02-29 12:00:00+00'",
    "SAFE_CAST(s AS INT64) IS NULL",
    "CAST(k AS STRING) = '20'",
    "2 IN UNNEST(a)",
];

async fn queried(local: &Local, condition: &str) -> Result<Vec<i64>, String> {
    let sql = format!("SELECT k FROM d.t WHERE {condition} ORDER BY k");
    let answer = local
        .post("queries", json!({"query": sql, "useLegacySql": false}))
        .await;
    if answer.status != 200 {
        return Err(answer.body["error"]["message"].to_string());
    }
    let rows = answer.body["rows"].as_array().cloned().unwrap_or_default();
    Ok(rows
        .iter()
        .map(|row| row["f"][0]["v"].as_str().unwrap().parse().unwrap())
        .collect())
}

async fn read(reader: &Reader, condition: &str) -> Result<Vec<i64>, String> {
    let mut request = selecting(&["k"]);
    session_of(&mut request)
        .read_options
        .as_mut()
        .unwrap()
        .row_restriction = condition.into();
    let session = reader
        .try_session(request)
        .await
        .map_err(|e| e.message().to_string())?;
    let mut rows = Vec::new();
    for stream in &session.streams {
        let messages = reader
            .try_read(&stream.name, 0)
            .await
            .map_err(|e| e.message().to_string())?;
        for message in messages {
            rows.extend(numbers(&batch(&session, &message)));
        }
    }
    rows.sort_unstable();
    Ok(rows)
}

#[tokio::test]
async fn both_evaluators_answer_the_same() {
    let (local, reader) = start(64 << 20).await;
    local
        .table(json!([
            {"name": "k", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "i", "type": "INTEGER"}, {"name": "f", "type": "FLOAT"},
            {"name": "b", "type": "BOOLEAN"}, {"name": "s", "type": "STRING"},
            {"name": "y", "type": "BYTES"}, {"name": "n", "type": "NUMERIC"},
            {"name": "d", "type": "DATE"}, {"name": "dt", "type": "DATETIME"},
            {"name": "ts", "type": "TIMESTAMP"},
            {"name": "st", "type": "RECORD", "fields": [{"name": "x", "type": "INTEGER"}]},
            {"name": "a", "type": "INTEGER", "mode": "REPEATED"},
        ]))
        .await;
    local
        .insert(&[
            json!({"k": 10, "i": 1, "f": 1.5, "b": true, "s": "abc", "y": "AP8=", "n": "1.5", "d": "2024-02-29",
                   "dt": "2024-02-29 12:34:56.789", "ts": "2024-02-29 12:34:56.789 UTC", "st": {"x": 7}, "a": [1, 2]}),
            json!({"k": 20, "i": -3, "f": "NaN", "b": false, "s": "50% off", "y": "", "n": "-0.01", "d": "1969-12-31",
                   "dt": "2024-01-01 00:00:00", "ts": "1969-12-31 23:59:59.999999 UTC", "st": {}, "a": []}),
            json!({"k": 30}),
            json!({"k": 40, "i": 0, "f": -0.0, "b": true, "s": "", "y": "YWJj", "n": "3", "d": "2024-01-01",
                   "dt": "2024-02-29 00:00:00", "ts": "2024-02-29 23:00:00 UTC", "st": {"x": -1}, "a": [3]}),
        ])
        .await;
    let mut conditions: Vec<String> = PREDICATES.iter().map(ToString::to_string).collect();
    for operands in OPERANDS {
        for (n, left) in operands.iter().enumerate() {
            for (m, right) in operands.iter().enumerate() {
                if (*left, *right) == ("NULL", "NULL") {
                    continue;
                }
                let operator = ["=", "!=", "<", "<=", ">", ">="][(n * 5 + m) % 6];
                conditions.push(format!("{left} {operator} {right}"));
                if (n + m) % 3 == 0 {
                    conditions.push(format!("NOT ({left} < {right}) OR k = 30"));
                }
            }
        }
    }
    let (mut same, mut wrong) = (0, Vec::new());
    for condition in &conditions {
        match (
            read(&reader, condition).await,
            queried(&local, condition).await,
        ) {
            (Ok(a), Ok(b)) if a == b => same += 1,
            (Ok(a), Ok(b)) => wrong.push(format!("{condition}: restriction {a:?}, query {b:?}")),
            (Err(_), Err(_)) => {}
            // One of them may lack a feature, and says so.
            (Err(e), Ok(_)) | (Ok(_), Err(e)) if e.contains("not supported by bigquery-local") => {}
            (Err(a), Ok(b)) => wrong.push(format!("{condition}: restriction {a}, query {b:?}")),
            (Ok(a), Err(b)) => wrong.push(format!("{condition}: restriction {a:?}, query {b}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\n{same} are the same",
        wrong.join("\n")
    );
    assert!(
        same > 250,
        "only {same} of {} were compared",
        conditions.len()
    );
}
