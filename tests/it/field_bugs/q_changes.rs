//! Change data capture.

use datafusion::prelude::SessionContext;

use crate::harness::{PROJECT, Server, error, rows, text};

async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .query(
            "CREATE TABLE d.t (id INT64 NOT NULL, name STRING NOT NULL, \
             PRIMARY KEY (id) NOT ENFORCED)",
        )
        .await;
    server
}

async fn declare(context: &SessionContext, table: &str, more: &str) -> Result<(), String> {
    let sql = format!(
        "CREATE EXTERNAL TABLE {table} STORED AS BIGQUERY LOCATION '{PROJECT}.d.{table}' \
         OPTIONS ('sink.cdc.enabled' 'true'{more})"
    );
    context.sql(&sql).await.map(drop).map_err(|e| e.to_string())
}

async fn count(context: &SessionContext) -> String {
    text(context, "SELECT count(*) AS n FROM bq.d.t").await
}

/// A TRUNCATE before the first copy finished: nothing is there to be truncated, and its
/// envelope, which has no row, is left out by its operation.
#[tokio::test(flavor = "multi_thread")]
async fn q01_truncate_before_the_first_row() {
    let server = server().await;
    let context = server.session(1);
    declare(&context, "t", "").await.unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("changes.jsonl").display().to_string();
    std::fs::write(
        &file,
        "{\"op\":\"t\",\"source\":{\"connector\":\"postgresql\"}}\n\
         {\"op\":\"r\",\"after\":{\"id\":1,\"name\":\"a\"},\"source\":{\"connector\":\"postgresql\",\
         \"sequence\":\"[null,\\\"16\\\"]\"}}\n",
    )
    .unwrap();
    rows(
        &context,
        &format!(
            "INSERT INTO t (id, name, _CHANGE_SEQUENCE_NUMBER) SELECT after['id'], after['name'], \
             bigquery_sequence_debezium_postgres(source) FROM debezium_envelopes('{file}') \
             WHERE op IN ('r', 'c', 'u')"
        ),
    )
    .await;
    assert!(count(&context).await.contains("| 1 |"));
}

/// A deletion says its key only, although another column is REQUIRED.
#[tokio::test(flavor = "multi_thread")]
async fn q02_deletions_without_required_columns() {
    let server = server().await;
    let context = server.session(1);
    declare(&context, "t", "").await.unwrap();
    rows(
        &context,
        "INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b')",
    )
    .await;
    rows(
        &context,
        "INSERT INTO t (id, name, _CHANGE_TYPE) VALUES (1, NULL, 'DELETE')",
    )
    .await;
    assert!(count(&context).await.contains("| 1 |"));
}

/// Two changes of one millisecond: the position in the log tells them apart, and a
/// source that has nothing but milliseconds is refused.
#[tokio::test(flavor = "multi_thread")]
async fn q04_changes_of_one_millisecond() {
    let server = server().await;
    let context = server.session(1);
    declare(&context, "t", "").await.unwrap();
    let source = |lsn: u32| {
        format!(
            "'{{\"connector\":\"postgresql\",\"ts_ms\":1714991051743,\"sequence\":\"[\\\"16\\\",\\\"{lsn}\\\"]\"}}'"
        )
    };
    let sql = format!(
        "INSERT INTO t (id, name, _CHANGE_SEQUENCE_NUMBER) VALUES \
         (1, 'second', bigquery_sequence_debezium_postgres({})), \
         (1, 'first', bigquery_sequence_debezium_postgres({}))",
        source(18),
        source(17)
    );
    rows(&context, &sql).await;
    let found = text(&context, "SELECT name FROM bq.d.t").await;
    assert!(
        found.contains("second") && !found.contains("first"),
        "{found}"
    );
    let milliseconds =
        "SELECT bigquery_sequence_debezium_postgres('{\"connector\":\"postgresql\",\"ts_ms\":1}')";
    let error = error(&context, milliseconds).await.to_string();
    assert!(
        error.contains("no 'sequence'") && error.contains("milliseconds"),
        "{error}"
    );
}

/// A table without a key, a key of 17 columns, another kind of stream: refused before
/// anything is written.
#[tokio::test(flavor = "multi_thread")]
async fn q05_what_takes_no_changes() {
    let server = server().await;
    let columns: Vec<String> = (0..17).map(|n| format!("k{n} INT64")).collect();
    server.query("CREATE TABLE d.keyless (id INT64)").await;
    server
        .query(&format!("CREATE TABLE d.wide ({})", columns.join(", ")))
        .await;
    let context = server.session(1);
    let error = declare(&context, "keyless", "").await.unwrap_err();
    assert!(error.contains("no primary key"), "{error}");
    let names: Vec<String> = (0..17).map(|n| format!("k{n}")).collect();
    let columns: Vec<String> = names.iter().map(|name| format!("{name} BIGINT")).collect();
    let wide = format!(
        "CREATE EXTERNAL TABLE wide ({}, PRIMARY KEY ({})) STORED AS BIGQUERY LOCATION \
         '{PROJECT}.d.wide' OPTIONS ('sink.cdc.enabled' 'true')",
        columns.join(", "),
        names.join(", ")
    );
    let error = context.sql(&wide).await.unwrap_err().to_string();
    assert!(error.contains("at most 16 columns"), "{error}");
    let buffered = ", 'sink.write_method' 'storage_api_exactly_once'";
    let error = declare(&context, "t", buffered).await.unwrap_err();
    assert!(
        error.contains("sink.cdc.enabled") && error.contains("sink.write_method"),
        "{error}"
    );
}

/// Plain inserts into a table with a key may leave it with two rows of one; the next
/// change of the key replaces both.
#[tokio::test(flavor = "multi_thread")]
async fn q06_plain_inserts_beside_changes() {
    let server = server().await;
    let context = server.session(1);
    declare(&context, "t", "").await.unwrap();
    rows(
        &context,
        "INSERT INTO bq.d.t (id, name) VALUES (1, 'a'), (1, 'b')",
    )
    .await;
    assert!(count(&context).await.contains("| 2 |"));
    rows(&context, "INSERT INTO t (id, name) VALUES (1, 'c')").await;
    assert!(count(&context).await.contains("| 1 |"));
}
