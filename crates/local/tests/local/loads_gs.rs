//! Load and extract jobs over `gs://` addresses.

use reqwest::Method;
use serde_json::{Value, json};

use crate::append::query;
use crate::harness::{Local, PROJECT};

async fn start() -> Local {
    let local = Local::with_dataset().await;
    let url = format!("{}/storage/v1/b?project=p", local.server.storage_endpoint());
    local
        .call(Method::POST, &url, &[], Some(json!({"name": "bucket"})))
        .await
        .ok();
    local
}

async fn put(local: &Local, name: &str, data: &str) {
    let url = format!("{}/bucket/{name}", local.server.storage_endpoint());
    let answer = local
        .client
        .put(url)
        .body(data.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
}

async fn object(local: &Local, name: &str) -> String {
    let url = format!("{}/bucket/{name}", local.server.storage_endpoint());
    let answer = local.client.get(url).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{name}");
    answer.text().await.unwrap()
}

/// Runs a job to its end.
async fn run(local: &Local, configuration: Value) -> Value {
    let job = local
        .post("jobs", json!({"configuration": configuration}))
        .await
        .ok();
    let id = job["jobReference"]["jobId"].as_str().unwrap().to_string();
    loop {
        let job = local.get(&format!("jobs/{id}?location=US")).await.ok();
        if job["status"]["state"] == "DONE" {
            return job;
        }
        tokio::task::yield_now().await;
    }
}

fn table() -> Value {
    json!({"projectId": PROJECT, "datasetId": "d", "tableId": "t"})
}

fn load(uris: &[&str]) -> Value {
    json!({"load": {
        "sourceUris": uris, "destinationTable": table(),
        "schema": {"fields": [{"name": "id", "type": "INTEGER"}, {"name": "s", "type": "STRING"}]},
    }})
}

#[tokio::test]
async fn wildcards_and_several_addresses() {
    let local = start().await;
    for (name, data) in [
        ("in%2Fpart-1.csv", "1,a\n"),
        ("in%2Fdeep%2Fpart-2.csv", "2,b\n"),
        ("in%2Fpart-3.txt", "x,x\n"),
        ("last.csv", "4,d\n"),
    ] {
        put(&local, name, data).await;
    }
    let job = run(
        &local,
        load(&["gs://bucket//in/*.csv", "gs://bucket/last.csv"]),
    )
    .await;
    assert_eq!(job["status"]["errorResult"], Value::Null, "{job}");
    let counts = &job["statistics"]["load"];
    assert_eq!(
        (&counts["inputFiles"], &counts["outputRows"]),
        (&json!("3"), &json!("3"))
    );
    let rows = query(&local, "SELECT id, s FROM d.t ORDER BY id").await;
    assert_eq!(
        rows,
        [json!(["1", "a"]), json!(["2", "b"]), json!(["4", "d"])]
    );
}

#[tokio::test]
async fn addresses_that_lead_nowhere() {
    let local = start().await;
    for uri in [
        "gs://bucket/absent",
        "gs://bucket/absent-*",
        "gs://nowhere/o",
    ] {
        let job = run(&local, load(&[uri])).await;
        let error = &job["status"]["errorResult"];
        assert_eq!(error["reason"], "notFound", "{job}");
        assert_eq!(error["message"], format!("Not found: URI {uri}"));
    }
    for uri in [
        "s3://bucket/o",
        "gs://bucket",
        "gs://bucket/*/*",
        "gs://buck*t/o",
    ] {
        let answer = local
            .post("jobs", json!({"configuration": load(&[uri])}))
            .await;
        answer.error(400, "invalid");
    }
    // What fails leaves nothing, also of the files that were there.
    put(&local, "good.csv", "1,a\n").await;
    run(
        &local,
        load(&["gs://bucket/good.csv", "gs://bucket/absent"]),
    )
    .await;
    assert_eq!(local.get("datasets/d/tables/t").await.status, 404);
}

#[tokio::test]
async fn buckets_are_where_their_dataset_is() {
    let local = start().await;
    let dataset = json!({"datasetReference": {"datasetId": "eu"}, "location": "EU"});
    local.post("datasets", dataset).await.ok();
    put(&local, "o.csv", "1,a\n").await;
    let mut configuration = load(&["gs://bucket/o.csv"]);
    configuration["load"]["destinationTable"]["datasetId"] = json!("eu");
    let job = local
        .post("jobs", json!({"configuration": configuration}))
        .await
        .ok();
    let id = job["jobReference"]["jobId"].as_str().unwrap();
    loop {
        let job = local.get(&format!("jobs/{id}?location=EU")).await.ok();
        if job["status"]["state"] == "DONE" {
            let message = job["status"]["errorResult"]["message"].as_str().unwrap();
            assert!(message.contains("different locations"), "{message}");
            return;
        }
    }
}

#[tokio::test]
async fn tables_are_extracted_and_load_again() {
    let local = start().await;
    put(&local, "in.csv", "1,a\n2,\"b,c\"\n").await;
    run(&local, load(&["gs://bucket/in.csv"])).await;
    let extract = |uris: &[&str], more: Value| {
        let mut extract = json!({"sourceTable": table(), "destinationUris": uris});
        for (key, value) in more.as_object().unwrap() {
            extract[key] = value.clone();
        }
        json!({"extract": extract})
    };
    let job = run(
        &local,
        extract(&["gs://bucket/out.csv"], json!({"fieldDelimiter": "|"})),
    )
    .await;
    assert_eq!(job["status"]["errorResult"], Value::Null, "{job}");
    assert_eq!(
        job["statistics"]["extract"]["destinationUriFileCounts"],
        json!(["1"])
    );
    assert_eq!(object(&local, "out.csv").await, "id|s\n1|a\n2|b,c\n");
    let bare = json!({"printHeader": false});
    run(&local, extract(&["gs://bucket/bare.csv"], bare)).await;
    assert_eq!(object(&local, "bare.csv").await, "1,a\n2,\"b,c\"\n");
    let json_lines = json!({"destinationFormat": "NEWLINE_DELIMITED_JSON"});
    let job = run(
        &local,
        extract(&["gs://bucket/a-*", "gs://bucket/b-*"], json_lines),
    )
    .await;
    assert_eq!(
        job["statistics"]["extract"]["destinationUriFileCounts"],
        json!(["1", "1"])
    );
    let first = object(&local, "a-000000000000").await;
    assert_eq!(
        first,
        "{\"id\":\"1\",\"s\":\"a\"}\n{\"id\":\"2\",\"s\":\"b,c\"}\n"
    );
    assert_eq!(object(&local, "b-000000000000").await, "");
    for format in ["AVRO", "PARQUET"] {
        let name = format!("gs://bucket/{format}-*");
        run(
            &local,
            extract(
                &[&name],
                json!({"destinationFormat": format, "compression": "SNAPPY"}),
            ),
        )
        .await;
        let again = json!({"load": {
            "sourceUris": [name], "sourceFormat": format, "writeDisposition": "WRITE_TRUNCATE",
            "destinationTable": {"projectId": PROJECT, "datasetId": "d", "tableId": "u"},
        }});
        let job = run(&local, again).await;
        assert_eq!(job["status"]["errorResult"], Value::Null, "{job}");
        let rows = query(&local, "SELECT id, s FROM d.u ORDER BY id").await;
        assert_eq!(rows, [json!(["1", "a"]), json!(["2", "b,c"])], "{format}");
    }
}

#[tokio::test]
async fn extracts_that_cannot_be() {
    let local = start().await;
    local
        .table(json!([{"name": "r", "type": "INTEGER", "mode": "REPEATED"}]))
        .await;
    let extract = |change: Value| {
        let mut extract = json!({"sourceTable": table(), "destinationUris": ["gs://bucket/o"]});
        for (key, value) in change.as_object().unwrap() {
            extract[key] = value.clone();
        }
        json!({"configuration": {"extract": extract}})
    };
    for bad in [
        json!({"destinationUris": []}),
        json!({"destinationUris": ["gs://bucket/a", "gs://bucket/b"]}),
        json!({"compression": "SNAPPY"}),
        json!({"destinationFormat": "ORC"}),
        json!({"fieldDelimiter": "ab"}),
    ] {
        local.post("jobs", extract(bad)).await.error(400, "invalid");
    }
    let nested = run(&local, extract(json!({}))["configuration"].clone()).await;
    let message = nested["status"]["errorResult"]["message"].as_str().unwrap();
    assert!(message.contains("nested schema. Field: r"), "{message}");
    let nowhere = json!({"destinationUris": ["gs://nowhere/o"], "destinationFormat": "AVRO"});
    let job = run(&local, extract(nowhere)["configuration"].clone()).await;
    assert_eq!(job["status"]["errorResult"]["reason"], "notFound");
}
