//! Values that are written (M), and MERGE (D04).

use datafusion::prelude::SessionContext;

use crate::harness::{Server, plan, refused, rows, run, text, write_metric};

async fn table(columns: &str) -> Server {
    let server = Server::with_dataset().await;
    server.query(&format!("CREATE TABLE d.t ({columns})")).await;
    server
}

async fn stored(context: &SessionContext, columns: &str) -> Vec<String> {
    let found = text(
        context,
        &format!("SELECT {columns} FROM bq.d.t ORDER BY id"),
    )
    .await;
    let lines = found.lines().skip(3).filter(|line| line.starts_with('|'));
    lines
        .map(|line| line.trim_matches(['|', ' ']).to_string())
        .collect()
}

/// A time that is text, with any number of digits, is the time that it says, and what
/// was acknowledged is there.
#[tokio::test(flavor = "multi_thread")]
async fn m02_m03_text_that_is_a_time_arrives_as_that_time() {
    for format in ["proto", "arrow"] {
        let server = table("id INT64, ts TIMESTAMP, dt DATETIME, d DATE").await;
        let context = server.session_saying([("sink.format", format)]);
        let insert = plan(
            &context,
            "INSERT INTO bq.d.t VALUES \
             (1, '2022-07-28 03:16:24.944', '2022-07-28 03:16:24.944', '2022-07-28'), \
             (2, '2022-07-28 03:16:47.84', '2022-07-28 03:16:47.84', '1969-12-31'), \
             (3, '2022-07-28 03:16:47', '2022-07-28 03:16:47', '0001-01-01')",
        )
        .await;
        run(&context, &insert).await;
        assert_eq!(write_metric(&insert, "rows_written"), 3);
        let found = stored(&context, "CAST(ts AS BIGINT) AS ts, dt, d").await;
        let squeezed: Vec<String> = found
            .iter()
            .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            squeezed,
            [
                "1658978184944000 | 2022-07-28T03:16:24.944 | 2022-07-28",
                "1658978207840000 | 2022-07-28T03:16:47.840 | 1969-12-31",
                "1658978207000000 | 2022-07-28T03:16:47 | 0001-01-01",
            ],
            "{format}"
        );
    }
}

/// More digits than BigQuery keeps are refused, and never rounded by it.
#[tokio::test(flavor = "multi_thread")]
async fn m14_digits_that_would_be_rounded_are_refused() {
    let server = table("id INT64, num NUMERIC, big BIGNUMERIC").await;
    let context = server.session(1);
    let fine = |digits: usize| format!("0.{}1", "0".repeat(digits - 1));
    for (column, digits, scale) in [("num", 10, 10), ("big", 39, 39)] {
        let value = format!("arrow_cast('{}', 'Decimal256(76, {scale})')", fine(digits));
        let insert = format!("INSERT INTO bq.d.t (id, {column}) SELECT 1, {value}");
        refused(&context, &insert, &[&format!("'{column}'")]).await;
    }
    let kept = format!(
        "INSERT INTO bq.d.t SELECT 2, arrow_cast('{}', 'Decimal256(76, 9)'), \
         arrow_cast('{}', 'Decimal256(76, 38)')",
        fine(9),
        fine(38)
    );
    rows(&context, &kept).await;
    let found = stored(&context, "num, big").await;
    let squeezed = found[0].split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        (found.len(), squeezed),
        (1, format!("{} | {}", fine(9), fine(38)))
    );
}

/// The descriptor of rows has the types of all its fields in it, at any depth.
#[tokio::test(flavor = "multi_thread")]
async fn m17_nested_types_describe_themselves() {
    let server =
        table("id INT64, s STRUCT<a STRUCT<b ARRAY<STRUCT<c INT64, at TIMESTAMP>>>>").await;
    let context = server.session_saying([("sink.format", "proto")]);
    rows(
        &context,
        "INSERT INTO bq.d.t SELECT 1, named_struct('a', named_struct('b', [named_struct('c', 7, \
         'at', TIMESTAMP '2024-05-01T00:00:00Z')]))",
    )
    .await;
    let found = stored(
        &context,
        "s['a']['b'][1]['c'] AS c, CAST(s['a']['b'][1]['at'] AS BIGINT)",
    )
    .await;
    let squeezed = found[0].split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed, "7 | 1714521600000000");
}

/// Columns may be called what a MERGE calls its two sides.
#[tokio::test(flavor = "multi_thread")]
async fn d04_a_merge_of_columns_called_target_and_source() {
    let server =
        table("id INT64 NOT NULL, target STRING, source STRING, PRIMARY KEY (id) NOT ENFORCED")
            .await;
    let context = server.session(1);
    rows(
        &context,
        "CREATE EXTERNAL TABLE target STORED AS BIGQUERY LOCATION 'demo.d.t' \
         OPTIONS ('sink.cdc.enabled' 'true')",
    )
    .await;
    rows(
        &context,
        "INSERT INTO target (id, target, source) VALUES (1, 'old', 'old')",
    )
    .await;
    rows(
        &context,
        "CREATE TABLE source AS SELECT column1 AS id, column2 AS target, column3 AS source \
         FROM (VALUES (1, 't', 's'), (2, 'u', 'v'))",
    )
    .await;
    rows(
        &context,
        "MERGE INTO target USING source ON target.id = source.id \
         WHEN MATCHED THEN UPDATE SET target = source.target, source = source.source \
         WHEN NOT MATCHED THEN INSERT (id, target, source) \
         VALUES (source.id, source.target, source.source)",
    )
    .await;
    let found = stored(&context, "id, target, source").await;
    let squeezed: Vec<String> = found
        .iter()
        .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(squeezed, ["1 | t | s", "2 | u | v"]);
}
