//! jobs.insert, get, list, cancel and delete.

use serde_json::{Value, json};

use crate::harness::{Local, PROJECT};

fn named(id: &str, location: Option<&str>) -> Value {
    let mut reference = json!({"projectId": PROJECT, "jobId": id});
    if let Some(location) = location {
        reference["location"] = json!(location);
    }
    json!({
        "jobReference": reference,
        "configuration": {
            "query": {"query": "SELECT 1 AS x", "useLegacySql": false},
            "labels": {"team": "a"}
        }
    })
}

#[tokio::test]
async fn a_job_has_a_name_for_good() {
    let local = Local::start().await;
    let job = local.post("jobs", named("mine", None)).await.ok();
    assert_eq!(job["kind"], "bigquery#job");
    assert_eq!(job["id"], "local:US.mine");
    assert_eq!(
        job["jobReference"],
        json!({"projectId": PROJECT, "jobId": "mine", "location": "US"})
    );
    assert_eq!(job["configuration"]["labels"], json!({"team": "a"}));
    assert!(job["user_email"].is_string() && job["etag"].is_string());
    let message = local
        .post("jobs", named("mine", None))
        .await
        .error(409, "duplicate");
    assert_eq!(message, "Already Exists: Job local:US.mine");
    let got = local.get("jobs/mine").await.ok();
    assert_eq!(got, job);
    for time in ["creationTime", "startTime", "endTime"] {
        let millis = got["statistics"][time]
            .as_str()
            .and_then(|t| t.parse::<i64>().ok());
        assert!(millis.is_some_and(|t| t > 1_000_000_000_000), "{time}");
    }
    let mut failing = named("failing", None);
    failing["configuration"]["query"]["query"] = json!("SELECT nope");
    let failed = local.post("jobs", failing.clone()).await.ok();
    assert!(failed["status"]["errorResult"].is_object());
    local.post("jobs", failing).await.error(409, "duplicate");
}

#[tokio::test]
async fn bad_names_and_configurations_are_refused() {
    let local = Local::start().await;
    for id in ["a b", "a.b", &"x".repeat(1025)] {
        let message = local
            .post("jobs", named(id, None))
            .await
            .error(400, "invalid");
        assert!(message.starts_with("Invalid job ID"), "{message}");
    }
    let other = json!({"jobReference": {"projectId": "other"}, "configuration": {}});
    local.post("jobs", other).await.error(400, "invalid");
    let none = local.post("jobs", json!({})).await.error(400, "invalid");
    assert!(none.contains("there were 0"), "{none}");
    let mut labels = named("x", None);
    labels["configuration"]["labels"] = json!({"Bad": "x"});
    local.post("jobs", labels).await.error(400, "invalid");
    let text = json!({"configuration": {"query": {"query": 5}}});
    local.post("jobs", text).await.error(400, "invalid");
}

#[tokio::test]
async fn jobs_run_where_their_datasets_are() {
    let local = Local::start().await;
    let eu = json!({
        "datasetReference": {"projectId": PROJECT, "datasetId": "e"}, "location": "EU"
    });
    local.post("datasets", eu).await.ok();
    let query = |sql: &str| {
        json!({
            "configuration": {"query": {"query": sql, "useLegacySql": false}}
        })
    };
    let job = local
        .post("jobs", query("CREATE TABLE e.t AS SELECT 1 AS a"))
        .await
        .ok();
    assert_eq!(job["status"], json!({"state": "DONE"}));
    assert_eq!(job["jobReference"]["location"], "EU");
    let id = job["jobReference"]["jobId"].as_str().expect("an id");
    // Without a location only the US are searched.
    let message = local
        .get(&format!("jobs/{id}"))
        .await
        .error(404, "notFound");
    assert_eq!(message, format!("Not found: Job local:{id}"));
    local.get(&format!("jobs/{id}?location=eu")).await.ok();
    let mut wrong = query("SELECT * FROM e.t");
    wrong["jobReference"] = json!({"location": "US"});
    let job = local.post("jobs", wrong).await.ok();
    assert_eq!(
        job["status"]["errorResult"]["message"],
        "Not found: Dataset local:e was not found in location US"
    );
}

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let local = Local::start().await;
    for i in 0..5 {
        local.post("jobs", named(&format!("j{i}"), None)).await.ok();
    }
    let ids = |list: &Value| -> Vec<String> {
        let jobs = list["jobs"].as_array().expect("jobs");
        jobs.iter()
            .map(|j| {
                j["jobReference"]["jobId"]
                    .as_str()
                    .expect("an id")
                    .to_string()
            })
            .collect()
    };
    let all = local.get("jobs").await.ok();
    assert_eq!(all["kind"], "bigquery#jobList");
    assert_eq!(ids(&all), ["j4", "j3", "j2", "j1", "j0"]);
    assert_eq!(all["jobs"][0]["configuration"], Value::Null);
    assert_eq!(all["jobs"][0]["state"], "DONE");
    let full = local
        .get("jobs?projection=full&maxResults=2&stateFilter=done")
        .await
        .ok();
    assert_eq!(ids(&full), ["j4", "j3"]);
    assert!(full["jobs"][0]["configuration"]["query"].is_object());
    let token = full["nextPageToken"].as_str().expect("more");
    let rest = local
        .get(&format!("jobs?maxResults=9&pageToken={token}"))
        .await
        .ok();
    assert_eq!(ids(&rest), ["j2", "j1", "j0"]);
    assert_eq!(rest["nextPageToken"], Value::Null);
    let running = local
        .get("jobs?stateFilter=running&stateFilter=pending")
        .await
        .ok();
    assert!(ids(&running).is_empty());
    let later = local.get("jobs?minCreationTime=99999999999999").await.ok();
    assert!(ids(&later).is_empty());
    local
        .get("jobs?stateFilter=odd")
        .await
        .error(400, "invalid");
    local.get("jobs?projection=odd").await.error(400, "invalid");
    local.get("jobs?pageToken=odd").await.error(400, "invalid");
}

#[tokio::test]
async fn jobs_are_deleted_and_cancelled() {
    let local = Local::start().await;
    local.post("jobs", named("gone", None)).await.ok();
    let cancelled = local.post("jobs/gone/cancel", json!({})).await.ok();
    assert_eq!(cancelled["kind"], "bigquery#jobCancelResponse");
    assert_eq!(cancelled["job"]["status"], json!({"state": "DONE"}));
    assert_eq!(local.delete("jobs/gone/delete").await.ok(), json!({}));
    local.get("jobs/gone").await.error(404, "notFound");
    local
        .delete("jobs/gone/delete")
        .await
        .error(404, "notFound");
    local
        .post("jobs/gone/cancel", json!({}))
        .await
        .error(404, "notFound");
}

#[tokio::test]
async fn a_cancelled_job_stops() {
    let local = Local::start().await;
    // Far more rows than anybody waits for.
    let digits = "SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 \
                  UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7";
    let joins: Vec<String> = (0..11).map(|i| format!("({digits}) AS t{i}")).collect();
    let sql = format!(
        "SELECT COUNT(*) AS n FROM {} WHERE MOD(t0.d + t10.d, 3) = 1",
        joins.join(" CROSS JOIN ")
    );
    let started = local
        .query(&sql, json!({"timeoutMs": 100, "useQueryCache": false}))
        .await
        .ok();
    assert_eq!(started["jobComplete"], false, "{started}");
    assert_eq!(started["rows"], Value::Null);
    let id = started["jobReference"]["jobId"].as_str().expect("an id");
    let running = local.get(&format!("jobs/{id}")).await.ok();
    assert_eq!(running["status"], json!({"state": "RUNNING"}));
    let refused = local.delete(&format!("jobs/{id}/delete")).await;
    refused.error(400, "invalid");
    local
        .post(&format!("jobs/{id}/cancel"), json!({}))
        .await
        .ok();
    let results = local.get(&format!("queries/{id}?timeoutMs=20000")).await;
    let message = results.error(400, "stopped");
    assert_eq!(
        message,
        "Job execution was cancelled: User requested cancellation"
    );
    let done = local.get(&format!("jobs/{id}")).await.ok();
    assert_eq!(done["status"]["state"], "DONE");
    assert_eq!(done["status"]["errorResult"]["reason"], "stopped");
}

#[tokio::test]
async fn a_job_of_a_text_that_is_no_googlesql_is_not_made() {
    let local = Local::start().await;
    let mut job = named("typo", None);
    job["configuration"]["query"]["query"] = json!("SELEC 1");
    for _ in 0..2 {
        let answer = local.post("jobs", job.clone()).await;
        assert_eq!(answer.body["error"]["errors"][0]["location"], "q");
        let message = answer.error(400, "invalidQuery");
        assert_eq!(
            message,
            "Syntax error: Unexpected identifier \"SELEC\" at [1:1]"
        );
    }
    local.get("jobs/typo").await.error(404, "notFound");
    // What is GoogleSQL and not known here fails when it runs.
    job["configuration"]["query"]["query"] = json!("EXPORT DATA OPTIONS(uri='x') AS SELECT 1");
    let failed = local.post("jobs", job).await.ok();
    let error = &failed["status"]["errorResult"];
    assert_eq!(error["reason"], "invalidQuery");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.ends_with("is not supported by bigquery-local"),
        "{message}"
    );
}
