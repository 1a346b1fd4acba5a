//! INSERT OVERWRITE: the rows of a table, or of one partition, are replaced all at
//! once or not at all, and nothing else of the table is.

use std::time::Duration;

use bigquery_local::faults::{Action, Rule};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::client::finish_background_work;
use datafusion_bigquery::{Error, ErrorKind};

use crate::harness::{Server, error, plan, rows, run, text};
use crate::load_commit::{server, stored, tables};

const METHODS: [&str; 4] = [
    "storage_api_at_least_once",
    "storage_api_exactly_once",
    "storage_api_atomic",
    "file_loads",
];

fn session(server: &Server, method: &str) -> SessionContext {
    server.session_saying_all(&[
        ("sink.write_method", method),
        ("sink.file_loads.staging_path", "gs://bucket/staged"),
        ("sink.file_loads.load_job_poll.initial_backoff", "1 ms"),
        ("sink.file_loads.load_job_poll.max_backoff", "5 ms"),
    ])
}

async fn table(server: &Server) {
    server
        .query(
            "CREATE TABLE d.t (n INT64 NOT NULL, s STRING OPTIONS (description = 'text'), \
             PRIMARY KEY (n) NOT ENFORCED) \
             PARTITION BY RANGE_BUCKET(n, GENERATE_ARRAY(0, 1000, 100)) CLUSTER BY s \
             OPTIONS (description = 'kept', labels = [('a', 'b')])",
        )
        .await;
    server
        .query("INSERT INTO d.t SELECT n, 'old' FROM UNNEST(GENERATE_ARRAY(1, 5)) AS n")
        .await;
}

async fn assert_kept(server: &Server, method: &str) {
    let found = server.get("datasets/d/tables/t").await;
    assert_eq!(found["clustering"]["fields"][0], "s", "{method}");
    assert_eq!(found["rangePartitioning"]["field"], "n", "{method}");
    assert_eq!(found["schema"]["fields"][0]["mode"], "REQUIRED", "{method}");
    assert_eq!(found["schema"]["fields"][1]["description"], "text");
    assert_eq!(found["description"], "kept", "{method}");
    assert_eq!(found["labels"]["a"], "b", "{method}");
    assert_eq!(found.get("expirationTime"), None, "{method}");
    let key = found.pointer("/tableConstraints/primaryKey/columns/0");
    assert_eq!(key.and_then(|key| key.as_str()), Some("n"), "{method}");
    assert_eq!(tables(server).await, ["t"], "{method}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_replaced_and_nothing_else_is() {
    for method in METHODS {
        let server = server().await;
        table(&server).await;
        let context = session(&server, method);
        let answer = text(
            &context,
            "INSERT OVERWRITE bq.d.t SELECT value, 'new' FROM generate_series(10, 29)",
        )
        .await;
        assert!(answer.contains("| 20    |"), "{method}: {answer}");
        assert_eq!(stored(&server, "t").await, "20 20 10 29", "{method}");
        assert_kept(&server, method).await;
        // From the table itself.
        rows(
            &context,
            "INSERT OVERWRITE bq.d.t SELECT n + 1, s FROM bq.d.t",
        )
        .await;
        assert_eq!(stored(&server, "t").await, "20 20 11 30", "{method}");
        // By nothing.
        rows(
            &context,
            "INSERT OVERWRITE bq.d.t SELECT n, s FROM bq.d.t WHERE n < 0",
        )
        .await;
        assert_eq!(stored(&server, "t").await, "0 0", "{method}");
        assert_kept(&server, method).await;
        // Adding is what it was.
        rows(&context, "INSERT INTO bq.d.t VALUES (1, 'x')").await;
        rows(&context, "INSERT INTO bq.d.t VALUES (2, 'x')").await;
        assert_eq!(stored(&server, "t").await, "2 2 1 2", "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_runs_twice_replaces_twice() {
    for method in METHODS {
        let server = server().await;
        table(&server).await;
        let context = session(&server, method);
        let sql = "INSERT OVERWRITE bq.d.t SELECT n + 1, s FROM bq.d.t";
        for expected in ["5 5 2 6", "5 5 3 7"] {
            let planned = plan(&context, sql).await;
            run(&context, &planned).await;
            assert_eq!(stored(&server, "t").await, expected, "{method}");
        }
        let planned = plan(&context, "INSERT OVERWRITE bq.d.t VALUES (7, 'x')").await;
        run(&context, &planned).await;
        server.query("INSERT INTO d.t VALUES (8, 'y')").await;
        run(&context, &planned).await;
        assert_eq!(stored(&server, "t").await, "1 1 7 7", "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_fails_replaces_nothing() {
    for method in METHODS {
        let server = server().await;
        table(&server).await;
        let context = session(&server, method);
        // A row that cannot be written, after many that can.
        let failed = error(
            &context,
            "INSERT OVERWRITE bq.d.t SELECT CASE WHEN value = 9000 THEN NULL ELSE value END, \
             'new' FROM generate_series(1, 10000)",
        )
        .await;
        assert!(failed.to_string().contains("REQUIRED"), "{failed}");
        assert_eq!(stored(&server, "t").await, "5 5 1 5", "{method}");
        // A division that fails while the plan runs.
        error(
            &context,
            "INSERT OVERWRITE bq.d.t SELECT 1 / (value - 9000), 'x' FROM generate_series(1, 10000)",
        )
        .await;
        assert_eq!(stored(&server, "t").await, "5 5 1 5", "{method}");
        // The last job.
        let refused = Action::Http {
            status: 400,
            reason: "invalid".into(),
            message: "on purpose".into(),
        };
        let rule = server.fault(Rule::once("jobs.insert", refused).always());
        let failed = error(&context, "INSERT OVERWRITE bq.d.t VALUES (9, 'x')").await;
        let failed = Error::find_in(&failed).unwrap();
        assert_eq!(failed.kind(), ErrorKind::InvalidArgument);
        assert!(failed.to_string().contains("demo.d.t"), "{failed}");
        server.unfault(rule);
        assert_eq!(stored(&server, "t").await, "5 5 1 5", "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_cancelled_replaces_nothing_and_leaves_nothing() {
    let server = server().await;
    table(&server).await;
    let context = session(&server, "storage_api_at_least_once");
    let hang = server.fault(Rule::once("jobs.insert", Action::Hang).always());
    let statement = context.sql("INSERT OVERWRITE bq.d.t VALUES (9, 'x')").await;
    let running = tokio::spawn(statement.unwrap().collect());
    while server.acted(hang) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    running.abort();
    running.await.unwrap_err();
    server.unfault(hang);
    assert_eq!(stored(&server, "t").await, "5 5 1 5");
    // What the cancelled commit left expires.
    for table in tables(&server).await.iter().filter(|table| *table != "t") {
        let found = server.get(&format!("datasets/d/tables/{table}")).await;
        assert!(found["expirationTime"].is_string(), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_partition_is_replaced_by_its_decorator() {
    for method in METHODS {
        let server = server().await;
        server
            .query("CREATE TABLE d.t (n INT64, day DATE) PARTITION BY day")
            .await;
        server
            .query(
                "INSERT INTO d.t VALUES (1, '2026-01-01'), (2, '2026-01-01'), \
                 (3, '2026-01-02'), (4, NULL)",
            )
            .await;
        let context = session(&server, method);
        rows(
            &context,
            "CREATE EXTERNAL TABLE first STORED AS BIGQUERY LOCATION 'demo.d.t$20260101'",
        )
        .await;
        rows(
            &context,
            "INSERT OVERWRITE first VALUES (7, DATE '2026-01-01')",
        )
        .await;
        assert_eq!(stored(&server, "t").await, "3 3 3 7", "{method}");
        rows(
            &context,
            "INSERT OVERWRITE first SELECT n, day FROM bq.d.t WHERE n = 0",
        )
        .await;
        assert_eq!(stored(&server, "t").await, "2 2 3 4", "{method}");
        // Rows of another partition do not fit, and nothing happens.
        error(
            &context,
            "INSERT OVERWRITE first VALUES (8, DATE '2026-01-02')",
        )
        .await;
        assert_eq!(stored(&server, "t").await, "2 2 3 4", "{method}");
        // Nothing could ever make that commit.
        finish_background_work(Duration::from_secs(60)).await;
        assert_eq!(tables(&server).await, ["t"], "{method}");
        assert!(server.objects("bucket").await.is_empty(), "{method}");

        let failed = error(&context, "SELECT * FROM first").await;
        for part in ["'20260101'", "demo.d.t", "filter"] {
            assert!(failed.to_string().contains(part), "{failed}");
        }
        let add = "INSERT INTO first VALUES (5, DATE '2026-01-01')";
        if method == "file_loads" {
            rows(&context, add).await;
            assert_eq!(stored(&server, "t").await, "3 3 3 5");
        } else {
            let failed = error(&context, add).await;
            for part in ["'20260101'", "INSERT OVERWRITE"] {
                assert!(failed.to_string().contains(part), "{failed}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_require_a_filter_keep_that() {
    for method in METHODS {
        let server = server().await;
        server
            .query(
                "CREATE TABLE d.t (n INT64, day DATE) PARTITION BY day \
                 OPTIONS (require_partition_filter = true)",
            )
            .await;
        server
            .query("INSERT INTO d.t VALUES (1, '2026-01-01')")
            .await;
        let context = session(&server, method);
        rows(
            &context,
            "INSERT OVERWRITE bq.d.t VALUES (2, DATE '2026-01-02')",
        )
        .await;
        let found = server.get("datasets/d/tables/t").await;
        let required = found["requirePartitionFilter"] == true
            || found["timePartitioning"]["requirePartitionFilter"] == true;
        assert!(required, "{method}: {found}");
        assert_eq!(found["numRows"], "1", "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_replace_is_refused() {
    let server = server().await;
    table(&server).await;
    let context = server.session_saying_all(&[
        ("sink.write_method", "file_loads"),
        ("sink.file_loads.staging_path", "gs://bucket/staged"),
        ("sink.file_loads.write_disposition", "write_empty"),
    ]);
    let failed = error(&context, "INSERT OVERWRITE bq.d.t VALUES (9, 'x')").await;
    for part in ["INSERT OVERWRITE", "'write_empty'"] {
        assert!(failed.to_string().contains(part), "{failed}");
    }
}
