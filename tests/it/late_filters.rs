//! Keys of joins in the restriction of the session that reads the other side.

use std::fmt::Formatter;
use std::sync::Arc;
use std::time::Duration;

use bigquery_local::faults::{Action, Rule};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, reset_plan_states,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, displayable,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bigquery::with_bigquery;
use futures::{StreamExt, TryStreamExt};

use crate::harness::{Server, metric, plan, rows, run, scan_of, sent, text};

/// Joins whose build sides are shared by all partitions.
fn shared(partitions: usize) -> SessionConfig {
    SessionConfig::new().with_target_partitions(partitions)
}

/// Joins whose partitions build their own.
fn partitioned(partitions: usize) -> SessionConfig {
    let optimizer = "datafusion.optimizer.hash_join_single_partition_threshold";
    shared(partitions)
        .set_u64(optimizer, 0)
        .set_u64(&format!("{optimizer}_rows"), 0)
}

const CARRIERS: &str = "SELECT f.carrier, f.distance, a.name FROM bq.nycflights13.airlines a JOIN \
                        bq.nycflights13.flights f ON f.carrier = a.carrier WHERE a.name LIKE \
                        '%America%'";

/// How many rows `flights` has at these two carriers.
const OF_TWO_CARRIERS: usize = 5_162 + 32_729;

/// The text of the plan after it ran.
fn after(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// Keys that no restriction can say are not awaited, and not promised by EXPLAIN; beside
/// one that can be said they do not matter.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_cannot_be_said_are_not_awaited() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(shared(4));
    let join = |on: &str| {
        format!(
            "SELECT f.distance FROM bq.nycflights13.airlines a JOIN bq.nycflights13.flights f \
             ON {on} WHERE a.name LIKE '%America%'"
        )
    };
    let useless = plan(&context, &join("lower(f.carrier) = lower(a.carrier)")).await;
    assert!(
        !after(&useless).contains("late_filters"),
        "{}",
        after(&useless)
    );
    assert_eq!(run(&context, &useless).await, OF_TWO_CARRIERS);
    assert_eq!(sent(&useless, "flights"), "");
    assert_eq!(metric(&useless, "late_filters"), 0);
    let on = "lower(f.carrier) = lower(a.carrier) AND f.carrier = a.carrier";
    let both = plan(&context, &join(on)).await;
    assert!(after(&both).contains("late_filters=["), "{}", after(&both));
    assert_eq!(run(&context, &both).await, OF_TWO_CARRIERS);
    assert!(sent(&both, "flights").contains("`carrier`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_build_side_restricts_the_probe_side() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(shared(4));
    let plan = plan(&context, CARRIERS).await;
    let text = after(&plan);
    assert!(text.contains("mode=CollectLeft"), "{text}");
    assert!(text.contains("late_filters=[carrier]"), "{text}");
    assert!(!text.contains("row_restriction=(`carrier`"), "{text}");
    assert_eq!(run(&context, &plan).await, OF_TWO_CARRIERS);
    assert_eq!(
        sent(&plan, "flights"),
        "(`carrier` >= 'AA') AND (`carrier` <= 'VX') AND (`carrier` IN ('AA', 'VX'))"
    );
    let text = after(&plan);
    assert!(text.contains("(`carrier` IN ('AA', 'VX'))"), "{text}");
    assert_eq!(metric(&plan, "late_filters"), 1);
    assert_eq!(metric(&plan, "late_filter_timeouts"), 0);
    // Nothing else came over the wire: the two airlines and their flights.
    assert_eq!(metric(&plan, "received_rows"), OF_TWO_CARRIERS + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_of_a_build_side_restrict_together() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(partitioned(4));
    let plan = plan(&context, CARRIERS).await;
    let text = after(&plan);
    assert!(text.contains("mode=Partitioned"), "{text}");
    assert_eq!(run(&context, &plan).await, OF_TWO_CARRIERS);
    let sent = sent(&plan, "flights");
    for key in ["'AA'", "'VX'"] {
        assert!(sent.contains(key), "{sent}");
    }
    assert_eq!(metric(&plan, "received_rows"), OF_TWO_CARRIERS + 2);
    assert_eq!(metric(&plan, "late_filter_timeouts"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn semi_joins_restrict() {
    let server = Server::with_flights(1 << 20).await;
    for config in [shared(4), partitioned(4)] {
        let context = server.session_with(config);
        let sql = "SELECT distance FROM bq.nycflights13.flights WHERE carrier IN (SELECT carrier \
                   FROM bq.nycflights13.airlines WHERE name LIKE '%America%')";
        let plan = plan(&context, sql).await;
        assert!(after(&plan).contains("Semi"), "{}", after(&plan));
        assert_eq!(run(&context, &plan).await, OF_TWO_CARRIERS);
        assert_eq!(metric(&plan, "received_rows"), OF_TWO_CARRIERS + 2);
    }
}

/// Of a CSV file DataFusion knows no rows, wherever the statement names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_restricts_a_table_on_either_side() {
    let server = Server::with_flights(1 << 20).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.csv");
    std::fs::write(&file, "carrier,name\nAA,American\nVX,Virgin America\n").unwrap();
    let declared = format!(
        "CREATE EXTERNAL TABLE two STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        file.display()
    );
    for config in [shared(4), partitioned(4)] {
        let context = server.session_with(config);
        rows(&context, &declared).await;
        for (sql, expected) in [
            (
                "SELECT f.distance, t.name FROM bq.nycflights13.flights f JOIN two t ON t.carrier = \
                 f.carrier",
                OF_TWO_CARRIERS,
            ),
            (
                "SELECT f.distance, t.name FROM two t JOIN bq.nycflights13.flights f ON t.carrier = \
                 f.carrier",
                OF_TWO_CARRIERS,
            ),
            (
                "SELECT distance FROM bq.nycflights13.flights WHERE carrier IN (SELECT carrier FROM \
                 two)",
                OF_TWO_CARRIERS,
            ),
            (
                "SELECT t.name, f.distance FROM bq.nycflights13.flights f RIGHT JOIN two t ON \
                 t.carrier = f.carrier",
                OF_TWO_CARRIERS,
            ),
        ] {
            let plan = plan(&context, sql).await;
            assert_eq!(run(&context, &plan).await, expected, "{sql}");
            assert_eq!(metric(&plan, "received_rows"), OF_TWO_CARRIERS, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_several_columns_restrict_each() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(shared(2));
    let sql = "SELECT f.distance FROM bq.nycflights13.weather w JOIN bq.nycflights13.flights f ON \
               f.origin = w.origin AND f.time_hour = w.time_hour WHERE w.wind_gust > 60";
    let plan = plan(&context, sql).await;
    let rows = run(&context, &plan).await;
    let sent = sent(&plan, "flights");
    for part in [
        "`origin` IN (",
        "`time_hour` IN (TIMESTAMP '",
        "`time_hour` >= TIMESTAMP '",
    ] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    let expected = text(&server.session(1), &format!("SELECT count(*) FROM ({sql})")).await;
    assert!(expected.contains(&rows.to_string()), "{rows}\n{expected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_side_without_rows_reads_nothing() {
    let server = Server::with_flights(1 << 20).await;
    for config in [shared(4), partitioned(4)] {
        let context = server.session_with(config);
        let sql = "SELECT f.distance FROM bq.nycflights13.airlines a JOIN bq.nycflights13.flights \
                   f ON f.carrier = a.carrier WHERE a.name = 'no such airline'";
        let plan = plan(&context, sql).await;
        assert_eq!(run(&context, &plan).await, 0);
        assert_eq!(metric(&plan, "received_rows"), 0);
        assert_eq!(metric(&plan, "late_filter_timeouts"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_so_many_keys_only_bounds_are_sent() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(shared(2));
    let sql = "SELECT f.distance FROM bq.nycflights13.planes p JOIN bq.nycflights13.flights f ON \
               f.tailnum = p.tailnum WHERE p.tailnum LIKE 'N1%'";
    let keys = text(
        &context,
        "SELECT count(*) n FROM bq.nycflights13.planes WHERE tailnum LIKE 'N1%'",
    )
    .await;
    let keys: usize = keys
        .lines()
        .nth(3)
        .unwrap()
        .replace(['|', ' '], "")
        .parse()
        .unwrap();
    assert!(keys > 150, "more than DataFusion itself would list: {keys}");
    let mut rows = Vec::new();
    for (most, listed) in [(keys, true), (keys - 1, false), (0, false)] {
        let set = format!("SET bigquery.scan.dynamic_filter_max_values = {most}");
        context.sql(&set).await.unwrap();
        let plan = plan(&context, sql).await;
        rows.push(run(&context, &plan).await);
        let sent = sent(&plan, "flights");
        assert_eq!(sent.contains("`tailnum` IN ("), listed, "{most}: {sent}");
        assert!(sent.contains("`tailnum` >= 'N1"), "{sent}");
    }
    assert!(rows[0] > 0);
    assert_eq!(rows, [rows[0]; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_option_turns_them_off() {
    let server = Server::with_flights(1 << 20).await;
    for option in ["dynamic_filters", "pushdown_filters"] {
        let context = server.session_with(shared(2));
        let set = format!("SET bigquery.scan.{option} = false");
        context.sql(&set).await.unwrap();
        let plan = plan(&context, CARRIERS).await;
        assert_eq!(run(&context, &plan).await, OF_TWO_CARRIERS);
        assert_eq!(sent(&plan, "flights"), "");
        assert_eq!(metric(&plan, "late_filters"), 0);
    }
}

/// A plan in which something asks the scan before the join has its keys.
const ASKED_EARLY: &str = "SELECT count(*) n FROM bq.nycflights13.airlines a JOIN (SELECT carrier, \
                           distance FROM bq.nycflights13.flights ORDER BY distance LIMIT 100000) f \
                           ON f.carrier = a.carrier WHERE a.name LIKE '%America%'";

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_a_top_k_delays_no_session() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(shared(4));
    // The scan has the filter of the TopK, which is complete at its end only.
    let sql = "SELECT distance FROM bq.nycflights13.flights ORDER BY distance DESC LIMIT 3";
    let plan = plan(&context, sql).await;
    assert_eq!(run(&context, &plan).await, 3);
    assert_eq!(metric(&plan, "late_filter_timeouts"), 0);
    assert!(!after(&plan).contains("late_filters"), "{}", after(&plan));
    assert_eq!(metric(&plan, "sessions"), 1);
    // Not through a TopK either: it has to see all rows.
    let plan = crate::harness::plan(&context, ASKED_EARLY).await;
    run(&context, &plan).await;
    assert_eq!(sent(&plan, "flights"), "");
    assert_eq!(metric(&plan, "late_filter_timeouts"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn extrema_delay_no_session() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(shared(4));
    let sql = "SELECT max(distance), min(distance) FROM bq.nycflights13.flights";
    let plan = plan(&context, sql).await;
    assert_eq!(run(&context, &plan).await, 1);
    assert_eq!(metric(&plan, "late_filter_timeouts"), 0);
    assert_eq!(metric(&plan, "sessions"), 1);
}

/// A probe side that is grouped into one partition: CoalescePartitions starts it
/// when the plan starts.
const EAGER: &str = "SELECT a.name, f.n FROM bq.nycflights13.airlines a JOIN (SELECT carrier, \
                     count(*) n FROM bq.nycflights13.flights GROUP BY carrier) f ON f.carrier = \
                     a.carrier WHERE a.name LIKE '%America%' ORDER BY a.name";

fn eager() -> SessionConfig {
    shared(4)
        .set_bool("datafusion.optimizer.repartition_aggregations", false)
        .set_bool("datafusion.optimizer.repartition_joins", false)
}

async fn rows_of(context: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> String {
    let rows = datafusion::physical_plan::collect(Arc::clone(plan), context.task_ctx());
    let rows = rows.await.unwrap();
    datafusion::arrow::util::pretty::pretty_format_batches(&rows)
        .unwrap()
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_is_asked_early_waits_for_slow_keys() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(eager());
    let plan = plan(&context, EAGER).await;
    let text = after(&plan);
    assert!(text.contains("CoalescePartitionsExec"), "{text}");
    let delay = Rule::once("ReadRows", Action::Delay { ms: 300 }).on_table("*.airlines");
    let rule = server.fault(delay);
    let rows = rows_of(&context, &plan).await;
    assert_eq!(server.acted(rule), 1);
    assert!(rows.contains("32729") && rows.contains("5162"), "{rows}");
    assert!(sent(&plan, "flights").contains("IN ('AA', 'VX')"));
    assert_eq!(metric(&plan, "late_filter_timeouts"), 0);
    let wait = scan_of(&plan, "flights");
    let wait = wait.metrics().unwrap().sum_by_name("late_filter_wait");
    assert!(wait.unwrap().as_usize() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_do_not_come_are_counted_and_done_without() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(eager());
    for (wait, timeouts) in [("20 ms", 1), ("0 s", 0)] {
        let set = format!("SET bigquery.scan.dynamic_filter_wait = '{wait}'");
        context.sql(&set).await.unwrap();
        let plan = plan(&context, EAGER).await;
        let delay = Rule::once("ReadRows", Action::Delay { ms: 2_000 }).on_table("*.airlines");
        server.fault(delay);
        let rows = rows_of(&context, &plan).await;
        assert!(rows.contains("32729") && rows.contains("5162"), "{rows}");
        assert_eq!(sent(&plan, "flights"), "");
        assert_eq!(metric(&plan, "late_filter_timeouts"), timeouts, "{wait}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_list_of_keys_is_left_out() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(shared(2));
    let refusal = Rule::once("CreateReadSession", Action::RefuseRestriction).on_table("*.flights");
    let rule = server.fault(refusal);
    let plan = plan(&context, CARRIERS).await;
    assert_eq!(run(&context, &plan).await, OF_TWO_CARRIERS);
    assert_eq!(server.acted(rule), 1);
    assert_eq!(sent(&plan, "flights"), "");
    assert_eq!(metric(&plan, "restriction_refusals"), 1);
}

/// A failing build side fails the query, and the scan that waits for its keys is
/// not what the error waits for.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_side_that_fails_ends_the_wait() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(eager());
    context
        .sql("SET bigquery.scan.dynamic_filter_wait = '1 h'")
        .await
        .unwrap();
    let denied = Action::Status {
        code: "PERMISSION_DENIED".into(),
        message: "on purpose".into(),
        retry_after_ms: None,
        storage_error: None,
    };
    server.fault(Rule::once("ReadRows", denied).on_table("*.airlines"));
    let error = crate::harness::error(&context, EAGER).await.to_string();
    assert!(error.contains("demo.nycflights13.airlines"), "{error}");
}

/// Two joins on one key: a partition of the upper one that has no build rows
/// never asks the lower one, whose partitions share a build side and would wait
/// for that partition for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_may_be_given_up_is_not_waited_for() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .query(
            "CREATE TABLE d.big AS SELECT MOD(n, 200) k, n v FROM UNNEST(GENERATE_ARRAY(1, 2000)) n;
             CREATE TABLE d.tiny AS SELECT n k, n v FROM UNNEST(GENERATE_ARRAY(1, 10)) n;
             CREATE TABLE d.medium AS SELECT 7 k, n v FROM UNNEST(GENERATE_ARRAY(1, 100)) n;",
        )
        .await;
    let threshold = "datafusion.optimizer.hash_join_single_partition_threshold";
    let config = SessionConfig::new()
        .with_target_partitions(4)
        .set_bool("datafusion.optimizer.join_reordering", false)
        .set_u64(threshold, 400);
    let context = server.session_with(config);
    let sql = "SELECT count(*) n FROM bq.d.medium m JOIN (SELECT b.k FROM bq.d.tiny t JOIN (SELECT \
               k, sum(v) v FROM bq.d.big GROUP BY k) b ON b.k = t.k) l ON m.k = l.k";
    let joined = plan(&context, sql).await;
    let text = after(&joined);
    // The plan is the one that this is about.
    let modes: Vec<_> = text
        .lines()
        .filter_map(|line| line.split("mode=").nth(1)?.split_once(','))
        .map(|(mode, _)| mode)
        .filter(|mode| matches!(*mode, "Partitioned" | "CollectLeft"))
        .collect();
    assert_eq!(modes, ["Partitioned", "CollectLeft"], "{text}");
    let rows = tokio::time::timeout(Duration::from_secs(60), rows_of(&context, &joined))
        .await
        .unwrap_or_else(|_| panic!("the joins wait for each other:\n{text}"));
    assert!(rows.contains("| 100 "), "{rows}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_runs_again_has_no_keys_of_its_first_run() {
    let server = Server::with_flights(1 << 20).await;
    for (config, repeatable) in [(shared(4), true), (partitioned(4), false)] {
        let context = server.session_with(config);
        let plan = plan(&context, CARRIERS).await;
        assert_eq!(run(&context, &plan).await, OF_TWO_CARRIERS);
        assert!(sent(&plan, "flights").contains("'VX'"));
        // DataFusion's Repartition runs once only.
        if repeatable {
            assert_eq!(run(&context, &plan).await, OF_TWO_CARRIERS);
            assert_eq!(sent(&plan, "flights"), "");
        }
        let again = reset_plan_states(plan).unwrap();
        assert_eq!(run(&context, &again).await, OF_TWO_CARRIERS);
        assert_eq!(metric(&again, "late_filter_timeouts"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recursive_query_waits_for_nothing() {
    let server = Server::with_flights(1 << 20).await;
    let sql = "WITH RECURSIVE reached AS (SELECT 'HNL' AS faa, 0 AS hops UNION ALL SELECT f.origin, \
               r.hops + 1 FROM reached r JOIN (SELECT DISTINCT origin, dest FROM \
               bq.nycflights13.flights) f ON f.dest = r.faa WHERE r.hops < 3) SELECT count(*) n \
               FROM reached";
    let mut told = Vec::new();
    for filters in ["true", "false"] {
        let context = server.session_with(shared(4));
        let set = format!("SET bigquery.scan.dynamic_filters = {filters}");
        context.sql(&set).await.unwrap();
        let plan = plan(&context, sql).await;
        told.push(rows_of(&context, &plan).await);
        assert_eq!(metric(&plan, "late_filter_timeouts"), 0);
    }
    assert_eq!(told[0], told[1]);
}

/// An operator of somebody else's that reads its input's partitions one after the
/// other.
#[derive(Debug)]
struct OneByOne {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OneByOne {
    fn over(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for OneByOne {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneByOne")
    }
}

impl ExecutionPlan for OneByOne {
    fn name(&self) -> &str {
        "OneByOne"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        Ok(Arc::new(Self::over(children.remove(0))))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::over(children.remove(0))))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = Arc::clone(&self.input);
        let partitions = input.properties().partitioning.partition_count();
        let batches = futures::stream::iter(0..partitions)
            .map(move |partition| input.execute(partition, Arc::clone(&context)))
            .try_flatten();
        let schema = self.input.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// Puts [`OneByOne`] on top of each plan.
#[derive(Debug)]
struct ReadOneByOne;

impl PhysicalOptimizerRule for ReadOneByOne {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(OneByOne::over(plan)))
    }

    fn name(&self) -> &str {
        "read_one_by_one"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_is_asked_one_partition_at_a_time_is_not_waited_for() {
    let server = Server::with_flights(1 << 20).await;
    for config in [shared(4), partitioned(4)] {
        let builder = SessionStateBuilder::new_with_default_features()
            .with_config(config)
            .with_physical_optimizer_rule(Arc::new(ReadOneByOne));
        let state = with_bigquery(builder, server.options()).unwrap().build();
        let context = SessionContext::new_with_state(state);
        let plan = plan(&context, CARRIERS).await;
        assert!(after(&plan).starts_with("OneByOne"), "{}", after(&plan));
        let rows = tokio::time::timeout(Duration::from_secs(60), run(&context, &plan));
        assert_eq!(rows.await.expect("no partition waits"), OF_TWO_CARRIERS);
        assert!(!after(&plan).contains("late_filters"), "{}", after(&plan));
    }
}
