//! The line that says how far a long statement has read or written.
//!
//! A query planner around the session's own puts a node on top of each plan. The
//! node passes rows through; while it does, it looks at the metrics of the
//! BigQuery scans and writes below it and draws one line, and it wipes the line away before
//! the last row leaves, so that nothing is on the terminal when results are
//! printed. EXPLAIN shows the same plans with and without it, because EXPLAIN
//! prints what is below.

mod line;

use std::fmt;
use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{Stream, StreamExt};

use line::Seen;

/// Where and when progress is drawn.
#[derive(Clone)]
pub struct Progress {
    terminal: Arc<Mutex<dyn Write + Send>>,
    after: Duration,
    every: Duration,
}

impl Progress {
    /// Draws on `terminal` for statements that run longer than `after`, once each
    /// `every`.
    pub fn new(terminal: impl Write + Send + 'static, after: Duration, every: Duration) -> Self {
        Self {
            terminal: Arc::new(Mutex::new(terminal)),
            after,
            every,
        }
    }

    /// On standard error, after a second, four times a second.
    pub fn on_stderr() -> Self {
        Self::new(
            std::io::stderr(),
            Duration::from_secs(1),
            Duration::from_millis(250),
        )
    }

    fn terminal(&self) -> MutexGuard<'_, dyn Write + Send + 'static> {
        self.terminal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Progress is a courtesy: a terminal that cannot be written to fails nothing.
    fn draw(&self, line: &str) {
        let mut terminal = self.terminal();
        let _ = write!(terminal, "\r\x1b[K{line}").and_then(|()| terminal.flush());
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("after", &self.after)
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

/// Plans as another planner does, with progress on top.
#[derive(Debug)]
pub struct ProgressPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    progress: Progress,
}

impl ProgressPlanner {
    /// Plans as `inner` does and draws with `progress`.
    pub fn new(inner: Arc<dyn QueryPlanner + Send + Sync>, progress: Progress) -> Self {
        Self { inner, progress }
    }
}

#[async_trait]
impl QueryPlanner for ProgressPlanner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self
            .inner
            .create_physical_plan(logical_plan, session)
            .await?;
        // The rows of an unbounded plan are printed as they come.
        if plan.boundedness().is_unbounded() {
            return Ok(plan);
        }
        Ok(Arc::new(ProgressExec {
            running: Arc::new(Running::new(Arc::clone(&plan), self.progress.clone())),
            input: plan,
        }))
    }
}

/// Passes its input through and draws progress while it does.
#[derive(Debug)]
struct ProgressExec {
    input: Arc<dyn ExecutionPlan>,
    running: Arc<Running>,
}

impl DisplayAs for ProgressExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressExec")
    }
}

impl ExecutionPlan for ProgressExec {
    fn name(&self) -> &str {
        "ProgressExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        Ok(Arc::new(Self {
            running: Arc::new(Running::new(
                Arc::clone(&input),
                self.running.progress.clone(),
            )),
            input,
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let open = Running::enter(&self.running);
        Ok(Box::pin(Passing {
            schema: self.input.schema(),
            input: Some(input),
            open: Some(open),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.input.metrics()
    }
}

/// A partition on its way through.
struct Passing {
    schema: SchemaRef,
    input: Option<SendableRecordBatchStream>,
    open: Option<Open>,
}

impl Stream for Passing {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(input) = self.input.as_mut() else {
            return Poll::Ready(None);
        };
        let polled = input.poll_next_unpin(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.input = None;
            self.open = None;
        }
        polled
    }
}

impl RecordBatchStream for Passing {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// One execution of a plan.
#[derive(Debug)]
struct Running {
    plan: Arc<dyn ExecutionPlan>,
    progress: Progress,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Partitions that have begun and not ended.
    open: usize,
    /// The task that draws while any is open.
    drawing: Option<tokio::task::AbortHandle>,
    /// Whether a line stands on the terminal.
    drawn: bool,
}

impl Running {
    fn new(plan: Arc<dyn ExecutionPlan>, progress: Progress) -> Self {
        Self {
            plan,
            progress,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a partition; the first one starts the drawing.
    fn enter(this: &Arc<Self>) -> Open {
        let mut state = this.state();
        state.open += 1;
        if state.drawing.is_none() {
            let running = Arc::clone(this);
            let task = tokio::spawn(async move {
                let start = Instant::now();
                tokio::time::sleep(running.progress.after).await;
                while running.draw(start.elapsed()) {
                    tokio::time::sleep(running.progress.every).await;
                }
            });
            state.drawing = Some(task.abort_handle());
        }
        Open(Arc::clone(this))
    }

    /// Draws once, unless every partition has ended, which it answers with false.
    fn draw(&self, elapsed: Duration) -> bool {
        let seen = Seen::of(&self.plan);
        // The lock is held while drawing, so that nothing is drawn after `leave`.
        let mut state = self.state();
        if state.open == 0 {
            return false;
        }
        if let Some(seen) = seen {
            self.progress.draw(&seen.line(elapsed));
            state.drawn = true;
        }
        true
    }

    /// Ends a partition; the last one wipes the line away.
    fn leave(&self) {
        let mut state = self.state();
        state.open -= 1;
        if state.open == 0 {
            if let Some(task) = state.drawing.take() {
                task.abort();
            }
            if std::mem::take(&mut state.drawn) {
                self.progress.draw("");
            }
        }
    }
}

/// A partition that is being read.
#[derive(Debug)]
struct Open(Arc<Running>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::physical_expr::EquivalenceProperties;
    use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
    use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::physical_plan::{Partitioning, collect};
    use tokio::sync::Notify;

    /// A terminal that remembers, and rings when it is written to.
    #[derive(Clone)]
    struct Terminal {
        written: mpsc::Sender<String>,
        drawn: Arc<Notify>,
    }

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            // Nobody listens once the test is over.
            let _ = self.written.send(text);
            self.drawn.notify_one();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A node by name and metrics that hands out one batch of three rows in each
    /// partition and ends when something was drawn, if it waits for that.
    #[derive(Debug)]
    struct Node {
        name: &'static str,
        counts: &'static [(&'static str, usize)],
        input: Option<Arc<dyn ExecutionPlan>>,
        properties: Arc<PlanProperties>,
        metrics: ExecutionPlanMetricsSet,
        waits_for: Option<Arc<Notify>>,
    }

    fn batch() -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        RecordBatch::try_from_iter([("a", column)]).expect("one column")
    }

    const SCAN: &[(&str, usize)] = &[
        ("received_rows", 1500),
        ("wire_bytes", 3 << 20),
        ("estimated_rows", 2_000_000),
        ("estimated_bytes_scanned", 1 << 30),
    ];

    impl Node {
        fn scan(partitions: usize, waits_for: Option<Arc<Notify>>) -> Arc<Self> {
            Self::new("BigQueryScanExec", SCAN, partitions, waits_for, None)
        }

        fn new(
            name: &'static str,
            counts: &'static [(&'static str, usize)],
            partitions: usize,
            waits_for: Option<Arc<Notify>>,
            input: Option<Arc<dyn ExecutionPlan>>,
        ) -> Arc<Self> {
            Arc::new(Self {
                name,
                counts,
                input,
                properties: Arc::new(PlanProperties::new(
                    EquivalenceProperties::new(batch().schema()),
                    Partitioning::UnknownPartitioning(partitions),
                    EmissionType::Incremental,
                    Boundedness::Bounded,
                )),
                metrics: ExecutionPlanMetricsSet::new(),
                waits_for,
            })
        }
    }

    impl DisplayAs for Node {
        fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.name)
        }
    }

    impl ExecutionPlan for Node {
        fn name(&self) -> &str {
            self.name
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            self.input.iter().collect()
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
        ) -> Result<TreeNodeRecursion> {
            Ok(TreeNodeRecursion::Continue)
        }

        fn with_new_children(
            self: Arc<Self>,
            _: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(self)
        }

        fn execute(
            &self,
            partition: usize,
            context: Arc<TaskContext>,
        ) -> Result<SendableRecordBatchStream> {
            // What is below begins with it, and is not read by it.
            let input = self.input.as_ref();
            drop(input.map(|input| input.execute(partition, context)));
            for (name, count) in self.counts {
                let metric = MetricBuilder::new(&self.metrics).counter(*name, partition);
                metric.add(*count);
            }
            let waits_for = self.waits_for.clone();
            let batches = futures::stream::once(async move {
                if let Some(drawn) = waits_for {
                    drawn.notified().await;
                }
                Ok(batch())
            });
            Ok(Box::pin(RecordBatchStreamAdapter::new(
                batch().schema(),
                batches,
            )))
        }

        fn metrics(&self) -> Option<MetricsSet> {
            Some(self.metrics.clone_inner())
        }
    }

    fn terminal() -> (Terminal, mpsc::Receiver<String>) {
        let (written, read) = mpsc::channel();
        let drawn = Arc::new(Notify::new());
        (Terminal { written, drawn }, read)
    }

    fn watched(node: Arc<Node>, progress: Progress) -> Arc<dyn ExecutionPlan> {
        Arc::new(ProgressExec {
            running: Arc::new(Running::new(Arc::clone(&node) as _, progress)),
            input: node,
        })
    }

    #[tokio::test]
    async fn a_long_statement_draws_a_line_and_leaves_none() {
        let (terminal, read) = terminal();
        let scan = Node::scan(1, Some(Arc::clone(&terminal.drawn)));
        let progress = Progress::new(terminal, Duration::ZERO, Duration::from_millis(1));
        let rows = collect(watched(scan, progress), Arc::new(TaskContext::default()))
            .await
            .expect("passes through");
        assert_eq!(rows, [batch()]);
        let written: String = read.try_iter().collect();
        assert!(
            written.starts_with(
                "\r\x1b[Kreading BigQuery: 1,500 of about 2,000,000 rows, 3.0 MiB received, \
                 about 1.0 GiB scanned, 0 s"
            ),
            "{written:?}"
        );
        assert!(written.ends_with("\r\x1b[K"), "{written:?}");
    }

    /// What a write over a scan has done, by whatever method it writes.
    #[tokio::test]
    async fn a_long_write_draws_what_was_written() {
        let streams: &[(&str, usize)] = &[
            ("rows_written", 1_200),
            ("bytes_sent", 2 << 20),
            ("in_flight", 4),
        ];
        let files: &[(&str, usize)] = &[
            ("rows_written", 1_200),
            ("bytes_sent", 2 << 20),
            ("files_staged", 2),
            ("in_flight", 0),
        ];
        let jobs: &[(&str, usize)] = &[
            ("load_jobs_submitted", 2),
            ("load_jobs_reattached", 1),
            ("load_jobs_done", 1),
        ];
        for (write, commit, said) in [
            (
                streams,
                &[][..],
                "1,200 rows, 2.0 MiB sent, 4 in flight, 1,500 of about 2,000,000 rows \
                 read, 0 s",
            ),
            (
                files,
                jobs,
                "1,200 rows, 2.0 MiB in 2 files, 1 of 3 jobs done, 1,500 of about 2,000,000 rows \
                 read, 0 s",
            ),
        ] {
            let (terminal, read) = terminal();
            let scan = Node::scan(1, None);
            let write = Node::new("BigQueryWriteExec", write, 1, None, Some(scan));
            let waits_for = Some(Arc::clone(&terminal.drawn));
            let commit = Node::new("BigQueryCommitExec", commit, 1, waits_for, Some(write));
            let progress = Progress::new(terminal, Duration::ZERO, Duration::from_millis(1));
            collect(watched(commit, progress), Arc::new(TaskContext::default()))
                .await
                .expect("passes through");
            let written: String = read.try_iter().collect();
            let line = format!("\r\x1b[Kwriting BigQuery: {said}");
            assert!(written.starts_with(&line), "{written:?}");
            assert!(written.ends_with("\r\x1b[K"), "{written:?}");
        }
    }

    #[tokio::test]
    async fn a_short_statement_draws_nothing() {
        let (terminal, read) = terminal();
        let hour = Duration::from_secs(3600);
        let progress = Progress::new(terminal, hour, hour);
        let plan = watched(Node::scan(4, None), progress);
        let rows = collect(plan, Arc::new(TaskContext::default()))
            .await
            .expect("passes through");
        assert_eq!(rows.len(), 4);
        assert_eq!(read.try_iter().count(), 0);
    }

    #[tokio::test]
    async fn a_statement_that_is_dropped_leaves_no_line() {
        let (terminal, read) = terminal();
        let drawn = Arc::clone(&terminal.drawn);
        // It waits for something that never comes.
        let scan = Node::scan(1, Some(Arc::new(Notify::new())));
        let progress = Progress::new(terminal, Duration::ZERO, Duration::from_millis(1));
        let plan = watched(scan, progress);
        let mut stream = plan
            .execute(0, Arc::new(TaskContext::default()))
            .expect("one partition");
        tokio::select! {
            _ = stream.next() => panic!("it never ends"),
            () = drawn.notified() => {}
        }
        drop(stream);
        let written: String = read.try_iter().collect();
        assert!(written.ends_with("\r\x1b[K"), "{written:?}");
    }
}
