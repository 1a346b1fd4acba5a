//! ALTER.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::logical_expr::expr::ScalarFunction;

use super::super::functions::{CastMode, SqlType, cast};
use super::super::request::DdlOutcome;
use super::analyze::Analyzer;
use super::ast::{Alter, AlterAction, ColumnChange, Ident, ObjectKind};
use super::create_table::{column, foreign_key, key_columns};
use super::ddl::{Done, about_table};
use super::env::{Effect, Env};
use super::insert::stored;
use super::options;
use super::scan::{canonical, rows};
use super::session::{run, service_error};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, Mode, TableSchema, adapt_batch, arrow_schema, validate_schema};
use crate::store::{
    Mutation, Segment, SegmentWriter, Snapshot, TableKind, TableMeta, TableRef, millis_now,
};

/// What an ALTER does to stored rows.
enum Rewrite {
    /// Nothing.
    None,
    /// New columns by position: each from an old one, its type perhaps changed.
    Columns(Vec<Option<usize>>),
}

pub(super) fn alter(env: &Env, analyzer: &Analyzer<'_>, alter: &Alter) -> Result<Done> {
    match alter.kind {
        ObjectKind::Schema => alter_schema(env, analyzer, alter),
        ObjectKind::Table
        | ObjectKind::View
        | ObjectKind::MaterializedView
        | ObjectKind::SnapshotTable
        | ObjectKind::ExternalTable => alter_table(env, analyzer, alter),
        ObjectKind::Function | ObjectKind::TableFunction | ObjectKind::Procedure => {
            Err(ServiceError::unsupported("ALTER of a routine"))
        }
    }
}

fn alter_schema(env: &Env, analyzer: &Analyzer<'_>, alter: &Alter) -> Result<Done> {
    let reference = env.dataset_ref(&alter.path)?;
    let done = |operation: &'static str| Done {
        statement_type: "ALTER_SCHEMA",
        schema: None,
        outcome: DdlOutcome {
            operation: operation.into(),
            dataset: Some(reference.clone()),
            table: None,
        },
    };
    let current = env
        .service
        .store
        .read(|state| state.dataset(&reference).cloned());
    let Some(current) = current else {
        if alter.if_exists {
            return Ok(done("SKIP"));
        }
        return Err(env.no_dataset(&reference));
    };
    let mut dataset = (*current).clone();
    for action in &alter.actions {
        match action {
            AlterAction::SetOptions(opts) => options::dataset(analyzer, opts, &mut dataset)?,
            _ => {
                return Err(ServiceError::unsupported(
                    "ALTER SCHEMA other than SET OPTIONS",
                ));
            }
        }
    }
    dataset.etag = crate::store::fresh_etag();
    dataset.last_modified_time = millis_now();
    let altered = done("ALTER");
    if !env.dry_run {
        env.commit(Effect::Ddl(&altered), |state| {
            if state.dataset(&reference).is_none() {
                return Err(env.no_dataset(&reference));
            }
            Ok(vec![Mutation::PutDataset(reference.clone(), dataset)])
        })?;
    }
    Ok(altered)
}

fn alter_table(env: &Env, analyzer: &Analyzer<'_>, alter: &Alter) -> Result<Done> {
    let statement_type = match alter.kind {
        ObjectKind::View => "ALTER_VIEW",
        ObjectKind::MaterializedView => "ALTER_MATERIALIZED_VIEW",
        _ => "ALTER_TABLE",
    };
    let reference = env.table_ref(&alter.path)?;
    let table = match env.table(&reference) {
        Ok(table) => table,
        Err(_) if alter.if_exists => return Ok(about_table(statement_type, "SKIP", reference)),
        Err(error) => return Err(error),
    };
    let before = table.meta();
    let is_view = matches!(
        before.kind,
        TableKind::View(_) | TableKind::MaterializedView(_)
    );
    let wants_view = matches!(alter.kind, ObjectKind::View | ObjectKind::MaterializedView);
    if is_view != wants_view {
        return Err(ServiceError::invalid_query(format!(
            "{reference} is {} and ALTER names the other kind",
            if is_view { "a view" } else { "a table" }
        )));
    }
    let snapshot = table.snapshot();
    let mut meta = (*before).clone();
    let mut schema = (*meta.schema).clone();
    let mut rewrite = Rewrite::None;
    let mut renamed: Option<TableRef> = None;
    for action in &alter.actions {
        if is_view
            && !matches!(
                action,
                AlterAction::SetOptions(_) | AlterAction::RenameTo(_)
            )
        {
            return Err(ServiceError::unsupported("This ALTER of a view"));
        }
        apply(
            env,
            analyzer,
            action,
            &mut meta,
            &mut schema,
            &mut rewrite,
            &mut renamed,
            &reference,
        )?;
    }
    if schema.fields.is_empty() && !is_view {
        return Err(ServiceError::invalid_query(
            "ALTER TABLE cannot drop all columns of a table",
        ));
    }
    validate_schema(&schema)?;
    meta.schema = Arc::new(schema);
    meta.validate_layout()?;
    meta.touch(millis_now());
    let segments = match &rewrite {
        Rewrite::None => None,
        Rewrite::Columns(from) => Some(rewritten(
            env,
            &snapshot,
            &before.schema,
            &meta.schema,
            from,
        )?),
    };
    let done = about_table(statement_type, "ALTER", reference.clone());
    if env.dry_run {
        return Ok(done);
    }
    env.commit(Effect::Ddl(&done), |state| {
        let current = env.require(state, &reference)?;
        let same = current.incarnation() == table.incarnation()
            && current.meta().etag == before.etag
            && (segments.is_none() || current.changed() == snapshot.version);
        if !same {
            env.conflict.set(true);
            return Err(ServiceError::invalid_query(format!(
                "Could not serialize access to table {reference} due to concurrent update"
            )));
        }
        let mut mutations = Vec::new();
        match &renamed {
            None => {
                mutations.push(Mutation::PutTable(reference.clone(), Box::new(meta)));
                if let Some(segments) = segments {
                    mutations.push(Mutation::Replace(reference.clone(), segments));
                }
            }
            Some(to) => {
                if state.table(to).is_some() {
                    return Err(ServiceError::duplicate(format_args!("Table {to}")));
                }
                let segments = match segments {
                    Some(segments) => segments,
                    None => current
                        .snapshot()
                        .segments
                        .iter()
                        .map(|s| s.share())
                        .collect(),
                };
                mutations.push(Mutation::DropTable(reference.clone()));
                mutations.push(Mutation::PutTable(to.clone(), Box::new(meta)));
                if !segments.is_empty() {
                    mutations.push(Mutation::Append(to.clone(), segments));
                }
            }
        }
        Ok(mutations)
    })?;
    Ok(about_table(
        statement_type,
        "ALTER",
        renamed.unwrap_or(reference),
    ))
}

#[allow(clippy::too_many_arguments)]
fn apply(
    env: &Env,
    analyzer: &Analyzer<'_>,
    action: &AlterAction,
    meta: &mut TableMeta,
    schema: &mut TableSchema,
    rewrite: &mut Rewrite,
    renamed: &mut Option<TableRef>,
    reference: &TableRef,
) -> Result<()> {
    match action {
        AlterAction::SetOptions(opts) => options::table(analyzer, opts, meta),
        AlterAction::SetDefaultCollate(_) => Err(ServiceError::unsupported("SET DEFAULT COLLATE")),
        AlterAction::RenameTo(path) => {
            let [name] = path.as_slice() else {
                return Err(ServiceError::invalid_query(
                    "RENAME TO takes a table name without project and dataset",
                ));
            };
            *renamed = Some(reference.dataset_ref().table(&name.name));
            Ok(())
        }
        AlterAction::AddColumn {
            if_not_exists,
            column: def,
        } => {
            if schema.index_of(&def.name.name).is_some() {
                if *if_not_exists {
                    return Ok(());
                }
                return Err(ServiceError::invalid_query(format!(
                    "Column already exists: {}",
                    def.name.name
                )));
            }
            let field = column(analyzer, def, analyzer.sql())?;
            if field.mode() == Mode::Required {
                return Err(ServiceError::invalid_query(format!(
                    "Cannot add required columns to an existing schema. (field: {})",
                    field.name
                )));
            }
            if field.default_value_expression.is_some() {
                return Err(ServiceError::invalid_query(
                    "ALTER TABLE ADD COLUMN with a default value is not allowed: set the default afterwards",
                ));
            }
            schema.fields.push(field);
            if let Rewrite::Columns(from) = rewrite {
                from.push(None);
            }
            Ok(())
        }
        AlterAction::DropColumn { if_exists, name } => {
            let Some(i) = schema.index_of(&name.name) else {
                return missing(name, *if_exists);
            };
            refuse_used(meta, &schema.fields[i].name)?;
            columns(rewrite, schema).remove(i);
            schema.fields.remove(i);
            Ok(())
        }
        AlterAction::RenameColumn {
            if_exists,
            from,
            to,
        } => {
            let Some(i) = schema.index_of(&from.name) else {
                return missing(from, *if_exists);
            };
            if schema.index_of(&to.name).is_some_and(|j| j != i) {
                return Err(ServiceError::invalid_query(format!(
                    "Column already exists: {}",
                    to.name
                )));
            }
            refuse_used(meta, &schema.fields[i].name)?;
            columns(rewrite, schema);
            schema.fields[i].name.clone_from(&to.name);
            Ok(())
        }
        AlterAction::AddPrimaryKey {
            columns,
            if_not_exists,
        } => {
            if !meta.primary_key.is_empty() {
                if *if_not_exists {
                    return Ok(());
                }
                return Err(ServiceError::invalid_query(
                    "The table already has a primary key",
                ));
            }
            meta.primary_key = key_columns(schema, columns)?;
            Ok(())
        }
        AlterAction::DropPrimaryKey { if_exists } => {
            if meta.primary_key.is_empty() && !if_exists {
                return Err(ServiceError::invalid_query("The table has no primary key"));
            }
            meta.primary_key.clear();
            Ok(())
        }
        AlterAction::AddForeignKey(key) => {
            meta.foreign_keys.push(foreign_key(env, key)?);
            Ok(())
        }
        AlterAction::DropConstraint { name, if_exists } => {
            let before = meta.foreign_keys.len();
            meta.foreign_keys
                .retain(|k| k["name"].as_str() != Some(name.name.as_str()));
            if meta.foreign_keys.len() == before && !if_exists {
                return Err(ServiceError::invalid_query(format!(
                    "Constraint not found: {}",
                    name.name
                )));
            }
            Ok(())
        }
        AlterAction::AlterColumn {
            if_exists,
            name,
            change,
        } => {
            let Some(i) = schema.index_of(&name.name) else {
                return missing(name, *if_exists);
            };
            alter_column(analyzer, change, i, schema, rewrite)
        }
    }
}

fn missing(name: &Ident, if_exists: bool) -> Result<()> {
    if if_exists {
        return Ok(());
    }
    Err(ServiceError::invalid_query(format!(
        "Column not found: {}",
        name.name
    )))
}

/// The map of columns, which so far is the identity.
fn columns<'r>(rewrite: &'r mut Rewrite, schema: &TableSchema) -> &'r mut Vec<Option<usize>> {
    if let Rewrite::None = rewrite {
        *rewrite = Rewrite::Columns((0..schema.fields.len()).map(Some).collect());
    }
    match rewrite {
        Rewrite::Columns(map) => map,
        Rewrite::None => unreachable!("the map was just made"),
    }
}

fn refuse_used(meta: &TableMeta, name: &str) -> Result<()> {
    let is = |other: &String| other.eq_ignore_ascii_case(name);
    let partitioned = meta
        .time_partitioning
        .as_ref()
        .and_then(|t| t.field.as_ref())
        .is_some_and(is)
        || meta
            .range_partitioning
            .as_ref()
            .is_some_and(|r| is(&r.field));
    let clustered = meta
        .clustering
        .as_ref()
        .is_some_and(|c| c.fields.iter().any(is));
    if partitioned || clustered {
        return Err(ServiceError::invalid_query(format!(
            "Column {name} is used for partitioning or clustering and cannot be dropped or renamed"
        )));
    }
    if meta.primary_key.iter().any(is) {
        return Err(ServiceError::invalid_query(format!(
            "Column {name} belongs to the primary key and cannot be dropped or renamed"
        )));
    }
    Ok(())
}

fn alter_column(
    analyzer: &Analyzer<'_>,
    change: &ColumnChange,
    i: usize,
    schema: &mut TableSchema,
    rewrite: &mut Rewrite,
) -> Result<()> {
    match change {
        ColumnChange::DropNotNull => {
            if schema.fields[i].mode() == Mode::Required {
                schema.fields[i].mode = Some(Mode::Nullable);
            }
            Ok(())
        }
        ColumnChange::SetNotNull => Err(ServiceError::unsupported("ALTER COLUMN SET NOT NULL")),
        ColumnChange::SetDefault(text) => {
            let expr = super::parser::parse_expression(text)?;
            analyzer.value_for_column(&expr, &schema.fields[i])?;
            schema.fields[i].default_value_expression = Some(text.clone());
            Ok(())
        }
        ColumnChange::DropDefault => {
            schema.fields[i].default_value_expression = None;
            Ok(())
        }
        ColumnChange::SetOptions(opts) => options::column(analyzer, opts, &mut schema.fields[i]),
        ColumnChange::SetType(def) => {
            let mut to = column(analyzer, def, analyzer.sql())?;
            let from = &schema.fields[i];
            widens(from, &to)?;
            to.name.clone_from(&from.name);
            to.mode = from.mode;
            to.description.clone_from(&from.description);
            to.default_value_expression
                .clone_from(&from.default_value_expression);
            columns(rewrite, schema);
            schema.fields[i] = to;
            Ok(())
        }
    }
}

/// Types change only to ones that hold every value.
fn widens(from: &Field, to: &Field) -> Result<()> {
    use crate::schema::FieldType as T;
    let parameters = |f: &Field| match f.field_type {
        T::Numeric => (
            f.precision.map_or(29, |p| p - f.scale.unwrap_or(0)),
            f.precision.map_or(9, |_| f.scale.unwrap_or(0)),
        ),
        T::Bignumeric => (
            f.precision.map_or(39, |p| p - f.scale.unwrap_or(0)),
            f.precision.map_or(38, |_| f.scale.unwrap_or(0)),
        ),
        _ => (0, 0),
    };
    let decimal = |f: &Field, t: &Field| {
        let (a, b) = (parameters(f), parameters(t));
        b.0 >= a.0 && b.1 >= a.1
    };
    let length = |f: &Field| f.max_length.unwrap_or(i64::MAX);
    let ok = from.mode() != Mode::Repeated
        && to.mode() != Mode::Repeated
        && match (&from.field_type, &to.field_type) {
            (T::Int64, T::Float64) => true,
            (T::Int64, T::Numeric | T::Bignumeric) => parameters(to).0 >= 19,
            (T::Numeric | T::Bignumeric, T::Float64) => true,
            (T::Numeric, T::Numeric | T::Bignumeric) | (T::Bignumeric, T::Bignumeric) => {
                decimal(from, to)
            }
            (T::String, T::String) | (T::Bytes, T::Bytes) => length(to) >= length(from),
            (a, b) => a == b && from.fields().is_empty(),
        };
    if ok {
        return Ok(());
    }
    Err(ServiceError::invalid_query(format!(
        "ALTER TABLE ALTER COLUMN SET DATA TYPE requires that the existing column type ({}) is assignable to the new type ({})",
        from.sql_type(),
        to.sql_type()
    )))
}

/// The rows of a snapshot under another schema.
fn rewritten(
    env: &Env,
    snapshot: &Snapshot,
    old: &TableSchema,
    new: &TableSchema,
    from: &[Option<usize>],
) -> Result<Vec<Segment>> {
    let arrow = arrow_schema(new);
    let mut segments = Vec::new();
    for segment in &snapshot.segments {
        let mut out = SegmentWriter::new(&env.service.store, segment.partition());
        for batch in segment.reader()? {
            let batch = adapt_batch(&batch?, &snapshot.arrow)?;
            let columns = new
                .fields
                .iter()
                .zip(from)
                .map(|(field, source)| match source {
                    Some(i) => converted(env, batch.column(*i), &old.fields[*i], field),
                    None => {
                        let ty = SqlType::of_column(field).to_arrow();
                        stored(&arrow::array::new_null_array(&ty, batch.num_rows()), field)
                    }
                })
                .collect::<Result<Vec<_>>>()?;
            out.push(
                RecordBatch::try_new(Arc::clone(&arrow), columns)
                    .map_err(|e| ServiceError::internal(e.to_string()))?,
            )?;
        }
        segments.extend(out.finish()?);
    }
    Ok(segments)
}

fn converted(env: &Env, array: &ArrayRef, old: &Field, new: &Field) -> Result<ArrayRef> {
    let (from, to) = (SqlType::of_column(old), SqlType::of_column(new));
    if from == to {
        return stored(&canonical(array, &from.to_arrow())?, new);
    }
    let id = env.id();
    let value = canonical(array, &from.to_arrow())?;
    let columns = [(id.clone(), from.clone())];
    let batch = RecordBatch::try_new(
        super::scan::id_schema(columns.iter().map(|(id, t)| (id, t))),
        vec![value],
    )
    .map_err(|e| ServiceError::internal(e.to_string()))?;
    let udf = cast(&from.to_column(""), new, CastMode::Strict)?;
    let call = datafusion::logical_expr::Expr::ScalarFunction(ScalarFunction::new_udf(
        udf,
        vec![super::analyze::column(&id)],
    ));
    let plan = datafusion::logical_expr::LogicalPlanBuilder::from(rows(&columns, vec![batch])?)
        .project([call.alias("v")])
        .and_then(datafusion::logical_expr::LogicalPlanBuilder::build)
        .map_err(service_error)?;
    super::change::column_values(&run(&env.context, &plan)?, "v", new)
}
