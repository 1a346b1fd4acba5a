//! INFORMATION_SCHEMA: the store's metadata as rows.

mod constraints;
mod jobs;
mod options;
mod partitions;
mod routines;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::scalar::ScalarValue;

use super::super::functions::SqlType;
use super::analyze::{Col, Rel};
use super::ast::Path;
use super::env::Env;
use super::scan::{id_schema, rows};
use super::session::service_error;
use crate::error::{Result, ServiceError};
use crate::schema::{Field, Mode};
use crate::store::{DatasetRef, Partitioning, Table, TableKind};

/// Rows while they are gathered: columns in order, cells by row.
struct View {
    columns: Vec<(&'static str, SqlType)>,
    rows: Vec<Vec<ScalarValue>>,
}

impl View {
    fn new(columns: &[(&'static str, SqlType)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    fn into_rel(self, env: &Env) -> Result<Rel> {
        let columns: Vec<Col> = self
            .columns
            .iter()
            .map(|(name, ty)| Col {
                name: Some((*name).to_string()),
                id: env.id(),
                ty: ty.clone(),
                fold_case: false,
            })
            .collect();
        let ids: Vec<(String, SqlType)> = columns
            .iter()
            .map(|c| (c.id.clone(), c.ty.clone()))
            .collect();
        let mut batches = Vec::new();
        if !self.rows.is_empty() {
            let arrays = (0..columns.len())
                .map(|i| {
                    ScalarValue::iter_to_array(self.rows.iter().map(|r| r[i].clone()))
                        .map_err(service_error)
                })
                .collect::<Result<Vec<ArrayRef>>>()?;
            let schema = id_schema(ids.iter().map(|(id, t)| (id, t)));
            batches.push(
                RecordBatch::try_new(schema, arrays)
                    .map_err(|e| ServiceError::internal(e.to_string()))?,
            );
        }
        Ok(Rel {
            plan: rows(&ids, batches)?,
            columns,
            row: None,
            value_table: false,
        })
    }
}

fn text(value: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8(Some(value.into()))
}

fn maybe(value: Option<String>) -> ScalarValue {
    ScalarValue::Utf8(value)
}

fn int(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

fn yes(flag: bool) -> ScalarValue {
    text(if flag { "YES" } else { "NO" })
}

/// A TIMESTAMP of milliseconds since the epoch.
fn millis(value: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(value.checked_mul(1000), Some("UTC".into()))
}

fn no_time() -> ScalarValue {
    ScalarValue::TimestampMicrosecond(None, Some("UTC".into()))
}

/// What stands before INFORMATION_SCHEMA.
enum Of {
    Dataset(DatasetRef),
    /// All datasets of a project in a location, lower case.
    Region(String, String),
}

/// The relation that a path through INFORMATION_SCHEMA names.
pub(super) fn relation(env: &Env, path: &Path) -> Result<Rel> {
    let at = path
        .iter()
        .position(|p| p.is("INFORMATION_SCHEMA"))
        .ok_or_else(|| ServiceError::internal("the path names INFORMATION_SCHEMA"))?;
    let before: Vec<&str> = path[..at].iter().map(|p| p.name.as_str()).collect();
    let [view] = &path[at + 1..] else {
        return Err(ServiceError::invalid_query(
            "INFORMATION_SCHEMA must be followed by the name of one view",
        ));
    };
    let region = |name: &str| -> Option<String> {
        let lower = name.to_ascii_lowercase();
        lower.strip_prefix("region-").map(ToString::to_string)
    };
    let of = match before.as_slice() {
        [] => match &*env.default_dataset.borrow() {
            Some(dataset) => Of::Dataset(dataset.clone()),
            None => Of::Region(env.project.clone(), env.location.to_ascii_lowercase()),
        },
        [one] => match region(one) {
            Some(region) => Of::Region(env.project.clone(), region),
            None => Of::Dataset(DatasetRef::new(&env.project, *one)),
        },
        [project, one] => match region(one) {
            Some(region) => Of::Region((*project).to_string(), region),
            None => Of::Dataset(DatasetRef::new(*project, *one)),
        },
        _ => {
            return Err(ServiceError::invalid_query(
                "INFORMATION_SCHEMA has too many qualifiers",
            ));
        }
    };
    let name = view.name.to_ascii_uppercase();
    match name.as_str() {
        "SCHEMATA" => schemata(env, &of)?.into_rel(env),
        "SCHEMATA_OPTIONS" => schemata_options(env, &of)?.into_rel(env),
        "JOBS" | "JOBS_BY_PROJECT" | "JOBS_BY_USER" => jobs::jobs(env, project(&of))?.into_rel(env),
        "TABLES" => tables_view(&tables(env, &of)?).into_rel(env),
        "COLUMNS" => columns(&tables(env, &of)?).into_rel(env),
        "COLUMN_FIELD_PATHS" => field_paths(&tables(env, &of)?).into_rel(env),
        "TABLE_OPTIONS" => options::table_options(&tables(env, &of)?).into_rel(env),
        "TABLE_CONSTRAINTS" => constraints::constraints(&tables(env, &of)?).into_rel(env),
        "KEY_COLUMN_USAGE" => constraints::key_columns(&tables(env, &of)?).into_rel(env),
        "CONSTRAINT_COLUMN_USAGE" => {
            constraints::constraint_columns(&tables(env, &of)?).into_rel(env)
        }
        "PARTITIONS" => partitions::partitions(env, &tables(env, &of)?)?.into_rel(env),
        "ROUTINES" => routines::routines(env, &of)?.into_rel(env),
        "VIEWS" => views(&tables(env, &of)?).into_rel(env),
        _ if KNOWN.contains(&name.as_str()) => Err(ServiceError::unsupported(format_args!(
            "INFORMATION_SCHEMA.{name}"
        ))),
        _ => Err(ServiceError::not_found(format_args!(
            "Table {} was not found in location {}",
            path.iter()
                .map(|p| p.name.as_str())
                .collect::<Vec<_>>()
                .join("."),
            env.location
        ))),
    }
}

/// Views that the service has and this server does not.
const KNOWN: &[&str] = &[
    "ROUTINE_OPTIONS",
    "PARAMETERS",
    "SNAPSHOTS",
    "TABLE_SNAPSHOTS",
    "TABLE_STORAGE",
    "TABLE_STORAGE_TIMELINE",
    "MATERIALIZED_VIEWS",
    "OBJECT_PRIVILEGES",
    "RESERVATIONS",
    "ASSIGNMENTS",
    "CAPACITY_COMMITMENTS",
    "JOBS_BY_FOLDER",
    "JOBS_BY_ORGANIZATION",
    "JOBS_TIMELINE",
    "JOBS_TIMELINE_BY_PROJECT",
    "JOBS_TIMELINE_BY_USER",
    "SEARCH_INDEXES",
    "SEARCH_INDEX_COLUMNS",
    "VECTOR_INDEXES",
    "SESSIONS",
    "SESSIONS_BY_PROJECT",
    "SESSIONS_BY_USER",
    "STREAMING_TIMELINE",
    "STREAMING_TIMELINE_BY_PROJECT",
    "WRITE_API_TIMELINE",
    "WRITE_API_TIMELINE_BY_PROJECT",
    "SCHEMATA_LINKS",
    "SCHEMATA_REPLICAS",
    "ROW_ACCESS_POLICIES",
    "EFFECTIVE_PROJECT_OPTIONS",
    "PROJECT_OPTIONS",
    "ORGANIZATION_OPTIONS",
    "RECOMMENDATIONS",
    "INSIGHTS",
    "SHARED_DATASET_USAGE",
];

fn project(of: &Of) -> &str {
    match of {
        Of::Dataset(dataset) => &dataset.project,
        Of::Region(project, _) => project,
    }
}

fn tables(env: &Env, of: &Of) -> Result<Vec<Arc<Table>>> {
    env.service.store.read(|state| match of {
        Of::Dataset(dataset) => {
            if state.dataset(dataset).is_none() {
                return Err(env.no_dataset(dataset));
            }
            Ok(state.tables(dataset).cloned().collect())
        }
        Of::Region(project, region) => Ok(state
            .datasets(project)
            .filter(|(d, meta)| shown(d) && meta.location.eq_ignore_ascii_case(region))
            .flat_map(|(d, _)| state.tables(d).cloned())
            .collect()),
    })
}

/// Datasets that begin with an underscore are the server's own.
fn shown(dataset: &DatasetRef) -> bool {
    !dataset.dataset.starts_with('_')
}

const S: SqlType = SqlType::String;
const I: SqlType = SqlType::Int64;
const T: SqlType = SqlType::Timestamp;

fn schemata(env: &Env, of: &Of) -> Result<View> {
    let mut view = View::new(&[
        ("catalog_name", S),
        ("schema_name", S),
        ("schema_owner", S),
        ("creation_time", T),
        ("last_modified_time", T),
        ("location", S),
        ("ddl", S),
        ("default_collation_name", S),
    ]);
    let Of::Region(project, region) = of else {
        return Err(ServiceError::invalid_query(
            "INFORMATION_SCHEMA.SCHEMATA needs a region or project, not a dataset",
        ));
    };
    env.service.store.read(|state| {
        for (dataset, meta) in state.datasets(project) {
            if !shown(dataset) || !meta.location.eq_ignore_ascii_case(region) {
                continue;
            }
            view.rows.push(vec![
                text(&dataset.project),
                text(&dataset.dataset),
                maybe(None),
                millis(meta.creation_time),
                millis(meta.last_modified_time),
                text(&meta.location),
                text(format!(
                    "CREATE SCHEMA `{}.{}`;",
                    dataset.project, dataset.dataset
                )),
                maybe(None),
            ]);
        }
    });
    Ok(view)
}

fn quoted(value: &str) -> String {
    let mut out = String::new();
    crate::value::json::write_json_string(value, &mut out);
    out
}

fn labels_text(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(k, v)| format!("STRUCT({}, {})", quoted(k), quoted(v)))
        .collect();
    format!("[{}]", pairs.join(", "))
}

fn schemata_options(env: &Env, of: &Of) -> Result<View> {
    let mut view = View::new(&[
        ("catalog_name", S),
        ("schema_name", S),
        ("option_name", S),
        ("option_type", S),
        ("option_value", S),
    ]);
    let Of::Region(project, region) = of else {
        return Err(ServiceError::invalid_query(
            "INFORMATION_SCHEMA.SCHEMATA_OPTIONS needs a region or project, not a dataset",
        ));
    };
    env.service.store.read(|state| {
        for (dataset, meta) in state.datasets(project) {
            if !shown(dataset) || !meta.location.eq_ignore_ascii_case(region) {
                continue;
            }
            let mut put = |name: &str, ty: &str, value: String| {
                view.rows.push(vec![
                    text(&dataset.project),
                    text(&dataset.dataset),
                    text(name),
                    text(ty),
                    text(value),
                ]);
            };
            if let Some(description) = &meta.description {
                put("description", "STRING", quoted(description));
            }
            if !meta.labels.is_empty() {
                put(
                    "labels",
                    "ARRAY<STRUCT<STRING, STRING>>",
                    labels_text(&meta.labels),
                );
            }
            if let Some(ms) = meta.default_table_expiration_ms() {
                put("default_table_expiration_days", "FLOAT64", days(ms));
            }
        }
    });
    Ok(view)
}

fn days(ms: i64) -> String {
    let mut out = String::new();
    crate::value::scalar::write_float64(ms as f64 / 86_400_000.0, &mut out);
    out
}

/// The first columns of most views.
fn name_of(table: &Table) -> Vec<ScalarValue> {
    let reference = table.reference();
    vec![
        text(&reference.project),
        text(&reference.dataset),
        text(&reference.table),
    ]
}

const NAME: [(&str, SqlType); 3] = [("table_catalog", S), ("table_schema", S), ("table_name", S)];

fn with_name(columns: &[(&'static str, SqlType)]) -> View {
    let mut all = NAME.to_vec();
    all.extend(columns.iter().cloned());
    View::new(&all)
}

fn type_word(table: &Table) -> &'static str {
    let meta = table.meta();
    match &meta.kind {
        TableKind::Table if meta.extra.contains_key("snapshotDefinition") => "SNAPSHOT",
        TableKind::Table => "BASE TABLE",
        TableKind::View(_) => "VIEW",
        TableKind::MaterializedView(_) => "MATERIALIZED VIEW",
        TableKind::External => "EXTERNAL",
    }
}

fn tables_view(tables: &[Arc<Table>]) -> View {
    let mut view = with_name(&[
        ("table_type", S),
        ("managed_table_type", S),
        ("is_insertable_into", S),
        ("is_fine_grained_mutations_enabled", S),
        ("is_typed", S),
        ("is_change_history_enabled", S),
        ("creation_time", T),
        ("base_table_catalog", S),
        ("base_table_schema", S),
        ("base_table_name", S),
        ("snapshot_time_ms", T),
        ("ddl", S),
        ("default_collation_name", S),
        ("upsert_stream_apply_watermark", T),
    ]);
    for table in tables {
        let meta = table.meta();
        let word = type_word(table);
        let base = |key: &str| {
            maybe(
                meta.extra
                    .get("snapshotDefinition")
                    .and_then(|d| d["baseTableReference"][key].as_str())
                    .map(ToString::to_string),
            )
        };
        let mut row = name_of(table);
        row.extend([
            text(word),
            maybe((word == "BASE TABLE").then(|| "NATIVE".to_string())),
            yes(word == "BASE TABLE"),
            yes(false),
            yes(false),
            yes(false),
            millis(meta.creation_time),
            base("projectId"),
            base("datasetId"),
            base("tableId"),
            no_time(),
            maybe(None),
            maybe(None),
            no_time(),
        ]);
        view.rows.push(row);
    }
    view
}

fn columns(tables: &[Arc<Table>]) -> View {
    let mut view = with_name(&[
        ("column_name", S),
        ("ordinal_position", I),
        ("is_nullable", S),
        ("data_type", S),
        ("is_generated", S),
        ("generation_expression", S),
        ("is_stored", S),
        ("is_hidden", S),
        ("is_updatable", S),
        ("is_system_defined", S),
        ("is_partitioning_column", S),
        ("clustering_ordinal_position", I),
        ("collation_name", S),
        ("column_default", S),
        ("rounding_mode", S),
    ]);
    for table in tables {
        let meta = table.meta();
        let partitioning = match meta.partitioning() {
            Partitioning::Time(field, _) | Partitioning::Range(field, ..) => {
                Some(field.name.clone())
            }
            Partitioning::None | Partitioning::Ingestion(_) => None,
        };
        for (i, field) in meta.schema.fields.iter().enumerate() {
            let clustered = meta
                .clustering
                .as_ref()
                .and_then(|c| {
                    c.fields
                        .iter()
                        .position(|f| f.eq_ignore_ascii_case(&field.name))
                })
                .and_then(|p| i64::try_from(p + 1).ok());
            let mut row = name_of(table);
            row.extend([
                text(&field.name),
                int(i64::try_from(i + 1).unwrap_or(i64::MAX)),
                yes(field.mode() != Mode::Required),
                text(field.sql_type()),
                text("NEVER"),
                maybe(None),
                maybe(None),
                yes(false),
                maybe(None),
                yes(false),
                yes(partitioning.as_ref() == Some(&field.name)),
                ScalarValue::Int64(clustered),
                text(field.collation.clone().unwrap_or_else(|| "NULL".into())),
                text(
                    field
                        .default_value_expression
                        .clone()
                        .unwrap_or_else(|| "NULL".into()),
                ),
                maybe(field.rounding_mode.clone()),
            ]);
            view.rows.push(row);
        }
        if let Partitioning::Ingestion(_) = meta.partitioning() {
            let mut row = name_of(table);
            row.extend([
                text("_PARTITIONTIME"),
                ScalarValue::Int64(None),
                yes(true),
                text("TIMESTAMP"),
                text("NEVER"),
                maybe(None),
                maybe(None),
                yes(true),
                maybe(None),
                yes(true),
                yes(true),
                ScalarValue::Int64(None),
                text("NULL"),
                text("NULL"),
                maybe(None),
            ]);
            view.rows.push(row);
        }
    }
    view
}

fn field_paths(tables: &[Arc<Table>]) -> View {
    let mut view = with_name(&[
        ("column_name", S),
        ("field_path", S),
        ("data_type", S),
        ("description", S),
        ("collation_name", S),
        ("rounding_mode", S),
    ]);
    fn walk(view: &mut View, table: &Table, column: &str, path: &str, field: &Field) {
        let mut row = name_of(table);
        row.extend([
            text(column),
            text(path),
            text(field.sql_type()),
            maybe(field.description.clone()),
            text(field.collation.clone().unwrap_or_else(|| "NULL".into())),
            maybe(field.rounding_mode.clone()),
        ]);
        view.rows.push(row);
        for inner in field.fields() {
            walk(
                view,
                table,
                column,
                &format!("{path}.{}", inner.name),
                inner,
            );
        }
    }
    for table in tables {
        for field in &table.meta().schema.fields {
            walk(&mut view, table, &field.name, &field.name, field);
        }
    }
    view
}

fn views(tables: &[Arc<Table>]) -> View {
    let mut view = with_name(&[
        ("view_definition", S),
        ("check_option", S),
        ("use_standard_sql", S),
    ]);
    for table in tables {
        let meta = table.meta();
        if let TableKind::View(definition) | TableKind::MaterializedView(definition) = &meta.kind {
            let mut row = name_of(table);
            row.extend([text(&definition.query), maybe(None), yes(true)]);
            view.rows.push(row);
        }
    }
    view
}
