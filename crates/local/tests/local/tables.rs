use std::time::Duration;

use bigquery_local::store::TableRef;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Local, PROJECT};

fn named(id: &str, mut resource: Value) -> Value {
    resource["tableReference"] = json!({"projectId": PROJECT, "datasetId": "d", "tableId": id});
    resource
}

#[tokio::test]
async fn every_type_and_mode_reads_back() {
    let local = Local::with_dataset().await;
    let fields = json!([
        {"name": "i", "type": "INT64", "mode": "REQUIRED", "description": "an integer"},
        {"name": "f", "type": "FLOAT64"},
        {"name": "b", "type": "BOOL", "mode": "NULLABLE"},
        {"name": "s", "type": "STRING", "maxLength": "10", "collation": "und:ci"},
        {"name": "y", "type": "BYTES", "maxLength": 5},
        {"name": "n", "type": "NUMERIC", "precision": "10", "scale": "2", "roundingMode": "ROUND_HALF_EVEN"},
        {"name": "bn", "type": "BIGNUMERIC", "mode": "REPEATED"},
        {"name": "d", "type": "DATE"},
        {"name": "t", "type": "TIME"},
        {"name": "dt", "type": "DATETIME"},
        {"name": "ts", "type": "TIMESTAMP", "defaultValueExpression": "CURRENT_TIMESTAMP()"},
        {"name": "g", "type": "GEOGRAPHY"},
        {"name": "j", "type": "JSON"},
        {"name": "iv", "type": "INTERVAL"},
        {"name": "r", "type": "RANGE", "rangeElementType": {"type": "DATETIME"}},
        {"name": "st", "type": "STRUCT", "mode": "REPEATED", "fields": [
            {"name": "x", "type": "INT64", "mode": "REQUIRED"},
            {"name": "y", "type": "STRUCT", "fields": [{"name": "z", "type": "FLOAT64"}]}]}
    ]);
    local.table(fields.clone()).await;
    let got = local.get("datasets/d/tables/t").await.ok();
    let mut want = fields;
    for (i, name) in [(0, "INTEGER"), (1, "FLOAT"), (2, "BOOLEAN"), (15, "RECORD")] {
        want[i]["type"] = json!(name);
    }
    want[4]["maxLength"] = json!("5");
    want[15]["fields"][0]["type"] = json!("INTEGER");
    want[15]["fields"][1]["type"] = json!("RECORD");
    want[15]["fields"][1]["fields"][0]["type"] = json!("FLOAT");
    assert_eq!(got["schema"]["fields"], want);
    assert_eq!(got["kind"], "bigquery#table");
    assert_eq!(got["id"], "local:d.t");
    assert_eq!(got["type"], "TABLE");
    assert_eq!(got["location"], "US");
    for key in [
        "numRows",
        "numBytes",
        "numLongTermBytes",
        "numTotalLogicalBytes",
    ] {
        assert_eq!(got[key], "0", "{key}");
    }
    let selected = local
        .get("datasets/d/tables/t?selectedFields=st.y,i")
        .await
        .ok();
    assert_eq!(selected["schema"]["fields"].as_array().unwrap().len(), 2);
    assert_eq!(selected["schema"]["fields"][1]["fields"][0]["name"], "y");
    assert_eq!(
        local.get("datasets/d/tables/t?view=BASIC").await.ok()["numRows"],
        Value::Null
    );
    local
        .get("datasets/d/tables/t?view=NO")
        .await
        .error(400, "invalid");
}

#[tokio::test]
async fn layouts_read_back() {
    let local = Local::with_dataset().await;
    let schema = json!({"fields": [
        {"name": "d", "type": "DATE"}, {"name": "k", "type": "STRING"},
        {"name": "i", "type": "INTEGER", "mode": "REQUIRED"}]});
    for (id, resource, column) in [
        (
            "by_day",
            json!({"timePartitioning": {"type": "DAY", "field": "d", "expirationMs": "864000000000"}, "clustering": {"fields": ["k", "i"]}, "requirePartitionFilter": true}),
            Some("d"),
        ),
        (
            "by_arrival",
            json!({"timePartitioning": {"type": "HOUR"}}),
            Some("_PARTITIONTIME"),
        ),
        (
            "by_range",
            json!({"rangePartitioning": {"field": "i", "range": {"start": "0", "end": "100", "interval": "10"}}}),
            Some("i"),
        ),
        (
            "with_key",
            json!({"tableConstraints": {"primaryKey": {"columns": ["i"]}, "foreignKeys": [{"name": "fk", "referencedTable": {"projectId": PROJECT, "datasetId": "d", "tableId": "x"}, "columnReferences": [{"referencingColumn": "k", "referencedColumn": "k"}]}]}}),
            None,
        ),
        (
            "plain",
            json!({"labels": {"a": "b"}, "description": "D", "friendlyName": "F", "expirationTime": "4102444800000"}),
            None,
        ),
    ] {
        let mut body = named(id, resource.clone());
        body["schema"] = schema.clone();
        // Accepted and dropped: only DDL sets it.
        body["maxStaleness"] = json!("0-0 0 0:10:0");
        let made = local.post("datasets/d/tables", body).await.ok();
        let got = local.get(&format!("datasets/d/tables/{id}")).await.ok();
        assert_eq!(made, got);
        for (key, value) in resource.as_object().unwrap() {
            assert_eq!(got[key], *value, "{id}.{key}");
        }
        assert_eq!(got["maxStaleness"], Value::Null);
        let definition = column.map_or(
            Value::Null,
            |c| json!({"partitionedColumn": [{"field": c}]}),
        );
        assert_eq!(got["partitionDefinition"], definition, "{id}");
    }
    let list = local.get("datasets/d/tables").await.ok();
    assert_eq!(list["totalItems"], 5);
    assert_eq!(list["tables"][1]["tableReference"]["tableId"], "by_day");
    assert_eq!(
        list["tables"][1]["clustering"],
        json!({"fields": ["k", "i"]})
    );
    assert_eq!(list["tables"][1]["schema"], Value::Null);
    assert_eq!(list["tables"][3]["labels"], json!({"a": "b"}));
}

#[tokio::test]
async fn bad_definitions_are_refused() {
    let local = Local::with_dataset().await;
    let columns = json!({"fields": [{"name": "s", "type": "STRING"}, {"name": "d", "type": "DATE"}, {"name": "i", "type": "INTEGER"}]});
    for (resource, words) in [
        (
            json!({"schema": {"fields": [{"name": "a", "type": "FOO"}]}}),
            "Invalid value for type: FOO is not a valid value",
        ),
        (
            json!({"schema": {"fields": [{"name": "a", "type": "STRING", "mode": "SOMETIMES"}]}}),
            "Invalid value for mode: SOMETIMES",
        ),
        (
            json!({"schema": {"fields": [{"name": "a", "type": "RECORD"}]}}),
            "Field a is type RECORD but has no schema",
        ),
        (
            json!({"schema": {"fields": [{"name": "a", "type": "RANGE"}]}}),
            "rangeElementType",
        ),
        (
            json!({"schema": {"fields": [{"name": "a", "type": "STRING"}, {"name": "A", "type": "STRING"}]}}),
            "Field A already exists in schema",
        ),
        (
            json!({"schema": columns, "timePartitioning": {"type": "DAY", "field": "s"}}),
            "can only be of type TIMESTAMP, DATE or DATETIME",
        ),
        (
            json!({"schema": columns, "timePartitioning": {"type": "HOUR", "field": "d"}}),
            "cannot be partitioned by HOUR",
        ),
        (
            json!({"schema": columns, "timePartitioning": {"field": "d"}}),
            "timePartitioning.type",
        ),
        (
            json!({"schema": columns, "rangePartitioning": {"field": "i", "range": {"start": "0", "end": "10"}}}),
            "range.interval",
        ),
        (
            json!({"schema": columns, "clustering": {"fields": ["nope"]}}),
            "cannot be found in the schema. Invalid field: nope",
        ),
        (
            json!({"schema": columns, "tableConstraints": {"primaryKey": {"columns": ["nope"]}}}),
            "nope cannot be found",
        ),
        (
            json!({"schema": columns, "requirePartitionFilter": true}),
            "partitioned table",
        ),
        (
            json!({"schema": columns, "expirationTime": "1"}),
            "in the past",
        ),
        (json!({"schema": columns, "labels": {"": "x"}}), "Label key"),
        (json!({"schema": [1]}), "not an object"),
        (
            json!({"view": {"query": "SELECT 1", "useLegacySql": true}}),
            "legacy SQL is not supported",
        ),
        (json!({"view": {}}), "view.query"),
    ] {
        let message = local
            .post("datasets/d/tables", named("bad", resource))
            .await
            .error(400, "invalid");
        assert!(message.contains(words), "{message}");
        local
            .get("datasets/d/tables/bad")
            .await
            .error(404, "notFound");
    }
    let message = local
        .post("datasets/d/tables", named("a.b", json!({})))
        .await
        .error(400, "invalid");
    assert!(
        message.starts_with("Invalid table ID \"a.b\"."),
        "{message}"
    );
    local
        .post(
            "datasets/nope/tables",
            json!({"tableReference": {"tableId": "t"}}),
        )
        .await
        .error(404, "notFound");
    local.table(json!([{"name": "a", "type": "STRING"}])).await;
    let message = local
        .post("datasets/d/tables", named("t", json!({})))
        .await
        .error(409, "duplicate");
    assert_eq!(message, "Already Exists: Table local:d.t");
    let message = local
        .get("datasets/d/tables/nope")
        .await
        .error(404, "notFound");
    assert_eq!(message, "Not found: Table local:d.nope");
    local
        .get("datasets/d/tables/t$20240101")
        .await
        .error(400, "invalid");
    local
        .delete("datasets/d/tables/nope")
        .await
        .error(404, "notFound");
}

#[tokio::test]
async fn updates_merge_or_replace() {
    let local = Local::with_dataset().await;
    let made = local
        .table_with(json!({
            "schema": {"fields": [{"name": "a", "type": "INTEGER", "mode": "REQUIRED"}]},
            "labels": {"x": "1"}, "friendlyName": "F", "description": "D",
            "expirationTime": "4102444800000"}))
        .await;
    local.insert(&[json!({"a": 1})]).await;
    let patched = local
        .patch(
            "datasets/d/tables/t",
            json!({"description": null, "labels": {"y": "2"}, "schema": {"fields": [
                {"name": "a", "type": "INTEGER", "mode": "NULLABLE"},
                {"name": "b", "type": "RECORD", "fields": [{"name": "c", "type": "STRING"}]}]}}),
        )
        .await
        .ok();
    assert_eq!(patched["labels"], json!({"x": "1", "y": "2"}));
    assert_eq!(patched["description"], Value::Null);
    assert_eq!(patched["friendlyName"], "F");
    assert_eq!(patched["schema"]["fields"][0]["mode"], "NULLABLE");
    assert_eq!(patched["numRows"], "1");
    assert_ne!(patched["etag"], made["etag"]);
    let nested = local
        .patch(
            "datasets/d/tables/t",
            json!({"schema": {"fields": [
                {"name": "a", "type": "INTEGER"},
                {"name": "b", "type": "RECORD", "fields": [{"name": "c", "type": "STRING"}, {"name": "l", "type": "DATE", "mode": "REPEATED"}]}]}}),
        )
        .await
        .ok();
    assert_eq!(nested["schema"]["fields"][1]["fields"][1]["name"], "l");
    let row = local.get("datasets/d/tables/t/data").await.ok()["rows"][0].clone();
    assert_eq!(row, json!({"f": [{"v": "1"}, {"v": null}]}));
    for (fields, words) in [
        (
            json!([{"name": "a", "type": "INTEGER"}]),
            "Field b is missing in new schema",
        ),
        (
            json!([{"name": "a", "type": "STRING"}]),
            "Field a has changed type from INTEGER to STRING",
        ),
        (
            json!([{"name": "a", "type": "INTEGER", "mode": "REQUIRED"}]),
            "Field a has changed mode from NULLABLE to REQUIRED",
        ),
    ] {
        let message = local
            .patch("datasets/d/tables/t", json!({"schema": {"fields": fields}}))
            .await
            .error(400, "invalid");
        assert_eq!(
            message,
            format!("Provided Schema does not match Table local:d.t. {words}")
        );
    }
    let body = json!({"schema": nested["schema"], "clustering": {"fields": ["a"]}});
    let replaced = local.put("datasets/d/tables/t", body).await.ok();
    assert_eq!(replaced["labels"], Value::Null);
    assert_eq!(replaced["friendlyName"], Value::Null);
    assert_eq!(replaced["expirationTime"], Value::Null);
    assert_eq!(replaced["clustering"], json!({"fields": ["a"]}));
    assert_eq!(replaced["numRows"], "1");
    for body in [
        json!({"timePartitioning": {"type": "DAY"}}),
        json!({"view": {"query": "SELECT 1"}}),
        json!({"tableReference": {"tableId": "other"}}),
    ] {
        local
            .patch("datasets/d/tables/t", body)
            .await
            .error(400, "invalid");
    }
    let url = local.url("datasets/d/tables/t");
    let stale = [("If-Match", made["etag"].as_str().unwrap())];
    for method in [Method::PATCH, Method::PUT, Method::DELETE] {
        local
            .call(method, &url, &stale, Some(json!({})))
            .await
            .error(412, "conditionNotMet");
    }
    let etag = replaced["etag"].as_str().unwrap();
    let deleted = local
        .call(Method::DELETE, &url, &[("If-Match", etag)], None)
        .await;
    assert_eq!((deleted.status, deleted.body), (204, Value::Null));
    local
        .get("datasets/d/tables/t")
        .await
        .error(404, "notFound");
}

#[tokio::test]
async fn partitioned_tables_keep_their_partitioning() {
    let local = Local::with_dataset().await;
    local
        .table_with(json!({"schema": {"fields": [{"name": "d", "type": "DATE"}]}, "timePartitioning": {"type": "DAY", "field": "d"}}))
        .await;
    local
        .patch(
            "datasets/d/tables/t",
            json!({"timePartitioning": {"type": "MONTH"}}),
        )
        .await
        .error(400, "invalid");
    local
        .patch("datasets/d/tables/t", json!({"timePartitioning": null}))
        .await
        .error(400, "invalid");
    let changed = local
        .patch("datasets/d/tables/t", json!({"timePartitioning": {"expirationMs": "1000000"}, "requirePartitionFilter": true}))
        .await
        .ok();
    assert_eq!(
        changed["timePartitioning"],
        json!({"type": "DAY", "field": "d", "expirationMs": "1000000"})
    );
    assert_eq!(changed["requirePartitionFilter"], true);
}

#[tokio::test]
async fn lists_page_in_order_of_name() {
    let local = Local::with_dataset().await;
    let empty = local.get("datasets/d/tables").await.ok();
    assert_eq!(
        (&empty["tables"], &empty["totalItems"]),
        (&Value::Null, &json!(0))
    );
    for i in [3, 0, 4, 1, 2] {
        local
            .post("datasets/d/tables", named(&format!("t{i}"), json!({})))
            .await
            .ok();
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = local
            .get(&format!("datasets/d/tables?maxResults=2&pageToken={token}"))
            .await
            .ok();
        assert_eq!(page["totalItems"], 5);
        for table in page["tables"].as_array().unwrap() {
            seen.push(
                table["tableReference"]["tableId"]
                    .as_str()
                    .unwrap()
                    .to_string(),
            );
        }
        match page["nextPageToken"].as_str() {
            Some(next) => token = next.to_string(),
            None => break,
        }
    }
    assert_eq!(seen, ["t0", "t1", "t2", "t3", "t4"]);
    local
        .get("datasets/nope/tables")
        .await
        .error(404, "notFound");
}

#[tokio::test]
async fn expired_tables_are_gone() {
    let local = Local::with_dataset().await;
    local.table(json!([{"name": "a", "type": "INTEGER"}])).await;
    local.insert(&[json!({"a": 1})]).await;
    let soon = bigquery_local::store::millis_now() + 300;
    local
        .patch(
            "datasets/d/tables/t",
            json!({"expirationTime": soon.to_string()}),
        )
        .await
        .ok();
    tokio::time::sleep(Duration::from_millis(400)).await;
    local
        .get("datasets/d/tables/t")
        .await
        .error(404, "notFound");
    assert_eq!(local.get("datasets/d/tables").await.ok()["totalItems"], 0);
    // The name is free, and the rows do not come back.
    local.table(json!([{"name": "a", "type": "INTEGER"}])).await;
    assert_eq!(local.get("datasets/d/tables/t").await.ok()["numRows"], "0");
    let store = &local.server.service().store;
    store.forget_old_versions().unwrap();
    assert!(store.table(&TableRef::new(PROJECT, "d", "t")).is_ok());

    let body = json!({"datasetReference": {"datasetId": "e"}, "defaultTableExpirationMs": "3600000", "defaultPartitionExpirationMs": "7200000"});
    local.post("datasets", body).await.ok();
    let made = local
        .post(
            "datasets/e/tables",
            json!({"tableReference": {"tableId": "t"}, "timePartitioning": {"type": "DAY"}}),
        )
        .await
        .ok();
    let life = made["expirationTime"]
        .as_str()
        .unwrap()
        .parse::<i64>()
        .unwrap()
        - made["creationTime"]
            .as_str()
            .unwrap()
            .parse::<i64>()
            .unwrap();
    assert_eq!(life, 3_600_000);
    assert_eq!(made["timePartitioning"]["expirationMs"], "7200000");
}

#[tokio::test]
async fn views_take_their_columns_from_their_query() {
    let local = Local::with_dataset().await;
    local
        .table(json!([{"name": "a", "type": "INTEGER", "mode": "REQUIRED"}, {"name": "r", "type": "RECORD", "mode": "REPEATED", "fields": [{"name": "x", "type": "NUMERIC"}]}]))
        .await;
    let body = json!({
        "view": {"query": "SELECT a + 1 AS b, r FROM d.t", "useLegacySql": false},
        "schema": {"fields": [{"name": "b", "type": "INTEGER", "description": "more"}]},
        "labels": {"k": "v"}});
    let made = local.post("datasets/d/tables", named("v", body)).await.ok();
    assert_eq!(made["type"], "VIEW");
    assert_eq!(
        made["view"],
        json!({"query": "SELECT a + 1 AS b, r FROM d.t", "useLegacySql": false})
    );
    let fields = &made["schema"]["fields"];
    assert_eq!(
        (
            &fields[0]["name"],
            &fields[0]["type"],
            &fields[0]["description"]
        ),
        (&json!("b"), &json!("INTEGER"), &json!("more"))
    );
    assert_eq!(
        (&fields[1]["mode"], &fields[1]["fields"][0]["type"]),
        (&json!("REPEATED"), &json!("NUMERIC"))
    );
    let list = local.get("datasets/d/tables").await.ok();
    assert_eq!(list["tables"][1]["type"], "VIEW");
    let patched = local
        .patch(
            "datasets/d/tables/v",
            json!({"view": {"query": "SELECT CAST(a AS STRING) AS c FROM d.t"}}),
        )
        .await
        .ok();
    assert_eq!(patched["schema"]["fields"][0]["name"], "c");
    assert_eq!(patched["schema"]["fields"][0]["type"], "STRING");
    assert_eq!(patched["labels"], json!({"k": "v"}));
    let described = local
        .patch("datasets/d/tables/v", json!({"description": "x"}))
        .await
        .ok();
    assert_eq!(
        (&described["description"], &described["view"]),
        (&json!("x"), &patched["view"])
    );
    for query in ["SELECT nope FROM d.t", "SELEC", "SELECT * FROM d.nope"] {
        let answer = local
            .post(
                "datasets/d/tables",
                named("w", json!({"view": {"query": query}})),
            )
            .await;
        assert!(
            matches!(answer.status, 400 | 404),
            "{query}: {}",
            answer.body
        );
        local
            .get("datasets/d/tables/w")
            .await
            .error(404, "notFound");
    }
    let message = local
        .get("datasets/d/tables/v/data")
        .await
        .error(400, "invalid");
    assert!(
        message.starts_with("Cannot list a table of type VIEW."),
        "{message}"
    );
    let message = local
        .post(
            "datasets/d/tables/v/insertAll",
            json!({"rows": [{"json": {}}]}),
        )
        .await
        .error(400, "invalid");
    assert!(message.contains("it is currently a VIEW"), "{message}");
}

/// Leaves of the resources that are sent, each of which is put where it does not
/// belong.
fn strange() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}\u{10ffff}"),
        json!("9223372036854775808"),
        json!([]),
        json!([[{}]]),
        json!({}),
        json!({"": {"a": []}}),
    ]
}

/// Every variant of `value` with one member, at any depth, replaced.
fn variants(value: &Value) -> Vec<Value> {
    let mut out = strange();
    match value {
        Value::Object(object) => {
            for (key, member) in object {
                for variant in variants(member) {
                    let mut changed = object.clone();
                    changed.insert(key.clone(), variant);
                    out.push(Value::Object(changed));
                }
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                for variant in variants(item) {
                    let mut changed = items.clone();
                    changed[i] = variant;
                    out.push(Value::Array(changed));
                }
            }
        }
        _ => {}
    }
    out
}

#[tokio::test]
async fn no_resource_breaks_the_server() {
    let local = Local::with_dataset().await;
    local.table(json!([{"name": "a", "type": "INTEGER"}])).await;
    let table = json!({
        "tableReference": {"projectId": PROJECT, "datasetId": "d", "tableId": "n"},
        "schema": {"fields": [
            {"name": "a", "type": "NUMERIC", "mode": "REQUIRED", "precision": "5", "scale": "2", "maxLength": "1"},
            {"name": "r", "type": "RANGE", "rangeElementType": {"type": "DATE"}},
            {"name": "s", "type": "RECORD", "fields": [{"name": "x", "type": "STRING"}]}]},
        "timePartitioning": {"type": "DAY", "field": "a", "expirationMs": "1"},
        "rangePartitioning": {"field": "a", "range": {"start": "0", "end": "9", "interval": "1"}},
        "clustering": {"fields": ["a"]},
        "tableConstraints": {"primaryKey": {"columns": ["a"]}, "foreignKeys": [{}]},
        "labels": {"a": "b"}, "expirationTime": "1", "requirePartitionFilter": true,
        "view": {"query": "SELECT 1", "useLegacySql": false}});
    let dataset = json!({
        "datasetReference": {"projectId": PROJECT, "datasetId": "n"},
        "labels": {"a": "b"}, "defaultTableExpirationMs": "3600000", "location": "US", "access": [{}]});
    let rows = json!({
        "rows": [{"insertId": "i", "json": {"a": 1}}],
        "skipInvalidRows": true, "ignoreUnknownValues": false, "templateSuffix": "s"});
    for (path, resource) in [
        ("datasets/d/tables", &table),
        ("datasets", &dataset),
        ("datasets/d/tables/t/insertAll", &rows),
    ] {
        for body in variants(resource) {
            let answer = local.post(path, body.clone()).await;
            assert!(answer.status < 500, "{path} {body}: {}", answer.body);
        }
    }
    for body in variants(&table) {
        let answer = local.patch("datasets/d/tables/t", body.clone()).await;
        assert!(answer.status < 500, "{body}: {}", answer.body);
    }
    for body in variants(&dataset) {
        let answer = local.patch("datasets/d", body.clone()).await;
        assert!(answer.status < 500, "{body}: {}", answer.body);
    }
    // And it still works.
    local.get("datasets/d/tables/t").await.ok();
}
