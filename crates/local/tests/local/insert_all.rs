use serde_json::{Value, json};

use crate::harness::Local;

const INSERT: &str = "datasets/d/tables/t/insertAll";
const DATA: &str = "datasets/d/tables/t/data";

#[tokio::test]
async fn invalid_rows_stop_the_others() {
    let local = Local::with_dataset().await;
    local
        .table(json!([{"name": "n", "type": "INTEGER"}, {"name": "q", "type": "STRING", "mode": "REQUIRED"}]))
        .await;
    let body = json!({"rows": [
        {"json": {"n": 1, "q": "x"}}, {"json": {"zzz": 1}}, {"json": {"n": "not-a-number", "q": "x"}}, {"json": {"n": 1}}, {}]});
    let answer = local.post(INSERT, body.clone()).await.ok();
    let error = |index: usize, reason: &str, location: &str, message: &str| json!({"index": index, "errors": [{"reason": reason, "location": location, "debugInfo": "", "message": message}]});
    let missing = "Missing required field: Msg_0_CLOUD_QUERY_TABLE.q.";
    let invalid = [
        error(1, "invalid", "zzz", "no such field: zzz."),
        error(
            2,
            "invalid",
            "n",
            "Cannot convert value to integer (bad value): not-a-number",
        ),
        error(3, "invalid", "q", missing),
        error(4, "invalid", "q", missing),
    ];
    assert_eq!(answer["kind"], "bigquery#tableDataInsertAllResponse");
    let mut want = vec![error(0, "stopped", "", "")];
    want.extend(invalid.clone());
    assert_eq!(answer["insertErrors"], Value::Array(want));
    assert_eq!(local.get(DATA).await.ok()["totalRows"], "0");

    let mut skipping = body;
    skipping["skipInvalidRows"] = json!(true);
    let answer = local.post(INSERT, skipping.clone()).await.ok();
    assert_eq!(answer["insertErrors"], Value::Array(invalid.to_vec()));
    assert_eq!(local.first_column(DATA).await, ["1"]);
    skipping["ignoreUnknownValues"] = json!(true);
    skipping["rows"] = json!([{"json": {"n": 2, "q": "y", "zzz": {}}}]);
    assert_eq!(
        local.post(INSERT, skipping).await.ok(),
        json!({"kind": "bigquery#tableDataInsertAllResponse"})
    );
    assert_eq!(local.first_column(DATA).await, ["1", "2"]);
}

#[tokio::test]
async fn repeated_insert_ids_are_dropped() {
    let local = Local::with_dataset().await;
    local.table(json!([{"name": "n", "type": "INTEGER"}])).await;
    let rows = json!({"rows": [{"insertId": "a", "json": {"n": 1}}, {"insertId": "b", "json": {"n": 2}}, {"json": {"n": 3}}]});
    for _ in 0..2 {
        let answer = local.post(INSERT, rows.clone()).await.ok();
        assert_eq!(answer["insertErrors"], Value::Null);
    }
    assert_eq!(local.first_column(DATA).await, ["1", "2", "3", "3"]);
    // A row that was refused is not remembered.
    let bad = json!({"rows": [{"insertId": "c", "json": {"n": "x"}}]});
    assert!(local.post(INSERT, bad).await.ok()["insertErrors"].is_array());
    let good =
        json!({"rows": [{"insertId": "c", "json": {"n": 4}}, {"insertId": "c", "json": {"n": 5}}]});
    local.post(INSERT, good).await.ok();
    assert_eq!(local.first_column(DATA).await, ["1", "2", "3", "3", "4"]);
    // A new table has seen nothing.
    local.delete("datasets/d/tables/t").await.ok();
    local.table(json!([{"name": "n", "type": "INTEGER"}])).await;
    local.post(INSERT, rows).await.ok();
    assert_eq!(local.first_column(DATA).await, ["1", "2", "3"]);
}

#[tokio::test]
async fn template_tables_are_made() {
    let local = Local::with_dataset().await;
    local
        .table_with(json!({"schema": {"fields": [{"name": "n", "type": "INTEGER"}]}, "clustering": {"fields": ["n"]}}))
        .await;
    for n in [7, 8] {
        local
            .post(
                INSERT,
                json!({"templateSuffix": "_v1", "rows": [{"json": {"n": n}}]}),
            )
            .await
            .ok();
    }
    assert_eq!(
        local.first_column("datasets/d/tables/t_v1/data").await,
        ["7", "8"]
    );
    assert_eq!(
        local.get("datasets/d/tables/t_v1").await.ok()["clustering"],
        json!({"fields": ["n"]})
    );
    assert!(local.first_column(DATA).await.is_empty());
    local
        .post(
            INSERT,
            json!({"templateSuffix": "a.b", "rows": [{"json": {}}]}),
        )
        .await
        .error(400, "invalid");
}

#[tokio::test]
async fn partition_decorators() {
    let local = Local::with_dataset().await;
    local
        .table_with(json!({"schema": {"fields": [{"name": "n", "type": "INTEGER"}]}, "timePartitioning": {"type": "DAY"}}))
        .await;
    let day = |offset: i64| {
        let micros = bigquery_local::store::micros_now() + offset * 86_400_000_000;
        bigquery_local::store::Granularity::Day.id(micros)
    };
    local.insert(&[json!({"n": 0})]).await;
    let rows = |n: i64| json!({"rows": [{"json": {"n": n}}]});
    local
        .post(
            &format!("datasets/d/tables/t${}/insertAll", day(-3)),
            rows(1),
        )
        .await
        .ok();
    assert_eq!(
        local
            .first_column(&format!("datasets/d/tables/t${}/data", day(-3)))
            .await,
        ["1"]
    );
    assert_eq!(
        local
            .first_column(&format!("datasets/d/tables/t${}/data", day(0)))
            .await,
        ["0"]
    );
    for offset in [-40, 20] {
        let message = local
            .post(
                &format!("datasets/d/tables/t${}/insertAll", day(offset)),
                rows(1),
            )
            .await
            .error(400, "invalid");
        assert!(message.contains("outside the allowed bounds"), "{message}");
    }
    assert_eq!(
        local
            .delete(&format!("datasets/d/tables/t${}", day(-3)))
            .await
            .status,
        204
    );
    assert_eq!(local.first_column(DATA).await, ["0"]);
}

#[tokio::test]
async fn requests_that_are_refused_whole() {
    let local = Local::with_dataset().await;
    local.table(json!([{"name": "n", "type": "INTEGER"}])).await;
    let message = local
        .post(INSERT, json!({"rows": []}))
        .await
        .error(400, "invalid");
    assert_eq!(message, "No rows present in the request.");
    local.post(INSERT, json!({})).await.error(400, "invalid");
    local
        .post(INSERT, json!({"rows": {"json": {}}}))
        .await
        .error(400, "invalid");
    let many: Vec<Value> = (0..50_001).map(|_| json!({"json": {}})).collect();
    local
        .post(INSERT, json!({"rows": many}))
        .await
        .error(400, "invalid");
    local
        .post(
            "datasets/d/tables/nope/insertAll",
            json!({"rows": [{"json": {}}]}),
        )
        .await
        .error(404, "notFound");
}

#[tokio::test]
async fn defaults_fill_what_rows_leave_out() {
    let local = Local::with_dataset().await;
    local
        .table(json!([
            {"name": "n", "type": "INTEGER", "defaultValueExpression": "40 + 2"},
            {"name": "ts", "type": "TIMESTAMP", "defaultValueExpression": "CURRENT_TIMESTAMP()"},
            {"name": "l", "type": "STRING", "mode": "REPEATED", "defaultValueExpression": "['a', 'b']"}]))
        .await;
    let before = bigquery_local::store::micros_now();
    local
        .insert(&[json!({}), json!({"N": 7}), json!({"n": null, "l": []})])
        .await;
    let answer = local
        .get(&format!("{DATA}?formatOptions.useInt64Timestamp=true"))
        .await
        .ok();
    let cell = |row: usize, column: usize| answer["rows"][row]["f"][column]["v"].clone();
    assert_eq!(cell(0, 0), "42");
    assert_eq!(cell(1, 0), "7");
    assert_eq!(cell(2, 0), Value::Null);
    let filled: i64 = cell(0, 1).as_str().unwrap().parse().unwrap();
    assert!((before..before + 60_000_000).contains(&filled));
    assert_eq!(cell(0, 2), json!([{"v": "a"}, {"v": "b"}]));
    assert_eq!(cell(2, 2), json!([]));
}
