//! CREATE TABLE: columns, partitioning, and tables made from others.

use std::sync::Arc;

use serde_json::json;

use super::super::functions::SqlType;
use super::analyze::{Analyzer, resolve_type};
use super::ast::{
    ColumnDef, ColumnType, CreateMode, CreateTable, Expr, ExprKind, ForeignKey, Ident, TableSource,
};
use super::ddl::{Done, about_table};
use super::env::{Effect, Env};
use super::insert::stored;
use super::options;
use super::select;
use super::session::{for_each, planned};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, TableSchema, arrow_schema, validate_schema};
use crate::store::{
    ClusteringSpec, Mutation, RangePartitioning, Segment, SegmentWriter, TableKind, TableMeta,
    TimePartitioning, micros_now, millis_now,
};

/// The column that a definition describes.
pub(super) fn column(analyzer: &Analyzer<'_>, def: &ColumnDef, sql: &str) -> Result<Field> {
    let mut field = match &def.column_type {
        ColumnType::Scalar(name) => {
            let (ty, parameters) = resolve_type(name, sql)?;
            let mut field = ty.to_column(&def.name.name);
            if let Some(parameters) = parameters {
                parameters.apply(&mut field);
            }
            plain_modes(&mut field);
            field
        }
        ColumnType::Struct(fields) => {
            let fields = fields
                .iter()
                .map(|f| column(analyzer, f, sql))
                .collect::<Result<_>>()?;
            Field::new(&def.name.name, FieldType::Struct(fields))
        }
        ColumnType::Array(element) => {
            if matches!(element.column_type, ColumnType::Array(_)) {
                return Err(ServiceError::invalid_query(
                    "Arrays of arrays are not supported",
                ));
            }
            let mut field = column(analyzer, element, sql)?;
            field.name.clone_from(&def.name.name);
            if field.mode() == Mode::Required {
                return Err(ServiceError::unsupported("NOT NULL on array elements"));
            }
            field.with_mode(Mode::Repeated)
        }
    };
    if def.not_null {
        if field.mode() == Mode::Repeated {
            return Err(ServiceError::invalid_query(format!(
                "NOT NULL constraint is not allowed on ARRAY column {}",
                def.name.name
            )));
        }
        field.mode = Some(Mode::Required);
    }
    match def.collate.as_deref() {
        None | Some("") => {}
        Some("und:ci") if matches!(field.field_type, FieldType::String) => {
            field.collation = Some("und:ci".into());
        }
        Some(other) => {
            return Err(ServiceError::invalid_query(format!(
                "Invalid collation {other} for column {}",
                def.name.name
            )));
        }
    }
    options::column(analyzer, &def.options, &mut field)?;
    if let Some(default) = &def.default {
        field.default_value_expression = Some(default.clone());
        // A default that does not fit its column is refused at creation.
        let expr = super::parser::parse_expression(default)?;
        analyzer.value_for_column(&expr, &field)?;
    }
    Ok(field)
}

/// Columns of tables say nothing where NULL is allowed (recorded).
pub(super) fn plain_modes(field: &mut Field) {
    if field.mode == Some(Mode::Nullable) {
        field.mode = None;
    }
    if let FieldType::Struct(fields) = &mut field.field_type {
        fields.iter_mut().for_each(plain_modes);
    }
}

fn partition_column(e: &Expr) -> Option<&Ident> {
    match &e.kind {
        ExprKind::Ident(name) => Some(name),
        _ => None,
    }
}

/// Reads `PARTITION BY`.
fn partition(
    analyzer: &Analyzer<'_>,
    e: &Expr,
    schema: &TableSchema,
    meta: &mut TableMeta,
) -> Result<()> {
    let bad = || {
        analyzer.error(
            e.at,
            "PARTITION BY expression must be DATE(<timestamp_column>), DATE(<datetime_column>), DATETIME_TRUNC(<datetime_column>, DAY/HOUR/MONTH/YEAR), a DATE column, TIMESTAMP_TRUNC(<timestamp_column>, DAY/HOUR/MONTH/YEAR), DATE_TRUNC(<date_column>, MONTH/YEAR), or RANGE_BUCKET(<int64_column>, GENERATE_ARRAY(<int64_value>, <int64_value>[, <int64_value>]))",
        )
    };
    let (name, granularity) = match &e.kind {
        ExprKind::Ident(name) => (name, "DAY".to_string()),
        ExprKind::Call(call) => {
            let [function] = call.name.as_slice() else {
                return Err(bad());
            };
            let args = &call.args;
            if function.is("RANGE_BUCKET") {
                meta.range_partitioning = Some(range_partition(analyzer, args, &bad)?);
                return Ok(());
            }
            let Some(name) = args.first().and_then(|a| partition_column(&a.value)) else {
                return Err(bad());
            };
            let part = match args.get(1).map(|a| &a.value.kind) {
                Some(ExprKind::Ident(part)) => Some(part.name.to_ascii_uppercase()),
                None => None,
                Some(_) => return Err(bad()),
            };
            match (function.name.to_ascii_uppercase().as_str(), part) {
                ("DATE", None) => (name, "DAY".to_string()),
                ("DATE_TRUNC" | "DATETIME_TRUNC" | "TIMESTAMP_TRUNC", Some(part)) => (name, part),
                _ => return Err(bad()),
            }
        }
        _ => return Err(bad()),
    };
    if !matches!(granularity.as_str(), "HOUR" | "DAY" | "MONTH" | "YEAR") {
        return Err(bad());
    }
    let pseudo = name.is("_PARTITIONTIME") || name.is("_PARTITIONDATE");
    let field = if pseudo {
        None
    } else {
        let Some(field) = schema.field(&name.name) else {
            return Err(analyzer.error(name.at, format_args!("Unrecognized name: {}", name.name)));
        };
        let bare = matches!(e.kind, ExprKind::Ident(_));
        if bare && !matches!(field.field_type, FieldType::Date) {
            return Err(bad());
        }
        Some(field.name.clone())
    };
    meta.time_partitioning = Some(TimePartitioning {
        granularity,
        field,
        expiration_ms: None,
    });
    Ok(())
}

fn range_partition(
    analyzer: &Analyzer<'_>,
    args: &[super::ast::Argument],
    bad: &dyn Fn() -> ServiceError,
) -> Result<RangePartitioning> {
    let [column, bounds] = args else {
        return Err(bad());
    };
    let Some(column) = partition_column(&column.value) else {
        return Err(bad());
    };
    let ExprKind::Call(bounds) = &bounds.value.kind else {
        return Err(bad());
    };
    let is_generate = matches!(bounds.name.as_slice(), [name] if name.is("GENERATE_ARRAY"));
    if !is_generate || !(2..=3).contains(&bounds.args.len()) {
        return Err(bad());
    }
    let number = |i: usize| -> Result<i64> {
        let Some(argument) = bounds.args.get(i) else {
            return Ok(1);
        };
        let typed = analyzer.free_expr(&argument.value, "PARTITION BY")?;
        let typed = analyzer.assign(typed, &SqlType::Int64, "a partition bound")?;
        match analyzer.evaluate_typed(&typed)?.value {
            datafusion::scalar::ScalarValue::Int64(Some(n)) => Ok(n),
            _ => Err(bad()),
        }
    };
    Ok(RangePartitioning {
        field: column.name.clone(),
        start: number(0)?,
        end: number(1)?,
        interval: number(2)?,
    })
}

/// A foreign key as the REST resource has it.
pub(super) fn foreign_key(env: &Env, key: &ForeignKey) -> Result<serde_json::Value> {
    let table = env.table_ref(&key.table)?;
    let pairs: Vec<_> = key
        .columns
        .iter()
        .zip(&key.referenced)
        .map(|(own, other)| json!({"referencingColumn": own.name, "referencedColumn": other.name}))
        .collect();
    let mut value = json!({
        "referencedTable": table,
        "columnReferences": pairs,
    });
    if let Some(name) = &key.name {
        value["name"] = json!(name.name);
    }
    Ok(value)
}

/// The rows of a new table with the form that its schema asks for.
fn new_rows(
    env: &Env,
    analyzer: &Analyzer<'_>,
    rel: &super::analyze::Rel,
    schema: &TableSchema,
    partition: Option<i64>,
) -> Result<Vec<Segment>> {
    let items = rel
        .columns
        .iter()
        .zip(&schema.fields)
        .map(|(c, f)| Ok((None, analyzer.column_for_column(c, f)?)))
        .collect::<Result<Vec<_>>>()?;
    let rel = analyzer.projected(rel.clone(), items)?;
    if env.dry_run {
        planned(&env.context, &rel.plan)?;
        return Ok(Vec::new());
    }
    let arrow = arrow_schema(schema);
    let mut out = SegmentWriter::new(&env.service.store, partition);
    for_each(&env.context, &rel.plan, |batch| {
        let columns = rel
            .columns
            .iter()
            .zip(&schema.fields)
            .map(|(c, f)| {
                let column = batch
                    .column_by_name(&c.id)
                    .ok_or_else(|| ServiceError::internal("a query has its columns"))?;
                stored(column, f)
            })
            .collect::<Result<Vec<_>>>()?;
        out.push(super::output::to_batch(&columns, batch.num_rows(), &arrow)?)
    })?;
    out.finish()
}

pub(super) fn create_table(
    env: &Env,
    analyzer: &Analyzer<'_>,
    create: &CreateTable,
) -> Result<Done> {
    let statement_type = match (&create.query, create.snapshot) {
        (_, true) => "CREATE_SNAPSHOT_TABLE",
        (Some(_), false) => "CREATE_TABLE_AS_SELECT",
        (None, false) => "CREATE_TABLE",
    };
    let reference = if create.temporary {
        env.temporary_table(&create.path)?
    } else {
        env.table_ref(&create.path)?
    };
    match create.collate.as_deref() {
        None | Some("") => {}
        Some(other) => {
            return Err(ServiceError::unsupported(format_args!(
                "DEFAULT COLLATE '{other}'"
            )));
        }
    }
    let dataset = env.service.store.read(|state| {
        state
            .dataset(&reference.dataset_ref())
            .cloned()
            .ok_or_else(|| env.no_dataset(&reference.dataset_ref()))
    })?;
    let exists = env
        .service
        .store
        .read(|state| state.table(&reference).is_some());
    if exists && create.mode == CreateMode::IfNotExists {
        return Ok(about_table(statement_type, "SKIP", reference));
    }
    if exists && create.mode == CreateMode::Plain {
        return Err(ServiceError::duplicate(format_args!("Table {reference}")));
    }
    let now = millis_now();
    let mut rows: Vec<Segment> = Vec::new();
    let mut meta = match &create.source {
        TableSource::Definition => {
            let query = match &create.query {
                Some(query) => Some(select::result_columns(analyzer, query)?),
                None => None,
            };
            let schema = table_schema(analyzer, create, query.as_ref())?;
            validate_schema(&schema)?;
            let mut meta =
                TableMeta::new(&dataset, TableKind::Table, Arc::new(schema.clone()), now);
            if let Some(e) = &create.partition_by {
                partition(analyzer, e, &schema, &mut meta)?;
            }
            if let Some(rel) = &query {
                let partition = meta.ingestion_partition(micros_now());
                rows = new_rows(env, analyzer, rel, &schema, partition)?;
            }
            meta
        }
        source => {
            if create.query.is_some() || create.columns.is_some() {
                return Err(ServiceError::unsupported(
                    "Columns or a query beside LIKE, COPY or CLONE",
                ));
            }
            derived(env, analyzer, source, create, &mut rows, now)?
        }
    };
    if !create.cluster_by.is_empty() {
        meta.clustering = Some(ClusteringSpec {
            fields: create
                .cluster_by
                .iter()
                .map(|c| {
                    meta.schema
                        .field(&c.name)
                        .map_or_else(|| c.name.clone(), |f| f.name.clone())
                })
                .collect(),
        });
    }
    if let Some(key) = &create.primary_key {
        meta.primary_key = key_columns(&meta.schema, key)?;
    }
    for key in &create.foreign_keys {
        meta.foreign_keys.push(foreign_key(env, key)?);
    }
    options::table(analyzer, &create.options, &mut meta)?;
    meta.validate_layout()?;
    let operation = if exists { "REPLACE" } else { "CREATE" };
    let done = Done {
        schema: Some((*meta.schema).clone()),
        ..about_table(statement_type, operation, reference.clone())
    };
    if env.dry_run {
        return Ok(done);
    }
    env.commit(Effect::Ddl(&done), |state| {
        if state.dataset(&reference.dataset_ref()).is_none() {
            return Err(env.no_dataset(&reference.dataset_ref()));
        }
        let mut mutations = Vec::new();
        if state.table(&reference).is_some() {
            match create.mode {
                CreateMode::OrReplace => mutations.push(Mutation::DropTable(reference.clone())),
                CreateMode::IfNotExists => return Ok(Vec::new()),
                CreateMode::Plain => {
                    return Err(ServiceError::duplicate(format_args!("Table {reference}")));
                }
            }
        }
        mutations.push(Mutation::PutTable(reference.clone(), Box::new(meta)));
        if !rows.is_empty() {
            mutations.push(Mutation::Append(reference.clone(), rows));
        }
        Ok(mutations)
    })?;
    Ok(done)
}

/// Positions of key columns must exist.
pub(super) fn key_columns(schema: &TableSchema, key: &[Ident]) -> Result<Vec<String>> {
    key.iter()
        .map(|c| match schema.field(&c.name) {
            Some(field) => Ok(field.name.clone()),
            None => Err(ServiceError::invalid_query(format!(
                "Column {} of the primary key is not present in the table",
                c.name
            ))),
        })
        .collect()
}

/// The schema of a new table: as written, or that of its query.
fn table_schema(
    analyzer: &Analyzer<'_>,
    create: &CreateTable,
    query: Option<&super::analyze::Rel>,
) -> Result<TableSchema> {
    if let Some(columns) = &create.columns {
        let fields = columns
            .iter()
            .map(|c| column(analyzer, c, analyzer.sql()))
            .collect::<Result<Vec<_>>>()?;
        if let Some(rel) = query
            && rel.columns.len() != fields.len()
        {
            return Err(ServiceError::invalid_query(format!(
                "The number of columns in the column definition list ({}) does not match that of the query ({})",
                fields.len(),
                rel.columns.len()
            )));
        }
        return Ok(TableSchema::new(fields));
    }
    let Some(rel) = query else {
        return Err(ServiceError::invalid_query(
            "CREATE TABLE needs columns or a query",
        ));
    };
    if let Some(unnamed) = rel.columns.iter().position(|c| c.name.is_none()) {
        return Err(ServiceError::invalid_query(format!(
            "CREATE TABLE columns must be named, but column {} has no name",
            unnamed + 1
        )));
    }
    let mut schema = select::distinct_schema(&rel.columns, "CREATE TABLE")?;
    schema.fields.iter_mut().for_each(plain_modes);
    Ok(schema)
}

/// A table made from another one.
fn derived(
    env: &Env,
    analyzer: &Analyzer<'_>,
    source: &TableSource,
    create: &CreateTable,
    rows: &mut Vec<Segment>,
    now: i64,
) -> Result<TableMeta> {
    let (path, time) = match source {
        TableSource::Like(path) | TableSource::Copy(path) => (path, None),
        TableSource::Clone(path, time) => (path, time.as_ref()),
        TableSource::Definition => {
            return Err(ServiceError::internal("a definition is no source"));
        }
    };
    let reference = env.table_ref(path)?;
    let table = env.table(&reference)?;
    let mut meta = (*table.meta()).clone();
    if meta.kind != TableKind::Table {
        return Err(ServiceError::invalid_query(format!(
            "{reference} is not a table"
        )));
    }
    env.note_read(&reference);
    let snapshot = match time {
        Some(e) => analyzer.snapshot_at(&table, analyzer.instant(e)?)?,
        None => env.snapshot(&table),
    };
    meta.schema = Arc::clone(&snapshot.schema);
    meta.creation_time = now;
    meta.touch(now);
    meta.expiration_time = None;
    meta.extra.remove("snapshotDefinition");
    if let Some(e) = &create.partition_by {
        meta.time_partitioning = None;
        meta.range_partitioning = None;
        let schema = Arc::clone(&meta.schema);
        partition(analyzer, e, &schema, &mut meta)?;
    }
    if create.snapshot {
        meta.extra.insert(
            "snapshotDefinition".into(),
            json!({"baseTableReference": reference}),
        );
    }
    if !matches!(source, TableSource::Like(_)) {
        for segment in &snapshot.segments {
            rows.push(segment.share());
        }
    }
    Ok(meta)
}
