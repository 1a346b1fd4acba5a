//! Writing where the service's quotas are enforced.

use bigquery_local::quotas::{Quota, QuotaLimits};
use datafusion::prelude::SessionContext;
use datafusion_bigquery::ErrorKind;
use datafusion_bigquery::options::SinkOptions;
use datafusion_bigquery::sink::{BigQuerySink, LoadLimits};

use crate::harness::{Server, rows, text};
use crate::load_commit::{TINY, files, server as with_bucket, sink, stage, stored};

/// A commit beyond the quota changes nothing, says so at once, and can be repeated on
/// another day; whether one job or several make it.
#[tokio::test(flavor = "multi_thread")]
async fn r04_a_commit_beyond_the_load_jobs_of_a_day_is_repeated_on_another() {
    for limits in [LoadLimits::default(), TINY] {
        let server = with_bucket().await;
        server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
        let quotas = server.quotas();
        quotas.enforce(Some(QuotaLimits {
            table_modifications: 1,
            // Temporary tables of the small limits.
            table_creations: 1_000,
            ..QuotaLimits::default()
        }));
        let loading = sink(&server, "t", limits, &[]).await;
        let first = stage(&loading, 0..100).await;
        loading.committer().commit(first).await.unwrap();
        assert_eq!(quotas.used(Quota::TableModifications, "demo:d.t"), 1);

        let second = stage(&loading, 100..200).await;
        let failed = loading
            .committer()
            .commit(second.clone())
            .await
            .unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::ResourceExhausted, "{failed}");
        assert!(!failed.is_retryable(), "{failed}");
        let told = failed.to_string();
        assert!(
            told.contains("demo.d.t") && told.contains("uota exceeded"),
            "{told}"
        );
        assert_eq!(quotas.refused(Quota::TableModifications), 1);
        assert_eq!(stored(&server, "t").await, "100 100 0 99");
        assert_eq!(server.objects("bucket").await.len(), files(&second));

        quotas.reset();
        let again = sink(&server, "t", limits, &[]).await.committer();
        assert_eq!(again.commit(second.clone()).await.unwrap(), 100);
        assert_eq!(again.commit(second).await.unwrap(), 100);
        assert_eq!(stored(&server, "t").await, "200 200 0 199");
    }
}

/// Starts a statement under limits that let nothing through, and lifts them when they
/// have refused something.
async fn held_back(server: &Server, context: &SessionContext, quota: Quota, sql: &str) {
    let quotas = server.quotas();
    quotas.enforce(Some(QuotaLimits {
        table_updates: 0,
        table_creations: 0,
        write_streams: 0,
        ..QuotaLimits::default()
    }));
    let running = rows(context, sql);
    let lifting = async {
        while quotas.refused(quota) == 0 {
            tokio::task::yield_now().await;
        }
        quotas.enforce(None);
    };
    tokio::join!(running, lifting);
}

/// What is refused for its rate is done when there is room again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_limited_by_its_rate_is_waited_for() {
    let server = Server::with_dataset().await;
    let context = server.session_saying([
        ("sink.write_method", "storage_api_exactly_once"),
        ("sink.buffered_stream.recovery.initial_backoff", "1 ms"),
        ("sink.buffered_stream.recovery.max_backoff", "5 ms"),
        ("sink.buffered_stream.retry.initial_delay", "1 ms"),
        ("sink.buffered_stream.retry.max_delay", "5 ms"),
    ]);
    rows(
        &context,
        "CREATE EXTERNAL TABLE t (n BIGINT) STORED AS BIGQUERY LOCATION 'demo.d.t'",
    )
    .await;
    held_back(
        &server,
        &context,
        Quota::TableCreations,
        "INSERT INTO t VALUES (1)",
    )
    .await;
    held_back(
        &server,
        &context,
        Quota::WriteStreams,
        "INSERT INTO t VALUES (2)",
    )
    .await;
    // The statement's columns are those of the declaration; a frame brings new ones.
    let frame = context.sql("SELECT 3 AS n, 'x' AS note").await.unwrap();
    let batches = frame.collect().await.unwrap();
    let builder = BigQuerySink::builder(server.client(), "demo.d.t".parse().unwrap());
    let mut options = SinkOptions::default();
    options.schema_update.allow_new_fields = true;
    let sink = builder
        .with_options(options)
        .build(batches[0].schema())
        .await
        .unwrap();
    let quotas = server.quotas();
    quotas.enforce(Some(QuotaLimits {
        table_updates: 0,
        ..QuotaLimits::default()
    }));
    let mut writer = sink.writer(0, None).unwrap();
    let writing = async {
        writer.write(batches[0].clone()).await.unwrap();
        writer.prepare_commit().await.unwrap();
    };
    let lifting = async {
        while quotas.refused(Quota::TableUpdates) == 0 {
            tokio::task::yield_now().await;
        }
        quotas.enforce(None);
    };
    tokio::join!(writing, lifting);
    let found = text(&server.session(1), "SELECT n, note FROM bq.d.t ORDER BY n").await;
    for row in ["| 1 |      |", "| 2 |      |", "| 3 | x    |"] {
        assert!(found.contains(row), "{found}");
    }
}
