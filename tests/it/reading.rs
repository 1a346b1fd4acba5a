//! Projection, filters, limits, streams and snapshots of the scan.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::{Value, json};

use crate::harness::{Server, error, metric, plan, rows, run, scan_line, text};

/// A table of `n` rows with `id` 0 to n-1, a text with quotes, and a double.
async fn numbered(server: &Server, n: i64) {
    server.create_dataset("d").await;
    let fields = json!([
        {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
        {"name": "Name", "type": "STRING"},
        {"name": "score", "type": "FLOAT"},
        {"name": "flag", "type": "BOOLEAN"},
        {"name": "s", "type": "RECORD", "fields": [
            {"name": "order", "type": "STRING"},
            {"name": "n", "type": "INTEGER"},
        ]},
    ]);
    let rows = (0..n).map(row).collect();
    server.create_table("d", "t", fields, rows).await;
}

fn row(id: i64) -> Value {
    let nested = match id % 5 {
        0 => Value::Null,
        rest => json!({"order": format!("o{rest}"), "n": id}),
    };
    json!({
        "id": id,
        "Name": if id % 7 == 0 { Value::Null } else { json!(format!("it's \\ {id}\n")) },
        "score": if id % 3 == 0 { json!("NaN") } else { json!(id as f64 / 4.0) },
        "flag": id % 2 == 0,
        "s": nested,
    })
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let mut ids: Vec<i64> = batches
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_needed_is_asked_for() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 20).await;
    let context = server.session(2);
    let plan = plan(
        &context,
        "SELECT id FROM bq.d.t WHERE flag AND \"Name\" <> 'x'",
    )
    .await;
    assert_eq!(
        scan_line(&plan),
        "BigQueryScanExec: table=demo.d.t, selected_fields=[id], \
         row_restriction=(`flag`) AND (`Name` != 'x')"
    );
    assert_eq!(run(&context, &plan).await, 8);
    assert_eq!(metric(&plan, "sessions"), 1);
    assert_eq!(metric(&plan, "received_rows"), 8);
    assert!(metric(&plan, "wire_bytes") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn c01_columns_come_in_the_order_of_the_query() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 2).await;
    let context = server.session(1);
    let batches = rows(&context, "SELECT flag, id FROM bq.d.t WHERE id = 1").await;
    assert!(!batches[0].column(0).as_boolean().value(0));
    assert_eq!(batches[0].column(1).as_primitive::<Int64Type>().value(0), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn c03_counting_reads_one_cheap_column() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 100).await;
    let context = server.session(2);
    let count = plan(&context, "SELECT count(*) FROM bq.d.t").await;
    assert!(
        scan_line(&count).contains("selected_fields=[flag]"),
        "{}",
        scan_line(&count)
    );
    let batches = collect(Arc::clone(&count), context.task_ctx())
        .await
        .unwrap();
    assert_eq!(ids(&batches), [100]);
}

/// Each predicate keeps the same rows with and without pushdown.
#[tokio::test(flavor = "multi_thread")]
async fn pushdown_changes_no_result() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 100).await;
    let pushed = server.session(2);
    let kept = server.session(2);
    kept.sql("SET bigquery.scan.pushdown_filters = 'false'")
        .await
        .unwrap();
    for predicate in [
        "id > 50",
        "id BETWEEN 10 AND 20 OR id = 99",
        "id IN (1, 2, 3, 50, 1000)",
        "id NOT IN (1, 2, 3, 50)",
        "\"Name\" = 'it''s \\ 10\n'",
        "\"Name\" LIKE 'it''s%1_'",
        "\"Name\" IS NULL",
        "NOT (\"Name\" = 'x')",
        "score > 5.5",
        "score <= 5.5",
        "score <> 0",
        "score = 0.25",
        "flag",
        "flag IS NOT TRUE",
        "id = -1",
        "s['n'] > 50",
        "s['order'] = 'o3' AND flag",
        "s['order'] IS NULL",
        "s IS NULL",
        "abs(id - 50) < 3 AND id > 48",
    ] {
        let query = format!("SELECT id FROM bq.d.t WHERE {predicate}");
        assert_eq!(
            ids(&rows(&pushed, &query).await),
            ids(&rows(&kept, &query).await),
            "{predicate}"
        );
    }
    let line = scan_line(&plan(&kept, "SELECT id FROM bq.d.t WHERE id > 50").await);
    assert!(!line.contains("row_restriction"), "{line}");
    assert!(line.contains("local_filters=["), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_shared_by_the_partitions() {
    let server = Server::with_flights(1 << 18).await;
    for partitions in [1, 2, 7] {
        let context = server.session(partitions);
        let plan = plan(
            &context,
            "SELECT flight, distance FROM bq.nycflights13.flights",
        )
        .await;
        assert_eq!(run(&context, &plan).await, 336_776);
        assert_eq!(metric(&plan, "sessions"), 1);
        assert!(metric(&plan, "streams") > 3, "{}", metric(&plan, "streams"));
        assert_eq!(metric(&plan, "received_rows"), 336_776);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_can_be_executed_again() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 50).await;
    let context = server.session(3);
    let plan = plan(&context, "SELECT id FROM bq.d.t").await;
    for _ in 0..3 {
        assert_eq!(run(&context, &plan).await, 50);
    }
    let fresh = Arc::clone(&plan).reset_state().unwrap();
    assert_eq!(run(&context, &fresh).await, 50);
    assert_eq!(metric(&fresh, "sessions"), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_ends_the_reading() {
    let server = Server::with_flights(1 << 18).await;
    let context = server.session(4);
    let limited = plan(
        &context,
        "SELECT flight FROM bq.nycflights13.flights LIMIT 10",
    )
    .await;
    assert!(
        scan_line(&limited).contains("limit=10"),
        "{}",
        scan_line(&limited)
    );
    assert_eq!(run(&context, &limited).await, 10);
    let received = metric(&limited, "received_rows");
    assert!(received < 336_776, "{received}");
    let none = plan(
        &context,
        "SELECT flight FROM bq.nycflights13.flights LIMIT 0",
    )
    .await;
    assert_eq!(run(&context, &none).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_no_longer_than_the_engine_wants() {
    let server = Server::with_flights(64 << 20).await;
    let config = SessionConfig::new().with_batch_size(1_000);
    let context = server.session_with(config.with_target_partitions(1));
    let batches = rows(&context, "SELECT flight FROM bq.nycflights13.flights").await;
    assert!(batches.iter().all(|batch| batch.num_rows() <= 1_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn h01_h03_nothing_to_read_is_no_error() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 20).await;
    server
        .create_table("d", "empty", json!([{"name": "a", "type": "JSON"}]), vec![])
        .await;
    let context = server.session(4);
    assert!(ids(&rows(&context, "SELECT id FROM bq.d.t WHERE id = -123").await).is_empty());
    let nothing = plan(&context, "SELECT a FROM bq.d.empty").await;
    assert_eq!(run(&context, &nothing).await, 0);
    assert_eq!(metric(&nothing, "streams"), 0);
    assert_eq!(
        ids(&rows(&context, "SELECT count(*) FROM bq.d.empty").await),
        [0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_self_join_reads_one_snapshot() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 30).await;
    let context = server.session(2);
    let joined = plan(
        &context,
        "SELECT l.id FROM bq.d.t l JOIN bq.d.t r ON l.id = r.id + 1 WHERE l.id > 5",
    )
    .await;
    assert_eq!(run(&context, &joined).await, 24);
    // One session tells the time, and each scan has its own.
    assert_eq!(metric(&joined, "sessions"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_restriction_is_and_ed() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 30).await;
    let context = server.session(1);
    context
        .sql(
            "CREATE EXTERNAL TABLE few STORED AS BIGQUERY LOCATION 'demo.d.t' OPTIONS \
             (scan.row_restriction 'id = 3 OR id = 4')",
        )
        .await
        .unwrap();
    let some = plan(&context, "SELECT id FROM few WHERE flag").await;
    assert!(
        scan_line(&some).contains("row_restriction=(id = 3 OR id = 4) AND (`flag`)"),
        "{}",
        scan_line(&some)
    );
    assert_eq!(run(&context, &some).await, 1);
    context
        .sql(
            "CREATE EXTERNAL TABLE wrong STORED AS BIGQUERY LOCATION 'demo.d.t' OPTIONS \
             (scan.row_restriction 'id = = 3')",
        )
        .await
        .unwrap();
    let refused = error(&context, "SELECT id FROM wrong WHERE flag").await;
    assert!(refused.to_string().contains("demo.d.t"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_costly_scan_is_refused() {
    let server = Server::with_flights(64 << 20).await;
    let context = server.session(1);
    context
        .sql("SET bigquery.scan.max_bytes_scanned = '1 KiB'")
        .await
        .unwrap();
    let refused = error(&context, "SELECT * FROM bq.nycflights13.flights").await;
    let refused = refused.to_string();
    assert!(refused.contains("scan.max_bytes_scanned"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn i01_a_view_is_refused_with_the_way_out() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 3).await;
    server
        .create_view("d", "v", "SELECT id FROM `demo.d.t`")
        .await;
    let context = server.session(1);
    let refused = error(&context, "SELECT * FROM bq.d.v").await.to_string();
    assert!(refused.contains("demo.d.v is a view"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_and_a_dropped_query_leave_the_session_usable() {
    use futures::StreamExt;
    let server = Server::with_flights(1 << 18).await;
    let context: SessionContext = server.session(4);
    let frame = context
        .sql("SELECT flight FROM bq.nycflights13.flights")
        .await
        .unwrap();
    let mut stream = frame.execute_stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    assert!(
        text(&context, "SELECT count(*) FROM bq.nycflights13.flights")
            .await
            .contains("336776")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_structs_are_read_alone() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 20).await;
    let context = server.session(2);
    let fields = plan(&context, "SELECT id, s['n'] + 1 AS m FROM bq.d.t").await;
    assert!(
        scan_line(&fields).contains("selected_fields=[id, s.n]"),
        "{}",
        scan_line(&fields)
    );
    let query = "SELECT id, s['order'] AS o, s['n'] + 1 AS m FROM bq.d.t ORDER BY id LIMIT 7";
    let whole = "SELECT id, s['order'] AS o, s['n'] + 1 AS m FROM (SELECT id, s FROM bq.d.t ORDER \
                 BY id LIMIT 7) ORDER BY id";
    assert_eq!(text(&context, query).await, text(&context, whole).await);
    let filtered = "SELECT s['order'] AS o FROM bq.d.t WHERE s['n'] > 17 AND s IS NOT NULL";
    assert_eq!(
        text(&context, filtered).await,
        "+----+\n| o  |\n+----+\n| o3 |\n| o4 |\n+----+"
    );
}

/// The engine's nanoseconds end in 2262; dates do not.
#[tokio::test(flavor = "multi_thread")]
async fn f04_dates_beyond_nanoseconds_are_compared_with_timestamps() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let fields = json!([{"name": "d", "type": "DATE"}]);
    let days = ["0001-01-01", "1999-12-31", "2024-02-29", "9999-12-31"];
    let values = days.iter().map(|day| json!({"d": day})).collect();
    server.create_table("d", "days", fields, values).await;
    let context = server.session(1);
    for (predicate, expected) in [
        ("d > TIMESTAMP '2024-02-29T12:00:00'", 1),
        ("d <= TIMESTAMP '2024-02-29T12:00:00'", 3),
        ("d < TIMESTAMP '2024-02-29T00:00:00'", 2),
        ("NOT (d = TIMESTAMP '2024-02-29T00:00:00')", 3),
    ] {
        let query = format!("SELECT count(*) FROM bq.d.days WHERE {predicate}");
        assert_eq!(
            ids(&rows(&context, &query).await),
            [expected],
            "{predicate}"
        );
    }
}

/// Sorts and merges know of constants and of columns taken twice, also where the scan
/// makes them.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_computed_columns_is_kept() {
    let server = Server::start(1 << 20).await;
    numbered(&server, 40).await;
    server
        .query("CREATE VIEW d.v AS SELECT id, Name FROM d.t")
        .await;
    let context = server.session_saying([("scan.materialize_views", "true")]);
    let state = context.state();
    assert!(state.config().target_partitions() > 1);
    rows(&context, "CREATE TABLE here AS SELECT * FROM bq.d.t").await;
    for sql in [
        "SELECT 'US' AS src, id FROM t ORDER BY src, id LIMIT 3",
        "SELECT 'a' AS src, id FROM t UNION ALL SELECT 'p', id + 1 FROM t ORDER BY src, id LIMIT 3",
        "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) r FROM \
         (SELECT id, 'x' AS k FROM t) ORDER BY id",
        "SELECT x, y, row_number() OVER (PARTITION BY y ORDER BY x) FROM \
         (SELECT id AS x, id AS y FROM t) ORDER BY x, y LIMIT 5",
        "SELECT a.x, a.y FROM (SELECT id AS x, id AS y FROM t) a JOIN t b ON a.x = b.id \
         ORDER BY a.x, a.y, b.id LIMIT 5",
        "SELECT string_agg(CAST(x AS VARCHAR), ',' ORDER BY y, x) FROM \
         (SELECT id AS x, 7 AS y FROM t)",
        "SELECT count(*) FROM (SELECT id x, 0 y FROM t) a JOIN (SELECT id x, 0 y FROM t) b \
         ON a.x = b.x AND a.y = b.y",
    ] {
        for hash_join in ["true", "false"] {
            let set = format!("SET datafusion.optimizer.prefer_hash_join = {hash_join}");
            rows(&context, &set).await;
            let expected = text(&context, &sql.replace(" t", " here")).await;
            for table in [" bq.d.t", " bq.d.v"] {
                let found = text(&context, &sql.replace(" t", table)).await;
                assert_eq!(found, expected, "{sql}, hash joins: {hash_join}");
            }
        }
    }
}
