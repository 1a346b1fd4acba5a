//! MERGE INTO a table of changes, and changes that are read off Debezium's files.

use datafusion::prelude::SessionContext;

use crate::harness::{PROJECT, Server, error, lines, rows, text};

async fn session() -> (Server, SessionContext) {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .query(
            "CREATE TABLE d.t (id INT64 NOT NULL, name STRING NOT NULL, price FLOAT64, \
             PRIMARY KEY (id) NOT ENFORCED); \
             INSERT INTO d.t (id, name, price) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
        )
        .await;
    let context = server.session(1);
    context
        .sql(&format!(
            "CREATE EXTERNAL TABLE t STORED AS BIGQUERY LOCATION '{PROJECT}.d.t' \
             OPTIONS ('sink.cdc.enabled' 'true')"
        ))
        .await
        .unwrap();
    context
        .sql(
            "CREATE TABLE s AS SELECT * FROM (VALUES (1, 'A', 10.0, 'u'), (2, '', 0.0, 'd'), \
             (4, 'D', 40.0, 'u'), (9, '', 0.0, 'd'), (5, 'E', 50.0, NULL)) v(id, name, price, op)",
        )
        .await
        .unwrap();
    (server, context)
}

async fn stored(context: &SessionContext) -> String {
    let sql = "SELECT id, name, price FROM bq.d.t ORDER BY id";
    lines(context, sql).await.join("; ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_by_key_is_upserts_and_deletions() {
    let (_server, context) = session().await;
    rows(
        &context,
        "MERGE INTO t USING s ON t.id = s.id \
         WHEN MATCHED AND s.op = 'd' THEN DELETE \
         WHEN MATCHED THEN UPDATE SET name = s.name, price = s.price \
         WHEN NOT MATCHED AND s.op IS DISTINCT FROM 'd' THEN \
         INSERT (id, name, price) VALUES (s.id, s.name, s.price)",
    )
    .await;
    assert_eq!(
        stored(&context).await,
        "1 A 10.0; 3 c 3.0; 4 D 40.0; 5 E 50.0"
    );
    rows(
        &context,
        "MERGE INTO t USING (VALUES (3), (77)) AS gone(k) ON gone.k = t.id \
         WHEN MATCHED THEN DELETE",
    )
    .await;
    assert_eq!(stored(&context).await, "1 A 10.0; 4 D 40.0; 5 E 50.0");
}

/// The planner casts what is compared and what is assigned to types of its own.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_merge_are_known_through_casts() {
    let (server, context) = session().await;
    server
        .query("CREATE TABLE d.sk (id STRING NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED)")
        .await;
    for sql in [
        &format!(
            "CREATE EXTERNAL TABLE sk STORED AS BIGQUERY LOCATION '{PROJECT}.d.sk' \
             OPTIONS ('sink.cdc.enabled' 'true')"
        ),
        "CREATE TABLE views (k VARCHAR, n INT, v VARCHAR) AS VALUES ('a', 1, 'x'), ('b', 2, 'y')",
        "CREATE TABLE coded AS SELECT arrow_cast(k, 'Dictionary(Int32, Utf8)') AS k, \
         arrow_cast(n, 'Int16') AS n, arrow_cast(v, 'LargeUtf8') AS v FROM views",
    ] {
        rows(&context, sql).await;
    }
    for source in ["views", "coded"] {
        for key in ["s.k", "CAST(s.k AS VARCHAR)", "CAST(s.n AS VARCHAR)"] {
            rows(
                &context,
                &format!(
                    "MERGE INTO sk USING {source} AS s ON sk.id = {key} \
                     WHEN MATCHED THEN UPDATE SET id = {key}, v = s.v \
                     WHEN NOT MATCHED THEN INSERT (id, v) VALUES ({key}, s.v)"
                ),
            )
            .await;
        }
        let found = lines(&context, "SELECT id, v FROM bq.d.sk ORDER BY id").await;
        assert_eq!(found, ["1 x", "2 y", "a x", "b y"], "{source}");
        rows(
            &context,
            &format!(
                "MERGE INTO t USING {source} AS s ON t.id = s.n \
                 WHEN MATCHED THEN UPDATE SET name = s.v, price = s.n \
                 WHEN NOT MATCHED THEN INSERT (id, name, price) VALUES (s.n, s.v, s.n)"
            ),
        )
        .await;
        assert_eq!(stored(&context).await, "1 x 1.0; 2 y 2.0; 3 c 3.0");
    }
}

/// A change has one key, so what a MERGE gives a row must be what it finds it by.
#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_changes_the_key_is_refused() {
    let (_server, context) = session().await;
    let insert = "WHEN NOT MATCHED THEN INSERT (id, name, price) VALUES (s.id, s.name, s.price)";
    for assigned in ["s.id + 10", "77", "CAST(s.price AS BIGINT)"] {
        let sql = format!(
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN \
             UPDATE SET id = {assigned}, name = s.name, price = s.price {insert}"
        );
        let error = error(&context, &sql).await.to_string();
        for part in [
            "column id of the key",
            "updated as",
            "a DELETE of the old one",
        ] {
            assert!(error.contains(part), "{assigned}: {error}");
        }
    }
    // Compared as text, several keys of the source could be one.
    let sql = "MERGE INTO t USING s ON CAST(t.id AS VARCHAR) = s.name WHEN MATCHED THEN DELETE";
    let refusal = error(&context, sql).await.to_string();
    assert!(refusal.contains("their own types"), "{refusal}");
    assert_eq!(stored(&context).await, "1 a 1.0; 2 b 2.0; 3 c 3.0");
    rows(
        &context,
        &format!(
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN \
             UPDATE SET id = s.id, name = s.name, price = s.price {insert}"
        ),
    )
    .await;
}

/// A deletion has the place that the other clauses give their rows.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_of_a_merge_have_places_too() {
    let (_server, context) = session().await;
    let merge = |source: &str| {
        format!(
            "MERGE INTO t USING (VALUES {source}) AS s(id, name, price, op, place) ON t.id = s.id \
             WHEN MATCHED AND s.op = 'd' THEN DELETE \
             WHEN MATCHED THEN UPDATE SET name = s.name, price = s.price, \
             _change_sequence_number = bigquery_change_sequence(s.place) \
             WHEN NOT MATCHED AND s.op <> 'd' THEN \
             INSERT (id, name, price, _change_sequence_number) \
             VALUES (s.id, s.name, s.price, bigquery_change_sequence(s.place))"
        )
    };
    // Of several rows of one key the last one by its place counts.
    rows(
        &context,
        &merge("(1, 'late', 0, 'u', 9), (1, 'early', 0, 'u', 8), (2, 'x', 0, 'd', 9)"),
    )
    .await;
    assert_eq!(stored(&context).await, "1 late 0.0; 3 c 3.0");
    rows(
        &context,
        &merge("(1, '', 0, 'd', 5), (2, 'old', 0, 'u', 8), (3, 'new', 0, 'u', 1)"),
    )
    .await;
    assert_eq!(stored(&context).await, "1 late 0.0; 3 new 0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_changes_cannot_say_is_refused() {
    let (_server, context) = session().await;
    let update = "WHEN MATCHED THEN UPDATE SET name = s.name, price = s.price";
    let insert = "WHEN NOT MATCHED THEN INSERT (id, name, price) VALUES (s.id, s.name, s.price)";
    for (clauses, why) in [
        (format!("ON t.id = s.id {update}"), "inserts none"),
        (format!("ON t.id = s.id {insert}"), "updates none"),
        (
            format!("ON t.name = s.name {update} {insert}"),
            "primary key",
        ),
        (
            format!("ON t.id = s.id AND s.price > 1 {update} {insert}"),
            "primary key",
        ),
        (
            format!(
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name, price = t.price + 1 {insert}"
            ),
            "looks at column price",
        ),
        (
            format!("ON t.id = s.id WHEN MATCHED AND t.price > 1 THEN DELETE {update} {insert}"),
            "looks at column price",
        ),
        (
            format!("ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name {insert}"),
            "column price is not both",
        ),
        (
            format!(
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'x', price = s.price {insert}"
            ),
            "is updated to",
        ),
        (
            format!("ON t.id = s.id {update} {insert} WHEN NOT MATCHED BY SOURCE THEN DELETE"),
            "need to know which rows",
        ),
        // Row by row: 'd' would insert what is not there.
        (
            format!("ON t.id = s.id WHEN MATCHED AND s.op = 'd' THEN DELETE {update} {insert}"),
            "both conditions must hold",
        ),
    ] {
        let error = error(&context, &format!("MERGE INTO t USING s {clauses}"))
            .await
            .to_string();
        assert!(error.contains(why), "{clauses}: {error}");
        assert_eq!(
            stored(&context).await,
            "1 a 1.0; 2 b 2.0; 3 c 3.0",
            "{clauses}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn envelopes_come_in_the_order_of_their_lines() {
    let (_server, context) = session().await;
    let folder = tempfile::TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let line = |op: &str, before: &str, after: &str| {
        format!(
            "{{\"op\":\"{op}\",\"before\":{before},\"after\":{after},\"source\":{{\"lsn\":7}},\"ts_ms\":5}}\n"
        )
    };
    let first = [
        line("r", "null", r#"{"id":1,"name":"one"}"#),
        "\nnull\n".to_string(),
        format!(
            "{{\"schema\":{{}},\"payload\":{}}}\n",
            line("u", "null", r#"{"id":1,"name":"two","price":2.5}"#).trim()
        ),
    ];
    std::fs::write(file("1.jsonl"), first.concat()).unwrap();
    std::fs::write(file("2.jsonl"), line("d", r#"{"id":1}"#, "null")).unwrap();
    let call = format!(
        "debezium_envelopes('{}', '{}')",
        file("1.jsonl"),
        file("2.jsonl")
    );
    let found = text(
        &context,
        &format!("SELECT op, coalesce(after['id'], before['id']) AS id, after['price'] AS price, source, ts_ms FROM {call}"),
    )
    .await;
    let lines: Vec<&str> = found.lines().skip(3).collect();
    assert!(
        lines[0].contains("| r  | 1  |       | {\"lsn\":7} | 5"),
        "{found}"
    );
    assert!(lines[1].contains("| u  | 1  | 2.5"), "{found}");
    assert!(lines[2].contains("| d  | 1  | "), "{found}");

    std::fs::write(file("3.jsonl"), "\n{\"id\": 1}\n").unwrap();
    for (call, parts) in [
        (
            format!("debezium_envelopes('{}')", file("3.jsonl")),
            ["line 2", "neither 'op'"],
        ),
        (
            format!("debezium_envelopes('{}')", file("4.jsonl")),
            ["4.jsonl", "cannot be read"],
        ),
        (
            "debezium_envelopes()".to_string(),
            ["debezium_envelopes", "in quotes"],
        ),
    ] {
        let error = error(&context, &format!("SELECT * FROM {call}"))
            .await
            .to_string();
        for part in parts {
            assert!(error.contains(part), "{call}: {error}");
        }
    }
}
