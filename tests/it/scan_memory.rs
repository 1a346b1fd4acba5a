//! What a scan holds, and that it lets go.

use std::sync::Arc;

use bigquery_local::faults::{Action, Rule};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bigquery::with_bigquery;
use futures::StreamExt;

use crate::harness::{Server, metric, plan, run};

const ROWS: usize = 100_000;

/// A table `d.t` of ten megabytes in messages of about one.
async fn server(stream_bytes: usize) -> Server {
    let server = Server::start(stream_bytes).await;
    server.create_dataset("d").await;
    let sql = format!(
        "CREATE TABLE d.t AS SELECT n, CONCAT(REPEAT('x', 90), CAST(n AS STRING)) text FROM \
         UNNEST(GENERATE_ARRAY(1, {ROWS})) n"
    );
    server.query(&sql).await;
    server
}

/// A session of so many partitions over a pool of so many bytes.
fn limited(
    server: &Server,
    partitions: usize,
    bytes: usize,
) -> (SessionContext, Arc<dyn MemoryPool>) {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(&pool))
        .build_arc()
        .unwrap();
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(partitions))
        .with_runtime_env(runtime);
    let state = with_bigquery(builder, server.options()).unwrap().build();
    (SessionContext::new_with_state(state), pool)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_larger_than_the_pool_is_read() {
    let server = server(2 << 20).await;
    for (partitions, bytes) in [(1, 3 << 20), (4, 12 << 20)] {
        let (context, pool) = limited(&server, partitions, bytes);
        let read = plan(&context, "SELECT n, text FROM bq.d.t WHERE n % 2 = 0").await;
        assert_eq!(run(&context, &read).await, ROWS / 2);
        assert!(metric(&read, "wire_bytes") > 0);
        assert_eq!(pool.reserved(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_too_small_for_one_response_is_an_error() {
    let server = server(64 << 20).await;
    let (context, pool) = limited(&server, 1, 64 << 10);
    let error = crate::harness::error(&context, "SELECT n, text FROM bq.d.t").await;
    let root = error.find_root();
    assert!(
        matches!(root, DataFusionError::ResourcesExhausted(_)),
        "{error}"
    );
    let error = error.to_string();
    for part in ["memory pool", "demo.d.t"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(pool.reserved(), 0);
}

/// A query that nobody reads holds a few messages, not the table.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_stands_still_is_not_run_over() {
    let server = server(64 << 20).await;
    let (context, pool) = limited(&server, 1, 1 << 30);
    let read = plan(&context, "SELECT n, text FROM bq.d.t").await;
    let mut stream = read.execute(0, context.task_ctx()).unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    let held = || pool.reserved();
    let received = || metric(&read, "received_rows");
    // Until it has read ahead as far as it does.
    let mut before = (0, 0);
    while before != (held(), received()) || before == (0, 0) {
        before = (held(), received());
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    assert!(held() < 6 << 20, "{}", held());
    assert!(received() < ROWS, "{}", received());
    drop(stream);
    while held() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Dropping a query ends what waits for a server that is silent, at once and
/// without the idle timeout.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_query_waits_for_nothing() {
    let server = server(64 << 20).await;
    for method in ["CreateReadSession", "ReadRows"] {
        let (context, pool) = limited(&server, 2, 1 << 30);
        let silent = server.fault(Rule::once(method, Action::Hang).always());
        let frame = context.sql("SELECT n, text FROM bq.d.t").await.unwrap();
        let mut stream = frame.execute_stream().await.unwrap();
        let reading = tokio::spawn(async move { stream.next().await.is_some() });
        while server.acted(silent) == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        reading.abort();
        assert!(reading.await.unwrap_err().is_cancelled());
        assert_eq!(pool.reserved(), 0);
        server.unfault(silent);
    }
}
