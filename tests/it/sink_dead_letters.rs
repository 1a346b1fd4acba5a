//! Rows that cannot be written, and where they go.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bigquery_local::faults::{Action, Rule};
use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::options::{
    AppendFormat, ConnectionCounts, DeadLetterTarget, FailureOptions, FailurePolicy, SinkOptions,
};
use datafusion_bigquery::sink::BigQuerySink;
use datafusion_bigquery::{RawOptions, TableRef};
use serde_json::{Value, json};

use crate::harness::{PROJECT, Server, error, plan, refused, run, text, write_metric};

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .query("CREATE TABLE d.t (id INT64, at TIMESTAMP, doc JSON, note STRING(5))")
        .await;
    server
}

fn session(server: &Server, target: &str, more: &[(&str, &str)]) -> SessionContext {
    let mut options = vec![
        ("sink.failure.policy", "dead_letter"),
        ("sink.failure.dead_letter", target),
    ];
    options.extend_from_slice(more);
    server.session_over(&RawOptions::from_pairs(options).unwrap())
}

fn letters(path: &Path) -> Vec<Value> {
    lines(&std::fs::read_to_string(path).unwrap())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The letters in all objects of the bucket, by their rows.
async fn letters_in_bucket(server: &Server) -> Vec<Value> {
    let mut letters = Vec::new();
    for object in server.objects("bucket").await {
        letters.extend(lines(&server.object("bucket", &object).await));
    }
    letters.sort_by_key(|letter| letter["row"].as_u64());
    letters
}

async fn ids(context: &SessionContext) -> String {
    text(
        context,
        "SELECT string_agg(CAST(id AS VARCHAR), ',' ORDER BY id) FROM bq.d.t",
    )
    .await
}

/// Rows fail where they are cast, where they are encoded and at the service; exactly
/// these become letters, with what they hold.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_failing_rows_become_letters() {
    for format in ["proto", "arrow"] {
        let server = server().await;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("letters");
        let target = format!("file://{}", path.display());
        let context = session(&server, &target, &[("sink.format", format)]);
        let insert = plan(
            &context,
            "INSERT INTO bq.d.t (id, at, doc, note) VALUES \
             (1, TIMESTAMP '2024-05-01T00:00:00Z', '{\"k\": 1}', 'a'), \
             (2, TIMESTAMP '2024-05-01T00:00:00.123456789Z', NULL, 'b'), \
             (3, NULL, '{bad', 'c'), \
             (4, NULL, NULL, 'too long'), \
             (5, NULL, NULL, 'e')",
        )
        .await;
        run(&context, &insert).await;
        assert_eq!(write_metric(&insert, "rows_written"), 2, "{format}");
        assert_eq!(write_metric(&insert, "rows_skipped"), 3, "{format}");
        let found = ids(&context).await;
        assert!(found.contains("1,5"), "{format}: {found}");
        let mut letters = letters(&path);
        letters.sort_by_key(|letter| letter["row"].as_u64());
        let rows: Vec<_> = letters.iter().map(|letter| letter["row"].clone()).collect();
        assert_eq!(rows, [2, 3, 4], "{format}");
        assert_eq!(letters[0]["column"], "at");
        assert_eq!(letters[0]["destination"], "demo.d.t");
        assert!(
            letters[0]["error"].as_str().unwrap().contains("finer"),
            "{letters:?}"
        );
        assert_eq!(letters[0]["payload"]["at"], "2024-05-01T00:00:00.123456789");
        assert_eq!(letters[1]["payload"]["doc"], "{bad");
        assert_eq!(
            letters[2]["payload"],
            json!({"id": 4, "at": null, "doc": null, "note": "too long"})
        );
    }
}

/// What DataFusion would have to cast is for the policy too.
#[tokio::test(flavor = "multi_thread")]
async fn values_that_cannot_be_cast_become_letters() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letters");
    let target = format!("file://{}", path.display());
    let context = session(&server, &target, &[]);
    let insert = plan(
        &context,
        "INSERT INTO bq.d.t (id, note) VALUES ('1', 'a'), ('x', 'b'), (NULL, 'c')",
    )
    .await;
    run(&context, &insert).await;
    assert_eq!(write_metric(&insert, "rows_written"), 2);
    let select = "INSERT INTO bq.d.t (id, note) SELECT column1, 'z' FROM \
                  (SELECT CAST(value AS VARCHAR) || repeat('x', value % 2) AS column1 \
                  FROM generate_series(10, 13))";
    let insert = plan(&context, select).await;
    run(&context, &insert).await;
    assert_eq!(write_metric(&insert, "rows_written"), 2);
    let found = ids(&context).await;
    assert!(found.contains("1,10,12"), "{found}");
    let letters = letters(&path);
    let payloads: Vec<_> = letters
        .iter()
        .map(|letter| letter["payload"].clone())
        .collect();
    assert_eq!(
        payloads,
        [
            json!({"id": "x", "note": "b"}),
            json!({"id": "11x", "note": "z"}),
            json!({"id": "13x", "note": "z"}),
        ]
    );
    assert_eq!(letters[0]["row"], 2);
    assert_eq!(letters[0]["column"], "id");
    // So they are where VALUES stands deeper in the query and is not computed with.
    let nested = "INSERT INTO bq.d.t (id, note) SELECT v.column1, v.column2 FROM (SELECT * FROM \
                  (VALUES ('7', 'q'), ('y', 'r'), ('8', 's')) v WHERE column2 <> 's') v \
                  ORDER BY column2 LIMIT 5";
    let insert = plan(&context, nested).await;
    run(&context, &insert).await;
    assert_eq!(write_metric(&insert, "rows_written"), 1);
    assert_eq!(write_metric(&insert, "rows_skipped"), 1);
    let found = ids(&context).await;
    assert!(found.contains("1,7,10,12"), "{found}");
    let payload = json!({"id": "y", "note": "r"});
    assert_eq!(self::letters(&path).pop().unwrap()["payload"], payload);
    // What is computed with is no row yet, and fails the statement.
    for computed in [
        "SELECT column1, column2 FROM (VALUES ('9', 'q'), ('y', 'r')) v GROUP BY 1, 2",
        "SELECT column1 + 1, column2 FROM (VALUES ('9', 'q'), ('y', 'r')) v",
        "SELECT column1, column2 FROM (VALUES ('9', 'q'), ('y', 'r')) v WHERE column1 > 8",
    ] {
        let insert = format!("INSERT INTO bq.d.t (id, note) {computed}");
        refused(&context, &insert, &["the value y cannot be read as INT64"]).await;
    }
    assert!(!ids(&context).await.contains(",9"));
    // The policy drop leaves them out too.
    let context = server.session_saying([("sink.failure.policy", "drop")]);
    let insert = plan(&context, "INSERT INTO bq.d.t (id) VALUES ('y'), ('20')").await;
    run(&context, &insert).await;
    assert_eq!(write_metric(&insert, "rows_written"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_go_to_a_table_that_is_created() {
    let server = server().await;
    let context = session(&server, "bigquery://demo.d.letters", &[]);
    let insert = "INSERT INTO bq.d.t (id, doc) VALUES (1, '{}'), (2, '{bad')";
    run(&context, &plan(&context, insert).await).await;
    let found = text(
        &server.session(1),
        "SELECT destination, \"row\", subtask, payload FROM bq.d.letters",
    )
    .await;
    for part in ["demo.d.t", "| 2 ", "\"doc\":\"{bad\""] {
        assert!(found.contains(part), "{part}: {found}");
    }
}

/// A letter is the same in an object as in a file, whatever method writes the others.
#[tokio::test(flavor = "multi_thread")]
async fn letters_are_lines_of_objects() {
    let insert = "INSERT INTO bq.d.t (id, at, doc) VALUES (1, NULL, '{}'), \
                  (2, TIMESTAMP '2024-05-01T00:00:00.123456789Z', '{}'), (3, NULL, '{bad')";
    for method in [
        "storage_api_at_least_once",
        "storage_api_exactly_once",
        "storage_api_atomic",
    ] {
        let server = server().await;
        let said = [("sink.write_method", method)];
        let context = session(&server, "gs://bucket/some/letters", &said);
        // Not even a row that could be written is, before it is known that there is a bucket.
        let missing = error(&context, insert).await.to_string();
        for part in ["no bucket 'bucket'", "'sink.failure.dead_letter'"] {
            assert!(missing.contains(part), "{method}: {missing}");
        }
        assert!(!ids(&context).await.contains('1'), "{method}");

        server.create_bucket("bucket").await;
        let planned = plan(&context, insert).await;
        run(&context, &planned).await;
        assert_eq!(write_metric(&planned, "rows_skipped"), 2, "{method}");
        let found = ids(&context).await;
        assert!(found.contains("| 1 "), "{method}: {found}");
        let objects = server.objects("bucket").await;
        assert_eq!(objects.len(), 1, "{method}: {objects:?}");
        assert!(objects[0].starts_with("some/letters/datafusion-"));
        let in_bucket = letters_in_bucket(&server).await;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("letters");
        let file = format!("file://{}", path.display());
        let context = session(&server, &file, &said);
        run(&context, &plan(&context, insert).await).await;
        let mut in_file = letters(&path);
        in_file.sort_by_key(|letter| letter["row"].as_u64());
        for (letter, other) in in_bucket.iter().zip(&in_file) {
            for name in [
                "destination",
                "error",
                "column",
                "row",
                "subtask",
                "payload",
            ] {
                assert_eq!(letter[name], other[name], "{method}: {letter}");
            }
            assert!(letter["timestamp"].is_string());
        }
        assert_eq!(in_bucket.len(), 2, "{method}");
        // Nothing failed, so there is nothing to keep.
        let context = session(&server, "gs://bucket/others", &said);
        let insert = "INSERT INTO bq.d.t (id) VALUES (9)";
        run(&context, &plan(&context, insert).await).await;
        assert_eq!(server.objects("bucket").await, objects, "{method}");
    }
}

/// Letters of statements and of writers side by side never meet in one object.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_letters_have_names_of_their_own() {
    let server = server().await;
    server.create_bucket("bucket").await;
    let said = [("sink.failure.max_outstanding", "0")];
    let context = session(&server, "gs://bucket/letters", &said);
    let insert = "INSERT INTO bq.d.t (id, doc) SELECT value, '{bad' FROM generate_series(1, 6)";
    for statements in 1..=2 {
        let planned = plan(&context, insert).await;
        run(&context, &planned).await;
        assert_eq!(write_metric(&planned, "rows_skipped"), 6);
        assert_eq!(letters_in_bucket(&server).await.len(), 6 * statements);
        let objects = server.objects("bucket").await;
        let folders: BTreeSet<_> = objects
            .iter()
            .map(|name| name.rsplit_once('/').unwrap().0)
            .collect();
        assert_eq!(folders.len(), statements, "{objects:?}");
    }
}

/// Letters are there before the rows count: what keeps them from their place for a
/// while loses none, and what keeps them for good leaves nothing visible.
#[tokio::test(flavor = "multi_thread")]
async fn letters_in_objects_survive_faults_or_fail_the_statement() {
    let insert = "INSERT INTO bq.d.t (id, doc) VALUES (1, '{}'), (2, '{bad'), (3, '{worse')";
    let answer = |status: u16, reason: &str| Action::Http {
        status,
        reason: reason.into(),
        message: "on purpose".into(),
    };
    let said = [("sink.write_method", "storage_api_exactly_once")];
    for method in ["objects.insert", "objects.get"] {
        for (name, action) in [
            ("unavailable", answer(503, "backendError")),
            ("reset", Action::Reset),
            ("answer lost", Action::LoseAnswer),
            ("applied twice", Action::ApplyTwice),
            ("throttled", answer(429, "rateLimitExceeded")),
        ] {
            let server = server().await;
            server.create_bucket("bucket").await;
            let rule = server.fault(Rule::once(method, action));
            let context = session(&server, "gs://bucket/letters", &said);
            run(&context, &plan(&context, insert).await).await;
            assert_eq!(server.acted(rule), 1, "{method} {name}");
            let letters = letters_in_bucket(&server).await;
            let rows: Vec<_> = letters.iter().map(|letter| letter["row"].clone()).collect();
            assert_eq!(rows, [2, 3], "{method} {name}");
            assert!(ids(&context).await.contains("| 1 "), "{method} {name}");
        }
    }
    let server = server().await;
    server.create_bucket("bucket").await;
    let context = session(&server, "gs://bucket/letters", &said);
    let refused = server.fault(Rule::once("objects.insert", answer(403, "forbidden")).always());
    let failed = error(&context, insert).await.to_string();
    for part in [
        "dead letters to gs://bucket/letters",
        "roles/storage.objectCreator",
    ] {
        assert!(failed.contains(part), "{failed}");
    }
    assert!(!ids(&context).await.contains('1'));
    server.unfault(refused);
    // Who may write objects need not be allowed to read them.
    server.fault(Rule::once("objects.get", answer(403, "forbidden")).always());
    run(&context, &plan(&context, insert).await).await;
    assert!(ids(&context).await.contains("| 1 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_messages_of_a_topic() {
    let server = server().await;
    let endpoint = server.storage_endpoint();
    let options = [("sink.failure.pubsub_endpoint", endpoint.as_str())];
    let context = session(&server, "pubsub://projects/demo/topics/letters", &options);
    let insert = "INSERT INTO bq.d.t (id, doc) VALUES (1, '{}'), (2, '{bad'), (3, '{worse')";
    // Not even a row that could be written is, before it is known that the topic exists.
    let missing = error(&context, insert).await.to_string();
    for part in ["topic letters of project demo", "create it first"] {
        assert!(missing.contains(part), "{missing}");
    }
    assert!(!ids(&context).await.contains('1'));

    server.put_topic("letters").await;
    run(&context, &plan(&context, insert).await).await;
    let messages = server.messages("letters").await;
    assert_eq!(messages.len(), 2);
    let attributes = &messages[0]["attributes"];
    assert_eq!(attributes["dlq-connector"], "datafusion-bigquery");
    assert_eq!(attributes["dlq-destination"], "demo.d.t");
    assert_eq!(attributes["dlq-subtask"], "0");
    assert!(
        attributes["dlq-error"].as_str().unwrap().contains("JSON"),
        "{attributes}"
    );
    assert!(attributes["dlq-timestamp"].is_string(), "{attributes}");
    let data = BASE64_STANDARD
        .decode(messages[0]["data"].as_str().unwrap())
        .unwrap();
    let data: Value = serde_json::from_slice(&data).unwrap();
    assert_eq!(data, json!({"id": 2, "doc": "{bad"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_cannot_be_delivered_fails_the_statement() {
    let server = server().await;
    let context = session(&server, "file:///nowhere/at/all/letters", &[]);
    let failed = error(&context, "INSERT INTO bq.d.t (id) VALUES (1)")
        .await
        .to_string();
    for part in ["file:///nowhere/at/all/letters", "directory that exists"] {
        assert!(failed.contains(part), "{failed}");
    }
    assert!(!ids(&context).await.contains('1'));

    let options = [("sink.failure.max_rows", "1")];
    let directory = tempfile::tempdir().unwrap();
    let target = format!("file://{}/x", directory.path().display());
    let context = session(&server, &target, &options);
    let failed = error(&context, "INSERT INTO bq.d.t (doc) VALUES ('{1'), ('{2')").await;
    assert!(
        failed.to_string().contains("sink.failure.max_rows"),
        "{failed}"
    );
}

/// Of rows in Arrow's format the service may say no more than that the request is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn k17_a_request_that_is_refused_without_a_reason_is_narrowed_to_its_rows() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letters");
    let bare = Action::AppendError {
        code: "INVALID_ARGUMENT".into(),
        message: "something is wrong".into(),
        storage_error: None,
    };
    let sink = arrow_sink(&server, &path).await;
    let mut writer = sink.writer(0, None).unwrap();
    // The call has to be known before a request of it is refused.
    writer.write(rows(0)).await.unwrap();
    writer.write(rows(1)).await.unwrap();
    writer.prepare_commit().await.unwrap();
    // The request, its halves, their halves, and the first row by itself.
    let rule = server.fault(Rule {
        times: Some(1 + 2 + 4 + 1),
        ..Rule::once("AppendRows", bare)
    });
    writer.write(rows(8)).await.unwrap();
    let written: u64 = writer
        .prepare_commit()
        .await
        .unwrap()
        .iter()
        .map(|c| c.rows())
        .sum();
    writer.close().await.unwrap();
    assert_eq!(server.acted(rule), 8);
    let letters = letters(&path);
    assert_eq!((written, letters.len()), (7, 1));
    // One row came before these.
    assert_eq!(
        (&letters[0]["row"], &letters[0]["payload"]["id"]),
        (&json!(2), &json!(0))
    );
    let told = letters[0]["error"].as_str().unwrap();
    assert!(told.contains("something is wrong"), "{told}");
    let found = text(&server.session(1), "SELECT count(*) FROM bq.d.t").await;
    assert!(found.contains(&format!("| {} ", written + 1)), "{found}");
}

/// What refuses every row is not about rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_every_row_fails_the_write() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let sink = arrow_sink(&server, &directory.path().join("letters")).await;
    let bare = Action::AppendError {
        code: "INVALID_ARGUMENT".into(),
        message: "something is wrong".into(),
        storage_error: None,
    };
    let mut writer = sink.writer(0, None).unwrap();
    writer.write(rows(1)).await.unwrap();
    writer.flush().await.unwrap();
    server.fault(Rule::once("AppendRows", bare).always());
    writer.write(rows(4)).await.unwrap();
    let failed = writer.flush().await.unwrap_err().to_string();
    for part in ["none of the 4 rows", "something is wrong"] {
        assert!(failed.contains(part), "{failed}");
    }
}

fn rows(count: i64) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("note", DataType::Utf8, true),
    ]);
    let notes = StringArray::from_iter_values((0..count).map(|_| "n"));
    let ids = Int64Array::from_iter_values(0..count);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(notes)]).unwrap()
}

async fn arrow_sink(server: &Server, path: &Path) -> BigQuerySink {
    let options = SinkOptions {
        format: AppendFormat::Arrow,
        // Requests are refused by their number.
        default_connections: ConnectionCounts { min: 1, max: 1 },
        failure: FailureOptions {
            policy: FailurePolicy::DeadLetter,
            dead_letter: Some(DeadLetterTarget::File(path.to_path_buf())),
            ..FailureOptions::default()
        },
        ..SinkOptions::default()
    };
    let table = TableRef::new(PROJECT, "d", "t").unwrap();
    BigQuerySink::builder(server.client(), table)
        .with_options(options)
        .build(rows(0).schema())
        .await
        .unwrap()
}
