use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Local, PROJECT};

fn reference(id: &str) -> Value {
    json!({"datasetReference": {"projectId": PROJECT, "datasetId": id}})
}

#[tokio::test]
async fn life_of_a_dataset() {
    let local = Local::start().await;
    let mut body = reference("d");
    body["labels"] = json!({"a": "b", "c": ""});
    body["friendlyName"] = json!("D");
    body["defaultTableExpirationMs"] = json!(3_600_000);
    let made = local.post("datasets", body).await.ok();
    assert_eq!(made["kind"], "bigquery#dataset");
    assert_eq!(made["id"], "local:d");
    assert_eq!(made["location"], "US");
    assert_eq!(made["type"], "DEFAULT");
    assert_eq!(made["defaultTableExpirationMs"], "3600000");
    assert_eq!(made["access"].as_array().unwrap().len(), 4);
    assert!(
        made["creationTime"]
            .as_str()
            .unwrap()
            .parse::<i64>()
            .unwrap()
            > 1_700_000_000_000
    );
    let got = local.get("datasets/d").await;
    assert_eq!(got.etag.as_deref(), made["etag"].as_str());
    assert_eq!(got.ok(), made);
    let link = made["selfLink"].as_str().unwrap();
    let linked = local.call(Method::GET, link, &[], None).await.ok();
    assert_eq!(linked["id"], "local:d");

    let patched = local
        .patch(
            "datasets/d",
            json!({"description": "x", "labels": {"a": null, "z": "1"}}),
        )
        .await
        .ok();
    assert_eq!(patched["labels"], json!({"c": "", "z": "1"}));
    assert_eq!(patched["friendlyName"], "D");
    assert_ne!(patched["etag"], made["etag"]);
    let replaced = local
        .put("datasets/d", json!({"labels": {"only": "this"}}))
        .await
        .ok();
    assert_eq!(replaced["labels"], json!({"only": "this"}));
    assert_eq!(replaced["friendlyName"], Value::Null);
    assert_eq!(replaced["defaultTableExpirationMs"], Value::Null);
    assert_eq!(replaced["creationTime"], made["creationTime"]);
    // Nothing changes, so the etag stays.
    let same = local
        .put("datasets/d", json!({"labels": {"only": "this"}}))
        .await
        .ok();
    assert_eq!(same["etag"], replaced["etag"]);

    let deleted = local.delete("datasets/d").await;
    assert_eq!((deleted.status, deleted.body), (204, Value::Null));
    let message = local.get("datasets/d").await.error(404, "notFound");
    assert_eq!(message, "Not found: Dataset local:d");
}

#[tokio::test]
async fn etags_guard_changes() {
    let local = Local::with_dataset().await;
    let old = local.get("datasets/d").await.ok()["etag"]
        .as_str()
        .unwrap()
        .to_string();
    local
        .patch("datasets/d", json!({"description": "1"}))
        .await
        .ok();
    let url = local.url("datasets/d");
    let stale = [("If-Match", old.as_str())];
    for method in [Method::PATCH, Method::PUT, Method::DELETE] {
        let message = local
            .call(method, &url, &stale, Some(json!({"description": "2"})))
            .await
            .error(412, "conditionNotMet");
        assert_eq!(message, "Precondition check failed.");
    }
    let now = local.get("datasets/d").await.ok();
    assert_eq!(now["description"], "1");
    let etag = now["etag"].as_str().unwrap();
    let quoted = format!("\"{etag}\"");
    let fresh = [("If-Match", quoted.as_str())];
    local
        .call(
            Method::PATCH,
            &url,
            &fresh,
            Some(json!({"description": "2"})),
        )
        .await
        .ok();
    let etag = local.get("datasets/d").await.ok()["etag"]
        .as_str()
        .unwrap()
        .to_string();
    let unchanged = local
        .call(Method::GET, &url, &[("If-None-Match", &etag)], None)
        .await;
    assert_eq!((unchanged.status, unchanged.body), (304, Value::Null));
}

#[tokio::test]
async fn lists_page_filter_and_hide() {
    let local = Local::start().await;
    for (id, label) in [("b", "1"), ("a", "1"), ("c", "2"), ("_anonymous", "1")] {
        let mut body = reference(id);
        body["labels"] = json!({"k": label});
        local.post("datasets", body).await.ok();
    }
    let ids = |answer: &Value| -> Vec<String> {
        answer["datasets"]
            .as_array()
            .map(|list| {
                list.iter()
                    .map(|d| {
                        d["datasetReference"]["datasetId"]
                            .as_str()
                            .unwrap()
                            .to_string()
                    })
                    .collect()
            })
            .unwrap_or_default()
    };
    let all = local.get("datasets").await.ok();
    assert_eq!(all["kind"], "bigquery#datasetList");
    assert_eq!(ids(&all), ["a", "b", "c"]);
    assert_eq!(all["datasets"][0]["labels"], json!({"k": "1"}));
    assert_eq!(all["nextPageToken"], Value::Null);
    assert_eq!(ids(&local.get("datasets?all=true").await.ok()).len(), 4);
    assert_eq!(
        ids(&local.get("datasets?filter=labels.k:1").await.ok()),
        ["a", "b"]
    );
    let first = local.get("datasets?maxResults=2").await.ok();
    assert_eq!(ids(&first), ["a", "b"]);
    let token = first["nextPageToken"].as_str().unwrap();
    // A dataset that went between two pages moves no other.
    local.delete("datasets/a").await.ok();
    let second = local
        .get(&format!("datasets?maxResults=2&pageToken={token}"))
        .await
        .ok();
    assert_eq!(ids(&second), ["c"]);
    assert_eq!(second["nextPageToken"], Value::Null);
    local
        .get("datasets?pageToken=nonsense")
        .await
        .error(400, "invalid");
    local
        .get("datasets?maxResults=x")
        .await
        .error(400, "invalid");
    let other = format!("{}/projects/other/datasets", local.server.rest_endpoint());
    let none = local.call(Method::GET, &other, &[], None).await.ok();
    assert_eq!(none["datasets"], Value::Null);
}

#[tokio::test]
async fn refusals_say_what_is_wrong() {
    let local = Local::with_dataset().await;
    let message = local
        .post("datasets", reference("d"))
        .await
        .error(409, "duplicate");
    assert_eq!(message, "Already Exists: Dataset local:d");
    for (body, words) in [
        (reference("a-b"), "Invalid dataset ID \"a-b\""),
        (json!({}), "datasetReference.datasetId"),
        (
            json!({"datasetReference": {"projectId": "other", "datasetId": "x"}}),
            "does not agree",
        ),
        (
            json!({"datasetReference": {"datasetId": "x"}, "labels": {"A": "b"}}),
            "Label key \"A\"",
        ),
        (
            json!({"datasetReference": {"datasetId": "x"}, "labels": {"a": "B"}}),
            "Label value \"B\"",
        ),
        (
            json!({"datasetReference": {"datasetId": "x"}, "defaultTableExpirationMs": "1"}),
            "minimum of 3600000",
        ),
        (
            json!({"datasetReference": {"datasetId": "x"}, "location": "a b"}),
            "Invalid location",
        ),
        (
            json!({"datasetReference": {"datasetId": "x"}, "description": 1}),
            "not a string",
        ),
        (
            json!({"datasetReference": {"datasetId": "x"}, "maxTimeTravelHours": "47"}),
            "between 48 and 168",
        ),
    ] {
        let message = local.post("datasets", body).await.error(400, "invalid");
        assert!(message.contains(words), "{message}");
    }
    local
        .patch("datasets/nope", json!({}))
        .await
        .error(404, "notFound");
    local
        .patch("datasets/d", json!({"location": "EU"}))
        .await
        .error(400, "invalid");
    local.delete("datasets/nope").await.error(404, "notFound");
    local.get("datasets/d/routines").await.ok();
    local
        .get("datasets/nope/routines")
        .await
        .error(404, "notFound");

    local.table(json!([{"name": "a", "type": "STRING"}])).await;
    let message = local.delete("datasets/d").await.error(400, "resourceInUse");
    assert_eq!(message, "Dataset local:d is still in use");
    assert_eq!(
        local.delete("datasets/d?deleteContents=true").await.status,
        204
    );
    local
        .get("datasets/d/tables/t")
        .await
        .error(404, "notFound");
}

#[tokio::test]
async fn every_path_answers_without_the_prefix() {
    let local = Local::with_dataset().await;
    let root = local.server.rest_endpoint();
    for path in [
        "/projects/local/datasets/d",
        "/bigquery/v2/projects/local/datasets/d",
    ] {
        local
            .call(Method::GET, &format!("{root}{path}"), &[], None)
            .await
            .ok();
    }
    let projects = local
        .call(Method::GET, &format!("{root}/projects"), &[], None)
        .await
        .ok();
    assert_eq!(projects["projects"][0]["id"], "local");
    assert_eq!(projects["totalItems"], 1);
    for path in [
        "/$discovery/rest?version=v2",
        "/discovery/v1/apis/bigquery/v2/rest",
    ] {
        let document = local
            .call(Method::GET, &format!("{root}{path}"), &[], None)
            .await
            .ok();
        assert_eq!(document["rootUrl"], format!("{root}/"));
    }
    local
        .call(Method::GET, &format!("{root}/nothing"), &[], None)
        .await
        .error(404, "notFound");
    local
        .call(
            Method::PATCH,
            &format!("{root}/projects"),
            &[],
            Some(json!({})),
        )
        .await
        .error(405, "notImplemented");
}

#[tokio::test]
async fn bodies_are_parsed_with_care() {
    let local = Local::start().await;
    let url = local.url("datasets");
    let send = async |request: reqwest::RequestBuilder| {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json::<Value>().await.unwrap())
    };
    for bad in ["{", "[]", "1", "\u{0}"] {
        let (status, body) = send(local.client.post(&url).body(bad)).await;
        assert_eq!(
            (status, &body["error"]["errors"][0]["reason"]),
            (400, &json!("parseError")),
            "{bad}"
        );
    }
    let huge = vec![b' '; (64 << 20) + 1];
    let (status, body) = send(local.client.post(&url).body(huge)).await;
    assert_eq!(
        (status, &body["error"]["errors"][0]["reason"]),
        (413, &json!("requestTooLarge"))
    );
    let overridden = [("X-HTTP-Method-Override", "PATCH")];
    local.post("datasets", reference("d")).await.ok();
    let patched = local
        .call(
            Method::POST,
            &local.url("datasets/d"),
            &overridden,
            Some(json!({"description": "x"})),
        )
        .await
        .ok();
    assert_eq!(patched["description"], "x");
}
