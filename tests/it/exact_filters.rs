//! Filters that the scan has promised to the plan: whether the service applies them or
//! not, the same rows come, and the filters' columns travel only where they must.

use std::sync::Arc;

use bigquery_local::faults::{Action, Rule};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use serde_json::json;

use crate::harness::{Server, lines_of, metric, plan, scan_line, shown};

/// `d.t` of 300 rows: `id`, `kind` a to c or NULL, `big` a long text, and `s` STRUCT<a, b>
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
        ]},
    ]);
    let row = |id: usize| {
        json!({
            "id": id,
            "kind": KINDS[id % 4],
            "big": format!("{id:0>400}"),
            "s": match id % 5 {
                0 => json!(null),
                rest => json!({"a": rest, "b": format!("b{}", id % 3)}),
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

const QUERIES: [&str; 9] = [
    "SELECT id FROM bq.d.t WHERE kind = 'b'",
    "SELECT id FROM bq.d.t WHERE kind <> 'b' AND id >= 100",
    "SELECT id FROM bq.d.t WHERE kind IS NULL",
    "SELECT count(*) FROM bq.d.t WHERE kind = 'b' OR s['a'] = 3",
    "SELECT count(*) FROM bq.d.t WHERE NOT (s['a'] IN (1, 2, 4, 7))",
    "SELECT s['b'] FROM bq.d.t WHERE s['a'] = 2",
    "SELECT s, kind FROM bq.d.t WHERE s['a'] > 3 AND kind < 'c'",
    "SELECT id + 1 AS next FROM bq.d.t WHERE kind LIKE '_' AND s['b'] IS NOT NULL",
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
