//! Rows: tabledata.list, and deleting a partition.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use serde::Serialize;
use serde_json::value::RawValue;

use super::answer::{self, RestError, RestResult};
use super::request::{Conditions, Params};
use super::{insert_all, names, page};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, TableSchema, adapt_batch, arrow_schema};
use crate::server::Service;
use crate::store::{
    Mutation, Rows, SegmentWriter, Snapshot, Store, Table, TableKind, TableMeta, TableRef,
};
use crate::value::rows::PageWriter;
use crate::value::{TextOptions, TimestampText};

/// Most rows of one page.
const MAX_ROWS: usize = 100_000;
/// A page ends at about this many bytes of JSON.
pub(super) const MAX_PAGE_BYTES: usize = 10 << 20;

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route(
            "/projects/{project}/datasets/{dataset}/tables/{table}/data",
            get(list),
        )
        .route(
            "/projects/{project}/datasets/{dataset}/tables/{table}/insertAll",
            post(insert_all::insert_all),
        )
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DataList {
    kind: &'static str,
    etag: String,
    total_rows: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Box<RawValue>>,
}

async fn list(
    State(service): State<Arc<Service>>,
    Path((project, dataset, table)): Path<(String, String, String)>,
    params: Params,
) -> RestResult {
    let decorated = names::decorated(&project, &dataset, &table)?;
    let table = service.store.table(&decorated.table)?;
    tokio::task::spawn_blocking(move || data_list(&table, decorated.partition.as_deref(), &params))
        .await
        .map_err(|e| RestError(ServiceError::internal(format!("tabledata.list ended: {e}"))))?
}

fn data_list(table: &Table, partition: Option<&str>, params: &Params) -> RestResult {
    let meta = table.meta();
    readable(table.reference(), &meta)?;
    let options = text_options(params)?;
    let (snapshot, start) = cursor(table, params)?;
    let wanted = params
        .number::<usize>("maxResults")?
        .unwrap_or(MAX_ROWS)
        .min(MAX_ROWS);
    let schema = match params.get("selectedFields") {
        Some(fields) => select(&snapshot.schema, fields)?,
        None => TableSchema::clone(&snapshot.schema),
    };
    let target = arrow_schema(&schema);
    let mut page = PageWriter::new(&schema, wanted, MAX_PAGE_BYTES, options);
    let total = match partition {
        Some(id) => {
            let (mut skip, mut total) = (start, 0);
            let partition = meta.partition(id)?;
            snapshot.each_partition_row(&meta, &partition, Rows::Inside, &mut |batch| {
                if !page.is_full() {
                    page.push(&adapt_batch(&batch, &target)?, skip)?;
                }
                skip = skip.saturating_sub(batch.num_rows());
                total += batch.num_rows();
                Ok(())
            })?;
            total
        }
        None => {
            write_from(&snapshot, start, &target, &mut page)?;
            snapshot.rows()
        }
    };
    let page = page.finish()?;
    let next = start + page.count;
    let token = (next < total).then(|| {
        page::token(
            "data",
            &format!("{}:{}:{next}", table.incarnation(), snapshot.time),
        )
    });
    Ok(answer::json(&DataList {
        kind: "bigquery#tableDataList",
        etag: meta.etag.clone(),
        total_rows: total.to_string(),
        page_token: token,
        rows: (page.count > 0).then_some(page.rows),
    }))
}

/// Writes rows `start..`, reading no more segments than the page needs.
pub(super) fn write_from(
    snapshot: &Snapshot,
    start: usize,
    target: &SchemaRef,
    page: &mut PageWriter,
) -> Result<()> {
    let mut skip = start;
    for segment in &snapshot.segments {
        if skip >= segment.rows() {
            skip -= segment.rows();
            continue;
        }
        for batch in segment.reader()? {
            if page.is_full() {
                return Ok(());
            }
            let batch = batch?;
            if skip < batch.num_rows() {
                page.push(&adapt_batch(&batch, target)?, skip)?;
            }
            skip = skip.saturating_sub(batch.num_rows());
        }
    }
    Ok(())
}

/// Refuses relations that hold no rows of their own.
fn readable(reference: &TableRef, meta: &TableMeta) -> Result<()> {
    if meta.kind == TableKind::Table {
        return Ok(());
    }
    Err(ServiceError::invalid(format!(
        "Cannot list a table of type {}. ({reference})",
        meta.kind.name()
    )))
}

/// Where a page begins: at the token's row of the version that the first page
/// saw, or at `startIndex`.
fn cursor(table: &Table, params: &Params) -> Result<(Snapshot, usize)> {
    let Some(position) = page::position(params, "data")? else {
        let start = params.number::<usize>("startIndex")?.unwrap_or(0);
        return Ok((table.snapshot(), start));
    };
    let stale = || ServiceError::invalid("Invalid page token.").at("pageToken");
    let mut parts = position.split(':');
    let mut number = || {
        parts
            .next()
            .and_then(|p| p.parse::<u64>().ok())
            .ok_or_else(stale)
    };
    let (incarnation, time, start) = (number()?, number()?, number()?);
    if incarnation != table.incarnation() {
        return Err(stale());
    }
    let time = i64::try_from(time).map_err(|_| stale())?;
    let snapshot = table.snapshot_at(time).ok_or_else(stale)?;
    Ok((snapshot, usize::try_from(start).map_err(|_| stale())?))
}

fn text_options(params: &Params) -> Result<TextOptions> {
    timestamp_text(
        params.flag("formatOptions.useInt64Timestamp")?,
        params.get("formatOptions.timestampOutputFormat"),
        TimestampText::Plain,
    )
    .map(|timestamp| TextOptions { timestamp })
}

/// The form that `useInt64Timestamp` and `timestampOutputFormat` ask for, or the
/// method's own.
pub(super) fn timestamp_text(
    int64: bool,
    format: Option<&str>,
    default: TimestampText,
) -> Result<TimestampText> {
    let named = match format {
        None | Some("TIMESTAMP_OUTPUT_FORMAT_UNSPECIFIED") => None,
        Some("FLOAT64") => Some(default),
        Some("INT64") => Some(TimestampText::Int64),
        Some("ISO8601_STRING") => Some(TimestampText::Iso8601),
        Some(other) => {
            return Err(ServiceError::invalid(format!(
                "Invalid value for formatOptions.timestampOutputFormat: {other} is not a valid value"
            )));
        }
    };
    match (int64, named) {
        (true, Some(form)) if form != TimestampText::Int64 => Err(ServiceError::invalid(
            "formatOptions.useInt64Timestamp and formatOptions.timestampOutputFormat contradict each other.",
        )),
        (true, _) => Ok(TimestampText::Int64),
        (false, named) => Ok(named.unwrap_or(default)),
    }
}

/// The columns that `selectedFields` names, nested ones by dotted paths, in the
/// schema's order.
pub(super) fn select(schema: &TableSchema, selected: &str) -> Result<TableSchema> {
    let paths: Vec<Vec<&str>> = selected
        .split(',')
        .map(str::trim)
        .filter(|p| !p.is_empty())
        .map(|p| p.split('.').collect())
        .collect();
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    select_fields(&schema.fields, &paths).map(TableSchema::new)
}

fn select_fields(fields: &[Field], paths: &[&[&str]]) -> Result<Vec<Field>> {
    for path in paths {
        if !fields.iter().any(|f| f.name.eq_ignore_ascii_case(path[0])) {
            return Err(ServiceError::invalid(format!(
                "Invalid selectedFields: no such field: {}",
                path.join(".")
            ))
            .at("selectedFields"));
        }
    }
    let mut out = Vec::new();
    for field in fields {
        let rest: Vec<&[&str]> = paths
            .iter()
            .filter(|path| field.name.eq_ignore_ascii_case(path[0]))
            .map(|path| &path[1..])
            .collect();
        if rest.is_empty() {
            continue;
        }
        let mut field = field.clone();
        if !rest.iter().any(|r| r.is_empty()) {
            let inner = select_fields(field.fields(), &rest)?;
            field.field_type = FieldType::Struct(inner);
        }
        out.push(field);
    }
    Ok(out)
}

/// Removes the rows of one partition.
pub(super) fn delete_partition(
    service: &Service,
    reference: &TableRef,
    id: &str,
    conditions: &Conditions,
) -> Result<()> {
    service.store.commit(|state| {
        let table = state.require_table(reference)?;
        let meta = table.meta();
        conditions.check(&meta.etag)?;
        let partition = meta.partition(id)?;
        Ok((
            vec![without_partition(&service.store, table, &meta, &partition)?],
            (),
        ))
    })
}

fn without_partition(
    store: &Store,
    table: &Table,
    meta: &TableMeta,
    partition: &crate::store::Partition,
) -> Result<Mutation> {
    use crate::store::{Partition, Partitioning};
    let reference = table.reference().clone();
    if let (Partitioning::Ingestion(_), Partition::Time(start)) = (meta.partitioning(), partition) {
        return Ok(Mutation::ReplacePartitions(
            reference,
            vec![*start],
            Vec::new(),
        ));
    }
    let mut kept = SegmentWriter::new(store, None);
    table
        .snapshot()
        .each_partition_row(meta, partition, Rows::Outside, &mut |batch| {
            kept.push(batch)
        })?;
    Ok(Mutation::Replace(reference, kept.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selection_keeps_the_schemas_order() {
        let schema: TableSchema = serde_json::from_value(json!({"fields": [
            {"name": "a", "type": "STRING"},
            {"name": "r", "type": "RECORD", "mode": "REPEATED", "fields": [
                {"name": "x", "type": "INTEGER"},
                {"name": "y", "type": "RECORD", "fields": [{"name": "z", "type": "DATE"}, {"name": "w", "type": "DATE"}]}]},
            {"name": "b", "type": "STRING"}
        ]}))
        .unwrap();
        let types = |fields: &str| {
            select(&schema, fields)
                .unwrap()
                .fields
                .iter()
                .map(|f| format!("{} {}", f.name, f.sql_type()))
                .collect::<Vec<_>>()
        };
        assert_eq!(types("b,a"), ["a STRING", "b STRING"]);
        assert_eq!(
            types("r.y.w, R.x"),
            ["r ARRAY<STRUCT<x INT64, y STRUCT<w DATE>>>"]
        );
        assert_eq!(
            types("r.x,r"),
            ["r ARRAY<STRUCT<x INT64, y STRUCT<z DATE, w DATE>>>"]
        );
        for bad in ["c", "a.x", "r.q", "r.y.z.v"] {
            assert!(select(&schema, bad).is_err(), "{bad}");
        }
    }
}
