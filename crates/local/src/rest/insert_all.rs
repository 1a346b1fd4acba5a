//! tabledata.insertAll.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::answer::{self, RestError, RestResult};
use super::names::{self, Decorated};
use super::request::JsonBody;
use super::resource::{flag, text};
use crate::engine;
use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;
use crate::server::Service;
use crate::store::{
    Mutation, Partition, Partitioning, Segment, Table, TableKind, TableMeta, TableRef, micros_now,
    millis_now,
};
use crate::value::build::{Cell, JsonText};
use crate::value::civil::DAY_MICROS;
use crate::value::{JsonRowsBuilder, UnknownFields};

/// Most rows of one request.
const MAX_ROWS: usize = 50_000;

/// The insert ids seen lately, for dropping repeated rows.
///
/// The service promises this for about a minute, and only as best effort.
#[derive(Debug, Default)]
pub struct InsertIds(Mutex<HashMap<u64, Arc<Mutex<Seen>>>>);

/// The ids of one table.
#[derive(Debug, Default)]
struct Seen {
    ids: HashSet<String>,
    order: VecDeque<(Instant, String)>,
}

const REMEMBERED: Duration = Duration::from_secs(120);
const MOST_REMEMBERED: usize = 200_000;

impl InsertIds {
    /// The ids of a table. They stay locked during an insert that has ids: two
    /// repeats of a row must not pass each other.
    fn of(&self, table: &Table) -> Arc<Mutex<Seen>> {
        let mut tables = self.0.lock();
        tables.retain(|_, seen| {
            Arc::strong_count(seen) > 1 || seen.try_lock().is_none_or(|seen| seen.is_recent())
        });
        Arc::clone(tables.entry(table.incarnation()).or_default())
    }
}

impl Seen {
    fn is_recent(&self) -> bool {
        self.order
            .back()
            .is_some_and(|(at, _)| at.elapsed() < REMEMBERED)
    }

    fn forget_old(&mut self) {
        while let Some((at, _)) = self.order.front() {
            if at.elapsed() < REMEMBERED && self.order.len() <= MOST_REMEMBERED {
                break;
            }
            if let Some((_, id)) = self.order.pop_front() {
                self.ids.remove(&id);
            }
        }
    }

    fn remember(&mut self, ids: Vec<String>) {
        let now = Instant::now();
        for id in ids {
            if self.ids.insert(id.clone()) {
                self.order.push_back((now, id));
            }
        }
    }
}

/// What a request asks for.
struct Request {
    rows: Vec<Value>,
    unknown: UnknownFields,
    invalid: Invalid,
    template_suffix: Option<String>,
}

/// What one invalid row means for the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    StopsAll,
    IsSkipped,
}

impl Request {
    fn read(body: Value) -> Result<Self> {
        let Value::Object(mut body) = body else {
            return Err(ServiceError::invalid("The body must be a JSON object."));
        };
        let rows = match body.remove("rows") {
            Some(Value::Array(rows)) if !rows.is_empty() => rows,
            None | Some(Value::Null | Value::Array(_)) => {
                return Err(ServiceError::invalid("No rows present in the request."));
            }
            Some(_) => {
                return Err(ServiceError::invalid(
                    "Invalid value for rows: a list is needed",
                ));
            }
        };
        if rows.len() > MAX_ROWS {
            return Err(ServiceError::invalid(format!(
                "Too many rows present in the request, limit: {MAX_ROWS} row count: {}.",
                rows.len()
            )));
        }
        Ok(Self {
            unknown: if flag(&body, "ignoreUnknownValues")? {
                UnknownFields::Ignore
            } else {
                UnknownFields::Refuse
            },
            invalid: if flag(&body, "skipInvalidRows")? {
                Invalid::IsSkipped
            } else {
                Invalid::StopsAll
            },
            template_suffix: text(&body, "templateSuffix")?.filter(|s| !s.is_empty()),
            rows,
        })
    }
}

pub(super) async fn insert_all(
    State(service): State<Arc<Service>>,
    Path((project, dataset, table)): Path<(String, String, String)>,
    JsonBody(body): JsonBody,
) -> RestResult {
    let mut target = names::decorated(&project, &dataset, &table)?;
    let request = Request::read(body)?;
    let mut template = service.store.table(&target.table)?;
    if let Some(suffix) = &request.template_suffix {
        target.table = names::table(
            &project,
            &dataset,
            &format!("{}{suffix}", target.table.table),
        )?;
        template = from_template(&service, &template, &target.table)?;
    }
    let table = template;
    table.meta().takes_rows(table.reference())?;
    let defaults = defaults(&service, &table.meta().schema, &request.rows).await?;
    let done =
        tokio::task::spawn_blocking(move || insert(&service, &table, &target, &request, defaults))
            .await
            .map_err(|e| RestError(ServiceError::internal(format!("insertAll ended: {e}"))))?;
    Ok(answer::json(&done?))
}

/// The table of a template, made with the template's columns if it is new.
fn from_template(service: &Service, template: &Table, reference: &TableRef) -> Result<Arc<Table>> {
    template.meta().takes_rows(template.reference())?;
    service.store.commit(|state| {
        if state.table(reference).is_some() {
            return Ok((Vec::new(), ()));
        }
        let home = state.require_dataset(&reference.dataset_ref())?;
        let like = template.meta();
        let mut meta = TableMeta::new(
            home,
            TableKind::Table,
            Arc::clone(&like.schema),
            millis_now(),
        );
        meta.time_partitioning.clone_from(&like.time_partitioning);
        meta.range_partitioning.clone_from(&like.range_partitioning);
        meta.clustering.clone_from(&like.clustering);
        Ok((
            vec![Mutation::PutTable(reference.clone(), Box::new(meta))],
            (),
        ))
    })?;
    service.store.table(reference)
}

/// Values of the columns that have a default and that some row leaves out.
async fn defaults(
    service: &Arc<Service>,
    schema: &TableSchema,
    rows: &[Value],
) -> Result<Vec<Option<Cell>>> {
    let mut defaults = vec![None; schema.fields.len()];
    for (i, field) in schema.fields.iter().enumerate() {
        let left_out = |row: &Value| {
            row["json"]
                .as_object()
                .is_none_or(|object| !object.keys().any(|k| k.eq_ignore_ascii_case(&field.name)))
        };
        if field.default_value_expression.is_some() && rows.iter().any(left_out) {
            defaults[i] = Some(engine::column_default(service, field).await?);
        }
    }
    Ok(defaults)
}

fn insert(
    service: &Service,
    table: &Arc<Table>,
    target: &Decorated,
    request: &Request,
    defaults: Vec<Option<Cell>>,
) -> Result<Value> {
    let meta = table.meta();
    let partition = partition(&meta, target)?;
    let has_ids = request.rows.iter().any(|row| insert_id(row).is_some());
    let seen = has_ids.then(|| service.insert_ids.of(table));
    let mut seen = seen.as_ref().map(|seen| {
        let mut seen = seen.lock();
        seen.forget_old();
        seen
    });
    let mut builder = JsonRowsBuilder::new(&meta.schema, request.unknown, JsonText::Encoded)
        .with_defaults(defaults);
    let mut taken: Vec<String> = Vec::new();
    let mut repeats: HashSet<&str> = HashSet::new();
    let mut errors: Vec<(usize, Value)> = Vec::new();
    for (index, row) in request.rows.iter().enumerate() {
        let id = insert_id(row);
        if let Some(id) = id
            && (repeats.contains(id) || seen.as_ref().is_some_and(|seen| seen.ids.contains(id)))
        {
            continue;
        }
        let empty = Value::Object(Map::new());
        let json = match &row["json"] {
            Value::Null => &empty,
            json => json,
        };
        match builder.push(json) {
            Ok(()) => {
                repeats.extend(id);
                taken.extend(id.map(str::to_string));
            }
            Err(e) => errors.push((index, row_error("invalid", &e.location, &e.message))),
        }
    }
    if !errors.is_empty() && request.invalid == Invalid::StopsAll {
        let invalid: HashMap<usize, Value> = errors.into_iter().collect();
        let all = (0..request.rows.len()).map(|index| {
            let error = invalid
                .get(&index)
                .cloned()
                .unwrap_or_else(|| row_error("stopped", "", ""));
            (index, error)
        });
        return Ok(response(all.collect()));
    }
    if builder.rows() > 0 {
        let batch = builder.finish()?;
        let segment = Segment::in_memory(
            vec![batch],
            partition.or_else(|| meta.ingestion_partition(micros_now())),
        );
        let segments = service.store.stage(vec![segment])?;
        service.store.commit(|state| {
            let current = state.require_table(&target.table)?;
            if current.incarnation() != table.incarnation() {
                return Err(ServiceError::not_found(format_args!(
                    "Table {}",
                    target.table
                )));
            }
            Ok((vec![Mutation::Append(target.table.clone(), segments)], ()))
        })?;
    }
    if let Some(seen) = &mut seen {
        seen.remember(taken);
    }
    Ok(response(errors))
}

fn insert_id(row: &Value) -> Option<&str> {
    row["insertId"].as_str().filter(|id| !id.is_empty())
}

/// The ingestion-time partition that a decorator names.
fn partition(meta: &TableMeta, target: &Decorated) -> Result<Option<i64>> {
    let Some(id) = &target.partition else {
        return Ok(None);
    };
    match (meta.partitioning(), meta.partition(id)?) {
        (Partitioning::Ingestion(_), Partition::Time(start)) => {
            let today = micros_now().div_euclid(DAY_MICROS);
            let day = start.div_euclid(DAY_MICROS);
            if !(today - 31..=today + 16).contains(&day) {
                return Err(ServiceError::invalid(format!(
                    "The destination table's partition {}${id} is outside the allowed bounds. You can only stream to partitions within 31 days in the past and 16 days in the future relative to the current date.",
                    target.table
                )));
            }
            Ok(Some(start))
        }
        _ => Err(ServiceError::invalid(format!(
            "Streaming to the partition {}${id} is not supported: only partitions of ingestion-time partitioned tables can be named.",
            target.table
        ))),
    }
}

fn row_error(reason: &str, location: &str, message: &str) -> Value {
    json!({"reason": reason, "location": location, "debugInfo": "", "message": message})
}

fn response(errors: Vec<(usize, Value)>) -> Value {
    let mut body = json!({"kind": "bigquery#tableDataInsertAllResponse"});
    if !errors.is_empty() {
        body["insertErrors"] = errors
            .into_iter()
            .map(|(index, error)| json!({"index": index, "errors": [error]}))
            .collect();
    }
    body
}
