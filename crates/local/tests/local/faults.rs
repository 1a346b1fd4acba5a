//! Failures on purpose, as clients see them.

use std::time::{Duration, Instant};

use bigquery_local::faults::{Action, Detached, Ending, Rule};
use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use prost::Message;
use reqwest::Method;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::harness::Local;
use crate::read::{Reader, batch, counted, numbers, payload, request, restricted, start};

fn add(local: &Local, rule: Rule) -> u64 {
    local.server.service().faults.add(rule).unwrap()
}

fn status(code: &str) -> Action {
    Action::Status {
        code: code.into(),
        message: "on purpose".into(),
        retry_after_ms: None,
        storage_error: None,
    }
}

#[tokio::test]
async fn rpcs_fail_with_a_status_and_its_details() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[10]).await;
    add(
        &local,
        Rule::once(
            "CreateReadSession",
            Action::Status {
                code: "RESOURCE_EXHAUSTED".into(),
                message: "a \"quota\" — über".into(),
                retry_after_ms: Some(1250),
                storage_error: Some("STREAM_FINALIZED".into()),
            },
        ),
    );
    let error = reader.try_session(request()).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert_eq!(error.message(), "a \"quota\" — über");
    let whole = googleapis_storage::google::rpc::Status::decode(error.details()).unwrap();
    assert_eq!(whole.code, 8);
    let info = googleapis_storage::google::rpc::RetryInfo::decode(&*whole.details[0].value);
    let delay = info.unwrap().retry_delay.unwrap();
    assert_eq!((delay.seconds, delay.nanos), (1, 250_000_000));
    let storage = api::StorageError::decode(&*whole.details[1].value).unwrap();
    assert_eq!(
        storage.code(),
        api::storage_error::StorageErrorCode::StreamFinalized
    );
    let session = reader.session(request()).await;

    // The second ReadRows on this table, not on others.
    let rule = Rule::once("ReadRows", status("UNAVAILABLE")).after(1);
    let id = add(&local, rule.clone().on_table("local.d.t"));
    add(&local, rule.on_table("local.d.other"));
    let stream = &session.streams[0].name;
    assert_eq!(reader.read(stream, 0).await.len(), 1);
    let error = reader.try_read(stream, 0).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::Unavailable, "on purpose")
    );
    assert_eq!(reader.read(stream, 0).await.len(), 1);
    let state = local.server.service().faults.rule(id).unwrap();
    assert_eq!((state.seen, state.acted), (3, 1));
}

#[tokio::test]
async fn refused_restrictions_expired_sessions_and_rates() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[10]).await;
    add(
        &local,
        Rule::once("CreateReadSession", Action::RefuseRestriction).always(),
    );
    let error = reader.try_session(restricted("id > 1")).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("too complex"), "{error}");
    let session = reader.session(request()).await;
    let stream = &session.streams[0].name;
    add(&local, Rule::once("ReadRows", Action::ExpireSession));
    let error = reader.try_read(stream, 0).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    let words = format!("there was an error operating on '{stream}': session expired at 2");
    assert!(error.message().starts_with(&words), "{error}");
    add(
        &local,
        Rule::once(
            "*",
            Action::RateLimit {
                retry_after_ms: Some(5),
            },
        ),
    );
    let error = reader.try_read(stream, 0).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(!error.details().is_empty());
    add(
        &local,
        Rule::once(
            "*",
            Action::RateLimit {
                retry_after_ms: None,
            },
        ),
    );
    local
        .get("datasets/d")
        .await
        .error(403, "rateLimitExceeded");
}

async fn messages_until_error(
    reader: &Reader,
    stream: &str,
) -> (Vec<api::ReadRowsResponse>, Option<Status>) {
    let request = api::ReadRowsRequest {
        read_stream: stream.to_string(),
        offset: 0,
    };
    let mut stream = match reader.client().read_rows(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return (Vec::new(), Some(status)),
    };
    let mut all = Vec::new();
    loop {
        match stream.message().await {
            Ok(Some(message)) => all.push(message),
            Ok(None) => return (all, None),
            Err(status) => return (all, Some(status)),
        }
    }
}

#[tokio::test]
async fn streams_end_early_or_carry_wrong_messages() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[300_000]).await;
    let session = reader.session(request()).await;
    let stream = &session.streams[0].name;
    let all = reader.read(stream, 0).await;
    assert!(all.len() > 3);
    for (messages, ending, code) in [
        (2, Ending::Ok, None),
        (0, Ending::Ok, None),
        (3, Ending::Unavailable, Some(Code::Unavailable)),
        (1, Ending::Reset, Some(Code::Internal)),
    ] {
        add(
            &local,
            Rule::once("ReadRows", Action::Truncate { messages, ending }),
        );
        let (got, error) = messages_until_error(&reader, stream).await;
        assert_eq!(got.len() as u64, messages, "{ending:?}");
        assert_eq!(error.map(|e| e.code()), code, "{ending:?}");
        assert_eq!(got, all[..got.len()]);
    }
    add(
        &local,
        Rule::once(
            "ReadRows",
            Action::RowCount {
                message: 1,
                add: -1,
            },
        ),
    );
    let got = reader.read(stream, 0).await;
    assert_eq!(got[0], all[0]);
    assert_eq!(got[1].row_count, all[1].row_count - 1);
    assert_eq!(got[1].rows, all[1].rows);
    assert_eq!(got[2..], all[2..]);
    add(
        &local,
        Rule::once("ReadRows", Action::Corrupt { message: 1 }),
    );
    let got = reader.read(stream, 0).await;
    assert_eq!(got[0], all[0]);
    assert_ne!(got[1].rows, all[1].rows);
    assert_eq!(payload(&got[1]).len(), payload(&all[1]).len());
    assert_eq!(got[2..], all[2..]);
    assert_eq!(reader.read(stream, 0).await, all);
}

#[tokio::test]
async fn connections_are_reset() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[10]).await;
    let session = reader.session(request()).await;
    let stream = session.streams[0].name.clone();
    add(&local, Rule::once("ReadRows", Action::Reset));
    let error = reader.try_read(&stream, 0).await.unwrap_err();
    assert!(
        matches!(
            error.code(),
            Code::Unknown | Code::Unavailable | Code::Cancelled
        ),
        "{error:?}"
    );
    // The channel connects again.
    assert_eq!(reader.read(&stream, 0).await.len(), 1);
    add(&local, Rule::once("datasets.get", Action::Reset));
    let failed = local.client.get(local.url("datasets/d")).send().await;
    assert!(failed.unwrap_err().is_request());
    local.get("datasets/d").await.ok();
}

#[tokio::test]
async fn connections_go_away() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[300_000]).await;
    let session = reader.session(request()).await;
    let stream = session.streams[0].name.clone();
    let all = reader.read(&stream, 0).await;
    for _ in 0..3 {
        // Running calls finish, later ones use another connection.
        add(
            &local,
            Rule::once(
                "ReadRows",
                Action::Goaway {
                    streams: Detached::Finish,
                },
            ),
        );
        assert_eq!(reader.read(&stream, 0).await, all);
        assert_eq!(reader.read(&stream, 0).await, all);
    }
    add(
        &local,
        Rule::once(
            "ReadRows",
            Action::Goaway {
                streams: Detached::Refuse,
            },
        ),
    );
    let (got, error) = messages_until_error(&reader, &stream).await;
    assert!(got.is_empty());
    assert!(error.is_some());
    assert_eq!(reader.read(&stream, 0).await, all);
}

#[tokio::test]
async fn delays_and_silence() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[10]).await;
    add(
        &local,
        Rule::once("CreateReadSession", Action::Delay { ms: 150 }),
    );
    add(
        &local,
        Rule::once("CreateReadSession", Action::Delay { ms: 150 }),
    );
    let started = Instant::now();
    let session = reader.session(request()).await;
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(reader.numbers(&session).await.len(), 10);
    add(&local, Rule::once("ReadRows", Action::Hang));
    let stream = session.streams[0].name.clone();
    let hanging = tokio::time::timeout(Duration::from_millis(300), reader.try_read(&stream, 0));
    assert!(hanging.await.is_err());
    add(&local, Rule::once("tables.get", Action::Hang));
    let hanging = local
        .client
        .get(local.url("datasets/d/tables/t"))
        .timeout(Duration::from_millis(300));
    assert!(hanging.send().await.unwrap_err().is_timeout());
    local.get("datasets/d/tables/t").await.ok();
}

#[tokio::test]
async fn calls_that_happen_unheard_or_twice() {
    let (local, _) = start(64 << 20).await;
    let resource = |table: &str| {
        json!({"tableReference": {"projectId": "local", "datasetId": "d", "tableId": table},
               "schema": {"fields": [{"name": "id", "type": "INTEGER"}]}})
    };
    add(
        &local,
        Rule::once("tables.insert", Action::LoseAnswer).on_table("local.d.lost"),
    );
    local.post("datasets/d/tables", resource("kept")).await.ok();
    let lost = local
        .client
        .post(local.url("datasets/d/tables"))
        .json(&resource("lost"))
        .send()
        .await;
    assert!(lost.is_err(), "{lost:?}");
    // It was made all the same.
    local.get("datasets/d/tables/lost").await.ok();

    add(
        &local,
        Rule::once("tabledata.insertAll", Action::ApplyTwice),
    );
    let answer = local
        .post(
            "datasets/d/tables/kept/insertAll",
            json!({"rows": [{"json": {"id": 1}}]}),
        )
        .await
        .ok();
    assert_eq!(answer["insertErrors"], Value::Null);
    let rows = local.get("datasets/d/tables/kept/data").await.ok();
    assert_eq!(rows["totalRows"], "2");

    let (local, reader) = start(64 << 20).await;
    counted(&local, &[10]).await;
    add(&local, Rule::once("CreateReadSession", Action::LoseAnswer));
    reader.try_session(request()).await.unwrap_err();
    assert_eq!(local.server.service().read_log().len(), 1);
    add(&local, Rule::once("CreateReadSession", Action::ApplyTwice));
    let session = reader.session(request()).await;
    assert_eq!(local.server.service().read_log().len(), 3);
    assert_eq!(reader.numbers(&session).await.len(), 10);
}

#[tokio::test]
async fn rules_over_http() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[10]).await;
    let url = format!("{}/_local/faults", local.server.rest_endpoint());
    let call = |method: Method, url: &str, body: Option<Value>| {
        let url = url.to_string();
        let local = &local;
        async move { local.call(method, &url, &[], body).await }
    };
    let none = call(Method::GET, &url, None).await.ok();
    assert_eq!(none, json!({"rules": []}));
    let added = call(
        Method::POST,
        &url,
        Some(json!({"method": "datasets.get", "times": null,
                    "action": {"http": {"status": 503, "reason": "backendError", "message": "m"}}})),
    )
    .await
    .ok();
    let id = added["ids"][0].as_u64().unwrap();
    assert_eq!(
        local.get("datasets/d").await.error(503, "backendError"),
        "m"
    );
    let state = call(Method::GET, &format!("{url}/{id}"), None).await.ok();
    assert_eq!(state["acted"], 1);
    assert_eq!(state["rule"]["action"]["http"]["status"], 503);
    let bad = call(
        Method::POST,
        &url,
        Some(json!({"method": "x", "action": "hang"})),
    )
    .await;
    assert!(bad.error(400, "invalid").contains("no method matches"));
    call(
        Method::PUT,
        &url,
        Some(json!({"seed": 3, "rules": [
            {"method": "CreateReadSession", "action": {"status": {"code": "ABORTED"}}},
            {"method": "ReadRows", "action": {"truncate": {"messages": 0, "ending": "ok"}}}]})),
    )
    .await
    .ok();
    local.get("datasets/d").await.ok();
    let error = reader.try_session(request()).await.unwrap_err();
    assert_eq!(error.code(), Code::Aborted);
    let session = reader.session(request()).await;
    assert!(reader.read(&session.streams[0].name, 0).await.is_empty());
    let rows = reader.read(&session.streams[0].name, 0).await;
    assert_eq!(numbers(&batch(&session, &rows[0])).len(), 10);
    let list = call(Method::GET, &url, None).await.ok();
    assert_eq!(list["rules"].as_array().unwrap().len(), 2);
    call(Method::DELETE, &url, None).await.ok();
    assert_eq!(call(Method::GET, &url, None).await.ok(), none);
    call(Method::DELETE, &format!("{url}/99"), None)
        .await
        .error(404, "notFound");
    call(Method::PATCH, &url, None).await.error(405, "invalid");
}
