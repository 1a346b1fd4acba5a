//! Random predicates over random rows: whatever DataFusion keeps, the
//! restriction accepts; and what claims to be equivalent has the same truth
//! value, NULL included, in every row.
//!
//! DataFusion's own evaluation is held against [`googlesql`](super::googlesql),
//! which reads the restriction's text. The seed is in the message of a failure;
//! docs/development.md says how to repeat and extend a run.

mod generate;
mod table;
mod values;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::condition::Condition;
use super::googlesql::{Node, Row};
use super::restriction::Restriction;
use super::tests::offered_by;
use super::translate::{translate, translate_physical};
use crate::types::TableSchema;
use table::{Extremes, ROWS};

/// Cases that share their rows.
const CASES_PER_BATCH: u64 = 50;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What is tried: a seed, and which cases of it.
struct Run {
    seed: u64,
    cases: std::ops::Range<u64>,
}

impl Run {
    /// `cases` of a fixed seed, more with `DATAFUSION_BIGQUERY_FULL`, another
    /// seed or a single case if the environment says so.
    fn of(cases: u64) -> Self {
        let cases = match std::env::var_os("DATAFUSION_BIGQUERY_FULL") {
            Some(_) => cases * 20,
            None => cases,
        };
        Self {
            seed: setting("DATAFUSION_BIGQUERY_SEED").unwrap_or(20_131_123),
            cases: match setting("DATAFUSION_BIGQUERY_CASE") {
                Some(case) => case..case + 1,
                None => 0..cases,
            },
        }
    }

    fn name(&self, case: u64) -> String {
        let seed = self.seed;
        format!("DATAFUSION_BIGQUERY_SEED={seed} DATAFUSION_BIGQUERY_CASE={case}")
    }

    /// Rows shared by the cases around this one.
    fn rows(&self, case: u64) -> Rows {
        let number = case / CASES_PER_BATCH;
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_mul(31).wrapping_add(number));
        let extremes = match random.random_bool(0.3) {
            true => Extremes::Included,
            false => Extremes::LeftOut,
        };
        let batch = table::batch(&mut random, extremes);
        let values = (0..ROWS).map(|index| table::row(&batch, index)).collect();
        Rows {
            number,
            batch,
            values,
        }
    }

    fn predicate(&self, case: u64) -> String {
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(case);
        let mut random = StdRng::seed_from_u64(seed);
        let depth = random.random_range(0..4);
        generate::predicate(&mut random, depth)
    }
}

struct Rows {
    number: u64,
    batch: RecordBatch,
    /// The same for the evaluator of restrictions.
    values: Vec<Row>,
}

/// How far the cases came: most have to be about something.
#[derive(Default)]
struct Counts {
    evaluated: AtomicU64,
    pushed: AtomicU64,
    equivalent: AtomicU64,
}

impl Counts {
    fn check(&self, run: &Run) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tried = run.cases.end - run.cases.start;
        let (evaluated, pushed) = (read(&self.evaluated), read(&self.pushed));
        let equivalent = read(&self.equivalent);
        assert!(
            tried == 1
                || evaluated * 10 > tried * 6
                    && pushed * 10 > evaluated * 4
                    && equivalent * 5 > evaluated,
            "{tried} cases, {evaluated} evaluated, {pushed} pushed, {equivalent} equivalent"
        );
    }
}

/// DataFusion without a plan around the expression.
struct Engine {
    context: SessionContext,
    schema: DFSchemaRef,
    info: SimplifyContext,
}

impl Engine {
    fn new(batch: &RecordBatch) -> Self {
        let schema = Arc::new(DFSchema::try_from(batch.schema()).unwrap());
        let info = SimplifyContext::builder()
            .with_schema(Arc::clone(&schema))
            .with_current_time()
            .build();
        Self {
            context: SessionContext::new(),
            schema,
            info,
        }
    }

    /// The conjuncts of a predicate as the optimizer leaves them. An error is
    /// DataFusion's: types that do not go together, constants that overflow.
    fn conjuncts(&self, predicate: &str) -> Result<Vec<Expr>> {
        let expr = self.context.parse_sql_expr(predicate, &self.schema)?;
        let simplifier = ExprSimplifier::new(self.info.clone());
        let expr = simplifier.coerce(expr, &self.schema)?;
        Ok(split_conjunction_owned(simplifier.simplify(expr)?))
    }

    fn physical(&self, expr: &Expr) -> Result<Arc<dyn PhysicalExpr>> {
        let state = self.context.state_ref();
        let state = state.read();
        let planning = PhysicalPlanningContext::default();
        create_physical_expr(expr, &self.schema, state.execution_props(), &planning)
    }

    fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
        let array = expr.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(array.as_boolean().clone())
    }
}

fn text(condition: Option<Condition>) -> String {
    let mut restriction = Restriction::of_user(None);
    if let Some(condition) = condition {
        restriction.admit(&condition);
    }
    restriction.text()
}

/// Holds one predicate's conjuncts against their restrictions, row by row.
fn check(schema: &TableSchema, engine: &Engine, rows: &Rows, predicate: &str, counts: &Counts) {
    let Ok(conjuncts) = engine.conjuncts(predicate) else {
        return;
    };
    let evaluated = conjuncts
        .iter()
        .map(|conjunct| {
            let physical = engine.physical(conjunct)?;
            let values = Engine::evaluate(&physical, &rows.batch)?;
            Ok((conjunct, physical, values))
        })
        .collect::<Result<Vec<_>>>();
    // Overflowing casts are errors of the engine, pushed or not.
    let Ok(evaluated) = evaluated else {
        return;
    };
    counts.evaluated.fetch_add(1, Ordering::Relaxed);
    let (mut pushed, mut equivalent) = (0, 0);
    for (conjunct, physical, values) in &evaluated {
        let condition = translate(schema, conjunct);
        let is_equivalent = matches!(condition, Some(Condition::Equivalent(_)));
        let logical = text(condition);
        let late = text(translate_physical(schema, physical).map(Condition::from));
        pushed += u64::from(!logical.is_empty());
        equivalent += u64::from(is_equivalent);
        for (restriction, exact) in [(&logical, is_equivalent), (&late, false)] {
            let node = Node::parse(restriction);
            for (index, row) in rows.values.iter().enumerate() {
                let kept = (!values.is_null(index)).then(|| values.value(index));
                let accepted = node.value(row);
                let sound = match exact {
                    true => accepted == kept,
                    false => kept != Some(true) || accepted == Some(true),
                };
                assert!(
                    sound,
                    "{predicate}\n{conjunct}\n{restriction}\nDataFusion says {kept:?}, the \
                     restriction {accepted:?}, equivalent {exact}: {row:?}\n{conjunct:?}"
                );
            }
        }
    }
    counts
        .pushed
        .fetch_add(u64::from(pushed > 0), Ordering::Relaxed);
    let all = equivalent > 0 && equivalent == conjuncts.len() as u64;
    counts
        .equivalent
        .fetch_add(u64::from(all), Ordering::Relaxed);
}

/// Calls `work` for each case, on as many threads as there are processors, and
/// fails with the name of a case that fails.
fn in_parallel(run: &Run, work: impl Fn(&mut dyn FnMut() -> Option<u64>) + Sync) {
    let next = AtomicU64::new(run.cases.start);
    let current = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let (next, current, work) = (&next, &current, &work);
                current.lock().unwrap().push(None);
                std::thread::Builder::new()
                    .stack_size(16 << 20)
                    .spawn_scoped(scope, move || {
                        // A batch of cases at a time, so that they share rows.
                        let mut own = 0..0;
                        let mut take = || {
                            if own.is_empty() {
                                let from = next.fetch_add(CASES_PER_BATCH, Ordering::Relaxed);
                                own = from..(from + CASES_PER_BATCH).min(run.cases.end);
                            }
                            let case = own.next();
                            current.lock().unwrap()[worker] = case;
                            case
                        };
                        work(&mut take);
                    })
                    .unwrap()
            })
            .collect();
        for (worker, handle) in workers.into_iter().enumerate() {
            if handle.join().is_err() {
                let case = current.lock().unwrap()[worker].unwrap_or_default();
                panic!("{}", run.name(case));
            }
        }
    });
}

#[test]
fn what_datafusion_keeps_the_restriction_accepts() {
    let run = Run::of(100_000);
    let schema = table::table();
    let counts = Counts::default();
    in_parallel(&run, |take| {
        let mut shared: Option<(Rows, Engine)> = None;
        while let Some(case) = take() {
            let number = case / CASES_PER_BATCH;
            if shared
                .as_ref()
                .is_none_or(|(rows, _)| rows.number != number)
            {
                let rows = run.rows(case);
                let engine = Engine::new(&rows.batch);
                shared = Some((rows, engine));
            }
            let (rows, engine) = shared.as_ref().expect("made above");
            check(&schema, engine, rows, &run.predicate(case), &counts);
        }
    });
    counts.check(&run);
}

/// The same through DataFusion's whole planner, which offers what it likes.
#[tokio::test]
async fn what_the_planner_offers_is_translated_soundly() {
    use datafusion::datasource::MemTable;
    let run = Run::of(500);
    let schema = table::table();
    let mut pushed = 0;
    for case in run.cases.clone() {
        let rows = run.rows(case);
        let predicate = run.predicate(case);
        let context = SessionContext::new();
        let batches = vec![vec![rows.batch.clone()]];
        let memory = MemTable::try_new(rows.batch.schema(), batches).unwrap();
        context.register_table("sample", Arc::new(memory)).unwrap();
        let Ok(frame) = context
            .sql(&format!("SELECT * FROM sample WHERE {predicate}"))
            .await
        else {
            continue;
        };
        let Ok(kept) = frame.collect().await else {
            continue;
        };
        let filters = offered_by(rows.batch.schema(), &predicate).await;
        let mut restriction = Restriction::of_user(None);
        for condition in filters
            .iter()
            .filter_map(|filter| translate(&schema, filter))
        {
            restriction.admit(&condition);
        }
        let text = restriction.text();
        pushed += u64::from(!text.is_empty());
        let node = Node::parse(&text);
        for batch in &kept {
            for index in 0..batch.num_rows() {
                let row = table::row(batch, index);
                assert!(
                    node.accepts(&row),
                    "{}\n{predicate}\n{text}\n{row:?}\n{filters:?}",
                    run.name(case)
                );
            }
        }
    }
    assert!(
        pushed * 5 > run.cases.end - run.cases.start,
        "{pushed} pushed"
    );
}
