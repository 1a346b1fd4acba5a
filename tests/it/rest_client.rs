//! The REST client against answers of every kind.

use std::time::{Duration, Instant};

use datafusion_bigquery::client::rest::model::TableKind;
use datafusion_bigquery::error::ErrorKind;
use datafusion_bigquery::types::{DatasetRef, TableRef};
use serde_json::json;

use super::fake_rest::{Answer, FakeRest, rest_client};

fn table() -> TableRef {
    "my-p.d.t x".parse().unwrap()
}

fn table_answer() -> Answer {
    Answer::json(
        200,
        &json!({
            "tableReference": {"projectId": "my-p", "datasetId": "d", "tableId": "t x"},
            "type": "TABLE",
            "schema": {"fields": [{"name": "n", "type": "INTEGER"}]},
        }),
    )
}

#[tokio::test]
async fn tables_are_asked_for_by_escaped_paths() {
    let server = FakeRest::start(|_, _| table_answer()).await;
    let found = server.client().get_table(&table()).await.unwrap();
    assert_eq!(found.kind, TableKind::Table);
    assert_eq!(
        server.calls(),
        ["/bigquery/v2/projects/my-p/datasets/d/tables/t%20x"]
    );
    let headers = server.headers().remove(0);
    assert!(headers.get("authorization").is_none());
    assert!(
        headers["user-agent"]
            .to_str()
            .unwrap()
            .starts_with("datafusion-bigquery/")
    );
}

#[tokio::test]
async fn an_endpoint_may_already_name_the_version() {
    let server = FakeRest::start(|_, _| table_answer()).await;
    let client = rest_client(&format!("{}/bigquery/v2/", server.endpoint()));
    client.get_table(&table()).await.unwrap();
    assert!(server.calls()[0].starts_with("/bigquery/v2/projects/"));
}

#[tokio::test]
async fn a_missing_table_is_named_with_what_to_check() {
    let server =
        FakeRest::start(|_, _| Answer::error(404, "notFound", "Not found: Dataset my-p:d")).await;
    let error = server.client().get_table(&table()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    for part in ["my-p.d.t x", "Not found: Dataset my-p:d", "check"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn passing_failures_are_tried_again() {
    let server = FakeRest::start(|call, _| match call {
        0 => Answer::error(503, "backendError", "down"),
        1 => Answer::error(403, "rateLimitExceeded", "slow down"),
        _ => table_answer(),
    })
    .await;
    server.client().get_table(&table()).await.unwrap();
    assert_eq!(server.calls().len(), 3);
}

#[tokio::test]
async fn lasting_failures_are_given_up() {
    let server = FakeRest::start(|_, _| Answer::error(503, "backendError", "down")).await;
    let error = server.client().get_table(&table()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(server.calls().len(), 4);
    for part in ["my-p.d.t x", "4 attempts", "down"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn refusals_are_not_tried_again() {
    for (status, reason, kind) in [
        (401, "authError", ErrorKind::Unauthenticated),
        (403, "accessDenied", ErrorKind::PermissionDenied),
        (403, "quotaExceeded", ErrorKind::ResourceExhausted),
        (400, "invalid", ErrorKind::InvalidArgument),
    ] {
        let server = FakeRest::start(move |_, _| Answer::error(status, reason, "told so")).await;
        let error = server.client().get_table(&table()).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(server.calls().len(), 1, "{reason}");
        assert!(error.to_string().contains("told so"), "{error}");
        assert!(error.to_string().contains("my-p.d.t x"), "{error}");
    }
}

#[tokio::test]
async fn answers_that_are_not_the_services_are_errors() {
    for (body, status) in [("<html>", 200), ("[1]", 200), ("", 200), ("<html>", 404)] {
        let server = FakeRest::start(move |_, _| Answer {
            status,
            headers: vec![],
            body: body.into(),
        })
        .await;
        let error = server.client().get_table(&table()).await.unwrap_err();
        assert!(error.to_string().contains("my-p.d.t x"), "{body}: {error}");
        assert!(!error.to_string().contains("html"), "{error}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = FakeRest::start(|_, _| table_answer()).await;
    let target = elsewhere.endpoint().to_string();
    let server = FakeRest::start(move |_, _| Answer {
        status: 307,
        headers: vec![("location", target.clone())],
        body: vec![],
    })
    .await;
    server.client().get_table(&table()).await.unwrap_err();
    assert!(elsewhere.calls().is_empty());
}

#[tokio::test]
async fn a_stopped_server_is_named_with_its_option() {
    let started = Instant::now();
    let error = rest_client("http://127.0.0.1:1")
        .get_table(&table())
        .await
        .unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    for part in [
        "nothing answers at http://127.0.0.1:1",
        "'rest_endpoint'",
        "my-p.d.t x",
    ] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn every_page_of_a_list_is_read() {
    let server = FakeRest::start(|call, path| {
        let item = |name: &str| {
            if path.contains("/tables") {
                json!({"tableReference": {"projectId": "p", "datasetId": "d", "tableId": name}})
            } else {
                json!({"datasetReference": {"projectId": "p", "datasetId": name}})
            }
        };
        let items = json!([item(&format!("a{call}")), item(&format!("b{call}"))]);
        let mut page = json!({"tables": items, "datasets": items});
        if path.contains("/tables") {
            page.as_object_mut().unwrap().remove("datasets");
        } else {
            page.as_object_mut().unwrap().remove("tables");
        }
        if call % 3 < 2 {
            page["nextPageToken"] = json!(format!("to ken&{call}"));
        }
        Answer::json(200, &page)
    })
    .await;
    let client = server.client();
    let dataset = DatasetRef::new("p", "d").unwrap();
    let tables = client.list_tables(&dataset).await.unwrap();
    let names: Vec<_> = tables
        .iter()
        .map(|item| item.reference.table.as_str())
        .collect();
    assert_eq!(names, ["a0", "b0", "a1", "b1", "a2", "b2"]);
    let datasets = client.list_datasets("p").await.unwrap();
    assert_eq!(datasets.len(), 6);
    assert!(
        server.calls()[1].contains("pageToken=to+ken%260"),
        "{:?}",
        server.calls()
    );
}

#[tokio::test]
async fn a_list_that_never_ends_is_an_error() {
    let server =
        FakeRest::start(|_, _| Answer::json(200, &json!({"nextPageToken": "again"}))).await;
    let error = server.client().list_datasets("p").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert_eq!(server.calls().len(), 2);
}

#[tokio::test]
async fn an_empty_list_is_empty() {
    let server = FakeRest::start(|_, _| Answer::json(200, &json!({"kind": "x"}))).await;
    assert!(server.client().list_datasets("p").await.unwrap().is_empty());
}
