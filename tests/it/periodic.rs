//! INSERT from inputs that never end: their rows are committed from time to time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bigquery_local::faults::{Action, Rule};
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use datafusion_bigquery::client::retry::Clock;
use datafusion_bigquery::client::{Client, finish_background_work};
use datafusion_bigquery::options::Options;
use datafusion_bigquery::{BigQueryTable, Error, ErrorKind, RawOptions, TableRef};
use futures::StreamExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use crate::harness::{PROJECT, Server, error, refused, rows, status};

/// Of the commits here. Nothing else waits so long.
const INTERVAL: Duration = Duration::from_secs(200);

const METHODS: [&str; 3] = [
    "storage_api_at_least_once",
    "storage_api_exactly_once",
    "file_loads",
];

/// A clock by which intervals pass when a test wants it, and everything else at once.
#[derive(Debug)]
struct Ticks {
    due: Arc<Semaphore>,
    /// How many intervals have begun.
    begun: watch::Sender<u64>,
}

impl Ticks {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            due: Arc::new(Semaphore::new(0)),
            begun: watch::Sender::new(0),
        })
    }

    /// Lets the interval end that runs, and waits until the next has begun.
    async fn pass(&self) {
        let mut begun = self.begun.subscribe();
        let before = *begun.wait_for(|begun| *begun > 0).await.unwrap();
        self.due.add_permits(1);
        begun.wait_for(|begun| *begun > before).await.unwrap();
    }
}

impl Clock for Ticks {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration != INTERVAL {
            return Box::pin(tokio::time::sleep(duration.min(Duration::from_millis(1))));
        }
        self.begun.send_modify(|begun| *begun += 1);
        let due = Arc::clone(&self.due);
        Box::pin(async move { due.acquire().await.unwrap().forget() })
    }

    fn chance(&self) -> f64 {
        0.5
    }
}

/// A partition of an input: what a test puts into it.
#[derive(Debug)]
struct Feed {
    schema: SchemaRef,
    batches: Mutex<Option<mpsc::Receiver<Result<RecordBatch>>>>,
}

impl PartitionStream for Feed {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut batches = self.batches.lock().take().expect("it is read once");
        let batches = futures::stream::poll_fn(move |cx| batches.poll_recv(cx));
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))
    }
}

struct Mouth(mpsc::Sender<Result<RecordBatch>>);

impl Mouth {
    /// Puts rows in, and waits until the writer has them.
    async fn put(&self, numbers: std::ops::Range<i64>) {
        let numbers = Int64Array::from_iter_values(numbers);
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(numbers)]).unwrap();
        self.0.send(Ok(batch)).await.unwrap();
        drop(self.0.reserve().await.unwrap());
    }

    async fn fail(self) {
        let broken = DataFusionError::Execution("the source broke".into());
        self.0.send(Err(broken)).await.unwrap();
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

struct Setup {
    server: Server,
    clock: Arc<Ticks>,
    context: SessionContext,
    mouths: Vec<Mouth>,
}

impl Setup {
    /// A session with the table `t` of the service and the source `feed`.
    async fn new(method: &str, partitions: usize, infinite: bool) -> Self {
        Self::saying(&[("sink.write_method", method)], partitions, infinite).await
    }

    async fn saying(said: &[(&str, &str)], partitions: usize, infinite: bool) -> Self {
        let server = Server::start(1 << 20).await;
        server.create_dataset("d").await;
        server.create_bucket("bucket").await;
        server.query("CREATE TABLE d.t (n INT64)").await;
        let clock = Ticks::new();
        let context = session(&server, &clock, said).await;
        let set = format!("SET datafusion.execution.target_partitions = {partitions}");
        context.sql(&set).await.unwrap();
        let (mut mouths, mut feeds) = (Vec::new(), Vec::new());
        for _ in 0..partitions {
            let (sender, receiver) = mpsc::channel(1);
            mouths.push(Mouth(sender));
            feeds.push(Arc::new(Feed {
                schema: schema(),
                batches: Mutex::new(Some(receiver)),
            }) as Arc<dyn PartitionStream>);
        }
        let feed = StreamingTable::try_new(schema(), feeds).unwrap();
        let feed = Arc::new(feed.with_infinite_table(infinite));
        context.register_table("feed", feed).unwrap();
        Self {
            server,
            clock,
            context,
            mouths,
        }
    }

    /// Begins to insert. What the statement answers comes from the receiver.
    async fn insert(&self) -> (JoinHandle<()>, mpsc::UnboundedReceiver<Result<u64>>) {
        let frame = self.context.sql("INSERT INTO t SELECT n FROM feed").await;
        let mut answers = frame.unwrap().execute_stream().await.unwrap();
        let (sender, receiver) = mpsc::unbounded_channel();
        let running = tokio::spawn(async move {
            while let Some(answer) = answers.next().await {
                let count = answer.map(|a| a.column(0).as_primitive::<UInt64Type>().value(0));
                sender.send(count).ok();
            }
        });
        (running, receiver)
    }

    /// Waits until no file is staged. The tasks of a statement that failed end when the
    /// runtime comes to them, and what they staged is deleted then.
    async fn emptied(&self) {
        let mut objects = Vec::new();
        for _ in 0..500 {
            finish_background_work(Duration::from_secs(60)).await;
            objects = self.server.objects("bucket").await;
            if objects.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("files stay: {objects:?}");
    }

    /// How many rows the table has, and how many different ones.
    async fn stored(&self) -> (i64, i64) {
        let sql = "SELECT count(*), count(DISTINCT n) FROM bq.d.t";
        let found = rows(&self.server.session(1), sql).await;
        let count = |at| found[0].column(at).as_primitive::<Int64Type>().value(0);
        (count(0), count(1))
    }
}

async fn session(server: &Server, clock: &Arc<Ticks>, more: &[(&str, &str)]) -> SessionContext {
    let mut said = vec![
        ("sink.checkpoint_interval", "200 s"),
        ("sink.file_loads.staging_path", "gs://bucket/staged"),
        ("sink.file_loads.min_checkpoint_interval", "200 s"),
    ];
    said.extend(more);
    let context = server.session_saying_all(&said);
    let options = Options::resolve(&server.options()).unwrap();
    let client = Client::with_clock(&options.connection, Arc::clone(clock) as _).unwrap();
    let table = TableRef::new(PROJECT, "d", "t").unwrap();
    let table = BigQueryTable::open(client, table, RawOptions::new()).await;
    context
        .register_table("t", Arc::new(table.unwrap()))
        .unwrap();
    context
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_committed_whenever_an_interval_has_passed() {
    for method in METHODS {
        for partitions in [1, 3] {
            let case = format!("{method}, {partitions} partitions");
            let mut setup = Setup::new(method, partitions, true).await;
            let (running, mut answers) = setup.insert().await;
            let mut put = 0;
            for _ in 0..3 {
                let before = put;
                for mouth in &setup.mouths {
                    mouth.put(put..put + 10).await;
                    put += 10;
                }
                if method != METHODS[0] {
                    assert_eq!(setup.stored().await, (before, before), "{case}");
                }
                setup.clock.pass().await;
                let committed = answers.recv().await.unwrap().unwrap();
                assert_eq!(i64::try_from(committed).unwrap(), put, "{case}");
                assert_eq!(setup.stored().await, (put, put), "{case}");
                // Nothing to commit is nothing to tell.
                setup.clock.pass().await;
            }
            setup.mouths[0].put(put..put + 5).await;
            setup.mouths.clear();
            let committed = answers.recv().await.unwrap().unwrap();
            assert_eq!(i64::try_from(committed).unwrap(), put + 5, "{case}");
            assert!(answers.recv().await.is_none(), "{case}");
            running.await.unwrap();
            assert_eq!(setup.stored().await, (put + 5, put + 5), "{case}");
            if method == "file_loads" {
                assert_eq!(setup.server.jobs("load").await.len(), 4, "{case}");
                assert!(setup.server.objects("bucket").await.is_empty(), "{case}");
            }
        }
    }
}

/// Whether the input may end makes no difference.
#[tokio::test(flavor = "multi_thread")]
async fn few_rows_are_sent_when_they_have_waited_long_enough() {
    for infinite in [false, true] {
        let mut setup = Setup::new(METHODS[0], 1, infinite).await;
        let (_, mut answers) = setup.insert().await;
        setup.mouths[0].put(0..3).await;
        assert_eq!(setup.stored().await, (0, 0));
        setup.mouths.clear();
        assert_eq!(answers.recv().await.unwrap().unwrap(), 3);

        // The clock here lets an hour pass at once.
        let said = [("sink.default_stream.flush_interval", "1 h")];
        let mut setup = Setup::saying(&said, 1, infinite).await;
        let (_, mut answers) = setup.insert().await;
        for rows in [0..3, 3..5] {
            let end = rows.end;
            setup.mouths[0].put(rows).await;
            while setup.stored().await != (end, end) {
                assert!(answers.try_recv().is_err(), "the statement is not over");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        setup.mouths.clear();
        assert_eq!(answers.recv().await.unwrap().unwrap(), 5);
        assert_eq!(setup.stored().await, (5, 5));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_ends_early_has_an_answer() {
    for method in METHODS {
        let mut setup = Setup::new(method, 2, true).await;
        let (_, mut answers) = setup.insert().await;
        setup.mouths.clear();
        assert_eq!(answers.recv().await.unwrap().unwrap(), 0, "{method}");
        assert!(answers.recv().await.is_none(), "{method}");
    }
}

/// One partition ends long before the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_ended_is_not_waited_for() {
    for method in METHODS {
        let mut setup = Setup::new(method, 2, true).await;
        let (_, mut answers) = setup.insert().await;
        setup.mouths[0].put(0..4).await;
        setup.mouths.remove(0);
        setup.mouths[0].put(4..9).await;
        let mut committed = 0;
        while committed < 9 {
            setup.clock.pass().await;
            if let Ok(answer) = answers.try_recv() {
                committed = answer.unwrap();
            }
        }
        assert_eq!(setup.stored().await, (9, 9), "{method}");
        setup.mouths[0].put(9..12).await;
        setup.clock.pass().await;
        assert_eq!(answers.recv().await.unwrap().unwrap(), 12, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_stays_when_a_later_commit_fails() {
    let http = Action::Http {
        status: 400,
        reason: "invalid".into(),
        message: "on purpose".into(),
    };
    for (method, call, action) in [
        (METHODS[1], "FlushRows", status("INVALID_ARGUMENT")),
        (METHODS[2], "jobs.insert", http),
    ] {
        let setup = Setup::new(method, 2, true).await;
        let (running, mut answers) = setup.insert().await;
        setup.mouths[0].put(0..20).await;
        setup.clock.pass().await;
        assert_eq!(answers.recv().await.unwrap().unwrap(), 20, "{method}");
        let rule = setup.server.fault(Rule::once(call, action).always());
        setup.mouths[1].put(20..30).await;
        setup.clock.pass().await;
        let failed = answers.recv().await.unwrap().unwrap_err();
        assert!(setup.server.acted(rule) > 0, "{method}");
        let told = failed.to_string();
        assert!(told.contains("1 commits"), "{method}: {told}");
        assert!(told.contains("their 20 rows stay"), "{method}: {told}");
        assert!(Error::find_in(&failed).is_some(), "{method}: {told}");
        running.await.unwrap();
        assert_eq!(setup.stored().await, (20, 20), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_fails_leaves_what_was_committed_and_no_files() {
    for method in &METHODS[1..] {
        let mut setup = Setup::new(method, 2, true).await;
        let (running, mut answers) = setup.insert().await;
        setup.mouths[0].put(0..20).await;
        setup.clock.pass().await;
        assert_eq!(answers.recv().await.unwrap().unwrap(), 20, "{method}");
        setup.mouths[0].put(20..30).await;
        setup.mouths.pop().unwrap().fail().await;
        let failed = answers.recv().await.unwrap().unwrap_err().to_string();
        for part in ["the source broke", "their 20 rows stay"] {
            assert!(failed.contains(part), "{method}: {failed}");
        }
        running.await.unwrap();
        assert_eq!(setup.stored().await, (20, 20), "{method}");
        setup.emptied().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_cancelled_leaves_what_was_committed() {
    for method in &METHODS[1..] {
        let setup = Setup::new(method, 2, true).await;
        let (running, mut answers) = setup.insert().await;
        setup.mouths[0].put(0..20).await;
        setup.clock.pass().await;
        assert_eq!(answers.recv().await.unwrap().unwrap(), 20, "{method}");
        setup.mouths[1].put(20..30).await;
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        assert_eq!(setup.stored().await, (20, 20), "{method}");
    }
}

/// A partition has staged its files when another fails: nobody will load them.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_statement_that_fails_before_its_commit_are_deleted() {
    let mut setup = Setup::new("file_loads", 2, false).await;
    let (running, mut answers) = setup.insert().await;
    setup.mouths[0].put(0..20).await;
    setup.mouths.remove(0);
    while setup.server.objects("bucket").await.is_empty() {
        tokio::task::yield_now().await;
    }
    setup.mouths.remove(0).fail().await;
    let failed = answers.recv().await.unwrap().unwrap_err().to_string();
    assert!(failed.contains("the source broke"), "{failed}");
    running.await.unwrap();
    setup.emptied().await;
    assert_eq!(setup.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_an_end_is_refused() {
    let setup = Setup::new("storage_api_exactly_once", 1, true).await;
    let into = "INSERT INTO t SELECT n FROM feed";
    let over = "INSERT OVERWRITE t SELECT n FROM feed";
    let truncate = ("sink.file_loads.write_disposition", "write_truncate");
    let loads = ("sink.write_method", "file_loads");
    let run = [("sink.run_id", "r"), ("sink.checkpoint_path", "/notes")];
    let exactly = ("sink.write_method", "storage_api_exactly_once");
    let minute = ("sink.checkpoint_interval", "1 min");
    for (sql, said, part) in [
        (over, vec![exactly], "INSERT OVERWRITE"),
        (
            into,
            vec![("sink.write_method", "storage_api_atomic")],
            "'storage_api_atomic'",
        ),
        (into, vec![exactly, run[0], run[1]], "'sink.run_id'"),
        (into, vec![loads, truncate], "'write_truncate'"),
        (
            into,
            vec![loads, minute],
            "'sink.file_loads.min_checkpoint_interval'",
        ),
    ] {
        let context = session(&setup.server, &setup.clock, &said).await;
        let feed = setup.context.table_provider("feed").await.unwrap();
        context.register_table("feed", feed).unwrap();
        let parts = [part, "'sink.checkpoint_interval'", "demo.d.t"];
        refused(&context, sql, &parts).await;
        let failed = error(&context, sql).await;
        let failed = Error::find_in(&failed).unwrap();
        assert_eq!(failed.kind(), ErrorKind::Configuration, "{failed}");
    }
    assert_eq!(setup.stored().await, (0, 0));
}
