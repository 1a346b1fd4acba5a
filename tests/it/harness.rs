//! A running embedded BigQuery with tables in it, and a session that reads it.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bigquery_local::faults::{Action, Rule};
use bigquery_local::grpc::SessionRecord;
use bigquery_local::quotas::Quotas;
use bigquery_local::{LocalBigQuery, LocalOptions, Realism};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bigquery::client::Client;
use datafusion_bigquery::options::Options;
use datafusion_bigquery::{BigQueryScanExec, RawOptions, with_bigquery};
use serde_json::{Value, json};

/// The project of every table in these tests.
pub(crate) const PROJECT: &str = "demo";
const BOUNDARY: &str = "part-of-a-load";

/// The tables of the flights data.
pub(crate) const FLIGHTS_TABLES: [&str; 5] =
    ["airlines", "airports", "flights", "planes", "weather"];

pub(crate) struct Server {
    local: LocalBigQuery,
    http: reqwest::Client,
}

impl Server {
    /// A server that splits tables into streams of `stream_bytes`.
    pub(crate) async fn start(stream_bytes: usize) -> Self {
        let options = LocalOptions {
            project: PROJECT.to_string(),
            stream_bytes,
            ..LocalOptions::default()
        };
        Self {
            local: LocalBigQuery::start(options).await.unwrap(),
            http: reqwest::Client::new(),
        }
    }

    /// A server with the dataset `d` and nothing in it.
    pub(crate) async fn with_dataset() -> Self {
        let server = Self::start(1 << 20).await;
        server.create_dataset("d").await;
        server
    }

    /// A server that is as slow to know of changes as the service.
    pub(crate) async fn start_with(realism: Realism) -> Self {
        let options = LocalOptions {
            project: PROJECT.to_string(),
            realism,
            ..LocalOptions::default()
        };
        Self {
            local: LocalBigQuery::start(options).await.unwrap(),
            http: reqwest::Client::new(),
        }
    }

    /// Where Cloud Storage and Pub/Sub are.
    pub(crate) fn storage_endpoint(&self) -> String {
        self.local.storage_endpoint()
    }

    /// Makes a topic of Pub/Sub.
    pub(crate) async fn put_topic(&self, topic: &str) {
        let base = self.storage_endpoint();
        let url = format!("{base}/v1/projects/{PROJECT}/topics/{topic}");
        Self::answer(self.http.put(url)).await;
    }

    /// The messages of a topic, oldest first.
    pub(crate) async fn messages(&self, topic: &str) -> Vec<Value> {
        let base = self.storage_endpoint();
        let url = format!("{base}/_local/pubsub/projects/{PROJECT}/topics/{topic}/messages");
        let answer = Self::answer(self.http.get(url)).await;
        answer["messages"].as_array().unwrap().clone()
    }

    /// A server with the five flights tables in dataset `nycflights13`.
    pub(crate) async fn with_flights(stream_bytes: usize) -> Self {
        let server = Self::start(stream_bytes).await;
        server.create_dataset("nycflights13").await;
        for table in FLIGHTS_TABLES {
            server.load_parquet("nycflights13", table).await;
        }
        server
    }

    /// What reaches this server, as options.
    pub(crate) fn options(&self) -> RawOptions {
        RawOptions::from_pairs(self.endpoints()).unwrap()
    }

    /// The same as pairs, which another process can be given.
    pub(crate) fn endpoints(&self) -> Vec<(String, String)> {
        [
            ("project", PROJECT.to_string()),
            ("rest_endpoint", self.local.rest_endpoint()),
            ("grpc_endpoint", self.local.grpc_endpoint()),
            ("storage_endpoint", self.local.storage_endpoint()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .to_vec()
    }

    /// Makes the server fail on purpose.
    pub(crate) fn fault(&self, rule: Rule) -> u64 {
        self.local.service().faults.add(rule).unwrap()
    }

    /// How often a rule acted.
    pub(crate) fn acted(&self, rule: u64) -> u64 {
        self.local.service().faults.rule(rule).unwrap().acted
    }

    /// Counts the calls of a method, by a rule that does nothing else.
    pub(crate) fn calls(&self, method: &str) -> u64 {
        self.fault(Rule::once(method, Action::Delay { ms: 0 }).always())
    }

    /// What the server counts.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.local.service().quotas
    }

    /// Ends a rule.
    pub(crate) fn unfault(&self, rule: u64) {
        assert!(self.local.service().faults.remove(rule));
    }

    /// A client of this server.
    pub(crate) fn client(&self) -> Client {
        let options = Options::resolve(&self.options()).unwrap();
        Client::new(&options.connection).unwrap()
    }

    /// A session with the catalog `bq`, and `partitions` target partitions.
    pub(crate) fn session(&self, partitions: usize) -> SessionContext {
        self.session_with(SessionConfig::new().with_target_partitions(partitions))
    }

    /// A session with further options for the catalog `bq`.
    pub(crate) fn session_saying<const N: usize>(
        &self,
        options: [(&str, &str); N],
    ) -> SessionContext {
        self.session_saying_all(&options)
    }

    /// The same; of an option that is said twice the last counts.
    pub(crate) fn session_saying_all(&self, options: &[(&str, &str)]) -> SessionContext {
        let last: std::collections::BTreeMap<_, _> = options.iter().copied().collect();
        self.session_over(&RawOptions::from_pairs(last).unwrap())
    }

    /// The same with options that are made elsewhere.
    pub(crate) fn session_over(&self, more: &RawOptions) -> SessionContext {
        let builder = SessionStateBuilder::new_with_default_features();
        let options = self.options().or_defaults(more);
        let state = with_bigquery(builder, options).unwrap().build();
        SessionContext::new_with_state(state)
    }

    /// What the server was asked for in read sessions, oldest first.
    pub(crate) fn sessions(&self) -> Vec<SessionRecord> {
        self.local.service().read_log()
    }

    pub(crate) fn session_with(&self, config: SessionConfig) -> SessionContext {
        let builder = SessionStateBuilder::new_with_default_features()
            .with_config(config.with_information_schema(true));
        let state = with_bigquery(builder, self.options()).unwrap().build();
        SessionContext::new_with_state(state)
    }

    pub(crate) async fn create_dataset(&self, dataset: &str) {
        let body = json!({"datasetReference": {"projectId": PROJECT, "datasetId": dataset}});
        self.post("datasets", body).await;
    }

    /// Creates a table with `fields` as `schema.fields` and `rows` by insertAll.
    pub(crate) async fn create_table(
        &self,
        dataset: &str,
        table: &str,
        fields: Value,
        rows: Vec<Value>,
    ) {
        let body = json!({
            "tableReference": {"projectId": PROJECT, "datasetId": dataset, "tableId": table},
            "schema": {"fields": fields},
        });
        self.post(&format!("datasets/{dataset}/tables"), body).await;
        if rows.is_empty() {
            return;
        }
        let rows: Vec<_> = rows.into_iter().map(|row| json!({"json": row})).collect();
        let path = format!("datasets/{dataset}/tables/{table}/insertAll");
        let answer = self.post(&path, json!({"rows": rows})).await;
        assert_eq!(answer.get("insertErrors"), None, "{answer}");
    }

    /// Runs statements of GoogleSQL as a query job.
    pub(crate) async fn query(&self, sql: &str) {
        let body = json!({"query": sql, "useLegacySql": false, "timeoutMs": 60_000});
        let answer = self.post("queries", body).await;
        assert_eq!(answer["jobComplete"], true, "{answer}");
    }

    /// Creates a bucket of Cloud Storage.
    pub(crate) async fn create_bucket(&self, bucket: &str) {
        let url = format!(
            "{}/storage/v1/b?project={PROJECT}",
            self.local.storage_endpoint()
        );
        let request = self.http.post(url).json(&json!({"name": bucket}));
        Self::answer(request).await;
    }

    /// The names of the objects in a bucket.
    pub(crate) async fn objects(&self, bucket: &str) -> Vec<String> {
        let url = format!("{}/storage/v1/b/{bucket}/o", self.local.storage_endpoint());
        let answer = Self::answer(self.http.get(url)).await;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let name = |item: &Value| item["name"].as_str().unwrap().to_string();
        items.iter().map(name).collect()
    }

    /// What an object of a bucket holds.
    pub(crate) async fn object(&self, bucket: &str, name: &str) -> String {
        let name = name.replace('/', "%2F");
        let base = self.local.storage_endpoint();
        let url = format!("{base}/storage/v1/b/{bucket}/o/{name}?alt=media");
        let answer = self.http.get(url).send().await.unwrap();
        assert!(answer.status().is_success(), "{name}: {}", answer.status());
        answer.text().await.unwrap()
    }

    /// The jobs of the project of a kind (`load`, `copy`, `query`), newest first.
    pub(crate) async fn jobs(&self, kind: &str) -> Vec<Value> {
        let answer = self
            .get("jobs?projection=full&allUsers=true&maxResults=1000")
            .await;
        let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
        let is = |job: &Value| job["configuration"].get(kind).is_some();
        jobs.into_iter().filter(is).collect()
    }

    /// Creates a view.
    pub(crate) async fn create_view(&self, dataset: &str, view: &str, query: &str) {
        let body = json!({
            "tableReference": {"projectId": PROJECT, "datasetId": dataset, "tableId": view},
            "view": {"query": query, "useLegacySql": false},
        });
        self.post(&format!("datasets/{dataset}/tables"), body).await;
    }

    /// What a GET answers.
    pub(crate) async fn get(&self, path: &str) -> Value {
        Self::answer(self.http.get(self.url(path))).await
    }

    /// Makes every call of an RPC end with this status.
    pub(crate) fn fail_always(&self, method: &str, code: &str) {
        let action = Action::Status {
            code: code.to_string(),
            message: "as the test wants it".to_string(),
            retry_after_ms: None,
            storage_error: None,
        };
        let rule = Rule::once(method, action).always();
        self.local.service().faults.add(rule).unwrap();
    }

    /// Makes every job that copies into `table` fail before it begins.
    pub(crate) fn refuse_copies_into(&self, table: &str) -> u64 {
        let action = Action::Http {
            status: 400,
            reason: "invalid".into(),
            message: "on purpose".into(),
        };
        self.fault(Rule::once("jobs.insert", action).on_table(table).always())
    }

    /// Loads a table of the flights data.
    pub(crate) async fn load_parquet(&self, dataset: &str, table: &str) {
        let configuration = json!({"configuration": {"load": {
            "destinationTable": {"projectId": PROJECT, "datasetId": dataset, "tableId": table},
            "sourceFormat": "PARQUET",
        }}});
        let mut body = format!(
            "--{BOUNDARY}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n\
             {configuration}\r\n--{BOUNDARY}\r\nContent-Type: */*\r\n\r\n"
        )
        .into_bytes();
        body.extend(std::fs::read(parquet_path(table)).unwrap());
        body.extend(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        let url = format!(
            "{}/upload/bigquery/v2/projects/{PROJECT}/jobs?uploadType=multipart",
            self.local.rest_endpoint()
        );
        let content_type = format!("multipart/related; boundary={BOUNDARY}");
        let request = self
            .http
            .post(url)
            .header("content-type", content_type)
            .body(body);
        let mut job = Self::answer(request).await;
        while job["status"]["state"] != "DONE" {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let id = job["jobReference"]["jobId"].as_str().unwrap();
            let location = job["jobReference"]["location"].as_str().unwrap_or("US");
            let url = self.url(&format!("jobs/{id}?location={location}"));
            job = Self::answer(self.http.get(url)).await;
        }
        assert_eq!(job["status"].get("errorResult"), None, "{table}: {job}");
    }

    fn url(&self, path: &str) -> String {
        let base = self.local.rest_endpoint();
        format!("{base}/bigquery/v2/projects/{PROJECT}/{path}")
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let request = self
            .http
            .post(self.url(path))
            .header("content-type", "application/json")
            .body(body.to_string());
        Self::answer(request).await
    }

    async fn answer(request: reqwest::RequestBuilder) -> Value {
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{status}: {text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// Where the Parquet file of a flights table lies.
pub(crate) fn parquet_path(table: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("examples/data/{table}.parquet"))
}

/// The rows of a query.
pub(crate) async fn rows(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let frame = context
        .sql(sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    frame
        .collect()
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// The rows of a query as a table in text.
pub(crate) async fn text(context: &SessionContext, sql: &str) -> String {
    let batches = rows(context, sql).await;
    pretty_format_batches(&batches).unwrap().to_string()
}

/// The rows of a query, each as its values in text with a space between them.
pub(crate) async fn lines(context: &SessionContext, sql: &str) -> Vec<String> {
    lines_of(&rows(context, sql).await)
}

/// The same of batches.
pub(crate) fn lines_of(batches: &[RecordBatch]) -> Vec<String> {
    let shown = pretty_format_batches(batches).unwrap().to_string();
    let lines = shown.lines().skip(3).filter(|line| line.starts_with('|'));
    lines
        .map(|line| {
            let cells = line.trim_matches('|').split('|').map(str::trim);
            cells.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// The error of a query that has to fail.
pub(crate) async fn error(context: &SessionContext, sql: &str) -> DataFusionError {
    let planned = match context.sql(sql).await {
        Ok(frame) => frame.collect().await.map(drop),
        Err(error) => Err(error),
    };
    planned.expect_err("the query has to fail")
}

/// A statement fails, and its error has these parts.
pub(crate) async fn refused(context: &SessionContext, sql: &str, parts: &[&str]) {
    let error = error(context, sql).await.to_string();
    for part in parts {
        assert!(error.contains(part), "{sql}: no {part} in {error}");
    }
}

/// A call ends with the status of this code.
pub(crate) fn status(code: &str) -> Action {
    Action::Status {
        code: code.into(),
        message: "on purpose".into(),
        retry_after_ms: None,
        storage_error: None,
    }
}

/// The plan of a query.
pub(crate) async fn plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = context.sql(sql).await.unwrap();
    frame.create_physical_plan().await.unwrap()
}

/// Runs a plan and gives its rows.
pub(crate) async fn run(context: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> usize {
    let batches = collect(Arc::clone(plan), context.task_ctx()).await.unwrap();
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// A counter of the plan's BigQuery scans.
pub(crate) fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    metric_of(plan, &["BigQueryScanExec"], name)
}

/// A counter of the plan's writes.
pub(crate) fn write_metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    metric_of(plan, &["BigQueryWriteExec", "DataSinkExec"], name)
}

/// A counter of the plan's commits.
pub(crate) fn commit_metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    metric_of(plan, &["BigQueryCommitExec", "DataSinkExec"], name)
}

fn metric_of(plan: &Arc<dyn ExecutionPlan>, nodes: &[&str], name: &str) -> usize {
    let own = match nodes.contains(&plan.name()) {
        true => plan
            .metrics()
            .and_then(|metrics| metrics.sum_by_name(name))
            .map_or(0, |value| value.as_usize()),
        false => 0,
    };
    let children = plan.children();
    own + children
        .into_iter()
        .map(|child| metric_of(child, nodes, name))
        .sum::<usize>()
}

/// The BigQuery scans of a plan, from the top and the left.
pub(crate) fn scans(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    match plan.name() {
        "BigQueryScanExec" => vec![Arc::clone(plan)],
        _ => plan.children().into_iter().flat_map(scans).collect(),
    }
}

/// The restriction that the last session on a table was opened with.
pub(crate) fn sent(plan: &Arc<dyn ExecutionPlan>, table: &str) -> String {
    scan_of(plan, table).row_restriction()
}

/// The one scan of a table in a plan.
pub(crate) fn scan_of(plan: &Arc<dyn ExecutionPlan>, table: &str) -> Arc<BigQueryScanExec> {
    let mut found = scans(plan).into_iter().filter_map(|scan| {
        let scan: Arc<dyn Any + Send + Sync> = scan;
        let scan = scan.downcast::<BigQueryScanExec>().unwrap();
        (scan.table().table == table).then_some(scan)
    });
    let scan = found.next().expect("the table is scanned");
    assert!(found.next().is_none(), "{table} is scanned more than once");
    scan
}

/// A plan as EXPLAIN shows it.
pub(crate) fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// The one BigQuery scan in a plan, as EXPLAIN shows it.
pub(crate) fn scan_line(plan: &Arc<dyn ExecutionPlan>) -> String {
    let text = shown(plan);
    let mut lines = text
        .lines()
        .filter(|line| line.contains("BigQueryScanExec"));
    let line = lines
        .next()
        .expect("the plan has a scan")
        .trim()
        .to_string();
    assert_eq!(lines.next(), None, "{text}");
    line
}
