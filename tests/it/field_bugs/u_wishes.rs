//! Area U: what nobody complained about yet.

use bigquery_local::faults::{Action, Rule};
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};

use crate::harness::{Server, error, plan, run, scan_line, text};

/// A table `d.t` of these columns and rows.
async fn server(fields: Value, rows: Vec<Value>) -> (Server, SessionContext) {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server.create_table("d", "t", fields, rows).await;
    let context = server.session(2);
    (server, context)
}

/// The rows of a query, the same whether BigQuery filters or the engine.
async fn either_way(context: &SessionContext, sql: &str) -> Vec<String> {
    let mut found = Vec::new();
    for pushdown in ["true", "false"] {
        let set = format!("SET bigquery.scan.pushdown_filters = {pushdown}");
        context.sql(&set).await.unwrap();
        let text = text(context, sql).await;
        let rows = text.lines().skip(3).filter(|line| line.starts_with('|'));
        found.push(
            rows.map(|row| row.trim_matches(['|', ' ']).to_string())
                .collect(),
        );
    }
    let other: Vec<String> = found.pop().unwrap();
    let one: Vec<String> = found.pop().unwrap();
    assert_eq!(one, other, "{sql}");
    one
}

#[tokio::test(flavor = "multi_thread")]
async fn u02_null_is_neither_in_nor_out() {
    let fields = json!([{"name": "x", "type": "INTEGER"}]);
    let rows = vec![json!({"x": 1}), json!({"x": 2}), json!({"x": null})];
    let (_server, context) = server(fields, rows).await;
    for (filter, expected) in [
        ("x NOT IN (1, NULL)", &[][..]),
        ("x IN (1, NULL)", &["1"]),
        ("NOT (x = 1)", &["2"]),
        ("(x = 1) IS NOT TRUE", &["", "2"]),
        ("x IS DISTINCT FROM 1", &["", "2"]),
    ] {
        let sql = format!("SELECT x FROM bq.d.t WHERE {filter} ORDER BY x NULLS FIRST");
        assert_eq!(either_way(&context, &sql).await, expected, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u03_zero_has_two_signs_and_both_are_read() {
    let fields = json!([{"name": "x", "type": "FLOAT"}]);
    let rows = vec![json!({"x": "-0.0"}), json!({"x": 0.0}), json!({"x": "NaN"})];
    let (_server, context) = server(fields, rows).await;
    for (filter, expected) in [
        ("x = 0.0", &["-0.0", "0.0"][..]),
        ("x = -0.0", &["-0.0", "0.0"]),
        ("x >= 0.0", &["-0.0", "0.0", "NaN"]),
        ("x <= -0.0", &["-0.0", "0.0"]),
        ("x < 0.0", &[]),
        ("x > 1.0", &["NaN"]),
        ("x IN (0.0, 1.0)", &["-0.0", "0.0"]),
    ] {
        let sql = format!("SELECT x FROM bq.d.t WHERE {filter} ORDER BY x");
        assert_eq!(either_way(&context, &sql).await, expected, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u04_dates_that_bigquery_does_not_have() {
    let fields = json!([{"name": "d", "type": "DATE"}]);
    let rows = vec![json!({"d": "0001-01-01"}), json!({"d": "9999-12-31"})];
    let (_server, context) = server(fields, rows).await;
    let date = |days: i32| format!("arrow_cast(CAST({days} AS INT), 'Date32')");
    let (late, early) = (date(2_932_897), date(-1_000_000));
    for (filter, expected) in [
        (format!("d < {late}"), &["0001-01-01", "9999-12-31"][..]),
        (format!("d >= {late}"), &[]),
        (format!("d = {late}"), &[]),
        (format!("d > {early}"), &["0001-01-01", "9999-12-31"]),
        (format!("d <= {early}"), &[]),
        (format!("d IN ({late}, DATE '9999-12-31')"), &["9999-12-31"]),
    ] {
        let sql = format!("SELECT d FROM bq.d.t WHERE {filter} ORDER BY d");
        assert_eq!(either_way(&context, &sql).await, expected, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u06_patterns_mean_the_same_on_both_sides() {
    let fields = json!([{"name": "s", "type": "STRING"}]);
    let values = ["100%", "100 %", "a_b", "axb", "A_B", "a\nb", "a\\b", ""];
    let rows = values.iter().map(|s| json!({"s": s})).collect();
    let (_server, context) = server(fields, rows).await;
    for (filter, expected) in [
        (r"s LIKE '100\%%'", &["100%"][..]),
        ("s LIKE 'a_b'", &["a\\b", "a\\nb", "a_b", "axb"]),
        (r"s LIKE 'a\_b'", &["a_b"]),
        ("s ILIKE 'a_b' AND s LIKE 'A%'", &["A_B"]),
        (r"s LIKE 'a\\b'", &["a\\b"]),
        ("s NOT LIKE 'a%' AND s NOT LIKE '1%'", &["", "A_B"]),
        ("s LIKE 'a\nb'", &["a\\nb"]),
    ] {
        let sql =
            format!("SELECT replace(s, chr(10), '\\n') s FROM bq.d.t WHERE {filter} ORDER BY s");
        assert_eq!(either_way(&context, &sql).await, expected, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u07_a_collation_drops_no_rows_of_the_engines() {
    let fields = json!([{"name": "s", "type": "STRING", "collation": "und:ci"}]);
    let rows = ["abc", "ABC", "abd"]
        .iter()
        .map(|s| json!({"s": s}))
        .collect();
    let (_server, context) = server(fields, rows).await;
    for (filter, expected) in [
        ("s = 'ABC'", &["ABC"][..]),
        ("s IN ('abc', 'x')", &["abc"]),
        ("s <> 'abc'", &["ABC", "abd"]),
        ("s > 'abc'", &["abd"]),
        ("s LIKE 'AB%'", &["ABC"]),
    ] {
        let sql = format!("SELECT s FROM bq.d.t WHERE {filter} ORDER BY s");
        assert_eq!(either_way(&context, &sql).await, expected, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u08_a_column_that_may_not_be_read_is_named() {
    let fields = json!([{"name": "open", "type": "INTEGER"}, {"name": "secret", "type": "STRING"}]);
    let (server, context) = server(fields, vec![json!({"open": 1, "secret": "x"})]).await;
    let denied = Action::Status {
        code: "PERMISSION_DENIED".into(),
        message: "request failed: Access Denied: User has neither fine-grained reader nor masked \
                  get permission to get data protected by policy tag on column demo.d.t.secret."
            .into(),
        retry_after_ms: None,
        storage_error: None,
    };
    server.fault(Rule::once("CreateReadSession", denied));
    let failure = error(&context, "SELECT * FROM bq.d.t").await.to_string();
    assert!(failure.contains("demo.d.t.secret"), "{failure}");
    // Other columns are asked for without it.
    let others = plan(&context, "SELECT open FROM bq.d.t").await;
    assert!(scan_line(&others).contains("selected_fields=[open]"));
    assert_eq!(run(&context, &others).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn u12_ten_thousand_columns_and_fifteen_levels() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let wide: Vec<_> = (0..10_000)
        .map(|n| json!({"name": format!("c{n}"), "type": "INTEGER"}))
        .collect();
    server.create_table("d", "wide", json!(wide), vec![]).await;
    let mut deep = json!({"name": "leaf", "type": "INTEGER"});
    let mut value = json!({"leaf": 7});
    for level in 0..14 {
        let name = format!("s{level}");
        deep = json!({"name": name, "type": "RECORD", "fields": [deep]});
        value = json!({name: value});
    }
    server
        .create_table("d", "deep", json!([deep]), vec![value])
        .await;
    let context = server.session(2);
    // Without SQL: DataFusion's planner takes a minute for so many columns.
    let wide = context.table_provider("bq.d.wide").await.unwrap();
    let read = wide.scan(&context.state(), None, &[], None).await.unwrap();
    assert_eq!(read.schema().fields().len(), 10_000);
    assert_eq!(run(&context, &read).await, 0);
    let some = plan(&context, "SELECT c9999, c0 FROM bq.d.wide").await;
    assert!(scan_line(&some).contains("selected_fields=[c9999, c0]"));
    assert_eq!(run(&context, &some).await, 0);
    let path: String = (0..13).rev().map(|level| format!("['s{level}']")).collect();
    let found = text(
        &context,
        &format!("SELECT s13{path}['leaf'] leaf FROM bq.d.deep"),
    )
    .await;
    assert!(found.contains("| 7 "), "{found}");
}
