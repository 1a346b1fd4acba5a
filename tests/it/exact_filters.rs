//! Filters that the scan has promised to the plan: whether the service applies them or
//! not, the same rows come, and the filters' columns travel only where they must.

use std::sync::Arc;
use std::time::Duration;

use bigquery_local::faults::{Action, Rule};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use serde_json::json;

use crate::harness::{Server, lines, lines_of, metric, plan, refused, scan_line, shown};

/// `d.t` of 300 rows: `id`, `kind` a to c or NULL, `big` a long text, and `s` STRUCT<a, b, ok>
/// that is NULL in every fifth row.
async fn server() -> Server {
    let server = Server::start(1 << 12).await;
    server.create_dataset("d").await;
    let fields = json!([
        {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
        {"name": "kind", "type": "STRING"},
        {"name": "big", "type": "STRING"},
        {"name": "s", "type": "RECORD", "fields": [
            {"name": "a", "type": "INTEGER"},
            {"name": "b", "type": "STRING"},
            {"name": "ok", "type": "BOOLEAN"},
        ]},
    ]);
    let row = |id: usize| {
        json!({
            "id": id,
            "kind": KINDS[id % 4],
            "big": format!("{id:0>400}"),
            "s": match id % 5 {
                0 => json!(null),
                rest => json!({"a": rest, "b": format!("b{}", id % 3), "ok": id.is_multiple_of(2)}),
            },
        })
    };
    server
        .create_table("d", "t", fields, (0..300).map(row).collect())
        .await;
    server
}

/// The rows of a query in the order of their text, and the last line of its plan.
async fn answer(context: &SessionContext, sql: &str) -> (Vec<String>, String, usize) {
    let plan = plan(context, sql).await;
    assert!(!shown(&plan).contains("FilterExec"), "{}", shown(&plan));
    let batches = collect(Arc::clone(&plan), context.task_ctx())
        .await
        .unwrap();
    let mut lines = lines_of(&batches);
    lines.sort_unstable();
    (
        lines,
        scan_line(&plan),
        metric(&plan, "restriction_refusals"),
    )
}

const KINDS: [Option<&str>; 4] = [Some("a"), Some("b"), Some("c"), None];

const QUERIES: [&str; 11] = [
    "SELECT id FROM bq.d.t WHERE kind = 'b'",
    "SELECT id FROM bq.d.t WHERE kind <> 'b' AND id >= 100",
    "SELECT id FROM bq.d.t WHERE kind IS NULL",
    "SELECT count(*) FROM bq.d.t WHERE kind = 'b' OR s['a'] = 3",
    "SELECT count(*) FROM bq.d.t WHERE NOT (s['a'] IN (1, 2, 4, 7))",
    "SELECT s['b'] FROM bq.d.t WHERE s['a'] = 2",
    "SELECT s, kind FROM bq.d.t WHERE s['a'] > 3 AND kind < 'c'",
    "SELECT id + 1 AS next FROM bq.d.t WHERE kind LIKE '_' AND s['b'] IS NOT NULL",
    "SELECT count(big) FROM bq.d.t WHERE s['ok']",
    "SELECT id FROM bq.d.t WHERE NOT s['ok'] OR s['ok'] IS NULL",
    "SELECT s['b'], count(*) FROM bq.d.t WHERE kind IN ('a', 'c', 'd', 'e') GROUP BY 1",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_restriction_is_evaluated_by_the_scan() {
    let server = server().await;
    let context = server.session(3);
    for sql in QUERIES {
        let (expected, _, refusals) = answer(&context, sql).await;
        assert!(!expected.is_empty() && refusals == 0, "{sql}");
        let refuse = server.fault(Rule::once("CreateReadSession", Action::RefuseRestriction));
        let (found, line, refusals) = answer(&context, sql).await;
        assert_eq!((found, refusals), (expected, 1), "{sql}\n{line}");
        // What was asked in the end is what EXPLAIN ANALYZE shows.
        assert!(line.contains("local_filters=["), "{line}");
        assert!(!line.contains("row_restriction="), "{line}");
        let asked = server.sessions().last().unwrap().selected_fields.join(", ");
        assert!(
            line.contains(&format!("selected_fields=[{asked}]")),
            "{line}"
        );
        assert_eq!(server.acted(refuse), 1);
        server.unfault(refuse);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_that_are_not_pushed_down_are_evaluated_by_the_scan() {
    let server = server().await;
    let pushing = server.session(3);
    let keeping = server.session_saying([("scan.pushdown_filters", "false")]);
    for sql in QUERIES {
        let (expected, ..) = answer(&pushing, sql).await;
        let (found, line, _) = answer(&keeping, sql).await;
        assert_eq!(found, expected, "{sql}\n{line}");
        assert!(line.contains("local_filters=["), "{line}");
    }
    let (_, line, _) = answer(&keeping, QUERIES[0]).await;
    assert!(line.contains("selected_fields=[id, kind]"), "{line}");
    let sessions = server.sessions();
    let asked = &sessions.last().unwrap().selected_fields;
    assert_eq!(asked, &["id", "kind"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_counts_rows_that_pass() {
    let server = server().await;
    let sql = "SELECT id FROM bq.d.t WHERE kind = 'c' AND id > 200 LIMIT 7";
    let context = server.session(3);
    for refuse in [false, true] {
        if refuse {
            server.fault(Rule::once("CreateReadSession", Action::RefuseRestriction));
        }
        let (found, line, refusals) = answer(&context, sql).await;
        assert!(line.contains("limit=7"), "{line}");
        assert_eq!((found.len(), refusals), (7, usize::from(refuse)));
        for id in found {
            let id: u32 = id.parse().unwrap();
            assert!(id > 200 && id % 4 == 2, "{id}");
        }
    }
}

/// A conjunct that is too long for the restriction stays, the others are sent.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_is_evaluated_by_the_scan() {
    let server = server().await;
    let context = server.session(2);
    let mut list: Vec<String> = (0..3_000).map(|n| format!("'{n:0>399}x'")).collect();
    list.push(format!("'{:0>400}'", 42));
    list.push(format!("'{:0>400}'", 43));
    let list = list.join(", ");
    let sql = format!("SELECT id FROM bq.d.t WHERE big IN ({list}) AND kind = 'c'");
    let (found, ..) = answer(&context, &sql).await;
    assert_eq!(found, ["42"]);
    let sessions = server.sessions();
    let session = sessions.last().unwrap();
    assert_eq!(session.row_restriction, "(`kind` = 'c')");
    assert_eq!(session.selected_fields, ["id", "big"]);
    let sql = format!("SELECT id FROM bq.d.t WHERE big NOT IN ({list}) AND id BETWEEN 40 AND 44");
    let (found, ..) = answer(&context, &sql).await;
    assert_eq!(found, ["40", "41", "44"]);
}

/// Keys of joins and promised filters are refused together, and only the filters matter.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_over_a_refused_restriction_is_right() {
    let server = server().await;
    let context = server.session(2);
    let sql = "SELECT t.id, u.id FROM bq.d.t AS t JOIN bq.d.t AS u ON t.id = u.s['a'] \
               WHERE t.kind = 'b' AND u.kind = 'c' AND u.id < 50";
    let sorted = || async {
        let plan = plan(&context, sql).await;
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await;
        let mut lines = lines_of(&batches.unwrap());
        lines.sort_unstable();
        assert!(!shown(&plan).contains("FilterExec"), "{}", shown(&plan));
        lines
    };
    let expected = sorted().await;
    assert!(!expected.is_empty());
    // The probe for the snapshot's time, then the sessions of the two scans.
    for skipped in 0..3 {
        let rule = Rule::once("CreateReadSession", Action::RefuseRestriction).after(skipped);
        let rule = server.fault(rule);
        assert_eq!(sorted().await, expected);
        assert_eq!(server.acted(rule), 1, "{skipped}");
        server.unfault(rule);
    }
}

/// A filter that the service alone evaluates was written for a column as it was. Where it
/// is another by the time of the session, and nothing else would notice, that is an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_changed_behind_its_filter_is_named() {
    let server = Server::with_dataset().await;
    for sql in [
        "CREATE TABLE d.scale (id INT64, p NUMERIC(7, 2), s STRING)",
        "INSERT INTO d.scale VALUES (1, 1.55, 'x'), (2, 1.56, 'X')",
        "CREATE TABLE d.folded (id INT64, s STRING)",
    ] {
        server.query(sql).await;
    }
    let context = server.session(2);
    for table in ["scale", "folded"] {
        context
            .sql(&format!(
                "CREATE EXTERNAL TABLE {table} STORED AS BIGQUERY LOCATION 'demo.d.{table}'"
            ))
            .await
            .unwrap();
    }
    // What lies this long behind is asked again; nothing changed yet.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let counted = "SELECT id FROM scale WHERE p > 1.555";
    assert_eq!(answer(&context, counted).await.0, ["2"]);
    for sql in [
        "ALTER TABLE d.scale ALTER COLUMN p SET DATA TYPE NUMERIC",
        "ALTER TABLE d.scale ADD COLUMN more INT64",
        "INSERT INTO d.scale (id, p, s) VALUES (3, 1.5577, 'x')",
        "DROP TABLE d.folded",
        "CREATE TABLE d.folded (id INT64, s STRING COLLATE 'und:ci')",
        "INSERT INTO d.folded VALUES (1, 'a'), (2, 'A')",
    ] {
        server.query(sql).await;
    }
    let parts = [
        "column 'p'",
        "when the filter on it was planned",
        "declare the table again",
    ];
    refused(&context, counted, &parts).await;
    let found = answer(&context, "SELECT id FROM scale WHERE s = 'x'")
        .await
        .0;
    assert_eq!(found, ["1", "3"], "other columns do not matter");
    let folded = "SELECT id, s FROM folded WHERE s = 'a'";
    refused(&context, folded, &["column 's'"]).await;
    // Who names a table of the catalog asks anew.
    let live = lines(
        &context,
        "SELECT id FROM bq.d.scale WHERE p > 1.555 ORDER BY id",
    )
    .await;
    assert_eq!(live, ["2", "3"]);
    let live = lines(&context, "SELECT id, s FROM bq.d.folded WHERE s = 'a'").await;
    assert_eq!(live, ["1 a"]);
}

/// A filter that the table demands is there, and the service cannot use it.
#[tokio::test(flavor = "multi_thread")]
async fn a_demanded_filter_under_or_is_told_what_to_do() {
    let server = Server::with_dataset().await;
    server
        .query(
            "CREATE TABLE d.parts (n INT64, day DATE) PARTITION BY day \
             OPTIONS (require_partition_filter = TRUE)",
        )
        .await;
    let context = server.session(1);
    let parts = ["demo.d.parts", "joined by AND", "scan.row_restriction"];
    let sql = "SELECT n FROM bq.d.parts WHERE day = '2024-01-01' OR n = 3";
    refused(&context, sql, &parts).await;
}
