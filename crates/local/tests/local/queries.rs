//! jobs.query, getQueryResults, and where results go.

use serde_json::{Value, json};

use crate::harness::{Answer, Local, PROJECT};

impl Local {
    /// jobs.query with GoogleSQL; `more` adds to the body.
    pub(crate) async fn query(&self, sql: &str, more: Value) -> Answer {
        let mut body = json!({"query": sql, "useLegacySql": false});
        let map = body.as_object_mut().expect("an object");
        map.extend(more.as_object().expect("an object").clone());
        self.post("queries", body).await
    }

    /// jobs.insert of a query; `config` adds to `configuration.query`. The job must
    /// be done, well or not.
    pub(crate) async fn query_job(&self, sql: &str, config: Value) -> Value {
        let mut query = json!({"query": sql, "useLegacySql": false});
        let map = query.as_object_mut().expect("an object");
        map.extend(config.as_object().expect("an object").clone());
        let body = json!({"configuration": {"query": query}});
        let job = self.post("jobs", body).await.ok();
        assert_eq!(job["status"]["state"], "DONE", "{job}");
        job
    }

    /// The rows of a query as text.
    pub(crate) async fn rows(&self, sql: &str) -> Value {
        values(&self.query(sql, json!({})).await.ok())
    }
}

/// The values of an answer's rows.
pub(crate) fn values(answer: &Value) -> Value {
    let rows = answer["rows"].as_array().cloned().unwrap_or_default();
    rows.iter()
        .map(|row| {
            let cells = row["f"].as_array().expect("a row has cells");
            cells
                .iter()
                .map(|cell| cell["v"].clone())
                .collect::<Value>()
        })
        .collect()
}

fn table(id: &str) -> Value {
    json!({"projectId": PROJECT, "datasetId": "d", "tableId": id})
}

async fn numbers() -> Local {
    let local = Local::with_dataset().await;
    let fields = json!([{"name": "n", "type": "INTEGER"}, {"name": "s", "type": "STRING"}]);
    local.table(fields).await;
    let rows: Vec<Value> = (0..25)
        .map(|n| json!({"n": n, "s": format!("s{n}")}))
        .collect();
    local.insert(&rows).await;
    local
}

#[tokio::test]
async fn the_answer_of_jobs_query() {
    let local = Local::start().await;
    let answer = local.query("SELECT 1 AS a, 'x' AS b", json!({})).await.ok();
    assert_eq!(answer["kind"], "bigquery#queryResponse");
    assert_eq!(
        answer["schema"],
        json!({"fields": [
            {"name": "a", "type": "INTEGER", "mode": "NULLABLE"},
            {"name": "b", "type": "STRING", "mode": "NULLABLE"}]})
    );
    assert_eq!(values(&answer), json!([["1", "x"]]));
    assert_eq!(
        (
            &answer["totalRows"],
            &answer["jobComplete"],
            &answer["cacheHit"]
        ),
        (&json!("1"), &json!(true), &json!(false))
    );
    assert_eq!(answer["jobReference"]["location"], "US");
    assert_eq!(answer["statementType"], "SELECT");
    let optional = json!({"jobCreationMode": "JOB_CREATION_OPTIONAL", "useQueryCache": false});
    let answer = local.query("SELECT 1 AS a", optional).await.ok();
    assert_eq!(answer["jobReference"], Value::Null);
    assert!(answer["queryId"].is_string());
    local.query("", json!({})).await.error(400, "invalid");
    let mode = json!({"jobCreationMode": "JOB_CREATION_MAYBE"});
    local.query("SELECT 1", mode).await.error(400, "invalid");
}

#[tokio::test]
async fn pages_of_results() {
    let local = numbers().await;
    let sql = "SELECT n FROM d.t ORDER BY n";
    let first = local.query(sql, json!({"maxResults": 10})).await.ok();
    assert_eq!(first["totalRows"], "25");
    assert_eq!(values(&first).as_array().map(Vec::len), Some(10));
    let id = first["jobReference"]["jobId"].as_str().expect("an id");
    let mut token = first["pageToken"].as_str().expect("more rows").to_string();
    let mut seen = 10;
    loop {
        let page = local
            .get(&format!("queries/{id}?maxResults=10&pageToken={token}"))
            .await
            .ok();
        assert_eq!(page["kind"], "bigquery#getQueryResultsResponse");
        let rows = values(&page);
        assert_eq!(rows[0][0], seen.to_string());
        seen += rows.as_array().map_or(0, Vec::len);
        match page["pageToken"].as_str() {
            Some(next) => token = next.to_string(),
            None => break,
        }
    }
    assert_eq!(seen, 25);
    let page = local.get(&format!("queries/{id}?startIndex=23")).await.ok();
    assert_eq!(values(&page), json!([["23"], ["24"]]));
    let none = local.get(&format!("queries/{id}?maxResults=0")).await.ok();
    assert_eq!(
        (&none["rows"], &none["totalRows"]),
        (&Value::Null, &json!("25"))
    );
    assert!(none["pageToken"].is_string());
    let beyond = local.get(&format!("queries/{id}?startIndex=99")).await.ok();
    assert_eq!(
        (&beyond["rows"], &beyond["pageToken"]),
        (&Value::Null, &Value::Null)
    );
    let bad = local.get(&format!("queries/{id}?pageToken=bad")).await;
    bad.error(400, "invalid");
    local.get("queries/nope").await.error(404, "notFound");
}

#[tokio::test]
async fn timestamps_in_three_forms() {
    let local = Local::start().await;
    let sql = "SELECT TIMESTAMP '2024-01-02 03:04:05.123456+00'";
    let value = |more: Value| {
        let local = &local;
        async move { values(&local.query(sql, more).await.ok())[0][0].clone() }
    };
    assert_eq!(value(json!({})).await, "1.704164645123456E9");
    let int64 = json!({"formatOptions": {"useInt64Timestamp": true}});
    assert_eq!(value(int64).await, "1704164645123456");
    let iso = json!({"formatOptions": {"timestampOutputFormat": "ISO8601_STRING"}});
    assert_eq!(value(iso).await, "2024-01-02T03:04:05.123456000000Z");
}

#[tokio::test]
async fn errors_have_the_same_words_everywhere() {
    let local = Local::with_dataset().await;
    let message = local
        .query("SELEC 1", json!({}))
        .await
        .error(400, "invalidQuery");
    assert_eq!(
        message,
        "Syntax error: Unexpected identifier \"SELEC\" at [1:1]"
    );
    let job = local.query_job("SELECT 1 / 0 AS v", json!({})).await;
    let error = json!({
        "reason": "invalidQuery", "location": "query", "message": "division by zero: 1 / 0"
    });
    assert_eq!(job["status"]["errorResult"], error);
    assert_eq!(job["status"]["errors"], json!([error]));
    assert_eq!(job["statistics"]["query"]["statementType"], "SELECT");
    assert!(job["configuration"]["query"]["destinationTable"].is_object());
    let id = job["jobReference"]["jobId"].as_str().expect("an id");
    let results = local.get(&format!("queries/{id}")).await;
    assert_eq!(results.body["error"]["errors"][0]["location"], "q");
    assert_eq!(
        results.error(400, "invalidQuery"),
        "division by zero: 1 / 0"
    );
    let missing = local.query_job("SELECT * FROM d.nope", json!({})).await;
    assert_eq!(
        missing["status"]["errorResult"],
        json!({
            "reason": "notFound",
            "message": "Not found: Table local:d.nope was not found in location US"
        })
    );
    assert_eq!(missing["statistics"]["query"], json!({}));
    assert_eq!(
        missing["configuration"]["query"]["destinationTable"],
        Value::Null
    );
}

#[tokio::test]
async fn legacy_sql_and_sessions_are_refused() {
    let local = Local::start().await;
    let default = local.post("queries", json!({"query": "SELECT 1"})).await;
    let message = default.error(400, "invalidQuery");
    assert_eq!(message, "Legacy SQL is not supported by bigquery-local");
    let prefixed = local
        .post("queries", json!({"query": "#standardSQL\nSELECT 1 AS x"}))
        .await;
    assert_eq!(values(&prefixed.ok()), json!([["1"]]));
    let back = local.query("#legacySQL\nSELECT 1", json!({})).await;
    back.error(400, "invalidQuery");
    let session = local
        .query("SELECT 1", json!({"createSession": true}))
        .await;
    assert!(
        session
            .error(400, "invalidQuery")
            .contains("not supported by bigquery-local")
    );
    let id = json!({"connectionProperties": [{"key": "session_id", "value": "x"}]});
    let message = local.query("SELECT 1", id).await.error(400, "invalid");
    assert_eq!(message, "Invalid input session id.");
}

#[tokio::test]
async fn parameters_travel() {
    let local = Local::start().await;
    let named = json!({
        "parameterMode": "NAMED",
        "queryParameters": [
            {"name": "i", "parameterType": {"type": "INT64"}, "parameterValue": {"value": "5"}},
            {"name": "n", "parameterType": {"type": "STRING"}, "parameterValue": {}},
            {"name": "st", "parameterType": {"type": "STRUCT", "structTypes": [
                {"name": "x", "type": {"type": "DATE"}}]},
             "parameterValue": {"structValues": {"x": {"value": "2024-01-02"}}}}
        ]
    });
    let answer = local.query("SELECT @i + 1, @n, @st.x", named).await.ok();
    assert_eq!(values(&answer), json!([["6", null, "2024-01-02"]]));
    let positional = json!({
        "parameterMode": "POSITIONAL",
        "queryParameters": [
            {"parameterType": {"type": "BOOL"}, "parameterValue": {"value": "true"}}]
    });
    let answer = local.query("SELECT ?", positional).await.ok();
    assert_eq!(values(&answer), json!([["true"]]));
    let bad = json!({"queryParameters": [{"parameterType": {"type": "THING"}}]});
    local.query("SELECT ?", bad).await.error(400, "invalid");
}

#[tokio::test]
async fn a_result_is_a_hidden_table_for_a_day() {
    let local = Local::with_dataset().await;
    let job = local
        .query_job("SELECT 1 AS x UNION ALL SELECT 2", json!({}))
        .await;
    let place = &job["configuration"]["query"]["destinationTable"];
    assert_eq!(
        job["configuration"]["query"]["writeDisposition"],
        "WRITE_TRUNCATE"
    );
    let dataset = place["datasetId"].as_str().expect("a dataset");
    assert!(dataset.starts_with('_'));
    let path = format!(
        "datasets/{dataset}/tables/{}",
        place["tableId"].as_str().expect("a table")
    );
    let mut rows = local.first_column(&format!("{path}/data")).await;
    rows.sort();
    assert_eq!(rows, ["1", "2"]);
    let resource = local.get(&path).await.ok();
    let number = |key: &str| resource[key].as_str().unwrap().parse::<i64>().unwrap();
    assert_eq!(
        number("expirationTime") - number("creationTime"),
        24 * 3_600_000
    );
    let listed = local.get("datasets").await.ok();
    assert_eq!(listed["datasets"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_repeated_query_is_answered_from_the_cache() {
    let local = numbers().await;
    let sql = "SELECT SUM(n) AS total FROM d.t";
    let first = local.query_job(sql, json!({})).await;
    let second = local.query_job(sql, json!({})).await;
    let hit = |job: &Value| job["statistics"]["query"]["cacheHit"].clone();
    assert_eq!((hit(&first), hit(&second)), (json!(false), json!(true)));
    let place = |job: &Value| job["configuration"]["query"]["destinationTable"].clone();
    assert_eq!(place(&first), place(&second));
    assert_eq!(second["statistics"]["totalBytesProcessed"], "0");
    let off = local.query_job(sql, json!({"useQueryCache": false})).await;
    assert_eq!(hit(&off), json!(false));
    local.insert(&[json!({"n": 100})]).await;
    let changed = local.query(sql, json!({})).await.ok();
    assert_eq!(changed["cacheHit"], false);
    assert_eq!(values(&changed), json!([["400"]]));
    let random = "SELECT CURRENT_TIMESTAMP() AS now";
    local.query(random, json!({})).await.ok();
    let again = local.query(random, json!({})).await.ok();
    assert_eq!(again["cacheHit"], false);
}

#[tokio::test]
async fn destinations_and_dispositions() {
    let local = Local::with_dataset().await;
    let into = |write: &str, more: Value| {
        let mut config = json!({"destinationTable": table("r"), "writeDisposition": write});
        let map = config.as_object_mut().expect("an object");
        map.extend(more.as_object().expect("an object").clone());
        config
    };
    let error = |job: &Value| job["status"]["errorResult"]["message"].clone();
    local
        .query_job("SELECT 1 AS x", into("WRITE_EMPTY", json!({})))
        .await;
    let job = local
        .query_job("SELECT 2 AS x", into("WRITE_EMPTY", json!({})))
        .await;
    assert_eq!(job["status"]["errorResult"]["reason"], "duplicate");
    let job = local
        .query_job("SELECT 3 AS x", into("WRITE_APPEND", json!({})))
        .await;
    // The result of an append is the whole table (recorded).
    let id = job["jobReference"]["jobId"].as_str().expect("an id");
    let results = local.get(&format!("queries/{id}")).await.ok();
    assert_eq!(values(&results), json!([["1"], ["3"]]));
    let job = local
        .query_job("SELECT 'a' AS shape", into("WRITE_APPEND", json!({})))
        .await;
    assert_eq!(
        error(&job),
        "Invalid schema update. Cannot add fields (field: shape)"
    );
    let add = json!({"schemaUpdateOptions": ["ALLOW_FIELD_ADDITION"]});
    local
        .query_job(
            "SELECT 4 AS x, TRUE AS c",
            into("WRITE_APPEND", add.clone()),
        )
        .await;
    assert_eq!(
        local.rows("SELECT x, c FROM d.r ORDER BY x").await[2],
        json!(["4", "true"])
    );
    let job = local
        .query_job("SELECT 5 AS x", into("WRITE_TRUNCATE", add))
        .await;
    assert!(
        error(&job)
            .as_str()
            .unwrap()
            .starts_with("Schema update options should only")
    );
    local
        .query_job("SELECT 'a' AS y", into("WRITE_TRUNCATE", json!({})))
        .await;
    assert_eq!(local.rows("SELECT * FROM d.r").await, json!([["a"]]));
    let never = json!({"destinationTable": table("n"), "createDisposition": "CREATE_NEVER"});
    let job = local.query_job("SELECT 1 AS x", never).await;
    assert_eq!(job["status"]["errorResult"]["reason"], "notFound");
    let dml = local
        .query_job(
            "DELETE FROM d.r WHERE TRUE",
            json!({"destinationTable": table("n")}),
        )
        .await;
    assert_eq!(
        error(&dml),
        "Cannot set destination table in jobs with DML statements"
    );
}

#[tokio::test]
async fn the_layout_of_a_destination() {
    let local = Local::with_dataset().await;
    let sql = "SELECT DATE '2024-01-01' AS d, 'x' AS k";
    let into = |field: &str, cluster: &str| {
        json!({
            "destinationTable": table("p"), "writeDisposition": "WRITE_TRUNCATE",
            "timePartitioning": {"type": "DAY", "field": field}, "clustering": {"fields": [cluster]}
        })
    };
    let error = |job: &Value| job["status"]["errorResult"]["message"].clone();
    let job = local.query_job(sql, into("nope", "k")).await;
    assert_eq!(
        error(&job),
        "The field specified for partitioning cannot be found in the schema."
    );
    let job = local.query_job(sql, into("d", "nope")).await;
    assert_eq!(
        error(&job),
        "The field specified for clustering cannot be found in the schema. Invalid field: nope"
    );
    local.query_job(sql, into("d", "k")).await;
    let made = local.get("datasets/d/tables/p").await.ok();
    assert_eq!(made["timePartitioning"]["field"], "d");
    assert_eq!(made["clustering"], json!({"fields": ["k"]}));
}

#[tokio::test]
async fn dml_and_ddl_jobs_say_what_they_did() {
    let local = numbers().await;
    let job = local
        .query_job("UPDATE d.t SET s = 'z' WHERE n < 5", json!({}))
        .await;
    let query = &job["statistics"]["query"];
    assert_eq!(query["statementType"], "UPDATE");
    assert_eq!(query["numDmlAffectedRows"], "5");
    assert_eq!(query["dmlStats"], json!({"updatedRowCount": "5"}));
    assert_eq!(query["referencedTables"], json!([table("t")]));
    assert_eq!(
        job["configuration"]["query"]["destinationTable"],
        table("t")
    );
    let answer = local
        .query("DELETE FROM d.t WHERE n = 0", json!({}))
        .await
        .ok();
    assert_eq!(answer["numDmlAffectedRows"], "1");
    assert_eq!(
        (&answer["rows"], &answer["totalRows"]),
        (&Value::Null, &Value::Null)
    );
    let job = local
        .query_job("CREATE TABLE d.c AS SELECT 1 AS a", json!({}))
        .await;
    let query = &job["statistics"]["query"];
    assert_eq!(query["statementType"], "CREATE_TABLE_AS_SELECT");
    assert_eq!(query["ddlOperationPerformed"], "CREATE");
    assert_eq!(query["ddlTargetTable"], table("c"));
    assert_eq!(
        query["schema"],
        json!({"fields": [{"name": "a", "type": "INTEGER"}]})
    );
    assert_eq!(
        job["configuration"]["query"]["destinationTable"],
        table("c")
    );
}

#[tokio::test]
async fn dry_runs_change_and_keep_nothing() {
    let local = numbers().await;
    let body = json!({"configuration": {
        "dryRun": true, "query": {"query": "SELECT n FROM d.t", "useLegacySql": false}}});
    let job = local.post("jobs", body).await.ok();
    assert_eq!(job["status"], json!({"state": "DONE"}));
    assert_eq!(
        job["jobReference"],
        json!({"projectId": PROJECT, "location": "US"})
    );
    let query = &job["statistics"]["query"];
    let bytes = query["totalBytesProcessed"]
        .as_str()
        .and_then(|b| b.parse::<u64>().ok());
    assert!(bytes.is_some_and(|b| b >= 200), "{query}");
    assert_eq!(query["statementType"], "SELECT");
    assert_eq!(query["schema"]["fields"][0]["name"], "n");
    assert_eq!(query["referencedTables"], json!([table("t")]));
    let dry = json!({"dryRun": true});
    let answer = local
        .query("DELETE FROM d.t WHERE TRUE", dry.clone())
        .await
        .ok();
    assert_eq!(
        (&answer["jobComplete"], &answer["rows"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(
        local.rows("SELECT COUNT(*) FROM d.t").await,
        json!([["25"]])
    );
    let create = local
        .query("CREATE TABLE d.dry (a INT64)", dry.clone())
        .await;
    create.ok();
    assert_eq!(local.get("datasets/d/tables/dry").await.status, 404);
    let bad = local.query("SELECT nope FROM d.t", dry).await;
    bad.error(400, "invalidQuery");
    let listed = local.get("jobs?projection=full").await.ok();
    let dry_jobs = listed["jobs"].as_array().expect("jobs");
    assert!(
        dry_jobs
            .iter()
            .all(|job| job["configuration"]["dryRun"] != true)
    );
}

#[tokio::test]
async fn a_query_that_costs_too_much_does_not_run() {
    let local = numbers().await;
    let limit = |bytes: &str| json!({"maximumBytesBilled": bytes});
    let job = local
        .query_job("SELECT n FROM d.t", limit("10485760"))
        .await;
    assert_eq!(job["status"]["errorResult"], Value::Null);
    let job = local
        .query_job("DELETE FROM d.t WHERE n > 0", limit("1"))
        .await;
    assert_eq!(
        job["status"]["errorResult"]["reason"],
        "bytesBilledLimitExceeded"
    );
    assert_eq!(
        local.rows("SELECT COUNT(*) FROM d.t").await,
        json!([["25"]])
    );
    let free = local.query_job("SELECT 1", limit("1")).await;
    assert_eq!(free["status"]["errorResult"], Value::Null);
}

#[tokio::test]
async fn a_script_is_a_parent_with_children() {
    let local = Local::with_dataset().await;
    let sql = "DECLARE x INT64 DEFAULT 4; CREATE TABLE d.s (a INT64); \
               INSERT INTO d.s (a) VALUES (x); SELECT a * 2 AS y FROM d.s";
    let job = local.query_job(sql, json!({})).await;
    assert_eq!(job["status"], json!({"state": "DONE"}), "{job}");
    assert_eq!(job["statistics"]["query"]["statementType"], "SCRIPT");
    let id = job["jobReference"]["jobId"].as_str().expect("an id");
    let results = local.get(&format!("queries/{id}")).await.ok();
    assert_eq!(values(&results), json!([["8"]]));
    let children = local.get(&format!("jobs?parentJobId={id}")).await.ok();
    let children = children["jobs"].as_array().expect("children").clone();
    assert_eq!(
        job["statistics"]["numChildJobs"],
        children.len().to_string()
    );
    let kinds: Vec<&str> = children
        .iter()
        .rev()
        .filter_map(|child| child["statistics"]["query"]["statementType"].as_str())
        .filter(|kind| *kind != "DECLARE")
        .collect();
    assert_eq!(kinds, ["CREATE_TABLE", "INSERT", "SELECT"]);
    assert_eq!(children[0]["statistics"]["parentJobId"], id);
    let select = children[0]["jobReference"]["jobId"]
        .as_str()
        .expect("an id");
    let results = local.get(&format!("queries/{select}")).await.ok();
    assert_eq!(values(&results), json!([["8"]]));
}

#[tokio::test]
async fn a_repeated_request_runs_once() {
    let local = numbers().await;
    let insert = || {
        local.query(
            "INSERT INTO d.t (n) VALUES (99)",
            json!({"requestId": "r1"}),
        )
    };
    let (first, second) = tokio::join!(insert(), insert());
    assert_eq!(first.ok()["jobReference"], second.ok()["jobReference"]);
    assert_eq!(
        local.rows("SELECT COUNT(*) FROM d.t WHERE n = 99").await,
        json!([["1"]])
    );
}

/// BOOL fields of structs that are NULL, in a part of the rows that begins in the middle.
#[tokio::test]
async fn fields_of_null_structs_in_the_middle_of_rows() {
    let local = numbers().await;
    let sql = "WITH t AS (SELECT i id, IF(MOD(i, 3) = 0, NULL, STRUCT(MOD(i, 2) = 0 AS b, i AS n)) st \
               FROM UNNEST(GENERATE_ARRAY(1, 40)) i) \
               SELECT st.b, st.n FROM (SELECT * FROM t ORDER BY id LIMIT 4 OFFSET 11) ORDER BY id";
    let expected = json!([[null, null], ["false", "13"], ["true", "14"], [null, null]]);
    assert_eq!(local.rows(sql).await, expected);
}
