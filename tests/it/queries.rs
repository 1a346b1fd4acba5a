//! Query jobs: the user's own queries, views and other things that only a query
//! reads, and what SQL says where it names a table.

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::{Error, ErrorKind};
use serde_json::json;

use crate::harness::{Server, error, plan, rows};

async fn numbers() -> Server {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let fields = json!([
        {"name": "id", "type": "INT64"},
        {"name": "name", "type": "STRING"},
        {"name": "s", "type": "RECORD", "fields": [
            {"name": "a", "type": "INT64"}, {"name": "b", "type": "STRING"}]},
    ]);
    let row = |id: i64| json!({"id": id, "name": format!("n{id}"), "s": {"a": id * 10, "b": "x"}});
    server
        .create_table("d", "t", fields, (1..=5).map(row).collect())
        .await;
    server
        .create_view(
            "d",
            "v",
            "SELECT id, name, s, id * 2 AS twice FROM `demo.d.t`",
        )
        .await;
    server
}

async fn shown(context: &SessionContext, sql: &str) -> String {
    let batches = rows(context, sql).await;
    pretty_format_batches(&batches).unwrap().to_string()
}

async fn values(context: &SessionContext, sql: &str) -> Vec<i64> {
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int64Type;
    let mut values: Vec<i64> = rows(context, sql)
        .await
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    values.sort_unstable();
    values
}

/// The one query job in a plan, as EXPLAIN shows it.
fn query_line(plan: &Arc<dyn ExecutionPlan>) -> String {
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let line = text.lines().find(|line| line.contains("BigQueryQueryExec"));
    line.unwrap_or_else(|| panic!("no query in {text}"))
        .trim()
        .to_string()
}

// Table functions wait for the service while they are planned, and the service
// is in this process: it needs a thread of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_read_with_projection_and_filter_on_its_result() {
    let server = numbers().await;
    let session = server.session(4);
    let sql =
        "SELECT twice FROM bigquery_query('SELECT id, id * 2 AS twice FROM d.t') WHERE id > 3";
    let plan = plan(&session, sql).await;
    let line = query_line(&plan);
    for part in [
        "query=SELECT id, id * 2 AS twice FROM d.t,",
        "selected_fields=[",
        "row_restriction=(`id` > 3)",
        "estimated_bytes=",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let _ = shown(&session, sql).await;
    assert_eq!(values(&session, sql).await, [8, 10]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_named_and_positional() {
    let server = numbers().await;
    let session = server.session(2);
    for sql in [
        "SELECT id FROM bigquery_query('SELECT id FROM d.t WHERE id >= ? AND name IN UNNEST(?)', \
         parameters => [2, ['n2', 'n4', 'n9']])",
        "SELECT id FROM bigquery_query('SELECT id FROM d.t WHERE id >= @least AND name IN \
         UNNEST(@names)', parameters => named_struct('least', 2, 'names', ['n2', 'n4', 'n9']))",
        "SELECT id FROM bigquery_query('SELECT id FROM d.t WHERE id >= @least AND name IN \
         UNNEST(@names)', parameters => {least: 1 + 1, names: ['n2', 'n4', 'n9']})",
    ] {
        assert_eq!(values(&session, sql).await, [2, 4], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h16_only_a_select_is_a_table_and_nothing_else_is_run() {
    let server = numbers().await;
    let session = server.session(2);
    for (sql, named) in [
        ("DROP TABLE d.t", "DROP_TABLE"),
        ("INSERT INTO d.t (id) VALUES (9)", "INSERT"),
        ("CREATE VIEW d.w AS SELECT 1 AS x", "CREATE_VIEW"),
        ("SELECT 1; SELECT 2", "script"),
    ] {
        let call = format!("SELECT * FROM bigquery_query('{sql}')");
        let error = error(&session, &call).await;
        let found = Error::find_in(&error).unwrap_or_else(|| panic!("{error}"));
        assert_eq!(found.kind(), ErrorKind::Unsupported, "{error}");
        assert!(found.message().contains(named), "{error}");
    }
    assert_eq!(values(&session, "SELECT count(*) FROM bq.d.t").await, [5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_query_is_a_table() {
    let server = numbers().await;
    let session = server.session(2);
    let create = "CREATE EXTERNAL TABLE q STORED AS BIGQUERY LOCATION 'demo' \
                  OPTIONS('scan.query' 'SELECT id, name FROM d.t WHERE name <> ''n1''')";
    rows(&session, create).await;
    assert_eq!(
        values(&session, "SELECT id FROM q WHERE id < 4").await,
        [2, 3]
    );
    let both = "CREATE EXTERNAL TABLE q2 STORED AS BIGQUERY LOCATION 'demo.d.t' \
                OPTIONS('scan.query' 'SELECT 1 AS x')";
    let refused = error(&session, both).await.to_string();
    assert!(refused.contains("the project that runs"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_are_read_by_a_select_with_projection_filter_and_limit_in_it() {
    let server = numbers().await;
    let session = server.session(2);
    let sql = "SELECT twice FROM bq.d.v WHERE id > 3";
    let refused = error(&session, sql).await.to_string();
    assert!(refused.contains("scan.materialize_views"), "{refused}");
    rows(&session, "SET bigquery.scan.materialize_views = true").await;
    let plan = plan(&session, sql).await;
    let line = query_line(&plan);
    assert!(
        line.contains("FROM `demo.d.v` WHERE (`id` > 3)") && !line.contains("row_restriction"),
        "{line}"
    );
    assert!(!line.contains("`name`"), "{line}");
    assert_eq!(values(&session, sql).await, [8, 10]);
    let nested = "SELECT s.a FROM bq.d.v WHERE s.a >= 40";
    assert_eq!(values(&session, nested).await, [40, 50]);
    assert_eq!(values(&session, "SELECT count(*) FROM bq.d.v").await, [5]);
    let plan = crate::harness::plan(&session, "SELECT id FROM bq.d.v LIMIT 2").await;
    assert!(
        query_line(&plan).contains("LIMIT 2"),
        "{}",
        query_line(&plan)
    );
    let joined = "SELECT a.id FROM bq.d.v a JOIN bq.d.v b ON a.id = b.id WHERE a.twice = 6";
    assert_eq!(values(&session, joined).await, [3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_as_of_a_time() {
    let server = numbers().await;
    let session = server.session(2);
    // The server's own clock, after the rows.
    let before = chrono::Utc::now().to_rfc3339();
    rows(&session, "SET datafusion.sql_parser.dialect = 'bigquery'").await;
    server.query("INSERT INTO d.t (id) VALUES (6)").await;
    assert_eq!(values(&session, "SELECT count(*) FROM bq.d.t").await, [6]);
    let then =
        format!("SELECT count(*) FROM bq.d.t FOR SYSTEM_TIME AS OF TIMESTAMP '{before}' AS t");
    assert_eq!(values(&session, &then).await, [5]);
    let both = format!(
        "SELECT n.id FROM bq.d.t AS n LEFT JOIN bq.d.t FOR SYSTEM_TIME AS OF '{before}' AS o \
         ON n.id = o.id WHERE o.id IS NULL"
    );
    assert_eq!(values(&session, &both).await, [6]);
    let function =
        format!("SELECT count(*) FROM bigquery_scan('demo.d.t', snapshot_time => '{before}')");
    assert_eq!(values(&session, &function).await, [5]);
    for (sql, part) in [
        ("SELECT * FROM (VALUES (1)) AS x", ""),
        (
            "WITH w AS (SELECT 1) SELECT * FROM w FOR SYSTEM_TIME AS OF '2024-01-01'",
            "w is none",
        ),
        (
            "SELECT * FROM bq.d.t FOR SYSTEM_TIME AS OF 'never'",
            "not an instant",
        ),
        (
            "SELECT * FROM bq.d.t FOR SYSTEM_TIME AS OF '1999-01-01'",
            "option scan.snapshot_time, or of FOR SYSTEM_TIME AS OF",
        ),
        (
            "SELECT * FROM bigquery_scan('demo.d.t', snapshot_time => '2099-01-01T00:00:00Z')",
            "option scan.snapshot_time",
        ),
        (
            "SELECT * FROM bq.d.t FOR SYSTEM_TIME AS OF 5",
            "not an instant",
        ),
    ] {
        if part.is_empty() {
            rows(&session, sql).await;
            continue;
        }
        let refused = error(&session, sql).await.to_string();
        assert!(refused.contains(part), "{sql}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_are_of_blocks_or_refused() {
    let server = numbers().await;
    let session = server.session(2);
    let all = "SELECT count(*) FROM bq.d.t TABLESAMPLE SYSTEM (100 PERCENT)";
    assert_eq!(values(&session, all).await, [5]);
    for clause in [
        "TABLESAMPLE BERNOULLI (10)",
        "TABLESAMPLE (10 PERCENT)",
        "TABLESAMPLE SYSTEM (10 ROWS)",
        "TABLESAMPLE SYSTEM (10) REPEATABLE (7)",
        "TABLESAMPLE SYSTEM (101)",
    ] {
        let refused = error(&session, &format!("SELECT * FROM bq.d.t {clause}")).await;
        let found = Error::find_in(&refused).unwrap_or_else(|| panic!("{clause}: {refused}"));
        assert!(found.message().contains("TABLESAMPLE SYSTEM"), "{refused}");
    }
    for sql in [
        "SELECT * FROM (SELECT 1) TABLESAMPLE SYSTEM (10)",
        "SELECT * FROM information_schema.tables TABLESAMPLE SYSTEM (10)",
    ] {
        let refused = error(&session, sql).await.to_string();
        assert!(refused.contains("is none"), "{refused}");
    }
}

/// A counter of the plan's query jobs.
fn counted(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan
        .metrics()
        .and_then(|metrics| metrics.sum_by_name(name))
        .map_or(0, |value| value.as_usize());
    let children = plan.children();
    own + children
        .into_iter()
        .map(|child| counted(child, name))
        .sum::<usize>()
}

/// How many jobs a statement started, and how many it found.
async fn jobs(context: &SessionContext, sql: &str) -> (usize, usize) {
    let plan = plan(context, sql).await;
    crate::harness::run(context, &plan).await;
    (
        counted(&plan, "jobs_submitted"),
        counted(&plan, "jobs_reused"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_job_is_read_again_and_probed_past_when_its_result_is_gone() {
    let server = numbers().await;
    server.create_dataset("results").await;
    let session = server.session(2);
    let sql = "SELECT * FROM bigquery_query('SELECT id FROM d.t WHERE id > 1', location => 'US', \
               query_result_dataset => 'results', reuse_query_result_within => '12 h')";
    assert_eq!(jobs(&session, sql).await, (1, 0));
    assert_eq!(jobs(&session, sql).await, (0, 1));
    // Another session finds it too: the id is that of the query.
    assert_eq!(jobs(&server.session(1), sql).await, (0, 1));
    let other = sql.replace("id > 1", "id > 2");
    assert_eq!(jobs(&session, &other).await, (1, 0));
    // The results lie in the dataset, and go by themselves.
    let listed = server.get("datasets/results/tables").await;
    let tables: Vec<String> = listed["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| {
            table["tableReference"]["tableId"]
                .as_str()
                .unwrap()
                .to_string()
        })
        .collect();
    assert_eq!(tables.len(), 2, "{listed}");
    for table in &tables {
        let resource = server
            .get(&format!("datasets/results/tables/{table}"))
            .await;
        let expires: i64 = resource["expirationTime"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let hours = (expires - chrono::Utc::now().timestamp_millis()) / 3_600_000;
        assert!((22..=24).contains(&hours), "{resource}");
        server.query(&format!("DROP TABLE results.{table}")).await;
    }
    assert_eq!(jobs(&session, sql).await, (1, 0));
    assert_eq!(jobs(&session, sql).await, (0, 1));
    assert_eq!(values(&session, sql).await, [2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_a_statement_names_twice_runs_once() {
    let server = numbers().await;
    let session = server.session(2);
    rows(
        &session,
        "CREATE EXTERNAL TABLE q STORED AS BIGQUERY LOCATION 'demo' \
         OPTIONS('scan.query' 'SELECT id, RAND() AS r FROM d.t')",
    )
    .await;
    let sql = "SELECT a.id FROM q AS a JOIN q AS b ON a.id = b.id AND a.r = b.r";
    assert_eq!(values(&session, sql).await, [1, 2, 3, 4, 5]);
    assert_eq!(values(&session, sql).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_reach_the_job() {
    let server = numbers().await;
    let session = server.session(1);
    let sql = "SELECT * FROM bigquery_query('SELECT id FROM d.t', job_labels => 'team=data')";
    rows(&session, sql).await;
    let listed = server.get("jobs?projection=full").await;
    let labelled = listed["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|job| job["configuration"]["labels"]["team"] == "data")
        .count();
    assert_eq!(labelled, 1, "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_read_too_much_is_refused_with_the_estimate() {
    let server = numbers().await;
    let session = server.session(1);
    rows(&session, "SET bigquery.scan.materialize_views = true").await;
    rows(&session, "SET bigquery.scan.max_bytes_scanned = '1 B'").await;
    for sql in [
        "SELECT * FROM bq.d.t",
        "SELECT * FROM bq.d.v",
        "SELECT * FROM bigquery_query('SELECT * FROM d.t')",
    ] {
        let refused = error(&session, sql).await;
        let found = Error::find_in(&refused).unwrap_or_else(|| panic!("{sql}: {refused}"));
        assert_eq!(
            found.kind(),
            ErrorKind::FailedPrecondition,
            "{sql}: {refused}"
        );
        for part in ["bytes by the service's estimate", "allows 1"] {
            assert!(found.message().contains(part), "{sql}: {refused}");
        }
    }
    rows(&session, "SET bigquery.scan.max_bytes_scanned = '1 GB'").await;
    assert_eq!(values(&session, "SELECT id FROM bq.d.v").await.len(), 5);
    let query = "SELECT id FROM bigquery_query('SELECT * FROM d.t')";
    assert_eq!(values(&session, query).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_read_over_rest_by_who_may_not_open_read_sessions() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .query(
            "CREATE TABLE d.all_types AS SELECT 1 AS i, 1.5 AS f, TRUE AS b, 'tä' AS s, \
             b'\\x00\\xff' AS y, NUMERIC '-1.5' AS n, BIGNUMERIC '1e-38' AS bn, \
             DATE '0001-01-01' AS d, TIME '23:59:59.999999' AS t, \
             DATETIME '9999-12-31 23:59:59.999999' AS dt, \
             TIMESTAMP '1969-12-31 23:59:59.999999+00' AS ts, JSON '{\"a\": [1]}' AS j, \
             INTERVAL '1-2 3 4:5:6.789' YEAR TO SECOND AS iv, \
             RANGE<DATE> '[2024-01-01, UNBOUNDED)' AS r, \
             STRUCT(1 AS a, ['x', 'y'] AS l) AS st, [STRUCT(1 AS x)] AS ls, \
             CAST(NULL AS STRING) AS nothing",
        )
        .await;
    server.query("INSERT INTO d.all_types (i) VALUES (2)").await;
    let session = server.session(2);
    let sql = "SELECT * FROM bigquery_query('SELECT * FROM d.all_types') ORDER BY i";
    let over_storage = rows(&session, sql).await;
    server.fail_always("CreateReadSession", "PERMISSION_DENIED");
    let over_rest = rows(&session, sql).await;
    assert_eq!(
        pretty_format_batches(&over_storage).unwrap().to_string(),
        pretty_format_batches(&over_rest).unwrap().to_string()
    );
    assert_eq!(over_storage[0].schema(), over_rest[0].schema());
    let limited = "SELECT i FROM bigquery_query('SELECT * FROM d.all_types') WHERE i > 1 LIMIT 1";
    assert_eq!(values(&session, limited).await, [2]);
    // What a table needs a session for stays an error.
    let refused = error(&session, "SELECT i FROM bq.d.all_types").await;
    let found = Error::find_in(&refused).expect("an error of the service");
    assert_eq!(found.kind(), ErrorKind::PermissionDenied, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_query_cancels_its_job() {
    use datafusion::execution::SessionStateBuilder;
    use datafusion_bigquery::{RawOptions, with_bigquery};

    use crate::fake_rest::{Answer, FakeRest};

    let (cancelled, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let (waiting, mut waits) = tokio::sync::mpsc::unbounded_channel();
    let rest = FakeRest::start(move |call, path| {
        if path.contains("/cancel") {
            cancelled.send(path.to_string()).unwrap();
            return Answer::json(200, &json!({"job": {}}));
        }
        if path.contains("/queries/") {
            waiting.send(()).unwrap();
            return Answer::json(200, &json!({"jobComplete": false}));
        }
        let described = json!({
            "jobReference": {"projectId": "p", "location": "EU"},
            "status": {"state": "DONE"},
            "statistics": {"query": {"statementType": "SELECT", "schema": {"fields": [
                {"name": "x", "type": "INTEGER"}]}}},
        });
        let running = json!({
            "jobReference": {"projectId": "p", "jobId": "j", "location": "EU"},
            "status": {"state": "RUNNING"},
        });
        Answer::json(200, if call == 0 { &described } else { &running })
    })
    .await;
    let options = RawOptions::from_pairs([
        ("project", "p"),
        ("rest_endpoint", rest.endpoint()),
        ("grpc_endpoint", "http://127.0.0.1:1"),
    ])
    .unwrap();
    let builder = SessionStateBuilder::new_with_default_features();
    let session = SessionContext::new_with_state(with_bigquery(builder, options).unwrap().build());
    let frame = session
        .sql("SELECT * FROM bigquery_query('SELECT 1 AS x')")
        .await
        .unwrap();
    let running = tokio::spawn(frame.collect());
    waits.recv().await.unwrap();
    running.abort();
    let path = seen.recv().await.unwrap();
    assert!(
        path.contains("/projects/p/jobs/j/cancel?location=EU"),
        "{path}"
    );
}
