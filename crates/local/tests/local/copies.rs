//! Copy jobs.

use serde_json::{Value, json};

use crate::harness::{Local, PROJECT};

fn table(id: &str) -> Value {
    json!({"projectId": PROJECT, "datasetId": "d", "tableId": id})
}

impl Local {
    /// Copies between tables of `d`; the job must be done, well or not.
    async fn copy(&self, sources: &[&str], destination: &str, copy: Value) -> Value {
        let mut own = json!({
            "sourceTables": sources.iter().map(|s| table(s)).collect::<Value>(),
            "destinationTable": table(destination),
        });
        let map = own.as_object_mut().expect("an object");
        map.extend(copy.as_object().expect("an object").clone());
        let job = json!({"configuration": {"copy": own}});
        let job = self.post("jobs", job).await.ok();
        assert_eq!(job["status"]["state"], "DONE", "{job}");
        job
    }

    async fn rows_of(&self, id: &str) -> Vec<String> {
        let mut rows = self
            .first_column(&format!("datasets/d/tables/{id}/data"))
            .await;
        rows.sort();
        rows
    }
}

fn error(job: &Value) -> (&str, &str) {
    let error = &job["status"]["errorResult"];
    (
        error["reason"].as_str().unwrap_or("none"),
        error["message"].as_str().unwrap_or("none"),
    )
}

async fn with_rows() -> Local {
    let local = Local::with_dataset().await;
    local
        .table_with(json!({
            "schema": {"fields": [
                {"name": "a", "type": "INTEGER", "mode": "REQUIRED", "description": "the key"},
                {"name": "d", "type": "DATE"}]},
            "timePartitioning": {"type": "DAY", "field": "d"}, "clustering": {"fields": ["a"]},
            "tableConstraints": {"primaryKey": {"columns": ["a"]}}
        }))
        .await;
    local
        .insert(&[
            json!({"a": 1, "d": "2024-01-01"}),
            json!({"a": 2, "d": "2024-01-02"}),
        ])
        .await;
    local
}

#[tokio::test]
async fn dispositions() {
    let local = with_rows().await;
    let job = local.copy(&["t"], "c", json!({})).await;
    assert_eq!(error(&job), ("none", "none"));
    assert_eq!(
        job["statistics"]["copy"],
        json!({"copiedRows": "2", "copiedLogicalBytes": "32"})
    );
    let copied = local.get("datasets/d/tables/c").await.ok();
    let source = local.get("datasets/d/tables/t").await.ok();
    for key in [
        "schema",
        "timePartitioning",
        "clustering",
        "tableConstraints",
    ] {
        assert_eq!(copied[key], source[key], "{key}");
    }
    let again = local.copy(&["t"], "c", json!({})).await;
    assert_eq!(
        error(&again),
        ("duplicate", "Already Exists: Table local:d.c")
    );
    local
        .copy(&["t"], "c", json!({"writeDisposition": "WRITE_APPEND"}))
        .await;
    assert_eq!(local.rows_of("c").await, ["1", "1", "2", "2"]);
    local
        .copy(&["t"], "c", json!({"writeDisposition": "WRITE_TRUNCATE"}))
        .await;
    assert_eq!(local.rows_of("c").await, ["1", "2"]);
    let never = local
        .copy(&["t"], "n", json!({"createDisposition": "CREATE_NEVER"}))
        .await;
    assert_eq!(error(&never), ("notFound", "Not found: Table local:d.n"));
}

#[tokio::test]
async fn several_sources_and_one_partition() {
    let local = with_rows().await;
    local.copy(&["t"], "u", json!({})).await;
    local.copy(&["t", "u"], "both", json!({})).await;
    assert_eq!(local.rows_of("both").await, ["1", "1", "2", "2"]);
    local.copy(&["t$20240102"], "one", json!({})).await;
    assert_eq!(local.rows_of("one").await, ["2"]);
    let replace = json!({"writeDisposition": "WRITE_TRUNCATE"});
    local.copy(&["one"], "both$20240102", replace.clone()).await;
    assert_eq!(local.rows_of("both").await, ["1", "1", "2"]);
    let wrong = local.copy(&["one"], "both$20240101", replace).await;
    assert!(error(&wrong).1.contains("different partitions"), "{wrong}");
    assert_eq!(local.rows_of("both").await, ["1", "1", "2"]);
}

#[tokio::test]
async fn schemas_must_agree() {
    let local = with_rows().await;
    let other = json!({
        "tableReference": table("other"),
        "schema": {"fields": [{"name": "b", "type": "STRING"}]}
    });
    local.post("datasets/d/tables", other).await.ok();
    let append = json!({"writeDisposition": "WRITE_APPEND"});
    let job = local.copy(&["t"], "other", append.clone()).await;
    assert_eq!(error(&job).0, "invalid");
    assert!(
        error(&job)
            .1
            .contains("Provided Schema does not match Table local:d.other"),
        "{job}"
    );
    let job = local.copy(&["t", "other"], "x", append).await;
    assert_eq!(error(&job).0, "invalid");
    assert_eq!(local.get("datasets/d/tables/x").await.status, 404);
}

#[tokio::test]
async fn what_cannot_be_copied_is_refused() {
    let local = with_rows().await;
    let copy = |copy: Value| local.post("jobs", json!({"configuration": {"copy": copy}}));
    let missing = json!({"sourceTable": table("nope"), "destinationTable": table("c")});
    let message = copy(missing).await.error(404, "notFound");
    assert_eq!(message, "Not found: Table local:d.nope");
    let none = json!({"sourceTables": [], "destinationTable": table("c")});
    copy(none).await.error(400, "invalid");
    let snapshot = json!({
        "sourceTable": table("t"), "destinationTable": table("c"), "operationType": "SNAPSHOT"
    });
    let message = copy(snapshot).await.error(400, "invalid");
    assert!(
        message.contains("not supported by bigquery-local"),
        "{message}"
    );
    let data = json!({
        "sourceTable": table("t"), "destinationTable": table("c"),
        "writeDisposition": "WRITE_TRUNCATE_DATA"
    });
    copy(data).await.error(400, "invalid");
}
