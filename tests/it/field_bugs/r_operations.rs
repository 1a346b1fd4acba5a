//! Retries, quotas and operations (R). Those of load jobs are in `loads.rs`, and that of
//! write streams is in `sink_arrange.rs`.

use bigquery_local::faults::{Action, Rule};

use crate::harness::{Server, refused, text};

/// What is too large stays too large: the service's word is told at once.
#[tokio::test(flavor = "multi_thread")]
async fn r06_a_request_that_is_too_large_is_not_sent_again() {
    let server = Server::with_dataset().await;
    let too_large = Action::Http {
        status: 413,
        reason: "requestTooLarge".into(),
        message: "Request payload size exceeds the limit".into(),
    };
    let rule = server.fault(Rule::once("jobs.*", too_large).always());
    refused(
        &server.session(1),
        "SELECT * FROM bigquery_query('SELECT ? AS p', parameters => ['x'])",
        &["Request payload size exceeds the limit"],
    )
    .await;
    assert_eq!(server.acted(rule), 1);
}

/// Results come by the Storage Read API, and not page by page.
#[tokio::test(flavor = "multi_thread")]
async fn r08_results_are_read_by_read_sessions() {
    let server = Server::with_dataset().await;
    let pages = ["jobs.getQueryResults", "tabledata.list"].map(|method| server.calls(method));
    let found = text(
        &server.session(1),
        "SELECT count(*), sum(n) FROM bigquery_query('SELECT n FROM \
         UNNEST(GENERATE_ARRAY(1, 10000)) AS n')",
    )
    .await;
    assert!(
        found.contains("| 10000") && found.contains("| 50005000"),
        "{found}"
    );
    assert_eq!(server.sessions().len(), 1);
    assert_eq!(pages.map(|rule| server.acted(rule)), [0, 0]);
}
