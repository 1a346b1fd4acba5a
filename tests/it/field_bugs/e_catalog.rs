//! The catalog.

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bigquery::{Error, ErrorKind, RawOptions, with_bigquery};
use serde_json::json;

use crate::fake_rest::{Answer, FakeRest};
use crate::harness::{PROJECT, Server, error, text};

fn a() -> serde_json::Value {
    json!([{"name": "a", "type": "INT64"}])
}

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    for dataset in ["MyData", "other"] {
        server.create_dataset(dataset).await;
        server
            .create_table(dataset, "T", a(), vec![json!({"a": 1})])
            .await;
    }
    server
}

/// A session whose REST interface is a scripted server.
fn session_at(rest: &str) -> SessionContext {
    let options = RawOptions::from_pairs([
        ("project", PROJECT),
        ("rest_endpoint", rest),
        ("grpc_endpoint", "http://127.0.0.1:1"),
    ])
    .unwrap();
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_information_schema(true));
    SessionContext::new_with_state(with_bigquery(builder, options).unwrap().build())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e01_columns_are_shown_whatever_case_the_table_is_named_in() {
    let server = server().await;
    let context = server.session(1);
    let rows = text(&context, "SHOW COLUMNS FROM bq.mydata.t").await;
    assert!(rows.contains("Int64"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e02_tables_in_upper_case_have_columns() {
    let server = server().await;
    let context = server.session(1);
    let sql = "SELECT table_schema, table_name, column_name FROM information_schema.columns \
               WHERE table_catalog = 'bq'";
    let rows = text(&context, sql).await;
    assert!(
        rows.contains("| MyData       | T          | a           |"),
        "{rows}"
    );
    assert!(
        rows.contains("| other        | T          | a           |"),
        "{rows}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e04_only_the_dataset_that_is_asked_about_is_touched() {
    let rest = FakeRest::start(|_, path| {
        let reference = |dataset: &str| {
            json!({"datasetReference": {"projectId": PROJECT, "datasetId": dataset}})
        };
        let table = json!({"projectId": PROJECT, "datasetId": "one", "tableId": "t"});
        if path.contains("/tables/t") {
            Answer::json(200, &json!({"tableReference": table, "schema": {"fields": [
                {"name": "a", "type": "INTEGER"}]}}))
        } else if path.contains("/one/tables") {
            Answer::json(200, &json!({"tables": [{"tableReference": table, "type": "TABLE"}]}))
        } else if path.contains("/datasets?") {
            Answer::json(200, &json!({"datasets": [reference("one"), reference("two")]}))
        } else {
            Answer::error(403, "accessDenied", "not for you")
        }
    })
    .await;
    let context = session_at(rest.endpoint());
    for sql in [
        "SHOW COLUMNS FROM bq.one.t",
        "SELECT table_name FROM information_schema.tables WHERE table_catalog = 'bq' AND \
         table_schema = 'one'",
    ] {
        let rows = text(&context, sql).await;
        assert!(rows.contains("| t "), "{sql}: {rows}");
    }
    assert!(
        rest.calls().iter().all(|call| !call.contains("/two/")),
        "{:?}",
        rest.calls()
    );
    // And where the other is asked about, that it may not be seen is an error.
    let refused = error(&context, "SHOW TABLES").await;
    let found = Error::find_in(&refused).expect("an error of the service");
    assert_eq!(found.kind(), ErrorKind::PermissionDenied, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e05_every_page_is_in_show_tables() {
    let rest = FakeRest::start(|_, path| {
        let page = |first: usize| -> Vec<_> {
            (first..first + 600)
                .map(|n| {
                    json!({"type": "TABLE", "tableReference": {"projectId": PROJECT,
                        "datasetId": "one", "tableId": format!("t{n:04}")}})
                })
                .collect()
        };
        if path.contains("pageToken=p2") {
            Answer::json(200, &json!({"tables": page(600)}))
        } else if path.contains("/one/tables") {
            Answer::json(200, &json!({"tables": page(0), "nextPageToken": "p2"}))
        } else {
            let one = json!({"datasetReference": {"projectId": PROJECT, "datasetId": "one"}});
            Answer::json(200, &json!({"datasets": [one]}))
        }
    })
    .await;
    let context = session_at(rest.endpoint());
    let sql = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'one'";
    let rows = text(&context, sql).await;
    assert!(rows.contains("| 1200 "), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e06_a_column_that_was_added_is_there_in_the_next_statement() {
    let server = server().await;
    let context = server.session(1);
    text(&context, "SELECT a FROM bq.other.\"T\"").await;
    server
        .query("ALTER TABLE other.T ADD COLUMN b STRING")
        .await;
    let rows = text(&context, "SELECT a, b FROM bq.other.\"T\"").await;
    assert!(rows.contains("| a | b |"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e08_a_column_of_unknown_type_hides_itself_only() {
    let rest = FakeRest::start(|_, _| {
        Answer::json(
            200,
            &json!({
                "tableReference": {"projectId": PROJECT, "datasetId": "one", "tableId": "t"},
                "schema": {"fields": [
                    {"name": "a", "type": "INTEGER"}, {"name": "b", "type": "HOLOGRAM"}]},
            }),
        )
    })
    .await;
    let context = session_at(rest.endpoint());
    let rows = text(&context, "DESCRIBE bq.one.t").await;
    assert!(rows.contains("| a ") && !rows.contains("| b "), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_that_cannot_be_had_are_errors() {
    // Nothing answers, the key is wrong, the project is wrong.
    for (status, reason, kind) in [
        (0, "", ErrorKind::Unavailable),
        (401, "authError", ErrorKind::Unauthenticated),
        (404, "notFound", ErrorKind::NotFound),
    ] {
        let rest = FakeRest::start(move |_, _| Answer::error(status.max(400), reason, "no")).await;
        let endpoint = match status {
            0 => "http://127.0.0.1:1",
            _ => rest.endpoint(),
        };
        let context = session_at(endpoint);
        for sql in [
            "SHOW TABLES",
            "SELECT * FROM information_schema.columns",
            "SELECT * FROM information_schema.schemata",
            "SELECT * FROM information_schema.views",
        ] {
            let refused = error(&context, sql).await;
            let found = Error::find_in(&refused).unwrap_or_else(|| panic!("{sql}: {refused}"));
            assert_eq!(found.kind(), kind, "{sql}: {refused}");
        }
        let only_local = "SELECT table_name FROM information_schema.tables \
                          WHERE table_catalog = 'datafusion'";
        text(&context, only_local).await;
    }
}
