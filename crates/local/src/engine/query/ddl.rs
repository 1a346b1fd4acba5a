//! CREATE and DROP.

use std::sync::Arc;

use arrow::array::RecordBatch;
use serde_json::json;

use super::super::functions::SqlType;
use super::super::request::DdlOutcome;
use super::alter;
use super::analyze::{Analyzer, resolve_type};
use super::ast::{
    ColumnDef, ColumnType, CreateFunction, CreateMode, CreateProcedure, CreateSchema, CreateTable,
    CreateView, Drop, Expr, ExprKind, ForeignKey, FunctionBody, Ident, ObjectKind, Path, Statement,
    StatementKind, TableSource,
};
use super::env::Env;
use super::insert::stored;
use super::options;
use super::select;
use super::session::run as run_plan;
use crate::error::{Reason, Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, TableSchema, arrow_schema, validate_schema};
use crate::store::{
    ClusteringSpec, Dataset, DatasetRef, Mutation, RangePartitioning, Segment, TableKind,
    TableMeta, TableRef, TimePartitioning, View, micros_now, millis_now,
};

/// What a DDL statement did.
pub(super) struct Done {
    pub(super) statement_type: &'static str,
    pub(super) outcome: DdlOutcome,
    /// Columns of a new table or view, which its job reports (recorded).
    pub(super) schema: Option<TableSchema>,
}

/// An outcome about a table.
pub(super) fn about_table(
    statement_type: &'static str,
    operation: &'static str,
    table: TableRef,
) -> Done {
    Done {
        statement_type,
        schema: None,
        outcome: DdlOutcome {
            operation,
            dataset: None,
            table: Some(table),
        },
    }
}

fn about_dataset(
    statement_type: &'static str,
    operation: &'static str,
    dataset: DatasetRef,
) -> Done {
    Done {
        statement_type,
        schema: None,
        outcome: DdlOutcome {
            operation,
            dataset: Some(dataset),
            table: None,
        },
    }
}

fn about_routine(statement_type: &'static str, operation: &'static str) -> Done {
    Done {
        statement_type,
        schema: None,
        outcome: DdlOutcome {
            operation,
            dataset: None,
            table: None,
        },
    }
}

/// Runs a DDL statement.
pub(super) fn run(
    env: &Env,
    analyzer: &Analyzer<'_>,
    statement: &Statement,
    text: &str,
) -> Result<Done> {
    let routine = matches!(
        statement.kind,
        StatementKind::CreateFunction(_) | StatementKind::CreateProcedure(_)
    );
    let temporary = matches!(&statement.kind, StatementKind::CreateTable(t) if t.temporary);
    if !routine && !temporary {
        env.no_transaction("A DDL statement")?;
    }
    match &statement.kind {
        StatementKind::CreateTable(create) => create_table(env, analyzer, create),
        StatementKind::CreateView(create) => create_view(env, analyzer, create),
        StatementKind::CreateSchema(create) => create_schema(env, analyzer, create),
        StatementKind::CreateFunction(create) => create_function(env, analyzer, create),
        StatementKind::CreateProcedure(create) => create_procedure(env, create),
        StatementKind::Drop(drop) => drop_object(env, drop),
        StatementKind::Alter(alter) => alter::alter(env, analyzer, alter),
        _ => Err(ServiceError::unsupported(format_args!(
            "The statement {}",
            text.split_whitespace().next().unwrap_or("")
        ))),
    }
}

// ----- columns -----

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
fn plain_modes(field: &mut Field) {
    if field.mode == Some(Mode::Nullable) {
        field.mode = None;
    }
    if let FieldType::Struct(fields) = &mut field.field_type {
        fields.iter_mut().for_each(plain_modes);
    }
}

// ----- tables -----

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
) -> Result<Vec<RecordBatch>> {
    let items = rel
        .columns
        .iter()
        .zip(&schema.fields)
        .map(|(c, f)| Ok((None, analyzer.column_for_column(c, f)?)))
        .collect::<Result<Vec<_>>>()?;
    let rel = analyzer.projected(rel.clone(), items)?;
    if env.dry_run {
        return Ok(Vec::new());
    }
    let arrow = arrow_schema(schema);
    run_plan(&env.context, &rel.plan)?
        .iter()
        .filter(|b| b.num_rows() > 0)
        .map(|batch| {
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
            super::output::to_batch(&columns, batch.num_rows(), &arrow)
        })
        .collect()
}

fn create_table(env: &Env, analyzer: &Analyzer<'_>, create: &CreateTable) -> Result<Done> {
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
                let batches = new_rows(env, analyzer, rel, &schema)?;
                if !batches.is_empty() {
                    rows.push(Segment::in_memory(
                        batches,
                        meta.ingestion_partition(micros_now()),
                    ));
                }
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
    env.commit(|state| {
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

// ----- views -----

/// The columns of a view's query.
pub(super) fn view_columns(env: &Env, text: &str) -> Result<TableSchema> {
    let query = super::parser::parse_query(text)?;
    let analyzer = Analyzer::new(env, text);
    let rel = select::result_columns(&analyzer, &query)?;
    let mut schema = select::distinct_schema(&rel.columns, "CREATE VIEW")?;
    schema.fields.iter_mut().for_each(plain_modes);
    Ok(schema)
}

fn create_view(env: &Env, analyzer: &Analyzer<'_>, create: &CreateView) -> Result<Done> {
    let statement_type = if create.materialized {
        "CREATE_MATERIALIZED_VIEW"
    } else {
        "CREATE_VIEW"
    };
    if create.partition_by.is_some() || !create.cluster_by.is_empty() {
        return Err(ServiceError::unsupported(
            "PARTITION BY or CLUSTER BY of a materialized view",
        ));
    }
    let reference = env.table_ref(&create.path)?;
    let schema = view_columns(env, &create.text)?;
    let schema = match &create.columns {
        None => schema,
        Some(columns) => {
            let same = columns.len() == schema.fields.len()
                && columns
                    .iter()
                    .zip(&schema.fields)
                    .all(|((name, _), f)| name.is(&f.name));
            if !same {
                return Err(ServiceError::unsupported(
                    "A column list in CREATE VIEW that renames columns",
                ));
            }
            let mut schema = schema;
            for ((_, opts), field) in columns.iter().zip(&mut schema.fields) {
                options::column(analyzer, opts, field)?;
            }
            schema
        }
    };
    let view = View {
        query: create.text.clone(),
    };
    let kind = if create.materialized {
        TableKind::MaterializedView(view)
    } else {
        TableKind::View(view)
    };
    let dataset = env.service.store.read(|state| {
        state
            .dataset(&reference.dataset_ref())
            .cloned()
            .ok_or_else(|| env.no_dataset(&reference.dataset_ref()))
    })?;
    let mut meta = TableMeta::new(&dataset, kind, Arc::new(schema), millis_now());
    options::table(analyzer, &create.options, &mut meta)?;
    let exists = env
        .service
        .store
        .read(|state| state.table(&reference).is_some());
    let operation = match (exists, create.mode) {
        (true, CreateMode::IfNotExists) => {
            return Ok(about_table(statement_type, "SKIP", reference));
        }
        (true, CreateMode::Plain) => {
            return Err(ServiceError::duplicate(format_args!("Table {reference}")));
        }
        (true, CreateMode::OrReplace) => "REPLACE",
        (false, _) => "CREATE",
    };
    let done = Done {
        schema: Some((*meta.schema).clone()),
        ..about_table(statement_type, operation, reference.clone())
    };
    if env.dry_run {
        return Ok(done);
    }
    env.commit(|state| {
        let mut mutations = Vec::new();
        if state.table(&reference).is_some() {
            if create.mode != CreateMode::OrReplace {
                return Err(ServiceError::duplicate(format_args!("Table {reference}")));
            }
            mutations.push(Mutation::DropTable(reference.clone()));
        }
        mutations.push(Mutation::PutTable(reference.clone(), Box::new(meta)));
        Ok(mutations)
    })?;
    Ok(done)
}

// ----- datasets -----

fn create_schema(env: &Env, analyzer: &Analyzer<'_>, create: &CreateSchema) -> Result<Done> {
    let reference = env.dataset_ref(&create.path)?;
    let valid = !reference.dataset.is_empty()
        && reference.dataset.len() <= 1024
        && reference
            .dataset
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !valid {
        return Err(ServiceError::invalid(format!(
            "Invalid dataset ID \"{}\". Dataset IDs must be alphanumeric (plus underscores) and must be at most 1024 characters long.",
            reference.dataset
        )));
    }
    match create.collate.as_deref() {
        None | Some("") => {}
        Some(other) => {
            return Err(ServiceError::unsupported(format_args!(
                "DEFAULT COLLATE '{other}'"
            )));
        }
    }
    if create.mode == CreateMode::OrReplace {
        return Err(ServiceError::invalid_query(
            "CREATE OR REPLACE SCHEMA is not supported",
        ));
    }
    let mut dataset = Dataset::new(env.location.clone(), millis_now());
    options::dataset(analyzer, &create.options, &mut dataset)?;
    let exists = env
        .service
        .store
        .read(|state| state.dataset(&reference).is_some());
    if exists {
        return match create.mode {
            CreateMode::IfNotExists => Ok(about_dataset("CREATE_SCHEMA", "SKIP", reference)),
            _ => Err(ServiceError::duplicate(format_args!("Dataset {reference}"))),
        };
    }
    if !env.dry_run {
        env.commit(|state| {
            if state.dataset(&reference).is_some() {
                return Err(ServiceError::duplicate(format_args!("Dataset {reference}")));
            }
            Ok(vec![Mutation::PutDataset(reference.clone(), dataset)])
        })?;
    }
    Ok(about_dataset("CREATE_SCHEMA", "CREATE", reference))
}

// ----- routines -----

/// The key under which a script knows a routine.
fn routine_key(env: &Env, path: &Path, temporary: bool) -> Result<String> {
    let parts: Vec<&str> = path.iter().map(|i| i.name.as_str()).collect();
    let key = match parts.as_slice() {
        [name] if temporary => (*name).to_string(),
        [name] => match &*env.default_dataset.borrow() {
            Some(d) => format!("{}.{}.{name}", d.project, d.dataset),
            None => {
                return Err(ServiceError::invalid(format!(
                    "Routine name \"{name}\" missing dataset while no default dataset is set in the request."
                )));
            }
        },
        [dataset, name] if !temporary => format!("{}.{dataset}.{name}", env.project),
        [project, dataset, name] if !temporary => format!("{project}.{dataset}.{name}"),
        _ => {
            return Err(ServiceError::invalid_query(format!(
                "Invalid routine name: {}",
                parts.join(".")
            )));
        }
    };
    Ok(key.to_ascii_lowercase())
}

/// Routines that outlive their script have no place in the store.
fn require_temporary(env: &Env, key: &str) -> Result<()> {
    let mut parts = key.split('.');
    if let (Some(project), Some(dataset), Some(_)) = (parts.next(), parts.next(), parts.next()) {
        let known = env.service.store.read(|state| {
            state
                .datasets(&env.project)
                .any(|(d, _)| d.dataset.eq_ignore_ascii_case(dataset))
        });
        if !known && env.project.eq_ignore_ascii_case(project) {
            return Err(env.no_dataset(&DatasetRef::new(&env.project, dataset)));
        }
    }
    Ok(())
}

fn create_function(env: &Env, analyzer: &Analyzer<'_>, create: &CreateFunction) -> Result<Done> {
    let table = matches!(create.body, FunctionBody::Table(_));
    let statement_type = if table {
        "CREATE_TABLE_FUNCTION"
    } else {
        "CREATE_FUNCTION"
    };
    if let FunctionBody::Other(what) = &create.body {
        return Err(ServiceError::unsupported(what));
    }
    if create.aggregate {
        return Err(ServiceError::unsupported("CREATE AGGREGATE FUNCTION"));
    }
    let key = routine_key(env, &create.path, create.temporary)?;
    if !create.temporary {
        require_temporary(env, &key)?;
    }
    analyzer.check_function(create)?;
    let exists = env.function_at(&key).is_some();
    let operation = match (exists, create.mode) {
        (true, CreateMode::IfNotExists) => return Ok(about_routine(statement_type, "SKIP")),
        (true, CreateMode::Plain) if !create.temporary => {
            return Err(ServiceError::duplicate(format_args!(
                "Routine {}",
                env.routine_name(&create.path)
            )));
        }
        (true, _) => "REPLACE",
        (false, _) => "CREATE",
    };
    if create.temporary {
        env.functions
            .borrow_mut()
            .insert(key, Arc::new(create.clone()));
    } else if !env.dry_run {
        env.service.routines.put_function(key, create.text.clone());
    }
    Ok(about_routine(statement_type, operation))
}

fn create_procedure(env: &Env, create: &CreateProcedure) -> Result<Done> {
    let key = routine_key(env, &create.path, false)?;
    require_temporary(env, &key)?;
    let exists = env.procedure_at(&key).is_some();
    let operation = match (exists, create.mode) {
        (true, CreateMode::IfNotExists) => return Ok(about_routine("CREATE_PROCEDURE", "SKIP")),
        (true, CreateMode::Plain) => {
            return Err(ServiceError::duplicate(format_args!(
                "Routine {}",
                env.routine_name(&create.path)
            )));
        }
        (true, CreateMode::OrReplace) => "REPLACE",
        (false, _) => "CREATE",
    };
    if !env.dry_run {
        env.service.routines.put_procedure(key, create.text.clone());
    }
    Ok(about_routine("CREATE_PROCEDURE", operation))
}

// ----- DROP -----

fn drop_object(env: &Env, drop: &Drop) -> Result<Done> {
    match drop.kind {
        ObjectKind::Schema => drop_schema(env, drop),
        ObjectKind::Function | ObjectKind::TableFunction | ObjectKind::Procedure => {
            drop_routine(env, drop)
        }
        ObjectKind::Table
        | ObjectKind::View
        | ObjectKind::MaterializedView
        | ObjectKind::SnapshotTable
        | ObjectKind::ExternalTable => drop_table(env, drop),
    }
}

fn drop_routine(env: &Env, drop: &Drop) -> Result<Done> {
    let statement_type = match drop.kind {
        ObjectKind::Procedure => "DROP_PROCEDURE",
        ObjectKind::TableFunction => "DROP_TABLE_FUNCTION",
        _ => "DROP_FUNCTION",
    };
    let temporary = drop.path.len() == 1
        && env
            .functions
            .borrow()
            .contains_key(&drop.path[0].name.to_ascii_lowercase());
    let key = routine_key(env, &drop.path, temporary)?;
    let found = if drop.kind == ObjectKind::Procedure {
        env.procedure_at(&key).is_some()
    } else {
        let table = drop.kind == ObjectKind::TableFunction;
        env.function_at(&key)
            .is_some_and(|f| matches!(f.body, FunctionBody::Table(_)) == table)
    };
    if !found {
        if drop.if_exists {
            return Ok(about_routine(statement_type, "SKIP"));
        }
        return Err(ServiceError::not_found(format_args!(
            "Routine {}",
            env.routine_name(&drop.path)
        )));
    }
    if !env.dry_run {
        env.functions.borrow_mut().remove(&key);
        env.service.routines.remove(&key);
    }
    Ok(about_routine(statement_type, "DROP"))
}

fn drop_schema(env: &Env, drop: &Drop) -> Result<Done> {
    let reference = env.dataset_ref(&drop.path)?;
    let plan = |state: &crate::store::State| -> Result<bool> {
        if state.dataset(&reference).is_none() {
            if drop.if_exists {
                return Ok(false);
            }
            return Err(env.no_dataset(&reference));
        }
        if !drop.cascade && state.tables(&reference).next().is_some() {
            return Err(ServiceError::new(
                Reason::ResourceInUse,
                format!("Dataset {reference} is still in use"),
            ));
        }
        Ok(true)
    };
    let found = env.service.store.read(plan)?;
    if !found {
        return Ok(about_dataset("DROP_SCHEMA", "SKIP", reference));
    }
    if !env.dry_run {
        env.commit(|state| {
            Ok(if plan(state)? {
                vec![Mutation::DropDataset(reference.clone())]
            } else {
                Vec::new()
            })
        })?;
    }
    Ok(about_dataset("DROP_SCHEMA", "DROP", reference))
}

fn drop_table(env: &Env, drop: &Drop) -> Result<Done> {
    let (statement_type, word) = match drop.kind {
        ObjectKind::View => ("DROP_VIEW", "VIEW"),
        ObjectKind::MaterializedView => ("DROP_MATERIALIZED_VIEW", "MATERIALIZED VIEW"),
        ObjectKind::SnapshotTable => ("DROP_SNAPSHOT_TABLE", "SNAPSHOT TABLE"),
        ObjectKind::ExternalTable => ("DROP_EXTERNAL_TABLE", "EXTERNAL TABLE"),
        _ => ("DROP_TABLE", "TABLE"),
    };
    let reference = env.table_ref(&drop.path)?;
    let plan = |state: &crate::store::State| -> Result<bool> {
        let table = match state.table(&reference) {
            Some(table) => table,
            None if drop.if_exists => return Ok(false),
            None => {
                return Err(env.require(state, &reference).err().unwrap_or_else(|| {
                    ServiceError::not_found(format_args!("Table {reference}"))
                }));
            }
        };
        let meta = table.meta();
        let snapshot = meta.extra.contains_key("snapshotDefinition");
        let fits = match drop.kind {
            ObjectKind::View => matches!(meta.kind, TableKind::View(_)),
            ObjectKind::MaterializedView => matches!(meta.kind, TableKind::MaterializedView(_)),
            ObjectKind::ExternalTable => matches!(meta.kind, TableKind::External),
            ObjectKind::SnapshotTable => snapshot,
            _ => matches!(meta.kind, TableKind::Table | TableKind::External),
        };
        if !fits {
            return Err(ServiceError::invalid_query(format!(
                "{reference} is not a {word}, which DROP {word} needs"
            )));
        }
        Ok(true)
    };
    let found = env.service.store.read(plan)?;
    if !found {
        return Ok(about_table(statement_type, "SKIP", reference));
    }
    if !env.dry_run {
        env.commit(|state| {
            Ok(if plan(state)? {
                vec![Mutation::DropTable(reference.clone())]
            } else {
                Vec::new()
            })
        })?;
        env.temporary.borrow_mut().retain(|_, t| *t != reference);
    }
    Ok(about_table(statement_type, "DROP", reference))
}
