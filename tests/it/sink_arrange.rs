//! How many writers an INSERT has, and that one in DataFusion's own node does what
//! several in ours do.

use std::sync::Arc;

use bigquery_local::faults::{Action, Rule};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::sink::{
    BigQueryCommitExec, BigQueryDataSink, BigQuerySink, BigQueryWriteExec,
};

use crate::cdc;
use crate::harness::{Server, commit_metric, plan, refused, rows, run, shown, text, write_metric};
use crate::load_commit::{server as with_bucket, stored};

const METHODS: [&str; 4] = [
    "storage_api_at_least_once",
    "storage_api_exactly_once",
    "storage_api_atomic",
    "file_loads",
];

async fn server() -> Server {
    let server = with_bucket().await;
    server
        .query("CREATE TABLE d.t (n INT64, s STRING); CREATE TABLE d.j (n INT64, j JSON)")
        .await;
    server
}

async fn session(server: &Server, method: &str, more: &[(&str, &str)]) -> SessionContext {
    let mut said = vec![("sink.write_method", method)];
    if method == "file_loads" {
        said.push(("sink.file_loads.staging_path", "gs://bucket/staged"));
        said.push(("sink.file_loads.load_job_poll.initial_backoff", "1 ms"));
    }
    said.extend(more);
    let context = server.session_saying_all(&said);
    // The plan decides over the partitions, and not the machine.
    let partitions = "SET datafusion.execution.target_partitions = 4";
    context.sql(partitions).await.unwrap();
    context
        .sql("SET datafusion.execution.batch_size = 100")
        .await
        .unwrap();
    context
}

/// The same INSERT by the nodes for several writers.
fn by_own_nodes(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let node = plan.downcast_ref::<DataSinkExec>().expect("one writer");
    let sink: &BigQueryDataSink = node.sink().downcast_ref().expect("a sink of ours");
    let sink: BigQuerySink = sink.sink().clone();
    let write = BigQueryWriteExec::new(Arc::clone(node.input()), sink.clone());
    Arc::new(BigQueryCommitExec::new(Arc::new(write), sink))
}

async fn count(context: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let batches = collect(Arc::clone(plan), context.task_ctx()).await.unwrap();
    let of = |batch: &RecordBatch| batch.column(0).as_primitive::<UInt64Type>().value(0);
    batches.iter().map(of).sum()
}

const FEW: &str = "INSERT INTO bq.d.t VALUES (1, 'a'), (2, 'b')";
const MANY: &str = "INSERT INTO bq.d.t SELECT value, 'x' FROM generate_series(1, 1000)";

#[tokio::test(flavor = "multi_thread")]
async fn one_writer_to_one_table_is_a_data_sink() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let exactly = "storage_api_exactly_once";
    let alone = "DataSinkExec: sink=BigQueryDataSink(table=demo.d.t, write_method=";
    for method in METHODS {
        let context = session(&server, method, &[]).await;
        let found = shown(&plan(&context, FEW).await);
        assert!(
            found.starts_with(&format!("{alone}{method}, columns=[n, s]")),
            "{found}"
        );
    }
    let context = session(&server, exactly, &[]).await;
    let found = shown(&plan(&context, "INSERT OVERWRITE bq.d.t VALUES (1, 'a')").await);
    assert!(
        found.contains("BigQueryDataSink") && found.contains("replaces=table"),
        "{found}"
    );
    // Several writers, and what needs them apart from the commit.
    for (said, sql) in [
        (&[][..], MANY),
        (
            &[("sink.checkpoint_path", path), ("sink.run_id", "r")][..],
            FEW,
        ),
    ] {
        let context = session(&server, exactly, said).await;
        let found = shown(&plan(&context, sql).await);
        assert!(found.starts_with("BigQueryCommitExec: "), "{sql}: {found}");
        assert!(found.contains("BigQueryWriteExec: "), "{sql}: {found}");
    }
    let context = session(&server, exactly, &[]).await;
    rows(
        &context,
        "CREATE EXTERNAL TABLE routed (n BIGINT, s VARCHAR) STORED AS BIGQUERY \
         LOCATION 'demo.d.t' OPTIONS (sink.destination 'demo.d.t_{s}')",
    )
    .await;
    let found = shown(&plan(&context, "INSERT INTO routed VALUES (1, 'a')").await);
    assert!(found.starts_with("BigQueryCommitExec: "), "{found}");
    let text = text(&context, &format!("EXPLAIN {FEW}")).await;
    assert!(text.contains(alone), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_write_the_same_rows_and_count_the_same() {
    for method in METHODS {
        let mut seen = Vec::new();
        for own in [false, true] {
            let server = server().await;
            let said = [("sink.failure.policy", "drop"), ("sink.parallelism", "1")];
            let context = session(&server, method, &said).await;
            let insert = "INSERT INTO bq.d.t SELECT CASE value % 100 WHEN 7 THEN \
                          18446744073709551615 ELSE CAST(value AS BIGINT UNSIGNED) END, 'x' \
                          FROM generate_series(1, 1000)";
            let mut planned = plan(&context, insert).await;
            if own {
                planned = by_own_nodes(&planned);
            }
            let counted = count(&context, &planned).await;
            let written: Vec<_> = [
                "rows_written",
                "rows_skipped",
                "bytes_sent",
                "requests",
                "in_flight",
                "open_destinations",
                "files_staged",
            ]
            // How well a file is compressed depends on the random bytes in it.
            .map(|name| match (name, method) {
                ("bytes_sent", "file_loads") => (name, 0),
                _ => (name, write_metric(&planned, name)),
            })
            .into();
            let jobs = ["load_jobs_submitted", "load_jobs_done"];
            let jobs = jobs.map(|name| commit_metric(&planned, name));
            assert_eq!(jobs, [usize::from(method == "file_loads"); 2], "{method}");
            seen.push((counted, written, stored(&server, "t").await));
        }
        let (counted, metrics, rows) = &seen[0];
        assert_eq!(
            (*counted, rows.as_str()),
            (990, "990 990 1 1000"),
            "{method}"
        );
        assert_eq!(metrics[..2], [("rows_written", 990), ("rows_skipped", 10)]);
        assert_eq!(metrics[4].1, 0, "{method}");
        // What a request costs beside its rows depends on the names of streams alone.
        assert_eq!(seen[0], seen[1], "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_end_in_the_same_error_and_leave_nothing() {
    for method in METHODS {
        let mut errors = Vec::new();
        for own in [false, true] {
            let server = server().await;
            let context = session(&server, method, &[("sink.parallelism", "1")]).await;
            let insert = "INSERT INTO bq.d.t SELECT CASE value WHEN 2 THEN 18446744073709551615 \
                          ELSE CAST(value AS BIGINT UNSIGNED) END, 'x' FROM generate_series(1, 3)";
            let mut planned = plan(&context, insert).await;
            if own {
                planned = by_own_nodes(&planned);
            }
            let failed = collect(planned, context.task_ctx()).await.unwrap_err();
            let failed = failed.to_string();
            for part in ["demo.d.t", "row 2", "'n'"] {
                assert!(failed.contains(part), "{method}: {failed}");
            }
            errors.push(failed);
            assert!(stored(&server, "t").await.starts_with("0 0"), "{method}");
        }
        assert_eq!(errors[0], errors[1], "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k08_a_statement_that_is_dropped_leaves_nothing_either_way() {
    for (method, call) in [
        ("storage_api_exactly_once", "AppendRows"),
        ("storage_api_exactly_once", "FlushRows"),
        ("storage_api_atomic", "AppendRows"),
        ("storage_api_atomic", "BatchCommitWriteStreams"),
        ("file_loads", "objects.insert"),
    ] {
        for own in [false, true] {
            let server = server().await;
            let context = session(&server, method, &[]).await;
            let mut planned = plan(&context, FEW).await;
            if own {
                planned = by_own_nodes(&planned);
            }
            let rule = server.fault(Rule::once(call, Action::Hang).always());
            let running = tokio::spawn(collect(planned, context.task_ctx()));
            while server.acted(rule) == 0 {
                tokio::task::yield_now().await;
            }
            running.abort();
            assert!(running.await.unwrap_err().is_cancelled());
            server.unfault(rule);
            assert!(
                stored(&server, "t").await.starts_with("0 0"),
                "{method} {call}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parallelism_is_as_many_writers_as_are_asked_for() {
    for (parallelism, writers) in [("1", 1), ("2", 2), ("4", 4), ("7", 7)] {
        for sql in [FEW, MANY] {
            let server = server().await;
            let said = [("sink.parallelism", parallelism)];
            let context = session(&server, "storage_api_exactly_once", &said).await;
            let planned = plan(&context, sql).await;
            let found = shown(&planned);
            match writers {
                1 => assert!(found.starts_with("DataSinkExec"), "{found}"),
                4 => {}
                _ => {
                    let dealt = format!("RoundRobinBatch({writers})");
                    assert!(found.contains(&dealt), "{found}");
                }
            }
            let rows = if sql == FEW { 2 } else { 1000 };
            assert_eq!(count(&context, &planned).await, rows, "{found}");
            assert_eq!(write_metric(&planned, "rows_written") as u64, rows);
            let all = format!("{rows} {rows} 1 {rows}");
            assert_eq!(stored(&server, "t").await, all, "{found}");
        }
    }
    let server = server().await;
    refused(
        &session(&server, "storage_api_atomic", &[]).await,
        "SET bigquery.sink.parallelism = '0'",
        &["sink.parallelism", "from 1 to 1000"],
    )
    .await;
}

/// The quota of CreateWriteStream is 10,000 in an hour; a stream is made for each writer.
#[tokio::test(flavor = "multi_thread")]
async fn r03_as_many_streams_as_writers_and_none_for_the_default_stream() {
    for (method, streams) in [
        ("storage_api_at_least_once", 0),
        ("storage_api_exactly_once", 3),
        ("storage_api_atomic", 3),
    ] {
        let server = server().await;
        let created = server.calls("CreateWriteStream");
        let context = session(&server, method, &[("sink.parallelism", "3")]).await;
        context
            .sql("SET datafusion.execution.target_partitions = 64")
            .await
            .unwrap();
        let planned = plan(&context, MANY).await;
        run(&context, &planned).await;
        let made = server.acted(created);
        assert!(
            made <= streams && (made > 0) == (streams > 0),
            "{method}: {made}"
        );
        assert_eq!(stored(&server, "t").await, "1000 1000 1 1000", "{method}");
    }
}

/// Each row is the last of its key only if changes of one key stay in order.
#[tokio::test(flavor = "multi_thread")]
async fn parallelism_keeps_the_order_of_changes() {
    let server = cdc::server().await;
    let source = "SELECT value % 10 AS id, CAST(value AS VARCHAR) AS name, 1000 - value AS back \
                  FROM generate_series(0, 999)";
    for (parallelism, divided) in [("1", None), ("3", Some("Hash([id@0], 3)"))] {
        for (order, last) in [("", 990), (" ORDER BY back", 0)] {
            for partitions in [1, 4] {
                let context = server.session(partitions);
                for (option, value) in [
                    ("datafusion.execution.batch_size", "100"),
                    ("bigquery.sink.parallelism", parallelism),
                ] {
                    let set = format!("SET {option} = '{value}'");
                    context.sql(&set).await.unwrap();
                }
                cdc::declare(&context, "t", "").await;
                let insert =
                    format!("INSERT INTO t (id, name) SELECT id, name FROM ({source}){order}");
                let planned = plan(&context, &insert).await;
                let found = shown(&planned);
                assert!(!found.contains("RoundRobin"), "{found}");
                match divided {
                    Some(divided) => assert!(found.contains(divided), "{found}"),
                    None => assert!(!found.contains("Hash("), "{found}"),
                }
                run(&context, &planned).await;
                let rows: Vec<String> = (0..10)
                    .map(|id| format!("{id} {}  []", last + id))
                    .collect();
                assert_eq!(cdc::stored(&context, "t").await, rows.join("; "), "{found}");
            }
        }
    }
    // Changes with places of their own may come from anywhere.
    let context = server.session(4);
    cdc::declare(&context, "u", ", 'sink.parallelism' '2'").await;
    rows(
        &context,
        &format!(
            "INSERT INTO u (id, name, price, _CHANGE_SEQUENCE_NUMBER) \
             SELECT id, 'n', back, bigquery_change_sequence(1000 - back) FROM ({source})"
        ),
    )
    .await;
    let last: Vec<String> = (0..10)
        .map(|id| format!("{id} n {}.000000000 []", 10 - id))
        .collect();
    assert_eq!(cdc::stored(&context, "u").await, last.join("; "));
}
