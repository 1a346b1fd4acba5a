use serde_json::{Value, json};

use crate::harness::Local;

const DATA: &str = "datasets/d/tables/t/data";

fn text(n: i64) -> String {
    n.to_string()
}

#[tokio::test]
async fn pages_and_selections() {
    let local = Local::with_dataset().await;
    local
        .table(json!([
            {"name": "a", "type": "INTEGER"},
            {"name": "b", "type": "STRING"},
            {"name": "r", "type": "RECORD", "mode": "REPEATED", "fields": [{"name": "x", "type": "INTEGER"}, {"name": "y", "type": "INTEGER"}]}]))
        .await;
    let empty = local.get(DATA).await.ok();
    assert_eq!(
        (&empty["kind"], &empty["totalRows"], &empty["rows"]),
        (&json!("bigquery#tableDataList"), &json!("0"), &Value::Null)
    );
    for chunk in [0..10, 10..11, 11..25] {
        let rows: Vec<Value> = chunk
            .map(|i| json!({"a": i, "b": format!("s{i}"), "r": [{"x": i, "y": -i}]}))
            .collect();
        local.insert(&rows).await;
    }
    let first = local.get(&format!("{DATA}?maxResults=7")).await.ok();
    assert_eq!(first["totalRows"], "25");
    assert_eq!(first["rows"].as_array().unwrap().len(), 7);
    let token = first["pageToken"].as_str().unwrap().to_string();
    // Rows that arrive between two pages are on neither.
    local.insert(&[json!({"a": 99})]).await;
    let mut seen: Vec<String> = (0..7).map(text).collect();
    let mut token = Some(token);
    while let Some(next) = token {
        let page = local
            .get(&format!("{DATA}?maxResults=7&pageToken={next}"))
            .await
            .ok();
        assert_eq!(page["totalRows"], "25");
        for row in page["rows"].as_array().unwrap() {
            seen.push(row["f"][0]["v"].as_str().unwrap().to_string());
        }
        token = page["pageToken"].as_str().map(str::to_string);
    }
    assert_eq!(seen, (0..25).map(text).collect::<Vec<_>>());
    assert_eq!(
        local.first_column(&format!("{DATA}?startIndex=23")).await,
        ["23", "24", "99"]
    );
    assert!(
        local
            .first_column(&format!("{DATA}?startIndex=1000"))
            .await
            .is_empty()
    );
    let none = local.get(&format!("{DATA}?maxResults=0")).await.ok();
    assert_eq!(
        (&none["rows"], &none["totalRows"]),
        (&Value::Null, &json!("26"))
    );
    let selected = local
        .get(&format!(
            "{DATA}?selectedFields=r.y,b&startIndex=3&maxResults=1"
        ))
        .await
        .ok();
    assert_eq!(
        selected["rows"],
        json!([{"f": [{"v": "s3"}, {"v": [{"v": {"f": [{"v": "-3"}]}}]}]}])
    );
    local
        .get(&format!("{DATA}?selectedFields=nope"))
        .await
        .error(400, "invalid");
    local
        .get(&format!("{DATA}?pageToken=nope"))
        .await
        .error(400, "invalid");
    local
        .get("datasets/d/tables/nope/data")
        .await
        .error(404, "notFound");
    // A token of a table that was replaced is of no use.
    let token = first["pageToken"].as_str().unwrap();
    local.delete("datasets/d/tables/t").await.ok();
    local.table(json!([{"name": "a", "type": "INTEGER"}])).await;
    local
        .get(&format!("{DATA}?pageToken={token}"))
        .await
        .error(400, "invalid");
}

#[tokio::test]
async fn timestamps_in_every_form() {
    let local = Local::with_dataset().await;
    local
        .table(json!([{"name": "ts", "type": "TIMESTAMP"}]))
        .await;
    local
        .insert(&[
            json!({"ts": "2024-01-02 03:04:05.123456 UTC"}),
            json!({"ts": 0}),
            json!({"ts": 1.5e9}),
        ])
        .await;
    for (query, want) in [
        ("", ["1704164645.123456", "0.0", "1500000000.0"]),
        (
            "?formatOptions.useInt64Timestamp=true",
            ["1704164645123456", "0", "1500000000000000"],
        ),
        (
            "?formatOptions.timestampOutputFormat=INT64",
            ["1704164645123456", "0", "1500000000000000"],
        ),
        (
            "?formatOptions.timestampOutputFormat=ISO8601_STRING",
            [
                "2024-01-02T03:04:05.123456000000Z",
                "1970-01-01T00:00:00.000000000000Z",
                "2017-07-14T02:40:00.000000000000Z",
            ],
        ),
    ] {
        assert_eq!(
            local.first_column(&format!("{DATA}{query}")).await,
            want,
            "{query}"
        );
    }
    local
        .get(&format!("{DATA}?formatOptions.timestampOutputFormat=X"))
        .await
        .error(400, "invalid");
}

#[tokio::test]
async fn partitions_list_and_delete() {
    let local = Local::with_dataset().await;
    local
        .table_with(json!({"schema": {"fields": [{"name": "d", "type": "DATE"}]}, "timePartitioning": {"type": "MONTH", "field": "d"}}))
        .await;
    local
        .insert(&[
            json!({"d": "2024-01-31"}),
            json!({"d": "2024-02-01"}),
            json!({"d": null}),
            json!({"d": "2024-02-29"}),
        ])
        .await;
    let of = async |id: &str| {
        local
            .first_column(&format!("datasets/d/tables/t${id}/data"))
            .await
    };
    assert_eq!(of("202402").await, ["2024-02-01", "2024-02-29"]);
    assert_eq!(of("__NULL__").await, ["NULL"]);
    assert!(of("202403").await.is_empty());
    local
        .get("datasets/d/tables/t$20240201/data")
        .await
        .error(400, "invalid");
    assert_eq!(local.delete("datasets/d/tables/t$202402").await.status, 204);
    assert_eq!(local.first_column(DATA).await, ["2024-01-31", "NULL"]);
}

#[tokio::test]
async fn a_hundred_thousand_rows_arrive() {
    let local = Local::with_dataset().await;
    local.table(json!([{"name": "a", "type": "INTEGER"}])).await;
    for chunk in 0..2 {
        let rows: Vec<Value> = (0..50_000)
            .map(|i| json!({"a": chunk * 50_000 + i}))
            .collect();
        local.insert(&rows).await;
    }
    let all = local.first_column(DATA).await;
    assert_eq!(all.len(), 100_000);
    assert!(all.iter().enumerate().all(|(i, v)| *v == i.to_string()));
    let table = local.get("datasets/d/tables/t").await.ok();
    assert_eq!(
        (&table["numRows"], &table["numBytes"]),
        (&json!("100000"), &json!("800000"))
    );
}

#[tokio::test]
async fn expired_partitions_are_removed() {
    let local = Local::with_dataset().await;
    let day = 86_400_000_000;
    let today = bigquery_local::store::micros_now() / day * day;
    let text = |micros| {
        let mut text = String::new();
        bigquery_local::value::civil::write_date(
            bigquery_local::value::civil::days_of(micros),
            &mut text,
        );
        text
    };
    let keep_three_days = json!((3_i64 * 86_400_000).to_string());
    local
        .table_with(
            json!({"schema": {"fields": [{"name": "d", "type": "DATE"}]},
            "timePartitioning": {"type": "DAY", "field": "d", "expirationMs": keep_three_days}}),
        )
        .await;
    let (old, new) = (text(today - 3 * day), text(today - 2 * day));
    local
        .insert(&[
            json!({"d": old}),
            json!({"d": null}),
            json!({"d": new}),
            json!({"d": "1970-01-01"}),
        ])
        .await;
    let store = &local.server.service().store;
    // Once to remove, once to find nothing left.
    store.expire_partitions().unwrap();
    assert_eq!(local.first_column(DATA).await, ["NULL", new.as_str()]);
    let version = local.get("datasets/d/tables/t").await.ok();
    store.expire_partitions().unwrap();
    assert_eq!(local.get("datasets/d/tables/t").await.ok(), version);

    local.delete("datasets/d/tables/t").await.ok();
    local
        .table_with(
            json!({"schema": {"fields": [{"name": "n", "type": "INTEGER"}]},
            "timePartitioning": {"type": "DAY", "expirationMs": keep_three_days}}),
        )
        .await;
    for (n, age) in [(1, 3), (2, 2), (3, 10)] {
        let id = bigquery_local::store::Granularity::Day.id(today - age * day);
        let rows = json!({"rows": [{"json": {"n": n}}]});
        local
            .post(&format!("datasets/d/tables/t${id}/insertAll"), rows)
            .await
            .ok();
    }
    store.expire_partitions().unwrap();
    assert_eq!(local.first_column(DATA).await, ["2"]);
}
