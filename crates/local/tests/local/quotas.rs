//! Quotas, which are counted always and enforced on demand, and creation races.

use std::time::Duration;

use bigquery_local::quotas::{Quota, QuotaLimits};
use bigquery_local::{LocalBigQuery, LocalOptions, Realism};
use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use serde_json::{Value, json};
use tonic::Code;

use api::big_query_write_client::BigQueryWriteClient;
use api::write_stream::Type;
use api::{CreateWriteStreamRequest, WriteStream};

use crate::append::query;
use crate::harness::{Local, PROJECT};

async fn realistic(realism: Realism) -> Local {
    let options = LocalOptions {
        realism,
        ..LocalOptions::default()
    };
    let local = Local {
        server: LocalBigQuery::start(options).await.unwrap(),
        client: reqwest::Client::new(),
    };
    let dataset = json!({"datasetReference": {"projectId": PROJECT, "datasetId": "d"}});
    local.post("datasets", dataset).await.ok();
    local
}

fn resource(table: &str) -> Value {
    json!({
        "tableReference": {"projectId": PROJECT, "datasetId": "d", "tableId": table},
        "schema": {"fields": [{"name": "n", "type": "INTEGER"}]},
    })
}

/// Runs a job to its end and gives the reason why it failed, if it did.
async fn job(local: &Local, configuration: Value) -> Option<String> {
    let job = local
        .post("jobs", json!({"configuration": configuration}))
        .await
        .ok();
    let id = job["jobReference"]["jobId"].as_str().unwrap().to_string();
    loop {
        let job = local.get(&format!("jobs/{id}?location=US")).await.ok();
        if job["status"]["state"] == "DONE" {
            let reason = job["status"]["errorResult"]["reason"].as_str();
            return reason.map(str::to_string);
        }
        tokio::task::yield_now().await;
    }
}

fn copy(source: &str) -> Value {
    let named = |table: &str| json!({"projectId": PROJECT, "datasetId": "d", "tableId": table});
    json!({"copy": {
        "sourceTable": named(source), "destinationTable": named("t"),
        "writeDisposition": "WRITE_APPEND",
    }})
}

fn select() -> Value {
    let table = json!({"projectId": PROJECT, "datasetId": "d", "tableId": "t"});
    json!({"query": {
        "query": "SELECT 2 AS n", "useLegacySql": false, "destinationTable": table,
        "writeDisposition": "WRITE_APPEND",
    }})
}

/// Every kind of job that ends in a table counts, and those that fail count too.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_table_are_counted_and_refused_beyond_the_limit() {
    let local = realistic(Realism::default()).await;
    for table in ["t", "s", "other"] {
        local.post("datasets/d/tables", resource(table)).await.ok();
    }
    query(&local, "INSERT INTO d.s VALUES (1)").await;
    let quotas = &local.server.service().quotas;
    let limits = QuotaLimits {
        table_modifications: 3,
        ..QuotaLimits::default()
    };
    assert_eq!(job(&local, copy("s")).await, None);
    assert_eq!(job(&local, select()).await, None);
    // It fails at its destination, which must be empty.
    let mut failing = copy("s");
    failing["copy"]["writeDisposition"] = json!("WRITE_EMPTY");
    assert_eq!(job(&local, failing).await.as_deref(), Some("duplicate"));
    let resource = format!("{PROJECT}:d.t");
    assert_eq!(quotas.used(Quota::TableModifications, &resource), 3);
    // Counting alone refuses nothing.
    assert_eq!(job(&local, copy("s")).await, None);
    assert_eq!(quotas.used(Quota::TableModifications, &resource), 4);

    quotas.enforce(Some(limits));
    for configuration in [copy("s"), select()] {
        assert_eq!(
            job(&local, configuration).await.as_deref(),
            Some("quotaExceeded")
        );
    }
    assert_eq!(quotas.refused(Quota::TableModifications), 2);
    let rows = local.first_column("datasets/d/tables/t/data").await;
    assert_eq!(rows, ["1", "2", "1"]);
    // Another table has a quota of its own, and there is another day.
    let mut other = copy("s");
    other["copy"]["destinationTable"]["tableId"] = json!("other");
    assert_eq!(job(&local, other).await, None);
    quotas.reset();
    assert_eq!(job(&local, copy("s")).await, None);
    let list = local
        .call(
            reqwest::Method::GET,
            &format!("{}/_local/quotas", local.server.rest_endpoint()),
            &[],
            None,
        )
        .await
        .ok();
    let listed = list["quotas"].as_array().unwrap().iter();
    let listed: Vec<_> = listed
        .filter(|quota| quota["quota"] == "table_modifications")
        .collect();
    assert_eq!(listed.len(), 1, "{list}");
    assert_eq!(listed[0]["resource"], resource);
    assert_eq!(
        (&listed[0]["used"], &listed[0]["limit"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(list["documentedLimits"]["table_modifications"], 1_500);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_and_creations_are_refused_beyond_the_limit() {
    let local = realistic(Realism {
        quotas: Some(QuotaLimits {
            table_updates: 2,
            dataset_updates: 1,
            ..QuotaLimits::default()
        }),
        ..Realism::default()
    })
    .await;
    local.post("datasets/d/tables", resource("t")).await.ok();
    local.post("datasets/d/tables", resource("u")).await.ok();
    let describe = json!({"description": "x"});
    for _ in 0..2 {
        local
            .patch("datasets/d/tables/t", describe.clone())
            .await
            .ok();
    }
    let quotas = &local.server.service().quotas;
    // Ten seconds may pass on a slow machine; then there is room again.
    let over = |resource: &str| quotas.used(Quota::TableUpdates, resource) >= 2;
    if over(&format!("{PROJECT}:d.t")) {
        let refused = local.patch("datasets/d/tables/t", describe.clone()).await;
        let message = refused.error(403, "rateLimitExceeded");
        assert!(
            message.contains("too many table update operations"),
            "{message}"
        );
        assert_eq!(quotas.refused(Quota::TableUpdates), 1);
    }
    local
        .patch("datasets/d/tables/u", describe.clone())
        .await
        .ok();
    local.patch("datasets/d", describe.clone()).await.ok();
    quotas.enforce(Some(QuotaLimits {
        dataset_updates: 0,
        table_creations: 0,
        ..QuotaLimits::default()
    }));
    for answer in [
        local.patch("datasets/d", describe).await,
        local.post("datasets/d/tables", resource("v")).await,
    ] {
        answer.error(403, "rateLimitExceeded");
    }
    local
        .get("datasets/d/tables/v")
        .await
        .error(404, "notFound");
}

#[tokio::test(flavor = "multi_thread")]
async fn write_streams_of_an_hour_are_counted_and_refused_beyond_the_limit() {
    let local = realistic(Realism {
        quotas: Some(QuotaLimits {
            write_streams: 2,
            ..QuotaLimits::default()
        }),
        ..Realism::default()
    })
    .await;
    local.post("datasets/d/tables", resource("t")).await.ok();
    let channel = tonic::transport::Channel::from_shared(local.server.grpc_endpoint())
        .unwrap()
        .connect()
        .await
        .expect("the server listens");
    let mut client = BigQueryWriteClient::new(channel);
    let mut create = async || {
        let request = CreateWriteStreamRequest {
            parent: format!("projects/{PROJECT}/datasets/d/tables/t"),
            write_stream: Some(WriteStream {
                r#type: Type::Buffered.into(),
                ..WriteStream::default()
            }),
        };
        client.create_write_stream(request).await
    };
    create().await.unwrap();
    create().await.unwrap();
    let refused = create().await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let quotas = &local.server.service().quotas;
    assert_eq!(quotas.used(Quota::WriteStreams, PROJECT), 2);
    assert_eq!(quotas.refused(Quota::WriteStreams), 1);
    quotas.reset();
    create().await.unwrap();
}

/// Of those who make a table that another has just made, every third is refused for its
/// haste; without the switch none is.
#[tokio::test(flavor = "multi_thread")]
async fn a_creation_race_has_two_kinds_of_losers() {
    for (race, hasty) in [(Duration::from_secs(3600), 5), (Duration::ZERO, 0)] {
        let local = realistic(Realism {
            creation_race: race,
            ..Realism::default()
        })
        .await;
        let creations = (0..16).map(|_| local.post("datasets/d/tables", resource("t")));
        let answers = futures::future::join_all(creations).await;
        let mut counts = [0; 3];
        for answer in answers {
            match answer.status {
                200 => counts[0] += 1,
                409 => {
                    answer.error(409, "duplicate");
                    counts[1] += 1;
                }
                _ => {
                    let message = answer.error(403, "rateLimitExceeded");
                    assert!(message.contains("too many table update operations"));
                    counts[2] += 1;
                }
            }
        }
        assert_eq!(counts, [1, 15 - hasty, hasty]);
    }
}
