//! One client that makes changes one after the other, and knows what must be there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{Int64Array, StringArray};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::server::Calls;
use crate::loads::parquet;

/// Rows of one request to the shared table.
const BATCH: i64 = 7;
/// Batches of one writer have numbers below this times its number plus one.
const BATCHES: i64 = 1_000_000;
/// A writer's table is emptied when it has more rows than this.
const MANY: usize = 600;

/// What there is of a writer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Contents {
    /// A label of its dataset.
    label: Option<String>,
    /// Rows of its table: value and length of the text, by key.
    rows: BTreeMap<i64, (i64, i64)>,
    /// Columns and rows of a table that comes and goes.
    side: Option<(i64, i64)>,
    /// What a function of its dataset answers.
    function: Option<i64>,
    /// Its batches in the table of all writers: rows, shortest and longest text.
    batches: BTreeMap<i64, (i64, i64, i64)>,
}

/// Kinds of changes, each of which a writer makes before it makes one again.
#[derive(Debug, Clone, Copy)]
enum Kind {
    LoadJson,
    LoadParquet,
    LoadOver,
    InsertAll,
    Insert,
    Update,
    Delete,
    Merge,
    Replace,
    Truncate,
    Label,
    Side,
    Function,
    SharedInsertAll,
    SharedLoad,
    SharedInsert,
}

use Kind::*;

const KINDS: [Kind; 19] = [
    LoadJson,
    LoadParquet,
    LoadOver,
    InsertAll,
    Insert,
    Update,
    Delete,
    Merge,
    Replace,
    Truncate,
    Label,
    // Made, altered, dropped.
    Side,
    Side,
    Side,
    // Made or replaced, dropped.
    Function,
    Function,
    SharedInsertAll,
    SharedLoad,
    SharedInsert,
];

/// Names of what every run must have made, as [`Step::name`] has them.
pub(super) const ALL: [&str; 18] = [
    "load JSON",
    "load Parquet",
    "load over",
    "insertAll",
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
    "CREATE OR REPLACE TABLE",
    "TRUNCATE TABLE",
    "datasets.patch",
    "ALTER TABLE",
    "DROP TABLE",
    "CREATE FUNCTION",
    "DROP FUNCTION",
    "insertAll, shared",
    "load, shared",
    "INSERT, shared",
];

/// A change and what there is after it.
struct Step {
    name: &'static str,
    request: RequestBuilder,
    after: Contents,
    /// The name that the client gave the job.
    job: Option<String>,
}

/// A change whose answer did not come.
struct Open {
    name: &'static str,
    after: Contents,
    /// The name of its job and the request that starts it.
    job: Option<(String, RequestBuilder)>,
}

/// A client with a dataset of its own.
pub(super) struct Writer {
    number: i64,
    dataset: String,
    random: StdRng,
    kinds: VecDeque<Kind>,
    next: i64,
    acknowledged: Contents,
    open: Option<Open>,
    /// The newest job with a name of the client's that was acknowledged.
    named: Option<(String, RequestBuilder)>,
}

impl Writer {
    pub(super) fn new(number: i64, seed: u64) -> Self {
        Self {
            number,
            dataset: format!("d{number}"),
            random: StdRng::seed_from_u64(seed.wrapping_add(number.unsigned_abs() + 1)),
            kinds: VecDeque::new(),
            next: 0,
            acknowledged: Contents::default(),
            open: None,
            named: None,
        }
    }

    /// Makes the dataset and its table.
    pub(super) async fn prepare(&self, calls: &Calls) {
        let dataset = json!({"datasetReference": {"datasetId": self.dataset}});
        let made = calls.change(calls.post("datasets", &dataset)).await;
        assert!(made.is_some());
        let table = json!({"tableReference": {"tableId": "w"}, "schema": schema()});
        let path = format!("datasets/{}/tables", self.dataset);
        let made = calls.change(calls.post(&path, &table)).await;
        assert!(made.is_some());
    }

    /// Makes changes until the server is killed; each that was acknowledged is told.
    pub(super) async fn run(mut self, calls: Calls, told: UnboundedSender<&'static str>) -> Self {
        loop {
            let step = self.step(&calls);
            let again = |job| {
                let request = step.request.try_clone().expect("the body is in memory");
                (job, request)
            };
            self.open = Some(Open {
                name: step.name,
                after: step.after,
                job: step.job.map(again),
            });
            if calls.change(step.request).await.is_none() {
                return self;
            }
            let open = self.open.take().expect("it was put there above");
            self.acknowledged = open.after;
            self.named = open.job.or(self.named);
            // Nobody listens any more once the server is to be killed.
            let _ = told.send(open.name);
        }
    }

    /// Compares what is there with what must be, and goes on from there. Answers
    /// the change that was cut off and whether it is there.
    pub(super) async fn check(
        &mut self,
        calls: &Calls,
        context: &str,
    ) -> Option<(&'static str, bool)> {
        let context = format!("{context}, writer {}", self.number);
        if let Some((job, request)) = self.named.take() {
            let done = calls.done(&job).await;
            assert!(done["status"]["errorResult"].is_null(), "{context}: {done}");
            assert!(calls.is_taken(request).await, "{context}: {job} ran twice");
        }
        let found = self.found(calls).await;
        let Some(open) = self.open.take() else {
            self.must_be(&found, None, &context);
            return None;
        };
        let whole = found == open.after;
        // Some change nothing: whether they were made cannot be seen.
        let visible = open.after != self.acknowledged;
        self.must_be(&found, Some(&open), &context);
        self.acknowledged = found;
        if let Some((job, request)) = open.job {
            // Once and no more than once, whoever sends the request how often.
            let taken = calls.is_taken(request).await;
            let done = calls.done(&job).await;
            let failed = !done["status"]["errorResult"].is_null();
            if taken {
                assert!(!visible || whole != failed, "{context}: {done}");
            } else {
                assert!(!visible || !whole, "{context}: ran twice: {done}");
                assert!(!failed, "{context}: {done}");
                self.acknowledged = open.after;
            }
            let found = self.found(calls).await;
            self.must_be(&found, None, &format!("{context}, taken {taken}: {done}"));
        }
        Some((open.name, whole))
    }

    fn must_be(&self, found: &Contents, open: Option<&Open>, context: &str) {
        let after = open.map(|open| (open.name, &open.after));
        assert!(
            *found == self.acknowledged || after.is_some_and(|(_, after)| found == after),
            "{context}: found {found:?}\n\nacknowledged {:?}\n\nnot acknowledged {after:?}",
            self.acknowledged
        );
    }

    /// The shared table is empty now.
    pub(super) fn forget_batches(&mut self) {
        self.acknowledged.batches.clear();
    }

    async fn found(&self, calls: &Calls) -> Contents {
        let dataset = &self.dataset;
        let resource = calls.get(&format!("datasets/{dataset}")).await;
        let label = resource.expect("the dataset is there")["labels"]["n"]
            .as_str()
            .map(str::to_string);
        let sql = format!("SELECT k, v, LENGTH(text) FROM {dataset}.w");
        let mut rows = BTreeMap::new();
        for row in calls.integers(&sql).await {
            let twice = rows.insert(row[0], (row[1], row[2]));
            assert_eq!(twice, None, "{dataset}.w has {row:?} twice");
        }
        let side = match calls.get(&format!("datasets/{dataset}/tables/side")).await {
            None => None,
            Some(table) => {
                let columns = table["schema"]["fields"].as_array().unwrap().len();
                let sql = format!("SELECT COUNT(*) FROM {dataset}.side");
                Some((
                    i64::try_from(columns).unwrap(),
                    calls.integers(&sql).await[0][0],
                ))
            }
        };
        let sql = format!(
            "SELECT COUNT(*) FROM {dataset}.INFORMATION_SCHEMA.ROUTINES WHERE routine_name = 'f'"
        );
        let function = match calls.integers(&sql).await[0][0] {
            0 => None,
            _ => Some(calls.integers(&format!("SELECT {dataset}.f()")).await[0][0]),
        };
        let sql = format!(
            "SELECT batch, COUNT(*), MIN(LENGTH(text)), MAX(LENGTH(text)) FROM d.t \
             WHERE DIV(batch, {BATCHES}) = {} GROUP BY batch",
            self.number
        );
        let batches = calls.integers(&sql).await;
        let batches = batches.iter().map(|r| (r[0], (r[1], r[2], r[3])));
        Contents {
            label,
            rows,
            side,
            function,
            batches: batches.collect(),
        }
    }

    fn step(&mut self, calls: &Calls) -> Step {
        if self.kinds.is_empty() {
            let mut kinds = KINDS;
            kinds.shuffle(&mut self.random);
            self.kinds.extend(kinds);
        }
        let kind = if self.acknowledged.rows.len() > MANY {
            Truncate
        } else {
            self.kinds.pop_front().expect("it was filled above")
        };
        let number = self.next;
        self.next += 100;
        match kind {
            LoadJson | LoadParquet | LoadOver | InsertAll | Insert => {
                self.more_rows(calls, kind, number)
            }
            Update | Delete | Merge | Replace | Truncate => self.statement(calls, kind, number),
            Label => {
                let mut after = self.acknowledged.clone();
                after.label = Some(number.to_string());
                let path = format!("datasets/{}", self.dataset);
                Step {
                    name: "datasets.patch",
                    request: calls.patch(&path, &json!({"labels": {"n": number.to_string()}})),
                    after,
                    job: None,
                }
            }
            Side => self.side(calls, number),
            Function => self.function(calls, number),
            SharedInsertAll | SharedLoad | SharedInsert => self.shared(calls, kind, number),
        }
    }

    /// Lengths of texts: a change of rows in the journal, a long one there, or one
    /// with a file of its own.
    fn length(&mut self) -> i64 {
        [10, 10, 10, 2_000, 8_000, 30_000][self.random.random_range(0..6)]
    }

    /// A name for every second job.
    fn job(&mut self, number: i64) -> Option<String> {
        let name = || format!("job-{}-{number}", self.number);
        self.random.random_ratio(1, 2).then(name)
    }

    fn more_rows(&mut self, calls: &Calls, kind: Kind, first: i64) -> Step {
        let (value, length) = (self.random.random_range(0..100), self.length());
        let mut job = self.job(first);
        let named = job.clone();
        let named = named.as_deref();
        let place = (self.dataset.as_str(), "w");
        let count = self.random.random_range(1..20);
        let keys = first..first + count;
        let text = "x".repeat(usize::try_from(length).unwrap());
        let mut after = self.acknowledged.clone();
        if matches!(kind, LoadOver) {
            after.rows.clear();
        }
        after
            .rows
            .extend(keys.clone().map(|k| (k, (value, length))));
        let dataset = &self.dataset;
        let row = |k| json!({"k": k, "v": value, "text": text});
        let json = json!({"sourceFormat": "NEWLINE_DELIMITED_JSON", "schema": schema()});
        let (name, request) = match kind {
            LoadJson => {
                let data = lines(keys.map(row));
                ("load JSON", calls.load(place, json, &data, named))
            }
            LoadOver => {
                let data = lines(keys.map(row));
                let mut over = json;
                over["writeDisposition"] = json!("WRITE_TRUNCATE");
                ("load over", calls.load(place, over, &data, named))
            }
            LoadParquet => {
                let count = usize::try_from(count).unwrap();
                let data = parquet(vec![
                    ("k", Arc::new(Int64Array::from_iter_values(keys))),
                    ("v", Arc::new(Int64Array::from(vec![value; count]))),
                    ("text", Arc::new(StringArray::from(vec![text; count]))),
                ]);
                let load = json!({"sourceFormat": "PARQUET"});
                ("load Parquet", calls.load(place, load, &data, named))
            }
            Insert => {
                let sql = format!(
                    "INSERT INTO {dataset}.w (k, v, text) SELECT k, {value}, REPEAT('x', {length}) \
                     FROM UNNEST(GENERATE_ARRAY({first}, {})) AS k",
                    first + count - 1
                );
                ("INSERT", statement_of(calls, &sql, named))
            }
            _ => {
                let rows: Vec<Value> = keys.map(|k| json!({"json": row(k)})).collect();
                job = None;
                let path = format!("datasets/{dataset}/tables/w/insertAll");
                ("insertAll", calls.post(&path, &json!({"rows": rows})))
            }
        };
        Step {
            name,
            request,
            after,
            job,
        }
    }

    fn statement(&mut self, calls: &Calls, kind: Kind, first: i64) -> Step {
        let table = format!("{}.w", self.dataset);
        let value = self.random.random_range(0..100);
        let mut after = self.acknowledged.clone();
        let rows = &mut after.rows;
        let (name, sql) = match kind {
            Update => {
                for (_, row) in rows.iter_mut().filter(|(k, _)| **k % 2 == 0) {
                    row.0 += value;
                }
                let sql = format!("UPDATE {table} SET v = v + {value} WHERE MOD(k, 2) = 0");
                ("UPDATE", sql)
            }
            Delete => {
                rows.retain(|k, _| k % 5 != value % 5);
                let sql = format!("DELETE FROM {table} WHERE MOD(k, 5) = {}", value % 5);
                ("DELETE", sql)
            }
            Merge => {
                // The keys of about the last change, and as many new ones.
                let (from, to) = ((first - 100).max(0), first + 9);
                rows.retain(|k, row| (from..=to).contains(k) || row.0 >= 10);
                for k in from..=to {
                    rows.entry(k).or_insert((0, 6)).0 = value;
                }
                let sql = format!(
                    "MERGE {table} AS t USING (SELECT k, {value} AS v \
                     FROM UNNEST(GENERATE_ARRAY({from}, {to})) AS k) AS s ON t.k = s.k \
                     WHEN MATCHED THEN UPDATE SET v = s.v \
                     WHEN NOT MATCHED THEN INSERT (k, v, text) VALUES (s.k, s.v, 'merged') \
                     WHEN NOT MATCHED BY SOURCE AND t.v < 10 THEN DELETE"
                );
                ("MERGE", sql)
            }
            Replace => {
                for row in rows.values_mut() {
                    row.0 += 1;
                }
                let sql = format!(
                    "CREATE OR REPLACE TABLE {table} AS SELECT k, v + 1 AS v, text FROM {table}"
                );
                ("CREATE OR REPLACE TABLE", sql)
            }
            _ => {
                rows.clear();
                ("TRUNCATE TABLE", format!("TRUNCATE TABLE {table}"))
            }
        };
        let job = self.job(first);
        Step {
            name,
            request: statement_of(calls, &sql, job.as_deref()),
            after,
            job,
        }
    }

    /// Makes, replaces or drops a function.
    fn function(&mut self, calls: &Calls, number: i64) -> Step {
        let function = format!("{}.f", self.dataset);
        let mut after = self.acknowledged.clone();
        let (name, sql) = match after.function {
            Some(_) if self.random.random_ratio(2, 3) => {
                after.function = None;
                ("DROP FUNCTION", format!("DROP FUNCTION {function}"))
            }
            _ => {
                after.function = Some(number);
                let sql = format!("CREATE OR REPLACE FUNCTION {function}() AS ({number})");
                ("CREATE FUNCTION", sql)
            }
        };
        let job = self.job(number);
        Step {
            name,
            request: statement_of(calls, &sql, job.as_deref()),
            after,
            job,
        }
    }

    /// Makes a table with or without rows, gives it a column, drops it.
    fn side(&mut self, calls: &Calls, number: i64) -> Step {
        let dataset = self.dataset.clone();
        let mut after = self.acknowledged.clone();
        let (name, request, side) = match after.side {
            Some((1, rows)) => {
                let sql = format!("ALTER TABLE {dataset}.side ADD COLUMN c{number} STRING");
                ("ALTER TABLE", calls.query(&sql), Some((2, rows)))
            }
            Some(_) => {
                let sql = format!("DROP TABLE {dataset}.side");
                ("DROP TABLE", calls.query(&sql), None)
            }
            None => match self.random.random_range(0..4) {
                0 => {
                    let sql = format!("CREATE TABLE {dataset}.side (a INT64)");
                    ("CREATE TABLE", calls.query(&sql), Some((1, 0)))
                }
                1 => {
                    let sql = format!(
                        "CREATE TABLE {dataset}.side AS SELECT a FROM UNNEST(GENERATE_ARRAY(1, 50)) AS a"
                    );
                    ("CREATE TABLE AS", calls.query(&sql), Some((1, 50)))
                }
                2 => {
                    let table = json!({"tableReference": {"tableId": "side"},
                        "schema": {"fields": [{"name": "a", "type": "INTEGER"}]}});
                    let path = format!("datasets/{dataset}/tables");
                    ("tables.insert", calls.post(&path, &table), Some((1, 0)))
                }
                _ => {
                    let column = Arc::new(Int64Array::from_iter_values(0..40));
                    let load = json!({"sourceFormat": "PARQUET"});
                    let data = parquet(vec![("a", column)]);
                    let request = calls.load((&dataset, "side"), load, &data, None);
                    ("load into a new table", request, Some((1, 40)))
                }
            },
        };
        after.side = side;
        Step {
            name,
            request,
            after,
            job: None,
        }
    }

    /// A batch for the table that all writers write to at the same time.
    fn shared(&mut self, calls: &Calls, kind: Kind, number: i64) -> Step {
        let batch = self.number * BATCHES + number;
        let length = self.length();
        let mut after = self.acknowledged.clone();
        after.batches.insert(batch, (BATCH, length, length));
        let text = "x".repeat(usize::try_from(length).unwrap());
        let row = json!({"batch": batch, "text": text});
        let (name, request) = match kind {
            SharedLoad => {
                let load = json!({"sourceFormat": "NEWLINE_DELIMITED_JSON"});
                let data = lines((0..BATCH).map(|_| row.clone()));
                ("load, shared", calls.load(("d", "t"), load, &data, None))
            }
            SharedInsert => {
                let sql = format!(
                    "INSERT INTO d.t (batch, text) SELECT {batch}, REPEAT('x', {length}) \
                     FROM UNNEST(GENERATE_ARRAY(1, {BATCH}))"
                );
                ("INSERT, shared", calls.query(&sql))
            }
            _ => {
                let rows: Vec<Value> = (0..BATCH).map(|_| json!({"json": row})).collect();
                let path = "datasets/d/tables/t/insertAll";
                (
                    "insertAll, shared",
                    calls.post(path, &json!({"rows": rows})),
                )
            }
        };
        Step {
            name,
            request,
            after,
            job: None,
        }
    }
}

/// A statement, as a job with a name if there is one.
fn statement_of(calls: &Calls, sql: &str, job: Option<&str>) -> RequestBuilder {
    match job {
        Some(job) => calls.named_query(sql, job),
        None => calls.query(sql),
    }
}

fn schema() -> Value {
    json!({"fields": [{"name": "k", "type": "INTEGER"}, {"name": "v", "type": "INTEGER"},
        {"name": "text", "type": "STRING"}]})
}

fn lines(rows: impl Iterator<Item = Value>) -> Vec<u8> {
    rows.flat_map(|row| format!("{row}\n").into_bytes())
        .collect()
}
