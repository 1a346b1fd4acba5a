//! Query jobs: running GoogleSQL and keeping its result.

use std::sync::Arc;

use arrow::array::RecordBatch;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::anonymous;
use super::cache::{self, CachedResult};
use super::config::{QueryConfig, WriteDisposition};
use super::destination::{Destination, Written};
use super::fit::fit_batch;
use super::job::{Job, JobKind, JobResult, Outcome};
use super::location;
use super::merge::Wording;
use super::names;
use super::parameters;
use super::record;
use super::reference::JobRef;
use super::statistics::{QueryStatistics, Statistics, bytes_billed};
use super::target::Target;
use crate::engine::{self, Applying, QueryOutcome, QueryRequest, StatementOutcome};
use crate::error::{Reason, Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, TableSchema, arrow_schema};
use crate::server::Service;
use crate::store::{DatasetRef, Mutation, Segment, TableRef, millis_now};

/// A query job, read.
#[derive(Debug)]
pub struct Query {
    config: QueryConfig,
    request: QueryRequest,
    /// Datasets that the job names, to tell a wrong location.
    datasets: Vec<DatasetRef>,
    destination: Option<Destination>,
}

impl Query {
    /// Reads the configuration; what is wrong with the text itself is found later.
    pub fn read(
        config: QueryConfig,
        project: &str,
        location: &str,
        datasets: Vec<DatasetRef>,
    ) -> Result<Self> {
        let request = QueryRequest {
            project: project.to_string(),
            default_dataset: config.default_dataset.as_ref().map(|d| d.resolve(project)),
            sql: config.query.clone(),
            parameters: parameters::read(
                config.parameter_mode.as_deref(),
                &config.query_parameters,
            )?,
            dry_run: false,
            location: location.to_string(),
            cancel: CancellationToken::new(),
            applying: None,
        };
        let destination = match &config.destination_table {
            None => None,
            Some(table) => Some(Destination {
                target: Target::parse(table)?,
                create: config.create_disposition,
                write: config.write_disposition.unwrap_or(WriteDisposition::Empty),
                updates: config.schema_update_options.clone(),
                layout: config.layout.clone(),
                properties: None,
                location: location.to_string(),
                wording: Wording::Query,
            }),
        };
        Ok(Self {
            config,
            request,
            datasets,
            destination,
        })
    }

    /// The table that the job writes its result to, if one is named.
    pub(super) fn table(&self) -> Option<&TableRef> {
        Some(&self.destination.as_ref()?.target.table)
    }

    /// Refuses a text that is no GoogleSQL: such a job is not made.
    pub(super) fn check_syntax(&self) -> Result<()> {
        match self.check_dialect() {
            Ok(()) => engine::check_syntax(&self.request.sql),
            Err(_) => Ok(()),
        }
    }

    /// Refuses what this server does not do, before anything runs.
    fn check(&self, service: &Service) -> Result<()> {
        self.check_dialect()?;
        if self.config.create_session == Some(true) {
            return Err(ServiceError::unsupported("A session"));
        }
        for property in &self.config.connection_properties {
            match property.key.as_str() {
                "query_label" => {}
                "time_zone" if property.value.eq_ignore_ascii_case("utc") => {}
                "session_id" => return Err(ServiceError::invalid("Invalid input session id.")),
                other => {
                    return Err(ServiceError::unsupported(format_args!(
                        "Connection property {other}"
                    )));
                }
            }
        }
        let existing: Vec<DatasetRef> = self.datasets.clone();
        service.store.read(|state| {
            let mut known = existing;
            known.retain(|d| state.dataset(d).is_some());
            location::check(state, &self.request.location, &known)?;
            match &self.destination {
                Some(destination) => destination.check(state),
                None => Ok(()),
            }
        })?;
        self.check_destination_use()
    }

    /// Legacy SQL is the API's default; a first line `#standardSQL` or `#legacySQL`
    /// overrides what the request says.
    fn check_dialect(&self) -> Result<()> {
        let first = self.request.sql.trim_start().lines().next().unwrap_or("");
        let first = first.trim().to_ascii_lowercase();
        let legacy = match first.as_str() {
            "#standardsql" => false,
            "#legacysql" => true,
            _ => self.config.use_legacy_sql.unwrap_or(true),
        };
        if legacy {
            return Err(ServiceError::unsupported("Legacy SQL"));
        }
        Ok(())
    }

    fn check_destination_use(&self) -> Result<()> {
        if self.destination.is_none() {
            return Ok(());
        }
        let what = if names::is_script(&self.request.sql) {
            "scripts"
        } else {
            let words = names::dotted_names(&self.request.sql);
            let first = words.first().and_then(|w| w.first());
            match first.map(|w| w.to_ascii_uppercase()).as_deref() {
                Some("INSERT" | "UPDATE" | "DELETE" | "MERGE" | "TRUNCATE") => "DML statements",
                Some("CREATE" | "DROP" | "ALTER") => "DDL statements",
                _ => return Ok(()),
            }
        };
        Err(ServiceError::invalid(format!(
            "Cannot set destination table in jobs with {what}"
        )))
    }

    /// Describes the query without running it.
    pub(super) async fn describe(&self, service: &Arc<Service>, job: &Job) -> Result<Outcome> {
        self.check(service)
            .map_err(|e| location::explain_missing(e, &self.request.location))?;
        let outcome = self.plan(service).await?;
        let mut statistics = statistics(&outcome);
        let shown = outcome.statements.last();
        statistics.schema = shown.and_then(|s| s.schema.as_ref()).map(result_schema);
        if let Some(limit) = self.config.maximum_bytes_billed {
            check_billed(limit, statistics.bytes_billed)?;
        }
        statistics.bytes_billed = 0;
        let result = statistics.schema.clone().map(|schema| JobResult {
            table: None,
            schema: Arc::new(schema),
            rows: None,
        });
        if let Some(statement) = shown {
            self.fill_in(job, statement, None);
        }
        Ok(Outcome {
            result,
            ..Outcome::success(Statistics::Query(Box::new(statistics)))
        })
    }

    async fn plan(&self, service: &Arc<Service>) -> Result<QueryOutcome> {
        let request = QueryRequest {
            dry_run: true,
            ..self.request.clone()
        };
        engine::execute(service, request)
            .await
            .map_err(|e| location::explain_missing(e, &self.request.location))
    }

    /// Runs the query; answers how it ended and how many statements of a script ran.
    pub(super) async fn run(&self, service: &Arc<Service>, job: &Arc<Job>) -> (Outcome, u64) {
        match self.try_run(service, job).await {
            Ok(done) => done,
            Err(error) => {
                let error = location::explain_missing(error, &self.request.location);
                (self.failure(service, job, error).await, 0)
            }
        }
    }

    /// The outcome of a query that failed. One that could be analysed reports its
    /// kind and its destination, one that could not reports nothing (recorded).
    async fn failure(&self, service: &Arc<Service>, job: &Job, error: ServiceError) -> Outcome {
        let mut statistics = QueryStatistics::default();
        if let Ok(plan) = self.plan(service).await {
            statistics.statement_type = Some(statement_type(&plan).into());
            if let (false, Some(statement)) = (plan.script, plan.statements.last()) {
                let table = || anonymous::new_table(&self.request.project, &self.request.location);
                self.fill_in(job, statement, Some(&table()));
            }
        }
        Outcome {
            statistics: Statistics::Query(Box::new(statistics)),
            ..Outcome::failure(error)
        }
    }

    async fn try_run(&self, service: &Arc<Service>, job: &Arc<Job>) -> Result<(Outcome, u64)> {
        self.check(service)?;
        let identity = if self.destination.is_none() && self.config.use_query_cache != Some(false) {
            cache::identify(&service.store, &self.request, &|name| {
                service
                    .store
                    .read(|state| engine::has_function(state, name))
            })
        } else {
            None
        };
        if let Some((key, fingerprint)) = &identity {
            let found = service.jobs.cache.find(&service.store, key, fingerprint);
            if let Some(outcome) = found.and_then(|hit| self.reuse(service, job, hit)) {
                return Ok((outcome, 0));
            }
        }
        self.check_cost(service).await?;
        let outcome = engine::execute(
            service,
            QueryRequest {
                cancel: job.cancellation().clone(),
                applying: Some(self.applying(job)),
                ..self.request.clone()
            },
        )
        .await?;
        if outcome.script {
            return self.finish_script(service, job, outcome);
        }
        let statistics = statistics(&outcome);
        let statement = outcome
            .statements
            .into_iter()
            .next_back()
            .ok_or_else(|| ServiceError::internal("a query has a statement"))?;
        let carrier = Carrier {
            query: self,
            job,
            statement: &statement,
            statistics: &statistics,
        };
        let result = self.keep_result(service, &statement, Some(&carrier))?;
        let table = result.as_ref().and_then(|r| r.table.clone());
        self.fill_in(job, &statement, table.as_ref());
        if let (Some((key, fingerprint)), Some(result), Some(table)) = (identity, &result, table) {
            let cached = CachedResult {
                table,
                schema: Arc::clone(&result.schema),
                referenced: statement.referenced.clone(),
            };
            service.jobs.cache.keep(key, fingerprint, cached);
        }
        let outcome = Outcome {
            result,
            ..Outcome::success(Statistics::Query(Box::new(statistics)))
        };
        Ok((outcome, 0))
    }

    /// The outcome of a query whose result was found.
    fn reuse(&self, service: &Service, job: &Job, hit: CachedResult) -> Option<Outcome> {
        let rows = service.store.table(&hit.table).ok()?.snapshot();
        job.set_configuration("destinationTable", json!(hit.table));
        job.set_configuration("writeDisposition", "WRITE_TRUNCATE".into());
        let statistics = QueryStatistics {
            statement_type: Some("SELECT".into()),
            bytes_processed: Some(0),
            cache_hit: true,
            referenced: hit.referenced,
            ..QueryStatistics::default()
        };
        Some(Outcome {
            result: Some(JobResult {
                table: Some(hit.table),
                schema: hit.schema,
                rows: Some(rows),
            }),
            ..Outcome::success(Statistics::Query(Box::new(statistics)))
        })
    }

    /// Refuses a query that would be billed for more than the job allows. The exact
    /// price needs a plan, which is only made when the tables' sizes leave a doubt.
    async fn check_cost(&self, service: &Arc<Service>) -> Result<()> {
        let Some(limit) = self.config.maximum_bytes_billed else {
            return Ok(());
        };
        let words = names::dotted_names(&self.request.sql);
        let (bytes, tables) = service.store.read(|state| {
            let tables = names::tables_named(
                state,
                &self.request.project,
                self.request.default_dataset.as_ref(),
                &words,
            );
            let bytes = tables.iter().map(|t| t.snapshot().bytes()).sum::<usize>();
            (u64::try_from(bytes).unwrap_or(u64::MAX), tables.len())
        });
        // Arrow buffers are no smaller than logical bytes, and a table may be read
        // more than once: plan whenever it is close.
        let wild = words.iter().flatten().any(|part| part.contains('*'));
        let bound = bytes_billed(bytes.saturating_mul(8), tables.saturating_mul(8).max(1));
        if !wild && i64::try_from(bound).is_ok_and(|bound| bound <= limit) {
            return Ok(());
        }
        let plan = self.plan(service).await?;
        check_billed(limit, statistics(&plan).bytes_billed)
    }

    /// Puts the rows of a SELECT where they belong.
    fn keep_result(
        &self,
        service: &Service,
        statement: &StatementOutcome,
        carrier: Option<&Carrier<'_>>,
    ) -> Result<Option<JobResult>> {
        if statement.statement_type != "SELECT" {
            return Ok(None);
        }
        let Some(schema) = &statement.schema else {
            return Ok(None);
        };
        match &self.destination {
            None => keep_anonymous(service, &self.request, schema, statement, carrier).map(Some),
            Some(destination) => {
                let schema = result_schema(schema);
                let carried = |written: &Written| {
                    let step = carrier.map(|carrier| {
                        let result = result_schema(&written.schema);
                        carrier.step(&written.table, &result)
                    });
                    Ok(step)
                };
                let written =
                    destination.write(&service.store, &schema, &statement.batches, carried)?;
                let rows = service.store.table(&written.table)?.snapshot();
                Ok(Some(JobResult {
                    table: Some(written.table),
                    schema: Arc::new(result_schema(&rows.schema)),
                    rows: Some(rows),
                }))
            }
        }
    }

    /// Completes the configuration with where the statement's rows went.
    fn fill_in(&self, job: &Job, statement: &StatementOutcome, table: Option<&TableRef>) {
        if statement.statement_type == "SELECT" {
            if self.destination.is_none() {
                if let Some(table) = table {
                    job.set_configuration("destinationTable", json!(table));
                }
                job.set_configuration("writeDisposition", "WRITE_TRUNCATE".into());
            }
        } else if let Some(target) = &statement.target {
            job.set_configuration("destinationTable", json!(target));
        }
    }

    /// Registers the statements of a script as jobs; the script's result is that of
    /// its last statement.
    fn finish_script(
        &self,
        service: &Arc<Service>,
        job: &Arc<Job>,
        outcome: QueryOutcome,
    ) -> Result<(Outcome, u64)> {
        let statistics = statistics(&outcome);
        let explained = |e| location::explain_missing(e, &self.request.location);
        let mut last = None;
        let mut children = Vec::new();
        for statement in outcome.statements {
            let mut ended = Outcome::success(Statistics::Query(Box::new(statement_statistics(
                &statement,
            ))));
            ended.error = statement.error.clone().map(explained);
            if ended.error.is_none() {
                ended.result = self.keep_result(service, &statement, None)?;
                last.clone_from(&ended.result);
            }
            let child = self.statement_job(job, children.len(), &statement, &ended);
            children.push((service.jobs.registry.insert(child)?, ended));
        }
        let now = millis_now();
        service.store.commit(|state| {
            let steps = children
                .iter()
                .map(|(child, ended)| record::done(state, child, ended, 0, now))
                .collect();
            Ok((steps, ()))
        })?;
        let count = u64::try_from(children.len()).unwrap_or(u64::MAX);
        for (child, ended) in children {
            child.finish(ended, 0, now);
        }
        let outcome = Outcome {
            result: last.filter(|_| outcome.failure.is_none()),
            error: outcome.failure.map(explained),
            ..Outcome::success(Statistics::Query(Box::new(statistics)))
        };
        Ok((outcome, count))
    }

    /// The job of a statement of a script.
    fn statement_job(
        &self,
        parent: &Job,
        number: usize,
        statement: &StatementOutcome,
        ended: &Outcome,
    ) -> Job {
        let reference = JobRef {
            id: format!("script_job_{}_{number}", parent.reference.id),
            ..parent.reference.clone()
        };
        let mut query = json!({
            "query": statement.sql, "priority": "INTERACTIVE", "useLegacySql": false,
        });
        if let Some(table) = ended.result.as_ref().and_then(|r| r.table.as_ref()) {
            query["destinationTable"] = json!(table);
            query["writeDisposition"] = "WRITE_TRUNCATE".into();
        } else if let Some(target) = &statement.target {
            query["destinationTable"] = json!(target);
        }
        if let Some(default) = &self.config.default_dataset {
            query["defaultDataset"] = json!(default.resolve(&parent.reference.project));
        }
        let mut configuration = serde_json::Map::new();
        configuration.insert("query".into(), query);
        configuration.insert("jobType".into(), "QUERY".into());
        if !parent.labels.is_empty() {
            configuration.insert("labels".into(), json!(parent.labels));
        }
        let now = millis_now();
        let parent = Some(parent.reference.clone());
        let job = Job::new(reference, JobKind::Query, configuration, parent, now);
        job.start(now);
        job
    }

    /// The record of this job for the change that its statement makes.
    fn applying(&self, job: &Arc<Job>) -> Applying {
        let job = Arc::clone(job);
        Applying(Arc::new(move |statement| {
            if let Some(target) = &statement.target {
                job.set_configuration("destinationTable", json!(target));
            }
            let statistics = Statistics::Query(Box::new(statement_statistics(statement)));
            record::applied(&job, &Outcome::success(statistics), None)
        }))
    }
}

/// A SELECT whose rows are written, and its job.
struct Carrier<'c> {
    query: &'c Query,
    job: &'c Job,
    statement: &'c StatementOutcome,
    statistics: &'c QueryStatistics,
}

impl Carrier<'_> {
    /// The record of the job for the change that writes its rows.
    fn step(&self, table: &TableRef, schema: &TableSchema) -> Mutation {
        self.query.fill_in(self.job, self.statement, Some(table));
        let statistics = Statistics::Query(Box::new(self.statistics.clone()));
        let outcome = Outcome::success(statistics);
        record::applied(self.job, &outcome, Some((table, schema)))
    }
}

/// Writes rows to a new table of the hidden dataset.
fn keep_anonymous(
    service: &Service,
    request: &QueryRequest,
    schema: &TableSchema,
    statement: &StatementOutcome,
    carrier: Option<&Carrier<'_>>,
) -> Result<JobResult> {
    let schema = Arc::new(result_schema(schema));
    let arrow = arrow_schema(&schema);
    let rows: Result<Vec<RecordBatch>> = statement
        .batches
        .iter()
        .filter(|batch| batch.num_rows() > 0)
        .map(|batch| fit_batch(batch, &schema, &arrow))
        .collect();
    let rows = rows?;
    let table = anonymous::new_table(&request.project, &request.location);
    let meta = anonymous::meta(Arc::clone(&schema), &request.location, millis_now());
    service.store.commit(|_| {
        let segments = if rows.is_empty() {
            Vec::new()
        } else {
            vec![Segment::in_memory(rows, None)]
        };
        let put = Mutation::PutTable(table.clone(), Box::new(meta));
        let mut steps = vec![put, Mutation::Append(table.clone(), segments)];
        steps.extend(carrier.map(|carrier| carrier.step(&table, &schema)));
        Ok((steps, ()))
    })?;
    let rows = service.store.table(&table)?.snapshot();
    Ok(JobResult {
        table: Some(table),
        schema,
        rows: Some(rows),
    })
}

fn statement_type(outcome: &QueryOutcome) -> &'static str {
    match outcome.statements.last() {
        Some(statement) if !outcome.script => statement.statement_type,
        _ => "SCRIPT",
    }
}

fn statement_statistics(statement: &StatementOutcome) -> QueryStatistics {
    let mut referenced = statement.referenced.clone();
    if statement.dml.is_some() {
        // Recorded: an INSERT of values references the table it writes.
        referenced.extend(statement.target.clone());
    }
    let mut seen = Vec::new();
    referenced.retain(|table| {
        let new = !seen.contains(table);
        seen.push(table.clone());
        new
    });
    let ddl = statement.ddl.is_some();
    QueryStatistics {
        statement_type: Some(statement.statement_type)
            .filter(|known| !known.is_empty())
            .map(Into::into),
        bytes_processed: Some(statement.bytes_processed),
        bytes_billed: bytes_billed(statement.bytes_processed, referenced.len()),
        cache_hit: false,
        schema: statement.schema.clone().filter(|_| ddl),
        ddl: statement.ddl.clone(),
        dml: statement.dml,
        referenced,
    }
}

fn statistics(outcome: &QueryOutcome) -> QueryStatistics {
    if let ([statement], false) = (outcome.statements.as_slice(), outcome.script) {
        return statement_statistics(statement);
    }
    let mut total = QueryStatistics {
        statement_type: Some(statement_type(outcome).into()),
        bytes_processed: Some(0),
        ..QueryStatistics::default()
    };
    for statement in &outcome.statements {
        let one = statement_statistics(statement);
        total.bytes_billed += one.bytes_billed;
        total.bytes_processed =
            Some(total.bytes_processed.unwrap_or(0) + one.bytes_processed.unwrap_or(0));
        for table in one.referenced {
            if !total.referenced.contains(&table) {
                total.referenced.push(table);
            }
        }
    }
    total
}

fn check_billed(limit: i64, billed: u64) -> Result<()> {
    if i64::try_from(billed).is_ok_and(|billed| billed <= limit) {
        return Ok(());
    }
    Err(ServiceError::new(
        Reason::BytesBilledLimitExceeded,
        format!("Query exceeded limit for bytes billed: {limit}. {billed} or higher required."),
    ))
}

/// A result's columns: every mode said, nothing REQUIRED, no defaults.
pub fn result_schema(schema: &TableSchema) -> TableSchema {
    TableSchema::new(schema.fields.iter().map(result_field).collect())
}

fn result_field(field: &Field) -> Field {
    let mut out = field.clone();
    out.mode = Some(match field.mode() {
        Mode::Repeated => Mode::Repeated,
        Mode::Nullable | Mode::Required => Mode::Nullable,
    });
    out.default_value_expression = None;
    if let FieldType::Struct(fields) = &field.field_type {
        out.field_type = FieldType::Struct(fields.iter().map(result_field).collect());
    }
    out
}
