//! What a server with a data directory still knows after it was started again.

use std::path::Path;

use bigquery_local::{LocalBigQuery, LocalOptions};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::harness::{Answer, Local, PROJECT};

async fn start(data: &Path) -> Local {
    let options = LocalOptions {
        data: Some(data.to_path_buf()),
        ..LocalOptions::default()
    };
    Local {
        server: LocalBigQuery::start(options).await.unwrap(),
        client: Client::new(),
    }
}

async fn restart(local: Local, data: &Path) -> Local {
    let Local { server, client } = local;
    // Idle connections would be waited for.
    drop(client);
    server.shutdown().await;
    start(data).await
}

async fn query(local: &Local, sql: &str) -> Answer {
    let body = json!({"query": sql, "useLegacySql": false, "useQueryCache": false});
    local.post("queries", body).await
}

fn job(id: &str, sql: &str) -> Value {
    json!({
        "jobReference": {"projectId": PROJECT, "jobId": id},
        "configuration": {"query": {"query": sql, "useLegacySql": false},
            "labels": {"team": "a"}}
    })
}

/// Without what names the server.
fn lasting(mut job: Value) -> Value {
    for field in ["selfLink", "etag"] {
        job.as_object_mut().unwrap().remove(field);
    }
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_as_they_were() {
    let data = tempfile::TempDir::new().unwrap();
    let mut local = start(data.path()).await;
    query(&local, "CREATE SCHEMA d").await.ok();
    query(&local, "CREATE TABLE d.t (x INT64)").await.ok();
    let mut before = Vec::new();
    for (id, sql) in [
        ("insert", "INSERT d.t VALUES (1), (2)"),
        ("select", "SELECT x, [x] AS l FROM d.t ORDER BY x"),
        ("create", "CREATE TABLE d.u AS SELECT 1 AS a"),
        ("script", "SELECT 1 AS one; SELECT 2 AS two"),
        ("fails", "SELECT 1 / 0"),
        ("half", "INSERT d.t VALUES (3); SELECT ERROR('no')"),
    ] {
        let answer = local.post("jobs", job(id, sql)).await.ok();
        assert_eq!(answer["status"]["state"], "DONE");
        before.push((id, lasting(answer)));
    }
    let mut copy = job("copy", "");
    copy["configuration"] = json!({"copy": {
        "sourceTable": {"projectId": PROJECT, "datasetId": "d", "tableId": "t"},
        "destinationTable": {"projectId": PROJECT, "datasetId": "d", "tableId": "c"}}});
    before.push(("copy", lasting(local.post("jobs", copy).await.ok())));
    let rows = local.get("queries/select").await.ok();
    assert_eq!(rows["totalRows"], "2");
    // The result is that of then, whatever becomes of the table.
    query(&local, "DELETE FROM d.t WHERE TRUE").await.ok();
    let list = |answer: Value| -> Vec<String> {
        let jobs = answer["jobs"].as_array().unwrap().iter();
        jobs.map(|j| j["id"].as_str().unwrap().to_string())
            .collect()
    };
    let listed = list(local.get("jobs").await.ok());
    for _ in 0..2 {
        local = restart(local, data.path()).await;
        assert_eq!(list(local.get("jobs").await.ok()), listed);
        for (id, was) in &before {
            let now = lasting(local.get(&format!("jobs/{id}")).await.ok());
            assert_eq!(now, *was, "{id}");
            local
                .post("jobs", job(id, "SELECT 1"))
                .await
                .error(409, "duplicate");
        }
        assert_eq!(local.get("queries/select").await.ok()["rows"], rows["rows"]);
        let last = local.get("queries/script").await.ok();
        assert_eq!(last["schema"]["fields"][0]["name"], "two");
        local.get("queries/fails").await.error(400, "invalidQuery");
        let children = local.get("jobs?parentJobId=half").await.ok();
        let states: Vec<bool> = children["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|child| child["status"]["errorResult"].is_null())
            .collect();
        assert_eq!(states, [false, true], "newest first");
        assert!(
            local
                .first_column("datasets/d/tables/t/data")
                .await
                .is_empty()
        );
    }
    let url = local.url("jobs/script/delete");
    local.call(Method::DELETE, &url, &[], None).await.ok();
    let local = restart(local, data.path()).await;
    local.get("jobs/script").await.error(404, "notFound");
    let children = local.get("jobs?parentJobId=script").await.ok();
    assert_eq!(children["jobs"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_an_id_is_carried_out_once() {
    let data = tempfile::TempDir::new().unwrap();
    let local = start(data.path()).await;
    query(&local, "CREATE SCHEMA d").await.ok();
    query(&local, "CREATE TABLE d.t (x INT64)").await.ok();
    let body = json!({"query": "INSERT d.t VALUES (1)", "useLegacySql": false,
        "requestId": "r"});
    let first = local.post("queries", body.clone()).await.ok();
    let local = restart(local, data.path()).await;
    let again = local.post("queries", body).await.ok();
    assert_eq!(first["jobReference"], again["jobReference"]);
    assert_eq!(local.first_column("datasets/d/tables/t/data").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn routines_live_as_long_as_their_dataset() {
    let data = tempfile::TempDir::new().unwrap();
    let local = start(data.path()).await;
    query(&local, "CREATE SCHEMA d").await.ok();
    query(&local, "CREATE FUNCTION d.Twice(x INT64) AS (2 * x)")
        .await
        .ok();
    query(
        &local,
        "CREATE TABLE FUNCTION d.upto(n INT64) AS SELECT i FROM UNNEST(GENERATE_ARRAY(1, n)) AS i",
    )
    .await
    .ok();
    query(
        &local,
        "CREATE PROCEDURE d.p(OUT x INT64) BEGIN SET x = d.Twice(21); END",
    )
    .await
    .ok();
    query(&local, "CREATE FUNCTION d.gone() AS (1)").await.ok();
    query(&local, "DROP FUNCTION d.gone").await.ok();
    let listed = local.get("datasets/d/routines").await.ok();
    let local = restart(local, data.path()).await;
    assert_eq!(local.get("datasets/d/routines").await.ok(), listed);
    let names: Vec<(&str, &str)> = listed["routines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            (
                r["routineReference"]["routineId"].as_str().unwrap(),
                r["routineType"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("p", "PROCEDURE"),
            ("Twice", "SCALAR_FUNCTION"),
            ("upto", "TABLE_VALUED_FUNCTION")
        ]
    );
    let sql = "DECLARE x INT64; CALL d.p(x); SELECT x + (SELECT SUM(i) FROM d.upto(3))";
    let answer = query(&local, sql).await.ok();
    assert_eq!(answer["rows"][0]["f"][0]["v"], "48");
    // A dataset with routines is not empty.
    local.delete("datasets/d").await.error(400, "resourceInUse");
    query(&local, "DROP SCHEMA d")
        .await
        .error(400, "resourceInUse");
    local.delete("datasets/d/routines/upto").await.ok();
    query(&local, "DROP SCHEMA d CASCADE").await.ok();
    query(&local, "CREATE SCHEMA d").await.ok();
    let local = restart(local, data.path()).await;
    assert_eq!(local.get("datasets/d/routines").await.ok(), json!({}));
    query(&local, "SELECT d.Twice(1)")
        .await
        .error(400, "invalidQuery");
}
