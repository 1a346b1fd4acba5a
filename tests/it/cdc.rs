//! Change data capture: what changes do, what is refused, and how the table is kept.

use datafusion::prelude::SessionContext;
use serde_json::Value;

use crate::harness::{PROJECT, Server, lines, plan, refused, rows, text};

/// Tables `d.t` and `d.u` with a key and columns that must have values, `d.keyless`
/// without one.
pub(crate) async fn server() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let columns = "id INT64 NOT NULL, name STRING NOT NULL, price NUMERIC, tags ARRAY<STRING>";
    server
        .query(&format!(
            "CREATE TABLE d.t ({columns}, PRIMARY KEY (id) NOT ENFORCED); \
             CREATE TABLE d.u ({columns}, PRIMARY KEY (id, name) NOT ENFORCED); \
             CREATE TABLE d.keyless ({columns});"
        ))
        .await;
    server
}

/// Declares `table` of dataset `d` under its own name, to be written to.
pub(crate) async fn declare(context: &SessionContext, table: &str, more: &str) {
    context.sql(&declaration(table, "", more)).await.unwrap();
}

fn declaration(table: &str, columns: &str, more: &str) -> String {
    format!(
        "CREATE EXTERNAL TABLE {table} {columns} STORED AS BIGQUERY LOCATION '{PROJECT}.d.{table}' \
         OPTIONS ('sink.cdc.enabled' 'true'{more})"
    )
}

pub(crate) async fn stored(context: &SessionContext, table: &str) -> String {
    let sql = format!("SELECT id, name, price, tags FROM bq.d.{table} ORDER BY id, name");
    lines(context, &sql).await.join("; ")
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_replace_and_delete_rows_by_their_key() {
    let server = server().await;
    let context = server.session(3);
    declare(&context, "t", "").await;
    let counted = text(
        &context,
        "INSERT INTO t (id, name, price, tags, _CHANGE_TYPE) VALUES \
         (1, 'a', 1.5, ['x', 'y'], NULL), (2, 'b', 2, NULL, 'UPSERT'), (3, 'c', 3, ['z'], 'UPSERT')",
    )
    .await;
    assert!(counted.contains("| 3 "), "{counted}");
    assert_eq!(
        stored(&context, "t").await,
        "1 a 1.500000000 [x, y]; 2 b 2.000000000 []; 3 c 3.000000000 [z]"
    );
    // What a change leaves out is NULL, and a deletion needs nothing but its key,
    // whatever else its row has.
    rows(
        &context,
        "INSERT INTO t (id, name, tags, _CHANGE_TYPE) VALUES \
         (1, 'A', NULL, 'UPSERT'), (2, NULL, NULL, 'DELETE'), (3, 'c', ['z'], 'DELETE'), \
         (9, NULL, NULL, 'DELETE')",
    )
    .await;
    assert_eq!(stored(&context, "t").await, "1 A  []");
    // Without the pseudocolumns rows are upserts.
    rows(
        &context,
        "INSERT INTO t (id, name) VALUES (1, 'once'), (1, 'twice')",
    )
    .await;
    assert_eq!(stored(&context, "t").await, "1 twice  []");
    // The whole key decides.
    declare(&context, "u", "").await;
    rows(
        &context,
        "INSERT INTO u (id, name, price) VALUES (1, 'a', 1), (1, 'b', 2), (1, 'a', 3)",
    )
    .await;
    assert_eq!(
        stored(&context, "u").await,
        "1 a 3.000000000 []; 1 b 2.000000000 []"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_is_its_key_and_an_upsert_all_of_its_row() {
    let server = server().await;
    let context = server.session(1);
    declare(&context, "t", "").await;
    rows(
        &context,
        "INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    .await;
    rows(
        &context,
        "INSERT INTO t (id, _CHANGE_TYPE) VALUES (1, 'DELETE')",
    )
    .await;
    assert_eq!(stored(&context, "t").await, "2 b  []; 3 c  []");
    let mixed = "INSERT INTO t (id, _CHANGE_TYPE) VALUES (2, 'DELETE'), (9, 'UPSERT')";
    refused(
        &context,
        mixed,
        &["row 2", "column 'name'", "REQUIRED and not written"],
    )
    .await;
    let insert = "INSERT INTO t (id) VALUES (9)";
    refused(&context, insert, &["column name", "REQUIRED"]).await;
    rows(&context, "SET bigquery.sink.failure.policy = 'drop'").await;
    rows(&context, mixed).await;
    assert_eq!(stored(&context, "t").await, "3 c  []");
}

/// What is said of a table of changes acts on it, or is refused where it is said.
#[tokio::test(flavor = "multi_thread")]
async fn what_nothing_would_act_on_is_refused() {
    let server = server().await;
    let context = server.session(1);
    let uuid = "24bc7850-2c16-11e6-a073-0242ac110002";
    let uuids = format!(", 'sink.cdc.debezium_mysql.source_uuids' '{uuid}'");
    for (more, parts) in [
        (
            ", 'sink.partition' '20260101'",
            ["'sink.partition'", "'sink.cdc.enabled'", "of its key"],
        ),
        (
            uuids.as_str(),
            [
                "'sink.cdc.debezium_mysql.source_uuids'",
                "bigquery_sequence_debezium_mysql",
                "SET bigquery.sink.cdc",
            ],
        ),
        (
            ", 'sink.cdc.ticdc.cluster_id' 'main'",
            [
                "'sink.cdc.ticdc.cluster_id'",
                "bigquery_sequence_ticdc",
                "SET bigquery.sink.cdc",
            ],
        ),
    ] {
        refused(&context, &declaration("t", "", more), &parts).await;
    }
    let decorated = declaration("t", "", "").replace("d.t'", "d.t$20260101'");
    refused(
        &context,
        &decorated,
        &[
            "LOCATION 'demo.d.t$20260101'",
            "'20260101'",
            "'sink.cdc.enabled'",
        ],
    )
    .await;
    for wrong in ["x".to_string(), format!("{uuid}, {}", uuid.to_uppercase())] {
        let set = format!("SET bigquery.sink.cdc.debezium_mysql.source_uuids = '{wrong}'");
        refused(
            &context,
            &set,
            &["source_uuids", "UUIDs, each of them once"],
        )
        .await;
    }
    declare(&context, "t", "").await;
    for (sql, instead) in [
        ("UPDATE t SET name = 'x'", "_CHANGE_TYPE 'UPSERT'"),
        ("DELETE FROM t WHERE id = 1", "_CHANGE_TYPE 'DELETE'"),
        ("TRUNCATE TABLE t", "_CHANGE_TYPE 'DELETE'"),
    ] {
        refused(&context, sql, &["takes changes of demo.d.t", instead]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_greatest_sequence_number_wins_whenever_it_comes() {
    let server = server().await;
    let context = server.session(3);
    declare(&context, "t", "").await;
    let insert = "INSERT INTO t (id, name, _CHANGE_TYPE, _CHANGE_SEQUENCE_NUMBER) VALUES ";
    rows(
        &context,
        &format!(
            "{insert} (1, 'new', NULL, bigquery_change_sequence(4095, 2748)), (1, 'old', NULL, 'FFF/B'), \
             (2, NULL, 'DELETE', '5'), (2, 'late', 'UPSERT', '3'), (3, 'x', NULL, '10'), \
             (3, 'y', NULL, '9')"
        ),
    )
    .await;
    assert_eq!(stored(&context, "t").await, "1 new  []; 3 x  []");
    rows(
        &context,
        &format!("{insert} (1, 'older', NULL, 'ABC'), (2, 'again', NULL, '6')"),
    )
    .await;
    assert_eq!(
        stored(&context, "t").await,
        "1 new  []; 2 again  []; 3 x  []"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_no_changes_meet_the_failure_policy() {
    let server = server().await;
    let context = server.session(1);
    declare(&context, "t", "").await;
    let insert = "INSERT INTO t (id, name, _CHANGE_TYPE, _CHANGE_SEQUENCE_NUMBER) VALUES ";
    for (row, parts) in [
        (
            "(2, 'b', 'UPDATE_BEFORE', '1')",
            ["row 2", "_CHANGE_TYPE", "before its update"],
        ),
        (
            "(2, 'b', 'upsert', '1')",
            ["row 2", "_CHANGE_TYPE", "no change type"],
        ),
        (
            "(2, 'b', 'UPSERT', 'xyz')",
            ["row 2", "_CHANGE_SEQUENCE_NUMBER", "sections"],
        ),
        (
            "(2, 'b', 'UPSERT', NULL)",
            ["row 2", "_CHANGE_SEQUENCE_NUMBER", "every change"],
        ),
        ("(2, NULL, 'UPSERT', '1')", ["row 2", "name", "REQUIRED"]),
    ] {
        refused(
            &context,
            &format!("{insert} (1, 'a', NULL, '1'), {row}"),
            &parts,
        )
        .await;
        assert_eq!(stored(&context, "t").await, "", "{row}");
    }
    context.sql("DROP TABLE t").await.unwrap();
    declare(&context, "t", ", 'sink.failure.policy' 'drop'").await;
    let kept =
        "(1, 'a', NULL, '1'), (2, 'b', 'MERGE', '1'), (3, 'c', NULL, NULL), (4, 'd', NULL, '1')";
    rows(&context, &format!("{insert} {kept}")).await;
    assert_eq!(stored(&context, "t").await, "1 a  []; 4 d  []");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_changes_is_only_written_to() {
    let server = server().await;
    let context = server.session(1);
    declare(&context, "t", "").await;
    let elsewhere = "bigquery_scan('demo.d.t')";
    refused(
        &context,
        "SELECT * FROM t",
        &["SELECT", "demo.d.t", elsewhere],
    )
    .await;
    refused(
        &context,
        "INSERT OVERWRITE t (id, name) VALUES (1, 'a')",
        &["OVERWRITE"],
    )
    .await;
    refused(
        &context,
        "INSERT INTO t (name) VALUES ('a')",
        &["column id", "primary key"],
    )
    .await;
    refused(
        &context,
        "INSERT INTO t (id) VALUES (1)",
        &["column name", "REQUIRED"],
    )
    .await;
    let described = text(&context, "DESCRIBE t").await;
    assert!(described.contains("_change_type") && described.contains("_change_sequence_number"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_declared_or_live_and_never_another() {
    let server = server().await;
    let context = server.session(1);
    for (table, columns, more, parts) in [
        (
            "keyless",
            "",
            "",
            &["no primary key", "sink.cdc.table_reconciliation"][..],
        ),
        (
            "t",
            "(id BIGINT, name VARCHAR, PRIMARY KEY (name))",
            "",
            &["is (id)", "(name) is declared"],
        ),
        (
            "t",
            "(id BIGINT, PRIMARY KEY (id))",
            ", 'sink.format' 'arrow'",
            &["sink.format", "sink.cdc.enabled"],
        ),
        (
            "t",
            "",
            ", 'sink.missing_value' 'default'",
            &["sink.missing_value", "sink.cdc.enabled"],
        ),
        (
            "t",
            "",
            ", 'sink.write_method' 'file_loads'",
            &["sink.write_method", "sink.cdc.enabled"],
        ),
        (
            "t",
            "",
            ", 'sink.cdc.max_staleness' '10 min', 'sink.cdc.clear_max_staleness' 'true'",
            &["sink.cdc.max_staleness", "sink.cdc.clear_max_staleness"],
        ),
        (
            "t",
            "",
            ", 'sink.cdc.max_staleness' '500 ms'",
            &["sink.cdc.max_staleness", "whole seconds"],
        ),
        (
            "t",
            "",
            ", 'sink.schema_update.allow_new_fields' 'true'",
            &["sink.schema_update.allow_new_fields", "sink.cdc.enabled"],
        ),
        ("missing", "", "", &["demo.d.missing", "does not exist"]),
    ] {
        refused(&context, &declaration(table, columns, more), parts).await;
    }
    refused(
        &context,
        "CREATE EXTERNAL TABLE t STORED AS BIGQUERY LOCATION 'demo.d.t' \
         OPTIONS ('sink.cdc.max_staleness' '10 min')",
        &["sink.cdc.max_staleness", "needs 'sink.cdc.enabled'"],
    )
    .await;
    // The key changes between the declaration and the write.
    declare(&context, "t", "").await;
    server
        .query(
            "ALTER TABLE d.t DROP PRIMARY KEY; ALTER TABLE d.t ADD PRIMARY KEY (name) NOT ENFORCED",
        )
        .await;
    let insert = "INSERT INTO t (id, name) VALUES (1, 'a')";
    refused(&context, insert, &["primary key is (name)", "was (id)"]).await;
    assert_eq!(stored(&context, "t").await, "");
}

pub(crate) async fn key_of(server: &Server, table: &str) -> Value {
    let found = server.get(&format!("datasets/d/tables/{table}")).await;
    found["tableConstraints"]["primaryKey"]["columns"].clone()
}

pub(crate) async fn staleness_of(context: &SessionContext, table: &str) -> String {
    let sql = format!(
        "SELECT option_value FROM bigquery_query('SELECT option_value FROM \
         d.INFORMATION_SCHEMA.TABLE_OPTIONS WHERE table_name = \"{table}\" AND \
         option_name = \"max_staleness\"')"
    );
    lines(context, &sql).await.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_verified_and_on_request_changed_before_the_first_write() {
    let server = server().await;
    let context = server.session(2);
    let declared = "(id BIGINT, name VARCHAR, PRIMARY KEY (id))";
    context
        .sql(&declaration("keyless", declared, ""))
        .await
        .unwrap();
    let insert = "INSERT INTO keyless (id, name) VALUES (1, 'a'), (1, 'b')";
    refused(
        &context,
        insert,
        &["no primary key", "sink.cdc.table_reconciliation"],
    )
    .await;
    assert_eq!(key_of(&server, "keyless").await, Value::Null);

    context.sql("DROP TABLE keyless").await.unwrap();
    let reconcile = ", 'sink.cdc.table_reconciliation' 'reconcile'";
    let ten = format!("{reconcile}, 'sink.cdc.max_staleness' '10 min'");
    context
        .sql(&declaration("keyless", declared, &ten))
        .await
        .unwrap();
    // Planning changes nothing.
    plan(&context, insert).await;
    assert_eq!(key_of(&server, "keyless").await, Value::Null);
    rows(&context, insert).await;
    assert_eq!(key_of(&server, "keyless").await, serde_json::json!(["id"]));
    assert_eq!(staleness_of(&context, "keyless").await, "0-0 0 0:10:0");
    assert_eq!(stored(&context, "keyless").await, "1 b  []");
    // It is as it has to be, so verifying is enough.
    context.sql("DROP TABLE keyless").await.unwrap();
    context
        .sql(&declaration(
            "keyless",
            "",
            ", 'sink.cdc.max_staleness' '600 s'",
        ))
        .await
        .unwrap();
    rows(&context, "INSERT INTO keyless (id, name) VALUES (2, 'c')").await;
    context.sql("DROP TABLE keyless").await.unwrap();
    for wrong in [
        ", 'sink.cdc.max_staleness' '20 min'",
        ", 'sink.cdc.clear_max_staleness' 'true'",
    ] {
        context
            .sql(&declaration("keyless", "", wrong))
            .await
            .unwrap();
        let insert = "INSERT INTO keyless (id, name) VALUES (3, 'd')";
        refused(&context, insert, &["max_staleness is 0-0 0 0:10:0"]).await;
        context.sql("DROP TABLE keyless").await.unwrap();
    }
    let clear = format!("{reconcile}, 'sink.cdc.clear_max_staleness' 'true'");
    context
        .sql(&declaration("keyless", "", &clear))
        .await
        .unwrap();
    rows(&context, "INSERT INTO keyless (id, name) VALUES (3, 'd')").await;
    assert_eq!(staleness_of(&context, "keyless").await, "0-0 0 0:0:0");
    assert_eq!(
        stored(&context, "keyless").await,
        "1 b  []; 2 c  []; 3 d  []"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_key_stay_in_order_or_the_statement_is_refused() {
    let server = server().await;
    let context = server.session(4);
    declare(&context, "t", "").await;
    // A thousand rows of ten keys in ten batches, which the engine would deal out.
    context
        .sql("SET datafusion.execution.batch_size = 100")
        .await
        .unwrap();
    let source = "SELECT value % 10 AS id, CAST(value AS VARCHAR) AS name, 1000 - value AS back \
                  FROM generate_series(0, 999)";
    rows(
        &context,
        &format!("INSERT INTO t (id, name) SELECT id, name FROM ({source}) WHERE id < 20"),
    )
    .await;
    let last: Vec<String> = (0..10).map(|id| format!("{id} {}  []", 990 + id)).collect();
    assert_eq!(stored(&context, "t").await, last.join("; "));
    // ORDER BY a column that is not written.
    rows(
        &context,
        &format!("INSERT INTO t (id, name) SELECT id, name FROM ({source}) ORDER BY back"),
    )
    .await;
    let first: Vec<String> = (0..10).map(|id| format!("{id} {id}  []")).collect();
    assert_eq!(stored(&context, "t").await, first.join("; "));
    // Side by side there is no last one, unless each says its place.
    let both = format!(
        "SELECT id, name, back FROM ({source}) UNION ALL SELECT id, name, back FROM ({source})"
    );
    refused(
        &context,
        &format!("INSERT INTO t (id, name) SELECT id, name FROM ({both})"),
        &["demo.d.t", "_CHANGE_SEQUENCE_NUMBER", "ORDER BY"],
    )
    .await;
    rows(
        &context,
        &format!(
            "INSERT INTO t (id, name, _CHANGE_SEQUENCE_NUMBER) \
             SELECT id, name, bigquery_change_sequence(1000 - back) FROM ({both})"
        ),
    )
    .await;
    assert_eq!(stored(&context, "t").await, last.join("; "));
    rows(
        &context,
        &format!("INSERT INTO t (id, name) SELECT id, name FROM ({both}) ORDER BY back DESC"),
    )
    .await;
    assert_eq!(stored(&context, "t").await, last.join("; "));
}
