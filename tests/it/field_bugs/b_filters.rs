//! Filter meaning: NULL, OR, complexity, size.

use serde_json::{Value, json};

use super::one_table::{Table, ids};
use crate::harness::{rows, text};

#[tokio::test(flavor = "multi_thread")]
async fn b01_null_tests_of_structs_stay_with_the_engine() {
    let fields = json!([
        {"name": "geo", "type": "RECORD", "fields": [{"name": "lat", "type": "FLOAT"}]},
        {"name": "tags", "type": "STRING", "mode": "REPEATED"},
    ]);
    let values = vec![
        json!({"geo": {"lat": 1.0}}),
        json!({"geo": null}),
        json!({"geo": {}}),
    ];
    let table = Table::new(fields, values).await;
    assert_eq!(table.ids("geo IS NOT NULL").await, [0, 2]);
    assert_eq!(table.asked("geo IS NOT NULL").await, "");
    assert_eq!(table.asked("tags IS NOT NULL").await, "");
    assert_eq!(table.ids("geo['lat'] IS NULL").await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b03_functions_are_folded_or_stay_with_the_engine() {
    let table = Table::of("STRING", &["ABC", "abc"]).await;
    assert_eq!(table.ids("x = upper('abc')").await, [0]);
    assert_eq!(table.asked("x = upper('abc')").await, "(`x` = 'ABC')");
    assert_eq!(table.ids("upper(x) = 'ABC'").await, [0, 1]);
    assert_eq!(table.asked("upper(x) = 'ABC'").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn b04_a_list_of_any_length_gives_the_same_rows() {
    let values: Vec<String> = (0..50).map(|n| (n * 5_000).to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let table = Table::of("INTEGER", &values).await;
    let mut restricted = Vec::new();
    for count in [10, 10_000, 200_000] {
        let list: Vec<String> = (0..count).map(|n: i64| n.to_string()).collect();
        let predicate = format!("x IN ({})", list.join(", "));
        let query = format!("SELECT id FROM bq.d.t WHERE {predicate}");
        let found = ids(&rows(&table.context, &query).await);
        let expected: Vec<i64> = (0..50).filter(|id| id * 5_000 < count).collect();
        assert_eq!(found, expected, "{count} values");
        let asked = table.server.sessions().pop().unwrap().row_restriction;
        assert!(asked.len() <= 1_048_576);
        restricted.push(!asked.is_empty());
    }
    assert_eq!(restricted, [true, true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b05_both_bounds_of_between_reach_the_server() {
    let table = Table::of(
        "DATE",
        &["2019-09-09", "2019-09-10", "2019-09-11", "2019-09-12"],
    )
    .await;
    let predicate = "x BETWEEN '2019-09-10' AND '2019-09-11'";
    assert_eq!(table.ids(predicate).await, [1, 2]);
    assert_eq!(
        table.asked(predicate).await,
        "(`x` >= DATE '2019-09-10') AND (`x` <= DATE '2019-09-11')"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b09_a_nested_field_is_quoted_segment_by_segment() {
    let fields = json!([{"name": "invoice", "type": "RECORD", "fields": [
        {"name": "month", "type": "STRING"},
        {"name": "order", "type": "RECORD", "fields": [{"name": "select", "type": "INTEGER"}]},
    ]}]);
    let invoice =
        |month: &str, n: i64| json!({"invoice": {"month": month, "order": {"select": n}}});
    let values = vec![
        invoice("202101", 1),
        invoice("202102", 2),
        json!({"invoice": Value::Null}),
    ];
    let table = Table::new(fields, values).await;
    assert_eq!(table.ids("invoice['month'] = '202102'").await, [1]);
    assert_eq!(
        table.asked("invoice['month'] = '202102'").await,
        "(`invoice`.`month` = '202102')"
    );
    assert_eq!(table.ids("invoice['order']['select'] < 2").await, [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_every_predicate_that_can_reaches_the_server() {
    let table = Table::of("INTEGER", &["1", "2", "3", "4"]).await;
    let predicate = "x > 1 AND abs(x) < 4 AND (x = 2 OR x = 3 OR x = 4)";
    assert_eq!(table.ids(predicate).await, [1, 2]);
    let asked = table.asked(predicate).await;
    assert!(
        asked.contains("`x` > 1") && asked.contains("= 2"),
        "{asked}"
    );
    assert!(!asked.contains("abs") && !asked.contains("ABS"), "{asked}");
    assert_eq!(table.asked("x = 1 OR abs(x) = 2").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_functions_of_the_engine_run_in_the_engine() {
    let table = Table::of("STRING", &["a", "b"]).await;
    let predicate = "md5(x) = '0cc175b9c0f1b6a831c399e269772661'";
    assert_eq!(table.ids(predicate).await, [0]);
    assert_eq!(table.asked(predicate).await, "");
}

/// Thousands of terms: a chain of OR, and NOT after NOT.
#[tokio::test(flavor = "multi_thread")]
async fn b04_many_terms_reach_the_server_whole() {
    let table = Table::of("INTEGER", &["1", "2", "3"]).await;
    let terms: Vec<String> = (0..300)
        .map(|n| format!("(x > {n} AND x < {})", n + 2))
        .collect();
    let predicate = terms.join(" OR ");
    assert_eq!(table.ids(&predicate).await, [0, 1, 2]);
    assert!(table.asked(&predicate).await.contains("`x` > 299"));
    let negated = format!("{}x = 1", "NOT ".repeat(21));
    assert_eq!(table.ids(&negated).await, [1, 2]);
    assert_eq!(table.asked(&negated).await, "(`x` != 1)");
}

/// A view over the table that keeps some of its columns, read through its query.
async fn view(table: &Table, query: &str) {
    table.server.create_view("d", "v", query).await;
    text(&table.context, "SET bigquery.scan.materialize_views = true").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_a_filtered_view_counts_and_gives_the_same_rows() {
    let fields = json!([{"name": "boolean_flag", "type": "BOOLEAN"}]);
    let values = [Some(true), None, Some(false), Some(true)];
    let values = values.map(|value| json!({"boolean_flag": value})).to_vec();
    let table = Table::new(fields, values).await;
    view(&table, "SELECT id, boolean_flag FROM `demo.d.t`").await;
    let filter = "FROM bq.d.v WHERE boolean_flag = true";
    let counted = text(&table.context, &format!("SELECT count(*) AS n {filter}")).await;
    assert!(counted.contains("| 2 |"), "{counted}");
    let found = rows(&table.context, &format!("SELECT id {filter}")).await;
    assert_eq!(ids(&found), [0, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_a_view_is_filtered_on_a_column_that_is_not_selected() {
    let table = Table::of("INTEGER", &["1", "2", "3"]).await;
    view(&table, "SELECT id, x FROM `demo.d.t`").await;
    for filter in ["x = 2", "abs(x) = 2", "x = 2 AND abs(x) = 2"] {
        let query = format!("SELECT id FROM bq.d.v WHERE {filter}");
        assert_eq!(ids(&rows(&table.context, &query).await), [1], "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b09_a_nested_field_of_a_view() {
    let fields = json!([{"name": "invoice", "type": "RECORD", "fields": [
        {"name": "month", "type": "STRING"},
    ]}]);
    let values = vec![
        json!({"invoice": {"month": "202101"}}),
        json!({"invoice": {"month": "202102"}}),
    ];
    let table = Table::new(fields, values).await;
    view(&table, "SELECT id, invoice FROM `demo.d.t`").await;
    let query = "SELECT id FROM bq.d.v WHERE invoice['month'] = '202102'";
    assert_eq!(ids(&rows(&table.context, query).await), [1]);
}
